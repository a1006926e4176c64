"""Reading external data: references, byte ranges, opening, reading and closing of files, and data in place of files."""

import hashlib
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st

import onnxwire
from onnxwire.engine.document import Document
from onnxwire.errors import ClosedError, ExternalDataError, InUseError, SourceError, SourceNotFoundError
from onnxwire.io.external_files import ExternalFiles
from onnxwire.messages import TensorProto
from onnxwire.tensor.external_data import Reference, locate_payload, reference_of
from onnxwire.tensor.external_file import ExternalFile

needs_proc = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
needs_preadv = pytest.mark.skipif(not hasattr(os, "preadv"), reason="needs os.preadv")
both_mmap_modes = pytest.mark.parametrize("mmap", [True, False], ids=["mapped", "read"])
DATA = bytes(range(256)) * 40


def tensor(*entries: tuple[str, object], name: str = "w", dims: tuple[int, ...] = (16,)) -> onnx.TensorProto:
    """Return an EXTERNAL tensor of bytes with these entries of external_data."""
    message = onnx.TensorProto(name=name, dims=dims, data_type=onnx.TensorProto.UINT8)
    message.data_location = onnx.TensorProto.EXTERNAL
    for key, value in entries:
        message.external_data.add(key=key, value=str(value))
    return message


def tensor_at(location: str, offset: object = None, length: object = None, **options: Any) -> onnx.TensorProto:
    """Return an EXTERNAL tensor of bytes in a file.

    location, offset, length: the entries of external_data; None omits an entry. options: as for `tensor`.
    """
    entries = [("location", location), ("offset", offset), ("length", length)]
    return tensor(*((key, value) for key, value in entries if value is not None), **options)


