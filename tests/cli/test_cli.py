"""`onnxwire info`, and the errors, exit statuses and help of all commands."""

import contextlib
import gc
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import forked_commands
import onnx
import pytest
from onnx import helper
from wire import len_record, varint_record

import onnxwire
from onnxwire.cli import main
from onnxwire.cli.commands import NAME_COLUMN_CHARS, SUMMARIES
from onnxwire.io.remote.address import without_credentials

ROOT = Path(__file__).parents[2]
DIGITS = ROOT / "examples" / "digits_cnn.onnx"
FOREST = ROOT / "examples" / "iris_forest.onnx"


def run(*arguments: object, stdout: int = subprocess.PIPE) -> subprocess.CompletedProcess[str]:
    """Run a command in a separate process."""
    return forked_commands.run(*arguments, stdout=stdout, text=True, cwd=ROOT)


def test_info_prints_the_summary_of_a_model() -> None:
    result = run("info", DIGITS)
    assert (result.returncode, result.stderr) == (0, "")
    for text in (
        "IR version      10",
        "ai.onnx 20",
        "pytorch",
        "float[batch, 1, 8, 8]",
        "float[batch, 10]",
        "2  Conv",
        "classifier.1.weight",
        "FLOAT [64, 512]",
    ):
        assert text in result.stdout


def test_info_names_sequences_maps_and_other_domains() -> None:
    text = run("info", FOREST).stdout
    assert "seq(map(string, float[...]))" in text
    assert "TreeEnsembleClassifier (ai.onnx.ml)" in text


@pytest.mark.parametrize("path", [DIGITS, FOREST])
def test_json_agrees_with_the_official_runtime(path: Path) -> None:
    summary = json.loads(run("info", path, "--json").stdout)
    model = onnx.load(path)
    assert summary["bytes"] == path.stat().st_size
    assert summary["ir_version"] == model.ir_version
    assert summary["opset_import"] == [
        {"domain": entry.domain, "version": entry.version} for entry in model.opset_import
    ]
    assert summary["nodes"]["count"] == len(model.graph.node)
    assert {row["op_type"] for row in summary["nodes"]["by_operator"]} == {node.op_type for node in model.graph.node}
    weights = [onnx.numpy_helper.to_array(tensor).nbytes for tensor in model.graph.initializer]
    assert summary["tensors"]["bytes"] == sum(weights)
    assert [row["bytes"] for row in summary["tensors"]["largest"]] == sorted(weights, reverse=True)[:10]
    assert [value["name"] for value in summary["graph"]["inputs"]] == [value.name for value in model.graph.input]


def nested_model() -> onnx.ModelProto:
    """Make a model with tensors in an attribute, a subgraph, a function, the default of its attribute, a sparse
    initializer and a training graph."""

    def constant(name: str, n: int) -> onnx.NodeProto:
        return helper.make_node("Constant", [], [name], value=helper.make_tensor(name, 1, [n], [0.0] * n))

    branch = helper.make_graph([constant("b", 5)], "branch", [], [])
    values, indices = helper.make_tensor("v", 1, [2], [1.0, 2.0]), helper.make_tensor("i", 7, [2], [0, 1])
    graph = helper.make_graph([constant("a", 3), helper.make_node("If", ["c"], ["d"], then_branch=branch)], "g", [], [])
    graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [9]))
    function = helper.make_function("local", "f", [], ["o"], [constant("o", 7)], [helper.make_opsetid("", 17)])
    default = helper.make_graph([constant("e", 13)], "default", [], [])
    function.attribute_proto.append(helper.make_attribute("branch", default))
    model = helper.make_model(graph, functions=[function])
    model.training_info.add().algorithm.CopyFrom(helper.make_graph([constant("t", 11)], "train", [], []))
    return model


