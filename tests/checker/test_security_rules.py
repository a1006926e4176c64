"""Tests of the rules for untrusted models: when they run, false positives, documentation, and single rules."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import onnx
import pytest
from check_case import graph_attribute, model, node
from each import each

import onnxwire
from onnxwire.checker.facts import Facts
from onnxwire.checker.registry import SECURITY_MODULES, rules
from onnxwire.checker.wire_records import REPEATED, WireRecords
from onnxwire.cli import main
from onnxwire.engine.document import Document

ROOT = Path(__file__).parents[2]
SECURITY_RULES = [rule for rule in rules(untrusted=True).values() if rule.scope == "security"]
BUNDLED_FILES = sorted((Path(onnx.__file__).parent / "backend" / "test" / "data").rglob("*.onnx"))
BUNDLED_FILES += sorted((ROOT / "examples").glob("*.onnx"))
DUPLICATE_IR_VERSION = onnxwire.from_text(model()).SerializeToString() + b"\x08\x09"  # a second ir_version


def _severities(path):
    """Return the severities of the security problems of a file."""
    return {problem.severity for problem in onnxwire.check(path, untrusted=True, select="security")}


@each("path", BUNDLED_FILES, ids=str)
def test_a_trustworthy_model_has_no_security_error(path):
    assert "error" not in _severities(path)


def test_at_most_one_trustworthy_model_in_ten_has_a_security_warning():
    paths_with_warning = [path for path in BUNDLED_FILES if "warning" in _severities(path)]
    assert len(paths_with_warning) * 10 <= len(BUNDLED_FILES), paths_with_warning


def test_security_rules_run_for_untrusted_models_only():
    assert "security" not in str(onnxwire.check(DUPLICATE_IR_VERSION))
    problems = onnxwire.check(DUPLICATE_IR_VERSION, untrusted=True)
    # The other rules run, too: the model has no producer_name.
    assert {"security-wire-field-repeated", "model-producer-present"} <= {problem.rule for problem in problems}


def test_similar_names_of_function_inputs_are_reported():
    function = 'functions { name: "f" domain: "a.b" input: "bias_l" input: "bias_I" }'
    data = onnxwire.from_text(model(fields=function)).SerializeToString()
    (problem,) = onnxwire.check(data, untrusted=True, select="security-name-similar")
    assert problem.path == "functions[0].input[1]" and "'bias_I' looks like 'bias_l'" in problem.message


@pytest.mark.parametrize("word", ["security", "security-wire-group"])
def test_selecting_a_security_rule_needs_untrusted_true(word):
    with pytest.raises(ValueError, match="untrusted=True"):
        onnxwire.check(DUPLICATE_IR_VERSION, select=word)


def test_a_check_of_a_trusted_model_imports_no_security_module():
    code = (
        "import sys, onnxwire; onnxwire.check(sys.argv[1]); names = {*sys.modules}\n"
        "onnxwire.check(sys.argv[1], untrusted=True); print(*({*sys.modules} - names), '|', *names)"
    )
    command = [sys.executable, "-c", code, str(ROOT / "examples" / "digits_cnn.onnx")]
    added_modules, _, modules_before = subprocess.run(
        command, capture_output=True, text=True, check=True
    ).stdout.partition("|")
    modules = {f"onnxwire.checker.rules.{name}" for name in SECURITY_MODULES} | {"onnxwire.checker._wire_audit"}
    assert modules <= set(added_modules.split()) and not modules & set(modules_before.split())


@each("rule", SECURITY_RULES, ids=lambda rule: rule.id)
def test_each_rule_names_its_weakness_and_explains_the_attack(rule):
    assert rule.id.startswith("security-") and rule.severity in ("error", "warning", "note")
    assert any(name.startswith("CWE-") for name in rule.weaknesses)
    assert all(name.startswith(("CWE-", "CVE-")) for name in rule.weaknesses)
    assert rule.text.endswith(".") and rule.explanation.endswith(".") and rule.source


def test_the_page_about_untrusted_models_lists_the_security_rules():
    spec = importlib.util.spec_from_file_location("untrusted_rules", ROOT / "tools" / "untrusted_rules.py")
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    page = tool.PAGE.read_text(encoding="utf-8")
    assert page.partition(tool.HEADING)[2].strip() == tool.rule_list().partition("\n")[2].strip(), (
        "run python tools/untrusted_rules.py"
    )


def _records(data):
    """Return the field, kind and offset of each record that readers interpret differently."""
    records = Facts(Document(data), onnxwire.ModelProto).derive(WireRecords)
    return [(records.cell("field", i), int(records.kind[i]), int(records.start[i])) for i in range(records.n)]


def test_a_repeated_field_is_listed_with_its_kind_and_offset():
    assert _records(DUPLICATE_IR_VERSION) == [("`ir_version`", REPEATED, len(DUPLICATE_IR_VERSION) - 2)]


def test_the_message_about_a_wide_packed_number_does_not_name_the_length_of_the_record():
    numbers = b"\x01\x81\x80\x80\x80\x10"  # 1, and 2**32 + 1
    tensor = b"\x10\x06\x2a" + bytes([len(numbers)]) + numbers  # data_type INT32, int32_data
    (problem,) = onnxwire.check(tensor, onnxwire.TensorProto, untrusted=True, select="security-wire-number-range")
    assert problem.message.startswith("a number of field `int32_data` has more bits than its type")


# ir_version 8, then three records of field 99, or a graph in two pieces.
@pytest.mark.parametrize("data", [b"\x08\x08" + b"\x98\x06\x01" * 3, b"\x08\x08\x3a\x00\x3a\x02\x0a\x00"])
def test_only_repeated_records_of_known_fields_are_listed(data):
    assert [field for field, _, _ in _records(data)] == (["`graph`"] if b"\x3a" in data else [])


def test_an_edited_model_is_checked_as_it_would_be_saved():
    message = onnxwire.load(DUPLICATE_IR_VERSION)
    assert len(onnxwire.check(message, untrusted=True, select="security")) == 1
    message.ir_version = 8
    assert len(onnxwire.check(message, untrusted=True, select="security")) == 0


def test_max_elements_limits_the_elements_of_a_value(tmp_path):
    sparse = "sparse_initializer { dims: [1000, 1000] }"
    path = tmp_path / "sparse.onnx"
    path.write_bytes(onnxwire.from_text(model(sparse)).SerializeToString())
    options = {"untrusted": True, "select": "security-resource-sparse"}
    assert len(onnxwire.check(path, **options)) == 0
    assert len(onnxwire.check(path, max_elements=1000, **options)) == 1
    with pytest.raises(ValueError, match="from 1 on"):
        onnxwire.check(path, max_elements=0, **options)
    command = ["check", str(path), "--select", "security-resource-sparse", "--max-elements", "1000"]
    assert main([*command, "--untrusted"]) == 1
    with pytest.raises(SystemExit):
        main(command)


@each("op_type, verb", [("ReadFile", "reads"), ("WriteFile", "writes")])
def test_the_message_about_a_file_operator_states_whether_it_reads_or_writes(op_type, verb):
    content = onnxwire.from_text(model(node("x", "y", 'domain: "com.example"', op=op_type))).SerializeToString()
    problems = onnxwire.check(content, untrusted=True, select="security-code-file")
    assert [problem.message for problem in problems] == [
        f"'{op_type}' {verb} a file of the machine that runs it; do not run the model"
    ]


def test_a_packed_varint_of_more_than_64_bits_is_reported():
    dims = b"\xff" * 9 + b"\x03"
    tensor = b"\x0a" + bytes([len(dims)]) + dims  # TensorProto.dims (1), packed
    graph = b"\x2a" + bytes([len(tensor)]) + tensor  # GraphProto.initializer (5)
    data = b"\x3a" + bytes([len(graph)]) + graph  # ModelProto.graph (7)
    problems = onnxwire.check(data, untrusted=True, select="security-wire-number-range")
    assert [problem.path for problem in problems] == ["graph.initializer[0]"]


def test_texts_that_are_not_utf8_are_checked():
    elf = b"\x7fELF\x02\x01\x01\x81\xff"
    data = DUPLICATE_IR_VERSION + b"\x32" + bytes([len(elf)]) + elf  # doc_string
    assert "security-payload-text" in {problem.rule for problem in onnxwire.check(data, untrusted=True)}


@each("type, is_reported", [("optional_type {}", False), ("tensor_type { elem_type: 1 }", True)], ids=str)
def test_an_optional_value_may_be_declared_by_the_type_of_its_element(type, is_reported):
    graphs = "".join(
        graph_attribute(
            f'node {{ output: "o" op_type: "Constant" }} output {{ name: "o" type {{ {branch_type} }} }}', "b", name
        )
        for name, branch_type in (("then_branch", type), ("else_branch", "sequence_type {}"))
    )
    content = onnxwire.from_text(model(node("x", "y", graphs, op="If"))).SerializeToString()
    assert bool(onnxwire.check(content, untrusted=True, select="security-resource-type")) is is_reported
