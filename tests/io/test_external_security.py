"""Models that try to read or overwrite other files through external data."""

import contextlib
import io
import os
import socket
import stat
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import onnxwire
from onnxwire.errors import Error, ExternalDataError, SourceError, SourceNotFoundError, TensorError
from onnxwire.io import external_files
from onnxwire.io.external_files import ExternalFiles
from onnxwire.tensor import external_data

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs links and pipes")
needs_proc = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
SECRET = b"the secret bytes"
DATA = b"the model's data"


def tensor(*entries: tuple[str, object], name: str = "w", **fields: Any) -> onnx.TensorProto:
    """Return an EXTERNAL tensor of 16 bytes with these entries of external_data, and these other fields."""
    message = onnx.TensorProto(name=name, dims=[16], data_type=onnx.TensorProto.UINT8, **fields)
    message.data_location = onnx.TensorProto.EXTERNAL
    for key, value in entries:
        message.external_data.add(key=key, value=str(value))
    return message


def encode_tensors(*tensors: onnx.TensorProto) -> bytes:
    """Return the encoding of a model with these initializers."""
    return onnx.ModelProto(ir_version=8, graph={"initializer": tensors}).SerializeToString()


class Case:
    """A model's folder with the file `w.bin` and an empty folder `sub`, and a sibling folder with a secret."""

    def __init__(self, path: Path) -> None:
        self.outside_folder = path / "outside"
        self.folder = path / "model"
        for folder in (self.outside_folder, self.folder, self.folder / "sub"):
            folder.mkdir()
        self.secret = self.outside_folder / "secret"
        self.secret.write_bytes(SECRET)
        (self.folder / "w.bin").write_bytes(DATA)
        self.model = self.folder / "m.onnx"

    def read(self, *entries: object, **options: Any) -> bytes:
        """Write the model, unless its path is a symbolic link, and return the bytes of its tensor.

        entries: the entries of external_data; a string is a location. options: as for `load`.
        """
        pairs = [("location", entry) if isinstance(entry, str) else entry for entry in entries]
        if not self.model.is_symlink():
            self.model.write_bytes(encode_tensors(tensor(*pairs)))
        return read_contents(self.model, **options)

    def assert_refused(self, *entries: object, match: str | None = None, **options: Any) -> None:
        """Assert that reading with and without mmap raises an error that names model and tensor, but not the secret.

        entries, options: as for `read`. match: a pattern that the error matches.
        """
        for mmap in (True, False):
            with pytest.raises(ExternalDataError, match=match) as error_info:
                self.read(*entries, mmap=mmap, **options)
            assert error_info.value.tensor == "w"
            assert str(error_info.value).startswith(f"{self.model}: byte ")
            assert SECRET.decode() not in str(error_info.value)

    def link(self, name: str, target: str | Path) -> None:
        os.symlink(target, self.folder / name)


def read_contents(path: object, **options: Any) -> bytes:
    """Return the bytes of a model's first initializer. options: as for `load`."""
    with onnxwire.load(path, **options) as model:
        return bytes(model.graph.initializer[0].raw_view)


@pytest.fixture
def case(tmp_path: Path) -> Case:
    return Case(tmp_path)


