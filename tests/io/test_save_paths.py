"""Targets of saves: replaced files, links, folders that an attacker swaps, file objects, invalid paths."""

import contextlib
import errno
import hashlib
import io
import itertools
import os
import subprocess
import sys
import threading

import onnx
import pytest
from onnx import numpy_helper
from test_save_external_faults import N_ELEMENTS, make_model, save_model, tree, value_of
from test_save_faults import DROP_PRIVILEGES, needs_linux, needs_root, public_folder  # noqa: F401  (a fixture)

import onnxwire
from onnxwire.io import folder as folders
from onnxwire.io.atomic_file import AtomicFile

# --- data files that belong to a model


def write_reference(folder, dims, **external):
    """Write folder/m.onnx, a model with one external tensor. external: the entries of its external_data."""
    model = onnxwire.ModelProto(ir_version=10)
    model.graph.initializer.add(
        name="w", dims=dims, data_type=onnx.TensorProto.UINT8, data_location=onnx.TensorProto.EXTERNAL
    )
    for key, value in external.items():
        model.graph.initializer[0].external_data.add(key=key, value=value)
    (folder / "m.onnx").write_bytes(model.SerializeToString())


EXTERNAL_RANGES = {
    "no length": ([8], {"location": "notes.txt"}),
    "a part": ([8], {"location": "notes.txt", "length": "8"}),
    "all but the first byte": ([7999], {"location": "notes.txt", "offset": "1", "length": "7999"}),
    "the whole file, more than the dims need": ([8], {"location": "notes.txt", "length": "8000"}),
    "more than the file has": ([9000], {"location": "notes.txt", "length": "9000"}),
}


@pytest.mark.parametrize(("dims", "external"), EXTERNAL_RANGES.values(), ids=EXTERNAL_RANGES)
def test_a_reference_does_not_make_a_file_the_models_own(tmp_path, dims, external):
    (tmp_path / "notes.txt").write_bytes(b"precious" * 1000)
    write_reference(tmp_path, dims, **external)
    tree_before = tree(tmp_path)
    with pytest.raises(onnxwire.SaveError, match=r"notes\.txt.*overwrite=True"):
        onnxwire.save(make_model(1), tmp_path / "m.onnx", external="notes.txt")
    assert tree(tmp_path) == tree_before
    onnxwire.save(make_model(1), tmp_path / "m.onnx", external="notes.txt", overwrite=True)
    assert value_of(tmp_path / "m.onnx") == 1


@pytest.mark.parametrize("damage", ["between", "after", "far"])
def test_a_byte_outside_of_all_tensors_protects_the_file(tmp_path, damage):
    # "far" is a zero byte 1 GiB from the start: the zeros before it are too many for padding.
    path = save_model(tmp_path, 1, {"external": "w.data"})
    with (tmp_path / "w.data").open("r+b") as file:
        file.seek(
            {"between": 4 * N_ELEMENTS + 5, "after": 0, "far": 1 << 30}[damage], os.SEEK_END if damage == "after" else 0
        )
        file.write(b"x" if damage != "far" else b"\0")
    with pytest.raises(onnxwire.SaveError, match="overwrite=True"):
        onnxwire.save(make_model(2), path, external="w.data")
    assert value_of(path) == 1


def test_padding_does_not_protect_a_file(tmp_path):
    path = save_model(tmp_path, 1, {"external": "w.data", "align": 1 << 20})
    with (tmp_path / "w.data").open("ab") as file:
        file.write(bytes(1000))
    onnxwire.save(make_model(2), path, external="w.data")
    assert value_of(path) == 2


