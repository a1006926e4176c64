"""The errors of the official package, as the commands that run its functions tell them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from onnxwire.errors import EditError, Error
from onnxwire.io.remote.address import shown_source

# What an assertion in its C++ says before the reason.
_ASSERTION = re.compile(r"^\S+:\d+: \w+: Assertion `.*?` failed: ")


@contextmanager
def official_errors(path: str) -> Iterator[None]:
    """Turn what the official package raises for a model, which has no common base, into an error about the file."""
    try:
        yield
    except Error:
        raise
    except Exception as error:
        reason = _ASSERTION.sub("", " ".join(str(error).split()))
        raise EditError(f"the onnx package refuses the model: {reason}", shown_source(path)) from None
