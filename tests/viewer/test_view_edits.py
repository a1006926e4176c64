"""`onnxwire view --edit`: changes have the effect of the library's functions; uploads, undo, problems and saving."""

from __future__ import annotations

import contextlib
import errno
import threading
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import onnxwire
from onnxwire.errors import EditError, Error, PathError, StaleError
from onnxwire.transforms.assign import assign, remove
from onnxwire.transforms.bypass import bypass
from onnxwire.viewer import edits as edits_module
from onnxwire.viewer.edits import Edits

DIGITS = Path(__file__).parents[2] / "examples" / "digits_cnn.onnx"


@pytest.fixture
def edits(path):
    """Return the edits of a copy of the digits model."""
    edits = Edits(onnxwire.load(path), str(path))
    yield edits
    edits.uploads.close()


def make_change(edits, kind, **arguments):
    """Make a change of the present state; return the new state."""
    return edits.change(edits.revision, kind, arguments)


def upload(edits, file):
    """Upload the file at a path; return the Upload."""
    with open(file, "rb") as file_object:
        return edits.uploads.add(file.name, file.stat().st_size, file_object.read)


def apply_functions(path, *functions):
    """Return the serialized model after calls of functions that edit it."""
    model = onnxwire.load(path)
    for function in functions:
        function(model)
    return model.SerializeToString()


def add_alpha(model):
    node = model.graph.node[2]
    node.attribute.add(name="alpha", type="FLOAT", f=0.5)


def set_input_dims(model):
    shape = model.graph.input[0].type.tensor_type.shape
    for dim, value in zip(shape.dim, (4, 1, 8, "width"), strict=True):
        dim.ClearField("dim_value")
        dim.ClearField("dim_param")
        setattr(dim, "dim_param" if isinstance(value, str) else "dim_value", value)


