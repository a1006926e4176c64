"""Cases of the rules of the values in tensors. In each pair, the first tensor breaks the rule, the second does not."""

from cases import tensor as types
from cases.tensor import initializer_case, initializers_case, list_field, raw_data, tensor


def _int_tensor(data_type: int, *values: int) -> str:
    """Return the fields of a tensor with these numbers in int32_data."""
    return tensor(data_type, str(len(values)), list_field("int32_data", *values))


def _string_tensor(text: str) -> str:
    """Return the fields of a tensor of two strings. text: the second string."""
    return tensor(types.STRING, "2", f'string_data: "a" string_data: "{text}"')


CASES = {
    "tensor-int32-data-range": initializers_case(
        (_int_tensor(types.UINT8, 256), _int_tensor(types.UINT8, 255)),
        (_int_tensor(types.UINT8, 1, -1, 2), _int_tensor(types.INT32, 1, -(2**31), 2)),
        (_int_tensor(types.INT8, 128), _int_tensor(types.INT8, 127, -128)),
        (_int_tensor(types.INT8, -129), _int_tensor(types.BOOL, 2)),
        (_int_tensor(types.UINT16, 65536), _int_tensor(types.UINT16, 65535)),
        (_int_tensor(types.INT16, 32768), _int_tensor(types.INT16, 32767, -32768)),
        (_int_tensor(types.FLOAT16, -1), _int_tensor(types.FLOAT16, 0xFFFF)),
        (_int_tensor(types.BFLOAT16, 65536), _int_tensor(types.BFLOAT16, 65535)),
        (_int_tensor(types.FLOAT8E4M3FN, 256), _int_tensor(types.FLOAT8E4M3FN, 255)),
        (_int_tensor(types.INT4, -1), _int_tensor(types.INT4, 255)),
        (_int_tensor(types.UINT2, 256), _int_tensor(types.UINT2, 255)),
    ),
    "tensor-int32-data-range-bool": initializers_case(
        (_int_tensor(types.BOOL, 0, 2), _int_tensor(types.BOOL, 0, 1)),
        (_int_tensor(types.BOOL, -1), _int_tensor(types.INT8, -1)),
    ),
    "tensor-int32-data-float6-range": initializers_case(
        (_int_tensor(types.FLOAT6E2M3, 64), _int_tensor(types.FLOAT6E2M3, 63)),
        (_int_tensor(types.FLOAT6E3M2, -1), _int_tensor(types.FLOAT6E3M2, 0)),
    ),
    "tensor-uint64-data-range": initializers_case(
        (
            tensor(types.UINT32, "2", list_field("uint64_data", 2**32, 1)),
            tensor(types.UINT32, "2", list_field("uint64_data", 2**32 - 1, 1)),
        ),
        (
            tensor(types.UINT32, "1", list_field("uint64_data", 2**64 - 1)),
            tensor(types.UINT64, "1", list_field("uint64_data", 2**64 - 1)),
        ),
    ),
    "tensor-raw-bool-values": initializer_case(
        tensor(types.BOOL, "3", raw_data(0, 2, 1)), tensor(types.BOOL, "3", raw_data(0, 1, 1))
    ),
    "tensor-raw-data-float6-padding": initializers_case(
        (tensor(types.FLOAT6E2M3, "1", raw_data(0x40)), tensor(types.FLOAT6E2M3, "1", raw_data(0x3F))),
        (tensor(types.FLOAT6E3M2, "2", raw_data(0xFF, 0x10)), tensor(types.FLOAT6E3M2, "2", raw_data(0xFF, 0x0F))),
        (
            tensor(types.FLOAT6E3M2, "3", raw_data(0xFF, 0xFF, 4)),
            tensor(types.FLOAT6E3M2, "4", raw_data(0xFF, 0xFF, 0xFF)),
        ),
    ),
    "tensor-packed-padding-zero": initializers_case(
        (tensor(types.UINT4, "3", raw_data(0xFF, 0x10)), tensor(types.UINT4, "3", raw_data(0xFF, 0x0F))),
        (tensor(types.INT2, "5", raw_data(0xFF, 0x04)), tensor(types.INT2, "5", raw_data(0xFF, 0x03))),
        (
            tensor(types.INT4, "1", list_field("int32_data", 0x1F)),
            tensor(types.INT4, "2", list_field("int32_data", 0x1F)),
        ),
        (
            tensor(types.UINT2, "6", list_field("int32_data", 0xFF, 0x10)),
            tensor(types.UINT2, "6", list_field("int32_data", 0xFF, 0x0F)),
        ),
    ),
    "tensor-string-utf8": initializers_case(
        (_string_tensor(r"\xff"), _string_tensor(r"\xc3\xa4")),
        (_string_tensor(r"\xed\xa0\x80"), _string_tensor(r"\xf0\x9f\x98\x80")),
    ),
    "tensor-string-no-bom-or-nul": initializers_case(
        (_string_tensor(r"\xef\xbb\xbfa"), _string_tensor(r"a\xef\xbb\xbf")),
        (_string_tensor(r"a\x00"), _string_tensor(r"\x00a")),
    ),
}
