"""Sets, adds and removes fields and elements by path, as for PATH=VALUE and `rm PATH`.

Also finds the values that are used but not defined after a removal.
"""

from __future__ import annotations

import json
import re
from typing import Any

from onnxwire.analysis.describe import TYPE_FIELDS
from onnxwire.analysis.live_scopes import defined_names
from onnxwire.analysis.paths import Resolved, parse_index, resolve
from onnxwire.engine.descriptor import FieldDescriptor
from onnxwire.engine.input_file import open_regular
from onnxwire.engine.message import Message
from onnxwire.engine.repeated import Repeated
from onnxwire.engine.search import Search
from onnxwire.errors import EditError, Error, FieldTextError, PathError, SourceError
from onnxwire.messages import (
    AttributeProto,
    FunctionProto,
    GraphProto,
    ModelProto,
    NodeProto,
    OperatorSetIdProto,
    StringStringEntryProto,
    TensorProto,
    TensorShapeProto,
    ValueInfoProto,
)
from onnxwire.tensor.dtypes import name_of
from onnxwire.transforms.extract import keep_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence


VALUE_FIELDS = {
    AttributeProto.FLOAT: "f", AttributeProto.INT: "i", AttributeProto.STRING: "s", AttributeProto.FLOATS: "floats",
    AttributeProto.INTS: "ints", AttributeProto.STRINGS: "strings",
}  # fmt: skip
"""The field that stores the value of an attribute, by AttributeProto.type, if the value is not a message."""
_MAX_QUOTED_CHARS = 60  # maximum number of characters of a text in an error message


def assign(message: Message, assignment: str, *, keep_type: bool = False) -> str:
    """Apply one assignment PATH=VALUE; return its path as field names and indexes.

    message: the root, usually a model; it is changed. PATH: see `resolve`. VALUE depends on the target:
        a singular field: a number, true or false, the name of an enum value (also for data_type and elem_type), or text
            without quotes; for a bytes field text, or @FILE for the content of a file
        a repeated field: a list such as [1, 2, 3]
        a tensor: @FILE.npy; elements of a tensor: one number, true or false for bools, or a text for strings
        an attribute, a metadata entry, an operator set or a dimension: its value
        a message, except a metadata entry or STRING attribute: text format in braces, {op_type: "Relu" input: "x"}
    keep_type: whether to reject an @FILE.npy whose data type or shape differs from the tensor's.
    Raises PathError if the path names nothing, EditError for an assignment without =, a target that can't be set or a
    value of the wrong type, SourceError for a file that can't be read, and TensorError for an .npy file of a data type
    that ONNX does not have, and for an element of a damaged tensor. The message is then unchanged.
    """
    path, target, text = _split_assignment(message, assignment)
    return _set_resolved(message, path, target, text, True, keep_type)


def set_value(message: Message, path: str, text: str, *, files: bool = False) -> str:
    """Set the target of a path, as `assign` does; return its path as field names and indexes.

    path, text: the left and right side of an assignment. files: whether @FILE means the content of a file; by default
    it is text.
    Raises the errors of `assign`.
    """
    return _set_resolved(message, path, resolve(message, path), text, files)


def add_element(message: Message, path: str, text: str | None = None) -> str:
    """Append an element to a repeated field, or set an absent singular field; return the path of the new value.

    message: the root; it is changed. path: the path of the field. text: the value as for `set_value`; None for an empty
    message or the default value.
    Raises PathError and EditError like `set_value`, and EditError for a path of an element, and for a singular field
    that is set. The message is then unchanged.
    """
    target = resolve(message, path)
    field, parent = target.field, target.parent
    if field is None or parent is None or target.path.endswith("]"):
        raise EditError("nothing can be added to this path; name a field", f"{message._document.name}: {path!r}")
    if not field.is_repeated:
        if target.is_set:
            raise EditError("the field is already set; assign to it", f"{message._document.name}: {path!r}")
        if text is not None:
            return set_value(message, target.path, text)
        if field.message_type is not None:
            target.value.SetInParent()
        else:
            setattr(parent, field.name, field.default_value)
        return target.path
    elements = getattr(parent, field.name)
    element_path = f"{target.path}[{len(elements)}]"
    # The element is made in a separate message, so that nothing is added if the value is invalid.
    temporary = type(parent)()
    new_elements = getattr(temporary, field.name)
    if field.message_type is not None:
        new_elements.add()
    else:
        # A closed enum may lack the value 0.
        default_number = field.enum_type.values[0].number if field.enum_type is not None else 0
        new_elements.append({field.TYPE_STRING: "", field.TYPE_BYTES: b""}.get(field.type, default_number))
    if text is not None:
        _set_resolved(message, element_path, resolve(temporary, f"{field.name}[0]"), text, False)
    elements.extend(new_elements)
    return element_path


