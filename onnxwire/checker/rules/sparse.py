"""Rules of sparse tensors: values, dims, and indices, which are read where they are few.

Their values and indices are tensors, too, and are to be sound as such; the rules of tensors say where they are not.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from onnxwire.checker.facts import Facts, Finding
from onnxwire.checker.payload_values import Portion, payload_sizes, portions, products, string_lengths, varints
from onnxwire.checker.registry import rule
from onnxwire.tensor.dtypes import BY_NUMBER, EXTERNAL, STRING, DataType

_INT64 = 7


class Parts:
    """The properties of the parts of each SparseTensorProto; take it with `facts.derive(Parts)`.

    nnz: how many values there are, -1 where their shape does not say. rank: of the dense tensor; size: its elements, -1
    where they are too many or a dimension is negative. has_indices; indices_rank: -1 where there are none.
    is_linear, is_coordinates: whether the indices are of that form and their shape is right.
    """

    def __init__(self, facts: Facts) -> None:
        sparse, tensors = facts.SparseTensorProto, facts.TensorProto
        sizes = np.append(facts.lists("TensorProto.dims").value, -1)
        ranks, first = np.append(tensors.dims, -1), np.append(tensors.first("dims"), -1)
        self.has_values, self.has_indices = sparse.values >= 0, sparse.indices >= 0
        self.values_rank, self.indices_rank = ranks[sparse.values], ranks[sparse.indices]
        self.nnz = np.where(self.values_rank == 1, sizes[np.where(self.values_rank == 1, first[sparse.values], -1)], -1)
        self.rank = sparse.dims
        self.first = sparse.first("dims")
        self.size = products(self.rank, self.first, facts.lists("SparseTensorProto.dims").value)
        starts = first[sparse.indices]
        self.rows = sizes[np.where(self.indices_rank > 0, starts, -1)]
        self.width = sizes[np.where(self.indices_rank == 2, starts + 1, -1)]
        counts_agree = (self.nnz >= 0) & (self.rows == self.nnz)
        self.is_linear = (self.indices_rank == 1) & counts_agree
        self.is_coordinates = (self.indices_rank == 2) & counts_agree & (self.width == self.rank)


def _at(facts: Facts, part: str, mask: Any, template: str, *columns: Any) -> Finding:
    """The findings in the values or indices of some sparse tensors; columns: as of SparseTensorProto."""
    sparse = facts.SparseTensorProto
    rows = np.flatnonzero(mask)
    tensors = getattr(sparse, part)[rows]
    by_tensor = [dict(zip(tensors.tolist(), column[rows].tolist(), strict=True)) for column in columns]
    return facts.TensorProto.at(np.sort(tensors), template, *by_tensor)


@rule("sparse-values-present")
def values_present(facts: Facts) -> Iterator[Finding]:
    """There is a tensor of values."""
    sparse = facts.SparseTensorProto
    yield sparse.at(
        ~facts.derive(Parts).has_values, "the sparse tensor has no values; set them, with the shape [0] if it has none"
    )


@rule("sparse-values-rank-1")
def values_rank_1(facts: Facts) -> Iterator[Finding]:
    """The values stand in one row."""
    parts = facts.derive(Parts)
    yield _at(
        facts,
        "values",
        parts.has_values & (parts.values_rank != 1),
        "values of a sparse tensor have one dimension, and these have {0}; set dims to how many there are",
        parts.values_rank,
    )


@rule("sparse-dims-present")
def dims_present(facts: Facts) -> Iterator[Finding]:
    """The dense tensor has a dimension."""
    sparse = facts.SparseTensorProto
    yield sparse.at(sparse.dims == 0, "the sparse tensor has no dims; set the shape of the dense tensor")


@rule("sparse-dims-positive")
def dims_positive(facts: Facts) -> Iterator[Finding]:
    """No dimension of the dense tensor is 0 or less."""
    dims = facts.lists("SparseTensorProto.dims")
    yield dims.at(dims.value <= 0, "a dimension of a sparse tensor is {0}; it is to be 1 or more", dims.value)


@rule("sparse-dims-product-overflow")
def dims_product_overflow(facts: Facts) -> Iterator[Finding]:
    """Every element of the dense tensor has a number."""
    sparse, dims = facts.SparseTensorProto, facts.lists("SparseTensorProto.dims")
    has_negative = np.zeros(sparse.n, bool)
    has_negative[dims.parent[dims.value < 0]] = True
    yield sparse.at(
        (facts.derive(Parts).size < 0) & ~has_negative,
        "the dense tensor would have more than 9,223,372,036,854,775,807 elements; correct the dims",
    )


@rule("sparse-indices-present")
def indices_present(facts: Facts) -> Iterator[Finding]:
    """Where there are values, there are indices."""
    sparse, parts = facts.SparseTensorProto, facts.derive(Parts)
    yield sparse.at(
        ~parts.has_indices & (parts.nnz > 0), "the sparse tensor has {0} values and no indices; set them", parts.nnz
    )


@rule("sparse-indices-dtype")
def indices_dtype(facts: Facts) -> Iterator[Finding]:
    """Indices are INT64."""
    parts, indices = facts.derive(Parts), facts.SparseTensorProto.indices
    types = np.append(facts.TensorProto.data_type, 0)[indices]
    yield _at(
        facts,
        "indices",
        parts.has_indices & (types != _INT64),
        "indices of a sparse tensor are INT64 (7), and these have the data_type {0}; convert them",
        types,
    )


@rule("sparse-indices-rank")
def indices_rank(facts: Facts) -> Iterator[Finding]:
    """Indices are linear or coordinates."""
    parts = facts.derive(Parts)
    yield _at(
        facts,
        "indices",
        parts.has_indices & ~np.isin(parts.indices_rank, (1, 2)),
        "indices of a sparse tensor have 1 dimension (linear) or 2 (coordinates), and these have {0}; reshape them",
        parts.indices_rank,
    )


@rule("sparse-indices-linear-shape")
def indices_linear_shape(facts: Facts) -> Iterator[Finding]:
    """There are as many linear indices as values."""
    parts = facts.derive(Parts)
    yield _at(
        facts,
        "indices",
        (parts.indices_rank == 1) & (parts.nnz >= 0) & ~parts.is_linear,
        "there are {0} indices for {1} values; give each value one",
        parts.rows,
        parts.nnz,
    )


@rule("sparse-indices-coo-shape")
def indices_coo_shape(facts: Facts) -> Iterator[Finding]:
    """There are as many coordinates as values, and each has as many numbers as the dense tensor has dimensions."""
    parts = facts.derive(Parts)
    yield _at(
        facts,
        "indices",
        (parts.indices_rank == 2) & (parts.nnz >= 0) & (parts.rank > 0) & ~parts.is_coordinates,
        "coordinates have the shape [{0}, {1}], and {2} values in {3} dimensions call for [{2}, {3}]; reshape them",
        parts.rows,
        parts.width,
        parts.nnz,
        parts.rank,
    )


class Indices:
    """The faults of the indices of sparse tensors; take it with `facts.derive(Indices)`.

    outside, descending, repeated: messages by row of the TensorProto. Only what fits otherwise and is small enough
    (`small_payloads`) is read.
    """

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.outside: dict[int, str] = {}
        self.descending: dict[int, str] = {}
        self.repeated: dict[int, str] = {}
        self.parts = parts = facts.derive(Parts)
        sparse, tensors = facts.SparseTensorProto, facts.TensorProto
        if not sparse.n:
            return
        self.dims = facts.lists("SparseTensorProto.dims").value
        is_inline = (tensors.data_type == _INT64) & (tensors.data_location != EXTERNAL)
        is_read = (parts.is_linear | parts.is_coordinates) & (parts.rank > 0) & (parts.size > 0) & (parts.nnz > 0)
        is_read &= np.append(is_inline, False)[sparse.indices]
        self.holder = np.full(tensors.n, -1, np.int64)
        self.holder[sparse.indices[is_read]] = np.flatnonzero(is_read)
        rows = np.flatnonzero(self.holder >= 0)
        size = payload_sizes(facts, "raw_data")[rows]
        for portion in portions(facts, "raw_data", rows[size % 8 == 0]):
            self._look(portion.rows, portion.lengths // 8, portion.data.view("<i8"))
        for portion in portions(facts, "int64_data", rows[size == 0]):
            self._look(portion.rows, *varints(portion))

    def _look(self, tensors: Any, counts: Any, numbers: Any) -> None:
        """Look at the indices of some tensors. counts: how many numbers each has, which stand one after another."""
        parts, holder = self.parts, self.holder[tensors]
        rank = np.where(parts.is_linear[holder], 1, parts.rank[holder])
        # What has more or fewer numbers than its shape calls for is left to the rules of tensors.
        fits = counts == parts.nnz[holder] * rank
        if not fits.all():
            numbers = numbers[np.repeat(fits, counts)]
            tensors, holder, rank, counts = tensors[fits], holder[fits], rank[fits], counts[fits]
        if not len(tensors):
            return
        owner = np.repeat(np.arange(len(tensors)), counts)
        begins = np.cumsum(counts) - counts
        offset = np.arange(len(numbers)) - begins[owner]
        axis = offset % rank[owner]
        is_linear = parts.is_linear[holder][owner]
        limit = np.where(is_linear, parts.size[holder][owner], self.dims[parts.first[holder][owner] + axis])
        outside = np.flatnonzero((numbers < 0) | (numbers >= limit))
        for at in outside[_is_first(owner[outside])].tolist():
            which = int(owner[at])
            element = int(offset[at] // rank[which])
            shown = self._shown(numbers, int(begins[which]), int(rank[which]), element)
            name = "coordinate" if not is_linear[at] else "index"
            self.outside[int(tensors[which])] = (
                f"index {shown} of value {element} is outside of the dense tensor: the {name} {numbers[at]} is not in "
                f"0 ... {limit[at] - 1}; correct it or dims"
            )
        # Each index and the next: which of the two is greater shows where they differ first.
        here = np.flatnonzero(offset < (counts - rank)[owner])
        step = rank[owner[here]]
        order = np.sign(_compare(numbers[here + step], numbers[here]))
        heads = here[axis[here] == 0]
        differs = np.flatnonzero(order)
        number = here[differs] - axis[here[differs]]  # where the index begins
        first = _is_first(number)
        signs = np.zeros(len(numbers), np.int8)
        signs[number[first]] = order[differs[first]]
        down, same = heads[signs[heads] < 0], heads[signs[heads] == 0]
        for table, starts, what in (
            (self.descending, down, "comes after a greater one; sort values and indices together"),
            (self.repeated, same, "is there before; keep one of its values"),
        ):
            for at in starts[_is_first(owner[starts])].tolist():
                which = int(owner[at])
                element = int(offset[at] // rank[which]) + 1
                shown = self._shown(numbers, int(begins[which]), int(rank[which]), element)
                table[int(tensors[which])] = f"index {shown} of value {element} {what}"
        # Where they are out of order, equal ones need not be neighbours.
        for which in np.unique(owner[down]).tolist():
            row = int(tensors[which])
            if row not in self.repeated:
                self._find_repeated(row, numbers[begins[which] : begins[which] + counts[which]], int(rank[which]))

    def _find_repeated(self, row: int, numbers: Any, rank: int) -> None:
        indices = numbers.reshape(-1, rank)
        order = np.lexsort(indices.T[::-1])
        ordered = indices[order]
        again = order[1:][(ordered[1:] == ordered[:-1]).all(axis=1)]
        if len(again):
            element = int(again.min())
            shown = self._shown(numbers, 0, rank, element)
            self.repeated[row] = f"index {shown} of value {element} is there before; keep one of its values"

    def _shown(self, numbers: Any, begin: int, rank: int, element: int) -> str:
        at = begin + element * rank
        shown = ", ".join(map(str, numbers[at : at + min(rank, 8)].tolist()))
        return shown if rank == 1 else f"[{shown}{', ...' if rank > 8 else ''}]"


def _compare(left: Any, right: Any) -> Any:
    return (left > right).astype(np.int8) - (left < right)


def _is_first(keys: Any) -> Any:
    """Whether each of some sorted keys is the first of its like."""
    return np.append(True, keys[1:] != keys[:-1])[: len(keys)]


@rule("sparse-indices-bounds")
def indices_bounds(facts: Facts) -> Iterator[Finding]:
    """Each index is one of the dense tensor."""
    yield facts.TensorProto.each(facts.derive(Indices).outside)


@rule("sparse-indices-ascending")
def indices_ascending(facts: Facts) -> Iterator[Finding]:
    """Each index is greater than the one before, the first coordinate counting most."""
    yield facts.TensorProto.each(facts.derive(Indices).descending)


@rule("sparse-indices-unique")
def indices_unique(facts: Facts) -> Iterator[Finding]:
    """No index is there twice."""
    yield facts.TensorProto.each(facts.derive(Indices).repeated)


@rule("sparse-values-nondefault")
def values_nondefault(facts: Facts) -> Iterator[Finding]:
    """No value is what is there without it, 0 or the empty string; of small payloads, with elements of whole bytes."""
    sparse, tensors = facts.SparseTensorProto, facts.TensorProto
    is_inline = np.append(tensors.data_location != EXTERNAL, False)
    rows = np.sort(sparse.values[is_inline[sparse.values]])
    found: dict[int, str] = {}
    for data_type in [
        BY_NUMBER[number] for number in np.unique(tensors.data_type[rows]).tolist() if number in BY_NUMBER
    ]:
        some = rows[tensors.data_type[rows] == data_type.number]
        if data_type is STRING:
            empty = {row: lengths.count(0) for row, lengths in string_lengths(facts, some)}
            found.update({row: _wasted(count, "empty") for row, count in empty.items() if count})
        elif data_type.bits >= 8:
            for portion, counts, is_zero in _zeros(facts, data_type, some):
                owner = np.repeat(portion.rows, counts)[is_zero]
                for row, count in zip(*map(np.ndarray.tolist, np.unique(owner, return_counts=True)), strict=True):
                    found[row] = _wasted(count, "0")
    yield tensors.each(found)


def _wasted(count: int, what: str) -> str:
    return (
        f"{count} of the values {'is' if count == 1 else 'are'} {what}, as without being stored; leave out such values"
    )


def _zeros(facts: Facts, data_type: DataType, rows: Any) -> Iterator[tuple[Portion, Any, Any]]:
    """Of tensors of a type, a portion at a time: how many elements each has, and whether each element is 0."""
    width = data_type.bits // 8
    for field in ("raw_data", data_type.field):
        if field in ("raw_data", "float_data", "double_data"):
            for portion in portions(facts, field, rows[payload_sizes(facts, field)[rows] % width == 0]):
                yield portion, portion.lengths // width, ~portion.data.reshape(-1, width).any(axis=1)
        else:
            for portion in portions(facts, field, rows):
                counts, numbers = varints(portion)
                yield portion, counts, numbers == 0
