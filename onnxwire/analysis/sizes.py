"""Numbers of bytes, as people read them."""

from __future__ import annotations

_UNITS = ("KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


def size_text(n: int) -> str:
    """A number of bytes for people: 512 B, 1.50 MiB."""
    if n < 1024:
        return f"{n} B"
    power = min((n.bit_length() - 1) // 10, len(_UNITS))
    value = n / 1024**power
    return f"{value:.2f} {_UNITS[power - 1]}" if value < 10 else f"{value:.1f} {_UNITS[power - 1]}"
