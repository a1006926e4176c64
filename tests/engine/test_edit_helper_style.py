"""Constructors, typical functions that build or edit models, `==`, and the functions of onnx that build models have the
same results with onnxwire's messages as with official ones."""

from __future__ import annotations

from collections import OrderedDict
from contextlib import contextmanager
from types import MappingProxyType, SimpleNamespace

import numpy as np
import onnx
import pytest
import wire
from each import each
from onnx import compose, external_data_helper, helper, numpy_helper
from wire import assert_same_as_official, result_or_error, snippets


class Dict(dict):
    """A subclass of dict."""


# Names for the expressions below, in addition to the message classes.
EXTRA_NAMES = {"np": np, "Dict": Dict, "OrderedDict": OrderedDict, "MappingProxyType": MappingProxyType}


# --- keywords


@each(
    "expression",
    snippets(
        r"""NodeProto(); NodeProto(op_type='Relu', input=['x']); NodeProto('Relu'); NodeProto({'op_type': 'Relu'});
        NodeProto(None); NodeProto(NodeProto()); NodeProto(b''); NodeProto(no_such_field=1);
        NodeProto(no_such_field=None); NodeProto(op_type=None, input=None, attribute=None); NodeProto(DESCRIPTOR=1);
        NodeProto(op_type='a', no_such_field=2); NodeProto(**{1: 2}); NodeProto(**{'input': []}); NodeProto(**{});
        NodeProto(input='abc'); NodeProto(input=b'abc'); NodeProto(input=['a', None]); NodeProto(input=1);
        NodeProto(input=['a', b'c', '€']); NodeProto(input=[b'\xff']); NodeProto(input=('a', 'b'));
        NodeProto(input={'a': 1, 'b': 2}); NodeProto(input=(x for x in 'ab')); NodeProto(input=np.array(['a', 'b']));
        NodeProto(input=NodeProto(input=['q']).input); NodeProto(input=NodeProto().input); NodeProto(input=NodeProto);
        ModelProto(graph=None, ir_version=None); ModelProto(graph={}); ModelProto(graph=dict(no_such_field=1));
        ModelProto(graph=dict(name='g', node=[dict(op_type='a', input=['x'])])); ModelProto(graph={1: 1});
        ModelProto(graph={'name': None}); ModelProto(graph=GraphProto(name='x')); ModelProto(graph=NodeProto());
        ModelProto(graph=1); ModelProto(graph=[]); ModelProto(graph=[('name', 'x')]); ModelProto(graph='');
        ModelProto(graph=GraphProto); ModelProto(graph=ModelProto().graph); ModelProto(graph=Dict(name='x'));
        ModelProto(graph=OrderedDict(name='x')); ModelProto(graph=MappingProxyType({'name': 'x'}));
        ModelProto(ir_version='1'); ModelProto(ir_version=1 << 70); ModelProto(ir_version=True);
        ModelProto(opset_import={}); ModelProto(opset_import={'a': 1}); ModelProto(opset_import=[{}]);
        ModelProto(opset_import=[{'domain': 'a', 'version': 2}, OperatorSetIdProto(version=3)]);
        ModelProto(opset_import=[None]); ModelProto(opset_import=[1]); ModelProto(opset_import=[GraphProto()]);
        ModelProto(opset_import=[{'no_such_field': 1}]); ModelProto(opset_import=1); ModelProto(opset_import='ab');
        ModelProto(opset_import=(OperatorSetIdProto(version=i) for i in range(2))); ModelProto(opset_import=[Dict()]);
        ModelProto(opset_import=OperatorSetIdProto()); ModelProto(opset_import=[MappingProxyType({})]);
        ModelProto(opset_import=ModelProto(opset_import=[{}]).opset_import); ModelProto(opset_import=[[]]);
        TensorProto(dims=np.array([1, 2])); TensorProto(dims=np.array([1, 2], np.int8)); TensorProto(dims=[True]);
        TensorProto(dims=np.array([1.0, 2])); TensorProto(dims=np.array([True])); TensorProto(dims=range(3));
        TensorProto(dims=np.array([[1], [2]])); TensorProto(float_data=np.array([1.5, 2])); TensorProto(dims=5);
        TensorProto(float_data=np.array([1.5, 2], np.float16)); TensorProto(float_data=[1e39]); TensorProto(dims={3});
        TensorProto(data_type='FLOAT'); TensorProto(data_location='EXTERNAL'); TensorProto(data_location='NOPE');
        TensorProto(data_location=5); TensorProto(segment={'begin': 1}); TensorProto(external_data=[{'key': 'k'}]);
        AttributeProto(type='INTS', ints=[1, 2], name='a', s=b'x', floats=[1], strings=[b'a', b'b']);
        AttributeProto(type=None); AttributeProto(strings=['b']); AttributeProto(s='b');
        AttributeProto(t=TensorProto(), tensors=[TensorProto(name='a'), {}]); AttributeProto(g={'node': [{}, {}]});
        TypeProto(tensor_type=TypeProto.Tensor(elem_type=1), sequence_type=TypeProto.Sequence());
        TypeProto(sequence_type={}, tensor_type={}); TypeProto(tensor_type={}, sequence_type=None);
        TypeProto(value=1); TypeProto(tensor_type={'shape': {'dim': [{'dim_value': 3}, {'dim_param': 'N'}, {}]}});
        TensorShapeProto.Dimension(dim_value=1, dim_param='a');
        TensorShapeProto.Dimension(dim_param='a', dim_value=1); TensorShapeProto(dim=[TensorShapeProto.Dimension()]);
        TensorShapeProto(dim=[TensorShapeProto()]); Everything(many_color=['RED', 1, 'BLUE']);
        Everything(many_color=['no']); Everything(many_color='RED'); Everything(many_shade=[-1, 'HIGHEST']);
        Everything(many_shade=[1]); Everything(packed_bool=[1, 0, True]); Everything(child={'child': {'child': {}}});
        Everything(children=[{'children': [{'one_int32': 3}]}]);
        Everything(last=1, one_double=2.0, pick_far={'text': 'a'}, one_bool=True, many_double=[1.5]);
        Holder(nothing={}); Holder(nothing={'a': 1}); Holder(nothings=[{}, Nothing()]); Nothing(a=1); Nothing(1);
        Sparse(message={'message': {'numbers': [-1, 2]}}, texts=['a'], shade='DARK'); Everything.Tree(branches=[{}])"""
    ),
)  # fmt: skip
def test_a_constructor_with_keywords_has_the_official_result_or_error(expression):
    def body(api):
        result = result_or_error(eval, expression, {**vars(api), **EXTRA_NAMES})
        yield result
        yield b"" if isinstance(result, Exception) else result.SerializeToString()

    assert_same_as_official(body)


