"""Iterators, children, sequences and arrays that exist while their message is edited or closed."""

from __future__ import annotations

import contextlib
import copy
import gc
import sys
import threading
import tracemalloc

import numpy as np
import pytest
import wire
from wire import same

import onnxwire
from onnxwire import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto
from onnxwire.errors import ChangedError

# --- iterators


def test_a_loop_that_assigns_to_its_sequence_reads_the_current_elements():
    def body(m):
        tensor = m.TensorProto.FromString(m.TensorProto(int64_data=range(11, 400)).SerializeToString())
        tensor.name = "renamed"
        numbers = tensor.int64_data
        for i, number in enumerate(numbers):
            numbers[i] = number * 2
            if i == 7:
                tensor.int64_data.append(5)
                del tensor.int64_data[20]
        yield numbers, tensor

    same(body)


def test_an_iterator_over_records_continues_over_their_replacements():
    def body(m):
        graph = m.GraphProto.FromString(m.GraphProto(node=[{"name": str(i)} for i in range(9)]).SerializeToString())
        graph.name = "edited"
        nodes = iter(graph.node)
        yield next(nodes)
        graph.node.insert(0, m.NodeProto(name="new"))
        yield next(nodes)
        del graph.node[4:]
        yield list(nodes), list(nodes)

    same(body)


def test_an_iterator_over_an_absent_field_finds_added_elements():
    def body(m):
        model = m.ModelProto()
        graph = model.graph
        names, numbers, nodes = iter(model.functions), iter(graph.quantization_annotation), iter(graph.node)
        model.CopyFrom(m.ModelProto(graph={"node": [{"name": "a"}]}, functions=[{"name": "f"}]))
        yield list(names), list(numbers), list(nodes)

    same(body)


def test_an_iterator_continues_after_the_bytes_were_replaced(tmp_path):
    """A change of the mapped bytes in place leaves a sequence without a message that could have new elements."""
    texts = [wire.span(8, b"name"), wire.span(1, b"\1\2\3")]
    path = tmp_path / "model.onnx"
    first, second = (wire.span(7, wire.span(5, b"".join(order))) for order in (texts, texts[::-1]))
    path.write_bytes(first)
    with onnxwire.load(path) as model:
        numbers = model.graph.initializer[0].dims
        iterators = iter(numbers)
        found = [next(iterators)]
        with path.open("r+b") as file:
            file.write(second)
        model.producer_name = "edited"
        found.append(next(iterators))
        numbers.extend(range(3, 5000))
        assert found + list(iterators) == [1, 2, 3, *range(3, 5000)]


# --- children


def test_a_view_of_an_absent_child_stays_attached_when_its_parent_is_copied_over():
    def body(m):
        other = m.ModelProto(graph={"name": "other", "node": [{"name": "n"}]})
        for source in (other, m.ModelProto.FromString(other.SerializeToString())):
            model = m.ModelProto()
            graph = model.graph
            model.CopyFrom(source)
            graph.name = "edited"
            graph.node[0].name = "edited too"
            yield model.graph, graph, source
            copied = m.GraphProto()
            copied.CopyFrom(graph)
            yield graph == copied, graph == model.graph
            del model, graph
            gc.collect()
            yield copied

    same(body)


def test_new_messages_leave_no_cache_entries():
    source = ModelProto.FromString(ModelProto(graph={"name": "g"}).SerializeToString())
    for _ in range(50):
        model = ModelProto()
        graph = model.graph
        model.CopyFrom(source)
        graph.name = "edited"
    assert ModelProto()._document._cache_sizes() == (0, 0, 0, 0, 0)


def test_views_of_an_absent_field_are_views_of_one_message():
    def body(m):
        model = m.ModelProto()
        one, two = model.graph, model.graph
        model.ParseFromString(b"")
        one.name = "one"
        yield two, model
        three, four = model.graph, model.graph
        model.ClearField("graph")
        three.name = "three"
        yield four, model
        five, six = model.graph, model.graph
        model.graph.SetInParent()
        five.name = "five"
        yield six, model

    same(body)


def test_clearing_again_releases_elements_that_were_read_in_between():
    def body(m):
        model = m.ModelProto.FromString(
            m.ModelProto(graph={"name": "g"}, functions=[{"name": "f"}]).SerializeToString()
        )
        for _ in range(3):
            graph, functions = model.graph, model.functions
            model.ClearField("graph")
            model.ClearField("functions")
            graph.doc_string = "gone"
            functions.add(name="gone")
            yield model, graph, functions
        functions = model.functions
        functions.add(name="f")
        del functions[:]
        model.ClearField("functions")
        functions.add(name="gone")
        yield model, functions

    same(body)


