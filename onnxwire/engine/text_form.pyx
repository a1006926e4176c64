# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Messages in protobuf's text format: `str(message)` in one piece; `to_text` (`text/`) in pieces and other styles."""
cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.mem cimport PyMem_Free
from cpython.unicode cimport PyUnicode_DecodeUTF8
from cython cimport critical_section
from libc.math cimport fabs, isnan
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset, strlen

from onnxwire._nesting_limits cimport MAX_DEPTH, MAX_OVERLAY_DEPTH
from onnxwire._varint cimport zigzag32, zigzag64
from onnxwire.engine.instances cimport forbid_instantiation
from onnxwire.engine.memory cimport free, realloc
from onnxwire.engine.numbers cimport RepeatedScalar, get_numbers
from onnxwire.engine.partial cimport LONG_BYTES, fetch, is_resident
from onnxwire.engine.payload cimport Payload
from onnxwire.engine.table cimport (
    BOOL, BYTES, DOUBLE, ENUM, FIXED32, FIXED64, FLOAT, MESSAGE, SINT32, SINT64, STRING, UINT32, UINT64, Field, Slot,
)
from onnxwire.engine.texts cimport character_bytes
from onnxwire.engine.view cimport View, document_of, field_value, fill, is_long
from onnxwire.errors import count_text

cdef extern from "Python.h":
    const char* PyUnicode_AsUTF8AndSize(object text, Py_ssize_t* size) except NULL
    int PyBytes_AsStringAndSize(object data, char** p, Py_ssize_t* size) except -1
    # Equivalents of snprintf's %g and of strtod in the C locale; the C functions depend on LC_NUMERIC.
    char* PyOS_double_to_string(double value, char format, int digits, int flags, int* kind) except NULL
    double PyOS_string_to_double(const char* text, char** end, void* overflow) except? -1
    enum:
        Py_DTSF_ADD_DOT_0    # write 1.0 instead of 1

cdef enum:
    MAX_NUMBER_BYTES = 32      # upper bound of the text of a number with a byte after it
    MIN_FLUSH_BYTES = 1 << 16  # minimum size of the pieces in which text is passed on
    # If `write` is not None: the maximum size of a singular string or bytes value that is printed at once. Each value
    # of a repeated field is printed at once if the message has fewer bytes.
    MAX_VALUE_BYTES = 1 << 16
    PIECE_BYTES = 3 << 14      # size of the pieces of longer values
    NUMBERS_PER_BATCH = 4096   # numbers that are printed between two checks of the buffer's size

# The text form of floats and doubles.
cdef enum NumberStyle:
    RUNTIME_NUMBERS   # as protobuf's C runtime: 1, 1e+06; floats with 6 or 9 digits, doubles with 15 or 17
    PROTOC_NUMBERS    # as RUNTIME_NUMBERS, but subnormal floats have 9 digits: protoc's strtof reports an underflow
    PYTHON_NUMBERS    # as Python prints them: 1.0, 1000000.0; floats are first rounded to 6 to 9 digits

cdef double MIN_NORMAL_FLOAT = 2.0 ** -126

# The output form of each byte of a string, except non-ASCII characters that are not escaped. 1: unchanged; 0: `\` and
# three octal digits; else the character after `\`.
cdef uint8_t[256] ESCAPES
cdef int _byte
for _byte in range(256):
    ESCAPES[_byte] = 1 if 0x20 <= _byte < 0x7F else 0
for _byte in b"\"'\\":
    ESCAPES[_byte] = _byte
ESCAPES[10] = b"n"
ESCAPES[13] = b"r"
ESCAPES[9] = b"t"


