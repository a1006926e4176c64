"""The C header `onnxwire.h`, which the build makes from `onnxwire.h.in` and the tables of `schema/`."""

from __future__ import annotations

from pathlib import Path


def get_include() -> str:
    """Return the folder of `onnxwire.h`, for the include path of a C or C++ compiler."""
    return str(Path(__file__).parent)