# The kind and the arguments of a change, and a function that edits a model with the same effect.
CASES = {
    "a node's name": (
        "rename_node",
        {"path": "graph.node[4]", "name": "act"},
        lambda m: onnxwire.rename_nodes(m, {"node_relu": "act"}),
    ),
    "a value's name": (
        "rename_value",
        {"path": "graph", "name": "image", "new": "pixels"},
        lambda m: onnxwire.rename_values(m, {"image": "pixels"}),
    ),
    "an attribute": (
        "set",
        {"path": "graph.node[2].attribute[1]", "value": "[0, 0, 0, 0]"},
        lambda m: assign(m, "graph.node[2].attribute[pads]=[0, 0, 0, 0]"),
    ),
    "an attribute that is added": (
        "add_attribute",
        {"path": "graph.node[2]", "name": "alpha", "type": "FLOAT", "value": "0.5"},
        add_alpha,
    ),
    "an attribute that is removed": (
        "remove",
        {"path": "graph.node[2].attribute[0]"},
        lambda m: remove(m, ["graph.node[2].attribute[group]"]),
    ),
    "metadata": (
        "add_metadata",
        {"path": "", "key": "author", "value": "me"},
        lambda m: m.metadata_props.add(key="author", value="me"),
    ),
    "an operator set": ("set", {"path": "opset_import[0]", "value": "21"}, lambda m: assign(m, "opset_import[0]=21")),
    "another operator set": (
        "add_opset",
        {"domain": "com.me", "version": 2},
        lambda m: m.opset_import.add(domain="com.me", version=2),
    ),
    "a doc_string": (
        "set",
        {"path": "graph.doc_string", "value": "a\nb"},
        lambda m: assign(m, "graph.doc_string=a\nb"),
    ),
    "dims": (
        "set_shape",
        {"path": "graph.input[0]", "shape": "[4, 1, 8, width]", "elem_type": "FLOAT"},
        set_input_dims,
    ),
    "a deleted node whose consumers are reconnected": (
        "delete_node",
        {"path": "graph.node[4]", "input": 0},
        lambda m: bypass(m, "graph.node[4]"),
    ),
    "a deleted node whose consumers are not reconnected": (
        "delete_node",
        {"path": "graph.node[4]", "input": None},
        lambda m: remove(m, ["graph.node[4]"]),
    ),
    "an element": (
        "add",
        {"path": "graph.node[4].input", "value": "extra"},
        lambda m: m.graph.node[4].input.append("extra"),
    ),
    "bytes": (
        "set_bytes",
        {"path": "graph.initializer[1].raw_data", "digits": "00 ff"},
        lambda m: setattr(m.graph.initializer[1], "raw_data", b"\0\xff"),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_change_has_the_effect_of_the_equivalent_function(edits, path, case):
    kind, arguments, equivalent_function = CASES[case]
    bytes_before = edits.message.SerializeToString()
    state = make_change(edits, kind, **arguments)
    assert edits.message.SerializeToString() == apply_functions(path, equivalent_function)
    assert (state["done"], state["is_saved"]) == (1, False)
    edits.undo(edits.revision)
    assert edits.message.SerializeToString() == bytes_before
    edits.redo(edits.revision)
    assert edits.message.SerializeToString() == apply_functions(path, equivalent_function)
    # The opened file is unchanged.
    assert path.read_bytes() == DIGITS.read_bytes()


def test_a_tensor_is_replaced_by_an_npy_file(edits, tmp_path):
    array = np.arange(6, dtype=np.int16).reshape(2, 3)
    np.save(tmp_path / "weights.npy", array)
    file = upload(edits, tmp_path / "weights.npy")
    make_change(edits, "replace_tensor", path="graph.initializer[3]", upload=file.id, name="")
    edits.save(edits.revision, "out.onnx")
    tensor = onnx.load(tmp_path / "out.onnx").graph.initializer[3]
    assert tensor.name == onnx.load(DIGITS).graph.initializer[3].name
    np.testing.assert_array_equal(numpy_helper.to_array(tensor), array)


def test_tensors_are_replaced_by_those_of_a_safetensors_file_by_name(edits, path, tmp_path):
    other_model = onnxwire.load(path)
    new_arrays = {
        tensor.name: tensor.numpy() + 1 for tensor in other_model.graph.initializer if tensor.dtype == np.float32
    }
    weights = onnxwire.ModelProto()
    for name, array in new_arrays.items():
        weights.graph.initializer.append(onnxwire.from_array(array, name))
    onnxwire.to_safetensors(weights, tmp_path / "w.safetensors")
    file = upload(edits, tmp_path / "w.safetensors")
    make_change(edits, "replace_tensors", upload=file.id)
    for tensor in edits.message.graph.initializer:
        if tensor.name in new_arrays:
            np.testing.assert_array_equal(tensor.numpy(), new_arrays[tensor.name])
    # A tensor is replaced by a tensor of another name.
    replaced_name, source_name = list(new_arrays)[:2]
    index = [tensor.name for tensor in edits.message.graph.initializer].index(replaced_name)
    make_change(edits, "replace_tensor", path=f"graph.initializer[{index}]", upload=file.id, name=source_name)
    np.testing.assert_array_equal(edits.message.graph.initializer[index].numpy(), new_arrays[source_name])


def test_an_upload_is_copied_into_the_saved_model(edits, tmp_path, monkeypatch):
    weights = onnxwire.ModelProto()
    name = edits.message.graph.initializer[0].name
    weights.graph.initializer.append(onnxwire.from_array(np.ones(3, np.float32), name))
    onnxwire.to_safetensors(weights, tmp_path / "w.safetensors")
    # The model's folder is the temporary folder, as for a model in /tmp.
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    file = upload(edits, tmp_path / "w.safetensors")
    assert Path(file.path).is_relative_to(tmp_path)
    make_change(edits, "replace_tensors", upload=file.id)
    make_change(edits, "replace_tensor", path="graph.initializer[1]", upload=file.id, name="")
    edits.save(edits.revision, "out.onnx")
    edits.uploads.close()
    assert not Path(file.path).exists()
    for tensor in onnx.load(tmp_path / "out.onnx").graph.initializer[:2]:
        np.testing.assert_array_equal(numpy_helper.to_array(tensor), np.ones(3))


def npy(header):
    """Return the contents of an .npy file of version 1.0 with a header and without data."""
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode()


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        ("x.npy", b"no array", "not an .npy file"),
        ("x.npy", b"", "not an .npy file"),
        ("x.npy", b"PK\3\4 and no archive", "not an .npy file"),  # begins like a file in a zip archive
        ("x.npy", b"PK\5\6" + bytes(18), "is a zip archive"),  # an archive without members
        ("x.npy", npy("{'descr': '<f4', 'shape': (1,)"), "not an .npy file"),
        ("x.npy", npy(str({"descr": "<f4", "fortran_order": False, "shape": (1 << 70,)})), "not an .npy file"),
        ("x.npy", npy(str({"descr": "<f4", "fortran_order": False, "shape": (1 << 32, 1 << 32)})), "not an .npy file"),
        ("x.safetensors", b"\xff" * 8, "header"),
        ("x.pt", b"", "neither"),
        ("../../x", b"", "neither"),
    ],
)
def test_the_error_of_a_rejected_file_hides_the_temporary_path(edits, tmp_path, name, data, reason):
    (tmp_path / "d").write_bytes(data)
    with open(tmp_path / "d", "rb") as file_object, pytest.raises(EditError, match=reason) as excinfo:
        edits.uploads.add(name, len(data), file_object.read)
    assert "/onnxwire-" not in str(excinfo.value)


