"""Shape inference, conversion and the checker of the official package return the same results as without onnxwire."""

from __future__ import annotations

import gc
import pkgutil
from collections import Counter
from functools import partial
from importlib import import_module
from pathlib import Path

import numpy as np
import onnx
import pytest
from budget import IS_LONG
from each import each
from graphs import nested_model, value
from onnx import TensorProto, checker, helper, numpy_helper, shape_inference, version_converter
from onnx.backend.test.case import node

import onnxwire
from onnxwire.bridges.onnx import apply_keeping
from onnxwire.bridges.shape_inputs import PROPAGATED_INPUTS, READ_INPUTS, read_tensors
from onnxwire.errors import FieldValueError

HOME = Path(onnx.__file__).parent / "backend" / "test" / "data"
MODELS = sorted(str(path.relative_to(HOME)) for path in HOME.rglob("*.onnx"))
EVERY_MODEL = each("name", MODELS)
SIZE = 400


def result_of(function, *arguments, **options):
    """Return the result of a function as an official message, or the error that it raises."""
    try:
        made = function(*arguments, **options)
    except Exception as error:
        return type(error), str(error)
    return onnxwire.to_onnx(made) if isinstance(made, onnxwire.ModelProto) else made


def load_both(name):
    return onnxwire.load(HOME / name), onnx.load(HOME / name)


def ours(model):
    return onnxwire.ModelProto.FromString(model.SerializeToString())


# --- every model in the package


def test_the_models_of_the_package_are_found():
    assert len(MODELS) > 140


@EVERY_MODEL
def test_a_function_that_does_nothing_changes_nothing(name):
    model, official = load_both(name)
    for threshold in (0, 1024):
        assert onnxwire.to_onnx(onnxwire.apply(model, lambda given: given, threshold)) == official


@EVERY_MODEL
@each("options", [{}, {"data_prop": True}, {"strict_mode": True, "check_type": True}], ids=str)
def test_inference_is_the_official_one(name, options):
    model, official = load_both(name)
    wanted = result_of(shape_inference.infer_shapes, official, **options)
    assert result_of(onnxwire.infer_shapes, model, **options) == wanted


@each("number", range(len(MODELS)), ids=MODELS)
def test_conversion_is_the_official_one(number):
    model, official = load_both(MODELS[number])
    opsets = [8, 13, 22]
    for opset in opsets if IS_LONG else opsets[number % 3 :][:1]:
        assert result_of(onnxwire.convert_version, model, opset) == result_of(
            version_converter.convert_version, official, opset
        )


@EVERY_MODEL
def test_the_checker_reports_the_official_faults(name):
    model, official = load_both(name)
    for full in (False, True):
        wanted = result_of(checker.check_model, official, full_check=full)
        assert result_of(onnxwire.check_official, model, full=full) == wanted


# --- elements that are read


def read_cases():
    """Return some of the package's tests of each operator whose elements are read, and of each of its expansions."""
    wanted, counts = {operator.lower() for operator in {*READ_INPUTS, *PROPAGATED_INPUTS}}, Counter()
    for module in pkgutil.iter_modules(node.__path__):
        if module.name.replace("_", "") in wanted:
            import_module(f"{node.__name__}.{module.name}")
    # Importing the modules adds to this registry; generating the tests of all operators takes half a minute.
    for case in node._NodeTestCases:
        operators = tuple(sorted({node.op_type for node in case.model.graph.node}))
        counts[operators] += 1
        if counts[operators] <= (20 if IS_LONG else 6):
            yield case


def with_initializers(case):
    """Return the model of a test with the test's inputs as initializers, and with outputs of unknown shapes."""
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    inputs = {}
    for info, array in zip(model.graph.input, case.data_sets[0][0], strict=False):
        if info.type.HasField("tensor_type") and isinstance(array, np.ndarray | np.generic):
            tensor = numpy_helper.from_array(np.asarray(array), info.name)
            if tensor.data_type == info.type.tensor_type.elem_type:
                inputs[info.name] = tensor
    rest = [info for info in model.graph.input if info.name not in inputs]
    model.graph.ClearField("input")
    model.graph.input.extend(rest)
    model.graph.initializer.extend(inputs.values())
    for info in model.graph.output:
        if info.type.HasField("tensor_type"):
            info.type.tensor_type.ClearField("shape")
    return model


