"""`onnxwire.h` reads the same values and rejects the same bytes as the engine and protobuf. The C examples use it."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import subprocess
from pathlib import Path

import events
import numpy as np
import onnx
import pytest
import wire
from budget import IS_LONG, examples
from google.protobuf.message import DecodeError
from graphs import nested_model, write_sparse_model
from hypothesis import given
from hypothesis import strategies as st
from onnx import helper, numpy_helper
from test_bundled_files import FILES, ONNX_FOLDER

import onnxwire
from onnxwire.cli import main

REPOSITORY_ROOT = Path(__file__).parents[2]
EXAMPLES = REPOSITORY_ROOT / "examples"
CORPUS_FOLDER = Path(__file__).parents[1] / "corpus"
WINDOW_BYTES = (0, 64, 4096)  # sizes of the buffer through which data are read; 0 for data in memory
ONLY_LONG = pytest.mark.skipif(not IS_LONG, reason="only with --long")
pytestmark = pytest.mark.skipif(shutil.which(events.c_compiler()[0]) is None, reason="there is no C compiler")


@pytest.fixture(scope="module")
def reader(tmp_path_factory):
    """Compile `events.c`, and return an `events.Reader` of it."""
    return events.Reader(tmp_path_factory.mktemp("c"))


def engine_events(cls, data):
    """Return the values of a message that the engine reads, or None if it rejects the data."""
    try:
        return events.events_of(cls.FromString(data))
    except onnxwire.DecodeError:
        return None


def check_data(reader, onnxwire_class, protobuf_class, data):
    """Check that the reader has the same result as protobuf.

    `ow_scan` may also have the result of the engine, which may miss damage in a value that a later value replaces.
    """
    name = onnxwire_class.DESCRIPTOR.full_name
    try:
        expected = events.events_of(protobuf_class.FromString(data))
    except DecodeError:
        expected = None
    for window in WINDOW_BYTES[:2]:
        assert reader.read(data, name, window, is_one_pass=True) == expected, data.hex()
        events_read = reader.read(data, name, window)
        assert events_read == expected or events_read == engine_events(onnxwire_class, data), data.hex()


def test_real_models_are_read_as_by_the_engine(reader):
    files = [Path(ONNX_FOLDER, file) for file in FILES if file.endswith(".onnx")][:: 1 if IS_LONG else 20]
    for path in [*EXAMPLES.glob("*.onnx"), *files]:
        data = path.read_bytes()
        expected = events.events_of(onnxwire.ModelProto.FromString(data))
        for window in WINDOW_BYTES:
            assert reader.read(data, "onnx.ModelProto", window) == expected, path
            assert reader.read(data, "onnx.ModelProto", window, is_one_pass=True) == expected, path


def test_first_bytes_of_corpus_files_are_read_as_by_protobuf(reader):
    for path in sorted(file for file in CORPUS_FOLDER.rglob("*") if file.is_file())[:: 1 if IS_LONG else 7]:
        check_data(reader, onnxwire.ModelProto, onnx.ModelProto, path.read_bytes()[:5000])


FUZZER_INPUTS = sorted(Path(__file__).with_name("corpus").iterdir())


def test_fuzzer_inputs_are_read_as_by_protobuf(reader):
    pairs = wire.official_pairs()
    for path in FUZZER_INPUTS:
        data = path.read_bytes()
        # As in fuzz.c, the last byte selects the type of a second message.
        for onnxwire_class, protobuf_class in (pairs["onnx.ModelProto"], pairs[reader.table_name(data[-1])]):
            check_data(reader, onnxwire_class, protobuf_class, data)


def test_fuzzer_inputs_pass_the_checks_of_the_fuzzer(tmp_path):
    program = compile_program(Path(__file__).with_name("digests.c"), tmp_path)
    process = subprocess.run([str(program), *map(str, FUZZER_INPUTS)], capture_output=True, text=True, check=True)
    assert len(process.stdout.splitlines()) == len(FUZZER_INPUTS)


@examples(300)
@given(st.data())
def test_generated_bytes_of_every_message_are_read_as_by_protobuf(reader, data):
    onnxwire_class, protobuf_class = data.draw(
        st.sampled_from([pair for name, pair in wire.official_pairs().items() if name.startswith("onnx.")])
    )
    strategy_of = data.draw(st.sampled_from([wire.valid_wire, wire.malformed_wire, wire.damaged_wire]))
    check_data(reader, onnxwire_class, protobuf_class, data.draw(strategy_of(onnxwire_class.DESCRIPTOR)))


def mutate(data, rng):
    """Return a copy of bytes with a few random changes: replaced bytes, and ranges removed, repeated or inserted."""
    data = bytearray(data)
    for _ in range(rng.randrange(1, 6)):
        i = rng.randrange(len(data) + 1)
        change = rng.randrange(5)
        if change == 0:
            data[i : i + 1] = bytes([rng.randrange(256)])
        elif change == 1:
            del data[i : i + rng.randrange(1, 20)]
        elif change == 2:
            j = rng.randrange(len(data) + 1)
            data[i:i] = data[j : j + rng.randrange(1, 60)]
        elif change == 3:
            insertions = [
                b"\x80",  # the first byte of a varint
                b"\xff" * 5,  # the first bytes of a long varint
                b"\x3b\x3c",  # an empty group, field 7
                b"\x0b",  # the start of a group, field 1
                b"\x0a\x02\x08\x01",  # field 1, a message with a number
                b"\x3a\x00",  # field 7, an empty message: a graph
            ]
            data[i:i] = rng.choice(insertions)
        else:
            data += bytes(data)
    return bytes(data)


def test_damaged_models_are_read_as_by_protobuf(reader):
    rng = random.Random(5)
    small_models = [nested_model().SerializeToString()]
    paths = [Path(ONNX_FOLDER, file) for file in FILES if file.endswith(".onnx")]
    small_models += [path.read_bytes() for path in paths if path.stat().st_size < 1000][::10]
    for _ in range(20_000 if IS_LONG else 600):
        check_data(reader, onnxwire.ModelProto, onnx.ModelProto, mutate(rng.choice(small_models), rng))


def records_of(data):
    """Yield (field number, record, content) for each record of a valid message without groups.

    For a length-delimited record, `content` is its value, without tag and length, and `record` is None. For the other
    records, `record` is the complete record, and `content` is None.
    """
    position = 0
    while position < len(data):
        start = position
        tag, position = varint_at(data, position)
        if tag & 7 == wire.LEN:
            size, position = varint_at(data, position)
            yield tag >> 3, None, data[position : position + size]
            position += size
            continue
        position = (
            varint_at(data, position)[1] if tag & 7 == wire.VARINT else position + (8 if tag & 7 == wire.FIXED64 else 4)
        )
        yield tag >> 3, data[start:position], None


def varint_at(data, position):
    """Return a varint and the position after it."""
    value = shift = 0
    while True:
        value |= (data[position] & 0x7F) << shift
        position, shift = position + 1, shift + 7
        if data[position - 1] < 0x80:
            return value, position


def rearrange(data, descriptor, rng):
    """Return a copy of a valid message with records moved, removed, repeated or inserted at any depth.

    Some nested messages are followed by a second record of the same field. The result is nearly always valid.
    """
    records = []
    for number, record, content in records_of(data):
        field = descriptor.fields_by_number.get(number)
        if content is None:
            records.append(record)
        elif field is None or field.type != field.TYPE_MESSAGE:
            # One in ten lengths is a byte longer than necessary.
            records.append(wire.len_record(number, content, pad=rng.choice([0] * 9 + [1])))
        else:
            content = rearrange(content, field.message_type, rng)
            parts = [content]
            if rng.random() < 0.1:
                parts += [rng.choice([b"", content, rng.choice(list(complete_records(content)) or [b""])])]
            records += [wire.len_record(number, part) for part in parts]
    for _ in range(rng.choice([0, 0, 0, 1, 2])):
        i, change = rng.randrange(len(records) + 1), rng.randrange(6)
        if change == 0:
            rng.shuffle(records)
        elif change == 1:
            del records[i : i + 1]
        elif change == 2 and records:
            records.insert(i, rng.choice(records))
        elif change == 3:
            field = rng.choice(list(descriptor.fields))
            records.insert(
                i, wire.varint_record(field.number, rng.choice([0, 1, 2, 20, 127, 128, 1 << 14, 1 << 32, -1]))
            )
        elif change == 4:
            field = rng.choice(list(descriptor.fields))
            contents = [
                b"",
                b"\x08\x01",  # a message with field 1, a varint
                b"\x01\x02\x80\x01",  # packed varints
                bytes(8),
                bytes(200),
            ]
            records.insert(i, wire.len_record(field.number, rng.choice(contents)))
        else:
            number = rng.choice([15, 16, 99, 2047, 2048, wire.MAX_NUMBER])
            records.insert(
                i,
                rng.choice(
                    [wire.group(number, b"\x08\x01"), wire.varint_record(number, 5), wire.len_record(number, b"ab")]
                ),
            )
    return b"".join(records)


def complete_records(data):
    """Yield the records of data that are read as a message without groups, until a varint runs past the end."""
    try:
        for number, record, content in records_of(data):
            yield wire.len_record(number, content) if record is None else record
    except IndexError:
        return


def test_rearranged_models_are_read_as_by_protobuf(reader):
    rng = random.Random(6)
    models = [nested_model().SerializeToString()]
    paths = [Path(ONNX_FOLDER, file) for file in FILES if file.endswith(".onnx")]
    models += [path.read_bytes() for path in paths if path.stat().st_size < 2000][::10]
    for _ in range(20_000 if IS_LONG else 400):
        data = rearrange(rng.choice(models), onnxwire.ModelProto.DESCRIPTOR, rng)
        check_data(reader, onnxwire.ModelProto, onnx.ModelProto, data)


def test_nested_messages_in_two_parts_each_are_read_as_by_protobuf(reader):
    # Nested types, each in two parts; the first part is empty.
    data = b""
    for _ in range(40):
        data = wire.len_record(1, b"") + wire.len_record(1, data)  # elem_type of a sequence
        data = wire.len_record(4, b"") + wire.len_record(4, data)  # sequence_type
    check_data(reader, onnxwire.TypeProto, onnx.TypeProto, data)


@pytest.mark.parametrize("levels", [99, 100, 101, 102])
def test_messages_and_groups_may_be_nested_at_most_a_hundred_levels_deep(reader, levels):
    data = b""
    for level in reversed(range(levels)):
        data = wire.len_record(1 if level % 2 else 4, data)  # elem_type of a sequence, or sequence_type
    assert wire.official_accepts(onnx.TypeProto, data) == (levels <= 100)
    assert (reader.read(data, "onnx.TypeProto") is not None) == (levels <= 100)
    groups = b"\x0b" * levels + b"\x0c" * levels  # starts and ends of groups, field 1
    assert wire.official_accepts(onnx.TypeProto, groups) == (levels <= 100)
    assert (reader.read(groups, "onnx.TypeProto") is not None) == (levels <= 100)


def compile_example(name, folder, *flags):
    """Compile an example program. Return a function that runs it on a file and returns the finished process."""
    program = compile_program(EXAMPLES / "c" / f"{name}.c", folder, *flags)
    return lambda path: subprocess.run([str(program), str(path)], capture_output=True, check=False)


def compile_program(source, folder, *flags):
    """Compile a program with warnings as errors. Return its path."""
    command = [
        *events.c_compiler(),
        "-std=c99",
        "-Wall",
        "-Wextra",
        "-Wpedantic",
        "-Werror",
        f"-I{events.INCLUDE_FOLDER}",
    ]
    subprocess.run([*command, *flags, str(source), "-o", str(folder / source.stem)], check=True)
    return folder / source.stem


@pytest.fixture(scope="module")
def list_tensors(tmp_path_factory):
    """Return a function that runs the example list_tensors."""
    return compile_example("list_tensors", tmp_path_factory.mktemp("c"))


@pytest.fixture(scope="module")
def walk_nodes(tmp_path_factory):
    """Return a function that runs the example walk_nodes."""
    return compile_example("walk_nodes", tmp_path_factory.mktemp("c"))


def lines_of_nodes(graph, level=0):
    """Yield the lines that walk_nodes should print for a graph."""
    for node in graph.node:
        operator = f"{node.domain}::{node.op_type}" if node.domain else node.op_type
        yield "\t".join(["  " * level + operator, node.name, ",".join(node.input), ",".join(node.output)])
        for attribute in node.attribute:
            for subgraph in [*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs]:
                yield from lines_of_nodes(subgraph, level + 1)


@pytest.mark.parametrize("name", ["digits_cnn", "nested"])
def test_walk_nodes_prints_the_nodes_of_the_graph_and_its_subgraphs(name, walk_nodes, tmp_path):
    path = tmp_path / "m.onnx"
    model = nested_model() if name == "nested" else onnx.load(EXAMPLES / f"{name}.onnx")
    path.write_bytes(model.SerializeToString())
    process = walk_nodes(path)
    assert (process.returncode, process.stderr) == (0, b"")
    assert process.stdout.decode().splitlines() == list(lines_of_nodes(onnxwire.load(path).graph))


def rows_of_ls(path, capsys):
    """Yield the lines that list_tensors should print, made from the output of `onnxwire ls --json`."""
    assert main(["ls", str(path), "--json"]) == 0
    for row in json.loads(capsys.readouterr().out):
        if ".g." in row["path"] or ".graphs[" in row["path"]:
            continue  # list_tensors does not list tensors of nested graphs
        is_external = row["stored"] == "external_data"
        location = Path(row["file"]).name if is_external and row["file"] else "-"
        offset = "-" if row["offset"] is None else str(row["offset"])
        dims = "x".join(map(str, row["shape"]))
        storage = "external" if is_external else "inline"
        cells = [row["name"], row["type"], dims, storage, location, offset, str(row["bytes"])]
        # list_tensors prints ASCII control characters as \xNN.
        yield "\t".join(re.sub("[\0-\x1f\x7f]", lambda match: rf"\x{ord(match[0]):02x}", cell) for cell in cells)


def lines_of(output):
    """Return the lines of a program's output."""
    return output.decode("utf-8", "surrogateescape").split("\n")[:-1]


