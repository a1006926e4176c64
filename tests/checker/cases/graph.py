"""Cases of the rules of graphs."""

from check_case import Case, float_type, graph_attribute, model, nested_model, node, sparse, tensor, value

_X = f"input {{ {value('x')} }}"
_TYPE_OF_SYMBOLIC_SHAPE = float_type('dim { dim_param: "n" }')
_NESTED_GRAPH = "graph.node[0].attribute[0].g"


def _model_with_initializers(*names: str, inputs: str = "", ir: int = 8, sparse_names: str = "") -> str:
    """Return a model with dense initializers of these names.

    inputs, sparse_names: the names of the inputs and of the sparse initializers, separated by spaces.
    """
    text = " ".join(f"initializer {{ {tensor(name)} }}" for name in names)
    text += " ".join(f" sparse_initializer {{ {sparse(name)} }}" for name in sparse_names.split())
    return model(text + " ".join(f" input {{ {value(name)} }}" for name in inputs.split()), ir=ir)


def _model_with_value_info(info: str, fields: str = "", ir: int = 8) -> str:
    """Return a model with a node that computes y from x, and a value_info.

    info: the fields of the value_info. fields: other fields of the graph.
    """
    return model(f"{_X} {node('x', 'y')} value_info {{ {info} }} output {{ {value('y')} }} {fields}", ir=ir)


def _model_with_annotation(tensor_name: str = "x", entries: str = "", ir: int = 8) -> str:
    """Return a model with the input x and a quantization annotation."""
    return model(f'{_X} quantization_annotation {{ tensor_name: "{tensor_name}" {entries} }}', ir=ir)


def _entry(key: str, value: str) -> str:
    """Return an entry of a quantization annotation."""
    return f'quant_parameter_tensor_names {{ key: "{key}" value: "{value}" }}'


