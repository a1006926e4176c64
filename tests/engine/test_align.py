"""Alignment of payloads: their offsets in the file, the values that readers return, lengths, damage and errors."""

import importlib.util
import itertools
import os
import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
import wire
from everything import EVERYTHING, PAIRS
from hypothesis import example, given
from hypothesis import strategies as st
from onnx import numpy_helper

import onnxwire
from onnxwire.engine.align import align_payloads, aligned_pieces
from onnxwire.engine.document import Document
from onnxwire.engine.file_writer import FileWriter
from onnxwire.engine.write import write_pieces
from onnxwire.tensor.dtypes import PADDING_FIELD

EXAMPLE = Path(__file__).parents[2] / "examples" / "digits_cnn.onnx"
TENSORS = [(onnxwire.TensorProto, "raw_data", PADDING_FIELD)]  # the usual targets: see `align`
GIB = 1 << 30
UNUSED_FIELD = 50_001  # a field number that Everything does not have
needs_linux = pytest.mark.skipif(sys.platform != "linux", reason="needs sparse files")

# Field numbers of wire bytes in this module: 2 data_type, 8 name and 9 raw_data of a tensor; 1 name and 5 t of an
# attribute; 2 name and 5 initializer of a graph; 1 ir_version, 7 graph and 8 opset_import of a model; 10 one_bytes and
# 18 child of Everything.

MESSAGE_NAMES = ["TensorProto", "SparseTensorProto", "AttributeProto", "GraphProto", "ModelProto", "SequenceProto"]
# Name of a message → (onnxwire's class, official class).
MESSAGES = {name: (getattr(onnxwire, name), wire.official_class(f"onnx.{name}")) for name in MESSAGE_NAMES}
EVERY_MESSAGE = pytest.mark.parametrize("name", MESSAGES)
alignments = st.sampled_from([1, 2, 3, 8, 64, 100, 4096])  # bytes
thresholds = st.sampled_from([0, 1, 2, 5, 130])  # bytes


def align(data, alignment=64, threshold=1, cls=onnxwire.ModelProto, targets=TENSORS):
    """Align the payloads in an encoded message; return the new encoding.

    targets: a list of (class, name of the payload field, number of the padding field). Asserts that no two successive
    pieces are adjacent ranges of `data`, which could be one piece. A piece is bytes, or (offset, length) of a range.
    """
    total, pieces = align_payloads(Document(data), cls, targets, threshold, alignment)
    encoding = b"".join(part if isinstance(part, bytes) else data[part[0] : sum(part)] for part in pieces)
    assert len(encoding) == total
    ranges = [None if isinstance(part, bytes) else part for part in pieces]
    assert all(
        first is None or second is None or sum(first) != second[0] for first, second in itertools.pairwise(ranges)
    )
    return encoding


def payload_spans(message, cls=onnxwire.TensorProto, name="raw_data"):
    """Yield the (start, end) of the field `name` of each message of class `cls` in which the field is set.

    These messages are `message` itself and all messages in it.
    """
    if isinstance(message, cls) and message.HasField(name):
        yield message._payload(name).span
    for field in message.DESCRIPTOR.fields:
        if field.message_type is not None and (field.is_repeated or message.HasField(field.name)):
            value = getattr(message, field.name)
            for part in value if field.is_repeated else [value]:
                yield from payload_spans(part, cls, name)


def check_offsets(message, alignment, threshold, *target):
    """Assert that each non-empty payload of at least `threshold` bytes starts at a multiple of the alignment.

    target: the class and the name of the payload field.
    """
    for start, end in payload_spans(message, *target):
        assert start % alignment == 0 or end - start < max(threshold, 1)


def encode_known_fields(official, data):
    """Return the official encoding of the known fields of a message."""
    message = official.FromString(data)
    message.DiscardUnknownFields()
    return message.SerializeToString(deterministic=True)


def check_alignment(our_class, official_class, data, alignment, threshold, targets=TENSORS):
    """Align valid bytes and return the new encoding.

    Assert that the new encoding is valid and aligned, that its known fields are unchanged, and that a second alignment
    does not change it.
    """
    aligned_bytes = align(data, alignment, threshold, our_class, targets)
    onnxwire.verify(aligned_bytes, our_class)
    check_offsets(our_class.FromString(aligned_bytes), alignment, threshold, *targets[0][:2])
    assert encode_known_fields(official_class, aligned_bytes) == encode_known_fields(official_class, data)
    assert align(aligned_bytes, alignment, threshold, our_class, targets) == aligned_bytes
    return aligned_bytes


