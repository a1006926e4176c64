"""The operations that `oom.py` runs with failing allocations."""

from __future__ import annotations

import copy
import ctypes
import os
import pickle
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from partial_documents import partial_document

import onnxwire
from onnxwire import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto
from onnxwire.checker._facts import Facts
from onnxwire.checker._payload_scan import measure_numbers, measure_strings
from onnxwire.checker._scopes import Scopes
from onnxwire.engine.message import Message


class Operation(NamedTuple):
    """An operation of the package.

    `make_state(folder)` returns a new state, `run(state)` runs the operation, and `read_content(state)` returns the
    content of the state, for comparisons.
    """

    name: str
    make_state: Callable[[str], Any]
    run: Callable[[Any], object]
    read_content: Callable[[Any], object]
    other_errors: tuple[type[BaseException], ...] = ()
    """Errors that code of other packages may raise instead of MemoryError."""
    keeps_memory: bool = False
    """Whether to skip the check for leaks. True for Python code, whose caches grow, and for code in which CPython 3.11
    leaks memory: it leaks the arguments of a function with a closure if the allocation of the closure fails."""


OPERATIONS: list[Operation] = []


def node(i: int) -> dict[str, Any]:
    """Return the fields of the node with index i."""
    attributes = [{"name": "axis", "i": i, "type": 2}, {"name": "pads", "ints": [0, 1, i], "type": 7}]
    return {
        "name": f"node {i}",
        "op_type": "Concat",
        "input": [f"a{i}", "w"],
        "output": [f"b{i}"],
        "attribute": attributes,
    }


def model(n: int = 4) -> ModelProto:
    """Return a small model with n nodes, attributes, two tensors, types and metadata."""
    weight = onnxwire.from_array(np.arange(6, dtype=np.float32).reshape(2, 3), "w")
    shape = {"dim": [{"dim_value": 2}, {"dim_param": "n"}]}
    value = {"name": "a0", "type": {"tensor_type": {"elem_type": 1, "shape": shape}}}
    return ModelProto(
        ir_version=8,
        producer_name="a producer",
        opset_import=[{"domain": "", "version": 17}],
        metadata_props=[{"key": "k", "value": "v"}],
        graph={
            "name": "g",
            "node": [node(i) for i in range(n)],
            "initializer": [weight, TensorProto(name="x", dims=[3], data_type=7, int64_data=[1, 300, -1])],
            "input": [value],
            "output": [{**value, "name": "b0"}],
        },
    )


DATA = model().SerializeToString()
LONG_DATA = model(60).SerializeToString()
OTHER_MODEL = ModelProto(
    producer_name="another", graph={"name": "h", "node": [node(7)], "doc_string": "d"}, metadata_props=[{"key": "q"}]
).SerializeToString()
UNKNOWN_RECORD = b"\xfa\x7f\x03abc"
"""The field 2047, which is unknown, with the bytes "abc"."""
UNKNOWN_INSIDE = (
    ModelProto(
        graph=GraphProto.FromString(
            UNKNOWN_RECORD + GraphProto(node=[NodeProto.FromString(UNKNOWN_RECORD)] * 3).SerializeToString()
        )
    ).SerializeToString()
    + UNKNOWN_RECORD
)
"""A model with unknown fields at three levels."""
DATA_IN_TWO_RECORDS = DATA + ModelProto(graph={"doc_string": "the second record"}).SerializeToString()
"""A model whose graph is stored in two records, which readers merge."""


def add_operation(name: str, make_state: Callable[..., Any], run: Callable[[Any], object], **options: Any) -> None:
    """Add an operation. `make_state` has the folder as its only parameter, or no parameter."""
    read_content = options.pop("read_content", content_of)
    maker = make_state if make_state.__code__.co_argcount else lambda folder: make_state()
    OPERATIONS.append(Operation(name, maker, run, read_content, **options))


def content_of(state: Any) -> object:
    """Return the bytes and the text of each message in a state, and None for any other object."""
    if isinstance(state, Message):
        return state.SerializeToString(deterministic=True), str(state)
    if isinstance(state, tuple | list):
        return [content_of(part) for part in state]
    return None


