"""The tables: the messages that are rows, and the source of each column.

A column is (name, type, source, field). Types are those of `Columns`, in brackets for a list. The source "" denotes a
column that a preceding column fills. The other sources, for a message that is a row:

    field      a field of the message, null if it is absent; for an enum, the name of its value
    type name  the name of the data type whose number is in a field (FLOAT, INT4); digits for an unknown type
    list       a repeated field; never null
    choice     a repeated field, null if it is empty and the attribute has another type
    count      the number of elements of a repeated field
    inner      a field of a child message, written child.field;  inner count: the field's number of elements
    graph      the path of the innermost graph or function that contains the message, or null
    path       the path of the message;  owner: the path of the message's parent
    index      the index of the message in its repeated field, 0 in a singular field
    node       the index of the node that contains the message, in the same graph; or null
    role       the name of the field that contains the message; null for the root
    offset     the offset of the message's first byte in the file;  size: the number of its bytes; both null for a new
               message, and for all messages of an edited document
    parameters the names of a function's attributes, those with defaults last
    type       the type as text; fills the next two columns, too: shape (sizes, null if not a number) and dims (texts)
    storage    the size of a tensor's payload in bytes; fills the next four columns, too: storage, location, offset and
               length
    storage size, storage elements: the size of a tensor's payload in bytes, and the number of its elements
    uses       a row for each name that a node reads or produces, and for each output of a nested graph whose name an
               outer graph defines. The value is the path of the graph, or of the outer graph that defines the name.
               Functions count as graphs here. Fills the next four columns, too: name, node, slot (the index of the
               input or output; null for a name of an outer graph) and kind; and if the table has them, the three
               columns of the inner use (see _uses.pyx)
"""

from __future__ import annotations

from collections import namedtuple


class TableSpec(namedtuple("TableSpec", ("message", "fields", "columns"))):
    """A table: the type of the messages that are rows, the fields that contain them, and the columns."""

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
            ("bytes", "int64", "size", ""),
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
            ("inner_graph", "string", "", ""),
            ("inner_node", "int64", "", ""),
            ("inner_slot", "int32", "", ""),
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
            ("bytes", "int64", "storage", ""),
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
            ("bytes", "int64", "size", ""),
        ),
    ),
}  # fmt: skip
"""Every table by its name. If `fields` is empty, the messages of the type in all fields are rows."""
