"""The layout of payloads: all readers agree with each other and with the official readers, for valid and damaged
tensors."""

import random
import re
from functools import cache

import numpy as np
import onnx
import pytest
from onnx import external_data_helper
from stored_tensors import BITS, external
from wire import len_record, varint, varint_record

import onnxwire
from onnxwire.viewer.map_columns import MapColumns
from onnxwire.viewer.queries import Queries

MAX_INT64 = (1 << 63) - 1
STRING = onnx.TensorProto.STRING
VALID_NUMBERS = ["0", "7", "0040", "4096", str(MAX_INT64), "0" * 30 + "8"]
# Texts that are not plain decimal numbers below 2**63.
INVALID_NUMBERS = ["-1", "+4", " 8", "8 ", "1_000", "٣", "0x10", "1.0", "", str(MAX_INT64 + 1), "9" * 40, "8\0"]
LOCATIONS = ["w.bin", "deep/w.bin", "", "é.bin"]
# Products of these dims are below, at or above the limit of 2**63 - 1 elements.
DIMS = [0, 1, 2, 3, 5, 7, 1000, 1 << 31, (1 << 31) + 1, 1 << 62, MAX_INT64, -1, -(1 << 63)]
SEGMENTS = [(0, 0), (0, 2), (1, 3), (2, 1), (-1, 2), (0, 1 << 62)]  # (begin, end)