def message_maker(data: bytes = DATA) -> Callable[[], ModelProto]:
    """Return a function that decodes a new message from the bytes."""
    return lambda: ModelProto.FromString(data)


def edited_model() -> ModelProto:
    """Return a model with edits of many kinds."""
    message = ModelProto.FromString(DATA)
    message.graph.node[1].name = "edited"
    message.graph.node[1].input.append("more")
    message.graph.node.add(op_type="Relu", input=["b0"])
    message.graph.initializer[1].int64_data.append(5)
    message.graph.initializer[0].dims[0] = 3
    del message.graph.node[0]
    message.graph.doc_string = "changed"
    return message


def read_all(message: Any) -> None:
    """Read every field of a message, and of the messages in it, by every kind of access."""
    repr(message)
    for field in message.DESCRIPTOR.fields:
        value = getattr(message, field.name)
        if not field.is_repeated:
            message.HasField(field.name)
            if isinstance(value, Message) and message.HasField(field.name):
                read_all(value)
            continue
        for i, element in enumerate(value):
            value[i], value[i - len(value)]
            if isinstance(element, Message):
                read_all(element)
        value[:], value[::-2], len(value), bool(value), repr(value)
    message.ListFields()
    hash(message.WhichOneof("value")) if "value" in message.DESCRIPTOR.oneofs_by_name else None


# --- reading
#
# The parameters m, n, t and d of functions are a model, a node, a tensor and a document.


def file_maker(data: bytes) -> Callable[[str], str]:
    """Return a function that writes the bytes into a file and returns its path."""

    def write(folder: str) -> str:
        path = os.path.join(folder, "model.onnx")
        with open(path, "wb") as file:
            file.write(data)
        return path

    return write


def read_by_index(m: Any) -> None:
    """Read every node by its position, so that the engine makes an index."""
    for i in range(60):
        m.graph.node[i].op_type  # noqa: B018


def load(path: str) -> None:
    """Load a file and read a field."""
    with onnxwire.load(path) as model:
        model.graph.node[1].op_type  # noqa: B018


def large_tensors() -> bytes:
    """Return the bytes of a model whose payloads are so long that the engine copies the headers of tensors from the
    file (see engine/header_copies.pyx)."""
    payload = bytes(1 << 18)
    tensors = [{"name": f"weight {i}", "dims": [1, 1 << 18], "data_type": 3, "raw_data": payload} for i in range(3)]
    return ModelProto(graph={"initializer": tensors}).SerializeToString()


def list_and_close(m: ModelProto) -> None:
    """Read name and dims of every initializer, and close the model."""
    with m:
        [(tensor.name, list(tensor.dims)) for tensor in m.graph.initializer]


def load_maker(data: bytes) -> Callable[[str], ModelProto]:
    """Return a function that writes the bytes into a file and returns the loaded model."""
    write_file = file_maker(data)
    return lambda folder: onnxwire.load(write_file(folder))


add_operation("load", file_maker(DATA), load, keeps_memory=True)
add_operation("headers of large tensors", load_maker(large_tensors()), list_and_close, read_content=lambda m: None)
add_operation("FromString", lambda: DATA, lambda data: ModelProto.FromString(data).graph.node[1].name)
add_operation("getters", message_maker(), read_all)
add_operation("getters of many", message_maker(LONG_DATA), read_by_index)
add_operation("getters of a merged message", message_maker(DATA_IN_TWO_RECORDS), read_all)
add_operation("getters of an edited message", edited_model, read_all)
add_operation(
    "getters of absent fields",
    message_maker(b""),
    lambda m: (m.graph.node, m.graph.name, m.graph.initializer, read_all(m)),
)
add_operation("iteration", message_maker(LONG_DATA), lambda m: [list(n.input) for n in m.graph.node])
add_operation("equality", lambda: (ModelProto.FromString(DATA), edited_model()), lambda pair: pair[0] == pair[1])
add_operation("str", edited_model, str)
add_operation("verify", file_maker(DATA), onnxwire.verify, keeps_memory=True)
add_operation("tensors", file_maker(DATA), lambda path: list(onnxwire.tensors(path)), keeps_memory=True)
add_operation("reading a server's file", lambda: partial_document(DATA, "m"), lambda d: read_root(d), keeps_memory=True)