def model_with_tensor(data, number=5):
    """Return the encoding of a model with an encoded tensor. number: the number of the tensor's field in the graph."""
    return wire.len_record(7, wire.len_record(number, data))


# --- strategies of hypothesis


@st.composite
def tensors(draw):
    """Draw a float tensor, or a tensor of bytes with a short or long payload and name."""
    if draw(st.integers(0, 3)) == 0:
        return numpy_helper.from_array(np.arange(draw(st.integers(0, 40)), dtype=np.float32))
    raw = draw(st.binary(max_size=8) | st.sampled_from([b"x" * 126, b"y" * 128, bytes(4096), b"z" * 17000]))
    name = draw(st.sampled_from(["", "w", "n" * 130]))
    return onnx.TensorProto(name=name, data_type=onnx.TensorProto.UINT8, dims=[len(raw)], raw_data=raw)


@st.composite
def attributes(draw, depth):
    """Draw an attribute with tensors, with a sparse tensor, or, if `depth` is positive, with subgraphs."""
    name, kind = "a", draw(st.integers(0, 5 if depth else 3))
    if kind < 2:
        return onnx.AttributeProto(name=name, tensors=draw(st.lists(tensors(), max_size=2)), t=draw(tensors()))
    if kind < 4:
        return onnx.AttributeProto(name=name, sparse_tensor=draw(sparse_tensors()), ints=[1, 2])
    return onnx.AttributeProto(name=name, g=draw(graphs(depth - 1)), graphs=[draw(graphs(depth - 1))])


@st.composite
def sparse_tensors(draw):
    return onnx.SparseTensorProto(values=draw(tensors()), indices=draw(tensors()), dims=[3])


@st.composite
def nodes(draw, depth):
    node_attributes = draw(st.lists(attributes(depth), max_size=2))
    return onnx.NodeProto(op_type="Op", name=draw(st.sampled_from(["", "n" * 120])), attribute=node_attributes)


@st.composite
def graphs(draw, depth=2):
    """Draw a graph with at most `depth` levels of subgraphs."""
    return onnx.GraphProto(
        name="g",
        node=draw(st.lists(nodes(depth), max_size=2)),
        initializer=draw(st.lists(tensors(), max_size=4)),
        sparse_initializer=draw(st.lists(sparse_tensors(), max_size=1)),
    )


@st.composite
def models(draw):
    function = onnx.FunctionProto(name="f", node=draw(st.lists(nodes(1), max_size=2)))
    training = onnx.TrainingInfoProto(initialization=draw(graphs(1)), algorithm=draw(graphs(0)))
    return onnx.ModelProto(ir_version=8, graph=draw(graphs()), functions=[function], training_info=[training])


# --- valid bytes


@given(models(), alignments, thresholds)
def test_payloads_of_tensors_at_any_path_are_aligned(model, alignment, threshold):
    aligned_bytes = check_alignment(
        onnxwire.ModelProto, onnx.ModelProto, model.SerializeToString(), alignment, threshold
    )
    reloaded = onnx.ModelProto.FromString(aligned_bytes)
    for tensor, aligned_tensor in zip(model.graph.initializer, reloaded.graph.initializer, strict=True):
        np.testing.assert_array_equal(numpy_helper.to_array(aligned_tensor), numpy_helper.to_array(tensor))


@wire.needs_upb
@EVERY_MESSAGE
@given(data=st.data())
def test_valid_bytes_in_any_form_have_the_same_content_after_alignment(name, data):
    our_class, official_class = MESSAGES[name]
    encoded = data.draw(wire.valid_wire(our_class.DESCRIPTOR))
    check_alignment(our_class, official_class, encoded, data.draw(alignments), data.draw(thresholds))
    # Without padding only the varints of lengths differ, so that even unknown fields have the same bytes.
    unpadded = align(encoded, 1, 1, our_class)
    assert (
        official_class.FromString(unpadded).SerializeToString()
        == official_class.FromString(encoded).SerializeToString()
    )


@wire.needs_upb
@given(wire.valid_wire(EVERYTHING.DESCRIPTOR), alignments, thresholds)
def test_nested_messages_of_one_type_are_aligned(data, alignment, threshold):
    check_alignment(*PAIRS["test.Everything"], data, alignment, threshold, [(EVERYTHING, "one_bytes", UNUSED_FIELD)])


@given(models(), st.sampled_from([8, 64, 4096]))
def test_alignment_of_an_aligned_document_returns_one_piece(model, alignment):
    aligned_bytes = align(model.SerializeToString(), alignment)
    total, pieces = align_payloads(Document(aligned_bytes), onnxwire.ModelProto, TENSORS, 1, alignment)
    assert (total, pieces) == (len(aligned_bytes), [(0, len(aligned_bytes))])