def test_incomplete_and_too_large_uploads_are_rejected(edits):
    with pytest.raises(EditError, match="upload it again"):
        edits.uploads.add("x.npy", 100, lambda count: b"")
    with pytest.raises(EditError, match="the limit is"):
        edits.uploads.add("x.npy", 1 << 60, lambda count: b"")


def test_a_full_disk_during_an_upload_is_reported(edits):
    def read(count):
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(EditError, match=r"x\.npy could not be stored: No space left"):
        edits.uploads.add("x.npy", 100, read)


def test_marked_nodes_become_a_model(edits, tmp_path):
    graph = edits.message.graph
    values = [graph.node[index].output[0] for index in (2, 3, 4)]
    answer = edits.extract(edits.revision, values, "part.onnx")
    expected = onnxwire.extract(onnxwire.load(DIGITS), answer["inputs"], answer["outputs"])
    assert (tmp_path / "part.onnx").read_bytes() == expected.SerializeToString()
    assert (answer["nodes"], answer["inputs"], answer["outputs"]) == (3, ["image"], ["relu"])
    onnx.checker.check_model(onnx.load(tmp_path / "part.onnx"))
    assert edits.is_saved
    with pytest.raises(EditError, match="open"):
        edits.extract(edits.revision, values, "m.onnx", replace=True)
    with pytest.raises(PathError, match="marked"):
        edits.extract(edits.revision, ["nothing"], "other.onnx")


def test_a_change_that_fails_changes_nothing(edits):
    state, message = edits.state(), edits.message
    failing_changes = [
        ("set", {"path": "graph.node[2].attribute[0]", "value": "x"}),
        ("set", {"path": "graph.node[99].name", "value": "x"}),
        ("set", {"path": "", "value": "x"}),
        ("rename_value", {"path": "graph", "name": "image", "new": "relu"}),
        ("rename_value", {"path": "graph", "name": "nothing", "new": "x"}),
        ("rename_value", {"path": "graph.node[2]", "name": "image", "new": "x"}),
        ("rename_value", {"path": "graph.node[2].name", "name": "image", "new": "x"}),
        ("rename_value", {"path": "", "name": "image", "new": "x"}),
        ("rename_node", {"path": "graph.node[4]", "name": "node_conv2d"}),
        ("add_attribute", {"path": "graph.node[2]", "name": "pads", "type": "INT", "value": "1"}),
        ("add_attribute", {"path": "graph.node[2]", "name": "x", "type": "INT", "value": "1.5"}),
        ("delete_node", {"path": "graph.node[4]", "input": 7}),
        ("set_shape", {"path": "graph.input[0]", "shape": "[-1]", "elem_type": "FLOAT"}),
        ("set_shape", {"path": "graph.input[0]", "shape": "1", "elem_type": "FLAT"}),
        ("set_bytes", {"path": "graph.initializer[0].raw_data", "digits": "0"}),
        ("replace_tensor", {"path": "graph.initializer[0]", "upload": "../x", "name": ""}),
        ("set", {"path": "producer_name"}),
        ("set", {"path": "producer_name", "value": 3}),
        ("_set", {}),
    ]
    for kind, arguments in failing_changes:
        with pytest.raises(Error):
            make_change(edits, kind, **arguments)
    assert edits.state() == state
    assert edits.message is message


