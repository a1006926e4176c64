"""The official `onnx` package: its messages, and functions on models that are too large for it."""

from __future__ import annotations

import secrets
from contextlib import suppress

from onnxwire.errors import Error, FieldTypeError, FieldValueError, MissingPackageError, TensorError
from onnxwire.io.save import INLINE_LIMIT
from onnxwire.io.tensor_list import find_tensors, is_external, tensor_bytes
from onnxwire.messages import SCHEMA, ModelProto, TensorProto
from onnxwire.tensor.dtypes import FIELDS, name_of
from onnxwire.tensor.external_data import locations_of
from onnxwire.tensor.payload_layout import count_elements
from onnxwire.tensor.placement import refer, share_elements, take_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from types import ModuleType
    from typing import Any, Literal

    from onnxwire.engine.message import Message

    Form = Literal["onnx", "onnxwire", "bytes"]
    """The argument of a function: a message of the official package, one of onnxwire, or the encoding."""
    Choice = Callable[[ModelProto], Collection[str]]
    """The paths of the tensors of a model that are meant."""

_MODULES = ("onnx_ml_pb2", "onnx_data_pb2", "onnx_operators_ml_pb2")
_FIELDS = frozenset(FIELDS)
# Nobody reads a location that begins so as a file's; the official checker lets it pass.
MARK = "#onnxwire"


def to_onnx(message: Message) -> Any:
    """Make the message of the official `onnx` package that has the same content.

    message: any message of onnx, such as a ModelProto or a TensorProto. Its bytes are copied; references to external
    data stay as they are. Raises EditError for a message of another schema, or of more bytes than protobuf can read
    (then `apply`, or a save with `external=`, leads on), and MissingPackageError without the `onnx` package.
    """
    name = type(message).DESCRIPTOR.full_name
    kind = _official_class(name)
    if kind is None:
        raise FieldTypeError(f"the onnx package has no message {name}")
    return kind.FromString(_encoded(message, "onnxwire.apply gives functions the model without its weights"))


def from_onnx(message: Any) -> Any:
    """Make the message of onnxwire that has the same content as one of the official `onnx` package.

    message: of any class of the package. Its bytes are copied. External data is where it was: to read it, load the
    encoding, `load(message.SerializeToString(), external_root=folder)`, or the file.
    Raises FieldTypeError for what is not a message of onnx.
    """
    name = getattr(getattr(message, "DESCRIPTOR", None), "full_name", "")
    if name not in SCHEMA.messages or isinstance(message, type):
        raise FieldTypeError(f"expected a message of the onnx package, not {type(message).__name__}")
    return SCHEMA.messages[name].FromString(message.SerializeToString())


def apply(
    model: ModelProto, function: Callable[[Any], object], threshold: int = 1024, *, form: Form = "onnx"
) -> ModelProto:
    """Call a function with a model without its large payloads, and put these into the model that it makes.

    model: of any size; it is not changed, and no payload of it is read. function: takes a model and returns the one
    that it made of it, or None where it changed the one that it was given. threshold: the bytes from which on the
    payload of a tensor is left out, wherever the tensor is. form: what the function is given and may return: an
    `onnx.ModelProto`, an `onnxwire.ModelProto`, or the bytes of one.
    A tensor whose payload is left out names external data, at a location that is nowhere else. By it the payload is
    found in what comes back, and put there by reference: the tensor may be renamed, reshaped, moved to another graph,
    into a node or a function, be there more than once, or be gone. A tensor that the function gave other elements
    keeps those. Tensors with external data of their own are left as they are.
    Returns the new model, which shares its payloads with `model`.
    Raises TensorError where the model that comes back needs what the function was not given: a payload whose tensor got
    another data_type or number of elements, or of which a part is named, or a tensor that lost its elements, and where
    more than protobuf can read is left without the payloads; FieldTypeError where the function returns no model; and
    what the function raises.
    """
    return apply_keeping(model, function, _none, threshold, form)


