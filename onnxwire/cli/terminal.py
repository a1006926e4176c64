"""Terminal output: colors, tables, numbers, and escaping of text from files."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import zip_longest

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from typing import IO, Any

_MAX_NAMES = 5  # maximum number of names that `join_first_names` prints
_MAX_NAME_CHARS = 100  # maximum length of a name that `join_first_names` prints
_MIN_COLUMN_CHARS = 8  # minimum width of a narrowed column, in characters

Paint = Callable[[str, str], str]
"""A function from a text and a style, such as "bold" or "bold red", to the styled text."""


def add_color(parser: argparse.ArgumentParser) -> None:
    """Add --color."""
    parser.add_argument(
        "--color",
        choices=("auto", "always", "never"),
        default="auto",
        help="when to use colors; auto, the default, uses them on a terminal unless NO_COLOR is set or TERM is dumb",
    )


class CleanTerminal:
    """A wrapper of a terminal that escapes control characters; used for every command's stdout and stderr.

    stream: the wrapped terminal. allows_colors: whether color sequences are written unchanged.
    """

    def __init__(self, stream: IO[str]) -> None:
        self.stream = stream
        self.allows_colors = False

    def write(self, text: str) -> int:
        """Write text with unprintable characters escaped, except line breaks, tabs, and color sequences if allowed."""
        if not text.isprintable():
            import re

            parts = re.split("([\n\t]+|\x1b\\[[0-9;]*m)" if self.allows_colors else "([\n\t]+)", text)
            # Parts with odd indices are the separators, which are written unchanged.
            text = "".join(part if i % 2 else safe_text(part) for i, part in enumerate(parts))
        return self.stream.write(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write several texts."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


@contextmanager
def ensure_standard_streams() -> Iterator[None]:
    """Provide stdin, stdout and stderr if the process was started without them, as by `>&-`.

    Reading stdin or writing stdout then raises OSError, as for any closed descriptor; output to stderr is lost.
    """
    original_streams = sys.stdin, sys.stdout, sys.stderr
    with ExitStack() as stack:
        # Opened in this order before any other file, so that the streams get the descriptors 0 to 2.
        for name, mode, flags in (
            ("stdin", "r", os.O_WRONLY),
            ("stdout", "w", os.O_RDONLY),
            ("stderr", "w", os.O_WRONLY),
        ):
            if getattr(sys, name) is None:
                opener = lambda _, __, flags=flags: os.open(os.devnull, flags)  # noqa: E731
                setattr(sys, name, stack.enter_context(open(f"<{name}>", mode, encoding="utf-8", opener=opener)))
        try:
            yield
        finally:
            sys.stdin, sys.stdout, sys.stderr = original_streams


@contextmanager
def clean_terminals() -> Iterator[None]:
    """Wrap stdout and stderr in CleanTerminal if they are terminals."""
    original_streams = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (CleanTerminal(stream) if stream.isatty() else stream for stream in original_streams)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = original_streams


def make_painter(choice: str = "auto", out: IO[str] | None = None) -> Paint:
    """Return a function that styles text for a stream; without colors or rich (the `cli` extra), text is unchanged.

    choice: the value of --color. With auto only a terminal gets colors, unless NO_COLOR is set or TERM is dumb.
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
                stream.allows_colors = True
            return lambda text, style: Style.parse(style).render(text, color_system=ColorSystem.STANDARD)
    return lambda text, style: text


def safe_text(text: str) -> str:
    """Escape unprintable characters, such as control characters, in text from a file."""
    return (
        text
        if text.isprintable()
        else "".join(character if character.isprintable() else ascii(character)[1:-1] for character in text)
    )


def join_first_names(names: Sequence[str]) -> str:
    """Join the first names of a list with commas, and append the number of the other names."""
    suffix = f" and {len(names) - _MAX_NAMES:,} more" if len(names) > _MAX_NAMES else ""
    return ", ".join(safe_text(cut_middle(name, _MAX_NAME_CHARS)) for name in names[:_MAX_NAMES]) + suffix


def safe_rows(rows: list[list[str]]) -> list[list[str]]:
    """Escape the cells of rows. They are first tested together, since nearly all texts are printable."""
    if "".join(map("".join, rows)).isprintable():
        return rows
    return [[safe_text(cell) for cell in row] for row in rows]


