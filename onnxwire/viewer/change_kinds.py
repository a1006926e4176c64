"""The kinds of changes that the page can make, most of them by public functions of `transforms` and `bridges`.

A function for a kind returns a Change, which makes the described change when it is applied. Errors about the message
are raised at that time.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from onnxwire.analysis.live_scopes import defined_names
from onnxwire.analysis.paths import Resolved, resolve
from onnxwire.bridges.safetensors import assign_tensor, from_safetensors
from onnxwire.engine.message import Message
from onnxwire.errors import EditError, PathError, count_text
from onnxwire.messages import (
    AttributeProto,
    FunctionProto,
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    ValueInfoProto,
)
from onnxwire.tensor.dtypes import BY_NAME
from onnxwire.transforms.assign import add_element, remove, set_value
from onnxwire.transforms.bypass import bypass
from onnxwire.transforms.rename import rename_values
from onnxwire.viewer.uploads import Upload, Uploads

MAX_DIMS = 64  # maximum number of dims of a shape
_MAX_TEXT_CHARS = 60  # maximum length of a value or name in the text of a change


@dataclass(slots=True)
class Change:
    """A change that the page requests, for any message.

    text: the description in the list of changes. path: the path of the changed element. run: makes the change, and
    returns the path of the element that it affected, or None if that is `path`.
    """

    text: str
    path: str
    run: Callable[[Any], str | None] = field(repr=False)

    def apply(self, message: Message) -> None:
        """Make the change on a message, and set `path` to the path of the element that it affected."""
        self.path = self.run(message) or self.path


def _truncate(text: str) -> str:
    return text if len(text) <= _MAX_TEXT_CHARS else f"{text[:_MAX_TEXT_CHARS]}…"


def set_field(path: str, value: str) -> Change:
    """Set the element at a path to a value in the notation of `onnxwire set`, without @FILE."""
    return Change(f"set {path} = {_truncate(value)}", path, lambda root: set_value(root, path, value))


def set_bytes(path: str, digits: str) -> Change:
    """Set a field of bytes, or an element of such a field, to bytes in hexadecimal digits."""
    try:
        data = bytes.fromhex(digits)
    except ValueError:
        raise EditError("these are not hexadecimal digits, two per byte, such as 00 ff") from None

    def run(root: Message) -> str:
        target = resolve(root, path)
        if target.field is None or target.field.type != target.field.TYPE_BYTES or target.parent is None:
            raise EditError(f"{path} is not a field of bytes")
        if target.element_index is not None:
            getattr(target.parent, target.field.name)[target.element_index] = data
        else:
            setattr(target.parent, target.field.name, data)
        return target.path

    return Change(f"set {path} to {count_text(len(data), 'byte')}", path, run)


def remove_path(path: str) -> Change:
    """Remove an element, or clear a field."""

    def run(root: Message) -> str:
        (removed_path,) = remove(root, [path])
        return removed_path.rpartition(".")[0]

    return Change(f"remove {path}", path, run)


def add_field(path: str, value: str | None = None) -> Change:
    """Add an element to a repeated field, or make a singular field present. value: None for the default value."""
    value_suffix = "" if value is None else f" = {_truncate(value)}"
    return Change(f"add to {path}{value_suffix}", path, lambda root: add_element(root, path, value))


def rename_node(path: str, name: str) -> Change:
    """Rename a node. Raises EditError if another node of its graph has the name."""

    def run(root: Message) -> str:
        target = _resolve_node(root, path)
        node = target.value
        # A file whose root is a node has no other nodes.
        nodes = [] if target.element_index is None else resolve(root, target.path.rpartition("[")[0]).value
        if name and any(sibling.name == name for sibling in nodes) and node.name != name:
            raise EditError(f"another node of this graph already has the name {name!r}; choose another name")
        node.name = name
        return target.path

    return Change(f"rename {path} to {_truncate(name)}", path, run)


def rename_value(path: str, name: str, new: str) -> Change:
    """Rename the value `name` to `new` wherever it is used. path: the path of a graph or function that uses it."""

    def run(root: Message) -> str:
        model, scope = _require_model(root), path
        if not isinstance(resolve(model, scope).value, GraphProto | FunctionProto):
            raise EditError(f"{path or 'the model'} is neither a graph nor a function")
        # A graph in an attribute can use the values of the enclosing graphs.
        while name not in defined_names(resolve(model, scope).value) and ".attribute[" in scope:
            scope = scope.rpartition(".attribute[")[0].rpartition(".node[")[0]
        rename_values(model, {name: new}, scope=scope)
        return path

    return Change(f"rename value {_truncate(name)} to {_truncate(new)}", path, run)


def delete_node(path: str, input: int | None) -> Change:
    """Delete a node.

    input: the index of one of the node's inputs, which the consumers of the node's first output use afterwards; None to
    leave these consumers unconnected.
    """

    def run(model: ModelProto) -> str:
        _resolve_node(model, path)
        if input is None:
            remove(model, [path])
        else:
            bypass(model, path, input)
        return path.rpartition(".node[")[0]

    return Change(f"delete {path}{'' if input is None else ' and reconnect'}", path, run)


def add_attribute(path: str, name: str, type: str, value: str) -> Change:
    """Add an attribute to a node.

    Raises EditError for an empty name or an unknown type, and if the node has an attribute of this name.
    """
    if not name:
        raise EditError("the attribute has no name; enter a name, such as axis")
    if type not in AttributeProto.AttributeType.keys() or type == "UNDEFINED":  # noqa: SIM118
        raise EditError(f"there is no attribute type {type!r}")

    def run(root: Message) -> str:
        node = _resolve_node(root, path).value
        if any(attribute.name == name for attribute in node.attribute):
            raise EditError(f"the node already has an attribute {name!r}; change that one")
        node.attribute.add(name=name, type=type)
        return set_value(root, f"{path}.attribute[{len(node.attribute) - 1}]", value)

    return Change(f"add attribute {name} = {_truncate(value)} to {path}", path, run)


def add_metadata(path: str, key: str, value: str) -> Change:
    """Add an entry to a message's metadata. path: the path of the message, "" for the model."""
    if not key:
        raise EditError("the entry has no key; enter a key, such as author")
    list_path = f"{path}.metadata_props" if path else "metadata_props"

    def run(root: Message) -> str:
        entries = resolve(root, list_path).value
        if any(entry.key == key for entry in entries):
            raise EditError(f"there already is an entry {key!r}; change that one")
        entries.add(key=key, value=value)
        return path

    return Change(f"add metadata {_truncate(key)} = {_truncate(value)}", path, run)


