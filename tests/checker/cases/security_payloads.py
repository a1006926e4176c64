"""Cases of the rules `security-payload-*`: programs and other hidden data inside a model."""

from cases.security_wire import VALID_BYTES, field
from check_case import Case, model, node

_TENSOR_PATHS = ("graph.initializer[0]",)


def _model_with_raw_data(content: str) -> str:
    """Return a model with a tensor of 16 bytes. content: the escaped bytes."""
    return model(f'initializer {{ name: "w" data_type: 2 dims: 16 raw_data: "{content}" }}')


def _model_with_floats(are_different: bool) -> str:
    """Return a model with 32 NaNs. are_different: whether their bits differ."""
    content = "".join(f"\\{i if are_different else 0:03o}\\000\\300\\177" for i in range(32))
    return model(f'initializer {{ name: "w" data_type: 1 dims: 32 raw_data: "{content}" }}')


def _model_with_attribute(content: str) -> str:
    """Return a model with a node that has a string as attribute."""
    return model(node("x", "y", f'attribute {{ name: "a" type: STRING s: "{content}" }}'))


def _model_with_large_weight(name: str) -> str:
    """Return a model with the weight w of 1 MiB, and a node. name: the input of the node."""
    data = "\\000" * (1 << 20)
    return model(
        f'initializer {{ name: "w" data_type: 2 dims: {1 << 20} raw_data: "{data}" }}'
        + node(name, "y")
        + 'output { name: "y" }'
    )


_ELF = "\\177ELF\\002\\001\\001" + "\\000" * 9

CASES = {
    "security-payload-tensor": Case(
        _model_with_raw_data(_ELF), _model_with_raw_data("\\177ELG" + "\\000" * 12), _TENSOR_PATHS
    ),
    "security-payload-float": Case(
        _model_with_floats(are_different=True), _model_with_floats(are_different=False), _TENSOR_PATHS
    ),
    # ir_version 8, then a producer_name of 4 bytes; in the broken model, the signature of the format ORT at offset 4.
    "security-payload-polyglot": Case(b"\x08\x08\x12\x04ORTM", b"\x08\x08\x12\x04ORTN"),
    "security-payload-attribute": Case(
        _model_with_attribute("PK\\003\\004abcdefgh"), _model_with_attribute("NOTSET"), ("graph.node[0].attribute[0]",)
    ),
    "security-payload-text": Case(model(fields='doc_string: "#!/bin/sh"'), model(fields='doc_string: "# A model"')),
    "security-payload-encoded": Case(
        model(fields=f'metadata_props {{ key: "k" value: "{"0123abcd" * 64}" }}'),
        model(fields=f'metadata_props {{ key: "k" value: "{"plain words " * 64}" }}'),
        ("metadata_props[0]",),
    ),
    "security-payload-long-text": Case(
        model(fields=f'doc_string: "{"a word " * 10_000}"'), model(fields='doc_string: "a word"')
    ),
    "security-payload-unknown": Case(VALID_BYTES + field(99, b"#!/bin/sh"), VALID_BYTES + field(99, b"hello")),
    "security-payload-unused": Case(_model_with_large_weight("x"), _model_with_large_weight("w"), _TENSOR_PATHS),
}
