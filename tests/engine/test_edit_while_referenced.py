"""Edit, copy or close a message while the program refers to its submessages, sequences, iterators or arrays."""

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
from wire import assert_same_as_official

import onnxwire
from onnxwire import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto
from onnxwire.errors import ChangedError

# --- iterators


def test_a_loop_that_assigns_to_its_sequence_reads_the_current_elements():
    def body(api):
        tensor = api.TensorProto.FromString(api.TensorProto(int64_data=range(11, 400)).SerializeToString())
        tensor.name = "renamed"
        numbers = tensor.int64_data
        for i, number in enumerate(numbers):
            numbers[i] = number * 2
            if i == 7:
                tensor.int64_data.append(5)
                del tensor.int64_data[20]
        yield numbers, tensor

    assert_same_as_official(body)


def test_an_iterator_over_records_continues_after_elements_were_inserted_and_deleted():
    def body(api):
        graph = api.GraphProto.FromString(api.GraphProto(node=[{"name": str(i)} for i in range(9)]).SerializeToString())
        graph.name = "edited"
        nodes = iter(graph.node)
        yield next(nodes)
        graph.node.insert(0, api.NodeProto(name="new"))
        yield next(nodes)
        del graph.node[4:]
        yield list(nodes), list(nodes)

    assert_same_as_official(body)


def test_an_iterator_over_an_absent_field_finds_added_elements():
    def body(api):
        model = api.ModelProto()
        graph = model.graph
        functions, annotations, nodes = iter(model.functions), iter(graph.quantization_annotation), iter(graph.node)
        model.CopyFrom(api.ModelProto(graph={"node": [{"name": "a"}]}, functions=[{"name": "f"}]))
        yield list(functions), list(annotations), list(nodes)

    assert_same_as_official(body)


def test_an_iterator_continues_after_the_bytes_were_replaced(tmp_path):
    """The mapped bytes change in place: the records of name (field 8) and dims (field 1) swap positions."""
    records = [wire.len_record(8, b"name"), wire.len_record(1, b"\1\2\3")]
    path = tmp_path / "model.onnx"
    first_encoding, second_encoding = (
        wire.len_record(7, wire.len_record(5, b"".join(ordered_records)))
        for ordered_records in (records, records[::-1])
    )
    path.write_bytes(first_encoding)
    with onnxwire.load(path) as model:
        numbers = model.graph.initializer[0].dims
        iterator = iter(numbers)
        numbers_read = [next(iterator)]
        with path.open("r+b") as file:
            file.write(second_encoding)
        model.producer_name = "edited"
        numbers_read.append(next(iterator))
        numbers.extend(range(3, 5000))
        assert numbers_read + list(iterator) == [1, 2, 3, *range(3, 5000)]


# --- children


def test_a_view_of_an_absent_child_stays_attached_when_its_parent_is_overwritten_by_CopyFrom():
    def body(api):
        other = api.ModelProto(graph={"name": "other", "node": [{"name": "n"}]})
        for source in (other, api.ModelProto.FromString(other.SerializeToString())):
            model = api.ModelProto()
            graph = model.graph
            model.CopyFrom(source)
            graph.name = "edited"
            graph.node[0].name = "edited too"
            yield model.graph, graph, source
            copied_graph = api.GraphProto()
            copied_graph.CopyFrom(graph)
            yield graph == copied_graph, graph == model.graph
            del model, graph
            gc.collect()
            yield copied_graph

    assert_same_as_official(body)


def test_new_messages_leave_no_cache_entries():
    source = ModelProto.FromString(ModelProto(graph={"name": "g"}).SerializeToString())
    for _ in range(50):
        model = ModelProto()
        graph = model.graph
        model.CopyFrom(source)
        graph.name = "edited"
    # All new messages share one document.
    assert ModelProto()._document._cache_sizes() == (0, 0, 0, 0, 0)


