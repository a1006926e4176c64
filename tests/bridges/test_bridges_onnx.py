"""`apply` calls functions with a model without large payloads. Messages are converted to official ones and back."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import onnx
import pytest
from everything import EVERYTHING
from graphs import value
from onnx import TensorProto, helper, numpy_helper
from wire import LEN, len_record, tag, varint, varint_record

import onnxwire

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
EXTERNAL = TensorProto.EXTERNAL
WEIGHT_ELEMENTS = 400  # elements of a weight: 1,600 bytes, more than the default threshold of 1,024


def raw_weight(name="w", start=0, **fields):
    """Return a tensor of 20 x 20 consecutive numbers in raw_data."""
    tensor = numpy_helper.from_array(np.arange(start, start + WEIGHT_ELEMENTS, dtype=np.float32).reshape(20, 20), name)
    tensor.MergeFrom(TensorProto(**fields))
    return tensor


def float_data_weight(name):
    """Return a tensor of consecutive numbers in float_data."""
    return helper.make_tensor(name, FLOAT, [WEIGHT_ELEMENTS], np.arange(WEIGHT_ELEMENTS))


def model_of(*tensors, **fields):
    """Return a model of onnxwire with the given official initializers."""
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])], "g", [value("x", 20, 20)], [value("y", 20, 20)], list(tensors)
    )
    model = helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 20)], **fields)
    return onnxwire.ModelProto.FromString(model.SerializeToString())


def arrays_by_name(model):
    return {tensor.name: tensor.numpy() for tensor in model.graph.initializer}


def model_with_tensors_everywhere():
    """Return an official model with large tensors in many fields at several depths."""
    sparse = onnx.SparseTensorProto(dims=[10**6])
    sparse.values.CopyFrom(float_data_weight("s"))
    sparse.indices.CopyFrom(helper.make_tensor("", INT64, [WEIGHT_ELEMENTS], np.arange(10**6 - WEIGHT_ELEMENTS, 10**6)))
    body = helper.make_graph([], "body", [], [value("b", 20, 20)], [raw_weight("b", 1)])
    body.sparse_initializer.append(sparse)
    nodes = [
        helper.make_node("Constant", [], ["c"], value=raw_weight("", 2)),
        helper.make_node("Constant", [], ["d"], sparse_value=sparse),
        helper.make_node("If", ["f"], ["e"], then_branch=body, else_branch=body),
        helper.make_node(
            "Custom", [], ["h"], domain="local", tensors=[raw_weight("t0", 3), float_data_weight("t1")], graphs=[body]
        ),
    ]
    function = helper.make_function("local", "F", [], ["c"], nodes[:1], [helper.make_opsetid("", 20)])
    graph = helper.make_graph(
        nodes, "g", [], [], [raw_weight("w", 4), float_data_weight("v")], sparse_initializer=[sparse]
    )
    model = helper.make_model(graph, functions=[function], ir_version=10)
    training = model.training_info.add()
    training.algorithm.initializer.append(raw_weight("a", 5))
    training.initialization.node.append(nodes[0])
    texts = helper.make_tensor("texts", TensorProto.STRING, [2], [b"a" * 1000, b"b" * 1000])
    model.graph.initializer.append(texts)
    return model


def tensors_in(message):
    """Yield every TensorProto in an official message, at any depth."""
    for field, field_value in message.ListFields():
        if field.message_type is not None:
            for child in field_value if not hasattr(field_value, "ListFields") else [field_value]:
                if isinstance(child, TensorProto):
                    yield child
                yield from tensors_in(child)


# --- the argument of a function, and the result for an unchanged model


def test_large_payloads_at_any_path_are_left_out_and_restored():
    official_model = model_with_tensors_everywhere()
    model = onnxwire.ModelProto.FromString(official_model.SerializeToString())
    received_models = []
    result = onnxwire.apply(model, lambda model: received_models.append(model) or model)
    tensors_without_payloads = list(tensors_in(received_models[0]))
    assert len(tensors_without_payloads) == len(list(tensors_in(official_model))) == 22
    assert all(tensor.data_location == EXTERNAL and not tensor.raw_data for tensor in tensors_without_payloads)
    assert received_models[0].ByteSize() < 8000
    # Every tensor has its own location.
    assert (
        len(
            {
                entry.value
                for tensor in tensors_without_payloads
                for entry in tensor.external_data
                if entry.key == "location"
            }
        )
        == 22
    )
    assert result == model
    assert onnxwire.to_onnx(result) == official_model


@pytest.mark.parametrize("threshold", [0, 1, 1599, 1600, 1601, 1 << 40])
def test_payloads_below_the_threshold_are_not_left_out(threshold):
    model = model_of(raw_weight(), numpy_helper.from_array(np.float32(1), "s"))
    received_models = []
    result = onnxwire.apply(model, lambda model: received_models.append(model) or model, threshold)
    names_without_payloads = [
        tensor.name for tensor in received_models[0].graph.initializer if tensor.data_location == EXTERNAL
    ]
    assert names_without_payloads == [name for name, size in (("w", 1600), ("s", 4)) if size >= threshold]
    assert result == model


@pytest.mark.parametrize("form", ["onnx", "onnxwire", "bytes"])
def test_the_function_receives_the_model_in_the_requested_form(form):
    model = model_of(raw_weight(), producer_name="a")

    def function(argument):
        expected_class = {"onnx": onnx.ModelProto, "onnxwire": onnxwire.ModelProto, "bytes": bytes}[form]
        assert type(argument) is expected_class
        if form == "bytes":
            argument = onnx.load_from_string(argument)
        argument.producer_name = "b"
        return argument

    result = onnxwire.apply(model, function, form=form)
    assert (model.producer_name, result.producer_name) == ("a", "b")
    assert result.graph == model.graph


def test_a_function_may_return_another_form_than_its_argument():
    model = model_of(raw_weight())
    assert onnxwire.apply(model, lambda argument: argument.SerializeToString()) == model
    assert onnxwire.apply(model, onnxwire.from_onnx) == model
    assert onnxwire.apply(model, onnxwire.to_onnx, form="onnxwire") == model


@pytest.mark.parametrize("form", ["onnx", "onnxwire"])
def test_a_function_may_change_its_argument_and_return_none(form):
    result = onnxwire.apply(model_of(raw_weight()), lambda argument: argument.graph.ClearField("output"), form=form)
    assert len(result.graph.output) == 0
    assert arrays_by_name(result)["w"][-1, -1] == WEIGHT_ELEMENTS - 1


def test_the_model_is_not_changed():
    model = model_of(raw_weight())
    bytes_before = model.SerializeToString()

    def change(argument):
        argument.graph.initializer[0].name = "other"
        argument.graph.initializer[0].dims[:] = [WEIGHT_ELEMENTS]

    for form in ("onnx", "onnxwire"):
        result = onnxwire.apply(model, change, form=form)
        assert arrays_by_name(result).keys() == {"other"}
        assert model.SerializeToString() == bytes_before


def test_payloads_are_restored_by_reference(tmp_path):
    onnxwire.save(model_of(raw_weight(), float_data_weight("v")), tmp_path / "m.onnx")
    model = onnxwire.load(tmp_path / "m.onnx")
    result = onnxwire.apply(model, lambda argument: argument)
    for name, array in arrays_by_name(model).items():
        assert np.shares_memory(array, arrays_by_name(result)[name])


def test_the_result_outlives_the_model(tmp_path):
    onnxwire.save(model_of(raw_weight()), tmp_path / "m.onnx")
    with onnxwire.load(tmp_path / "m.onnx") as model:
        result = onnxwire.apply(model, lambda argument: argument)
    (tmp_path / "m.onnx").unlink()
    assert arrays_by_name(result)["w"][-1, -1] == WEIGHT_ELEMENTS - 1


def test_edits_and_shared_arrays_are_in_the_result():
    model = model_of(raw_weight())
    model.graph.initializer[0].raw_data = np.full(WEIGHT_ELEMENTS, 7, np.float32).tobytes()
    model.graph.initializer.append(onnxwire.from_array(np.arange(5000), "shared"))
    result = onnxwire.apply(model, lambda argument: argument)
    assert result == model
    assert np.shares_memory(arrays_by_name(result)["shared"], arrays_by_name(model)["shared"])


def test_unknown_fields_and_the_field_with_the_elements_do_not_change():
    data = model_of(float_data_weight("v")).graph.initializer[0].SerializeToString()
    tensor = onnxwire.TensorProto.FromString(data + len_record(3000, b"unknown"))
    model = model_of()
    model.graph.initializer.append(tensor)

    def rename(argument):
        argument.graph.initializer[0].name = "renamed"

    (result,) = onnxwire.apply(model, rename).graph.initializer
    assert result.SerializeToString(deterministic=True) == onnxwire.TensorProto.FromString(
        tensor.SerializeToString() + len_record(8, b"renamed")
    ).SerializeToString(deterministic=True)


# --- allowed changes of a tensor


def apply_and_check(function, *tensors, **options):
    """Apply a function to a model with tensors. Check the result with the official checker and return it."""
    result = onnxwire.apply(model_of(*(tensors or [raw_weight()])), function, **options)
    onnx.checker.check_model(onnxwire.to_onnx(result))
    return result


def test_a_function_may_rename_describe_and_reshape_a_tensor():
    def change(argument):
        tensor = argument.graph.initializer[0]
        tensor.name, tensor.doc_string = "new", "text"
        tensor.dims[:] = [2, 200]
        tensor.metadata_props.add(key="k", value="v")

    for original in (raw_weight(), float_data_weight("v")):
        (tensor,) = apply_and_check(change, original).graph.initializer
        assert (tensor.name, tensor.doc_string, tensor.metadata_props[0].key) == ("new", "text", "k")
        assert not tensor.external_data and not tensor.HasField("data_location")
        assert tensor.numpy().tolist() == np.arange(WEIGHT_ELEMENTS).reshape(2, 200).tolist()


def test_a_function_may_move_a_tensor_into_nodes_graphs_and_functions():
    def move(argument):
        tensor = argument.graph.initializer.pop()
        body = helper.make_graph([], "b", [], [value("w", 20, 20)], [tensor])
        argument.graph.node.append(helper.make_node("If", ["x"], ["z"], then_branch=body, else_branch=body))
        constant = helper.make_node("Constant", [], ["y"], value=tensor)
        argument.graph.node.append(constant)
        opset = helper.make_opsetid("", 20)
        argument.functions.append(helper.make_function("local", "F", [], ["y"], [constant], [opset]))

    result = onnxwire.apply(model_of(raw_weight()), move)
    branches, (constant,) = result.graph.node[1].attribute, result.graph.node[2].attribute
    copies = [
        *(branch.g.initializer[0] for branch in branches),
        constant.t,
        result.functions[0].node[0].attribute[0].t,
    ]
    # The model contains the tensor four times, each time with the complete payload.
    assert all(np.array_equal(copy.numpy().ravel(), np.arange(WEIGHT_ELEMENTS)) for copy in copies)
    assert all(np.shares_memory(copies[0].numpy(), copy.numpy()) for copy in copies)


def test_a_function_may_remove_a_tensor():
    result = apply_and_check(lambda argument: argument.graph.ClearField("initializer"))
    assert len(result.graph.initializer) == 0


def test_a_function_may_swap_the_names_of_tensors():
    def swap(argument):
        first_tensor, second_tensor = argument.graph.initializer
        first_tensor.name, second_tensor.name = second_tensor.name, first_tensor.name

    result = arrays_by_name(apply_and_check(swap, raw_weight("a"), raw_weight("b", start=1000)))
    assert (result["a"][0, 0], result["b"][0, 0]) == (1000, 0)


@pytest.mark.parametrize("remaining_fields", ["all", "data_location", "external_data", "nothing"])
def test_elements_that_the_function_assigns_to_a_tensor_are_in_the_result(remaining_fields):
    def change(argument):
        tensor = argument.graph.initializer[0]
        tensor.raw_data = np.float32([1, 2, 3]).tobytes()
        tensor.dims[:] = [3]
        if remaining_fields not in ("all", "data_location"):
            tensor.ClearField("data_location")
        if remaining_fields not in ("all", "external_data"):
            tensor.ClearField("external_data")

    result = apply_and_check(change)
    assert arrays_by_name(result)["w"].tolist() == [1, 2, 3]
    assert not result.graph.initializer[0].external_data


def test_a_tensor_that_the_function_adds_is_not_changed():
    added_tensor = numpy_helper.from_array(np.arange(5000.0), "new")
    result = apply_and_check(lambda argument: argument.graph.initializer.extend([added_tensor]))
    assert arrays_by_name(result)["new"].tolist() == np.arange(5000.0).tolist()


def test_an_original_tensor_without_elements_is_not_changed():
    empty_tensor = TensorProto(name="w", dims=[2], data_type=FLOAT)
    model = model_of(raw_weight(), empty_tensor)
    assert onnxwire.apply(model, lambda argument: argument) == model


# --- forbidden changes of a tensor


def set_type(tensor):
    tensor.data_type = TensorProto.INT32


def set_dims(tensor):
    tensor.dims[:] = [WEIGHT_ELEMENTS - 1]


def set_negative_dims(tensor):
    tensor.dims[:] = [-20, -20]


def use_part_of_external_data(tensor):
    tensor.external_data[1].value = "4"  # offset
    tensor.external_data[2].value = "396"  # length


def set_segment(tensor):
    tensor.segment.begin, tensor.segment.end = 0, 10


def remove_external_data(tensor):
    tensor.ClearField("external_data")
    tensor.ClearField("data_location")


def replace_location(tensor):
    tensor.ClearField("data_location")
    tensor.external_data[0].value = "elsewhere"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (set_type, "changed the data_type from FLOAT to INT32"),
        (set_dims, r"dims from \[20, 20\] to \[399\]"),
        (set_negative_dims, r"dims from \[20, 20\] to \[-20, -20\]"),
        (use_part_of_external_data, r"used a part of the tensor \(offset 4\)"),
        (set_segment, "changed the segment"),
        (remove_external_data, "removed the tensor's external_data"),
        (replace_location, "removed the tensor's external_data"),
    ],
)
def test_a_forbidden_change_of_a_tensor_is_rejected(change, reason):
    with pytest.raises(
        onnxwire.TensorError, match=rf"graph.initializer\[0\]: tensor 'w': .*{reason}.* threshold above"
    ):
        onnxwire.apply(model_of(raw_weight()), lambda argument: change(argument.graph.initializer[0]))


def test_a_function_can_convert_elements_below_the_threshold():
    def convert(argument):
        for tensor in argument.graph.initializer:
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float16), tensor.name))

    result = onnxwire.apply(model_of(raw_weight()), convert, threshold=1601)
    assert arrays_by_name(result)["w"].dtype == np.float16


@pytest.mark.parametrize("result", [(), 1, "model.onnx", onnx.GraphProto(), onnxwire.GraphProto(), [b""]])
def test_a_function_that_returns_no_model_is_rejected(result):
    with pytest.raises(TypeError, match="it must return only the model"):
        onnxwire.apply(model_of(), lambda argument: result)


def test_other_objects_and_unknown_forms_are_rejected():
    with pytest.raises(TypeError, match="expected a ModelProto of onnxwire"):
        onnxwire.apply(onnx.ModelProto(), lambda argument: argument)
    with pytest.raises(ValueError, match="form must be 'onnx'"):
        onnxwire.apply(model_of(), lambda argument: argument, form="text")


def test_errors_of_the_function_are_raised():
    with pytest.raises(ZeroDivisionError):
        onnxwire.apply(model_of(raw_weight()), lambda argument: 1 / 0)


# --- models with external data


@pytest.fixture
def model_with_external_data(tmp_path):
    """Return a model with external data, loaded from a file."""
    onnxwire.save(model_of(raw_weight(), float_data_weight("v")), tmp_path / "m.onnx", external="w.data")
    return onnxwire.load(tmp_path / "m.onnx")


def test_external_data_is_unchanged_and_can_still_be_read(model_with_external_data):
    bytes_before = model_with_external_data.SerializeToString()
    result = onnxwire.apply(model_with_external_data, lambda argument: argument)
    assert result.SerializeToString() == bytes_before
    assert arrays_by_name(result)["w"][-1, -1] == WEIGHT_ELEMENTS - 1


def test_locations_in_the_model_that_look_like_those_of_apply_are_not_confused_with_them():
    locations = []

    def record_locations(argument):
        locations.extend(entry.value for tensor in argument.graph.initializer for entry in tensor.external_data[:1])

    onnxwire.apply(model_of(raw_weight("a"), raw_weight("b")), record_locations)
    hostile_tensors = [TensorProto(name=name, dims=[20, 20], data_type=FLOAT) for name in ("p", "q", "r")]
    for tensor, location in zip(hostile_tensors, [*locations, "#onnxwire/0"], strict=True):
        tensor.data_location = EXTERNAL
        tensor.external_data.add(key="location", value=location)
    model = model_of(raw_weight("a"), *hostile_tensors, raw_weight("b"))
    result = onnxwire.apply(model, record_locations)
    assert result == model
    assert [entry.value for tensor in result.graph.initializer[1:4] for entry in tensor.external_data] == [
        *locations[:2],
        "#onnxwire/0",
    ]
    assert len(set(locations)) == 5  # two of each call, and "#onnxwire/0"


def test_each_call_uses_new_locations():
    locations = []
    model = model_of(raw_weight("secret"))
    for _ in range(2):
        onnxwire.apply(model, lambda argument: locations.append(argument.graph.initializer[0].external_data[0].value))
    assert locations[0] != locations[1]


# --- size


def write_model(path, size, count=1, operator="Add"):
    """Write a model that combines x with `count` weights by an operator. The weights are holes of `size` bytes in the
    file."""
    # The fields are dims (1), data_type (2), name (8) and raw_data (9) of the tensor; initializer (5) of the graph;
    # ir_version (1), graph (7) and opset_import (8) of the model. A weight has rows of 1,024 floats.
    rows = size // 4 >> 10
    names = ["x", *(f"y{i}" for i in range(count))]
    nodes = [helper.make_node(operator, [names[i], f"w{i}"], [names[i + 1]]) for i in range(count)]
    graph = helper.make_graph(nodes, "g", [value("x", rows, 1024)], [value(names[-1], rows, 1024)])
    if operator == "MatMul":  # x has as many columns as the weight has rows
        graph.input[0].type.tensor_type.shape.dim[1].dim_value = rows
    tensor_headers = []
    for i in range(count):
        dims = varint_record(1, rows) + varint_record(1, 1024)
        tensor = dims + varint_record(2, FLOAT) + len_record(8, f"w{i}".encode()) + tag(9, LEN) + varint(size)
        tensor_headers.append(tag(5, LEN) + varint(len(tensor) + size) + tensor)
    graph_start = graph.SerializeToString()
    graph_bytes = len(graph_start) + sum(map(len, tensor_headers)) + size * count
    opset = len_record(8, helper.make_opsetid("", 13).SerializeToString())
    with open(path, "wb") as file:
        file.write(varint_record(1, 8) + opset + tag(7, LEN) + varint(graph_bytes) + graph_start)
        for tensor_header in tensor_headers:
            file.write(tensor_header)
            file.seek(size, 1)
        file.truncate()


LARGE_MODEL_PROGRAM = """\
import sys
import onnx, onnxwire
from onnx import helper
def peak_kilobytes():
    # ru_maxrss is not used, because it is at least that of the parent process.
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
def function(argument):
    argument.graph.initializer[0].name = "first"
    argument.graph.node[0].input[1] = "first"
    argument.graph.node.append(helper.make_node("Constant", [], ["c"], value=argument.graph.initializer.pop()))
    argument.graph.node[-1].attribute[0].t.name = "last"
