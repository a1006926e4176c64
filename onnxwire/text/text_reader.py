"""Reads messages in protobuf's text format."""

from __future__ import annotations

import io
import re
from typing import Any, NamedTuple

from onnxwire.engine.descriptor import INTEGER_RANGES, FieldDescriptor
from onnxwire.engine.nesting_limit import MAX_DEPTH
from onnxwire.errors import DecodeError
from onnxwire.messages import ModelProto
from onnxwire.text.number_ranges import enum_reader, integer_reader
from onnxwire.text.printed_fields import BATCH
from onnxwire.text.window import AHEAD, Text, Window, closing_quote, new_message, safe_cut, show, unknown_field

TYPE_CHECKING = False
if TYPE_CHECKING:
    from onnxwire.text.window import MessageT


_RUN = 64  # consecutive values of a field, after which the next values are parsed as a batch


class RetiredFieldWarning(UserWarning):
    """A text sets a field that was removed from the message, or is reserved; the field was skipped."""

    __module__ = "onnxwire"


def from_text(
    text: Text,
    type: type[MessageT] = ModelProto,  # type: ignore[assignment]
    *,
    ignore_unknown: bool = False,
) -> MessageT:
    """Read a message from protobuf's text format, as google.protobuf.text_format.Parse does.

    text: a str; bytes, bytearray or memoryview of UTF-8; or a text or binary file object, which is read in pieces to
    its end. type: the class of the message. ignore_unknown: skip unknown fields, such as those of a newer ONNX, and the
    numbers that `onnxwire dump` prints instead of their names.
    Returns a new message. In addition, memory contains a small part of the text and at most two copies of one value.
    Retired and reserved fields are skipped, as by protobuf's C++, with a RetiredFieldWarning.
    Raises DecodeError with line and column for invalid text, or messages nested more than 100 deep. Raises TypeError if
    an argument is neither text nor a message class.
    Source: protobuf.dev/reference/protobuf/textformat-spec, except where text_format.Parse differs; of its differences,
    those in the escape `\\?` and in retired fields are not followed.
    """
    message = new_message(type)
    parse_text(message, text, ignore_unknown=ignore_unknown)
    return message


def parse_text(message: Any, text: Text, *, ignore_unknown: bool = False) -> None:
    """Read the text format into an empty message, which may be partly filled after an error.

    message: of onnxwire, or any object with protobuf's Python API.
    """
    _TextParser(Window(text), ignore_unknown).parse(message)


# --- values


def _parse_integer(token: str) -> int:
    """Convert a number in C's or Python's notation. Raises ValueError."""
    try:
        return int(token, 0)
    except ValueError:
        octal = _OCTAL.fullmatch(token)
        if octal is None:
            raise ValueError(f"expected an integer, found {show(token)}") from None
        return int(f"{octal[1]}0o{octal[2]}", 0)


_OCTAL = re.compile("(-?)0([0-7]+)")


def _read_enum_number(token: str) -> int:
    return int(token, 0)


def _read_float(token: str) -> float:
    if _OCTAL_FLOAT.match(token):
        raise ValueError(f"{show(token)} looks octal; floats have no octal notation")
    try:
        return float(token)
    except ValueError:
        pass
    if _INFINITY.fullmatch(token):
        return float("-inf" if token[0] == "-" else "inf")
    if _NAN.fullmatch(token):
        return float("nan")
    try:
        return float(token.rstrip("fF"))
    except ValueError:
        raise ValueError(f"expected a number, found {show(token)}") from None


_OCTAL_FLOAT = re.compile("-?0[0-9]")
_INFINITY = re.compile("-?inf(?:inity)?f?", re.IGNORECASE)
_NAN = re.compile("nanf?", re.IGNORECASE)
_BOOLS = dict.fromkeys(("true", "t", "1", "True"), True) | dict.fromkeys(("false", "f", "0", "False"), False)


def _read_bool(token: str) -> bool:
    value = _BOOLS.get(token)
    if value is None:
        raise ValueError(f"expected true or false, found {show(token)}")
    return value


