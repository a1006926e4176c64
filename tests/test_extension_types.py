"""No call of an extension type with wrong arguments ends the process (`tests/foreign_arguments.py`). Internal types
can't be instantiated. Methods have signatures, and views can be copied."""

from __future__ import annotations

import copy
import copyreg
import inspect
import os
import subprocess
import sys
from pathlib import Path

import pytest
from foreign_arguments import extension_modules
from partial_documents import Source, partial_document

import onnxwire
from onnxwire import ModelProto, NodeProto, TypeProto
from onnxwire.analysis.structure_match import Edges, Matching
from onnxwire.engine.document import Document
from onnxwire.engine.overlay import Overlay
from onnxwire.engine.partial import PartialMemory
from onnxwire.engine.payload import Payload
from onnxwire.errors import DecodeError

PROGRAM = Path(__file__).with_name("foreign_arguments.py")
INTERNAL_TYPES = [onnxwire.RepeatedSpan, onnxwire.RepeatedScalar, Payload, Overlay, type(ModelProto._table)]
INTERNAL_TYPES += [type(iter(ModelProto().opset_import)), type(iter(onnxwire.TensorProto().dims))]
INTERNAL_TYPES += [Edges, Matching]  # objects without graphs would read invalid memory


def test_no_call_with_wrong_arguments_ends_the_process(tmp_path: Path) -> None:
    """The calls run in a child process, which prints a name before each group of calls."""
    path = os.pathsep.join(entry for entry in sys.path if entry)
    result = subprocess.run(
        [sys.executable, "-W", "ignore", str(PROGRAM)],
        capture_output=True, text=True, cwd=tmp_path, env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip
    names = result.stdout.splitlines()
    assert result.returncode == 0, f"exit status {result.returncode} at {names[-1:]}\n{result.stderr}"
    assert names[-1] == "all called"
    assert len(names) > 1000


@pytest.mark.parametrize("foreign", [None, 5, [], object(), onnxwire.TensorProto().dims])
def test_methods_called_on_other_objects_raise_type_error(foreign: object) -> None:
    for method in (NodeProto.SerializeToString, onnxwire.Message.SerializeToString, NodeProto.__str__):
        with pytest.raises(TypeError, match=r"doesn't apply to|requires a"):
            method(foreign)


def test_methods_have_signatures_and_docstrings() -> None:
    assert str(inspect.signature(NodeProto.SerializeToString)) == "(self, /, deterministic=None)"
    assert str(inspect.signature(NodeProto().MergeFrom)) == "(other)"
    assert NodeProto.SerializeToString.__doc__.startswith("Return the encoding of the message, as bytes.")


@pytest.mark.parametrize("cls", INTERNAL_TYPES)
@pytest.mark.parametrize(
    "make",
    [lambda cls: cls(), lambda cls: cls.__new__(cls), copyreg.__newobj__, object.__new__],
    ids=["called", "__new__", "copyreg", "object.__new__"],
)
def test_internal_types_cannot_be_instantiated(cls: type, make: object) -> None:
    with pytest.raises(TypeError):
        make(cls)


def test_the_error_of_an_internal_type_names_how_its_objects_are_made() -> None:
    with pytest.raises(TypeError, match=r"onnxwire\.RepeatedSpan objects .* made by reading a repeated field"):
        onnxwire.RepeatedSpan()


def test_an_uninitialised_document_counts_as_closed() -> None:
    document = Document.__new__(Document)
    assert len(document) == 0
    with pytest.raises(onnxwire.ClosedError):
        document.files  # noqa: B018


def test_a_document_cannot_be_initialised_twice() -> None:
    model = ModelProto.FromString(b"\x12\x04name")  # producer_name
    with pytest.raises(TypeError, match="initialised once"):
        model._document.__init__(b"")
    assert model.producer_name == "name"


def test_the_class_of_a_message_cannot_be_assigned() -> None:
    """Python allows the assignment between classes of equal layout, such as messages with one field."""
    message = TypeProto.Sequence()
    for other_class in (onnxwire.TensorShapeProto, TypeProto.Optional, onnxwire.OperatorSetIdProto):
        with pytest.raises(TypeError):
            message.__class__ = other_class
        with pytest.raises(TypeError):
            object.__setattr__(message, "__class__", other_class)


def test_partial_memory_has_no_buffer() -> None:
    """Access through a buffer to bytes that are not resident would crash."""
    memory = PartialMemory(5000, Source(bytes(5000)))
    for read in (bytes, memoryview, ModelProto.FromString):
        with pytest.raises((BufferError, TypeError)):
            read(memory)


def test_decode_error_at_rejects_offsets_outside_of_the_document() -> None:
    from onnxwire.engine.damage import decode_error_at

    document = Document(b"\x0a\x05a")  # a record of length 5 with one byte
    assert isinstance(decode_error_at(document, 0, 3), DecodeError)
    for offset, end in ((0, 4), (3, 3), (1 << 62, 1 << 63), (0, 1 << 40)):
        with pytest.raises(IndexError):
            decode_error_at(document, offset, end)
    assert isinstance(decode_error_at(partial_document(b"\x0a\x05a" + b"b" * 90_000), 90_001, 90_003), DecodeError)


def test_a_view_can_be_copied() -> None:
    node = NodeProto(name="a")
    assert copy.copy(node) == copy.deepcopy(node) == node


def test_python_subclasses_cannot_make_uninitialised_objects() -> None:
    # `__del__` of the subclass would run on an object whose C fields are not set.
    finalized = []
    with pytest.raises(TypeError):

        class Derived(onnxwire.Message):
            def __del__(self) -> None:
                finalized.append(repr(self))

        Derived.__new__(Derived)
    assert finalized == []
    for module in extension_modules():
        for cls in vars(module).values():
            if isinstance(cls, type) and cls.__module__ == module.__name__ and not issubclass(cls, Exception):
                with pytest.raises(TypeError):
                    type("Derived", (cls,), {}).__new__(type("Derived", (cls,), {}))
