"""`onnxwire.h` reads the same values as the engine and the official runtime, and refuses what they refuse."""

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

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
CORPUS = Path(__file__).parents[1] / "corpus"
WINDOWS = (0, 64, 4096)
ONLY_LONG = pytest.mark.skipif(not IS_LONG, reason="only with --long")
pytestmark = pytest.mark.skipif(shutil.which(events.compiler()[0]) is None, reason="there is no C compiler")


@pytest.fixture(scope="module")
def reader(tmp_path_factory):
    return events.Reader(tmp_path_factory.mktemp("c"))


def engine_events(cls, data):
    try:
        return events.events_of(cls.FromString(data))
    except onnxwire.DecodeError:
        return None


def check(reader, ours, official, data):
    """Compare the reader with both. `ow_scan` does not see damage in a superseded part, as the engine."""
    name = ours.DESCRIPTOR.full_name
    try:
        expected = events.events_of(official.FromString(data))
    except DecodeError:
        expected = None
    for window in WINDOWS[:2]:
        assert reader.read(data, name, window, is_one_pass=True) == expected, data.hex()
        found = reader.read(data, name, window)
        assert found == expected or found == engine_events(ours, data), data.hex()


def test_real_models_are_read_alike(reader):
    files = [Path(ONNX_FOLDER, file) for file in FILES if file.endswith(".onnx")][:: 1 if IS_LONG else 20]
    for path in [*EXAMPLES.glob("*.onnx"), *files]:
        data = path.read_bytes()
        expected = events.events_of(onnxwire.ModelProto.FromString(data))
        for window in WINDOWS:
            assert reader.read(data, "onnx.ModelProto", window) == expected, path
            assert reader.read(data, "onnx.ModelProto", window, is_one_pass=True) == expected, path


def test_seeds_of_the_corpus_are_read_alike(reader):
    for path in sorted(file for file in CORPUS.rglob("*") if file.is_file())[:: 1 if IS_LONG else 7]:
        check(reader, onnxwire.ModelProto, onnx.ModelProto, path.read_bytes()[:5000])


INPUTS = sorted(Path(__file__).with_name("corpus").iterdir())


def test_inputs_of_the_fuzzer_are_read_alike(reader):
    pairs = wire.official_pairs()
    for path in INPUTS:
        data = path.read_bytes()
        for ours, official in (pairs["onnx.ModelProto"], pairs[reader.table_name(data[-1])]):
            check(reader, ours, official, data)


def test_inputs_of_the_fuzzer_find_no_fault(tmp_path):
    program = compiled_program(Path(__file__).with_name("digests.c"), tmp_path)
    done = subprocess.run([str(program), *map(str, INPUTS)], capture_output=True, text=True, check=True)
    assert len(done.stdout.splitlines()) == len(INPUTS)


@examples(300)
@given(st.data())
def test_generated_bytes_of_every_message_are_read_alike(reader, data):
    ours, official = data.draw(
        st.sampled_from([pair for name, pair in wire.official_pairs().items() if name.startswith("onnx.")])
    )
    draw = data.draw(st.sampled_from([wire.sound, wire.flawed, wire.damaged]))
    check(reader, ours, official, data.draw(draw(ours.DESCRIPTOR)))


def mutated(data, rng):
    """Return a copy of some bytes with a few random changes: flipped bits, changed bytes, ranges removed, repeated or
    inserted."""
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
            data[i:i] = rng.choice([b"\x80", b"\xff" * 5, b"\x3b\x3c", b"\x0b", b"\x0a\x02\x08\x01", b"\x3a\x00"])
        else:
            data += bytes(data)
    return bytes(data)


def test_damaged_models_are_read_alike(reader):
    rng = random.Random(5)
    small = [nested_model().SerializeToString()]
    paths = [Path(ONNX_FOLDER, file) for file in FILES if file.endswith(".onnx")]
    small += [path.read_bytes() for path in paths if path.stat().st_size < 1000][::10]
    for _ in range(20_000 if IS_LONG else 600):
        check(reader, onnxwire.ModelProto, onnx.ModelProto, mutated(rng.choice(small), rng))


