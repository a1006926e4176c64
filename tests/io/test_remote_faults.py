"""Faults of servers: a read or save raises an error of onnxwire or is correct, and errors contain no credential."""

from __future__ import annotations

import contextlib
import re
import socket
import threading
import tracemalloc
from datetime import timedelta

import pytest
from object_server import ObjectServer, Pieces
from served_models import model

import onnxwire as ow

MIB = 1 << 20
OPTIONS = {
    "retry_config": {
        "max_retries": 2,
        "retry_timeout": timedelta(seconds=2),
        "backoff": {"init_backoff": timedelta(milliseconds=1), "max_backoff": timedelta(milliseconds=2), "base": 2},
    },
    "client_options": {"timeout": "300ms"},
}
# Faults of ObjectServer; see `_Handler.answer`.
TRANSIENT_FAULTS = ["refused", "cut", "500", "503", "429", "timeout"]
PERMANENT_FAULTS = ["changed", "wrong range", "other size", "longer", "shorter", "html", "401", "403", "404"]


@pytest.fixture(scope="module")
def pieces() -> Pieces:
    return model([100_000, 9 * MIB, 70_000, 200_000, 300_000, 100_000])


def read_model(url: str, pieces: Pieces) -> None:
    """Read the structure and two tensors of a model, and compare them with the expected contents."""
    with ow.load(f"{url}/m.onnx", storage_options=OPTIONS) as message:
        infos = ow.tensors(message)
        assert [info.name for info in infos] == [f"layers.0.weight{i}" for i in range(6)]
        for i in (1, 2):
            data = message.graph.initializer[i].numpy().tobytes()
            assert data == pieces.read(infos[i].offset, infos[i].offset + infos[i].nbytes)
        assert len(message.graph.node) == 30


def count_requests(pieces: Pieces) -> int:
    with ObjectServer({"m.onnx": pieces}) as server:
        read_model(server.url, pieces)
        return len(server.state.requests)


@pytest.mark.normal_build
@pytest.mark.filterwarnings("ignore:.*complete file was downloaded")
@pytest.mark.parametrize("fault", TRANSIENT_FAULTS + PERMANENT_FAULTS)
def test_a_fault_at_each_request_is_an_error_or_is_retried(fault, pieces) -> None:
    errors = 0
    n_requests = count_requests(pieces)
    for index in range(n_requests):
        with ObjectServer({"m.onnx": pieces}, stall=0.4) as server:
            server.state.faults[index] = fault
            try:
                read_model(server.url, pieces)
            except (ow.SourceError, ow.DecodeError) as error:
                errors += 1
                assert "m.onnx" in str(error)
                assert error.__cause__ is None
    # Transient faults are retried; other faults are reported. If the first response is an HTML page, the complete file
    # is requested instead.
    assert errors == (0 if fault in TRANSIENT_FAULTS else n_requests - (fault == "html"))


@pytest.mark.parametrize("fault", TRANSIENT_FAULTS + PERMANENT_FAULTS)
def test_a_fault_of_every_request_is_an_error_with_its_reason(fault, pieces) -> None:
    with (
        ObjectServer({"m.onnx": pieces}, stall=0.4) as server,
        pytest.raises(ow.SourceError) as error_info,
        ow.load(f"{server.url}/m.onnx", storage_options=OPTIONS) as message,
    ):
        list(message.graph.initializer)
        server.state.default_fault = fault
        server.state.etag = '"two"' if fault == "changed" else server.state.etag
        message.graph.initializer[1].numpy()
    text = str(error_info.value)
    assert text.startswith(f"{server.url}/m.onnx: ")
    assert error_info.value.filename == f"{server.url}/m.onnx"
    assert re.search(r": bytes [\d,]+ to [\d,]+: |changed", text)
    reasons = {
        "refused": "connection failed, 3 times",
        "cut": "truncated",
        "500": "answered 500",
        "503": "answered 503",
        "429": "answered 429",
        "timeout": "too long to answer, 3 times",
        "changed": "was changed",
        "wrong range": "another range",
        "other size": "was changed",
        "longer": "instead of",
        "shorter": "instead of",
        "html": "did not answer with the requested range",
        "401": "credentials",
        "403": "credentials",
        "404": "no such file",
    }
    assert reasons[fault] in text


def test_reading_a_file_that_changed_is_an_error(pieces) -> None:
    with ObjectServer({"m.onnx": pieces}) as server, ow.load(f"{server.url}/m.onnx") as message:
        ow.tensors(message)
        server.state.etag = '"two"'
        with pytest.raises(ow.SourceError, match="changed since it was opened; load it again"):
            message.graph.initializer[1].numpy()
        # Data that was fetched before the change stays readable.
        assert message.graph.initializer[1].name == "layers.0.weight1"


