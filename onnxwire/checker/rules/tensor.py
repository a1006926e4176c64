"""Rules of tensors: types, dims, storage, number of elements and segments; `tensor_values` has the rules of values."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from onnxwire.checker.facts import Facts, Finding, Sheet
from onnxwire.checker.payloads import (
    FLOAT6,
    FOUR_BITS,
    STORAGE_FIELDS,
    TWO_BITS,
    Payloads,
    is_filled,
    storage_names,
    type_names,
)
from onnxwire.checker.registry import count_texts, rule
from onnxwire.messages import TensorProto
from onnxwire.tensor.dtypes import DATA_TYPES

_TYPE_NAME = {"type_name": lambda tensor: type_names(tensor.data_type)}
# The repeated fields for elements, by their names without the suffix `_data`, each with its data types.
_LIST_TYPES = {
    "float": "FLOAT and COMPLEX64",
    "double": "DOUBLE and COMPLEX128",
    "int64": "INT64",
    "uint64": "UINT32 and UINT64",
    "string": "STRING",
    "int32": "INT32, narrower integers, BOOL, and floats of up to 16 bits",
}
# Rules of the number of entries in a list, each with the data types that it checks.
_COUNTED_TYPES = {
    "tensor-typed-data-count": ("FLOAT", "DOUBLE", "INT64", "UINT32", "UINT64", "STRING"),
    "tensor-complex64-data-count": ("COMPLEX64",),
    "tensor-complex128-data-count": ("COMPLEX128",),
    "tensor-int32-data-count": tuple(
        data_type.name for data_type in DATA_TYPES if data_type.field == "int32_data" and data_type.bits >= 8
    ),
    "tensor-int32-data-count-4bit": FOUR_BITS,
    "tensor-int32-data-count-2bit": TWO_BITS,
    "tensor-int32-data-count-6bit": FLOAT6,
}
# Rules of the length of raw_data, each with the possible sizes of an element in bits.
_RAW_BITS = {
    "tensor-raw-data-length": (8, 16, 32, 64, 128),
    "tensor-raw-data-length-4bit": (4,),
    "tensor-raw-data-length-2bit": (2,),
    "tensor-raw-data-length-6bit": (6,),
}

RULES = {
    "TensorProto": {
        "tensor-data-type-present": (
            lambda tensor: tensor.data_type == 0,
            "the data_type of tensor {name!r} is UNDEFINED, or missing; set it to the type of the elements",
        ),
        "tensor-data-type-known": (
            lambda tensor: (tensor.data_type < 0) | (tensor.data_type > DATA_TYPES[-1].number),
            f"the data_type of tensor {{name!r}} is {{data_type}}, which is not a type; "
            f"the types are 1 to {DATA_TYPES[-1].number}",
        ),
        # With a dim of 0, the product is 0, however large the other dims are.
        "tensor-dims-product-overflow": (
            lambda tensor: tensor.derive(Payloads).exceeds_63_bits,
            "the dims of tensor {name!r} require more bytes than 63 bits can count; correct them",
        ),
        "tensor-single-storage": [
            (
                lambda tensor: (
                    _has_inline_elements(tensor)
                    & (tensor.derive(Payloads).n_filled_fields == 0)
                    & (tensor.derive(Payloads).n_required > 0)
                ),
                "tensor {name!r} has no data, and the number of elements to store is {count:,}; "
                "fill raw_data or the list of its type, or set data_location to EXTERNAL",
                {"count": lambda tensor: tensor.derive(Payloads).n_required},
            ),
            (
                lambda tensor: _has_inline_elements(tensor) & (tensor.derive(Payloads).n_filled_fields > 1),
                "the elements of tensor {name!r} are stored more than once, in {fields}; clear all but one",
                {"fields": lambda tensor: lambda row: _filled_fields(tensor, row)},
            ),
        ],
        "tensor-zero-elements-no-data": (
            lambda tensor: (
                tensor.derive(Payloads).is_inline
                & (tensor.derive(Payloads).elements == 0)
                & (tensor.derive(Payloads).n_filled_fields > 0)
            ),
            "tensor {name!r} has data, but one of its dims is 0; clear the data or correct the dims",
        ),
        "tensor-raw-data-dtype": [
            (
                lambda tensor: _has_only_raw_data(tensor) & tensor.derive(Payloads).has_type("STRING"),
                "tensor {name!r} has strings in raw_data; move them to string_data",
            ),
            (
                lambda tensor: _has_only_raw_data(tensor) & (tensor.data_type == 0),
                "tensor {name!r} has raw_data and no data_type; set data_type",
            ),
        ],
        "tensor-float6-raw-preferred": (
            lambda tensor: tensor.derive(Payloads).has_type(*FLOAT6) & tensor.derive(Payloads).has("int32_data"),
            "tensor {name!r} of {type_name} has one byte for each element in int32_data; "
            "move the elements to raw_data, where each takes 6 bits",
            _TYPE_NAME,
        ),
    }
    | {
        f"tensor-{kind}-data-dtype": (
            lambda tensor, field=f"{kind}_data": _is_misplaced(tensor, STORAGE_FIELDS.index(field)),
            f"tensor {{name!r}} of {{type_name}} has its elements in {kind}_data, which is for {types}; "
            "move them to {storage} or correct data_type",
            _TYPE_NAME | {"storage": lambda tensor: storage_names(tensor.derive(Payloads).own_storage)},
        )
        for kind, types in _LIST_TYPES.items()
    },
    "TensorProto.dims": {
        "tensor-dims-nonnegative": (
            lambda dim: dim.value < 0,
            "a dimension of a tensor is {value}; it must be 0 or more",
        ),
    },
    "TensorProto.Segment": {
        "tensor-segment-unsupported": (
            lambda segment: segment.under("TensorProto.segment"),
            "the tensor is a segment of a larger tensor, and most readers refuse segments; store the whole tensor",
        ),
    },
    "UnknownFields": {
        "tensor-data-location-valid": (
            lambda record: (
                record.under("TensorProto")
                & (record.number == TensorProto.DATA_LOCATION_FIELD_NUMBER)
                & (record.wire == 0)
            ),
            "data_location is {value}, which is neither DEFAULT (0) nor EXTERNAL (1); "
            "remove it or set it to one of them",
        ),
    },
}


def _has_inline_elements(tensors: Sheet) -> Any:
    """Return whether each tensor is inline, and the product of its dims is unknown or not 0."""
    payloads = tensors.derive(Payloads)
    return payloads.is_inline & (payloads.elements != 0)


def _filled_fields(tensors: Sheet, row: int) -> str:
    """Return the names of a tensor's nonempty fields for elements."""
    return " and ".join(field for field in STORAGE_FIELDS if is_filled(tensors, field, row))


