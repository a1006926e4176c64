"""load and check with untrusted=True: redirects, locations, special files, endpoints, number of fetched bytes."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import pytest
from object_server import ObjectServer, Pieces
from served_models import VALUES, external_model_bytes, model, two_servers

import onnxwire as ow

REDIRECT_STATUSES = (301, 302, 303, 307, 308)


@pytest.fixture
def servers():
    """Start a server of a model and its external data, and a second server with the same files."""
    with two_servers() as pair_of_servers:
        yield pair_of_servers


def read_weight(source, **options) -> np.ndarray:
    """Load an untrusted model, and return a copy of its first weight."""
    with ow.load(source, untrusted=True, **options) as message:
        return message.graph.initializer[0].numpy().copy()


def test_a_model_without_redirects_is_read(servers) -> None:
    model_server, _ = servers
    np.testing.assert_array_equal(read_weight(f"{model_server.url}/d/m.onnx"), VALUES)


@pytest.mark.parametrize("status", REDIRECT_STATUSES)
@pytest.mark.parametrize("path", ["/d/m.onnx", "/d/w.data"])
def test_redirects_to_other_servers_are_refused(servers, path: str, status: int) -> None:
    model_server, second_server = servers
    model_server.state.redirects[path] = status, f"{second_server.url}{path}"
    with pytest.raises(ow.SourceError, match="not followed for untrusted models") as error_info:
        read_weight(f"{model_server.url}/d/m.onnx")
    assert second_server.host in str(error_info.value) and "\n" not in str(error_info.value)
    assert not second_server.state.requests


@pytest.mark.parametrize("path", ["/d/m.onnx", "/d/w.data"])
def test_redirects_on_the_models_own_server_are_refused(servers, path: str) -> None:
    model_server, _ = servers
    model_server.state.files["/private"] = model_server.state.files[path]
    model_server.state.redirects[path] = 302, "/private"
    with pytest.raises(ow.SourceError, match="not followed for untrusted models"):
        read_weight(f"{model_server.url}/d/m.onnx")
    assert all(request.path != "/private" for request in model_server.state.requests)


def test_redirects_to_allowed_hosts_are_followed(servers, monkeypatch) -> None:
    model_server, second_server = servers
    model_server.state.redirects["/d/w.data"] = 302, f"{second_server.url}/d/w.data"
    np.testing.assert_array_equal(read_weight(f"{model_server.url}/d/m.onnx", allow_hosts=[second_server.host]), VALUES)
    with pytest.raises(ow.SourceError, match="not followed"):
        read_weight(f"{model_server.url}/d/m.onnx", allow_hosts=["127.0.0.1"])  # the server has another port
    monkeypatch.setenv("ONNXWIRE_ALLOW_HOSTS", second_server.host)
    np.testing.assert_array_equal(read_weight(f"{model_server.url}/d/m.onnx"), VALUES)


def test_a_redirect_back_from_an_allowed_host_is_refused(servers) -> None:
    model_server, second_server = servers
    model_server.state.redirects["/d/w.data"] = 302, f"{second_server.url}/d/w.data"
    second_server.state.redirects["/d/w.data"] = 302, f"{model_server.url}/d/m.onnx"
    with pytest.raises(ow.SourceError, match="not followed"):
        read_weight(f"{model_server.url}/d/m.onnx", allow_hosts=[second_server.host])


def test_external_data_that_is_opened_after_an_untrusted_load_is_untrusted_too(servers, tmp_path: Path) -> None:
    model_server, second_server = servers
    with ow.load(f"{model_server.url}/d/m.onnx", untrusted=True) as message:
        model_server.state.redirects["/d/w.data"] = 302, f"{second_server.url}/d/w.data"
        copied_message = ow.ModelProto()
        copied_message.CopyFrom(message)
        calls = {
            "numpy": message.graph.initializer[0].numpy,
            "numpy of a copy": copied_message.graph.initializer[0].numpy,
            "save": lambda: ow.save(message, tmp_path / "m.onnx", external=None),
            "save of a copy": lambda: ow.save(copied_message, tmp_path / "m.onnx", external="all.data"),
            "check": lambda: list(ow.check(message, checksums=True, untrusted=True)),
            "diff": lambda: list(ow.diff(message, copied_message)),
        }
        for name, call in calls.items():
            try:
                call()
            except ow.Error as error:
                assert "not followed" in str(error), name
            else:
                assert name in ("check", "diff"), name
    assert not second_server.state.requests
    assert os.listdir(tmp_path) == []


def test_the_environment_makes_all_models_untrusted_and_no_argument_overrides_it(servers, monkeypatch) -> None:
    model_server, second_server = servers
    model_server.state.redirects["/d/m.onnx"] = 302, f"{second_server.url}/d/m.onnx"
    for value in ("0", ""):
        monkeypatch.setenv("ONNXWIRE_UNTRUSTED", value)
        ow.load(f"{model_server.url}/d/m.onnx").close()
    second_server.state.requests.clear()
    for value in ("1", "true", "no"):  # any value except 0 and "" makes models untrusted, including misspelt values
        monkeypatch.setenv("ONNXWIRE_UNTRUSTED", value)
        with pytest.raises(ow.SourceError, match="not followed for untrusted models"):
            ow.load(f"{model_server.url}/d/m.onnx", untrusted=False)
    assert not second_server.state.requests


def test_check_of_an_untrusted_source_follows_no_redirect(servers) -> None:
    model_server, second_server = servers
    model_server.state.redirects["/d/m.onnx"] = 302, f"{second_server.url}/d/m.onnx"
    with pytest.raises(ow.SourceError, match="not followed for untrusted models"):
        ow.check(f"{model_server.url}/d/m.onnx", untrusted=True)
    assert not second_server.state.requests
    ow.check(f"{model_server.url}/d/m.onnx")


LOCATIONS = [
    "http://HOST/d/w.data",
    "//HOST/d/w.data",
    "../d/w.data",
    "/d/w.data",
    "w.data?url=http://HOST/",
    "a/../w.data",
]


@pytest.mark.parametrize("location", LOCATIONS)
def test_locations_of_a_remote_model_lead_to_no_other_server(servers, location: str) -> None:
    model_server, second_server = servers
    model_server.state.files["/d/m.onnx"] = Pieces(external_model_bytes(location.replace("HOST", second_server.host)))
    with pytest.raises((ow.ExternalDataError, ow.SourceError)):
        read_weight(f"{model_server.url}/d/m.onnx")
    assert not second_server.state.requests
    # Only the model is requested, or a file below its folder whose name looks like an address.
    paths = {request.path for request in model_server.state.requests} - {"/d/m.onnx"}
    assert all(path.startswith(("/d/http:", "/d/http%3A")) for path in paths), paths


@pytest.mark.parametrize("location", LOCATIONS)
def test_locations_of_a_local_model_lead_to_no_server(servers, location: str, tmp_path: Path) -> None:
    _, second_server = servers
    (tmp_path / "m.onnx").write_bytes(external_model_bytes(location.replace("HOST", second_server.host)))
    with pytest.raises((ow.ExternalDataError, ow.SourceError)):
        read_weight(tmp_path / "m.onnx")
    assert not second_server.state.requests


@pytest.mark.skipif(sys.platform == "win32", reason="needs links and pipes")
@pytest.mark.parametrize(
    "kind", ["link", "hard link", "folder link", "pipe", "device", "link to a device", "link to itself"]
)
def test_files_outside_of_the_folder_and_special_files_are_refused(kind: str, tmp_path: Path) -> None:
    folder, outside_folder = tmp_path / "model", tmp_path / "outside"
    folder.mkdir()
    outside_folder.mkdir()
    secret = outside_folder / "w.data"
    secret.write_bytes(VALUES.tobytes())
    location, data = "w.data", folder / "w.data"
    if kind == "link":
        data.symlink_to(secret)
    elif kind == "hard link":
        data.hardlink_to(secret)
    elif kind == "folder link":
        (folder / "sub").symlink_to(outside_folder)
        location = "sub/w.data"
    elif kind == "pipe":
        os.mkfifo(data)
    elif kind == "device":
        location = "/dev/zero"
    elif kind == "link to a device":
        data.symlink_to("/dev/zero")
    else:
        data.symlink_to("w.data")
    (folder / "m.onnx").write_bytes(external_model_bytes(location))
    with pytest.raises((ow.ExternalDataError, ow.SourceError)):
        read_weight(folder / "m.onnx")


def test_endpoints_whose_redirects_would_be_followed_are_refused(servers, monkeypatch) -> None:
    model_server, second_server = servers
    store_options = {"region": "us-east-1", "access_key_id": "key", "secret_access_key": "hunter2"}
    store_options["client_options"] = {"allow_http": True}
    address, data = "s3://bucket/d/m.onnx", model_server.state.files["/d/m.onnx"]
    model_server.state.files["/bucket/d/m.onnx"] = data
    for option in (
        {"endpoint": model_server.url},
        {"aws_endpoint_url": model_server.url},
        {"config": {"endpoint": model_server.url}},
    ):
        with pytest.raises(ow.SourceError, match="refused for untrusted models") as error_info:
            ow.load(address, storage_options=store_options | option, untrusted=True)
        assert "hunter2" not in str(error_info.value)
    with pytest.raises(ow.SourceError, match="refused for untrusted models"):
        ow.load(
            address,
            storage_options=store_options | {"endpoint": model_server.url},
            untrusted=True,
            allow_hosts=[second_server.host],
        )
    with pytest.raises(ow.SourceError, match="the setting endpoint is not the URL of a server"):
        ow.load(address, storage_options=store_options | {"endpoint": "nonsense"}, untrusted=True)
    monkeypatch.setenv("AWS_ENDPOINT_URL", model_server.url)
    with pytest.raises(ow.SourceError, match="AWS_ENDPOINT_URL"):
        ow.load(address, storage_options=store_options, untrusted=True)
    assert not model_server.state.requests
    ow.load(address, storage_options=store_options, untrusted=True, allow_hosts=[model_server.host]).close()
    ow.load(address, storage_options=store_options).close()


def test_untrusted_local_sources_are_read(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(external_model_bytes())
    (tmp_path / "w.data").write_bytes(VALUES.tobytes())
    np.testing.assert_array_equal(read_weight(path), VALUES)
    np.testing.assert_array_equal(read_weight(path.read_bytes(), external_data={"w.data": VALUES}), VALUES)
    with open(path, "rb") as file, ow.load(file, untrusted=True) as message:
        assert message.ir_version == 9


def test_the_rules_for_untrusted_models_fetch_less_than_a_megabyte() -> None:
    graph = ow.GraphProto(name="g")
    for i in range(20):
        graph.initializer.add(
            name=f"w{i}", data_type=ow.TensorProto.FLOAT, dims=[1 << 18], float_data=[1.5] * (1 << 18)
        )
    typed_model = ow.ModelProto(ir_version=8, opset_import=[{"version": 17}], graph=graph)
    files = {"raw.onnx": model([8 << 20] * 50, nodes=2000), "typed.onnx": typed_model.SerializeToString()}
    for name in files:
        with ObjectServer(files) as server:
            with ow.load(f"{server.url}/{name}", untrusted=True) as message:
                list(ow.check(message, untrusted=True))
            assert 0 < server.state.sent < 1_000_000, name