def test_tensors_that_inference_and_conversion_read_stay_in_the_model():
    seen = set()
    for case in read_cases():
        official = with_initializers(case)
        model = ours(official)
        seen.update(node.op_type for node in official.graph.node)
        for data_prop in (False, True):

            def infer(data, data_prop=data_prop):
                return shape_inference.infer_shapes(data, strict_mode=True, data_prop=data_prop)

            made = result_of(apply_keeping, model, infer, partial(read_tensors, data_prop=data_prop), 0, "bytes")
            assert made == result_of(infer, official), (case.name, data_prop)

        def convert(given):
            return version_converter.convert_version(given, 15)

        made = result_of(apply_keeping, model, convert, read_tensors, 0)
        assert made == result_of(convert, official), case.name
    assert seen >= (READ_INPUTS.keys() | PROPAGATED_INPUTS.keys()) - {"Upsample"}  # which the current version lacks


def shape_model(shape, **fields):
    """Make a model with a Reshape whose shape tensor is larger than the threshold."""
    graph = helper.make_graph(
        [helper.make_node("Reshape", ["x", "shape"], ["y"]), helper.make_node("Relu", ["y"], ["z"])],
        "g",
        [value("x", 6)],
        [helper.make_tensor_value_info("z", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(shape, "shape")],
    )
    return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 13)], **fields)


LONG_PADS = np.int64([1] * SIZE + [2, 3])


def test_a_shape_larger_than_the_threshold_is_read():
    official = shape_model(LONG_PADS)
    made = onnxwire.infer_shapes(ours(official), strict_mode=True)
    assert onnxwire.to_onnx(made) == shape_inference.infer_shapes(official, strict_mode=True)
    assert len(made.graph.output[0].type.tensor_type.shape.dim) == len(LONG_PADS)
    onnxwire.check_official(made, full=True)


def test_a_shape_in_a_constant_node_is_read():
    official = shape_model(LONG_PADS)
    tensor = official.graph.initializer.pop()
    tensor.name = "unnamed"
    official.graph.node.insert(0, helper.make_node("Constant", [], ["shape"], value=tensor))
    made = onnxwire.infer_shapes(ours(official), strict_mode=True)
    assert onnxwire.to_onnx(made) == shape_inference.infer_shapes(official, strict_mode=True)


def test_a_shape_passed_through_functions_is_read():
    opsets = [helper.make_opsetid("", 13), helper.make_opsetid("local", 1)]
    inner = helper.make_node("Reshape", ["a", "s"], ["b"])
    outer = helper.make_node("Inner", ["a", "t"], ["b"], domain="local")
    official = shape_model(LONG_PADS)
    official.functions.append(helper.make_function("local", "Inner", ["a", "s"], ["b"], [inner], opsets))
    official.functions.append(helper.make_function("local", "Outer", ["a", "t"], ["b"], [outer], opsets))
    official.opset_import.append(opsets[1])
    official.graph.node[0].CopyFrom(helper.make_node("Outer", ["x", "shape"], ["y"], domain="local"))
    made = onnxwire.infer_shapes(ours(official), strict_mode=True)
    assert onnxwire.to_onnx(made) == shape_inference.infer_shapes(official, strict_mode=True)
    assert len(made.graph.output[0].type.tensor_type.shape.dim) == len(LONG_PADS)


