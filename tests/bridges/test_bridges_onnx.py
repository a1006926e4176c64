"""`apply` calls functions on a model without payloads; messages are converted to and from the official package."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import onnx
import pytest
from everything import EVERYTHING
from graphs import value
from onnx import TensorProto, helper, numpy_helper
from wire import LEN, number, span, tag, varint

import onnxwire

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
EXTERNAL = TensorProto.EXTERNAL
SIZE = 400  # elements of a weight, whose payload is above the threshold


def weight(name="w", first=0, **fields):
    tensor = numpy_helper.from_array(np.arange(first, first + SIZE, dtype=np.float32).reshape(20, 20), name)
    tensor.MergeFrom(TensorProto(**fields))
    return tensor


def typed(name):
    return helper.make_tensor(name, FLOAT, [SIZE], np.arange(SIZE))


def model_of(*tensors, **fields):
    """Make a model of onnxwire with initializers."""
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])], "g", [value("x", 20, 20)], [value("y", 20, 20)], list(tensors)
    )
    model = helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 20)], **fields)
    return onnxwire.ModelProto.FromString(model.SerializeToString())


def arrays(model):
    return {tensor.name: tensor.numpy() for tensor in model.graph.initializer}


def model_with_tensors_everywhere():
    """Make a model with a large tensor in each field that can contain one."""
    sparse = onnx.SparseTensorProto(dims=[10**6])
    sparse.values.CopyFrom(typed("s"))
    sparse.indices.CopyFrom(helper.make_tensor("", INT64, [SIZE], np.arange(10**6 - SIZE, 10**6)))
    body = helper.make_graph([], "body", [], [value("b", 20, 20)], [weight("b", 1)])
    body.sparse_initializer.append(sparse)
    nodes = [
        helper.make_node("Constant", [], ["c"], value=weight("", 2)),
        helper.make_node("Constant", [], ["d"], sparse_value=sparse),
        helper.make_node("If", ["f"], ["e"], then_branch=body, else_branch=body),
        helper.make_node("Custom", [], ["h"], domain="local", tensors=[weight("t0", 3), typed("t1")], graphs=[body]),
    ]
    function = helper.make_function("local", "F", [], ["c"], nodes[:1], [helper.make_opsetid("", 20)])
    graph = helper.make_graph(nodes, "g", [], [], [weight("w", 4), typed("v")], sparse_initializer=[sparse])
    model = helper.make_model(graph, functions=[function], ir_version=10)
    training = model.training_info.add()
    training.algorithm.initializer.append(weight("a", 5))
    training.initialization.node.append(nodes[0])
    texts = helper.make_tensor("texts", TensorProto.STRING, [2], [b"a" * 1000, b"b" * 1000])
    model.graph.initializer.append(texts)
    return model


def tensors_in(message):
    """Return every TensorProto in an official message."""
    for field, found in message.ListFields():
        if field.message_type is not None:
            for inner in found if not hasattr(found, "ListFields") else [found]:
                if isinstance(inner, TensorProto):
                    yield inner
                yield from tensors_in(inner)


# --- the argument of a function, and the result for an unchanged model


def test_every_large_tensor_at_any_path_is_left_out_and_restored():
    official = model_with_tensors_everywhere()
    model = onnxwire.ModelProto.FromString(official.SerializeToString())
    given = []
    made = onnxwire.apply(model, lambda model: given.append(model) or model)
    found = list(tensors_in(given[0]))
    assert len(found) == len(list(tensors_in(official))) == 22
    assert all(tensor.data_location == EXTERNAL and not tensor.raw_data for tensor in found)
    assert given[0].ByteSize() < 8000
    assert len({entry.value for tensor in found for entry in tensor.external_data if entry.key == "location"}) == 22
    assert made == model
    assert onnxwire.to_onnx(made) == official


@pytest.mark.parametrize("threshold", [0, 1, 1599, 1600, 1601, 1 << 40])
def test_payloads_below_the_threshold_are_not_left_out(threshold):
    model = model_of(weight(), numpy_helper.from_array(np.float32(1), "s"))
    given = []
    made = onnxwire.apply(model, lambda model: given.append(model) or model, threshold)
    left_out = [tensor.name for tensor in given[0].graph.initializer if tensor.data_location == EXTERNAL]
    assert left_out == [name for name, size in (("w", 1600), ("s", 4)) if size >= threshold]
    assert made == model


@pytest.mark.parametrize("form", ["onnx", "onnxwire", "bytes"])
def test_the_function_receives_the_model_in_the_requested_form(form):
    model = model_of(weight(), producer_name="a")

    def function(given):
        kind = {"onnx": onnx.ModelProto, "onnxwire": onnxwire.ModelProto, "bytes": bytes}[form]
        assert type(given) is kind
        if form == "bytes":
            given = onnx.load_from_string(given)
        given.producer_name = "b"
        return given

    made = onnxwire.apply(model, function, form=form)
    assert (model.producer_name, made.producer_name) == ("a", "b")
    assert made.graph == model.graph


def test_a_function_may_return_another_form_than_its_argument():
    model = model_of(weight())
    assert onnxwire.apply(model, lambda given: given.SerializeToString()) == model
    assert onnxwire.apply(model, onnxwire.from_onnx) == model
    assert onnxwire.apply(model, onnxwire.to_onnx, form="onnxwire") == model


@pytest.mark.parametrize("form", ["onnx", "onnxwire"])
def test_a_function_may_change_its_argument_and_return_none(form):
    made = onnxwire.apply(model_of(weight()), lambda given: given.graph.ClearField("output"), form=form)
    assert len(made.graph.output) == 0
    assert arrays(made)["w"][-1, -1] == SIZE - 1


def test_the_model_is_not_changed():
    model = model_of(weight())
    before = model.SerializeToString()

    def change(given):
        given.graph.initializer[0].name = "other"
        given.graph.initializer[0].dims[:] = [SIZE]

    for form in ("onnx", "onnxwire"):
        made = onnxwire.apply(model, change, form=form)
        assert arrays(made).keys() == {"other"}
        assert model.SerializeToString() == before


def test_payloads_are_restored_by_reference(tmp_path):
    onnxwire.save(model_of(weight(), typed("v")), tmp_path / "m.onnx")
    model = onnxwire.load(tmp_path / "m.onnx")
    made = onnxwire.apply(model, lambda given: given)
    for name, array in arrays(model).items():
        assert np.shares_memory(array, arrays(made)[name])


def test_the_result_outlives_the_model(tmp_path):
    onnxwire.save(model_of(weight()), tmp_path / "m.onnx")
    with onnxwire.load(tmp_path / "m.onnx") as model:
        made = onnxwire.apply(model, lambda given: given)
    (tmp_path / "m.onnx").unlink()
    assert arrays(made)["w"][-1, -1] == SIZE - 1


def test_edits_and_shared_arrays_are_in_the_result():
    model = model_of(weight())
    model.graph.initializer[0].raw_data = np.full(SIZE, 7, np.float32).tobytes()
    model.graph.initializer.append(onnxwire.from_array(np.arange(5000), "shared"))
    made = onnxwire.apply(model, lambda given: given)
    assert made == model
    assert np.shares_memory(arrays(made)["shared"], arrays(model)["shared"])


def test_unknown_fields_and_the_place_of_elements_are_kept():
    data = model_of(typed("v")).graph.initializer[0].SerializeToString()
    tensor = onnxwire.TensorProto.FromString(data + span(3000, b"unknown"))
    model = model_of()
    model.graph.initializer.append(tensor)

    def rename(given):
        given.graph.initializer[0].name = "renamed"

    (made,) = onnxwire.apply(model, rename).graph.initializer
    assert made.SerializeToString(deterministic=True) == onnxwire.TensorProto.FromString(
        tensor.SerializeToString() + span(8, b"renamed")
    ).SerializeToString(deterministic=True)


# --- allowed changes of a tensor


def applied(function, *tensors, **options):
    """Apply a function to a model of tensors, check the result with protobuf, and return the arrays of its
    initializers."""
    made = onnxwire.apply(model_of(*(tensors or [weight()])), function, **options)
    onnx.checker.check_model(onnxwire.to_onnx(made))
    return made


def test_a_tensor_is_renamed_described_and_reshaped():
    def change(given):
        tensor = given.graph.initializer[0]
        tensor.name, tensor.doc_string = "new", "text"
        tensor.dims[:] = [2, 200]
        tensor.metadata_props.add(key="k", value="v")

    for original in (weight(), typed("v")):
        (tensor,) = applied(change, original).graph.initializer
        assert (tensor.name, tensor.doc_string, tensor.metadata_props[0].key) == ("new", "text", "k")
        assert not tensor.external_data and not tensor.HasField("data_location")
        assert tensor.numpy().tolist() == np.arange(SIZE).reshape(2, 200).tolist()


def test_a_tensor_moves_into_nodes_graphs_and_functions():
    def move(given):
        tensor = given.graph.initializer.pop()
        body = helper.make_graph([], "b", [], [value("w", 20, 20)], [tensor])
        given.graph.node.append(helper.make_node("If", ["x"], ["z"], then_branch=body, else_branch=body))
        constant = helper.make_node("Constant", [], ["y"], value=tensor)
        given.graph.node.append(constant)
        opset = helper.make_opsetid("", 20)
        given.functions.append(helper.make_function("local", "F", [], ["y"], [constant], [opset]))

    made = onnxwire.apply(model_of(weight()), move)
    branches, (constant,) = made.graph.node[1].attribute, made.graph.node[2].attribute
    copies = [
        *(branch.g.initializer[0] for branch in branches),
        constant.t,
        made.functions[0].node[0].attribute[0].t,
    ]
    # The model contains the tensor four times, each time with the complete payload.
    assert all(np.array_equal(copy.numpy().ravel(), np.arange(SIZE)) for copy in copies)
    assert all(np.shares_memory(copies[0].numpy(), copy.numpy()) for copy in copies)


def test_a_tensor_is_dropped():
    made = applied(lambda given: given.graph.ClearField("initializer"))
    assert len(made.graph.initializer) == 0


def test_tensors_swap_their_names():
    def swap(given):
        first, second = given.graph.initializer
        first.name, second.name = second.name, first.name

    made = arrays(applied(swap, weight("a"), weight("b", first=1000)))
    assert (made["a"][0, 0], made["b"][0, 0]) == (1000, 0)


@pytest.mark.parametrize("keeps", ["all", "data_location", "external_data", "nothing"])
def test_a_tensor_keeps_elements_that_the_function_assigned(keeps):
    def change(given):
        tensor = given.graph.initializer[0]
        tensor.raw_data = np.float32([1, 2, 3]).tobytes()
        tensor.dims[:] = [3]
        if keeps not in ("all", "data_location"):
            tensor.ClearField("data_location")
        if keeps not in ("all", "external_data"):
            tensor.ClearField("external_data")

    made = applied(change)
    assert arrays(made)["w"].tolist() == [1, 2, 3]
    assert not made.graph.initializer[0].external_data


def test_a_tensor_that_the_function_made_is_not_changed():
    large = numpy_helper.from_array(np.arange(5000.0), "new")
    made = applied(lambda given: given.graph.initializer.extend([large]))
    assert arrays(made)["new"].tolist() == np.arange(5000.0).tolist()


def test_an_original_tensor_without_elements_is_not_changed():
    hollow = TensorProto(name="w", dims=[2], data_type=FLOAT)
    model = model_of(weight(), hollow)
    assert onnxwire.apply(model, lambda given: given) == model


# --- forbidden changes of a tensor


def set_type(tensor):
    tensor.data_type = TensorProto.INT32


def set_dims(tensor):
    tensor.dims[:] = [SIZE - 1]


def set_negative_dims(tensor):
    tensor.dims[:] = [-20, -20]


def take_part(tensor):
    tensor.external_data[1].value = "4"
    tensor.external_data[2].value = "396"


def cut(tensor):
    tensor.segment.begin, tensor.segment.end = 0, 10


def lose(tensor):
    tensor.ClearField("external_data")
    tensor.ClearField("data_location")


def lose_location(tensor):
    tensor.ClearField("data_location")
    tensor.external_data[0].value = "elsewhere"


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (set_type, "made the FLOAT a INT32"),
        (set_dims, r"dims from \[20, 20\] to \[399\]"),
        (set_negative_dims, r"dims from \[20, 20\] to \[-20, -20\]"),
        (take_part, r"used a part of the tensor \(offset 4\)"),
        (cut, "changed its segment"),
        (lose, "removed the tensor's external_data"),
        (lose_location, "removed the tensor's external_data"),
    ],
)
def test_a_tensor_that_its_payload_does_not_fit_is_rejected(change, text):
    with pytest.raises(onnxwire.TensorError, match=rf"graph.initializer\[0\]: tensor 'w': .*{text}.* threshold above"):
        onnxwire.apply(model_of(weight()), lambda given: change(given.graph.initializer[0]))


def test_the_advice_of_an_error_works():
    def convert(given):
        for tensor in given.graph.initializer:
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float16), tensor.name))

    made = onnxwire.apply(model_of(weight()), convert, threshold=1601)
    assert arrays(made)["w"].dtype == np.float16


@pytest.mark.parametrize("result", [(), 1, "model.onnx", onnx.GraphProto(), onnxwire.GraphProto(), [b""]])
def test_a_function_that_returns_no_model_is_rejected(result):
    with pytest.raises(TypeError, match="let it return only the ModelProto"):
        onnxwire.apply(model_of(), lambda given: result)


def test_other_objects_and_unknown_forms_are_rejected():
    with pytest.raises(TypeError, match="expected a ModelProto of onnxwire"):
        onnxwire.apply(onnx.ModelProto(), lambda given: given)
    with pytest.raises(ValueError, match="form is 'onnx'"):
        onnxwire.apply(model_of(), lambda given: given, form="text")


def test_errors_of_the_function_are_raised():
    with pytest.raises(ZeroDivisionError):
        onnxwire.apply(model_of(weight()), lambda given: 1 / 0)


# --- external data of the model itself


@pytest.fixture
def external(tmp_path):
    """Return a model with external data, loaded from a file."""
    onnxwire.save(model_of(weight(), typed("v")), tmp_path / "m.onnx", external="w.data")
    return onnxwire.load(tmp_path / "m.onnx")


def test_external_data_is_unchanged_and_can_still_be_read(external):
    before = external.SerializeToString()
    made = onnxwire.apply(external, lambda given: given)
    assert made.SerializeToString() == before
    assert arrays(made)["w"][-1, -1] == SIZE - 1


def test_locations_in_the_model_that_look_like_ours_are_not_confused():
    seen = []

    def look(given):
        seen.extend(entry.value for tensor in given.graph.initializer for entry in tensor.external_data[:1])

    onnxwire.apply(model_of(weight("a"), weight("b")), look)
    hostile = [TensorProto(name=name, dims=[20, 20], data_type=FLOAT) for name in ("p", "q", "r")]
    for tensor, location in zip(hostile, [*seen, "#onnxwire/0"], strict=True):
        tensor.data_location = EXTERNAL
        tensor.external_data.add(key="location", value=location)
    model = model_of(weight("a"), *hostile, weight("b"))
    made = onnxwire.apply(model, look)
    assert made == model
    assert [entry.value for tensor in made.graph.initializer[1:4] for entry in tensor.external_data] == [
        *seen[:2],
        "#onnxwire/0",
    ]
    assert len(set(seen)) == 2 + 2 + 2 + 1 - 2


def test_a_model_can_not_name_the_payload_of_another_model():
    locations = []
    secret = model_of(weight("secret"))
    onnxwire.apply(secret, lambda given: locations.append(given.graph.initializer[0].external_data[0].value))
    assert locations != []
    onnxwire.apply(secret, lambda given: locations.append(given.graph.initializer[0].external_data[0].value))
    assert locations[0] != locations[1]


# --- size


def write_model(path, size, count=1, operator="Add"):
    """Write a model whose weights of `size` bytes are holes: y = x + w0 + ..., or another operator than +."""
    rows = size // 4 >> 10
    names = ["x", *(f"y{i}" for i in range(count))]
    nodes = [helper.make_node(operator, [names[i], f"w{i}"], [names[i + 1]]) for i in range(count)]
    graph = helper.make_graph(nodes, "g", [value("x", rows, 1024)], [value(names[-1], rows, 1024)])
    if operator == "MatMul":
        graph.input[0].type.tensor_type.shape.dim[1].dim_value = rows
    heads = []
    for i in range(count):
        dims = number(1, rows) + number(1, 1024)
        tensor = dims + number(2, FLOAT) + span(8, f"w{i}".encode()) + tag(9, LEN) + varint(size)
        heads.append(tag(5, LEN) + varint(len(tensor) + size) + tensor)
    body = graph.SerializeToString()
    total = len(body) + sum(map(len, heads)) + size * count
    opset = span(8, helper.make_opsetid("", 13).SerializeToString())
    with open(path, "wb") as file:
        file.write(number(1, 8) + opset + tag(7, LEN) + varint(total) + body)
        for head in heads:
            file.write(head)
            file.seek(size, 1)
        file.truncate()


LARGE_MODEL_PROGRAM = """\
import sys
import onnx, onnxwire
from onnx import helper
def peak():
    # Not ru_maxrss, which is at least that of the process that started this one.
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
def function(given):
    given.graph.initializer[0].name = "first"
    given.graph.node[0].input[1] = "first"
    given.graph.node.append(helper.make_node("Constant", [], ["c"], value=given.graph.initializer.pop()))
    given.graph.node[-1].attribute[0].t.name = "last"