class RandomTensor:
    """A random TensorProto as wire bytes, and the values of its fields.

    entries: the (key, value) pairs of external_data. raw: raw_data, or None if absent. strings: string_data.
    """

    def __init__(self, seed):
        rng = random.Random(seed)
        self.name = f"t{seed}"
        self.dims = rng.choices(DIMS if rng.random() < 0.4 else DIMS[:6], k=rng.randrange(5))
        unknown_types = [0, 29, 63, 64, 1000, -1]
        self.data_type = rng.choice([*BITS, *BITS, *BITS, STRING, *unknown_types])
        self.segment = rng.choice(SEGMENTS) if rng.random() < 0.1 else None
        self.is_external = rng.random() < 0.5
        self.entries = []
        # Each key is present up to two times, in any order, sometimes with an unknown key.
        for key, values in (
            ("location", LOCATIONS),
            ("offset", VALID_NUMBERS),
            ("length", VALID_NUMBERS),
            ("checksum", ["ab"]),
        ):
            for _ in range(rng.choice([0, 1, 1, 1, 1, 2])):
                self.entries.append((key, rng.choice(INVALID_NUMBERS if rng.random() < 0.2 else values)))
        self.entries += rng.choices([("basepath", "/"), ("Length", "9"), ("", "1")], k=rng.randrange(2))
        rng.shuffle(self.entries)
        if not self.is_external and rng.random() < 0.7:
            self.entries = []
        self.raw = rng.randbytes(rng.choice([0, 1, 4, 12, 40])) if rng.random() < 0.4 else None
        if self.raw is not None and rng.random() < 0.7 and 0 <= self.required_nbytes <= 10_000:
            self.raw = bytes(self.required_nbytes)
        self.strings = [b"x" * rng.randrange(4) for _ in range(rng.randrange(4))] if rng.random() < 0.3 else []

    @property
    def n_elements(self):
        """Return the number of stored elements: those of the segment if it is within the dims."""
        count = 1
        for dim in self.dims:
            count *= max(dim, 0)
        count = min(count, MAX_INT64)
        begin, end = self.segment or (0, count)
        return end - begin if 0 <= begin <= end <= count else count

    @property
    def is_excessive(self):
        """Return whether the dims describe more than 2**63 - 1 elements."""
        return 0 not in self.dims and all(dim > 0 for dim in self.dims) and np.prod(self.dims, dtype=object) > MAX_INT64

    @property
    def required_nbytes(self):
        """Return the size that dims, segment and data type require, in bytes, at most MAX_INT64.

        An element of an unknown data type counts as 8 bits.
        """
        if self.is_excessive and self.n_elements == MAX_INT64:
            return MAX_INT64
        return min((self.n_elements * BITS.get(self.data_type, 8) + 7) // 8, MAX_INT64)

    def values_of(self, key):
        """Return the values of a key in external_data."""
        return [value for name, value in self.entries if name == key]

    def last_number(self, key):
        """Return the number in a key's last entry, or None if the entry is absent or not a plain number."""
        values = self.values_of(key)
        return int(values[-1]) if values and values[-1] in VALID_NUMBERS else None

    @property
    def location(self):
        """Return the location of external data, or None."""
        return (self.values_of("location") or [""])[-1] or None if self.is_external else None

    @property
    def is_raw(self):
        """Return whether raw_data is the payload."""
        if self.raw is None or self.is_external:
            return False
        return (
            len(self.raw) > 0
            or (sum(map(len, self.strings)) if self.data_type == STRING else self.required_nbytes) == 0
        )

    @property
    def nbytes(self):
        """Return the size of the payload, by the rules in the docstring of `payload_layout`."""
        if self.is_external:
            length = self.last_number("length")
            return length if length is not None else 0 if self.data_type == STRING else self.required_nbytes
        if self.raw:
            return len(self.raw)
        return sum(map(len, self.strings)) if self.data_type == STRING else self.required_nbytes

    @cache  # noqa: B019
    def message(self):
        """Return the wire bytes.

        The field numbers are 1 dims, 2 data_type, 3 segment, 6 string_data, 8 name, 9 raw_data, 13 external_data and
        14 data_location.
        """
        dims = b"".join(varint(dim) for dim in self.dims)
        data = len_record(1, dims) if len(self.dims) % 2 else b"".join(varint_record(1, dim) for dim in self.dims)
        data += varint_record(2, self.data_type) + len_record(8, self.name.encode())
        data += b"".join(
            len_record(13, len_record(1, key.encode()) + (len_record(2, value.encode()) if value else b""))
            for key, value in self.entries
        )
        if self.segment:
            data += len_record(3, varint_record(1, self.segment[0]) + varint_record(2, self.segment[1]))
        if self.is_external:
            data += varint_record(14, 1)
        if self.raw is not None:
            data += len_record(9, self.raw)
        return data + b"".join(len_record(6, text) for text in self.strings)


@pytest.fixture(scope="module")
def random_tensors():
    return [RandomTensor(seed) for seed in range(5000)]


@pytest.fixture(scope="module")
def model(random_tensors):
    """Return a model with all tensors as initializers.

    The field numbers are 1 ir_version, 7 graph, 2 name and 5 initializer of the graph.
    """
    graph = b"".join(len_record(5, tensor.message()) for tensor in random_tensors)
    return onnxwire.ModelProto.FromString(
        varint_record(1, max(onnx.Version.values())) + len_record(7, len_record(2, b"g") + graph)
    )


def test_the_list_of_tensors_has_the_expected_sizes_and_offsets(random_tensors, model):
    for tensor, info in zip(random_tensors, onnxwire.tensors(model), strict=True):
        offset = None
        if tensor.location is not None:
            offset = tensor.last_number("offset") if tensor.values_of("offset") else 0
        assert (info.name, info.nbytes, info.location) == (tensor.name, tensor.nbytes, tensor.location), tensor.entries
        assert info.offset == offset or tensor.is_raw
        assert (info.offset is not None) == (offset is not None or tensor.is_raw)


def test_the_arrow_table_agrees_with_the_list_of_tensors(random_tensors, model):
    rows = onnxwire.to_arrow(model, "tensors").to_pydict()
    infos = onnxwire.tensors(model)
    assert rows["bytes"] == [info.nbytes for info in infos]
    assert rows["location"] == [info.location for info in infos]
    assert rows["offset"] == [info.offset for info in infos]
    assert rows["storage"] == ["external" if tensor.is_external else "inline" for tensor in random_tensors]
    lengths = [
        tensor.last_number("length") if tensor.is_external else len(tensor.raw) if tensor.is_raw else None
        for tensor in random_tensors
    ]
    assert rows["length"] == lengths


def test_an_edited_model_has_the_same_sizes(random_tensors, model):
    sizes = [info.nbytes for info in onnxwire.tensors(model)]
    edited_model = onnxwire.ModelProto()
    edited_model.CopyFrom(model)
    edited_model.producer_name = "edited"
    for tensor in edited_model.graph.initializer:
        tensor.doc_string = "edited"
    assert [info.nbytes for info in onnxwire.tensors(edited_model)] == sizes
    assert onnxwire.to_arrow(edited_model, "tensors").to_pydict()["bytes"] == sizes


def test_the_browser_page_agrees_with_the_list_of_tensors(random_tensors, model):
    sizes = [info.nbytes for info in onnxwire.tensors(model)]
    page = Queries(model)
    rows = [row for start in range(0, len(random_tensors), 100) for row in page.tensors(start=start)["rows"]]
    assert [row["bytes"] for row in rows] == sizes
    columns = MapColumns(model)
    assert sorted(columns.bytes[columns.is_weight]) == sorted(map(float, sizes))
    assert sorted(columns.parameters[columns.is_weight]) == sorted(
        float(tensor.n_elements) for tensor in random_tensors
    )


def test_readable_tensors_have_the_listed_size_and_the_official_shape(random_tensors, model):
    n_read = 0
    for tensor, info in zip(model.graph.initializer, onnxwire.tensors(model), strict=True):
        try:
            array = tensor.numpy(strings="bytes")
        except onnxwire.Error:
            continue
        n_read += 1
        assert info.nbytes == tensor.nbytes
        if tensor.data_type != STRING and not tensor.HasField("segment"):
            official = onnx.numpy_helper.to_array(onnx.TensorProto.FromString(tensor.SerializeToString()))
            assert official.shape == array.shape
    assert n_read >= 300


def find_problems(model, *rules):
    """Return the messages of problems of these rules, by the index of the initializer."""
    return {
        int(problem.path.split("[")[1].split("]")[0]): problem.message
        for problem in onnxwire.check(model, select=rules)
    }


def test_nbytes_is_the_size_that_check_requires(random_tensors, model):
    problems = find_problems(model, "external-length-matches-shape") | find_problems(
        model, *(f"tensor-raw-data-length{end}" for end in ("", "-4bit", "-2bit", "-6bit")), "tensor-segment-bounds"
    )
    n_compared = 0
    for row, (tensor, model_tensor) in enumerate(zip(random_tensors, model.graph.initializer, strict=True)):
        # Whether `check` can compare the length of the payload with the required size.
        has_length = tensor.raw and not tensor.strings and tensor.n_elements and not tensor.is_external
        if tensor.is_external and len(tensor.values_of("length")) == 1:
            has_length = tensor.last_number("length") is not None
        if tensor.data_type == STRING or not has_length:
            continue
        try:
            nbytes = model_tensor.nbytes
        except onnxwire.TensorError:
            continue  # other rules report faults of dims, segment and data type
        n_compared += 1
        assert (row in problems) == (nbytes != tensor.nbytes)
        assert row not in problems or re.search(rf"(?<![\d,]){nbytes:,}(?![\d,]\d)", problems[row])
    assert n_compared >= 1000


def test_check_reports_ambiguous_external_data_that_reading_refuses(random_tensors, model):
    ambiguity_problems = find_problems(model, "external-key-unique")
    format_problems = find_problems(model, "external-offset-format", "external-length-format")
    n_refused = 0
    for row, (tensor, model_tensor) in enumerate(zip(random_tensors, model.graph.initializer, strict=True)):
        keys = [key for key, _ in tensor.entries] if tensor.is_external else []
        assert (row in ambiguity_problems) == (len(keys) > len(set(keys)))
        values = [value for key, value in tensor.entries if key in ("offset", "length")] if tensor.is_external else []
        assert (row in format_problems) == any(value not in VALID_NUMBERS for value in values)
        try:
            model_tensor.numpy()
        except onnxwire.ExternalDataError as error:
            n_refused += 1
            is_ambiguous = "external_data contains" in str(error) and "more than once" in str(error)
            assert is_ambiguous == (row in ambiguity_problems)
        except onnxwire.TensorError:
            pass  # other rules report faults of data type, dims, or additional data
    assert n_refused >= 500


@pytest.mark.filterwarnings("ignore:Ignoring unknown external data key")
def test_the_last_entry_of_a_key_is_used_as_in_the_official_reader(random_tensors, model):
    n_compared = 0
    for tensor, info in zip(random_tensors, onnxwire.tensors(model), strict=True):
        if tensor.is_external:
            try:
                official = external_data_helper.ExternalDataInfo(onnx.TensorProto.FromString(tensor.message()))
            except (ValueError, UnicodeError):
                continue
            if all(not tensor.values_of(key) or tensor.last_number(key) is not None for key in ("offset", "length")):
                n_compared += 1
                assert (info.location or "") == official.location
                assert info.offset == (official.offset or 0) or not info.location
                assert official.length is None or info.nbytes == official.length
    assert n_compared >= 500


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


def test_empty_raw_data_of_an_external_tensor_is_not_the_payload():
    # The field numbers are 9 raw_data, 1 dims and 2 data_type.
    data = len_record(9, b"") + external("w.bin", 8, 12) + varint_record(1, 3) + varint_record(2, 1)
    tensor = onnxwire.TensorProto.FromString(data)
    assert [(info.nbytes, info.offset, info.location) for info in onnxwire.tensors(tensor)] == [(12, 8, "w.bin")]
    assert onnxwire.to_arrow(tensor, "tensors").to_pydict()["bytes"] == [12]
