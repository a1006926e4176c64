"""The progress bar of commands that write files."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from onnxwire.cli.terminal import CleanTerminal, safe_text


@contextmanager
def progress_bar(label: str, wanted: bool = True) -> Iterator[Callable[[int, int], object] | None]:
    """Give a `progress` callback for `onnxwire.save` that draws on stderr.

    None, and nothing drawn, where that is not a terminal, where it is not wanted, or without rich (the `cli` extra).
    """
    if not wanted or not sys.stderr.isatty():
        yield None
        return
    try:
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn
    except ImportError:
        yield None
        return
    # A name of a file is not markup, and rich steers the terminal itself.
    file = sys.stderr.stream if isinstance(sys.stderr, CleanTerminal) else sys.stderr
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(file=file), transient=True, redirect_stdout=False) as bar:
        task = bar.add_task(safe_text(label), total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