def test_a_file_created_after_the_check_is_not_replaced(tmp_path):
    path = save_model(tmp_path, 1, {"external": "w.data"})

    def create_file(*_):
        if (tmp_path / "w.data").read_bytes() != b"precious":
            (tmp_path / "w.data").unlink()
            (tmp_path / "w.data").write_bytes(b"precious")

    with pytest.raises(onnxwire.SaveError, match="overwrite=True"):
        onnxwire.save(make_model(2), path, external="w.data", progress=create_file)
    assert (tmp_path / "w.data").read_bytes() == b"precious"
    assert sorted(tree(tmp_path)) == ["m.onnx", "w.data"]


# --- links


@pytest.mark.parametrize("target", ["real.onnx", "./real.onnx", "{folder}/real.onnx", "second"])
@pytest.mark.parametrize("is_present", [False, True])
def test_names_are_compared_after_links_are_resolved(tmp_path, target, is_present):
    (tmp_path / "m.onnx").symlink_to(target.format(folder=tmp_path))
    (tmp_path / "second").symlink_to("real.onnx")
    if is_present:
        onnxwire.save(make_model(1), tmp_path / "real.onnx")
    tree_before = tree(tmp_path)
    for external in ("real.onnx", "m.onnx", "./real.onnx", lambda info: "real.onnx"):
        with pytest.raises(onnxwire.EditError, match="the model itself"):
            onnxwire.save(make_model(2), tmp_path / "m.onnx", external=external, overwrite=True)
        assert tree(tmp_path) == tree_before
    onnxwire.save(make_model(2), tmp_path / "m.onnx", external="w.data")
    assert os.readlink(tmp_path / "m.onnx") == target.format(folder=tmp_path)
    assert value_of(tmp_path / "m.onnx") == value_of(tmp_path / "real.onnx") == 2


# The following functions return the folder of the links, the folder of the files, and the format of the target of a
# link, in which {} is replaced by the name of the file.


def hugging_face(base):
    """Return the layout of huggingface_hub: links from each revision into a folder of files named by their hash."""
    snapshot, blobs = base / "models--org--name" / "snapshots" / "0123abcd", base / "models--org--name" / "blobs"
    return snapshot, blobs, "../../blobs/{}"


def modelscope(base):
    """Return the layout of modelscope: links with absolute paths from a folder of the user into the cache."""
    return base / "work", base / "cache" / "files", str(base / "cache" / "files" / "{}")


def dvc(base):
    """Return the layout of dvc and git-annex: folders named by the first digits of the hash of a file."""
    return base / "repo" / "models", base / "repo" / ".dvc" / "cache" / "ab", "../.dvc/cache/ab/{}"


@needs_linux
@pytest.mark.parametrize("layout", [hugging_face, modelscope, dvc])
def test_a_model_in_a_download_cache_replaces_its_link_and_the_cache_does_not_change(tmp_path, layout):
    folder, store, link = layout(tmp_path)
    folder.mkdir(parents=True)
    store.mkdir(parents=True)
    save_model(folder, 1, {"external": "w.data"})
    for name in ("m.onnx", "w.data"):
        digest = hashlib.sha256((folder / name).read_bytes()).hexdigest()
        (folder / name).rename(store / digest)
        (folder / name).symlink_to(link.format(digest))
    tree_before = tree(store)
    with onnxwire.load(folder / "m.onnx") as model:
        assert (model.graph.initializer[0].numpy() == 1).all()
        with pytest.raises(onnxwire.EditError, match="the path contains a symbolic link"):
            onnxwire.save(model, folder / "m.onnx", external="w.data", overwrite=True)
        onnxwire.save(model, folder / "m.onnx", external="new.data")
    # onnx and onnxwire read the saved model by its path, and the store is unchanged.
    assert value_of(folder / "m.onnx") == 1
    assert not (folder / "m.onnx").is_symlink()
    assert {*tree(folder)} == {"m.onnx", "w.data", "new.data"}
    assert tree(store) == tree_before


