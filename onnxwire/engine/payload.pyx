# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Values in memory as read-only buffers, without a copy."""
cimport cython
from cpython.buffer cimport PyBUF_FORMAT, PyBUF_ND, PyBUF_STRIDES, PyBUF_WRITABLE
from cython cimport critical_section
from libc.stdint cimport uint8_t, uint64_t

from onnxwire.engine.document cimport Document
from onnxwire.engine.instances cimport forbid_instantiation
from onnxwire.engine.partial cimport N_PARTIAL, fetch


cdef Payload new_payload(Document document, const uint8_t* p, Py_ssize_t n, int size, char* format, owner):
    """Create a buffer of n items of `size` bytes at p.

    owner: the owner of the memory, which may be another document; None if `document` owns the memory.
    """
    cdef Payload payload = Payload.__new__(Payload)
    if owner is None:
        payload.document = document
    elif isinstance(owner, Document):
        payload.document = <Document>owner
    else:
        payload.owner = owner
    payload.p = p
    payload.n = n
    payload.size = size
    payload.format = format
    return payload


cdef int expose(Payload self, Py_buffer* view, int flags) except -1:
    """Implement `__getbuffer__`."""
    if flags & PyBUF_WRITABLE == PyBUF_WRITABLE:
        raise BufferError("the bytes and numbers of a message are read-only; copy them first")
    if self.document is not None:
        self.document.check_open()
        self.document.check_unchanged()
        # A fetch may run other code, which must not close the document.
        self.document.pins += 1
        if N_PARTIAL:
            try:
                fetch(self.p, <uint64_t>self.n * self.size)
            except BaseException:
                self.document.pins -= 1
                raise
    view.obj = self
    view.buf = <void*>self.p
    view.len = self.n * self.size
    view.readonly = 1
    view.itemsize = self.size
    view.format = self.format if flags & PyBUF_FORMAT else NULL
    view.ndim = 1
    view.shape = &self.n if flags & PyBUF_ND == PyBUF_ND else NULL
    view.strides = &view.itemsize if flags & PyBUF_STRIDES == PyBUF_STRIDES else NULL
    view.suboffsets = NULL
    view.internal = NULL
    return 0


@cython.final
@cython.no_gc
@cython.freelist(8)
cdef class Payload:
    """A value's bytes, or a field's numbers, as a read-only buffer that shares the memory of the message."""

    @critical_section
    def __len__(self):
        return self.n

    @property
    @critical_section
    def span(self):
        """The offsets of the value in its document, (start, end); None if it is not in a document."""
        if self.document is None:
            return None
        self.document.check_open()
        return self.p - self.document.start, self.p + self.n * self.size - self.document.start

    @critical_section
    def __getbuffer__(self, Py_buffer* view, int flags):
        expose(self, view, flags)

    @critical_section
    def __releasebuffer__(self, Py_buffer* view):
        if self.document is not None:
            self.document.pins -= 1


forbid_instantiation(Payload, b"reading the memory of a value")
