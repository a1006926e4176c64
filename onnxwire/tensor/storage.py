"""Where the elements of a tensor are, and how they are read."""

from __future__ import annotations

import math

from onnxwire.engine.record_reader import payload_at
from onnxwire.errors import Error, FieldTypeError, TensorError
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
    Origin: TypeAlias = "tuple[ExternalFile, int, int] | Payload | Storage"

_NEAR = 1 << 12  # bytes between wanted elements that are read along rather than stepped over


def data_type_of(tensor: TensorFields) -> DataType:
    """A tensor's data type; raises TensorError where it is none."""
    data_type = BY_NUMBER.get(tensor.data_type)
    if data_type is None:
        found = "0 is UNDEFINED" if tensor.data_type == 0 else f"{tensor.data_type} is not one of ONNX's"
        raise tensor_error(tensor, f"the data_type {found}; set it to the type of the elements")
    return data_type


def count_elements(tensor: TensorFields, data_type: DataType) -> int:
    """The elements that the dims call for; raises TensorError for dims that no array can have.

    Source: IR.md, "Tensor Definition"; onnx.proto, TensorProto.dims.
    """
    from onnxwire.tensor.payload_layout import count_elements as count

    dims = list(tensor.dims)
    elements, is_negative, _ = count(dims)
    if is_negative:
        raise tensor_error(tensor, f"the dims {dims} hold a negative one; a tensor's dims are fixed, 0 or more")
    # numpy refuses an empty array, too, that would be too large without its dims of 0.
    most, _, is_excessive = count([dim or 1 for dim in dims])
    if is_excessive or data_type.count_bytes(most) > MAX_COUNT:
        raise tensor_error(tensor, f"the dims {dims} call for more elements than a file or an array can hold")
    return elements


def stored_part(tensor: TensorFields, data_type: DataType) -> tuple[int, tuple[int, ...]]:
    """How many elements are stored, and as which shape: all, or those of a segment.

    Raises TensorError for dims that no array can have, and a segment that is not within its elements.
    """
    count, shape = count_elements(tensor, data_type), tuple(tensor.dims)
    if not tensor.HasField("segment"):
        return count, shape
    begin, end = tensor.segment.begin, tensor.segment.end
    if not 0 <= begin <= end <= count:
        raise tensor_error(tensor, f"the segment {begin:,} to {end:,} is not within its {count:,} elements")
    return end - begin, (end - begin,)


def write_payload(origin: Origin, target: FileWriter) -> None:
    """Write the payload of a Storage to a file, as its own `write` does."""
    from onnxwire.engine import write

    content: Buffer
    if isinstance(origin, Storage):
        content = origin.payload()
    elif isinstance(origin, tuple):
        file, offset, length = origin
        if file.document is None:
            file.check_unchanged()
            target.copy(file.descriptor, offset, length)
            target.write(b"")  # so that it is copied now
            file.check_unchanged()
            return
        content = file.view(offset, length)
    else:
        content = origin
    write.write_payload(target, content)


