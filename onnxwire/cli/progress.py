"""The progress bar of commands."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from onnxwire.cli.terminal import CleanTerminal, safe_text


@contextmanager
def progress_bar(label: str, is_enabled: bool = True) -> Iterator[Callable[[int, int], object] | None]:
    """Return a context manager whose value is a `progress` callback that draws on stderr.

    The callback's arguments are the numbers of processed bytes and of all bytes.
    The value is None if stderr is not a terminal, if `is_enabled` is false, or without rich (the `cli` extra).
    """
    if not is_enabled or not sys.stderr.isatty():
        yield None
        return
    try:
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn
    except ImportError:
        yield None
        return
    # markup=False, since a label contains a file name. rich writes control sequences, so it needs the raw terminal.
    file = sys.stderr.stream if isinstance(sys.stderr, CleanTerminal) else sys.stderr
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(file=file), transient=True, redirect_stdout=False) as bar:
        task = bar.add_task(safe_text(label), total=None)
        yield lambda done_bytes, total_bytes: bar.update(task, completed=done_bytes, total=total_bytes)