def records_of(data):
    """Split a sound message without groups into pairs of field number and bytes: a record, or the value of a span."""
    at = 0
    while at < len(data):
        start = at
        key, at = varint_at(data, at)
        if key & 7 == wire.LEN:
            size, at = varint_at(data, at)
            yield key >> 3, None, data[at : at + size]
            at += size
            continue
        at = varint_at(data, at)[1] if key & 7 == wire.VARINT else at + (8 if key & 7 == wire.FIXED64 else 4)
        yield key >> 3, data[start:at], None


def varint_at(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 0x80:
            return value, at


def rearranged(data, descriptor, rng):
    """Records of a sound message moved, removed, repeated or split, at any depth: nearly always a sound message."""
    records = []
    for number, record, inner in records_of(data):
        field = descriptor.fields_by_number.get(number)
        if inner is None:
            records.append(record)
        elif field is None or field.type != field.TYPE_MESSAGE:
            records.append(wire.span(number, inner, pad=rng.choice([0] * 9 + [1])))
        else:
            inner = rearranged(inner, field.message_type, rng)
            pieces = [inner]
            if rng.random() < 0.1:
                pieces += [rng.choice([b"", inner, rng.choice(list(whole_records(inner)) or [b""])])]
            records += [wire.span(number, piece) for piece in pieces]
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
            records.insert(i, wire.number(field.number, rng.choice([0, 1, 2, 20, 127, 128, 1 << 14, 1 << 32, -1])))
        elif change == 4:
            field = rng.choice(list(descriptor.fields))
            records.insert(
                i, wire.span(field.number, rng.choice([b"", b"\x08\x01", b"\x01\x02\x80\x01", bytes(8), bytes(200)]))
            )
        else:
            number = rng.choice([15, 16, 99, 2047, 2048, wire.MAX_NUMBER])
            records.insert(
                i, rng.choice([wire.group(number, b"\x08\x01"), wire.number(number, 5), wire.span(number, b"ab")])
            )
    return b"".join(records)


def whole_records(data):
    try:
        for number, record, inner in records_of(data):
            yield wire.span(number, inner) if record is None else record
    except IndexError:
        return  # it has a group, or a span that is not a message


def test_rearranged_models_are_read_alike(reader):
    rng = random.Random(6)
    models = [nested_model().SerializeToString()]
    paths = [Path(ONNX_FOLDER, file) for file in FILES if file.endswith(".onnx")]
    models += [path.read_bytes() for path in paths if path.stat().st_size < 2000][::10]
    for _ in range(20_000 if IS_LONG else 400):
        data = rearranged(rng.choice(models), onnxwire.ModelProto.DESCRIPTOR, rng)
        check(reader, onnxwire.ModelProto, onnx.ModelProto, data)


def test_a_message_in_many_pieces_is_read_once_per_level(reader):
    # A type inside a type ..., each in two pieces, of which the first is empty.
    data = b""
    for _ in range(40):
        data = wire.span(1, b"") + wire.span(1, data)  # elem_type of a sequence
        data = wire.span(4, b"") + wire.span(4, data)  # sequence_type
    check(reader, onnxwire.TypeProto, onnx.TypeProto, data)


@pytest.mark.parametrize("levels", [99, 100, 101, 102])
def test_messages_and_groups_nest_at_most_a_hundred_deep(reader, levels):
    data = b""
    for level in reversed(range(levels)):
        data = wire.span(1 if level % 2 else 4, data)  # elem_type of a sequence, or sequence_type
    assert wire.official_accepts(onnx.TypeProto, data) == (levels <= 100)
    assert (reader.read(data, "onnx.TypeProto") is not None) == (levels <= 100)
    groups = b"\x0b" * levels + b"\x0c" * levels
    assert wire.official_accepts(onnx.TypeProto, groups) == (levels <= 100)
    assert (reader.read(groups, "onnx.TypeProto") is not None) == (levels <= 100)


def example_program(name, folder, *flags):
    """Compile an example program, and return a function that runs it on a file and returns the process."""
    program = compiled_program(EXAMPLES / "c" / f"{name}.c", folder, *flags)
    return lambda path: subprocess.run([str(program), str(path)], capture_output=True, check=False)


def compiled_program(source, folder, *flags):
    command = [*events.compiler(), "-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror", f"-I{events.INCLUDE}"]
    subprocess.run([*command, *flags, str(source), "-o", str(folder / source.stem)], check=True)
    return folder / source.stem


@pytest.fixture(scope="module")
def list_tensors(tmp_path_factory):
    return example_program("list_tensors", tmp_path_factory.mktemp("c"))


@pytest.fixture(scope="module")
def walk_nodes(tmp_path_factory):
    return example_program("walk_nodes", tmp_path_factory.mktemp("c"))


def lines_of_nodes(graph, level=0):
    for node in graph.node:
        operator = f"{node.domain}::{node.op_type}" if node.domain else node.op_type
        yield "\t".join(["  " * level + operator, node.name, ",".join(node.input), ",".join(node.output)])
        for attribute in node.attribute:
            for inner in [*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs]:
                yield from lines_of_nodes(inner, level + 1)


@pytest.mark.parametrize("name", ["digits_cnn", "nested"])
def test_the_example_walks_all_nodes(name, walk_nodes, tmp_path):
    path = tmp_path / "m.onnx"
    model = nested_model() if name == "nested" else onnx.load(EXAMPLES / f"{name}.onnx")
    path.write_bytes(model.SerializeToString())
    done = walk_nodes(path)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.decode().splitlines() == list(lines_of_nodes(onnxwire.load(path).graph))


def rows_of_ls(path, capsys):
    assert main(["ls", str(path), "--json"]) == 0
    for row in json.loads(capsys.readouterr().out):
        if ".g." in row["path"] or ".graphs[" in row["path"]:
            continue  # a value of a nested graph
        is_external = row["stored"] == "external_data"
        location = Path(row["file"]).name if is_external and row["file"] else "-"
        offset = "-" if row["offset"] is None else str(row["offset"])
        dims = "x".join(map(str, row["shape"]))
        kind = "external" if is_external else "inline"
        cells = [row["name"], row["type"], dims, kind, location, offset, str(row["bytes"])]
        yield "\t".join(re.sub("[\0-\x1f\x7f]", lambda found: rf"\x{ord(found[0]):02x}", cell) for cell in cells)


def lines_of(output):
    return output.decode("utf-8", "surrogateescape").split("\n")[:-1]


@pytest.mark.parametrize("name", ["digits", "sparse", "external", "typed", "nested"])
def test_the_example_lists_what_ls_lists(name, list_tensors, tmp_path, capsys):
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
            helper.make_tensor("floats", 1, [2, 1], [1, 2]),
            helper.make_tensor("strings", 8, [2], [b"x", b"yy"]),
            helper.make_tensor("int4", 22, [3], [1, 2, 3]),
            numpy_helper.from_array(np.zeros((0, 3), np.float16), "empty"),
            numpy_helper.from_array(np.float64(1), "scalar"),
        ]
        path.write_bytes(helper.make_model(helper.make_graph([], "g", [], [], tensors)).SerializeToString())
    done = list_tensors(path)
    assert (done.returncode, done.stderr) == (0, b"")
    assert lines_of(done.stdout) == list(rows_of_ls(path, capsys))