@needs_linux
@needs_root
@pytest.mark.parametrize(("owner", "is_followed"), [(0, True), (12345, False)], ids=["ours", "of another user"])
@pytest.mark.parametrize("kind", ["file", "folder"])
def test_links_of_another_user_in_a_world_writable_folder_are_not_followed(public_folder, owner, is_followed, kind):  # noqa: F811
    public_folder.chmod(0o1777)
    (public_folder / "inner").mkdir()
    target = public_folder / "inner" / "m.onnx"
    target.write_bytes(b"old")
    link = public_folder / "link"
    link.symlink_to(target if kind == "file" else "inner")
    os.chown(link, owner, owner, follow_symlinks=False)
    path = link if kind == "file" else link / "m.onnx"
    if is_followed:
        onnxwire.save(make_model(1), path)
        assert value_of(target) == 1
        return
    with pytest.raises(
        onnxwire.SaveError, match="another user's symbolic link in a world-writable folder"
    ) as error_info:
        onnxwire.save(make_model(1), path)
    assert error_info.value.errno == errno.EACCES
    assert target.read_bytes() == b"old"


# --- an attacker who swaps parts of the path


@needs_linux
@pytest.mark.parametrize("swapped_kind", ["file", "folder"])
def test_swapping_a_path_between_any_two_system_calls_has_no_effect_outside(tmp_path, swapped_kind):
    """An attacker with write access to the model's folder swaps the path before the n-th system call, for every n."""
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "w.data").write_bytes(b"precious")
    tree_before = tree(victim)
    n_moments = 0
    for moment in itertools.count():
        folder = tmp_path / f"{moment}"
        folder.mkdir()
        (folder / "d").mkdir()
        remaining_calls = moment

        def swap_path(frame, event, function, folder=folder):
            nonlocal remaining_calls
            if event == "c_call" and getattr(function, "__module__", None) == "posix":
                remaining_calls -= 1
                if remaining_calls == -1:
                    swapped_name, target = ("d/w.data", victim / "w.data") if swapped_kind == "file" else ("d", victim)
                    if (folder / swapped_name).exists():
                        (folder / swapped_name).rename(folder / "moved")
                    (folder / swapped_name).symlink_to(target)

        sys.setprofile(swap_path)
        try:
            onnxwire.save(make_model(1), folder / "m.onnx", external="d/w.data")
        except onnxwire.Error:
            pass
        finally:
            sys.setprofile(None)
        assert tree(victim) == tree_before
        n_moments += 1
        if remaining_calls >= 0:
            break
    assert n_moments > 30


@pytest.fixture
def without_dir_fd(monkeypatch):
    """Disable system calls with names relative to an open folder, which some systems lack."""
    monkeypatch.setattr(folders, "HAS_DIR_FD", False)


def test_files_are_saved_on_systems_without_relative_opens(without_dir_fd, tmp_path, monkeypatch):
    (tmp_path / "link.onnx").symlink_to("m.onnx")
    for value, options in enumerate(({}, {"external": "w.data"}, {"external": "d/e/{name}"}, {"external": "w.data"})):
        onnxwire.save(make_model(value), tmp_path / "link.onnx", overwrite=True, **options)
        assert value_of(tmp_path / "m.onnx") == value
    assert (tmp_path / "link.onnx").is_symlink()
    assert {*tree(tmp_path)} == {"link.onnx", "m.onnx", "w.data", "d", "d/e", "d/e/a", "d/e/b"}
    (tmp_path / "out").symlink_to("d")
    with pytest.raises(onnxwire.EditError, match="the path contains a symbolic link"):
        onnxwire.save(make_model(1), tmp_path / "m.onnx", external="out/w.data")
    with pytest.raises(onnxwire.SaveError, match="there is no directory"):
        onnxwire.save(make_model(1), tmp_path / "absent" / "m.onnx")
    read_end, write_end = os.pipe()
    with AtomicFile(f"/dev/fd/{write_end}") as target:
        target.write(b"new")
    assert os.read(read_end, 9) == b"new"
    os.close(read_end)
    os.close(write_end)


