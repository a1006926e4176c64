"""`onnxwire diff` prints the differences of two models; its exit status reports whether there are any. Also tests of
`onnxwire.diff` and of the distances of tensors."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
import wire
from graphs import nested_model, write_sparse_model
from hypothesis import given
from hypothesis import strategies as st
from onnx import helper, numpy_helper

import onnxwire
from onnxwire.analysis.tensor_distance import Distance, distance
from onnxwire.cli import main
from onnxwire.tensor.block_reader import BlockReader

DIGITS = Path(__file__).parents[2] / "examples" / "digits_cnn.onnx"


def save(model, path):
    """Write a model of onnxwire or onnx; return the path as a string."""
    path.write_bytes(model.SerializeToString())
    return str(path)


@pytest.fixture
def digits():
    """Return the digits model as an official model."""
    return onnx.load(DIGITS)


@pytest.fixture
def diff_lines(tmp_path, capsys):
    """Return a function that runs `diff` on an old model, by default that of DIGITS, and a new one, and returns
    the printed lines."""

    def compare(new, old=None, *options):
        paths = [str(DIGITS) if old is None else save(old, tmp_path / "a.onnx"), save(new, tmp_path / "b.onnx")]
        status = main(["diff", *paths, *options])
        printed_lines = capsys.readouterr().out.splitlines()
        assert status == (1 if printed_lines else 0)
        return printed_lines

    return compare


def tensor_distance(old, new):
    """Return a Distance: the numbers of elements and of differing elements, the largest difference, and the number of
    elements that are NaN in only one array."""
    return distance(onnxwire.from_array(old), onnxwire.from_array(new))


def test_a_model_equals_itself_and_its_copy(diff_lines, digits):
    assert main(["diff", str(DIGITS), str(DIGITS)]) == 0
    assert diff_lines(digits) == []


def test_differences_of_node_fields_are_reported(diff_lines, digits):
    digits.graph.node[4].op_type = "LeakyRelu"
    digits.graph.node[4].input.append("extra")
    assert diff_lines(digits) == [
        '~ node node_relu: input: ["getitem"] -> ["getitem", "extra"]',
        "~ node node_relu: op_type: Relu -> LeakyRelu",
    ]


def test_attributes_are_compared_by_name_in_any_order(diff_lines, digits):
    attributes = digits.graph.node[2].attribute
    attributes.sort(key=lambda attribute: attribute.name)
    assert diff_lines(digits) == []
    next(a for a in attributes if a.name == "pads").ints[0] = 7
    del attributes[next(i for i, a in enumerate(attributes) if a.name == "group")]
    attributes.append(onnx.helper.make_attribute("new", 2.5))
    assert sorted(diff_lines(digits)) == [
        "+ node node_conv2d: attribute new: 2.5",
        "- node node_conv2d: attribute group: 1",
        "~ node node_conv2d: attribute pads: [1, 1, 1, 1] -> [7, 1, 1, 1]",
    ]


def models_of_attributes(*texts):
    """Return one model for each text: a node with an attribute "a" that has these fields."""
    start, end = 'graph { node { name: "n" op_type: "X" attribute { name: "a" ', " } } }"
    return [onnxwire.from_text(start + text + end) for text in texts]


LONG_LIST = f"[{'1, ' * 24}… (31)]"


@pytest.mark.parametrize(
    ("old", "new", "expected_lines"),
    [
        ("type: INTS f: 1.5", "type: INTS f: 1.5 ints: 5", ["~ node n: attribute a ints: [] -> [5]"]),
        ("type: INTS f: 1.5 ints: 5", "type: INTS f: 1.5", ["~ node n: attribute a ints: [5] -> []"]),
        ("type: INT s: 'b'", "type: INT s: 'b' i: 2", ['~ node n: attribute a: "b" -> 2']),
        ("type: TENSOR", "type: TENSOR t { }", ["+ node n: attribute a t"]),
        ("floats: [0, nan]", "floats: [-0, nan]", ["~ node n: attribute a: [0.0, nan] -> [-0.0, nan]"]),
        ("type: INT", "type: INT i: 0", []),
        ("type: STRING s: ''", "type: STRING", []),
        ("type: INT", "type: FLOAT", ["~ node n: attribute a type: INT -> FLOAT"]),
        # Long lists whose texts are equal, because they are truncated.
        (
            f"type: INTS {'ints: 1 ' * 30} ints: 1",
            f"type: FLOATS {'ints: 1 ' * 30} ints: 2",
            ["~ node n: attribute a type: INTS -> FLOATS", f"~ node n: attribute a ints: {LONG_LIST} -> {LONG_LIST}"],
        ),
    ],
)
def test_fields_of_attributes_are_compared_and_absent_ones_equal_their_defaults(diff_lines, old, new, expected_lines):
    models = models_of_attributes(old, new)
    assert diff_lines(models[1], models[0]) == expected_lines


ATTRIBUTE_FIELDS = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from([0, 1, 7]),
        "f": st.sampled_from([0.0, 1.5]),
        "s": st.sampled_from([b"", b"x"]),
        "ints": st.lists(st.integers(0, 1), max_size=2),
        "t": st.builds(onnx.TensorProto, dims=st.lists(st.just(0), max_size=1)),
        "tp": st.builds(onnx.TypeProto, denotation=st.sampled_from(["", "IMAGE"])),
        "doc_string": st.sampled_from(["", "text"]),
        "ref_attr_name": st.sampled_from(["", "b"]),
    },
)


@given(ATTRIBUTE_FIELDS, ATTRIBUTE_FIELDS, ATTRIBUTE_FIELDS)
def test_diff_reports_attributes_whose_messages_differ(old, new, shared):
    """shared: fields with the same value in both attributes."""
    messages = [onnx.AttributeProto(name="a", **{**fields, **shared}) for fields in (old, new)]
    nodes = [onnx.NodeProto(op_type="X", name="n", attribute=[message]) for message in messages]
    models = [
        onnxwire.ModelProto.FromString(onnx.ModelProto(graph=onnx.GraphProto(node=[node])).SerializeToString())
        for node in nodes
    ]
    # An absent field equals its default.
    for message in messages:
        for name in ("type", "f", "s", "doc_string", "ref_attr_name"):
            if not getattr(message, name):
                message.ClearField(name)
    assert bool(list(onnxwire.diff(*models))) == (messages[0] != messages[1])


def test_added_elements_have_their_path_in_the_new_model_and_removed_ones_in_the_old():
    text = """
        graph {{ {0} node {{ name: "if" op_type: "If" attribute {{ name: "a" type: GRAPH g {{
            node {{ name: "n" op_type: "Abs" {1} }} {2} }} }} }} }}
    """
    old = onnxwire.from_text(text.format("", "", ""))
    first, attribute = 'node { name: "first" op_type: "Neg" }', 'attribute { name: "b" type: INT i: 1 }'
    new = onnxwire.from_text(text.format(first, attribute, 'node { name: "last" op_type: "Neg" }'))
    paths = sorted(difference.path for difference in onnxwire.diff(old, new))
    graph = "graph.node[1].attribute[0].g"
    assert paths == ["graph.node[0]", f"{graph}.node[0].attribute[0]", f"{graph}.node[1]"]
    removed_paths = sorted(difference.path for difference in onnxwire.diff(new, old))
    assert removed_paths == paths


def test_differences_of_unknown_fields_are_reported(diff_lines):
    models = models_of_attributes("type: INT", "type: INT")
    models[1].graph.node[0].attribute[0].MergeFromString(wire.varint_record(99, 1))
    assert diff_lines(models[1], models[0]) == ["~ node n: attribute a unknown fields: 0 bytes -> 3 bytes"]


def test_attributes_of_different_types_differ_even_with_equal_text(diff_lines):
    models = [onnx.ModelProto(), onnx.ModelProto()]
    for model, attribute_type in zip(models, (onnx.AttributeProto.INT, onnx.AttributeProto.FLOAT), strict=True):
        model.graph.node.add(name="n", op_type="X").attribute.add(name="a", type=attribute_type, i=1)
    assert diff_lines(models[1], models[0]) == ["~ node n: attribute a type: INT -> FLOAT"]


def test_a_number_has_the_fewest_digits_that_round_trip(diff_lines):
    models = [onnx.ModelProto(), onnx.ModelProto()]
    for model, number in zip(models, (16777216.0, 0.1), strict=True):
        model.graph.node.add(name="n", op_type="X").attribute.append(onnx.helper.make_attribute("a", number))
    assert diff_lines(models[1], models[0]) == ["~ node n: attribute a: 16777216.0 -> 0.1"]


def test_added_and_removed_nodes_are_reported(diff_lines, digits):
    del digits.graph.node[4]
    digits.graph.node.insert(9, onnx.helper.make_node("Abs", ["relu"], ["abs"], name="new"))
    assert diff_lines(digits) == [
        "- node node_relu: Relu(getitem) -> relu",
        "+ node new: Abs(relu) -> abs",
    ]


def test_nodes_without_names_are_matched_by_outputs(diff_lines):
    models = [onnx.ModelProto(), onnx.ModelProto()]
    for index, model in enumerate(models):
        for name in "abc":
            model.graph.node.add(op_type="Op", input=["x"], output=[name])
        model.graph.node[1].op_type = f"Op{index}"
    del models[1].graph.node[0]
    assert diff_lines(models[1], models[0]) == ["- node Op -> a: Op(x) -> a", "~ node Op0 -> b: op_type: Op0 -> Op1"]


def test_the_order_of_nodes_and_tensors_is_not_a_difference(diff_lines, digits):
    digits.graph.node.reverse()
    digits.graph.initializer.reverse()
    digits.graph.value_info.reverse()
    assert diff_lines(digits) == []


def test_the_order_of_inputs_is_a_difference(diff_lines):
    old, new = nested_model(), nested_model()
    new.graph.input.reverse()
    assert diff_lines(new, old) == ['~ graph nested: order of inputs: ["x", "flag"] -> ["flag", "x"]']


def test_differences_of_inputs_opsets_and_metadata_are_reported(diff_lines, digits):
    digits.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 4
    digits.opset_import[0].version = 21
    digits.producer_name = "me"
    digits.metadata_props.add(key="k", value="v\n")
    assert diff_lines(digits) == [
        "~ model: producer_name: pytorch -> me",
        "~ input image: float[batch, 1, 8, 8] -> float[4, 1, 8, 8]",
        "~ opset ai.onnx: 20 -> 21",
        "+ metadata k: v\\n",
    ]


def test_differences_in_subgraphs_and_functions_have_their_paths(diff_lines):
    old, new = nested_model(), nested_model()
    assert new.graph.node[1].attribute[1].name == "then_branch"
    new.graph.node[1].attribute[1].g.node[0].op_type = "Sub"
    new.functions[0].node[0].op_type = "Sub"
    assert diff_lines(new, old) == [
        "~ node branch_Add (in graph.node[1].attribute[1].g): op_type: Add -> Sub",
        "~ node inner (in functions[0]): op_type: Add -> Sub",
    ]


def test_differing_weights_have_their_distance(diff_lines, digits):
    tensor = digits.graph.initializer[8]
    array = numpy_helper.to_array(tensor).copy()
    array[-1, -3:] += [0.5, -2, 0.25]
    tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
    (line,) = diff_lines(digits)
    assert line.startswith("~ tensor classifier.1.weight: 3 of 32,768 elements differ, by up to 2")
    assert diff_lines(digits, None, "--no-weights") == []


def test_a_tensor_of_another_type_or_shape_is_reported(diff_lines, digits):
    first_tensor, second_tensor = digits.graph.initializer[0], digits.graph.initializer[2]
    array = numpy_helper.to_array(first_tensor)
    first_tensor.CopyFrom(numpy_helper.from_array(array.astype(np.float16), first_tensor.name))
    second_tensor.dims[:] = [4, 4]
    differences = diff_lines(digits)
    max_distance = np.abs(array - array.astype(np.float16).astype(np.float64)).max()
    assert differences[0].startswith("~ tensor features.0.weight: type: FLOAT [16, 1, 3, 3] -> FLOAT16 [16, 1, 3, 3]; ")
    assert differences[0].endswith(f"differ, by up to {max_distance:.6g}")
    assert differences[1] == "~ tensor features.1.weight: type: FLOAT [16] -> FLOAT [4, 4]"


def test_added_and_removed_tensors_are_reported(diff_lines, digits):
    digits.graph.initializer[0].name = "renamed"
    assert diff_lines(digits) == [
        "- tensor features.0.weight: FLOAT [16, 1, 3, 3]",
        "+ tensor renamed: FLOAT [16, 1, 3, 3]",
    ]


def test_the_storage_of_a_tensor_is_not_a_difference(tmp_path, digits):
    tensor = digits.graph.initializer[0]
    array = numpy_helper.to_array(tensor)
    tensor.CopyFrom(onnx.helper.make_tensor(tensor.name, 1, array.shape, array.reshape(-1).tolist()))
    assert main(["diff", str(DIGITS), save(digits, tmp_path / "typed.onnx")]) == 0
    assert main(["unpack", str(DIGITS), "-o", str(tmp_path / "out.onnx")]) == 0
    assert main(["pack", str(DIGITS), "-o", str(tmp_path / "aligned.onnx"), "--inline-align", "64"]) == 0
    assert main(["diff", str(DIGITS), str(tmp_path / "out.onnx")]) == 0
    assert main(["diff", str(tmp_path / "out.onnx"), str(tmp_path / "aligned.onnx")]) == 0


def test_external_data_that_differs_is_found(tmp_path, capsys):
    for name in "ab":
        assert main(["unpack", str(DIGITS), "-o", str(tmp_path / f"{name}.onnx"), "--data", f"{name}.data"]) == 0
    with open(tmp_path / "b.data", "r+b") as file:
        file.write(b"\0\0\0\0")
    assert main(["diff", str(tmp_path / "a.onnx"), str(tmp_path / "b.onnx")]) == 1
    assert "1 of " in capsys.readouterr().out


def test_external_data_of_constants_is_compared(tmp_path, capsys):
    for name, number in (("a", 1), ("b", 3)):
        model = onnxwire.ModelProto(ir_version=10)
        tensor = onnxwire.from_array(np.array([number], np.int64))
        model.graph.node.add(op_type="Constant", name="c", output=["c"]).attribute.add(name="value", type=4, t=tensor)
        (tmp_path / name).mkdir()
        onnxwire.save(model, tmp_path / name / "m.onnx", external="m.data", threshold=0)
    assert main(["diff", str(tmp_path / "a" / "m.onnx"), str(tmp_path / "b" / "m.onnx")]) == 1
    assert capsys.readouterr().out == "~ node c: attribute value t: 1 of 1 element differs, by up to 2\n"


def test_a_damaged_tensor_equals_itself_and_other_comparisons_are_errors(diff_lines, tmp_path, digits, capsys):
    digits.graph.initializer[8].raw_data += b"x"
    assert diff_lines(digits, digits) == []
    assert main(["diff", str(DIGITS), str(tmp_path / "b.onnx")]) == 2
    assert "require 131,072 bytes; raw_data has 131,073" in capsys.readouterr().err


def test_an_absent_field_equals_its_default(diff_lines, digits):
    digits.doc_string = digits.graph.node[4].domain = ""
    digits.model_version = 0
    assert diff_lines(digits) == []


def test_the_domain_of_standard_operators_may_be_written_out(diff_lines, digits):
    digits.opset_import[0].domain = "ai.onnx"
    assert diff_lines(digits) == []


def test_json_writes_infinity_as_a_string(diff_lines, digits):
    tensor = digits.graph.initializer[0]
    tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor) + np.float32(np.inf), tensor.name))
    report = json.loads("\n".join(diff_lines(digits, None, "--json")), parse_constant=pytest.fail)
    assert report["differences"][0]["distance"]["max_abs"] == "Infinity"


def test_missing_external_data_is_an_error(tmp_path, capsys):
    assert main(["unpack", str(DIGITS), "-o", str(tmp_path / "a.onnx")]) == 0
    (tmp_path / "a.data").unlink()
    assert main(["diff", str(DIGITS), str(tmp_path / "a.onnx")]) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize("dtype", [np.int64, np.uint64, np.int8])
def test_differences_of_integers_are_exact(dtype):
    limits = np.iinfo(dtype)
    old = np.array([limits.min, 1, 5], dtype)
    new = np.array([limits.max, 1, 4], dtype)
    assert tensor_distance(old, new) == Distance(3, 2, int(limits.max) - int(limits.min))


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, np.float16, np.float64])
def test_floats_of_any_width_are_compared(dtype):
    old, new = np.array([1, 2, np.nan, 3], dtype), np.array([1, 4, np.nan, np.nan], dtype)
    assert tensor_distance(old, new) == Distance(4, 2, 2.0, 1)


@pytest.mark.parametrize("dtype", [ml_dtypes.int4, ml_dtypes.uint4])
def test_elements_of_less_than_a_byte_are_compared(dtype):
    old, new = np.array([1, 2, 3], dtype), np.array([1, 2, 7], dtype)
    assert tensor_distance(old, new) == Distance(3, 1, 4)


def test_complex_numbers_strings_and_truth_values_are_compared():
    assert tensor_distance(np.array([1, 2j]), np.array([1, 3 + 2j])) == Distance(2, 1, 3.0)
    assert tensor_distance(np.array(["a", "b"]), np.array(["a", "c"])) == Distance(2, 1)
    assert tensor_distance(np.array([True, False]), np.array([True, True])) == Distance(2, 1, 1)


def test_zeros_of_both_signs_and_infinities_of_one_sign_are_equal():
    old, new = np.array([0.0, np.inf, np.inf]), np.array([-0.0, np.inf, -np.inf])
    assert tensor_distance(old, new) == Distance(3, 1, np.inf)


def test_tensors_of_many_blocks_are_compared_to_the_end():
    old = np.zeros(1_000_003, np.float32)
    new = old.copy()
    new[[0, 500_000, -1]] = [1, 2, 3]
    assert tensor_distance(old, new) == Distance(old.size, 3, 3.0)


def test_json_contains_all_differences(diff_lines, digits):
    digits.graph.node[4].op_type = "Gelu"
    tensor = digits.graph.initializer[0]
    tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor) + 1, tensor.name))
    report = json.loads("\n".join(diff_lines(digits, None, "--json")))
    assert report["same"] is False
    assert report["stat"]["node"] == {"added": 0, "removed": 0, "changed": 1}
    assert report["differences"][0] == {
        "change": "changed",
        "kind": "node",
        "name": "node_relu",
        "part": "op_type",
        "path": "graph.node[4].op_type",
        "old": "Relu",
        "new": "Gelu",
    }
    assert report["differences"][1]["distance"]["different"] == 144


def test_json_of_equal_models_has_no_differences(capsys):
    assert main(["diff", str(DIGITS), str(DIGITS), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"same": True, "stat": {}, "differences": []}


def test_stat_prints_counts_of_changes(diff_lines, digits):
    del digits.graph.node[4]
    digits.graph.node[2].op_type, digits.graph.node[2].domain = "X", "y"
    assert [line.split() for line in diff_lines(digits, None, "--stat")] == [
        ["added", "removed", "changed"],
        ["node", "0", "1", "1"],
    ]


def test_stat_counts_a_node_once_and_nodes_of_one_name_in_different_graphs_separately(diff_lines, digits):
    relu = digits.graph.node[4]
    branch = helper.make_graph([helper.make_node("F", ["x"], ["y"], relu.name, domain="a", p=1)], "branch", [], [])
    digits.graph.node.append(helper.make_node("If", ["x"], ["y"], then_branch=branch, else_branch=branch))
    old = copy.deepcopy(digits)
    relu.attribute.append(helper.make_attribute("added", 1))
    relu.op_type, relu.doc_string = "Gelu", "text"
    for attribute in digits.graph.node[-1].attribute:
        attribute.g.node[0].attribute[0].i = 2
    assert [line.split() for line in diff_lines(digits, old, "--stat")] == [
        ["added", "removed", "changed"],
        ["node", "0", "0", "3"],
    ]


def test_the_option_quiet_prints_nothing(tmp_path, digits, capsys):
    digits.producer_name = "me"
    assert main(["diff", "-q", str(DIGITS), save(digits, tmp_path / "b.onnx")]) == 1
    assert capsys.readouterr() == ("", "")


def test_colors_are_used_on_request(diff_lines, digits):
    digits.producer_name = "me"
    assert diff_lines(digits, None, "--color", "always")[0].startswith("\x1b[33m~ model")


def test_an_absent_file_is_an_error(capsys):
    assert main(["diff", str(DIGITS), "absent.onnx"]) == 2
    assert capsys.readouterr().err.startswith("onnxwire: absent.onnx: No such file")


def test_a_closed_pipe_is_not_an_error(tmp_path, digits):
    digits.producer_name = "me"
    read_end, write_end = os.pipe()
    os.close(read_end)
    command = [sys.executable, "-P", "-m", "onnxwire", "diff", str(DIGITS), save(digits, tmp_path / "b.onnx")]
    result = subprocess.run(command, stdout=write_end, stderr=subprocess.PIPE, check=False)
    os.close(write_end)
    assert result.stderr == b""


def test_the_library_compares_messages_and_any_source_that_load_accepts(digits):
    data = DIGITS.read_bytes()
    model = onnxwire.load(data)
    assert list(onnxwire.diff(model, str(DIGITS))) == []
    model.graph.node[0].name = "other"
    (difference,) = onnxwire.diff(data, model)
    assert (difference.change, difference.part, difference.old, difference.new) == (
        "changed",
        "name",
        "node_Shape_0",
        "other",
    )
    with pytest.raises(TypeError, match="ModelProto"):
        list(onnxwire.diff(model.graph, model))


def test_progress_counts_every_byte_of_the_tensors():
    calls = []
    copy = onnxwire.load(DIGITS.read_bytes())
    assert list(onnxwire.diff(DIGITS, copy, progress=lambda *call: calls.append(call))) == []
    total = sum(info.nbytes for info in onnxwire.tensors(DIGITS))
    assert calls[-1] == (total, total)
    assert all(bytes_done <= total for bytes_done, _ in calls)


def test_large_weights_take_little_memory(tmp_path):
    for name, end in (("a", b"\1"), ("b", b"\5")):
        write_sparse_model(tmp_path / name, 1 << 28)
        with open(tmp_path / name, "r+b") as file:
            file.seek(-1, os.SEEK_END)
            file.write(end)
    script = (
        "import resource, sys\n"
        "from onnxwire.cli import main\n"
        "import numpy\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "assert main(['diff', *sys.argv[1:]]) == 1\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "a"), str(tmp_path / "b")]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    line, growth = result.stdout.splitlines()
    assert line == "~ tensor w: 1 of 268,435,456 elements differs, by up to 4"
    assert int(growth) < 50_000  # KiB


@pytest.mark.skipif(not hasattr(os, "SEEK_DATA"), reason="the system does not report holes")
def test_holes_that_both_files_have_are_not_read(tmp_path, monkeypatch):
    for name in "ab":
        write_sparse_model(tmp_path / name, 1 << 32)
    with open(tmp_path / "b", "r+b") as file:
        file.seek((1 << 31) + 5)
        file.write(b"\7")
    if os.stat(tmp_path / "a").st_blocks > 1000:
        pytest.skip("the file system has no holes")
    read_counts = []
    read = BlockReader.read
    monkeypatch.setattr(
        BlockReader,
        "read",
        lambda self, start, count, *options: read_counts.append(count) or read(self, start, count, *options),
    )
    steps = []
    differences = list(
        onnxwire.diff(
            tmp_path / "a", tmp_path / "b", progress=lambda bytes_done, total: steps.append((bytes_done, total))
        )
    )
    assert [difference.distance for difference in differences] == [Distance(1 << 32, 1, 7)]
    assert sum(read_counts) < 1 << 24
    assert steps[-1] == (1 << 32, 1 << 32)
