"""The server of the page answers queries of its own page only, and limits answers, connections and waiting times."""

from __future__ import annotations

import contextlib
import http.client
import json
import queue
import re
import socket
import threading
from pathlib import Path
from urllib.parse import quote

import pytest
from view_process import send_raw_request

import onnxwire
from onnxwire.viewer.queries import Queries
from onnxwire.viewer.server import KEY_HEADER, MAX_CONNECTIONS, Server

DIGITS = Path(__file__).parents[2] / "examples" / "digits_cnn.onnx"


@pytest.fixture
def server():
    """Run a server of the digits model in a thread."""
    with Server(Queries(onnxwire.load(DIGITS))) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def get(server, path, headers=None, method="GET"):
    """Send a request; return the status, the headers and the body of the answer."""
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=100)
    try:
        connection.request(method, path, headers=headers or {})
        response = connection.getresponse()
        return response.status, response.headers, response.read()
    finally:
        connection.close()


def token_of(server):
    return server.address.partition("#token=")[2]


@pytest.fixture
def key(server):
    status, _, body = get(server, "/api/session", {KEY_HEADER: token_of(server)})
    assert status == 200
    return json.loads(body)["key"]


def ask(server, key, query):
    """Send a query; return the status and the answer, decoded from JSON."""
    status, _, body = get(server, f"/api/{query}", {KEY_HEADER: key})
    return status, json.loads(body)


def test_the_server_listens_only_on_the_loopback_interface(server):
    assert server.socket.getsockname()[0] == "127.0.0.1"
    assert server.address.startswith(f"http://127.0.0.1:{server.server_port}/#token=")


def test_two_servers_have_different_ports_and_tokens(server):
    with Server(server.queries) as other_server:
        assert other_server.server_port != server.server_port
        assert token_of(other_server) != token_of(server)


def test_pages_contain_nothing_of_the_model(server):
    for path in ("/", "/page.js", "/page.css", "/icon.svg"):
        status, headers, body = get(server, path)
        assert (status, b"digits" in body) == (200, False)
        assert "default-src 'none'" in headers["Content-Security-Policy"]
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Cache-Control"] == "no-store"


def test_pages_contain_no_link_to_other_hosts():
    folder = Path(onnxwire.__file__).parent / "viewer" / "pages"
    for page in folder.iterdir():
        # The name of the SVG namespace is an address, but no browser opens it.
        assert set(re.findall(r"\w+://[^\s\"'`]+", page.read_text())) <= {"http://www.w3.org/2000/svg"}, page.name


def test_the_token_works_once(server):
    token = token_of(server)
    assert get(server, "/api/session", {KEY_HEADER: token})[0] == 200
    status, _, body = get(server, "/api/session", {KEY_HEADER: token})
    assert status == 403
    assert "start `onnxwire view` again" in json.loads(body)["error"]


@pytest.mark.parametrize("token", ["", "None", "x" * 32, "é"])
def test_another_token_returns_no_key(server, token):
    assert get(server, "/api/session", {KEY_HEADER: token.encode("utf-8")})[0] == 403
    assert get(server, "/api/session", {KEY_HEADER: token_of(server)})[0] == 200


def test_queries_need_the_key(server, key):
    for headers in ({}, {KEY_HEADER: "x"}, {KEY_HEADER: token_of(server)}, {"Cookie": f"key={key}"}):
        assert get(server, "/api/summary", headers)[0] == 403
    assert ask(server, key, "summary")[1]["nodes"]["count"] == 17


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example:80", "", "0.0.0.0:80"])
def test_a_foreign_host_name_is_rejected(server, key, host):
    assert get(server, "/api/summary", {KEY_HEADER: key, "Host": host})[0] == 403
    assert get(server, "/", {"Host": host})[0] == 403


def test_both_names_of_the_loopback_interface_are_accepted(server, key):
    for host in ("localhost", f"localhost:{server.server_port}", "127.0.0.1:9"):
        assert get(server, "/api/summary", {KEY_HEADER: key, "Host": host})[0] == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH", "TRACE", "NONE"])
def test_only_get_is_answered(server, key, method):
    assert get(server, "/api/summary", {KEY_HEADER: key}, method)[0] == 405


