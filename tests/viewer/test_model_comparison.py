"""Two models on the page: the differences, the marks on both maps, the options, and the two pages in frames."""

from __future__ import annotations

import contextlib
import http.client
import json
import random
import threading
from functools import partial
from pathlib import Path

import numpy as np
import onnx
import pytest
from browser import Page, needs_browser
from renamed_models import rename_everything
from view_process import end, serving

import onnxwire
from onnxwire.cli import main
from onnxwire.viewer.model_comparison import ModelComparison
from onnxwire.viewer.queries import Queries
from onnxwire.viewer.server import KEY_HEADER, Server

DIGITS = Path(__file__).parents[2] / "examples" / "digits_cnn.onnx"
HOSTILE_NAME = "<img src=x onerror=alert(1)>\u202e\x1b[2J\"'&"


def model(*operators, weight=1.0):
    """Return a model with a chain of operators; the second reads the initializer w, four elements of value `weight`."""
    result = onnxwire.ModelProto(ir_version=8)
    for i, op_type in enumerate(operators):
        result.graph.node.add(op_type=op_type, name=f"n{i}", input=[f"x{i}"], output=[f"x{i + 1}"])
    if len(operators) > 1:
        result.graph.node[1].input.append("w")
    result.graph.initializer.append(onnxwire.from_array(np.full(4, weight, np.float32), "w"))
    return onnxwire.ModelProto.FromString(result.SerializeToString())


def test_differences_name_the_nodes_of_both_models():
    old, new = model("Relu", "Add", "Abs"), model("Gelu", "Add", weight=3.0)
    new.graph.node.insert(0, onnxwire.NodeProto(op_type="Neg", name="first", output=["z"]))
    answer = ModelComparison(old, new).comparison()
    rows = {(row["change"], row["kind"], row["name"]): (row["left"], row["right"]) for row in answer["rows"]}
    assert rows == {
        ("changed", "node", "n0"): ("graph.node[0]", "graph.node[1]"),
        ("removed", "node", "n2"): ("graph.node[2]", ""),
        ("added", "node", "first"): ("", "graph.node[0]"),
        # The paths of the nodes that read the tensor.
        ("changed", "tensor", "w"): ("graph.node[1]", "graph.node[2]"),
    }
    assert (answer["total"], answer["counts"]) == (4, {"changed": 2, "removed": 1, "added": 1})
    assert [row["distance"] for row in answer["rows"] if row["kind"] == "tensor"] == [
        "4 of 4 elements differ, by up to 2"
    ]


def test_a_node_that_reads_another_value_is_marked_as_rewired():
    old, new = model("Relu", "Abs", "Add"), model("Relu", "Abs", "Add")
    new.graph.node[2].input[0] = "x0"
    comparison = ModelComparison(old, new, "structure")
    assert comparison.comparison()["counts"] == {"rewired": 1}
    assert [comparison.marks(side) for side in (0, 1)] == [{"graph.node[2]": "rewired"}] * 2


def test_boxes_of_both_maps_are_marked_after_the_comparison():
    models = model("Relu", "Add", "Abs"), model("Gelu", "Add")
    comparison = ModelComparison(*models)
    queries_of_sides = [Queries(model) for model in models]
    for side, queries in enumerate(queries_of_sides):
        queries.marks = partial(comparison.marks, side)
        # The map does not wait for the comparison.
        assert not any("marks" in box for box in queries.map("graph")["boxes"])
    comparison.comparison()
    marks = [
        [box["marks"] for box in queries.map("graph")["boxes"] if box["kind"] == "node"] for queries in queries_of_sides
    ]
    assert marks == [[{"changed": 1}, {}, {"removed": 1}], [{"changed": 1}, {}]]


def test_renamed_nodes_are_paired_by_structure():
    old, new = model("Relu", "Add", "Abs"), model("Relu", "Add", "Abs")
    for i, node in enumerate(new.graph.node):
        node.name = f"other{i}"
    new.graph.node[2].attribute.add(name="a", type="INT", i=1)
    answer = ModelComparison(old, new, "structure").comparison()
    (row,) = [row for row in answer["rows"] if row["change"] != "renamed"]
    assert (row["left"], row["right"]) == ("graph.node[2]", "graph.node[2]")


