"""Records, rows of the page and `info --raw` show the values of the fields of a message; formatting of values."""

from __future__ import annotations

import io
import json
import random
import struct

import numpy as np
import pytest
import wire
from everything import EVERYTHING, PAIRS

import onnxwire
from onnxwire.analysis import records
from onnxwire.analysis.describe import describe_bytes, describe_list, describe_number, describe_value
from onnxwire.cli.raw_dump import Printer
from onnxwire.errors import DecodeError
from onnxwire.viewer.field_tree import FieldQueries

OFFICIAL = PAIRS["test.Everything"][1]  # the class of the official runtime
# The fields of numbers, bools and enums.
NUMBERS = [field for field in EVERYTHING.DESCRIPTOR.fields if not field.is_span]
# Integer types, as numbers of FieldDescriptorProto.Type.
SIGNED_TYPES = (3, 5, 15, 16, 17, 18)  # int64, int32, sfixed32, sfixed64, sint32, sint64
INTEGER_TYPES_OF_64_BITS = (3, 4, 6, 16, 18)  # int64, uint64, fixed64, sfixed64, sint64


def random_number(field, rng):
    """Draw a value of a field. Integers are often the lowest or highest of their type."""
    if field.enum_type is not None:
        return rng.choice(list(field.enum_type.values)).number
    field_type = field.type
    if field_type == field.TYPE_BOOL:
        return rng.random() < 0.5
    if field_type in (field.TYPE_FLOAT, field.TYPE_DOUBLE):
        width = "f" if field_type == field.TYPE_FLOAT else "d"
        bits = rng.getrandbits(8 * struct.calcsize(width)).to_bytes(struct.calcsize(width), "little")
        round_to_float32 = lambda x: struct.unpack("f", struct.pack("f", x))[0]  # noqa: E731
        return rng.choice(
            [struct.unpack(width, bits)[0], 16777216.0, round_to_float32(0.1), 0.5, -0.0, round_to_float32(1e20)]
        )
    size = 64 if field_type in INTEGER_TYPES_OF_64_BITS else 32
    low, high = (-(1 << size - 1), (1 << size - 1) - 1) if field_type in SIGNED_TYPES else (0, (1 << size) - 1)
    return rng.choice([low, high, 5, max(-3, low), rng.randint(low, high)])


def expected_text(field, value):
    """Format a number independently of the code under test. Return None for a float32, which can have several texts."""
    if field.enum_type is not None:
        return field.enum_type.values_by_number[value].name
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return repr(value) if field.type == field.TYPE_DOUBLE else None
    return str(value)


def is_text_of(text, field, value):
    """Return whether a text is the correct text of a number."""
    expected = expected_text(field, value)
    if expected is not None:
        return text == expected
    # The text must parse to the same float32, and have at most 6 digits, or at most as many as numpy's shortest text.
    parsed = np.float32(text)
    digits = len(text.partition("e")[0].strip("-").replace(".", "").strip("0"))
    shortest = np.format_float_scientific(np.float32(value), trim="-", unique=True).partition("e")[0]
    is_short = digits <= max(len(shortest.strip("-").replace(".", "")), 6)
    return (np.isnan(parsed) and np.isnan(value)) or (parsed.tobytes() == np.float32(value).tobytes() and is_short)


def page_texts(message):
    """Return the texts in the record list of the page, by field name."""
    texts_by_name = {}
    for row in FieldQueries(message).records("", 0, 1000)["rows"]:
        texts_by_name.setdefault(row["name"], []).append(row["text"])
    return texts_by_name


def raw_texts(message):
    """Return the texts in the lines of `info --raw`, by field name."""
    out = io.StringIO()
    document = message._document
    Printer(document, out).print_message(message.DESCRIPTOR, 0, len(document))
    texts_by_name = {}
    for line in out.getvalue().splitlines():
        # A line has the offset, the number and the name of the field, and the value.
        label, _, text = line.partition(": ")
        texts_by_name.setdefault(label.split()[2], []).append(text)
    return texts_by_name


