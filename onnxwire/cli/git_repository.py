"""Runs git: its settings and attributes, and the objects of Git LFS."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import IO

from onnxwire.errors import PathError, SaveError, SourceError
from onnxwire.io.atomic_file import AtomicFile
from onnxwire.io.load import load
from onnxwire.messages import ModelProto

_MAX_POINTER_BYTES = 1024  # Git LFS reads no longer file as a pointer
_POINTER = re.compile(
    rb"version https://git-lfs\.github\.com/spec/v1\n(?:ext-[^\n]*\n)*oid sha256:([0-9a-f]{64})\nsize (\d{1,18})\n"
)


def run_git(*arguments: str, file: IO[bytes] | None = None, may_fail: bool = False) -> str:
    """Run git and return its output without the last line break.

    file: its standard input. may_fail: whether to return "" if git fails, instead of raising SourceError.
    """
    try:
        done = subprocess.run(["git", *arguments], stdin=file or subprocess.DEVNULL, capture_output=True, check=False)
    except OSError as error:
        raise SourceError(error.errno, f"git cannot be run: {error.strerror}", "git") from None
    if done.returncode and not may_fail:
        reason = done.stderr.decode(errors="replace").strip() or f"exit status {done.returncode}"
        raise SourceError(None, f"`git {arguments[0]}` failed: {reason}", "git")
    return done.stdout.decode(errors="surrogateescape").removesuffix("\n")


def load_version(path: str) -> ModelProto:
    """Load a version of a model that git wrote to a file: a model, a Git LFS pointer to one, or nothing.

    Raises what `load` does, and SourceError for a pointer whose object is not in the local store.
    """
    if not _head(path):  # a version that does not exist is an empty file, or /dev/null
        return ModelProto()
    return load(resolve(path))


def resolve(path: str) -> str:
    """Return the path of a Git LFS pointer's object in the local store, and the given path of any other file."""
    pointer = read_pointer(path)
    if pointer is None:
        return path
    digest, size = pointer
    stored = _lfs_folder() / "objects" / digest[:2] / digest[2:4] / digest
    if stored.is_file() and stored.stat().st_size == size:
        return str(stored)
    reason = (
        f"a Git LFS pointer to {size:,} bytes that are not in the local store; fetch them with `git lfs fetch --all`"
    )
    raise SourceError(None, reason, path)


def read_pointer(path: str) -> tuple[str, int] | None:
    """Return the SHA-256 and the size that a Git LFS pointer names; None for another file."""
    found = _POINTER.fullmatch(_head(path))
    return None if found is None else (found[1].decode(), int(found[2]))


def _head(path: str) -> bytes:
    """Return the first bytes of a file, more than a pointer has. Raises SourceError."""
    try:
        with open(path, "rb") as file:
            return file.read(_MAX_POINTER_BYTES + 1)
    except OSError as error:
        raise SourceError(error.errno, error.strerror, path) from None


def _lfs_folder() -> Path:
    """Return the folder of Git LFS: the setting lfs.storage, relative to the repository, or `lfs` in it."""
    repository = Path(run_git("rev-parse", "--git-common-dir"))
    return repository / (run_git("config", "--type=path", "lfs.storage", may_fail=True) or "lfs")


def attributes_file(is_global: bool) -> Path:
    """Return the file of attributes that only this clone, or all repositories of this user, read."""
    if not is_global:
        return Path(run_git("rev-parse", "--git-path", "info/attributes"))
    if named := run_git("config", "--global", "--type=path", "core.attributesFile", may_fail=True):
        return Path(named)
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "git" / "attributes"


def edit_lines(path: Path, added: list[str], removed: list[str]) -> None:
    """Remove lines from a text file, and move or add others to its end. The file is created if necessary."""
    try:
        old = path.read_bytes()
    except FileNotFoundError:
        old = b""
    except OSError as error:
        raise SourceError(error.errno, error.strerror, str(path)) from None
    gone = {os.fsencode(line) for line in (*added, *removed)}
    lines = [line for line in old.splitlines() if line not in gone] + list(map(os.fsencode, added))
    new = b"".join(line + b"\n" for line in lines)
    if new == old or not (new or old):
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SaveError(error.errno, error.strerror, str(path)) from None
    with AtomicFile(str(path)) as out:
        out.write(new)


def refuse_outside(path: str) -> None:
    """Raise PathError unless the working directory is in a repository."""
    if not run_git("rev-parse", "--git-dir", may_fail=True):
        raise PathError("not in a git repository; change into one, or use --global", "", path)
