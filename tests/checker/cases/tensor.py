"""Cases of the rules of tensors."""

from check_case import Case, model

_FIRST_INITIALIZER = ("graph.initializer[0]",)

# Numbers of TensorProto.DataType.
FLOAT, UINT8, INT8, UINT16, INT16, INT32, INT64, STRING, BOOL, FLOAT16, DOUBLE, UINT32, UINT64 = range(1, 14)
COMPLEX64, COMPLEX128, BFLOAT16, FLOAT8E4M3FN = 14, 15, 16, 17
UINT4, INT4, FLOAT4E2M1, FLOAT8E8M0, UINT2, INT2, FLOAT6E2M3, FLOAT6E3M2 = range(21, 29)


def model_with_initializers(*tensors: str, ir: int = 14) -> str:
    """Return a model with initializers t0, t1, and so on. tensors: the other fields of each initializer."""
    return model(" ".join(f'initializer {{ name: "t{i}" {tensor} }}' for i, tensor in enumerate(tensors)), ir)


def tensor(data_type: int, dims: str, fields: str) -> str:
    """Return the fields of a TensorProto without a name. dims: separated by spaces."""
    return f"data_type: {data_type} {' '.join(f'dims: {dim}' for dim in dims.split())} {fields}"


def list_field(field: str, *values: object) -> str:
    """Return a field with a list of numbers."""
    return f"{field}: [{', '.join(map(str, values))}]"


def raw_data(*values: int) -> str:
    """Return the field raw_data with these bytes."""
    escaped = "".join(f"\\x{value:02x}" for value in values)
    return f'raw_data: "{escaped}"'


def initializer_case(broken: str, valid: str, ir: int = 14) -> Case:
    """Return a case with a broken initializer in one document and a valid initializer in the other."""
    return Case(model_with_initializers(broken, ir=ir), model_with_initializers(valid, ir=ir), _FIRST_INITIALIZER)


def initializers_case(*initializer_pairs: tuple[str, str], ir: int = 14) -> Case:
    """Return a case of several initializers; all of them are broken in one document, and valid in the other."""
    return Case(
        model_with_initializers(*(broken for broken, _ in initializer_pairs), ir=ir),
        model_with_initializers(*(valid for _, valid in initializer_pairs), ir=ir),
        tuple(f"graph.initializer[{i}]" for i in range(len(initializer_pairs))),
    )


def _floats(n: int) -> str:
    """Return float_data of n numbers."""
    return list_field("float_data", *range(n))


def _ints(n: int) -> str:
    """Return int32_data of n numbers."""
    return list_field("int32_data", *range(n))


def _strings(n: int) -> str:
    """Return string_data of n strings."""
    return 'string_data: "s" ' * n


_SEGMENT = "segment { begin: %d end: %d }"
_HUGE_COUNT = 1 << 62

