"""onnxslim and onnxoptimizer return the same results for models without weights as for full models."""

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

HOME = Path(onnx.__file__).parent / "backend" / "test" / "data"
DIGITS = Path(__file__).parents[2] / "examples" / "digits_cnn.onnx"
MODELS = [DIGITS, *sorted(HOME.rglob("*.onnx"))[::10]]
EVERY_MODEL = pytest.mark.parametrize("path", MODELS, ids=lambda path: f"{path.parent.name}/{path.name}")
PASS_NAMES = [name for name in onnxoptimizer.get_fuse_and_elimination_passes() if name not in optimize._WEIGHT_PASSES]


def run(model):
    """Return the logits that the model of digits computes for an image."""
    session = onnxruntime.InferenceSession(model.SerializeToString())
    picture = np.random.default_rng(0).random((1, 1, 8, 8), np.float32)
    return session.run(None, {"image": picture})[0]


@EVERY_MODEL
def test_onnxslim_returns_the_result_for_the_full_model(path):
    wanted = result_of(onnxslim.slim, onnx.load(path))
    assert result_of(onnxwire.optimize, onnxwire.load(path), tool="onnxslim") == wanted


@EVERY_MODEL
def test_onnxoptimizer_returns_the_result_for_the_full_model(path):
    wanted = result_of(onnxoptimizer.optimize, onnx.load(path), PASS_NAMES)
    for threshold in (1 << 10, 1 << 14):
        made = result_of(onnxwire.optimize, onnxwire.load(path), tool="onnxoptimizer", threshold=threshold)
        assert made == wanted


@pytest.mark.parametrize("tool", ["onnxslim", "onnxoptimizer"])
def test_the_optimized_model_computes_the_same(tool):
    model = onnxwire.load(DIGITS)
    made = onnxwire.optimize(model, tool=tool, threshold=1 << 10)
    np.testing.assert_allclose(run(made), run(model), rtol=1e-4, atol=1e-5)


def test_onnxslim_has_the_weights_that_it_computes_with():
    made = onnxwire.optimize(onnxwire.load(DIGITS), threshold=1 << 10)
    assert "BatchNormalization" not in {node.op_type for node in made.graph.node}
    assert not [tensor.name for tensor in made.graph.initializer if tensor.external_data]


@pytest.mark.parametrize("tool", ["onnxslim", "onnxoptimizer"])
def test_external_data_is_read_from_its_file_and_stays_external(tool, tmp_path):
    with onnxwire.load(DIGITS) as whole:
        onnxwire.save(whole, tmp_path / "m.onnx", external="w.data")
        wanted = onnxwire.optimize(whole, tool=tool)
    model = onnxwire.load(tmp_path / "m.onnx")
    made = onnxwire.optimize(model, tool=tool)
    assert [tensor.name for tensor in made.graph.initializer if tensor.external_data]
    for tensor, other in zip(made.graph.initializer, wanted.graph.initializer, strict=True):
        assert tensor.name == other.name
        np.testing.assert_array_equal(tensor.numpy(), other.numpy())


def test_options_go_to_the_tool():
    kept = onnxwire.optimize(onnxwire.load(DIGITS), skip_optimizations=["graph_fusion"])
    assert "BatchNormalization" in {node.op_type for node in kept.graph.node}
    kept = onnxwire.optimize(onnxwire.load(DIGITS), tool="onnxoptimizer", passes=["eliminate_deadend"])
    assert len(kept.graph.node) == len(onnxwire.load(DIGITS).graph.node)


def test_onnxslim_works_on_its_own_models_as_before():
    onnxwire.optimize(onnxwire.load(DIGITS))
    first = onnxslim.slim(onnx.load(DIGITS))
    np.testing.assert_allclose(run(first), run(onnx.load(DIGITS)), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("tool", ["onnxslim", "onnxoptimizer"])
def test_weights_of_one_shape_are_not_treated_as_equal(tool):
    weights = [numpy_helper.from_array(np.full((100, 100), i, np.float32), f"w{i}") for i in range(3)]
    nodes = [helper.make_node("MatMul", [f"x{i}", f"w{i}"], [f"y{i}"]) for i in range(3)]
    inputs, outputs = ([value(f"{name}{i}", 1, 100) for i in range(3)] for name in "xy")
    graph = helper.make_graph(nodes, "g", inputs, outputs, weights)
    model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 13)])
    made = onnxwire.optimize(onnxwire.from_onnx(model), tool=tool)
    session = onnxruntime.InferenceSession(made.SerializeToString())
    results = session.run([f"y{i}" for i in range(3)], {f"x{i}": np.ones((1, 100), np.float32) for i in range(3)})
    assert [result[0, 0] for result in results] == [0, 100, 200]


CODE = """\
import sys
import onnxwire
def peak():
    # Not ru_maxrss, which is at least that of the process that started this one.
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
model = onnxwire.load(sys.argv[1])
onnxwire.save(onnxwire.optimize(model, tool=sys.argv[3]), sys.argv[2])
print(peak())
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs holes in files, and /proc")
@pytest.mark.parametrize("tool", ["onnxslim", "onnxoptimizer"])
def test_of_five_gigabytes_only_weights_in_computations_are_read(tool, tmp_path):
    write_model(tmp_path / "m.onnx", 5 << 30, operator="MatMul")
    command = [sys.executable, "-W", "ignore", "-c", CODE, tmp_path / "m.onnx", tmp_path / "out.onnx", tool]
    assert int(subprocess.run(command, capture_output=True, text=True, check=True).stdout) < 400_000
    assert [tensor.nbytes for tensor in onnxwire.tensors(tmp_path / "out.onnx")] == [5 << 30]


def test_passes_and_thresholds_that_can_not_be_used_are_rejected(monkeypatch):
    model = onnxwire.load(DIGITS)
    with pytest.raises(ValueError, match="fuse_bn_into_conv can't be run on a model without its weights"):
        onnxwire.optimize(model, tool="onnxoptimizer", passes=["fuse_bn_into_conv"])
    with pytest.raises(ValueError, match="threshold is 1,024 bytes or more"):
        onnxwire.optimize(model, threshold=0)
    with pytest.raises(ValueError, match="tool is 'onnxslim' or 'onnxoptimizer'"):
        onnxwire.optimize(model, tool="other")
    monkeypatch.setattr(optimize, "find_spec", lambda name: None)
    for tool in (None, "onnxoptimizer"):
        with pytest.raises(ImportError, match=f"pip install {tool or 'onnxslim'}"):
            onnxwire.optimize(model, tool=tool)
