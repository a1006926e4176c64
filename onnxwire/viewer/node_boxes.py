"""The text in the box of a node on the map: its name without the name of its group, its weights with shapes, and its
attributes."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

from onnxwire.analysis.describe import describe_number, printable_text
from onnxwire.checker.operator_table import Signature, operators
from onnxwire.engine.floats import shortest_floats
from onnxwire.errors import Error
from onnxwire.io.tensor_list import is_external
from onnxwire.messages import AttributeProto, ModelProto, NodeProto, TensorProto
from onnxwire.tensor.dtypes import name_of
from onnxwire.viewer.map_columns import split_name

if TYPE_CHECKING:
    from onnxwire.viewer.map_columns import MapColumns

MAX_LINES = 4  # maximum number of lines of weights and attributes in one box
_MAX_ATTRIBUTES = 16  # maximum number of a node's attributes that are considered
_MAX_TEXT_CHARS = 24  # maximum length of an attribute's name in characters, and of its string in bytes
MAX_NAME_CHARS = 200  # maximum length of a node's name, without the ellipsis in its middle
_MAX_SPLIT_CHARS = 1_000  # the scopes at the start of a longer name are not omitted
_MAX_SHOWN_ELEMENTS = 4  # maximum number of shown elements of a list or tensor
_MAX_SHOWN_DIMS = 6  # maximum number of shown dims
_MAX_DIM_CHARS = 12  # maximum length of a dim's name


def short_name(name: str, op_type: str, scopes: list[str]) -> str:
    """Return the part of a node's name that its box shows; "" if it equals the operator.

    scopes: the parts of names, such as modules, that the titles of the groups around the box show; see `split_name`.
    """
    separator, parts = split_name(name[:_MAX_SPLIT_CHARS])
    if scopes and parts[: len(scopes)] == scopes and len(name) <= _MAX_SPLIT_CHARS:
        inner_parts = parts[len(scopes) :]
        if len(inner_parts) > 1 and inner_parts[-1] == op_type:
            inner_parts.pop()
        # If no part remains, the text after the last separator is shown, such as an index that `split_name` joined to
        # a scope.
        name = separator.join(inner_parts) or name.rpartition(separator)[2] or name
    name = name.lstrip("/")
    if name == op_type:
        return ""
    half = MAX_NAME_CHARS // 2
    return name if len(name) <= MAX_NAME_CHARS else f"{name[:half]}…{name[-half:]}"


def shape_text(type_text: str) -> str:
    """Return the shape in a type of `MapColumns`: 64×3×7×7 for float[64, 3, 7, 7], and scalar for float[].

    A type without a shape is returned unchanged. Many dims and long names of dims are truncated.
    """
    _, bracket, shape = type_text.partition("[")
    if not bracket:
        return type_text
    dims = shape.removesuffix("]").split(", ") if shape != "]" else []
    shown_dims = [dim if len(dim) <= _MAX_DIM_CHARS else f"{dim[:_MAX_DIM_CHARS]}…" for dim in dims[:_MAX_SHOWN_DIMS]]
    return ("×".join(shown_dims) + ("×…" if len(dims) > _MAX_SHOWN_DIMS else "")) or "scalar"


class NodeBoxes:
    """The lines of text in boxes of nodes of one model."""

    def __init__(self, model: ModelProto, columns: MapColumns) -> None:
        self._columns = columns
        self._opsets: dict[str, int] = {}
        for opset in model.opset_import:
            self._opsets.setdefault("" if opset.domain == "ai.onnx" else opset.domain, opset.version)

    def lines(self, row: int, node: NodeProto) -> list[str]:
        """Return the weights that a node uses and its short attributes, or the value of a constant.

        row: the node's row in the columns. Weights are initializers of the node's own graph. A weight is written with
        the name that the operator gives the input, as in W 64×3×7×7, and an attribute as in strides [2, 2].
        """
        columns = self._columns
        # use_index is the index of the input, negative for a value that a nested graph captures.
        weights = [
            (int(columns.use_index[i]), shape_text(columns.types[int(columns.type[columns.use_value[i]])]))
            for i in range(int(columns.use_start[row]), int(columns.use_start[row + 1]))
            if columns.is_weight[columns.use_value[i]] and columns.use_index[i] >= 0
        ]
        signature = self._signature(node) if weights else None
        rows = [f"{_input_name(signature, index)} {shape}".strip() for index, shape in weights[:MAX_LINES]]
        if len(weights) > MAX_LINES:
            rows[-1] = f"and {len(weights) - MAX_LINES + 1:,} more weights"
        return rows + _attribute_lines(node)[: MAX_LINES - len(rows)]

    def _signature(self, node: NodeProto) -> Signature | None:
        """Return the signature of a node's operator, at the version that the model imports; None if it is unknown."""
        domain = "" if node.domain == "ai.onnx" else node.domain
        operator_table = operators()
        since = operator_table.since_version(domain, node.op_type, self._opsets.get(domain, 0))
        return None if since is None else operator_table.signature(domain, node.op_type, since)


