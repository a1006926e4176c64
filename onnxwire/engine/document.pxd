# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""A document: bytes, their owner, and caches for them."""
from cython cimport final
from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from onnxwire.engine.advise cimport OwHeaders
from onnxwire.engine.header_copies cimport Copy, HeaderCopies
from onnxwire.engine.texts cimport Text


cdef enum:
    EPOCH_CLOSED = 0xFFFFFFFF

cdef extern from "thresholds.h":
    enum:
        FAR_SKIP_BYTES "OW_FAR_SKIP_BYTES"  # length in bytes from which a walk skips a value without mapping it


cdef enum Cache:
    # The caches of a document, with addresses as keys.
    SLOTS                # first byte of a message with many records -> its slots, as bytes
    INDEX                # first record of a repeated field -> Spans of its elements
    NUMBERS              # first record of a repeated number -> its decoded array
    PARTS                # last part of a message in many parts -> Spans of all its parts


cdef struct Span:
    # n bytes from p on.
    const uint8_t* p
    uint64_t n


cdef struct FarReads:
    # The state of `advise_far` and `copy_far` for one document: a budget, predictions and copies.
    const uint8_t* end   # the end of the document's bytes
    int left             # number of remaining calls of madvise or copies; 0 for bytes in memory
    int used             # part of the budget that was used, or was given up after a failed call
    OwHeaders* headers   # the headers that the walk jumped to; NULL before its first jump
    HeaderCopies* copies  # where copies of headers are made, in the Backing; NULL for bytes that are not mapped
    const uint8_t* first_copy  # the lowest address that was copied; the highest of all addresses if there are no copies


@final
cdef class Spans:
    """An array of spans in C memory, by ascending address."""
    cdef Span* items
    cdef Py_ssize_t n                   # number of spans
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
    """The memory of one or more documents."""
    cdef Py_buffer buffer
    cdef object mapping                 # closed with the last document; None if the bytes have another owner
    cdef Py_ssize_t documents           # number of open documents
    cdef readonly int descriptor        # descriptor of the mapped file, open for reading; else -1
    cdef bint is_private                # the bytes were copied into memory, so later writes to the file have no effect
    cdef PyObject* before               # previous object in FILES, the list of all Backings with a descriptor
    cdef PyObject* after                # next object in FILES
    cdef OwFileState state              # state of the file when it was opened
    cdef HeaderCopies copies
    cdef object files                   # owner of the external files of the messages, closed with the mapping; or None

    cdef void enlist(self) noexcept
    cdef void delist(self) noexcept
    cdef void release(self) noexcept


@final
cdef class Document:
    cdef Backing backing
    cdef const uint8_t* start
    cdef const uint8_t* end
    cdef uint32_t epoch                 # the slots of a view with this epoch are valid; EPOCH_CLOSED after close()
    cdef bint is_part                   # messages of other documents refer to it; close() has no effect
    cdef uint32_t depth                 # nesting of forks and overlays
    cdef FarReads far
    cdef readonly Py_ssize_t pins       # number of exported buffers and of calls in progress, which need the bytes
    cdef readonly str name              # the file's path, or a description such as "<bytes>"
    cdef readonly object root           # message class of the whole document, set once; or None
    cdef Text* texts                    # cache of short strings; NULL if `is_part`, or for few strings (see `n_texts`)
    cdef uint8_t n_texts                # number of strings made without `texts`, up to MIN_TEXTS_BEFORE_CACHE
    cdef uint64_t cached_tables         # bits (`bit_of`) of the tables with entries in the cache SLOTS
    cdef dict caches                    # (address, Cache) as one int -> cached object; or None
    cdef object overlays                # OverlayIndex: the edits, by the first byte of each message; None without edits
    cdef object recent_overlays         # RecentOverlays; None without edits
    cdef object last_trail              # levels of the last search of `field_path`, for the next to continue; or None

    cdef void attach(self, Backing backing)
    cpdef void set_root(self, cls)
    cdef int check_open(self) except -1
    cpdef int check_unchanged(self) except -1
    cdef void release(self) noexcept
    cdef void next_epoch(self) noexcept
    cdef int add_cached(self, Cache cache, const uint8_t* p, object value) except -1
    cdef object cached(self, Cache cache, const uint8_t* p)
    cdef Document fork(self, uint32_t depth)
    cdef object short_text(self, const uint8_t* p, uint64_t n)


cdef inline object files_of(Document document):
    """Return the owner of a document's external files, or None; the document may be closed."""
    return None if document.backing is None else document.backing.files


cdef Document part_of_bytes(data, cls, uint32_t depth, Document source)


# A document without bytes.
cdef Document EMPTY

cdef void advise_far(FarReads* far, const uint8_t* p) noexcept nogil
cdef const Copy* copy_far(FarReads* far, const uint8_t* p) noexcept nogil
cdef void advise_copied(Document document) noexcept