def read_root(document: Any) -> None:
    """Read a document of partial memory."""
    from onnxwire.engine.message import root_view

    read_all(root_view(document, ModelProto))


# --- edits


def add_edit(name: str, run: Callable[[Any], object], *states: Callable[[], Any], **options: Any) -> None:
    """Add an edit of three models: unedited, edited, and with absent fields; or only of `states[0]()`, if given."""
    only_ir_version = ModelProto(ir_version=8).SerializeToString()
    makers = {
        "": message_maker(),
        " of an edited message": edited_model,
        " of absent fields": message_maker(only_ir_version),
    }
    for suffix, make_state in makers.items() if not states else {"": states[0]}.items():
        add_operation(name + suffix, make_state, run, **options)


def unexpected_names_of(graph: Any) -> object:
    """Return the names of nodes that are neither the original name nor "x". These two are excluded because a loop of
    edits may end after any edit."""
    return [n.name for i, n in enumerate(graph.node) if n.name not in ("x", f"node {i}")]


def add_90_nodes(graph: Any) -> None:
    """Add so many nodes that the engine freezes those without a reference."""
    for i in range(90):
        graph.node.add(name=f"node {i}")


def rename_all(m: Any) -> None:
    """Edit so many nodes that the engine compacts overlays."""
    for element in m.graph.node:
        element.name = "x"


def add_to_all(m: Any) -> None:
    """Add an attribute to so many nodes that the engine freezes the attributes."""
    for element in m.graph.node:
        element.attribute.add(name="added", ints=[1])


def appended_tensor() -> TensorProto:
    """Return a parsed tensor with an appended number."""
    tensor = TensorProto.FromString(PACKED_NUMBERS)
    tensor.int64_data.append(5)
    return tensor


def shortened_node() -> NodeProto:
    """Return a parsed node with inputs, one of which was removed from the middle."""
    node = NodeProto.FromString(LONG_LIST)
    del node.input[100]
    return node


def append_to_all(m: Any) -> None:
    """Edit one field of each node and of two of its attributes; edit the second attribute twice."""
    for element in m.graph.node:
        element.output.append("x")
        element.attribute[0].ints.extend([1, 2])
        element.attribute[1].i = 5
        element.attribute[1].i = 6


def unexpected_values(m: Any) -> object:
    """Return the unexpected names, numbers of outputs and first two ints of an edited model of MANY_NODES.

    All results of `add_to_all` and `append_to_all` are expected, because a loop of edits may end after any edit.
    """
    attributes = [attribute for element in m.graph.node for attribute in element.attribute]
    return (
        [n.name for i, n in enumerate(m.graph.node) if n.name != f"node {i}"],
        {attribute.name for attribute in attributes} - {"axis", "pads", "added"},
        {len(n.output) for n in m.graph.node} - {1, 2},
        {tuple(attribute.ints)[:2] for attribute in attributes} - {(), (1,), (1, 2), (0, 1)},
    )


def assign_string(m: Any) -> None:
    """Assign to one field of a message in a message."""
    m.graph.doc_string = "a new string"


# Encoded messages: dims[0] = 1 of a tensor, input[0] = "a" of a node, and an attribute with the name "a" and i = 5.
DIM_1, INPUT_A, ATTRIBUTE_A = b"\x0a\x01\x01", b"\x0a\x01a", b"\x0a\x01a\x18\x05"