def test_without_an_etag_the_time_of_the_last_change_identifies_the_version(pieces) -> None:
    with ObjectServer({"m.onnx": pieces}) as server:
        server.state.etag = None
        read_model(server.url, pieces)
        with ow.load(f"{server.url}/m.onnx") as message:
            ow.tensors(message)
            server.state.modified = "Tue, 03 Jun 2025 10:00:00 GMT"
            with pytest.raises(ow.SourceError, match="changed"):
                message.graph.initializer[1].numpy()


def test_no_credential_is_shown(pieces) -> None:
    secret = "hunter2-very-secret"
    with ObjectServer({"d/m.onnx": pieces}) as server:
        host = server.url.removeprefix("http://")
        address = f"http://user:{secret}@{host}/d/m.onnx?X-Signature={secret}"
        options = {
            "client_options": {"default_headers": {"X-Token": secret}},
            **{"retry_config": OPTIONS["retry_config"]},
        }
        texts = []
        with ow.load(address, storage_options=options) as message:
            request = server.state.requests[-1]
            assert secret in request.path and request.headers["x-token"] == secret
            texts += [repr(message), message._document.name, repr(ow.tensors(message)[0])]
            for fault in ("500", "404", "403", "refused", "html"):
                server.state.default_fault = fault
                for call in (
                    lambda: message.graph.initializer[1].numpy(),
                    lambda: ow.load(address, storage_options=options),
                ):
                    with pytest.raises(ow.Error) as error_info:
                        call()
                    texts += [str(error_info.value), repr(error_info.value), repr(error_info.value.args)]
                    assert isinstance(error_info.value.__cause__, ow.Error | None)
                    assert error_info.value.__suppress_context__
        with pytest.raises(ow.SourceError) as error_info:
            ow.load(address, storage_options={"no_such_option": secret})
        texts.append(repr(error_info.value))
        with pytest.raises(ow.SourceError) as error_info:
            ow.load(f"http://user:{secret}@{host}/?sig={secret}")
        texts.append(repr(error_info.value))
    assert not [text for text in texts if secret in text or "user:" in text]


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("ftp://host/m.onnx", "store="),
        ("hdfs://org/model/m.onnx", "store="),
        ("http://host/", "names no file"),
        ("s3://bucket", "names no file"),
    ],
)
def test_the_error_of_an_invalid_address_contains_the_reason(address, words) -> None:
    with pytest.raises(ow.SourceError, match=words):
        ow.load(address)


def test_without_obstore_the_error_of_an_address_names_the_extra_to_install(monkeypatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "obstore.store", None)
    with pytest.raises(ow.SourceError, match=r"pip install 'onnxwire\[remote\]'"):
        ow.load("s3://bucket/m.onnx")


def test_storage_options_of_a_path_are_refused(tmp_path) -> None:
    with pytest.raises(TypeError, match="applies to addresses"):
        ow.load(tmp_path / "m.onnx", storage_options={})


