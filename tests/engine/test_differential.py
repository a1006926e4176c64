"""Reading, `verify` and equality of ONNX messages have the same results as in the official runtime."""

from __future__ import annotations

import pytest
import wire
from budget import examples
from hypothesis import given
from hypothesis import strategies as st

import onnxwire
from onnxwire.messages import SCHEMA

pytestmark = wire.needs_upb

NAMES = list(SCHEMA.messages)
EVERY_MESSAGE = pytest.mark.parametrize("name", NAMES)


NAMES_WITH_MESSAGE_FIELDS = [
    name for name, cls in SCHEMA.messages.items() if any(field.message_type for field in cls.DESCRIPTOR.fields)
]


def classes_of(name):
    """Return onnxwire's class and the official class of a message."""
    return SCHEMA.messages[name], wire.official_class(name)


@EVERY_MESSAGE
@examples(15)
@given(data=st.data())
def test_every_field_reads_as_the_official_runtime_reads_it(name, data):
    our_class, official_class = classes_of(name)
    wire.check_reading(our_class, official_class, data.draw(wire.valid_wire(our_class.DESCRIPTOR)))


@EVERY_MESSAGE
@examples(15)
@given(data=st.data())
def test_verify_accepts_malformed_bytes_exactly_if_the_official_runtime_does(name, data):
    our_class, official_class = classes_of(name)
    wire.check_acceptance(our_class, official_class, data.draw(wire.malformed_wire(our_class.DESCRIPTOR)))


@EVERY_MESSAGE
@examples(15)
@given(data=st.data())
def test_verify_accepts_damaged_bytes_exactly_if_the_official_runtime_does(name, data):
    our_class, official_class = classes_of(name)
    wire.check_acceptance(our_class, official_class, data.draw(wire.damaged_wire(our_class.DESCRIPTOR)))


@EVERY_MESSAGE
@examples(15)
@given(data=st.data())
def test_reading_flawed_bytes_succeeds_or_raises_decode_error(name, data):
    our_class, official_class = classes_of(name)
    wire.check_walk(
        our_class,
        official_class,
        data.draw(wire.malformed_wire(our_class.DESCRIPTOR, 1) | wire.damaged_wire(our_class.DESCRIPTOR)),
    )


@EVERY_MESSAGE
@examples(10)
@given(data=st.data())
def test_encoding_an_unedited_message_returns_its_bytes(name, data):
    our_class, _ = classes_of(name)
    encoded = data.draw(wire.valid_wire(our_class.DESCRIPTOR, 1))
    message = our_class.FromString(encoded)
    assert message.SerializeToString() == encoded
    assert message.ByteSize() == len(encoded)


@pytest.mark.parametrize("name", NAMES_WITH_MESSAGE_FIELDS)
@examples(14)
@given(data=st.data())
def test_the_encoding_of_a_nested_message_decodes_to_an_equal_message(name, data):
    our_class, official_class = classes_of(name)
    encoded = data.draw(wire.valid_wire(our_class.DESCRIPTOR, 1))
    message, expected = our_class.FromString(encoded), official_class.FromString(encoded)
    for field, value in message.ListFields():
        if field.message_type is not None and not field.is_repeated:
            child = getattr(expected, field.name)
            assert len(value.SerializeToString()) == value.ByteSize()
            assert type(child).FromString(value.SerializeToString()) == child


# --- equality


@EVERY_MESSAGE
@examples(14)
@given(data=st.data())
def test_messages_of_reordered_records_compare_as_the_official_ones_do(name, data):
    our_class, official_class = classes_of(name)
    records = data.draw(wire.record_lists(our_class.DESCRIPTOR))
    wire.check_equality(our_class, official_class, b"".join(records), b"".join(data.draw(st.permutations(records))))


@EVERY_MESSAGE
@examples(14)
@given(data=st.data())
def test_messages_that_differ_in_at_most_one_record_compare_as_the_official_ones_do(name, data):
    our_class, official_class = classes_of(name)
    records = data.draw(wire.record_lists(our_class.DESCRIPTOR))
    other_records = data.draw(wire.record_lists(our_class.DESCRIPTOR, 1))
    index = data.draw(st.integers(0, len(records)))
    changed = records[:index] + other_records[:1] + records[index + data.draw(st.integers(0, 1)) :]
    wire.check_equality(our_class, official_class, b"".join(records), b"".join(changed))


