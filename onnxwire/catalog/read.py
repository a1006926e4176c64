"""The rows of a catalog for some models: one function from paths to Arrow tables, which every engine runs."""

from __future__ import annotations

from collections import Counter, namedtuple
from typing import TYPE_CHECKING, Any

from onnxwire.arrow.many import plain_text, with_model
from onnxwire.arrow.table import ArrowTable, columns_of
from onnxwire.arrow.tables import TABLES
from onnxwire.errors import Error

if TYPE_CHECKING:
    import pyarrow as pa

    from onnxwire.messages import ModelProto

_ARROW_TYPES = {"string": "string", "int64": "int64", "int32": "int32", "bool": "bool"}

_OF_A_MODEL = {
    "operators": (("graph", "string"), ("domain", "string"), ("type", "string"), ("version", "int64"), ("n", "int64")),
    "problems": (
        ("rule", "string"), ("severity", "string"), ("path", "string"), ("offset", "int64"), ("message", "string"),
    ),
    "failures": (("error", "string"), ("reason", "string")),
}  # fmt: skip
_AS_THEY_ARE = {"models": "model", "values": "values", "metadata": "metadata", "tensors": "tensors"}

NAMES = ("models", "operators", "tensors", "values", "metadata", "problems", "failures")
"""The tables of a catalog."""

_PIECE = 1 << 22  # bytes of a payload that are hashed at a time


class Task(namedtuple("Task", ("models", "hashes", "checks"))):
    """Some models to read. hashes: whether payloads are read and hashed; checks: whether the rules are run."""

    __slots__ = ()
    models: tuple[str, ...]
    hashes: bool
    checks: bool


def read_models(task: Task) -> dict[str, pa.Table]:
    """The tables of some models, each row with its model, in their order; of one that can't be read a failure.

    Tables without a row are left out.
    """
    import pyarrow as pa

    parts: dict[str, list[pa.Table]] = {}
    for model in task.models:
        try:
            tables = read_model(model, task.hashes, task.checks)
        except Exception as error:  # whatever a file does to a reader, the others are read
            tables = failure(model, error)
        for name, table in tables.items():
            if table.num_rows:
                parts.setdefault(name, []).append(table)
    # In one piece: hundreds of small ones take longer to carry and to write.
    return {name: pa.concat_tables(tables).combine_chunks() for name, tables in parts.items()}


def failure(model: str, error: BaseException) -> dict[str, pa.Table]:
    """The tables of a model that can't be read."""
    row = {"error": type(error).__name__, "reason": str(error)}
    return {"failures": with_model(model, _table("failures", [row]))}


def read_model(path: str, hashes: bool = False, checks: bool = False) -> dict[str, pa.Table]:
    """The tables of one model. Raises what `load` and `check` raise."""
    import pyarrow as pa

    from onnxwire.io.load import load

    with load(path) as message:
        tables: dict[str, pa.Table] = {}
        for name, table in _AS_THEY_ARE.items():
            tables[name] = pa.table(ArrowTable(columns_of(message, TABLES[table], True)))
        tables["operators"] = _table("operators", _operators(message))
        tables["tensors"] = _with_extras(tables["tensors"], message, hashes)
        if checks:
            from onnxwire.checker import check

            keys = [name for name, _ in _OF_A_MODEL["problems"]]
            rows = [{key: getattr(problem, key) for key in keys} for problem in check(message)]
            tables["problems"] = _table("problems", rows)
    return {name: with_model(path, table) for name, table in tables.items()}


def _table(name: str, rows: list[dict[str, Any]]) -> pa.Table:
    import pyarrow as pa

    schema = pa.schema([(column, pa.type_for_alias(_ARROW_TYPES[kind])) for column, kind in _OF_A_MODEL[name]])
    plain = [{key: plain_text(item) if isinstance(item, str) else item for key, item in row.items()} for row in rows]
    return pa.Table.from_pylist(plain, schema)


def _operators(message: ModelProto) -> list[dict[str, Any]]:
    """Count the operators by graph, domain and type; with the version that the model, or the function, imports."""
    nodes = columns_of(message, TABLES["nodes"], True)
    domains = (domain or "" for domain in nodes.to_pylist("domain"))
    counts = Counter(zip(nodes.to_pylist("graph"), domains, nodes.to_pylist("op_type"), strict=True))
    imports = {"graph": {_plain(opset.domain): opset.version for opset in message.opset_import}}
    for i, function in enumerate(message.functions):
        imports[f"functions[{i}]"] = {_plain(opset.domain): opset.version for opset in function.opset_import}
    rows = [
        {
            "graph": graph,
            "domain": domain,
            "type": op_type,
            "version": imports.get(graph.partition(".")[0], imports["graph"]).get(_plain(domain)),
            "n": n,
        }
        for (graph, domain, op_type), n in counts.items()
    ]
    return sorted(rows, key=lambda row: (row["graph"], row["domain"], row["type"] or ""))


def _plain(domain: str) -> str:
    """A domain by one name: "ai.onnx" is another word for the default one."""
    return "" if domain == "ai.onnx" else domain


def _with_extras(table: pa.Table, message: ModelProto, hashes: bool) -> pa.Table:
    """The tensors with the hashes of their payloads, and whether the file that they are in is missing."""
    import pyarrow as pa

    locations = table["location"].to_pylist()
    missing = {known: _is_missing(message, known) for known in dict.fromkeys(locations) if known is not None}
    digests = pa.nulls(len(table), pa.string())
    if hashes:
        from onnxwire.io.index import find_tensors

        digests = pa.array([_hash(tensor) for _, tensor in find_tensors(message)], pa.string())
    is_missing = pa.array(map(missing.get, locations), pa.bool_()) if missing else pa.nulls(len(table), pa.bool_())
    return table.append_column("hash", digests).append_column("missing", is_missing)


def _is_missing(message: ModelProto, location: str) -> bool:
    files = message._document.files
    if files is None:
        return True
    try:
        with files.look_at(location):
            return False
    except (Error, OSError):
        return True


def _hash(tensor: Any) -> str | None:
    """XXH3-128 of a payload as raw_data has it, in hexadecimal digits; None where there is none that can be read."""
    from xxhash import xxh3_128

    try:
        payload = tensor.raw_view
    except (Error, OSError):
        return None
    digest = xxh3_128()
    with payload:
        for start in range(0, len(payload), _PIECE):
            digest.update(payload[start : start + _PIECE])
    return str(digest.hexdigest())
