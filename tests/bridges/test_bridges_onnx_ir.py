"""Models are converted to onnx-ir, with tensors that read elements lazily, and back."""

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

HOME = Path(onnx.__file__).parent / "backend" / "test" / "data"
MODELS = sorted(str(path.relative_to(HOME)) for path in HOME.rglob("*.onnx"))
DIGITS = Path(__file__).parents[2] / "examples" / "digits_cnn.onnx"
EVERY_MODEL = each("name", MODELS)


def ours(model):
    return onnxwire.ModelProto.FromString(model.SerializeToString())


def model_of(*tensors, nodes=()):
    graph = helper.make_graph(nodes, "g", [value("x", 2)], [value("x", 2)], list(tensors))
    return ours(helper.make_model(graph, ir_version=10))


def constant(model, name):
    return model.graph.initializers[name].const_value


# --- conversion and back


@EVERY_MODEL
def test_a_round_trip_equals_that_of_the_package(name):
    wanted = ir.to_proto(ir.load(HOME / name))
    made = from_ir(to_ir(onnxwire.load(HOME / name)))
    assert onnxwire.to_onnx(made) == wanted


@EVERY_MODEL
def test_the_package_itself_writes_the_same_elements(name):
    model = to_ir(onnxwire.load(HOME / name))
    official = ir.load(HOME / name)
    written = ir.from_proto(ir.to_proto(model))
    assert written.graph.initializers.keys() == official.graph.initializers.keys()
    for key in official.graph.initializers:
        np.testing.assert_array_equal(constant(written, key).numpy(), constant(official, key).numpy())


def test_tensors_in_subgraphs_functions_and_lists_are_ours():
    weight = numpy_helper.from_array(np.arange(3.0), "t")
    official = nested_model()
    body = official.graph.node[1].attribute[0].g
    body.initializer.append(numpy_helper.from_array(np.arange(4.0), "inner"))
    official.graph.node.append(helper.make_node("Constant", [], ["c"], value=weight))
    official.graph.node.append(helper.make_node("Custom", [], ["d"], domain="local", tensors=[weight, weight]))
    official.graph.node.append(helper.make_node("Custom", [], ["e"], domain="local", graphs=[body]))
    official.functions[0].node.insert(0, helper.make_node("Constant", [], ["k"], value=weight))
    message = ours(official)
    model = to_ir(message)
    node = model.graph[4]
    assert type(node.attributes["value"].value) is Tensor
    assert [type(tensor) for tensor in model.graph[5].attributes["tensors"].value] == [Tensor, Tensor]
    for graph in (model.graph[1].attributes["then_branch"].value, model.graph[6].attributes["graphs"].value[0]):
        assert {type(value.const_value) for value in graph.initializers.values()} <= {Tensor}
    function = next(iter(model.functions.values()))
    assert type(function[0].attributes["value"].value) is Tensor
    assert onnxwire.to_onnx(from_ir(model)) == ir.to_proto(ir.from_proto(official))


# --- tensors


def test_every_type_has_the_elements_that_the_package_has():
    for kind, number in stored_tensors.DATA_TYPES.items():
        if kind == "STRING":
            continue
        for message in stored_tensors.Stored(number, [4, 2], [0, 1] * 4).inline("t"):
            official = ir.serde.TensorProtoTensor(onnx.TensorProto.FromString(message))
            tensor = Tensor(onnxwire.TensorProto.FromString(message))
            assert isinstance(tensor, ir.TensorProtocol)
            assert (tensor.name, tensor.shape, tensor.dtype) == (official.name, official.shape, official.dtype)
            assert (tensor.size, tensor.nbytes, tensor.doc_string) == (official.size, official.nbytes, None)
            assert tensor.numpy().dtype == official.numpy().dtype
            np.testing.assert_array_equal(tensor.numpy(), official.numpy())
            np.testing.assert_array_equal(np.asarray(tensor), official.numpy())
            assert tensor.tobytes() == official.tobytes()


def test_strings_are_those_of_the_package():
    official = model_of(helper.make_tensor("s", TensorProto.STRING, [2], [b"a", b"b"]))
    assert constant(to_ir(official), "s").numpy().tolist() == [b"a", b"b"]
    assert from_ir(to_ir(official)).graph.initializer[0].string_data == [b"a", b"b"]


def test_a_round_trip_copies_no_byte(tmp_path):
    path = tmp_path / "m.onnx"
    onnxwire.save(model_of(numpy_helper.from_array(np.arange(500.0), "w")), path)
    message = onnxwire.load(path)
    model = to_ir(message)
    made = from_ir(model)
    array = message.graph.initializer[0].numpy()
    assert np.shares_memory(constant(model, "w").numpy(), array)
    assert np.shares_memory(np.from_dlpack(constant(model, "w")), array)
    assert np.shares_memory(made.graph.initializer[0].numpy(), array)
    message = model = array = None
    assert made.graph.initializer[0].numpy()[-1] == 499