def odd_tensors():
    """Tensors whose elements no reader can use, or that are stored in unusual ways."""
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
        for data_type in [1, 8]:
            tensor = onnx.TensorProto(name=str(entries), data_type=data_type, dims=[5], data_location=1)
            for entry in entries:
                key, value = entry.split("=")
                tensor.external_data.add(key=key, value=value)
            yield tensor


def test_the_example_lists_odd_tensors_as_ls(list_tensors, tmp_path, capsys):
    path = tmp_path / "m.onnx"
    graph = onnx.GraphProto(initializer=list(odd_tensors()))
    graph.node.add().attribute.add(tensors=list(odd_tensors()))
    path.write_bytes(onnx.ModelProto(graph=graph).SerializeToString())
    done = list_tensors(path)
    assert (done.returncode, done.stderr) == (0, b"")
    assert lines_of(done.stdout) == list(rows_of_ls(path, capsys))


def test_the_example_lists_rearranged_models_as_ls(list_tensors, tmp_path, capsys):
    path = tmp_path / "m.onnx"
    rng = random.Random(7)
    graph = onnx.GraphProto(initializer=list(odd_tensors()))
    models = [nested_model().SerializeToString(), onnx.ModelProto(graph=graph).SerializeToString()]
    n_listed = 0
    for _ in range(1000 if IS_LONG else 40):
        path.write_bytes(rearranged(rng.choice(models), onnxwire.ModelProto.DESCRIPTOR, rng))
        done = list_tensors(path)
        try:
            onnxwire.verify(path)
        except onnxwire.DecodeError:
            continue  # the damaged part may be one that only the example, or only `ls`, reads
        is_model = main(["ls", str(path), "--json"]) == 0  # `ls` refuses what has more fields of another message
        capsys.readouterr()
        if is_model:
            assert done.returncode == 0, done.stderr
            assert lines_of(done.stdout) == list(rows_of_ls(path, capsys))
            n_listed += 1
    assert n_listed > 5


