"""Messages are read as in the official runtime. Tests below cover repr, copies, memory, closing, arrays and threads."""

from __future__ import annotations

import copy
import gc
import os
import pickle
import subprocess
import sys
import threading
import weakref
from random import Random

import numpy as np
import onnx
import pytest
import wire
from budget import IS_LONG
from each import each

import onnxwire
from onnxwire.messages import SCHEMA


def make_model():
    """Make an official model with tensors, attributes, subgraphs, an input and metadata."""
    weights = onnx.helper.make_tensor("w", onnx.TensorProto.FLOAT, [2, 3], [1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    indices = onnx.helper.make_tensor("i", onnx.TensorProto.INT64, [3], [1, -2, 1 << 40])
    nodes = [
        onnx.helper.make_node("Conv", ["x", f"w{i}"], [f"y{i}"], name=f"node{i}", strides=[1, i], alpha=0.5, mode="a")
        for i in range(40)
    ]
    body = onnx.helper.make_graph(nodes[:3], "body", [], [], [indices])
    nodes.append(onnx.helper.make_node("If", ["c"], ["z"], then_branch=body, else_branch=body))
    x = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["batch", 3, None])
    graph = onnx.helper.make_graph(nodes, "main", [x], [x], [weights, indices], doc_string="ä€𝄞")
    model = onnx.helper.make_model(graph, producer_name="test", opset_imports=[onnx.helper.make_opsetid("", 21)])
    model.metadata_props.add(key="k", value="v")
    return model


OFFICIAL = make_model()
DATA = OFFICIAL.SerializeToString()


@pytest.fixture
def model():
    """Return the onnxwire model with the encoding DATA."""
    return onnxwire.ModelProto.FromString(DATA)


@pytest.fixture(params=["ours", "official"])
def message_of_runtime(request):
    """Return the message with the encoding DATA; each test runs once for onnxwire and once for the official runtime."""
    return onnxwire.ModelProto.FromString(DATA) if request.param == "ours" else onnx.ModelProto.FromString(DATA)


def evaluate(expression, m):
    """Return the value of an expression of `m` and `np`; after an exception, its most specific builtin class."""
    try:
        return eval(expression, {"m": m, "np": np})
    except Exception as error:
        return next(kind for kind in type(error).__mro__ if kind.__module__ == "builtins")


# --- results and exceptions


@wire.needs_upb
@pytest.mark.parametrize(
    "expression",
    [
        'm.HasField("graph")',
        'm.HasField("model_version")',
        'm.HasField("no_such_field")',
        'm.HasField("opset_import")',
        "m.HasField(1)",
        "m.HasField(None)",
        'm.HasField(b"graph")',
        "m.HasField([])",
        "m.HasField()",
        'm.graph.input[0].type.HasField("value")',
        'm.graph.input[0].type.HasField("denotation")',
        'm.WhichOneof("graph")',
        'm.WhichOneof("no_such_oneof")',
        "m.WhichOneof(1)",
        "m.WhichOneof(None)",
        "m.WhichOneof([])",
        'm.graph.input[0].type.WhichOneof("value")',
        'm.graph.input[0].type.tensor_type.shape.dim[0].WhichOneof("value")',
        'm.graph.input[0].type.tensor_type.shape.dim[1].WhichOneof("value")',
        'm.graph.input[0].type.tensor_type.shape.dim[2].WhichOneof("value")',
        "m.no_such_field",
        "m.graph.node[41]",
        "m.graph.node[-42]",
        'm.graph.node["1"]',
        "m.graph.node[1.0]",
        "m.graph.node[None]",
        "m.graph.node[0].input[2]",
        'm.graph.node[0].input["a"]',
        "m.graph.initializer[0].dims[2]",
        "m.graph.initializer[0].dims[-3]",
        'm.graph.initializer[0].dims["a"]',
        "m.graph.initializer[0].dims[0.5]",
        "m.graph.initializer[0].dims[True]",
        "m.graph.initializer[0].dims[::0]",
        "m.graph.initializer[0].int64_data[0]",
        "hash(m)",
        "hash(m.graph.node)",
        "hash(m.graph.node[0].input)",
        "hash(m.graph.initializer[0].dims)",
        "len(m)",
        "bool(m)",
        'type(m).FromString("text")',
        "type(m).FromString(None)",
        "type(m).FromString(1)",
        'type(m).FromString(b"").ListFields()',
        # The bytes encode the ir_version 1.
        'type(m).FromString(bytearray(b"\x08\1")).ir_version',
        'type(m).FromString(memoryview(b"\x08\1")).ir_version',
        "type(m)().ir_version",
        "type(m)() == m",
        "m == None",
        'm == "text"',
        "m.graph.node == m.graph.node",
        'm.graph.node[0].input == ["x", "w0"]',
        'm.graph.node[0].input == ["x"]',
        'm.graph.node[0].input == ("x", "w0")',
        'm.graph.node[0].input != ["x", "w0"]',
        "m.graph.initializer[0].dims == [2, 3]",
        "m.graph.initializer[0].dims == [2, 4]",
        "m.graph.initializer[0].dims == 5",
        "m.graph.initializer[0].dims == m.graph.initializer[0].dims",
        "m.graph.node[0].attribute == []",
        "list(m.graph.node) == m.graph.node",
        '"x" in m.graph.node[0].input',
        '"q" in m.graph.node[0].input',
        "3 in m.graph.initializer[0].dims",
        "4 in m.graph.initializer[0].dims",
        "m.graph.node[3] in m.graph.node",
        "m.graph.node[3] in m.graph.node[:3]",
        "list(reversed(m.graph.node[0].input))",
        "list(reversed(m.graph.initializer[0].dims))",
        "m.graph.initializer[0].dims[0:5]",
        "m.graph.initializer[0].dims[::-1]",
        "m.graph.initializer[0].float_data[-2:0:-2]",
        "[node.name for node in m.graph.node[35:-1:2]]",
        "[node.name for node in m.graph.node[::-7]]",
        "m.graph.node[np.int64(3)].name",
        "m.graph.initializer[0].dims[np.int32(-1)]",
        "m.graph.doc_string",
        "m.graph.node[0].attribute[0].s",
        "type(m.graph.node[0].attribute[0].type)",
        "m.training_info[0:0] == []",
    ],
)
def test_an_expression_has_the_official_result_or_error(expression):
    our_result = evaluate(expression, onnxwire.ModelProto.FromString(DATA))
    assert our_result == evaluate(expression, onnx.ModelProto.FromString(DATA))
    assert our_result is not NameError


def test_an_attribute_that_is_not_a_field_cannot_be_set(message_of_runtime):
    with pytest.raises(AttributeError):
        message_of_runtime.no_such_field = 1


def test_damaged_bytes_raise_an_error_that_is_a_value_error():
    with pytest.raises(onnxwire.DecodeError) as error_info:
        onnxwire.ModelProto.FromString(b"\x3a\x05abc")  # a graph of 5 bytes, of which 3 are present
    assert isinstance(error_info.value, ValueError)
    assert isinstance(error_info.value, onnxwire.Error)


def test_the_base_of_messages_has_no_instances():
    with pytest.raises(TypeError):
        onnxwire.Message()


def test_every_message_class_is_a_subclass_of_message():
    assert all(issubclass(cls, onnxwire.Message) for cls in SCHEMA.messages.values())


# --- descriptors and enums


def test_the_descriptor_names_the_message(message_of_runtime):
    assert message_of_runtime.DESCRIPTOR.full_name == "onnx.ModelProto"
    assert message_of_runtime.DESCRIPTOR.name == "ModelProto"


def test_the_descriptor_of_a_class_is_that_of_its_messages(message_of_runtime):
    assert type(message_of_runtime).DESCRIPTOR is message_of_runtime.DESCRIPTOR


def test_the_descriptor_finds_fields_by_name(message_of_runtime):
    assert message_of_runtime.DESCRIPTOR.fields_by_name["graph"].number == 7
    assert "no_such_field" not in message_of_runtime.DESCRIPTOR.fields_by_name


def test_the_descriptor_finds_fields_by_number(message_of_runtime):
    assert message_of_runtime.DESCRIPTOR.fields_by_number[7].name == "graph"


def test_a_field_descriptor_names_its_message_and_type(message_of_runtime):
    field = message_of_runtime.DESCRIPTOR.fields_by_name["graph"]
    assert field.full_name == "onnx.ModelProto.graph"
    assert field.containing_type.full_name == "onnx.ModelProto"
    assert field.message_type.full_name == "onnx.GraphProto"
    assert field.enum_type is None
    assert field.containing_oneof is None
    assert field.is_repeated is False
    assert field.type == field.TYPE_MESSAGE
    assert field.has_presence is True


def test_the_descriptor_of_an_enum_field_has_the_values_of_the_enum(message_of_runtime):
    field = message_of_runtime.graph.node[0].attribute[0].DESCRIPTOR.fields_by_name["type"]
    assert field.message_type is None
    assert field.enum_type.full_name == "onnx.AttributeProto.AttributeType"
    assert field.enum_type.values_by_name["INTS"].number == 7
    assert field.enum_type.values_by_number[7].name == "INTS"


def test_a_oneof_descriptor_has_its_fields(message_of_runtime):
    oneof = message_of_runtime.graph.input[0].type.DESCRIPTOR.oneofs_by_name["value"]
    assert "tensor_type" in [field.name for field in oneof.fields]
    assert oneof.fields[0].containing_oneof.name == "value"


def test_fields_are_listed_with_descriptors_and_values(message_of_runtime):
    names = [field.name for field, _ in message_of_runtime.ListFields()]
    assert names == ["ir_version", "producer_name", "graph", "opset_import", "metadata_props"]
    assert message_of_runtime.ListFields()[1][1] == "test"


@wire.needs_upb
@pytest.mark.parametrize(
    "expression",
    [
        "m.Name(1)",
        "m.Name(True)",
        "m.Name(99)",
        "m.Name(-1)",
        'm.Name("FLOAT")',
        "m.Name(1.0)",
        "m.Name(None)",
        'm.Value("FLOAT")',
        'm.Value("no_such_value")',
        "m.Value(1)",
        "m.Value(None)",
        "sorted(m.keys())",
        "sorted(m.values())",
        "sorted(m.items())",
        "m.FLOAT",
        "m.no_such_value",
        "m.DESCRIPTOR.full_name",
        "m.DESCRIPTOR.name",
    ],
)
@pytest.mark.parametrize("name", ["DataType", "AttributeType"])
def test_an_enum_wrapper_has_the_official_result_or_error(name, expression):
    class_name = "TensorProto" if name == "DataType" else "AttributeProto"
    our_enum, official_enum = (getattr(getattr(package, class_name), name) for package in (onnxwire, onnx))
    assert evaluate(expression, our_enum) == evaluate(expression, official_enum)


def test_an_enum_wrapper_lists_names_and_numbers_by_number():
    expected = sorted(onnx.AttributeProto.AttributeType.items(), key=lambda item: item[1])
    assert onnxwire.AttributeProto.AttributeType.items() == expected
    assert onnxwire.AttributeProto.AttributeType.keys() == [name for name, _ in expected]
    assert onnxwire.AttributeProto.AttributeType.values() == [number for _, number in expected]
    assert list(onnxwire.AttributeProto.AttributeType) == [name for name, _ in expected]


@pytest.mark.parametrize("name", ["Version", "OperatorStatus"])
def test_a_top_level_enum_has_the_official_names_and_numbers(name):
    assert getattr(onnxwire, name).items() == getattr(onnx.onnx_ml_pb2, name).items()


def test_enum_values_are_attributes_of_messages_their_classes_and_the_package(model):
    tensor = model.graph.initializer[0]
    assert onnxwire.TensorProto.FLOAT == tensor.FLOAT == onnx.TensorProto.FLOAT
    assert onnxwire.EXPERIMENTAL == onnx.EXPERIMENTAL


def test_field_numbers_are_constants_of_classes(message_of_runtime):
    assert type(message_of_runtime).GRAPH_FIELD_NUMBER == message_of_runtime.GRAPH_FIELD_NUMBER == 7


def test_nested_classes_are_attributes_of_their_parents():
    assert onnxwire.TypeProto.Tensor.DESCRIPTOR.full_name == onnx.TypeProto.Tensor.DESCRIPTOR.full_name
    assert onnxwire.TypeProto.Tensor.DESCRIPTOR.containing_type is onnxwire.TypeProto.DESCRIPTOR


# --- sequences


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 100])
def test_every_index_of_a_sequence_of_any_length_returns_its_element(count):
    names = [f"n{i}" for i in range(count)]
    official = onnx.NodeProto(input=names)
    our_names = onnxwire.NodeProto.FromString(official.SerializeToString()).input
    assert [our_names[i] for i in range(count)] == names
    assert [our_names[i - count] for i in range(count)] == names
    assert (list(our_names), our_names[:], len(our_names)) == (names, names, count)


