"""AtomicFile and FileWriter: written bytes, progress, faults, kills, concurrent saves, links, special files, errors."""

import contextlib
import errno
import mmap
import os
import pickle
import random
import re
import shutil
import signal
import stat
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onnxwire import errors
from onnxwire.engine.file_writer import FileWriter, copy_range, write_buffer
from onnxwire.errors import SaveError, SourceError
from onnxwire.io.atomic_file import AtomicFile

needs_linux = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")
needs_root = pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="needs root")
NOBODY_UID = 65534
NAMELESS_FLAG = getattr(os, "O_TMPFILE", -1)  # os.open with this flag creates a file without a name
MIB = 1 << 20
SHM = Path("/dev/shm")


def save(path: str | os.PathLike[str], data: bytes, **options: Any) -> None:
    """Write a file with AtomicFile. options: as for AtomicFile."""
    with AtomicFile(path, **options) as target:
        target.write(data)


def run_python(code: str, *arguments: object, prefix: tuple[str, ...] = (), **options: Any) -> str:
    """Return the output of a new interpreter that runs PRELUDE and then the code.

    prefix: the words before the interpreter in the command.
    """
    command = [*prefix, sys.executable, "-c", PRELUDE + code, *map(str, arguments)]
    process = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    assert process.returncode == 0, process.stderr
    return process.stdout.strip()


PRELUDE = """
import os, random, resource, shutil, signal, sys, tempfile, time
import onnxwire.io.in_place
from onnxwire.io.atomic_file import AtomicFile
from onnxwire.errors import SaveError
def save(path, data, **options):
    with AtomicFile(path, **options) as target:
        target.write(data)
def attempt(path, data):
    try:
        save(path, data, size=len(data))
    except SaveError as error:
        print(f"{type(error).__name__}: {error}")
"""

# Code that drops the privileges of root, who can access every file.
DROP_PRIVILEGES = f"if os.getuid() == 0: os.setgroups([]); os.setgid({NOBODY_UID}); os.setuid({NOBODY_UID})\n"


