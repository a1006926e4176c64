"""Rules of values that are stored by themselves: sequences, maps, optionals.

What is in them is to be sound, too, at any depth; the rules of what it is say where it is not.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from onnxwire.checker.facts import UTF8, Facts, Finding, repeats
from onnxwire.checker.registry import rule
from onnxwire.tensor.dtypes import BY_NAME, STRING, name_of

# What the elements of a sequence are, and what an optional holds: the numbers of their elem_type.
_TENSOR, _SPARSE, _SEQUENCE, _MAP, _OPTIONAL = range(1, 6)
_KINDS = ("", "TENSOR", "SPARSE_TENSOR", "SEQUENCE", "MAP", "OPTIONAL")
_WORDS = ("", "tensor", "sparse_tensor", "sequence", "map", "optional")

_INTEGERS = ("INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64")
_KEY_TYPES = [BY_NAME[name].number for name in (*_INTEGERS, "STRING")]


def _list_of(kind: int) -> str:
    return f"{_WORDS[kind]}_values"


def _field_of(kind: int) -> str:
    return f"{_WORDS[kind]}_value"


def _is_kind(elem_type: Any) -> Any:
    return (elem_type >= _TENSOR) & (elem_type <= _OPTIONAL)


@rule("sequence-elem-type")
def sequence_elem_type(facts: Facts) -> Iterator[Finding]:
    """A sequence says what its elements are."""
    sequences = facts.SequenceProto
    yield sequences.at(
        ~_is_kind(sequences.elem_type),
        "the elem_type of sequence {0!r} is {1}; set it to one of 1 (TENSOR) to 5 (OPTIONAL)",
        sequences.texts(sequences.name),
        sequences.elem_type,
    )


@rule("sequence-field-matches-elem-type")
def sequence_field_matches_elem_type(facts: Facts) -> Iterator[Finding]:
    """A sequence has only elements of its kind."""
    sequences = facts.SequenceProto
    found: dict[int, str] = {}
    for kind in range(_TENSOR, _OPTIONAL + 1):
        is_wrong = (getattr(sequences, _list_of(kind)) > 0) & (sequences.elem_type != kind)
        for row in np.flatnonzero(is_wrong & _is_kind(sequences.elem_type)).tolist():
            elem_type = int(sequences.elem_type[row])
            found.setdefault(
                row,
                f"the elem_type of sequence {facts.text(sequences.name[row])!r} is {elem_type} ({_KINDS[elem_type]}), "
                f"and {_list_of(kind)} has elements; move them to {_list_of(elem_type)}, or correct elem_type",
            )
    yield sequences.each(found)


def _first_known(parents: Any, values: Any, is_known: Any) -> tuple[Any, Any]:
    """Parents that have children, and of each the value of its first child that is known, else of its first child.

    parents, values, is_known: of the children, those of one parent in their order.
    """
    order = np.lexsort((np.arange(len(parents)), ~is_known, parents))
    heads = order[np.append(True, parents[order][1:] != parents[order][:-1])[: len(order)]]
    return parents[heads], values[heads]


def _sparse_types(facts: Facts) -> Any:
    """The data_type of each SparseTensorProto."""
    return np.append(facts.TensorProto.data_type, 0)[facts.SparseTensorProto.values]


@rule("sequence-tensor-dtype-homogeneous")
def sequence_tensor_dtype_homogeneous(facts: Facts) -> Iterator[Finding]:
    """The tensors of a sequence have one data type."""
    sequences = facts.SequenceProto
    for sheet, kind, types in (
        (facts.TensorProto, _TENSOR, facts.TensorProto.data_type),
        (facts.SparseTensorProto, _SPARSE, _sparse_types(facts)),
    ):
        rows = np.flatnonzero(sheet.under(f"SequenceProto.{_list_of(kind)}"))
        parents = sheet.parent[rows]
        first, wanted = np.zeros(sequences.n, np.int64), np.zeros(sheet.n, np.int64)
        holders, values = _first_known(parents, types[rows], types[rows] != 0)
        first[holders] = values
        wanted[rows] = first[parents]
        yield sheet.at(
            rows[(types[rows] != 0) & (types[rows] != wanted[rows])],
            "the tensor has the data_type {0}, and the sequence begins with {1}; convert it or take it out",
            types,
            wanted,
        )


class Types:
    """The full types of nested values; take it with `facts.derive(Types)`.

    A type is a number: `kinds`, `params` (data_type or key_type, 0 where unknown) and `children` (the type of what is
    inside, -1 where unknown) say what it is. `of`: by kind, the types of all rows of a sheet. elements: of each
    SequenceProto, the type of its elements, which is that of the first of which all is known.
    """

    def __init__(self, facts: Facts) -> None:
        self._ids: dict[tuple[int, int, int], int] = {}
        self.kinds: list[int] = []
        self.params: list[int] = []
        self.children: list[int] = []
        self._is_known: list[bool] = []
        sequences, maps, optionals = facts.SequenceProto, facts.MapProto, facts.OptionalProto
        self.sheets = {
            _TENSOR: facts.TensorProto,
            _SPARSE: facts.SparseTensorProto,
            _SEQUENCE: sequences,
            _MAP: maps,
            _OPTIONAL: optionals,
        }
        self.of = {kind: np.full(sheet.n, -1, np.int64) for kind, sheet in self.sheets.items()}
        self.rows = {
            kind: np.flatnonzero(sheet.under(f"SequenceProto.{_list_of(kind)}")) for kind, sheet in self.sheets.items()
        }
        self.elements = np.full(sequences.n, -1, np.int64)
        self.is_needed = any(len(self.rows[kind]) for kind in (_SEQUENCE, _MAP, _OPTIONAL))
        if not self.is_needed:
            return
        self.of[_TENSOR] = self._intern(_TENSOR, facts.TensorProto.data_type, -1)
        self.of[_SPARSE] = self._intern(_SPARSE, _sparse_types(facts), -1)
        children = {kind: _by_depth(sheet.depth, self.rows[kind]) for kind, sheet in self.sheets.items()}
        every = {kind: _by_depth(self.sheets[kind].depth, self.sheets[kind].rows) for kind in (3, 4, 5)}
        for depth in sorted({depth for rows in every.values() for depth in rows}, reverse=True):
            some = every[_SEQUENCE].get(depth)
            if some is not None:
                self._set_elements(
                    some, {kind: rows[depth + 1] for kind, rows in children.items() if depth + 1 in rows}
                )
                self.of[_SEQUENCE][some] = self._intern(_SEQUENCE, 0, self.elements[some])
            some = every[_MAP].get(depth)
            if some is not None:
                inner = np.append(self.elements, -1)[maps.values[some]]
                self.of[_MAP][some] = self._intern(_MAP, maps.key_type[some], inner)
            some = every[_OPTIONAL].get(depth)
            if some is not None:
                inner = self._empty(optionals.elem_type[some])
                for kind in self.sheets:
                    held = getattr(optionals, _field_of(kind))[some]
                    is_held = (held >= 0) & (optionals.elem_type[some] == kind)
                    inner[is_held] = self.of[kind][held[is_held]]
                self.of[_OPTIONAL][some] = self._intern(_OPTIONAL, 0, inner)

    def _empty(self, elem_types: Any) -> Any:
        """The types of which only the kind is known."""
        by_kind = self._intern(np.arange(_OPTIONAL + 1), 0, -1)
        by_kind[0] = -1
        return by_kind[np.where(_is_kind(elem_types), elem_types, 0)]

    def _set_elements(self, rows: Any, children: dict[int, Any]) -> None:
        sequences = self.sheets[_SEQUENCE]
        self.elements[rows] = self._empty(sequences.elem_type[rows])
        for kind, some in children.items():
            parents = self.sheets[kind].parent[some]
            some, parents = (column[sequences.elem_type[parents] == kind] for column in (some, parents))
            types = self.of[kind][some]
            holders, values = _first_known(parents, types, np.append(self._is_known, False)[types])
            self.elements[holders] = values

    def _intern(self, kinds: Any, params: Any, children: Any) -> Any:
        """The types of these parts, which are numbers or columns."""
        parts = np.stack(np.broadcast_arrays(kinds, params, children)).astype(np.int64)
        order = np.lexsort(parts)
        ordered = parts[:, order]
        is_new = np.append(True, (ordered[:, 1:] != ordered[:, :-1]).any(axis=0))[: len(order)]
        back = np.empty(len(order), np.int64)
        back[order] = np.cumsum(is_new) - 1
        ids = []
        for kind, param, child in ordered[:, is_new].T.tolist():
            id = self._ids.setdefault((kind, param, child), len(self._ids))
            if id == len(self.kinds):
                self.kinds.append(kind)
                self.params.append(param)
                self.children.append(child)
                inside = child >= 0 and self._is_known[child]
                self._is_known.append(param != 0 if kind <= _SPARSE else inside and (kind != _MAP or param != 0))
            ids.append(id)
        return np.array(ids, np.int64)[back]

    def agree(self, one: int, other: int) -> bool:
        """Whether nothing that is known of two types differs."""
        while one != other and one >= 0 and other >= 0:
            if self.kinds[one] != self.kinds[other]:
                return False
            if self.params[one] != self.params[other] and self.params[one] and self.params[other]:
                return False
            one, other = self.children[one], self.children[other]
        return True

    def text(self, id: int) -> str:
        """A type as people write it, such as map(STRING, tensor(FLOAT))."""
        parts = []
        end = ""
        while id >= 0:
            kind, param = self.kinds[id], self.params[id]
            parts.append(_WORDS[kind] + "(")
            if kind in (_TENSOR, _SPARSE, _MAP):
                parts.append((name_of(param) if param else "?") + (", " if kind == _MAP else ""))
            end += ")"
            id = self.children[id] if kind > _SPARSE else -2
        return "".join(parts) + ("?" if id == -1 else "") + end


def _by_depth(depth: Any, rows: Any) -> dict[int, Any]:
    order = rows[np.argsort(depth[rows], kind="stable")]
    depths, first = np.unique(depth[order], return_index=True)
    return dict(zip(depths.tolist(), np.split(order, first[1:]), strict=True)) if len(rows) else {}


@rule("sequence-nested-homogeneous")
def sequence_nested_homogeneous(facts: Facts) -> Iterator[Finding]:
    """The sequences, maps and optionals in a sequence have one type, as far as it shows: empty ones fit in."""
    types = facts.derive(Types)
    for kind in (_SEQUENCE, _MAP, _OPTIONAL) if types.is_needed else ():
        sheet = types.sheets[kind]
        rows = types.rows[kind]
        there, wanted = types.of[kind], types.elements[sheet.parent[rows]]
        rows, wanted = rows[there[rows] != wanted], wanted[there[rows] != wanted]
        said: dict[tuple[int, int], str] = {}
        found: dict[int, str] = {}
        for row, one, other in zip(rows.tolist(), there[rows].tolist(), wanted.tolist(), strict=True):
            if other < 0 or types.kinds[other] != kind:
                continue  # sequence-field-matches-elem-type speaks of it
            if (one, other) not in said:
                said[one, other] = (
                    ""
                    if types.agree(one, other)
                    else (
                        f"the element is {types.text(one)}, and others of the sequence are {types.text(other)}; "
                        "give all one type"
                    )
                )
            if said[one, other]:
                found[row] = said[one, other]
        yield sheet.each(found)


def _is_key_type(facts: Facts) -> Any:
    return np.isin(facts.MapProto.key_type, _KEY_TYPES)


@rule("map-key-type")
def map_key_type(facts: Facts) -> Iterator[Finding]:
    """The keys of a map are integers or strings."""
    maps = facts.MapProto
    yield maps.at(
        ~_is_key_type(facts),
        "the key_type of map {0!r} is {1} ({2}); set it to an integer type of 8 to 64 bits, or to STRING (8)",
        maps.texts(maps.name),
        maps.key_type,
        lambda row: name_of(int(maps.key_type[row])),
    )


@rule("map-single-key-field")
def map_single_key_field(facts: Facts) -> Iterator[Finding]:
    """A map has keys of one kind."""
    maps = facts.MapProto
    yield maps.at(
        (maps.keys > 0) & (maps.string_keys > 0),
        "map {0!r} has {1} keys and {2} string_keys; keep those of its key_type",
        maps.texts(maps.name),
        maps.keys,
        maps.string_keys,
    )


@rule("map-key-field-matches-type")
def map_key_field_matches_type(facts: Facts) -> Iterator[Finding]:
    """The keys of a map stand where its key type says; of both fields, `map-single-key-field` speaks."""
    maps = facts.MapProto
    is_string = maps.key_type == STRING.number
    yield maps.at(
        _is_key_type(facts)
        & np.where(is_string, (maps.keys > 0) & (maps.string_keys == 0), (maps.string_keys > 0) & (maps.keys == 0)),
        "map {0!r} has its keys in {1}, and its key_type is {2} ({3}); correct the type or move the keys",
        maps.texts(maps.name),
        lambda row: "string_keys" if maps.string_keys[row] else "keys",
        maps.key_type,
        lambda row: name_of(int(maps.key_type[row])),
    )


@rule("map-key-range")
def map_key_range(facts: Facts) -> Iterator[Finding]:
    """An integer key is one of its type; those of UINT64 are stored bit for bit, so each is."""
    maps, keys = facts.MapProto, facts.lists("MapProto.keys")
    limits = np.iinfo(np.int64)
    least, most = np.full(64, limits.min, np.int64), np.full(64, limits.max, np.int64)
    for name in _INTEGERS:
        kind = BY_NAME[name]
        if kind.bits < 64:
            least[kind.number], most[kind.number] = np.iinfo(kind.dtype).min, np.iinfo(kind.dtype).max
    types = np.where(_is_key_type(facts), maps.key_type, 0)[keys.parent]
    yield keys.at(
        (keys.value < least[types]) | (keys.value > most[types]),
        "the key {0} is not one of {1}; correct it, or the key_type",
        keys.value,
        lambda row: name_of(int(types[row])),
    )


@rule("map-key-unique")
def map_key_unique(facts: Facts) -> Iterator[Finding]:
    """A key is there once."""
    keys = facts.lists("MapProto.keys")
    yield keys.at(repeats(keys.parent, keys.value), "the map has the key {0} before; remove one of them", keys.value)
    keys = facts.lists("MapProto.string_keys")
    yield keys.at(
        repeats(keys.parent, keys.value),
        "the map has the key {0!r} before; remove one of them",
        keys.texts(keys.value),
    )


@rule("map-string-key-utf8")
def map_string_key_utf8(facts: Facts) -> Iterator[Finding]:
    """String keys are text."""
    keys = facts.lists("MapProto.string_keys")
    yield keys.at(
        facts.traits[keys.value] & UTF8 == 0,
        "the key {0!a} is not valid UTF-8; encode it so",
        lambda row: facts.columns.raw_text(int(keys.value[row])),
    )


@rule("map-values-present")
def map_values_present(facts: Facts) -> Iterator[Finding]:
    """A map has values."""
    maps = facts.MapProto
    yield maps.at(
        maps.values < 0, "map {0!r} has no values; set them, to an empty sequence if it has none", maps.texts(maps.name)
    )


def _value_counts(facts: Facts) -> Any:
    """How many elements of its kind each SequenceProto has, -1 where the kind is unknown."""
    sequences = facts.SequenceProto
    counts = np.full(sequences.n, -1, np.int64)
    for kind in range(_TENSOR, _OPTIONAL + 1):
        rows = np.flatnonzero(sequences.elem_type == kind)
        counts[rows] = getattr(sequences, _list_of(kind))[rows]
    return counts


@rule("map-values-length")
def map_values_length(facts: Facts) -> Iterator[Finding]:
    """There is a value for each key; where both key fields are filled, `map-single-key-field` speaks."""
    maps = facts.MapProto
    keys = maps.keys + maps.string_keys
    values = np.append(_value_counts(facts), -1)[maps.values]
    yield maps.at(
        (values >= 0) & (values != keys) & ((maps.keys == 0) | (maps.string_keys == 0)),
        "map {0!r} has {1} keys and {2} values; give each key one",
        maps.texts(maps.name),
        keys,
        values,
    )


@rule("map-values-kind")
def map_values_kind(facts: Facts) -> Iterator[Finding]:
    """The values of a map are not optionals; of what is not a kind at all, `sequence-elem-type` speaks."""
    sequences = facts.SequenceProto
    yield sequences.at(
        sequences.under("MapProto.values") & (sequences.elem_type == _OPTIONAL),
        "values of a map are tensors, sparse tensors, sequences or maps, and these are OPTIONAL (5); store what they "
        "hold",
    )


@rule("optional-elem-type")
def optional_elem_type(facts: Facts) -> Iterator[Finding]:
    """An optional says what it holds, or could hold."""
    optionals = facts.OptionalProto
    yield optionals.at(
        ~_is_kind(optionals.elem_type),
        "the elem_type of optional {0!r} is {1}; set it to one of 1 (TENSOR) to 5 (OPTIONAL)",
        optionals.texts(optionals.name),
        optionals.elem_type,
    )


def _held_kinds(facts: Facts) -> tuple[Any, Any]:
    """How many values each OptionalProto holds, and the kind of the last one, 0 for none."""
    optionals = facts.OptionalProto
    count, held = np.zeros(optionals.n, np.int64), np.zeros(optionals.n, np.int64)
    for kind in range(_TENSOR, _OPTIONAL + 1):
        is_there = getattr(optionals, _field_of(kind)) >= 0
        count += is_there
        held[is_there] = kind
    return count, held


@rule("optional-single-value")
def optional_single_value(facts: Facts) -> Iterator[Finding]:
    """An optional holds one value or none."""
    optionals = facts.OptionalProto
    count, _ = facts.derive(_held_kinds)
    yield optionals.at(
        count > 1, "optional {0!r} holds {1} values; keep that of its elem_type", optionals.texts(optionals.name), count
    )


@rule("optional-field-matches-elem-type")
def optional_field_matches_elem_type(facts: Facts) -> Iterator[Finding]:
    """The value of an optional is of its kind; of several values, `optional-single-value` speaks."""
    optionals = facts.OptionalProto
    count, held = facts.derive(_held_kinds)
    yield optionals.at(
        (count == 1) & (held != optionals.elem_type) & _is_kind(optionals.elem_type),
        "the elem_type of optional {0!r} is {1} ({2}), and it holds a {3}; correct elem_type or the value",
        optionals.texts(optionals.name),
        optionals.elem_type,
        lambda row: _KINDS[optionals.elem_type[row]],
        lambda row: _field_of(int(held[row])),
    )
