"""Shape inference, version conversion and the checker of the onnx package have the same results through onnxwire as
when they are called directly."""

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
from onnxwire.bridges.onnx import apply_with_elements
from onnxwire.bridges.shape_inputs import PROPAGATED_INPUTS, READ_INPUTS, find_tensors_to_read
from onnxwire.errors import FieldValueError

MODELS_FOLDER = Path(onnx.__file__).parent / "backend" / "test" / "data"
MODELS = sorted(str(path.relative_to(MODELS_FOLDER)) for path in MODELS_FOLDER.rglob("*.onnx"))
EVERY_MODEL = each("name", MODELS)
N_ELEMENTS = 400  # a tensor with this number of floats is larger than the default threshold of 1 KiB


def result_of(function, *arguments, **options):
    """Return the result of a function, or the class and text of the error that it raises.

    A model of onnxwire is converted to an official message.
    """
    try:
        result = function(*arguments, **options)
    except Exception as error:
        return type(error), str(error)
    return onnxwire.to_onnx(result) if isinstance(result, onnxwire.ModelProto) else result


def load_both(name):
    """Return a model of the onnx package, loaded by onnxwire and by onnx."""
    return onnxwire.load(MODELS_FOLDER / name), onnx.load(MODELS_FOLDER / name)


def to_onnxwire(model):
    """Return an official model as a model of onnxwire."""
    return onnxwire.ModelProto.FromString(model.SerializeToString())


# --- every model in the onnx package


def test_the_models_of_the_package_are_found():
    assert len(MODELS) > 140


@EVERY_MODEL
def test_a_function_that_does_nothing_changes_nothing(name):
    model, official_model = load_both(name)
    for threshold in (0, 1024):
        assert onnxwire.to_onnx(onnxwire.apply(model, lambda argument: argument, threshold)) == official_model


@EVERY_MODEL
@each("options", [{}, {"data_prop": True}, {"strict_mode": True, "check_type": True}], ids=str)
def test_inference_has_the_official_result(name, options):
    model, official_model = load_both(name)
    expected = result_of(shape_inference.infer_shapes, official_model, **options)
    assert result_of(onnxwire.infer_shapes, model, **options) == expected


@each("number", range(len(MODELS)), ids=MODELS)
def test_conversion_has_the_official_result(number):
    model, official_model = load_both(MODELS[number])
    opsets = [8, 13, 22]
    # Without --long, each model is converted to one of these versions.
    for opset in opsets if IS_LONG else opsets[number % 3 :][:1]:
        assert result_of(onnxwire.convert_version, model, opset) == result_of(
            version_converter.convert_version, official_model, opset
        )


@EVERY_MODEL
def test_the_checker_raises_the_official_errors(name):
    model, official_model = load_both(name)
    for is_full in (False, True):
        expected = result_of(checker.check_model, official_model, full_check=is_full)
        assert result_of(onnxwire.check_official, model, full=is_full) == expected


# --- tensors whose elements are read


def read_cases():
    """Yield a few of the onnx package's tests of each operator of READ_INPUTS and PROPAGATED_INPUTS.

    Tests in which the operator is expanded to other operators are counted separately.
    """
    module_names, counts = {operator.lower() for operator in {*READ_INPUTS, *PROPAGATED_INPUTS}}, Counter()
    for module in pkgutil.iter_modules(node.__path__):
        if module.name.replace("_", "") in module_names:
            import_module(f"{node.__name__}.{module.name}")
    # Importing a module registers its tests. To generate the tests of all operators would take half a minute.
    for case in node._NodeTestCases:
        operators = tuple(sorted({node.op_type for node in case.model.graph.node}))
        counts[operators] += 1
        if counts[operators] <= (20 if IS_LONG else 6):
            yield case


def with_initializers(case):
    """Return the model of a test with the test's tensor inputs as initializers and without the shapes of outputs."""
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    inputs = {}
    for info, array in zip(model.graph.input, case.data_sets[0][0], strict=False):
        if info.type.HasField("tensor_type") and isinstance(array, np.ndarray | np.generic):
            tensor = numpy_helper.from_array(np.asarray(array), info.name)
            if tensor.data_type == info.type.tensor_type.elem_type:
                inputs[info.name] = tensor
    other_inputs = [info for info in model.graph.input if info.name not in inputs]
    model.graph.ClearField("input")
    model.graph.input.extend(other_inputs)
    model.graph.initializer.extend(inputs.values())
    for info in model.graph.output:
        if info.type.HasField("tensor_type"):
            info.type.tensor_type.ClearField("shape")
    return model


