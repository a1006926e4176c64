"""Converters of numbers and enum names in a text to values of fields, with range checks and error messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from onnxwire.engine.descriptor import INTEGER_RANGES, FieldDescriptor


class UnknownNameError(ValueError):
    """An enum has no value of this name."""


def integer_reader(field: Any, parse: Callable[[Any], int], quote: Callable[[Any], str]) -> Callable[[Any], int]:
    """Return a function that converts a value to an int that an integer field can store, or raises ValueError.

    parse: converts a value to an int, or raises ValueError. quote: quotes a value in an error.
    """
    type_name, minimum, maximum = INTEGER_RANGES[field.type]

    def read(value: Any) -> int:
        number = parse(value)
        if minimum <= number <= maximum:
            return number
        raise ValueError(f"{quote(value)} is out of the range of {type_name}")

    return read


def enum_reader(field: Any, parse: Callable[[Any], int], quote: Callable[[Any], str]) -> Callable[[Any], int]:
    """Return a function that converts a name or number to the number of one of the enum's values.

    For an open enum, any int32 number is accepted. The function raises UnknownNameError for a str that is neither a
    name nor a number, ValueError for other invalid values. parse, quote: as for `integer_reader`; parse may also raise
    TypeError or OverflowError.
    """
    enum = field.enum_type
    numbers: dict[str, int] = {name: value.number for name, value in enum.values_by_name.items()}
    known_numbers = set(numbers.values())
    _, minimum, maximum = INTEGER_RANGES[FieldDescriptor.TYPE_ENUM]

    def read(value: Any) -> int:
        is_text = value.__class__ is str
        number = numbers.get(value) if is_text else None
        if number is not None:
            return number
        try:
            number = parse(value)
        except (ValueError, TypeError, OverflowError):
            error_class = UnknownNameError if is_text else ValueError
            raise error_class(f"{enum.full_name} has no value {quote(value)}") from None
        if number in known_numbers or (not enum.is_closed and minimum <= number <= maximum):
            return number
        raise ValueError(f"{enum.full_name} has no value with the number {quote(value)}")

    return read
