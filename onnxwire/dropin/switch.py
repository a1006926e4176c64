"""Install and uninstall the switch: the changes that make `import onnx` use the classes of onnxwire.

The switch changes these classes, the import system, and protobuf's modules.
"""

from __future__ import annotations

import importlib
import sys
from functools import partial

from onnxwire.dropin.imports import MODULES, Finder, SubstituteFinder
from onnxwire.dropin.mapped import set_map_above
from onnxwire.dropin.pool import is_pool_imported, register_files
from onnxwire.engine.message import Message, verify_on_parse
from onnxwire.engine.numbers import copy_to_arrays
from onnxwire.engine.view import keep_identity
from onnxwire.errors import DecodeError, Error
from onnxwire.messages import SCHEMA
from onnxwire.tensor.numpy_conversion import TensorReader
from onnxwire.tensor.sparse_tensor import SparseTensorReader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

NEWEST_ONNX_VERSION = (1, 23)  # the release of onnx whose messages the tables describe

# Additional base classes. They lack the methods by which other libraries recognize arrays.
_EXTRA_BASES: dict[str, tuple[type, ...]] = {
    "onnx.TensorProto": (TensorReader,),
    "onnx.SparseTensorProto": (SparseTensorReader,),
}

_undo_steps: list[Callable[[], object]] = []  # a function for each step of the installation, which undoes it


class UnknownOnnxWarning(UserWarning):
    """The `onnx` package is newer than the tables of onnxwire, so it may have fields that onnxwire does not know."""


class AlreadyImportedError(Error, ImportError):
    """`install` was called after `onnx` had been imported with the classes of protobuf."""


def is_installed() -> bool:
    """Return whether `import onnx` uses the classes of onnxwire."""
    return bool(_undo_steps)


def install(*, map_above: int | None = None) -> None:
    """Make `import onnx` use the classes of onnxwire: `onnx.ModelProto is onnxwire.ModelProto` from then on.

    `onnx.load` maps files and `onnx.save` streams them. If the protobuf package is installed, the classes are also
    subclasses of `google.protobuf.message.Message`; otherwise `onnx` works without it. While the switch is installed,
    reading a field returns the same message object as long as it is referenced, parsing verifies all bytes at once, and
    numpy copies sequences of numbers, as with protobuf. No-op if the switch is installed.
    map_above: only files with more bytes are mapped, all others are read; by default the environment variable
    ONNXWIRE_DROPIN_MAP_ABOVE, else 16 MiB.
    Raises FieldValueError if this limit is not a number of bytes, and ImportError if `onnx` was imported before. Warns
    with UnknownOnnxWarning, when `onnx` is imported, if its release is newer than 1.23.
    """
    if _undo_steps:
        return
    set_map_above(map_above)
    if any(name in sys.modules for name in MODULES):
        raise AlreadyImportedError(
            "onnx is already imported with the classes of protobuf; call onnxwire.dropin.install() before anything "
            "imports onnx, or start the program with `python -m onnxwire.dropin`"
        )
    finders = Finder(_warn_of_version), SubstituteFinder()
    sys.meta_path.insert(0, finders[0])
    sys.meta_path.append(finders[1])
    _undo_steps.extend(partial(sys.meta_path.remove, finder) for finder in finders)
    try:
        base = importlib.import_module("google.protobuf.message")
        for cls in SCHEMA.messages.values():
            _change_class(cls, base.Message)
        _set_bases(DecodeError, (*DecodeError.__bases__, base.DecodeError))
        _show_unknown_fields()
        if is_pool_imported():
            register_files([name for name, file in MODULES.items() if file])
        for set_option in (keep_identity, verify_on_parse, copy_to_arrays):
            set_option(True)
            _undo_steps.append(partial(set_option, False))
    except BaseException:
        uninstall()
        raise


