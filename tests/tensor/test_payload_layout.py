"""The layout of payloads: all readers agree with each other and with the official readers, for valid and damaged
tensors."""

import random
from functools import cache

import numpy as np
import onnx
import pytest
from onnx import external_data_helper
from stored_tensors import BITS, external
from wire import number, span, varint

import onnxwire
from onnxwire.viewer.map_columns import MapColumns
from onnxwire.viewer.queries import Queries

MAX_INT64 = (1 << 63) - 1
STRING = onnx.TensorProto.STRING
NUMBERS = ["0", "7", "0040", "4096", str(MAX_INT64), "0" * 30 + "8"]
# Texts that are not plain decimal numbers below 2**63: signs, white space, underscores, digits of other scripts, a
# fraction, "".
NO_NUMBERS = ["-1", "+4", " 8", "8 ", "1_000", "٣", "0x10", "1.0", "", str(MAX_INT64 + 1), "9" * 40, "8\0"]
LOCATIONS = ["w.bin", "deep/w.bin", "", "é.bin"]
# Products of these reach any size; two or more factors of 2**31 and 2**62 exceed the limit.
DIMS = [0, 1, 2, 3, 5, 7, 1000, 1 << 31, (1 << 31) + 1, 1 << 62, MAX_INT64, -1, -(1 << 63)]
SEGMENTS = [(0, 0), (0, 2), (1, 3), (2, 1), (-1, 2), (0, 1 << 62)]


