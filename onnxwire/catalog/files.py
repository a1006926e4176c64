"""Read the folder of a catalog: its journal, and the list of valid files of each table.

A catalog may be hostile. Only names that journal.py accepts are opened, in the catalog's folder and the folders of its
tables; links are not followed, and only regular files are opened.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING

from onnxwire.catalog.journal import Contents, JournalError, read_journal
from onnxwire.catalog.read import TABLE_NAMES
from onnxwire.errors import FileError, SourceError
from onnxwire.io.folder import Folder

if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import IO

JOURNAL = "_journal.jsonl"  # readers of data sets ignore names that begin with an underscore
NO_CATALOG_REASON = "this folder contains no catalog; name a model, or a folder that `onnxwire catalog` wrote"


def files_of(folder: str | os.PathLike[str], tables: Collection[str] = TABLE_NAMES) -> dict[str, dict[str, list[str]]]:
    """List the valid files of each table of a catalog, even while a run writes to it.

    tables: names of tables; `problems` is omitted if no model was checked.
    Returns, by table, the path of each file with the models whose rows in the file are no longer valid, because the
    models were read again or pruned; each model is represented by its text in the column `model`. A file that becomes
    invalid after this call remains for at least an hour.
    Raises SourceError for a folder that can't be read or has no catalog, a damaged journal, and a missing file.
    """
    folder = os.path.abspath(os.fspath(folder))
    try:
        with Folder.at(folder) as root:
            size = 0
            if root.status(JOURNAL) is not None:
                with os.fdopen(open_regular(root, JOURNAL), "rb") as file:
                    contents, size = read_contents(SourceError, file, folder)
            if size == 0:
                raise SourceError(errno.EISDIR, NO_CATALOG_REASON, folder)
            return {
                name: _paths_of_table(root, name, contents)
                for name in tables
                if name != "problems" or contents.is_checked
            }
    except OSError as error:
        raise as_file_error(SourceError, error, folder) from None


def _paths_of_table(root: Folder, name: str, contents: Contents) -> dict[str, list[str]]:
    """Return the paths of the files of a table, with the removed models. Raises SourceError if a file is missing."""
    groups = {id: group for id, group in contents.groups.items() if name in group.rows}
    paths = {id: os.path.join(root.path, name, file_name(id)) for id in groups}
    if missing_ids := paths.keys() - find_existing(root, name, groups):
        reason = "this file of the catalog is missing; run `onnxwire catalog` with the same sources, which restores it"
        raise SourceError(errno.ENOENT, reason, min(paths[id] for id in missing_ids))
    return {paths[id]: sorted(group.removed) for id, group in groups.items()}


def file_name(id: str) -> str:
    """Return the name of a group's file in the folder of a table."""
    return f"{id}.parquet"


def find_existing(root: Folder, table_name: str, ids: Collection[str]) -> set[str]:
    """Return the subset of `ids` whose files exist in the folder of a table and are regular files."""
    status = root.status(table_name)
    if status is None:
        return set()
    if not stat.S_ISDIR(status.st_mode):
        raise NotADirectoryError(errno.ENOTDIR, "it is a link or a file, not a folder; remove it", table_name)
    with root.subfolder(table_name) as folder:
        names = set(folder.names())
        return {id for id in ids if file_name(id) in names and _is_regular(folder.status(file_name(id)))}


def open_regular(folder: Folder, name: str, flags: int = os.O_RDONLY) -> int:
    """Open a regular file. Raises OSError for a link, folder, pipe or device, without waiting for it."""
    status = folder.status(name)
    if status is None or stat.S_ISREG(status.st_mode):
        descriptor = folder.open(name, flags | getattr(os, "O_NONBLOCK", 0))
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            return descriptor
        os.close(descriptor)
    raise OSError(errno.EINVAL, "it is a link, a folder, a pipe or a device, not a file", name)


def _is_regular(status: os.stat_result | None) -> bool:
    return status is not None and stat.S_ISREG(status.st_mode)


def read_contents(error_class: type[FileError], file: IO[bytes], folder: str) -> tuple[Contents, int]:
    """Return the contents of a journal, and the number of bytes in its complete lines. Raises `error_class`."""
    try:
        return read_journal(file)
    except JournalError as error:
        raise error_class(errno.EINVAL, str(error), os.path.join(folder, JOURNAL)) from None


def as_file_error(error_class: type[FileError], error: OSError, folder: str) -> FileError:
    """Convert an OSError about a file of a catalog into a FileError."""
    if isinstance(error, FileError):
        return error
    path = os.path.join(folder, error.filename) if isinstance(error.filename, str) else folder
    return error_class.from_os_error(error, path)
