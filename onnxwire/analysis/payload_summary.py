"""Summarizes the payloads of tensors by digests, for texts of models that are compared line by line."""

from __future__ import annotations

from onnxwire.errors import ExternalDataError, MissingPackageError, SourceError, TensorError, count_text
from onnxwire.messages import TensorProto
from onnxwire.tensor.dtypes import FIELDS, name_of
from onnxwire.tensor.payload_digest import add_payload
from onnxwire.tensor.payload_layout import layout_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from onnxwire.engine.message import Message

_INLINE = frozenset({"raw_data", *FIELDS})  # the fields that store elements in the tensor
_STORAGE = _INLINE | {"external_data", "data_location"}  # all fields that store or locate elements


def payload_summary(message: Message) -> tuple[frozenset[str], str] | None:
    """Return the fields that store or locate a tensor's elements, and a line with type, shape, size and XXH3 digest.

    The line does not depend on where and in which field the elements are stored. For external data that cannot be read,
    the fields do not include its location, and the line has neither size nor digest. For a damaged tensor, such as one
    whose payload does not fit its dims, the line has no size, and the digest is of the encoded tensor. Returns None for
    a message that is not a TensorProto, as the argument `summary` of `to_text` requires. Raises MissingPackageError
    without xxhash.
    """
    if not isinstance(message, TensorProto):
        return None
    try:
        from xxhash import xxh3_128
    except ImportError:
        raise MissingPackageError(
            "digests need xxhash, which is not installed; `pip install 'onnxwire[git]'`"
        ) from None
    type_and_shape = f"{name_of(message.data_type)} {'x'.join(map(str, message.dims)) or 'scalar'}"
    digest = xxh3_128()
    try:
        add_payload(digest, message)
    except (ExternalDataError, SourceError):
        return _INLINE, f"{type_and_shape}, external data that is not available here"
    except TensorError:
        digest = xxh3_128(message.SerializeToString())
        return _STORAGE, f"{type_and_shape}, a payload that does not fit, xxh3 {digest.hexdigest()}"
    return _STORAGE, f"{type_and_shape}, {count_text(layout_of(message).nbytes, 'byte')}, xxh3 {digest.hexdigest()}"