def number_text(value: float | None, digits: int = 6) -> str:
    """Format a float with `digits` significant digits, an integer with all digits, None as -."""
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) else f"{value:.{digits}g}"


def json_numbers(value: Any) -> Any:
    """Replace NaN and infinities by their names in protobuf's JSON, and keys other than str, int and None by text."""
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


def terminal_width(out: IO[str] | None = None) -> int | None:
    """Return the width of a terminal in columns, by default of stdout; None without a terminal or a known width."""
    stream = out or sys.stdout
    if not stream.isatty():
        return None
    try:
        return int(os.environ["COLUMNS"])
    except (KeyError, ValueError):
        try:
            return os.get_terminal_size(stream.fileno()).columns or None
        except (OSError, ValueError):
            return None


def cut_middle(text: str, width: int) -> str:
    """Shorten a text to a number of characters: names often differ at their ends, so the middle is left out."""
    if len(text) <= width:
        return text
    end = (width - 1) // 2
    return f"{text[: width - 1 - end]}…{text[len(text) - end :]}" if width > 1 else "…"[:width]


def _fit_widths(widths: list[int], fixed_columns: set[int], max_width: int) -> None:
    """Narrow the widest columns until a line has at most `max_width` characters.

    fixed_columns: indices of columns that keep their width. No column becomes narrower than _MIN_COLUMN_CHARS.
    """
    # Two spaces separate columns.
    excess = sum(widths) + 2 * (len(widths) - 1) - max_width
    while excess > 0:
        candidates = sorted(
            (width, i) for i, width in enumerate(widths) if i not in fixed_columns and width > _MIN_COLUMN_CHARS
        )
        if not candidates:
            return
        widest, i = candidates[-1]
        next_width = candidates[-2][0] if len(candidates) > 1 else _MIN_COLUMN_CHARS
        step = min(excess, max(1, widest - next_width))
        widths[i] -= step
        excess -= step


def table_lines(
    rows: Sequence[Sequence[str]],
    headings: Sequence[str] | None = None,
    right_columns: Iterable[int] = (),
    styles: Sequence[str] = (),
    paint: Paint | None = None,
    max_column_width: int = 60,
    widths: list[int] | None = None,
    max_width: int | None = None,
) -> list[str]:
    """Format rows as lines with aligned columns.

    headings: the headings of the columns, underlined if `paint` styles text. right_columns: indices of the columns to
    align to the right. styles: the styles of the columns, "" for none. max_column_width: the maximum width of a column,
    ignored if `max_width` is greater; a text that is longer, and is not shortened for `max_width`, exceeds its column.
    widths: the widths of the columns in earlier calls, updated in place. max_width: the width of the terminal, None for
    no limit; the middle of long texts in other columns than `right_columns` is omitted until the lines fit.
    """
    paint = paint or (lambda text, style: text)
    all_rows = [*([headings] if headings else []), *rows]
    if not all_rows:
        return []
    right_indices = set(right_columns)
    widths = [] if widths is None else widths
    if max_width is not None:
        max_column_width = max(max_column_width, max_width)
    batch_widths = [min(max(map(len, column)), max_column_width) for column in zip(*all_rows, strict=False)]
    widths[:] = [max(pair) for pair in zip_longest(widths, batch_widths, fillvalue=0)]
    if max_width is not None:
        _fit_widths(widths, right_indices, max_width)
        all_rows = [
            [cell if i in right_indices else cut_middle(cell, widths[i]) for i, cell in enumerate(row)]
            for row in all_rows
        ]
    if paint("x", "bold") == "x":  # without styles
        last_column = len(widths) - 1
        format_row = "  ".join(
            f"{{:>{width}}}" if i in right_indices else "{}" if i == last_column else f"{{:<{width}}}"
            for i, width in enumerate(widths)
        ).format
        return [format_row(*row).rstrip() for row in all_rows]
    lines = []
    for row_index, row in enumerate(all_rows):
        cells = []
        for i, cell in enumerate(row):
            is_last = i == len(row) - 1
            padding = " " * max(widths[i] - len(cell), 0)
            style = "underline" if headings and row_index == 0 else styles[i] if i < len(styles) else ""
            painted = paint(cell, style) if style and cell else cell
            cells.append(padding + painted if i in right_indices else painted if is_last else painted + padding)
        lines.append("  ".join(cells).rstrip())
    return lines
