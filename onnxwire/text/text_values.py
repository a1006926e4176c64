"""Converts tokens and string literals of the text format to values of fields."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from onnxwire.engine.descriptor import INTEGER_RANGES, FieldDescriptor
from onnxwire.text.number_ranges import enum_reader, integer_reader
from onnxwire.text.text_source import quote_token


class RetiredFieldWarning(UserWarning):
    """A text sets a field that was removed from the message, or is reserved; the field was skipped."""

    __module__ = "onnxwire"


def _parse_integer(token: str) -> int:
    """Convert a number in C's or Python's notation. Raises ValueError."""
    try:
        return int(token, 0)
    except ValueError:
        octal = _OCTAL.fullmatch(token)
        if octal is None:
            raise ValueError(f"expected an integer, found {quote_token(token)}") from None
        return int(f"{octal[1]}0o{octal[2]}", 0)


_OCTAL = re.compile("(-?)0([0-7]+)")


def _read_enum_number(token: str) -> int:
    return int(token, 0)


def _read_float(token: str) -> float:
    """Convert a number, an infinity or a NaN, all with or without the suffix f. Raises ValueError."""
    if _OCTAL_FLOAT.match(token):
        raise ValueError(f"{quote_token(token)} looks octal; floats have no octal notation")
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
        raise ValueError(f"expected a number, found {quote_token(token)}") from None


_OCTAL_FLOAT = re.compile("-?0[0-9]")
_INFINITY = re.compile("-?inf(?:inity)?f?", re.IGNORECASE)
_NAN = re.compile("nanf?", re.IGNORECASE)
_BOOLS = dict.fromkeys(("true", "t", "1", "True"), True) | dict.fromkeys(("false", "f", "0", "False"), False)


def _read_bool(token: str) -> bool:
    value = _BOOLS.get(token)
    if value is None:
        raise ValueError(f"expected true or false, found {quote_token(token)}")
    return value


def unescape(text: str) -> bytes:
    """Decode the escapes of a string literal or a part of one. Raises UnicodeError for an invalid escape.

    Like the official runtime, this decodes with `raw_unicode_escape` and then `unicode_escape`. C's `\\?` and one-digit
    `\\x`, which Python lacks, are replaced before.
    """
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


def converter_of(field: Any) -> Callable[[str], Any] | None:
    """Return the function that converts a token to a value of a numeric, bool or enum field, or None for another field.

    The returned function raises ValueError for an invalid token.
    """
    kind = field.type
    if kind == FieldDescriptor.TYPE_FLOAT or kind == FieldDescriptor.TYPE_DOUBLE:
        return _read_float
    if kind == FieldDescriptor.TYPE_BOOL:
        return _read_bool
    if kind == FieldDescriptor.TYPE_ENUM:
        return enum_reader(field, _read_enum_number, quote_token)
    return integer_reader(field, _parse_integer, quote_token) if kind in INTEGER_RANGES else None
