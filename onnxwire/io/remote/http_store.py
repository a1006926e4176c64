"""Read files and ranges from HTTP servers, list folders, and upload files."""

from __future__ import annotations

import asyncio
import re
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from onnxwire.errors import count_text
from onnxwire.io.remote.failures import RangeError, RequestError
from onnxwire.io.remote.hosts import Hosts
from onnxwire.io.remote.http_client import HttpClient, Request
from onnxwire.io.remote.loop import run
from onnxwire.io.remote.settings import headers_of_environment, is_untrusted
from onnxwire.io.remote.version import Version, time_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from http.client import HTTPMessage
    from typing import Any

    from onnxwire.io.remote.address import Address
    from onnxwire.io.remote.http_client import Response

_CONTENT_RANGE = re.compile(r"bytes (\d{1,18})-(\d{1,18})/(\d{1,18}|\*)", re.I)  # *: the size is unknown
_UNSATISFIED_RANGE = re.compile(r"bytes \*/(\d{1,18})", re.I)
_VERSION_HEADERS = ("x-amz-version-id", "x-goog-generation", "x-ms-version-id")
_MAX_LIST_BYTES = 1 << 26  # maximum size of a response that lists a folder
# Last-Modified identifies a version only if the response is at least one second later, the resolution of the header
# (RFC 9110, section 8.8.2.2). Without a Date header the difference must be larger, since the clocks may differ.
_MODIFIED_RESOLUTION_SECONDS = 1.0
_CLOCK_TOLERANCE_SECONDS = 60.0
_MAX_WAIT_SECONDS = 2.0  # the first request is not repeated if this would require a longer wait


class HttpStore:
    """A store that reads and writes files on HTTP servers. options: as for HttpClient."""

    def __init__(self, options: Mapping[str, Any] | None = None) -> None:
        self._client = HttpClient(options, headers_of_environment(), uses_netrc=True)

    def reader(self, address: Address, hosts: Hosts, *, is_model: bool = True) -> HttpReader:
        """Return a reader of a file. hosts: the Hosts of the model. is_model: as for Request."""
        return HttpReader(self._client, address, hosts, is_model)

    def put(self, address: Address, data: bytes) -> None:
        """Upload a file. Raises RequestError."""
        run(self._client.send(Request(address, _hosts_of(address), method="PUT", content=data)))

    async def list_folder(self, address: Address) -> AsyncIterator[ListedFile]:
        """Iterate over the files in and below the folder of an address, by WebDAV. Raises RequestError."""
        from xml.etree.ElementTree import ParseError, fromstring

        folder = address._replace(key=address.key.rpartition("/")[0] + "/")
        headers = {"Depth": "infinity"}
        request = Request(
            folder,
            _hosts_of(address),
            is_model=False,
            method="PROPFIND",
            headers=headers,
            limits={207: _MAX_LIST_BYTES},
        )
        unlisted_error = RequestError("the server does not list folders", "unlisted")
        try:
            response = await self._client.send(request)
        except RequestError as error:  # servers that do not list folders reject the method with various statuses
            raise error if error.is_transient or error.kind == "refused" else unlisted_error from None
        if response.status == 207 and response.body is None:
            raise RequestError(f"the server's list of the folder is longer than {_MAX_LIST_BYTES:,} bytes")
        # "<!" could begin definitions of entities that expand to gigabytes.
        if response.status != 207 or response.body is None or b"<!" in response.body:
            raise unlisted_error
        try:
            root = fromstring(bytes(response.body).decode())
        except (ParseError, ValueError):
            raise unlisted_error from None
        folder_path = _segments(folder.key)[:-1]
        for entry in root.iterfind("{DAV:}response"):
            # The path is split before it is decoded, because an escaped slash belongs to a name.
            path = _segments(urlsplit(entry.findtext("{DAV:}href", "").strip()).path)
            names = path[len(folder_path) :]
            size = entry.findtext(".//{DAV:}getcontentlength", "")
            is_file = entry.find(".//{DAV:}collection") is None and re.fullmatch(r"\d{1,18}", size)
            if is_file and names and path[: len(folder_path)] == folder_path and not {"", ".", ".."} & set(names):
                etag = entry.findtext(".//{DAV:}getetag") or None
                modified = entry.findtext(".//{DAV:}getlastmodified") or None
                yield ListedFile(tuple(names), Version(int(size), etag, modified, None))


def _segments(path: str) -> list[str]:
    """Return the decoded names of a percent-encoded path."""
    return [unquote(name) for name in path.split("/")]


class ListedFile(NamedTuple):
    """A file of a folder: the names on its path from the folder, and its version."""

    names: tuple[str, ...]
    version: Version