def _unescape(text: str) -> bytes:
    """Decode a string literal or a part of one. Raises UnicodeError for an invalid escape.

    As the official runtime does, with Python's two codecs for escapes in sequence; `\\?` is an escape in C only.
    """
    if "\\" not in text:
        return text.encode()
    if "\\?" in text:
        text = _QUESTION_MARK.sub(lambda match: f"{match[1][:-1]}?" if len(match[1]) & 1 else match[0], text)
    if "\\x" in text:
        text = _ONE_DIGIT.sub(lambda match: f"{match[1]}x0{match[2]}" if len(match[1]) & 1 else match[0], text)
    if not text.isascii() or "\\u" in text or "\\U" in text:
        text = text.encode("raw_unicode_escape").decode("raw_unicode_escape")
    return text.encode().decode("unicode_escape").encode("latin-1")


# The lookbehind anchors matches at the start of a run of backslashes, which keeps the search linear.
_ONE_DIGIT = re.compile(r"(?<!\\)(\\++)x([0-9a-fA-F])(?![0-9a-fA-F])")
_QUESTION_MARK = re.compile(r"(?<!\\)(\\++)\?")
# The result of such an escape is decoded again together with the text before it: `\1\u0032` is `\12`.
_ASCII_ESCAPE = re.compile(r"\\[uU]00")


# --- the parser

# The pattern matches a field with its value, or the beginning or the end of a message, if the next character shows that
# the match is complete. `_TextParser._read_element` reads everything else, and everything with comments.
# These are the groups of the pattern, which are also the forms of a field's value.
_STRING, _STRING_TOO, _WORD, _LIST, _OPEN, _OPEN_TOO, _NEXT, _CLOSE_LIST, _CLOSE = 2, 3, 4, 5, 6, 7, 8, 9, 10
_IDENTIFIER = "[a-zA-Z_][0-9a-zA-Z_+-]*+"
_TOKEN = rf"(?:{_IDENTIFIER}|(?:[0-9+-]|\.[0-9])[0-9a-zA-Z_.+-]*+)"
_FOLLOWED = r"""\s*+(?:[,;]\s*+)?+(?=[^\s"'#])"""
_BODY = r"""([^"\\\n]*+(?:\\[^\n][^"\\\n]*+)*+)"""
_BODY_TOO = r"""([^'\\\n]*+(?:\\[^\n][^'\\\n]*+)*+)"""
_OPENING = r"((?:\[\s*+)?+[{<])\s*+"
# `_TextParser._read_list` reads longer lists.
_SHORT_LIST = rf"\[\s*+((?:{_TOKEN}\s*+(?:,\s*+{_TOKEN}\s*+){{0,15}}+)?+)\]"
_ELEMENTS = re.compile(
    rf"""({_IDENTIFIER})\s*+(?::\s*+(?:"{_BODY}"{_FOLLOWED}|'{_BODY_TOO}'{_FOLLOWED}|({_TOKEN}){_FOLLOWED}"""
    rf"""|{_SHORT_LIST}{_FOLLOWED}|{_OPENING})|{_OPENING})"""
    rf"""|([}}>]\s*+,\s*+[{{<])\s*+|([}}>]\s*+\]){_FOLLOWED}|([}}>]){_FOLLOWED}|(.)""",
    re.DOTALL,
)
# Strings of a list, each with a comma after it.
_STRINGS = re.compile(rf"""(?:(?:"{_BODY}"|'{_BODY_TOO}')\s*+,\s*+(?=["'])){{1,{BATCH}}}+""".replace("([^", "(?:[^"))
_STRING_BODY = re.compile(rf""""{_BODY}"|'{_BODY_TOO}'""")
_SPACE = re.compile(r"(?:\s++|#[^\n]*+)*+")
_TOKENS = re.compile(rf"{_TOKEN}|.", re.DOTALL)
_WORDS = re.compile(_TOKEN)
_NAME = re.compile(r"\w")
_QUOTES = frozenset("\"'")
_TOO_DEEP = f"messages nested more than {MAX_DEPTH} deep, which protobuf readers reject"

# Numbers in the notation of all printers, which int() and float() can parse.
_INTEGER_ITEM = "-?(?:0|[1-9][0-9]*+)"
_FLOAT_ITEM = r"-?(?:inf|nan|(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?+(?:[eE][+-]?[0-9]++)?+)"
_WORD_ITEM = "[0-9a-zA-Z_]++"


