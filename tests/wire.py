"""Draw valid and invalid wire bytes for any message descriptor, and compare onnxwire's reader with the official one.

`valid_wire` draws valid bytes, also in unusual forms. `malformed_wire` draws bytes that may have invalid records.
`damaged_wire` draws valid bytes that were then truncated, or of which some were changed, inserted or deleted.
`assert_same_as_official` compares edits of onnxwire's messages with the same edits of official messages.
The arguments `descriptor` and `field` of strategies are onnxwire's.
"""

from __future__ import annotations

import contextlib
import struct
from decimal import Decimal
from enum import IntEnum
from fractions import Fraction
from functools import cache
from operator import itemgetter
from types import SimpleNamespace

import numpy as np
import pytest
from everything import PAIRS, official_class
from google.protobuf import message
from google.protobuf.internal import api_implementation
from hypothesis import strategies as st
from onnx import onnx_data_pb2, onnx_ml_pb2, onnx_operators_ml_pb2  # noqa: F401  (they fill the default pool)
from wire_bytes import (  # noqa: F401  (some only for tests that import this module)
    END,
    FIXED32,
    FIXED64,
    LEN,
    MAX_NUMBER,
    START,
    VARINT,
    group,
    len_record,
    tag,
    varint,
    varint_record,
)  # fmt: skip

import onnxwire
from onnxwire.engine.descriptor import FieldDescriptor

IS_UPB = api_implementation.Type() == "upb"  # the pure Python runtime, used by free-threaded Python, differs from upb
needs_upb = pytest.mark.skipif(not IS_UPB, reason="the official runtime is not protobuf's upb here")

WIRE_TYPES = {
    FieldDescriptor.TYPE_DOUBLE: FIXED64, FieldDescriptor.TYPE_FIXED64: FIXED64, FieldDescriptor.TYPE_SFIXED64: FIXED64,
    FieldDescriptor.TYPE_FLOAT: FIXED32, FieldDescriptor.TYPE_FIXED32: FIXED32, FieldDescriptor.TYPE_SFIXED32: FIXED32,
    FieldDescriptor.TYPE_STRING: LEN, FieldDescriptor.TYPE_BYTES: LEN, FieldDescriptor.TYPE_MESSAGE: LEN,
}  # fmt: skip


def wire_type_of(field):
    """Return the wire type of one value of a field."""
    return WIRE_TYPES.get(field.type, VARINT)


def is_number(field):
    """Return whether the values of a field are numbers, bools or enum values."""
    return wire_type_of(field) != LEN


# --- strategies: parts of records
#
# Parameters and variables named `wire` are wire types.

_EDGE_NUMBERS = [
    0,
    1,
    2,
    127,
    128,
    1 << 31,
    (1 << 31) - 1,
    (1 << 32) - 1,
    1 << 32,
    (1 << 32) + 1,
    1 << 63,
    (1 << 64) - 1,
]
_uints = st.sampled_from(_EDGE_NUMBERS) | st.integers(0, (1 << 64) - 1) | st.integers(0, 300)
# The number of bytes by which a tag or length (_tag_pads) or another varint (_pads) is longer than necessary.
_tag_pads = st.sampled_from([0] * 9 + [1, 2, 3, 4])
_pads = st.sampled_from([0] * 9 + [1, 4, 9])
_fixed32 = st.binary(min_size=4, max_size=4) | st.sampled_from(
    [struct.pack("<f", x) for x in (0.0, -0.0, 1.5, float("inf"), float("nan"))] + [b"\1\0\xa0\x7f"]  # a signaling NaN
)
_fixed64 = st.binary(min_size=8, max_size=8) | st.sampled_from(
    [struct.pack("<d", x) for x in (0.0, -0.0, 1.5, float("-inf"), float("nan"))]
)
_texts = st.text(max_size=4).map(str.encode) | st.sampled_from([b"", b"name", b"x" * 200, "ä€𝄞".encode()])
# The samples are not UTF-8: a single byte, a surrogate, an overlong NUL, and a number above U+10FFFF.
_any_bytes = st.binary(max_size=5) | st.sampled_from([b"\xff", b"ok\xed\xa0\x80", b"\xc0\x80", b"\xf4\x90\x80\x80"])


