"""Tests of `onnxwire.check`: arguments, results, scopes of names, damage, memory, the official checker."""

import os
import pickle
import subprocess
import sys
import tracemalloc
from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import pytest
from check_case import model, nested_model, node, value
from each import each
from wire import varint

import onnxwire
from onnxwire import GraphProto, ModelProto, NodeProto
from onnxwire.checker.registry import rules

BUNDLED_FILES = sorted((Path(onnx.__file__).parent / "backend" / "test" / "data").rglob("*.onnx"))


def _check(text, **options):
    """Return the problems of a model in text form."""
    return onnxwire.check(onnxwire.from_text(text).SerializeToString(), **options)


@each("path", BUNDLED_FILES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_model_that_the_official_checker_accepts_has_no_error(path):
    errors = onnxwire.check(path, select="error")
    if errors:
        with pytest.raises(onnx.checker.ValidationError):
            onnx.checker.check_model(str(path))


def test_a_file_its_bytes_and_a_loaded_message_have_the_same_problems(tmp_path):
    data = onnxwire.from_text(model(node("lost", "a"))).SerializeToString()
    path = tmp_path / "model.onnx"
    path.write_bytes(data)
    assert onnxwire.check(path) == onnxwire.check(data) == onnxwire.check(onnxwire.load(data))


def test_an_edited_message_is_checked_in_its_current_state():
    message = onnxwire.load(onnxwire.from_text(model(node("lost", "a"))).SerializeToString())
    message.graph.node[0].input[0] = ""
    message.graph.node[0].op_type = ""
    (problem,) = onnxwire.check(message, select="error")
    assert (problem.rule, problem.path, problem.offset) == ("node-op-type-present", "graph.node[0]", None)


def test_an_edited_message_that_is_encoded_to_a_file_has_the_same_problems(monkeypatch):
    message = onnxwire.load(onnxwire.from_text(model(node("lost", "a"))).SerializeToString())
    message.graph.node[0].name = "edited"
    problems = onnxwire.check(message)
    monkeypatch.setattr("onnxwire.io.save._MAX_BYTES_IN_MEMORY", 0)  # every encoding is written to a file
    assert onnxwire.check(message) == problems


@pytest.mark.skipif(not os.path.exists("/proc/self/io"), reason="needs the kernel's counters")
def test_the_weights_of_an_edited_model_are_not_written_by_a_check():
    def count_written_bytes():
        """Return the number of bytes that this process has written."""
        return int(Path("/proc/self/io").read_text().split("wchar:")[1].split()[0])

    message = onnxwire.ModelProto(ir_version=10)
    message.graph.name = "g"
    message.graph.initializer.append(onnxwire.from_array(np.zeros(80 << 20, np.uint8), "w"))
    message.graph.initializer.append(onnxwire.from_array(np.zeros(3, np.int64), "short"))
    message.graph.initializer[1].dims[0] = 4
    problems = onnxwire.check(message, select="error")
    n_bytes_before = count_written_bytes()
    assert onnxwire.check(message, select="error") == problems
    assert count_written_bytes() - n_bytes_before < 1 << 20
    assert any("short" in problem.message or "[1]" in problem.path for problem in problems)
    # The check replaces weights only in a copy of the message.
    assert message.graph.initializer[0].numpy().nbytes == 80 << 20


def test_the_offset_of_a_problem_is_the_start_of_the_reported_node():
    data = onnxwire.from_text(model(node("", "a") + node("", "b", op=""))).SerializeToString()
    (problem,) = onnxwire.check(data, select="node-op-type-present")
    assert data[problem.offset :].startswith(NodeProto(output=["b"]).SerializeToString())


@pytest.mark.parametrize("cls", onnxwire.messages.SCHEMA.messages.values(), ids=onnxwire.messages.SCHEMA.messages)
def test_an_empty_message_of_any_type_can_be_checked(cls):
    assert isinstance(len(onnxwire.check(cls())), int)


def test_errors_come_first_and_notes_last():
    severities = [
        problem.severity
        for problem in _check(model(node("lost", "a.b") + node("", "c", op="") + f"value_info {{ {value('gone')} }}"))
    ]
    assert severities == sorted(severities, key=["error", "warning", "note"].index)
    assert set(severities) == {"error", "warning", "note"}


def test_select_and_ignore_accept_ids_and_severities():
    text = model(node("lost", "a", op=""))
    assert {problem.rule for problem in _check(text, select="error")} == {
        "node-op-type-present",
        "graph-node-input-defined",
    }
    assert {problem.rule for problem in _check(text, select="error", ignore=["node-op-type-present"])} == {
        "graph-node-input-defined"
    }
    assert {problem.rule for problem in _check(text, select=["node-op-type-present"])} == {"node-op-type-present"}
    assert _check(text, ignore=["error", "warning", "note"]) == []


@pytest.mark.parametrize("selection", [3, [3], ["error", None], {"error": 1, 2: 3}.items()], ids=repr)
@pytest.mark.parametrize("option", ["select", "ignore"])
def test_a_selection_of_other_objects_than_strings_raises_type_error(option, selection):
    with pytest.raises(TypeError, match="expected the id of a rule or a severity, not "):
        _check(model(), **{option: selection})


def test_the_error_of_an_unknown_rule_suggests_the_nearest_rule():
    with pytest.raises(ValueError, match="did you mean 'graph-name-present'"):
        _check(model(), select="graph-name-presnt")


def test_the_ir_version_selects_the_rules_and_can_be_overridden():
    text = model("", ir=10, fields='functions { name: "f" }')
    rule = "model-functions-before-ir8"
    assert _check(text, select=rule) == []
    assert len(_check(text, select=rule, ir_version=7)) == 1


def test_a_graph_by_itself_is_checked_as_a_main_graph():
    graph = GraphProto(node=[NodeProto(op_type="A", input=["lost"], output=["a"])])
    problems = onnxwire.check(graph.SerializeToString(), GraphProto, select="error")
    assert [(problem.rule, problem.path) for problem in problems] == [
        ("graph-name-present", ""),
        ("graph-node-input-defined", "node[0].input[0]"),
    ]


def test_a_problem_is_immutable_and_can_be_compared_hashed_and_pickled():
    problem, equal_problem = (_check(model(node("lost", "a")), select="error")[0] for _ in range(2))
    assert problem == equal_problem and hash(problem) == hash(equal_problem)
    assert pickle.loads(pickle.dumps(problem)) == problem
    assert str(problem).endswith(f"graph.node[0].input[0]: {problem.message} [graph-node-input-defined]")
    with pytest.raises(AttributeError):
        problem.rule = "other"


def test_damaged_or_empty_bytes_raise_decode_error():
    data = onnxwire.from_text(model(node("a", "b"))).SerializeToString()
    with pytest.raises(onnxwire.DecodeError):
        onnxwire.check(data[:-3])
    with pytest.raises(onnxwire.DecodeError, match="empty"):
        onnxwire.check(b"")


def test_a_graph_that_is_encoded_in_pieces_is_checked_as_one_graph():
    # The graph is encoded in two pieces, which protobuf merges; the second piece reads outputs of the first.
    pieces = [
        GraphProto(name="g", node=[NodeProto(op_type="A", output=["a"])]),
        GraphProto(node=[NodeProto(input=["a"], op_type="B", output=["b"])]),
    ]
    data = b"".join(ModelProto(ir_version=8, graph=piece).SerializeToString() for piece in pieces)
    assert _rules(onnxwire.check(data, select="error")) == {"opset-import-required"} | _rules(
        onnxwire.check(ModelProto.FromString(data).SerializeToString(deterministic=True), select="error")
    )


def _rules(problems):
    """Return the ids of the rules of some problems."""
    return {problem.rule for problem in problems}


def test_sibling_graphs_may_use_the_same_names():
    branch_attribute = 'attribute { name: "%s_branch" type: GRAPH g { name: "%s" ' + node("x", "t", op="Not") + " } }"
    inputs = f"input {{ {value('x', 'type { tensor_type { elem_type: 9 shape { } } }')} }}"
    text = model(
        inputs + node("x", "o", branch_attribute % ("then", "ga") + branch_attribute % ("else", "gb"), op="If")
    )
    assert _check(text, select="error") == []


def test_names_of_a_nested_graph_are_undefined_after_it():
    text = nested_model(node("x", "inner"), after=node("inner", "b"))
    assert [problem.path for problem in _check(text, select="graph-node-input-defined")] == ["graph.node[1].input[0]"]


def test_graphs_are_checked_at_the_maximum_nesting_depth():
    graph = GraphProto(name="g", node=[NodeProto(op_type="A", input=["x"], output=["y"])])
    # The innermost node is 98 levels below the model. One more graph would add three levels, above MAX_DEPTH, 100.
    for level in range(32):
        attribute = onnxwire.AttributeProto(name="body", type=onnxwire.AttributeProto.GRAPH, g=graph)
        graph = GraphProto(name=f"g{level}", node=[NodeProto(op_type="Loop", output=["o"], attribute=[attribute])])
    data = ModelProto(ir_version=8, graph=graph).SerializeToString()
    (problem,) = onnxwire.check(data, select="graph-node-input-defined")
    assert problem.path.count("attribute[0].g") == 32


def test_a_cycle_of_many_nodes_is_one_problem():
    count = 20_000
    nodes = [NodeProto(op_type="A", input=[f"v{(i + 1) % count}"], output=[f"v{i}"]) for i in range(count)]
    (problem,) = onnxwire.check(
        ModelProto(ir_version=8, graph=GraphProto(name="g", node=nodes)).SerializeToString(), select="graph-acyclic"
    )
    assert problem.path == "graph.node[0]"
    assert f"{count - 4:,} more" in problem.message


@pytest.mark.parametrize("kind", ["inputs", "outputs", "nodes", "value_info"])
def test_many_equal_names_are_checked_without_pairwise_comparison(kind):
    # Comparing each pair of names would need 20 billion comparisons, and this test would take far too long.
    count = 200_000
    graph = GraphProto(name="g")
    if kind in ("inputs", "value_info"):
        getattr(graph, kind.removesuffix("s")).extend(onnxwire.ValueInfoProto(name="x") for _ in range(count))
    elif kind == "outputs":
        graph.node.add(op_type="A", output=["x"] * count)
    else:
        graph.node.extend(NodeProto(name="x", op_type="A", input=["x"], output=["x"]) for _ in range(count))
    problems = onnxwire.check(ModelProto(ir_version=8, graph=graph).SerializeToString())
    assert max(Counter(problem.rule for problem in problems).values()) >= count - 1


def test_a_limit_selects_the_first_problems_of_each_rule_and_counts_the_others():
    data = onnxwire.from_text(model(node("lost", "a", op="") * 5 + node("lost", "b"))).SerializeToString()
    all_problems, limited_problems = onnxwire.check(data), onnxwire.check(data, limit=2)
    counts = Counter(problem.rule for problem in all_problems)
    expected = []
    for problem in all_problems:
        if sum(earlier.rule == problem.rule for earlier in expected) < 2:
            expected.append(problem)
    assert limited_problems == expected and list(limited_problems) == expected
    assert limited_problems.omitted == {rule: count - 2 for rule, count in counts.items() if count > 2}
    assert limited_problems.omitted["graph-node-input-defined"] == 4
    assert limited_problems.counts() == all_problems.counts() and all_problems.omitted == {}
    with pytest.raises(ValueError, match="from 1 on"):
        onnxwire.check(data, limit=0)


def test_problems_are_a_sequence():
    data = onnxwire.from_text(model(node("lost", "a", op="") * 5)).SerializeToString()
    problems = onnxwire.check(data)
    problem_list = list(problems)
    assert len(problems) == len(problem_list) > 10
    assert [problems[i] for i in range(len(problem_list))] == problem_list
    assert (
        problems[-1] == problem_list[-1]
        and problems[3:-2] == problem_list[3:-2]
        and problems[::-3] == problem_list[::-3]
    )
    assert problem_list[4] in problems and problems.index(problem_list[4]) == 4
    assert problems == problem_list and problems != problem_list[1:] and problems != "text"
    assert repr(problems).startswith(f"[{problem_list[0]!r}, {problem_list[1]!r}") and repr(problems).endswith(", ...]")
    with pytest.raises(IndexError, match="is out of range"):
        problems[len(problem_list)]


@pytest.mark.normal_build
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads the peak memory from /proc")
@pytest.mark.parametrize("limit", [None, 10_000])
def test_a_check_of_a_million_empty_nodes_needs_less_than_100_mib(limit):
    # Each node breaks two rules. The model has 2 MB; one object per problem would need 200 MB, and the texts of the
    # problems another 600 MB.
    program = f"""if True:
        import onnxwire
        from pathlib import Path

        def peak():
            (line,) = [line for line in Path("/proc/self/status").read_text().splitlines() if line[:6] == "VmHWM:"]
            return int(line.split()[1]) << 10

        onnxwire.check(onnxwire.ModelProto(ir_version=8))
        nodes = bytes([10, 0]) * 1_000_000
        # ir_version 8, an opset_import of version 17, and a graph of 2,000,000 bytes
        data = bytes([8, 8, 66, 2, 16, 17, 58, 0x80, 0x89, 0x7A]) + nodes
        before = peak()
        problems = onnxwire.check(data, limit={limit})
        total = sum(problems.counts().values())
        assert total > 2_000_000 and len(problems) + sum(problems.omitted.values()) == total
        print(peak() - before)
    """
    process = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True)
    assert int(process.stdout) < 100 << 20