def test_elements_can_be_read_by_index_in_any_order():
    names = [f"n{i}" for i in range(50)]
    our_node = onnxwire.NodeProto.FromString(onnx.NodeProto(input=names).SerializeToString())
    assert [our_node.input[i] for i in (49, 0, 7, 8, 48, 8)] == [names[i] for i in (49, 0, 7, 8, 48, 8)]


def test_two_iterators_of_a_sequence_are_independent(model):
    first_iterator, second_iterator = iter(model.graph.node), iter(model.graph.node)
    assert [next(first_iterator).name, next(first_iterator).name, next(second_iterator).name] == [
        "node0",
        "node1",
        "node0",
    ]


def test_an_iterator_outlives_its_sequence_and_message():
    iterator = iter(onnxwire.ModelProto.FromString(DATA).graph.node)
    gc.collect()
    assert [node.name for node in iterator] == [node.name for node in OFFICIAL.graph.node]


def test_repeated_fields_are_instances_of_sequence(model):
    from collections.abc import Sequence

    assert isinstance(model.graph.node, Sequence)
    assert isinstance(model.graph.initializer[0].dims, Sequence)


@pytest.mark.parametrize("name", ["dims", "string_data"])
def test_index_and_count_of_a_sequence_are_those_of_a_list(name):
    values = {"dims": [5, 6, 5], "string_data": [b"a", b"b", b"a"]}[name]
    official = onnx.TensorProto(**{name: values})
    sequence = getattr(onnxwire.TensorProto.FromString(official.SerializeToString()), name)
    assert [sequence.index(value) for value in values] == [values.index(value) for value in values]
    assert sequence.index(values[0], 1) == values.index(values[0], 1)
    assert [sequence.count(value) for value in values] == [values.count(value) for value in values]
    with pytest.raises(ValueError, match="not in list"):
        sequence.index(None)


