"""Send HTTP requests with persistent connections, retries, and a check of every redirect.

Requests run in threads of the loop's executor, one at a time in each; cancelling a request shuts its socket down. The
user and password of the address or .netrc, and the headers passed to HttpClient, are sent only to the server of the
address, and never after a redirect to another server. The reach of an IP address is LOCAL, PRIVATE or GLOBAL; see
hosts.py.
"""

from __future__ import annotations

import asyncio
import http.client
import os
import random
import re
import socket
import threading
import time
from base64 import b64encode
from collections import namedtuple
from contextlib import suppress
from datetime import timedelta
from http import HTTPStatus
from ipaddress import ip_address, ip_network
from itertools import count
from urllib.parse import unquote, urlsplit

from onnxwire._version import __version__
from onnxwire.errors import count_text
from onnxwire.io.remote.address import Site
from onnxwire.io.remote.failures import RefusedError, RequestError
from onnxwire.io.remote.hosts import GLOBAL, LOCAL, MAX_REDIRECTS, reach_of, redirect_target
from onnxwire.io.remote.settings import retry_limits, user_of_netrc
from onnxwire.io.remote.version import time_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping
    from http.client import HTTPConnection, HTTPMessage, HTTPResponse
    from typing import Any

    from onnxwire.io.remote.address import Address
    from onnxwire.io.remote.hosts import Hosts

_REDIRECT_STATUSES = (301, 302, 303, 307, 308)
_RETRIED_STATUSES = (408, 429, 500, 502, 503, 504)
_MAX_IDLE_CONNECTIONS = 64  # maximum number of idle connections to one server
_MAX_CONNECT_TIMEOUTS = 2  # after this number of IP addresses of a server that do not answer, the attempts end
_BODY_CHUNK_BYTES = 1 << 20  # bytes of a body that are sent, or read if its length is unknown, at a time
_SECONDS_BY_UNIT = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1, "m": 60, "h": 3600, "d": 86400}
_IGNORED_OPTIONS = (
    "allow_http", "default_content_type", "http1_only", "http2_only", "http2_keep_alive_interval",
    "http2_keep_alive_timeout", "http2_keep_alive_while_idle", "pool_idle_timeout", "pool_max_idle_per_host",
    "randomize_addresses",
)  # fmt: skip
"""Options of obstore's clients that have no effect here."""


class Redirect(namedtuple("Redirect", ("site", "target", "reach"))):
    """The target of a redirect: the server, path and query, and the largest reach of the servers before it."""

    __slots__ = ()
    site: Site
    target: str
    reach: int


class Response(namedtuple("Response", ("status", "headers", "body", "redirect"))):
    """A response: its status, headers and body; body is None if it is longer than its limit, and for a redirect.

    redirect: for a request with `returns_redirect` that was redirected to another server, the target; otherwise None.
    """

    __slots__ = ()
    status: int
    headers: http.client.HTTPMessage
    body: bytearray | None
    redirect: Redirect | None


class Request:
    """A request for a file.

    is_model: whether the file is the model itself, which decides where redirects may lead. limits: the maximum size of
    the response's body in bytes, by status; 0 for other statuses. content: the body to send. returns_redirect: return
    the first redirect to another server instead of following it. first_redirect: the redirect to begin with, which an
    earlier request returned; no credentials are sent then.
    """

    def __init__(
        self,
        address: Address,
        hosts: Hosts,
        *,
        is_model: bool = True,
        method: str = "GET",
        headers: Mapping[str, str] | None = None,
        limits: Mapping[int, int] | None = None,
        content: bytes | None = None,
        returns_redirect: bool = False,
        first_redirect: Redirect | None = None,
    ) -> None:
        self.address = address
        self.hosts = hosts
        self.is_model = is_model
        self.method = method
        self.headers = dict(headers or {})
        self.limits = limits or {}
        self.content = content
        self.returns_redirect = returns_redirect
        self.first_redirect = first_redirect


