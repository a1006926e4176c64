"""Every message class of ONNX reads what the official runtime reads, and refuses what it refuses."""

from __future__ import annotations

import pytest
import wire
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import onnxwire
from onnxwire.messages import SCHEMA

NAMES = list(SCHEMA.messages)
EVERY_MESSAGE = pytest.mark.parametrize("name", NAMES)


def pair(name):
    return SCHEMA.messages[name], wire.official_class(name)


@EVERY_MESSAGE
@settings(max_examples=50)
@given(data=st.data())
def test_every_field_reads_as_the_official_runtime_reads_it(name, data):
    ours, official = pair(name)
    encoded = data.draw(wire.sound(ours.DESCRIPTOR))
    wire.compare(ours.FromString(encoded), official.FromString(encoded), name)


@EVERY_MESSAGE
@settings(max_examples=60)
@given(data=st.data())
def test_verify_accepts_what_the_official_runtime_accepts(name, data):
    ours, official = pair(name)
    encoded = data.draw(wire.flawed(ours.DESCRIPTOR))
    assert wire.accepts(ours, encoded) is wire.official_accepts(official, encoded)


@EVERY_MESSAGE
@settings(max_examples=60)
@given(data=st.data())
def test_verify_judges_damaged_bytes_as_the_official_runtime_does(name, data):
    ours, official = pair(name)
    encoded = data.draw(wire.damaged(ours.DESCRIPTOR))
    assert wire.accepts(ours, encoded) is wire.official_accepts(official, encoded)


@EVERY_MESSAGE
@settings(max_examples=50)
@given(data=st.data())
def test_reading_flawed_bytes_raises_decode_error_or_nothing(name, data):
    ours, official = pair(name)
    encoded = data.draw(wire.flawed(ours.DESCRIPTOR, 1) | wire.damaged(ours.DESCRIPTOR))
    try:
        errors = wire.walk(ours.FromString(encoded))
    except onnxwire.DecodeError as error:
        errors = [error]
    if wire.official_accepts(official, encoded):
        assert errors == []
        wire.compare(ours.FromString(encoded), official.FromString(encoded), name)


@EVERY_MESSAGE
@settings(max_examples=25)
@given(data=st.data())
def test_encoding_a_message_gives_its_bytes_back(name, data):
    ours, _ = pair(name)
    encoded = data.draw(wire.sound(ours.DESCRIPTOR, 1))
    message = ours.FromString(encoded)
    assert message.SerializeToString() == encoded
    assert message.ByteSize() == len(encoded)


@EVERY_MESSAGE
@settings(max_examples=25)
@given(data=st.data())
def test_encoding_a_nested_message_keeps_its_value(name, data):
    ours, official = pair(name)
    encoded = data.draw(wire.sound(ours.DESCRIPTOR, 1))
    message, wanted = ours.FromString(encoded), official.FromString(encoded)
    for field, value in message.ListFields():
        if field.message_type is None or field.is_repeated:
            continue
        again = type(getattr(wanted, field.name)).FromString(value.SerializeToString())
        wire.compare(value, again, field.full_name)
        wire.compare(type(value).FromString(value.SerializeToString()), getattr(wanted, field.name), field.full_name)


# --- equality


def check_equality(name, one, other):
    ours, official = pair(name)
    equal = official.FromString(one) == official.FromString(other)
    assert (ours.FromString(one) == ours.FromString(other)) is equal
    assert (ours.FromString(one) != ours.FromString(other)) is not equal


@EVERY_MESSAGE
@settings(max_examples=30)
@given(data=st.data())
def test_messages_of_the_same_records_in_another_order_are_equal_where_the_official_ones_are(name, data):
    records = data.draw(wire.record_lists(SCHEMA.messages[name].DESCRIPTOR))
    check_equality(name, b"".join(records), b"".join(data.draw(st.permutations(records))))


@EVERY_MESSAGE
@settings(max_examples=30)
@given(data=st.data())
def test_messages_that_differ_in_one_record_are_equal_where_the_official_ones_are(name, data):
    descriptor = SCHEMA.messages[name].DESCRIPTOR
    records = data.draw(wire.record_lists(descriptor))
    others = data.draw(wire.record_lists(descriptor, 1))
    assume(records or others)
    place = data.draw(st.integers(0, len(records)))
    changed = records[:place] + others[:1] + records[place + data.draw(st.integers(0, 1)) :]
    check_equality(name, b"".join(records), b"".join(changed))


