"""Find models, and record their states, by which a later run recognizes unchanged models."""

from __future__ import annotations

import errno
import glob
import os
import stat
from collections import namedtuple
from typing import TYPE_CHECKING, Any

from onnxwire.errors import SourceError
from onnxwire.io.folder import match_pattern
from onnxwire.io.remote.address import is_address, parse_address, shown_source
from onnxwire.io.utf8 import valid_text
from onnxwire.tensor.external_data import fault_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Self, TypeAlias

    from onnxwire.io.remote.version import Version

    Options = Mapping[str, Any] | None
    FileState = list[Any]
    """The size of a file, and a mark that changes with its content: its modification time in ns, or on a server its
    ETag, version or modification date as text, or None."""
    Entry: TypeAlias = "State | Failure"

MAX_REASON_CHARS = 10_000  # maximum length of an error's text in a catalog


class State(namedtuple("State", ("size", "mark", "hashed", "checked", "files"))):
    """The state of a model when it was read; the table `_states` stores it as a list.

    size, mark: the state of its file, see FileState. hashed, checked: whether its payloads were hashed, and whether it
    was checked.
    files: the states of its external files by location; None for a missing or unusable file (see `file_states`).
    """

    __slots__ = ()
    size: int
    mark: int | str | None
    hashed: bool
    checked: bool
    files: dict[str, FileState | None]

    def is_current(self, file_state: FileState, hashed: bool, checked: bool) -> bool:
        """Return whether the file still has this state, and the model was hashed and checked as far as requested.

        Returns False also if the state has no mark.
        file_state: the present state of the model's file.
        """
        is_unchanged = [self.size, self.mark] == file_state and self.mark is not None
        return is_unchanged and self.hashed >= hashed and self.checked >= checked


class Failure(namedtuple("Failure", ("error", "reason"))):
    """The class name and the message of the error that a model raised when it was read."""

    __slots__ = ()
    error: str
    reason: str

    @classmethod
    def of(cls, error: BaseException) -> Self:
        """Make a failure of an error."""
        return cls(type(error).__name__, valid_text(str(error))[:MAX_REASON_CHARS])


def name_of(source: str) -> str:
    """Return the name of a model in a catalog: its absolute path, or its address without user, password and query."""
    return shown_source(source)


def find_models(
    sources: Iterable[str | os.PathLike[str]], options: Options = None
) -> tuple[dict[str, tuple[str, FileState]], dict[str, SourceError]]:
    """Find the models that paths, addresses, patterns and folders name.

    options: storage_options for addresses.
    Returns two dicts: the source and state of each model by its name, sorted; and an error, by path or address (as in
    `name_of`), of each source that names no model, of each file, folder or address that can't be accessed, of each
    pipe or device, and of addresses that differ only in user, password or query.
    """
    models: dict[str, tuple[str, FileState]] = {}
    errors: dict[str, SourceError] = {}
    addresses: list[str] = []
    for source in sources:
        source_text = os.fspath(source)
        if is_address(source_text):
            addresses.append(source_text)
            continue
        try:
            paths = _find_paths(source_text, errors)
        except SourceError as error:
            errors[os.path.abspath(source_text)] = error
            continue
        for path in paths:
            try:
                models[path] = path, _path_state(path)
            except OSError as error:
                errors[path] = SourceError.from_os_error(error, path)
    _add_addresses(addresses, options, models, errors)
    return dict(sorted(models.items())), errors


def file_states(files: Iterable[tuple[str, str]], options: Options = None) -> dict[tuple[str, str], FileState | None]:
    """Return the states of external files, each named by the source of a model and a location.

    The state is None for a file that is missing or has a forbidden location, and for a local file that is not regular
    or whose status can't be read. A file on a server is omitted if its request fails for another reason.
    """
    states: dict[tuple[str, str], FileState | None] = {}
    remote_files = []
    for source, location in dict.fromkeys(files):
        if fault_of(location):
            states[source, location] = None
        elif is_address(source):
            remote_files.append((source, location))
        else:
            try:
                states[source, location] = _path_state(os.path.join(os.path.dirname(source), location))
            except OSError:
                states[source, location] = None
    if remote_files:
        from onnxwire.io.remote.address_listing import versions_of

        models = [parse_address(source) for source, _ in remote_files]
        file_addresses = [model.beside(location) for model, (_, location) in zip(models, remote_files, strict=True)]
        versions = versions_of(file_addresses, options, models=models)
        for file, version in zip(remote_files, versions, strict=True):
            if not isinstance(version, SourceError):
                states[file] = _version_state(version)
            elif isinstance(version, FileNotFoundError):
                states[file] = None
    return states


def _find_paths(source_text: str, errors: dict[str, SourceError]) -> list[str]:
    """Return the absolute paths of the files that a source names. Add the errors of unreadable folders to `errors`.

    Raises SourceError if the source names no file.
    """
    if os.path.isdir(source_text):
        matches = _find_models_below(source_text, errors)
        reason = "there is no .onnx file in this folder"
    else:
        matches = [source_text] if os.path.lexists(source_text) else match_pattern(source_text)
        reason = "no file matches the pattern" if glob.has_magic(source_text) else os.strerror(errno.ENOENT)
    paths = [os.path.abspath(match) for match in matches if not os.path.isdir(match)]
    if not paths:
        raise SourceError.from_os_error(FileNotFoundError(errno.ENOENT, reason), source_text)
    return paths


def _find_models_below(top_folder: str, errors: dict[str, SourceError]) -> list[str]:
    """Return the paths of the .onnx files in a folder and its subfolders. Add the errors of folders to `errors`.

    Links to folders are not followed. Hidden files and folders are skipped, as by glob, since they are usually copies
    and caches.
    os.walk is not used, because in Python 3.11 it is recursive and fails at 1,000 nested folders.
    """
    matches = []
    folders = [top_folder]
    while folders:
        folder = folders.pop()
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    if entry.name.startswith("."):
                        continue
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
                    elif entry.name.lower().endswith(".onnx"):
                        matches.append(entry.path)
        except OSError as error:
            path = os.path.abspath(folder)
            errors[path] = SourceError.from_os_error(error, path)
    return matches


def _path_state(path: str) -> FileState:
    """Return the state of a local file. Raises OSError."""
    status = os.stat(path)
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "it is a pipe or a device, not a file")
    return [status.st_size, status.st_mtime_ns]


def _version_state(version: Version) -> FileState:
    """Return the state of a file on a server."""
    return [version.size, version.etag or version.version or (version.modified and str(version.modified))]


def _add_addresses(
    addresses: list[str],
    options: Options,
    models: dict[str, tuple[str, FileState]],
    errors: dict[str, SourceError],
) -> None:
    """Add the models that addresses name to `models`, and errors to `errors`."""
    if not addresses:
        return
    from onnxwire.io.remote.address_listing import find_files

    for files_or_error in find_files(addresses, options):
        if isinstance(files_or_error, SourceError):
            errors[files_or_error.filename] = files_or_error
            continue
        for source, version in files_or_error:
            name = name_of(source)
            if name in models and models[name][0] != source:
                reason = "two addresses differ only in user, password or query, which a catalog does not store"
                errors[name] = SourceError(errno.EINVAL, reason, name)
            else:
                models[name] = source, _version_state(version)