class _Job:
    """A request that a thread runs, and the socket that the thread waits for."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._timer: threading.Timer | None = None
        self.is_cancelled = False
        self.is_late = False  # whether the deadline has passed

    def watch(self, open_socket: socket.socket | None) -> None:
        """Shut this socket down when the job is cancelled. Raise OSError if the job is cancelled already."""
        with self._lock:
            self._socket = open_socket
            if self.is_cancelled:
                raise ConnectionAbortedError

    def release(self) -> None:
        """Stop watching the socket."""
        with self._lock:
            self._socket = None

    def set_deadline(self, seconds: float) -> None:
        """Cancel the job after a time, unless `clear_deadline` is called before."""
        self._timer = threading.Timer(seconds, self._expire)
        self._timer.daemon = True
        self._timer.start()

    def clear_deadline(self) -> None:
        """Remove the time limit."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _expire(self) -> None:
        self.is_late = True
        self.cancel()

    def cancel(self) -> None:
        """Shut down the socket that the thread waits for."""
        with self._lock:
            self.is_cancelled = True
            if self._socket is not None:
                with suppress(OSError):
                    # SSLSocket.shutdown would change state that the thread is using.
                    socket.socket.shutdown(self._socket, socket.SHUT_RDWR)


class _Connection:
    """A connection to a server: its socket, the reach of the server's IP address, and whether a proxy is used."""

    def __init__(self, connection: HTTPConnection, reach: int, *, uses_proxy: bool = False) -> None:
        # Prevent http.client from reopening a closed connection to an unchecked address.
        connection.auto_open = 0
        self.http = connection
        self.socket = connection.sock
        self.reach = reach
        self.uses_proxy = uses_proxy
        self.is_used = False  # whether a response was read completely


