"""Rules of data types that an IR version does not have yet, in tensors and in types."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from onnxwire.checker.facts import Facts, Finding
from onnxwire.checker.payloads import FLOAT6, TWO_BITS, type_names
from onnxwire.checker.registry import rule
from onnxwire.tensor.dtypes import BY_NAME


def _too_new(facts: Facts, version: int, *names: str) -> Iterator[Finding]:
    """Tensors and types of data types that came with an IR version."""
    numbers = [BY_NAME[name].number for name in names]
    tensors = facts.TensorProto
    sheets = [(tensors, tensors.data_type)]
    sheets += [(facts[name], facts[name].elem_type) for name in ("TypeProto.Tensor", "TypeProto.SparseTensor")]
    for sheet, types in sheets:
        yield sheet.at(
            np.isin(types, numbers),
            f"{{0}} came with IR version {version}, and the model has {facts.ir_version}; "
            "raise ir_version or use another type",
            type_names(types),
        )


@rule("dtype-bfloat16-before-ir4")
def bfloat16_before_ir4(facts: Facts) -> Iterator[Finding]:
    """There is no BFLOAT16 yet."""
    yield from _too_new(facts, 4, "BFLOAT16")


@rule("dtype-float8-before-ir9")
def float8_before_ir9(facts: Facts) -> Iterator[Finding]:
    """There are no floats of 8 bits yet."""
    yield from _too_new(facts, 9, "FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ")


@rule("dtype-int4-before-ir10")
def int4_before_ir10(facts: Facts) -> Iterator[Finding]:
    """There are no integers of 4 bits yet."""
    yield from _too_new(facts, 10, "UINT4", "INT4")


@rule("dtype-float4-before-ir11")
def float4_before_ir11(facts: Facts) -> Iterator[Finding]:
    """There is no float of 4 bits yet."""
    yield from _too_new(facts, 11, "FLOAT4E2M1")


@rule("dtype-float8e8m0-before-ir12")
def float8e8m0_before_ir12(facts: Facts) -> Iterator[Finding]:
    """There is no FLOAT8E8M0 yet."""
    yield from _too_new(facts, 12, "FLOAT8E8M0")


@rule("dtype-int2-before-ir13")
def int2_before_ir13(facts: Facts) -> Iterator[Finding]:
    """There are no integers of 2 bits yet."""
    yield from _too_new(facts, 13, *TWO_BITS)


@rule("dtype-float6-before-ir14")
def float6_before_ir14(facts: Facts) -> Iterator[Finding]:
    """There are no floats of 6 bits yet."""
    yield from _too_new(facts, 14, *FLOAT6)
