"""Writes messages in the JSON format of protobuf."""

from __future__ import annotations

import io
from binascii import b2a_base64
from collections.abc import Sequence
from itertools import islice
from json.encoder import encode_basestring_ascii
from typing import IO, Any, overload

from onnxwire.engine.descriptor import EnumDescriptor, FieldDescriptor
from onnxwire.engine.document import Document
from onnxwire.engine.floats import shortest_floats
from onnxwire.engine.message import Message
from onnxwire.engine.nesting_limit import MAX_DEPTH, depth_error
from onnxwire.errors import DecodeError
from onnxwire.text.printed_fields import (
    BATCH_NUMBERS,
    Format,
    LongValue,
    check_arguments,
    count_bytes,
    enum_format,
    format_bools,
    format_plainly,
    present_fields,
)


@overload
def to_json(
    message: Message,
    out: None = None,
    *,
    max_bytes: int | None = None,
    indent: int | None = 2,
    preserving_proto_field_name: bool = False,
) -> str: ...
@overload
def to_json(
    message: Message,
    out: IO[str],
    *,
    max_bytes: int | None = None,
    indent: int | None = 2,
    preserving_proto_field_name: bool = False,
) -> None: ...
def to_json(
    message: Message,
    out: IO[str] | None = None,
    *,
    max_bytes: int | None = None,
    indent: int | None = 2,
    preserving_proto_field_name: bool = False,
) -> str | None:
    """Write a message as JSON, as google.protobuf.json_format.MessageToJson does.

    message: any message; at most a few hundred kB are read at a time. out: a text file to write to; without one the
    JSON is returned. max_bytes: strings and bytes of more bytes, and repeated numbers of more elements, are replaced by
    objects such as {"elidedBytes": 4096} and {"elidedValues": 1000}, which parsers of messages reject. indent: spaces
    per level; None for one line. preserving_proto_field_name: write `raw_data` instead of `rawData`; readers accept
    both.
    Raises DecodeError if the message is damaged, nested more than 100 deep or has a string that is not valid UTF-8,
    which JSON can't represent; the output up to that point is written. Raises TypeError for an object that is not a
    message, and ValueError for a negative max_bytes.
    """
    check_arguments(message, max_bytes)
    if out is not None:
        _JsonPrinter(out, message._document, max_bytes, indent, preserving_proto_field_name).print_message(message, 0)
        return None
    text = io.StringIO()
    _JsonPrinter(text, message._document, max_bytes, indent, preserving_proto_field_name).print_message(message, 0)
    return text.getvalue()


def _quote_integers(values: Sequence[Any]) -> list[str]:
    """Format integers of 64 bits, which JSON messages store as strings."""
    return [f'"{value}"' for value in values]


def _format_floats(values: Sequence[float]) -> list[str]:
    return _format_doubles(shortest_floats(values))


def _format_doubles(values: Sequence[float]) -> list[str]:
    texts = list(map(repr, values))
    return [_NOT_FINITE.get(text, text) for text in texts]


_NOT_FINITE = {"nan": '"NaN"', "inf": '"Infinity"', "-inf": '"-Infinity"'}
_FORMATS: dict[int, Format] = {
    FieldDescriptor.TYPE_BOOL: format_bools,
    FieldDescriptor.TYPE_FLOAT: _format_floats,
    FieldDescriptor.TYPE_DOUBLE: _format_doubles,
    FieldDescriptor.TYPE_INT64: _quote_integers,
    FieldDescriptor.TYPE_UINT64: _quote_integers,
    FieldDescriptor.TYPE_SINT64: _quote_integers,
    FieldDescriptor.TYPE_FIXED64: _quote_integers,
    FieldDescriptor.TYPE_SFIXED64: _quote_integers,
}


