"""Redirects: the servers from which a model and its external data may be read, and the headers sent to each."""

from __future__ import annotations

import base64
import socket
import subprocess
import sys
from contextlib import ExitStack

import numpy as np
import pytest
from object_server import ObjectServer, Pieces
from served_models import VALUES, external_model_bytes, model, two_servers

import onnxwire as ow
from onnxwire.io.remote import hosts
from onnxwire.io.remote.address import Site
from onnxwire.io.remote.failures import RefusedError
from onnxwire.io.remote.hosts import GLOBAL, LOCAL, PRIVATE, Hosts, reach_of, redirect_target

NO_RETRIES = {"retry_config": {"max_retries": 0}}


@pytest.fixture
def servers():
    """Start a server of a model and its external data, and a second server with the same files."""
    with two_servers() as pair_of_servers:
        yield pair_of_servers


def read_weight(address: str, **options) -> np.ndarray:
    """Load a model, and return a copy of its first weight."""
    with ow.load(address, **options) as message:
        return message.graph.initializer[0].numpy().copy()


def test_external_data_is_not_redirected_to_another_host(servers) -> None:
    model_server, second_server = servers
    model_server.state.redirects["/d/w.data"] = 302, f"{second_server.url}/d/w.data"
    with pytest.raises(ow.SourceError, match="allow_hosts=") as error_info:
        read_weight(f"{model_server.url}/d/m.onnx")
    assert second_server.host in str(error_info.value) and "\n" not in str(error_info.value)
    assert not second_server.state.requests


def test_external_data_may_be_redirected_to_its_own_host(servers) -> None:
    model_server, _ = servers
    model_server.state.files["/elsewhere"] = model_server.state.files.pop("/d/w.data")
    for location in (
        f"{model_server.url}/elsewhere",
        "/elsewhere",
        "../elsewhere",
        f"{model_server.url.upper()}/elsewhere",
    ):
        model_server.state.redirects["/d/w.data"] = 307, location
        np.testing.assert_array_equal(read_weight(f"{model_server.url}/d/m.onnx"), VALUES)


def test_external_data_may_be_redirected_to_the_server_that_the_model_was_redirected_to(servers) -> None:
    model_server, second_server = servers
    for path in ("/d/m.onnx", "/d/w.data"):
        model_server.state.redirects[path] = 302, f"{second_server.url}{path}"
    np.testing.assert_array_equal(read_weight(f"{model_server.url}/d/m.onnx"), VALUES)


def test_a_failed_redirect_of_the_model_allows_no_host(servers) -> None:
    model_server, second_server = servers
    model_server.state.redirects["/d/m.onnx"] = 302, f"{second_server.url}/d/none"
    with pytest.raises(ow.SourceError, match="no such file"):
        ow.load(f"{model_server.url}/d/m.onnx")
    del model_server.state.redirects["/d/m.onnx"]
    model_server.state.redirects["/d/w.data"] = 302, f"{second_server.url}/d/w.data"
    with pytest.raises(ow.SourceError, match="not followed"):
        read_weight(f"{model_server.url}/d/m.onnx")


def test_redirects_to_allowed_hosts_are_followed(servers, monkeypatch) -> None:
    model_server, second_server = servers
    model_server.state.redirects["/d/w.data"] = 302, f"{second_server.url}/d/w.data"
    np.testing.assert_array_equal(read_weight(f"{model_server.url}/d/m.onnx", allow_hosts=[second_server.host]), VALUES)
    monkeypatch.setenv("ONNXWIRE_ALLOW_HOSTS", f"cdn.example.com, {second_server.host}")
    np.testing.assert_array_equal(read_weight(f"{model_server.url}/d/m.onnx"), VALUES)
    with pytest.raises(ow.SourceError, match="not followed"):
        # Without a port, only the default ports are allowed.
        read_weight(f"{model_server.url}/d/m.onnx", allow_hosts=["127.0.0.1"])
    for invalid_hosts in (["a b"], ["http://host/"], ["host:port"], [""], ["user@host"]):
        with pytest.raises(ow.SourceError, match="allow_hosts="):
            ow.load(f"{model_server.url}/d/m.onnx", allow_hosts=invalid_hosts)
    with pytest.raises(TypeError, match="a list of hosts"):
        ow.load(f"{model_server.url}/d/m.onnx", allow_hosts="host")


