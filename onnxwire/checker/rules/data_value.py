"""Rules of values that are stored outside of models: sequences, maps, optionals.

Elements at any depth are checked, too: each by the rules of its own type.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from onnxwire.checker.facts import UTF8, Facts, Finding, List, Sheet, repeats, true_rows
from onnxwire.checker.registry import count_texts, rule
from onnxwire.tensor.dtypes import BY_NAME, STRING, name_of

# Kinds of the elements of a sequence and of the value of an optional: the numbers of elem_type.
_TENSOR, _SPARSE, _SEQUENCE, _MAP, _OPTIONAL = range(1, 6)
# By kind: the name, and the beginning of the names of fields.
_KIND_NAMES = ("", "TENSOR", "SPARSE_TENSOR", "SEQUENCE", "MAP", "OPTIONAL")
_FIELD_PREFIXES = ("", "tensor", "sparse_tensor", "sequence", "map", "optional")

_INTEGERS = ("INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64")
_KEY_TYPES = [BY_NAME[name].number for name in (*_INTEGERS, "STRING")]

RULES = {
    "SequenceProto": {
        "sequence-elem-type": (
            lambda sequence: ~_is_kind(sequence.elem_type),
            "the elem_type of sequence {name!r} is {elem_type}; set it to one of 1 (TENSOR) to 5 (OPTIONAL)",
        ),
        "map-values-kind": (
            lambda sequence: sequence.under("MapProto.values") & (sequence.elem_type == _OPTIONAL),
            "the values of the map are OPTIONAL (5), and only tensors, sparse tensors, sequences and maps are allowed; "
            "store the values of the optionals",
        ),
    },
    "MapProto": {
        "map-key-type": (
            lambda map_: ~_is_key_type_allowed(map_),
            "the key_type of map {name!r} is {key_type} ({type_name}); "
            "set it to an integer type of 8 to 64 bits, or to STRING (8)",
            {"type_name": lambda map_: _names_of(map_.key_type)},
        ),
        "map-single-key-field": (
            lambda map_: (map_.keys > 0) & (map_.string_keys > 0),
            "map {name!r} has entries in `keys` ({keys}) and in `string_keys` ({string_keys}); keep those of its "
            "key_type",
        ),
        "map-key-field-matches-type": (
            lambda map_: (
                _is_key_type_allowed(map_)
                & np.where(
                    map_.key_type == STRING.number,
                    (map_.keys > 0) & (map_.string_keys == 0),
                    (map_.string_keys > 0) & (map_.keys == 0),
                )
            ),
            "map {name!r} has its keys in {field}, and its key_type is {key_type} ({type_name}); "
            "correct the type or move the keys",
            {
                "field": lambda map_: lambda row: "string_keys" if map_.string_keys[row] else "keys",
                "type_name": lambda map_: lambda row: name_of(int(map_.key_type[row])),
            },
        ),
        # `map-single-key-field` reports keys in both fields.
        "map-values-length": (
            lambda map_: (
                (_map_value_counts(map_) >= 0)
                & (_map_value_counts(map_) != map_.keys + map_.string_keys)
                & ((map_.keys == 0) | (map_.string_keys == 0))
            ),
            "map {name!r} has {key_count} and {value_count}; give each key one value",
            {
                "key_count": lambda map_: count_texts(map_.keys + map_.string_keys, "key"),
                "value_count": lambda map_: count_texts(_map_value_counts(map_), "value"),
            },
        ),
        "map-values-present": (
            lambda map_: map_.values < 0,
            "map {name!r} lacks the field `values`; set it, to an empty sequence if the map is empty",
        ),
    },
    "MapProto.keys": {
        "map-key-range": (
            lambda key: _is_out_of_range(key),
            "the key {value} is not in the range of {type_name}; correct it, or the key_type",
            {"type_name": lambda key: _names_of(_key_types(key))},
        ),
        "map-key-unique": (
            lambda key: repeats(key.parent, key.value),
            "the map has the key {value} more than once; keep one of them",
        ),
    },
    "MapProto.string_keys": {
        "map-key-unique": (
            lambda key: repeats(key.parent, key.value),
            "the map has the key {key!r} more than once; keep one of them",
            {"key": lambda key: key.texts(key.value)},
        ),
        "map-string-key-utf8": (
            lambda key: key.facts.traits[key.value] & UTF8 == 0,
            "the key {bytes!a} is not valid UTF-8; encode the key as UTF-8",
            {"bytes": lambda key: lambda row: key.facts.columns.raw_text(int(key.value[row]))},
        ),
    },
    "OptionalProto": {
        "optional-single-value": (
            lambda optional: optional.derive(_value_kinds)[0] > 1,
            "optional {name!r} has {count} values; keep the one of its elem_type",
            {"count": lambda optional: optional.derive(_value_kinds)[0]},
        ),
        # `optional-single-value` reports several values.
        "optional-field-matches-elem-type": (
            lambda optional: (
                (optional.derive(_value_kinds)[0] == 1)
                & (optional.derive(_value_kinds)[1] != optional.elem_type)
                & _is_kind(optional.elem_type)
            ),
            "the elem_type of optional {name!r} is {elem_type} ({kind}), but the value is in {field}; "
            "correct elem_type or move the value",
            {
                "kind": lambda optional: _kind_names(optional.elem_type),
                "field": lambda optional: _value_field_names(optional),
            },
        ),
        "optional-elem-type": (
            lambda optional: ~_is_kind(optional.elem_type),
            "the elem_type of optional {name!r} is {elem_type}; set it to one of 1 (TENSOR) to 5 (OPTIONAL)",
        ),
    },
}


def _list_field(kind: int) -> str:
    """Return the field of SequenceProto for elements of a kind."""
    return f"{_FIELD_PREFIXES[kind]}_values"


def _value_field(kind: int) -> str:
    """Return the field of OptionalProto for an element of a kind."""
    return f"{_FIELD_PREFIXES[kind]}_value"


def _is_kind(elem_type: Any) -> Any:
    """Return whether each elem_type is a known kind."""
    return (elem_type >= _TENSOR) & (elem_type <= _OPTIONAL)


@rule("sequence-field-matches-elem-type", "SequenceProto")
def sequence_field_matches_elem_type(facts: Facts) -> Iterator[Finding]:
    """Yield sequences whose elements have another kind than elem_type declares."""
    sequences = facts.SequenceProto
    messages: dict[int, str] = {}
    for kind in range(_TENSOR, _OPTIONAL + 1):
        is_wrong = (getattr(sequences, _list_field(kind)) > 0) & (sequences.elem_type != kind)
        for row in true_rows(is_wrong & _is_kind(sequences.elem_type)).tolist():
            elem_type = int(sequences.elem_type[row])
            messages.setdefault(
                row,
                f"the elem_type of sequence {facts.text(sequences.name[row])!r} is {elem_type} "
                f"({_KIND_NAMES[elem_type]}), and {_list_field(kind)} has elements; "
                f"move them to {_list_field(elem_type)}, or correct elem_type",
            )
    yield sequences.each(messages)


def _first_known(parents: Any, values: Any, is_known: Any) -> tuple[Any, Any]:
    """Return the parents that have children, and for each the value of its first known child, or else of its first.

    parents, values, is_known: columns of the children; the children of one parent are in their order.
    """
    sorted_children = np.lexsort((np.arange(len(parents)), ~is_known, parents))
    chosen_children = sorted_children[
        np.append(True, parents[sorted_children][1:] != parents[sorted_children][:-1])[: len(sorted_children)]
    ]
    return parents[chosen_children], values[chosen_children]


def _sparse_types(facts: Facts) -> Any:
    """Return the data_type of the values of each SparseTensorProto."""
    return np.append(facts.TensorProto.data_type, 0)[facts.SparseTensorProto.values]


@rule("sequence-tensor-dtype-homogeneous", "SequenceProto")
def sequence_tensor_dtype_homogeneous(facts: Facts) -> Iterator[Finding]:
    """Yield tensors whose data type differs from that of the first tensor of their sequence that has a data type.

    Dense and sparse tensors are compared separately.
    """
    sequences = facts.SequenceProto
    for sheet, kind, types in (
        (facts.TensorProto, _TENSOR, facts.TensorProto.data_type),
        (facts.SparseTensorProto, _SPARSE, _sparse_types(facts)),
    ):
        rows = true_rows(sheet.under(f"SequenceProto.{_list_field(kind)}"))
        parents = sheet.parent[rows]
        # The expected type by sequence, and by tensor.
        expected_types, expected = np.zeros(sequences.n, np.int64), np.zeros(sheet.n, np.int64)
        sequence_rows, values = _first_known(parents, types[rows], types[rows] != 0)
        expected_types[sequence_rows] = values
        expected[rows] = expected_types[parents]
        yield sheet.at(
            rows[(types[rows] != 0) & (types[rows] != expected[rows])],
            "the tensor has the data_type {actual}, and an earlier one of the sequence has {expected}; convert or "
            "remove it",
            actual=types,
            expected=expected,
        )


class Types:
    """The full types of nested values. `facts.derive(Types)` returns the object.

    A type is a number: the index of its parts in `kinds`, `params` (data_type or key_type, 0 if unknown) and `children`
    (the type of the elements or the value, -1 if unknown). types_by_kind: for each kind, the types of all rows of its
    sheet.
    elements: for each SequenceProto, the type of the first element of the kind elem_type whose type is fully known; if
    there is none, the type of the first element of this kind; if the kind has no elements, a type with unknown parts;
    -1 for an invalid elem_type.
    sheets, rows: for each kind, its sheet, and the rows that are elements of sequences. is_needed: whether some
    sequence has elements that are sequences, maps or optionals; otherwise no types are computed.
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
        self.types_by_kind = {kind: np.full(sheet.n, -1, np.int64) for kind, sheet in self.sheets.items()}
        self.rows = {
            kind: true_rows(sheet.under(f"SequenceProto.{_list_field(kind)}")) for kind, sheet in self.sheets.items()
        }
        self.elements = np.full(sequences.n, -1, np.int64)
        self.is_needed = any(len(self.rows[kind]) for kind in (_SEQUENCE, _MAP, _OPTIONAL))
        if not self.is_needed:
            return
        self.types_by_kind[_TENSOR] = self._intern(_TENSOR, facts.TensorProto.data_type, -1)
        self.types_by_kind[_SPARSE] = self._intern(_SPARSE, _sparse_types(facts), -1)
        children = {kind: _by_depth(sheet.depth, self.rows[kind]) for kind, sheet in self.sheets.items()}
        rows_by_depth = {
            kind: _by_depth(self.sheets[kind].depth, self.sheets[kind].rows) for kind in (_SEQUENCE, _MAP, _OPTIONAL)
        }
        for depth in sorted({depth for rows in rows_by_depth.values() for depth in rows}, reverse=True):
            rows_at_depth = rows_by_depth[_SEQUENCE].get(depth)
            if rows_at_depth is not None:
                self._set_elements(
                    rows_at_depth, {kind: rows[depth + 1] for kind, rows in children.items() if depth + 1 in rows}
                )
                self.types_by_kind[_SEQUENCE][rows_at_depth] = self._intern(_SEQUENCE, 0, self.elements[rows_at_depth])
            rows_at_depth = rows_by_depth[_MAP].get(depth)
            if rows_at_depth is not None:
                child_types = np.append(self.elements, -1)[maps.values[rows_at_depth]]
                self.types_by_kind[_MAP][rows_at_depth] = self._intern(_MAP, maps.key_type[rows_at_depth], child_types)
            rows_at_depth = rows_by_depth[_OPTIONAL].get(depth)
            if rows_at_depth is not None:
                child_types = self._with_unknown_parts(optionals.elem_type[rows_at_depth])
                for kind in self.sheets:
                    values = getattr(optionals, _value_field(kind))[rows_at_depth]
                    has_value = (values >= 0) & (optionals.elem_type[rows_at_depth] == kind)
                    child_types[has_value] = self.types_by_kind[kind][values[has_value]]
                self.types_by_kind[_OPTIONAL][rows_at_depth] = self._intern(_OPTIONAL, 0, child_types)

    def _with_unknown_parts(self, elem_types: Any) -> Any:
        """Return the types with these kinds and unknown parts; -1 for an invalid kind."""
        by_kind = self._intern(np.arange(_OPTIONAL + 1), 0, -1)
        by_kind[0] = -1
        return by_kind[np.where(_is_kind(elem_types), elem_types, 0)]

    def _set_elements(self, rows: Any, children: dict[int, Any]) -> None:
        """Set `elements` of some sequences. children: the rows of their elements, by kind."""
        sequences = self.sheets[_SEQUENCE]
        self.elements[rows] = self._with_unknown_parts(sequences.elem_type[rows])
        for kind, child_rows in children.items():
            parents = self.sheets[kind].parent[child_rows]
            child_rows, parents = (column[sequences.elem_type[parents] == kind] for column in (child_rows, parents))
            types = self.types_by_kind[kind][child_rows]
            sequence_rows, values = _first_known(parents, types, np.append(self._is_known, False)[types])
            self.elements[sequence_rows] = values

    def _intern(self, kinds: Any, params: Any, children: Any) -> Any:
        """Return the types with these parts, which are numbers or columns."""
        parts = np.stack(np.broadcast_arrays(kinds, params, children)).astype(np.int64)
        part_order = np.lexsort(parts)
        sorted_parts = parts[:, part_order]
        is_new = np.append(True, (sorted_parts[:, 1:] != sorted_parts[:, :-1]).any(axis=0))[: len(part_order)]
        id_positions = np.empty(len(part_order), np.int64)
        id_positions[part_order] = np.cumsum(is_new) - 1
        ids = []
        for kind, parameter, child in sorted_parts[:, is_new].T.tolist():
            id = self._ids.setdefault((kind, parameter, child), len(self._ids))
            if id == len(self.kinds):
                self.kinds.append(kind)
                self.params.append(parameter)
                self.children.append(child)
                is_child_known = child >= 0 and self._is_known[child]
                self._is_known.append(
                    parameter != 0 if kind <= _SPARSE else is_child_known and (kind != _MAP or parameter != 0)
                )
            ids.append(id)
        return np.array(ids, np.int64)[id_positions]

    def agree(self, left: int, right: int) -> bool:
        """Return whether all known parts of two types are equal."""
        while left != right and left >= 0 and right >= 0:
            if self.kinds[left] != self.kinds[right]:
                return False
            if self.params[left] != self.params[right] and self.params[left] and self.params[right]:
                return False
            left, right = self.children[left], self.children[right]
        return True

    def text(self, id: int) -> str:
        """Return a type in text form, such as map(STRING, tensor(FLOAT))."""
        parts = []
        closing_parentheses = ""
        while id >= 0:
            kind, parameter = self.kinds[id], self.params[id]
            parts.append(_FIELD_PREFIXES[kind] + "(")
            if kind in (_TENSOR, _SPARSE, _MAP):
                parts.append((name_of(parameter) if parameter else "?") + (", " if kind == _MAP else ""))
            closing_parentheses += ")"
            id = self.children[id] if kind > _SPARSE else -2
        return "".join(parts) + ("?" if id == -1 else "") + closing_parentheses


