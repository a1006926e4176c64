"""The values of messages as lines of text, as `onnxwire.h` reads them and as Python messages contain them."""

from __future__ import annotations

import ctypes
import struct
import subprocess
import sysconfig
from functools import cache
from pathlib import Path

import onnxwire

FOLDER = Path(__file__).parent
INCLUDE_FOLDER = Path(onnxwire.__file__).parent / "include"


def c_compiler() -> list[str]:
    """Return the command of the C compiler with which this Python was built, or cc if it is unknown."""
    return (sysconfig.get_config_var("CC") or "cc").split()


class Reader:
    """The test program `events.c` as a shared library, which is built in `folder` with `flags` of the compiler."""

    def __init__(self, folder: Path, *flags: str) -> None:
        path = folder / "events.so"
        options = ["-std=c99", "-O1", "-Wall", "-Wextra", "-Wpedantic", "-Werror", *flags, "-shared", "-fPIC"]
        subprocess.run(
            [*c_compiler(), *options, f"-I{INCLUDE_FOLDER}", str(FOLDER / "events.c"), "-o", str(path)], check=True
        )
        self._library = ctypes.CDLL(str(path))
        argument_types = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_size_t, ctypes.c_int]
        self._library.events.argtypes = [
            *argument_types,
            ctypes.POINTER(ctypes.c_void_p),
            ctypes.POINTER(ctypes.c_size_t),
        ]
        self._library.release.argtypes = [ctypes.c_void_p]
        self._library.table_name.restype = ctypes.c_char_p
        self._table_number = cache(lambda message_name: self._library.table_number(message_name.encode()))

    def table_name(self, number: int) -> str:
        """Return the full name of the message of a table. number: the index of the table, plus any multiple
        of the number of tables."""
        return self._library.table_name(number).decode()

    def read(self, data: bytes, name: str, window: int = 0, *, is_one_pass: bool = False) -> bytes | None:
        """Return the values of a message with the given full name, or None if it is damaged.

        The data are read through a buffer of `window` bytes, or directly if `window` is 0. The values are read by
        ow_next_field if `is_one_pass`, otherwise by ow_scan.
        """
        text, size = ctypes.c_void_p(), ctypes.c_size_t()
        error_code = self._library.events(
            data, len(data), self._table_number(name), window, is_one_pass, ctypes.byref(text), ctypes.byref(size)
        )
        try:
            return ctypes.string_at(text, size.value) if error_code == 0 else None
        finally:
            self._library.release(text)


def events_of(message: object, path: str = "") -> bytes:
    """Return the values of a message of onnxwire or of protobuf as lines of text, each message in braces."""
    return b"{" + b"".join(_field_events(message, path)) + b"}"


def _field_events(message: object, path: str):
    """Yield the values of each present field of a message, which has the given path."""
    for field, value in message.ListFields():
        for index, element in enumerate(value if field.is_repeated else [value]):
            field_path = f"{field.name}[{index}]" if field.is_repeated else field.name
            if field.type == field.TYPE_MESSAGE:
                yield events_of(element, f"{path}.{field_path}" if path else field_path)
            else:
                yield f"{path}.{field_path}\t".encode() + _text(field, element) + b"\n"


def _text(field: object, value: object) -> bytes:
    """Return the text of one value: strings unchanged, the bits of a float in hexadecimal, other numbers in decimal."""
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape")
    if isinstance(value, bytes):
        return value
    if field.type in (field.TYPE_FLOAT, field.TYPE_DOUBLE):
        float_format, int_format = ("f", "I") if field.type == field.TYPE_FLOAT else ("d", "Q")
        return b"%x" % struct.unpack(f"<{int_format}", struct.pack(f"<{float_format}", value))
    return b"%d" % int(value)