@cython.final
@cython.no_gc
cdef class TextBuffer:
    """A growing buffer of UTF-8, the style of the text, and the function that receives the text."""
    cdef char* start
    cdef char* p
    cdef char* end
    cdef object write            # called with pieces of the text; None to collect all of it
    cdef object summary          # maps a message to (names of fields to omit, comment) or None; None for no omissions
    cdef object unknown_fields   # yields the unknown fields of a message as lines or (label, buffer); None to omit them
    cdef NumberStyle number_style
    cdef bint is_ascii           # escape characters that are not ASCII
    cdef int max_depth
    cdef Py_ssize_t max_bytes    # maximum bytes of a string or bytes value, and numbers of a field; -1: no limit

    def __dealloc__(self):
        free(self.start)

    cdef int reserve(self, size_t n) except -1:
        """Allocate memory for n more bytes."""
        cdef size_t used = <size_t>(self.p - self.start)
        cdef size_t capacity = <size_t>(self.end - self.start)
        cdef char* start
        if n <= capacity - used:
            return 0
        if n > <size_t>1 << 62:
            raise MemoryError
        capacity = max(2 * capacity, used + n, <size_t>256)
        start = <char*>realloc(self.start, capacity)
        if start == NULL:
            raise MemoryError
        self.start = start
        self.p = start + used
        self.end = start + capacity
        return 0

    cdef int flush(self) except -1:
        """Pass the text to `write`; other code may run."""
        cdef Py_ssize_t n = self.p - self.start
        if n:
            self.p = self.start
            self.write(PyUnicode_DecodeUTF8(self.start, n, NULL))
        return 0

    cdef int flush_if_long(self) except -1:
        """Pass the text to `write` if it has MIN_FLUSH_BYTES; other code may run."""
        if self.write is not None and self.p - self.start >= MIN_FLUSH_BYTES:
            self.flush()
        return 0

    cdef int put_str(self, text) except -1:
        """Append a str without surrogates."""
        cdef Py_ssize_t size = 0
        cdef const char* data = PyUnicode_AsUTF8AndSize(text, &size)
        self.reserve(<size_t>size)
        memcpy(self.p, data, <size_t>size)
        self.p += size
        return 0

    cdef int put_byte(self, char byte) except -1:
        self.reserve(1)
        self.p[0] = byte
        self.p += 1
        return 0

    cdef int put_spaces(self, Py_ssize_t n) except -1:
        self.reserve(<size_t>n)
        memset(self.p, c" ", <size_t>n)
        self.p += n
        return 0

    cdef int put_label(self, Py_ssize_t indent, const Field* field, const char* separator) except -1:
        """Append indentation, the field's name, and the two characters `separator`."""
        cdef Py_ssize_t size = 0
        cdef const char* name = PyUnicode_AsUTF8AndSize((<object>field.descriptor).name, &size)
        self.reserve(<size_t>(indent + size + 2))
        memset(self.p, c" ", <size_t>indent)
        memcpy(self.p + indent, name, <size_t>size)
        memcpy(self.p + indent + size, separator, 2)
        self.p += indent + size + 2
        return 0

    cdef int put_escaped(self, const uint8_t** start, const uint8_t* end, bint is_text, bint is_last) except -1:
        """Append the bytes from start[0] to `end` of a string or bytes value, and move start[0] past them.

        Bytes of a string that are not valid UTF-8 are escaped. is_last: whether the value ends at `end`; otherwise a
        character that may continue after `end` is left for the next piece.
        """
        cdef const uint8_t* p = start[0]
        cdef char* out
        cdef uint8_t byte
        cdef int n
        if end - p > <Py_ssize_t>1 << 60:
            raise MemoryError
        self.reserve(4 * <size_t>(end - p))
        is_text = is_text and not self.is_ascii
        out = self.p
        while p < end:
            byte = p[0]
            if byte >= 0x80 and is_text:
                if byte >= 0xC0 and end - p < 4 and not is_last:
                    break
                n = character_bytes(p, end)
                if n:
                    memcpy(out, p, <size_t>n)
                    out += n
                    p += n
                    continue
            if ESCAPES[byte] == 1:
                out[0] = <char>byte
                out += 1
            elif ESCAPES[byte]:
                out[0] = c"\\"
                out[1] = <char>ESCAPES[byte]
                out += 2
            else:
                out[0] = c"\\"
                out[1] = <char>(c"0" + (byte >> 6))
                out[2] = <char>(c"0" + (byte >> 3 & 7))
                out[3] = <char>(c"0" + (byte & 7))
                out += 4
            p += 1
        self.p = out
        start[0] = p
        return 0

    cdef bint is_omitted(self, uint64_t n) noexcept:
        """Return whether a value of n bytes or numbers is too long, so that a note replaces it."""
        return self.max_bytes >= 0 and n > <uint64_t>self.max_bytes

    cdef int put_note(self, n, str noun) except -1:
        """Append a note in place of a value; parsers reject it."""
        return self.put_str(f"... # {count_text(n, noun)}\n")

    cdef int put_quoted(self, const uint8_t* p, uint64_t n, bint is_text) except -1:
        """Append a string or bytes value in quotes, or a note in its place, and a newline."""
        if self.is_omitted(n):
            return self.put_note(n, "byte")
        self.put_byte(c'"')
        self.put_escaped(&p, p + n, is_text, True)
        self.reserve(2)
        memcpy(self.p, <const char*>b'"\n', 2)
        self.p += 2
        return 0

    cdef int put_payload(self, payload, bint is_text) except -1:
        """Append a value as `put_quoted` does; payload: a buffer, which is read in pieces. Other code may run."""
        cdef Py_buffer buffer
        cdef const uint8_t* p
        cdef const uint8_t* end
        cdef uint64_t size = len(payload)
        cdef uint64_t n_written = 0
        if self.is_omitted(size):
            return self.put_note(size, "byte")
        self.put_byte(c'"')
        while n_written < size:
            # The buffer is released before the text is passed on, so that the caller can close the document.
            PyObject_GetBuffer(payload, &buffer, PyBUF_SIMPLE)
            try:
                p = <const uint8_t*>buffer.buf + n_written
                end = p + min(size - n_written, <uint64_t>PIECE_BYTES)
                self.put_escaped(&p, end, is_text, n_written + PIECE_BYTES >= size)
                n_written = <uint64_t>(p - <const uint8_t*>buffer.buf)
            finally:
                PyBuffer_Release(&buffer)
            self.flush_if_long()
        return self.put_str('"\n')

    cdef int put_number(self, const Field* field, int64_t integer, double float_number) except -1:
        """Append a number and a newline: `float_number` for a float or double, `integer` for other types."""
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
            self.p += write_real(self.p, float_number, type == DOUBLE, self.number_style)
        elif type == BOOL:
            # Both sources have five bytes, because `true` ends with a NUL.
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
    """Write a decimal integer; return its length."""
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


