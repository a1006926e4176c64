"""Models on the Hugging Face Hub: addresses, redirects to signed addresses, tokens, caches, lists of files, saving."""

from __future__ import annotations

import errno
import os

import numpy as np
import pytest
from fake_hub import COMMIT, TOKEN, FakeHub
from served_models import model

import onnxwire as ow
from onnxwire.io.remote import file as remote_file
from onnxwire.io.remote.address import parse_address
from onnxwire.io.remote.address_listing import find_files, versions_of
from onnxwire.io.remote.hub_address import parse_hub_file

MODEL_PIECES = model([100_000, 5_000_000, 70_000, 300_000])
DATA = MODEL_PIECES.read(0, MODEL_PIECES.size)
SMALL_MODEL = model([100], nodes=3).read(0, model([100], nodes=3).size)
OTHER_COMMIT = COMMIT[::-1]
REPOSITORY = "some-org/some.model"


@pytest.fixture(autouse=True)
def isolated_home(monkeypatch, tmp_path):
    """Hide the user's token and cache of the Hub."""
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_TOKEN_PATH", "HF_HUB_CACHE", "HF_HUB_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))


@pytest.fixture
def fake_hub(monkeypatch):
    """Start a fake Hub with models in one repository. The weight of onnx/x.onnx is stored in the file onnx/w.data."""
    message = ow.ModelProto(ir_version=9)
    tensor = message.graph.initializer.add(
        name="w", data_type=ow.TensorProto.UINT8, dims=[len(DATA)], data_location=ow.TensorProto.EXTERNAL
    )
    tensor.external_data.add(key="location", value="w.data")
    files = {
        "m.onnx": DATA,
        "onnx/small.onnx": SMALL_MODEL,
        "onnx/x.onnx": message.SerializeToString(),
        "onnx/w.data": DATA,
    }
    with FakeHub({REPOSITORY: files | {"README.md": b"text", "a%2Fb @1.onnx": DATA}}) as server:
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        yield server


def read_all(address: str, **options) -> int:
    """Read all tensors of the model DATA from an address. Return the number of requests for the file."""
    with ow.load(address, **options) as message:
        assert [tensor.numpy().nbytes for tensor in message.graph.initializer] == [100_000, 5_000_000, 70_000, 300_000]
        return message._document.memory.source.requests


def test_an_address_names_repository_revision_and_path() -> None:
    assert parse_hub_file("hf://a/b/c/d.onnx") == ("a/b", "main", "c/d.onnx")
    assert parse_hub_file("hf://a/b@v1.0/d@e.onnx") == ("a/b", "v1.0", "d@e.onnx")
    assert parse_hub_file("hf://a/b@refs%2Fpr%2F1/d.onnx") == ("a/b", "refs/pr/1", "d.onnx")
    assert parse_hub_file("hf://a/b@refs/pr/1/d.onnx") == ("a/b", "refs/pr/1", "d.onnx")
    assert parse_hub_file("hf://a/b") == ("a/b", "main", "")
    address = parse_address("hf://a/b@refs/pr/1/d%2F e.onnx")
    assert address.key == "/a/b/resolve/refs%2Fpr%2F1/d%252F%20e.onnx"
    assert address.shown == "hf://a/b@refs%2Fpr%2F1/d%2F e.onnx"
    assert address.beside("x/y").key == "/a/b/resolve/refs%2Fpr%2F1/x/y"


@pytest.mark.parametrize(
    "address",
    [
        "hf://", "hf://a", "hf://a/b", "hf://a/b/", "hf://../b/m", "hf://a/../m", "hf://a/b/../m", "hf://a/b/c/./m",
        "hf://a/b@../m", "hf://a/b@%2e%2e/m", "hf://a/b@a%2F..%2Fc/m", "hf://a/b@/m", "hf://a/b@%00/m", "hf://a/b@%ff/m",
        "hf://a/b@x%0d%0aHost:y/m", "hf://a@b/c/m", "hf://a:b@c/d/m", "hf://a--b/c/m", "hf://a/b..c/m", "hf://a/b c/m",
        "hf://a/b\0/m", "hf://a/b/m\n", "hf://a/b//m", "hf://a%2F/b/m", "hf://a/b?x/m", "hf://datasets/a/b/m",
        "hf://a/b@-x/m", "hf://a/b@" + "x" * 300 + "/m", "hf://\ud800/b/m",
    ],
)  # fmt: skip
def test_an_invalid_address_is_refused_without_a_request(address, fake_hub) -> None:
    with pytest.raises(ow.SourceError) as error_info:
        ow.load(address)
    assert error_info.value.errno == errno.EINVAL
    assert not fake_hub.hub.requests


