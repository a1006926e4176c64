"""Numbers and names of enums that a text has for fields: their ranges, and what is said of those that do not fit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from onnxwire.engine.descriptor import FieldDescriptor

INTEGER_RANGES = {
    FieldDescriptor.TYPE_INT32: ("int32", -(1 << 31), (1 << 31) - 1),
    FieldDescriptor.TYPE_SINT32: ("sint32", -(1 << 31), (1 << 31) - 1),
    FieldDescriptor.TYPE_SFIXED32: ("sfixed32", -(1 << 31), (1 << 31) - 1),
    FieldDescriptor.TYPE_INT64: ("int64", -(1 << 63), (1 << 63) - 1),
    FieldDescriptor.TYPE_SINT64: ("sint64", -(1 << 63), (1 << 63) - 1),
    FieldDescriptor.TYPE_SFIXED64: ("sfixed64", -(1 << 63), (1 << 63) - 1),
    FieldDescriptor.TYPE_UINT32: ("uint32", 0, (1 << 32) - 1),
    FieldDescriptor.TYPE_FIXED32: ("fixed32", 0, (1 << 32) - 1),
    FieldDescriptor.TYPE_UINT64: ("uint64", 0, (1 << 64) - 1),
    FieldDescriptor.TYPE_FIXED64: ("fixed64", 0, (1 << 64) - 1),
    FieldDescriptor.TYPE_ENUM: ("an enum", -(1 << 31), (1 << 31) - 1),
}


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
