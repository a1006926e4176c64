"""Tests of the security rules of external data: spellings of locations, and the ranges and contents of files."""

import pytest
from each import each

import onnxwire
from onnxwire import ModelProto, TensorProto
from onnxwire.checker.rules.security_files import location_fault

AMBIGUOUS_LOCATIONS = [
    "file:///etc/passwd", "http://host/w.bin", "s3://bucket/w.bin", "$HOME/w.bin", "%TEMP%/w.bin", "~/w.bin",
    "..%2f..%2fw.bin", "%252e%252e/w.bin", "\uff0e\uff0e/w.bin",
    "a\uff0fb.bin", "a\u2215b.bin", "\u2025/w.bin", "w\u202enib.bin",
    "w\u200b.bin", "w.bin\x00.data", "a\nb", "NUL", "con.bin", "w.bin:stream", "w.bin.", "w.bin ", "a" * 300, "*.bin",
    "a|b", "COM1/w.bin",
]  # fmt: skip
ORDINARY_LOCATIONS = [
    "w.bin", "model.onnx.data", "a/b-1.0/c_2.data", "weights of the model.bin", "größe.bin", "重み.bin", "100%.bin",
    "a%20b.bin", "onnx__MatMul_12", "model.onnx_data", "layers.0.attn/q.weight", "a&b=c;d,e@f#g!h'i(j)[k]{l}^m+n.bin",
]  # fmt: skip


@each("location", AMBIGUOUS_LOCATIONS)
def test_a_location_that_programs_interpret_differently_has_a_fault(location):
    assert location_fault(location)


def test_the_parts_dot_and_dot_dot_are_not_reported_as_trailing_dots():
    assert "lead out of the model's folder" in location_fault("../w.bin")
    assert location_fault("./w.bin") == ""
    assert "ends with a dot" in location_fault("folder./w.bin")


@each("location", ORDINARY_LOCATIONS)
def test_an_ordinary_location_has_no_fault(location):
    assert location_fault(location) == ""


def _write_model(path, *tensors):
    """Write a model of external tensors. tensors: the location, offset and length of each."""
    model = ModelProto(ir_version=8, graph={"name": "g"})
    for location, offset, length in tensors:
        tensor = TensorProto(name="w", data_type=2, dims=[length], data_location=TensorProto.EXTERNAL)
        for key, value in {"location": location, "offset": offset, "length": length}.items():
            tensor.external_data.append(onnxwire.StringStringEntryProto(key=key, value=str(value)))
        model.graph.initializer.append(tensor)
    path.write_bytes(model.SerializeToString())


def _problem_paths(path, rule):
    """Return the paths of the problems of a rule."""
    return [problem.path for problem in onnxwire.check(path, untrusted=True, select=rule)]


def test_a_model_file_that_is_used_as_external_data_is_reported(tmp_path):
    path = tmp_path / "m.onnx"
    (tmp_path / "w.bin").write_bytes(bytes(64))
    _write_model(path, ("m.onnx", 0, 8), ("w.bin", 0, 8))
    assert _problem_paths(path, "security-file-own-model") == ["graph.initializer[0].external_data[0]"]


@pytest.mark.parametrize("size, count", [(1 << 16, 0), (1 << 20, 1)])
def test_many_bytes_that_no_tensor_uses_are_reported_and_few_are_not(tmp_path, size, count):
    path = tmp_path / "m.onnx"
    (tmp_path / "w.bin").write_bytes(bytes(size + 100))
    _write_model(path, ("w.bin", 0, 50), ("w.bin", 50, 50), ("w.bin", 0, 50))
    assert len(_problem_paths(path, "security-file-gap")) == count


def test_bytes_of_overlapping_tensors_count_once_as_used(tmp_path):
    path = tmp_path / "m.onnx"
    size = 1 << 20
    (tmp_path / "w.bin").write_bytes(bytes(size))
    _write_model(path, ("w.bin", 0, 100), ("w.bin", 50, size - 50))
    assert _problem_paths(path, "security-file-gap") == []
    _write_model(path, ("w.bin", 0, 100), ("w.bin", 10, 20), ("w.bin", 50, 100))
    (problem,) = onnxwire.check(path, untrusted=True, select="security-file-gap")
    assert f"{size - 150:,} of the {size:,} bytes" in problem.message


def test_each_of_many_ranges_that_overlaps_an_earlier_one_is_reported(tmp_path):
    # Comparing all pairs of 20,000 ranges would take minutes.
    path = tmp_path / "m.onnx"
    _write_model(path, *((f"{i % 7}.bin", i, 1000) for i in range(20_000)))
    assert len(_problem_paths(path, "security-file-overlap")) == 20_000 - 7


PROGRAM = b"\x7fELF\x02\x01\x01" + bytes(57)
FILES_WITH_PROGRAM = {
    "a file that is only a program": PROGRAM,
    "a program before the weights": bytes(16) + PROGRAM + bytes(400),
    "a program after the weights": bytes(360) + PROGRAM,
    "a program between weights, after zeros": bytes(200) + PROGRAM + bytes(200),
    "a program after the beginning of a gap": bytes(150) + b"text" * 8 + PROGRAM + bytes(500),
}


@each("name", [*FILES_WITH_PROGRAM, "weights"])
def test_a_program_in_a_file_of_weights_is_reported_and_weights_are_not(name, tmp_path):
    path = tmp_path / "m.onnx"
    (tmp_path / "w.bin").write_bytes(FILES_WITH_PROGRAM.get(name, bytes(range(256)) * 4))
    # Two tensors of 20 bytes, a missing file, and an empty tensor at the greatest offset.
    _write_model(path, ("w.bin", 80, 20), ("w.bin", 340, 20), ("v.bin", 0, 8), ("w.bin", (1 << 63) - 1, 0))
    expected = [] if name == "weights" else ["graph.initializer[0].external_data[0]"]
    assert _problem_paths(path, "security-file-payload") == expected


def test_a_program_in_a_sparse_gap_is_reported(tmp_path):
    path = tmp_path / "m.onnx"
    with open(tmp_path / "w.bin", "wb") as file:
        file.seek(1 << 28)
        file.write(PROGRAM)
        file.truncate(1 << 30)
    _write_model(path, ("w.bin", 0, 8))
    assert _problem_paths(path, "security-file-payload") == ["graph.initializer[0].external_data[0]"]


def test_only_the_first_gaps_of_a_file_of_many_tensors_are_read(tmp_path):
    path = tmp_path / "m.onnx"
    # The program is in the last gap, after all tensors, and only the first 64 gaps of a file are read.
    (tmp_path / "w.bin").write_bytes(bytes(200_000) + PROGRAM)
    _write_model(path, *(("w.bin", 100 * i, 10) for i in range(2000)))
    assert _problem_paths(path, "security-file-payload") == []
