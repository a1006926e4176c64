"""Open an address as a document, and its external data files."""

from __future__ import annotations

import errno
import os
import re
from itertools import islice
from urllib.parse import urlsplit

from onnxwire.engine.document import Document
from onnxwire.engine.partial import PAGE_SIZE, PartialMemory
from onnxwire.errors import Error, ExternalDataError, SourceError
from onnxwire.io.external_files import ExternalFiles
from onnxwire.io.remote.address import address_in_store, is_address, parse_address, shown_address, site_of
from onnxwire.io.remote.failures import RefusedError, RequestError
from onnxwire.io.remote.file import RemoteFile, open_files
from onnxwire.io.remote.settings import is_untrusted
from onnxwire.io.remote.stores import identity_in_store, open_store, reader_of, source_error
from onnxwire.tensor.external_data import fault_of
from onnxwire.tensor.external_file import ExternalFile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

    from onnxwire.io.remote.address import Address
    from onnxwire.io.remote.cache import RangeCache
    from onnxwire.io.remote.hosts import Hosts
    from onnxwire.io.remote.version import Version

_MAX_CONCURRENT_FILES = 256  # files that are opened concurrently


class Origin:
    """The store and address of a model, from which its external data is also opened.

    source: the model's address, or its name in the store. store: an existing store, or None to create one with
    `options` (storage_options). cache: a folder for fetched ranges. allow_hosts, untrusted: limits of redirects, as for
    `load`.

    Raises SourceError for an invalid address, an address that needs a library that is not installed, an address
    together with an existing store that is not an fsspec file system, an invalid host, and, for an untrusted model, an
    endpoint setting that is no URL or names a server which is not allowed; TypeError for a cache or
    allowed hosts together with an existing store, and for a str as `allow_hosts`.
    """

    def __init__(
        self,
        source: str,
        store: Any = None,
        options: Mapping[str, Any] | None = None,
        cache: str | os.PathLike[str] | None = None,
        allow_hosts: Iterable[str] | None = None,
        untrusted: bool = False,
    ) -> None:
        self.cache: str | None = None
        self._is_own_store = store is None
        self._hosts: Hosts | None = None
        if store is None:
            self.address = parse_address(source)
            self.cache = os.fspath(cache) if cache is not None else os.environ.get("ONNXWIRE_CACHE") or None
            self._options = options
            allow_hosts = _allowed_hosts(allow_hosts)
            self._hosts = hosts_of(self.address, allow_hosts, untrusted)
            if self.address.site is None and (untrusted or is_untrusted()):
                _check_endpoints(self.address, options, allow_hosts)
            store = open_store(self.address, options)
        elif cache is not None or allow_hosts is not None:
            raise TypeError("cache= and allow_hosts= apply to addresses, and can't be combined with store=")
        elif is_address(source) and not hasattr(store, "cat_file"):
            raise SourceError(errno.EINVAL, "with store=, pass the file's name in the store", shown_address(source))
        else:
            self.address = address_in_store(source)
        self.store = store

    def open(self) -> RemoteFile:
        """Open the model's file. If the file belongs to a commit, its external data is read from the same commit."""
        reader = reader_of(self.store, self.address, self._hosts)
        file = RemoteFile(reader, self.address, self).open()
        self.address = getattr(reader, "address", self.address)
        return file

    def open_cached(self, location: str | None = None) -> int | None:
        """Open the model's file, or that of a checked location, in a local cache of whole files.

        Returns a descriptor; None if the store has no such cache, or the file is not in it. Raises SourceError.
        """
        if self._hosts is None or not hasattr(self.store, "open_cached"):
            return None
        address = self.address if location is None else self.address.beside(location)
        try:
            cached = self.store.open_cached(address, self._hosts)
        except RequestError as error:
            raise source_error(error, address.shown) from None
        if cached is None:
            return None
        if location is None:
            self.address = cached[1]
        return int(cached[0])

    def beside(self, location: str) -> RemoteFile:
        """Return the RemoteFile of external data, which is not open yet. The location must have been checked."""
        address = self.address.beside(location)
        return RemoteFile(reader_of(self.store, address, self._hosts, is_model=False), address, self)

    def open_cache(self, address: Address, version: Version) -> RangeCache | None:
        """Open the cache of a file. Return None without a cache folder, or if the version does not identify the bytes.

        Raises SourceError for a folder that can't be used.
        """
        is_unique = version.is_strong or version.version is not None
        # HttpReader reports a time without an ETag only if it identifies the version.
        is_unique = is_unique or (address.site is not None and version.etag is None and version.modified is not None)
        if self.cache is None or not is_unique:
            return None
        from onnxwire.io.remote.cache import open_cache

        return open_cache(self.cache, identity_in_store(address, self._options), version)

    def is_in_store_of(self, address: Address, options: Mapping[str, Any] | None) -> bool:
        """Return whether the server of an address in S3 can copy bytes of this model.

        That is assumed if the schemes and the options are equal, and the model was opened without `store=`.
        """
        return self._is_own_store and self.address.scheme == address.scheme and (self._options or {}) == (options or {})

    @property
    def shown_folder(self) -> str:
        """The model's folder as shown in errors and reports."""
        return self.address.shown_folder


