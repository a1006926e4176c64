"""Saving to a file that can't be replaced: a mount point, or a file in a folder without write permission."""

import errno
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper, numpy_helper

import onnxwire
from onnxwire import SaveError
from onnxwire.io import in_place
from onnxwire.io.file_lock import try_lock
from onnxwire.io.folder import Folder, identity_of

ROOT = Path(onnxwire.__file__).parent.parent
N_ELEMENTS = 1 << 20

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="other systems raise other errors")
needs_root = pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="needs root")
NOBODY_UID = 65534


def encode_model(value: float) -> bytes:
    """Encode a model with one weight, whose elements all are `value`."""
    weights = [numpy_helper.from_array(np.full(N_ELEMENTS, value, np.float32), "w")]
    return helper.make_model(helper.make_graph([], "g", [], [], weights)).SerializeToString()


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write a model, and use a temporary directory in which all users may write."""
    temporary_folder = tmp_path / "temporary"
    temporary_folder.mkdir()
    temporary_folder.chmod(0o777)
    monkeypatch.setenv("TMPDIR", str(temporary_folder))
    monkeypatch.setattr(tempfile, "tempdir", None)
    (tmp_path / "models").mkdir()
    path = tmp_path / "models" / "model.onnx"
    path.write_bytes(encode_model(1))
    return path


@pytest.fixture
def unreplaceable_path(path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a file that can't be replaced, like a mount point."""

    def replace(self: Folder, old: str, new: str) -> None:
        raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))

    monkeypatch.setattr(Folder, "replace", replace)
    return path


def list_entries(path: Path) -> list[str]:
    """Return the names in the model's folder and in the temporary directory."""
    return sorted(os.listdir(path.parent) + os.listdir(path.parents[1] / "temporary"))


# Saves the model at a path over itself twice. Arguments: the path, and optionally the id of another user who saves.
SAVING_PROGRAM = """
import os, random, shutil, sys, tempfile
import onnxwire, onnxwire.io.in_place
if len(sys.argv) > 2:
    # Import all modules first, since another user may have no permission to read Python's folder.
    with onnxwire.load(sys.argv[1]) as model:
        model.graph.initializer[0].numpy()
        onnxwire.save(model, sys.argv[1] + ".first")
    os.remove(sys.argv[1] + ".first")
    os.setuid(int(sys.argv[2]))
path = sys.argv[1]
inode = os.stat(path).st_ino
model = onnxwire.load(path)
array = model.graph.initializer[0].numpy()
model.producer_name = "saved over itself" * 100
size = onnxwire.save(model, path)
assert os.stat(path).st_ino == inode and os.path.getsize(path) == size
assert array[0] == array[-1] == 1 and model.graph.initializer[0].numpy()[-1] == 1
again = onnxwire.load(path)
assert again == model and again.graph.initializer[0].numpy()[-1] == 1
model.graph.initializer[0].raw_data = model.graph.initializer[0].raw_data[:4]
del model.graph.initializer[0].dims[:]
onnxwire.save(model, path)
assert os.path.getsize(path) < 10_000 and onnxwire.load(path).graph.initializer[0].numpy() == 1
assert again.graph.initializer[0].numpy()[-1] == 1
"""


def run_python(*command: object) -> None:
    """Run a command, and assert that it succeeds."""
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    result = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, env=environment)
    assert result.returncode == 0, result.stderr


@needs_root
def test_a_file_that_is_a_mount_point_is_written(path: Path, tmp_path: Path) -> None:
    target = tmp_path / "mounted.onnx"
    target.write_bytes(b"")
    if subprocess.run(["unshare", "-m", "true"], check=False, capture_output=True).returncode:
        pytest.skip("this process can't make mounts")
    shell = 'mount --bind "$1" "$2" && exec "$3" -c "$4" "$2"'
    run_python("unshare", "-m", "sh", "-c", shell, "sh", path, target, sys.executable, SAVING_PROGRAM)
    assert onnxwire.load(path).producer_name.startswith("saved over itself")
    assert list_entries(path) == ["model.onnx"]


@needs_root
def test_a_file_in_a_folder_without_write_permission_is_written(path: Path, tmp_path: Path) -> None:
    for folder in [path.parent, *path.parents]:
        if not folder.stat().st_mode & 0o1:
            if folder.is_relative_to(tempfile.gettempdir()) or folder.is_relative_to("/tmp"):
                folder.chmod(0o755)
            else:
                pytest.skip("another user can't access the folder")
    path.chmod(0o666)
    path.parent.chmod(0o555)
    try:
        run_python(sys.executable, "-c", SAVING_PROGRAM, path, NOBODY_UID)
    finally:
        path.parent.chmod(0o755)
    assert list_entries(path) == ["model.onnx"]


def test_a_file_that_can_not_be_replaced_is_written(unreplaceable_path: Path) -> None:
    model = onnxwire.load(unreplaceable_path)
    status = unreplaceable_path.stat()
    model.producer_name = "new"
    expected = model.SerializeToString()
    onnxwire.save(model, unreplaceable_path)
    assert unreplaceable_path.read_bytes() == expected == model.SerializeToString()
    assert (unreplaceable_path.stat().st_ino, unreplaceable_path.stat().st_mode) == (status.st_ino, status.st_mode)
    assert list_entries(unreplaceable_path) == ["model.onnx"]


