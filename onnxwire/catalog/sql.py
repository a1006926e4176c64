"""SQL queries over the tables of a model or of a catalog, run by DuckDB."""

from __future__ import annotations

import errno
import os
import re

from onnxwire.arrow.arrow_table import ArrowTable, columns_of
from onnxwire.arrow.tables import TABLES
from onnxwire.engine.message import Message
from onnxwire.errors import MissingPackageError, QueryError, SourceError
from onnxwire.messages import ModelProto

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    import duckdb

    from onnxwire.io.source import Source


def sql(source: Source | Message, query: str, *, type: type[Message] = ModelProto) -> duckdb.DuckDBPyRelation | None:
    """Run an SQL query on a model, or on a catalog of models.

    source: any source that `load` accepts, a message, or the folder of a catalog. The tables are those of `to_arrow`,
    or those of the catalog; only tables that the query names are made. query: SQL in DuckDB's dialect, which may also
    write files. type: the class of the root message, if the source is loaded.
    Returns DuckDB's relation, which prints as a table and has `fetchall()`, `pl()`, `df()`, `to_arrow_table()`, and the
    Arrow PyCapsule interface; None for a statement without a result. The result is computed when it is read.
    Raises QueryError for a query that DuckDB rejects, MissingPackageError without DuckDB (the `sql` extra), and the
    errors of `to_arrow`.
    """
    try:
        import duckdb
    except ImportError:
        raise MissingPackageError("this needs DuckDB, which is not installed; `pip install duckdb`") from None
    connection = duckdb.connect()
    # A name in a query is a table, never a Python variable of the caller.
    connection.execute("set python_enable_replacements = false")
    # DuckDB downloads and loads only extensions that the query requests with `install` and `load`.
    connection.execute("set autoinstall_known_extensions = false")
    connection.execute("set autoload_known_extensions = false")
    try:
        if isinstance(source, str | os.PathLike) and os.path.isdir(source):
            _add_catalog(connection, os.fsdecode(source), query)
        else:
            _add_model(connection, source, query, type)
        return connection.sql(query)
    except duckdb.Error as error:
        raise QueryError(first_line(error)) from None


def first_line(error: Exception) -> str:
    """Return the message of a DuckDB error on one line, without the excerpt of the query."""
    text = str(error).strip()
    head, _, rest = text.partition("\n\n")
    line = re.match(r"LINE (\d+):", rest)
    # If Python code failed, for example because a package is missing, keep the last line of its traceback.
    head = re.sub(r"Traceback \(most recent call last\):\n.*\n", "", head, flags=re.DOTALL)
    return " ".join(head.split()) + (f" (line {line[1]} of the query)" if line else "")


def _add_model(
    connection: duckdb.DuckDBPyConnection, source: Source | Message, query: str, type: type[Message]
) -> None:
    if not isinstance(source, Message):
        from onnxwire.io.load import load

        source = load(source, type)
    for name in _named(TABLES, query):
        connection.register(name, ArrowTable(columns_of(source, TABLES[name], False)))


def _add_catalog(connection: duckdb.DuckDBPyConnection, folder: str, query: str) -> None:
    from onnxwire.catalog.dataset import files_of
    from onnxwire.catalog.read import NAMES, columns_of_table

    for name, files in files_of(folder, _named(NAMES, query)).items():
        columns = [(column, _sql_type(type)) for column, type in columns_of_table(name)]
        if not files:
            nulls = ", ".join(f'null::{type} as "{column}"' for column, type in columns)
            connection.execute(f'create view "{name}" as select {nulls} where false')
            continue
        # The listed files and no pattern: a concurrent run may have written files that are not valid yet.
        paths = list(map(_escape_pattern, files))
        # With union_by_name, DuckDB reads the columns of all files, otherwise those of the first only.
        every = connection.read_parquet(paths, hive_partitioning=False, union_by_name=True)
        if list(zip(every.columns, map(str, every.types), strict=True)) != columns:
            reason = "a file of this table has other columns than onnxwire writes; rebuild the catalog"
            raise SourceError(errno.EINVAL, reason, os.path.dirname(files[0]))
        connection.read_parquet(paths, hive_partitioning=False).create_view(name)


def _named(tables: Iterable[str], query: str) -> list[str]:
    """Return the tables whose names occur in a query."""
    return [name for name in tables if re.search(rf"\b{name}\b", query, re.IGNORECASE)]


def _sql_type(type: str) -> str:
    """Return DuckDB's name of a column type."""
    name = {"string": "VARCHAR", "int64": "BIGINT", "int32": "INTEGER", "bool": "BOOLEAN"}[type.strip("[]")]
    return f"{name}[]" if type.startswith("[") else name


def _escape_pattern(path: str) -> str:
    """Escape a path, so that DuckDB does not read it as a pattern."""
    return re.sub(r"([*?\[])", r"[\1]", path)
