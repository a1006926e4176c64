"""Messages of a schema that is loaded at run time read and compare as in the official runtime.

A malformed table raises an error that names the file.
"""

from __future__ import annotations

import numpy as np
import pytest
import wire
from budget import examples
from each import each
from everything import EVERYTHING, PAIRS, PATH, POOL, SCHEMA
from hypothesis import given
from hypothesis import strategies as st

import onnxwire

pytestmark = wire.needs_upb

EVERY_MESSAGE = pytest.mark.parametrize("name", PAIRS)
# The official runtime accepts field number 0 only in groups and in message types without fields: Nothing, which is the
# type of the fields of Holder.
EVERY_MESSAGE_THAT_REJECTS_FIELD_0 = pytest.mark.parametrize(
    "name", [n for n in PAIRS if n not in ("test.Nothing", "test.Holder")]
)
REPEATED_NUMERIC_FIELDS = [
    field.name for field in EVERYTHING.DESCRIPTOR.fields if field.is_repeated and wire.is_number(field)
]


def field_of(name):
    """Return the descriptor of a field of Everything."""
    return EVERYTHING.DESCRIPTOR.fields_by_name[name]


# --- the classes


def test_nested_classes_are_attributes_of_their_parents():
    assert EVERYTHING.Tree is SCHEMA.messages["test.Everything.Tree"]
    assert EVERYTHING.Tree.__qualname__ == "Everything.Tree"


def test_enums_and_their_values_are_attributes_as_in_protobuf():
    official = PAIRS["test.Everything"][1]
    assert SCHEMA.Color.keys() == [value.name for value in POOL.FindEnumTypeByName("test.Color").values]
    assert EVERYTHING.Shade.items() == official.Shade.items()
    assert EVERYTHING.LOWEST == official.LOWEST == EVERYTHING.Shade.LOWEST


def test_the_table_has_every_type_of_protobuf_but_group():
    types = {field.type for field in EVERYTHING.DESCRIPTOR.fields}
    assert types == set(range(1, 19)) - {wire.FieldDescriptor.TYPE_GROUP}


def test_classes_name_their_module():
    assert onnxwire.load_schema(PATH, module="somewhere").Everything.__module__ == "somewhere"


def test_two_loads_of_a_table_make_separate_classes():
    second_schema = onnxwire.load_schema(PATH)
    assert second_schema.Everything is not EVERYTHING
    assert second_schema.Everything() != EVERYTHING()


def test_classes_outlive_their_schema():
    message = onnxwire.load_schema(PATH).Everything.FromString(wire.varint_record(3, 5))
    assert message.one_int64 == 5
    assert message.child.ListFields() == []


# --- values


@EVERY_MESSAGE
@examples(120)
@given(data=st.data())
def test_every_field_reads_as_the_official_runtime_reads_it(name, data):
    our_class, official_class = PAIRS[name]
    wire.check_reading(our_class, official_class, data.draw(wire.valid_wire(our_class.DESCRIPTOR, 2)))


@EVERY_MESSAGE_THAT_REJECTS_FIELD_0
@examples(120)
@given(data=st.data())
def test_verify_accepts_exactly_the_bytes_that_the_official_runtime_accepts(name, data):
    our_class, official_class = PAIRS[name]
    wire.check_acceptance(
        our_class,
        official_class,
        data.draw(wire.malformed_wire(our_class.DESCRIPTOR, 1) | wire.damaged_wire(our_class.DESCRIPTOR)),
    )


@EVERY_MESSAGE_THAT_REJECTS_FIELD_0
@examples(80)
@given(data=st.data())
def test_reading_flawed_bytes_succeeds_or_raises_decode_error(name, data):
    our_class, official_class = PAIRS[name]
    wire.check_walk(
        our_class,
        official_class,
        data.draw(wire.malformed_wire(our_class.DESCRIPTOR, 1) | wire.damaged_wire(our_class.DESCRIPTOR)),
    )


@EVERY_MESSAGE
@examples(60)
@given(data=st.data())
def test_messages_of_reordered_records_compare_as_the_official_ones_do(name, data):
    our_class, official_class = PAIRS[name]
    records = data.draw(wire.record_lists(our_class.DESCRIPTOR, 1))
    wire.check_equality(our_class, official_class, b"".join(records), b"".join(data.draw(st.permutations(records))))


