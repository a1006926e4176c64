"""Reading text files that a user names: tables of messages and of operators."""

from __future__ import annotations

import errno
import os
import stat

from onnxwire.engine.input_file import open_input, read_input
from onnxwire.errors import DecodeError, SourceError

_MAX_BYTES = 1 << 26  # limit for devices without an end


def read_text(path: str | os.PathLike[str], what: str) -> str:
    """Return the text of a file in UTF-8.

    what: the kind of file, for error messages. Raises SourceError for a file that can't be read or has more than 64
        MiB, and DecodeError for invalid UTF-8.
    """
    name = os.fsdecode(path)
    try:
        descriptor = open_input(name)
        with open(descriptor, "rb") as file:
            is_regular = stat.S_ISREG(os.fstat(descriptor).st_mode)
            data = file.read(_MAX_BYTES + 1) if is_regular else bytes(read_input(descriptor, name, _MAX_BYTES))
    except SourceError:
        raise
    except (OSError, ValueError) as error:
        raise SourceError.from_os_error(error, name) from None
    if len(data) > _MAX_BYTES:
        raise SourceError(errno.EFBIG, f"{what} has up to {_MAX_BYTES:,} bytes, and this file has more", name)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DecodeError(f"expected {what} in UTF-8", error.start, source=name) from None
