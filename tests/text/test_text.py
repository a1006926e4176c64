"""The text format equals the output of the official runtime, and with `as_protoc=True` the output of protoc."""

from __future__ import annotations

import io
import itertools
import os
import shutil
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any, NamedTuple

import forked_commands
import onnx
import pytest
import wire
from budget import examples
from everything import PAIRS as GENERIC
from google.protobuf import descriptor_pb2, text_format
from hypothesis import given
from hypothesis import strategies as st
from test_bundled_files import FILES, ONNX_FOLDER, classes_of, read

import onnxwire
from onnxwire.messages import SCHEMA
from onnxwire.text import printed_fields

DIGITS = Path(__file__).parents[2] / "examples" / "digits_cnn.onnx"


class ClassPair(NamedTuple):
    """The classes of a message in onnxwire and in the official runtime."""

    ours: Any
    official: Any


PAIRS = {name: ClassPair(cls, wire.official_class(name)) for name, cls in SCHEMA.messages.items()} | {
    name: ClassPair(*classes) for name, classes in GENERIC.items()
}
EVERY_MESSAGE = pytest.mark.parametrize("name", PAIRS)
TENSOR = PAIRS["onnx.TensorProto"]
EVERYTHING = PAIRS["test.Everything"]


class CountingSink:
    """A sink that counts the characters, in total and in the longest write."""

    def __init__(self):
        self.characters = self.longest = 0

    def write(self, text):
        self.characters += len(text)
        self.longest = max(self.longest, len(text))


def field_number(cls, name):
    """Return the number of a field of a message class."""
    return cls.DESCRIPTOR.fields_by_name[name].number


def check(pair_of_classes, data):
    """Assert that an encoded message is printed as by the official runtime."""
    our_class, official_class = pair_of_classes
    assert onnxwire.to_text(our_class.FromString(data)) == text_format.MessageToString(official_class.FromString(data))


# --- as the official runtime


FLOATS = st.floats(width=32) | st.sampled_from(
    [2.0**n for n in range(-149, 128)] + [0.1, -0.0, 123456.7, 16777216.0, 1e-45, 3.4028234663852886e38]
)


def test_a_long_message_in_several_pieces_is_merged():
    our_class, official_class = EVERYTHING
    child = field_number(our_class, "child")
    first_piece = official_class(
        many_string=["a", "x" * printed_fields.SMALL_BYTES], one_bytes=b"y" * printed_fields.SMALL_BYTES
    ).SerializeToString()
    second_piece = official_class(
        many_string=["z" * 2 * printed_fields.SMALL_BYTES, "b"], one_string="é" * printed_fields.SMALL_BYTES
    ).SerializeToString()
    check(EVERYTHING, wire.len_record(child, first_piece) + wire.len_record(child, second_piece))


def test_an_empty_message_is_empty_text():
    assert onnxwire.to_text(onnxwire.ModelProto()) == ""


# --- streaming and eliding


def test_a_stream_receives_the_same_text_as_the_return_value():
    model = onnxwire.load(DIGITS)
    for options in ({}, {"max_bytes": 100}, {"as_protoc": True}):
        stream = io.StringIO()
        assert onnxwire.to_text(model, stream, **options) is None
        assert stream.getvalue() == onnxwire.to_text(model, **options)


def test_long_values_are_replaced_by_notes_that_parsers_reject():
    tensor = TENSOR.official(
        dims=range(11), raw_data=b"x" * 1000, name="é" * 6, float_data=[1] * 10, string_data=[b"0123456789"]
    )
    tensor.string_data.append(b"0123456789a")
    printed_text = onnxwire.to_text(TENSOR.ours.FromString(tensor.SerializeToString()), max_bytes=10)
    assert printed_text == (
        "dims: ... # 11 values\n"
        + "float_data: 1.0\n" * 10
        + 'string_data: "0123456789"\nstring_data: ... # 11 bytes\nname: ... # 12 bytes\nraw_data: ... # 1,000 bytes\n'
    )
    for line in printed_text.splitlines():
        if "..." in line:
            with pytest.raises(text_format.ParseError):
                text_format.Parse(line, TENSOR.official())


