"""Reads constants of a few elements, such as shapes and trip counts, and attributes, on demand."""

from __future__ import annotations

import struct
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from onnxwire.checker.facts import MERGED, true_rows
from onnxwire.checker.limits import MAX_TOTAL_READ_BYTES
from onnxwire.engine.record_reader import bytes_at
from onnxwire.messages import AttributeProto, TensorProto
from onnxwire.tensor.dtypes import EXTERNAL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from onnxwire.checker.facts import Facts

    Numbers = list[int] | list[float]

MAX_KNOWN_ELEMENTS = 64  # maximum number of elements of a constant that is decoded, except for `extent` and `head`
MAX_TENSOR_BYTES = 1024  # maximum encoded size of a tensor that is decoded, except for `extent`
# Maximum length of raw_data with MAX_KNOWN_ELEMENTS elements and an incomplete one.
_MAX_NUMBER_BYTES = 8 * MAX_KNOWN_ELEMENTS + 7
MAX_ATTRIBUTE_BYTES = 1 << 16  # maximum encoded size of an attribute that is read
MAX_KEY_BYTES = 1024  # maximum total size of the attributes of a node that are compared with those of other nodes
MAX_EXTENT_BYTES = 1 << 16  # maximum encoded size of a tensor for `extent`
# Format characters of `struct` by data type.
_FORMATS = {1: "f", 2: "B", 3: "b", 4: "H", 5: "h", 6: "i", 7: "q", 9: "?", 10: "e", 11: "d", 12: "I", 13: "Q"}


