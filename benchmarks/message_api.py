"""Compare operations on messages and repeated fields with protobuf's upb: `python -m benchmarks message_api`.

This benchmark runs only if it is named, because it has many rows. Its input is parsed before the measurement. Parsing
by upb decodes all fields. onnxwire decodes a field at its first access, which is measured.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.data import FOLDER, make_once
from benchmarks.row import Row

N_NODES = 50_000
N_NUMBERS = 1_000_000
N_JSON_NODES = 10_000
MODEL_WITHOUT_ATTRIBUTES = FOLDER / "message_api_plain.onnx"  # nodes: op_type, name, an input, an output
MODEL_WITH_ATTRIBUTES = FOLDER / "message_api_rich.onnx"  # the same nodes with two attributes, one of them a list
TENSOR_FILE = FOLDER / "message_api.tensor"


def prepare() -> None:
    """Write the two models and the tensor with the official package."""
    import onnx

    def write_model_file(path: Path, has_attributes: bool) -> None:
        model = onnx.ModelProto()
        for i in range(N_NODES):
            node = model.graph.node.add(op_type="Conv", name=f"node{i}", input=[f"v{i}"], output=[f"v{i + 1}"])
            if has_attributes:
                node.attribute.add(name="group", i=i, type=onnx.AttributeProto.INT)
                node.attribute.add(name="pads", ints=[1, 1, i, 1], type=onnx.AttributeProto.INTS)
        path.write_bytes(model.SerializeToString())

    def write_tensor(path: Path) -> None:
        tensor = onnx.TensorProto(int64_data=range(N_NUMBERS), float_data=map(float, range(N_NUMBERS)))
        path.write_bytes(tensor.SerializeToString())

    make_once(MODEL_WITHOUT_ATTRIBUTES, lambda path: write_model_file(path, False))
    make_once(MODEL_WITH_ATTRIBUTES, lambda path: write_model_file(path, True))
    make_once(TENSOR_FILE, write_tensor)


def parse_message(package: Any, path: Path) -> Any:
    """Parse the message of a file. package: `onnx` or `onnxwire`."""
    message = package.TensorProto() if path == TENSOR_FILE else package.ModelProto()
    message.ParseFromString(path.read_bytes())
    return message


def parse_and_edit_model(package: Any, path: Path) -> Any:
    """Parse a model, and give every node a new name and one more input."""
    model = parse_message(package, path)
    for node in model.graph.node:
        node.name = "changed"
        node.input.append("added")
    return model


def for_each_node(operation: Callable[[Any], object]) -> Callable[[Any], None]:
    """Return a function that calls an operation with every node of a model."""

    def call_with_all(model: Any) -> None:
        for node in model.graph.node:
            operation(node)

    return call_with_all


def repeat(count: int, change: Callable[[Any], object]) -> Callable[[Any], None]:
    """Return a function that changes a message several times."""

    def change_often(message: Any) -> None:
        for _ in range(count):
            change(message)

    return change_often


def pickle_and_unpickle(message: Any) -> object:
    """Pickle and unpickle a message."""
    import pickle

    return pickle.loads(pickle.dumps(message))


def deep_copy(message: Any) -> object:
    """Return a deep copy of a message."""
    import copy

    return copy.deepcopy(message)


def set_slice(sequence: Any, values: Any) -> None:
    """Replace all elements of a sequence."""
    sequence[:] = values


def delete_item(sequence: Any, index: int) -> None:
    """Delete one element of a sequence."""
    del sequence[index]


Operation = Callable[[Any], object]
INTEGERS = list(range(N_NUMBERS))
RAW_DATA = bytes(100)

# Operations on a model of 50,000 nodes with attributes.
MODEL_OPERATIONS: dict[str, Operation] = {
    "ParseFromString": lambda model: model.ParseFromString(MODEL_WITH_ATTRIBUTES.read_bytes()),
    "FromString, read one field": lambda model: type(model).FromString(MODEL_WITH_ATTRIBUTES.read_bytes()).graph.name,
    "MergeFromString": lambda model: model.MergeFromString(MODEL_WITHOUT_ATTRIBUTES.read_bytes()),
    "SerializeToString": lambda model: model.SerializeToString(),
    "SerializeToString(deterministic=True)": lambda model: model.SerializeToString(deterministic=True),
    "SerializePartialToString": lambda model: model.SerializePartialToString(),
    "ByteSize": lambda model: model.ByteSize(),
    "CopyFrom": lambda model: type(model)().CopyFrom(model),
    "MergeFrom": lambda model: type(model)().MergeFrom(model),
    "Clear": lambda model: model.Clear(),
    "IsInitialized": lambda model: model.IsInitialized(),
    "DiscardUnknownFields": lambda model: model.DiscardUnknownFields(),
    "copy.deepcopy": deep_copy,
    "pickle": pickle_and_unpickle,
    "str": str,
    "HasField of each node": for_each_node(lambda node: node.HasField("doc_string")),
    "ListFields of each node": for_each_node(lambda node: node.ListFields()),
    "ClearField of each node": for_each_node(lambda node: node.ClearField("name")),
    "read a string of each node": for_each_node(lambda node: node.op_type),
    "assign a string in each node": for_each_node(lambda node: setattr(node, "name", "x")),
    "append a string in each node": for_each_node(lambda node: node.input.append("x")),
    "add a message in each node": for_each_node(lambda node: node.attribute.add(name="x", i=1)),
    "assign a number in a message of each node": for_each_node(lambda node: setattr(node.attribute[0], "i", 1)),
    "extend numbers in a message of each node": for_each_node(lambda node: node.attribute[1].ints.extend((1, 2))),
    "CopyFrom in each node": for_each_node(lambda node: node.attribute[0].CopyFrom(node.attribute[1])),
    "assign raw_data of 50,000 new tensors": lambda model: [
        setattr(model.graph.initializer.add(), "raw_data", RAW_DATA) for _ in range(N_NODES)
    ],
    "index 50,000 nodes": lambda model: [model.graph.node[i] for i in range(N_NODES)],
    "slice 50,000 nodes": lambda model: model.graph.node[:],
    "insert 20 nodes at the start": repeat(20, lambda model: model.graph.node.insert(0, model.graph.node[9])),
    "pop 20 nodes from the start": repeat(20, lambda model: model.graph.node.pop(0)),
    "delete 20 nodes": repeat(20, lambda model: delete_item(model.graph.node, 5)),
    "extend with 50,000 nodes": lambda model: type(model)().graph.node.extend(model.graph.node),
    "sort 50,000 nodes": lambda model: model.graph.node.sort(key=lambda node: node.name),
    "reverse 50,000 nodes": lambda model: model.graph.node.reverse(),
}  # fmt: skip

# Operations on a tensor with 1,000,000 int64 and 1,000,000 floats.
TENSOR_OPERATIONS: dict[str, Operation] = {
    "append one int64": lambda tensor: tensor.int64_data.append(5),
    "append one float": lambda tensor: tensor.float_data.append(5),
    "append 100,000 int64": repeat(100_000, lambda tensor: tensor.int64_data.append(5)),
    "insert 50 int64 at the start": repeat(50, lambda tensor: tensor.int64_data.insert(0, 5)),
    "pop 50 int64 from the start": repeat(50, lambda tensor: tensor.int64_data.pop(0)),
    "remove 50 int64": repeat(50, lambda tensor: tensor.int64_data.remove(tensor.int64_data[5])),
    "assign one float": lambda tensor: tensor.float_data.__setitem__(5, 1.5),
    "assign a slice of 1,000,000 int64": lambda tensor: set_slice(tensor.int64_data, INTEGERS),
    "extend by 1,000,000 int64": lambda tensor: tensor.int64_data.extend(INTEGERS),
    "iterate over 1,000,000 int64": lambda tensor: sum(tensor.int64_data),
    "list of 1,000,000 floats": lambda tensor: list(tensor.float_data),
    "reverse 1,000,000 int64": lambda tensor: tensor.int64_data.reverse(),
    "ParseFromString, append one int64, SerializeToString": lambda tensor: (
        tensor.ParseFromString(TENSOR_FILE.read_bytes()), tensor.int64_data.append(5), tensor.SerializeToString()
    ),
}  # fmt: skip


class JsonModel(NamedTuple):
    """protobuf's module json_format, and a model of 10,000 nodes as a message, as JSON text, and as a dict."""

    json_format: Any
    message: Any
    text: str
    values: dict[str, Any]


