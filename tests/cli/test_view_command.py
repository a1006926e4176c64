"""`onnxwire view` serves a page until Ctrl-C or SIGTERM, or writes a report."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import time
import urllib.request
import weakref
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import onnx
import pytest
from onnx import helper
from view_process import end, serving

import onnxwire
from onnxwire.cli import main
from onnxwire.viewer.server import Server

DIGITS = Path(__file__).parents[2] / "examples" / "digits_cnn.onnx"
MODEL = onnx.load(DIGITS)


class PageParser(HTMLParser):
    """Collects the tags, attributes and open tags of a page; asserts that each end tag closes the last open tag."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.open_tags = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += attributes
        if tag not in ("meta", "br", "rect"):
            self.open_tags.append(tag)

    def handle_endtag(self, tag):
        if tag != "rect":
            assert self.open_tags.pop() == tag


def report_of(path, capsys):
    """Return the report of a model that `onnxwire view` prints."""
    assert main(["view", str(path), "-o", "-"]) == 0
    return capsys.readouterr().out


needs_signals = pytest.mark.skipif(os.name != "posix", reason="needs signals")


@needs_signals
@pytest.mark.parametrize("signal_name", ["SIGINT", "SIGTERM"])
def test_view_prints_the_address_and_ends_quietly_on_a_signal(signal_name):
    with serving(DIGITS, "--no-browser") as process:
        address = process.stdout.readline().strip()
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/#token=[\w-]{32}", address)
        with urllib.request.urlopen(address, timeout=100) as page:
            assert b"<title>onnxwire</title>" in page.read()
        text, status = end(process, getattr(signal, signal_name))
    assert status == 0
    assert text == "The address works once, in the browser that opens it first. Ctrl-C or SIGTERM ends the page.\n"


@needs_signals
@pytest.mark.parametrize("signal_number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_in_a_weakref_callback_ends_the_page(signal_number, monkeypatch):
    class Resource:
        pass

    def send_signal_in_callback(server):
        assert not sent, "the signal was lost"
        sent.append(signal_number)
        resource = Resource()
        reference = weakref.ref(resource, lambda _: signal.raise_signal(signal_number))
        del resource
        assert reference() is None

    sent = []
    monkeypatch.setattr(Server, "service_actions", send_signal_in_callback)
    handler = signal.signal(signal_number, signal.SIG_DFL)  # a background job of a shell ignores SIGINT
    try:
        assert main(["view", str(DIGITS), "--no-browser"]) == 0
    finally:
        signal.signal(signal_number, handler)
    assert sent


@needs_signals
def test_json_prints_the_address_for_programs():
    with serving(DIGITS, "--no-browser", "--json") as process:
        answer = json.loads(process.stdout.readline())
        assert (answer["file"], "#token=" in answer["address"]) == (str(DIGITS), True)
        assert end(process) == ("", 0)


@needs_signals
def test_the_browser_gets_no_token_in_its_arguments(tmp_path, monkeypatch):
    argument_path = tmp_path / "argument"
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" > {argument_path}.part; mv {argument_path}.part {argument_path}\n')
    browser.chmod(0o755)
    monkeypatch.setenv("BROWSER", str(browser))
    with serving(DIGITS) as process:
        address = process.stdout.readline().strip()
        for _ in range(200):
            if argument_path.exists():
                break
            time.sleep(0.05)
        opened_address = argument_path.read_text().strip()
        assert "token" not in opened_address
        redirect_path = Path(unquote(urlsplit(opened_address).path))
        assert redirect_path.stat().st_mode & 0o777 == 0o600
        assert f'content="0; url={address}"' in redirect_path.read_text()
        # The first use of the token removes the file, so that a killed process leaves no file.
        base, _, token = address.partition("/#token=")
        request = urllib.request.Request(f"{base}/api/session", headers={"X-Onnxwire-Key": token})
        with urllib.request.urlopen(request, timeout=100) as response:
            assert response.status == 200
        assert not redirect_path.exists()
        assert end(process)[1] == 0


@needs_signals
def test_a_redirect_page_that_no_browser_opened_is_removed_at_the_end(tmp_path, monkeypatch):
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    monkeypatch.setenv("BROWSER", "true")
    with serving(DIGITS) as process:
        process.stderr.readline()  # the process prints this line when it has written the page
        assert os.listdir(tmp_path / "temporary")
        assert end(process)[1] == 0
    assert os.listdir(tmp_path / "temporary") == []


@needs_signals
def test_a_message_of_a_type_from_a_schema_is_shown(tmp_path):
    (tmp_path / "point.md").write_text(
        "# g.proto\n\npackage: a.b\nsyntax: proto2\n\n## message Point\n\nA point.\n\n"
        "| number | name | type | label | oneof | packed | since | until | doc |\n|-|-|-|-|-|-|-|-|-|\n"
        "| 1 | x | int32 | optional | | | 1 | | To the right. |\n"
    )
    (tmp_path / "point.pb").write_bytes(b"\x08\x05")  # x = 5
    for name in ("Point", "a.b.Point"):
        arguments = [tmp_path / "point.pb", "--schema", tmp_path / "point.md", "--type", name, "--no-browser"]
        with serving(*arguments) as process:
            base, _, token = process.stdout.readline().strip().partition("#token=")
            key = json.loads(get(f"{base}api/session", token))["key"]
            answer = json.loads(get(f"{base}api/about", key))
            assert (answer["type"], answer["is_model"], answer["bytes"]) == ("Point", False, 2)
            assert json.loads(get(f"{base}api/fields?path=", key))["rows"][0]["text"] == "5"
            assert end(process)[1] == 0


def get(address, key):
    """Return the body of the answer to a GET request. key: the session's key, or the token of the address."""
    return urllib.request.urlopen(urllib.request.Request(address, headers={"X-Onnxwire-Key": key}), timeout=100).read()


def test_an_absent_schema_is_an_error(capsys):
    assert main(["view", str(DIGITS), "--schema", "nowhere.md", "--type", "Point"]) == 2
    assert "nowhere.md" in capsys.readouterr().err


def test_a_port_in_use_is_rejected(capsys):
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        assert main(["view", str(DIGITS), "--no-browser", "--port", str(listener.getsockname()[1])]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n"), "choose another --port" in err) == ("", 1, True)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--port", "70000"], ["--port", "x"], ["-o", "x.html", "--json"], ["-o", "x.html", "--edit"],
        ["-o", "x.html", "--type", "GraphProto"], ["--type", "Graph"], ["--schema", "table.md"],
        ["--schema", __file__, "--type", "Point"],
    ],
)  # fmt: skip
def test_wrong_options_are_errors(arguments, capsys):
    with pytest.raises(SystemExit) as excinfo:
        main(["view", str(DIGITS), *arguments])
    assert excinfo.value.code == 2