def _by_depth(depth: Any, rows: Any) -> dict[int, Any]:
    """Return the rows at each depth. depth: the depth column of the sheet."""
    sorted_rows = rows[np.argsort(depth[rows], kind="stable")]
    depths, starts = np.unique(depth[sorted_rows], return_index=True)
    return dict(zip(depths.tolist(), np.split(sorted_rows, starts[1:]), strict=True)) if len(rows) else {}


@rule("sequence-nested-homogeneous", "SequenceProto")
def sequence_nested_homogeneous(facts: Facts) -> Iterator[Finding]:
    """Yield sequences, maps and optionals whose type contradicts the type of other elements of their sequence.

    Unknown parts of a type, such as the parts of an element without values, contradict no type.
    """
    types = facts.derive(Types)
    for kind in (_SEQUENCE, _MAP, _OPTIONAL) if types.is_needed else ():
        sheet = types.sheets[kind]
        rows = types.rows[kind]
        actual, expected = types.types_by_kind[kind], types.elements[sheet.parent[rows]]
        rows, expected = rows[actual[rows] != expected], expected[actual[rows] != expected]
        messages_by_types: dict[tuple[int, int], str] = {}  # by actual and expected type; "" if they agree
        messages: dict[int, str] = {}
        for row, actual_type, expected_type in zip(
            rows.tolist(), actual[rows].tolist(), expected.tolist(), strict=True
        ):
            if expected_type < 0 or types.kinds[expected_type] != kind:
                continue  # sequence-elem-type or sequence-field-matches-elem-type reports the sequence
            if (actual_type, expected_type) not in messages_by_types:
                messages_by_types[actual_type, expected_type] = (
                    ""
                    if types.agree(actual_type, expected_type)
                    else (
                        f"the element is {types.text(actual_type)}, and another element of the sequence is "
                        f"{types.text(expected_type)}; give all elements the same type"
                    )
                )
            if messages_by_types[actual_type, expected_type]:
                messages[row] = messages_by_types[actual_type, expected_type]
        yield sheet.each(messages)


