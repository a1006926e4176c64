"""Sessions of onnxruntime for models of onnxwire, also for edited and huge ones; outputs equal those of saved files."""

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
from test_bridges_safetensors import needs_proc, run_python, write_sparse_model

import onnxwire
from onnxwire import ModelProto

onnxruntime = pytest.importorskip("onnxruntime")

EXAMPLES = Path(__file__).parents[2] / "examples"
DATA_TYPES = stored_tensors.DATA_TYPES
CPU_PROVIDERS = ["CPUExecutionProvider"]
WEIGHT = np.arange(6000, dtype=np.float32)
INPUT = np.ones(6000, np.float32)


def inputs_of(session):
    """Return random floats for the inputs of a session. Unknown dims become 3."""
    random = np.random.default_rng(5)
    shapes = {value.name: [dim if isinstance(dim, int) else 3 for dim in value.shape] for value in session.get_inputs()}
    return {name: random.random(shape, np.float32) for name, shape in shapes.items()}


def assert_equal_outputs(outputs, expected):
    """Assert that outputs are equal. Floats may differ slightly, because the order of additions may differ."""
    assert len(outputs) == len(expected)
    for output, expected_output in zip(outputs, expected, strict=True):
        if isinstance(expected_output, np.ndarray) and expected_output.dtype.kind == "f":
            np.testing.assert_allclose(output, expected_output, rtol=1e-5, atol=1e-6)
        elif isinstance(expected_output, np.ndarray):
            assert np.array_equal(output, expected_output)
        else:
            assert output == expected_output


def value(name, type_name="FLOAT", shape=(6000,)):
    """Return a ValueInfoProto of a tensor."""
    return helper.make_tensor_value_info(name, DATA_TYPES[type_name], shape)


def model_of(nodes, *, inputs=(), initializers=(), functions=(), sparse=(), outputs=("y",)):
    """Return an onnxwire model made from official nodes and initializers."""
    graph = helper.make_graph(
        nodes, "g", inputs, [onnx.ValueInfoProto(name=name) for name in outputs], initializers,
        sparse_initializer=list(sparse),
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("local", 1)]
    model = helper.make_model(graph, opset_imports=opsets, functions=functions, ir_version=10)
    return ModelProto.FromString(model.SerializeToString())


def weight(name="w", array=WEIGHT):
    """Return an official TensorProto of an array."""
    return onnx.numpy_helper.from_array(array, name)


def described_models():
    """Yield (description, model): each model adds a weight to x; the description names the part with the weight."""
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
        if_node = helper.make_node("If", ["b"], ["y"], then_branch=branch, else_branch=branch)
        yield name, model_of([if_node], inputs=[x, b])
    function_proto = helper.make_function("local", "F", ["x"], ["y"], [constant, add], [helper.make_opsetid("", 21)])
    call = helper.make_node("F", ["x"], ["y"], domain="local")
    yield "Constant of a function", model_of([call], inputs=[x], functions=[function_proto])
    indices = onnx.numpy_helper.from_array(np.arange(6000), "i")
    sparse = helper.make_sparse_tensor(weight(), indices, [6000])
    yield "sparse initializer", model_of([add], inputs=[x], sparse=[sparse])


MODELS_BY_PARENT = dict(described_models())


def run(session):
    """Return the outputs of a session for the inputs x and b."""
    inputs = {"x": INPUT, "b": np.array(True)}
    return session.run(None, {entry.name: inputs[entry.name] for entry in session.get_inputs() if entry.name in inputs})


# --- outputs


@pytest.mark.parametrize("name", ["digits_cnn.onnx", "iris_forest.onnx"])
def test_an_example_gives_the_outputs_of_its_file(name):
    file_session = onnxruntime.InferenceSession(EXAMPLES / name, providers=CPU_PROVIDERS)
    inputs = inputs_of(file_session)
    with onnxwire.load(EXAMPLES / name) as model:
        session = onnxwire.inference_session(model, providers=CPU_PROVIDERS)
    assert_equal_outputs(session.run(None, inputs), file_session.run(None, inputs))


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
def test_an_edited_example_gives_the_outputs_of_the_saved_file(name, edit, tmp_path):
    with onnxwire.load(EXAMPLES / name) as model:
        edit(model)
        bytes_before = model.SerializeToString()
        session = onnxwire.inference_session(model, providers=CPU_PROVIDERS)
        assert model.SerializeToString() == bytes_before
        onnxwire.save(model, tmp_path / "m.onnx")
    file_session = onnxruntime.InferenceSession(tmp_path / "m.onnx", providers=CPU_PROVIDERS)
    inputs = inputs_of(file_session)
    assert session.get_outputs()[0].name == "renamed"
    assert_equal_outputs(session.run(None, inputs), file_session.run(None, inputs))