@pytest.fixture
def public_folder() -> Iterator[Path]:
    """Make a directory that every user can access; the directories of pytest are private."""
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(params=["nameless", "named"])
def creation(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run a test with both methods of creating the new file: with a name, and on Linux without one."""
    if request.param == "named":
        replace_open_nameless(monkeypatch, failing_call(errno.EOPNOTSUPP))
    elif sys.platform != "linux":
        pytest.skip("needs Linux")
    return str(request.param)


def replace_open_nameless(monkeypatch: pytest.MonkeyPatch, replacement: Callable[..., int]) -> None:
    """Replace the system call that creates a nameless file."""
    system_open = os.open

    def open_file(path: Any, flags: int, *arguments: Any, **options: Any) -> int:
        is_nameless = flags & NAMELESS_FLAG == NAMELESS_FLAG
        return (replacement if is_nameless else system_open)(path, flags, *arguments, **options)

    monkeypatch.setattr(os, "open", open_file)


def failing_call(code: int) -> Callable[..., Any]:
    """Return a function that fails as a system call does. code: the error number."""

    def call(*_: object, **__: object) -> Any:
        raise OSError(code, os.strerror(code))

    return call


@pytest.fixture
def old_path(tmp_path: Path) -> Path:
    path = tmp_path / "model.onnx"
    path.write_bytes(b"old")
    return path


def assert_unchanged(old_path: Path) -> None:
    """Assert that the file contains b"old" and is alone in its folder."""
    assert old_path.read_bytes() == b"old"
    assert os.listdir(old_path.parent) == [old_path.name]


# --- the written bytes


def test_a_new_file_has_the_written_bytes(tmp_path: Path, creation: str) -> None:
    save(tmp_path / "model.onnx", b"new")
    assert (tmp_path / "model.onnx").read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["model.onnx"]


def test_an_old_file_is_replaced_by_a_shorter_one(old_path: Path, creation: str) -> None:
    save(old_path, b"")
    assert old_path.read_bytes() == b""
    assert os.listdir(old_path.parent) == [old_path.name]


def test_a_relative_path_is_written_in_the_working_directory(old_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(old_path.parent)
    save(old_path.name, b"new")
    assert old_path.read_bytes() == b"new"


def test_a_change_of_the_working_directory_does_not_move_the_target(
    old_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(old_path.parent)
    with AtomicFile(old_path.name) as target:
        target.write(b"new")
        os.chdir("/")
    assert old_path.read_bytes() == b"new"


def test_an_old_file_that_is_mapped_keeps_its_bytes(old_path: Path, creation: str) -> None:
    with old_path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapping:
        with AtomicFile(old_path) as target:
            target.copy(file.fileno(), 1, 2)
            target.write(b"er")
        assert mapping[:] == b"old"
        assert old_path.read_bytes() == b"lder"


@given(
    st.lists(
        st.one_of(
            st.binary(max_size=40),
            st.integers(1, 700_000).map(bytes),
            st.tuples(st.integers(0, 2 * MIB), st.integers(0, 2 * MIB)),
        ),
        max_size=12,
    ),
    st.booleans(),
)
def test_pieces_and_ranges_arrive_in_order(operations: list[Any], is_stream: bool) -> None:
    data = random.Random(1).randbytes(2 * MIB)
    with tempfile.TemporaryFile() as source, tempfile.TemporaryFile() as file:
        source.write(data)
        source.flush()
        target = FileWriter(file.fileno(), fresh=not is_stream, stream=is_stream)
        expected = b""
        for operation in operations:
            if isinstance(operation, tuple):
                start, end = sorted(operation)
                target.copy(source.fileno(), start, end - start)
                expected += data[start:end]
            else:
                target.write(operation)
                expected += operation
            assert target.position == len(expected)
        target.finish()
        file.seek(0)
        assert file.read() == expected


def test_ranges_that_continue_each_other_are_copied_as_one(tmp_path: Path) -> None:
    data = random.Random(2).randbytes(3 * MIB)
    (tmp_path / "source").write_bytes(data)
    calls: list[int] = []
    with (tmp_path / "source").open("rb") as source, AtomicFile(tmp_path / "target", progress=calls.append) as target:
        for start in range(0, len(data), 1000):
            target.copy(source.fileno(), start, min(1000, len(data) - start))
    assert (tmp_path / "target").read_bytes() == data
    assert calls == [len(data)]


@pytest.mark.parametrize("folders", [("tmp", "tmp"), ("shm", "shm"), ("tmp", "shm"), ("shm", "tmp")])
def test_ranges_arrive_within_and_across_file_systems(tmp_path: Path, folders: tuple[str, str]) -> None:
    if not SHM.is_dir():
        pytest.skip("needs /dev/shm")
    rng = random.Random(3)
    data = rng.randbytes(3 * MIB)
    paths = {"tmp": tmp_path, "shm": SHM}
    with (
        tempfile.TemporaryFile(dir=paths[folders[0]]) as source,
        tempfile.TemporaryFile(dir=paths[folders[1]]) as target,
    ):
        source.write(data)
        source.flush()
        for _ in range(30):
            start = rng.randrange(len(data)) & rng.choice([-1, -4096])  # any offset, or a multiple of the page size
            length = rng.randrange(len(data) - start)
            offset = rng.choice([0, 4096, rng.randrange(MIB)])
            target.truncate(0)
            copy_range(source.fileno(), start, target.fileno(), offset, length)
            target.seek(0)
            assert target.read() == (bytes(offset) + data[start : start + length] if length else b"")


def test_bytes_around_a_written_range_do_not_change(tmp_path: Path) -> None:
    path = tmp_path / "target"
    path.write_bytes(b"." * 10)
    with path.open("r+b") as file, tempfile.TemporaryFile() as source:
        source.write(b"abcdef")
        source.flush()
        copy_range(source.fileno(), 1, file.fileno(), 2, 3)
        write_buffer(file.fileno(), memoryview(b"xy"), 7)
    assert path.read_bytes() == b"..bcd..xy."


@needs_linux
@pytest.mark.parametrize("folders", [("tmp", "tmp"), ("tmp", "shm"), ("shm", "shm")])
@pytest.mark.parametrize("prefix", [b"", b"new"])
def test_holes_are_copied_as_holes(tmp_path: Path, folders: tuple[str, str], prefix: bytes) -> None:
    size = 5 << 30
    data_by_offset = {0: b"start", 3 << 20: os.urandom(MIB), (4 << 30) + 12345: b"island"}  # the file ends with a hole
    paths = {"tmp": tmp_path, "shm": Path(tempfile.mkdtemp(dir=SHM))}
    source, target = paths[folders[0]] / "source", paths[folders[1]] / "target"
    try:
        with source.open("wb") as file:
            for offset, data in data_by_offset.items():
                file.seek(offset)
                file.write(data)
            file.truncate(size)
        with source.open("rb") as file:
            file.seek(77)
            with AtomicFile(target) as writer:
                writer.write(prefix)
                writer.copy(file.fileno(), 0, size)
                writer.write(b"end")
            assert file.tell() == 77
        assert target.stat().st_size == size + len(prefix) + 3
        assert target.stat().st_blocks * 512 < 2 * MIB
        with target.open("rb") as file:
            for offset, data in data_by_offset.items():
                file.seek(offset + len(prefix))
                assert file.read(len(data)) == data
                assert not any(file.read(1000))
            file.seek(-10, os.SEEK_END)
            assert file.read() == bytes(7) + b"end"
    finally:
        shutil.rmtree(paths["shm"])


@needs_linux
def test_memory_does_not_grow_with_the_copied_bytes(tmp_path: Path) -> None:
    source = tmp_path / "source"
    with source.open("wb") as file:
        for _ in range(128):
            file.write(bytes(MIB))
    code = (
        "def peak(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "before = peak()\n"
        "for path in sys.argv[2:]:\n"
        "    with open(sys.argv[1], 'rb') as file, AtomicFile(path) as target:\n"
        "        target.copy(file.fileno(), 0, 128 << 20)\n"
        "        target.write(bytes(1 << 20))\n"
        "        for start in range(0, 127 << 20, 100_000): target.copy(file.fileno(), start, 90_000)\n"
        "print(peak() - before)"
    )
    with tempfile.TemporaryDirectory(dir=SHM) as shm_folder:
        assert int(run_python(code, source, tmp_path / "target", Path(shm_folder) / "target")) < 10_000  # kilobytes


# --- progress and interrupts


def test_progress_counts_up_to_the_written_size(tmp_path: Path) -> None:
    calls: list[int] = []
    save(tmp_path / "model.onnx", bytes(100 * MIB + 1), progress=calls.append)
    assert calls == sorted(set(calls))
    assert calls[-1] == 100 * MIB + 1
    assert max(position - previous for previous, position in zip([0, *calls], calls, strict=False)) <= 64 * MIB


@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(errno.EPIPE, "the progress bar's own pipe")])
def test_an_exception_of_progress_ends_the_save_and_is_raised(
    old_path: Path, creation: str, error: BaseException
) -> None:
    def progress(_: int) -> None:
        raise error

    with pytest.raises(type(error)) as error_info:
        save(old_path, bytes(20 * MIB), progress=progress)
    assert error_info.value is error
    assert_unchanged(old_path)


def test_an_exception_of_the_with_block_is_raised(old_path: Path, creation: str) -> None:
    with pytest.raises(FileNotFoundError) as error_info, AtomicFile(old_path) as target:
        target.write(b"new")
        raise FileNotFoundError
    assert not isinstance(error_info.value, SaveError)
    assert_unchanged(old_path)


def test_an_error_that_the_with_block_swallows_still_leaves_the_old_file(old_path: Path, creation: str) -> None:
    raises_error = pytest.raises(RuntimeError, match="failed before")
    with tempfile.TemporaryFile() as source, raises_error, AtomicFile(old_path) as target:
        target.copy(source.fileno(), 0, 1)
        with contextlib.suppress(SourceError):
            target.write(b"new")
    assert_unchanged(old_path)


@needs_linux
def test_an_ignored_error_of_a_full_device_is_raised_at_the_end_of_the_with_block() -> None:
    file = AtomicFile("/dev/full")
    with pytest.raises(SaveError, match="No space left"), file as target, contextlib.suppress(OSError):
        target.write(bytes(MIB))


def test_progress_that_writes_is_refused(tmp_path: Path) -> None:
    file = AtomicFile(tmp_path / "model.onnx", progress=lambda _: target.write(b"more"))
    with pytest.raises(RuntimeError, match="is still under way"), file as target:
        target.write(bytes(9 * MIB))
    assert os.listdir(tmp_path) == []


@needs_linux
def test_a_signal_interrupts_a_write_that_waits() -> None:
    def raise_error(*_: object) -> None:
        raise InterruptedError("alarm")

    read_end, write_end = os.pipe()
    previous_handler = signal.signal(signal.SIGALRM, raise_error)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(InterruptedError, match="alarm"):
            FileWriter(write_end, stream=True).write(bytes(MIB))  # no process reads the pipe
    finally:
        signal.signal(signal.SIGALRM, previous_handler)
        os.close(read_end)
        os.close(write_end)


# --- faults of the disk and the system


@needs_linux
def test_a_full_disk_leaves_the_old_file(tmp_path: Path) -> None:
    namespace_command = ("unshare", "--user", "--map-root-user", "--mount", "sh", "-c")
    mount = (*namespace_command, 'mount -t tmpfs -o size=1m none "$0" && exec "$@"', str(tmp_path))
    if not shutil.which("unshare") or subprocess.run([*mount, sys.executable, "-V"], capture_output=True).returncode:
        pytest.skip("can't mount a file system")
    code = (
        "path = sys.argv[1] + '/model.onnx'\n"
        "save(path, b'old')\n"
        "attempt(path, bytes(5 << 20))\n"
        "print(open(path).read(), os.listdir(sys.argv[1]))\n"
        "save(path, bytes(900_000)); print(os.path.getsize(path))"
    )
    error, listing, size_of_last_save = run_python(code, tmp_path, prefix=mount).splitlines()
    match = re.fullmatch(
        r"SaveError: .*/model\.onnx: No space left on device; the file needs 5,242,880 bytes and .* has "
        r"([\d,]+) bytes free: make room, or save elsewhere; the old file is unchanged",
        error,
    )
    assert match
    assert 1_000_000 < int(match[1].replace(",", "")) <= MIB
    assert listing == "old ['model.onnx']"
    assert size_of_last_save == "900000"


@needs_linux
def test_a_limit_of_file_size_leaves_the_old_file(old_path: Path) -> None:
    code = "resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000)); attempt(sys.argv[1], bytes(5 << 20))"
    message = run_python(code, old_path)
    assert message.startswith(f"SaveError: {old_path}: File too large; the file system, or a limit of this process")
    assert_unchanged(old_path)


@needs_linux
def test_a_limit_of_file_size_stops_a_copy_in_the_kernel(old_path: Path) -> None:
    source = old_path.with_name("source")
    source.write_bytes(bytes(MIB))
    code = (
        "resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))\n"
        "try:\n"
        "    with open(sys.argv[1], 'rb') as file, AtomicFile(sys.argv[2]) as target:\n"
        "        target.copy(file.fileno(), 0, 1 << 20)\n"
        "except SaveError as error: print(error)"
    )
    assert "File too large" in run_python(code, source, old_path)
    source.unlink()
    assert_unchanged(old_path)


@needs_linux
def test_a_disk_that_fails_while_it_is_written_leaves_the_old_file(
    old_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A write at offset 0 fails with EIO, because page 0 is not mapped.
    failing_descriptor = os.open("/proc/self/mem", os.O_RDWR)
    replace_open_nameless(monkeypatch, lambda *arguments, **options: failing_descriptor)
    with pytest.raises(
        SaveError, match=r"Input/output error; the disk, or the connection to it, fails.*; the old file is unchanged"
    ) as error_info:
        save(old_path, b"new")
    assert error_info.value.errno == errno.EIO
    assert_unchanged(old_path)


@needs_linux
def test_a_source_that_fails_while_it_is_copied_is_not_a_fault_of_the_target(old_path: Path, creation: str) -> None:
    with (
        open("/proc/self/mem", "rb") as source,
        pytest.raises(SourceError, match="Input/output error"),
        AtomicFile(old_path) as target,
    ):
        target.copy(source.fileno(), 0, MIB)
    assert_unchanged(old_path)


@pytest.mark.parametrize(("start", "end"), [(0, 2000), (0, MIB), (1, 20 * MIB)])
def test_a_source_that_ends_before_the_end_of_a_copied_range_is_reported(
    old_path: Path, creation: str, start: int, end: int
) -> None:
    with tempfile.TemporaryFile() as source:
        source.write(bytes(end - 1))
        source.flush()
        reason = rf"ends at byte {end - 1:,}, but is read up to byte {end:,}; it was truncated"
        with pytest.raises(SourceError, match=reason), AtomicFile(old_path) as target:
            target.copy(source.fileno(), start, end - start)
    assert_unchanged(old_path)


@pytest.mark.parametrize("call", ["fsync", "replace", "fchmod", "fchown"])
@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
def test_a_system_call_that_fails_at_the_end_does_not_damage_the_file(
    old_path: Path, creation: str, call: str, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, call, failing_call(code))
    if call == "fchown":  # the save succeeds without keeping the owner, so save the bytes of the old file
        save(old_path, b"old")
    else:
        with pytest.raises(SaveError, match=os.strerror(code)):
            save(old_path, b"new")
    monkeypatch.undo()
    assert_unchanged(old_path)


@needs_linux
def test_a_file_is_saved_where_a_nameless_file_can_not_be_linked(
    old_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = os.urandom(MIB)
    monkeypatch.setattr(os, "link", failing_call(errno.EPERM))
    save(old_path, data)
    assert old_path.read_bytes() == data
    assert os.listdir(old_path.parent) == [old_path.name]


@needs_linux
def test_a_failed_sync_of_the_directory_is_reported(old_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    system_fsync = os.fsync

    def fsync(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            failing_call(errno.EIO)()
        system_fsync(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(SaveError, match="the new file is in place, but may be lost") as error_info:
        save(old_path, b"new")
    assert "is unchanged" not in str(error_info.value)
    assert old_path.read_bytes() == b"new"


@needs_linux
def test_the_bytes_reach_the_disk_before_the_name(
    old_path: Path, creation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []
    system_calls = {name: getattr(os, name) for name in ("fsync", "link", "replace")}

    def record_calls(name: str) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            is_folder = name == "fsync" and stat.S_ISDIR(os.fstat(arguments[0]).st_mode)
            calls.append("fsync of the directory" if is_folder else name)
            return system_calls[name](*arguments, **options)

        return call

    for name in system_calls:
        monkeypatch.setattr(os, name, record_calls(name))
    save(old_path, b"new")
    assert calls == ["fsync", "link"] * (creation == "nameless") + ["fsync", "replace", "fsync of the directory"]


# --- kills

# Saves a file; prints "now" and waits after the write if `moment` is "write", else at the first call of the function of
# `os` that `moment` names.
KILLED_PROGRAM = """
creation, moment, path = sys.argv[1:]
def wait(*_, **__):
    print("now", flush=True)
    time.sleep(60)
if creation == "named":
    def refuse(*_): raise OSError
    AtomicFile._open_nameless = refuse
if moment != "write":
    setattr(os, moment, wait)
with AtomicFile(path) as target:
    target.write(bytes(3 << 20))
    if moment == "write":
        wait()
"""


@needs_linux
@pytest.mark.parametrize(
    ("creation", "moment"),
    [
        *[("nameless", moment) for moment in ("write", "fsync", "link", "fchmod", "replace")],
        *[("named", moment) for moment in ("write", "fchmod", "fsync", "replace")],
    ],
)
def test_a_kill_leaves_the_old_file_and_no_lasting_leftovers(old_path: Path, creation: str, moment: str) -> None:
    command = [sys.executable, "-c", PRELUDE + KILLED_PROGRAM, creation, moment, str(old_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"now\n"
        names_before = set(os.listdir(old_path.parent))
        save(old_path, b"old")  # a second save does not remove the temporary file of the first
        assert set(os.listdir(old_path.parent)) == names_before
        process.kill()
    assert old_path.read_bytes() == b"old"
    if creation == "nameless" and moment in ("write", "fsync", "link"):
        assert_unchanged(old_path)
    else:
        assert len(os.listdir(old_path.parent)) == 2
    save(old_path, b"old")
    assert_unchanged(old_path)


@needs_linux
def test_a_kill_at_a_random_time_leaves_one_complete_file(old_path: Path) -> None:
    code = (
        "for i in range(10**6):\n"
        "    save(sys.argv[1], bytes([i % 256]) * (3 << 20))\n"
        "    if i == 0: print('now', flush=True)"
    )
    rng = random.Random(4)
    for _ in range(8):
        command = [sys.executable, "-c", PRELUDE + code, str(old_path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"now\n"
            time.sleep(rng.random() / 10)
            process.kill()
        data = old_path.read_bytes()
        assert data == data[:1] * (3 << 20)
    save(old_path, b"old")
    assert_unchanged(old_path)


# --- concurrent saves


def test_two_saves_of_one_path_both_finish_and_the_last_to_finish_remains(old_path: Path, creation: str) -> None:
    with AtomicFile(old_path) as first_save:
        first_save.write(b"first")
        with AtomicFile(old_path) as second_save:
            second_save.write(b"second")
        assert old_path.read_bytes() == b"second"
    assert old_path.read_bytes() == b"first"
    assert os.listdir(old_path.parent) == [old_path.name]


@needs_linux
@pytest.mark.parametrize("creation", ["nameless", "named"])
def test_many_processes_that_save_to_one_path_do_not_disturb_each_other(old_path: Path, creation: str) -> None:
    code = (
        "def refuse(*_): raise OSError\n"
        "if sys.argv[1] == 'named': AtomicFile._open_nameless = refuse\n"
        "for _ in range(30): save(sys.argv[2], sys.argv[3].encode() * 300_000)"
    )
    commands = [[sys.executable, "-c", PRELUDE + code, creation, str(old_path), letter] for letter in "abcd"]
    processes = [subprocess.Popen(command, stderr=subprocess.PIPE) for command in commands]
    for process in processes:
        assert (process.communicate()[1], process.returncode) == (b"", 0)
    data = old_path.read_bytes()
    assert data == data[:1] * 300_000
    assert os.listdir(old_path.parent) == [old_path.name]


def test_many_threads_that_save_to_one_path_do_not_disturb_each_other(old_path: Path, creation: str) -> None:
    failures: list[BaseException] = []

    def save_repeatedly(letter: bytes) -> None:
        try:
            for _ in range(30):
                save(old_path, letter * 300_000)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=save_repeatedly, args=(letter,)) for letter in (b"a", b"b", b"c")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    data = old_path.read_bytes()
    assert data == data[:1] * 300_000
    assert os.listdir(old_path.parent) == [old_path.name]


@needs_linux
def test_only_stale_files_of_the_same_path_are_removed(old_path: Path) -> None:
    stale_name = ".model.onnx.0123456789ab.onnxwire-tmp"
    other_names = [
        ".model.0123456789ab.onnxwire-tmp",
        ".model.onnx.2.0123456789ab.onnxwire-tmp",
        ".model.onnx.0123456789ab.onnx",
        ".model.onnx.link.234567.onnxwire-tmp",
    ]
    for name in [stale_name, *other_names]:
        (old_path.parent / name).write_bytes(b"")
    link = old_path.parent / ".model.onnx.abababababab.onnxwire-tmp"
    link.symlink_to(old_path)
    save(old_path, b"new")
    assert sorted(os.listdir(old_path.parent)) == sorted([old_path.name, link.name, *other_names])


# --- links, permissions and names


def test_the_target_of_a_symbolic_link_is_replaced(old_path: Path, creation: str) -> None:
    folder = old_path.parent / "folder"
    folder.mkdir()
    (folder / "second").symlink_to("../model.onnx")
    (old_path.parent / "first").symlink_to(folder / "second")
    save(old_path.parent / "first", b"new")
    assert old_path.read_bytes() == b"new"
    assert not old_path.is_symlink()
    assert (old_path.parent / "first").is_symlink()
    assert (folder / "second").is_symlink()
    assert os.listdir(folder) == ["second"]


def test_the_target_of_a_dangling_link_is_created(tmp_path: Path, creation: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("folder/model.onnx")
    save(tmp_path / "link", b"new")
    assert (tmp_path / "folder" / "model.onnx").read_bytes() == b"new"
    assert (tmp_path / "link").is_symlink()


def test_links_in_a_circle_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(SaveError, match="symbolic links") as error_info:
        save(tmp_path / "a", b"new")
    assert error_info.value.errno == errno.ELOOP


@needs_linux
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o644, 0o666, 0o755])
def test_permissions_are_kept(old_path: Path, creation: str, mode: int) -> None:
    old_path.chmod(mode)
    with AtomicFile(old_path) as target:
        assert stat.S_IMODE(os.fstat(target.descriptor).st_mode) == 0o600
    assert stat.S_IMODE(old_path.stat().st_mode) == mode


@needs_linux
@pytest.mark.parametrize("umask", [0o022, 0o027, 0o077])
def test_a_new_file_has_the_default_permissions_of_the_process(tmp_path: Path, creation: str, umask: int) -> None:
    previous_umask = os.umask(umask)
    try:
        save(tmp_path / "model.onnx", b"new")
    finally:
        os.umask(previous_umask)
    assert stat.S_IMODE((tmp_path / "model.onnx").stat().st_mode) == 0o666 & ~umask


@needs_linux
@needs_root
def test_owner_and_group_are_kept(old_path: Path, creation: str) -> None:
    os.chown(old_path, 1234, 5678)
    old_path.chmod(0o640)
    save(old_path, b"new")
    status = old_path.stat()
    assert (status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)) == (1234, 5678, 0o640)


@needs_linux
@needs_root
def test_the_new_group_gets_the_permissions_of_others_if_the_old_one_can_not_be_kept(public_folder: Path) -> None:
    path = public_folder / "model.onnx"
    path.write_bytes(b"old")
    path.chmod(0o664)
    os.chown(path, NOBODY_UID, 0)
    os.chown(public_folder, NOBODY_UID, NOBODY_UID)
    run_python(DROP_PRIVILEGES + "save(sys.argv[1], b'new')", path)
    status = path.stat()
    assert (status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)) == (NOBODY_UID, NOBODY_UID, 0o644)


@needs_linux
def test_extended_attributes_and_acls_are_kept(old_path: Path, creation: str) -> None:
    # The entries of an access control list, as (tag, permissions, id): owner, user 1234, group, mask, others. The list
    # begins with the version of the format, 2. Source: linux/posix_acl_xattr.h.
    entries = [(0x01, 6, -1), (0x02, 4, 1234), (0x04, 4, -1), (0x10, 4, -1), (0x20, 0, -1)]
    access_list = struct.pack("<I", 2) + b"".join(struct.pack("<HHi", *entry) for entry in entries)
    try:
        os.setxattr(old_path, "user.origin", b"here")
        os.setxattr(old_path, "system.posix_acl_access", access_list)
    except OSError:
        pytest.skip("the file system has no extended attributes")
    save(old_path, b"new")
    assert os.getxattr(old_path, "user.origin") == b"here"
    assert os.getxattr(old_path, "system.posix_acl_access") == access_list


@needs_linux
def test_a_read_only_directory_allows_overwriting_but_not_a_new_file(public_folder: Path) -> None:
    folder = public_folder / "folder"
    folder.mkdir()
    (folder / "model.onnx").write_bytes(b"old")
    (folder / "model.onnx").chmod(0o666)
    folder.chmod(0o555)
    code = DROP_PRIVILEGES + "attempt(sys.argv[1], b'new'); save(sys.argv[2], b'new')"
    reason = f"Permission denied; the directory {folder} is not writable; save elsewhere"
    assert run_python(code, folder / "new.onnx", folder / "model.onnx").splitlines() == [
        f"SavePermissionError: {folder}/new.onnx: {reason}",
    ]
    assert (folder / "model.onnx").read_bytes() == b"new"
    assert os.listdir(folder) == ["model.onnx"]
    folder.chmod(0o755)


@needs_linux
def test_a_file_that_is_write_protected_is_not_replaced(public_folder: Path) -> None:
    path = public_folder / "model.onnx"
    path.write_bytes(b"old")
    path.chmod(0o444)
    if os.getuid() == 0:
        os.chown(public_folder, NOBODY_UID, NOBODY_UID)
        os.chown(path, NOBODY_UID, NOBODY_UID)
    assert run_python(DROP_PRIVILEGES + "attempt(sys.argv[1], b'new')", path) == (
        f"SavePermissionError: {path}: Permission denied; make the file writable, or save under another name; "
        "the old file is unchanged"
    )
    assert path.read_bytes() == b"old"


def test_the_error_names_a_missing_directory(tmp_path: Path) -> None:
    with pytest.raises(SaveError, match=rf"there is no directory {tmp_path}/absent$") as error_info:
        save(tmp_path / "absent" / "model.onnx", b"new")
    assert isinstance(error_info.value, FileNotFoundError)


@pytest.mark.parametrize("suffix", ["", "/", "/.", "/.."])
def test_a_directory_is_not_a_target(tmp_path: Path, suffix: str) -> None:
    with pytest.raises(SaveError, match="pass the path of a file in it") as error_info:
        save(f"{tmp_path}{suffix}", b"new")
    assert isinstance(error_info.value, IsADirectoryError)
    assert os.listdir(tmp_path) == []


def test_a_path_through_a_file_is_refused(old_path: Path) -> None:
    with pytest.raises(SaveError) as error_info:
        save(old_path / "model.onnx", b"new")
    assert isinstance(error_info.value, NotADirectoryError)
    assert_unchanged(old_path)


@pytest.mark.parametrize("name", ["a", "m" * 255, "m" * 240, "é" * 127, "模" * 85, "模型.onnx", " .onnx", ".onnx"])
def test_any_file_name_that_the_system_allows_is_written(tmp_path: Path, creation: str, name: str) -> None:
    for data in (b"old", b"new"):
        save(tmp_path / name, data)
    assert (tmp_path / name).read_bytes() == b"new"
    assert os.listdir(tmp_path) == [name]


def test_a_name_that_is_too_long_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SaveError, match="choose a shorter name"):
        save(tmp_path / ("m" * 256), b"new")
    assert os.listdir(tmp_path) == []


@needs_linux
def test_a_name_that_is_not_unicode_is_written(tmp_path: Path, creation: str) -> None:
    name = os.fsdecode(b"\xff\xfe" * 40)
    save(tmp_path / name, b"new")
    assert os.listdir(tmp_path) == [name]


# --- special files


@needs_linux
def test_a_device_is_written_directly(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/dev/null")
    for path in ("/dev/null", tmp_path / "link"):
        save(path, bytes(MIB))
        assert stat.S_ISCHR(os.stat(path).st_mode)


@needs_linux
def test_a_full_device_is_reported() -> None:
    with pytest.raises(SaveError, match=r"/dev/full: No space left on device$"):
        save("/dev/full", b"new")
    assert stat.S_ISCHR(os.stat("/dev/full").st_mode)


@needs_linux
def test_a_named_pipe_is_written_directly(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    received: list[bytes] = []
    reader = threading.Thread(target=lambda: received.append(path.read_bytes()))
    reader.start()
    with tempfile.TemporaryFile() as source:
        source.write(b"b" * MIB)
        source.flush()
        with AtomicFile(path) as target:
            target.write(b"a")
            target.copy(source.fileno(), 0, MIB)
    reader.join()
    assert received == [b"a" + b"b" * MIB]
    assert stat.S_ISFIFO(path.stat().st_mode)


@needs_linux
@pytest.mark.parametrize("path", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
def test_standard_output_is_written_at_its_position(tmp_path: Path, path: str) -> None:
    code = "print('before', flush=True); save(sys.argv[1], b'new ' * 100_000); print('after')"
    expected = "before\n" + "new " * 100_000 + "after"
    assert run_python(code, path) == expected
    with (tmp_path / "out").open("wb") as file:
        subprocess.run([sys.executable, "-c", PRELUDE + code, path], stdout=file, check=True)
    assert (tmp_path / "out").read_text() == expected + "\n"
    assert os.listdir(tmp_path) == ["out"]


@needs_linux
def test_a_pipe_without_a_reader_raises_broken_pipe_error() -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    with pytest.raises(SaveError) as error_info:
        save(f"/dev/fd/{write_end}", b"new")
    assert isinstance(error_info.value, BrokenPipeError)
    os.close(write_end)


# --- error classes


@pytest.mark.parametrize("base_class", [SaveError, SourceError])
def test_an_error_is_an_instance_of_the_builtin_class_of_its_errno(base_class: type[errors.FileError]) -> None:
    for error_class in base_class.__subclasses__():
        if error_class.__module__ != errors.__name__:
            continue
        builtin = error_class.__bases__[-1]
        code = next(code for code in errno.errorcode if type(OSError(code, "")) is builtin)
        error = base_class.from_os_error(OSError(code, "no"), "a.onnx", "do this")
        assert type(error) is error_class
        assert isinstance(error, errors.Error)
        assert str(error) == "a.onnx: no; do this"
        unpickled = pickle.loads(pickle.dumps(error))
        assert (type(unpickled), str(unpickled), unpickled.errno) == (error_class, str(error), code)
    assert type(base_class.from_os_error(OSError(errno.EIO, "no"), "a.onnx")) is base_class


def test_an_argument_that_is_not_a_path_is_refused() -> None:
    with pytest.raises(TypeError):
        AtomicFile(3)  # type: ignore[arg-type]
    with pytest.raises(SaveError):
        save("", b"new")
