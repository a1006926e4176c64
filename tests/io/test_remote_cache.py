"""The cache of ranges on disk: its files and keys, the owners that it trusts, damage, full disks, killed processes."""

from __future__ import annotations

import errno
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from object_server import ObjectServer, Pieces
from served_models import model

import onnxwire as ow
from onnxwire.io.remote import cache as range_cache

MIB = 1 << 20
FOLDER = "onnxwire-ranges"  # the cache's own folder in the folder that the caller names


@pytest.fixture(scope="module")
def pieces() -> Pieces:
    return model([5 * MIB, 300_000, 100_000])


def check_payloads(address: str, pieces: Pieces, cache: object = None, **options) -> None:
    """Read all weights of a model, and compare them with the server's bytes."""
    with ow.load(address, cache=cache, **options) as message:
        for tensor, info in zip(message.graph.initializer, ow.tensors(message), strict=True):
            assert tensor.raw_data == pieces.read(info.offset, info.offset + info.nbytes)


def entry_files(folder: Path) -> dict[str, Path]:
    """Return the two files of the only entry of the cache, by their suffixes."""
    paths = {path.suffix: path for path in (folder / FOLDER).iterdir() if path.name != "CACHEDIR.TAG"}
    assert set(paths) == {".data", ".sums"}
    return paths


def files_below(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file() and not path.is_symlink()}


def test_no_file_outside_of_the_caches_own_folder_changes(pieces, tmp_path, monkeypatch) -> None:
    """The folder that the caller names contains files with names like those of entries of the cache."""
    monkeypatch.setenv("ONNXWIRE_CACHE_SIZE", "0")
    for name in ("weights.data", "weights.sums", f"{'a' * 40}.data", f"{'b' * 64}.data", f"{'b' * 64}.sums"):
        (tmp_path / name).write_bytes(bytes(MIB))
        os.utime(tmp_path / name, (0, 0))
    files_before = files_below(tmp_path)
    with ObjectServer({"a": pieces, "b": pieces}) as server:
        for name in "ab":
            check_payloads(f"{server.url}/{name}", pieces, tmp_path)
    files_after = files_below(tmp_path)
    assert {path: data for path, data in files_after.items() if FOLDER not in path} == files_before


def test_only_entries_are_removed(pieces, tmp_path, monkeypatch) -> None:
    """Files with other names stay in the cache's folder, and so do folders, links and pipes with names of entries."""
    monkeypatch.setenv("ONNXWIRE_CACHE_SIZE", "0")
    target = tmp_path / "precious"
    target.write_bytes(b"precious")
    with ObjectServer({"a": pieces, "b": pieces}) as server:
        check_payloads(f"{server.url}/a", pieces, tmp_path)
        cache_folder = tmp_path / FOLDER
        for name in ("weights.data", f"{'a' * 63}.data", f"{'A' * 64}.data", f"{'a' * 64}.dat", f"x{'a' * 64}.data"):
            (cache_folder / name).write_bytes(bytes(MIB))
        (cache_folder / f"{'c' * 64}.data").mkdir()
        (cache_folder / f"{'d' * 64}.data").symlink_to(target)
        os.mkfifo(cache_folder / f"{'e' * 64}.data")
        (cache_folder / f"{'f' * 64}.data").write_bytes(bytes(MIB))
        (cache_folder / f"{'f' * 64}.sums").write_bytes(bytes(10))
        check_payloads(f"{server.url}/b", pieces, tmp_path)
    remaining_names = set(os.listdir(cache_folder))
    assert {
        "weights.data",
        f"{'a' * 63}.data",
        f"{'A' * 64}.data",
        f"{'a' * 64}.dat",
        f"x{'a' * 64}.data",
    } <= remaining_names
    assert {f"{letter * 64}.data" for letter in "cde"} <= remaining_names
    assert not {f"{'f' * 64}.data", f"{'f' * 64}.sums"} & remaining_names
    assert target.read_bytes() == b"precious"


def test_the_cache_is_a_private_folder_with_a_marker_file(pieces, tmp_path) -> None:
    with ObjectServer({"a": pieces}) as server:
        check_payloads(f"{server.url}/a", pieces, tmp_path / "new" / "cache")
    cache_folder = tmp_path / "new" / "cache" / FOLDER
    assert stat.S_IMODE(cache_folder.stat().st_mode) == 0o700
    assert (cache_folder / "CACHEDIR.TAG").read_bytes().startswith(b"Signature: 8a477f597d28d172789f06886806bc55")
    assert {stat.S_IMODE(path.stat().st_mode) for path in cache_folder.iterdir()} == {0o600}


