"""Tables as CSV that a spreadsheet can open, whatever a model has in its names."""

from __future__ import annotations

import csv
import unicodedata
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

# What spreadsheets take for the beginning of a formula, of any width, and the categories of Unicode that they may
# remove before it, besides spaces: controls, and characters that do not show. Source: OWASP, CSV Injection.
_SIGNS = "=+-@\uff1d\uff0b\uff0d\uff20"
_INVISIBLE = ("Cc", "Cf")


def write_csv(rows: Iterable[Iterable[Any]], out: IO[str]) -> None:
    """Write rows of cells as CSV, quoted as RFC 4180 says, with lines that end in LF; nothing for None.

    A text that a spreadsheet would take for a formula, such as =1+1, gets an apostrophe before it, by which it is shown
    as text. Numbers stay as they are.
    """
    writer = csv.writer(_Lines(out), lineterminator="\r\n")  # quotes what has a CR or LF in it
    writer.writerows([_plain(cell) for cell in row] for row in rows)


def _plain(cell: Any) -> Any:
    return f"'{cell}" if isinstance(cell, str) and _is_formula(cell) else cell


def _is_formula(text: str) -> bool:
    if text.startswith(("\t", "\r", "\n")):
        return True
    for letter in text:
        if letter in _SIGNS:
            return True
        if not letter.isspace() and unicodedata.category(letter) not in _INVISIBLE:
            return False
    return False


class _Lines:
    """A text file that gets the lines of a CSV writer, with LF at their ends."""

    def __init__(self, out: IO[str]) -> None:
        self._out = out

    def write(self, line: str) -> int:
        """Write one line."""
        return self._out.write(line.removesuffix("\r\n") + "\n")