@EVERY_MESSAGE
@examples(14)
@given(data=st.data())
def test_a_message_equals_its_official_encoding_if_the_official_message_does(name, data):
    our_class, official_class = classes_of(name)
    encoded = data.draw(wire.valid_wire(our_class.DESCRIPTOR, 2))
    wire.check_equality(our_class, official_class, encoded, official_class.FromString(encoded).SerializeToString())


UNKNOWN = 1000  # the number of an unknown field: no message has a field with this number


@pytest.mark.parametrize(
    ("first_bytes", "second_bytes"),
    [
        pytest.param(wire.varint_record(UNKNOWN, 1), wire.varint_record(UNKNOWN, 1, 3), id="overlong varint"),
        pytest.param(wire.varint_record(UNKNOWN, 1), wire.varint_record(UNKNOWN, 2), id="other varint"),
        pytest.param(wire.varint_record(UNKNOWN, 1), b"", id="absent"),
        pytest.param(
            wire.varint_record(UNKNOWN, 1) + wire.varint_record(UNKNOWN, 2),
            wire.varint_record(UNKNOWN, 2) + wire.varint_record(UNKNOWN, 1),
            id="one number in another order",
        ),
        pytest.param(
            wire.varint_record(UNKNOWN, 1) + wire.varint_record(UNKNOWN + 1, 2),
            wire.varint_record(UNKNOWN + 1, 2) + wire.varint_record(UNKNOWN, 1),
            id="two numbers in another order",
        ),
        pytest.param(
            wire.varint_record(UNKNOWN, 1) + wire.len_record(UNKNOWN, b"a"),
            wire.len_record(UNKNOWN, b"a") + wire.varint_record(UNKNOWN, 1),
            id="one number of two wire types in another order",
        ),
        pytest.param(wire.len_record(UNKNOWN, b"a"), wire.len_record(UNKNOWN, b"a", 3), id="overlong length"),
        pytest.param(wire.len_record(UNKNOWN, b"a"), wire.len_record(UNKNOWN, b"b"), id="other bytes"),
        pytest.param(
            wire.tag(UNKNOWN, wire.VARINT) + b"\1", wire.tag(UNKNOWN, wire.VARINT, 1) + b"\1", id="overlong tag"
        ),
        pytest.param(
            wire.varint_record(UNKNOWN, 1), wire.tag(UNKNOWN, wire.FIXED32) + b"\1\0\0\0", id="other wire type"
        ),
        pytest.param(wire.group(UNKNOWN), wire.group(UNKNOWN), id="same group"),
        pytest.param(wire.group(UNKNOWN), b"", id="absent group"),
        pytest.param(
            wire.group(UNKNOWN, wire.varint_record(1, 1)),
            wire.group(UNKNOWN, wire.varint_record(1, 2)),
            id="other group",
        ),
        pytest.param(
            wire.group(UNKNOWN, wire.varint_record(1, 1)),
            wire.group(UNKNOWN, wire.varint_record(1, 1, 2)),
            id="overlong varint in a group",
        ),
        pytest.param(
            wire.group(UNKNOWN, wire.len_record(1, b"a")),
            wire.group(UNKNOWN, wire.len_record(1, b"a", 2)),
            id="overlong length in a group",
        ),
        pytest.param(
            wire.group(UNKNOWN),
            wire.tag(UNKNOWN, wire.START) + wire.tag(UNKNOWN, wire.END, 2),
            id="overlong end of group",
        ),
        pytest.param(
            wire.group(UNKNOWN, wire.varint_record(1, 1) + wire.varint_record(2, 2)),
            wire.group(UNKNOWN, wire.varint_record(2, 2) + wire.varint_record(1, 1)),
            id="two numbers in another order in a group",
        ),
        pytest.param(
            wire.group(UNKNOWN, wire.varint_record(1, 1) + wire.varint_record(1, 2)),
            wire.group(UNKNOWN, wire.varint_record(1, 2) + wire.varint_record(1, 1)),
            id="one number in another order in a group",
        ),
        pytest.param(
            wire.group(UNKNOWN, wire.group(1, wire.varint_record(1, 1) + wire.varint_record(2, 2))),
            wire.group(UNKNOWN, wire.group(1, wire.varint_record(2, 2) + wire.varint_record(1, 1))),
            id="two numbers in another order in a group in a group",
        ),
    ],
)
def test_unknown_fields_compare_as_the_official_ones_do(first_bytes, second_bytes):
    wire.check_equality(*classes_of("onnx.OperatorSetIdProto"), first_bytes, second_bytes)


