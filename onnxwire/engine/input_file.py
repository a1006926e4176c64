"""Opening a path for reading without blocking, and reading pipes and devices."""

from __future__ import annotations

import errno
import os
import stat

from onnxwire.errors import SourceError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

# Without O_NONBLOCK, opening a named pipe would wait for its writer, and opening a terminal for its connection.
_NONBLOCK = getattr(os, "O_NONBLOCK", 0)
_OPEN_FLAGS = os.O_RDONLY | _NONBLOCK | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_BINARY", 0)
_OPEN_FLAGS |= getattr(os, "O_CLOEXEC", 0)
_CHUNK_BYTES = 1 << 20
WRITER_TIMEOUT_SECONDS = 2.0  # timeout for a pipe without a writer
MAX_PIPE_BYTES = 1 << 31  # limit for a pipe or socket, whose bytes are stored in memory
MAX_DEVICE_BYTES = 1 << 26  # limit for a device, which may have no end


def open_input(path: str) -> int:
    """Open a path for reading; return the descriptor, which is non-blocking for streams.

    Raises OSError, and ValueError for a string that can't be a path.
    """
    descriptor = os.open(path, _OPEN_FLAGS)
    try:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            os.read(descriptor, 1)  # raises IsADirectoryError
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def open_regular(path: str) -> int:
    """Open a file that will be mapped, as `open_input` does; raises OSError for a pipe, a device or a file of /proc."""
    descriptor = open_input(path)
    try:
        status = os.fstat(descriptor)
        # Files in /proc have content and size 0.
        if not stat.S_ISREG(status.st_mode) or (status.st_size == 0 and os.read(descriptor, 1)):
            raise OSError(errno.EINVAL, "this is a pipe, device or file of /proc; write its content to a file first")
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def read_input(descriptor: int, name: str, max_bytes: int | None = None) -> bytearray:
    """Read a pipe, socket or device that `open_input` opened, to its end.

    Waits up to WRITER_TIMEOUT_SECONDS for a pipe's writer, then without limit for its data; never waits for a device.
    max_bytes: reading may stop after this number of bytes.
    Raises OSError, and SourceError for a pipe without a writer, a device without data, and beyond the limits of
    `read_stream`.
    """
    mode = os.fstat(descriptor).st_mode
    head = b""
    if _NONBLOCK and (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
        head = _wait_for_first_bytes(descriptor, name)
        os.set_blocking(descriptor, True)
    try:
        return read_stream(lambda size: os.read(descriptor, size), name, mode, head, max_bytes)
    except BlockingIOError:
        raise SourceError(errno.EAGAIN, "this device has no data now; write its output to a file first", name) from None


def _wait_for_first_bytes(descriptor: int, name: str) -> bytes:
    """Wait for the first bytes of a non-blocking pipe, and return them.

    Raises SourceError if the pipe has no writer after WRITER_TIMEOUT_SECONDS. A writer that ends without writing is
    treated as no writer.
    """
    import select
    import time

    deadline = time.monotonic() + WRITER_TIMEOUT_SECONDS
    while True:
        try:
            head = os.read(descriptor, _CHUNK_BYTES)
        except BlockingIOError:  # a writer has opened the pipe: wait until it writes, or ends
            poll = select.poll()
            poll.register(descriptor, select.POLLIN)
            poll.poll()
            continue
        if head:
            return head
        if time.monotonic() >= deadline:
            reason = "nothing writes to this pipe; start the writer first, or use <(command) or a file"
            raise SourceError(errno.EPIPE, reason, name)
        time.sleep(0.01)


def read_stream(
    read: Callable[[int], bytes | None], name: str, mode: int, head: bytes = b"", max_bytes: int | None = None
) -> bytearray:
    """Read a pipe, socket or device to its end.

    read: a function that reads at most the given number of bytes; it returns b"" at the end, and None if a non-blocking
    stream has no bytes yet. mode: `st_mode` of the stream. head: the bytes that were read from it before. max_bytes:
    reading may stop after this number of bytes.
    Raises SourceError for more than 2 GiB of a pipe or socket, for more than 64 MiB of a device, and if `read` returns
    None.
    """
    limit = MAX_PIPE_BYTES if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) else MAX_DEVICE_BYTES
    data = bytearray(head)
    while chunk := read(_CHUNK_BYTES):
        data += chunk
        if max_bytes is not None and len(data) > max_bytes:
            return data
        if len(data) > limit:
            kind = "pipe or socket" if limit == MAX_PIPE_BYTES else "device"
            reason = f"more than {limit:,} bytes, the limit for a {kind}; write them to a file first"
            raise SourceError(errno.EFBIG, reason, name)
    if chunk is None:
        raise SourceError(errno.EAGAIN, "its read() returned None; make the stream blocking", name)
    return data