class HttpClient:
    """A client that sends HTTP requests.

    options: those of obstore's HTTP stores (storage_options). headers: additional headers; those of the options and the
    user of an address override them. uses_netrc: whether users are also read from .netrc. Raises ValueError, TypeError
    or AttributeError for invalid options, SourceError for an invalid ONNXWIRE_RETRY_TIMEOUT.
    """

    def __init__(
        self,
        options: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        *,
        uses_netrc: bool = False,
    ) -> None:
        self._uses_netrc = uses_netrc
        self._more_headers = dict(headers or {})
        max_retries, retry_seconds = retry_limits()
        other_options = dict(options or {})
        client = dict(other_options.pop("client_options", None) or {})
        retry = dict(other_options.pop("retry_config", None) or {})
        backoff = dict(retry.pop("backoff", None) or {})
        self._headers = {
            _header_text(key): _header_text(value) for key, value in (client.pop("default_headers", None) or {}).items()
        }
        self._user_agent = client.pop("user_agent", None)
        self._timeout = _seconds(client.pop("timeout", 30))
        self._connect_timeout = _seconds(client.pop("connect_timeout", 5))
        self._read_timeout = _seconds(client.pop("read_timeout", self._timeout))
        self._max_retries = int(retry.pop("max_retries", max_retries))
        self._retry_timeout = _seconds(retry.pop("retry_timeout", retry_seconds))
        self._first_wait = _seconds(backoff.pop("init_backoff", 0.1))
        self._max_wait = _seconds(backoff.pop("max_backoff", 15))
        self._wait_base = float(backoff.pop("base", 2))
        self._allows_invalid = bool(client.pop("allow_invalid_certificates", False))
        self._roots = client.pop("root_certificate", None)
        self._proxy = client.pop("proxy_url", None)
        self._proxy_excludes = client.pop("proxy_excludes", None)
        for name in _IGNORED_OPTIONS:
            client.pop(name, None)
        if other_options or client or retry or backoff:
            raise ValueError("unknown options")
        self._context: ssl.SSLContext | None = None
        self._idle: dict[tuple[int, Site], list[_Connection]] = {}
        self._down_until: dict[Site | None, float] = {}  # when requests to a server are retried again

    async def send(self, request: Request) -> Response:
        """Send a request, and retry after transient failures. Raises RequestError and RefusedError.

        After the last retry of a request to a server failed, other requests to it are not retried for some time, unless
        one succeeds, because a catalog may have thousands of models on that server.
        """
        deadline = time.monotonic() + self._retry_timeout
        wait = self._first_wait
        site = request.address.site
        is_down = time.monotonic() < self._down_until.get(site, 0)
        for n_tries in count(1):
            try:
                answer = await self._send_once(request)
                self._down_until.pop(site, None)
                return answer
            except RefusedError:
                raise
            except RequestError as error:
                seconds = max(error.wait, wait * random.uniform(0.5, 1))
                is_last = is_down or n_tries > self._max_retries or time.monotonic() + max(error.wait, wait) > deadline
                if error.is_transient and is_last:
                    self._down_until[site] = time.monotonic() + self._retry_timeout
                if not error.is_transient or is_last:
                    reason = f"{error}, {n_tries} times" if n_tries > 1 else str(error)
                    if error.wait:
                        reason += f", and asks to wait {count_text(round(error.wait), 'second')}"
                    raise RequestError(reason, error.kind, is_transient=error.is_transient) from None
            await asyncio.sleep(seconds)
            wait = min(wait * self._wait_base, self._max_wait)
        raise AssertionError

    async def _send_once(self, request: Request) -> Response:
        """Send a request without retries. Raises RequestError, with `is_transient`, and RefusedError."""
        job = _Job()
        # While an upload is sent, which may take long, only the socket's timeout applies. After that, `_send_request`
        # sets a deadline for the response.
        timeout = self._timeout if request.content is None else None
        try:
            return await asyncio.wait_for(asyncio.to_thread(self._run_in_time, job, request), timeout)
        except TimeoutError:
            raise RequestError("the server took too long to answer", is_transient=True) from None
        except socket.gaierror as error:
            is_transient = error.errno == socket.EAI_AGAIN
            raise RequestError("the host's name can't be resolved", is_transient=is_transient) from None
        except ConnectionRefusedError:
            raise RequestError("the connection was refused", is_transient=True) from None
        except (http.client.IncompleteRead, _TruncatedError):
            raise RequestError("the response was truncated", is_transient=True) from None
        except http.client.HTTPException as error:
            is_transient = isinstance(error, http.client.BadStatusLine)
            reason = "the connection failed" if is_transient else "the server's response is not HTTP"
            raise RequestError(reason, is_transient=is_transient) from None
        except OSError as error:
            raise _connection_error(error) from None
        except (ValueError, UnicodeError):
            # http.client rejects the header or URL; its message, which contains the header, is not shown.
            raise RequestError("a header, the address, or the address of the proxy can't be sent by HTTP") from None
        finally:
            job.cancel()

    # The following methods run in a thread.

    def _run_in_time(self, job: _Job, request: Request) -> Response:
        """Call `_run`. Raise TimeoutError if the response to an upload took too long."""
        try:
            answer = self._run(job, request)
        except Exception:
            if job.is_late:
                raise TimeoutError from None
            raise
        finally:
            job.clear_deadline()
        if job.is_late:
            raise TimeoutError  # the socket was shut down, which ends a body of unknown length
        return answer

    def _run(self, job: _Job, request: Request) -> Response:
        """Send a request and follow redirects.

        Raises RequestError, RefusedError, _TruncatedError, OSError, HTTPException and ValueError.
        """
        address, hosts = request.address, request.hosts
        assert address.site is not None
        site, target = address.site, address.target
        chain_reach: int | None = None
        is_own = True  # whether the chain of redirects has only led to the address's own server
        redirect_sites: list[Site] = []
        if request.first_redirect is not None:
            site, target, chain_reach = request.first_redirect
            is_own = False
            redirect_sites.append(site)
        visited = {(site, target)}
        for _ in range(MAX_REDIRECTS + 1):
            connection, response = self._send_request(job, request, site, target, chain_reach, is_own)
            if response.status not in _REDIRECT_STATUSES:
                answer = self._finish(job, request, site, connection, response)
                if request.is_model and answer.status in (200, 206):
                    hosts.add_redirects(redirect_sites)
                return answer
            job.clear_deadline()
            response.close()
            connection.http.close()
            if request.method == "PUT":
                raise RefusedError("the server redirects uploads; save to the address that it redirects to")
            location = response.getheader("Location")
            chain_reach = max(chain_reach or 0, connection.reach)
            previous_site = site
            site, target = redirect_target(f"{site.scheme}://{site.netloc}{target}", location)
            hosts.check_redirect(previous_site, site, request.is_model)
            if (site, target) in visited:
                raise RefusedError("the server redirects in a loop")
            visited.add((site, target))
            redirect_sites.append(site)
            # Send no credentials after a redirect to another server, even if that server redirects back,
            # because that server chose the path and query.
            is_own = is_own and site.host_and_port == address.site.host_and_port
            if request.returns_redirect and not is_own:
                return Response(response.status, response.headers, None, Redirect(site, target, chain_reach))
        raise RefusedError(f"the server redirects more than {MAX_REDIRECTS} times")

    def _send_request(
        self, job: _Job, request: Request, site: Site, target: str, chain_reach: int | None, is_own: bool
    ) -> tuple[_Connection, HTTPResponse]:
        """Send a request to a server, and read the status and headers of its response.

        target: the path with the query. chain_reach: as for `Hosts.allowed_addresses`. is_own: whether the request may
        contain credentials.
        """
        while True:
            connection = self._connect(job, request.hosts, site, chain_reach)
            is_absolute = connection.uses_proxy and site.scheme == "http"
            url = f"http://{site.netloc}{target}" if is_absolute else target
            try:
                job.watch(connection.socket)
                connection.socket.settimeout(self._read_timeout)
                connection.http.putrequest(request.method, url, skip_host=True, skip_accept_encoding=True)
                for name, value in self._headers_of(request, site, is_own).items():
                    connection.http.putheader(name, value)
                connection.http.endheaders(_body_chunks(request.content))
                if request.content is not None:
                    job.set_deadline(self._timeout)
                return connection, connection.http.getresponse()
            except BaseException as error:
                job.clear_deadline()
                connection.http.close()
                # A server may close an idle connection at any time.
                is_stale = connection.is_used and isinstance(error, http.client.RemoteDisconnected | ConnectionError)
                if not is_stale or job.is_cancelled:
                    raise
            finally:
                job.release()

    def _headers_of(self, request: Request, site: Site, is_own: bool) -> dict[str, str]:
        """Return the headers to send. is_own: whether they may contain credentials."""
        headers = {"Host": site.netloc, "User-Agent": f"onnxwire/{__version__}", "Accept": "*/*"}
        headers |= {"Accept-Encoding": "identity", **request.headers}
        if request.content is not None:
            headers["Content-Length"] = str(len(request.content))
        if is_own:
            user = request.address.user
            if (
                self._uses_netrc
                and not user
                and "authorization" not in map(str.lower, [*self._more_headers, *self._headers])
            ):
                user = user_of_netrc(site)
            basic = {"Authorization": f"Basic {b64encode(user.encode()).decode()}"} if user else {}
            agent = {"User-Agent": self._user_agent} if self._user_agent is not None else {}
            # The caller can't override headers of the request itself.
            fixed_names = ("host", "content-length", *map(str.lower, request.headers))
            for name, value in [*self._more_headers.items(), *(basic | agent).items(), *self._headers.items()]:
                if name.lower() not in fixed_names:
                    existing_name = next(
                        (header_name for header_name in headers if header_name.lower() == name.lower()), name
                    )
                    headers[existing_name] = value
        return headers

    def _finish(
        self, job: _Job, request: Request, site: Site, connection: _Connection, response: HTTPResponse
    ) -> Response:
        """Read the body of a response. Leave the connection open for reuse if the body was read completely.

        Raises RequestError for an unexpected status or a compressed body.
        """
        status = response.status
        body: bytearray | None = None
        try:
            job.watch(connection.socket)
            is_expected = 200 <= status < 300 if request.method == "PUT" else status in (200, 206, 207, 416)
            if not is_expected:
                raise _status_error(status, response.headers)
            if response.getheader("Content-Encoding", "identity").strip().lower() not in ("identity", ""):
                raise RequestError("the server sends the file compressed, although the request forbids it")
            body = _read_body(response, request.limits.get(status, 0))
        finally:
            job.release()
            if body is not None and response.isclosed() and connection.http.sock is not None and not job.is_cancelled:
                connection.is_used = True
                idle = self._idle.setdefault((os.getpid(), site), [])
                if len(idle) < _MAX_IDLE_CONNECTIONS:
                    idle.append(connection)
                else:
                    connection.http.close()
            else:
                response.close()
                connection.http.close()
        return Response(status, response.headers, body, None)

    def _connect(self, job: _Job, hosts: Hosts, site: Site, chain_reach: int | None) -> _Connection:
        """Return an idle connection to a server, or a new one. Raises OSError, RefusedError and RequestError.

        chain_reach: as for `Hosts.allowed_addresses`.
        """
        connection = self._idle_connection(hosts, site, chain_reach) or self._new_connection(
            job, hosts, site, chain_reach
        )
        if chain_reach is None:
            hosts.note_reach(connection.reach)
        return connection

    def _idle_connection(self, hosts: Hosts, site: Site, chain_reach: int | None) -> _Connection | None:
        """Return an idle connection to a server with a sufficient reach, or None."""
        # A forked process must not use the connections of its parent.
        idle = self._idle.get((os.getpid(), site), [])
        while idle:
            with suppress(IndexError):  # another thread popped the last connection
                connection = idle.pop()
                if connection.reach >= hosts.min_reach(chain_reach):
                    return connection
                connection.http.close()
        return None

    def _new_connection(self, job: _Job, hosts: Hosts, site: Site, chain_reach: int | None) -> _Connection:
        proxy = self._proxy_for(site)
        if proxy is not None:
            return self._connect_by_proxy(hosts, site, chain_reach, proxy)
        return self._connect_directly(job, hosts, site, chain_reach)

    def _connect_directly(self, job: _Job, hosts: Hosts, site: Site, chain_reach: int | None) -> _Connection:
        """Return a connection to the first allowed IP address of a server that accepts one.

        Raises OSError, RefusedError and RequestError.
        """
        error: OSError = socket.gaierror(socket.EAI_NONAME, "no address")
        n_timeouts = 0
        for server_ip, reach in hosts.allowed_addresses(site, chain_reach):
            connection = http.client.HTTPConnection(site.host, site.port)
            try:
                connection.sock = self._open(job, site, server_ip)
                return _Connection(connection, reach)
            except OSError as attempt_error:
                error = attempt_error.with_traceback(None)
                n_timeouts += isinstance(attempt_error, TimeoutError)
                if n_timeouts == _MAX_CONNECT_TIMEOUTS:
                    break
        raise error

    def _open(self, job: _Job, site: Site, server_ip: str) -> socket.socket:
        """Return a socket that is connected to an IP address of a server, which the caller has checked."""
        family = socket.AF_INET6 if ":" in server_ip else socket.AF_INET
        connected = socket.socket(family, socket.SOCK_STREAM)
        try:
            connected.settimeout(self._connect_timeout)
            job.watch(connected)
            connected.connect((server_ip, site.port))
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if site.scheme == "https":
                tls = self._ssl_context().wrap_socket(
                    connected, server_hostname=site.host, do_handshake_on_connect=False
                )
                connected = tls
                job.watch(tls)
                tls.do_handshake()
        except BaseException:
            connected.close()
            raise
        finally:
            job.release()
        return connected

    def _connect_by_proxy(self, hosts: Hosts, site: Site, chain_reach: int | None, proxy: str) -> _Connection:
        """Return a connection to a server through a proxy.

        The proxy resolves names, so each name except localhost and *.localhost is treated as that of a public server.
        Raises OSError; RefusedError for an address whose reach is too small; RequestError for an unsupported proxy or
        an invalid root_certificate.
        """
        reach = GLOBAL
        for spelling in (site.host, _ipv4_of(site.host)):
            with suppress(ValueError):
                reach = min(reach, reach_of(spelling))
        if site.host == "localhost" or site.host.endswith(".localhost"):
            reach = LOCAL
        if reach < hosts.min_reach(chain_reach):
            raise hosts.reach_error(site)
        parts = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
        if parts.scheme != "http" or parts.hostname is None:
            raise RequestError("the proxy's address does not begin with http://")
        headers = {}
        if parts.username is not None:
            user = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            headers["Proxy-Authorization"] = f"Basic {b64encode(user.encode()).decode()}"
        proxy_address = (parts.hostname, parts.port or 80)
        connection: HTTPConnection
        if site.scheme == "https":
            context = self._ssl_context()
            connection = http.client.HTTPSConnection(*proxy_address, timeout=self._connect_timeout, context=context)
            connection.set_tunnel(site.host, site.port, headers)
        else:
            connection = _ProxiedConnection(*proxy_address, timeout=self._connect_timeout)
            connection.proxy_headers = headers
        connection.connect()
        return _Connection(connection, reach, uses_proxy=True)

    def _proxy_for(self, site: Site) -> str | None:
        """Return the proxy for requests to a server, by the options or else the system's settings; or None."""
        from urllib.request import getproxies, proxy_bypass

        if self._proxy is not None:
            return None if _is_excluded(site.host, self._proxy_excludes or "") else str(self._proxy)
        proxies = getproxies()
        proxy = proxies.get(site.scheme) or proxies.get("all")
        return None if proxy is None or proxy_bypass(site.host) else proxy

    def _ssl_context(self) -> ssl.SSLContext:
        """Return the TLS context, which is made on first use."""
        if self._context is None:
            import ssl

            context = ssl.create_default_context()
            if self._roots is not None:
                roots = self._roots
                try:
                    context.load_verify_locations(cadata=roots.decode() if isinstance(roots, bytes) else roots)
                except (ssl.SSLError, ValueError, TypeError):
                    raise RequestError(
                        "root_certificate of client_options is not a certificate in PEM format"
                    ) from None
            if self._allows_invalid:
                context.check_hostname = False
                context.verify_mode = ssl.CERT_NONE
            self._context = context
        return self._context