def test_a_node_is_renamed_by_a_path_with_its_name(edits):
    name = edits.message.graph.node[2].name
    make_change(edits, "rename_node", path=f"node:{name}", name="other")
    assert edits.message.graph.node[2].name == "other"
    with pytest.raises(EditError, match="another node"):
        make_change(edits, "rename_node", path="node:other", name=edits.message.graph.node[0].name)


def test_changes_of_models_are_rejected_for_other_messages(path, tmp_path):
    file = tmp_path / "w.safetensors"
    onnxwire.to_safetensors(onnxwire.load(path), file)
    edits = Edits(onnxwire.load(path).graph, str(path))
    with contextlib.closing(edits.uploads):
        model_changes = [
            ("add_opset", {"domain": "x", "version": 1}),
            ("rename_value", {"path": "", "name": "image", "new": "x"}),
            ("replace_tensors", {"upload": upload(edits, file).id}),
        ]
        for kind, arguments in model_changes:
            with pytest.raises(EditError, match="this change needs a model, but the type of the file is GraphProto"):
                make_change(edits, kind, **arguments)
        make_change(edits, "rename_node", path="node[2]", name="other")
        assert edits.message.node[2].name == "other"
    node_edits = Edits(onnxwire.load(path).graph.node[2], str(path))
    with contextlib.closing(node_edits.uploads):
        make_change(node_edits, "rename_node", path="", name="other")
        assert node_edits.message.name == "other"


def test_a_value_that_begins_with_an_at_sign_is_not_a_file(edits, path):
    make_change(edits, "add", path="graph.initializer[0].external_data", value=None)
    make_change(edits, "set", path="graph.initializer[0].raw_data", value=f"@{path}")
    assert edits.message.graph.initializer[0].raw_data == f"@{path}".encode()


def test_a_change_for_an_older_state_is_rejected(edits):
    old_revision = edits.revision
    make_change(edits, "set", path="producer_name", value="me")
    for call in (
        lambda: edits.change(old_revision, "set", {"path": "producer_name", "value": "you"}),
        lambda: edits.undo(old_revision),
        lambda: edits.redo(old_revision),
        lambda: edits.save(old_revision, "out.onnx"),
        lambda: edits.extract(old_revision, ["relu"], "out.onnx"),
    ):
        with pytest.raises(StaleError, match="another tab"):
            call()
    assert edits.message.producer_name == "me"
    # Undoing the change does not restore the old revision.
    edits.undo(edits.revision)
    assert edits.revision > old_revision


