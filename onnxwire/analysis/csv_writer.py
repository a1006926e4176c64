"""Writes tables as CSV that is safe to open in a spreadsheet."""

from __future__ import annotations

import csv
import unicodedata
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

# The characters that start a formula in a spreadsheet, in ASCII and full-width form. Source: OWASP, CSV Injection.
_FORMULA_PREFIXES = "=+-@\uff1d\uff0b\uff0d\uff20"
# Unicode categories of characters that a spreadsheet may ignore before a formula, like spaces: control and format.
_IGNORED_CATEGORIES = ("Cc", "Cf")


def write_csv(rows: Iterable[Iterable[Any]], out: IO[str]) -> None:
    """Write rows of cells as CSV, quoted by RFC 4180, with lines that end in LF; None is an empty cell.

    A text that a spreadsheet may evaluate as a formula, such as =1+1, or that starts with a tab or a line break gets an
    apostrophe as prefix. Numbers do not.
    """
    writer = csv.writer(_LineFeedWriter(out), lineterminator="\r\n")  # quotes cells that contain CR or LF
    writer.writerows([_escape_formula(cell) for cell in row] for row in rows)


def _escape_formula(cell: Any) -> Any:
    return f"'{cell}" if isinstance(cell, str) and _is_formula(cell) else cell


def _is_formula(text: str) -> bool:
    """Return whether a spreadsheet may evaluate a text as a formula."""
    if text.startswith(("\t", "\r", "\n")):  # OWASP lists these characters, too
        return True
    for char in text:
        if char in _FORMULA_PREFIXES:
            return True
        if not char.isspace() and unicodedata.category(char) not in _IGNORED_CATEGORIES:
            return False
    return False


class _LineFeedWriter:
    """Passes the lines of a CSV writer to a text file, with LF as line end."""

    def __init__(self, out: IO[str]) -> None:
        self._out = out

    def write(self, line: str) -> int:
        """Write one line."""
        return self._out.write(line.removesuffix("\r\n") + "\n")