add_edit("assign str", assign_string)
add_edit("assign int", lambda m: setattr(m, "model_version", 1 << 40))
add_edit("assign bytes", lambda t: setattr(t, "raw_data", b"12345678"), lambda: TensorProto.FromString(DIM_1))
add_edit("assign float", lambda attribute: setattr(attribute, "f", 1.5), lambda: AttributeProto.FromString(ATTRIBUTE_A))
add_edit("add", lambda m: m.graph.node.add())
add_edit("add with fields", lambda m: m.graph.node.add(**node(9)))
add_edit("add many", add_90_nodes, lambda: GraphProto(), read_content=unexpected_names_of)
MANY_NODES = model(80).SerializeToString()  # more than OW_MAX_FULL_OVERLAYS of engine/thresholds.h
add_edit("add to many messages", add_to_all, message_maker(MANY_NODES), read_content=unexpected_values)
add_edit("append to many messages", append_to_all, message_maker(MANY_NODES), read_content=unexpected_values)
add_edit("append int", lambda t: t.dims.append(5), lambda: TensorProto.FromString(DIM_1))
PACKED_NUMBERS = TensorProto(float_data=[0.5, 1.5], int64_data=[1, 300, -1]).SerializeToString()
add_edit("append to packed run", lambda t: t.int64_data.append(5), lambda: TensorProto.FromString(PACKED_NUMBERS))
add_edit("extend packed run", lambda t: t.float_data.extend([5, 6]), lambda: TensorProto.FromString(PACKED_NUMBERS))
add_edit("reverse after append", lambda t: t.int64_data.reverse(), appended_tensor)
add_edit("append text", lambda n: n.input.append("text"), lambda: NodeProto.FromString(INPUT_A))
LONG_LIST = NodeProto(input=[f"text {i}" for i in range(200)]).SerializeToString()
add_edit("insert in the middle", lambda n: n.input.insert(100, "text"), lambda: NodeProto.FromString(LONG_LIST))
add_edit("insert after a removal", lambda n: n.input.insert(120, "text"), shortened_node)
add_edit("append message", lambda m: m.graph.node.append(NodeProto(**node(3))))
add_edit("append read message", lambda m: m.graph.node.append(ModelProto.FromString(LONG_DATA).graph.node[5]))
add_edit("extend ints", lambda t: t.dims.extend(range(400)), lambda: TensorProto.FromString(DIM_1))
add_edit(
    "extend texts",
    lambda n: n.input.extend([f"text {i}" for i in range(50)]),
    lambda: NodeProto.FromString(INPUT_A),
)
add_edit("extend messages", lambda m: m.graph.node.extend(ModelProto.FromString(LONG_DATA).graph.node))
add_edit("extend edited messages", lambda m: m.graph.node.extend(edited_model().graph.node))
add_edit("insert", lambda m: m.graph.node.insert(0, NodeProto(name="first")))
add_edit("insert text", lambda n: n.input.insert(1, "text"), lambda: NodeProto(input=["a", "b"]))
add_edit("delete", lambda m: m.graph.node.__delitem__(slice(0, 1)))
add_edit("delete a stride", lambda m: m.graph.node.__delitem__(slice(None, None, 2)))
add_edit(
    "set a slice",
    lambda n: n.input.__setitem__(slice(0, 1), ["x", "y", "z"]),
    lambda: NodeProto.FromString(INPUT_A + b"\x0a\x01b"),
)
# The dims [1, 2, 3] and [3, 2, 5] of tensors, packed.
add_edit("set an index", lambda t: t.dims.__setitem__(1, 7), lambda: TensorProto.FromString(b"\x0a\x03\x01\x02\x03"))
add_edit("sort by a key", lambda m: m.graph.node.sort(key=lambda n: n.name[::-1]), message_maker(LONG_DATA))
add_edit("sort numbers", lambda t: t.dims.sort(reverse=True), lambda: TensorProto.FromString(b"\x0a\x03\x03\x02\x05"))
add_edit("reverse", lambda m: m.graph.node.reverse())
add_edit("reverse numbers", lambda t: t.int64_data.reverse(), lambda: TensorProto(int64_data=range(300, 900)))
add_edit("pop", lambda m: m.graph.node.pop(), message_maker())
add_edit("clear elements", lambda m: m.graph.node.clear())
add_edit("CopyFrom", lambda m: m.CopyFrom(ModelProto.FromString(LONG_DATA)))
add_edit("CopyFrom edited", lambda m: m.graph.CopyFrom(edited_model().graph))
add_edit("MergeFrom", lambda m: m.MergeFrom(ModelProto.FromString(OTHER_MODEL)))
add_edit("MergeFrom into graph", lambda m: m.graph.MergeFrom(ModelProto.FromString(OTHER_MODEL).graph))
add_edit("MergeFrom edited", lambda m: m.MergeFrom(edited_model()))
add_edit("MergeFromString", lambda m: m.MergeFromString(OTHER_MODEL + UNKNOWN_RECORD))
add_edit(
    "MergeFromString into graph",
    lambda m: m.graph.MergeFromString(ModelProto.FromString(OTHER_MODEL).graph.SerializeToString() + UNKNOWN_RECORD),
)
add_edit(
    "MergeFrom of unknown fields",
    lambda m: m.MergeFrom(ModelProto.FromString(UNKNOWN_RECORD + OTHER_MODEL)),
    lambda: model_with_merged_unknown_field(),
)
add_edit(
    "MergeFrom of unknown fields into a graph without any",
    lambda m: m.MergeFrom(ModelProto.FromString(UNKNOWN_INSIDE)),
    lambda: model_with_merged_unknown_field(),
)
add_edit("ParseFromString", lambda m: m.ParseFromString(OTHER_MODEL))
add_edit("ClearField", lambda m: m.graph.ClearField("node"))
add_edit("ClearField of a message", lambda m: m.ClearField("graph"))
add_edit("Clear", lambda m: m.Clear())
add_edit("SetInParent", lambda m: m.graph.SetInParent())
add_edit("DiscardUnknownFields", lambda m: m.DiscardUnknownFields(), message_maker(UNKNOWN_INSIDE))
add_edit("edit a merged message", lambda m: setattr(m.graph, "name", "merged"), message_maker(DATA_IN_TWO_RECORDS))
add_edit(
    "edit many",
    rename_all,
    message_maker(MANY_NODES),
    read_content=lambda m: unexpected_names_of(m.graph),
)
add_edit("deepcopy", copy.deepcopy, edited_model)
add_edit("pickle", lambda m: pickle.loads(pickle.dumps(m)), edited_model, keeps_memory=True)
add_operation("constructor", lambda: None, lambda _: model(), keeps_memory=True)