# --- repr


def test_the_repr_of_a_big_tensor_is_short():
    tensor = onnx.TensorProto(name="weights", data_type=1, dims=[10_000_000], raw_data=b"\1" * 10_000_000)
    text = repr(onnxwire.TensorProto.FromString(tensor.SerializeToString()))
    assert len(text) < 2000
    assert "weights" in text
    assert "10,000,000 bytes" in text


@pytest.mark.parametrize("name", ["float_data", "int64_data"])
def test_the_repr_of_many_numbers_is_short(name):
    tensor = onnx.TensorProto(**{name: range(100_000)})
    assert len(repr(onnxwire.TensorProto.FromString(tensor.SerializeToString()))) < 2000


def test_the_repr_of_many_messages_is_short():
    model = onnx.ModelProto()
    for i in range(10_000):
        model.graph.node.add(name=f"node{i}")
    text = repr(onnxwire.ModelProto.FromString(model.SerializeToString()).graph)
    assert len(text) < 2000
    assert "10,000" in text


def test_the_repr_of_a_long_sequence_is_short():
    graph = onnxwire.GraphProto(
        node=[onnxwire.NodeProto(name=f"node{i}", op_type="Relu") for i in range(5000)],
        initializer=[onnxwire.TensorProto(int64_data=range(5000), string_data=[b"x" * 100_000, b"y"] * 3000)],
    )
    for message in (graph, onnxwire.GraphProto.FromString(graph.SerializeToString())):
        text = repr(message.node)
        assert text.startswith("[NodeProto(name='node0', op_type='Relu'), NodeProto(name='node1'")
        assert text.endswith(" more]")
        assert len(text) < 20_000
        assert repr(message.initializer[0].int64_data) == f"{str(list(range(1000)))[:-1]}, ... 4,000 more]"
        text = repr(message.initializer[0].string_data)
        assert text.endswith("x'..., ... 5,999 more]")
        assert len(text) < 20_000