def without_codes(text):
    """Return the text of an enum's value without its number: RED for "RED (1)"."""
    return text.partition(" (")[0]


@pytest.mark.parametrize("field", NUMBERS, ids=lambda field: field.name)
def test_the_page_the_raw_output_and_records_show_the_value_of_a_field(field):
    rng = random.Random(field.number)
    for _ in range(40):
        official = OFFICIAL()
        values = [random_number(field, rng) for _ in range(rng.randrange(1, 9) if field.is_repeated else 1)]
        if field.is_repeated:
            getattr(official, field.name).extend(values)
        else:
            setattr(official, field.name, values[0])
        message = EVERYTHING.FromString(official.SerializeToString())
        read_values = getattr(message, field.name)
        read_values = list(read_values) if field.is_repeated else [read_values]
        np.testing.assert_array_equal(read_values, values)
        for texts in (page_texts(message)[field.name], raw_texts(message)[field.name]):
            if field.is_packed:
                assert len(texts) == 1 and texts[0][0] + texts[0][-1] == "[]"
                texts = texts[0][1:-1].split(", ")
            shown_texts = [without_codes(text) for text in texts]
            assert len(shown_texts) == len(values)
            assert all(map(is_text_of, shown_texts, [field] * len(shown_texts), values)), (shown_texts, values)
        record_iterator = records.walk(message._document, message.DESCRIPTOR, 0, len(message._document))
        decoded_values = []
        for record in record_iterator:
            if record.raw is not None:
                decoded_values.append(records.decode_number(record.field, record.raw))
            else:
                decoded_values += records.read_numbers(message._document, field, record.value_start, record.end, 1000)[
                    0
                ]
        np.testing.assert_array_equal(decoded_values, values)


@pytest.mark.parametrize("name", [field.name for field in NUMBERS if field.wire_type == 0 and not field.is_repeated])
def test_varints_longer_than_their_type_are_truncated_as_by_protobuf(name):
    field = EVERYTHING.DESCRIPTOR.fields_by_name[name]
    tag = wire.tag(field.number, wire.VARINT)
    for bits in (1 << 32, (1 << 33) + 3, (1 << 64) - 1, (1 << 63) + (1 << 31) + 1, 0xFFFFFFFF):
        data = tag + wire.varint(bits)
        message = EVERYTHING.FromString(data)
        if not message.HasField(name):
            continue  # not a value of a closed enum, so an unknown field
        assert page_texts(message)[name] == raw_texts(message)[name] or field.enum_type is not None
        expected_value = getattr(OFFICIAL.FromString(data), name)
        assert getattr(message, name) == expected_value
        assert is_text_of(without_codes(page_texts(message)[name][0]), field, expected_value)


def test_a_long_or_damaged_packed_run_is_marked():
    field = next(field for field in NUMBERS if field.is_packed and field.type == field.TYPE_SINT32)
    message = EVERYTHING()
    getattr(message, field.name).extend([-3] * 100)
    parsed_message = EVERYTHING.FromString(message.SerializeToString())
    assert page_texts(parsed_message)[field.name] == ["[" + "-3, " * 16 + "… (100 bytes)]"]
    tag = message.SerializeToString()[:2]
    # The zigzag varint 5 is -3. A final byte 0xff is a truncated varint.
    for run, expected_text_of_run in ((b"\x05\xff", "[-3, (damaged)]"), (b"\xff", "[(damaged)]"), (b"", "[]")):
        data = tag + bytes([len(run)]) + run
        document = onnxwire.NodeProto.FromString(data)._document
        record = records.read(document, EVERYTHING.DESCRIPTOR, 0, len(data))
        assert records.describe_record(document, record) == expected_text_of_run


