"""Onnxruntime: sessions of models that were edited, or that are more than protobuf can read."""

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
from onnxwire.tensor.placement import refer, take_in
from onnxwire.tensor.storage import Storage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    import onnxruntime

    from onnxwire.tensor.storage import Array

_FOLDER = "session.model_external_initializers_file_folder_path"
_MAIN = re.compile(r"graph\.initializer\[[0-9]+\]")
# Below it a mapping, which takes whole pages, saves nothing. And shape inference does not read what is in a file: the
# shapes and axes that it wants are smaller.
_LEAST = 1 << 14


def inference_session(
    model: ModelProto, *, sess_options: onnxruntime.SessionOptions | None = None, **options: Any
) -> onnxruntime.InferenceSession:
    """Make an onnxruntime.InferenceSession of a model as it is now, edited or not, and of any size.

    sess_options: takes up what this session needs, and is of no use for another. options: the other parameters of
    InferenceSession, such as providers.
    Payloads of 16 KiB and more that are in files, the model's or others, are not read: onnxruntime is told where they
    are, and maps them itself. Initializers that are in memory only are handed over, and onnxruntime copies them. The
    rest is encoded. Afterwards the model may be closed, but the files must stay as they are.
    Raises what onnxruntime raises, and TensorError for tensors whose parts do not fit together.
    """
    import onnxruntime

    if not isinstance(model, ModelProto):
        raise FieldTypeError(f"expected a ModelProto of onnxwire, not {type(model).__name__}")
    frame = _Frame(model)
    if sess_options is None:
        sess_options = onnxruntime.SessionOptions()
    if frame.root:
        sess_options.add_session_config_entry(_FOLDER, frame.root)
    if frame.arrays:
        make = onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type
        values = [make(array, number) for array, number in frame.arrays.values()]
        sess_options.add_external_initializers(list(frame.arrays), values)
        # The options do not own the memory, and a session is made anew from them by set_providers.
        weakref.finalize(sess_options, frame.release).atexit = False
    return onnxruntime.InferenceSession(frame.encoded(), sess_options, **options)


class _Frame:
    """A model without its large payloads: a copy, which shares its bytes.

    root: the folder that the locations in it begin at, or "". arrays: the initializers that are in no file, by name;
    their bits as unsigned integers, and their data type.
    """

    def __init__(self, model: ModelProto) -> None:
        self.root = ""
        self.arrays: dict[str, tuple[Array, int]] = {}
        # What is looked at while the copy is changed: the program may edit the model meanwhile.
        before, self._model = ModelProto(), ModelProto()
        before.CopyFrom(model)
        self._model.CopyFrom(before)
        self._locations: dict[int, str] = {}
        for (path, source), (_, tensor) in zip(find_tensors(before), find_tensors(self._model), strict=True):
            is_large = tensor_bytes(source) >= _LEAST
            if source.data_type == STRING.number or not (is_large or is_external(source)):
                continue
            storage = Storage(source)
            size = storage.data_type.count_bytes(storage.count)
            location, offset = self._source(storage) if is_large else ("", 0)
            if location:
                refer(tensor, location, offset, size)
            elif is_large and _MAIN.fullmatch(path) and _is_value(storage) and source.name in self._used:
                # Of the copy: arrays of the model would keep it from being closed.
                bits = Storage(tensor).array()[0].view(f"u{storage.data_type.bits // 8}")
                self.arrays[source.name] = bits, storage.data_type.number
                refer(tensor, "in memory", 0, size)
            elif is_external(source):
                take_in(tensor)

    @cached_property
    def _used(self) -> set[str]:
        """The names that nodes of the main graph, or of graphs in it, take; onnxruntime forgets other initializers."""
        graph = self._model.graph
        names = {name for _, node in Search(graph, [NodeProto]) for name in node.input}
        return names.union(value.name for value in graph.output)

    def encoded(self) -> bytes:
        """The copy's bytes."""
        size = self._model.ByteSize()
        if size > INLINE_LIMIT:
            raise TensorError(
                f"what is not in files makes {size:,} bytes, more than protobuf can read; save the model, and load that"
            )
        return self._model.SerializeToString()

    def release(self) -> None:
        """Let go of the arrays, and of the copy, which keeps their memory when the model is closed."""
        self.arrays.clear()
        self._model.Clear()

    def _source(self, storage: Storage) -> tuple[str, int]:
        """The location and offset of a payload that is in a file, or "" and 0."""
        source = None if storage.is_unmapped or storage.is_fetched else storage.source
        return ("", 0) if source is None else (self._locate(source[0].descriptor, source[0].name), source[1])

    def _locate(self, descriptor: int, name: str) -> str:
        """How onnxruntime finds an open file, or "" where it can't."""
        if descriptor not in self._locations:
            self._locations[descriptor] = self._location(descriptor, name)
        return self._locations[descriptor]

    def _location(self, descriptor: int, name: str) -> str:
        path = PurePath(os.path.realpath(name))
        with suppress(OSError):
            # At that path may be another file by now: a model is often saved to where it came from.
            if os.path.samestat(os.stat(path), os.fstat(descriptor)) and path.anchor == (self.root or path.anchor):
                location = path.relative_to(path.anchor).as_posix()
                if not fault_of(location):
                    self.root = path.anchor
                    return location
        return ""


def _is_value(storage: Storage) -> bool:
    """Whether onnxruntime has values of such elements that numpy has too."""
    return not (storage.data_type.is_packed or storage.data_type.dtype_name.startswith("complex"))
