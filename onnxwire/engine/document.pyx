# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""A document: bytes, their owner, and caches for them."""
cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.object cimport PyObject
from cpython.ref cimport Py_XDECREF
from cython cimport critical_section, final


cdef extern from *:
    """
    #ifdef _WIN32
    #include <io.h>
    #define ow_close _close
    #else
    #include <unistd.h>
    #define ow_close close
    #endif
    """
    int close_descriptor "ow_close"(int descriptor) nogil

cdef extern from "Python.h":
    bytes PyUnicode_EncodeFSDefault(object text)

from onnxwire.engine.advise cimport OW_FAR_FILE_BYTES, OW_FIRST_BYTES, ow_narrow, ow_open_far, ow_request_headers
from onnxwire.engine.header_copies cimport HIGHEST, free_copies, head_copy, is_cached, make_copy
from onnxwire.engine.memory cimport calloc, free, realloc
from onnxwire.engine.partial cimport PartialMemory, memory_of
from onnxwire.engine.texts cimport (
    MIN_TEXTS_BEFORE_CACHE, N_CACHED_TEXTS, cache_text, cached_text, key_of_text, new_text,
)

import errno
import os

from onnxwire.engine.mapping import FileMapping
from onnxwire.errors import ClosedError, InUseError, SourceError, count_text


# Each call of madvise splits a mapping, and a process may have about 65,000 mappings. So all open documents share a
# budget of such calls, and of copies of headers. Invariant: this variable and the `left` and `used` of all open
# documents add up to its initial value.
cdef int FAR_READS_LEFT = 8192


cdef void advise_far(FarReads* far, const uint8_t* p) noexcept nogil:
    """Advise the kernel to map only the page of p and the next one at a fault, and request the headers after p.

    Called before the first read of p if p is far from the last read. No-op when the budget is used up.
    """
    if far.left > 0:
        far.left -= 1
        far.used += 1
        if ow_narrow(p, far.end) != 0:
            # The kernel does not divide the mapping: make no further calls.
            far.used += far.left
            far.left = 0
        if far.headers == NULL:
            far.headers = <OwHeaders*>calloc(1, sizeof(OwHeaders))
        if far.headers != NULL:
            ow_request_headers(far.headers, p, far.end)


cdef const Copy* copy_far(FarReads* far, const uint8_t* p) noexcept nogil:
    """Return the result of `head_copy` for the header at p, which is far from the last read; make a copy if needed.

    The header is the bytes after a long value, see header_copies.pxd. Returns NULL if no copy can be made: then it
    calls `advise_far`, so that p can be read in the mapping. The caller sets `far.copies.is_checked` as `make_copy`
    requires.
    """
    cdef const Copy* copy = NULL
    if p >= far.first_copy:
        copy = head_copy(far.copies, p)
    if copy == NULL and far.copies != NULL and far.left > 0:
        if far.headers == NULL:
            far.headers = <OwHeaders*>calloc(1, sizeof(OwHeaders))
        if far.headers != NULL:
            copy = make_copy(far.copies, p, far.headers)
        if copy != NULL:
            far.first_copy = far.copies.items[0].p
            far.left -= 1
            far.used += 1
    if copy == NULL:
        advise_far(far, p)
    return copy


cdef void open_far(FarReads* far, const uint8_t* start) noexcept:
    """Prepare the first reads of a large file: copy its first header, or request its first OW_FIRST_BYTES.

    The header is copied if the last of these bytes is in the page cache.
    """
    cdef size_t size = min(<size_t>(far.end - start), OW_FIRST_BYTES)
    far.copies.is_checked = False
    if is_cached(far.copies, size - 1) and copy_far(far, start) != NULL:
        return
    far.left -= 1
    far.used += 1
    ow_open_far(start, size)


cdef void advise_copied(Document document) noexcept:
    """Call `ow_narrow` for all headers that were copied, before a walk that reads them in the mapping.

    Each copy has already used one call of the budget.
    """
    cdef HeaderCopies* copies = document.far.copies
    cdef size_t i
    if copies != NULL:
        for i in range(copies.n):
            if not copies.items[i].is_advised:
                copies.items[i].is_advised = True
                ow_narrow(copies.items[i].p, copies.end)


