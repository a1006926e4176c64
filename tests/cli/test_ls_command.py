"""`onnxwire ls` lists, filters and sorts tensors, nodes and values, and sums sizes by prefixes of names."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import onnxwire
from onnxwire.analysis.listing import name_tree, node_rows, row_filter, sort_rows
from onnxwire.cli import main
from onnxwire.engine.search import Search

ROOT = Path(__file__).parents[2]
DIGITS = ROOT / "examples" / "digits_cnn.onnx"
MODEL = onnx.load(DIGITS)


def run(capsys, *arguments: object) -> tuple[int, str, str]:
    """Run `onnxwire ls`; return its exit status, stdout and stderr."""
    status = main(["ls", *map(str, arguments)])
    out, err = capsys.readouterr()
    return status, out, err


def rows(capsys, *arguments: object) -> list[dict]:
    """Return the rows that `onnxwire ls` prints as JSON."""
    status, out, err = run(capsys, *arguments, "--json")
    assert (status, err) == (0, "")
    return json.loads(out)


def names(capsys, *arguments: object) -> list[str]:
    return [row["name"] for row in rows(capsys, *arguments)]


@pytest.fixture(scope="module")
def big_path(tmp_path_factory) -> Path:
    """Return the path of a model of more than 4 GiB in a sparse file."""
    path = tmp_path_factory.mktemp("big") / "big.onnx"
    command = [sys.executable, str(ROOT / "examples" / "make_big_model.py"), "-o", str(path)]
    subprocess.run(command, check=True, capture_output=True)
    return path


def test_listed_tensors_equal_those_of_the_official_runtime(capsys) -> None:
    for row, tensor in zip(rows(capsys, DIGITS), MODEL.graph.initializer, strict=True):
        assert (row["name"], row["shape"]) == (tensor.name, list(tensor.dims))
        assert row["type"] == onnx.TensorProto.DataType.Name(tensor.data_type)
        assert (row["bytes"], row["stored"]) == (len(tensor.raw_data), "raw_data")
        assert DIGITS.read_bytes()[row["offset"] :].startswith(tensor.raw_data)


def test_a_line_has_name_type_shape_bytes_and_location(capsys) -> None:
    status, out, _ = run(capsys, DIGITS)
    assert status == 0
    assert len(out.splitlines()) == len(MODEL.graph.initializer)
    assert "classifier.1.weight      FLOAT  [64, 512]       128.0 KiB  inline at 31,573" in out


def test_external_and_typed_tensors_have_their_locations(tmp_path, capsys) -> None:
    weights = [numpy_helper.from_array(np.zeros(999, np.float32), "far"), helper.make_tensor("typed", 1, [2], [1, 2])]
    model = helper.make_model(helper.make_graph([], "g", [], [], weights))
    onnx.save(model, tmp_path / "m.onnx", save_as_external_data=True, location="m.data", size_threshold=100)
    out = run(capsys, tmp_path / "m.onnx")[1].splitlines()
    assert out[0].endswith("m.data at 0")
    assert out[1].endswith("in float_data")


def test_an_empty_raw_data_beside_a_typed_field_stores_nothing(tmp_path, capsys) -> None:
    weights = [helper.make_tensor("typed", 1, [2], [1, 2]), onnx.TensorProto(name="empty", data_type=1, dims=[0])]
    for weight in weights:
        weight.raw_data = b""
    onnx.save(helper.make_model(helper.make_graph([], "g", [], [], weights)), tmp_path / "m.onnx")
    assert [row["stored"] for row in rows(capsys, tmp_path / "m.onnx")] == ["float_data", "raw_data"]


def test_a_pattern_matches_whole_names_and_a_word_matches_parts_of_names(capsys) -> None:
    all_names = [tensor.name for tensor in MODEL.graph.initializer]
    assert names(capsys, DIGITS, "features.*.bias") == [
        name for name in all_names if name.startswith("features") and name.endswith("bias")
    ]
    assert run(capsys, DIGITS, "eatures.*.bias")[:2] == (1, "")
    assert names(capsys, DIGITS, "running") == [name for name in all_names if "running" in name]
    assert names(capsys, DIGITS, "-E", r"\.[13]\.weight$") == [
        name for name in all_names if name[-9:] in (".1.weight", ".3.weight")
    ]


def test_a_pattern_may_come_after_an_option(capsys) -> None:
    assert names(capsys, DIGITS, "--nodes", "node_conv2d") == ["node_conv2d", "node_conv2d_1"]


@pytest.mark.parametrize("arguments", [["nope"], ["--filter", "bytes>1G"], ["--nodes", "nope"]])
def test_the_status_is_1_if_no_row_matches(arguments, capsys) -> None:
    status, out, err = run(capsys, DIGITS, *arguments)
    noun = "node" if "--nodes" in arguments else "tensor"
    reason = f" matches {arguments[-1]!r}" if "nope" in arguments else " fulfils bytes>1G"
    assert (status, out, err) == (1, "", f"onnxwire: {DIGITS}: no {noun}{reason}\n")


def test_conditions_must_all_be_fulfilled(capsys) -> None:
    matching_rows = rows(capsys, DIGITS, "--filter", "bytes>=2K", "--filter", "rank=2")
    assert [row["name"] for row in matching_rows] == ["classifier.1.weight", "classifier.3.weight"]


@pytest.mark.parametrize(
    ("condition", "is_met"),
    [
        ("bytes=4096", True), ("bytes=4K", True), ("bytes>4KiB", False), ("bytes!=1", True), ("rank<3", True),
        ("shape=[64,*]", True), ("shape = [64, 16]", True), ("shape=[6,*]", False), ("shape~^.64", True),
        ("type=FLOAT", True), ("type!=FLOAT", False), ("type=FLO*", True), ("name~^a.b$", True), ("name!~a", False),
        ("type=LOAT", False),
        ("std>0.1", True), ("std<1e-3", False), ("mean>0", False), ("mean!=0", True), ("name>a", True),
        ("mean~1", False), ("mean!~1", True), ("mean!~a", True),
    ],
)  # fmt: skip
def test_conditions_compare_numbers_and_match_texts(condition: str, is_met: bool) -> None:
    row = {"name": "a.b", "type": "FLOAT", "shape": [64, 16], "bytes": 4096, "std": 0.5, "mean": None}
    assert row_filter(condition)(row) is is_met


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--filter", "size>1"], "size>1: there is no size to compare; the keys are name, type, shape, bytes,"),
        (["--filter", "bytes"], "bytes: this is not a condition; write a key, a comparison and a value, such as"),
        (["--filter", "bytes>many"], "bytes is a number, but 'many' is not"),
        (["--filter", "name~("], "this is not a regular expression"),
        (["-E", "("], "this is not a regular expression"),
        (["--sort", "size"], "there is no size to sort by; the keys are name, type,"),
    ],
)
def test_a_wrong_condition_pattern_or_sort_key_is_reported_in_one_line(arguments, text, capsys) -> None:
    status, out, err = run(capsys, DIGITS, *arguments)
    assert (status, out) == (2, "")
    assert err.count("\n") == 1 and text in err


def test_numbers_are_sorted_from_the_largest_and_names_in_natural_order(capsys) -> None:
    sizes = [row["bytes"] for row in rows(capsys, DIGITS, "--sort", "bytes")]
    assert sizes == sorted(sizes, reverse=True)
    assert [row["bytes"] for row in rows(capsys, DIGITS, "--sort", "bytes", "-r", "--limit", "2")] == sorted(sizes)[:2]
    sorted_rows = sort_rows([{"name": f"w{i}"} for i in (10, 2, 1)], "name")
    assert [row["name"] for row in sorted_rows] == ["w1", "w2", "w10"]


def test_names_with_more_digits_than_an_int_accepts_are_sorted() -> None:
    names = ["w" + "9" * 5000, "w" + "1" * 5001, "w007", "w6"]
    assert [row["name"] for row in sort_rows([{"name": name} for name in names], "name")] == [
        "w6", "w007", "w" + "9" * 5000, "w" + "1" * 5001,
    ]  # fmt: skip


def test_nodes_have_operators_inputs_and_outputs(capsys) -> None:
    for row, node in zip(rows(capsys, DIGITS, "--nodes"), MODEL.graph.node, strict=True):
        assert (row["name"], row["type"]) == (node.name, node.op_type)
        assert (row["input"], row["output"]) == (list(node.input), list(node.output))
    assert "image -> val_0" in run(capsys, DIGITS, "--nodes", "Shape_0")[1]


def test_inputs_and_outputs_have_types_and_all_values_are_listed(capsys) -> None:
    assert run(capsys, DIGITS, "--inputs")[1] == "image  float[batch, 1, 8, 8]  graph.input[0]\n"
    assert run(capsys, DIGITS, "--outputs")[1] == "logits  float[batch, 10]  graph.output[0]\n"
    assert len(rows(capsys, DIGITS, "--values")) == 2 + len(MODEL.graph.value_info)


def test_the_tree_sums_sizes_by_prefix(capsys) -> None:
    lines = run(capsys, DIGITS, "--tree", "--depth", "1")[1].splitlines()
    total = sum(len(tensor.raw_data) for tensor in MODEL.graph.initializer)
    assert lines[0].split() == [f"{total / 1024:.1f}", "KiB", "16", "total"]
    assert [line.split()[-1] for line in lines[1:]] == ["features", "classifier"]
    tree = json.loads(run(capsys, DIGITS, "--tree", "--json")[1])
    assert (tree["bytes"], tree["count"]) == (total, 16)
    for branch in tree["children"]:
        assert branch["bytes"] == sum(leaf["bytes"] for child in branch["children"] for leaf in child["children"])


def test_a_prefix_with_one_child_is_merged_with_the_child() -> None:
    tree = name_tree([{"name": name, "path": "", "bytes": 1} for name in ("/a.b/c", "/a.b/d", "e::f", "e::f::g")])
    assert [child.name for child in tree.children.values()] == ["/a.b", "e::f"]
    assert [child.name for child in tree.children["/a"].children.values()] == ["/c", "/d"]


def test_a_tree_of_names_with_many_parts_is_printed(tmp_path, capsys) -> None:
    weights = [helper.make_tensor(".".join(["a"] * n), 1, [1], [0]) for n in range(1, 3000, 20)]
    path = tmp_path / "deep.onnx"
    onnx.save(helper.make_model(helper.make_graph([], "g", [], [], weights)), path)
    assert run(capsys, path, "--tree")[0] == 0
    assert run(capsys, path, "--tree", "--json")[0] == 0


def test_control_characters_in_names_are_escaped(tmp_path, capsys) -> None:
    weights = [helper.make_tensor("\x1b[31mw\n", 1, [1], [0])]
    path = tmp_path / "evil.onnx"
    onnx.save(helper.make_model(helper.make_graph([], "g", [], [], weights)), path)
    for arguments in ([], ["--tree"]):
        out = run(capsys, path, *arguments)[1]
        assert "\x1b" not in out and "\\x1b[31mw\\n" in out


def test_without_a_terminal_colors_are_used_only_on_request(capsys) -> None:
    assert "\x1b" in run(capsys, DIGITS, "--color", "always")[1]
    assert "\x1b" not in run(capsys, DIGITS)[1]


def test_without_rich_there_is_plain_text(capsys, monkeypatch) -> None:
    for module in ("rich", "rich.color", "rich.style"):
        monkeypatch.setitem(sys.modules, module, None)
    assert run(capsys, DIGITS, "--color", "always") == run(capsys, DIGITS)


def test_help_begins_with_a_description_and_ends_with_examples(capsys) -> None:
    with pytest.raises(SystemExit) as excinfo:
        main(["ls", "--help"])
    out = capsys.readouterr().out
    assert excinfo.value.code == 0
    assert out.startswith("List the tensors of a model")
    assert out.index("examples:") > out.index("options:")


def test_tensors_and_inputs_in_the_file_of_a_graph_are_listed(tmp_path, capsys) -> None:
    (tmp_path / "g.pb").write_bytes(MODEL.graph.SerializeToString())
    assert names(capsys, tmp_path / "g.pb", "--type", "GraphProto") == [t.name for t in MODEL.graph.initializer]
    assert names(capsys, tmp_path / "g.pb", "--type", "GraphProto", "--inputs") == ["image"]


def test_a_closed_pipe_ends_the_command_without_an_error() -> None:
    command = [sys.executable, "-P", "-m", "onnxwire", "ls", str(DIGITS), "--nodes"]
    read_end, write_end = os.pipe()
    os.close(read_end)
    result = subprocess.run(command, stdout=write_end, stderr=subprocess.PIPE, check=False)
    os.close(write_end)
    assert (result.returncode, result.stderr) == (0, b"")


@pytest.mark.normal_build
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")
def test_a_model_of_4_gib_is_listed_in_little_memory(big_path) -> None:
    code = (
        "import sys; from onnxwire.cli import main\n"
        "main(['ls', sys.argv[1], '--tree']); main(['ls', sys.argv[1]]); main(['ls', sys.argv[1], '--nodes'])\n"
        "peak = [line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')]\n"
        "print(*peak, file=sys.stderr)"
    )
    result = subprocess.run([sys.executable, "-c", code, str(big_path)], capture_output=True, text=True, check=True)
    assert "  4.26 GiB      191  total" in result.stdout
    assert int(result.stderr) < 60_000  # KiB


def test_nodes_listed_from_columns_equal_those_of_a_search() -> None:
    paths = sorted(Path(onnx.__file__).parent.rglob("*.onnx"))
    assert len(paths) > 100
    for path in paths:
        with onnxwire.load(path) as model:
            nodes_of_search = [
                (node_path, node.name, node.op_type, node.domain, [*node.input], [*node.output])
                for node_path, node in Search(model, [onnxwire.NodeProto])
            ]
            listed_nodes = [
                (row["path"], row["name"], row["type"], row["domain"], row["input"], row["output"])
                for row in node_rows(model)
            ]
        assert listed_nodes == nodes_of_search


def test_bytes_of_names_that_are_not_utf8_are_listed_as_surrogates(tmp_path, capsys) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(b"\x3a\x05\x0a\x03\x1a\x01\xff")  # a graph with a node whose name is the byte 0xff
    status, out, err = run(capsys, path, "--nodes")
    assert (status, err) == (0, "")
    assert "\\udcff" in out or "\udcff" in out


def test_a_long_list_is_complete_and_in_order(tmp_path, capsys) -> None:
    count = 4_321
    nodes = [
        {"name": f"node_{i}", "op_type": "Relu", "input": [f"v{i}"], "output": [f"v{i + 1}"]} for i in range(count)
    ]
    path = tmp_path / "m.onnx"
    onnxwire.save(onnxwire.ModelProto(ir_version=10, graph={"node": nodes}), path)
    _, out, _ = run(capsys, path, "--nodes")
    assert [line.split()[0] for line in out.splitlines()] == [f"node_{i}" for i in range(count)]
    listed_rows = rows(capsys, path, "--nodes")
    assert [row["path"] for row in listed_rows] == [f"graph.node[{i}]" for i in range(count)]
    assert run(capsys, path, "--nodes", "--json")[1] == json.dumps(listed_rows, indent=2) + "\n"
    assert run(capsys, path, "--nodes", "--json", "--filter", "type=Conv")[:2] == (1, "[]\n")
    assert len(rows(capsys, path, "--nodes", "--limit", "3000")) == 3000
    assert names(capsys, path, "--nodes", "--reverse", "--limit", "1") == [f"node_{count - 1}"]
