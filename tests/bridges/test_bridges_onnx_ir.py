"""Conversion of models to onnx-ir and back, with tensors whose elements are read when they are used."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
import stored_tensors
from each import each
from graphs import nested_model, value, write_sparse_model
from onnx import TensorProto, helper, numpy_helper

import onnxwire
from onnxwire.bridges.onnx_ir import Tensor, from_ir, to_ir

MODELS_FOLDER = Path(onnx.__file__).parent / "backend" / "test" / "data"
MODELS = sorted(str(path.relative_to(MODELS_FOLDER)) for path in MODELS_FOLDER.rglob("*.onnx"))
DIGITS = Path(__file__).parents[2] / "examples" / "digits_cnn.onnx"
EVERY_MODEL = each("name", MODELS)


def to_onnxwire(model):
    """Return an official model as a model of onnxwire."""
    return onnxwire.ModelProto.FromString(model.SerializeToString())


def model_of(*tensors, nodes=()):
    """Return a model of onnxwire with the given official initializers and nodes."""
    graph = helper.make_graph(nodes, "g", [value("x", 2)], [value("x", 2)], list(tensors))
    return to_onnxwire(helper.make_model(graph, ir_version=10))


def initializer_tensor(model, name):
    """Return the tensor of an initializer in a model of onnx-ir."""
    return model.graph.initializers[name].const_value


# --- conversion and back


@EVERY_MODEL
def test_a_round_trip_equals_that_of_onnx_ir(name):
    expected = ir.to_proto(ir.load(MODELS_FOLDER / name))
    result = from_ir(to_ir(onnxwire.load(MODELS_FOLDER / name)))
    assert onnxwire.to_onnx(result) == expected


@EVERY_MODEL
def test_onnx_ir_writes_the_same_elements(name):
    model = to_ir(onnxwire.load(MODELS_FOLDER / name))
    official_model = ir.load(MODELS_FOLDER / name)
    written_model = ir.from_proto(ir.to_proto(model))
    assert written_model.graph.initializers.keys() == official_model.graph.initializers.keys()
    for key in official_model.graph.initializers:
        np.testing.assert_array_equal(
            initializer_tensor(written_model, key).numpy(), initializer_tensor(official_model, key).numpy()
        )


def test_tensors_in_subgraphs_functions_and_lists_have_the_class_of_onnxwire():
    weight = numpy_helper.from_array(np.arange(3.0), "t")
    official_model = nested_model()
    body = official_model.graph.node[1].attribute[0].g
    body.initializer.append(numpy_helper.from_array(np.arange(4.0), "inner"))
    official_model.graph.node.append(helper.make_node("Constant", [], ["c"], value=weight))
    official_model.graph.node.append(helper.make_node("Custom", [], ["d"], domain="local", tensors=[weight, weight]))
    official_model.graph.node.append(helper.make_node("Custom", [], ["e"], domain="local", graphs=[body]))
    official_model.functions[0].node.insert(0, helper.make_node("Constant", [], ["k"], value=weight))
    message = to_onnxwire(official_model)
    model = to_ir(message)
    node = model.graph[4]
    assert type(node.attributes["value"].value) is Tensor
    assert [type(tensor) for tensor in model.graph[5].attributes["tensors"].value] == [Tensor, Tensor]
    for graph in (model.graph[1].attributes["then_branch"].value, model.graph[6].attributes["graphs"].value[0]):
        assert {type(value.const_value) for value in graph.initializers.values()} <= {Tensor}
    function = next(iter(model.functions.values()))
    assert type(function[0].attributes["value"].value) is Tensor
    assert onnxwire.to_onnx(from_ir(model)) == ir.to_proto(ir.from_proto(official_model))


# --- tensors


def test_elements_of_every_type_but_strings_equal_those_of_onnx_ir():
    for type_name, number in stored_tensors.DATA_TYPES.items():
        if type_name == "STRING":
            continue
        for encoded_tensor in stored_tensors.TensorParts(number, [4, 2], [0, 1] * 4).inline("t"):
            official_tensor = ir.serde.TensorProtoTensor(onnx.TensorProto.FromString(encoded_tensor))
            tensor = Tensor(onnxwire.TensorProto.FromString(encoded_tensor))
            assert isinstance(tensor, ir.TensorProtocol)
            assert (tensor.name, tensor.shape, tensor.dtype) == (
                official_tensor.name,
                official_tensor.shape,
                official_tensor.dtype,
            )
            assert (tensor.size, tensor.nbytes, tensor.doc_string) == (
                official_tensor.size,
                official_tensor.nbytes,
                None,
            )
            assert tensor.numpy().dtype == official_tensor.numpy().dtype
            np.testing.assert_array_equal(tensor.numpy(), official_tensor.numpy())
            np.testing.assert_array_equal(np.asarray(tensor), official_tensor.numpy())
            assert tensor.tobytes() == official_tensor.tobytes()


def test_strings_become_bytes_and_are_converted_back():
    model = model_of(helper.make_tensor("s", TensorProto.STRING, [2], [b"a", b"b"]))
    assert initializer_tensor(to_ir(model), "s").numpy().tolist() == [b"a", b"b"]
    assert from_ir(to_ir(model)).graph.initializer[0].string_data == [b"a", b"b"]


def test_a_round_trip_copies_no_elements(tmp_path):
    path = tmp_path / "m.onnx"
    onnxwire.save(model_of(numpy_helper.from_array(np.arange(500.0), "w")), path)
    message = onnxwire.load(path)
    model = to_ir(message)
    result = from_ir(model)
    array = message.graph.initializer[0].numpy()
    assert np.shares_memory(initializer_tensor(model, "w").numpy(), array)
    assert np.shares_memory(np.from_dlpack(initializer_tensor(model, "w")), array)
    assert np.shares_memory(result.graph.initializer[0].numpy(), array)
    message = model = array = None  # the result keeps the file open by itself
    assert result.graph.initializer[0].numpy()[-1] == 499


def test_changes_to_the_ir_do_not_change_the_message():
    message = model_of(numpy_helper.from_array(np.arange(500.0), "w"))
    bytes_before = message.SerializeToString()
    model = to_ir(message)
    tensor = initializer_tensor(model, "w")
    model.graph.initializers["w"].name = "renamed"
    tensor.doc_string = "text"
    tensor.metadata_props["k"] = "v"
    tensor.meta["key"] = object()
    (result,) = from_ir(model).graph.initializer
    assert (result.name, result.doc_string, result.metadata_props[0].key) == ("renamed", "text", "k")
    assert result.numpy()[-1] == 499
    assert message.SerializeToString() == bytes_before


def test_a_tensor_writes_its_elements_to_a_file_and_has_a_repr(tmp_path):
    tensor = Tensor(model_of(numpy_helper.from_array(np.arange(500.0), "w")).graph.initializer[0])
    with open(tmp_path / "w", "wb") as file:
        tensor.tofile(file)
    assert (tmp_path / "w").read_bytes() == tensor.tobytes()
    assert repr(tensor) == "Tensor<DOUBLE,[500]>(name='w')"


def test_tensors_of_other_classes_are_written_by_onnx_ir():
    message = model_of(numpy_helper.from_array(np.arange(500.0), "w"))
    model = to_ir(message)
    # bridges/onnx_ir.py represents elements by placeholders of 16 bytes; this tensor also has 16 bytes.
    other_tensor = ir.Tensor(np.arange(16, dtype=np.uint8), name="o")
    model.graph.initializers.add(ir.Value(name="o", const_value=other_tensor))
    result = from_ir(model)
    assert {tensor.name: tensor.numpy().tolist()[-1] for tensor in result.graph.initializer} == {"w": 499, "o": 15}


def test_passes_of_onnx_ir_work_on_a_converted_model():
    from onnx_ir.passes import common

    model = to_ir(onnxwire.load(DIGITS))
    common.LiftConstantsToInitializersPass()(model)
    common.DeduplicateInitializersPass()(model)
    official_model = ir.load(DIGITS)
    common.LiftConstantsToInitializersPass()(official_model)
    common.DeduplicateInitializersPass()(official_model)
    assert onnxwire.to_onnx(from_ir(model)) == ir.to_proto(official_model)


# --- external data


def test_external_data_is_read_by_onnx_ir_and_stays_external(tmp_path):
    onnxwire.save(model_of(numpy_helper.from_array(np.arange(500.0), "w")), tmp_path / "m.onnx", external="w.data")
    message = onnxwire.load(tmp_path / "m.onnx")
    model = to_ir(message)
    assert isinstance(initializer_tensor(model, "w"), ir.ExternalTensor)
    assert initializer_tensor(model, "w").numpy()[-1] == 499
    result = from_ir(model)
    assert result.graph.initializer == message.graph.initializer
    assert result.graph.initializer[0].numpy()[-1] == 499
    onnxwire.save(result, tmp_path / "one.onnx", external=None)
    assert onnxwire.load(tmp_path / "one.onnx").graph.initializer[0].raw_data == np.arange(500.0).tobytes()


# --- size


MEMORY_PROGRAM = """\
import sys
import onnxwire
def peak_kilobytes():
    # ru_maxrss is not used, because it is at least that of the parent process.
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
from onnxwire.bridges.onnx_ir import from_ir, to_ir
with onnxwire.load(sys.argv[1]) as message:
    model = to_ir(message)
    value = next(iter(model.graph.initializers.values()))
    value.name = "renamed"
    assert value.const_value.nbytes == 1 << 30
    onnxwire.save(from_ir(model), sys.argv[2])