@pytest.mark.parametrize("name", ["digits", "sparse", "external", "typed", "nested"])
def test_list_tensors_prints_the_tensors_that_ls_lists_outside_subgraphs(name, list_tensors, tmp_path, capsys):
    path = tmp_path / "m.onnx"
    if name == "digits":
        path = EXAMPLES / "digits_cnn.onnx"
    elif name == "sparse":
        write_sparse_model(path, 3 << 30)
    elif name == "external":
        onnxwire.save(onnxwire.load(EXAMPLES / "digits_cnn.onnx"), path, external="weights.data")
    elif name == "nested":
        path.write_bytes(nested_model().SerializeToString())
    else:
        tensors = [
            helper.make_tensor("floats", onnx.TensorProto.FLOAT, [2, 1], [1, 2]),
            helper.make_tensor("strings", onnx.TensorProto.STRING, [2], [b"x", b"yy"]),
            helper.make_tensor("int4", onnx.TensorProto.INT4, [3], [1, 2, 3]),
            numpy_helper.from_array(np.zeros((0, 3), np.float16), "empty"),
            numpy_helper.from_array(np.float64(1), "scalar"),
        ]
        path.write_bytes(helper.make_model(helper.make_graph([], "g", [], [], tensors)).SerializeToString())
    process = list_tensors(path)
    assert (process.returncode, process.stderr) == (0, b"")
    assert lines_of(process.stdout) == list(rows_of_ls(path, capsys))


