"""Inconsistent and hostile tensors: reads raise errors with the fault and the path, and allocate little memory."""

from __future__ import annotations

import contextlib
import tracemalloc

import numpy as np
import onnx
import pytest
import stored_tensors
import wire
from budget import examples
from each import each
from hypothesis import given
from hypothesis import strategies as st

import onnxwire
from onnxwire import GraphProto, ModelProto, TensorProto
from onnxwire.errors import TensorError

DATA_TYPES = stored_tensors.DATA_TYPES
HUGE_DIM = 10**18  # elements
EXTERNAL = onnx.TensorProto.EXTERNAL


def external_entries(**pairs):
    """Return the entries of external_data for keys and values."""
    return [{"key": key, "value": str(value)} for key, value in pairs.items()]


# By fault: the fields of a tensor, then the words and numbers that the error's reason must contain.
DAMAGED_TENSORS = {
    "too few bytes": ({"data_type": DATA_TYPES["FLOAT"], "dims": [3, 5], "raw_data": bytes(59)}, "60", "59"),
    "too many bytes": ({"data_type": DATA_TYPES["FLOAT"], "dims": [3, 5], "raw_data": bytes(61)}, "60", "61"),
    "bytes of another type": ({"data_type": DATA_TYPES["INT64"], "dims": [15], "raw_data": bytes(60)}, "120", "60"),
    "no bytes for a scalar": ({"data_type": DATA_TYPES["DOUBLE"], "raw_data": b""}, "8", "0"),
    "bytes for no element": ({"data_type": DATA_TYPES["FLOAT"], "dims": [0, 7], "raw_data": bytes(4)}, "0", "4"),
    "no data": ({"data_type": DATA_TYPES["FLOAT"], "dims": [3, 5]}, "15"),
    "4-bit: an element too few": ({"data_type": DATA_TYPES["INT4"], "dims": [17], "raw_data": bytes(8)}, "9", "8"),
    "4-bit: a byte per element": ({"data_type": DATA_TYPES["UINT4"], "dims": [17], "raw_data": bytes(17)}, "9", "17"),
    "4-bit: a byte too many": ({"data_type": DATA_TYPES["FLOAT4E2M1"], "dims": [16], "raw_data": bytes(9)}, "8", "9"),
    "2-bit: an element too few": ({"data_type": DATA_TYPES["INT2"], "dims": [25], "raw_data": bytes(6)}, "7", "6"),
    "2-bit: a byte too many": ({"data_type": DATA_TYPES["UINT2"], "dims": [24], "raw_data": bytes(7)}, "6", "7"),
    "6-bit: a byte too few": ({"data_type": DATA_TYPES["FLOAT6E2M3"], "dims": [11], "raw_data": bytes(8)}, "9", "8"),
    "6-bit: padding to whole groups of four": (
        {"data_type": DATA_TYPES["FLOAT6E3M2"], "dims": [5], "raw_data": bytes(6)},
        "4",
        "6",
    ),
    "too few floats": (
        {"data_type": DATA_TYPES["FLOAT"], "dims": [3, 5], "float_data": [0] * 14},
        "15",
        "14",
        "float_data",
    ),
    "too many floats": (
        {"data_type": DATA_TYPES["FLOAT"], "dims": [3, 5], "float_data": [0] * 16},
        "15",
        "16",
        "float_data",
    ),
    "too few ints": ({"data_type": DATA_TYPES["INT8"], "dims": [15], "int32_data": [0] * 14}, "15", "14", "int32_data"),
    "too few halves": (
        {"data_type": DATA_TYPES["BFLOAT16"], "dims": [15], "int32_data": [0] * 8},
        "15",
        "8",
        "int32_data",
    ),
    "too many int64": ({"data_type": DATA_TYPES["INT64"], "int64_data": [0] * 2}, "1", "2", "int64_data"),
    "too few uint64": (
        {"data_type": DATA_TYPES["UINT32"], "dims": [5], "uint64_data": [0] * 4},
        "5",
        "4",
        "uint64_data",
    ),
    "too few strings": (
        {"data_type": DATA_TYPES["STRING"], "dims": [5], "string_data": [b"a"] * 4},
        "5",
        "4",
        "string_data",
    ),
    "an odd number of floats for complex numbers": (
        {"data_type": DATA_TYPES["COMPLEX64"], "dims": [5], "float_data": [0] * 9},
        "10",
        "9",
        "float_data",
    ),
    "one double per complex number": (
        {"data_type": DATA_TYPES["COMPLEX128"], "dims": [5], "double_data": [0] * 5},
        "10",
        "5",
        "double_data",
    ),
    "4-bit: an entry per element": ({"data_type": DATA_TYPES["INT4"], "dims": [17], "int32_data": [0] * 17}, "9", "17"),
    "4-bit: an entry too few": ({"data_type": DATA_TYPES["INT4"], "dims": [17], "int32_data": [0] * 8}, "9", "8"),
    "2-bit: two entries per byte": ({"data_type": DATA_TYPES["UINT2"], "dims": [17], "int32_data": [0] * 9}, "5", "9"),
    "6-bit: packed entries": (
        {"data_type": DATA_TYPES["FLOAT6E2M3"], "dims": [16], "int32_data": [0] * 12},
        "16",
        "12",
    ),
    "floats and bytes": (
        {"data_type": DATA_TYPES["FLOAT"], "dims": [1], "float_data": [1], "raw_data": bytes(4)},
        "float_data",
        "raw_data",
    ),
    "floats and ints": (
        {"data_type": DATA_TYPES["FLOAT"], "dims": [1], "float_data": [1], "int32_data": [1]},
        "float_data",
        "int32_data",
    ),
    "raw strings": ({"data_type": DATA_TYPES["STRING"], "dims": [1], "raw_data": b"a"}, "STRING", "raw_data"),
    "floats for ints": (
        {"data_type": DATA_TYPES["INT64"], "dims": [2], "float_data": [1, 2]},
        "int64_data",
        "float_data",
    ),
    "floats for halves": (
        {"data_type": DATA_TYPES["FLOAT16"], "dims": [1], "float_data": [1]},
        "int32_data",
        "float_data",
    ),
    "ints for unsigned": (
        {"data_type": DATA_TYPES["UINT32"], "dims": [1], "int32_data": [1]},
        "uint64_data",
        "int32_data",
    ),
    "doubles for floats": (
        {"data_type": DATA_TYPES["FLOAT"], "dims": [1], "double_data": [1]},
        "float_data",
        "double_data",
    ),
    "strings for bytes": (
        {"data_type": DATA_TYPES["UINT8"], "dims": [1], "string_data": [b"a"]},
        "int32_data",
        "string_data",
    ),
    "a negative dim": ({"data_type": DATA_TYPES["FLOAT"], "dims": [2, -1], "raw_data": bytes(8)}, "-1"),
    "negative dims whose product fits": (
        {"data_type": DATA_TYPES["INT8"], "dims": [-2, -2], "raw_data": bytes(4)},
        "-2",
    ),
    "dims beyond int64": ({"data_type": DATA_TYPES["INT8"], "dims": [1 << 32, 1 << 32], "raw_data": b""}, str(1 << 32)),
    "dims whose product wraps to 4": (
        {"data_type": DATA_TYPES["INT8"], "dims": [(1 << 62) + 1, 4], "raw_data": bytes(4)},
        "4",
    ),
    "bytes beyond int64": ({"data_type": DATA_TYPES["DOUBLE"], "dims": [1 << 61], "raw_data": bytes(8)}, str(1 << 61)),
    "bits beyond int64": ({"data_type": DATA_TYPES["INT4"], "dims": [1 << 62], "raw_data": bytes(8)}, str(1 << 62)),
    "dims beyond int64 beside a zero": (
        {"data_type": DATA_TYPES["INT8"], "dims": [0, 1 << 62, 1 << 62], "raw_data": b""},
    ),
    "more dims than arrays can have": ({"data_type": DATA_TYPES["INT8"], "dims": [1] * 65, "raw_data": b"a"}, "65"),
    "no data type": ({"dims": [1], "raw_data": bytes(4)}, "0"),
    "an unknown data type": ({"data_type": 29, "dims": [1], "raw_data": bytes(4)}, "29"),
    "a data type of 999": ({"data_type": 999, "dims": [1], "raw_data": bytes(4)}, "999"),
    "a negative data type": ({"data_type": -1, "dims": [1], "raw_data": bytes(4)}, "-1"),
    "the lowest data type of int32": ({"data_type": -(1 << 31), "dims": [1], "raw_data": bytes(4)}, str(-(1 << 31))),
    "bytes beside external ones": (
        {
            "data_type": DATA_TYPES["FLOAT"],
            "dims": [1],
            "raw_data": bytes(4),
            "data_location": EXTERNAL,
            "external_data": external_entries(location="w.bin"),
        },
        "raw_data",
        "EXTERNAL",
    ),
    "floats beside external ones": (
        {
            "data_type": DATA_TYPES["FLOAT"],
            "dims": [1],
            "float_data": [1],
            "data_location": EXTERNAL,
            "external_data": external_entries(location="w.bin"),
        },
        "float_data",
        "EXTERNAL",
    ),
    "external strings": (
        {
            "data_type": DATA_TYPES["STRING"],
            "dims": [1],
            "data_location": EXTERNAL,
            "external_data": external_entries(location="w.bin", length=4),
        },
        "STRING",
        "external",
    ),
    "external data without a location": (
        {"data_type": DATA_TYPES["FLOAT"], "dims": [1], "data_location": EXTERNAL},
        "location",
    ),
    "external data of a tensor without a file": (
        {
            "data_type": DATA_TYPES["FLOAT"],
            "dims": [1],
            "data_location": EXTERNAL,
            "external_data": external_entries(location="w.bin"),
        },
        "w.bin",
    ),
}
EVERY_DAMAGED_TENSOR = pytest.mark.parametrize(
    "fields, expected_words", [(row[0], row[1:]) for row in DAMAGED_TENSORS.values()], ids=DAMAGED_TENSORS
)


