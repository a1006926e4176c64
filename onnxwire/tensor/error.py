"""Create errors that name a tensor."""

from __future__ import annotations

from onnxwire.errors import TensorError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from onnxwire.tensor.fields import TensorFields


def tensor_error(tensor: TensorFields, reason: str, error_class: type[TensorError] = TensorError) -> TensorError:
    """Return an error with a tensor's name and, if it is an unedited part of a loaded document, its path and offset."""
    from onnxwire.engine.field_path import field_path

    span, document = tensor._span, tensor._document
    if span is None or document.root is None:
        return error_class(reason, tensor.name)
    # The byte before the span is in the length of the tensor's record, so the path of that byte is the tensor's path,
    # not that of a field in the tensor.
    path = field_path(document, span[0] - 1) if span[0] else ""
    return error_class(reason, tensor.name, path, document.name, span[0])