model = onnxwire.load(sys.argv[1])
{call}
kilobytes = peak_kilobytes()
onnxwire.save(result, sys.argv[2], threshold=1)
assert peak_kilobytes() < kilobytes + 20_000
print(kilobytes)
"""
CODE_BY_CALL = {
    "apply": "result = onnxwire.apply(model, function)",
    "infer_shapes": "result = onnxwire.infer_shapes(model, strict_mode=True, data_prop=True)",
    "convert_version": "result = onnxwire.convert_version(model, 17)",
    "check_official": "onnxwire.check_official(model, full=True); result = model",
}


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs holes in files, and /proc")
@pytest.mark.parametrize("call", CODE_BY_CALL)
def test_payloads_of_five_gigabytes_are_not_read_and_names_and_operators_equal_those_of_a_small_model(call, tmp_path):
    results_by_name = {}
    for name, size in (("big", 1 << 30), ("small", 1 << 12)):
        write_model(tmp_path / f"{name}.onnx", size, 5)
        code = LARGE_MODEL_PROGRAM.format(call=CODE_BY_CALL[call])
        command = [sys.executable, "-W", "ignore", "-c", code, tmp_path / f"{name}.onnx", tmp_path / f"{name}.out"]
        kilobytes = int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        assert kilobytes < 200_000  # including pages of the mapped file
        results_by_name[name] = onnxwire.load(tmp_path / f"{name}.out")
        for tensor in onnxwire.tensors(results_by_name[name]):
            assert tensor.nbytes == size

    def outline(model):
        return [
            [(list(node.input), node.op_type, list(node.output)) for node in model.graph.node],
            [tensor.name for tensor in onnxwire.tensors(model)],
            [value.name for value in model.graph.value_info],
            [opset.version for opset in model.opset_import],
        ]

    assert outline(results_by_name["big"]) == outline(results_by_name["small"])
    assert (tmp_path / "big.out").stat().st_size > 5 << 30
    assert (tmp_path / "big.out").stat().st_blocks < 10_000  # holes remain holes


def test_a_model_that_protobuf_cannot_read_even_without_payloads_is_accepted_only_in_the_form_onnxwire(tmp_path):
    size = 1 << 31
    with open(tmp_path / "m.onnx", "wb") as file:
        # The fields are ir_version (1), graph (7), and the graph's doc_string (10) of `size` bytes after 6 bytes of tag
        # and length.
        file.write(varint_record(1, 8) + tag(7, LEN) + varint(size + 6) + tag(10, LEN) + varint(size))
        file.seek(size, 1)
        file.truncate()
    model = onnxwire.load(tmp_path / "m.onnx")
    with pytest.raises(onnxwire.TensorError, match=r"2,147,483,6\d+ bytes, and protobuf reads at most 2,147,483,647"):
        onnxwire.apply(model, lambda argument: argument)
    with pytest.raises(onnxwire.TensorError, match=r"onnxwire\.apply calls a function with a model without weights"):
        onnxwire.to_onnx(model)
    assert onnxwire.apply(model, lambda argument: argument, form="onnxwire").ByteSize() == model.ByteSize()


# --- messages


@pytest.mark.parametrize("name", sorted(onnxwire.messages.SCHEMA.messages))
def test_every_message_converts_to_the_official_package_and_back(name):
    message = onnxwire.messages.SCHEMA.messages[name]()
    official_message = onnxwire.to_onnx(message)
    assert official_message.DESCRIPTOR.full_name == name
    assert type(onnxwire.from_onnx(official_message)) is type(message)


def test_converted_messages_have_the_same_content():
    official_model = model_with_tensors_everywhere()
    model = onnxwire.from_onnx(official_model)
    assert model.SerializeToString() == official_model.SerializeToString()
    assert onnxwire.to_onnx(model) == official_model
    model.producer_name = "edited"
    assert onnxwire.to_onnx(model).producer_name == "edited"
    assert onnxwire.to_onnx(model.graph.initializer[0]) == official_model.graph.initializer[0]


@pytest.mark.parametrize("message", [b"", None, onnx.ModelProto, "x"])
def test_from_onnx_rejects_other_objects(message):
    with pytest.raises(TypeError, match="expected a message of the onnx package"):
        onnxwire.from_onnx(message)


def test_a_message_of_another_schema_is_rejected():
    with pytest.raises(TypeError, match="the onnx package has no message"):
        onnxwire.to_onnx(EVERYTHING())


def test_without_the_onnx_package_the_error_names_the_missing_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    for call in (onnxwire.infer_shapes, onnxwire.check_official, onnxwire.to_onnx):
        with pytest.raises(ImportError, match="pip install onnx"):
            call(model_of())
    assert onnxwire.apply(model_of(raw_weight()), lambda argument: argument, form="onnxwire") == model_of(raw_weight())


def test_the_result_has_the_payloads_from_before_the_call():
    tensors = [onnxwire.from_array(np.full(300, i, np.float32), f"w{i}") for i in range(10)]
    model = onnxwire.ModelProto(ir_version=10, graph=onnxwire.GraphProto(name="g", initializer=tensors))

    def edit(_):
        for tensor in model.graph.initializer:
            tensor.raw_data = bytes(1200)
        model.graph.initializer.reverse()

    result = onnxwire.apply(model, edit)
    assert {tensor.name: tensor.numpy()[0] for tensor in result.graph.initializer} == {f"w{i}": i for i in range(10)}