def test_a_limit_elides_neither_a_singular_number_nor_a_value_of_exactly_that_length():
    tensor = TENSOR.official(data_type=1, raw_data=b"", int64_data=[5])
    message = TENSOR.ours.FromString(tensor.SerializeToString())
    assert onnxwire.to_text(message, max_bytes=0) == 'data_type: 1\nint64_data: ... # 1 value\nraw_data: ""\n'
    assert onnxwire.to_text(message, max_bytes=1) == text_format.MessageToString(tensor)


def write_sparse_model(path, *fields):
    """Write a model of one tensor whose raw_data is a hole in the file; return the size of raw_data, 200 MB.

    fields: the records of other fields of the tensor.
    """
    n = 200_000_000
    tensor = b"".join(fields) + wire.tag(9, wire.LEN) + wire.varint(n)  # raw_data
    graph = wire.tag(5, wire.LEN) + wire.varint(len(tensor) + n) + tensor  # initializer
    # ir_version and graph
    file_start = wire.varint_record(1, 8) + wire.tag(7, wire.LEN) + wire.varint(len(graph) + n) + graph
    path.write_bytes(file_start)
    os.truncate(path, len(file_start) + n)
    return n


def check_memory(path, write, **options):
    """Print a model to a CountingSink and return the sink.

    Asserts that less than 2 MB of memory are needed, and that each write has less than 1,000,000 characters.
    """
    sink = CountingSink()
    with onnxwire.load(path) as model:
        write(model, sink, max_bytes=0)  # triggers imports on first use
        sink = CountingSink()
        tracemalloc.start()
        try:
            write(model, sink, **options)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert peak < 2_000_000
    assert sink.longest < 1_000_000
    return sink


def test_printing_200_megabytes_needs_less_than_2_megabytes_of_memory(tmp_path):
    n = write_sparse_model(tmp_path / "big.onnx")
    # A zero byte is printed as \000.
    assert check_memory(tmp_path / "big.onnx", onnxwire.to_text).characters > 4 * n


# --- errors


def test_messages_nested_too_deeply_for_protobuf_are_rejected():
    number = field_number(EVERYTHING.ours, "child")
    data = b""
    for depth in range(103):
        message = EVERYTHING.ours.FromString(data)
        if depth <= 100:
            assert onnxwire.to_text(message) == text_format.MessageToString(EVERYTHING.official.FromString(data))
        else:
            for as_protoc in (False, True):
                with pytest.raises(onnxwire.DecodeError, match="nested more than 100 deep") as error_info:
                    onnxwire.to_text(message, as_protoc=as_protoc)
                with pytest.raises(onnxwire.DecodeError) as verify_error:
                    onnxwire.verify(data, EVERYTHING.ours)
                assert error_info.value.path == verify_error.value.path
                assert verify_error.value.offset < error_info.value.offset <= len(data)
        data = wire.len_record(number, data)


def test_ten_thousand_levels_raise_decode_error():
    number = field_number(EVERYTHING.ours, "child")
    data = b""
    for _ in range(10_000):
        data = wire.len_record(number, data)
    with pytest.raises(onnxwire.DecodeError, match="nested more than 100 deep"):
        onnxwire.to_text(EVERYTHING.ours.FromString(data))


@EVERY_MESSAGE
@examples(15)
@given(data=st.data())
def test_flawed_bytes_raise_decode_error_or_no_error(name, data):
    our_class, _ = PAIRS[name]
    flawed_bytes = data.draw(wire.malformed_wire(our_class.DESCRIPTOR, 1) | wire.damaged_wire(our_class.DESCRIPTOR))
    try:
        message = our_class.FromString(flawed_bytes)
    except onnxwire.DecodeError:
        return
    for write, options in ((onnxwire.to_text, {}), (onnxwire.to_text, {"as_protoc": True}), (onnxwire.to_json, {})):
        try:
            write(message, CountingSink(), **options)
        except onnxwire.DecodeError as error:
            assert str(error)


@pytest.mark.parametrize("write", [onnxwire.to_text, onnxwire.to_json])
def test_invalid_arguments_are_rejected(write):
    with pytest.raises(TypeError, match="expected a message of onnxwire, not ModelProto"):
        write(onnx.ModelProto())
    with pytest.raises(ValueError, match="must not be negative"):
        write(onnxwire.ModelProto(), max_bytes=-1)