class _ProxiedConnection(http.client.HTTPConnection):
    """A connection to a proxy for plain HTTP, which sends the proxy's headers with each request."""

    proxy_headers: Mapping[str, str] = {}

    def endheaders(self, message_body: Any = None, *, encode_chunked: bool = False) -> None:
        """Send the proxy's headers, then call HTTPConnection.endheaders."""
        for name, value in self.proxy_headers.items():
            self.putheader(name, value)
        super().endheaders(message_body, encode_chunked=encode_chunked)


def _body_chunks(content: bytes | None) -> list[memoryview] | None:
    """Return the body to send in chunks; the socket's timeout applies to each chunk."""
    if content is None:
        return None
    view = memoryview(content)
    return [view[start : start + _BODY_CHUNK_BYTES] for start in range(0, len(view), _BODY_CHUNK_BYTES)]


class _TruncatedError(Exception):
    """A body ended before its stated length."""


def _read_body(response: HTTPResponse, max_bytes: int) -> bytearray | None:
    """Read the body of a response. Return None if it is longer than the limit."""
    length = response.length
    if length is not None and length > max_bytes:
        return None
    body = bytearray(length or 0)
    if length is not None:
        view, n_filled = memoryview(body), 0
        while n_filled < length:
            size = response.readinto(view[n_filled:])
            if not size:
                raise _TruncatedError
            n_filled += size
        view.release()
        response.read()  # returns b"", and makes the connection reusable
        return body
    while chunk := response.read(_BODY_CHUNK_BYTES):
        body += chunk
        if len(body) > max_bytes:
            return None
    return body


