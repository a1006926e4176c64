"""Values of fields as texts: truncated for display, complete for editing."""

from __future__ import annotations

import json
from typing import Any

from onnxwire.analysis.describe import TYPE_FIELDS, describe_number, describe_numbers, describe_value
from onnxwire.analysis.paths import resolve
from onnxwire.engine.descriptor import FieldDescriptor
from onnxwire.engine.message import Message
from onnxwire.engine.repeated import Repeated
from onnxwire.messages import (
    AttributeProto,
    OperatorSetIdProto,
    StringStringEntryProto,
    TensorProto,
    TensorShapeProto,
    ValueInfoProto,
)
from onnxwire.tensor.dtypes import name_of
from onnxwire.text.text_writer import to_text
from onnxwire.transforms.assign import VALUE_FIELDS

MAX_EDITABLE_ITEMS = 1 << 16
"""Maximum size of values that the page can edit: characters of a text, bytes of a value or message, elements of a list;
for a list of texts or byte strings also the sum of their lengths."""
_MAX_CHARS = 200  # maximum length of a value in a row
_MAX_BYTES = 24  # maximum number of shown bytes of a field in a row


def value_text(message: Message, field: FieldDescriptor, value: Any = None, *, max_chars: int = _MAX_CHARS) -> str:
    """Return a value of a field as truncated text.

    value: an element of a repeated field; strings and bytes may be given as `engine.payload.Payload`. Without `value`,
    the text of a singular field is returned.
    """
    if value is None:
        value = message._payload(field.name) if field.is_span else getattr(message, field.name)
    max_chars = min(max_chars, _MAX_BYTES) if field.type == field.TYPE_BYTES else max_chars
    return describe_value(field, value, max_chars, with_codes=True)


def read_value(root: Message, path: str) -> dict[str, Any]:
    """Return the value at a path as editable text.

    For an attribute, an entry of metadata, an opset_import or a dim, this is the value in the message, such as the
    version.

    Returns path, text, form and choices. form: "text", "lines" (a doc_string or a text of several lines), "hex" (bytes
    as digits for `change_kinds.set_bytes`), "list", "message" (the text format in braces), "shape" (of an input, output
    or other value: text contains its dims, and elem_type its data type), or "none" (the page cannot edit the value
    here; then reason contains advice). choices: the possible values of an enum, a bool or a data type.
    Raises PathError if there is no element at the path.
    """
    target = resolve(root, path)
    value, field = target.value, target.field
    answer: dict[str, Any] = {"path": path, "text": "", "form": "text", "choices": []}
    if field is None or target.parent is None:
        return _refuse_edit(answer, "this is the whole message; edit its fields")
    if isinstance(value, ValueInfoProto):
        return _read_shape(answer, value)
    if isinstance(value, AttributeProto) and value.type in VALUE_FIELDS:
        target = resolve(root, f"{path}.{VALUE_FIELDS[value.type]}")
        return _read_field(answer, target.parent, target.field, target.value, None)
    if isinstance(value, StringStringEntryProto | OperatorSetIdProto):
        name = "value" if isinstance(value, StringStringEntryProto) else "version"
        return _read_field(answer, value, value.DESCRIPTOR.fields_by_name[name], getattr(value, name), None)
    if isinstance(value, TensorShapeProto.Dimension):
        return answer | {"text": value.dim_param or (str(value.dim_value) if value.HasField("dim_value") else "")}
    if isinstance(value, TensorProto):
        return _refuse_edit(answer, "drop an .npy or .safetensors file on its page, or edit its fields")
    return _read_field(answer, target.parent, field, value, target.element_index)


def _refuse_edit(answer: dict[str, Any], reason: str) -> dict[str, Any]:
    """Return an answer for a value that the page cannot edit."""
    return answer | {"form": "none", "reason": reason}


