"""The list of the tensors of a model: rows of unedited, edited and new tensors, slices, and damaged tensors."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from wire import len_record, varint_record

import onnxwire
from onnxwire.errors import DecodeError
from onnxwire.io.tensor_list import TensorInfo, _fields_of, describe

# Encodings of fields of a TensorProto: valid, absent, repeated, not UTF-8, and with other wire types. Field numbers:
# dims 1, data_type 2, segment 3, float_data 4, string_data 6, name 8, raw_data 9, external_data 13, data_location 14;
# 50 is unknown.
DIMS_FIELDS = [
    b"",
    varint_record(1, 3) + varint_record(1, 0),
    len_record(1, b"\x02\x03") + varint_record(1, 1 << 63),
    varint_record(1, 1 << 62) * 2,
]
NAME_FIELDS = [b"", len_record(8, b"w"), len_record(8, b"\xff") + len_record(8, b"last"), len_record(8, b"\xc3")]
TYPE_FIELDS = [
    b"",
    varint_record(2, 1),
    varint_record(2, 8),
    varint_record(2, (1 << 64) - 1) + varint_record(2, 77),
    len_record(2, b"x"),
    varint_record(2, 22),
]
PAYLOAD_FIELDS = [
    b"",
    len_record(9, b""),
    len_record(9, b"abc") + len_record(9, b"de"),
    varint_record(9, 3),
    len_record(4, bytes(8)),
    len_record(6, b"text") + len_record(6, b"s"),
    len_record(6, b"text") + len_record(9, b""),
    len_record(6, b"text") + len_record(9, b"raw"),
]


def external_data_entry(key: bytes, value: bytes) -> bytes:
    """Return the encoding of an entry of external_data."""
    return len_record(13, len_record(1, key) + len_record(2, value))


LOCATION_FIELDS = [
    b"",
    varint_record(14, 0),
    varint_record(14, 1),
    varint_record(14, 7),
    len_record(3, varint_record(2, 1)),
    varint_record(50, 1),
    external_data_entry(b"location", b"w.bin"),
    varint_record(14, 1)
    + external_data_entry(b"location", b"w.bin")
    + external_data_entry(b"offset", b"64")
    + external_data_entry(b"length", b"8"),
    varint_record(14, 1)
    + external_data_entry(b"location", b"a")
    + external_data_entry(b"location", b"b")
    + external_data_entry(b"offset", b"-1"),
    varint_record(14, 1)
    + external_data_entry(b"location", b"")
    + external_data_entry(b"length", b"99999999999999999999"),
    varint_record(14, 1)
    + external_data_entry(b"location", b"\xff")
    + external_data_entry(b"\xff", b"")
    + external_data_entry(b"offset", "\u0663".encode()),  # a digit 3 that is not ASCII
    varint_record(14, 1)
    + len_record(13, len_record(2, b"w") + varint_record(1, 1) + len_record(9, b"x") + len_record(1, b"location")),
    varint_record(14, 1) + varint_record(13, 5) + external_data_entry(b"location", b"w"),
    varint_record(14, 1) + len_record(13, b""),
    varint_record(14, 1)
    + len_record(3, varint_record(1, 1) + varint_record(2, 2))
    + external_data_entry(b"location", b"w"),
    varint_record(14, 1) + external_data_entry(b"location", b"l" * 70_000),
]


@pytest.mark.parametrize("fields_index", range(len(LOCATION_FIELDS)))
def test_rows_read_from_bytes_equal_rows_read_from_messages(tmp_path: Path, fields_index: int) -> None:
    parts = list(
        itertools.product(DIMS_FIELDS, NAME_FIELDS, TYPE_FIELDS, PAYLOAD_FIELDS, [LOCATION_FIELDS[fields_index]])
    )
    # The fields are ir_version (1), graph (7) and initializer (5).
    data = varint_record(1, 8) + len_record(7, b"".join(len_record(5, b"".join(part)) for part in parts))
    path = tmp_path / "model.onnx"
    path.write_bytes(data)
    for source in (data, path):
        with onnxwire.load(source) as model:
            rows = onnxwire.tensors(model)
            assert len(rows) == len(parts)
            for i, (row, tensor) in enumerate(zip(rows, model.graph.initializer, strict=True)):
                assert row == TensorInfo(f"graph.initializer[{i}]", *_fields_of(tensor))
                assert describe(tensor, "p") == TensorInfo("p", *_fields_of(tensor))


def test_rows_of_edited_tensors_have_the_edited_values() -> None:
    graph = onnxwire.GraphProto()
    for i in range(3):
        graph.initializer.add(name=f"t{i}", data_type=onnxwire.TensorProto.FLOAT, dims=[i, 2], raw_data=bytes(8 * i))
    graph = onnxwire.GraphProto.FromString(graph.SerializeToString())
    graph.initializer[1].name = "edited"
    graph.initializer[2].dims.append(3)
    rows = onnxwire.tensors(graph)
    assert [(row.name, row.shape, row.nbytes) for row in rows] == [
        ("t0", (0, 2), 0), ("edited", (1, 2), 8), ("t2", (2, 2, 3), 16)
    ]  # fmt: skip


def test_tensors_that_a_program_built_have_no_file() -> None:
    model = onnxwire.ModelProto()
    for i in range(100):
        model.graph.initializer.add(name=f"t{i}", data_type=1, dims=[2], raw_data=bytes(8))
        attribute = model.graph.node.add(op_type="Constant").attribute.add(name="value")
        attribute.t.raw_data = bytes(4)
    copy = onnxwire.ModelProto()
    copy.graph.node.extend(model.graph.node)
    copy.graph.initializer.add().CopyFrom(model.graph.initializer[0])
    assert {(row.file, row.offset) for row in [*onnxwire.tensors(model), *onnxwire.tensors(copy)]} == {(None, None)}


def test_a_tensor_in_two_records_is_one_row() -> None:
    # Two records of the field t (5).
    attribute = onnxwire.AttributeProto.FromString(
        len_record(5, varint_record(1, 2) + len_record(8, b"a")) + len_record(5, len_record(9, b"raw"))
    )
    (row,) = onnxwire.tensors(attribute)
    assert (row.path, row.name, row.shape, row.nbytes) == ("t", "a", (2,), 3)


def test_files_of_external_tensors_are_in_the_folder_of_the_model(tmp_path: Path) -> None:
    location_fields = varint_record(14, 1) + external_data_entry(b"location", b"deep/w.bin")
    path = tmp_path / "model.onnx"
    path.write_bytes(
        varint_record(1, 8)
        + len_record(
            7,
            len_record(5, location_fields) * 2
            + len_record(5, len_record(9, b"abc"))
            + len_record(5, len_record(4, b"")),
        )
    )
    rows = onnxwire.tensors(path)
    assert [(row.file, row.location) for row in rows] == [
        (str(tmp_path / "deep/w.bin"), "deep/w.bin"),
        (str(tmp_path / "deep/w.bin"), "deep/w.bin"),
        (str(path), None),
        (None, None),
    ]


def test_slices_and_indexes_equal_those_of_a_list() -> None:
    graph = onnxwire.GraphProto()
    for i in range(2500):
        graph.initializer.add(name=f"t{i}")
    rows = onnxwire.tensors(graph)
    infos = list(rows)
    assert [info.name for info in infos] == [f"t{i}" for i in range(2500)]
    for part in (slice(None), slice(5, 2, -1), slice(-3, None), slice(10_000, None), slice(0, 9, 4)):
        assert rows[part] == infos[part]
    assert rows[-1] == infos[-1]
    for index in (2500, -2501):
        with pytest.raises(IndexError):
            rows[index]


DAMAGES = {
    "packed dims longer than the tensor": b"\x0a\x05\x01",
    "a tag without a value": b"\x08",
    "a varint that ends too soon": b"\x0a\x01\x80",
    "a name longer than the tensor": b"\x42\x05a",
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_tensor_raises_decode_error(damage: bytes) -> None:
    graph = onnxwire.GraphProto.FromString(len_record(5, len_record(8, b"valid")) + len_record(5, damage))
    with pytest.raises(DecodeError):
        onnxwire.tensors(graph)