def test_diff_does_not_fetch_all_bytes_of_files_with_equal_sha256(fake_hub) -> None:
    fake_hub.hub.files[REPOSITORY] |= {"copy.onnx": DATA, "other.onnx": DATA[:-1] + bytes([DATA[-1] ^ 1])}
    assert list(ow.diff(f"hf://{REPOSITORY}/m.onnx", f"hf://{REPOSITORY}/copy.onnx")) == []
    assert sum(request.sent for request in fake_hub.hub.requests_to("cdn")) < 1 << 19
    assert list(ow.diff(f"hf://{REPOSITORY}/m.onnx", f"hf://{REPOSITORY}/other.onnx")) != []


def test_an_untrusted_model_is_redirected_only_to_allowed_hosts(fake_hub) -> None:
    address = f"hf://{REPOSITORY}/m.onnx"
    with pytest.raises(ow.SourceError, match="not followed for untrusted models"):
        ow.load(address, untrusted=True)
    cdn = fake_hub.hub.cdn.removeprefix("http://")
    read_all(address, untrusted=True, allow_hosts=[cdn])
    ow.load(f"hf://{REPOSITORY}/onnx/small.onnx", untrusted=True).close()  # the Hub does not redirect small files
    message = ow.load(f"hf://{REPOSITORY}/onnx/x.onnx", untrusted=True)
    with pytest.raises(ow.SourceError, match="not followed for untrusted models"):
        message.graph.initializer[0].numpy()


def test_a_model_is_read_with_one_redirect(fake_hub) -> None:
    fake_hub.hub.lifetime = 1000
    n_requests = read_all(f"hf://{REPOSITORY}/m.onnx")
    assert [request.path for request in fake_hub.hub.requests_to("hub")] == [f"/{REPOSITORY}/resolve/main/m.onnx"]
    assert len(fake_hub.hub.requests_to("cdn")) == n_requests
    assert all(request.headers["if-match"] == '"of-the-cdn"' for request in fake_hub.hub.requests_to("cdn")[1:])


def test_expired_addresses_are_renewed_for_the_commit_of_the_open_model(fake_hub) -> None:
    fake_hub.hub.lifetime = 1000
    with ow.load(f"hf://{REPOSITORY}/m.onnx") as message:
        fake_hub.hub.expiry_times.clear()
        fake_hub.hub.revisions["main"] = OTHER_COMMIT  # a new commit must not affect the open model
        assert message.graph.initializer[1].numpy().nbytes == 5_000_000
    paths = [request.path for request in fake_hub.hub.requests_to("hub")]
    assert paths == [f"/{REPOSITORY}/resolve/main/m.onnx", f"/{REPOSITORY}/resolve/{COMMIT}/m.onnx"]


def test_signed_addresses_that_are_always_expired_are_an_error(fake_hub) -> None:
    fake_hub.hub.lifetime = -1
    with pytest.raises(ow.SourceError, match="denies access") as error_info:
        ow.load(f"hf://{REPOSITORY}/m.onnx")
    assert "signature" not in str(error_info.value) and len(fake_hub.hub.requests) <= 3


def test_a_small_file_is_read_from_the_hub(fake_hub) -> None:
    with ow.load(f"hf://{REPOSITORY}/onnx/small.onnx") as message:
        assert len(message.graph.node) == 3
    assert not fake_hub.hub.requests_to("cdn")


def test_external_data_is_read_from_the_commit_of_the_model(fake_hub) -> None:
    with ow.load(f"hf://{REPOSITORY}@main/onnx/x.onnx") as message:
        np.testing.assert_array_equal(message.graph.initializer[0].numpy(), np.frombuffer(DATA, np.uint8))
        assert ow.tensors(message)[0].file == f"hf://{REPOSITORY}@{COMMIT}/onnx/w.data"
    assert f"/{REPOSITORY}/resolve/{COMMIT}/onnx/w.data" in [
        request.path for request in fake_hub.hub.requests_to("hub")
    ]


def test_the_token_is_sent_to_the_hub_only(fake_hub, monkeypatch, tmp_path) -> None:
    fake_hub.hub.is_private = True
    with pytest.raises(ow.SourceError, match="denies access"):
        ow.load(f"hf://{REPOSITORY}/m.onnx")
    monkeypatch.setenv("ONNXWIRE_HTTP_HEADERS", "X-Secret: x")
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    read_all(f"hf://{REPOSITORY}/m.onnx")
    monkeypatch.delenv("HF_TOKEN")
    os.makedirs(tmp_path / "home")
    (tmp_path / "home" / "token").write_text(f"{TOKEN}\n")
    read_all(f"hf://{REPOSITORY}/m.onnx")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "none"))
    read_all(f"hf://{REPOSITORY}/m.onnx", storage_options={"token": TOKEN})
    for request in fake_hub.hub.requests_to("cdn"):
        assert TOKEN not in str(request.headers) and "authorization" not in request.headers
    assert all("x-secret" not in request.headers for request in fake_hub.hub.requests)


