"""User names, passwords and queries in addresses are sent correctly and never shown; invalid addresses are errors."""

from __future__ import annotations

import base64
import json
import warnings
from urllib.parse import quote

import forked_commands
import pytest
from object_server import ObjectServer, Pieces
from served_models import model

import onnxwire as ow
from onnxwire.io.remote.address import parse_address, shown_address

SECRET = "Hunter2Secret"
# Passwords before percent-encoding.
PASSWORDS = [
    f"{SECRET}", f"{SECRET}/{SECRET}", f"12/{SECRET}", f"/{SECRET}", f"{SECRET}@{SECRET}", f"{SECRET}:{SECRET}",
    f"{SECRET}%{SECRET}", f"{SECRET}%2F", f"{SECRET}#{SECRET}", f"{SECRET}?{SECRET}", f"12?{SECRET}", f"12#{SECRET}",
    f"p\u00e4ss{SECRET}\u2603", f"{SECRET}\\{SECRET}", f"[{SECRET}", f"{SECRET}]", f"{SECRET} {SECRET}",
    f"{SECRET}\r\nX: 1",
    f"{SECRET}\t", f"{SECRET}\0", f"{SECRET}\uff0f", f"{SECRET}\ud800", f"{SECRET}&a={SECRET}", f"'{SECRET}\"",
    f"{SECRET}/../{SECRET}", f"{SECRET}@a/{SECRET}", f"80/{SECRET}@b:1",
]  # fmt: skip
FAULTS = ["401", "403", "404", "500", "refused", "html", "cut", "other size", "wrong range"]
NO_RETRIES = {"retry_config": {"max_retries": 0}}


def bytes_of(pieces: Pieces) -> bytes:
    return pieces.read(0, pieces.size)


def shown_texts(call) -> list[str]:
    """Return the texts that a call shows: those of its error and the error's causes and contexts, or of the model that
    it returns, and those of its warnings."""
    with warnings.catch_warnings(record=True) as caught_warnings:
        warnings.simplefilter("always")
        try:
            message = call()
        except ow.Error as error:
            texts, pending_exceptions = [], [error]
            while pending_exceptions:
                exception = pending_exceptions.pop()
                texts += [
                    str(exception),
                    repr(exception),
                    repr(exception.args),
                    repr(getattr(exception, "filename", None)),
                ]
                pending_exceptions += [
                    cause
                    for cause in (
                        exception.__cause__,
                        None if exception.__suppress_context__ else exception.__context__,
                    )
                    if cause
                ]
        else:
            texts = [repr(message), str(message._document.name)]
    return texts + [str(warning.message) for warning in caught_warnings]


@pytest.mark.parametrize("password", PASSWORDS)
@pytest.mark.parametrize("is_encoded", [True, False])
def test_a_password_is_never_shown(password, is_encoded) -> None:
    """An unescaped password may change the address or make it invalid; even then, the error contains no part of it."""
    if is_encoded and "\ud800" in password:
        return
    with ObjectServer({"m.onnx": model([100_000])}) as server:
        text = quote(password, safe="") if is_encoded else password
        address = f"http://user:{text}@{server.host}/m.onnx"
        texts = [shown_address(address)]
        for fault in (None, *FAULTS):
            server.state.default_fault = fault
            texts += shown_texts(lambda: ow.load(address, storage_options=NO_RETRIES))
        for call in (lambda: ow.verify(address), lambda: ow.save(ow.ModelProto(ir_version=9), address)):
            server.state.default_fault = "404"
            texts += shown_texts(lambda call=call: (call(), ow.ModelProto())[1])
        assert not [line for line in texts if SECRET in line or quote(password, safe="", errors="replace") in line]
        authorizations = [request.headers.get("authorization") for request in server.state.requests]
        if is_encoded:
            credentials = base64.b64encode(f"user:{password}".encode()).decode()
            assert authorizations and set(authorizations) == {f"Basic {credentials}"}


def test_a_user_is_sent_with_each_request_for_a_model_and_its_external_data(tmp_path) -> None:
    message = ow.ModelProto.FromString(bytes_of(model([5000])))
    ow.save(message, tmp_path / "m.onnx", external="w.data")
    files = {name: (tmp_path / name).read_bytes() for name in ("m.onnx", "w.data")}
    with ObjectServer(files) as server:
        with ow.load(f"http://a%40b:c%2Fd%25@{server.host}/m.onnx") as loaded_model:
            assert loaded_model.graph.initializer[0].numpy().size == 5000
            assert loaded_model.graph.initializer[0].name in repr(ow.tensors(loaded_model)[0])
        assert {request.headers["authorization"] for request in server.state.requests} == {
            f"Basic {base64.b64encode(b'a@b:c/d%').decode()}"
        }
        server.state.reset()
        ow.load(f"{server.url}/m.onnx")
        assert "authorization" not in server.state.requests[0].headers


def test_headers_of_the_caller_override_the_user_of_an_address_but_not_range_and_host() -> None:
    with ObjectServer({"m.onnx": model([100])}) as server:
        options = {
            "client_options": {"default_headers": {"authorization": "Bearer x", "RANGE": "bytes=0-1", "host": "x"}}
        }
        ow.load(f"http://user:password@{server.host}/m.onnx", storage_options=options)
        headers = server.state.requests[0].headers
        assert (headers["authorization"], headers["range"], headers["host"]) == (
            "Bearer x",
            "bytes=0-65535",
            server.host,
        )