def test_files_whose_addresses_or_headers_differ_share_no_entry(tmp_path) -> None:
    """The path, size and ETag are the same, and the bytes depend on the query, user, header or endpoint."""
    models = [model([300_000], names=[f"weight{i}"]) for i in range(8)]
    with ObjectServer({"d/m.onnx": models[0]}) as server, ObjectServer({"d/m.onnx": models[7]}) as second_server:
        cases = [
            (f"{server.url}/d/m.onnx", {}),
            (f"{server.url}/d/m.onnx?file=1", {}),
            (f"{server.url}/d/m.onnx?file=2", {}),
            (f"http://one:a@{server.host}/d/m.onnx", {}),
            (f"http://two:a@{server.host}/d/m.onnx", {}),
            (f"{server.url}/d/m.onnx", {"client_options": {"default_headers": {"X-Tenant": "1"}}}),
            (f"{server.url}/d/m.onnx", {"client_options": {"default_headers": {"X-Tenant": "2"}}}),
        ]
        for _ in range(2):
            for pieces, (address, options) in zip(models, cases, strict=False):
                server.state.files["/d/m.onnx"] = pieces
                with ow.load(address, cache=tmp_path, storage_options=options) as message:
                    assert (
                        message.graph.initializer[0].name
                        == ow.load(pieces.read(0, pieces.size)).graph.initializer[0].name
                    )
                    message.graph.initializer[0].numpy()
        check_payloads(f"{second_server.url}/d/m.onnx", models[7], tmp_path)
    names = [path.name for path in (tmp_path / FOLDER).glob("*.data")]
    assert len(names) == len(cases) + 1


def test_options_that_select_a_store_are_in_the_cache_key() -> None:
    from onnxwire.io.remote.address import parse_address
    from onnxwire.io.remote.stores import identity_in_store

    address = parse_address("s3://bucket/m.onnx")
    options = [
        {}, {"endpoint": "http://a"}, {"endpoint": "http://b"}, {"region": "eu-west-1"}, {"access_key_id": "one"},
        {"config": {"endpoint": "http://a"}}, {"client_options": {"proxy_url": "http://a"}},
    ]  # fmt: skip
    assert len({identity_in_store(address, store_options) for store_options in options}) == len(options)
    client_settings = {"client_options": {"timeout": "9s"}, "retry_config": {"max_retries": 1}}
    assert identity_in_store(address, client_settings) == identity_in_store(address, {})


def test_secret_options_are_not_in_the_cache_key() -> None:
    from onnxwire.io.remote.address import parse_address
    from onnxwire.io.remote.stores import identity_in_store

    address = parse_address("s3://bucket/m.onnx")
    names = ("session_token", "aws_secret_access_key", "token", "azure_storage_account_key", "service_account_key")
    for name in names:
        assert identity_in_store(address, {name: "hunter2"}) == identity_in_store(address, {}), name
        assert identity_in_store(address, {"config": {name: "hunter2"}}) == identity_in_store(address, {"config": {}})
    for proxy in ("http://proxy:80", "proxy:80"):
        proxy_with_password = proxy.replace("proxy", "me:hunter2@proxy")
        identities = {
            identity_in_store(address, {"client_options": {"proxy_url": url}}) for url in (proxy, proxy_with_password)
        }
        assert len(identities) == 1
        assert "hunter2" not in str(identities)


def test_environment_variables_that_select_a_store_are_in_the_cache_key(monkeypatch) -> None:
    from onnxwire.io.remote.address import parse_address
    from onnxwire.io.remote.stores import identity_in_store

    address = parse_address("s3://bucket/m.onnx")
    identities = {identity_in_store(address, None)}
    for name, value in (("AWS_ENDPOINT_URL", "http://a"), ("AWS_ENDPOINT_URL", "http://b"), ("AZURE_ENDPOINT", "x")):
        monkeypatch.setenv(name, value)
        identities.add(identity_in_store(address, None))
    assert len(identities) == 4
    monkeypatch.setenv("AWS_SESSION_TOKEN", "hunter2")  # the token is renewed each hour
    assert identity_in_store(address, None) in identities


def test_a_store_object_of_the_caller_has_no_cache(tmp_path, monkeypatch) -> None:
    """Two stores may have different files of the same name, which can't be distinguished."""
    from obstore.store import MemoryStore

    store = MemoryStore()
    store.put("m.onnx", b"\x08\x09")  # ir_version 9
    with pytest.raises(TypeError, match="cache="):
        ow.load("m.onnx", store=store, cache=tmp_path)
    monkeypatch.setenv("ONNXWIRE_CACHE", str(tmp_path / "cache"))
    ow.load("m.onnx", store=store)
    assert not list(tmp_path.iterdir())


