"""Cases of the rules of signatures of operators."""

from check_case import Case, model, node, value

_NODE_PATHS = ("graph.node[0]",)
_X = f"input {{ {value('x')} }}"
_IDS = 'initializer { name: "ids" data_type: 7 dims: 1 int64_data: 0 }'
_INT64_INFO_OF_C = 'value_info { name: "c" type { tensor_type { elem_type: 7 } } }'
_LAYER_NORM = "LayerNormalization"


def _model_with_attribute(attribute_fields: str, op: str = "Concat") -> str:
    """Return a model whose node has an attribute with these fields. op: the operator of the node."""
    return model(_X + node("x", "y", f"attribute {{ {attribute_fields} }}", op=op))


CASES = {
    "signature-operator-known": Case(
        # Broken: operators of a later version, of no version, and of another domain. Valid: Gelu in version 20, which
        # introduced it, and an operator of an unknown domain.
        model(_X + node("x", "a", op="Gelu") + node("x", "b", op="relu") + node("x", "c", op="Scaler")),
        model(
            _X + node("x", "a", op="Gelu") + node("x", "b", 'domain: "com.example"', op="relu"),
            opset='opset_import { version: 20 } opset_import { domain: "com.example" version: 1 }',
        ),
        ("graph.node[0]", "graph.node[1]", "graph.node[2]"),
    ),
    "signature-operator-withdrawn": Case(
        model(_X + node("x", "y", op="Affine")), model(_X + node("x", "y")), _NODE_PATHS
    ),
    "signature-operator-deprecated": Case(
        model(_X + node("x x", "y", op="Upsample"), opset="opset_import { version: 10 }"),
        model(_X + node("x x", "y", op="Upsample"), opset="opset_import { version: 9 }"),
        _NODE_PATHS,
    ),
    "signature-input-count": Case(
        model(_X + node("x x x", "a", op="Add") + node("", "b", op="Concat") + node("x", "c", op="Clip")),
        model(_X + node("x x", "a", op="Add") + node("x x x", "b", op="Concat") + node("x x x", "c", op="Clip")),
        ("graph.node[0]", "graph.node[1]"),
    ),
    "signature-output-count": Case(
        model(_X + node("x", "y z") + node("x x x x x", "a b", op="BatchNormalization")),
        model(_X + node("x", "y") + node("x x x x x", "a b c", op="BatchNormalization")),
        ("graph.node[0]", "graph.node[1]"),
    ),
    "signature-input-omitted": Case(
        model(_X + node("- x", "y", op="Add")), model(_X + node("x - x", "y", op="Clip")), ("graph.node[0].input[0]",)
    ),
    "signature-output-omitted": Case(
        model(_X + node("x x", "- y", op=_LAYER_NORM)),
        model(_X + node("x x", "y - z", op=_LAYER_NORM)),
        ("graph.node[0].output[0]",),
    ),
    "signature-attribute-known": Case(
        _model_with_attribute('name: "axes" type: INT i: 1'),
        _model_with_attribute('name: "axis" type: INT i: 1 } attribute { name: "__of_a_tool"', "Softmax"),
        ("graph.node[0].attribute[0]",),
    ),
    "signature-attribute-type": Case(
        _model_with_attribute('name: "axis" type: FLOAT f: 1'),
        _model_with_attribute('name: "axis" type: INT i: 1'),
        ("graph.node[0].attribute[0]",),
    ),
    "signature-attribute-required": Case(
        model(_X + node("x", "y", op="Concat")), _model_with_attribute('name: "axis" type: INT i: 1'), _NODE_PATHS
    ),
    "signature-input-type": Case(
        model(_X + _IDS + node("ids", "a", op="Not") + node("ids", "b", op="Sqrt") + node("x", "c", op="Not")),
        model(_X + _IDS + node("x", "a") + node("ids", "b", op="Abs") + node("x", "c", op="Neg")),
        ("graph.node[0].input[0]", "graph.node[1].input[0]", "graph.node[2].input[0]"),
    ),
    "signature-output-type": Case(
        model(_X + node("x x", "y", op="Less") + f"output {{ {value('y')} }}"),
        model(_X + node("x x", "y", op="Add") + f"output {{ {value('y')} }}"),
        ("graph.node[0].output[0]",),
    ),
    "signature-type-agreement": Case(
        # The type of `a` is known, since the output of Relu has the type of its input.
        model(_X + _IDS + node("x", "a") + node("a ids", "b", op="Add") + node("x", "c", op="Abs") + _INT64_INFO_OF_C),
        model(_X + _IDS + node("x", "a") + node("a x", "b", op="Add") + node("ids", "c", op="Abs") + _INT64_INFO_OF_C),
        ("graph.node[1].input[1]", "graph.node[2].output[0]"),
    ),
}