def test_tensors_that_inference_and_conversion_read_stay_in_the_model():
    op_types = set()
    for case in read_cases():
        official_model = with_initializers(case)
        model = to_onnxwire(official_model)
        op_types.update(node.op_type for node in official_model.graph.node)
        for data_prop in (False, True):

            def infer(data, data_prop=data_prop):
                return shape_inference.infer_shapes(data, strict_mode=True, data_prop=data_prop)

            result = result_of(
                apply_with_elements, model, infer, partial(find_tensors_to_read, data_prop=data_prop), 0, "bytes"
            )
            assert result == result_of(infer, official_model), (case.name, data_prop)

        def convert(argument):
            return version_converter.convert_version(argument, 15)

        result = result_of(apply_with_elements, model, convert, find_tensors_to_read, 0)
        assert result == result_of(convert, official_model), case.name
    # The onnx package has no tests of Upsample, because current operator sets do not contain it.
    assert op_types >= (READ_INPUTS.keys() | PROPAGATED_INPUTS.keys()) - {"Upsample"}


def shape_model(shape, **fields):
    """Return a model with a Reshape node whose shape input is an initializer."""
    graph = helper.make_graph(
        [helper.make_node("Reshape", ["x", "shape"], ["y"]), helper.make_node("Relu", ["y"], ["z"])],
        "g",
        [value("x", 6)],
        [helper.make_tensor_value_info("z", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(shape, "shape")],
    )
    return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 13)], **fields)


LONG_SHAPE = np.int64([1] * N_ELEMENTS + [2, 3])


def test_a_shape_larger_than_the_threshold_is_read():
    official_model = shape_model(LONG_SHAPE)
    result = onnxwire.infer_shapes(to_onnxwire(official_model), strict_mode=True)
    assert onnxwire.to_onnx(result) == shape_inference.infer_shapes(official_model, strict_mode=True)
    assert len(result.graph.output[0].type.tensor_type.shape.dim) == len(LONG_SHAPE)
    onnxwire.check_official(result, full=True)


def test_a_shape_in_a_constant_node_is_read():
    official_model = shape_model(LONG_SHAPE)
    tensor = official_model.graph.initializer.pop()
    tensor.name = "unnamed"
    official_model.graph.node.insert(0, helper.make_node("Constant", [], ["shape"], value=tensor))
    result = onnxwire.infer_shapes(to_onnxwire(official_model), strict_mode=True)
    assert onnxwire.to_onnx(result) == shape_inference.infer_shapes(official_model, strict_mode=True)


def test_a_shape_passed_through_functions_is_read():
    opsets = [helper.make_opsetid("", 13), helper.make_opsetid("local", 1)]
    inner_node = helper.make_node("Reshape", ["a", "s"], ["b"])
    outer_node = helper.make_node("Inner", ["a", "t"], ["b"], domain="local")
    official_model = shape_model(LONG_SHAPE)
    official_model.functions.append(helper.make_function("local", "Inner", ["a", "s"], ["b"], [inner_node], opsets))
    official_model.functions.append(helper.make_function("local", "Outer", ["a", "t"], ["b"], [outer_node], opsets))
    official_model.opset_import.append(opsets[1])
    official_model.graph.node[0].CopyFrom(helper.make_node("Outer", ["x", "shape"], ["y"], domain="local"))
    result = onnxwire.infer_shapes(to_onnxwire(official_model), strict_mode=True)
    assert onnxwire.to_onnx(result) == shape_inference.infer_shapes(official_model, strict_mode=True)
    assert len(result.graph.output[0].type.tensor_type.shape.dim) == len(LONG_SHAPE)


