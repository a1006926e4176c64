"""Writing files: the written bytes, and the old file, which stays complete after any fault."""

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

linux = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")
root = pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="needs root")
NOBODY_UID = 65534
NAMELESS = getattr(os, "O_TMPFILE", -1)  # the flag of a file without a name
MIB = 1 << 20
SHM = Path("/dev/shm")


def save(path: str | os.PathLike[str], data: bytes, **options: Any) -> None:
    with AtomicFile(path, **options) as target:
        target.write(data)


def python(code: str, *arguments: object, before: tuple[str, ...] = (), **options: Any) -> str:
    """Return the output of a new interpreter that runs code with `AtomicFile`, `os`, `sys` and `save`."""
    command = [*before, sys.executable, "-c", PRELUDE + code, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


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

# Code that gives up root's privileges, with which everything is accessible.
DROP_PRIVILEGES = f"if os.getuid() == 0: os.setgroups([]); os.setgid({NOBODY_UID}); os.setuid({NOBODY_UID})\n"


@pytest.fixture
def public() -> Iterator[Path]:
    """Make a directory that every user can access; pytest's own are private."""
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(params=["nameless", "named"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run a test with both methods of creating the new file, where the system has both."""
    if request.param == "named":
        open_nameless(monkeypatch, refuse(errno.EOPNOTSUPP))
    elif sys.platform != "linux":
        pytest.skip("needs Linux")
    return str(request.param)


def open_nameless(monkeypatch: pytest.MonkeyPatch, act: Callable[..., int]) -> None:
    """Replace the system call that creates a nameless file."""
    system_open = os.open

    def opened(path: Any, flags: int, *arguments: Any, **options: Any) -> int:
        is_nameless = flags & NAMELESS == NAMELESS
        return (act if is_nameless else system_open)(path, flags, *arguments, **options)

    monkeypatch.setattr(os, "open", opened)


def refuse(code: int) -> Callable[..., Any]:
    """Return a function that fails as a system call does."""

    def call(*_: object, **__: object) -> Any:
        raise OSError(code, os.strerror(code))

    return call


@pytest.fixture
def old(tmp_path: Path) -> Path:
    path = tmp_path / "model.onnx"
    path.write_bytes(b"old")
    return path


def assert_untouched(old: Path) -> None:
    assert old.read_bytes() == b"old"
    assert os.listdir(old.parent) == [old.name]


# --- the written bytes


def test_a_new_file_has_the_written_bytes(tmp_path: Path, way: str) -> None:
    save(tmp_path / "model.onnx", b"new")
    assert (tmp_path / "model.onnx").read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["model.onnx"]


def test_an_old_file_is_replaced_by_a_shorter_one(old: Path, way: str) -> None:
    save(old, b"")
    assert old.read_bytes() == b""
    assert os.listdir(old.parent) == [old.name]


def test_a_relative_path_is_written_in_the_working_directory(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(old.parent)
    save(old.name, b"new")
    assert old.read_bytes() == b"new"


def test_a_change_of_the_working_directory_does_not_move_it(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(old.parent)
    with AtomicFile(old.name) as target:
        target.write(b"new")
        os.chdir("/")
    assert old.read_bytes() == b"new"


def test_an_old_file_that_is_mapped_keeps_its_bytes(old: Path, way: str) -> None:
    with old.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapping:
        with AtomicFile(old) as target:
            target.copy(file.fileno(), 1, 2)
            target.write(b"er")
        assert mapping[:] == b"old"
        assert old.read_bytes() == b"lder"


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
def test_pieces_and_ranges_arrive_in_order(operations: list[Any], stream: bool) -> None:
    data = random.Random(1).randbytes(2 * MIB)
    with tempfile.TemporaryFile() as source, tempfile.TemporaryFile() as file:
        source.write(data)
        source.flush()
        target = FileWriter(file.fileno(), fresh=not stream, stream=stream)
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
def test_ranges_arrive_on_every_file_system_and_across_them(tmp_path: Path, folders: tuple[str, str]) -> None:
    if not SHM.is_dir():
        pytest.skip("needs /dev/shm")
    chance = random.Random(3)
    data = chance.randbytes(3 * MIB)
    paths = {"tmp": tmp_path, "shm": SHM}
    with (
        tempfile.TemporaryFile(dir=paths[folders[0]]) as source,
        tempfile.TemporaryFile(dir=paths[folders[1]]) as target,
    ):
        source.write(data)
        source.flush()
        for _ in range(30):
            start = chance.randrange(len(data)) & chance.choice([-1, -4096])
            length = chance.randrange(len(data) - start)
            offset = chance.choice([0, 4096, chance.randrange(MIB)])
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


@linux
@pytest.mark.parametrize("folders", [("tmp", "tmp"), ("tmp", "shm"), ("shm", "shm")])
@pytest.mark.parametrize("front", [b"", b"new"])
def test_holes_are_copied_as_holes(tmp_path: Path, folders: tuple[str, str], front: bytes) -> None:
    size = 5 << 30
    islands = {0: b"start", 3 << 20: os.urandom(MIB), (4 << 30) + 12345: b"island"}  # the last stretch is a hole
    paths = {"tmp": tmp_path, "shm": Path(tempfile.mkdtemp(dir=SHM))}
    source, target = paths[folders[0]] / "source", paths[folders[1]] / "target"
    try:
        with source.open("wb") as file:
            for offset, data in islands.items():
                file.seek(offset)
                file.write(data)
            file.truncate(size)
        with source.open("rb") as file:
            file.seek(77)
            with AtomicFile(target) as writer:
                writer.write(front)
                writer.copy(file.fileno(), 0, size)
                writer.write(b"end")
            assert file.tell() == 77
        assert target.stat().st_size == size + len(front) + 3
        assert target.stat().st_blocks * 512 < 2 * MIB
        with target.open("rb") as file:
            for offset, data in islands.items():
                file.seek(offset + len(front))
                assert file.read(len(data)) == data
                assert not any(file.read(1000))
            file.seek(-10, os.SEEK_END)
            assert file.read() == bytes(7) + b"end"
    finally:
        shutil.rmtree(paths["shm"])


@linux
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
    with tempfile.TemporaryDirectory(dir=SHM) as other:
        assert int(python(code, source, tmp_path / "target", Path(other) / "target")) < 10_000


# --- progress and interrupts


def test_progress_counts_up_to_the_end(tmp_path: Path) -> None:
    calls: list[int] = []
    save(tmp_path / "model.onnx", bytes(100 * MIB + 1), progress=calls.append)
    assert calls == sorted(set(calls))
    assert calls[-1] == 100 * MIB + 1
    assert max(b - a for a, b in zip([0, *calls], calls, strict=False)) <= 64 * MIB


@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(errno.EPIPE, "the progress bar's own pipe")])
def test_an_exception_of_progress_ends_the_save_and_is_raised(old: Path, way: str, error: BaseException) -> None:
    def progress(_: int) -> None:
        raise error

    with pytest.raises(type(error)) as caught:
        save(old, bytes(20 * MIB), progress=progress)
    assert caught.value is error
    assert_untouched(old)


def test_an_exception_of_the_block_is_raised(old: Path, way: str) -> None:
    with pytest.raises(FileNotFoundError) as caught, AtomicFile(old) as target:
        target.write(b"new")
        raise FileNotFoundError
    assert not isinstance(caught.value, SaveError)
    assert_untouched(old)


def test_an_error_that_the_block_swallows_still_leaves_the_old_file(old: Path, way: str) -> None:
    error = pytest.raises(RuntimeError, match="failed before")
    with tempfile.TemporaryFile() as source, error, AtomicFile(old) as target:
        target.copy(source.fileno(), 0, 1)
        with contextlib.suppress(SourceError):
            target.write(b"new")
    assert_untouched(old)


@linux
def test_a_full_disk_that_the_block_ignores_is_raised_at_the_end() -> None:
    file = AtomicFile("/dev/full")
    with pytest.raises(SaveError, match="No space left"), file as target, contextlib.suppress(OSError):
        target.write(bytes(MIB))


def test_progress_that_writes_is_refused(tmp_path: Path) -> None:
    file = AtomicFile(tmp_path / "model.onnx", progress=lambda _: target.write(b"more"))
    with pytest.raises(RuntimeError, match="is still under way"), file as target:
        target.write(bytes(9 * MIB))
    assert os.listdir(tmp_path) == []


@linux
def test_a_signal_interrupts_a_write_that_waits() -> None:
    def handler(*_: object) -> None:
        raise InterruptedError("alarm")

    read, write = os.pipe()
    before = signal.signal(signal.SIGALRM, handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(InterruptedError, match="alarm"):
            FileWriter(write, stream=True).write(bytes(MIB))  # no process reads the pipe
    finally:
        signal.signal(signal.SIGALRM, before)
        os.close(read)
        os.close(write)


# --- faults of the disk and the system


@linux
def test_a_full_disk_leaves_the_old_file(tmp_path: Path) -> None:
    before = ("unshare", "--user", "--map-root-user", "--mount", "sh", "-c")
    mount = (*before, 'mount -t tmpfs -o size=1m none "$0" && exec "$@"', str(tmp_path))
    if not shutil.which("unshare") or subprocess.run([*mount, sys.executable, "-V"], capture_output=True).returncode:
        pytest.skip("can't mount a file system")
    code = (
        "path = sys.argv[1] + '/model.onnx'\n"
        "save(path, b'old')\n"
        "attempt(path, bytes(5 << 20))\n"
        "print(open(path).read(), os.listdir(sys.argv[1]))\n"
        "save(path, bytes(900_000)); print(os.path.getsize(path))"
    )
    failed, listing, again = python(code, tmp_path, before=mount).splitlines()
    match = re.fullmatch(
        r"SaveError: .*/model\.onnx: No space left on device; the file needs 5,242,880 bytes and ([\d,]+) bytes are "
        r"free in .*: make room, or save elsewhere; the old file is unchanged",
        failed,
    )
    assert match
    assert 1_000_000 < int(match[1].replace(",", "")) <= MIB
    assert listing == "old ['model.onnx']"
    assert again == "900000"


@linux
def test_a_limit_of_file_size_leaves_the_old_file(old: Path) -> None:
    code = "resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000)); attempt(sys.argv[1], bytes(5 << 20))"
    message = python(code, old)
    assert message.startswith(f"SaveError: {old}: File too large; the file system, or a limit of this process")
    assert_untouched(old)


@linux
def test_a_limit_of_file_size_stops_a_copy_in_the_kernel(old: Path) -> None:
    source = old.with_name("source")
    source.write_bytes(bytes(MIB))
    code = (
        "resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))\n"
        "try:\n"
        "    with open(sys.argv[1], 'rb') as file, AtomicFile(sys.argv[2]) as target:\n"
        "        target.copy(file.fileno(), 0, 1 << 20)\n"
        "except SaveError as error: print(error)"
    )
    assert "File too large" in python(code, source, old)
    source.unlink()
    assert_untouched(old)


@linux
def test_a_disk_that_fails_while_it_is_written_leaves_the_old_file(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = os.open("/proc/self/mem", os.O_RDWR)  # page 0 is not mapped: EIO
    open_nameless(monkeypatch, lambda *arguments, **options: memory)
    with pytest.raises(
        SaveError, match=r"Input/output error; the disk, or the connection to it, fails.*; the old file is unchanged"
    ) as caught:
        save(old, b"new")
    assert caught.value.errno == errno.EIO
    assert_untouched(old)


@linux
def test_a_source_that_fails_while_it_is_copied_is_not_a_fault_of_the_target(old: Path, way: str) -> None:
    with (
        open("/proc/self/mem", "rb") as source,
        pytest.raises(SourceError, match="Input/output error"),
        AtomicFile(old) as target,
    ):
        target.copy(source.fileno(), 0, MIB)
    assert_untouched(old)


@pytest.mark.parametrize(("start", "end"), [(0, 2000), (0, MIB), (1, 20 * MIB)])
def test_a_source_that_is_cut_while_it_is_copied_is_reported(old: Path, way: str, start: int, end: int) -> None:
    with tempfile.TemporaryFile() as source:
        source.write(bytes(end - 1))
        source.flush()
        reason = rf"ends at byte {end - 1:,}, 1 bytes too soon; it was truncated"
        with pytest.raises(SourceError, match=reason), AtomicFile(old) as target:
            target.copy(source.fileno(), start, end - start)
    assert_untouched(old)


@pytest.mark.parametrize("call", ["fsync", "replace", "fchmod", "fchown"])
@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
def test_a_system_call_that_fails_at_the_end_leaves_the_old_file(
    old: Path, way: str, call: str, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, call, refuse(code))
    if call == "fchown":  # an owner that can't be kept is not a fault
        save(old, b"old")
    else:
        with pytest.raises(SaveError, match=os.strerror(code)):
            save(old, b"new")
    monkeypatch.undo()
    assert_untouched(old)


@linux
def test_a_file_system_that_refuses_a_nameless_file_its_name_gets_a_copy(
    old: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = os.urandom(MIB)
    monkeypatch.setattr(os, "link", refuse(errno.EPERM))
    save(old, data)
    assert old.read_bytes() == data
    assert os.listdir(old.parent) == [old.name]


@linux
def test_a_failed_sync_of_the_directory_is_reported(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.fsync

    def fsync(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            refuse(errno.EIO)()
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(SaveError, match="the new file is in place, but may be lost") as caught:
        save(old, b"new")
    assert "as it was" not in str(caught.value)
    assert old.read_bytes() == b"new"


@linux
def test_the_bytes_reach_the_disk_before_the_name(old: Path, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    real = {name: getattr(os, name) for name in ("fsync", "link", "replace")}

    def spy(name: str) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            folder = name == "fsync" and stat.S_ISDIR(os.fstat(arguments[0]).st_mode)
            calls.append("fsync of the directory" if folder else name)
            return real[name](*arguments, **options)

        return call

    for name in real:
        monkeypatch.setattr(os, name, spy(name))
    save(old, b"new")
    assert calls == ["fsync", "link"] * (way == "nameless") + ["fsync", "replace", "fsync of the directory"]


# --- kills

KILLED_PROGRAM = """
way, moment, path = sys.argv[1:]
def wait(*_, **__):
    print("now", flush=True)
    time.sleep(60)
if way == "named":
    def refuse(*_): raise OSError
    AtomicFile._open_nameless = refuse
if moment != "write":
    setattr(os, moment, wait)
with AtomicFile(path) as target:
    target.write(bytes(3 << 20))
    if moment == "write":
        wait()
"""


@linux
@pytest.mark.parametrize(
    ("way", "moment"),
    [
        *[("nameless", moment) for moment in ("write", "fsync", "link", "fchmod", "replace")],
        *[("named", moment) for moment in ("write", "fchmod", "fsync", "replace")],
    ],
)
def test_a_kill_leaves_the_old_file_and_no_lasting_leftovers(old: Path, way: str, moment: str) -> None:
    command = [sys.executable, "-c", PRELUDE + KILLED_PROGRAM, way, moment, str(old)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"now\n"
        before = set(os.listdir(old.parent))
        save(old, b"old")  # another save in the meantime has no effect on it
        assert set(os.listdir(old.parent)) == before
        process.kill()
    assert old.read_bytes() == b"old"
    if way == "nameless" and moment in ("write", "fsync", "link"):
        assert_untouched(old)
    else:
        assert len(os.listdir(old.parent)) == 2
    save(old, b"old")
    assert_untouched(old)


@linux
def test_a_kill_at_any_moment_leaves_one_complete_file(old: Path) -> None:
    code = (
        "for i in range(10**6):\n"
        "    save(sys.argv[1], bytes([i % 256]) * (3 << 20))\n"
        "    if i == 0: print('now', flush=True)"
    )
    chance = random.Random(4)
    for _ in range(8):
        command = [sys.executable, "-c", PRELUDE + code, str(old)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"now\n"
            time.sleep(chance.random() / 10)
            process.kill()
        data = old.read_bytes()
        assert data == data[:1] * (3 << 20)
    save(old, b"old")
    assert_untouched(old)


# --- concurrent saves


def test_two_saves_of_one_path_both_finish_and_the_last_wins(old: Path, way: str) -> None:
    with AtomicFile(old) as first:
        first.write(b"first")
        with AtomicFile(old) as second:
            second.write(b"second")
        assert old.read_bytes() == b"second"
    assert old.read_bytes() == b"first"
    assert os.listdir(old.parent) == [old.name]


@linux
@pytest.mark.parametrize("way", ["nameless", "named"])
def test_many_processes_that_save_to_one_path_do_not_disturb_each_other(old: Path, way: str) -> None:
    code = (
        "def refuse(*_): raise OSError\n"
        "if sys.argv[1] == 'named': AtomicFile._open_nameless = refuse\n"
        "for _ in range(30): save(sys.argv[2], sys.argv[3].encode() * 300_000)"
    )
    commands = [[sys.executable, "-c", PRELUDE + code, way, str(old), letter] for letter in "abcd"]
    processes = [subprocess.Popen(command, stderr=subprocess.PIPE) for command in commands]
    for process in processes:
        assert (process.communicate()[1], process.returncode) == (b"", 0)
    data = old.read_bytes()
    assert data == data[:1] * 300_000
    assert os.listdir(old.parent) == [old.name]


def test_many_threads_that_save_to_one_path_do_not_disturb_each_other(old: Path, way: str) -> None:
    failures: list[BaseException] = []

    def run(letter: bytes) -> None:
        try:
            for _ in range(30):
                save(old, letter * 300_000)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(letter,)) for letter in (b"a", b"b", b"c")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    data = old.read_bytes()
    assert data == data[:1] * 300_000
    assert os.listdir(old.parent) == [old.name]


@linux
def test_only_stale_files_of_the_same_path_are_removed(old: Path) -> None:
    stale = ".model.onnx.0123456789ab.onnxwire-tmp"
    kept = [
        ".model.0123456789ab.onnxwire-tmp",
        ".model.onnx.2.0123456789ab.onnxwire-tmp",
        ".model.onnx.0123456789ab.onnx",
        ".model.onnx.link.234567.onnxwire-tmp",
    ]
    for name in [stale, *kept]:
        (old.parent / name).write_bytes(b"")
    link = old.parent / ".model.onnx.abababababab.onnxwire-tmp"
    link.symlink_to(old)
    save(old, b"new")
    assert sorted(os.listdir(old.parent)) == sorted([old.name, link.name, *kept])


# --- links, permissions and names


def test_the_target_of_a_symbolic_link_is_replaced(old: Path, way: str) -> None:
    folder = old.parent / "folder"
    folder.mkdir()
    (folder / "second").symlink_to("../model.onnx")
    (old.parent / "first").symlink_to(folder / "second")
    save(old.parent / "first", b"new")
    assert old.read_bytes() == b"new"
    assert not old.is_symlink()
    assert (old.parent / "first").is_symlink()
    assert (folder / "second").is_symlink()
    assert os.listdir(folder) == ["second"]


def test_the_target_of_a_dangling_link_is_created(tmp_path: Path, way: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("folder/model.onnx")
    save(tmp_path / "link", b"new")
    assert (tmp_path / "folder" / "model.onnx").read_bytes() == b"new"
    assert (tmp_path / "link").is_symlink()


def test_links_in_a_circle_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(SaveError, match="symbolic links") as caught:
        save(tmp_path / "a", b"new")
    assert caught.value.errno == errno.ELOOP


@linux
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o644, 0o666, 0o755])
def test_permissions_are_kept(old: Path, way: str, mode: int) -> None:
    old.chmod(mode)
    with AtomicFile(old) as target:
        assert stat.S_IMODE(os.fstat(target.descriptor).st_mode) == 0o600
    assert stat.S_IMODE(old.stat().st_mode) == mode


@linux
@pytest.mark.parametrize("umask", [0o022, 0o027, 0o077])
def test_a_new_file_has_the_permissions_that_any_program_gives_it(tmp_path: Path, way: str, umask: int) -> None:
    before = os.umask(umask)
    try:
        save(tmp_path / "model.onnx", b"new")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "model.onnx").stat().st_mode) == 0o666 & ~umask


@linux
@root
def test_owner_and_group_are_kept(old: Path, way: str) -> None:
    os.chown(old, 1234, 5678)
    old.chmod(0o640)
    save(old, b"new")
    status = old.stat()
    assert (status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)) == (1234, 5678, 0o640)


@linux
@root
def test_a_group_that_can_not_be_kept_gets_the_permissions_of_others(public: Path) -> None:
    path = public / "model.onnx"
    path.write_bytes(b"old")
    path.chmod(0o664)
    os.chown(path, NOBODY_UID, 0)
    os.chown(public, NOBODY_UID, NOBODY_UID)
    python(DROP_PRIVILEGES + "save(sys.argv[1], b'new')", path)
    status = path.stat()
    assert (status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)) == (NOBODY_UID, NOBODY_UID, 0o644)


@linux
def test_attributes_and_access_lists_are_kept(old: Path, way: str) -> None:
    entries = [(0x01, 6, -1), (0x02, 4, 1234), (0x04, 4, -1), (0x10, 4, -1), (0x20, 0, -1)]
    access = struct.pack("<I", 2) + b"".join(struct.pack("<HHi", *entry) for entry in entries)
    try:
        os.setxattr(old, "user.origin", b"here")
        os.setxattr(old, "system.posix_acl_access", access)
    except OSError:
        pytest.skip("the file system has no attributes")
    save(old, b"new")
    assert os.getxattr(old, "user.origin") == b"here"
    assert os.getxattr(old, "system.posix_acl_access") == access


@linux
def test_a_directory_that_may_not_be_written_is_named_for_a_new_file(public: Path) -> None:
    folder = public / "folder"
    folder.mkdir()
    (folder / "model.onnx").write_bytes(b"old")
    (folder / "model.onnx").chmod(0o666)
    folder.chmod(0o555)
    code = DROP_PRIVILEGES + "attempt(sys.argv[1], b'new'); save(sys.argv[2], b'new')"
    reason = f"Permission denied; the directory {folder} is not writable; save elsewhere"
    assert python(code, folder / "new.onnx", folder / "model.onnx").splitlines() == [
        f"SavePermissionError: {folder}/new.onnx: {reason}",
    ]
    assert (folder / "model.onnx").read_bytes() == b"new"
    assert os.listdir(folder) == ["model.onnx"]
    folder.chmod(0o755)


@linux
def test_a_file_that_is_write_protected_is_not_replaced(public: Path) -> None:
    path = public / "model.onnx"
    path.write_bytes(b"old")
    path.chmod(0o444)
    if os.getuid() == 0:
        os.chown(public, NOBODY_UID, NOBODY_UID)
        os.chown(path, NOBODY_UID, NOBODY_UID)
    assert python(DROP_PRIVILEGES + "attempt(sys.argv[1], b'new')", path) == (
        f"SavePermissionError: {path}: Permission denied; make the file writable, or save under another name; "
        "the old file is unchanged"
    )
    assert path.read_bytes() == b"old"


def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    with pytest.raises(SaveError, match=rf"there is no directory {tmp_path}/absent$") as caught:
        save(tmp_path / "absent" / "model.onnx", b"new")
    assert isinstance(caught.value, FileNotFoundError)


@pytest.mark.parametrize("end", ["", "/", "/.", "/.."])
def test_a_directory_is_not_a_target(tmp_path: Path, end: str) -> None:
    with pytest.raises(SaveError, match="name a file in it") as caught:
        save(f"{tmp_path}{end}", b"new")
    assert isinstance(caught.value, IsADirectoryError)
    assert os.listdir(tmp_path) == []


def test_a_path_through_a_file_is_refused(old: Path) -> None:
    with pytest.raises(SaveError) as caught:
        save(old / "model.onnx", b"new")
    assert isinstance(caught.value, NotADirectoryError)
    assert_untouched(old)


@pytest.mark.parametrize("name", ["a", "m" * 255, "m" * 240, "é" * 127, "模" * 85, "模型.onnx", " .onnx", ".onnx"])
def test_a_name_may_be_as_long_and_foreign_as_the_system_allows(tmp_path: Path, way: str, name: str) -> None:
    for data in (b"old", b"new"):
        save(tmp_path / name, data)
    assert (tmp_path / name).read_bytes() == b"new"
    assert os.listdir(tmp_path) == [name]


def test_a_name_that_is_too_long_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SaveError, match="choose a shorter name"):
        save(tmp_path / ("m" * 256), b"new")
    assert os.listdir(tmp_path) == []


@linux
def test_a_name_that_is_not_unicode_is_written(tmp_path: Path, way: str) -> None:
    name = os.fsdecode(b"\xff\xfe" * 40)
    save(tmp_path / name, b"new")
    assert os.listdir(tmp_path) == [name]


# --- special files


@linux
def test_a_device_is_written_directly(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/dev/null")
    for path in ("/dev/null", tmp_path / "link"):
        save(path, bytes(MIB))
        assert stat.S_ISCHR(os.stat(path).st_mode)


@linux
def test_a_full_device_is_reported() -> None:
    with pytest.raises(SaveError, match=r"/dev/full: No space left on device$"):
        save("/dev/full", b"new")
    assert stat.S_ISCHR(os.stat("/dev/full").st_mode)


@linux
def test_a_named_pipe_is_written_directly(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    found: list[bytes] = []
    reader = threading.Thread(target=lambda: found.append(path.read_bytes()))
    reader.start()
    with tempfile.TemporaryFile() as source:
        source.write(b"b" * MIB)
        source.flush()
        with AtomicFile(path) as target:
            target.write(b"a")
            target.copy(source.fileno(), 0, MIB)
    reader.join()
    assert found == [b"a" + b"b" * MIB]
    assert stat.S_ISFIFO(path.stat().st_mode)


@linux
@pytest.mark.parametrize("path", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
def test_standard_output_is_written_at_its_position(tmp_path: Path, path: str) -> None:
    code = "print('before', flush=True); save(sys.argv[1], b'new ' * 100_000); print('after')"
    expected = "before\n" + "new " * 100_000 + "after"
    assert python(code, path) == expected
    with (tmp_path / "out").open("wb") as file:
        subprocess.run([sys.executable, "-c", PRELUDE + code, path], stdout=file, check=True)
    assert (tmp_path / "out").read_text() == expected + "\n"
    assert os.listdir(tmp_path) == ["out"]


@linux
def test_a_closed_reader_is_a_broken_pipe() -> None:
    read, write = os.pipe()
    os.close(read)
    with pytest.raises(SaveError) as caught:
        save(f"/dev/fd/{write}", b"new")
    assert isinstance(caught.value, BrokenPipeError)
    os.close(write)


# --- error classes


@pytest.mark.parametrize("base", [SaveError, SourceError])
def test_errors_are_instances_of_the_systems_errors(base: type[errors.FileError]) -> None:
    for kind in base.__subclasses__():
        if kind.__module__ != errors.__name__:
            continue
        builtin = kind.__bases__[-1]
        code = next(code for code in errno.errorcode if type(OSError(code, "")) is builtin)
        error = base.from_os_error(OSError(code, "no"), "a.onnx", "do this")
        assert type(error) is kind
        assert isinstance(error, errors.Error)
        assert str(error) == "a.onnx: no; do this"
        again = pickle.loads(pickle.dumps(error))
        assert (type(again), str(again), again.errno) == (kind, str(error), code)
    assert type(base.from_os_error(OSError(errno.EIO, "no"), "a.onnx")) is base


def test_an_argument_that_is_not_a_path_is_refused() -> None:
    with pytest.raises(TypeError):
        AtomicFile(3)  # type: ignore[arg-type]
    with pytest.raises(SaveError):
        save("", b"new")
