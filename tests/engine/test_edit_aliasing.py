"""Views of one message share its edits; removed messages remain usable; copies are independent.

In the strings of Python code, `r` is a model, `g` its graph, `s` a sequence, `t` a tensor and `e` an Everything, a
message of tests/everything.md. `M`, `G`, `T` and `E` are the classes of `r`, `g`, `t` and `e`.
"""

from __future__ import annotations

import copy
import gc
import pickle

import pytest
import wire
from wire import assert_same_as_official, snippets

BUILT_OR_PARSED = pytest.mark.parametrize("is_parsed", [False, True], ids=["built", "parsed"])


def build_model(api, is_parsed):
    """Return a model with two nodes, an attribute and an initializer. is_parsed: whether it is parsed from bytes."""
    built = api.ModelProto(ir_version=8, graph={"name": "main"}, opset_import=[{"version": 1}, {"version": 2}])
    built.graph.node.add(op_type="a", input=["x", "y"]).attribute.add(name="k", ints=[1, 2], t={"dims": [3]})
    built.graph.node.add(op_type="b", output=["z"])
    built.graph.initializer.add(dims=[1, 2], float_data=[0.5, 1.5], raw_data=b"raw")
    return api.ModelProto.FromString(built.SerializeToString()) if is_parsed else built


# --- several views of one message


@BUILT_OR_PARSED
def test_an_edit_is_visible_in_another_view_of_the_message(is_parsed):
    def body(api):
        root = build_model(api, is_parsed)
        first_view, second_view = root.graph, root.graph
        first_view.name = "one"
        second_view.doc_string = "other"
        first_view.node.add(op_type="c")
        second_view.node[0].input.append("w")
        yield first_view, second_view, root, first_view == second_view

    assert_same_as_official(body)


@BUILT_OR_PARSED
def test_an_edit_is_visible_in_another_view_of_the_element(is_parsed):
    def body(api):
        root = build_model(api, is_parsed)
        first_view, second_view, third_view = root.graph.node[0], next(iter(root.graph.node)), root.graph.node[:1][0]
        first_view.op_type = "one"
        second_view.input.append("other")
        third_view.attribute[0].ints[1] = 7
        yield first_view, second_view, third_view, root

    assert_same_as_official(body)


@BUILT_OR_PARSED
def test_an_edit_is_visible_in_another_view_of_the_sequence(is_parsed):
    def body(api):
        root = build_model(api, is_parsed)
        for get_view in (
            lambda: root.graph.node[0].input, lambda: root.graph.node[0].attribute[0].ints,
            lambda: root.graph.initializer[0].float_data,
        ):  # fmt: skip
            first_view, second_view = get_view(), get_view()
            length = len(second_view)
            first_view.append(first_view[0])
            second_view.insert(0, second_view[1])
            first_view[1:3] = []
            yield length, first_view, second_view, first_view == second_view, len(first_view), len(second_view), root

    assert_same_as_official(body)


@BUILT_OR_PARSED
def test_an_edit_is_visible_in_another_view_of_the_sequence_of_messages(is_parsed):
    def body(api):
        root = build_model(api, is_parsed)
        first_view, second_view = root.graph.node, root.graph.node
        yield len(first_view), second_view[1], first_view[0]
        first_view.add(op_type="c")
        del second_view[0]
        first_view.insert(0, api.NodeProto(op_type="d"))
        yield len(first_view), len(second_view), first_view, second_view, second_view[1], first_view[-1], root

    assert_same_as_official(body)


@BUILT_OR_PARSED
def test_a_sequence_that_was_read_before_an_edit_has_the_edited_elements(is_parsed):
    def body(api):
        root = build_model(api, is_parsed)
        dims, names = root.graph.initializer[0].dims, root.graph.node[0].input
        yield list(dims), list(names), dims[1], names[-1], len(dims)
        root.graph.initializer[0].dims.extend([5, 6])
        root.graph.node[0].input[0] = "new"
        yield list(dims), list(names), dims[-1], names[0], len(dims), 6 in dims

    assert_same_as_official(body)


