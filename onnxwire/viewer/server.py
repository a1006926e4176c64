"""The HTTP server of the page: on the loopback interface only, with data only for the owner of a one-time token."""

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
    from onnxwire.viewer.model_comparison import ModelComparison
    from onnxwire.viewer.start_page import StartPage

KEY_HEADER = "X-Onnxwire-Key"
"""The header with the key of a request, or with the token in the request that exchanges it for the key.

A page of another origin cannot set it without a preflight request, and unlike a cookie it is not sent to other servers
on this machine.
"""
REVISION_HEADER = "X-Onnxwire-Revision"
"""The header of answers with the revision of the message that they describe."""
_HOSTS = {"127.0.0.1", "localhost"}  # names of this machine in requests
_CONTENT_TYPES = {
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
_JSON, _BINARY = "application/json", "application/octet-stream"  # types of bodies of requests
_MAX_BODY_BYTES = 1 << 22  # maximum size of the body of an action, except `upload`
_NO_KEY_REASON = "start `onnxwire view` again, and open the address that it prints"
# Maximum time between the requests of a connection that sent the key; also the timeout of reads and writes.
IDLE_SECONDS = 60
HEAD_SECONDS = 10  # maximum time until any other connection has sent its next request
MAX_CONNECTIONS = 64  # maximum number of open connections


class _QueryError(ValueError):
    """A query or action that is rejected; the text is sent to the client."""


def _parse_numbers(count: int | None) -> Callable[[str], tuple[int, ...]]:
    """Return a parser of integers separated by commas. count: the required number of integers, None for any."""

    def parse(text: str) -> tuple[int, ...]:
        numbers = tuple(_parse_number(word) for word in text.split(",")) if text else ()
        if count is not None and len(numbers) != count:
            raise _QueryError(f"expected {count} numbers")
        return numbers

    return parse


def _parse_number(text: str) -> int:
    if re.fullmatch(r"-?[0-9]{1,18}", text) is None:
        raise _QueryError(f"{text!r} is not an integer of at most 18 digits")
    return int(text)


_QUERIES: dict[str, dict[str, Callable[[str], Any]]] = {
    "about": {},
    "summary": {},
    "outline": {},
    "nodes": {"scope": str, "search": str, "start": _parse_number, "count": _parse_number},
    "tensors": {"scope": str, "search": str, "start": _parse_number, "count": _parse_number},
    "node": {"path": str},
    "documentation": {"path": str},
    "around": {"path": str, "hops": _parse_number},
    "map": {"group": str, "start": str, "end": str, "to_right": lambda text: text == "1"},
    "locate": {"path": str},
    "route": {"start": str, "end": str},
    "tensor": {"path": str},
    "histogram": {"path": str, "bins": _parse_number, "whole": lambda text: text == "1"},
    "heat_map": {
        "path": str,
        "axes": _parse_numbers(2),
        "at": _parse_numbers(None),
        "window": _parse_numbers(4),
        "size": _parse_numbers(2),
        "extreme": lambda text: text == "1",
    },
    "raw": {"path": str, "start": _parse_number, "count": _parse_number, "payload": lambda text: text == "1"},
    "records": {"path": str, "start": _parse_number, "count": _parse_number},
    "fields": {"path": str, "start": _parse_number, "count": _parse_number},
    "value": {"path": str},
}
"""The queries that methods of FieldQueries and its subclasses answer, and the parsers of their arguments."""

_EDIT_QUERIES = {"edits": "state", "problems": "problems", "differences": "differences"}
"""The queries about edits, and the methods of Edits that answer them."""

_ACTIONS: dict[str, dict[str, tuple[type, ...]]] = {
    "change": {"revision": (int,), "kind": (str,), "arguments": (dict,)},
    "undo": {"revision": (int,)},
    "redo": {"revision": (int,)},
    "save": {"revision": (int,), "path": (str,), "replace": (bool,), "words": (str,)},
    "extract": {"revision": (int,), "values": (list,), "path": (str,), "replace": (bool,)},
}
"""The actions of a page with edits, and the types of their JSON arguments; `upload` is another, with a file as body."""

_START_ACTIONS: dict[str, dict[str, tuple[type, ...]]] = {
    "open": {"path": (str,), "type": (str,)},
    "forget": {"path": (str,)},
}
"""The actions of the start page; it also has `upload`."""


class Server(ThreadingHTTPServer):
    """The server of a page that shows a model, two models or another message, or of the start page.

    queries: answers the page's queries. start: serves the start page instead, and the pages of the files that it opens;
    their queries name a file. port: 0 for a free one. edits: allows the page to change the message; the queries then
    refer to the present state. Without edits, the page is read-only. comparison, other_queries: the comparison of the
    model with a second one, and the object that answers queries about the second model; the page then shows both. A
    browser opens `address`; the token in it works once and is exchanged for a key that no address or log contains.
    Raises OSError if the port is not available.
    """

    daemon_threads = True
    request_queue_size = 128
    # On Windows, this option would let two servers bind the same port.
    allow_reuse_address = os.name == "posix"

    def __init__(
        self,
        queries: FieldQueries | None,
        port: int = 0,
        edits: Edits | None = None,
        comparison: ModelComparison | None = None,
        other_queries: FieldQueries | None = None,
        start: StartPage | None = None,
    ) -> None:
        self._queries = queries
        self.comparison = comparison
        self.other_queries = other_queries
        self.start = start
        self.edits = edits
        self.token: str | None = secrets.token_urlsafe(24)
        self.when_opened: Callable[[], object] = lambda: None
        """A function that is called once, when the token is used."""
        self._key = secrets.token_urlsafe(32)
        folder = files("onnxwire.viewer") / "pages"
        # Read once: requests select a page by name, and never reach the file system.
        self.pages = {
            f"/{page.name}": (_CONTENT_TYPES[os.path.splitext(page.name)[1]], page.read_bytes())
            for page in folder.iterdir()
            if os.path.splitext(page.name)[1] in _CONTENT_TYPES
        }
        first_page = "start" if start is not None else "compare" if comparison is not None else "index"
        self.pages["/"] = self.pages[f"/{first_page}.html"]
        # The time at which a connection without a complete request is closed; infinite while a request with the key is
        # answered.
        self._deadlines: dict[socket.socket, float] = {}
        self._lock = threading.Lock()
        super().__init__(("127.0.0.1", port), Handler)

    @property
    def address(self) -> str:
        """The address to open, until the token is used."""
        # Browsers do not send the part after #, so no log of a proxy contains the token.
        return f"http://127.0.0.1:{self.server_port}/#token={self.token}"

    @property
    def queries(self) -> FieldQueries | None:
        """The object that answers queries about the present state; None on the start page."""
        if self._queries is not None and self.edits is not None and self.edits.message is not self._queries.message:
            # Two threads may both create the object, which is harmless.
            self._queries = type(self._queries)(self.edits.message)
        return self._queries

    def exchange_token(self, token: str) -> str | None:
        """Return the key in exchange for the token; None for a wrong or used token."""
        expected = self.token
        if expected is None or not hmac.compare_digest(token.encode(), expected.encode()):
            return None
        self.token = None
        self.when_opened()
        return self._key

    def is_key(self, key: str) -> bool:
        """Return whether this is the key."""
        return hmac.compare_digest(key.encode(), self._key.encode())

    def set_deadline(self, connection: socket.socket, seconds: float) -> None:
        """Close a connection after some seconds, unless this method is called again. seconds: may be infinite."""
        with self._lock:
            if connection in self._deadlines:
                self._deadlines[connection] = time.monotonic() + seconds

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer a connection in a thread. If 64 others are open, close the one with the earliest deadline.

        Therefore clients that send nothing, or send slowly, cannot block the page or other clients. If requests
        with the key are being answered on all 64, the new connection is closed.
        """
        with self._lock:
            if len(self._deadlines) >= MAX_CONNECTIONS:
                connection_to_close = min(self._deadlines, key=self._deadlines.__getitem__)
                if self._deadlines[connection_to_close] < math.inf:
                    self._close(connection_to_close)
            if is_accepted := len(self._deadlines) < MAX_CONNECTIONS:
                self._deadlines[request] = time.monotonic() + HEAD_SECONDS
        if is_accepted:
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def service_actions(self) -> None:
        """Extend the base class: close the connections whose deadline has passed."""
        super().service_actions()
        now = time.monotonic()
        with self._lock:
            for connection in [key for key, deadline in self._deadlines.items() if deadline < now]:
                self._close(connection)

    def _close(self, connection: socket.socket) -> None:
        """Shut a connection down, so that its thread reads the end of the stream. The caller must hold `_lock`."""
        del self._deadlines[connection]
        with contextlib.suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)

    def shutdown_request(self, request: Any) -> None:
        """Extend the base class: forget the deadline of the connection."""
        with self._lock:
            self._deadlines.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore errors of connections, such as a browser that disconnects."""


class Handler(BaseHTTPRequestHandler):
    """Answers the requests of one connection."""

    server: Server
    protocol_version = "HTTP/1.1"
    timeout = IDLE_SECONDS
    connection: socket.socket
    # Head and body are two writes; Nagle's algorithm would delay the second until the browser acknowledges the first.
    disable_nagle_algorithm = True

    def handle_one_request(self) -> None:
        """Extend the base class: set the connection's deadline for the next request."""
        self._had_key = False
        super().handle_one_request()
        self.server.set_deadline(self.connection, IDLE_SECONDS if self._had_key else HEAD_SECONDS)

    def parse_request(self) -> bool:
        """Extend the base class: reject requests with two different lengths. Source: RFC 9112, section 6.3."""
        if not super().parse_request():
            return False
        if len(set(self.headers.get_all("Content-Length", ()))) > 1:
            self.send_error(HTTPStatus.BAD_REQUEST)
            return False
        return True

    def do_GET(self) -> None:
        """Answer with a page or with JSON."""
        if self._discard_body():
            # An unread body would be parsed as the next request.
            self.close_connection = True
            return self._refuse(HTTPStatus.BAD_REQUEST, "a GET request has no body")
        if not self._is_for_this_host():
            return self._refuse(HTTPStatus.FORBIDDEN, "this server answers to 127.0.0.1 and localhost only")
        try:
            address = urlsplit(self.path)
        except ValueError:
            return self._refuse(HTTPStatus.BAD_REQUEST, "this is not an address")
        if address.path in self.server.pages:
            return self._send(HTTPStatus.OK, *self.server.pages[address.path])
        name = address.path.removeprefix("/api/")
        if name == "session":
            key = self.server.exchange_token(self.headers.get(KEY_HEADER, ""))
            if key is None:
                return self._refuse(
                    HTTPStatus.FORBIDDEN,
                    "the address is wrong or was already opened; start `onnxwire view` again for a new one",
                )
            return self._send_json(HTTPStatus.OK, {"key": key})
        if self.server.start is not None and not self._check_key():
            return self._refuse(HTTPStatus.FORBIDDEN, _NO_KEY_REASON)
        try:
            answer, read_queries = self._find_answer(name, parse_qs(address.query))
        except PathError as error:
            return self._refuse(HTTPStatus.NOT_FOUND, str(error))
        if not address.path.startswith("/api/") or answer is None:
            return self._refuse(HTTPStatus.NOT_FOUND, "there is no such page or query")
        if not self._check_key():
            return self._refuse(HTTPStatus.FORBIDDEN, _NO_KEY_REASON)
        self._answer(lambda: answer(**self._parse_arguments(name, answer, address.query)), read_queries)

    def _find_answer(self, name: str, query: dict[str, list[str]]) -> tuple[Callable[..., Any] | None, list[Any]]:
        """Return the function that answers a query (None: an unknown query), and the objects whose files it reads."""
        server = self.server
        if server.start is not None:
            if name == "start":
                return server.start.start, []
            queries: Any = server.start.queries(query.get("file", [""])[-1])
        else:
            queries = (
                server.queries if server.other_queries is None or query.get("side") != ["1"] else server.other_queries
            )
        read_queries = [queries] if server.other_queries is None else [server.queries, server.other_queries]
        if name == "comparison" and server.comparison is not None:
            return server.comparison.comparison, read_queries
        if name in _EDIT_QUERIES and server.edits is not None:
            return getattr(server.edits, _EDIT_QUERIES[name]), read_queries
        if name == "edits":
            return (lambda: {"is_editable": False}), read_queries
        if name in _QUERIES and hasattr(queries, name):
            return getattr(queries, name), read_queries
        return None, read_queries

    def do_POST(self) -> None:
        """Answer an action of the start page, or of a page that may edit the message."""
        edits, start = self.server.edits, self.server.start
        if edits is None and start is None:
            return self.send_error(HTTPStatus.NOT_IMPLEMENTED)
        # Until the body is read, the connection can't be used for another request.
        closes_connection, self.close_connection = self.close_connection, True
        refusal = self._reason_to_refuse_post()
        if refusal is not None:
            self._discard_body()
            return self._refuse(*refusal)
        name, length = self._action_name(), int(self.headers["Content-Length"])
        read_queries = [] if self.server.queries is None else [self.server.queries]
        if name == "upload":
            return self._answer(lambda: self._store_upload(length, closes_connection), read_queries)
        body = self.rfile.read(length)
        if len(body) < length:
            return self._refuse(HTTPStatus.BAD_REQUEST, "the request body is incomplete")
        self.close_connection = closes_connection
        self._answer(lambda: self._do_action(edits or start, name, body), read_queries)

    def _actions(self) -> dict[str, dict[str, tuple[type, ...]]]:
        """Return the possible actions except `upload`, with the types of their arguments."""
        return _ACTIONS if self.server.edits is not None else _START_ACTIONS

    def _action_name(self) -> str:
        """Return the name of the action, the last part of the address."""
        return self.path.partition("?")[0].removeprefix("/api/")

    def _reason_to_refuse_post(self) -> tuple[HTTPStatus, str] | None:
        """Return the status and the reason to reject a POST request before its body is read; None to accept it."""
        if not self._is_for_this_host() or not self._is_own_page():
            return HTTPStatus.FORBIDDEN, "this server answers its own page only"
        if not self._check_key():
            return HTTPStatus.FORBIDDEN, _NO_KEY_REASON
        name = self._action_name()
        if not self.path.startswith("/api/") or (name not in self._actions() and name != "upload"):
            return HTTPStatus.NOT_FOUND, "there is no such action"
        content_type = _BINARY if name == "upload" else _JSON
        if self.headers.get("Content-Type") != content_type:
            return HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"the Content-Type must be {content_type}"
        length = self.headers.get("Content-Length", "")
        if "Transfer-Encoding" in self.headers or re.fullmatch(r"[0-9]{1,15}", length) is None:
            return HTTPStatus.LENGTH_REQUIRED, "a Content-Length without Transfer-Encoding is required"
        if name != "upload" and int(length) > _MAX_BODY_BYTES:
            reason = f"the request body has {int(length):,} bytes; the limit is {_MAX_BODY_BYTES:,}"
            return HTTPStatus.REQUEST_ENTITY_TOO_LARGE, reason
        return None

    def _do_action(self, target: Any, name: str, body: bytes) -> dict[str, Any]:
        """Carry out an action; returns its answer. target: the Edits or StartPage whose method `name` is the action."""
        try:
            arguments = json.loads(body)
        except (ValueError, RecursionError):
            raise _QueryError("the request body is not JSON") from None
        types = self._actions()[name]
        if type(arguments) is not dict or arguments.keys() != types.keys():
            raise _QueryError(f"expected an object with {', '.join(types)}")
        for key, allowed_types in types.items():
            # Not isinstance: bool is a subclass of int.
            if type(arguments[key]) not in allowed_types:
                raise _QueryError(f"{key} has the wrong type")
        if name == "extract" and not all(type(value) is str for value in arguments["values"]):
            raise _QueryError("values must be a list of names")
        answer: dict[str, Any] = getattr(target, name)(**arguments)
        return answer

    def _store_upload(self, length: int, closes_connection: bool) -> dict[str, Any]:
        """Store an uploaded file. closes_connection: whether to close the connection afterwards."""
        query = parse_qs(urlsplit(self.path).query)
        names = query.get("name", [])
        if len(names) != 1:
            raise _QueryError("the file has no name")
        if self.server.edits is not None:
            answer = self.server.edits.uploads.add(names[0], length, self.rfile.read).describe()
        else:
            assert self.server.start is not None
            message_type = query.get("type", ["ModelProto"])[-1]
            answer = self.server.start.receive(names[0], message_type, length, self.rfile.read)
        self.close_connection = closes_connection
        return answer

    @staticmethod
    def _parse_arguments(name: str, method: Callable[..., dict[str, Any]], query: str) -> dict[str, Any]:
        """Parse the arguments of a query for the method that answers it."""
        parsers = _QUERIES.get(name, {})
        arguments = {key: parsers[key](values[-1]) for key, values in parse_qs(query, True).items() if key in parsers}
        for key, parameter in signature(method).parameters.items():
            if key in parsers and parameter.default is Parameter.empty and key not in arguments:
                raise _QueryError(f"the argument {key} is missing")
        return arguments

    def _answer(self, make: Callable[[], dict[str, Any]], read_queries: list[FieldQueries]) -> None:
        """Send the result of a function, or its error. read_queries: the objects whose files the function reads."""
        try:
            self._raise_if_changed(read_queries)
            answer = make()
        except StaleError as error:
            self._refuse(HTTPStatus.CONFLICT, error.reason)
        except PathError as error:
            self._refuse(HTTPStatus.NOT_FOUND, str(error))
        except EditError as error:
            # The form in which the user entered the change shows the path.
            self._refuse(HTTPStatus.BAD_REQUEST, error.reason)
        except (Error, _QueryError) as error:
            self._refuse(HTTPStatus.BAD_REQUEST, str(error))
        except MemoryError:
            self._refuse(HTTPStatus.INSUFFICIENT_STORAGE, "there is not enough memory for this answer")
        except Exception:
            # The text of an unexpected error may contain details of the program.
            self._refuse(HTTPStatus.INTERNAL_SERVER_ERROR, "an internal error prevented the answer")
        else:
            self._send_json(HTTPStatus.OK, answer)

    @staticmethod
    def _raise_if_changed(read_queries: list[FieldQueries]) -> None:
        """Raise _QueryError if a file was modified, since reading its mapped pages may raise SIGBUS."""
        for queries in read_queries:
            document = queries.message._document
            try:
                document.check_unchanged()
            except SourceError:
                reason = f"{document.name} was modified since it was opened; start `onnxwire view` again"
                raise _QueryError(reason) from None

    def _discard_body(self) -> bool:
        """Read a short body, since closing a connection with unread bytes may lose the answer.

        Returns whether the request has a body.
        """
        length = self.headers.get("Content-Length", "0")
        if "Transfer-Encoding" not in self.headers and length == "0":
            return False
        if length.isascii() and length.isdecimal() and len(length) < 6:
            self.rfile.read(int(length))
        return True

    def _is_for_this_host(self) -> bool:
        """Return whether the Host header names this machine; another name may be an attack by DNS rebinding."""
        host = self.headers.get("Host", "")
        return host.rpartition(":")[0] in _HOSTS or host in _HOSTS

    def _is_own_page(self) -> bool:
        """Return whether a request comes from this server's page, by the headers with which browsers report its origin.

        Other pages do not know the key; this check also rejects a page that has obtained the key.
        """
        # The port may differ from the server's, since it may be forwarded.
        own_origin = f"http://{self.headers.get('Host', '')}"
        return self.headers.get("Origin", own_origin) == own_origin and self.headers.get("Sec-Fetch-Site") in (
            None,
            "same-origin",
        )

    def _check_key(self) -> bool:
        """Remove the deadline of the connection if the request has the key; returns whether it has."""
        self._had_key = self.server.is_key(self.headers.get(KEY_HEADER, ""))
        if self._had_key:
            self.server.set_deadline(self.connection, math.inf)
        return self._had_key

    def _refuse(self, status: HTTPStatus, reason: str) -> None:
        self._send_json(status, {"error": reason})

    def _send_json(self, status: HTTPStatus, answer: dict[str, Any]) -> None:
        text = json.dumps(answer, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        # Names may contain lone surrogates.
        self._send(status, "application/json; charset=utf-8", text.encode("utf-8", "replace"))

    def _send(self, status: HTTPStatus, content_type: str, body: bytes) -> None:
        """Send an answer with the security headers."""
        self.send_response(status)
        for name, value in _HEADERS.items():
            if name == "Content-Security-Policy" and self.server.comparison is not None:
                value = value.replace("frame-ancestors 'none'", "frame-src 'self'; frame-ancestors 'self'")
            self.send_header(name, value)
        if self.server.edits is not None:
            # Every answer contains the revision, which informs a tab about changes by other tabs.
            self.send_header(REVISION_HEADER, str(self.server.edits.revision))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Reject unsupported methods and malformed HTTP, without repeating the request's text."""
        self.close_connection = True
        # The base class answers unknown methods with 501.
        status = HTTPStatus.METHOD_NOT_ALLOWED if code == HTTPStatus.NOT_IMPLEMENTED else HTTPStatus(code)
        self._refuse(status, status.phrase)

    def version_string(self) -> str:
        """Return a Server header without versions."""
        return "onnxwire"

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""