@final
cdef class Spans:

    cdef int append(self, const uint8_t* p, uint64_t n) except -1:
        cdef Py_ssize_t capacity
        cdef Span* items
        if self.n == self.capacity:
            capacity = self.capacity * 2 or 4
            items = <Span*>realloc(self.items, <size_t>capacity * sizeof(Span))
            if items == NULL:
                raise MemoryError
            self.items = items
            self.capacity = capacity
        self.items[self.n].p = p
        self.items[self.n].n = n
        self.n += 1
        return 0

    cdef Py_ssize_t last_up_to(self, const uint8_t* p) noexcept:
        """Return the index of the last span that begins at p or before it; 0 if none does."""
        cdef Py_ssize_t low = 0
        cdef Py_ssize_t high = self.n - 1
        cdef Py_ssize_t middle
        while low < high:
            middle = (low + high + 1) // 2
            if self.items[middle].p <= p:
                low = middle
            else:
                high = middle - 1
        return low

    def __dealloc__(self):
        free(self.items)


# Head of the list of all Backings with a descriptor.
cdef PyObject* FILES = NULL


@final
@cython.no_gc
cdef class Backing:

    @critical_section
    def __cinit__(self, data, mapping, int descriptor):
        self.descriptor = self.copies.descriptor = -1
        if isinstance(data, PartialMemory):
            (<PartialMemory>data).allows_buffer = True
        try:
            PyObject_GetBuffer(data, &self.buffer, PyBUF_SIMPLE)
        finally:
            if isinstance(data, PartialMemory):
                (<PartialMemory>data).allows_buffer = False
        self.mapping = mapping
        self.descriptor = descriptor
        self.copies.start = <const uint8_t*>self.buffer.buf
        self.copies.end = self.copies.start + self.buffer.len
        if descriptor >= 0:
            ow_file_state(descriptor, &self.state)
            self.enlist()
            if mapping is not None:
                self.copies.descriptor = descriptor
                self.copies.device, self.copies.inode = self.state.device, self.state.inode

    @critical_section
    def __dealloc__(self):
        self.release()

    cdef void enlist(self) noexcept:
        """Add this object to the list FILES."""
        global FILES
        self.after = FILES
        if FILES != NULL:
            (<Backing>FILES).before = <PyObject*>self
        FILES = <PyObject*>self

    cdef void delist(self) noexcept:
        """Remove this object from the list FILES."""
        global FILES
        if self.before != NULL:
            (<Backing>self.before).after = self.after
        else:
            FILES = self.after
        if self.after != NULL:
            (<Backing>self.after).before = self.before
        self.before = self.after = NULL

    cdef void release(self) noexcept:
        """Release the bytes and the copies of headers, and close the descriptor."""
        free_copies(&self.copies)
        PyBuffer_Release(&self.buffer)
        if self.descriptor >= 0:
            self.delist()
            close_descriptor(self.descriptor)
            self.descriptor = -1


