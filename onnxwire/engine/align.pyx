# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Alignment of long payloads in the file that a document is written to, by padding that every reader skips.

The padding is an unknown field of zeros right before the payload. It changes the lengths of the messages around it, and
a length whose encoding takes more bytes would move the payload again. So each length that may change is written in
five bytes, which all protobuf readers accept even for small values; then all offsets can be computed from front to
back. Lengths of 32 GiB and more take more bytes, so all offsets are then computed again.
"""
cimport cython
from cython cimport critical_section, final
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, memset

from onnxwire._varint cimport (
    FAULT_DEPTH, MAX_DEPTH, WIRE_LEN, Damage, read_tag, read_value, varint_size, write_varint,
)
from onnxwire.engine.damage cimport damage_error, decode_error
from onnxwire.engine.document cimport FAR_SKIP_BYTES, Document, advise_far
from onnxwire.engine.encoder cimport Piece
from onnxwire.engine.instances cimport forbid_instantiation
from onnxwire.engine.memory cimport calloc, free, realloc
from onnxwire.engine.partial cimport LONG_BYTES, is_resident
from onnxwire.engine.payload cimport new_payload
from onnxwire.engine.fetch_structure cimport fetch_structure
from onnxwire.engine.table cimport BYTES, Field, Table, TableOwner, TableRef, find_field
from onnxwire.engine.view cimport table_of

from onnxwire.errors import FieldValueError

cdef enum:
    LENGTH_BYTES = 5         # size of a length that may change; readers reject a sixth byte if five suffice
    LENGTH_BITS = 35         # bits that such a length can store
    MIN_RANGE_BYTES = 256    # shorter ranges are copied: a range object takes as much memory
    ZEROS_BYTES = 1 << 16    # size of the block that long paddings share
    MAX_ALIGNMENT = 1 << 30  # in bytes
    MAX_FIELD_NUMBER = (1 << 29) - 1

cdef bytes ZEROS = bytes(ZEROS_BYTES)

cdef enum EditKind:
    LENGTH                   # the length of a message that contains other edits
    PAYLOAD                  # the padding before a payload to be aligned
    OLD_PADDING              # padding of an earlier alignment, which is removed

cdef struct Edit:
    # A replacement of bytes of the document. Edits are sorted by offset, so a message precedes its content.
    EditKind kind
    Py_ssize_t parent        # index of the LENGTH of the enclosing message, or -1
    uint64_t offset          # in the document
    uint64_t n_removed       # bytes
    uint64_t n_inserted      # bytes
    uint64_t length          # LENGTH: the old length. PAYLOAD: size of its tag and length
    uint64_t growth          # LENGTH: change of the length, modulo 2**64. PAYLOAD: extra padding, in bytes
    uint32_t padding_number  # PAYLOAD: number of the padding field

cdef struct Target:
    # The field to align in the messages of a table.
    bint may_contain_targets  # messages of the table have a target field, or may contain messages that have one
    uint32_t number          # the number of the target field, or 0
    uint32_t padding_number  # number of the padding field


@final
@cython.no_gc
cdef class AlignmentEdits:
    """The edits that align the payloads of a document."""
    cdef Document document
    cdef TableOwner owner
    cdef Target* targets     # one per table of the owner
    cdef Edit* edits
    cdef Py_ssize_t n        # number of edits
    cdef Py_ssize_t capacity
    cdef uint64_t threshold  # in bytes; shorter payloads are not aligned
    cdef uint64_t alignment  # in bytes
    cdef uint64_t new_size   # size of the new encoding

    @critical_section
    def __cinit__(self, Document document, cls, targets, uint64_t threshold, uint64_t alignment):
        if alignment < 1 or alignment > MAX_ALIGNMENT:
            raise FieldValueError(f"alignment {alignment}: expected 1 to {MAX_ALIGNMENT:,} bytes")
        table_of(cls)
        document.check_open()
        # A pinned document can't be closed.
        document.pins += 1
        self.document = document
        self.owner = (<TableRef>cls._table).owner
        self.threshold = threshold or 1
        self.alignment = alignment
        self.targets = <Target*>calloc(self.owner.n_tables, sizeof(Target))
        if self.targets == NULL:
            raise MemoryError
        for target_cls, name, padding_number in targets:
            self.add_target(target_cls, name, padding_number)
        self.mark_containing_tables()

    @critical_section
    def __dealloc__(self):
        free(self.targets)
        free(self.edits)
        if self.document is not None:
            self.document.pins -= 1

    cdef int add_target(self, cls, name, padding_number) except -1:
        """Make a field of a class a target."""
        cdef Table* table = table_of(cls)
        cdef Target* target = self.target_of(table)
        row = cls.DESCRIPTOR.fields_by_name.get(name)
        if target == NULL:
            raise FieldValueError(f"{cls.__name__} belongs to another schema than the root message")
        if row is None or row.is_repeated or row.type != BYTES or target.number:
            raise FieldValueError(f"{name}: expected one singular bytes field of {cls.__name__}")
        # protobuf reserves the numbers from 19000 to 19999.
        if (
            not 1 <= padding_number <= MAX_FIELD_NUMBER or 19000 <= padding_number < 20000
            or find_field(table, padding_number) != NULL
        ):
            raise FieldValueError(f"{padding_number} is not a number for an unknown field of {cls.__name__}")
        target.number = row.number
        target.padding_number = padding_number
        target.may_contain_targets = True
        return 0

    cdef Target* target_of(self, const Table* table) noexcept:
        """Return the Target of a table; NULL for a table of another schema."""
        if table < self.owner.tables or table >= self.owner.tables + self.owner.n_tables:
            return NULL
        return &self.targets[table - self.owner.tables]

    cdef void mark_containing_tables(self) noexcept:
        """Mark the tables whose messages may contain target fields at any depth."""
        cdef bint is_done = False
        cdef Table* table
        cdef Py_ssize_t i
        cdef uint32_t k
        while not is_done:
            is_done = True
            for i in range(self.owner.n_tables):
                table = &self.owner.tables[i]
                for k in range(table.n_fields):
                    if table.fields[k].sub != NULL and not self.targets[i].may_contain_targets:
                        if self.target_of(table.fields[k].sub).may_contain_targets:
                            self.targets[i].may_contain_targets = True
                            is_done = False

    # --- collecting edits

    cdef int scan(
        self, const Table* table, const uint8_t* p, const uint8_t* end, int depth, Py_ssize_t parent
    ) except -1:
        """Collect the edits of the message between p and end.

        parent: index of the edit of the message's length, or -1 for the root message. depth: remaining levels of
        nesting. Messages too short to contain a long payload are not scanned.
        """
        cdef Document document = self.document
        cdef Target* target = self.target_of(table)
        cdef Py_ssize_t payload_index = -1
        cdef Py_ssize_t length_index
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
                if tag >> 3 == target.padding_number:
                    self.add(OLD_PADDING, parent, record, <uint64_t>(p - record))
            elif field.number == target.number:
                # The last record of a singular field is its value. Before earlier ones, only old padding is removed.
                if payload_index >= 0:
                    self.edits[payload_index].kind = OLD_PADDING
                payload_index = self.add_payload(target, parent, record, value) if n >= self.threshold else -1
            elif field.sub != NULL and n > self.threshold and self.target_of(field.sub).may_contain_targets:
                if depth == 0:
                    raise depth_error(document, record)
                length_index = self.add(LENGTH, parent, length, <uint64_t>(value - length))
                self.edits[length_index].length = n
                self.edits[length_index].n_inserted = LENGTH_BYTES
                self.scan(field.sub, value, p, depth - 1, length_index)
                if self.n == length_index + 1:  # no edit in the message: its length does not change
                    self.n = length_index
            if n >= FAR_SKIP_BYTES and p < end:
                advise_far(&document.far, p)
        return 0

    cdef Py_ssize_t add(self, EditKind kind, Py_ssize_t parent, const uint8_t* p, uint64_t n_removed) except -1:
        """Add an edit that removes `n_removed` bytes at p; returns its index."""
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
        edit.kind = kind
        edit.parent = parent
        edit.offset = <uint64_t>(p - self.document.start)
        edit.n_removed = n_removed
        self.n += 1
        return self.n - 1

    cdef Py_ssize_t add_payload(
        self, const Target* target, Py_ssize_t parent, const uint8_t* record, const uint8_t* value
    ) except -1:
        """Add the edit that aligns the value of a record; returns its index."""
        cdef uint64_t offset = <uint64_t>(record - self.document.start)
        cdef uint64_t n_removed = 0
        cdef Edit* edit
        # Old padding right before the payload is replaced. If the new padding has the same size, nothing changes.
        while self.n:
            edit = &self.edits[self.n - 1]
            if edit.kind != OLD_PADDING or edit.parent != parent or edit.offset + edit.n_removed != offset:
                break
            offset = edit.offset
            n_removed += edit.n_removed
            self.n -= 1
        self.add(PAYLOAD, parent, self.document.start + offset, n_removed)
        edit = &self.edits[self.n - 1]
        edit.length = <uint64_t>(value - record)
        edit.padding_number = target.padding_number
        return self.n - 1

    # --- sizes

    cdef void compute_sizes(self) noexcept:
        """Compute the paddings, the growth of the lengths, and the new size.

        `n_inserted` of each LENGTH is the size of that length in bytes; `widen_lengths` may increase it.
        """
        cdef uint64_t shift = 0      # modulo 2**64: it may be negative
        cdef uint64_t min_padding
        cdef Edit* edit
        cdef Py_ssize_t i
        for i in range(self.n):
            edit = &self.edits[i]
            if edit.kind == PAYLOAD:
                min_padding = <uint64_t>varint_size(<uint64_t>edit.padding_number << 3) + 1
                edit.n_inserted = (edit.offset + shift + edit.length) % self.alignment
                edit.n_inserted = (self.alignment - edit.n_inserted if edit.n_inserted else 0) + edit.growth
                while 0 < edit.n_inserted < min_padding:
                    edit.n_inserted += self.alignment
            elif edit.kind == OLD_PADDING:
                edit.n_inserted = 0
            else:
                edit.growth = 0
            shift += edit.n_inserted - edit.n_removed
        self.new_size = <uint64_t>len(self.document) + shift
        for i in range(self.n - 1, -1, -1):
            edit = &self.edits[i]
            if edit.parent >= 0:
                self.edits[edit.parent].growth += edit.n_inserted - edit.n_removed
                if edit.kind == LENGTH:
                    self.edits[edit.parent].growth += edit.growth

    cdef bint widen_lengths(self) noexcept:
        """Widen the lengths of 32 GiB and more, for which five bytes are not enough; returns whether an edit changed.

        protobuf's readers are limited to 2 GiB; those of onnxwire accept a sixth byte only if the value needs it. The
        sixth byte may shorten a padding in the message by one byte, so that the length fits five bytes again: then that
        padding grows by whole alignments, which keeps all other payloads aligned.
        """
        cdef bint is_changed = False
        cdef uint64_t length
        cdef Edit* edit
        cdef Py_ssize_t i, k
        for i in range(self.n):
            edit = &self.edits[i]
            if edit.kind != LENGTH:
                continue
            length = edit.length + edit.growth
            if <uint64_t>varint_size(length) > edit.n_inserted:
                edit.n_inserted = <uint64_t>varint_size(length)
            elif edit.n_inserted > LENGTH_BYTES and length >> LENGTH_BITS == 0:
                k = i + 1
                while self.edits[k].kind != PAYLOAD:
                    k += 1
                length = (<uint64_t>1 << LENGTH_BITS) - length  # the bytes that are missing for six-byte lengths
                self.edits[k].growth += length + (self.alignment - length % self.alignment) % self.alignment
            else:
                continue
            is_changed = True
        return is_changed

    # --- the new encoding

    cdef list pieces(self):
        """Return the new encoding: bytes objects, and ranges of the document."""
        cdef PieceJoiner joiner = PieceJoiner.__new__(PieceJoiner)
        cdef uint64_t position = 0
        cdef uint64_t n_zeros
        cdef Edit* edit
        cdef Py_ssize_t i
        cdef bytes prefix
        joiner.document = self.document
        joiner.short_bytes = bytearray()
        joiner.pieces = []
        for i in range(self.n):
            edit = &self.edits[i]
            prefix = prefix_of(edit)
            n_zeros = edit.n_inserted - <uint64_t>len(prefix)
            if edit.n_inserted == edit.n_removed and matches_at(prefix, n_zeros, self.document.start + edit.offset):
                continue
            joiner.copy(position, edit.offset)
            joiner.write(prefix, n_zeros)
            position = edit.offset + edit.n_removed
        joiner.copy(position, <uint64_t>len(self.document))
        joiner.flush()
        return joiner.pieces


@final
cdef class PieceJoiner:
    """Collects the pieces of an encoding, and joins short pieces to longer ones."""
    cdef Document document
    cdef bytearray short_bytes   # collected bytes that are not in `pieces` yet
    cdef list pieces             # bytes objects, and ranges of the document as (offset, length)

    cdef int copy(self, uint64_t start, uint64_t end) except -1:
        """Add the bytes between two offsets of the document: a range, or a copy of a few bytes of a longer document."""
        if end - start < MIN_RANGE_BYTES and end - start < <uint64_t>len(self.document):
            self.short_bytes += (<const char*>self.document.start)[start:end]
        elif start < end:
            self.flush()
            self.pieces.append((start, end - start))
        return 0

    cdef int write(self, bytes prefix, uint64_t n_zeros) except -1:
        """Add bytes, and zeros after them."""
        self.short_bytes += prefix
        if n_zeros >= ZEROS_BYTES:
            self.flush()
            self.pieces += [ZEROS] * <Py_ssize_t>(n_zeros // ZEROS_BYTES)
        self.short_bytes += ZEROS[:n_zeros % ZEROS_BYTES]
        return 0

    cdef int flush(self) except -1:
        """Add the collected short bytes as one piece."""
        if self.short_bytes:
            self.pieces.append(bytes(self.short_bytes))
            self.short_bytes.clear()
        return 0


cdef object depth_error(Document document, const uint8_t* record):
    """Make the DecodeError for a message that is nested too deep."""
    cdef Damage damage
    memset(&damage, 0, sizeof(damage))
    damage.fault = FAULT_DEPTH
    damage.at = record
    return damage_error(document, damage, document.end)


cdef uint8_t* write_padded_varint(uint8_t* p, uint64_t value, uint64_t width) noexcept nogil:
    """Write a varint in exactly `width` bytes; returns its end."""
    while width > 1:
        p[0] = <uint8_t>(value | 0x80)
        value >>= 7
        width -= 1
        p += 1
    p[0] = <uint8_t>value
    return p + 1


cdef bytes prefix_of(const Edit* edit):
    """Return the bytes that an edit inserts, without zeros of a padding: a length, or a padding's tag and length."""
    cdef uint8_t[20] prefix
    cdef uint8_t* p = prefix
    cdef uint64_t n_bytes
    cdef uint64_t width = 1
    if edit.n_inserted == 0:
        return b""
    if edit.kind == LENGTH:
        p = write_padded_varint(p, edit.length + edit.growth, edit.n_inserted)
    else:
        p = write_varint(p, <uint64_t>edit.padding_number << 3 | WIRE_LEN)
        n_bytes = edit.n_inserted - <uint64_t>(p - prefix)
        # The length takes `width` bytes, and the zeros take the other bytes. Use the smallest width that can store the
        # number of zeros.
        while (n_bytes - width) >> (7 * width):
            width += 1
        p = write_padded_varint(p, n_bytes - width, width)
    return (<const char*>prefix)[:p - prefix]


