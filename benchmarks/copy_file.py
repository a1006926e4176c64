"""What copying a file takes: the measure of rows that write one. Also what such rows do before and after."""

import os
import shutil
import subprocess
import zlib
from collections.abc import Callable
from pathlib import Path

from benchmarks.data import FOLDER
from benchmarks.row import Skip

ROOM = 3 << 30  # bytes: a source of 1 GiB, the output, and some


def require_room() -> None:
    """Skip the row where the disk is too full."""
    FOLDER.mkdir(exist_ok=True)
    if shutil.disk_usage(FOLDER).free < ROOM:
        raise Skip(f"less than {ROOM >> 30} GiB free in {FOLDER}")


def make_room(*outputs: Path) -> None:
    """Delete outputs, which are written anew each time, and let the disk finish what others gave it to write."""
    for output in outputs:
        output.unlink(missing_ok=True)
    os.sync()


def copy(source: Path, output: Path) -> Callable[[], object]:
    make_room(output)
    return lambda: subprocess.run(["cp", source, output], check=True)


def copy_durably(source: Path, output: Path) -> Callable[[], object]:
    """Do what cp leaves out and our save does: wait until the disk has the file, and its name."""
    command = 'cp "$1" "$2" && sync "$2" "$3"'  # sync with names is fsync of each
    make_room(output)
    return lambda: subprocess.run(["sh", "-c", command, "sh", source, output, output.parent], check=True)


def checksum(path: Path) -> int:
    """Return the CRC-32 of a file."""
    crc, chunk = 0, bytearray(1 << 20)
    with path.open("rb", buffering=0) as file:
        while count := file.readinto(chunk):
            crc = zlib.crc32(memoryview(chunk)[:count], crc)
    return crc
