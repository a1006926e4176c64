# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Reading together with other threads, in Python without the GIL.

What is here decides whether something can be read so; reading it is then what it is in the section.
"""
from cython cimport critical_section
from libc.string cimport memset

from onnxwire.engine.document cimport EPOCH_CLOSED, FAR, Document, FarReads
from onnxwire.engine.partial cimport OPEN
from onnxwire.engine.section cimport claim, look_at, publish, start_reading, stop_reading
from onnxwire.engine.table cimport BYTES, MESSAGE, STRING, Slot, Table, bit_of
from onnxwire.engine.texts cimport PLAIN
from onnxwire.engine.view cimport HAS_MERGE, KEEPS_IDENTITY, is_long, scan_slots

cdef extern from "thresholds.h":
    enum:
        KEEP_RECORDS "OW_KEEP_RECORDS"
        KEEP_BYTES "OW_KEEP_BYTES"

cdef enum:
    MOST = 1 << 16       # bytes that are copied while others wait to enter the section

ctypedef object (*Getter)(View view, void* field)
ctypedef int (*Setter)(View view, PyObject* value, void* field) except -1


cdef Py_ssize_t* start_reading_filled(View self) noexcept:
    cdef Py_ssize_t* place = start_reading()
    if place == NULL:
        return NULL
    if (
        OPEN == 0 and not KEEPS_IDENTITY and self.overlay == NULL and (<Document>self.document).overlays is None
        and (<Document>self.document).epoch != EPOCH_CLOSED
        and (look_at(&self.epoch) == (<Document>self.document).epoch or fill_once(self))
    ):
        return place
    stop_reading(place)
    return NULL


cdef bint fill_once(View self) noexcept:
    """Fill the slots of a view that nobody has read; tells whether they are."""
    cdef Table* table = self.table
    cdef FarReads far
    cdef uint64_t records = 0
    if (
        self.parts != NULL or self.end - self.start >= FAR
        or (<Document>self.document).wide & bit_of(table) and is_long(self, KEEP_BYTES)
        or not claim(&self.epoch)
    ):
        return False
    memset(self.slots, 0, table.n_fields * sizeof(Slot))
    self.flags = 0
    far.left = 0
    if scan_slots(table, self.start, self.end, self.slots, &self.flags, &records, &far) != NULL or (
        records >= KEEP_RECORDS and is_long(self, KEEP_BYTES)
    ):
        publish(&self.epoch, 0)  # an error is raised, and slots are kept, in the section
        return False
    publish(&self.epoch, (<Document>self.document).epoch)
    return True


cdef bint is_ready(int field_type, const uint8_t* p, uint64_t n) noexcept:
    """Whether making the value runs no other code, and not for long: what is not UTF-8 goes through Python's codecs."""
    cdef uint64_t i
    if field_type == BYTES:
        return n <= MOST
    if field_type == STRING:
        if n > PLAIN:
            return False
        for i in range(n):
            if p[i] >= 0x80:
                return False
    return True


cdef bint is_shared(View self, const Field* field) noexcept:
    """Whether the getter of a field can be run by many threads at once; messages that are not there are made."""
    cdef Slot* slot = &self.slots[field.slot]
    if field.repeated:
        return True
    if field.type == MESSAGE:
        return slot.p != NULL and not self.flags & HAS_MERGE
    return slot.p == NULL or is_ready(field.type, slot.p, slot.n)


cdef object get_shared(View self, void* closure):
    """The getter of every attribute; `closure` is the Field."""
    cdef Py_ssize_t* place = start_reading_filled(self)
    if place == NULL:
        return get_alone(self, closure)
    try:
        if is_shared(self, <Field*>closure):
            return (<Getter>(<Field*>closure).get)(self, closure)
    finally:
        stop_reading(place)
    return get_alone(self, closure)


@critical_section
cdef object get_alone(View self, void* closure):
    return (<Getter>(<Field*>closure).get)(self, closure)


@critical_section
cdef int set_alone(View self, PyObject* value, void* closure) except -1:
    """The setter of every attribute."""
    return (<Setter>(<Field*>closure).set)(self, value, closure)