def test_tensors_are_counted_in_all_graphs(tmp_path: Path) -> None:
    path = tmp_path / "nested.onnx"
    path.write_bytes(nested_model().SerializeToString())
    summary = json.loads(run("info", path, "--json").stdout)
    by_type = {row["data_type"]: (row["count"], row["bytes"]) for row in summary["tensors"]["by_data_type"]}
    assert by_type == {"FLOAT": (6, 4 * (3 + 5 + 7 + 13 + 11 + 2)), "INT64": (1, 16)}
    assert summary["nodes"]["count"] == 6
    assert summary["functions"] == [{"domain": "local", "name": "f", "nodes": 1}]


def test_control_characters_of_the_file_are_escaped(tmp_path: Path) -> None:
    path = tmp_path / "evil.onnx"
    graph = helper.make_graph([helper.make_node("\x1b[31mRelu", ["x"], ["y"])], "g\x1b]0;x\x07", [], [])
    path.write_bytes(helper.make_model(graph).SerializeToString())
    for arguments in (["info"], ["info", "--raw"]):
        assert "\x1b" not in run(*arguments, path).stdout


def encode_nested_type(levels: int) -> bytes:
    """Return an encoded TypeProto of `levels` nested sequences."""
    data = b""
    for _ in range(levels):
        data = len_record(1, data)  # elem_type of a sequence
        data = len_record(4, data)  # sequence_type of a type
    return data


HOSTILE_MODELS = {
    # The fields with the numbers 7, 11 and 2 are ModelProto.graph, GraphProto.input and ValueInfoProto.type.
    "3,000 nested sequence types": onnx.ModelProto(
        ir_version=8, graph=onnx.GraphProto(input=[onnx.ValueInfoProto(name="x")])
    ).SerializeToString() + len_record(7, len_record(11, len_record(2, encode_nested_type(3000)))),
    "a shape larger than memory": onnx.ModelProto(
        ir_version=8, graph=onnx.GraphProto(initializer=[onnx.TensorProto(name="w", data_type=1, dims=[1 << 62] * 500)])
    ).SerializeToString(),
    "negative dims": onnx.ModelProto(
        ir_version=8, graph=onnx.GraphProto(initializer=[onnx.TensorProto(name="w", data_type=1, dims=[-5, 3])])
    ).SerializeToString(),
    "an operator set of two versions": onnx.ModelProto(
        ir_version=8, opset_import=[onnx.OperatorSetIdProto(version=v) for v in (13, 17)]
    ).SerializeToString(),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE_MODELS)
def test_info_of_a_hostile_model_prints_less_than_20_000_characters(name: str, tmp_path: Path) -> None:
    path = tmp_path / "hostile.onnx"
    path.write_bytes(HOSTILE_MODELS[name])
    result = run("info", path)
    assert (result.returncode, result.stderr) == (0, "")
    assert len(result.stdout) < 20_000
    json.loads(run("info", path, "--json").stdout)
    assert name != "an operator set of two versions" or "ai.onnx 13, ai.onnx 17" in result.stdout


def test_names_outside_the_encoding_of_stdout_are_escaped(tmp_path: Path) -> None:
    path = tmp_path / "mod\u00e8le.onnx"
    graph = helper.make_graph([helper.make_node("R\u00e9lu", ["x"], ["y"])], "g", [], [])
    path.write_bytes(helper.make_model(graph).SerializeToString())
    for arguments in (["info"], ["info", "--raw"]):
        command = [sys.executable, "-P", "-m", "onnxwire", *arguments, str(path)]
        environment = os.environ | {"PYTHONIOENCODING": "ascii"}
        result = subprocess.run(command, capture_output=True, check=False, env=environment)
        assert (result.returncode, result.stderr) == (0, b"")
        assert b"R\\xe9lu" in result.stdout


# --- --raw


def raw_lines(path: Path, *arguments: str) -> list[str]:
    return run("info", path, "--raw", *arguments).stdout.splitlines()


