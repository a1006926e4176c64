"""Headers, users and retry times of requests to servers; escapes in addresses; listings; errors of stores."""

from __future__ import annotations

import asyncio
import base64
import socket
import subprocess
import sys
import time
from email.utils import formatdate

import boto3
import pytest
from moto.server import ThreadedMotoServer
from object_server import ObjectServer
from served_models import model

import onnxwire as ow
from onnxwire.io.remote import http_store, stores
from onnxwire.io.remote.address import Site, parse_address
from onnxwire.io.remote.address_listing import find_files
from onnxwire.io.remote.http_client import _seconds_to_wait
from onnxwire.io.remote.settings import headers_of_environment, parse_header, retry_limits, user_of_netrc
from onnxwire.io.remote.stores import identity_in_store, source_error

MODEL_PIECES = model([100])
MODEL_BYTES = MODEL_PIECES.read(0, MODEL_PIECES.size)
SECRET = "hunter2"


@pytest.fixture(autouse=True)
def disable_netrc(monkeypatch, tmp_path):
    """Hide the .netrc file of the user."""
    monkeypatch.setenv("NETRC", str(tmp_path / "none"))


@pytest.fixture
def servers():
    """Start two servers of one model."""
    with (
        ObjectServer({"d/m.onnx": MODEL_BYTES}) as model_server,
        ObjectServer({"d/m.onnx": MODEL_BYTES}) as second_server,
    ):
        yield model_server, second_server


def list_sent_headers(server: ObjectServer) -> list[dict[str, str]]:
    return [request.headers for request in server.state.requests]


def basic_authorization(user: str) -> str:
    return f"Basic {base64.b64encode(user.encode()).decode()}"


def write_netrc(tmp_path, monkeypatch, text: str) -> None:
    (tmp_path / "netrc").write_text(text)
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))


def test_headers_of_the_environment_are_sent_to_the_server_of_the_address_only(servers, monkeypatch) -> None:
    model_server, second_server = servers
    model_server.state.redirects["/d/m.onnx"] = 302, f"{second_server.url}/d/m.onnx"
    monkeypatch.setenv("ONNXWIRE_HTTP_HEADERS", f"Authorization: Bearer {SECRET}\n\nX-Other:  b: c \n")
    ow.load(f"{model_server.url}/d/m.onnx")
    for headers in list_sent_headers(model_server):
        assert headers["authorization"] == f"Bearer {SECRET}" and headers["x-other"] == "b: c"
    for headers in list_sent_headers(second_server):
        assert SECRET not in str(headers) and "x-other" not in headers


@pytest.mark.parametrize("text", [SECRET, f"a b: {SECRET}", f": {SECRET}", f"a: {SECRET}\x01", f"ä: {SECRET}"])
def test_a_malformed_header_is_an_error_without_its_text(text, servers, monkeypatch) -> None:
    with pytest.raises(ValueError, match="Name: value"):
        parse_header(text)
    monkeypatch.setenv("ONNXWIRE_HTTP_HEADERS", f"X: y\n{text}")
    with pytest.raises(ow.SourceError, match=r"ONNXWIRE_HTTP_HEADERS: line 2") as error_info:
        ow.load(f"{servers[0].url}/d/m.onnx")
    assert SECRET not in repr(error_info.value)


def test_headers_of_the_environment_are_overridden_by_the_options_and_the_user_of_the_address(
    servers, monkeypatch
) -> None:
    model_server, _ = servers
    monkeypatch.setenv("ONNXWIRE_HTTP_HEADERS", "authorization: Bearer a\nX-One: a\nRange: bytes=5-6\nHost: other")
    options = {"client_options": {"default_headers": {"x-one": "b"}}}
    ow.load(f"http://me:you@{model_server.host}/d/m.onnx", storage_options=options)
    headers = list_sent_headers(model_server)[0]
    assert headers["authorization"] == basic_authorization("me:you")
    assert headers["x-one"] == "b" and headers["host"] == model_server.host and headers["range"] != "bytes=5-6"


def test_the_command_line_sends_headers(servers) -> None:
    model_server, _ = servers
    command = [sys.executable, "-m", "onnxwire", "info", f"{model_server.url}/d/m.onnx"]
    subprocess.run([*command, "--header", "X-One: a", "--header", "X-Two: b"], check=True, capture_output=True)
    assert list_sent_headers(model_server)[0]["x-one"] == "a" and list_sent_headers(model_server)[0]["x-two"] == "b"
    process = subprocess.run([*command, "--header", SECRET], capture_output=True, text=True, check=False)
    assert process.returncode == 2 and "Name: value" in process.stderr and SECRET not in process.stderr