cdef Py_ssize_t write_digits(char* out, double value, char format, int digits, int flags) except -1:
    """Write a number.

    format: "g" for up to `digits` significant digits, as %g in the C locale; "r" for the digits of repr.
    Returns the length of the text.
    """
    cdef char* text = PyOS_double_to_string(value, format, digits, flags, NULL)
    cdef size_t n = min(strlen(text), <size_t>MAX_NUMBER_BYTES - 2)
    memcpy(out, text, n)
    out[n] = 0
    PyMem_Free(text)
    return <Py_ssize_t>n


cdef Py_ssize_t write_real(char* out, double value, bint is_double, NumberStyle style) except -1:
    """Write a float or double with enough digits to be read as the same number; return the length of the text.

    A decimal of 6 to 9 digits is read as the same float directly and through a double, so strtof is not needed.
    """
    cdef Py_ssize_t n
    cdef double parsed_value
    cdef int digits
    if isnan(value):
        memcpy(out, <const char*>b"nan", 3)
        return 3
    if style == PYTHON_NUMBERS:
        parsed_value = value
        for digits in range(6, 6 if is_double else 10):
            write_digits(out, value, c"g", digits, 0)
            parsed_value = PyOS_string_to_double(out, NULL, NULL)
            if <float>parsed_value == <float>value:
                break
        return write_digits(out, parsed_value, c"r", 0, Py_DTSF_ADD_DOT_0)
    if style == PROTOC_NUMBERS and not is_double and value != 0 and fabs(value) < MIN_NORMAL_FLOAT:
        return write_digits(out, value, c"g", 9, 0)
    n = write_digits(out, value, c"g", 15 if is_double else 6, 0)
    parsed_value = PyOS_string_to_double(out, NULL, NULL)
    if is_double and parsed_value != value:
        n = write_digits(out, value, c"g", 17, 0)
    elif not is_double and <float>parsed_value != <float>value:
        n = write_digits(out, value, c"g", 9, 0)
    return n