@pytest.mark.parametrize("token", ["a\nb", "ä€", "a\0b"])
def test_an_invalid_token_is_an_error_that_does_not_contain_it(token, fake_hub) -> None:
    with pytest.raises(ow.SourceError) as error_info:
        ow.load(f"hf://{REPOSITORY}/m.onnx", storage_options={"token": token, "retry_config": {"max_retries": 0}})
    assert token not in str(error_info.value)


@pytest.mark.parametrize(
    ("headers", "reason"),
    [
        ({"X-Linked-Size": "5"}, "the Hub reports 5 bytes"),
        ({"Location": "ftp://127.0.0.1/x"}, "not plain http"),
        ({"Location": "http://u:p@127.0.0.1/x"}, "not plain http"),
        ({"Location": ""}, "without a Location"),
        ({"Location": f"/{REPOSITORY}/resolve/main/m.onnx"}, "loop"),
    ],
)
def test_an_invalid_redirect_of_the_hub_is_an_error(headers, reason, fake_hub) -> None:
    fake_hub.hub.redirect_headers = headers
    with pytest.raises(ow.SourceError, match=reason):
        ow.load(f"hf://{REPOSITORY}/m.onnx")


@pytest.mark.parametrize("name", ["X-Linked-Etag", "X-Linked-Size", "X-Repo-Commit"])
@pytest.mark.parametrize("value", ["", "nonsense\\", '"' + "x" * 5000 + '"'])
def test_a_model_is_read_despite_missing_and_unusual_headers(name, value, fake_hub) -> None:
    fake_hub.hub.redirect_headers = {name: value}
    read_all(f"hf://{REPOSITORY}/m.onnx")


def test_a_file_that_changes_on_its_branch_is_an_error(fake_hub) -> None:
    fake_hub.hub.redirect_headers = {"X-Repo-Commit": ""}
    with ow.load(f"hf://{REPOSITORY}/m.onnx") as message:
        fake_hub.hub.expiry_times.clear()
        fake_hub.hub.files[REPOSITORY]["m.onnx"] = DATA[:-1] + b"\1"
        with pytest.raises(ow.SourceError, match="was changed"):
            message.graph.initializer[1].numpy()


def write_hub_cache(tmp_path, files: dict[str, bytes], commit: str = COMMIT, ref: str | None = "main"):
    """Write files to a local cache in the layout of huggingface_hub. Return the repository's folder.

    ref: the branch that refers to the commit, or None.
    """
    folder = tmp_path / "home" / "hub" / ("models--" + REPOSITORY.replace("/", "--"))
    (folder / "blobs").mkdir(parents=True, exist_ok=True)
    (folder / "refs").mkdir(exist_ok=True)
    if ref:
        (folder / "refs" / ref).write_text(commit)
    for name, data in files.items():
        path = folder / "snapshots" / commit / name
        path.parent.mkdir(parents=True, exist_ok=True)
        (folder / "blobs" / str(len(data))).write_bytes(data)
        path.symlink_to(os.path.relpath(folder / "blobs" / str(len(data)), path.parent))
    return folder


def test_a_cached_commit_needs_no_request(fake_hub, tmp_path) -> None:
    write_hub_cache(tmp_path, {"m.onnx": DATA})
    with ow.load(f"hf://{REPOSITORY}@{COMMIT}/m.onnx") as message:
        assert message._document.memory is None and message.graph.initializer[1].numpy().nbytes == 5_000_000
    assert not fake_hub.hub.requests


def test_a_cached_branch_needs_one_request(fake_hub, tmp_path) -> None:
    write_hub_cache(tmp_path, {"m.onnx": DATA})
    with ow.load(f"hf://{REPOSITORY}/m.onnx") as message:
        assert message._document.memory is None
    assert [request.status for request in fake_hub.hub.requests] == [302]
    fake_hub.hub.revisions |= {"main": OTHER_COMMIT, OTHER_COMMIT: OTHER_COMMIT}
    read_all(f"hf://{REPOSITORY}/m.onnx")


def test_external_data_comes_from_the_cache_or_the_hub(fake_hub, tmp_path) -> None:
    files = fake_hub.hub.files[REPOSITORY]
    folder = write_hub_cache(tmp_path, {"onnx/x.onnx": files["onnx/x.onnx"], "onnx/w.data": DATA})
    with ow.load(f"hf://{REPOSITORY}@{COMMIT}/onnx/x.onnx") as message:
        assert message.graph.initializer[0].numpy().tobytes() == DATA
    assert not fake_hub.hub.requests
    (folder / "snapshots" / COMMIT / "onnx" / "w.data").unlink()
    with ow.load(f"hf://{REPOSITORY}@{COMMIT}/onnx/x.onnx") as message:
        assert message.graph.initializer[0].numpy().tobytes() == DATA
    assert fake_hub.hub.requests_to("cdn")


