"""Sessions of onnxruntime return the same outputs as sessions of files, for edited and for huge models too."""

from __future__ import annotations

import ctypes
import gc
import os
from pathlib import Path

import numpy as np
import onnx
import pytest
import stored_tensors
from onnx import helper
from test_bridges_safetensors import needs_proc, python, sparse_model

import onnxwire
from onnxwire import ModelProto

onnxruntime = pytest.importorskip("onnxruntime")

EXAMPLES = Path(__file__).parents[2] / "examples"
T = stored_tensors.DATA_TYPES
CPU = ["CPUExecutionProvider"]
WEIGHT = np.arange(6000, dtype=np.float32)
X = np.ones(6000, np.float32)


def inputs_of(session):
    """Return random values for the inputs of a session, which are all floats; unknown dims are 3."""
    random = np.random.default_rng(5)
    shapes = {value.name: [dim if isinstance(dim, int) else 3 for dim in value.shape] for value in session.get_inputs()}
    return {name: random.random(shape, np.float32) for name, shape in shapes.items()}


def assert_same(ours, wanted):
    """Assert that outputs are the same; onnxruntime adds up in another order where memory is aligned otherwise."""
    assert len(ours) == len(wanted)
    for one, other in zip(ours, wanted, strict=True):
        if isinstance(other, np.ndarray) and other.dtype.kind == "f":
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
        elif isinstance(other, np.ndarray):
            assert np.array_equal(one, other)
        else:
            assert one == other


def value(name, kind="FLOAT", shape=(6000,)):
    return helper.make_tensor_value_info(name, T[kind], shape)


def model_of(nodes, *, inputs=(), initializers=(), functions=(), sparse=(), outputs=("y",)):
    """Return a model of official nodes and initializers."""
    graph = helper.make_graph(
        nodes, "g", inputs, [onnx.ValueInfoProto(name=name) for name in outputs], initializers,
        sparse_initializer=list(sparse),
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("local", 1)]
    model = helper.make_model(graph, opset_imports=opsets, functions=functions, ir_version=10)
    return ModelProto.FromString(model.SerializeToString())


def weight(name="w", array=WEIGHT):
    return onnx.numpy_helper.from_array(array, name)


def holders():
    """Yield models that add a weight to x, each with the weight in another field."""
    add = helper.make_node("Add", ["x", "w"], ["y"])
    constant = helper.make_node("Constant", [], ["w"], value=weight())
    x, y, b = value("x"), value("y"), value("b", "BOOL", [])
    yield "initializer", model_of([add], inputs=[x], initializers=[weight()])
    yield "default of an input", model_of([add], inputs=[x, value("w")], initializers=[weight()])
    yield "Constant", model_of([constant, add], inputs=[x])
    for name, branch in (
        ("subgraph", helper.make_graph([add], "s", [], [y], [weight()])),
        ("Constant of a subgraph", helper.make_graph([constant, add], "s", [], [y])),
    ):
        choose = helper.make_node("If", ["b"], ["y"], then_branch=branch, else_branch=branch)
        yield name, model_of([choose], inputs=[x, b])
    function = helper.make_function("local", "F", ["x"], ["y"], [constant, add], [helper.make_opsetid("", 21)])
    call = helper.make_node("F", ["x"], ["y"], domain="local")
    yield "Constant of a function", model_of([call], inputs=[x], functions=[function])
    indices = onnx.numpy_helper.from_array(np.arange(6000), "i")
    sparse = helper.make_sparse_tensor(weight(), indices, [6000])
    yield "sparse initializer", model_of([add], inputs=[x], sparse=[sparse])


TENSOR_PARENTS = dict(holders())


def run(session):
    inputs = {"x": X, "b": np.array(True)}
    return session.run(None, {entry.name: inputs[entry.name] for entry in session.get_inputs() if entry.name in inputs})


# --- the same outputs


@pytest.mark.parametrize("name", ["digits_cnn.onnx", "iris_forest.onnx"])
def test_an_example_gives_the_outputs_of_its_file(name):
    wanted = onnxruntime.InferenceSession(EXAMPLES / name, providers=CPU)
    inputs = inputs_of(wanted)
    with onnxwire.load(EXAMPLES / name) as model:
        session = onnxwire.inference_session(model, providers=CPU)
    assert_same(session.run(None, inputs), wanted.run(None, inputs))