@pytest.mark.parametrize(
    "path",
    [
        "/../queries.py", "/pages/", "/page.js/..", "/..%2fqueries.py", "//etc/passwd", "/%2e%2e/server.py",
        "/api/", "/x", "/api/_resolve_scope", "/api/model",
    ],
)  # fmt: skip
def test_other_addresses_are_not_found(server, key, path):
    assert get(server, path, {KEY_HEADER: key})[0] == 404


def test_queries_are_answered(server, key):
    assert ask(server, key, "nodes?search=conv&count=1")[1]["rows"][0]["op_type"] == "Conv"
    node = quote("graph.node[2]")
    assert ask(server, key, f"around?path={node}&hops=1")[1]["focus"] == 0
    weight = quote("graph.initializer[0]")
    assert sum(ask(server, key, f"histogram?path={weight}&bins=8")[1]["counts"]) == 16 * 9
    assert ask(server, key, f"heat_map?path={weight}&axes=0,3&at=0,0,1,0&size=4,4&window=0,0,8,3")[1]["width"] == 3
    assert ask(server, key, f"raw?path={weight}&payload=1&start=4&count=4")[1]["start"] == 4


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("node?path=graph.node[99]", 404),
        ("node", 400),
        ("route", 400),
        ("route?start=graph.node[0]", 400),
        ("locate", 400),
        ("nodes?start=x", 400),
        ("nodes?start=99999999999999999999", 400),
        ("heat_map?path=graph.initializer[0]&axes=1", 400),
        ("heat_map?path=graph.initializer[0]&axes=7,9", 400),
        ("histogram?path=graph", 404),
    ],
)
def test_the_answer_to_an_invalid_query_is_an_error(server, key, query, status):
    response_status, answer = ask(server, key, query)
    assert (response_status, list(answer)) == (status, ["error"])


@pytest.mark.parametrize(
    "query",
    [
        "nodes?count=1000000000&start=-5",
        "raw?path=&count=999999999",
        "heat_map?path=graph.initializer[0]&size=9999999,-4",
    ],
)
def test_the_length_of_an_answer_is_bounded(server, key, query):
    status, answer = ask(server, key, query)
    assert status == 200
    assert len(json.dumps(answer)) < 200_000


def test_the_body_of_a_rejected_query_is_not_another_request(server, key):
    hidden_request = f"GET /api/summary HTTP/1.1\r\nHost: localhost\r\n{KEY_HEADER}: {key}\r\n\r\n"
    for head, body in (
        (f"Content-Length: {len(hidden_request)}", hidden_request),
        ("Transfer-Encoding: chunked", "0\r\n\r\n" + hidden_request),
    ):
        answer = send_raw_request(server.server_port, f"GET / HTTP/1.1\r\nHost: localhost\r\n{head}\r\n\r\n{body}")
        assert answer.count(b"HTTP/1.1 ") == 1
        assert answer.startswith(b"HTTP/1.1 400 ")
        assert b"digits" not in answer


def test_a_request_with_two_lengths_is_rejected(server, key):
    hidden_request = f"GET /api/summary HTTP/1.1\r\nHost: localhost\r\n{KEY_HEADER}: {key}\r\n\r\n"
    for lengths in ((0, len(hidden_request)), (len(hidden_request), 0)):
        head = "".join(f"Content-Length: {length}\r\n" for length in lengths)
        answer = send_raw_request(
            server.server_port, f"GET / HTTP/1.1\r\nHost: localhost\r\n{head}\r\n{hidden_request}"
        )
        assert answer.count(b"HTTP/1.1 ") == 1
        assert answer.startswith(b"HTTP/1.1 400 ")


def test_an_answer_does_not_wait_for_the_browser_to_confirm_its_head(server, monkeypatch):
    # With TCP_NODELAY, the system sends the body without waiting until the receiver confirms the head.
    no_delay_options = queue.Queue()
    finish = server.finish_request

    def watch(connection, address):
        finish(connection, address)
        no_delay_options.put(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))

    monkeypatch.setattr(server, "finish_request", watch)
    assert get(server, "/")[0] == 200
    assert no_delay_options.get(timeout=100)


def test_a_missing_argument_is_named(server, key):
    for query in ("node", "raw", "records", "heat_map"):
        status, answer = ask(server, key, query)
        assert (status, answer) == (400, {"error": "the argument path is missing"})


def test_internal_errors_reveal_no_details(server, key, monkeypatch):
    def fail(**_):
        raise ValueError("/secret/inside.py")

    monkeypatch.setattr(server.queries, "summary", fail, raising=False)
    status, answer = ask(server, key, "summary")
    assert (status, answer) == (500, {"error": "an internal error prevented the answer"})