@given(models(), st.sampled_from([8, 64]), st.sampled_from([1, 64, 512]))
def test_padding_of_earlier_alignments_is_removed(model, alignment, previous_alignment):
    encoded = model.SerializeToString()
    expected = align(encoded, alignment)
    assert align(align(encoded, previous_alignment), alignment) == expected
    # The official runtime writes unknown fields after all others.
    rewritten = onnx.ModelProto.FromString(align(encoded, previous_alignment)).SerializeToString()
    assert align(rewritten, alignment) == expected


def test_padding_fills_a_gap_of_any_size():
    for n in range(300):
        tensor = onnx.TensorProto(name="n" * n, raw_data=b"payload")
        aligned_bytes = check_alignment(onnxwire.TensorProto, onnx.TensorProto, tensor.SerializeToString(), 256, 1)
        # The shortest padding has four bytes. A gap of one to three bytes is filled with 256 bytes more.
        assert 0 <= len(aligned_bytes) - tensor.ByteSize() < 256 + 4


def test_paddings_of_about_64_kib_and_more_are_made():
    tensor = onnx.TensorProto(name="n", raw_data=b"payload").SerializeToString()
    for alignment in (1 << 16, 1 << 21, 3_000_001):
        aligned_bytes = check_alignment(onnxwire.TensorProto, onnx.TensorProto, tensor, alignment, 1)
        assert alignment < len(aligned_bytes) < alignment + 20


def test_only_the_last_value_of_a_field_is_aligned():
    first_record, last_record = wire.len_record(9, b"dead weight"), wire.len_record(9, b"value")
    for data in (
        first_record + last_record,
        wire.len_record(8, b"name") + first_record + wire.varint_record(2, 2) + last_record,
    ):
        aligned_bytes = check_alignment(onnxwire.TensorProto, onnx.TensorProto, data, 64, 1)
        assert aligned_bytes.index(b"value") == 64
        assert len(aligned_bytes) == 64 + len(b"value")
    # The last value has 5 bytes, less than the threshold of 6, so no payload is aligned.
    assert align(first_record + last_record, 64, 6, onnxwire.TensorProto) == first_record + last_record


def test_the_last_payload_of_a_merged_tensor_is_aligned():
    parts = [wire.len_record(5, wire.len_record(9, payload)) for payload in (b"first", b"second")]
    attribute = parts[0] + wire.len_record(1, b"name") + parts[1]
    aligned_bytes = check_alignment(onnxwire.AttributeProto, onnx.AttributeProto, attribute, 64, 1)
    assert aligned_bytes.index(b"second") % 64 == 0


def test_a_field_of_another_wire_type_is_not_a_payload():
    data = wire.varint_record(9, 1) + wire.group(9, wire.len_record(9, b"in a group")) + wire.group(PADDING_FIELD)
    assert align(data, 64, 1, onnxwire.TensorProto) == data


def test_messages_without_long_payloads_are_not_changed():
    # The first record is an opset_import with an empty domain. The varint of its length takes three bytes.
    short_record = model_with_tensor(wire.len_record(9, bytes(100)))
    data = wire.len_record(8, b"\x0a\x00", pad=2) + short_record + model_with_tensor(wire.len_record(9, bytes(101)))
    aligned_bytes = align(data, 64, 101)
    assert aligned_bytes.startswith(data[: data.index(short_record) + len(short_record)])
    assert align(data, 64, 102) == data


@EVERY_MESSAGE
def test_an_empty_message_stays_empty(name):
    assert align_payloads(Document(b""), MESSAGES[name][0], TENSORS, 1, 64) == (0, [])


# --- readers of aligned files


def test_onnxruntime_runs_an_aligned_model():
    runtime = pytest.importorskip("onnxruntime")
    original = EXAMPLE.read_bytes()
    aligned_bytes = check_alignment(onnxwire.ModelProto, onnx.ModelProto, original, 4096, 1)
    assert len(list(payload_spans(onnxwire.ModelProto.FromString(aligned_bytes)))) > 4
    image = np.random.default_rng(0).random((3, 1, 8, 8), dtype=np.float32)
    results = []
    for data in (original, aligned_bytes):
        session = runtime.InferenceSession(data, providers=["CPUExecutionProvider"])
        results.append(session.run(None, {session.get_inputs()[0].name: image}))
    for original_output, aligned_output in zip(*results, strict=True):
        np.testing.assert_array_equal(original_output, aligned_output)