def test_the_repr_of_a_message_names_its_class_and_values(model):
    text = repr(model.graph.node[0])
    assert all(part in text for part in ("NodeProto", "Conv", "node0", "w0"))


def test_the_repr_of_a_damaged_message_contains_the_error():
    model = onnxwire.ModelProto.FromString(
        wire.len_record(7, b"\x0a\x05abc")
    )  # a node of 5 bytes, of which 3 are present
    assert "past the end" in repr(model.graph)


def test_the_repr_of_a_message_with_damage_in_it_does_not_fail():
    # ints is a packed run that ends inside a varint.
    assert "AttributeProto" in repr(
        onnxwire.AttributeProto.FromString(wire.len_record(1, b"n") + wire.len_record(8, b"\x80"))
    )


# --- copies


@pytest.mark.parametrize(
    "copy_function", [copy.copy, copy.deepcopy, lambda message: pickle.loads(pickle.dumps(message))]
)
def test_a_copy_is_an_equal_message_of_the_same_class(model, copy_function):
    for message in (model, model.graph, model.graph.node[0], model.graph.initializer[1]):
        copied_message = copy_function(message)
        assert copied_message == message
        assert type(copied_message) is type(message)
        assert copied_message.SerializeToString() == message.SerializeToString()


@pytest.mark.parametrize("copy_function", [copy.deepcopy, lambda message: pickle.loads(pickle.dumps(message))])
def test_a_copy_of_a_sequence_is_equal(model, copy_function):
    for sequence in (model.graph.node, model.graph.node[0].input, model.graph.initializer[0].dims):
        assert copy_function(sequence) == sequence


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_messages_of_nested_classes_can_be_pickled_by_every_protocol(model, protocol):
    tensor_type = model.graph.input[0].type.tensor_type
    assert pickle.loads(pickle.dumps(tensor_type, protocol)) == tensor_type


def test_a_copy_of_a_merged_message_is_equal():
    # Two records of the graph, with a node named "a" and a node named "b".
    encoded = b"".join(wire.len_record(7, wire.len_record(1, wire.len_record(3, name))) for name in (b"a", b"b"))
    graph = onnxwire.ModelProto.FromString(encoded).graph
    assert copy.deepcopy(graph) == graph
    assert [node.name for node in copy.deepcopy(graph).node] == ["a", "b"]


def test_a_deep_copy_outlives_the_document(tmp_path):
    path = tmp_path / "model.onnx"
    path.write_bytes(DATA)
    with onnxwire.load(path) as model:
        copied_graph = copy.deepcopy(model.graph)
    assert copied_graph.name == "main"


# --- memory


