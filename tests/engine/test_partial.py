"""On documents with missing pages, each operation has the same result as on the complete document.

Access to a page that is not resident ends the process, so these tests detect a read without a fetch.
"""

from __future__ import annotations

import errno
import io
import pickle
from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
from partial_documents import Source, partial_document
from wire import len_record, varint

import onnxwire as ow
from onnxwire.checker import check
from onnxwire.engine import record_reader
from onnxwire.engine.damage import decode_error_at
from onnxwire.engine.message import root_view
from onnxwire.engine.verify import verify_document
from onnxwire.errors import ClosedError, SourceError

# A value of this size or more that is not a message is fetched only when it is read, except its first and last page.
LONG_BYTES = 1 << 16


@cache
def model_bytes() -> bytes:
    """Return the bytes of a model with long values of many kinds, and short values between them.

    The data types of its tensors are 1 FLOAT, 6 INT32, 7 INT64, 8 STRING, 9 BOOL and 22 INT4.
    """
    rng = np.random.default_rng(3)
    model = ow.ModelProto(ir_version=9, producer_name="p", doc_string="d" * (LONG_BYTES + 5))
    model.opset_import.add(version=17)
    graph = model.graph
    graph.name = "graph"
    graph.input.add(name="x").type.tensor_type.elem_type = 1
    tensors = [
        ow.from_array(rng.standard_normal(3 * LONG_BYTES).astype(np.float32), "raw"),
        ow.TensorProto(
            name="floats", data_type=1, dims=[LONG_BYTES], float_data=rng.standard_normal(LONG_BYTES).tolist()
        ),
        ow.TensorProto(
            name="ints", data_type=7, dims=[LONG_BYTES], int64_data=rng.integers(-9, 1 << 40, LONG_BYTES).tolist()
        ),
        ow.TensorProto(
            name="small ints", data_type=6, dims=[LONG_BYTES], int32_data=rng.integers(0, 99, LONG_BYTES).tolist()
        ),
        ow.TensorProto(name="strings", data_type=8, dims=[3], string_data=[b"a", b"b" * (LONG_BYTES + 1), b"c"]),
        ow.from_array(np.arange(5), "short"),
        ow.TensorProto(name="nibbles", data_type=22, dims=[4 * LONG_BYTES], raw_data=rng.bytes(2 * LONG_BYTES)),
        ow.TensorProto(name="truths", data_type=9, dims=[2 * LONG_BYTES], raw_data=bytes(2 * LONG_BYTES)),
    ]
    for tensor in tensors:
        graph.initializer.append(tensor)
    for i in range(200):
        node = graph.node.add(op_type="Relu", name=f"n{i}", input=["x" if i == 0 else f"y{i - 1}"], output=[f"y{i}"])
        if i == 100:
            node.op_type = "Constant"
            del node.input[:]
            node.attribute.add(name="value", type="TENSOR").t.CopyFrom(tensors[0])
            node.attribute.add(name="value_ints", type="INTS", ints=range(LONG_BYTES))
            node.attribute.add(name="value_floats", type="FLOATS", floats=[0.5] * LONG_BYTES)
            node.attribute.add(name="value_strings", type="STRINGS", strings=[b"s" * (2 * LONG_BYTES), b"t"])
            node.attribute.add(name="text", type="STRING", s=b"u" * (2 * LONG_BYTES))
        if i == 150:
            branch = node.attribute.add(name="then_branch", type="GRAPH").g
            branch.name = "inner"
            branch.initializer.append(tensors[0])
            branch.node.add(op_type="Relu", input=["raw"], output=["z"])
    graph.output.add(name="y199").type.tensor_type.elem_type = 1
    function = model.functions.add(name="f", domain="local", doc_string="e" * 2 * LONG_BYTES)
    function.node.add(op_type="Identity", input=["a"], output=["b"])
    data = model.SerializeToString()
    # The tags are the start and the end of a group of field 100. The last record is a second producer_name.
    unknown_group = b"\xa3\x06" + len_record(3, b"g" * 2 * LONG_BYTES) + b"\xa4\x06"
    return data + len_record(77, b"unknown" * LONG_BYTES) + unknown_group + len_record(2, b"q")