def unusual_tensors():
    """Yield a plain tensor, then tensors whose elements can't be read or are stored in unusual ways.

    data_type: 1 is FLOAT, 7 INT64, 8 STRING; 99 is not defined.
    """
    yield helper.make_tensor("plain", 1, [2], [1, 2])
    yield onnx.TensorProto(name="unknown", data_type=99, dims=[3])
    yield onnx.TensorProto(name="undefined")
    yield onnx.TensorProto(name="negative", data_type=1, dims=[3, -1])
    yield onnx.TensorProto(name="excessive", data_type=1, dims=[1 << 40] * 2)
    yield onnx.TensorProto(name="empty after excess", data_type=1, dims=[1 << 40, 1 << 40, 0])
    yield onnx.TensorProto(name="ranks", data_type=1, dims=[1] * 200)
    yield onnx.TensorProto(name="both", data_type=1, dims=[1], raw_data=bytes(4), float_data=[1])
    yield onnx.TensorProto(name="empty raw", data_type=1, dims=[1], raw_data=b"", float_data=[1])
    yield onnx.TensorProto(name="strings", data_type=8, dims=[2], string_data=[b"a", b"bc"], raw_data=b"")
    yield onnx.TensorProto(name="other strings", data_type=1, dims=[2], string_data=[b"a", b"bc"])
    segment = onnx.TensorProto.Segment
    yield onnx.TensorProto(name="segment", data_type=7, dims=[9], segment=segment(begin=2, end=5))
    yield onnx.TensorProto(name="wrong segment", data_type=7, dims=[9], segment=segment(begin=2, end=10))
    for entries in [
        ["location=a"], ["location=a", "location=b"], ["location="], ["offset=1"], ["location=a", "offset=x"],
        ["location=a", "offset=x", "offset=7"], ["location=a", f"offset={5:0100}", "length=9223372036854775807"],
        ["location=a", "offset=9223372036854775808", "length=-1"], ["location=a", "length=7", "length="],
        ["location=a", "key=b", "checksum=c", "checksum=d"],
    ]:  # fmt: skip
        for data_type in [onnx.TensorProto.FLOAT, onnx.TensorProto.STRING]:
            external = onnx.TensorProto.EXTERNAL
            tensor = onnx.TensorProto(name=str(entries), data_type=data_type, dims=[5], data_location=external)
            for entry in entries:
                key, value = entry.split("=")
                tensor.external_data.add(key=key, value=value)
            yield tensor


