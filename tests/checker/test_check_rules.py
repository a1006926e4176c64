"""Tests that a rule reports the broken document of its case but not the valid one, and tests of the tables of rules."""

import subprocess
import sys
from importlib import import_module

import pytest
from check_case import Case
from each import each

import onnxwire
from onnxwire.checker.registry import MODULES, SECURITY_MODULES, checked, read_table, rules, unchecked

CASES: dict[str, Case] = {}
TESTED_ELSEWHERE: set[str] = set()
for _name in MODULES | SECURITY_MODULES:
    _module = import_module(f"cases.{_name}")
    assert not CASES.keys() & _module.CASES.keys()
    CASES |= _module.CASES
    TESTED_ELSEWHERE |= getattr(_module, "TESTED_ELSEWHERE", set())


def _document(case, content):
    """Return the bytes of a document of a case. content: `broken` or `valid` of the case."""
    return content if isinstance(content, bytes) else onnxwire.from_text(content, case.type).SerializeToString()


@pytest.mark.parametrize(
    ("id", "text"),
    [
        ("overload-before-ir10", 'functions { name: "f" overload: "x" }'),
        ("security-code-opset", "opset_import { version: 9999 }"),
        (
            "security-behaviour-number",
            'graph { initializer { dims: 1 data_type: 1 raw_data: "\\000\\000\\300\\177" } }',
        ),
        (
            "security-resource-rank",
            "functions { value_info { type { tensor_type { shape { %s } } } } }" % ("dim {}" * 100),
        ),
    ],
)
def test_a_rule_is_checked_in_a_new_process_on_a_document_without_nodes(id, text):
    # Modules of rules are imported when a document needs them, so another process may have imported them before.
    script = """if True:
        import sys
        import onnxwire
        model = onnxwire.from_text("ir_version: 9 " + sys.argv[2])
        problems = onnxwire.check(model, select=sys.argv[1], untrusted=sys.argv[1].startswith("security-"))
        print(len(problems))
    """
    assert subprocess.check_output([sys.executable, "-c", script, id, text], text=True) == "1\n"


def _missing_parts(id):
    """Return the missing parts of a rule, one line each."""
    parts = {
        "row in onnxwire/checker/rules.tsv or security.tsv": id in rules(untrusted=True),
        "check in onnxwire/checker/rules/, nor a row in onnxwire/checker/unchecked.tsv": id
        in checked(untrusted=True) | unchecked().keys(),
        "Case in tests/checker/cases/": id in CASES.keys() | TESTED_ELSEWHERE | unchecked().keys(),
    }
    return [f"{id} has no {part}" for part, is_present in parts.items() if not is_present]


def _check(id, content):
    """Return the problems of a rule in a document of its case. content: `broken` or `valid` of the case."""
    case = CASES[id]
    is_security = id.startswith("security-")
    return onnxwire.check(_document(case, content), case.type, select=id, untrusted=is_security, **case.options)


@each("id", CASES)
def test_a_broken_document_is_reported_at_its_paths(id):
    assert _missing_parts(id) == []
    case = CASES[id]
    problems = _check(id, case.broken)
    assert [problem.path for problem in problems] == list(case.paths)
    assert {problem.rule for problem in problems} == {id}
    for problem in problems:
        assert problem.severity == rules(untrusted=True)[id].severity
        assert problem.message and "{" not in problem.message  # no placeholder is left


@each("id", CASES)
def test_a_valid_document_is_not_reported(id):
    assert _missing_parts(id) == []
    assert _check(id, CASES[id].valid) == []


def test_every_rule_has_one_row_and_is_checked_and_tested_or_has_a_reason_not_to_be_checked():
    ids = rules(untrusted=True).keys() | checked(untrusted=True) | unchecked().keys() | CASES.keys() | TESTED_ELSEWHERE
    assert [line for id in sorted(ids) for line in _missing_parts(id)] == []
    duplicates = [
        f"{id} has a function and a row in unchecked.tsv" for id in checked(untrusted=True) & unchecked().keys()
    ]
    rows = [row[0] for name in ("rules.tsv", "security.tsv") for row in read_table(name)]
    duplicates += [f"{id} has two rows" for id in rules(untrusted=True) if rows.count(id) > 1]
    assert duplicates == []
    assert [f"{id} has no reason in unchecked.tsv" for id, reason in unchecked().items() if not reason] == []


def test_a_rule_with_a_reason_for_its_lower_severity_is_a_note():
    lowered_ids = {id for id, rule in rules().items() if rule.reason}
    assert {"graph-doc-string-present", "model-domain-present", "name-c90-identifier"} <= lowered_ids
    prefixes = ('the specification says "must", but', 'the specification says "should", but', 'old texts say "must", ')
    assert all(rules()[id].severity == "note" and rules()[id].reason.startswith(prefixes) for id in lowered_ids)
