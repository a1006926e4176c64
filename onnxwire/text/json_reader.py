"""Reads messages in the JSON format of protobuf."""

from __future__ import annotations

import io
import re
from binascii import a2b_base64
from collections.abc import Callable, Iterator
from contextlib import suppress
from json import JSONDecodeError, JSONDecoder, dumps
from math import isfinite
from typing import Any, NamedTuple

from onnxwire.engine.descriptor import INTEGER_RANGES, FieldDescriptor
from onnxwire.engine.nesting_limit import MAX_DEPTH
from onnxwire.errors import DecodeError
from onnxwire.messages import ModelProto
from onnxwire.text.number_ranges import UnknownNameError, enum_reader, integer_reader
from onnxwire.text.printed_fields import BATCH
from onnxwire.text.window import CHUNK, Text, Window, closing_quote, new_message, safe_cut, show, unknown_field

TYPE_CHECKING = False
if TYPE_CHECKING:
    from onnxwire.text.window import MessageT


def from_json(
    text: Text,
    type: type[MessageT] = ModelProto,  # type: ignore[assignment]
    *,
    ignore_unknown: bool = False,
) -> MessageT:
    """Read a message from its JSON form, as google.protobuf.json_format.Parse does.

    text: a str; bytes, bytearray or memoryview of UTF-8; or a text or binary file object, which is read in pieces to
    its end. type: the class of the message. ignore_unknown: skip unknown fields and unknown names of enum values, such
    as those of a newer ONNX.
    Returns a new message. In addition, memory contains a small part of the text and one copy of one value, or a few
    copies of a string that is not ASCII or of malformed base64.
    Raises DecodeError with line and column for invalid text, or messages nested 100 deep or more. Raises TypeError if
    an argument is neither text nor a message class.
    Source: protobuf.dev/programming-guides/json, except where json_format.Parse differs; a field that occurs under both
    of its names is rejected, as by protobuf's C++.
    """
    message = new_message(type)
    parse_json(message, text, ignore_unknown=ignore_unknown)
    return message


def parse_json(message: Any, text: Text, *, ignore_unknown: bool = False) -> None:
    """Read JSON into an empty message, which may be partly filled after an error.

    message: of onnxwire, or any object with protobuf's Python API.
    """
    _JsonParser(Window(text), ignore_unknown).parse(message)


# --- values

_NO_TEXT = "the string has a lone surrogate, which is not text"
_FLOAT_MAX = float.fromhex("0x1.fffffep+127")


