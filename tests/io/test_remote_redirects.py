"""Redirects: the servers from which a model and its external data may be read, and the data sent to each."""

from __future__ import annotations

import base64
import subprocess
import sys

import numpy as np
import pytest
from object_server import ObjectServer, Pieces
from served_models import VALUES, model, model_bytes, two_servers

import onnxwire as ow
from onnxwire.io.remote import hosts
from onnxwire.io.remote.address import Site
from onnxwire.io.remote.failures import RefusedError
from onnxwire.io.remote.hosts import GLOBAL, LOCAL, PRIVATE, Hosts, reach_of, redirect_target

NO_RETRIES = {"retry_config": {"max_retries": 0}}


@pytest.fixture
def servers():
    with two_servers() as both:
        yield both


def weight_of(address: str, **options) -> np.ndarray:
    with ow.load(address, **options) as message:
        return message.graph.initializer[0].numpy().copy()


def test_external_data_is_not_redirected_to_another_host(servers) -> None:
    own, other = servers
    own.state.redirects["/d/w.data"] = 302, f"{other.url}/d/w.data"
    with pytest.raises(ow.SourceError, match="allow_hosts=") as caught:
        weight_of(f"{own.url}/d/m.onnx")
    assert other.host in str(caught.value) and "\n" not in str(caught.value)
    assert not other.state.requests


def test_external_data_is_redirected_to_its_own_host(servers) -> None:
    own, _ = servers
    own.state.files["/elsewhere"] = own.state.files.pop("/d/w.data")
    for location in (f"{own.url}/elsewhere", "/elsewhere", "../elsewhere", f"{own.url.upper()}/elsewhere"):
        own.state.redirects["/d/w.data"] = 307, location
        np.testing.assert_array_equal(weight_of(f"{own.url}/d/m.onnx"), VALUES)


def test_external_data_is_redirected_to_where_the_model_is(servers) -> None:
    own, other = servers
    for path in ("/d/m.onnx", "/d/w.data"):
        own.state.redirects[path] = 302, f"{other.url}{path}"
    np.testing.assert_array_equal(weight_of(f"{own.url}/d/m.onnx"), VALUES)


def test_a_failed_redirect_of_the_model_allows_no_host(servers) -> None:
    own, other = servers
    own.state.redirects["/d/m.onnx"] = 302, f"{other.url}/d/none"
    with pytest.raises(ow.SourceError, match="no such file"):
        ow.load(f"{own.url}/d/m.onnx")
    del own.state.redirects["/d/m.onnx"]
    own.state.redirects["/d/w.data"] = 302, f"{other.url}/d/w.data"
    with pytest.raises(ow.SourceError, match="not followed"):
        weight_of(f"{own.url}/d/m.onnx")


def test_hosts_that_are_allowed_are_followed(servers, monkeypatch) -> None:
    own, other = servers
    own.state.redirects["/d/w.data"] = 302, f"{other.url}/d/w.data"
    np.testing.assert_array_equal(weight_of(f"{own.url}/d/m.onnx", allow_hosts=[other.host]), VALUES)
    monkeypatch.setenv("ONNXWIRE_ALLOW_HOSTS", f"cdn.example.com, {other.host}")
    np.testing.assert_array_equal(weight_of(f"{own.url}/d/m.onnx"), VALUES)
    with pytest.raises(ow.SourceError, match="not followed"):
        weight_of(f"{own.url}/d/m.onnx", allow_hosts=["127.0.0.1"])  # without a port, only that of http is allowed
    for wrong in (["a b"], ["http://host/"], ["host:port"], [""], ["user@host"]):
        with pytest.raises(ow.SourceError, match="allow_hosts="):
            ow.load(f"{own.url}/d/m.onnx", allow_hosts=wrong)
    with pytest.raises(TypeError, match="a list of hosts"):
        ow.load(f"{own.url}/d/m.onnx", allow_hosts="host")


def test_with_hosts_that_are_allowed_the_model_is_redirected_to_no_other(servers) -> None:
    own, other = servers
    own.state.redirects["/d/m.onnx"] = 302, f"{other.url}/d/m.onnx"
    with pytest.raises(ow.SourceError, match="not followed"):
        ow.load(f"{own.url}/d/m.onnx", allow_hosts=["cdn.example.com"])
    assert not other.state.requests
    ow.load(f"{own.url}/d/m.onnx", allow_hosts=[other.host])
    ow.load(f"{own.url}/d/m.onnx")


def test_commands_accept_allowed_hosts(servers) -> None:
    own, other = servers
    own.state.redirects["/d/w.data"] = 302, f"{other.url}/d/w.data"
    command = [sys.executable, "-m", "onnxwire", "stats", f"{own.url}/d/m.onnx"]
    refused = subprocess.run(command, capture_output=True, text=True, check=False)
    assert refused.returncode == 2
    assert "--allow-host" in refused.stderr and len(refused.stderr.splitlines()) == 1
    allowed = subprocess.run([*command, "--allow-host", other.host], capture_output=True, text=True, check=False)
    assert allowed.returncode == 0, allowed.stderr