@final
@cython.no_gc
@cython.freelist(32)
cdef class Document:
    """The bytes that views refer to.

    data: an object with the buffer protocol, referenced until the document and its forks are closed or destroyed;
    name: the document's name in errors; mapping: an object that `close` closes, such as the mmap of `data`, or None;
    descriptor: an open file descriptor of the file that `data` maps, which the document will close, or -1.
    """

    def __cinit__(self):
        self.epoch = EPOCH_CLOSED  # until `attach`
        self.far.first_copy = HIGHEST

    @critical_section
    def __init__(self, data, str name not None="<bytes>", mapping=None, int descriptor=-1):
        global FAR_READS_LEFT
        if self.name is not None:
            raise TypeError("a document is initialised once: make another one")
        self.attach(Backing(data, mapping, descriptor))
        if mapping is not None and descriptor >= 0:
            self.far.left = FAR_READS_LEFT // 2
            FAR_READS_LEFT -= self.far.left
            if self.far.left > 0 and <uint64_t>(self.end - self.start) >= OW_FAR_FILE_BYTES:
                open_far(&self.far, self.start)
        self.name = name

    cdef void attach(self, Backing backing):
        """Open the document, with the bytes of a Backing."""
        self.backing = backing
        backing.documents += 1
        self.start = <const uint8_t*>backing.buffer.buf
        self.end = self.start + backing.buffer.len
        self.epoch = 1
        self.far.end = self.end
        if backing.copies.descriptor >= 0:
            self.far.copies = &backing.copies
            if backing.copies.n:
                self.far.first_copy = backing.copies.items[0].p

    cdef Document fork(self, uint32_t depth):
        """Return a copy-on-write clone: a document that shares the bytes and has separate edits."""
        cdef Document clone = Document.__new__(Document)
        clone.attach(self.backing)
        clone.name = self.name
        clone.root = self.root
        clone.is_part = True
        clone.depth = depth
        return clone

    @critical_section
    def __dealloc__(self):
        self.release()

    cdef object short_text(self, const uint8_t* p, uint64_t n):
        """Return a short string, cached: names of operators and attributes occur repeatedly.

        A document with `is_part` has no cache: a model that was built by a program has many such documents.
        """
        cdef Text key
        cdef PyObject* cached
        if self.texts == NULL:
            if self.n_texts < MIN_TEXTS_BEFORE_CACHE:
                self.n_texts += 1
                return new_text(p, n)
            if not self.is_part and self.backing is not None:
                self.texts = <Text*>calloc(N_CACHED_TEXTS, sizeof(Text))
            if self.texts == NULL:
                return new_text(p, n)
        key = key_of_text(p, n)
        cached = cached_text(self.texts, &key)
        if cached != NULL:
            return <object>cached
        text = new_text(p, n)
        # The error handler for invalid UTF-8 creates objects, so other code may run and close the document.
        if self.texts != NULL:
            cache_text(self.texts, &key, text)
        return text

    cdef void release(self) noexcept:
        """Release the cached strings and the Backing, and return the budget of far reads."""
        global FAR_READS_LEFT
        cdef Text* texts = self.texts
        cdef int i
        if texts != NULL:
            self.texts = NULL
            for i in range(N_CACHED_TEXTS):
                Py_XDECREF(texts[i].text)
            free(texts)
        FAR_READS_LEFT += self.far.left + self.far.used
        self.far.left = self.far.used = 0
        free(self.far.headers)
        self.far.headers = NULL
        self.far.copies = NULL
        self.far.first_copy = HIGHEST
        if self.backing is not None:
            self.backing.documents -= 1
            self.backing = None

    @critical_section
    def __len__(self):
        return self.end - self.start

    @property
    @critical_section
    def descriptor(self):
        """The descriptor of the mapped file, or -1."""
        return -1 if self.backing is None or self.backing.is_private else self.backing.descriptor

    @property
    @critical_section
    def memory(self):
        """The PartialMemory that contains the bytes, of which some may not be resident; None for other memory."""
        return None if self.start == NULL else memory_of(self.start)

    @property
    @critical_section
    def is_edited(self):
        """Whether any message of the document was edited."""
        return self.overlays is not None

    @property
    @critical_section
    def files(self):
        """The owner of the external files: an object with a `close` that may raise InUseError, or None."""
        self.check_open()
        return self.backing.files

    @files.setter
    @critical_section
    def files(self, files):
        self.check_open()
        self.backing.files = files

    @property
    @critical_section
    def trail(self):
        """The `_Level` objects (field_path.py) of the last call of `field_path`, the root first; or None."""
        return self.last_trail

    @trail.setter
    @critical_section
    def trail(self, trail):
        self.last_trail = trail

    @critical_section
    cpdef void set_root(self, cls):
        """Set the message class of the whole document, which paths in errors depend on. No-op if it is already set."""
        if self.root is None:
            self.root = cls

    cdef int check_open(self) except -1:
        if self.epoch == EPOCH_CLOSED:
            raise ClosedError(f"{self.name} was closed; load it again, or use the message inside its with block")
        return 0

    @critical_section
    cpdef int check_unchanged(self) except -1:
        """Raise SourceError if the mapped file was written to or truncated since it was opened.

        Called before bytes of the file are returned as an array or bytes object, encoded or written. A write
        after the call is not detected, nor a write that changes neither size nor times. Usually costs one fstat.
        """
        cdef Backing backing = self.backing
        cdef OwFileState now
        cdef int code
        if backing is None or backing.descriptor < 0 or backing.is_private:
            return 0
        code = ow_file_state(backing.descriptor, &now)
        if code < 0:
            raise SourceError(-code, os.strerror(-code), self.name)
        if now.size < backing.state.size or now.size < <uint64_t>backing.buffer.len:
            raise SourceError(
                errno.EIO,
                f"the file has {count_text(now.size, 'byte')} now, and had "
                f"{max(backing.state.size, <uint64_t>backing.buffer.len):,} when it was opened: it was truncated "
                "since; load it again",
                self.name,
            )
        if now.size == backing.state.size and now.mtime_ns == backing.state.mtime_ns:
            if now.ctime_ns == backing.state.ctime_ns:
                return 0
            if has_other_cause(&backing.state, &now, self.name):
                backing.state = now
                return 0
        raise SourceError(
            errno.EIO, "the file was written to since it was opened, so its values may have changed; load it again",
            self.name,
        )

    cdef void next_epoch(self) noexcept:
        """Advance the epoch. No-op for a closed document."""
        if self.epoch != EPOCH_CLOSED:
            self.epoch = self.epoch + 1 if self.epoch + 1 < EPOCH_CLOSED else 1

    cdef int add_cached(self, Cache cache, const uint8_t* p, object value) except -1:
        """Add an object to a cache, by the address of the bytes that it was computed from.

        Creating the dict may start the garbage collector, which may run code that closes the document: then this raises
        ClosedError, so that the caller does not continue with addresses of released bytes.
        """
        cdef dict caches
        if self.caches is None:
            caches = {}
            self.check_open()
            if self.caches is None:
                self.caches = caches
        self.caches[cache_key(cache, p)] = value
        return 0

    cdef object cached(self, Cache cache, const uint8_t* p):
        """Return the cached object for an address, or None."""
        return None if self.caches is None else self.caches.get(cache_key(cache, p))

    @critical_section
    def _cache_sizes(self):
        """Return, for tests, the numbers of entries of the caches SLOTS, INDEX, NUMBERS and PARTS, and of overlays."""
        kinds = [key & 3 for key in self.caches or ()]
        return (*[kinds.count(cache) for cache in (SLOTS, INDEX, NUMBERS, PARTS)], len(self.overlays or ()))

    @critical_section
    def close(self):
        """Release the bytes and close `files`; every view raises ClosedError from then on.

        No-op if `is_part`, or if already closed.
        While messages that were copied into other documents share the bytes, the bytes stay in memory and `files` open.
        Raises InUseError, and stays open, while arrays, memoryviews or calls use the bytes or an external file.
        """
        cdef Backing backing = self.backing
        cdef uint32_t epoch = self.epoch
        if self.epoch == EPOCH_CLOSED or self.is_part:
            return
        if self.pins:
            raise InUseError(
                f"{self.name} is still in use: arrays, memoryviews or calls in progress ({self.pins} in all) share its "
                "memory; delete or copy the arrays before closing it"
            )
        # The calls below may run other code, which must not start to read bytes that are about to be released.
        self.epoch = EPOCH_CLOSED
        if backing.files is not None and backing.documents == 1:
            try:
                backing.files.close()
            except BaseException:
                self.epoch = epoch
                raise
        self.caches = self.recent_overlays = self.overlays = None
        self.release()
        self.start = self.end = NULL
        if backing.documents == 0:
            backing.release()
            if backing.mapping is not None:
                backing.mapping.close()


