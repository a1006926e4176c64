"""Decodes texts that are written in digits, escapes or another alphabet, for the search of programs in metadata."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator

MAX_CODED_BYTES = 1024  # maximum number of bytes of a text that is decoded
MIN_CODED_BYTES = 24  # minimum length of a text that is decoded
_LETTERS = b"abcdefghijklmnopqrstuvwxyz"
_ROTATED = _LETTERS[13:] + _LETTERS[:13]
_ROTATION = bytes.maketrans(_LETTERS + _LETTERS.upper(), _ROTATED + _ROTATED.upper())  # ROT13
_BASE64 = re.compile(rb"[A-Za-z0-9+/_-]{24,}={0,2}")
_BASE32 = re.compile(rb"(?:[A-Z2-7]{24,}|[a-z2-7]{24,})=*")
_BASE85 = re.compile(rb"(?:<~)?[!-~]{30,}")
_PUNCTUATION = re.compile(rb"[!#$%&*;<>?@^`{|}~()]")
_HEXADECIMAL_ESCAPE = re.compile(rb"\\x|0x|%|\\u00|&#x|U\+00|[\s,;:{}\[\]'\"]+", re.I)
_HEXADECIMAL = re.compile(rb"[0-9a-fA-F]{24,}")
_DECIMALS = re.compile(rb"\D{0,24}(?:(?:&#)?\d{1,3}[;,\s]+){12,}(?:&#)?\d{0,3}\D{0,3}")
_BITS = re.compile(rb"[01\s]{96,}")
# The first digits of programs and archives, which other digits rarely have by chance, before more digits.
_PROGRAM_DIGITS = re.compile(
    rb"(?:7f454c460[12]0[12]|4d5a[0-9a-f]{4}|504b0304|fd377a585a|cafebabe0000|cffaedfe|0061736d01|23212f|1f8b08)"
    rb"[0-9a-f]{24,}",
    re.I,
)
_WORDS = re.compile(rb"[^\s\"'=:;,<>()\[\]{}|]{32,}")
_BOUNDARY = re.compile(rb"[\s\"'=:;,<>()\[\]{}|]")
# Many digits, or the first ones of a program with characters between them.
_DIGITS = re.compile(
    rb"[0-9a-f]{32}|(7f\W{1,4}(?:0x|x|u00)?45|4d\W{1,4}(?:0x|x|u00)?5a|50\W{1,4}(?:0x|x|u00)?4b)", re.I
)
_MAX_WORDS = 4
_DATA_ADDRESS = re.compile(rb"^data:[\w/.+-]{0,64};base64,")
_NON_TEXT = bytes(range(9)) + bytes(range(14, 32)) + bytes(range(127, 256))


def decodings(text: bytes) -> Iterator[bytes]:
    """Yield what a text may be in another form: letters moved by 13 or backwards, digits, escapes, base64, 32 or 85."""
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
    for _ in range(2):  # base64 of base64
        decoded = _decode_digits(coded)
        yield from decoded
        coded = next((one for one in decoded if len(one) >= MIN_CODED_BYTES and is_text(one)), b"")
        if not coded:
            break


def inner_decodings(text: bytes) -> Iterator[bytes]:
    """Yield the decoded bytes of parts of a text: digits that begin as those of a program, and the first long words."""
    if len(text) <= MIN_CODED_BYTES:
        return
    found = _DIGITS.search(text)
    digits = _HEXADECIMAL_ESCAPE.sub(b"", text) if found is not None and found[1] else text
    for order in (digits, digits[-MAX_CODED_BYTES:][::-1]) if found is not None else ():
        for found, _ in zip(_PROGRAM_DIGITS.finditer(order), range(_MAX_WORDS), strict=False):
            part = found[0][:MAX_CODED_BYTES]
            yield bytes.fromhex(part[: len(part) // 2 * 2].decode())
    if len(text) > MAX_CODED_BYTES or _BOUNDARY.search(text.strip()):
        for found, _ in zip(_WORDS.finditer(text), range(_MAX_WORDS), strict=False):
            yield from _decode_digits(found[0][:MAX_CODED_BYTES])


def is_text(data: bytes) -> bool:
    """Return whether bytes are readable: they have no control characters and are ASCII."""
    return len(data.translate(None, _NON_TEXT)) == len(data)


def _decode_digits(text: bytes) -> list[bytes]:
    """Return the results of all encodings whose alphabet a text keeps to."""
    found = []
    joined = text.replace(b"\n", b"").replace(b"\r", b"")
    for digits in (joined, joined[::-1]):
        if _BASE64.fullmatch(digits.lstrip(b"=")):
            plain = digits.strip(b"=").translate(bytes.maketrans(b"-_", b"+/"))
            plain = plain[:-1] if len(plain) % 4 == 1 else plain
            found.append(base64.b64decode(plain + b"=" * (-len(plain) % 4)))
    if _BASE32.fullmatch(joined):
        plain = joined.strip(b"=")
        while len(plain) % 8 in (1, 3, 6):
            plain = plain[:-1]
        found.append(base64.b32decode(plain + b"=" * (-len(plain) % 8), casefold=True))
    if _BITS.fullmatch(text):
        bits = b"".join(text.split())
        found.append(int(b"1" + bits[: len(bits) // 8 * 8], 2).to_bytes(len(bits) // 8 + 1, "big")[1:])
    elif _DECIMALS.fullmatch(text):
        numbers = [int(number) for number in re.findall(rb"\d+", text)]
        found.append(bytes(number for number in numbers if number < 256))
    hexadecimal = _HEXADECIMAL_ESCAPE.sub(b"", text)
    if _HEXADECIMAL.fullmatch(hexadecimal):
        found.append(bytes.fromhex(hexadecimal[: len(hexadecimal) // 2 * 2].decode()))
    if not found and _BASE85.fullmatch(joined) and _PUNCTUATION.search(joined):
        for decode in (base64.b85decode, base64.a85decode):
            try:
                found.append(decode(joined.removeprefix(b"<~").removesuffix(b"~>")))
            except ValueError:
                continue
    return found


def _decode_lines(text: bytes) -> bytes:
    """Return the content of a text of uuencode, up to the first line that is damaged."""
    parts = []
    for line in text.split(b"\n")[1:]:
        try:
            parts.append(binascii.a2b_uu(line))
        except binascii.Error:
            break
    return b"".join(parts)