def test_views_of_an_absent_field_are_views_of_one_message():
    def body(api):
        model = api.ModelProto()
        first_view, second_view = model.graph, model.graph
        model.ParseFromString(b"")
        first_view.name = "one"
        yield second_view, model
        third_view, fourth_view = model.graph, model.graph
        model.ClearField("graph")
        third_view.name = "three"
        yield fourth_view, model
        fifth_view, sixth_view = model.graph, model.graph
        model.graph.SetInParent()
        fifth_view.name = "five"
        yield sixth_view, model

    assert_same_as_official(body)


def test_clearing_again_detaches_a_view_and_a_sequence_that_were_read_in_between():
    def body(api):
        model = api.ModelProto.FromString(
            api.ModelProto(graph={"name": "g"}, functions=[{"name": "f"}]).SerializeToString()
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

    assert_same_as_official(body)


def test_a_message_copied_from_itself_does_not_change():
    def body(api):
        node = api.NodeProto(attribute=[{"name": "a"}])
        node.attribute[0].t.CopyFrom(node.attribute[0].t)
        yield node.attribute[0].HasField("t"), node
        node.attribute[0].t.name = "t"
        node.attribute[0].t.CopyFrom(node.attribute[0].t)
        yield node

    assert_same_as_official(body)


def test_a_oneof_member_that_is_cleared_and_set_again_by_merged_bytes_starts_empty():
    def body(api):
        original_type = api.TypeProto(tensor_type={"elem_type": 1})
        tensor_with_unknown_field = wire.len_record(1, wire.len_record(50, b"unknown") + wire.varint_record(1, 7))
        sequence_then_tensor = (
            api.TypeProto(sequence_type={}).SerializeToString()
            + api.TypeProto(tensor_type={"shape": {}}).SerializeToString()
        )
        # Field 1 of a TypeProto is tensor_type, and field 2 of a ValueInfoProto is type.
        for data in (sequence_then_tensor, tensor_with_unknown_field + sequence_then_tensor, tensor_with_unknown_field):
            merged_type, value = api.TypeProto(), api.ValueInfoProto(type=original_type)
            merged_type.CopyFrom(original_type)
            merged_type.MergeFromString(tensor_with_unknown_field)
            merged_type.MergeFromString(data)
            value.MergeFromString(wire.len_record(2, data))
            yield merged_type, value
            second_part = api.TypeProto.FromString(data)
            merged_copy = api.TypeProto.FromString(tensor_with_unknown_field)
            merged_copy.MergeFrom(second_part)
            yield merged_copy

    assert_same_as_official(body)


# --- sequences and arrays


@pytest.mark.parametrize("field", ["dims", "int32_data", "float_data"])
def test_an_array_of_numbers_does_not_change(field):
    tensor = TensorProto.FromString(TensorProto(**{field: range(200)}).SerializeToString())
    sequence = getattr(tensor, field)
    array_before = np.asarray(sequence)
    sequence.append(1)
    array_after, view = np.asarray(sequence), memoryview(sequence)
    sequence.extend(range(10_000))
    del sequence[:]
    tensor.Clear()
    del tensor, sequence
    assert array_before.tolist() == list(range(200))
    assert array_after.tolist() == view.tolist() == [*range(200), 1]


def test_an_element_of_a_message_merged_from_many_records_is_found():
    parts = [wire.len_record(7, wire.len_record(1, wire.len_record(3, b"%d" % i))) for i in range(300)]
    model = ModelProto.FromString(b"".join(parts))
    for i, node in enumerate(model.graph.node):
        node.doc_string = "edited"
        assert model.graph.node[i].name == str(i)
    assert model._document._cache_sizes()[3] == 1  # the document caches the positions of the parts
    assert [node.name for node in ModelProto.FromString(model.SerializeToString()).graph.node] == [
        *map(str, range(300))
    ]


# --- copies


def nested_if(depth, edit):
    """Return a parsed If node with `depth` levels of nested If nodes, after a call of `edit` with each node."""
    node = NodeProto(op_type="If")
    for _ in range(depth):
        outer_node = NodeProto(op_type="If")
        outer_node.attribute.add(name="then_branch").g.node.append(node)
        node = outer_node
    node = NodeProto.FromString(node.SerializeToString())
    current_node = node
    while current_node.attribute:
        edit(current_node)
        current_node = current_node.attribute[0].g.node[0]
    edit(current_node)
    return node


def peak_bytes(operation):
    """Return the peak of memory that an operation allocates, in bytes, and the result of the operation."""
    tracemalloc.start()
    try:
        result = operation()
        return tracemalloc.get_traced_memory()[1], result
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "operation", [copy.deepcopy, lambda node: GraphProto(node=[node]), lambda node: AttributeProto(g={"node": [node]})]
)
def test_the_memory_of_a_copy_of_nested_edits_is_linear_in_the_depth(operation):
    def edit(node):
        node.name = "n" * 5000  # so long that a copy shares the values; short messages are copied by encoding them

    peaks = {}
    for depth in (10, 20, 40):
        node = nested_if(depth, edit)
        peaks[depth], copied_node = peak_bytes(lambda node=node: operation(node))
        assert copied_node.ByteSize() > 5000 * depth
    assert peaks[40] < 3 * peaks[20] < 9 * peaks[10]


