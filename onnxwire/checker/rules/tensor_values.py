"""Rules of the values in tensors.

The rules check the first 64 KiB of int32_data, of uint64_data and of booleans in raw_data, the first 1 MiB of
string_data, and the last byte of tensors whose elements have less than 8 bits. Of each field, at most 16 MiB in a
document are scanned; see `payloads`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from onnxwire.checker.facts import Facts, Finding, true_rows
from onnxwire.checker.payloads import (
    FLOAT6,
    FOUR_BITS,
    TWO_BITS,
    Payloads,
    first_faulty_strings,
    int32_numbers,
    max_and_last_raw_bytes,
    type_names,
    uint64_numbers,
)
from onnxwire.checker.registry import rule
from onnxwire.tensor.dtypes import BY_NAME, DATA_TYPES

_BYTE_RANGE = (0, 255)
_UINT16_RANGE = (0, 65535)
# The range of entries of int32_data, by type of less than 32 bits; BOOL and types of 6 bits have rules of their own.
_RANGES = {
    "UINT8": _BYTE_RANGE,
    "INT8": (-128, 127),
    "UINT16": _UINT16_RANGE,
    "INT16": (-32768, 32767),
    "FLOAT16": _UINT16_RANGE,
    "BFLOAT16": _UINT16_RANGE,
} | {
    data_type.name: _BYTE_RANGE
    for data_type in DATA_TYPES
    if data_type.name.startswith("FLOAT8") or data_type.name in FOUR_BITS + TWO_BITS
}


RULES = {
    "TensorProto": {
        "tensor-raw-bool-values": (
            lambda tensor: (tensor.derive(max_and_last_raw_bytes)[0] > 1) & tensor.derive(Payloads).has_type("BOOL"),
            "tensor {name!r} of BOOL has the byte {byte} in raw_data; write 0 for false and 1 for true",
            {"byte": lambda tensor: tensor.derive(max_and_last_raw_bytes)[0]},
        ),
        "tensor-raw-data-float6-padding": (
            lambda tensor: tensor.derive(Payloads).has_type(*FLOAT6) & _has_nonzero_padding(tensor.facts),
            "the last byte of raw_data of tensor {name!r} has nonzero bits after the last element; clear them",
        ),
        "tensor-string-utf8": (
            lambda tensor: tensor.derive(first_faulty_strings)[0] >= 0,
            "string_data[{index}] of tensor {name!r} is not valid UTF-8; write it as UTF-8",
            {"index": lambda tensor: tensor.derive(first_faulty_strings)[0]},
        ),
        "tensor-string-no-bom-or-nul": (
            lambda tensor: tensor.derive(first_faulty_strings)[1] >= 0,
            "string_data[{index}] of tensor {name!r} begins with a byte-order mark or ends with a NUL; "
            "remove the character",
            {"index": lambda tensor: tensor.derive(first_faulty_strings)[1]},
        ),
    },
}


def _find_out_of_range(ranges: dict[str, tuple[int, int]], facts: Facts) -> Iterator[Finding]:
    """Yield tensors of some types with an entry of int32_data out of the range of their type.

    ranges: the least and the greatest entry, by the name of the data type.
    """
    tensors, payloads = facts.TensorProto, facts.derive(Payloads)
    rows = true_rows(payloads.has_type(*ranges) & payloads.has("int32_data"))
    if not len(rows):
        return
    types, numbers = payloads.numbers, facts.derive(int32_numbers)
    bounds = np.zeros((DATA_TYPES[-1].number + 1, 2), np.int64)
    for name, limits in ranges.items():
        bounds[BY_NAME[name].number] = limits
    lower_bounds, upper_bounds = bounds.T
    minima, maxima = numbers.low, numbers.high
    yield tensors.at(
        rows[(minima[rows] < lower_bounds[types[rows]]) | (maxima[rows] > upper_bounds[types[rows]])],
        "tensor {name!r} of {type_name} has the entry {entry} in int32_data, where entries of this type are {least} to "
        "{greatest}; correct the entry or data_type",
        type_name=type_names(tensors.data_type),
        entry=lambda row: minima[row] if minima[row] < lower_bounds[types[row]] else maxima[row],
        least=lambda row: lower_bounds[types[row]],
        greatest=lambda row: upper_bounds[types[row]],
    )


rule("tensor-int32-data-range", "TensorProto")(partial(_find_out_of_range, _RANGES))
rule("tensor-int32-data-range-bool", "TensorProto")(partial(_find_out_of_range, {"BOOL": (0, 1)}))
rule("tensor-int32-data-float6-range", "TensorProto")(partial(_find_out_of_range, dict.fromkeys(FLOAT6, (0, 63))))


@rule("tensor-uint64-data-range", "TensorProto")
def uint64_data_range(facts: Facts) -> Iterator[Finding]:
    """Yield tensors of UINT32 with an entry of uint64_data that has more than 32 bits."""
    tensors, payloads = facts.TensorProto, facts.derive(Payloads)
    is_listed = payloads.has_type("UINT32") & payloads.has("uint64_data")
    if not is_listed.any():
        return
    maxima = facts.derive(uint64_numbers).high.view(np.uint64)
    yield tensors.at(
        is_listed & (maxima > np.uint64(0xFFFFFFFF)),
        "tensor {name!r} of UINT32 has the entry {high} in uint64_data, which takes more than 32 bits; "
        "correct the entry, or set data_type to UINT64",
        high=maxima,
    )


def _has_nonzero_padding(facts: Facts) -> Any:
    """Return whether the last byte of each raw_data has bits set that belong to no element."""
    payloads = facts.derive(Payloads)
    _, last_bytes = facts.derive(max_and_last_raw_bytes)
    return (payloads.last_bits > 0) & (last_bytes >> payloads.last_bits.view(np.uint8) > 0)


@rule("tensor-packed-padding-zero", "TensorProto")
def packed_padding_zero(facts: Facts) -> Iterator[Finding]:
    """Yield tensors of 4-bit or 2-bit elements with nonzero bits after the last element.

    int32_data above 64 KiB, or after 16 MiB of the field in a document, is skipped.
    """
    tensors, payloads = facts.TensorProto, facts.derive(Payloads)
    is_packed = payloads.has_type(*FOUR_BITS, *TWO_BITS)
    if not is_packed.any():
        return
    numbers = facts.derive(int32_numbers)
    # `tensor-int32-data-range` reports an entry that is not a byte.
    is_known = numbers.is_whole & (numbers.count == payloads.n_entries) & (numbers.last >= 0) & (numbers.last <= 255)
    is_listed = payloads.has("int32_data") & (payloads.last_bits > 0) & is_known
    yield tensors.at(
        is_packed & (_has_nonzero_padding(facts) | (is_listed & (numbers.last >> payloads.last_bits > 0))),
        "the last byte of tensor {name!r} of {type_name} has nonzero bits after the last element; clear them",
        type_name=type_names(tensors.data_type),
    )
