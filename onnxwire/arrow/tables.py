"""The tables: which messages make rows, and where the value of each column comes from.

A column is (name, type, source, field). Types are those of `Columns`; brackets make a list. Sources:

    field      a field of the message, null where it is absent; of an enum the value's name
    type name  as `field`, of a number that is a data type: FLOAT, INT4; the digits where there is no such type
    list       a repeated field; never null
    choice     a repeated field, null where it is empty and the attribute has another type
    count      how many elements a repeated field has
    inner      a field of a message in the message, written message.field;  inner count: how many elements it has
    graph      path of the graph or function that the message is in; null where it is in none
    path       path of the message;  owner: of the message that it is in
    index      its index in the repeated field;  node: that of the node that it is in, null where it is in none
    role       name of the field that it is in
    offset     of its first byte in the file;  size: its bytes;  both null in messages that were edited
    parameters the names of a function's attributes, those with defaults last
    type       the type as text; this and the two columns after it, shape and dims, come together
    storage    of a tensor: this and the four columns after it come together;  storage size,
               storage elements: its size, or its elements, alone
    uses       a row an input or output of a node: this and the four columns after it come together
"""

from __future__ import annotations

from collections import namedtuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from onnxwire.engine.descriptor import Descriptor


class TableSpec(namedtuple("TableSpec", ("message", "fields", "columns"))):
    """The source of a table: the messages of a type that are in one of some fields, and the columns."""

    __slots__ = ()
    message: str
    fields: tuple[str, ...]
    columns: tuple[tuple[str, str, str, str], ...]


_GRAPH = ("graph", "string", "graph", "")

TABLES = {
    "nodes": TableSpec(
        "NodeProto",
        ("GraphProto.node", "FunctionProto.node"),
        (
            _GRAPH,
            ("index", "int64", "index", ""),
            ("name", "string", "field", "name"),
            ("op_type", "string", "field", "op_type"),
            ("domain", "string", "field", "domain"),
            ("overload", "string", "field", "overload"),
            ("inputs", "[string]", "list", "input"),
            ("outputs", "[string]", "list", "output"),
            ("attributes", "int32", "count", "attribute"),
            ("doc_string", "string", "field", "doc_string"),
            ("offset", "int64", "offset", ""),
            ("size", "int64", "size", ""),
        ),
    ),
    "attributes": TableSpec(
        "AttributeProto",
        ("NodeProto.attribute", "FunctionProto.attribute_proto"),
        (
            _GRAPH,
            ("node", "int64", "node", ""),
            ("name", "string", "field", "name"),
            ("type", "string", "field", "type"),
            ("i", "int64", "field", "i"),
            ("f", "float", "field", "f"),
            ("s", "string", "field", "s"),
            ("ints", "[int64]", "choice", "ints"),
            ("floats", "[float]", "choice", "floats"),
            ("strings", "[string]", "choice", "strings"),
            ("ref_attr_name", "string", "field", "ref_attr_name"),
        ),
    ),
    "values": TableSpec(
        "ValueInfoProto",
        ("GraphProto.input", "GraphProto.output", "GraphProto.value_info", "FunctionProto.value_info"),
        (
            _GRAPH,
            ("kind", "string", "role", ""),
            ("name", "string", "field", "name"),
            ("type", "string", "type", "type"),
            ("shape", "[int64]", "", ""),
            ("dims", "[string]", "", ""),
        ),
    ),
    "uses": TableSpec(
        "NodeProto",
        ("GraphProto.node", "FunctionProto.node"),
        (
            ("graph", "string", "uses", ""),
            ("name", "string", "", ""),
            ("node", "int64", "", ""),
            ("slot", "int32", "", ""),
            ("kind", "string", "", ""),
        ),
    ),
    "tensors": TableSpec(
        "TensorProto",
        (),
        (
            _GRAPH,
            ("name", "string", "field", "name"),
            ("data_type", "string", "type name", "data_type"),
            ("dims", "[int64]", "list", "dims"),
            ("size", "int64", "storage", ""),
            ("storage", "string", "", ""),
            ("location", "string", "", ""),
            ("offset", "int64", "", ""),
            ("length", "int64", "", ""),
            ("path", "string", "path", ""),
        ),
    ),
    "opsets": TableSpec(
        "OperatorSetIdProto",
        ("ModelProto.opset_import",),
        (("domain", "string", "field", "domain"), ("version", "int64", "field", "version")),
    ),
    "metadata": TableSpec(
        "StringStringEntryProto",
        tuple(
            f"{message}.metadata_props"
            for message in (
                "ModelProto", "GraphProto", "NodeProto", "FunctionProto", "ValueInfoProto", "TensorProto",
            )
        ),
        (
            ("path", "string", "owner", ""),
            ("key", "string", "field", "key"),
            ("value", "string", "field", "value"),
        ),
    ),
    "functions": TableSpec(
        "FunctionProto",
        ("ModelProto.functions",),
        (
            ("index", "int64", "index", ""),
            ("domain", "string", "field", "domain"),
            ("name", "string", "field", "name"),
            ("overload", "string", "field", "overload"),
            ("inputs", "[string]", "list", "input"),
            ("outputs", "[string]", "list", "output"),
            ("attributes", "[string]", "parameters", "attribute"),
            ("nodes", "int32", "count", "node"),
        ),
    ),
    "model": TableSpec(
        "ModelProto",
        (),
        (
            ("ir_version", "int64", "field", "ir_version"),
            ("producer_name", "string", "field", "producer_name"),
            ("producer_version", "string", "field", "producer_version"),
            ("domain", "string", "field", "domain"),
            ("model_version", "int64", "field", "model_version"),
            ("doc_string", "string", "field", "doc_string"),
            ("graph_name", "string", "inner", "graph.name"),
            ("nodes", "int64", "inner count", "graph.node"),
            ("functions", "int64", "count", "functions"),
            ("size", "int64", "size", ""),
        ),
    ),
}  # fmt: skip
"""Every table by its name; `fields` without an entry are all that hold such messages."""


def plan_of(root: Descriptor, spec: TableSpec) -> dict[str, dict[str, int]]:
    """Which fields a walk follows: by type and field, 1 where rows may be deeper, 2 where the element is a row.

    root: the type of the message that is walked; names are without the package.
    """
    edges: dict[str, list[tuple[str, str]]] = {}
    waiting = [root]
    while waiting:
        descriptor = waiting.pop()
        name = _short(descriptor)
        if name not in edges:
            below = [(field.name, field.message_type) for field in descriptor.fields if field.message_type is not None]
            edges[name] = [(field, _short(message)) for field, message in below]
            waiting += [message for _, message in below]
    rows = {
        (name, field)
        for name, fields in edges.items()
        for field, message in fields
        if message == spec.message and (not spec.fields or f"{name}.{field}" in spec.fields)
    }
    leading = {name for name, _ in rows}
    # Types refer to one another in circles, so once is not always enough.
    before = 0
    while before != len(leading):
        before = len(leading)
        leading |= {name for name, fields in edges.items() if any(message in leading for _, message in fields)}
    plan: dict[str, dict[str, int]] = {}
    for name, fields in edges.items():
        flags = {field: (message in leading) | ((name, field) in rows) << 1 for field, message in fields}
        if any(flags.values()):
            plan[name] = {field: flag for field, flag in flags.items() if flag}
    return plan


def _short(descriptor: Descriptor) -> str:
    return descriptor.full_name.partition(".")[2]
