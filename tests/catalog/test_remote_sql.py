"""Queries of catalogs and models on servers: results, requests, errors, hostile servers, and credentials."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from catalogs import small_model
from object_server import ObjectServer, Pieces

import onnxwire
from onnxwire import catalog
from onnxwire.catalog.files import JOURNAL
from onnxwire.errors import QueryError

duckdb = pytest.importorskip("duckdb")
pytest.importorskip("fsspec")
QUERIES = (
    "select model, nodes from models order by 1",
    "select type, sum(n) from operators group by 1 order by 2 desc, 1",
    "select count(*) from tensors",
    "describe values",
    "select model, error from failures",
)


@pytest.fixture(scope="module")
def catalog_folder(tmp_path_factory):
    """Return a catalog of thirteen models, of which one was replaced and one is invalid."""
    folder = tmp_path_factory.mktemp("remote")
    models = folder / "models"
    models.mkdir()
    for i in range(12):
        (models / f"{i}.onnx").write_bytes(small_model(i))
    (models / "bad.onnx").write_bytes(b"\xff")  # an incomplete tag
    catalog.build([models], folder / "out", workers=1)
    (models / "1.onnx").write_bytes(small_model(1, "Neg") + b"\x12\x01x")  # with the producer_name "x"
    catalog.build([models], folder / "out", workers=1)
    assert any(removed for removed in catalog.files_of(folder / "out")["models"].values())
    return folder / "out"


def contents_by_path(folder) -> dict[str, bytes]:
    """Return the contents of the files below a folder, by path on the server."""
    return {f"zoo/{path.relative_to(folder)}": path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def server(catalog_folder):
    """Yield a server that has the catalog in its folder zoo."""
    with ObjectServer(contents_by_path(catalog_folder)) as object_server:
        yield object_server


@pytest.mark.parametrize("query", QUERIES)
def test_a_catalog_on_a_server_has_the_rows_of_the_local_one(query, catalog_folder, server) -> None:
    expected = onnxwire.sql(catalog_folder, query).fetchall()
    assert onnxwire.sql(f"{server.url}/zoo", query).fetchall() == expected
    assert onnxwire.sql(f"{server.url}/zoo/", query).fetchall() == expected


def test_a_query_requests_the_journal_and_the_files_of_its_tables(server) -> None:
    onnxwire.sql(f"{server.url}/zoo", "select sum(nodes) from models").fetchall()
    paths = [request.path for request in server.state.requests]
    assert paths[0] == f"/zoo/{JOURNAL}"
    assert len(paths) == 3  # each of the two files of `models` is read by one request
    assert all(path.startswith("/zoo/models/") for path in paths[1:])


def test_columns_of_long_files_are_read_in_ranges(tmp_path) -> None:
    import pyarrow as pa

    from onnxwire.catalog.dataset import Dataset
    from onnxwire.catalog.models import State
    from onnxwire.catalog.read import arrow_schema

    names = [f"/m/{i}.onnx" for i in range(20_000)]
    schema = arrow_schema("models")
    columns = {field.name: pa.nulls(len(names), field.type) for field in schema}
    columns |= {"model": pa.array(names), "nodes": pa.array(range(len(names)), pa.int64())}
    # The hexadecimal multiples of a large number compress badly, so that the file is long.
    columns["producer_name"] = pa.array([f"{i * 2654435761:x}" * 4 for i in range(len(names))])
    with Dataset(str(tmp_path / "out")) as data:
        data.change(dict.fromkeys(names, State(1, 1, False, False, {})), {"models": pa.table(columns, schema=schema)})
    with ObjectServer(contents_by_path(tmp_path / "out")) as server:
        sums = onnxwire.sql(f"{server.url}/zoo", "select sum(nodes) from models where model < '/m/2'").fetchall()
        assert sums == [(sum(i for i in range(20_000) if str(i) < "2"),)]
        size = server.state.files[next(name for name in server.state.files if "/models/" in name)].size
        assert server.state.sent < size * 3 // 4
        assert len(server.state.requests) <= 8


def test_a_folder_without_a_catalog_is_an_error(server) -> None:
    with pytest.raises(onnxwire.SourceError, match="contains no catalog"):
        onnxwire.sql(f"{server.url}/elsewhere/", "from models")
    with pytest.raises(onnxwire.SourceError, match="no such file"):
        onnxwire.sql(f"{server.url}/elsewhere", "from models")


def test_a_read_only_query_of_a_catalog_is_an_error(server) -> None:
    with pytest.raises(onnxwire.SourceError, match="reads one model"):
        onnxwire.sql(f"{server.url}/zoo", "from models", read_only=True)


def test_an_address_of_a_model_is_queried_as_a_model(server) -> None:
    server.state.files |= {"/m.onnx": Pieces(small_model(7)), "/plain": Pieces(small_model(7))}
    # Some servers return the same file for an address and all addresses below it, or a page for missing files.
    server.state.files[f"/same/{JOURNAL}"] = server.state.files["/same"] = Pieces(small_model(7))
    server.state.files[f"/page/{JOURNAL}"] = Pieces(b"<html>\n" * 100_000)
    server.state.files["/page"] = Pieces(small_model(7))
    for name in ("m.onnx", "plain", "plain?id=/x", "same", "page"):
        assert onnxwire.sql(f"{server.url}/{name}", "select op_type from nodes").fetchall() == [("Relu",)]


def damage(server, catalog_folder, table, data=None) -> str:
    """Replace a file on the server by `data`, or delete it if `data` is None. Return the file's path on the server.

    table: JOURNAL for the journal, or the name of a table, of which one file is replaced or deleted.
    """
    path = catalog_folder / table if table == JOURNAL else min(catalog.files_of(catalog_folder)[table])
    name = f"/zoo/{Path(path).relative_to(catalog_folder)}"
    if data is None:
        del server.state.files[name]
    else:
        server.state.files[name] = Pieces(data)
    return name


def test_a_missing_file_is_named(server, catalog_folder) -> None:
    name = damage(server, catalog_folder, "models")
    with pytest.raises(
        onnxwire.SourceError, match=r"models/[0-9a-f]{32}\.parquet: this file .* is missing"
    ) as error_info:
        onnxwire.sql(f"{server.url}/zoo", "from models")
    assert error_info.value.filename.endswith(name)
    onnxwire.sql(f"{server.url}/zoo", "from operators")


@pytest.mark.parametrize("data", [b"", b"PAR1", b"x" * 100_000], ids=["empty", "short", "no Parquet"])
def test_a_damaged_file_is_an_error(data, server, catalog_folder) -> None:
    damage(server, catalog_folder, "models", data)
    with pytest.raises((QueryError, onnxwire.SourceError)):
        onnxwire.sql(f"{server.url}/zoo", "from models")


@pytest.mark.parametrize(
    "line", [b'{"create": ["../../secret"]}\n', b"{}\n", b"[" * 100_000 + b"\n", b"\xff\n"], ids=range(4)
)
def test_a_hostile_journal_is_rejected(line, server, catalog_folder) -> None:
    damage(server, catalog_folder, JOURNAL, (catalog_folder / JOURNAL).read_bytes() + line)
    with pytest.raises(onnxwire.SourceError, match="is damaged"):
        onnxwire.sql(f"{server.url}/zoo", "from models")
    assert all(request.path.startswith("/zoo/") for request in server.state.requests)


def test_a_journal_above_the_size_limit_is_not_read_completely(server, catalog_folder) -> None:
    journal_start = (catalog_folder / JOURNAL).read_bytes()
    server.state.files[f"/zoo/{JOURNAL}"] = Pieces(journal_start, 1 << 40)
    with pytest.raises(onnxwire.SourceError, match=r"the journal has 1,099,511,[0-9,]+ bytes"):
        onnxwire.sql(f"{server.url}/zoo", "from models")
    assert server.state.sent < 1 << 17


def test_files_are_not_read_from_another_host(server, catalog_folder) -> None:
    with ObjectServer({"m.parquet": b"x"}) as other_server:
        name = damage(server, catalog_folder, "models")
        server.state.redirects[name] = (302, f"{other_server.url}/m.parquet")
        with pytest.raises(onnxwire.SourceError, match="redirect"):
            onnxwire.sql(f"{server.url}/zoo", "from models")
        assert other_server.state.requests == []


def test_queries_cannot_write_to_the_catalog(server, catalog_folder) -> None:
    name = next((catalog_folder / "models").iterdir()).name
    with pytest.raises((QueryError, duckdb.Error)):
        onnxwire.sql(f"{server.url}/zoo", f"copy (from models) to 'onnxwire://models/{name}'")
    assert {request.method for request in server.state.requests} == {"GET"}


def test_the_command_shows_no_credentials(server, catalog_folder) -> None:
    address = server.url.replace("http://", "http://someone:hunter2@")
    command = [sys.executable, "-m", "onnxwire", "sql"]
    process = subprocess.run(
        [*command, f"{address}/zoo", "select count(*) as n from models", "--csv"], capture_output=True
    )
    assert (process.stdout, process.stderr) == (b"n\n12\n", b"")
    damage(server, catalog_folder, "models")
    for folder in ("zoo", "none/"):
        process = subprocess.run([*command, f"{address}/{folder}", "from models"], capture_output=True, text=True)
        assert process.returncode == 2
        assert "hunter2" not in process.stdout + process.stderr
        assert process.stderr.count("\n") == 1
