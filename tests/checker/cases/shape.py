"""Cases of the rules of shapes."""

from check_case import Case, float_type, model, node, value

_DIM = "graph.input[0].type.tensor_type.shape.dim[0]"


def _model_with_dim(dim_fields: str) -> str:
    """Return a model with an input of one dimension, which has these fields (in text format)."""
    return model(f"input {{ {value('x', float_type(f'dim {{ {dim_fields} }}'))} }}")


def _model_with_dim_bytes(dim: bytes) -> bytes:
    """Return the bytes of a model whose only dimension has these bytes."""
    for number in (1, 2, 1, 2, 11, 7):  # dim, shape, tensor_type, type, input, graph
        dim = bytes([number << 3 | 2, len(dim)]) + dim
    return dim


def _model_with_value_info(size: int) -> str:
    """Return a model with inputs x and y of shape [n]. The value_info of x has shape [2], and that of y [size]."""
    types = [
        float_type('dim { dim_param: "n" }'),
        float_type("dim { dim_value: 2 }"),
        float_type(f"dim {{ dim_value: {size} }}"),
    ]
    return model(
        f"input {{ {value('x', types[0])} }} input {{ {value('y', types[0])} }}"
        f"{node('x y', 'z')} value_info {{ {value('x', types[1])} }} value_info {{ {value('y', types[2])} }}"
    )


CASES = {
    # Only the wire format can represent this: dim_value 1, then dim_param "n".
    "shape-dim-oneof": Case(_model_with_dim_bytes(b"\x08\x01\x12\x01n"), _model_with_dim_bytes(b"\x12\x01n"), (_DIM,)),
    "shape-dim-value-nonnegative": Case(_model_with_dim("dim_value: -1"), _model_with_dim("dim_value: 0"), (_DIM,)),
    "shape-dim-param-empty": Case(_model_with_dim('dim_param: ""'), _model_with_dim(""), (_DIM,)),
    "shape-dim-param-wildcard": Case(_model_with_dim('dim_param: "*"'), _model_with_dim('dim_param: "n"'), (_DIM,)),
    "dim-param-c90-identifier": Case(
        _model_with_dim('dim_param: "n + 1"'), _model_with_dim('dim_param: "n_1"'), (_DIM,)
    ),
    "shape-dim-param-consistent": Case(_model_with_value_info(3), _model_with_value_info(2), ("graph.input[1]",)),
    "shape-dim-denotation-known": Case(
        _model_with_dim('denotation: "BATCH"'), _model_with_dim('denotation: "DATA_BATCH"'), (_DIM,)
    ),
}
