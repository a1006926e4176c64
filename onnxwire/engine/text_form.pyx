# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""`str(message)`: the text format as protobuf's C runtime returns it, with numbers as protoc writes them.

`text/` writes text format files in pieces, with numbers as Python prints them.
"""
cimport cython
from cpython.mem cimport PyMem_Free
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.math cimport isnan
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset, strlen

from onnxwire._varint cimport zigzag32, zigzag64
from onnxwire.engine.instances cimport make_internal
from onnxwire.engine.memory cimport free, realloc
from onnxwire.engine.numbers cimport RepeatedScalar, get_numbers
from onnxwire.engine.overlay cimport MAX_OVERLAY_DEPTH
from onnxwire.engine.partial cimport LONG_BYTES, fetch, is_resident
from onnxwire.engine.table cimport (
    BOOL, BYTES, DOUBLE, ENUM, FIXED32, FIXED64, FLOAT, MESSAGE, SINT32, SINT64, STRING, UINT32, UINT64, Field, Slot,
)
from onnxwire.engine.view cimport document_of, field_value, fill

cdef extern from "Python.h":
    const char* PyUnicode_AsUTF8AndSize(object text, Py_ssize_t* size) except NULL
    int PyBytes_AsStringAndSize(object data, char** p, Py_ssize_t* size) except -1
    # Equivalents of snprintf's %g and of strtod in the C locale; the C functions depend on LC_NUMERIC.
    char* PyOS_double_to_string(double value, char format, int digits, int flags, int* kind) except NULL
    double PyOS_string_to_double(const char* text, char** end, void* overflow) except? -1

cdef enum:
    MAX_NUMBER_BYTES = 32

# The output form of each byte of a string. 1: unchanged; 0: `\` and three octal digits; else the character after `\`.
cdef uint8_t[256] PLAIN
cdef int _byte
for _byte in range(256):
    PLAIN[_byte] = 1 if 0x20 <= _byte < 0x7F else 0
for _byte in b"\"'\\":
    PLAIN[_byte] = _byte
PLAIN[10] = b"n"
PLAIN[13] = b"r"
PLAIN[9] = b"t"
# Invalid UTF-8 is decoded to these surrogates, which are replaced by octal escapes.
cdef dict OCTAL = {0xDC80 + i: f"\\{0x80 + i:03o}" for i in range(128)}


@cython.final
@cython.no_gc
cdef class TextBuffer:
    """A growing buffer of UTF-8."""
    cdef char* start
    cdef char* p
    cdef char* end

    def __dealloc__(self):
        free(self.start)

    cdef int reserve(self, size_t n) except -1:
        """Allocate memory for n more bytes."""
        cdef size_t used = <size_t>(self.p - self.start)
        cdef size_t room = <size_t>(self.end - self.start)
        cdef char* start
        if n <= room - used:
            return 0
        if n > <size_t>1 << 62:
            raise MemoryError
        room = max(2 * room, used + n, <size_t>256)
        start = <char*>realloc(self.start, room)
        if start == NULL:
            raise MemoryError
        self.start = start
        self.p = start + used
        self.end = start + room
        return 0

    cdef int put_label(self, Py_ssize_t indent, const Field* field, const char* after) except -1:
        """Append indentation, the field's name, and the two characters `after`."""
        cdef Py_ssize_t size = 0
        cdef const char* name = PyUnicode_AsUTF8AndSize((<object>field.descriptor).name, &size)
        self.reserve(<size_t>(indent + size + 2))
        memset(self.p, c" ", <size_t>indent)
        memcpy(self.p + indent, name, <size_t>size)
        memcpy(self.p + indent + size, after, 2)
        self.p += indent + size + 2
        return 0

    cdef int put_quoted(self, const uint8_t* p, uint64_t n, bint is_text) except -1:
        """Append a string or bytes value in quotes, and a newline."""
        cdef char* out
        cdef uint8_t byte
        cdef uint64_t i
        if n > <uint64_t>1 << 60:
            raise MemoryError
        self.reserve(4 * <size_t>n + 3)
        out = self.p
        out[0] = c'"'
        out += 1
        for i in range(n):
            byte = p[i]
            if PLAIN[byte] == 1 or (byte >= 0x80 and is_text):
                out[0] = <char>byte
                out += 1
            elif PLAIN[byte]:
                out[0] = c"\\"
                out[1] = <char>PLAIN[byte]
                out += 2
            else:
                out[0] = c"\\"
                out[1] = <char>(c"0" + (byte >> 6))
                out[2] = <char>(c"0" + (byte >> 3 & 7))
                out[3] = <char>(c"0" + (byte & 7))
                out += 4
        out[0] = c'"'
        out[1] = c"\n"
        self.p = out + 2
        return 0

    cdef int put_number(self, const Field* field, int64_t integer, double real) except -1:
        """Append a number and a newline: `real` for a float or double, `integer` for other types."""
        cdef int type = field.type
        cdef Py_ssize_t size = 0
        cdef const char* name
        cdef object value
        if type == ENUM:
            value = (<object>field.descriptor).enum_type.values_by_number.get(integer)
            if value is not None:
                name = PyUnicode_AsUTF8AndSize(value.name, &size)
                self.reserve(<size_t>size + 1)
                memcpy(self.p, name, <size_t>size)
                self.p += size
                self.p[0] = c"\n"
                self.p += 1
                return 0
        self.reserve(MAX_NUMBER_BYTES)
        if type == FLOAT or type == DOUBLE:
            self.p += write_real(self.p, real, type == DOUBLE)
        elif type == BOOL:
            memcpy(self.p, <const char*>b"true" if integer else <const char*>b"false", 5)
            self.p += 4 if integer else 5
        elif type == UINT64 or type == FIXED64:
            self.p += write_integer(self.p, <uint64_t>integer, False)
        else:
            self.p += write_integer(
                self.p, <uint64_t>-integer if integer < 0 else <uint64_t>integer, integer < 0
            )
        self.p[0] = c"\n"
        self.p += 1
        return 0


