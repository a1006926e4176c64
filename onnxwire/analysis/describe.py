"""Formats types, operator calls, and values of fields for people."""

from __future__ import annotations

from onnxwire.engine.floats import shortest_floats
from onnxwire.tensor.dtypes import name_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from onnxwire.engine.descriptor import FieldDescriptor
    from onnxwire.messages import NodeProto, TypeProto

TYPE_FIELDS = {"data_type", "elem_type", "key_type"}
"""The int32 fields whose values are numbers of TensorProto.DataType."""
_MAX_BYTES = 100  # maximum number of bytes, or of characters if they are text, that are shown of a bytes field
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"})


def operator_of(node: NodeProto) -> str:
    """Return the operator of a node with its domain, if it has one: Relu, com.microsoft.Gelu."""
    return f"{node.domain}.{node.op_type}" if node.domain else node.op_type


def describe_call(node: NodeProto) -> str:
    """Return a node as a call in one line: Add(x, y) -> z."""
    return f"{operator_of(node)}({', '.join(node.input)}) -> {', '.join(node.output)}"


def describe_type(type: TypeProto, depth: int = 8) -> str:
    """Return a type as text: float[batch, 3], seq(map(int64, float[])), optional(...).

    An unknown rank is written as [...], an unknown dimension and an empty TypeProto as ?, and types nested deeper than
    `depth` as "...".
    """
    kind = type.WhichOneof("value")
    if depth == 0:
        return "..."
    if kind in ("tensor_type", "sparse_tensor_type"):
        tensor = type.tensor_type if kind == "tensor_type" else type.sparse_tensor_type
        shape = "[...]"
        if tensor.HasField("shape"):
            dims = [
                str(dim.dim_value) if dim.HasField("dim_value") else dim.dim_param or "?" for dim in tensor.shape.dim
            ]
            shape = f"[{', '.join(dims)}]"
        text = name_of(tensor.elem_type).lower() + shape
        return f"sparse_tensor({text})" if kind == "sparse_tensor_type" else text
    if kind == "sequence_type":
        return f"seq({describe_type(type.sequence_type.elem_type, depth - 1)})"
    if kind == "map_type":
        value = describe_type(type.map_type.value_type, depth - 1)
        return f"map({name_of(type.map_type.key_type).lower()}, {value})"
    if kind == "optional_type":
        return f"optional({describe_type(type.optional_type.elem_type, depth - 1)})"
    if kind == "opaque_type":
        return f"opaque({type.opaque_type.domain}, {type.opaque_type.name})"
    return "?"


def describe_number(field: FieldDescriptor, value: Any, *, with_codes: bool = False) -> str:
    """Return a number of a field as text: the name of an enum's value, a float32 in the fewest digits that identify
    it, true or false.

    with_codes: write values of enums and ONNX data types with their number: FLOAT (1).
    """
    if field.enum_type is not None:
        enum_value = field.enum_type.values_by_number.get(value)
        if enum_value is None:
            return str(value)
        return f"{enum_value.name} ({value})" if with_codes else enum_value.name
    if with_codes and field.name in TYPE_FIELDS and name_of(value) != str(value):
        return f"{name_of(value)} ({value})"
    if field.type == field.TYPE_BOOL:
        return "true" if value else "false"
    return str(shortest_floats([value])[0]) if field.type == field.TYPE_FLOAT else str(value)


def describe_numbers(field: FieldDescriptor, values: Sequence[Any], *, with_codes: bool = False) -> str:
    """Return numbers of a field in brackets; without codes, as `onnxwire set` accepts them."""
    if field.type == field.TYPE_FLOAT:
        return f"[{', '.join(map(str, shortest_floats(values)))}]"
    return f"[{', '.join(describe_number(field, value, with_codes=with_codes) for value in values)}]"


def quote_text(text: str) -> str:
    """Return a text in double quotes; quotes, backslashes, tabs and line breaks are escaped."""
    return f'"{text.translate(_ESCAPES)}"'


def describe_bytes(start: bytes, size: int, max_shown: int = 24) -> str:
    """Return bytes as quoted text if they are printable UTF-8, else in hexadecimal; add their size if truncated.

    start: at least the first 4 * max_shown of `size` bytes, or all. max_shown: the maximum number of characters or
    bytes to show.
    """
    text = printable_text(start, size > len(start))
    if text is None:
        shown_text, is_complete = start[:max_shown].hex(" "), size <= max_shown
    else:
        shown_text, is_complete = quote_text(text[:max_shown]), size == len(start) and len(text) <= max_shown
    return shown_text if is_complete else f"{shown_text} … ({size:,} bytes)"


def describe_value(
    field: FieldDescriptor, value: Any, max_chars: int = 200, *, with_codes: bool = False, quoted: bool = False
) -> str:
    """Return a number, a string or bytes of a field as text.

    value: the field's value, or an element of a repeated field. A string (in UTF-8) or bytes can also be passed as a
    buffer. max_chars: the maximum number of characters or bytes to show, at most 100 for a bytes field; ignored for
    numbers. with_codes: as for `describe_number`. quoted: whether to put strings in quotes; bytes that are text are
    always in quotes.
    """
    if not field.is_span:
        return describe_number(field, value, with_codes=with_codes)
    if isinstance(value, str):
        text, is_truncated = value, False
    else:
        with memoryview(value) as view:
            size = len(view)
            start = bytes(view[: 4 * max_chars])
        if field.type == field.TYPE_BYTES:
            return describe_bytes(start, size, min(max_chars, _MAX_BYTES))
        is_truncated = size > len(start)
        text = start.decode("utf-8", "ignore" if is_truncated else "replace")
    is_truncated = is_truncated or len(text) > max_chars
    text = quote_text(text[:max_chars]) if quoted else text[:max_chars]
    return f"{text}…" if is_truncated else text


def describe_list(field: FieldDescriptor, values: Sequence[Any], max_elements: int = 20) -> str:
    """Return the first elements of a list of numbers, strings or bytes in brackets, and its length if it has more."""
    shown_text = ", ".join(describe_value(field, value, quoted=True) for value in values[:max_elements])
    ending = f", … ({len(values):,})" if len(values) > max_elements else ""
    return f"[{shown_text}{ending}]"


def printable_text(data: bytes, is_truncated: bool) -> str | None:
    """Return bytes as text, or None if they are not UTF-8 of printable characters, tabs and line breaks.

    is_truncated: whether the bytes may end inside a character, which is then omitted.
    """
    for n in range(4 if is_truncated else 1):  # the number of bytes of an incomplete last character
        try:
            text = data[: len(data) - n].decode()
        except UnicodeDecodeError:
            continue
        return text if all(char.isprintable() or char in "\t\n\r" for char in text) else None
    return None
