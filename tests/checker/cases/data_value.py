"""Cases of the rules of SequenceProto, MapProto and OptionalProto: values that are stored outside of models."""

from check_case import Case

from onnxwire import MapProto, OptionalProto, SequenceProto

# Codes of elem_type: 1 tensor, 2 sparse tensor, 3 sequence, 4 map, 5 optional; 0 and 6 are not valid.
# Codes of data_type and key_type: 1 FLOAT, 2 UINT8, 7 INT64, 8 STRING, 11 DOUBLE.


def _tensor_fields(type: int = 1) -> str:
    """Return the fields of a TensorProto without elements. type: its data_type."""
    return f"data_type: {type} dims: 0"


def _tensor_sequence_fields(*types: int) -> str:
    """Return the fields of a sequence of empty tensors. types: the data_type of each tensor."""
    return "elem_type: 1" + "".join(f" tensor_values {{ {_tensor_fields(type)} }}" for type in types)


def _nested_sequence_fields(*sequences: str) -> str:
    """Return the fields of a sequence of sequences. sequences: the fields of each inner sequence."""
    return "elem_type: 3" + "".join(f" sequence_values {{ {sequence} }}" for sequence in sequences)


def _map_fields(keys: str = "keys: [1, 2]", values: str = "", type: int = 7) -> str:
    """Return the fields of a map. type: the key_type.

    keys: the field keys or string_keys, or both. values: the fields of the sequence of values; by default two tensors.
    """
    return f"key_type: {type} {keys} values {{ {values or _tensor_sequence_fields(1, 1)} }}"


def _sequence_case(broken: str, valid: str, *paths: str) -> Case:
    """Return a case of sequences. broken, valid: the fields of each sequence."""
    return Case(broken, valid, paths or ("",), SequenceProto)


def _map_case(broken: str, valid: str = "", *paths: str) -> Case:
    """Return a case of maps. broken, valid: the fields of each map; by default, valid is `_map_fields()`."""
    return Case(broken, valid or _map_fields(), paths or ("",), MapProto)


def _optional_case(broken: str, valid: str) -> Case:
    """Return a case of optionals. broken, valid: the fields of each optional."""
    return Case(broken, valid, ("",), OptionalProto)


_STRING_KEYS = 'string_keys: ["a", "b"]'
_TENSOR_VALUE = f"tensor_value {{ {_tensor_fields()} }}"

CASES = {
    "sequence-elem-type": _sequence_case("elem_type: 6", "elem_type: 5"),
    "sequence-field-matches-elem-type": _sequence_case(
        f"{_tensor_sequence_fields(1)} map_values {{ {_map_fields()} }}",
        f"elem_type: 4 map_values {{ {_map_fields()} }}",
    ),
    "sequence-tensor-dtype-homogeneous": _sequence_case(
        _nested_sequence_fields(_tensor_sequence_fields(1, 1), _tensor_sequence_fields(1, 7, 1)),
        _nested_sequence_fields(_tensor_sequence_fields(1, 1), _tensor_sequence_fields(7, 7, 7)),
        "sequence_values[1].tensor_values[1]",
    ),
    "sequence-nested-homogeneous": _sequence_case(
        _nested_sequence_fields(
            _nested_sequence_fields(),
            _nested_sequence_fields(_tensor_sequence_fields(1)),
            _nested_sequence_fields(_tensor_sequence_fields(7)),
        ),
        _nested_sequence_fields(
            _nested_sequence_fields(),
            _nested_sequence_fields(_tensor_sequence_fields(1)),
            _nested_sequence_fields(_tensor_sequence_fields(1), _tensor_sequence_fields()),
        ),
        "sequence_values[2]",
    ),
    "map-key-type": _map_case(_map_fields(type=11)),
    "map-single-key-field": _map_case(_map_fields("keys: 1 string_keys: 'a'")),
    "map-key-field-matches-type": _map_case(_map_fields(_STRING_KEYS), _map_fields(_STRING_KEYS, type=8)),
    "map-key-range": _map_case(
        _map_fields("keys: [-1, 256]", type=2), _map_fields("keys: [0, 255]", type=2), "keys[0]", "keys[1]"
    ),
    "map-key-unique": _map_case(_map_fields("keys: [1, 1]"), _map_fields("keys: [1, -1]"), "keys[1]"),
    "map-string-key-utf8": _map_case(
        _map_fields('string_keys: ["\\303\\244", "\\344"]', type=8), _map_fields(_STRING_KEYS, type=8), "string_keys[1]"
    ),
    "map-values-present": _map_case("key_type: 7", "key_type: 7 values { elem_type: 1 }"),
    "map-values-length": _map_case(_map_fields("keys: [1, 2, 3]")),
    "map-values-kind": _map_case(
        _map_fields("keys: 1", "elem_type: 5 optional_values { elem_type: 1 }"),
        _map_fields("keys: 1", _tensor_sequence_fields(1)),
        "values",
    ),
    "optional-elem-type": _optional_case("elem_type: 0", "elem_type: 5"),
    "optional-single-value": _optional_case(
        f"elem_type: 1 {_TENSOR_VALUE} map_value {{ {_map_fields()} }}", f"elem_type: 1 {_TENSOR_VALUE}"
    ),
    "optional-field-matches-elem-type": _optional_case(
        f"elem_type: 2 {_TENSOR_VALUE}", f"elem_type: 1 {_TENSOR_VALUE}"
    ),
}
