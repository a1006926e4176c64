"""Read models into the Arrow tables of a catalog. Every engine of `engines.py` runs `read_models`."""

from __future__ import annotations

from collections import Counter, namedtuple
from itertools import islice
from typing import TYPE_CHECKING, Any

from onnxwire.arrow.arrow_table import ArrowTable, columns_of
from onnxwire.arrow.many import add_model_column, make_array, model_text
from onnxwire.arrow.tables import TABLES
from onnxwire.catalog.models import Failure, file_states, name_of
from onnxwire.errors import Error, SourceError
from onnxwire.io.remote.address import is_address
from onnxwire.io.utf8 import valid_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    import pyarrow as pa

    from onnxwire.catalog.models import FileState
    from onnxwire.messages import ModelProto

# The columns, except `model`, of the tables that `to_arrow` does not make.
_OWN_COLUMNS = {
    "operators": (("graph", "string"), ("domain", "string"), ("type", "string"), ("version", "int64"), ("n", "int64")),
    "problems": (
        ("rule", "string"), ("severity", "string"), ("path", "string"), ("offset", "int64"), ("message", "string"),
    ),
    "failures": (("error", "string"), ("reason", "string")),
}  # fmt: skip
# The tables that `to_arrow` makes, by their names in a catalog.
_ARROW_TABLES = {"models": "model", "values": "values", "metadata": "metadata", "tensors": "tensors"}
# The columns that a catalog adds to tables of `to_arrow`.
_EXTRA_COLUMNS = {"tensors": (("hash", "string"), ("missing", "bool"))}

TABLE_NAMES = ("models", "operators", "tensors", "values", "metadata", "problems", "failures")
"""The tables of a catalog."""

_BATCH_ROWS = 4096  # number of rows that are converted to or from Python objects at a time
_REMOTE_THREADS = 8  # number of threads that read models on servers, since reading is mostly waiting


def columns_of_table(name: str) -> list[tuple[str, str]]:
    """Return the names and types of the columns of a table of a catalog."""
    if name in _OWN_COLUMNS:
        return [("model", "string"), *_OWN_COLUMNS[name]]
    columns = TABLES[_ARROW_TABLES[name]].columns
    return [
        ("model", "string"),
        *((column, type_name) for column, type_name, _, _ in columns),
        *_EXTRA_COLUMNS.get(name, ()),
    ]


def arrow_schema(name: str) -> pa.Schema:
    """Return the schema of a table of a catalog."""
    import pyarrow as pa

    def type_of(type_name: str) -> pa.DataType:
        return pa.list_(type_of(type_name[1:-1])) if type_name.startswith("[") else pa.type_for_alias(type_name)

    return pa.schema([(column, type_of(type_name)) for column, type_name in columns_of_table(name)])


class Task(namedtuple("Task", ("models", "hashes", "checks", "options"), defaults=(False, False, None))):
    """Models to read, by their sources.

    hashes: hash the payloads. checks: run the rules. options: storage_options.
    """

    __slots__ = ()
    models: tuple[str, ...]
    hashes: bool
    checks: bool
    options: Mapping[str, Any] | None


class Result(namedtuple("Result", ("tables", "outcomes"))):
    """The result of reading models: the non-empty tables, and an outcome for each source.

    outcomes: for each source, the states of its external files by location (see `file_states`) before their payloads
    were read, or its failure.
    """

    __slots__ = ()
    tables: dict[str, pa.Table]
    outcomes: dict[str, dict[str, FileState | None] | Failure]


def read_models(task: Task) -> Result:
    """Read models into tables, in the order of the models. A model that can't be read has a Failure."""
    addresses = [model for model in task.models if is_address(model)]
    if len(addresses) < 2:
        return join_results([_read_or_fail(model, task) for model in task.models])
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(_REMOTE_THREADS) as pool:
        return join_results(list(pool.map(lambda model: _read_or_fail(model, task), task.models)))


def join_results(results: list[Result]) -> Result:
    """Join results into one, in their order."""
    import pyarrow as pa

    parts: dict[str, list[pa.Table]] = {}
    outcomes: dict[str, dict[str, FileState | None] | Failure] = {}
    for result in results:
        outcomes |= result.outcomes
        for name, table in result.tables.items():
            parts.setdefault(name, []).append(table)
    # The chunks are combined, because hundreds of small chunks take longer to send and to write.
    return Result({name: pa.concat_tables(tables).combine_chunks() for name, tables in parts.items()}, outcomes)


def failures_table(failures: Mapping[str, Failure]) -> pa.Table:
    """Return the table of failures, which has a row for each model that could not be read. failures: by model name."""
    import pyarrow as pa

    rows = [(model_text(name), *failure) for name, failure in failures.items()]
    names = [column for column, _ in columns_of_table("failures")]
    return pa.table(
        {name: make_array(column, "string") for name, column in zip(names, zip(*rows, strict=True), strict=True)}
    )


def _read_or_fail(model: str, task: Task) -> Result:
    """Read one model, or return its failure."""
    try:
        return _read_model(model, task)
    except Exception as error:  # an error of one model must not prevent reading the others
        return Result({}, {model: Failure.of(error)})


