"""A server of files on the loopback that counts requests and bytes, waits before answers, and fails on demand."""

from __future__ import annotations

import bisect
import contextlib
import functools
import re
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

LATENCY = 0.03  # the seconds of a round trip to a distant server, for the argument `latency`
_BLOCK_BYTES = 1 << 20  # bytes of a body that are sent at a time


class Pieces:
    """The contents of a file of any size. A piece is bytes, or the number of bytes of a repeated pattern."""

    def __init__(self, *pieces: bytes | int) -> None:
        self.pieces = [piece for piece in pieces if piece]
        self.starts = []
        self.size = 0
        for piece in self.pieces:
            self.starts.append(self.size)
            self.size += piece if isinstance(piece, int) else len(piece)

    def read(self, start: int, end: int) -> bytes:
        """Return the bytes from start to end."""
        chunks = []
        while start < end:
            i = bisect.bisect_right(self.starts, start) - 1
            piece, piece_start = self.pieces[i], self.starts[i]
            length = piece if isinstance(piece, int) else len(piece)
            piece_end = min(end - piece_start, length)
            if isinstance(piece, int):
                chunks.append(_pattern(start - piece_start, piece_end))
            else:
                chunks.append(piece[start - piece_start : piece_end])
            start = piece_start + piece_end
        return b"".join(chunks)


_PATTERN = bytes(range(256)) * 4096


@functools.lru_cache(maxsize=8)
def _pattern(start: int, end: int) -> bytes:
    """Return the bytes from start to end of the pattern: the value of a byte is its offset modulo 256."""
    shift = start % 256
    data = bytearray()
    while len(data) < end - start:
        data += _PATTERN[shift : shift + end - start - len(data)]
        shift = 0
    return bytes(data)


@dataclass
class Request:
    """A request, and the number of bytes of its file that were sent, including bytes in flight."""

    method: str
    path: str
    range: tuple[int, int] | None  # start and end of the bytes sent with status 206
    headers: dict[str, str]  # the keys are names in lower case
    sent: int = 0


@dataclass
class State:
    """The files of a server, its received requests, and how it answers."""

    files: dict[str, Pieces]
    latency: float = 0.0  # the seconds before the answer to a HEAD or GET request
    etag: str | None = '"one"'  # the ETag header of files; None for no header
    # The Last-Modified header of files; None for no header.
    modified: str | None = "Mon, 02 Jun 2025 10:00:00 GMT"
    has_ranges: bool = True  # whether the Range header of requests is evaluated
    redirects: dict[str, tuple[int, str | None]] = field(default_factory=dict)  # status and Location, by path
    # Called before the answer to a HEAD or GET request, with the index of the request in `requests`.
    on_request: Callable[[State, int], None] | None = None
    extra_headers: dict[str, str] = field(default_factory=dict)  # additional headers of files
    folder_list: bytes | None = None  # the answer to PROPFIND
    date: str | None = None  # the Date header of each answer; None for the current time
    barrier: threading.Barrier | None = None  # each HEAD and GET request waits at this barrier before the answer
    heeds_conditions: bool = True  # whether If-Match and If-Unmodified-Since are evaluated
    requests: list[Request] = field(default_factory=list)
    faults: dict[int, str] = field(default_factory=dict)  # faults of requests, by their index; see `_Handler.answer`
    default_fault: str | None = None  # the fault of requests that are not in `faults`
    retry_after: str | None = None  # the Retry-After header of faults that are statuses, such as "503"
    hides_size: bool = False  # whether Content-Range ends with /*
    stalled: int = 0  # number of requests that ended without an answer, after their fault "timeout"
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def sent(self) -> int:
        """The number of sent bytes of files."""
        return sum(request.sent for request in self.requests)

    def reset(self) -> None:
        """Forget the received requests."""
        self.requests.clear()


