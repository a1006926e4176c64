"""Stores of files on servers, readers of one file in a store, and the conversion of library errors."""

from __future__ import annotations

import asyncio
import errno
import os
import re
from contextlib import suppress
from datetime import timedelta
from operator import itemgetter

from onnxwire.errors import SourceError
from onnxwire.io.remote.address import HUB_SCHEME
from onnxwire.io.remote.failures import RangeError, RequestError
from onnxwire.io.remote.settings import retry_limits
from onnxwire.io.remote.version import Version, version_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Protocol

    from typing_extensions import Buffer

    from onnxwire.io.remote.address import Address
    from onnxwire.io.remote.hosts import Hosts

    class Reader(Protocol):
        """The protocol of a reader of one file."""

        async def read(self, start: int, end: int, version: Version | None) -> tuple[Buffer, Version]:
            """Return the bytes from start to end, or to the end of the file, and their version.

            version: the expected version, or None. Raises the errors of the library, RangeError and RequestError.
            """

        async def read_all(self, limit: int) -> tuple[Buffer | None, Version]:
            """Return the complete file, or None if it has more bytes than the limit, and its version."""


_INSTALL_REASON = "this address needs obstore: pip install 'onnxwire[remote]'"
_MAX_STORES = 8  # maximum number of cached stores
_SECRET_HEADER = re.compile("auth|cookie|token|secret|key|password", re.I)
# Names of secret settings, as options of obstore and fsspec and as environment variables. An access_key_id is public.
_SECRET_SETTING = re.compile("token|secret|password|(?:account|sas|storage|master|service_account)_key", re.I)
_STORES: dict[Any, Any] = {}  # ordered: the least recently used store is first
_SCHEMES = ("http", "https", "s3", "s3a", "gs", "az", "azure", "adl", "abfs", "abfss", "memory", "hf")


def open_store(address: Address, options: Mapping[str, Any] | None) -> Any:
    """Return the store of an address's root.

    The most recently used stores are cached by root, process, options, environment and, for the Hub, the user's
    token, because creating a store takes longer than reading a small file. Raises SourceError for an unknown scheme, or
    if a library is missing or rejects the options.
    """
    if address.scheme not in _SCHEMES:
        raise SourceError(
            errno.EPROTONOSUPPORT,
            f"{address.scheme}:// is not one of {', '.join(_SCHEMES)}; pass an fsspec file system as store=",
            address.shown,
        )
    settings: dict[str, Any] = {"root": address.root, "options": options or {}, "process": os.getpid()}
    if address.scheme == HUB_SCHEME:
        from onnxwire.io.remote.hub_cache import hub_token

        settings |= {"scheme": HUB_SCHEME, "token of the user": hub_token()}
    cache_key = _hashable_key(settings | dict(os.environ))
    store = _STORES.pop(cache_key, None) if cache_key is not None else None
    if store is None:
        store = _make_store(address, options)
    if cache_key is not None:
        _STORES[cache_key] = store
        if len(_STORES) > _MAX_STORES:
            with suppress(StopIteration, KeyError):  # another thread removed it
                del _STORES[next(iter(_STORES))]
    return store


def identity_in_store(address: Address, options: Mapping[str, Any] | None) -> str:
    """Return a text that is unique to a file: its address with query and user, and the settings that select a store.

    These settings are the options without retry_config, with only the headers and the proxy of client_options; and, for
    the buckets that obstore reads, its environment variables. The password of the address, and secret options, headers
    and variables are omitted: they change, and could be guessed from the hash of the text, which names a cached file.
    The server still checks access: every load requests the beginning of the file with the current credentials.
    """
    excluded_names = ("client_options", "retry_config")
    identifying_options = _without_secrets(
        {name: value for name, value in (options or {}).items() if name not in excluded_names}
    )
    client = dict((options or {}).get("client_options") or {})
    headers = client.get("default_headers") or {}
    client["default_headers"] = {name: headers[name] for name in headers if not _SECRET_HEADER.search(str(name))}
    if client.get("proxy_url"):  # without the user name and password before "@"
        client["proxy_url"] = re.sub(r"^([^/?#]*//)?[^/?#]*@", r"\1", str(client["proxy_url"]))
    identifying_options["client"] = {
        name: client[name] for name in ("default_headers", "proxy_url") if client.get(name)
    }
    environment = {
        name: value
        for name, value in os.environ.items()
        if name.startswith(("AWS_", "AZURE_", "GOOGLE_")) and not _SECRET_SETTING.search(name)
    }
    if address.site is not None:
        environment = {}
    name = address.user.partition(":")[0]
    return repr(
        (
            tuple(address._replace(shown="", user=name)),
            _describe_options(identifying_options),
            sorted(environment.items()),
        )
    )