def test_a_name_applies_only_in_its_scope():
    # A weight of the main graph called as the shape in a function.
    opsets = [helper.make_opsetid("", 13), helper.make_opsetid("local", 1)]
    shape = helper.make_node("Constant", [], ["shape"], value=numpy_helper.from_array(LONG_PADS))
    reshape = helper.make_node("Reshape", ["a", "shape"], ["b"])
    weight = numpy_helper.from_array(np.zeros(SIZE, np.float32), "shape")
    official = shape_model(LONG_PADS)
    official.graph.node[0].CopyFrom(helper.make_node("Add", ["x", "shape"], ["y"]))
    official.graph.initializer[0].CopyFrom(weight)
    official.functions.append(helper.make_function("local", "F", ["a"], ["b"], [shape, reshape], opsets))
    assert read_tensors(ours(official)) == {"functions[0].node[0].attribute[0].t"}
    assert read_tensors(ours(official), data_prop=True) == {"functions[0].node[0].attribute[0].t"}


def test_many_functions_that_call_each_other_take_linear_time():
    functions = [
        helper.make_function(
            "local", f"F{i}", ["a"], ["b"], [helper.make_node(f"F{i + 1}", ["a"], ["b"], domain="local")] * 2, []
        )
        for i in range(2000)
    ]
    functions.append(
        helper.make_function(
            "local", "F2000", ["a"], ["b"], [helper.make_node("F0", ["a"], ["b"], domain="local"),
                                             helper.make_node("ConstantOfShape", ["a"], ["c"])], []
        )
    )  # fmt: skip
    official = shape_model(LONG_PADS)
    official.functions.extend(functions)
    official.graph.node[0].CopyFrom(helper.make_node("F0", ["shape"], ["y"], domain="local"))
    assert read_tensors(ours(official)) == {"graph.initializer[0]"}


def test_shapes_in_files_are_read_and_stay_there(tmp_path):
    onnxwire.save(ours(shape_model(LONG_PADS)), tmp_path / "m.onnx", external="m.data")
    model = onnxwire.load(tmp_path / "m.onnx")
    made = onnxwire.infer_shapes(model, strict_mode=True)
    wanted = shape_inference.infer_shapes(shape_model(LONG_PADS), strict_mode=True)
    assert made.graph.output[0] == ours(wanted).graph.output[0]
    assert made.graph.initializer == model.graph.initializer
    (tmp_path / "m.data").unlink()
    broken = onnxwire.load(tmp_path / "m.onnx")
    assert onnxwire.infer_shapes(broken).graph.initializer == broken.graph.initializer


@pytest.mark.parametrize("step", [13, pytest.param(1, marks=pytest.mark.long)])
def test_inference_of_a_model_that_is_edited_meanwhile_uses_one_consistent_state(step):
    official = shape_model(LONG_PADS)
    official.graph.initializer.append(numpy_helper.from_array(np.zeros(SIZE, np.float32), "weight"))
    data = official.SerializeToString()
    thresholds = gc.get_threshold()
    for count in range(1, 40, step):
        model = onnxwire.ModelProto.FromString(data)
        edits = [model.graph.initializer.reverse]
        edit = lambda *_, edits=edits: edits and edits.pop()()  # noqa: E731
        gc.collect()
        gc.callbacks.append(edit)
        gc.set_threshold(count)
        try:
            made = onnxwire.infer_shapes(model)
        finally:
            gc.set_threshold(*thresholds)
            gc.callbacks.remove(edit)
        assert not edits
        assert len(made.graph.output[0].type.tensor_type.shape.dim) == len(LONG_PADS)


def test_errors_are_the_official_ones():
    official = shape_model(np.int64([-1, -1]))
    with pytest.raises(shape_inference.InferenceError):
        onnxwire.infer_shapes(ours(official), strict_mode=True)
    official.graph.node[1].op_type = "NoSuchOperator"
    with pytest.raises(RuntimeError, match="NoSuchOperator"):
        onnxwire.convert_version(ours(official), 15)
    for number in (-1, 1 << 31):
        with pytest.raises(FieldValueError, match="opset is a version, a number from 0 to 2,147,483,647"):
            onnxwire.convert_version(ours(official), number)


# --- the checker


def checked(tensor):
    """Check a model with one initializer with the checker of the package and with onnxwire's."""
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [value("x", 1)], [value("y", 1)], [tensor])
    model = helper.make_model(graph, ir_version=10)
    return result_of(checker.check_model, model), result_of(onnxwire.check_official, ours(model))