def test_the_user_of_a_host_is_read_from_netrc(servers, monkeypatch, tmp_path) -> None:
    model_server, second_server = servers
    model_server.state.redirects["/d/m.onnx"] = 302, f"{second_server.url.replace('127.0.0.1', 'localhost')}/d/m.onnx"
    write_netrc(tmp_path, monkeypatch, f"machine 127.0.0.1 login me password {SECRET}\ndefault login x password y\n")
    ow.load(f"{model_server.url}/d/m.onnx")
    assert list_sent_headers(model_server)[0]["authorization"] == basic_authorization(f"me:{SECRET}")
    assert all("authorization" not in headers for headers in list_sent_headers(second_server))
    assert user_of_netrc(Site("http", "default", 80)) == ""
    write_netrc(tmp_path, monkeypatch, "machine 127.0.0.1 login me password other")
    model_server.state.reset()
    ow.load(f"{model_server.url}/d/m.onnx")
    assert list_sent_headers(model_server)[0]["authorization"] == basic_authorization("me:other")
    model_server.state.reset()
    ow.load(
        f"{model_server.url}/d/m.onnx", storage_options={"client_options": {"default_headers": {"Authorization": "z"}}}
    )
    assert list_sent_headers(model_server)[0]["authorization"] == "z"


def test_the_default_entry_of_netrc_is_not_used(servers, monkeypatch, tmp_path) -> None:
    model_server, second_server = servers
    model_server.state.redirects["/d/m.onnx"] = 302, f"{second_server.url}/d/m.onnx"
    write_netrc(tmp_path, monkeypatch, f"machine example.com login a password b\ndefault login x password {SECRET}\n")
    ow.load(f"{model_server.url}/d/m.onnx")
    assert all(
        "authorization" not in headers for headers in list_sent_headers(model_server) + list_sent_headers(second_server)
    )


def test_a_damaged_netrc_is_a_warning_without_its_text(servers, monkeypatch, tmp_path) -> None:
    write_netrc(tmp_path, monkeypatch, f"machine 127.0.0.1 login me {SECRET}\n")
    with pytest.warns(UserWarning, match="netrc is not used") as caught_warnings:
        ow.load(f"{servers[0].url}/d/m.onnx")
    assert SECRET not in str(caught_warnings[0].message)


def test_no_credential_is_in_an_error_or_the_name_of_a_cached_file(servers, monkeypatch) -> None:
    model_server, _ = servers
    monkeypatch.setenv("ONNXWIRE_HTTP_HEADERS", f"X-Token: {SECRET}")
    with pytest.raises(ow.SourceError) as error_info:
        ow.load(f"http://me:{SECRET}@{model_server.host}/d/none.onnx?token={SECRET}")
    assert SECRET not in repr(error_info.value) and SECRET not in str(error_info.value)
    first_address, second_address = (
        parse_address("http://me:one@host/m.onnx"),
        parse_address("http://me:two@host/m.onnx"),
    )
    headers = {"client_options": {"default_headers": {"Authorization": "one", "X-Region": "r"}}}
    assert identity_in_store(first_address, None) == identity_in_store(second_address, None)
    assert "one" not in identity_in_store(first_address, headers) and "X-Region" in identity_in_store(
        first_address, headers
    )


def test_the_client_waits_for_the_time_of_retry_after(servers, monkeypatch) -> None:
    model_server, _ = servers
    model_server.state.faults[0] = "429"
    model_server.state.retry_after = "7"
    waits = []
    sleep = asyncio.sleep

    async def record_wait(seconds: float) -> None:
        waits.append((seconds, len(model_server.state.requests)))
        await sleep(0)

    monkeypatch.setattr(asyncio, "sleep", record_wait)
    ow.load(f"{model_server.url}/d/m.onnx")
    assert (7, 1) in waits
    assert len(model_server.state.requests) > 1


