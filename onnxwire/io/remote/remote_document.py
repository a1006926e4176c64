"""From an address to a document, and the files beside it."""

from __future__ import annotations

import errno
import os

from onnxwire.engine.document import Document
from onnxwire.engine.partial import PAGE_SIZE, PartialMemory
from onnxwire.errors import ExternalDataError, SourceError
from onnxwire.io.external_files import ExternalFiles
from onnxwire.io.remote.address import address_in_store, is_address, parse_address, shown_address
from onnxwire.io.remote.file import RemoteFile
from onnxwire.io.remote.stores import identity_in_store, open_store, reader_of
from onnxwire.tensor.external_data import fault_of
from onnxwire.tensor.external_file import ExternalFile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from onnxwire.io.remote.address import Address
    from onnxwire.io.remote.cache import RangeCache
    from onnxwire.io.remote.hosts import Hosts
    from onnxwire.io.remote.version import Version


class Origin:
    """A file of a store, and those beside it.

    store: a ready one, or None to make one with `options` (storage_options). cache: a folder for what was fetched.
    allow_hosts: servers that redirects may lead to, as of `load`.

    Raises SourceError for an address that can't be, or that there is no library for.
    """

    def __init__(
        self,
        source: str,
        store: Any = None,
        options: Mapping[str, Any] | None = None,
        cache: str | os.PathLike[str] | None = None,
        allow_hosts: Iterable[str] | None = None,
    ) -> None:
        self.cache: str | None = None
        self._hosts: Hosts | None = None
        if store is None:
            self.address = parse_address(source)
            self.cache = os.fspath(cache) if cache is not None else os.environ.get("ONNXWIRE_CACHE") or None
            self._options = options
            self._hosts = hosts_of(self.address, allow_hosts)
            store = open_store(self.address, options)
        elif cache is not None or allow_hosts is not None:
            raise TypeError("cache= and allow_hosts= are for addresses; a ready store (store=) has its own ways")
        elif is_address(source) and not hasattr(store, "cat_file"):
            raise SourceError(errno.EINVAL, "with store=, give the file's name in the store", shown_address(source))
        else:
            self.address = address_in_store(source)
        self.store = store

    def open(self) -> RemoteFile:
        """Open the file itself."""
        return RemoteFile(reader_of(self.store, self.address, self._hosts), self.address, self)

    def beside(self, location: str) -> RemoteFile:
        """Open a file at a location, which was checked."""
        address = self.address.beside(location)
        return RemoteFile(reader_of(self.store, address, self._hosts, is_model=False), address, self)

    def open_cache(self, address: Address, version: Version) -> RangeCache | None:
        """The part of a file that is on the disk, or None without a cache or a version that no other bytes have.

        Raises SourceError for a folder that can't be used.
        """
        is_sure = version.is_strong or version.version is not None
        # Of a file that is read by HTTP, a time alone is there only where it tells versions apart.
        is_sure = is_sure or (address.site is not None and version.etag is None and version.modified is not None)
        if self.cache is None or not is_sure:
            return None
        from onnxwire.io.remote.cache import open_cache

        return open_cache(self.cache, identity_in_store(address, self._options), version)

    @property
    def shown_folder(self) -> str:
        """The folder as errors and reports show it."""
        return self.address.shown_folder


def open_remote(
    source: Any,
    store: Any = None,
    options: Mapping[str, Any] | None = None,
    cache: str | os.PathLike[str] | None = None,
    allow_hosts: Iterable[str] | None = None,
) -> Document:
    """Open a file on a server; parameters as of `load`. Raises SourceError where it can't be read."""
    if not isinstance(source, str | os.PathLike):
        raise TypeError(f"store= takes the name of a file in it, not {type(source).__name__}")
    return remote_document(Origin(os.fspath(source), store, options, cache, allow_hosts).open())


def hosts_of(address: Address, allow_hosts: Iterable[str] | None = None) -> Hosts | None:
    """The servers that requests for a model may go to; None where a library reads it.

    allow_hosts: as of `load`; by default those in the environment variable ONNXWIRE_ALLOW_HOSTS, separated by commas.
    Raises SourceError for one that is no host.
    """
    if isinstance(allow_hosts, str):
        raise TypeError("allow_hosts= takes a list of hosts, not one str")
    if allow_hosts is None:
        allow_hosts = filter(None, map(str.strip, os.environ.get("ONNXWIRE_ALLOW_HOSTS", "").split(",")))
    if address.site is None:
        return None
    from onnxwire.io.remote.hosts import Hosts

    try:
        return Hosts(address.site, allow_hosts)
    except ValueError:
        reason = "allow_hosts= takes hosts such as cdn.example.com or cdn.example.com:8443"
        raise SourceError(errno.EINVAL, reason, address.shown) from None


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
