from check_case import OPSET, Case, model, node

_TWO_OPSETS = f'{OPSET} opset_import {{ domain: "com.microsoft" version: 1 }}'
_NODE = ("graph.node[0]",)


def _node(op: str, rest: str = "", domain: str = "com.microsoft") -> str:
    return model(node("x", "y", f'domain: "{domain}" {rest}', op=op), opset=_TWO_OPSETS)


_CONTEXT = 'attribute { name: "ep_cache_context" type: STRING s: "a.bin" } attribute { name: "embed_mode" type: INT i: '

CASES = {
    "security-code-operator": Case(_node("PyOp"), _node("Gelu"), _NODE),
    "security-code-file": Case(_node("EPContext", _CONTEXT + "0 }"), _node("EPContext", _CONTEXT + "1 }"), _NODE),
    "security-code-compiled": Case(_node("EPContext"), _node("Gelu"), _NODE),
    "security-code-domain": Case(_node("Thing", domain="com.example"), _node("Gelu"), _NODE),
    "security-code-contrib": Case(_node("RunShell"), _node("Gelu"), _NODE),
    "security-code-shadow": Case(
        model(rest='functions { name: "Relu" domain: "" }'),
        model(rest='functions { name: "Relu" domain: "com.example" }'),
        ("functions[0]",),
    ),
    "security-code-namesake": Case(
        model(rest='functions { name: "Relu" domain: "com.example" }'),
        model(rest='functions { name: "Scaled" domain: "com.example" }'),
        ("functions[0]",),
    ),
    "security-code-opset": Case(
        model(opset="opset_import { version: 999 }"), model(opset="opset_import { version: 30 }"), ("opset_import[0]",)
    ),
    "security-code-setting": Case(
        model(rest='metadata_props { key: "ort_config" value: "{}" }'),
        model(rest='metadata_props { key: "author" value: "{}" }'),
        ("metadata_props[0]",),
    ),
}