def parsed_and_built(fields):
    """Return a tensor parsed from bytes, and an equal one built in memory."""
    tensor = TensorProto(name="w0", **fields)
    return [TensorProto.FromString(tensor.SerializeToString()), tensor]


@EVERY_DAMAGED_TENSOR
def test_the_error_names_the_tensor_and_the_required_and_actual_contents(fields, expected_words):
    for tensor in parsed_and_built(fields):
        with pytest.raises(onnxwire.Error) as error_info:
            tensor.numpy()
        assert isinstance(error_info.value, onnxwire.TensorError)
        assert isinstance(error_info.value, ValueError)
        assert error_info.value.tensor == "w0"
        assert "'w0'" in str(error_info.value)
        assert "\n" not in str(error_info.value)
        for word in expected_words:
            is_number = word.lstrip("-").isdigit()
            reason = error_info.value.reason
            assert word in (stored_tensors.numbers_in(reason) if is_number else reason), reason


@EVERY_DAMAGED_TENSOR
def test_every_access_to_the_data_raises(fields, expected_words):
    for tensor in parsed_and_built(fields):
        reads = [np.asarray, np.from_dlpack, lambda tensor: tensor.read(...)]
        if len(tensor.dims) <= 64:  # arrays have at most 64 dimensions, but raw_view needs no array
            reads.append(lambda tensor: tensor.raw_view)
        for read in reads:
            with pytest.raises((onnxwire.TensorError, BufferError) if read is np.from_dlpack else onnxwire.TensorError):
                read(tensor)


