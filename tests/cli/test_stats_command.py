"""`onnxwire stats` measures every tensor, and prints, writes or draws the statistics."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import commands
import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from wire import LEN, len_record, tag, varint, varint_record

import onnxwire
from onnxwire.cli import main

ROOT = Path(__file__).parents[2]
DIGITS = ROOT / "examples" / "digits_cnn.onnx"
MODEL = onnx.load(DIGITS)
WEIGHTS = {tensor.name: numpy_helper.to_array(tensor).astype(np.float64) for tensor in MODEL.graph.initializer}


def run(capsys, *arguments: object, status: int = 0) -> str:
    return commands.output(capsys, "stats", *arguments, status=status)


def error_line(capsys, *arguments: object) -> str:
    return commands.error_line(capsys, "stats", *arguments)


@pytest.fixture
def odd_model_path(tmp_path) -> Path:
    """Return the path of a model that has tensors with NaN, -Inf, strings, no elements, a hostile name, or no name."""
    arrays = {
        "bad": np.array([1, np.nan, -np.inf, 0], np.float32),
        "\x1b[31m<b>": np.arange(5, dtype=np.int64) - 1,
        "words": np.array(["a", "b"], object),
        "empty": np.empty((0, 3), np.float16),
    }
    weights = [numpy_helper.from_array(array, name) for name, array in arrays.items()]
    node = helper.make_node("Constant", [], ["k"], value=helper.make_tensor("", 1, [1], [2]))
    onnx.save(helper.make_model(helper.make_graph([node], "g", [], [], weights)), tmp_path / "odd.onnx")
    return tmp_path / "odd.onnx"


def test_json_agrees_with_numpy(capsys) -> None:
    rows = json.loads(run(capsys, DIGITS, "--json"))
    assert [row["name"] for row in rows] == list(WEIGHTS)
    for row in rows:
        weight = WEIGHTS[row["name"]]
        assert (row["count"], row["shape"], row["type"]) == (weight.size, list(weight.shape), "FLOAT")
        assert [row["min"], row["max"]] == [weight.min(), weight.max()]
        assert [row["mean"], row["std"]] == pytest.approx([weight.mean(), weight.std()], rel=1e-9)
        assert (row["zeros"], row["nan"], row["inf"]) == (0, 0, 0)


def test_the_table_has_headings_and_one_line_per_tensor(capsys) -> None:
    lines = run(capsys, DIGITS).splitlines()
    assert lines[0].split() == ["name", "type", "shape", "min", "max", "mean", "std", "zeros", "NaN", "Inf"]
    assert len(lines) == 1 + len(WEIGHTS)
    assert f"{WEIGHTS['classifier.1.weight'].std():.6g}" in lines[1 + list(WEIGHTS).index("classifier.1.weight")]


def test_nans_are_counted_and_strings_have_no_statistics(odd_model_path, capsys) -> None:
    rows = {row["name"] or row["path"]: row for row in json.loads(run(capsys, odd_model_path, "--json"))}
    assert [rows["bad"][key] for key in ("min", "max", "zeros", "nan", "inf")] == [0, 1, 1, 1, 1]
    assert rows["\x1b[31m<b>"]["mean"] == 1
    assert rows["words"]["count"] is None
    assert [rows["empty"][key] for key in ("count", "min", "mean")] == [0, None, None]
    assert rows["graph.node[0].attribute[0].t"]["max"] == 2
    out = run(capsys, odd_model_path, "--color", "always")
    assert "\x1b[31m<b>" not in out and "\\x1b[31m<b>" in out


def test_tensors_with_nan_are_found_or_the_status_is_1(odd_model_path, capsys) -> None:
    assert [row["name"] for row in json.loads(run(capsys, odd_model_path, "--filter", "nan>0", "--json"))] == ["bad"]
    assert main(["stats", str(DIGITS), "--filter", "nan>0"]) == 1
    assert capsys.readouterr() == ("", f"onnxwire: {DIGITS}: no tensor fulfils nan>0\n")


def test_tensors_are_chosen_and_sorted(capsys) -> None:
    rows = json.loads(run(capsys, DIGITS, "--json", "*.weight", "--sort", "std", "--limit", "2"))
    order = sorted((name for name in WEIGHTS if name.endswith(".weight")), key=lambda name: -WEIGHTS[name].std())
    assert [row["name"] for row in rows] == order[:2]


def test_csv_has_a_row_of_statistics_per_tensor(odd_model_path, capsys) -> None:
    rows = list(csv.DictReader(io.StringIO(run(capsys, odd_model_path, "--csv"))))
    assert [row["shape"] for row in rows] == ["1", "4", "5", "2", "0x3"]
    assert [row["nan"] for row in rows] == ["0", "1", "0", "", "0"]
    assert float(next(csv.DictReader(io.StringIO(run(capsys, DIGITS, "--csv"))))["mean"]) == pytest.approx(
        WEIGHTS["features.0.weight"].mean()
    )


def test_names_of_any_bytes_are_quoted_and_written(tmp_path, capsys) -> None:
    names = ["a\rb", "=1+1", 'q"q,', "l\nl", "x"]
    model = onnxwire.ModelProto()
    for name in names:
        model.graph.initializer.add(name=name, data_type=1, dims=[1], raw_data=bytes(4))
    # Replace the name x, in field 8 of the tensor, by a byte that is not UTF-8.
    data = model.SerializeToString().replace(b"\x42\x01x", b"\x42\x01\xff")
    (tmp_path / "m.onnx").write_bytes(data)
    run(capsys, tmp_path / "m.onnx", "--csv", "-o", tmp_path / "w.csv")
    text = (tmp_path / "w.csv").read_bytes().decode()
    assert [row["name"] for row in csv.DictReader(io.StringIO(text, newline=""))] == [
        "a\rb", "'=1+1", 'q"q,', "l\nl", "\\xff",  # the apostrophe makes a spreadsheet treat =1+1 as text
    ]  # fmt: skip
    assert '\n"a\rb",' in text
    assert "\r\n" not in text

    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    run(capsys, tmp_path / "m.onnx", "--arrow", tmp_path / "w.arrow", "--parquet", tmp_path / "w.parquet")
    assert parquet.read_table(tmp_path / "w.parquet")["name"].to_pylist() == [*names[:-1], "\\xff"]
    assert pa.ipc.open_file(tmp_path / "w.arrow").read_all().num_rows == 5


def test_output_can_be_written_to_a_file(tmp_path, capsys) -> None:
    printed_csv = run(capsys, DIGITS, "--csv")
    assert run(capsys, DIGITS, "--csv", "-o", tmp_path / "w.csv") == ""
    assert (tmp_path / "w.csv").read_text() == printed_csv


def test_json_has_histograms_with_the_option_bins(capsys) -> None:
    for row in json.loads(run(capsys, DIGITS, "--json", "--bins", "7")):
        histogram = row["histogram"]
        assert (len(histogram["counts"]), sum(histogram["counts"])) == (7, WEIGHTS[row["name"]].size)
        assert (histogram["low"], histogram["high"]) == (row["min"], row["max"])


def test_arrow_and_parquet_have_the_same_table(odd_model_path, tmp_path, capsys) -> None:
    pa = pytest.importorskip("pyarrow")
    from pyarrow import ipc, parquet

    assert run(capsys, odd_model_path, "--arrow", tmp_path / "w.arrow", "--parquet", tmp_path / "w.parquet") == ""
    table = parquet.read_table(tmp_path / "w.parquet")
    with pa.OSFile(str(tmp_path / "w.arrow")) as file:
        assert ipc.open_file(file).read_all().equals(table)
    rows = json.loads(run(capsys, odd_model_path, "--json"))
    assert table.to_pylist() == rows
    assert table.schema.field("mean").type == pa.float64()


def test_without_pyarrow_and_matplotlib_an_error_names_the_package(capsys, monkeypatch, tmp_path) -> None:
    for module in ("pyarrow", "matplotlib"):
        monkeypatch.setitem(sys.modules, module, None)
    assert "needs pyarrow, which is not installed" in error_line(capsys, DIGITS, "--parquet", tmp_path / "x")
    assert "onnxwire[plot]" in error_line(capsys, DIGITS, "--plot", tmp_path / "x.png")
    assert run(capsys, DIGITS, "--plot", tmp_path / "x.html") == ""
    assert [path.name for path in tmp_path.iterdir()] == ["x.html"]


class Page(HTMLParser):
    """Collects the tags of a page, and the names of the attributes that can contain addresses."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.link_attributes: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.link_attributes += [key for key, _ in attrs if key in ("src", "href", "srcset", "action")]


