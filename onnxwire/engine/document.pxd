# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The bytes of a document and who owns them."""
from cython cimport final
from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from onnxwire.engine.texts cimport Text


cdef enum:
    EPOCH_CLOSED = 0xFFFFFFFF
    FAR = 1 << 18        # bytes that a walk steps over at once without wanting them mapped


cdef enum Cache:
    # What a document keeps because asking again costs a walk over all records of a message, and by which address.
    SLOTS                # a message's first byte -> the slots of a message of many records, as bytes
    INDEX                # first record of a repeated field -> Spans of its elements
    NUMBERS              # first record of a repeated number -> its decoded array
    PARTS                # last piece of a message in many pieces -> Spans of all of them


cdef struct Span:
    const uint8_t* p
    uint64_t n


cdef struct FarReads:
    # Reads far from the last one, which the kernel is told of (`advise_far`), of one document.
    const uint8_t* end
    int left             # those that may still be told; 0 for bytes in memory
    int taken            # those that were


@final
cdef class Spans:
    """An array of spans in C memory, by ascending address."""
    cdef Span* items
    cdef Py_ssize_t n
    cdef Py_ssize_t capacity
    cdef int append(self, const uint8_t* p, uint64_t n) except -1
    cdef Py_ssize_t last_up_to(self, const uint8_t* p) noexcept


cdef extern from "mapping.h" nogil:
    ctypedef struct OwFileState:
        uint64_t size, device, inode, links, mode, user, group
        int64_t mtime_ns, ctime_ns
    int ow_file_state(int fd, OwFileState* state)
    bint ow_is_at(const char* path, const OwFileState* state)


@final
cdef class Backing:
    """The memory behind one or more documents, and who owns it."""
    cdef Py_buffer buffer
    cdef object mapping                 # closed with the last document; None where the bytes belong to somebody else
    cdef Py_ssize_t documents           # that are open
    cdef readonly int descriptor        # of the file that the bytes are those of, open for reading; else -1
    cdef bint is_private                # the bytes were read into memory, so what the file has now does not matter
    cdef PyObject* before               # of the list of all that have a descriptor (FILES)
    cdef PyObject* after
    cdef OwFileState state              # of that file, when it was opened
    cdef object files                   # the files that messages of the bytes name, closed with the mapping; or None

    cdef void enlist(self) noexcept
    cdef void delist(self) noexcept
    cdef void release(self) noexcept


@final
cdef class Document:
    cdef Backing backing
    cdef const uint8_t* start
    cdef const uint8_t* end
    cdef uint32_t epoch                 # what a filled view's epoch must equal; EPOCH_CLOSED after close()
    cdef bint is_part                   # messages of other documents need it; it is not closed by itself
    cdef uint32_t depth                 # of forks in overlays in forks
    cdef FarReads far
    cdef readonly Py_ssize_t pins       # buffers handed out that point into the bytes, and scans without the GIL
    cdef readonly str name              # the file's path, or a word such as "<bytes>"
    cdef readonly object root           # class of the message that the whole document is, set once; or None
    cdef Text* texts                    # TEXTS short strings that were made last, or NULL as long as few were
    cdef uint8_t n_texts                # those that were made until then
    cdef uint64_t wide                  # bits (`bit_of`) of the tables of messages whose slots are kept
    cdef dict kept                      # (address of wire bytes, Cache) as one int -> what is kept; or None
    # The edits: start of a message -> its Overlay, or CompactOverlay. A message's first byte is no other's, so it tells
    # which one it is; that of a further piece of a message leads to the address at which the piece ends.
    cdef dict overlays                  # None until there is one
    cdef object overlay_index          # the overlays by ascending address; None where it is to be made anew
    cdef object latest                 # which of them were made last; None until there is one
    cdef object last_trail              # the way to the byte that field_path was asked for last; or None

    cdef void take(self, Backing backing)
    cpdef void set_root(self, cls)
    cdef int check_open(self) except -1
    cpdef int check_unchanged(self) except -1
    cdef void release(self) noexcept
    cdef void next_epoch(self) noexcept
    cdef int keep(self, Cache cache, const uint8_t* p, object value) except -1
    cdef object cached(self, Cache cache, const uint8_t* p)
    cdef Document fork(self, uint32_t depth)
    cdef object short_text(self, const uint8_t* p, uint64_t n)


cdef inline object files_of(Document document):
    """The files beside a document, which may be closed."""
    return None if document.backing is None else document.backing.files


cdef Document part_of_bytes(data, cls, uint32_t depth, Document source)


cdef Document EMPTY

cdef void advise_far(FarReads* far, const uint8_t* p) noexcept nogil