def _read_field(
    answer: dict[str, Any], parent: Message | None, field: FieldDescriptor | None, value: Any, element_index: int | None
) -> dict[str, Any]:
    """Add the value of a field to an answer, in the form in which the page can edit it."""
    assert field is not None
    assert parent is not None
    if isinstance(value, Message):
        if value.ByteSize() > MAX_EDITABLE_ITEMS:
            return _refuse_edit(answer, f"it has {value.ByteSize():,} bytes, too many to edit as text; edit its fields")
        return answer | {"form": "message", "text": f"{{\n{to_text(value)}}}"}
    if isinstance(value, Repeated) and element_index is None:
        return _read_list(answer, field, value)
    size = len(value) if field.is_span else 0
    if size > MAX_EDITABLE_ITEMS:
        unit = "bytes" if field.type == field.TYPE_BYTES else "characters"
        return _refuse_edit(answer, f"it has {size:,} {unit}, too many to edit here; use `onnxwire set` with @FILE")
    if field.type == field.TYPE_BYTES:
        data = bytes(value)
        try:
            text = data.decode()
        except UnicodeDecodeError:
            text = "\0"  # not printable, like other binary data
        if text.isprintable():
            return answer | {"text": text}
        return answer | {"form": "hex", "text": data.hex(" ")}
    if field.type == field.TYPE_STRING:
        try:
            value.encode()
        except UnicodeEncodeError:
            return _refuse_edit(answer, "it is not valid UTF-8; clear it, then add it again")
        return answer | {"form": "lines" if field.name == "doc_string" or "\n" in value else "text", "text": value}
    if field.enum_type is not None:
        names = [enum_value.name for enum_value in field.enum_type.values]
        return answer | {"text": describe_number(field, value), "choices": names}
    if field.type == field.TYPE_BOOL:
        return answer | {"text": describe_number(field, value), "choices": ["true", "false"]}
    if field.name in TYPE_FIELDS:
        return answer | {"text": name_of(value), "choices": TensorProto.DataType.keys()}
    return answer | {"text": describe_number(field, value)}


def _read_list(answer: dict[str, Any], field: FieldDescriptor, values: Any) -> dict[str, Any]:
    """Add the values of a repeated field to an answer."""
    count = len(values)
    if field.message_type is not None:
        return _refuse_edit(answer, "it is a list of messages; edit each of them")
    if count > MAX_EDITABLE_ITEMS:
        return _refuse_edit(answer, f"it has {count:,} elements, too many to edit here; edit single elements")
    if field.is_span and (size := sum(map(len, values))) > MAX_EDITABLE_ITEMS:
        unit = "bytes" if field.type == field.TYPE_BYTES else "characters"
        return _refuse_edit(answer, f"its elements have {size:,} {unit}, too many to edit here; edit single elements")
    if not field.is_span:
        return answer | {"form": "list", "text": describe_numbers(field, values[:])}
    try:
        texts = [value.decode() if isinstance(value, bytes) else value for value in values]
        text = json.dumps(texts, ensure_ascii=False)
        text.encode()
    except UnicodeError:
        return _refuse_edit(answer, "an element is not valid UTF-8; edit single elements")
    return answer | {"form": "list", "text": text}


def _read_shape(answer: dict[str, Any], value: ValueInfoProto) -> dict[str, Any]:
    """Add the shape and the data type of a value to an answer."""
    type_kind = value.type.WhichOneof("value")
    if type_kind not in (None, "tensor_type", "sparse_tensor_type"):
        return _refuse_edit(answer, "it is not a tensor; edit its fields")
    tensor = value.type.sparse_tensor_type if type_kind == "sparse_tensor_type" else value.type.tensor_type
    dims = [str(dim.dim_value) if dim.HasField("dim_value") else dim.dim_param or "?" for dim in tensor.shape.dim]
    return answer | {
        "form": "shape",
        "text": f"[{', '.join(dims)}]" if tensor.HasField("shape") else "",
        "elem_type": name_of(tensor.elem_type),
        "choices": TensorProto.DataType.keys(),
    }
