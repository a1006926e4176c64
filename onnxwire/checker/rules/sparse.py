"""Rules of sparse tensors: values, indices and dims.

The values and indices are tensors, so the rules of tensors also check them. Only small ones are read; see `portions`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from onnxwire.checker.facts import Facts, Finding, true_rows, unique
from onnxwire.checker.payload_values import Portion, decode_varints, payload_sizes, portions, products, string_lengths
from onnxwire.checker.registry import count_texts, rule
from onnxwire.tensor.dtypes import BY_NUMBER, EXTERNAL, STRING, DataType

_INT64 = 7  # TensorProto.INT64

RULES = {
    "SparseTensorProto": {
        "sparse-values-present": (
            lambda sparse: ~sparse.derive(Parts).has_values,
            "the sparse tensor lacks the field `values`; set it, to a tensor of shape [0] if no element is stored",
        ),
        "sparse-dims-present": (
            lambda sparse: sparse.dims == 0,
            "the sparse tensor has no dims; set the shape of the dense tensor",
        ),
        "sparse-indices-present": (
            lambda sparse: ~sparse.derive(Parts).has_indices & (sparse.derive(Parts).nnz > 0),
            "the sparse tensor has {values} and no indices; set indices",
            {"values": lambda sparse: count_texts(sparse.derive(Parts).nnz, "value")},
        ),
    },
    "SparseTensorProto.dims": {
        "sparse-dims-positive": (
            lambda dim: dim.value <= 0,
            "a dimension of a sparse tensor is {value}; it must be 1 or more",
        ),
    },
}


class Parts:
    """Properties of the parts of each SparseTensorProto. `facts.derive(Parts)` returns the object.

    nnz: the number of values, -1 if they are absent or not one-dimensional. rank: the rank of the dense tensor. size:
    the number of elements of the dense tensor, -1 if that is 2**63 or more or a dimension is negative. has_values,
    has_indices: whether the part exists. values_rank, indices_rank: the rank of the part, -1 if it does not exist.
    is_linear, is_coordinates: whether the indices have that form and the right shape. first_dims: the index of the
    first dim in SparseTensorProto.dims. n_index_rows: the first dim of the indices, -1 if they do not
    exist or have no dims. width: the second dim of indices of rank 2, otherwise -1.
    """

    def __init__(self, facts: Facts) -> None:
        sparse, tensors = facts.SparseTensorProto, facts.TensorProto
        sizes = np.append(facts.lists("TensorProto.dims").value, -1)
        ranks, first_dims = np.append(tensors.dims, -1), np.append(tensors.first("dims"), -1)
        self.has_values, self.has_indices = sparse.values >= 0, sparse.indices >= 0
        self.values_rank, self.indices_rank = ranks[sparse.values], ranks[sparse.indices]
        self.nnz = np.where(
            self.values_rank == 1, sizes[np.where(self.values_rank == 1, first_dims[sparse.values], -1)], -1
        )
        self.rank = sparse.dims
        self.first_dims = sparse.first("dims")
        self.size = products(self.rank, self.first_dims, facts.lists("SparseTensorProto.dims").value)
        starts = first_dims[sparse.indices]
        self.n_index_rows = sizes[np.where(self.indices_rank > 0, starts, -1)]
        self.width = sizes[np.where(self.indices_rank == 2, starts + 1, -1)]
        counts_agree = (self.nnz >= 0) & (self.n_index_rows == self.nnz)
        self.is_linear = (self.indices_rank == 1) & counts_agree
        self.is_coordinates = (self.indices_rank == 2) & counts_agree & (self.width == self.rank)


def _report_part(facts: Facts, part: str, is_reported: Any, template: str, **columns: Any) -> Finding:
    """Return a finding about the values or indices of some sparse tensors.

    part: "values" or "indices". is_reported: whether each SparseTensorProto is reported. columns: the columns of
    SparseTensorProto that the template formats.
    """
    sparse = facts.SparseTensorProto
    rows = true_rows(is_reported)
    tensors = getattr(sparse, part)[rows]
    by_tensor = {
        name: dict(zip(tensors.tolist(), column[rows].tolist(), strict=True)) for name, column in columns.items()
    }
    return facts.TensorProto.at(np.sort(tensors), template, **by_tensor)


@rule("sparse-values-rank-1", "SparseTensorProto")
def values_rank_1(facts: Facts) -> Iterator[Finding]:
    """Yield values that do not have one dimension."""
    parts = facts.derive(Parts)
    yield _report_part(
        facts,
        "values",
        parts.has_values & (parts.values_rank != 1),
        "values of a sparse tensor have one dimension, and these have {rank}; set dims to the number of values",
        rank=parts.values_rank,
    )


@rule("sparse-dims-product-overflow", "SparseTensorProto")
def dims_product_overflow(facts: Facts) -> Iterator[Finding]:
    """Yield sparse tensors whose dense tensor has 2**63 elements or more."""
    sparse, dims = facts.SparseTensorProto, facts.lists("SparseTensorProto.dims")
    has_negative = np.zeros(sparse.n, bool)
    has_negative[dims.parent[dims.value < 0]] = True
    yield sparse.at(
        (facts.derive(Parts).size < 0) & ~has_negative,
        "the dense tensor would have more than 9,223,372,036,854,775,807 elements; correct the dims",
    )


@rule("sparse-indices-dtype", "SparseTensorProto")
def indices_dtype(facts: Facts) -> Iterator[Finding]:
    """Yield indices that are not INT64."""
    parts, indices = facts.derive(Parts), facts.SparseTensorProto.indices
    types = np.append(facts.TensorProto.data_type, 0)[indices]
    yield _report_part(
        facts,
        "indices",
        parts.has_indices & (types != _INT64),
        "indices of a sparse tensor are INT64 (7), and these have the data_type {data_type}; convert them",
        data_type=types,
    )


@rule("sparse-indices-rank", "SparseTensorProto")
def indices_rank(facts: Facts) -> Iterator[Finding]:
    """Yield indices that are neither linear nor coordinates."""
    parts = facts.derive(Parts)
    yield _report_part(
        facts,
        "indices",
        parts.has_indices & ~np.isin(parts.indices_rank, (1, 2)),
        "indices of a sparse tensor have 1 dimension (linear) or 2 (coordinates), and these have {rank}; reshape them",
        rank=parts.indices_rank,
    )


@rule("sparse-indices-linear-shape", "SparseTensorProto")
def indices_linear_shape(facts: Facts) -> Iterator[Finding]:
    """Yield linear indices whose number differs from the number of values."""
    parts = facts.derive(Parts)
    yield _report_part(
        facts,
        "indices",
        (parts.indices_rank == 1) & (parts.nnz >= 0) & ~parts.is_linear,
        "the number of indices is {index_count}, and the number of values is {nnz}; give each value one index",
        index_count=parts.n_index_rows,
        nnz=parts.nnz,
    )


@rule("sparse-indices-coo-shape", "SparseTensorProto")
def indices_coo_shape(facts: Facts) -> Iterator[Finding]:
    """Yield coordinates whose shape is not [number of values, rank of the dense tensor]."""
    parts = facts.derive(Parts)
    yield _report_part(
        facts,
        "indices",
        (parts.indices_rank == 2) & (parts.nnz >= 0) & (parts.rank > 0) & ~parts.is_coordinates,
        "the coordinates have the shape [{index_count}, {width}], but the number of values ({nnz}) and the number of "
        "dimensions ({rank}) require [{nnz}, {rank}]; reshape them",
        index_count=parts.n_index_rows,
        width=parts.width,
        nnz=parts.nnz,
        rank=parts.rank,
    )


class Indices:
    """Faults of the indices of sparse tensors. `facts.derive(Indices)` returns the object.

    bounds_messages, order_messages, repeat_messages: messages by row of TensorProto. Only inline INT64 indices
    of the right shape that are small enough for `portions` are read, and only if the dense tensor has 1 to 2**63 - 1
    elements.
    """

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.bounds_messages: dict[int, str] = {}
        self.order_messages: dict[int, str] = {}
        self.repeat_messages: dict[int, str] = {}
        self.parts = parts = facts.derive(Parts)
        sparse, tensors = facts.SparseTensorProto, facts.TensorProto
        if not sparse.n:
            return
        self.dims = facts.lists("SparseTensorProto.dims").value
        is_inline = (tensors.data_type == _INT64) & (tensors.data_location != EXTERNAL)
        is_read = (parts.is_linear | parts.is_coordinates) & (parts.rank > 0) & (parts.size > 0) & (parts.nnz > 0)
        is_read &= np.append(is_inline, False)[sparse.indices]
        self.sparse_row_of = np.full(tensors.n, -1, np.int64)
        self.sparse_row_of[sparse.indices[is_read]] = true_rows(is_read)
        rows = true_rows(self.sparse_row_of >= 0)
        raw_sizes = payload_sizes(facts, "raw_data")[rows]
        for portion in portions(facts, "raw_data", rows[raw_sizes % 8 == 0]):
            self._check(portion.rows, portion.lengths // 8, portion.data.view("<i8"))
        for portion in portions(facts, "int64_data", rows[raw_sizes == 0]):
            self._check(portion.rows, *decode_varints(portion))

    def _check(self, tensors: Any, counts: Any, numbers: Any) -> None:
        """Check the indices of some tensors.

        counts: the number of each tensor's elements in `numbers`, which has the elements of all tensors in succession.
        """
        parts, sparse_rows = self.parts, self.sparse_row_of[tensors]
        rank = np.where(parts.is_linear[sparse_rows], 1, parts.rank[sparse_rows])
        # The rules of tensors report counts that differ from the shape.
        is_expected_count = counts == parts.nnz[sparse_rows] * rank
        if not is_expected_count.all():
            numbers = numbers[np.repeat(is_expected_count, counts)]
            tensors, sparse_rows, rank, counts = (
                tensors[is_expected_count],
                sparse_rows[is_expected_count],
                rank[is_expected_count],
                counts[is_expected_count],
            )
        if not len(tensors):
            return
        owners = np.repeat(np.arange(len(tensors)), counts)
        starts_of_tensors = np.cumsum(counts) - counts
        offsets = np.arange(len(numbers)) - starts_of_tensors[owners]
        axes = offsets % rank[owners]
        is_linear = parts.is_linear[sparse_rows][owners]
        limits = np.where(
            is_linear, parts.size[sparse_rows][owners], self.dims[parts.first_dims[sparse_rows][owners] + axes]
        )
        positions_outside = true_rows((numbers < 0) | (numbers >= limits))
        for position in positions_outside[_is_first(owners[positions_outside])].tolist():
            tensor_index = int(owners[position])
            element = int(offsets[position] // rank[tensor_index])
            text = self._index_text(numbers, int(starts_of_tensors[tensor_index]), int(rank[tensor_index]), element)
            name = "coordinate" if not is_linear[position] else "index"
            self.bounds_messages[int(tensors[tensor_index])] = (
                f"index {text} of values[{element}] is outside the dense tensor: the {name} {numbers[position]} is not "
                f"in 0 ... {limits[position] - 1}; correct it or dims"
            )
        # Compare each index with the next; the first number that differs decides.
        compared_positions = true_rows(offsets < (counts - rank)[owners])
        step = rank[owners[compared_positions]]
        signs_of_numbers = np.sign(_compare_numbers(numbers[compared_positions + step], numbers[compared_positions]))
        compared_starts = compared_positions[axes[compared_positions] == 0]
        different_positions = true_rows(signs_of_numbers)
        index_starts = (
            compared_positions[different_positions] - axes[compared_positions[different_positions]]
        )  # where the index begins
        is_first = _is_first(index_starts)
        signs = np.zeros(len(numbers), np.int8)
        signs[index_starts[is_first]] = signs_of_numbers[different_positions[is_first]]
        descending, equal = compared_starts[signs[compared_starts] < 0], compared_starts[signs[compared_starts] == 0]
        for messages, starts, fault in (
            (self.order_messages, descending, "comes after a greater index; sort values and indices together"),
            (self.repeat_messages, equal, "is repeated; keep one of its values"),
        ):
            for position in starts[_is_first(owners[starts])].tolist():
                tensor_index = int(owners[position])
                element = int(offsets[position] // rank[tensor_index]) + 1
                text = self._index_text(numbers, int(starts_of_tensors[tensor_index]), int(rank[tensor_index]), element)
                messages[int(tensors[tensor_index])] = f"index {text} of values[{element}] {fault}"
        # Equal indices need not be adjacent in unsorted indices.
        for tensor_index in unique(owners[descending]).tolist():
            row = int(tensors[tensor_index])
            if row not in self.repeat_messages:
                self._find_repeated(
                    row,
                    numbers[starts_of_tensors[tensor_index] : starts_of_tensors[tensor_index] + counts[tensor_index]],
                    int(rank[tensor_index]),
                )

    def _find_repeated(self, row: int, numbers: Any, rank: int) -> None:
        """Record the first index that equals an earlier index of the tensor. The indices are not sorted."""
        indices = numbers.reshape(-1, rank)
        order = np.lexsort(indices.T[::-1])
        sorted_indices = indices[order]
        repeated_elements = order[1:][(sorted_indices[1:] == sorted_indices[:-1]).all(axis=1)]
        if len(repeated_elements):
            element = int(repeated_elements.min())
            text = self._index_text(numbers, 0, rank, element)
            self.repeat_messages[row] = f"index {text} of values[{element}] is repeated; keep one of its values"

    def _index_text(self, numbers: Any, begin: int, rank: int, element: int) -> str:
        """Return the index of a value as text. begin: the position of the tensor's first number in `numbers`."""
        start = begin + element * rank
        text = ", ".join(map(str, numbers[start : start + min(rank, 8)].tolist()))
        return text if rank == 1 else f"[{text}{', ...' if rank > 8 else ''}]"