def test_a_message_copied_from_itself_does_not_change():
    def body(m):
        node = m.NodeProto(attribute=[{"name": "a"}])
        node.attribute[0].t.CopyFrom(node.attribute[0].t)
        yield node.attribute[0].HasField("t"), node
        node.attribute[0].t.name = "t"
        node.attribute[0].t.CopyFrom(node.attribute[0].t)
        yield node

    same(body)


def test_a_oneof_that_is_switched_inside_merged_bytes_starts_empty():
    def body(m):
        tensor = m.TypeProto(tensor_type={"elem_type": 1})
        unknown = wire.span(1, wire.span(50, b"unknown") + wire.number(1, 7))
        switched = (
            m.TypeProto(sequence_type={}).SerializeToString()
            + m.TypeProto(tensor_type={"shape": {}}).SerializeToString()
        )
        for data in (switched, unknown + switched, unknown):
            merged, outer = m.TypeProto(), m.ValueInfoProto(type=tensor)
            merged.CopyFrom(tensor)
            merged.MergeFromString(unknown)
            merged.MergeFromString(data)
            outer.MergeFromString(wire.span(2, data))
            yield merged, outer
            one = m.TypeProto.FromString(data)
            whole = m.TypeProto.FromString(unknown)
            whole.MergeFrom(one)
            yield whole

    same(body)


# --- sequences and arrays


@pytest.mark.parametrize("field", ["dims", "int32_data", "float_data"])
def test_an_array_of_numbers_does_not_change(field):
    tensor = TensorProto.FromString(TensorProto(**{field: range(200)}).SerializeToString())
    sequence = getattr(tensor, field)
    before = np.asarray(sequence)
    sequence.append(1)
    edited, view = np.asarray(sequence), memoryview(sequence)
    sequence.extend(range(10_000))
    del sequence[:]
    tensor.Clear()
    del tensor, sequence
    assert before.tolist() == list(range(200))
    assert edited.tolist() == view.tolist() == [*range(200), 1]


def test_a_sequence_of_a_message_in_many_pieces_is_found_in_the_piece():
    pieces = [wire.span(7, wire.span(1, wire.span(3, b"%d" % i))) for i in range(300)]
    model = ModelProto.FromString(b"".join(pieces))
    for i, node in enumerate(model.graph.node):
        node.doc_string = "edited"
        assert model.graph.node[i].name == str(i)
    assert model._document._cache_sizes()[3] == 1  # the pieces are searched once
    assert [node.name for node in ModelProto.FromString(model.SerializeToString()).graph.node] == [
        *map(str, range(300))
    ]


# --- copies


def nested(depth, edit):
    """Return a model with an If in an If, built or parsed, edited at each level."""
    node = NodeProto(op_type="If")
    for _ in range(depth):
        outer = NodeProto(op_type="If")
        outer.attribute.add(name="then_branch").g.node.append(node)
        node = outer
    node = NodeProto.FromString(node.SerializeToString())
    inner = node
    while inner.attribute:
        edit(inner)
        inner = inner.attribute[0].g.node[0]
    edit(inner)
    return node


def peak_bytes(act):
    """Return the peak of memory that an operation allocates, in bytes."""
    tracemalloc.start()
    try:
        result = act()
        return tracemalloc.get_traced_memory()[1], result
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "act", [copy.deepcopy, lambda node: GraphProto(node=[node]), lambda node: AttributeProto(g={"node": [node]})]
)
def test_the_memory_of_a_copy_of_nested_edits_is_linear_in_the_depth(act):
    def edit(node):
        node.name = "n" * 5000  # so long that a copy shares values; small messages are encoded

    taken = {}
    for depth in (10, 20, 40):
        node = nested(depth, edit)
        taken[depth], copied = peak_bytes(lambda node=node: act(node))
        assert copied.ByteSize() > 5000 * depth
    assert taken[40] < 3 * taken[20] < 9 * taken[10]


def test_a_copy_has_the_edits_inside_a_message_in_pieces():
    def body(m):
        def piece(name):
            return wire.span(7, wire.span(1, wire.span(3, name) + wire.span(5, wire.span(1, b"k"))))

        model = m.ModelProto.FromString(piece(b"a") + piece(b"b") + piece(b"c"))
        for node in model.graph.node:
            node.attribute[0].i = 5
            node.op_type = "x" * 2000
        copied = copy.deepcopy(model)
        model.graph.node[1].attribute[0].i = 6
        yield model, copied, copied == model
        model.graph.name = "edited"
        again = copy.deepcopy(model)
        again.graph.node[2].attribute[0].name = "again"
        yield model, again

    same(body)


# --- closing


class ClosingFinalizer:
    """ClosingFinalizer a document when the garbage collector frees the object."""

    def __init__(self, model):
        self.model, self.itself = model, self

    def __del__(self):
        self.model.close()