def add_opset(domain: str, version: int) -> Change:
    """Add an operator set to a model's imports."""

    def run(root: Message) -> str:
        model = _require_model(root)
        if any((opset.domain or "ai.onnx") == (domain or "ai.onnx") for opset in model.opset_import):
            raise EditError(f"the model already imports {domain or 'ai.onnx'}; change its version")
        model.opset_import.add(domain=domain, version=version)
        return ""

    return Change(f"import opset {domain or 'ai.onnx'} {version}", "", run)


def set_shape(path: str, shape: str, elem_type: str) -> Change:
    """Set the element type and the shape of a tensor value.

    shape: dims separated by commas, with or without brackets: numbers, names, or ? for an unknown dim; "[]" for
    a scalar, "" for an unknown shape. elem_type: the name of a data type, such as FLOAT.
    """
    data_type = BY_NAME.get(elem_type.upper())
    if data_type is None:
        raise EditError(f"there is no data type {elem_type!r}")
    dims_text = shape.strip().removeprefix("[").removesuffix("]")
    dim_texts = [dim_text.strip() for dim_text in dims_text.split(",")] if dims_text.strip() else []
    is_unknown = not shape.strip()
    if len(dim_texts) > MAX_DIMS:
        raise EditError(f"the shape has {len(dim_texts):,} dims, and the maximum is {MAX_DIMS}")
    dims: list[dict[str, Any]] = []
    for dim_text in dim_texts:
        if re.fullmatch(r"\d{1,18}", dim_text):
            dims.append({"dim_value": int(dim_text)})
        elif not dim_text or re.match(r"-?\d", dim_text):
            raise EditError(f"{dim_text!r} is not a dim; write a number, a name, or ? for an unknown dim")
        else:
            dims.append({} if dim_text == "?" else {"dim_param": dim_text})

    def run(root: Message) -> str:
        value = resolve(root, path).value
        if not isinstance(value, ValueInfoProto):
            raise EditError(f"{path} is not a value")
        if value.type.WhichOneof("value") not in (None, "tensor_type", "sparse_tensor_type"):
            raise EditError("this value is not a tensor; edit its fields")
        tensor_type = (
            value.type.sparse_tensor_type if value.type.HasField("sparse_tensor_type") else value.type.tensor_type
        )
        tensor_type.elem_type = data_type.number
        if is_unknown:
            tensor_type.ClearField("shape")
            return path
        old_dims = list(tensor_type.shape.dim) if tensor_type.HasField("shape") else []
        tensor_type.shape.SetInParent()
        for index, dim in enumerate(dims):
            if index >= len(old_dims):
                tensor_type.shape.dim.add(**dim)
                continue
            # Keep the denotation of the dim.
            for name in ("dim_value", "dim_param"):
                old_dims[index].ClearField(name)
            for field_name, dim_content in dim.items():
                setattr(old_dims[index], field_name, dim_content)
        del tensor_type.shape.dim[len(dims) :]
        return path

    shape_text = "" if is_unknown else f"[{', '.join(dim_texts)}]"
    return Change(f"set {path} to {elem_type.lower()}{shape_text}", path, run)


