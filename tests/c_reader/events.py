"""The values of a message as lines of text: of `onnxwire.h`, and the same of Python messages."""

from __future__ import annotations

import ctypes
import struct
import subprocess
import sysconfig
from functools import cache
from pathlib import Path

import onnxwire

HERE = Path(__file__).parent
INCLUDE = Path(onnxwire.__file__).parent / "include"


def compiler() -> list[str]:
    """Return the C compiler of this Python."""
    return (sysconfig.get_config_var("CC") or "cc").split()


class Reader:
    """The test program `events.c` as a shared library."""

    def __init__(self, folder: Path, *flags: str) -> None:
        path = folder / "events.so"
        options = ["-std=c99", "-O1", "-Wall", "-Wextra", "-Wpedantic", "-Werror", *flags, "-shared", "-fPIC"]
        subprocess.run([*compiler(), *options, f"-I{INCLUDE}", str(HERE / "events.c"), "-o", str(path)], check=True)
        self._library = ctypes.CDLL(str(path))
        arguments = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_size_t, ctypes.c_int]
        self._library.events.argtypes = [*arguments, ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_size_t)]
        self._library.release.argtypes = [ctypes.c_void_p]
        self._library.table_name.restype = ctypes.c_char_p
        self._table = cache(lambda name: self._library.table_number(name.encode()))

    def table_name(self, number: int) -> str:
        """Return the full name of the message with a number, which is counted again from 0 after the last one."""
        return self._library.table_name(number).decode()

    def read(self, data: bytes, name: str, window: int = 0, *, is_one_pass: bool = False) -> bytes | None:
        """Return the values of a message of this full name, or None if it is damaged.

        window: the bytes of the buffer through which the data are read; 0 for data in memory.
        is_one_pass: whether ow_next_field reads the values; otherwise, ow_scan.
        """
        text, size = ctypes.c_void_p(), ctypes.c_size_t()
        code = self._library.events(
            data, len(data), self._table(name), window, is_one_pass, ctypes.byref(text), ctypes.byref(size)
        )
        try:
            return ctypes.string_at(text, size.value) if code == 0 else None
        finally:
            self._library.release(text)


def events_of(message: object, path: str = "") -> bytes:
    """Return the values of a message of onnxwire or of the official runtime as lines of text."""
    return b"{" + b"".join(_field_events(message, path)) + b"}"


def _field_events(message: object, path: str):
    for field, value in message.ListFields():
        for index, element in enumerate(value if field.is_repeated else [value]):
            here = f"{field.name}[{index}]" if field.is_repeated else field.name
            if field.type == field.TYPE_MESSAGE:
                yield events_of(element, f"{path}.{here}" if path else here)
            else:
                yield f"{path}.{here}\t".encode() + _text(field, element) + b"\n"


def _text(field: object, value: object) -> bytes:
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape")
    if isinstance(value, bytes):
        return value
    if field.type in (field.TYPE_FLOAT, field.TYPE_DOUBLE):
        code, number = ("f", "I") if field.type == field.TYPE_FLOAT else ("d", "Q")
        return b"%x" % struct.unpack(f"<{number}", struct.pack(f"<{code}", value))
    return b"%d" % int(value)
