"""Numbers and names of enums that a text has for fields: their ranges, and what is said of those that do not fit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from onnxwire.engine.descriptor import INTEGER_RANGES, FieldDescriptor


class UnknownNameError(ValueError):
    """A name that an enum does not have."""


def integer_reader(field: Any, parse: Callable[[Any], int], show: Callable[[Any], str]) -> Callable[[Any], int]:
    """The function that reads a value of an integer field.

    parse: gives the number of a value, or raises ValueError; show: how errors quote a value.
    """
    name, least, greatest = INTEGER_RANGES[field.type]

    def read(value: Any) -> int:
        number = parse(value)
        if least <= number <= greatest:
            return number
        raise ValueError(f"{show(value)} is out of the range of {name}")

    return read


def enum_reader(field: Any, parse: Callable[[Any], int], show: Callable[[Any], str]) -> Callable[[Any], int]:
    """The function that reads a value of an enum field, a name or a number; as of `integer_reader`.

    It raises UnknownNameError for a name that the enum does not have.
    """
    enum = field.enum_type
    numbers: dict[str, int] = {name: value.number for name, value in enum.values_by_name.items()}
    known = set(numbers.values())
    _, least, greatest = INTEGER_RANGES[FieldDescriptor.TYPE_ENUM]

    def read(value: Any) -> int:
        is_name = value.__class__ is str
        number = numbers.get(value) if is_name else None
        if number is not None:
            return number
        try:
            number = parse(value)
        except (ValueError, TypeError, OverflowError):
            error_class = UnknownNameError if is_name else ValueError
            raise error_class(f"{enum.full_name} has no value {show(value)}") from None
        if number in known or (not enum.is_closed and least <= number <= greatest):
            return number
        raise ValueError(f"{enum.full_name} has no value with the number {show(value)}")

    return read