def make_json_model(package: Any) -> JsonModel:
    """Return the JsonModel of the first nodes of MODEL_WITH_ATTRIBUTES. package: `onnx` or `onnxwire`."""
    from google.protobuf import json_format

    model = parse_message(package, MODEL_WITH_ATTRIBUTES)
    del model.graph.node[N_JSON_NODES:]
    return JsonModel(json_format, model, json_format.MessageToJson(model), json_format.MessageToDict(model))


# Operations of protobuf's json_format on a model of 10,000 nodes.
JSON_OPERATIONS: dict[str, Operation] = {
    "json_format.Parse, 10,000 nodes": lambda model: model.json_format.Parse(model.text, type(model.message)()),
    "json_format.ParseDict, 10,000 nodes": lambda model: model.json_format.ParseDict(
        model.values, type(model.message)()
    ),
    "json_format.MessageToDict, 10,000 nodes": lambda model: model.json_format.MessageToDict(model.message),
}


def make_side(
    package: str, make_message: Callable[[Any], Any], operation: Operation
) -> Callable[[], Callable[[], object]]:
    """Return a side of a row that uses the classes of a package.

    make_message: a function that receives the package and makes the argument of the operation.
    """

    def side() -> Callable[[], object]:
        message = make_message(__import__(package))
        return lambda: operation(message)

    return side


