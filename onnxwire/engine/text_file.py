"""Text files that a user names: tables of messages, and of operators."""

from __future__ import annotations

import errno
import os
import stat

from onnxwire.engine.input_file import open_input, read_input
from onnxwire.errors import DecodeError, SourceError

_LIMIT = 1 << 26  # bytes, of a file that may have no end


def read_text(path: str | os.PathLike[str], what: str) -> str:
    """The text of a file in UTF-8.

    what: what it is to be, for errors. Raises SourceError for a file that can't be read, or has more than 64 MiB, and
    DecodeError for one that is no such text.
    """
    name = os.fsdecode(path)
    try:
        descriptor = open_input(name)
        with open(descriptor, "rb") as file:
            is_regular = stat.S_ISREG(os.fstat(descriptor).st_mode)
            data = file.read(_LIMIT + 1) if is_regular else bytes(read_input(descriptor, name, _LIMIT))
    except SourceError:
        raise
    except (OSError, ValueError) as error:
        raise SourceError.from_os_error(error, name) from None
    if len(data) > _LIMIT:
        raise SourceError(errno.EFBIG, f"{what} has up to {_LIMIT:,} bytes, and this file has more", name)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DecodeError(f"{what} is text in UTF-8", error.start, source=name) from None