def test_no_header_query_or_user_is_sent_to_another_host(servers) -> None:
    own, other = servers
    own.state.redirects["/d/m.onnx"] = 302, f"{other.url}/there"
    other.state.redirects["/there"] = 302, f"{own.url}/back"
    own.state.files["/back"] = own.state.files["/d/m.onnx"]
    address = own.url.replace("//", "//me:hunter2@") + "/d/m.onnx?signature=hunter2"
    options = {"client_options": {"default_headers": {"X-Token": "hunter2", "Cookie": "a=hunter2"}, "user_agent": "me"}}
    ow.load(address, storage_options=options)
    first, last = own.state.requests
    assert first.headers["authorization"] == f"Basic {base64.b64encode(b'me:hunter2').decode()}"
    assert (first.headers["x-token"], first.headers["user-agent"]) == ("hunter2", "me")
    assert "signature=hunter2" in first.path
    # The model's own host again, at an address that another host has chosen.
    for request in (last, *other.state.requests):
        names = {"host", "user-agent", "accept", "accept-encoding", "range"}
        assert set(request.headers) <= names
        assert "hunter2" not in repr(request)
        assert request.headers["user-agent"].startswith("onnxwire/")
    assert other.state.requests and last.path == "/back"


def test_headers_are_sent_after_a_redirect_to_the_same_host(servers) -> None:
    own, _ = servers
    own.state.redirects["/a"] = 302, "/d/m.onnx"
    address = own.url.replace("//", "//me:hunter2@") + "/a"
    ow.load(address, storage_options={"client_options": {"default_headers": {"X-Token": "x"}}})
    assert [request.headers["x-token"] for request in own.state.requests] == ["x", "x"]
    assert len({request.headers["authorization"] for request in own.state.requests}) == 1


@pytest.fixture
def public(monkeypatch):
    """Treat 127.0.0.2 as a public address, and 127.0.0.3 as a private one."""
    reaches = {"127.0.0.1": LOCAL, "127.0.0.2": GLOBAL, "127.0.0.3": PRIVATE}
    monkeypatch.setattr(hosts, "reach_of", reaches.__getitem__)


@pytest.mark.parametrize("private", ["127.0.0.1", "127.0.0.3"])
@pytest.mark.parametrize("name", ["m.onnx", "w.data"])
def test_a_public_server_does_not_redirect_to_a_private_one(public, private, name) -> None:
    files = {"d/m.onnx": model_bytes(), "d/w.data": VALUES.tobytes()}
    with ObjectServer(files, host="127.0.0.2") as own, ObjectServer(files, host=private) as near:
        own.state.redirects[f"/d/{name}"] = 302, f"{near.url}/d/{name}"
        for allowed in (None, [near.host]):
            with pytest.raises(ow.SourceError, match=r"not followed|loopback, link-local or private"):
                weight_of(f"{own.url}/d/m.onnx", allow_hosts=allowed)
        assert not near.state.requests
        # A redirect in the opposite direction is allowed.
        near.state.redirects[f"/d/{name}"] = own.state.redirects.popitem()[1][0], f"{own.url}/d/{name}"
        np.testing.assert_array_equal(weight_of(f"{near.url}/d/m.onnx", allow_hosts=[own.host]), VALUES)


def test_a_name_that_is_public_first_is_not_private_later(public, monkeypatch) -> None:
    """The name resolves to the model's server first, and then to a service of this system."""
    files = {"d/m.onnx": model_bytes()}
    found = ["127.0.0.2"]
    monkeypatch.setattr(hosts, "addresses_of", lambda host, port: found)
    with ObjectServer(files, host="127.0.0.2") as own:
        port = int(own.host.rpartition(":")[2])
        ow.load(
            f"http://rebinding.example:{port}/d/m.onnx", storage_options=NO_RETRIES
        )  # the next one uses its connection
        with ow.load(f"http://rebinding.example:{port}/d/m.onnx", storage_options=NO_RETRIES) as message:
            found[:] = ["127.0.0.1"]
            from onnxwire.io.remote.stores import _STORES

            for store in _STORES.values():
                for idle in getattr(getattr(store, "_client", None), "_idle", {}).values():
                    idle.clear()  # like a server that closes its idle connections
            with pytest.raises(ow.SourceError, match="loopback, link-local or private"):
                message.graph.initializer[0].numpy()


def test_only_public_addresses_of_a_name_with_public_and_private_addresses_are_used(public, monkeypatch) -> None:
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
    with pytest.raises(RefusedError, match=words) as caught:
        redirect_target("http://host/d/m.onnx", None if location is None else location.encode().decode("latin-1"))
    assert "hunter2" not in str(caught.value)
    own, other = servers
    if location is None or location.isascii():
        own.state.redirects["/d/m.onnx"] = 302, location
        with pytest.raises(ow.SourceError, match=words):
            ow.load(f"{own.url}/d/m.onnx", storage_options=NO_RETRIES)
    assert not other.state.requests