def test_the_checker_in_c_plus_plus_accepts_an_aligned_model():
    onnx.checker.check_model(align(EXAMPLE.read_bytes()), full_check=True)


def test_the_python_implementation_of_protobuf_reads_an_aligned_model(tmp_path):
    path = tmp_path / "model.onnx"
    path.write_bytes(align(EXAMPLE.read_bytes()))
    code = (
        "import sys, onnx; from google.protobuf.internal import api_implementation\n"
        "aligned, original = (onnx.load(path) for path in sys.argv[1:]); aligned.DiscardUnknownFields()\n"
        "print(api_implementation.Type(), aligned == original, len(aligned.graph.initializer))"
    )
    environment = {**os.environ, "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION": "python"}
    command = [sys.executable, "-c", code, path, EXAMPLE]
    process = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert process.stdout.split() == ["python", "True", str(len(onnx.load(EXAMPLE).graph.initializer))]


# --- damage


@wire.needs_upb
@EVERY_MESSAGE
@given(data=st.data())
def test_damaged_bytes_raise_decode_error_or_keep_their_damage(name, data):
    our_class, official_class = MESSAGES[name]
    damaged = data.draw(wire.malformed_wire(our_class.DESCRIPTOR, 2) | wire.damaged_wire(our_class.DESCRIPTOR))
    try:
        aligned_bytes = align(damaged, data.draw(alignments), data.draw(thresholds), our_class)
    except onnxwire.DecodeError:
        assert not wire.official_accepts(official_class, damaged)
    else:
        assert wire.official_accepts(official_class, aligned_bytes) is wire.official_accepts(official_class, damaged)


@given(st.binary(max_size=30))
@example(b"\x3a\xff\xff\xff\xff\x7f")  # field 7 with a length of 2^35 - 1
@example(b"\x4a" + b"\xff" * 9 + b"\x01")  # field 9 with a length of 2^64 - 1
def test_bytes_of_any_kind_raise_decode_error_or_are_aligned(data):
    for our_class, _ in MESSAGES.values():
        try:
            align(data, cls=our_class)
        except onnxwire.DecodeError as error:
            assert 0 <= error.offset <= len(data)


@given(models(), st.data())
def test_a_truncated_model_raises_decode_error_or_is_aligned(model, data):
    encoded = model.SerializeToString()
    truncated = encoded[: data.draw(st.integers(0, len(encoded)))]
    if wire.accepts(onnxwire.ModelProto, truncated):
        check_alignment(onnxwire.ModelProto, onnx.ModelProto, truncated, 64, 1)
    else:
        with pytest.raises(onnxwire.DecodeError):
            align(truncated)


def test_damage_is_named_with_its_offset():
    tensor = wire.len_record(9, b"valid") + b"\x42\x05ab"  # a name of 5 bytes, of which 2 are present
    data = wire.varint_record(1, 8) + wire.len_record(7, wire.len_record(5, b"") + wire.len_record(5, tensor))
    with pytest.raises(onnxwire.DecodeError, match=r"byte 15: graph\.initializer\[1\]\.name: length 5 of field 8"):
        align(data)


def test_messages_nest_at_most_100_deep_as_in_the_official_runtime():
    targets = [(EVERYTHING, "one_bytes", PADDING_FIELD)]
    data = wire.len_record(10, b"payload")
    for depth in range(103):
        if depth <= 100:
            assert align(data, cls=EVERYTHING, targets=targets).index(b"payload") % 64 == 0
        else:
            with pytest.raises(onnxwire.DecodeError, match="nested more than 100 deep"):
                align(data, cls=EVERYTHING, targets=targets)
        assert wire.official_accepts(PAIRS["test.Everything"][1], data) is (depth <= 100)
        data = wire.len_record(18, data)


# --- beyond 4 and 32 GiB


def write_aligned(path, target_path, alignment, threshold):
    """Align a file's model into another file, which has the same holes. Return the pieces."""
    with onnxwire.load(path) as model:
        total, pieces = aligned_pieces(model._document, onnxwire.ModelProto, TENSORS, threshold, alignment)
        with open(target_path, "wb") as file:
            writer = FileWriter(file.fileno(), fresh=True)
            write_pieces(writer, pieces)
            writer.seek(total)
            writer.finish()
    assert target_path.stat().st_size == total
    return pieces