def _read_model(model: str, task: Task) -> Result:
    """Read one model into the tables of a catalog. Raises the errors of `load`, of `check` and of external files."""
    from onnxwire.io.load import load

    with load(model, storage_options=task.options if is_address(model) else None) as message:
        tables: dict[str, pa.Table] = {}
        for name, table in _ARROW_TABLES.items():
            tables[name] = _arrow_table(message, table)
        tables["operators"] = _make_table("operators", _operators(message))
        locations = tables["tensors"]["location"].drop_null().unique().to_pylist()
        states = file_states([(model, location) for location in locations], task.options)
        files = {location: state for (_, location), state in states.items()}
        tables["tensors"] = _add_extra_columns(tables["tensors"], message, files, task.hashes)
        if task.checks:
            from onnxwire.checker import check
            from onnxwire.checker.limits import MAX_PROBLEMS_PER_RULE

            keys = [name for name, _ in _OWN_COLUMNS["problems"]]
            rows = (
                {key: getattr(problem, key) for key in keys} for problem in check(message, limit=MAX_PROBLEMS_PER_RULE)
            )
            tables["problems"] = _make_table("problems", rows)
    name = name_of(model)
    return Result({key: add_model_column(name, table) for key, table in tables.items() if len(table)}, {model: files})


def _arrow_table(message: ModelProto, name: str) -> pa.Table:
    """Return a pyarrow table of `to_arrow` with copied strings."""
    import pyarrow as pa

    # pa.table would import pandas, see `make_array`.
    return pa.RecordBatchReader.from_stream(ArrowTable(columns_of(message, TABLES[name], True))).read_all()


def _make_table(name: str, rows: Iterable[dict[str, Any]]) -> pa.Table:
    """Make a table of rows. Convert them in batches, because a hostile model may violate a rule a million times."""
    import pyarrow as pa

    columns = _OWN_COLUMNS[name]
    schema = pa.schema([(column, pa.type_for_alias(type_name)) for column, type_name in columns])
    utf8_rows = (
        {key: valid_text(item) if isinstance(item, str) else item for key, item in row.items()} for row in rows
    )
    batches = []
    while batch := list(islice(utf8_rows, _BATCH_ROWS)):
        arrays = [make_array([row[column] for row in batch], type_name) for column, type_name in columns]
        batches.append(pa.RecordBatch.from_arrays(arrays, schema=schema))
    return pa.Table.from_batches(batches, schema).combine_chunks()


def _operators(message: ModelProto) -> Iterator[dict[str, Any]]:
    """Yield the rows of `operators`: the number of nodes by graph, domain and type, with the imported version."""
    nodes = _arrow_table(message, "nodes").select(["graph", "domain", "op_type"])
    counts: Counter[tuple[str, str, str | None]] = Counter()
    for batch in nodes.to_batches(_BATCH_ROWS):
        graphs, domains, types = (column.to_pylist() for column in batch.columns)
        counts.update(zip(graphs, (domain or "" for domain in domains), types, strict=True))
    imports = {"graph": {_normalize_domain(opset.domain): opset.version for opset in message.opset_import}}
    for i, function in enumerate(message.functions):
        imports[f"functions[{i}]"] = {_normalize_domain(opset.domain): opset.version for opset in function.opset_import}
    # A graph's path starts with "functions[i]", "graph" or "training_info[i]"; the last two use the model's imports.
    for graph, domain, op_type in sorted(counts, key=lambda key: (key[0], key[1], key[2] or "")):
        yield {
            "graph": graph,
            "domain": domain,
            "type": op_type,
            "version": imports.get(graph.partition(".")[0], imports["graph"]).get(_normalize_domain(domain)),
            "n": counts[graph, domain, op_type],
        }


def _normalize_domain(domain: str) -> str:
    """Return the normal form of a domain: "ai.onnx" is a synonym of the default domain, the empty string."""
    return "" if domain == "ai.onnx" else domain


def _add_extra_columns(
    table: pa.Table, message: ModelProto, files: dict[str, FileState | None], hashes: bool
) -> pa.Table:
    """Add the columns that `to_arrow` lacks: the payload's hash, and whether its file is missing.

    files: the states of the model's external files by location. hashes: whether to hash payloads; else hashes are null.
    """
    import pyarrow as pa

    locations = table["location"].to_pylist()
    is_missing_by_location = {
        location: _is_missing(message, location, files) for location in dict.fromkeys(locations) if location is not None
    }
    digests = pa.nulls(len(table), pa.string())
    if hashes:
        from onnxwire.io.prefetch import fetch_in_order, open_external
        from onnxwire.io.tensor_list import find_tensors

        open_external(message)
        tensors = [tensor for _, tensor in find_tensors(message)]
        with fetch_in_order((tensor,) for tensor in tensors):
            digests = make_array(list(map(_hash_payload, tensors)), "string")
    is_missing = (
        make_array(list(map(is_missing_by_location.get, locations)), "bool")
        if is_missing_by_location
        else pa.nulls(len(table), pa.bool_())
    )
    return table.append_column("hash", digests).append_column("missing", is_missing)


def _is_missing(message: ModelProto, location: str, states: dict[str, FileState | None]) -> bool:
    """Return whether an external file is missing or forbidden, or is local and cannot be opened.

    states: see `file_states`. Raises SourceError if a server does not report whether the file exists.
    """
    if location not in states:
        message._document.files.open(location)  # repeats the failed request; raises if it fails again
        return False
    if states[location] is None or message._document.files is None:
        return True
    if message._document.memory is not None:  # on a server, where the request for the state showed that the file exists
        return False
    try:
        with message._document.files.open_temporarily(location):
            return False
    except (Error, OSError):
        return True


def _hash_payload(tensor: Any) -> str | None:
    """Return the XXH3-128 of a payload in the format of raw_data, as hexadecimal digits; None if it can't be read.

    Raises SourceError if a server does not return the payload, except for a missing file.
    """
    from xxhash import xxh3_128

    from onnxwire.tensor.payload_digest import add_payload

    digest = xxh3_128()
    try:
        add_payload(digest, tensor)
        return str(digest.hexdigest())
    except SourceError as error:
        if tensor._document.memory is not None and not isinstance(error, FileNotFoundError):
            raise  # a server may answer in the next run
        return None
    except Error:
        return None