def test_raw_shows_tags_at_their_offsets() -> None:
    data = DIGITS.read_bytes()
    lines = raw_lines(DIGITS)
    assert any(line.split() == ["0", "1", "ir_version:", "10"] for line in lines)
    offsets = [int(line.split()[0]) for line in lines[1:] if line.split()[0].isdigit()]
    assert offsets == sorted(offsets)
    for line in lines[1:]:
        words = line.split()
        if words[0].isdigit() and int(words[1]) < 16:  # a tag of one byte
            assert data[int(words[0])] >> 3 == int(words[1])


def test_raw_without_a_type_lists_most_of_the_tags() -> None:
    def tags(lines: list[str]) -> set[tuple[str, str]]:
        return {(words[0], words[1].rstrip(":")) for words in map(str.split, lines[1:]) if words[0].isdigit()}

    typed_tags, untyped_tags = tags(raw_lines(DIGITS)), tags(raw_lines(DIGITS, "--type", "none"))
    # Without a table a message that is empty or looks like text can't be distinguished from a string.
    # The fields of such a message are not listed.
    assert untyped_tags <= typed_tags
    assert len(untyped_tags) > len(typed_tags) / 2


def test_raw_prints_a_broken_file_up_to_the_fault(tmp_path: Path) -> None:
    path = tmp_path / "cut.onnx"
    path.write_bytes(DIGITS.read_bytes()[:100_000])
    result = run("info", path, "--raw")
    assert result.returncode == 2
    assert "op_type" in result.stdout
    assert result.stderr.count("\n") == 1
    assert "looks truncated" in result.stderr
    intact_lines = raw_lines(DIGITS)
    shown_lines = result.stdout.splitlines()
    # The same lines as for the whole file, except for the sizes of truncated messages.
    assert [line.split("{")[0] for line in shown_lines[1:]] == [
        line.split("{")[0] for line in intact_lines[1 : len(shown_lines)]
    ]


def test_raw_shows_the_names_of_retired_fields_of_functions(tmp_path: Path) -> None:
    function = onnx.FunctionProto(name="f", output=["y"]).SerializeToString()
    function += varint_record(2, 7) + varint_record(
        3, 1
    )  # since_version = 7, status = STABLE: fields of IR versions 3 to 7
    path = tmp_path / "function.pb"
    path.write_bytes(function)
    text = run("info", path, "--raw", "--type", "FunctionProto").stdout
    assert "2 since_version (retired after IR version 7): 7" in text
    assert "3 status (retired after IR version 7): STABLE" in text
    message = onnxwire.load(path, type=onnxwire.FunctionProto)
    assert message.name == "f"
    assert message.SerializeToString() == function


def test_a_graph_of_the_first_release_is_decoded_and_raw_shows_the_names_of_its_fields(tmp_path: Path) -> None:
    # In v0.1 a file was a GraphProto, whose inputs were names, with its own ir_version.
    node = onnx.NodeProto(op_type="Relu", input=["x"], output=["y"]).SerializeToString()
    data = len_record(1, node) + len_record(2, b"g") + len_record(3, b"x") + len_record(4, b"y")
    data += varint_record(6, 1) + varint_record(7, 2) + len_record(8, b"tag") + len_record(9, b"dom")
    path = tmp_path / "first.onnx"
    path.write_bytes(data)
    text = run("info", path, "--raw").stdout
    assert "as onnx.GraphProto" in text
    for line in (
        '3 input (retired after IR version 1): "x"',
        '4 output (retired after IR version 1): "y"',
        "6 ir_version (retired after IR version 1): 1",
        "7 producer_version (retired after IR version 1): 2",
        '8 producer_tag (retired after IR version 1): "tag"',
        '9 domain (retired after IR version 1): "dom"',
    ):
        assert line in text
    graph = onnxwire.load(path, type=onnxwire.GraphProto)
    assert graph.node[0].op_type == "Relu"
    assert graph.SerializeToString() == data
    assert graph == onnxwire.GraphProto.FromString(data)


