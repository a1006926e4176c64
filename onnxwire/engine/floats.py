"""Decimal digits of float32 numbers."""

from __future__ import annotations

from struct import Struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def shortest_floats(values: Sequence[float]) -> list[float]:
    """Return for each float32 the double with the fewest decimal digits, at least 6, that rounds to it.

    Source: protobuf's json_format and text_format.
    """
    pack = Struct(f"{len(values)}f")
    found = _rounded(values, 6)
    if pack.pack(*found) == pack.pack(*values):
        return found
    singles = pack.unpack(pack.pack(*found))
    wrong = [i for i, value in enumerate(values) if singles[i] != value == value]
    for digits in (7, 8, 9):
        if not wrong:
            break
        better = _rounded([values[i] for i in wrong], digits)
        pack = Struct(f"{len(wrong)}f")
        singles = pack.unpack(pack.pack(*better))
        for i, number in zip(wrong, better, strict=True):
            found[i] = number
        wrong = [i for i, single in zip(wrong, singles, strict=True) if single != values[i]]
    return found


def _rounded(values: Sequence[float], digits: int) -> list[float]:
    # One format operation for all numbers is three times as fast as one per number.
    return list(map(float, (f"%.{digits}g " * len(values) % tuple(values)).split()))