def _without_secrets(value: Any) -> Any:
    """Return the value of an option; if it is a dict of settings, without secret ones."""
    if not isinstance(value, dict):
        return value
    return {name: _without_secrets(item) for name, item in value.items() if not _SECRET_SETTING.search(str(name))}


def _describe_options(value: Any) -> Any:
    """Return options as nested sorted lists with a stable repr; an object is replaced by the name of its class."""
    if isinstance(value, dict):
        return sorted((str(key), _describe_options(item)) for key, item in value.items())
    return value if value is None or isinstance(value, str | bytes | int | float) else type(value).__qualname__


def _hashable_key(value: Any) -> Any:
    """Return options as a hashable key, or None for options that have none, such as credential providers."""
    if value is None or isinstance(value, str | int | float | timedelta):
        return repr(value)
    if isinstance(value, dict):
        items = [(str(key), _hashable_key(item)) for key, item in value.items()]
        return None if any(item is None for _, item in items) else tuple(sorted(items, key=itemgetter(0)))
    return None


def _make_store(address: Address, options: Mapping[str, Any] | None) -> Any:
    """Make a store for an address. Raises SourceError if a library is missing or rejects the options."""
    try:
        if address.scheme == HUB_SCHEME:
            from onnxwire.io.remote.hub_store import HubStore

            return HubStore(options)
        if address.site is not None:
            from onnxwire.io.remote.http_store import HttpStore

            return HttpStore(options)
        from obstore.store import from_url
    except ImportError:
        raise SourceError(errno.EPROTONOSUPPORT, _INSTALL_REASON, address.shown) from None
    except (AttributeError, TypeError, ValueError) as error:
        raise _options_error(error, address) from None
    store_options = dict(options or {})
    max_retries, seconds = retry_limits()
    # The library's default is to retry for three minutes.
    store_options.setdefault("retry_config", {"max_retries": max_retries, "retry_timeout": timedelta(seconds=seconds)})
    try:
        return from_url(address.root, **store_options)
    except Exception as error:
        raise _options_error(error, address) from None


def _options_error(error: Exception, address: Address) -> SourceError:
    """Return the error for invalid options, without the library's message, which may contain credentials."""
    reason = f"the store rejects the address or storage_options= ({type(error).__name__})"
    return SourceError(errno.EINVAL, reason, address.shown)


def reader_of(store: Any, address: Address, hosts: Hosts | None = None, *, is_model: bool = True) -> Reader:
    """Return a reader of a file in a store. Raises TypeError for an object that is not a store.

    hosts, is_model: for HTTP, the servers that redirects may lead to, and whether the file is the model itself.
    """
    key = address.key
    if hosts is not None:
        return store.reader(address, hosts, is_model=is_model)  # type: ignore[no-any-return]
    if hasattr(store, "get_async") and hasattr(store, "get_ranges"):
        return _ObstoreReader(store, key)
    if hasattr(store, "get_range") and hasattr(store, "head"):
        return _RangeReader(store, key)
    if hasattr(store, "cat_file") and hasattr(store, "info"):
        return _FsspecReader(store, key)
    raise TypeError(
        f"store= is an obstore store, an object with its get_range and head, or an fsspec file system, not "
        f"{type(store).__name__}"
    )


