"""Catalogs of models on servers: rows, requests, later builds, pruned models, credentials, and lists of folders."""

from __future__ import annotations

import tracemalloc
import urllib.request
from pathlib import Path

import pytest

import onnxwire
from onnxwire import catalog
from onnxwire.catalog.dataset import Dataset
from onnxwire.catalog.files import files_of
from onnxwire.catalog.models import State
from onnxwire.io.remote.address_listing import find_files

pq = pytest.importorskip("pyarrow.parquet")
pytest.importorskip("xxhash")
pytest.importorskip("obstore")

from catalogs import rows_of  # noqa: E402
from object_server import LATENCY, ObjectServer, Pieces  # noqa: E402
from served_models import model  # noqa: E402

MIB = 1 << 20


def all_bytes(pieces):
    """Return all bytes of a Pieces."""
    return pieces.read(0, pieces.size)


def sorted_rows(folder, table):
    """Return the rows of a table, sorted by model."""
    return sorted(rows_of(folder, table), key=lambda row: row["model"])


def all_rows(folder, prefix):
    """Return the rows of all tables, by table. Removes the given prefix from the names of models."""
    return {
        table: [row | {"model": row["model"].removeprefix(prefix)} for row in sorted_rows(folder, table)]
        for table in files_of(str(folder))
    }


@pytest.fixture
def zoo(tmp_path):
    """Return a folder of five models: three without external data, one with it, and one whose data file is missing."""
    folder = tmp_path / "zoo"
    (folder / "below").mkdir(parents=True)
    for number in range(3):
        (folder / "below" / f"a {number}.onnx").write_bytes(all_bytes(model([100, 2000 + number])))
    message = onnxwire.ModelProto.FromString(all_bytes(model([5000, 70_000])))
    onnxwire.save(message, folder / "complete.onnx", external="complete.data")
    onnxwire.save(message, folder / "missing_data.onnx", external="missing.data")
    (folder / "missing.data").unlink()
    return folder


