"""A Hugging Face Hub on the loopback interface: requests for large files are redirected to signed, expiring addresses
of another server, the CDN."""

from __future__ import annotations

import hashlib
import json
import re
import secrets
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit

COMMIT = "0123456789abcdef" * 2 + "01234567"
TOKEN = "hf_secret"
_LARGE_FILE_BYTES = 10_000  # files of at least this size are served by the CDN


@dataclass
class HubRequest:
    """A request that one of the two servers received, and the answer's status."""

    server: str  # "hub" or "cdn"
    path: str
    headers: dict[str, str]
    status: int = 0
    sent: int = 0  # number of bytes of the answer's body


@dataclass
class HubState:
    """The state of both servers: files by repository and path, requests, and injected faults."""

    files: dict[str, dict[str, bytes]]
    lifetime: float = 1.0  # seconds for which a signed address is valid
    # Branch name or commit → commit.
    revisions: dict[str, str] = field(default_factory=lambda: {"main": COMMIT, COMMIT: COMMIT})
    is_private: bool = False
    # Headers that replace those of the Hub's redirects; "" removes a header.
    redirect_headers: dict[str, str] = field(default_factory=dict)
    redirect_target: str | None = None  # replaces the signed address in redirects
    requests: list[HubRequest] = field(default_factory=list)
    expiry_times: dict[str, float] = field(default_factory=dict)  # signature -> time.monotonic() at which it expires
    cdn: str = ""  # the address of the server of large files

    def requests_to(self, server: str) -> list[HubRequest]:
        return [request for request in self.requests if request.server == server]


class _Handler(BaseHTTPRequestHandler):
    """Answers requests to both servers."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        hub: HubState = self.server.hub  # type: ignore[attr-defined]
        name: str = self.server.name  # type: ignore[attr-defined]
        self.hub_request = HubRequest(name, self.path, {key.lower(): value for key, value in self.headers.items()})
        hub.requests.append(self.hub_request)
        (self._answer_hub if name == "hub" else self._answer_cdn)(hub)

    def _answer_hub(self, hub: HubState) -> None:
        """Answer as the Hub: a small file, a redirect to a large file, the file list of a repository, or an error."""
        path = urlsplit(self.path).path
        if hub.is_private and self.headers.get("Authorization") != f"Bearer {TOKEN}":
            self._reply(401, b"", {"X-Error-Code": "GatedRepo"})
            return
        tree_match = re.fullmatch(r"/api/models/([^/]+/[^/]+)/tree/([^/]+)/?(.*)", path)
        if tree_match is not None:
            self._answer_tree(hub, tree_match[1], unquote(tree_match[2]), unquote(tree_match[3]))
            return
        file_match = re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path)
        commit = hub.revisions.get(unquote(file_match[2])) if file_match else None
        data = hub.files.get(file_match[1], {}).get(unquote(file_match[3])) if file_match else None
        if data is None or commit is None:
            self._reply(404, b"", {"X-Error-Code": "EntryNotFound"})
            return
        if len(data) < _LARGE_FILE_BYTES:
            self._send_content(data, {"X-Repo-Commit": commit, "ETag": f'"{hashlib.sha1(data).hexdigest()}"'})
            return
        digest = hashlib.sha256(data).hexdigest()
        signature = secrets.token_hex(8)
        hub.expiry_times[signature] = time.monotonic() + hub.lifetime
        headers = {
            "X-Repo-Commit": commit,
            "X-Linked-Etag": f'"{digest}"',
            "X-Linked-Size": str(len(data)),
            "Location": hub.redirect_target or f"{hub.cdn}/{digest}?signature={signature}",
        }
        self._reply(302, b"", {name: value for name, value in (headers | hub.redirect_headers).items() if value})

    def _answer_tree(self, hub: HubState, repository: str, revision: str, folder: str) -> None:
        """Send the list of the files below a folder, with an entry for a directory, which readers must ignore."""
        if revision not in hub.revisions or repository not in hub.files:
            self._reply(404, b"{}", {"X-Error-Code": "RepoNotFound"})
            return
        names = [name for name in hub.files[repository] if name.startswith(f"{folder}/" if folder else "")]
        entries = [{"type": "directory", "path": "onnx", "size": 0, "oid": "1"}] + [
            {"type": "file", "path": name, "size": len(data), "oid": hashlib.sha1(data).hexdigest()}
            | ({"lfs": _lfs_entry(data)} if len(data) >= _LARGE_FILE_BYTES else {})
            for name, data in hub.files[repository].items()
            if name in names
        ]
        self._reply(200, json.dumps(entries).encode(), {"Content-Type": "application/json"})

    def _answer_cdn(self, hub: HubState) -> None:
        """Answer as the CDN: with a large file, or status 403 if the signature is invalid or expired."""
        address = urlsplit(self.path)
        signature = parse_qs(address.query).get("signature", [""])[0]
        if hub.expiry_times.get(signature, 0) < time.monotonic():
            self._reply(403, b"expired", {})
            return
        data_by_digest = {
            hashlib.sha256(data).hexdigest(): data for files in hub.files.values() for data in files.values()
        }
        self._send_content(
            data_by_digest[address.path[1:]], {"ETag": '"of-the-cdn"', "Last-Modified": "Mon, 02 Jun 2025 10:00:00 GMT"}
        )

    def _send_content(self, data: bytes, headers: dict[str, str]) -> None:
        """Send a file or its requested range, or status 412 if If-Match names another ETag."""
        if self.headers.get("If-Match", headers["ETag"]) != headers["ETag"]:
            self._reply(412, b"", {})
            return
        range_match = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        if range_match is None:
            self._reply(200, data, headers)
            return
        start, end = int(range_match[1]), min(int(range_match[2]) + 1, len(data))
        self._reply(206, data[start:end], headers | {"Content-Range": f"bytes {start}-{end - 1}/{len(data)}"})

    def _reply(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.hub_request.status, self.hub_request.sent = status, len(body)
        self.send_response(status)
        for key, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(key, value)
        self.end_headers()
        self.wfile.write(body)


def _lfs_entry(data: bytes) -> dict[str, object]:
    """Return the description of a large file in the file list of a repository."""
    return {"oid": hashlib.sha256(data).hexdigest(), "size": len(data), "pointerSize": 130}


class FakeHub:
    """A context manager of the Hub and the CDN; `url` is the address of the Hub, `hub` the HubState."""

    def __init__(self, files: dict[str, dict[str, bytes]]) -> None:
        self.hub = HubState(files)
        self._servers = []
        for name in ("hub", "cdn"):
            server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
            server.daemon_threads = True
            server.hub, server.name = self.hub, name  # type: ignore[attr-defined]
            self._servers.append(server)
        self.url, self.hub.cdn = (f"http://127.0.0.1:{server.server_address[1]}" for server in self._servers)

    def __enter__(self) -> FakeHub:
        for server in self._servers:
            threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        for server in self._servers:
            server.shutdown()
            server.server_close()