@EVERY_MESSAGE
@examples(60)
@given(data=st.data())
def test_a_message_equals_its_official_encoding_if_the_official_message_does(name, data):
    our_class, official_class = PAIRS[name]
    encoded = data.draw(wire.valid_wire(our_class.DESCRIPTOR, 1))
    wire.check_equality(our_class, official_class, encoded, official_class.FromString(encoded).SerializeToString())


def test_field_number_0_is_rejected_even_in_a_message_without_fields():
    for cls in SCHEMA.messages.values():
        with pytest.raises(onnxwire.DecodeError, match="field number 0"):
            onnxwire.verify(wire.varint_record(0, 0), cls)


def test_an_empty_message_reads_as_the_official_one():
    for our_class, official_class in PAIRS.values():
        wire.check_reading(our_class, official_class, b"")


@each("low_bits", [0, 70, 1, 2147483647, 2147483648, 4294967295])
@each("high_bits", [0, 1, 2, 0x7FFFFFFF, 0xFFFFFFFF])
@each("name", ["one_shade", "many_shade", "packed_shade", "pick_shade"])
def test_a_closed_enum_accepts_the_same_values_as_the_official_one(name, high_bits, low_bits):
    # Only the low 32 bits of an enum value are significant.
    value = wire.varint(high_bits << 32 | low_bits)
    number = field_of(name).number
    encoded = wire.tag(number, wire.VARINT) + value
    wire.check_reading(*PAIRS["test.Everything"], encoded)
    if field_of(name).is_repeated:
        packed_values = b"\2" + value + b"\0"  # LIGHT, the value and NONE
        wire.check_reading(*PAIRS["test.Everything"], wire.len_record(number, packed_values))


# The low 32 bits of both values of the last pair are 70, BRIGHT. The other values are unknown.
@pytest.mark.parametrize("values", [(1, 1), (1, (1 << 32) + 1), (-3, (1 << 32) - 3), (1, 3), (70, (1 << 32) + 70)])
@pytest.mark.parametrize("name", ["one_shade", "many_shade", "packed_shade"])
def test_unknown_enum_values_compare_as_the_official_ones_do(name, values):
    first_record, second_record = (wire.varint_record(field_of(name).number, value) for value in values)
    wire.check_equality(*PAIRS["test.Everything"], first_record, second_record)


@pytest.mark.parametrize("values", [(1, 1), (1, (1 << 32) + 1), (-3, (1 << 32) - 3), (1, 3)])
@pytest.mark.parametrize("name", ["many_shade", "packed_shade"])
def test_unknown_enum_values_of_packed_runs_are_equal_where_the_official_ones_are(name, values):
    first_record, second_record = (wire.len_record(field_of(name).number, wire.varint(value)) for value in values)
    wire.check_equality(*PAIRS["test.Everything"], first_record, second_record)


@pytest.mark.parametrize("value", [1, -3, (1 << 32) + 1, (1 << 63) + 1])
@pytest.mark.parametrize("name", ["many_shade", "packed_shade"])
def test_unknown_enum_values_packed_and_unpacked_are_equal_where_the_official_ones_are(name, value):
    number = field_of(name).number
    packed_record, unpacked_record = wire.len_record(number, wire.varint(value)), wire.varint_record(number, value)
    wire.check_equality(*PAIRS["test.Everything"], packed_record, unpacked_record)


def test_an_unknown_enum_value_does_not_change_the_oneof():
    encoded = wire.len_record(field_of("pick_text").number, b"text") + wire.varint_record(
        field_of("pick_shade").number, 1
    )
    wire.check_reading(*PAIRS["test.Everything"], encoded)
    assert EVERYTHING.FromString(encoded).pick_text == "text"


