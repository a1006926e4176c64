# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""FileWriter: buffered writing, and copying of ranges from file to file."""
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
        BUFFER_BYTES "OW_BUFFER_BYTES"
        PIECE_BYTES "OW_PIECE_BYTES"
    int64_t ow_copy(int source, uint64_t source_offset, int target, uint64_t target_offset, uint64_t n)
    bint ow_copy_in_parallel(int source, uint64_t offset, int target, uint64_t target_offset, uint64_t n)
    bint ow_is_remote(int fd)
    void ow_start_writeback(int fd, uint64_t offset, uint64_t n)
    int64_t ow_resize(int fd, uint64_t size)
    bint ow_is_sparse(int fd)
    void ow_find_data(int fd, uint64_t offset, uint64_t end, uint64_t* data_start, uint64_t* hole_start)

import errno
import os

from onnxwire.errors import SourceError

cdef enum:
    # The maximum number of bytes moved by one system call, except in `put_at`, and the number of bytes after which
    # `progress` is called. Writeback starts after each chunk, so that the final fsync has little left to write and
    # dirty pages of a slow disk do not accumulate.
    CHUNK_BYTES = 1 << 23
    # Shorter ranges are copied from the mapping: a system call costs more than their page faults.
    MIN_RANGE_BYTES = 1 << 10
    PAGE_BYTES = 1 << 12
    MAX_FILE_OFFSET = 0x7FFFFFFFFFFFFFFF