def model_with_merged_unknown_field() -> ModelProto:
    """Return a model into which an unknown field was merged."""
    message = ModelProto.FromString(DATA)
    message.MergeFromString(UNKNOWN_RECORD)
    return message


# --- encoding

add_operation("SerializeToString", message_maker(), lambda m: m.SerializeToString())
add_operation("SerializeToString of an edited message", edited_model, lambda m: m.SerializeToString())
add_operation("SerializeToString deterministic", edited_model, lambda m: m.SerializeToString(deterministic=True))
add_operation("ByteSize", edited_model, lambda m: m.ByteSize())


class Functions(ctypes.Structure):
    """The first fields of `ow_python_api` of onnxwire_python.h."""

    _fields_ = (("version", ctypes.c_uint32), ("size", ctypes.c_uint32), ("export_message", ctypes.c_void_p))


class Pieces(ctypes.Structure):
    """`ow_python_pieces` of onnxwire_python.h."""

    _fields_ = (
        ("size", ctypes.c_uint64),
        ("count", ctypes.c_uint64),
        *((name, ctypes.c_void_p) for name in ("items", "release", "private_data")),
    )


# Calls of the C API: `export_message` fills `PIECES` for a message, and the `release` of the pieces frees them.
GET_POINTER_TYPE = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
API_ADDRESS = GET_POINTER_TYPE(("PyCapsule_GetPointer", ctypes.pythonapi))(onnxwire._c_api, b"onnxwire._c_api")
EXPORT = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_uint, ctypes.c_void_p)(
    Functions.from_address(API_ADDRESS).export_message
)
PIECES = Pieces()
PIECES_ADDRESS = ctypes.addressof(PIECES)
EXPORT(NodeProto(), 0, PIECES_ADDRESS)  # sets PIECES.release
RELEASE = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(PIECES.release)
RELEASE(PIECES_ADDRESS)


