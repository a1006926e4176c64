"""The official `onnx` package: conversion of messages, and calls of its functions on models without large payloads."""

from __future__ import annotations

import secrets
from contextlib import suppress

from onnxwire.errors import Error, FieldTypeError, FieldValueError, MissingPackageError, TensorError
from onnxwire.io.save import DEFAULT_THRESHOLD, INLINE_LIMIT
from onnxwire.io.tensor_list import find_tensors, is_external, tensor_bytes
from onnxwire.messages import SCHEMA, ModelProto, TensorProto
from onnxwire.tensor.dtypes import FIELDS, name_of
from onnxwire.tensor.external_data import locations_of
from onnxwire.tensor.payload_layout import count_elements
from onnxwire.tensor.placement import make_inline, set_reference, share_elements

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from types import ModuleType
    from typing import Any, Literal

    from onnxwire.engine.message import Message

    Form = Literal["onnx", "onnxwire", "bytes"]
    """The type of a function's argument: a message of the official package, one of onnxwire, or an encoded message."""
    Choice = Callable[[ModelProto], Collection[str]]
    """A function that returns the paths of some tensors of a model."""

_MODULES = ("onnx_ml_pb2", "onnx_data_pb2", "onnx_operators_ml_pb2")
_FIELDS = frozenset(FIELDS)  # the repeated fields of TensorProto that store elements, such as float_data
# A location with this prefix is not opened as a file; the official checker accepts it.
LOCATION_PREFIX = "#onnxwire"


def to_onnx(message: Message) -> Any:
    """Convert a message to the class of the official `onnx` package.

    message: any message of onnx, such as a ModelProto or a TensorProto. Its bytes are copied; references to external
    data do not change. Raises FieldTypeError for a message of another schema, TensorError for one of more bytes than
    protobuf can read (use `apply`, or save it with `external=`), and MissingPackageError without the `onnx` package.
    """
    name = type(message).DESCRIPTOR.full_name
    official_class = _official_class(name)
    if official_class is None:
        raise FieldTypeError(f"the onnx package has no message {name}")
    return official_class.FromString(_encode(message, "onnxwire.apply calls a function with a model without weights"))


def from_onnx(message: Any) -> Any:
    """Convert a message of the official `onnx` package to the class of onnxwire.

    message: a message of any class of the package. Its bytes are copied. The result has no folder for external data: to
    read it, load the file, or `load(message.SerializeToString(), external_root=folder)`.
    Raises FieldTypeError for an object that is not a message of onnx.
    """
    name = getattr(getattr(message, "DESCRIPTOR", None), "full_name", "")
    if name not in SCHEMA.messages or isinstance(message, type):
        raise FieldTypeError(f"expected a message of the onnx package, not {type(message).__name__}")
    return SCHEMA.messages[name].FromString(message.SerializeToString())


def apply(
    model: ModelProto, function: Callable[[Any], object], threshold: int = DEFAULT_THRESHOLD, *, form: Form = "onnx"
) -> ModelProto:
    """Call a function with a copy of a model without large payloads, and put the payloads into the function's result.

    model: a model of any size, which is not changed; omitted payloads are not read. function: takes a model and returns
    a new one, or None if it changed its argument. threshold: payloads of at least this number of bytes are omitted.
    form: the type of the argument and the result: "onnx" for `onnx.ModelProto`, "onnxwire" for `onnxwire.ModelProto`,
    "bytes" for an encoded model.
    A tensor whose payload is omitted has external data with a unique location, by which the payload is looked up and
    inserted by reference into the result: the function may rename, reshape, copy or remove the tensor, or move
    it to another graph, a node or a function. A tensor to which the function assigned other elements keeps them.
    Tensors with external data of their own are not changed.
    Returns the new model, which shares its payloads with `model`.
    Raises TensorError if the result needs an omitted payload: the tensor has another data_type, segment or number of
    elements, refers to a part of the payload, or lost its reference; or if the model without the payloads is larger
    than protobuf can read, unless the form is "onnxwire". Raises FieldTypeError if `model` or the function's result is
    no model, DecodeError if the function returns damaged bytes, FieldValueError for an unknown form,
    MissingPackageError for the form "onnx" without the `onnx` package, and the function's own errors.
    """
    return apply_with_elements(model, function, _choose_none, threshold, form)


def apply_with_elements(
    model: ModelProto,
    function: Callable[[Any], object],
    choose_included: Choice,
    threshold: int = DEFAULT_THRESHOLD,
    form: Form = "onnx",
) -> ModelProto:
    """Call a function as `apply` does, but with the elements of the tensors whose paths `choose_included` returns."""
    stripped_model = StrippedModel(model, threshold, choose_included)
    argument = stripped_model.as_argument(form)
    result = function(argument)
    return stripped_model.fill(argument if result is None else result)


