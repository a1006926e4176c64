"""The JSON form of protobuf messages: reading it."""

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

    text: a str; bytes, bytearray or memoryview of UTF-8; or a text or binary file object, which is read piece by piece
    to its end. type: the class of the message. ignore_unknown: skip fields that the message does not have and names
    that an enum does not have, such as those of a newer ONNX.
    Returns a new message. Beside it, memory holds a small part of the text and one copy of one value, or a few of a
    string that is not ASCII or of base64 with anything but base64 in it.
    Raises DecodeError with line and column for a text that is not of such a message, or nested 100 deep or more;
    nothing is returned then. Raises TypeError for what is neither text nor a message class.
    Source: protobuf.dev/programming-guides/json, where json_format.Parse does not depart from it; a field that is there
    under both of its names is refused, as by protobuf's C++.
    """
    message = new_message(type)
    parse_json(message, text, ignore_unknown=ignore_unknown)
    return message


def parse_json(message: Any, text: Text, *, ignore_unknown: bool = False) -> None:
    """Read JSON into a message that is empty; it may be half filled after an error.

    message: of onnxwire, or of anything else that has protobuf's Python API.
    """
    _JsonParser(Window(text), ignore_unknown).parse(message)


# --- values

_NO_TEXT = "the string has half of a surrogate pair, which is not text"
_FLOAT_MAX = float.fromhex("0x1.fffffep+127")


def _found(value: object) -> str:
    """A value as error messages quote it."""
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
    """Decode base64 of either alphabet, with or without padding; skips what is in neither, as Python's base64 does."""
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
                raise ValueError('expected a finite number; "NaN", "Infinity" and "-Infinity" stand in quotes')
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

_LONGEST_KEY = 1 << 16

_SPACE = re.compile(r"[ \t\n\r]*+")
_WORD = re.compile("[-+.0-9A-Za-z]*+")
_BRACKETS = re.compile(r"\[*+")
_COMMA = re.compile(r"[ \t\n\r]*+,[ \t\n\r]*+")

_DECODER = JSONDecoder(object_pairs_hook=tuple)  # objects are tuples of pairs; a key may be there twice


class _Entry(NamedTuple):
    """The parser's knowledge of a field."""

    name: str
    convert: Callable[[Any], Any]  # makes the value of what JSON has; raises ValueError
    is_repeated: bool
    is_message: bool
    oneof: str
    field: Any
    table: _Table  # of the message that is the field's value


# The fields of a message by key: what is in an entry, and the entry. A tuple is unpacked in a third of the time.
_Table = dict[str, tuple[str, Callable[[Any], Any], bool, bool, str, Any, Any, _Entry]]


