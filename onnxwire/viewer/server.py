"""The server of the page: on the loopback only, and only for whoever has the address with the token in it."""

from __future__ import annotations

import hmac
import json
import os
import re
import secrets
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from typing import Any
from urllib.parse import parse_qs, urlsplit

from onnxwire.errors import Error, PathError
from onnxwire.viewer.queries import Queries

HEADER = "X-Onnxwire-Key"
"""The header that every question has the key in. No page of another origin can send it unasked, and unlike a cookie it
is not sent to other servers on this machine."""
_HOSTS = {"127.0.0.1", "localhost"}
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_IDLE = 60  # seconds after which a silent connection is closed


class _QuestionError(ValueError):
    """A question that is asked wrongly; the text is for whoever asked."""


def _numbers(count: int | None) -> Callable[[str], tuple[int, ...]]:
    def parse(text: str) -> tuple[int, ...]:
        numbers = tuple(_number(word) for word in text.split(",")) if text else ()
        if count is not None and len(numbers) != count:
            raise _QuestionError(f"{count} numbers are wanted")
        return numbers

    return parse


def _number(text: str) -> int:
    if re.fullmatch(r"-?[0-9]{1,18}", text) is None:
        raise _QuestionError(f"{text!r} is not a number")
    return int(text)


_QUESTIONS: dict[str, dict[str, Callable[[str], Any]]] = {
    "summary": {},
    "outline": {},
    "nodes": {"scope": str, "search": str, "start": _number, "count": _number},
    "tensors": {"scope": str, "search": str, "start": _number, "count": _number},
    "node": {"path": str},
    "around": {"path": str, "hops": _number},
    "tensor": {"path": str},
    "histogram": {"path": str, "bins": _number, "whole": lambda text: text == "1"},
    "heat_map": {
        "path": str,
        "axes": _numbers(2),
        "at": _numbers(None),
        "window": _numbers(4),
        "size": _numbers(2),
        "extreme": lambda text: text == "1",
    },
    "raw": {"path": str, "start": _number, "count": _number, "payload": lambda text: text == "1"},
    "records": {"path": str, "start": _number, "count": _number},
}
"""The methods of Queries that may be asked for, and what their arguments are made from."""


