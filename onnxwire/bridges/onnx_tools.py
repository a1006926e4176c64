"""Functions of the official `onnx` package on models of any size."""

from __future__ import annotations

from functools import partial

from onnxwire.bridges.onnx import LOCATION_PREFIX, StrippedModel, apply_with_elements, import_official
from onnxwire.bridges.shape_inputs import find_tensors_to_read
from onnxwire.errors import FieldValueError, TensorError
from onnxwire.io.tensor_list import find_tensors, is_external
from onnxwire.messages import ModelProto, TensorProto
from onnxwire.tensor.dtypes import STRING
from onnxwire.tensor.external_data import locate_payload
from onnxwire.tensor.storage import Storage

_MAX_OPSET = (1 << 31) - 1  # the official function converts it to a C int


def infer_shapes(
    model: ModelProto, *, check_type: bool = False, strict_mode: bool = False, data_prop: bool = False
) -> ModelProto:
    """Infer the types and shapes of values with `onnx.shape_inference.infer_shapes`, in a model of any size.

    model: the model, which is not changed. check_type, strict_mode, data_prop: as for the official function. Payloads
    of 1 KiB and more are read only if their elements determine a shape, such as the second input of a Reshape.
    Returns a new model with value_info and types of outputs, which shares its payloads with `model`.
    Raises onnx.shape_inference.InferenceError as the official function does, the errors of `apply`, and
    MissingPackageError without the `onnx` package.
    """
    shape_inference = import_official("shape_inference")
    return apply_with_elements(
        model,
        lambda data: shape_inference.infer_shapes(data, check_type, strict_mode, data_prop),
        partial(find_tensors_to_read, data_prop=data_prop),
        form="bytes",
    )


def convert_version(model: ModelProto, opset: int) -> ModelProto:
    """Convert a model of any size to another version of ONNX's operators, with `onnx.version_converter`.

    model: the model, which is not changed. opset: the version of the default domain that the result imports.
    Returns a new model, which shares its payloads with `model`.
    Raises the errors of the official function for operators that can't be converted, FieldValueError for an invalid
    version, the errors of `apply`, and MissingPackageError without the `onnx` package.
    """
    converter = import_official("version_converter")
    if not 0 <= opset <= _MAX_OPSET:
        raise FieldValueError(f"opset must be a version from 0 to {_MAX_OPSET:,}, not {opset:,}")
    return apply_with_elements(
        model, lambda stripped_model: converter.convert_version(stripped_model, opset), find_tensors_to_read
    )


def check_official(model: ModelProto, *, full: bool = False) -> None:
    """Check a model of any size with `onnx.checker.check_model`; `onnxwire.check` finds more faults.

    full: also infer shapes strictly, as full_check does. Payloads of 1 KiB and more are read only if they have a wrong
    size or are strings, chunks or indices of sparse tensors; with `full`, also if their elements determine a shape.
    Raises onnx.checker.ValidationError for the first fault, and with `full` onnx.shape_inference.InferenceError;
    ExternalDataError and SourceError for external data that is invalid, not allowed, missing or truncated; TensorError
    if the model without payloads is larger than protobuf can read; FieldTypeError for an object that is not a
    ModelProto of onnxwire; MissingPackageError without the `onnx` package.
    """
    checker = import_official("checker")
    stripped_model = StrippedModel(model, choose_included=partial(_find_tensors_for_checker, is_full=full))
    pairs = zip(find_tensors(stripped_model.snapshot), find_tensors(stripped_model.copy), strict=True)
    for (_, source), (_, tensor) in pairs:
        if is_external(source) and is_external(tensor):
            for entry in tensor.external_data:
                if entry.key == "location" and entry.value:
                    # Check the reference here: the official checker would search the current directory for the file.
                    locate_payload(source, source._document.files)
                    entry.value = LOCATION_PREFIX
    checker.check_model(stripped_model.as_argument("bytes"), full_check=full)


def _find_tensors_for_checker(model: ModelProto, is_full: bool) -> set[str]:
    """Return the paths of tensors that the checker reads: indices of sparse tensors, strings, chunks and faulty ones.

    is_full: include the tensors that shape inference reads.
    """
    paths = find_tensors_to_read(model) if is_full else set()
    paths.update(path for path, tensor in find_tensors(model) if path.endswith(".indices") or _must_be_read(tensor))
    return paths


def _must_be_read(tensor: TensorProto) -> bool:
    """Return whether a tensor has its elements in the model, and has strings, is a chunk, or is faulty."""
    if is_external(tensor):
        return False
    try:
        return Storage(tensor).data_type is STRING or tensor.HasField("segment")
    except TensorError:
        return True