cdef bint matches_at(bytes prefix, uint64_t n_zeros, const uint8_t* p) noexcept:
    """Return whether the bytes at p are `prefix` followed by `n_zeros` zeros; False if they are not resident."""
    cdef uint64_t n = <uint64_t>len(prefix)
    if not is_resident(p, n + n_zeros):
        return False
    if memcmp(p, <const char*>prefix, n) != 0:
        return False
    p += n
    return n_zeros == 0 or (p[0] == 0 and memcmp(p, p + 1, n_zeros - 1) == 0)


cdef AlignmentEdits alignment_edits_of(Document document, cls, targets, uint64_t threshold, uint64_t alignment):
    """Collect the edits that align the payloads of a document; the arguments are those of `align_payloads`."""
    cdef AlignmentEdits edits = AlignmentEdits(document, cls, targets, threshold, alignment)
    document.check_open()
    document.set_root(cls)
    fetch_structure(document, table_of(cls), LONG_BYTES, LONG_BYTES, NULL, NULL)
    document.check_open()
    # An empty document may have no address at all.
    if document.start < document.end:
        edits.scan(table_of(cls), document.start, document.end, MAX_DEPTH, -1)
    edits.compute_sizes()
    while edits.widen_lengths():
        edits.compute_sizes()
    return edits