def test_list_tensors_prints_unusual_tensors_as_ls(list_tensors, tmp_path, capsys):
    path = tmp_path / "m.onnx"
    graph = onnx.GraphProto(initializer=list(unusual_tensors()))
    graph.node.add().attribute.add(tensors=list(unusual_tensors()))
    path.write_bytes(onnx.ModelProto(graph=graph).SerializeToString())
    process = list_tensors(path)
    assert (process.returncode, process.stderr) == (0, b"")
    assert lines_of(process.stdout) == list(rows_of_ls(path, capsys))


def test_list_tensors_prints_rearranged_models_as_ls(list_tensors, tmp_path, capsys):
    path = tmp_path / "m.onnx"
    rng = random.Random(7)
    graph = onnx.GraphProto(initializer=list(unusual_tensors()))
    models = [nested_model().SerializeToString(), onnx.ModelProto(graph=graph).SerializeToString()]
    n_listed = 0
    for _ in range(1000 if IS_LONG else 40):
        path.write_bytes(rearrange(rng.choice(models), onnxwire.ModelProto.DESCRIPTOR, rng))
        process = list_tensors(path)
        try:
            onnxwire.verify(path)
        except onnxwire.DecodeError:
            continue  # the damaged part may be read only by the example or only by `ls`
        is_model = main(["ls", str(path), "--json"]) == 0  # `ls` rejects data that look like another message
        capsys.readouterr()
        if is_model:
            assert process.returncode == 0, process.stderr
            assert lines_of(process.stdout) == list(rows_of_ls(path, capsys))
            n_listed += 1
    assert n_listed > 5