def test_a_wait_beyond_the_retry_timeout_is_an_error_at_once(servers, monkeypatch) -> None:
    model_server, _ = servers
    model_server.state.default_fault, model_server.state.retry_after = "503", "3600"
    with pytest.raises(ow.SourceError, match=r"503 Service Unavailable, and asks to wait 3,600 seconds"):
        ow.load(f"{model_server.url}/d/m.onnx")
    assert len(model_server.state.requests) == 1
    monkeypatch.setenv("ONNXWIRE_RETRY_TIMEOUT", "0.1")
    model_server.state.retry_after = "2"
    with pytest.raises(ow.SourceError, match="asks to wait 2 seconds"):
        ow.load(f"{model_server.url}/d/m.onnx")


def test_the_retry_timeout_is_a_number_of_seconds(monkeypatch) -> None:
    # `retry_limits` returns the maximum number of retries and the timeout in seconds.
    assert retry_limits()[1] == 60
    monkeypatch.setenv("ONNXWIRE_RETRY_TIMEOUT", "600")
    assert retry_limits()[1] == 600
    for text in ("nan", "-1", "1e9", "10 s", "9" * 40):
        monkeypatch.setenv("ONNXWIRE_RETRY_TIMEOUT", text)
        with pytest.raises(ow.SourceError, match="number of seconds"):
            retry_limits()


def test_a_timeout_with_text_that_is_no_duration_is_an_error(servers) -> None:
    model_server, _ = servers
    for text in ("x 5 s", "5 s!", "5", ""):
        with pytest.raises(ow.SourceError, match="rejects the address or storage_options"):
            ow.load(f"{model_server.url}/d/m.onnx", storage_options={"client_options": {"timeout": text}})
    ow.load(f"{model_server.url}/d/m.onnx", storage_options={"client_options": {"timeout": "1m 30s"}}).close()


def test_retry_after_is_a_number_or_a_date() -> None:
    assert _seconds_to_wait(" 7 ") == 7
    assert 0 < _seconds_to_wait(formatdate(time.time() + 3600, usegmt=True)) <= 3600
    for text in ("", "-1", "nan", "soon", formatdate(0, usegmt=True), "9" * 30):
        assert _seconds_to_wait(text) == 0


def test_a_size_that_content_range_hides_is_requested(servers) -> None:
    pieces = model([300_000, 9_000_000, 300_000])
    model_server, _ = servers
    model_server.state.files["/d/m.onnx"] = pieces
    model_server.state.hides_size = True
    with ow.load(f"{model_server.url}/d/m.onnx") as message:
        assert len(message.graph.initializer) == 3
    assert model_server.state.sent < 4_000_000
    assert list_sent_headers(model_server)[1]["range"] == "bytes=-1"


def test_escapes_are_sent_unchanged(servers) -> None:
    model_server, _ = servers
    for path in ("/g%2Fp/a%2Bb.onnx", "/g%2fp/m.onnx?x=%2F%2B+", "/refs%2Fpr%2F1/m.onnx"):
        model_server.state.files = {
            "/g/p/a+b.onnx": model([1]),
            "/g/p/m.onnx": model([1]),
            "/refs/pr/1/m.onnx": model([1]),
        }
        model_server.state.reset()
        ow.load(model_server.url + path)
        assert model_server.state.requests[0].path == path
    model_server.state.redirects["/d/m.onnx"] = 302, "/g%2Fp/a%2Bb.onnx?%2F"
    model_server.state.reset()
    ow.load(f"{model_server.url}/d/m.onnx")
    assert model_server.state.requests[1].path == "/g%2Fp/a%2Bb.onnx?%2F"


def test_names_with_escaped_slashes_are_listed_unchanged(servers) -> None:
    model_server, _ = servers
    entry = (
        "<D:response><D:href>{}</D:href><D:propstat><D:prop><D:getcontentlength>5</D:getcontentlength></D:prop>"
        "</D:propstat></D:response>"
    )
    names = ("/d%2Fe/a%2Fb%2B.onnx", "/d%2Fe/f/g+h.onnx", "/d/e/other.onnx", "/d%2Fe/%2E%2E/x.onnx")
    entries = "".join(map(entry.format, names))
    model_server.state.folder_list = f'<D:multistatus xmlns:D="DAV:">{entries}</D:multistatus>'.encode()
    (listed_files,) = find_files([f"{model_server.url}/d%2Fe/"])
    assert [name for name, _ in listed_files] == [
        f"{model_server.url}/d%2Fe/a%2Fb%2B.onnx",
        f"{model_server.url}/d%2Fe/f/g%2Bh.onnx",
    ]


