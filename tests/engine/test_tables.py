"""The tables agree with the official descriptors and the history of the releases; the engine has no names of ONNX."""

from __future__ import annotations

import csv
import glob
import os
import re

import pytest
import wire
from each import each
from onnx import onnx_data_pb2, onnx_ml_pb2, onnx_operators_ml_pb2

import onnxwire
from onnxwire.engine.descriptor import FieldDescriptor
from onnxwire.engine.table_text import parse
from onnxwire.messages import SCHEMA
from onnxwire.messages._tables import TABLES

TESTS_FOLDER = os.path.dirname(os.path.dirname(__file__))
PACKAGE = os.path.join(TESTS_FOLDER, "..", "onnxwire")
FILES = [onnx_ml_pb2.DESCRIPTOR, onnx_operators_ml_pb2.DESCRIPTOR, onnx_data_pb2.DESCRIPTOR]


def official_messages():
    """Return all message descriptors of the official files by full name, including nested ones."""
    descriptors = {}

    def add(descriptor):
        descriptors[descriptor.full_name] = descriptor
        for nested in descriptor.nested_types:
            add(nested)

    for file in FILES:
        for descriptor in file.message_types_by_name.values():
            add(descriptor)
    return descriptors


def official_enums():
    """Return all enum descriptors of the official files by full name, including nested ones."""
    enums = {enum.full_name: enum for file in FILES for enum in file.enum_types_by_name.values()}
    for message in official_messages().values():
        enums |= {enum.full_name: enum for enum in message.enum_types}
    return enums


MESSAGES, ENUMS = official_messages(), official_enums()
FIELDS = [f"{message.full_name}.{field.name}" for message in MESSAGES.values() for field in message.fields]
EVERY_MESSAGE = each("name", MESSAGES)
EVERY_FIELD = each("name", FIELDS)
EVERY_ENUM = pytest.mark.parametrize("name", ENUMS)


def field_pair(name):
    """Return onnxwire's descriptor and the official descriptor of a field such as "onnx.NodeProto.input"."""
    message, _, field = name.rpartition(".")
    return SCHEMA.messages[message].DESCRIPTOR.fields_by_name[field], MESSAGES[message].fields_by_name[field]


# --- against the descriptors


def test_the_tables_have_exactly_the_official_messages():
    assert set(SCHEMA.messages) == set(MESSAGES)


def test_the_tables_have_exactly_the_official_enums():
    assert {name for name, enum in SCHEMA.enums.items() if enum.values()} == set(ENUMS)


@EVERY_MESSAGE
def test_a_message_has_the_official_field_numbers_and_names(name):
    expected = sorted((field.number, field.name) for field in MESSAGES[name].fields)
    assert [(field.number, field.name) for field in SCHEMA.messages[name].DESCRIPTOR.fields] == expected


@EVERY_FIELD
def test_a_field_has_the_official_type(name):
    our_field, official_field = field_pair(name)
    assert (our_field.type, our_field.cpp_type) == (official_field.type, official_field.cpp_type)


@EVERY_FIELD
def test_a_field_has_the_official_label_and_presence(name):
    our_field, official_field = field_pair(name)
    assert (our_field.is_repeated, our_field.has_presence) == (official_field.is_repeated, official_field.has_presence)


@EVERY_FIELD
def test_a_field_is_packed_exactly_if_the_official_field_is(name):
    our_field, official_field = field_pair(name)
    assert our_field.is_packed is official_field.is_packed


@EVERY_FIELD
def test_a_field_has_the_official_oneof(name):
    our_field, official_field = field_pair(name)
    assert (our_field.containing_oneof and our_field.containing_oneof.full_name) == (
        official_field.containing_oneof and official_field.containing_oneof.full_name
    )


@EVERY_FIELD
def test_a_field_has_the_official_message_or_enum(name):
    our_field, official_field = field_pair(name)
    for kind in ("message_type", "enum_type"):
        our_type, official_type = getattr(our_field, kind), getattr(official_field, kind)
        assert (our_type and our_type.full_name) == (official_type and official_type.full_name)