@BUILT_OR_PARSED
def test_views_of_elements_remain_valid_when_the_sequence_is_rearranged(is_parsed):
    edits = snippets(
        "s.reverse(); s.sort(key=lambda o: -o.version); del s[0]; s.insert(0, s[1]); s.add(version=9); s.pop()"
    )

    def body(api):
        for code in edits:
            root = build_model(api, is_parsed)
            values = root.opset_import
            first_element, second_element = values
            exec(code, {"s": values})
            first_element.version += 10
            second_element.domain = "second"
            yield code, first_element, second_element, values, root

    assert_same_as_official(body)


@BUILT_OR_PARSED
def test_views_of_many_elements_remain_valid_after_several_rearrangements(is_parsed):
    def body(api):
        root = api.GraphProto(node=[{"op_type": str(i)} for i in range(200)])
        root = api.GraphProto.FromString(root.SerializeToString()) if is_parsed else root
        nodes = [root.node[i] for i in range(0, 200, 7)]
        del root.node[10:30]
        root.node.reverse()
        root.node.insert(3, api.NodeProto(op_type="new"))
        root.node.sort(key=lambda node: len(node.op_type))
        for i, node in enumerate(nodes):
            node.name = str(i)
        yield root, nodes

    assert_same_as_official(body)


@BUILT_OR_PARSED
def test_edits_inside_the_elements_during_iteration_are_visible(is_parsed):
    def body(api):
        root = build_model(api, is_parsed)
        for node in root.graph.node:
            node.op_type += "!"
            node.input.append("more")
            for attribute in node.attribute:
                attribute.ints.extend(attribute.ints)
                attribute.ClearField("t")
        yield root

    assert_same_as_official(body)


@BUILT_OR_PARSED
def test_values_read_before_an_edit_do_not_change(is_parsed):
    def body(api):
        root = build_model(api, is_parsed)
        raw_data, name, inputs = root.graph.initializer[0].raw_data, root.graph.name, root.graph.node[0].input[:]
        root.graph.initializer[0].raw_data = b"other"
        root.graph.name = "other"
        root.graph.node[0].input[:] = []
        yield raw_data, name, inputs, root

    assert_same_as_official(body)


@BUILT_OR_PARSED
def test_a_view_and_its_parent_merge_bytes_into_the_same_message(is_parsed):
    def body(api):
        root = build_model(api, is_parsed)
        graph, nodes, node = root.graph, root.graph.node, root.graph.node[0]
        # The bytes for `root` are a graph with the name "new" and a node with the op_type "merged".
        # The bytes for `node` are an input "more".
        root.MergeFromString(
            wire.len_record(7, wire.len_record(2, b"new") + wire.len_record(1, wire.len_record(4, b"merged")))
        )
        node.MergeFromString(wire.len_record(1, b"more"))
        yield graph, nodes, node, root, len(nodes)
        root.MergeFrom(api.ModelProto(graph={"doc_string": "d", "node": [{"op_type": "again"}]}))
        yield graph, nodes, node, root, len(nodes)

    assert_same_as_official(body)


# --- views of absent messages


def test_a_view_of_an_absent_message_writes_into_its_parent():
    def body(api):
        tree = api.Everything.Tree()
        first_view, second_view, inner_view = tree.trunk, tree.trunk, tree.trunk.trunk
        yield first_view.HasField("value"), tree
        first_view.value = 1
        yield second_view, tree, second_view.value
        inner_view.value = 2
        second_view.branches.add(value=3)
        yield first_view, second_view, inner_view, tree

    assert_same_as_official(body)


def test_a_view_of_an_absent_sequence_writes_into_its_parent():
    def body(api):
        root = api.ModelProto()
        first_view, second_view = root.graph.node, root.graph.node
        yield len(first_view), list(second_view), root
        first_view.add(op_type="a")
        second_view.add(op_type="b")
        yield first_view, second_view, root

    assert_same_as_official(body)


def test_a_view_of_an_absent_message_acts_as_the_official_one_when_the_parent_is_edited():
    # The bytes `:\3\x12\1x` are a graph with the name "x", and `\x12\1x` is that name.
    edits = snippets(r"r.graph.SetInParent(); r.graph.name = 'n'; r.MergeFromString(b':\3\x12\1x'); r.graph.node.add()")
    edits += [
        "r.MergeFrom(M(graph={'name': 'n'}))",
        "r.CopyFrom(M(graph={'name': 'n'}))",
    ]
    edits += snippets(r"r.graph.ParseFromString(b'\x12\1x'); r.CopyFrom(M())")

    def body(api):
        for code in edits:
            root = api.ModelProto()
            graph, nodes = root.graph, root.graph.node
            exec(code, {"r": root, "M": api.ModelProto})
            yield code, graph, nodes
            graph.doc_string = "kept"
            nodes.add(op_type="kept")
            yield graph, nodes, root

    assert_same_as_official(body)


