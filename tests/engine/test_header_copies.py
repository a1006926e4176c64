"""The engine reads headers of tensors in a mapped file from copies. Values and errors are those of bytes in memory.

A header is the bytes that follow a long value. A copy has at most 256 bytes, of which at most 64 precede the header.
Therefore the models of this file have records of random lengths, in random order, around long values.
"""

from __future__ import annotations

import os
import random
import re
import sys
from pathlib import Path

import pytest
from wire_bytes import LEN, group, len_record, tag, varint_record

import onnxwire as ow
from onnxwire.errors import DecodeError

LONG_VALUE = bytes(300_000)
FAR_SKIP_BYTES = 1 << 18  # OW_FAR_SKIP_BYTES of engine/thresholds.h
# Lengths of short values in bytes, below and above the sizes 64 and 256 of the module docstring.
FILLER_LENGTHS = (0, 1, 60, 180, 200, 250, 300, 600)


def tensor_record(rng: random.Random, name: str) -> bytes:
    """Return the record of an initializer: one or two long values, and random records around them.

    Field numbers: 1 dims, 2 data_type, 8 name, 9 raw_data, 12 doc_string, 16 metadata_props; unknown: 77, 99, 100.
    """
    records = [
        len_record(8, name.encode(), pad=rng.choice((0, 0, 2))),
        varint_record(2, 1, pad=rng.choice((0, 0, 1))),
        # The dims 2048 and 2, packed or not.
        len_record(1, b"\x80\x10\x02") if rng.random() < 0.5 else varint_record(1, 2048) + varint_record(1, 2),
        len_record(12, b"d" * rng.choice(FILLER_LENGTHS)),
        len_record(99, b"u" * rng.choice(FILLER_LENGTHS)),
        group(77, varint_record(5, 1) + len_record(6, b"g" * rng.choice(FILLER_LENGTHS))),
        tag(2, LEN) + b"\0",  # data_type with another wire type
        varint_record(100, 5),
        len_record(16, len_record(1, b"key") + len_record(2, b"v" * rng.choice(FILLER_LENGTHS))),
        len_record(8, b"n" * rng.choice(FILLER_LENGTHS)),
        varint_record(1, 7),
    ]
    chosen_records = rng.sample(records, rng.randint(1, len(records)))
    chosen_records.insert(
        rng.randint(0, len(chosen_records)),
        len_record(9, LONG_VALUE[: rng.choice((FAR_SKIP_BYTES - 1, FAR_SKIP_BYTES, 290_000))]),
    )
    if rng.random() < 0.1:
        chosen_records.append(len_record(rng.choice((9, 99)), LONG_VALUE))
    return len_record(5, b"".join(chosen_records), pad=rng.choice((0, 0, 1)))


def model_bytes(seed: int) -> bytes:
    """Encode a model. Its graph (field 7) has six initializers, a node (field 1) and a name (field 2).

    The records of the model are in random order. The node and the name are at random positions among the initializers.
    """
    rng = random.Random(seed)
    records = [tensor_record(rng, f"tensor{i}") for i in range(6)]
    records.insert(
        rng.randint(0, 6), len_record(1, len_record(1, b"x" * rng.choice(FILLER_LENGTHS)) + len_record(4, b"Relu"))
    )
    records.insert(rng.randint(0, 6), len_record(2, b"graph" + b"g" * rng.choice(FILLER_LENGTHS)))
    other_records = [varint_record(1, 8), len_record(8, varint_record(2, 17))]  # ir_version and opset_import
    graph = b"".join(records)
    return b"".join(rng.sample([*other_records, len_record(7, graph)], 3))


def describe(tensor: ow.TensorProto) -> tuple[object, ...]:
    """Return the content of a tensor; of raw_data only the length."""
    fields = [(field.name, value) for field, value in tensor.ListFields() if field.name not in ("raw_data", "dims")]
    properties = [(entry.key, entry.value) for entry in tensor.metadata_props]
    text = str(fields).replace(tensor._document.name, "")  # errors of damaged messages name the file
    return tensor.name, list(tensor.dims), tensor.data_type, len(tensor.raw_data), text, properties


def read_in_random_order(model: ow.ModelProto, seed: int) -> list[object]:
    """Read the parts of a model in an order that depends on the seed.

    Returns the values. After a DecodeError, the last element is the error's (offset, path).
    """
    rng = random.Random(seed)
    results: list[object] = []
    initializers = model.graph.initializer
    try:
        for step in rng.sample(range(6), 6):
            if step == 0:
                results += [(tensor.name, tuple(tensor.dims)) for tensor in initializers]
            elif step == 1:
                results += [describe(tensor) for tensor in initializers]
            elif step == 2:
                results += [describe(initializers[i]) for i in rng.sample(range(len(initializers)), len(initializers))]
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
def test_values_of_a_file_equal_those_in_memory(tmp_path: Path, seed: int) -> None:
    data = model_bytes(seed)
    path = tmp_path / "model.onnx"
    path.write_bytes(data)
    with ow.load(path) as mapped_model, ow.load(data) as model_in_memory:
        assert read_in_random_order(mapped_model, seed) == read_in_random_order(model_in_memory, seed)
        assert mapped_model == model_in_memory
        assert mapped_model.SerializeToString() == data


