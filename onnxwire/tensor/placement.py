"""Change where the elements of a tensor are stored: inline, in external data, or in the memory of another tensor."""

from __future__ import annotations

from onnxwire.tensor.dtypes import EXTERNAL, FIELDS
from onnxwire.tensor.storage import Storage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from onnxwire.messages import TensorProto


def make_inline(tensor: TensorProto) -> None:
    """Store the elements in raw_data instead of external data. They share the file's bytes if the file is mapped."""
    payload = Storage(tensor).payload()
    tensor._share("raw_data", payload)
    tensor.ClearField("external_data")
    tensor.ClearField("data_location")


def clear_elements(tensor: TensorProto) -> None:
    """Remove a tensor's elements from all fields that can store them. The field `segment` is not removed."""
    for field in ("raw_data", *FIELDS, "external_data", "data_location"):
        tensor.ClearField(field)  # type: ignore[arg-type]


def share_elements(tensor: TensorProto, source: TensorProto) -> None:
    """Replace a tensor's elements with those of `source`, stored in the field in which `source` stores them.

    Unknown fields are replaced too. Other fields stay unchanged.
    """
    other_fields = type(tensor)()
    other_fields.CopyFrom(tensor)
    clear_elements(other_fields)
    other_fields.DiscardUnknownFields()  # the unknown fields of `source` replace them
    tensor.CopyFrom(source)
    for field in ("dims", "data_type", "segment", "name", "doc_string", "metadata_props"):
        tensor.ClearField(field)
    tensor.MergeFrom(other_fields)


def set_reference(tensor: TensorProto, location: str, offset: int, length: int, checksum: str | None = None) -> None:
    """Replace a tensor's elements with a reference to external data. Source: onnx.proto, TensorProto.external_data."""
    entries = [("location", location), ("offset", str(offset)), ("length", str(length))]
    if checksum is not None:
        entries.append(("checksum", checksum))
    reference = type(tensor)()
    reference.CopyFrom(tensor)
    clear_elements(reference)
    for key, value in entries:
        reference.external_data.add(key=key, value=value)
    reference.data_location = EXTERNAL
    # The encoded tensor takes a fifth of the memory of an edited message; a model may have a million such tensors.
    tensor.ParseFromString(reference.SerializeToString())
