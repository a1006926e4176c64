"""onnxslim and onnxoptimizer on models of any size."""

from __future__ import annotations

from contextvars import ContextVar
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Literal

from onnxwire.bridges.onnx import StrippedModel
from onnxwire.bridges.shape_inputs import find_tensors_to_read
from onnxwire.errors import FieldValueError, MissingPackageError
from onnxwire.messages import ModelProto

_TOOLS: tuple[str, ...] = ("onnxslim", "onnxoptimizer")
_WEIGHT_PASSES = (
    "eliminate_common_subexpression", "eliminate_duplicate_initializer", "eliminate_nop_with_unit", "fuse_bn_into_conv",
    "adjust_add", "adjust_slice_and_matmul", "rewrite_input_dtype",
)  # fmt: skip
"""The passes of onnxoptimizer 0.4 that treat an initializer without its payload as zeros, or as empty."""
_MIN_THRESHOLD = 1 << 10  # bytes; onnxoptimizer reads out of bounds if a condition, an axis or a scale is omitted
# The model that onnxslim is optimizing, which supplies omitted elements.
_current_model: ContextVar[StrippedModel | None] = ContextVar("_current_model", default=None)


def optimize(
    model: ModelProto,
    *,
    tool: Literal["onnxslim", "onnxoptimizer"] | None = None,
    threshold: int = 1 << 14,
    **options: Any,
) -> ModelProto:
    """Optimize a model of any size with onnxslim or onnxoptimizer.

    model: the model, which is not changed. tool: by default onnxslim if it is installed, else onnxoptimizer. threshold:
    1,024 or more; inline and external payloads of at least this number of bytes are omitted from the copy that the tool
    receives, and put into its result, except those that shape inference reads. options: arguments of `onnxslim.slim`,
    such as skip_fusion_patterns, or of `onnxoptimizer.optimize`, such as passes.
    onnxslim reads weights for its computations, such as those of a convolution before a batch normalization, one
    at a time; it does not fold constants of `threshold` bytes or more. Passes of onnxoptimizer that compare weights or
    compute with them are not run, since they would treat omitted weights as zeros or as empty.
    Returns a new model; unchanged payloads are shared with `model`.
    Raises the errors of the tool and of `apply`, FieldValueError for an unknown tool, a lower threshold, and passes
    that need the weights, and MissingPackageError if the tool is not installed.
    """
    name: str = tool or next((name for name in _TOOLS if find_spec(name) is not None), _TOOLS[0])
    if name not in _TOOLS:
        raise FieldValueError(f"tool must be 'onnxslim' or 'onnxoptimizer', not {name!r}")
    if find_spec(name) is None:
        raise MissingPackageError(f"this needs {name}, which is not installed; `pip install {name}`")
    if threshold < _MIN_THRESHOLD:
        raise FieldValueError(
            f"threshold is {threshold:,}, but must be {_MIN_THRESHOLD:,} bytes or more, because optimizers read small "
            "tensors"
        )
    stripped_model = StrippedModel(model, threshold, find_tensors_to_read, strip_external=True)
    run_tool = _run_onnxslim if name == "onnxslim" else _run_onnxoptimizer
    return stripped_model.fill(run_tool(stripped_model, options))


def _run_onnxslim(stripped_model: StrippedModel, options: dict[str, Any]) -> object:
    """Optimize with onnxslim, which reads omitted elements from the original model."""
    module = import_module("onnxslim")
    _patch_loading(import_module("onnxslim.third_party.onnx_graphsurgeon.ir.tensor").LazyValues)
    token = _current_model.set(stripped_model)
    try:
        return module.slim(stripped_model.as_argument("onnx"), **options)
    finally:
        _current_model.reset(token)


def _patch_loading(lazy_values_class: Any) -> None:
    """Patch onnxslim's class of lazily loaded elements to read omitted elements from the original model."""
    original_load = lazy_values_class.load
    if getattr(original_load, "_is_patched", False):
        return

    def load_omitted(self: Any) -> Any:
        stripped_model = _current_model.get()
        source = None if stripped_model is None else stripped_model.source_of(self.tensor)
        return original_load(self) if source is None else source.numpy(copy=True)

    load_omitted._is_patched = True  # type: ignore[attr-defined]
    lazy_values_class.load = load_omitted


def _run_onnxoptimizer(stripped_model: StrippedModel, options: dict[str, Any]) -> object:
    """Optimize with onnxoptimizer, by default with all fusions and eliminations that do not need weights.

    Raises FieldValueError for passes that need weights.
    """
    module = import_module("onnxoptimizer")
    passes = options.pop("passes", None)
    if passes is None:
        passes = [name for name in module.get_fuse_and_elimination_passes() if name not in _WEIGHT_PASSES]
    elif weight_passes := sorted(set(passes).intersection(_WEIGHT_PASSES)):
        names = ", ".join(weight_passes)
        raise FieldValueError(f"{names} can't be run on a model without its weights; choose other passes")
    return module.optimize(stripped_model.as_argument("onnx"), passes, **options)