def test_a_view_of_an_absent_sequence_acts_as_the_official_one_when_the_parent_is_edited():
    # The bytes `B\0` are one element of opset_import, without fields.
    edits = snippets(
        r"""r.opset_import.add(); r.MergeFromString(b'B\0'); r.ParseFromString(b'B\0'); r.ClearField('opset_import');
        r.MergeFrom(M(opset_import=[{}])); r.CopyFrom(M(opset_import=[{}])); r.Clear(); r.opset_import.extend([])"""
    )

    def body(api):
        for code in edits:
            root = api.ModelProto()
            values = root.opset_import
            exec(code, {"r": root, "M": api.ModelProto})
            yield code, values
            values.add(version=7)
            yield values, root

    assert_same_as_official(body)


# --- views of removed messages

# Edits that remove or replace the graph of a model `r`.
GRAPH_REPLACEMENTS = snippets(
    "r.ClearField('graph'); r.Clear(); r.CopyFrom(M()); r.CopyFrom(M(graph={'name': 'other'}))"
)
# The bytes `:\3\x12\1x` are a graph with the name "x".
GRAPH_REPLACEMENTS += ["r.ParseFromString(b'')", "r.ParseFromString(b':\\3\\x12\\1x')"]
# Edits that remove or replace the first node of a graph `g`.
NODE_REPLACEMENTS = snippets(
    """g.ClearField('node'); g.Clear(); del g.node[0]; del g.node[:]; g.node.pop(0); g.node.remove(g.node[0]);
    g.node.clear(); del g.node[::2]; g.CopyFrom(G()); g.CopyFrom(G(node=[{'op_type': 'other'}]))"""
)
NODE_REPLACEMENTS += ["g.ParseFromString(b'')"]


@BUILT_OR_PARSED
@pytest.mark.parametrize("code", GRAPH_REPLACEMENTS)
def test_a_removed_message_keeps_its_contents_and_is_edited_independently(code, is_parsed):
    def body(api):
        root = build_model(api, is_parsed)
        graph, nodes, node, names = root.graph, root.graph.node, root.graph.node[0], root.graph.node[0].input
        exec(code, {"r": root, "M": api.ModelProto})
        yield graph, nodes, node, names, root
        names.append("kept")
        node.op_type = "kept"
        nodes.add(op_type="added")
        graph.doc_string = "kept"
        root.graph.node.add(op_type="root's own")
        yield graph, nodes, node, names, root, root.graph == graph

    assert_same_as_official(body)


@BUILT_OR_PARSED
@pytest.mark.parametrize("code", NODE_REPLACEMENTS + GRAPH_REPLACEMENTS)
def test_a_removed_element_keeps_its_contents_and_is_edited_independently(code, is_parsed):
    def body(api):
        root = build_model(api, is_parsed)
        node, attribute, tensor = root.graph.node[0], root.graph.node[0].attribute[0], root.graph.node[0].attribute[0].t
        exec(code, {"r": root, "g": root.graph, "M": api.ModelProto, "G": api.GraphProto})
        yield node, attribute, tensor, root
        tensor.dims.append(4)
        attribute.ints[0] = 9
        node.name = "kept"
        yield node, attribute, tensor, root

    assert_same_as_official(body)


@BUILT_OR_PARSED
@pytest.mark.parametrize("code", NODE_REPLACEMENTS + GRAPH_REPLACEMENTS)
def test_a_sequence_has_the_official_elements_after_a_removal(code, is_parsed):
    def body(api):
        root = build_model(api, is_parsed)
        nodes, initializer = root.graph.node, root.graph.initializer
        exec(code, {"r": root, "g": root.graph, "M": api.ModelProto, "G": api.GraphProto})
        yield nodes, len(nodes), initializer, root
        nodes.add(op_type="added")
        initializer.add(name="added")
        yield nodes, len(nodes), initializer, root

    assert_same_as_official(body)