@pytest.mark.parametrize("seed", range(25))
def test_values_and_errors_of_a_damaged_file_equal_those_in_memory(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    data = bytearray(model_bytes(seed))
    # Invert bits near names and near an unpacked dim of 2048.
    for match in rng.choices(list(re.finditer(rb"tensor\d|\x08\x80\x10|graph", data)), k=2):
        position = min(max(match.start() + rng.randint(-12, 12), 0), len(data) - 1)
        data[position] ^= 1 << rng.randint(0, 7)
    path = tmp_path / "model.onnx"
    path.write_bytes(data)
    results = []
    for source in (path, bytes(data)):
        try:
            with ow.load(source) as model:
                results.append(read_in_random_order(model, seed))
        except DecodeError as error:
            results.append([(error.offset, error.path)])
    assert results[0] == results[1]


def test_edits_of_a_file_are_visible_and_saved(tmp_path: Path) -> None:
    data = model_bytes(1)
    path, copy = tmp_path / "model.onnx", tmp_path / "copy.onnx"
    path.write_bytes(data)
    with ow.load(path) as mapped_model, ow.load(data) as model_in_memory:
        for model in (mapped_model, model_in_memory):
            for i, tensor in enumerate(model.graph.initializer):
                tensor.name += f"_{i}"
                tensor.dims.append(i)
            del model.graph.initializer[2]
            model.graph.initializer.add(name="new")
        assert read_in_random_order(mapped_model, 1) == read_in_random_order(model_in_memory, 1)
        ow.save(mapped_model, copy)
        assert copy.read_bytes() == model_in_memory.SerializeToString()


def test_copied_messages_outlive_their_document(tmp_path: Path) -> None:
    data = model_bytes(2)
    path = tmp_path / "model.onnx"
    path.write_bytes(data)
    copy = ow.ModelProto()
    with ow.load(path) as mapped_model:
        names = [tensor.name for tensor in mapped_model.graph.initializer]
        copy.CopyFrom(mapped_model)
        iterator = iter(copy.graph.initializer)
        first_tensor = next(iterator)
    assert [first_tensor.name, *(tensor.name for tensor in iterator)] == names
    assert copy.SerializeToString() == data


def test_an_open_model_keeps_its_values_when_its_file_is_saved_in_place(tmp_path: Path) -> None:
    data = model_bytes(3)
    path = tmp_path / "model.onnx"
    path.write_bytes(data)
    with ow.load(path) as mapped_model:
        iterator = iter(mapped_model.graph.initializer)
        first_name = next(iterator).name
        os.link(path, tmp_path / "link.onnx")  # a file with two links is saved in place
        ow.save(ow.ModelProto(ir_version=8), path)
        expected = [tensor.name for tensor in ow.load(data).graph.initializer]
        assert [first_name, *(tensor.name for tensor in iterator)] == expected


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/self/smaps")
def test_listing_maps_at_most_2_mib_of_long_values(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    record = len_record(5, len_record(8, b"name") + varint_record(1, 1 << 20) + len_record(9, bytes(1 << 20)))
    path.write_bytes(len_record(7, record * 40))
    with ow.load(path) as model:
        assert {(tensor.name, tuple(tensor.dims)) for tensor in model.graph.initializer} == {("name", (1 << 20,))}
        with open("/proc/self/smaps") as file:
            mappings = file.read().split(str(path))[1:]
        # The first read maps the pages around it, up to a large page. Reads of the 39 other headers map none.
        assert sum(int(re.search(r"Rss: +(\d+) kB", mapping)[1]) for mapping in mappings) <= 2048


@pytest.mark.skipif(os.name != "posix", reason="no headers are copied on Windows")
def test_names_are_those_of_the_mapped_file_after_its_descriptor_refers_to_another_file(tmp_path: Path) -> None:
    for name in "ab":
        records = [
            len_record(5, len_record(8, b"%s%d" % (name.encode(), i)) + len_record(9, LONG_VALUE)) for i in range(4)
        ]
        (tmp_path / name).write_bytes(varint_record(1, 8) + len_record(7, b"".join(records)))
    model = ow.load(str(tmp_path / "a"))
    other = os.open(tmp_path / "b", os.O_RDONLY)
    os.dup2(other, model._document.descriptor)
    os.close(other)
    assert [tensor.name for tensor in model.graph.initializer] == ["a0", "a1", "a2", "a3"]
