"""The page of `examples/web` lists nodes and tensors of local and remote files, which cannot attack the page."""

from __future__ import annotations

import contextlib
import functools
import http.server
import importlib.util
import re
import threading
import time
from pathlib import Path

import pytest
from browser import needs_browser, start_driver, stop_driver
from graphs import nested_model, write_sparse_model

import onnxwire as ow

ROOT = Path(__file__).parents[2]
DIGITS = ROOT / "examples" / "digits_cnn.onnx"
pytestmark = [needs_browser, pytest.mark.long]


def load_build():
    """Import tools/build_web.py."""
    spec = importlib.util.spec_from_file_location("build_web", ROOT / "tools" / "build_web.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Handler(http.server.SimpleHTTPRequestHandler):
    """A handler that serves the files of a folder, also in ranges, and records the requests.

    The attributes of the server: received_requests, pairs of path and headers; redirects, a dict from paths to
    addresses; has_ranges, whether ranges are supported; allows_pages, whether pages of other hosts may read the files;
    etag, the ETag of responses with a range.
    """

    def do_GET(self):
        """Send a redirect, the range of the request, or the whole file."""
        server = self.server
        server.received_requests.append((self.path, dict(self.headers)))
        redirect = server.redirects.get(self.path)
        if redirect:
            self.send_response(302)
            self.send_header("Access-Control-Allow-Origin", "*")
            self.send_header("Location", redirect)
            self.end_headers()
            return
        byte_range = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        path = Path(self.translate_path(self.path))
        if not byte_range or not server.has_ranges or not path.is_file():
            super().do_GET()
            return
        start, end = int(byte_range[1]), int(byte_range[2])
        with path.open("rb") as file:
            file.seek(start)
            data = file.read(end + 1 - start)
        self.send_response(206)
        self.send_header("Content-Range", f"bytes {start}-{start + len(data) - 1}/{path.stat().st_size}")
        self.send_header("Content-Length", str(len(data)))
        self.send_header("ETag", server.etag)
        self.end_headers()
        with contextlib.suppress(ConnectionError):
            self.wfile.write(data)

    def end_headers(self):
        if self.server.allows_pages:
            self.send_header("Access-Control-Allow-Origin", "*")
            self.send_header("Access-Control-Expose-Headers", "ETag")
        super().end_headers()

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def serve(folder):
    """Serve a folder in a thread; yield the server."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=str(folder)))
    server.received_requests, server.redirects = [], {}
    server.allows_pages = server.has_ranges = True
    server.etag = '"one"'
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture(scope="module")
def page_folder(tmp_path_factory):
    """Return a folder with the built page."""
    build = load_build()
    zig = build.find_zig()
    assert zig, "zig is missing: pip install ziglang"
    folder = tmp_path_factory.mktemp("web")
    assert build.build(folder, zig) < build.MAX_COMPRESSED_BYTES
    return folder


@pytest.fixture(scope="module")
def driver():
    driver = start_driver()
    yield driver
    stop_driver(driver)


class OpenedPage:
    """The page in a browser; the constructor opens it."""

    def __init__(self, driver, server):
        self.driver = driver
        driver.get_log("browser")
        driver.get(f"http://127.0.0.1:{server.server_port}/index.html")
        self.wait_for_state("ready")

    def wait_for_state(self, *states):
        """Wait until the page is in one of the states: ready, done or problem."""
        end = time.monotonic() + 60
        while time.monotonic() < end:
            state = self.driver.execute_script("return document.body.dataset.state")
            if state in states:
                return
            time.sleep(0.05)
        raise AssertionError(f"the page is {state}: {self.text('body')}")

    def element(self, selector):
        return self.driver.find_element("css selector", selector)

    def text(self, selector):
        return self.element(selector).text

    def rows(self, tab):
        """Select the tab "nodes" or "tensors"; return the texts of the cells of its rows."""
        self.element(f"#{tab}-tab").click()
        script = "return [...document.querySelectorAll('tbody tr')].map(r => [...r.cells].map(c => c.textContent))"
        return self.driver.execute_script(script)

    def open_file(self, path, state="done"):
        self.element("#file").send_keys(str(path))
        self.wait_for_state(state)

    def open_address(self, address):
        """Enter an address and open it. The old state is replaced, so that `wait_for_state` waits for a new one."""
        box = self.element("#address")
        box.clear()
        box.send_keys(address)
        self.driver.execute_script("document.body.dataset.state = 'asked'")
        self.element("#address-form button").click()

    def answer_question(self, value):
        """Wait for the dialog, press its button "yes" or "no", and return the text of the question."""
        end = time.monotonic() + 30
        while not self.driver.execute_script("return document.getElementById('confirm').open"):
            assert time.monotonic() < end
            time.sleep(0.05)
        question = self.text("#question")
        self.element(f"#confirm button[value='{value}']").click()
        return question


@pytest.fixture
def server(page_folder):
    with serve(page_folder) as server:
        yield server


@pytest.fixture
def page(driver, server):
    page = OpenedPage(driver, server)
    yield page
    driver.get("about:blank")


def tensor_names(model):
    """Return the names of the initializers."""
    return [tensor.name for tensor in model.graph.initializer]


def test_a_local_model_is_listed(page):
    page.open_file(DIGITS)
    model = ow.load(DIGITS)
    nodes = [
        [str(i), n.op_type, n.name, ", ".join(n.input), ", ".join(n.output)] for i, n in enumerate(model.graph.node)
    ]
    assert page.rows("nodes") == nodes
    tensors = page.rows("tensors")
    assert [row[0] for row in tensors] == tensor_names(model)
    # The page shows "scalar" for a tensor without dims.
    assert [row[2].replace("scalar", "") for row in tensors] == [
        "×".join(map(str, t.dims)) for t in model.graph.initializer
    ]
    assert page.driver.get_log("browser") == []


def test_nodes_of_nested_graphs_are_listed_and_filtered(page, tmp_path):
    path = tmp_path / "nested.onnx"
    path.write_bytes(nested_model().SerializeToString())
    page.open_file(path)
    assert any("else_branch" in row[1] for row in page.rows("nodes"))
    page.element("#filter").send_keys("RELU")
    rows = page.rows("nodes")
    assert rows
    assert all("relu" in "".join(row).lower() for row in rows)


def test_a_file_of_5_gib_is_read_in_part(page, tmp_path):
    path = tmp_path / "big.onnx"
    write_sparse_model(path, 5 << 30)
    page.open_file(path)
    assert page.rows("tensors") == [["w", "uint8", "5368709120", "5.0 GiB", "inline", "initializer"]]
    assert page.text("#status") == "Read 128 KiB of 5.0 GiB."


def test_an_address_of_the_same_host_is_read_by_ranges(page, server, page_folder):
    path = page_folder / "served.onnx"
    write_sparse_model(path, 5 << 30)
    page.open_address("served.onnx")
    page.wait_for_state("done")
    assert len(page.rows("tensors")) == 1
    ranges = [headers["Range"] for request_path, headers in server.received_requests if request_path == "/served.onnx"]
    assert ranges == ["bytes=0-0", "bytes=0-131071"]
    path.unlink()


@pytest.fixture
def other_server(tmp_path):
    """Yield a server that serves m.onnx; it has another port, so the page treats it as another host."""
    (tmp_path / "m.onnx").write_bytes(DIGITS.read_bytes())
    with serve(tmp_path) as other_server:
        yield other_server


def test_another_host_gets_requests_only_after_a_confirmation(page, other_server):
    host = f"127.0.0.1:{other_server.server_port}"
    page.open_address(f"http://{host}/m.onnx")
    assert host in page.answer_question("no")
    time.sleep(0.3)  # enough for a request to arrive
    assert other_server.received_requests == []
    page.open_address(f"http://{host}/m.onnx")
    page.answer_question("yes")
    page.wait_for_state("done")
    assert [row[0] for row in page.rows("tensors")] == tensor_names(ow.load(DIGITS))
    assert all("Referer" not in headers and "Cookie" not in headers for _, headers in other_server.received_requests)


def test_a_redirect_is_followed_only_after_a_confirmation(page, server, other_server):
    server.redirects["/moved.onnx"] = f"http://127.0.0.1:{other_server.server_port}/m.onnx"
    page.open_address("moved.onnx")
    assert "redirects" in page.answer_question("no")
    page.wait_for_state("problem")
    assert other_server.received_requests == []
    page.open_address("moved.onnx")
    page.answer_question("yes")
    page.wait_for_state("done")
    assert len(page.rows("nodes")) == len(ow.load(DIGITS).graph.node)


@pytest.mark.parametrize("fault", ["ranges", "cors", "missing", "changed", "scheme"])
def test_faults_of_servers_and_addresses_are_reported(fault, page, server, other_server):
    other_server.has_ranges = fault != "ranges"
    other_server.allows_pages = fault != "cors"
    scheme = "ftp" if fault == "scheme" else "http"
    page.open_address(f"{scheme}://127.0.0.1:{other_server.server_port}/{'x' if fault == 'missing' else 'm'}.onnx")
    if fault == "scheme":
        assert "https://" in page.text("#problem")
        return
    if fault == "changed":
        assert other_server.received_requests == []
        other_server.received_requests = RequestsThatChangeTheFile(other_server)
    page.answer_question("yes")
    page.wait_for_state("problem")
    expected = {"ranges": "whole files", "cors": "CORS", "missing": "404", "changed": "changed"}[fault]
    assert expected in page.text("#problem")


class RequestsThatChangeTheFile(list):
    """A list of the requests of a server. Each request changes the ETag of the server."""

    def __init__(self, server):
        self.server = server

    def append(self, request):
        super().append(request)
        self.server.etag = f'"{len(self)}"'


def test_texts_of_a_file_are_escaped(page, tmp_path):
    attack = "<img src=x onerror=\"document.body.dataset.state='hacked'\"><script>alert(1)</script>"
    name = f"{attack}\u202e\u0007"  # with an invisible character and a control character
    model = ow.ModelProto(producer_name=attack, graph={"name": attack})
    model.graph.node.add(op_type=attack, name=name, input=[attack], output=[attack], domain=attack)
    float_type, external = ow.TensorProto.FLOAT, ow.TensorProto.EXTERNAL
    model.graph.initializer.append(ow.TensorProto(name=name, data_type=float_type, dims=[3], raw_data=bytes(12)))
    tensor = ow.TensorProto(name="e", data_type=float_type, dims=[3], data_location=external)
    tensor.external_data.add(key="location", value=attack)
    model.graph.initializer.append(tensor)
    path = tmp_path / "<b>x.onnx"
    ow.save(model, path)
    page.open_file(path)
    assert page.rows("nodes")[0][2] == f"{attack}\\u{{202e}}\\u{{7}}"
    assert page.rows("tensors")[1][4] == attack
    assert page.driver.find_elements("css selector", "img, main script, main b") == []
    assert page.text("#name") == "<b>x.onnx"
    assert page.driver.get_log("browser") == []


def test_damage_is_reported_and_an_empty_file_has_no_rows(page, tmp_path):
    path = tmp_path / "cut.onnx"
    path.write_bytes(DIGITS.read_bytes()[:100_000])
    page.open_file(path, "problem")
    assert "longer than its message at byte" in page.text("#problem")
    path.write_bytes(b"")
    page.open_file(path)
    assert page.rows("nodes") == []


def test_tensors_after_one_with_invalid_dims_are_listed(page, tmp_path):
    path = tmp_path / "m.onnx"
    model = ow.load(DIGITS)
    model.graph.initializer.insert(0, ow.TensorProto(name="bad", data_type=1, dims=[-5]))
    ow.save(model, path)
    page.open_file(path)
    rows = page.rows("tensors")
    assert "dims" in rows[0][1]
    assert len(rows) == len(model.graph.initializer)
