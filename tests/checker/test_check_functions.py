"""Further tests of the rules of functions: chains of calls, imports, graphs in functions, and withdrawn fields."""

import pytest
from check_case import graph_attribute, model, node, value
from wire import len_record

import onnxwire
from onnxwire import (
    AttributeProto,
    FunctionProto,
    GraphProto,
    ModelProto,
    NodeProto,
    OperatorSetIdProto,
    OperatorSetProto,
)
from onnxwire.checker.registry import rules

_IMPORTS = [OperatorSetIdProto(version=17), OperatorSetIdProto(domain="a.b", version=1)]


# Rules that `_errors` ignores, because the nodes of the tests do not match the signatures of their operators.
_SIGNATURE_RULES = [id for id in rules() if id.startswith("signature-")]


def _errors(text):
    """Return the rule and path of each error of a model in text form."""
    data = onnxwire.from_text(text).SerializeToString()
    return [(problem.rule, problem.path) for problem in onnxwire.check(data, select="error", ignore=_SIGNATURE_RULES)]


def _model_with_calls(callees):
    """Return a model with the functions F0, F1 and so on.

    callees: for each function, the number in the name of the function that it calls.
    """
    functions = [
        FunctionProto(
            name=f"F{i}",
            domain="a.b",
            output=["o"],
            opset_import=_IMPORTS,
            node=[NodeProto(op_type=f"F{callee}", domain="a.b", output=["o"])],
        )
        for i, callee in enumerate(callees)
    ]
    return ModelProto(ir_version=10, opset_import=_IMPORTS, graph=GraphProto(name="g"), functions=functions)


def test_a_long_chain_of_calls_is_not_a_cycle():
    assert onnxwire.check(_model_with_calls(range(1, 20_001)).SerializeToString(), select="function-no-recursion") == []


def test_a_cycle_of_many_functions_is_one_problem():
    data = _model_with_calls([*range(1, 20_000), 0]).SerializeToString()
    (problem,) = onnxwire.check(data, select="function-no-recursion")
    assert problem.path == "functions[0]"
    assert "19,996 more" in problem.message


@pytest.mark.parametrize("ir", [8, 10])
def test_a_call_of_a_domain_that_is_not_imported_is_reported_by_one_rule(ir):
    imports = "opset_import { version: 17 }"
    call = node("", "o", 'domain: "a.b"', op="F")
    function = f'functions {{ name: "%s" domain: "a.b" output: "o" {imports} %s }}'
    fields = function % ("F", node("", "o")) + function % ("G", call)
    assert _errors(model(call, ir, imports, fields)) == [
        ("function-domain-imported", "graph.node[0]"),
        ("function-domain-imported", "functions[1].node[0]"),
    ]


def test_the_highest_of_several_imports_of_a_domain_is_used():
    function = (
        'functions { name: "F" domain: "a.b" opset_import { version: 13 } opset_import { version: 17 } '
        f"{node('', 'o', op='Relu')} }}"
    )
    # Relu has the versions 1, 6, 13 and 14. If a lower import were used, the versions of Relu in the function and in
    # the model would differ, and function-opset-compatible would report it.
    imports = "opset_import { version: 12 } opset_import { version: 14 }"
    rules = {rule for rule, _ in _errors(model(fields=function, ir=10, opset=imports))}
    assert rules == {"opset-import-domain-conflict", "function-opset-domain-unique"}


def test_a_graph_in_a_default_value_belongs_to_its_function():
    graph_node = node("", "o", 'attribute { name: "x" type: INT ref_attr_name: "p" }')
    default = f'attribute_proto {{ name: "b" type: GRAPH g {{ name: "q" {graph_node} }} }}'
    function = f'functions {{ name: "F" domain: "a.b" attribute: "p" opset_import {{ version: 17 }} {default} }}'
    assert _errors(model(node("", "o"), 10, fields=function)) == []


@pytest.mark.parametrize("root", [AttributeProto, ModelProto])
def test_a_graph_in_an_attribute_outside_of_a_node_is_checked(root):
    attribute = AttributeProto(name="b", type=AttributeProto.GRAPH, g=GraphProto())
    function = FunctionProto(name="F", domain="a.b", attribute_proto=[attribute])
    message = attribute
    if root is ModelProto:
        message = ModelProto(ir_version=10, opset_import=_IMPORTS, graph=GraphProto(name="g"), functions=[function])
    (problem,) = onnxwire.check(message.SerializeToString(), root, select="error")
    assert problem.rule == "graph-name-present"


def test_a_nested_graph_in_a_function_sees_only_values_of_the_function():
    branch = graph_attribute(f"{node('x', 'a')} {node('w', 'b')} output {{ {value('a')} }}")
    function = (
        'functions { name: "F" domain: "a.b" input: "x" output: "o" opset_import { version: 17 } '
        f"{node('x', 'o', branch, op='If')} }}"
    )
    assert _errors(model(f"input {{ {value('w')} }}", 10, fields=function)) == [
        ("graph-node-input-defined", "functions[0].node[0].attribute[0].g.node[1].input[0]")
    ]


@pytest.mark.parametrize(("ir_version", "expected"), [(4, set()), (8, {"model-reserved-fields"})])
def test_early_fields_of_a_function_are_reported_as_withdrawn_since_ir_version_8(ir_version, expected):
    early_fields = b"\x10\x06\x18\x01"  # since_version 6 and status STABLE, the fields 2 and 3 of FunctionProto
    function = FunctionProto(name="F", domain="a.b").SerializeToString() + early_fields
    data = OperatorSetProto(ir_version=ir_version).SerializeToString() + len_record(9, function)  # 9: functions
    select = ["model-reserved-fields", "model-unknown-fields"]
    assert {problem.rule for problem in onnxwire.check(data, OperatorSetProto, select=select)} == expected
