"""If a file is changed while a model mapped from it is open, reading payloads, encoding and saving raise errors.

Writing to the file and truncating it are changes; replacing, renaming and unlinking it are not. The same applies to
writing to an external data file.
"""

import functools
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import onnxwire
from onnxwire import SourceError

N_ELEMENTS = 1 << 18  # elements of a tensor; 1 MiB of float32


@functools.cache
def encode_model(value: float) -> bytes:
    """Encode a model whose weights all have one value, less than 128; the layout does not depend on the value."""
    weights = [numpy_helper.from_array(np.full(N_ELEMENTS, value, np.float32), name) for name in ("w", "v")]
    typed_tensor = helper.make_tensor("typed", TensorProto.FLOAT, [N_ELEMENTS], [value] * N_ELEMENTS)
    counts = helper.make_tensor("counts", TensorProto.INT64, [N_ELEMENTS], [int(value)] * N_ELEMENTS)
    graph = helper.make_graph([helper.make_node("Relu", ["w"], ["y"])], "g", [], [], [*weights, typed_tensor, counts])
    return helper.make_model(graph).SerializeToString()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Write a model whose weights are 1, call `wait_for_later_time`, and return the path of the model."""
    path = tmp_path / "model.onnx"
    path.write_bytes(encode_model(1))
    wait_for_later_time(path)
    return path


def wait_for_later_time(path: Path) -> None:
    """Wait until the file system's clock has advanced, so that a later write has a later modification time."""
    probe = path.with_name("probe")
    time_before = path.stat().st_mtime_ns
    while True:
        probe.write_bytes(b"")
        if probe.stat().st_mtime_ns > time_before:
            break
        time.sleep(0.001)
    probe.unlink()


def write_over(path: Path) -> None:
    """Overwrite a file in place, as some exporters do."""
    with path.open("r+b") as file:
        file.write(encode_model(2))


def overwrite_in_another_process(path: Path) -> None:
    """Overwrite a file from a separate process."""
    source = path.with_name("other.onnx")
    source.write_bytes(encode_model(2))
    subprocess.run(["cp", source, path], check=True)


def overwrite_and_restore_the_time(path: Path) -> None:
    """Overwrite a file and restore its time, as `rsync --inplace --times` does when both versions have the same
    time."""
    status = path.stat()
    write_over(path)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


CHANGES: list[Callable[[Path], None]] = [
    write_over,
    overwrite_in_another_process,
    overwrite_and_restore_the_time,
]
READS: dict[str, Callable[[onnxwire.ModelProto], object]] = {
    "numpy": lambda model: model.graph.initializer[0].numpy(),
    "raw_data": lambda model: model.graph.initializer[0].raw_data,
    "read": lambda model: model.graph.initializer[0].read(slice(5)),
    "a typed field as numpy": lambda model: np.asarray(model.graph.initializer[2].float_data),
    "a typed field": lambda model: model.graph.initializer[2].float_data[0],
    "varints": lambda model: model.graph.initializer[3].int64_data[0],
    "serialized": lambda model: model.SerializeToString(),
    "a tensor serialized": lambda model: model.graph.initializer[0].SerializeToString(),
    "deterministic": lambda model: model.SerializeToString(deterministic=True),
    "printed": lambda model: str(model.graph.initializer[0]),
    "printed as a whole": lambda model: str(model),
    "compared": lambda model: model.graph == onnxwire.GraphProto(),
    "searched": lambda model: onnxwire.TensorProto(name="w") in model.graph.initializer,
    "copied": lambda model: onnxwire.GraphProto(initializer=[model.graph.initializer[0]]).SerializeToString(),
}


@pytest.mark.skipif(sys.platform == "win32", reason="files have no ctime")
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("read", READS)
def test_values_of_a_file_that_was_written_to_are_refused(
    read: str, change: Callable[[Path], None], path: Path
) -> None:
    model = onnxwire.load(path)
    change(path)
    with pytest.raises(SourceError, match=r"model.onnx: the file was written to since it was opened.* load it again"):
        READS[read](model)


@pytest.mark.skipif(sys.platform == "win32", reason="mapped files can't be truncated")
def test_values_of_a_file_that_was_truncated_are_refused(path: Path) -> None:
    model = onnxwire.load(path)
    tensor = model.graph.initializer[0]
    assert tensor.name == "w" and list(tensor.dims) == [N_ELEMENTS] and tensor.data_type == TensorProto.FLOAT
    os.truncate(path, 100)
    reads: list[Callable[[], object]] = [tensor.numpy, lambda: tensor.raw_data, model.SerializeToString]
    reads += [lambda: str(tensor), lambda: str(model), lambda: model == onnxwire.ModelProto()]
    reads += [lambda: tensor == onnxwire.TensorProto()]
    for read in reads:
        with pytest.raises(SourceError, match=r"model.onnx: the file has 100 bytes now, and had .* load it again"):
            read()


