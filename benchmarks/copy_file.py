"""Baselines for benchmarks that write a file: copies by `cp`, with and without fsync; and functions that these
benchmarks share."""

import os
import shutil
import subprocess
import zlib
from collections.abc import Callable
from functools import partial
from pathlib import Path

from benchmarks.data import FOLDER
from benchmarks.row import Row, Skip

MIN_FREE_BYTES = 3 << 30  # for a source of 1 GiB, the output, and a reserve


def require_free_space() -> None:
    """Skip the row if too little space is free on the disk."""
    FOLDER.mkdir(exist_ok=True)
    if shutil.disk_usage(FOLDER).free < MIN_FREE_BYTES:
        raise Skip(f"less than {MIN_FREE_BYTES >> 30} GiB free in {FOLDER}")


def delete_outputs(*outputs: Path) -> None:
    """Delete old outputs, and wait until the disk has finished earlier writes."""
    for output in outputs:
        output.unlink(missing_ok=True)
    os.sync()


def copy(source: Path, output: Path) -> Callable[[], object]:
    """Delete the old output; return an operation that copies a file with `cp`."""
    delete_outputs(output)
    return lambda: subprocess.run(["cp", source, output], check=True)


def copy_durably(source: Path, output: Path) -> Callable[[], object]:
    """Delete the old output; return an operation that runs `cp` and waits until the file and its name are on the disk.

    `save` waits, too, and `cp` alone does not.
    """
    command = 'cp "$1" "$2" && sync "$2" "$3"'  # with arguments, sync(1) calls fsync on each of them
    delete_outputs(output)
    return lambda: subprocess.run(["sh", "-c", command, "sh", source, output, output.parent], check=True)


def rows_compared_with_cp(
    operation: str,
    source: Path,
    output: Path,
    prepare: Callable[[], None],
    ours: Callable[[], Callable[[], object]],
    fingerprint: Callable[[object], object],
) -> list[Row]:
    """Return two rows: a file-writing operation compared with `cp` of `source`, and with `cp` followed by fsync.

    operation: its description, with which the titles of the rows begin. output: the file that `cp` writes. prepare,
    ours, fingerprint: as in Row.
    """
    # By title of the row: the name of the other program, and the function that returns its operation.
    baselines = {
        f"{operation} (with fsync), compared with `cp` of the file (without fsync)": ("cp", copy),
        f"{operation}, compared with `cp` of the file and fsync": ("cp, fsync", copy_durably),
    }
    return [
        Row(
            title,
            prepare=prepare,
            inputs=(source,),
            ours=ours,
            official=partial(baseline, source, output),
            fingerprint=fingerprint,
            goal=1 / 1.3,  # at most 1.3 times the time of the baseline
            other_program=program,
        )
        for title, (program, baseline) in baselines.items()
    ]


def checksum(path: Path) -> int:
    """Return the CRC-32 of a file."""
    crc, chunk = 0, bytearray(1 << 20)
    with path.open("rb", buffering=0) as file:
        while n_bytes := file.readinto(chunk):
            crc = zlib.crc32(memoryview(chunk)[:n_bytes], crc)
    return crc
