"""With the stubs, mypy accepts correct code that uses onnxwire and rejects wrong code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from mypy import api

import onnxwire
from onnxwire.messages import SCHEMA

# Code that mypy must accept and that runs.
WELL_TYPED = """
import copy
from pathlib import Path
from typing import assert_type

import numpy as np
import onnxwire

# edits
model = onnxwire.ModelProto(ir_version=8, graph={"name": "g"}, opset_import=[{"version": 13}], domain=None)
model.ir_version += np.int64(1)
model.producer_name = b"bytes too"
assert_type(model.producer_name, str)
graph = model.graph
node = graph.node.add(op_type="Conv", input=["x", b"w"], attribute=[{"name": "group", "type": "INT", "i": 1}])
assert_type(node, onnxwire.NodeProto)
node.input[0] = "y"
node.input[1:] = ["w", b"b"]
node.input.append(b"c")
node.input.insert(0, "a")
node.input.sort(reverse=True)
inputs: "onnxwire.RepeatedSpan[str]" = node.input
graph.node.append(onnxwire.NodeProto(op_type="Relu", output=node.input))
graph.node.extend(copy.copy(element) for element in graph.node[:])
graph.node.MergeFrom(graph.node)
graph.node.sort(key=lambda node: node.op_type)
assert_type(graph.node.pop(), onnxwire.NodeProto)
del graph.node[2:]
attribute = onnxwire.AttributeProto(name="scales", type="FLOATS", f=1)
attribute.type = onnxwire.AttributeProto.FLOATS
attribute.type = "FLOATS"
assert_type(attribute.type, int)
attribute.f = np.float32(0.5)
attribute.floats.extend(np.ones(3, np.float32))
attribute.floats[0] = 1
attribute.strings.append(b"bytes")
node.attribute.append(attribute)
tensor = graph.initializer.add(dims=(np.int64(2), 3), data_type=onnxwire.TensorProto.FLOAT, raw_data=bytes(24))
tensor.dims[::2] = [3]
tensor.raw_data += bytes(12)
tensor.segment.begin = 0
tensor.segment.SetInParent()
tensor.ClearField("segment")
value = graph.input.add(name="x", type=onnxwire.TypeProto(tensor_type={"elem_type": 1}))
dim = value.type.tensor_type.shape.dim.add(dim_param="N")
dim.ClearField("value")
dim.dim_value = 2
graph.MergeFrom(onnxwire.GraphProto(name="h"))
model.graph.CopyFrom(graph)
Path("m.onnx").write_bytes(model.SerializeToString())
Path("t.pb").write_bytes(tensor.SerializeToString())

# reading
model = onnxwire.load("m.onnx")
assert_type(model, onnxwire.ModelProto)
assert_type(model.graph.node[0].op_type, str)
assert_type(model.graph.node[0:2], list[onnxwire.NodeProto])
assert_type(model.graph.initializer[0].raw_data, bytes)
assert_type([dim.dim_value for dim in model.graph.input[0].type.tensor_type.shape.dim], list[int])
assert_type(onnxwire.load("t.pb", type=onnxwire.TensorProto), onnxwire.TensorProto)
assert_type(onnxwire.NodeProto.FromString(b""), onnxwire.NodeProto)
assert_type(onnxwire.TensorProto.FLOAT, int)
assert_type(onnxwire.AttributeProto.AttributeType.Name(1), str)
model.graph.HasField("name")
with onnxwire.load("m.onnx") as opened:
    assert_type(opened, onnxwire.ModelProto)
for tensor in model.graph.initializer:
    assert_type(list(tensor.dims), list[int])