def test_a_name_applies_only_in_its_scope():
    # A weight of the main graph has the same name as the shape in a function.
    opsets = [helper.make_opsetid("", 13), helper.make_opsetid("local", 1)]
    shape = helper.make_node("Constant", [], ["shape"], value=numpy_helper.from_array(LONG_SHAPE))
    reshape = helper.make_node("Reshape", ["a", "shape"], ["b"])
    weight = numpy_helper.from_array(np.zeros(N_ELEMENTS, np.float32), "shape")
    official_model = shape_model(LONG_SHAPE)
    official_model.graph.node[0].CopyFrom(helper.make_node("Add", ["x", "shape"], ["y"]))
    official_model.graph.initializer[0].CopyFrom(weight)
    official_model.functions.append(helper.make_function("local", "F", ["a"], ["b"], [shape, reshape], opsets))
    assert find_tensors_to_read(to_onnxwire(official_model)) == {"functions[0].node[0].attribute[0].t"}
    assert find_tensors_to_read(to_onnxwire(official_model), data_prop=True) == {"functions[0].node[0].attribute[0].t"}


def test_a_shape_is_found_through_many_functions_that_call_each_other():
    # Each of 2,000 functions calls the next one twice, so a search that followed every call would not end.
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
    official_model = shape_model(LONG_SHAPE)
    official_model.functions.extend(functions)
    official_model.graph.node[0].CopyFrom(helper.make_node("F0", ["shape"], ["y"], domain="local"))
    assert find_tensors_to_read(to_onnxwire(official_model)) == {"graph.initializer[0]"}


def test_shapes_in_files_are_read_and_stay_external(tmp_path):
    onnxwire.save(to_onnxwire(shape_model(LONG_SHAPE)), tmp_path / "m.onnx", external="m.data")
    model = onnxwire.load(tmp_path / "m.onnx")
    result = onnxwire.infer_shapes(model, strict_mode=True)
    expected = shape_inference.infer_shapes(shape_model(LONG_SHAPE), strict_mode=True)
    assert result.graph.output[0] == to_onnxwire(expected).graph.output[0]
    assert result.graph.initializer == model.graph.initializer
    (tmp_path / "m.data").unlink()
    model_without_data = onnxwire.load(tmp_path / "m.onnx")
    assert onnxwire.infer_shapes(model_without_data).graph.initializer == model_without_data.graph.initializer


@pytest.mark.parametrize("step", [13, pytest.param(1, marks=pytest.mark.long)])
def test_inference_uses_one_consistent_state_of_a_model_that_is_edited_meanwhile(step):
    official_model = shape_model(LONG_SHAPE)
    official_model.graph.initializer.append(numpy_helper.from_array(np.zeros(N_ELEMENTS, np.float32), "weight"))
    data = official_model.SerializeToString()
    thresholds = gc.get_threshold()
    for gc_threshold in range(1, 40, step):
        model = onnxwire.ModelProto.FromString(data)
        pending_edits = [model.graph.initializer.reverse]
        # The garbage collector, which may run at any allocation, calls this function.
        edit_once = lambda *_, pending_edits=pending_edits: pending_edits and pending_edits.pop()()  # noqa: E731
        gc.collect()
        gc.callbacks.append(edit_once)
        gc.set_threshold(gc_threshold)
        try:
            result = onnxwire.infer_shapes(model)
        finally:
            gc.set_threshold(*thresholds)
            gc.callbacks.remove(edit_once)
        assert not pending_edits
        assert len(result.graph.output[0].type.tensor_type.shape.dim) == len(LONG_SHAPE)


def test_official_errors_are_raised_and_invalid_versions_are_rejected():
    official_model = shape_model(np.int64([-1, -1]))
    with pytest.raises(shape_inference.InferenceError):
        onnxwire.infer_shapes(to_onnxwire(official_model), strict_mode=True)
    official_model.graph.node[1].op_type = "NoSuchOperator"
    with pytest.raises(RuntimeError, match="NoSuchOperator"):
        onnxwire.convert_version(to_onnxwire(official_model), 15)
    for number in (-1, 1 << 31):
        with pytest.raises(FieldValueError, match="opset must be a version from 0 to 2,147,483,647"):
            onnxwire.convert_version(to_onnxwire(official_model), number)


# --- the checker


def results_of_both_checkers(tensor):
    """Return the results of the official checker and of `check_official` for a model with one initializer."""
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [value("x", 1)], [value("y", 1)], [tensor])
    model = helper.make_model(graph, ir_version=10)
    return result_of(checker.check_model, model), result_of(onnxwire.check_official, to_onnxwire(model))