@critical_section
def align_payloads(Document document, cls, targets, uint64_t threshold, uint64_t alignment):
    """Compute an encoding of a document in which long payloads are at multiples of `alignment`.

    document: only its bytes are encoded, not the edits of its messages. cls: class of its root message.
    targets: (class, name of a singular bytes field, number of the padding field), at most one per class; the number
    must be a valid one that no field of the class has. threshold: bytes, at least 1; shorter payloads are not aligned.
    alignment: bytes, 1 to 2**30.
    Returns (total, pieces): the size of the encoding in bytes, and its parts in order: bytes objects, and ranges of the
    document as (offset, length). A document that is completely resident and does not change is one range,
    or no part if it is empty.

    All readers read the same values; only unknown fields are added and removed. Old padding is removed from all
    messages that are scanned, so that aligning twice changes nothing. If a target field occurs more than once in a
    message, the last record is aligned. Lengths of messages around a payload take 5 bytes, or from 32 GiB on as many as
    they need. Messages that can't contain a long payload are copied without being read.
    Raises DecodeError for the first damaged record that is read, and FieldValueError for an unsuitable class, field,
    padding number or alignment.
    """
    cdef AlignmentEdits edits
    # Allocating lists may start the garbage collector, and so run code that closes the document.
    document.pins += 1
    try:
        edits = alignment_edits_of(document, cls, targets, threshold, alignment)
        return edits.new_size, edits.pieces()
    finally:
        document.pins -= 1


@critical_section
def aligned_pieces(Document document, cls, targets, uint64_t threshold, uint64_t alignment):
    """Do the same as `align_payloads`, but return ranges as Pieces, for `write_pieces`."""
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


forbid_instantiation(PieceJoiner, b"align_payloads()")
