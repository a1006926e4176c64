"""Models in S3 and other stores: load, external data, save, commands, the reuse of stores, and the end of a process."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from pathlib import Path

import forked_commands
import fsspec
import numpy as np
import pytest
from moto.server import ThreadedMotoServer
from object_server import ObjectServer, Pieces
from obstore.store import MemoryStore, from_url
from served_models import model

import onnxwire as ow

MIB = 1 << 20


@pytest.fixture(scope="module")
def s3_options():
    """Start an S3 server with a bucket named "bucket". Return the options of a store for this server."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    url = f"http://{host}:{port}"
    urllib.request.urlopen(urllib.request.Request(f"{url}/bucket", method="PUT")).close()
    yield {
        "endpoint": url,
        "region": "us-east-1",
        "access_key_id": "key",
        "secret_access_key": "hunter2",
        "client_options": {"allow_http": True},
    }
    server.stop()


def bytes_of(pieces: Pieces) -> bytes:
    return pieces.read(0, pieces.size)


def save_external_model(folder: Path) -> tuple[bytes, bytes]:
    """Save a model with external data in a folder. Return the bytes of both files."""
    message = ow.ModelProto.FromString(bytes_of(model([5 * MIB, 2 * MIB, 100_000, MIB])))
    ow.save(message, folder / "m.onnx", external="weights.data")
    return (folder / "m.onnx").read_bytes(), (folder / "weights.data").read_bytes()


def check_values(message: ow.ModelProto, pieces: Pieces) -> None:
    """Assert that a model has the names and values of the model in `pieces`."""
    expected_model = ow.ModelProto.FromString(bytes_of(pieces))
    assert [tensor.name for tensor in message.graph.initializer] == [
        tensor.name for tensor in expected_model.graph.initializer
    ]
    for loaded_tensor, expected_tensor in zip(message.graph.initializer, expected_model.graph.initializer, strict=True):
        assert np.array_equal(loaded_tensor.numpy(), expected_tensor.numpy())


def test_a_model_in_s3_is_read(s3_options) -> None:
    pieces = model([5 * MIB, 300_000, MIB])
    from_url("s3://bucket/models", **s3_options).put("a b.onnx", bytes_of(pieces))
    with ow.load("s3://bucket/models/a b.onnx", storage_options=s3_options) as message:
        check_values(message, pieces)
    with pytest.raises(ow.SourceError, match="no such file") as error_info:
        ow.load("s3://bucket/models/none.onnx", storage_options=s3_options)
    assert isinstance(error_info.value, FileNotFoundError)
    assert "hunter2" not in repr(error_info.value)


def test_external_data_is_found_in_the_models_folder(tmp_path, trips) -> None:
    data, weights = save_external_model(tmp_path)
    files = {"d/m.onnx": data, "d/weights.data": weights, "weights.data": b"not this one"}
    with ObjectServer(files) as server, ow.load(f"{server.url}/d/m.onnx") as message:
        infos = ow.tensors(message)
        assert trips.count <= 3
        assert infos[1].location == "weights.data"
        assert infos[1].file == f"{server.url}/d/weights.data"
        server.state.reset()
        tensor = message.graph.initializer[1]
        assert tensor.numpy().tobytes() == weights[infos[1].offset : infos[1].offset + infos[1].nbytes]
        assert server.state.sent <= infos[1].nbytes + (1 << 18)
        check_values(message, model([5 * MIB, 2 * MIB, 100_000, MIB]))


@pytest.mark.parametrize(
    "location",
    [
        "../weights.data", "/etc/passwd", "http://other/weights.data", "d/../../x", "x?y", "x#y", "a\\b", "",
        "//other/weights.data", "%2e%2e/weights.data", "..%2fweights.data", "%2fweights.data", ".%2e/weights.data",
        "a\r\nHost: other", "weights.data\0", "@other/weights.data", ":80/weights.data",
    ],
)  # fmt: skip
def test_no_location_leads_out_of_the_folder(location) -> None:
    message = ow.ModelProto()
    tensor = message.graph.initializer.add(
        name="w", data_type=ow.TensorProto.FLOAT, dims=[4], data_location=ow.TensorProto.EXTERNAL
    )
    tensor.external_data.add(key="location", value=location)
    with ObjectServer({"d/m.onnx": message.SerializeToString(), "weights.data": bytes(16)}) as server:
        with ow.load(f"{server.url}/d/m.onnx") as loaded_model, pytest.raises((ow.ExternalDataError, ow.SourceError)):
            loaded_model.graph.initializer[0].numpy()
        requested_paths = {request.path for request in server.state.requests}
        # A location that looks like an address, or contains a percent escape, is a name in the folder.
        assert {path for path in requested_paths if not path.startswith("/d/") or "/.." in path or "%2" in path} <= {
            "/d/%252e%252e/weights.data", "/d/..%252fweights.data", "/d/%252fweights.data", "/d/.%252e/weights.data",
        }  # fmt: skip