@pytest.mark.parametrize("value", [f"{SECRET}\r\nX-Injected: 1", f"{SECRET}\n", f"{SECRET}\0\r\n", f"{SECRET}\u2603"])
def test_a_header_that_can_not_be_sent_is_an_error_that_does_not_show_it(value) -> None:
    with ObjectServer({"m.onnx": model([100])}) as server:
        options = {**NO_RETRIES, "client_options": {"default_headers": {"X-Token": value}}}
        texts = shown_texts(lambda: ow.load(f"{server.url}/m.onnx", storage_options=options))
        assert any("can't be sent" in text for text in texts) and not [text for text in texts if SECRET in text]
        assert not [request for request in server.state.requests if "x-injected" in request.headers]


@pytest.mark.parametrize(
    "address",
    [
        "http://host\r\nX: 1/m.onnx", "http://host/m.onnx\r\nX: 1", "http://host/m\t.onnx", "http://ho st/m.onnx",
        "http://host:port/m.onnx", "http://host:0/m.onnx", "http://host:65536/m.onnx", "http://[::1/m.onnx",
        "http://[v1.x]/m.onnx", "http://[fe80::1%25eth0]/m.onnx", "http://a..b\u3002/m.onnx\ud800", "http://-/m.onnx",
        "http://%61/m.onnx", "http://a\\b/m.onnx", "http://\\/m.onnx", "http://:80/m.onnx", "http:///m.onnx",
        "http://a\uff0fb/m.onnx", "http://\u2100/m.onnx", f"http://{'a' * 300}.example/m.onnx\x85",
    ],
)  # fmt: skip
def test_the_error_of_an_invalid_address_is_one_line(address) -> None:
    with pytest.raises(ow.SourceError) as error_info:
        ow.load(address)
    assert "\n" not in str(error_info.value) and "\r" not in str(error_info.value)
    assert "X: 1" not in str(error_info.value)


def test_an_address_is_percent_encoded_except_existing_escapes() -> None:
    cases = {
        "/a%2Fb/m.onnx?X-Signature=a%2Bb%3D&x=a+b": "/a%2Fb/m.onnx?X-Signature=a%2Bb%3D&x=a+b",
        "/100%/m.onnx": "/100%25/m.onnx",
        "/\u00e4 b/m.onnx?q=\u00e4": "/%C3%A4%20b/m.onnx?q=%C3%A4",
        "/m.onnx#part": "/m.onnx",  # the fragment is not sent
        "/a//m.onnx": "/a//m.onnx",
    }
    for address_path, requested_path in cases.items():
        with ObjectServer({}) as server:
            with pytest.raises(ow.SourceError, match="no such file"):
                ow.load(f"{server.url}{address_path}", storage_options=NO_RETRIES)
            assert [request.path for request in server.state.requests] == [requested_path]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("http://user:secret@host/m.onnx?q=secret#secret", "http://host/m.onnx"),
        ("HTTP://User@HOST:80/M.onnx", "http://HOST:80/M.onnx"),
        (
            "abfss://container@account.dfs.core.windows.net/m.onnx",
            "abfss://container@account.dfs.core.windows.net/m.onnx",
        ),
        ("s3://key:secret@bucket/m.onnx", "s3://bucket/m.onnx"),
        ("https://cdn.example/npm/pkg@1.2/m.onnx", "https://cdn.example/npm/pkg@1.2/m.onnx"),
        ("http://host:8000/a@b/m.onnx", "http://..."),
        ("http://user:a/b@host/m.onnx", "http://..."),
    ],
)
def test_the_shown_form_of_an_address_has_no_credentials(text, shown) -> None:
    assert shown_address(text) == shown
    if "..." in shown:
        with pytest.raises(ow.SourceError, match="%40"):
            parse_address(text)
    else:
        assert parse_address(text).shown == shown
        assert "secret" not in repr(parse_address(text))


COMMANDS = [
    ["info", "-v"], ["info", "--json"], ["info", "--raw"], ["ls"], ["ls", "--json"], ["show", "."], ["stats", "--json"],
    ["check"], ["check", "--json"], ["check", "--sarif"], ["dump"], ["meta"], ["view", "-o", "r.html"],
    ["stats", "--plot", "p.html"], ["unpack", "-o", "u.onnx"], ["pack", "-o", "p.onnx"],
    ["set", "nothing=1", "-o", "s"],
    ["rename", "none", "other", "-o", "r"], ["rm", "node:none", "-o", "r"], ["extract", "--outputs", "none", "-o", "e"],
    ["sql", "select * from model"], ["diff", "none.onnx"], ["infer", "-o", "i"], ["catalog", "-o", "out"],
]  # fmt: skip


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_no_command_shows_a_password_or_query(words, tmp_path) -> None:
    """Each command runs twice. In the first run the server sends the model, in the second it answers with 404."""
    with ObjectServer({"m.onnx": model([100_000])}) as server:
        address = f"http://user:{SECRET}@{server.host}/m.onnx?signature={SECRET}"
        for fault in (None, "404"):
            server.state.default_fault = fault
            process = forked_commands.run(words[0], address, *words[1:], text=True, cwd=tmp_path)
            assert SECRET not in process.stdout and SECRET not in process.stderr, (process.stdout, process.stderr)
            assert "Traceback" not in process.stderr
        assert server.state.requests
    for path in tmp_path.rglob("*"):
        assert path.is_dir() or SECRET.encode() not in path.read_bytes(), path


def test_tables_and_reports_contain_no_password(tmp_path) -> None:
    pa = pytest.importorskip("pyarrow")
    with ObjectServer({"m.onnx": model([100_000])}) as server:
        address = f"http://user:{SECRET}@{server.host}/m.onnx?signature={SECRET}"
        for table in ("tensors", "nodes", "model"):
            arrow_table = pa.table(ow.to_arrow(address, table))
            assert SECRET not in json.dumps(arrow_table.to_pylist(), default=str)
        assert SECRET not in repr(ow.check(address)) and SECRET not in repr(ow.diff(address, address))
        assert server.state.requests
