"""The page of a file with any message: descriptions, histograms and heat maps of the tensors in it."""

from __future__ import annotations

import contextlib

import numpy as np
import onnx
import pytest
from browser import Page, needs_browser
from onnx import helper, numpy_helper
from view_process import end, serving

import onnxwire
from onnxwire.errors import PathError, TensorError
from onnxwire.viewer.tensor_queries import TensorQueries

VALUES = np.arange(-500, 500, dtype=np.float32).reshape(50, 20)


@pytest.fixture
def tensor_file(tmp_path):
    """Return the path of a file that contains one tensor."""
    path = tmp_path / "output_0.pb"
    path.write_bytes(numpy_helper.from_array(VALUES, "logits").SerializeToString())
    return path


def test_a_tensor_that_is_the_whole_file_has_a_histogram_and_a_heat_map(tensor_file):
    queries = TensorQueries(onnxwire.load(tensor_file, onnxwire.TensorProto))
    assert queries.about()["is_tensor"]
    tensor = queries.tensor("")
    assert (tensor["name"], tensor["shape"], tensor["bytes"], tensor["path"]) == ("logits", [50, 20], 4000, "")
    answer = queries.histogram("", bins=10)
    assert (answer["counts"], answer["min"], answer["max"]) == ([100] * 10, -500, 499)
    assert queries.heat_map("", size=(50, 20))["high"] == 499


def test_tensors_inside_a_graph_have_histograms_and_other_paths_are_errors(tmp_path):
    graph = helper.make_graph([], "g", [], [], [numpy_helper.from_array(VALUES, "w")])
    queries = TensorQueries(onnxwire.GraphProto.FromString(graph.SerializeToString()))
    assert not queries.about()["is_tensor"]
    assert queries.tensor("initializer[0]")["name"] == "w"
    assert sum(queries.histogram("initializer[0]")["counts"]) == 1000
    for path in ("", "initializer", "initializer[0].dims", "initializer[0].name", "name", "node[0]"):
        with pytest.raises(PathError):
            queries.tensor(path)


def test_histograms_of_damaged_tensors_and_of_external_data_at_absolute_paths_are_errors(tmp_path):
    truncated_tensor = onnx.TensorProto(data_type=onnx.TensorProto.FLOAT, dims=[2], raw_data=b"123")
    with pytest.raises(TensorError):
        TensorQueries(onnxwire.TensorProto.FromString(truncated_tensor.SerializeToString())).histogram("")
    external_tensor = onnx.TensorProto(data_type=1, dims=[2], data_location=onnx.TensorProto.EXTERNAL)
    external_tensor.external_data.add(key="location", value="/etc/passwd")
    (tmp_path / "far.pb").write_bytes(external_tensor.SerializeToString())
    queries = TensorQueries(onnxwire.load(tmp_path / "far.pb", onnxwire.TensorProto))
    assert queries.tensor("")["location"] == "/etc/passwd"
    with pytest.raises(onnxwire.Error):
        queries.histogram("")


@needs_browser
def test_pages_of_tensor_and_graph_files_show_histograms_and_heat_maps(driver, tensor_file, tmp_path):
    graph = helper.make_graph([], "g", [], [], [numpy_helper.from_array(VALUES, "<b>w")])
    (tmp_path / "graph.pb").write_bytes(graph.SerializeToString())
    driver.get_log("browser")
    with contextlib.ExitStack() as stack:
        process = stack.enter_context(serving(tensor_file, "--type", "TensorProto", "--no-browser"))
        page = Page(driver, process)
        page.wait_for_title("logits")
        page.element("#histogram", "All 1,000 elements.")
        page.element("#heat-map canvas")
        # A click on the home button shows all fields.
        driver.find_element("id", "home").click()
        page.wait_for_title("TensorProto")
        assert end(process)[1] == 0
        process = stack.enter_context(serving(tmp_path / "graph.pb", "--type", "GraphProto", "--no-browser"))
        page = Page(driver, process)
        page.wait_for_title("GraphProto")
        page.click("[data-path=initializer] .tree-row")
        page.click("[data-path='initializer[0]'] button.link", "histogram")
        page.wait_for_title("<b>w")
        page.element("#histogram", "All 1,000 elements.")
        page.element("#heat-map canvas")
        assert end(process)[1] == 0
    assert [entry for entry in driver.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")] == []