def complete_model() -> ow.ModelProto:
    """Return a model whose bytes are all in memory."""
    return ow.ModelProto.FromString(model_bytes())


def partial_model(data: bytes | None = None) -> ow.ModelProto:
    """Return a model in partial memory; its long values are not resident. data: its bytes; default: model_bytes()."""
    return root_view(partial_document(model_bytes() if data is None else data), ow.ModelProto)


def save_to_bytes(model: ow.ModelProto, **options: object) -> bytes:
    """Save a model to a stream; return its bytes."""
    file = io.BytesIO()
    ow.save(model, file, **options)
    return file.getvalue()


def edit_model(model: ow.ModelProto) -> ow.ModelProto:
    """Edit short and long values of a model; return the model."""
    model.graph.node[7].name = "another"
    model.graph.initializer[1].float_data[3] = 2.0
    del model.graph.initializer[5]
    model.graph.initializer.append(model.graph.initializer[0])
    return model


def merge_and_encode(model: ow.ModelProto) -> bytes:
    """Merge a model and its graph into a new model; return the encoding of the new model."""
    target = ow.ModelProto()
    target.MergeFrom(model)
    target.graph.MergeFrom(model.graph)
    return target.SerializeToString()


def encode_copied_graph(model: ow.ModelProto) -> bytes:
    graph = ow.GraphProto()
    graph.CopyFrom(model.graph)
    return graph.SerializeToString()


def encode_without_unknown_fields(model: ow.ModelProto) -> bytes:
    model.DiscardUnknownFields()
    return model.SerializeToString()


def arrow_rows(model: ow.ModelProto) -> list[object]:
    """Return the rows of seven Arrow tables of a model."""
    pyarrow = pytest.importorskip("pyarrow")
    names = ("nodes", "attributes", "values", "tensors", "metadata", "functions", "model")
    return [pyarrow.table(ow.to_arrow(model, name)).to_pylist() for name in names]


OPERATIONS: dict[str, Callable[[ow.ModelProto], object]] = {
    "fields": lambda model: (model.producer_name, model.doc_string, model.graph.name, model.functions[0].doc_string),
    "repr": repr,
    "arrays": lambda model: [tensor.numpy().tolist() for tensor in model.graph.initializer if tensor.data_type != 8],
    "strings": lambda model: list(model.graph.initializer[4].string_data),
    "raw_data": lambda model: [tensor.raw_data for tensor in model.graph.initializer],
    "parts": lambda model: [
        tensor.read(slice(5, -5)).tolist() for tensor in model.graph.initializer if tensor.data_type != 8
    ],
    "lengths": lambda model: [
        (len(tensor.float_data), len(tensor.int64_data), len(tensor.raw_data)) for tensor in model.graph.initializer
    ],
    "numbers": lambda model: [(tensor.float_data[-1:], tensor.int64_data[5:9]) for tensor in model.graph.initializer],
    "attributes": lambda model: [
        (attribute.name, attribute.s, list(attribute.ints), list(attribute.floats), list(attribute.strings))
        for attribute in model.graph.node[100].attribute
    ],
    "subgraph": lambda model: model.graph.node[150].attribute[0].g.initializer[0].numpy().sum(),
    "encoding": lambda model: model.SerializeToString(),
    "deterministic": lambda model: model.SerializeToString(deterministic=True),
    "size": lambda model: (model.ByteSize(), model.graph.ByteSize()),
    "encoding of a part": lambda model: model.graph.node[100].SerializeToString(),
    "unknown fields": lambda model: model._unknown_fields(),
    "edits": lambda model: edit_model(model).SerializeToString(),
    "edits, deterministic": lambda model: edit_model(model).SerializeToString(deterministic=True),
    "size of edits": lambda model: edit_model(model).ByteSize(),
    "save": save_to_bytes,
    "save of edits": lambda model: save_to_bytes(edit_model(model)),
    "save deterministically": lambda model: save_to_bytes(edit_model(model), deterministic=True),
    "save aligned": lambda model: save_to_bytes(model, inline_align=4096),
    "save of edits, aligned": lambda model: save_to_bytes(edit_model(model), inline_align=4096),
    "equality": lambda model: (
        model == complete_model(),
        complete_model() == model,
        model == edit_model(complete_model()),
    ),
    "copy": lambda model: ow.ModelProto.FromString(model.__deepcopy__().SerializeToString()) == complete_model(),
    "copy of a part": encode_copied_graph,
    "merge": merge_and_encode,
    "unknown fields discarded": encode_without_unknown_fields,
    "tensors": lambda model: list(ow.tensors(model)),
    "check": lambda model: [str(problem) for problem in check(model)],
    "text": ow.to_text,
    "str": str,
    "json": ow.to_json,
    "tables": arrow_rows,
    "diff": lambda model: [str(difference) for difference in ow.diff(model, edit_model(complete_model()))],
    "statistics": lambda model: [ow.measure(tensor) for tensor in model.graph.initializer if tensor.data_type != 8],
    "extract": lambda model: ow.extract(model, [], ["y149"]).SerializeToString(),
}


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)
def test_an_operation_has_the_same_result_as_on_the_complete_document(operation) -> None:
    assert operation(partial_model()) == operation(complete_model())