def test_only_one_of_several_simultaneous_changes_is_made(edits):
    revision, outcomes = edits.revision, []

    def change(name):
        try:
            edits.change(revision, "set", {"path": "producer_name", "value": name})
            outcomes.append(name)
        except StaleError:
            outcomes.append(None)

    threads = [threading.Thread(target=change, args=(f"n{i}",)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    successful_names = [name for name in outcomes if name]
    assert len(successful_names) == 1
    assert edits.message.producer_name == successful_names[0]


def test_undo_goes_back_to_the_beginning_and_redo_to_the_end(edits):
    encodings = [edits.message.SerializeToString()]
    for i in range(3 * edits_module.MAX_STATES):
        make_change(edits, "set", path=f"graph.node[{i % 17}].doc_string", value=f"note {i}")
        encodings.append(edits.message.SerializeToString())
    assert len(edits._states) <= edits_module.MAX_STATES + 1
    for encoding in encodings[-2::-1]:
        edits.undo(edits.revision)
        assert edits.message.SerializeToString() == encoding
    with pytest.raises(EditError, match="nothing to undo"):
        edits.undo(edits.revision)
    for encoding in encodings[1:]:
        edits.redo(edits.revision)
        assert edits.message.SerializeToString() == encoding
    with pytest.raises(EditError, match="nothing to redo"):
        edits.redo(edits.revision)


def test_a_change_after_an_undo_discards_undone_changes(edits):
    make_change(edits, "set", path="producer_name", value="one")
    edits.save(edits.revision, "one.onnx")
    edits.undo(edits.revision)
    state = make_change(edits, "set", path="producer_name", value="two")
    assert [change["text"] for change in state["changes"]] == ["set producer_name = two"]
    # The saved state can't be restored, so the present state counts as unsaved.
    assert not state["is_saved"]
    edits.undo(edits.revision)
    assert not edits.is_saved


def test_only_problems_caused_by_edits_are_reported(tmp_path):
    value = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])
    nodes = [
        helper.make_node("Relu", ["x"], ["a"], name="first", nonsense=1),
        helper.make_node("Relu", ["a"], ["b"], name="second"),
        helper.make_node("Relu", ["b"], ["y"], name="third", nonsense=1),
    ]
    input_info = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])
    onnx.save(helper.make_model(helper.make_graph(nodes, "g", [input_info], [value])), tmp_path / "m.onnx")
    edits = Edits(onnxwire.load(tmp_path / "m.onnx"), str(tmp_path / "m.onnx"))
    file_problems = list(onnxwire.check(tmp_path / "m.onnx"))
    assert any("nonsense" in problem.message for problem in file_problems)
    assert edits.problems()["total"] == 0
    # The third node has another index now, but no new problem.
    make_change(edits, "delete_node", path="graph.node[1]", input=0)
    assert edits.problems()["total"] == 0
    make_change(edits, "set", path="graph.node[1].op_type", value="Rely")
    problems = edits.problems()
    assert problems["total"] >= 1
    assert {row["path"] for row in problems["rows"]} == {"graph.node[1]"}
    edits.undo(edits.revision)
    assert edits.problems()["total"] == 0


def test_problems_beyond_the_limit_of_a_rule_are_counted(monkeypatch, tmp_path):
    monkeypatch.setattr("onnxwire.viewer.edits.MAX_PROBLEMS_PER_RULE", 2)
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in ("x", "y")]
    nodes = [helper.make_node("Relu", ["x"], [name], name=name) for name in (*"abcde", "y")]
    onnx.save(helper.make_model(helper.make_graph(nodes, "g", infos[:1], infos[1:])), tmp_path / "m.onnx")
    edits = Edits(onnxwire.load(tmp_path / "m.onnx"), str(tmp_path / "m.onnx"))
    assert edits.problems()["total"] == 0
    for index in range(5):
        make_change(edits, "set", path=f"graph.node[{index}].op_type", value="Rely")
    problems = edits.problems()
    assert (problems["total"], problems["left_off"]) == (5, 0)
    assert "3 more times than listed" in problems["rows"][-1]["message"]


def test_problems_beyond_the_limit_of_rows_are_left_off(monkeypatch, edits):
    monkeypatch.setattr("onnxwire.viewer.edits.MAX_ROWS", 1)
    for index in range(2):
        make_change(edits, "set", path=f"graph.node[{index}].op_type", value="Rely")
    problems = edits.problems()
    assert len(problems["rows"]) == 1
    assert problems["left_off"] == problems["total"] - 1 > 0


def test_the_default_domain_is_imported_once(edits):
    for domain in ("", "ai.onnx"):
        with pytest.raises(EditError, match=r"already imports ai\.onnx"):
            make_change(edits, "add_opset", domain=domain, version=17)


def test_differences_are_those_of_diff(edits, path):
    make_change(edits, "set", path="producer_name", value="me")
    make_change(edits, "delete_node", path="graph.node[4]", input=0)
    changed_model = onnxwire.load(path)
    assign(changed_model, "producer_name=me")
    bypass(changed_model, "graph.node[4]")
    expected = [(d.change, d.kind, d.name, d.part) for d in onnxwire.diff(path, changed_model)]
    rows = edits.differences()["rows"]
    assert [(row["change"], row["kind"], row["name"], row["part"]) for row in rows] == expected