def test_the_last_member_of_a_oneof_is_present():
    records = [
        wire.varint_record(80, 1),  # pick_int
        wire.len_record(81, b"a"),  # pick_text
        wire.len_record(82, b"\x18\1"),  # pick_message with one_int64
        wire.varint_record(83, 0),  # pick_shade
        wire.len_record(2048, b""),  # pick_far
    ]
    for first_record in records:
        for second_record in records:
            wire.check_reading(*PAIRS["test.Everything"], first_record + second_record)
            wire.check_reading(*PAIRS["test.Everything"], first_record + second_record + first_record)


def test_a_merged_message_reads_as_the_official_one():
    # Field 19 is tree; fields 1, 2 and 3 of a Tree are value, branches and trunk.
    values = [wire.varint_record(1, i) for i in range(6)]
    parts = (
        values[1] + wire.len_record(2, values[2]),
        wire.len_record(3, values[3]) + wire.len_record(2, values[4]),
        wire.len_record(3, values[5]),
    )
    encoded = b"".join(wire.len_record(19, part) + wire.varint_record(3, 7) for part in parts)
    wire.check_reading(*PAIRS["test.Everything"], encoded)
    assert [branch.value for branch in EVERYTHING.FromString(encoded).tree.branches] == [2, 4]


def test_a_merged_message_of_merged_messages_reads_as_the_official_one():
    # Two trunks, each with one branch. The field numbers are those of the test above.
    tree = wire.len_record(3, wire.varint_record(1, 1) + wire.len_record(2, b"")) + wire.len_record(
        3, wire.len_record(2, wire.varint_record(1, 2))
    )
    encoded = wire.len_record(19, tree) + wire.len_record(19, b"") + wire.len_record(19, tree)
    wire.check_reading(*PAIRS["test.Everything"], encoded)
    assert len(EVERYTHING.FromString(encoded).tree.trunk.branches) == 4


# --- numpy

# Name of a repeated field after its first underscore → dtype of its array.
DTYPES = {
    "double": np.float64, "float": np.float32, "int64": np.int64, "uint64": np.uint64, "int32": np.int32,
    "fixed64": np.uint64, "fixed32": np.uint32, "bool": np.bool_, "uint32": np.uint32, "sfixed32": np.int32,
    "sfixed64": np.int64, "sint32": np.int32, "sint64": np.int64, "color": np.int32, "shade": np.int32,
}  # fmt: skip


@pytest.mark.parametrize("name", REPEATED_NUMERIC_FIELDS)
def test_an_array_of_numbers_has_their_dtype(name):
    assert np.asarray(getattr(EVERYTHING(), name)).dtype == DTYPES[name.partition("_")[2]]


@pytest.mark.parametrize("name", REPEATED_NUMERIC_FIELDS)
@examples(25)
@given(data=st.data())
def test_an_array_of_numbers_has_the_official_values(name, data):
    field = field_of(name)
    encoded = b"".join(data.draw(st.lists(wire.field_records(field), max_size=5)))
    array = np.asarray(getattr(EVERYTHING.FromString(encoded), name))
    expected = np.array(getattr(PAIRS["test.Everything"][1].FromString(encoded), name), array.dtype)
    assert array.shape == expected.shape
    assert array.tobytes() == expected.tobytes()


@pytest.mark.parametrize("name", REPEATED_NUMERIC_FIELDS)
def test_an_array_of_numbers_is_read_only(name):
    with pytest.raises(ValueError, match="read-only"):
        np.asarray(getattr(EVERYTHING.FromString(wire.len_record(field_of(name).number, b"\0" * 8)), name))[0] = 1


@pytest.mark.parametrize(
    "name", [name for name in REPEATED_NUMERIC_FIELDS if wire.wire_type_of(field_of(name)) != wire.VARINT]
)
def test_an_array_of_one_packed_run_of_fixed_size_numbers_shares_the_memory_of_the_buffer(name):
    data = np.frombuffer(wire.len_record(field_of(name).number, bytes(range(64))), np.uint8)
    array = np.asarray(getattr(onnxwire.load(data, EVERYTHING), name))
    assert np.shares_memory(array, data)
    assert array.tobytes() == bytes(range(64))


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 63, 64, 65, 66, 1000, 40_000])
@pytest.mark.parametrize("name", ["packed_int64", "packed_sint32", "packed_bool", "packed_shade", "many_uint32"])
def test_packed_runs_of_any_length_read_as_the_official_ones(name, count):
    # Pseudorandom numbers of different lengths, up to 64 bits.
    values = [(i * 0x9E3779B97F4A7C15 & (1 << 64) - 1) >> i * 7 % 64 for i in range(count)]
    encoded = wire.len_record(field_of(name).number, b"".join(map(wire.varint, values)))
    official = getattr(PAIRS["test.Everything"][1].FromString(encoded), name)
    assert list(getattr(EVERYTHING.FromString(encoded), name)) == list(official)


