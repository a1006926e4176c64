"""Cases of the security rules of external files."""

from check_case import Case, model

_LOCATION_PATHS = ("graph.initializer[0].external_data[0]",)


def _tensor(location: str = "w.bin", offset: str = "0", fields: str = "", type: int = 1, name: str = "w") -> str:
    """Return an external tensor of 16 bytes."""
    entries = {"location": location, "offset": offset, "length": "16"}
    texts = [f'external_data {{ key: "{key}" value: "{value}" }}' for key, value in entries.items()]
    texts += [fields, "data_location: EXTERNAL"]
    return f'initializer {{ name: "{name}" data_type: {type} dims: 4 {" ".join(texts)} }}'


def _location_case(location: str, valid: str = "folder/w.bin") -> Case:
    """Return a case whose tensors have these locations."""
    return Case(model(_tensor(location)), model(_tensor(valid)), _LOCATION_PATHS)


CASES = {
    "security-file-memory-address": _location_case("*/_ORT_MEM_ADDR_/*"),
    "security-file-location": _location_case("https://example.com/w.bin", "weights-1.0/w_1.bin"),
    "security-file-kind": _location_case(".ssh/id_rsa", "model.onnx.data"),
    "security-file-key": Case(
        model(_tensor(fields='external_data { key: "__class__" value: "x" }')),
        model(_tensor()),
        ("graph.initializer[0].external_data[3]",),
    ),
    "security-file-number": Case(
        model(_tensor(offset="010")),
        model(_tensor(offset="10")),
        ("graph.initializer[0].external_data[1]",),
    ),
    "security-file-overflow": Case(
        model(_tensor(offset=str(2**63 - 8))), model(_tensor(offset=str(2**63 - 17))), ("graph.initializer[0]",)
    ),
    "security-file-overlap": Case(
        model(_tensor() + _tensor("./w.bin", "8", name="v")),
        model(_tensor() + _tensor(offset="16", name="v") + _tensor(name="u") + _tensor("v.bin", "8", name="t")),
        ("graph.initializer[1]",),
    ),
    # In the broken model, the tensors have the types FLOAT and INT32. In the valid model, both are FLOAT.
    "security-file-shared": Case(
        model(_tensor() + _tensor(type=6, name="v")), model(_tensor() + _tensor(name="v")), ("graph.initializer[1]",)
    ),
    "security-file-alias": Case(
        model(_tensor() + _tensor("./W.bin", "16", name="v")),
        model(_tensor() + _tensor("v.bin", name="v")),
        ("graph.initializer[1].external_data[0]",),
    ),
    "security-file-checksum-absent": Case(
        model(_tensor()),
        model(_tensor(fields=f'external_data {{ key: "checksum" value: "{"0" * 40}" }}')),
        ("graph.initializer[0]",),
    ),
    "security-file-checksum-weak": Case(
        model(_tensor(fields=f'external_data {{ key: "checksum" value: "{"0" * 40}" }}')),
        model(_tensor()),
        ("graph.initializer[0].external_data[3]",),
    ),
}

# test_security_files.py makes files for these rules.
TESTED_ELSEWHERE = {"security-file-own-model", "security-file-gap", "security-file-payload"}