def test_a_model_of_a_file_that_was_written_to_is_not_saved(path: Path, tmp_path: Path) -> None:
    for name in ("plain", "edited", "external"):
        path.write_bytes(encode_model(1))
        wait_for_later_time(path)
        model = onnxwire.load(path)
        if name == "edited":
            model.producer_name = "edited"
        write_over(path)
        with pytest.raises(SourceError, match="written to since it was opened"):
            onnxwire.save(model, tmp_path / name, **({"external": "w.data"} if name == "external" else {}))  # type: ignore[arg-type]
        assert not (tmp_path / name).exists()
        assert not (tmp_path / "w.data").exists()


def test_a_write_while_the_file_is_copied_leaves_no_new_file(path: Path, tmp_path: Path) -> None:
    weights = numpy_helper.from_array(np.ones(6 << 20, np.float32), "w")
    path.write_bytes(helper.make_model(helper.make_graph([], "g", [], [], [weights])).SerializeToString())
    wait_for_later_time(path)
    model = onnxwire.load(path)

    def write_to_file(n_written: int, total: int) -> None:
        if n_written < total:
            with path.open("r+b") as file:
                file.seek(-1, os.SEEK_END)
                file.write(b"x")

    with pytest.raises(SourceError, match="written to since it was opened"):
        onnxwire.save(model, tmp_path / "out.onnx", progress=write_to_file)
    assert not (tmp_path / "out.onnx").exists()


def test_elements_of_another_model_are_refused_when_its_file_was_written_to(path: Path, tmp_path: Path) -> None:
    source = onnxwire.load(path)
    model = onnxwire.ModelProto()
    model.graph.initializer.extend(source.graph.initializer)
    model.graph.initializer.add(name="new").raw_data = b"x"
    write_over(path)
    with pytest.raises(SourceError, match="written to since it was opened"):
        model.SerializeToString()
    with pytest.raises(SourceError, match="written to since it was opened"):
        onnxwire.save(model, tmp_path / "out.onnx")


def test_other_permissions_names_and_links_are_not_a_change(path: Path, tmp_path: Path) -> None:
    model = onnxwire.load(path)
    expected = path.read_bytes()
    path.chmod(0o640)
    assert model.SerializeToString() == expected
    os.link(path, tmp_path / "second.onnx")
    assert model.SerializeToString() == expected
    path.rename(tmp_path / "moved.onnx")
    assert model.SerializeToString() == expected
    (tmp_path / "moved.onnx").unlink()
    (tmp_path / "second.onnx").unlink()
    assert model.graph.initializer[0].numpy()[0] == 1
    assert model.SerializeToString() == expected


def test_replacing_a_file_is_not_a_change_of_the_open_file(path: Path, tmp_path: Path) -> None:
    model = onnxwire.load(path)
    (tmp_path / "new").write_bytes(encode_model(2))
    os.replace(tmp_path / "new", path)
    assert model.graph.initializer[0].numpy()[0] == 1
    onnxwire.save(model, path)
    assert model.graph.initializer[0].numpy()[0] == 1
    assert onnxwire.load(path).graph.initializer[0].numpy()[0] == 1


def test_external_data_that_was_written_to_is_refused(path: Path, tmp_path: Path) -> None:
    for is_mapped in (True, False):
        onnxwire.save(onnxwire.load(path), tmp_path / "out.onnx", external="w.data", overwrite=True)
        wait_for_later_time(tmp_path / "w.data")
        with onnxwire.load(tmp_path / "out.onnx", mmap=is_mapped) as model:
            assert model.graph.initializer[0].numpy()[0] == 1
            with (tmp_path / "w.data").open("r+b") as file:
                file.write(np.full(N_ELEMENTS, 2, np.float32).tobytes())
            with pytest.raises(SourceError, match=r"w\.data: the file was written to since it was opened"):
                model.graph.initializer[0].numpy()
            with pytest.raises(SourceError, match=r"w\.data: the file was written to since it was opened"):
                onnxwire.save(model, tmp_path / "inline.onnx", external=None)
            assert not (tmp_path / "inline.onnx").exists()


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="counts the descriptors in /proc")
def test_an_open_file_uses_one_descriptor(path: Path) -> None:
    n_before = len(os.listdir("/proc/self/fd"))
    models = [onnxwire.load(path) for _ in range(20)]
    assert len(os.listdir("/proc/self/fd")) == n_before + 20
    for model in models:
        model.close()
    assert len(os.listdir("/proc/self/fd")) == n_before
