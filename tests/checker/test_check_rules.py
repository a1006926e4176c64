"""Every rule of the table, by one document that breaks it and one that does not."""

from importlib import import_module

from check_case import Case
from each import each

import onnxwire
from onnxwire.checker.registry import MODULES, checks, rules, unchecked

CASES: dict[str, Case] = {}
ELSEWHERE: set[str] = set()
for _name in MODULES:
    _module = import_module(f"cases.{_name}")
    assert not CASES.keys() & _module.CASES.keys()
    CASES |= _module.CASES
    ELSEWHERE |= getattr(_module, "ELSEWHERE", set())


def _document(case, content):
    return content if isinstance(content, bytes) else onnxwire.from_text(content, case.type).SerializeToString()


@each("id", CASES)
def test_a_broken_document_is_reported_at_its_paths(id):
    case = CASES[id]
    found = onnxwire.check(_document(case, case.broken), case.type, select=id, **case.options)
    assert [problem.path for problem in found] == list(case.at)
    assert {problem.rule for problem in found} == {id}
    for problem in found:
        assert problem.severity == rules()[id].severity
        assert problem.message and "{" not in problem.message


@each("id", CASES)
def test_a_sound_document_is_not_reported(id):
    case = CASES[id]
    assert onnxwire.check(_document(case, case.sound), case.type, select=id, **case.options) == []


def test_every_rule_is_checked_or_said_to_be_uncheckable():
    assert len(rules()) == 347
    assert checks().keys() <= rules().keys()
    assert unchecked().keys() <= rules().keys()
    assert not checks().keys() & unchecked().keys()
    assert rules().keys() == checks().keys() | unchecked().keys()
    assert checks().keys() == CASES.keys() | ELSEWHERE
    assert all(unchecked().values())


def test_a_severity_that_is_lower_than_the_word_of_the_specification_has_a_reason():
    lowered = {id for id, rule in rules().items() if rule.reason}
    assert {"graph-doc-string-present", "model-domain-present", "name-c90-identifier"} <= lowered
    assert all(rules()[id].severity == "note" and rules()[id].reason.startswith(("must", "should")) for id in lowered)
