"""Exceptions can be copied and pickled, as a multiprocessing pool requires; `from_os_error` selects the right class."""

import copy
import errno
import inspect
import pickle
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from each import each

import onnxwire
from onnxwire.errors import Error

# Attributes of some exceptions that may be stored outside of `__dict__`.
ATTRIBUTES = ("reason", "name", "path", "errno", "strerror", "filename", "encoding", "object", "start", "end")
INVALID_TEXTS = {UnicodeEncodeError: "a\ud800", UnicodeDecodeError: b"a\xff"}


def class_and_subclasses(base: type[Error]) -> Iterator[type[Error]]:
    """Yield a class and all classes derived from it."""
    yield base
    for cls in base.__subclasses__():
        yield from class_and_subclasses(cls)


def all_classes() -> list[type[Error]]:
    """Return all classes of onnxwire's errors, after the import of the modules that define them."""
    package = Path(onnxwire.__file__).parent
    for path in package.rglob("*.py"):
        if "(Error" in path.read_text(encoding="utf-8"):
            import_module(".".join(path.relative_to(package.parent).with_suffix("").parts))
    return sorted(set(class_and_subclasses(Error)), key=lambda cls: cls.__name__)


def make_error(cls: type[Error]) -> Error:
    """Return an error of the class, with values for the arguments of its constructor."""
    for base_class, text in INVALID_TEXTS.items():
        if issubclass(cls, base_class):
            return cls(base_class("utf-8", text, 1, 2, "not text"), "onnx.NodeProto.name")
    if issubclass(cls, OSError):
        return cls(2, "No such file; look again", "a.onnx")
    if issubclass(cls, ImportError):
        return cls("not installed", name="numpy", path="a.py")
    if not inspect.isfunction(cls.__init__):
        return cls("a reason")
    _, *names = inspect.signature(cls.__init__).parameters
    return cls(*(7 if name == "offset" else f"the {name}" for name in names))


COPIERS: dict[str, Callable[[Any], Any]] = {"copy": copy.copy, "deepcopy": copy.deepcopy}
COPIERS |= {
    f"pickle {protocol}": lambda error, protocol=protocol: pickle.loads(pickle.dumps(error, protocol))
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1)
}


@each("copier", COPIERS)
@each("cls", all_classes(), ids=lambda cls: cls.__name__)
def test_a_copied_or_pickled_exception_has_the_same_content(cls: type[Error], copier: str) -> None:
    error = make_error(cls)
    error.add_note("while the model was read")
    copied_error = COPIERS[copier](error)
    assert type(copied_error) is cls and str(copied_error) == str(error)
    assert copied_error.__dict__ == error.__dict__
    for name in ATTRIBUTES:
        assert getattr(copied_error, name, None) == getattr(error, name, None), name


def test_a_pickled_error_contains_no_other_error() -> None:
    # The pickle functions that other packages register may lose the text of a UnicodeError.
    for cls in all_classes():
        constructor_and_arguments = make_error(cls).__reduce__()
        assert not [value for value in constructor_and_arguments[1] if isinstance(value, BaseException)], cls


SYSTEM_ERRORS = [
    FileNotFoundError,
    IsADirectoryError,
    NotADirectoryError,
    PermissionError,
    BrokenPipeError,
    TimeoutError,
]


@pytest.mark.parametrize("base", [onnxwire.SourceError, onnxwire.SaveError], ids=lambda cls: cls.__name__)
@pytest.mark.parametrize("error_class", SYSTEM_ERRORS, ids=lambda cls: cls.__name__)
def test_from_os_error_returns_a_class_derived_from_the_system_error_if_one_exists(base: Any, error_class: Any) -> None:
    error = base.from_os_error(error_class(errno.EIO, "no"), "a.onnx")
    expected_classes = [
        cls for cls in base.__subclasses__() if issubclass(cls, error_class) and cls.__module__.startswith("onnxwire")
    ]
    assert [type(error)] == (expected_classes or [base])
    assert isinstance(error, error_class) == bool(expected_classes)


def test_a_subclass_that_an_application_defines_is_not_raised(tmp_path: Path) -> None:
    # Subclasses for each of the system's errors and for OSError.
    application_classes = [
        type("Mine", (base, error_class), {})
        for base in (onnxwire.SourceError, onnxwire.SaveError)
        for error_class in SYSTEM_ERRORS
    ]
    application_classes += [type("Mine", (base, OSError), {}) for base in (onnxwire.SourceError, onnxwire.SaveError)]
    for error_class in (TimeoutError, NotADirectoryError, FileNotFoundError):
        error = error_class(errno.EIO, "no")
        assert type(onnxwire.SourceError.from_os_error(error, "a.onnx")) not in application_classes
        assert type(onnxwire.SaveError.from_os_error(error, "a.onnx")) not in application_classes
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(onnxwire.SourceError) as excinfo:
        onnxwire.load(tmp_path / "file" / "m.onnx")
    assert type(excinfo.value) is onnxwire.SourceError
    error = FileNotFoundError(errno.ENOENT, "no")
    assert type(application_classes[0].from_os_error(error, "a.onnx")) is application_classes[0]
