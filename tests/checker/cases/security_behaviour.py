"""Cases of the rules `security-behaviour-*`, except `security-behaviour-trigger` (see security_triggers.py)."""

from check_case import Case, graph_attribute, model, node


def _model_with_loop(trips: str) -> str:
    """Return a model with a Loop whose condition is the Relu of its state. trips: the trip count's name, or `-`
    for none."""
    body_fields = (
        'input { name: "i" } input { name: "c" } input { name: "v" } node { input: "v" output: "d" op_type: "Relu" }'
    )
    body_fields += ' output { name: "d" } output { name: "v" }'
    trip_count = 'initializer { name: "m" data_type: 7 int64_data: 9 }'
    return model(trip_count + node(f"{trips} - x", "y", graph_attribute(body_fields, "body", "body"), op="Loop"))


def _model_with_tree(mode: str) -> str:
    """Return a model with a tree of one branch. mode: the mode of the branch."""
    modes = f'attribute {{ name: "nodes_modes" type: STRINGS strings: ["{mode}", "LEAF"] }}'
    return model(node("x", "y", f'domain: "ai.onnx.ml" {modes}', op="TreeEnsembleRegressor"))


CASES = {
    "security-behaviour-random": Case(
        model(node("", "y", op="RandomNormal")), model(node("x", "y")), ("graph.node[0]",)
    ),
    # The bytes of NaN in the broken model, and of infinity in the valid model.
    "security-behaviour-number": Case(
        model('initializer { name: "w" data_type: 1 dims: 1 raw_data: "\\000\\000\\300\\177" }'),
        model('initializer { name: "w" data_type: 1 dims: 1 raw_data: "\\000\\000\\200\\177" }'),
        ("graph.initializer[0]",),
    ),
    "security-behaviour-loop": Case(_model_with_loop("-"), _model_with_loop("m"), ("graph.node[0]",)),
    "security-behaviour-equality": Case(
        _model_with_tree("BRANCH_EQ"), _model_with_tree("BRANCH_LEQ"), ("graph.node[0]",)
    ),
}
