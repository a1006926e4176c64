from check_case import Case

from onnxwire import MapProto, OptionalProto, SequenceProto


def _tensor(type: int = 1) -> str:
    return f"data_type: {type} dims: 0"


def _tensors(*types: int) -> str:
    """Return the fields of a sequence of empty tensors."""
    return "elem_type: 1" + "".join(f" tensor_values {{ {_tensor(type)} }}" for type in types)


def _sequences(*sequences: str) -> str:
    return "elem_type: 3" + "".join(f" sequence_values {{ {sequence} }}" for sequence in sequences)


def _map(keys: str = "keys: [1, 2]", values: str = "", type: int = 7) -> str:
    return f"key_type: {type} {keys} values {{ {values or _tensors(1, 1)} }}"


def _sequence(broken: str, sound: str, *at: str) -> Case:
    return Case(broken, sound, at or ("",), SequenceProto)


def _of_map(broken: str, sound: str = "", *at: str) -> Case:
    return Case(broken, sound or _map(), at or ("",), MapProto)


def _optional(broken: str, sound: str) -> Case:
    return Case(broken, sound, ("",), OptionalProto)


_STRINGS = 'string_keys: ["a", "b"]'
_TENSOR_VALUE = f"tensor_value {{ {_tensor()} }}"

CASES = {
    "sequence-elem-type": _sequence("elem_type: 6", "elem_type: 5"),
    "sequence-field-matches-elem-type": _sequence(
        f"{_tensors(1)} map_values {{ {_map()} }}", f"elem_type: 4 map_values {{ {_map()} }}"
    ),
    "sequence-tensor-dtype-homogeneous": _sequence(
        _sequences(_tensors(1, 1), _tensors(1, 7, 1)),
        _sequences(_tensors(1, 1), _tensors(7, 7, 7)),
        "sequence_values[1].tensor_values[1]",
    ),
    "sequence-nested-homogeneous": _sequence(
        _sequences(_sequences(), _sequences(_tensors(1)), _sequences(_tensors(7))),
        _sequences(_sequences(), _sequences(_tensors(1)), _sequences(_tensors(1), _tensors())),
        "sequence_values[2]",
    ),
    "map-key-type": _of_map(_map(type=11)),
    "map-single-key-field": _of_map(_map("keys: 1 string_keys: 'a'")),
    "map-key-field-matches-type": _of_map(_map(_STRINGS), _map(_STRINGS, type=8)),
    "map-key-range": _of_map(_map("keys: [-1, 256]", type=2), _map("keys: [0, 255]", type=2), "keys[0]", "keys[1]"),
    "map-key-unique": _of_map(_map("keys: [1, 1]"), _map("keys: [1, -1]"), "keys[1]"),
    "map-string-key-utf8": _of_map(
        _map('string_keys: ["\\303\\244", "\\344"]', type=8), _map(_STRINGS, type=8), "string_keys[1]"
    ),
    "map-values-present": _of_map("key_type: 7", "key_type: 7 values { elem_type: 1 }"),
    "map-values-length": _of_map(_map("keys: [1, 2, 3]")),
    "map-values-kind": _of_map(
        _map("keys: 1", "elem_type: 5 optional_values { elem_type: 1 }"), _map("keys: 1", _tensors(1)), "values"
    ),
    "optional-elem-type": _optional("elem_type: 0", "elem_type: 5"),
    "optional-single-value": _optional(
        f"elem_type: 1 {_TENSOR_VALUE} map_value {{ {_map()} }}", f"elem_type: 1 {_TENSOR_VALUE}"
    ),
    "optional-field-matches-elem-type": _optional(f"elem_type: 2 {_TENSOR_VALUE}", f"elem_type: 1 {_TENSOR_VALUE}"),
}