class _JsonPrinter:
    """Prints a message and its nested messages.

    out: the text file; document: the document of the root message; preserves_names: preserving_proto_field_name of
    `to_json`; the other arguments are those of `to_json`. The parameter line_break of the methods is the text that
    begins a line of the enclosing object or array: a newline and spaces, or "" for one line; None for the root message.
    """

    def __init__(
        self, out: IO[str], document: Document, max_bytes: int | None, indent: int | None, preserves_names: bool
    ) -> None:
        self.write = out.write
        self.document = document
        self.max_bytes = max_bytes
        self.preserves_names = preserves_names
        self.step = "" if indent is None else " " * indent  # indentation of one level
        self.root_break = "" if indent is None else "\n"
        self.comma = ", " if indent is None else ","
        self.keys: dict[FieldDescriptor, str] = {}  # results of `_key`
        self.enum_formats: dict[EnumDescriptor, Format] = {}
        self.path: list[tuple[FieldDescriptor, int]] = []  # the path of the message that is being printed

    def print_message(self, message: Message, depth: int, line_break: str | None = None) -> None:
        """Print a message. depth: the number of messages around it."""
        if depth > MAX_DEPTH:
            raise depth_error(message)
        write = self.write
        outer_break = self.root_break if line_break is None else line_break
        inner_break = outer_break + self.step
        prefix = "{" + inner_break
        for field, values in present_fields(message):
            write(prefix + self._key(field))
            prefix = self.comma + inner_break
            if field.type == FieldDescriptor.TYPE_MESSAGE:
                if field.is_repeated:
                    element_break = inner_break + self.step
                    bracket = "[" + element_break
                    for index, value in enumerate(values):
                        write(bracket)
                        self._print_child(field, index, value, depth + 1, element_break)
                        bracket = self.comma + element_break
                    write(inner_break + "]")
                else:
                    for value in values:
                        self._print_child(field, 0, value, depth + 1, inner_break)
            elif field.type == FieldDescriptor.TYPE_STRING or field.type == FieldDescriptor.TYPE_BYTES:
                self._print_payloads(message, field, values, inner_break)
            else:
                self._print_numbers(field, values, inner_break)
        write("{}" if prefix[0] == "{" else outer_break + "}")

    def _print_child(self, field: FieldDescriptor, index: int, value: Message, depth: int, line_break: str) -> None:
        """Print one message of a field. index: the index of the message in the field, 0 for a singular field."""
        self.path.append((field, index))
        self.print_message(value, depth, line_break)
        self.path.pop()

    def _key(self, field: FieldDescriptor) -> str:
        """Return the key of a field in quotes, a colon and a space."""
        key = self.keys.get(field)
        if key is None:
            name = field.name if self.preserves_names else field.json_name
            key = self.keys[field] = encode_basestring_ascii(name) + ": "
        return key

    def _print_payloads(self, message: Message, field: FieldDescriptor, values: Any, line_break: str) -> None:
        """Print the value or values of a string or bytes field."""
        if not field.is_repeated:
            for value in values:
                self._print_payload("", message, field, value, 0)
            return
        element_break = line_break + self.step
        prefix = "[" + element_break
        for index, value in enumerate(values):
            self._print_payload(prefix, message, field, value, index)
            prefix = self.comma + element_break
        self.write(line_break + "]")

    def _print_payload(
        self, prefix: str, message: Message, field: FieldDescriptor, value: str | bytes | LongValue, index: int
    ) -> None:
        """Print a prefix and one string or bytes value. index: the index of the value, 0 for a singular field."""
        if self.max_bytes is not None and count_bytes(value) > self.max_bytes:
            self.write(f'{prefix}{{"elidedBytes": {count_bytes(value)}}}')
        elif isinstance(value, str):
            if not value.isascii():
                self._check_text(value, message, field, index)
            self.write(prefix + encode_basestring_ascii(value))
        elif isinstance(value, bytes):
            self.write(f'{prefix}"{b2a_base64(value, newline=False).decode("ascii")}"')
        else:
            self.write(prefix + '"')
            if field.type == FieldDescriptor.TYPE_STRING:
                for text in value.read_text():
                    self._check_text(text, message, field, index)
                    self.write(encode_basestring_ascii(text)[1:-1])
            else:
                for piece in value.read():
                    self.write(b2a_base64(piece, newline=False).decode("ascii"))
            self.write('"')

    def _print_numbers(self, field: FieldDescriptor, values: Any, line_break: str) -> None:
        """Print the value or values of a number, bool or enum field."""
        if field.enum_type is None:
            format_batch = _FORMATS.get(field.type, format_plainly)
        else:
            format_batch = self.enum_formats.get(field.enum_type) or enum_format(
                field.enum_type, encode_basestring_ascii
            )
            self.enum_formats[field.enum_type] = format_batch
        if not field.is_repeated:
            self.write(format_batch(values)[0])
            return
        if self.max_bytes is not None and len(values) > self.max_bytes:
            self.write(f'{{"elidedValues": {len(values)}}}')
            return
        separator = self.comma + line_break + self.step
        prefix = "[" + line_break + self.step
        iterator = iter(values)
        while batch := list(islice(iterator, BATCH_NUMBERS)):
            self.write(prefix + separator.join(format_batch(batch)))
            prefix = separator
        self.write(line_break + "]")

    def _check_text(self, text: str, message: Message, field: FieldDescriptor, index: int) -> None:
        """Raise DecodeError with the path of the field if a string is not valid UTF-8."""
        try:
            text.encode()
        except UnicodeEncodeError:
            pass
        else:
            return
        from onnxwire.engine.field_path import field_path

        payload = getattr(message, field.name)._payloads()[index] if field.is_repeated else message._payload(field.name)
        document = self.document
        steps = [*self.path, (field, index)]
        path = ".".join(step.name + (f"[{step_index}]" if step.is_repeated else "") for step, step_index in steps)
        offset = None
        # A string that was assigned has a path in the message, but no offset in the file.
        if payload is not None and payload.span is not None and payload.document is document and document.root:
            offset = payload.span[0]
            path = field_path(document, offset)
        reason = "the string is not valid UTF-8, which JSON can't represent; use text (onnxwire dump without --json)"
        raise DecodeError(reason, offset, path, document.name)