@BUILT_OR_PARSED
@pytest.mark.parametrize(
    "code",
    snippets(
        """t.ClearField(name); t.Clear(); t.CopyFrom(T()); t.CopyFrom(t); t.ParseFromString(b''); del values[:];
        values.clear(); values[:] = []; t.CopyFrom(T(dims=[7], float_data=[7], string_data=[b'7']))"""
    ),
)
@pytest.mark.parametrize("name", ["dims", "float_data", "string_data"])
def test_a_sequence_of_scalars_has_the_official_elements_after_an_edit(name, code, is_parsed):
    def body(api):
        tensor = api.TensorProto(dims=[1, 2], float_data=[0.5, 1.5], string_data=[b"a", b"b"])
        tensor = api.TensorProto.FromString(tensor.SerializeToString()) if is_parsed else tensor
        values = getattr(tensor, name)
        first_value = values[0]
        exec(code, {"t": tensor, "T": api.TensorProto, "values": values, "name": name})
        yield values, tensor
        values.append(first_value)
        yield values, tensor
        getattr(tensor, name).append(first_value)
        yield values, tensor

    assert_same_as_official(body)


@BUILT_OR_PARSED
@pytest.mark.parametrize("code", NODE_REPLACEMENTS + GRAPH_REPLACEMENTS)
def test_two_views_of_a_removed_message_share_edits(code, is_parsed):
    # Sequences are not compared: two official views of a sequence remain one list, but onnxwire's become independent.
    def body(api):
        root = build_model(api, is_parsed)
        pairs = [(root.graph, root.graph), (root.graph.node[0], root.graph.node[0])]
        exec(code, {"r": root, "g": root.graph, "M": api.ModelProto, "G": api.GraphProto})
        (graph, _), (node, _) = pairs
        graph.doc_string, node.doc_string = "graph", "node"
        yield pairs, root

    assert_same_as_official(body)


def test_a_sequence_removed_from_a_merged_message_keeps_its_elements():
    def body(api):
        # Two records of the shape, each with an empty dim.
        root = api.TypeProto.Tensor.FromString(
            wire.len_record(2, wire.len_record(1, b"")) + wire.len_record(2, wire.len_record(1, b""))
        )
        shape, sizes = root.shape, root.shape.dim
        shape.ClearField("dim")
        yield len(sizes), len(shape.dim), shape, root

    assert_same_as_official(body)


@BUILT_OR_PARSED
def test_a_popped_message_shares_edits_with_an_earlier_view(is_parsed):
    def body(api):
        root = build_model(api, is_parsed)
        node = root.graph.node[0]
        popped = root.graph.node.pop(0)
        node.op_type = "seen"
        popped.input.append("too")
        yield node, popped, root

    assert_same_as_official(body)


@BUILT_OR_PARSED
def test_a_popped_message_can_be_added_again(is_parsed):
    def body(api):
        root = build_model(api, is_parsed)
        root.graph.node.append(root.graph.node.pop(0))
        root.graph.node[-1].name = "back"
        yield root

    assert_same_as_official(body)


@BUILT_OR_PARSED
def test_a_child_that_is_copied_over_its_parent_becomes_independent(is_parsed):
    def body(api):
        tree = api.Everything.Tree(value=1, trunk={"value": 2, "trunk": {"value": 3}})
        tree = type(tree).FromString(tree.SerializeToString()) if is_parsed else tree
        trunk, inner_trunk = tree.trunk, tree.trunk.trunk
        tree.CopyFrom(trunk)
        trunk.value, inner_trunk.value = 8, 9
        yield tree, trunk, inner_trunk

    assert_same_as_official(body)


@BUILT_OR_PARSED
def test_a_message_in_a_oneof_acts_as_the_official_one_after_an_edit_of_the_oneof(is_parsed):
    # The bytes `\x80\x05\1` are pick_int = 1.
    edits = snippets(
        r"""e.pick_int = 5; e.pick_text = 'a'; e.pick_far.SetInParent(); e.MergeFrom(E(pick_int=5)); e.pick_shade = 0;
        e.pick_far.message.text = 'a'; e.MergeFromString(b'\x80\x05\1'); e.ClearField('pick'); e.pick_message"""
    )

    def body(api):
        for code in edits:
            message = api.Everything(pick_message={"one_int32": 1, "child": {"one_int32": 2}})
            message = api.Everything.FromString(message.SerializeToString()) if is_parsed else message
            member, child = message.pick_message, message.pick_message.child
            exec(code, {"e": message, "E": api.Everything})
            yield code, member, child, message
            member.one_string, child.one_string = "kept", "child"
            yield member, child, message
            message.pick_message.one_bool = True
            yield member, child, message

    assert_same_as_official(body)


