"""Measures tensors, as columns: the number of elements that dims require, the field that stores them, and the
actual length of this field. Some values are examined, too.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from onnxwire.checker._payload_scan import measure_bytes, measure_numbers, measure_strings
from onnxwire.checker.payload_values import products
from onnxwire.tensor.dtypes import BY_NAME, BY_NUMBER, DATA_TYPES, EXTERNAL, FIELDS, name_of
from onnxwire.tensor.payload_layout import byte_column, count_elements

if TYPE_CHECKING:
    from collections.abc import Callable

    from onnxwire.checker.facts import Facts, Sheet
    from onnxwire.messages import TensorProto

# Fields that can store the elements; the columns `storage` and `own_storage` have indices of this tuple.
STORAGE_FIELDS = (*FIELDS, "raw_data")
RAW = STORAGE_FIELDS.index("raw_data")
# Names of data types with less than 8 bits.
FLOAT6 = ("FLOAT6E2M3", "FLOAT6E3M2")
FOUR_BITS = ("UINT4", "INT4", "FLOAT4E2M1")
TWO_BITS = ("UINT2", "INT2")

# Length of the columns of properties by data type; the last row is for unknown types.
_ROWS = DATA_TYPES[-1].number + 2


def _by_number(property_of: Callable[[Any], int], unknown_value: int, dtype: Any = np.int8) -> Any:
    """Return a property of each data type by its number; `unknown_value` for other numbers."""
    column = np.full(_ROWS, unknown_value, dtype)
    for data_type in DATA_TYPES:
        column[data_type.number] = property_of(data_type)
    return column


_BITS = _by_number(lambda data_type: data_type.bits, 0, np.int16)
_OWN_STORAGE = _by_number(lambda data_type: FIELDS.index(data_type.field), -1)
_NUMBERS_PER_ELEMENT = _by_number(lambda data_type: 2 if data_type.dtype_name.startswith("complex") else 1, 1)


def type_names(numbers: Any) -> Callable[[int], str]:
    """Return a function from rows to the names of data types in a column."""
    return lambda row: name_of(int(numbers[row]))


def storage_names(storage: Any) -> Callable[[int], str]:
    """Return a function from rows to the names of fields. storage: a column of indices of STORAGE_FIELDS."""
    return lambda row: STORAGE_FIELDS[storage[row]]


def is_filled(tensors: Sheet, field: str, rows: Any = slice(None)) -> Any:
    """Return whether each tensor, or each of some rows, has elements in a field."""
    if field == "raw_data":
        return tensors.span(field)[1][rows] > 0
    # An empty string is an element, but an empty packed record has none.
    return tensors.records(field)[1 if field == "string_data" else 3][rows] > 0


class Payloads:
    """Columns for TensorProto. `facts.derive(Payloads)` returns the object.

    numbers: the number of the data type, or one more than the last number for unknown types. bits: the bits of an
    element; 0 for STRING and unknown types. elements: the product of dims; -1 if a dim is negative, or if elements or
    bytes are 2**63 or more. is_negative: whether a dim is negative. exceeds_63_bits: whether elements or bytes are
    2**63 or more.
    is_inline: whether the elements are in the message. has_segment: whether the message has a segment.
    n_required: the number of elements that the message must store: `elements`, or the length of its segment; -1 if
    unknown.
    n_filled_fields: the number of nonempty fields for elements. storage: the only nonempty field, as index of
    STORAGE_FIELDS, or -1. own_storage: the list for elements of the type, as index of FIELDS, -1 for an unknown type.
    n_entries, size: the required length of that list, and of raw_data in bytes; -1 where `n_required` is -1. last_bits:
    the number of used bits of a last byte that is not full, otherwise 0.
    """

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        tensors = facts.TensorProto
        # A file may have a million tensors of two bytes each, so columns of small numbers are narrow.
        is_known = (tensors.data_type > 0) & (tensors.data_type < _ROWS - 1)
        self.numbers = np.where(is_known, tensors.data_type, _ROWS - 1).astype(np.int8)
        self.own_storage = _OWN_STORAGE[self.numbers]
        self.bits = _BITS[self.numbers]
        self.is_negative = np.zeros(tensors.n, bool)
        self.elements = self._count_elements()
        self.is_inline = tensors.data_location != EXTERNAL
        self.has_segment = tensors.segment >= 0
        self.n_required = self._count_required()
        self.n_filled_fields = np.zeros(tensors.n, np.int8)
        self.storage = np.full(tensors.n, -1, np.int8)
        for storage, field in enumerate(STORAGE_FIELDS):
            has_field = is_filled(tensors, field)
            self.n_filled_fields += has_field
            self.storage[has_field] = storage
        self.storage[self.n_filled_fields != 1] = -1
        self.size = self._count_bytes(self.n_required)
        shares_entries = (self.bits == 2) | (self.bits == 4)  # an entry of int32_data has several elements
        is_complex = _NUMBERS_PER_ELEMENT[self.numbers] == 2
        self.n_entries = self.n_required
        if shares_entries.any() or is_complex.any():
            self.n_entries = np.where(shares_entries, self.size, self.n_required)
            self.n_entries[is_complex & (self.n_required > 0)] *= 2
        self.last_bits = np.zeros(tensors.n, np.int8)
        is_narrow = (self.n_required > 0) & (self.bits < 8)
        self.last_bits[is_narrow] = self.n_required[is_narrow] % 8 * self.bits[is_narrow] % 8

    def _count_elements(self) -> Any:
        """Return the column `elements`, and set `is_negative` and `exceeds_63_bits`."""
        tensors, dims = self.facts.TensorProto, self.facts.lists("TensorProto.dims")
        elements = products(tensors.dims, tensors.first("dims"), dims.value)
        self.is_negative[dims.parent[dims.value < 0]] = True
        self.exceeds_63_bits = (self._count_bytes(elements) < 0) & ~self.is_negative
        elements[self.exceeds_63_bits] = -1
        return elements

    def _count_bytes(self, elements: Any) -> Any:
        """Return the number of bytes of each number of elements."""
        return np.frombuffer(byte_column(elements, self.numbers), np.int64)

    def _count_required(self) -> Any:
        """Return the column `n_required`."""
        if not self.has_segment.any():
            return self.elements
        segments = self.facts["TensorProto.Segment"]
        rows = self.facts.TensorProto.segment
        begin, end = np.append(segments.begin, 0)[rows], np.append(segments.end, 0)[rows]
        is_stated = np.append(segments.has("begin") & segments.has("end"), False)[rows]
        is_valid = is_stated & (begin >= 0) & (begin <= end) & (end <= self.elements)
        return np.where(self.has_segment, np.where(is_valid, end - begin, -1), self.elements)

    def has_type(self, *names: str) -> Any:
        """Return whether each tensor is of one of the data types."""
        is_requested = np.zeros(_ROWS, bool)
        is_requested[[BY_NAME[name].number for name in names]] = True
        return is_requested[self.numbers]

    def has(self, field: str) -> Any:
        """Return whether each tensor is inline and has elements in a field."""
        return self.is_inline & is_filled(self.facts.TensorProto, field)

    @cached_property
    def count(self) -> Any:
        """The actual lengths of the lists for elements of the tensors' types; -1 if not counted (see `Numbers`)."""
        counts_by_tensor = np.zeros(len(self.elements), np.int64)  # pages take no memory until they are written to
        number_columns = {"int32_data": int32_numbers, "int64_data": int64_numbers, "uint64_data": uint64_numbers}
        for storage, field in enumerate(FIELDS):
            has_list = (self.own_storage == storage) & is_filled(self.facts.TensorProto, field)
            if not has_list.any():
                continue
            counts = (
                self.facts.derive(number_columns[field]).count
                if field in number_columns
                else self.facts.TensorProto.records(field)[2]
            )
            counts_by_tensor[has_list] = counts[has_list]
        return counts_by_tensor

    @cached_property
    def count_bytes(self) -> Any:
        """The sizes in bytes of the lists for elements of the tensors' types."""
        sizes = np.zeros(len(self.elements), np.int64)
        for storage, field in enumerate(FIELDS):
            has_list = (self.own_storage == storage) & is_filled(self.facts.TensorProto, field)
            sizes[has_list] = self.facts.TensorProto.records(field)[3][has_list]
        return sizes

    @cached_property
    def is_wrong_count(self) -> Any:
        """Whether the list for the data type, as the only nonempty field of an inline tensor, has a wrong length."""
        is_listed = (self.storage == self.own_storage) & (self.storage >= 0) & self.is_inline
        if not is_listed.any():
            return is_listed
        # A number takes from one to ten bytes.
        is_surely_wrong = (self.count_bytes < self.n_entries) | (self.count_bytes // 10 > self.n_entries)
        is_wrong = np.where(self.count >= 0, self.count != self.n_entries, is_surely_wrong)
        return is_wrong & (self.n_entries >= 0) & is_listed

    @cached_property
    def is_wrong_size(self) -> Any:
        """Whether raw_data, as the only nonempty field of an inline tensor, has a wrong length."""
        length = self.facts.TensorProto.span("raw_data")[1]
        return (self.storage == RAW) & (self.bits > 0) & (self.size >= 0) & (length != self.size) & self.is_inline


class Numbers:
    """The values in lists of varints, as columns for TensorProto.

    count: the number of entries; -1 for a list with packed records that is not counted, for example because it has more
    than 1 MiB.
    low, high, last: the minimum, the maximum and the last value in the first 64 KiB of a list; 0 for a list that is
    empty or not scanned. 64-bit values are compared as unsigned numbers, and stored as signed ones. is_whole: whether
    a nonempty list was scanned to its end. At most 16 MiB of the field in a document are scanned.
    """

    def __init__(self, facts: Facts, field: str) -> None:
        payloads = facts.derive(Payloads)
        has_list = payloads.has(field)
        n = len(has_list)
        if not is_filled(facts.TensorProto, field).any():
            self.count = self.low = self.high = self.last = np.broadcast_to(np.int64(0), n)
            self.is_whole = np.broadcast_to(np.False_, n)
            return
        numbers, flags = measure_numbers(facts.columns, "TensorProto", field, has_list.view(np.uint8))
        self.count, self.low, self.high, self.last = np.frombuffer(numbers, np.int64).reshape(4, n)
        self.is_whole = np.frombuffer(flags, bool)


def int32_numbers(facts: Facts) -> Numbers:
    """Return the numbers in int32_data."""
    return Numbers(facts, "int32_data")


def int64_numbers(facts: Facts) -> Numbers:
    """Return the numbers in int64_data."""
    return Numbers(facts, "int64_data")


def uint64_numbers(facts: Facts) -> Numbers:
    """Return the numbers in uint64_data."""
    return Numbers(facts, "uint64_data")


def max_and_last_raw_bytes(facts: Facts) -> tuple[Any, Any]:
    """Return two columns: the greatest byte in the first 64 KiB of booleans, and the last byte if it has unused bits.

    Both are 0 where there is no such byte, or it is not read. Of booleans, at most 16 MiB of a document are scanned.
    """
    payloads = facts.derive(Payloads)
    is_inline = payloads.has("raw_data")
    has_unused_bits = is_inline & (payloads.last_bits > 0)
    is_bool = is_inline & payloads.has_type("BOOL")
    if not (has_unused_bits.any() or is_bool.any()):
        return (np.broadcast_to(np.uint8(0), len(is_bool)),) * 2
    ends: Any = np.where(has_unused_bits, payloads.size, 0)
    columns = measure_bytes(facts.columns, "TensorProto", "raw_data", is_bool.view(np.uint8), ends)
    high, last = np.frombuffer(columns, np.uint8).reshape(2, -1)
    return high, last


def is_scanned(tensor: TensorProto) -> bool:
    """Return whether `max_and_last_raw_bytes` reads raw_data: for booleans, and for a last byte with unused bits."""
    data_type = BY_NUMBER.get(tensor.data_type)
    if data_type is None:
        return False
    return data_type.name == "BOOL" or (
        data_type.is_packed and count_elements(tensor.dims)[0] * data_type.bits % 8 != 0
    )


def first_faulty_strings(facts: Facts) -> tuple[Any, Any]:
    """Return two columns: the index of the first string that is not UTF-8, and that of the first string with a
    byte-order mark or a trailing NUL; -1 for none.

    At most the first 1 MiB of a tensor, and 16 MiB of a document, are scanned.
    """
    has_strings = facts.derive(Payloads).has("string_data")
    if not has_strings.any():
        return (np.broadcast_to(np.int64(-1), len(has_strings)),) * 2
    columns = measure_strings(facts.columns, "TensorProto", "string_data", has_strings.view(np.uint8))
    first_invalid, first_bom_or_nul = np.frombuffer(columns, np.int64).reshape(2, -1)
    return first_invalid, first_bom_or_nul