# --- malformed tables

HEAD = "# t.proto\n\npackage: test\nsyntax: proto2\n\n"
MESSAGE = "## message M\n\nDoc.\n\n"
COLUMNS = (
    "| number | name | type | label | oneof | packed | since | until | doc |\n|---|---|---|---|---|---|---|---|---|\n"
)
ENUM = "## enum E\n\nDoc.\n\n| number | name | since | until | doc |\n|---|---|---|---|---|\n| 0 | A | 1 | | Doc. |\n"
MESSAGE_HEAD = HEAD + MESSAGE + COLUMNS
# Fault → text of a table file.
MALFORMED_TABLES = {
    "a table before a heading": HEAD + "| 1 |\n",
    "a heading of another kind": HEAD + "## service S\n",
    "a heading without a name": HEAD + "## message\n",
    "a heading of two names": HEAD + "## message A B\n",
    "an empty retired heading": HEAD + "## retired\n",
    "other columns": HEAD + MESSAGE + "| number | name |\n",
    "columns of an enum": HEAD + MESSAGE + "| number | name | since | until | doc |\n",
    "a cell too few": MESSAGE_HEAD + "| 1 | a | int32 | optional | | | 1 | |\n",
    "a cell too many": MESSAGE_HEAD + "| 1 | a | int32 | optional | | | 1 | | Doc. | |\n",
    "an unknown type": MESSAGE_HEAD + "| 1 | a | int33 | optional | | | 1 | | Doc. |\n",
    "a message type without a name": MESSAGE_HEAD + "| 1 | a | message | optional | | | 1 | | Doc. |\n",
    "a scalar type with a name": MESSAGE_HEAD + "| 1 | a | int32 M | optional | | | 1 | | Doc. |\n",
    "a group": MESSAGE_HEAD + "| 1 | a | group G | optional | | | 1 | | Doc. |\n",
    "an unknown label": MESSAGE_HEAD + "| 1 | a | int32 | required | | | 1 | | Doc. |\n",
    "an unknown packing": MESSAGE_HEAD + "| 1 | a | int32 | repeated | | yes | 1 | | Doc. |\n",
    "a packed singular field": MESSAGE_HEAD + "| 1 | a | int32 | optional | | packed | 1 | | Doc. |\n",
    "a packed string": MESSAGE_HEAD + "| 1 | a | string | repeated | | packed | 1 | | Doc. |\n",
    "a packed message": MESSAGE_HEAD + "| 1 | a | message M | repeated | | packed | 1 | | Doc. |\n",
    "a repeated oneof member": MESSAGE_HEAD + "| 1 | a | int32 | repeated | o | | 1 | | Doc. |\n",
    "field number 0": MESSAGE_HEAD + "| 0 | a | int32 | optional | | | 1 | | Doc. |\n",
    "a negative field number": MESSAGE_HEAD + "| -1 | a | int32 | optional | | | 1 | | Doc. |\n",
    "a field number of 30 bits": MESSAGE_HEAD + "| 536870912 | a | int32 | optional | | | 1 | | Doc. |\n",
    "an invalid field number": MESSAGE_HEAD + "| one | a | int32 | optional | | | 1 | | Doc. |\n",
    "no field number": MESSAGE_HEAD + "| | a | int32 | optional | | | 1 | | Doc. |\n",
    "no field name": MESSAGE_HEAD + "| 1 | | int32 | optional | | | 1 | | Doc. |\n",
    "an invalid field name": MESSAGE_HEAD + "| 1 | a b | int32 | optional | | | 1 | | Doc. |\n",
    "an invalid version": MESSAGE_HEAD + "| 1 | a | int32 | optional | | | one | | Doc. |\n",
    "a number twice": MESSAGE_HEAD
    + "| 1 | a | int32 | optional | | | 1 | | D. |\n| 1 | b | int32 | optional | | | 1 | | D. |\n",
    "a name twice": MESSAGE_HEAD
    + "| 1 | a | int32 | optional | | | 1 | | D. |\n| 2 | a | int32 | optional | | | 1 | | D. |\n",
    "a message twice": MESSAGE_HEAD + "\n" + MESSAGE + COLUMNS,
    "an enum twice": HEAD + ENUM + "\n" + ENUM,
    "a message named as an enum": HEAD + ENUM + "\n## message E\n",
    "a message that no table has": MESSAGE_HEAD + "| 1 | a | message N | optional | | | 1 | | Doc. |\n",
    "an enum that no table has": MESSAGE_HEAD + "| 1 | a | enum N | optional | | | 1 | | Doc. |\n",
    "an enum without values": HEAD + "## enum E\n\nDoc.\n",
    "an enum value of 33 bits": HEAD + ENUM + "| 4294967296 | B | 1 | | Doc. |\n",
    "an enum name twice": HEAD + ENUM + "| 1 | A | 1 | | Doc. |\n",
    "an invalid enum value": HEAD + ENUM + "| one | B | 1 | | Doc. |\n",
    "an unknown syntax": "# t.proto\n\npackage: test\nsyntax: proto9\n\n" + MESSAGE,
    "an invalid reserved range": MESSAGE_HEAD + "| 1-x | | reserved | | | | | | Doc. |\n",
    "a reserved range backwards": MESSAGE_HEAD + "| 9-5 | | reserved | | | | | | Doc. |\n",
    "a reserved row without number and name": MESSAGE_HEAD + "| | | reserved | | | | | | Doc. |\n",
    "a field with a reserved number": MESSAGE_HEAD
    + "| 1 | a | int32 | optional | | | 1 | | D. |\n| 1 | | reserved | | | | | | D. |\n",
}


