"""Cases of the rules `security-name-*`: names and documentation."""

from check_case import Case, model, node

_NODE_PATHS = ("graph.node[0]",)


def _node_name_case(name: str, valid: str = "größe/1.0") -> Case:
    """Return a case with a node. name, valid: its name in the broken and in the valid model."""
    return Case(model(node("x", "y", f'name: "{name}"')), model(node("x", "y", f'name: "{valid}"')), _NODE_PATHS)


CASES = {
    "security-name-control": _node_name_case("a\\033[2J"),
    "security-name-direction": _node_name_case("a\u202eb"),
    "security-name-invisible": _node_name_case("a\u200bb"),
    "security-name-length": _node_name_case("a" * 4097),
    "security-name-injection": _node_name_case("=cmd|'/C calc'!A0"),
    # A Cyrillic letter in the name of an operator.
    "security-name-look-alike": Case(
        model(node("x", "y", op="R\u0435lu")), model(node("x", "y", op="Relu")), _NODE_PATHS
    ),
    # In the broken model, the names end in a lower-case L and an upper-case I.
    "security-name-similar": Case(
        model(node("x", "bias_l") + node("x", "bias_I")),
        model(node("x", "bias_l") + node("x", "bias_J")),
        ("graph.node[1].output[0]",),
    ),
    "security-name-domain": Case(
        model(node("x", "y", 'domain: "com.rnicrosoft"')), model(node("x", "y", 'domain: "com.microsoft"')), _NODE_PATHS
    ),
    # A Cyrillic letter in a Latin word; the valid name is a Cyrillic word.
    "security-name-script": _node_name_case("unkn\u043ewn", "\u0441\u043b\u043e\u0439"),
    "security-name-text": Case(model(fields='doc_string: "a\\033[2J"'), model(fields='doc_string: "a\\n\\tb"')),
}