def _is_key_type_allowed(maps: Sheet) -> Any:
    """Return whether the key_type of each map is allowed for keys."""
    return np.isin(maps.key_type, _KEY_TYPES)


def _key_types(keys: List) -> Any:
    """Return the key_type of each key, 0 if it is not allowed for keys."""
    maps = keys.facts.MapProto
    return np.where(_is_key_type_allowed(maps), maps.key_type, 0)[keys.parent]


def _is_out_of_range(keys: List) -> Any:
    """Return whether each integer key is out of the range of its type.

    Every int64 is a valid UINT64 key, because these keys are stored as the int64 with the same bits.
    """
    limits = np.iinfo(np.int64)
    minima, maxima = np.full(64, limits.min, np.int64), np.full(64, limits.max, np.int64)
    for name in _INTEGERS:
        data_type = BY_NAME[name]
        if data_type.bits < 64:
            limits = np.iinfo(data_type.dtype)
            minima[data_type.number], maxima[data_type.number] = limits.min, limits.max
    types = _key_types(keys)
    return (keys.value < minima[types]) | (keys.value > maxima[types])


def _names_of(types: Any) -> Any:
    """Return the names of a column of data types, as a function of the row."""
    return lambda row: name_of(int(types[row]))


def _map_value_counts(maps: Sheet) -> Any:
    """Return the number of values of each map; -1 if it lacks the field `values` or their kind is unknown."""
    return np.append(maps.derive(_sequence_lengths), -1)[maps.values]


