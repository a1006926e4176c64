"""Tests of the functions that examine many prefixes at once: they accept all prefixes that the functions for a single
prefix, `signature_of` and `_kind_of_floats`, recognize, and few others."""

from __future__ import annotations

import pickle
import random
import zlib

import numpy as np
from each import each

from onnxwire.checker.file_formats import PREFIX_BYTES, may_have_signature, signature_of
from onnxwire.checker.rules.security_payloads import _kind_of_floats, _may_carry_bytes

# The first bytes of a file by its format.
FORMATS = {
    "ELF": b"\x7fELF\x02\x01\x01" + bytes(60), "PE": b"MZ" + bytes(62) + b"DOS mode",
    "short PE": b"MZ\x90\0" + bytes(20),
    "Mach-O": b"\xfe\xed\xfa\xcf", "Mach-O swapped": b"\xcf\xfa\xed\xfe", "Mach-O 32": b"\xfe\xed\xfa\xce",
    "Mach-O 32 swapped": b"\xce\xfa\xed\xfe", "Java": b"\xca\xfe\xba\xbe", "ZIP": b"PK\3\4", "ZIP end": b"PK\5\6",
    "ZIP part": b"PK\7\x08", "7z": b"7z\xbc\xaf\x27\x1c", "RAR": b"Rar!\x1a\x07", "xz": b"\xfd7zXZ\0",
    "CAB": b"MSCF", "bzip2": b"BZh91AY&SY", "zstd": b"\x28\xb5\x2f\xfd", "lz4": b"\x04\x22\x4d\x18",
    "zlib": zlib.compress(b"text" * 99), "zlib best": zlib.compress(random.Random(1).randbytes(90), 9),
    "gzip": b"\x1f\x8b\x08\0", "wasm": b"\0asm", "dex": b"dex\n", "bitcode": b"BC\xc0\xde",
    **{f"pickle {protocol}": pickle.dumps({"key": [1]}, protocol) for protocol in range(2, 6)},
    "pickle 0": b"cos\nsystem\n(",
    "pickle 0 of a dotted module": b"c_a.b\nsystem\nq", "pyc": b"\xa7\x0d\r\n", "old pyc": b"\x33\x0c\r\n",
    "newer pyc": b"\x01\x0e\r\n", "script": b"#!/bin/sh", "batch": b"@echo off", "PDF": b"%PDF-", "RTF": b"{\\rtf",
    "RPM": b"\xed\xab\xee\xdb", "xar": b"xar!", "squashfs": b"hsqs", "VMDK": b"KDMV", "cpio": b"070701",
    "cpio with sums": b"070702", "ar": b"!<arch>\n", "lzma": b"\x5d\0\0\x80\0" + b"\xff" * 8,
    "lzma with a size": b"\x5d\0\0\x80\0abcd\0\0\0\0", "OLE": b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1",
    "Windows link": b"L\0\0\0\x01\x14\x02\0", "Lua": b"\x1bLua", "SQLite": b"SQLite format 3\0", "PHP": b"<?php",
    "numpy": b"\x93NUMPY\1\0 {'descr': '|O'}",
    "ELF under XOR": bytes(byte ^ 0x5A for byte in b"\x7fELF\x02\x01\x01" + bytes(60)),
    "ZIP under XOR": bytes(byte ^ 0xFF for byte in b"PK\3\4\x14" + bytes(60)),
    "PE under XOR": bytes(byte ^ 1 for byte in b"MZ" + bytes(60) + b"This program cannot"),
}  # fmt: skip


def _matrix(prefixes, length):
    """Return prefixes as rows of a matrix of bytes, shortened or padded to a length."""
    return np.frombuffer(b"".join(prefix[:length].ljust(length, b"\0") for prefix in prefixes), np.uint8).reshape(
        -1, length
    )


@each("name", FORMATS)
def test_a_format_is_recognized_by_both_functions(name):
    prefix = FORMATS[name]
    assert signature_of(prefix)
    assert may_have_signature(_matrix([prefix], 3)).all()  # the minimum length that may_have_signature accepts
    assert may_have_signature(_matrix([prefix], 128)).all()


def test_may_have_signature_accepts_every_recognized_prefix_and_few_random_prefixes():
    rng = random.Random(2)
    prefixes = [rng.randbytes(128) for _ in range(20_000)]
    prefixes += [bytes([rng.choice(prefix), *prefix[1:]]) for prefix in FORMATS.values() for _ in range(20)]
    may_have = may_have_signature(_matrix(prefixes, 128))
    assert all(may_have[i] for i, prefix in enumerate(prefixes) if signature_of(prefix[:128]))
    assert may_have[:20_000].mean() < 0.05


def _floats(content, kind):
    """Return the bytes of 128 floats that contain the bytes `content`.

    kind: where these bytes are: in NaNs ("NaN"), in whole elements ("elements"), or, only the first 16 bytes, in the
    lowest bits of the floats, with the most significant bit of each byte first ("big") or last ("little").
    """
    data = np.random.default_rng(3).random(128, np.float32)
    bits = data.view(np.uint32)
    if kind == "NaN":
        bits[: len(content)] = np.uint32(0x7FC00000) + np.frombuffer(content, np.uint8)
    elif kind == "elements":
        data[:] = 0
        data[: len(content)] = np.frombuffer(content, np.uint8)
    else:
        flags = np.unpackbits(np.frombuffer(content[:16], np.uint8), bitorder=kind)
        bits[: len(flags)] = bits[: len(flags)] & ~np.uint32(1) | flags
    return data.tobytes()


@each("kind", ["NaN", "elements", "big", "little"])
def test_floats_that_contain_a_program_are_recognized_by_both_functions(kind):
    content = b"\x7fELF\x02\x01\x01" + bytes(57)
    data = _floats(content, kind)
    n_bytes = 256  # the size of a shorter tensor
    assert _kind_of_floats(data) and _kind_of_floats(data[:n_bytes])
    assert _may_carry_bytes(_matrix([data, data[:n_bytes]], PREFIX_BYTES)).all()


def test_may_carry_bytes_accepts_few_ordinary_floats():
    rng = np.random.default_rng(4)
    prefixes = [rng.standard_normal(int(rng.integers(32, 129)), np.float32).tobytes() for _ in range(2000)]
    may_carry = _may_carry_bytes(_matrix(prefixes, PREFIX_BYTES))
    assert may_carry.mean() < 0.2
    assert all(may_carry[i] for i, prefix in enumerate(prefixes) if _kind_of_floats(prefix))