def export_pieces(m: Any) -> None:
    """Export a message to C, and release its pieces."""
    try:
        EXPORT(m, 0, PIECES_ADDRESS)
    finally:
        try:
            RELEASE(PIECES_ADDRESS)
        except (MemoryError, ctypes.ArgumentError):  # allocations of ctypes fail as well
            RELEASE(PIECES_ADDRESS)


def edited_model_with_long_values() -> ModelProto:
    """Return an edited model with nine values of 64 KiB."""
    message = ModelProto.FromString(DATA)
    for i in range(9):
        message.graph.initializer.add(name=f"w{i}", raw_data=bytes(1 << 16))
    return message


add_operation("export to C", edited_model, export_pieces, other_errors=(ctypes.ArgumentError,))
add_operation(
    "export of long values to C", edited_model_with_long_values, export_pieces, other_errors=(ctypes.ArgumentError,)
)


def save_state_maker(make_model: Callable[[], ModelProto]) -> Callable[[str], tuple[ModelProto, str]]:
    """Return a function that makes a state for a save: a message, and the path of an existing file."""

    def make(folder: str) -> tuple[ModelProto, str]:
        path = os.path.join(folder, "saved.onnx")
        with open(path, "wb") as file:
            file.write(b"the old content")
        return make_model(), path

    return make


def content_of_save(state: tuple[ModelProto, str]) -> object:
    """Return the content of the message and of the file."""
    with open(state[1], "rb") as file:
        return content_of(state[0]), file.read()


add_operation(
    "save",
    save_state_maker(message_maker()),
    lambda state: onnxwire.save(*state),
    read_content=content_of_save,
    keeps_memory=True,
)
add_operation(
    "save of an edited message",
    save_state_maker(edited_model),
    lambda state: onnxwire.save(*state),
    read_content=content_of_save,
    keeps_memory=True,
)

# --- tensors, columns of the checker, tables, text and JSON


def fill_columns_and_resolve_names(m: Any) -> None:
    """Fill columns, resolve names and measure payloads by functions of the checker. The rules are not run, because
    numpy may crash if an allocation fails."""
    document = ModelProto.FromString(m.SerializeToString())._document
    facts = Facts(document, ModelProto)
    Scopes(facts)
    facts.list_column("NodeProto", "input", "parent")
    facts.field_column("NodeProto", "op_type")
    mask = memoryview(bytes([1]) * len(m.graph.initializer))
    measure_numbers(facts, "TensorProto", "int64_data", mask)
    measure_strings(facts, "TensorProto", "string_data", mask)


ARRAY = np.arange(600, dtype=np.int64)
add_operation("numpy", message_maker(), lambda m: m.graph.initializer[0].numpy(), keeps_memory=True)
add_operation(
    "numpy of a field",
    lambda: TensorProto.FromString(TensorProto(int64_data=ARRAY).SerializeToString()),
    lambda t: t.int64_data.numpy(),
)
add_operation(
    "from_array", lambda: None, lambda _: onnxwire.from_array(ARRAY, "name").SerializeToString(), keeps_memory=True
)
add_operation("check", message_maker(), fill_columns_and_resolve_names)
for table in ("nodes", "attributes", "values", "uses", "tensors"):
    add_operation(
        f"to_arrow {table}",
        message_maker(),
        lambda m, table=table: onnxwire.to_arrow(m, table).to_pydict(),
        keeps_memory=True,
    )
add_operation(
    "to_arrow capsule", message_maker(), lambda m: onnxwire.to_arrow(m, "nodes").__arrow_c_stream__(), keeps_memory=True
)
TEXT = onnxwire.to_text(model())
JSON = onnxwire.to_json(model())
add_operation("to_text", edited_model, onnxwire.to_text, keeps_memory=True)
add_operation("from_text", lambda: TEXT, onnxwire.from_text, keeps_memory=True)
add_operation("to_json", edited_model, onnxwire.to_json, keeps_memory=True)
add_operation("from_json", lambda: JSON, onnxwire.from_json, keeps_memory=True)