def test_a_copy_with_other_names_has_no_difference_but_the_names():
    old = onnx.load(DIGITS)
    new = onnx.ModelProto.FromString(old.SerializeToString())
    rename_everything(new, random.Random(1))
    comparison = ModelComparison(
        *(onnxwire.ModelProto.FromString(message.SerializeToString()) for message in (old, new))
    )
    answer = comparison.comparison()
    assert (answer["counts"], comparison.marks(0), comparison.marks(1)) == ({"renamed": 1}, {}, {})


def test_equal_models_have_no_difference():
    comparison = ModelComparison(model("Relu"), model("Relu"))
    assert (comparison.comparison()["total"], comparison.marks(0), comparison.marks(1)) == (0, {}, {})


def test_answers_are_bounded():
    models = [model("Abs"), model("Abs")]
    for i in range(2_500):
        models[0].graph.node.add(op_type="Relu", name=f"{i}{HOSTILE_NAME * 100}", output=[f"y{i}"])
    comparison = ModelComparison(*models)
    answer = comparison.comparison()
    assert (answer["total"], len(answer["rows"]), len(comparison.marks(0))) == (2_500, 2_000, 2_500)
    assert len(json.dumps(answer)) < 4_000_000


@pytest.mark.parametrize("options", [["--edit"], ["-o", "r.html"], ["--type", "GraphProto"]])
def test_options_for_one_model_are_rejected_for_two(options, tmp_path, capsys):
    with pytest.raises(SystemExit):
        main(["view", "a.onnx", "b.onnx", *options])
    assert "two models are shown without" in capsys.readouterr().err


def test_match_requires_two_models(capsys):
    with pytest.raises(SystemExit):
        main(["view", "a.onnx", "--match", "name"])
    assert "--match requires two models" in capsys.readouterr().err


@pytest.fixture
def server():
    """Run a server of two models in a thread."""
    models = model("Relu", "Add"), model("Gelu", "Add", "Neg")
    comparison = ModelComparison(*models)
    with Server(Queries(models[0]), 0, None, comparison, Queries(models[1])) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_the_argument_side_selects_the_model_and_queries_need_the_key(server):
    key = server.exchange_token(server.address.partition("#token=")[2])

    def get(path, headers):
        """Send a request; return the status, the headers and the body of the answer."""
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=100)) as connection:
            connection.request("GET", path, headers=headers)
            response = connection.getresponse()
            return response.status, response.headers, response.read()

    for query, nodes in (("summary", 2), ("summary?side=0", 2), ("summary?side=1", 3), ("summary?side=x", 2)):
        status, _, body = get(f"/api/{query}", {KEY_HEADER: key})
        assert (status, json.loads(body)["nodes"]["count"]) == (200, nodes)
    status, _, body = get("/api/comparison", {KEY_HEADER: key})
    assert (status, json.loads(body)["total"]) == (200, 2)
    assert get("/api/comparison", {})[0] == 403
    status, headers, body = get("/", {})
    assert (status, b"compare.js" in body) == (200, True)
    assert "frame-ancestors 'self'" in headers["Content-Security-Policy"]


@needs_browser
def test_both_models_are_shown_and_a_difference_leads_to_its_node(driver, tmp_path):
    models = model("Relu", "Add", "Abs"), model("Relu", "Add", weight=3.0)
    models[1].graph.node.add(op_type="Neg", name=HOSTILE_NAME, input=["x2"], output=[HOSTILE_NAME])
    paths = [tmp_path / "old.onnx", tmp_path / "new.onnx"]
    for saved_model, path in zip(models, paths, strict=True):
        onnxwire.save(saved_model, path)
    with serving(*paths, "--no-browser") as process:
        page = Page(driver, process, starts_at_map=True)
        assert page.text("#total") == "3 differences"
        assert page.text("#counts") == "1 removed, 1 added, 1 changed"
        page.click("tr.added")

        def address(side):
            script = f"return decodeURIComponent(document.getElementById('side-{side}').contentWindow.location.hash)"
            return driver.execute_script(script)

        assert page.wait(lambda: address(1) == "#map=graph.node[2]")
        assert address(0) == "#map=graph"
        driver.switch_to.frame("side-1")
        card = page.element("#map-card", "compared")
        assert "added" in card.text
        driver.switch_to.default_content()
        assert not page.elements("td img")
        page.element("#search").send_keys("weights w removed")
        page.wait(lambda: len(page.elements("#table tr")) == 1)
        assert [entry for entry in driver.get_log("browser") if entry["level"] == "SEVERE"] == []
        assert end(process)[1] == 0