class Made:
    """A random TensorProto as wire bytes, and the values of its fields."""

    def __init__(self, seed):
        draw = random.Random(seed)
        self.name = f"t{seed}"
        self.dims = draw.choices(DIMS if draw.random() < 0.4 else DIMS[:6], k=draw.randrange(5))
        self.data_type = draw.choice([*BITS, *BITS, *BITS, STRING, 0, 29, 63, 64, 1000, -1])
        self.segment = draw.choice(SEGMENTS) if draw.random() < 0.1 else None
        self.is_external = draw.random() < 0.5
        self.entries = []
        # Each key zero, one or several times, in any order, among unknown keys.
        for key, values in (("location", LOCATIONS), ("offset", NUMBERS), ("length", NUMBERS), ("checksum", ["ab"])):
            for _ in range(draw.choice([0, 1, 1, 1, 1, 2])):
                self.entries.append((key, draw.choice(NO_NUMBERS if draw.random() < 0.2 else values)))
        self.entries += draw.choices([("basepath", "/"), ("Length", "9"), ("", "1")], k=draw.randrange(2))
        draw.shuffle(self.entries)
        if not self.is_external and draw.random() < 0.7:
            self.entries = []
        self.raw = draw.randbytes(draw.choice([0, 1, 4, 12, 40])) if draw.random() < 0.4 else None
        if self.raw is not None and draw.random() < 0.7 and 0 <= self.called_for <= 10_000:
            self.raw = bytes(self.called_for)
        self.strings = [b"x" * draw.randrange(4) for _ in range(draw.randrange(4))] if draw.random() < 0.3 else []

    @property
    def elements(self):
        """Return the number of stored elements: those of the segment if it is within the dims."""
        count = 1
        for dim in self.dims:
            count *= max(dim, 0)
        count = min(count, MAX_INT64)
        begin, end = self.segment or (0, count)
        return end - begin if 0 <= begin <= end <= count else count

    @property
    def is_excessive(self):
        return 0 not in self.dims and all(dim > 0 for dim in self.dims) and np.prod(self.dims, dtype=object) > MAX_INT64

    @property
    def called_for(self):
        if self.is_excessive and self.elements == MAX_INT64:
            return MAX_INT64
        return min((self.elements * BITS.get(self.data_type, 8) + 7) // 8, MAX_INT64)

    def given(self, key):
        """Return the values of a key."""
        return [value for name, value in self.entries if name == key]

    def stated(self, key):
        """Return the number of a key's last entry; None if it is not a number."""
        values = self.given(key)
        return int(values[-1]) if values and values[-1] in NUMBERS else None

    @property
    def location(self):
        """Return the location."""
        return (self.given("location") or [""])[-1] or None if self.is_external else None

    @property
    def is_raw(self):
        """Return whether raw_data is the payload."""
        if self.raw is None or self.is_external:
            return False
        return len(self.raw) > 0 or (sum(map(len, self.strings)) if self.data_type == STRING else self.called_for) == 0

    @property
    def nbytes(self):
        """Return the size of the payload, by the rules in the docstring of `payload_layout`."""
        if self.is_external:
            length = self.stated("length")
            return length if length is not None else 0 if self.data_type == STRING else self.called_for
        if self.raw:
            return len(self.raw)
        return sum(map(len, self.strings)) if self.data_type == STRING else self.called_for

    @cache  # noqa: B019
    def message(self):
        dims = b"".join(varint(dim) for dim in self.dims)
        data = span(1, dims) if len(self.dims) % 2 else b"".join(number(1, dim) for dim in self.dims)
        data += number(2, self.data_type) + span(8, self.name.encode())
        data += b"".join(
            span(13, span(1, key.encode()) + (span(2, value.encode()) if value else b"")) for key, value in self.entries
        )
        if self.segment:
            data += span(3, number(1, self.segment[0]) + number(2, self.segment[1]))
        if self.is_external:
            data += number(14, 1)
        if self.raw is not None:
            data += span(9, self.raw)
        return data + b"".join(span(6, text) for text in self.strings)


@pytest.fixture(scope="module")
def made():
    return [Made(seed) for seed in range(5000)]


@pytest.fixture(scope="module")
def model(made):
    """Return a model with all tensors as initializers."""
    graph = b"".join(span(5, tensor.message()) for tensor in made)
    return onnxwire.ModelProto.FromString(number(1, max(onnx.Version.values())) + span(7, span(2, b"g") + graph))


def test_the_list_of_tensors_has_the_right_sizes_and_offsets(made, model):
    for tensor, info in zip(made, onnxwire.tensors(model), strict=True):
        offset = None
        if tensor.location is not None:
            offset = tensor.stated("offset") if tensor.given("offset") else 0
        assert (info.name, info.nbytes, info.location) == (tensor.name, tensor.nbytes, tensor.location), tensor.entries
        assert info.offset == offset or tensor.is_raw
        assert (info.offset is not None) == (offset is not None or tensor.is_raw)


def test_the_arrow_table_agrees_with_the_list_of_tensors(made, model):
    rows = onnxwire.to_arrow(model, "tensors").to_pydict()
    infos = onnxwire.tensors(model)
    assert rows["bytes"] == [info.nbytes for info in infos]
    assert rows["location"] == [info.location for info in infos]
    assert rows["offset"] == [info.offset for info in infos]
    assert rows["storage"] == ["external" if tensor.is_external else "inline" for tensor in made]
    lengths = [
        tensor.stated("length") if tensor.is_external else len(tensor.raw) if tensor.is_raw else None for tensor in made
    ]
    assert rows["length"] == lengths


def test_an_edited_model_has_the_same_sizes(made, model):
    sizes = [info.nbytes for info in onnxwire.tensors(model)]
    edited = onnxwire.ModelProto()
    edited.CopyFrom(model)
    edited.producer_name = "edited"
    for tensor in edited.graph.initializer:
        tensor.doc_string = "edited"
    assert [info.nbytes for info in onnxwire.tensors(edited)] == sizes
    assert onnxwire.to_arrow(edited, "tensors").to_pydict()["bytes"] == sizes


def test_the_page_agrees_with_the_list_of_tensors(made, model):
    sizes = [info.nbytes for info in onnxwire.tensors(model)]
    page = Queries(model)
    rows = [row for start in range(0, len(made), 100) for row in page.tensors(start=start)["rows"]]
    assert [row["bytes"] for row in rows] == sizes
    columns = MapColumns(model)
    assert sorted(columns.bytes[columns.is_weight]) == sorted(map(float, sizes))
    assert sorted(columns.parameters[columns.is_weight]) == sorted(float(tensor.elements) for tensor in made)


def test_a_tensor_whose_elements_can_be_read_has_the_bytes_of_its_array(made, model):
    read = 0
    for tensor, info in zip(model.graph.initializer, onnxwire.tensors(model), strict=True):
        try:
            array = tensor.numpy(strings="bytes")
        except onnxwire.Error:
            continue
        read += 1
        assert info.nbytes == tensor.nbytes
        if tensor.data_type != STRING and not tensor.HasField("segment"):
            official = onnx.numpy_helper.to_array(onnx.TensorProto.FromString(tensor.SerializeToString()))
            assert official.shape == array.shape
    assert read >= 300


def problems_of(model, *rules):
    """Return the indices of the initializers that break one of the rules, and the messages."""
    return {
        int(problem.path.split("[")[1].split("]")[0]): problem.message
        for problem in onnxwire.check(model, select=rules)
    }


def test_nbytes_is_the_size_that_check_requires(made, model):
    wrong = problems_of(model, "external-length-matches-shape") | problems_of(
        model, *(f"tensor-raw-data-length{end}" for end in ("", "-4bit", "-2bit", "-6bit")), "tensor-segment-bounds"
    )
    compared = 0
    for row, (tensor, ours) in enumerate(zip(made, model.graph.initializer, strict=True)):
        is_stated = tensor.raw and not tensor.strings and tensor.elements and not tensor.is_external
        if tensor.is_external and len(tensor.given("length")) == 1:
            is_stated = tensor.stated("length") is not None
        if tensor.data_type == STRING or not is_stated:
            continue
        try:
            nbytes = ours.nbytes
        except onnxwire.TensorError:
            continue  # other rules report faults of dims, segment and data type
        compared += 1
        assert (row in wrong) == (nbytes != tensor.nbytes)
        assert f"{nbytes:,} bytes" in wrong.get(row, f"{nbytes:,} bytes")
    assert compared >= 1000


def test_check_reports_ambiguous_descriptions_that_reading_refuses(made, model):
    ambiguous = problems_of(model, "external-key-unique")
    unclear = problems_of(model, "external-offset-format", "external-length-format")
    refused = 0
    for row, (tensor, ours) in enumerate(zip(made, model.graph.initializer, strict=True)):
        keys = [key for key, _ in tensor.entries] if tensor.is_external else []
        assert (row in ambiguous) == (len(keys) > len(set(keys)))
        values = [value for key, value in tensor.entries if key in ("offset", "length")] if tensor.is_external else []
        assert (row in unclear) == any(value not in NUMBERS for value in values)
        try:
            ours.numpy()
        except onnxwire.ExternalDataError as error:
            refused += 1
            assert ("external_data contains" in str(error) and "twice" in str(error)) == (row in ambiguous)
        except onnxwire.TensorError:
            pass  # other rules report faults of data type, dims, or additional data
    assert refused >= 500


@pytest.mark.filterwarnings("ignore:Ignoring unknown external data key")
def test_the_last_entry_of_a_key_counts_as_in_the_official_reader(made, model):
    compared = 0
    for tensor, info in zip(made, onnxwire.tensors(model), strict=True):
        if tensor.is_external:
            try:
                official = external_data_helper.ExternalDataInfo(onnx.TensorProto.FromString(tensor.message()))
            except (ValueError, UnicodeError):
                continue
            if all(not tensor.given(key) or tensor.stated(key) is not None for key in ("offset", "length")):
                compared += 1
                assert (info.location or "") == official.location
                assert info.offset == (official.offset or 0) or not info.location
                assert official.length is None or info.nbytes == official.length
    assert compared >= 500


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2)])
def test_a_dim_of_zero_makes_an_empty_tensor_regardless_of_other_dims(order):
    dims = [0, 1 << 62, 1 << 62]
    tensor = onnxwire.TensorProto(data_type=1, dims=[dims[i] for i in order])
    assert [info.nbytes for info in onnxwire.tensors(tensor)] == [0]
    assert onnxwire.to_arrow(tensor, "tensors").to_pydict()["bytes"] == [0]


def test_an_empty_raw_data_beside_a_typed_field_is_not_the_payload():
    tensor = onnxwire.TensorProto(data_type=1, dims=[3], float_data=[1, 2, 3], raw_data=b"")
    assert tensor.numpy().tolist() == [1, 2, 3]
    assert [info.nbytes for info in onnxwire.tensors(tensor)] == [tensor.nbytes] == [12]
    assert onnxwire.to_arrow(tensor, "tensors").to_pydict()["bytes"] == [12]


def test_raw_data_of_an_external_tensor_is_not_the_payload():
    data = span(9, b"") + external("w.bin", 8, 12) + number(1, 3) + number(2, 1)
    tensor = onnxwire.TensorProto.FromString(data)
    assert [(info.nbytes, info.offset, info.location) for info in onnxwire.tensors(tensor)] == [(12, 8, "w.bin")]
    assert onnxwire.to_arrow(tensor, "tensors").to_pydict()["bytes"] == [12]