@st.composite
def _tags(draw, field_number, wire):
    """Draw an encoding of a tag in at most 5 bytes."""
    n_min_bytes = len(tag(field_number, wire))
    return tag(field_number, wire, min(draw(_tag_pads), 5 - n_min_bytes))


@st.composite
def _varints(draw, values=_uints):
    """Draw an encoding of a number in at most 10 bytes."""
    value = draw(values)
    return varint(value, min(draw(_pads), 10 - len(varint(value))))


# Varints of 10 bytes. Bit 0 of the last byte is bit 63 of the number, and parsers ignore the other bits of that byte.
_varints_above_64_bits = st.integers(0, 127).map(lambda last_byte: b"\xff" * 9 + bytes([last_byte]))


@st.composite
def _lengths(draw, n):
    """Draw an encoding of a length in at most 5 bytes."""
    n_min_bytes = len(varint(n))
    return varint(n, min(draw(_tag_pads), 5 - n_min_bytes))


@cache
def _scalars(field):
    """Draw one value of a scalar field, without tag and length."""
    if field.enum_type is not None:
        known_numbers = st.sampled_from([value.number for value in field.enum_type.values])
        unknown_numbers = st.sampled_from([-1, 999, (1 << 31) - 1, -(1 << 31)])
        return (
            _varints(known_numbers | known_numbers | unknown_numbers | known_numbers.map(lambda n: n + (1 << 32)))
            | _varints()
        )
    if field.type == FieldDescriptor.TYPE_STRING:
        return _texts | _texts | _any_bytes
    if field.type == FieldDescriptor.TYPE_BYTES:
        return _any_bytes | _texts
    wire = wire_type_of(field)
    return (
        _fixed32
        if wire == FIXED32
        else _fixed64
        if wire == FIXED64
        else _varints() | _varints() | _varints_above_64_bits
    )


@st.composite
def _groups(draw, field_number, depth):
    """Draw a valid group with any fields in it."""
    records = draw(st.lists(_unknown(st.integers(1, 20) | st.just(MAX_NUMBER), depth), max_size=3))
    return draw(_tags(field_number, START)) + b"".join(records) + draw(_tags(field_number, END))


@st.composite
def _unknown(draw, numbers, depth=2, wires=(VARINT, FIXED64, LEN, FIXED32, START)):
    """Draw a record with one of the wire types.

    numbers: a strategy for field numbers. depth: the maximum number of levels of nested groups.
    """
    field_number = draw(numbers)
    wire = draw(st.sampled_from(wires))
    if wire == START:
        return draw(_groups(field_number, depth - 1)) if depth else group(field_number)
    head = draw(_tags(field_number, wire))
    if wire == VARINT:
        return head + draw(_varints())
    if wire == LEN:
        data = draw(st.binary(max_size=6) | st.sampled_from([b"", b"x" * 130]))
        return head + draw(_lengths(len(data))) + data
    return head + draw(_fixed32 if wire == FIXED32 else _fixed64)


# --- strategies: records of a descriptor


@st.composite
def field_records(draw, field, depth=0, flaws=False):
    """Draw a record of a known field with an accepted wire type.

    depth: the maximum number of levels of nested messages. flaws: whether nested messages may be invalid.
    """
    if field.message_type is not None:
        data = draw(_messages(field.message_type, depth - 1, flaws)) if depth else b""
        return draw(_tags(field.number, LEN)) + draw(_lengths(len(data))) + data
    values = _scalars(field)
    if not is_number(field):
        data = draw(values)
        return draw(_tags(field.number, LEN)) + draw(_lengths(len(data))) + data
    if field.is_repeated and draw(st.booleans()):
        times = draw(st.sampled_from([1] * 9 + [40]))
        data = b"".join(draw(st.lists(values, max_size=5))) * times
        return draw(_tags(field.number, LEN)) + draw(_lengths(len(data))) + data
    return draw(_tags(field.number, wire_type_of(field))) + draw(values)