def _has_only_raw_data(tensors: Sheet) -> Any:
    """Return whether each tensor is inline and has data only in raw_data, and the product of its dims is not 0."""
    payloads = tensors.derive(Payloads)
    return payloads.has("raw_data") & (payloads.n_filled_fields == 1) & (payloads.elements != 0)


def _is_misplaced(tensors: Sheet, storage: int) -> Any:
    """Return whether each inline tensor has its elements only in a certain list, which is for other data types.

    storage: the list, as index of STORAGE_FIELDS. Tensors with a dim of 0 or an unknown data type are not included.
    """
    payloads = tensors.derive(Payloads)
    is_in_list = payloads.storage == storage
    if not is_in_list.any():
        return is_in_list
    own_storage = payloads.own_storage
    return is_in_list & _has_inline_elements(tensors) & (own_storage >= 0) & (own_storage != storage)


def _report_count(facts: Facts, rows: Any, subject: str) -> Finding:
    """Return a finding about tensors whose list has a wrong number of entries. subject: the start of the message."""
    tensors, payloads = facts.TensorProto, facts.derive(Payloads)
    actual_counts, required_counts, actual_bytes = payloads.count, payloads.n_entries, payloads.count_bytes
    return tensors.at(
        rows,
        f"{subject} {{storage}} of length {{required:,}}, but {{actual}}; correct one of the two",
        type_name=type_names(tensors.data_type),
        required=required_counts,
        storage=storage_names(payloads.storage),
        actual=lambda row: (
            f"its length is {actual_counts[row]:,}"
            if actual_counts[row] >= 0
            else f"it is {'shorter' if actual_bytes[row] < required_counts[row] else 'longer'}"
        ),
    )


