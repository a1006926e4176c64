"""The output of commands for people: colors, tables, numbers, and text of a file that must not steer the terminal."""

from __future__ import annotations

import argparse
import math
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import zip_longest
from typing import IO, Any

Paint = Callable[[str, str], str]
"""A function from a text and a style, such as "bold" or "bold red", to what is printed."""


def add_color(parser: argparse.ArgumentParser) -> None:
    """Add --color."""
    parser.add_argument(
        "--color",
        choices=("auto", "always", "never"),
        default="auto",
        help="colors: auto, which is the default, is on a terminal without NO_COLOR in the environment",
    )


class CleanTerminal:
    """A terminal that gets text of files without what it would obey: every command's stdout and stderr, where they are.

    stream: the terminal as it is. takes_color: let colors through, which a painter has made.
    """

    def __init__(self, stream: IO[str]) -> None:
        self.stream = stream
        self.takes_color = False

    def write(self, text: str) -> int:
        """Write text; what is not printable is shown by its code, but for ends of lines and tabs."""
        if not text.isprintable():
            parts = (_KEPT_AND_COLORS if self.takes_color else _KEPT).split(text)
            text = "".join(part if i % 2 else safe_text(part) for i, part in enumerate(parts))
        return self.stream.write(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write several texts."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


_KEPT = re.compile("([\n\t]+)")
_KEPT_AND_COLORS = re.compile("([\n\t]+|\x1b\\[[0-9;]*m)")


@contextmanager
def given_streams() -> Iterator[None]:
    """Have a stdin, a stdout and a stderr where the process was started without, as by `>&-`.

    To read the first or write the second is then an OSError, as of any closed descriptor; what goes to stderr is lost.
    """
    before = sys.stdin, sys.stdout, sys.stderr
    with ExitStack() as opened:
        # The lowest descriptors first, so that no file of a command gets one of theirs.
        for name, mode, flags in (
            ("stdin", "r", os.O_WRONLY),
            ("stdout", "w", os.O_RDONLY),
            ("stderr", "w", os.O_WRONLY),
        ):
            if getattr(sys, name) is None:
                opener = lambda _, __, flags=flags: os.open(os.devnull, flags)  # noqa: E731
                setattr(sys, name, opened.enter_context(open(f"<{name}>", mode, encoding="utf-8", opener=opener)))
        try:
            yield
        finally:
            sys.stdin, sys.stdout, sys.stderr = before


@contextmanager
def clean_terminals() -> Iterator[None]:
    """Make terminals of stdout and stderr clean; what goes to files and pipes stays as it is."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (CleanTerminal(stream) if stream.isatty() else stream for stream in before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def painter(choice: str = "auto", out: IO[str] | None = None) -> Paint:
    """A function that colors text for a stream; it changes nothing without rich (the `cli` extra).

    choice: what --color was. With auto only a terminal gets colors, and none where NO_COLOR is set or TERM is dumb.
    out: the stream, by default stdout.
    """
    if choice == "auto":
        no_color = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
        choice = "never" if no_color or not (out or sys.stdout).isatty() else "always"
    if choice == "always":
        try:
            from rich.color import ColorSystem
            from rich.style import Style
        except ImportError:
            pass
        else:
            stream = out or sys.stdout
            if isinstance(stream, CleanTerminal):
                stream.takes_color = True
            return lambda text, style: Style.parse(style).render(text, color_system=ColorSystem.STANDARD)
    return lambda text, style: text


def safe_text(text: str) -> str:
    """Text of a file, without what a terminal would obey."""
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def safe_rows(rows: list[list[str]]) -> list[list[str]]:
    """Rows of text of a file, each cell safe; they are looked at together first, because nearly all of them are."""
    if "".join(map("".join, rows)).isprintable():
        return rows
    return [[safe_text(cell) for cell in row] for row in rows]


def number_text(value: float | None) -> str:
    """A number with six digits, an integer with all; - for none."""
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) else f"{value:.6g}"


def json_numbers(value: Any) -> Any:
    """A value with names instead of the numbers that JSON does not have, those that protobuf's JSON uses."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        # Keys of a map may be of any type, such as a date.
        return {
            key if isinstance(key, str | int | None) else str(json_numbers(key)): json_numbers(entry)
            for key, entry in value.items()
        }
    if isinstance(value, list | tuple):
        return [json_numbers(entry) for entry in value]
    return value


def table_lines(
    rows: Sequence[Sequence[str]],
    headings: Sequence[str] | None = None,
    right: Iterable[int] = (),
    styles: Sequence[str] = (),
    paint: Paint | None = None,
    widest: int = 60,
    widths: list[int] | None = None,
) -> list[str]:
    """Rows as lines with aligned columns.

    headings: of the columns, underlined in color. right: the columns that are aligned to the right, as numbers are.
    styles: of the columns, "" for none. widest: a longer text sticks out of its column rather than widening it.
    widths: those of the lines before, which grow; [] of the first.
    """
    paint = paint or (lambda text, style: text)
    every = [*([headings] if headings else []), *rows]
    if not every:
        return []
    to_right = set(right)
    widths = [] if widths is None else widths
    found = [min(max(map(len, column)), widest) for column in zip(*every, strict=False)]
    widths[:] = [max(pair) for pair in zip_longest(widths, found, fillvalue=0)]
    if paint("x", "bold") == "x":
        last = len(widths) - 1
        form = "  ".join(
            f"{{:>{width}}}" if i in to_right else "{}" if i == last else f"{{:<{width}}}"
            for i, width in enumerate(widths)
        ).format
        return [form(*row).rstrip() for row in every]
    lines = []
    for number, row in enumerate(every):
        cells = []
        for i, cell in enumerate(row):
            is_last = i == len(row) - 1
            pad = " " * max(widths[i] - len(cell), 0)
            style = "underline" if headings and number == 0 else styles[i] if i < len(styles) else ""
            painted = paint(cell, style) if style and cell else cell
            cells.append(pad + painted if i in to_right else painted if is_last else painted + pad)
        lines.append("  ".join(cells).rstrip())
    return lines