class Storage:
    """Where a tensor's elements are, once it is sure that they fit its type and dims.

    shape: of the array, that of a chunk where the tensor has a segment; count: its elements; field: "raw_data", one of
    FIELDS, "external_data", or "" where there are no elements.
    """

    __slots__ = ("_external", "count", "data_type", "field", "shape", "tensor")

    def __init__(self, tensor: TensorFields) -> None:
        self.tensor = tensor
        self.data_type = data_type_of(tensor)
        self.count, self.shape = stored_part(tensor, self.data_type)
        self.field = self._find_field()
        self._external: tuple[ExternalFile, int, int] | None = None
        if self.field == "external_data":
            self._open_external()
        elif self.field:
            self._check_count()

    def _error(self, reason: str) -> TensorError:
        return tensor_error(self.tensor, reason)

    def _calls_for(self, what: str) -> str:
        return f"dims {list(self.tensor.dims)} of {self.data_type.name} call for {what}"

    def _find_field(self) -> str:
        tensor = self.tensor
        filled = [field for field in FIELDS if getattr(tensor, field)]
        # An empty raw_data beside elements, or where there are none, is what some writers leave there.
        if tensor.HasField("raw_data") and (tensor._payload("raw_data") or (self.count and not filled)):
            filled.insert(0, "raw_data")
        if tensor.data_location == EXTERNAL:
            if [field for field in filled if field != "raw_data" or tensor._payload("raw_data")]:
                raise self._error(
                    f"the data_location is EXTERNAL, and {filled[0]} holds data too; clear one of the two"
                )
            if self.data_type is STRING:
                raise self._error("the elements of STRING can't be external data; they belong in string_data")
            return "external_data"
        if len(filled) > 1:
            raise self._error(f"the elements are stored twice, in {' and '.join(filled)}; clear all but one")
        if not filled:
            if self.count:
                hint = ", or data_location = EXTERNAL is missing" if tensor.external_data else ""
                raise self._error(f"{self._calls_for(f'{self.count:,} elements')}; it holds none{hint}")
            return ""
        if filled[0] == "raw_data" and self.data_type is STRING:
            raise self._error("the elements of STRING can't be in raw_data; they belong in string_data")
        if filled[0] not in ("raw_data", self.data_type.field):
            fits = f"{self.data_type.field} or raw_data"
            raise self._error(f"elements of {self.data_type.name} belong in {fits}, and are in {filled[0]}")
        return filled[0]

    def _check_count(self) -> None:
        if self.field == "raw_data":
            self._check_bytes(len(self.tensor._payload("raw_data") or b""), "raw_data")
            return
        entries, held = self.data_type.count_entries(self.count), len(getattr(self.tensor, self.field))
        if entries != held:
            raise self._error(f"{self._calls_for(f'{entries:,} entries')} of {self.field}; it holds {held:,}")

    def _check_bytes(self, held: int, where: str) -> None:
        size = self.data_type.count_bytes(self.count)
        if size != held:
            raise self._error(f"{self._calls_for(f'{size:,} bytes')}; {where} holds {held:,}")

    def _open_external(self) -> None:
        from onnxwire.tensor.external_data import payload

        file, offset, length = payload(self.tensor, self.tensor._document.files)
        self._check_bytes(length, f"{file.name} from byte {offset:,}")
        self._external = file, offset, length

    @property
    def is_unmapped(self) -> bool:
        """Whether the payload is in a file that is read rather than mapped."""
        return self._external is not None and self._external[0].document is None

    @property
    def is_fetched(self) -> bool:
        """Whether the payload is on a server, and fetched as it is asked for."""
        source = self.source
        return source is not None and source[0].memory is not None

    @property
    def file(self) -> tuple[ExternalFile, int, int] | None:
        """The external file, the offset in it and the length, in bytes; None where the data is in the message."""
        return self._external

    @property
    def source(self) -> tuple[ExternalFile, int] | None:
        """The open file that the payload can be read from, and the byte it begins at there; None for one in memory."""
        if self._external is not None:
            file, offset, _ = self._external
        else:
            payload = self.tensor._payload("raw_data") if self.field == "raw_data" else None
            if payload is None or payload.document is None or payload.span is None:
                return None
            from onnxwire.tensor.external_file import ExternalFile

            file, offset = ExternalFile(payload.document), payload.span[0]
        return (file, offset) if file.is_readable else None

    def payload(self, start: int = 0, end: int | None = None) -> memoryview:
        """The bytes as raw_data has them, from start to end; a window where they stand so."""
        if self._external is not None:
            file, offset, length = self._external
            return memoryview(file.view(offset + start, (length if end is None else end) - start))
        if self.field == "raw_data":
            payload = self.tensor._payload("raw_data")
            if payload is not None and payload.document is not None and payload.document.memory is not None:
                first, last = payload.span  # type: ignore[misc]
                # So that no more than this is fetched.
                return memoryview(payload_at(payload.document, first + start, last if end is None else first + end))
            return memoryview(payload or b"")[start:end]
        return self.decoded_bytes().toreadonly()[start:end]

    @property
    def origin(self) -> Origin:
        """What `write_payload` needs to write the payload later; a tenth of the memory of this, where it can be."""
        if self.field == "raw_data":
            return self.tensor._payload("raw_data") or self
        return self._external or self

    def write(self, target: FileWriter) -> None:
        """Write the payload to a file; from its own file, where it is in one, without reading it into memory."""
        write_payload(self.origin, target)

    def bytes_array(self) -> Array:
        """The payload as an array: uint8, shape (nbytes,)."""
        import numpy as np

        payload = self.payload()
        return np.frombuffer(payload, np.uint8) if len(payload) else np.empty(0, np.uint8)

    def decoded_bytes(self) -> memoryview:
        """The bytes as raw_data would have them, of elements in a typed field, whose own they are where it has them so.

        Also of no elements.
        """
        import numpy as np

        if self.data_type is STRING:
            raise self._error("strings have no bytes as raw_data; ask for strings='bytes'")
        if not self.field:
            return memoryview(b"")
        if self.data_type.bits == 6:
            return packed_bytes(self._codes(), 6).data
        if self.data_type.is_packed:
            return self._entries().astype(np.uint8).data
        return little_endian(self._typed()[0], self.data_type).view(np.uint8).data

    def array(self, strings: str = "str") -> tuple[Array, bool]:
        """The elements, of the shape and the data type's dtype; and whether they are memory of their own."""
        try:
            return self._array(strings)
        except ValueError as error:
            if isinstance(error, Error):
                raise
            raise self._error(f"numpy has no array of dims {list(self.shape)}: {error}") from None

    def _array(self, strings: str) -> tuple[Array, bool]:
        import numpy as np

        data_type = self.data_type
        if not self.count or not self.field:
            return np.empty(self.shape, data_type.dtype), True
        if data_type is STRING:
            return self._strings(strings), True
        if self.field not in ("raw_data", "external_data"):
            array, is_own = self._typed()
        else:
            array, is_own = elements_of(self.payload(), self.count, data_type), data_type.is_packed or self.is_unmapped
        return array.reshape(self.shape), is_own

    def _entries(self) -> Array:
        entries: Array = getattr(self.tensor, self.field).numpy()
        return entries

    def _codes(self) -> Array:
        """The entries of 6-bit elements. Source: onnx.proto, TensorProto.int32_data: the low bits count."""
        import numpy as np

        return self._entries().astype(np.uint8) & np.uint8(0x3F)

    def _typed(self) -> tuple[Array, bool]:
        """The elements of the repeated field of the data type, shape (count,); and whether they are not the field's."""
        import numpy as np

        data_type, entries = self.data_type, self._entries()
        if data_type.dtype_name.startswith("complex"):
            return entries.view(data_type.dtype), False
        if entries.dtype == data_type.dtype:
            return entries, False
        if data_type.bits == 6:
            return self._codes().view(data_type.dtype), True
        if data_type.is_packed:
            return elements_of(entries.astype(np.uint8), self.count, data_type), True
        if data_type.name == "BOOL":
            truths: Array = entries.astype(np.uint8) != 0
            return truths, True
        # The entries hold the bits of 16- and 8-bit floats as integers, and whole integers; both keep the low bits.
        return entries.astype(f"u{data_type.bits // 8}").view(data_type.dtype), True

    def _strings(self, strings: str) -> Array:
        import numpy as np

        values: list[Any] = list(self.tensor.string_data)
        if strings == "str":
            for i, value in enumerate(values):
                try:
                    values[i] = value.decode()
                except UnicodeDecodeError as error:
                    raise self._error(
                        f"string_data[{i}] is not valid UTF-8 ({error}); ask for strings='bytes'"
                    ) from None
        elif strings != "bytes":
            raise FieldTypeError(f"strings is 'str' or 'bytes', not {strings!r}")
        array = np.empty(self.count, object)
        array[:] = values
        return array.reshape(self.shape)

    def read(self, index: Index) -> Array:
        """The elements that an index names, for which only their bytes are read."""
        import numpy as np

        ranges, shape = expand_index(index, self.shape)
        out = np.empty([len(axis) for axis in ranges], self.data_type.dtype)
        if out.size:
            flat, end = out.reshape(-1), 0
            self._fetch_runs(ranges)
            for start, step, count in _runs(ranges, self.shape, _NEAR * 8 // self.data_type.bits):
                length = (count - 1) * step
                flat[end : end + count] = self.elements(start + min(length, 0), abs(length) + 1)[::step]
                end += count
        return out.reshape(shape)

    def _fetch_runs(self, ranges: list[range]) -> None:
        """Fetch the bytes of the elements to be read together, where they are on a server."""
        source = self.source
        if source is None or source[0].memory is None:
            return
        memory, offset = source[0].memory, source[1]
        wanted = []
        for start, step, count in _runs(ranges, self.shape, _NEAR * 8 // self.data_type.bits):
            low, high = sorted((start, start + (count - 1) * step))
            first = low * self.data_type.bits // 8
            wanted.append((offset + first, offset + self.data_type.count_bytes(high + 1)))
        memory.source.fetch(memory, wanted)

    def elements(self, start: int, count: int) -> Array:
        """Elements that are stored one after another, from index `start`; shape (count,)."""
        data_type = self.data_type
        if self.field not in ("raw_data", "external_data"):
            return self._typed()[0][start : start + count]
        # From an element on that begins with a byte: of those with 6 bits each fourth does.
        skipped = start % (8 // math.gcd(8, data_type.bits)) if data_type.is_packed else 0
        first, end = (start - skipped) * data_type.bits // 8, data_type.count_bytes(start + count)
        return elements_of(self.payload(first, end), count, data_type, skipped)


def expand_index(index: Index, shape: tuple[int, ...]) -> tuple[list[range], list[int]]:
    """The coordinates that an index names on each axis, and the shape of the result; as numpy's basic indexing."""
    parts = list(index) if isinstance(index, tuple) else [index]
    if sum(part is Ellipsis for part in parts) > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    if Ellipsis not in [part for part in parts if part is Ellipsis]:
        parts.append(Ellipsis)
    ellipsis = next(i for i, part in enumerate(parts) if part is Ellipsis)
    missing = len(shape) - len(parts) + 1
    if missing < 0:
        raise IndexError(f"too many indices: the tensor has {len(shape)} dimensions, the index {len(parts) - 1}")
    parts[ellipsis : ellipsis + 1] = [slice(None)] * missing
    ranges: list[range] = []
    result: list[int] = []
    for axis, (part, dim) in enumerate(zip(parts, shape, strict=True)):
        if isinstance(part, slice):
            ranges.append(range(*part.indices(dim)))
            result.append(len(ranges[-1]))
            continue
        if isinstance(part, bool) or not hasattr(part, "__index__"):
            raise FieldTypeError(f"an index is made of ints, slices and an Ellipsis, not {type(part).__name__}")
        number = part.__index__()  # type: ignore[union-attr]
        if not -dim <= number < dim:
            raise IndexError(f"index {number} is out of bounds for axis {axis} with size {dim}")
        ranges.append(range(number % dim, number % dim + 1))
    return ranges, result


def _runs(ranges: list[range], shape: tuple[int, ...], near: int) -> Iterator[tuple[int, int, int]]:
    """(start, step, count) of what is read at once, in order: flat indices of the elements.

    near: elements between two wanted ones, from which on they are read one by one.
    """
    strides = [1] * len(shape)
    for axis in range(len(shape) - 1, 0, -1):
        strides[axis - 1] = strides[axis] * shape[axis]
    # The axes at the end that are taken whole go with the one before them.
    last = len(ranges) - 1
    while last > 0 and ranges[last] == range(shape[last]):
        last -= 1
    if last < 0:
        yield 0, 1, 1
        return
    chosen, block = ranges[last], strides[last]
    starts = [0]
    for outer, stride in zip(ranges[:last], strides[:last], strict=True):
        starts = [start + coordinate * stride for start in starts for coordinate in outer]
    for start in starts:
        if chosen.step == 1:
            yield start + chosen.start * block, 1, len(chosen) * block
        elif block == 1 and abs(chosen.step) <= near:
            yield start + chosen.start, chosen.step, len(chosen)
        else:
            for coordinate in chosen:
                yield start + coordinate * block, 1, block


def elements_of(data: Any, count: int, data_type: DataType, start: int = 0) -> Array:
    """Elements of which `data` holds the bytes as raw_data has them; shape (count,), the data type's dtype.

    start: those of less than a byte before the first, in its byte. They are unpacked; others are the memory of `data`.
    """
    import numpy as np

    if not data_type.is_packed:
        # frombuffer keeps the buffer, and so the mapping; an ndarray made of one would let go of it.
        return little_endian(np.frombuffer(data, data_type.dtype, count), data_type)
    from onnxwire.tensor.bits import unpack

    out = np.empty(count, np.uint8)
    unpack(data, out.data, data_type.bits, start)
    return out.view(data_type.dtype)


def packed_bytes(array: Array, bits: int) -> Array:
    """Elements of a byte each, of which the low bits count, as a packed stream: uint8, one dimension."""
    import numpy as np

    from onnxwire.tensor.bits import pack

    out = np.empty((array.size * bits + 7) // 8, np.uint8)
    pack(array.reshape(-1).view(np.uint8).data, out.data, bits)
    return out


def little_endian(array: Array, data_type: DataType) -> Array:
    """The array with its bytes in file order, or from file order in this machine's: the same act both ways."""
    if LITTLE_ENDIAN or data_type.word == 1:
        return array
    swapped = array.view(f"u{data_type.word}") if array.ndim else array.reshape(1).view(f"u{data_type.word}")
    return swapped.byteswap().view(data_type.dtype).reshape(array.shape)
