"""SQL queries over the tables of a model or of a catalog, run by DuckDB."""

from __future__ import annotations

import errno
import os
import re

from onnxwire.arrow.arrow_table import ArrowTable, columns_of
from onnxwire.arrow.tables import TABLES
from onnxwire.engine.message import Message
from onnxwire.errors import MissingPackageError, QueryError, SourceError
from onnxwire.io.remote.address import is_address
from onnxwire.messages import ModelProto

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    import duckdb
    from typing_extensions import CapsuleType

    from onnxwire.io.source import Source


_SANDBOX_MEMORY = "1GiB"
_SANDBOX_SETTINGS = (
    "temp_directory = ''",
    "home_directory = '/'",  # queries can read the settings, which would contain the user's home directory
    "secret_directory = ''",
    "extension_directory = ''",
    f"memory_limit = '{_SANDBOX_MEMORY}'",
    "enable_external_access = false",  # no files, no network, no attached databases, no extensions
    "lock_configuration = true",
)
# Words in a query that list tables, or read a table whose name the query computes.
_TABLE_LISTS = re.compile(r"\b(show|information_schema|pg_catalog|duckdb_\w+|pragma\w*|query_table)\b", re.IGNORECASE)
_READING_STATEMENTS = ("SELECT", "EXPLAIN")  # DuckDB's types of the statements that `read_only` allows


def sql(
    source: Source | Message,
    query: str,
    *,
    type: type[Message] = ModelProto,
    read_only: bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> duckdb.DuckDBPyRelation | None:
    """Run an SQL query on a model, or on a catalog of models.

    source: any source that `load` accepts, a message, or the folder of a catalog or its address (with the `fsspec`
    package). The tables are those of `to_arrow`, or those of the catalog. Tables of `to_arrow` whose names occur in the
    query are made by this call, others when the query reads them. query: SQL in DuckDB's dialect, which may also write
    files. type: the class of the root message, if the source is loaded. read_only: for untrusted queries: the query
    must be one statement that reads the tables of one model; it may not use files, the network or extensions, or
    change settings. DuckDB uses at most 1 GiB for its data. The time of a query and the size of its result are not
    limited.
    storage_options: as for `load`, for addresses.
    Returns DuckDB's relation, which prints as a table and has `fetchall()`, `pl()`, `df()`, `to_arrow_table()`, and the
    Arrow PyCapsule interface; None for a statement without a result. The result is computed when it is read.
    Raises QueryError for a query that DuckDB rejects or `read_only` forbids, SourceError for a folder without a
    catalog, for a damaged catalog, and for a folder or catalog with `read_only`, MissingPackageError without DuckDB
    (the `sql` extra), or without fsspec for a catalog at an address, and the errors of `to_arrow`.
    """
    try:
        import duckdb
    except ImportError:
        raise MissingPackageError("this needs DuckDB, which is not installed; `pip install duckdb`") from None
    folder = os.fsdecode(source) if isinstance(source, str | os.PathLike) and os.path.isdir(source) else None
    remote_catalog = None
    if isinstance(source, str) and is_address(source) and folder is None:
        from onnxwire.catalog.remote import find_remote_catalog

        remote_catalog = find_remote_catalog(source, storage_options)
    if read_only and (folder is not None or remote_catalog is not None):
        reason = "a read-only query reads one model, not a folder or catalog"
        raise SourceError(errno.EISDIR, reason, remote_catalog.folder if remote_catalog is not None else folder)
    connection = duckdb.connect()
    # By default DuckDB searches the Python variables of the caller for the names of tables.
    connection.execute("set python_enable_replacements = false")
    # DuckDB downloads and loads only extensions that the query requests with `install` and `load`.
    connection.execute("set autoinstall_known_extensions = false")
    connection.execute("set autoload_known_extensions = false")
    try:
        if remote_catalog is not None:
            catalog_files = remote_catalog.files_of(_catalog_tables_in_query(query))
            connection.register_filesystem(remote_catalog.file_system())
            _add_catalog(connection, catalog_files)
        elif folder is not None:
            from onnxwire.catalog.files import files_of

            _add_catalog(connection, files_of(folder, _catalog_tables_in_query(query)))
        else:
            _add_model(connection, source, query, type, storage_options)
        if read_only:
            for setting in _SANDBOX_SETTINGS:
                connection.execute(f"set {setting}")
            statement_types = [statement.type.name for statement in connection.extract_statements(query)]
            if len(statement_types) > 1 or not set(statement_types) <= set(_READING_STATEMENTS):
                listed_types = ", ".join(statement_types)
                raise QueryError(f"a read-only query is one statement that reads, such as SELECT, not {listed_types}")
        return connection.sql(query)
    except duckdb.Error as error:
        raise QueryError(describe_duckdb_error(error)) from None


def describe_duckdb_error(error: Exception) -> str:
    """Return the message of a DuckDB error on one line, without the excerpt of the query."""
    text = str(error).strip()
    message, _, excerpt = text.partition("\n\n")
    line = re.match(r"LINE (\d+):", excerpt)
    # If Python code failed, for example because a package is missing, keep the last line of its traceback.
    message = re.sub(r"Traceback \(most recent call last\):\n.*\n", "", message, flags=re.DOTALL)
    return " ".join(message.split()) + (f" (line {line[1]} of the query)" if line else "")


def _add_model(
    connection: duckdb.DuckDBPyConnection,
    source: Source | Message,
    query: str,
    type: type[Message],
    options: Mapping[str, Any] | None,
) -> None:
    """Load a model if `source` is not a message, and register its tables."""
    if not isinstance(source, Message):
        from onnxwire.io.load import load

        source = load(source, type, storage_options=options)
    tables = {name: _LazyTable(source, name) for name in TABLES}
    for name in _tables_in_query(TABLES, query):
        tables[name].fill()  # raises the error of a damaged model, which DuckDB would wrap
    for name, table in tables.items():
        connection.register(name, table)


class _LazyTable:
    """A table of a message. Its schema is available at once; its rows are made when a query reads them."""

    def __init__(self, message: Message, name: str) -> None:
        self._message = message
        self._spec = TABLES[name]
        self._table: ArrowTable | None = None

    def fill(self) -> ArrowTable:
        """Make the table. No-op if it was made before."""
        if self._table is None:
            self._table = ArrowTable(columns_of(self._message, self._spec, False))
        return self._table

    def __arrow_c_schema__(self) -> CapsuleType:
        return ArrowTable(columns_of(ModelProto.FromString(b""), self._spec, False)).__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object = None) -> CapsuleType:
        return self.fill().__arrow_c_stream__(requested_schema)


