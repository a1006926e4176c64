"""Locate and read the elements of a tensor."""

from __future__ import annotations

import math

from onnxwire.engine.record_reader import payload_at
from onnxwire.errors import Error, FieldTypeError, TensorError, count_text
from onnxwire.tensor.dtypes import BY_NUMBER, EXTERNAL, FIELDS, LITTLE_ENDIAN, MAX_COUNT, STRING
from onnxwire.tensor.error import tensor_error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import EllipsisType
    from typing import Any, SupportsIndex, TypeAlias

    import numpy as np
    from typing_extensions import Buffer

    from onnxwire.engine.file_writer import FileWriter
    from onnxwire.engine.payload import Payload
    from onnxwire.tensor.dtypes import DataType
    from onnxwire.tensor.external_file import ExternalFile
    from onnxwire.tensor.fields import TensorFields

    Array = np.ndarray[Any, Any]
    IndexItem = SupportsIndex | slice | EllipsisType
    Index = IndexItem | tuple[IndexItem, ...]
    WriteArgument: TypeAlias = "tuple[ExternalFile, int, int] | Payload | Storage"

_MAX_GAP_BYTES = 1 << 12  # larger gaps between elements are skipped rather than read


def data_type_of(tensor: TensorFields) -> DataType:
    """Return a tensor's data type. Raises TensorError if it is unknown."""
    data_type = BY_NUMBER.get(tensor.data_type)
    if data_type is None:
        fault = "0 is UNDEFINED" if tensor.data_type == 0 else f"{tensor.data_type} is not one of ONNX's"
        raise tensor_error(tensor, f"the data_type {fault}; set it to the type of the elements")
    return data_type


def count_elements(tensor: TensorFields, data_type: DataType) -> int:
    """Return the number of elements from the dims. Raises TensorError for dims that no array can have.

    Source: IR.md, "Tensor Definition"; onnx.proto, TensorProto.dims.
    """
    from onnxwire.tensor.payload_layout import count_elements as count

    dims = list(tensor.dims)
    elements, is_negative, _ = count(dims)
    if is_negative:
        raise tensor_error(tensor, f"the dims {dims} contain a negative number; dims must be 0 or more")
    # numpy also rejects an empty array whose other dims are too large.
    n_without_zeros, _, is_excessive = count([dim or 1 for dim in dims])
    if is_excessive or data_type.count_bytes(n_without_zeros) > MAX_COUNT:
        raise tensor_error(tensor, f"the dims {dims} describe more elements than a file or an array can contain")
    return elements


def stored_count_and_shape(tensor: TensorFields, data_type: DataType) -> tuple[int, tuple[int, ...]]:
    """Return the number and shape of the stored elements: all, or those of the segment.

    Raises TensorError for dims that no array can have, and a segment outside the elements.
    """
    count, shape = count_elements(tensor, data_type), tuple(tensor.dims)
    if not tensor.HasField("segment"):
        return count, shape
    begin, end = tensor.segment.begin, tensor.segment.end
    if not 0 <= begin <= end <= count:
        raise tensor_error(
            tensor,
            f"the segment {begin:,} to {end:,} is not within the tensor, which has {count_text(count, 'element')}",
        )
    return end - begin, (end - begin,)


def write_payload(argument: WriteArgument, target: FileWriter) -> None:
    """Write a payload to a file. Data in a file that is not mapped is copied piece by piece, or by the kernel.

    argument: `Storage.write_argument` of the tensor.
    """
    from onnxwire.engine import write

    content: Buffer
    if isinstance(argument, Storage):
        content = argument.payload()
    elif isinstance(argument, tuple):
        file, offset, length = argument
        if file.document is None:
            file.check_unchanged()
            target.copy(file.descriptor, offset, length)
            target.write(b"")  # flush the copy
            file.check_unchanged()
            return
        content = file.view(offset, length)
    else:
        content = argument
    write.write_payload(target, content)