def test_problems_need_less_than_16_bytes_per_tensor():
    n_tensors = 50_000
    data = ModelProto(graph={"initializer": [onnxwire.TensorProto()] * n_tensors}).SerializeToString()

    def measure(limit=None):
        """Return the number of problems, and the bytes allocated by `check`. limit: an argument of `check`."""
        onnxwire.check(data, limit=limit)
        tracemalloc.start()
        try:
            problems = onnxwire.check(data, limit=limit)
            return len(problems), tracemalloc.get_traced_memory()[0]
        finally:
            tracemalloc.stop()

    # The columns of the document are subtracted: they determine paths, and are needed even for one problem.
    n_problems, column_bytes = measure(limit=1)
    n_all_problems, all_bytes = measure()
    # Each tensor breaks three rules, and each problem takes 4 bytes.
    assert n_problems < 20 and n_all_problems > 3 * n_tensors and all_bytes - column_bytes < 16 * n_tensors


def test_rules_have_the_three_severities():
    assert {rule.severity for rule in rules().values()} == {"error", "warning", "note"}


def test_a_file_of_more_than_two_gib_is_reported(tmp_path):
    tensor_head = b"\x4a" + varint(1 << 31)  # raw_data
    tensor = b"\x2a" + varint(len(tensor_head) + (1 << 31)) + tensor_head  # initializer
    path = tmp_path / "big.onnx"
    with path.open("wb") as file:
        # ir_version 8, and the graph
        file.write(b"\x08\x08\x3a" + varint(len(tensor) + (1 << 31)) + tensor)
        file.truncate(file.tell() + (1 << 31))
    (problem,) = onnxwire.check(path, select="model-protobuf-size")
    assert "2,147,483,647" in problem.message


