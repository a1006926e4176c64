"""Further tests of the rules of training: values that its graphs may read, and bindings without a main graph."""

import pytest
from check_case import model, node, tensor, value

import onnxwire
from onnxwire import TrainingInfoProto
from onnxwire.checker.registry import rules

# Rules that `_errors` ignores, because the nodes of the tests do not match the signatures of their operators.
_SIGNATURE_RULES = [id for id in rules() if id.startswith("signature-")]

_MAIN = f"initializer {{ {tensor('w')} }} {node('w', 'y')} output {{ {value('y')} }}"


def _errors(training, main=_MAIN, ir=8):
    """Return the rule and path of each error of a model.

    training: the fields of training_info; the text "} training_info {" ends an entry and begins another. main: the
    fields of the main graph.
    """
    data = onnxwire.from_text(model(main, ir, fields=f"training_info {{ {training} }}")).SerializeToString()
    return [(problem.rule, problem.path) for problem in onnxwire.check(data, select="error", ignore=_SIGNATURE_RULES)]


def test_an_algorithm_may_use_the_values_of_the_main_graph():
    algorithm = f'algorithm {{ name: "a" {node("y", "u")} value_info {{ {value("w")} }} output {{ {value("w")} }} }}'
    assert _errors(algorithm) == []


def test_a_graph_in_an_algorithm_sees_values_of_the_main_graph():
    branch = f'attribute {{ name: "b" type: GRAPH g {{ name: "h" {node("y", "t")} output {{ {value("t")} }} }} }}'
    assert _errors(f'algorithm {{ name: "a" {node("", "u", branch, op="If")} }}') == []


@pytest.mark.parametrize(
    ("ir", "expected_rules"),
    [
        (7, {"training-inference-independent", "training-graphs-valid"}),
        (6, {"graph-node-input-defined"}),
    ],
)
def test_reads_across_graphs_are_reported_by_the_rules_of_the_ir_version(ir, expected_rules):
    training = f'algorithm {{ name: "a" {node("", "u")} }} initialization {{ name: "i" {node("w", "v")} }}'
    errors = _errors(training, _MAIN + node("u", "z"), ir)
    assert {rule for rule, _ in errors} == expected_rules
    assert sorted(path for _, path in errors) == [
        "graph.node[1].input[0]",
        "training_info[0].initialization.node[0].input[0]",
    ]


def test_reading_a_value_of_another_algorithm_is_reported_at_the_node_that_reads_it():
    first_fields, second_fields = f'name: "a" {node("", "u")}', f'name: "b" {node("u", "v")}'
    assert _errors(f"algorithm {{ {first_fields} }} }} training_info {{ algorithm {{ {second_fields} }}") == [
        ("graph-node-input-defined", "training_info[1].algorithm.node[0].input[0]")
    ]


def test_a_value_that_two_algorithms_define_is_a_separate_value_in_each():
    algorithm = f'algorithm {{ name: "%s" {node("y", "u")} }}'
    assert _errors(f"{algorithm % 'a'} }} training_info {{ {algorithm % 'b'}") == []


def test_bindings_of_a_training_info_without_a_model_have_no_errors():
    text = 'update_binding { key: "w" value: "u" }'
    data = onnxwire.from_text(text, TrainingInfoProto).SerializeToString()
    assert onnxwire.check(data, TrainingInfoProto, select="error") == []


def test_the_bindings_of_a_model_without_graph_have_errors():
    text = 'ir_version: 8 opset_import { version: 17 } training_info { update_binding { key: "w" value: "u" } }'
    data = onnxwire.from_text(text).SerializeToString()
    rules = {problem.rule for problem in onnxwire.check(data, select="error")}
    assert rules == {"model-graph-present", "training-update-key-initializer", "training-algorithm-present"}
