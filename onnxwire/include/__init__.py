"""The C headers: `onnxwire.h`, which the build makes from `onnxwire.h.in` and `schema/`, and `onnxwire_python.h`."""

from __future__ import annotations

from pathlib import Path


def get_include() -> str:
    """Return the folder of `onnxwire.h` and `onnxwire_python.h`, for the include path of a C or C++ compiler."""
    return str(Path(__file__).parent)
