"""Values are set and added at paths, and files are read only if permitted."""

from __future__ import annotations

import re

import pytest

import onnxwire
from onnxwire.errors import EditError, PathError
from onnxwire.transforms.assign import add_element, assign, set_value


@pytest.fixture
def model():
    """Return a model with a node with attributes, two tensors, an empty sparse tensor, and an input."""
    model = onnxwire.ModelProto(producer_name="me")
    model.graph.node.add(op_type="Relu", input=["x"])
    model.graph.node[0].attribute.add(name="ints", type=onnxwire.AttributeProto.INTS, ints=[1, 2])
    model.graph.node[0].attribute.add(name="texts", type=onnxwire.AttributeProto.STRINGS, strings=[b"a"])
    model.graph.node[0].attribute.add(name="text", type=onnxwire.AttributeProto.STRING, s=b"a")
    model.graph.initializer.append(onnxwire.TensorProto(name="w"))
    model.graph.initializer.append(onnxwire.TensorProto(name="v", dims=[4]))
    model.graph.sparse_initializer.add()
    model.graph.input.add(name="x").type.tensor_type.elem_type = onnxwire.TensorProto.FLOAT
    return model


def test_set_value_reads_files_only_if_permitted(model, tmp_path):
    (tmp_path / "f").write_bytes(b"secret")
    assert set_value(model, "graph.initializer[0].raw_data", f"@{tmp_path / 'f'}") == "graph.initializer[0].raw_data"
    assert model.graph.initializer[0].raw_data == f"@{tmp_path / 'f'}".encode()
    with pytest.raises(EditError):
        set_value(model, "graph.initializer[0]", "@w.npy")
    set_value(model, "graph.initializer[0].raw_data", f"@{tmp_path / 'f'}", files=True)
    assert model.graph.initializer[0].raw_data == b"secret"


def test_a_value_may_contain_an_equals_sign(model):
    set_value(model, "producer_name", "a=b")
    other_model = onnxwire.ModelProto()
    assign(other_model, "producer_name=a=b")
    assert model.producer_name == other_model.producer_name == "a=b"


@pytest.mark.parametrize(
    ("path", "text", "added_path", "value"),
    [
        ("graph.node[0].input", "y", "graph.node[0].input[1]", "y"),
        ("graph.node[0].input", None, "graph.node[0].input[1]", ""),
        ("graph.node", '{op_type: "Add"}', "graph.node[1]", onnxwire.NodeProto(op_type="Add")),
        ("graph.node", None, "graph.node[1]", onnxwire.NodeProto()),
        ("graph.initializer[0].dims", "3", "graph.initializer[0].dims[0]", 3),
        ("graph.initializer[0].string_data", "s", "graph.initializer[0].string_data[0]", b"s"),
        ("model_version", None, "model_version", 0),
        ("model_version", "7", "model_version", 7),
        ("graph.initializer[0].segment", None, "graph.initializer[0].segment", onnxwire.TensorProto.Segment()),
    ],
)
def test_elements_and_fields_are_added(model, path, text, added_path, value):
    from onnxwire.analysis.paths import resolve

    assert add_element(model, path, text) == added_path
    resolved = resolve(model, added_path)
    assert resolved.value == value
    assert resolved.is_set


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("producer_name", "again"),
        ("graph.node[0]", None),
        ("", None),
        ("graph.node", "Relu"),
        ("graph.initializer[0].dims", "x"),
        ("model_version", "x"),
        ("graph.input[0].type.sequence_type.elem_type.tensor_type.shape.dim", "{x: 1}"),
        ("graph.sparse_initializer[0].values.dims", "x"),
    ],
)
def test_a_rejected_addition_changes_nothing(model, path, text):
    bytes_before = model.SerializeToString()
    with pytest.raises(EditError):
        add_element(model, path, text)
    assert model.SerializeToString() == bytes_before
    with pytest.raises(PathError):
        add_element(model, "graph.nothing", text)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("graph.initializer[1].dims", "[2, 99999999999999999999999]"),
        ("graph.initializer[1].dims", "[2, x]"),
        ("graph.initializer[1].dims[0]", "99999999999999999999999"),
        # A lone surrogate such as U+D800 cannot be encoded in UTF-8.
        ("graph.node[0].input", '["a", "\\ud800"]'),
        ("graph.node[0].attribute[0]", "[3, 99999999999999999999999]"),
        ("graph.node[0].attribute[1]", '["b", "\\ud800"]'),
        ("graph.node[0].attribute[1].strings", '["b", "\\ud800"]'),
        ("graph.node[0].attribute[2]", "\ud800"),
        ("producer_name", "\ud800"),
        ("graph.node[0]", '{op_type: "Add" no_such_field: 1}'),
    ],
)
def test_a_rejected_assignment_changes_nothing(model, path, text):
    bytes_before = model.SerializeToString()
    with pytest.raises(EditError, match=re.escape(f"{path}=")):
        set_value(model, path, text)
    assert model.SerializeToString() == bytes_before


def test_text_with_surrogate_escapes_sets_the_original_bytes(model):
    set_value(model, "graph.node[0].attribute[2]", b"\xff".decode(errors="surrogateescape"))
    assert model.graph.node[0].attribute[2].s == b"\xff"