cdef int put_singular(TextBuffer text, const Field* field, const Slot* slot) except -1:
    """Append the value of a singular field of numbers, bools or enum values."""
    cdef int type = field.type
    cdef int64_t integer = <int64_t>slot.n
    cdef uint32_t bits = <uint32_t>slot.n
    cdef double float_number = 0
    cdef float float_value
    if type == DOUBLE:
        memcpy(&float_number, &slot.n, 8)
    elif type == FLOAT:
        memcpy(&float_value, &bits, 4)
        float_number = float_value
    elif type == SINT64:
        integer = zigzag64(slot.n)
    elif type == SINT32:
        integer = zigzag32(slot.n)
    elif type == UINT32 or type == FIXED32:
        integer = bits
    elif field.size == 4:
        integer = <int32_t>bits
    return text.put_number(field, integer, float_number)


cdef int put_numbers(TextBuffer text, View self, Field* field, Py_ssize_t indent) except -1:
    """Append the numbers of a repeated field, one per line, or a note in their place. Other code may run."""
    cdef RepeatedScalar sequence = get_numbers(self, field)
    cdef int type = field.type
    cdef const uint8_t* p
    cdef int64_t integer = 0
    cdef int32_t bits32
    cdef double float_number = 0
    cdef float float_value
    cdef Py_ssize_t i = 0
    if text.max_bytes >= 0 and text.is_omitted(len(sequence)):
        text.put_label(indent, field, b": ")
        return text.put_note(len(sequence), "value")
    sequence.decode()
    while i < sequence.n:
        text.put_label(indent, field, b": ")
        p = sequence.items + i * field.size
        if type == DOUBLE:
            memcpy(&float_number, p, 8)
        elif type == FLOAT:
            memcpy(&float_value, p, 4)
            float_number = float_value
        elif field.size == 8:
            memcpy(&integer, p, 8)
        elif type == BOOL:
            integer = p[0]
        else:
            memcpy(&bits32, p, 4)
            integer = bits32
            if type == UINT32 or type == FIXED32:
                integer = <uint32_t>bits32
        text.put_number(field, integer, float_number)
        i += 1
        if i % NUMBERS_PER_BATCH == 0:
            text.flush_if_long()
            # The numbers may have been edited or moved, or the document closed.
            fill(self)
            sequence.decode()
    return 0


cdef int put_element(TextBuffer text, const Field* field, value, Py_ssize_t indent, int depth) except -1:
    """Append one message, string or bytes value; strings and bytes may be buffers."""
    cdef Py_ssize_t size = 0
    cdef char* data = NULL
    if field.type == MESSAGE:
        text.put_label(indent, field, b" {")
        text.put_byte(c"\n")
        put_message(text, <View>value, indent + 2, depth + 1)
        text.put_spaces(indent)
        text.reserve(2)
        memcpy(text.p, <const char*>b"}\n", 2)
        text.p += 2
        return 0
    text.put_label(indent, field, b": ")
    if isinstance(value, Payload):
        return text.put_payload(value, field.type == STRING)
    if field.type == STRING:
        value = (<str>value).encode("utf-8", "surrogateescape")
    PyBytes_AsStringAndSize(value, &data, &size)
    return text.put_quoted(<const uint8_t*>data, <uint64_t>size, field.type == STRING)


cdef int put_repeated(TextBuffer text, View self, Field* field, Py_ssize_t indent, int depth) except -1:
    """Append the elements of a repeated field of messages, strings or bytes."""
    values = field_value(self, field)
    if field.type != MESSAGE and text.write is not None and is_long(self, MAX_VALUE_BYTES):
        values = values._payloads()
    for value in values:
        put_element(text, field, value, indent, depth)
        text.flush_if_long()
    return 0