def _status_error(status: int, headers: HTTPMessage) -> RequestError:
    """Return the error for an unexpected status."""
    if status in (404, 410):
        return RequestError("there is no such file on the server", "missing")
    if status in (401, 403, 407):
        return RequestError("the server denies access", "forbidden")
    if status == 412:
        return RequestError("the file was changed", "changed")
    try:
        phrase = f" {HTTPStatus(status).phrase}"
    except ValueError:
        phrase = ""
    wait = _seconds_to_wait(headers.get("Retry-After", ""))
    return RequestError(f"the server answered {status}{phrase}", is_transient=status in _RETRIED_STATUSES, wait=wait)


def _seconds_to_wait(text: str) -> float:
    """Return the wait that a Retry-After header requests (RFC 9110, section 10.2.3), in seconds; 0 if it is invalid."""
    if re.fullmatch(r"[0-9]{1,9}", text.strip()):
        return float(text)
    date = time_of(text)
    if date is None:
        return 0
    from datetime import UTC, datetime

    return max((date - datetime.now(UTC)).total_seconds(), 0)


def _connection_error(error: OSError) -> RequestError:
    """Return the error for a failure of a connection or of TLS."""
    import ssl

    if isinstance(error, ssl.SSLCertVerificationError):
        return RequestError(
            "the server's certificate is not valid, or its issuer is unknown; add issuers with root_certificate of "
            "client_options, or SSL_CERT_FILE"
        )
    if isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError):
        return RequestError("the server violates the TLS protocol")
    return RequestError("the connection failed", is_transient=True)


