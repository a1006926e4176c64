"""Cases of the rules of types."""

from check_case import FLOAT, OPSET, Case, graph_attribute, model, node, value
from wire import len_record

from onnxwire import GraphProto, ModelProto, from_text

_DENOTED_TYPE = 'type { tensor_type { elem_type: 1 shape { dim { dim_value: 2 } } } denotation: "TENSOR" }'
_TENSOR = "tensor_type { elem_type: 1 shape { } }"
# A map type. %s is replaced by the fields of value_type.
_MAP = "map_type { key_type: 8 value_type { %s } }"
_TYPE_PATH = "graph.input[0].type"


def _model_with_inputs(*types: str, ir: int = 8) -> str:
    """Return a model with inputs of these types."""
    return model("".join(f"input {{ {value(f'x{i}', f'type {{ {type} }}')} }}" for i, type in enumerate(types)), ir)


def _model_with_input(type: str, ir: int = 8) -> str:
    """Return a model with an input of this type."""
    return _model_with_inputs(type, ir=ir)


def _model_with_nested_type(type: str) -> str:
    """Return a model with a nested graph whose value_info has this type."""
    info = f"value_info {{ {value('t', f'type {{ {type} }}')} }}"
    return model(f"input {{ {value('x')} }}" + node("x", "o", graph_attribute(node("x", "t") + info), op="If"))


def _model_with_type_bytes(type: bytes) -> bytes:
    """Return the bytes of a model with two inputs: a sequence whose element type is empty, and a value of this type.

    type: the bytes of the type of the second input.
    """
    # The numbers are those of GraphProto.input, of name and type in ValueInfoProto, and of ModelProto.graph.
    graph_text = f"name: 'g' input {{ {value('x', 'type { sequence_type { elem_type { } } }')} }}"
    graph = from_text(graph_text, GraphProto).SerializeToString() + len_record(
        11, len_record(1, b"y") + len_record(2, type)
    )
    return from_text(f"ir_version: 8 {OPSET}", ModelProto).SerializeToString() + len_record(7, graph)