def _add_catalog(connection: duckdb.DuckDBPyConnection, tables: dict[str, dict[str, list[str]]]) -> None:
    """Add the tables of a catalog as views. tables: for each table, its files with their removed models.

    Raises SourceError for files with other columns than onnxwire writes.
    """
    from onnxwire.catalog.read import columns_of_table

    has_removed_table = False
    for name, files in tables.items():
        columns = {column: _sql_type(type) for column, type in columns_of_table(name)}
        if not files:
            null_columns = ", ".join(f'null::{type} as "{column}"' for column, type in columns.items())
            connection.execute(f'create view "{name}" as select {null_columns} where false')
            continue
        # The columns are those of all files, since _read_parquet sets union_by_name.
        all_rows = _read_parquet(connection, files)
        column_types = dict(zip(all_rows.columns, map(str, all_rows.types), strict=True))
        if not column_types.items() <= columns.items() or "model" not in column_types:
            reason = "a file of this table has other columns than onnxwire writes; rebuild the catalog"
            raise SourceError(errno.EINVAL, reason, os.path.dirname(next(iter(files))))
        # An older onnxwire may have written fewer columns.
        select_list = ", ".join(
            f'"{key}"' if key in column_types else f'null::{type} as "{key}"' for key, type in columns.items()
        )
        parts = []
        if complete_files := [path for path, models in files.items() if not models]:
            parts.append(_read_parquet(connection, complete_files).project(select_list))
        if partial_files := {path: models for path, models in files.items() if models}:
            if not has_removed_table:
                connection.execute("create schema onnxwire")
                connection.execute("create table onnxwire.removed (file varchar, model varchar)")
                has_removed_table = True
            for path, models in partial_files.items():
                connection.execute("insert into onnxwire.removed select ?, unnest(?)", [path, models])
            rows = _read_parquet(connection, partial_files, filename=True)
            condition = "rows.filename = removed.file and rows.model = removed.model"
            joined = rows.set_alias("rows").join(connection.table("onnxwire.removed"), condition, how="anti")
            parts.append(joined.project(select_list))
        (parts[0] if len(parts) == 1 else parts[0].union(parts[1])).create_view(name)


def _read_parquet(
    connection: duckdb.DuckDBPyConnection, paths: Iterable[str], **options: Any
) -> duckdb.DuckDBPyRelation:
    """Return the rows of Parquet files. Columns that a file lacks are null."""
    # The files are listed instead of a pattern: a concurrent run may have written files that are not valid yet.
    escaped = list(map(_escape_pattern, paths))
    return connection.read_parquet(escaped, hive_partitioning=False, union_by_name=True, **options)


def _tables_in_query(tables: Iterable[str], query: str) -> list[str]:
    """Return the tables whose names occur in a query."""
    return [name for name in tables if re.search(rf"\b{name}\b", query, re.IGNORECASE)]


def _catalog_tables_in_query(query: str) -> list[str]:
    """Return the tables of a catalog that a query reads: those that it names, or all if it lists tables."""
    from onnxwire.catalog.read import TABLE_NAMES

    return list(TABLE_NAMES) if _TABLE_LISTS.search(query) else _tables_in_query(TABLE_NAMES, query)


def _sql_type(type: str) -> str:
    """Return DuckDB's name of a column type."""
    name = {"string": "VARCHAR", "int64": "BIGINT", "int32": "INTEGER", "bool": "BOOLEAN"}[type.strip("[]")]
    return f"{name}[]" if type.startswith("[") else name


def _escape_pattern(path: str) -> str:
    """Escape a path, so that DuckDB does not read it as a pattern."""
    return re.sub(r"([*?\[])", r"[\1]", path)
