# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Equality of messages: as in protobuf, by present fields (floats by their bits), then by unknown fields.

Nested messages are compared without views of them: spans by their records, edited messages by their overlays.
References are borrowed, so no other code may run during a comparison; the garbage collector is disabled, and bytes of
remote files that are not resident are fetched between two passes.
"""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.object cimport PyObject, PyTypeObject
from cython cimport critical_section
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, memset

from onnxwire._varint cimport (
    MAX_DEPTH, WIRE_END_GROUP, WIRE_LEN, WIRE_START_GROUP, WIRE_VARINT, check_varints, read_any_tag,
    read_length, read_value,
)
from onnxwire.engine.canonical cimport raw_at
from onnxwire.engine.compact_overlay cimport CompactOverlay, base_of_compact, fill_slots
from onnxwire.engine.damage cimport decode_error, packed_error
from onnxwire.engine.document cimport EMPTY, Document, FarReads, Span, Spans
from onnxwire.engine.encode cimport expand_edits, content_unknown_fields
from onnxwire.engine.encoder cimport Content, Edits, Encoder, fetch_for, put_missing, require_records
from onnxwire.engine.memory cimport free, malloc
from onnxwire.engine.number_reader cimport NumberReader, next_number, number_error
from onnxwire.engine.number_runs cimport decode_run
from onnxwire.engine.overlay cimport Element, Elements, Numbers, Overlay, element_at
from onnxwire.engine.overlay_index cimport OverlayIndex, Pair, has_edits, index_of, is_compact, overlay_of
from onnxwire.engine.partial cimport LONG_BYTES, N_PARTIAL, is_resident
from onnxwire.engine.table cimport MESSAGE, Field, Slot, Table
from onnxwire.engine.verify cimport is_valid
from onnxwire.engine.view cimport (
    HAS_MERGE, HAS_UNKNOWN, Cursor, Record, View, base_of, collect_parts, document_of, fill, filled_document,
    next_usable, scan_slots, start_records,
)

cdef extern from "Python.h":
    int PyGC_Disable()
    int PyGC_Enable()
    PyTypeObject* Py_TYPE(PyObject* o)

from sys import byteorder

from onnxwire.engine.encoder import NotResident
from onnxwire.errors import DecodeError

cdef bint LITTLE_ENDIAN = byteorder == "little"

cdef enum:
    # Longer spans are compared by field only: comparing bytes first could read them twice at each level.
    MAX_IDENTICAL_BYTES = 1 << 24
    BUFFERS = 2 * MAX_DEPTH      # number of buffers: one for each of the two messages, at each depth


cdef struct Side:
    # One of two messages that are compared. All references are borrowed.
    Content content
    bint is_unedited             # a span without edits
    Slot* slots
    PyObject** owners            # see Overlay; NULL if no field has an object
    uint32_t flags               # see View


cdef struct Comparison:
    PyObject* encoder            # Encoder that collects bytes that are not resident; NULL if all files are local
    PyObject* unchanged_document  # the last Document whose file was found unchanged; only its address is used
    int n_buffers                # number of initialized buffers, from the end
    Slot* buffers[BUFFERS]       # slots and owners of values of the two messages at each depth
    size_t[BUFFERS] sizes        # capacities of the buffers in bytes


cdef bint equal_views(View a, View b) except -1:
    """Compare two messages of one class by value.

    Raises DecodeError for damage or too deep nesting that is found before a difference, and SourceError for a file
    that was changed or can't be fetched.
    """
    cdef Comparison comparison
    cdef Encoder encoder = None
    cdef Document our_document
    cdef Document their_document
    cdef bint is_equal = True
    cdef int is_collecting
    cdef int i
    document_of(a).check_unchanged()
    document_of(b).check_unchanged()
    our_document = filled_document(a)
    their_document = filled_document(b)
    # Fetching may run other code, which must not close the documents.
    our_document.pins += 1
    their_document.pins += 1
    comparison.encoder = comparison.unchanged_document = NULL
    comparison.n_buffers = 0
    try:
        while True:
            fill(a)
            fill(b)
            # Filling b may have run code that edits a.
            if a.epoch != (<Document>a.document).epoch:
                continue
            if N_PARTIAL:
                encoder = Encoder(False)
                comparison.encoder = <PyObject*>encoder
            error = None
            is_collecting = PyGC_Disable()
            try:
                is_equal = compare_views(&comparison, a, b)
            except NotResident as not_resident:
                error = not_resident
            finally:
                if is_collecting:
                    PyGC_Enable()
            if error is None and (not is_equal or encoder is None or encoder.missing is None):
                return is_equal
            fetch_for(encoder, error)
    finally:
        our_document.pins -= 1
        their_document.pins -= 1
        for i in range(BUFFERS - comparison.n_buffers, BUFFERS):
            free(comparison.buffers[i])


cdef bint compare_views(Comparison* comparison, View a, View b) except -1:
    """Compare two views whose slots are filled; long values that are not resident count as equal and are collected."""
    cdef Side ours = side_of_view(a)
    cdef Side theirs = side_of_view(b)
    ours.is_unedited = ours.is_unedited and not has_edits(<Document>a.document, a.start, a.end)
    theirs.is_unedited = theirs.is_unedited and not has_edits(<Document>b.document, b.start, b.end)
    return are_identical(comparison, &ours, &theirs, MAX_DEPTH) or compare_fields(comparison, &ours, &theirs, MAX_DEPTH)


cdef Side side_of_view(View view) noexcept:
    """Return the Side of a view; edits of nested messages are not considered in `is_unedited`."""
    cdef Side side
    side.content.table = view.table
    side.content.document = base_of(view)
    side.content.overlay = view.overlay
    side.content.parts = view.parts
    side.content.start = view.start
    side.content.end = view.end
    side.content.compact = NULL
    side.is_unedited = view.overlay == NULL and view.parts == NULL
    side.slots = view.slots
    side.owners = NULL if view.overlay == NULL else (<Overlay>view.overlay).owners
    side.flags = view.flags
    return side


# --- messages

cdef bint compare_messages(
    Comparison* comparison, Table* table, PyObject* our_document, const Element* our_value, Spans our_parts,
    PyObject* their_document, const Element* their_value, Spans their_parts, int depth
) except -1:
    """Compare two values of a message field.

    our_document, their_document: the documents of the messages that have the field.
    """
    cdef Side ours
    cdef Side theirs
    # These variables own the overlays of the messages during the comparison.
    cdef Overlay _our_overlay
    cdef Overlay _their_overlay
    if depth == 0:
        raise DecodeError(
            f"messages nested more than {MAX_DEPTH} deep are not compared", source=(<Document>our_document).name
        )
    _our_overlay = locate_message(comparison, &ours, table, our_document, our_value, our_parts)
    _their_overlay = locate_message(comparison, &theirs, table, their_document, their_value, their_parts)
    if are_identical(comparison, &ours, &theirs, depth - 1):
        return True
    load_slots(comparison, &ours, 2 * depth - 2)
    load_slots(comparison, &theirs, 2 * depth - 1)
    return compare_fields(comparison, &ours, &theirs, depth - 1)


cdef bint are_identical(Comparison* comparison, const Side* a, const Side* b, int depth) noexcept:
    """Return whether two messages are unedited spans of equal, undamaged bytes; False if unknown."""
    cdef uint64_t n = <uint64_t>(a.content.end - a.content.start)
    if not (a.is_unedited and b.is_unedited) or comparison.encoder != NULL or n > MAX_IDENTICAL_BYTES:
        return False
    if <uint64_t>(b.content.end - b.content.start) != n:
        return False
    if a.content.start != b.content.start and memcmp(a.content.start, b.content.start, n) != 0:
        return False
    return is_valid(a.content.table, a.content.start, a.content.end, depth)


cdef Overlay locate_message(
    Comparison* comparison, Side* side, Table* table, PyObject* document, const Element* value, Spans parts
):
    """Find the bytes and edits of a message; returns its overlay in the index, which the caller must own, or None."""
    cdef PyObject* owner = value.owner
    cdef OverlayIndex index
    cdef Overlay overlay
    cdef Pair pair
    side.content.table = table
    side.content.document = document
    side.content.overlay = side.content.compact = NULL
    side.content.parts = NULL if parts is None else <PyObject*>parts
    side.content.start = value.p
    side.content.end = value.p + value.n
    side.is_unedited = False
    if owner != NULL:
        if Py_TYPE(owner) == <PyTypeObject*>Overlay:
            side.content.document = <PyObject*>EMPTY
            side.content.overlay = owner
            return None
        side.content.document = owner
    index = index_of(<Document>side.content.document)
    if index is None or not index.find(value.p, &pair) or pair.address > <size_t>side.content.end:
        side.is_unedited = parts is None
        return None
    if pair.address != <size_t>value.p or pair.edits == NULL:
        return None
    # If the file was written to, another message may be at this address now.
    if is_compact(&pair):
        if (<CompactOverlay>pair.edits).table == table:
            side.content.compact = pair.edits
            side.content.document = base_of_compact(<CompactOverlay>pair.edits, side.content.document)
            side.content.parts = NULL  # the message has other content than the bytes of `parts`
            side.content.start = (<CompactOverlay>pair.edits).start
            side.content.end = (<CompactOverlay>pair.edits).end
        return None
    overlay = overlay_of(&pair, <Document>side.content.document)
    if overlay.table == table:
        side.content.overlay = <PyObject*>overlay
    return overlay


cdef int load_slots(Comparison* comparison, Side* side, int index) except -1:
    """Set slots, owners and flags of a message that `locate_message` found; index: the index of the buffer for them."""
    cdef Content* content = &side.content
    cdef const Table* table = content.table
    # The memory for `expand_edits`, and at least one byte.
    cdef size_t size = table.n_fields * (sizeof(Slot) + sizeof(PyObject*) + 1) + 1
    cdef Overlay overlay
    cdef Edits edits
    if content.overlay != NULL:
        overlay = <Overlay>content.overlay
        if overlay.base != NULL:
            content.document = overlay.base
        content.parts = overlay.parts
        content.start = overlay.start
        content.end = overlay.end
        side.slots = overlay.slots
        side.owners = overlay.owners
        side.flags = overlay.flags
        if overlay.start != NULL:
            return check_content(comparison, content)
        return 0
    check_content(comparison, content)
    while comparison.n_buffers < BUFFERS - index:
        comparison.n_buffers += 1
        comparison.buffers[BUFFERS - comparison.n_buffers] = NULL
        comparison.sizes[BUFFERS - comparison.n_buffers] = 0
    if comparison.sizes[index] < size:
        free(comparison.buffers[index])
        comparison.sizes[index] = 0
        comparison.buffers[index] = <Slot*>malloc(size)
        if comparison.buffers[index] == NULL:
            raise MemoryError
        comparison.sizes[index] = size
    memset(comparison.buffers[index], 0, size)
    side.slots = comparison.buffers[index]
    side.flags = 0
    if content.compact == NULL:
        side.owners = NULL
        return scan(content, side.slots, &side.flags)
    expand_edits(<CompactOverlay>content.compact, &edits, <uint8_t*>side.slots)
    side.owners = edits.owners
    side.flags = (<CompactOverlay>content.compact).flags
    fill_slots(<CompactOverlay>content.compact, content.document, side.slots)
    return 0


cdef int check_content(Comparison* comparison, Content* content) except -1:
    """Raise SourceError if the file of a message was changed, and NotResident if its records must be fetched."""
    if content.document != comparison.unchanged_document:
        (<Document>content.document).check_unchanged()
        comparison.unchanged_document = content.document
    if comparison.encoder != NULL:
        require_records(<Encoder>comparison.encoder, content)
    return 0


cdef int scan(const Content* content, Slot* slots, uint32_t* flags) except -1:
    """Fill the slots from the records of a message; raises DecodeError if they are damaged."""
    cdef const uint8_t* fault
    cdef const Span* part
    cdef uint64_t records = 0
    cdef FarReads far
    cdef Span single
    cdef Py_ssize_t n = 1
    cdef Py_ssize_t i
    memset(&far, 0, sizeof(far))
    single.p = content.start
    single.n = <uint64_t>(content.end - content.start)
    part = &single
    if content.parts != NULL:
        part = (<Spans>content.parts).items
        n = (<Spans>content.parts).n
    for i in range(n):
        fault = scan_slots(content.table, part[i].p, part[i].p + part[i].n, slots, flags, &records, &far)
        if fault != NULL:
            raise decode_error(<Document>content.document, fault, part[i].p + part[i].n)
    return 0


# --- fields

cdef bint compare_fields(Comparison* comparison, Side* a, Side* b, int depth) except -1:
    """Compare two messages by value; depth: levels of messages that may be nested in them."""
    cdef const Table* table = a.content.table
    cdef const Field* field
    cdef const Slot* ours
    cdef const Slot* theirs
    cdef uint32_t i
    for i in range(table.n_fields):
        field = &table.fields[i]
        ours = &a.slots[i]
        theirs = &b.slots[i]
        if ours.p == NULL and theirs.p == NULL:
            continue
        if field.repeated:
            if field.size:
                if not compare_numbers(comparison, a, b, field):
                    return False
            elif not compare_elements(comparison, a, b, field, depth):
                return False
        elif ours.p == NULL or theirs.p == NULL:
            return False
        elif field.type == MESSAGE:
            if not compare_singular_messages(comparison, a, b, field, depth):
                return False
        elif field.size == 0:
            if ours.n != theirs.n or not equal_bytes(comparison, ours.p, theirs.p, ours.n):
                return False
        elif field.size == 1:
            if (ours.n == 0) != (theirs.n == 0):
                return False
        elif field.size == 4:
            if <uint32_t>ours.n != <uint32_t>theirs.n:
                return False
        elif ours.n != theirs.n:
            return False
    if (a.flags | b.flags) & HAS_UNKNOWN or table.has_closed_runs:
        our_unknown = content_unknown_fields(&a.content, a.flags)
        their_unknown = content_unknown_fields(&b.content, b.flags)
        return our_unknown == their_unknown or unknown_records(our_unknown) == unknown_records(their_unknown)
    return True


cdef inline PyObject* owner_in(const Side* side, const Field* field) noexcept:
    """Return the object that owns the value of a field, or NULL."""
    if side.owners == NULL:
        return NULL
    return side.owners[field.slot]


cdef inline Element singular_value(const Side* side, const Field* field) noexcept:
    """Return the value of a singular field and its owner."""
    return Element(side.slots[field.slot].p, side.slots[field.slot].n, owner_in(side, field))


cdef bint compare_singular_messages(Comparison* comparison, Side* a, Side* b, const Field* field, int depth) except -1:
    """Compare the values of a singular message field, which both messages have."""
    cdef Element ours = singular_value(a, field)
    cdef Element theirs = singular_value(b, field)
    cdef Spans our_parts = parts_of(a, field, &ours)
    cdef Spans their_parts = parts_of(b, field, &theirs)
    return compare_messages(
        comparison, field.sub, a.content.document, &ours, our_parts, b.content.document, &theirs, their_parts, depth
    )


cdef Spans parts_of(Side* side, const Field* field, Element* value):
    """Return the parts of a message in several parts, and set `value` to the first; None for other messages."""
    cdef Cursor cursor
    cdef Spans parts
    if value.owner != NULL or not side.flags & HAS_MERGE:
        return None
    start_records(&cursor, side.content.start, side.content.end, side.content.parts, NULL)
    parts = collect_parts(&cursor, side.content.table, field)
    if parts.n < 2:
        return None
    value.p = parts.items[0].p
    value.n = parts.items[0].n
    return parts


cdef bint equal_bytes(Comparison* comparison, const uint8_t* a, const uint8_t* b, uint64_t n) except -1:
    """Return whether two values of n bytes are equal; collect their bytes and return True if some are not resident."""
    if a == b:
        return True
    if comparison.encoder != NULL and n >= LONG_BYTES and not (is_resident(a, n) and is_resident(b, n)):
        put_missing(<Encoder>comparison.encoder, a, n)
        put_missing(<Encoder>comparison.encoder, b, n)
        return True
    return memcmp(a, b, n) == 0


# --- repeated strings, bytes and messages

cdef struct ElementCursor:
    # A position in a repeated field of strings, bytes or messages.
    PyObject* elements           # Elements, or NULL for records
    Py_ssize_t i                 # index of the next element in `elements`
    Cursor cursor                # position in the records


cdef uint64_t start_elements(ElementCursor* cursor, const Side* side, const Field* field) noexcept:
    """Start at the first element of a field; returns the number of elements."""
    cdef const Slot* slot = &side.slots[field.slot]
    cursor.i = 0
    cursor.elements = owner_in(side, field)
    if cursor.elements != NULL:
        return <uint64_t>(<Elements>cursor.elements).n
    if slot.p == NULL:
        return 0
    start_records(&cursor.cursor, side.content.start, side.content.end, side.content.parts, slot.p)
    return slot.n


cdef inline bint next_element(ElementCursor* cursor, const Field* field, Element* element) noexcept:
    """Read the next element counted by `start_elements`; returns False if its record is missing or damaged."""
    cdef const uint8_t* p = cursor.cursor.p
    cdef uint64_t n = 0
    cdef Record record
    if cursor.elements != NULL:
        element[0] = element_at(<Elements>cursor.elements, cursor.i)[0]
        cursor.i += 1
        return True
    # The common case: the next record is of the same field, with a tag of one byte.
    if p < cursor.cursor.end and field.number < 16 and p[0] == (field.number << 3 | WIRE_LEN):
        p = read_length(p + 1, cursor.cursor.end, &n)
        if p != NULL:
            cursor.cursor.p = p + n
            element[0] = Element(p, n, NULL)
            return True
    if next_usable(&cursor.cursor, field, &record) <= 0:
        return False
    element[0] = Element(record.value, record.n, NULL)
    return True


cdef bint compare_elements(Comparison* comparison, Side* a, Side* b, const Field* field, int depth) except -1:
    """Compare repeated strings, bytes or messages pair by pair."""
    cdef ElementCursor[2] cursors
    cdef Element ours
    cdef Element theirs
    cdef uint64_t n = start_elements(&cursors[0], a, field)
    if start_elements(&cursors[1], b, field) != n:
        return False
    while n:
        if not next_element(&cursors[0], field, &ours) or not next_element(&cursors[1], field, &theirs):
            return False
        if field.type == MESSAGE:
            if not compare_messages(
                comparison, field.sub, a.content.document, &ours, None, b.content.document, &theirs, None, depth
            ):
                return False
        elif ours.n != theirs.n or not equal_bytes(comparison, ours.p, theirs.p, ours.n):
            return False
        n -= 1
    return True


# --- repeated numbers

cdef struct NumberCursor:
    # A position in a repeated field of numbers.
    PyObject* numbers            # Numbers, or NULL for records
    Py_ssize_t i                 # index of the next number in `numbers`
    NumberReader reader
    # All of `numbers`, or the packed run that is the field's only record; else NULL.
    const uint8_t* run
    uint64_t n                   # bytes of the run
    bint is_native               # the run is an array of native numbers, not varints


cdef bint start_numbers(Comparison* comparison, NumberCursor* cursor, const Side* side, const Field* field) except -1:
    """Start at the first number of a field; returns False if packed runs of the field must be fetched first."""
    cdef const Slot* slot = &side.slots[field.slot]
    cdef uint64_t n_records_left
    cdef Record record
    cdef bint all_resident = True
    memset(cursor, 0, sizeof(cursor[0]))
    cursor.numbers = owner_in(side, field)
    if cursor.numbers != NULL:
        if (<Numbers>cursor.numbers).run_end != NULL:
            decode_run(field, <Numbers>cursor.numbers, <Document>side.content.document)
        cursor.run = (<Numbers>cursor.numbers).items
        cursor.n = <uint64_t>(<Numbers>cursor.numbers).n * field.size
        cursor.is_native = cursor.run != NULL
        return True
    if slot.p == NULL:
        return True
    n_records_left = slot.n
    start_records(&cursor.reader.cursor, side.content.start, side.content.end, side.content.parts, slot.p)
    while n_records_left and next_usable(&cursor.reader.cursor, field, &record) > 0:
        n_records_left -= 1
        if record.tag & 7 != WIRE_LEN:
            continue
        if slot.n == 1:
            cursor.run = record.value
            cursor.n = record.n
            cursor.is_native = field.wire != WIRE_VARINT and LITTLE_ENDIAN
        elif comparison.encoder == NULL:
            break
        if comparison.encoder != NULL and record.n >= LONG_BYTES and not is_resident(record.value, record.n):
            put_missing(<Encoder>comparison.encoder, record.value, record.n)
            all_resident = False
    start_records(&cursor.reader.cursor, side.content.start, side.content.end, side.content.parts, slot.p)
    cursor.reader.n_records_left = slot.n
    if all_resident and cursor.is_native and cursor.n % field.size:
        raise packed_error(<Document>side.content.document, cursor.run, cursor.run + cursor.n, field.size)
    return all_resident


cdef inline int next_raw(NumberCursor* cursor, const Field* field, uint64_t* raw) noexcept nogil:
    """Read the raw bits of the next number, like next_number."""
    if cursor.numbers == NULL:
        return next_number(&cursor.reader, field, raw)
    if <uint64_t>cursor.i * field.size >= cursor.n:
        return 0
    raw[0] = raw_at(field, cursor.run, cursor.i)
    cursor.i += 1
    return 1


cdef bint compare_numbers(Comparison* comparison, Side* a, Side* b, const Field* field) except -1:
    """Compare repeated numbers by their bits."""
    cdef NumberCursor ours
    cdef NumberCursor theirs
    cdef uint64_t our_raw = 0
    cdef uint64_t their_raw = 0
    cdef int our_status, their_status  # results of next_raw
    cdef bint all_resident = start_numbers(comparison, &ours, a, field)
    if not start_numbers(comparison, &theirs, b, field) or not all_resident:
        return True  # no difference so far; the missing bytes are fetched if nothing else differs
    if ours.is_native and theirs.is_native:
        return ours.n == theirs.n and memcmp(ours.run, theirs.run, ours.n) == 0
    if ours.run != NULL and theirs.run != NULL and ours.n == theirs.n and ours.is_native == theirs.is_native:
        if memcmp(ours.run, theirs.run, ours.n) == 0 and check_varints(ours.run, ours.run + ours.n):
            return True
    while True:
        our_status = next_raw(&ours, field, &our_raw)
        their_status = next_raw(&theirs, field, &their_raw)
        if our_status < 0:
            raise number_error(<Document>a.content.document, &ours.reader, field)
        if their_status < 0:
            raise number_error(<Document>b.content.document, &theirs.reader, field)
        if our_status != their_status or our_status and our_raw != their_raw:
            return False
        if our_status == 0:
            return True


# --- unknown fields

cdef list unknown_records(bytes data):
    """List unknown fields as (number, wire type, value), sorted by number and wire type; see unknown_record."""
    cdef const uint8_t* p = <const uint8_t*>PyBytes_AS_STRING(data)
    cdef const uint8_t* end = p + PyBytes_GET_SIZE(data)
    cdef list records = []
    while p < end:
        records.append(unknown_record(&p, end))
    records.sort(key=sort_key)
    return records


cdef tuple unknown_record(const uint8_t** p, const uint8_t* end):
    """Read one record and advance p.

    The value is an int, bytes, or for a group the sorted list of its records; an end of group is (number, wire type).
    """
    cdef const uint8_t* start
    cdef const uint8_t* value
    cdef uint32_t tag = 0
    cdef uint64_t n = 0
    cdef list records
    start = read_any_tag(p[0], end, &tag)
    p[0] = start
    if start != NULL and tag & 7 != WIRE_END_GROUP:
        p[0] = read_value(start, end, tag, MAX_DEPTH, &value, &n)
    if p[0] == NULL:
        raise DecodeError("bytes that changed while they were read")
    if tag & 7 == WIRE_END_GROUP:
        return tag >> 3, WIRE_END_GROUP
    if tag & 7 == WIRE_LEN:
        return tag >> 3, WIRE_LEN, PyBytes_FromStringAndSize(<const char*>value, <Py_ssize_t>n)
    if tag & 7 == WIRE_START_GROUP:
        records = []
        record = unknown_record(&start, p[0])
        while len(record) == 3:
            records.append(record)
            record = unknown_record(&start, p[0])
        records.sort(key=sort_key)
        return tag >> 3, WIRE_START_GROUP, records
    return tag >> 3, tag & 7, n


@critical_section
def sort_key(tuple record):
    """Return the number and wire type of a record."""
    return record[:2]
