"""Convert text for file formats that require valid UTF-8."""

from __future__ import annotations


def valid_text(name: str) -> str:
    """Return a name as valid UTF-8 text.

    Lone surrogates that encode invalid bytes (`surrogateescape`) are escaped as in \\xff. If the name contains a lone
    surrogate that encodes no byte, all are escaped as in \\udc00.
    """
    try:
        data = name.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # a lone surrogate that does not encode a byte
        data = name.encode("utf-8", "backslashreplace")
    return data.decode("utf-8", "backslashreplace")
