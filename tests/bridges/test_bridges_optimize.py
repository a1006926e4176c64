"""onnxwire.optimize: the results of onnxslim and onnxoptimizer for complete models; external data, memory, errors."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxoptimizer
import onnxruntime
import onnxslim
import pytest
from graphs import value
from onnx import helper, numpy_helper
from test_bridges_onnx import write_model
from test_bridges_onnx_tools import result_of

import onnxwire
from onnxwire.bridges import optimize

MODELS_FOLDER = Path(onnx.__file__).parent / "backend" / "test" / "data"
DIGITS = Path(__file__).parents[2] / "examples" / "digits_cnn.onnx"
MODELS = [DIGITS, *sorted(MODELS_FOLDER.rglob("*.onnx"))[::10]]
SAMPLE_MODELS = pytest.mark.parametrize("path", MODELS, ids=lambda path: f"{path.parent.name}/{path.name}")
PASS_NAMES = [name for name in onnxoptimizer.get_fuse_and_elimination_passes() if name not in optimize._WEIGHT_PASSES]


def logits_of(model):
    """Return the logits that a model of digits computes for a random image."""
    session = onnxruntime.InferenceSession(model.SerializeToString())
    image = np.random.default_rng(0).random((1, 1, 8, 8), np.float32)
    return session.run(None, {"image": image})[0]


@SAMPLE_MODELS
def test_onnxslim_returns_the_result_for_the_complete_model(path):
    expected = result_of(onnxslim.slim, onnx.load(path))
    assert result_of(onnxwire.optimize, onnxwire.load(path), tool="onnxslim") == expected


@SAMPLE_MODELS
def test_onnxoptimizer_returns_the_result_for_the_complete_model(path):
    expected = result_of(onnxoptimizer.optimize, onnx.load(path), PASS_NAMES)
    for threshold in (1 << 10, 1 << 14):
        result = result_of(onnxwire.optimize, onnxwire.load(path), tool="onnxoptimizer", threshold=threshold)
        assert result == expected


@pytest.mark.parametrize("tool", ["onnxslim", "onnxoptimizer"])
def test_the_optimized_model_computes_the_same_outputs(tool):
    model = onnxwire.load(DIGITS)
    optimized_model = onnxwire.optimize(model, tool=tool, threshold=1 << 10)
    np.testing.assert_allclose(logits_of(optimized_model), logits_of(model), rtol=1e-4, atol=1e-5)


def test_onnxslim_receives_the_weights_with_which_it_computes():
    optimized_model = onnxwire.optimize(onnxwire.load(DIGITS), threshold=1 << 10)
    # Fusing BatchNormalization needs its weights.
    assert "BatchNormalization" not in {node.op_type for node in optimized_model.graph.node}
    assert not [tensor.name for tensor in optimized_model.graph.initializer if tensor.external_data]


@pytest.mark.parametrize("tool", ["onnxslim", "onnxoptimizer"])
def test_external_data_is_read_from_its_file_and_stays_external(tool, tmp_path):
    with onnxwire.load(DIGITS) as complete_model:
        onnxwire.save(complete_model, tmp_path / "m.onnx", external="w.data")
        expected_model = onnxwire.optimize(complete_model, tool=tool)
    model = onnxwire.load(tmp_path / "m.onnx")
    optimized_model = onnxwire.optimize(model, tool=tool)
    assert [tensor.name for tensor in optimized_model.graph.initializer if tensor.external_data]
    for tensor, expected_tensor in zip(
        optimized_model.graph.initializer, expected_model.graph.initializer, strict=True
    ):
        assert tensor.name == expected_tensor.name
        np.testing.assert_array_equal(tensor.numpy(), expected_tensor.numpy())


def test_options_are_passed_to_the_tool():
    optimized_model = onnxwire.optimize(onnxwire.load(DIGITS), skip_optimizations=["graph_fusion"])
    assert "BatchNormalization" in {node.op_type for node in optimized_model.graph.node}
    optimized_model = onnxwire.optimize(onnxwire.load(DIGITS), tool="onnxoptimizer", passes=["eliminate_deadend"])
    assert len(optimized_model.graph.node) == len(onnxwire.load(DIGITS).graph.node)


def test_onnxslim_still_preserves_the_outputs_of_official_models_after_a_call_of_optimize():
    onnxwire.optimize(onnxwire.load(DIGITS))
    slim_model = onnxslim.slim(onnx.load(DIGITS))
    np.testing.assert_allclose(logits_of(slim_model), logits_of(onnx.load(DIGITS)), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("tool", ["onnxslim", "onnxoptimizer"])
def test_weights_of_the_same_shape_are_not_treated_as_equal(tool):
    weights = [numpy_helper.from_array(np.full((100, 100), i, np.float32), f"w{i}") for i in range(3)]
    nodes = [helper.make_node("MatMul", [f"x{i}", f"w{i}"], [f"y{i}"]) for i in range(3)]
    inputs, outputs = ([value(f"{name}{i}", 1, 100) for i in range(3)] for name in "xy")
    graph = helper.make_graph(nodes, "g", inputs, outputs, weights)
    model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 13)])
    optimized_model = onnxwire.optimize(onnxwire.from_onnx(model), tool=tool)
    session = onnxruntime.InferenceSession(optimized_model.SerializeToString())
    results = session.run([f"y{i}" for i in range(3)], {f"x{i}": np.ones((1, 100), np.float32) for i in range(3)})
    assert [result[0, 0] for result in results] == [0, 100, 200]


MEMORY_PROGRAM = """\
import sys
import onnxwire
def peak_kilobytes():
    # ru_maxrss is not used, because it is at least that of the parent process.
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
model = onnxwire.load(sys.argv[1])
onnxwire.save(onnxwire.optimize(model, tool=sys.argv[3]), sys.argv[2])
print(peak_kilobytes())
"""


@pytest.mark.normal_build
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs holes in files, and /proc")
@pytest.mark.parametrize("tool", ["onnxslim", "onnxoptimizer"])
def test_five_gigabytes_of_weights_that_the_tool_does_not_need_are_not_read(tool, tmp_path):
    write_model(tmp_path / "m.onnx", 5 << 30, operator="MatMul")
    command = [sys.executable, "-W", "ignore", "-c", MEMORY_PROGRAM, tmp_path / "m.onnx", tmp_path / "out.onnx", tool]
    assert int(subprocess.run(command, capture_output=True, text=True, check=True).stdout) < 400_000
    assert [tensor.nbytes for tensor in onnxwire.tensors(tmp_path / "out.onnx")] == [5 << 30]


def test_invalid_arguments_and_missing_tools_are_rejected(monkeypatch):
    model = onnxwire.load(DIGITS)
    with pytest.raises(ValueError, match="fuse_bn_into_conv can't be run on a model without its weights"):
        onnxwire.optimize(model, tool="onnxoptimizer", passes=["fuse_bn_into_conv"])
    with pytest.raises(ValueError, match="must be 1,024 bytes or more"):
        onnxwire.optimize(model, threshold=0)
    with pytest.raises(ValueError, match="tool must be 'onnxslim' or 'onnxoptimizer'"):
        onnxwire.optimize(model, tool="other")
    monkeypatch.setattr(optimize, "find_spec", lambda name: None)
    for tool in (None, "onnxoptimizer"):
        with pytest.raises(ImportError, match=f"pip install {tool or 'onnxslim'}"):
            onnxwire.optimize(model, tool=tool)
