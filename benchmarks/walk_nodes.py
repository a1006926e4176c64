"""Read the fields of 100,000 nodes and 100,000 value_infos in several ways, each with the same code for both sides."""

import inspect
from collections.abc import Callable
from textwrap import dedent
from typing import Any

from benchmarks.row import Row
from benchmarks.structure import PATH, prepare

FLOAT, INT, STRING, INTS = 1, 2, 3, 7  # AttributeProto.AttributeType


def walk(model: Any) -> float:
    """Read the fields by name, as a typical ONNX tool does, and return a checksum."""
    total: float = model.ir_version
    for node in model.graph.node:
        total += len(node.name) + len(node.op_type) + len(node.domain) + len(node.overload) + len(node.doc_string)
        for name in node.input:
            total += len(name)
        for name in node.output:
            total += len(name)
        for attribute in node.attribute:
            total += len(attribute.name) + len(attribute.doc_string)
            attribute_type = attribute.type
            if attribute_type == INT:
                total += attribute.i
            elif attribute_type == INTS:
                total += sum(attribute.ints)
            elif attribute_type == FLOAT:
                total += attribute.f
            elif attribute_type == STRING:
                total += len(attribute.s)
        for entry in node.metadata_props:
            total += len(entry.key) + len(entry.value)
    for value in model.graph.value_info:
        total += len(value.name) + len(value.doc_string)
        tensor_type = value.type.tensor_type
        total += tensor_type.elem_type
        for dim in tensor_type.shape.dim:
            if dim.HasField("dim_value"):
                total += dim.dim_value
            else:
                total += len(dim.dim_param)
    return total


def walk_usual_fields(model: Any) -> float:
    """Read the fields that most nodes and values have, those of a dim only after HasField. Return a checksum."""
    total: float = 0
    for node in model.graph.node:
        total += len(node.name) + len(node.op_type)
        for name in node.input:
            total += len(name)
        for name in node.output:
            total += len(name)
        for attribute in node.attribute:
            total += len(attribute.name)
            attribute_type = attribute.type
            if attribute_type == INT:
                total += attribute.i
            elif attribute_type == INTS:
                total += sum(attribute.ints)
            elif attribute_type == FLOAT:
                total += attribute.f
            elif attribute_type == STRING:
                total += len(attribute.s)
    for value in model.graph.value_info:
        total += len(value.name)
        tensor_type = value.type.tensor_type
        total += tensor_type.elem_type
        for dim in tensor_type.shape.dim:
            if dim.HasField("dim_value"):
                total += dim.dim_value
            elif dim.HasField("dim_param"):
                total += len(dim.dim_param)
    return total


def walk_by_list_fields(message: Any) -> float:
    """Read all present fields by ListFields, and return a checksum."""
    total: float = 0
    for field, value in message.ListFields():
        total += field.number
        if field.type == field.TYPE_MESSAGE:
            for item in value if field.is_repeated else (value,):
                total += walk_by_list_fields(item)
        elif field.type in (field.TYPE_STRING, field.TYPE_BYTES):
            total += sum(map(len, value)) if field.is_repeated else len(value)
        else:
            total += sum(value) if field.is_repeated else value
    return total


def convert_to_script(walk_function: Callable[[Any], float]) -> Callable[[Any], float]:
    """Return a function that runs the body of `walk_function` as a script, whose variables are global.

    walk_function: its parameter is `model`, its docstring is one line, and its last line returns `total`.
    """
    # The body without the lines of `def`, of the docstring and of the last `return`.
    body = inspect.getsource(walk_function).split("\n", 2)[2].rpartition("    return total")[0]
    code = compile(dedent(body), __file__, "exec")

    def run(model: Any) -> float:
        variables = {**globals(), "model": model}
        exec(code, variables)
        total: float = variables["total"]
        return total

    return run


def ours(walk_function: Callable[[Any], float]) -> Callable[[], object]:
    """Return an operation that parses the bytes of the model file with onnxwire and calls a function with the model."""
    from onnxwire import ModelProto

    data = PATH.read_bytes()
    return lambda: walk_function(ModelProto.FromString(data))


def official(walk_function: Callable[[Any], float]) -> Callable[[], object]:
    """Return an operation that parses the bytes of the model file with onnx and calls a function with the model."""
    from onnx import ModelProto

    data = PATH.read_bytes()
    return lambda: walk_function(ModelProto.FromString(data))


ROWS = [
    Row(
        "parse and walk 100,000 nodes, 100,000 value_infos",
        prepare=prepare,
        ours=lambda: ours(walk),
        official=lambda: official(walk),
        fingerprint=lambda result: result,
        goal=3,
    ),
    Row(
        "the same, in a script, whose variables are global",
        prepare=prepare,
        ours=lambda: ours(convert_to_script(walk)),
        official=lambda: official(convert_to_script(walk)),
        fingerprint=lambda result: result,
        goal=3.2,
    ),
    Row(
        "parse and walk these nodes and value_infos, only fields that are usually set, with HasField for both members "
        "of a dim's oneof",
        prepare=prepare,
        ours=lambda: ours(walk_usual_fields),
        official=lambda: official(walk_usual_fields),
        fingerprint=lambda result: result,
        goal=3.5,
    ),
    Row(
        "parse this model and read all its fields with ListFields",
        prepare=prepare,
        ours=lambda: ours(walk_by_list_fields),
        official=lambda: official(walk_by_list_fields),
        fingerprint=lambda result: result,
        repeats=5,
    ),
]
