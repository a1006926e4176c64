"""onnx-ir: conversion of models in both directions, with tensors that are read lazily.

Importing this module without onnx-ir raises MissingPackageError.
"""

from __future__ import annotations

import math
import os
import secrets
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from onnxwire.errors import FieldTypeError, MissingPackageError
from onnxwire.io.external_files import ExternalFiles
from onnxwire.io.tensor_list import find_tensors, is_external
from onnxwire.messages import ModelProto, StringStringEntryProto, TensorProto
from onnxwire.tensor.placement import clear_elements
from onnxwire.tensor.storage import Storage

try:
    import onnx_ir as ir
except ImportError:
    raise MissingPackageError("this needs onnx-ir, which is not installed; `pip install onnx-ir`") from None

TYPE_CHECKING = False
if TYPE_CHECKING:
    import numpy as np

_PLACEHOLDER_BYTES = 16
# During `from_ir`: the tensors whose elements onnx-ir requested, by the placeholder that it received instead.
_requested_tensors: ContextVar[dict[bytes, Tensor] | None] = ContextVar("_requested_tensors", default=None)


class Tensor:
    """A tensor for onnx-ir, with the members of its TensorProtocol, that reads elements lazily from a TensorProto.

    name, doc_string and metadata_props are copies: changes do not affect the message. The model of the tensor must stay
    open as long as elements are read.
    """

    def __init__(self, tensor: TensorProto) -> None:
        self.name: str | None = tensor.name
        self.doc_string: str | None = tensor.doc_string if tensor.HasField("doc_string") else None
        self.metadata_props: dict[str, str] = _metadata_of(tensor)
        self.meta: dict[str, Any] = {}
        self._tensor = tensor

    @property
    def shape(self) -> ir.Shape:
        """The dims."""
        return ir.Shape(self._tensor.dims, frozen=True)

    @property
    def dtype(self) -> ir.DataType:
        """The data type."""
        return ir.DataType(self._tensor.data_type)

    @property
    def raw(self) -> TensorProto:
        """The message."""
        return self._tensor

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self._tensor.shape)

    @property
    def nbytes(self) -> int:
        """The number of bytes of the elements in the format of raw_data."""
        return self._tensor.nbytes

    def numpy(self) -> np.ndarray[Any, Any]:
        """Return the elements as `TensorProto.numpy` does: read-only, and without a copy if possible."""
        return self._tensor.numpy()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        return self._tensor.__array__(dtype, copy)

    def __dlpack__(self, **options: Any) -> Any:
        return self._tensor.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._tensor.__dlpack_device__()

    def tobytes(self) -> bytes:
        """Return the elements in the format of raw_data; within `from_ir`, a placeholder of 16 random bytes."""
        tensors_by_placeholder = _requested_tensors.get()
        if tensors_by_placeholder is None:
            return bytes(self._tensor.raw_view)
        placeholder = secrets.token_bytes(_PLACEHOLDER_BYTES)
        tensors_by_placeholder[placeholder] = self
        return placeholder

    def fill(self, message: TensorProto) -> None:
        """Copy this tensor to a message, which shares the elements."""
        source = self._tensor
        elements = Storage(source).payload() if is_external(source) else None
        message.CopyFrom(source)
        if elements is not None:
            clear_elements(message)
            message._share("raw_data", elements)
        for field in ("name", "doc_string"):
            text = getattr(self, field) or ""
            if text != getattr(source, field):
                setattr(message, field, text)
        if self.metadata_props != _metadata_of(source):
            message.ClearField("metadata_props")
            message.metadata_props.extend(
                StringStringEntryProto(key=key, value=text) for key, text in self.metadata_props.items()
            )

    def tofile(self, file: Any) -> None:
        """Write the elements in the format of raw_data to a binary file object, if possible without a copy."""
        file.write(self._tensor.raw_view)

    def __repr__(self) -> str:
        return f"Tensor<{self.dtype},{self.shape}>(name={self.name!r})"


def _metadata_of(tensor: TensorProto) -> dict[str, str]:
    return {entry.key: entry.value for entry in tensor.metadata_props}


