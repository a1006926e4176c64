"""The case of the rule `security-behaviour-trigger`."""

from check_case import Case, model, node

CASES = {
    "security-behaviour-trigger": Case(
        model(
            'initializer { name: "k" data_type: 1 float_data: 3 } '
            + node("x k", "c", op="Equal")
            + node("c x k", "y", op="Where")
        ),
        model(node("x z", "c", op="Equal") + node("c x z", "y", op="Where")),
        ("graph.node[1]",),
    ),
}