class Storage:
    """The location of a tensor's elements. The constructor checks that their number fits the type and dims.

    shape: the dims, or (count,) if the tensor has a segment; count: the number of elements in the array;
    field: "raw_data", one of FIELDS, "external_data", or "" if there are no elements.
    Raises TensorError for a tensor without valid elements; ExternalDataError and SourceError like `locate_payload`.
    """

    __slots__ = ("_external", "count", "data_type", "field", "shape", "tensor")

    def __init__(self, tensor: TensorFields) -> None:
        self.tensor = tensor
        self.data_type = data_type_of(tensor)
        self.count, self.shape = stored_count_and_shape(tensor, self.data_type)
        self.field = self._find_field()
        self._external: tuple[ExternalFile, int, int] | None = None
        if self.field == "external_data":
            self._open_external()
        elif self.field:
            self._check_count()

    def _error(self, reason: str) -> TensorError:
        return tensor_error(self.tensor, reason)

    def _requirement(self, amount: str) -> str:
        """Return the first half of an error message about a number of elements or bytes."""
        return f"dims {list(self.tensor.dims)} of {self.data_type.name} require {amount}"

    def _find_field(self) -> str:
        """Return the value for `field`. Raises TensorError if elements are absent, in a wrong field or in several."""
        tensor = self.tensor
        filled_fields = [field for field in FIELDS if getattr(tensor, field)]
        # Some writers leave an empty raw_data in a tensor whose elements are in another field, or that has none.
        if tensor.HasField("raw_data") and (tensor._payload("raw_data") or (self.count and not filled_fields)):
            filled_fields.insert(0, "raw_data")
        if tensor.data_location == EXTERNAL:
            if [field for field in filled_fields if field != "raw_data" or tensor._payload("raw_data")]:
                raise self._error(
                    f"the data_location is EXTERNAL, but {filled_fields[0]} also contains data; clear one of them"
                )
            if self.data_type is STRING:
                raise self._error("the elements of STRING can't be external data; they belong in string_data")
            return "external_data"
        if len(filled_fields) > 1:
            raise self._error(f"more than one field has elements: {', '.join(filled_fields)}; clear all but one")
        if not filled_fields:
            if self.count:
                hint = ", or data_location = EXTERNAL is missing" if tensor.external_data else ""
                raise self._error(f"{self._requirement(count_text(self.count, 'element'))}; there are none{hint}")
            return ""
        if filled_fields[0] == "raw_data" and self.data_type is STRING:
            raise self._error("the elements of STRING can't be in raw_data; they belong in string_data")
        if filled_fields[0] not in ("raw_data", self.data_type.field):
            allowed_fields = self.data_type.field + ("" if self.data_type is STRING else " or raw_data")
            raise self._error(
                f"elements of {self.data_type.name} belong in {allowed_fields}, not in {filled_fields[0]}"
            )
        return filled_fields[0]

    def _check_count(self) -> None:
        """Raise TensorError unless the field has the number of bytes or entries that dims and type require."""
        if self.field == "raw_data":
            self._check_bytes(len(self.tensor._payload("raw_data") or b""), "raw_data")
            return
        entries, actual = self.data_type.count_entries(self.count), len(getattr(self.tensor, self.field))
        if entries != actual:
            noun = "entry" if entries == 1 else "entries"
            raise self._error(f"{self._requirement(f'{entries:,} {noun}')} of {self.field}; it has {actual:,}")

    def _check_bytes(self, actual: int, source: str) -> None:
        """Raise TensorError unless the payload has the required size. source: the field or file, for the message."""
        size = self.data_type.count_bytes(self.count)
        if size != actual:
            raise self._error(f"{self._requirement(count_text(size, 'byte'))}; {source} has {actual:,}")

    def _open_external(self) -> None:
        from onnxwire.tensor.external_data import locate_payload

        file, offset, length = locate_payload(self.tensor, self.tensor._document.files)
        self._check_bytes(length, f"the range from byte {offset:,} of {file.name}")
        self._external = file, offset, length

    @property
    def is_unmapped(self) -> bool:
        """Whether the payload is in a file that is read, not mapped."""
        return self._external is not None and self._external[0].document is None

    @property
    def is_remote(self) -> bool:
        """Whether the payload is on a server, and fetched on demand."""
        file_and_offset = self.file_and_offset
        return file_and_offset is not None and file_and_offset[0].memory is not None

    @property
    def external_range(self) -> tuple[ExternalFile, int, int] | None:
        """The external file, and the offset and length in bytes; None if the data is in the message."""
        return self._external

    @property
    def file_and_offset(self) -> tuple[ExternalFile, int] | None:
        """The open file that contains the payload, and the payload's offset; None if the payload is in memory."""
        if self._external is not None:
            file, offset, _ = self._external
        else:
            payload = self.tensor._payload("raw_data") if self.field == "raw_data" else None
            if payload is None or payload.document is None or payload.span is None:
                return None
            from onnxwire.tensor.external_file import ExternalFile

            file, offset = ExternalFile(payload.document), payload.span[0]
        return (file, offset) if file.prefers_read_into else None

    def payload(self, start: int = 0, end: int | None = None) -> memoryview:
        """Return a part of the payload in the format of raw_data, shared if it is stored in that format.

        start, end: offsets in bytes; end is None for the end of the payload. A file that is not mapped is read.
        """
        if self._external is not None:
            file, offset, length = self._external
            return memoryview(file.view(offset + start, (length if end is None else end) - start))
        if self.field == "raw_data":
            payload = self.tensor._payload("raw_data")
            if payload is not None and payload.document is not None and payload.document.memory is not None:
                span_start, span_end = payload.span  # type: ignore[misc]
                # Fetch only this range.
                payload_end = span_end if end is None else span_start + end
                return memoryview(payload_at(payload.document, span_start + start, payload_end))
            return memoryview(payload or b"")[start:end]
        return self.decoded_bytes().toreadonly()[start:end]

    @property
    def write_argument(self) -> WriteArgument:
        """The argument for a later `write_payload`. It usually takes a tenth of the memory of this object."""
        if self.field == "raw_data":
            return self.tensor._payload("raw_data") or self
        return self._external or self

    def write(self, target: FileWriter) -> None:
        """Write the payload to a file; see write_payload."""
        write_payload(self.write_argument, target)

    def bytes_array(self) -> Array:
        """Return the payload as an array: uint8, shape (nbytes,)."""
        import numpy as np

        payload = self.payload()
        return np.frombuffer(payload, np.uint8) if len(payload) else np.empty(0, np.uint8)

    def decoded_bytes(self) -> memoryview:
        """Return the elements of a typed field in the format of raw_data, shared if they are stored in that format.

        Returns an empty memoryview for a tensor without elements.
        """
        import numpy as np

        if self.data_type is STRING:
            raise self._error("strings have no raw_data format; use numpy(strings='bytes')")
        if not self.field:
            return memoryview(b"")
        if self.data_type.bits == 6:
            return pack_elements(self._codes_of_6_bits(), 6).data
        if self.data_type.is_packed:
            return self._entries().astype(np.uint8).data
        return swap_if_big_endian(self._typed_elements()[0], self.data_type).view(np.uint8).data

    def array(self, strings: str = "str") -> tuple[Array, bool]:
        """Return the elements as an array, and whether the array is a copy. strings: as for TensorProto.numpy."""
        try:
            return self._array(strings)
        except ValueError as error:
            if isinstance(error, Error):
                raise
            raise self._error(f"numpy has no array of dims {list(self.shape)}: {error}") from None

    def _array(self, strings: str) -> tuple[Array, bool]:
        """Do the work of `array`; numpy's ValueError for too many dims is not converted."""
        import numpy as np

        data_type = self.data_type
        if not self.count or not self.field:
            return np.empty(self.shape, data_type.dtype), True
        if data_type is STRING:
            return self._strings(strings), True
        if self.field not in ("raw_data", "external_data"):
            array, is_copy = self._typed_elements()
        else:
            array, is_copy = elements_of(self.payload(), self.count, data_type), data_type.is_packed or self.is_unmapped
        return array.reshape(self.shape), is_copy

    def _entries(self) -> Array:
        """Return the numbers of the repeated field as a one-dimensional read-only array."""
        entries: Array = getattr(self.tensor, self.field).numpy()
        return entries

    def _codes_of_6_bits(self) -> Array:
        """Return the low six bits of each entry, which are an element. Source: onnx.proto, TensorProto.int32_data."""
        import numpy as np

        return self._entries().astype(np.uint8) & np.uint8(0x3F)

    def _typed_elements(self) -> tuple[Array, bool]:
        """Return the elements of the data type's repeated field, shape (count,), and whether they are a copy."""
        import numpy as np

        data_type, entries = self.data_type, self._entries()
        # The buffer of the array is a Payload, which has no document if the numbers were decoded or edited.
        is_copy = entries.base.obj.document is None  # type: ignore[union-attr]
        if data_type.dtype_name.startswith("complex"):
            return entries.view(data_type.dtype), is_copy
        if entries.dtype == data_type.dtype:
            return entries, is_copy
        if data_type.bits == 6:
            return self._codes_of_6_bits().view(data_type.dtype), True
        if data_type.is_packed:
            return elements_of(entries.astype(np.uint8), self.count, data_type), True
        if data_type.name == "BOOL":
            flags: Array = entries.astype(np.uint8) != 0
            return flags, True
        # Entries are integers, or 16- and 8-bit floats stored as integers. In both cases the low bits are the element.
        return entries.astype(f"u{data_type.bits // 8}").view(data_type.dtype), True

    def _strings(self, strings: str) -> Array:
        """Return the elements of a STRING tensor. strings: "str" or "bytes"."""
        import numpy as np

        values: list[Any] = list(self.tensor.string_data)
        if strings == "str":
            for i, value in enumerate(values):
                try:
                    values[i] = value.decode()
                except UnicodeDecodeError as error:
                    raise self._error(f"string_data[{i}] is not valid UTF-8 ({error}); use strings='bytes'") from None
        elif strings != "bytes":
            raise FieldTypeError(f"strings must be 'str' or 'bytes', not {strings!r}")
        array = np.empty(self.count, object)
        array[:] = values
        return array.reshape(self.shape)

    def read(self, index: Index) -> Array:
        """Return the elements at an index.

        Of raw_data and external data, only these elements and small gaps between them are read.
        """
        import numpy as np

        ranges, shape = expand_index(index, self.shape)
        out = np.empty([len(axis) for axis in ranges], self.data_type.dtype)
        if out.size:
            flat, n_filled = out.reshape(-1), 0
            self._fetch_runs(ranges)
            for start, step, count in _runs(ranges, self.shape, _MAX_GAP_BYTES * 8 // self.data_type.bits):
                distance = (count - 1) * step  # from the first to the last element; negative for a negative step
                elements = self.elements(start + min(distance, 0), abs(distance) + 1)
                flat[n_filled : n_filled + count] = elements[::step]
                n_filled += count
        return out.reshape(shape)

    def _fetch_runs(self, ranges: list[range]) -> None:
        """Fetch the bytes of selected elements in parallel if they are on a server.

        ranges: the selected coordinates on each axis.
        """
        file_and_offset = self.file_and_offset
        memory = file_and_offset[0].memory if file_and_offset is not None else None
        if file_and_offset is None or memory is None:
            return
        offset = file_and_offset[1]
        byte_ranges = []
        for start, step, count in _runs(ranges, self.shape, _MAX_GAP_BYTES * 8 // self.data_type.bits):
            low, high = sorted((start, start + (count - 1) * step))
            byte_start = low * self.data_type.bits // 8
            byte_ranges.append((offset + byte_start, offset + self.data_type.count_bytes(high + 1)))
        memory.source.fetch(memory, byte_ranges)

    def elements(self, start: int, count: int) -> Array:
        """Return consecutive elements from index `start`; shape (count,)."""
        data_type = self.data_type
        if self.field not in ("raw_data", "external_data"):
            return self._typed_elements()[0][start : start + count]
        # Start at an element that begins at a byte boundary. With 6 bits, these are the multiples of four.
        n_skipped = start % (8 // math.gcd(8, data_type.bits)) if data_type.is_packed else 0
        byte_start, byte_end = (start - n_skipped) * data_type.bits // 8, data_type.count_bytes(start + count)
        return elements_of(self.payload(byte_start, byte_end), count, data_type, n_skipped)


def expand_index(index: Index, shape: tuple[int, ...]) -> tuple[list[range], list[int]]:
    """Return the coordinates that an index selects on each axis, and the shape of the result, as numpy does.

    index: ints, slices and at most one Ellipsis. Raises IndexError, or FieldTypeError for an index of another type.
    """
    parts = list(index) if isinstance(index, tuple) else [index]
    if sum(part is Ellipsis for part in parts) > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    if Ellipsis not in [part for part in parts if part is Ellipsis]:
        parts.append(Ellipsis)
    ellipsis = next(i for i, part in enumerate(parts) if part is Ellipsis)
    n_missing = len(shape) - len(parts) + 1
    if n_missing < 0:
        raise IndexError(f"too many indices: {len(parts) - 1} for a tensor with {count_text(len(shape), 'dimension')}")
    parts[ellipsis : ellipsis + 1] = [slice(None)] * n_missing
    ranges: list[range] = []
    result_shape: list[int] = []
    for axis, (part, dim) in enumerate(zip(parts, shape, strict=True)):
        if isinstance(part, slice):
            ranges.append(range(*part.indices(dim)))
            result_shape.append(len(ranges[-1]))
            continue
        if isinstance(part, bool) or not hasattr(part, "__index__"):
            raise FieldTypeError(f"an index consists of ints, slices and an Ellipsis, not {type(part).__name__}")
        number = part.__index__()  # type: ignore[union-attr]
        if not -dim <= number < dim:
            raise IndexError(f"index {number} is out of bounds for axis {axis} with size {dim}")
        ranges.append(range(number % dim, number % dim + 1))
    return ranges, result_shape


def _runs(ranges: list[range], shape: tuple[int, ...], max_step: int) -> Iterator[tuple[int, int, int]]:
    """Iterate over the runs of elements that are read together: (start, step, count) in flat indices.

    max_step: the maximum absolute value of a step.
    """
    strides = [1] * len(shape)
    for axis in range(len(shape) - 1, 0, -1):
        strides[axis - 1] = strides[axis] * shape[axis]
    # Trailing axes that are selected completely are one block per coordinate of the axis before them.
    last_axis = len(ranges) - 1
    while last_axis > 0 and ranges[last_axis] == range(shape[last_axis]):
        last_axis -= 1
    if last_axis < 0:
        yield 0, 1, 1
        return
    coordinates, block_size = ranges[last_axis], strides[last_axis]
    starts = [0]
    for axis_coordinates, stride in zip(ranges[:last_axis], strides[:last_axis], strict=True):
        starts = [start + coordinate * stride for start in starts for coordinate in axis_coordinates]
    for start in starts:
        if coordinates.step == 1:
            yield start + coordinates.start * block_size, 1, len(coordinates) * block_size
        elif block_size == 1 and abs(coordinates.step) <= max_step:
            yield start + coordinates.start, coordinates.step, len(coordinates)
        else:
            for coordinate in coordinates:
                yield start + coordinate * block_size, 1, block_size


def elements_of(data: Any, count: int, data_type: DataType, start: int = 0) -> Array:
    """Return the elements of `data`, bytes in the format of raw_data, as an array of shape (count,).

    start: the index of the first element; 0 unless elements are smaller than a byte. Those are unpacked; arrays of
    other elements share the memory of `data`.
    """
    import numpy as np

    if not data_type.is_packed:
        # frombuffer references the buffer, and so the mapping; np.ndarray(buffer=...) would release the buffer.
        return swap_if_big_endian(np.frombuffer(data, data_type.dtype, count), data_type)
    from onnxwire.tensor.bits import unpack

    out = np.empty(count, np.uint8)
    unpack(data, out.data, data_type.bits, start)
    return out.view(data_type.dtype)


def pack_elements(array: Array, bits: int) -> Array:
    """Pack the low bits of one-byte elements. Return a one-dimensional uint8 array."""
    import numpy as np

    from onnxwire.tensor.bits import pack

    out = np.empty((array.size * bits + 7) // 8, np.uint8)
    pack(array.reshape(-1).view(np.uint8).data, out.data, bits)
    return out


def swap_if_big_endian(array: Array, data_type: DataType) -> Array:
    """Convert an array between native and little-endian byte order. The conversion is its own inverse."""
    if LITTLE_ENDIAN or data_type.word_bytes == 1:
        return array
    words = array.view(f"u{data_type.word_bytes}") if array.ndim else array.reshape(1).view(f"u{data_type.word_bytes}")
    return words.byteswap().view(data_type.dtype).reshape(array.shape)
