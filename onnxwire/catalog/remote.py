"""Read a catalog on a server: its journal, and ranges of its Parquet files, which DuckDB opens as files of fsspec.

The catalog may be hostile. Only names that journal.py accepts are requested, in the catalog's folder and the folders of
its tables; redirects are checked like those of external data.
"""

from __future__ import annotations

import errno
import io
import threading
from typing import TYPE_CHECKING, Any

from onnxwire.catalog.files import JOURNAL, NO_CATALOG_REASON, file_name, read_contents
from onnxwire.catalog.journal import HEADER
from onnxwire.errors import MissingPackageError, SourceError
from onnxwire.io.remote.address import address_below
from onnxwire.io.remote.file import fetch_all, open_files
from onnxwire.io.remote.remote_document import Origin, remote_document
from onnxwire.tensor.external_file import ExternalFile

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from onnxwire.io.remote.file import RemoteFile

SCHEME = "onnxwire"  # of the addresses by which DuckDB opens the files
_MAX_JOURNAL_BYTES = 1 << 28
_HEADER_START = HEADER[:19]  # `{"onnxwire catalog"`
_TAIL_BYTES = 1 << 16  # size of the end of a Parquet file that is fetched first, because it contains the footer
_MODIFICATION_TIME = "2000-01-01T00:00:00+00:00"  # reported for each file: names are unique, so a file never changes


class RemoteCatalog:
    """A catalog on a server, as it was when its journal was opened.

    journal: the opened file. folder: the address of the catalog's folder, as error messages show it. Raises
    SourceError for an invalid journal, and for a server that does not answer.
    """

    def __init__(self, journal: RemoteFile) -> None:
        self._origin = journal.origin
        self.folder = self._origin.shown_folder
        self._files: dict[str, ExternalFile] = {}
        if journal.size > _MAX_JOURNAL_BYTES:
            reason = f"the journal has {journal.size:,} bytes, more than {_MAX_JOURNAL_BYTES:,}"
            raise SourceError(errno.EFBIG, reason, journal.name)
        data = bytearray(journal.size)
        ExternalFile(remote_document(journal)).read_into(0, data)
        self._contents, size = read_contents(SourceError, io.BytesIO(data), self.folder)
        if size == 0:
            raise SourceError(errno.EISDIR, NO_CATALOG_REASON, self.folder)

    def files_of(self, tables: Collection[str]) -> dict[str, dict[str, list[str]]]:
        """Open the valid files of `tables`.

        Returns, for each table, the address of each file in `file_system()`, and the models whose rows in the file are
        no longer valid (see `files.files_of`). The table problems is omitted if no model was checked.
        Raises SourceError for a missing file, and for a server that does not answer.
        """
        files_by_table = {
            name: {
                f"{SCHEME}://{name}/{file_name(id)}": sorted(group.removed)
                for id, group in self._contents.groups.items()
                if name in group.rows
            }
            for name in tables
            if name != "problems" or self._contents.is_checked
        }
        self._open([path for files in files_by_table.values() for path in files if path not in self._files])
        return files_by_table

    def _open(self, paths: list[str]) -> None:
        """Open files concurrently, and fetch their footers."""
        files = [self._origin.beside(path.removeprefix(f"{SCHEME}://")) for path in paths]
        error = open_files(files)
        if isinstance(error, FileNotFoundError):
            reason = "this file of the catalog is missing on the server; copy the catalog again, its journal last"
            raise SourceError(errno.ENOENT, reason, error.filename)
        if error is not None:
            raise error
        tails = []
        for path, file in zip(paths, files, strict=True):
            document = remote_document(file)
            self._files[path] = ExternalFile(document)
            if document.memory is not None:
                tails.append((file, document.memory, [(max(file.size - _TAIL_BYTES, 0), file.size)]))
        fetch_all(tails)

    def file_system(self) -> Any:
        """Return the opened files as a file system, for DuckDB. Raises MissingPackageError without fsspec."""
        try:
            from fsspec import AbstractFileSystem
        except ImportError:
            raise MissingPackageError("a catalog on a server needs fsspec; `pip install fsspec`") from None
        files = self._files

        class CatalogFiles(AbstractFileSystem):  # type: ignore[misc]
            """The opened files as an fsspec file system."""

            protocol = SCHEME
            cachable = False

            def _open(self, path: str, mode: str = "rb", **options: object) -> _File:
                if mode != "rb":
                    raise PermissionError(errno.EACCES, "a catalog on a server is read only", path)
                return _File(self._file(path))

            def info(self, path: str, **options: object) -> dict[str, object]:
                return {"name": path, "size": self._file(path).size, "type": "file"}

            def glob(self, path: str, **options: object) -> list[str]:
                # File names of a catalog contain no glob characters, so a path matches only itself.
                return [path]

            def modified(self, path: str) -> Any:
                from datetime import datetime

                return datetime.fromisoformat(_MODIFICATION_TIME)

            def _file(self, path: str) -> ExternalFile:
                file = files.get(f"{SCHEME}://{self._strip_protocol(path)}")
                if file is None:
                    raise FileNotFoundError(errno.ENOENT, "the catalog has no such file", path)
                return file

        return CatalogFiles()


class _File(io.RawIOBase):
    """A file with a position for each thread: threads of DuckDB share a file, and call `seek` before each `read`."""

    def __init__(self, file: ExternalFile) -> None:
        self._file = file
        self._positions = threading.local()

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return getattr(self._positions, "value", 0)

    def seek(self, offset: int, whence: int = 0) -> int:
        start = (0, self.tell(), self._file.size)[whence]
        self._positions.value = max(start + offset, 0)
        return self.tell()

    def readinto(self, out: Any) -> int:
        start = self.tell()
        with memoryview(out).cast("B") as view:
            count = max(min(len(view), self._file.size - start), 0)
            self._file.read_into(start, view[:count])
        self._positions.value = start + count
        return count


def find_remote_catalog(address: str, options: Mapping[str, Any] | None) -> RemoteCatalog | None:
    """Open the catalog at an address. Return None if the address is that of a file.

    An address that ends with .onnx is a file; an address that ends with / is a catalog; any other address is a catalog
    if a journal exists below it.
    Raises SourceError if an address that ends with / has no catalog, and the errors of RemoteCatalog.
    """
    path = address.partition("?")[0]
    if path.lower().endswith(".onnx"):
        return None
    try:
        origin = Origin(address_below(address, [JOURNAL]), None, options)
        journal = origin.open()
        # Some servers answer a request for a path below a file with that file, or with a web page.
        if not bytes(memoryview(journal.first_bytes)[: len(_HEADER_START)]).startswith(_HEADER_START):
            raise SourceError(errno.EISDIR, NO_CATALOG_REASON, origin.shown_folder)
    except FileNotFoundError as error:
        if path.endswith("/"):
            raise SourceError(errno.EISDIR, NO_CATALOG_REASON, error.filename.rpartition("/")[0]) from None
        return None
    except SourceError:
        if path.endswith("/"):
            raise
        return None  # `load` opens the address as a file, and raises the error
    return RemoteCatalog(journal)
