"""The progress bar of commands that write files."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress_bar(label: str, wanted: bool = True) -> Iterator[Callable[[int, int], object] | None]:
    """Give a `progress` callback for `onnxwire.save` that draws on stderr.

    None, and nothing drawn, where that is no terminal, where it is not wanted, or without rich (the `cli` extra).
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
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