def test_no_secret_is_in_the_cache(pieces, tmp_path) -> None:
    with ObjectServer({"m.onnx": pieces}) as server:
        check_payloads(f"http://user:hunter2@{server.host}/m.onnx?signature=hunter2", pieces, tmp_path)
    for path in tmp_path.rglob("*"):
        assert "hunter2" not in path.name and (path.is_dir() or b"hunter2" not in path.read_bytes())


def damage_entry(entry: Path, kind: str, tmp_path: Path) -> None:
    """Damage or remove a file of an entry, or replace it by another kind of object."""
    data = entry.read_bytes()
    if kind == "empty":
        entry.write_bytes(b"")
    elif kind == "cut":
        entry.write_bytes(data[: len(data) // 2])
    elif kind == "zeros":
        entry.write_bytes(bytes(len(data)))
    elif kind == "ones":
        entry.write_bytes(b"\xff" * len(data))
    elif kind == "huge":
        os.truncate(entry, 1 << 40)
    elif kind == "reversed":
        entry.write_bytes(data[::-1])
    else:
        entry.unlink()
        if kind == "pipe":
            os.mkfifo(entry)
        elif kind == "folder":
            entry.mkdir()
        elif kind == "link":
            (tmp_path / "target").write_bytes(b"precious")
            entry.symlink_to(tmp_path / "target")
        elif kind == "hard link":
            (tmp_path / "target").write_bytes(b"precious")
            os.link(tmp_path / "target", entry)
        elif kind == "device":
            entry.symlink_to("/dev/zero")


@pytest.mark.parametrize("suffix", [".data", ".sums"])
@pytest.mark.parametrize(
    "kind",
    ["empty", "cut", "zeros", "ones", "huge", "reversed", "absent", "pipe", "folder", "link", "hard link", "device"],
)
def test_an_entry_that_is_damaged_is_not_used(pieces, tmp_path, kind, suffix) -> None:
    with ObjectServer({"m.onnx": pieces}) as server:
        check_payloads(f"{server.url}/m.onnx", pieces, tmp_path)
        damage_entry(entry_files(tmp_path)[suffix], kind, tmp_path)
        for _ in range(2):
            check_payloads(f"{server.url}/m.onnx", pieces, tmp_path)
    if (tmp_path / "target").exists():
        assert (tmp_path / "target").read_bytes() == b"precious"


def assert_refused(folder: Path, words: str) -> None:
    """Assert that the cache in this folder is refused with an error that contains the words."""
    with ObjectServer({"m.onnx": model([100_000])}) as server, pytest.raises(ow.SourceError, match=words) as error_info:
        ow.load(f"{server.url}/m.onnx", cache=folder)
    assert "\n" not in str(error_info.value) and "cache=" in str(error_info.value)


def test_a_folder_without_the_marker_of_the_cache_is_refused(tmp_path) -> None:
    (tmp_path / FOLDER).mkdir(mode=0o700)
    (tmp_path / FOLDER / "weights.data").write_bytes(b"precious")
    assert_refused(tmp_path, "is not a cache")
    (tmp_path / FOLDER / "CACHEDIR.TAG").write_bytes(b"Signature: 8a477f597d28d172789f06886806bc55\n# of another\n")
    assert_refused(tmp_path, "is not a cache")
    assert (tmp_path / FOLDER / "weights.data").read_bytes() == b"precious"


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o720, 0o777])
def test_a_cache_in_which_others_may_write_is_refused(tmp_path, mode) -> None:
    (tmp_path / FOLDER).mkdir()
    (tmp_path / FOLDER).chmod(mode)
    assert_refused(tmp_path, "chmod go-w")


def test_a_cache_of_another_user_is_refused(tmp_path, monkeypatch) -> None:
    (tmp_path / FOLDER).mkdir(mode=0o700)
    other_uid = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: other_uid)
    assert_refused(tmp_path, "belongs to another user")


def test_a_cache_that_is_a_link_or_a_file_is_refused(tmp_path) -> None:
    (tmp_path / "models").mkdir()
    (tmp_path / FOLDER).symlink_to(tmp_path / "models")
    assert_refused(tmp_path, "a link or a file")
    (tmp_path / FOLDER).unlink()
    (tmp_path / FOLDER).write_bytes(b"")
    assert_refused(tmp_path, "a link or a file")
    assert_refused(tmp_path / FOLDER, "can't be used")
    assert not list((tmp_path / "models").iterdir())


