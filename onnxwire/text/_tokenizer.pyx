# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The tokens of a text, for the parsers of the text format and JSON.

A text is read in pieces. If a token may continue after the text in memory, it is read again after `read_more`.
"""
import re

from cpython.unicode cimport (
    PyUnicode_DATA, PyUnicode_FindChar, PyUnicode_GET_LENGTH, PyUnicode_KIND, PyUnicode_Substring,
)
from libc.stdint cimport INT64_MAX

from onnxwire.engine.instances cimport forbid_subclasses, forbid_instantiation
from onnxwire.engine.table cimport ENUM

from onnxwire.engine.descriptor import INTEGER_RANGES
from onnxwire.errors import DecodeError
from onnxwire.text.text_source import pieces_of, quote_token

cdef extern from "Python.h":
    bint is_space "Py_UNICODE_ISSPACE"(int c)
    int PyUnicode_READ "(int)PyUnicode_READ"(int kind, const void* data, Py_ssize_t i)
    double PyOS_string_to_double(const char* text, char** end, void* overflow) except? -1

cdef enum:
    LETTER = 1           # [a-zA-Z_]
    DIGIT_OR_SIGN = 2    # [0-9+-]
    DOT = 4
    MAX_DIGITS = 18      # every number of up to 18 digits fits int64_t
    MAX_REAL_CHARS = 40  # longer numbers are converted by `Entry.convert`

# The states of `parse_real`: the kind of the last character. SIGN: there is no digit yet. ZERO: a leading zero, which
# no digit may follow.
cdef enum:
    SIGN, ZERO, DIGITS, POINT, DECIMALS, EXPONENT, EXPONENT_SIGN, EXPONENT_DIGITS
# The state after a digit that is not a leading zero, by the state before the digit.
cdef int[8] NEXT_STATE = [
    DIGITS, ZERO, DIGITS, DECIMALS, DECIMALS, EXPONENT_DIGITS, EXPONENT_DIGITS, EXPONENT_DIGITS,
]

cdef char[128] CHARACTER_CLASSES
for _i in range(128):
    if chr(_i).isalpha() or _i == c"_":
        CHARACTER_CLASSES[_i] = LETTER
    else:
        CHARACTER_CLASSES[_i] = DIGIT_OR_SIGN if chr(_i).isdigit() or chr(_i) in "+-" else 0
CHARACTER_CLASSES[c"."] = DOT
# Names of JSON tokens in error messages.
_JSON_TOKEN_NAMES = {ord('"'): "a string", ord("{"): "an object", ord("["): "an array", 0xFEFF: "a byte order mark"}
# The official parser decodes text twice: the result of `\u0032` and the text before it are decoded again, so that
# `\1\u0032` is `\12`. Texts with such escapes are not divided. (`\U00` also begins escapes of other characters.)
_ASCII_ESCAPE = re.compile(r"\\[uU]00")
_LOW_SURROGATE = re.compile(r"\\u[dD][c-fC-F]")  # the start of the second escape of a surrogate pair


cdef class Tokenizer:
    def __cinit__(self, text, converter_of, bint ignore_unknown, bint is_json):
        self.converter_of = converter_of
        self.source, self.later_pieces = pieces_of(text)
        self.buf = ""
        self.is_json = is_json
        self.ignore_unknown = ignore_unknown
        self.tables = {}
        self.path = []
        self.read_more()

    cdef int read_more(self) except -1:
        """Drop the text before `pos`, and append the next pieces of the text."""
        cdef list pieces = [PyUnicode_Substring(self.buf, self.pos, self.n)]
        # The text in memory is doubled, so that a token of any length takes linear time.
        cdef Py_ssize_t n_to_read = max(self.n - self.pos, 1)
        cdef Py_ssize_t n_lines = self.buf.count("\n", 0, self.pos)
        self.line += n_lines
        self.column = self.pos - 1 - self.buf.rfind("\n", 0, self.pos) if n_lines else self.column + self.pos
        decode_error = None
        while n_to_read > 0 and not self.is_last:
            try:
                piece = next(self.later_pieces, None)
            except UnicodeDecodeError as error:
                decode_error = error
                piece = error.object[: error.start].decode(error.encoding, "replace")
                self.is_last = True
            if piece is None:
                self.is_last = True
                break
            pieces.append(piece)
            n_to_read -= len(piece)
        self.buf = "".join(pieces)
        self.kind = PyUnicode_KIND(self.buf)
        self.data = PyUnicode_DATA(self.buf)
        self.n = PyUnicode_GET_LENGTH(self.buf)
        self.pos = 0
        if decode_error is not None:
            self.pos = self.n
            self.path.clear()
            byte = decode_error.object[decode_error.start]
            raise self.error(f"the byte 0x{byte:02x} is not valid {decode_error.encoding} here ({decode_error.reason})")
        return 0

    # --- Tokens.

    cdef int peek(self) except -2:
        """Skip white space and, except in JSON, comments; return the next character, or END."""
        cdef int c
        cdef bint in_comment = False
        while True:
            while self.pos < self.n:
                c = PyUnicode_READ(self.kind, self.data, self.pos)
                if in_comment:
                    in_comment = c != c"\n"
                elif c > c" " and c < 0x7F and c != c"#":
                    return c
                elif c == c" " or c == c"\n" or c == c"\t" or c == c"\r":
                    pass
                elif not self.is_json and c == c"#":
                    in_comment = True
                elif self.is_json or not is_space(c):
                    return c
                self.pos += 1
            if self.is_last:
                return END
            self.read_more()

    cdef bint is_at(self, int character) noexcept:
        """Return whether the next character in memory is `character`."""
        return self.pos < self.n and PyUnicode_READ(self.kind, self.data, self.pos) == character

    cdef Py_ssize_t find_word_end(self) except -1:
        """Return the index after the name or number at the position, or after one character of any other token.

        Names contain no dot, and numbers may begin with a dot before a digit.
        """
        cdef Py_ssize_t i
        cdef int c
        cdef int allowed
        while True:
            i = self.pos
            allowed = 0
            while i < self.n:
                c = PyUnicode_READ(self.kind, self.data, i)
                if c >= 128 or not CHARACTER_CLASSES[c]:
                    break
                if i == self.pos:
                    allowed = LETTER | DIGIT_OR_SIGN | (0 if CHARACTER_CLASSES[c] == LETTER else DOT)
                elif i == self.pos + 1 and self.is_at(c".") and not c"0" <= c <= c"9":
                    break
                elif not CHARACTER_CLASSES[c] & allowed:
                    break
                i += 1
            if i < self.n or self.is_last:
                return i if i > self.pos else min(i + 1, self.n)
            self.read_more()

    cdef str word(self):
        """Return the name or number at the position, or one character of any other token; "" at the end of the text."""
        cdef Py_ssize_t end = self.find_word_end()
        return PyUnicode_Substring(self.buf, self.pos, end)

    cdef str describe_next(self):
        """Describe the next token for an error message."""
        cdef int c = self.peek()
        return (_JSON_TOKEN_NAMES.get(c) if self.is_json else None) or quote_token(self.word())

    cdef bint parse_integer(self, Py_ssize_t start, Py_ssize_t end, Entry entry, int64_t* value) noexcept:
        """Parse a plain decimal integer of a field.

        Returns False for fields of other types, for other notations, and for integers that are long or out of range:
        the caller then parses the value.
        """
        cdef bint is_negative
        cdef int64_t number = 0
        cdef int c
        if entry.minimum > entry.maximum or start >= end:
            return False
        is_negative = PyUnicode_READ(self.kind, self.data, start) == c"-"
        start += is_negative
        if not 0 < end - start <= MAX_DIGITS:
            return False
        if end - start > 1 and PyUnicode_READ(self.kind, self.data, start) == c"0":
            return False
        while start < end:
            c = PyUnicode_READ(self.kind, self.data, start)
            if not c"0" <= c <= c"9":
                return False
            number = number * 10 + (c - c"0")
            start += 1
        value[0] = -number if is_negative else number
        return entry.minimum <= value[0] <= entry.maximum

    cdef bint parse_real(self, Py_ssize_t end, double* value) except -1:
        """Parse the number from the position to `end` if it is a decimal as programs print it, such as -1.5e-07.

        Returns False for other notations, which may be valid, for numbers of more than MAX_REAL_CHARS
        characters, and in JSON for integers.
        """
        cdef char[MAX_REAL_CHARS + 1] text
        cdef Py_ssize_t i, n = end - self.pos
        cdef int c, state = SIGN
        if n > MAX_REAL_CHARS:
            return False
        for i in range(n):
            c = PyUnicode_READ(self.kind, self.data, self.pos + i)
            if c"0" <= c <= c"9":
                if state == ZERO:
                    return False
                state = NEXT_STATE[state] if c != c"0" or state != SIGN else ZERO
            elif c == c"-" and i == 0:
                pass
            elif c == c"." and (state == ZERO or state == DIGITS):
                state = POINT
            elif (c == c"e" or c == c"E") and (state == ZERO or state == DIGITS or state == DECIMALS):
                state = EXPONENT
            elif (c == c"-" or c == c"+") and state == EXPONENT:
                state = EXPONENT_SIGN
            else:
                return False
            text[i] = <char>c
        if state == DECIMALS or state == EXPONENT_DIGITS or (not self.is_json and (state == ZERO or state == DIGITS)):
            text[n] = 0
            value[0] = PyOS_string_to_double(text, NULL, NULL)
            return True
        return False

    cdef bint has_next(self, int closer, Entry entry=None, Py_ssize_t n_pending=NO_INDEX) except -1:
        """Skip the comma or closing bracket after an element; returns whether it was a comma."""
        cdef int c = self.peek()
        if c != c"," and c != closer:
            raise self.error(f"expected ',' or {chr(closer)!r}, found {self.describe_next()}", entry, n_pending)
        self.pos += 1
        return c == c","

    # --- Strings.

    cdef Py_ssize_t find_closing_quote(self, Py_ssize_t start, Py_UCS4 quote) except -1:
        """Return the index of the quote that ends a string literal, or `n`."""
        cdef Py_ssize_t end, slash
        while True:
            end = PyUnicode_FindChar(self.buf, quote, start, self.n, 1)
            if end < 0:
                return self.n
            slash = self.find_run_start(start, end)
            if (end - slash) % 2 == 0:
                return end
            start = end + 1

    cdef Py_ssize_t find_run_start(self, Py_ssize_t start, Py_ssize_t end) noexcept:
        """Return the start of the run of backslashes that ends at `end`."""
        while end > start and PyUnicode_READ(self.kind, self.data, end - 1) == c"\\":
            end -= 1
        return end

    def pieces(self, int quote, Entry entry or None, Py_ssize_t n_pending):
        """Yield the string literal at the position in parts that decode independently, and skip it.

        A literal that is longer than the text in memory is yielded part by part, as it is read.
        """
        cdef Py_ssize_t n_skipped = 1, start, end
        cdef str position = None
        cdef bint is_incomplete
        while True:
            start = self.pos + n_skipped
            end = self.find_closing_quote(start, <Py_UCS4>quote)
            is_incomplete = end == self.n and not self.is_last
            if end == self.n and not is_incomplete:
                raise self.unclosed_error(quote, entry, n_pending, position)
            if is_incomplete:
                position = position or self.position()
                end = self.find_cut(start)
            if end > start or not is_incomplete:
                yield self.buf[start:end]
                self.pos = end if is_incomplete else end + 1
                n_skipped = 0
            if not is_incomplete:
                return
            self.read_more()

    cdef Py_ssize_t find_cut(self, Py_ssize_t start) except -1:
        """Return an index at which the literal that begins at `start` can be cut, or `start`.

        The index is not inside an escape or a surrogate pair of two escapes. At least 12 characters follow, so that an
        escape at the index is complete.
        """
        cdef str buf = self.buf
        cdef Py_ssize_t cut = self.n - 12, slash, run
        if not self.is_json and _ASCII_ESCAPE.search(buf, start):
            return start
        while cut > start:
            slash = buf.rfind("\\", start, cut)
            if slash < 0 or cut - slash > 256:  # longer than any escape
                return cut
            run = self.find_run_start(start, slash)
            if run > start and not _LOW_SURROGATE.match(buf, run):
                return run
            if slash - run > 1:  # pairs, which are escaped backslashes
                return run + (slash - run) // 2 * 2
            cut = run
        return start

    cdef object unclosed_error(self, int quote, Entry entry, Py_ssize_t n_pending, str position=None):
        """Make the error for a string literal without an end."""
        on_line = "" if self.is_json else " on its line"
        return self.error(f"the string is not closed by {chr(quote)}{on_line}", entry, n_pending, position)

    # --- Messages.

    cdef dict table_of(self, message_type):
        """Return the entries of a message's fields by name, in JSON also by JSON name."""
        cdef dict table = self.tables.get(message_type)
        cdef Entry entry
        if table is not None:
            return table
        table = self.tables[message_type] = {}
        for field in message_type.fields:
            entry = Entry.__new__(Entry)
            entry.name = field.name
            entry.field = field
            entry.type = field.type
            entry.is_repeated = field.is_repeated
            entry.oneof = field.containing_oneof.name if field.containing_oneof else None
            entry.convert = self.converter_of(field)
            entry.maximum = -1
            if entry.type in INTEGER_RANGES and entry.type != ENUM:
                _, minimum, maximum = INTEGER_RANGES[entry.type]
                entry.minimum, entry.maximum = minimum, min(maximum, INT64_MAX)
            table[entry.name] = entry
        if self.is_json:
            table.update([(field.json_name, table[field.name]) for field in message_type.fields])
        return table

    cdef object enter(self, message, Entry entry):
        """Create the message that is a value of a field, and make it the current message until `leave`."""
        if entry.is_repeated:
            message = getattr(message, entry.name).add()
        else:
            message = getattr(message, entry.name)
            message.SetInParent()
        if entry.table is None:
            entry.table = self.table_of(entry.field.message_type)
        self.path.append(entry)
        self.path.append(message)
        return message

    cdef int leave(self) except -1:
        """Make the parent of the current message the current message."""
        self.path.pop()
        self.path.pop()
        return 0

    # --- Errors.

    cdef str position(self):
        """Return line and column of the position."""
        cdef Py_ssize_t n_lines = self.buf.count("\n", 0, self.pos)
        cdef Py_ssize_t column = self.column + self.pos + 1
        if n_lines:
            column = self.pos - self.buf.rfind("\n", 0, self.pos)
        return f"line {self.line + n_lines + 1:,}, column {column:,}"

    cdef object error(self, str reason, Entry entry=None, Py_ssize_t n_pending=NO_INDEX, str position=None):
        """Make an error in the current message, by default at the position.

        entry: the field of the message that has the fault. n_pending: number of values of a repeated field that were
        read before the fault and are not yet in the message; NO_INDEX if the fault concerns the whole field. position:
        another line and column to report, as `position` returns them.
        """
        cdef list names = []
        cdef Entry path_entry
        cdef Py_ssize_t i
        for i in range(1, len(self.path), 2):
            path_entry = self.path[i]
            n = len(getattr(self.path[i - 1], path_entry.name)) if path_entry.is_repeated else 0
            names.append(f"{path_entry.name}[{n - 1}]" if path_entry.is_repeated else path_entry.name)
        if entry is not None:
            n = len(getattr(self.path[len(self.path) - 1], entry.name)) if entry.is_repeated else 0
            has_index = entry.is_repeated and n_pending != NO_INDEX
            names.append(f"{entry.name}[{n + n_pending}]" if has_index else entry.name)
        return DecodeError(f"{position or self.position()}: {reason}", path=".".join(names), source=self.source)


forbid_instantiation(Entry, b"the parsers of texts")
forbid_subclasses(Tokenizer)