class _Entry(NamedTuple):
    """A field, as the parser needs it."""

    form: int  # _STRING, _WORD, or _OPEN for a message
    read: Any  # converts the token or literal to a value; None if the literal is the value
    is_repeated: bool
    siblings: frozenset[str]  # the other members of its oneof
    field: Any
    table: _Table  # of the message that is the field's value


# The fields of a message by name: the members of the entry, and the entry. Unpacking a tuple takes a third of the time.
_Table = dict[str, tuple[int, Any, bool, frozenset[str], Any, Any, _Entry]]

# A message that is being read: the message; its table; `seen`; its closing bracket: "", "}", ">", or "}]" and ">]" for
# an element of a list; and the field whose value it is. `seen` has an item for each field that occurred, by name: True;
# for repeated messages the method that adds one; for other repeated fields the values that are not in the message yet.
# With named tuples, a text of small messages took 10 to 25 % longer.
_OpenMessage = tuple[Any, _Table, dict[str, Any], str, _Entry | None]


class _TextParser:
    """Reads the output of printers with one match per field, in a loop without calls; all other text by tokens."""

    def __init__(self, window: Window, ignore_unknown: bool) -> None:
        self.window = window
        self.ignore_unknown = ignore_unknown
        self.warned: set[tuple[Any, str]] = set()  # retired fields that occurred, by message and name
        self.stack: list[_OpenMessage] = []
        self.tables: dict[Any, _Table] = {}
        self.runs: dict[tuple[str, str], re.Pattern[str]] = {}
        self.has_fault = False  # the next values contain an error; read them one by one, to find its position

    def parse(self, root: Any) -> None:
        """Read everything into the root message."""
        window = self.window
        table = self.tables[root.DESCRIPTOR] = {}
        self._fill_table(table, root.DESCRIPTOR)
        self._peek()
        frame: _OpenMessage | None = (root, table, {}, "", None)
        while frame is not None:
            frame, run = self._read_plain(frame)
            if run is not None:
                self._read_run(frame, run)
            elif not window.is_last and len(window.buf) - window.pos < AHEAD:
                window.more()  # the element may be incomplete
            else:
                frame = self._read_element(frame)

    # --- the fast path

    def _read_plain(self, frame: _OpenMessage) -> tuple[_OpenMessage, _Entry | None]:
        """Read up to the first element in another notation than that of printers, or with a possible error.

        Returns the frame of the message that contains the element; and a field, if it stopped at a run of its values.
        """
        window, stack = self.window, self.stack
        is_clean = window.is_clean
        message, table, seen, closer, _ = frame
        for match in _ELEMENTS.finditer(window.buf, window.pos):
            kind: int = match.lastindex  # type: ignore[assignment]
            if kind <= _LIST:
                name = match[1]
                row = table.get(name)
                if row is None:
                    break
                form, read, is_repeated, siblings, _, _, entry = row
                value = match[kind]
                if form != kind:
                    if kind == _STRING_TOO and form == _STRING:
                        pass
                    elif kind == _LIST and is_repeated and (form == _WORD or not value):
                        try:
                            listed = [read(word.strip()) for word in value.split(",")] if value else []
                        except ValueError:
                            break
                        if form != _OPEN:
                            seen.setdefault(name, []).extend(listed)
                        continue
                    else:
                        break
                try:
                    if read is not None:
                        value = read(value)
                    elif "\\" in value:
                        value = _unescape(value).decode()
                    elif not is_clean:
                        value.encode()
                except ValueError:
                    break
                if is_repeated:
                    values = seen.get(name)
                    if values is None:
                        seen[name] = [value]
                    else:
                        values.append(value)
                        if not len(values) % _RUN:
                            window.pos = match.end()
                            return frame, entry
                elif name in seen or (siblings and not siblings.isdisjoint(seen)):
                    break
                else:
                    seen[name] = True
                    setattr(message, name, value)
            elif kind <= _OPEN_TOO:
                name = match[1]
                row = table.get(name)
                if row is None or len(stack) == MAX_DEPTH:
                    break
                form, _, is_repeated, siblings, field, child_table, entry = row
                opening = match[kind]
                if form != _OPEN or (
                    not is_repeated and (name in seen or not siblings.isdisjoint(seen) or opening[0] == "[")
                ):
                    break
                if is_repeated:
                    add = seen.get(name)
                    if add is None:
                        seen[name] = add = getattr(message, name).add
                    message = add()
                else:
                    seen[name] = True
                    message = getattr(message, name)
                    message.SetInParent()
                if not child_table:
                    self._fill_table(child_table, field.message_type)
                stack.append(frame)
                table, seen, closer = child_table, {}, _CLOSERS.get(opening) or _closer(opening)
                frame = message, table, seen, closer, entry
            elif (
                (kind == _CLOSE and closer == match[kind])
                or (kind == _NEXT and closer == f"{match[kind][0]}]")
                or (kind == _CLOSE_LIST and closer == f"{match[kind][0]}]")
            ):
                for name, values in seen.items():
                    if values.__class__ is list:
                        getattr(message, name).extend(values)
                if kind == _NEXT:
                    # The next message of the list.
                    holder: Any = frame[4]
                    message = stack[-1][2][holder.field.name]()
                    seen, closer = {}, "}]" if match[kind][-1] == "{" else ">]"
                    frame = message, table, seen, closer, holder
                else:
                    frame = stack.pop()
                    message, table, seen, closer, _ = frame
            else:
                break
        else:
            window.pos = len(window.buf)
            return frame, None
        window.pos = match.start()
        return frame, None

    def _read_run(self, frame: _OpenMessage, entry: _Entry) -> None:
        """Read the following numbers of a repeated field, one per line."""
        field = entry.field
        values = frame[2][field.name]
        if entry.form == _WORD:
            item = _item_of(field)
            pattern = self.runs.get((field.name, item))
            if pattern is None:
                pattern = re.compile(rf"(?:{field.name}:[ ]{item}\s++(?=[a-zA-Z_}}>])){{0,{BATCH}}}+")
                self.runs[field.name, item] = pattern
            while numbers := self._read_batch(entry, pattern, 2):
                values += numbers
                if len(values) >= BATCH:
                    self._append(frame, entry)
        if len(values) >= BATCH:
            self._append(frame, entry)

    def _append(self, frame: _OpenMessage, entry: _Entry) -> None:
        """Move the collected values to the repeated field of the message."""
        values = frame[2][entry.field.name]
        getattr(frame[0], entry.field.name).extend(values)
        values.clear()

    def _read_batch(self, entry: _Entry, pattern: re.Pattern[str], step: int) -> list[Any]:
        """Return the numbers that a pattern matches, the last of each `step` words; none if one of them is invalid."""
        window = self.window
        if len(window.buf) - window.pos < AHEAD and not window.is_last:
            window.more()
        match = pattern.match(window.buf, window.pos)
        if match is None or self.has_fault:
            return []
        words = match[0].replace(",", " ").split()[step - 1 :: step]
        kind = entry.field.type
        try:
            if kind == FieldDescriptor.TYPE_FLOAT or kind == FieldDescriptor.TYPE_DOUBLE:
                numbers = list(map(float, words))
            elif kind == FieldDescriptor.TYPE_BOOL or kind == FieldDescriptor.TYPE_ENUM:
                numbers = list(map(entry.read, words))
            else:
                numbers = list(map(int, words))
                _, least, greatest = INTEGER_RANGES[kind]
                self.has_fault = bool(numbers) and not least <= min(numbers) <= max(numbers) <= greatest
        except ValueError:
            self.has_fault = True
        if self.has_fault:
            return []
        window.pos = match.end()
        return numbers

    # --- the slow path, token by token

    def _read_element(self, frame: _OpenMessage) -> _OpenMessage | None:
        """Read a field or the end of a message; returns the frame to continue with, None at the end of the text."""
        _, table, seen, closer, _ = frame
        window = self.window
        name = self._peek()
        if name == closer[:1]:
            return self._close(frame)
        if not name:
            raise self._error(f"expected {closer[0]!r}, found the end of the text", frame)
        if name == "[":
            raise self._error("expected a field; extensions and Any are not supported here", frame)
        if not _NAME.match(name):
            raise self._error(f"expected a field{f' or {closer[0]!r}' if closer else ''}, found {show(name)}", frame)
        if name not in table:
            if self._may_skip(frame, name):
                self._skip_field(frame, len(self.stack))
                return frame
            raise self._error(unknown_field(frame[0].DESCRIPTOR, name, table), frame)
        entry = table[name][-1]
        if not entry.is_repeated and name in seen:
            raise self._error("the field occurs a second time", frame, entry)
        for other in entry.siblings.intersection(seen):
            oneof = entry.field.containing_oneof.name
            raise self._error(f"{other} is also set, and the oneof {oneof} allows one field", frame, entry)
        window.pos += len(name)
        token = self._peek()
        if token == ":":
            window.pos += 1
            token = self._peek()
        elif entry.form != _OPEN:
            raise self._error(f"expected ':', found {show(token)}", frame, entry)
        if entry.is_repeated and token == "[":
            window.pos += 1
            if self._peek() == "]":
                window.pos += 1
            elif entry.form == _OPEN:
                return self._open(frame, entry, "]")
            else:
                self._read_list(frame, entry)
        elif entry.form == _OPEN:
            return self._open(frame, entry, "")
        elif entry.is_repeated:
            seen.setdefault(name, []).append(self._read_value(frame, entry))
        else:
            setattr(frame[0], name, self._read_value(frame, entry))
            seen[name] = True
        self._skip_separator()
        return frame

    def _open(self, frame: _OpenMessage, entry: _Entry, bracket: str) -> _OpenMessage:
        """Begin a message that is a field's value. bracket: "]" for an element of a list."""
        message, _, seen, _, _ = frame
        name = entry.field.name
        token = self._peek()
        if token != "{" and token != "<":
            raise self._error(f"expected '{{', found {show(token)}", frame, entry)
        if len(self.stack) == MAX_DEPTH:
            raise self._error(_TOO_DEEP, frame, entry)
        self.window.pos += 1
        if entry.is_repeated:
            if name not in seen:
                seen[name] = getattr(message, name).add
            child = seen[name]()
        else:
            seen[name] = True
            child = getattr(message, name)
            child.SetInParent()
        if not entry.table:
            self._fill_table(entry.table, entry.field.message_type)
        self.stack.append(frame)
        self._peek()
        return child, entry.table, {}, ("}" if token == "{" else ">") + bracket, entry

    def _close(self, frame: _OpenMessage) -> _OpenMessage | None:
        """End a message; returns the frame to continue with, None for the root."""
        message, _, seen, closer, entry = frame
        for name, values in seen.items():
            if isinstance(values, list):
                getattr(message, name).extend(values)
        if entry is None:
            return None
        self.window.pos += 1
        if closer[1:]:
            token = self._peek()
            if token != "," and token != "]":
                raise self._error(f"expected ',' or ']', found {show(token)}", frame)
            self.window.pos += 1
            if token == ",":
                return self._open(self.stack.pop(), entry, "]")
        self._skip_separator()
        return self.stack.pop()

    def _read_list(self, frame: _OpenMessage, entry: _Entry) -> None:
        """Read a list of numbers, strings or bytes, including its closing bracket."""
        window = self.window
        values = frame[2].setdefault(entry.field.name, [])
        batch = re.compile(rf"(?:{_item_of(entry.field)}\s*+,\s*+){{0,{BATCH}}}+") if entry.form == _WORD else None
        while True:
            if len(values) >= BATCH:
                self._append(frame, entry)
            self._peek()
            if batch and (numbers := self._read_batch(entry, batch, 1)):
                values += numbers
                continue
            if entry.form == _STRING and (strings := self._read_strings(entry)):
                values += strings
                continue
            values.append(self._read_value(frame, entry))
            token = self._peek()
            if token != "," and token != "]":
                raise self._error(f"expected ',' or ']', found {show(token)}", frame, entry)
            window.pos += 1
            if token == "]":
                return

    def _read_strings(self, entry: _Entry) -> list[Any]:
        """Return the next strings of a list, except the last; none if one of them is invalid."""
        window = self.window
        if len(window.buf) - window.pos < AHEAD and not window.is_last:
            window.more()
        match = _STRINGS.match(window.buf, window.pos)
        if match is None or self.has_fault:
            return []
        try:
            strings: list[Any] = [_unescape(one or other) for one, other in _STRING_BODY.findall(match[0])]
            if entry.field.type == FieldDescriptor.TYPE_STRING:
                strings = [data.decode() for data in strings]
        except ValueError:
            self.has_fault = True
            return []
        window.pos = match.end()
        return strings

    def _read_value(self, frame: _OpenMessage, entry: _Entry) -> Any:
        """Read a number, string or bytes."""
        token = self._peek()
        if entry.form == _STRING:
            data = self._read_literals(frame, entry)
            if entry.field.type == FieldDescriptor.TYPE_BYTES:
                return data
            try:
                return data.decode()
            except UnicodeDecodeError as error:
                reason = f"the string is not valid UTF-8 (at its byte {error.start:,}: {error.reason})"
                raise self._error(reason, frame, entry) from None
        try:
            value = entry.read(token)
        except ValueError as error:
            raise self._error(str(error), frame, entry) from None
        self.window.pos += len(token)
        return value

    # --- unknown fields

    def _may_skip(self, frame: _OpenMessage, name: str) -> bool:
        """Return whether an unknown field may be skipped; warns of a retired one."""
        descriptor = frame[0].DESCRIPTOR
        if self.ignore_unknown:
            return True
        if name not in getattr(descriptor, "retired_names", ()):
            return False
        if (descriptor, name) not in self.warned:
            self.warned.add((descriptor, name))
            import warnings

            error = self._error(f"{descriptor.name} no longer has the field {name!r}; it is skipped", frame)
            warnings.warn(str(error), RetiredFieldWarning, stacklevel=6)
        return True

    def _skip_field(self, frame: _OpenMessage, depth: int) -> None:
        """Skip a field with any value. depth: the number of messages around it."""
        window = self.window
        window.pos += len(self._peek())
        token = self._peek()
        if token == ":":
            window.pos += 1
            token = self._peek()
        elif token not in ("{", "<", "["):
            raise self._error(f"expected ':', found {show(token)}", frame)
        if token != "[":
            self._skip_value(frame, depth)
        else:
            window.pos += 1
            token = self._peek()
            while token != "]":
                self._skip_value(frame, depth)
                token = self._peek()
                if token != "," and token != "]":
                    raise self._error(f"expected ',' or ']', found {show(token)}", frame)
                window.pos += token == ","
            window.pos += 1
        self._skip_separator()

    def _skip_value(self, frame: _OpenMessage, depth: int) -> None:
        """Skip a message, string, number or name."""
        window = self.window
        token = self._peek()
        if token in _QUOTES:
            self._read_literals(frame, None)
        elif token == "{" or token == "<":
            if depth == MAX_DEPTH:
                raise self._error(_TOO_DEEP, frame)
            closer = "}" if token == "{" else ">"
            window.pos += 1
            while (name := self._peek()) != closer:
                if not _NAME.match(name):
                    raise self._error(f"expected a field or {closer!r}, found {show(name)}", frame)
                self._skip_field(frame, depth + 1)
            window.pos += 1
        elif _WORDS.fullmatch(token):
            window.pos += len(token)
        else:
            raise self._error(f"expected a value, found {show(token)}", frame)

    # --- strings

    def _read_literals(self, frame: _OpenMessage, entry: _Entry | None) -> bytes:
        """Read adjacent string literals, which form one value."""
        token = self._peek()
        if token not in _QUOTES:
            raise self._error(f"expected a string, found {show(token)}", frame, entry)
        data = self._read_literal(frame, entry)
        if self._peek() not in _QUOTES:
            return data
        parts = [data]
        while self._peek() in _QUOTES:
            parts.append(self._read_literal(frame, entry))
        return b"".join(parts)

    def _read_literal(self, frame: _OpenMessage, entry: _Entry | None) -> bytes:
        """Read a string literal in pieces."""
        window = self.window
        quote = window.buf[window.pos]
        out = io.BytesIO()
        is_indivisible = False
        at = 1
        while True:
            buf, start = window.buf, window.pos + at
            end = closing_quote(buf, start, quote)
            is_cut = end == len(buf) and not window.is_last
            if buf.find("\n", start, end) >= 0 or (end == len(buf) and not is_cut):
                raise self._error(f"the string is not closed by {quote} on its line", frame, entry)
            if is_cut:
                is_indivisible = is_indivisible or _ASCII_ESCAPE.search(buf, start, end) is not None
                end = start if is_indivisible else safe_cut(buf, start, end)
            try:
                data = _unescape(buf[start:end])
            except (UnicodeDecodeError, UnicodeEncodeError) as error:
                raise self._error(f"the string has an invalid escape ({error.reason})", frame, entry) from None
            if not is_cut:
                window.pos = end + 1
                if not out.tell():
                    return data
                out.write(data)
                return out.getvalue()
            out.write(data)
            if end > start:
                window.pos, at = end, 0
            window.more()

    def _skip_separator(self) -> None:
        token = self._peek()
        if token == "," or token == ";":
            self.window.pos += 1
            self._peek()

    def _peek(self) -> str:
        """Skip white space and comments; returns the next token, the quote of a string, or "" at the end."""
        window = self.window
        while True:
            buf = window.buf
            pos = _SPACE.match(buf, window.pos).end()  # type: ignore[union-attr]
            if pos < len(buf):
                window.pos = pos
                match = _TOKENS.match(buf, pos)
                if match and (match.end() < len(buf) or window.is_last):
                    return match[0]
            elif window.is_last:
                window.pos = pos
                return ""
            else:
                # The next piece of the text may continue a comment in the last line.
                comment = buf.find("#", max(window.pos, buf.rfind("\n") + 1))
                window.pos = pos if comment < 0 else comment
            window.more()

    # --- tables and errors

    def _fill_table(self, table: _Table, descriptor: Any) -> None:
        """Fill the table of a message; tables of its fields' messages are filled when such a message occurs."""
        for field in descriptor.fields:
            oneof = field.containing_oneof
            siblings = frozenset(other.name for other in oneof.fields if other is not field) if oneof else frozenset()
            child = {} if field.message_type is None else self.tables.setdefault(field.message_type, {})
            entry = _Entry(*_form_of(field), field.is_repeated, siblings, field, child)
            table[field.name] = (*entry, entry)

    def _error(self, reason: str, frame: _OpenMessage, entry: _Entry | None = None) -> DecodeError:
        """Make an error for the window's position. entry: the field of the message that contains the position."""
        path = []
        message = None
        for child, _, _, _, child_entry in [*self.stack, frame]:
            if child_entry is not None:
                name = child_entry.field.name
                path.append(f"{name}[{len(getattr(message, name)) - 1}]" if child_entry.is_repeated else name)
            message = child
        if entry is not None:
            name = entry.field.name
            if entry.is_repeated:
                values = frame[2].get(name)
                index = len(getattr(message, name)) + (len(values) if isinstance(values, list) else 0)
                name = f"{name}[{index}]"
            path.append(name)
        return self.window.error(reason, self.window.position(self.window.pos), ".".join(path))


