"""Tensors of every data type in every storage, composed from bits, and their reference arrays."""

from __future__ import annotations

import re
from itertools import cycle, islice
from math import prod
from typing import NamedTuple

import numpy as np
import onnx
import onnx.numpy_helper
from hypothesis import strategies as st
from onnx import onnx_data_pb2, onnx_ml_pb2, onnx_operators_ml_pb2  # noqa: F401  (they fill the default pool)
from wire import FIXED32, LEN, VARINT, len_record, tag, varint, varint_record, wire_type_of

import onnxwire
from onnxwire.engine.descriptor import FieldDescriptor

# Name → number, without UNDEFINED.
DATA_TYPES = {name: value for name, value in onnx.TensorProto.DataType.items() if value}
_SUB_BYTE_BITS = {"UINT4": 4, "INT4": 4, "FLOAT4E2M1": 4, "UINT2": 2, "INT2": 2, "FLOAT6E2M3": 6, "FLOAT6E3M2": 6}
# Number of a data type → bits of an element; for STRING, of a reference in an object array.
BITS = {
    value: _SUB_BYTE_BITS.get(name, 8 * onnx.helper.tensor_dtype_to_np_dtype(value).itemsize)
    for name, value in DATA_TYPES.items()
}


class TensorParts(NamedTuple):
    """The parts of a tensor. elements: for each number, an int with its bits; for each string, its bytes."""

    data_type: int
    dims: list[int]
    elements: list

    @property
    def raw(self):
        """The bytes of raw_data: the elements as one little-endian number, the first element in the lowest bits."""
        bits = BITS[self.data_type]
        number = sum(element << i * bits for i, element in enumerate(self.elements))
        return number.to_bytes(-(-len(self.elements) * bits // 8), "little")

    @property
    def field(self):
        """The descriptor of the typed field for these elements."""
        return onnxwire.TensorProto.DESCRIPTOR.fields_by_name[onnx.helper.tensor_dtype_to_field(self.data_type)]

    def entries(self):
        """Return the wire bytes of each value of the typed field, without tags."""
        bits, elements, wire_type = BITS[self.data_type], self.elements, wire_type_of(self.field)
        if wire_type == LEN:
            return [varint(len(element)) + element for element in elements]
        if bits in (2, 4):
            elements = self.raw  # a value of int32_data contains a byte with two or four elements
        if wire_type != VARINT:  # a complex number is two values
            return [bytes(entry) for entry in np.frombuffer(self.raw, f"V{4 if wire_type == FIXED32 else 8}")]
        if onnx.TensorProto.DataType.Name(self.data_type) in ("INT8", "INT16", "INT32", "INT64"):
            elements = [element - (element >> bits - 1 << bits) for element in elements]  # sign extension
        return [varint(element) for element in elements]

    def typed_records(self, packed=True):
        """Return the records of the typed field; a string field is never packed."""
        if packed and self.field.type != FieldDescriptor.TYPE_BYTES:
            return len_record(self.field.number, b"".join(self.entries())) if self.elements else b""
        return b"".join(tag(self.field.number, wire_type_of(self.field)) + entry for entry in self.entries())

    def message(self, data=b"", name="w"):
        """Return the bytes of the TensorProto. data: the records of its elements."""
        dims = b"".join(varint_record(1, dim) for dim in self.dims)
        return dims + varint_record(2, self.data_type) + len_record(8, name.encode()) + data

    def inline(self, name="w"):
        """Return the message in each inline storage: the packed typed field, the unpacked one, and last raw_data. For
        strings, return only the message with the typed field."""
        storages = [self.typed_records()]
        if self.data_type != DATA_TYPES["STRING"]:
            storages += [self.typed_records(packed=False), len_record(9, self.raw)]
        return [self.message(data, name) for data in storages]

    def array(self):
        """Return the array that the official runtime reads from raw_data. Strings are decoded here, because the
        official runtime strips NULs."""
        if self.data_type == DATA_TYPES["STRING"]:
            array = np.empty(len(self.elements), object)
            array[:] = [element.decode() for element in self.elements]
            return array.reshape(self.dims)
        return onnx.numpy_helper.to_array(onnx.TensorProto.FromString(self.message(len_record(9, self.raw))))


@st.composite
def tensor_parts(draw, data_type, max_side=5, dims=None):
    """Draw the TensorParts of a tensor of a data type, with any bits in its elements (in a bool 0 or 1).

    dims: default: random dims of rank 0 to 4, each at most `max_side`.
    """
    dims = draw(st.lists(st.integers(0, max_side), max_size=4)) if dims is None else dims
    if data_type == DATA_TYPES["STRING"]:
        values = st.text(max_size=4).map(str.encode)
    else:
        values = st.integers(0, 1 if data_type == DATA_TYPES["BOOL"] else (1 << BITS[data_type]) - 1)
    first_elements = draw(st.lists(values, min_size=1, max_size=9))
    return TensorParts(data_type, dims, list(islice(cycle(first_elements), prod(dims))))


def external(location, offset=None, length=None):
    """Return the records external_data and data_location of a tensor whose data is in an external file."""
    entries = {"location": location, "offset": offset, "length": length}
    pairs = [(key, str(value)) for key, value in entries.items() if value is not None]
    return b"".join(
        len_record(13, len_record(1, key.encode()) + len_record(2, value.encode())) for key, value in pairs
    ) + varint_record(14, 1)


def assert_same_array(ours, expected):
    """Assert that two arrays have the same dtype, shape and elements. Numbers are compared by their bits."""
    assert ours.dtype == expected.dtype
    assert ours.shape == expected.shape
    if expected.dtype == object:
        assert [(type(element), element) for element in ours.flat] == [
            (type(element), element) for element in expected.flat
        ]
        return
    bits = _SUB_BYTE_BITS.get(onnx.TensorProto.DataType.Name(onnx.helper.np_dtype_to_tensor_dtype(expected.dtype)), 8)
    # The unused high bits of a sub-byte element may differ.
    our_bits, expected_bits = (np.frombuffer(array.tobytes(), np.uint8) & (1 << bits) - 1 for array in (ours, expected))
    assert our_bits.tobytes() == expected_bits.tobytes()
    if bits < 8 and ours.size:
        assert ours.astype(np.float32).tobytes() == expected.astype(np.float32).tobytes()


def tensors_in(message, path=""):
    """Yield the path and message of every TensorProto in a message of onnxwire or of the official runtime."""
    if message.DESCRIPTOR.name == "TensorProto":
        yield path, message
        return
    for field, value in message.ListFields():
        if field.message_type is not None:
            name = f"{path}.{field.name}" if path else field.name
            message_parts = (
                [(f"{name}[{i}]", message_part) for i, message_part in enumerate(value)]
                if field.is_repeated
                else [(name, value)]
            )
            for part_path, message_part in message_parts:
                yield from tensors_in(message_part, part_path)


def numbers_in(text):
    """Return the set of the integers in an error message, as texts without commas."""
    return set(re.findall(r"-?\d+", re.sub(r"(?<=\d),(?=\d{3})", "", text)))
