"""The JSON form equals the output of the official runtime. Tests of options, errors and `onnxwire dump --json`."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import forked_commands
import pytest
import wire
from google.protobuf import json_format
from test_text import (
    EVERY_MESSAGE,
    EVERYTHING,
    PAIRS,
    TENSOR,
    check_memory,
    field_number,
    has_invalid_utf8,
    write_sparse_model,
)

import onnxwire

DIGITS = Path(__file__).parents[2] / "examples" / "digits_cnn.onnx"


def check(pair_of_classes, data):
    """Assert that an encoded message is printed as by the official runtime, and that invalid UTF-8 is an error."""
    our_class, official_class = pair_of_classes
    official_message = official_class.FromString(data)
    if has_invalid_utf8(official_message):
        # For such a string the official runtime prints the repr of the bytes, so there is no official output.
        with pytest.raises(onnxwire.DecodeError, match="not valid UTF-8"):
            onnxwire.to_json(our_class.FromString(data))
        replace_invalid_strings(official_message)
        data = official_message.SerializeToString()
    assert onnxwire.to_json(our_class.FromString(data)) == json_format.MessageToJson(official_message)


def replace_invalid_strings(message):
    """Replace every string that is not valid UTF-8."""
    for field, value in message.ListFields():
        if field.message_type is not None:
            for element in value if field.is_repeated else (value,):
                replace_invalid_strings(element)
        elif field.type == wire.FieldDescriptor.TYPE_STRING and field.is_repeated:
            value[:] = [element if isinstance(element, str) else "mended" for element in list(value)]
        elif isinstance(value, bytes) and field.type == wire.FieldDescriptor.TYPE_STRING:
            setattr(message, field.name, "mended")


@EVERY_MESSAGE
def test_keys_are_the_official_json_names(name):
    our_class, official_class = PAIRS[name]
    for field in our_class.DESCRIPTOR.fields:
        key = official_class.DESCRIPTOR.fields_by_number[field.number].json_name
        record = wire.tag(field.number, field.wire_type) + bytes(8 if field.wire_type == wire.FIXED64 else 4)
        if field.wire_type in (wire.LEN, wire.VARINT):
            record = wire.tag(field.number, field.wire_type) + b"\0"
        printed_fields = json.loads(onnxwire.to_json(our_class.FromString(record)))
        assert list(printed_fields) in ([key], [])
        # A closed enum may lack the value 0.
        assert printed_fields or field.enum_type is not None


@pytest.mark.parametrize("indent", [None, 0, 1, 2, 7])
def test_indent_has_the_same_effect_as_in_the_official_runtime(indent):
    holder = wire.len_record(1, b"") + wire.len_record(2, b"") * 2  # three empty messages
    for name, encoded in (("onnx.ModelProto", DIGITS.read_bytes()), ("onnx.ModelProto", b""), ("test.Holder", holder)):
        our_class, official_class = PAIRS[name]
        expected = json_format.MessageToJson(official_class.FromString(encoded), indent=indent)
        assert onnxwire.to_json(our_class.FromString(encoded), indent=indent) == expected


def test_a_stream_receives_the_same_text_as_the_return_value():
    model = onnxwire.load(DIGITS)
    for options in ({}, {"max_bytes": 100}, {"indent": None}):
        stream = io.StringIO()
        assert onnxwire.to_json(model, stream, **options) is None
        assert stream.getvalue() == onnxwire.to_json(model, **options)


def test_long_values_are_replaced_by_objects_that_contain_their_sizes():
    tensor = TENSOR.official(
        dims=range(11), raw_data=b"x" * 1000, name="é" * 6, string_data=[b"", b"x" * 11], data_type=1
    )
    printed_text = onnxwire.to_json(TENSOR.ours.FromString(tensor.SerializeToString()), max_bytes=10)
    assert json.loads(printed_text) == {
        "dims": {"elidedValues": 11},
        "dataType": 1,
        "stringData": ["", {"elidedBytes": 11}],
        "name": {"elidedBytes": 12},
        "rawData": {"elidedBytes": 1000},
    }
    for key, value in json.loads(printed_text).items():
        if key != "dataType":
            with pytest.raises(json_format.ParseError):
                json_format.ParseDict({key: value}, TENSOR.official())


def test_printing_200_megabytes_needs_less_than_2_megabytes_of_memory(tmp_path):
    n = write_sparse_model(tmp_path / "big.onnx")
    # Base64 has 4 characters for 3 bytes.
    assert check_memory(tmp_path / "big.onnx", onnxwire.to_json).characters > 4 * n // 3


# --- errors


@pytest.mark.parametrize("length", [2, 100_000])
@pytest.mark.parametrize(("name", "path"), [("one_string", "one_string"), ("many_string", "many_string[1]")])
def test_a_string_that_is_not_utf_8_is_named_with_its_path(name, path, length):
    number = field_number(EVERYTHING.ours, name)
    string_start = wire.len_record(number, b"valid") + wire.tag(number, wire.LEN) + wire.varint(length)
    child_start = wire.tag(field_number(EVERYTHING.ours, "child"), wire.LEN) + wire.varint(len(string_start) + length)
    message = EVERYTHING.ours.FromString(child_start + string_start + b"x" * (length - 1) + b"\xff")
    with pytest.raises(onnxwire.DecodeError, match="not valid UTF-8, which JSON can't represent") as error_info:
        onnxwire.to_json(message)
    assert (error_info.value.path, error_info.value.offset) == (f"child.{path}", len(child_start + string_start))


def test_a_string_that_is_not_utf_8_is_named_in_a_message_without_a_file():
    graph = onnxwire.GraphProto()
    # Field 2 of a graph is its name. Fields 1 and 3 of a node are its input and name.
    graph.MergeFromString(wire.len_record(2, b"a\xff"))
    merged_model, model_with_added_node, built_model = (
        onnxwire.ModelProto(),
        onnxwire.ModelProto(),
        onnxwire.ModelProto(),
    )
    merged_model.graph.MergeFrom(graph)
    model_with_added_node.graph.node.append(onnxwire.NodeProto.FromString(wire.len_record(3, b"\xff")))
    built_model.graph.node.add()
    built_model.graph.node.add().MergeFromString(wire.len_record(1, b"x") + wire.len_record(1, b"\xff"))
    paths = ["name", "graph.name", "graph.node[0].name", "graph.node[1].input[1]"]
    for message, path in zip((graph, merged_model, model_with_added_node, built_model), paths, strict=True):
        with pytest.raises(onnxwire.DecodeError, match="not valid UTF-8") as error_info:
            onnxwire.to_json(message)
        assert (error_info.value.path, error_info.value.offset) == (path, None)


def test_messages_nested_too_deeply_for_protobuf_are_rejected():
    number = field_number(EVERYTHING.ours, "child")
    data = b""
    for depth in range(103):
        message = EVERYTHING.ours.FromString(data)
        if depth <= 100:
            assert onnxwire.to_json(message) == json_format.MessageToJson(EVERYTHING.official.FromString(data))
        else:
            with pytest.raises(onnxwire.DecodeError, match="nested more than 100 deep"):
                onnxwire.to_json(message)
        data = wire.len_record(number, data)


# --- the command


def run_dump(*arguments):
    """Run `onnxwire dump --json` with these arguments."""
    return forked_commands.run("dump", *arguments, "--json", text=True)


def test_dump_prints_json():
    process = run_dump(DIGITS)
    assert (process.returncode, process.stderr) == (0, "")
    assert process.stdout == onnxwire.to_json(onnxwire.load(DIGITS)) + "\n"


def test_dump_of_a_string_that_json_can_not_represent_ends_with_one_line(tmp_path):
    path = tmp_path / "broken.onnx"
    path.write_bytes(wire.varint_record(1, 8) + wire.len_record(2, b"good \xff"))  # ir_version, producer_name
    process = run_dump(path)
    assert process.returncode == 2
    assert re.fullmatch(r"onnxwire: .*: byte 4: producer_name: the string is not valid UTF-8.*\n", process.stderr)
