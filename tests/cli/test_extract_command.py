"""`onnxwire extract` saves a part of a model that computes the same values as the whole, and writes tensors as
files."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import pytest
import safetensors.numpy
from graphs import nested_model, value
from onnx import helper, numpy_helper

import onnxwire
from onnxwire.cli import main

DIGITS = Path(__file__).parents[2] / "examples" / "digits_cnn.onnx"
WEIGHTS = {tensor.name: numpy_helper.to_array(tensor) for tensor in onnx.load(DIGITS).graph.initializer}
IMAGE = np.random.default_rng(0).random((3, 1, 8, 8), np.float32)


def compute(model, **inputs):
    """Run a model, or the model at a path, with onnxruntime; return its outputs."""
    path = model if isinstance(model, str) else model.SerializeToString()
    return onnxruntime.InferenceSession(path).run(None, inputs)


def refusal(capsys, *arguments):
    """Run `extract` with arguments that it rejects; return its one-line error."""
    assert main(["extract", *map(str, arguments)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    return err


@pytest.fixture
def extract_part(tmp_path):
    """Return a function that extracts a part of DIGITS or of another model, and returns it as an onnx.ModelProto."""

    def extract(*options, model=None):
        path = DIGITS
        if model is not None:
            path = tmp_path / "whole.onnx"
            path.write_bytes(model.SerializeToString())
        assert main(["extract", str(path), *options, "-o", str(tmp_path / "part.onnx")]) == 0
        extracted = onnx.load(tmp_path / "part.onnx")
        onnx.checker.check_model(extracted, full_check=True)
        return extracted

    return extract


def names(elements):
    return [element.name for element in elements]


def test_head_and_tail_compute_the_same_values_as_the_whole(extract_part):
    head = extract_part("--outputs", "relu_1,sym_size_int_1")
    tail = extract_part("--inputs", "relu_1,sym_size_int_1", "--outputs", "logits")
    intermediate_values = compute(head, image=IMAGE)
    (logits,) = compute(tail, relu_1=intermediate_values[0], sym_size_int_1=intermediate_values[1])
    np.testing.assert_array_equal(logits, compute(str(DIGITS), image=IMAGE)[0])
    assert len(head.graph.node) + len(tail.graph.node) == len(onnx.load(DIGITS).graph.node)


def test_the_part_has_the_same_elements_as_that_of_the_official_extractor(extract_part, tmp_path):
    onnx.utils.extract_model(str(DIGITS), str(tmp_path / "official.onnx"), ["getitem"], ["max_pool2d"])
    official_part = onnx.load(tmp_path / "official.onnx")
    part = extract_part("--inputs", "getitem", "--outputs", "max_pool2d")
    assert list(part.graph.node) == list(official_part.graph.node)
    assert sorted(names(part.graph.initializer)) == sorted(names(official_part.graph.initializer))
    assert list(part.graph.input) == list(official_part.graph.input)
    assert list(part.graph.output) == list(official_part.graph.output)


def test_only_needed_elements_are_kept(extract_part):
    part = extract_part("--inputs", "image", "--outputs", "relu")
    assert len(part.graph.node) == 3
    assert set(names(part.graph.initializer)) == {n for n in WEIGHTS if n.startswith(("features.0.", "features.1."))}
    assert not {"logits", "relu_1"} & set(names(part.graph.value_info))
    assert part.producer_name == "pytorch"


def test_values_captured_by_subgraphs_are_kept(extract_part):
    part = extract_part("--inputs", "x", "--inputs", "flag", "--outputs", "y", model=nested_model())
    assert names(part.graph.node) == ["first", "choice"]
    assert "w" in names(part.graph.initializer)
    np.testing.assert_array_equal(compute(part, x=np.float32([1, 2]), flag=np.array(True))[0], [3, 5])


def test_functions_that_are_called_are_kept(extract_part):
    assert names(extract_part("--outputs", "z", model=nested_model()).functions) == ["Twice"]
    assert names(extract_part("--outputs", "y", model=nested_model()).functions) == []


def test_functions_that_functions_call_are_kept(extract_part):
    model = nested_model()
    model.functions[0].node[0].CopyFrom(helper.make_node("Other", ["a"], ["b"], domain="local"))
    assert names(extract_part("--outputs", "z", model=model).functions) == ["Twice", "Other"]


def test_quantization_annotations_are_kept_with_their_parameters(extract_part):
    part = extract_part("--outputs", "h", model=nested_model())
    assert [a.tensor_name for a in part.graph.quantization_annotation] == ["h"]
    assert names(part.graph.initializer) == ["s"]


def test_unneeded_inputs_are_omitted_unless_named(extract_part):
    assert names(extract_part("--outputs", "h", model=nested_model()).graph.input) == ["x"]
    assert names(extract_part("--inputs", "x,flag", "--outputs", "h", model=nested_model()).graph.input) == [
        "x",
        "flag",
    ]


def test_a_named_input_is_not_produced_by_its_old_node(extract_part):
    nodes = [helper.make_node("Split", ["x"], ["a", "b"], num_outputs=2), helper.make_node("Add", ["a", "b"], ["y"])]
    graph = helper.make_graph(nodes, "g", [value("x", 4)], [value("y", 2)], value_info=[value("a", 2), value("b", 2)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    part = extract_part("--inputs", "x,a", "--outputs", "y", model=model)
    assert list(part.graph.node[0].output) == ["a_unused", "b"]
    assert compute(part, x=np.float32([1, 2, 3, 4]), a=np.float32([10, 20]))[0].tolist() == [13, 24]


def test_an_initializer_can_become_an_input(extract_part):
    part = extract_part("--inputs", "image,features.0.weight", "--outputs", "conv2d")
    assert names(part.graph.initializer) == ["features.0.bias"]
    shape = [dim.dim_value for dim in part.graph.input[1].type.tensor_type.shape.dim]
    assert shape == list(WEIGHTS["features.0.weight"].shape)


def test_names_with_commas_are_not_split(extract_part):
    graph = helper.make_graph([helper.make_node("Relu", ["a,b"], ["c,d"])], "g", [value("a,b", 1)], [value("c,d", 1)])
    part = extract_part("--inputs", "a,b", "--outputs", "c,d", model=helper.make_model(graph, ir_version=10))
    assert names(part.graph.input) == ["a,b"]


def test_missing_inputs_are_reported(tmp_path, capsys):
    line = refusal(capsys, DIGITS, "--inputs", "relu_1", "--outputs", "logits", "-o", tmp_path / "part.onnx")
    assert "need 'image' (read by node_Shape_0); add it to the inputs, or values between it and the outputs" in line
    assert not (tmp_path / "part.onnx").exists()


def test_values_that_no_node_computes_are_reported(tmp_path, capsys):
    path = tmp_path / "m.onnx"
    graph = helper.make_graph([helper.make_node("Add", ["x", "absent"], ["y"], name="sum")], "g", [], [])
    onnx.save(helper.make_model(graph), path)
    line = refusal(capsys, path, "--outputs", "y", "-o", tmp_path / "part.onnx")
    assert "no node of the model computes 'absent' (read by sum), 'x' (read by sum); add these to the inputs" in line


def test_an_unknown_name_is_reported_with_a_similar_one(tmp_path, capsys):
    line = refusal(capsys, DIGITS, "--outputs", "logit", "-o", tmp_path / "part.onnx")
    assert line.endswith("there is no value called 'logit' in the main graph; did you mean 'logits'?\n")


def test_values_without_types_cause_a_warning(tmp_path, capsys):
    model = nested_model()
    del model.graph.value_info[:]
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    out = tmp_path / "part.onnx"
    assert main(["extract", str(tmp_path / "m.onnx"), "--outputs", "h", "-o", str(out)]) == 0
    err = capsys.readouterr().err
    assert "does not declare the type of 'h'" in err and "run `onnxwire infer` on the model first" in err
    assert compute(str(out), x=np.float32([-1, 1]))[0].tolist() == [0, 1]


def test_external_data_stays_external(tmp_path):
    assert main(["unpack", str(DIGITS), "-o", str(tmp_path / "m.onnx")]) == 0
    assert main(["extract", str(tmp_path / "m.onnx"), "--outputs", "relu_1", "-o", str(tmp_path / "part.onnx")]) == 0
    with onnxwire.load(tmp_path / "part.onnx") as part:
        for tensor in part.graph.initializer:
            np.testing.assert_array_equal(tensor.numpy(), WEIGHTS[tensor.name])
        assert any(tensor.external_data for tensor in part.graph.initializer)


def test_external_data_in_another_folder_causes_a_warning(tmp_path, capsys):
    (tmp_path / "sub").mkdir()
    assert main(["unpack", str(DIGITS), "-o", str(tmp_path / "m.onnx")]) == 0
    out = tmp_path / "sub" / "part.onnx"
    assert main(["extract", str(tmp_path / "m.onnx"), "--outputs", "relu_1", "-o", str(out)]) == 0
    assert "copy it, or run `onnxwire pack` on the model first" in capsys.readouterr().err


def test_the_part_may_replace_the_model(tmp_path):
    path = tmp_path / "m.onnx"
    path.write_bytes(DIGITS.read_bytes())
    assert main(["extract", str(path), "--outputs", "relu_1", "-o", str(path)]) == 0
    assert compute(str(path), image=IMAGE)[0].shape == (3, 32, 8, 8)


def test_the_library_does_not_change_the_model_and_rejects_unknown_names():
    with onnxwire.load(DIGITS) as model:
        part = onnxwire.extract(model, ["image"], ["relu"])
        assert len(part.graph.node) == 3
        assert model.SerializeToString() == DIGITS.read_bytes()
        with pytest.raises(onnxwire.Error, match="no value called 'nope'"):
            onnxwire.extract(model, ["nope"], ["relu"])
        with pytest.raises(TypeError, match="list of names"):
            onnxwire.extract(model, "image", ["relu"])


def test_a_tensor_becomes_an_npy_file(tmp_path):
    out = tmp_path / "x.npy"
    assert main(["extract", str(DIGITS), "--tensor", "classifier.1.weight", "-o", str(out)]) == 0
    array = np.load(out)
    np.testing.assert_array_equal(array, WEIGHTS["classifier.1.weight"])
    official_path = tmp_path / "official.npy"
    np.save(official_path, array)
    assert out.read_bytes() == official_path.read_bytes()


def test_names_that_are_not_utf8_are_percent_encoded_in_an_npz(tmp_path):
    model = onnxwire.ModelProto()
    model.graph.initializer.add(name="x", data_type=1, dims=[1], raw_data=bytes(4))
    # Replace the name x, in field 8 of the tensor, by a byte that is not UTF-8.
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString().replace(b"\x42\x01x", b"\x42\x01\xff"))
    assert main(["extract", str(tmp_path / "m.onnx"), "--tensor", "*", "-o", str(tmp_path / "t.npz")]) == 0
    assert np.load(tmp_path / "t.npz").files == ["%FF"]
    onnxwire.to_npz({"\ud800": model.graph.initializer[0]}, tmp_path / "t.npz")
    assert np.load(tmp_path / "t.npz").files == ["%ED%A0%80"]


@pytest.mark.parametrize("suffix", ["npz", "safetensors"])
def test_many_tensors_become_one_file(tmp_path, suffix):
    out = tmp_path / f"x.{suffix}"
    options = ["--tensor", "features.*", "--tensor", "classifier.1.bias"]
    assert main(["extract", str(DIGITS), *options, "-o", str(out)]) == 0
    arrays = dict(np.load(out)) if suffix == "npz" else safetensors.numpy.load_file(out)
    assert set(arrays) == {name for name in WEIGHTS if name.startswith("features.")} | {"classifier.1.bias"}
    for name, array in arrays.items():
        np.testing.assert_array_equal(array, WEIGHTS[name])


@pytest.mark.parametrize("suffix", ["npy", "npz", "safetensors"])
def test_one_of_several_tensors_with_equal_names_is_selected_by_path(tmp_path, capsys, suffix):
    model = onnxwire.ModelProto()
    for number in range(2):
        model.graph.initializer.append(onnxwire.from_array(np.full(3, number, np.float32), "w"))
    path, out = tmp_path / "m.onnx", tmp_path / f"x.{suffix}"
    onnxwire.save(model, path)
    options_by_path = ["--tensor", "graph.initializer[0]", "--tensor", "graph.initializer[1]"]
    line = refusal(capsys, path, *options_by_path, "-o", out)
    assert line.endswith(
        "graph.initializer[0], graph.initializer[1] have this name; extract them into separate files\n"
    )
    for options in (["--tensor", "w"], ["--tensor", "*"]):
        line = refusal(capsys, path, *options, "-o", out)
        assert line.endswith("2 elements are called 'w'; choose by index: graph.initializer[0], graph.initializer[1]\n")
        assert not out.exists()
    assert main(["extract", str(path), *options_by_path[2:], *options_by_path[2:], "-o", str(out)]) == 0
    array = {"npy": np.load, "npz": lambda file: np.load(file)["w"]}.get(
        suffix, lambda file: safetensors.numpy.load_file(file)["w"]
    )(out)
    np.testing.assert_array_equal(array, np.ones(3, np.float32))


def save_tensor(path, array):
    """Save a model with one tensor "t"; return its path."""
    model = onnxwire.ModelProto(ir_version=10)
    model.graph.initializer.append(onnxwire.from_array(array, "t"))
    onnxwire.save(model, path)
    return str(path)


@pytest.mark.parametrize(
    ("dtype", "stored_dtype"), [("bfloat16", "uint16"), ("float8_e4m3fn", "uint8"), ("float4_e2m1fn", "uint8")]
)
@pytest.mark.parametrize("suffix", ["npy", "npz"])
def test_floats_unknown_to_numpy_are_stored_as_bits(tmp_path, capsys, dtype, stored_dtype, suffix):
    scalar = getattr(ml_dtypes, dtype)
    array = np.array([[0.5, 1, -2], [3, 0, 4]], scalar)
    out = tmp_path / f"x.{suffix}"
    assert main(["extract", save_tensor(tmp_path / "m.onnx", array), "--tensor", "t", "-o", str(out)]) == 0
    stored_array = np.load(out)
    stored_array = stored_array["t"] if suffix == "npz" else stored_array
    assert stored_array.dtype == stored_dtype
    np.testing.assert_array_equal(stored_array.view(scalar), array)
    assert f"numpy has no {dtype}" in capsys.readouterr().err


@pytest.mark.parametrize("dtype", ["int4", "uint4", "int2", "uint2"])
def test_integers_unknown_to_numpy_are_stored_as_values(tmp_path, dtype):
    array = np.array([1, 0, 1], getattr(ml_dtypes, dtype))
    assert (
        main(["extract", save_tensor(tmp_path / "m.onnx", array), "--tensor", "t", "-o", str(tmp_path / "x.npy")]) == 0
    )
    assert np.load(tmp_path / "x.npy").tolist() == [1, 0, 1]


@pytest.mark.parametrize(
    "array",
    [np.array(["a", "öß", ""]), np.array(3.5), np.empty((0, 2), np.int64), np.array([True, False]), np.array([1 + 2j])],
)
def test_numpy_loads_arrays_of_any_kind_unchanged(tmp_path, array):
    assert (
        main(["extract", save_tensor(tmp_path / "m.onnx", array), "--tensor", "t", "-o", str(tmp_path / "x.npy")]) == 0
    )
    loaded_array = np.load(tmp_path / "x.npy")
    assert loaded_array.dtype.kind == array.dtype.kind
    np.testing.assert_array_equal(loaded_array, array)


def test_external_data_is_written_from_its_file(tmp_path):
    assert main(["unpack", str(DIGITS), "-o", str(tmp_path / "m.onnx")]) == 0
    for suffix in ("npy", "npz", "safetensors"):
        out = tmp_path / f"x.{suffix}"
        assert main(["extract", str(tmp_path / "m.onnx"), "--tensor", "classifier.1.weight", "-o", str(out)]) == 0
    np.testing.assert_array_equal(np.load(tmp_path / "x.npy"), WEIGHTS["classifier.1.weight"])
    np.testing.assert_array_equal(np.load(tmp_path / "x.npz")["classifier.1.weight"], WEIGHTS["classifier.1.weight"])
    weights = safetensors.numpy.load_file(tmp_path / "x.safetensors")
    np.testing.assert_array_equal(weights["classifier.1.weight"], WEIGHTS["classifier.1.weight"])


def test_a_tensor_of_a_constant_node_is_found_by_output_name_or_path(tmp_path):
    model = onnx.ModelProto(ir_version=10)
    constant = helper.make_node("Constant", [], ["c"], value=numpy_helper.from_array(np.arange(3)))
    model.graph.node.append(constant)
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    for name in ("c", "graph.node[0].attribute[0].t"):
        assert main(["extract", str(tmp_path / "m.onnx"), "--tensor", name, "-o", str(tmp_path / "x.npy")]) == 0
        assert np.load(tmp_path / "x.npy").tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--tensor", "*", "-o", "x.npy"], "an .npy file contains one tensor, not 16"),
        (["--tensor", "*", "-o", "x.bin"], "ends with .npy or .npz or .safetensors"),
        (["--tensor", "zz*", "-o", "x.npy"], "the pattern matches no initializer"),
        (["--tensor", "features.0.weigh", "-o", "x.npy"], "did you mean 'features.0.weight'"),
        (["--tensor", "features.0.bias[0:2]", "-o", "x.npy"], "this is not a tensor"),
    ],
)
def test_a_wrong_output_or_tensor_is_reported_in_one_line(tmp_path, capsys, monkeypatch, options, text):
    monkeypatch.chdir(tmp_path)
    assert text in refusal(capsys, DIGITS, *options)
    assert list(tmp_path.iterdir()) == []


def test_a_string_that_numpy_would_truncate_is_rejected(tmp_path, capsys):
    path = save_tensor(tmp_path / "m.onnx", np.array(["a\0", "b"], object))
    assert "ends with a NUL" in refusal(capsys, path, "--tensor", "t", "-o", tmp_path / "x.npy")


def test_help_shows_examples(capsys):
    with pytest.raises(SystemExit):
        main(["extract", "--help"])
    assert "onnxwire extract m.onnx --outputs relu_1 -o head.onnx" in capsys.readouterr().out


def test_strings_of_very_different_lengths_are_rejected_with_the_limit(tmp_path):
    tensor = onnxwire.TensorProto(
        data_type=onnxwire.TensorProto.STRING, dims=[20_001], string_data=[b"w" * 20_000, *[b""] * 20_000]
    )
    with pytest.raises(onnxwire.TensorError, match=r"need 1,600,080,000 bytes, more than the limit of 1,073,741,824"):
        onnxwire.to_npz({"words": tensor}, tmp_path / "words.npz")
    assert not list(tmp_path.iterdir())