onnxwire.verify("m.onnx")
dim = model.graph.input[0].type.tensor_type.shape.dim[0]
print(dim.WhichOneof("value"), onnxwire.ModelProto.DESCRIPTOR.fields_by_name["graph"].number)
"""

# Statement after WELL_TYPED → the code of mypy's error.
ILL_TYPED = {
    # unknown names
    "model.graph.nodes": "attr-defined",
    "model.graph.node[0].optype": "attr-defined",
    "model.graph.HasField('nmae')": "arg-type",
    "model.graph.HasField('node')": "arg-type",
    "model.graph.ClearField('nodes')": "arg-type",
    "dim.WhichOneof('valeu')": "arg-type",
    "onnxwire.TensorProto.FLOATS": "attr-defined",
    "onnxwire.loads('m.onnx')": "attr-defined",
    "onnxwire.NodeProto(optype='Add')": "call-arg",
    "model.graph.node.add(optype='Add')": "call-arg",
    "model.ir_versoin = 8": "attr-defined",
    # values of a wrong type
    "model.ir_version + 'x'": "operator",
    "onnxwire.load('m.onnx', type=int)": "type-var",
    "model.ir_version = '8'": "assignment",
    "model.ir_version = 8.0": "assignment",
    "model.producer_name = 8": "assignment",
    "tensor.raw_data = 'text'": "assignment",
    "tensor.raw_data = bytearray(4)": "assignment",
    "attribute.f = '0.5'": "assignment",
    "onnxwire.NodeProto(op_type=1)": "arg-type",
    "onnxwire.NodeProto(attribute=[node])": "list-item",
    "onnxwire.NodeProto(attribute=attribute)": "arg-type",
    "model.CopyFrom(node)": "arg-type",
    # assignments and calls that are not allowed, and a subclass
    "model.graph = graph": "misc",
    "model.graph.node = [node]": "assignment",
    "model.graph.node[0] = node": "misc",
    "model.graph.node[:] = [node]": "misc",
    "model.graph.node.append(tensor)": "arg-type",
    "model.graph.node.extend([tensor])": "list-item",
    "model.graph.node.append({'op_type': 'Add'})": "arg-type",
    "model.graph.node.sort()": "call-arg",
    "node.input.append(1)": "arg-type",
    "node.input[0] = 1": "call-overload",
    "node.input.add()": "misc",
    "tensor.dims.append('1')": "arg-type",
    "attribute.strings.append('text')": "arg-type",
    "class Node(onnxwire.NodeProto): ...": "misc",
}


@pytest.fixture(scope="module")
def reported_errors(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> dict[int, str]:
    """Run mypy once on WELL_TYPED followed by ILL_TYPED, and return its errors by line number."""
    path = tmp_path_factory.mktemp("typing") / "snippet.py"
    cache = pytestconfig.cache.mkdir("mypy")  # shared by all runs, which saves seconds
    path.write_text(WELL_TYPED + "\n".join(ILL_TYPED) + "\n")
    out, errors, _ = api.run([str(path), "--strict", "--no-error-summary", f"--cache-dir={cache}"])
    assert errors == ""
    return {int(line.split(":")[1]): line for line in out.splitlines() if ": error:" in line}


@pytest.fixture
def names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Run WELL_TYPED and return the names that it defines."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(WELL_TYPED, names)
    return names


def test_correct_code_is_accepted(reported_errors: dict[int, str]) -> None:
    assert [error for line, error in reported_errors.items() if line <= WELL_TYPED.count("\n")] == []


@pytest.mark.parametrize("statement", ILL_TYPED)
def test_wrong_code_is_rejected(statement: str, reported_errors: dict[int, str]) -> None:
    line = WELL_TYPED.count("\n") + 1 + list(ILL_TYPED).index(statement)
    assert f"[{ILL_TYPED[statement]}]" in reported_errors.get(line, "")


@pytest.mark.parametrize("statement", ILL_TYPED)
def test_code_that_mypy_rejects_raises_when_it_runs(statement: str, names: dict[str, Any]) -> None:
    with pytest.raises((AttributeError, LookupError, TypeError, ValueError)):
        exec(statement, names)


@pytest.mark.parametrize("name", [name for name in SCHEMA.messages if name.count(".") == 1])
def test_every_class_that_is_not_nested_is_in_the_stubs_with_its_fields(name: str) -> None:
    stub = (Path(onnxwire.__file__).parent / "messages" / "__init__.pyi").read_text()
    cls = SCHEMA.messages[name]
    body = stub[stub.index(f"\nclass {cls.__name__}(Message") :].split("\nclass ")[1]
    for field in cls.DESCRIPTOR.fields:
        assert f"def {field.name}(self)" in body
