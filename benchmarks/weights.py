"""The common part of weights_inline and weights_external: reading one value per page of all weights."""

import zlib
from collections.abc import Callable, Iterable
from importlib.util import find_spec
from typing import Any

from benchmarks.row import Skip

PAGE_BYTES = 4096
ANONYMOUS_GOAL_BYTES = 5e6  # maximum increase of anonymous memory


def require(package: str) -> None:
    """Skip the row if a package is not installed."""
    if find_spec(package) is None:
        raise Skip(f"{package.replace('_', '-')} is not installed")


def copy_first_values_of_pages(array: Any) -> Any:
    """Copy one value of each page of an array."""
    return array.reshape(-1)[:: PAGE_BYTES // array.itemsize].copy()


def read_pages(arrays: Iterable[tuple[str, Any]]) -> tuple[list[Any], list[tuple[str, Any]]]:
    """Read one value per page of arrays, which are passed with their names.

    Returns the arrays, so that they stay in memory, and pairs of a name and the read values.
    """
    read_arrays, values = [], []
    for name, array in arrays:
        read_arrays.append(array)
        values.append((name, copy_first_values_of_pages(array)))
    return read_arrays, values


def fingerprint(result: tuple[list[Any], list[tuple[str, Any]]]) -> list[tuple[str, int]]:
    """Return the name of each float16 weight and a checksum of its read values, sorted.

    The model also has a small tensor of another type, which `raw_mmap` of weights_inline.py does not read.
    """
    return sorted((name, zlib.crc32(values)) for name, values in result[1] if values.dtype.itemsize == 2)


def ours(path: str) -> Callable[[], object]:
    """Return an operation that loads a model and reads one value per page of its weights."""
    # Import these modules here, so that importing them is not measured.
    import mmap  # noqa: F401

    import ml_dtypes  # noqa: F401
    import numpy  # noqa: F401

    import onnxwire

    def operation() -> object:
        model = onnxwire.load(path)
        return read_pages((tensor.name, tensor.numpy()) for tensor in model.graph.initializer)

    return operation
