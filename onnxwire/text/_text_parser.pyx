# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The parser of protobuf's text format."""
import re
import warnings

cimport cython
from cpython.unicode cimport PyUnicode_Substring
from libc.stdint cimport int64_t

from onnxwire._nesting_limits cimport MAX_DEPTH
from onnxwire.engine.table cimport BYTES, DOUBLE, FLOAT, MESSAGE, STRING
from onnxwire.text._tokenizer cimport END, NO_INDEX, Entry, Tokenizer

from onnxwire.text.printed_fields import BATCH_NUMBERS
from onnxwire.text.text_source import quote_token, unknown_field_reason
from onnxwire.text.text_values import RetiredFieldWarning, converter_of, unescape

cdef Py_ssize_t MAX_PENDING = BATCH_NUMBERS  # values that are collected before they are added to a repeated field
_WORD = re.compile(r"[0-9a-zA-Z_+-]|\..")  # the start of a number or name; a dot alone is another token
_NAME = re.compile(r"\w")  # the first character of a field's name or number
_TOO_DEEP = f"messages nested more than {MAX_DEPTH} deep, which protobuf readers reject"


cdef inline bint is_quotation_mark(int c) noexcept:
    return c == c'"' or c == c"'"


@cython.final
@cython.internal
cdef class TextParser(Tokenizer):
    """The parser of one text in protobuf's text format."""
    cdef set reported_fields  # the retired fields that were reported, as pairs of the message's descriptor and the name

    cdef int read_message(self, message, dict table, int closer) except -1:
        """Read the fields of a message, and its closing bracket.

        table: the entries of the message's fields, by name. closer: the closing bracket, or END for the root message.
        The local dict `seen` records the fields that occurred, in three kinds of entries: the name of a singular field,
        with True; the name of a repeated field of scalars, with the values that are not yet in the message; the name
        of a oneof, with the name of its member.
        """
        cdef dict seen = {}
        cdef Entry entry
        cdef list values
        cdef str name
        cdef Py_ssize_t n_pending
        cdef bint is_list, is_complete
        cdef int c = self.peek()
        while c != closer:
            name = self.word()
            entry = table.get(name)
            if entry is None:
                self.check_unknown(message, name, table, closer)
                self.skip_field(len(self.path) // 2)  # the depth: each level adds two elements to the path
                c = self.peek()
                continue
            values = None
            n_pending = 0
            if not entry.is_repeated:
                self.check_single(entry, seen)
            elif entry.type != MESSAGE:
                values = seen.get(name)
                if values is None:
                    values = seen[name] = []
                n_pending = len(values)
            self.pos += len(name)
            c = self.peek()
            if c == c":":
                self.pos += 1
                c = self.peek()
            elif entry.type != MESSAGE:
                raise self.error(f"expected ':', found {self.describe_next()}", entry, n_pending)
            is_list = entry.is_repeated and c == c"["
            is_complete = False  # whether all values were read
            if is_list:
                self.pos += 1
                is_complete = self.peek() == c"]"
                self.pos += is_complete
            while not is_complete:
                if entry.type == MESSAGE:
                    self.read_child(message, entry)
                    is_complete = not is_list or not self.has_next(c"]")
                    self.leave()
                    continue
                value = self.read_value(entry, n_pending)
                is_complete = not is_list or not self.has_next(c"]", entry, n_pending)
                if values is None:
                    setattr(message, name, value)
                    break
                values.append(value)
                n_pending += 1
                if n_pending == MAX_PENDING:
                    getattr(message, name).extend(values)
                    values.clear()
                    n_pending = 0
            c = self.skip_separator()
        for name, pending in seen.items():
            if pending.__class__ is list and pending:
                getattr(message, name).extend(pending)
        self.pos += closer != END
        return 0

    cdef int check_single(self, Entry entry, dict seen) except -1:
        """Record a singular field in `seen`.

        Raise DecodeError if the field, or another member of its oneof, has already occurred.
        """
        if entry.name in seen:
            raise self.error("the field occurs a second time", entry)
        seen[entry.name] = True
        if entry.oneof is not None:
            if entry.oneof in seen:
                reason = f"{seen[entry.oneof]} is also set, and the oneof '{entry.oneof}' allows one field"
                raise self.error(reason, entry)
            seen[entry.oneof] = entry.name
        return 0

    cdef int read_child(self, message, Entry entry) except -1:
        """Read a message that is a field's value. It remains the current message until `leave`."""
        cdef int c = self.peek()
        if c != c"{" and c != c"<":
            raise self.error(f"expected '{{', found {self.describe_next()}", entry, 0)
        if len(self.path) // 2 == MAX_DEPTH:  # the depth: each level adds two elements to the path
            raise self.error(_TOO_DEEP, entry, 0)
        self.pos += 1
        return self.read_message(self.enter(message, entry), entry.table, c"}" if c == c"{" else c">")

    cdef read_value(self, Entry entry, Py_ssize_t n_pending):
        """Read a value that is not a message. n_pending: see `error`."""
        cdef Py_ssize_t end
        cdef int64_t number = 0
        cdef double real = 0
        cdef int c = self.peek()
        if entry.type == STRING or entry.type == BYTES:
            return self.read_string(c, entry, n_pending)
        end = self.find_word_end()
        if self.parse_integer(self.pos, end, entry, &number):
            value = number
        elif (entry.type == FLOAT or entry.type == DOUBLE) and self.parse_real(end, &real):
            value = real
        else:
            try:
                value = entry.convert(PyUnicode_Substring(self.buf, self.pos, end))
            except ValueError as error:
                raise self.error(str(error), entry, n_pending) from None
        self.pos = end
        return value

    cdef int skip_separator(self) except -2:
        """Skip a comma or semicolon, if there is one; returns the next character."""
        cdef int c = self.peek()
        if c == c"," or c == c";":
            self.pos += 1
            c = self.peek()
        return c

    # --- Strings.

    cdef read_string(self, int quote, Entry entry, Py_ssize_t n_pending):
        """Read adjacent string literals, which form one value. entry: None for an unknown field."""
        cdef bint is_text = entry is not None and entry.type == STRING
        cdef Py_ssize_t end
        cdef list parts = []
        if not is_quotation_mark(quote):
            raise self.error(f"expected a string, found {self.describe_next()}", entry, n_pending)
        while is_quotation_mark(quote):
            end = self.find_closing_quote(self.pos + 1, <Py_UCS4>quote)
            try:
                if end < self.n:
                    parts.append(self.decode(PyUnicode_Substring(self.buf, self.pos + 1, end), quote, entry, n_pending))
                    self.pos = end + 1
                else:
                    for piece in self.pieces(quote, entry, n_pending):
                        parts.append(self.decode(piece, quote, entry, n_pending))
            except (UnicodeDecodeError, UnicodeEncodeError) as error:
                reason = f"the string has an invalid character or escape ({error.reason})"
                raise self.error(reason, entry, n_pending) from None
            quote = self.peek()
        if len(parts) == 1 and (not is_text or parts[0].__class__ is str):
            return parts[0]
        data = b"".join([part if part.__class__ is bytes else part.encode() for part in parts])
        try:
            return data.decode() if is_text else data
        except UnicodeDecodeError as error:
            reason = f"the string is not valid UTF-8 (at its byte {error.start:,}: {error.reason})"
            raise self.error(reason, entry, n_pending) from None

    cdef decode(self, str text, int quote, Entry entry, Py_ssize_t n_pending):
        """Decode a string literal or a part of one. Raises UnicodeError, and DecodeError for a line feed.

        Returns a str if `text` has no escapes and belongs to a string field, otherwise bytes.
        """
        if "\n" in text:
            raise self.unclosed_error(quote, entry, n_pending)
        if "\\" in text:
            return unescape(text)
        data = text.encode()
        return text if entry is not None and entry.type == STRING else data

    # --- Unknown fields.

    cdef int check_unknown(self, message, str name, dict table, int closer) except -1:
        """Raise DecodeError unless `name` is an unknown field that may be skipped. Unless `ignore_unknown` is set, warn
        once of each retired field."""
        descriptor = message.DESCRIPTOR
        if not name:
            raise self.error(f"expected {chr(closer)!r}, found the end of the text")
        if name == "[":
            raise self.error("expected a field; extensions and Any are not supported here")
        if not _NAME.match(name):
            or_closer = "" if closer == END else f" or {chr(closer)!r}"
            raise self.error(f"expected a field{or_closer}, found {quote_token(name)}")
        if self.ignore_unknown:
            return 0
        if name not in getattr(descriptor, "retired_names", ()):
            raise self.error(unknown_field_reason(descriptor, name, table))
        if (descriptor, name) not in self.reported_fields:
            self.reported_fields.add((descriptor, name))
            error = self.error(f"{descriptor.name} no longer has the field {name!r}; it is skipped")
            warnings.warn(str(error), RetiredFieldWarning, stacklevel=2)
        return 0

    cdef int skip_field(self, Py_ssize_t depth) except -1:
        """Skip a field with any value. depth: the number of messages around the field, without the root message."""
        cdef int c
        self.pos = self.find_word_end()
        c = self.peek()
        if c == c":":
            self.pos += 1
            c = self.peek()
        elif c != c"{" and c != c"<" and c != c"[":
            raise self.error(f"expected ':', found {self.describe_next()}")
        if c != c"[":
            self.skip_value(depth)
        else:
            self.pos += 1
            if self.peek() == c"]":
                self.pos += 1
            else:
                self.skip_value(depth)
                while self.has_next(c"]"):
                    self.skip_value(depth)
        self.skip_separator()
        return 0

    cdef int skip_value(self, Py_ssize_t depth) except -1:
        """Skip a message, string, number or name."""
        cdef int c = self.peek()
        cdef int closer
        if is_quotation_mark(c):
            self.read_string(c, None, NO_INDEX)
        elif c == c"{" or c == c"<":
            if depth == MAX_DEPTH:
                raise self.error(_TOO_DEEP)
            closer = c"}" if c == c"{" else c">"
            self.pos += 1
            while self.peek() != closer:
                if not _NAME.match(self.word()):
                    raise self.error(f"expected a field or {chr(closer)!r}, found {self.describe_next()}")
                self.skip_field(depth + 1)
            self.pos += 1
        elif _WORD.match(self.word()):
            self.pos = self.find_word_end()
        else:
            raise self.error(f"expected a value, found {self.describe_next()}")
        return 0


def parse_text(message, text, *, ignore_unknown=False):
    """Read the text format into an empty message, which may be partly filled after an error.

    message: a message of onnxwire, or any object with protobuf's Python API. text, ignore_unknown: as for `from_text`.
    """
    cdef TextParser parser = TextParser(text, converter_of, ignore_unknown, False)  # False: not JSON
    parser.reported_fields = set()
    parser.path.append(message)
    parser.read_message(message, parser.table_of(message.DESCRIPTOR), END)
