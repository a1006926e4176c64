# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Edits of a message: setters of singular fields, nested messages, clearing, copying, constructor keywords."""
from cpython.object cimport PyObject
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from onnxwire.engine.document cimport Document
from onnxwire.engine.overlay cimport Overlay, presence_mark
from onnxwire.engine.table cimport Field, Table
from onnxwire.engine.view cimport View

cdef Overlay start_edit(View self)
cdef uint32_t depth_of(View self)
cdef object new_message(Table* table)
cdef int read_number(const Field* field, object value, uint64_t* raw) except -1
cdef object read_text(const Field* field, object value, const uint8_t** p, uint64_t* n)
cdef int share_memory(View self, const Field* field, memory) except -1
cdef object copy_message(View source, uint32_t depth, const uint8_t** p, uint64_t* n)
cdef int put_message(View self, const Field* field, View source) except -1
cdef int clear_field(View self, const Field* field) except -1
cdef int exchange_content(View self, Overlay content, bint detach_views) except -1
cdef Overlay content_of(Table* table, Document document, uint32_t depth)
cdef Overlay content_copy(View source, uint32_t depth)
cdef object iterate(const Field* field, values)
cdef int set_fields(View self, values) except -1
cdef object field_error(const Field* field, type error_class, str reason)
cdef void* singular_setter(int field_type) noexcept


cdef inline Overlay edit(View self):
    """Return the overlay of a message; create it if there is none. An absent message becomes present in its parent."""
    if (
        self.overlay != NULL and (<Overlay>self.overlay).parent == NULL
        and self.epoch == (<Document>self.document).epoch
    ):
        return <Overlay>self.overlay
    return start_edit(self)