@st.composite
def _wrong_wire(draw, field):
    """Draw a valid record with the number of a known field and another wire type; parsers treat it as unknown."""
    accepted_wires = {wire_type_of(field)} | ({LEN} if field.is_repeated else set())
    wires = [wire for wire in (VARINT, FIXED64, LEN, FIXED32, START) if wire not in accepted_wires]
    return draw(_unknown(st.just(field.number), 1, wires))


@st.composite
def _flaw(draw, descriptor):
    """Draw a record at or beyond a limit of the format. Some are valid for some fields or official parsers."""
    known_numbers = [field.number for field in descriptor.fields] or [1]
    field_number = draw(st.sampled_from(known_numbers) | st.integers(1, 70) | st.just(MAX_NUMBER))
    n_tag_bytes = len(tag(field_number, VARINT))
    wire = draw(st.sampled_from([VARINT, FIXED64, LEN, FIXED32]))
    return draw(
        st.sampled_from(
            [
                # Tags of five and six bytes.
                tag(field_number, wire, 5 - n_tag_bytes) + b"\0" * 8,
                tag(field_number, wire, 6 - n_tag_bytes) + b"\0" * 8,
                # Groups without an end, with the end of another field, and an end without a group.
                tag(field_number, START),
                tag(field_number, START) + tag(field_number + 1, END),
                tag(field_number, START) * 2 + tag(field_number, END),
                tag(field_number, END),
                # Wire types and field numbers that do not exist.
                tag(field_number, 6) + b"\0",
                tag(field_number, 7) + b"\0",
                tag(0, wire) + b"\0" * 8,
                tag(0, wire, 2) + b"\0" * 8,
                tag(MAX_NUMBER + 1 + field_number, wire) + b"\0" * 8,
                # Long varints and lengths.
                tag(field_number, VARINT) + b"\x80" * 10 + b"\0",  # a varint of 11 bytes
                tag(field_number, LEN) + varint(3, 4) + b"abc",  # a length of 5 bytes
                tag(field_number, LEN) + varint(3, 5) + b"abc",  # a length of 6 bytes
                tag(field_number, LEN) + varint(0, 9),  # a length of 10 bytes
                tag(field_number, LEN) + b"\x83" + b"\x80" * 8 + b"\2abc",  # a length above 64 bits
                # Values that end after the end of the message.
                tag(field_number, LEN) + varint(1000) + b"abc",
                tag(field_number, LEN) + varint((1 << 31) - 1) + b"abc",
                tag(field_number, LEN) + varint(1 << 31) + b"abc",
                tag(field_number, LEN) + varint((1 << 64) - 1) + b"abc",
                tag(field_number, FIXED32) + b"abc",
                tag(field_number, FIXED64) + b"abcdefg",
                # Packed runs.
                len_record(field_number, b"\x80"),  # a truncated varint
                len_record(field_number, b"\1" + b"\xff" * 9 + b"\1\1"),  # a varint of 64 bits
                len_record(field_number, b"\1" + b"\xff" * 9 + b"\x7f\1"),  # a varint above 64 bits
                len_record(field_number, b"\1" + b"\xff" * 10 + b"\1"),  # a varint of 11 bytes
                len_record(field_number, b"abcde"),  # 5 bytes, no multiple of the size of a fixed-size number
            ]
        )
    )


