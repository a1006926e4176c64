# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The tokens of a text, for the parsers of the text format and JSON."""
from libc.stdint cimport int64_t

cdef enum:
    END = -1             # returned instead of a character at the end of the text
    NO_INDEX = -1        # passed instead of a number of values: the error concerns the whole field


cdef class Entry:
    """A field, as the parsers need it."""
    cdef str name
    cdef str oneof       # None without a oneof
    cdef object field
    cdef object convert  # a function that converts a token or JSON value to a value, or raises ValueError
    cdef dict table      # of a message field: the entries of the message's fields by name; None until a value occurs
    cdef int type        # of the field, such as STRING
    cdef bint is_repeated
    cdef int64_t minimum, maximum  # of an integer field, at most INT64_MAX; minimum > maximum for other types


cdef class Tokenizer:
    """The text to parse. `buf` is the part in memory, `pos` the index in it of the next character to parse."""
    cdef str buf
    cdef int kind        # size of a character of `buf` in bytes
    cdef const void* data  # the characters of `buf`
    cdef Py_ssize_t n    # number of characters of `buf`
    cdef Py_ssize_t pos
    cdef bint is_last    # whether the text ends at the end of `buf`
    cdef bint is_json
    cdef bint ignore_unknown
    cdef object later_pieces  # iterator of the pieces after `buf`
    cdef object converter_of  # returns the function that converts values of a field
    cdef str source      # name of the text
    cdef Py_ssize_t line, column  # position of the first character of `buf`
    cdef dict tables     # for each message type, the entries of its fields by name
    cdef list path       # the root message, then the Entry and the message for each level down to the current message

    cdef int read_more(self) except -1
    cdef int peek(self) except -2
    cdef Py_ssize_t find_word_end(self) except -1
    cdef str word(self)
    cdef bint parse_integer(self, Py_ssize_t start, Py_ssize_t end, Entry entry, int64_t* value) noexcept
    cdef bint parse_real(self, Py_ssize_t end, double* value) except -1
    cdef bint has_next(self, int closer, Entry entry=*, Py_ssize_t n_pending=*) except -1
    cdef Py_ssize_t find_closing_quote(self, Py_ssize_t start, Py_UCS4 quote) except -1
    cdef str describe_next(self)
    cdef object unclosed_error(self, int quote, Entry entry, Py_ssize_t n_pending, str position=*)
    cdef Py_ssize_t find_run_start(self, Py_ssize_t start, Py_ssize_t end) noexcept
    cdef Py_ssize_t find_cut(self, Py_ssize_t start) except -1
    cdef bint is_at(self, int character) noexcept
    cdef dict table_of(self, message_type)
    cdef object enter(self, message, Entry entry)
    cdef int leave(self) except -1
    cdef object error(self, str reason, Entry entry=*, Py_ssize_t n_pending=*, str position=*)
    cdef str position(self)
