# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Writing files: small pieces are gathered, large ones are copied from file to file."""
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.exc cimport PyErr_CheckSignals
from cython cimport critical_section, final
from libc.errno cimport EINTR
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memcpy

from onnxwire.engine.memory cimport free, malloc

cdef extern from "file_writer.h" nogil:
    const uint64_t OW_STREAM
    int64_t ow_read(int fd, uint8_t* p, uint64_t n, uint64_t offset)
    int64_t ow_write(int fd, const uint8_t* p, uint64_t n, uint64_t offset)
    enum:
        BUFFER "OW_BUFFER"
        PIECE "OW_PIECE"
    int64_t ow_copy(int source, uint64_t source_offset, int target, uint64_t target_offset, uint64_t n)
    bint ow_copy_together(int source, uint64_t offset, int target, uint64_t target_offset, uint64_t n)
    bint ow_is_remote(int fd)
    void ow_start_writeback(int fd, uint64_t offset, uint64_t n)
    int64_t ow_resize(int fd, uint64_t size)
    bint ow_is_sparse(int fd)
    void ow_find_data(int fd, uint64_t offset, uint64_t end, uint64_t* data, uint64_t* hole)

import errno
import os

from onnxwire.errors import SourceError

cdef enum:
    # Moved by one system call, and between two calls of `progress`. After so much the disk is told to begin, which
    # takes the time of the final fsync off the total and keeps what a slow disk has not written yet from piling up.
    CHUNK = 1 << 23
    # Ranges shorter than this are taken from memory, if they are there: a system call costs more than their pages.
    TINY = 1 << 10
    PAGE = 1 << 12
    # The largest offset that a file can have.
    LARGEST = 0x7FFFFFFFFFFFFFFF