@pytest.mark.parametrize("write", [onnxwire.to_text, onnxwire.to_json])
def test_a_closed_document_raises_closed_error(write):
    model = onnxwire.load(DIGITS)
    model.close()
    with pytest.raises(onnxwire.ClosedError):
        write(model)


MODEL_CHANGES = {
    "close": lambda model: model.close(),
    "clear": lambda model: model.Clear(),
    "shorten numbers": lambda model: model.graph.initializer[0].ClearField("float_data"),
    "lengthen numbers": lambda model: model.graph.initializer[0].float_data.extend([1.5] * 50_000),
    "replace a long value": lambda model: setattr(model.graph.initializer[0], "raw_data", b"short"),
    "remove messages": lambda model: model.graph.ClearField("node"),
    "print again": lambda model: onnxwire.to_text(model, as_protoc=True),
}


@pytest.mark.parametrize("change", MODEL_CHANGES)
@pytest.mark.parametrize("n_pieces", range(1, 12, 2))
def test_a_sink_may_change_the_message_that_is_printed(n_pieces, change):
    tensor = TENSOR.official(float_data=[0.37 * i for i in range(20_000)], raw_data=bytes(range(256)) * 1000)
    nodes = [onnx.helper.make_node("Add", ["a", "b"], [f"value_{i}"]) for i in range(3000)]
    data = onnx.helper.make_model(onnx.helper.make_graph(nodes, "g", [], [], [tensor])).SerializeToString()
    model = onnxwire.load(io.BytesIO(data))
    printed_pieces = []

    class Sink:
        def write(self, text):
            printed_pieces.append(text)
            if len(printed_pieces) == n_pieces:
                MODEL_CHANGES[change](model)

    try:
        onnxwire.to_text(model, Sink())
    except onnxwire.ClosedError:
        assert change == "close"
    complete_text = text_format.MessageToString(onnx.ModelProto.FromString(data))
    assert complete_text.startswith("".join(printed_pieces[:n_pieces]))


# --- as protoc


PROTOC = shutil.which("protoc")
needs_protoc = pytest.mark.skipif(PROTOC is None, reason="needs protoc")


@EVERY_MESSAGE
@examples(15)
@given(data=st.data())
def test_the_official_runtime_reads_text_that_is_printed_as_by_protoc(name, data):
    our_class, official_class = PAIRS[name]
    message = official_class.FromString(data.draw(wire.valid_wire(our_class.DESCRIPTOR, 2)))
    message.DiscardUnknownFields()
    printed_text = onnxwire.to_text(our_class.FromString(message.SerializeToString()), as_protoc=True)
    assert printed_text.isascii()
    expected = text_format.MessageToString(message)
    # Split at line feeds only: a string may contain other characters that Python treats as line ends.
    assert [line.split(":")[0] for line in printed_text.split("\n")] == [
        line.split(":")[0] for line in expected.split("\n")
    ]
    if not has_invalid_utf8(message):
        assert text_format.MessageToString(text_format.Parse(printed_text, official_class())) == expected


def has_invalid_utf8(message):
    """Return whether a string of an official message is not valid UTF-8; such a string is bytes."""
    for field, value in message.ListFields():
        for element in value if field.is_repeated else (value,):
            if field.message_type is not None and has_invalid_utf8(element):
                return True
            if field.type == wire.FieldDescriptor.TYPE_STRING and isinstance(element, bytes):
                return True
    return False


@pytest.mark.parametrize("name", ["onnx.ModelProto", "onnx.TensorProto", "test.Everything", "test.Sparse"])
@examples(40)
@given(data=st.data())
def test_unknown_fields_have_the_official_numbers(name, data):
    our_class, official_class = PAIRS[name]
    data = data.draw(wire.valid_wire(our_class.DESCRIPTOR, 2))
    printed_lines = onnxwire.to_text(our_class.FromString(data), as_protoc=True).splitlines()
    expected = text_format.MessageToString(official_class.FromString(data), print_unknown_fields=True).splitlines()
    # Both have the same unknown field numbers at the top level, in different notations.
    assert [line.split(":")[0] for line in printed_lines if line[:1].isdigit() and ":" in line and '"' not in line] == [
        line.split(":")[0] for line in expected if line[:1].isdigit() and ":" in line and '"' not in line
    ]