cdef int put_text(TextBuffer text, View self, Field* field, Py_ssize_t indent) except -1:
    """Append the value of a singular string or bytes field."""
    cdef Slot* slot = &self.slots[field.slot]
    if text.is_omitted(slot.n):
        text.put_label(indent, field, b": ")
        return text.put_note(slot.n, "byte")
    if slot.n > MAX_VALUE_BYTES and text.write is not None:
        payload = self._payload((<object>field.descriptor).name)
        text.put_label(indent, field, b": ")
        return text.put_payload(payload, field.type == STRING)
    if slot.n >= LONG_BYTES:
        document_of(self).check_unchanged()
        fill(self)
        slot = &self.slots[field.slot]
    while not is_resident(slot.p, slot.n):
        # `fetch` may run other code, too.
        fetch(slot.p, slot.n)
        fill(self)
        slot = &self.slots[field.slot]
    text.put_label(indent, field, b": ")
    return text.put_quoted(slot.p, slot.n, field.type == STRING)


cdef int put_unknown_fields(TextBuffer text, View self, Py_ssize_t indent) except -1:
    """Append the unknown fields of a message. Other code may run."""
    for piece in text.unknown_fields(self, " " * indent):
        if isinstance(piece, str):
            text.put_str(piece)
        else:
            label, payload = piece
            text.put_str(label)
            text.put_payload(payload, False)
        text.flush_if_long()
    return 0


cdef int put_message(TextBuffer text, View self, Py_ssize_t indent, int depth) except -1:
    """Append the fields of a message; indent: in spaces; depth: the number of messages around it."""
    cdef Field* field
    cdef Slot* slot
    cdef uint32_t i
    cdef object omitted_names = ()
    cdef object comment = None
    if depth > text.max_depth:
        from onnxwire.engine.nesting_limit import depth_error
        raise depth_error(self)
    if text.summary is not None:
        omitted_names, comment = text.summary(self) or ((), None)
    for i in range(self.table.n_fields):
        text.flush_if_long()
        # Writing the previous field may have run other code.
        fill(self)
        field = &self.table.fields[i]
        slot = &self.slots[i]
        if slot.p == NULL or (omitted_names and (<object>field.descriptor).name in omitted_names):
            continue
        if field.repeated and field.size:
            put_numbers(text, self, field, indent)
        elif field.repeated:
            put_repeated(text, self, field, indent, depth)
        elif field.type == MESSAGE:
            put_element(text, field, field_value(self, field), indent, depth)
        elif field.type == STRING or field.type == BYTES:
            put_text(text, self, field, indent)
        else:
            text.put_label(indent, field, b": ")
            put_singular(text, field, slot)
    if comment:
        text.put_spaces(indent)
        text.put_str(f"# {comment}\n")
    if text.unknown_fields is not None:
        put_unknown_fields(text, self, indent)
    return 0


cdef str text_form(View message):
    """Return the text format of a message.

    Raises DecodeError if it is damaged, or nested more than MAX_OVERLAY_DEPTH deep, and SourceError if its file was
    changed.
    """
    cdef TextBuffer text = TextBuffer.__new__(TextBuffer)
    text.max_bytes = -1
    text.max_depth = MAX_OVERLAY_DEPTH
    document_of(message).check_unchanged()
    put_message(text, message, 0, 0)
    return PyUnicode_DecodeUTF8(text.start, text.p - text.start, NULL)


@critical_section
def write_text(View message, write, bint as_protoc, max_bytes, summary, unknown_fields):
    """Pass the text format of a message to `write`, in pieces of 64 KiB or more (the last may be shorter), as `to_text`
    documents.

    summary: called with a message; returns the names of its fields to omit and a comment, or None. unknown_fields:
    called with a message and its indentation; yields the lines of its unknown fields, or a label and a buffer. None to
    omit them. Raises DecodeError if the message is damaged or nested more than MAX_DEPTH deep, and SourceError if
    a value can't be read from its file; the text up to that point is passed on.
    """
    cdef TextBuffer text = TextBuffer.__new__(TextBuffer)
    text.write = write
    text.number_style = PROTOC_NUMBERS if as_protoc else PYTHON_NUMBERS
    text.is_ascii = as_protoc
    text.max_bytes = -1 if max_bytes is None else min(max_bytes, <Py_ssize_t>1 << 60)
    text.max_depth = MAX_DEPTH
    text.summary = summary
    text.unknown_fields = unknown_fields
    try:
        put_message(text, message, 0, 0)
    finally:
        text.flush()


forbid_instantiation(TextBuffer, b"str() of a message")
