"""Colour on terminals, and none elsewhere."""

from __future__ import annotations

import argparse
import os
from typing import IO

_CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}


class Paint:
    """Writes text in styles, such as paint("3 errors", "bold", "red"); as it is where no colour is wanted."""

    def __init__(self, choice: str, out: IO[str]) -> None:
        """Take "always" or "never", or "auto": colour on terminals, unless NO_COLOR is set or TERM is dumb."""
        self.is_terminal = out.isatty()
        self.is_on = choice == "always" or (
            choice == "auto"
            and self.is_terminal
            and not os.environ.get("NO_COLOR")
            and os.environ.get("TERM") != "dumb"
        )

    def __call__(self, text: str, *styles: str) -> str:
        """Write a text in styles."""
        if not self.is_on or not text:
            return text
        return f"\x1b[{';'.join(_CODES[style] for style in styles)}m{text}\x1b[0m"


def add_color(parser: argparse.ArgumentParser) -> None:
    """Add --color."""
    parser.add_argument(
        "--color",
        choices=["auto", "always", "never"],
        default="auto",
        help="by default on a terminal, unless NO_COLOR is set",
    )


def printable(text: str) -> str:
    """Text of a file, without what a terminal would obey."""
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)