def test_a_redirect_is_not_followed_by_a_second_line_of_its_header(servers) -> None:
    own, other = servers
    for location in (f"/d/\r\n {other.url}", "/d/m.onnx\r\nX-Injected: 1", "/d/m.onnx HTTP/1.1\r\n\r\nGET /x"):
        own.state.redirects["/a"] = 302, location
        try:
            ow.load(f"{own.url}/a", storage_options=NO_RETRIES)
        except ow.SourceError as error:
            assert "\n" not in str(error)
        assert not other.state.requests
        assert {request.path for request in own.state.requests} <= {"/a", "/d/m.onnx"}


@pytest.mark.parametrize(
    ("before", "after", "is_same"),
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
def test_spellings_of_one_host_are_equal(before, after, is_same) -> None:
    from onnxwire.io.remote.address import parse_address

    site = parse_address(f"{before}m.onnx").site
    target, _ = redirect_target("http://host/", after)
    known = Hosts(site)
    if is_same:
        known.check_redirect(site, target, False)
    else:
        with pytest.raises(RefusedError):
            known.check_redirect(site, target, False)


def test_a_redirect_from_https_to_http_is_refused() -> None:
    own, plain = Site("https", "host", 443), Site("http", "host", 80)
    for is_model in (True, False):
        with pytest.raises(RefusedError, match="from https to http"):
            Hosts(own, ["host"]).check_redirect(own, plain, is_model)
        Hosts(plain).check_redirect(plain, own, is_model)


def test_a_loop_and_a_long_chain_of_redirects_end(servers) -> None:
    own, _ = servers
    own.state.redirects |= {"/a": (302, "/b"), "/b": (302, "/a")}
    with pytest.raises(ow.SourceError, match="in a loop"):
        ow.load(f"{own.url}/a")
    assert len(own.state.requests) == 2
    own.state.reset()
    own.state.redirects |= {f"/{i}": (302, f"/{i + 1}") for i in range(99)}
    with pytest.raises(ow.SourceError, match="more than 10 times"):
        ow.load(f"{own.url}/0")
    assert len(own.state.requests) == 11
    own.state.redirects["/9"] = 308, "/d/m.onnx"
    ow.load(f"{own.url}/0")


@pytest.mark.parametrize("status", [300, 304, 305, 306, 399])
def test_a_status_that_is_not_a_redirect_is_not_followed(servers, status) -> None:
    own, other = servers
    own.state.redirects["/d/m.onnx"] = status, f"{other.url}/d/m.onnx"
    with pytest.raises(ow.SourceError, match=f"answered {status}"):
        ow.load(f"{own.url}/d/m.onnx", storage_options=NO_RETRIES)
    assert not other.state.requests


def test_an_upload_is_not_redirected(servers) -> None:
    own, other = servers
    own.state.redirects["/d/new.onnx"] = 307, f"{other.url}/d/new.onnx"
    with pytest.raises(ow.SaveError, match="redirects uploads"):
        ow.save(ow.ModelProto(ir_version=9), f"{own.url}/d/new.onnx")
    assert not other.state.requests
    ow.save(ow.ModelProto(ir_version=9), f"{own.url}/d/other.onnx")
    assert own.state.files["/d/other.onnx"].read(0, 2) == b"\x08\x09"
    pieces = model([3_000_001])
    data = pieces.read(0, pieces.size)
    ow.save(ow.ModelProto.FromString(data), f"{own.url}/d/other.onnx")
    assert own.state.files["/d/other.onnx"].pieces == [data]


def test_a_catalog_requests_external_data_from_no_other_host(servers, tmp_path) -> None:
    pytest.importorskip("xxhash")
    from onnxwire import catalog

    own, other = servers
    own.state.redirects["/d/w.data"] = 302, f"{other.url}/d/w.data"
    for _ in range(2):
        catalog.build([f"{own.url}/d/m.onnx"], tmp_path / "one", hash=True, workers=1)
    assert not other.state.requests
    own.state.redirects["/d/m.onnx"] = 302, f"{other.url}/d/m.onnx"
    assert catalog.build([f"{own.url}/d/m.onnx"], tmp_path / "two", hash=True, workers=1).read == 1
    assert catalog.build([f"{own.url}/d/m.onnx"], tmp_path / "two", hash=True, workers=1).unchanged == 1


def test_a_large_body_of_a_redirect_is_not_read(servers) -> None:
    """The server sends 10 GB with each redirect."""
    own, _ = servers
    sent = []

    class Endless(Pieces):
        def read(self, start: int, end: int) -> bytes:
            sent.append(end - start)
            return super().read(start, end)

    own.state.files["/d/big"] = Endless(10**10)
    own.state.has_ranges = False
    with pytest.raises(ow.SourceError, match="range requests"):
        ow.load(f"{own.url}/d/big", storage_options=NO_RETRIES)
    assert sum(sent) < 10**8
    assert model([10]).size
