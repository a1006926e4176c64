"""The data types of tensors: their storage in ONNX, and their numpy dtypes."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    import numpy as np


class DataType:
    """One data type.

    number, name: those of TensorProto.DataType. bits: the size of an element in raw_data, 0 for strings. dtype_name:
    the name of the type of array elements in the module numpy, or else in ml_dtypes. field: the repeated field for
    elements that are not in raw_data.
    """

    def __init__(self, number: int, name: str, bits: int, dtype_name: str, field: str) -> None:
        self.number = number
        self.name = name
        self.bits = bits
        self.dtype_name = dtype_name
        self.field = field
        self._dtype: np.dtype[Any] | None = None

    @property
    def dtype(self) -> np.dtype[Any]:
        """The numpy dtype of an array of such elements, in native byte order."""
        if self._dtype is None:
            import numpy as np

            scalar: Any = getattr(np, self.dtype_name, None)
            if scalar is None:
                import ml_dtypes

                scalar = getattr(ml_dtypes, self.dtype_name)
            self._dtype = np.dtype(scalar)
        return self._dtype

    @property
    def is_packed(self) -> bool:
        """Whether elements are smaller than a byte. In numpy each element takes one byte."""
        return 0 < self.bits < 8

    @property
    def word_bytes(self) -> int:
        """The size of the words that are byte-swapped on big-endian machines: numbers, or halves of complex numbers.

        In bytes, at least 1.
        """
        return max(self.bits // (16 if self.dtype_name.startswith("complex") else 8), 1)

    def count_bytes(self, elements: int) -> int:
        """Return the length of raw_data for a number of elements. Source: onnx.proto, TensorProto.raw_data."""
        return (elements * self.bits + 7) // 8

    def count_entries(self, elements: int) -> int:
        """Return the length of the repeated field for a number of elements.

        Source: onnx.proto, TensorProto.int32_data.
        """
        if self.dtype_name.startswith("complex"):
            return 2 * elements
        # An entry contains one byte of packed elements of 2 or 4 bits, or one element of any other size.
        return self.count_bytes(elements) if self.bits in (2, 4) else elements


DATA_TYPES = [
    DataType(1, "FLOAT", 32, "float32", "float_data"),
    DataType(2, "UINT8", 8, "uint8", "int32_data"),
    DataType(3, "INT8", 8, "int8", "int32_data"),
    DataType(4, "UINT16", 16, "uint16", "int32_data"),
    DataType(5, "INT16", 16, "int16", "int32_data"),
    DataType(6, "INT32", 32, "int32", "int32_data"),
    DataType(7, "INT64", 64, "int64", "int64_data"),
    DataType(8, "STRING", 0, "object_", "string_data"),
    DataType(9, "BOOL", 8, "bool_", "int32_data"),
    DataType(10, "FLOAT16", 16, "float16", "int32_data"),
    DataType(11, "DOUBLE", 64, "float64", "double_data"),
    DataType(12, "UINT32", 32, "uint32", "uint64_data"),
    DataType(13, "UINT64", 64, "uint64", "uint64_data"),
    DataType(14, "COMPLEX64", 64, "complex64", "float_data"),
    DataType(15, "COMPLEX128", 128, "complex128", "double_data"),
    DataType(16, "BFLOAT16", 16, "bfloat16", "int32_data"),
    DataType(17, "FLOAT8E4M3FN", 8, "float8_e4m3fn", "int32_data"),
    DataType(18, "FLOAT8E4M3FNUZ", 8, "float8_e4m3fnuz", "int32_data"),
    DataType(19, "FLOAT8E5M2", 8, "float8_e5m2", "int32_data"),
    DataType(20, "FLOAT8E5M2FNUZ", 8, "float8_e5m2fnuz", "int32_data"),
    DataType(21, "UINT4", 4, "uint4", "int32_data"),
    DataType(22, "INT4", 4, "int4", "int32_data"),
    DataType(23, "FLOAT4E2M1", 4, "float4_e2m1fn", "int32_data"),
    DataType(24, "FLOAT8E8M0", 8, "float8_e8m0fnu", "int32_data"),
    DataType(25, "UINT2", 2, "uint2", "int32_data"),
    DataType(26, "INT2", 2, "int2", "int32_data"),
    DataType(27, "FLOAT6E2M3", 6, "float6_e2m3fn", "int32_data"),
    DataType(28, "FLOAT6E3M2", 6, "float6_e3m2fn", "int32_data"),
]
"""Every data type of ONNX 1.23.2 except UNDEFINED."""

BY_NUMBER = {data_type.number: data_type for data_type in DATA_TYPES}
BY_NAME = {data_type.name: data_type for data_type in DATA_TYPES}
STRING = BY_NAME["STRING"]
BY_DTYPE_NAME = {data_type.dtype_name.rstrip("_"): data_type for data_type in DATA_TYPES}  # by `dtype.name`

FIELDS = ("float_data", "int32_data", "string_data", "int64_data", "double_data", "uint64_data")
"""The repeated fields that store elements."""

# No release of ONNX has used or reserved a field number above 16 in TensorProto, and upstream assigns ascending
# numbers. protobuf's descriptor.proto reserves 50000 to 99999 for private use; their tags take three bytes. Numbers
# just above 50000 are the most likely to be used by others.
PADDING_FIELD = 64064
"""The number of the unknown field that stores padding before an aligned payload in a TensorProto."""

LITTLE_ENDIAN = sys.byteorder == "little"

EXTERNAL = 1
"""TensorProto.DataLocation.EXTERNAL."""
MAX_COUNT = (1 << 63) - 1
"""The maximum number of elements of a tensor, of bytes of a file, and the maximum offset."""


def name_of(number: int) -> str:
    """Return the name of a data type, UNDEFINED for 0, or the number as text if the type is unknown."""
    data_type = BY_NUMBER.get(number)
    return data_type.name if data_type is not None else "UNDEFINED" if number == 0 else str(number)