def test_a_copy_has_the_edits_inside_a_message_merged_from_several_records():
    def body(api):
        def graph_record(name):
            return wire.len_record(
                7, wire.len_record(1, wire.len_record(3, name) + wire.len_record(5, wire.len_record(1, b"k")))
            )

        model = api.ModelProto.FromString(graph_record(b"a") + graph_record(b"b") + graph_record(b"c"))
        for node in model.graph.node:
            node.attribute[0].i = 5
            node.op_type = "x" * 2000
        copied_model = copy.deepcopy(model)
        model.graph.node[1].attribute[0].i = 6
        yield model, copied_model, copied_model == model
        model.graph.name = "edited"
        second_copy = copy.deepcopy(model)
        second_copy.graph.node[2].attribute[0].name = "again"
        yield model, second_copy

    assert_same_as_official(body)


# --- closing


class ClosingFinalizer:
    """An object that closes a document when the garbage collector frees the object, which refers to itself."""

    def __init__(self, model):
        self.model, self.self_reference = model, self

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
def test_a_read_or_edit_completes_or_raises_closed_error_while_a_finalizer_closes_the_document(tmp_path, case):
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
        model.close()  # a finalizer that runs during a comparison does not close the document, which is pinned
        with pytest.raises(onnxwire.ClosedError):
            _ = model.graph


class FunctionFinalizer:
    """An object that calls a function when the garbage collector frees the object, which refers to itself."""

    def __init__(self, function):
        self.function, self.self_reference = function, self

    def __del__(self):
        self.function()


def run_with_collections(make):
    """Call `make()`, which returns two functions `edit` and `read`, and yield the result of `read()`, in 39 rounds.

    The garbage collector calls `edit()` during or after `read()`: one allocation later in each round.
    """
    thresholds = gc.get_threshold()
    for count in range(1, 40):
        edit, read = make()
        gc.collect()
        FunctionFinalizer(edit)
        gc.set_threshold(count)
        try:
            yield read()
        finally:
            gc.set_threshold(*thresholds)
        gc.collect()


def many_records(number):
    """Return so many records of the field `number` that the document caches the slots of their message."""
    return wire.varint_record(number, 200) * 100


def test_a_comparison_during_which_an_edit_runs_returns_a_bool():
    def make():
        nodes = [NodeProto.FromString(NodeProto(input=["x"] * 100).SerializeToString()) for _ in range(20)]
        first_graph, second_graph = GraphProto(node=nodes), GraphProto(node=nodes)
        return lambda: first_graph.node.__delitem__(slice(1, None)), lambda: first_graph == second_graph

    assert set(run_with_collections(make)) <= {False, True}