def test_the_page_is_one_file_without_outside_requests(odd_model_path, tmp_path, capsys) -> None:
    run(capsys, odd_model_path, "--plot", tmp_path / "w.html")
    text = (tmp_path / "w.html").read_text()
    page = Page(text)
    assert not page.link_attributes and "://" not in text and "url(" not in text and "import" not in text
    assert "default-src 'none'" in text  # the page's own Content-Security-Policy
    assert page.tags.count("tr") == 1 + 5
    # The page has no histogram of tensors of strings, tensors without finite elements, and tensors of equal elements.
    assert page.tags.count("svg") == 2
    assert "<b>" not in text and "&lt;b&gt;" in text


@pytest.mark.parametrize("model", ["digits", "odd"])
def test_pictures_are_drawn_by_matplotlib(model, odd_model_path, tmp_path, capsys) -> None:
    pytest.importorskip("matplotlib")
    path = DIGITS if model == "digits" else odd_model_path
    run(capsys, path, "--plot", tmp_path / "w.png")
    assert (tmp_path / "w.png").read_bytes().startswith(b"\x89PNG")
    run(capsys, path, "--plot", tmp_path / "w.svg")
    text = (tmp_path / "w.svg").read_text()
    assert ElementTree.fromstring(text).tag.endswith("svg")
    assert ("classifier.1.weight" if model == "digits" else "1 NaN, 1 Inf") in text
    run(capsys, path, "--plot", tmp_path / "again.svg")
    assert (tmp_path / "again.svg").read_text() == text


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--plot", "w.gif"], "must end in .html, .png or .svg"),
        (["--bins", "0"], "not a number of bins"),
        (["--threads", "x"], "not a number of threads"),
        (["--json", "--csv"], "not allowed with"),
    ],
)
def test_wrong_options_are_rejected(arguments, text, capsys) -> None:
    with pytest.raises(SystemExit) as excinfo:
        main(["stats", str(DIGITS), *arguments])
    assert excinfo.value.code == 2
    assert text in capsys.readouterr().err


