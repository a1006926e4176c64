# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Search for all messages of some classes in a message, at any depth."""
cimport cython
from libc.stdint cimport uint8_t, uint32_t

from onnxwire.engine.document cimport Document
from onnxwire.engine.repeated_span cimport RepeatedSpan
from onnxwire.engine.scan cimport NameFilter
from onnxwire.engine.table cimport Table, TableOwner
from onnxwire.engine.view cimport View


@cython.final
cdef class Level:
    cdef View view
    cdef uint32_t field          # index of the current field
    cdef Py_ssize_t index        # the index of the current element of a repeated field
    cdef object elements         # iterator over a repeated field, or None
    cdef str name                # the name of the current field
    cdef str stem                # path of the current field; None until it is requested
    cdef Py_ssize_t number       # the number of this message's path in `Paths`, or -1

    cdef str path(self)


cdef struct Step:
    uint32_t parent              # 1 + number of the parent path; 0 if the parent is the root
    uint32_t name                # number of the field's name
    Py_ssize_t index             # of the element; -1 in a singular field


@cython.final
cdef class Paths:
    cdef Step* items             # the last step of each path, by the number of the path
    cdef Py_ssize_t n
    cdef Py_ssize_t capacity
    cdef list names              # the names of fields, by number
    cdef dict numbers            # the numbers of the names of fields
    cdef Py_ssize_t parent       # number of the parent of the last requested path, or -1
    cdef str prefix              # path of that parent, with a dot at the end

    cdef Py_ssize_t add(self, Py_ssize_t parent, Level level) except -1
    cdef str step(self, Py_ssize_t number)


@cython.final
cdef class Search:
    cdef TableOwner owner        # the tables of the schema
    cdef bytearray marks_buffer  # the marks of the owner's tables; see Mark in marked_scan.pxd
    cdef uint8_t* marks          # the memory of `marks_buffer`
    cdef list levels             # the stack: a Level per message that is being searched
    cdef Paths paths             # where paths are stored, or None
    cdef NameFilter names        # skips messages that contain none of its names; or None
    cdef Py_ssize_t number       # the number of the last result's path in `paths`
    cdef str path_text           # path of the last result, if `paths` is None
    cdef Document scanned_document  # the document of the last scan, or None
    cdef const uint8_t* clear_from    # the bytes up to `clear_to` contain no message that is searched for
    cdef const uint8_t* clear_to
    # The record at `clear_to` that ended the scan (see `find_marked`); NULL if the scan reached the end.
    cdef const uint8_t* target_record

    cdef uint8_t marks_of(self, const Table* table) noexcept
    cdef int enter(self, View view) except -1
    cdef View next_result(self)
    cdef Py_ssize_t store_path(self) except -1
    cdef View next_message(self, Level level)
    cdef int skip_clear(self, Level level) except -1
    cdef int scan(self, Level level, RepeatedSpan sequence, const uint8_t* p, const uint8_t* end) except -1
    cdef str path(self)