def to_ir(model: ModelProto) -> ir.Model:
    """Convert a model to onnx-ir. Payloads are read lazily.

    model: the model; changes to the result do not affect it. It must stay open as long as tensors are read. Fields
    that onnx-ir lacks, such as sparse initializers and training_info, are not converted, as in `onnx_ir.load`.
    Tensors become `Tensor`s, string tensors `onnx_ir.StringTensor`s, and tensors with external data
    `onnx_ir.ExternalTensor`s, which find their files if the model was read from a local file.
    Raises onnx_ir.serde.SerdeError for models that onnx-ir rejects, and FieldTypeError for an object that is not a
    ModelProto of onnxwire.
    """
    if not isinstance(model, ModelProto):
        raise FieldTypeError(f"expected a ModelProto of onnxwire, not {type(model).__name__}")
    result = ir.serde.deserialize_model(model)
    folder = getattr(model._document.files, "folder", None)

    def wrap(tensor: ir.TensorProtocol) -> ir.TensorProtocol:
        if isinstance(tensor, ir.TensorProtoTensor):
            return Tensor(tensor.raw)
        if isinstance(tensor, ir.ExternalTensor) and folder is not None:
            tensor.base_dir = folder
        return tensor

    _replace_tensors(result, wrap)
    return result


def from_ir(model: ir.Model) -> ModelProto:
    """Convert a model of onnx-ir to a ModelProto, which shares the elements of tensors made by `to_ir`.

    model: any onnx_ir.Model, of any size. The elements of other tensors become raw_data, and those of string tensors
    string_data, as onnx-ir writes them; external data is not copied.
    Raises onnx_ir.serde.SerdeError for models that onnx-ir rejects, and FieldTypeError for an object that is not a
    model of onnx-ir.
    """
    if not isinstance(model, ir.Model):
        raise FieldTypeError(f"expected an onnx_ir.Model, not {type(model).__name__}")
    result = ModelProto.FromString(b"")
    folders: set[str] = set()

    def collect_folder(tensor: ir.TensorProtocol) -> ir.TensorProtocol:
        if isinstance(tensor, ir.ExternalTensor):
            folders.add(os.fspath(tensor.base_dir))
        return tensor

    _replace_tensors(model, collect_folder)
    # External data in several folders can't be read from the result.
    if len(folders) == 1:
        result._document.files = ExternalFiles(None, root=folders.pop() or ".")
    tensors_by_placeholder: dict[bytes, Tensor] = {}
    token = _requested_tensors.set(tensors_by_placeholder)
    try:
        ir.serde.serialize_model_into(result, model)
    finally:
        _requested_tensors.reset(token)
    for _, tensor in find_tensors(result) if tensors_by_placeholder or result._document.files else ():
        if is_external(tensor):
            # Parse the tensor again, so that it refers to a document with the files of `result` even after it is
            # copied to another model.
            tensor.ParseFromString(tensor.SerializeToString())
        payload = tensor._payload("raw_data")
        if payload is not None and len(payload) == _PLACEHOLDER_BYTES:
            source = tensors_by_placeholder.get(bytes(payload))
            if source is not None:
                source.fill(tensor)
    return result


def _replace_tensors(model: ir.Model, replace: Callable[[ir.TensorProtocol], ir.TensorProtocol]) -> None:
    """Replace each tensor of a model, also in subgraphs and functions, by the result of a function."""
    pending_graphs: list[Any] = [model.graph, *model.functions.values()]
    while pending_graphs:
        graph = pending_graphs.pop()
        for value in getattr(graph, "initializers", {}).values():
            tensor = value.const_value
            if tensor is not None and (new_tensor := replace(tensor)) is not tensor:
                value.const_value = new_tensor
        for node in graph:
            for attribute in list(node.attributes.values()):
                if attribute.value is None or attribute.is_ref():
                    continue
                if attribute.type == ir.AttributeType.TENSOR:
                    if (new_tensor := replace(attribute.value)) is not attribute.value:
                        _set_attribute(node, attribute, new_tensor)
                elif attribute.type == ir.AttributeType.TENSORS:
                    new_tensors = [replace(tensor) for tensor in attribute.value]
                    if any(new is not old for new, old in zip(new_tensors, attribute.value, strict=True)):
                        _set_attribute(node, attribute, new_tensors)
                elif attribute.type == ir.AttributeType.GRAPH:
                    pending_graphs.append(attribute.value)
                elif attribute.type == ir.AttributeType.GRAPHS:
                    pending_graphs += attribute.value


def _set_attribute(node: ir.Node, attribute: ir.Attr, value: Any) -> None:
    """Replace an attribute of a node by one with another value: attributes of onnx-ir are immutable."""
    node.attributes[attribute.name] = ir.Attr(attribute.name, attribute.type, value, doc_string=attribute.doc_string)
