"""onnxslim and onnxoptimizer, on models of any size."""

from __future__ import annotations

from contextvars import ContextVar
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Literal

from onnxwire.bridges.onnx import Frame
from onnxwire.bridges.shape_values import read_tensors
from onnxwire.errors import FieldValueError, MissingPackageError
from onnxwire.messages import ModelProto

_TOOLS: tuple[str, ...] = ("onnxslim", "onnxoptimizer")
_COMPARING = (
    "eliminate_common_subexpression", "eliminate_duplicate_initializer", "eliminate_nop_with_unit", "fuse_bn_into_conv",
    "adjust_add", "adjust_slice_and_matmul", "rewrite_input_dtype",
)  # fmt: skip
"""The passes of onnxoptimizer 0.4 that take an initializer whose elements were left out for one of zeros, or none."""
_LEAST = 1 << 10  # bytes; of a condition, an axis, a scale that is left out onnxoptimizer reads what is not there
# The frame that onnxslim works on, which has the elements that it asks for.
_frame: ContextVar[Frame | None] = ContextVar("_frame", default=None)


def optimize(
    model: ModelProto,
    *,
    tool: Literal["onnxslim", "onnxoptimizer"] | None = None,
    threshold: int = 1 << 14,
    **options: Any,
) -> ModelProto:
    """Optimize a model of any size with onnxslim or onnxoptimizer.

    model: is not changed. tool: by default onnxslim where it is installed, else onnxoptimizer. threshold: the bytes
    from which on payloads are left out, as for `apply`; 1 KiB or more. options: of `onnxslim.slim`, such as
    skip_fusion_patterns, or of `onnxoptimizer.optimize`, such as passes.
    onnxslim reads the weights that it computes with, such as those of a convolution before a batch normalization, when
    it asks for them, one after another; constants of `threshold` bytes and more it does not fold. Of onnxoptimizer's
    passes those that compare weights, or compute with them, are not run, since they would take what was left out for
    equal.
    Returns a new model; payloads that were not changed are those of `model`, by reference.
    Raises what the tool and `apply` raise, FieldValueError for passes that can't be run on a model without its weights,
    and MissingPackageError where the tool is not installed.
    """
    name: str = tool or next((name for name in _TOOLS if find_spec(name) is not None), _TOOLS[0])
    if name not in _TOOLS:
        raise FieldValueError(f"tool is 'onnxslim' or 'onnxoptimizer', not {name!r}")
    if find_spec(name) is None:
        raise MissingPackageError(f"this needs {name}, which is not installed; `pip install {name}`")
    if threshold < _LEAST:
        raise FieldValueError(
            f"threshold is {_LEAST:,} bytes or more, as optimizers read small tensors, not {threshold:,}"
        )
    frame = Frame(model, threshold, read_tensors, takes_external=True)
    run = _slim if name == "onnxslim" else _run_passes
    return frame.fill(run(frame, options))


def _slim(frame: Frame, options: dict[str, Any]) -> object:
    module = import_module("onnxslim")
    _give_elements(import_module("onnxslim.third_party.onnx_graphsurgeon.ir.tensor").LazyValues)
    reset = _frame.set(frame)
    try:
        return module.slim(frame.given("onnx"), **options)
    finally:
        _frame.reset(reset)


def _give_elements(values: Any) -> None:
    """Have onnxslim's class of elements that are not loaded yet load those that a frame left out."""
    load = values.load
    if getattr(load, "_knows_frames", False):
        return

    def load_left_out(self: Any) -> Any:
        frame = _frame.get()
        source = None if frame is None else frame.source_of(self.tensor)
        return load(self) if source is None else source.numpy(copy=True)

    load_left_out._knows_frames = True  # type: ignore[attr-defined]
    values.load = load_left_out


def _run_passes(frame: Frame, options: dict[str, Any]) -> object:
    module = import_module("onnxoptimizer")
    passes = options.pop("passes", None)
    if passes is None:
        passes = [name for name in module.get_fuse_and_elimination_passes() if name not in _COMPARING]
    elif wrong := sorted(set(passes).intersection(_COMPARING)):
        raise FieldValueError(f"{', '.join(wrong)} can't be run on a model without its weights; leave it out of passes")
    return module.optimize(frame.given("onnx"), passes, **options)