def test_views_of_an_absent_message_follow_it_when_it_is_added():
    source = AttributeProto.FromString(wire.len_record(22, many_records(3)))  # the dims of a sparse_tensor

    def make():
        attribute = AttributeProto()
        sparse = attribute.sparse_tensor
        values = sparse.values
        attribute.CopyFrom(copy.deepcopy(source))

        def edit_values():
            values.name = "edited"
            sparse.ClearField("values")

        def read_state():
            name = values.name
            return (
                name in ("", "edited"),
                len(sparse.dims),
                sparse.HasField("values"),
                sparse == attribute.sparse_tensor,
            )

        return edit_values, read_state

    assert set(run_with_collections(make)) == {(True, 100, False, True)}


def test_an_edit_during_the_first_access_to_a_message_is_not_lost():
    encoded = TensorProto.FromString(many_records(1)).SerializeToString()

    def make():
        tensors = GraphProto.FromString(wire.len_record(5, encoded)).initializer
        first_view, second_view = tensors[0], tensors[0]

        def edit_second_view():
            second_view.name = "other"

        def edit_first_view():
            first_view.doc_string = "one"
            gc.collect()
            return first_view.name, second_view.doc_string, first_view == second_view

        return edit_second_view, edit_first_view

    assert set(run_with_collections(make)) == {("other", "one", True)}


# Name → (edit of a sequence of nodes with the op_types "0" to "7", joined op_types after the edit).
REORDERINGS = {
    "reversed": (lambda nodes: nodes.reverse(), "76543210"),
    "sorted": (lambda nodes: nodes.sort(key=lambda node: -int(node.op_type)), "76543210"),
    "without every second": (lambda nodes: nodes.__delitem__(slice(None, None, 2)), "1357"),
}


@pytest.mark.parametrize("reordering", REORDERINGS)
def test_a_field_that_is_cleared_while_it_is_reordered_stays_consistent(reordering):
    reorder, expected = REORDERINGS[reordering]
    data = GraphProto(node=[NodeProto(op_type=str(i)) for i in range(8)]).SerializeToString()

    def make():
        graph = GraphProto.FromString(data)

        def reorder_and_read():
            with contextlib.suppress(ChangedError):
                reorder(graph.node)
            op_types = "".join(node.op_type for node in graph.node)
            return op_types, GraphProto.FromString(graph.SerializeToString()) == graph

        return lambda: graph.ClearField("node"), reorder_and_read

    assert set(run_with_collections(make)) <= {("", True), (expected, True)}


def test_the_destructor_of_released_memory_may_clear_the_field():
    graph = GraphProto()
    # [False] while an element is added, [True] after the destructor cleared the field, otherwise empty.
    has_cleared = []

    class Memory(bytearray):
        """A buffer whose destructor clears the field, once."""

        def __del__(self):
            if has_cleared == [False]:
                has_cleared[0] = True
                graph.ClearField("node")

    data = NodeProto(attribute=[AttributeProto(name="k", s=b"x" * 10)]).SerializeToString()
    for _ in range(2000):  # after some number of additions, earlier messages are encoded
        node = graph.node.add()
        source = onnxwire.load(Memory(data), type=NodeProto)
        node.attribute.append(source.attribute[0])
        del source, node
        has_cleared[:] = [False]
        graph.node.add(name="q")
        if has_cleared.pop():
            break
    else:
        pytest.fail("no memory was released while an element was added")
    assert len(graph.node) == 0
    assert graph.SerializeToString() == b""


@pytest.mark.parametrize("n_added", [1, 9, 1000])
def test_the_destructor_of_a_value_that_a_merge_replaces_may_extend_another_field(n_added):
    tensor = None

    class Memory(bytearray):
        """A buffer whose destructor adds elements to the tensor."""

        def __del__(self):
            for _ in range(n_added):
                tensor.external_data.add(key="added")

    tensor = onnxwire.from_array(np.frombuffer(Memory(1000), np.uint8), "w")
    for _ in range(3):
        tensor.external_data.add(key="old")
    tensor.MergeFrom(TensorProto(raw_data=b"new", external_data=[{"key": "merged"}] * 3))
    gc.collect()
    assert tensor.raw_data == b"new"
    assert [entry.key for entry in tensor.external_data] == ["old"] * 3 + ["merged"] * 3 + ["added"] * n_added


# --- released objects


