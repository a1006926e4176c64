"""The server changes the model only with --edit and only for its own page; it rejects malformed and large requests."""

from __future__ import annotations

import contextlib
import http.client
import io
import json
import socket
import threading
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pytest
from view_process import send_raw_request

import onnxwire
from onnxwire.viewer.edits import Edits
from onnxwire.viewer.queries import Queries
from onnxwire.viewer.server import KEY_HEADER, REVISION_HEADER, Server

DIGITS = Path(__file__).parents[2] / "examples" / "digits_cnn.onnx"
JSON_HEADERS = {"Content-Type": "application/json"}
FILE_HEADERS = {"Content-Type": "application/octet-stream"}


@contextlib.contextmanager
def serving(server):
    """Run a server in a thread."""
    with server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
            if server.edits is not None:
                server.edits.uploads.close()


@pytest.fixture
def server(tmp_path):
    """Run a server of a model that can be edited."""
    path = tmp_path / "m.onnx"
    path.write_bytes(DIGITS.read_bytes())
    model = onnxwire.load(path)
    with serving(Server(Queries(model), 0, Edits(model, str(path)))) as server:
        yield server


def request(server, path, headers=None, method="GET", body=None):
    """Send a request; return the status, the headers and the body of the answer."""
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=100)
    try:
        connection.request(method, path, headers=headers or {}, body=body)
        response = connection.getresponse()
        text = response.read()
        return response.status, response.headers, json.loads(text) if text[:1] == b"{" else text
    finally:
        connection.close()


@pytest.fixture
def key(server):
    return key_of(server)


def key_of(server):
    """Return the key of a server, in exchange for its token."""
    return request(server, "/api/session", {KEY_HEADER: server.token})[2]["key"]


def post(server, key, action, values, **headers):
    """Send an action with values as JSON, or with bytes; return the status and the answer."""
    body = values if isinstance(values, bytes) else json.dumps(values).encode()
    status, _, answer = request(server, f"/api/{action}", {KEY_HEADER: key} | JSON_HEADERS | headers, "POST", body)
    return status, answer


def set_request(value="me", revision=0):
    """Return the values of an action `change` that sets producer_name."""
    return {"revision": revision, "kind": "set", "arguments": {"path": "producer_name", "value": value}}


def is_untouched(server):
    """Return whether the model is unedited."""
    return server.edits.revision == 0 and server.edits.message.producer_name == "pytorch"


def test_answers_after_a_change_describe_the_changed_model(server, key):
    status, state = post(server, key, "change", set_request())
    assert (status, state["revision"], state["done"], state["is_saved"]) == (200, 1, 1, False)
    status, headers, summary = request(server, "/api/summary", {KEY_HEADER: key})
    assert (summary["producer_name"], headers[REVISION_HEADER]) == ("me", "1")
    assert post(server, key, "undo", {"revision": 1})[1]["done"] == 0
    assert request(server, "/api/summary", {KEY_HEADER: key})[2]["producer_name"] == "pytorch"
    assert post(server, key, "redo", {"revision": 2})[1]["done"] == 1
    status, save_result = post(server, key, "save", {"revision": 3, "path": "out.onnx", "replace": False, "words": ""})
    assert (status, save_result["is_saved"]) == (200, True)
    assert onnxwire.load(save_result["path"]).producer_name == "me"
    assert request(server, "/api/problems", {KEY_HEADER: key})[2]["total"] == 0
    assert request(server, "/api/differences", {KEY_HEADER: key})[2]["rows"][0]["new"] == "me"


def test_without_edit_nothing_can_be_changed():
    with serving(Server(Queries(onnxwire.load(DIGITS)))) as server:
        key = key_of(server)
        for action in ("change", "undo", "redo", "save", "extract", "upload"):
            assert post(server, key, action, set_request())[0] == 405
        assert request(server, "/api/edits", {KEY_HEADER: key})[2] == {"is_editable": False}
        for query in ("problems", "differences"):
            assert request(server, f"/api/{query}", {KEY_HEADER: key})[0] == 404


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({KEY_HEADER: ""}, 403),
        ({KEY_HEADER: "x"}, 403),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://127.0.0.1:1"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Host": "evil.example"}, 403),
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Type": "application/x-www-form-urlencoded"}, 415),
        ({"Content-Type": "multipart/form-data; boundary=x"}, 415),
    ],
)
def test_a_change_with_unexpected_headers_is_rejected(server, key, headers, status):
    assert post(server, key, "change", set_request(), **headers)[0] == status
    assert is_untouched(server)


def test_the_token_is_not_a_key(server):
    assert post(server, server.token, "change", set_request())[0] == 403
    assert is_untouched(server)


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "HEAD", "TRACE"])
def test_other_methods_are_rejected(server, key, method):
    status, headers, _ = request(
        server, "/api/change", {KEY_HEADER: key} | JSON_HEADERS, method, json.dumps(set_request()).encode()
    )
    assert status == 405
    assert "Access-Control-Allow-Origin" not in headers
    assert is_untouched(server)


def test_a_get_request_changes_nothing(server, key):
    assert request(server, f"/api/change?{quote(json.dumps(set_request()))}", {KEY_HEADER: key})[0] == 404
    assert request(server, "/api/undo?revision=0", {KEY_HEADER: key})[0] == 404
    assert is_untouched(server)