def message_with_long_values(cls: type[ow.Message]) -> ow.Message:
    """Return a message with two or more long values in every field whose type is not a message."""
    message = cls()
    for field in cls.DESCRIPTOR.fields:
        if field.type in (field.TYPE_STRING, field.TYPE_BYTES):
            values = [
                letter * LONG_BYTES for letter in (("s", "t") if field.type == field.TYPE_STRING else (b"b", b"c"))
            ]
        else:
            values = [1, 2] * LONG_BYTES if field.type != field.TYPE_ENUM else [1] * LONG_BYTES
        if field.message_type is None and field.is_repeated:
            getattr(message, field.name).extend(values)
        elif field.message_type is None:
            setattr(message, field.name, values[0])
    return message


@pytest.mark.parametrize(
    "operation", [check, ow.to_text, ow.to_json, ow.Message.SerializeToString], ids=lambda operation: operation.__name__
)
@pytest.mark.parametrize("cls", ow.messages.SCHEMA.messages.values(), ids=ow.messages.SCHEMA.messages)
def test_long_values_of_any_field_are_fetched(cls, operation) -> None:
    data = message_with_long_values(cls).SerializeToString()
    if not data:
        pytest.skip("every field is a message")
    results = []
    for message in (root_view(partial_document(data), cls), cls.FromString(data)):
        result = operation(message)
        results.append([str(problem) for problem in result] if operation is check else result)
    assert results[0] == results[1]


@pytest.mark.parametrize("cls", [ow.SequenceProto, ow.OptionalProto], ids=lambda cls: cls.__name__)
def test_a_long_message_inside_a_message_of_its_type_is_fetched(cls) -> None:
    field = cls.DESCRIPTOR.fields_by_name["sequence_values" if cls is ow.SequenceProto else "optional_value"]
    part = len_record(99, b"u" * 30_000) * 3  # unknown fields
    data = len_record(field.number, part + len_record(1, b"a")) + len_record(field.number, part)
    messages = root_view(partial_document(data), cls), cls.FromString(data)
    for read in (
        lambda message: message == cls.FromString(data),
        lambda message: message == root_view(partial_document(data), cls),
        lambda message: pickle.dumps(getattr(message, field.name)[0] if field.is_repeated else message.optional_value),
    ):
        assert read(messages[0]) == read(messages[1])


@pytest.mark.parametrize("function", [ow.rename_values, ow.rename_nodes], ids=lambda function: function.__name__)
def test_long_strings_that_are_not_resident_are_no_names(function) -> None:
    model = ow.ModelProto(ir_version=9)
    model.graph.node.add(name="n", op_type="Relu", input=["x"], output=["n"])
    model.graph.node.add(op_type="Relu", input=["n"], output=["z"], doc_string="d" * (LONG_BYTES + 5000))
    partial = root_view(partial_document(model.SerializeToString()), ow.ModelProto)
    assert function(partial, {"n": "new"}) == function(model, {"n": "new"})
    assert partial == model


