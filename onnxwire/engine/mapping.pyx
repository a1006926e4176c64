# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Files mapped for reading."""
from cpython.buffer cimport PyBUF_WRITABLE, PyBuffer_FillInfo
from cython cimport critical_section, final
from libc.stdint cimport uint8_t, uint64_t

import os
import sys

cdef extern from "mapping.h" nogil:
    ctypedef struct OwFileState:
        uint64_t size
    int ow_file_state(int fd, OwFileState* state)
    int ow_map(int fd, size_t size, uint8_t** start)
    void ow_unmap(uint8_t* start, size_t size)
    void ow_skip_access_times(int fd)
    int ow_read_in(uint8_t* start, size_t size, size_t begin, size_t end, int fd)

# Whether FileMapping is available. Python's mmap, the alternative, keeps a descriptor open per file, and a model may
# have one file per tensor.
IS_NATIVE = sys.platform != "win32"


@final
cdef class FileMapping:
    """The first `size` bytes of an open file, mapped for reading, as a read-only buffer. It keeps no descriptor open.

    descriptor: the descriptor of a regular file; size: the number of bytes, at least 1. Raises OSError, and ValueError
    if the file is shorter than `size` or `size` is less than 1.
    """
    cdef uint8_t* start
    cdef Py_ssize_t size
    cdef Py_ssize_t exports      # number of buffers in use
    cdef object __weakref__
    cdef readonly Py_ssize_t n_private_ranges  # number of successful calls of read_in; each divides the mapping

    @critical_section
    def __cinit__(self, int descriptor, Py_ssize_t size):
        cdef OwFileState state
        cdef int code = ow_file_state(descriptor, &state)
        if code < 0:
            raise OSError(-code, os.strerror(-code))
        if size <= 0 or state.size < <uint64_t>size:
            raise ValueError("the mapping is longer than the file, or empty")
        code = ow_map(descriptor, <size_t>size, &self.start)
        if code < 0:
            raise OSError(-code, os.strerror(-code))
        self.size = size

    def __dealloc__(self):
        if self.start != NULL:
            ow_unmap(self.start, <size_t>self.size)

    @critical_section
    def __len__(self):
        return self.size

    @critical_section
    def __getbuffer__(self, Py_buffer* view, int flags):
        if self.start == NULL or flags & PyBUF_WRITABLE == PyBUF_WRITABLE:
            raise BufferError("the mapping is read-only, or was closed")
        PyBuffer_FillInfo(view, self, self.start, self.size, True, flags)
        self.exports += 1

    @critical_section
    def __releasebuffer__(self, Py_buffer* view):
        self.exports -= 1

    @critical_section
    def read_in(self, int descriptor, Py_ssize_t start, Py_ssize_t end):
        """Replace the pages of the bytes from start to end by private memory with the same bytes of the file.

        Later writes to the file don't change them. Raises OSError if the file can't be read; on Linux, the mapping
        is then unchanged. Raises IndexError if the range is empty or outside the mapping, or the mapping is closed.
        """
        cdef int code
        if self.start == NULL or start < 0 or end > self.size or start >= end:
            raise IndexError("the range is empty or outside the mapping")
        code = ow_read_in(self.start, <size_t>self.size, <size_t>start, <size_t>end, descriptor)
        if code < 0:
            raise OSError(-code, os.strerror(-code))
        self.n_private_ranges += 1

    @critical_section
    def close(self):
        """Unmap the bytes; raises BufferError while a buffer is in use."""
        if self.exports:
            raise BufferError("the mapping is in use")
        if self.start != NULL:
            ow_unmap(self.start, <size_t>self.size)
            self.start = NULL
            self.size = 0


def skip_access_times(int descriptor):
    """Let later reads from a descriptor leave the file's access time unchanged, if the system allows this.

    descriptor: one that the caller opened, because its duplicates are changed as well.
    """
    ow_skip_access_times(descriptor)


def map_file(descriptor, size):
    """Map the first `size` bytes of an open file for reading; return an object with the buffer protocol and `close`.

    Raises OSError, and ValueError if the file is shorter or size is 0.
    """
    if IS_NATIVE:
        return FileMapping(descriptor, size)
    from mmap import ACCESS_READ, mmap
    if size == 0:
        raise ValueError("an empty file can't be mapped")
    return mmap(descriptor, size, access=ACCESS_READ)
