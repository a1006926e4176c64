"""New names change no model: whatever a use stood for, it stands for still."""

from __future__ import annotations

import re

import pytest

import onnxwire
from onnxwire import ModelProto
from onnxwire.errors import EditError


def nested(path):
    """A model with a graph at a path inside, in which 'a' is made, and added to 'f' of the main graph."""
    model = ModelProto()
    model.graph.node.add(op_type="Src", output=["f"])
    if path == "then_branch":
        inner = model.graph.node.add(op_type="If").attribute.add(name=path).g
    elif path == "algorithm":
        inner = model.training_info.add().algorithm
    else:
        inner = model.training_info.add().algorithm.node.add(op_type="If").attribute.add(name=path).g
    inner.node.add(op_type="C", output=["a"])
    inner.node.add(op_type="Add", input=["a", "f"], output=["y"])
    return model


@pytest.mark.parametrize("path", ["then_branch", "algorithm", "graph inside the algorithm"])
@pytest.mark.parametrize(
    ("names", "reason"),
    [
        ({"a": "z", "f": "z"}, "two can't both be renamed to 'z'"),
        ({"a": "f"}, "graph: there is a value called 'f' already; choose another name for 'a'"),
        ({"f": "a"}, "there is a value called 'a' already; choose another name for 'f'"),
    ],
)
def test_two_values_that_one_graph_sees_get_no_name_in_common(path, names, reason):
    model = nested(path)
    before = model.SerializeToString()
    with pytest.raises(EditError, match=re.escape(reason)):
        onnxwire.rename_values(model, names)
    assert model.SerializeToString() == before


def test_the_graph_of_initial_values_has_names_of_its_own():
    model = nested("algorithm")
    model.graph.initializer.add(name="w")
    training = model.training_info[0]
    training.initialization.node.add(op_type="RandomNormal", output=["start"])
    training.initialization_binding.add(key="w", value="start")
    onnxwire.rename_values(model, {"start": "w", "w": "weight"})
    assert list(training.initialization.node[0].output) == ["w"]
    assert [(entry.key, entry.value) for entry in training.initialization_binding] == [("weight", "w")]