@pytest.mark.parametrize("keywords", [{}, {"op_type": "b", "input": ["y"]}, {"attribute": [{"name": "b"}]}, {"no": 1}])
def test_calling_init_again_has_the_official_effect(keywords):
    def body(api):
        node = api.NodeProto(op_type="a", input=["x"])
        yield result_or_error(node.__init__, **keywords), node

    assert_same_as_official(body)


def test_arguments_of_keywords_are_copied():
    def body(api):
        graph, node = api.GraphProto(name="a"), {"op_type": "a", "input": ["x"]}
        model = api.ModelProto(graph=graph)
        second_graph = api.GraphProto(node=[node, node])
        graph.name = "changed"
        node["input"].append("changed")
        second_graph.node[0].op_type = "first"
        yield model, graph, second_graph

    assert_same_as_official(body)


# --- typical builder functions
#
# `api` is a namespace of message classes.


def make_value_info(api, name, elem_type, shape):
    """Return the ValueInfoProto of a tensor. shape: sizes and names of dimensions."""
    info = api.ValueInfoProto(name=name)
    info.type.tensor_type.elem_type = elem_type
    info.type.tensor_type.shape.dim.extend([])  # makes the shape present, as in onnx.helper
    for size in shape:
        info.type.tensor_type.shape.dim.add(**{"dim_param" if isinstance(size, str) else "dim_value": size})
    return info


def make_attribute(api, name, value):
    """Return an attribute whose type follows from the Python type of its value."""
    message = api.AttributeProto(name=name)
    if isinstance(value, api.TensorProto):
        message.type = "TENSOR"
        message.t.CopyFrom(value)
    elif isinstance(value, api.GraphProto):
        message.type = api.AttributeProto.GRAPH
        message.g.MergeFrom(value)
    elif isinstance(value, list):
        message.type = "INTS"
        message.ints[:] = value
    elif isinstance(value, str):
        message.type, message.s = api.AttributeProto.STRING, value.encode()
    elif isinstance(value, float):
        message.type, message.f = api.AttributeProto.FLOAT, value
    else:
        message.type, message.i = api.AttributeProto.INT, value
    return message


