"""The start page opens files by path, by upload, by drag and drop or from lists; it rejects requests of other pages."""

from __future__ import annotations

import contextlib
import errno
import http.client
import io
import json
import os
import signal
import socket
import tempfile
import threading
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import quote, urlencode

import numpy as np
import onnx
import pytest
from browser import Page, needs_browser
from each import each
from onnx import helper, numpy_helper
from view_process import end, send_raw_request, serving

import onnxwire
from onnxwire.cli import main
from onnxwire.errors import EditError, PathError
from onnxwire.viewer import recent_files, start_page
from onnxwire.viewer.recent_files import RecentFiles
from onnxwire.viewer.server import KEY_HEADER, MAX_CONNECTIONS, Server
from onnxwire.viewer.start_page import MAX_OPENED, MAX_UPLOAD_BYTES, StartPage

DIGITS = Path(__file__).parents[2] / "examples" / "digits_cnn.onnx"
DATA = DIGITS.read_bytes()


@pytest.fixture
def page(tmp_path):
    """Return the start page of a folder with one model."""
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "m.onnx").write_bytes(DATA)
    return StartPage(str(tmp_path / "models"), RecentFiles(str(tmp_path / "state" / "recent.json")))


def receive(page, data=DATA, name="m.onnx", type="ModelProto", length=None):
    """Upload bytes; return the id of the file. length: the announced length, by default that of the bytes."""
    return page.receive(name, type, len(data) if length is None else length, io.BytesIO(data).read)["file"]


def test_a_file_is_opened_by_its_path_and_becomes_recent(page, tmp_path):
    file = page.open(" m.onnx ", "ModelProto")["file"]
    assert page.queries(file).summary()["nodes"]["count"] == 17
    state = page.start()
    assert state["recent"] == [str(tmp_path / "models" / "m.onnx")]
    assert state["files"] == [{"name": "m.onnx", "bytes": len(DATA)}]
    assert state["types"][0] == "ModelProto" and "TensorProto" in state["types"]
    page.open(str(DIGITS), "ModelProto")
    page.open("m.onnx", "ModelProto")
    # A new object reads the list from the file.
    reopened_list = RecentFiles(str(tmp_path / "state" / "recent.json"))
    assert reopened_list.paths() == [str(tmp_path / "models" / "m.onnx"), str(DIGITS)]
    assert page.forget(str(DIGITS))["recent"] == [str(tmp_path / "models" / "m.onnx")]
    assert (tmp_path / "state").stat().st_mode & 0o077 == 0 or os.name != "posix"


def test_uploaded_bytes_are_opened_without_a_named_file(page, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "models"))
    file = receive(page, name="C:\\x\\d.onnx")
    assert page.queries(file).about() == {
        "file": "d.onnx", "bytes": len(DATA), "type": "ModelProto", "is_model": True, "is_tensor": False
    }  # fmt: skip
    assert sum(page.queries(file).histogram("graph.initializer[0]")["counts"]) == 16 * 1 * 3 * 3
    assert os.listdir(tmp_path / "models") == ["m.onnx"] or os.name != "posix"
    assert page.start()["recent"] == []
    tensor = numpy_helper.from_array(np.arange(4.0), "t").SerializeToString()
    assert page.queries(receive(page, tensor, "t.pb", "TensorProto")).tensor("")["name"] == "t"


def test_external_data_of_uploaded_bytes_is_an_error(page):
    tensor = onnx.TensorProto(data_type=1, dims=[2], name="w", data_location=onnx.TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value="m.onnx")
    model = helper.make_model(helper.make_graph([], "g", [], [], [tensor]))
    with pytest.raises(onnxwire.Error, match=r"m\.onnx"):
        page.queries(receive(page, model.SerializeToString())).histogram("graph.initializer[0]")


# Paths and names of message types.
REFUSED_REQUESTS = [
    ("", "ModelProto"), (".", "ModelProto"), ("nothere.onnx", "ModelProto"), ("/dev/zero", "ModelProto"),
    ("/dev/stdin", "ModelProto"), ("fifo", "ModelProto"), ("m.onnx\0", "ModelProto"), ("x" * 5000, "ModelProto"),
    ("https://example.com/m.onnx", "ModelProto"), ("file:///etc/passwd", "ModelProto"), ("m.onnx", "Nothing"),
    ("m.onnx", "__class__"), ("\ud800", "ModelProto"),
]  # fmt: skip