class _ObstoreReader:
    """A Reader of a file in a store of obstore, with conditional requests."""

    def __init__(self, store: Any, key: str) -> None:
        self._store = store
        self._key = key

    async def read(self, start: int, end: int, version: Version | None) -> tuple[Buffer, Version]:
        options: dict[str, Any] = {"range": (start, end)}
        # In HTTP, If-Match never matches a weak ETag; the caller compares ETags in any case.
        if version is not None and version.is_strong:
            options["if_match"] = version.etag
        elif version is not None and version.version is not None:
            options["version"] = version.version
        elif version is not None and version.modified is not None:
            options["if_unmodified_since"] = version.modified
        try:
            answer = await self._store.get_async(self._key, options=options)
            data = await answer.bytes_async()
        except Exception as error:
            if type(error).__name__ == "NotSupportedError":
                raise RangeError from None
            raise
        return data, version_of(answer.meta)

    async def read_all(self, limit: int) -> tuple[Buffer | None, Version]:
        answer = await self._store.get_async(self._key)
        version = version_of(answer.meta)
        return (None if version.size > limit else await answer.bytes_async()), version


class _ThreadReader:
    """A reader for libraries without conditional requests: it requests the version again after each read."""

    async def read(self, start: int, end: int, version: Version | None) -> tuple[Buffer, Version]:
        if version is None:
            version = await asyncio.to_thread(self.read_version)
        if start >= version.size:
            return b"", version
        data = await asyncio.to_thread(self.read_range, start, min(end, version.size))
        return data, await asyncio.to_thread(self.read_version)

    async def read_all(self, limit: int) -> tuple[Buffer | None, Version]:
        version = await asyncio.to_thread(self.read_version)
        if version.size > limit:
            return None, version
        return await self.read(0, version.size, version)

    def read_version(self) -> Version:
        """Return the file's current version."""
        raise NotImplementedError

    def read_range(self, start: int, end: int) -> Buffer:
        """Return the bytes from start to end."""
        raise NotImplementedError


class _RangeReader(_ThreadReader):
    """A Reader of a file in an object that has obstore's synchronous `head` and `get_range` only."""

    def __init__(self, store: Any, key: str) -> None:
        self._store = store
        self._key = key

    def read_version(self) -> Version:
        return version_of(self._store.head(self._key))

    def read_range(self, start: int, end: int) -> Buffer:
        return self._store.get_range(self._key, start=start, end=end)  # type: ignore[no-any-return]


class _FsspecReader(_ThreadReader):
    """A Reader of a file in an fsspec file system, whose `info` has different keys in each implementation."""

    def __init__(self, system: Any, path: str) -> None:
        self._system = system
        self._path = system._strip_protocol(path) if hasattr(system, "_strip_protocol") else path

    def read_version(self) -> Version:
        if hasattr(self._system, "invalidate_cache"):
            self._system.invalidate_cache()
        info = self._system.info(self._path)
        if info.get("type") == "directory":
            raise IsADirectoryError(errno.EISDIR, "the path is a folder")
        names = ("ETag", "etag", "e_tag", "blob_id", "sha256", "sha", "md5Hash", "checksum", "CRC", "generation")
        etag = next((str(info[name]) for name in names if info.get(name)), None)
        times = ("LastModified", "last_modified", "mtime", "updated", "modified", "modify", "date_time", "created")
        modified = next((str(info[name]) for name in times if info.get(name)), None)
        return Version(info["size"], etag, modified, None)

    def read_range(self, start: int, end: int) -> Buffer:
        return self._system.cat_file(self._path, start=start, end=end)  # type: ignore[no-any-return]


