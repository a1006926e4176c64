"""Headers of tensors in a mapped file are read from copies: values and errors equal those of the same bytes in memory.

A copy begins some bytes before a header and ends some hundred bytes after it, so the records of these files have any
length and position around long values.
"""

from __future__ import annotations

import os
import random
import re
import sys
from pathlib import Path

import pytest
from wire_bytes import LEN, VARINT, group, number, span, tag

import onnxwire as ow
from onnxwire.errors import DecodeError

LONG = bytes(300_000)
FILLERS = (0, 1, 60, 180, 200, 250, 300, 600)


def tensor_record(rng: random.Random, name: str) -> bytes:
    """Return the record of an initializer: a long value, and records of any kind and length before and after it."""
    records = [
        span(8, name.encode(), rng.choice((0, 0, 2))),
        number(2, 1, rng.choice((0, 0, 1))),
        span(1, b"\x80\x10\x02") if rng.random() < 0.5 else number(1, 2048) + number(1, 2),
        span(12, b"d" * rng.choice(FILLERS)),
        span(99, b"u" * rng.choice(FILLERS)),
        group(77, number(5, 1) + span(6, b"g" * rng.choice(FILLERS))),
        tag(2, LEN) + b"\0",  # data_type with another wire type
        tag(100, VARINT) + b"\5",
        span(16, span(1, b"key") + span(2, b"v" * rng.choice(FILLERS))),
        span(8, b"n" * rng.choice(FILLERS)),
        number(1, 7),
    ]
    chosen = rng.sample(records, rng.randint(1, len(records)))
    chosen.insert(rng.randint(0, len(chosen)), span(9, LONG[: rng.choice((262_143, 262_144, 290_000))]))
    if rng.random() < 0.1:
        chosen.append(span(rng.choice((9, 99)), LONG))
    return span(5, b"".join(chosen), rng.choice((0, 0, 1)))


def model_bytes(seed: int) -> bytes:
    rng = random.Random(seed)
    records = [tensor_record(rng, f"tensor{i}") for i in range(6)]
    records.insert(rng.randint(0, 6), span(1, span(1, b"x" * rng.choice(FILLERS)) + span(4, b"Relu")))
    records.insert(rng.randint(0, 6), span(2, b"graph" + b"g" * rng.choice(FILLERS)))
    end = [number(1, 8), span(8, number(2, 17))]
    graph = b"".join(records)
    return b"".join(rng.sample([*end, span(7, graph)], 3))


def described(tensor: ow.TensorProto) -> tuple[object, ...]:
    fields = [(field.name, value) for field, value in tensor.ListFields() if field.name not in ("raw_data", "dims")]
    properties = [(entry.key, entry.value) for entry in tensor.metadata_props]
    text = str(fields).replace(tensor._document.name, "")  # errors of damaged messages name the file
    return tensor.name, list(tensor.dims), tensor.data_type, len(tensor.raw_data), text, properties


def walked(model: ow.ModelProto, seed: int) -> list[object]:
    """Return what reading a model in an order of its own yields; the error for a damaged one."""
    rng = random.Random(seed)
    results: list[object] = []
    initializers = model.graph.initializer
    try:
        for step in rng.sample(range(6), 6):
            if step == 0:
                results += [(tensor.name, tuple(tensor.dims)) for tensor in initializers]
            elif step == 1:
                results += [described(tensor) for tensor in initializers]
            elif step == 2:
                results += [described(initializers[i]) for i in rng.sample(range(len(initializers)), len(initializers))]
            elif step == 3:
                results += [(info.name, info.shape, info.nbytes, info.offset) for info in ow.tensors(model)]
            elif step == 4:
                results += [str(node) for node in model.graph.node] + [model.graph.name]
                results += [entry.version for entry in model.opset_import]
            else:
                results += [tensor.ByteSize() for tensor in reversed(initializers)]
    except DecodeError as error:
        results.append((error.offset, error.path))
    return results


@pytest.mark.parametrize("seed", range(25))
def test_values_equal_those_in_memory(tmp_path: Path, seed: int) -> None:
    data = model_bytes(seed)
    path = tmp_path / "model.onnx"
    path.write_bytes(data)
    with ow.load(path) as mapped, ow.load(data) as resident:
        assert walked(mapped, seed) == walked(resident, seed)
        assert mapped == resident
        assert mapped.SerializeToString() == data