def test_views_are_not_tracked_by_the_garbage_collector(model):
    nodes, dims = model.graph.node, model.graph.initializer[0].dims
    for view in (model, model.graph, nodes, nodes[0], dims, iter(nodes), iter(dims)):
        assert not gc.is_tracked(view)


def test_views_have_no_dict(model):
    assert not hasattr(model, "__dict__")
    assert not hasattr(model.graph.node, "__dict__")


@pytest.mark.parametrize("read_value", [
    lambda model: model.graph.node[7].name,
    lambda model: model.graph.initializer[0].float_data[5],
    lambda model: model.graph.node[1].input[1],
    lambda model: model.graph.node[-1].attribute[0].g.node[2].name,
])  # fmt: skip
def test_a_view_keeps_the_document_alive_after_the_root_view_is_released(tmp_path, read_value):
    path = tmp_path / "model.onnx"
    path.write_bytes(DATA)
    model = onnxwire.load(path)
    graph = model.graph
    del model
    gc.collect()
    assert read_value(type("Root", (), {"graph": graph})) == read_value(OFFICIAL)


@pytest.mark.parametrize("read_value", [
    lambda model: model.graph.node,
    lambda model: model.graph.initializer[0].dims,
    lambda model: iter(model.graph.node),
    lambda model: iter(model.graph.initializer[1].dims),
    lambda model: np.asarray(model.graph.initializer[0].float_data),
    lambda model: np.asarray(model.graph.initializer[0].dims),
    lambda model: memoryview(model.graph.initializer[0].float_data),
])  # fmt: skip
def test_a_value_read_from_a_message_outlives_the_message(read_value):
    value_read = read_value(onnxwire.ModelProto.FromString(bytes(bytearray(DATA))))
    gc.collect()
    expected = list(read_value(OFFICIAL)) if not isinstance(value_read, memoryview) else [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    values = [value.name if isinstance(value, onnxwire.Message) else value for value in value_read]
    assert values == [value.name if isinstance(value, onnx.NodeProto) else value for value in expected]


def test_the_last_view_releases_the_bytes():
    class Bytes(np.ndarray):
        pass

    data = np.frombuffer(DATA, np.uint8).view(Bytes)
    data_reference = weakref.ref(data)
    model = onnxwire.load(data)
    node = model.graph.node[3]
    del data, model
    gc.collect()
    assert data_reference() is not None
    del node
    gc.collect()
    assert data_reference() is None


def test_many_views_of_one_class_have_separate_values():
    model = onnxwire.ModelProto.FromString(DATA)
    nodes = [node for _ in range(20) for node in model.graph.node]
    assert [node.name for node in nodes] == [node.name for node in OFFICIAL.graph.node] * 20
    del nodes[::2]
    nodes += list(model.graph.node)
    assert [node.name for node in nodes[-41:]] == [node.name for node in OFFICIAL.graph.node]


# --- closing


@pytest.fixture
def path(tmp_path):
    """Return the path of a file with DATA."""
    path = tmp_path / "model.onnx"
    path.write_bytes(DATA)
    return path


@pytest.mark.parametrize("expression", [
    "m.ir_version",
    "m.graph",
    "g.name",
    "g.node",
    'g.HasField("name")',
    "g.ListFields()",
    'g.input[0].type.WhichOneof("value")',
    "g == g",
    "g.SerializeToString()",
    "g.ByteSize()",
    "copy.deepcopy(g)",
    "pickle.dumps(g)",
    "len(n)",
    "n[0]",
    "n[-1]",
    "n[99]",
    "n[1:2]",
    "list(n)",
    "n == n",
    "len(s)",
    "s[0]",
    "s[-1]",
    "s[99]",
    "s[1:2]",
    "bool(s)",
    "list(s)",
    "1.0 in s",
    "np.asarray(s)",
    "memoryview(s)",
])  # fmt: skip
def test_a_closed_document_raises_closed_error_in_every_use(path, expression):
    with onnxwire.load(path) as model:
        graph, nodes, numbers = model.graph, model.graph.node, model.graph.initializer[0].float_data
        assert (graph.name, len(nodes), numbers[0]) == ("main", 41, 1.0)
    with pytest.raises(onnxwire.ClosedError):
        eval(expression, {"m": model, "g": graph, "n": nodes, "s": numbers, "np": np, "copy": copy, "pickle": pickle})


@pytest.mark.parametrize("expression", [
    "len(n)",
    "n[0]",
    "len(s)",
    "s[0]",
    "bool(s)",
    "list(s)",
    "next(i)",
    "next(j)",
    "memoryview(s)",
])  # fmt: skip
def test_sequences_that_were_not_read_before_closing_raise_closed_error(path, expression):
    with onnxwire.load(path) as model:
        nodes, numbers = model.graph.node, model.graph.initializer[0].float_data
        node_iterator, number_iterator = iter(nodes), iter(model.graph.initializer[0].dims)
    with pytest.raises(onnxwire.ClosedError):
        eval(expression, {"n": nodes, "s": numbers, "i": node_iterator, "j": number_iterator})


def test_the_repr_of_a_closed_message_contains_the_error(path):
    with onnxwire.load(path) as model:
        pass
    assert "closed" in repr(model)


def test_closing_twice_is_not_an_error(path):
    model = onnxwire.load(path)
    model.close()
    model.close()


def test_values_outlive_the_document(path):
    with onnxwire.load(path) as model:
        name, attribute = model.graph.name, model.graph.node[0].attribute[0]
        kind, text = attribute.type, model.graph.doc_string
    assert (name, kind, text) == ("main", OFFICIAL.graph.node[0].attribute[0].type, "ä€𝄞")


@pytest.mark.parametrize("array_function", [np.asarray, memoryview])
def test_closing_raises_in_use_error_while_an_array_refers_to_the_document(path, array_function):
    with pytest.raises(onnxwire.InUseError), onnxwire.load(path) as model:
        array = array_function(model.graph.initializer[0].float_data)
    assert list(array) == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]