@pytest.mark.parametrize("kind", ["obstore", "ranges", "fsspec"])
def test_a_store_object_is_accepted(kind, tmp_path) -> None:
    data, weights = save_external_model(tmp_path)
    if kind == "fsspec":
        store = fsspec.filesystem("memory")
        store.pipe({"/models/m.onnx": data, "/models/weights.data": weights})
        name = "memory://models/m.onnx"
    else:
        store = MemoryStore()
        store.put("models/m.onnx", data)
        store.put("models/weights.data", weights)
        name = "models/m.onnx"
    if kind == "ranges":
        memory_store = store

        class RangeStore:
            """An object with only two of obstore's methods."""

            def head(self, path: str) -> object:
                return memory_store.head(path)

            def get_range(self, path: str, *, start: int, end: int) -> object:
                return memory_store.get_range(path, start=start, end=end)

        store = RangeStore()
    with ow.load(name, store=store) as message:
        check_values(message, model([5 * MIB, 2 * MIB, 100_000, MIB]))
    with pytest.raises(ow.SourceError, match="no such file"):
        ow.load(name.replace("m.onnx", "none.onnx"), store=store)


def test_reading_a_changed_file_of_a_file_system_is_an_error() -> None:
    system = fsspec.filesystem("memory")
    system.pipe("/changing/m.onnx", bytes_of(model([5 * MIB])))
    with ow.load("/changing/m.onnx", store=system) as message:
        list(message.graph.initializer)
        system.pipe("/changing/m.onnx", bytes_of(model([5 * MIB + 1])))
        with pytest.raises(ow.SourceError, match="changed"):
            message.graph.initializer[0].numpy()


def test_an_object_that_is_not_a_store_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="store="):
        ow.load("m.onnx", store=object())


def test_a_model_is_saved_to_an_address(s3_options) -> None:
    store = from_url("s3://bucket", **s3_options)
    pieces = model([9 * MIB, 300_000, 12 * MIB])
    store.put("from.onnx", bytes_of(pieces))
    calls = []
    with ow.load("s3://bucket/from.onnx", storage_options=s3_options) as message:
        message.graph.node[2].name = "another"
        total = ow.save(
            message,
            "s3://bucket/to.onnx",
            storage_options=s3_options,
            progress=lambda n_written, size: calls.append((n_written, size)),
        )
        assert message._document.memory.resident < MIB
    local_model = ow.ModelProto.FromString(bytes_of(pieces))
    local_model.graph.node[2].name = "another"
    assert bytes(store.get("to.onnx").bytes()) == local_model.SerializeToString()
    assert calls[-1] == (total, total) == (len(local_model.SerializeToString()),) * 2


def test_a_failed_upload_leaves_the_old_object_and_no_parts(s3_options) -> None:
    store = from_url("s3://bucket", **s3_options)
    store.put("old.onnx", b"the old content")
    pieces = model([9 * MIB, 12 * MIB])
    with ObjectServer({"m.onnx": pieces}) as server, ow.load(f"{server.url}/m.onnx") as message:
        list(message.graph.initializer)
        server.state.default_fault = "404"
        with pytest.raises(ow.SourceError):
            ow.save(message, "s3://bucket/old.onnx", storage_options=s3_options)
        server.state.default_fault = None

        def interrupt(n_written: int, total: int) -> None:
            if n_written > 9 * MIB:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            ow.save(message, "s3://bucket/old.onnx", storage_options=s3_options, progress=interrupt)
    assert bytes(store.get("old.onnx").bytes()) == b"the old content"
    uploads = urllib.request.urlopen(f"{s3_options['endpoint']}/bucket?uploads").read()
    assert b"<UploadId>" not in uploads
    with pytest.raises(ow.SaveError, match="bytes were passed to the upload"):
        ow.save(ow.ModelProto(ir_version=9), "s3://no-such-bucket/m.onnx", storage_options=s3_options)


def test_external_data_is_not_saved_to_an_address(s3_options) -> None:
    with pytest.raises(ow.SaveError, match="external="):
        ow.save(ow.ModelProto(), "s3://bucket/m.onnx", storage_options=s3_options, external="weights.data")


def test_a_model_is_saved_to_a_store() -> None:
    store = MemoryStore()
    assert ow.save(ow.ModelProto(ir_version=9), "m.onnx", store=store) == 2
    assert bytes(store.get("m.onnx").bytes()) == b"\x08\x09"  # ir_version 9


# The words of command lines, by a name for each. URL is replaced by the model's address or path, OUT by the file to
# write.
COMMANDS = {
    "info": ["info", "-v", "URL"],
    "info --json": ["info", "URL", "--json"],
    "info --raw": ["info", "URL", "--raw"],
    "ls": ["ls", "URL"],
    "show": ["show", "URL", "tensor:layers.0.weight1"],
    "stats": ["stats", "URL", "--json"],
    "check": ["check", "URL"],
    "diff": ["diff", "URL", "URL"],
    "extract": ["extract", "URL", "--inputs", "x3", "--outputs", "x30", "-o", "OUT"],
    "unpack": ["unpack", "URL", "-o", "OUT"],
    "pack": ["pack", "URL", "-o", "OUT"],
    "set": ["set", "URL", "producer_name=p", "-o", "OUT"],
    "view": ["view", "URL", "-o", "report.html"],
    "meta": ["meta", "URL"],
    "rename": ["rename", "URL", "x3", "another", "-o", "OUT"],
    "dims": ["dims", "URL"],
    "rm": ["rm", "URL", "graph.name", "-o", "OUT"],
    "dump": ["dump", "URL"],
    "infer": ["infer", "URL", "-o", "OUT"],
    "convert-version": ["convert-version", "URL", "21", "-o", "OUT"],
    "sql": ["sql", "URL", "select op_type, count(*) from nodes group by all"],
    "catalog": ["catalog", "URL", "-o", "OUT", "--workers", "1"],
}


