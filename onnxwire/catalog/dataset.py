"""The files of a catalog: a journal, and a folder of Parquet files for each table.

The journal (journal.py) lists the valid files. It also announces the files that a run is about to write, before the run
creates them. So a run may be interrupted anywhere: the next run deletes files that were announced and never became
valid, and files that were replaced more than an hour ago; it never deletes another file.

A catalog may be hostile. Only names that journal.py accepts are opened, in the catalog's folder and the folders of its
tables; links are not followed, and only regular files are opened.
"""

from __future__ import annotations

import errno
import json
import os
import stat
import time
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from onnxwire.arrow.many import model_text
from onnxwire.catalog.journal import HEADER, Contents, JournalError, read_journal
from onnxwire.catalog.models import Failure
from onnxwire.catalog.read import NAMES, failures_table
from onnxwire.errors import FileError, SaveError, SourceError
from onnxwire.io.atomic_file import sync_folder
from onnxwire.io.file_lock import try_lock
from onnxwire.io.folder import Folder

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from typing import IO, Self

    import pyarrow as pa

    from onnxwire.catalog.journal import Group
    from onnxwire.catalog.models import Entry

JOURNAL = "_journal.jsonl"  # readers of data sets ignore names that begin with an underscore
GRACE_SECONDS = 3600  # replaced files are deleted only after this time, because queries may still read them
_LOST = "a file of the catalog that held its rows was missing; make a run that names it, to read it again"