def write_inline_weights(path, count, size):
    """Write a model with `count` inline tensors, whose payloads are holes of `size` bytes in the file."""
    tensor_headers = []
    for i in range(count):
        # The fields dims, data_type (UINT8), name and raw_data.
        tensor = (
            wire.varint_record(1, size)
            + wire.varint_record(2, 2)
            + wire.len_record(8, b"weight.%d" % i)
            + wire.tag(9, wire.LEN)
        )
        tensor += wire.varint(size)
        tensor_headers.append(wire.tag(5, wire.LEN) + wire.varint(len(tensor) + size) + tensor)  # initializer
    graph_bytes = sum(map(len, tensor_headers)) + count * size
    with path.open("wb") as file:
        file.write(wire.tag(7, wire.LEN) + wire.varint(graph_bytes))  # graph
        for tensor_header in tensor_headers:
            file.write(tensor_header)
            file.seek(size, os.SEEK_CUR)
        file.truncate(file.tell())


def test_list_tensors_reads_few_bytes_of_a_gigabyte_of_inline_tensors(tmp_path, capsys):
    flags = [
        "-D_POSIX_C_SOURCE=200809L",
        "-D_FILE_OFFSET_BITS=64",
        "-include",
        str(Path(__file__).with_name("count_reads.h")),
    ]
    program = compile_example("list_tensors", tmp_path, *flags)
    path = tmp_path / "m.onnx"
    write_inline_weights(path, 128, 8 << 20)
    assert path.stat().st_size > 1 << 30
    process = program(path)
    assert process.returncode == 0
    assert lines_of(process.stdout) == list(rows_of_ls(path, capsys))
    count, text_after_count = process.stderr.split(b" ", 1)
    assert text_after_count == b"bytes read\n"
    assert 1000 < int(count) < 1_000_000