def _set_resolved(
    message: Message, path: str, target: Resolved, text: str, reads_files: bool, keep_type: bool = False
) -> str:
    """Set a resolved target; return its path. message, path: the root and the path, for errors."""
    if target.parent is None or target.field is None:
        reason = f"the path names the root message; set one of its fields, such as {_example_field(message)}=..."
        raise EditError(reason, f"{message._document.name}: {_shorten(f'{path}={text}')}")
    try:
        _set_target(target, text, reads_files, keep_type)
    except EditError as error:
        raise EditError(error.reason, f"{message._document.name}: {path}={_shorten(text)}") from None
    return target.path


def _split_assignment(message: Message, assignment: str) -> tuple[str, Resolved, str]:
    """Split an assignment at the first = that ends a valid path, since names may contain =.

    Returns the path, its target, and the value.
    """
    ends = [match.start() for match in re.finditer(r'"(?:[^"\\]|\\.)*"|(=)', assignment) if match[1]]
    if not ends:
        reason = "the assignment has no =; write PATH=VALUE, such as graph.node[0].op_type=Relu"
        raise EditError(reason, _shorten(assignment))
    fault: PathError | None = None
    for end in ends:
        try:
            return assignment[:end], resolve(message, assignment[:end]), assignment[end + 1 :]
        except PathError as error:
            fault = fault or error
    assert fault is not None
    raise fault


def _example_field(message: Message) -> str:
    """Return the name of a field for the example in an error: the first string field, if there is one."""
    fields = type(message).DESCRIPTOR.fields
    return next(
        (field.name for field in fields if field.type == field.TYPE_STRING and not field.is_repeated), fields[0].name
    )


def _shorten(text: str) -> str:
    return text if len(text) <= _MAX_QUOTED_CHARS else f"{text[:_MAX_QUOTED_CHARS]}..."


def _set_target(target: Resolved, text: str, reads_files: bool, keep_type: bool) -> None:
    """Set the target of a path. reads_files: as `files` of `set_value`. keep_type: as for `assign`."""
    field, parent = target.field, target.parent
    assert field is not None and parent is not None
    if _is_within_value(target):
        raise EditError("a part of a string or of bytes can't be set; set the whole field")
    is_file = reads_files and text.startswith("@")
    if isinstance(target.value, TensorProto) and (target.index is not None or is_file):
        _set_tensor(target, text, keep_type)
    elif isinstance(target.value, Message):
        _set_message(target.value, text)
    elif field.message_type is not None:
        raise EditError("the path names several messages; set one of them, such as [0]")
    elif field.is_repeated and target.element_index is None:
        if target.path.endswith("]"):
            raise EditError("a slice can't be set; set the whole field, or one element")
        getattr(parent, field.name)[:] = [_parse(field, item) for item in _split_list(text)]
    elif field.is_repeated:
        getattr(parent, field.name)[target.element_index] = _parse(field, text)
    elif field.type == field.TYPE_BYTES and is_file:
        parent._share(field.name, _map_file(text[1:]))
    else:
        setattr(parent, field.name, _parse(field, text))


def _is_within_value(target: Resolved) -> bool:
    """Return whether a path names a part of a string or bytes value."""
    if target.field is None or not target.path.endswith("]"):
        return False
    # In a repeated field, a second index follows that of the element: strings[0][1].
    return not target.field.is_repeated or re.search(r"\]\[[^\]]*\]$", target.path) is not None


def _split_list(text: str) -> list[str]:
    """Split a list, with or without brackets, into its elements; a list with brackets and quotes is parsed as JSON."""
    content = text.strip()
    if content.startswith("[") and content.endswith("]"):
        if '"' in content:
            try:
                return [item if isinstance(item, str) else json.dumps(item) for item in json.loads(content)]
            except ValueError as error:
                raise EditError(f"the list is not valid JSON: {error}") from None
        content = content[1:-1]
    return [item.strip() for item in content.split(",")] if content.strip() else []