def run_protoc(name, data, folder):
    """Return the output of `protoc --decode` for an encoded message. folder: for a temporary file."""
    files, protos = descriptor_pb2.FileDescriptorSet(), []

    def add_file(file):
        for dependency in file.dependencies:
            add_file(dependency)
        if file.name not in protos:
            protos.append(file.name)
            file.CopyToProto(files.file.add())

    add_file(PAIRS[name].official.DESCRIPTOR.file)
    for message in files.file[-1].message_type:
        # protoc requires the members of a oneof to be adjacent.
        fields = [descriptor_pb2.FieldDescriptorProto.FromString(field.SerializeToString()) for field in message.field]
        fields.sort(key=lambda field: field.oneof_index if field.HasField("oneof_index") else -1)
        del message.field[:]
        message.field.extend(fields)
    path = folder / "set"
    path.write_bytes(files.SerializeToString())
    command = [PROTOC, f"--decode={name}", f"--descriptor_set_in={path}", *protos]
    return subprocess.run(command, input=data, capture_output=True, check=True).stdout.decode("ascii")


UNKNOWN_NUMBER = 1000  # no field of ModelProto or GraphProto has this number


def nest_in_len_records(depth, data):
    """Nest bytes in `depth` unknown LEN records, each of which has another record after the nested one."""
    for _ in range(depth):
        data = wire.len_record(UNKNOWN_NUMBER, data + wire.varint_record(1, 1))
    return data


def nest_in_groups(depth, data):
    """Nest bytes in `depth` unknown groups."""
    for _ in range(depth):
        data = wire.group(UNKNOWN_NUMBER, data)
    return data


UNKNOWN_FIELDS = {
    "numbers": wire.varint_record(UNKNOWN_NUMBER, 1)
    + wire.varint_record(UNKNOWN_NUMBER, -1)
    + wire.tag(UNKNOWN_NUMBER, wire.FIXED64)
    + b"12345678"
    + wire.tag(UNKNOWN_NUMBER, wire.FIXED32)
    + b"\0\0\0\1",
    "bytes": wire.len_record(UNKNOWN_NUMBER, b"")
    + wire.len_record(UNKNOWN_NUMBER, b"abc\xff\n'\"\\")
    + wire.len_record(UNKNOWN_NUMBER, b"\0"),
    "long bytes": wire.len_record(UNKNOWN_NUMBER, b"x\xff" * printed_fields.SMALL_BYTES),
    "message": wire.len_record(
        UNKNOWN_NUMBER, wire.varint_record(1, 5) + wire.len_record(2, b"") + wire.len_record(3, b"\x0f")
    ),
    "group": wire.group(
        UNKNOWN_NUMBER, wire.varint_record(1, 1) + wire.group(2) + wire.len_record(3, wire.varint_record(4, 4))
    ),
    # Field 2 is a string: producer_name of a model, name of a graph.
    "other wire type": wire.varint_record(2, 5) + wire.tag(2, wire.FIXED32) + b"abcd" + wire.group(2),
    **{f"{n} LEN records": nest_in_len_records(n, b"") for n in (9, 10, 11, 12)},
    **{f"{n} groups": nest_in_groups(n, wire.len_record(1, wire.varint_record(2, 2))) for n in (9, 10, 11, 60)},
    **{f"{n} groups in a LEN record": wire.len_record(UNKNOWN_NUMBER, nest_in_groups(n, b"")) for n in (9, 10, 11)},
    **{f"{n} groups in 5 LEN records": nest_in_len_records(5, nest_in_groups(n, b"")) for n in (4, 5, 6, 7)},
    **{f"2 LEN records in {n} groups": nest_in_groups(n, nest_in_len_records(2, b"")) for n in (8, 9, 10)},
}


@needs_protoc
@pytest.mark.parametrize("case", UNKNOWN_FIELDS)
def test_unknown_fields_are_printed_as_protoc_prints_them(case, tmp_path):
    our_class, _ = PAIRS["onnx.ModelProto"]
    for data in (  # field 7 is graph
        UNKNOWN_FIELDS[case],
        wire.len_record(7, UNKNOWN_FIELDS[case]),
        wire.len_record(7, UNKNOWN_FIELDS[case]) + wire.len_record(7, UNKNOWN_FIELDS[case]),
    ):
        message = our_class.FromString(data)
        assert onnxwire.to_text(message, as_protoc=True) == run_protoc("onnx.ModelProto", data, tmp_path)


