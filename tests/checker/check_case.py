"""The format of the test cases of the checker's rules; the cases of `checker/rules/NAME.py` are in `cases/NAME.py`."""

from dataclasses import dataclass, field
from typing import Any

import onnxwire

OPSET = "opset_import { version: 17 }"
# The type of a float tensor with two elements, a field of a ValueInfoProto.
FLOAT = "type { tensor_type { elem_type: 1 shape { dim { dim_value: 2 } } } }"


@dataclass(frozen=True)
class Case:
    """A document that breaks a rule, and a document that does not break it.

    broken, valid: the text form of a message of the class `type`, or its bytes. paths: the paths of all problems of
    that rule in the broken document, in order. options: additional arguments of `check`.
    """

    broken: str | bytes
    valid: str | bytes
    paths: tuple[str, ...] = ("",)
    type: type = onnxwire.ModelProto
    options: dict[str, Any] = field(default_factory=dict)


def model(graph: str = "", ir: int = 8, opset: str = OPSET, fields: str = "", name: str = "g") -> str:
    """Return the text form of a model.

    graph, name: the fields and the name of the graph. opset: the model's entries of opset_import. fields: the model's
    other fields.
    """
    return f'ir_version: {ir} {opset} {fields} graph {{ name: "{name}" {graph} }}'


def value(name: str, type: str = FLOAT) -> str:
    """Return the fields of a ValueInfoProto."""
    return f'name: "{name}" {type}'


def float_type(dims: str) -> str:
    """Return a float type with these dimensions."""
    return f"type {{ tensor_type {{ elem_type: 1 shape {{ {dims} }} }} }}"


def node(inputs: str = "", outputs: str = "", fields: str = "", op: str = "Relu") -> str:
    """Return a node as a field of a graph. fields: other fields of the node.

    inputs, outputs: names separated by spaces; `-` is the empty name.
    """
    texts = [f'input: "{name.strip("-")}"' for name in inputs.split()]
    texts += [f'output: "{name.strip("-")}"' for name in outputs.split()]
    return f'node {{ {" ".join(texts)} op_type: "{op}" {fields} }}'


def tensor(name: str, dims: str = "dims: 1", fields: str = "float_data: 1") -> str:
    """Return the fields of a float TensorProto. fields: the fields besides name, type and dims."""
    return f'name: "{name}" data_type: 1 {dims} {fields}'


def sparse(name: str) -> str:
    """Return the fields of a SparseTensorProto of one value."""
    return f"values {{ {tensor(name)} }} indices {{ data_type: 7 dims: 1 int64_data: 0 }} dims: 4"


def graph_attribute(graph: str, graph_name: str = "h", attribute: str = "then_branch") -> str:
    """Return an attribute, named `attribute`, whose value is a graph with these fields."""
    return f'attribute {{ name: "{attribute}" type: GRAPH g {{ name: "{graph_name}" {graph} }} }}'


def nested_model(graph: str, before: str = "", after: str = "", outputs: str = "o") -> str:
    """Return a model with input x and an If that contains a graph. before, after: nodes before and after the If.

    graph: the fields of the contained graph. outputs: the outputs of the If.
    """
    if_node = node("x", outputs, graph_attribute(graph), op="If")
    return model(f"input {{ {value('x')} }} {before} {if_node} {after}")