CASES = {
    "graph-name-present": Case(model(name=""), model(), ("graph",)),
    "graph-name-unique": Case(
        model(node("", "o", graph_attribute("", graph_name="g"))),
        model(node("", "o", graph_attribute("", graph_name="h"))),
        (_NESTED_GRAPH,),
    ),
    "graph-doc-string-present": Case(model(), model('doc_string: "It adds."'), ("graph",)),
    "graph-acyclic": Case(
        model(node("b", "a") + node("a", "b") + node("a", "c")),
        model(node("b", "a") + node("", "b")),
        ("graph.node[0]",),
    ),
    "graph-topological-order": Case(
        model(node("b", "a") + node("", "b")), model(node("", "b") + node("b", "a")), ("graph.node[0].input[0]",)
    ),
    "subgraph-topological-order": Case(
        nested_model(node("b", "a") + node("", "b")),
        nested_model(node("", "b") + node("b", "a")),
        (f"{_NESTED_GRAPH}.node[0].input[0]",),
    ),
    "graph-node-input-defined": Case(
        nested_model(node("x lost", "a")), nested_model(node("x -", "a")), (f"{_NESTED_GRAPH}.node[0].input[1]",)
    ),
    "subgraph-capture-visible": Case(
        nested_model(node("o", "a") + node("late", "b"), after=node("x", "late")),
        nested_model(node("early", "a"), before=node("x", "early")),
        (f"{_NESTED_GRAPH}.node[0].input[0]", f"{_NESTED_GRAPH}.node[1].input[0]"),
    ),
    "graph-input-name-unique": Case(model(f"{_X} {_X}"), model(f"{_X} input {{ {value('y')} }}"), ("graph.input[1]",)),
    "graph-output-defined": Case(
        model(f"{_X} output {{ {value('y')} }}"), model(f"{_X} output {{ {value('x')} }}"), ("graph.output[0]",)
    ),
    "subgraph-output-defined-locally": Case(
        nested_model(f"output {{ {value('x')} }}"),
        nested_model(f"{node('x', 'y')} output {{ {value('y')} }}"),
        (f"{_NESTED_GRAPH}.output[0]",),
    ),
    "graph-output-name-unique": Case(
        model(f"{_X} output {{ {value('x')} }} output {{ {value('x')} }}"),
        model(f"{_X} output {{ {value('x')} }}"),
        ("graph.output[1]",),
    ),
    "node-output-ssa": Case(
        model(node("", "a a") + node("", "a")),
        model(node("", "a - -") + node("", "b -")),
        ("graph.node[0].output[1]", "graph.node[1].output[0]"),
    ),
    "node-output-redefines-input": Case(
        model(_X + node("", "x")), model(_X + node("", "y")), ("graph.node[0].output[0]",)
    ),
    "node-output-redefines-initializer": Case(
        model(f"initializer {{ {tensor('w')} }} sparse_initializer {{ {sparse('s')} }}" + node("", "w s")),
        model(f"initializer {{ {tensor('w')} }} sparse_initializer {{ {sparse('s')} }}" + node("", "v t")),
        ("graph.node[0].output[0]", "graph.node[0].output[1]"),
    ),
    "subgraph-node-output-no-shadowing": Case(
        nested_model(node("", "x")), nested_model(node("", "o")), (f"{_NESTED_GRAPH}.node[0].output[0]",)
    ),
    "subgraph-input-no-shadowing": Case(
        nested_model(f"input {{ {value('x')} }}"),
        nested_model(f"input {{ {value('i')} }}"),
        (f"{_NESTED_GRAPH}.input[0]",),
    ),
    "subgraph-initializer-no-shadowing": Case(
        nested_model(f"initializer {{ {tensor('x')} }}"),
        nested_model(f"initializer {{ {tensor('w')} }}"),
        (f"{_NESTED_GRAPH}.initializer[0]",),
    ),
    "initializer-name-present": Case(
        _model_with_initializers(""), _model_with_initializers("w"), ("graph.initializer[0]",)
    ),
    "initializer-name-unique": Case(
        _model_with_initializers("w", "w"), _model_with_initializers("w", "v"), ("graph.initializer[1]",)
    ),
    "sparse-initializer-name-present": Case(
        model(f"sparse_initializer {{ {sparse('')} }}"),
        model(f"sparse_initializer {{ {sparse('s')} }}"),
        ("graph.sparse_initializer[0]",),
    ),
    "sparse-initializer-name-unique": Case(
        _model_with_initializers("w", sparse_names="w s s"),
        _model_with_initializers("w", sparse_names="s"),
        ("graph.sparse_initializer[0]", "graph.sparse_initializer[2]"),
    ),
    "initializer-subset-of-inputs": Case(
        _model_with_initializers("w", ir=3), _model_with_initializers("w", inputs="w", ir=3), ("graph.initializer[0]",)
    ),
    "initializer-overridable": Case(
        _model_with_initializers("w", inputs="w"), _model_with_initializers("w", inputs="x"), ("graph.initializer[0]",)
    ),
    "initializer-input-type-match": Case(
        model(f"initializer {{ {tensor('w')} }} input {{ {value('w', 'type { tensor_type { elem_type: 7 } }')} }}"),
        _model_with_initializers("w", inputs="w"),
        ("graph.initializer[0]",),
    ),
    "initializer-input-shape-match": Case(
        _model_with_initializers("w", inputs="w"),
        model(f"initializer {{ {tensor('w')} }} input {{ {value('w', _TYPE_OF_SYMBOLIC_SHAPE)} }}"),
        ("graph.initializer[0]",),
    ),
    "subgraph-initializer-not-input": Case(
        nested_model(f"input {{ {value('w')} }} initializer {{ {tensor('w')} }}"),
        nested_model(f"input {{ {value('v')} }} initializer {{ {tensor('w')} }}"),
        (f"{_NESTED_GRAPH}.initializer[0]",),
    ),
    "subgraph-initializer-after-actual-inputs": Case(
        nested_model(f"input {{ {value('w')} }} input {{ {value('i')} }} initializer {{ {tensor('w')} }}"),
        nested_model(f"input {{ {value('i')} }} input {{ {value('w')} }} initializer {{ {tensor('w')} }}"),
        (f"{_NESTED_GRAPH}.input[1]",),
        options={"ir_version": 3},
    ),
    "graph-value-info-name-unique": Case(
        _model_with_value_info(value("y"), f"value_info {{ {value('y')} }}"),
        _model_with_value_info(value("y"), f"value_info {{ {value('x')} }}"),
        ("graph.value_info[1]",),
    ),
    "graph-value-info-known-name": Case(
        _model_with_value_info(value("z")), _model_with_value_info(value("y")), ("graph.value_info[0]",)
    ),
    "graph-value-info-not-io": Case(
        _model_with_value_info(value("y"), f"value_info {{ {value('x')} }}"),
        _model_with_value_info(value("h"), node("y", "h")),
        ("graph.value_info[0]", "graph.value_info[1]"),
    ),
    "graph-value-info-contradiction": Case(
        _model_with_value_info(value("y", float_type("dim { dim_value: 3 }"))),
        _model_with_value_info(value("y", float_type("dim { }"))),
        ("graph.value_info[0]",),
    ),
    "graph-sparse-initializer-before-ir6": Case(
        _model_with_initializers(sparse_names="s", ir=5),
        _model_with_initializers(sparse_names="s", ir=6),
        ("graph.sparse_initializer[0]",),
    ),
    "graph-quantization-before-ir5": Case(
        _model_with_annotation(ir=4), _model_with_annotation(ir=5), ("graph.quantization_annotation[0]",)
    ),
    "quant-annotation-tensor-name": Case(
        _model_with_annotation("z"), _model_with_annotation("x"), ("graph.quantization_annotation[0]",)
    ),
    "quant-annotation-tensor-unique": Case(
        model(f'{_X} quantization_annotation {{ tensor_name: "x" }} quantization_annotation {{ tensor_name: "x" }}'),
        _model_with_annotation("x"),
        ("graph.quantization_annotation[1]",),
    ),
    "quant-annotation-key-known": Case(
        _model_with_annotation(entries=_entry("SCALE", "x")),
        _model_with_annotation(entries=_entry("SCALE_TENSOR", "x")),
        ("graph.quantization_annotation[0].quant_parameter_tensor_names[0]",),
    ),
    "quant-annotation-key-unique": Case(
        _model_with_annotation(entries=_entry("SCALE_TENSOR", "x") * 2),
        _model_with_annotation(entries=_entry("SCALE_TENSOR", "x") + _entry("ZERO_POINT_TENSOR", "x")),
        ("graph.quantization_annotation[0].quant_parameter_tensor_names[1]",),
    ),
    "quant-annotation-value-known": Case(
        _model_with_annotation(entries=_entry("SCALE_TENSOR", "z")),
        _model_with_annotation(entries=_entry("SCALE_TENSOR", "x")),
        ("graph.quantization_annotation[0].quant_parameter_tensor_names[0]",),
    ),
}
