"""The common part of weights_inline, weights_external and unpack: reads all weights of the 1 GiB model, one value per
page."""

import zlib
from collections.abc import Callable, Iterable
from importlib.util import find_spec
from typing import Any

from benchmarks.row import Skip

PAGE = 4096
PRIVATE_GOAL = 5e6  # bytes


def require(package: str) -> None:
    """Skip the row if a package is not installed."""
    if find_spec(package) is None:
        raise Skip(f"{package.replace('_', '-')} is not installed")


def touch(array: Any) -> Any:
    """Copy one value of each page of an array."""
    return array.reshape(-1)[:: PAGE // array.itemsize].copy()


def touch_all(arrays: Iterable[tuple[str, Any]]) -> tuple[list[Any], list[tuple[str, Any]]]:
    """Read one value per page of arrays; return the arrays, to keep all of them alive, and the values by name."""
    kept, values = [], []
    for name, array in arrays:
        kept.append(array)
        values.append((name, touch(array)))
    return kept, values


def fingerprint(result: tuple[list[Any], list[tuple[str, Any]]]) -> list[tuple[str, int]]:
    """Return a checksum of the values of each weight; skips the only small tensor, which is in a typed field."""
    return sorted((name, zlib.crc32(values)) for name, values in result[1] if values.dtype.itemsize == 2)


def ours(path: str) -> Callable[[], object]:
    # The other packages import this at their start.
    import mmap  # noqa: F401

    import ml_dtypes  # noqa: F401
    import numpy  # noqa: F401

    import onnxwire

    def operation() -> object:
        model = onnxwire.load(path)
        return touch_all((tensor.name, tensor.numpy()) for tensor in model.graph.initializer)

    return operation
