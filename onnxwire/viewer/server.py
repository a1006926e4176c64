"""The server of the page: on the loopback only, and only for whoever has the address with the token in it."""

from __future__ import annotations

import contextlib
import hmac
import json
import math
import os
import re
import secrets
import socket
import threading
import time
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from inspect import Parameter, signature
from typing import Any
from urllib.parse import parse_qs, urlsplit

from onnxwire.errors import EditError, Error, PathError, SourceError, StaleError
from onnxwire.viewer.field_tree import FieldQueries

TYPE_CHECKING = False
if TYPE_CHECKING:
    from onnxwire.viewer.edits import Edits

HEADER = "X-Onnxwire-Key"
"""The header that every question has the key in. No page of another origin can send it unasked, and unlike a cookie it
is not sent to other servers on this machine."""
REVISION = "X-Onnxwire-Revision"
"""The header of answers that says which state of the message they are about."""
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
_JSON, _UPLOADED = "application/json", "application/octet-stream"
_MOST_SENT = 1 << 22  # bytes of a change
_NO_KEY = "start `onnxwire view` again, and open the address that it prints"
IDLE_SECONDS = 60  # for which a connection that had the key may be silent
HEAD_SECONDS = 10  # in which any other connection must have sent a request
MAX_CONNECTIONS = 64


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
    "about": {},
    "summary": {},
    "outline": {},
    "nodes": {"scope": str, "search": str, "start": _number, "count": _number},
    "tensors": {"scope": str, "search": str, "start": _number, "count": _number},
    "node": {"path": str},
    "around": {"path": str, "hops": _number},
    "map": {"group": str, "start": str, "end": str},
    "locate": {"path": str},
    "route": {"start": str, "end": str},
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
    "fields": {"path": str, "start": _number, "count": _number},
    "value": {"path": str},
}
"""The methods of Queries that may be asked for, and what their arguments are made from."""

_EDITED = {"edits": "state", "problems": "problems", "differences": "differences"}
"""The questions about edits, and the methods of Edits that answer them."""

_ACTIONS: dict[str, dict[str, tuple[type, ...]]] = {
    "change": {"revision": (int,), "kind": (str,), "arguments": (dict,)},
    "undo": {"revision": (int,)},
    "redo": {"revision": (int,)},
    "save": {"revision": (int,), "path": (str,), "replace": (bool,), "words": (str,)},
    "extract": {"revision": (int,), "values": (list,), "path": (str,), "replace": (bool,)},
}
"""The questions that may be sent with POST, as JSON: arguments and their types. A file is sent to `upload` as it is."""


class Server(ThreadingHTTPServer):
    """Serves the page of one model.

    queries: answers the page's questions. port: 0 for a free one. edits: what the page can change, None for nothing;
    its present state answers the questions then. `address` is what a browser is to open; its token
    works once, for the browser that has it first, and is then exchanged for a key that is never shown.
    Raises OSError where the port can't be had.
    """

    daemon_threads = True
    request_queue_size = 128
    # On Windows it would let two servers have one port.
    allow_reuse_address = os.name == "posix"

    def __init__(self, queries: FieldQueries, port: int = 0, edits: Edits | None = None) -> None:
        self._queries = queries
        self.edits = edits
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
        # When each connection is closed unless it sends a request, or never while one with the key is answered.
        self._deadlines: dict[socket.socket, float] = {}
        self._lock = threading.Lock()
        super().__init__(("127.0.0.1", port), Handler)

    @property
    def address(self) -> str:
        """The address to open, as long as nobody has."""
        # What is after # is not sent to the server, and so stands in no log of what is between.
        return f"http://127.0.0.1:{self.server_port}/#token={self.token}"

    @property
    def queries(self) -> FieldQueries:
        """The object that answers questions about the present state."""
        if self.edits is not None and self.edits.message is not self._queries.message:
            # Two threads may make two, which is no harm.
            self._queries = type(self._queries)(self.edits.message)
        return self._queries

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

    def expect(self, connection: socket.socket, seconds: float) -> None:
        """Close a connection unless it sends a whole request in some seconds; infinity: while it is answered."""
        with self._lock:
            if connection in self._deadlines:
                self._deadlines[connection] = time.monotonic() + seconds

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer a connection in a thread. Of too many, the one that has the least time left is closed.

        So clients that connect and send nothing, or send it slowly, keep out neither each other nor the page. Where all
        are being answered, and so are the page's own, the new one is closed.
        """
        with self._lock:
            if len(self._deadlines) >= MAX_CONNECTIONS:
                first = min(self._deadlines, key=self._deadlines.__getitem__)
                if self._deadlines[first] < math.inf:
                    self._close(first)
            if has_room := len(self._deadlines) < MAX_CONNECTIONS:
                self._deadlines[request] = time.monotonic() + HEAD_SECONDS
        if has_room:
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def service_actions(self) -> None:
        """Close the connections whose time is over."""
        super().service_actions()
        now = time.monotonic()
        with self._lock:
            for connection in [one for one, deadline in self._deadlines.items() if deadline < now]:
                self._close(connection)

    def _close(self, connection: socket.socket) -> None:
        """Shut a connection down, so that its thread reads the end. The caller holds the lock."""
        del self._deadlines[connection]
        with contextlib.suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)

    def shutdown_request(self, request: Any) -> None:
        """Close a connection that was answered."""
        with self._lock:
            self._deadlines.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a browser that went away in the middle."""