RAW_DATA = np.zeros(N_ELEMENTS, np.float32).tobytes()
# Fields that replace or complete those of the tensor "w", which has N_ELEMENTS floats.
TENSOR_FIELDS = {
    "short": {"raw_data": RAW_DATA[:-1]},
    "long": {"raw_data": RAW_DATA + b"\0\0\0\0"},
    "no elements": {},
    "two kinds of elements": {"raw_data": RAW_DATA, "float_data": [0] * N_ELEMENTS},
    "another field": {"int64_data": [0] * N_ELEMENTS},
    "too few": {"float_data": [0] * (N_ELEMENTS - 1)},
    "raw strings": {"raw_data": RAW_DATA, "data_type": TensorProto.STRING},
    "strings": {"string_data": [b"abc"] * N_ELEMENTS, "data_type": TensorProto.STRING},
    "too few strings": {"string_data": [b"abcd"] * (N_ELEMENTS - 1), "data_type": TensorProto.STRING},
    "undefined type": {"raw_data": RAW_DATA, "data_type": 0},
    "unknown type": {"raw_data": RAW_DATA, "data_type": 99},
    "negative dims": {"raw_data": RAW_DATA, "dims": [-N_ELEMENTS]},
    "huge dims": {"raw_data": RAW_DATA, "dims": [1 << 62, 1 << 62]},
    "a dim of zero": {"raw_data": RAW_DATA, "dims": [0]},
    "a segment": {"raw_data": RAW_DATA, "segment": TensorProto.Segment(begin=0, end=N_ELEMENTS)},
    "valid raw_data": {"raw_data": RAW_DATA},
    "valid float_data": {"float_data": [0] * N_ELEMENTS},
}


@pytest.mark.parametrize("case", TENSOR_FIELDS)
def test_a_large_tensor_is_checked_as_by_the_official_checker(case):
    tensor = TensorProto(**{"name": "w", "dims": [N_ELEMENTS], "data_type": TensorProto.FLOAT} | TENSOR_FIELDS[case])
    expected, result = results_of_both_checkers(tensor)
    assert result == expected


def test_indices_of_sparse_tensors_are_checked():
    for indices in (np.arange(N_ELEMENTS), np.arange(N_ELEMENTS)[::-1].copy(), np.arange(N_ELEMENTS) + 10**6):
        sparse = onnx.SparseTensorProto(dims=[10**6])
        sparse.values.CopyFrom(numpy_helper.from_array(np.zeros(N_ELEMENTS, np.float32), "s"))
        sparse.indices.CopyFrom(numpy_helper.from_array(indices, "i"))
        graph = helper.make_graph(
            [helper.make_node("Relu", ["x"], ["y"])], "g", [value("x", 1)], [value("y", 1)], sparse_initializer=[sparse]
        )
        model = helper.make_model(graph, ir_version=10)
        assert result_of(onnxwire.check_official, to_onnxwire(model)) == result_of(checker.check_model, model)


def test_external_data_is_checked_in_the_models_folder(tmp_path):
    weight = numpy_helper.from_array(np.zeros(N_ELEMENTS, np.float32), "w")
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [value("x", 1)], [value("y", 1)], [weight])
    onnxwire.save(to_onnxwire(helper.make_model(graph, ir_version=10)), tmp_path / "m.onnx", external="w.data")
    onnxwire.check_official(onnxwire.load(tmp_path / "m.onnx"), full=True)
    (tmp_path / "w.data").write_bytes(b"short")
    with pytest.raises(onnxwire.ExternalDataError, match=r"'w'.* runs past the end"):
        onnxwire.check_official(onnxwire.load(tmp_path / "m.onnx"))
    (tmp_path / "w.data").unlink()
    with pytest.raises(FileNotFoundError, match="'w'"):
        onnxwire.check_official(onnxwire.load(tmp_path / "m.onnx"))


def test_the_checker_rejects_an_external_tensor_without_a_location():
    tensor = TensorProto(name="w", dims=[N_ELEMENTS], data_type=TensorProto.FLOAT, data_location=TensorProto.EXTERNAL)
    expected, result = results_of_both_checkers(tensor)
    assert result == expected
    assert "location" in result[1]


def test_nested_models_are_checked_and_inferred():
    official_model = nested_model()
    assert result_of(onnxwire.infer_shapes, to_onnxwire(official_model)) == shape_inference.infer_shapes(official_model)
    assert result_of(onnxwire.check_official, to_onnxwire(official_model), full=True) is None
