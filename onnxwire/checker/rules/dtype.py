"""Rules of data types that an IR version does not have yet, in tensors and in types."""

from __future__ import annotations

from typing import Any

from onnxwire.checker.facts import is_one_of
from onnxwire.checker.payloads import FLOAT6, TWO_BITS, type_names
from onnxwire.tensor.dtypes import BY_NAME

# Rules, each with the IR version that introduced its data types.
_TYPES_BY_RULE = {
    "dtype-bfloat16-before-ir4": (4, ("BFLOAT16",)),
    "dtype-float8-before-ir9": (9, ("FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ")),
    "dtype-int4-before-ir10": (10, ("UINT4", "INT4")),
    "dtype-float4-before-ir11": (11, ("FLOAT4E2M1",)),
    "dtype-float8e8m0-before-ir12": (12, ("FLOAT8E8M0",)),
    "dtype-int2-before-ir13": (13, TWO_BITS),
    "dtype-float6-before-ir14": (14, FLOAT6),
}

RULES = {
    table: {
        id: (
            lambda sheet, names=names: is_one_of(_types(sheet), [BY_NAME[name].number for name in names]),
            f"{{type_name}} was introduced in IR version {version}, but the IR version is {{facts.ir_version}}; "
            "raise ir_version or use another type",
            {"type_name": lambda sheet: type_names(_types(sheet))},
        )
        for id, (version, names) in _TYPES_BY_RULE.items()
    }
    for table in ("TensorProto", "TypeProto.Tensor", "TypeProto.SparseTensor")
}


def _types(sheet: Any) -> Any:
    """Return the data types of tensors, or the element types of types."""
    return sheet.data_type if sheet.type_name == "TensorProto" else sheet.elem_type
