"""Functions of the official `onnx` package, on models of any size."""

from __future__ import annotations

from functools import partial

from onnxwire.bridges.onnx import MARK, Frame, apply_keeping, official
from onnxwire.bridges.shape_values import read_tensors
from onnxwire.errors import FieldValueError, TensorError
from onnxwire.io.tensor_list import find_tensors, is_external
from onnxwire.messages import ModelProto, TensorProto
from onnxwire.tensor.dtypes import STRING
from onnxwire.tensor.external_data import payload
from onnxwire.tensor.storage import Storage

_LARGEST = (1 << 31) - 1  # what the official function takes as an int


def infer_shapes(
    model: ModelProto, *, check_type: bool = False, strict_mode: bool = False, data_prop: bool = False
) -> ModelProto:
    """Infer the types and shapes of values, as `onnx.shape_inference.infer_shapes` does, in a model of any size.

    model: is not changed. check_type, strict_mode, data_prop: as there. Of payloads of 1 KiB and more only those are
    read whose elements tell a shape, such as the second input of a Reshape.
    Returns a new model, with value_info and the types of outputs; its payloads are those of `model`, by reference.
    Raises onnx.shape_inference.InferenceError as the official function does, what `apply` raises, and
    MissingPackageError without the `onnx` package.
    """
    shape_inference = official("shape_inference")
    return apply_keeping(
        model,
        lambda data: shape_inference.infer_shapes(data, check_type, strict_mode, data_prop),
        partial(read_tensors, data_prop=data_prop),
        form="bytes",
    )


def convert_version(model: ModelProto, opset: int) -> ModelProto:
    """Convert a model to another version of ONNX's operators, as `onnx.version_converter` does, whatever its size.

    model: is not changed. opset: the version of the default domain that the result imports.
    Returns a new model; its payloads are those of `model`, by reference.
    Raises what the official function raises where an operator can't be converted, FieldValueError for a number that is
    no version, what `apply` raises, and MissingPackageError without the `onnx` package.
    """
    converter = official("version_converter")
    if not 0 <= opset <= _LARGEST:
        raise FieldValueError(f"opset is a version, a number from 0 to {_LARGEST:,}, not {opset:,}")
    return apply_keeping(model, lambda made: converter.convert_version(made, opset), read_tensors)


def check_official(model: ModelProto, *, full: bool = False) -> None:
    """Check a model of any size with `onnx.checker.check_model`; `onnxwire.check` tells more.

    full: infer its shapes too, strictly, as full_check does. Payloads of 1 KiB and more whose sizes are right are not
    read.
    Raises onnx.checker.ValidationError for the first fault, and with `full` onnx.shape_inference.InferenceError;
    ExternalDataError and SourceError for external data that is not there, or not in full; TensorError where other parts
    of the model alone are more than protobuf can read; MissingPackageError without the `onnx` package.
    """
    checker = official("checker")
    frame = Frame(model, kept=partial(_kept_for_checker, is_full=full))
    for (_, source), (_, tensor) in zip(find_tensors(frame.before), find_tensors(frame.copy), strict=True):
        if is_external(source) and is_external(tensor):
            for entry in tensor.external_data:
                if entry.key == "location" and entry.value:
                    # The checker would look beside the current directory.
                    payload(source, source._document.files)
                    entry.value = MARK
    checker.check_model(frame.given("bytes"), full_check=full)


def _kept_for_checker(model: ModelProto, is_full: bool) -> set[str]:
    """What the checker reads: also where the elements of a sparse tensor are, and what it is to find fault with."""
    kept = read_tensors(model) if is_full else set()
    kept.update(path for path, tensor in find_tensors(model) if path.endswith(".indices") or _is_faulty(tensor))
    return kept


def _is_faulty(tensor: TensorProto) -> bool:
    """Whether a tensor's elements, in the model itself, are not such as its type and dims call for."""
    if is_external(tensor):
        return False
    try:
        return Storage(tensor).data_type is STRING or tensor.HasField("segment")
    except TensorError:
        return True
