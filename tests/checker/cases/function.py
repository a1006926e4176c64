"""Cases of the rules of local functions."""

from check_case import Case, graph_attribute, model, node, value

_TWO_IMPORTS = 'opset_import { version: 17 } opset_import { domain: "a.b" version: 1 }'
_DEFAULT_IMPORT = "opset_import { version: 17 }"


def _function(content: str = "", name: str = "F", domain: str = "a.b", imports: str = _DEFAULT_IMPORT) -> str:
    """Return a function. content: the function's other fields."""
    return f'functions {{ name: "{name}" domain: "{domain}" {imports} {content} }}'


def _model(*functions: str, ir: int = 10, graph: str = "", opset: str = _TWO_IMPORTS) -> str:
    """Return a model with these functions. graph: the fields of its graph."""
    return model(graph, ir, opset, " ".join(functions))


def _model_with_function(content: str, ir: int = 10) -> str:
    """Return a model whose function has this content."""
    return _model(_function(content), ir=ir)


def _call(name: str = "F", domain: str = "a.b") -> str:
    """Return a node that calls a function."""
    return node("", "o", f'domain: "{domain}"', op=name)


def _function_with_calls(name: str, *callees: str) -> str:
    """Return a function whose nodes call these functions."""
    calls = "".join(node("", f"o{i}", 'domain: "a.b"', op=callee) for i, callee in enumerate(callees))
    return _function(calls, name, imports=_TWO_IMPORTS)


_IF_WITH_CALL = node("c", "z", graph_attribute(f"{_call()} output {{ {value('o')} }}"), op="If")
_OVERLOAD = 'overload: "one"'
_ATTRIBUTE_WITH_DEFAULT = 'attribute_proto { name: "a" type: INT i: 1 }'
_INFO_OF_X = f"value_info {{ {value('x')} }}"