# 0x4b begins the group of field 9, and 0x4c ends it. 0x3a is the tag of the graph, and 0x0a that of a node in it.
# b"\x12\x01a" is field 2 with the string "a".
HOSTILE_BYTES = {
    "3,000 groups that do not end": b"\x4b" * 3000,
    "60 nested groups": b"\x4b" * 60 + b"\x4c" * 60,
    "field number 0 in a group": b"\x4b\x00\x0b\x4c",
    "the end of a group that did not begin": b"\x4c\x12\x01a",
    "the end of another group": b"\x4b\x54\x12\x01a",
    "a group that does not end": b"\x4b\x12\x01a",
    "a group that is cut off by the end of its message": b"\x3a\x03\x4b\x12\x09",
    "three nested values that exceed the file": b"\x3a\x7f\x0a\x7f\x0a\x7f",
    "a node that exceeds its graph": b"\x3a\x02\x0a\x7f",
    "a varint of more than ten bytes": b"\xff" * 40,
    "wire type 6": b"\x0e\x01",
    "a tag without a value": b"\x08",
    "a length of 2**63 - 1": b"\x3a\xff\xff\xff\xff\xff\xff\xff\xff\x7f",
}


@pytest.mark.parametrize("name", HOSTILE_BYTES)
def test_raw_reports_a_fault_of_hostile_bytes_in_one_line(name: str, tmp_path: Path) -> None:
    path = tmp_path / "hostile"
    path.write_bytes(varint_record(1, 1) + HOSTILE_BYTES[name])  # after an ir_version
    for type_name in ("ModelProto", "none"):
        result = run("info", path, "--raw", "--type", type_name)
        assert result.stderr.count("\n") == (1 if result.returncode else 0)
        assert "Traceback" not in result.stderr
        assert len(result.stdout) < 50_000
        if type_name == "ModelProto":
            with contextlib.suppress(onnxwire.DecodeError):
                onnxwire.verify(path)
                assert result.returncode == 0
            if result.returncode:
                with pytest.raises(onnxwire.DecodeError) as excinfo:
                    onnxwire.verify(path)
                assert f"byte {excinfo.value.offset:,}" in result.stderr


# --- errors and exit statuses


def test_errors_are_one_line_on_stderr_and_status_2(tmp_path: Path) -> None:
    (tmp_path / "t.pb").write_bytes(helper.make_tensor("t", 1, [2], [1, 2]).SerializeToString())
    (tmp_path / "new\nline.onnx").write_bytes(b"PK\x03\x04")  # the start of a zip file
    for path in (tmp_path / "absent", tmp_path, tmp_path / "t.pb", tmp_path / "new\nline.onnx"):
        result = run("info", path)
        assert result.returncode == 2
        assert result.stdout == ""
        assert result.stderr.startswith("onnxwire: ")
        assert result.stderr.count("\n") == 1


def test_a_command_ends_quietly_if_the_reader_of_its_output_closes_the_pipe() -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    result = run("info", DIGITS, "--raw", stdout=write_end)
    os.close(write_end)
    assert result.stderr == ""