_CLOSERS = {"{": "}", "<": ">", "[{": "}]", "[<": ">]"}


def _closer(opening: str) -> str:
    """Return the closing bracket of a message: `}` or `>`, with `]` after it for an element of a list."""
    return _CLOSERS[opening[0] + opening[-1]]


def _form_of(field: Any) -> tuple[int, Any]:
    """Return the form of a field's value, and the function that converts it."""
    kind = field.type
    if kind == FieldDescriptor.TYPE_MESSAGE:
        return _OPEN, None
    if kind == FieldDescriptor.TYPE_STRING:
        return _STRING, None
    if kind == FieldDescriptor.TYPE_BYTES:
        return _STRING, _unescape
    if kind == FieldDescriptor.TYPE_FLOAT or kind == FieldDescriptor.TYPE_DOUBLE:
        return _WORD, _read_float
    if kind == FieldDescriptor.TYPE_BOOL:
        return _WORD, _read_bool
    return _WORD, enum_reader(field, _read_enum_number, show) if kind == FieldDescriptor.TYPE_ENUM else integer_reader(
        field, _parse_integer, show
    )


def _item_of(field: Any) -> str:
    """Return the pattern of a field's numbers in the notation of printers."""
    kind = field.type
    if kind == FieldDescriptor.TYPE_FLOAT or kind == FieldDescriptor.TYPE_DOUBLE:
        return _FLOAT_ITEM
    return _WORD_ITEM if kind == FieldDescriptor.TYPE_BOOL or kind == FieldDescriptor.TYPE_ENUM else _INTEGER_ITEM
