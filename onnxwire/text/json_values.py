"""Converts JSON values to values of fields."""

from __future__ import annotations

from binascii import a2b_base64
from collections.abc import Callable
from contextlib import suppress
from json import dumps
from math import isfinite
from typing import Any

from onnxwire.engine.descriptor import INTEGER_RANGES, FieldDescriptor
from onnxwire.text.number_ranges import enum_reader, integer_reader

LONE_SURROGATE_REASON = "the string has a lone surrogate, which is not text"
_FLOAT_MAX = float.fromhex("0x1.fffffep+127")  # the largest finite float of 32 bits


def _quote_value(value: object) -> str:
    """Quote a value for an error message."""
    if isinstance(value, tuple | list):
        return "an object or array"
    text = dumps(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


def _convert_text(value: Any) -> str:
    """Return a str that can be encoded as UTF-8. Raise ValueError for other values."""
    if value.__class__ is not str:
        raise ValueError(f"expected a string, found {_quote_value(value)}")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise ValueError(LONE_SURROGATE_REASON) from None
    return value


def _convert_base64(value: Any) -> bytes:
    """Return the bytes of a JSON string of base64; raise ValueError for other values."""
    if value.__class__ is not str:
        raise ValueError(f"expected a string of base64, found {_quote_value(value)}")
    try:
        return decode_base64(value.encode())
    except UnicodeEncodeError:
        raise ValueError(LONE_SURROGATE_REASON) from None


def decode_base64(data: bytes) -> bytes:
    """Decode base64, standard or URL-safe, with or without padding. Skip other characters, as Python's base64 does.

    Raises ValueError.
    """
    try:
        return a2b_base64(data.translate(FROM_URL_SAFE) + b"=" * (4 - len(data) % 4))
    except ValueError as error:
        raise ValueError(f"the string is not valid base64 ({error})") from None


FROM_URL_SAFE = bytes.maketrans(b"-_", b"+/")
"""A translation table from the URL-safe alphabet of base64 to the standard one."""


def _integer_of(value: Any) -> int:
    """Convert a JSON number, or a string that contains one, to an int. Raises ValueError."""
    if value.__class__ is int:
        return int(value)
    number = 0.5  # not an integer, so values that are not numbers are rejected
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
    raise ValueError(f"expected an integer, found {_quote_value(value)}")


def _float_converter(field: Any) -> Callable[[Any], float]:
    """Return the converter for a field of type float or double."""
    is_single = field.type == FieldDescriptor.TYPE_FLOAT

    def convert(value: Any) -> float:
        if isinstance(value, float):
            if not isfinite(value):
                raise ValueError('expected a finite number; "NaN", "Infinity" and "-Infinity" need quotes')
            if is_single and abs(value) > _FLOAT_MAX:
                raise ValueError(f"{_quote_value(value)} is out of the range of float")
            return value
        if isinstance(value, str | int) and value != "nan":  # the official runtime requires the spelling "NaN"
            try:
                return float(value)
            except ValueError:
                pass
            except OverflowError:
                raise ValueError(f"{_quote_value(value)} is out of the range of double") from None
        raise ValueError(f"expected a number, found {_quote_value(value)}")

    return convert


def _convert_bool(value: Any) -> bool:
    if value.__class__ is not bool:
        raise ValueError(f"expected true or false, found {_quote_value(value)}")
    return value


def converter_of(field: Any) -> Callable[[Any], Any] | None:
    """Return the function that converts a JSON value to a field's value, or raises ValueError; None for a message."""
    kind = field.type
    if kind == FieldDescriptor.TYPE_FLOAT or kind == FieldDescriptor.TYPE_DOUBLE:
        return _float_converter(field)
    if kind == FieldDescriptor.TYPE_ENUM:
        return enum_reader(field, int, _quote_value)
    if kind in INTEGER_RANGES:
        return integer_reader(field, _integer_of, _quote_value)
    return _CONVERTERS.get(kind)


_CONVERTERS: dict[int, Callable[[Any], Any]] = {
    FieldDescriptor.TYPE_STRING: _convert_text,
    FieldDescriptor.TYPE_BYTES: _convert_base64,
    FieldDescriptor.TYPE_BOOL: _convert_bool,
}