def check_large_file(path, target_path, alignment, threshold):
    """Align the model of a file into another file and check the result, without reading the payloads.

    Returns the (start, end) of each payload in the other file.
    """
    pieces = write_aligned(path, target_path, alignment, threshold)
    assert sum(len(part) for part in pieces if isinstance(part, bytes)) < 64 << 20  # 64 MiB of new or copied bytes
    onnxwire.verify(target_path)
    with onnxwire.load(path) as original, onnxwire.load(target_path) as aligned_model:
        spans = list(payload_spans(aligned_model))
        check_offsets(aligned_model, alignment, threshold)
        assert [end - start for start, end in spans] == [end - start for start, end in payload_spans(original)]
        realigned_pieces = align_payloads(aligned_model._document, onnxwire.ModelProto, TENSORS, threshold, alignment)
        assert realigned_pieces == (target_path.stat().st_size, [(0, target_path.stat().st_size)])
    return spans


@needs_linux
def test_a_model_above_4_gib_is_aligned_without_reading_its_weights(tmp_path):
    specification = importlib.util.spec_from_file_location("make_big_model", EXAMPLE.with_name("make_big_model.py"))
    example = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(example)
    example.write_model(tmp_path / "big.onnx")
    peak_before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    spans = check_large_file(tmp_path / "big.onnx", tmp_path / "aligned.onnx", 4096, 1024)
    assert spans[-1][0] > 4 * GIB
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < peak_before + 20_000  # kilobytes


def write_sparse(path, n_bytes):
    """Write a model with one weight of `n_bytes` zeros, which are a hole in the file."""
    tensor = wire.len_record(8, b"big") + wire.tag(9, wire.LEN) + wire.varint(n_bytes)
    graph = wire.tag(5, wire.LEN) + wire.varint(len(tensor) + n_bytes) + tensor
    graph_end = wire.len_record(2, b"name")
    file_start = (
        wire.varint_record(1, 8) + wire.tag(7, wire.LEN) + wire.varint(len(graph) + n_bytes + len(graph_end)) + graph
    )
    with open(path, "wb") as file:
        file.write(file_start)
        file.seek(n_bytes, os.SEEK_CUR)
        file.write(graph_end)


@needs_linux
def test_lengths_around_32_gib_have_five_or_six_bytes_as_readers_require(tmp_path):
    # A length of 32 GiB or more needs six bytes; readers reject a smaller length that is encoded in six bytes.
    path, target_path = tmp_path / "big.onnx", tmp_path / "aligned.onnx"
    size_differences = set()
    for missing_bytes in range(200):
        write_sparse(path, 32 * GIB - missing_bytes)
        [(start, end)] = check_large_file(path, target_path, 64, 1024)
        assert (start % 64, end - start) == (0, 32 * GIB - missing_bytes)
        size_differences.add(target_path.stat().st_size - path.stat().st_size)
    # Where the shortest padding would make a length fit in five bytes instead of six, a longer padding is used.
    assert max(size_differences) > 64 + 20


# --- invalid arguments


@pytest.mark.parametrize("alignment", [0, (1 << 30) + 1])
def test_an_alignment_outside_of_1_byte_to_1_gib_raises_an_error(alignment):
    with pytest.raises(onnxwire.errors.FieldValueError, match=f"alignment {alignment}"):
        align(b"", alignment)


@pytest.mark.parametrize(
    ("cls", "name", "number"),
    [
        (onnxwire.TensorProto, "no_such_field", PADDING_FIELD),
        (onnxwire.TensorProto, "name", PADDING_FIELD),  # a str
        (onnxwire.TensorProto, "string_data", PADDING_FIELD),  # repeated
        (onnxwire.TensorProto, "raw_data", 16),  # the number of another field
        (onnxwire.TensorProto, "raw_data", 0),
        (onnxwire.TensorProto, "raw_data", 1 << 29),
        (onnxwire.TensorProto, "raw_data", 19_500),  # reserved by protobuf
        (EVERYTHING, "one_bytes", PADDING_FIELD),  # another schema
    ],
)
def test_an_invalid_target_is_rejected(cls, name, number):
    with pytest.raises(onnxwire.errors.FieldValueError):
        align(b"", targets=[(cls, name, number)])


def test_two_targets_of_one_class_are_rejected():
    with pytest.raises(onnxwire.errors.FieldValueError, match="expected one"):
        align(b"", targets=[*TENSORS, (onnxwire.TensorProto, "raw_data", PADDING_FIELD + 1)])


def test_a_closed_document_raises_closed_error():
    document = Document(b"")
    document.close()
    with pytest.raises(onnxwire.ClosedError):
        align_payloads(document, onnxwire.ModelProto, TENSORS, 1, 64)


def test_a_document_can_be_closed_after_its_alignment():
    document = Document(EXAMPLE.read_bytes())
    aligned_pieces(document, onnxwire.ModelProto, TENSORS, 1, 64)
    document.close()