def test_with_allow_hosts_the_model_is_redirected_to_no_other_host(servers) -> None:
    model_server, second_server = servers
    model_server.state.redirects["/d/m.onnx"] = 302, f"{second_server.url}/d/m.onnx"
    with pytest.raises(ow.SourceError, match="not followed"):
        ow.load(f"{model_server.url}/d/m.onnx", allow_hosts=["cdn.example.com"])
    assert not second_server.state.requests
    ow.load(f"{model_server.url}/d/m.onnx", allow_hosts=[second_server.host])
    ow.load(f"{model_server.url}/d/m.onnx")


def test_commands_accept_allowed_hosts(servers) -> None:
    model_server, second_server = servers
    model_server.state.redirects["/d/w.data"] = 302, f"{second_server.url}/d/w.data"
    command = [sys.executable, "-m", "onnxwire", "stats", f"{model_server.url}/d/m.onnx"]
    refused_run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert refused_run.returncode == 2
    assert "--allow-host" in refused_run.stderr and len(refused_run.stderr.splitlines()) == 1
    allowed_run = subprocess.run(
        [*command, "--allow-host", second_server.host], capture_output=True, text=True, check=False
    )
    assert allowed_run.returncode == 0, allowed_run.stderr


def test_headers_query_and_user_of_the_caller_are_not_sent_to_another_host(servers) -> None:
    model_server, second_server = servers
    model_server.state.redirects["/d/m.onnx"] = 302, f"{second_server.url}/there"
    second_server.state.redirects["/there"] = 302, f"{model_server.url}/back"
    model_server.state.files["/back"] = model_server.state.files["/d/m.onnx"]
    address = model_server.url.replace("//", "//me:hunter2@") + "/d/m.onnx?signature=hunter2"
    options = {"client_options": {"default_headers": {"X-Token": "hunter2", "Cookie": "a=hunter2"}, "user_agent": "me"}}
    ow.load(address, storage_options=options)
    first_request, last_request = model_server.state.requests
    assert first_request.headers["authorization"] == f"Basic {base64.b64encode(b'me:hunter2').decode()}"
    assert (first_request.headers["x-token"], first_request.headers["user-agent"]) == ("hunter2", "me")
    assert "signature=hunter2" in first_request.path
    # The last request is to the model's own host, but at an address that the other host chose.
    for request in (last_request, *second_server.state.requests):
        names = {"host", "user-agent", "accept", "accept-encoding", "range"}
        assert set(request.headers) <= names
        assert "hunter2" not in repr(request)
        assert request.headers["user-agent"].startswith("onnxwire/")
    assert second_server.state.requests and last_request.path == "/back"


def test_headers_are_sent_after_a_redirect_to_the_same_host(servers) -> None:
    model_server, _ = servers
    model_server.state.redirects["/a"] = 302, "/d/m.onnx"
    address = model_server.url.replace("//", "//me:hunter2@") + "/a"
    ow.load(address, storage_options={"client_options": {"default_headers": {"X-Token": "x"}}})
    assert [request.headers["x-token"] for request in model_server.state.requests] == ["x", "x"]
    assert len({request.headers["authorization"] for request in model_server.state.requests}) == 1


@pytest.fixture
def fake_public_addresses(monkeypatch):
    """Treat 127.0.0.2 as a public address, and 127.0.0.3 as a private one."""
    reaches = {"127.0.0.1": LOCAL, "127.0.0.2": GLOBAL, "127.0.0.3": PRIVATE}
    monkeypatch.setattr(hosts, "reach_of", reaches.__getitem__)


@pytest.mark.parametrize("private_address", ["127.0.0.1", "127.0.0.3"])
@pytest.mark.parametrize("name", ["m.onnx", "w.data"])
def test_a_redirect_from_a_public_to_a_private_server_is_refused(fake_public_addresses, private_address, name) -> None:
    files = {"d/m.onnx": external_model_bytes(), "d/w.data": VALUES.tobytes()}
    with (
        ObjectServer(files, ip_address="127.0.0.2") as model_server,
        ObjectServer(files, ip_address=private_address) as private_server,
    ):
        model_server.state.redirects[f"/d/{name}"] = 302, f"{private_server.url}/d/{name}"
        for allowed_hosts in (None, [private_server.host]):
            with pytest.raises(ow.SourceError, match=r"not followed|loopback, link-local or private"):
                read_weight(f"{model_server.url}/d/m.onnx", allow_hosts=allowed_hosts)
        assert not private_server.state.requests
        # A redirect in the opposite direction is allowed.
        private_server.state.redirects[f"/d/{name}"] = (
            model_server.state.redirects.popitem()[1][0],
            f"{model_server.url}/d/{name}",
        )
        np.testing.assert_array_equal(
            read_weight(f"{private_server.url}/d/m.onnx", allow_hosts=[model_server.host]), VALUES
        )