cdef Py_ssize_t write_integer(char* out, uint64_t magnitude, bint is_negative) noexcept:
    cdef char[MAX_NUMBER_BYTES] digits
    cdef Py_ssize_t n = MAX_NUMBER_BYTES
    while True:
        n -= 1
        digits[n] = <char>(c"0" + magnitude % 10)
        magnitude //= 10
        if magnitude == 0:
            break
    if is_negative:
        n -= 1
        digits[n] = c"-"
    memcpy(out, &digits[n], <size_t>(MAX_NUMBER_BYTES - n))
    return MAX_NUMBER_BYTES - n


cdef Py_ssize_t write_digits(char* out, double value, int digits) except -1:
    """Write a number with up to `digits` significant digits, like %g in the C locale."""
    cdef char* text = PyOS_double_to_string(value, c"g", digits, 0, NULL)
    cdef size_t n = min(strlen(text), <size_t>MAX_NUMBER_BYTES - 2)
    memcpy(out, text, n)
    out[n] = 0
    PyMem_Free(text)
    return <Py_ssize_t>n


cdef Py_ssize_t write_real(char* out, double value, bint is_double) except -1:
    """Write a double with 15 digits if these read back as the same number, else with 17; a float with 6 or 9.

    A decimal of 6 digits becomes the same float directly and by way of a double, so strtof is not needed.
    """
    cdef Py_ssize_t n
    cdef double again
    if isnan(value):
        memcpy(out, <const char*>b"nan", 3)
        return 3
    n = write_digits(out, value, 15 if is_double else 6)
    again = PyOS_string_to_double(out, NULL, NULL)
    if is_double and again != value:
        n = write_digits(out, value, 17)
    elif not is_double and <float>again != <float>value:
        n = write_digits(out, value, 9)
    return n


cdef int put_singular(TextBuffer text, const Field* field, const Slot* slot) except -1:
    """Append the number of a singular field."""
    cdef int type = field.type
    cdef int64_t integer = <int64_t>slot.n
    cdef uint32_t bits = <uint32_t>slot.n
    cdef double real = 0
    cdef float single
    if type == DOUBLE:
        memcpy(&real, &slot.n, 8)
    elif type == FLOAT:
        memcpy(&single, &bits, 4)
        real = single
    elif type == SINT64:
        integer = zigzag64(slot.n)
    elif type == SINT32:
        integer = zigzag32(slot.n)
    elif type == UINT32 or type == FIXED32:
        integer = bits
    elif field.size == 4:
        integer = <int32_t>bits
    return text.put_number(field, integer, real)


