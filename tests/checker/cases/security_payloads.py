from cases.security_wire import VALID_BYTES, field
from check_case import Case, model, node

_TENSOR = ("graph.initializer[0]",)


def _raw(content: str) -> str:
    return model(f'initializer {{ name: "w" data_type: 2 dims: 16 raw_data: "{content}" }}')


def _floats(nans: bool) -> str:
    """A model with 32 floats: NaNs with different bits, or a number and one NaN."""
    content = "".join(f"\\{i if nans else 0:03o}\\000\\300\\177" for i in range(32))
    return model(f'initializer {{ name: "w" data_type: 1 dims: 32 raw_data: "{content}" }}')


def _attribute(content: str) -> str:
    return model(node("x", "y", f'attribute {{ name: "a" type: STRING s: "{content}" }}'))


def _unused(name: str) -> str:
    data = "\\000" * (1 << 20)
    return model(
        f'initializer {{ name: "w" data_type: 2 dims: {1 << 20} raw_data: "{data}" }}'
        + node(name, "y")
        + 'output { name: "y" }'
    )


_ELF = "\\177ELF\\002\\001\\001" + "\\000" * 9

CASES = {
    "security-payload-tensor": Case(_raw(_ELF), _raw("\\177ELG" + "\\000" * 12), _TENSOR),
    "security-payload-float": Case(_floats(nans=True), _floats(nans=False), _TENSOR),
    # ir_version 0x4d, then a field whose tag and length spell ORTM.
    "security-payload-polyglot": Case(b"\x08\x08\x12\x04ORTM", b"\x08\x08\x12\x04ORTN"),
    "security-payload-attribute": Case(
        _attribute("PK\\003\\004abcdefgh"), _attribute("NOTSET"), ("graph.node[0].attribute[0]",)
    ),
    "security-payload-text": Case(model(rest='doc_string: "#!/bin/sh"'), model(rest='doc_string: "# A model"')),
    "security-payload-encoded": Case(
        model(rest=f'metadata_props {{ key: "k" value: "{"0123abcd" * 64}" }}'),
        model(rest=f'metadata_props {{ key: "k" value: "{"plain words " * 64}" }}'),
        ("metadata_props[0]",),
    ),
    "security-payload-long-text": Case(
        model(rest=f'doc_string: "{"a word " * 10_000}"'), model(rest='doc_string: "a word"')
    ),
    "security-payload-unknown": Case(VALID_BYTES + field(99, b"#!/bin/sh"), VALID_BYTES + field(99, b"hello")),
    "security-payload-unused": Case(_unused("x"), _unused("w"), _TENSOR),
}
