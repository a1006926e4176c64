"""Recognizes programs, archives and other formats that can carry attacks, by their first bytes."""

from __future__ import annotations

import re
import zlib
from functools import cache
from typing import Any

import numpy as np

PREFIX_BYTES = 512  # number of first bytes that are compared
# The header of .lzma: the usual properties and dictionary size, then an uncompressed size that is unknown or less than
# 4 GiB.
_OLD_LZMA = re.compile(rb"\x5d\0\0.\0\xff{8}|\x5d\0\0.\0.{4}\0{4}", re.S)
# The opcode PROTO with a version, then the first opcodes of a protocol: FRAME of version 4 or 5, or others.
_PICKLE = re.compile(
    rb"\x80[\4\5]\x95.{5}\0{3}"
    rb"|\x80[\2-\5](?:c[\w.]+\n|[}\](][(q.XcKl\x8c\x94]|\x8c.[ -~]{2}|X.{2}\0\0[ -~]|\x8a\nl\xfc)",
    re.S,
)
# The first two bytes of all formats below, except tar archives, compiled Python code and masked formats.
_FIRST_PAIRS = frozenset((
    *(b"c" + bytes([letter]) for letter in b"abcdefghijklmnopqrstuvwxyz_."),  # pickles in text
    *(bytes((0x78, flags)) for flags in range(256) if not (0x78 << 8 | flags) % 31),  # zlib
    b"\x7fE", b"MZ", b"\xfe\xed", b"\xce\xfa", b"\xcf\xfa", b"\xca\xfe", b"PK", b"7z", b"Ra", b"\xfd7", b"MS",
    b"BZ", b"\x28\xb5", b"\x04\x22", b"\x1f\x8b", b"\0a", b"de", b"BC", b"\x80\2", b"\x80\3", b"\x80\4", b"\x80\5",
    b"#!", b"@e", b"%P", b"{\\", b"\xed\xab", b"xa", b"hs", b"KD", b"07", b"!<", b"\x5d\0", b"\xd0\xcf", b"L\0",
    b"\x1bL", b"SQ", b"<?", b"\x93N",
))  # fmt: skip
# The XOR of the first two bytes of some formats, which does not change if all bytes are combined with a mask by XOR.
_MASKED_PAIRS = tuple(magic[0] ^ magic[1] for magic in (b"\x7fE", b"PK", b"MZ"))
_TAR_MAGIC = slice(257, 262)