@pytest.mark.parametrize(
    "flags",
    ["-O2", pytest.param("-O1 -fsanitize=address,undefined -fno-sanitize-recover=all", marks=ONLY_LONG), "-O1 -m32"],
)
def test_no_attack_on_the_header_succeeds(flags, tmp_path):
    try:
        program = compile_program(Path(__file__).with_name("hostile.c"), tmp_path, *flags.split())
    except subprocess.CalledProcessError:
        if flags == "-O2":
            raise
        pytest.skip(f"the compiler does not support {flags}")
    process = subprocess.run([str(program)], capture_output=True, text=True, check=False)
    assert (process.returncode, process.stdout) == (0, "no attack succeeded\n"), process.stderr


@pytest.mark.parametrize(
    "data",
    [
        b"\x3a\x05",  # a graph whose length runs past the end
        b"\x3a\x04\x2a\x02\x08\xff",  # an initializer with a cut varint
    ],
    ids=["length", "varint"],
)
def test_list_tensors_reports_damage(data, list_tensors, tmp_path):
    path = tmp_path / "m.onnx"
    path.write_bytes(data)
    process = list_tensors(path)
    assert process.returncode == 2
    assert b"damaged at offset" in process.stderr


@pytest.mark.parametrize(
    ("data", "expected_text"),
    [
        (b"\x3a\x05", b"offset 0, in the model"),  # a graph whose length runs past the end
        (b"\x3a\x04\x0a\x02\x08\xff", b"offset 5, in graph.node[0]"),  # a node with a cut varint
        (b"\x3a\x05\x0a\x00\x0a\x01\x80", b"offset 6, in graph.node[1]"),  # an empty node, and one with a cut tag
    ],
)
def test_walk_nodes_reports_damage(data, expected_text, walk_nodes, tmp_path):
    path = tmp_path / "m.onnx"
    path.write_bytes(data)
    process = walk_nodes(path)
    assert process.returncode == 2
    assert expected_text in process.stderr