@pytest.mark.parametrize(
    "read",
    [
        lambda tensor: tensor.numpy(),
        lambda tensor: memoryview(tensor.raw_view),
        lambda tensor: record_reader.read_record(tensor._document, LONG_BYTES, 3 * LONG_BYTES),
        lambda tensor: record_reader.read_varint_at(tensor._document, LONG_BYTES, 3 * LONG_BYTES),
        lambda tensor: decode_error_at(tensor._document, LONG_BYTES, 3 * LONG_BYTES),
    ],
    ids=["numpy", "raw_view", "read_record", "read_varint_at", "decode_error_at"],
)
def test_a_document_can_not_be_closed_during_a_fetch(read) -> None:
    tensor = ow.TensorProto(data_type=1, dims=[LONG_BYTES], raw_data=b"\n\3ab" * LONG_BYTES)
    document = partial_document(tensor.SerializeToString())
    source = document.memory.source
    tensor = root_view(document, ow.TensorProto)
    copy = ow.TensorProto()
    copy.CopyFrom(tensor)
    errors = []

    def close() -> None:
        source.on_fetch = lambda: None
        try:
            tensor._document.close()
        except ow.InUseError as error:
            errors.append(error)

    source.on_fetch = close
    read(tensor)
    assert errors


def test_raw_view_of_a_long_value_has_its_length() -> None:
    assert len(partial_model().graph.initializer[0].raw_view) == 12 * LONG_BYTES


@pytest.mark.parametrize("operation", ["repr", "size"])
def test_operations_that_need_no_long_value_fetch_no_long_value(operation) -> None:
    model = partial_model()
    OPERATIONS[operation](model)
    assert model._document.memory.resident < len(model_bytes()) // 4


def test_the_first_access_fetches_no_long_values() -> None:
    model = partial_model()
    assert [node.name for node in model.graph.node] == [f"n{i}" for i in range(200)]
    assert next(iter(model.graph.initializer)).name == "raw"
    # Short values, numbers that are not packed, and the first and last page of long values are resident.
    assert model._document.memory.resident < len(model_bytes()) // 6


def test_verify_fetches_only_the_bytes_that_it_checks() -> None:
    document = partial_document(model_bytes())
    verify_document(document, ow.ModelProto)
    assert document.memory.resident < len(model_bytes()) // 4
    data = model_bytes()
    offset = data.index(b"ints") + 20
    damaged_data = data[:offset] + b"\xff" * 20 + data[offset + 20 :]
    with pytest.raises(ow.DecodeError) as partial_error:
        verify_document(partial_document(damaged_data), ow.ModelProto)
    with pytest.raises(ow.DecodeError) as complete_error:
        ow.verify(damaged_data)
    assert str(partial_error.value) == str(complete_error.value)


@pytest.mark.parametrize("n_bytes", [3, 100, 70_000, 300_000, 2_000_000, 4_000_000])
def test_a_truncated_document_has_the_same_names_or_error_as_in_memory(n_bytes) -> None:
    data = model_bytes()[:n_bytes]

    def read_names(load_model: Callable[[], ow.ModelProto]) -> str:
        try:
            return repr([tensor.name for tensor in load_model().graph.initializer])
        except ow.DecodeError as error:
            return str(error)

    assert read_names(lambda: partial_model(data)) == read_names(lambda: ow.ModelProto.FromString(data))


def test_a_source_that_fetches_nothing_raises_source_error() -> None:
    document = partial_document(model_bytes())
    document.memory.source.fetch = lambda memory, ranges: None
    with pytest.raises(SourceError):
        root_view(document, ow.ModelProto)