def make_row(name: str, make_message: Callable[[Any], Any], operation: Operation) -> Row:
    """Return a row for an operation on the messages of both packages."""
    ours, official = make_side("onnxwire", make_message, operation), make_side("onnx", make_message, operation)
    return Row(name, prepare=prepare, ours=ours, official=official, repeats=3, cpu_time=True)


def make_rows_for_edited_models(method: str, operation: Operation) -> list[Row]:
    """Return two rows: for an edited model whose nodes have attributes, and for one whose nodes have none."""
    return [
        make_row(
            f"{method}, edited nodes with attributes",
            lambda package: parse_and_edit_model(package, MODEL_WITH_ATTRIBUTES),
            operation,
        ),
        make_row(
            f"{method}, edited nodes without attributes",
            lambda package: parse_and_edit_model(package, MODEL_WITHOUT_ATTRIBUTES),
            operation,
        ),
    ]


def make_equal_messages(package: Any, make_message: Callable[[Any, Path], Any], path: Path) -> tuple[Any, Any]:
    """Return two equal messages. make_message: `parse_message` or `parse_and_edit_model`."""
    return make_message(package, path), make_message(package, path)


ROWS = [
    *(
        make_row(name, lambda package: parse_message(package, MODEL_WITH_ATTRIBUTES), operation)
        for name, operation in MODEL_OPERATIONS.items()
    ),
    *make_rows_for_edited_models("SerializeToString", lambda model: model.SerializeToString()),
    *make_rows_for_edited_models("ByteSize", lambda model: model.ByteSize()),
    make_row(
        "== of parsed messages",
        lambda package: make_equal_messages(package, parse_message, MODEL_WITH_ATTRIBUTES),
        lambda messages: messages[0] == messages[1],
    ),
    make_row(
        "== of edited messages",
        lambda package: make_equal_messages(package, parse_and_edit_model, MODEL_WITH_ATTRIBUTES),
        lambda messages: messages[0] == messages[1],
    ),
    *(
        make_row(name, lambda package: parse_message(package, TENSOR_FILE), operation)
        for name, operation in TENSOR_OPERATIONS.items()
    ),
    *(make_row(name, make_json_model, operation) for name, operation in JSON_OPERATIONS.items()),
]