class HttpReader:
    """A Reader of one file."""

    def __init__(self, client: HttpClient, address: Address, hosts: Hosts, is_model: bool) -> None:
        self._client = client
        self._address = address
        self._hosts = hosts
        self._is_model = is_model

    async def read(self, start: int, end: int, version: Version | None) -> tuple[bytearray, Version]:
        """Read a range; see `stores.Reader`.

        Repeats the first request after a short wait if Last-Modified is too recent to identify the version.
        """
        response = await self._read(start, end, version)
        if version is None:
            wait = _time_to_wait(response.headers)
            if 0 < wait <= _MAX_WAIT_SECONDS:
                await asyncio.sleep(wait)
                response = await self._read(start, end, None)
        size = version.size if version is not None else None
        if size is None and _has_unknown_size(response):
            last_byte_response = await self._send({"Range": "bytes=-1"}, {206: 1})
            size = _size_by_last_byte(last_byte_response)
            if _version_of(last_byte_response.headers, size) != _version_of(response.headers, size):
                raise RequestError("the file was changed", "changed")
        return _check_range(response, start, end, size, is_first=version is None)

    async def _read(self, start: int, end: int, version: Version | None) -> Response:
        """Request a range. version: the version that the file must still have, or None."""
        headers = {"Range": f"bytes={start}-{end - 1}"}
        if version is not None and version.is_strong:
            assert version.etag is not None
            headers["If-Match"] = version.etag
        elif version is not None and version.modified is not None:
            headers["If-Unmodified-Since"] = version.modified
        return await self._send(headers, {206: end - start})

    async def read_all(self, max_bytes: int) -> tuple[bytearray | None, Version]:
        """Read the complete file; see `stores.Reader`."""
        response = await self._send({}, {200: max_bytes})
        if response.status != 200:
            raise RequestError("the server answered with a part of the file instead of the complete file")
        length = response.headers.get("Content-Length", "")
        stated_size = int(length) if re.fullmatch(r"\d{1,18}", length) else max_bytes + 1
        size = stated_size if response.body is None else len(response.body)
        return response.body, _version_of(response.headers, size)

    async def _send(self, headers: dict[str, str], limits: dict[int, int]) -> Response:
        request = Request(self._address, self._hosts, is_model=self._is_model, headers=headers, limits=limits)
        return await self._client.send(request)


def _hosts_of(address: Address) -> Hosts:
    """Return the hosts for a request that does not belong to a model."""
    assert address.site is not None
    return Hosts(address.site, may_redirect=not is_untrusted())


def _has_unknown_size(response: Response) -> bool:
    return response.status == 206 and response.headers.get("Content-Range", "").strip().endswith("/*")


def _size_by_last_byte(response: Response) -> int:
    """Return the size of a file from the response to a request for its last byte. Raises RangeError."""
    match = _CONTENT_RANGE.fullmatch(response.headers.get("Content-Range", "").strip())
    if response.status != 206 or match is None or match[1] != match[2]:
        raise RangeError
    return int(match[2]) + 1


def _check_range(
    response: Response, start: int, end: int, known_size: int | None, *, is_first: bool
) -> tuple[bytearray, Version]:
    """Return the bytes of the response to a range request, and their version.

    known_size: the file's size for a response that does not contain it, or None. is_first: whether no version is known
    yet. The bytes are empty if the range begins at or after the end of the file (416).
    Raises RangeError for a response without a range or size, RequestError for another range or length, for a 416
    without a size, and, if no version is known, for a 416 with a size above `start`.
    """
    text = response.headers.get("Content-Range", "").strip()
    if response.status == 416:
        match = _UNSATISFIED_RANGE.fullmatch(text)
        if match is None or (is_first and int(match[1]) > start):
            raise RequestError("the server answered 416 Range Not Satisfiable")
        return bytearray(), _version_of(response.headers, int(match[1]))
    match = _CONTENT_RANGE.fullmatch(text)
    if response.status != 206 or match is None:
        raise RangeError
    first_byte, last_byte = int(match[1]), int(match[2])
    if match[3] == "*" and known_size is None:
        raise RangeError
    size = known_size if match[3] == "*" and known_size is not None else int(match[3])
    if first_byte != start or last_byte + 1 != min(end, size) or last_byte < first_byte:
        raise RequestError("the response contains another range than the requested one")
    length = response.headers.get("Content-Length", "")
    n_sent = len(response.body) if response.body is not None else length if length.isdecimal() else "more"
    if n_sent != last_byte + 1 - first_byte:
        sent_text = (
            f"{count_text(int(n_sent), 'byte')} instead of" if n_sent != "more" else "more bytes than the requested"
        )
        raise RequestError(f"the server sent {sent_text} {last_byte + 1 - first_byte:,}")
    assert response.body is not None
    version = _version_of(response.headers, size)
    if is_first and version.etag is None and version.version is None and _time_to_wait(response.headers):
        version = version._replace(modified=None)
    return response.body, version


def _version_of(headers: HTTPMessage, size: int) -> Version:
    etag = headers.get("ETag", "").strip() or None
    modified = headers.get("Last-Modified", "").strip() or None
    versions = [headers[name].strip() for name in _VERSION_HEADERS if headers.get(name, "").strip() not in ("", "null")]
    return Version(size, etag, modified, versions[0] if versions else None)


def _time_to_wait(headers: HTTPMessage) -> float:
    """Return the seconds until a response's Last-Modified identifies its version.

    A later change within the same second as Last-Modified would not be visible. Returns 0 if Last-Modified, a strong
    ETag or a version number identifies the version already; else infinity without a Last-Modified.
    """
    version = _version_of(headers, 0)
    if version.is_strong or version.version is not None:
        return 0
    modified = time_of(version.modified)
    if modified is None:
        return float("inf")
    date = time_of(headers.get("Date"))
    if date is None:
        from datetime import UTC, datetime

        return max(_CLOCK_TOLERANCE_SECONDS - (datetime.now(UTC) - modified).total_seconds(), 0)
    return max(_MODIFIED_RESOLUTION_SECONDS - (date - modified).total_seconds(), 0)
