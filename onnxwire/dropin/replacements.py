"""Replacements for functions of `onnx`: loading models and external data by mapping, saving by streaming,
arrays that share bytes."""

from __future__ import annotations

import os
from contextlib import suppress
from functools import wraps

from onnxwire.dropin.mapped import files_open_for_writing, open_file
from onnxwire.engine.file_writer import FileWriter
from onnxwire.engine.message import Message, root_view
from onnxwire.engine.record_reader import payload_at
from onnxwire.engine.write import encode_pieces, write_pieces
from onnxwire.io.load import find_external_files
from onnxwire.messages import ModelProto, TensorProto
from onnxwire.tensor.dtypes import BY_NUMBER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import IO, Any

    from onnxwire.engine.document import Document
    from onnxwire.tensor.storage import Array

_BINARY = "protobuf"  # the name of the binary format in onnx.serialization


def replace_functions(module: ModuleType) -> None:
    """Replace functions of a module of `onnx`, which was just imported, by functions of onnxwire."""
    if module.__name__ == "onnx":
        load, save = _make_load_model(module), _make_save_model(module)
        for name in ("load", "load_model"):
            setattr(module, name, load)
        for name in ("save", "save_model"):
            setattr(module, name, save)
    elif module.__name__ == "onnx.external_data_helper" and hasattr(module, "_validate_external_data_file_bounds"):
        module.load_external_data_for_model = _make_external_data_loader(module)  # type: ignore[attr-defined]
    elif module.__name__ == "onnx.numpy_helper":
        module.to_array = _make_to_array(module.to_array)  # type: ignore[attr-defined]


def _is_path(file: object) -> bool:
    return isinstance(file, str | os.PathLike)


def _is_binary(onnx: ModuleType, format: str | None, file: object) -> bool:
    """Return whether `onnx` would use its own binary serializer; a program may have registered another one."""
    serializer = onnx._get_serializer(format, file)
    return serializer.supported_format == _BINARY and type(serializer).__module__ == "onnx.serialization"


# --- Models.


def _make_load_model(onnx: ModuleType) -> Callable[..., Any]:
    """Return a replacement for `onnx.load_model` that maps files."""
    original = onnx.load_model

    @wraps(original)
    def load_model(
        f: IO[bytes] | str | os.PathLike[str], format: str | None = None, load_external_data: bool = True
    ) -> Any:
        if not _is_path(f) or not _is_binary(onnx, format, f):
            return original(f, format, load_external_data)
        model = _open_model(os.fspath(f))  # type: ignore[arg-type]
        if load_external_data:
            onnx.load_external_data_for_model(model, os.path.dirname(os.path.abspath(f)))  # type: ignore[arg-type]
        return model

    return load_model


def _open_model(path: str) -> ModelProto:
    """Open a model file, and verify all bytes except payloads."""
    with open(path, "rb") as file:
        document = open_file(file.fileno(), path, ModelProto)
    try:
        document.files = find_external_files(path, document)
        return root_view(document, ModelProto)
    except BaseException:
        document.close()
        raise


def _make_save_model(onnx: ModuleType) -> Callable[..., Any]:
    """Return a replacement for `onnx.save_model` that copies unedited parts from file to file."""
    original = onnx.save_model

    @wraps(original)
    def save_model(
        proto: Any, f: IO[bytes] | str | os.PathLike[str], format: str | None = None, **options: Any
    ) -> None:
        if not isinstance(proto, Message) or not _is_path(f) or not _is_binary(onnx, format, f):
            original(proto, f, format, **options)
            return
        if options.pop("save_as_external_data", False):
            names = ("all_tensors_to_one_file", "location", "size_threshold", "convert_attribute")
            onnx.convert_model_to_external_data(proto, **{name: options.pop(name) for name in names if name in options})
        proto = onnx.write_external_data_tensors(proto, os.path.dirname(os.path.abspath(f)))  # type: ignore[arg-type]
        _write(proto, os.fspath(f))  # type: ignore[arg-type]

    return save_model