def test_main_changes_the_garbage_collection_only_if_it_reads_sys_argv() -> None:
    before = gc.get_threshold(), gc.get_freeze_count()
    assert main(["--version"]) == 0
    assert (gc.get_threshold(), gc.get_freeze_count()) == before
    code = """import gc, sys
from onnxwire.cli import main
sys.argv[1:] = ["--version"]
before = gc.get_threshold()[0]
assert main() == 0
assert gc.get_threshold()[0] > before and gc.get_freeze_count() > 1000
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert result.stdout.decode().split() == ["onnxwire", onnxwire.__version__]


def test_help_and_version_are_printed() -> None:
    result = run()
    assert "onnxwire info model.onnx" in result.stdout
    assert "examples:" in run("info", "--help").stdout
    assert run("--version").stdout.startswith("onnxwire 0.")


def test_info_reads_a_pipe() -> None:
    command = [sys.executable, "-P", "-m", "onnxwire", "info", "/dev/stdin"]
    if not Path("/dev/stdin").exists():
        pytest.skip("needs /dev/stdin")
    result = subprocess.run(command, input=FOREST.read_bytes(), capture_output=True, check=False, cwd=ROOT)
    assert b"TreeEnsembleClassifier" in result.stdout


def test_help_lists_each_command_on_its_own_line_and_the_exit_statuses() -> None:
    result = run("--help")
    assert result.returncode == 0
    lines = result.stdout.splitlines()
    for name, summary in SUMMARIES.items():
        assert f"  {name:<{NAME_COLUMN_CHARS}}{summary}" in lines
    assert max(map(len, lines)) <= 100
    for status in ("0    success", "1    a negative result", "2    error", "130  interrupted by Ctrl-C"):
        assert f"\n  {status}" in result.stdout


@pytest.mark.parametrize("command", SUMMARIES)
def test_every_command_has_examples_and_reports_a_wrong_option_in_one_line(command: str) -> None:
    result = run(command, "--help")
    assert result.returncode == 0
    assert f"usage: onnxwire {command}" in result.stdout and "examples:" in result.stdout
    for arguments in (["--no-such-option"], ["x", "y", "-o", "z", "--no-such-option"]):
        result = run(command, *arguments)
        assert (result.returncode, result.stdout) == (2, "")
        assert result.stderr.startswith("onnxwire: ") and result.stderr.count("\n") == 1
        assert f"`onnxwire {command} --help`" in result.stderr


# The arguments of each command for an absent model; by default only the name of the model.
ARGUMENTS_OF_ABSENT_FILE = {
    "catalog": ["absent.onnx", "-o", "catalog"],
    "convert-version": ["absent.onnx", "21", "-i"],
    "diff": ["absent.onnx", "absent.onnx"],
    "git": ["textconv", "absent.onnx"],
    "infer": ["absent.onnx", "-i"],
    "set": ["absent.onnx", "doc_string=x", "-i"],
    "sql": ["absent.onnx", "from nodes"],
    "rename": ["absent.onnx", "x", "y", "-i"],
    "rm": ["absent.onnx", "doc_string", "-i"],
    "extract": ["absent.onnx", "--outputs", "y", "-o", "out.onnx"],
    "pack": ["absent.onnx", "-o", "out.onnx"],
    "unpack": ["absent.onnx", "-o", "out.onnx"],
}


@pytest.mark.parametrize("command", [name for name in SUMMARIES if name != "completion"])
def test_every_command_that_reads_a_file_reports_an_absent_file_in_one_line(command: str) -> None:
    result = run(command, *ARGUMENTS_OF_ABSENT_FILE.get(command, ["absent.onnx"]))
    assert (result.returncode, result.stderr.count("\n")) == (2, 1)
    assert result.stderr.startswith("onnxwire: absent.onnx: No such file or directory")


@pytest.mark.parametrize(
    "arguments",
    [
        ["show", DIGITS, "graph.nodes"],
        ["show", DIGITS, "tensor:absent"],
        ["set", DIGITS, "graph.nodes=1", "-o", "-"],
        ["rm", DIGITS, "node:absent", "-o", "-"],
        ["rename", DIGITS, "absent", "x", "-o", "-"],
        ["extract", DIGITS, "--outputs", "absent", "-o", "-"],
        ["extract", DIGITS, "--tensor", "absent", "-o", "-"],
        ["ls", DIGITS, "--filter", "size>1"],
        ["ls", DIGITS, "--sort", "size"],
    ],
)
def test_an_absent_element_or_key_is_reported_in_one_line(arguments: list[object]) -> None:
    result = run(*arguments)
    assert (result.returncode, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert result.stderr.startswith("onnxwire: ")


MIB = 1 << 20
ADDRESS = "https://user:{}@127.0.0.1:1/x?sig={}"  # with a password and a signature; no server listens on port 1


@pytest.mark.parametrize("secret", ["SECRET", "SEC/RET", "SEC@RET", "SEC:RET", "S?SEC#RET", "SEC'RET"])
@pytest.mark.parametrize(
    "words",
    [
        ["catalog", "examples", "-o", "ADDRESS"],
        ["stats", DIGITS, "--csv", "-o", "ADDRESS"],
        ["stats", DIGITS, "--parquet", "ADDRESS"],
        ["stats", DIGITS, "--external-root", "ADDRESS"],
        ["dump", DIGITS, "-o", "ADDRESS"],
        ["encode", "ADDRESS"],
        ["check", DIGITS, "--operators", "ADDRESS"],
        ["sql", DIGITS, "select 1", "-o", "ADDRESS"],
        ["sql", DIGITS, "select 1", "-o", "ADDRESS.parquet"],
        ["info", DIGITS, "ADDRESS"],
        ["info", "ADDRESS"],
        ["stats", DIGITS, "--bins=ADDRESS"],
        ["check", DIGITS, "--type", "ADDRESS"],
        ["ADDRESS"],
    ],
)
def test_no_error_shows_the_credentials_of_an_address(words: list[object], secret: str, capsys) -> None:
    """An address with a password and a signature is in place of a command, a path or the value of an option."""
    address = ADDRESS.format(secret, secret)
    with contextlib.suppress(SystemExit):
        main([str(word).replace("ADDRESS", address) for word in words])
    result = capsys.readouterr()
    assert "onnxwire: " in result.err
    assert not {"SEC", "RET", "user"} & set(re.findall("SEC|RET|user", result.out + result.err))


@pytest.mark.parametrize(
    ("line", "sanitized_line"),
    [
        ("'https://u:p@h/x': no", "'https://h/x': no"),
        ("/w/https:/u:p@h/x: no; https://h/x?s=1, https://[::1]", "/w/https://h/x: no; https://h/x, https://[::1]"),
        ("https://a/x,https://u:p@h/x 1http://u:p@h/x", "https://... 1http://h/x"),
        pytest.param("a" * MIB + " a://" + "[" * MIB, "a" * MIB + " a://" + "[" * MIB, id="no address, long"),
        pytest.param("a" * MIB + " ab://" + "[" * MIB, "a" * MIB + " ab://...", id="long"),
        ("s3://bucket/m.onnx, c:/a@b m.onnx:/d/e x://", "s3://bucket/m.onnx, c:/a@b m.onnx:/d/e x://"),
    ],
)
def test_an_error_shows_an_address_without_credentials(line: str, sanitized_line: str) -> None:
    assert without_credentials(line) == sanitized_line


def test_the_error_for_an_unknown_command_suggests_the_nearest() -> None:
    result = run("inof", DIGITS)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == "onnxwire: there is no command 'inof'; did you mean 'info'? see `onnxwire --help`\n"


def test_ctrl_c_ends_quietly_with_status_130(monkeypatch, capsys) -> None:
    def interrupt(options: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("onnxwire.cli.cmd_info.run", interrupt)
    assert main(["info", str(DIGITS)]) == 130
    assert capsys.readouterr() == ("", "")


def test_long_values_of_metadata_are_cut_in_the_summary(tmp_path: Path, capsys) -> None:
    model = onnxwire.ModelProto(ir_version=8, doc_string="d" * 1000)
    model.metadata_props.add(key="names", value="v" * 32_888)
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    assert main(["info", str(tmp_path / "m.onnx")]) == 0
    out = capsys.readouterr().out
    assert f"  names = {'v' * 200}… (32,888 characters)\n  (`onnxwire meta FILE KEY` prints a whole value)\n" in out
    assert f"{'d' * 200}… (1,000 characters)\n" in out
    assert main(["info", str(tmp_path / "m.onnx"), "--json"]) == 0
    assert "v" * 32_888 in capsys.readouterr().out


def test_a_heading_of_the_summary_is_bold_with_color_always(capsys) -> None:
    pytest.importorskip("rich")
    assert main(["info", str(DIGITS), "--color", "always"]) == 0
    assert "\x1b[1mnodes (17)\x1b[0m" in capsys.readouterr().out