@EVERY_MESSAGE
@settings(max_examples=30)
@given(data=st.data())
def test_a_message_equals_its_official_encoding_where_the_official_one_does(name, data):
    ours, official = pair(name)
    encoded = data.draw(wire.sound(ours.DESCRIPTOR, 2))
    check_equality(name, encoded, official.FromString(encoded).SerializeToString())


U = 1000  # a field number that no message has


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (wire.number(U, 1), wire.number(U, 1, 3)),
        (wire.number(U, 1), wire.number(U, 2)),
        (wire.number(U, 1), b""),
        (wire.number(U, 1) + wire.number(U, 2), wire.number(U, 2) + wire.number(U, 1)),
        (wire.number(U, 1) + wire.number(U + 1, 2), wire.number(U + 1, 2) + wire.number(U, 1)),
        (wire.number(U, 1) + wire.span(U, b"a"), wire.span(U, b"a") + wire.number(U, 1)),
        (wire.span(U, b"a"), wire.span(U, b"a", 3)),
        (wire.span(U, b"a"), wire.span(U, b"b")),
        (wire.tag(U, wire.VARINT) + b"\1", wire.tag(U, wire.VARINT, 1) + b"\1"),
        (wire.number(U, 1), wire.tag(U, wire.FIXED32) + b"\1\0\0\0"),
        (wire.group(U), wire.group(U)),
        (wire.group(U), b""),
        (wire.group(U, wire.number(1, 1)), wire.group(U, wire.number(1, 2))),
        (wire.group(U, wire.number(1, 1)), wire.group(U, wire.number(1, 1, 2))),
        (wire.group(U, wire.span(1, b"a")), wire.group(U, wire.span(1, b"a", 2))),
        (wire.group(U), wire.tag(U, wire.START) + wire.tag(U, wire.END, 2)),
        (
            wire.group(U, wire.number(1, 1) + wire.number(2, 2)),
            wire.group(U, wire.number(2, 2) + wire.number(1, 1)),
        ),
        (
            wire.group(U, wire.number(1, 1) + wire.number(1, 2)),
            wire.group(U, wire.number(1, 2) + wire.number(1, 1)),
        ),
        (
            wire.group(U, wire.group(1, wire.number(1, 1) + wire.number(2, 2))),
            wire.group(U, wire.group(1, wire.number(2, 2) + wire.number(1, 1))),
        ),
    ],
    ids=[
        "overlong varint", "other varint", "absent", "one number in another order", "two numbers in another order",
        "one number of two wire types in another order", "overlong length", "other bytes", "overlong tag",
        "other wire type", "same group", "absent group", "other group", "overlong varint in a group",
        "overlong length in a group", "overlong end of group", "two numbers in another order in a group",
        "one number in another order in a group", "two numbers in another order in a group in a group",
    ],
)  # fmt: skip
def test_unknown_fields_are_equal_where_the_official_ones_are(one, other):
    check_equality("onnx.OperatorSetIdProto", one, other)


TYPE = next(field.number for field in onnxwire.AttributeProto.DESCRIPTOR.fields if field.name == "type")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (wire.number(TYPE, 900), b""),
        (wire.number(TYPE, 900), wire.number(TYPE, 901)),
        (wire.number(TYPE, 900), wire.number(TYPE, 900 + (1 << 32))),
        (wire.number(TYPE, -1), wire.number(TYPE, (1 << 32) - 1)),
        (wire.number(TYPE, 900) + wire.number(TYPE, 1), wire.number(TYPE, 1) + wire.number(TYPE, 900)),
    ],
    ids=["absent", "other value", "same low bits", "negative", "beside a known value"],
)
def test_unknown_enum_values_are_equal_where_the_official_ones_are(one, other):
    check_equality("onnx.AttributeProto", one, other)