TYPE_FIELD_NUMBER = next(field.number for field in onnxwire.AttributeProto.DESCRIPTOR.fields if field.name == "type")


@pytest.mark.parametrize(
    ("first_bytes", "second_bytes"),
    [
        pytest.param(wire.varint_record(TYPE_FIELD_NUMBER, 900), b"", id="absent"),
        pytest.param(
            wire.varint_record(TYPE_FIELD_NUMBER, 900), wire.varint_record(TYPE_FIELD_NUMBER, 901), id="other value"
        ),
        pytest.param(
            wire.varint_record(TYPE_FIELD_NUMBER, 900),
            wire.varint_record(TYPE_FIELD_NUMBER, 900 + (1 << 32)),
            id="same low bits",
        ),
        pytest.param(
            wire.varint_record(TYPE_FIELD_NUMBER, -1),
            wire.varint_record(TYPE_FIELD_NUMBER, (1 << 32) - 1),
            id="negative",
        ),
        pytest.param(
            wire.varint_record(TYPE_FIELD_NUMBER, 900) + wire.varint_record(TYPE_FIELD_NUMBER, 1),
            wire.varint_record(TYPE_FIELD_NUMBER, 1) + wire.varint_record(TYPE_FIELD_NUMBER, 900),
            id="beside a known value",
        ),
    ],
)
def test_unknown_enum_values_compare_as_the_official_ones_do(first_bytes, second_bytes):
    wire.check_equality(*classes_of("onnx.AttributeProto"), first_bytes, second_bytes)


@pytest.mark.parametrize("name", ["f", "floats"])
def test_messages_with_nan_compare_as_the_official_ones_do(name):
    field = onnxwire.AttributeProto.DESCRIPTOR.fields_by_name[name]
    nan = wire.tag(field.number, wire.FIXED32) + b"\0\0\xc0\x7f"
    wire.check_equality(*classes_of("onnx.AttributeProto"), nan, nan)


@pytest.mark.parametrize("name", ["f", "floats"])
def test_zeros_of_either_sign_compare_as_the_official_ones_do(name):
    head = wire.tag(onnxwire.AttributeProto.DESCRIPTOR.fields_by_name[name].number, wire.FIXED32)
    wire.check_equality(*classes_of("onnx.AttributeProto"), head + b"\0\0\0\0", head + b"\0\0\0\x80")


def test_a_message_equals_no_object_of_another_class():
    assert onnxwire.TensorProto() != onnxwire.NodeProto()
    assert onnxwire.TensorProto() != 1


# --- groups

# Contents of groups, by description. "Number 0" is a tag with the field number 0.
GROUP_CONTENTS = {
    "nothing": b"",
    "number 0, varint": b"\0\0",
    "number 0, long tag": b"\x80\0\0",
    "number 0, fixed64": b"\1" + b"\0" * 8,
    "number 0, length": b"\2\0",
    "number 0, group": b"\3\4",
    "number 0, end of group": b"\4",
    "number 0, fixed32": b"\5\0\0\0\0",
    "number 0 in a group": wire.group(UNKNOWN, b"\0\0"),
    "tag of 5 bytes": wire.tag(1, wire.VARINT, 4) + b"\0",
    "tag of 6 bytes": wire.tag(1, wire.VARINT, 5) + b"\0",
    "tag of 33 bits": wire.tag(1 << 29, wire.VARINT) + b"\0",
    "length of 5 bytes": wire.len_record(1, b"abc", 4),
    "length of 6 bytes": wire.len_record(1, b"abc", 5),
    "length past the end": wire.tag(1, wire.LEN) + b"\x7f",
    "varint of 10 bytes": wire.varint_record(1, 0, 9),
    "varint of 11 bytes": wire.varint_record(1, 0, 10),
    "wire type 6": wire.tag(1, 6),
    "wire type 7": wire.tag(1, 7),
    "stray end": wire.tag(1, wire.END),
    "open group": wire.tag(1, wire.START),
}