def write_model(path: Path, *tensors: onnx.TensorProto) -> Path:
    """Write a model of these tensors. Return its path."""
    path.write_bytes(onnx.ModelProto(ir_version=8, graph={"initializer": tensors}).SerializeToString())
    return path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Write a model whose tensor is the 16 bytes from byte 100 of its data file."""
    (tmp_path / "w.bin").write_bytes(DATA)
    return write_model(tmp_path / "m.onnx", tensor_at("w.bin", 100, 16))


def load_initializer(path: Path, index: int = 0, **options: Any) -> TensorProto:
    """Load a model, and return one of its initializers. options: as for `load`."""
    return onnxwire.load(path, **options).graph.initializer[index]


def count_descriptors() -> int:
    """Return the number of open descriptors of this process."""
    return len(os.listdir("/proc/self/fd"))


# --- references


def onnxwire_tensor(*entries: tuple[str, object]) -> TensorProto:
    """Return the result of `tensor` as a message of onnxwire."""
    return TensorProto.FromString(tensor(*entries).SerializeToString())


def test_a_reference_has_the_entries_of_external_data() -> None:
    entries = ("checksum", "ab12"), ("length", 7), ("location", "a/b"), ("offset", "0004096")
    assert reference_of(onnxwire_tensor(*entries)) == Reference("a/b", 4096, 7, "ab12")


def test_a_reference_without_offset_and_length_refers_to_the_whole_file() -> None:
    assert reference_of(onnxwire_tensor(("location", "w"))) == ("w", 0, None, None)


@given(st.integers(0, (1 << 63) - 1))
def test_every_offset_that_a_file_can_have_is_accepted(offset: int) -> None:
    assert reference_of(onnxwire_tensor(("location", "w"), ("offset", offset), ("length", offset)))[1:3] == (
        offset,
        offset,
    )


def test_a_repeated_key_is_refused() -> None:
    for key in Reference._fields:
        with pytest.raises(ExternalDataError, match=f"'w'.*{key!r} more than once"):
            reference_of(onnxwire_tensor(("location", "a"), (key, "1"), (key, "1")))


# --- ranges


@both_mmap_modes
@given(st.integers(0, 300), st.one_of(st.none(), st.integers(0, 300)))
def test_offset_and_length_are_honoured_to_the_byte(
    tmp_path_factory: pytest.TempPathFactory, mmap: bool, offset: int, length: int | None
) -> None:
    folder = tmp_path_factory.mktemp("m")
    (folder / "w.bin").write_bytes(DATA[:200])
    expected = DATA[:200][offset : None if length is None else offset + length]
    model_path = write_model(folder / "m.onnx", tensor_at("w.bin", offset, length, dims=(len(expected),)))
    if offset > 200 or (length is not None and offset + length > 200):
        with pytest.raises(ExternalDataError, match=r"tensor 'w'.*200 bytes"):
            load_initializer(model_path, mmap=mmap).numpy()
    else:
        assert load_initializer(model_path, mmap=mmap).numpy().tobytes() == expected


@both_mmap_modes
def test_an_empty_file_is_read_as_zero_bytes(tmp_path: Path, mmap: bool) -> None:
    (tmp_path / "w.bin").touch()
    model_path = write_model(tmp_path / "m.onnx", tensor_at("w.bin", dims=(0, 3)))
    assert load_initializer(model_path, mmap=mmap).numpy().shape == (0, 3)
    file = ExternalFiles(str(model_path), mmap=mmap).open("w.bin")
    assert (file.size, bytes(file.view(0, 0))) == (0, b"")
    assert file.sha1() == hashlib.sha1().hexdigest()


@both_mmap_modes
def test_offsets_may_be_beyond_4_gib(tmp_path: Path, mmap: bool) -> None:
    offset = (5 << 30) + 3
    with open(tmp_path / "w.bin", "wb") as file:  # the file is a hole, except at its end
        file.seek(offset)
        file.write(DATA[:16])
    assert (
        load_initializer(write_model(tmp_path / "m.onnx", tensor_at("w.bin", offset)), mmap=mmap).numpy().tobytes()
        == DATA[:16]
    )


# --- opening


def test_no_file_is_opened_before_its_first_use(tmp_path: Path) -> None:
    tensor = load_initializer(write_model(tmp_path / "m.onnx", tensor_at("w.bin")))
    (tmp_path / "w.bin").write_bytes(DATA[:16])
    assert tensor.numpy().tobytes() == DATA[:16]


@needs_proc
def test_tensors_of_one_file_share_one_mapping(tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(DATA)
    os.symlink("w.bin", tmp_path / "link")
    locations = ["w.bin", "./w.bin", "w.bin", "link"]
    model = onnxwire.load(write_model(tmp_path / "m.onnx", *(tensor_at(location, length=16) for location in locations)))
    arrays = [tensor.numpy() for tensor in model.graph.initializer]
    assert all(np.shares_memory(arrays[0], array) for array in arrays)
    assert Path("/proc/self/maps").read_text().count(str(tmp_path / "w.bin")) == 1


@needs_proc
@both_mmap_modes
def test_closing_releases_files_and_mappings(path: Path, mmap: bool) -> None:
    n_before = count_descriptors()
    with onnxwire.load(path, mmap=mmap) as model:
        assert model.graph.initializer[0].numpy()[0] == 100
        assert count_descriptors() > n_before
    assert count_descriptors() == n_before
    assert str(path.parent) not in Path("/proc/self/maps").read_text()


@needs_proc
@both_mmap_modes
def test_an_unreferenced_model_releases_its_files(path: Path, mmap: bool) -> None:
    n_before = count_descriptors()
    load_initializer(path, mmap=mmap).numpy()
    assert count_descriptors() == n_before


def test_all_files_stay_open_while_an_array_refers_to_one_of_them(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).write_bytes(DATA)
    model = onnxwire.load(write_model(tmp_path / "m.onnx", tensor_at("a", length=16), tensor_at("b", length=16)))
    first_array, second_array = (tensor.numpy() for tensor in model.graph.initializer)
    del first_array
    with pytest.raises(InUseError, match=r"b is still in use, by 1 array"):
        model.close()
    assert second_array.tobytes() == model.graph.initializer[0].numpy().tobytes() == DATA[:16]
    del second_array
    model.close()
    with pytest.raises(ClosedError):
        model.graph  # noqa: B018


def test_data_that_was_read_into_memory_outlives_the_model(path: Path) -> None:
    with onnxwire.load(path, mmap=False) as model:
        array = model.graph.initializer[0].numpy()
    assert array.tobytes() == DATA[100:116]


def test_operations_on_a_closed_file_raise(path: Path) -> None:
    for mmap in (True, False):
        files = ExternalFiles(str(path), mmap=mmap)
        file = files.open("w.bin")
        files.close()
        files.close()
        for operation in (
            lambda file=file: file.view(0, 1),
            lambda file=file: file.read_into(0, bytearray(1)),
            lambda files=files: files.open("w.bin"),
        ):
            with pytest.raises(ClosedError, match="closed"):
                operation()


def test_data_is_found_after_a_change_of_the_working_directory(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(path.parent)
    tensor = load_initializer(Path(path.name))
    monkeypatch.chdir("/")
    assert tensor.numpy()[0] == 100


def test_files_may_be_in_subfolders_of_the_models_folder(tmp_path: Path) -> None:
    (tmp_path / "a" / "ä b").mkdir(parents=True)
    (tmp_path / "a" / "ä b" / "..w.bin..").write_bytes(DATA[:16])
    assert (
        load_initializer(write_model(tmp_path / "m.onnx", tensor_at("./a//ä b/./..w.bin.."))).numpy().tobytes()
        == DATA[:16]
    )


@both_mmap_modes
def test_a_missing_file_is_named_with_its_tensor(tmp_path: Path, mmap: bool) -> None:
    model_path = write_model(tmp_path / "m.onnx", tensor_at("sub/w.bin"))
    with pytest.raises(SourceNotFoundError, match=r"sub/w.bin: No such file.*external_root=.*tensor 'w'") as error_info:
        load_initializer(model_path, mmap=mmap).numpy()
    assert error_info.value.filename == str(tmp_path / "sub/w.bin")


def test_a_file_where_a_folder_should_be_is_an_error(path: Path) -> None:
    with pytest.raises(SourceError, match=r"w.bin/x: Not a directory"):
        load_initializer(write_model(path, tensor_at("w.bin/x"))).numpy()


@pytest.mark.skipif(sys.platform == "win32", reason="needs the module `resource`")
def test_the_error_of_too_many_files_contains_a_remedy(tmp_path: Path) -> None:
    names = [f"{i}.bin" for i in range(40)]
    for name in names:
        (tmp_path / name).write_bytes(DATA[:16])
    code = (  # run in a separate process, since the descriptors of this process are unknown
        "import resource, sys, onnxwire\n"
        "def read(): return [tensor.numpy().tobytes().hex() for tensor in model.graph.initializer]\n"
        "model = onnxwire.load(sys.argv[1])\n"
        "model.graph.initializer[0].numpy()\n"  # imports every module that reading needs
        "limits = resource.getrlimit(resource.RLIMIT_NOFILE)\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (24, limits[1]))\n"
        "try: read()\n"
        "except onnxwire.SourceError as error: print(error)\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, limits)\n"
        "print(*read())\n"
    )
    command = [sys.executable, "-c", code, write_model(tmp_path / "m.onnx", *map(tensor_at, names))]
    message, values = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert "Too many open files; raise the limit" in message
    assert values.split() == [DATA[:16].hex()] * 40


def test_folders_need_not_be_readable(tmp_path: Path) -> None:
    # Root may read everything, so the program changes to another user if it runs as root.
    code = (
        "import os, sys, tempfile, pathlib, numpy, onnxwire\n"
        "folder = pathlib.Path(tempfile.mkdtemp(dir='/tmp'))\n"
        "model, data = map(bytes.fromhex, sys.argv[1:])\n"
        "(folder / 'sub').mkdir()\n"
        "(folder / 'm.onnx').write_bytes(model); (folder / 'sub' / 'w.bin').write_bytes(data)\n"
        "for name in ('', 'sub'): (folder / name).chmod(0o111)\n"
        "def read(): return onnxwire.load(folder / 'm.onnx').graph.initializer[0].numpy().tobytes()\n"
        "read()\n"  # imports every module that reading needs
        "if os.getuid() == 0: os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        "print(folder, read() == data)\n"
    )
    model_bytes = write_model(tmp_path / "m.onnx", tensor_at("sub/w.bin")).read_bytes()
    command = [sys.executable, "-c", code, model_bytes.hex(), DATA[:16].hex()]
    folder, is_equal = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    for name in ("", "sub"):
        os.chmod(os.path.join(folder, name), 0o700)
    for name in ("sub/w.bin", "m.onnx"):
        os.unlink(os.path.join(folder, name))
    os.removedirs(os.path.join(folder, "sub"))
    assert is_equal == "True"


# --- reading


@needs_preadv
def test_only_the_requested_bytes_are_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reads = []
    preadv = os.preadv

    def record_read(descriptor: int, buffers: list[memoryview], offset: int) -> int:
        reads.append((offset, sum(map(len, buffers))))
        return preadv(descriptor, buffers, offset)

    monkeypatch.setattr(os, "preadv", record_read)
    tensor = load_initializer(path, mmap=False)
    assert not reads
    assert tensor.read(slice(3, 5)).tolist() == [103, 104]
    assert reads == [(103, 2)]
    assert tensor.numpy()[0] == 100
    assert reads[1:] == [(100, 16)]


@needs_preadv
def test_short_reads_are_continued(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    preadv = os.preadv
    monkeypatch.setattr(os, "preadv", lambda fd, buffers, offset: preadv(fd, [buffers[0][:3]], offset))
    assert load_initializer(path, mmap=False).numpy().tobytes() == DATA[100:116]


@both_mmap_modes
def test_reading_a_file_that_was_truncated_raises(path: Path, mmap: bool) -> None:
    tensor = load_initializer(path, mmap=mmap)
    tensor.numpy()
    os.truncate(path.parent / "w.bin", 110)
    with pytest.raises(SourceError, match=r"w.bin: the file has 110 bytes now.* 10,240 .*truncated"):
        tensor.numpy()
    with pytest.raises(SourceError, match="truncated"):
        tensor.read(slice(8, None))


@both_mmap_modes
def test_reading_a_file_that_was_changed_raises(path: Path, mmap: bool) -> None:
    tensor = load_initializer(path, mmap=mmap)
    tensor.numpy()
    os.truncate(path.parent / "w.bin", 116)  # the file still has the bytes of the tensor
    with pytest.raises(SourceError, match="truncated"):
        tensor.numpy()
    with open(path.parent / "w.bin", "wb") as file:
        file.write(DATA[::-1])
    with pytest.raises(SourceError, match="written to since it was opened"):
        tensor.numpy()


# --- files


# Functions that open the external data file of the model at a path, or a buffer with its bytes.
OPENERS: dict[str, Callable[[Path], ExternalFile]] = {
    "mapped": lambda path: ExternalFiles(str(path)).open("w.bin"),
    "read": lambda path: ExternalFiles(str(path), mmap=False).open("w.bin"),
    "buffer": lambda path: ExternalFiles(None, data={"w": bytearray((path.parent / "w.bin").read_bytes())}).open("w"),
}
all_openers = pytest.mark.parametrize("open_file", OPENERS.values(), ids=OPENERS)


@all_openers
def test_a_checksum_is_that_of_the_whole_file(path: Path, open_file: Callable[[Path], ExternalFile]) -> None:
    data = DATA * 300  # long enough to be read in three pieces
    (path.parent / "w.bin").write_bytes(data)
    assert open_file(path).sha1() == hashlib.sha1(data).hexdigest()


@all_openers
@pytest.mark.parametrize("shape", [(), (7,), (3, 4), (2, 0)], ids=str)
def test_buffers_of_any_shape_are_filled(
    path: Path, open_file: Callable[[Path], ExternalFile], shape: tuple[int, ...]
) -> None:
    out = np.zeros(shape, np.float64)
    open_file(path).read_into(11, out)
    assert out.tobytes() == DATA[11 : 11 + out.nbytes]


@all_openers
def test_an_invalid_range_of_a_file_is_refused(path: Path, open_file: Callable[[Path], ExternalFile]) -> None:
    file, size = open_file(path), len(DATA)
    for offset, length in ((0, size + 1), (size, 1), (size + 1, 0), (-1, 1), (1, -1), (1 << 63, 1), (1, (1 << 64) - 1)):
        with pytest.raises(ExternalDataError, match=f"{size:,} bytes"):
            file.view(offset, length)
    with pytest.raises(ExternalDataError):
        file.read_into(size - 3, bytearray(4))
    assert bytes(file.view(size, 0)) == b""


@all_openers
def test_a_buffer_that_can_not_be_filled_is_refused(path: Path, open_file: Callable[[Path], ExternalFile]) -> None:
    for out in (bytes(4), np.zeros(8, np.uint8)[::2]):
        with pytest.raises((TypeError, ValueError, BufferError)):
            open_file(path).read_into(0, out)


def test_data_in_a_file_has_a_descriptor(path: Path) -> None:
    mapped_file, read_file, buffer_file = (opener(path) for opener in OPENERS.values())
    for file in (mapped_file, read_file):
        assert os.fstat(file.descriptor).st_size == file.size == len(DATA)
    assert buffer_file.descriptor == -1
    assert mapped_file.document is not None and read_file.document is None and buffer_file.document is not None


# --- data in place of files


def test_data_has_precedence_over_files_and_is_not_copied(path: Path) -> None:
    data = bytearray(DATA[::-1])
    array = load_initializer(path, external_data={"w.bin": data}).numpy()
    assert np.shares_memory(array, np.frombuffer(data, np.uint8))
    assert array.tobytes() == DATA[::-1][100:116]


def test_data_may_be_any_contiguous_buffer(path: Path) -> None:
    for data in (DATA, memoryview(DATA), np.frombuffer(DATA, np.float32).reshape(-1, 8)):
        assert load_initializer(path, external_data={"w.bin": data}).numpy()[0] == 100
    for invalid_data in ("text", 7, np.zeros(400, np.uint8)[::2]):
        with pytest.raises(TypeError, match=r"external_data for 'w.bin' is not a contiguous buffer of bytes"):
            load_initializer(path, external_data={"w.bin": invalid_data}).numpy()


def test_external_data_that_is_neither_mapping_nor_function_is_refused(path: Path) -> None:
    with pytest.raises(TypeError, match="external_data is a mapping or a function, not list"):
        onnxwire.load(path, external_data=[DATA])


def test_a_function_is_called_once_per_location_and_may_return_none(tmp_path: Path) -> None:
    locations = []

    def read_location(location: str) -> bytes | None:
        locations.append(location)
        return DATA[:16] if location == "a" else None

    (tmp_path / "b").write_bytes(DATA[16:32])
    model = onnxwire.load(
        write_model(tmp_path / "m.onnx", tensor_at("a"), tensor_at("b"), tensor_at("a")), external_data=read_location
    )
    assert [tensor.numpy()[0] for tensor in model.graph.initializer] == [0, 16, 0]
    assert locations == ["a", "b"]


def test_a_model_without_a_file_may_have_data() -> None:
    model_bytes = onnx.ModelProto(graph={"initializer": [tensor_at("w", length=16)]}).SerializeToString()
    tensor = onnxwire.load(model_bytes, external_data={"w": DATA}).graph.initializer[0]
    assert tensor.numpy().tobytes() == DATA[:16]


def test_data_that_is_too_short_is_an_error(path: Path) -> None:
    with pytest.raises(ExternalDataError, match=r"16 bytes from byte 100 of w.bin.*has 101 bytes"):
        load_initializer(path, external_data={"w.bin": DATA[:101]}).numpy()


def test_a_file_can_be_assigned_to_a_location(path: Path) -> None:
    files = ExternalFiles(None)
    file = files.add("anything/at all", ExternalFile(Document(DATA, "mine")))
    tensor = onnxwire_tensor(("location", "anything/at all"), ("offset", "5"))
    assert locate_payload(tensor, files) == (file, 5, len(DATA) - 5)
    view = memoryview(file.view(0, 1))
    with pytest.raises(InUseError, match="mine"):
        files.close()
    view.release()
    files.close()


def test_a_file_owns_the_descriptor_that_it_is_made_from(path: Path) -> None:
    for mmap in (True, False):
        descriptor = os.open(path.parent / "w.bin", os.O_RDONLY)
        file = ExternalFile.from_descriptor(descriptor, "mine", mmap=mmap)
        assert (file.name, file.size, bytes(file.view(3, 2))) == ("mine", len(DATA), DATA[3:5])
        file.close()
        with pytest.raises(OSError):
            os.fstat(descriptor)


# --- the folder and the model


def test_external_data_is_refused_if_the_model_file_was_replaced_during_loading(path: Path) -> None:
    status = os.stat(path)
    assert ExternalFiles(str(path), model_status=status).open("w.bin")
    (path.parent / "new").write_bytes(b"")
    os.replace(path.parent / "new", path)
    with pytest.raises(ExternalDataError, match="replaced while it was loaded"):
        ExternalFiles(str(path), model_status=status).open("w.bin")


def test_a_replaced_folder_is_not_used(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "w.bin").write_bytes(DATA)
    tensor = load_initializer(write_model(tmp_path / "a" / "m.onnx", tensor_at("w.bin")))
    (tmp_path / "a").rename(tmp_path / "c")
    (tmp_path / "b").rename(tmp_path / "a")
    with pytest.raises(ExternalDataError, match="was replaced since the model was loaded"):
        tensor.numpy()


def test_external_data_is_found_after_a_model_was_saved_over_itself(path: Path) -> None:
    os.symlink("m.onnx", path.parent / "link")
    model = onnxwire.load(path.parent / "link")
    onnxwire.save(model, path.parent / "link")
    assert model.graph.initializer[0].numpy()[0] == 100


def test_a_pipe_has_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "w.bin").write_bytes(DATA)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ExternalDataError, match="not read from a file"):
        ExternalFiles(str(tmp_path / "pipe")).open("w.bin")
