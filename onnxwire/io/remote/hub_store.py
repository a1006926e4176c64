"""Read files on the Hugging Face Hub: of one commit, from the servers that the Hub redirects to, with few requests.

The Hub answers a request for a large file with a redirect to a signed address on another server. The signed address
expires. It is cached, so only the first request takes two round trips. It is renewed when the other server denies
access or lacks the file.
"""

from __future__ import annotations

import asyncio
import errno
import re

from onnxwire.errors import SourceError, count_text
from onnxwire.io.remote.address import parse_address
from onnxwire.io.remote.failures import RequestError
from onnxwire.io.remote.http_client import HttpClient, Request
from onnxwire.io.remote.http_store import HttpReader, HttpStore, ListedFile
from onnxwire.io.remote.hub_address import HubFile, hub_endpoint, parse_hub_file
from onnxwire.io.remote.hub_cache import COMMIT, cached_commit, hub_token, is_maybe_cached, is_offline, open_cached
from onnxwire.io.remote.loop import run
from onnxwire.io.remote.version import Version

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from typing import Any

    from onnxwire.io.remote.address import Address
    from onnxwire.io.remote.hosts import Hosts
    from onnxwire.io.remote.http_client import Redirect, Response

_ETAG = re.compile(r'(?:W/)?"[!#-~]{1,200}"')
_TOTAL_SIZE = re.compile(r"/(\d{1,18})$")  # in Content-Range
# Headers of the other server that identify a version; the Hub's ETag replaces them.
_VALIDATORS = ("ETag", "Last-Modified", "x-amz-version-id", "x-goog-generation", "x-ms-version-id")
_LIST_ERROR = "listing the files of a repository needs huggingface_hub: pip install 'onnxwire[hub]'"


class HubStore(HttpStore):
    """A store of files on the Hub. options: as for HttpClient, and `token`."""

    def __init__(self, options: Mapping[str, Any] | None = None) -> None:
        client_options = dict(options or {})
        self._token = str(client_options.pop("token", None) or hub_token())
        if not re.fullmatch("[!-~]*", self._token):
            raise SourceError(
                errno.EINVAL, "the token contains a space, or a character that is not printable ASCII", "hf://"
            )
        self._client = HttpClient(client_options, {"Authorization": f"Bearer {self._token}"} if self._token else {})

    def reader(self, address: Address, hosts: Hosts, *, is_model: bool = True) -> HubReader:
        """Return a reader of a file. The Hub is trusted to redirect external data as well as models."""
        return HubReader(self._client, address, hosts, is_model=True)

    def put(self, address: Address, data: bytes) -> None:
        """Raise RequestError: the Hub accepts commits, not files."""
        raise RequestError("files on the Hub are not written; save to a path, and upload with `hf upload`", "refused")

    def open_cached(self, address: Address, hosts: Hosts) -> tuple[int, Address] | None:
        """Open a file in the local cache of huggingface_hub. Return its descriptor, and its address by commit.

        Return None if the file is not cached; if `is_offline`, raise SourceError. Online, the commit of a branch or tag
        is requested from the Hub if the file may be cached. Raises RequestError if the request fails.
        """
        file = parse_hub_file(address.shown)
        commit: str | None = None
        if COMMIT.fullmatch(file.revision) or is_offline():
            commit = cached_commit(file)
        elif is_maybe_cached(file):
            reader = self.reader(address, hosts)
            run(reader.resolve())
            commit = reader.commit
        descriptor = open_cached(file, commit) if commit is not None else None
        if descriptor is None or commit is None:
            if is_offline():
                reason = "HF_HUB_OFFLINE or TRANSFORMERS_OFFLINE is set, and the file is not in the cache"
                raise SourceError.from_os_error(FileNotFoundError(errno.ENOENT, reason), address.shown)
            return None
        return descriptor, parse_address(file._replace(revision=commit).shown)

    async def list_folder(self, address: Address) -> AsyncIterator[ListedFile]:
        """Iterate over the files in and below the folder of an address.

        Raises the errors of huggingface_hub, and SourceError if it is not installed.
        """
        file = parse_hub_file(address.shown)
        for entry in await asyncio.to_thread(self._list_repository, file, file.path.rpartition("/")[0]):
            etag = f'"{entry.lfs.sha256 if entry.lfs else entry.blob_id}"'
            names = entry.path.split("/")[file.path.count("/") :]
            if names and not {"", ".", ".."} & set(names):
                yield ListedFile(tuple(names), Version(entry.size, etag, None, None))

    def _list_repository(self, file: HubFile, folder: str) -> list[Any]:
        """Return the RepoFiles of huggingface_hub in and below a folder of a file's repository."""
        try:
            from huggingface_hub import HfApi
            from huggingface_hub.hf_api import RepoFile
        except ImportError:
            raise SourceError(errno.EOPNOTSUPP, _LIST_ERROR, file.shown) from None
        api = HfApi(endpoint=hub_endpoint(), token=self._token or False)
        tree = api.list_repo_tree(file.repository, folder or None, recursive=True, revision=file.revision)
        return [entry for entry in tree if isinstance(entry, RepoFile)]


