"""Puts the payload of a tensor elsewhere."""

from __future__ import annotations

from onnxwire.tensor.dtypes import EXTERNAL, FIELDS
from onnxwire.tensor.storage import Storage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from onnxwire.messages import TensorProto


def take_in(tensor: TensorProto) -> None:
    """Make external data inline; the bytes stay where they are until the tensor is saved."""
    payload = Storage(tensor).payload()
    tensor._share("raw_data", payload)
    tensor.ClearField("external_data")
    tensor.ClearField("data_location")


def clear_elements(tensor: TensorProto) -> None:
    """Take away a tensor's elements, wherever they are; of a chunk, too, which it still is."""
    for field in ("raw_data", *FIELDS, "external_data", "data_location"):
        tensor.ClearField(field)  # type: ignore[arg-type]


def share_elements(tensor: TensorProto, source: TensorProto) -> None:
    """Give a tensor the elements of another, in the field that they are in there; all else of it stays as it is."""
    around = type(tensor)()
    around.CopyFrom(tensor)
    clear_elements(around)
    around.DiscardUnknownFields()  # which the source has
    tensor.CopyFrom(source)
    for field in ("dims", "data_type", "segment", "name", "doc_string", "metadata_props"):
        tensor.ClearField(field)
    tensor.MergeFrom(around)


def refer(tensor: TensorProto, location: str, offset: int, length: int, checksum: str | None = None) -> None:
    """Make a tensor name its elements as external data. Source: onnx.proto, TensorProto.external_data."""
    entries = [("location", location), ("offset", str(offset)), ("length", str(length))]
    if checksum is not None:
        entries.append(("checksum", checksum))
    changed = type(tensor)()
    changed.CopyFrom(tensor)
    clear_elements(changed)
    for key, value in entries:
        changed.external_data.add(key=key, value=value)
    changed.data_location = EXTERNAL
    # A model may have a million of them, and bytes take a fifth of the memory of edits.
    tensor.ParseFromString(changed.SerializeToString())