def _is_excluded(host: str, excludes: str) -> bool:
    """Return whether a host is in a comma-separated list of names, domains, IP addresses and networks."""
    for word in filter(None, map(str.strip, excludes.lower().split(","))):
        with suppress(ValueError):
            if ip_address(host) in ip_network(word, strict=False):
                return True
        if word == "*" or f".{host}".endswith(f".{word.removeprefix('.')}"):
            return True
    return False


def _header_text(value: object) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


def _seconds(value: object) -> float:
    """Return a duration in seconds. Raises ValueError for a text that is not a positive duration.

    value: as for obstore, a timedelta, a number of seconds, or a text such as "1m 30s".
    """
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, int | float):
        return float(value)
    total = 0.0
    part = r"(\d+(?:\.\d+)?)\s*([a-z]+)\s*"
    if not re.fullmatch(rf"\s*(?:{part})+", str(value)):
        raise ValueError("not a duration")
    for number, unit in re.findall(part, str(value)):
        total += float(number) * _SECONDS_BY_UNIT[unit if unit in _SECONDS_BY_UNIT else _unit_of(unit)]
    if not total:
        raise ValueError("not a duration")
    return total


def _unit_of(word: str) -> str:
    """Return the key in _SECONDS_BY_UNIT for a long name of a unit. Raises ValueError for an unknown name."""
    names = {"nsec": "ns", "usec": "us", "msec": "ms", "sec": "s", "min": "m", "hr": "h", "hour": "h", "day": "d"}
    names |= {"second": "s", "minute": "m"}
    if word.removesuffix("s") not in names:
        raise ValueError("not a duration")
    return names[word.removesuffix("s")]


def _ipv4_of(host: str) -> str:
    """Return the IPv4 address of a host that is one in any notation, such as 0x7f.1; "" for any other host."""
    try:
        return socket.inet_ntoa(socket.inet_aton(host))
    except (OSError, ValueError):
        return ""