def test_a_document_that_could_not_be_closed_still_reads_and_closes_later(path):
    model = onnxwire.load(path)
    array = np.asarray(model.graph.initializer[0].float_data)
    array_part = array[2:]
    del array
    with pytest.raises(onnxwire.InUseError):
        model.close()
    assert model.graph.name == "main"
    assert array_part.tolist() == [3.0, 4.0, 5.0, 6.0]
    del array_part
    model.close()
    with pytest.raises(onnxwire.ClosedError):
        _ = model.graph


def test_an_array_of_decoded_numbers_does_not_keep_the_document_open(path):
    with onnxwire.load(path) as model:
        array = np.asarray(model.graph.initializer[0].dims)
    assert array.tolist() == [2, 3]


def test_the_error_of_the_with_block_is_not_hidden_by_closing(path):
    with pytest.raises(KeyError), onnxwire.load(path):
        raise KeyError


# --- numpy


@pytest.mark.parametrize(
    ("name", "dtype"),
    [("dims", np.int64), ("float_data", np.float32), ("int32_data", np.int32), ("int64_data", np.int64),
     ("double_data", np.float64), ("uint64_data", np.uint64)],
)  # fmt: skip
def test_an_array_of_numbers_has_their_dtype_and_values(name, dtype):
    official = onnx.TensorProto(**{name: [1, 2, 300]})
    array = np.asarray(getattr(onnxwire.TensorProto.FromString(official.SerializeToString()), name))
    assert array.dtype == dtype
    assert array.tolist() == list(getattr(official, name))


def test_an_array_of_a_packed_float_run_shares_the_memory_of_the_document():
    data = np.frombuffer(DATA, np.uint8)
    tensor = onnxwire.load(data).graph.initializer[0]
    array = np.asarray(tensor.float_data)
    assert np.shares_memory(array, data)
    assert array.tolist() == list(OFFICIAL.graph.initializer[0].float_data)


def test_an_array_of_unpacked_floats_has_their_values():
    field = onnxwire.AttributeProto.DESCRIPTOR.fields_by_name["floats"]
    encoded = onnx.AttributeProto(floats=[1.5, -2.5, 0.0]).SerializeToString()
    assert encoded.count(wire.tag(field.number, wire.FIXED32)) == 3
    assert np.asarray(onnxwire.AttributeProto.FromString(encoded).floats).tolist() == [1.5, -2.5, 0.0]


def test_an_empty_sequence_becomes_an_empty_array():
    assert np.asarray(onnxwire.TensorProto().float_data).shape == (0,)


def test_writing_to_an_array_copied_from_a_sequence_does_not_change_the_sequence(model):
    array = np.array(model.graph.initializer[0].float_data)
    array[0] = 7
    assert model.graph.initializer[0].float_data[0] == 1.0


@pytest.mark.parametrize(
    ("name", "encoded"),
    # A float of 3 bytes, and varints that end too soon.
    [
        ("float_data", wire.len_record(4, b"abc")),
        ("int64_data", wire.len_record(7, b"\x80")),
        ("dims", wire.len_record(1, b"\x80")),
    ],
)
def test_an_array_of_a_damaged_run_raises_decode_error(name, encoded):
    with pytest.raises(onnxwire.DecodeError):
        np.asarray(getattr(onnxwire.TensorProto.FromString(encoded), name))


# --- code that runs during a call, and bytes that change between calls


def run_in_process(code, *arguments):
    """Run a program in a child process, because the program may crash; return the text that it prints to stdout."""
    package_parent = os.path.dirname(os.path.dirname(onnxwire.__file__))
    process = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {package_parent!r})\n{code}", *map(str, arguments)],
        capture_output=True, text=True,
    )  # fmt: skip
    assert process.returncode == 0, process.stderr or f"died of signal {-process.returncode}"
    return process.stdout


