"""Queries of the page about the tensors in any message: descriptions, histograms and heat maps."""

from __future__ import annotations

from typing import Any

from onnxwire.analysis.paths import Resolved, resolve
from onnxwire.engine.message import Message
from onnxwire.errors import PathError
from onnxwire.io.tensor_list import describe, tensor_bytes
from onnxwire.messages import TensorProto
from onnxwire.tensor.dtypes import name_of
from onnxwire.viewer import tensor_pictures
from onnxwire.viewer.field_tree import FieldQueries

_MAX_CELLS_PER_AXIS = 512  # maximum number of bins, and of rows and columns of cells
_MAX_TEXT_CHARS = 400  # maximum length of a doc string or metadata value, without the ellipsis


class TensorQueries(FieldQueries):
    """The queries of the page about a message of any type that may contain tensors. Thread-safe."""

    def tensor(self, path: str) -> dict[str, Any]:
        """Describe a tensor and the location of its bytes, without reading them.

        path: the path of the tensor, "" for a TensorProto that is the whole file. Returns path, name, data_type, shape,
        bytes, file, offset, location, doc_string, consumers ([]) and count, the number of consumers (0);
        `Queries.tensor` lists the consumers in a model. Raises PathError if there is no tensor.
        """
        tensor = self._resolve_tensor(path)
        info = describe(tensor, path)
        return tensor_row(tensor, path) | {
            "file": info.file,
            "offset": info.offset,
            "location": info.location,
            "doc_string": shorten(tensor.doc_string),
            "consumers": [],
            "count": 0,
        }

    def histogram(self, path: str, bins: int = 64, *, whole: bool = False) -> dict[str, Any]:
        """Count the values of a tensor in up to 512 bins; see `tensor_pictures.histogram`."""
        return tensor_pictures.histogram(
            self._resolve_tensor(path), min(max(bins, 1), _MAX_CELLS_PER_AXIS), whole=whole
        )

    def heat_map(
        self,
        path: str,
        axes: tuple[int, int] | None = None,
        at: tuple[int, ...] | None = None,
        window: tuple[int, int, int, int] | None = None,
        size: tuple[int, int] = (96, 96),
        *,
        extreme: bool = False,
    ) -> dict[str, Any]:
        """Draw a slice of a tensor in up to 512 by 512 cells; see `tensor_pictures.heat_map`."""
        height, width = (min(max(length, 1), _MAX_CELLS_PER_AXIS) for length in size)
        return tensor_pictures.heat_map(self._resolve_tensor(path), axes, at, window, (height, width), extreme=extreme)

    def _resolve(self, path: str, cls: type[Message], noun: str) -> Resolved:
        """Resolve the path of a message of a class. Raises PathError for any other element.

        noun: the name of the class in the error message.
        """
        target = resolve(self.message, path)
        if not isinstance(target.value, cls) or target.index is not None:
            raise PathError(f"this is not a {noun}", path, self.message._document.name)
        return target

    def _resolve_tensor(self, path: str) -> TensorProto:
        tensor: TensorProto = self._resolve(path, TensorProto, "tensor").value
        return tensor


def tensor_row(tensor: TensorProto, path: str) -> dict[str, Any]:
    """Return path, name, data_type, shape and bytes of a tensor."""
    return {
        "path": path,
        "name": tensor.name,
        "data_type": name_of(tensor.data_type),
        "shape": list(tensor.dims),
        "bytes": tensor_bytes(tensor),
    }


def shorten(text: str) -> str:
    """Return a text; if it has more than 400 characters, return the first 400 and an ellipsis."""
    return text if len(text) <= _MAX_TEXT_CHARS else text[:_MAX_TEXT_CHARS] + "…"