CASES = {
    "type-value-case-set": Case(
        # Only the wire format can represent two members of a oneof: tensor_type (1), then sequence_type (4) of tensors.
        # The bytes 8 and 1 are elem_type FLOAT.
        _model_with_type_bytes(len_record(1, b"\x08\x01") + len_record(4, len_record(1, len_record(1, b"\x08\x01")))),
        _model_with_input(f"sequence_type {{ elem_type {{ {_TENSOR} }} }}"),
        (f"{_TYPE_PATH}.sequence_type.elem_type", "graph.input[1].type"),
    ),
    "type-tensor-elem-type": Case(
        _model_with_inputs(
            "tensor_type { shape { } }",
            "tensor_type { elem_type: 99 shape { } }",
            "sequence_type { elem_type { tensor_type { elem_type: 0 } } }",
            "sequence_type { elem_type { tensor_type { elem_type: 28 } } }",
        ),
        _model_with_input("tensor_type { elem_type: 1 shape { } }"),
        (
            "graph.input[0].type.tensor_type",
            "graph.input[2].type.sequence_type.elem_type.tensor_type",
            "graph.input[1].type.tensor_type",
        ),
    ),
    "type-sparse-elem-type": Case(
        _model_with_input("sparse_tensor_type { shape { } }"),
        _model_with_input("sparse_tensor_type { elem_type: 7 shape { } }"),
        (f"{_TYPE_PATH}.sparse_tensor_type",),
    ),
    "type-sequence-elem-type-present": Case(
        _model_with_input("sequence_type { }"),
        _model_with_input(f"sequence_type {{ elem_type {{ {_TENSOR} }} }}"),
        (f"{_TYPE_PATH}.sequence_type",),
    ),
    "type-map-key-type": Case(
        _model_with_inputs(
            f"map_type {{ value_type {{ {_TENSOR} }} }}", f"map_type {{ key_type: 1 value_type {{ {_TENSOR} }} }}"
        ),
        _model_with_input(f"map_type {{ key_type: 8 value_type {{ {_TENSOR} }} }}"),
        ("graph.input[0].type.map_type", "graph.input[1].type.map_type"),
    ),
    "type-map-value-type": Case(
        _model_with_input("map_type { key_type: 8 }"),
        _model_with_input(f"map_type {{ key_type: 8 value_type {{ {_TENSOR} }} }}"),
        (f"{_TYPE_PATH}.map_type",),
    ),
    "type-optional-elem-type-present": Case(
        _model_with_input("optional_type { }"),
        _model_with_input(f"optional_type {{ elem_type {{ {_TENSOR} }} }}"),
        (f"{_TYPE_PATH}.optional_type",),
    ),
    "type-optional-elem-kind": Case(
        _model_with_inputs(
            f"optional_type {{ elem_type {{ optional_type {{ elem_type {{ {_TENSOR} }} }} }} }}",
            'optional_type { elem_type { opaque_type { name: "T" } } }',
        ),
        _model_with_input(f"optional_type {{ elem_type {{ sequence_type {{ elem_type {{ {_TENSOR} }} }} }} }}"),
        ("graph.input[0].type.optional_type.elem_type", "graph.input[1].type.optional_type.elem_type"),
    ),
    "type-opaque-name-present": Case(
        _model_with_input('opaque_type { domain: "a.b" }', 14),
        _model_with_input('opaque_type { domain: "a.b" name: "T" }', 14),
        (f"{_TYPE_PATH}.opaque_type",),
    ),
    "type-opaque-domain-default": Case(
        _model_with_input('opaque_type { name: "T" }', 14),
        _model_with_input('opaque_type { domain: "a.b" name: "T" }', 14),
        (f"{_TYPE_PATH}.opaque_type",),
    ),
    "type-nested-valid": Case(
        _model_with_nested_type(f"optional_type {{ elem_type {{ sequence_type {{ elem_type {{ {_MAP % ''} }} }} }} }}"),
        _model_with_nested_type(
            f"optional_type {{ elem_type {{ sequence_type {{ elem_type {{ {_MAP % _TENSOR} }} }} }} }}"
        ),
        ("graph.node[0].attribute[0].g.value_info[0].type",),
    ),
    "type-denotation-known": Case(
        _model_with_input(f'{_TENSOR} denotation: "VIDEO"'),
        _model_with_input(f'{_TENSOR} denotation: "AUDIO"'),
        (_TYPE_PATH,),
    ),
    "type-denotation-present": Case(
        model(f"input {{ {value('x', _DENOTED_TYPE)} }} output {{ {value('x', FLOAT)} }}"),
        model(f"input {{ {value('x', _DENOTED_TYPE)} }} value_info {{ {value('t', FLOAT)} }}"),
        ("graph.output[0].type",),
    ),
    "type-sequence-map-before-ir6": Case(
        _model_with_input(
            f"sequence_type {{ elem_type {{ map_type {{ key_type: 7 value_type {{ {_TENSOR} }} }} }} }}", 5
        ),
        _model_with_input(_TENSOR, 5),
        (_TYPE_PATH, f"{_TYPE_PATH}.sequence_type.elem_type"),
    ),
    "type-sparse-before-ir8": Case(
        _model_with_input("sparse_tensor_type { elem_type: 1 shape { } }", 7),
        _model_with_input(_TENSOR, 7),
        (_TYPE_PATH,),
    ),
    "type-optional-before-ir8": Case(
        _model_with_input(f"optional_type {{ elem_type {{ {_TENSOR} }} }}", 7),
        _model_with_input(_TENSOR, 7),
        (_TYPE_PATH,),
    ),
    "type-opaque-before-ir14": Case(
        _model_with_input('opaque_type { domain: "a.b" name: "T" }', 13), _model_with_input(_TENSOR, 13), (_TYPE_PATH,)
    ),
}