cdef bint has_other_cause(const OwFileState* before, const OwFileState* now, str name) except -1:
    """Return whether a change of permissions, owner, links or name explains a changed ctime, without a write."""
    if (
        before.links != now.links or before.mode != now.mode
        or before.user != now.user or before.group != now.group
    ):
        return True
    # os.stat would release the GIL, but no other thread may run now: callers use addresses of the document's bytes.
    return not ow_is_at(PyUnicode_EncodeFSDefault(name), now)


@critical_section
def keep_bytes_of(descriptor):
    """Copy an open file into the memory of all documents that map it, before the file is written to.

    Their bytes then stay unchanged, at the same addresses. Documents that were opened before an earlier change of the
    file are skipped, so that `check_unchanged` still detects that change. Raises OSError if the bytes can't be read.
    """
    cdef OwFileState state
    cdef Backing backing
    cdef list backings = []
    cdef PyObject* item
    cdef int code = ow_file_state(descriptor, &state)
    if code < 0:
        raise OSError(-code, os.strerror(-code))
    item = FILES
    while item != NULL:
        backing = <Backing>item
        if (
            backing.state.device == state.device and backing.state.inode == state.inode
            and backing.state.size == state.size and backing.state.mtime_ns == state.mtime_ns
            and not backing.is_private and isinstance(<object>backing.buffer.obj, FileMapping)
        ):
            backings.append(backing)
        item = backing.after
    for backing in backings:
        if backing.descriptor >= 0:
            (<object>backing.buffer.obj).read_in(descriptor, 0, backing.buffer.len)
            backing.is_private = True
            backing.copies.descriptor = -1


cdef inline object cache_key(Cache cache, const uint8_t* p):
    """Return the key of an entry in `Document.caches`; the cache is its two lowest bits."""
    return <uint64_t><size_t>p << 2 | cache


cdef Document part_of_bytes(data, cls, uint32_t depth, Document source):
    """Create a document for the bytes of a message that is, or will be, part of another message.

    cls: the class of the message; None for bytes that the engine encoded, whose offsets mean nothing to the caller.
    source: the document that the message was copied from, whose external files it may refer to; or None.
    """
    cdef Document document = Document(data)
    if source is not None:
        document.backing.files = files_of(source)
    document.root = cls
    document.is_part = True
    document.depth = depth
    return document


# The document of all messages that were not read from bytes.
cdef Document EMPTY = part_of_bytes(b"", None, 0, None)