CASES = {
    "tensor-data-type-present": initializers_case(
        (tensor(0, "1", _floats(1)), tensor(FLOAT, "1", _floats(1))),
        ("dims: 1 float_data: 0", "dims: 1 data_type: 1 float_data: 0"),
    ),
    "tensor-data-type-known": initializers_case(
        (tensor(29, "1", _floats(1)), tensor(FLOAT, "1", _floats(1))),
        (tensor(-1, "1", raw_data(0)), tensor(FLOAT6E3M2, "1", raw_data(0))),
    ),
    "tensor-dims-nonnegative": Case(
        model_with_initializers(tensor(FLOAT, "2 -1", "")),
        model_with_initializers(tensor(FLOAT, "2 0", "")),
        ("graph.initializer[0].dims[1]",),
    ),
    "tensor-dims-product-overflow": initializers_case(
        # Broken: 2**124 elements, 2**63 elements, and 2**63 bytes. A tensor with a dimension of 0 has no elements.
        (
            tensor(FLOAT, f"{_HUGE_COUNT} {_HUGE_COUNT}", raw_data(0)),
            tensor(FLOAT, f"{_HUGE_COUNT} {_HUGE_COUNT} 0", ""),
        ),
        (tensor(UINT8, f"2 {_HUGE_COUNT}", raw_data(0)), tensor(UINT8, f"{2 * _HUGE_COUNT - 1}", raw_data(0))),
        (tensor(FLOAT, f"{_HUGE_COUNT // 2}", raw_data(0)), tensor(FLOAT, f"{_HUGE_COUNT // 2 - 1}", raw_data(0))),
    ),
    "tensor-single-storage": initializers_case(
        (tensor(FLOAT, "", ""), tensor(FLOAT, "", _floats(1))),
        (tensor(FLOAT, "2", ""), tensor(FLOAT, "0", "")),
        (tensor(FLOAT, "2", ""), tensor(FLOAT, "2", "data_location: EXTERNAL")),
        (tensor(FLOAT, "2", _floats(2) + raw_data(*range(8))), tensor(FLOAT, "2", _floats(2) + raw_data())),
        (tensor(INT32, "1", _ints(1) + " int64_data: 1"), tensor(INT32, "1", _ints(1))),
    ),
    "tensor-zero-elements-no-data": initializers_case(
        (tensor(FLOAT, "2 0", _floats(1)), tensor(FLOAT, "2 0", "")),
        (tensor(FLOAT, "0", raw_data(0)), tensor(FLOAT, "0", raw_data())),
    ),
    "tensor-float-data-dtype": initializer_case(tensor(DOUBLE, "2", _floats(2)), tensor(COMPLEX64, "1", _floats(2))),
    "tensor-double-data-dtype": initializer_case(
        tensor(COMPLEX64, "1", list_field("double_data", 1, 2)),
        tensor(COMPLEX128, "1", list_field("double_data", 1, 2)),
    ),
    "tensor-int64-data-dtype": initializer_case(
        tensor(INT32, "1", list_field("int64_data", 1)), tensor(INT64, "1", list_field("int64_data", 1))
    ),
    "tensor-uint64-data-dtype": initializer_case(
        tensor(INT64, "1", list_field("uint64_data", 1)), tensor(UINT32, "1", list_field("uint64_data", 1))
    ),
    "tensor-string-data-dtype": initializer_case(tensor(UINT8, "1", _strings(1)), tensor(STRING, "1", _strings(1))),
    "tensor-int32-data-dtype": initializers_case(
        (tensor(UINT32, "1", _ints(1)), tensor(INT8, "1", _ints(1))),
        (tensor(FLOAT, "1", _ints(1)), tensor(FLOAT6E2M3, "1", _ints(1))),
    ),
    "tensor-raw-data-dtype": initializers_case(
        (tensor(STRING, "1", raw_data(65)), tensor(STRING, "1", _strings(1))),
        (tensor(0, "1", raw_data(65)), tensor(UINT8, "1", raw_data(65))),
    ),
    "tensor-typed-data-count": initializers_case(
        (tensor(FLOAT, "2 2", _floats(3)), tensor(FLOAT, "2 2", _floats(4))),
        (tensor(FLOAT, "2", _floats(3)), tensor(FLOAT, "2", _floats(2))),
        (tensor(DOUBLE, "", list_field("double_data", 1, 2)), tensor(DOUBLE, "", list_field("double_data", 1))),
        (tensor(INT64, "2", list_field("int64_data", -1)), tensor(INT64, "2", list_field("int64_data", -1, 300))),
        (tensor(UINT32, "2", list_field("uint64_data", 300)), tensor(UINT32, "2", list_field("uint64_data", 1, 2))),
        (tensor(UINT64, "2", list_field("uint64_data", 300)), tensor(UINT64, "2", list_field("uint64_data", 1, 2))),
        (tensor(STRING, "2", _strings(3)), tensor(STRING, "2", 'string_data: "" string_data: ""')),
    ),
    "tensor-complex64-data-count": initializer_case(
        tensor(COMPLEX64, "2", _floats(2)), tensor(COMPLEX64, "2", _floats(4))
    ),
    "tensor-complex128-data-count": initializer_case(
        tensor(COMPLEX128, "1", list_field("double_data", 1)), tensor(COMPLEX128, "1", list_field("double_data", 1, 2))
    ),
    "tensor-int32-data-count": initializers_case(
        (tensor(INT32, "3", list_field("int32_data", -1, 1)), tensor(INT32, "3", list_field("int32_data", -1, 300, 1))),
        (tensor(UINT8, "4", _ints(1)), tensor(UINT8, "4", _ints(4))),
        (tensor(BOOL, "1", _ints(2)), tensor(BOOL, "2", _ints(2))),
    ),
    "tensor-int32-data-count-4bit": initializers_case(
        (tensor(INT4, "5", _ints(1)), tensor(INT4, "5", _ints(3))),
        (tensor(FLOAT4E2M1, "2", _ints(2)), tensor(FLOAT4E2M1, "2", _ints(1))),
    ),
    "tensor-int32-data-count-2bit": initializers_case(
        (tensor(INT2, "5", _ints(1)), tensor(INT2, "5", _ints(2))),
        (tensor(UINT2, "4", _ints(4)), tensor(UINT2, "4", _ints(1))),
    ),
    "tensor-int32-data-count-6bit": initializer_case(
        tensor(FLOAT6E2M3, "4", _ints(3)), tensor(FLOAT6E2M3, "4", _ints(4))
    ),
    "tensor-float6-raw-preferred": initializer_case(
        tensor(FLOAT6E2M3, "4", _ints(4)), tensor(FLOAT6E2M3, "4", raw_data(0, 0, 0))
    ),
    "tensor-raw-data-length": initializers_case(
        (tensor(FLOAT, "2", raw_data(*range(4))), tensor(FLOAT, "2", raw_data(*range(8)))),
        (tensor(FLOAT, "1", raw_data(*range(8))), tensor(FLOAT, "", raw_data(*range(4)))),
        (tensor(COMPLEX128, "1", raw_data(*range(8))), tensor(COMPLEX128, "1", raw_data(*range(16)))),
        (tensor(BFLOAT16, "2", raw_data(0, 0)), tensor(BFLOAT16, "1", raw_data(0, 0))),
        (tensor(FLOAT8E8M0, "2", raw_data(0)), tensor(FLOAT8E8M0, "2", raw_data(0, 0))),
    ),
    "tensor-raw-data-length-4bit": initializers_case(
        (tensor(UINT4, "3", raw_data(0)), tensor(UINT4, "3", raw_data(0, 0))),
        (tensor(FLOAT4E2M1, "2", raw_data(0, 0)), tensor(FLOAT4E2M1, "2", raw_data(0))),
    ),
    "tensor-raw-data-length-2bit": initializer_case(tensor(INT2, "5", raw_data(0)), tensor(INT2, "5", raw_data(0, 0))),
    "tensor-raw-data-length-6bit": initializers_case(
        (tensor(FLOAT6E3M2, "5", raw_data(0, 0, 0)), tensor(FLOAT6E3M2, "5", raw_data(0, 0, 0, 0))),
        (tensor(FLOAT6E3M2, "4", raw_data(0, 0, 0, 0)), tensor(FLOAT6E3M2, "4", raw_data(0, 0, 0))),
    ),
    "tensor-segment-bounds": Case(
        model_with_initializers(
            tensor(FLOAT, "4", _SEGMENT % (1, 5) + _floats(4)),
            tensor(FLOAT, "4", _SEGMENT % (3, 1) + _floats(2)),
            tensor(FLOAT, "4", _SEGMENT % (-1, 1) + _floats(2)),
            tensor(FLOAT, "4", "segment { begin: 0 }" + _floats(4)),
            tensor(FLOAT, "4", _SEGMENT % (1, 3) + _floats(1)),
            tensor(UINT4, "4", _SEGMENT % (1, 4) + raw_data(0)),
        ),
        model_with_initializers(
            tensor(FLOAT, "4", _SEGMENT % (1, 4) + _floats(3)),
            tensor(FLOAT, "4", _SEGMENT % (1, 1)),
            tensor(UINT4, "4", _SEGMENT % (1, 4) + raw_data(0, 0)),
        ),
        (
            *(f"graph.initializer[{i}].segment" for i in (3, 0, 1, 2)),
            *(f"graph.initializer[{i}]" for i in (4, 5)),
        ),
    ),
    "tensor-segment-unsupported": Case(
        model_with_initializers(tensor(FLOAT, "4", _SEGMENT % (0, 4) + _floats(4))),
        model_with_initializers(tensor(FLOAT, "4", _floats(4))),
        ("graph.initializer[0].segment",),
    ),
    # ir_version 14, and a graph with an initializer: data_type 1, one float, and data_location 2 or 0.
    "tensor-data-location-valid": Case(
        bytes.fromhex("08 0e 3a 0b 2a 09 10 01 25 00 00 80 3f 70 02"),
        bytes.fromhex("08 0e 3a 0b 2a 09 10 01 25 00 00 80 3f 70 00"),
        _FIRST_INITIALIZER,
    ),
}
