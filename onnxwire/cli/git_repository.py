"""Runs git, changes its settings and attributes, and finds the objects of Git LFS."""

from __future__ import annotations

import os
import re
import subprocess
import time
from pathlib import Path
from typing import IO

from onnxwire.errors import PathError, SaveError, SourceError, count_text
from onnxwire.io.atomic_file import AtomicFile
from onnxwire.io.load import load
from onnxwire.messages import ModelProto

_MAX_LOCK_SECONDS = 3  # time to wait while another process changes the same settings
_MAX_POINTER_BYTES = 1024  # Git LFS treats larger files as content
# Exit status of `git config --unset-all` if the setting does not exist.
_ABSENT_SETTING_STATUS = 5
# The text of a Git LFS pointer, with the SHA-256 and the size of its object.
_POINTER = re.compile(
    rb"version https://git-lfs\.github\.com/spec/v1\n(?:ext-[^\n]*\n)*oid sha256:([0-9a-f]{64})\nsize (\d{1,18})\n"
)


def run_git(*arguments: str, file: IO[bytes] | None = None, may_fail: bool = False, accepted_status: int = 0) -> str:
    """Run git and return its output without the last line break.

    file: its standard input. accepted_status: an exit status besides 0 that is no failure. may_fail: whether to return
    the output, usually "", after a failure.
    Raises SourceError if git can't be started, and after a failure without `may_fail`.
    """
    environment = {**os.environ, "LC_ALL": "C"}  # untranslated, because some messages are parsed
    try:
        completed = subprocess.run(
            ["git", *arguments],
            stdin=file or subprocess.DEVNULL,
            capture_output=True,
            check=False,
            env=environment,
        )
    except OSError as error:
        raise SourceError(error.errno, f"git cannot be run: {error.strerror}", "git") from None
    if completed.returncode not in (0, accepted_status) and not may_fail:
        reason = completed.stderr.decode(errors="replace").strip() or f"exit status {completed.returncode}"
        raise SourceError(None, f"`git {arguments[0]}` failed: {reason}", "git")
    return completed.stdout.decode(errors="surrogateescape").removesuffix("\n")


def load_version(path: str) -> ModelProto:
    """Load a version of a model that git wrote to a file: a model, a Git LFS pointer to a model, or nothing.

    Raises the errors of `load` and `resolve_pointer`.
    """
    if not _read_head(path):  # a version that does not exist is an empty file, or /dev/null
        return ModelProto()
    return load(resolve_pointer(path))


def resolve_pointer(path: str) -> str:
    """Return the path of a Git LFS pointer's object in the local store, or `path` itself if the file is no pointer.

    Raises SourceError if the file can't be read, git fails, or the object is not in the store.
    """
    pointer = read_pointer(path)
    if pointer is None:
        return path
    digest, size = pointer
    object_path = _lfs_folder() / "objects" / digest[:2] / digest[2:4] / digest
    if object_path.is_file() and object_path.stat().st_size == size:
        return str(object_path)
    reason = (
        f"a Git LFS pointer to an object of {count_text(size, 'byte')} that is not in the local store; "
        "fetch it with `git lfs fetch --all`"
    )
    raise SourceError(None, reason, path)


def read_pointer(path: str) -> tuple[str, int] | None:
    """Return the SHA-256 and the size in bytes that a Git LFS pointer names; None for another file."""
    match = _POINTER.fullmatch(_read_head(path))
    return None if match is None else (match[1].decode(), int(match[2]))


def _read_head(path: str) -> bytes:
    """Return the first bytes of a file, more than a pointer has. Raises SourceError."""
    try:
        with open(path, "rb") as file:
            return file.read(_MAX_POINTER_BYTES + 1)
    except OSError as error:
        raise SourceError(error.errno, error.strerror, path) from None


def _lfs_folder() -> Path:
    """Return the folder of Git LFS: the setting lfs.storage, relative to git's folder, or `lfs` in git's folder."""
    git_folder = Path(run_git("rev-parse", "--git-common-dir"))
    return git_folder / (run_git("config", "--type=path", "lfs.storage", may_fail=True) or "lfs")


def read_setting(scope: str, name: str) -> list[str]:
    """Return the values of a setting in the file of a scope, "--local" or "--global"."""
    return run_git("config", scope, "--null", "--get-all", name, may_fail=True).split("\0")[:-1]


def write_setting(scope: str, *arguments: str) -> None:
    """Run `git config` to change a setting; waits at most three seconds while another process has locked the file."""
    deadline = time.monotonic() + _MAX_LOCK_SECONDS
    while True:
        try:
            run_git("config", scope, *arguments, accepted_status=_ABSENT_SETTING_STATUS)
        except SourceError as error:
            if "File exists" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.05)
        else:
            return


def find_attributes_file(is_global: bool) -> Path:
    """Return the path of the attributes file of this clone, or of all repositories of this user."""
    if not is_global:
        return Path(run_git("rev-parse", "--git-path", "info/attributes"))
    if configured_path := run_git("config", "--global", "--type=path", "core.attributesFile", may_fail=True):
        return Path(configured_path)
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "git" / "attributes"


def edit_line(path: Path, line: str, *, is_present: bool) -> None:
    """Make a line the last of a text file, or remove it; the other lines do not change.

    is_present: whether the file contains the line afterwards.
    The file is created if necessary. If it becomes empty, it is deleted, unless the path is a symbolic link.
    """
    if path.exists() and not path.is_file():  # reading a pipe would wait for a writer
        raise SourceError(None, "not a regular file", str(path))
    try:
        old_data = path.read_bytes()
    except FileNotFoundError:
        old_data = b""
    except OSError as error:
        raise SourceError(error.errno, error.strerror, str(path)) from None
    encoded = os.fsencode(line)
    lines = [existing_line for existing_line in old_data.split(b"\n") if existing_line != encoded]
    if is_present:
        lines.insert(len(lines) - (lines[-1:] == [b""]), encoded)  # before a last line break, if there is one
    new_data = b"\n".join(lines)
    if new_data == old_data:
        return
    try:
        if not new_data and not path.is_symlink():
            path.unlink()
            return
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SaveError(error.errno, error.strerror, str(path)) from None
    with AtomicFile(str(path)) as out:
        out.write(new_data)


def require_repository(path: str) -> None:
    """Raise PathError if the working directory is not in a git repository, SourceError if git fails otherwise.

    path: the working directory, for the error.
    """
    try:
        run_git("rev-parse", "--git-dir")
    except SourceError as error:
        if "not a git repository" not in str(error):
            raise  # another error, such as a repository that belongs to another user
        raise PathError("not in a git repository; change into one, or use --global", "", path) from None