class Dataset:
    """A catalog's folder, open for one run; a context manager.

    Raises SaveError if the folder holds other files, is damaged, or is open in another run.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._journal = -1
        try:
            os.makedirs(folder, exist_ok=True)
            self._root = Folder.at(folder)
        except OSError as error:
            raise SaveError.from_os_error(error, folder) from None
        try:
            self._open()
        except OSError as error:
            self.close()
            raise _as(SaveError, error, folder) from None
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the files and release the lock, so that another run may begin."""
        journal, self._journal = self._journal, -1
        if journal >= 0:
            os.close(journal)
        self._root.close()

    def models(self) -> dict[str, Entry]:
        """Return every model of the catalog with its state when it was read, or its failure.

        Models whose rows are in the same files are adjacent, since they are best changed together.
        """
        return {model: entry for group in self._contents.groups.values() for model, entry in group.models.items()}

    def rows(self) -> dict[str, int]:
        """Return the number of rows of each table."""
        return self._contents.rows

    def change(self, models: Mapping[str, Entry], tables: Mapping[str, pa.Table], remove: Collection[str] = ()) -> None:
        """Replace the rows of some models and remove other models, atomically.

        models: the state or failure of each model; failures become rows. tables: the other rows of the models.
        """
        try:
            self._change(models, tables, remove)
        except BaseException as error:
            self.close()  # the last line may be incomplete, so nothing may be appended to it
            if isinstance(error, OSError):
                raise _as(SaveError, error, self.folder) from None
            raise

    def _change(self, models: Mapping[str, Entry], tables: Mapping[str, pa.Table], remove: Collection[str]) -> None:
        failures = {model: entry for model, entry in models.items() if isinstance(entry, Failure)}
        files = (
            {uuid4().hex: {**tables, "failures": failures_table(failures)} if failures else tables} if models else {}
        )
        added = next(iter(files), None)
        replaced: dict[str, str] = {}
        for old, left in self._leaving({*models, *remove}).items():
            if len(left) < len(self._contents.groups[old].models):
                replaced[old] = uuid4().hex
                files[replaced[old]] = self._others(old, left)
        if files:
            self._note({"create": list(files)})
        rows = {id: {name: len(table) for name, table in tables.items()} for id, tables in files.items()}
        self._write(files)
        self._note(
            {
                "time": int(time.time()),
                "add": [added, models, rows[added]] if added else None,
                "remove": list(remove),
                "replace": {old: [new, rows[new]] for old, new in replaced.items()},
            }
        )

    def _leaving(self, models: Collection[str]) -> dict[str, set[str]]:
        """Return the given models by the group that contains them."""
        groups: dict[str, set[str]] = {}
        for model in models:
            if (id := self._contents.group_of.get(model)) is not None:
                groups.setdefault(id, set()).add(model)
        return groups

    def _others(self, id: str, models: set[str]) -> dict[str, pa.Table]:
        """Return the rows of a group without those of some models."""
        import pyarrow as pa
        import pyarrow.compute as pc
        import pyarrow.parquet as pq

        names = pa.array(sorted(map(model_text, models)), pa.string())
        tables = {}
        file_name = _file_name(id)
        for name in self._contents.groups[id].rows:
            with self._root.inner(name) as folder, os.fdopen(_open_regular(folder, file_name), "rb") as file:
                try:
                    table = pq.ParquetFile(file).read()
                    kept = table.filter(pc.invert(pc.is_in(table["model"], value_set=names)))
                except (pa.ArrowException, KeyError, OSError, ValueError) as error:
                    reason = f"the file is damaged ({str(error).partition(chr(10))[0]:.200})"
                    path = os.path.join(folder.path, file_name)
                    raise SaveError(errno.EINVAL, f"{reason}; delete it, and a run restores it", path) from None
            if len(kept):
                tables[name] = kept
        return tables

    def _write(self, files: Mapping[str, Mapping[str, pa.Table]]) -> None:
        """Write and fsync the files of some groups."""
        import pyarrow.parquet as pq

        names = list(dict.fromkeys(name for tables in files.values() for name in tables))
        for name in names:
            if self._root.status(name) is None:
                self._root.mkdir(name)
                sync_folder(self._root)
            with self._root.inner(name) as folder:
                for id, tables in files.items():
                    if name in tables:
                        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL
                        with os.fdopen(folder.open(_file_name(id), flags), "wb") as file:
                            pq.write_table(tables[name], file, compression="zstd")
                            file.flush()
                            os.fsync(file.fileno())
                sync_folder(folder)

    def _note(self, line: dict[str, Any]) -> None:
        """Append a line to the journal and apply it."""
        data = json.dumps(line, separators=(",", ":"), allow_nan=False).encode() + b"\n"
        self._append(data)
        self._contents.apply(json.loads(data))

    def _append(self, data: bytes) -> None:
        left = memoryview(data)
        while left:
            left = left[os.write(self._journal, left) :]
        os.fsync(self._journal)

    def _open(self) -> None:
        names = self._root.names()
        if JOURNAL not in names and names:
            raise _other_files(self.folder)
        new = 0 if names else os.O_CREAT
        self._journal = _open_regular(self._root, JOURNAL, os.O_RDWR | os.O_APPEND | new)
        if os.fstat(self._journal).st_nlink != 1:
            reason = "it has other names too (hard links), which a run would write to; copy the catalog first"
            raise SaveError(errno.EMLINK, reason, os.path.join(self.folder, JOURNAL))
        # Without locks, as on Windows, two concurrent runs leave a journal that the next run refuses.
        if not try_lock(self._journal):
            raise SaveError(errno.EAGAIN, "another run writes to this catalog; wait for its end", self.folder)
        with os.fdopen(os.dup(self._journal), "rb") as file:
            self._contents, size = _read_contents(SaveError, file, self.folder)
            if size == 0:
                # A run that was interrupted while it wrote the first line has left no other file.
                file.seek(0)
                if self._root.names() != [JOURNAL] or not HEADER.startswith(file.read(len(HEADER) + 1)):
                    raise _other_files(self.folder)
            if os.fstat(self._journal).st_size > size:
                os.ftruncate(self._journal, size)
        if size == 0:
            self._append(HEADER)
            sync_folder(self._root)
        self._settle()

    def _settle(self) -> None:
        """Delete retired files whose grace period has passed, and drop groups with a missing file."""
        contents = self._contents
        limit = time.time() - GRACE_SECONDS
        due = {id for id, since in contents.retired.items() if since <= limit}
        lost: dict[str, Group] = {}
        for name in NAMES:
            present = _present(self._root, name, due | contents.groups.keys())
            lost |= {id: group for id, group in contents.groups.items() if name in group.rows and id not in present}
            if stale := present & due:
                with self._root.inner(name) as folder:
                    for id in stale:
                        folder.unlink(_file_name(id))
        for group in lost.values():
            self.change(dict.fromkeys(group.models, Failure("SourceError", _LOST)), {})