@EVERY_FIELD
def test_a_field_has_the_official_default(name):
    our_field, official_field = field_pair(name)
    if our_field.message_type is None:
        assert our_field.default_value == official_field.default_value


@EVERY_ENUM
def test_an_enum_has_the_official_values(name):
    expected = sorted((value.number, value.name) for value in ENUMS[name].values)
    assert sorted((value.number, value.name) for value in SCHEMA.enums[name].DESCRIPTOR.values) == expected


@EVERY_ENUM
def test_an_enum_is_closed_exactly_if_the_official_enum_is(name):
    assert SCHEMA.enums[name].DESCRIPTOR.is_closed is ENUMS[name].is_closed


def reserved_of(name):
    """Return the reserved ranges (start, last number) and names of an official message, which only its DescriptorProto
    contains."""
    from google.protobuf.descriptor_pb2 import DescriptorProto

    proto = DescriptorProto()
    MESSAGES[name].CopyToProto(proto)
    return [(entry.start, entry.end - 1) for entry in proto.reserved_range], list(proto.reserved_name)


@EVERY_MESSAGE
def test_a_message_has_the_official_reserved_numbers(name):
    assert sorted(SCHEMA.messages[name].DESCRIPTOR.reserved_ranges) == sorted(reserved_of(name)[0])


@EVERY_MESSAGE
def test_a_message_has_the_official_reserved_names(name):
    assert sorted(SCHEMA.messages[name].DESCRIPTOR.reserved_names) == sorted(reserved_of(name)[1])


def test_every_message_field_enum_and_value_has_a_doc_of_one_line():
    descriptors = [cls.DESCRIPTOR for cls in SCHEMA.messages.values()] + list(SCHEMA.retired.values())
    enums = [wrapper.DESCRIPTOR for wrapper in SCHEMA.enums.values()]
    documented_objects = [
        *descriptors,
        *enums,
        *(field for descriptor in descriptors for field in descriptor.fields + descriptor.retired_fields),
        *(value for enum in enums for value in enum.values + enum.retired_values),
    ]
    assert len(documented_objects) > 300
    assert [item for item in documented_objects if not item.doc.strip() or "\n" in item.doc] == []


# --- against the history