# Each response is its first bytes, and the bytes that the server then repeats until the connection is closed. The
# bytes b"\x08\x09" are a model with ir_version 9.
MALFORMED_RESPONSES = {
    "endless 100 Continue": (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "endless headers": (b"HTTP/1.1 206 Partial Content\r\n", b"X-A: a\r\n"),
    "an endless line": (b"HTTP/1.1 206 ", b"a" * 1000),
    "an endless body without a length": (b"HTTP/1.1 200 OK\r\n\r\n", b"a" * 100_000),
    "an endless part without a length": (b"HTTP/1.1 206 OK\r\nContent-Range: bytes 0-9/10\r\n\r\n", b"a" * 100_000),
    "endless chunks": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"5\r\naaaaa\r\n"),
    "a chunk of a negative size": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\n", b""),
    "a chunk larger than memory": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffff\r\n", b""),
    "a part larger than memory": (
        b"HTTP/1.1 206 P\r\nContent-Range: bytes 0-9/9999999999999999\r\nContent-Length: 10\r\n\r\n", b"",
    ),
    "a length larger than memory": (
        b"HTTP/1.1 206 P\r\nContent-Range: bytes 0-9/10\r\nContent-Length: 999999999999\r\n\r\n", b"",
    ),
    "a length below zero": (b"HTTP/1.1 206 P\r\nContent-Range: bytes 0-9/10\r\nContent-Length: -1\r\n\r\n", b""),
    "a size of 5,000 digits": (b"HTTP/1.1 206 P\r\nContent-Range: bytes 0-9/" + b"9" * 5000 + b"\r\n\r\n", b""),
    "a part of negative length": (b"HTTP/1.1 206 P\r\nContent-Range: bytes 9-0/10\r\nContent-Length: 0\r\n\r\n", b""),
    "HTTP/0.9": (b"\x08\x09", b""),
    "an invalid status": (b"HTTP/1.1 99999999999 A\r\n\r\n", b""),
    "another protocol": (b"SSH-2.0-OpenSSH_9.0\r\n", b""),
    "nothing": (b"", b""),
    "a redirect with an endless body": (b"HTTP/1.1 302 Found\r\nLocation: /m.onnx?x\r\n\r\n", b"a" * 100_000),
    "a switch of protocols": (b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\n\r\n", b""),
    "a date that does not exist": (
        b"HTTP/1.1 206 P\r\nContent-Range: bytes 0-1/2\r\nContent-Length: 2\r\n"
        b"Last-Modified: Mon, 99 Foo 99999 99:99:99 GMT\r\nDate: -\r\n\r\n\x08\x09",
        b"",
    ),
}  # fmt: skip


# Like MALFORMED_RESPONSES, but the server waits before each repetition.
SLOW_RESPONSES = {
    "100 Continue": (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "headers": (b"HTTP/1.1 200 OK\r\n", b"X-A: a\r\n"),
    "chunks": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\na\r\n"),
    "digits of the size of a chunk": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"0"),
    "a body without a length": (b"HTTP/1.1 200 OK\r\n\r\n", b"a"),
}


@pytest.mark.parametrize("name", SLOW_RESPONSES)
def test_a_slow_endless_answer_to_a_save_is_an_error(name) -> None:
    """The server sends pieces, each within the timeout, until the client closes the connection."""
    first_bytes, repeated_bytes = SLOW_RESPONSES[name]
    options = {"retry_config": {"max_retries": 0}, "client_options": {"timeout": "400ms"}}
    stop = threading.Event()
    n_sent = 0
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            nonlocal n_sent
            with contextlib.suppress(OSError):
                client, _ = server.accept()
                with client:
                    client.recv(1 << 20)
                    client.sendall(first_bytes)
                    # The server stops after some time, so that the test fails for a client that waits for ever.
                    while n_sent < 100 and not stop.wait(0.05):
                        client.sendall(repeated_bytes)
                        n_sent += 1

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}/m.onnx"
        try:
            with pytest.raises(ow.SaveError, match="took too long to answer"):
                ow.save(ow.ModelProto(ir_version=9), url, storage_options=options)
        finally:
            stop.set()
            thread.join()
    assert 0 < n_sent < 100


@pytest.mark.parametrize("name", MALFORMED_RESPONSES)
def test_malformed_http_is_rejected_or_ignored_within_bounded_time_and_memory(name) -> None:
    """Some of the malformed answers continue until the client closes the connection."""
    first_bytes, repeated_bytes = MALFORMED_RESPONSES[name]
    options = {"retry_config": {"max_retries": 0}, "client_options": {"timeout": "700ms"}}
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    client, _ = server.accept()
                    with client, contextlib.suppress(OSError):
                        client.recv(10_000)
                        client.sendall(first_bytes)
                        while repeated_bytes:
                            client.sendall(repeated_bytes)

        threading.Thread(target=serve, daemon=True).start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}/m.onnx"
        tracemalloc.start()
        try:
            if name == "a date that does not exist":  # such a date is ignored
                assert ow.load(url, storage_options=options).ir_version == 9
            else:
                with pytest.raises(ow.Error) as error_info:
                    ow.load(url, storage_options=options)
                assert "\n" not in str(error_info.value)
            assert tracemalloc.get_traced_memory()[1] < 600 * MIB
        finally:
            tracemalloc.stop()
            server.shutdown(socket.SHUT_RDWR)


def test_once_a_file_has_failed_other_files_are_requested_without_retries(pieces) -> None:
    options = {**OPTIONS, "retry_config": {**OPTIONS["retry_config"], "retry_timeout": timedelta(seconds=60)}}

    def load_and_close(name: str) -> None:
        ow.load(f"{server.url}/{name}", storage_options=options).close()

    with ObjectServer({"m.onnx": pieces}) as server:
        server.state.default_fault = "503"
        for i in range(10):
            with pytest.raises(ow.SourceError, match="503"):
                load_and_close(f"{i}.onnx")
        assert len(server.state.requests) == 3 + 9  # three tries for the first file, one for each of the other nine
        server.state.default_fault = None
        load_and_close("m.onnx")
        # After the first successful answer, requests are retried again.
        server.state.reset()
        server.state.faults = {0: "503", 1: "503"}
        load_and_close("m.onnx")
