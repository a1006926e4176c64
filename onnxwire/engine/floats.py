"""The shortest decimal numbers that round to given float32 numbers."""

from __future__ import annotations

from struct import Struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def shortest_floats(values: Sequence[float]) -> list[float]:
    """Return, for each float32, the number with the fewest significant digits (6 to 9) that rounds to this float32.

    Source: protobuf's json_format and text_format.
    """
    layout = Struct(f"{len(values)}f")
    numbers = _round_all(values, 6)
    if layout.pack(*numbers) == layout.pack(*values):
        return numbers
    floats = layout.unpack(layout.pack(*numbers))
    # NaN, the only value that differs from itself, is never wrong.
    wrong_indices = [i for i, value in enumerate(values) if floats[i] != value == value]
    for digits in (7, 8, 9):
        if not wrong_indices:
            break
        longer_numbers = _round_all([values[i] for i in wrong_indices], digits)
        layout = Struct(f"{len(wrong_indices)}f")
        floats = layout.unpack(layout.pack(*longer_numbers))
        for i, number in zip(wrong_indices, longer_numbers, strict=True):
            numbers[i] = number
        wrong_indices = [i for i, number in zip(wrong_indices, floats, strict=True) if number != values[i]]
    return numbers


def _round_all(values: Sequence[float], digits: int) -> list[float]:
    """Round numbers to a number of significant decimal digits."""
    # One format operation for all numbers is three times as fast as one per number.
    return list(map(float, (f"%.{digits}g " * len(values) % tuple(values)).split()))