@final
cdef class FileWriter:
    """A buffered writer over a file descriptor.

    descriptor: open for writing; the caller closes it. progress: called with the offset after the last byte written,
    about every 8 MiB and at the end. position: the offset of the first byte to be written. fresh: the file has no bytes
    from `position` on, and `finish` sets its size; so holes of a source need not be written. stream: the file is a pipe
    or device, and is written at its current position.
    The buffer has 128 KiB; the file is complete after `finish`. Methods raise OSError if writing fails, and store the
    error in `failure`. They raise SourceError if reading fails. After an error the file is incomplete and methods
    raise.
    One thread uses a writer at a time.
    """

    @critical_section
    def __cinit__(
        self, int descriptor, progress=None, uint64_t position=0, *, bint fresh=False, bint stream=False
    ):
        self.buffer = <uint8_t*>malloc(BUFFER_BYTES)
        if self.buffer == NULL:
            raise MemoryError
        self.descriptor = descriptor
        self.progress = progress
        self.written_end = self.reported_end = position
        self.is_fresh = fresh
        self.is_stream = stream

    def __dealloc__(self):
        free(self.buffer)

    @property
    @critical_section
    def position(self):
        """The offset of the next byte to be written."""
        return self.written_end + self.n_buffered + self.pending_range.n

    @critical_section
    def seek(self, uint64_t offset):
        """Continue at another offset; not for a stream."""
        self.enter()
        self.write_pending()
        self.flush()
        self.written_end = self.reported_end = offset
        self.is_busy = False

    @critical_section
    def write(self, data):
        """Write an object with the buffer protocol; its bytes may change after the call."""
        cdef Py_buffer buffer
        PyObject_GetBuffer(data, &buffer, PyBUF_SIMPLE)
        try:
            self.put(<const uint8_t*>buffer.buf, <uint64_t>buffer.len)
        finally:
            PyBuffer_Release(&buffer)

    @critical_section
    def copy(self, int source, uint64_t offset, uint64_t length):
        """Write bytes of another file, which must stay open and unchanged until the next `write` or `finish`.

        Raises OverflowError for offsets of 2**63 or more.
        """
        self.put_range(source, offset, length, NULL)

    @critical_section
    def finish(self):
        """Write all bytes to the file; the descriptor may be synchronised and closed afterwards."""
        self.finish_all()

    cdef int put(self, const uint8_t* p, uint64_t n) except -1:
        """Write n bytes of memory, which may change after the call."""
        self.enter()
        self.write_pending()
        self.append(p, n)
        self.is_busy = False
        return 0

    cdef int put_at(self, const uint8_t* p, uint64_t n, uint64_t offset) except -1:
        """Write n bytes of memory at an offset, unbuffered and without releasing the GIL; not for a stream."""
        cdef int64_t n_moved
        self.enter()
        while n:
            n_moved = ow_write(self.descriptor, p, n, offset)
            if n_moved == -EINTR:
                continue
            if n_moved < 0:
                self.fail(n_moved)
            p += n_moved
            n -= <uint64_t>n_moved
            offset += <uint64_t>n_moved
        self.is_busy = False
        return 0

    cdef int put_range(self, int source, uint64_t offset, uint64_t n, const uint8_t* p) except -1:
        """Write n bytes of a file; p: the same bytes, mapped, or NULL.

        A range that continues the previous one is merged with it. File and mapping must stay valid until `put` or
        `finish_all`.
        """
        cdef const uint8_t* mapped_end = NULL
        if offset > MAX_FILE_OFFSET or n > MAX_FILE_OFFSET - offset:
            raise OverflowError("file offsets are below 2**63")
        self.enter()
        if self.pending_range.p != NULL:
            mapped_end = self.pending_range.p + self.pending_range.n
        if (
            source != self.pending_range.source or offset != self.pending_range.offset + self.pending_range.n
            or p != mapped_end
        ):
            self.write_pending()
            self.pending_range.source = source
            self.pending_range.offset = offset
            self.pending_range.p = p
        self.pending_range.n += n
        self.is_busy = False
        return 0

    cdef int finish_all(self) except -1:
        """Write all bytes to the file, set the size of a fresh file, and call progress a last time."""
        cdef int64_t code
        self.enter()
        self.write_pending()
        self.flush()
        if self.is_fresh:
            # A hole at the end may have been skipped.
            code = ow_resize(self.descriptor, self.written_end)
            if code < 0:
                self.fail(code)
        if self.progress is not None and self.reported_end != self.written_end:
            self.reported_end = self.written_end
            self.progress(self.written_end)
        self.is_busy = False
        return 0

    cdef int enter(self) except -1:
        """Set `is_busy`; raise if it is set or a write has failed.

        After an error `is_busy` stays set: nothing may be written after a missing piece, even if the error was caught.
        """
        if self.failure is not None:
            raise self.failure
        if self.is_busy:
            raise RuntimeError(
                "writing this file failed before, or is still under way; write from one thread, not from the progress "
                "callback, and not after an error"
            )
        self.is_busy = True
        return 0

    cdef int fail(self, int64_t code) except -1:
        """Store and raise the OSError for a negative errno."""
        self.failure = OSError(-code, os.strerror(-code))
        raise self.failure

    cdef int advance(self, uint64_t n) except -1:
        """Count n bytes that were written or skipped as a hole; start writeback, call progress, and handle signals."""
        cdef uint64_t start = self.reported_end
        self.written_end += n
        # Checked after every write: a write that a signal interrupted returns a count, and the next call could block
        # for ever.
        PyErr_CheckSignals()
        if self.written_end - start < CHUNK_BYTES:
            return 0
        self.reported_end = self.written_end
        if not self.is_stream:
            with nogil:
                ow_start_writeback(self.descriptor, start, self.written_end - start)
        if self.progress is not None:
            self.progress(self.written_end)
        return 0

    cdef int write_out(self, const uint8_t* p, uint64_t n) except -1:
        """Write memory to the file, unbuffered."""
        cdef uint64_t offset
        cdef int64_t n_moved
        while n:
            offset = OW_STREAM if self.is_stream else self.written_end
            with nogil:
                n_moved = ow_write(self.descriptor, p, min(n, <uint64_t>CHUNK_BYTES), offset)
            if n_moved == -EINTR:
                PyErr_CheckSignals()
                continue
            if n_moved < 0:
                self.fail(n_moved)
            p += n_moved
            n -= <uint64_t>n_moved
            self.advance(<uint64_t>n_moved)
        return 0

    cdef int flush(self) except -1:
        """Write the buffer to the file."""
        cdef uint64_t n = self.n_buffered
        self.n_buffered = 0
        return self.write_out(self.buffer, n)

    cdef int append(self, const uint8_t* p, uint64_t n) except -1:
        """Add n bytes of memory to the buffer, or write them to the file if n is BUFFER_BYTES or more."""
        if n > BUFFER_BYTES - self.n_buffered:
            self.flush()
        if n >= BUFFER_BYTES:
            return self.write_out(p, n)
        if n:
            memcpy(self.buffer + self.n_buffered, p, n)
            self.n_buffered += n
        return 0

    cdef int read_in(self, int source, uint64_t offset, uint64_t n) except -1:
        """Append bytes of a file by reading them.

        Copying from its mapping would be slower, make the whole file resident, and raise SIGBUS if the file was
        truncated or the disk fails.
        """
        cdef int64_t n_moved
        while n:
            if self.n_buffered == BUFFER_BYTES:
                self.flush()
            with nogil:
                n_moved = ow_read(source, self.buffer + self.n_buffered, min(n, BUFFER_BYTES - self.n_buffered), offset)
            if n_moved == -EINTR:
                PyErr_CheckSignals()
                continue
            if n_moved < 0:
                raise SourceError(-n_moved, os.strerror(-n_moved))
            if n_moved == 0:
                raise SourceError(
                    errno.EIO,
                    f"the file ends at byte {offset:,}, but is read up to byte {offset + n:,}; it was truncated while "
                    "it was open",
                )
            self.n_buffered += <uint64_t>n_moved
            offset += <uint64_t>n_moved
            n -= <uint64_t>n_moved
        return 0

    cdef int copy_data(self, int source, uint64_t offset, uint64_t n) except -1:
        """Copy bytes of a file in the kernel, or through memory if that is faster or the kernel can't copy them."""
        cdef int64_t n_moved
        cdef uint64_t size
        cdef bint is_copied
        # If the two offsets differ modulo the page size, as after most edits, the kernel copies page by page and shares
        # no blocks: 0.9 s per GiB, against 0.5 s through the buffer, and 0.3 s if they are congruent.
        if (offset - self.written_end) % PAGE_BYTES and not ow_is_remote(self.descriptor):
            while n >= PIECE_BYTES:
                size = min(n, <uint64_t>CHUNK_BYTES)
                with nogil:
                    is_copied = ow_copy_in_parallel(source, offset, self.descriptor, self.written_end, size)
                if not is_copied:
                    break
                offset += size
                n -= size
                self.advance(size)
            self.read_in(source, offset, n)
            return self.flush()
        while n:
            with nogil:
                n_moved = ow_copy(source, offset, self.descriptor, self.written_end, min(n, <uint64_t>CHUNK_BYTES))
            if n_moved == -EINTR:
                PyErr_CheckSignals()
                continue
            if n_moved <= 0:
                # Different file systems, an old kernel, a special file, or an error, which reading reports.
                self.read_in(source, offset, n)
                return self.flush()
            offset += <uint64_t>n_moved
            n -= <uint64_t>n_moved
            self.advance(<uint64_t>n_moved)
        return 0

    cdef int write_pending(self) except -1:
        """Write the pending range."""
        cdef Range pending_range = self.pending_range
        cdef uint64_t end = pending_range.offset + pending_range.n
        cdef uint64_t data_start, hole_start
        cdef bint is_sparse
        self.pending_range.n = 0
        if pending_range.n < MIN_RANGE_BYTES and pending_range.p != NULL:
            return self.append(pending_range.p, pending_range.n)
        if pending_range.n < BUFFER_BYTES or self.is_stream:
            return self.read_in(pending_range.source, pending_range.offset, pending_range.n)
        self.flush()
        is_sparse = self.is_fresh and ow_is_sparse(pending_range.source)
        while pending_range.offset < end:
            data_start = pending_range.offset
            hole_start = end
            if is_sparse:
                ow_find_data(pending_range.source, pending_range.offset, end, &data_start, &hole_start)
                self.advance(data_start - pending_range.offset)
            self.copy_data(pending_range.source, data_start, hole_start - data_start)
            pending_range.offset = hole_start
        return 0


def copy_range(
    int source, uint64_t source_offset, int target, uint64_t target_offset, uint64_t length, *, bint fresh=False
):
    """Copy bytes of one open file to an offset in another.

    source, target: descriptors; fresh: the target has no bytes from target_offset on, and is resized to end after the
    copied bytes.
    Raises OSError if writing fails, SourceError if reading fails, OverflowError for offsets of 2**63 or more.
    """
    cdef FileWriter writer = FileWriter(target, None, target_offset, fresh=fresh)
    writer.put_range(source, source_offset, length, NULL)
    writer.finish_all()


def write_buffer(int target, data, uint64_t offset):
    """Write an object with the buffer protocol at an offset of an open file; raises OSError."""
    cdef FileWriter writer = FileWriter(target, None, offset)
    writer.write(data)
    writer.finish_all()