@pytest.mark.parametrize("index", ["closing", "slice(closing, 30)", "slice(0, closing)", "slice(0, 30, closing)"])
@pytest.mark.parametrize("name", ["float_data", "string_data"])
def test_an_index_that_closes_the_document_raises_closed_error(tmp_path, name, index):
    official = onnx.TensorProto(float_data=range(5000), string_data=[b"abc" * 100] * 50)
    (tmp_path / "tensor.pb").write_bytes(official.SerializeToString())
    code = f"""
import onnxwire
tensor = onnxwire.load(sys.argv[1], onnxwire.TensorProto)
class Closing:
    def __index__(self):
        tensor.close()
        return 3
closing = Closing()
sequence = tensor.{name}
sequence[40]
try:
    sequence[{index}]
except onnxwire.ClosedError:
    print("ClosedError")
"""
    assert run_in_process(code, tmp_path / "tensor.pb") == "ClosedError\n"


def test_a_searched_object_that_closes_the_document_when_compared_raises_closed_error(path):
    model = onnxwire.load(path)

    class Closing:
        def __eq__(self, other):
            model.close()
            return False

        __hash__ = None

    with pytest.raises(onnxwire.ClosedError):
        Closing() in model.graph.node[0].input  # noqa: B015


@each("seed", range(100 if IS_LONG else 25))
def test_bytes_that_change_between_two_reads_raise_decode_error_or_no_error(seed):
    rng = Random(seed)
    data = bytearray(DATA)
    model = onnxwire.load(data)
    messages = [model, model.graph, *model.graph.node, *model.graph.initializer, model.graph.node[-1].attribute[0].g]
    for message in messages[:: rng.randint(1, 3)]:
        wire.walk_all_fields(message)
    for _ in range(rng.randint(1, 40)):
        data[rng.randrange(len(data))] = rng.choice([0, 0x7F, 0x80, 0xFF, rng.randrange(256)])
    for message in messages:
        wire.walk_all_fields(message)


# --- threads

N_THREADS = 8