def write_inline_weights(path, count, size):
    """Write a model with `count` inline tensors of `size` bytes each, which are holes in the file."""
    heads = []
    for i in range(count):
        tensor = wire.number(1, size) + wire.number(2, 2) + wire.span(8, b"weight.%d" % i) + wire.tag(9, 2)
        tensor += wire.varint(size)
        heads.append(wire.tag(5, 2) + wire.varint(len(tensor) + size) + tensor)
    total = sum(map(len, heads)) + count * size
    with path.open("wb") as file:
        file.write(wire.tag(7, 2) + wire.varint(total))
        for head in heads:
            file.write(head)
            file.seek(size, os.SEEK_CUR)
        file.truncate(file.tell())


def test_a_gigabyte_of_inline_tensors_is_listed_with_few_reads(tmp_path, capsys):
    flags = [
        "-D_POSIX_C_SOURCE=200809L",
        "-D_FILE_OFFSET_BITS=64",
        "-include",
        str(Path(__file__).with_name("count_reads.h")),
    ]
    program = example_program("list_tensors", tmp_path, *flags)
    path = tmp_path / "m.onnx"
    write_inline_weights(path, 128, 8 << 20)
    assert path.stat().st_size > 1 << 30
    done = program(path)
    assert done.returncode == 0
    assert lines_of(done.stdout) == list(rows_of_ls(path, capsys))
    count, rest = done.stderr.split(b" ", 1)
    assert rest == b"bytes read\n"
    assert 1000 < int(count) < 1_000_000