def open_remote(
    source: Any,
    store: Any = None,
    options: Mapping[str, Any] | None = None,
    cache: str | os.PathLike[str] | None = None,
    allow_hosts: Iterable[str] | None = None,
    untrusted: bool = False,
    *,
    map_file: Callable[[int, str], Document],
) -> Document:
    """Open a file on a server. Parameters: as for `load`. Raises SourceError if it can't be read, and as `Origin` does.

    Raises TypeError for a source that is neither a str nor a path.
    map_file: for files in a local cache, a function from the descriptor and name of an open file to a document; it
    closes the descriptor.
    """
    if not isinstance(source, str | os.PathLike):
        raise TypeError(f"with store=, the source is the name of a file in the store, not {type(source).__name__}")
    origin = Origin(os.fspath(source), store, options, cache, allow_hosts, untrusted)
    descriptor = origin.open_cached()
    if descriptor is None:
        return remote_document(origin.open())
    document = map_file(descriptor, origin.address.shown)
    document.files = RemoteFiles(origin)
    return document


def hosts_of(address: Address, allow_hosts: Iterable[str] | None = None, untrusted: bool = False) -> Hosts | None:
    """Return the servers to which requests for a model may be sent; None if a library, such as obstore, sends them.

    allow_hosts: as for `load`; default: the environment variable ONNXWIRE_ALLOW_HOSTS, separated by commas.
    untrusted: as for `load`; ONNXWIRE_UNTRUSTED sets it, too. Raises SourceError for an invalid host, TypeError
    for a str as `allow_hosts`.
    """
    allow_hosts = _allowed_hosts(allow_hosts)
    if address.site is None:
        return None
    from onnxwire.io.remote.hosts import Hosts

    try:
        return Hosts(address.site, allow_hosts, may_redirect=not (untrusted or is_untrusted()))
    except ValueError:
        reason = "allow_hosts= is a list of hosts such as cdn.example.com or cdn.example.com:8443"
        raise SourceError(errno.EINVAL, reason, address.shown) from None


def _check_endpoints(address: Address, options: Mapping[str, Any] | None, allow_hosts: Iterable[str] | None) -> None:
    """Raise SourceError if an endpoint setting is no URL, or names a server that `allow_hosts` does not contain.

    obstore follows redirects by its own rules. Without such a setting, only servers of the provider are used, which
    redirect to each other only.
    """
    from onnxwire.io.remote.hosts import Hosts

    settings = {name: value for name, value in os.environ.items() if name.startswith(("AWS_", "AZURE_", "GOOGLE_"))}
    for name, value in (options or {}).items():
        settings |= value if isinstance(value, dict) else {name: value}
    allowed_hosts = _allowed_hosts(allow_hosts)
    for name, value in settings.items():
        if address.scheme == "memory" or not value or not re.search("endpoint|base_?url", str(name), re.I):
            continue
        try:
            parts = urlsplit(str(value))
            site = site_of(parts.scheme, parts.netloc)
        except (KeyError, ValueError):
            reason = f"the setting {name} is not the URL of a server; correct it"
            raise SourceError(errno.EINVAL, reason, address.shown) from None
        try:
            Hosts(site, allowed_hosts, may_redirect=False).check_redirect(site, site, True)
        except (RefusedError, ValueError):
            reason = (
                f"the setting {name} names a server, and obstore would follow its redirects, which is refused for "
                "untrusted models; add the server's host to allow_hosts= if it is trusted"
            )
            raise SourceError(errno.EPERM, reason, address.shown) from None