def test_an_edit_that_does_not_change_the_encoded_size_is_detected(tmp_path):
    path = tmp_path / "model.onnx"
    onnxwire.save(onnxwire.ModelProto(ir_version=8, graph=onnxwire.GraphProto(name="g")), path)
    with onnxwire.load(path) as model:
        rules_before = {problem.rule for problem in onnxwire.check(model)}
        model.ir_version = 100
        assert {problem.rule for problem in onnxwire.check(model)} - rules_before == {"model-ir-version-known"}


@pytest.mark.parametrize("type_name, dims, byte", [("BOOL", [1 << 20], b"\2"), ("UINT4", [(1 << 20) + 1], b"\xff")])
def test_an_edited_model_that_is_large_has_the_problems_of_its_file(tmp_path, type_name, dims, byte):
    path = tmp_path / "large.onnx"
    data_type = onnxwire.TensorProto.DataType.Value(type_name)
    n_bytes = dims[0] if type_name == "BOOL" else (dims[0] + 1) // 2
    model = onnxwire.ModelProto(ir_version=10)
    model.graph.initializer.add(name="ones", data_type=data_type, dims=dims, raw_data=byte * n_bytes)
    model.graph.initializer.add(name="large", data_type=2, dims=[1 << 26], raw_data=bytes(1 << 26))
    onnxwire.save(model, path)
    rules = ["tensor-raw-bool-values", "tensor-packed-padding-zero"]
    expected = [problem.rule for problem in onnxwire.check(path, select=rules)]
    assert len(expected) == 1
    with onnxwire.load(path) as edited_model:
        edited_model.producer_name = "edited"
        assert [problem.rule for problem in onnxwire.check(edited_model, select=rules)] == expected


def test_the_limit_counts_all_faults_of_a_rule_together():
    attributes = (
        'attribute { name: "a" type: FLOAT } attribute { name: "b" type: INT } attribute { name: "c" type: INT }'
    )
    document = onnxwire.from_text(model(node("", "x", attributes))).SerializeToString()
    problems = onnxwire.check(document, select="attribute-scalar-value-present", limit=2)
    assert len(problems) == 2 and problems.omitted == {"attribute-scalar-value-present": 1}