def test_weights_that_were_loaded_from_the_old_file_do_not_change(unreplaceable_path: Path) -> None:
    model = onnxwire.load(unreplaceable_path)
    array = model.graph.initializer[0].numpy()
    copied_graph = onnxwire.GraphProto(initializer=model.graph.initializer)
    (unreplaceable_path.parent / "other.onnx").write_bytes(encode_model(2))
    onnxwire.save(onnxwire.load(unreplaceable_path.parent / "other.onnx"), unreplaceable_path)
    assert unreplaceable_path.read_bytes() == encode_model(2)
    assert array[-1] == copied_graph.initializer[0].numpy()[-1] == 1
    assert model.SerializeToString() == encode_model(1)


def test_a_failure_restores_the_old_bytes(unreplaceable_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy_range, bytes_before = in_place.copy_range, unreplaceable_path.read_bytes()
    calls: list[int] = []

    def failing_copy(
        source: int, source_offset: int, target: int, target_offset: int, length: int, **options: Any
    ) -> None:
        # The first call copies the old bytes to a backup, the second the new bytes to the file, the third the backup.
        calls.append(length)
        if len(calls) == 2:
            copy_range(source, source_offset, target, target_offset, length // 2)
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        copy_range(source, source_offset, target, target_offset, length, **options)

    monkeypatch.setattr(in_place, "copy_range", failing_copy)
    model = onnxwire.ModelProto(producer_name="x" * (8 << 20))
    with pytest.raises(SaveError, match=r"model\.onnx: Input/output error.*the old file is unchanged"):
        onnxwire.save(model, unreplaceable_path)
    assert len(calls) == 3
    assert unreplaceable_path.read_bytes() == bytes_before
    assert list_entries(unreplaceable_path) == ["model.onnx"]


def test_old_bytes_that_can_not_be_restored_stay_in_a_backup(
    unreplaceable_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy_range, bytes_before = in_place.copy_range, unreplaceable_path.read_bytes()
    calls: list[int] = []

    def failing_copy(
        source: int, source_offset: int, target: int, target_offset: int, length: int, **options: Any
    ) -> None:
        calls.append(length)
        if len(calls) > 1:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        copy_range(source, source_offset, target, target_offset, length, **options)

    monkeypatch.setattr(in_place, "copy_range", failing_copy)
    with pytest.raises(SaveError, match="the file may be damaged, and its old contents are in ") as error_info:
        onnxwire.save(onnxwire.ModelProto(producer_name="p"), unreplaceable_path)
    assert Path(str(error_info.value).rpartition(" are in ")[2]).read_bytes() == bytes_before


def test_a_lack_of_space_is_detected_before_the_first_write(
    unreplaceable_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail_without_space(*arguments: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    bytes_before = unreplaceable_path.read_bytes()
    monkeypatch.setattr(os, "posix_fallocate", fail_without_space)
    with pytest.raises(SaveError, match="No space left"):
        onnxwire.save(onnxwire.ModelProto(producer_name="x" * (8 << 20)), unreplaceable_path)
    assert unreplaceable_path.read_bytes() == bytes_before


def test_a_file_that_replaced_the_old_one_during_the_save_is_not_overwritten(
    unreplaceable_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other_path = unreplaceable_path.parent / "other"
    other_path.write_bytes(b"other")
    prepare = onnxwire.io.atomic_file.AtomicFile.prepare  # type: ignore[attr-defined]

    def prepare_and_replace(self: Any) -> None:
        prepare(self)
        os.replace(other_path, unreplaceable_path)

    monkeypatch.setattr("onnxwire.io.atomic_file.AtomicFile.prepare", prepare_and_replace)
    with pytest.raises(SaveError, match="the file was replaced in the meantime; save again"):
        onnxwire.save(onnxwire.ModelProto(producer_name="p"), unreplaceable_path)
    assert unreplaceable_path.read_bytes() == b"other"


def test_external_data_is_saved_in_the_folder_of_a_model_that_can_not_be_replaced(unreplaceable_path: Path) -> None:
    model = onnxwire.load(unreplaceable_path)
    with pytest.MonkeyPatch.context() as patch:
        replace = os.replace

        def replace_data_only(self: Folder, old: str, new: str) -> None:
            if new == unreplaceable_path.name:
                raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))
            replace(os.path.join(self.path, old), os.path.join(self.path, new))

        patch.setattr(Folder, "replace", replace_data_only)
        onnxwire.save(model, unreplaceable_path, external="w.data")
    assert onnxwire.load(unreplaceable_path).graph.initializer[0].numpy()[-1] == 1
    assert list_entries(unreplaceable_path) == ["model.onnx", "w.data"]


def test_a_simultaneous_save_over_the_same_file_is_refused(tmp_path: Path) -> None:
    path, source = tmp_path / "model.onnx", tmp_path / "new"
    path.write_bytes(b"old")
    source.write_bytes(b"new")
    with path.open("r+b") as locked_file, source.open("rb") as file:
        assert try_lock(locked_file.fileno())
        with pytest.raises(OSError, match="another save is overwriting the file"):
            in_place.write_over(Folder.at(str(tmp_path)), path.name, identity_of(path.stat()), file.fileno(), str(path))
    assert path.read_bytes() == b"old"