def test_checksums_need_neither_pread_nor_preadv(tmp_path):  # Windows lacks both
    code = (
        "import os, sys, numpy\n"
        "del os.pread, os.preadv\n"
        "import onnxwire\n"
        "weights = [onnxwire.from_array(numpy.zeros(1 << 20, 'f'), 'w')]\n"
        "onnxwire.save(onnxwire.ModelProto(graph={'initializer': weights}), sys.argv[1], external='w', checksum=True)\n"
        "onnxwire.verify(sys.argv[1], checksums=True)\n"
    )
    subprocess.run([sys.executable, "-c", code, tmp_path / "m.onnx"], check=True)
    onnxwire.verify(tmp_path / "m.onnx", checksums=True)


def test_no_descriptor_is_left_open(tmp_path):
    if not os.path.isdir("/proc/self/fd"):
        pytest.skip("needs /proc")
    path = save_model(tmp_path, 1, {"external": "d/{name}/w"})
    (tmp_path / "mine").write_bytes(b"x")
    n_before = len(os.listdir("/proc/self/fd"))
    for external in ("d/{name}/w", "d/{name}/w", None, "mine", "d/a", "m.onnx"):
        with contextlib.suppress(onnxwire.Error):
            onnxwire.save(make_model(1), path, external=external)
        assert len(os.listdir("/proc/self/fd")) == n_before


def test_a_save_with_one_folder_per_tensor_needs_few_descriptors(tmp_path):
    code = (
        "import resource, sys, numpy, onnxwire, onnxwire.io.external_save\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))\n"
        "weights = [onnxwire.from_array(numpy.full(300, n, 'f'), f'w{n}') for n in range(100)]\n"
        "for _ in range(2): onnxwire.save(onnxwire.ModelProto(graph={'initializer': weights}), sys.argv[1],\n"
        "    external='{name}/w.bin', overwrite=True)\n"
    )
    subprocess.run([sys.executable, "-c", code, tmp_path / "m.onnx"], check=True)
    weights = onnx.load(tmp_path / "m.onnx").graph.initializer
    assert [numpy_helper.to_array(weight)[0] for weight in weights] == [*range(100)]


# --- file objects


class PartialWriter(io.RawIOBase):
    """A file object whose write accepts a thousand bytes, and returns or raises `answer` at the third call."""

    def __init__(self, answer):
        self.answer, self.calls, self.received = answer, 0, b""

    def writable(self):
        return True

    def write(self, data):
        self.calls += 1
        if self.calls == 3:
            if isinstance(self.answer, OSError):
                raise self.answer
            return self.answer
        self.received += bytes(data[:1000])
        return min(len(data), 1000)


ANSWERS = [None, 0, -1, 1 << 40, OSError(errno.EIO, os.strerror(errno.EIO)), BlockingIOError(errno.EAGAIN, "later", 0)]


@pytest.mark.normal_build
@pytest.mark.parametrize("answer", ANSWERS, ids=repr)
def test_the_error_of_a_failing_file_object_has_the_number_of_written_bytes(answer):
    model = onnxwire.ModelProto(doc_string="x" * 10_000)
    file = PartialWriter(answer)
    with pytest.raises(onnxwire.SaveError, match=f"2,000 of {model.ByteSize():,} bytes are written"):
        onnxwire.save(model, file)
    assert model.SerializeToString().startswith(file.received)


@needs_linux
def test_the_error_of_a_non_blocking_pipe_has_the_number_of_written_bytes():
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)
    model = onnxwire.ModelProto(doc_string="x" * 1_200_000)
    with (
        open(write_end, "wb", buffering=0) as file,
        pytest.raises(onnxwire.SaveError, match="make it blocking") as error_info,
    ):
        onnxwire.save(model, file)
    received = b""
    while block := os.read(read_end, 1 << 20):
        received += block
    os.close(read_end)
    assert f"{len(received):,} of 1,200," in str(error_info.value)
    assert model.SerializeToString().startswith(received)