class _Handler(BaseHTTPRequestHandler):
    """Answers requests by the state of the server."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # the algorithm would delay the body until the headers are acknowledged

    def log_message(self, *args: object) -> None:
        pass

    def date_time_string(self, timestamp: float | None = None) -> str:
        state: State = self.server.state  # type: ignore[attr-defined]
        return state.date or super().date_time_string(timestamp)  # type: ignore[arg-type]

    def do_HEAD(self) -> None:
        self.answer(False)

    def do_GET(self) -> None:
        self.answer(True)

    def do_PUT(self) -> None:
        state: State = self.server.state  # type: ignore[attr-defined]
        data = self.rfile.read(int(self.headers["Content-Length"]))
        path = unquote(urlsplit(self.path).path)
        state.requests.append(
            Request("PUT", self.path, None, {name.lower(): value for name, value in self.headers.items()})
        )
        if path in state.redirects:
            status, location = state.redirects[path]
            self.reply(status, b"", True, {"Location": location or ""})
            return
        state.files[path] = Pieces(data)
        self.reply(201, b"", True)

    def do_PROPFIND(self) -> None:
        """Send the list of the files in the format of WebDAV, or status 405 if the state has none."""
        state: State = self.server.state  # type: ignore[attr-defined]
        state.requests.append(Request("PROPFIND", self.path, None, {}))
        if state.folder_list is None:
            self.reply(405, b"", True)
        else:
            self.reply(207, state.folder_list, True, {"Content-Type": "application/xml"})

    def answer(self, has_body: bool) -> None:
        """Answer a request for a file, with the fault for this request, if any. has_body: whether to send the body."""
        state: State = self.server.state  # type: ignore[attr-defined]
        path = unquote(urlsplit(self.path).path)
        range_match = re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers.get("Range", ""))
        request = Request(
            self.command,
            self.path,
            None,
            {name.lower(): value for name, value in self.headers.items()},
        )
        with state.lock:
            index = len(state.requests)
            state.requests.append(request)
            if state.on_request is not None:
                state.on_request(state, index)
            fault = state.faults.get(index, state.default_fault)
        if state.latency:
            time.sleep(state.latency)
        if state.barrier is not None:
            state.barrier.wait(60)
        if fault == "refused":
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        if fault in ("500", "503", "429", "404", "403", "401"):
            headers = {} if state.retry_after is None else {"Retry-After": state.retry_after}
            self.reply(int(fault), b"injected fault", has_body, headers)
            return
        if fault == "timeout":
            time.sleep(self.server.stall)  # type: ignore[attr-defined]
            state.stalled += 1
            self.close_connection = True
            return
        if fault == "html":
            self.reply(200, b"<!DOCTYPE html><html>sign in</html>", has_body, {"Content-Type": "text/html"})
            return
        if path in state.redirects:
            status, location = state.redirects[path]
            self.reply(status, b"elsewhere", has_body, {} if location is None else {"Location": location})
            return
        pieces = state.files.get(path)
        if pieces is None:
            self.reply(404, b"no such file", has_body)
            return
        etag = '"two"' if fault == "changed" else state.etag
        if_match = self.headers.get("If-Match")
        if_unmodified_since = self.headers.get("If-Unmodified-Since")
        has_other_etag = if_match is not None and etag is not None and if_match != etag
        is_modified = (
            if_unmodified_since is not None and state.modified is not None and if_unmodified_since != state.modified
        )
        if state.heeds_conditions and (has_other_etag or is_modified):
            self.reply(412, b"", has_body)
            return
        headers = {"Accept-Ranges": "bytes"}
        if state.modified is not None:
            headers["Last-Modified"] = state.modified
        if etag is not None:
            headers["ETag"] = etag
        start, end, status = 0, pieces.size, 200
        if range_match and state.has_ranges and pieces.size:
            start = int(range_match[1]) if range_match[1] else max(pieces.size - int(range_match[2]), 0)
            end = min(int(range_match[2]) + 1, pieces.size) if range_match[1] and range_match[2] else pieces.size
            if start >= pieces.size:
                self.reply(416, b"", has_body, {"Content-Range": f"bytes */{pieces.size}"})
                return
            status = 206
            request.range = (start, end)
            headers["Content-Range"] = f"bytes {start}-{end - 1}/{'*' if state.hides_size else pieces.size}"
            if fault == "wrong range":
                headers["Content-Range"] = f"bytes {start + 1}-{end}/{pieces.size}"
            if fault == "other size":
                headers["Content-Range"] = f"bytes {start}-{end - 1}/{pieces.size + 1}"
        length = end - start
        if fault == "longer":
            length += 7
        if fault == "shorter":
            length -= 1
        headers["Content-Length"] = str(length)
        headers |= state.extra_headers
        self.send_response(status)
        for key, value in headers.items():
            self.send_header(key, value)
        self.end_headers()
        if not has_body:
            return
        if fault == "cut":
            length //= 2
            self.close_connection = True
        with contextlib.suppress(OSError):
            while length > 0:
                n_bytes = min(length, _BLOCK_BYTES)
                data = pieces.read(start, min(start + n_bytes, pieces.size)).ljust(n_bytes, b"?")
                request.sent += n_bytes  # first, since a test may read the sum as soon as the client has all bytes
                self.wfile.write(data)
                start += n_bytes
                length -= n_bytes

    def reply(self, status: int, body: bytes, has_body: bool, headers: dict[str, str] | None = None) -> None:
        """Send a complete response. has_body: whether to send the body, or only its length."""
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        for key, value in (headers or {}).items():
            self.send_header(key, value)
        self.end_headers()
        if has_body:
            self.wfile.write(body)


class ObjectServer:
    """A context manager of a server; `url` is its address, `host` the IP address and port, `state` the State.

    latency: as in State. stall: the seconds for which a request with the fault "timeout" waits.
    """

    def __init__(
        self, files: dict[str, bytes | Pieces], latency: float = 0.0, stall: float = 3.0, ip_address: str = "127.0.0.1"
    ) -> None:
        self.state = State(
            {f"/{name}": data if isinstance(data, Pieces) else Pieces(data) for name, data in files.items()}, latency
        )
        self._server = ThreadingHTTPServer((ip_address, 0), _Handler)
        self._server.daemon_threads = True
        self._server.state = self.state  # type: ignore[attr-defined]
        self._server.stall = stall  # type: ignore[attr-defined]
        self.host = f"{ip_address}:{self._server.server_address[1]}"
        self.url = f"http://{self.host}"

    def __enter__(self) -> ObjectServer:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._server.server_close()