class SmallConstants:
    """Tensors and attributes of a document, decoded on request. `facts.derive(SmallConstants)` returns the object."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self._columns: dict[tuple[str, str] | str, Sequence[Any]] = {}
        self._extents: dict[int, tuple[int, int] | None] = {}
        self._extent_bytes_left = MAX_TOTAL_READ_BYTES
        self._groups: dict[str, tuple[Sequence[int], Sequence[int]]] = {}

    def column(self, type_name: str, name: str) -> Sequence[Any]:
        """Return a column of a sheet without a copy.

        name: a column, or `first.NAME` for the row of the first element of the repeated field NAME.
        """
        key = type_name, name
        cached = self._columns.get(key)
        if cached is None:
            sheet = self.facts[type_name]
            column = sheet.first(name[6:]) if name.startswith("first.") else getattr(sheet, name)
            cached = self._columns[key] = np.ascontiguousarray(column).data
        return cached

    def ranges(self, type_name: str, field: str) -> tuple[Sequence[int], Sequence[int]]:
        """Return, for each row of a sheet, the row of a repeated field's first element, and the number of elements."""
        return self.column(type_name, f"first.{field}"), self.column(type_name, field)

    def elements(self, name: str) -> Sequence[int]:
        """Return the values of a list, such as NodeProto.input; strings as ids."""
        cached = self._columns.get(name)
        if cached is None:
            cached = self._columns[name] = np.ascontiguousarray(self.facts.lists(name).value).data
        return cached

    def grouped(self, field: str, type_name: str) -> tuple[Sequence[int], Sequence[int]]:
        """Return the rows of a type that are elements of a field, such as GraphProto.input, grouped by parent.

        Returns (starts, rows): those of parent p are rows[starts[p]:starts[p + 1]]. The rows of one
        parent need not be consecutive.
        """
        cached = self._groups.get(field)
        if cached is None:
            sheet, owner = self.facts[type_name], self.facts[field.rpartition(".")[0]]
            rows = true_rows(sheet.under(field)).astype(np.int32)
            parents = sheet.parent[rows]
            order = np.argsort(parents, kind="stable")
            starts = np.searchsorted(parents[order], np.arange(owner.n + 1, dtype=np.int32)).astype(np.int32)
            cached = self._groups[field] = starts.data, rows[order].data
        return cached

    def dims(self, tensor: int) -> tuple[int, ...]:
        """Return the dims of a row of TensorProto."""
        start = self.column("TensorProto", "first.dims")[tensor]
        return tuple(self.elements("TensorProto.dims")[start : start + self.column("TensorProto", "dims")[tensor]])

    def numbers(self, tensor: int) -> Numbers | None:
        """Return the elements of a row of TensorProto.

        Returns None if they are too many, external or of a type that is not in _FORMATS, and for a message above
        MAX_TENSOR_BYTES or in several pieces; [] if the message has none.
        """
        is_long = self._raw_lengths[tensor] > _MAX_NUMBER_BYTES
        if is_long or self.column("TensorProto", "length")[tensor] > MAX_TENSOR_BYTES:
            return None
        message = self._message("TensorProto", tensor, TensorProto)
        if message is None or message.data_location == EXTERNAL:
            return None
        code = _FORMATS.get(message.data_type)
        if code is None:
            return None
        raw_data = message.raw_data
        if raw_data:
            count = len(raw_data) // struct.calcsize(code)
            if count > MAX_KNOWN_ELEMENTS:
                return None
            return list(struct.unpack_from(f"<{count}{code}", raw_data))
        for field in ("int64_data", "int32_data", "float_data", "double_data", "uint64_data"):
            values = getattr(message, field)
            if len(values) > MAX_KNOWN_ELEMENTS:
                return None
            if len(values) and code == "e":  # float16: int32_data has the bits of each element
                return [struct.unpack("<e", struct.pack("<H", number & 0xFFFF))[0] for number in values]
            if len(values):
                return list(values)
        return []

    @cached_property
    def _raw_lengths(self) -> Sequence[int]:
        """The length of raw_data of each TensorProto."""
        return np.ascontiguousarray(self.facts.TensorProto.span("raw_data")[1]).data

    def extent(self, tensor: int) -> tuple[int, int] | None:
        """Return the least and the greatest element of a row of TensorProto, or None if they are unknown.

        They are unknown for external and damaged tensors, and for tensors above MAX_EXTENT_BYTES, without integers or
        encoded in several pieces. All calls together read at most MAX_TOTAL_READ_BYTES bytes; the elements of a
        tensor above the rest of this limit are unknown, too.
        """
        if tensor not in self._extents:
            length = self.column("TensorProto", "length")[tensor]
            if length > MAX_EXTENT_BYTES or length > self._extent_bytes_left:
                return None
            self._extent_bytes_left -= length
            message = self._message("TensorProto", tensor, TensorProto)
            array: Any = None
            with suppress(Exception):  # of a damaged tensor, which other rules report
                array = message.numpy() if message is not None and message.data_location != EXTERNAL else None
            has_integers = array is not None and array.dtype.kind in "iu" and array.size
            self._extents[tensor] = (int(array.min()), int(array.max())) if has_integers else None
        return self._extents[tensor]

    def head(self, tensor: int, n: int) -> bytes:
        """Return the first n bytes of a tensor's elements, or all if they are fewer. tensor: the row of TensorProto.

        Without raw_data, returns b"" for a tensor that is above MAX_TENSOR_BYTES, external, damaged or encoded in
        several pieces, and for strings.
        """
        offsets, lengths = self.facts.TensorProto.span("raw_data")
        start, length = int(offsets[tensor]), min(int(lengths[tensor]), n)
        if length > 0:
            return bytes_at(self.facts.document, start, start + length)
        if self.column("TensorProto", "length")[tensor] <= MAX_TENSOR_BYTES:
            with suppress(Exception):  # of a damaged tensor, which other rules report
                array = self._message("TensorProto", tensor, TensorProto).numpy()
                return array.tobytes()[:n] if array.dtype != object else b""
        return b""

    def attributes(self, node: int) -> dict[str, AttributeProto]:
        """Return the attributes of a row of NodeProto by name.

        Attributes above MAX_ATTRIBUTE_BYTES, and those encoded in several pieces, are omitted.
        """
        start = self.column("NodeProto", "first.attribute")[node]
        attributes = {}
        for row in range(start, start + self.column("NodeProto", "attribute")[node]):
            if self.column("AttributeProto", "length")[row] <= MAX_ATTRIBUTE_BYTES:
                message = self._message("AttributeProto", row, AttributeProto)
                if message is not None:
                    attributes[message.name] = message
        return attributes

    def attribute_bytes(self, node: int) -> tuple[int, bytes] | None:
        """Return a key of the attributes of a row of NodeProto; None if they have more than MAX_KEY_BYTES bytes.

        Rows with equal keys have equal attributes. The key is the length of the first attribute, and the bytes from the
        first to the last attribute.
        """
        first_rows, counts, starts, lengths = self._attribute_columns
        n = counts[node]
        if not n:
            return 0, b""
        first_row = first_rows[node]
        start, stop = starts[first_row], starts[first_row + n - 1] + lengths[first_row + n - 1]
        return (
            (lengths[first_row], bytes_at(self.facts.document, start, stop)) if stop - start <= MAX_KEY_BYTES else None
        )

    @cached_property
    def _attribute_columns(self) -> tuple[Sequence[int], ...]:
        """The first attribute of each node, the number of its attributes; the start and length of each attribute."""
        columns = self.column("AttributeProto", "start"), self.column("AttributeProto", "length")
        return *self.ranges("NodeProto", "attribute"), *columns

    def attribute_rows(self, node: int) -> dict[str, int]:
        """Return the rows of AttributeProto of a row of NodeProto by name."""
        start = self.column("NodeProto", "first.attribute")[node]
        names = self.column("AttributeProto", "name")
        stop = start + self.column("NodeProto", "attribute")[node]
        return {self.facts.text(names[row]): row for row in range(start, stop)}

    def _message(self, name: str, row: int, cls: Any) -> Any:
        """Return the decoded message of a row, or None if it is encoded in several pieces. name, cls: its type."""
        if self.column(name, "flags")[row] & MERGED:
            return None
        start = self.column(name, "start")[row]
        return cls.FromString(bytes_at(self.facts.document, start, start + self.column(name, "length")[row]))