def _parse(field: FieldDescriptor, text: str) -> object:
    """Convert a text to a value of a field. Raises EditError."""
    if field.type == field.TYPE_STRING:
        return text
    if field.type == field.TYPE_BYTES:
        try:
            # In arguments of a command, bytes that are not UTF-8 are surrogates.
            return text.encode(errors="surrogateescape")
        except UnicodeEncodeError as error:
            raise FieldTextError(error) from None
    if field.enum_type is not None:
        if text in field.enum_type.values_by_name:
            return field.enum_type.values_by_name[text].number
        return _parse_number(text, int, f"is not one of {', '.join(field.enum_type.values_by_name)}")
    if field.name in TYPE_FIELDS and (text.upper() in TensorProto.DataType.keys()):  # noqa: SIM118
        return TensorProto.DataType.Value(text.upper())
    if field.type == field.TYPE_BOOL:
        if text not in ("true", "false", "1", "0"):
            raise EditError(f"{_shorten(text)!r} is neither true nor false")
        return text in ("true", "1")
    if field.type in (field.TYPE_FLOAT, field.TYPE_DOUBLE):
        return _parse_number(text, float, "is not a number")
    return _parse_number(text, lambda digits: int(digits, 0), "is not a whole number")


def _parse_number(text: str, parse: Callable[[str], Any], fault: str) -> Any:
    """Parse a number. fault: the end of the error message for other texts."""
    try:
        return parse(text.strip())
    except ValueError:
        raise EditError(f"{_shorten(text)!r} {fault}") from None


def _set_message(message: Message, text: str) -> None:
    """Set a message to text format in braces, or set the value of an attribute, metadata entry, opset or dimension."""
    content = text.strip()
    is_text = isinstance(message, StringStringEntryProto) or (
        isinstance(message, AttributeProto) and message.type == AttributeProto.STRING
    )
    # A string value may begin with a brace: metadata are often JSON.
    if not is_text and content.startswith("{") and content.endswith("}"):
        from onnxwire.text.text_reader import from_text

        try:
            message.CopyFrom(from_text(content[1:-1], type(message)))
        except Error as error:
            raise EditError(str(error)) from None
        return
    fields = type(message).DESCRIPTOR.fields_by_name
    if isinstance(message, StringStringEntryProto):
        message.value = text
    elif isinstance(message, OperatorSetIdProto):
        message.version = _parse(fields["version"], text)  # type: ignore[assignment]
    elif isinstance(message, TensorShapeProto.Dimension):
        if re.fullmatch(r"-?\d+", content):
            message.dim_value = _parse(fields["dim_value"], content)  # type: ignore[assignment]
        else:
            message.dim_param = text
    elif isinstance(message, AttributeProto) and message.type in VALUE_FIELDS:
        field = fields[VALUE_FIELDS[message.type]]
        if field.is_repeated:
            getattr(message, field.name)[:] = [_parse(field, item) for item in _split_list(text)]
        else:
            setattr(message, field.name, _parse(field, text))
    else:
        name = type(message).DESCRIPTOR.name
        hint = " or @FILE.npy" if isinstance(message, TensorProto) else ""
        field_name = _example_field(message)
        raise EditError(
            f"assign text format in braces{hint} to the {name}, or set one of its fields, such as .{field_name}"
        )


def _map_file(path: str) -> memoryview:
    """Return the bytes of a file, mapped."""
    from mmap import ACCESS_READ, mmap

    try:
        with open(open_regular(path), "rb") as file:
            return memoryview(mmap(file.fileno(), 0, access=ACCESS_READ) if file.seek(0, 2) else b"")
    except (OSError, ValueError) as error:
        raise SourceError.from_os_error(error, path) from None


def _set_tensor(target: Resolved, text: str, keep_type: bool) -> None:
    """Set a tensor to the array in an .npy file, or some of its elements to a number or text."""
    import numpy as np

    from onnxwire.bridges.npy import read_npy
    from onnxwire.messages.constructors import from_array
    from onnxwire.tensor.placement import clear_elements

    tensor: TensorProto = target.value
    if target.index is None:
        array = read_npy(text[1:])
    else:
        array = tensor.numpy(writable=True)
        fault = f"is not a value of type {array.dtype}"
        value: Any = text if array.dtype == object else _parse_number(text, _element_parser(array), fault)
        try:
            with np.errstate(over="raise", invalid="raise"):
                array[target.index] = value
        except IndexError as error:
            raise EditError(str(error)) from None
        except (OverflowError, FloatingPointError, TypeError, ValueError) as error:
            raise EditError(f"{array.dtype} can't store the value: {error}") from None
    new_tensor = from_array(array)
    if keep_type:
        check_type(tensor, new_tensor.data_type, list(new_tensor.dims))
    clear_elements(tensor)
    tensor.ClearField("dims")
    # Name, doc_string and metadata_props do not change.
    tensor.MergeFrom(new_tensor)