def apply_keeping(
    model: ModelProto,
    function: Callable[[Any], object],
    kept: Choice,
    threshold: int = 1024,
    form: Form = "onnx",
) -> ModelProto:
    """As `apply`, for a function that reads the elements of some tensors. kept: tells which."""
    frame = Frame(model, threshold, kept)
    given = frame.given(form)
    made = function(given)
    return frame.fill(given if made is None else made)


def _none(model: ModelProto) -> Collection[str]:
    return ()


class Frame:
    """A model without its large payloads.

    model: the whole one. kept: tells which tensors' payloads stay in, or come in from a file, whatever their size.
    takes_external: treat external data as payloads in the model are. before: the model as it was then; copy: what is
    left of it.
    """

    def __init__(
        self,
        model: ModelProto,
        threshold: int = 1024,
        kept: Choice = _none,
        takes_external: bool = False,
    ) -> None:
        if not isinstance(model, ModelProto):
            raise FieldTypeError(f"expected a ModelProto of onnxwire, not {type(model).__name__}")
        # As it is now: the program may edit it meanwhile, and in the function.
        self.before, self.copy = ModelProto(), ModelProto()
        self.before.CopyFrom(model)
        self.copy.CopyFrom(self.before)
        paths = kept(self.before)
        # By location: the tensor, and what is left of it in the copy.
        self._taken: dict[str, tuple[TensorProto, TensorProto]] = {}
        # By name: the tensors that came in from a file, and what they are in the copy.
        self._read: dict[str, tuple[TensorProto, TensorProto]] = {}
        token = secrets.token_hex(16)  # what no model can have written down before
        empty: set[str] = set()
        for (path, source), (_, tensor) in zip(find_tensors(self.before), find_tensors(self.copy), strict=True):
            is_outside = is_external(source)
            if is_outside and not takes_external and path not in paths:
                continue
            stays_in = path in paths or _size(source) < threshold
            if stays_in and is_outside:
                # What can't be had is left as it is, for the function to judge.
                with suppress(Error):
                    take_in(tensor)
                    self._read[source.name] = source, tensor
            elif not stays_in:
                location = f"{MARK}/{token}/{len(self._taken)}"
                refer(tensor, location, 0, tensor_bytes(source))
                self._taken[location] = source, tensor
            elif not _holds_elements(source):
                empty.add(source.name)
        self._names = {source.name for source, _ in self._taken.values()} - empty

    def given(self, form: Form) -> Any:
        """The model as a function is to get it; the copy stays as it is."""
        if form not in ("onnx", "onnxwire", "bytes"):
            raise FieldValueError(f"form is 'onnx', 'onnxwire' or 'bytes', not {form!r}")
        kind = _official_class("onnx.ModelProto") if form == "onnx" else ModelProto
        if kind is ModelProto and form != "bytes":
            model = ModelProto()
            model.CopyFrom(self.copy)
            return model
        data = _encoded(self.copy, "a lower threshold leaves out more, and what is in no tensor is never left out")
        return data if form == "bytes" else kind.FromString(data)

    def source_of(self, tensor: Any) -> TensorProto | None:
        """The tensor whose payload was left out of one that a function was given; None for any other."""
        pair = self._taken.get(_location(tensor))
        return None if pair is None else pair[0]

    def fill(self, made: object) -> ModelProto:
        """Put the payloads into what a function made of the model; returns it as a message of onnxwire."""
        model = self._as_ours(made)
        if not self._taken and not self._read:
            return model
        for path, tensor in find_tensors(model):
            location = _location(tensor)
            if location in self._taken:
                self._put_back(path, tensor, location)
            elif not is_external(tensor):
                self._look_at(path, tensor)
            elif tensor.name in self._names and not location and _holds_elements(tensor):
                tensor.ClearField("data_location")  # of elements that the function made for a tensor without
        return model

    def _as_ours(self, made: object) -> ModelProto:
        if isinstance(made, ModelProto):
            return made
        if getattr(getattr(made, "DESCRIPTOR", None), "full_name", "") == "onnx.ModelProto":
            made = made.SerializeToString()  # type: ignore[attr-defined]
        if not isinstance(made, bytes):
            raise FieldTypeError(
                f"the function returned {type(made).__name__}, not a model; let it return the ModelProto alone, or "
                "None where it changed the one that it was given"
            )
        model = ModelProto()
        model.CopyFrom(self.before)  # for the files beside it
        model.ParseFromString(made)
        return model

    def _put_back(self, path: str, tensor: TensorProto, location: str) -> None:
        source, left = self._taken[location]
        if _holds_elements(tensor):
            # The function gave it others.
            tensor.ClearField("external_data")
            tensor.ClearField("data_location")
            return
        if tensor == left:
            tensor.CopyFrom(source)
            return
        reason = _misfit(tensor, left)
        if reason:
            raise TensorError(
                f"the function {reason}, and was not given the elements; apply it with a threshold above "
                f"{_size(source):,}",
                tensor.name,
                path,
            )
        share_elements(tensor, source)

    def _look_at(self, path: str, tensor: TensorProto) -> None:
        """Refuse a tensor that lost its elements, and give one that was read from a file its reference again."""
        name = tensor.name
        if name in self._names and not _holds_elements(tensor) and 0 not in tensor.dims:
            raise TensorError(
                "the function took away where the tensor's elements are, and gave it none; apply it with a threshold "
                "above the size of the tensor",
                name,
                path,
            )
        if name in self._read and tensor == self._read[name][1]:
            tensor.CopyFrom(self._read[name][0])