def _write(message: Message, path: str) -> None:
    """Write a message to a file in place, as `onnx` does: other processes may have the file open."""
    message.ByteSize()  # if a file of the message has changed, this raises before the target is truncated
    with open(path, "wb") as file:
        target = FileWriter(file.fileno(), fresh=True)
        total, pieces = encode_pieces(message, False, target)
        write_pieces(target, pieces)
        if not target.is_stream:
            target.seek(total)
        target.finish()


# --- External data.


class _PayloadFile:
    """A file object from which `onnx` reads the data of one tensor. `read` returns a memoryview, not a copy."""

    def __init__(self, document: Document, descriptor: int) -> None:
        self.document = document
        self.descriptor = descriptor
        self.position = 0

    def fileno(self) -> int:
        """Return the descriptor of the open file."""
        return self.descriptor

    def seek(self, position: int) -> None:
        """Set the position in bytes."""
        self.position = position

    def read(self, length: int | None = None) -> memoryview:
        """Return `length` bytes from the position on; by default all up to the end. The position does not move."""
        end = len(self.document) if length is None else self.position + length
        return memoryview(payload_at(self.document, self.position, end))


def _make_external_data_loader(helper: ModuleType) -> Callable[..., Any]:
    """Return a replacement for `load_external_data_for_model` that maps files. helper: onnx.external_data_helper."""
    original = helper.load_external_data_for_model

    @wraps(original)
    def load_external_data_for_model(model: Any, base_dir: str) -> None:
        documents: dict[tuple[int, int], Document] = {}
        open_for_writing = None
        for tensor in helper._get_all_tensors(model):
            if not helper.uses_external_data(tensor):
                continue
            info = helper.ExternalDataInfo(tensor)
            descriptor = helper._open_external_data_fd(base_dir, info.location, tensor.name, True)
            try:
                status = os.fstat(descriptor)
                identity = status.st_dev, status.st_ino
                if identity not in documents:
                    open_for_writing = files_open_for_writing() if open_for_writing is None else open_for_writing
                    name = os.path.join(base_dir, info.location)
                    documents[identity] = open_file(descriptor, name, open_for_writing=open_for_writing)
                payload_file = _PayloadFile(documents[identity], descriptor)
                data = helper._validate_external_data_file_bounds(payload_file, info, tensor.name)
            finally:
                os.close(descriptor)
            tensor._share("raw_data", data)
            tensor.data_location = TensorProto.DEFAULT
            del tensor.external_data[:]

    return load_external_data_for_model


# --- Arrays.


def _make_to_array(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return a replacement for `onnx.numpy_helper.to_array` whose arrays share the bytes of tensors if possible."""

    @wraps(original)
    def to_array(tensor: Any, base_dir: str = "") -> Any:
        array = _shared_array(tensor) if isinstance(tensor, TensorProto) else None
        return original(tensor, base_dir) if array is None else array

    return to_array


def _shared_array(tensor: TensorProto) -> Array | None:
    """Return an array that shares a tensor's raw_data.

    Returns None for a segment, an external tensor or an unknown type, if raw_data is absent or empty or does not have
    the length that dims require, and if numpy can't use its bytes without a copy.
    """
    import numpy as np

    data_type = BY_NUMBER.get(tensor.data_type)
    if (
        data_type is None
        or data_type.is_packed
        or tensor.data_location == TensorProto.EXTERNAL
        or tensor.HasField("segment")
    ):
        return None
    payload = tensor._payload("raw_data")
    if payload is None or not len(payload):
        return None
    # For a faulty tensor, the original function raises its own error.
    with suppress(ValueError, TypeError):
        array: Array = np.frombuffer(memoryview(payload), data_type.dtype).reshape(tensor.dims)
        if array.flags.aligned:
            return array
    return None