class _SignedAddress:
    """A signed address on another server, and the ETag in the first response of that server."""

    def __init__(self, redirect: Redirect) -> None:
        self.redirect = redirect
        self.etag: str | None = None


class HubReader(HttpReader):
    """A Reader of one file of one commit.

    address: the file's address; once the commit is known, the address of the same file by its commit. commit: the
    commit; None before the first response, or if the Hub did not report one.
    """

    def __init__(self, client: HttpClient, address: Address, hosts: Hosts, *, is_model: bool) -> None:
        super().__init__(client, address, hosts, is_model)
        self.commit: str | None = None
        self._signed: _SignedAddress | None = None
        self._is_redirected: bool | None = None  # None before the first response
        # ETag and size of a file on another server, as the Hub reports them.
        self._linked_file: tuple[str | None, int | None] = (None, None)
        self._renewal_lock = asyncio.Lock()

    @property
    def address(self) -> Address:
        """The address of the file, with the commit as the revision once the commit is known."""
        return self._address

    async def resolve(self) -> None:
        """Request the commit of the file's revision."""
        await self._send_to_hub({"Range": "bytes=0-0"}, {206: 1})

    async def _send(self, headers: dict[str, str], limits: dict[int, int]) -> Response:
        """Send a request to the signed address, or to the Hub if there is none or it has expired."""
        if self._is_redirected is False:
            response = await self._send_to_hub(headers, limits)
            if response.redirect is None:
                return response
        signed = self._signed
        if signed is not None:
            try:
                return await self._send_directly(signed, headers, limits)
            except RequestError as error:
                if error.kind not in ("forbidden", "missing"):
                    raise
        async with self._renewal_lock:
            if self._signed is signed or self._signed is None:  # no other request has renewed it in the meantime
                response = await self._send_to_hub(headers, limits)
                if response.redirect is None:
                    return response
            signed = self._signed
        assert signed is not None
        return await self._send_directly(signed, headers, limits)

    async def _send_to_hub(self, headers: dict[str, str], limits: dict[int, int]) -> Response:
        """Send a request to the Hub. If the Hub redirects to another server, cache the signed address."""
        request = Request(self._address, self._hosts, headers=headers, limits=limits, returns_redirect=True)
        if self._is_redirected is not False:
            # Conditions of the request refer to the file on the other server, so they are not sent to the Hub.
            request.headers = {name: text for name, text in headers.items() if not name.startswith("If-")}
        response = await self._client.send(request)
        commit = response.headers.get("X-Repo-Commit", "").strip()
        if COMMIT.fullmatch(commit):
            if self.commit not in (None, commit):
                raise RequestError("the file was changed", "changed")
            if self.commit is None:
                self.commit = commit
                file = parse_hub_file(self._address.shown)
                self._address = parse_address(file._replace(revision=commit).shown)
        if response.redirect is None:
            if self._is_redirected:
                raise RequestError("the file was changed", "changed")
            del response.headers["Last-Modified"]  # the time of the commit, not of the file
            self._is_redirected = False
            return response
        etag = response.headers.get("X-Linked-Etag", "").strip()
        size = response.headers.get("X-Linked-Size", "").strip()
        linked_file = (etag if _ETAG.fullmatch(etag) else None, int(size) if re.fullmatch(r"\d{1,18}", size) else None)
        if self._is_redirected is False or (self._is_redirected and linked_file != self._linked_file):
            raise RequestError("the file was changed", "changed")
        self._linked_file = linked_file
        self._is_redirected = True
        self._signed = _SignedAddress(response.redirect)
        return response

    async def _send_directly(self, signed: _SignedAddress, headers: dict[str, str], limits: dict[int, int]) -> Response:
        """Send a request to a signed address. If the Hub reported an ETag, the returned response has this ETag."""
        etag, size = self._linked_file
        sent_headers = dict(headers)
        if etag is not None:
            sent_headers.pop("If-Unmodified-Since", None)
            if sent_headers.pop("If-Match", None) and signed.etag is not None and not signed.etag.startswith("W/"):
                sent_headers["If-Match"] = signed.etag
        request = Request(
            self._address, self._hosts, headers=sent_headers, limits=limits, first_redirect=signed.redirect
        )
        response = await self._client.send(request)
        if etag is None:
            return response
        match = _TOTAL_SIZE.search(response.headers.get("Content-Range", "").strip())
        sent_size = int(match[1]) if match else len(response.body) if response.status == 200 and response.body else size
        if size is not None and sent_size != size:
            raise RequestError(
                f"the Hub reports {count_text(size, 'byte')}, and the server that it redirects to {sent_size:,}"
            )
        server_etag = response.headers.get("ETag", "").strip() or None
        if signed.etag is None:
            signed.etag = server_etag
        elif server_etag != signed.etag:
            raise RequestError("the file was changed", "changed")
        for name in _VALIDATORS:
            del response.headers[name]
        response.headers["ETag"] = etag
        return response
