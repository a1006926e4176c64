"""Cases of the rules of training."""

from check_case import Case, float_type, graph_attribute, model, node, sparse, tensor, value

_OPSET = 'opset_import { version: 17 } opset_import { domain: "ai.onnx.preview.training" version: 1 }'
_MAIN_GRAPH = (
    f"input {{ {value('x')} }} initializer {{ {tensor('w')} }} sparse_initializer {{ {sparse('s')} }} "
    f"{node('x w', 'y', op='Add')} output {{ {value('y')} }}"
)
_INITIALIZATION = f'initialization {{ name: "i" {node("", "v")} output {{ {value("v")} }} }}'
_BINDING = 'initialization_binding { key: "w" value: "v" }'
_ENTRY_PATH = "training_info[0]"


def _model(*entries: str, main: str = _MAIN_GRAPH) -> str:
    """Return a model with these entries of training_info."""
    return model(main, 8, _OPSET, "".join(f"training_info {{ {entry} }}" for entry in entries))


def _algorithm(content: str = "") -> str:
    """Return an algorithm that computes u from w and its initializer m. content: more fields of its graph."""
    return (
        f'algorithm {{ name: "a" initializer {{ {tensor("m")} }} {content} {node("w m", "u", op="Add")} '
        f"output {{ {value('u')} }} }}"
    )


def _update_binding(key: str = "w", value: str = "u") -> str:
    """Return an update binding."""
    return f'update_binding {{ key: "{key}" value: "{value}" }}'


def _initialization_binding(key: str = "w", value: str = "v") -> str:
    """Return an initialization binding."""
    return f'initialization_binding {{ key: "{key}" value: "{value}" }}'