def _report_size(facts: Facts, rows: Any, subject: str) -> Finding:
    """Return a finding about tensors whose raw_data has a wrong length. subject: the start of the message."""
    tensors, payloads = facts.TensorProto, facts.derive(Payloads)
    return tensors.at(
        rows,
        f"{subject} {{size}} of raw_data, but it has {{length:,}}; correct one of the two",
        type_name=type_names(tensors.data_type),
        size=count_texts(payloads.size, "byte"),
        length=tensors.span("raw_data")[1],
    )


def _wrong_counts(id: str, facts: Facts) -> Iterator[Finding]:
    """Yield tensors without segment, of the rule's types, whose list does not have as many entries as the dims require.

    If the entries are not counted (see `payloads.Numbers`), only the size in bytes is checked: a number takes one to
    ten bytes.
    """
    payloads = facts.derive(Payloads)
    is_wrong = payloads.is_wrong_count & ~payloads.has_segment & (payloads.elements > 0)
    if is_wrong.any():
        is_of_types = payloads.has_type(*_COUNTED_TYPES[id])
        yield _report_count(facts, is_wrong & is_of_types, "the dims of tensor {name!r} of {type_name} require")


def _wrong_sizes(id: str, facts: Facts) -> Iterator[Finding]:
    """Yield tensors without segment, of the rule's types, whose raw_data is not as long as the dims require."""
    payloads = facts.derive(Payloads)
    is_wrong = payloads.is_wrong_size & ~payloads.has_segment & (payloads.elements > 0)
    if is_wrong.any():
        has_bits = np.isin(payloads.bits, _RAW_BITS[id])
        yield _report_size(facts, is_wrong & has_bits, "the dims of tensor {name!r} of {type_name} require")


for _id in _COUNTED_TYPES:
    rule(_id, "TensorProto")(partial(_wrong_counts, _id))
for _id in _RAW_BITS:
    rule(_id, "TensorProto")(partial(_wrong_sizes, _id))


@rule("tensor-segment-bounds", "TensorProto.Segment")
def segment_bounds(facts: Facts) -> Iterator[Finding]:
    """Yield segments that lack begin or end or are not a range of the tensor's elements, and tensors whose data does
    not have the length that the segment requires.
    """
    segments, payloads = facts["TensorProto.Segment"], facts.derive(Payloads)
    owners = segments.parent_under("TensorProto.segment")
    has_both = segments.has("begin") & segments.has("end")
    yield segments.at((owners >= 0) & ~has_both, "the segment lacks begin or end; set both")
    elements = np.append(payloads.elements, -1)[owners]
    required = np.append(payloads.n_required, -1)[owners]
    yield segments.at(
        has_both & (elements >= 0) & (required < 0),
        "the segment is from {begin} to {end}, and the tensor has {elements}; correct the segment or the dims",
        elements=count_texts(elements, "element"),
    )
    is_segment = payloads.has_segment & (payloads.elements > 0)
    subject = "the segment of tensor {name!r} of {type_name} requires"
    yield _report_count(facts, is_segment & payloads.is_wrong_count, subject)
    yield _report_size(facts, is_segment & payloads.is_wrong_size, subject)