def test_an_error_of_the_source_is_raised_and_the_next_call_continues() -> None:
    model = partial_model()
    source = model._document.memory.source

    def fail() -> None:
        source.on_fetch = lambda: None
        raise SourceError(errno.EIO, "fetch failed", "model.onnx")

    source.on_fetch = fail
    with pytest.raises(SourceError, match="fetch failed"):
        list(model.graph.node)
    assert len(model.graph.node) == 200
    source.on_fetch = fail
    with pytest.raises(SourceError, match="fetch failed"):
        model.graph.initializer[0].numpy()
    assert model.graph.initializer[0].numpy().shape == (3 * LONG_BYTES,)


READS = {
    "bytes": lambda model: model.graph.initializer[0].raw_data,
    "text": lambda model: model.functions[0].doc_string,
    "numbers": lambda model: model.graph.initializer[2].int64_data[0],
    "array": lambda model: model.graph.initializer[0].numpy(),
    "encoding": lambda model: model.SerializeToString(),
}


@pytest.mark.parametrize("operation", READS.values(), ids=READS)
def test_closing_during_a_fetch_raises_in_use_error_or_ends_the_read_with_closed_error(operation) -> None:
    model = partial_model()
    list(model.graph.initializer)
    source = model._document.memory.source

    def close() -> None:
        source.on_fetch = lambda: None
        try:
            model.close()
        except ow.InUseError:
            source.has_rejected_close = True

    source.has_rejected_close = False
    source.on_fetch = close
    try:
        operation(model)
        assert source.has_rejected_close or source.on_fetch is close  # `close` remains if nothing was fetched
    except ClosedError:
        pass


def test_many_groups_without_an_end_raise_decode_error() -> None:
    # A graph that contains 100,000 starts of a group of field 100.
    data = b"\x3a" + varint(200_000) + b"\xa3\x06" * 100_000
    with pytest.raises(ow.DecodeError):
        list(partial_model(data).graph.node)
    with pytest.raises(ow.DecodeError):
        partial_model(b"\xa3\x06" * 100_000)


def test_a_huge_file_needs_memory_for_its_resident_pages_only() -> None:
    from onnxwire.engine.partial import PartialMemory

    try:
        memory = PartialMemory(1 << 44, None)
    except MemoryError:
        pytest.skip("the address space is too small")
    memory.put(1 << 40, bytes(4096))
    assert memory.resident == 4096
    assert memory.missing([(1 << 40, (1 << 40) + 5000)]) == [((1 << 40) + 4096, (1 << 40) + 8192)]
    for offset, size in ((1, 4096), (0, 100), (1 << 44, 4096), (-4096, 4096)):
        with pytest.raises((IndexError, OverflowError)):
            memory.put(offset, bytes(size))


@pytest.mark.parametrize("resident_pages", [[], [0], [3], [1, 2], [0, 2], [0, 1, 2, 3]])
def test_resident_pages_are_not_written_again(resident_pages: list[int]) -> None:
    from onnxwire.engine.document import Document
    from onnxwire.engine.partial import PartialMemory

    first_version, second_version = (
        ow.TensorProto(raw_data=letter * 12_300).SerializeToString() for letter in (b"a", b"b")
    )
    size = len(first_version)  # 4 pages
    memory = PartialMemory(size, Source(second_version))
    expected = bytearray(second_version)
    for page in resident_pages:
        start, end = page * 4096, min((page + 1) * 4096, size)
        memory.put(start, first_version[start:end])
        expected[start:end] = first_version[start:end]
    memory.put(0, second_version)
    assert memory.resident == size
    document = Document(memory, "<bytes>", memory)
    assert root_view(document, ow.TensorProto).raw_data == ow.TensorProto.FromString(bytes(expected)).raw_data
    document.close()


def test_many_open_files_have_separate_bytes_and_can_be_closed_in_any_order() -> None:
    tensors = [ow.TensorProto(name=f"t{i}", raw_data=bytes([i]) * 100_000) for i in range(40)]
    documents = [partial_document(tensor.SerializeToString()) for tensor in tensors]
    views = [root_view(document, ow.TensorProto) for document in documents]
    for i in np.random.default_rng(0).permutation(len(views)):
        assert (views[i].name, views[i].raw_data) == (tensors[i].name, tensors[i].raw_data)
        documents[i].close()
        with pytest.raises(ClosedError):
            views[i].name  # noqa: B018