def test_a_host_name_that_was_public_may_not_become_private(fake_public_addresses, monkeypatch) -> None:
    """The name resolves to the model's server first, and then to a service of this system."""
    files = {"d/m.onnx": external_model_bytes()}
    addresses = ["127.0.0.2"]
    monkeypatch.setattr(hosts, "addresses_of", lambda host, port: addresses)
    with ObjectServer(files, ip_address="127.0.0.2") as model_server:
        port = int(model_server.host.rpartition(":")[2])
        # The second load uses the connection of the first one.
        ow.load(f"http://rebinding.example:{port}/d/m.onnx", storage_options=NO_RETRIES)
        with ow.load(f"http://rebinding.example:{port}/d/m.onnx", storage_options=NO_RETRIES) as message:
            addresses[:] = ["127.0.0.1"]
            from onnxwire.io.remote.stores import _STORES

            for store in _STORES.values():
                for idle_connections in getattr(getattr(store, "_client", None), "_idle", {}).values():
                    idle_connections.clear()  # like a server that closes its idle connections
            with pytest.raises(ow.SourceError, match="loopback, link-local or private"):
                message.graph.initializer[0].numpy()


def test_only_public_addresses_of_a_name_with_public_and_private_addresses_are_used(
    fake_public_addresses, monkeypatch
) -> None:
    monkeypatch.setattr(hosts, "addresses_of", lambda host, port: ["127.0.0.1", "127.0.0.3", "127.0.0.2"])
    assert Hosts(Site("http", "name", 80)).allowed_addresses(Site("http", "name", 80), None) == [("127.0.0.2", GLOBAL)]


@pytest.mark.parametrize(
    ("address", "reach"),
    [
        ("8.8.8.8", GLOBAL),
        ("2001:4860:4860::8888", GLOBAL),
        ("10.1.2.3", PRIVATE),
        ("172.31.255.255", PRIVATE),
        ("172.32.0.1", GLOBAL),
        ("192.168.0.1", PRIVATE),
        ("100.64.0.1", PRIVATE),
        ("fc00::1", PRIVATE),
        ("fd12:3456::1", PRIVATE),
        ("fec0::1", PRIVATE),
        ("127.0.0.1", LOCAL),
        ("127.255.255.254", LOCAL),
        ("0.0.0.0", LOCAL),
        ("0.1.2.3", LOCAL),
        ("169.254.169.254", LOCAL),
        ("224.0.0.1", LOCAL),
        ("239.255.255.250", LOCAL),
        ("240.0.0.1", LOCAL),
        ("255.255.255.255", LOCAL),
        ("::", LOCAL),
        ("::1", LOCAL),
        ("fe80::1", LOCAL),
        ("fe80::1%eth0", LOCAL),
        ("ff02::1", LOCAL),
        ("::ffff:127.0.0.1", LOCAL),
        ("::ffff:10.0.0.1", PRIVATE),
        ("::ffff:8.8.8.8", GLOBAL),
        ("::127.0.0.1", LOCAL),
        ("64:ff9b::7f00:1", LOCAL),
        ("64:ff9b::a9fe:a9fe", LOCAL),
        ("64:ff9b::808:808", GLOBAL),
        ("2002:7f00:1::", LOCAL),
        ("2002:a00:1::", PRIVATE),
        ("2001:db8::1", LOCAL),
    ],
)
def test_ip_addresses_are_classified_as_public_private_or_local(address, reach) -> None:
    assert reach_of(address) == reach