@pytest.mark.parametrize(
    "flags",
    ["-O2", pytest.param("-O1 -fsanitize=address,undefined -fno-sanitize-recover=all", marks=ONLY_LONG), "-O1 -m32"],
)
def test_hostile_functions_and_sizes_do_no_harm(flags, tmp_path):
    try:
        program = compiled_program(Path(__file__).with_name("hostile.c"), tmp_path, *flags.split())
    except subprocess.CalledProcessError:
        if flags == "-O2":
            raise
        pytest.skip(f"the compiler does not support {flags}")
    done = subprocess.run([str(program)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "no attack succeeded\n"), done.stderr


@pytest.mark.parametrize(
    "data",
    [b"\x3a\x05", b"\x3a\x04\x2a\x02\x08\xff"],
    ids=["length", "varint"],
)
def test_the_example_of_tensors_reports_damage(data, list_tensors, tmp_path):
    path = tmp_path / "m.onnx"
    path.write_bytes(data)
    done = list_tensors(path)
    assert done.returncode == 2
    assert b"damaged at offset" in done.stderr


@pytest.mark.parametrize(
    ("data", "place"),
    [
        (b"\x3a\x05", b"offset 0, in the model"),
        (b"\x3a\x04\x0a\x02\x08\xff", b"offset 5, in graph.node[0]"),
        (b"\x3a\x05\x0a\x00\x0a\x01\x80", b"offset 6, in graph.node[1]"),
    ],
)
def test_the_example_of_nodes_reports_damage(data, place, walk_nodes, tmp_path):
    path = tmp_path / "m.onnx"
    path.write_bytes(data)
    done = walk_nodes(path)
    assert done.returncode == 2
    assert place in done.stderr


def test_a_path_of_damage_names_the_innermost_message(list_tensors, tmp_path):
    path = tmp_path / "m.onnx"
    path.write_bytes(wire.span(7, wire.span(1, wire.span(5, b"") + wire.span(5, wire.span(5, b"\x10\x80")))))
    assert b"in graph.node[0].attribute[1].t (code" in list_tensors(path).stderr


def test_names_cannot_control_the_terminal(list_tensors, walk_nodes, tmp_path):
    path = tmp_path / "m.onnx"
    name = "\x1b[31m\n\t"
    tensor = helper.make_tensor(name, 1, [1], [1])
    graph = helper.make_graph([helper.make_node("Add", [name], [])], "g", [], [], [tensor])
    path.write_bytes(helper.make_model(graph).SerializeToString())
    assert list_tensors(path).stdout.startswith(b"\\x1b[31m\\x0a\\x09\tFLOAT\t1\t")
    assert walk_nodes(path).stdout == b"Add\t\t\\x1b[31m\\x0a\\x09\t\n"


def test_the_folder_of_the_header_is_public():
    assert Path(onnxwire.get_include(), "onnxwire.h").is_file()


def test_the_header_calls_only_memory_functions(tmp_path):
    if shutil.which("nm") is None:
        pytest.skip("nm is not installed")
    target = compiled_header([*events.compiler(), "-std=c99", "-Os", "-fno-pic", "-fno-stack-protector"], tmp_path)
    names = subprocess.run(["nm", "-u", str(target)], capture_output=True, text=True, check=True).stdout.split()
    assert {name.lstrip("_") for name in names} - {"U", "GLOBAL_OFFSET_TABLE_"} <= {"memcpy", "memcmp", "memchr"}
    symbols = subprocess.run(["nm", str(target)], capture_output=True, text=True, check=True).stdout.splitlines()
    assert not [symbol for symbol in symbols if symbol.split()[-2] in "bBcCdDsS"]  # data that can be written


def compiled_header(command, folder):
    """Compile the header alone with all warnings, and return the object file."""
    source = folder / ("reader.cpp" if "++" in command[0] else "reader.c")
    source.write_text('#define ONNXWIRE_IMPLEMENTATION\n#include "onnxwire.h"\n')
    warnings = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror"]
    target = folder / "reader.o"
    include = f"-I{onnxwire.get_include()}"
    subprocess.run([*command, *warnings, include, "-c", str(source), "-o", str(target)], check=True)
    return target


@pytest.mark.parametrize(
    "compiler",
    ["gcc -std=c99", "g++ -std=c++11", "g++ -std=c++17", "clang -std=c99", "clang++ -std=c++17"],
)
def test_the_header_compiles_without_warnings_and_is_small(compiler, tmp_path):
    if shutil.which(compiler.split()[0]) is None:
        pytest.skip(f"{compiler.split()[0]} is not installed")
    target = compiled_header([*compiler.split(), "-Os"], tmp_path)
    size = subprocess.run(["size", str(target)], capture_output=True, text=True, check=True).stdout.split()
    text, data = int(size[6]), int(size[7])
    assert text + data < 40_000