def test_unknown_fields_are_shown_by_their_wire_type():
    # Unknown fields with a varint, 32 bits, 64 bits, text, bytes and a group.
    data = wire.varint_record(1000, (1 << 64) - 1)
    data += wire.tag(1000, wire.FIXED32) + bytes([5, 0, 0, 0]) + wire.tag(1000, wire.FIXED64) + bytes(7) + b"\x01"
    # The group contains field 1: varint 1.
    data += wire.len_record(1000, b'a"b') + wire.len_record(1000, b"\xff\x00") + wire.group(1000, b"\x08\x01")
    message = EVERYTHING.FromString(data)
    rows = FieldQueries(message).records("")["rows"]
    assert [row["text"] for row in rows] == [
        "18446744073709551615", "0x00000005", "0x0100000000000000", '"a\\"b"', "ff 00", "a group of 4 bytes",
    ]  # fmt: skip
    assert {row["path"] for row in rows} == {None}


def test_a_retired_field_has_its_name_but_no_path():
    data = onnxwire.FunctionProto(name="f").SerializeToString() + b"\x10\x07"  # field 2: varint 7
    row = FieldQueries(onnxwire.FunctionProto.FromString(data)).records("")["rows"][1]
    assert (row["name"], row["path"], row["text"], row["is_message"]) == ("since_version", None, "7", False)


def test_a_damaged_record_is_an_error():
    message = EVERYTHING.FromString(b"\x18\x05")  # field 3: varint 5
    # The end at offset 1 truncates the record.
    with pytest.raises(DecodeError):
        list(records.walk(onnxwire.NodeProto.FromString(b"\x18\x05")._document, None, 0, 1))
    assert [record.number for record in records.walk(message._document, None, 0, 2)] == [3]


def test_float_attributes_are_shown_without_loss_of_digits():
    attribute = onnxwire.AttributeProto(name="a", type=onnxwire.AttributeProto.FLOAT, f=16777216.0)
    # As a float32, 16777217 is 16777216.
    floats = onnxwire.AttributeProto(name="b", type=onnxwire.AttributeProto.FLOATS, floats=[16777217.0, 0.1, 1e-7])
    model = onnxwire.ModelProto()
    model.graph.node.add(op_type="X").attribute.extend([attribute, floats])
    from onnxwire.viewer.queries import Queries

    attributes = Queries(model).node("graph.node[0]")["attributes"]
    assert [entry["text"] for entry in attributes] == ["16777216.0", "[16777216.0, 0.1, 1e-07]"]


# --- Formatting of values.


def test_bytes_are_text_in_quotes_or_hexadecimal():
    assert describe_bytes(b"", 0) == '""'
    assert describe_bytes(b'a"\n', 3) == '"a\\"\\n"'
    assert describe_bytes("ä€".encode(), 5) == '"ä€"'
    assert describe_bytes(b"\0\xff", 2) == "00 ff"
    assert describe_bytes(b"\xc3", 1) == "c3"
    # Truncation after 4 bytes splits a character.
    assert describe_bytes("aä€".encode()[:4], 6, 1) == '"a" … (6 bytes)'
    assert describe_bytes(bytes(100), 1 << 20, 3) == "00 00 00 … (1,048,576 bytes)"
    # The bytes clear the screen of a terminal.
    assert describe_bytes(b"\x1b[2J", 4) == "1b 5b 32 4a"


def test_values_and_lists_are_formatted_and_truncated_to_the_requested_length():
    fields = EVERYTHING.DESCRIPTOR.fields_by_name
    assert describe_value(fields["one_string"], "x" * 300, 10) == "x" * 10 + "…"
    assert describe_value(fields["one_string"], "x" * 300, 10, quoted=True) == f'"{"x" * 10}"…'
    message = EVERYTHING(one_string="ä" * 300)
    assert describe_value(fields["one_string"], message._payload("one_string"), 10) == "ä" * 10 + "…"
    text = describe_list(onnxwire.NodeProto.DESCRIPTOR.fields_by_name["input"], ["a", 'b"'] * 20, 2)
    assert text == '["a", "b\\"", … (40)]'
    assert json.loads(describe_list(onnxwire.NodeProto.DESCRIPTOR.fields_by_name["input"], ["a", 'b"'])) == ["a", 'b"']
    assert (
        describe_number(onnxwire.TensorProto.DESCRIPTOR.fields_by_name["data_type"], 1, with_codes=True) == "FLOAT (1)"
    )
