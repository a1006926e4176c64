from check_case import Case, model

_TENSOR = ("graph.initializer[0]",)
_SHA1 = "0123456789abcdefABCD0123456789abcdefABCD"


def _entry(key: str, value: str) -> str:
    return f'external_data {{ key: "{key}" value: "{value}" }}'


_FILE = _entry("location", "w.bin")


def _tensor(entries: str = _FILE, rest: str = "data_location: EXTERNAL", type: int = 1, ir: int = 8) -> str:
    return model(f'initializer {{ name: "w" data_type: {type} dims: 4 {entries} {rest} }}', ir)


def _at(entry: int) -> tuple[str, ...]:
    return (f"graph.initializer[0].external_data[{entry}]",)


def _with(key: str, wrong: str, right: str) -> Case:
    """Return a case whose tensor has an entry after that of the location."""
    return Case(_tensor(_FILE + _entry(key, wrong)), _tensor(_FILE + _entry(key, right)), _at(1))


def _location(wrong: str, right: str = "folder/w.bin") -> Case:
    return Case(_tensor(_entry("location", wrong)), _tensor(_entry("location", right)), _at(0))


CASES = {
    "external-value-fields-empty": Case(
        _tensor(rest="data_location: EXTERNAL float_data: 1"),
        _tensor(rest='data_location: EXTERNAL raw_data: ""'),
        _TENSOR,
    ),
    "external-location-present": Case(_tensor(_entry("location", "")), _tensor(), _TENSOR),
    "external-location-relative": _location("C:/w.bin"),
    "external-location-no-parent": _location("folder/../../w.bin", "folder/.w.bin"),
    "external-location-posix": _location("folder\\\\w.bin"),
    "external-location-hash-marker": _location("#w", "w#"),
    "external-offset-format": _with("offset", "-1", "0004096"),
    "external-length-format": _with("length", "0x10", "16"),
    "external-length-matches-shape": _with("length", "15", "16"),
    "external-offset-alignment": _with("offset", "4095", "4096"),
    "external-offset-alignment-windows": _with("offset", "4096", "65536"),
    "external-checksum-format": _with("checksum", _SHA1[1:], _SHA1),
    "external-key-unique": Case(_tensor(_FILE + _FILE), _tensor(), _at(1)),
    "external-key-known": Case(_tensor(_FILE + _entry("size", "16")), _tensor(_FILE + _entry("length", "16")), _at(1)),
    "external-key-basepath": Case(_tensor(_FILE + _entry("basepath", "/home/me")), _tensor(), _at(1)),
    "external-entries-without-flag": Case(_tensor(rest="float_data: [1, 2, 3, 4]"), _tensor(), _TENSOR),
    "external-not-for-strings": Case(_tensor(type=8), _tensor(), _TENSOR),
    "external-before-ir4": Case(_tensor(ir=3), _tensor("", "float_data: [1, 2, 3, 4]", ir=3), _TENSOR),
}

# Cases of rules about files are in test_check_external.py.
TESTED_ELSEWHERE = {
    "external-location-contained", "external-file-regular", "external-file-not-linked", "external-range-in-file",
    "external-checksum-match",
}  # fmt: skip