def test_writing_to_an_absent_member_of_a_oneof_makes_it_the_present_member():
    # In upb, clearing an absent member that has a view clears the present member, so no edit clears pick_message.
    def body(api):
        for code in snippets("e.pick_int = 5; e.pick_far.SetInParent(); e.ClearField('pick'); e.pick_message"):
            message = api.Everything(pick_text="a")
            member, child = message.pick_message, message.pick_message.child
            exec(code, {"e": message})
            yield code, member, message
            child.one_int32 = 1
            yield member, child, message

    assert_same_as_official(body)


@BUILT_OR_PARSED
def test_children_outlive_their_parents(is_parsed):
    def body(api):
        root = build_model(api, is_parsed)
        node, names = root.graph.node[0], root.graph.node[0].input
        absent_graph, absent_nodes = api.ModelProto().graph, api.ModelProto().graph.node
        del root
        gc.collect()
        node.op_type = "kept"
        names.append("kept")
        absent_graph.node.add().input.append("added")
        absent_nodes.add(op_type="nodes")
        yield node, names, absent_graph, absent_nodes

    assert_same_as_official(body)


@BUILT_OR_PARSED
def test_sequences_of_a_removed_message_are_iterated_as_in_the_official_runtime(is_parsed):
    def body(api):
        root = build_model(api, is_parsed)
        nodes, inputs = root.graph.node, root.graph.node[0].input
        del nodes[0]
        inputs.append("q")
        yield [node.op_type for node in nodes], list(inputs), list(reversed(inputs))
        root.ClearField("graph")
        yield [node.op_type for node in nodes], list(inputs), list(root.graph.node)

    assert_same_as_official(body)


# --- copies

COPY_FUNCTIONS = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda message: pickle.loads(pickle.dumps(message)),
    "FromString": lambda message: type(message).FromString(message.SerializeToString()),
    "deterministic": lambda message: type(message).FromString(message.SerializeToString(deterministic=True)),
    "keyword": lambda message: type(message)(**{field.name: value for field, value in message.ListFields()}),
}


@BUILT_OR_PARSED
@pytest.mark.parametrize("copy_function", COPY_FUNCTIONS)
def test_a_copy_of_an_edited_message_is_equal_and_independent(copy_function, is_parsed):
    def body(api):
        root = build_model(api, is_parsed)
        root.graph.node[0].input.append("before")
        root.graph.ClearField("name")
        root.graph.node[1].attribute.add(floats=[1.5])
        for get_view in (
            lambda r: r,
            lambda r: r.graph,
            lambda r: r.graph.node[0],
            lambda r: r.graph.node[0].attribute[0].t,
        ):
            original = get_view(root)
            copied_message = COPY_FUNCTIONS[copy_function](original)
            yield copied_message, copied_message == original, type(copied_message) is type(original)
            copied_message.doc_string = "other"
            original.doc_string = "one"
            yield original, copied_message, root

    assert_same_as_official(body)


@BUILT_OR_PARSED
def test_a_deep_copy_of_a_sequence_is_equal_and_independent(is_parsed):
    def body(api):
        root = build_model(api, is_parsed)
        for original in (root.graph.node, root.graph.node[0].input, root.graph.initializer[0].dims):
            original.append(original[0])
            copied_sequence = copy.deepcopy(original)
            yield copied_sequence, original == copied_sequence
            del original[0]
            copied_sequence.reverse()
            yield original, copied_sequence, root

    assert_same_as_official(body)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_edited_and_absent_messages_can_be_pickled_with_every_protocol(protocol):
    def body(api):
        tensor = api.TypeProto.Tensor(elem_type=1)
        tensor.shape.dim.add().dim_param = "N"
        yield pickle.loads(pickle.dumps(tensor, protocol)), pickle.loads(pickle.dumps(api.ModelProto().graph, protocol))

    assert_same_as_official(body)
