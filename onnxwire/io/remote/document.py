"""From an address to a document, and the files beside it."""

from __future__ import annotations

import errno
import os

from onnxwire.engine.document import Document
from onnxwire.engine.partial import PAGE_SIZE, PartialMemory
from onnxwire.errors import ExternalDataError, SourceError
from onnxwire.io.external_files import ExternalFiles
from onnxwire.io.remote.address import Address, is_address, parse_address
from onnxwire.io.remote.file import RemoteFile
from onnxwire.io.remote.stores import open_store, reader_of
from onnxwire.tensor.external_data import fault_of
from onnxwire.tensor.external_file import ExternalFile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


class Origin:
    """A file of a store, and those beside it.

    store: a ready one, or None to make one with `options` (storage_options). cache: a folder for what was fetched.

    Raises SourceError for an address that can't be, or that there is no library for.
    """

    def __init__(
        self,
        source: str,
        store: Any = None,
        options: Mapping[str, Any] | None = None,
        cache: str | os.PathLike[str] | None = None,
    ) -> None:
        self.cache = os.fspath(cache) if cache is not None else os.environ.get("ONNXWIRE_CACHE") or None
        if store is None:
            try:
                self.address = parse_address(source)
            except ValueError as error:
                raise SourceError(
                    errno.EINVAL, f"{error}; it is to end with the name of the .onnx file", source
                ) from None
            store = open_store(self.address, options)
        elif is_address(source) and not hasattr(store, "cat_file"):
            raise SourceError(
                errno.EINVAL, "with store=, give the file's name in the store", parse_address(source).shown
            )
        else:
            self.address = Address("", "", source, source)
        self.store = store

    def open(self) -> RemoteFile:
        """Open the file itself."""
        return RemoteFile(reader_of(self.store, self.address.key), self.address.shown, self)

    def beside(self, location: str) -> RemoteFile:
        """Open a file at a location, which was checked."""
        address = self.address.beside(location)
        return RemoteFile(reader_of(self.store, address.key), address.shown, self)

    @property
    def shown_folder(self) -> str:
        """The folder as errors and reports show it."""
        return self.address.shown_folder


def open_remote(
    source: Any,
    store: Any = None,
    options: Mapping[str, Any] | None = None,
    cache: str | os.PathLike[str] | None = None,
) -> Document:
    """Open a file on a server; parameters as of `load`. Raises SourceError where it can't be read."""
    if not isinstance(source, str | os.PathLike):
        raise TypeError(f"store= takes the name of a file in it, not {type(source).__name__}")
    return remote_document(Origin(os.fspath(source), store, options, cache).open())


def remote_document(file: RemoteFile) -> Document:
    """A document of a file on a server: nothing of it is there yet but what it was opened with."""
    if file.size == 0:
        return Document(b"", file.name)
    try:
        memory = PartialMemory(file.size, file)
    except (MemoryError, OverflowError):
        reason = f"the server says that it has {file.size:,} bytes, more than there are addresses"
        raise SourceError(errno.EFBIG, reason, file.name) from None
    head = memoryview(file.head)
    memory.put(0, head if len(head) == file.size else head[: len(head) // PAGE_SIZE * PAGE_SIZE])
    file.head = b""
    return Document(memory, file.name, memory)


class RemoteFiles(ExternalFiles):
    """The files beside a model on a server, found as those on a disk are: in the model's folder or below."""

    def __init__(self, model: RemoteFile, **options: Any) -> None:
        super().__init__(None, **options)
        self.folder = model.origin.shown_folder
        self._origin = model.origin
        self._has_root = options.get("root") is not None

    def _opened(self, location: str) -> ExternalFile:
        reason = fault_of(location)
        if reason or location.count("?") or location.count("#"):
            shown = repr(location if len(location) <= 200 else location[:200] + "…")
            reason = reason or "it holds a character that means something else in an address"
            raise ExternalDataError(
                f"its external data at {shown} is not read: {reason}", source=self._origin.address.shown
            )
        if self._has_root:
            try:
                return super()._opened(location)
            except FileNotFoundError:
                pass
        return ExternalFile(remote_document(self._origin.beside(location)))

    def status_of(self, location: str, *, only_open: bool) -> None:
        """As of ExternalFiles: files on a server have no status of this system."""

    def look_at(self, location: str) -> Any:
        """As of ExternalFiles; the file stays open."""
        from contextlib import nullcontext

        return nullcontext(self.open(location))