def test_list_tensors_reports_the_path_of_the_innermost_damaged_message(list_tensors, tmp_path):
    path = tmp_path / "m.onnx"
    # graph (7), node (1), attribute (5) twice, and t (5), whose data_type (tag 0x10) is a cut varint.
    path.write_bytes(
        wire.len_record(
            7, wire.len_record(1, wire.len_record(5, b"") + wire.len_record(5, wire.len_record(5, b"\x10\x80")))
        )
    )
    assert b"in graph.node[0].attribute[1].t (code" in list_tensors(path).stderr


def test_ascii_control_characters_in_names_are_escaped(list_tensors, walk_nodes, tmp_path):
    path = tmp_path / "m.onnx"
    name = "\x1b[31m\n\t"
    tensor = helper.make_tensor(name, 1, [1], [1])
    graph = helper.make_graph([helper.make_node("Add", [name], [])], "g", [], [], [tensor])
    path.write_bytes(helper.make_model(graph).SerializeToString())
    assert list_tensors(path).stdout.startswith(b"\\x1b[31m\\x0a\\x09\tFLOAT\t1\t")
    assert walk_nodes(path).stdout == b"Add\t\t\\x1b[31m\\x0a\\x09\t\n"


def test_get_include_returns_the_folder_of_the_header():
    assert Path(onnxwire.get_include(), "onnxwire.h").is_file()


def test_the_header_calls_only_memory_functions_and_has_no_writable_data(tmp_path):
    if shutil.which("nm") is None:
        pytest.skip("nm is not installed")
    object_file = compile_header(
        [*events.c_compiler(), "-std=c99", "-Os", "-fno-pic", "-fno-stack-protector"], tmp_path
    )
    names = subprocess.run(["nm", "-u", str(object_file)], capture_output=True, text=True, check=True).stdout.split()
    assert {name.lstrip("_") for name in names} - {"U", "GLOBAL_OFFSET_TABLE_"} <= {"memcpy", "memcmp", "memchr"}
    symbols = subprocess.run(["nm", str(object_file)], capture_output=True, text=True, check=True).stdout.splitlines()
    assert not [symbol for symbol in symbols if symbol.split()[-2] in "bBcCdDsS"]  # symbols of writable data


def compile_header(command, folder):
    """Compile only the header, with warnings as errors. Return the path of the object file."""
    source = folder / ("reader.cpp" if "++" in command[0] else "reader.c")
    source.write_text('#define ONNXWIRE_IMPLEMENTATION\n#include "onnxwire.h"\n')
    warnings = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror"]
    object_file = folder / "reader.o"
    include = f"-I{onnxwire.get_include()}"
    subprocess.run([*command, *warnings, include, "-c", str(source), "-o", str(object_file)], check=True)
    return object_file


@pytest.mark.parametrize(
    "command",
    ["gcc -std=c99", "g++ -std=c++11", "g++ -std=c++17", "clang -std=c99", "clang++ -std=c++17"],
)
def test_the_header_compiles_without_warnings_and_is_small(command, tmp_path):
    if shutil.which(command.split()[0]) is None:
        pytest.skip(f"{command.split()[0]} is not installed")
    object_file = compile_header([*command.split(), "-Os"], tmp_path)
    size = subprocess.run(["size", str(object_file)], capture_output=True, text=True, check=True).stdout.split()
    text, data = int(size[6]), int(size[7])  # the first two columns of the second line
    assert text + data < 40_000