def contents_by_path(folder):
    """Return the contents of the files below a folder, by relative path."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def s3():
    """Yield options for an S3 server with the bucket `catalogs`. All servers of a process share the same buckets."""
    moto = pytest.importorskip("moto.server")
    server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    urllib.request.urlopen(urllib.request.Request(f"http://{host}:{port}/catalogs", method="PUT")).close()
    yield {
        "endpoint": f"http://{host}:{port}",
        "region": "us-east-1",
        "access_key_id": "key",
        "secret_access_key": "hunter2",
        "client_options": {"allow_http": True},
    }
    server.stop()


def test_models_on_a_server_have_the_same_rows_as_on_a_disk(zoo, tmp_path):
    catalog.build([zoo], tmp_path / "local", hash=True, check=True, workers=1)
    with ObjectServer(contents_by_path(zoo)) as server:
        addresses = [f"{server.url}/{path.relative_to(zoo)}" for path in zoo.rglob("*.onnx")]
        summary = catalog.build(addresses, tmp_path / "out", hash=True, check=True, workers=2)
        prefix = f"{server.url}/"
    assert (summary.read, summary.failures) == (5, {})
    result, expected = all_rows(tmp_path / "out", prefix), all_rows(tmp_path / "local", f"{zoo}/")
    for table in expected:
        if table != "problems":  # messages of problems may contain an address or a path
            assert result[table] == expected[table], table
    assert [row["rule"] for row in result["problems"]] == [row["rule"] for row in expected["problems"]]
    assert {row["missing"] for row in result["tensors"] if row["model"] == "missing_data.onnx"} == {True}


def test_weights_are_not_fetched_unless_they_are_hashed(tmp_path):
    pieces = model([20 * MIB] * 4, nodes=200)
    with ObjectServer({"m.onnx": pieces}, LATENCY) as server:
        catalog.build([f"{server.url}/m.onnx"], tmp_path / "out", workers=1)
        assert server.state.sent < MIB
        assert len(server.state.requests) <= 16
        server.state.reset()
        catalog.build([f"{server.url}/m.onnx"], tmp_path / "out", workers=1, hash=True)
        assert server.state.sent < pieces.size * 1.05
    assert len({row["hash"] for row in sorted_rows(tmp_path / "out", "tensors")}) == 1  # all weights are equal


def test_models_with_the_same_etag_or_modification_time_are_not_read_again(zoo, tmp_path):
    out = tmp_path / "out"
    with ObjectServer(contents_by_path(zoo)) as server:
        addresses = [f"{server.url}/{path.relative_to(zoo)}" for path in zoo.rglob("*.onnx")]
        catalog.build(addresses, out, workers=1)
        server.state.reset()
        summary = catalog.build(addresses, out, workers=1)
        assert (summary.read, summary.unchanged) == (0, 5)
        # One byte was fetched of each of the five models and of the existing external file, to compare their ETags. The
        # seventh request was for the missing external file.
        assert (len(server.state.requests), server.state.sent) == (7, 6)
        server.state.etag = '"two"'
        assert catalog.build(addresses, out, workers=1).read == 5
        server.state.etag = None
        assert catalog.build(addresses, out, workers=1).read == 5
        assert catalog.build(addresses, out, workers=1).unchanged == 5  # without ETags, modification times are compared
        server.state.modified = "Tue, 03 Jun 2025 10:00:00 GMT"
        assert catalog.build(addresses, out, workers=1).read == 5


def test_a_model_is_read_again_when_its_missing_external_file_appears(zoo, tmp_path):
    out = tmp_path / "out"
    files = contents_by_path(zoo)
    with ObjectServer(files) as server:
        address = f"{server.url}/missing_data.onnx"
        catalog.build([address], out, workers=1, hash=True)
        assert {(row["missing"], row["hash"]) for row in sorted_rows(out, "tensors") if row["location"]} == {
            (True, None)
        }
        server.state.files["/missing.data"] = Pieces(files["complete.data"])
        assert catalog.build([address], out, workers=1, hash=True).read == 1
        assert all(row["hash"] and not row["missing"] for row in sorted_rows(out, "tensors") if row["location"])
        assert catalog.build([address], out, workers=1, hash=True).unchanged == 1


def test_a_failed_request_for_a_model_neither_ends_the_build_nor_removes_the_model(zoo, tmp_path):
    out = tmp_path / "out"
    with ObjectServer(contents_by_path(zoo)) as server:
        addresses = [
            f"{server.url}/complete.onnx",
            f"{server.url}/none.onnx",
            zoo / "missing_data.onnx",
            tmp_path / "none.onnx",
        ]
        summary = catalog.build(addresses, out, workers=1)
        assert summary.read == 2
        assert sorted(summary.failures) == sorted([f"{server.url}/none.onnx", str(tmp_path / "none.onnx")])
        assert "no such file" in summary.failures[f"{server.url}/none.onnx"]
        assert len(sorted_rows(out, "failures")) == 2
        del server.state.files["/complete.onnx"]
        server.state.reset()
        # No source is on the server, so only the missing local model is pruned.
        assert catalog.build([zoo / "missing_data.onnx"], out, workers=1, prune=True).pruned == 1
        assert not server.state.requests
        sources = [zoo / "missing_data.onnx", f"{server.url}/below/a 0.onnx"]
        assert catalog.build(sources, out, workers=1).read == 1
        # Two models are missing on the server. The one that the server answers with 403 is pruned by the next build.
        server.state.faults = {len(server.state.requests) + 1: "403"}
        assert catalog.build(sources, out, workers=1, prune=True).pruned == 1
        assert catalog.build(sources, out, workers=1, prune=True).pruned == 1
    assert [Path(row["model"]).name for row in sorted_rows(out, "models")] == ["missing_data.onnx", "a 0.onnx"]
    assert not sorted_rows(out, "failures")


def test_names_in_a_catalog_that_are_not_addresses_of_files_are_not_pruned(zoo, tmp_path):
    out = tmp_path / "out"
    with ObjectServer(contents_by_path(zoo)) as server:
        sources = [f"{server.url}/complete.onnx", "http://[x/m.onnx"]
        catalog.build(sources, out, workers=1)
        host = server.url.removeprefix("http://")
        # The address of a folder, an invalid address, and an address whose host, `other` or this server, depends on the
        # parser. The host `other` must not be contacted.
        names = [f"{server.url}/", "http://[y/m.onnx", f"http://other\\@{host}/m.onnx"]
        with Dataset(str(out)) as data:
            data.change(dict.fromkeys(names, State(size=1, mark=None, hashed=False, checked=False, files={})), {})
        server.state.reset()
        assert catalog.build(sources, out, workers=1, prune=True).pruned == 0
        assert {request.path for request in server.state.requests} == {"/complete.onnx", "/complete.data"}


def test_no_credential_is_in_a_catalog_or_its_summary(zoo, tmp_path):
    out = tmp_path / "out"
    with ObjectServer(contents_by_path(zoo)) as server:
        host = server.url.removeprefix("http://")
        signed_address = f"http://user:hunter2@{host}/complete.onnx?signature=hunter2"
        summary = catalog.build([signed_address, f"http://{host}/?signature=hunter2"], out, workers=1)
        assert summary.read == 1
        assert [row["model"] for row in sorted_rows(out, "models")] == [f"{server.url}/complete.onnx"]
        assert catalog.build([signed_address], out, workers=1).unchanged == 1
        similar_addresses = [f"{server.url}/complete.onnx?id=1", f"{server.url}/complete.onnx?id=2"]
        assert "differ only" in next(
            iter(catalog.build(similar_addresses, tmp_path / "both", workers=1).failures.values())
        )
    assert not [path for path in out.rglob("*") if path.is_file() and b"hunter2" in path.read_bytes()]
    assert "hunter2" not in str(summary)


def test_models_in_a_bucket_are_found_by_folder_and_pattern(zoo, tmp_path, s3):
    from obstore.store import from_url

    store = from_url("s3://catalogs", **s3)
    for name, data in contents_by_path(zoo).items():
        store.put(f"zoo/{name}", data)
    store.put("zoo of others/x.onnx", b"")
    prefix = "s3://catalogs/zoo/"
    addresses_below = [f"{prefix}below/a {number}.onnx" for number in range(3)]
    models_by_source = {
        "s3://catalogs/zoo/": [*addresses_below, f"{prefix}complete.onnx", f"{prefix}missing_data.onnx"],
        "s3://catalogs/zoo": [*addresses_below, f"{prefix}complete.onnx", f"{prefix}missing_data.onnx"],
        "s3://catalogs/zoo/*.onnx": [f"{prefix}complete.onnx", f"{prefix}missing_data.onnx"],
        "s3://catalogs/**/a ?.onnx": addresses_below,
        "s3://catalogs/zoo/below/a [12].onnx": addresses_below[1:],
        "s3://catalogs/zoo/complete.onnx": [f"{prefix}complete.onnx"],
    }
    for number, (source, expected) in enumerate(models_by_source.items()):
        out = tmp_path / str(number)
        summary = catalog.build([source], out, workers=1, storage_options=s3)
        assert not summary.failures
        assert [row["model"] for row in sorted_rows(out, "models")] == expected, source
        # A listing reports the same ETag of a file as a response for the file, so no file is read again.
        assert catalog.build(expected, out, workers=1, storage_options=s3).unchanged == len(expected)
    for source in ("s3://catalogs/none/", "s3://catalogs/none", "s3://catalogs/zoo/*.onn", "s3://no-such-bucket/"):
        with pytest.raises(onnxwire.SourceError):
            catalog.build([source], tmp_path / "none", storage_options=s3)
    assert not (tmp_path / "none").exists()


def test_servers_without_listings_are_reported(zoo, tmp_path):
    with ObjectServer(contents_by_path(zoo)) as server:
        for source in (f"{server.url}/", f"{server.url}/*.onnx"):
            with pytest.raises(onnxwire.SourceError, match="does not list folders"):
                catalog.build([source], tmp_path / "out")


def multistatus(*files):
    """Return the WebDAV response that lists files with their sizes, and the folder /zoo/below/."""
    template = "<d:response><d:href>{}</d:href><d:propstat><d:prop>{}</d:prop></d:propstat></d:response>"
    size_template = "<d:getcontentlength>{}</d:getcontentlength>"
    entries = [template.format(path, size_template.format(n_bytes)) for path, n_bytes in files]
    entries.append(template.format("/zoo/below/", "<d:resourcetype><d:collection/></d:resourcetype>"))
    return f'<?xml version="1.0"?><d:multistatus xmlns:d="DAV:">{"".join(entries)}</d:multistatus>'.encode()


def test_models_in_a_folder_that_a_server_lists_are_read(tmp_path):
    data = all_bytes(model([100]))
    with ObjectServer({"zoo/a b.onnx": data, "zoo/below/c.onnx": data, "other/d.onnx": data}) as server:
        server.state.folder_list = multistatus(
            ("/zoo/a%20b.onnx", len(data)), (f"{server.url}/zoo/below/c.onnx", len(data)), ("/zoo/text.txt", 5)
        )
        for number, source in enumerate((f"{server.url}/zoo/", f"{server.url}/zoo/**/*.onnx")):
            summary = catalog.build([source], tmp_path / str(number), workers=1)
            assert not summary.failures
            names = [row["model"] for row in sorted_rows(tmp_path / str(number), "models")]
            assert names == [f"{server.url}/zoo/a%20b.onnx", f"{server.url}/zoo/below/c.onnx"]


def test_a_list_of_deeply_nested_folders_takes_little_memory(tmp_path):
    """The server lists folders nested so deeply that a recursive search would overflow the stack."""
    data = all_bytes(model([100]))
    with ObjectServer({"zoo/a/m.onnx": data, "zoo/x/x/m.onnx": data}) as server:
        nested_files = [("/zoo/" + "x/" * 20_000 + "t.txt", 5), ("/zoo/" + "x/" * 200 + "a.o", 5)]
        server.state.folder_list = multistatus(
            *nested_files, ("/zoo/a/m.onnx", len(data)), ("/zoo/x/x/m.onnx", len(data))
        )
        prefix = f"{server.url}/zoo"
        addresses = [f"{prefix}/a/m.onnx", f"{prefix}/x/x/m.onnx"]
        patterns = {
            "**/*.onnx": addresses,
            "**/**/**/**/**/**/**/*.onnx": addresses,
            "**/x/**/x/**/*.onnx": addresses[1:],
        }
        patterns |= {
            "*/*.onnx": addresses[:1],
            "[a]/m.onnx/**": addresses[:1],
            "**/x/**": addresses[1:],
            "a/**/m.onnx": addresses[:1],
        }
        for pattern, expected in patterns.items():
            tracemalloc.start()
            listing = find_files([f"{prefix}/{pattern}"])[0]
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            names = [] if isinstance(listing, onnxwire.SourceError) else [name for name, _ in listing]
            assert [name for name in names if name.endswith(".onnx")] == expected, pattern
            assert peak < 20 * MIB, (pattern, peak)


def test_a_list_that_names_no_file_of_the_folder_is_an_error(tmp_path):
    """The list names files in other folders or on other hosts, has empty names or invalid sizes, is not a list, or
    would expand to more bytes than fit into memory."""
    # Entities a to m. Each of them, except a, consists of ten references to the previous entity.
    entity_bomb = b"".join(
        b'<!ENTITY %c "%s">' % (c, b"&%c;" % (c - 1) * 10 if c > 97 else b"a" * 10) for c in range(97, 110)
    )
    lists = [
        multistatus(("/other/d.onnx", 5), ("/zoo/../other/d.onnx", 5), ("/zoo/%2e%2e/other/d.onnx", 5)),
        multistatus(("http://127.0.0.1:1/other/d.onnx", 5), ("/zoo//d.onnx", 5), ("/zoo/", 5), ("", 5)),
        multistatus(("/zoo/d.onnx", -1), ("/zoo/e.onnx", "many"), ("/zoo/f.onnx", 10**30)),
        b"", b"<", b"<html></html>", b"\xff\xfe", b"<!DOCTYPE x [" + entity_bomb + b"]><x>&m;</x>", b"<a>" * 100_000,
    ]  # fmt: skip
    with ObjectServer({"zoo/m.onnx": b"", "other/d.onnx": b""}) as server:
        for listing in lists:
            server.state.folder_list = listing
            with pytest.raises(onnxwire.SourceError):
                catalog.build([f"{server.url}/zoo/"], tmp_path / "out", workers=1)
            assert {request.method for request in server.state.requests} == {"PROPFIND"}