@pytest.mark.parametrize("fault", MALFORMED_TABLES)
def test_a_malformed_table_raises_value_error_that_names_file_and_line(fault, tmp_path):
    path = tmp_path / "malformed.md"
    path.write_text(MALFORMED_TABLES[fault], encoding="utf-8")
    with pytest.raises(ValueError, match=r"malformed\.md, line \d+: "):
        onnxwire.load_schema(path)


@pytest.mark.parametrize("fault", ["an unknown type", "a cell too few", "a field number of 30 bits", "a number twice"])
def test_the_error_of_a_malformed_table_names_the_line_of_its_fault(fault, tmp_path):
    path = tmp_path / "malformed.md"
    path.write_text(MALFORMED_TABLES[fault], encoding="utf-8")
    with pytest.raises(ValueError, match=f"line {MALFORMED_TABLES[fault].count(chr(10))}: "):
        onnxwire.load_schema(path)


def test_an_error_about_a_reserved_range_names_the_number_of_the_field(tmp_path):
    path = tmp_path / "malformed.md"
    rows = "| 7 | a | int32 | optional | | | 1 | | D. |\n| 5-9 | | reserved | | | | | | D. |\n"
    path.write_text(MESSAGE_HEAD + rows, encoding="utf-8")
    with pytest.raises(ValueError, match="a field of M has the reserved number 7"):
        onnxwire.load_schema(path)


def test_empty_last_cells_need_no_spaces(tmp_path):
    path = tmp_path / "cells.md"
    path.write_text(MESSAGE_HEAD + "|1|n|int32|optional||||||\n")
    assert onnxwire.load_schema(path).M.DESCRIPTOR.fields_by_name["n"].since is None


def test_a_table_that_is_not_text_raises_value_error_that_names_the_file(tmp_path):
    path = tmp_path / "malformed.md"
    path.write_bytes(b"# t.proto\n\xff\xfe")
    with pytest.raises(ValueError, match=r"malformed\.md"):
        onnxwire.load_schema(path)


def test_a_missing_table_raises_file_not_found_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        onnxwire.load_schema(tmp_path / "absent.md")