@pytest.fixture(params=["openat", "by path"])
def open_method(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run a test twice: with openat, and by path, as on systems without openat."""
    monkeypatch.setattr(external_files, "_HAS_DIR_FD", request.param == "openat")
    return request.param


@pytest.fixture
def windows_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    """Apply the rules for names on Windows."""
    monkeypatch.setattr(external_data, "_IS_WINDOWS", True)


# --- locations that are never allowed


@pytest.mark.parametrize("location", ["/etc/passwd", "//server/share", "///w.bin", "/"])
def test_absolute_locations_are_refused(case: Case, location: str) -> None:
    case.assert_refused(location, match="absolute")


@pytest.mark.parametrize(
    "location", ["..", "../w.bin", "sub/../w.bin", "sub/..", "./../model/w.bin", "a/b/../../w.bin"]
)
def test_locations_through_the_parent_folder_are_refused_even_if_they_return(case: Case, location: str) -> None:
    case.assert_refused(location, match=r"\.\.")


@pytest.mark.parametrize("location", ["C:", "c:w.bin", "C:/w.bin", "Z:sub/w.bin"])
def test_drives_are_refused_on_all_systems(case: Case, location: str) -> None:
    (case.folder / "C:").mkdir()
    case.assert_refused(location, match="drive")


@pytest.mark.parametrize("location", ["w.bin\0", "\0", "w.bin\0/../../outside/secret", "sub/\0w.bin"])
def test_a_nul_is_refused(case: Case, location: str) -> None:
    case.assert_refused(location, match="NUL")


@pytest.mark.parametrize("location", ["\n", "w\x1b[2J.bin", "\x7f", "w\x9b2J.bin", "\x85"])
def test_characters_that_control_a_terminal_are_refused(case: Case, location: str) -> None:
    (case.folder / location).write_bytes(DATA)
    case.assert_refused(location, match="control character")


@pytest.mark.parametrize(
    "location", ["sub\\w.bin", "..\\w.bin", "\\w.bin", "\\\\server\\share", "\\\\?\\C:\\x", "w.bin\\"]
)
def test_a_backslash_is_refused_on_all_systems(case: Case, location: str) -> None:
    with contextlib.suppress(OSError):
        (case.folder / location).write_bytes(DATA)
    case.assert_refused(location, match="backslash")


@pytest.mark.parametrize("location", ["", ".", "./", "sub/", "sub/.", "w.bin/"])
def test_a_location_that_names_no_file_is_refused(case: Case, location: str) -> None:
    case.assert_refused(location)


def test_external_data_without_a_location_is_refused(case: Case) -> None:
    case.assert_refused(match="no location")
    case.assert_refused(("offset", 0), match="no location")


def test_very_long_locations_are_refused(case: Case) -> None:
    case.assert_refused("./" * 2100 + "w.bin", match="longer than 4,096 bytes")
    assert case.read("./" * 2000 + "w.bin") == DATA


def test_a_location_that_is_not_text_is_refused(case: Case) -> None:
    case.model.write_bytes(encode_tensors(tensor(("location", "w.bin"))).replace(b"w.bin", b"w.b\xffn"))
    (case.folder / os.fsdecode(b"w.b\xffn")).write_bytes(DATA)
    with pytest.raises(Error):
        read_contents(case.model)
    with pytest.raises(ExternalDataError, match="UTF-8"):
        ExternalFiles(str(case.model)).open("w.b\udcffn")


def test_names_that_only_look_dangerous_are_read(case: Case) -> None:
    # The last two names contain characters that look like two dots and a slash.
    for name in (
        "..w.bin",
        "w..bin",
        "...",
        "NUL",
        "w.bin:stream",
        ":x",
        "~",
        "%2e%2e",
        " ",
        "\uff0e\uff0e",
        "\u2215etc",
    ):
        (case.folder / name).write_bytes(DATA)
        assert case.read(name) == DATA


@pytest.mark.parametrize(
    "location", ["w.bin:stream", "sub/w.bin::$DATA", "NUL", "nul.txt", "sub/Com1", "LPT¹.bin", "con .x", "CONIN$"]
)
def test_devices_and_streams_of_windows_are_refused_on_windows(case: Case, windows_rules: None, location: str) -> None:
    case.assert_refused(location, match="on Windows")


@pytest.mark.parametrize("location", [".. /secret", "... /w.bin", "w.bin.", "w.bin ", "sub./w.bin", "..."])
def test_names_that_windows_would_shorten_are_refused_on_windows(
    case: Case, windows_rules: None, location: str
) -> None:
    case.assert_refused(location, match="on Windows")


def test_plain_names_are_read_on_windows_too(case: Case, windows_rules: None) -> None:
    (case.folder / "sub" / "console.bin").write_bytes(DATA)
    assert case.read("./sub/console.bin") == DATA


# --- numbers


MAX_INT64 = (1 << 63) - 1
# \uff11 and \u0663 are digits 1 and 3 that are not ASCII.
BAD_NUMBERS = [
    "-1", "+1", "1e3", "0x10", " 1", "1 ", "\uff11", "\u0663", "²", "1_000", "1.0", "", "-0", "1\0", "nan", "inf",
    "None", "1,000", str(1 << 63), str(1 << 64), str((1 << 64) + 1), "9" * 5000,
]  # fmt: skip


@pytest.mark.parametrize("key", ["offset", "length"])
@pytest.mark.parametrize("number", BAD_NUMBERS, ids=lambda number: repr(number)[:12])
def test_a_number_that_is_not_a_plain_decimal_below_2_to_the_63_is_refused(case: Case, key: str, number: str) -> None:
    case.assert_refused("w.bin", (key, number), match=f"the {key} .* is not a plain decimal")


@pytest.mark.parametrize(
    ("offset", "length"),
    [(17, None), (0, 17), (1, 16), (16, 1), (17, 0), (1 << 40, 16), (MAX_INT64, MAX_INT64), (MAX_INT64 - 15, 16),
     (0, MAX_INT64), (1, MAX_INT64)],
)  # fmt: skip
def test_a_range_that_the_file_does_not_have_is_refused(case: Case, offset: int, length: int | None) -> None:
    entries = [("offset", offset)] + ([] if length is None else [("length", length)])
    case.assert_refused("w.bin", *entries, match="the file, which has 16 bytes")


def test_a_range_that_does_not_fit_the_dims_is_an_error(case: Case) -> None:
    for entry in (("length", 0), ("length", 15), ("offset", 16), ("offset", 1)):
        with pytest.raises(TensorError, match="16 bytes"):
            case.read("w.bin", entry)


# --- symbolic links


def test_links_inside_the_folder_are_followed(case: Case, open_method: str) -> None:
    case.link("a", "sub/b")
    case.link("sub/b", case.folder / "sub2" / "../w.bin")
    case.link("sub2", "sub")
    for location in ("a", "sub/b", "sub2/b"):
        assert case.read(location) == DATA


@pytest.mark.parametrize(
    "target", ["../outside/secret", "{outside}/secret", "sub/../../outside/./secret", "/etc/passwd"]
)
def test_a_link_to_a_file_outside_is_refused(case: Case, open_method: str, target: str) -> None:
    case.link("link", target.format(outside=case.outside_folder))
    case.assert_refused("link", match="symbolic link leads out")


@pytest.mark.parametrize("target", ["../outside", "{outside}", "/", "..", "../outside/"])
def test_a_link_to_a_folder_outside_is_refused(case: Case, open_method: str, target: str) -> None:
    case.link("link", target.format(outside=case.outside_folder))
    path_below_link = {"/": str(case.secret)[1:], "..": "outside/secret"}.get(target, "secret")
    case.assert_refused(f"link/{path_below_link}", match="symbolic link leads out")


def test_a_chain_of_links_that_ends_outside_is_refused(case: Case, open_method: str) -> None:
    case.link("sub/a", "../b")
    case.link("b", "sub/c")
    case.link("sub/c", "../d/secret")
    case.link("d", "../outside")
    case.assert_refused("sub/a", match="symbolic link leads out")


def test_a_link_that_leaves_the_folder_and_returns_is_followed(case: Case, open_method: str) -> None:
    os.symlink(case.folder, case.outside_folder / "back")
    case.link("link", "../outside/back/w.bin")
    assert case.read("link") == DATA


@pytest.mark.parametrize("location", ["loop", "loop/w.bin", "self"])
def test_a_loop_of_links_raises_source_error(case: Case, open_method: str, location: str) -> None:
    case.link("loop", "sub/loop")
    case.link("sub/loop", "../loop")
    case.link("self", "self/self")
    with pytest.raises(SourceError):
        case.read(location)


def test_chains_of_more_than_40_links_are_not_followed(case: Case) -> None:
    case.link("0", "w.bin")
    for i in range(1, 50):
        case.link(str(i), str(i - 1))
    assert case.read("39") == DATA
    with pytest.raises(SourceError, match="links"):
        case.read("40")


@pytest.mark.parametrize("target", ["nothing", "../nothing", "/nothing/there", "../outside/nothing"])
def test_links_to_nothing_are_missing_files(case: Case, open_method: str, target: str) -> None:
    case.link("link", target)
    with pytest.raises(SourceNotFoundError, match=r"link: No such file.*tensor 'w'"):
        case.read("link")


def test_a_refused_location_is_not_searched_in_another_folder(case: Case) -> None:
    case.link("link", case.secret)
    (case.outside_folder / "root").mkdir()
    (case.outside_folder / "root" / "link").write_bytes(DATA)
    case.assert_refused("link", external_root=case.outside_folder / "root")


@needs_proc
def test_links_of_proc_are_not_followed_by_the_kernel(case: Case) -> None:
    # When the kernel follows such a link, it opens the object directly and ignores the text of the link.
    with open(case.secret, "rb") as file:
        case.link("fd", f"/proc/self/fd/{file.fileno()}")
        case.assert_refused("fd", match="symbolic link leads out")
    for name in ("environ", "cmdline", "mem", "maps"):
        case.link(name, f"/proc/self/{name}")
        case.assert_refused(name, match="symbolic link leads out")
    case.link("root", "/proc/self/root")
    case.assert_refused(f"root{case.secret}", match="symbolic link leads out")


# --- hard links


def test_a_hard_link_to_a_file_outside_is_refused(case: Case, open_method: str) -> None:
    os.link(case.secret, case.folder / "hard")
    case.assert_refused("hard", match=r"2 names \(hard links\).*external_root=")


def test_a_file_is_refused_unless_all_its_hard_links_are_inside_the_folder(case: Case) -> None:
    (case.folder / "sub" / "deep").mkdir()
    for name in ("a", "sub/b", "sub/deep/c"):
        os.link(case.folder / "w.bin", case.folder / name)
        assert case.read(name) == DATA
    os.link(case.folder / "w.bin", case.outside_folder / "d")
    case.assert_refused("w.bin", match="hard links")


def test_hard_links_in_folders_behind_symbolic_links_do_not_count(case: Case) -> None:
    os.link(case.secret, case.folder / "hard")
    case.link("there", case.outside_folder)
    case.assert_refused("hard", match="hard links")


def test_a_hard_link_in_two_allowed_folders_counts_once(case: Case) -> None:
    os.link(case.secret, case.folder / "sub" / "hard")
    case.model.write_bytes(encode_tensors(tensor(("location", "hard"))))
    case.link("sub/m.onnx", "../m.onnx")  # so `sub` and the folder above it are both allowed
    with pytest.raises(ExternalDataError, match="hard links"):
        read_contents(case.folder / "sub" / "m.onnx")


def test_a_folder_that_is_a_link_is_searched_for_hard_links(case: Case, tmp_path: Path) -> None:
    os.link(case.folder / "w.bin", case.folder / "again")
    case.model.write_bytes(encode_tensors(tensor(("location", "again"))))
    os.symlink(case.folder, tmp_path / "link")
    assert read_contents(tmp_path / "link" / "m.onnx") == DATA


def test_the_search_for_hard_links_is_bounded(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    os.link(case.folder / "w.bin", case.folder / "sub" / "again")
    for i in range(30):
        (case.folder / f"other{i}").touch()
        (case.folder / "sub" / f"other{i}").touch()
    assert case.read("w.bin") == DATA
    # The limits are 10,000 entries of folders, and folders nested 32 deep.
    monkeypatch.setattr(external_files, "_MAX_ENTRIES", 20)
    case.assert_refused("w.bin", match="hard links")
    monkeypatch.setattr(external_files, "_MAX_ENTRIES", 10_000)
    monkeypatch.setattr(external_files, "_MAX_DEPTH", 0)
    case.assert_refused("w.bin", match="hard links")


# --- anything but regular files


def test_folders_pipes_sockets_and_devices_are_refused(case: Case, open_method: str) -> None:
    os.mkfifo(case.folder / "pipe")  # opening it would wait for a writer
    with socket.socket(socket.AF_UNIX) as server:
        with contextlib.chdir(case.folder):
            server.bind("socket")
        case.assert_refused("socket", match="it is a socket")
    case.assert_refused("pipe", match="it is a pipe")
    case.assert_refused("sub", match="it is a folder")
    # /dev/zero is endless. The model's folder has no file `zero`, so `zero` is searched in external_root.
    case.assert_refused("zero", match="it is a device", external_root="/dev")


def test_a_device_in_the_models_folder_is_refused(case: Case, open_method: str) -> None:
    case.link("zero", "/dev/zero")
    case.assert_refused("zero", match="symbolic link leads out")
    with contextlib.suppress(PermissionError):  # only root may create a device
        os.mknod(case.folder / "null", 0o666 | stat.S_IFCHR, os.makedev(1, 3))
        case.assert_refused("null", match="it is a device")


@needs_proc
def test_refused_locations_leave_no_descriptor_open(case: Case, open_method: str) -> None:
    os.mkfifo(case.folder / "pipe")
    os.link(case.secret, case.folder / "hard")
    case.link("link", case.secret)
    case.link("loop", "loop")
    n_before = len(os.listdir("/proc/self/fd"))
    for location in ("pipe", "hard", "link", "loop", "sub", "nothing", "w.bin/x", "../x", "x" * 300):
        with pytest.raises(Error):
            case.read(location)
    with pytest.raises(ExternalDataError):
        case.read("w.bin", ("offset", 17))
    assert len(os.listdir("/proc/self/fd")) == n_before


# --- folders of the model


@pytest.mark.parametrize("sub", ["", "onnx"])
@pytest.mark.parametrize("is_absolute", [False, True])
def test_a_model_in_a_cache_of_links_into_a_store_of_blobs_is_read(
    tmp_path: Path, open_method: str, sub: str, is_absolute: bool
) -> None:
    blobs, snapshot = tmp_path / "repo" / "blobs", tmp_path / "repo" / "snapshots" / "1f0c" / sub
    for folder in (blobs, snapshot):
        folder.mkdir(parents=True)
    (blobs / "h1").write_bytes(encode_tensors(tensor(("location", "m.onnx_data"))))
    (blobs / "h2").write_bytes(DATA)
    store = blobs if is_absolute else os.path.relpath(blobs, snapshot)
    os.symlink(f"{store}/h1", snapshot / "m.onnx")
    os.symlink(f"{store}/h2", snapshot / "m.onnx_data")
    assert read_contents(snapshot / "m.onnx") == DATA
    # Only the folder of the link m.onnx and the folder of its target are allowed, neither another store nor the folders
    # above them.
    for target in ("repo2/blobs/h2", "repo/secret", "repo/snapshots/secret"):
        (tmp_path / target).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / target).write_bytes(SECRET)
        (snapshot / "m.onnx_data").unlink()
        os.symlink(tmp_path / target, snapshot / "m.onnx_data")
        with pytest.raises(ExternalDataError, match="symbolic link leads out"):
            read_contents(snapshot / "m.onnx")


def test_a_link_to_a_model_finds_the_data_in_the_models_folder(case: Case, tmp_path: Path, open_method: str) -> None:
    case.read("w.bin")
    (tmp_path / "bin").mkdir()
    os.symlink("../model/m.onnx", tmp_path / "bin" / "current")
    os.symlink("current", tmp_path / "bin" / "latest")
    assert read_contents(tmp_path / "bin" / "latest") == DATA
    (tmp_path / "bin" / "w.bin").write_bytes(DATA[::-1])  # the file in the link's folder has precedence
    assert read_contents(tmp_path / "bin" / "latest") == DATA[::-1]


def test_data_is_found_through_a_link_to_the_models_folder(case: Case, tmp_path: Path, open_method: str) -> None:
    case.read("w.bin")
    os.symlink("model", tmp_path / "link")
    assert read_contents(tmp_path / "link" / "m.onnx") == DATA
    assert read_contents(tmp_path / "model" / "sub" / ".." / "m.onnx") == DATA


def test_data_in_a_store_of_blobs_is_refused_if_the_model_is_not_in_the_store(case: Case, open_method: str) -> None:
    # The outside folder is the store. The model is not a link to a file in the store.
    case.link("m.onnx_data", case.outside_folder / "secret")
    case.assert_refused("m.onnx_data", match="symbolic link leads out")


@needs_proc
def test_a_model_from_standard_input_can_not_read_files_below_dev(case: Case) -> None:
    name = f"onnxwire-test-{os.getpid()}"
    secret_path = Path("/dev/shm") / name
    case.model.write_bytes(encode_tensors(tensor(("location", f"shm/{name}"))))
    code = "import sys, onnxwire; print(onnxwire.load(sys.argv[1]).graph.initializer[0].numpy().tobytes())"
    try:
        secret_path.write_bytes(SECRET)
        for path in ("/dev/stdin", "/proc/self/fd/0", "/dev/fd/0"):
            with open(case.model, "rb") as file:
                process = subprocess.run([sys.executable, "-c", code, path], stdin=file, capture_output=True, text=True)
            assert SECRET.decode() not in process.stdout + process.stderr
            assert "SourceNotFoundError" in process.stderr
            process = subprocess.run(
                [sys.executable, "-c", code, path], input=case.model.read_bytes(), capture_output=True, check=False
            )
            assert SECRET not in process.stdout + process.stderr
            assert b"ExternalDataError" in process.stderr
    finally:
        secret_path.unlink()


# --- external_root, external_data


def test_external_root_is_an_additional_folder(case: Case, open_method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert case.read("secret", external_root=case.outside_folder) == SECRET
    case.link("link", case.secret)
    assert case.read("link", external_root=str(case.outside_folder)) == SECRET
    os.link(case.secret, case.outside_folder / "hard")
    os.link(case.secret, case.folder / "hard2")
    assert case.read("hard", external_root=case.outside_folder) == SECRET  # hard links in external_root are trusted
    monkeypatch.chdir(case.folder.parent)
    assert case.read("secret", external_root="outside") == SECRET


def test_locations_can_not_lead_out_of_external_root_either(case: Case, open_method: str, tmp_path: Path) -> None:
    (tmp_path / "third").write_bytes(SECRET)
    os.symlink("../third", case.outside_folder / "link")
    case.assert_refused("link", external_root=case.outside_folder, match="symbolic link leads out")
    case.assert_refused("../third", external_root=case.outside_folder, match=r"\.\.")
    case.assert_refused(str(case.secret), external_root=case.outside_folder, match="absolute")


@pytest.mark.parametrize("root", ["nothing", "model/w.bin", ""])
def test_external_root_must_be_a_folder(case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, root: str) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SourceError, match="external_root="):
        case.read("w.bin", external_root=root)


def test_a_function_receives_only_valid_locations(case: Case) -> None:
    received_locations: list[str] = []
    for location in ("../outside/secret", "/etc/passwd", "C:x", "a\\b", "a\0", "#x"):
        case.assert_refused(location, external_data=received_locations.append)
    assert not received_locations
    # A location that the caller lists in external_data is trusted.
    assert case.read("../outside/secret", external_data={"../outside/secret": DATA}) == DATA


# --- races


# Repeatedly replaces an entry of the model's folder by another file, pipe, link or folder, or moves a hard link.
SWAPPING_PROGRAM = """
import itertools, os, sys
kind, folder, secret = sys.argv[1:]
os.chdir(folder)
def replace(name, make):
    make("new")
    os.rename("new", name)
def make_file(name):
    with open(name, "wb") as file: file.write(b"the model's data")
def make_symbolic_link(name):
    os.symlink(secret, name)
def make_hard_link(name):
    os.link(secret, name)
def swap_pipe(i):
    replace("w", [make_file, os.mkfifo][i % 2])
def swap_file(i):
    replace("w", [make_file, make_symbolic_link, os.mkfifo, make_hard_link][i % 4])
def swap_folder(i):
    os.rename("d", "away")
    os.rename("real" if i % 2 else "link", "d")
    os.rename("away", "link" if i % 2 else "real")
def move_name(i):
    os.rename(*("w", "sub/w") if i % 2 else ("sub/w", "w"))
if kind == "folder":
    os.mkdir("d"); make_file("d/w"); os.symlink(os.path.dirname(secret), "link")
elif kind == "name":
    os.link(secret, "sub/w")
else:
    make_file("w")
print("ready", flush=True)
for i in itertools.count():
    {"file": swap_file, "pipe": swap_pipe, "folder": swap_folder, "name": move_name}[kind](i)
"""


@pytest.mark.parametrize(("kind", "location"), [("file", "w"), ("pipe", "w"), ("folder", "d/w"), ("name", "w")])
def test_a_path_swapped_while_it_is_opened_never_yields_the_secret(case: Case, kind: str, location: str) -> None:
    # onnx/onnx#7790: a path could be changed between its checks and its opening.
    (case.outside_folder / "w").write_bytes(SECRET)
    case.model.write_bytes(encode_tensors(tensor(("location", location))))
    command = [sys.executable, "-c", SWAPPING_PROGRAM, kind, str(case.folder), str(case.outside_folder / "w")]
    n_read, n_refused, n_rounds = 0, 0, 0
    with subprocess.Popen(command, stdout=subprocess.PIPE) as swapper:
        try:
            assert swapper.stdout is not None
            swapper.stdout.readline()
            # Open the path at least 3,000 times, then until both results have occurred 50 times, at most 30,000 times.
            # With the kind "name", the file has a second hard link outside of the folder, so it must never be read.
            while n_rounds < 3000 or (n_rounds < 30_000 and (n_refused < 50 or (kind != "name" and n_read < 50))):
                n_rounds += 1
                try:
                    files = ExternalFiles(str(case.model), mmap=n_rounds % 2 == 0)
                    data = bytes(files.open(location).view(0, 16))
                except Error:
                    n_refused += 1
                else:
                    assert data == DATA
                    n_read += 1
            assert swapper.poll() is None
        finally:
            swapper.kill()
    assert n_refused
    assert n_read or kind == "name"


# --- published vulnerabilities of the onnx package and of packages that read its files


def test_cve_2022_25882_a_location_that_begins_with_dots_is_refused(case: Case, open_method: str) -> None:
    # https://github.com/onnx/onnx/issues/3991: the location was appended to the folder's name without checks.
    for location in ("../outside/secret", "../../../../../../../../etc/passwd", ".././outside/secret"):
        case.assert_refused(location, match=r"\.\.")


def test_cve_2024_27318_a_location_with_dots_inside_is_refused(case: Case, open_method: str) -> None:
    # GHSA-whh8-fjgc-qp73: the first fix checked only the start of the location, and then removed leading dots and
    # slashes.
    for location in ("sub/../../outside/secret", "nothing/../../outside/secret", "/../outside/secret",
                     "...//../outside/secret", "./sub/./../../outside/secret", ".../../../outside/secret"):  # fmt: skip
        case.assert_refused(location)


def test_cve_2026_27489_a_link_among_the_folders_is_refused(case: Case, open_method: str) -> None:
    # GHSA-3r9x-f23j-gc73: only the last component was checked for links.
    case.link("link", "../outside")
    case.assert_refused("link/secret", match="symbolic link leads out")


def test_cve_2026_34447_a_link_as_the_file_is_refused(case: Case, open_method: str) -> None:
    # GHSA-p433-9wv8-28xj; onnx/onnx#7616: links were followed.
    case.link("weights.bin", case.secret)
    case.assert_refused("weights.bin", match="symbolic link leads out")


def test_cve_2026_34446_a_hard_link_as_the_file_is_refused(case: Case, open_method: str) -> None:
    # GHSA-cmw6-hcpp-c6jp: a check for symbolic links does not detect a hard link.
    os.link(case.secret, case.folder / "weights.bin")
    case.assert_refused("weights.bin", match="hard links")


def test_cve_2026_34445_keys_do_not_become_attributes(case: Case) -> None:
    # GHSA-538c-55jv-c5g9, CWE-915: every key was set, without a check, as an attribute of an object.
    keys = ["__class__", "__dict__", "__init__", "__getattribute__", "_fields", "count", "index", "evil_attr",
            "Location", "location ", "offset\0", "basepath"]  # fmt: skip
    entries = [(key, str(case.outside_folder)) for key in keys]
    assert case.read(*entries, "w.bin", *entries) == DATA


def test_cve_2026_34445_sizes_that_exhaust_memory_are_refused(case: Case) -> None:
    # GHSA-538c-55jv-c5g9, CWE-400: a length of petabytes was allocated; the length -1 read the whole file.
    for entry in (("length", 1 << 60), ("length", -1), ("offset", -1), ("offset", 1 << 60)):
        case.assert_refused("w.bin", entry)


def test_a_basepath_in_the_model_is_ignored(case: Case) -> None:
    # onnx.external_data_helper.set_external_data writes the basepath, which readers prepend to the location.
    with pytest.raises(SourceNotFoundError):
        case.read("secret", ("basepath", str(case.outside_folder)))


def test_two_locations_of_one_tensor_are_refused(case: Case) -> None:
    # onnx uses the last entry of a key, other readers the first.
    for locations in (("w.bin", "../outside/secret"), ("../outside/secret", "w.bin"), ("w.bin", "w.bin")):
        case.assert_refused(*locations, match="'location' more than once")


def test_cve_2026_27489_locations_in_the_working_directory_are_restricted(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The repair of onnx 1.21.0 was incomplete: a path had to begin with the canonical form of the model's folder, which
    # is empty for a model in the working directory, so locations of such a model were not restricted.
    case.link("rootlink", "/")
    location = f"rootlink{case.secret}"
    case.model.write_bytes(encode_tensors(tensor(("location", location))))
    monkeypatch.chdir(case.folder)
    for path in ("m.onnx", "./m.onnx", Path("m.onnx")):
        with pytest.raises(ExternalDataError, match="symbolic link leads out"):
            read_contents(path)


def test_a_location_that_begins_with_a_number_sign_is_refused(case: Case) -> None:
    # onnx/checker.cc does not check locations that begin with #.
    for name in ("#", "#sub"):
        (case.folder / name).mkdir()
    for location in ("#", "#/../w.bin", "#/../../outside/secret", "#sub/w.bin", "#w.bin", "#/../../../../etc/passwd"):
        case.assert_refused(location)


def test_the_location_that_denotes_memory_addresses_is_refused(case: Case) -> None:
    # microsoft/onnxruntime#28709: with this location, `offset` is a memory address that is read.
    (case.folder / "*" / "_ORT_MEM_ADDR_").mkdir(parents=True)
    (case.folder / "*" / "_ORT_MEM_ADDR_" / "*").write_bytes(DATA)
    secret = bytearray(SECRET)
    address = np.frombuffer(secret, np.uint8).ctypes.data
    case.assert_refused("*/_ORT_MEM_ADDR_/*", ("offset", address), ("length", 16), match="memory")


class NamedBytesIO(io.BytesIO):
    """A file object in memory that has a name."""

    name = "m.onnx"


def test_a_model_without_a_folder_can_not_read_the_working_directory(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    # onnx 1.22.0, numpy_helper.to_array and ReferenceEvaluator on bytes; microsoft/onnxruntime#27430: without a folder
    # the working directory was used, and in onnxruntime also its parents.
    monkeypatch.chdir(case.folder)
    for location in ("w.bin", "./w.bin", "../outside/secret"):
        data = encode_tensors(tensor(("location", location)))
        separate_tensor = onnxwire.TensorProto.FromString(
            onnx.ModelProto.FromString(data).graph.initializer[0].SerializeToString()
        )
        for source in (data, bytearray(data), io.BytesIO(data), NamedBytesIO(data)):
            with pytest.raises(ExternalDataError, match="tensor 'w'"):
                read_contents(source)
        with pytest.raises(ExternalDataError, match="'w'"):
            separate_tensor.numpy()


def test_locations_in_attributes_and_sparse_tensors_are_checked(case: Case) -> None:
    # microsoft/onnxruntime#28709: sparse tensors and tensors of attributes were read by other code than initializers,
    # with fewer checks.
    tensor_outside = tensor(("location", "../outside/secret"))
    indices = helper.make_tensor("i", onnx.TensorProto.INT64, [16], range(16))
    node = helper.make_node("Constant", [], ["y"], value=tensor_outside)
    inner_graph = helper.make_graph([node], "inner", [], [], initializer=[tensor_outside])
    sparse_tensor = onnx.SparseTensorProto(values=tensor_outside, indices=indices, dims=[16])
    graph = helper.make_graph(
        [node, helper.make_node("If", [], [], then_branch=inner_graph)], "g", [], [], initializer=[tensor_outside]
    )
    graph.sparse_initializer.append(sparse_tensor)
    case.model.write_bytes(onnx.ModelProto(ir_version=8, graph=graph).SerializeToString())
    with onnxwire.load(case.model) as model:
        loaded_graph = model.graph
        loaded_branch = loaded_graph.node[1].attribute[0].g
        tensors = [
            loaded_graph.initializer[0],
            loaded_graph.sparse_initializer[0].values,
            loaded_graph.node[0].attribute[0].t,
            loaded_branch.initializer[0],
            loaded_branch.node[0].attribute[0].t,
        ]
        for loaded_tensor in tensors:
            with pytest.raises(ExternalDataError, match=r"\.\."):
                loaded_tensor.numpy()
        for call in (loaded_graph.sparse_initializer[0].numpy, loaded_graph.sparse_initializer[0].to_coo):
            with pytest.raises(ExternalDataError, match=r"\.\."):
                call()


# --- models that try to overwrite files


def load_and_save(case: Case, *tensors: onnx.TensorProto, **options: Any) -> None:
    """Load a model with these initializers and save it in the folder `out`. Warnings and save errors are ignored."""
    case.model.write_bytes(encode_tensors(*tensors))
    (case.folder / "out").mkdir(exist_ok=True)
    with onnxwire.load(case.model) as model, contextlib.suppress(Error), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        onnxwire.save(model, case.folder / "out" / "m.onnx", **options)


def sizes_of_files(path: Path) -> dict[str, int]:
    """Return the sizes of the files below a folder in bytes, by their paths relative to the folder."""
    return {str(file.relative_to(path)): file.stat().st_size for file in path.rglob("*") if file.is_file()}


@pytest.fixture
def check_only_target_is_written(case: Case, tmp_path: Path) -> Iterator[None]:
    """Assert after the test that no file except the model and the files in `out` was added, removed or changed in size,
    that the secret is unchanged, and that all files together have less than 1 MiB."""
    sizes_before = sizes_of_files(tmp_path)
    yield
    sizes_after = sizes_of_files(tmp_path)
    assert {
        name: size for name, size in sizes_after.items() if not name.startswith(("model/out/", "model/m.onnx"))
    } == sizes_before
    assert case.secret.read_bytes() == SECRET
    assert sum(sizes_after.values()) < 1 << 20


SAVE_OPTIONS: list[dict[str, Any]] = [
    {}, {"external": None}, {"external": "weights.data", "threshold": 0}, {"external": "{name}", "threshold": 0},
]  # fmt: skip


@pytest.mark.parametrize("options", SAVE_OPTIONS, ids=str)
@pytest.mark.parametrize(
    "location", ["../../outside/secret", "sub/../../../outside/secret", "{outside}/secret", "link"]
)
def test_cve_2025_51480_saving_writes_to_no_location_of_the_model(
    case: Case, check_only_target_is_written: None, options: dict[str, Any], location: str
) -> None:
    # GHSA-6rq9-53c3-f7vj, onnx/onnx#6959 and #7040: save_external_data wrote raw_data to any path in the model, and
    # through links (VA-26-233-01).
    (case.folder / "out").mkdir()
    os.symlink(case.secret, case.folder / "out" / "link")
    target = location.format(outside=case.outside_folder)
    load_and_save(case, tensor(("location", target), raw_data=b"must not be seen"), **options)


@pytest.mark.parametrize("options", SAVE_OPTIONS, ids=str)
def test_saving_does_not_write_zeros_up_to_an_offset_in_the_model(
    case: Case, check_only_target_is_written: None, options: dict[str, Any]
) -> None:
    # onnx/onnx#8055 and #8260: the file was filled with zeros up to the offset.
    load_and_save(case, tensor(("location", "new.bin"), ("offset", 1 << 50), raw_data=b"must not be seen"), **options)


@pytest.mark.parametrize(
    "name", ["../../outside/secret", "{outside}/secret", "..", "a/../../../outside/secret", "link"]
)
def test_names_of_tensors_as_file_names_never_lead_out_of_the_folder(
    case: Case, check_only_target_is_written: None, name: str
) -> None:
    # onnx.save_model(all_tensors_to_one_file=False) used the tensor's name as the name of the file.
    (case.folder / "out").mkdir()
    os.symlink(case.secret, case.folder / "out" / "link")
    inline = onnx.TensorProto(
        name=name.format(outside=case.outside_folder), dims=[16], data_type=onnx.TensorProto.UINT8, raw_data=DATA
    )
    load_and_save(case, inline, external="{name}", threshold=0)