@needs_protoc
@pytest.mark.parametrize("name", ["onnx.ModelProto", "onnx.AttributeProto", "onnx.TensorProto", "test.Everything"])
@examples(20)
@given(data=st.data())
def test_text_equals_the_output_of_protoc(name, data, tmp_path_factory):
    our_class, _ = PAIRS[name]
    data = data.draw(wire.valid_wire(our_class.DESCRIPTOR, 2))
    printed_text = onnxwire.to_text(our_class.FromString(data), as_protoc=True)
    assert printed_text == run_protoc(name, data, tmp_path_factory.getbasetemp())


@needs_protoc
def test_numbers_are_printed_as_protoc_prints_them(tmp_path):
    values = [0.1, -0.0, 1e6, 123456.7, 1e-45, 16777216.0, 1 / 3, 1e20, float("inf"), float("-inf"), float("nan")]
    values += [sign * 2.0**n for n in range(-149, 128) for sign in (1, 1 / 3, -1)]
    data = TENSOR.official(float_data=values, double_data=[*values, 5e-324, 0.1 + 0.2, 1e17]).SerializeToString()
    message = TENSOR.ours.FromString(data)
    assert onnxwire.to_text(message, as_protoc=True) == run_protoc("onnx.TensorProto", data, tmp_path)


# --- the command


def run_dump(*arguments):
    """Run `onnxwire dump` with these arguments."""
    return forked_commands.run("dump", *arguments, text=True)


def test_dump_prints_text():
    process = run_dump(DIGITS)
    assert (process.returncode, process.stderr) == (0, "")
    assert process.stdout == onnxwire.to_text(onnxwire.load(DIGITS), as_protoc=True)


def test_dump_elides_and_writes_a_file(tmp_path):
    process = run_dump(DIGITS, "--max-bytes", 64, "-o", tmp_path / "out.txt")
    assert (process.returncode, process.stderr, process.stdout) == (0, "", "")
    printed_text = (tmp_path / "out.txt").read_text()
    assert printed_text == onnxwire.to_text(onnxwire.load(DIGITS), max_bytes=64, as_protoc=True)
    assert "raw_data: ... # 131,072 bytes\n" in printed_text


def test_dump_prints_a_message_of_the_type_in_the_arguments():
    file = next(file for file in FILES if classes_of(file)[0] is onnxwire.TensorProto and read(file))
    process = run_dump(os.path.join(ONNX_FOLDER, file), "--type", "TensorProto")
    assert process.returncode == 0
    assert text_format.Parse(process.stdout, onnx.TensorProto()) == onnx.TensorProto.FromString(read(file))


def test_dump_reports_an_error_in_one_line(tmp_path):
    (tmp_path / "cut.onnx").write_bytes(DIGITS.read_bytes()[:100_000])
    (tmp_path / "same.onnx").write_bytes(DIGITS.read_bytes())
    (tmp_path / "link.txt").symlink_to(tmp_path / "same.onnx")
    for arguments in (
        [tmp_path / "absent.onnx"],
        [tmp_path / "cut.onnx"],
        [DIGITS, "-o", tmp_path / "no folder" / "out.txt"],
        [DIGITS, "-o", tmp_path],
        [tmp_path / "same.onnx", "-o", tmp_path / "link.txt"],
    ):
        process = run_dump(*arguments)
        assert (process.returncode, process.stdout) == (2, "")
        assert process.stderr.startswith("onnxwire: ")
        assert process.stderr.count("\n") == 1
    assert (tmp_path / "same.onnx").read_bytes() == DIGITS.read_bytes()


def test_importing_onnxwire_does_not_import_the_text_forms():
    code = (
        "import sys; before = set(sys.modules); import onnxwire; print(sorted(set(sys.modules) - before)); "
        "onnxwire.to_text; onnxwire.to_json; print('onnxwire.text.json_writer' in sys.modules)"
    )
    printed_lines = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    for name in itertools.chain(
        ("onnxwire.text.text_writer", "onnxwire.text.json_writer"), ("json", "re", "base64", "typing")
    ):
        assert f"'{name}'" not in printed_lines[0]
    assert printed_lines[1] == "True"