def _sequence_lengths(facts: Facts) -> Any:
    """Return the number of elements of the kind elem_type in each SequenceProto, -1 if the kind is unknown."""
    sequences = facts.SequenceProto
    counts = np.full(sequences.n, -1, np.int64)
    for kind in range(_TENSOR, _OPTIONAL + 1):
        rows = true_rows(sequences.elem_type == kind)
        counts[rows] = getattr(sequences, _list_field(kind))[rows]
    return counts


def _kind_names(kinds: Any) -> Any:
    """Return the names of a column of kinds, as a function of the row."""
    return lambda row: _KIND_NAMES[kinds[row]]


def _value_field_names(optionals: Sheet) -> Any:
    """Return the name of the field of each optional's value, as a function of the row."""
    _, kinds = optionals.derive(_value_kinds)
    return lambda row: _value_field(int(kinds[row]))


def _value_kinds(facts: Facts) -> tuple[Any, Any]:
    """Return the number of values in each OptionalProto, and the kind of the last value, 0 for none."""
    optionals = facts.OptionalProto
    count, kinds = np.zeros(optionals.n, np.int64), np.zeros(optionals.n, np.int64)
    for kind in range(_TENSOR, _OPTIONAL + 1):
        has_value = getattr(optionals, _value_field(kind)) >= 0
        count += has_value
        kinds[has_value] = kind
    return count, kinds