@pytest.mark.parametrize(
    ("location", "words"),
    [
        (None, "without a Location"),
        ("", "without a Location"),
        ("ftp://host/m.onnx", "not plain http"),
        ("file:///etc/passwd", "not plain http"),
        ("gopher://host/", "not plain http"),
        ("http://user:hunter2@host/m.onnx", "not plain http"),
        ("http://127.0.0.1\\@host/m.onnx", "invalid address"),
        ("http://host:port/", "invalid address"),
        ("http://host:99999/", "invalid address"),
        ("http://[::1/", "invalid address"),
        ("http://[fe80::1%25eth0]/", "invalid address"),
        ("https:///m.onnx", "invalid address"),
        ("http://ho st/", "invalid address"),
        ("http://host/\x7f", "invalid address"),
        ("http://%6c%6f/", "invalid address"),
        ("//a\uff0fb/", "invalid address"),
    ],
)
def test_a_redirect_to_an_invalid_address_is_refused(location, words, servers) -> None:
    with pytest.raises(RefusedError, match=words) as error_info:
        redirect_target("http://host/d/m.onnx", None if location is None else location.encode().decode("latin-1"))
    assert "hunter2" not in str(error_info.value)
    model_server, second_server = servers
    if location is None or location.isascii():
        model_server.state.redirects["/d/m.onnx"] = 302, location
        with pytest.raises(ow.SourceError, match=words):
            ow.load(f"{model_server.url}/d/m.onnx", storage_options=NO_RETRIES)
    assert not second_server.state.requests


def test_line_breaks_in_a_location_add_no_header_and_no_request(servers) -> None:
    model_server, second_server = servers
    for location in (f"/d/\r\n {second_server.url}", "/d/m.onnx\r\nX-Injected: 1", "/d/m.onnx HTTP/1.1\r\n\r\nGET /x"):
        model_server.state.redirects["/a"] = 302, location
        try:
            ow.load(f"{model_server.url}/a", storage_options=NO_RETRIES)
        except ow.SourceError as error:
            assert "\n" not in str(error)
        assert not second_server.state.requests
        assert {request.path for request in model_server.state.requests} <= {"/a", "/d/m.onnx"}


@pytest.mark.parametrize(
    ("model_url", "target_url", "is_same"),
    [
        ("http://host/", "http://HOST:80/x", True),
        ("http://host/", "http://host./x", True),
        ("http://host/", "https://host/x", True),
        ("http://host/", "https://host:443/x", True),
        ("http://host/", "http://host:8080/x", False),
        ("http://host:8080/", "https://host:8080/x", True),
        ("http://host/", "http://host.example/x", False),
        ("http://127.0.0.1/", "http://2130706433/x", False),
        ("http://127.0.0.1/", "http://0x7f.1/x", False),
        ("http://127.0.0.1/", "http://[::ffff:127.0.0.1]/x", False),
        ("http://[::1]/", "http://[0:0:0:0:0:0:0:1]/x", True),
        ("http://b\u00fccher.example/", "http://xn--bcher-kva.example/x", True),
    ],
)
def test_a_redirect_is_allowed_only_to_an_equal_normalized_host(model_url, target_url, is_same) -> None:
    from onnxwire.io.remote.address import parse_address

    site = parse_address(f"{model_url}m.onnx").site
    target, _ = redirect_target("http://host/", target_url)
    hosts_of_model = Hosts(site)
    # False: the redirect is of external data, not of the model.
    if is_same:
        hosts_of_model.check_redirect(site, target, False)
    else:
        with pytest.raises(RefusedError):
            hosts_of_model.check_redirect(site, target, False)


def test_a_redirect_from_https_to_http_is_refused() -> None:
    https_site, http_site = Site("https", "host", 443), Site("http", "host", 80)
    for is_model in (True, False):
        with pytest.raises(RefusedError, match="from https to http"):
            Hosts(https_site, ["host"]).check_redirect(https_site, http_site, is_model)
        Hosts(http_site).check_redirect(http_site, https_site, is_model)


def test_a_loop_and_a_long_chain_of_redirects_end(servers) -> None:
    model_server, _ = servers
    model_server.state.redirects |= {"/a": (302, "/b"), "/b": (302, "/a")}
    with pytest.raises(ow.SourceError, match="in a loop"):
        ow.load(f"{model_server.url}/a")
    assert len(model_server.state.requests) == 2
    model_server.state.reset()
    model_server.state.redirects |= {f"/{i}": (302, f"/{i + 1}") for i in range(99)}
    with pytest.raises(ow.SourceError, match="more than 10 times"):
        ow.load(f"{model_server.url}/0")
    assert len(model_server.state.requests) == 11
    model_server.state.redirects["/9"] = 308, "/d/m.onnx"
    ow.load(f"{model_server.url}/0")