def _size(tensor: TensorProto) -> int:
    """The bytes that a payload takes in the file: of raw_data, or else of the whole tensor, which are not counted."""
    if is_external(tensor):
        return tensor_bytes(tensor)
    payload = tensor._payload("raw_data")
    return tensor.ByteSize() if payload is None else len(payload)


def _holds_elements(tensor: TensorProto) -> bool:
    return bool(tensor._payload("raw_data")) or not _FIELDS.isdisjoint(tensor._present())


def _location(tensor: Any) -> str:
    return next(iter(locations_of(tensor)), "") if tensor.external_data else ""


def _misfit(tensor: TensorProto, left: TensorProto) -> str:
    """A change to a tensor that its payload does not fit any more; left: the tensor that it was given."""
    if tensor.data_type != left.data_type:
        return f"made the {name_of(left.data_type)} a {name_of(tensor.data_type)}"
    if tensor.segment != left.segment:
        return "changed its segment"
    if list(tensor.dims) != list(left.dims) and count_elements(tensor.dims) != count_elements(left.dims):
        return f"changed its dims from {list(left.dims)} to {list(tensor.dims)}"
    whole = {entry.key: entry.value for entry in left.external_data}
    for entry in tensor.external_data:
        if whole.get(entry.key, entry.value) != entry.value:
            return f"took a part of it ({entry.key} {entry.value})"
    return ""


def _encoded(message: Message, advice: str) -> bytes:
    size = message.ByteSize()
    if size > INLINE_LIMIT:
        raise TensorError(f"this makes {size:,} bytes, and protobuf reads no more than {INLINE_LIMIT:,}; {advice}")
    return message.SerializeToString()


def _official_class(full_name: str) -> Any:
    """The class of the official package for a message, or None."""
    for module in _MODULES:
        found: Any = official(module)
        for name in full_name.split(".")[1:]:
            found = getattr(found, name, None)
        if found is not None:
            return found
    return None


def official(name: str) -> ModuleType:
    """A module of the official package; raises MissingPackageError where that is not installed."""
    from importlib import import_module

    try:
        import_module("onnx")
    except ModuleNotFoundError as error:
        if error.name != "onnx":
            raise
        raise MissingPackageError("this needs the onnx package, which is not installed; `pip install onnx`") from None
    return import_module(f"onnx.{name}")