@cache
def _records(descriptor, depth, flaws):
    """Draw one record of a message, of a known or an unknown field."""
    numbers = {field.number for field in descriptor.fields}
    other_numbers = [1, 2, 3, 12, 15, 16, 63, 64, 65, 127, 2047, 18999, 40000, MAX_NUMBER - 1, MAX_NUMBER]
    record_strategies = [_unknown(st.sampled_from([n for n in other_numbers if n not in numbers]))]
    if descriptor.fields:
        fields = st.sampled_from(descriptor.fields)
        message_fields = [field for field in descriptor.fields if field.message_type is not None]
        # Draw message fields more often. In types with many scalar fields they would be rare.
        frequent_fields = fields | st.sampled_from(message_fields) if message_fields and depth else fields
        record_strategies += [frequent_fields.flatmap(lambda field: field_records(field, depth, flaws))] * 3 + [
            fields.flatmap(_wrong_wire)
        ]
    return st.one_of(record_strategies + [_flaw(descriptor)] if flaws else record_strategies)


@st.composite
def _record_lists(draw, descriptor, depth, flaws):
    """Draw a list of records of a message."""
    records = draw(st.lists(_records(descriptor, depth, flaws), max_size=6))
    if records and draw(st.integers(0, 5)) == 0:
        # A record that occurs twice: parsers append its elements, merge it, or use the last value.
        records.insert(draw(st.integers(0, len(records))), draw(st.sampled_from(records)))
    # Sometimes repeat the records, so that readers make caches and indexes.
    if sum(map(len, records)) < 300 and draw(st.integers(0, 9)) == 0:
        records = records * 20
    return records


@cache
def _messages(descriptor, depth, flaws):
    """Draw the bytes of a message."""
    return _record_lists(descriptor, depth, flaws).map(b"".join)


# --- strategies for tests


def record_lists(descriptor, depth=2):
    """Draw the records of a valid message, to be joined in any order."""
    return _record_lists(descriptor, depth, False)


def valid_wire(descriptor, depth=3):
    """Draw valid bytes of a message: records in any order, packed, unpacked, padded, repeated, unknown, or of other
    wire types."""
    return _messages(descriptor, depth, False)


def malformed_wire(descriptor, depth=2):
    """Draw bytes that may have invalid records at any depth."""
    return _messages(descriptor, depth, True)


@st.composite
def damaged_wire(draw, descriptor):
    """Draw bytes with the kinds of damage that disks and downloads cause."""
    data = bytearray(draw(valid_wire(descriptor, 2)))
    for _ in range(draw(st.integers(1, 3))):
        offset = draw(st.integers(0, len(data)))
        damage = draw(st.sampled_from(["cut", "change", "insert", "delete"]))
        if damage == "cut":
            del data[offset:]
        elif damage == "change" and offset < len(data):
            data[offset] = draw(st.integers(0, 255))
        elif damage == "insert":
            data[offset:offset] = draw(st.binary(min_size=1, max_size=3))
        else:
            del data[offset : offset + draw(st.integers(1, 3))]
    return bytes(data)


# --- comparison of the two readers


def official_accepts(cls, data):
    """Return whether an official class can parse the bytes."""
    try:
        cls.FromString(data)
    except message.DecodeError:
        return False
    return True


def accepts(cls, data):
    """Return whether `verify` accepts the bytes for one of onnxwire's classes."""
    try:
        onnxwire.verify(data, cls)
    except onnxwire.DecodeError:
        return False
    return True


def check_acceptance(ours, official, data):
    """Assert that `verify` accepts the bytes if and only if the official class does."""
    assert accepts(ours, data) is official_accepts(official, data)


def check_reading(ours, official, data):
    """Assert that every field has the same value in onnxwire's message and in the official one."""
    compare(ours.FromString(data), official.FromString(data), ours.DESCRIPTOR.full_name)


def check_walk(ours, official, data):
    """Assert that lazy reading raises only DecodeError.

    Bytes that the official class accepts must raise no error and have equal values.
    """
    try:
        errors = walk_all_fields(ours.FromString(data))
    except onnxwire.DecodeError as error:
        errors = [error]
    if official_accepts(official, data):
        assert errors == []
        check_reading(ours, official, data)