def signature_of(prefix: bytes) -> str:
    """Return a description of the format that bytes begin with, such as "a ZIP archive"; "" for an unknown format."""
    if prefix[:2] not in _FIRST_PAIRS and prefix[2:4] != b"\r\n" and prefix[_TAR_MAGIC] != b"ustar":
        return _masked_signature(prefix)
    if prefix[:4] == b"\x7fELF" and prefix[4:5] in b"\1\2" and prefix[5:6] in b"\1\2":
        return "an ELF program"
    if prefix[:2] == b"MZ" and (
        prefix[2:4] == b"\x90\0" if len(prefix) < 64 else prefix[2:64].count(0) > 16 or b"DOS mode" in prefix
    ):
        return "a Windows program"
    if prefix[:4] in (
        b"\xfe\xed\xfa\xce",
        b"\xfe\xed\xfa\xcf",
        b"\xce\xfa\xed\xfe",
        b"\xcf\xfa\xed\xfe",
        b"\xca\xfe\xba\xbe",
    ):
        return "a Mach-O program or a Java class"
    if prefix[:4] in (b"PK\3\4", b"PK\5\6", b"PK\7\x08"):
        return "a ZIP archive"
    if (
        prefix[:6] in (b"7z\xbc\xaf\x27\x1c", b"Rar!\x1a\x07", b"\xfd7zXZ\0")
        or prefix[:4] == b"MSCF"
        or prefix[_TAR_MAGIC] == b"ustar"
    ):
        return "an archive"
    if prefix[:3] == b"BZh" and prefix[4:10] == b"1AY&SY":
        return "a bzip2 archive"
    if prefix[:4] in (b"\x28\xb5\x2f\xfd", b"\x04\x22\x4d\x18") or _is_deflated(prefix):
        return "a compressed stream"
    if prefix[:3] == b"\x1f\x8b\x08" and prefix[3:4] < b"\x20":
        return "a gzip archive"
    if prefix[:4] == b"\0asm" or prefix[:4] == b"dex\n" or prefix[:4] == b"BC\xc0\xde":
        return "a program in bytecode"
    if _PICKLE.match(prefix) or re.match(rb"c[a-z_.]+\n[a-z_.]+\n[(q]", prefix):
        return "a Python pickle"
    if prefix[1:4] in (b"\x0c\r\n", b"\x0d\r\n", b"\x0e\r\n"):
        return "compiled Python code"
    if re.match(rb"#![ ]*/[\w/.]+|@echo off\b", prefix) or prefix[:5] in (b"%PDF-", b"{\\rtf"):
        return "a script or document"
    if prefix[:4] in (b"\xed\xab\xee\xdb", b"xar!", b"hsqs", b"KDMV") or prefix[:6] in (b"070701", b"070702"):
        return "an archive or disk image"
    if prefix[:8] == b"!<arch>\n" or _OLD_LZMA.match(prefix):
        return "an archive"
    if prefix[:8] == b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" or prefix[:8] == b"L\0\0\0\x01\x14\x02\0":
        return "a document or link of Windows"
    if prefix[:4] == b"\x1bLua" or prefix[:16] == b"SQLite format 3\0" or prefix[:5] == b"<?php":
        return "a program or database"
    if prefix[:6] == b"\x93NUMPY" and b"'|O'" in prefix[:128]:
        return "a numpy file with a Python pickle"
    return _masked_signature(prefix)


def _masked_signature(prefix: bytes) -> str:
    """Return a description of a program or ZIP archive whose bytes are combined with one byte by XOR; otherwise ""."""
    if len(prefix) < 64 or prefix[0] ^ prefix[1] not in _MASKED_PAIRS:
        return ""
    # The signature of each format, and the bytes of the header that are zero.
    for magic, zeros in ((b"\x7fELF", slice(9, 16)), (b"PK\3\4", slice(5, 6))):
        mask = prefix[0] ^ magic[0]
        if mask and all(prefix[i] ^ mask == magic[i] for i in range(1, 4)) and set(prefix[zeros]) == {mask}:
            return "a program or archive masked with XOR"
    mask = prefix[0] ^ ord("M")
    if mask and prefix[1] ^ mask == ord("Z") and bytes(byte ^ mask for byte in b"This program") in prefix:
        return "a Windows program masked with XOR"
    return ""


def _is_deflated(prefix: bytes) -> bool:
    """Return whether bytes begin with the header of zlib and inflate to at least 16 bytes; other bytes rarely do."""
    if len(prefix) < 16 or prefix[0] != 0x78 or int.from_bytes(prefix[:2], "big") % 31:
        return False
    try:
        return len(zlib.decompressobj().decompress(prefix, PREFIX_BYTES * 4)) >= 16
    except zlib.error:
        return False


def may_have_signature(prefixes: Any) -> Any:
    """Return whether each row of a matrix of bytes may begin with a format; False only where `signature_of` returns "".

    prefixes: (n, length) uint8, with 3 <= length < 262.
    """
    assert 3 <= prefixes.shape[1] < _TAR_MAGIC.stop
    first, second, third = prefixes[:, 0], prefixes[:, 1], prefixes[:, 2]
    result = _pair_table()[first.astype(np.uint16) << 8 | second]
    result |= (second >= 12) & (second <= 14) & (third == 13)  # compiled Python code
    return result | np.isin(first ^ second, _MASKED_PAIRS)


@cache
def _pair_table() -> Any:
    """Return whether each pair of bytes is in `_FIRST_PAIRS`, indexed by the big-endian number of the pair."""
    table = np.zeros(1 << 16, bool)
    table[[pair[0] << 8 | pair[1] for pair in _FIRST_PAIRS]] = True
    return table
