# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The bytes of a document, who owns them, and errors that name a place in them."""
cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdlib cimport free, realloc

from onnxwire._varint cimport (
    FAULT_DEPTH, FAULT_FIXED_CUT, FAULT_GROUP_OPEN, FAULT_GROUP_OTHER, FAULT_GROUP_STRAY, FAULT_LENGTH_CUT,
    FAULT_LENGTH_LONG, FAULT_LENGTH_PAST_END, FAULT_NUMBER_ZERO, FAULT_PACKED_CUT, FAULT_PACKED_LONG,
    FAULT_PACKED_SIZE, FAULT_TAG_CUT, FAULT_TAG_LONG, FAULT_VARINT_CUT, FAULT_VARINT_LONG, FAULT_WIRE_TYPE,
    MAX_DEPTH, Damage, explain, explain_packed,
)

cdef extern from "advise.h" nogil:
    int ow_narrow(const uint8_t* p, const uint8_t* end)

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

from onnxwire.errors import ClosedError, DecodeError, InUseError


# Far steps that all open documents together may still prepare for; see engine/advise.h.
cdef int STEPS_LEFT = 8192


cdef void prepare_step(Steps* steps, const uint8_t* p) noexcept nogil:
    """Before the first touch of p, far from the last: see to it that no more than p's pages are mapped."""
    if steps.left > 0:
        steps.left -= 1
        steps.taken += 1
        if ow_narrow(p, steps.end) != 0:
            steps.taken += steps.left
            steps.left = 0


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
        """The index of the last span that begins at p or before it; 0 where none does."""
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


@cython.no_gc
cdef class Backing:

    def __cinit__(self, data, mapping, int descriptor):
        self.descriptor = -1
        PyObject_GetBuffer(data, &self.buffer, PyBUF_SIMPLE)
        self.mapping = mapping
        self.descriptor = descriptor

    def __dealloc__(self):
        self.release()

    cdef void release(self) noexcept:
        PyBuffer_Release(&self.buffer)
        if self.descriptor >= 0:
            close_descriptor(self.descriptor)
            self.descriptor = -1


@cython.no_gc
@cython.freelist(32)
cdef class Document:
    """The bytes that views look into.

    data: an object with the buffer protocol, held until the document is closed or its last view is gone; name: what
    errors call it; mapping: an object with a `close` method that is called at the end, such as the mmap behind `data`;
    descriptor: an open file descriptor of the file that `data` maps, which becomes the document's own, or -1.
    """

    def __init__(self, data, str name="<bytes>", mapping=None, int descriptor=-1):
        global STEPS_LEFT
        self.take(Backing(data, mapping, descriptor))
        if mapping is not None:
            self.steps.left = STEPS_LEFT // 2
            STEPS_LEFT -= self.steps.left
        self.name = name

    cdef void take(self, Backing backing):
        self.backing = backing
        backing.documents += 1
        self.start = <const uint8_t*>backing.buffer.buf
        self.end = self.start + backing.buffer.len
        self.epoch = 1
        self.steps.end = self.end

    cdef Document excerpt(self, uint32_t depth):
        """A document of the same bytes with edits of its own, in which a message can stand at another place."""
        cdef Document other = Document.__new__(Document)
        other.take(self.backing)
        other.name = self.name
        other.root = self.root
        other.is_part = True
        other.depth = depth
        return other

    def __dealloc__(self):
        self.release()

    cdef void release(self) noexcept:
        global STEPS_LEFT
        STEPS_LEFT += self.steps.left + self.steps.taken
        self.steps.left = self.steps.taken = 0
        if self.backing is not None:
            self.backing.documents -= 1
            self.backing = None

    def __len__(self):
        return self.end - self.start

    @property
    def descriptor(self):
        """The open file that the bytes are those of, or -1."""
        return -1 if self.backing is None else self.backing.descriptor

    @property
    def is_edited(self):
        """Whether a message of it was edited."""
        return self.overlays is not None

    @property
    def files(self):
        """What has the files beside the document's: an object with a `close` that may raise InUseError, or None."""
        self.check_open()
        return self.backing.files

    @files.setter
    def files(self, files):
        self.check_open()
        self.backing.files = files

    cdef int check_open(self) except -1:
        if self.epoch == EPOCH_CLOSED:
            raise ClosedError(f"{self.name} was closed; load it again, or use the message inside its with block")
        return 0

    cdef void next_epoch(self) noexcept:
        """Make every view look again at what it stands for; a closed document stays closed."""
        if self.epoch != EPOCH_CLOSED:
            self.epoch = self.epoch + 1 if self.epoch + 1 < EPOCH_CLOSED else 1

    cdef int keep(self, Cache cache, const uint8_t* p, object value) except -1:
        """Keep what was made of the bytes at an address.

        Making the dict may have the garbage collector run other code, which may edit messages, and may close the
        document: then this raises ClosedError, so that nobody goes on with addresses of bytes that are gone.
        """
        cdef dict kept
        if self.kept is None:
            kept = {}
            self.check_open()
            if self.kept is None:
                self.kept = kept
        self.kept[cache_key(cache, p)] = value
        return 0

    cdef object cached(self, Cache cache, const uint8_t* p):
        """What is kept of the bytes at an address, or None."""
        return None if self.kept is None else self.kept.get(cache_key(cache, p))

    def _kept(self):
        """How many slots, indexes, arrays of numbers, lists of pieces and overlays the document keeps."""
        caches = [key & 3 for key in self.kept or ()]
        return (*[caches.count(cache) for cache in (SLOTS, INDEX, NUMBERS, PARTS)], len(self.overlays or ()))

    def close(self):
        """Let go of the bytes; every view raises ClosedError from then on.

        Messages of other documents that share the bytes, because they were copied from here, hold on to them.
        Its `files` are closed with it. Raises InUseError, and stays open, while arrays or memoryviews look into the
        bytes or into one of those.
        """
        cdef Backing backing = self.backing
        cdef uint32_t epoch = self.epoch
        if self.epoch == EPOCH_CLOSED or self.is_part:
            return
        if self.pins:
            raise InUseError(
                f"{self.name} is still in use, by {self.pins} array(s) or memoryview(s) that look into it or calls "
                "that are under way; delete or copy the arrays before closing it"
            )
        # From here on other code may run, which must not begin to read what is let go of.
        self.epoch = EPOCH_CLOSED
        if backing.files is not None and backing.documents == 1:
            try:
                backing.files.close()
            except BaseException:
                self.epoch = epoch
                raise
        self.kept = self.overlays = self.edited = None
        self.release()
        self.start = self.end = NULL
        if backing.documents == 0:
            backing.release()
            if backing.mapping is not None:
                backing.mapping.close()