@pytest.mark.parametrize(
    "body",
    [
        b"", b"{", b"[]", b"null", b"{}", b"\xff", b"[" * 100_000,
        {"revision": 0, "kind": "set"},
        set_request() | {"more": 1},
        set_request() | {"revision": True},
        set_request() | {"revision": "0"},
        set_request() | {"revision": 0.0},
        set_request() | {"kind": "__init__"},
        set_request()
        | {"kind": "replace_tensor", "arguments": {"path": "graph.initializer[0]", "upload": "x", "name": ""}},
        set_request() | {"arguments": []},
        set_request() | {"arguments": {"path": "producer_name"}},
        set_request() | {"arguments": {"path": None, "value": "x"}},
        set_request("\ud800"),
    ],
)  # fmt: skip
def test_a_malformed_or_unknown_change_is_rejected(server, key, body):
    status, answer = post(server, key, "change", body)
    assert (status, list(answer)) == (400, ["error"])
    assert is_untouched(server)


def test_request_bodies_are_bounded(server, key):
    # Only the head is sent, so the server must refuse the request without reading its body.
    for action, content_type, length, status in (
        ("change", "application/json", str(1 << 40), 413),
        ("change", "application/json", str((1 << 22) + 1), 413),
        ("upload?name=x.npy", "application/octet-stream", str(1 << 48), 400),
        ("change", "application/json", "-1", 411),
        ("change", "application/json", "1e3", 411),
        ("change", "application/json", "9" * 400, 411),
        ("change", "application/json\r\nTransfer-Encoding: chunked", "0", 411),
    ):
        head = f"POST /api/{action} HTTP/1.1\r\nHost: localhost\r\n{KEY_HEADER}: {key}\r\n"
        answer = send_raw_request(
            server.server_port, f"{head}Content-Type: {content_type}\r\nContent-Length: {length}\r\n\r\n"
        )
        assert answer.startswith(f"HTTP/1.1 {status} ".encode()), (length, answer[:100])
        assert answer.count(b"HTTP/1.1") == 1
    assert is_untouched(server)


def test_an_incomplete_change_is_not_made(server, key):
    body = json.dumps(set_request()).encode()
    head = f"POST /api/change HTTP/1.1\r\nHost: localhost\r\n{KEY_HEADER}: {key}\r\nContent-Type: application/json\r\n"
    with socket.create_connection(("127.0.0.1", server.server_port), timeout=100) as connection:
        connection.sendall(f"{head}Content-Length: {len(body) + 5}\r\n\r\n".encode() + body)
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(4096):
            pass
    # The bytes received are valid JSON, but the announced length shows that they are incomplete.
    assert is_untouched(server)


@pytest.mark.parametrize("action", ["change", "upload?name=x.npy"])
def test_a_connection_closes_when_the_browser_asks(server, key, action):
    headers, body = (
        (FILE_HEADERS, npy_bytes()) if action != "change" else (JSON_HEADERS, json.dumps(set_request()).encode())
    )
    for connection_header, expected_connection in (({}, None), ({"Connection": "close"}, "close")):
        status, response_headers, _ = request(
            server, f"/api/{action}", {KEY_HEADER: key} | headers | connection_header, "POST", body
        )
        # Of two changes, the second is rejected, since it names an earlier revision.
        assert (status in (200, 409), response_headers["Connection"]) == (True, expected_connection)


def npy_bytes():
    """Return the contents of an .npy file."""
    file = io.BytesIO()
    np.save(file, np.zeros(3, np.float32))
    return file.getvalue()


def test_two_tabs_do_not_overwrite_the_changes_of_each_other(server, key):
    assert post(server, key, "change", set_request("one"))[0] == 200
    status, answer = post(server, key, "change", set_request("two"))
    assert status == 409
    assert "another tab" in answer["error"]
    assert server.edits.message.producer_name == "one"


def test_an_uploaded_array_is_used_and_other_files_are_rejected(server, key):
    buffer = io.BytesIO()
    array = np.arange(4.0)
    np.save(buffer, array)
    headers = {KEY_HEADER: key} | FILE_HEADERS
    status, _, upload = request(server, "/api/upload?name=w.npy", headers, "POST", buffer.getvalue())
    assert (status, upload["form"], upload["name"]) == (200, "npy", "w.npy")
    change = {"path": "graph.initializer[0]", "upload": upload["id"], "name": ""}
    assert post(server, key, "change", {"revision": 0, "kind": "replace_tensor", "arguments": change})[0] == 200
    np.testing.assert_array_equal(server.edits.message.graph.initializer[0].numpy(), array)
    for name, body in (("w.npy", b"no"), ("w.txt", b""), ("w.safetensors", b"")):
        status, _, answer = request(server, f"/api/upload?name={name}", headers, "POST", body)
        assert (status, name in answer["error"]) == (400, True)
        assert "onnxwire-" not in answer["error"]
    assert request(server, "/api/upload", headers, "POST", b"")[0] == 400


def test_internal_errors_reveal_no_details(server, key, monkeypatch):
    def fail(*_, **__):
        raise RuntimeError("/secret/file.py")

    monkeypatch.setattr(server.edits, "undo", fail)
    assert post(server, key, "undo", {"revision": 0}) == (500, {"error": "an internal error prevented the answer"})


def test_the_error_of_a_rejected_change_names_the_remedy(server, key):
    for arguments, words in (
        ({"path": "graph.node[99].name", "value": "x"}, "[0] to [16]"),
        ({"path": "graph.node[2].attribute[0]", "value": "x"}, "whole number"),
        ({"path": "graph.node[2].nam", "value": "x"}, "did you mean 'name'"),
    ):
        status, answer = post(server, key, "change", {"revision": 0, "kind": "set", "arguments": arguments})
        assert status in (400, 404)
        assert words in answer["error"]
    status, answer = post(server, key, "save", {"revision": 0, "path": "m.onnx", "replace": True, "words": ""})
    assert (status, "replace m.onnx" in answer["error"]) == (400, True)
