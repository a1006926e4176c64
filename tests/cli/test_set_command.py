"""`onnxwire set` sets the targets of paths, or weights from a safetensors file, and changes nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
from graphs import write_sparse_model
from onnx import numpy_helper

import onnxwire
from onnxwire.cli import main
from onnxwire.transforms.assign import assign

DIGITS = Path(__file__).parents[2] / "examples" / "digits_cnn.onnx"


@pytest.fixture
def set_fields(tmp_path):
    """Return a function that sets fields of the digits model, and returns the result as an official model."""

    def change(*assignments):
        assert main(["set", str(DIGITS), *assignments, "-o", str(tmp_path / "out.onnx")]) == 0
        return onnx.load(tmp_path / "out.onnx")

    return change


def expected_model(edit):
    """Call `edit` with the digits model as an official model; return the model."""
    model = onnx.load(DIGITS)
    edit(model)
    return model


def attribute(model, name):
    """Return an attribute of the node node_conv2d."""
    return next(a for a in model.graph.node[2].attribute if a.name == name)


@pytest.mark.parametrize(
    ("assignment", "edit"),
    [
        ("producer_name=a=b [c]", lambda m: setattr(m, "producer_name", "a=b [c]")),
        ("doc_string=", lambda m: setattr(m, "doc_string", "")),
        ("model_version=-7", lambda m: setattr(m, "model_version", -7)),
        ("ir_version=0x9", lambda m: setattr(m, "ir_version", 9)),
        ("graph.node[4].op_type=Gelu", lambda m: setattr(m.graph.node[4], "op_type", "Gelu")),
        ("graph.node[-1].name=last", lambda m: setattr(m.graph.node[-1], "name", "last")),
        ("node:node_relu.op_type=Gelu", lambda m: setattr(m.graph.node[4], "op_type", "Gelu")),
        ("graph.node[node_relu].input[0]=x", lambda m: m.graph.node[4].input.__setitem__(0, "x")),
        ("node:node_relu.input=[a, b]", lambda m: m.graph.node[4].input.__setitem__(slice(None), ["a", "b"])),
        ('node:node_relu.input=["a, b", "c"]', lambda m: m.graph.node[4].input.__setitem__(slice(None), ["a, b", "c"])),
        ("node:node_relu.input=[]", lambda m: m.graph.node[4].ClearField("input")),
        (
            "node:node_conv2d.attribute[pads]=[1,2,3,4]",
            lambda m: attribute(m, "pads").ints.__setitem__(slice(None), [1, 2, 3, 4]),
        ),
        ("node:node_conv2d.attribute[group]=2", lambda m: setattr(attribute(m, "group"), "i", 2)),
        ("node:node_conv2d.attribute[auto_pad]=SAME", lambda m: setattr(attribute(m, "auto_pad"), "s", b"SAME")),
        ("node:node_conv2d.attribute[group].type=FLOAT", lambda m: setattr(attribute(m, "group"), "type", 1)),
        ("opset_import[0]=21", lambda m: setattr(m.opset_import[0], "version", 21)),
        (
            "input:image.type.tensor_type.shape.dim[0]=8",
            lambda m: setattr(m.graph.input[0].type.tensor_type.shape.dim[0], "dim_value", 8),
        ),
        (
            "input:image.type.tensor_type.shape.dim[1]=C",
            lambda m: setattr(m.graph.input[0].type.tensor_type.shape.dim[1], "dim_param", "C"),
        ),
        (
            "input:image.type.tensor_type.elem_type=float16",
            lambda m: setattr(m.graph.input[0].type.tensor_type, "elem_type", 10),
        ),
        ("tensor:features.0.bias.data_type=DOUBLE", lambda m: setattr(m.graph.initializer[1], "data_type", 11)),
        (
            'graph.node[4]={op_type: "Abs" input: "x" output: "y"}',
            lambda m: m.graph.node[4].CopyFrom(onnx.NodeProto(op_type="Abs", input=["x"], output=["y"])),
        ),
    ],
)
def test_only_the_element_at_the_path_is_set(set_fields, assignment, edit):
    assert set_fields(assignment) == expected_model(edit)


def test_assignments_are_applied_in_order(set_fields):
    assert set_fields("producer_name=a", "producer_name=b").producer_name == "b"


def test_metadata_are_set_by_key(set_fields):
    key = "pkg.torch.export.ExportedProgram.range_constraints"
    assert set_fields(f'graph.metadata_props["{key}"]=x').graph.metadata_props[1].value == "x"


def test_a_metadata_value_may_be_json(set_fields):
    key = "pkg.torch.export.ExportedProgram.range_constraints"
    assert set_fields(f'graph.metadata_props["{key}"]={{"a": 1}}').graph.metadata_props[1].value == '{"a": 1}'


def test_a_name_may_have_an_equals_sign_in_it():
    model = onnxwire.ModelProto()
    model.graph.node.add(name="a=b", op_type="Relu")
    assert assign(model, "node:a=b.op_type=c=d") == "graph.node[0].op_type"
    assign(model, 'node:"a=b".domain=e=f')
    assert (model.graph.node[0].op_type, model.graph.node[0].domain) == ("c=d", "e=f")


def test_a_tensor_is_set_to_the_array_of_an_npy_file(set_fields, tmp_path):
    array = np.arange(6, dtype=np.int64).reshape(2, 3)
    np.save(tmp_path / "x.npy", array)
    tensor = set_fields(f"tensor:features.0.bias=@{tmp_path / 'x.npy'}", "--force").graph.initializer[1]
    assert tensor.name == "features.0.bias"
    np.testing.assert_array_equal(numpy_helper.to_array(tensor), array)


def test_elements_of_a_tensor_are_set(set_fields):
    edited_model = set_fields("tensor:features.0.weight[0, 0, :, 1]=0.5", "tensor:features.0.bias[-1]=-inf")
    array = numpy_helper.to_array(onnx.load(DIGITS).graph.initializer[0]).copy()
    array[0, 0, :, 1] = 0.5
    np.testing.assert_array_equal(numpy_helper.to_array(edited_model.graph.initializer[0]), array)
    assert numpy_helper.to_array(edited_model.graph.initializer[1])[-1] == -np.inf


@pytest.mark.parametrize(
    ("array", "text", "value"),
    [
        (np.array([True, True]), "false", False),
        (np.array([1, 2], ml_dtypes.bfloat16), "3.5", 3.5),
        (np.array([1, 2], ml_dtypes.int4), "-3", -3),
        (np.array([1, 2], np.complex64), "1+2j", 1 + 2j),
        (np.array(["a", "b"]), "x y", "x y"),
        (np.array([1, 2], np.uint64), "18446744073709551615", 18446744073709551615),
    ],
)
def test_elements_of_many_types_are_set(array, text, value):
    model = onnxwire.ModelProto()
    model.graph.initializer.append(onnxwire.from_array(array, "t"))
    assign(model, f"tensor:t[0]={text}")
    assert model.graph.initializer[0].numpy()[0] == value
    assert model.graph.initializer[0].numpy()[1] == array[1]


def test_bytes_are_set_to_the_contents_of_a_file(set_fields, tmp_path):
    (tmp_path / "x.bin").write_bytes(bytes(range(64)))
    edited_model = set_fields(f"tensor:features.0.bias.raw_data=@{tmp_path / 'x.bin'}")
    assert edited_model.graph.initializer[1].raw_data == bytes(range(64))


def test_setting_elements_makes_external_data_inline(tmp_path):
    path = tmp_path / "m.onnx"
    assert main(["unpack", str(DIGITS), "-o", str(path), "--threshold", "1"]) == 0
    assert main(["set", str(path), "tensor:features.0.bias[0]=9", "-i"]) == 0
    with onnxwire.load(path) as model:
        assert model.graph.initializer[1].numpy()[0] == 9
        assert not model.graph.initializer[1].external_data


def test_in_place_the_file_is_replaced(tmp_path):
    path = tmp_path / "m.onnx"
    path.write_bytes(DIGITS.read_bytes())
    assert main(["set", str(path), "producer_name=me", "-i"]) == 0
    assert onnx.load(path).producer_name == "me"
    assert list(tmp_path.iterdir()) == [path]


def test_the_result_is_written_to_stdout(capfdbinary):
    assert main(["set", str(DIGITS), "producer_name=me", "-o", "-"]) == 0
    assert onnx.ModelProto.FromString(capfdbinary.readouterr().out).producer_name == "me"


@pytest.mark.parametrize(
    ("assignment", "text"),
    [
        ("ir_version=abc", "ir_version=abc: 'abc' is not a whole number"),
        ("ir_version=99999999999999999999", "ir_version=99999999999999999999: "),
        ("graph.node[99].name=x", "graph.node[99] does not exist; the 17 elements are [0] to [16]"),
        ("grap=x", "ModelProto has no field 'grap'; did you mean 'graph'?"),
        ("producer_name", "the assignment has no =; write PATH=VALUE"),
        ("=x", "the path names the root message; set one of its fields, such as producer_name=..."),
        ("graph.node=x", "the path names several messages; set one of them, such as [0]"),
        ("training_info=", "the path names several messages; set one of them, such as [0]"),
        (
            "graph.node[0]=Relu",
            "assign text format in braces to the NodeProto, or set one of its fields, such as .n",
        ),
        ('graph.node[0]={op_typ: "x"}', "NodeProto has no field 'op_typ'"),
        ("graph.node[0].name[0]=x", "a part of a string or of bytes can't be set"),
        ("graph.node[0].input[0][0]=x", "a part of a string or of bytes can't be set"),
        ("tensor:features.0.bias.raw_data[0]=x", "a part of a string or of bytes can't be set"),
        ("graph.node[0].input[0:1]=x", "a slice can't be set"),
        ("node:node_conv2d.attribute[group].type=NO", "'NO' is not one of UNDEFINED, FLOAT, INT"),
        ("tensor:features.0.bias=@absent.npy", "absent.npy: No such file"),
        (f"tensor:features.0.bias=@{DIGITS}", "is not an .npy file"),
        ("tensor:features.0.bias.raw_data=@absent", "absent: No such file"),
        (f"tensor:features.0.bias.raw_data=@{os.devnull}", f"{os.devnull}: this is a pipe, device or file of /proc"),
        ("tensor:features.0.bias[99]=1", "index 99 is out of bounds"),
        ("tensor:features.0.bias[0]=1e99", "float32 can't store the value"),
        ("tensor:features.0.bias[0]=x", "'x' is not a value of type float32"),
    ],
)
def test_a_wrong_assignment_is_reported_in_one_line(tmp_path, capsys, assignment, text):
    out = tmp_path / "out.onnx"
    assert main(["set", str(DIGITS), assignment, "-o", str(out)]) == 2
    err = capsys.readouterr().err
    assert text in err
    assert err.startswith("onnxwire: ")
    assert err.count("\n") == 1
    assert not out.exists()


def test_an_output_option_is_required(capsys):
    with pytest.raises(SystemExit) as excinfo:
        main(["set", str(DIGITS), "producer_name=me"])
    assert excinfo.value.code == 2
    assert "-o/--output -i/--in-place is required" in capsys.readouterr().err


def test_editing_a_model_of_gigabytes_takes_little_memory(tmp_path):
    path, size = str(tmp_path / "big.onnx"), 1 << 32
    write_sparse_model(path, size)
    script = (
        "import resource, sys\n"
        "from onnxwire.cli import main\n"
        "main(['meta', sys.argv[1]])\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "assert main(['set', sys.argv[1], 'node:n.op_type=Gelu', '-i']) == 0\n"
        "assert main(['rename', sys.argv[1], 'x', 'image', '-i']) == 0\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)\n"
    )
    result = subprocess.run([sys.executable, "-c", script, path], capture_output=True, text=True, check=True)
    assert int(result.stdout.split()[-1]) < 50_000  # KiB
    with onnxwire.load(path) as model:
        assert (model.graph.node[0].op_type, model.graph.node[0].input[0]) == ("Gelu", "image")
        assert model.graph.initializer[0].nbytes == size


def test_another_type_or_shape_of_a_tensor_needs_force(tmp_path, capsys):
    for array in (np.zeros(16, np.float64), np.zeros((4, 4), np.float32)):
        np.save(tmp_path / "x.npy", array)
        words = ["set", str(DIGITS), f"tensor:features.0.bias=@{tmp_path / 'x.npy'}", "-o", str(tmp_path / "out.onnx")]
        assert main(words) == 2
        assert "the tensor is FLOAT [16], and the new value" in (err := capsys.readouterr().err)
        assert err.endswith("; to change type or shape, add --force\n")
        assert main([*words, "--force"]) == 0


def test_weights_are_read_from_safetensors_by_name(tmp_path, capsys):
    out, weights_path = tmp_path / "out.onnx", tmp_path / "w.safetensors"
    array = np.arange(16, dtype=np.float32)
    weights = onnxwire.ModelProto()
    weights.graph.initializer.extend(
        [onnxwire.from_array(array, "features.0.bias"), onnxwire.from_array(array, "more")]
    )
    onnxwire.to_safetensors(weights, weights_path)
    assert main(["set", str(DIGITS), "--from", str(weights_path), "producer_name=me", "-o", str(out)]) == 0
    err = capsys.readouterr().err
    assert "w.safetensors: not in the file: features.0.weight, " in err
    assert "w.safetensors: not in the model: more" in err
    edited_model = onnx.load(out)
    assert edited_model.producer_name == "me"
    np.testing.assert_array_equal(numpy_helper.to_array(edited_model.graph.initializer[1]), array)


@pytest.mark.parametrize(
    ("name", "array", "text"),
    [
        ("features.0.bias", np.zeros(3, np.float32), "tensor 'features.0.bias': the tensor is FLOAT [16], and the new"),
        ("other", np.zeros(3, np.float32), "no initializer has the name of a tensor in this file, such as 'other'"),
    ],
)
def test_weights_that_do_not_fit_are_rejected(tmp_path, capsys, name, array, text):
    weights = onnxwire.ModelProto()
    weights.graph.initializer.append(onnxwire.from_array(array, name))
    onnxwire.to_safetensors(weights, tmp_path / "w.safetensors")
    words = ["set", str(DIGITS), "--from", str(tmp_path / "w.safetensors"), "-o", str(tmp_path / "out.onnx")]
    assert main(words) == 2
    assert text in capsys.readouterr().err
    assert not (tmp_path / "out.onnx").exists()


def test_nothing_to_set_is_an_error(capsys):
    with pytest.raises(SystemExit):
        main(["set", str(DIGITS), "-o", "x"])
    assert "required: PATH=VALUE, or --from WEIGHTS" in capsys.readouterr().err
