"""Decodes texts that are written in digits, escapes or another alphabet, to search for programs in them."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator

MAX_CODED_BYTES = 1024  # maximum number of bytes that are decoded at a time
MIN_CODED_BYTES = 24  # minimum length of a text that is decoded
_LETTERS = b"abcdefghijklmnopqrstuvwxyz"
_ROTATED = _LETTERS[13:] + _LETTERS[:13]
_ROTATION = bytes.maketrans(_LETTERS + _LETTERS.upper(), _ROTATED + _ROTATED.upper())  # ROT13
_BASE64 = re.compile(rb"[A-Za-z0-9+/_-]{24,}={0,2}")
_BASE32 = re.compile(rb"(?:[A-Z2-7]{24,}|[a-z2-7]{24,})=*")
_BASE85 = re.compile(rb"(?:<~)?[!-~]{30,}")
_PUNCTUATION = re.compile(rb"[!#$%&*;<>?@^`{|}~()]")
# Prefixes of hexadecimal numbers, and separators between them.
_HEXADECIMAL_ESCAPE = re.compile(rb"\\x|0x|%|\\u00|&#x|U\+00|[\s,;:{}\[\]'\"]+", re.I)
_HEXADECIMAL = re.compile(rb"[0-9a-fA-F]{24,}")
# At least 12 decimal numbers or character references, with a short text before and after them.
_DECIMALS = re.compile(rb"\D{0,24}(?:(?:&#)?\d{1,3}[;,\s]+){12,}(?:&#)?\d{0,3}\D{0,3}")
_BITS = re.compile(rb"[01\s]{96,}")
# The first hexadecimal digits of programs and archives, which are rare in other texts, and further digits.
_PROGRAM_DIGITS = re.compile(
    rb"(?:7f454c460[12]0[12]|4d5a[0-9a-f]{4}|504b0304|fd377a585a|cafebabe0000|cffaedfe|0061736d01|23212f|1f8b08)"
    rb"[0-9a-f]{24,}",
    re.I,
)
# Long words, and the characters that separate words.
_WORDS = re.compile(rb"[^\s\"'=:;,<>()\[\]{}|]{32,}")
_BOUNDARY = re.compile(rb"[\s\"'=:;,<>()\[\]{}|]")
# Many hexadecimal digits, or the first digits of a program (group 1) with characters between its bytes.
_DIGITS = re.compile(
    rb"[0-9a-f]{32}|(7f\W{1,4}(?:0x|x|u00)?45|4d\W{1,4}(?:0x|x|u00)?5a|50\W{1,4}(?:0x|x|u00)?4b)", re.I
)
_MAX_WORDS = 4  # maximum number of parts of one kind that are decoded in a text
_DATA_ADDRESS = re.compile(rb"^data:[\w/.+-]{0,64};base64,")
# Bytes that are not ASCII, and control characters other than white space.
_NON_TEXT = bytes(range(9)) + bytes(range(14, 32)) + bytes(range(127, 256))


def decodings(text: bytes) -> Iterator[bytes]:
    """Yield possible decodings of a text: ROT13, reversed, UTF-16, uuencode, digits, escapes, base64, base32, base85.

    Only the first MAX_CODED_BYTES bytes are decoded; a text of less than MIN_CODED_BYTES bytes has no decodings.
    """
    if len(text) < MIN_CODED_BYTES:
        return
    text = text[:MAX_CODED_BYTES].strip()
    if b" " in text:
        yield text.translate(_ROTATION)
        yield text[::-1]
    if text[1::2].count(0) > len(text) // 4:
        yield text[::2]  # UTF-16
    if text.startswith(b"begin "):
        yield _decode_lines(text)
    coded = _DATA_ADDRESS.sub(b"", text)
    for _ in range(2):  # a decoding that is text is decoded again, such as base64 of base64
        decoded = _decode_digits(coded)
        yield from decoded
        coded = next((result for result in decoded if len(result) >= MIN_CODED_BYTES and is_text(result)), b"")
        if not coded:
            break


def inner_decodings(text: bytes) -> Iterator[bytes]:
    """Yield the decoded bytes of parts of a text: digits that begin like those of a program, and the first long words.

    The digits may also be reversed.
    """
    if len(text) <= MIN_CODED_BYTES:
        return
    digits_match = _DIGITS.search(text)
    digits = _HEXADECIMAL_ESCAPE.sub(b"", text) if digits_match is not None and digits_match[1] else text
    for directed_digits in (digits, digits[-MAX_CODED_BYTES:][::-1]) if digits_match is not None else ():
        for match, _ in zip(_PROGRAM_DIGITS.finditer(directed_digits), range(_MAX_WORDS), strict=False):
            part = match[0][:MAX_CODED_BYTES]
            yield bytes.fromhex(part[: len(part) // 2 * 2].decode())
    if len(text) > MAX_CODED_BYTES or _BOUNDARY.search(text.strip()):
        for match, _ in zip(_WORDS.finditer(text), range(_MAX_WORDS), strict=False):
            yield from _decode_digits(match[0][:MAX_CODED_BYTES])


def is_text(data: bytes) -> bool:
    """Return whether bytes are readable: ASCII without control characters other than white space."""
    return len(data.translate(None, _NON_TEXT)) == len(data)


def _decode_digits(text: bytes) -> list[bytes]:
    """Return the decoded bytes of a text for each encoding whose alphabet the text fits.

    The reversed text is also decoded as base64. The text is decoded as base85 only if it fits no other alphabet.
    """
    results = []
    joined = text.replace(b"\n", b"").replace(b"\r", b"")
    for digits in (joined, joined[::-1]):
        if _BASE64.fullmatch(digits.lstrip(b"=")):
            unpadded = digits.strip(b"=").translate(bytes.maketrans(b"-_", b"+/"))
            # No encoding has 4 n + 1 digits in base64, or 8 n + 1, 3 or 6 in base32, so the last digits are cut off.
            unpadded = unpadded[:-1] if len(unpadded) % 4 == 1 else unpadded
            results.append(base64.b64decode(unpadded + b"=" * (-len(unpadded) % 4)))
    if _BASE32.fullmatch(joined):
        unpadded = joined.strip(b"=")
        while len(unpadded) % 8 in (1, 3, 6):
            unpadded = unpadded[:-1]
        results.append(base64.b32decode(unpadded + b"=" * (-len(unpadded) % 8), casefold=True))
    if _BITS.fullmatch(text):
        bits = b"".join(text.split())
        # The digit 1 before the bits preserves leading zeros.
        results.append(int(b"1" + bits[: len(bits) // 8 * 8], 2).to_bytes(len(bits) // 8 + 1, "big")[1:])
    elif _DECIMALS.fullmatch(text):
        numbers = [int(number) for number in re.findall(rb"\d+", text)]
        results.append(bytes(number for number in numbers if number < 256))
    hexadecimal = _HEXADECIMAL_ESCAPE.sub(b"", text)
    if _HEXADECIMAL.fullmatch(hexadecimal):
        results.append(bytes.fromhex(hexadecimal[: len(hexadecimal) // 2 * 2].decode()))
    if not results and _BASE85.fullmatch(joined) and _PUNCTUATION.search(joined):
        for decode in (base64.b85decode, base64.a85decode):
            try:
                results.append(decode(joined.removeprefix(b"<~").removesuffix(b"~>")))
            except ValueError:
                continue
    return results


def _decode_lines(text: bytes) -> bytes:
    """Return the content of a text of uuencode, up to the first line that is damaged."""
    parts = []
    for line in text.split(b"\n")[1:]:
        try:
            parts.append(binascii.a2b_uu(line))
        except binascii.Error:
            break
    return b"".join(parts)