def edit_absent_fields():
    """Edit views of an absent graph after the graph was added, and after it was removed."""
    model = ModelProto()
    first_view, second_view = model.graph, model.graph
    model.CopyFrom(ModelProto(graph={"name": "g", "node": [{"name": "n", "attribute": [{"name": "a"}]}]}))
    first_view.name = "one"
    second_view.node[0].attribute[0].t.name = "two"
    model.ClearField("graph")
    second_view.doc_string = "gone"


def read_added_fields():
    """Read and edit views of an absent sparse tensor while it is merged, parsed, copied and cleared."""
    attribute, source = AttributeProto(), AttributeProto(sparse_tensor={"dims": [1], "values": {"name": "v"}})
    values, sparse = attribute.sparse_tensor.values, attribute.sparse_tensor
    attribute.MergeFrom(source)
    attribute.ParseFromString(source.SerializeToString())
    values.dims.append(len(sparse.dims))
    attribute.CopyFrom(source)
    attribute.sparse_tensor.ClearField("values")
    values.name = "gone"
    attribute.Clear()


def switch_oneofs():
    """Write to several members of a oneof, and clear it."""
    type_ = onnxwire.TypeProto()
    tensor, sequence = type_.tensor_type, type_.sequence_type
    tensor.shape.dim.add(dim_value=1)
    sequence.elem_type.tensor_type.elem_type = 3
    type_.optional_type.SetInParent()
    type_.ClearField("value")


def change_iterated_fields():
    """Sort, delete, merge and clear elements while an iterator over them exists."""
    graph = GraphProto.FromString(GraphProto(node=[{"input": ["x"] * 80}] * 9).SerializeToString() * 2)
    nodes, nodes_before = graph.node, graph.node[:]
    iterator = iter(nodes)
    next(iterator)
    nodes.sort(key=lambda node: len(node.input))
    del nodes[2:4]
    nodes_before[3].name = "edited"
    graph.MergeFrom(copy.deepcopy(graph))
    graph.CopyFrom(copy.deepcopy(graph))
    nodes.extend(list(iterator))
    graph.Clear()


def reject_values():
    """Extend a field by values of which the last is invalid, and merge invalid bytes."""
    graph = GraphProto()
    for values in ([NodeProto(), 1], [NodeProto(), None]):
        with pytest.raises(TypeError):
            graph.node.extend(values)
    with pytest.raises(ValueError, match="byte"):
        graph.MergeFromString(b"\x0a")  # the tag of `node` without a length


@pytest.mark.parametrize(
    "operation",
    [edit_absent_fields, read_added_fields, switch_oneofs, change_iterated_fields, reject_values],
)
def test_edits_of_unreachable_messages_are_released(operation):
    n_rounds = 100

    def count_new_blocks():
        gc.collect()
        n_before = sys.getallocatedblocks()
        for _ in range(n_rounds):
            operation()
        gc.collect()
        return sys.getallocatedblocks() - n_before

    count_new_blocks()  # fills caches
    # Other threads of the process may allocate memory, but not during all three counts.
    assert min(count_new_blocks() for _ in range(3)) < n_rounds // 2
    # All new messages share one document.
    assert ModelProto()._document._cache_sizes() == (0, 0, 0, 0, 0)


# --- threads


def test_a_reader_beside_an_editor_gets_old_or_new_values_or_a_changed_error():
    """Long packed runs are decoded while other threads run. Bytes must not be released before the decoding ends."""
    data = TensorProto(int64_data=range(40_000), int32_data=range(40_000)).SerializeToString()
    current_tensor = [TensorProto.FromString(data)]
    failures: list[BaseException] = []
    is_over = threading.Event()

    def read():
        original_tensor = TensorProto.FromString(data)
        while not is_over.is_set():
            tensor = current_tensor[0]
            try:
                for sequence in (tensor.int64_data, tensor.int32_data):
                    array = np.asarray(sequence)
                    assert not len(array) or array[-1] in (39_999, 7), array[-1]
                assert (tensor == original_tensor) in (True, False)
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
        current_tensor[0] = tensor
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