def make_node(api, op_type, inputs, outputs, **attributes):
    """Return a node with attributes in alphabetical order."""
    message = api.NodeProto(op_type=op_type, input=inputs, output=outputs)
    message.attribute.extend(make_attribute(api, *pair) for pair in sorted(attributes.items()))
    return message


def make_tensor(api, name, array):
    """Return a tensor whose elements are in raw_data, or in the typed field if there are at most four."""
    message = api.TensorProto(name=name, dims=array.shape)
    message.data_type = api.TensorProto.DataType.Value({"f": "FLOAT", "i": "INT64"}[array.dtype.kind])
    if array.size > 4:
        message.raw_data = array.tobytes()
    elif array.dtype.kind == "f":
        message.float_data.extend(array.ravel())
    else:
        message.int64_data.extend(array.ravel().tolist())
    return message


def build_model(api):
    """Return a model with weights, attributes of six types, subgraphs and a function."""
    body = api.GraphProto(name="body", node=[make_node(api, "Relu", ["h"], ["r"])])
    body.output.append(make_value_info(api, "r", 1, []))
    graph = api.GraphProto(name="main")
    graph.input.extend([make_value_info(api, "x", 1, ["batch", 3]), make_value_info(api, "c", 9, [])])
    graph.initializer.extend([make_tensor(api, "w", np.ones((3, 5), "f")), make_tensor(api, "b", np.arange(3))])
    graph.node.append(
        make_node(
            api,
            "Gemm",
            ["x", "w"],
            ["h"],
            alpha=0.5,
            transB=1,
            mode="ä",
            axes=[1, -2],
            t=make_tensor(api, "", np.ones(2, "f")),
        )
    )
    graph.node.append(make_node(api, "If", ["c"], ["y"], then_branch=body, else_branch=body))
    graph.output.add().CopyFrom(make_value_info(api, "y", 1, ["batch", 5]))
    model = api.ModelProto(ir_version=10, producer_name="test")
    model.graph.CopyFrom(graph)
    model.opset_import.add(version=21)
    model.functions.add(
        name="f", domain="d", input=["a"], output=["b"], node=[make_node(api, "Abs", ["a"], ["b"])], attribute=["k"]
    )
    for key in ("one", "two"):
        entry = model.metadata_props.add()
        entry.key, entry.value = key, key.upper()
    return model


def test_a_model_built_by_hand_is_byte_for_byte_the_official_one():
    def body(api):
        model = build_model(api)
        yield model.SerializeToString(), model

    assert_same_as_official(body)


# --- passes over a model


def rename(model):
    """Name the nodes without a name, and add a prefix to the names of values."""
    for message in model.graph.node:
        message.name = message.name or f"{message.op_type}_{len(message.input)}"
        message.input[:] = [f"p/{name}" for name in message.input]
        for i, name in enumerate(message.output):
            message.output[i] = f"p/{name}"
    for message in (*model.graph.input, *model.graph.output, *model.graph.initializer):
        message.name = f"p/{message.name}"


def drop_subgraphs(model):
    """Remove nodes with subgraphs, and attributes with tensors."""
    for node in list(model.graph.node):
        if any(attribute.HasField("g") for attribute in node.attribute):
            model.graph.node.remove(node)
    for node in model.graph.node:
        attributes_to_keep = [attribute for attribute in node.attribute if attribute.type != attribute.TENSOR]
        del node.attribute[:]
        node.attribute.extend(attributes_to_keep)


def freeze_batch(model):
    """Replace symbolic dimensions of inputs and outputs by 1."""
    for info in (*model.graph.input, *model.graph.output):
        for size in info.type.tensor_type.shape.dim:
            if size.WhichOneof("value") == "dim_param":
                size.dim_value = 1


def sort_model(model):
    """Sort nodes, initializers and attributes, and reverse the metadata."""
    model.graph.node.sort(key=lambda message: message.op_type, reverse=True)
    model.graph.initializer.sort(key=lambda message: message.name)
    model.metadata_props.reverse()
    for message in model.graph.node:
        message.attribute.sort(key=lambda attribute: attribute.name)


def replace_weights(model):
    """Replace the data of all weights by float zeros."""
    for tensor in model.graph.initializer:
        for name in ("raw_data", "float_data", "int64_data"):
            tensor.ClearField(name)
        tensor.raw_data = np.zeros(tuple(tensor.dims), "f").tobytes()
        tensor.data_type = tensor.FLOAT