def _choose_none(model: ModelProto) -> Collection[str]:
    return ()


class StrippedModel:
    """A copy of a model without its large payloads.

    model: the full model. threshold: the size in bytes from which a payload is omitted. choose_included: returns the
    paths of tensors whose payloads stay in the copy, or are read from files into the copy, regardless of size.
    strip_external: whether external data of `threshold` bytes or more is omitted, too, and smaller external data is
    read into the copy.
    snapshot: a copy of the full model. copy: the stripped copy.
    """

    def __init__(
        self,
        model: ModelProto,
        threshold: int = DEFAULT_THRESHOLD,
        choose_included: Choice = _choose_none,
        strip_external: bool = False,
    ) -> None:
        if not isinstance(model, ModelProto):
            raise FieldTypeError(f"expected a ModelProto of onnxwire, not {type(model).__name__}")
        # The program may edit the model in the function, or in another thread.
        self.snapshot, self.copy = ModelProto(), ModelProto()
        self.snapshot.CopyFrom(model)
        self.copy.CopyFrom(self.snapshot)
        included_paths = choose_included(self.snapshot)
        # Tensors without their payload, by location: the original and the copy.
        self._stripped_tensors: dict[str, tuple[TensorProto, TensorProto]] = {}
        # Tensors whose elements were read from a file, by name: the original and the copy.
        self._read_tensors: dict[str, tuple[TensorProto, TensorProto]] = {}
        token = secrets.token_hex(16)  # so that no location in the model can equal a location of the copy
        names_without_elements: set[str] = set()
        for (path, source), (_, tensor) in zip(find_tensors(self.snapshot), find_tensors(self.copy), strict=True):
            has_external_data = is_external(source)
            if has_external_data and not strip_external and path not in included_paths:
                continue
            is_included = path in included_paths or _payload_size(source) < threshold
            if is_included and has_external_data:
                # External data that can't be read is left unchanged; the function can report it.
                with suppress(Error):
                    make_inline(tensor)
                    self._read_tensors[source.name] = source, tensor
            elif not is_included:
                location = f"{LOCATION_PREFIX}/{token}/{len(self._stripped_tensors)}"
                set_reference(tensor, location, 0, tensor_bytes(source))
                self._stripped_tensors[location] = source, tensor
            elif not _has_elements(source):
                names_without_elements.add(source.name)
        # The names of tensors in `_stripped_tensors`, unless an inline tensor of the same name has no elements.
        self._stripped_names = {source.name for source, _ in self._stripped_tensors.values()} - names_without_elements

    def as_argument(self, form: Form) -> Any:
        """Return a new copy of the stripped model, as the argument of a function."""
        if form not in ("onnx", "onnxwire", "bytes"):
            raise FieldValueError(f"form must be 'onnx', 'onnxwire' or 'bytes', not {form!r}")
        model_class = _official_class("onnx.ModelProto") if form == "onnx" else ModelProto
        if model_class is ModelProto and form != "bytes":
            model = ModelProto()
            model.CopyFrom(self.copy)
            return model
        data = _encode(self.copy, "a lower threshold omits more payloads, but no other data")
        return data if form == "bytes" else model_class.FromString(data)

    def source_of(self, tensor: Any) -> TensorProto | None:
        """Return the original of a tensor whose payload was omitted; None for any other tensor."""
        pair = self._stripped_tensors.get(_location_of(tensor))
        return None if pair is None else pair[0]

    def fill(self, result: object) -> ModelProto:
        """Insert the payloads into the result of a function. Return the result as a message of onnxwire.

        Raises TensorError if a payload does not fit its tensor, or if a tensor lost its reference to the payload;
        FieldTypeError if the result is not a model, and DecodeError if it is damaged bytes.
        """
        model = self._as_model(result)
        if not self._stripped_tensors and not self._read_tensors:
            return model
        for path, tensor in find_tensors(model):
            location = _location_of(tensor)
            if location in self._stripped_tensors:
                self._restore_payload(path, tensor, location)
            elif not is_external(tensor):
                self._check_inline_tensor(path, tensor)
            elif tensor.name in self._stripped_names and not location and _has_elements(tensor):
                tensor.ClearField("data_location")  # the function added elements to a tensor without its payload
        return model

    def _as_model(self, result: object) -> ModelProto:
        """Return the result of a function as a message of onnxwire. Raises FieldTypeError if it is not a model."""
        if isinstance(result, ModelProto):
            return result
        if getattr(getattr(result, "DESCRIPTOR", None), "full_name", "") == "onnx.ModelProto":
            result = result.SerializeToString()  # type: ignore[attr-defined]
        if not isinstance(result, bytes):
            raise FieldTypeError(
                f"the function returned {type(result).__name__}, not a model; it must return only the model, or "
                "None if it changed its argument"
            )
        model = ModelProto()
        model.CopyFrom(self.snapshot)  # so that the model can read the snapshot's external files
        model.ParseFromString(result)
        return model

    def _restore_payload(self, path: str, tensor: TensorProto, location: str) -> None:
        """Insert an omitted payload into its tensor. Raises TensorError if the payload does not fit the tensor."""
        source, stripped_tensor = self._stripped_tensors[location]
        if _has_elements(tensor):
            # The function assigned other elements.
            tensor.ClearField("external_data")
            tensor.ClearField("data_location")
            return
        if tensor == stripped_tensor:
            tensor.CopyFrom(source)
            return
        reason = _describe_misfit(tensor, stripped_tensor)
        if reason:
            raise TensorError(
                f"the function {reason}, but did not receive the tensor's elements; apply it with a threshold above "
                f"{_payload_size(source):,}",
                tensor.name,
                path,
            )
        share_elements(tensor, source)

    def _check_inline_tensor(self, path: str, tensor: TensorProto) -> None:
        """Raise TensorError if a tensor lost its elements. Restore external data that was read, if it is unchanged."""
        name = tensor.name
        if name in self._stripped_names and not _has_elements(tensor) and 0 not in tensor.dims:
            raise TensorError(
                "the function removed the tensor's external_data, and added no elements; apply it with a threshold "
                "above the size of the tensor",
                name,
                path,
            )
        if name in self._read_tensors and tensor == self._read_tensors[name][1]:
            tensor.CopyFrom(self._read_tensors[name][0])


