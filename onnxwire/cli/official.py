"""Errors of the official onnx package in commands that call its functions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from onnxwire.errors import EditError, Error
from onnxwire.io.remote.address import shown_source

# The start of the error text of a failed assertion in the package's C++ code.
_ASSERTION = re.compile(r"^\S+:\d+: \w+: Assertion `.*?` failed: ")


@contextmanager
def official_errors(path: str) -> Iterator[None]:
    """Convert any exception of the block to an EditError with the file, except the errors of onnxwire.

    The exceptions of the official package have no common base class. path: the path or address of the model.
    """
    try:
        yield
    except Error:
        raise
    except Exception as error:
        reason = _ASSERTION.sub("", " ".join(str(error).split()))
        raise EditError(f"the onnx package rejects the model: {reason}", shown_source(path)) from None
