"""Cases of the rules of external data."""

from check_case import Case, model

_TENSOR_PATHS = ("graph.initializer[0]",)
_SHA1 = "0123456789abcdefABCD0123456789abcdefABCD"


def _entry_text(key: str, value: str) -> str:
    """Return an entry of external_data in text form."""
    return f'external_data {{ key: "{key}" value: "{value}" }}'


_LOCATION_ENTRY = _entry_text("location", "w.bin")


def _model_with_tensor(
    entries: str = _LOCATION_ENTRY, fields: str = "data_location: EXTERNAL", type: int = 1, ir: int = 8
) -> str:
    """Return a model with a tensor of four elements. entries, fields: the tensor's external_data and further fields."""
    return model(f'initializer {{ name: "w" data_type: {type} dims: 4 {entries} {fields} }}', ir)


def _entry_paths(index: int) -> tuple[str, ...]:
    """Return the paths of a case that reports one entry of external_data."""
    return (f"graph.initializer[0].external_data[{index}]",)


def _entry_case(key: str, invalid: str, valid: str) -> Case:
    """Return a case whose tensor has an entry after the location. invalid, valid: the values of the entry."""
    return Case(
        _model_with_tensor(_LOCATION_ENTRY + _entry_text(key, invalid)),
        _model_with_tensor(_LOCATION_ENTRY + _entry_text(key, valid)),
        _entry_paths(1),
    )


def _location_case(invalid: str, valid: str = "folder/w.bin") -> Case:
    """Return a case whose tensors have these locations."""
    return Case(
        _model_with_tensor(_entry_text("location", invalid)),
        _model_with_tensor(_entry_text("location", valid)),
        _entry_paths(0),
    )


CASES = {
    "external-value-fields-empty": Case(
        _model_with_tensor(fields="data_location: EXTERNAL float_data: 1"),
        _model_with_tensor(fields='data_location: EXTERNAL raw_data: ""'),
        _TENSOR_PATHS,
    ),
    "external-location-present": Case(
        _model_with_tensor(_entry_text("location", "")), _model_with_tensor(), _TENSOR_PATHS
    ),
    "external-location-relative": _location_case("C:/w.bin"),
    "external-location-no-parent": _location_case("folder/../../w.bin", "folder/.w.bin"),
    "external-location-posix": _location_case("folder\\\\w.bin"),
    "external-location-hash-marker": _location_case("#w", "w#"),
    "external-offset-format": _entry_case("offset", "-1", "0004096"),
    "external-length-format": _entry_case("length", "0x10", "16"),
    "external-length-matches-shape": _entry_case("length", "15", "16"),
    "external-offset-alignment": _entry_case("offset", "4095", "4096"),
    "external-offset-alignment-windows": _entry_case("offset", "4096", "65536"),
    "external-checksum-format": _entry_case("checksum", _SHA1[1:], _SHA1),
    "external-key-unique": Case(
        _model_with_tensor(_LOCATION_ENTRY + _LOCATION_ENTRY), _model_with_tensor(), _entry_paths(1)
    ),
    "external-key-known": Case(
        _model_with_tensor(_LOCATION_ENTRY + _entry_text("size", "16")),
        _model_with_tensor(_LOCATION_ENTRY + _entry_text("length", "16")),
        _entry_paths(1),
    ),
    "external-key-basepath": Case(
        _model_with_tensor(_LOCATION_ENTRY + _entry_text("basepath", "/home/me")), _model_with_tensor(), _entry_paths(1)
    ),
    "external-entries-without-flag": Case(
        _model_with_tensor(fields="float_data: [1, 2, 3, 4]"), _model_with_tensor(), _TENSOR_PATHS
    ),
    "external-not-for-strings": Case(_model_with_tensor(type=8), _model_with_tensor(), _TENSOR_PATHS),
    "external-before-ir4": Case(
        _model_with_tensor(ir=3), _model_with_tensor("", "float_data: [1, 2, 3, 4]", ir=3), _TENSOR_PATHS
    ),
}

# Cases of rules about files are in test_check_external.py.
TESTED_ELSEWHERE = {
    "external-location-contained", "external-file-regular", "external-file-not-linked", "external-range-in-file",
    "external-checksum-match",
}  # fmt: skip
