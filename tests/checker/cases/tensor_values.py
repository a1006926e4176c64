from cases import tensor as types
from cases.tensor import listed, pair, pairs, raw, tensor


def _ints(data_type: int, *values: int) -> str:
    return tensor(data_type, str(len(values)), listed("int32_data", *values))


def _string(text: str) -> str:
    return tensor(types.STRING, "2", f'string_data: "a" string_data: "{text}"')


CASES = {
    "tensor-int32-data-range": pairs(
        (_ints(types.UINT8, 256), _ints(types.UINT8, 255)),
        (_ints(types.UINT8, 1, -1, 2), _ints(types.INT32, 1, -(2**31), 2)),
        (_ints(types.INT8, 128), _ints(types.INT8, 127, -128)),
        (_ints(types.INT8, -129), _ints(types.BOOL, 2)),
        (_ints(types.UINT16, 65536), _ints(types.UINT16, 65535)),
        (_ints(types.INT16, 32768), _ints(types.INT16, 32767, -32768)),
        (_ints(types.FLOAT16, -1), _ints(types.FLOAT16, 0xFFFF)),
        (_ints(types.BFLOAT16, 65536), _ints(types.BFLOAT16, 65535)),
        (_ints(types.FLOAT8E4M3FN, 256), _ints(types.FLOAT8E4M3FN, 255)),
        (_ints(types.INT4, -1), _ints(types.INT4, 255)),
        (_ints(types.UINT2, 256), _ints(types.UINT2, 255)),
    ),
    "tensor-int32-data-range-bool": pairs(
        (_ints(types.BOOL, 0, 2), _ints(types.BOOL, 0, 1)), (_ints(types.BOOL, -1), _ints(types.INT8, -1))
    ),
    "tensor-int32-data-float6-range": pairs(
        (_ints(types.FLOAT6E2M3, 64), _ints(types.FLOAT6E2M3, 63)),
        (_ints(types.FLOAT6E3M2, -1), _ints(types.FLOAT6E3M2, 0)),
    ),
    "tensor-uint64-data-range": pairs(
        (
            tensor(types.UINT32, "2", listed("uint64_data", 2**32, 1)),
            tensor(types.UINT32, "2", listed("uint64_data", 2**32 - 1, 1)),
        ),
        (
            tensor(types.UINT32, "1", listed("uint64_data", 2**64 - 1)),
            tensor(types.UINT64, "1", listed("uint64_data", 2**64 - 1)),
        ),
    ),
    "tensor-raw-bool-values": pair(tensor(types.BOOL, "3", raw(0, 2, 1)), tensor(types.BOOL, "3", raw(0, 1, 1))),
    "tensor-raw-data-float6-padding": pairs(
        (tensor(types.FLOAT6E2M3, "1", raw(0x40)), tensor(types.FLOAT6E2M3, "1", raw(0x3F))),
        (tensor(types.FLOAT6E3M2, "2", raw(0xFF, 0x10)), tensor(types.FLOAT6E3M2, "2", raw(0xFF, 0x0F))),
        (tensor(types.FLOAT6E3M2, "3", raw(0xFF, 0xFF, 4)), tensor(types.FLOAT6E3M2, "4", raw(0xFF, 0xFF, 0xFF))),
    ),
    "tensor-packed-padding-zero": pairs(
        (tensor(types.UINT4, "3", raw(0xFF, 0x10)), tensor(types.UINT4, "3", raw(0xFF, 0x0F))),
        (tensor(types.INT2, "5", raw(0xFF, 0x04)), tensor(types.INT2, "5", raw(0xFF, 0x03))),
        (
            tensor(types.INT4, "1", listed("int32_data", 0x1F)),
            tensor(types.INT4, "2", listed("int32_data", 0x1F)),
        ),
        (
            tensor(types.UINT2, "6", listed("int32_data", 0xFF, 0x10)),
            tensor(types.UINT2, "6", listed("int32_data", 0xFF, 0x0F)),
        ),
    ),
    "tensor-string-utf8": pairs(
        (_string(r"\xff"), _string(r"\xc3\xa4")),
        (_string(r"\xed\xa0\x80"), _string(r"\xf0\x9f\x98\x80")),
    ),
    "tensor-string-no-bom-or-nul": pairs(
        (_string(r"\xef\xbb\xbfa"), _string(r"a\xef\xbb\xbf")),
        (_string(r"a\x00"), _string(r"\x00a")),
    ),
}