def insert_nodes(model):
    """Insert two nodes, and move a node to the end."""
    identity = type(model.graph.node[0])(op_type="Identity", input=["x"], output=["x2"])
    model.graph.node.insert(0, identity)
    model.graph.node.insert(1, model.graph.node[0])
    model.graph.node[1].input[0] = model.graph.node[0].output[0]
    model.graph.node.append(model.graph.node.pop(2))


@pytest.mark.parametrize("is_parsed", [False, True], ids=["built", "parsed"])
@pytest.mark.parametrize("edit", [rename, drop_subgraphs, freeze_batch, sort_model, replace_weights, insert_nodes])
def test_a_pass_over_a_model_has_the_official_result(edit, is_parsed):
    def body(api):
        model = build_model(api)
        model = api.ModelProto.FromString(model.SerializeToString()) if is_parsed else model
        edit(model)
        yield model, model.SerializeToString(deterministic=True)

    assert_same_as_official(body)


def test_several_passes_over_a_model_have_the_official_result():
    def body(api):
        model = api.ModelProto.FromString(build_model(api).SerializeToString())
        for edit in (rename, insert_nodes, sort_model, freeze_batch, replace_weights, drop_subgraphs):
            edit(model)
            yield edit.__name__, model
            model = api.ModelProto.FromString(model.SerializeToString())

    assert_same_as_official(body)


# --- equality


@pytest.mark.parametrize(
    ("first_keywords", "second_keywords"),
    [
        ("", "one_int32=0"), ("one_int32=0", "one_int32=0"), ("one_double=nan", "one_double=nan"),
        ("one_double=0.0", "one_double=-0.0"), ("one_float=nan", "one_float=-nan"), ("child={}", ""),
        ("child={}", "child={'child': {}}"), ("many_int32=[1, 2]", "many_int32=[2, 1]"), ("many_int32=[]", ""),
        ("many_double=[nan]", "many_double=[nan]"), ("children=[{}]", "children=[{}, {}]"),
        ("children=[{}]", "children=[{}]"), ("pick_int=1", "pick_text='a'"), ("pick_message={}", "pick_far={}"),
        ("one_string=''", "one_bytes=b''"),
        ("many_int32=[1]", "packed_int32=[1]"), ("one_bool=1", "one_bool=True"), ("one_color='BLUE'", "one_color=2"),
        ("one_float=0.1", "one_float=0.10000000149011612"), ("one_int64=1", "one_uint64=1"), ("", ""),
    ],
)  # fmt: skip
def test_built_messages_are_equal_where_the_official_ones_are(first_keywords, second_keywords):
    def body(api):
        first_message, second_message = (
            eval(f"E({keywords})", {"E": api.Everything, "nan": float("nan")})
            for keywords in (first_keywords, second_keywords)
        )
        reparsed = type(second_message).FromString(second_message.SerializeToString())
        yield (
            first_message == second_message,
            first_message != second_message,
            second_message == first_message,
            reparsed == first_message,
            first_message == reparsed,
            second_message == reparsed,
        )

    assert_same_as_official(body)


def test_equality_follows_edits():
    def body(api):
        first_message = build_model(api)
        second_message = api.ModelProto.FromString(first_message.SerializeToString())
        yield first_message == second_message
        for code in snippets(
            """r.graph.node[0].input.append('w'); r.ir_version = 9; r.graph.node[0].attribute[3].t.dims[0] = 4;
            del r.opset_import[0]; r.ClearField('graph'); r.producer_name = ''"""
        ):  # fmt: skip
            exec(code, {"r": first_message})
            yield first_message == second_message, second_message == first_message
            exec(code, {"r": second_message})
            yield first_message == second_message, second_message == first_message

    assert_same_as_official(body)


def test_an_absent_message_equals_only_an_empty_message_of_its_class():
    def body(api):
        root = api.ModelProto()
        yield (
            root.graph == api.GraphProto(),
            api.GraphProto() == root.graph,
            root.graph == api.NodeProto(),
            root.graph == root.graph,
        )
        yield root.graph != api.GraphProto(name="a"), root.graph == None, result_or_error(hash, root.graph), root  # noqa: E711

    assert_same_as_official(body)