CASES = {
    "training-initialization-present": Case(_model(_BINDING), _model(_INITIALIZATION + _BINDING), (_ENTRY_PATH,)),
    "training-initialization-no-inputs": Case(
        _model(f'initialization {{ name: "i" input {{ {value("q")} }} }}'),
        _model(f'initialization {{ name: "i" initializer {{ {tensor("q")} }} }}'),
        (f"{_ENTRY_PATH}.initialization",),
    ),
    # Broken: the keys are an initializer of another entry's algorithm, and a value that is not an initializer.
    "training-initialization-key-initializer": Case(
        _model(_INITIALIZATION + _initialization_binding("m") + _initialization_binding("y"), _algorithm()),
        _model(
            _INITIALIZATION
            + _initialization_binding("m")
            + _initialization_binding("w")
            + _initialization_binding("s")
            + _algorithm()
        ),
        (f"{_ENTRY_PATH}.initialization_binding[0]", f"{_ENTRY_PATH}.initialization_binding[1]"),
    ),
    "training-initialization-value-output": Case(
        _model(_INITIALIZATION + _initialization_binding("w", "y")),
        _model(_INITIALIZATION + _BINDING),
        (f"{_ENTRY_PATH}.initialization_binding[0]",),
    ),
    "training-initialization-key-unique": Case(
        _model(_INITIALIZATION + _BINDING + _initialization_binding("s") + _BINDING),
        _model(_INITIALIZATION + _BINDING + _initialization_binding("s"), _INITIALIZATION + _BINDING),
        (f"{_ENTRY_PATH}.initialization_binding[2]",),
    ),
    "training-update-key-initializer": Case(
        _model(_algorithm() + _update_binding("x") + _update_binding("m"), _update_binding("m")),
        _model(_algorithm() + _update_binding("w") + _update_binding("m")),
        (f"{_ENTRY_PATH}.update_binding[0]", "training_info[1].update_binding[0]"),
    ),
    "training-update-value-output": Case(
        _model(_algorithm() + _update_binding("w", "m")),
        _model(_algorithm() + _update_binding() + _update_binding("m", "y")),
        (f"{_ENTRY_PATH}.update_binding[0]",),
    ),
    "training-update-key-unique": Case(
        _model(_algorithm() + _update_binding(), _algorithm() + _update_binding()),
        _model(_algorithm() + _update_binding(), _algorithm() + _update_binding("m")),
        ("training_info[1].update_binding[0]",),
    ),
    "training-algorithm-present": Case(
        _model(_update_binding() + _update_binding("s", "y")),
        _model(_update_binding("w", "y") + _update_binding("s", "y")),
        (_ENTRY_PATH,),
    ),
    # An initializer may be the default of an input, whether both are in one graph or in two.
    "training-algorithm-combined-valid": Case(
        _model(
            _algorithm(
                f"input {{ {value('x')} }} initializer {{ {tensor('w')} }} sparse_initializer {{ {sparse('y')} }} "
                f"{node('y', 'x')} value_info {{ {value('t')} }}"
            ),
            main=f"{_MAIN_GRAPH} value_info {{ {value('t')} }}",
        ),
        _model(
            _algorithm(
                f"input {{ {value('w')} }} initializer {{ {tensor('x')} }} sparse_initializer {{ {sparse('z')} }} "
                f"{node('y', 'q')} value_info {{ {value('q')} }}"
            ),
            _algorithm(node("y", "q")),
            main=f"{_MAIN_GRAPH} value_info {{ {value('t')} }}",
        ),
        (
            f"{_ENTRY_PATH}.algorithm.input[0]",
            f"{_ENTRY_PATH}.algorithm.initializer[1]",
            f"{_ENTRY_PATH}.algorithm.sparse_initializer[0]",
            f"{_ENTRY_PATH}.algorithm.node[0].output[0]",
            f"{_ENTRY_PATH}.algorithm.value_info[0]",
        ),
    ),
    "training-inference-independent": Case(
        _model(
            _algorithm(), main=_MAIN_GRAPH + node("u", "z") + node("x", "o", graph_attribute(node("m", "t")), op="If")
        ),
        _model(
            _algorithm() + _INITIALIZATION,
            main=_MAIN_GRAPH + node("v", "z") + node("x", "o", graph_attribute(node("x", "t")), op="If"),
        ),
        ("graph.node[1].input[0]", "graph.node[2].attribute[0].g.node[0].input[0]"),
    ),
    "training-graphs-valid": Case(
        _model(f'initialization {{ name: "i" {node("w", "v")} output {{ {value("v")} }} }}'),
        _model(f'initialization {{ name: "i" initializer {{ {tensor("w")} }} {node("w", "v")} }}', _algorithm()),
        (f"{_ENTRY_PATH}.initialization.node[0].input[0]",),
    ),
    "training-binding-nonempty": Case(
        _model(_INITIALIZATION + 'initialization_binding { value: "v" } update_binding { key: "w" }'),
        _model(_INITIALIZATION + _BINDING + _update_binding("w", "y")),
        (f"{_ENTRY_PATH}.initialization_binding[0]", f"{_ENTRY_PATH}.update_binding[0]"),
    ),
    # w and m are floats with dims [1]. In the broken model, v has 2 elements, and u has the type INT64.
    "training-binding-type-match": Case(
        _model(
            f'initialization {{ name: "i" output {{ {value("v", float_type("dim { dim_value: 2 }"))} }} }}'
            + _initialization_binding("w")
            + f'algorithm {{ name: "a" initializer {{ {tensor("m")} }} output {{ name: "u" '
            + "type { tensor_type { elem_type: 7 } } } }"
            + _update_binding("m")
        ),
        _model(
            f'initialization {{ name: "i" output {{ {value("v", float_type("dim { dim_value: 1 }"))} }} }}'
            + _initialization_binding("w")
            + f'algorithm {{ name: "a" initializer {{ {tensor("m")} }} output {{ name: "u" '
            + "type { tensor_type { elem_type: 1 } } } }"
            + _update_binding("m")
        ),
        (f"{_ENTRY_PATH}.initialization_binding[0]", f"{_ENTRY_PATH}.update_binding[0]"),
    ),
}