@pytest.mark.parametrize("is_mapped", [True, False], ids=["mapped", "read"])
@pytest.mark.parametrize("external", [None, "w.bin", "{name}.bin"], ids=["inline", "one file", "many files"])
@pytest.mark.parametrize("weight_parent", MODELS_BY_PARENT)
def test_a_weight_in_any_field_is_read_from_a_file(weight_parent, external, is_mapped, tmp_path):
    onnxwire.save(MODELS_BY_PARENT[weight_parent], tmp_path / "m.onnx", external=external)
    with onnxwire.load(tmp_path / "m.onnx", mmap=is_mapped) as model:
        session = onnxwire.inference_session(model, providers=CPU_PROVIDERS)
    assert np.array_equal(run(session)[0], INPUT + WEIGHT)


@pytest.mark.parametrize("weight_parent", MODELS_BY_PARENT)
def test_a_weight_in_any_field_is_read_from_memory(weight_parent):
    assert np.array_equal(
        run(onnxwire.inference_session(MODELS_BY_PARENT[weight_parent], providers=CPU_PROVIDERS))[0], INPUT + WEIGHT
    )


def test_a_weight_may_be_in_a_buffer_that_replaces_a_file(tmp_path):
    onnxwire.save(MODELS_BY_PARENT["initializer"], tmp_path / "m.onnx", external="w.bin")
    with onnxwire.load(tmp_path / "m.onnx", external_data={"w.bin": (WEIGHT * 2).tobytes()}) as model:
        session = onnxwire.inference_session(model, providers=CPU_PROVIDERS)
    assert np.array_equal(run(session)[0], INPUT + WEIGHT * 2)


def test_small_external_data_may_contain_a_shape(tmp_path):
    reshape = helper.make_node("Reshape", ["x", "shape"], ["y"])
    model = model_of([reshape], inputs=[value("x")], initializers=[weight("shape", np.array([60, 100]))])
    onnxwire.save(model, tmp_path / "m.onnx", external="w.bin", threshold=0)
    with onnxwire.load(tmp_path / "m.onnx") as model:
        assert run(onnxwire.inference_session(model, providers=CPU_PROVIDERS))[0].shape == (60, 100)


# Types that onnxruntime's Identity supports and whose elements take whole bytes, except STRING.
IDENTITY_TYPES = [
    "FLOAT",
    "UINT8",
    "INT8",
    "UINT16",
    "INT16",
    "INT32",
    "INT64",
    "BOOL",
    "FLOAT16",
    "DOUBLE",
    "UINT32",
    "UINT64",
]
IDENTITY_TYPES += ["BFLOAT16", "FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ"]