def _found(value: object) -> str:
    """Quote a value for an error message."""
    if isinstance(value, tuple | list):
        return "an object or array"
    text = dumps(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


def _convert_text(value: Any) -> str:
    if value.__class__ is not str:
        raise ValueError(f"expected a string, found {_found(value)}")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise ValueError(_NO_TEXT) from None
    return value


def _convert_base64(value: Any) -> bytes:
    if value.__class__ is not str:
        raise ValueError(f"expected a string of base64, found {_found(value)}")
    try:
        return _decode_base64(value.encode())
    except UnicodeEncodeError:
        raise ValueError(_NO_TEXT) from None


def _decode_base64(data: bytes) -> bytes:
    """Decode base64 of either alphabet, with or without padding; skips other characters, as Python's base64 does."""
    try:
        return a2b_base64(data.translate(_URL_SAFE) + b"=" * (4 - len(data) % 4))
    except ValueError as error:
        raise ValueError(f"the string is not valid base64 ({error})") from None


_URL_SAFE = bytes.maketrans(b"-_", b"+/")


def _integer_of(value: Any) -> int:
    if value.__class__ is int:
        return int(value)
    number = 0.5
    with suppress(ValueError):
        if isinstance(value, float):
            number = value
        elif isinstance(value, str) and " " not in value:
            try:
                return int(value)
            except ValueError:
                number = float(value)
    if number.is_integer():
        return int(number)
    raise ValueError(f"expected an integer, found {_found(value)}")


def _float_converter(field: Any) -> Callable[[Any], float]:
    is_single = field.type == FieldDescriptor.TYPE_FLOAT

    def convert(value: Any) -> float:
        if isinstance(value, float):
            if not isfinite(value):
                raise ValueError('expected a finite number; "NaN", "Infinity" and "-Infinity" need quotes')
            if is_single and abs(value) > _FLOAT_MAX:
                raise ValueError(f"{_found(value)} is out of the range of float")
            return value
        if isinstance(value, str | int) and value != "nan":
            try:
                return float(value)
            except ValueError:
                pass
            except OverflowError:
                raise ValueError(f"{_found(value)} is out of the range of double") from None
        raise ValueError(f"expected a number, found {_found(value)}")

    return convert


def _convert_bool(value: Any) -> bool:
    if value.__class__ is not bool:
        raise ValueError(f"expected true or false, found {_found(value)}")
    return value


def _convert_integers(values: list[Any], entry: _Entry) -> list[int]:
    kinds = set(map(type, values))
    if kinds == {str} and " " not in "".join(values):
        try:
            values = list(map(int, values))
        except ValueError:
            return list(map(entry.convert, values))
    elif kinds != {int}:
        return list(map(entry.convert, values))
    _, least, greatest = INTEGER_RANGES[entry.field.type]
    if least <= min(values) <= max(values) <= greatest:
        return values
    return list(map(entry.convert, values))


def _convert_floats(values: list[Any], entry: _Entry) -> list[float]:
    if set(map(type, values)) == {float} and all(map(isfinite, values)):
        greatest = max(max(values), -min(values))
        if greatest <= _FLOAT_MAX or entry.field.type == FieldDescriptor.TYPE_DOUBLE:
            return values
    return list(map(entry.convert, values))


# --- the parser

_MAX_KEY_CHARS = 1 << 16

_SPACE = re.compile(r"[ \t\n\r]*+")
_WORD = re.compile("[-+.0-9A-Za-z]*+")
_BRACKETS = re.compile(r"\[*+")
_COMMA = re.compile(r"[ \t\n\r]*+,[ \t\n\r]*+")

_DECODER = JSONDecoder(object_pairs_hook=tuple)  # objects become tuples of pairs, so that duplicate keys are seen


class _Entry(NamedTuple):
    """A field, as the parser needs it."""

    name: str
    convert: Callable[[Any], Any]  # converts a JSON value to the field's value; raises ValueError
    is_repeated: bool
    is_message: bool
    oneof: str
    field: Any
    table: _Table  # of the message that is the field's value


# The fields of a message by key: the members of the entry, and the entry. Unpacking a tuple takes a third of the time.
_Table = dict[str, tuple[str, Callable[[Any], Any], bool, bool, str, Any, Any, _Entry]]


class _JsonParser:
    """Reads messages that are completely in the window with json's scanner, and others key by key."""

    def __init__(self, window: Window, ignore_unknown: bool) -> None:
        self.window = window
        self.ignore_unknown = ignore_unknown
        self.tables: dict[Any, _Table] = {}
        self.path: list[str] = []
        self.has_fault = False  # the next numbers contain an error; read them one by one, to find its position

    def parse(self, root: Any) -> None:
        """Read everything into the root message."""
        self._read_message(root, self._table(root.DESCRIPTOR), 1)
        if self._peek():
            raise self._error(f"expected the end of the text, found {self._next()}")

    # --- messages in the window

    def _widen(self) -> None:
        """Extend the window if less than half of it is left."""
        window = self.window
        if not window.is_last and len(window.buf) - window.pos < CHUNK // 2:
            window.more()

    def _read_at_once(self, fill: Callable[..., None], *arguments: Any) -> bool:
        """Fill a message or repeated field from a value in the window. Returns False if it is incomplete or invalid."""
        self._widen()
        window = self.window
        try:
            value, end = _DECODER.raw_decode(window.buf, window.pos)
            fill(value, *arguments)
        except (ValueError, KeyError, RecursionError):
            return False
        window.pos = end
        return True

    def _fill_message(self, value: Any, message: Any, table: _Table, depth: int) -> None:
        """Fill an empty message. Raises ValueError or KeyError for unusual or invalid values."""
        if value.__class__ is not tuple or depth > MAX_DEPTH:
            raise ValueError
        seen = set()
        for key, element in value:
            if key not in table and self.ignore_unknown:
                continue
            name, convert, is_repeated, is_message, oneof, field, child_table, entry = table[key]
            if name in seen:
                raise ValueError
            seen.add(name)
            if element is None:
                continue
            if oneof:
                if oneof in seen:
                    raise ValueError
                seen.add(oneof)
            if is_repeated:
                self._fill_repeated(element, message, entry, depth)
            elif is_message:
                child = getattr(message, name)
                child.SetInParent()
                if not child_table:
                    self._fill_table(child_table, field.message_type)
                self._fill_message(element, child, child_table, depth + 1)
            else:
                setattr(message, name, convert(element))

    def _fill_repeated(self, values: Any, message: Any, entry: _Entry, depth: int) -> None:
        """Append to a repeated field. Raises ValueError or KeyError for unusual or invalid values."""
        if values.__class__ is not list:
            raise ValueError
        repeated = getattr(message, entry.name)
        if not entry.is_message:
            repeated.extend(self._convert_all(values, entry))
            return
        if not entry.table:
            self._fill_table(entry.table, entry.field.message_type)
        for value in values:
            self._fill_message(value, repeated.add(), entry.table, depth + 1)

    def _convert_all(self, values: list[Any], entry: _Entry) -> list[Any]:
        kind = entry.field.type
        if not values:
            return values
        if kind in (FieldDescriptor.TYPE_FLOAT, FieldDescriptor.TYPE_DOUBLE):
            return _convert_floats(values, entry)
        if kind in INTEGER_RANGES and kind != FieldDescriptor.TYPE_ENUM:
            return _convert_integers(values, entry)
        return list(map(entry.convert, values))

    # --- messages that exceed the window, or have errors

    def _read_messages(self, repeated: Any, entry: _Entry, depth: int) -> None:
        """Append the messages that are in the window; or else one message, key by key."""
        self._widen()
        if not entry.table:
            self._fill_table(entry.table, entry.field.message_type)
        n = n_filled = len(repeated)
        try:
            for value in self._elements():
                self._fill_message(value, repeated.add(), entry.table, depth)
                n_filled += 1
        except (ValueError, KeyError, RecursionError):
            del repeated[n_filled:]
        if n_filled == n:
            self._read_message(repeated.add(), entry.table, depth)

    def _read_message(self, message: Any, table: _Table, depth: int) -> None:
        """Read an object into an empty message."""
        window = self.window
        sign = self._peek()
        if depth > MAX_DEPTH:
            raise self._error(f"messages nested {MAX_DEPTH} deep or more, which protobuf readers of JSON reject")
        if not table:
            self._fill_table(table, message.DESCRIPTOR)
        if sign != "{":
            self._read_empty(sign)
            return
        if self._read_at_once(self._fill_message, message, table, depth):
            return
        message.Clear()
        window.pos += 1
        seen: dict[str, str] = {}  # the keys that occurred, by names of fields and oneofs
        if self._peek() == "}":
            window.pos += 1
            return
        while True:
            if self._peek() != '"':
                raise self._error(f"expected a field's name in double quotes, found {self._next()}")
            key, end = self._string(_MAX_KEY_CHARS)
            if key not in table or end < 0:
                if not self.ignore_unknown:
                    raise self._error(unknown_field(message.DESCRIPTOR, key, table))
                self._skip_key(end)
                self._skip_value()
            else:
                entry = table[key][-1]
                name = entry.name
                self.path.append(name)
                if name in seen:
                    as_other = f", first as {show(seen[name])}" if seen[name] != key else ""
                    raise self._error(f"the key {show(key)} occurs a second time{as_other}")
                seen[name] = key
                self._skip_key(end)
                if self._is_null():
                    window.pos += 4
                else:
                    if entry.oneof:
                        if entry.oneof in seen:
                            raise self._error(f"another member of the oneof {entry.oneof} is also set")
                        seen[entry.oneof] = key
                    self._read_field(message, entry, depth)
                self.path.pop()
            sign = self._peek()
            if sign != "," and sign != "}":
                raise self._error(f"expected ',' or '}}', found {self._next()}")
            window.pos += 1
            if sign == "}":
                return

    def _read_empty(self, sign: str) -> None:
        """Read an empty string or array, which the official runtime accepts as an object without keys."""
        window = self.window
        if sign == '"' and self._string(_MAX_KEY_CHARS) == ("", window.pos + 2):
            window.pos += 2
            return
        if sign == "[":
            window.pos += 1
            if self._peek() == "]":
                window.pos += 1
                return
            raise self._error("expected an object, found an array")
        raise self._error(f"expected an object, found {self._next()}")

    def _read_field(self, message: Any, entry: _Entry, depth: int) -> None:
        """Read a field's value, which is not null."""
        name = entry.name
        if entry.is_repeated:
            self._read_repeated(message, entry, depth)
        elif entry.is_message:
            child = getattr(message, name)
            child.SetInParent()
            self._read_message(child, entry.table, depth + 1)
        else:
            for value in self._read_scalar(entry):
                setattr(message, name, value)

    def _read_repeated(self, message: Any, entry: _Entry, depth: int) -> None:
        """Read the array of a repeated field."""
        window = self.window
        name = entry.name
        if self._peek() != "[":
            raise self._error(f"expected an array, found {self._next()}")
        if self._read_at_once(self._fill_repeated, message, entry, depth):
            return
        message.ClearField(name)
        repeated = getattr(message, name)
        window.pos += 1
        if self._peek() == "]":
            window.pos += 1
            return
        values: list[Any] = []
        last = len(self.path) - 1
        while True:
            self.path[last] = f"{name}[{len(repeated) + len(values)}]"
            if self._is_null():
                raise self._error("null can't be an element of a repeated field")
            if entry.is_message:
                self._read_messages(repeated, entry, depth + 1)
            elif not self._read_batch(values, entry):
                values += self._read_scalar(entry)
            if len(values) >= BATCH:
                repeated.extend(values)
                values.clear()
            sign = self._peek()
            if sign != "," and sign != "]":
                raise self._error(f"expected ',' or ']', found {self._next()}")
            window.pos += 1
            if sign == "]":
                repeated.extend(values) if values else None
                return

    def _read_batch(self, values: list[Any], entry: _Entry) -> bool:
        """Read the numbers or strings that are in the window. Returns False if the next is incomplete or invalid."""
        window = self.window
        if self.has_fault:
            return False
        self._widen()
        buf, start = window.buf, window.pos
        if entry.field.type in (FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES):
            with suppress(ValueError):
                for value in self._elements():
                    values.append(entry.convert(value))
            return window.pos > start
        end = buf.find("]", start)
        if end < 0:
            end = buf.rfind(",", start)
        if end <= start:
            return False
        try:
            numbers = self._convert_all(_DECODER.decode(f"[{buf[start:end]}]"), entry)
        except (ValueError, RecursionError):
            # The text was split after a complete number, since numbers contain no comma or bracket: it is invalid.
            self.has_fault = True
            return False
        values += numbers
        window.pos = end
        return bool(numbers)

    def _elements(self) -> Iterator[Any]:
        """Yield the elements of an array in the window; the position advances past each before the next is parsed.

        Raises ValueError for an element that is incomplete or invalid.
        """
        window = self.window
        buf, end = window.buf, window.pos
        while True:
            value, end = _DECODER.raw_decode(buf, end)
            yield value
            window.pos = end
            comma = _COMMA.match(buf, end)
            if comma is None:
                return
            end = comma.end()

    def _read_scalar(self, entry: _Entry) -> tuple[Any, ...]:
        """Read a number, string, bytes, bool or enum; returns one value, or none for an ignored name of an enum."""
        window = self.window
        sign = self._peek()
        if sign == '"':
            value, end = self._string(CHUNK // 2)
            if end < 0:
                return self._read_long(entry)
        elif sign == "{" or sign == "[":
            raise self._error(f"expected one value, found {self._next()}")
        else:
            value, end = self._literal()
        values = self._convert(value, entry)
        window.pos = end
        return values

    def _convert(self, value: Any, entry: _Entry, position: str = "") -> tuple[Any, ...]:
        """Convert a JSON value to one value of a field, or none. position: of the value; by default the window's."""
        try:
            return (entry.convert(value),)
        except UnknownNameError as error:
            if self.ignore_unknown:
                return ()
            raise self._error(str(error), position) from None
        except ValueError as error:
            raise self._error(str(error), position) from None

    # --- values of unknown fields

    def _skip_value(self) -> None:
        """Skip any value; nesting is not limited."""
        window = self.window
        if self._peek() in ("{", "["):
            with suppress(ValueError, RecursionError):
                _, window.pos = _DECODER.raw_decode(window.buf, window.pos)
                return
        closers = bytearray()  # the closing brackets of open objects and arrays
        while True:
            sign = self._peek()
            if sign == "{" or sign == "[":
                # A run of brackets is skipped in one step, not one step per character.
                run = _BRACKETS.match(window.buf, window.pos).end() - window.pos  # type: ignore[union-attr]
                closers += b"]" * (run - 1)
                window.pos += max(run, 1)
                closer = "}" if sign == "{" else "]"
                if self._peek() != closer:
                    closers += closer.encode()
                    self._skip_name(closer)
                    continue
                window.pos += 1
            elif sign == '"':
                self._skip_string()
            else:
                _, window.pos = self._literal()
            while closers:
                closer = chr(closers[-1])
                sign = self._peek()
                if sign != "," and sign != closer:
                    raise self._error(f"expected ',' or {closer!r}, found {self._next()}")
                window.pos += 1
                if sign == ",":
                    self._skip_name(closer)
                    break
                closers.pop()
            else:
                return

    def _skip_name(self, closer: str) -> None:
        """Skip the key of the next member, if the closing bracket is that of an object."""
        if closer == "}":
            if self._peek() != '"':
                raise self._error(f"expected a key in double quotes, found {self._next()}")
            self._skip_key(-1)

    def _skip_key(self, end: int) -> None:
        """Skip the string at the position, and the colon after it. end: of the string, or -1 if it is unknown."""
        if end < 0:
            self._skip_string()
        else:
            self.window.pos = end
        if self._peek() != ":":
            raise self._error(f"expected ':', found {self._next()}")
        self.window.pos += 1

    def _skip_string(self) -> None:
        _, end = self._string(CHUNK // 2)
        if end >= 0:
            self.window.pos = end
            return
        position = self.window.position(self.window.pos)  # counts lines, which is too slow for each short string
        try:
            for _ in self._pieces():
                pass
        except JSONDecodeError as error:
            raise self._error(_reason(error), position) from None

    # --- strings

    def _string(self, max_chars: int) -> tuple[str, int]:
        """Return the string at the position and the index after it; index -1 for more than max_chars in the window."""
        window = self.window
        while True:
            buf, start = window.buf, window.pos
            end = closing_quote(buf, start + 1, '"')
            if end < len(buf) or window.is_last:
                break
            if end - start >= max_chars:
                return buf[start + 1 : start + 100], -1
            window.more()
        try:
            return _DECODER.raw_decode(buf, start)
        except JSONDecodeError as error:
            raise self._error(_reason(error)) from None

    def _read_long(self, entry: _Entry) -> tuple[Any, ...]:
        """Read one value, or none, from a string that is longer than the window."""
        position = self.window.position(self.window.pos)
        try:
            if entry.field.type == FieldDescriptor.TYPE_BYTES:
                return (self._read_long_base64(),)
            out = io.StringIO()
            for piece in self._pieces():
                out.write(piece)
        except JSONDecodeError as error:
            raise self._error(_reason(error), position) from None
        except UnicodeEncodeError:
            raise self._error(_NO_TEXT, position) from None
        except ValueError as error:
            raise self._error(str(error), position) from None
        return self._convert(out.getvalue(), entry, position)

    def _read_long_base64(self) -> bytes:
        out, rest = io.BytesIO(), io.BytesIO()
        is_plain = True
        for piece in self._pieces():
            rest.write(piece.encode())
            if not is_plain:
                continue
            data = rest.getvalue()
            n_complete = len(data) // 4 * 4
            try:
                decoded = a2b_base64(data[:n_complete].translate(_URL_SAFE))
            except ValueError:
                decoded = b""
            # If characters were skipped, the remaining text can't be decoded independently.
            is_plain = len(decoded) == n_complete // 4 * 3
            if is_plain:
                out.write(decoded)
                rest = io.BytesIO()
                rest.write(data[n_complete:])
        out.write(_decode_base64(rest.getvalue()))
        return out.getvalue()

    def _pieces(self) -> Iterator[str]:
        """Yield the contents of the string at the position, in pieces. Raises JSONDecodeError."""
        window = self.window
        at = 1
        while True:
            buf, start = window.buf, window.pos + at
            end = closing_quote(buf, start, '"')
            is_cut = end == len(buf) and not window.is_last
            if is_cut:
                end = safe_cut(buf, start, end)
            closed = '"' if is_cut or end < len(buf) else ""
            yield _DECODER.decode(f'"{buf[start:end]}{closed}')
            if not is_cut:
                window.pos = end + 1
                return
            if end > start:
                window.pos, at = end, 0
            window.more()

    # --- tokens

    def _peek(self) -> str:
        """Skip white space; returns the next character, "" at the end."""
        window = self.window
        while True:
            window.pos = _SPACE.match(window.buf, window.pos).end()  # type: ignore[union-attr]
            if window.pos < len(window.buf) or window.is_last:
                return window.buf[window.pos : window.pos + 1]
            window.more()

    def _word(self) -> str:
        """Return the number or literal at the position, or else one character."""
        window = self.window
        while True:
            end = _WORD.match(window.buf, window.pos).end()  # type: ignore[union-attr]
            if end < len(window.buf) or window.is_last:
                return window.buf[window.pos : max(end, window.pos + 1)]
            window.more()

    def _literal(self) -> tuple[Any, int]:
        """Return the value of the number, true, false or null at the position, and the index after it."""
        word = self._word()
        try:
            value, length = _DECODER.raw_decode(word)
        except ValueError:
            length = -1
        if length != len(word):
            raise self._error(f"expected a value, found {self._next()}")
        return value, self.window.pos + length

    def _next(self) -> str:
        """Describe the next token for an error message."""
        names = {'"': "a string", "{": "an object", "[": "an array", "\ufeff": "a byte order mark"}
        return names.get(self._peek()) or show(self._word())

    def _is_null(self) -> bool:
        """Return whether the next token is null."""
        return self._peek() == "n" and self._word() == "null"

    # --- tables and errors

    def _table(self, descriptor: Any) -> _Table:
        """Return the table of a message; it is empty until such a message occurs."""
        return self.tables.setdefault(descriptor, {})

    def _fill_table(self, table: _Table, descriptor: Any) -> None:
        entries = []
        for field in descriptor.fields:
            is_message = field.message_type is not None
            oneof = field.containing_oneof.name if field.containing_oneof else ""
            child = self._table(field.message_type) if is_message else {}
            convert = _converter_of(field)
            entries.append(_Entry(field.name, convert, field.is_repeated, is_message, oneof, field, child))
        table.update((entry.name, (*entry, entry)) for entry in entries)
        table.update((entry.field.json_name, (*entry, entry)) for entry in entries)

    def _error(self, reason: str, position: str = "") -> DecodeError:
        """Make an error for a position, by default that of the window."""
        return self.window.error(reason, position or self.window.position(self.window.pos), ".".join(self.path))


def _reason(error: JSONDecodeError) -> str:
    """Return the error text for a string that json's scanner rejects."""
    return f"the string is not valid JSON: {error.msg}"


def _converter_of(field: Any) -> Callable[[Any], Any]:
    kind = field.type
    if kind in _CONVERTERS:
        return _CONVERTERS[kind]
    if kind == FieldDescriptor.TYPE_FLOAT or kind == FieldDescriptor.TYPE_DOUBLE:
        return _float_converter(field)
    return (
        enum_reader(field, int, _found)
        if kind == FieldDescriptor.TYPE_ENUM
        else integer_reader(field, _integer_of, _found)
    )


_CONVERTERS: dict[int, Callable[[Any], Any]] = {
    FieldDescriptor.TYPE_STRING: _convert_text,
    FieldDescriptor.TYPE_BYTES: _convert_base64,
    FieldDescriptor.TYPE_BOOL: _convert_bool,
    FieldDescriptor.TYPE_MESSAGE: _convert_bool,  # never called
}