def test_changes_of_the_ir_do_not_change_the_message():
    message = model_of(numpy_helper.from_array(np.arange(500.0), "w"))
    before = message.SerializeToString()
    model = to_ir(message)
    tensor = constant(model, "w")
    model.graph.initializers["w"].name = "renamed"
    tensor.doc_string = "text"
    tensor.metadata_props["k"] = "v"
    tensor.meta["kept"] = object()
    (made,) = from_ir(model).graph.initializer
    assert (made.name, made.doc_string, made.metadata_props[0].key) == ("renamed", "text", "k")
    assert made.numpy()[-1] == 499
    assert message.SerializeToString() == before


def test_elements_are_written_to_a_file_without_a_copy(tmp_path):
    tensor = Tensor(model_of(numpy_helper.from_array(np.arange(500.0), "w")).graph.initializer[0])
    with open(tmp_path / "w", "wb") as file:
        tensor.tofile(file)
    assert (tmp_path / "w").read_bytes() == tensor.tobytes()
    assert repr(tensor) == "Tensor<DOUBLE,[500]>(name='w')"


def test_tensors_of_other_classes_are_written_by_the_package():
    message = model_of(numpy_helper.from_array(np.arange(500.0), "w"))
    model = to_ir(message)
    other = ir.Tensor(np.arange(16, dtype=np.uint8), name="o")  # has the same length as the placeholder of elements
    model.graph.initializers.add(ir.Value(name="o", const_value=other))
    made = from_ir(model)
    assert {tensor.name: tensor.numpy().tolist()[-1] for tensor in made.graph.initializer} == {"w": 499, "o": 15}


def test_a_pass_of_the_package_works_on_it():
    from onnx_ir.passes import common

    model = to_ir(onnxwire.load(DIGITS))
    common.LiftConstantsToInitializersPass()(model)
    common.DeduplicateInitializersPass()(model)
    official = ir.load(DIGITS)
    common.LiftConstantsToInitializersPass()(official)
    common.DeduplicateInitializersPass()(official)
    assert onnxwire.to_onnx(from_ir(model)) == ir.to_proto(official)


# --- external data


def test_external_data_is_read_by_the_package_and_stays_external(tmp_path):
    onnxwire.save(model_of(numpy_helper.from_array(np.arange(500.0), "w")), tmp_path / "m.onnx", external="w.data")
    message = onnxwire.load(tmp_path / "m.onnx")
    model = to_ir(message)
    assert isinstance(constant(model, "w"), ir.ExternalTensor)
    assert constant(model, "w").numpy()[-1] == 499
    made = from_ir(model)
    assert made.graph.initializer == message.graph.initializer
    assert made.graph.initializer[0].numpy()[-1] == 499
    onnxwire.save(made, tmp_path / "one.onnx", external=None)
    assert onnxwire.load(tmp_path / "one.onnx").graph.initializer[0].raw_data == np.arange(500.0).tobytes()


# --- size


CODE = """\
import sys
import onnxwire
def peak():
    # Not ru_maxrss, which is at least that of the process that started this one.
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
from onnxwire.bridges.onnx_ir import from_ir, to_ir
with onnxwire.load(sys.argv[1]) as message:
    model = to_ir(message)
    value = next(iter(model.graph.initializers.values()))
    value.name = "renamed"
    assert value.const_value.nbytes == 1 << 30
    onnxwire.save(from_ir(model), sys.argv[2])
print(peak())
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs holes in files, and /proc")
def test_of_a_gigabyte_no_byte_is_read(tmp_path):
    write_sparse_model(tmp_path / "m.onnx", 1 << 30)
    command = [sys.executable, "-c", CODE, tmp_path / "m.onnx", tmp_path / "out.onnx"]
    assert int(subprocess.run(command, capture_output=True, text=True, check=True).stdout) < 200_000
    (tensor,) = onnxwire.tensors(tmp_path / "out.onnx")
    assert (tensor.name, tensor.nbytes) == ("renamed", 1 << 30)
    assert (tmp_path / "out.onnx").stat().st_blocks < 10_000


# --- refusals


def test_other_objects_are_rejected():
    with pytest.raises(TypeError, match="expected a ModelProto of onnxwire"):
        to_ir(onnx.ModelProto())
    with pytest.raises(TypeError, match=r"expected an onnx_ir\.Model"):
        from_ir(onnxwire.ModelProto())


def test_without_the_package_one_line_says_what_to_install():
    code = "import sys; sys.modules['onnx_ir'] = None; import onnxwire.bridges.onnx_ir"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.splitlines()[-1].endswith("not installed; `pip install onnx-ir`")
