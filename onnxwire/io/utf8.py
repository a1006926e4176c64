"""Names for file formats that hold nothing but UTF-8."""

from __future__ import annotations


def valid_text(name: str) -> str:
    """A name as formats take it that hold UTF-8 only: bytes that are not are written as \\xff and the like."""
    try:
        data = name.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # a half of a pair, which no bytes stand for
        data = name.encode("utf-8", "backslashreplace")
    return data.decode("utf-8", "backslashreplace")
