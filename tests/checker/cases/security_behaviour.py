from check_case import Case, holding, model, node


def _loop(trips: str) -> str:
    """A Loop whose condition is an output of Relu of its state."""
    inside = (
        'input { name: "i" } input { name: "c" } input { name: "v" } node { input: "v" output: "d" op_type: "Relu" }'
    )
    inside += ' output { name: "d" } output { name: "v" }'
    trip_count = 'initializer { name: "m" data_type: 7 int64_data: 9 }'
    return model(trip_count + node(f"{trips} - x", "y", holding(inside, "body", "body"), op="Loop"))


def _tree(mode: str) -> str:
    modes = f'attribute {{ name: "nodes_modes" type: STRINGS strings: ["{mode}", "LEAF"] }}'
    return model(node("x", "y", f'domain: "ai.onnx.ml" {modes}', op="TreeEnsembleRegressor"))


CASES = {
    "security-behaviour-random": Case(
        model(node("", "y", op="RandomNormal")), model(node("x", "y")), ("graph.node[0]",)
    ),
    "security-behaviour-number": Case(
        model('initializer { name: "w" data_type: 1 dims: 1 raw_data: "\\000\\000\\300\\177" }'),
        model('initializer { name: "w" data_type: 1 dims: 1 raw_data: "\\000\\000\\200\\177" }'),  # infinity
        ("graph.initializer[0]",),
    ),
    "security-behaviour-loop": Case(_loop("-"), _loop("m"), ("graph.node[0]",)),
    "security-behaviour-equality": Case(_tree("BRANCH_EQ"), _tree("BRANCH_LEQ"), ("graph.node[0]",)),
}