class _JsonParser:
    """Reads messages that lie in the window at once, with json's own scanner, and others key by key."""

    def __init__(self, window: Window, ignore_unknown: bool) -> None:
        self.window = window
        self.ignore_unknown = ignore_unknown
        self.tables: dict[Any, _Table] = {}
        self.path: list[str] = []
        self.has_fault = False  # there is one in the numbers that come next; each is looked at, to find its position

    def parse(self, root: Any) -> None:
        """Read everything into the root message."""
        self._read_message(root, self._table(root.DESCRIPTOR), 1)
        if self._peek():
            raise self._error(f"expected the end of the text, found {self._next()}")

    # --- messages that lie in the window

    def _widen(self) -> None:
        """Have a good part of the text in the window."""
        window = self.window
        if not window.is_last and len(window.buf) - window.pos < CHUNK // 2:
            window.more()

    def _read_at_once(self, fill: Callable[..., None], *arguments: Any) -> bool:
        """Fill a message or repeated field with a value that lies in the window; False where it needs a closer look."""
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
        """Fill an empty message; raises ValueError or KeyError for what is unusual or wrong."""
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
        """Append to a repeated field; raises ValueError or KeyError for what is unusual or wrong."""
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

    # --- messages that don't, and those with faults

    def _read_messages(self, repeated: Any, entry: _Entry, depth: int) -> None:
        """Append the messages that lie in the window, or one that does not or needs a closer look."""
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
        """Read an object into a message, in which there is nothing yet."""
        window = self.window
        sign = self._peek()
        if depth > MAX_DEPTH:
            raise self._error(f"messages nested {MAX_DEPTH} deep or more, which protobuf readers of JSON refuse")
        if not table:
            self._fill_table(table, message.DESCRIPTOR)
        if sign != "{":
            self._read_nothing(sign)
            return
        if self._read_at_once(self._fill_message, message, table, depth):
            return
        message.Clear()
        window.pos += 1
        seen: dict[str, str] = {}  # by the names of fields and oneofs that were there, the keys
        if self._peek() == "}":
            window.pos += 1
            return
        while True:
            if self._peek() != '"':
                raise self._error(f"expected a field's name in double quotes, found {self._next()}")
            key, end = self._string(_LONGEST_KEY)
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
                    as_other = f", as {show(seen[name])} before" if seen[name] != key else ""
                    raise self._error(f"the key {show(key)} is there a second time{as_other}")
                seen[name] = key
                self._skip_key(end)
                if self._is_null():
                    window.pos += 4
                else:
                    if entry.oneof:
                        if entry.oneof in seen:
                            raise self._error(f"another member of the oneof {entry.oneof} is there too")
                        seen[entry.oneof] = key
                    self._read_field(message, entry, depth)
                self.path.pop()
            sign = self._peek()
            if sign != "," and sign != "}":
                raise self._error(f"expected ',' or '}}', found {self._next()}")
            window.pos += 1
            if sign == "}":
                return

    def _read_nothing(self, sign: str) -> None:
        """Read what the official runtime takes for an object without keys: an empty string or array."""
        window = self.window
        if sign == '"' and self._string(_LONGEST_KEY) == ("", window.pos + 2):
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
        """Read the numbers or strings that lie in the window; False where the next needs a closer look."""
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
            # No number has a comma or bracket in it: it is not that the text was cut at the wrong character.
            self.has_fault = True
            return False
        values += numbers
        window.pos = end
        return bool(numbers)

    def _elements(self) -> Iterator[Any]:
        """The elements of an array that lie in the window from here on; each is read when the next is asked for.

        Raises ValueError for one that is cut or wrong.
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
        """Read a number, string, bytes, bool or enum; returns the one value, or none of an enum that is ignored."""
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
        """The field's value that JSON's value stands for, or none; `position`: of JSON's, by default the window's."""
        try:
            return (entry.convert(value),)
        except UnknownNameError as error:
            if self.ignore_unknown:
                return ()
            raise self._error(str(error), position) from None
        except ValueError as error:
            raise self._error(str(error), position) from None

    # --- values of fields that the message does not have

    def _skip_value(self) -> None:
        """Read any value, which nobody wants; it may be nested as deep as the text is long."""
        window = self.window
        if self._peek() in ("{", "["):
            with suppress(ValueError, RecursionError):
                _, window.pos = _DECODER.raw_decode(window.buf, window.pos)
                return
        closers = bytearray()  # of what is open, a byte each
        while True:
            sign = self._peek()
            if sign == "{" or sign == "[":
                # A text of nothing but brackets has a step a character, were they not taken together.
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
        """Read the key of what comes next in an object; in an array there is none."""
        if closer == "}":
            if self._peek() != '"':
                raise self._error(f"expected a key in double quotes, found {self._next()}")
            self._skip_key(-1)

    def _skip_key(self, end: int) -> None:
        """Read the string that begins here, and the colon after it; `end`: of the string, where it is known, or -1."""
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
        position = self.window.position(self.window.pos)  # a count of lines, too much for each short string
        try:
            for _ in self._pieces():
                pass
        except JSONDecodeError as error:
            raise self._error(_reason(error), position) from None

    # --- strings

    def _string(self, longest: int) -> tuple[str, int]:
        """The string that begins here and the offset after it; -1 as the offset of what is cut off and that long."""
        window = self.window
        while True:
            buf, start = window.buf, window.pos
            end = closing_quote(buf, start + 1, '"')
            if end < len(buf) or window.is_last:
                break
            if end - start >= longest:
                return buf[start + 1 : start + 100], -1
            window.more()
        try:
            return _DECODER.raw_decode(buf, start)
        except JSONDecodeError as error:
            raise self._error(_reason(error)) from None

    def _read_long(self, entry: _Entry) -> tuple[Any, ...]:
        """Read a value, or none, from a string that is longer than the window."""
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
            whole = len(data) // 4 * 4
            try:
                decoded = a2b_base64(data[:whole].translate(_URL_SAFE))
            except ValueError:
                decoded = b""
            # Where something was skipped, the rules for what follows depend on how much that was.
            is_plain = len(decoded) == whole // 4 * 3
            if is_plain:
                out.write(decoded)
                rest = io.BytesIO()
                rest.write(data[whole:])
        out.write(_decode_base64(rest.getvalue()))
        return out.getvalue()

    def _pieces(self) -> Iterator[str]:
        """The contents of the string that begins here, piece by piece; raises JSONDecodeError."""
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
        """Skip white space; returns the character that follows, "" at the end."""
        window = self.window
        while True:
            window.pos = _SPACE.match(window.buf, window.pos).end()  # type: ignore[union-attr]
            if window.pos < len(window.buf) or window.is_last:
                return window.buf[window.pos : window.pos + 1]
            window.more()

    def _word(self) -> str:
        """The number or literal that begins here, or else one character."""
        window = self.window
        while True:
            end = _WORD.match(window.buf, window.pos).end()  # type: ignore[union-attr]
            if end < len(window.buf) or window.is_last:
                return window.buf[window.pos : max(end, window.pos + 1)]
            window.more()

    def _literal(self) -> tuple[Any, int]:
        """The value of the number, true, false or null that begins here, and the offset after it."""
        word = self._word()
        try:
            value, length = _DECODER.raw_decode(word)
        except ValueError:
            length = -1
        if length != len(word):
            raise self._error(f"expected a value, found {self._next()}")
        return value, self.window.pos + length

    def _next(self) -> str:
        """The next token, as error messages name it."""
        names = {'"': "a string", "{": "an object", "[": "an array", "\ufeff": "a byte order mark"}
        return names.get(self._peek()) or show(self._word())

    def _is_null(self) -> bool:
        """Whether null comes next."""
        return self._peek() == "n" and self._word() == "null"

    # --- tables and errors

    def _table(self, descriptor: Any) -> _Table:
        """The entries of a message by key; empty until there is such a message."""
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
        """The error for what is at a position, by default that of the window."""
        return self.window.error(reason, position or self.window.position(self.window.pos), ".".join(self.path))


def _reason(error: JSONDecodeError) -> str:
    """Why json's scanner refuses a string."""
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
    FieldDescriptor.TYPE_MESSAGE: _convert_bool,  # never asked
}
