"""Import onnxwire and its message classes in a new interpreter, compared with `import onnx`.

`import onnxwire` alone does not import the message classes.
"""

from __future__ import annotations

from benchmarks.row import Row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


def ours() -> Callable[[], object]:
    """Return an operation that imports onnxwire."""

    def operation() -> None:
        from onnxwire import ModelProto, load  # noqa: F401

    return operation


def official() -> Callable[[], object]:
    """Return an operation that imports onnx."""

    def operation() -> None:
        import onnx  # noqa: F401

    return operation


def check_numpy_is_not_imported(_: object) -> None:
    """Check that importing onnxwire does not import numpy. No check on the official side, which imports onnx."""
    import sys

    assert "onnx" in sys.modules or "numpy" not in sys.modules, "importing onnxwire imports numpy"


ROWS = [Row("import", ours=ours, official=official, fingerprint=check_numpy_is_not_imported, goal=4, repeats=15)]
