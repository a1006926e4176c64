"""Cases of the rules `security-code-*`: operators, functions, operator sets, and settings of runtimes."""

from check_case import OPSET, Case, model, node

_TWO_OPSETS = f'{OPSET} opset_import {{ domain: "com.microsoft" version: 1 }}'
_NODE_PATHS = ("graph.node[0]",)


def _model_with_node(op: str, fields: str = "", domain: str = "com.microsoft") -> str:
    """Return a model with a node. op, domain: the operator and its domain. fields: the other fields of the node."""
    return model(node("x", "y", f'domain: "{domain}" {fields}', op=op), opset=_TWO_OPSETS)


# The text of two attributes of EPContext; it ends before the value of embed_mode.
_CONTEXT_PREFIX = (
    'attribute { name: "ep_cache_context" type: STRING s: "a.bin" } attribute { name: "embed_mode" type: INT i: '
)

CASES = {
    "security-code-operator": Case(_model_with_node("PyOp"), _model_with_node("Gelu"), _NODE_PATHS),
    "security-code-file": Case(
        _model_with_node("EPContext", _CONTEXT_PREFIX + "0 }"),
        _model_with_node("EPContext", _CONTEXT_PREFIX + "1 }"),
        _NODE_PATHS,
    ),
    "security-code-compiled": Case(_model_with_node("EPContext"), _model_with_node("Gelu"), _NODE_PATHS),
    "security-code-domain": Case(
        _model_with_node("Thing", domain="com.example"), _model_with_node("Gelu"), _NODE_PATHS
    ),
    "security-code-contrib": Case(_model_with_node("RunShell"), _model_with_node("Gelu"), _NODE_PATHS),
    "security-code-shadow": Case(
        model(fields='functions { name: "Relu" domain: "" }'),
        model(fields='functions { name: "Relu" domain: "com.example" }'),
        ("functions[0]",),
    ),
    "security-code-namesake": Case(
        model(fields='functions { name: "Relu" domain: "com.example" }'),
        model(fields='functions { name: "Scaled" domain: "com.example" }'),
        ("functions[0]",),
    ),
    "security-code-opset": Case(
        model(opset="opset_import { version: 999 }"), model(opset="opset_import { version: 30 }"), ("opset_import[0]",)
    ),
    "security-code-setting": Case(
        model(fields='metadata_props { key: "ort_config" value: "{}" }'),
        model(fields='metadata_props { key: "author" value: "{}" }'),
        ("metadata_props[0]",),
    ),
}
