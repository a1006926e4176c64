"""Convert the bytes of a TensorProto with 10 million packed int64 to a numpy array."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.data import FOLDER, make_once
from benchmarks.row import Row

N_NUMBERS = 10_000_000
VOCABULARY = 50_000  # number of different tokens, and of different indices


def path_of(distribution: str) -> Path:
    """Return the path of the file with numbers of a distribution."""
    return FOLDER / f"packed_{distribution}.tensor"


def make_numbers(distribution: str) -> Any:
    """Return an int64 array of a distribution: "small", "negative", "uniform_lengths" or "mixed"."""
    import numpy as np

    rng = np.random.default_rng(0)
    if distribution == "small":
        return rng.integers(0, 128, N_NUMBERS)
    if distribution == "negative":
        return rng.integers(-1000, 0, N_NUMBERS)
    if distribution == "uniform_lengths":  # uniform numbers of bits: varints of 1 to 9 bytes without a pattern
        return rng.integers(0, 2**63, N_NUMBERS) >> rng.integers(0, 63, N_NUMBERS)
    # Token ids follow Zipf's law, and indices are uniform. The other numbers are -100 (no label), negative offsets and
    # hashes.
    tokens = np.minimum(rng.zipf(1.2, N_NUMBERS), VOCABULARY) - 1
    indices = rng.integers(0, VOCABULARY, N_NUMBERS)
    negatives = np.where(rng.random(N_NUMBERS) < 0.5, -100, -rng.integers(1, 512, N_NUMBERS))
    hashes = rng.integers(-(2**63), 2**63, N_NUMBERS)
    return np.choose(rng.choice(4, N_NUMBERS, p=[0.6, 0.34, 0.03, 0.03]), [tokens, indices, negatives, hashes])


def prepare(distribution: str) -> None:
    """Make the file with the official package."""

    def write(path: Path) -> None:
        from onnx import TensorProto

        tensor = TensorProto(name=distribution, data_type=TensorProto.INT64, dims=[N_NUMBERS])
        tensor.int64_data.extend(make_numbers(distribution).tolist())
        path.write_bytes(tensor.SerializeToString())

    make_once(path_of(distribution), write)


def ours(distribution: str) -> Callable[[], Any]:
    """Return an operation that parses the tensor and makes an array with onnxwire."""
    import numpy as np

    from onnxwire import TensorProto

    data = path_of(distribution).read_bytes()
    return lambda: np.asarray(TensorProto.FromString(data).int64_data)


def official(distribution: str) -> Callable[[], object]:
    """Return an operation that parses the tensor and makes an array with `to_array`."""
    from onnx import TensorProto
    from onnx.numpy_helper import to_array

    data = path_of(distribution).read_bytes()
    return lambda: to_array(TensorProto.FromString(data))


def official_without_to_array(distribution: str) -> Callable[[], Any]:
    """Return an operation that parses the tensor and makes an array with `np.asarray`.

    `to_array` makes another copy.
    """
    import numpy as np
    from onnx import TensorProto

    data = path_of(distribution).read_bytes()
    return lambda: np.asarray(TensorProto.FromString(data).int64_data)


def sum_of(side: Callable[[str], Callable[[], Any]]) -> Callable[[], object]:
    """Return an operation that sums the numbers of the distribution "uniform_lengths", so that each number is read."""
    operation = side("uniform_lengths")
    return lambda: int(operation().sum())


def digest(array: Any) -> str:
    """Return the dtype, the shape and a digest of the values."""
    return f"{array.dtype}{array.shape} {hashlib.blake2b(array).hexdigest()}"


def make_row(
    work: str, distribution: str, official_side: Callable[[str], Callable[[], object]], goal: float | None = None
) -> Row:
    """Return a row for a distribution. official_side: `official` or `official_without_to_array`."""
    return Row(
        work,
        prepare=lambda: prepare(distribution),
        ours=lambda: ours(distribution),
        official=lambda: official_side(distribution),
        fingerprint=digest,
        goal=goal,
    )


ROWS = [
    make_row("10 million packed int64 to numpy, to_array", "mixed", official, 5),
    make_row("10 million packed int64 to numpy, np.asarray", "mixed", official_without_to_array, 5),
    make_row("the same, all values of one byte, np.asarray", "small", official_without_to_array),
    make_row("the same, all values negative (10 bytes), np.asarray", "negative", official_without_to_array),
    Row(
        "sum of 10 million packed int64 of 1 to 9 bytes, bit lengths uniformly distributed",
        prepare=lambda: prepare("uniform_lengths"),
        ours=lambda: sum_of(ours),
        official=lambda: sum_of(official_without_to_array),
        fingerprint=lambda result: result,
        goal=8,
    ),
]