model = onnxwire.load(sys.argv[1])
{call}
before = peak()
onnxwire.save(made, sys.argv[2], threshold=1)
assert peak() < before + 20_000
print(before)
"""
CALLS = {
    "apply": "made = onnxwire.apply(model, function)",
    "infer_shapes": "made = onnxwire.infer_shapes(model, strict_mode=True, data_prop=True)",
    "convert_version": "made = onnxwire.convert_version(model, 17)",
    "check_official": "onnxwire.check_official(model, full=True); made = model",
}


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs holes in files, and /proc")
@pytest.mark.parametrize("call", CALLS)
def test_of_five_gigabytes_no_payload_is_read_and_the_result_is_that_of_a_small_twin(call, tmp_path):
    made = {}
    for name, size in (("big", 1 << 30), ("small", 1 << 12)):
        write_model(tmp_path / f"{name}.onnx", size, 5)
        code = LARGE_MODEL_PROGRAM.format(call=CALLS[call])
        command = [sys.executable, "-W", "ignore", "-c", code, tmp_path / f"{name}.onnx", tmp_path / f"{name}.out"]
        kilobytes = int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        assert kilobytes < 200_000  # including pages of the mapped file
        made[name] = onnxwire.load(tmp_path / f"{name}.out")
        for tensor in onnxwire.tensors(made[name]):
            assert tensor.nbytes == size

    def outline(model):
        return [
            [(list(node.input), node.op_type, list(node.output)) for node in model.graph.node],
            [tensor.name for tensor in onnxwire.tensors(model)],
            [value.name for value in model.graph.value_info],
            [opset.version for opset in model.opset_import],
        ]

    assert outline(made["big"]) == outline(made["small"])
    assert (tmp_path / "big.out").stat().st_size > 5 << 30
    assert (tmp_path / "big.out").stat().st_blocks < 10_000  # holes remain holes


def test_a_model_too_large_without_payloads_is_rejected_unread(tmp_path):
    size = 1 << 31
    with open(tmp_path / "m.onnx", "wb") as file:
        # The doc_string of the graph.
        file.write(number(1, 8) + tag(7, LEN) + varint(size + 6) + tag(10, LEN) + varint(size))
        file.seek(size, 1)
        file.truncate()
    model = onnxwire.load(tmp_path / "m.onnx")
    with pytest.raises(onnxwire.TensorError, match=r"2,147,483,6\d+ bytes, and protobuf reads at most 2,147,483,647"):
        onnxwire.apply(model, lambda given: given)
    with pytest.raises(onnxwire.TensorError, match=r"onnxwire\.apply calls a function with a model without weights"):
        onnxwire.to_onnx(model)
    assert onnxwire.apply(model, lambda given: given, form="onnxwire").ByteSize() == model.ByteSize()


# --- messages


@pytest.mark.parametrize("name", sorted(onnxwire.messages.SCHEMA.messages))
def test_every_message_converts_to_the_official_package_and_back(name):
    ours = onnxwire.messages.SCHEMA.messages[name]()
    official = onnxwire.to_onnx(ours)
    assert official.DESCRIPTOR.full_name == name
    assert type(onnxwire.from_onnx(official)) is type(ours)


def test_the_content_of_messages_is_the_same():
    official = model_with_tensors_everywhere()
    model = onnxwire.from_onnx(official)
    assert model.SerializeToString() == official.SerializeToString()
    assert onnxwire.to_onnx(model) == official
    model.producer_name = "edited"
    assert onnxwire.to_onnx(model).producer_name == "edited"
    assert onnxwire.to_onnx(model.graph.initializer[0]) == official.graph.initializer[0]


@pytest.mark.parametrize("message", [b"", None, onnx.ModelProto, "x"])
def test_other_objects_are_rejected(message):
    with pytest.raises(TypeError, match="expected a message of the onnx package"):
        onnxwire.from_onnx(message)


def test_a_message_of_another_schema_is_rejected():
    with pytest.raises(TypeError, match="the onnx package has no message"):
        onnxwire.to_onnx(EVERYTHING())


def test_without_the_package_one_line_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    for call in (onnxwire.infer_shapes, onnxwire.check_official, onnxwire.to_onnx):
        with pytest.raises(ImportError, match="pip install onnx"):
            call(model_of())
    assert onnxwire.apply(model_of(weight()), lambda given: given, form="onnxwire") == model_of(weight())


def test_the_result_has_the_payloads_that_the_model_had_before_the_call():
    tensors = [onnxwire.from_array(np.full(300, i, np.float32), f"w{i}") for i in range(10)]
    model = onnxwire.ModelProto(ir_version=10, graph=onnxwire.GraphProto(name="g", initializer=tensors))

    def edit(_):
        for tensor in model.graph.initializer:
            tensor.raw_data = bytes(1200)
        model.graph.initializer.reverse()

    made = onnxwire.apply(model, edit)
    assert {tensor.name: tensor.numpy()[0] for tensor in made.graph.initializer} == {f"w{i}": i for i in range(10)}
