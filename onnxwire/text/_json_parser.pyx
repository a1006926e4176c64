# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The parser of protobuf's JSON format."""
import io
from binascii import a2b_base64
from json import JSONDecodeError, JSONDecoder
from json.decoder import scanstring

cimport cython
from cpython.unicode cimport PyUnicode_FindChar, PyUnicode_Substring
from libc.math cimport fabs
from libc.stdint cimport int64_t

from onnxwire._nesting_limits cimport MAX_DEPTH
from onnxwire.engine.table cimport BYTES, DOUBLE, FLOAT, MESSAGE, STRING
from onnxwire.text._tokenizer cimport END, NO_INDEX, Entry, Tokenizer

from onnxwire.errors import DecodeError
from onnxwire.text import text_source
from onnxwire.text.json_values import LONE_SURROGATE_REASON, FROM_URL_SAFE, converter_of, decode_base64
from onnxwire.text.number_ranges import UnknownNameError
from onnxwire.text.printed_fields import BATCH_NUMBERS
from onnxwire.text.text_source import quote_token, unknown_field_reason

cdef Py_ssize_t MAX_PENDING = BATCH_NUMBERS  # values that are collected before they are added to a repeated field
cdef Py_ssize_t MAX_KEY_CHARS = 1 << 16  # a longer key is treated as unknown if its end is not in memory
cdef double FLOAT_MAX = float.fromhex("0x1.fffffep+127")  # the largest finite float of 32 bits
_scan = JSONDecoder().scan_once  # returns the value at an index of a str, and its end