def test_an_invalid_size_limit_is_an_error(tmp_path, monkeypatch) -> None:
    for text in ("32GB", "-1", "1e9", "9" * 40):
        monkeypatch.setenv("ONNXWIRE_CACHE_SIZE", text)
        with (
            ObjectServer({"m.onnx": model([100_000])}) as server,
            pytest.raises(ow.SourceError, match="ONNXWIRE_CACHE_SIZE"),
        ):
            ow.load(f"{server.url}/m.onnx", cache=tmp_path)


@pytest.mark.parametrize("call", ["makedirs", "mkdir", "open", "pwrite", "pread", "scandir", "utime"])
@pytest.mark.parametrize("error_number", [errno.ENOSPC, errno.EDQUOT])
def test_reads_succeed_when_the_cache_is_on_a_full_disk(pieces, tmp_path, monkeypatch, call, error_number) -> None:
    """Every call of one function of `os` fails, as on a full disk."""
    n_calls = 0

    class System:
        """The module os, one of whose functions fails."""

        def __getattr__(self, name: str) -> object:
            return fail if name == call else getattr(os, name)

    def fail(*args: object, **options: object) -> None:
        nonlocal n_calls
        n_calls += 1
        raise OSError(error_number, os.strerror(error_number))

    monkeypatch.setattr(range_cache, "os", System())
    with ObjectServer({"m.onnx": pieces}) as server:
        for _ in range(2):
            check_payloads(f"{server.url}/m.onnx", pieces, tmp_path)
    assert n_calls


def test_pages_that_were_written_partly_are_not_used(pieces, tmp_path, monkeypatch) -> None:
    """Writes are short, as on a full disk."""
    write = os.pwrite
    n_calls = 0

    def write_half(file: int, data, offset: int) -> int:
        nonlocal n_calls
        n_calls += 1
        return write(file, memoryview(data)[: len(data) // 2], offset)

    with ObjectServer({"m.onnx": pieces, "n.onnx": pieces}) as server:
        check_payloads(f"{server.url}/n.onnx", pieces, tmp_path)  # marks the folder as a cache
        monkeypatch.setattr(os, "pwrite", write_half)
        check_payloads(f"{server.url}/m.onnx", pieces, tmp_path)
        assert n_calls > 1
        monkeypatch.setattr(os, "pwrite", write)
        check_payloads(f"{server.url}/m.onnx", pieces, tmp_path)


READING_PROGRAM = """\
import sys, onnxwire as ow
while True:
    with ow.load(sys.argv[1], cache=sys.argv[2]) as message:
        print(sum(int(tensor.numpy().sum()) for tensor in message.graph.initializer), flush=True)
"""


def test_processes_that_are_killed_leave_a_cache_that_works(pieces, tmp_path, monkeypatch) -> None:
    """Two processes at a time read through one cache that has space for no entry, and are killed after a few sums."""
    monkeypatch.setenv("ONNXWIRE_CACHE_SIZE", "0")
    with ObjectServer({"m.onnx": pieces, "n.onnx": pieces}) as server:
        for n_lines in range(1, 5):
            processes = [
                subprocess.Popen(
                    [sys.executable, "-c", READING_PROGRAM, f"{server.url}/{name}.onnx", str(tmp_path)],
                    stdout=subprocess.PIPE,
                )
                for name in "mn"
            ]
            results = set()
            for process in processes:
                assert process.stdout is not None
                results |= {process.stdout.readline() for _ in range(n_lines)}
                process.send_signal(signal.SIGKILL)
            for process in processes:
                process.communicate()
            assert len(results) == 1
        check_payloads(f"{server.url}/m.onnx", pieces, tmp_path)


def test_a_process_that_was_killed_before_it_wrote_the_marker_blocks_no_other_process(pieces, tmp_path) -> None:
    with ObjectServer({"m.onnx": pieces}) as server:
        (tmp_path / "no tag" / FOLDER).mkdir(parents=True, mode=0o700)
        (tmp_path / "empty tag" / FOLDER).mkdir(parents=True, mode=0o700)
        (tmp_path / "empty tag" / FOLDER / "CACHEDIR.TAG").write_bytes(b"")
        for name in ("no tag", "empty tag"):
            check_payloads(f"{server.url}/m.onnx", pieces, tmp_path / name)
            assert (tmp_path / name / FOLDER / "CACHEDIR.TAG").read_bytes()


def test_commands_accept_a_cache(pieces, tmp_path) -> None:
    with ObjectServer({"m.onnx": pieces}) as server:
        command = [sys.executable, "-m", "onnxwire", "stats", f"{server.url}/m.onnx", "--cache", str(tmp_path)]
        first_run = subprocess.run(command, capture_output=True, text=True, check=True)
        server.state.reset()
        second_run = subprocess.run(command, capture_output=True, text=True, check=True)
        assert first_run.stdout == second_run.stdout
        assert len(server.state.requests) == 1