@pytest.mark.parametrize("seed", range(25))
def test_errors_equal_those_in_memory(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    data = bytearray(model_bytes(seed))
    for match in rng.choices(list(re.finditer(rb"tensor\d|\x08\x80\x10|graph", data)), k=2):
        position = min(max(match.start() + rng.randint(-12, 12), 0), len(data) - 1)
        data[position] ^= 1 << rng.randint(0, 7)
    path = tmp_path / "model.onnx"
    path.write_bytes(data)
    results = []
    for source in (path, bytes(data)):
        try:
            with ow.load(source) as model:
                results.append(walked(model, seed))
        except DecodeError as error:
            results.append([(error.offset, error.path)])
    assert results[0] == results[1]


def test_edits_are_seen_and_saved(tmp_path: Path) -> None:
    data = model_bytes(1)
    path, copy = tmp_path / "model.onnx", tmp_path / "copy.onnx"
    path.write_bytes(data)
    with ow.load(path) as mapped, ow.load(data) as resident:
        for model in (mapped, resident):
            for i, tensor in enumerate(model.graph.initializer):
                tensor.name += f"_{i}"
                tensor.dims.append(i)
            del model.graph.initializer[2]
            model.graph.initializer.add(name="new")
        assert walked(mapped, 1) == walked(resident, 1)
        ow.save(mapped, copy)
        assert copy.read_bytes() == resident.SerializeToString()


def test_copied_messages_outlive_their_document(tmp_path: Path) -> None:
    data = model_bytes(2)
    path = tmp_path / "model.onnx"
    path.write_bytes(data)
    copy = ow.ModelProto()
    with ow.load(path) as mapped:
        names = [tensor.name for tensor in mapped.graph.initializer]
        copy.CopyFrom(mapped)
        iterator = iter(copy.graph.initializer)
        first = next(iterator)
    assert [first.name, *(tensor.name for tensor in iterator)] == names
    assert copy.SerializeToString() == data


def test_a_file_that_is_replaced_in_place_keeps_its_values(tmp_path: Path) -> None:
    data = model_bytes(3)
    path = tmp_path / "model.onnx"
    path.write_bytes(data)
    with ow.load(path) as mapped:
        iterator = iter(mapped.graph.initializer)
        first = next(iterator).name
        os.link(path, tmp_path / "link.onnx")  # a rename would separate them
        ow.save(ow.ModelProto(ir_version=8), path)
        expected = [tensor.name for tensor in ow.load(data).graph.initializer]
        assert [first, *(tensor.name for tensor in iterator)] == expected


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/self/smaps")
def test_listing_maps_no_pages_of_long_values(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    record = span(5, span(8, b"name") + number(1, 1 << 20) + span(9, bytes(1 << 20)))
    path.write_bytes(span(7, record * 40))
    with ow.load(path) as model:
        assert {(tensor.name, tuple(tensor.dims)) for tensor in model.graph.initializer} == {("name", (1 << 20,))}
        with open("/proc/self/smaps") as file:
            parts = file.read().split(str(path))[1:]
        # The first read maps its neighbourhood, up to a large page; the 39 other headers map nothing.
        assert sum(int(re.search(r"Rss: +(\d+) kB", part)[1]) for part in parts) <= 2048


@pytest.mark.skipif(os.name != "posix", reason="mapped files are closed on Windows")
def test_names_are_those_of_the_mapped_file_after_its_descriptor_refers_to_another_one(tmp_path: Path) -> None:
    for name in "ab":
        records = [span(5, span(8, b"%s%d" % (name.encode(), i)) + span(9, LONG)) for i in range(4)]
        (tmp_path / name).write_bytes(number(1, 8) + span(7, b"".join(records)))
    model = ow.load(str(tmp_path / "a"))
    other = os.open(tmp_path / "b", os.O_RDONLY)
    os.dup2(other, model._document.descriptor)
    os.close(other)
    assert [tensor.name for tensor in model.graph.initializer] == ["a0", "a1", "a2", "a3"]
