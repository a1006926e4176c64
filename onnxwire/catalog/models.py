"""Which models there are, and the states by which a later run knows those that did not change."""

from __future__ import annotations

import errno
import glob
import os
import stat
from collections import namedtuple
from typing import TYPE_CHECKING, Any

from onnxwire.arrow.many import plain_text
from onnxwire.errors import SourceError
from onnxwire.io.folder import match_pattern
from onnxwire.io.remote.address import is_address, parse_address, shown_source
from onnxwire.tensor.external_data import fault_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Self, TypeAlias

    from onnxwire.io.remote.version import Version

    Options = Mapping[str, Any] | None
    FileState = list[Any]
    """The size of a file, and what else it is known by: its time in nanoseconds, its ETag."""
    Entry: TypeAlias = "State | Failure"

MAX_REASON_CHARS = 10_000


class State(namedtuple("State", ("size", "mark", "hashed", "checked", "files"))):
    """The state of a model when it was read, and what was done; the journal has it as a list.

    size, mark: of its file, as of FileState. hashed, checked: whether payloads were hashed and the rules run.
    files: the states of its external files by their locations, None of one that is missing.
    """

    __slots__ = ()
    size: int
    mark: int | str | None
    hashed: bool
    checked: bool
    files: dict[str, FileState | None]

    def covers(self, file: FileState, hashed: bool, checked: bool) -> bool:
        """Whether a model whose file is this has not changed, and had all done that is asked for."""
        is_same = [self.size, self.mark] == file and self.mark is not None
        return is_same and self.hashed >= hashed and self.checked >= checked


class Failure(namedtuple("Failure", ("error", "reason"))):
    """The class of the error that a model could not be read for, and its text."""

    __slots__ = ()
    error: str
    reason: str

    @classmethod
    def of(cls, error: BaseException) -> Self:
        """The failure that an error is."""
        return cls(type(error).__name__, plain_text(str(error))[:MAX_REASON_CHARS])


def name_of(source: str) -> str:
    """The name of a model in a catalog: its whole path, or its address without user, password and query."""
    return shown_source(source)


def find_models(
    sources: Iterable[str | os.PathLike[str]], options: Options = None
) -> tuple[dict[str, tuple[str, FileState]], dict[str, SourceError]]:
    """The models that paths, addresses, patterns and folders name: by name, sorted, the source and state of each.

    Beside them what names nothing or can't be looked at, and why. options: storage_options of addresses.
    """
    found: dict[str, tuple[str, FileState]] = {}
    faults: dict[str, SourceError] = {}
    addresses: list[str] = []
    for source in sources:
        word = os.fspath(source)
        if is_address(word):
            addresses.append(word)
            continue
        try:
            paths = _paths(word, faults)
        except SourceError as error:
            faults[os.path.abspath(word)] = error
            continue
        for path in paths:
            try:
                found[path] = path, _path_state(path)
            except OSError as error:
                faults[path] = SourceError.from_os_error(error, path)
    _add_addresses(addresses, options, found, faults)
    return dict(sorted(found.items())), faults


def file_states(files: Iterable[tuple[str, str]], options: Options = None) -> dict[tuple[str, str], FileState | None]:
    """The states of external files by the source of a model and their location.

    None of what is missing, or lies where it may not be; without those that can't be looked at.
    """
    states: dict[tuple[str, str], FileState | None] = {}
    remote = []
    for source, location in dict.fromkeys(files):
        if fault_of(location):
            states[source, location] = None
        elif is_address(source):
            remote.append((source, location))
        else:
            try:
                states[source, location] = _path_state(os.path.join(os.path.dirname(source), location))
            except OSError:
                states[source, location] = None
    if remote:
        from onnxwire.io.remote.address_listing import look

        models = [parse_address(source) for source, _ in remote]
        external = [model.beside(location) for model, (_, location) in zip(models, remote, strict=True)]
        versions = look(external, options, models=models)
        for file, version in zip(remote, versions, strict=True):
            if not isinstance(version, SourceError):
                states[file] = _version_state(version)
            elif isinstance(version, FileNotFoundError):
                states[file] = None
    return states


def _paths(word: str, faults: dict[str, SourceError]) -> list[str]:
    """The whole paths of files that a path, pattern or folder names; folders that can't be read are faults."""
    if os.path.isdir(word):
        matches = _models_below(word, faults)
        reason = "there is no .onnx file in this folder"
    else:
        matches = [word] if os.path.lexists(word) else match_pattern(word)
        reason = "no file fits the pattern" if glob.has_magic(word) else os.strerror(errno.ENOENT)
    paths = [os.path.abspath(match) for match in matches if not os.path.isdir(match)]
    if not paths:
        raise SourceError.from_os_error(FileNotFoundError(errno.ENOENT, reason), word)
    return paths


def _models_below(word: str, faults: dict[str, SourceError]) -> list[str]:
    """The paths of the .onnx files in a folder and those below it; links to folders are not followed.

    Hidden files and folders are left out, as patterns do: they are copies and caches.
    os.walk of Python 3.11 calls itself for each folder, and fails for 1,000 in one another.
    """
    matches = []
    folders = [word]
    while folders:
        folder = folders.pop()
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    if entry.name.startswith("."):
                        continue
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
                    elif entry.name.endswith(".onnx"):
                        matches.append(entry.path)
        except OSError as error:
            path = os.path.abspath(folder)
            faults[path] = SourceError.from_os_error(error, path)
    return matches


def _path_state(path: str) -> FileState:
    status = os.stat(path)
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "it is a pipe or a device, and not a file")
    return [status.st_size, status.st_mtime_ns]


def _version_state(version: Version) -> FileState:
    return [version.size, version.etag or version.version or (version.modified and str(version.modified))]


def _add_addresses(
    addresses: list[str],
    options: Options,
    found: dict[str, tuple[str, FileState]],
    faults: dict[str, SourceError],
) -> None:
    if not addresses:
        return
    from onnxwire.io.remote.address_listing import find

    for files in find(addresses, options):
        if isinstance(files, SourceError):
            faults[files.filename] = files
            continue
        for source, version in files:
            name = name_of(source)
            if name in found and found[name][0] != source:
                reason = "two addresses differ only in what a catalog does not keep: user, password or query"
                faults[name] = SourceError(errno.EINVAL, reason, name)
            else:
                found[name] = source, _version_state(version)