def edit_digits(model):
    for tensor in model.graph.initializer:
        if tensor.name.startswith("classifier"):
            tensor.CopyFrom(onnxwire.from_array(tensor.numpy() * 2, tensor.name))
    model.graph.output[0].name = model.graph.node[-1].output[0] = "renamed"


def edit_iris(model):
    scale = next(attribute for attribute in model.graph.node[0].attribute if attribute.name == "scale")
    scale.floats[0] *= 3
    model.graph.output[0].name = model.graph.node[2].output[0] = "renamed"


@pytest.mark.parametrize(
    ("name", "edit"), [("digits_cnn.onnx", edit_digits), ("iris_forest.onnx", edit_iris)], ids=["digits", "iris"]
)
def test_an_edited_example_gives_the_outputs_of_the_saved_one(name, edit, tmp_path):
    with onnxwire.load(EXAMPLES / name) as model:
        edit(model)
        before = model.SerializeToString()
        session = onnxwire.inference_session(model, providers=CPU)
        assert model.SerializeToString() == before
        onnxwire.save(model, tmp_path / "m.onnx")
    wanted = onnxruntime.InferenceSession(tmp_path / "m.onnx", providers=CPU)
    inputs = inputs_of(wanted)
    assert session.get_outputs()[0].name == "renamed"
    assert_same(session.run(None, inputs), wanted.run(None, inputs))


@pytest.mark.parametrize("mapped", [True, False], ids=["mapped", "read"])
@pytest.mark.parametrize("external", [None, "w.bin", "{name}.bin"], ids=["inline", "one file", "many files"])
@pytest.mark.parametrize("holder", TENSOR_PARENTS)
def test_a_weight_in_a_file_may_have_any_offset(holder, external, mapped, tmp_path):
    onnxwire.save(TENSOR_PARENTS[holder], tmp_path / "m.onnx", external=external)
    with onnxwire.load(tmp_path / "m.onnx", mmap=mapped) as model:
        session = onnxwire.inference_session(model, providers=CPU)
    assert np.array_equal(run(session)[0], X + WEIGHT)


@pytest.mark.parametrize("holder", TENSOR_PARENTS)
def test_a_weight_in_memory_may_have_any_address(holder):
    assert np.array_equal(run(onnxwire.inference_session(TENSOR_PARENTS[holder], providers=CPU))[0], X + WEIGHT)


def test_a_weight_may_be_a_buffer_in_place_of_a_file(tmp_path):
    onnxwire.save(TENSOR_PARENTS["initializer"], tmp_path / "m.onnx", external="w.bin")
    with onnxwire.load(tmp_path / "m.onnx", external_data={"w.bin": (WEIGHT * 2).tobytes()}) as model:
        session = onnxwire.inference_session(model, providers=CPU)
    assert np.array_equal(run(session)[0], X + WEIGHT * 2)


def test_small_external_data_may_contain_a_shape(tmp_path):
    reshape = helper.make_node("Reshape", ["x", "shape"], ["y"])
    model = model_of([reshape], inputs=[value("x")], initializers=[weight("shape", np.array([60, 100]))])
    onnxwire.save(model, tmp_path / "m.onnx", external="w.bin", threshold=0)
    with onnxwire.load(tmp_path / "m.onnx") as model:
        assert run(onnxwire.inference_session(model, providers=CPU))[0].shape == (60, 100)


# The types that onnxruntime's Identity supports.
PLAIN = ["FLOAT", "UINT8", "INT8", "UINT16", "INT16", "INT32", "INT64", "BOOL", "FLOAT16", "DOUBLE", "UINT32", "UINT64"]
PLAIN += ["BFLOAT16", "FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ"]