def _input_name(signature: Signature | None, index: int) -> str:
    """Return the name of an input by its index; "" if it is unknown."""
    if signature is None or not signature.inputs:
        return ""
    last_input = signature.inputs[-1]  # option "*": a variadic input
    if index < len(signature.inputs) - (last_input.option == "*"):
        return signature.inputs[index].name
    return last_input.name if last_input.option == "*" else ""


def _attribute_lines(node: NodeProto) -> list[str]:
    """Return the attributes that are numbers or short strings, with names; for a Constant node only the value.

    Lists of numbers are truncated.
    """
    lines = []
    try:
        for attribute in islice(node.attribute, _MAX_ATTRIBUTES):
            if node.op_type == "Constant":
                return [text] if (text := _attribute_text(attribute)) else []
            if (
                not attribute.HasField("t")
                and len(attribute.name) <= _MAX_TEXT_CHARS
                and (text := _attribute_text(attribute))
            ):
                lines.append(f"{attribute.name} {text}")
    except (Error, OSError):
        pass  # a damaged value is shown in the details of the node
    return lines


def _attribute_text(attribute: AttributeProto) -> str:
    """Return a tensor, numbers or a short string in one line; "" for other values."""
    if attribute.HasField("t"):
        return _tensor_text(attribute.t)
    fields = attribute.DESCRIPTOR.fields_by_name
    for name in ("f", "i"):
        if attribute.HasField(name):
            return describe_number(fields[name], getattr(attribute, name))
    if attribute.HasField("s") and len(attribute.s) <= _MAX_TEXT_CHARS:
        text = printable_text(attribute.s, is_truncated=False) or ""
        return text if text.isprintable() else ""
    for name in ("floats", "ints"):
        if values := getattr(attribute, name):
            return _list_text(
                values, [describe_number(fields[name], number) for number in values[:_MAX_SHOWN_ELEMENTS]]
            )
    return ""


def _tensor_text(tensor: TensorProto) -> str:
    """Return the elements of an inline scalar or vector of up to four numbers; of another tensor, type and shape."""
    dims = list(tensor.dims[: _MAX_SHOWN_DIMS + 1])
    type_name = name_of(tensor.data_type).lower()
    is_small = len(dims) < 2 and all(0 <= dim <= _MAX_SHOWN_ELEMENTS for dim in dims)
    if is_small and not is_external(tensor) and not tensor.HasField("segment") and type_name != "string":
        values: Any = tensor.numpy().tolist()
        return f"[{', '.join(map(_element_text, values))}]" if isinstance(values, list) else _element_text(values)
    return f"{type_name} {shape_text('[' + ', '.join(map(str, dims)) + ']')}"


def _element_text(value: object) -> str:
    return str(shortest_floats([value])[0]) if isinstance(value, float) else str(value)


def _list_text(values: Any, shown_texts: list[str]) -> str:
    return f"[{', '.join(shown_texts)}{', …' if len(values) > len(shown_texts) else ''}]"
