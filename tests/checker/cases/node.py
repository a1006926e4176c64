"""Cases of the rules of nodes."""

from check_case import Case, model, node

_NODE_PATHS = ("graph.node[0]",)


def _model_with_call(call: str, function: str = "", ir: int = 10) -> str:
    """Return a model with a node and the function F. function: the other fields of F."""
    imports = 'opset_import { version: 17 } opset_import { domain: "a.b" version: 1 }'
    return model(call, ir, imports, f'functions {{ name: "F" domain: "a.b" {function} }}')


def _call_of_f(inputs: str = "", outputs: str = "o", fields: str = "") -> str:
    """Return a node that calls F."""
    return node(inputs, outputs, f'domain: "a.b" {fields}', op="F")


_ATTRIBUTE = 'attribute { name: "a" type: INT i: 1 }'

CASES = {
    "node-op-type-present": Case(model(node("", "o", op="")), model(node("", "o")), _NODE_PATHS),
    "node-has-output": Case(model(node()), model(node("", "o")), _NODE_PATHS),
    "node-all-outputs-empty": Case(model(node("", "- -")), model(node("", "- o")), _NODE_PATHS),
    "node-optional-empty-name": Case(model(node("- -", "o")), model(node("- a", "o")), ("graph.node[0].input[1]",)),
    "node-name-unique": Case(
        model(node("", "a", 'name: "n"') + node("", "b", 'name: "n"')),
        model(node("", "a") + node("", "b")),
        ("graph.node[1]",),
    ),
    "node-domain-imported": Case(model(node("", "o", 'domain: "a.b"')), _model_with_call(_call_of_f()), _NODE_PATHS),
    "node-domain-default-alias": Case(
        model(node("", "o", 'domain: "ai.onnx"')),
        model(node("", "o", 'domain: "ai.onnx"'), opset='opset_import { domain: "ai.onnx" version: 17 }'),
        _NODE_PATHS,
    ),
    "node-domain-before-ir3": Case(
        model(node("", "o", 'domain: "a.b"'), ir=2), model(node("", "o"), ir=2), _NODE_PATHS
    ),
    "node-overload-resolves": Case(
        _model_with_call(_call_of_f(fields='overload: "two"'), 'overload: "one"'),
        _model_with_call(_call_of_f(fields='overload: "one"'), 'overload: "one"'),
        _NODE_PATHS,
    ),
    "node-call-input-count": Case(
        _model_with_call(_call_of_f("a b"), 'input: "x"'),
        _model_with_call(_call_of_f("a"), 'input: "x" input: "y"'),
        _NODE_PATHS,
    ),
    "node-call-output-count": Case(
        _model_with_call(_call_of_f("", "o p"), 'output: "x"'),
        _model_with_call(_call_of_f(), 'output: "x"'),
        _NODE_PATHS,
    ),
    "node-call-attribute-declared": Case(
        _model_with_call(_call_of_f(fields=_ATTRIBUTE), 'attribute: "b"'),
        _model_with_call(_call_of_f(fields=_ATTRIBUTE), 'attribute: "a"'),
        ("graph.node[0].attribute[0]",),
    ),
    "node-call-attribute-type": Case(
        _model_with_call(_call_of_f(fields=_ATTRIBUTE), 'attribute_proto { name: "a" type: FLOAT f: 1 }'),
        _model_with_call(_call_of_f(fields=_ATTRIBUTE), 'attribute_proto { name: "a" type: INT i: 2 }'),
        ("graph.node[0].attribute[0]",),
    ),
}
