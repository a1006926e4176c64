from check_case import FLOAT, OPSET, Case, holding, model, node, value
from wire import span

from onnxwire import GraphProto, ModelProto, from_text

_DENOTED_TYPE = 'type { tensor_type { elem_type: 1 shape { dim { dim_value: 2 } } } denotation: "TENSOR" }'
_TENSOR = "tensor_type { elem_type: 1 shape { } }"
_MAP = "map_type { key_type: 8 value_type { %s } }"
_TYPE = "graph.input[0].type"


def _inputs(*types: str, ir: int = 8) -> str:
    """Return a model with inputs of these types."""
    return model("".join(f"input {{ {value(f'x{i}', f'type {{ {type} }}')} }}" for i, type in enumerate(types)), ir)


def _input(type: str, ir: int = 8) -> str:
    return _inputs(type, ir=ir)


def _inner(type: str) -> str:
    """Return a model with a nested graph that describes a value of a type."""
    info = f"value_info {{ {value('t', f'type {{ {type} }}')} }}"
    return model(f"input {{ {value('x')} }}" + node("x", "o", holding(node("x", "t") + info), op="If"))


def _after(type: bytes) -> bytes:
    """Make a model with an input whose type has no kind, and an input whose type has these bytes."""
    hollow = f"name: 'g' input {{ {value('x', 'type { sequence_type { elem_type { } } }')} }}"
    graph = from_text(hollow, GraphProto).SerializeToString() + span(11, span(1, b"y") + span(2, type))
    return from_text(f"ir_version: 8 {OPSET}", ModelProto).SerializeToString() + span(7, graph)


CASES = {
    "type-value-case-set": Case(
        # Only the wire format can represent this: tensor_type, then sequence_type.
        _after(span(1, b"\x08\x01") + span(4, span(1, span(1, b"\x08\x01")))),
        _input(f"sequence_type {{ elem_type {{ {_TENSOR} }} }}"),
        (f"{_TYPE}.sequence_type.elem_type", "graph.input[1].type"),
    ),
    "type-tensor-elem-type": Case(
        _inputs(
            "tensor_type { shape { } }",
            "tensor_type { elem_type: 99 shape { } }",
            "sequence_type { elem_type { tensor_type { elem_type: 0 } } }",
            "sequence_type { elem_type { tensor_type { elem_type: 28 } } }",
        ),
        _input("tensor_type { elem_type: 1 shape { } }"),
        (
            "graph.input[0].type.tensor_type",
            "graph.input[2].type.sequence_type.elem_type.tensor_type",
            "graph.input[1].type.tensor_type",
        ),
    ),
    "type-sparse-elem-type": Case(
        _input("sparse_tensor_type { shape { } }"),
        _input("sparse_tensor_type { elem_type: 7 shape { } }"),
        (f"{_TYPE}.sparse_tensor_type",),
    ),
    "type-sequence-elem-type-present": Case(
        _input("sequence_type { }"),
        _input(f"sequence_type {{ elem_type {{ {_TENSOR} }} }}"),
        (f"{_TYPE}.sequence_type",),
    ),
    "type-map-key-type": Case(
        _inputs(f"map_type {{ value_type {{ {_TENSOR} }} }}", f"map_type {{ key_type: 1 value_type {{ {_TENSOR} }} }}"),
        _input(f"map_type {{ key_type: 8 value_type {{ {_TENSOR} }} }}"),
        ("graph.input[0].type.map_type", "graph.input[1].type.map_type"),
    ),
    "type-map-value-type": Case(
        _input("map_type { key_type: 8 }"),
        _input(f"map_type {{ key_type: 8 value_type {{ {_TENSOR} }} }}"),
        (f"{_TYPE}.map_type",),
    ),
    "type-optional-elem-type-present": Case(
        _input("optional_type { }"),
        _input(f"optional_type {{ elem_type {{ {_TENSOR} }} }}"),
        (f"{_TYPE}.optional_type",),
    ),
    "type-optional-elem-kind": Case(
        _inputs(
            f"optional_type {{ elem_type {{ optional_type {{ elem_type {{ {_TENSOR} }} }} }} }}",
            'optional_type { elem_type { opaque_type { name: "T" } } }',
        ),
        _input(f"optional_type {{ elem_type {{ sequence_type {{ elem_type {{ {_TENSOR} }} }} }} }}"),
        ("graph.input[0].type.optional_type.elem_type", "graph.input[1].type.optional_type.elem_type"),
    ),
    "type-opaque-name-present": Case(
        _input('opaque_type { domain: "a.b" }', 14),
        _input('opaque_type { domain: "a.b" name: "T" }', 14),
        (f"{_TYPE}.opaque_type",),
    ),
    "type-opaque-domain-default": Case(
        _input('opaque_type { name: "T" }', 14),
        _input('opaque_type { domain: "a.b" name: "T" }', 14),
        (f"{_TYPE}.opaque_type",),
    ),
    "type-nested-valid": Case(
        _inner(f"optional_type {{ elem_type {{ sequence_type {{ elem_type {{ {_MAP % ''} }} }} }} }}"),
        _inner(f"optional_type {{ elem_type {{ sequence_type {{ elem_type {{ {_MAP % _TENSOR} }} }} }} }}"),
        ("graph.node[0].attribute[0].g.value_info[0].type",),
    ),
    "type-denotation-known": Case(
        _input(f'{_TENSOR} denotation: "VIDEO"'), _input(f'{_TENSOR} denotation: "AUDIO"'), (_TYPE,)
    ),
    "type-denotation-present": Case(
        model(f"input {{ {value('x', _DENOTED_TYPE)} }} output {{ {value('x', FLOAT)} }}"),
        model(f"input {{ {value('x', _DENOTED_TYPE)} }} value_info {{ {value('t', FLOAT)} }}"),
        ("graph.output[0].type",),
    ),
    "type-sequence-map-before-ir6": Case(
        _input(f"sequence_type {{ elem_type {{ map_type {{ key_type: 7 value_type {{ {_TENSOR} }} }} }} }}", 5),
        _input(_TENSOR, 5),
        (_TYPE, f"{_TYPE}.sequence_type.elem_type"),
    ),
    "type-sparse-before-ir8": Case(
        _input("sparse_tensor_type { elem_type: 1 shape { } }", 7), _input(_TENSOR, 7), (_TYPE,)
    ),
    "type-optional-before-ir8": Case(
        _input(f"optional_type {{ elem_type {{ {_TENSOR} }} }}", 7), _input(_TENSOR, 7), (_TYPE,)
    ),
    "type-opaque-before-ir14": Case(
        _input('opaque_type { domain: "a.b" name: "T" }', 13), _input(_TENSOR, 13), (_TYPE,)
    ),
}