def test_edited_unknown_fields_count_for_equality():
    def body(api):
        first_message = api.ModelProto.FromString(wire.len_record(100, b"a") + wire.varint_record(1, 5))
        second_message = api.ModelProto(ir_version=5)
        yield first_message == second_message
        first_message.DiscardUnknownFields()
        yield first_message == second_message
        second_message.MergeFromString(wire.len_record(100, b"a"))
        first_message.MergeFromString(wire.len_record(100, b"a"))
        yield first_message == second_message, first_message.graph == second_message.graph

    assert_same_as_official(body)


# --- the builders of onnx, with the message classes of each runtime


@contextmanager
def use_classes(api):
    """Make four modules of onnx use the message classes of `api`."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (helper, numpy_helper, compose, external_data_helper):
            for name, cls in vars(api).items():
                if name in vars(module):
                    patch.setattr(module, name, cls)
            if "onnx" in vars(module):
                patch.setattr(module, "onnx", SimpleNamespace(**{**vars(onnx), **vars(api)}))
        # The checker accepts official classes only.
        patch.setattr(compose, "checker", SimpleNamespace(check_model=lambda model: None))
        yield


def make_helper_model(api, name="main", **keywords):
    """Make a model with the functions of `onnx.helper`. Must be called within `use_classes(api)`."""
    weights = helper.make_tensor("w", api.TensorProto.FLOAT, [2, 3], [1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    raw_tensor = helper.make_tensor("r", api.TensorProto.INT64, [2], np.arange(2), raw=True)
    sparse_tensor = helper.make_sparse_tensor(
        helper.make_tensor("s", api.TensorProto.FLOAT, [1], [0.5]),
        helper.make_tensor("i", api.TensorProto.INT64, [1], [2]),
        [9],
    )
    branch = helper.make_graph([helper.make_node("Relu", ["h"], ["r"], name="relu")], "body", [], [], [weights])
    values = {
        "tensor": raw_tensor,
        "tensors": [raw_tensor, weights],
        "strings": ["a", b"b"],
        "floats": [1.5, 2],
        "graphs": [branch],
    }
    values |= {
        "sparse": sparse_tensor,
        "sparses": [sparse_tensor],
        "type": helper.make_tensor_type_proto(1, [1]),
        "ints": np.arange(3),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["h"], name="conv", domain="", strides=[1, 2], alpha=0.5, flag=True),
        helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=branch, doc_string="doc", overload="o"),
        helper.make_node("Misc", [], [], **values),
    ]
    input_info = helper.make_tensor_value_info("x", api.TensorProto.FLOAT, ["batch", 3, None], "doc", ["N", "C", "W"])
    value_infos = [
        helper.make_tensor_value_info("scalar", 1, []),
        helper.make_tensor_value_info("any", 1, None),
        helper.make_sparse_tensor_value_info("sparse", 1, [3, "n"]),
        helper.make_tensor_sequence_value_info("seq", 1, [2]),
        helper.make_value_info("map", helper.make_map_type_proto(7, helper.make_sequence_type_proto(input_info.type))),
        helper.make_value_info("optional", helper.make_optional_type_proto(input_info.type)),
        helper.make_empty_tensor_value_info("e"),
    ]
    condition_info = helper.make_tensor_value_info("c", api.TensorProto.BOOL, [])
    output_info = helper.make_tensor_value_info("y", 1, ["batch"])
    graph = helper.make_graph(nodes, name, [input_info, condition_info], [output_info], [weights, raw_tensor],
                              doc_string="ä€𝄞", value_info=value_infos, sparse_initializer=[sparse_tensor])  # fmt: skip
    function = helper.make_function(
        "d",
        f"f{name}",
        ["a"],
        ["b"],
        nodes[:1],
        [helper.make_opsetid("", 21)],
        ["k"],
        [helper.make_attribute("q", 1)],
        "doc",
        "o",
    )
    model = helper.make_model(
        graph, opset_imports=[helper.make_operatorsetid("", 21)], functions=[function], producer_name="test", **keywords
    )
    helper.set_model_props(model, {"k": "v", "l": ""})
    model.training_info.append(helper.make_training_info(branch, [("a", "b")], branch, [("c", "d")]))
    return model


def test_a_model_made_by_onnx_helper_is_byte_for_byte_the_official_one():
    def body(api):
        with use_classes(api):
            model = make_helper_model(api)
            yield type(model) is api.ModelProto, model.SerializeToString(), model

    assert_same_as_official(body)


NUMERIC_TYPES = [name for name in onnx.TensorProto.DataType.keys() if name not in ("UNDEFINED", "STRING")]  # noqa: SIM118


@pytest.mark.parametrize("name", NUMERIC_TYPES)
def test_tensors_made_by_onnx_are_byte_for_byte_the_official_ones(name):
    def body(api):
        with use_classes(api):
            data_type = api.TensorProto.DataType.Value(name)
            yield helper.make_tensor("t", data_type, [2, 2], [0, 1, 1, 0]).SerializeToString()
            array = np.array([[0, 1], [1, 0]]).astype(helper.tensor_dtype_to_np_dtype(data_type))
            message = numpy_helper.from_array(array, "n")
            yield message.SerializeToString(), message, numpy_helper.to_array(message).tobytes()

    assert_same_as_official(body)


def test_tensors_sequences_maps_and_optionals_made_by_onnx_are_byte_for_byte_the_official_ones():
    def body(api):
        with use_classes(api):
            yield numpy_helper.from_array(np.array(["a", "bc"], object)).SerializeToString()
            yield helper.make_tensor("t", api.TensorProto.STRING, [2], ["a", b"b"]).SerializeToString()
            arrays = [np.arange(3), np.arange(2)]
            yield numpy_helper.from_list(arrays, "l").SerializeToString()
            yield numpy_helper.from_list([arrays, arrays]).SerializeToString()
            map_message = numpy_helper.from_dict({1: np.arange(2), 2: np.arange(2)}, "d")
            yield map_message.SerializeToString(), map_message.keys, len(numpy_helper.to_dict(map_message))
            yield numpy_helper.from_optional(np.arange(3), "o").SerializeToString()
            yield helper.make_optional(
                "p", api.OptionalProto.SEQUENCE, numpy_helper.from_list(arrays)
            ).SerializeToString()
            yield result_or_error(helper.make_sequence, "s", api.SequenceProto.TENSOR, [api.NodeProto()])

    assert_same_as_official(body)


def test_attributes_of_onnx_helper_are_the_official_ones():
    def body(api):
        with use_classes(api):
            for value in (
                1,
                1.5,
                "ä",
                b"b",
                [1, 2],
                [0.5, 1],
                ["a"],
                np.int64(3),
                np.float32(0.1),
                np.array([1, 2]),
                (1,),
                range(3),
            ):
                message = helper.make_attribute("a", value, "doc")
                yield message.SerializeToString(), message, helper.get_attribute_value(message)
            yield (
                helper.make_attribute("a", [], attr_type=api.AttributeProto.STRINGS),
                result_or_error(helper.make_attribute, "a", []),
            )
            yield (
                helper.make_attribute_ref("a", api.AttributeProto.INT),
                result_or_error(helper.make_attribute, "a", {}),
            )

    assert_same_as_official(body)


def test_models_merged_and_prefixed_by_onnx_compose_are_the_official_ones():
    def body(api):
        with use_classes(api):
            first_model, second_model = make_helper_model(api, "one"), make_helper_model(api, "other")
            first_model.functions[0].name = "other name"
            merged = compose.merge_models(first_model, second_model, [("y", "x")], prefix1="a/", prefix2="b/")
            yield merged.SerializeToString(deterministic=True), merged
            prefixed = compose.add_prefix(
                api.ModelProto.FromString(first_model.SerializeToString()), "p/", inplace=True
            )
            yield prefixed
            yield result_or_error(compose.merge_models, first_model, second_model, [("y", "no_such_input")])

    assert_same_as_official(body)


def test_weights_moved_to_a_file_by_onnx_leave_the_official_model(tmp_path):
    def body(api):
        with use_classes(api):
            model = api.ModelProto.FromString(make_helper_model(api).SerializeToString())
            external_data_helper.convert_model_to_external_data(model, location="weights.bin", size_threshold=0)
            yield model
            for tensor in model.graph.initializer:
                if external_data_helper.uses_external_data(tensor):
                    (tmp_path / "weights.bin").unlink(missing_ok=True)
                    external_data_helper.save_external_data(tensor, str(tmp_path))
                    tensor.ClearField("raw_data")
                    yield tensor, (tmp_path / "weights.bin").read_bytes()
            external_data_helper.load_external_data_for_model(model, str(tmp_path))
            external_data_helper.convert_model_from_external_data(model)
            yield model

    assert_same_as_official(body)