@pytest.mark.parametrize("content", GROUP_CONTENTS)
def test_verify_accepts_exactly_the_groups_that_the_official_runtime_accepts(content):
    wire.check_acceptance(*classes_of("onnx.OperatorSetIdProto"), wire.group(UNKNOWN, GROUP_CONTENTS[content]))


# --- nesting

DEPTHS = pytest.mark.parametrize("depth", range(98, 104))
RECURSIVE_FIELDS = {
    # The path of fields from a message to a nested message of the same type.
    "onnx.GraphProto": ["node", "attribute", "g"],
    "onnx.TypeProto": ["sequence_type", "elem_type"],
    "onnx.SequenceProto": ["sequence_values"],
    "onnx.OptionalProto": ["optional_value"],
    "onnx.MapProto": ["values", "map_values"],
}


def nest(name, depth, content=b""):
    """Encode `depth` nested messages below the root, along a loop of fields; `content` is the encoding of the
    innermost message."""
    descriptor, numbers = SCHEMA.messages[name].DESCRIPTOR, []
    while len(numbers) < depth:
        for field_name in RECURSIVE_FIELDS[name]:
            numbers.append(descriptor.fields_by_name[field_name].number)
            descriptor = descriptor.fields_by_name[field_name].message_type
    for number in reversed(numbers[:depth]):
        content = wire.len_record(number, content)
    return content


def nest_groups(depth):
    """Encode `depth` nested groups of an unknown field."""
    return wire.tag(UNKNOWN, wire.START) * depth + wire.tag(UNKNOWN, wire.END) * depth


@DEPTHS
@pytest.mark.parametrize("name", RECURSIVE_FIELDS)
def test_messages_nest_as_deep_as_in_the_official_runtime(name, depth):
    wire.check_acceptance(*classes_of(name), nest(name, depth))


@DEPTHS
@pytest.mark.parametrize("name", RECURSIVE_FIELDS)
def test_messages_around_an_unknown_field_nest_as_deep_as_in_the_official_runtime(name, depth):
    wire.check_acceptance(*classes_of(name), nest(name, depth, wire.varint_record(UNKNOWN, 1)))


@DEPTHS
def test_groups_nest_as_deep_as_in_the_official_runtime(depth):
    wire.check_acceptance(*classes_of("onnx.GraphProto"), nest_groups(depth))


@DEPTHS
@pytest.mark.parametrize("n_groups", [1, 2, 50, 99])
@pytest.mark.parametrize("name", RECURSIVE_FIELDS)
def test_groups_in_messages_nest_as_deep_as_in_the_official_runtime(name, n_groups, depth):
    wire.check_acceptance(*classes_of(name), nest(name, depth - n_groups, nest_groups(n_groups)))


@DEPTHS
def test_groups_with_a_known_field_number_nest_as_deep_as_in_the_official_runtime(depth):
    number = onnxwire.GraphProto.DESCRIPTOR.fields_by_name["node"].number
    encoded = wire.tag(number, wire.START) * depth + wire.tag(number, wire.END) * depth
    wire.check_acceptance(*classes_of("onnx.GraphProto"), encoded)


@DEPTHS
def test_deep_messages_are_read_lazily_beyond_the_limit_of_the_official_runtime(depth):
    name = "onnx.SequenceProto"
    message = SCHEMA.messages[name].FromString(nest(name, depth))
    for _ in range(depth):
        message = message.sequence_values[0]
    assert message.ListFields() == []


@pytest.mark.parametrize("depth", [98, 99, 100])
def test_the_deepest_messages_compare_as_the_official_ones_do(depth):
    encoded = nest("onnx.SequenceProto", depth)
    wire.check_equality(*classes_of("onnx.SequenceProto"), encoded, encoded)
    wire.check_equality(
        *classes_of("onnx.SequenceProto"), encoded, nest("onnx.SequenceProto", depth, wire.varint_record(UNKNOWN, 1))
    )
