"""Cases of the rules `security-resource-*`."""

from check_case import Case, float_type, graph_attribute, model, node, value

_NODE_PATHS = ("graph.node[0]",)


def _ints(name: str, *numbers: int) -> str:
    """Return an initializer that is a vector of integers."""
    data = " ".join(f"int64_data: {number}" for number in numbers)
    return f'initializer {{ name: "{name}" data_type: 7 dims: {len(numbers)} {data} }}'


def _scalar(name: str, number: int, type: int = 7) -> str:
    """Return an initializer that is one integer or bool. type: its data_type."""
    field = "int32_data" if type == 9 else "int64_data"
    return f'initializer {{ name: "{name}" data_type: {type} {field}: {number} }}'


def _loop(trips: str, body: str = "", outputs: str = "o") -> str:
    """Return a Loop whose condition does not change. trips: the trip count's name. body: more nodes of the body."""
    body_fields = f'input {{ name: "i" }} input {{ name: "c" }} {body} node {{ input: "c" output: "d" '
    body_fields += 'op_type: "Identity" } output { name: "d" }'
    return node(f"{trips} yes", outputs, graph_attribute(body_fields, "body", "body"), op="Loop")


def _function(name: str, callee: str, n_calls: int) -> str:
    """Return a function with n_calls calls of another function."""
    call_nodes = " ".join(
        f'node {{ op_type: "{callee}" domain: "f" input: "x" output: "y{i}" }}' for i in range(n_calls)
    )
    return f'functions {{ name: "{name}" domain: "f" input: "x" output: "y0" {call_nodes} }}'


def _model_with_call_chain(n_functions: int, n_calls: int) -> str:
    """Return a model in which each of n_functions functions calls the next function n_calls times."""
    functions = " ".join(_function(f"f{i}", f"f{i + 1}", n_calls) for i in range(n_functions))
    return model(
        node("x", "y", 'domain: "f"', op="f0"),
        fields=functions + f' functions {{ name: "f{n_functions}" domain: "f" input: "x" '
        'output: "y" node { op_type: "Relu" input: "x" output: "y" } }',
    )


_TRUE_CONSTANT = _scalar("yes", 1, 9)
_CONSTANT_OF_SHAPE = node("s", "o", op="ConstantOfShape")
_BRANCH_NODE = 'node { op_type: "Identity" input: "x" output: "y" }'


def _model_with_nested_ifs(levels: int) -> str:
    """Return a model with nested If nodes. levels: the number of nested graphs."""
    graph = _BRANCH_NODE
    for level in range(levels):
        graph = f'node {{ op_type: "If" {graph_attribute(graph, f"g{level}")} }}'
    return model(graph)


def _model_with_large_values(count: int) -> str:
    """Return a model with nodes that each make a value of 2**27 elements."""
    nodes = "".join(node("s", f"o{i}", op="ConstantOfShape") for i in range(count))
    return model(_ints("s", 1 << 27) + nodes)


def _model_with_pattern(text: str) -> str:
    """Return a model with a node that has a regular expression."""
    return model(node("x", "o", f'attribute {{ name: "pattern" type: STRING s: "{text}" }}', op="RegexFullMatch"))


def _model_with_joined_texts(count: int) -> str:
    """Return a model with a chain of nodes, each of which joins the previous text with itself."""
    return model("".join(node(f"s{i} s{i}", f"s{i + 1}", op="StringConcat") for i in range(count)))


def _model_with_branches(type: int) -> str:
    """Return a model with an If whose then_branch returns floats, and whose else_branch returns this type."""
    graph = (
        'node {{ output: "o" op_type: "Constant" }} output {{ name: "o" type {{ tensor_type {{ elem_type: {} }} }} }}'
    )
    graphs = [graph.format(number) for number in (1, type)]
    return model(
        node("x", "y", graph_attribute(graphs[0], "t") + graph_attribute(graphs[1], "e", "else_branch"), op="If")
    )


def _model_with_declared_size(size: int) -> str:
    """Return a model with a value of two elements that value_info declares with this size."""
    info = f"value_info {{ {value('o', float_type(f'dim {{ dim_value: {size} }}'))} }}"
    return model(_ints("w", 1, 2) + node("w", "o", op="Neg") + info)


_TWO_BRANCHES = "".join(
    graph_attribute(f'node {{ output: "o" op_type: "Constant" }} output {{ {value("o")} }}', name, f"{name}_branch")
    for name in ("then", "else")
)