def run_in_threads(function):
    """Run a function in N_THREADS threads that start at the same time; return the results."""
    barrier, results, errors = threading.Barrier(N_THREADS), [None] * N_THREADS, []

    def run_function(i):
        try:
            barrier.wait()
            results[i] = function()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run_function, args=(i,)) for i in range(N_THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    return results


def all_values(message):
    """Return all fields in a message, as nested lists of pairs (name, value)."""
    values = []
    for field, value in message.ListFields():
        if field.message_type is not None:
            value = [all_values(element) for element in value] if field.is_repeated else all_values(value)
        elif field.is_repeated:
            value = list(value)
        values.append((field.name, value))
    return values


def test_threads_that_read_every_field_of_one_message_get_the_same_values(model):
    assert run_in_threads(lambda: all_values(model)) == [all_values(OFFICIAL)] * N_THREADS


@pytest.mark.parametrize("_", range(10))
def test_threads_that_make_new_views_at_the_same_time_get_the_same_values(_):
    model = onnxwire.ModelProto.FromString(DATA)
    assert (
        run_in_threads(lambda: [node.name for node in model.graph.node])
        == [[node.name for node in OFFICIAL.graph.node]] * N_THREADS
    )


@pytest.mark.parametrize("_", range(10))
def test_threads_that_share_one_sequence_get_the_same_values(_):
    values = [(i * 0x9E3779B97F4A7C15) % (1 << 62) for i in range(50_000)]  # long enough to be decoded without the GIL
    data = onnx.TensorProto(int64_data=values).SerializeToString()
    numbers = onnxwire.TensorProto.FromString(data).int64_data
    results = run_in_threads(lambda: (np.asarray(numbers).tolist(), numbers[-1], len(numbers)))
    assert all(result == (values, values[-1], len(values)) for result in results)


@pytest.mark.parametrize("_", range(10))
def test_threads_that_share_one_iterator_get_every_element_once(_):
    nodes = iter(onnxwire.ModelProto.FromString(DATA).graph.node)
    names = [
        name for names_of_thread in run_in_threads(lambda: [node.name for node in nodes]) for name in names_of_thread
    ]
    assert sorted(names) == sorted(node.name for node in OFFICIAL.graph.node)


def test_arrays_of_one_sequence_made_by_threads_at_once_keep_their_values():
    # Several threads decode the numbers without the GIL. The numbers of one thread must not be freed when another
    # thread finishes. If they were, the new arrays would be allocated in their memory.
    code = """
import threading
import numpy as np
import onnxwire
encoded = bytes.fromhex(sys.argv[1]) + bytes.fromhex("ffffffffffffffff01") * 100_000
expected = np.full(100_000, (1 << 57) - 1)
n_wrong = 0
for _ in range(20):
    numbers = onnxwire.TensorProto.FromString(encoded).int64_data
    barrier, arrays, new_arrays = threading.Barrier(8), [None] * 8, [None] * 8
    def run(i):
        barrier.wait()
        arrays[i] = np.asarray(numbers)
        barrier.wait()
        new_arrays[i] = [np.full(100_000, 7) for _ in range(3)]
    threads = [threading.Thread(target=run, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    n_wrong += sum(not np.array_equal(array, expected) for array in arrays)
print(n_wrong)
"""
    record_start = wire.tag(7, wire.LEN) + wire.varint(900_000)  # int64_data: 100,000 varints of 9 bytes
    assert run_in_process(code, record_start.hex()) == "0\n"


def test_several_threads_can_verify_one_file(path):
    assert run_in_threads(lambda: onnxwire.verify(path)) == [None] * N_THREADS


@pytest.mark.parametrize("_", range(10))
def test_reading_and_closing_in_threads_raise_only_closed_and_in_use_errors(_):
    values = list(range(1 << 20, (1 << 20) + 50_000))
    tensor = onnxwire.load(onnx.TensorProto(int64_data=values).SerializeToString(), onnxwire.TensorProto)

    def read_or_close():
        try:
            n_numbers = len(tensor.int64_data)
            tensor.close()
        except (onnxwire.ClosedError, onnxwire.InUseError):
            return len(values)
        return n_numbers

    assert run_in_threads(read_or_close) == [len(values)] * N_THREADS


# --- further cases


def test_an_enum_wrapper_accepts_numpy_integers():
    assert onnxwire.TensorProto.DataType.Name(np.int64(1)) == "FLOAT"
    with pytest.raises(TypeError):
        onnxwire.TensorProto.DataType.Name("1")


def test_enum_wrappers_can_be_copied_and_pickled():
    wrapper = onnxwire.TensorProto.DataType
    assert copy.copy(wrapper).FLOAT == copy.deepcopy(wrapper).FLOAT == pickle.loads(pickle.dumps(wrapper)).FLOAT == 1


def test_an_empty_dict_of_keywords_makes_an_empty_message():
    assert onnxwire.NodeProto(**{}) == onnxwire.NodeProto()


def test_a_class_that_was_not_made_from_a_table_is_not_a_message_class():
    with pytest.raises(TypeError):

        class SubclassOfNode(onnxwire.NodeProto):
            pass

    class SubclassOfMessage(onnxwire.Message):
        pass

    for cls in (SubclassOfMessage, onnxwire.Message):
        with pytest.raises(TypeError, match="message class"):
            cls.FromString(b"")


def test_a_sequence_differs_from_sequences_of_another_length_content_or_kind():
    node = onnxwire.NodeProto.FromString(onnx.NodeProto(input=["a", "b"]).SerializeToString())
    assert node.input == ["a", "b"] and node.input == node.input
    assert node.input != ["a"] and node.input != ["a", "c"] and node.input != ("a", "b") and node.input != node.output


def test_a_message_type_of_more_than_65536_fields_distinguishes_them(tmp_path):
    rows = "".join(f"| {i} | f{i} | int32 | optional | | | | | |\n" for i in range(1, 70_001))
    header = "| number | name | type | label | oneof | packed | since | until | doc |\n|-|-|-|-|-|-|-|-|-|\n"
    (tmp_path / "wide.md").write_text(f"# wide\n\npackage: wide\n\n## message Wide\n\nWide.\n\n{header}{rows}")
    schema = onnxwire.load_schema(tmp_path / "wide.md")
    tag = wire.varint(65_537 << 3)
    message = schema.messages["wide.Wide"].FromString(tag + wire.varint(42))
    assert [(field.name, value) for field, value in message.ListFields()] == [("f65537", 42)]


def test_strings_of_any_bytes_are_read_unchanged_any_number_of_times() -> None:
    # Some strings differ in one byte only, in the middle or at an end; other strings are not ASCII, or not UTF-8.
    texts = [b"x" * n for n in range(40)]
    texts += [b"x" * i + b"y" + b"x" * (n - i - 1) for n in range(1, 40) for i in range(n)]
    texts += [b"x" * i + b + b"x" * (n - i) for b in ("ä".encode(), b"\xff") for n in range(20) for i in range(n)]
    texts += [b"x" * n + b"\xc3\xa9" for n in range(250, 262)]
    data = b"".join(wire.len_record(1, text) for text in texts)  # the field input
    expected = [text.decode("utf-8", "surrogateescape") for text in texts]
    node = onnxwire.NodeProto.FromString(data)
    for _ in range(3):
        assert list(node.input) == expected
        assert [node.input[i] for i in range(len(texts))] == expected


def test_a_string_outlives_its_document() -> None:
    model = onnxwire.ModelProto.FromString(onnx.ModelProto(producer_name="short").SerializeToString())
    names = [model.producer_name for _ in range(100)]
    model.close()
    assert set(names) == {"short"}
    with pytest.raises(onnxwire.ClosedError):
        _ = model.producer_name