@cython.final
@cython.internal
cdef class JsonParser(Tokenizer):
    """The parser of one JSON text.

    The parameters entry and n_pending of the methods are those of `Tokenizer.error`: the field that an error names, and
    how many elements of the field were read but are not in the message yet, or NO_INDEX.
    """

    cdef int read_message(self, message, dict table) except -1:
        """Read an object. table: the entries of the message's fields, by name.

        The local dict `seen` maps the name of each field that occurred to its key, and the name of each oneof to the
        key of the member that is set.
        """
        cdef dict seen = {}
        cdef Entry entry
        cdef str key
        cdef Py_ssize_t end = 0
        cdef int c = self.peek()
        if len(self.path) // 2 >= MAX_DEPTH:
            raise self.error(f"messages nested {MAX_DEPTH} deep or more, which protobuf readers of JSON reject")
        if c != c"{":
            return self.read_empty(c)
        self.pos += 1
        if self.peek() == c"}":
            self.pos += 1
            return 0
        while True:
            if self.peek() != c'"':
                raise self.error(f"expected a field's name in double quotes, found {self.describe_next()}")
            key = self.read_key(table, &end)
            entry = table.get(key) if end >= 0 else None
            if entry is None:
                if not self.ignore_unknown:
                    raise self.error(unknown_field_reason(message.DESCRIPTOR, key, table))
                self.skip_key(end)
                self.skip_value()
            else:
                if entry.name in seen:
                    first_spelling = f", first as {quote_token(seen[entry.name])}" if seen[entry.name] != key else ""
                    raise self.error(f"the key {quote_token(key)} occurs a second time{first_spelling}", entry)
                seen[entry.name] = key
                self.skip_key(end, entry)
                if self.is_null():
                    self.pos += 4
                else:
                    if entry.oneof is not None:
                        if entry.oneof in seen:
                            raise self.error(f"another member of the oneof {entry.oneof} is also set", entry)
                        seen[entry.oneof] = key
                    self.read_field(message, entry)
            if not self.has_next(c"}"):
                return 0

    cdef int read_empty(self, int c) except -1:
        """Read an empty string or array, which the official runtime accepts as an object without keys."""
        cdef Py_ssize_t end = 0
        if c == c'"' and self.peek_string(MAX_KEY_CHARS, &end) == "" and end == self.pos + 2:
            self.pos += 2
            return 0
        if c == c"[":
            self.pos += 1
            if self.peek() == c"]":
                self.pos += 1
                return 0
            raise self.error("expected an object, found an array")
        raise self.error(f"expected an object, found {self.describe_next()}")

    cdef int read_field(self, message, Entry entry) except -1:
        """Read a field's value, which is not null."""
        cdef list values = []
        cdef bint is_last_element = False
        cdef Py_ssize_t n_pending = 0
        if not entry.is_repeated:
            if entry.type == MESSAGE:
                self.read_message(self.enter(message, entry), entry.table)
                return self.leave()
            value = self.read_value(entry, NO_INDEX)
            if value is not None:
                setattr(message, entry.name, value)
            return 0
        if self.peek() != c"[":
            raise self.error(f"expected an array, found {self.describe_next()}", entry)
        self.pos += 1
        if self.peek() == c"]":
            self.pos += 1
            return 0
        while not is_last_element:
            if self.is_null():
                raise self.error("null can't be an element of a repeated field", entry, n_pending)
            if entry.type == MESSAGE:
                self.read_message(self.enter(message, entry), entry.table)
                is_last_element = not self.has_next(c"]")
                self.leave()
                continue
            value = self.read_value(entry, n_pending)
            is_last_element = not self.has_next(c"]", entry, n_pending)
            if value is not None:
                values.append(value)
            n_pending = len(values)
            if n_pending == MAX_PENDING or is_last_element:
                getattr(message, entry.name).extend(values)
                values.clear()
                n_pending = 0
        return 0

    cdef read_value(self, Entry entry, Py_ssize_t n_pending):
        """Read a number, string, bytes, bool or enum. Return None for an unknown enum name that is ignored."""
        cdef Py_ssize_t end = 0
        cdef int64_t number = 0
        cdef double real = 0
        cdef int c = self.peek()
        if c == c'"':
            if entry.minimum <= entry.maximum:
                end = self.find_closing_quote(self.pos + 1, c'"')
                if end < self.n and self.parse_integer(self.pos + 1, end, entry, &number):
                    self.pos = end + 1
                    return number
            value = self.peek_string(text_source.CHUNK_CHARS // 2, &end, entry, n_pending)
            if entry.type == STRING and end >= 0 and value.isascii():
                self.pos = end
                return value
            if end < 0:
                return self.read_long(entry, n_pending)
        elif c == c"{" or c == c"[":
            raise self.error(f"expected one value, found {self.describe_next()}", entry, n_pending)
        else:
            end = self.find_word_end()
            if self.parse_integer(self.pos, end, entry, &number):
                self.pos = end
                return number
            if (entry.type == FLOAT or entry.type == DOUBLE) and self.parse_real(end, &real):
                if fabs(real) <= FLOAT_MAX:
                    self.pos = end
                    return real
            value = self.parse_literal(end, entry, n_pending)
        value = self.convert(value, entry, n_pending)
        self.pos = end
        return value

    cdef convert(self, value, Entry entry, Py_ssize_t n_pending, str position=None):
        """Convert a JSON value to a value of a field. Return None for an unknown enum name that is ignored.

        position: as for `error`.
        """
        try:
            return entry.convert(value)
        except UnknownNameError as error:
            if self.ignore_unknown:
                return None
            raise self.error(str(error), entry, n_pending, position) from None
        except ValueError as error:
            raise self.error(str(error), entry, n_pending, position) from None

    cdef parse_literal(self, Py_ssize_t end, Entry entry, Py_ssize_t n_pending):
        """Return the value of the number, true, false, null, NaN or Infinity from the position to `end`."""
        try:
            value, token_end = _scan(self.buf, self.pos)
        except (StopIteration, ValueError):
            token_end = -1
        if token_end != end:
            raise self.error(f"expected a value, found {self.describe_next()}", entry, n_pending)
        return value

    cdef bint is_null(self) except -1:
        """Return whether the next token is null."""
        return self.peek() == c"n" and self.word() == "null"

    # --- Values of unknown fields.

    cdef int skip_value(self) except -1:
        """Skip any value; nesting is not limited."""
        cdef bytearray closers = bytearray()  # the closing brackets of open objects and arrays
        cdef Py_ssize_t end
        cdef int closer, c
        while True:
            c = self.peek()
            if c == c"{" or c == c"[":
                self.pos += 1
                closer = c"}" if c == c"{" else c"]"
                if self.peek() != closer:
                    closers.append(closer)
                    self.skip_next_key(closer)
                    continue
                self.pos += 1
            elif c == c'"':
                self.skip_string()
            else:
                end = self.find_word_end()
                self.parse_literal(end, None, NO_INDEX)
                self.pos = end
            while True:
                if not closers:
                    return 0
                closer = closers[len(closers) - 1]
                if self.has_next(closer):
                    break
                closers.pop()
            self.skip_next_key(closer)

    cdef int skip_next_key(self, int closer) except -1:
        """Skip the key of the next value, if the closing bracket is that of an object."""
        if closer == c"}":
            if self.peek() != c'"':
                raise self.error(f"expected a key in double quotes, found {self.describe_next()}")
            self.skip_key(-1)
        return 0

    cdef int skip_key(self, Py_ssize_t end, Entry entry=None) except -1:
        """Skip the string at the position, and the colon after it.

        end: the end of the string, or -1 if it is unknown.
        """
        if end < 0:
            self.skip_string()
        else:
            self.pos = end
        if self.peek() != c":":
            raise self.error(f"expected ':', found {self.describe_next()}", entry)
        self.pos += 1
        return 0

    cdef int skip_string(self) except -1:
        """Skip the string at the position."""
        cdef Py_ssize_t end = 0
        self.peek_string(text_source.CHUNK_CHARS // 2, &end)
        if end >= 0:
            self.pos = end
        else:
            for _ in self.decoded_pieces(None, NO_INDEX):
                pass
        return 0

    # --- Strings.

    cdef str read_key(self, dict table, Py_ssize_t* end):
        """Return the string at the position; `end` is set as by `peek_string`."""
        cdef Py_ssize_t quote = PyUnicode_FindChar(self.buf, c'"', self.pos + 1, self.n, 1)
        cdef str key
        if quote > 0:
            key = PyUnicode_Substring(self.buf, self.pos + 1, quote)
            if key in table:
                end[0] = quote + 1
                return key
        return self.peek_string(MAX_KEY_CHARS, end)

    cdef str peek_string(self, Py_ssize_t max_chars, Py_ssize_t* end, Entry entry=None, Py_ssize_t n_pending=NO_INDEX):
        """Return the string at the position, which does not change, and the string's end.

        If more than max_chars characters are in memory without a closing quote, `end` is -1 and the result is a part of
        the string.
        """
        while True:
            try:
                value, end[0] = scanstring(self.buf, self.pos + 1)
                return value
            except JSONDecodeError as error:
                if self.find_closing_quote(self.pos + 1, c'"') < self.n:
                    raise self.error(f"the string is not valid JSON: {error.msg}", entry, n_pending) from None
            if self.is_last:
                raise self.unclosed_error(c'"', entry, n_pending)
            if self.n - self.pos > max_chars:
                end[0] = -1
                return self.buf[self.pos + 1 : self.pos + 100]
            self.read_more()

    def decoded_pieces(self, Entry entry or None, Py_ssize_t n_pending):
        """Yield the string at the position in decoded pieces, and skip it."""
        cdef str position = self.position()
        for piece in self.pieces(c'"', entry, n_pending):
            try:
                yield scanstring(f'{piece}"', 0)[0]
            except JSONDecodeError as error:
                raise self.error(f"the string is not valid JSON: {error.msg}", entry, n_pending, position) from None

    cdef read_long(self, Entry entry, Py_ssize_t n_pending):
        """Read a value from a string that is longer than the text in memory."""
        cdef str position = self.position()
        out = io.StringIO()
        try:
            if entry.type == BYTES:
                return self.read_long_base64(entry, n_pending)
            for piece in self.decoded_pieces(entry, n_pending):
                out.write(piece)
        except DecodeError:
            raise
        except UnicodeEncodeError:
            raise self.error(LONE_SURROGATE_REASON, entry, n_pending, position) from None
        except ValueError as error:
            raise self.error(str(error), entry, n_pending, position) from None
        return self.convert(out.getvalue(), entry, n_pending, position)

    cdef bytes read_long_base64(self, Entry entry, Py_ssize_t n_pending):
        """Read a bytes value as `read_long` does.

        Pieces are decoded as they are read. From the first piece with padding or other characters that are not in
        the alphabets of base64, the text is decoded at the end.
        """
        out, encoded = io.BytesIO(), io.BytesIO()
        is_clean = True  # whether the pieces so far could be decoded separately
        for piece in self.decoded_pieces(entry, n_pending):
            encoded.write(piece.encode())
            if not is_clean:
                continue
            data = encoded.getvalue()
            n_complete = len(data) // 4 * 4
            try:
                decoded = a2b_base64(data[:n_complete].translate(FROM_URL_SAFE))
            except ValueError:
                decoded = b""
            # If characters were skipped, the remaining text can't be decoded independently.
            is_clean = len(decoded) == n_complete // 4 * 3
            if is_clean:
                out.write(decoded)
                encoded = io.BytesIO()
                encoded.write(data[n_complete:])
        out.write(decode_base64(encoded.getvalue()))
        return out.getvalue()


def parse_json(message, text, *, ignore_unknown=False):
    """Read JSON into an empty message, which may be partly filled after an error.

    message: a message of onnxwire, or any object with protobuf's Python API. text, ignore_unknown: as for `from_json`.
    """
    cdef JsonParser parser = JsonParser(text, converter_of, ignore_unknown, True)  # True: JSON
    parser.path.append(message)
    parser.read_message(message, parser.table_of(message.DESCRIPTOR))
    if parser.peek() != END:
        raise parser.error(f"expected the end of the text, found {parser.describe_next()}")