@pytest.mark.parametrize("kind", PLAIN)
def test_every_type_is_passed_bit_for_bit(kind, tmp_path):
    raw = np.random.default_rng(5).integers(0, 2, 1 << 16, np.uint8).tobytes()
    shape = [len(raw) * 8 // stored_tensors.BITS[T[kind]]]
    model = model_of([helper.make_node("Identity", ["w"], ["y"])])
    model.graph.initializer.add(name="w", dims=shape, data_type=T[kind], raw_data=raw)
    onnxwire.save(model, tmp_path / "m.onnx")
    with onnxwire.load(tmp_path / "m.onnx") as loaded:
        sessions = [onnxwire.inference_session(each, providers=CPU) for each in (loaded, model)]
    for session in sessions:
        binding = session.io_binding()
        binding.bind_output("y", "cpu")
        session.run_with_iobinding(binding)
        (output,) = binding.get_outputs()
        assert output.element_type() == T[kind]
        assert list(output.shape()) == shape
        assert ctypes.string_at(output.data_ptr(), len(raw)) == raw


@pytest.mark.parametrize("kind", ["INT4", "UINT4"])
def test_elements_of_half_a_byte_are_those_of_the_file(kind, tmp_path):
    tensor = stored_tensors.Stored(T[kind], [40_000], [i % 16 for i in range(40_000)])
    model = model_of([helper.make_node("DequantizeLinear", ["w", "s"], ["y"])], initializers=[weight("s", X[0])])
    for message in tensor.inline("w")[::2]:
        del model.graph.initializer[1:]
        model.graph.initializer.append(onnxwire.TensorProto.FromString(message))
        onnxwire.save(model, tmp_path / "m.onnx")
        wanted = onnxruntime.InferenceSession(tmp_path / "m.onnx", providers=CPU).run(None, {})
        with onnxwire.load(tmp_path / "m.onnx") as loaded:
            for each in (loaded, model):
                assert_same(onnxwire.inference_session(each, providers=CPU).run(None, {}), wanted)


@pytest.mark.parametrize("field", ["float_data", "raw_data"])
def test_an_initializer_in_memory_may_be_an_output_or_unused(field):
    model = model_of([helper.make_node("Identity", ["x"], ["y"])], inputs=[value("x")], outputs=["y", "w"])
    values = {"float_data": WEIGHT} if field == "float_data" else {"raw_data": WEIGHT.tobytes()}
    for name in ("w", "unused"):
        model.graph.initializer.add(name=name, dims=[6000], data_type=T["FLOAT"], **values)
    assert_same(run(onnxwire.inference_session(model, providers=CPU)), [X, WEIGHT])


# --- files that were changed


@pytest.mark.skipif(os.name == "nt", reason="an open file can't be replaced")
@pytest.mark.parametrize("external", [None, "w.bin"], ids=["inline", "external"])
@pytest.mark.parametrize("change", ["removed", "replaced"])
def test_a_deleted_file_is_passed_from_its_mapping(change, external, tmp_path):
    onnxwire.save(TENSOR_PARENTS["initializer"], tmp_path / "m.onnx", external=external)
    with onnxwire.load(tmp_path / "m.onnx") as model:
        model.graph.initializer[0].numpy()
        path = tmp_path / (external or "m.onnx")
        path.unlink()
        if change == "replaced":
            path.write_bytes(b"\xff" * 30_000)
        session = onnxwire.inference_session(model, providers=CPU)
    del model
    gc.collect()
    assert np.array_equal(run(session)[0], X + WEIGHT)


def test_the_session_may_be_recreated_when_the_model_is_closed(tmp_path):
    onnxwire.save(TENSOR_PARENTS["initializer"], tmp_path / "m.onnx")
    for source in (tmp_path / "m.onnx", (tmp_path / "m.onnx").read_bytes()):
        with onnxwire.load(source) as model:
            model.graph.initializer.append(onnxwire.from_array(WEIGHT, "v"))
            model.graph.node.add(op_type="Add", input=["y", "v"], output=["z"])
            model.graph.output[0].name = "z"
            session = onnxwire.inference_session(model, providers=CPU)
        del model
        gc.collect()
        session.set_providers(CPU)
        assert np.array_equal(run(session)[0], X + WEIGHT + WEIGHT)


def test_memory_of_arrays_lives_as_long_as_the_options():
    chosen = onnxruntime.SessionOptions()
    model = ModelProto.FromString(TENSOR_PARENTS["initializer"].SerializeToString())
    session = onnxwire.inference_session(model, sess_options=chosen, providers=CPU)
    encoded = session._model_bytes
    del session, model
    gc.collect()
    again = onnxruntime.InferenceSession(encoded, chosen, providers=CPU)
    assert np.array_equal(run(again)[0], X + WEIGHT)


def test_the_working_folder_does_not_matter(tmp_path, monkeypatch):
    onnxwire.save(TENSOR_PARENTS["initializer"], tmp_path / "m.onnx", external="w.bin")
    monkeypatch.chdir(tmp_path)
    model = onnxwire.load("m.onnx")
    model.graph.initializer[0].numpy()
    monkeypatch.chdir("/")
    assert np.array_equal(run(onnxwire.inference_session(model, providers=CPU))[0], X + WEIGHT)


# --- size, options, errors


@needs_proc
def test_a_model_that_protobuf_can_not_read_runs_in_little_memory(tmp_path):
    rows = 140 << 20  # rows of 4 floats: 2.2 GB
    pick = helper.make_node("Gather", ["w", "i"], ["picked"])
    add = helper.make_node("Add", ["picked", "v"], ["y"])
    frame = model_of([pick, add], inputs=[value("i", "INT64", ["n"])]).SerializeToString()
    path = tmp_path / "m.onnx"
    offset = sparse_model(path, stored_tensors.Stored(T["FLOAT"], [rows, 4], []).message(), rows * 16, frame)
    assert path.stat().st_size > 1 << 31
    with open(path, "r+b") as file:
        file.seek(offset + rows * 16 - 4)
        file.write(np.float32(7).tobytes())
    code = (
        "import numpy, onnxruntime, onnxwire\n"
        "model = onnxwire.load(sys.argv[1])\n"
        "model.graph.initializer.append(onnxwire.from_array(numpy.full((5000, 4), 2, numpy.float32), 'u'))\n"
        "model.graph.initializer.append(onnxwire.from_array(numpy.full(4, 2, numpy.float32), 'v'))\n"
        "model.graph.initializer[0].numpy()\n"
        "before = peak()\n"
        "session = onnxwire.inference_session(model, providers=['CPUExecutionProvider'])\n"
        "y, = session.run(None, {'i': numpy.array([0, int(sys.argv[2])])})\n"
        "assert y.tolist() == [[2, 2, 2, 2], [2, 2, 2, 9]], y\n"
        "print(peak() - before)"
    )
    assert float(python(code, path, rows - 1)) < 100


def test_options_are_those_of_onnxruntime(tmp_path):
    onnxwire.save(TENSOR_PARENTS["initializer"], tmp_path / "m.onnx")
    chosen = onnxruntime.SessionOptions()
    chosen.log_severity_level = 3
    chosen.intra_op_num_threads = 1
    with onnxwire.load(tmp_path / "m.onnx") as model:
        session = onnxwire.inference_session(
            model, sess_options=chosen, providers=["CPUExecutionProvider"], provider_options=[{}]
        )
    assert session.get_session_options().intra_op_num_threads == 1
    assert np.array_equal(run(session)[0], X + WEIGHT)


def test_a_wrong_tensor_is_named(tmp_path):
    model = TENSOR_PARENTS["initializer"]
    wrong = ModelProto()
    wrong.CopyFrom(model)
    wrong.graph.initializer[0].dims[0] = 7000
    with pytest.raises(onnxwire.TensorError, match=r"'w'.*28,000 bytes"):
        onnxwire.inference_session(wrong)


def test_other_objects_are_rejected():
    with pytest.raises(TypeError, match="ModelProto"):
        onnxwire.inference_session(ModelProto().graph)


def test_a_model_that_protobuf_can_not_read_is_rejected(monkeypatch):
    monkeypatch.setattr("onnxwire.bridges.onnxruntime.INLINE_LIMIT", 20_000)  # instead of 2 GiB
    with pytest.raises(onnxwire.TensorError, match="save the model"):
        onnxwire.inference_session(TENSOR_PARENTS["Constant"])
    onnxwire.inference_session(TENSOR_PARENTS["initializer"])