cdef inline object cache_key(Cache cache, const uint8_t* p):
    return <uint64_t><size_t>p << 2 | cache


cdef Document part_of_bytes(data, cls, uint32_t depth, Document source):
    """A document of bytes that are, or are to be, a message of a class in another message.

    source: the document that such a message was in before, whose files it may name; or None.
    """
    cdef Document document = Document(data)
    if source is not None:
        document.backing.files = files_of(source)
    document.root = cls
    document.is_part = True
    document.depth = depth
    return document


# What messages that were not read from bytes are views of.
cdef Document EMPTY = part_of_bytes(b"", None, 0, None)


cdef str describe(Damage damage, Document document, const uint8_t* end):
    """Say what is wrong, and what to do where that is known."""
    cdef object detail = damage.detail
    cdef object length = damage.length
    cdef str field = f"field {damage.number}"
    cdef str cut = "the bytes end inside "
    # Where what is missing is missing at the document's end, the end of the file itself was lost.
    cdef str lost = "; the file looks truncated: fetch or copy it again" if end == document.end else ""
    cdef str corrupt = "; the bytes are damaged or no protobuf message"
    if damage.fault == FAULT_LENGTH_PAST_END:
        if end != document.end:
            return f"length {length:,} of {field} runs past the end of the message by {detail:,} bytes{corrupt}"
        return (
            f"length {length:,} of {field} runs past the end of the message by {detail:,} bytes; the file looks "
            f"truncated (expected at least {end - document.start + detail:,} bytes): fetch or copy it again"
        )
    if damage.fault == FAULT_TAG_CUT:
        return f"{cut}a tag{lost or corrupt}"
    if damage.fault == FAULT_VARINT_CUT:
        return f"{cut}the varint of {field}{lost or corrupt}"
    if damage.fault == FAULT_LENGTH_CUT:
        return f"{cut}the length of {field}{lost or corrupt}"
    if damage.fault == FAULT_FIXED_CUT:
        return f"{cut}the {length} bytes of {field}, {detail} missing{lost or corrupt}"
    if damage.fault == FAULT_GROUP_OPEN:
        return f"{cut}the group of {field}{lost or corrupt}"
    if damage.fault == FAULT_TAG_LONG:
        return f"a tag of more than 5 bytes or 32 bits{corrupt}"
    if damage.fault == FAULT_NUMBER_ZERO:
        return f"a tag with field number 0{corrupt}"
    if damage.fault == FAULT_WIRE_TYPE:
        return f"{field} has wire type {detail}, which does not exist{corrupt}"
    if damage.fault == FAULT_VARINT_LONG:
        return f"the varint of {field} has more than 10 bytes{corrupt}"
    if damage.fault == FAULT_LENGTH_LONG:
        return f"the length of {field} has more bytes than protobuf readers accept{corrupt}"
    if damage.fault == FAULT_GROUP_STRAY:
        return f"an end of group for {field}, which was not opened{corrupt}"
    if damage.fault == FAULT_GROUP_OTHER:
        return f"the group of {field} is closed by an end of group for field {detail}{corrupt}"
    if damage.fault == FAULT_DEPTH:
        return f"messages and groups nested more than {MAX_DEPTH} deep, which protobuf readers refuse"
    if damage.fault == FAULT_PACKED_SIZE:
        return f"a packed run of {length:,} bytes, which is no multiple of the {detail} bytes of a number{corrupt}"
    if damage.fault == FAULT_PACKED_CUT:
        return f"a packed run that ends inside a varint{corrupt}"
    if damage.fault == FAULT_PACKED_LONG:
        return f"a packed run with a varint of more than 10 bytes{corrupt}"
    return f"bytes that changed while they were read{corrupt}"


cdef object damage_error(Document document, Damage damage, const uint8_t* end):
    """The DecodeError for damage in a message that ends at `end`."""
    from onnxwire.engine.field_path import field_path
    cdef object offset = damage.at - document.start
    return DecodeError(describe(damage, document, end), offset, field_path(document, offset), document.name)


cdef object decode_error(Document document, const uint8_t* record, const uint8_t* end, int depth=MAX_DEPTH):
    """The DecodeError for a faulty record of a message that ends at `end`, in which `depth` groups may nest."""
    return damage_error(document, explain(record, end, depth), end)


cdef object packed_error(Document document, const uint8_t* start, const uint8_t* end, int size):
    """The DecodeError for a faulty packed run."""
    return damage_error(document, explain_packed(start, end, size), end)