CASES = {
    "overload-before-ir10": Case(
        _model(_function(_OVERLOAD), ir=9, graph=node("", "o", f'domain: "a.b" {_OVERLOAD}', op="F")),
        _model(_function(_OVERLOAD), graph=node("", "o", f'domain: "a.b" {_OVERLOAD}', op="F")),
        ("graph.node[0]", "functions[0]"),
    ),
    "function-name-present": Case(_model(_function(name="")), _model(_function()), ("functions[0]",)),
    "function-domain-present": Case(
        model(fields='functions { name: "F" }'), model(fields='functions { name: "F" domain: "" }'), ("functions[0]",)
    ),
    "function-domain-not-default": Case(
        _model(_function(domain=""), _function(domain="ai.onnx", name="G")),
        _model(_function(), _function(domain="ai.onnx.x", name="G")),
        ("functions[0]", "functions[1]"),
    ),
    "function-id-unique": Case(
        _model(_function(), _function(_OVERLOAD), ir=9),
        _model(_function(), _function(domain="a.c"), _function(name="G"), ir=9),
        ("functions[1]",),
    ),
    "function-id-unique-overload": Case(
        _model(_function(_OVERLOAD), _function(_OVERLOAD)),
        _model(_function(_OVERLOAD), _function()),
        ("functions[1]",),
    ),
    "function-domain-imported": Case(
        _model(_function(), _function(_call(), "G"), graph=_call(), opset=_DEFAULT_IMPORT),
        _model(_function(), _function(_call(), "G", imports=_TWO_IMPORTS), graph=_call()),
        ("graph.node[0]", "functions[1].node[0]"),
    ),
    "function-input-name-unique": Case(
        _model_with_function('input: "x" input: "y" input: "x"'),
        _model_with_function('input: "x" input: "y"'),
        ("functions[0].input[2]",),
    ),
    "function-output-name-unique": Case(
        _model_with_function(f'output: "x" output: "x" {node("", "x")}'),
        _model_with_function(f'output: "x" output: "y" {node("", "x y")}'),
        ("functions[0].output[1]",),
    ),
    "function-output-defined": Case(
        _model_with_function(f'input: "x" {node("x", "y")} output: "x" output: "y" output: "z"'),
        _model_with_function(f'input: "x" {node("x", "y")} output: "x" output: "y"'),
        ("functions[0].output[2]",),
    ),
    "function-io-name-present": Case(
        _model_with_function('input: "" output: "" input: "x"'),
        _model_with_function('input: "y" output: "y" input: "x"'),
        ("functions[0].input[0]", "functions[0].output[0]"),
    ),
    "function-attribute-name-unique": Case(
        _model_with_function('attribute: "a" attribute: "a"'),
        _model_with_function('attribute: "a" attribute: "b"'),
        ("functions[0].attribute[1]",),
    ),
    "function-attribute-proto-name-unique": Case(
        _model_with_function(_ATTRIBUTE_WITH_DEFAULT * 2),
        _model_with_function(_ATTRIBUTE_WITH_DEFAULT + _ATTRIBUTE_WITH_DEFAULT.replace('"a"', '"b"')),
        ("functions[0].attribute_proto[1]",),
    ),
    "function-attribute-exclusive": Case(
        _model_with_function(f'attribute: "b" attribute: "a" {_ATTRIBUTE_WITH_DEFAULT}'),
        _model_with_function(f'attribute: "b" {_ATTRIBUTE_WITH_DEFAULT}'),
        ("functions[0].attribute_proto[0]",),
    ),
    "function-attribute-vs-io-name": Case(
        _model_with_function(f'input: "a" output: "b" attribute: "b" {_ATTRIBUTE_WITH_DEFAULT}'),
        _model_with_function(f'input: "c" output: "d" attribute: "b" {_ATTRIBUTE_WITH_DEFAULT}'),
        ("functions[0].attribute[0]", "functions[0].attribute_proto[0]"),
    ),
    "function-attribute-proto-has-value": Case(
        _model_with_function(
            'attribute_proto { name: "a" type: INT ref_attr_name: "b" } attribute_proto { name: "b" i: 1 } '
            'attribute_proto { name: "c" type: TENSOR } attribute_proto { name: "d" type: INT }'
        ),
        _model_with_function('attribute_proto { name: "a" type: INT i: 1 } attribute_proto { name: "b" type: INTS }'),
        ("functions[0].attribute_proto[0]", "functions[0].attribute_proto[1]", "functions[0].attribute_proto[2]"),
    ),
    "function-attribute-proto-before-ir9": Case(
        _model_with_function(_ATTRIBUTE_WITH_DEFAULT, 8),
        _model_with_function('attribute: "a"', 8),
        ("functions[0].attribute_proto[0]",),
    ),
    "function-topological-order": Case(
        _model_with_function(f'input: "x" {node("a", "b")} {node("x", "a")}'),
        _model_with_function(f'input: "x" {node("x", "a")} {node("a", "b")}'),
        ("functions[0].node[0].input[0]",),
    ),
    "function-no-outer-capture": Case(
        _model(_function(node("w", "y")), graph=f"input {{ {value('w')} }}"),
        _model(_function(f'input: "w" {node("w", "y")}'), graph=f"input {{ {value('w')} }}"),
        ("functions[0].node[0].input[0]",),
    ),
    "function-node-output-ssa": Case(
        _model_with_function(f'input: "x" {node("x", "y")} {node("x", "y")} {node("y", "x")}'),
        _model_with_function(f'input: "x" {node("x", "y")} {node("x", "z")} {node("y", "- v")}'),
        ("functions[0].node[1].output[0]", "functions[0].node[2].output[0]"),
    ),
    # Broken: F calls G, G calls F in a nested graph, H calls itself, and I calls F and H.
    "function-no-recursion": Case(
        _model(
            _function_with_calls("I", "F", "H"),
            _function_with_calls("F", "G"),
            _function(f'input: "c" {_IF_WITH_CALL}', "G", imports=_TWO_IMPORTS),
            _function_with_calls("H", "H"),
        ),
        _model(
            _function_with_calls("I", "F", "H"),
            _function_with_calls("F", "G", "H"),
            _function_with_calls("G", "H", "H"),
            _function_with_calls("H"),
        ),
        ("functions[1]", "functions[3]"),
    ),
    # The first node of each domain that the function does not import is reported, also in nested graphs.
    "function-opset-covers-body": Case(
        _model_with_function(
            f'input: "c" {node("", "o", "", "Relu")} {node("", "p", "domain: " + repr("x.y"), "A")}'
            f"{node('', 'q', 'domain: ' + repr('x.y'), 'B')}"
            + node(
                "c", "z", graph_attribute(f"{node('', 't', 'domain: ' + repr('x.z'), 'C')} output {{ {value('t')} }}")
            )
        ),
        _model(
            _function(
                f'input: "c" {node("", "o", "domain: " + repr("ai.onnx"))} {node("", "p", "domain: " + repr("x.y"))}',
                imports=_DEFAULT_IMPORT + 'opset_import { domain: "x.y" version: 1 }',
            )
        ),
        ("functions[0].node[1]", "functions[0].node[3].attribute[0].g.node[0]"),
    ),
    "function-opset-domain-unique": Case(
        _model_with_function('opset_import { domain: "ai.onnx" version: 18 }'),
        _model_with_function('opset_import { domain: "x.y" version: 18 }'),
        ("functions[0].opset_import[1]",),
    ),
    # Operator sets 13 and 17 define Relu differently and Abs equally, and lack Gelu. Only the first Relu is reported.
    "function-opset-compatible": Case(
        _model(
            _function(
                node("", "a", op="Relu")
                + node("", "b", op="Relu")
                + node("", "c", op="Abs")
                + node("", "d", op="Gelu"),
                imports="opset_import { version: 13 }",
            )
        ),
        _model(
            _function(
                node("", "a", op="Abs") + node("", "b", "domain: 'a.b'", op="Relu"),
                imports='opset_import { version: 13 } opset_import { domain: "a.b" version: 2 }',
            ),
            _function(node("", "a", op="Relu"), "G"),
        ),
        ("functions[0].node[0]",),
    ),
    "function-value-info-name-unique": Case(
        _model_with_function(f'input: "x" {_INFO_OF_X * 2}'),
        _model_with_function(f'input: "x" {_INFO_OF_X}'),
        ("functions[0].value_info[1]",),
    ),
    "function-value-info-known-name": Case(
        _model_with_function(f'input: "y" {_INFO_OF_X} {node("y", "z")} value_info {{ {value("z")} }}'),
        _model_with_function(f'input: "x" {_INFO_OF_X} {node("x", "z")} value_info {{ {value("z")} }}'),
        ("functions[0].value_info[0]",),
    ),
    "function-value-info-before-ir10": Case(
        _model_with_function(f'input: "x" {_INFO_OF_X}', 9),
        _model_with_function('input: "x"', 9),
        ("functions[0].value_info[0]",),
    ),
    # ir_version 8, then a FunctionProto: the withdrawn fields 2 and 3 (broken), or an input (valid).
    "function-status-withdrawn": Case(
        b"\x08\x08\xca\x01\x04\x10\x01\x18\x01", b"\x08\x08\xca\x01\x03\x22\x01x", ("functions[0]", "functions[0]")
    ),
    "function-shadows-operator": Case(
        _model(_function(name="Relu", domain=""), _function(name="Scaler", domain="ai.onnx.ml")),
        _model(_function(name="Relu"), _function(name="Scaler", domain="")),
        ("functions[0]", "functions[1]"),
    ),
}