@pytest.mark.parametrize("status", [300, 304, 305, 306, 399])
def test_a_status_that_is_not_a_redirect_is_not_followed(servers, status) -> None:
    model_server, second_server = servers
    model_server.state.redirects["/d/m.onnx"] = status, f"{second_server.url}/d/m.onnx"
    with pytest.raises(ow.SourceError, match=f"answered {status}"):
        ow.load(f"{model_server.url}/d/m.onnx", storage_options=NO_RETRIES)
    assert not second_server.state.requests


def test_an_upload_is_not_redirected(servers) -> None:
    model_server, second_server = servers
    model_server.state.redirects["/d/new.onnx"] = 307, f"{second_server.url}/d/new.onnx"
    with pytest.raises(ow.SaveError, match="redirects uploads"):
        ow.save(ow.ModelProto(ir_version=9), f"{model_server.url}/d/new.onnx")
    assert not second_server.state.requests
    ow.save(ow.ModelProto(ir_version=9), f"{model_server.url}/d/other.onnx")
    assert model_server.state.files["/d/other.onnx"].read(0, 2) == b"\x08\x09"  # ir_version 9
    pieces = model([3_000_001])
    data = pieces.read(0, pieces.size)
    ow.save(ow.ModelProto.FromString(data), f"{model_server.url}/d/other.onnx")
    assert model_server.state.files["/d/other.onnx"].pieces == [data]


def test_a_catalog_requests_external_data_only_from_hosts_of_the_model(servers, tmp_path) -> None:
    pytest.importorskip("xxhash")
    from onnxwire import catalog

    model_server, second_server = servers
    model_server.state.redirects["/d/w.data"] = 302, f"{second_server.url}/d/w.data"
    for _ in range(2):
        catalog.build([f"{model_server.url}/d/m.onnx"], tmp_path / "one", hash=True, workers=1)
    assert not second_server.state.requests
    model_server.state.redirects["/d/m.onnx"] = 302, f"{second_server.url}/d/m.onnx"
    assert catalog.build([f"{model_server.url}/d/m.onnx"], tmp_path / "two", hash=True, workers=1).read == 1
    assert catalog.build([f"{model_server.url}/d/m.onnx"], tmp_path / "two", hash=True, workers=1).unchanged == 1


def test_a_complete_file_that_is_too_long_is_refused(servers) -> None:
    """The server answers a range request with the complete file of 10 GB."""
    model_server, _ = servers
    sent_lengths = []

    class RecordedPieces(Pieces):
        """Pieces that record the length of each read."""

        def read(self, start: int, end: int) -> bytes:
            sent_lengths.append(end - start)
            return super().read(start, end)

    model_server.state.files["/d/big"] = RecordedPieces(10**10)
    model_server.state.has_ranges = False
    with pytest.raises(ow.SourceError, match="range requests"):
        ow.load(f"{model_server.url}/d/big", storage_options=NO_RETRIES)
    assert sum(sent_lengths) < 10**8


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ignores connections to a server with a full queue")
def test_the_next_address_is_used_if_one_does_not_answer(monkeypatch) -> None:
    files = {"d/m.onnx": external_model_bytes()}
    with ObjectServer(files) as server, socket.socket() as silent_server, ExitStack() as stack:
        port = int(server.host.rpartition(":")[2])
        silent_server.bind(("127.0.0.2", port))
        silent_server.listen(0)
        for _ in range(4):  # fill the queue of connections that the server has not accepted
            client = stack.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex(("127.0.0.2", port))
        addresses = ["127.0.0.2", "127.0.0.1"]
        monkeypatch.setattr(hosts, "addresses_of", lambda host, port: addresses)
        options = {**NO_RETRIES, "client_options": {"connect_timeout": "200ms"}}
        with ow.load(f"http://two-addresses.example:{port}/d/m.onnx", storage_options=options) as model:
            assert model.ir_version
        addresses[:] = ["127.0.0.2"] * 100  # the load must not wait for 100 timeouts
        with pytest.raises(ow.SourceError, match="took too long"):
            ow.load(f"http://silent.example:{port}/d/m.onnx", storage_options=options)
