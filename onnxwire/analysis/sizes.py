"""Formats and parses numbers of bytes."""

from __future__ import annotations

import re

_SIZE = re.compile(r"([0-9]{1,18})([KMGT]?)(i?B)?", re.IGNORECASE)
_UNITS = ("KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


def size_text(n: int) -> str:
    """Format a number of bytes: 512 B, 1.50 MiB."""
    if n < 1024:
        return f"{n} B"
    power = min((n.bit_length() - 1) // 10, len(_UNITS))
    value = n / 1024**power
    return f"{value:.2f} {_UNITS[power - 1]}" if value < 10 else f"{value:.1f} {_UNITS[power - 1]}"


def parse_size(text: str) -> int | None:
    """Parse a number of bytes such as 4096, 64K or 2GiB, in powers of 1024; return None for other texts."""
    match = _SIZE.fullmatch(text)
    if match is None:
        return None
    power = " KMGT".index(match[2].upper() or " ")  # of 1024
    return int(match[1]) << 10 * power
