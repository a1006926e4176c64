"""Cases of the rules of data types that an IR version does not have."""

from check_case import Case, model, value

_PATHS = (
    "graph.initializer[0]",
    "graph.input[0].type.tensor_type",
    "graph.input[2].type.sequence_type.elem_type.tensor_type",
    "graph.input[1].type.sparse_tensor_type",
)


def _model_with_types(number: int, ir: int) -> str:
    """Return a model with a tensor and three inputs whose element types have this number."""
    type_fields = f"{{ elem_type: {number} shape {{ dim {{ dim_value: 1 }} }} }}"
    return model(
        f'initializer {{ name: "t" data_type: {number} dims: 0 }}'
        f" input {{ {value('a', f'type {{ tensor_type {type_fields} }}')} }}"
        f" input {{ {value('b', f'type {{ sparse_tensor_type {type_fields} }}')} }}"
        f" input {{ {value('c', f'type {{ sequence_type {{ elem_type {{ tensor_type {type_fields} }} }} }}')} }}",
        ir,
    )


def _case_of_version(version: int, number: int) -> Case:
    """Return the case of a data type that an IR version introduced."""
    # Both documents are of the last version without the type; the valid document uses FLOAT, which every version has.
    valid = _model_with_types(1, version - 1)
    return Case(_model_with_types(number, version - 1), valid, _PATHS)


CASES = {
    "dtype-bfloat16-before-ir4": _case_of_version(4, 16),
    "dtype-float8-before-ir9": _case_of_version(9, 20),
    "dtype-int4-before-ir10": _case_of_version(10, 22),
    "dtype-float4-before-ir11": _case_of_version(11, 23),
    "dtype-float8e8m0-before-ir12": _case_of_version(12, 24),
    "dtype-int2-before-ir13": _case_of_version(13, 25),
    "dtype-float6-before-ir14": _case_of_version(14, 27),
}