def test_malformed_http_ends_only_its_connection(server, key):
    for data in (
        b"\0\1\2\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET http://[ HTTP/1.1\r\nHost: localhost\r\n\r\n",
    ):
        with socket.create_connection(("127.0.0.1", server.server_port), timeout=100) as connection:
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(4096):
                pass
    assert ask(server, key, "summary")[0] == 200


def test_a_truncated_file_is_not_read(tmp_path):
    path = tmp_path / "m.onnx"
    path.write_bytes(DIGITS.read_bytes())
    with Server(Queries(onnxwire.load(path))) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            key = json.loads(get(server, "/api/session", {KEY_HEADER: token_of(server)})[2])["key"]
            with open(path, "r+b") as file:
                file.truncate(100)
            status, answer = ask(server, key, "histogram?path=graph.initializer[0]")
        finally:
            server.shutdown()
            thread.join()
    assert status == 400
    assert "start `onnxwire view` again" in answer["error"]


def connect(server):
    return socket.create_connection(("127.0.0.1", server.server_port), timeout=30)


def wait_for_close(connection):
    """Wait until the server has closed a connection, and return True. Raises TimeoutError after 30 seconds."""
    with contextlib.suppress(ConnectionResetError):
        while connection.recv(4096):
            pass
    return True


def test_a_hundred_connections_can_wait_to_be_accepted():
    # The server accepts no connection here; the system refuses or delays connections beyond the server's backlog.
    with Server(Queries(onnxwire.load(DIGITS))) as server, contextlib.ExitStack() as stack:
        for _ in range(100):
            stack.enter_context(connect(server))


# Incomplete requests: nothing, or a part of the first line, of the head or of the body.
INCOMPLETE_REQUESTS = [
    "",
    "GET / HT",
    "GET / HTTP/1.1\r\nHost: localhost\r\nX-A: b",
    "POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\nab",
]


def test_connections_that_send_half_a_request_do_not_block_others(server, key):
    threads_before = threading.active_count()
    with contextlib.ExitStack() as stack:
        incomplete_connections = []
        for number in range(200):
            connection = stack.enter_context(connect(server))
            connection.sendall(INCOMPLETE_REQUESTS[number % len(INCOMPLETE_REQUESTS)].encode())
            incomplete_connections.append(connection)
        assert get(server, "/")[0] == 200
        assert ask(server, key, "about")[0] == 200
        # The server has closed the oldest connections.
        assert all(map(wait_for_close, incomplete_connections[: 200 - MAX_CONNECTIONS]))
        # Threads of closed connections may need some time to end.
        assert threading.active_count() <= threads_before + MAX_CONNECTIONS + 20


def test_a_request_sent_byte_by_byte_times_out(server, monkeypatch):
    monkeypatch.setattr("onnxwire.viewer.server.HEAD_SECONDS", 0.3)
    with connect(server) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\n")
        with contextlib.suppress(ConnectionResetError, BrokenPipeError):
            while True:
                connection.sendall(b"a")
                connection.settimeout(0.05)
                with contextlib.suppress(TimeoutError):
                    if not connection.recv(4096):
                        break
    assert get(server, "/")[0] == 200


def test_an_answer_may_take_longer_than_a_request(server, key, monkeypatch):
    stack = contextlib.ExitStack()

    def about(self):
        # While the answer is computed, the time limit for request heads passes, and other connections fill the server.
        monkeypatch.setattr("onnxwire.viewer.server.HEAD_SECONDS", 0.01)
        for _ in range(2 * MAX_CONNECTIONS):
            assert wait_for_close(stack.enter_context(connect(server)))
        return {"made": True}

    monkeypatch.setattr(Queries, "about", about)
    with stack:
        assert ask(server, key, "about") == (200, {"made": True})


def test_a_connection_with_the_key_stays_open_between_requests(server, key, monkeypatch):
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=10)
    ports = set()
    for _ in range(3):
        connection.request("GET", "/api/about", headers={KEY_HEADER: key})
        ports.add(connection.sock.getsockname()[1])
        assert connection.getresponse().read()
        monkeypatch.setattr("onnxwire.viewer.server.HEAD_SECONDS", 0.01)
        with connect(server) as other_connection:
            assert wait_for_close(other_connection)
    connection.close()
    assert len(ports) == 1