def files_of(folder: str | os.PathLike[str], tables: Collection[str] = NAMES) -> dict[str, list[str]]:
    """List the valid files of each table of a catalog, even while a run writes to it.

    tables: names of tables; `problems` is omitted if no model was checked.
    Returns the paths by table. A file that a run replaces later still exists for an hour.
    Raises SourceError for a folder without a catalog, a damaged journal, and a missing file.
    """
    folder = os.path.abspath(os.fspath(folder))
    try:
        with Folder.at(folder) as root:
            size = 0
            if root.status(JOURNAL) is not None:
                with os.fdopen(_open_regular(root, JOURNAL), "rb") as file:
                    contents, size = _read_contents(SourceError, file, folder)
            if size == 0:
                reason = "this folder holds no catalog; name a model, or a folder that `onnxwire catalog` wrote"
                raise SourceError(errno.EISDIR, reason, folder)
            return {name: _paths(root, name, contents) for name in tables if name != "problems" or contents.is_checked}
    except OSError as error:
        raise _as(SourceError, error, folder) from None


def _paths(root: Folder, name: str, contents: Contents) -> list[str]:
    """Return the paths of the files of a table. Raises SourceError if one is missing."""
    ids = [id for id, group in contents.groups.items() if name in group.rows]
    paths = {id: os.path.join(root.path, name, _file_name(id)) for id in ids}
    if missing := paths.keys() - _present(root, name, ids):
        reason = "this file of the catalog is missing; run `onnxwire catalog` with the same sources, which restores it"
        raise SourceError(errno.ENOENT, reason, min(paths[id] for id in missing))
    return list(paths.values())


def _file_name(id: str) -> str:
    return f"{id}.parquet"


def _present(root: Folder, name: str, ids: Collection[str]) -> set[str]:
    """Return those of the ids whose files exist in the folder of a table."""
    status = root.status(name)
    if status is None:
        return set()
    if not stat.S_ISDIR(status.st_mode):
        raise NotADirectoryError(errno.ENOTDIR, "it is a link or a file, and no folder; remove it", name)
    with root.inner(name) as folder:
        names = set(folder.names())
        return {id for id in ids if _file_name(id) in names and _is_regular(folder.status(_file_name(id)))}


def _open_regular(folder: Folder, name: str, flags: int = os.O_RDONLY) -> int:
    """Open a regular file. Raises OSError for a link, folder, pipe or device, without waiting for it."""
    status = folder.status(name)
    if status is None or stat.S_ISREG(status.st_mode):
        descriptor = folder.open(name, flags | getattr(os, "O_NONBLOCK", 0))
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            return descriptor
        os.close(descriptor)
    raise OSError(errno.EINVAL, "it is a link, a folder, a pipe or a device, and no file", name)


def _is_regular(status: os.stat_result | None) -> bool:
    return status is not None and stat.S_ISREG(status.st_mode)


def _read_contents(kind: type[FileError], file: IO[bytes], folder: str) -> tuple[Contents, int]:
    try:
        return read_journal(file)
    except JournalError as error:
        raise kind(errno.EINVAL, str(error), os.path.join(folder, JOURNAL)) from None


def _as(kind: type[FileError], error: OSError, folder: str) -> FileError:
    """Convert an OSError about a file of a catalog into a FileError."""
    if isinstance(error, FileError):
        return error
    path = os.path.join(folder, error.filename) if isinstance(error.filename, str) else folder
    return kind.from_os_error(error, path)


def _other_files(folder: str) -> SaveError:
    reason = "the folder holds other files and no catalog; name a new or an empty one"
    return SaveError(errno.ENOTEMPTY, reason, folder)
