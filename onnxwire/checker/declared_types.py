"""Reads the types and shapes that ValueInfoProto declares and the dims of TensorProto, and compares shapes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from onnxwire.checker.facts import EMPTY, true_rows

if TYPE_CHECKING:
    from onnxwire.checker.facts import Facts

_TENSOR_TYPES = {"tensor_type": "TypeProto.Tensor", "sparse_tensor_type": "TypeProto.SparseTensor"}

# A dimension: (size or None, id of the `dim_param` string or EMPTY).
Dim = tuple[int | None, int]


class DeclaredTypes:
    """Columns for ValueInfoProto. `facts.derive(DeclaredTypes)` returns the object.

    graph: the row of the graph that the message is in, or -1. kind: the index of the type's kind among the
    fields of TypeProto, or -1. elem_type: the element type of a tensor or sparse tensor, 0 if unknown. shape: the row
    of its shape in TensorShapeProto, or -1. is_input, is_output, is_info: whether the message is in the field `input`,
    `output` or `value_info` of a graph. type_kind: the kind of each row of TypeProto, and a last element -1.
    """

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        infos, types = facts.ValueInfoProto, facts.TypeProto
        self.is_input = infos.under("GraphProto.input")
        self.is_output = infos.under("GraphProto.output")
        self.is_info = infos.under("GraphProto.value_info")
        self.graph = np.where(self.is_input | self.is_output | self.is_info, infos.parent, -1)
        elem_type = np.zeros(types.n + 1, np.int64)
        shape = np.full(types.n + 1, -1, np.int64)
        kind = np.full(types.n + 1, -1, np.int64)
        for i, field in enumerate(types.fields):
            if field == "denotation" or f"TypeProto.{field}" not in facts.present:
                continue
            rows = true_rows(types.has(field))
            kind[rows] = i
            if field in _TENSOR_TYPES:
                tensors, tensor_rows = facts[_TENSOR_TYPES[field]], getattr(types, field)[rows]
                elem_type[rows] = tensors.elem_type[tensor_rows]
                shape[rows] = tensors.shape[tensor_rows]
        # The last entry represents an absent type, whose index is -1.
        self.type_kind = kind
        self.kind, self.elem_type, self.shape = kind[infos.type], elem_type[infos.type], shape[infos.type]

    def dims(self, row: int) -> list[Dim] | None:
        """Return the dimensions of a value, or None if its rank is unknown."""
        shape = int(self.shape[row])
        if shape < 0:
            return None
        shapes, dims = self.facts.TensorShapeProto, self.facts["TensorShapeProto.Dimension"]
        start = int(shapes.first("dim")[shape])
        has_value = dims.has("dim_value")
        return [
            (int(dims.dim_value[i]) if has_value[i] else None, int(dims.dim_param[i]))
            for i in range(start, start + int(shapes.dim[shape]))
        ]

    def tensor_dims(self, row: int) -> list[Dim]:
        """Return the dimensions of a TensorProto."""
        sizes = self.facts.lists("TensorProto.dims").value
        start, n = int(self.facts.TensorProto.first("dims")[row]), int(self.facts.TensorProto.dims[row])
        return [(size, EMPTY) for size in sizes[start : start + n].tolist()]

    def find_inputs(self, graphs: Any, names: Any) -> Any:
        """Return, for each graph and name, the row of the graph's input of that name, or -1."""
        inputs = true_rows(self.is_input)
        positions = self.facts.join((graphs, names), (self.graph[inputs], self.facts.ValueInfoProto.name[inputs]))
        return np.where(positions >= 0, inputs[positions], -1) if len(inputs) else positions


def describe_contradiction(left: list[Dim] | None, right: list[Dim] | None) -> str:
    """Return the first contradiction of two shapes, such as "ranks 2 and 3"; "" if there is none."""
    if left is None or right is None:
        return ""
    if len(left) != len(right):
        return f"ranks {len(left)} and {len(right)}"
    for axis, ((left_size, _), (right_size, _)) in enumerate(zip(left, right, strict=True)):
        if left_size is not None and right_size is not None and left_size != right_size:
            return f"sizes {left_size} and {right_size} in dimension {axis}"
    return ""