def test_offline_only_the_cache_is_read(fake_hub, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    write_hub_cache(tmp_path, {"m.onnx": DATA})
    with ow.load(f"hf://{REPOSITORY}/m.onnx") as message:
        assert len(message.graph.initializer) == 4
    with pytest.raises(ow.SourceError, match="HF_HUB_OFFLINE"):
        ow.load(f"hf://{REPOSITORY}/onnx/small.onnx")
    assert not fake_hub.hub.requests


@pytest.mark.parametrize("kind", ["file", "folder", "refs", "relative path", "pipe"])
def test_pipes_and_links_out_of_the_cache_are_not_read(kind, fake_hub, tmp_path) -> None:
    folder_outside = tmp_path / "elsewhere"
    folder_outside.mkdir()
    (folder_outside / "m.onnx").write_bytes(SMALL_MODEL)
    folder = write_hub_cache(tmp_path, {}, COMMIT)
    snapshot = folder / "snapshots" / COMMIT
    snapshot.mkdir(parents=True)
    if kind == "file":
        (snapshot / "m.onnx").symlink_to(folder_outside / "m.onnx")
    elif kind == "folder":
        snapshot.rmdir()
        snapshot.symlink_to(folder_outside)
    elif kind == "pipe":
        os.mkfifo(snapshot / "m.onnx")
    elif kind == "refs":
        (folder_outside / "main").write_text("../../../../elsewhere")
        (folder / "refs" / "main").unlink()
        (folder / "refs" / "main").symlink_to(folder_outside / "main")
    else:
        (snapshot / "m.onnx").symlink_to("../../../../../elsewhere/m.onnx")
    read_all(f"hf://{REPOSITORY}@{COMMIT}/m.onnx")
    read_all(f"hf://{REPOSITORY}/m.onnx")
    assert fake_hub.hub.requests_to("cdn")


def test_listings_contain_the_matching_files_and_their_versions(fake_hub) -> None:
    pytest.importorskip("huggingface_hub")
    (all_files,) = find_files([f"hf://{REPOSITORY}"])
    assert [name for name, _ in all_files] == [
        f"hf://{REPOSITORY}/{name}" for name in ("m.onnx", "onnx/small.onnx", "onnx/x.onnx", "a%2Fb @1.onnx")
    ]
    versions = versions_of([parse_address(name) for name, _ in all_files])
    assert versions == [version for _, version in all_files]
    (files_below,) = find_files([f"hf://{REPOSITORY}@{COMMIT}/onnx/"])
    assert [name for name, _ in files_below] == [
        f"hf://{REPOSITORY}@{COMMIT}/onnx/{name}.onnx" for name in ("small", "x")
    ]
    (files_by_pattern,) = find_files([f"hf://{REPOSITORY}/**/s*.onnx"])
    assert [name for name, _ in files_by_pattern] == [f"hf://{REPOSITORY}/onnx/small.onnx"]
    errors = find_files(["hf://some-org/none", f"hf://{REPOSITORY}@none", "hf://some-org"])
    assert all(isinstance(error, ow.SourceError) for error in errors), errors


@pytest.mark.normal_build
def test_the_range_cache_stores_files_of_the_hub(fake_hub, tmp_path) -> None:
    assert read_all(f"hf://{REPOSITORY}/m.onnx", cache=tmp_path / "ranges") > 1
    fake_hub.hub.requests.clear()
    assert read_all(f"hf://{REPOSITORY}/m.onnx", cache=tmp_path / "ranges") == 1


def test_saving_to_the_hub_is_refused_without_a_request(fake_hub) -> None:
    with pytest.raises(ow.SaveError, match="not written"):
        ow.save(ow.ModelProto(ir_version=9), f"hf://{REPOSITORY}/new.onnx")
    assert not fake_hub.hub.requests


def test_concurrent_requests_renew_an_address_once(fake_hub, monkeypatch) -> None:
    monkeypatch.setattr(remote_file, "CHUNK_BYTES", 1 << 17)
    fake_hub.hub.lifetime = 1000
    with ow.load(f"hf://{REPOSITORY}/m.onnx") as message:
        tensor = message.graph.initializer[1]
        fake_hub.hub.expiry_times.clear()
        assert tensor.numpy().nbytes == 5_000_000
    assert len(fake_hub.hub.requests_to("hub")) == 2