@pytest.mark.parametrize("type_name", IDENTITY_TYPES)
def test_elements_are_passed_bit_for_bit(type_name, tmp_path):
    # All bytes are 0 or 1, so that they are also valid bools.
    raw_data = np.random.default_rng(5).integers(0, 2, 1 << 16, np.uint8).tobytes()
    shape = [len(raw_data) * 8 // stored_tensors.BITS[DATA_TYPES[type_name]]]
    model = model_of([helper.make_node("Identity", ["w"], ["y"])])
    model.graph.initializer.add(name="w", dims=shape, data_type=DATA_TYPES[type_name], raw_data=raw_data)
    onnxwire.save(model, tmp_path / "m.onnx")
    with onnxwire.load(tmp_path / "m.onnx") as loaded_model:
        sessions = [onnxwire.inference_session(variant, providers=CPU_PROVIDERS) for variant in (loaded_model, model)]
    for session in sessions:
        binding = session.io_binding()
        binding.bind_output("y", "cpu")
        session.run_with_iobinding(binding)
        (output,) = binding.get_outputs()
        assert output.element_type() == DATA_TYPES[type_name]
        assert list(output.shape()) == shape
        assert ctypes.string_at(output.data_ptr(), len(raw_data)) == raw_data


@pytest.mark.parametrize("type_name", ["INT4", "UINT4"])
def test_elements_of_four_bits_equal_those_of_the_file(type_name, tmp_path):
    tensor = stored_tensors.TensorParts(DATA_TYPES[type_name], [40_000], [i % 16 for i in range(40_000)])
    model = model_of([helper.make_node("DequantizeLinear", ["w", "s"], ["y"])], initializers=[weight("s", INPUT[0])])
    for message in tensor.inline("w")[::2]:  # packed int32_data, and raw_data
        del model.graph.initializer[1:]
        model.graph.initializer.append(onnxwire.TensorProto.FromString(message))
        onnxwire.save(model, tmp_path / "m.onnx")
        expected = onnxruntime.InferenceSession(tmp_path / "m.onnx", providers=CPU_PROVIDERS).run(None, {})
        with onnxwire.load(tmp_path / "m.onnx") as loaded_model:
            for variant in (loaded_model, model):
                assert_equal_outputs(
                    onnxwire.inference_session(variant, providers=CPU_PROVIDERS).run(None, {}), expected
                )


@pytest.mark.parametrize("field", ["float_data", "raw_data"])
def test_an_initializer_in_memory_may_be_an_output_or_unused(field):
    model = model_of([helper.make_node("Identity", ["x"], ["y"])], inputs=[value("x")], outputs=["y", "w"])
    values = {"float_data": WEIGHT} if field == "float_data" else {"raw_data": WEIGHT.tobytes()}
    for name in ("w", "unused"):
        model.graph.initializer.add(name=name, dims=[6000], data_type=DATA_TYPES["FLOAT"], **values)
    assert_equal_outputs(run(onnxwire.inference_session(model, providers=CPU_PROVIDERS)), [INPUT, WEIGHT])


# --- files that were changed


@pytest.mark.skipif(os.name == "nt", reason="an open file can't be replaced")
@pytest.mark.parametrize("external", [None, "w.bin"], ids=["inline", "external"])
@pytest.mark.parametrize("change", ["removed", "replaced"])
def test_weights_of_a_deleted_file_are_read_from_its_mapping(change, external, tmp_path):
    onnxwire.save(MODELS_BY_PARENT["initializer"], tmp_path / "m.onnx", external=external)
    with onnxwire.load(tmp_path / "m.onnx") as model:
        model.graph.initializer[0].numpy()
        path = tmp_path / (external or "m.onnx")
        path.unlink()
        if change == "replaced":
            path.write_bytes(b"\xff" * 30_000)
        session = onnxwire.inference_session(model, providers=CPU_PROVIDERS)
    del model
    gc.collect()
    assert np.array_equal(run(session)[0], INPUT + WEIGHT)


def test_a_session_can_be_recreated_after_the_model_is_closed(tmp_path):
    onnxwire.save(MODELS_BY_PARENT["initializer"], tmp_path / "m.onnx")
    for source in (tmp_path / "m.onnx", (tmp_path / "m.onnx").read_bytes()):
        with onnxwire.load(source) as model:
            model.graph.initializer.append(onnxwire.from_array(WEIGHT, "v"))
            model.graph.node.add(op_type="Add", input=["y", "v"], output=["z"])
            model.graph.output[0].name = "z"
            session = onnxwire.inference_session(model, providers=CPU_PROVIDERS)
        del model
        gc.collect()
        session.set_providers(CPU_PROVIDERS)  # recreates the session
        assert np.array_equal(run(session)[0], INPUT + WEIGHT + WEIGHT)


def test_memory_of_weights_lives_as_long_as_the_session_options():
    session_options = onnxruntime.SessionOptions()
    model = ModelProto.FromString(MODELS_BY_PARENT["initializer"].SerializeToString())
    session = onnxwire.inference_session(model, sess_options=session_options, providers=CPU_PROVIDERS)
    model_bytes = session._model_bytes
    del session, model
    gc.collect()
    second_session = onnxruntime.InferenceSession(model_bytes, session_options, providers=CPU_PROVIDERS)
    assert np.array_equal(run(second_session)[0], INPUT + WEIGHT)


def test_the_working_directory_may_change_after_loading(tmp_path, monkeypatch):
    onnxwire.save(MODELS_BY_PARENT["initializer"], tmp_path / "m.onnx", external="w.bin")
    monkeypatch.chdir(tmp_path)
    model = onnxwire.load("m.onnx")
    model.graph.initializer[0].numpy()
    monkeypatch.chdir("/")
    assert np.array_equal(run(onnxwire.inference_session(model, providers=CPU_PROVIDERS))[0], INPUT + WEIGHT)


# --- size, options, errors


@needs_proc
def test_a_model_that_protobuf_cannot_read_runs_in_little_memory(tmp_path):
    n_rows = 140 << 20  # rows of 4 floats: 2.2 GiB
    gather = helper.make_node("Gather", ["w", "i"], ["picked"])
    add = helper.make_node("Add", ["picked", "v"], ["y"])
    other_fields = model_of([gather, add], inputs=[value("i", "INT64", ["n"])]).SerializeToString()
    path = tmp_path / "m.onnx"
    offset = write_sparse_model(
        path, stored_tensors.TensorParts(DATA_TYPES["FLOAT"], [n_rows, 4], []).message(), n_rows * 16, other_fields
    )
    assert path.stat().st_size > 1 << 31
    with open(path, "r+b") as file:
        file.seek(offset + n_rows * 16 - 4)
        file.write(np.float32(7).tobytes())
    code = (
        "import numpy, onnxruntime, onnxwire\n"
        "model = onnxwire.load(sys.argv[1])\n"
        "model.graph.initializer.append(onnxwire.from_array(numpy.full((5000, 4), 2, numpy.float32), 'u'))\n"
        "model.graph.initializer.append(onnxwire.from_array(numpy.full(4, 2, numpy.float32), 'v'))\n"
        "model.graph.initializer[0].numpy()\n"
        "mebibytes_before = peak_mebibytes()\n"
        "session = onnxwire.inference_session(model, providers=['CPUExecutionProvider'])\n"
        "y, = session.run(None, {'i': numpy.array([0, int(sys.argv[2])])})\n"
        "assert y.tolist() == [[2, 2, 2, 2], [2, 2, 2, 9]], y\n"
        "print(peak_mebibytes() - mebibytes_before)"
    )
    assert float(run_python(code, path, n_rows - 1)) < 100


def test_options_are_passed_to_onnxruntime(tmp_path):
    onnxwire.save(MODELS_BY_PARENT["initializer"], tmp_path / "m.onnx")
    session_options = onnxruntime.SessionOptions()
    session_options.log_severity_level = 3
    session_options.intra_op_num_threads = 1
    with onnxwire.load(tmp_path / "m.onnx") as model:
        session = onnxwire.inference_session(
            model, sess_options=session_options, providers=["CPUExecutionProvider"], provider_options=[{}]
        )
    assert session.get_session_options().intra_op_num_threads == 1
    assert np.array_equal(run(session)[0], INPUT + WEIGHT)


def test_the_error_names_the_invalid_tensor(tmp_path):
    model = MODELS_BY_PARENT["initializer"]
    invalid_model = ModelProto()
    invalid_model.CopyFrom(model)
    invalid_model.graph.initializer[0].dims[0] = 7000
    with pytest.raises(onnxwire.TensorError, match=r"'w'.*28,000 bytes"):
        onnxwire.inference_session(invalid_model)


def test_other_objects_are_rejected():
    with pytest.raises(TypeError, match="ModelProto"):
        onnxwire.inference_session(ModelProto().graph)


def test_a_model_that_is_too_large_without_its_initializers_is_rejected(monkeypatch):
    monkeypatch.setattr("onnxwire.bridges.onnxruntime.INLINE_LIMIT", 20_000)  # instead of 2 GiB
    with pytest.raises(onnxwire.TensorError, match="save the model"):
        onnxwire.inference_session(MODELS_BY_PARENT["Constant"])
    onnxwire.inference_session(MODELS_BY_PARENT["initializer"])