def test_a_list_of_a_folder_that_is_too_long_is_an_error(servers, monkeypatch) -> None:
    model_server, _ = servers
    monkeypatch.setattr(http_store, "_MAX_LIST_BYTES", 1000)
    model_server.state.folder_list = b" " * 1001
    (error,) = find_files([f"{model_server.url}/d/"])
    assert "longer than 1,000 bytes" in str(error)


def test_a_failed_connection_is_reported_when_a_folder_is_listed() -> None:
    with socket.socket() as bound_socket:  # which does not listen
        bound_socket.bind(("127.0.0.1", 0))
        options = {"retry_config": {"max_retries": 0}}
        (error,) = find_files([f"http://127.0.0.1:{bound_socket.getsockname()[1]}/d/"], options)
    assert "the connection was refused" in str(error)


@pytest.mark.parametrize("certificate", ["not PEM", b"\xff", b"-----BEGIN CERTIFICATE-----"])
def test_the_error_of_an_invalid_root_certificate_names_the_option(servers, certificate) -> None:
    model_server, _ = servers
    options = {"client_options": {"root_certificate": certificate}}
    with pytest.raises(ow.SourceError, match="root_certificate of client_options"):
        ow.load(f"https://{model_server.host}/d/m.onnx", storage_options=options)


def test_a_folder_with_a_key_that_contains_two_slashes_is_listed_with_boto3_only(monkeypatch) -> None:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        url = "http://{}:{}".format(*server.get_host_and_port())
        keys = {"aws_access_key_id": "key", "aws_secret_access_key": SECRET, "region_name": "us-east-1"}
        client = boto3.client("s3", endpoint_url=url, **keys)
        client.create_bucket(Bucket="bucket")
        for key in ("a/m.onnx", "a//n.onnx", "a/f//"):
            client.put_object(Bucket="bucket", Key=key, Body=MODEL_BYTES)
        options = {"endpoint": url, "region": "us-east-1", "client_options": {"allow_http": True}}
        options |= {"access_key_id": "key", "secret_access_key": SECRET}
        with pytest.warns(UserWarning, match="omits 1 model with //"):
            (listed_files,) = find_files(["s3://bucket/a/"], options)
        assert [name for name, _ in listed_files] == ["s3://bucket/a/m.onnx"]
        monkeypatch.setitem(sys.modules, "boto3", None)
        (error,) = find_files(["s3://bucket/a/"], options)
        assert "boto3" in str(error) and SECRET not in repr(error)
    finally:
        server.stop()


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("inner: InvalidCertificate( UnknownIssuer )", "certificate"),
        ("kind: Redirect,\n  source: reqwest::Error {\n kind: Builder, source: BadScheme", "from https to http"),
        ("HTTP error: builder error source: BadScheme", "allow_http"),
        ("Content-Length Header missing from response", "no Content-Length"),
        ("kind: Redirect, source: TooManyRedirects", "in a loop"),
        ("inner: BareRedirect", "Location"),
        ("connection refused after 0 retries", "the connection was refused"),
        ("connection refused after 9 retries", "the connection was refused, 10 times"),
    ],
)
def test_errors_of_obstore_name_the_cause(text, cause) -> None:
    class GenericError(Exception):
        pass

    error = source_error(GenericError(f"Generic S3 error: {text} https://u:{SECRET}@h/?{SECRET}"), "s3://b/m.onnx")
    assert cause in str(error) and "Generic" not in str(error) and SECRET not in str(error)
    assert ", 1 times" not in str(error)


def test_only_models_are_written_to_addresses(tmp_path, monkeypatch) -> None:
    # These folders would contain the file if the address were used as a path.
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s3:").mkdir()
    (tmp_path / "s3:" / "bucket").mkdir()
    message = ow.ModelProto.FromString(MODEL_BYTES)
    with pytest.raises(ow.SaveError, match="only models are written to addresses"):
        ow.to_safetensors(message, "s3://bucket/m.safetensors")
    assert not list((tmp_path / "s3:" / "bucket").iterdir())


def test_stores_with_different_headers_are_not_shared(servers, monkeypatch) -> None:
    address = parse_address(f"{servers[0].url}/d/m.onnx")
    first_store = stores.open_store(address, None)
    monkeypatch.setenv("ONNXWIRE_HTTP_HEADERS", "a: b")
    assert stores.open_store(address, None) is not first_store
    assert headers_of_environment() == {"a": "b"}