_CERTIFICATE_REASON = (
    "the server's certificate is not valid, or its issuer is unknown; add issuers with root_certificate of "
    "client_options"
)
# The HTTP status and its phrase in the text of an obstore error.
_STATUS = re.compile(r"status(?: code)?:? (\d\d\d[A-Za-z ]*)")
# Phrases in the texts of obstore's errors, each with the reason to report; the more specific phrases come first.
_REASON_BY_PHRASE = (
    ("invalidcertificate", _CERTIFICATE_REASON),
    ("invalid peer certificate", _CERTIFICATE_REASON),
    ("unknownissuer", _CERTIFICATE_REASON),
    (
        "kind: redirect, source: reqwest::error { kind: builder",
        "the server redirects from https to http, which is not followed",
    ),
    ("badscheme", "the endpoint begins with http://, which needs allow_http in client_options"),
    ("toomanyredirects", "the server redirects in a loop"),
    ("error following redirect", "the server redirects to an invalid address"),
    ("bareredirect", "the server redirects without a Location header; check the region and endpoint"),
    ("redirect without location", "the server redirects without a Location header; check the region and endpoint"),
    ("missingcontentlength", "the response has no Content-Length"),
    ("content-length header missing", "the response has no Content-Length"),
    ("parsecontentrange", "the response has an invalid Content-Range"),
    ("nocontentrange", "the response has no Content-Range"),
    ("missingetag", "the response has no ETag"),
    ("timed out", "the server took too long to answer"),
    ("timedout", "the server took too long to answer"),
    ("dns error", "the host's name can't be resolved"),
    ("connection refused", "the connection was refused"),
    ("connectionrefused", "the connection was refused"),
    ("body error", "the response was truncated"),
    ("incompletebody", "the response was truncated"),
    ("requested ", "the response contains another range than the requested one"),
    ("error sending request", "the connection failed"),
    ("expecting", "the response contains another range than the requested one"),
)
_KIND_BY_ERROR = {
    "PreconditionError": "changed",
    "NotFoundError": "missing",
    "PermissionDeniedError": "forbidden",
    "UnauthenticatedError": "forbidden",
    # Exceptions of huggingface_hub.
    "RepositoryNotFoundError": "missing",
    "RevisionNotFoundError": "missing",
    "EntryNotFoundError": "missing",
    "RemoteEntryNotFoundError": "missing",
    "GatedRepoError": "forbidden",
}


def is_change(error: BaseException) -> bool:
    """Return whether a library's error means that the file has changed."""
    return _kind_of(error) == "changed"


def _kind_of(error: BaseException) -> str:
    """Return the kind of an error, as in RequestError."""
    return error.kind if isinstance(error, RequestError) else _KIND_BY_ERROR.get(type(error).__name__, "")


def source_error(error: BaseException, name: str, start: int | None = None, end: int | None = None) -> SourceError:
    """Return the SourceError for a library's error, without text that may contain credentials.

    name: the file's name in the error. start, end: the requested range, if any.
    """
    prefix = "" if start is None else f"bytes {start:,} to {end:,}: "
    kind = _kind_of(error)
    text = str(error)
    if isinstance(error, FileNotFoundError) or kind == "missing":
        not_found = FileNotFoundError(errno.ENOENT, f"{prefix}there is no such file on the server; check the address")
        return SourceError.from_os_error(not_found, name)
    if isinstance(error, IsADirectoryError):
        return SourceError.from_os_error(
            IsADirectoryError(errno.EISDIR, "the path is a folder; pass the path of the .onnx file in it"), name
        )
    if isinstance(error, PermissionError) or kind == "forbidden":
        reason = f"{prefix}the server denies access; check the credentials (storage_options=, or the environment)"
        return SourceError.from_os_error(PermissionError(errno.EACCES, reason), name)
    if isinstance(error, RequestError):
        return SourceError(errno.EPERM if kind == "refused" else errno.EIO, f"{prefix}{text}", name)
    status = _STATUS.search(text)
    lower_text = " ".join(text.lower().split())
    cause = next((reason_text for phrase, reason_text in _REASON_BY_PHRASE if phrase in lower_text), "")
    if status:
        cause = f"the server answered {status[1].strip()}"
    if not cause:
        cause = f"the request failed ({type(error).__name__})"
    retries = re.search(r"after (\d+) retries", text)
    if retries and int(retries[1]):
        cause += f", {int(retries[1]) + 1} times"
    return SourceError(errno.EIO, f"{prefix}{cause}", name)
