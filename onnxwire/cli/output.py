"""Opens the file that a command writes with -o, which is replaced atomically, and refuses the input as output."""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

from onnxwire.errors import SourceError
from onnxwire.io.atomic_file import AtomicFile, RawWriter
from onnxwire.io.remote.address import shown_source


def refuse_overwriting_input(path: str, output: str) -> None:
    """Raise SourceError if the file to write is the input. path: the input. output: the file to write, or -."""
    if "://" in path and path == output:
        raise SourceError(errno.EINVAL, "this is the input; name another output file", shown_source(output))
    if output != "-" and os.path.exists(path) and os.path.exists(output) and os.path.samefile(path, output):
        raise SourceError(errno.EINVAL, "this is the input; name another output file", output)


@contextmanager
def open_output(path: str) -> Iterator[IO[bytes]]:
    """Open a file for writing; it replaces the file at the path when the block ends without an exception.

    Raises SaveError if it can't be written, and the exceptions of the block.
    """
    with AtomicFile(path) as target, io.BufferedWriter(RawWriter(target)) as out:
        yield out


@contextmanager
def open_text_output(path: str, errors: str = "strict") -> Iterator[IO[str]]:
    """Open a file for writing text in UTF-8, otherwise like `open_output`. errors: see `open`."""
    with open_output(path) as file, io.TextIOWrapper(file, "utf-8", errors, "\n") as out:
        yield out