cdef int put_numbers(TextBuffer text, View self, Field* field, Py_ssize_t indent) except -1:
    """Append the numbers of a repeated field, one per line."""
    cdef RepeatedScalar sequence = get_numbers(self, field)
    cdef int type = field.type
    cdef const uint8_t* p
    cdef int64_t integer = 0
    cdef int32_t narrow
    cdef double real = 0
    cdef float single
    cdef Py_ssize_t i
    sequence.decode()
    for i in range(sequence.n):
        text.put_label(indent, field, b": ")
        p = sequence.items + i * field.size
        if type == DOUBLE:
            memcpy(&real, p, 8)
        elif type == FLOAT:
            memcpy(&single, p, 4)
            real = single
        elif field.size == 8:
            memcpy(&integer, p, 8)
        elif type == BOOL:
            integer = p[0]
        else:
            memcpy(&narrow, p, 4)
            integer = narrow
            if type == UINT32 or type == FIXED32:
                integer = <uint32_t>narrow
        text.put_number(field, integer, real)
    return 0


cdef int put_element(TextBuffer text, const Field* field, value, Py_ssize_t indent, int depth) except -1:
    """Append one message, string or bytes value."""
    cdef Py_ssize_t size = 0
    cdef char* data = NULL
    if field.type == MESSAGE:
        text.put_label(indent, field, b" {")
        text.reserve(1)
        text.p[0] = c"\n"
        text.p += 1
        put_message(text, <View>value, indent + 2, depth + 1)
        text.reserve(<size_t>indent + 2)
        memset(text.p, c" ", <size_t>indent)
        memcpy(text.p + indent, <const char*>b"}\n", 2)
        text.p += indent + 2
        return 0
    text.put_label(indent, field, b": ")
    if field.type == STRING:
        value = (<str>value).encode("utf-8", "surrogateescape")
    PyBytes_AsStringAndSize(value, &data, &size)
    return text.put_quoted(<const uint8_t*>data, <uint64_t>size, field.type == STRING)


cdef int put_message(TextBuffer text, View self, Py_ssize_t indent, int depth) except -1:
    cdef Field* field
    cdef Slot* slot
    cdef uint32_t i
    if depth > MAX_OVERLAY_DEPTH:
        from onnxwire.engine.nesting_limit import too_deep
        raise too_deep(self)
    for i in range(self.table.n_fields):
        # Writing the previous field may have run other code.
        fill(self)
        field = &self.table.fields[i]
        slot = &self.slots[i]
        if slot.p == NULL:
            continue
        if field.repeated:
            if field.size:
                put_numbers(text, self, field, indent)
                continue
            for value in field_value(self, field):
                put_element(text, field, value, indent, depth)
        elif field.type == MESSAGE:
            put_element(text, field, field_value(self, field), indent, depth)
        elif field.type == STRING or field.type == BYTES:
            if slot.n >= LONG_BYTES:
                document_of(self).check_unchanged()
                fill(self)
                slot = &self.slots[i]
            while not is_resident(slot.p, slot.n):
                # `fetch` may run other code, too.
                fetch(slot.p, slot.n)
                fill(self)
                slot = &self.slots[i]
            text.put_label(indent, field, b": ")
            text.put_quoted(slot.p, slot.n, field.type == STRING)
        else:
            text.put_label(indent, field, b": ")
            put_singular(text, field, slot)
    return 0


cdef str text_form(View message):
    """Return the text format of a message; raise DecodeError if it is damaged, or nested more than 500 deep."""
    cdef TextBuffer text = TextBuffer.__new__(TextBuffer)
    document_of(message).check_unchanged()
    put_message(text, message, 0, 0)
    try:
        return PyUnicode_DecodeUTF8(text.start, text.p - text.start, NULL)
    except UnicodeDecodeError:
        return PyUnicode_DecodeUTF8(text.start, text.p - text.start, "surrogateescape").translate(OCTAL)


make_internal(TextBuffer, b"str() of a message")