def test_files_are_replaced_only_with_explicit_permission(edits, path, tmp_path):
    make_change(edits, "set", path="producer_name", value="me")
    (tmp_path / "existing.onnx").write_bytes(b"precious")
    (tmp_path / "link.onnx").symlink_to(path)
    refused_saves = [
        ("m.onnx", False, ""), ("m.onnx", True, ""), ("m.onnx", True, "replace"), (str(path), True, "yes"),
        ("link.onnx", True, ""), ("existing.onnx", False, ""), ("existing.onnx", False, "replace m.onnx"),
        ("", False, ""), ("..", True, ""), ("../x.onnx", True, ""), ("a/b.onnx", True, ""), ("a\0b", True, ""),
    ]  # fmt: skip
    for name, replace, words in refused_saves:
        with pytest.raises(EditError):
            edits.save(edits.revision, name, replace=replace, words=words)
    assert path.read_bytes() == DIGITS.read_bytes()
    assert (tmp_path / "existing.onnx").read_bytes() == b"precious"
    assert sorted(file.name for file in tmp_path.iterdir()) == ["existing.onnx", "link.onnx", "m.onnx"]
    with pytest.raises(onnxwire.SaveError):
        edits.save(edits.revision, str(tmp_path / "nowhere" / "m.onnx"))
    assert not edits.is_saved
    edits.save(edits.revision, "existing.onnx", replace=True)
    assert onnx.load(tmp_path / "existing.onnx").producer_name == "me"
    assert edits.is_saved
    # Saved over the opened file, whose bytes the page continues to use.
    edits.save(edits.revision, "m.onnx", words="replace m.onnx")
    assert onnx.load(path).producer_name == "me"
    edits.undo(edits.revision)
    assert edits.message.producer_name == "pytorch"
    assert edits.unsaved() == ["undo: set producer_name = me"]


def test_saving_to_another_folder_warns_of_external_weights(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    model = onnxwire.load(DIGITS)
    onnxwire.save(model, tmp_path / "a" / "m.onnx", external="weights.data")
    edits = Edits(onnxwire.load(tmp_path / "a" / "m.onnx"), str(tmp_path / "a" / "m.onnx"))
    (warning,) = edits.save(edits.revision, str(tmp_path / "b" / "m.onnx"))["warnings"]
    assert "weights.data" in warning
    assert edits.save(edits.revision, "n.onnx")["warnings"] == []


def test_a_value_is_renamed_in_its_defining_graph():
    value = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])
    then_branch = helper.make_graph([helper.make_node("Neg", ["x1"], ["y"])], "then", [], [value])
    else_branch = helper.make_graph([helper.make_node("Abs", ["x1"], ["y"])], "else", [], [value])
    branch = helper.make_node("If", ["c"], ["z"], then_branch=then_branch, else_branch=else_branch)
    function = helper.make_function("own", "F", ["x1"], ["b"], [helper.make_node("Exp", ["x1"], ["b"])], [])
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["x1"]), branch], "g", [], [])
    data = helper.make_model(graph, functions=[function]).SerializeToString()
    edits = Edits(onnxwire.ModelProto.FromString(data))
    # The value of the main graph is renamed, although the request names a branch; the function's value is not.
    make_change(edits, "rename_value", path="graph.node[1].attribute[0].g", name="x1", new="w")
    model = edits.message
    assert [model.graph.node[0].output[0], model.functions[0].input[0]] == ["w", "x1"]
    for attribute in model.graph.node[1].attribute:
        assert attribute.g.node[0].input[0] == "w"
    # Only the value of the function is renamed, although the main graph has a value of the same name.
    edits.undo(edits.revision)
    make_change(edits, "rename_value", path="functions[0]", name="x1", new="w")
    model = edits.message
    assert [model.graph.node[0].output[0], *model.functions[0].input, *model.functions[0].node[0].input] == [
        "x1",
        "w",
        "w",
    ]
    # Only the value of one branch is renamed.
    make_change(edits, "rename_value", path="graph.node[1].attribute[1].g", name="y", new="q")
    names = [attribute.g.output[0].name for attribute in edits.message.graph.node[1].attribute]
    assert names == ["y", "q"]
