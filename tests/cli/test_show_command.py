"""`onnxwire show` prints any part of a model."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import commands
import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import onnxwire
from onnxwire.analysis.statistics import Histogram
from onnxwire.cli.cmd_show import histogram_lines

DIGITS = Path(__file__).parents[2] / "examples" / "digits_cnn.onnx"
MODEL = onnx.load(DIGITS)
WEIGHTS = {tensor.name: numpy_helper.to_array(tensor) for tensor in MODEL.graph.initializer}


def run(capsys, *arguments: object) -> str:
    return commands.output(capsys, "show", *arguments)


def error_line(capsys, *arguments: object) -> str:
    return commands.error_line(capsys, "show", *arguments)


def fields(text: str) -> dict[str, str]:
    """Parse the lines that have a key and a text into a dict."""
    return dict(line.split(None, 1) for line in text.splitlines() if len(line.split(None, 1)) == 2)


def save(path: Path, *weights: onnx.TensorProto, nodes: tuple = ()) -> Path:
    onnx.save(helper.make_model(helper.make_graph(list(nodes), "g", [], [], list(weights))), path)
    return path


def test_a_node_is_shown_with_its_operator_typed_inputs_and_attributes(capsys) -> None:
    out = run(capsys, DIGITS, "node:node_conv2d")
    assert out.startswith("graph.node[2]: NodeProto node_conv2d, 763 bytes at 1,102\n")
    assert fields(out)["operator"] == "Conv"
    assert "[1]  features.0.weight  FLOAT [16, 1, 3, 3]    initializer[0]" in out
    assert "[0]  conv2d  float[batch, 16, 8, 8]" in out
    assert "pads = [1, 1, 1, 1]" in out


def test_statistics_of_a_tensor_agree_with_numpy(capsys) -> None:
    weight = WEIGHTS["classifier.1.weight"].astype(np.float64)
    rows = fields(run(capsys, DIGITS, "tensor:classifier.1.weight").split("\n\n")[0])
    assert (rows["type"], rows["shape"], rows["elements"]) == ("FLOAT", "[64, 512]", f"{weight.size:,}")
    for key in ("min", "max", "mean", "std"):
        assert float(rows[key]) == pytest.approx(getattr(weight, key)(), rel=1e-5)
    assert (rows["zeros"], rows["NaN"], rows["Inf"]) == ("0", "0", "0")


def test_a_slice_is_shown_with_values_and_statistics(capsys) -> None:
    weight = WEIGHTS["classifier.1.weight"]
    shown_tensor = json.loads(run(capsys, DIGITS, "tensor:classifier.1.weight[0:4,:8]", "--json"))
    assert np.array_equal(np.array(shown_tensor["values"], np.float32), weight[:4, :8])
    assert (shown_tensor["index"], shown_tensor["shape_of_values"], shown_tensor["shape"]) == (
        "[0:4,:8]",
        [4, 8],
        [64, 512],
    )
    assert shown_tensor["statistics"]["max"] == weight[:4, :8].max()
    out = run(capsys, DIGITS, "tensor:classifier.1.weight[0:4,:8]")
    assert len(out.split("values [0:4,:8]\n")[1].split()) >= 32


def test_a_large_tensor_shows_its_first_values_and_their_index(capsys) -> None:
    assert "values [0:4,0:8] of 32,768\n" in run(capsys, DIGITS, "tensor:classifier.1.weight", "--no-stats")
    assert "values [0,0,0:3,0:3] of 4,608\n" in run(capsys, DIGITS, "tensor:features.3.weight")
    assert "values [2,0:8] of" not in run(capsys, DIGITS, "tensor:classifier.1.weight[2]")


def test_a_histogram_has_one_bar_per_bin() -> None:
    lines = histogram_lines(Histogram(0, 3, (0, 8, 4)), lambda text, style: text, 4, is_discrete=True)
    assert lines == ["0      0", "1 ████ 8", "2 ██   4"]
    lines = histogram_lines(Histogram(-1, 1, (1, 100)), lambda text, style: text, 10)
    assert [line.split()[0] for line in lines] == ["-1", "0", "1"]


def test_bins_sets_the_number_of_bins(capsys) -> None:
    shown_tensor = json.loads(run(capsys, DIGITS, "tensor:classifier.1.weight", "--json", "--bins", "5"))
    assert sum(shown_tensor["statistics"]["histogram"]["counts"]) == 64 * 512
    assert len(shown_tensor["statistics"]["histogram"]["counts"]) == 5
    assert (
        json.loads(run(capsys, DIGITS, "graph.initializer[0]", "--json", "--bins", "0"))["statistics"]["histogram"]
        is None
    )


def test_nan_and_inf_are_counted_and_are_strings_in_json(tmp_path, capsys) -> None:
    path = save(tmp_path / "m.onnx", numpy_helper.from_array(np.array([np.nan, np.inf, 1, 2], np.float32), "w"))
    rows = fields(run(capsys, path, "tensor:w"))
    assert (rows["NaN"], rows["Inf"], rows["max"]) == ("1", "1", "2")
    assert json.loads(run(capsys, path, "tensor:w[:2]", "--json"))["values"] == ["NaN", "Infinity"]


@pytest.mark.parametrize(
    "name", ["BFLOAT16", "FLOAT8E4M3FN", "INT4", "UINT2", "BOOL", "COMPLEX64", "FLOAT16", "UINT64"]
)
def test_tensors_of_many_types_can_be_shown(name, tmp_path, capsys) -> None:
    dtype_entry = onnxwire.tensor.dtypes.BY_NAME[name]
    tensor = onnxwire.from_array(np.array([[1, 0], [1, 1]]).astype(dtype_entry.dtype), "w")
    onnxwire.save(onnxwire.ModelProto(graph=onnxwire.GraphProto(initializer=[tensor])), tmp_path / "m.onnx")
    out = run(capsys, tmp_path / "m.onnx", "tensor:w")
    assert (fields(out)["type"], fields(out)["mean"], fields(out)["zeros"]) == (name, "0.75", "1  (25.0%)")
    assert len(json.loads(run(capsys, tmp_path / "m.onnx", "tensor:w[0]", "--json"))["values"]) == 2


def test_strings_and_scalars_and_empty_tensors_can_be_shown(tmp_path, capsys) -> None:
    arrays = {"s": np.array(["a", "b\n"], object), "x": np.array(3.5, np.float32), "e": np.empty((0, 2), np.int8)}
    path = save(tmp_path / "m.onnx", *(numpy_helper.from_array(array, name) for name, array in arrays.items()))
    assert run(capsys, path, "tensor:s").endswith('values\n"a"\n"b\\n"\n')
    assert run(capsys, path, "tensor:x").endswith("values\n3.5\n")
    assert fields(run(capsys, path, "tensor:e"))["elements"] == "none"


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("ir_version", "10\n"),
        ("node:node_conv2d.op_type", "Conv\n"),
        ("graph.node[2].attribute[0].type", "INT\n"),
        ("graph.initializer[8].dims", "64\n512\n"),
        ("graph.initializer[8].dims[1]", "512\n"),
        ("graph.node[3].attribute[epsilon].f", "1e-05\n"),
        ("graph.node[4].input", '[0]  "getitem"\n'),
        (
            "graph.node[4:6]",
            "[4]  node_relu  Relu(getitem) -> relu\n"
            "[5]  node_conv2d_1  Conv(relu, features.3.weight, features.3.bias) -> conv2d_1\n",
        ),
        ("graph.doc_string", "\n"),
    ],
)
def test_values_of_fields_are_printed(path: str, text: str, capsys) -> None:
    assert run(capsys, DIGITS, path) == text


def test_bytes_are_printed_in_hexadecimal_and_one_byte_in_decimal(capsys) -> None:
    lines = run(capsys, DIGITS, "graph.initializer[0].raw_data").splitlines()
    assert lines[0].split("  ")[1] == MODEL.graph.initializer[0].raw_data[:16].hex(" ")
    assert lines[-1].startswith("and 320 more bytes")
    assert run(capsys, DIGITS, "graph.initializer[0].raw_data[0]") == f"{MODEL.graph.initializer[0].raw_data[0]}\n"


def test_a_message_is_shown_field_by_field(capsys) -> None:
    out = run(capsys, DIGITS)
    assert out.startswith(f"{DIGITS}: ModelProto, 171,893 bytes at 0\n")
    assert 'producer_name   "pytorch"' in out and "main_graph  17 nodes, 16 tensors" in out
    assert "metadata_props" not in run(capsys, DIGITS, "graph.initializer[0].segment")


def test_a_message_in_json_has_the_format_of_protobuf_without_weights(capsys) -> None:
    shown_graph = json.loads(run(capsys, DIGITS, "graph", "--json"))
    assert (shown_graph["message"], shown_graph["path"]) == ("GraphProto", "graph")
    assert shown_graph["value"]["node"][2]["opType"] == "Conv"
    assert shown_graph["value"]["initializer"][8]["rawData"] == {"elidedBytes": 131072}
    assert json.loads(run(capsys, DIGITS, "ir_version", "--json"))["value"] == 10
    assert json.loads(run(capsys, DIGITS, "doc_string", "--json"))["is_set"] is False


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("node:nope", "node:nope: there is no node called 'nope'"),
        ("graph.node[17]", "graph.node[17] does not exist; the 17 elements are [0] to [16]"),
        ("tensor:classifier.1.weight[64]", "index 64 is out of bounds for axis 0 with size 64; the shape is [64, 512]"),
        ("tensor:classifier.1.weight[0,0,0]", "too many indices"),
        ("tensor:classifier.1.weight[::0]", "slice step cannot be zero"),
        ("graph.initializer[0].raw_data[0:4].x", "raw_data[0:4] is a value without fields"),
    ],
)
def test_a_wrong_path_is_reported_in_one_line(path: str, text: str, capsys) -> None:
    assert text in error_line(capsys, DIGITS, path)


def test_a_damaged_tensor_is_reported_in_one_line(tmp_path, capsys) -> None:
    path = save(tmp_path / "m.onnx", onnx.TensorProto(name="w", data_type=1, dims=[3], raw_data=b"1234"))
    assert "tensor 'w': dims [3] of FLOAT require 12 bytes; raw_data has 4" in error_line(capsys, path, "tensor:w")
    assert "UNDEFINED" in error_line(capsys, save(path, onnx.TensorProto(name="w", dims=[3])), "tensor:w")


def test_weights_in_other_files_are_read_or_reported_missing(tmp_path, capsys) -> None:
    weight = numpy_helper.from_array(np.arange(500, dtype=np.float32), "w")
    model = helper.make_model(helper.make_graph([], "g", [], [], [weight]))
    onnx.save(model, tmp_path / "m.onnx", save_as_external_data=True, location="m.data", size_threshold=0)
    rows = fields(run(capsys, tmp_path / "m.onnx", "tensor:w"))
    assert (rows["max"], rows["bytes"]) == ("499", "1.95 KiB, m.data at 0")
    (tmp_path / "m.data").unlink()
    assert "m.data" in error_line(capsys, tmp_path / "m.onnx", "tensor:w")


def test_a_constant_is_found_by_its_output(tmp_path, capsys) -> None:
    node = helper.make_node("Constant", [], ["k"], value=helper.make_tensor("", 7, [2], [4, 5]))
    path = save(tmp_path / "m.onnx", nodes=(node,))
    assert run(capsys, path, "tensor:k").endswith("values\n[4 5]\n")
    assert "value = INT64 [2] [4, 5]" in run(capsys, path, "node:k")


def test_control_characters_of_the_file_are_escaped(tmp_path, capsys) -> None:
    node = helper.make_node("\x1b[31mRelu", ["\x1b]0;x\x07"], ["y"], name="\x1b[2J", s="\x1b[1m")
    path = save(tmp_path / "m.onnx", nodes=(node,))
    for message_path in ("graph.node[0]", "graph", "graph.node", "graph.node[0].attribute"):
        assert "\x1b" not in run(capsys, path, message_path)


def test_the_type_option_reads_a_file_of_another_message(tmp_path, capsys) -> None:
    (tmp_path / "w.pb").write_bytes(numpy_helper.from_array(np.array([1, 2], np.int32), "w").SerializeToString())
    out = run(capsys, tmp_path / "w.pb", "[1]", "--type", "TensorProto")
    assert out.endswith("values [1]\n2\n")


@pytest.mark.skipif(sys.platform == "win32", reason="needs sparse files")
def test_a_slice_of_a_huge_tensor_is_shown_but_1_gib_as_json_is_rejected(tmp_path, capsys) -> None:
    data = tmp_path / "m.data"
    with open(data, "wb") as file:
        file.truncate(8 << 30)
    tensor = onnxwire.TensorProto(name="w", data_type=onnxwire.TensorProto.UINT8, dims=[8, 1 << 30], data_location=1)
    tensor.external_data.add(key="location", value="m.data")
    onnxwire.save(onnxwire.ModelProto(graph=onnxwire.GraphProto(initializer=[tensor])), tmp_path / "m.onnx")
    assert run(capsys, tmp_path / "m.onnx", "tensor:w[7,-3:]").endswith("[0 0 0]\n")
    assert "values [0:4,0:8]" in run(capsys, tmp_path / "m.onnx", "tensor:w", "--no-stats")
    assert "select up to" in error_line(capsys, tmp_path / "m.onnx", "tensor:w[0]", "--json", "--no-stats")


def test_weights_are_found_in_another_folder(capsys, tmp_path: Path) -> None:
    with onnxwire.load(DIGITS) as model:
        onnxwire.save(model, tmp_path / "m.onnx", external="m.data")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "m.data").rename(tmp_path / "elsewhere" / "m.data")
    words = ("tensor:classifier.1.weight", "--external-root", tmp_path / "elsewhere", "--json")
    shown_tensor = json.loads(run(capsys, tmp_path / "m.onnx", *words))
    assert (
        shown_tensor["statistics"]
        == json.loads(run(capsys, DIGITS, "tensor:classifier.1.weight", "--json"))["statistics"]
    )
