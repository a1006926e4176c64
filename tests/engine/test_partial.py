"""Documents with missing pages: each call has the same result as on the whole document, and never reads a missing page.

Access to bytes that are not resident ends the process, so these tests detect a read without a fetch.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
from partial import partial_document
from wire import varint

import onnxwire as ow
from onnxwire.checker import check
from onnxwire.engine.message import root_view
from onnxwire.engine.verify import verify_document
from onnxwire.errors import ClosedError, SourceError

LONG_BYTES = 1 << 16


def record(number: int, data: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(data)) + data


@cache
def model_bytes() -> bytes:
    """Return a model with a long value of every kind, and short ones between them."""
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
            inner = node.attribute.add(name="then_branch", type="GRAPH").g
            inner.name = "inner"
            inner.initializer.append(tensors[0])
            inner.node.add(op_type="Relu", input=["raw"], output=["z"])
    graph.output.add(name="y199").type.tensor_type.elem_type = 1
    function = model.functions.add(name="f", domain="local", doc_string="e" * 2 * LONG_BYTES)
    function.node.add(op_type="Identity", input=["a"], output=["b"])
    data = model.SerializeToString()
    group = b"\xa3\x06" + record(3, b"g" * 2 * LONG_BYTES) + b"\xa4\x06"
    return data + record(77, b"unknown" * LONG_BYTES) + group + record(2, b"q")


def whole() -> ow.ModelProto:
    return ow.ModelProto.FromString(model_bytes())


def partial(data: bytes | None = None) -> ow.ModelProto:
    return root_view(partial_document(model_bytes() if data is None else data), ow.ModelProto)


def saved(model: ow.ModelProto, **options: object) -> bytes:
    file = io.BytesIO()
    ow.save(model, file, **options)
    return file.getvalue()


def edited(model: ow.ModelProto) -> ow.ModelProto:
    model.graph.node[7].name = "another"
    model.graph.initializer[1].float_data[3] = 2.0
    del model.graph.initializer[5]
    model.graph.initializer.append(model.graph.initializer[0])
    return model


def merged(model: ow.ModelProto) -> bytes:
    other = ow.ModelProto()
    other.MergeFrom(model)
    other.graph.MergeFrom(model.graph)
    return other.SerializeToString()


def without_unknown(model: ow.ModelProto) -> bytes:
    model.DiscardUnknownFields()
    return model.SerializeToString()


def arrow(model: ow.ModelProto) -> list[object]:
    pyarrow = pytest.importorskip("pyarrow")
    names = ("nodes", "attributes", "values", "tensors", "metadata", "functions", "model")
    return [pyarrow.table(ow.to_arrow(model, name)).to_pylist() for name in names]


CALLS: dict[str, Callable[[ow.ModelProto], object]] = {
    "fields": lambda model: (model.producer_name, model.doc_string, model.graph.name, model.functions[0].doc_string),
    "repr": repr,
    "arrays": lambda model: [tensor.numpy().tolist() for tensor in model.graph.initializer if tensor.data_type != 8],
    "strings": lambda model: list(model.graph.initializer[4].string_data),
    "raw_data": lambda model: [tensor.raw_data for tensor in model.graph.initializer],
    "parts": lambda model: [t.read(slice(5, -5)).tolist() for t in model.graph.initializer if t.data_type != 8],
    "lengths": lambda model: [(len(t.float_data), len(t.int64_data), len(t.raw_data)) for t in model.graph.initializer],
    "numbers": lambda model: [(t.float_data[-1:], t.int64_data[5:9]) for t in model.graph.initializer],
    "attributes": lambda model: [
        (a.name, a.s, list(a.ints), list(a.floats), list(a.strings)) for a in model.graph.node[100].attribute
    ],
    "subgraph": lambda model: model.graph.node[150].attribute[0].g.initializer[0].numpy().sum(),
    "encoding": lambda model: model.SerializeToString(),
    "deterministic": lambda model: model.SerializeToString(deterministic=True),
    "size": lambda model: (model.ByteSize(), model.graph.ByteSize()),
    "encoding of a part": lambda model: model.graph.node[100].SerializeToString(),
    "unknown fields": lambda model: model._unknown_fields(),
    "edits": lambda model: edited(model).SerializeToString(),
    "edits, deterministic": lambda model: edited(model).SerializeToString(deterministic=True),
    "size of edits": lambda model: edited(model).ByteSize(),
    "save": saved,
    "save of edits": lambda model: saved(edited(model)),
    "save deterministically": lambda model: saved(edited(model), deterministic=True),
    "save aligned": lambda model: saved(model, inline_align=4096),
    "save of edits, aligned": lambda model: saved(edited(model), inline_align=4096),
    "equality": lambda model: (model == whole(), whole() == model, model == edited(whole())),
    "copy": lambda model: ow.ModelProto.FromString(model.__deepcopy__().SerializeToString()) == whole(),
    "copy of a part": lambda model: ow.GraphProto().CopyFrom(model.graph),
    "merge": merged,
    "unknown fields discarded": without_unknown,
    "tensors": lambda model: [info[:5] for info in ow.tensors(model)],
    "check": lambda model: [str(p) for p in check(model)],
    "text": ow.to_text,
    "text form": str,
    "json": ow.to_json,
    "tables": arrow,
    "diff": lambda model: [str(d) for d in ow.diff(model, edited(whole()))],
    "statistics": lambda model: [ow.measure(t) for t in model.graph.initializer if t.data_type != 8],
    "extract": lambda model: ow.extract(model, [], ["y149"]).SerializeToString(),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_call_has_the_same_result_as_on_the_whole_document(call) -> None:
    assert call(partial()) == call(whole())


@pytest.mark.parametrize("call", ["repr", "size", "lengths of bytes"])
def test_calls_that_need_no_long_value_fetch_none(call) -> None:
    model = partial()
    if call == "lengths of bytes":
        assert [len(tensor.raw_view) for tensor in model.graph.initializer[:1]] == [12 * LONG_BYTES]
        return
    CALLS[call](model)
    assert model._document.memory.resident < len(model_bytes()) // 4


def test_the_first_access_fetches_no_long_values() -> None:
    model = partial()
    assert [node.name for node in model.graph.node] == [f"n{i}" for i in range(200)]
    assert next(iter(model.graph.initializer)).name == "raw"
    # Short values, numbers that are not packed, and the first and last page of long values.
    assert model._document.memory.resident < len(model_bytes()) // 6


def test_verify_reads_what_it_checks() -> None:
    document = partial_document(model_bytes())
    verify_document(document, ow.ModelProto)
    assert document.memory.resident < len(model_bytes()) // 4
    data = model_bytes()
    at = data.index(b"ints") + 20
    broken = data[:at] + b"\xff" * 20 + data[at + 20 :]
    with pytest.raises(ow.DecodeError) as ours:
        verify_document(partial_document(broken), ow.ModelProto)
    with pytest.raises(ow.DecodeError) as theirs:
        ow.verify(broken)
    assert str(ours.value) == str(theirs.value)


@pytest.mark.parametrize("cut", [3, 100, 70_000, 300_000, 2_000_000, 4_000_000])
def test_damage_is_reported_at_its_offset(cut) -> None:
    data = model_bytes()[:cut]

    def attempt(model_of: Callable[[], ow.ModelProto]) -> str:
        try:
            return repr([tensor.name for tensor in model_of().graph.initializer])
        except ow.DecodeError as error:
            return str(error)

    assert attempt(lambda: partial(data)) == attempt(lambda: ow.ModelProto.FromString(data))


def test_a_source_that_fetches_nothing_is_an_error() -> None:
    document = partial_document(model_bytes())
    document.memory.source.fetch = lambda memory, ranges: None
    with pytest.raises(SourceError):
        root_view(document, ow.ModelProto)


def test_an_error_of_the_source_is_raised_and_the_next_call_continues() -> None:
    model = partial()
    source = model._document.memory.source

    def fail() -> None:
        source.on_fetch = lambda: None
        raise SourceError(5, "no luck", "there")

    source.on_fetch = fail
    with pytest.raises(SourceError, match="no luck"):
        list(model.graph.node)
    assert len(model.graph.node) == 200
    source.on_fetch = fail
    with pytest.raises(SourceError, match="no luck"):
        model.graph.initializer[0].numpy()
    assert model.graph.initializer[0].numpy().shape == (3 * LONG_BYTES,)


CLOSED = {
    "bytes": lambda model: model.graph.initializer[0].raw_data,
    "text": lambda model: model.functions[0].doc_string,
    "numbers": lambda model: model.graph.initializer[2].int64_data[0],
    "array": lambda model: model.graph.initializer[0].numpy(),
    "encoding": lambda model: model.SerializeToString(),
}


@pytest.mark.parametrize("call", CLOSED.values(), ids=CLOSED)
def test_closing_while_bytes_are_fetched_is_refused_or_an_error(call) -> None:
    model = partial()
    list(model.graph.initializer)
    source = model._document.memory.source

    def close() -> None:
        source.on_fetch = lambda: None
        try:
            model.close()
        except ow.InUseError:
            source.refused = True

    source.refused = False
    source.on_fetch = close
    try:
        call(model)
        assert source.refused or source.on_fetch is close
    except ClosedError:
        pass


def test_groups_without_an_end_are_walked_once() -> None:
    data = b"\x3a" + varint(200_000) + b"\xa3\x06" * 100_000
    with pytest.raises(ow.DecodeError):
        list(partial(data).graph.node)
    with pytest.raises(ow.DecodeError):
        partial(b"\xa3\x06" * 100_000)


def test_the_memory_of_a_huge_file_is_that_of_its_resident_pages() -> None:
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


def test_each_of_many_open_files_has_its_own_bytes_in_any_order_of_closing() -> None:
    tensors = [ow.TensorProto(name=f"t{i}", raw_data=bytes([i]) * 100_000) for i in range(40)]
    documents = [partial_document(tensor.SerializeToString()) for tensor in tensors]
    views = [root_view(document, ow.TensorProto) for document in documents]
    for i in np.random.default_rng(0).permutation(len(views)):
        assert (views[i].name, views[i].raw_data) == (tensors[i].name, tensors[i].raw_data)
        documents[i].close()
        with pytest.raises(ClosedError):
            views[i].name  # noqa: B018