@final
cdef class FileWriter:
    """A file descriptor that is written from front to back.

    descriptor: open for writing, and not closed here; progress: called with the count of bytes written so far, some
    8 MiB apart and at the end; position: the byte to begin at; fresh: the file is empty and is cut to what was written,
    so that holes of a source need not be written; stream: a pipe or device, written wherever it stands.
    What is written is gathered in 128 KiB, and nothing is sure to be in the file before `finish`. All methods raise
    OSError for what can't be written, which `failure` then is, and SourceError for what can't be read. The file then
    holds some part of it, and no more can be written. One thread uses it at a time.
    """

    @critical_section
    def __cinit__(
        self, int descriptor, progress=None, uint64_t position=0, *, bint fresh=False, bint stream=False
    ):
        self.buffer = <uint8_t*>malloc(BUFFER)
        if self.buffer == NULL:
            raise MemoryError
        self.descriptor = descriptor
        self.progress = progress
        self.written = self.reported = position
        self.fresh = fresh
        self.stream = stream

    def __dealloc__(self):
        free(self.buffer)

    @property
    @critical_section
    def position(self):
        """The byte that comes next, of all that was given to write."""
        return self.written + self.used + self.pending.n

    @property
    @critical_section
    def is_stream(self):
        """Whether it can be written from front to back only."""
        return self.stream

    @critical_section
    def seek(self, uint64_t offset):
        """Go on at another byte, of what is not a stream."""
        self.enter()
        self.settle()
        self.flush()
        self.written = self.reported = offset
        self.busy = False

    @critical_section
    def write(self, data):
        """Write an object with the buffer protocol, whose bytes may change as soon as this returns."""
        cdef Py_buffer buffer
        PyObject_GetBuffer(data, &buffer, PyBUF_SIMPLE)
        try:
            self.put(<const uint8_t*>buffer.buf, <uint64_t>buffer.len)
        finally:
            PyBuffer_Release(&buffer)

    @critical_section
    def copy(self, int source, uint64_t offset, uint64_t length):
        """Write bytes of another file, which stays open and whole until the next call of `write` or `finish`."""
        self.put_range(source, offset, length, NULL)

    @critical_section
    def finish(self):
        """Give everything to the file; the descriptor may be synchronised and closed now."""
        self.finish_all()

    cdef int put(self, const uint8_t* p, uint64_t n) except -1:
        """Write n bytes of memory, which may change as soon as this returns."""
        self.enter()
        self.settle()
        self.append(p, n)
        self.busy = False
        return 0

    cdef int put_at(self, const uint8_t* p, uint64_t n, uint64_t offset) except -1:
        """Write n bytes of memory to another offset of what is not a stream, at once, while no other thread runs."""
        cdef int64_t moved
        self.enter()
        while n:
            moved = ow_write(self.descriptor, p, n, offset)
            if moved == -EINTR:
                continue
            if moved < 0:
                self.fail(moved)
            p += moved
            n -= <uint64_t>moved
            offset += <uint64_t>moved
        self.busy = False
        return 0

    cdef int put_range(self, int source, uint64_t offset, uint64_t n, const uint8_t* p) except -1:
        """Write n bytes of a file; p: the same bytes, mapped, or NULL.

        What continues the range before it becomes one with it. File and memory stay until `put` or `finish_all`.
        """
        cdef const uint8_t* next = NULL
        if offset > LARGEST or n > LARGEST - offset:
            raise OverflowError("no file has bytes beyond 2**63")
        self.enter()
        if self.pending.p != NULL:
            next = self.pending.p + self.pending.n
        if source != self.pending.source or offset != self.pending.offset + self.pending.n or p != next:
            self.settle()
            self.pending.source = source
            self.pending.offset = offset
            self.pending.p = p
        self.pending.n += n
        self.busy = False
        return 0

    cdef int finish_all(self) except -1:
        """Give everything to the file, cut it there if it is fresh, and report what was not reported."""
        cdef int64_t code
        self.enter()
        self.settle()
        self.flush()
        if self.fresh:
            # A hole at the end was stepped over; only now the file gets its length.
            code = ow_resize(self.descriptor, self.written)
            if code < 0:
                self.fail(code)
        if self.progress is not None and self.reported != self.written:
            self.reported = self.written
            self.progress(self.written)
        self.busy = False
        return 0

    cdef int enter(self) except -1:
        # An error leaves it busy for good: after a piece that is missing nothing may follow, whoever caught the error.
        if self.failure is not None:
            raise self.failure
        if self.busy:
            raise RuntimeError(
                "writing this file failed before, or is still under way; write from one thread, not from the progress "
                "callback, and not after an error"
            )
        self.busy = True
        return 0

    cdef int fail(self, int64_t code) except -1:
        self.failure = OSError(-code, os.strerror(-code))
        raise self.failure

    cdef int advance(self, uint64_t n) except -1:
        """Count what was written, and see to the disk, to progress and to Ctrl-C."""
        cdef uint64_t start = self.reported
        self.written += n
        # Each time: what was cut short by a signal gives a count, and the next call would wait without end.
        PyErr_CheckSignals()
        if self.written - start < CHUNK:
            return 0
        self.reported = self.written
        if not self.stream:
            with nogil:
                ow_start_writeback(self.descriptor, start, self.written - start)
        if self.progress is not None:
            self.progress(self.written)
        return 0

    cdef int write_out(self, const uint8_t* p, uint64_t n) except -1:
        """Write memory at once, after what was written already."""
        cdef uint64_t offset
        cdef int64_t moved
        while n:
            offset = OW_STREAM if self.stream else self.written
            with nogil:
                moved = ow_write(self.descriptor, p, min(n, <uint64_t>CHUNK), offset)
            if moved == -EINTR:
                PyErr_CheckSignals()
                continue
            if moved < 0:
                self.fail(moved)
            p += moved
            n -= <uint64_t>moved
            self.advance(<uint64_t>moved)
        return 0

    cdef int flush(self) except -1:
        cdef uint64_t n = self.used
        self.used = 0
        return self.write_out(self.buffer, n)

    cdef int append(self, const uint8_t* p, uint64_t n) except -1:
        if n > BUFFER - self.used:
            self.flush()
        if n >= BUFFER:
            return self.write_out(p, n)
        if n:
            memcpy(self.buffer + self.used, p, n)
            self.used += n
        return 0

    cdef int read_in(self, int source, uint64_t offset, uint64_t n) except -1:
        """Append bytes of a file by reading them.

        Not from its mapping: writing from there is slower, counts the whole file as memory of the process, and ends the
        process where the file was cut or the disk fails.
        """
        cdef int64_t moved
        while n:
            if self.used == BUFFER:
                self.flush()
            with nogil:
                moved = ow_read(source, self.buffer + self.used, min(n, BUFFER - self.used), offset)
            if moved == -EINTR:
                PyErr_CheckSignals()
                continue
            if moved < 0:
                raise SourceError(-moved, os.strerror(-moved))
            if moved == 0:
                raise SourceError(
                    errno.EIO, f"the file ends at byte {offset:,}, {n:,} bytes too soon; it was cut while it was open"
                )
            self.used += <uint64_t>moved
            offset += <uint64_t>moved
            n -= <uint64_t>moved
        return 0

    cdef int copy_data(self, int source, uint64_t offset, uint64_t n) except -1:
        """Copy bytes of a file in the kernel, or read what it does not copy."""
        cdef int64_t moved
        cdef uint64_t size
        cdef bint is_copied
        # Where pages of the one file do not fall on pages of the other, as after most edits, the kernel copies them
        # piece by piece and shares no blocks: 0.9 s a GiB, against 0.5 s through the buffer, and 0.3 s where they do.
        if (offset - self.written) % PAGE and not ow_is_remote(self.descriptor):
            while n >= PIECE:
                size = min(n, <uint64_t>CHUNK)
                with nogil:
                    is_copied = ow_copy_together(source, offset, self.descriptor, self.written, size)
                if not is_copied:
                    break
                offset += size
                n -= size
                self.advance(size)
            self.read_in(source, offset, n)
            return self.flush()
        while n:
            with nogil:
                moved = ow_copy(source, offset, self.descriptor, self.written, min(n, <uint64_t>CHUNK))
            if moved == -EINTR:
                PyErr_CheckSignals()
                continue
            if moved <= 0:
                # Two file systems, a kernel that can't, a special file, or a true fault: of which file, reading tells.
                self.read_in(source, offset, n)
                return self.flush()
            offset += <uint64_t>moved
            n -= <uint64_t>moved
            self.advance(<uint64_t>moved)
        return 0

    cdef int settle(self) except -1:
        """Write the range that was kept back."""
        cdef Range rest = self.pending
        cdef uint64_t end = rest.offset + rest.n
        cdef uint64_t data, hole
        cdef bint sparse
        self.pending.n = 0
        if rest.n < TINY and rest.p != NULL:
            return self.append(rest.p, rest.n)
        if rest.n < BUFFER or self.stream:
            return self.read_in(rest.source, rest.offset, rest.n)
        self.flush()
        sparse = self.fresh and ow_is_sparse(rest.source)
        while rest.offset < end:
            data = rest.offset
            hole = end
            if sparse:
                ow_find_data(rest.source, rest.offset, end, &data, &hole)
                self.advance(data - rest.offset)
            self.copy_data(rest.source, data, hole - data)
            rest.offset = hole
        return 0


def copy_range(
    int source, uint64_t source_offset, int target, uint64_t target_offset, uint64_t length, *, bint fresh=False
):
    """Copy bytes of one open file to an offset in another.

    source, target: descriptors; fresh: the target is empty from that offset on, and ends after what is copied.
    Raises OSError for what can't be written, and SourceError for what can't be read.
    """
    cdef FileWriter writer = FileWriter(target, None, target_offset, fresh=fresh)
    writer.put_range(source, source_offset, length, NULL)
    writer.finish_all()


def write_buffer(int target, data, uint64_t offset):
    """Write an object with the buffer protocol to an offset in an open file; raises OSError."""
    cdef FileWriter writer = FileWriter(target, None, offset)
    writer.write(data)
    writer.finish_all()