def test_files_that_cannot_be_written_are_reported_in_one_line(tmp_path, capsys) -> None:
    assert "No such file" in error_line(capsys, DIGITS, "--csv", "-o", tmp_path / "no" / "w.csv")
    assert "this is the input" in error_line(capsys, DIGITS, "--csv", "-o", DIGITS)


def test_a_damaged_tensor_is_reported_in_one_line_with_its_path(tmp_path, capsys) -> None:
    weight = onnx.TensorProto(name="w", data_type=1, dims=[3], raw_data=b"1234")
    onnx.save(helper.make_model(helper.make_graph([], "g", [], [], [weight])), tmp_path / "m.onnx")
    assert "graph.initializer[0]: tensor 'w': dims [3] of FLOAT" in error_line(capsys, tmp_path / "m.onnx")


def test_weights_in_other_files_are_measured(tmp_path, capsys) -> None:
    onnx.save(onnx.load(DIGITS), tmp_path / "m.onnx", save_as_external_data=True, location="w", size_threshold=0)
    assert run(capsys, tmp_path / "m.onnx") == run(capsys, DIGITS)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")
@pytest.mark.normal_build
def test_a_tensor_of_200_mib_is_measured_in_less_memory(tmp_path) -> None:
    # A sparse file with a tensor of 200 MiB: dims, data_type, name, and the tag and length of raw_data.
    size = 200 << 20
    head = (
        len_record(1, varint(size))
        + varint_record(2, 3)
        + len_record(8, b"lm_head.weight")
        + tag(9, LEN)
        + varint(size)
    )
    path = tmp_path / "big.onnx"
    # The tags and lengths of an initializer and of the graph, after ir_version = 10.
    start = tag(5, LEN) + varint(len(head) + size) + head
    path.write_bytes(varint_record(1, 10) + tag(7, LEN) + varint(len(start) + size) + start)
    os.truncate(path, path.stat().st_size + size)
    code = (
        "import sys; from onnxwire.cli import main\n"
        "main(['stats', *sys.argv[1:]])\n"
        "print([line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')][0], file=sys.stderr)"
    )
    command = [sys.executable, "-c", code, str(path), "--threads", "2"]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "lm_head.weight" in result.stdout
    assert int(result.stderr) < 80_000  # KiB


def test_regex_reverse_and_type_select_tensors_order_and_message_type(capsys, tmp_path):
    rows = json.loads(run(capsys, DIGITS, "-E", r"\.weight$", "--sort", "bytes", "--json"))
    assert {row["name"] for row in rows} == {name for name in WEIGHTS if name.endswith(".weight")}
    reversed_rows = json.loads(run(capsys, DIGITS, "-E", r"\.weight$", "--sort", "bytes", "--reverse", "--json"))
    assert [row["name"] for row in reversed_rows] == [row["name"] for row in rows][::-1]
    (tmp_path / "t.pb").write_bytes(MODEL.graph.initializer[0].SerializeToString())
    (row,) = json.loads(run(capsys, tmp_path / "t.pb", "--type", "TensorProto", "--json"))
    assert row["name"] == MODEL.graph.initializer[0].name


def test_weights_are_found_in_another_folder(capsys, tmp_path):
    with onnxwire.load(DIGITS) as model:
        onnxwire.save(model, tmp_path / "m.onnx", external="m.data")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "m.data").rename(tmp_path / "elsewhere" / "m.data")
    output = run(capsys, tmp_path / "m.onnx", "--external-root", tmp_path / "elsewhere", "--json")
    by_name = {row["name"]: row["max"] for row in json.loads(output)}
    assert by_name == {row["name"]: row["max"] for row in json.loads(run(capsys, DIGITS, "--json"))}