def test_the_error_has_the_path_of_the_tensor(tmp_path):
    model = onnxwire.ModelProto()
    for name in ("good", "bad"):  # with 2 bytes and 1 byte for two elements
        model.graph.initializer.add(name=name, data_type=DATA_TYPES["INT8"], dims=[2], raw_data=b"ab"[: len(name) - 2])
    constant = model.graph.node.add(op_type="Constant").attribute.add(name="value")
    constant.t.CopyFrom(model.graph.initializer[1])
    path = tmp_path / "m.onnx"
    onnxwire.save(model, path)
    model = onnxwire.load(path)
    for tensor, field in [
        (model.graph.initializer[1], "graph.initializer[1]"),
        (model.graph.node[0].attribute[0].t, "graph.node[0].attribute[0].t"),
    ]:
        with pytest.raises(onnxwire.TensorError) as error_info:
            tensor.numpy()
        error = error_info.value
        assert (error.tensor, error.path, error.source) == ("bad", field, str(path))
        assert str(error).startswith(f"{path}: byte {error.offset:,}: {field}")
        assert 0 < error.offset < path.stat().st_size
    assert model.graph.initializer[0].numpy().tobytes() == b"ab"


# --- hostile bytes


def call_array_methods(tensor):
    """Call the methods and properties of a tensor that concern its elements.

    They may raise only onnxwire.Error, IndexError, and, for DLPack, BufferError.
    Returns the result or onnxwire.Error of each call in `calls`, and None for an IndexError.
    """
    calls = [
        lambda: tensor.shape,
        lambda: tensor.dtype,
        lambda: tensor.nbytes,
        lambda: tensor.raw_view,
        lambda: tensor.numpy(),
        lambda: tensor.numpy(packed=True),
        lambda: tensor.numpy(strings="bytes"),
        lambda: tensor.numpy(writable=True),
        lambda: tensor.read(()),
        lambda: tensor.read(slice(1, 3)),
        lambda: tensor.__array__(),
    ]
    results = []
    for call in calls:
        try:
            results.append(call())
        except onnxwire.Error as error:
            assert str(error)
            results.append(error)
        except IndexError:  # the tensor has rank 0
            results.append(None)
    with contextlib.suppress(onnxwire.Error, BufferError):
        tensor.__dlpack__(max_version=(1, 0))
    return results