print(peak_kilobytes())
"""


@pytest.mark.normal_build
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs holes in files, and /proc")
def test_a_weight_of_a_gigabyte_is_not_read(tmp_path):
    write_sparse_model(tmp_path / "m.onnx", 1 << 30)
    command = [sys.executable, "-c", MEMORY_PROGRAM, tmp_path / "m.onnx", tmp_path / "out.onnx"]
    assert int(subprocess.run(command, capture_output=True, text=True, check=True).stdout) < 200_000
    (tensor,) = onnxwire.tensors(tmp_path / "out.onnx")
    assert (tensor.name, tensor.nbytes) == ("renamed", 1 << 30)
    assert (tmp_path / "out.onnx").stat().st_blocks < 10_000


# --- errors


def test_other_objects_are_rejected():
    with pytest.raises(TypeError, match="expected a ModelProto of onnxwire"):
        to_ir(onnx.ModelProto())
    with pytest.raises(TypeError, match=r"expected an onnx_ir\.Model"):
        from_ir(onnxwire.ModelProto())


def test_without_onnx_ir_the_error_names_the_missing_package():
    code = "import sys; sys.modules['onnx_ir'] = None; import onnxwire.bridges.onnx_ir"
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert process.stderr.splitlines()[-1].endswith("not installed; `pip install onnx-ir`")