def read_facts(name):
    """Return the rows of a file in tests/facts as dicts."""
    with open(os.path.join(TESTS_FOLDER, "facts", name), encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t"))


def parse_release(text):
    """Return the numbers of a release such as "v1.2" as a tuple: (1, 2, 0)."""
    return tuple(int(part) for part in (text.removeprefix("v") + ".0.0").split(".")[:3])


ENUM_FACTS, FIELD_FACTS = read_facts("onnx_enum_history.tsv"), read_facts("onnx_field_history.tsv")
NEWEST = max(parse_release(row["last_release"]) for row in ENUM_FACTS)
# (first release, last release, number) of each IR version.
IR_RELEASES = [
    (parse_release(row["first_release"]), parse_release(row["last_release"]), int(row["number"]))
    for row in ENUM_FACTS
    if (row["enum"], row["name"]) == ("Version", "IR_VERSION")
]


def ir_version_of(text):
    """Return the IR version of a release: the number of IR_VERSION in its proto."""
    [number] = [
        number
        for first_release, last_release, number in IR_RELEASES
        if first_release <= parse_release(text) <= last_release
    ]
    return number


def ir_range_of(row):
    """Return the first and the last IR version of a row. The last is None if the row is in the newest release."""
    is_in_newest_release = parse_release(row["last_release"]) == NEWEST
    return ir_version_of(row["first_release"]), None if is_in_newest_release else ir_version_of(row["last_release"])


# Number of a field type → its name in proto files.
TYPE_NAMES = {
    getattr(FieldDescriptor, name): name.removeprefix("TYPE_").lower()
    for name in dir(FieldDescriptor)
    if name.startswith("TYPE_")
}


def test_the_tables_have_one_row_for_each_row_of_the_field_history():
    tables = [
        (
            message,
            number,
            name,
            f"{TYPE_NAMES[kind]} {type_name}".strip(),
            "repeated" if is_repeated else "optional",
            oneof,
            is_packed,
            since,
            until,
        )
        for _, _, _, _, _, messages, _ in TABLES
        for message, _, _, rows, _ in messages
        for number, name, kind, type_name, is_repeated, oneof, is_packed, since, until, _, _ in rows
    ]
    facts = [
        (
            row["message"],
            int(row["number"]),
            row["name"],
            row["type"],
            row["label"],
            row["oneof"],
            row["packed"] == "packed",
            *ir_range_of(row),
        )
        for row in FIELD_FACTS
    ]
    assert sorted(tables, key=repr) == sorted(facts, key=repr)


def test_the_tables_have_one_row_for_each_row_of_the_enum_history():
    tables = [
        (name.removeprefix("onnx."), value.number, value.name, value.since, value.until)
        for name, wrapper in SCHEMA.enums.items()
        for value in wrapper.DESCRIPTOR.values + wrapper.DESCRIPTOR.retired_values
    ]
    facts = [(row["enum"], int(row["number"]), row["name"], *ir_range_of(row)) for row in ENUM_FACTS]
    assert sorted(tables, key=repr) == sorted(facts, key=repr)


def test_messages_without_a_row_in_the_newest_release_are_retired():
    current_messages = {row["message"] for row in FIELD_FACTS if parse_release(row["last_release"]) == NEWEST}
    names = {row["message"] for row in FIELD_FACTS}
    assert {name.removeprefix("onnx.") for name in SCHEMA.retired} == names - current_messages


def test_the_newest_ir_version_is_that_of_the_official_runtime():
    assert onnxwire.IR_VERSION == onnx_ml_pb2.IR_VERSION == max(number for _, _, number in IR_RELEASES)


# --- the files

SCHEMA_FILES = sorted(glob.glob(os.path.join(TESTS_FOLDER, "..", "schema", "onnx-*.md")))


@pytest.mark.parametrize("path", SCHEMA_FILES, ids=map(os.path.basename, SCHEMA_FILES))
def test_the_built_tables_are_those_of_the_file(path):
    with open(path, encoding="utf-8") as file:
        tables = parse(file.read(), os.path.basename(path))
    assert tuple(tables) in TABLES


def test_the_built_tables_are_those_of_three_files():
    assert len(SCHEMA_FILES) == len(TABLES) == 3


# --- no other copies of the tables

SOURCES = sorted(glob.glob(os.path.join(PACKAGE, "engine", "*.p*")))


def onnx_words():
    """Return words of ONNX that the engine must not contain.

    These are the names of messages that end in Proto or have several words, field names that contain an underscore, and
    three other words.
    """
    names = {cls.DESCRIPTOR.name for cls in SCHEMA.messages.values()}
    words = {name for name in names if name.endswith("Proto") or re.fullmatch("([A-Z][a-z]+){2,}", name)}
    words |= {field.rpartition(".")[2] for field in FIELDS if "_" in field.rpartition(".")[2]}
    return words | {"initializer", "dims", "onnx"}


def test_the_onnx_words_include_well_known_names():
    assert {"ModelProto", "GraphProto", "raw_data", "initializer", "op_type", "TensorAnnotation"} <= onnx_words()


@pytest.mark.parametrize("path", SOURCES, ids=map(os.path.basename, SOURCES))
def test_the_engine_contains_no_names_of_onnx(path):
    with open(path, encoding="utf-8") as file:
        words = set(re.findall(r"[A-Za-z_]\w*", file.read()))
    assert words & onnx_words() == set()


def test_the_list_of_engine_sources_has_more_than_40_files():
    assert len(SOURCES) > 40


@EVERY_FIELD
def test_a_class_has_the_official_field_number_constant(name):
    message, _, field = name.rpartition(".")
    constant = f"{field.upper()}_FIELD_NUMBER"
    assert getattr(SCHEMA.messages[message], constant) == getattr(wire.official_class(message), constant)