def uninstall() -> None:
    """Remove the switch: the next `import onnx` uses the classes of protobuf.

    Modules that imported `onnx` before keep working with the classes of onnxwire. If the switch is not
    installed, only its later installation by the environment variable ONNXWIRE_DROPIN is prevented.
    """
    # The module that installs the switch at the first `import onnx` if ONNXWIRE_DROPIN is set.
    environment_switch = sys.modules.get("onnxwire_dropin")
    if environment_switch is not None:
        environment_switch.disarm()
    if not _undo_steps:
        return
    while _undo_steps:  # the last step is undone first
        _undo_steps.pop()()
    for name in [name for name in sys.modules if name == "onnx" or name.startswith("onnx.")]:
        # An extension module can't be initialized twice in a process, so the next `import onnx` must find this one.
        if not name.startswith("onnx.onnx_cpp2py_export"):
            del sys.modules[name]
    for name in [name for name in sys.modules if name.split(".")[0] == "google"]:
        if getattr(sys.modules[name], "IS_SUBSTITUTE", False):
            del sys.modules[name]


def _change_class(cls: type[Message], base: type) -> None:
    """Change the base classes, the module and some methods of a class to those that `onnx` expects.

    base: protobuf's class Message, or its substitute.
    """
    descriptor = cls.DESCRIPTOR
    _set_bases(cls, (Message, *_EXTRA_BASES.get(descriptor.full_name, ()), base))
    _undo_steps.append(partial(setattr, cls, "__module__", cls.__module__))
    cls.__module__ = MODULES_BY_FILE[descriptor.file.name]
    # `onnx` overwrites __repr__ of some classes.
    _undo_steps.append(partial(delattr, cls, "__repr__"))
    cls.__repr__ = Message.__str__  # type: ignore[method-assign]
    _undo_steps.append(partial(delattr, cls, "__setstate__"))
    cls.__setstate__ = _set_state  # type: ignore[attr-defined]


def _set_state(message: Message, state: dict[str, bytes]) -> None:
    """Fill a message from a state that protobuf pickled."""
    message.ParseFromString(state["serialized"])


def _set_bases(cls: type, bases: tuple[type, ...]) -> None:
    """Replace the base classes of a class until the switch is uninstalled."""
    _undo_steps.append(partial(setattr, cls, "__bases__", cls.__bases__))
    cls.__bases__ = bases


def _show_unknown_fields() -> None:
    """Make protobuf's `UnknownFieldSet` accept messages of onnxwire; text_format prints unknown fields with it."""
    try:
        module = importlib.import_module("google.protobuf.unknown_fields")
    except ImportError:
        return  # protobuf is not installed, or is a release whose text_format does not use this module
    original = module.UnknownFieldSet

    class SubstituteType(type):
        """The type of the substitute for `UnknownFieldSet`: calls and isinstance refer to the original class."""

        def __call__(cls, message: object) -> object:
            if isinstance(message, Message):
                # The C code accepts only messages of protobuf; a message type without fields has only unknown fields.
                empty_class = importlib.import_module("google.protobuf.empty_pb2").Empty
                message = empty_class.FromString(message._unknown_fields())
            return original(message)

        def __instancecheck__(cls, instance: object) -> bool:
            return isinstance(instance, original)

    _undo_steps.append(partial(setattr, module, "UnknownFieldSet", original))
    module.UnknownFieldSet = SubstituteType("UnknownFieldSet", (), {"__doc__": original.__doc__})  # type: ignore[attr-defined]


def _warn_of_version(version: str) -> None:
    """Warn if a version of `onnx` is newer than the tables."""
    numbers = version.split(".")[:2]
    if all(number.isdigit() for number in numbers) and tuple(map(int, numbers)) > NEWEST_ONNX_VERSION:
        import warnings

        newest = ".".join(map(str, NEWEST_ONNX_VERSION))
        warnings.warn(
            f"onnx {version} is newer than {newest}, the release whose messages onnxwire has: onnxwire does not know "
            "the fields that newer releases added; install a newer onnxwire, or run without the switch",
            UnknownOnnxWarning,
            stacklevel=2,
        )


MODULES_BY_FILE = {file: module for module, file in MODULES.items() if file}
