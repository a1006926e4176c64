"""Convert names for file formats that require valid UTF-8."""

from __future__ import annotations


def valid_text(name: str) -> str:
    """Return a name as valid UTF-8 text.

    Invalid bytes are escaped as in \\xff. If a lone surrogate of the name encodes no byte, all lone surrogates are
    escaped as in \\udc00, including those that encode bytes.
    """
    try:
        data = name.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # a lone surrogate that does not encode a byte
        data = name.encode("utf-8", "backslashreplace")
    return data.decode("utf-8", "backslashreplace")