READS_AND_EDITS = {
    "a name": lambda model: model.graph.name,
    "a first edit": lambda model: setattr(model.graph, "name", "edited"),
    "a node by its index": lambda model: model.graph.node[50].name,
    "numbers by their index": lambda model: model.graph.initializer[0].int64_data[90],
    "a slice": lambda model: model.graph.node[10:90],
    "a new element": lambda model: model.graph.node.add().name,
    "all nodes": lambda model: [node.input[0] for node in model.graph.node],
    "the bytes": lambda model: model.SerializeToString(),
    "a copy": copy.deepcopy,
    "equality": lambda model: model == model,
    "text": str,
}


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("case", READS_AND_EDITS)
def test_a_document_that_a_finalizer_closes_raises_an_error_in_the_interrupted_read(tmp_path, case):
    path = tmp_path / "model.onnx"
    nodes = [NodeProto(name=f"n{i}", input=["x"]) for i in range(100)]
    tensor = TensorProto(int64_data=range(0, 10_000, 100))
    onnxwire.save(ModelProto(graph=GraphProto(name="g", node=nodes, initializer=[tensor])), path)
    thresholds = gc.get_threshold()
    for count in range(1, 40):
        model = onnxwire.load(path)
        gc.collect()
        ClosingFinalizer(model)
        gc.set_threshold(count)
        try:
            READS_AND_EDITS[case](model)
        except onnxwire.ClosedError:
            pass
        finally:
            gc.set_threshold(*thresholds)
        gc.collect()
        model.close()  # no-op unless the finalizer ran during a comparison, which pins the document
        with pytest.raises(onnxwire.ClosedError):
            _ = model.graph


class CallingFinalizer:
    """Calls a function when the garbage collector frees the object."""

    def __init__(self, act):
        self.act, self.itself = act, self

    def __del__(self):
        self.act()


def at_any_time(make):
    """Call `make() -> (act, body)` and run `body()` repeatedly; the collector runs `act()` later in each round."""
    thresholds = gc.get_threshold()
    for count in range(1, 40):
        act, body = make()
        gc.collect()
        CallingFinalizer(act)
        gc.set_threshold(count)
        try:
            yield body()
        finally:
            gc.set_threshold(*thresholds)
        gc.collect()


def many_records(number):
    """Return enough records of one field that the document caches their index in a dict."""
    return wire.number(number, 200) * 100


def test_the_collector_does_not_run_while_messages_are_compared():
    def make():
        nodes = [NodeProto.FromString(NodeProto(input=["x"] * 100).SerializeToString()) for _ in range(20)]
        ours, theirs = GraphProto(node=nodes), GraphProto(node=nodes)
        return lambda: ours.node.__delitem__(slice(1, None)), lambda: ours == theirs

    assert set(at_any_time(make)) <= {False, True}


def test_views_of_an_absent_message_follow_it_when_it_is_added():
    other = AttributeProto.FromString(wire.span(22, many_records(3)))

    def make():
        attribute = AttributeProto()
        sparse = attribute.sparse_tensor
        values = sparse.values
        attribute.CopyFrom(copy.deepcopy(other))

        def act():
            values.name = "edited"
            sparse.ClearField("values")

        def ask():
            gone = values.name
            return (
                gone in ("", "edited"),
                len(sparse.dims),
                sparse.HasField("values"),
                sparse == attribute.sparse_tensor,
            )

        return act, ask

    assert set(at_any_time(make)) == {(True, 100, False, True)}


def test_an_edit_during_the_first_access_to_a_message_is_not_lost():
    part = TensorProto.FromString(many_records(1)).SerializeToString()

    def make():
        tensors = GraphProto.FromString(wire.span(5, part)).initializer
        one, other = tensors[0], tensors[0]

        def act():
            other.name = "other"

        def edit():
            one.doc_string = "one"
            gc.collect()
            return one.name, other.doc_string, one == other

        return act, edit

    assert set(at_any_time(make)) == {("other", "one", True)}


REORDERINGS = {
    "reversed": (lambda nodes: nodes.reverse(), "76543210"),
    "sorted": (lambda nodes: nodes.sort(key=lambda node: -int(node.op_type)), "76543210"),
    "thinned": (lambda nodes: nodes.__delitem__(slice(None, None, 2)), "1357"),
}


@pytest.mark.parametrize("how", REORDERINGS)
def test_a_field_that_is_cleared_while_it_is_reordered_stays_consistent(how):
    arrange, arranged = REORDERINGS[how]
    data = GraphProto(node=[NodeProto(op_type=str(i)) for i in range(8)]).SerializeToString()

    def make():
        graph = GraphProto.FromString(data)

        def change():
            with contextlib.suppress(ChangedError):
                arrange(graph.node)
            left = "".join(node.op_type for node in graph.node)
            return left, GraphProto.FromString(graph.SerializeToString()) == graph

        return lambda: graph.ClearField("node"), change

    assert set(at_any_time(make)) <= {("", True), (arranged, True)}


