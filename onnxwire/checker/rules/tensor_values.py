"""Rules of the values in tensors. They look at the start of each, so that no document takes long: see `payloads`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from onnxwire.checker.facts import Facts, Finding
from onnxwire.checker.payloads import (
    FLOAT6,
    FOUR_BITS,
    TWO_BITS,
    Payloads,
    int32_numbers,
    raw_bytes,
    strings,
    type_names,
    uint64_numbers,
)
from onnxwire.checker.registry import rule
from onnxwire.tensor.dtypes import BY_NAME, DATA_TYPES

_BYTES = (0, 255)
_PATTERNS = (0, 65535)
# What entries of int32_data are, of types that are narrower; BOOL and the types of 6 bits have rules of their own.
_RANGES = {
    "UINT8": _BYTES,
    "INT8": (-128, 127),
    "UINT16": (0, 65535),
    "INT16": (-32768, 32767),
    "FLOAT16": _PATTERNS,
    "BFLOAT16": _PATTERNS,
} | {
    data_type.name: _BYTES
    for data_type in DATA_TYPES
    if data_type.name.startswith("FLOAT8") or data_type.name in FOUR_BITS + TWO_BITS
}


def _beyond(facts: Facts, ranges: dict[str, tuple[int, int]]) -> Iterator[Finding]:
    """Tensors of some types that have an entry of int32_data out of the range of their type."""
    tensors, payloads = facts.TensorProto, facts.derive(Payloads)
    rows = np.flatnonzero(payloads.of(*ranges) & payloads.has("int32_data"))
    if not len(rows):
        return
    types, numbers = payloads.numbers, facts.derive(int32_numbers)
    bounds = np.zeros((DATA_TYPES[-1].number + 1, 2), np.int64)
    for name, limits in ranges.items():
        bounds[BY_NAME[name].number] = limits
    least, greatest = bounds.T
    low, high = numbers.low, numbers.high
    yield tensors.at(
        rows[(low[rows] < least[types[rows]]) | (high[rows] > greatest[types[rows]])],
        "tensor {0!r} of {1} has {2} in int32_data, where entries are {3} to {4}; correct the values or data_type",
        tensors.texts(tensors.name),
        type_names(tensors.data_type),
        lambda row: low[row] if low[row] < least[types[row]] else high[row],
        lambda row: least[types[row]],
        lambda row: greatest[types[row]],
    )


@rule("tensor-int32-data-range")
def int32_data_range(facts: Facts) -> Iterator[Finding]:
    """An entry of int32_data is one of its type: its value, or the bits of a float or of packed elements.

    The first 64 KiB of a tensor are looked at, and 16 MiB of a document.
    """
    yield from _beyond(facts, _RANGES)


@rule("tensor-int32-data-range-bool")
def int32_data_range_bool(facts: Facts) -> Iterator[Finding]:
    """A boolean in int32_data is 0 or 1; as far as `tensor-int32-data-range` looks."""
    yield from _beyond(facts, {"BOOL": (0, 1)})


@rule("tensor-int32-data-float6-range")
def int32_data_float6_range(facts: Facts) -> Iterator[Finding]:
    """An element of 6 bits has no others in int32_data; as far as `tensor-int32-data-range` looks."""
    yield from _beyond(facts, dict.fromkeys(FLOAT6, (0, 63)))


@rule("tensor-uint64-data-range")
def uint64_data_range(facts: Facts) -> Iterator[Finding]:
    """An entry of UINT32 has 32 bits; the first 64 KiB of a tensor are looked at, and 16 MiB of a document."""
    tensors, payloads = facts.TensorProto, facts.derive(Payloads)
    is_some = payloads.of("UINT32") & payloads.has("uint64_data")
    if not is_some.any():
        return
    high = facts.derive(uint64_numbers).high.view(np.uint64)
    yield tensors.at(
        is_some & (high > np.uint64(0xFFFFFFFF)),
        "tensor {0!r} of UINT32 has {1} in uint64_data, which takes more than 32 bits; correct it or make it UINT64",
        tensors.texts(tensors.name),
        high,
    )


@rule("tensor-raw-bool-values")
def raw_bool_values(facts: Facts) -> Iterator[Finding]:
    """A boolean in raw_data is a byte of 0 or 1; the first 64 KiB of a tensor are looked at, 16 MiB of a document."""
    tensors = facts.TensorProto
    high, _ = facts.derive(raw_bytes)
    yield tensors.at(
        (high > 1) & facts.derive(Payloads).of("BOOL"),
        "tensor {0!r} of BOOL has a byte of {1} in raw_data; write 0 for false and 1 for true",
        tensors.texts(tensors.name),
        high,
    )


def _padded(facts: Facts) -> Any:
    """Whether bits are set in the last byte of raw_data that belong to no element."""
    payloads = facts.derive(Payloads)
    _, last = facts.derive(raw_bytes)
    return (payloads.last_bits > 0) & (last >> payloads.last_bits.view(np.uint8) > 0)


@rule("tensor-raw-data-float6-padding")
def raw_data_float6_padding(facts: Facts) -> Iterator[Finding]:
    """Bits after the last element of 6 bits are zero."""
    tensors = facts.TensorProto
    yield tensors.at(
        _padded(facts) & facts.derive(Payloads).of(*FLOAT6),
        "the last byte of raw_data of tensor {0!r} has bits after the last element; make them zero",
        tensors.texts(tensors.name),
    )


@rule("tensor-packed-padding-zero")
def packed_padding_zero(facts: Facts) -> Iterator[Finding]:
    """Bits after the last element of 4 or 2 bits are zero; of int32_data, lists of up to 64 KiB are looked at."""
    tensors, payloads = facts.TensorProto, facts.derive(Payloads)
    is_some = payloads.of(*FOUR_BITS, *TWO_BITS)
    if not is_some.any():
        return
    numbers = facts.derive(int32_numbers)
    # What is not a byte is for `tensor-int32-data-range` to report.
    is_last = numbers.is_whole & (numbers.count == payloads.entries) & (numbers.last >= 0) & (numbers.last <= 255)
    is_listed = payloads.has("int32_data") & (payloads.last_bits > 0) & is_last
    yield tensors.at(
        is_some & (_padded(facts) | (is_listed & (numbers.last >> payloads.last_bits > 0))),
        "the last byte of tensor {0!r} of {1} has bits after the last element; make them zero",
        tensors.texts(tensors.name),
        type_names(tensors.data_type),
    )


@rule("tensor-string-utf8")
def string_utf8(facts: Facts) -> Iterator[Finding]:
    """Strings are UTF-8; the first 1 MiB of a tensor is looked at, and 16 MiB of a document."""
    tensors = facts.TensorProto
    broken, _ = facts.derive(strings)
    yield tensors.at(
        broken >= 0,
        "string_data[{1}] of tensor {0!r} is not valid UTF-8; write it as UTF-8",
        tensors.texts(tensors.name),
        broken,
    )


@rule("tensor-string-no-bom-or-nul")
def string_no_bom_or_nul(facts: Facts) -> Iterator[Finding]:
    """Strings have no byte-order mark and no NUL at the end; as far as `tensor-string-utf8` looks."""
    tensors = facts.TensorProto
    _, odd = facts.derive(strings)
    yield tensors.at(
        odd >= 0,
        "string_data[{1}] of tensor {0!r} begins with a byte-order mark or ends with a NUL; remove that",
        tensors.texts(tensors.name),
        odd,
    )