def _payload_size(tensor: TensorProto) -> int:
    """Return the size of external data or raw_data in bytes; for other fields, the size of the whole tensor."""
    if is_external(tensor):
        return tensor_bytes(tensor)
    payload = tensor._payload("raw_data")
    return tensor.ByteSize() if payload is None else len(payload)


def _has_elements(tensor: TensorProto) -> bool:
    """Return whether a tensor contains elements inline."""
    return bool(tensor._payload("raw_data")) or not _FIELDS.isdisjoint(tensor._present())


def _location_of(tensor: Any) -> str:
    """Return the location of a tensor's external data, or ""."""
    return next(iter(locations_of(tensor)), "") if tensor.external_data else ""


def _describe_misfit(tensor: TensorProto, old_tensor: TensorProto) -> str:
    """Return the change to a tensor that makes its payload unusable, or "". old_tensor: the unchanged tensor."""
    if tensor.data_type != old_tensor.data_type:
        return f"changed the data_type from {name_of(old_tensor.data_type)} to {name_of(tensor.data_type)}"
    if tensor.segment != old_tensor.segment:
        return "changed the segment"
    if list(tensor.dims) != list(old_tensor.dims) and count_elements(tensor.dims) != count_elements(old_tensor.dims):
        return f"changed the dims from {list(old_tensor.dims)} to {list(tensor.dims)}"
    entries = {entry.key: entry.value for entry in old_tensor.external_data}
    for entry in tensor.external_data:
        if entries.get(entry.key, entry.value) != entry.value:
            return f"used a part of the tensor ({entry.key} {entry.value})"
    return ""


def _encode(message: Message, advice: str) -> bytes:
    """Encode a message. Raise TensorError, with the advice, if it is larger than protobuf can read."""
    size = message.ByteSize()
    if size > INLINE_LIMIT:
        raise TensorError(f"the message has {size:,} bytes, and protobuf reads at most {INLINE_LIMIT:,}; {advice}")
    return message.SerializeToString()


def _official_class(full_name: str) -> Any:
    """Return the official package's class for the full name of a message, or None."""
    for module in _MODULES:
        attribute: Any = import_official(module)
        for name in full_name.split(".")[1:]:
            attribute = getattr(attribute, name, None)
        if attribute is not None:
            return attribute
    return None


def import_official(name: str) -> ModuleType:
    """Import a module of the official package. Raises MissingPackageError if the package is not installed."""
    from importlib import import_module

    try:
        import_module("onnx")
    except ModuleNotFoundError as error:
        if error.name != "onnx":
            raise
        raise MissingPackageError("this needs the onnx package, which is not installed; `pip install onnx`") from None
    return import_module(f"onnx.{name}")