def test_an_absent_file_is_reported_in_one_line(tmp_path, capsys):
    for options in ([], ["-o", str(tmp_path / "r.html")]):
        assert main(["view", str(tmp_path / "no.onnx"), *options]) == 2
        assert capsys.readouterr().err.count("\n") == 1
    assert not (tmp_path / "r.html").exists()


def test_help_ends_with_examples(capsys):
    with pytest.raises(SystemExit):
        main(["view", "--help"])
    assert "onnxwire view model.onnx -o report.html" in capsys.readouterr().out.splitlines()[-1]


def test_a_report_is_written(tmp_path, capsys):
    out = tmp_path / "report.html"
    assert main(["view", str(DIGITS), "-o", str(out)]) == 0
    assert capsys.readouterr() == ("", "")
    assert out.read_text() == report_of(DIGITS, capsys)


def test_the_report_has_summary_tensors_and_operators(capsys):
    text = report_of(DIGITS, capsys)
    for expected_text in (
        "digits_cnn.onnx",
        MODEL.producer_version,
        "float[batch, 1, 8, 8]",
        "ai.onnx 20",
        "150.3 KiB",
    ):
        assert expected_text in text
    for node in MODEL.graph.node:
        assert f">{node.op_type}<" in text
    for tensor in MODEL.graph.initializer:
        assert tensor.name in text


def test_the_report_is_self_contained(capsys):
    text = report_of(DIGITS, capsys)
    page = PageParser(text)
    assert page.open_tags == []
    assert not {"script", "link", "img", "iframe"} & set(page.tags)
    assert not {"src", "href", "onclick", "onload"} & {name for name, _ in page.attributes}
    assert "url(" not in text and "@import" not in text


def test_names_of_the_model_are_escaped(tmp_path, capsys):
    hostile_name = "</title><script>alert(1)</script>\"'&"
    graph = helper.make_graph([helper.make_node(hostile_name, ["x"], ["y"], domain=hostile_name)], hostile_name, [], [])
    graph.initializer.add(name=hostile_name, data_type=1, dims=[4], raw_data=bytes(16))
    path = tmp_path / "m.onnx"
    model = helper.make_model(graph, producer_name=hostile_name, doc_string=hostile_name)
    onnx.save(model, path)
    text = report_of(path, capsys)
    assert "<script" not in text
    assert PageParser(text).open_tags == []


def test_the_report_shows_tensors_without_a_name_by_their_paths(tmp_path, capsys):
    weights = [
        onnx.TensorProto(data_type=onnx.TensorProto.UINT8, dims=[n], raw_data=bytes(n)) for n in range(900, 1100)
    ]
    nodes = [helper.make_node("Constant", [], [f"c{i}"], value=weight) for i, weight in enumerate(weights)]
    onnx.save(helper.make_model(helper.make_graph(nodes, "g", [], [])), tmp_path / "m.onnx")
    text = report_of(tmp_path / "m.onnx", capsys)
    titles = re.findall("<title>([^\n<]*)", text)
    assert "graph.node[199].attribute[0].t" in titles
    assert "50 smaller tensors" in titles
    assert ">raph.node" not in text


def test_an_empty_model_has_a_report(tmp_path, capsys):
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(helper.make_graph([], "g", [], [])), path)
    assert "<section" in report_of(path, capsys)


@pytest.mark.parametrize(
    "text",
    [
        "graph { sparse_initializer {} }",
        "graph { node { attribute { type: FLOAT t { data_type: 1 dims: 4 raw_data: '0123456789abcdef' } } } }",
        "graph { initializer { data_type: 99 dims: 3 } initializer { dims: -1 } }",
        "graph { node { attribute { type: FLOAT sparse_tensor { indices { data_type: 7 dims: 2 } } } } }",
    ],
)
def test_a_report_of_an_invalid_model_is_drawn(text, tmp_path, capsys):
    path = tmp_path / "m.onnx"
    path.write_bytes(onnxwire.from_text(text).SerializeToString())
    assert PageParser(report_of(path, capsys)).open_tags == []


def test_the_report_does_not_overwrite_the_model(tmp_path, capsys):
    path = tmp_path / "m.onnx"
    path.write_bytes(DIGITS.read_bytes())
    assert main(["view", str(path), "-o", str(path)]) == 2
    assert "this is the input" in capsys.readouterr().err
    assert path.read_bytes() == DIGITS.read_bytes()


def test_a_report_that_cannot_be_written_is_an_error(tmp_path, capsys):
    assert main(["view", str(DIGITS), "-o", str(tmp_path / "no" / "r.html")]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