def check_equality(ours, official, first_bytes, second_bytes):
    """Assert that two messages are equal if and only if the official ones are."""
    are_equal = official.FromString(first_bytes) == official.FromString(second_bytes)
    assert (ours.FromString(first_bytes) == ours.FromString(second_bytes)) is are_equal
    assert (ours.FromString(first_bytes) != ours.FromString(second_bytes)) is not are_equal


def compare(ours, official, path=""):
    """Assert that each field of our message, at any depth, reads like that of the official message."""
    names = [field.name for field, _ in ours.ListFields()]
    assert names == [field.name for field, _ in official.ListFields()], f"{path}: ListFields"
    for field in official.DESCRIPTOR.fields:
        field_path = f"{path}.{field.name}"
        value, official_value = getattr(ours, field.name), getattr(official, field.name)
        if field.is_repeated:
            _compare_sequence(value, official_value, field, field_path)
            continue
        assert ours.HasField(field.name) is official.HasField(field.name), f"{field_path}: HasField"
        if field.message_type is None:
            _compare_scalar(value, official_value, field, field_path)
        elif official.HasField(field.name):
            compare(value, official_value, field_path)
        else:
            _compare_absent(value, official_value, field_path)
    for oneof in official.DESCRIPTOR.oneofs:
        assert ours.WhichOneof(oneof.name) == official.WhichOneof(oneof.name), f"{path}: WhichOneof({oneof.name})"


def _compare_absent(value, official_value, path):
    """Compare the defaults of an absent message. Not recursive, because absent messages are nested endlessly."""
    assert value.ListFields() == [], path
    for field in official_value.DESCRIPTOR.fields:
        if field.is_repeated:
            assert len(getattr(value, field.name)) == 0, f"{path}.{field.name}"
        else:
            assert value.HasField(field.name) is False, f"{path}.{field.name}"
            if field.message_type is None:
                _compare_scalar(
                    getattr(value, field.name), getattr(official_value, field.name), field, f"{path}.{field.name}"
                )


def _compare_scalar(value, official_value, field, path):
    """Assert that two values of a scalar field have the same type and the same bits."""
    if field.type == FieldDescriptor.TYPE_STRING:
        # For invalid UTF-8 the official runtime returns bytes, ours a str with surrogate escapes.
        assert type(value) is str, path
        data = official_value if isinstance(official_value, bytes) else official_value.encode()
        assert value.encode("utf-8", "surrogateescape") == data, path
        return
    assert type(value) is type(official_value), f"{path}: {value!r} is a {type(value)}, not a {type(official_value)}"
    if isinstance(official_value, float):
        assert struct.pack("<d", value) == struct.pack("<d", official_value), (
            f"{path}: {value!r} is not {official_value!r}"
        )
    else:
        assert value == official_value, f"{path}: {value!r} is not {official_value!r}"


