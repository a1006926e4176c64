"""Reading text files that a user names: tables of messages and of operators."""

from __future__ import annotations

import errno
import os
import stat

from onnxwire.engine.input_file import open_input, read_input
from onnxwire.errors import DecodeError, SourceError

_MAX_BYTES = 1 << 26  # a limit, because a device may have no end


def read_text(path: str | os.PathLike[str], kind: str) -> str:
    """Return the text of a file in UTF-8.

    kind: the kind of file, for error messages, such as "a table of messages".
    Raises SourceError for a file that can't be read or has more than 64 MiB, and DecodeError for invalid UTF-8.
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
        raise SourceError(errno.EFBIG, f"more than {_MAX_BYTES:,} bytes, the limit for {kind}", name)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DecodeError(f"expected {kind} in UTF-8", error.start, source=name) from None