def replace_tensor(path: str, upload: Upload, name: str) -> Change:
    """Replace a tensor's elements, type and shape by those of an uploaded file.

    name: the tensor in a .safetensors file; "" if the file contains only one, and for an .npy file.
    """
    if upload.file_format == "safetensors":
        name = name or upload.only_tensor_name
        if name not in upload.tensors:
            raise EditError(f"{upload.name} has no tensor {name!r}; choose another name")

    def run(root: Message) -> str:
        tensor = resolve(root, path).value
        if not isinstance(tensor, TensorProto):
            raise PathError("this is not a tensor", path, root._document.name)
        with upload.translate_errors():
            if upload.file_format == "npy":
                return set_value(root, path, f"@{upload.path}", files=True)
            assign_tensor(tensor, upload.path, name)
        return path

    source_text = f"{_truncate(name)} of {upload.name}" if name and upload.file_format == "safetensors" else upload.name
    return Change(f"replace {path} by {source_text}", path, run)


def replace_tensors(upload: Upload) -> Change:
    """Replace the initializers of the main graph by the tensors of the same names in a .safetensors file."""
    if upload.file_format != "safetensors":
        raise EditError("an .npy file contains one tensor; drop it on the page of the tensor to replace")

    def run(root: Message) -> str:
        with upload.translate_errors():
            if not from_safetensors(_require_model(root), upload.path, refer_to_file=False):
                raise EditError(
                    f"{upload.name} has no tensor with the name of an initializer; "
                    "open an initializer and drop the file there"
                )
        return ""

    return Change(f"replace initializers by {upload.name}", "", run)


def _require_model(root: Message) -> ModelProto:
    if not isinstance(root, ModelProto):
        raise EditError(f"this change needs a model, but the type of the file is {type(root).DESCRIPTOR.name}")
    return root


def _resolve_node(root: Message, path: str) -> Resolved:
    target = resolve(root, path)
    if not isinstance(target.value, NodeProto):
        raise PathError("this is not a node", path, root._document.name)
    return target


def make_change(kind: str, arguments: dict[str, Any], uploads: Uploads) -> Change:
    """Return a change of a kind in KINDS.

    arguments: the arguments by name. uploads: the files to which arguments refer. Raises EditError for an unknown kind,
    and for missing or wrong arguments.
    """
    if kind not in KINDS:
        raise EditError("there is no such kind of change")
    make, parameters = KINDS[kind]
    values: dict[str, Any] = {}
    for name, types in parameters.items():
        value = arguments.get(name)
        # In Python, JSON's true is an int.
        if not isinstance(value, types) or isinstance(value, bool):
            raise EditError(f"the argument {name} of the change is missing, or has a wrong type")
        values[name] = uploads.get(str(value)) if name == "upload" else value
    return make(**values)


_ArgumentTypes = tuple[type, ...]
_TEXT: _ArgumentTypes = (str,)
KINDS: dict[str, tuple[Callable[..., Change], dict[str, _ArgumentTypes]]] = {
    "set": (set_field, {"path": _TEXT, "value": _TEXT}),
    "set_bytes": (set_bytes, {"path": _TEXT, "digits": _TEXT}),
    "remove": (remove_path, {"path": _TEXT}),
    "add": (add_field, {"path": _TEXT, "value": (str, type(None))}),
    "rename_node": (rename_node, {"path": _TEXT, "name": _TEXT}),
    "rename_value": (rename_value, {"path": _TEXT, "name": _TEXT, "new": _TEXT}),
    "delete_node": (delete_node, {"path": _TEXT, "input": (int, type(None))}),
    "add_attribute": (add_attribute, {"path": _TEXT, "name": _TEXT, "type": _TEXT, "value": _TEXT}),
    "add_metadata": (add_metadata, {"path": _TEXT, "key": _TEXT, "value": _TEXT}),
    "add_opset": (add_opset, {"domain": _TEXT, "version": (int,)}),
    "set_shape": (set_shape, {"path": _TEXT, "shape": _TEXT, "elem_type": _TEXT}),
    "replace_tensor": (replace_tensor, {"path": _TEXT, "upload": _TEXT, "name": _TEXT}),
    "replace_tensors": (replace_tensors, {"upload": _TEXT}),
}
"""For each kind of change: the function that makes a Change, and the types of its arguments."""