class Handler(BaseHTTPRequestHandler):
    """Answers one connection."""

    server: Server
    protocol_version = "HTTP/1.1"
    timeout = IDLE_SECONDS
    connection: socket.socket
    # Head and body are two writes; the system would keep the second until the browser, which waits, confirms the first.
    disable_nagle_algorithm = True

    def handle_one_request(self) -> None:
        """As the base class does; then give the connection time for the next request."""
        self._was_known = False
        super().handle_one_request()
        self.server.expect(self.connection, IDLE_SECONDS if self._was_known else HEAD_SECONDS)

    def parse_request(self) -> bool:
        """As the base class does; also refuse a request that ends in two places. Source: RFC 9112, section 6.3."""
        if not super().parse_request():
            return False
        if len(set(self.headers.get_all("Content-Length", ()))) > 1:
            self.send_error(HTTPStatus.BAD_REQUEST)
            return False
        return True

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
        edits, queries = self.server.edits, self.server.queries
        if name in _EDITED and edits is not None:
            answer = getattr(edits, _EDITED[name])
        elif name == "edits":
            answer = lambda: {"is_editable": False}  # noqa: E731
        elif name in _QUESTIONS and hasattr(queries, name):
            answer = getattr(queries, name)
        else:
            answer = None
        if not parts.path.startswith("/api/") or answer is None:
            return self._refuse(HTTPStatus.NOT_FOUND, "there is nothing here")
        if not self._has_key():
            return self._refuse(HTTPStatus.FORBIDDEN, _NO_KEY)
        self._answer(lambda: answer(**self._arguments(name, answer, parts.query)))

    def do_POST(self) -> None:
        """Make a change, where the server was started with edits."""
        edits = self.server.edits
        if edits is None:
            return self.send_error(HTTPStatus.NOT_IMPLEMENTED)
        # Until the body is read, what follows the request is not another request.
        is_last, self.close_connection = self.close_connection, True
        refusal = self._refusal_of_sent()
        if refusal is not None:
            # A connection that is closed with bytes unread may lose the answer.
            self._has_body()
            return self._refuse(*refusal)
        name, length = self._action(), int(self.headers["Content-Length"])
        if name == "upload":
            return self._answer(lambda: self._keep_drop(edits, length, is_last))
        body = self.rfile.read(length)
        if len(body) < length:
            return self._refuse(HTTPStatus.BAD_REQUEST, "what was sent did not arrive whole")
        self.close_connection = is_last
        self._answer(lambda: self._act(edits, name, body))

    def _action(self) -> str:
        """The name of the question, the last part of the address."""
        return self.path.partition("?")[0].removeprefix("/api/")

    def _refusal_of_sent(self) -> tuple[HTTPStatus, str] | None:
        """Why what was sent with POST is not even read; None where it is."""
        if not self._is_ours() or not self._is_own_page():
            return HTTPStatus.FORBIDDEN, "this server answers its own page only"
        if not self._has_key():
            return HTTPStatus.FORBIDDEN, _NO_KEY
        name = self._action()
        if not self.path.startswith("/api/") or (name not in _ACTIONS and name != "upload"):
            return HTTPStatus.NOT_FOUND, "there is nothing here"
        kind = _UPLOADED if name == "upload" else _JSON
        if self.headers.get("Content-Type") != kind:
            return HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"this is to be sent as {kind}"
        length = self.headers.get("Content-Length", "")
        if "Transfer-Encoding" in self.headers or re.fullmatch(r"[0-9]{1,15}", length) is None:
            return HTTPStatus.LENGTH_REQUIRED, "the length of what is sent is missing"
        if name != "upload" and int(length) > _MOST_SENT:
            reason = f"this has {int(length):,} bytes; no more than {_MOST_SENT:,} are taken"
            return HTTPStatus.REQUEST_ENTITY_TOO_LARGE, reason
        return None

    def _act(self, edits: Edits, name: str, body: bytes) -> dict[str, Any]:
        """Carry out an action."""
        try:
            sent = json.loads(body)
        except (ValueError, RecursionError):
            raise _QuestionError("what was sent is not JSON") from None
        types = _ACTIONS[name]
        if type(sent) is not dict or sent.keys() != types.keys():
            raise _QuestionError(f"an object with {', '.join(types)} is wanted")
        for key, kinds in types.items():
            # Python takes true for a number.
            if type(sent[key]) not in kinds:
                raise _QuestionError(f"{key} is of another type")
        if name == "change":
            return edits.change(**sent)
        if name == "extract" and not all(type(value) is str for value in sent["values"]):
            raise _QuestionError("values is a list of names")
        answer: dict[str, Any] = getattr(edits, name)(**sent)
        return answer

    def _keep_drop(self, edits: Edits, length: int, is_last: bool) -> dict[str, Any]:
        """Keep a file that was dropped on the page; is_last: whether the connection ends with it."""
        names = parse_qs(urlsplit(self.path).query).get("name", [])
        if len(names) != 1:
            raise _QuestionError("the file has no name")
        answer = edits.uploads.add(names[0], length, self.rfile.read).describe()
        self.close_connection = is_last
        return answer

    @staticmethod
    def _arguments(name: str, method: Callable[..., dict[str, Any]], query: str) -> dict[str, Any]:
        """The arguments of a question; method: answers it."""
        parsers = _QUESTIONS.get(name, {})
        arguments = {key: parsers[key](values[-1]) for key, values in parse_qs(query, True).items() if key in parsers}
        for key, parameter in signature(method).parameters.items():
            if key in parsers and parameter.default is Parameter.empty and key not in arguments:
                raise _QuestionError(f"the question lacks a {key}")
        return arguments

    def _answer(self, make: Callable[[], dict[str, Any]]) -> None:
        """Send what a function gives, or what it was refused for."""
        try:
            self._refuse_changed()
            answer = make()
        except StaleError as error:
            self._refuse(HTTPStatus.CONFLICT, error.reason)
        except PathError as error:
            self._refuse(HTTPStatus.NOT_FOUND, str(error))
        except EditError as error:
            # What it is about stands in the form that sent it.
            self._refuse(HTTPStatus.BAD_REQUEST, error.reason)
        except (Error, _QuestionError) as error:
            self._refuse(HTTPStatus.BAD_REQUEST, str(error))
        except MemoryError:
            self._refuse(HTTPStatus.INSUFFICIENT_STORAGE, "there is too little memory for this")
        except Exception:
            # The text of any other error is about the program, not about the question.
            self._refuse(HTTPStatus.INTERNAL_SERVER_ERROR, "there is no answer to this question")
        else:
            self._send_json(HTTPStatus.OK, answer)

    def _refuse_changed(self) -> None:
        """Raise _QuestionError if the file was written to: its values are others, or would end the process."""
        document = self.server.queries.message._document
        try:
            document.check_unchanged()
        except SourceError:
            reason = f"{document.name} was written to since it was opened; start `onnxwire view` again"
            raise _QuestionError(reason) from None

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

    def _is_own_page(self) -> bool:
        """Whether a request comes from this server's page, as far as the browser says where it comes from.

        No other page can send it, as it lacks the key; this refuses it even to one that got hold of that.
        """
        # The port need not be the server's own: it may be forwarded.
        own = f"http://{self.headers.get('Host', '')}"
        return self.headers.get("Origin", own) == own and self.headers.get("Sec-Fetch-Site") in (None, "same-origin")

    def _has_key(self) -> bool:
        """Whether the request has the key; then its answer may take as long as it takes."""
        self._was_known = self.server.knows(self.headers.get(HEADER, ""))
        if self._was_known:
            self.server.expect(self.connection, math.inf)
        return self._was_known

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
        if self.server.edits is not None:
            # So that every answer tells a tab whether another one changed the model.
            self.send_header(REVISION, str(self.server.edits.revision))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Refuse other methods, and what is not HTTP; the text is not what was sent."""
        self.close_connection = True
        # The base class answers a method that it has no function for with 501.
        status = HTTPStatus.METHOD_NOT_ALLOWED if code == HTTPStatus.NOT_IMPLEMENTED else HTTPStatus(code)
        self._refuse(status, status.phrase)

    def version_string(self) -> str:
        """Tell nobody what this is."""
        return "onnxwire"

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: the terminal is for errors."""
