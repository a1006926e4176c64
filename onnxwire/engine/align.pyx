# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Puts long payloads at aligned offsets of the file that a document is written to, by padding that every reader skips.

A payload moves when something comes before it, and what comes before it is longer where a length before it is. So every
length that may change is written in five bytes, which all readers of protobuf take however small it is; then one pass
from front to back knows every new offset exactly. The padding is an unknown field of zeros right before the payload.
"""
cimport cython
from cython cimport critical_section, final
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, memset

from onnxwire._varint cimport (
    FAULT_DEPTH, MAX_DEPTH, WIRE_LEN, Damage, read_tag, read_value, varint_size, write_varint,
)
from onnxwire.engine.damage cimport damage_error, decode_error
from onnxwire.engine.document cimport FAR, Document, advise_far
from onnxwire.engine.encode cimport Piece
from onnxwire.engine.instances cimport make_internal
from onnxwire.engine.memory cimport calloc, free, realloc
from onnxwire.engine.partial cimport LONG, is_there
from onnxwire.engine.payload cimport new_payload
from onnxwire.engine.fetch_structure cimport fetch_structure
from onnxwire.engine.table cimport BYTES, Field, Table, TableOwner, TableRef, find_field
from onnxwire.engine.view cimport table_of

from onnxwire.errors import FieldValueError

cdef enum:
    WIDTH = 5                # bytes of a length that may change; readers refuse more where the value needs less
    WIDTH_BITS = 35          # and what such a length can say
    SHORT = 256              # bytes that are copied rather than handed on as a range, which takes as much memory
    BLOCK = 1 << 16          # of zeros; long paddings share one
    LARGEST = 1 << 30        # alignment
    MAX_NUMBER = (1 << 29) - 1

cdef bytes ZEROS = bytes(BLOCK)

cdef enum What:
    LENGTH                   # of a message that something in it changes
    PAYLOAD                  # that is to be aligned, with the padding before it
    CUT                      # padding of an earlier time

cdef struct Edit:
    # Bytes of the document that others replace. In order of offset, so a message comes before what is in it.
    What what
    Py_ssize_t parent        # the LENGTH of the message that it stands in, or -1
    uint64_t at
    uint64_t cut             # bytes that go
    uint64_t added           # bytes that come
    uint64_t length          # LENGTH: the old one. PAYLOAD: bytes between what is cut and the payload itself
    uint64_t growth          # LENGTH: what it becomes longer by, modulo 2**64. PAYLOAD: padding beyond what it needs
    uint32_t padding         # PAYLOAD: number of the padding field

cdef struct Aim:
    # What to look for in the messages of a table.
    bint reaches             # it has a target, or messages in it may have
    uint32_t target          # field number, or 0
    uint32_t padding


@final
@cython.no_gc
cdef class Layout:
    """A document, and where its payloads go."""
    cdef Document document
    cdef TableOwner owner
    cdef Aim* aims           # one a table of the owner
    cdef Edit* edits
    cdef Py_ssize_t n
    cdef Py_ssize_t capacity
    cdef uint64_t threshold
    cdef uint64_t alignment
    cdef uint64_t total      # bytes of the new encoding

    @critical_section
    def __cinit__(self, Document document, cls, targets, uint64_t threshold, uint64_t alignment):
        if alignment < 1 or alignment > LARGEST:
            raise FieldValueError(f"alignment {alignment}: expected 1 to {LARGEST:,} bytes")
        table_of(cls)
        document.check_open()
        # Nobody shall close it meanwhile.
        document.pins += 1
        self.document = document
        self.owner = (<TableRef>cls._table).owner
        self.threshold = threshold or 1
        self.alignment = alignment
        self.aims = <Aim*>calloc(self.owner.n_tables, sizeof(Aim))
        if self.aims == NULL:
            raise MemoryError
        for owner, name, padding in targets:
            self.take_aim(owner, name, padding)
        self.find_ways()

    @critical_section
    def __dealloc__(self):
        free(self.aims)
        free(self.edits)
        if self.document is not None:
            self.document.pins -= 1

    cdef int take_aim(self, cls, name, padding) except -1:
        """Make a field of a class a target."""
        cdef Table* table = table_of(cls)
        cdef Aim* aim = self.aim_of(table)
        row = cls.DESCRIPTOR.fields_by_name.get(name)
        if aim == NULL:
            raise FieldValueError(f"{cls.__name__} is of another schema")
        if row is None or row.is_repeated or row.type != BYTES or aim.target:
            raise FieldValueError(f"{name}: expected one singular field of bytes of {cls.__name__}")
        if not 1 <= padding <= MAX_NUMBER or 19000 <= padding < 20000 or find_field(table, padding) != NULL:
            raise FieldValueError(f"{padding} is not a number for an unknown field of {cls.__name__}")
        aim.target = row.number
        aim.padding = padding
        aim.reaches = True
        return 0

    cdef Aim* aim_of(self, const Table* table) noexcept:
        if table < self.owner.tables or table >= self.owner.tables + self.owner.n_tables:
            return NULL
        return &self.aims[table - self.owner.tables]

    cdef void find_ways(self) noexcept:
        """Mark the tables whose messages may have targets in them, at any depth."""
        cdef bint is_done = False
        cdef Table* table
        cdef Py_ssize_t i
        cdef uint32_t k
        while not is_done:
            is_done = True
            for i in range(self.owner.n_tables):
                table = &self.owner.tables[i]
                for k in range(table.n_fields):
                    if table.fields[k].sub != NULL and not self.aims[i].reaches:
                        if self.aim_of(table.fields[k].sub).reaches:
                            self.aims[i].reaches = True
                            is_done = False

    # --- what is to be changed

    cdef int scan(
        self, const Table* table, const uint8_t* p, const uint8_t* end, int depth, Py_ssize_t parent
    ) except -1:
        """Note what is to be changed between p and end, in a message whose length is the edit `parent`.

        depth: levels of messages and groups that may still open. What is too short for a payload is not entered.
        """
        cdef Document document = self.document
        cdef Aim* aim = self.aim_of(table)
        cdef Py_ssize_t payload = -1
        cdef Py_ssize_t inner
        cdef const uint8_t* record
        cdef const uint8_t* length
        cdef const uint8_t* value
        cdef Field* field
        cdef uint64_t n
        cdef uint32_t tag
        while p < end:
            record = p
            p = length = read_tag(p, end, &tag)
            if p != NULL:
                p = read_value(p, end, tag, depth, &value, &n)
            if p == NULL:
                raise decode_error(document, record, end, depth)
            if tag & 7 != WIRE_LEN:
                continue
            field = find_field(table, tag >> 3)
            if field == NULL:
                if tag >> 3 == aim.padding:
                    self.add(CUT, parent, record, <uint64_t>(p - record))
            elif field.number == aim.target:
                # The last one is the value; those before it are dead weight.
                if payload >= 0:
                    self.edits[payload].what = CUT
                payload = self.add_payload(aim, parent, record, value) if n >= self.threshold else -1
            elif field.sub != NULL and n > self.threshold and self.aim_of(field.sub).reaches:
                if depth == 0:
                    raise too_deep(document, record)
                inner = self.add(LENGTH, parent, length, <uint64_t>(value - length))
                self.edits[inner].length = n
                self.edits[inner].added = WIDTH
                self.scan(field.sub, value, p, depth - 1, inner)
                if self.n == inner + 1:
                    self.n = inner
            if n >= FAR and p < end:
                advise_far(&document.far, p)
        return 0

    cdef Py_ssize_t add(self, What what, Py_ssize_t parent, const uint8_t* p, uint64_t cut) except -1:
        """Note that `cut` bytes go at p; returns which edit this is."""
        cdef Py_ssize_t capacity
        cdef Edit* edits
        cdef Edit* edit
        if self.n == self.capacity:
            capacity = self.capacity * 2 or 16
            edits = <Edit*>realloc(self.edits, <size_t>capacity * sizeof(Edit))
            if edits == NULL:
                raise MemoryError
            self.edits = edits
            self.capacity = capacity
        edit = &self.edits[self.n]
        memset(edit, 0, sizeof(Edit))
        edit.what = what
        edit.parent = parent
        edit.at = <uint64_t>(p - self.document.start)
        edit.cut = cut
        self.n += 1
        return self.n - 1

    cdef Py_ssize_t add_payload(
        self, const Aim* aim, Py_ssize_t parent, const uint8_t* record, const uint8_t* value
    ) except -1:
        cdef uint64_t at = <uint64_t>(record - self.document.start)
        cdef uint64_t cut = 0
        cdef Edit* edit
        # Old padding right before it is where the new one comes; where both are the same, nothing changes.
        while self.n:
            edit = &self.edits[self.n - 1]
            if edit.what != CUT or edit.parent != parent or edit.at + edit.cut != at:
                break
            at = edit.at
            cut += edit.cut
            self.n -= 1
        self.add(PAYLOAD, parent, self.document.start + at, cut)
        edit = &self.edits[self.n - 1]
        edit.length = <uint64_t>(value - record)
        edit.padding = aim.padding
        return self.n - 1

    # --- how long everything becomes

    cdef void lay_out(self) noexcept:
        """Find the paddings, the new lengths and the total, with lengths as wide as they are now."""
        cdef uint64_t shift = 0      # modulo 2**64, as it may be negative
        cdef uint64_t least
        cdef Edit* edit
        cdef Py_ssize_t i
        for i in range(self.n):
            edit = &self.edits[i]
            if edit.what == PAYLOAD:
                least = <uint64_t>varint_size(<uint64_t>edit.padding << 3) + 1
                edit.added = (edit.at + shift + edit.length) % self.alignment
                edit.added = (self.alignment - edit.added if edit.added else 0) + edit.growth
                while 0 < edit.added < least:
                    edit.added += self.alignment
            elif edit.what == CUT:
                edit.added = 0
            else:
                edit.growth = 0
            shift += edit.added - edit.cut
        self.total = <uint64_t>len(self.document) + shift
        for i in range(self.n - 1, -1, -1):
            edit = &self.edits[i]
            if edit.parent >= 0:
                self.edits[edit.parent].growth += edit.added - edit.cut
                if edit.what == LENGTH:
                    self.edits[edit.parent].growth += edit.growth

    cdef bint widen(self) noexcept:
        """Find the lengths of 32 GiB and more, for which five bytes are not enough; tells whether anything changed.

        protobuf's own readers end at 2 GiB. Ours take six bytes where the value needs them, and only there. But the
        sixth byte may be what makes a padding in the message one byte shorter, and the length too short for it again:
        then that padding becomes longer by whole alignments, which moves no other payload off its offset.
        """
        cdef bint is_changed = False
        cdef uint64_t length
        cdef Edit* edit
        cdef Py_ssize_t i, k
        for i in range(self.n):
            edit = &self.edits[i]
            if edit.what != LENGTH:
                continue
            length = edit.length + edit.growth
            if <uint64_t>varint_size(length) > edit.added:
                edit.added = <uint64_t>varint_size(length)
            elif edit.added > WIDTH and length >> WIDTH_BITS == 0:
                k = i + 1
                while self.edits[k].what != PAYLOAD:
                    k += 1
                length = (<uint64_t>1 << WIDTH_BITS) - length
                self.edits[k].growth += length + (self.alignment - length % self.alignment) % self.alignment
            else:
                continue
            is_changed = True
        return is_changed

    # --- the new encoding

    cdef list pieces(self):
        """The new encoding: bytes, and ranges of the document."""
        cdef Gatherer gatherer = Gatherer.__new__(Gatherer)
        cdef uint64_t position = 0
        cdef uint64_t zeros
        cdef Edit* edit
        cdef Py_ssize_t i
        cdef bytes head
        gatherer.document = self.document
        gatherer.gathered = bytearray()
        gatherer.pieces = []
        for i in range(self.n):
            edit = &self.edits[i]
            head = head_of(edit)
            zeros = edit.added - <uint64_t>len(head)
            if edit.added == edit.cut and stands_at(head, zeros, self.document.start + edit.at):
                continue
            gatherer.copy(position, edit.at)
            gatherer.write(head, zeros)
            position = edit.at + edit.cut
        gatherer.copy(position, <uint64_t>len(self.document))
        gatherer.flush()
        return gatherer.pieces


@final
cdef class Gatherer:
    """Makes few pieces of many."""
    cdef Document document
    cdef bytearray gathered
    cdef list pieces

    cdef int copy(self, uint64_t start, uint64_t end) except -1:
        """Add bytes of the document."""
        if end - start < SHORT and end - start < <uint64_t>len(self.document):
            self.gathered += (<const char*>self.document.start)[start:end]
        elif start < end:
            self.flush()
            self.pieces.append((start, end - start))
        return 0

    cdef int write(self, bytes head, uint64_t zeros) except -1:
        """Add bytes, and zeros after them."""
        self.gathered += head
        if zeros >= BLOCK:
            self.flush()
            self.pieces += [ZEROS] * <Py_ssize_t>(zeros // BLOCK)
        self.gathered += ZEROS[:zeros % BLOCK]
        return 0

    cdef int flush(self) except -1:
        if self.gathered:
            self.pieces.append(bytes(self.gathered))
            self.gathered.clear()
        return 0


cdef object too_deep(Document document, const uint8_t* record):
    """The DecodeError for a message that is one level too many."""
    cdef Damage damage
    memset(&damage, 0, sizeof(damage))
    damage.fault = FAULT_DEPTH
    damage.at = record
    return damage_error(document, damage, document.end)


cdef uint8_t* write_wide(uint8_t* p, uint64_t value, uint64_t width) noexcept nogil:
    """Write a varint in `width` bytes, which are enough for it; returns where it ends."""
    while width > 1:
        p[0] = <uint8_t>(value | 0x80)
        value >>= 7
        width -= 1
        p += 1
    p[0] = <uint8_t>value
    return p + 1


cdef bytes head_of(const Edit* edit):
    """The replacement of bytes that are cut: a length, or the tag and length of zeros, which fill the rest."""
    cdef uint8_t[20] head
    cdef uint8_t* p = head
    cdef uint64_t rest
    cdef uint64_t width = 1
    if edit.added == 0:
        return b""
    if edit.what == LENGTH:
        p = write_wide(p, edit.length + edit.growth, edit.added)
    else:
        p = write_varint(p, <uint64_t>edit.padding << 3 | WIRE_LEN)
        rest = edit.added - <uint64_t>(p - head)
        # A length one byte longer can mean one byte less to count, so that the shorter form is enough again.
        while (rest - width) >> (7 * width):
            width += 1
        p = write_wide(p, rest - width, width)
    return (<const char*>head)[:p - head]


cdef bint stands_at(bytes head, uint64_t zeros, const uint8_t* p) noexcept:
    """Whether these bytes are what stands at p already."""
    cdef uint64_t n = <uint64_t>len(head)
    if not is_there(p, n + zeros):
        return False
    if memcmp(p, <const char*>head, n) != 0:
        return False
    p += n
    return zeros == 0 or (p[0] == 0 and memcmp(p, p + 1, zeros - 1) == 0)


cdef Layout laid_out(Document document, cls, targets, uint64_t threshold, uint64_t alignment):
    cdef Layout layout = Layout(document, cls, targets, threshold, alignment)
    document.check_open()
    document.set_root(cls)
    fetch_structure(document, table_of(cls), LONG, LONG, NULL, NULL)
    document.check_open()
    # An empty document may have no address at all.
    if document.start < document.end:
        layout.scan(table_of(cls), document.start, document.end, MAX_DEPTH, -1)
    layout.lay_out()
    while layout.widen():
        layout.lay_out()
    return layout


@critical_section
def align_payloads(Document document, cls, targets, uint64_t threshold, uint64_t alignment):
    """Encode a document anew so that its long payloads stand at multiples of `alignment`.

    document: its bytes are what is encoded; edits of messages in it are not looked at. cls: class of its root.
    targets: (class, name of a singular field of bytes, number of the padding field) of at most one field a class; that
    number must be free in the class. threshold: bytes, at least 1; shorter payloads stay where they come to stand.
    alignment: bytes, 1 to 2**30.
    Returns (total, pieces): how many bytes the new encoding has, and what it is made of, in order: bytes, and ranges of
    the document as (offset, length). A document in which everything is aligned already is one range.

    Every value is the same for every reader; only unknown fields come and go. Padding of earlier times goes, wherever
    it stands in a message that is looked into, so that doing it again changes nothing. Of a field that stands more than
    once in a record of its message the last is aligned. Lengths of messages around a payload have 5 bytes, or of 32 GiB
    and more what they need. Nothing but tags and lengths is touched; what can't have a long payload is copied unseen.
    Raises DecodeError at the first damaged record of what is looked into, and FieldValueError for a field, number or
    alignment that can't be.
    """
    cdef Layout layout
    # The lists that are made here may have the garbage collector run code that closes the document.
    document.pins += 1
    try:
        layout = laid_out(document, cls, targets, threshold, alignment)
        return layout.total, layout.pieces()
    finally:
        document.pins -= 1


@critical_section
def aligned_pieces(Document document, cls, targets, uint64_t threshold, uint64_t alignment):
    """Do what `align_payloads` does, with ranges as Pieces, for `write_pieces`."""
    cdef list pieces = []
    cdef uint64_t offset = 0
    cdef uint64_t start
    cdef Py_ssize_t n
    cdef Piece piece
    total, parts = align_payloads(document, cls, targets, threshold, alignment)
    for part in parts:
        document.check_open()
        if isinstance(part, bytes):
            pieces.append(part)
            offset += <uint64_t>len(part)
            continue
        start, n = part
        piece = Piece.__new__(Piece)
        piece.offset = offset
        piece.payload = new_payload(document, document.start + start, n, 1, b"B", None)
        pieces.append(piece)
        offset += <uint64_t>n
    return total, pieces


make_internal(Gatherer, b"Layout")