def _compare_numbers(left: Any, right: Any) -> Any:
    """Return 1 where `left` is greater, -1 where `right` is greater, otherwise 0; int8."""
    return (left > right).astype(np.int8) - (left < right)


def _is_first(keys: Any) -> Any:
    """Return whether each sorted key differs from the key before it."""
    return np.append(True, keys[1:] != keys[:-1])[: len(keys)]


@rule("sparse-indices-bounds", "SparseTensorProto")
def indices_bounds(facts: Facts) -> Iterator[Finding]:
    """Yield indices that are outside the dense tensor."""
    yield facts.TensorProto.each(facts.derive(Indices).bounds_messages)


@rule("sparse-indices-ascending", "SparseTensorProto")
def indices_ascending(facts: Facts) -> Iterator[Finding]:
    """Yield indices that are not in ascending order (for coordinates: lexicographic order)."""
    yield facts.TensorProto.each(facts.derive(Indices).order_messages)


@rule("sparse-indices-unique", "SparseTensorProto")
def indices_unique(facts: Facts) -> Iterator[Finding]:
    """Yield indices that are repeated."""
    yield facts.TensorProto.each(facts.derive(Indices).repeat_messages)


@rule("sparse-values-nondefault", "SparseTensorProto")
def values_nondefault(facts: Facts) -> Iterator[Finding]:
    """Yield tensors with stored values that are 0 or empty, like elements that are not stored.

    Only small inline payloads are checked, with elements of whole bytes.
    """
    sparse, tensors = facts.SparseTensorProto, facts.TensorProto
    is_inline = np.append(tensors.data_location != EXTERNAL, False)
    rows = np.sort(sparse.values[is_inline[sparse.values]])
    messages: dict[int, str] = {}
    for data_type in [BY_NUMBER[number] for number in unique(tensors.data_type[rows]).tolist() if number in BY_NUMBER]:
        rows_of_type = rows[tensors.data_type[rows] == data_type.number]
        if data_type is STRING:
            empty_counts = {row: lengths.count(0) for row, lengths in string_lengths(facts, rows_of_type)}
            messages.update(
                {row: _message_for_defaults(count, "empty") for row, count in empty_counts.items() if count}
            )
        elif data_type.bits >= 8:
            for portion, counts, is_zero in _zeros(facts, data_type, rows_of_type):
                owner = np.repeat(portion.rows, counts)[is_zero]
                for row, count in zip(*map(np.ndarray.tolist, np.unique(owner, return_counts=True)), strict=True):
                    messages[row] = _message_for_defaults(count, "0")
    yield tensors.each(messages)


def _message_for_defaults(count: int, default_text: str) -> str:
    """Return the message about values that are 0 or empty. count: the number of these values."""
    return (
        f"{count} of the values {'is' if count == 1 else 'are'} {default_text}, like the elements that are not stored; "
        "remove such values"
    )


def _zeros(facts: Facts, data_type: DataType, rows: Any) -> Iterator[tuple[Portion, Any, Any]]:
    """Yield portions of the tensors of a type, each with the element counts, and whether each element is 0."""
    width = data_type.bits // 8
    for field in ("raw_data", data_type.field):
        if field in ("raw_data", "float_data", "double_data"):
            for portion in portions(facts, field, rows[payload_sizes(facts, field)[rows] % width == 0]):
                yield portion, portion.lengths // width, ~portion.data.reshape(-1, width).any(axis=1)
        else:
            for portion in portions(facts, field, rows):
                counts, numbers = decode_varints(portion)
                yield portion, counts, numbers == 0