def test_destructors_of_removed_elements_may_clear_the_field():
    graph = GraphProto()
    cleared = []

    class Memory(bytearray):
        def __del__(self):
            if cleared == [False]:
                cleared[0] = True
                graph.ClearField("node")

    data = NodeProto(attribute=[AttributeProto(name="k", s=b"x" * 10)]).SerializeToString()
    for _ in range(2000):  # so many that earlier messages are encoded
        node = graph.node.add()
        source = onnxwire.load(Memory(data), type=NodeProto)
        node.attribute.append(source.attribute[0])
        del source, node
        cleared[:] = [False]
        graph.node.add(name="q")
        if cleared.pop():
            break
    else:
        pytest.fail("no memory was released while an element was added")
    assert len(graph.node) == 0
    assert graph.SerializeToString() == b""


# --- released objects


def edit_absent_fields():
    model = ModelProto()
    one, two = model.graph, model.graph
    model.CopyFrom(ModelProto(graph={"name": "g", "node": [{"name": "n", "attribute": [{"name": "a"}]}]}))
    one.name = "one"
    two.node[0].attribute[0].t.name = "two"
    model.ClearField("graph")
    two.doc_string = "gone"


def read_added_fields():
    attribute, other = AttributeProto(), AttributeProto(sparse_tensor={"dims": [1], "values": {"name": "v"}})
    values, sparse = attribute.sparse_tensor.values, attribute.sparse_tensor
    attribute.MergeFrom(other)
    attribute.ParseFromString(other.SerializeToString())
    values.dims.append(len(sparse.dims))
    attribute.CopyFrom(other)
    attribute.sparse_tensor.ClearField("values")
    values.name = "gone"
    attribute.Clear()


def switch_oneofs():
    kind = onnxwire.TypeProto()
    tensor, sequence = kind.tensor_type, kind.sequence_type
    tensor.shape.dim.add(dim_value=1)
    sequence.elem_type.tensor_type.elem_type = 3
    kind.optional_type.SetInParent()
    kind.ClearField("value")


def change_iterated_fields():
    graph = GraphProto.FromString(GraphProto(node=[{"input": ["x"] * 80}] * 9).SerializeToString() * 2)
    nodes, taken = graph.node, graph.node[:]
    iterators = iter(nodes)
    next(iterators)
    nodes.sort(key=lambda node: len(node.input))
    del nodes[2:4]
    taken[3].name = "edited"
    graph.MergeFrom(copy.deepcopy(graph))
    graph.CopyFrom(copy.deepcopy(graph))
    nodes.extend(list(iterators))
    graph.Clear()


def refuse_values():
    graph = GraphProto()
    for values in ([NodeProto(), 1], [NodeProto(), None]):
        with pytest.raises(TypeError):
            graph.node.extend(values)
    with pytest.raises(ValueError, match="byte"):
        graph.MergeFromString(b"\x0a")


@pytest.mark.parametrize(
    "act",
    [edit_absent_fields, read_added_fields, switch_oneofs, change_iterated_fields, refuse_values],
)
def test_edits_of_unreachable_messages_are_released(act):
    rounds = 100

    def growth():
        gc.collect()
        before = sys.getallocatedblocks()
        for _ in range(rounds):
            act()
        gc.collect()
        return sys.getallocatedblocks() - before

    growth()  # fills caches
    # Other threads of the process may allocate memory meanwhile, but not in each round.
    assert min(growth() for _ in range(3)) < rounds // 2
    assert ModelProto()._document._cache_sizes() == (0, 0, 0, 0, 0)


# --- threads


def test_a_reader_beside_an_editor_gets_an_old_or_a_new_value():
    """Long packed runs are decoded while other threads run, so their bytes must not be released meanwhile."""
    data = TensorProto(int64_data=range(40_000), int32_data=range(40_000)).SerializeToString()
    holder = [TensorProto.FromString(data)]
    failures: list[BaseException] = []
    is_over = threading.Event()

    def read():
        other = TensorProto.FromString(data)
        while not is_over.is_set():
            tensor = holder[0]
            try:
                for sequence in (tensor.int64_data, tensor.int32_data):
                    array = np.asarray(sequence)
                    assert not len(array) or array[-1] in (39_999, 7), array[-1]
                assert (tensor == other) in (True, False)
            except ChangedError:
                pass
            except BaseException as error:
                failures.append(error)
                return

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    for step in range(60):
        tensor = TensorProto.FromString(data)
        holder[0] = tensor
        tensor.int64_data.append(7)
        tensor.int32_data.extend([7] * 5000)
        if step % 2:
            tensor.CopyFrom(TensorProto.FromString(data))
        else:
            tensor.Clear()
    is_over.set()
    for reader in readers:
        reader.join()
    assert not failures
