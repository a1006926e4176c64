"""Opening a path for reading without blocking, and reading pipes and devices."""

from __future__ import annotations

import errno
import os
import stat

from onnxwire.errors import SourceError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

# An open that waits for the writer of a named pipe, or for a terminal, would hang.
_NONBLOCK = getattr(os, "O_NONBLOCK", 0)
_FLAGS = os.O_RDONLY | _NONBLOCK | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_BINARY", 0)
_FLAGS |= getattr(os, "O_CLOEXEC", 0)
_CHUNK = 1 << 20
WRITER_SECONDS = 2.0  # that a pipe without a writer is waited for
PIPE_LIMIT = 1 << 31  # bytes that are read of a pipe or socket, which are held in memory
DEVICE_LIMIT = 1 << 26  # of a device, of which some have no end


def open_input(path: str) -> int:
    """Open a path for reading; returns the descriptor, which is non-blocking for streams.

    Raises OSError, and ValueError for what is no path.
    """
    descriptor = os.open(path, _FLAGS)
    try:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            os.read(descriptor, 1)  # raises IsADirectoryError
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def open_regular(path: str) -> int:
    """As `open_input`, for a file that is to be mapped; raises OSError for a pipe or device."""
    descriptor = open_input(path)
    try:
        status = os.fstat(descriptor)
        # Those in /proc have bytes and no size.
        if not stat.S_ISREG(status.st_mode) or (status.st_size == 0 and os.read(descriptor, 1)):
            raise OSError(errno.EINVAL, "this is a pipe or device; write what it gives to a file first")
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def read_input(descriptor: int, name: str, most: int | None = None) -> bytearray:
    """Read a pipe, socket or device that `open_input` opened, to its end.

    A pipe with a writer is waited for; a device is not, and a writer no longer than WRITER_SECONDS. most: with more
    bytes than this, the rest may not be read.
    Raises OSError, and SourceError for a pipe without a writer and beyond the limits of `read_stream`.
    """
    mode = os.fstat(descriptor).st_mode
    head = b""
    if _NONBLOCK and (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
        head = _first_bytes(descriptor, name)
        os.set_blocking(descriptor, True)
    try:
        return read_stream(lambda size: os.read(descriptor, size), name, mode, head, most)
    except BlockingIOError:
        raise SourceError(errno.EAGAIN, "this device gives nothing now; write what it gives to a file", name) from None


def _first_bytes(descriptor: int, name: str) -> bytes:
    """The first bytes of a pipe that does not wait, or none where it has a writer that has written nothing yet.

    Raises SourceError where no writer comes within WRITER_SECONDS.
    """
    import time

    end = time.monotonic() + WRITER_SECONDS
    while True:
        try:
            head = os.read(descriptor, _CHUNK)
        except BlockingIOError:
            return b""
        if head:
            return head
        if time.monotonic() >= end:
            reason = "nothing writes to this pipe; start the writer first, or use <(command) or a file"
            raise SourceError(errno.EPIPE, reason, name)
        time.sleep(0.01)


def read_stream(
    read: Callable[[int], bytes | None], name: str, mode: int, head: bytes = b"", most: int | None = None
) -> bytearray:
    """Read a pipe, socket or device to its end, which may never come.

    head: what was read of it before. most: with more bytes than this, the rest may not be read.
    Raises SourceError for more than 2 GiB of a pipe or socket, or 64 MiB of a device.
    """
    limit = PIPE_LIMIT if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) else DEVICE_LIMIT
    data = bytearray(head)
    while chunk := read(_CHUNK):
        data += chunk
        if most is not None and len(data) > most:
            return data
        if len(data) > limit:
            what = "pipe" if limit == PIPE_LIMIT else "device"
            reason = f"a {what} is read up to {limit:,} bytes, and this one has more; write them to a file first"
            raise SourceError(errno.EFBIG, reason, name)
    if chunk is None:
        raise SourceError(errno.EAGAIN, "it gives nothing now: its read gave None; make it blocking", name)
    return data
