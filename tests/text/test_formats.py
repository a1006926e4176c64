"""The text format and JSON are printed and read as by the official runtime."""

from __future__ import annotations

import random
import struct
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

import pytest
import test_json
import test_json_parser
import test_text
import test_text_parser
import wire
from budget import examples
from google.protobuf import json_format, text_format
from hypothesis import example, given
from hypothesis import strategies as st
from test_bundled_files import FILES, classes_of, read
from test_text import EVERY_MESSAGE, EVERYTHING, FLOATS, PAIRS, TENSOR, field_number
from test_text_parser import mutate_text, text_in_every_type

import onnxwire
from onnxwire.text import printed_fields, text_source

# Python warns about invalid escapes while either text reader decodes a string.
pytestmark = [
    pytest.mark.filterwarnings("ignore:invalid escape sequence:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:invalid octal escape sequence:DeprecationWarning"),
]
DIGITS = Path(__file__).parents[2] / "examples" / "digits_cnn.onnx"


@dataclass
class Format:
    """The text format or JSON.

    printer_tests, parser_tests: the test modules of its printer and its parser. to_format, from_format: the functions
    of onnxwire. print_officially: the printer of the official runtime. sample: a text of test.Everything.
    """

    printer_tests: ModuleType
    parser_tests: ModuleType
    to_format: Any
    from_format: Any
    print_officially: Any
    sample: str

    def read_in_pieces(self, size):
        """Return a context manager; in its block, texts are read in pieces of `size` characters."""
        return mock.patch.object(text_source, "CHUNK_CHARS", size)


FORMATS = {
    "text": Format(
        test_text, test_text_parser, onnxwire.to_text, onnxwire.from_text, text_format.MessageToString,
        'one_string: "é€𝄞" # é\nmany_int32: [1, 2]\n',
    ),
    "json": Format(
        test_json, test_json_parser, onnxwire.to_json, onnxwire.from_json, json_format.MessageToJson,
        '{"oneString": "é€𝄞",\n"manyInt32": [1, 2]}\n',
    ),
}  # fmt: skip
EACH_FORMAT = pytest.mark.parametrize("format", FORMATS.values(), ids=FORMATS)

# --- printing


@EACH_FORMAT
@EVERY_MESSAGE
@examples(20)
@given(data=st.data())
def test_every_message_is_printed_as_officially(format, name, data):
    format.printer_tests.check(PAIRS[name], data.draw(wire.valid_wire(PAIRS[name].ours.DESCRIPTOR, 2)))


@EACH_FORMAT
def test_every_bundled_file_is_printed_as_officially(format):
    for file in FILES:
        format.printer_tests.check(classes_of(file), read(file))


@EACH_FORMAT
@examples(80)
@given(values=st.lists(FLOATS, max_size=60))
@example(values=[sign * 2.0**n for n in range(-149, 128) for sign in (1, -1)])
# The largest floats, and infinity.
@example(values=[struct.unpack("<f", struct.pack("<I", bits))[0] for bits in range(0x7F7FFF00, 0x7F800001)])
def test_floats_have_the_official_digits(format, values):
    format.printer_tests.check(TENSOR, TENSOR.official(float_data=values, double_data=values).SerializeToString())


@EACH_FORMAT
def test_more_numbers_than_are_formatted_at_once_are_all_printed(format):
    values = range(-5, 2 * printed_fields.BATCH_NUMBERS + 5)
    tensor = TENSOR.official(int64_data=values, int32_data=values, float_data=values, double_data=values)
    format.printer_tests.check(TENSOR, tensor.SerializeToString())


@EACH_FORMAT
@examples(80)
@given(texts=st.lists(st.text() | st.binary(), max_size=3))
@example(texts=[bytes([byte]) for byte in range(256)])
@example(texts=["".join(map(chr, range(0x250)))])
@example(texts=["\u2028\U0010ffff\ud7ff\ue000", "a" * 100])
# Invalid UTF-8: truncated characters, a surrogate, an overlong NUL and the byte 0xff; and valid characters.
@example(texts=[b"\xf0\x9f\x98A", b"\xed\xa0\x80", b"\xc0\x80", b"a\xff\xe2\x82", "\u0800\U0010ffff"])
def test_strings_and_bytes_have_the_official_format(format, texts):
    numbers = [field_number(EVERYTHING.ours, name) for name in ("many_string", "many_bytes", "one_string", "one_bytes")]
    values = [value if isinstance(value, bytes) else value.encode() for value in texts]
    format.printer_tests.check(
        EVERYTHING, b"".join(wire.len_record(number, value) for number in numbers for value in values)
    )