CASES = {
    # Erf, which the checker does not evaluate, reads a constant in the broken model, and an input in the valid model.
    "security-resource-hidden": Case(
        model(_ints("a", 3) + node("a", "s", op="Erf") + _CONSTANT_OF_SHAPE),
        model('input { name: "a" }' + node("a", "s", op="Erf") + _CONSTANT_OF_SHAPE),
        ("graph.node[1]",),
    ),
    "security-resource-count": Case(
        model(opset="".join(f'opset_import {{ domain: "d{i}" version: 1 }}' for i in range(300))),
        model(opset="".join(f'opset_import {{ domain: "d{i}" version: 1 }}' for i in range(30))),
    ),
    # The shape is a product of two constants.
    "security-resource-elements": Case(
        model(_ints("a", 1 << 16) + _ints("b", 1 << 16) + node("a b", "s", op="Mul") + _CONSTANT_OF_SHAPE),
        model(_ints("a", 1 << 10) + _ints("b", 1 << 10) + node("a b", "s", op="Mul") + _CONSTANT_OF_SHAPE),
        ("graph.node[1]",),
    ),
    "security-resource-overflow": Case(
        model(_ints("s", 1 << 32, 1 << 32) + _CONSTANT_OF_SHAPE),
        model(_ints("s", 1 << 10, 1 << 10) + _CONSTANT_OF_SHAPE),
        _NODE_PATHS,
    ),
    "security-resource-text": Case(_model_with_joined_texts(28), _model_with_joined_texts(26), ("graph.node[27]",)),
    "security-resource-type": Case(_model_with_branches(8), _model_with_branches(1), _NODE_PATHS),
    "security-resource-shape": Case(
        _model_with_declared_size(7), _model_with_declared_size(2), ("graph.value_info[0]",)
    ),
    "security-resource-body": Case(
        model(node("c", "y z", _TWO_BRANCHES, op="If")), model(node("c", "y", _TWO_BRANCHES, op="If")), _NODE_PATHS
    ),
    "security-resource-total": Case(_model_with_large_values(17), _model_with_large_values(16), ("graph.node[16]",)),
    "security-resource-loop": Case(
        model(_scalar("m", 2**63 - 1) + _TRUE_CONSTANT + _loop("m")),
        model(_scalar("m", 1000) + _TRUE_CONSTANT + _loop("m")),
        _NODE_PATHS,
    ),
    "security-resource-iterations": Case(
        model(_scalar("m", 10_000) + _TRUE_CONSTANT + _loop("m", _loop("m", outputs="p"))),
        model(_scalar("m", 100) + _TRUE_CONSTANT + _loop("m", _loop("m", outputs="p"))),
        ("graph.node[0].attribute[0].g.node[0]",),
    ),
    "security-resource-index": Case(
        model(_ints("w", 1, 2) + _ints("i", 2) + node("w i", "o", op="Gather")),
        model(_ints("w", 1, 2) + _ints("i", -2) + node("w i", "o", op="Gather")),
        _NODE_PATHS,
    ),
    "security-resource-division": Case(
        model(_ints("z", 0) + node("x z", "o", op="Div")),
        model(_ints("z", 1) + node("x z", "o", op="Div")),
        _NODE_PATHS,
    ),
    "security-resource-argument": Case(
        model(_ints("n", 200) + node("x n", "o", op="BitShift")),
        model(_ints("n", 7) + node("x n", "o", op="BitShift")),
        _NODE_PATHS,
    ),
    "security-resource-rank": Case(
        model(f'initializer {{ name: "w" data_type: 1 {"dims: 1 " * 65} float_data: 1 }}'),
        model(f'initializer {{ name: "w" data_type: 1 {"dims: 1 " * 64} float_data: 1 }}'),
        ("graph.initializer[0]",),
    ),
    "security-resource-function-size": Case(
        _model_with_call_chain(19, 2), _model_with_call_chain(15, 2), ("functions[0]",)
    ),
    "security-resource-function-depth": Case(
        _model_with_call_chain(64, 1), _model_with_call_chain(63, 1), ("functions[0]",)
    ),
    "security-resource-nesting": Case(
        _model_with_nested_ifs(11), _model_with_nested_ifs(10), ("graph" + ".node[0].attribute[0].g" * 11,)
    ),
    "security-resource-sparse": Case(
        model("sparse_initializer { dims: [1000000, 1000000] }"),
        model("sparse_initializer { dims: [1000, 1000] }"),
        ("graph.sparse_initializer[0]",),
    ),
    "security-resource-declared": Case(
        model('initializer { name: "w" data_type: 1 dims: [100000, 100000] }'),
        model('initializer { name: "w" data_type: 1 dims: [1, 2] float_data: [1, 2] }'),
        ("graph.initializer[0]",),
    ),
    "security-resource-expression": Case(
        _model_with_pattern("(a+)+$"), _model_with_pattern("(ab)+$"), ("graph.node[0].attribute[0]",)
    ),
}