class Server(ThreadingHTTPServer):
    """Serves the page of one model.

    queries: answers the page's questions. port: 0 for a free one. `address` is what a browser is to open; its token
    works once, for the browser that has it first, and is then exchanged for a key that is never shown.
    Raises OSError where the port can't be had.
    """

    daemon_threads = True
    # On Windows it would let two servers have one port.
    allow_reuse_address = os.name == "posix"

    def __init__(self, queries: Queries, port: int = 0) -> None:
        self.queries = queries
        self.token: str | None = secrets.token_urlsafe(24)
        self._key = secrets.token_urlsafe(32)
        folder = files("onnxwire.viewer") / "pages"
        # Read once: a request can only name one of these, and never a path.
        self.pages = {
            f"/{page.name}": (_TYPES[os.path.splitext(page.name)[1]], page.read_bytes())
            for page in folder.iterdir()
            if os.path.splitext(page.name)[1] in _TYPES
        }
        self.pages["/"] = self.pages["/index.html"]
        super().__init__(("127.0.0.1", port), Handler)

    @property
    def address(self) -> str:
        """The address to open, as long as nobody has."""
        # What is after # is not sent to the server, and so stands in no log of what is between.
        return f"http://127.0.0.1:{self.server_port}/#token={self.token}"

    def exchange(self, token: str) -> str | None:
        """The key for the token; None for another token, or one that was used."""
        expected = self.token
        if expected is None or not hmac.compare_digest(token.encode(), expected.encode()):
            return None
        self.token = None
        return self._key

    def knows(self, key: str) -> bool:
        """Whether this is the key."""
        return hmac.compare_digest(key.encode(), self._key.encode())

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a browser that went away in the middle."""


class Handler(BaseHTTPRequestHandler):
    """Answers one connection."""

    server: Server
    protocol_version = "HTTP/1.1"
    timeout = _IDLE

    def do_GET(self) -> None:
        """Answer with a page or with JSON."""
        if self._has_body():
            # Left where it is, it would be taken for the next request.
            self.close_connection = True
            return self._refuse(HTTPStatus.BAD_REQUEST, "a question has no body")
        if not self._is_ours():
            return self._refuse(HTTPStatus.FORBIDDEN, "this server answers to 127.0.0.1 and localhost only")
        try:
            parts = urlsplit(self.path)
        except ValueError:
            return self._refuse(HTTPStatus.BAD_REQUEST, "this is not an address")
        if parts.path in self.server.pages:
            return self._send(HTTPStatus.OK, *self.server.pages[parts.path])
        name = parts.path.removeprefix("/api/")
        if name == "session":
            key = self.server.exchange(self.headers.get(HEADER, ""))
            if key is None:
                return self._refuse(
                    HTTPStatus.FORBIDDEN, "the address was opened before; start `onnxwire view` again for another"
                )
            return self._send_json(HTTPStatus.OK, {"key": key})
        if not parts.path.startswith("/api/") or name not in _QUESTIONS:
            return self._refuse(HTTPStatus.NOT_FOUND, "there is nothing here")
        if not self.server.knows(self.headers.get(HEADER, "")):
            return self._refuse(
                HTTPStatus.FORBIDDEN, "start `onnxwire view` again, and open the address that it prints"
            )
        self._answer(name, parts.query)

    def _answer(self, name: str, query: str) -> None:
        """Answer a question."""
        parsers = _QUESTIONS[name]
        try:
            arguments = {
                key: parsers[key](values[-1]) for key, values in parse_qs(query, True).items() if key in parsers
            }
            if "path" in parsers and "path" not in arguments:
                raise _QuestionError("the question lacks a path")
            self._refuse_cut()
            answer = getattr(self.server.queries, name)(**arguments)
        except PathError as error:
            self._refuse(HTTPStatus.NOT_FOUND, str(error))
        except (Error, _QuestionError) as error:
            self._refuse(HTTPStatus.BAD_REQUEST, str(error))
        except MemoryError:
            self._refuse(HTTPStatus.INSUFFICIENT_STORAGE, "there is too little memory for this")
        except Exception:
            # The text of any other error is about the program, not about the question.
            self._refuse(HTTPStatus.INTERNAL_SERVER_ERROR, "there is no answer to this question")
        else:
            self._send_json(HTTPStatus.OK, answer)

    def _refuse_cut(self) -> None:
        """Raise _QuestionError where the file was cut: to touch what is gone would end the process."""
        document = self.server.queries.model._document
        if document.descriptor >= 0 and os.fstat(document.descriptor).st_size < len(document):
            raise _QuestionError(f"{document.name} is shorter than it was; start `onnxwire view` again")

    def _has_body(self) -> bool:
        """Whether something follows the request that belongs to it; a short body is read."""
        length = self.headers.get("Content-Length", "0")
        if "Transfer-Encoding" not in self.headers and length == "0":
            return False
        # A connection that is closed with bytes unread may lose the answer.
        if length.isascii() and length.isdecimal() and len(length) < 6:
            self.rfile.read(int(length))
        return True

    def _is_ours(self) -> bool:
        """Whether the request is for this machine by name: a foreign name that leads here is DNS rebinding."""
        host = self.headers.get("Host", "")
        return host.rpartition(":")[0] in _HOSTS or host in _HOSTS

    def _refuse(self, status: HTTPStatus, reason: str) -> None:
        self._send_json(status, {"error": reason})

    def _send_json(self, status: HTTPStatus, answer: dict[str, Any]) -> None:
        text = json.dumps(answer, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        # A name may hold what is not text.
        self._send(status, "application/json; charset=utf-8", text.encode("utf-8", "replace"))

    def _send(self, status: HTTPStatus, kind: str, body: bytes) -> None:
        self.send_response(status)
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        if self.close_connection:
            self.send_header("Connection", "close")
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Refuse what is not a GET, and what is not HTTP; the text is not what was sent."""
        self.close_connection = True
        # The base class answers a method that it has no function for with 501.
        status = HTTPStatus.METHOD_NOT_ALLOWED if code == HTTPStatus.NOT_IMPLEMENTED else HTTPStatus(code)
        self._refuse(status, status.phrase)

    def version_string(self) -> str:
        """Tell nobody what this is."""
        return "onnxwire"

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: the terminal is for errors."""