@EACH_FORMAT
@pytest.mark.parametrize("piece", ["a", "ä", "€", "𝄞", "\0", "a𝄞€", b"a\xff", b"\xf0\x9f\x98"], ids=ascii)
@pytest.mark.parametrize("name", ["one_string", "many_string", "one_bytes", "many_bytes"])
def test_values_too_long_to_be_read_at_once_have_the_official_format(format, name, piece):
    encoded_piece = piece if isinstance(piece, bytes) else piece.encode()
    number = field_number(EVERYTHING.ours, name)
    # In each iteration, the first chunk of CHUNK_BYTES ends at another byte of a piece.
    for offset in range(4):
        value = (
            b"y" * (printed_fields.CHUNK_BYTES - 10 + offset) + encoded_piece * 8 + b"z" * printed_fields.SMALL_BYTES
        )
        format.printer_tests.check(
            EVERYTHING,
            wire.len_record(number, value) + wire.len_record(number, b"short") + wire.len_record(number, value),
        )


# --- reading


@EACH_FORMAT
@EVERY_MESSAGE
@examples(15)
@given(data=st.data())
def test_texts_of_the_official_printer_are_read_as_by_the_official_parser(format, name, data):
    message = PAIRS[name].official.FromString(data.draw(wire.valid_wire(PAIRS[name].ours.DESCRIPTOR, 2)))
    for style in format.parser_tests.STYLES:
        format.parser_tests.check(PAIRS[name], format.print_officially(message, **style))


@EACH_FORMAT
@pytest.mark.parametrize("name", ["test.Everything", "test.Sparse", "test.Holder"])
@examples(40)
@given(seed=st.integers(0, 1 << 32))
def test_random_texts_are_accepted_or_rejected_as_by_the_official_runtime(format, name, seed):
    rng = random.Random(seed)
    for _ in range(20):
        text = format.parser_tests.random_text(rng, PAIRS[name].ours.DESCRIPTOR, 3)
        format.parser_tests.check(PAIRS[name], mutate_text(rng, text, format.parser_tests.SNIPPETS))


@EACH_FORMAT
@EVERY_MESSAGE
@examples(15)
@given(data=st.data(), seed=st.integers(0, 1 << 32))
def test_mutated_texts_are_accepted_or_rejected_as_by_the_official_runtime(format, name, data, seed):
    our_class, official_class = PAIRS[name]
    rng = random.Random(seed)
    text = format.print_officially(official_class.FromString(data.draw(wire.valid_wire(our_class.DESCRIPTOR, 2))))
    if len(text) < 5000:
        for _ in range(5):
            format.parser_tests.check(PAIRS[name], mutate_text(rng, text, format.parser_tests.SNIPPETS))


@EACH_FORMAT
@examples(40)
@given(seed=st.integers(0, 1 << 32))
def test_the_size_of_the_pieces_of_a_text_does_not_matter(format, seed):
    rng = random.Random(seed)
    for _ in range(10):
        text = mutate_text(
            rng, format.parser_tests.random_text(rng, EVERYTHING.ours.DESCRIPTOR, 3), format.parser_tests.SNIPPETS
        )
        expected = format.parser_tests.reading(EVERYTHING, text)
        with format.read_in_pieces(rng.choice([1, 2, 3, 10, 30, 200])):
            assert format.parser_tests.reading(EVERYTHING, text) == expected


@EACH_FORMAT
@pytest.mark.parametrize("size", [1000, text_source.CHUNK_CHARS])
@pytest.mark.parametrize("difference_from_batch", [-1, 0, 1, printed_fields.BATCH_NUMBERS + 3])
def test_all_numbers_are_read_whether_or_not_they_fill_whole_batches(format, difference_from_batch, size):
    n = printed_fields.BATCH_NUMBERS + difference_from_batch
    values = range(-5, n - 5)
    message = EVERYTHING.official(many_double=values, many_int32=values, many_sint64=values, many_string=["x"] * n)
    message.many_bool.extend(value % 3 == 0 for value in values)
    message.many_shade.extend([0, 70] * (n // 2))  # the numbers of two values of the enum
    with format.read_in_pieces(size):
        for style in format.parser_tests.STYLES:
            text = format.print_officially(message, **style)
            assert format.from_format(text, EVERYTHING.ours).SerializeToString() == message.SerializeToString()


@EACH_FORMAT
def test_a_text_may_be_a_str_bytes_or_a_file(format, tmp_path):
    expected = format.parser_tests.official_reading(EVERYTHING.official, format.sample)
    for text in text_in_every_type(format.sample):
        assert format.parser_tests.reading(EVERYTHING, text) == expected
    path = tmp_path / "sample"
    path.write_text(format.sample, encoding="utf-8")
    for mode, encoding in (("rb", None), ("r", "utf-8")):
        with open(path, mode, encoding=encoding) as file:
            assert format.parser_tests.reading(EVERYTHING, file) == expected


@EACH_FORMAT
def test_the_default_class_is_modelproto(format):
    model = format.from_format(format.to_format(onnxwire.load(DIGITS)))
    assert type(model) is onnxwire.ModelProto
    assert model == onnxwire.load(DIGITS)