@pytest.mark.parametrize("name", ["f", "floats"])
def test_messages_with_nan_are_equal_where_the_official_ones_are(name):
    field = onnxwire.AttributeProto.DESCRIPTOR.fields_by_name[name]
    nan = wire.tag(field.number, wire.FIXED32) + b"\0\0\xc0\x7f"
    check_equality("onnx.AttributeProto", nan, nan)


@pytest.mark.parametrize("name", ["f", "floats"])
def test_zeros_of_either_sign_are_equal_where_the_official_ones_are(name):
    head = wire.tag(onnxwire.AttributeProto.DESCRIPTOR.fields_by_name[name].number, wire.FIXED32)
    check_equality("onnx.AttributeProto", head + b"\0\0\0\0", head + b"\0\0\0\x80")


def test_a_message_equals_no_message_of_another_class():
    assert onnxwire.TensorProto() != onnxwire.NodeProto()
    assert onnxwire.TensorProto() != 1


# --- nesting

DEPTHS = pytest.mark.parametrize("depth", range(98, 104))
LOOPS = {
    # Fields that lead from a message back to its own type.
    "onnx.GraphProto": ["node", "attribute", "g"],
    "onnx.TypeProto": ["sequence_type", "elem_type"],
    "onnx.SequenceProto": ["sequence_values"],
    "onnx.OptionalProto": ["optional_value"],
    "onnx.MapProto": ["values", "map_values"],
}


def nest(name, depth, inside=b""):
    """Encode `depth` messages in one another, below the root, along a loop; `inside` is the last one's content."""
    descriptor, numbers = SCHEMA.messages[name].DESCRIPTOR, []
    while len(numbers) < depth:
        for step in LOOPS[name]:
            numbers.append(descriptor.fields_by_name[step].number)
            descriptor = descriptor.fields_by_name[step].message_type
    for number in reversed(numbers[:depth]):
        inside = wire.span(number, inside)
    return inside


def nest_groups(depth):
    return wire.tag(U, wire.START) * depth + wire.tag(U, wire.END) * depth


def check_acceptance(name, encoded):
    ours, official = pair(name)
    assert wire.accepts(ours, encoded) is wire.official_accepts(official, encoded)


@DEPTHS
@pytest.mark.parametrize("name", LOOPS)
def test_messages_nest_as_deep_as_in_the_official_runtime(name, depth):
    check_acceptance(name, nest(name, depth))


@DEPTHS
@pytest.mark.parametrize("name", LOOPS)
def test_messages_that_end_in_a_record_nest_as_deep_as_in_the_official_runtime(name, depth):
    check_acceptance(name, nest(name, depth, wire.number(U, 1)))


@DEPTHS
def test_groups_nest_as_deep_as_in_the_official_runtime(depth):
    check_acceptance("onnx.GraphProto", nest_groups(depth))


@DEPTHS
@pytest.mark.parametrize("groups", [1, 2, 50, 99])
@pytest.mark.parametrize("name", LOOPS)
def test_groups_in_messages_nest_as_deep_as_in_the_official_runtime(name, groups, depth):
    check_acceptance(name, nest(name, depth - groups, nest_groups(groups)))


@DEPTHS
def test_a_known_number_as_a_group_nests_as_deep_as_in_the_official_runtime(depth):
    number = onnxwire.GraphProto.DESCRIPTOR.fields_by_name["node"].number
    encoded = wire.tag(number, wire.START) * depth + wire.tag(number, wire.END) * depth
    check_acceptance("onnx.GraphProto", encoded)


@DEPTHS
def test_reading_deep_messages_never_fails_otherwise_than_with_decode_error(depth):
    name = "onnx.SequenceProto"
    message = SCHEMA.messages[name].FromString(nest(name, depth))
    for _ in range(depth):
        message = message.sequence_values[0]
    assert message.ListFields() == []


@pytest.mark.parametrize("depth", [98, 99, 100])
def test_the_deepest_messages_compare_as_the_official_ones_do(depth):
    encoded = nest("onnx.SequenceProto", depth)
    check_equality("onnx.SequenceProto", encoded, encoded)
    check_equality("onnx.SequenceProto", encoded, nest("onnx.SequenceProto", depth, wire.number(U, 1)))
