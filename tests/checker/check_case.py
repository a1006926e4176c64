"""The format of the cases of rules; the cases of a scope are in `cases/SCOPE.py`."""

from dataclasses import dataclass, field
from typing import Any

import onnxwire

OPSET = "opset_import { version: 17 }"
FLOAT = "type { tensor_type { elem_type: 1 shape { dim { dim_value: 2 } } } }"


@dataclass(frozen=True)
class Case:
    """A document that breaks one rule, and one that does not.

    broken, sound: text of a message of the type, or its bytes. at: the paths that the problems name, all of them.
    options: more arguments of `check`.
    """

    broken: str | bytes
    sound: str | bytes
    at: tuple[str, ...] = ("",)
    type: type = onnxwire.ModelProto
    options: dict[str, Any] = field(default_factory=dict)


def model(graph: str = "", ir: int = 8, opset: str = OPSET, rest: str = "", name: str = "g") -> str:
    """Return the text of a model; graph: the text of its graph's fields."""
    return f'ir_version: {ir} {opset} {rest} graph {{ name: "{name}" {graph} }}'


def value(name: str, type: str = FLOAT) -> str:
    """Return the fields of a ValueInfoProto."""
    return f'name: "{name}" {type}'


def shaped(dims: str) -> str:
    """Return a float type with these dimensions."""
    return f"type {{ tensor_type {{ elem_type: 1 shape {{ {dims} }} }} }}"


def node(inputs: str = "", outputs: str = "", rest: str = "", op: str = "Relu") -> str:
    """Return a node. inputs, outputs: names separated by spaces; `-` is the empty name."""
    parts = [f'input: "{name.strip("-")}"' for name in inputs.split()]
    parts += [f'output: "{name.strip("-")}"' for name in outputs.split()]
    return f'node {{ {" ".join(parts)} op_type: "{op}" {rest} }}'


def tensor(name: str, dims: str = "dims: 1", rest: str = "float_data: 1") -> str:
    """Return the fields of a float TensorProto."""
    return f'name: "{name}" data_type: 1 {dims} {rest}'


def sparse(name: str) -> str:
    """Return the fields of a SparseTensorProto of one value."""
    return f"values {{ {tensor(name)} }} indices {{ data_type: 7 dims: 1 int64_data: 0 }} dims: 4"


def holding(graph: str, name: str = "h", attribute: str = "then_branch") -> str:
    """Return the fields of a node that has a graph."""
    return f'attribute {{ name: "{attribute}" type: GRAPH g {{ name: "{name}" {graph} }} }}'


def nested(graph: str, before: str = "", after: str = "", outputs: str = "o") -> str:
    """Return a model with input x, whose node 0 contains a graph, and with other nodes before and after it."""
    holder = node("x", outputs, holding(graph), op="If")
    return model(f"input {{ {value('x')} }} {before} {holder} {after}")
