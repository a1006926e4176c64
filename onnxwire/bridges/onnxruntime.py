"""onnxruntime: sessions of edited models, and of models that are too large for protobuf."""

from __future__ import annotations

import os
import re
import weakref
from contextlib import suppress
from functools import cached_property
from pathlib import PurePath

from onnxwire.engine.search import Search
from onnxwire.errors import FieldTypeError, TensorError
from onnxwire.io.save import INLINE_LIMIT
from onnxwire.io.tensor_list import find_tensors, is_external, tensor_bytes
from onnxwire.messages import ModelProto, NodeProto
from onnxwire.tensor.dtypes import STRING
from onnxwire.tensor.external_data import fault_of
from onnxwire.tensor.placement import make_inline, set_reference
from onnxwire.tensor.storage import Storage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    import onnxruntime

    from onnxwire.tensor.storage import Array

_FOLDER_OPTION = "session.model_external_initializers_file_folder_path"
_MAIN_GRAPH_PATH = re.compile(r"graph\.initializer\[[0-9]+\]")
# Smaller payloads are not worth a mapping, which takes whole pages. Shapes and axes, which are smaller, must stay in
# the model: shape inference reads them.
_MIN_PAYLOAD_BYTES = 1 << 14


def inference_session(
    model: ModelProto, *, sess_options: onnxruntime.SessionOptions | None = None, **options: Any
) -> onnxruntime.InferenceSession:
    """Make an onnxruntime.InferenceSession of the current state of a model, edited or not, of any size.

    sess_options: the session's options, which are changed and can't be used for another session. options: the other
    parameters of InferenceSession, such as providers.
    Payloads of 16 KiB and more in mapped local files that still have the same path, the model's own or external ones,
    are not read: onnxruntime receives their locations and maps them. Other initializers of this size that are in
    the main graph, and that this graph or its subgraphs read, are passed as arrays, which onnxruntime copies, except
    strings and sub-byte and complex types. All other parts of the model are encoded. Afterwards the model may be
    closed, but the files must not change.
    Raises the errors of onnxruntime, ImportError if it is not installed, FieldTypeError for an object that is not a
    ModelProto of onnxwire, the errors of `TensorProto.numpy` for tensors, and TensorError for a model whose encoded
    parts are too large for protobuf.
    """
    import onnxruntime

    if not isinstance(model, ModelProto):
        raise FieldTypeError(f"expected a ModelProto of onnxwire, not {type(model).__name__}")
    session_model = _SessionModel(model)
    if sess_options is None:
        sess_options = onnxruntime.SessionOptions()
    if session_model.root:
        sess_options.add_session_config_entry(_FOLDER_OPTION, session_model.root)
    if session_model.arrays:
        make_value = onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type
        values = [make_value(array, data_type) for array, data_type in session_model.arrays.values()]
        sess_options.add_external_initializers(list(session_model.arrays), values)
        # The options do not own the arrays' memory, and set_providers makes a new session from the options. So the
        # arrays live as long as the options.
        weakref.finalize(sess_options, session_model.release).atexit = False
    return onnxruntime.InferenceSession(session_model.encode(), sess_options, **options)


class _SessionModel:
    """A copy of a model without the payloads that onnxruntime maps or receives as arrays.

    The copy shares the model's bytes.

    root: the folder that the locations are relative to, or "". arrays: the initializers that are passed as arrays, by
    name: their bits as unsigned integers, and the number of their data type.
    """

    def __init__(self, model: ModelProto) -> None:
        self.root = ""
        self.arrays: dict[str, tuple[Array, int]] = {}
        # The program may edit the model in another thread.
        snapshot, self._model = ModelProto(), ModelProto()
        snapshot.CopyFrom(model)
        self._model.CopyFrom(snapshot)
        self._locations: dict[int, str] = {}  # by descriptor; see `_locate_file`
        for (path, source), (_, tensor) in zip(find_tensors(snapshot), find_tensors(self._model), strict=True):
            is_large = tensor_bytes(source) >= _MIN_PAYLOAD_BYTES
            if source.data_type == STRING.number or not (is_large or is_external(source)):
                continue
            storage = Storage(source)
            size = storage.data_type.count_bytes(storage.count)
            location, offset = self._locate_payload(storage) if is_large else ("", 0)
            if location:
                set_reference(tensor, location, offset, size)
            elif (
                is_large
                and _MAIN_GRAPH_PATH.fullmatch(path)
                and _has_supported_type(storage)
                and source.name in self._read_names
            ):
                # The array belongs to the copy: an array of the model would prevent closing the model.
                bits = Storage(tensor).array()[0].view(f"u{storage.data_type.bits // 8}")
                self.arrays[source.name] = bits, storage.data_type.number
                set_reference(tensor, "in memory", 0, size)  # a location without a meaning: arrays are found by name
            elif is_external(source):
                make_inline(tensor)

    @cached_property
    def _read_names(self) -> set[str]:
        """The names that the main graph and its subgraphs read; onnxruntime drops other initializers."""
        graph = self._model.graph
        names = {name for _, node in Search(graph, [NodeProto]) for name in node.input}
        return names.union(value.name for value in graph.output)

    def encode(self) -> bytes:
        """Encode the copy. Raises TensorError if it is too large for protobuf."""
        size = self._model.ByteSize()
        if size > INLINE_LIMIT:
            raise TensorError(
                f"the parts that are not in files have {size:,} bytes, more than protobuf can read; save the model and "
                "load the file"
            )
        return self._model.SerializeToString()

    def release(self) -> None:
        """Release the arrays and the copy, which owns their memory after the model is closed."""
        self.arrays.clear()
        self._model.Clear()

    def _locate_payload(self, storage: Storage) -> tuple[str, int]:
        """Return the location and offset of a payload in a file that onnxruntime can map; location "" for others."""
        source = None if storage.is_unmapped or storage.is_remote else storage.file_and_offset
        return ("", 0) if source is None else (self._locate_file(source[0].descriptor, source[0].name), source[1])

    def _locate_file(self, descriptor: int, name: str) -> str:
        """Return the location of an open file for onnxruntime, or "" if it has none."""
        if descriptor not in self._locations:
            self._locations[descriptor] = self._find_location(descriptor, name)
        return self._locations[descriptor]

    def _find_location(self, descriptor: int, name: str) -> str:
        """Return the location of an open file, and set `root`.

        Returns "" if `name` leads to another file, has another root than earlier files, or is not allowed.
        """
        path = PurePath(os.path.realpath(name))
        with suppress(OSError):
            # The path may lead to another file in the meantime: a model is often saved over its own file.
            if os.path.samestat(os.stat(path), os.fstat(descriptor)) and path.anchor == (self.root or path.anchor):
                location = path.relative_to(path.anchor).as_posix()
                if not fault_of(location):
                    self.root = path.anchor
                    return location
        return ""


def _has_supported_type(storage: Storage) -> bool:
    """Return whether onnxruntime accepts arrays of the element type: not of sub-byte and complex types."""
    return not (storage.data_type.is_packed or storage.data_type.dtype_name.startswith("complex"))
