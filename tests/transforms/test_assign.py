"""Values are set and added at paths, without files where these are not wanted."""

from __future__ import annotations

import pytest

import onnxwire
from onnxwire.errors import EditError, PathError
from onnxwire.transforms.assign import add_element, assign, set_value


@pytest.fixture
def model():
    model = onnxwire.ModelProto(producer_name="me")
    model.graph.node.add(op_type="Relu", input=["x"])
    model.graph.initializer.append(onnxwire.TensorProto(name="w"))
    return model


def test_set_value_reads_files_only_where_it_may(model, tmp_path):
    (tmp_path / "f").write_bytes(b"secret")
    assert set_value(model, "graph.initializer[0].raw_data", f"@{tmp_path / 'f'}") == "graph.initializer[0].raw_data"
    assert model.graph.initializer[0].raw_data == f"@{tmp_path / 'f'}".encode()
    with pytest.raises(EditError):
        set_value(model, "graph.initializer[0]", "@w.npy")
    set_value(model, "graph.initializer[0].raw_data", f"@{tmp_path / 'f'}", files=True)
    assert model.graph.initializer[0].raw_data == b"secret"


def test_a_value_may_have_an_equals_sign_in_it(model):
    set_value(model, "producer_name", "a=b")
    other = onnxwire.ModelProto()
    assign(other, "producer_name=a=b")
    assert model.producer_name == other.producer_name == "a=b"


@pytest.mark.parametrize(
    ("path", "text", "added", "value"),
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
def test_elements_and_fields_are_added(model, path, text, added, value):
    from onnxwire.analysis.paths import resolve

    assert add_element(model, path, text) == added
    found = resolve(model, added)
    assert found.value == value
    assert found.is_set


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("producer_name", "again"),
        ("graph.node[0]", None),
        ("", None),
        ("graph.node", "Relu"),
        ("graph.initializer[0].dims", "x"),
        ("model_version", "x"),
    ],
)
def test_what_can_not_be_added_changes_nothing(model, path, text):
    before = model.SerializeToString()
    with pytest.raises(EditError):
        add_element(model, path, text)
    assert model.SerializeToString() == before
    with pytest.raises(PathError):
        add_element(model, "graph.nothing", text)