@pytest.mark.parametrize("words", COMMANDS.values(), ids=COMMANDS)
def test_a_command_accepts_an_address(words, tmp_path) -> None:
    pieces = model([300_000, 2 * MIB, 100_000])
    (tmp_path / "m.onnx").write_bytes(bytes_of(pieces))

    def run(url: str, out: str) -> subprocess.CompletedProcess[str]:
        line = [{"URL": url, "OUT": out}.get(word, word) for word in words]
        options = ["--allow-host", "127.0.0.1", "--cache", str(tmp_path / "cache"), "--header", "A: b"]
        return forked_commands.run(*line, *options, text=True, cwd=tmp_path)

    with ObjectServer({"m.onnx": pieces}) as server:
        url = f"{server.url}/m.onnx"
        remote_run, local_run = run(url, "remote.onnx"), run("m.onnx", "local.onnx")
        assert all(request.headers["a"] == "b" for request in server.state.requests)
    assert remote_run.returncode == local_run.returncode, remote_run.stderr
    assert remote_run.stdout.replace(url, "m.onnx") == local_run.stdout
    assert list((tmp_path / "cache").iterdir())
    if "OUT" in words and words[0] != "catalog" and remote_run.returncode == 0:
        # An unpacked model contains the name of its data file, which is made from OUT.
        assert (tmp_path / "remote.onnx").read_bytes() == (tmp_path / "local.onnx").read_bytes() or words[0] == "unpack"
    if "-v" in words:
        assert "requests, " in remote_run.stderr and url in remote_run.stderr
    if "--json" in words:
        json.loads(remote_run.stdout)


@pytest.mark.parametrize("words", COMMANDS.values(), ids=COMMANDS)
def test_a_command_with_untrusted_follows_no_redirect(words, tmp_path) -> None:
    pieces = model([300_000])
    with ObjectServer({"m.onnx": pieces}) as model_server, ObjectServer({"m.onnx": pieces}) as second_server:
        model_server.state.redirects["/m.onnx"] = 302, f"{second_server.url}/m.onnx"
        line = [{"URL": f"{model_server.url}/m.onnx", "OUT": "out.onnx"}.get(word, word) for word in words]
        process = forked_commands.run(*line, "--untrusted", text=True, cwd=tmp_path)
        assert process.returncode in (1, 2), process.stdout
        assert model_server.state.requests and not second_server.state.requests
    assert "not followed for untrusted models" in process.stdout + process.stderr
    assert not (tmp_path / "out.onnx").is_file() or words[0] == "catalog"


def test_one_store_is_made_for_each_combination_of_server_options_and_environment(monkeypatch) -> None:
    from onnxwire.io.remote import stores

    roots = []
    make_store = stores._make_store

    def record_root(address, options):
        roots.append(address.root)
        return make_store(address, options)

    # Besides these calls, only the time of a load shows whether a store is shared.
    monkeypatch.setattr(stores, "_make_store", record_root)
    data = bytes_of(model([100]))
    with ObjectServer({"a/m.onnx": data, "b/c/m.onnx": data}) as server:
        for _ in range(2):
            for name in ("a/m.onnx", "b/c/m.onnx"):
                with ow.load(f"{server.url}/{name}") as message:
                    assert len(message.graph.node) == 30
        assert roots == [f"{server.url}"]
        for token in ("one", "two", "one"):
            ow.load(
                f"{server.url}/a/m.onnx", storage_options={"client_options": {"default_headers": {"X-Token": token}}}
            )
            assert server.state.requests[-1].headers["x-token"] == token
        assert len(roots) == 3
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "another")
        ow.load(f"{server.url}/a/m.onnx")
        assert len(roots) == 4


# A program that ends while a thread is running that `threading` does not know, like the threads of native libraries.
EXITING_PROGRAM = """\
import _thread, sys, time
import onnxwire

is_running = _thread.allocate_lock()
is_running.acquire()

def run_thread():
    is_running.release()
    time.sleep(0.05)
    print("the thread ends")

onnxwire.load(sys.argv[1])
_thread.start_new_thread(run_thread, ())
is_running.acquire()
"""


def test_a_process_ends_only_after_native_threads_that_run_python_code() -> None:
    """If the interpreter exits while a thread of a store runs Python code, the process may abort."""
    with ObjectServer({"m.onnx": model([100])}) as server:
        command = [sys.executable, "-c", EXITING_PROGRAM, f"{server.url}/m.onnx"]
        process = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (process.returncode, process.stdout) == (0, "the thread ends\n"), process.stderr