@pytest.mark.skipif(os.name != "posix", reason="needs FIFOs")
def test_only_regular_files_with_a_message_of_a_known_type_are_opened(page, tmp_path):
    os.mkfifo(tmp_path / "models" / "fifo")
    for path, message_type in REFUSED_REQUESTS:
        with pytest.raises(EditError):
            page.open(path, message_type)
    (tmp_path / "models" / "text.onnx").write_text("hello")
    (tmp_path / "models" / "empty.onnx").write_text("")
    for path in ("text.onnx", "empty.onnx", "/etc/passwd"):
        with pytest.raises(onnxwire.Error):
            page.open(path, "ModelProto")
    assert page.start()["recent"] == []


def test_uploads_that_are_too_large_incomplete_or_damaged_are_rejected(page, monkeypatch):
    with pytest.raises(EditError, match="open it by its path"):
        receive(page, length=MAX_UPLOAD_BYTES + 1)
    monkeypatch.setattr(start_page.shutil, "disk_usage", lambda _: SimpleNamespace(free=100))
    with pytest.raises(EditError, match="free space for temporary files is 100 bytes"):
        receive(page)
    monkeypatch.undo()
    with pytest.raises(EditError, match="incomplete"):
        receive(page, length=len(DATA) + 1)
    with pytest.raises(onnxwire.DecodeError, match=r"<b>\.onnx"):
        receive(page, b"\xff" * 100, "../../<b>.onnx")
    with pytest.raises(onnxwire.DecodeError):
        receive(page, b"")

    class FullFile(io.RawIOBase):
        """A file on a full disk."""

        def write(self, _):
            raise OSError(errno.ENOSPC, "No space left on device")

        def readable(self):
            return True

    monkeypatch.setattr(start_page.tempfile, "TemporaryFile", lambda **_: FullFile())
    with pytest.raises(EditError, match="No space left"):
        receive(page)


def test_the_oldest_of_many_files_is_released(page):
    files = [receive(page) for _ in range(MAX_OPENED + 1)]
    with pytest.raises(PathError, match="open it again on the start page"):
        page.queries(files[0])
    assert page.queries(files[-1])


# Files that contain no list of paths, a path that is too long, or more bytes than the limit.
UNUSABLE_LISTS = [
    b"",
    b"[",
    b"{}",
    b"[1, null, {}]",
    b"[" * 100_000,
    b"\xff",
    b'["' + b"x" * 5000 + b'"]',
    b"[]" + b" " * (1 << 19),
]


@each("data", UNUSABLE_LISTS)
def test_an_unusable_list_of_recent_files_is_treated_as_empty(data, tmp_path):
    path = tmp_path / "recent.json"
    path.write_bytes(data)
    recent_list = RecentFiles(str(path))
    assert recent_list.paths() == []
    recent_list.add("/a")
    assert recent_list.paths() == ["/a"]


def test_recent_files_are_bounded_and_stored_in_the_state_folder_if_possible(tmp_path, monkeypatch):
    recent_list = RecentFiles(str(tmp_path / "recent.json"))
    for i in range(30):
        recent_list.add(f"/m{i}")
    assert (len(recent_list.paths()), recent_list.paths()[0]) == (20, "/m29")
    (tmp_path / "file").write_text("")
    list_below_file = RecentFiles(str(tmp_path / "file" / "recent.json"))
    list_below_file.add("/a")
    assert list_below_file.paths() == []
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert recent_files.state_path() == str(tmp_path / "onnxwire" / "recent.json")


@pytest.fixture
def server(page):
    """Run a server of the start page in a thread."""
    with Server(None, start=page) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def key(server):
    """Return the key of the server, in exchange for its token."""
    return json.loads(request(server, "GET", "session", key=server.token)[1])["key"]


def request(server, method, action, body=None, key="", **headers):
    """Send a request; return the status and the body of the answer. action: the address after /api/."""
    content_type = "application/octet-stream" if action.startswith("upload") else "application/json"
    all_headers = {KEY_HEADER: key, **({"Content-Type": content_type} if body is not None else {}), **headers}
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=100)
    with contextlib.closing(connection):
        connection.request(method, f"/api/{action}", body, all_headers)
        response = connection.getresponse()
        return response.status, response.read()


def post_action(server, key, action, **values):
    """Send an action of the start page; return the status and the answer, decoded from JSON."""
    status, body = request(server, "POST", action, json.dumps(values), key)
    return status, json.loads(body)


