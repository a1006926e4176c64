"""Messages and models in notebooks are HTML of bounded size, in which all text of a file is escaped."""

from __future__ import annotations

import json
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from browser import HAS_BROWSER, start_driver, stop_driver

import onnxwire
from onnxwire.viewer.notebook import message_html

DIGITS = Path(__file__).parents[2] / "examples" / "digits_cnn.onnx"
HOSTILE_NAME = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>&amp;\u202e\u2066\x1b[2J\0\x07"
MAX_CHARS = 40_000  # maximum length of the HTML of a message
ALLOWED_TAGS = {"div", "b", "bdi", "table", "tr", "th", "td"}


class ParsedPage(HTMLParser):
    """Collects the tags, the names of attributes and the text of a page."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.text = [], set(), ""
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes |= {name for name, _ in attributes}

    def handle_data(self, data):
        self.text += data


def shown_text(message):
    """Return the text of a message's HTML. Check the length, tags and attributes of the HTML, and the text."""
    text = message._repr_html_()
    assert len(text) < MAX_CHARS
    page = ParsedPage(text)
    assert set(page.tags) <= ALLOWED_TAGS
    assert page.attributes <= {"class", "style", "colspan"}
    assert "url(" not in text
    assert all(c.isprintable() and c not in "\u202e\u2066" for c in page.text), repr(page.text)
    return page.text


def test_a_model_shows_its_inputs_outputs_operators_and_tensors():
    text = shown_text(onnxwire.load(DIGITS))
    for expected_text in (
        "IR 10",
        "ai.onnx 20",
        "17 nodes",
        "16 tensors",
        "image",
        "float[batch, 1, 8, 8]",
        "Relu",
        "logits",
    ):
        assert expected_text in text
    assert "classifier.1.weightFLOAT [64, 512]128.0 KiB" in text


def test_graphs_nodes_and_tensors_are_shown_with_their_main_fields():
    graph = onnxwire.load(DIGITS).graph
    assert "5 more" in shown_text(graph)
    assert "node_conv2d" in shown_text(graph)
    text = shown_text(graph.node[2])
    assert "Conv" in text and "pads" in text and "[1, 1, 1, 1]" in text
    assert "FLOAT [16]" in shown_text(graph.initializer[1])
    assert "[1.0, 2.5]" in shown_text(onnxwire.from_array(np.array([1, 2.5], np.float32), "t"))
    assert "image" in shown_text(graph.input[0])


def hostile_model(name):
    """Return a model in which every name and every text is `name`."""
    model = onnxwire.ModelProto(producer_name=name, producer_version=name, doc_string=name)
    model.opset_import.add(domain=name, version=-5)
    model.metadata_props.add(key=name, value=name)
    graph = model.graph
    graph.name = name
    graph.input.add(name=name).type.tensor_type.shape.dim.add(dim_param=name)
    graph.output.add(name=name)
    graph.initializer.add(name=name, data_type=1, dims=[1 << 40, -1], raw_data=b"abc")
    graph.initializer.add(name=name, data_type=8, dims=[1], string_data=[name.encode()])
    node = graph.node.add(name=name, op_type=name, domain=name, input=[name] * 50, output=[name] * 50)
    node.attribute.add(name=name, type=3, s=name.encode())
    node.attribute.add(name=name, type=8, strings=[name.encode()] * 50)
    node.attribute.add(name=name, type=5, g=onnxwire.GraphProto(name=name))
    model.functions.add(name=name, domain=name, node=[node])
    return model


@pytest.mark.parametrize(
    "name", [HOSTILE_NAME, HOSTILE_NAME * 10_000, "\ud7ff\U0010ffff" * 100, ""], ids=["markup", "long", "rare", "empty"]
)
def test_names_with_any_content_are_shown_as_text(name):
    model = hostile_model(name)
    for message in (
        model, model.graph, model.graph.node[0], *model.graph.node[0].attribute, *model.graph.initializer,
        model.graph.input[0], model.functions[0], model.opset_import[0], model.metadata_props[0],
    ):  # fmt: skip
        shown_text(message)
        shown_text(type(message).FromString(message.SerializeToString()))


def test_many_elements_are_counted():
    graph = onnxwire.GraphProto(node=[onnxwire.NodeProto(op_type="Relu")])
    graph.node.extend([graph.node[0]] * 30_000)
    graph.initializer.extend([onnxwire.TensorProto(name="w")] * 30_000)
    assert "and 29,989 more" in shown_text(graph)
    assert "30,001 nodes" in shown_text(onnxwire.ModelProto(graph=graph))


def test_damaged_and_closed_messages_show_their_error():
    # A graph of 4 bytes with a node of 5 bytes.
    assert "past the end" in shown_text(onnxwire.ModelProto.FromString(b"\x3a\x04\x0a\x05ab"))
    model = onnxwire.load(DIGITS)
    model.close()
    assert "closed" in shown_text(model)


def test_a_tensor_with_external_data_is_shown_as_external():
    tensor = onnxwire.TensorProto(name="w", data_type=1, dims=[2], data_location=1)
    tensor.external_data.add(key="location", value="../../etc/passwd")
    assert "external" in shown_text(tensor)


def test_a_view_is_a_frame_that_runs_nothing():
    for source in (onnxwire.load(DIGITS), DIGITS):
        view = onnxwire.view(source, height=300)
        page = ParsedPage(view._repr_html_())
        assert page.tags == ["iframe"]
        assert page.attributes == {"sandbox", "srcdoc", "style", "title"}
        frame = dict(HTMLAttributes(view._repr_html_()).attributes)
        assert frame["sandbox"] == ""
        assert "height:300px" in frame["style"]
        assert "<script" not in frame["srcdoc"] and "classifier.1.weight" in frame["srcdoc"]
        assert "digits_cnn.onnx" in repr(view) and len(repr(view)) < 500


class HTMLAttributes(HTMLParser):
    """Collects the attributes of a page, each as (name, value)."""

    def __init__(self, text):
        super().__init__()
        self.attributes = []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.attributes += attributes


@pytest.mark.parametrize("arguments", [(onnxwire.GraphProto(), 600), (onnxwire.ModelProto(), "1px;x")])
def test_arguments_that_are_not_models_or_heights_are_errors(arguments):
    with pytest.raises(TypeError):
        onnxwire.view(arguments[0], height=arguments[1])


def test_a_hostile_model_stays_inside_of_the_frame():
    text = onnxwire.view(hostile_model(HOSTILE_NAME))._repr_html_()
    assert ParsedPage(text).tags == ["iframe"]


def test_notebooks_find_the_html():
    pytest.importorskip("IPython")
    script = (
        "from IPython.core.interactiveshell import InteractiveShell\n"
        "import json, sys, onnxwire\n"
        "format = InteractiveShell.instance().display_formatter.format\n"
        "model = onnxwire.load(sys.argv[1])\n"
        "for shown in (model, model.graph, model.graph.node[0], model.graph.initializer[0], onnxwire.view(model)):\n"
        "    print(json.dumps(format(shown)[0]))\n"
    )
    result = subprocess.run([sys.executable, "-c", script, str(DIGITS)], capture_output=True, text=True, check=True)
    for line in result.stdout.splitlines():
        formats = json.loads(line)
        assert formats["text/html"].startswith(("<div", "<iframe")) and "text/plain" in formats


def test_the_html_repr_of_a_message_is_the_result_of_message_html():
    node = onnxwire.NodeProto(op_type="Relu")
    assert node._repr_html_() == message_html(node)


NOTEBOOK = DIGITS.with_name("notebook.ipynb")


def run_notebook(folder, *cells):
    """Run the example notebook and further cells in a separate kernel; return the notebook with its outputs."""
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    import nbformat

    notebook = nbformat.read(NOTEBOOK, 4)
    notebook.cells += [nbformat.v4.new_code_cell(cell) for cell in cells]
    nbformat.validate(notebook)
    (folder / DIGITS.name).write_bytes(DIGITS.read_bytes())
    nbclient.NotebookClient(notebook, timeout=100, resources={"metadata": {"path": str(folder)}}).execute()
    return notebook


def test_the_example_notebook_has_no_outputs():
    cells = json.loads(NOTEBOOK.read_bytes())["cells"]
    assert [cell for cell in cells if cell.get("outputs") or cell.get("execution_count")] == []


@pytest.mark.long
def test_a_whole_notebook_shows_models_and_the_report(tmp_path):
    hostile_cell = f"onnxwire.NodeProto(op_type={HOSTILE_NAME!r}, name={HOSTILE_NAME!r}, input=[{HOSTILE_NAME!r}])"
    notebook = run_notebook(tmp_path, hostile_cell, "model.graph.node")
    outputs = [cell.outputs for cell in notebook.cells if cell.cell_type == "code"]
    cell_data = [output[0].data for output in outputs]
    # Code cells 0 to 5 and 7 show messages or the report. Code cells 6 and 8 show a list of tensors and a repeated
    # field.
    assert all("text/html" in data for data in [*cell_data[:6], cell_data[7]])
    assert all(data["text/plain"] for data in cell_data)
    assert "17 nodes" in cell_data[0]["text/html"]
    assert "srcdoc" in cell_data[4]["text/html"]
    assert "edited &lt;b&gt;in&lt;/b&gt; a notebook" in cell_data[5]["text/html"]
    # The notebook with its outputs is small.
    assert len(json.dumps(notebook)) < 400_000
    if not HAS_BROWSER:
        return
    # Like a notebook, this page shows the HTML of all outputs in one document.
    page = tmp_path / "page.html"
    texts = [data.get("text/html", "") for data in cell_data]
    page.write_text("<!doctype html><meta charset=utf-8><title>old</title>" + "<hr>".join(texts), encoding="utf-8")
    driver = start_driver()
    try:
        driver.get(page.as_uri())
        assert driver.execute_script("return document.querySelectorAll('script, img, link, style').length") == 0
        driver.switch_to.frame(0)
        assert "digits_cnn.onnx" in driver.find_element("css selector", "body").text
        driver.switch_to.default_content()
        assert driver.title == "old"
    finally:
        stop_driver(driver)