def peak_bytes(function, *arguments):
    """Return the peak of the memory that Python traces during a call, in bytes."""
    tracemalloc.start()
    try:
        function(*arguments)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@each("name", DATA_TYPES)
@each(
    "dims",
    [[HUGE_DIM], [1 << 20, 1 << 20], [(1 << 63) - 1], [1 << 31, 1 << 31], [HUGE_DIM, 0], [1] * 63 + [HUGE_DIM]],
    ids=["big", "square", "2^63-1", "2^62", "a zero dim", "64 dims"],
)
def test_huge_dims_allocate_no_large_memory(name, dims):
    for data in (
        b"",
        wire.len_record(9, b"ab"),
        wire.varint_record(14, 1),
    ):  # nothing, raw_data, data_location EXTERNAL
        tensor = TensorProto.FromString(stored_tensors.TensorParts(DATA_TYPES[name], dims, []).message(data))
        call_array_methods(tensor)
        assert peak_bytes(call_array_methods, tensor) < 1 << 18
        if 0 not in dims:
            with pytest.raises(onnxwire.TensorError):
                tensor.numpy()


@given(
    wire.valid_wire(TensorProto.DESCRIPTOR, 2)
    | wire.malformed_wire(TensorProto.DESCRIPTOR)
    | wire.damaged_wire(TensorProto.DESCRIPTOR)
)
@examples(500)
def test_any_bytes_raise_only_errors_of_onnxwire(data):
    try:
        tensor = TensorProto.FromString(data)
    except onnxwire.DecodeError:
        return
    call_array_methods(tensor)


DATA_FIELDS = [f"{kind}_data" for kind in ("float", "int32", "string", "int64", "double", "uint64", "raw")]


@st.composite
def nearly_consistent_tensors(draw):
    """Draw an encoded TensorProto whose fields are consistent or nearly consistent."""
    data_type = draw(st.sampled_from([*DATA_TYPES.values(), 0, 29]))
    dims = draw(st.lists(st.sampled_from([0, 1, 2, 3, 7, 8, -1, 1 << 31, 1 << 62, -1 << 63]), max_size=3))
    tensor = TensorProto(data_type=data_type, dims=dims, name="w")
    n = draw(st.integers(0, 24))
    for field in draw(st.sets(st.sampled_from(DATA_FIELDS), max_size=2)):
        if field == "raw_data":
            tensor.raw_data = bytes(n)
        else:
            getattr(tensor, field).extend([b"" if field == "string_data" else 1] * n)
    if draw(st.integers(0, 3)) == 0:
        tensor.segment.begin, tensor.segment.end = draw(st.tuples(*[st.integers(-1, 9)] * 2))
    if draw(st.integers(0, 5)) == 0:
        tensor.data_location = EXTERNAL
    return tensor.SerializeToString()


def official_array(data):
    """Return the array that the official reader makes of an encoded tensor, or None if it raises."""
    try:
        return onnx.numpy_helper.to_array(onnx.TensorProto.FromString(data))
    except Exception:
        return None


