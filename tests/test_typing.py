"""The stubs: what mypy takes of code that uses onnxwire, and what it rejects."""

from pathlib import Path

import pytest
from mypy import api

import onnxwire
from onnxwire.messages import SCHEMA

GOOD = """
import onnxwire
from typing import assert_type

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
dim: onnxwire.TensorShapeProto.Dimension = model.graph.input[0].type.tensor_type.shape.dim[0]
print(dim.WhichOneof("value"), onnxwire.ModelProto.DESCRIPTOR.fields_by_name["graph"].number)
"""

BAD = {
    "model.graph.nodes": "attr-defined",
    "model.graph.node[0].optype": "attr-defined",
    "model.graph.HasField('nmae')": "arg-type",
    "model.graph.HasField('node')": "arg-type",
    "dim.WhichOneof('valeu')": "arg-type",
    "model.ir_version + 'x'": "operator",
    "onnxwire.TensorProto.FLOATS": "attr-defined",
    "onnxwire.load('m.onnx', type=int)": "type-var",
    "onnxwire.loads('m.onnx')": "attr-defined",
}


def mypy(code: str, folder: Path) -> str:
    path = folder / "snippet.py"
    path.write_text(code)
    cache = folder.parent / "mypy_cache"
    out, errors, _ = api.run([str(path), "--strict", "--no-error-summary", f"--cache-dir={cache}"])
    return out + errors


def test_code_that_uses_every_form_of_access_is_accepted(tmp_path: Path) -> None:
    assert mypy(GOOD, tmp_path) == ""


def test_misspelt_names_are_rejected(tmp_path: Path) -> None:
    found = mypy(GOOD + "\n".join(BAD) + "\n", tmp_path).splitlines()
    first = GOOD.count("\n") + 1
    errors = {int(line.split(":")[1]): line for line in found if ": error:" in line}
    for line, (expression, code) in enumerate(BAD.items(), first):
        assert line in errors, expression
        assert f"[{code}]" in errors[line]


@pytest.mark.parametrize("name", [name for name in SCHEMA.messages if name.count(".") == 1])
def test_every_class_and_field_is_in_the_stubs(name: str) -> None:
    stub = (Path(onnxwire.__file__).parent / "messages.pyi").read_text()
    cls = SCHEMA.messages[name]
    body = stub[stub.index(f"\nclass {cls.__name__}(Message):") :].split("\nclass ")[1]
    for field in cls.DESCRIPTOR.fields:
        assert f"def {field.name}(self)" in body