def _allowed_hosts(allow_hosts: Iterable[str] | None) -> list[str]:
    """Return the hosts as a list; by default those of ONNXWIRE_ALLOW_HOSTS. Raises TypeError for a str."""
    if isinstance(allow_hosts, str):
        raise TypeError("allow_hosts= is a list of hosts, not one str")
    if allow_hosts is None:
        return [*filter(None, map(str.strip, os.environ.get("ONNXWIRE_ALLOW_HOSTS", "").split(",")))]
    return list(allow_hosts)


def remote_document(file: RemoteFile) -> Document:
    """Return a document of an open file on a server; only the bytes that opening has fetched are in memory."""
    if file.size == 0:
        return Document(b"", file.name)
    try:
        memory = PartialMemory(file.size, file)
    except (MemoryError, OverflowError):
        reason = f"the server reports {file.size:,} bytes, for which no address space is available"
        raise SourceError(errno.EFBIG, reason, file.name) from None
    first_bytes = memoryview(file.first_bytes)
    memory.put(
        0, first_bytes if len(first_bytes) == file.size else first_bytes[: len(first_bytes) // PAGE_SIZE * PAGE_SIZE]
    )
    file.first_bytes = b""
    return Document(memory, file.name, memory)


class RemoteFiles(ExternalFiles):
    """The external data files of a model on a server, in or below the model's folder.

    origin: the model's store and address. options: as for ExternalFiles; local data and files take precedence.
    """

    def __init__(self, origin: Origin, **options: Any) -> None:
        super().__init__(None, **options)
        self.folder = origin.shown_folder
        self.origin = origin
        self._has_root = options.get("root") is not None
        self._has_local_data = self._has_root or options.get("data") is not None

    def open_all(self, locations: Iterable[str]) -> None:
        """Open files concurrently, in batches. Stop at an error, which `open` raises again. No-op with local data."""
        new_locations = iter(dict.fromkeys(location for location in locations if location not in self._by_location))
        while (
            not self._has_local_data
            and not self._is_closed
            and (batch := list(islice(new_locations, _MAX_CONCURRENT_FILES)))
        ):
            try:
                self._open_batch(batch)
            except Error:
                return

    def _open_batch(self, locations: list[str]) -> None:
        """Open files concurrently. Raise the error that `open_files` returns after the other files are open.

        All other errors, such as for a location that is not allowed, are raised at once.
        """
        files: list[tuple[str, RemoteFile]] = []
        for location in locations:
            self._check(location)
            cached = self._open_cached(location)
            if cached is not None:
                self._by_location[location] = cached
            else:
                files.append((location, self.origin.beside(location)))
        error = open_files([file for _, file in files])
        for location, file in files:
            if file.is_open:
                self._by_location[location] = ExternalFile(remote_document(file))
        if error is not None:
            raise error

    def _open_file(self, location: str) -> ExternalFile:
        self._check(location)
        if self._has_root:
            try:
                return super()._open_file(location)
            except FileNotFoundError:
                pass
        return self._open_cached(location) or ExternalFile(remote_document(self.origin.beside(location).open()))

    def _check(self, location: str) -> None:
        """Raise ExternalDataError for a location that is not allowed."""
        reason = fault_of(location)
        if reason or location.count("?") or location.count("#"):
            quoted = repr(location if len(location) <= 200 else location[:200] + "…")
            reason = reason or "the location contains ? or #, which have another meaning in an address"
            raise ExternalDataError(
                f"its external data at {quoted} is not read: {reason}", source=self.origin.address.shown
            )

    def _open_cached(self, location: str) -> ExternalFile | None:
        """Return a file of a local cache of whole files, such as that of the Hub; None if it is absent."""
        descriptor = self.origin.open_cached(location)
        if descriptor is None:
            return None
        return ExternalFile.from_descriptor(descriptor, self.origin.address.beside(location).shown)

    def status_of(self, location: str, *, if_open: bool) -> None:
        """Return None: files on a server have no os.stat_result."""

    def open_temporarily(self, location: str) -> Any:
        """Open a file as ExternalFiles does, but leave it open."""
        from contextlib import nullcontext

        return nullcontext(self.open(location))
