"""Convert the bytes of a TensorProto with 10 million packed int64 to a numpy array."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.data import FOLDER, make_once
from benchmarks.row import Row

NUMBERS = 10_000_000
VOCABULARY = 50_000


def path_of(numbers: str) -> Path:
    """Return the path of the file with a kind of numbers."""
    return FOLDER / f"packed_{numbers}.tensor"


def make_numbers(numbers: str) -> Any:
    """Return an int64 array of one of four kinds."""
    import numpy as np

    choose = np.random.default_rng(0)
    if numbers == "small":
        return choose.integers(0, 128, NUMBERS)
    if numbers == "negative":
        return choose.integers(-1000, 0, NUMBERS)
    if numbers == "even":  # uniform bit lengths, so that the varints have 1 to 9 bytes without a pattern
        return choose.integers(0, 2**63, NUMBERS) >> choose.integers(0, 63, NUMBERS)
    # Token ids follow Zipf's law; indices are uniform; the rest are -100 (no label), negative offsets, and hashes.
    tokens = np.minimum(choose.zipf(1.2, NUMBERS), VOCABULARY) - 1
    indices = choose.integers(0, VOCABULARY, NUMBERS)
    backwards = np.where(choose.random(NUMBERS) < 0.5, -100, -choose.integers(1, 512, NUMBERS))
    hashes = choose.integers(-(2**63), 2**63, NUMBERS)
    return np.choose(choose.choice(4, NUMBERS, p=[0.6, 0.34, 0.03, 0.03]), [tokens, indices, backwards, hashes])


def prepare(numbers: str) -> None:
    """Make the file with the official package."""

    def write(path: Path) -> None:
        from onnx import TensorProto

        tensor = TensorProto(name=numbers, data_type=TensorProto.INT64, dims=[NUMBERS])
        tensor.int64_data.extend(make_numbers(numbers).tolist())
        path.write_bytes(tensor.SerializeToString())

    make_once(path_of(numbers), write)


def ours(numbers: str) -> Callable[[], Any]:
    import numpy as np

    from onnxwire import TensorProto

    data = path_of(numbers).read_bytes()
    return lambda: np.asarray(TensorProto.FromString(data).int64_data)


def official(numbers: str) -> Callable[[], object]:
    from onnx import TensorProto
    from onnx.numpy_helper import to_array

    data = path_of(numbers).read_bytes()
    return lambda: to_array(TensorProto.FromString(data))


def official_quickest(numbers: str) -> Callable[[], Any]:
    """Convert without `to_array`, which makes another copy: since version 5, protobuf's sequences fill an array
    directly."""
    import numpy as np
    from onnx import TensorProto

    data = path_of(numbers).read_bytes()
    return lambda: np.asarray(TensorProto.FromString(data).int64_data)


def total(side: Callable[[str], Callable[[], Any]]) -> Callable[[], object]:
    """Sum the numbers, so that each is read."""
    operation = side("even")
    return lambda: int(operation().sum())


def digest(array: Any) -> str:
    """Return a digest of the dtype and all values."""
    return f"{array.dtype}{array.shape} {hashlib.blake2b(array).hexdigest()}"


def make_row(work: str, numbers: str, other: Callable[[str], Callable[[], object]], goal: float | None = None) -> Row:
    """Return the row of a kind of numbers."""
    return Row(
        work,
        prepare=lambda: prepare(numbers),
        ours=lambda: ours(numbers),
        official=lambda: other(numbers),
        fingerprint=digest,
        goal=goal,
    )


ROWS = [
    make_row("10 million packed int64 to numpy, to_array", "mixed", official, 5),
    make_row("10 million packed int64 to numpy, np.asarray", "mixed", official_quickest, 5),
    make_row("the same, all values of one byte, np.asarray", "small", official_quickest),
    make_row("the same, all values negative (10 bytes), np.asarray", "negative", official_quickest),
    Row(
        "sum of 10 million packed int64 of 1 to 9 bytes, bit lengths uniformly distributed",
        prepare=lambda: prepare("even"),
        ours=lambda: total(ours),
        official=lambda: total(official_quickest),
        fingerprint=lambda result: result,
        goal=8,
    ),
]