def check_type(tensor: TensorProto, data_type: int, dims: Sequence[int]) -> None:
    """Raise EditError if a tensor has a data type, and a new value differs from it in data type or shape."""
    if tensor.data_type and (tensor.data_type, list(tensor.dims)) != (data_type, list(dims)):
        old, new = (
            f"{name_of(kind)} {list(shape)}" for kind, shape in ((tensor.data_type, tensor.dims), (data_type, dims))
        )
        raise EditError(f"the tensor is {old}, and the new value {new}; to change type or shape, pass keep_type=False")


def _element_parser(array: Any) -> Callable[[str], Any]:
    """Return a function that converts a text to an element of an array of numbers or bools."""
    if array.dtype.kind in "iu" or "int" in array.dtype.name:
        return lambda text: int(text, 0)
    if array.dtype.kind == "b":
        return lambda text: bool({"true": 1, "false": 0}[text] if text in ("true", "false") else int(text))
    return complex if array.dtype.kind == "c" else float


def remove(message: Message, paths: Sequence[str]) -> list[str]:
    """Remove the targets of paths: elements, slices of elements, or fields; return their full paths.

    message: the root; it is changed. All paths are resolved before the first removal, so that indexes do not shift.
    Raises PathError if a path names nothing or an absent field, EditError for a target that can't be removed.
    """
    # By path of a field: its message, its descriptor, and the indexes to remove, or None for the whole field.
    targets: dict[str, tuple[Message, FieldDescriptor, set[int] | None]] = {}
    removed_paths = []
    source = message._document.name
    for path in paths:
        target = resolve(message, path)
        if target.parent is None or target.field is None:
            raise EditError("the root message can't be removed", f"{source}: {path!r}")
        if target.index is not None or _is_within_value(target):
            raise EditError("a part of a value can't be removed; remove the whole value", f"{source}: {path}")
        removed_paths.append(target.path)
        indexes: set[int] | None = None
        field_path = target.path
        if target.field.is_repeated and field_path.endswith("]"):
            field_path, _, content = field_path[:-1].rpartition("[")
            count = len(getattr(target.parent, target.field.name))
            (item,) = parse_index(content) or (0,)
            indexes = set(range(*item.indices(count))) if isinstance(item, slice) else {target.element_index or 0}
        elif not target.is_set:
            raise PathError("the field is not set, so it can't be removed", path, source)
        earlier_target = targets.get(field_path)
        if earlier_target is not None and (earlier_target[2] is None or indexes is None):
            indexes = None
        elif earlier_target is not None and indexes is not None and earlier_target[2] is not None:
            earlier_target[2].update(indexes)
            indexes = earlier_target[2]
        targets[field_path] = target.parent, target.field, indexes
    # Remove the deepest targets first, because nothing can be removed from a message that is already removed.
    for field_path in sorted(targets, key=lambda path: -path.count(".")):
        parent, field, indexes = targets[field_path]
        if indexes is None:
            parent.ClearField(field.name)
        else:
            values = getattr(parent, field.name)
            keep_at(values, [index for index in range(len(values)) if index not in indexes])
    return removed_paths


def dangling_values(model: ModelProto, candidates: Iterable[str]) -> list[str]:
    """Return the names in `candidates` that the model uses but does not define.

    The names that nodes read come first, in order of first use, then those of outputs.
    """
    names = set(candidates)
    used_names: dict[str, None] = {}
    if not names:
        return []
    classes: list[type[Message]] = [GraphProto, FunctionProto]
    for _, scope in Search(model, classes):
        names -= defined_names(scope)  # type: ignore[arg-type]
        if not names:
            return []
    for _, node in Search(model, [NodeProto]):
        used_names.update((name, None) for name in node.input if name in names)
    for _, scope in Search(model, classes):
        outputs = scope.output if isinstance(scope, FunctionProto) else (value.name for value in scope.output)  # type: ignore[attr-defined]
        used_names.update((name, None) for name in outputs if name in names)
    return list(used_names)


def values_of(message: Message, paths: Iterable[str]) -> set[str]:
    """Return the names of the values that nodes, tensors and ValueInfoProtos at some paths define."""
    names: set[str] = set()
    for path in paths:
        value = resolve(message, path).value
        for element in value if isinstance(value, list | Repeated) else [value]:
            if isinstance(element, NodeProto):
                names.update(element.output)
            elif isinstance(element, TensorProto | ValueInfoProto):
                names.add(element.name)
    names.discard("")
    return names