@needs_linux
def test_a_blocking_pipe_receives_all_bytes():
    read_end, write_end = os.pipe()
    model, received = onnxwire.ModelProto(doc_string="x" * 1_200_000), []
    with open(read_end, "rb") as reader:
        thread = threading.Thread(target=lambda: received.append(reader.read()))
        thread.start()
        with open(write_end, "wb", buffering=0) as file:
            assert onnxwire.save(model, file) == model.ByteSize()
        thread.join()
    assert received == [model.SerializeToString()]


# --- invalid paths


@needs_linux
def test_absolute_paths_need_no_working_directory(tmp_path, monkeypatch):
    model = make_model(2)
    onnxwire.save(model, tmp_path / "m.onnx", external="m.data")
    value = value_of(tmp_path / "m.onnx")
    removed_folder = tmp_path / "gone"
    removed_folder.mkdir()
    monkeypatch.chdir(removed_folder)
    removed_folder.rmdir()
    loaded_model = onnxwire.load(tmp_path / "m.onnx")
    onnxwire.save(loaded_model, tmp_path / "n.onnx", external="n.data")
    onnxwire.save(loaded_model, tmp_path / "m.onnx")
    for name in ("m.onnx", "n.onnx"):
        assert value_of(tmp_path / name) == value
    for options in ({}, {"external": "x.data"}):
        with pytest.raises(onnxwire.SaveError, match=r"^x\.onnx: .*the file or its directory was removed"):
            onnxwire.save(loaded_model, "x.onnx", **options)


@pytest.mark.parametrize("options", [{}, {"external": "d"}], ids=["alone", "external"])
def test_the_missing_directory_of_a_links_target_is_named(tmp_path, options):
    (tmp_path / "link.onnx").symlink_to("nosuch/m.onnx")
    with pytest.raises(onnxwire.SaveError, match=r"link\.onnx: .*there is no directory .*/nosuch"):
        onnxwire.save(make_model(1), tmp_path / "link.onnx", **options)


INVALID_NAMES = ["a\0b", "\ud800"]
# b"\x08\x08" is a model with ir_version 8.
PATH_FUNCTIONS = {
    "load": onnxwire.load,
    "external_root": lambda path: onnxwire.load(b"\x08\x08", external_root=path),
    "verify": onnxwire.verify,
    "check": onnxwire.check,
    "operators": lambda path: onnxwire.check(b"\x08\x08", operators=path),
    "load_schema": onnxwire.load_schema,
    "save": lambda path: onnxwire.save(make_model(1), path),
    "external": lambda path: onnxwire.save(make_model(1), path, external="d"),
    "to_npy": lambda path: onnxwire.to_npy(make_model(1).graph.initializer[0], path),
    "to_npz": lambda path: onnxwire.to_npz({"w": make_model(1).graph.initializer[0]}, path),
    "to_safetensors": lambda path: onnxwire.to_safetensors(make_model(1), path),
    "from_safetensors": lambda path: onnxwire.from_safetensors(make_model(1), path),
}


@pytest.mark.parametrize("path", INVALID_NAMES, ids=ascii)
@pytest.mark.parametrize("path_function", PATH_FUNCTIONS)
def test_an_invalid_file_name_raises_a_file_error(path_function, path):
    with pytest.raises(
        (onnxwire.SourceError, onnxwire.SaveError), match="the path is not a valid file name"
    ) as error_info:
        PATH_FUNCTIONS[path_function](path)
    assert error_info.value.filename == path


@pytest.mark.parametrize("result", ["all", 1.5, -1, 10**9], ids=repr)
def test_a_write_that_returns_no_valid_count_is_an_error(result):
    class File:
        def write(self, data):
            return result

    with pytest.raises(onnxwire.SaveError, match=r"<File>: its write returned .* bytes are written"):
        onnxwire.save(make_model(1), File())
