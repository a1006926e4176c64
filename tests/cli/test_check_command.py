"""`onnxwire check` reports the problems of `onnxwire.check` to people, programs and CI systems."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import forked_commands
import pytest
from check_case import OPSET, model, node, value
from terminal import run_on_terminal

import onnxwire
from onnxwire.checker.limits import MAX_PROBLEMS_PER_RULE
from onnxwire.checker.registry import checked, rules, unchecked
from onnxwire.checker.sarif import uri_of
from onnxwire.cli import main

ROOT = Path(__file__).parents[2]
# A model whose only problems are two notes about missing denotations. MODEL_WITH_NOTE has a third note.
VALID_MODEL = (
    f'ir_version: 10 {OPSET} producer_name: "p" producer_version: "1" domain: "com.example" '
    f'graph {{ name: "g" doc_string: "d" input {{ {value("x")} }} {node("x", "y")} output {{ {value("y")} }} }}'
)
MODEL_WITH_WARNING = VALID_MODEL.replace("output {", f"value_info {{ {value('gone')} }} output {{")
MODEL_WITH_NOTE = VALID_MODEL.replace('domain: "com.example"', "")
BROKEN_MODEL = MODEL_WITH_WARNING.replace('input: "x"', 'input: "lost"')


def write(path, text, type=onnxwire.ModelProto):
    """Write a message, given in text format, as a binary file; return the path."""
    path.write_bytes(onnxwire.from_text(text, type).SerializeToString())
    return path


@pytest.fixture
def broken_path(tmp_path):
    """Return the path of a model with an error and a warning."""
    return write(tmp_path / "broken.onnx", BROKEN_MODEL)


def check(*arguments, stdin=b"", cwd=None, environment=None):
    """Run the command in a process; return the completed process. environment: additional variables."""
    environment = {**os.environ, **(environment or {})}
    return forked_commands.run("check", *arguments, input=stdin, cwd=cwd, env=environment)


def check_on_terminal(*arguments, environment=None):
    """Run the command with a terminal as stdout; return its output and exit status."""
    environment = {"NO_COLOR": "", **(environment or {})}
    status, output = run_on_terminal("check", *arguments, stream="stdout", cwd=ROOT, environment=environment)
    return output.decode().replace("\r\n", "\n"), status


# --- the report


def test_a_problem_in_a_pipe_is_a_line_with_file_severity_location_fault_and_rule(broken_path):
    result = check(broken_path)
    assert (result.returncode, result.stderr) == (1, b"")
    lines = result.stdout.decode().splitlines()
    (error,) = onnxwire.check(broken_path, select="error")
    assert lines[0] == f"{broken_path}: error: {error}"
    assert error.path == "graph.node[0].input[0]" and "lost" in lines[0] and f"byte {error.offset}" in lines[0]
    severities = [line.removeprefix(f"{broken_path}: ").partition(":")[0] for line in lines[:2]]
    assert severities == ["error", "warning"] and len(lines) == 3
    assert re.fullmatch(r".*: \d notes; --select note lists them", lines[2])
    assert "\x1b" not in result.stdout.decode()


def test_a_valid_file_prints_nothing_in_a_pipe(tmp_path):
    result = check(write(tmp_path / "m.onnx", VALID_MODEL))
    assert (result.returncode, result.stdout, result.stderr) == (0, b"", b"")


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_a_valid_file_is_one_line_on_a_terminal(tmp_path):
    valid_path, path_with_note = (
        write(tmp_path / "valid.onnx", VALID_MODEL),
        write(tmp_path / "note.onnx", MODEL_WITH_NOTE),
    )
    output, status = check_on_terminal(valid_path, "--ignore", "note", "--color", "never")
    assert status == 0
    assert re.fullmatch(rf"{valid_path}: no problem: \d+ rules, 1 node, 0 tensors, \d+\.\d\d s\n", output)
    output, status = check_on_terminal(path_with_note, "--color", "never")
    assert status == 0
    assert re.fullmatch(rf"{path_with_note}: no problem: .* s; \d notes; --select note lists them\n", output)


@pytest.mark.parametrize("options", [["--strict"], ["--select", "error,warning,note"]])
def test_notes_are_listed_on_request(tmp_path, options):
    path = write(tmp_path / "m.onnx", MODEL_WITH_NOTE)
    lines = check(path, *options).stdout.decode().splitlines()
    # The two notes of one rule are on one line.
    assert len(lines) == 2 and all(line.startswith(f"{path}: note: ") for line in lines)


def test_a_valid_model_of_an_exporter_prints_nothing():
    for path in ("examples/digits_cnn.onnx", "examples/iris_forest.onnx"):
        assert check(path, cwd=ROOT).stdout == b""


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_a_terminal_shows_groups_under_headings_in_color(broken_path):
    output, status = check_on_terminal(broken_path, broken_path.parent / "*.onnx", "examples/digits_cnn.onnx")
    assert status == 1
    lines = output.splitlines()
    assert lines[0].startswith(f"\x1b[1m{broken_path}\x1b[0m: \x1b[31m1 error\x1b[0m, \x1b[33m")
    assert lines[1] == "\x1b[1;31merrors\x1b[0m"
    assert lines[2].startswith("  byte ") and lines[2].endswith("\x1b[2m[graph-node-input-defined]\x1b[0m")
    assert lines[-1].startswith("\x1b[1m2 files\x1b[0m: \x1b[31m1 error\x1b[0m")


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
@pytest.mark.parametrize("color_variables", [{"NO_COLOR": "1"}, {"TERM": "dumb"}, {}])
def test_color_can_be_switched_off(broken_path, color_variables):
    output, _ = check_on_terminal(
        broken_path, *([] if color_variables else ["--color", "never"]), environment=color_variables
    )
    assert "errors\n" in output and "\x1b" not in output


def test_color_can_be_forced_in_a_pipe(broken_path):
    assert (
        b": \x1b[31merror\x1b[0m: byte" in check(broken_path, "--color", "always", environment={"NO_COLOR": "1"}).stdout
    )


def test_only_the_first_10_problems_of_a_rule_are_printed_unless_verbose(tmp_path):
    path = write(tmp_path / "m.onnx", model(node(" ".join(f"lost{i}" for i in range(25)), "y")))
    short_report, full_report = check(path).stdout.decode(), check(path, "-v").stdout.decode()
    assert short_report.count("[graph-node-input-defined]") == 10
    assert "[graph-node-input-defined] and 15 more (-v prints more)" in short_report
    assert full_report.count("[graph-node-input-defined]") == 25 and "more" not in full_report


def test_problems_beyond_the_limit_are_counted(tmp_path):
    path = write(tmp_path / "m.onnx", model(node(" ".join(f"lost{i}" for i in range(25)), "y")))
    options = ["--select", "graph-node-input-defined"]
    text = check(path, "-v", "--limit", "20", *options).stdout.decode()
    assert text.count("lost") == 20 and text.endswith("[graph-node-input-defined] and 5 more (--limit prints more)\n")
    text = check(path, "--limit", "20", *options).stdout.decode()
    assert text.count("lost") == 10 and " and 15 more " in text
    (report,) = json.loads(check(path, "--limit", "20", "--json", *options).stdout)
    assert len(report["problems"]) == 20 and report["omitted"] == {"graph-node-input-defined": 5}
    log, _ = sarif(path, "--limit", "20", *options)
    assert log["runs"][0]["properties"] == {"omitted": {path.as_uri(): {"graph-node-input-defined": 5}}}
    assert "omitted" not in json.loads(check(path, "--limit", "0", "--json", *options).stdout)[0]
    assert "10,000" in check("--help").stdout.decode() and MAX_PROBLEMS_PER_RULE == 10_000


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_verbose_prints_the_rule_and_its_source(broken_path):
    output, _ = check_on_terminal(broken_path, "-v", "--color", "never")
    rule = rules()["graph-node-input-defined"]
    assert f"{rule.id}: {rule.text} ({rule.source})" in output.replace("\n", "")


def test_control_characters_of_file_names_and_operators_are_escaped(tmp_path):
    path = write(tmp_path / "a\x1b[2Jb\n.onnx", model(node("\\033[31mred", "y")))
    lines = check(path, "--select", "error").stdout.decode().splitlines()
    assert len(lines) == 1 and "\x1b" not in lines[0] and "a\\x1b[2Jb\\n.onnx: error" in lines[0]


# --- selection of files and rules, and the exit status


def test_patterns_name_files_and_each_file_is_checked_once(tmp_path):
    (tmp_path / "deep" / "er").mkdir(parents=True)
    for name in ("b.onnx", "a.onnx", "deep/er/c.onnx", "[x].onnx"):
        write(tmp_path / name, VALID_MODEL)

    def checked_files(*words):
        return [entry["file"] for entry in json.loads(check(*words, "--json", cwd=tmp_path).stdout)]

    assert checked_files("?.onnx", "a.onnx") == ["a.onnx", "b.onnx"]
    assert checked_files("**/*.onnx") == ["[x].onnx", "a.onnx", "b.onnx", os.path.join("deep", "er", "c.onnx")]
    assert checked_files("[x].onnx") == ["[x].onnx"]


def test_fail_on_sets_the_lowest_severity_that_causes_exit_status_1(tmp_path, broken_path):
    path_with_warning, valid_path = (
        write(tmp_path / "warning.onnx", MODEL_WITH_WARNING),
        write(tmp_path / "valid.onnx", VALID_MODEL),
    )
    assert main(["check", str(path_with_warning)]) == 0
    assert main(["check", str(path_with_warning), "--fail-on", "warning"]) == 1
    assert main(["check", str(valid_path), "--fail-on", "warning"]) == 0
    assert main(["check", str(valid_path), "--fail-on", "note"]) == 1
    assert main(["check", str(broken_path)]) == 1
    assert main(["check", str(broken_path), "--ignore", "error"]) == 0
    assert main(["check", str(valid_path), str(broken_path)]) == 1


def test_an_unreadable_file_is_reported_in_one_line_and_the_others_are_checked(tmp_path, broken_path):
    damaged_path = tmp_path / "dam\naged.onnx"
    damaged_path.write_bytes(broken_path.read_bytes()[:-3])
    result = check(tmp_path / "absent.onnx", damaged_path, tmp_path, broken_path)
    assert result.returncode == 2
    lines = result.stderr.decode().splitlines()
    assert len(lines) == 3 and all(line.startswith(f"onnxwire: {tmp_path}") for line in lines)
    assert "absent.onnx: No such file" in lines[0] and "dam\\naged.onnx: byte" in lines[1] and "irectory" in lines[2]
    assert f"{broken_path}: error" in result.stdout.decode()


def test_quiet_prints_no_problems_but_reports_an_absent_file(tmp_path, broken_path):
    result = check(broken_path, "-q")
    assert (result.returncode, result.stdout, result.stderr) == (1, b"", b"")
    result = check(tmp_path / "absent.onnx", "-q")
    assert (result.returncode, result.stdout) == (2, b"") and result.stderr.count(b"\n") == 1


def test_rules_are_selected_and_ignored_by_comma_lists_and_repeated_options(tmp_path):
    path = write(tmp_path / "m.onnx", MODEL_WITH_WARNING.replace(OPSET, f"{OPSET} {OPSET}"))

    def problem_rules(*options):
        (report,) = json.loads(check(path, "--json", *options).stdout)
        return {problem["rule"] for problem in report["problems"]}

    rule_ids = {"graph-value-info-known-name", "opset-import-duplicate-entry"}
    assert problem_rules("--select", "warning") == problem_rules("--select", ", ".join(rule_ids)) == rule_ids
    assert (
        problem_rules("--select", "graph-value-info-known-name", "--select", "opset-import-duplicate-entry") == rule_ids
    )
    assert problem_rules("--select", "warning", "--ignore", "opset-import-duplicate-entry") == {
        "graph-value-info-known-name"
    }


def test_an_unknown_rule_is_rejected_before_anything_is_printed(broken_path):
    for form in ("--json", "--sarif", "-v"):
        result = check(broken_path, "--select", "graph-name-presnt", form)
        assert (result.returncode, result.stdout) == (2, b"")
        assert (
            result.stderr
            == b"onnxwire: there is no rule or severity 'graph-name-presnt'; did you mean 'graph-name-present'?\n"
        )


def test_stdin_is_checked(broken_path):
    result = check("-", "--select", "error", stdin=broken_path.read_bytes())
    assert result.returncode == 1 and result.stdout.startswith(b"-: error: byte ")


def test_options_set_the_message_type_and_the_ir_version(tmp_path):
    path = write(tmp_path / "graph.pb", 'node { op_type: "A" input: "lost" output: "y" }', onnxwire.GraphProto)
    result = check(path, "--type", "GraphProto", "--select", "graph-node-input-defined")
    assert result.returncode == 1 and b": node[0].input[0]: " in result.stdout
    path = write(tmp_path / "m.onnx", model(fields='functions { name: "f" }'))
    options = ["--select", "model-functions-before-ir8"]
    assert main(["check", str(path), *options]) == 0
    assert main(["check", str(path), *options, "--ir-version", "7"]) == 1


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ([], b"name a file"),
        (["a.onnx", "-o", "b.onnx"], b"require --fix"),
        (["a.onnx", "--dry-run"], b"require --fix"),
        (["a.onnx", "--limit", "-1"], b"0 or more"),
        (["a.onnx", "--ir-version", "0"], b"1 or more"),
        (["a.onnx", "--ir-version", "-5"], b"1 or more"),
        (["a.onnx", "b.onnx", "--fix", "-o", "c.onnx"], b"several"),
        (["-", "--fix"], b"--fix with stdin needs -o"),
        (["a.onnx", "--json", "--sarif"], b"not allowed with"),
    ],
)
def test_missing_wrong_or_contradictory_options_are_rejected(arguments, reason):
    result = check(*arguments)
    assert result.returncode == 2 and reason in result.stderr and result.stdout == b""


def test_a_closed_pipe_is_not_an_error(tmp_path):
    path = write(tmp_path / "m.onnx", model(node(" ".join(f"lost{i}" for i in range(9000)), "y")))
    read_end, write_end = os.pipe()
    os.close(read_end)
    command = [sys.executable, "-m", "onnxwire", "check", "-v", str(path)]
    result = subprocess.run(command, stdout=write_end, stderr=subprocess.PIPE, check=False, cwd=ROOT)
    os.close(write_end)
    assert (result.returncode, result.stderr) == (0, b"")


# --- JSON and SARIF


def test_json_has_the_results_of_the_library(tmp_path, broken_path):
    result = check(broken_path, tmp_path / "absent.onnx", "--json")
    report, fault = json.loads(result.stdout)
    fields = ("rule", "severity", "path", "offset", "message")
    problems = onnxwire.check(broken_path)
    assert report == {
        "file": str(broken_path),
        "problems": [{field: getattr(problem, field) for field in fields} for problem in problems],
    }
    assert fault["file"] == str(tmp_path / "absent.onnx") and "No such file" in fault["error"]
    assert result.returncode == 2


def sarif(*arguments, **options):
    """Run `check --sarif` and check the log; return the log and the completed process."""
    process = check(*arguments, "--sarif", **options)
    log = json.loads(process.stdout)
    check_log(log, "--untrusted" in arguments)
    return log, process


def check_log(log, untrusted=False):
    """Assert some requirements of SARIF 2.1.0, and that the log lists the checked rules."""
    assert log["version"] == "2.1.0" and log["$schema"].endswith("sarif-2.1.0.json")
    (run,) = log["runs"]
    driver = run["tool"]["driver"]
    assert driver["name"] == "onnxwire" and driver["version"] == onnxwire.__version__
    ids = [rule["id"] for rule in driver["rules"]]
    assert len(set(ids)) == len(ids) and set(ids) == checked(untrusted)
    for rule in driver["rules"]:
        definition = rules(untrusted)[rule["id"]]
        assert rule["shortDescription"]["text"] and rule["defaultConfiguration"]["level"] == definition.severity
        assert rule["properties"].get("weaknesses", []) == list(definition.weaknesses)
    for result in run["results"]:
        assert result.keys() == {"ruleId", "ruleIndex", "level", "message", "locations"}
        assert ids[result["ruleIndex"]] == result["ruleId"]
        assert result["level"] in ("error", "warning", "note") and result["message"]["text"]
        (location,) = result["locations"]
        assert location.keys() <= {"physicalLocation", "logicalLocations"}
        assert location["physicalLocation"]["artifactLocation"]["uri"]
        assert location["physicalLocation"].get("region", {"byteOffset": 0})["byteOffset"] >= 0
    (invocation,) = run["invocations"]
    assert invocation["executionSuccessful"] == ("toolExecutionNotifications" not in invocation)


def test_sarif_has_one_result_with_location_per_problem(broken_path):
    log, process = sarif(broken_path.name, cwd=broken_path.parent)
    assert (process.returncode, process.stderr) == (1, b"")
    results = log["runs"][0]["results"]
    problems = onnxwire.check(broken_path)
    assert [(result["ruleId"], result["level"], result["message"]["text"]) for result in results] == [
        (problem.rule, problem.severity, problem.message) for problem in problems
    ]
    assert results[0]["locations"] == [
        {
            "physicalLocation": {
                "artifactLocation": {"uri": "broken.onnx"},
                "region": {"byteOffset": problems[0].offset},
            },
            "logicalLocations": [{"fullyQualifiedName": "graph.node[0].input[0]"}],
        }
    ]


def test_sarif_of_an_untrusted_model_names_weaknesses(tmp_path):
    path = write(tmp_path / "twice.onnx", model())
    path.write_bytes(path.read_bytes() + b"\x08\x09")  # a second ir_version
    log, process = sarif(path, "--untrusted", "--select", "security")
    assert process.returncode == 1
    (result,) = log["runs"][0]["results"]
    rule = log["runs"][0]["tool"]["driver"]["rules"][result["ruleIndex"]]
    assert (rule["id"], rule["properties"]["tags"]) == (
        "security-wire-field-repeated",
        ["security", "external/cwe/cwe-436"],
    )
    assert rule["help"]["text"] and check(path, "--select", "error").returncode == 0


def test_sarif_of_several_files_is_one_run_with_the_failures(tmp_path, broken_path):
    log, process = sarif(
        broken_path, tmp_path / "absent.onnx", write(tmp_path / "b.onnx", BROKEN_MODEL), "--select", "error"
    )
    assert process.returncode == 2
    results = log["runs"][0]["results"]
    assert [result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for result in results] == [
        broken_path.as_uri(),
        (tmp_path / "b.onnx").as_uri(),
    ]
    (invocation,) = log["runs"][0]["invocations"]
    assert not invocation["executionSuccessful"]
    (notification,) = invocation["toolExecutionNotifications"]
    assert notification["level"] == "error" and "No such file" in notification["message"]["text"]


def test_sarif_without_a_problem_has_no_results(tmp_path):
    log, _ = sarif(write(tmp_path / "m.onnx", VALID_MODEL), "--select", "error")
    assert log["runs"][0]["results"] == []


def test_uris_are_relative_for_relative_paths_and_quoted():
    assert uri_of("models/a b#1.onnx") == "models/a%20b%231.onnx"
    assert uri_of("c:d.onnx") == "c%3Ad.onnx"
    assert uri_of("https://host:8000/a b%23/m.onnx") == "https://host:8000/a%20b%23/m.onnx"
    assert uri_of(os.path.abspath("é.onnx")).startswith("file:///")


def test_all_rules_are_listed_including_those_that_are_not_checked():
    result = check("--rules")
    assert (result.returncode, result.stderr) == (0, b"")
    text = result.stdout.decode()
    for id in checked():
        assert f"  {id} " in text
    for id, reason in unchecked().items():
        assert id in text and reason in text
    entries = {entry["id"]: entry for entry in json.loads(check("--rules", "--json").stdout)}
    assert entries.keys() == rules().keys()
    assert {id for id, entry in entries.items() if entry["unchecked"]} == unchecked().keys()
    assert entries["attribute-type-present"]["fix"] and not entries["graph-acyclic"]["fix"]
    listing = check("--rules", "--select", "graph-acyclic").stdout.decode()
    assert listing.splitlines()[0] == "graph" and len(listing.splitlines()) == 2


def test_help_shows_examples(capsys):
    with pytest.raises(SystemExit) as excinfo:
        main(["check", "--help"])
    assert excinfo.value.code == 0
    assert "onnxwire check model.onnx --sarif > onnx.sarif" in capsys.readouterr().out


def test_the_operators_option_reads_a_table_of_operators(tmp_path):
    domain = f'{OPSET} opset_import {{ domain: "com.example" version: 1 }}'
    path = write(
        tmp_path / "m.onnx", VALID_MODEL.replace(OPSET, domain).replace('"Relu"', '"Fuse" domain: "com.example"')
    )
    table = tmp_path / "operators.tsv"  # domain, operator, version, inputs, outputs, attributes, types
    table.write_text("com.example\tFuse\t1\tX:T Y:T\tZ:T\t\tT=float\n")
    assert check(path).returncode == 0
    result = check(path, "--operators", table)
    assert (
        result.returncode == 1
        and b"'Fuse' has 1 input, and in version 1 of com.example it accepts 2 inputs" in result.stdout
    )
    table.write_text("com.example\tFuse\tone\n")
    result = check(path, "--operators", table)
    assert result.returncode == 2 and result.stderr.startswith(f"onnxwire: {table}: line 1: ".encode())


def test_checksums_are_compared_on_request(tmp_path, capsys):
    model = onnxwire.load(ROOT / "examples" / "digits_cnn.onnx")
    onnxwire.save(model, tmp_path / "m.onnx", external="m.data", checksum=True)
    data = bytearray((tmp_path / "m.data").read_bytes())
    data[0] ^= 1
    (tmp_path / "m.data").write_bytes(data)
    assert main(["check", str(tmp_path / "m.onnx")]) == 0
    assert "external-checksum-match" not in capsys.readouterr().out
    assert main(["check", str(tmp_path / "m.onnx"), "--checksums"]) == 1
    assert "external-checksum-match" in capsys.readouterr().out