def test_queries_about_an_opened_file_need_its_id(server, key):
    first_id = post_action(server, key, "open", path="m.onnx", type="ModelProto")[1]["file"]
    status, body = request(server, "POST", "upload?" + urlencode({"name": "n.onnx", "type": "ModelProto"}), DATA, key)
    second_id = json.loads(body)["file"]
    assert (status, first_id == second_id) == (200, False)
    for file, name in ((first_id, "m.onnx"), (second_id, "n.onnx")):
        status, body = request(server, "GET", f"about?file={file}", key=key)
        assert (status, json.loads(body)["file"].endswith(name)) == (200, True)
    for query in ("about", "about?file=", "about?file=x", f"about?file={quote('../..')}", "comparison", "nothing"):
        assert request(server, "GET", query, key=key)[0] == 404
    assert request(server, "GET", f"nothing?file={first_id}", key=key)[0] == 404


def test_requests_of_other_pages_and_host_names_or_with_a_wrong_key_are_rejected(server, key):
    body = json.dumps({"path": "m.onnx", "type": "ModelProto"})
    for headers in (
        {"Host": "evil.example"}, {"Host": f"evil.example:{server.server_port}"}, {"Origin": "https://evil.example"},
        {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"},
    ):  # fmt: skip
        assert request(server, "POST", "open", body, key, **headers)[0] == 403
        assert request(server, "POST", "upload?name=m.onnx", DATA, key, **headers)[0] == 403
    for wrong_key in ("", "x", server.token or "none"):
        assert request(server, "POST", "open", body, wrong_key)[0] == 403
        assert request(server, "POST", "upload?name=m.onnx", DATA, wrong_key)[0] == 403
        assert request(server, "GET", "start", key=wrong_key)[0] == 403
    assert request(server, "GET", "start", key=key, Host="evil.example")[0] == 403
    # A form of another page may send text, but not JSON.
    for content_type in ("text/plain", "application/x-www-form-urlencoded"):
        assert request(server, "POST", "open", body, key, **{"Content-Type": content_type})[0] == 415
    assert json.loads(request(server, "GET", "start", key=key)[1])["recent"] == []


def test_malformed_actions_are_rejected(server, key):
    for action, values in (
        ("open", {}), ("open", {"path": 1, "type": "ModelProto"}), ("open", {"path": "m.onnx", "type": "X"}),
        ("open", {"path": "m.onnx"}), ("forget", {"path": ["x"]}),
        ("open", {"path": "/etc/passwd", "type": "ModelProto"}),
    ):  # fmt: skip
        assert post_action(server, key, action, **values)[0] == 400
    for action in ("change", "save", "extract", "undo", "receive", "close", "_add", "queries"):
        assert post_action(server, key, action, path="m.onnx")[0] == 404
    for query in ("", "?name=a&name=b", "?type=ModelProto", "?name=a&type=Nothing"):
        assert request(server, "POST", f"upload{query}", DATA, key)[0] == 400
    request_head = f"POST /api/upload?name=m.onnx HTTP/1.1\r\nHost: 127.0.0.1\r\n{KEY_HEADER}: {key}\r\n"
    request_head += "Content-Type: application/octet-stream\r\n"
    for header in (f"Content-Length: {1 << 50}", "Content-Length: -1", "Transfer-Encoding: chunked", "X: y"):
        answer = send_raw_request(server.server_port, f"{request_head}{header}\r\n\r\n")
        assert answer.startswith((b"HTTP/1.1 400", b"HTTP/1.1 411")), answer


def test_incomplete_uploads_open_no_file_and_delay_no_request(server, key, page):
    head = f"POST /api/upload?name=m.onnx HTTP/1.1\r\nHost: 127.0.0.1\r\n{KEY_HEADER}: {key}\r\n"
    head += f"Content-Type: application/octet-stream\r\nContent-Length: {len(DATA)}\r\n\r\n"
    with contextlib.ExitStack() as stack:
        for _ in range(8):
            connection = stack.enter_context(socket.create_connection(("127.0.0.1", server.server_port)))
            connection.sendall(head.encode() + DATA[:1000])
        assert post_action(server, key, "open", path="m.onnx", type="ModelProto")[0] == 200
    assert len(page._opened) == 1


def test_connections_with_incomplete_requests_do_not_delay_others(server, key):
    with contextlib.ExitStack() as stack:
        for i in range(MAX_CONNECTIONS - 4):
            connection = stack.enter_context(socket.create_connection(("127.0.0.1", server.server_port)))
            connection.sendall(b"GET / HTTP/1.1\r\nHost: 127" if i % 2 else b"")
        for _ in range(8):
            assert request(server, "GET", "start", key=key)[0] == 200


@each("options", [["--edit"], ["--type", "TensorProto"], ["-o", "x.html"], ["--match", "name"]])
def test_options_for_a_file_require_a_file(options, capsys):
    with pytest.raises(SystemExit) as excinfo:
        main(["view", *options])
    assert excinfo.value.code == 2
    assert "require FILE" in capsys.readouterr().err


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return the working directory of the page, with two models, one of which has a hostile name."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "m.onnx").write_bytes(DATA)
    (folder / "<img src=x onerror=document.title=1>\u202egpj.onnx").write_bytes(DATA)
    monkeypatch.chdir(folder)
    return folder


@needs_browser
def test_files_are_opened_in_a_browser(driver, folder, tmp_path):
    driver.get_log("browser")
    with serving("--no-browser") as process:
        page = Page(driver, process, starts_at_map=True)
        # Open by path, with Enter; a wrong path causes a message.
        page.press("nothere.onnx\n")
        page.wait(lambda: "No such file" in page.text("#trouble"), fail_on_error=False)
        path = page.element("#path")
        path.clear()
        path.send_keys("m.onnx\n")
        page.wait(lambda: "index.html?file=" in driver.current_url)
        page.element("#about", "17 nodes")
        page.wait(lambda: page.element("#map-canvas").get_attribute("data-boxes") == "6")
        # The page survives a reload. Its link leads back to the start page, which lists the file as recent.
        driver.refresh()
        page.element("#about", "17 nodes")
        page.click("header a", "Open…")
        page.element("#recent button", str(folder / "m.onnx"))
        # A hostile name is displayed as text.
        assert page.elements("img") == []
        page.click("#files button", "onerror")
        page.element("#about", "17 nodes")
        assert driver.execute_script("return document.querySelectorAll('img').length") == 0
        driver.back()
        # Open by choosing a file, which uploads it; the file of a tensor needs the type of its message.
        (tmp_path / "t.pb").write_bytes(numpy_helper.from_array(np.arange(9.0), "up").SerializeToString())
        page.wait(lambda: driver.find_elements("xpath", "//option[.='TensorProto']"))[0].click()
        driver.find_element("id", "file").send_keys(str(tmp_path / "t.pb"))
        page.wait_for_title("up")
        page.element("#histogram", "All 9 elements.")
        # A second tab works with the same files.
        address = driver.current_url
        driver.execute_script("window.open(arguments[0])", address)
        driver.switch_to.window(driver.window_handles[-1])
        page.wait_for_title("up")
        driver.close()
        driver.switch_to.window(driver.window_handles[0])
        assert os.listdir(tmp_path / "temporary") == []
        process.send_signal(signal.SIGKILL)
        process.wait(timeout=100)
    assert os.listdir(tmp_path / "temporary") == []
    errors = [entry for entry in driver.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]
    assert [entry for entry in errors if "400" not in entry["message"]] == []


# Drops a file on the page. Arguments: the content of the file in base64, and its name.
DROP_SCRIPT = """
const data = new DataTransfer();
data.items.add(new File([Uint8Array.from(atob(arguments[0]), (character) => character.charCodeAt(0))], arguments[1]));
document.body.dispatchEvent(new DragEvent('drop', { dataTransfer: data, bubbles: true, cancelable: true }));
"""


@needs_browser
def test_a_dropped_model_is_opened_and_another_file_causes_a_message(driver, folder):
    import base64

    with serving("--no-browser") as process:
        page = Page(driver, process, starts_at_map=True)
        driver.execute_script(DROP_SCRIPT, base64.b64encode(b"<html>").decode(), "<b>page.onnx")
        page.wait(lambda: "<b>page.onnx" in page.text("#trouble"), fail_on_error=False)
        driver.execute_script(DROP_SCRIPT, base64.b64encode(DATA).decode(), "<b>dropped.onnx")
        page.element("#file", "<b>dropped.onnx")
        page.element("#about", "17 nodes")
        assert end(process)[1] == 0
    driver.get_log("browser")


@pytest.mark.skipif(os.name != "posix", reason="needs a working directory that can be removed")
def test_a_removed_working_directory_is_replaced_by_the_home_directory(tmp_path, monkeypatch):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    monkeypatch.setenv("HOME", str(tmp_path))
    assert StartPage(recent=RecentFiles(str(tmp_path / "recent.json"))).folder == str(tmp_path)