def _compare_sequence(values, official_values, field, path):
    """Assert that two sequences have equal elements by iteration, by index and by slice."""
    n = len(official_values)
    assert len(values) == n, f"{path}: len"
    assert bool(values) is (n > 0), f"{path}: bool"
    compare_element = (
        compare
        if field.message_type is not None
        else lambda value, official_value, element_path: _compare_scalar(value, official_value, field, element_path)
    )
    elements = list(values)
    assert len(elements) == n, f"{path}: iteration"
    for i, (element, official_element) in enumerate(zip(elements, official_values, strict=True)):
        compare_element(element, official_element, f"{path}[{i}]")
    indexes = range(n) if n <= 4 else (0, 1, n // 2, n - 2, n - 1)
    for i in indexes:
        compare_element(values[i], official_values[i], f"{path}[{i}] by index")
        compare_element(values[i - n], official_values[i - n], f"{path}[{i - n}]")
    part, official_part = values[1:-1:2], official_values[1:-1:2]
    assert len(part) == len(official_part), f"{path}[1:-1:2]: len"
    for i, (element, official_element) in enumerate(zip(part, official_part, strict=True)):
        compare_element(element, official_element, f"{path}[1:-1:2][{i}]")


def walk_all_fields(view):
    """Read each field of a view, at any depth, in several ways; return the DecodeErrors that were raised."""
    errors = []

    def collect_error(function, *arguments):
        """Call the function; return its result, or None after a DecodeError."""
        try:
            return function(*arguments)
        except onnxwire.DecodeError as error:
            str(error)  # must not raise an exception
            errors.append(error)

    for field in view.DESCRIPTOR.fields:
        value = collect_error(getattr, view, field.name)
        if not field.is_repeated:
            collect_error(view.HasField, field.name)
            if field.message_type is not None and value is not None and value.ByteSize():
                errors += walk_all_fields(value)
        elif value is not None:
            for function in (len, bool, itemgetter(slice(-1, None)), itemgetter(0), itemgetter(-1)):
                with contextlib.suppress(IndexError):
                    collect_error(function, value)
            elements = collect_error(list, value) or []
            if field.message_type is not None:
                for element in elements:
                    errors += walk_all_fields(element)
            elif is_number(field):
                collect_error(np.asarray, value)
    for oneof in view.DESCRIPTOR.oneofs:
        collect_error(view.WhichOneof, oneof.name)
    collect_error(view.ListFields)
    repr(view)
    return errors


# --- the same edits on messages of onnxwire and of the official runtime


class Index:
    """An object with `__index__` that is not an int. value: the result, or an error class to raise."""

    def __init__(self, value):
        self.value = value

    def __index__(self):
        if isinstance(self.value, type):
            raise self.value("from __index__")
        return self.value

    def __repr__(self):
        return f"{type(self).__name__}({self.value})"


class Float(Index):
    """An object with `__float__` that is not a float. value: the result."""

    def __float__(self):
        return self.value

    __index__ = None


class Text(str):
    """A subclass of str."""


class Octets(bytes):
    """A subclass of bytes."""


NUMBERS = [0, 1, 2, 3, -1, 70, 1.5, -0.0, 1e39, -1e39, 1e308, 5e-324, 0.1, 3.4028235677973366e38, 16777217, 10**400]
NUMBERS += [sign << bits for bits in (7, 31, 32, 53, 63, 64) for sign in (1, -1)]
NUMBERS += [(sign << bits) - 1 for bits in (31, 32, 63, 64) for sign in (1, -1)]
NUMBERS += [float("nan"), float("inf"), float("-inf"), True, False, 1j, Decimal(1), Fraction(1, 2)]
NUMBERS += [Index(3), Index(1 << 70), Index(KeyError), Float(2.5), Float("no float"), IntEnum("Enum", "ONE").ONE]
NUMBERS += [np.int8(-3), np.uint8(200), np.int64(2), np.uint64((1 << 64) - 1), np.bool_(True)]
NUMBERS += [np.float16(1.5), np.float32(0.1), np.float64(1), np.array(2), np.array([2]), np.array(1.5)]
TEXTS = ["", "a", "1", "RED", "LIGHT", "no_such_name", "a\0b", "RED\0", "ä€𝄞", "\ud800", "\udcff"]
TEXTS += [Text("BLUE"), np.str_("a"), b"", b"ab", b"RED", b"\xff", b"a\0b", "ä".encode()]
TEXTS += [Octets(b"q"), np.bytes_(b"a"), bytearray(b"x"), memoryview(b"x")]
OTHER_OBJECTS = [None, [], [1], (), {}, {"a": 1}, object, object(), NotImplemented, ..., range(2)]
OTHER_OBJECTS += [onnxwire.NodeProto, np.zeros(2), np.array([[1]]), int, np.void(b"abc"), np.datetime64(1, "s")]
VALUES = {
    f"{type(value).__name__} {ascii(value).partition(' at 0x')[0][:40]}": value
    for value in [*NUMBERS, *TEXTS, *OTHER_OBJECTS]
}
"""Values that tests assign to fields, by a description."""


def snippets(text):
    """Split a text into lines of Python at its semicolons."""
    return [line for code in text.split(";") if (line := " ".join(code.split()))]


def official_pairs():
    """Return the classes of ONNX and of everything.md as a dict: full name → (onnxwire's class, official class)."""
    return {name: (cls, official_class(name)) for name, cls in onnxwire.messages.SCHEMA.messages.items()} | PAIRS


@cache
def class_namespaces():
    """Return two namespaces of the classes that are not nested in other messages, by name: onnxwire's and the official
    ones."""
    pairs = [pair for pair in official_pairs().values() if pair[1].DESCRIPTOR.containing_type is None]
    return tuple(SimpleNamespace(**{pair[i].DESCRIPTOR.name: pair[i] for pair in pairs}) for i in (0, 1))


class Raised:
    """An error of either runtime. An official error equals an error of onnxwire that has all builtin base classes of
    the official error."""

    def __init__(self, error):
        bases = [cls for cls in type(error).__mro__ if cls.__module__.partition(".")[0] not in ("onnxwire", "google")]
        self.error, self.base_names = error, {cls.__name__ for cls in bases}
        if isinstance(error, (message.DecodeError, onnxwire.DecodeError)):
            self.base_names.add("DecodeError")

    def __eq__(self, other):
        return isinstance(other, Raised) and self.base_names <= other.base_names

    def __repr__(self):
        return f"<{type(self.error).__name__}: {self.error}>"


def result_or_error(function, *arguments, **keywords):
    """Call `function`; return its result or the error that it raises. A NameError is raised."""
    try:
        return function(*arguments, **keywords)
    except NameError:  # a mistake in the test
        raise
    except Exception as error:
        return error


def as_comparable(value, with_bytes=True):
    """Convert a value to strings, lists, dicts and Raised, which are equal for equal values of both runtimes.

    with_bytes: whether the result for a message contains its deterministic encoding.
    """
    if isinstance(value, Exception):
        return Raised(value)
    if isinstance(value, (onnxwire.Message, message.Message)):
        fields = {field.name: as_comparable(element, False) for field, element in value.ListFields()}
        encoding = {"bytes": value.SerializeToString(deterministic=True)} if with_bytes else {}
        return {"class": value.DESCRIPTOR.full_name, **fields, **encoding}
    if isinstance(value, str):
        # For invalid UTF-8 the official runtime returns bytes, ours a str with surrogate escapes.
        return repr(value) if value.isprintable() else repr(value.encode("utf-8", "surrogateescape"))
    if value is None or isinstance(value, (bool, int, float, bytes)):
        return repr(value)
    if isinstance(value, dict):  # a converted message
        return value
    return [as_comparable(element, with_bytes) for element in value]


def value_after_edit(api, result, before, value):
    """Return the value after an edit, or `before` if the edit failed; assert that our failed edit changed nothing.

    api: the namespace of classes. result: the result of the edit or its exception. before: the comparable form of the
    value before the edit.
    """
    if not isinstance(result, Exception):
        return value
    if api is class_namespaces()[0]:
        assert as_comparable(value) == before, f"changed by an edit that raised {result!r}"
    return before


def assert_same_as_official(body, *arguments):
    """Assert that a generator function yields equal values with our classes and with the official ones.

    Skips the test if the official runtime is not upb.
    body: the generator function. Its first argument is a namespace of classes.
    """
    if not IS_UPB:
        pytest.skip("the official runtime is not protobuf's upb here")
    ours, official = ([as_comparable(value) for value in body(api, *arguments)] for api in class_namespaces())
    for i, (our_value, official_value) in enumerate(zip(ours, official, strict=True)):
        assert official_value == our_value, f"value {i}: official {official_value}; ours {our_value}"