RAW = np.zeros(SIZE, np.float32).tobytes()
FAULTY = {
    "short": {"raw_data": RAW[:-1]},
    "long": {"raw_data": RAW + b"\0\0\0\0"},
    "no elements": {},
    "two kinds of elements": {"raw_data": RAW, "float_data": [0] * SIZE},
    "another field": {"int64_data": [0] * SIZE},
    "too few": {"float_data": [0] * (SIZE - 1)},
    "raw strings": {"raw_data": RAW, "data_type": TensorProto.STRING},
    "strings": {"string_data": [b"abc"] * SIZE, "data_type": TensorProto.STRING},
    "too few strings": {"string_data": [b"abcd"] * (SIZE - 1), "data_type": TensorProto.STRING},
    "no type": {"raw_data": RAW, "data_type": 0},
    "unknown type": {"raw_data": RAW, "data_type": 99},
    "negative dims": {"raw_data": RAW, "dims": [-SIZE]},
    "huge dims": {"raw_data": RAW, "dims": [1 << 62, 1 << 62]},
    "no dims": {"raw_data": RAW, "dims": [0]},
    "a segment": {"raw_data": RAW, "segment": TensorProto.Segment(begin=0, end=SIZE)},
    "sound": {"raw_data": RAW},
    "sound, typed": {"float_data": [0] * SIZE},
}


@pytest.mark.parametrize("fault", FAULTY)
def test_a_faulty_large_tensor_is_reported_as_by_the_checker(fault):
    tensor = TensorProto(**{"name": "w", "dims": [SIZE], "data_type": TensorProto.FLOAT} | FAULTY[fault])
    wanted, found = checked(tensor)
    assert found == wanted


def test_sparse_tensors_are_checked_by_their_indices():
    for indices in (np.arange(SIZE), np.arange(SIZE)[::-1].copy(), np.arange(SIZE) + 10**6):
        sparse = onnx.SparseTensorProto(dims=[10**6])
        sparse.values.CopyFrom(numpy_helper.from_array(np.zeros(SIZE, np.float32), "s"))
        sparse.indices.CopyFrom(numpy_helper.from_array(indices, "i"))
        graph = helper.make_graph(
            [helper.make_node("Relu", ["x"], ["y"])], "g", [value("x", 1)], [value("y", 1)], sparse_initializer=[sparse]
        )
        model = helper.make_model(graph, ir_version=10)
        assert result_of(onnxwire.check_official, ours(model)) == result_of(checker.check_model, model)


def test_external_data_is_found_in_the_models_folder(tmp_path):
    weight = numpy_helper.from_array(np.zeros(SIZE, np.float32), "w")
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [value("x", 1)], [value("y", 1)], [weight])
    onnxwire.save(ours(helper.make_model(graph, ir_version=10)), tmp_path / "m.onnx", external="w.data")
    onnxwire.check_official(onnxwire.load(tmp_path / "m.onnx"), full=True)
    (tmp_path / "w.data").write_bytes(b"short")
    with pytest.raises(onnxwire.ExternalDataError, match=r"'w'.* runs past its end"):
        onnxwire.check_official(onnxwire.load(tmp_path / "m.onnx"))
    (tmp_path / "w.data").unlink()
    with pytest.raises(FileNotFoundError, match="'w'"):
        onnxwire.check_official(onnxwire.load(tmp_path / "m.onnx"))


def test_the_checker_rejects_an_external_tensor_without_a_location():
    tensor = TensorProto(name="w", dims=[SIZE], data_type=TensorProto.FLOAT, data_location=TensorProto.EXTERNAL)
    wanted, found = checked(tensor)
    assert found == wanted
    assert "location" in found[1]


def test_nested_models_are_checked_and_inferred():
    official = nested_model()
    assert result_of(onnxwire.infer_shapes, ours(official)) == shape_inference.infer_shapes(official)
    assert result_of(onnxwire.check_official, ours(official), full=True) is None
