"""Cases of the security rules of attributes."""

from check_case import Case, model, node

_NODE_PATHS = ("graph.node[0]",)
_ML_DOMAIN = 'domain: "ai.onnx.ml"'
_TREE_ATTRIBUTES = {
    "nodes_treeids": (0, 0, 0),
    "nodes_nodeids": (0, 1, 2),
    "nodes_featureids": (0, 0, 0),
    "nodes_truenodeids": (1, 0, 0),
    "nodes_falsenodeids": (2, 0, 0),
    "target_ids": (0, 0),
    "target_nodeids": (1, 2),
    "target_treeids": (0, 0),
}


def _ints_attribute(name: str, *numbers: int) -> str:
    """Return an attribute of type INTS."""
    return f'attribute {{ name: "{name}" type: INTS {" ".join(f"ints: {number}" for number in numbers)} }}'


def _model_with_conv(stride: int) -> str:
    """Return a model with a Conv of two axes. stride: the stride of the first axis."""
    return model(node("x w", "o", _ints_attribute("strides", stride, 1), op="Conv"))


def _model_with_tree(**changes: tuple[int, ...]) -> str:
    """Return a model with a tree of one branch and two leaves. changes: replacements of _TREE_ATTRIBUTES."""
    attributes = " ".join(_ints_attribute(name, *numbers) for name, numbers in (_TREE_ATTRIBUTES | changes).items())
    modes = 'strings: "BRANCH_LEQ" strings: "LEAF" strings: "LEAF"'
    attributes += f' attribute {{ name: "nodes_modes" type: STRINGS {modes} }} '
    attributes += 'attribute { name: "n_targets" type: INT i: 1 }'
    return model(node("x", "o", f"{_ML_DOMAIN} {attributes}", op="TreeEnsembleRegressor"))


CASES = {
    "security-attribute-range": Case(_model_with_conv(0), _model_with_conv(1), _NODE_PATHS),
    "security-attribute-length": Case(_model_with_tree(nodes_featureids=(0,)), _model_with_tree(), _NODE_PATHS),
    "security-attribute-index": Case(_model_with_tree(target_ids=(5, 0)), _model_with_tree(), _NODE_PATHS),
    "security-attribute-cycle": Case(_model_with_tree(nodes_falsenodeids=(0, 0, 0)), _model_with_tree(), _NODE_PATHS),
}
