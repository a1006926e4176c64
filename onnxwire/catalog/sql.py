"""Questions in SQL, answered by DuckDB over the tables of a model or of a catalog."""

from __future__ import annotations

import os
import re

from onnxwire.arrow.table import ArrowTable, columns_of
from onnxwire.arrow.tables import TABLES
from onnxwire.engine.message import Message
from onnxwire.errors import MissingPackageError, QueryError
from onnxwire.messages import ModelProto

TYPE_CHECKING = False
if TYPE_CHECKING:
    import duckdb

    from onnxwire.io.source import Source


def sql(source: Source | Message, query: str, *, type: type[Message] = ModelProto) -> duckdb.DuckDBPyRelation | None:
    """Ask a model, or a catalog of models, in SQL.

    source: what `load` takes, or a message; or the folder of a catalog. The tables are those of `to_arrow`, or those
    that the catalog has, by name; only the ones that the query names are made. query: SQL as DuckDB reads it, which may
    also write files. type: the class of the root message of what is loaded.
    Returns DuckDB's relation, which is printed as a table and has `fetchall()`, `pl()`, `df()`, `to_arrow_table()`, and
    the Arrow PyCapsule interface; None for a statement without a result. The answer is computed when it is asked for.
    Raises QueryError for what DuckDB refuses, MissingPackageError without DuckDB (the `sql` extra), and what `to_arrow`
    raises.
    """
    try:
        import duckdb
    except ImportError:
        raise MissingPackageError("this needs DuckDB, which is not installed; `pip install duckdb`") from None
    connection = duckdb.connect()
    # Names in a query are those of tables, not of whatever Python variables there are.
    connection.execute("set python_enable_replacements = false")
    if isinstance(source, str | os.PathLike) and os.path.isdir(source):
        _add_catalog(connection, os.fsdecode(source))
    else:
        _add_model(connection, source, query, type)
    try:
        return connection.sql(query)
    except duckdb.Error as error:
        raise QueryError(first_line(error)) from None


def first_line(error: Exception) -> str:
    """The message of an error of DuckDB, without the drawing of the position."""
    text = str(error).strip()
    head, _, rest = text.partition("\n\n")
    line = re.match(r"LINE (\d+):", rest)
    # Where Python is at fault, such as by a package that is missing, the last line of its traceback says what.
    head = re.sub(r"Traceback \(most recent call last\):\n.*\n", "", head, flags=re.DOTALL)
    return " ".join(head.split()) + (f" (line {line[1]} of the query)" if line else "")


def _add_model(
    connection: duckdb.DuckDBPyConnection, source: Source | Message, query: str, type: type[Message]
) -> None:
    names = [name for name in TABLES if re.search(rf"\b{name}\b", query, re.IGNORECASE)]
    if not isinstance(source, Message):
        from onnxwire.io.load import load

        source = load(source, type)
    for name in names:
        connection.register(name, ArrowTable(columns_of(source, TABLES[name], False)))


def _add_catalog(connection: duckdb.DuckDBPyConnection, folder: str) -> None:
    from onnxwire.catalog.dataset import files_of
    from onnxwire.catalog.read import columns_of_table

    for name, files in files_of(folder).items():
        if not files:
            columns = [f'null::{_sql_type(type)} as "{column}"' for column, type in columns_of_table(name)]
            connection.execute(f'create view "{name}" as select {", ".join(columns)} where false')
            continue
        # Read as they are listed: a run that goes on meanwhile may have written files that do not count yet.
        listed = ", ".join("'" + _escape_pattern(path).replace("'", "''") + "'" for path in files)
        connection.execute(f'create view "{name}" as from read_parquet([{listed}])')


def _sql_type(type: str) -> str:
    """The name that DuckDB has for a type of a column."""
    name = {"string": "varchar", "int64": "bigint", "int32": "integer"}.get(type.strip("[]"), type.strip("[]"))
    return f"{name}[]" if type.startswith("[") else name


def _escape_pattern(path: str) -> str:
    """A path in which DuckDB reads no pattern."""
    return re.sub(r"([*?\[])", r"[\1]", path)
