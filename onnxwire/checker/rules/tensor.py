"""Rules of tensors: types, dims, where the elements are and how many; `tensor_values` has those of the values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from onnxwire.checker.facts import Facts, Finding
from onnxwire.checker.payloads import FLOAT6, FOUR_BITS, LOCATIONS, TWO_BITS, Payloads, is_filled, type_names
from onnxwire.checker.registry import rule
from onnxwire.messages import TensorProto
from onnxwire.tensor.dtypes import BY_NUMBER, DATA_TYPES


@rule("tensor-data-type-present")
def data_type_present(facts: Facts) -> Iterator[Finding]:
    """A tensor says what its elements are."""
    tensors = facts.TensorProto
    yield tensors.at(
        tensors.data_type == 0,
        "the data_type of tensor {0!r} is UNDEFINED, or missing; set it to the type of the elements",
        tensors.texts(tensors.name),
    )


@rule("tensor-data-type-known")
def data_type_known(facts: Facts) -> Iterator[Finding]:
    """A data type is one that ONNX has."""
    tensors = facts.TensorProto
    yield tensors.at(
        (tensors.data_type != 0) & ~np.isin(tensors.data_type, list(BY_NUMBER)),
        f"the data_type of tensor {{0!r}} is {{1}}, which is not a type; the types are 1 to {DATA_TYPES[-1].number}",
        tensors.texts(tensors.name),
        tensors.data_type,
    )


@rule("tensor-dims-nonnegative")
def dims_nonnegative(facts: Facts) -> Iterator[Finding]:
    """No dimension is negative."""
    dims = facts.lists("TensorProto.dims")
    yield dims.at(dims.value < 0, "a dimension of {0}; those of a tensor are fixed, 0 or more", dims.value)


@rule("tensor-dims-product-overflow")
def dims_product_overflow(facts: Facts) -> Iterator[Finding]:
    """The number of elements, and of their bytes, is one of 63 bits; with a dimension of 0 there are none."""
    tensors = facts.TensorProto
    yield tensors.at(
        facts.derive(Payloads).is_too_much,
        "the dims of tensor {0!r} call for more bytes than 63 bits can count; correct them",
        tensors.texts(tensors.name),
    )


@rule("tensor-single-storage")
def single_storage(facts: Facts) -> Iterator[Finding]:
    """The elements are in one location; `tensor-zero-elements-no-data` speaks of tensors that have none."""
    tensors, payloads = facts.TensorProto, facts.derive(Payloads)
    is_some = payloads.is_inline & (payloads.elements != 0)
    yield tensors.at(
        is_some & (payloads.filled == 0) & (payloads.stored > 0),
        "tensor {0!r} holds nothing, and its element count is {1:,}; fill raw_data or the list of its type, "
        "or set data_location to EXTERNAL",
        tensors.texts(tensors.name),
        payloads.stored,
    )
    yield tensors.at(
        is_some & (payloads.filled > 1),
        "the elements of tensor {0!r} are stored more than once, in {1}; clear all but one",
        tensors.texts(tensors.name),
        lambda row: " and ".join(location for location in LOCATIONS if is_filled(tensors, location, row)),
    )


@rule("tensor-zero-elements-no-data")
def zero_elements_no_data(facts: Facts) -> Iterator[Finding]:
    """Where a dimension is 0, nothing is stored."""
    tensors, payloads = facts.TensorProto, facts.derive(Payloads)
    yield tensors.at(
        payloads.is_inline & (payloads.elements == 0) & (payloads.filled > 0),
        "a dimension of tensor {0!r} is 0, and still it holds data; clear the data or correct the dims",
        tensors.texts(tensors.name),
    )


def _misplaced(facts: Facts, field: str, what: str) -> Finding:
    """Tensors whose elements are in a list, and nowhere else, that is for other types."""
    tensors, payloads = facts.TensorProto, facts.derive(Payloads)
    location = LOCATIONS.index(field)
    own_location = payloads.own_location
    return tensors.at(
        payloads.is_inline
        & (payloads.location == location)
        & (own_location >= 0)
        & (own_location != location)
        & (payloads.elements != 0),
        f"tensor {{0!r}} of {{1}} holds its elements in {field}, which is for {what}; "
        "move them to {2} or correct data_type",
        tensors.texts(tensors.name),
        type_names(tensors.data_type),
        lambda row: LOCATIONS[own_location[row]],
    )


@rule("tensor-float-data-dtype")
def float_data_dtype(facts: Facts) -> Iterator[Finding]:
    """Only types of single precision are in float_data."""
    yield _misplaced(facts, "float_data", "FLOAT and COMPLEX64")


@rule("tensor-double-data-dtype")
def double_data_dtype(facts: Facts) -> Iterator[Finding]:
    """Only types of double precision are in double_data."""
    yield _misplaced(facts, "double_data", "DOUBLE and COMPLEX128")


@rule("tensor-int64-data-dtype")
def int64_data_dtype(facts: Facts) -> Iterator[Finding]:
    """Only INT64 is in int64_data."""
    yield _misplaced(facts, "int64_data", "INT64")


@rule("tensor-uint64-data-dtype")
def uint64_data_dtype(facts: Facts) -> Iterator[Finding]:
    """Only wide unsigned types are in uint64_data."""
    yield _misplaced(facts, "uint64_data", "UINT32 and UINT64")


@rule("tensor-string-data-dtype")
def string_data_dtype(facts: Facts) -> Iterator[Finding]:
    """Only strings are in string_data."""
    yield _misplaced(facts, "string_data", "STRING")


@rule("tensor-int32-data-dtype")
def int32_data_dtype(facts: Facts) -> Iterator[Finding]:
    """Types of up to 32 bits that have no list of their own are in int32_data."""
    yield _misplaced(facts, "int32_data", "integers of up to 32 bits, BOOL, and floats of up to 16 bits")


@rule("tensor-raw-data-dtype")
def raw_data_dtype(facts: Facts) -> Iterator[Finding]:
    """Neither strings nor what has no type is in raw_data."""
    tensors, payloads = facts.TensorProto, facts.derive(Payloads)
    is_raw = payloads.has("raw_data") & (payloads.filled == 1) & (payloads.elements != 0)
    yield tensors.at(
        is_raw & payloads.of("STRING"),
        "tensor {0!r} holds strings in raw_data; move them to string_data",
        tensors.texts(tensors.name),
    )
    yield tensors.at(
        is_raw & (tensors.data_type == 0),
        "tensor {0!r} has raw_data and no type to read it by; set data_type",
        tensors.texts(tensors.name),
    )


def _miscounted(facts: Facts, *types: str) -> Finding:
    """Tensors of some types, whole ones, whose list has another number of entries than the dims call for."""
    payloads = facts.derive(Payloads)
    is_wrong = payloads.is_wrong_count & ~payloads.has_segment & (payloads.elements > 0)
    return _mismatch(facts, is_wrong & payloads.of(*types), "the dims of tensor {0!r} of {1} call for")


def _mismatch(facts: Facts, rows: Any, start: str) -> Finding:
    tensors, payloads = facts.TensorProto, facts.derive(Payloads)
    locations, held, entries, size = payloads.location, payloads.held, payloads.entries, payloads.held_bytes
    return tensors.at(
        rows,
        start + " {2:,} entries of {3}, and there are {4}; correct one of the two",
        tensors.texts(tensors.name),
        type_names(tensors.data_type),
        entries,
        lambda row: LOCATIONS[locations[row]],
        lambda row: f"{held[row]:,}" if held[row] >= 0 else "fewer" if size[row] < entries[row] else "more",
    )


@rule("tensor-typed-data-count")
def typed_data_count(facts: Facts) -> Iterator[Finding]:
    """The list of a type of its own has one entry an element.

    A list of int64_data or uint64_data of more than 1 MiB is judged by its bytes: a number takes one to ten.
    """
    yield _miscounted(facts, "FLOAT", "DOUBLE", "INT64", "UINT32", "UINT64", "STRING")


@rule("tensor-complex64-data-count")
def complex64_data_count(facts: Facts) -> Iterator[Finding]:
    """A complex number is two entries of float_data."""
    yield _miscounted(facts, "COMPLEX64")


@rule("tensor-complex128-data-count")
def complex128_data_count(facts: Facts) -> Iterator[Finding]:
    """A complex number is two entries of double_data."""
    yield _miscounted(facts, "COMPLEX128")


@rule("tensor-int32-data-count")
def int32_data_count(facts: Facts) -> Iterator[Finding]:
    """An element of 8 bits or more is one entry of int32_data; more than 1 MiB is judged by its bytes."""
    yield _miscounted(
        facts, *(data_type.name for data_type in DATA_TYPES if data_type.field == "int32_data" and data_type.bits >= 8)
    )


@rule("tensor-int32-data-count-4bit")
def int32_data_count_4bit(facts: Facts) -> Iterator[Finding]:
    """Two elements of 4 bits are one entry of int32_data."""
    yield _miscounted(facts, *FOUR_BITS)


@rule("tensor-int32-data-count-2bit")
def int32_data_count_2bit(facts: Facts) -> Iterator[Finding]:
    """Four elements of 2 bits are one entry of int32_data."""
    yield _miscounted(facts, *TWO_BITS)


@rule("tensor-int32-data-count-6bit")
def int32_data_count_6bit(facts: Facts) -> Iterator[Finding]:
    """An element of 6 bits is one entry of int32_data."""
    yield _miscounted(facts, *FLOAT6)


@rule("tensor-float6-raw-preferred")
def float6_raw_preferred(facts: Facts) -> Iterator[Finding]:
    """Elements of 6 bits are shorter in raw_data."""
    tensors, payloads = facts.TensorProto, facts.derive(Payloads)
    yield tensors.at(
        payloads.of(*FLOAT6) & payloads.has("int32_data"),
        "tensor {0!r} of {1} takes a byte an element in int32_data; move the elements to raw_data, where it is 6 bits",
        tensors.texts(tensors.name),
        type_names(tensors.data_type),
    )


def _missized(facts: Facts, is_some: Any) -> Finding:
    """Whole tensors whose raw_data has another length than the dims call for."""
    tensors, payloads = facts.TensorProto, facts.derive(Payloads)
    return tensors.at(
        payloads.is_wrong_size & ~payloads.has_segment & (payloads.elements > 0) & is_some,
        "the dims of tensor {0!r} of {1} call for {2:,} bytes of raw_data, and there are {3:,}; correct one of the two",
        tensors.texts(tensors.name),
        type_names(tensors.data_type),
        payloads.size,
        tensors.span("raw_data")[1],
    )


@rule("tensor-raw-data-length")
def raw_data_length(facts: Facts) -> Iterator[Finding]:
    """The bytes are as many as elements of whole bytes take."""
    yield _missized(facts, facts.derive(Payloads).bits >= 8)


@rule("tensor-raw-data-length-4bit")
def raw_data_length_4bit(facts: Facts) -> Iterator[Finding]:
    """A byte has two elements of 4 bits."""
    yield _missized(facts, facts.derive(Payloads).bits == 4)


@rule("tensor-raw-data-length-2bit")
def raw_data_length_2bit(facts: Facts) -> Iterator[Finding]:
    """A byte has four elements of 2 bits."""
    yield _missized(facts, facts.derive(Payloads).bits == 2)


@rule("tensor-raw-data-length-6bit")
def raw_data_length_6bit(facts: Facts) -> Iterator[Finding]:
    """Three bytes have four elements of 6 bits."""
    yield _missized(facts, facts.derive(Payloads).bits == 6)


@rule("tensor-segment-bounds")
def segment_bounds(facts: Facts) -> Iterator[Finding]:
    """A segment is some of the tensor's elements, and those are what the message holds."""
    tensors, segments, payloads = facts.TensorProto, facts["TensorProto.Segment"], facts.derive(Payloads)
    if not segments.n:
        return
    owners = np.where(segments.under("TensorProto.segment"), segments.parent, -1)
    is_stated = segments.has("begin") & segments.has("end")
    yield segments.at((owners >= 0) & ~is_stated, "the segment has no begin or no end; set both")
    elements = np.append(payloads.elements, -1)[owners]
    stored = np.append(payloads.stored, -1)[owners]
    yield segments.at(
        is_stated & (elements >= 0) & (stored < 0),
        "the segment is from {0} to {1}, and the tensor has {2:,} elements; correct it or the dims",
        segments.begin,
        segments.end,
        elements,
    )
    is_some = payloads.has_segment & (payloads.elements > 0)
    yield _mismatch(facts, is_some & payloads.is_wrong_count, "the segment of tensor {0!r} of {1} calls for")
    yield tensors.at(
        is_some & payloads.is_wrong_size,
        "the segment of tensor {0!r} of {1} calls for {2:,} bytes of raw_data, and there are {3:,}; "
        "correct one of the two",
        tensors.texts(tensors.name),
        type_names(tensors.data_type),
        payloads.size,
        tensors.span("raw_data")[1],
    )


@rule("tensor-segment-unsupported")
def segment_unsupported(facts: Facts) -> Iterator[Finding]:
    """A tensor is not in chunks."""
    segments = facts["TensorProto.Segment"]
    yield segments.at(
        segments.under("TensorProto.segment"),
        "the tensor is a chunk of a greater one, which most readers refuse; store it whole",
    )


@rule("tensor-data-location-valid")
def data_location_valid(facts: Facts) -> Iterator[Finding]:
    """The elements are in the message or in a file."""
    unknown = facts.unknown_fields
    yield unknown.at(
        unknown.under("TensorProto") & (unknown.number == TensorProto.DATA_LOCATION_FIELD_NUMBER) & (unknown.wire == 0),
        "data_location is {0}, which is neither DEFAULT (0) nor EXTERNAL (1); remove it or set it to one of them",
        unknown.value,
    )