@given(nearly_consistent_tensors())
@examples(1500)
def test_nearly_consistent_tensors_are_refused_or_read_as_officially(data):
    tensor = TensorProto.FromString(data)
    array = call_array_methods(tensor)[4]  # the result of numpy()
    assert peak_bytes(call_array_methods, tensor) < 1 << 18
    if isinstance(array, np.ndarray) and not tensor.HasField("segment"):
        stored_tensors.assert_same_array(array, official_array(data))


def test_the_path_of_each_of_many_errors_is_searched_from_the_last_error(monkeypatch):
    from onnxwire.engine import field_path

    reads = []
    read_record = field_path.read_record
    monkeypatch.setattr(field_path, "read_record", lambda *args: (reads.append(1), read_record(*args))[1])
    names = [f"w{i}" for i in range(200)]
    graph = GraphProto(initializer=[TensorProto(name=name, data_type=1, dims=[2], raw_data=b"1") for name in names])
    model = ModelProto.FromString(ModelProto(graph=graph).SerializeToString())

    def path_of(tensor):
        with pytest.raises(TensorError) as error_info:
            tensor.numpy()
        return error_info.value.path

    assert [path_of(tensor) for tensor in model.graph.initializer] == [f"graph.initializer[{i}]" for i in range(200)]
    assert len(reads) < 4 * len(names)  # searches from the first tensor would read about 20,000 records
    assert [path_of(model.graph.initializer[i]) for i in (7, 199, 8)] == [
        f"graph.initializer[{i}]" for i in (7, 199, 8)
    ]


@examples(100)
@given(data=wire.valid_wire(ModelProto.DESCRIPTOR, 4), rng=st.randoms())
def test_the_path_of_a_byte_does_not_depend_on_earlier_searches(data, rng):
    from onnxwire.engine.field_path import field_path

    document = ModelProto.FromString(data)._document
    for offset in rng.choices(range(len(data) + 1), k=30):
        assert field_path(document, offset) == field_path(ModelProto.FromString(data)._document, offset)


def test_the_path_of_a_deeply_nested_byte_is_found_from_the_last_searched_path(monkeypatch):
    from onnxwire.engine import field_path

    reads = []
    read_record = field_path.read_record
    monkeypatch.setattr(field_path, "read_record", lambda *args: (reads.append(1), read_record(*args))[1])
    graph = GraphProto(initializer=[{"name": f"w{i}", "data_type": 99} for i in range(20)])
    for _ in range(40):
        graph = GraphProto(node=[{"attribute": [{"g": graph}]}])
    model = ModelProto.FromString(ModelProto(graph=graph).SerializeToString())
    innermost_graph = model.graph
    while len(innermost_graph.node):
        innermost_graph = innermost_graph.node[0].attribute[0].g
    tensors = [*innermost_graph.initializer]
    for i, tensor in enumerate(tensors):
        with pytest.raises(TensorError) as error_info:
            tensor.numpy()
        assert error_info.value.path.startswith("graph.node[0].attribute[0].g.node[0]")
        assert error_info.value.path.endswith(f".g.initializer[{i}]") and "more)" in error_info.value.path
    # The innermost graph is in the model and 120 further messages: 40 nodes, 40 attributes and 40 graphs.
    assert len(reads) < 4 * (len(tensors) + 120)


def test_the_error_for_strings_in_a_field_of_numbers_names_string_data():
    tensor = TensorProto(data_type=DATA_TYPES["STRING"], dims=[1], int32_data=[1])
    with pytest.raises(TensorError, match="elements of STRING belong in string_data, not in int32_data"):
        tensor.numpy(strings="bytes")


@pytest.mark.parametrize("begin", [1, 3])
def test_a_chunk_that_does_not_continue_the_chunks_before_it_is_reported_with_both_numbers(begin):
    chunks = [
        TensorProto(
            data_type=DATA_TYPES["UINT8"], dims=[8], segment={"begin": start, "end": stop}, raw_data=bytes(size)
        )
        for start, stop, size in ((0, 2, 2), (begin, 8, 8 - begin))
    ]
    with pytest.raises(TensorError, match=f"begins at index {begin}, and the chunks before it have 2 elements"):
        onnxwire.join_segments(chunks)
