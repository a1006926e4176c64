"""Editing in the page of `onnxwire view --edit`, in a real browser."""

from __future__ import annotations

import contextlib
import http.server
import importlib.util
import json
import signal
import threading
from pathlib import Path

import numpy as np
import onnx
import pytest
from browser import Page, key_code, needs_browser
from onnx import numpy_helper
from view_process import end, serving

pytestmark = needs_browser
EXAMPLES = Path(__file__).parents[2] / "examples"
DIGITS = EXAMPLES / "digits_cnn.onnx"


class EditPage(Page):
    """The page of a model that is edited."""

    def open_address(self, address, title=None):
        """Set the fragment of the address; wait for the heading, if `title` is given."""
        self.driver.execute_script("location.hash = arguments[0]", address)
        self.wait(lambda: title is None or title in [h.text.strip() for h in self.elements("#details .head > *")])

    def fill(self, **values):
        """Fill the form that is open, and send it."""
        for name, value in values.items():
            element = self.element(f"form.editing [name={name}]")
            if element.tag_name == "select":
                element.find_element("xpath", f".//option[.={json.dumps(value)}]").click()
            elif element.get_attribute("type") == "checkbox":
                if element.is_selected() != value:
                    element.click()
            else:
                element.clear()
                element.send_keys(value)
        self.click("form.editing [type=submit]")

    def edit(self, control, **values):
        """Open the form of a control, fill and send it, and wait for the change. control: the control's data-key."""
        change_count = self.change_count
        self.click(f"[data-key={json.dumps(control)}]")
        self.fill(**values)
        self.wait(lambda: self.change_count == change_count + 1)

    def press_with(self, key, *modifiers):
        """Press a key while modifier keys are down."""
        from selenium.webdriver.common.action_chains import ActionChains

        chain = ActionChains(self.driver)
        for modifier in modifiers:
            chain.key_down(key_code(modifier))
        chain.send_keys(key)
        for modifier in modifiers:
            chain.key_up(key_code(modifier))
        chain.perform()

    @property
    def change_count(self):
        """Return the number of changes that the page shows."""
        words = self.text("#show-changes").split()
        return 0 if words[0] == "No" else int(words[0])

    def fetch_answer(self, query):
        """Return the server's answer to a query of the page."""
        return self.driver.execute_async_script(
            """
            const done = arguments[arguments.length - 1];
            const key = sessionStorage.getItem('onnxwire key');
            fetch('api/' + arguments[0], { headers: { 'X-Onnxwire-Key': key } }).then((r) => r.json()).then(done);
            """,
            query,
        )


@pytest.fixture
def open_page(driver):
    """Return a function that runs `onnxwire view` with arguments and opens its page."""
    with contextlib.ExitStack() as stack:

        def start(*arguments):
            return EditPage(driver, stack.enter_context(serving(*arguments, "--no-browser")))

        yield start
        # Reset the page, which would otherwise ask for a confirmation when the next page is opened.
        driver.get("about:blank")


@pytest.fixture
def page(open_page, path):
    """Return the page of a model in edit mode; assert afterwards that the browser logged only expected errors."""
    page = open_page(path, "--edit")
    yield page
    errors = [entry for entry in page.driver.get_log("browser") if entry["level"] == "SEVERE"]
    # Refused requests get a 4xx response, and a stopped server does not respond, or sends a part of its response.
    server_errors = (
        "CONNECTION_REFUSED",
        "CONNECTION_RESET",
        "EMPTY_RESPONSE",
        "CONTENT_LENGTH_MISMATCH",
        "does not answer",
    )
    expected_messages = ("status of 4", *server_errors)
    assert [entry for entry in errors if not any(text in entry["message"] for text in expected_messages)] == []


def test_an_edit_is_undone_redone_checked_and_saved_for_the_official_package(page, path):
    page.open_address("node=graph.node[4]", "Relu")
    page.edit("operator graph.node[4].op_type", value="Gelu")
    page.wait_for_title("Gelu")
    # This model's opset has Gelu, so the new operator is valid. An attribute that Gelu does not have is reported.
    page.edit("Add an attribute", name="nonsense", type="INTS", value="[1, 2]")
    page.element(".problems .problem-line", "nonsense")
    page.element("#show-changes", "new problem")
    page.click("#undo")
    page.wait(lambda: page.change_count == 1 and not page.elements(".problems:not([hidden])"))
    page.click("#undo")
    page.wait_for_title("Relu")
    page.click("#redo")
    page.wait_for_title("Gelu")
    page.click("#save")
    page.fill(path="edited.onnx")
    page.element("#notice", "edited.onnx")
    model = onnx.load(path.with_name("edited.onnx"))
    assert model.graph.node[4].op_type == "Gelu"
    onnx.checker.check_model(model)
    assert path.read_bytes() == DIGITS.read_bytes()


def test_the_keyboard_is_sufficient_for_an_edit(page):
    page.search("node_relu")
    page.press(key_code("ENTER"))
    page.wait_for_title("node_relu")
    page.driver.execute_script("document.querySelector('[data-key^=\"name \"]').focus()")
    page.press(key_code("ENTER"))
    page.wait(lambda: page.focused_element.get_attribute("name") == "value")
    page.press("act", key_code("ENTER"))
    page.wait_for_title("act")
    # The focus is at the control again. Keys undo and redo the change and show the difference.
    page.wait(lambda: page.focused_element.get_attribute("data-key") == "name graph.node[4]")
    page.press_with("z", "CONTROL")
    page.wait_for_title("node_relu")
    page.press_with("z", "CONTROL", "SHIFT")
    page.wait_for_title("act")
    page.press("d")
    page.element(".differences", "act")
    page.press("d")
    # Escape closes a form without a change.
    page.open_address("node=graph.node[4]", "act")
    page.driver.execute_script("document.querySelector('[data-key^=\"name \"]').click()")
    page.wait(lambda: page.focused_element.get_attribute("name") == "value")
    page.press("other", key_code("ESCAPE"))
    page.wait(lambda: not page.elements("form.editing"))
    assert page.change_count == 1


def test_a_form_shows_the_error_of_a_wrong_value_and_changes_nothing(page):
    page.open_address("node=graph.node[2]", "Conv")
    page.click("[data-key='group graph.node[2].attribute[0]']")
    page.fill(value="many")
    page.element("form.editing .problem", "'many' is not a whole number")
    assert page.focused_element.get_attribute("value") == "many"
    assert page.change_count == 0


def test_changes_of_many_kinds_are_made_and_saved(page, path, tmp_path):
    page.edit("IR version ir_version", value="9")
    page.edit("version of ai.onnx opset_import[0]", value="21")
    page.edit("Import an operator set", domain="com.me", version="3")
    page.edit("Add metadata", key="author", value="me")
    page.edit("doc doc_string", value="two words")
    page.edit("value image graph.input[0]", value="pixels")
    page.edit("type of pixels graph.input[0]", elem_type="FLOAT", shape="[4, 1, 8, ?]")
    page.open_address("node=graph.node[2]", "Conv")
    page.edit("pads graph.node[2].attribute[1]", value="[0, 0, 0, 0]")
    change_count = page.change_count
    page.click("[aria-label='Remove group']")
    page.wait(lambda: page.change_count == change_count + 1)
    page.open_address("node=graph.node[4]", "Relu")
    page.click(".actions .small-button", "Delete")
    page.fill()
    page.element("#details h1", "main_graph")
    page.element("#found", "16 nodes")
    array = np.full((16, 1, 3, 3), 0.5, np.float32)
    np.save(tmp_path / "w.npy", array)
    page.open_address("tensor=graph.initializer[0]")
    page.element("#file-input").send_keys(str(tmp_path / "w.npy"))
    page.wait(lambda: page.change_count == 11)  # nine changes of fields, a deleted node and this replacement
    page.element("#histogram .values", "0.5")
    page.click("#show-changes")
    page.element("ol.changes", "replace graph.initializer[0] by w.npy")
    assert len(page.elements("ol.changes li")) == 11
    page.click("#save")
    page.fill(path="all.onnx")
    page.element("#notice", "all.onnx")
    model = onnx.load(path.with_name("all.onnx"))
    assert model.ir_version == 9
    assert [(opset.domain, opset.version) for opset in model.opset_import] == [("", 21), ("com.me", 3)]
    assert (model.metadata_props[0].value, model.doc_string) == ("me", "two words")
    dims = model.graph.input[0].type.tensor_type.shape.dim
    assert [dim.dim_value for dim in dims] == [4, 1, 8, 0]
    assert len(model.graph.node) == 16
    names = {attribute.name: attribute for attribute in model.graph.node[2].attribute}
    assert ("group" in names, list(names["pads"].ints)) == (False, [0, 0, 0, 0])
    np.testing.assert_array_equal(numpy_helper.to_array(model.graph.initializer[0]), array)
    assert "pixels" in model.graph.node[2].input


def test_marked_nodes_are_extracted(page, path):
    for index, title in ((2, "Conv"), (4, "Relu")):
        page.open_address(f"node=graph.node[{index}]", title)
        page.click("#mark", "Mark")
        page.element("#mark[aria-pressed=true]")
    page.open_address("node=graph.node[3]", "BatchNormalization")
    page.press("m")
    page.click("#extract", "Extract 3")
    page.fill(path="part.onnx")
    page.element("#notice", "from image to relu")
    part_model = onnx.load(path.with_name("part.onnx"))
    onnx.checker.check_model(part_model)
    assert [node.op_type for node in part_model.graph.node] == ["Conv", "BatchNormalization", "Relu"]


def test_the_opened_file_is_replaced_only_after_the_confirmation_is_typed(page, path):
    page.edit("producer producer_name", value="me")
    page.click("#save")
    page.fill(path="m.onnx")
    page.element("form.editing .problem", "type: replace m.onnx")
    assert path.read_bytes() == DIGITS.read_bytes()
    page.fill(words="replace m.onnx")
    page.element("#notice", "m.onnx")
    assert onnx.load(path).producer_name == "me"


def test_closing_with_unsaved_changes_warns(page):
    def warns():
        """Return whether the page asks for a confirmation before it is closed."""
        return page.driver.execute_script(
            "const e = new Event('beforeunload', { cancelable: true }); dispatchEvent(e); return e.defaultPrevented"
        )

    assert not warns()
    page.edit("producer producer_name", value="me")
    assert warns()
    page.click("#save")
    page.fill(path="x.onnx")
    page.element("#notice", "x.onnx")
    assert not warns()


def test_unsaved_changes_are_reported_on_the_terminal(page):
    page.edit("producer producer_name", value="me")
    page.process.send_signal(signal.SIGINT)
    line = page.process.stderr.readline()
    while "Ctrl-C again" not in line:
        line = page.process.stderr.readline()
        assert line
    assert page.fetch_answer("edits")["done"] == 1
    stderr_text, status = end(page.process)
    assert status == 0
    assert "1 change is not saved" in stderr_text
    assert "set producer_name = me" in stderr_text


def test_changes_of_another_tab_are_shown_and_make_an_open_form_stale(page):
    page.open_address("node=graph.node[4]", "Relu")
    first_tab = page.driver.current_window_handle
    # Like the browser's "Duplicate": the new tab has the key of the original tab.
    page.driver.execute_script("window.open(location.href)")
    second_tab = page.wait(lambda: [handle for handle in page.driver.window_handles if handle != first_tab])[0]
    page.driver.switch_to.window(second_tab)
    page.wait_for_title("Relu")
    # A form that is open when another tab changes the model stays open, and the server refuses the form's change.
    page.click("[data-key='name graph.node[4]']")
    page.element("form.editing")
    page.driver.switch_to.window(first_tab)
    page.open_address("node=graph.node[2]", "Conv")
    page.click(".actions .small-button", "Delete")
    page.fill(input="do not reconnect")
    page.wait(lambda: page.change_count == 1)
    page.driver.switch_to.window(second_tab)
    element = page.element("form.editing [name=value]")
    element.clear()
    element.send_keys("mine")
    page.click("form.editing [type=submit]")
    page.wait(lambda: "another tab" in page.text("form.editing .problem"), fail_on_error=False)
    assert page.fetch_answer("edits")["done"] == 1
    # Once the form is closed, this tab shows the changes of the other tab, and further changes are possible.
    page.press(key_code("ESCAPE"))
    page.wait(lambda: "16 nodes" in page.text("#found") and page.change_count == 1, fail_on_error=False)
    page.driver.execute_script("location.hash = 'changes'")
    page.wait(lambda: "delete graph.node[2]" in page.text("ol.changes"), fail_on_error=False)
    page.click("#undo")
    page.wait(lambda: page.change_count == 0, fail_on_error=False)
    page.driver.close()
    page.driver.switch_to.window(first_tab)


# A page of another origin that tries to read and change the model; window.outcome has the result of each of `attempts`.
HOSTILE_PAGE = """
<!doctype html><title>prize</title>
<form id="text" method="post" enctype="text/plain" action="{target}/api/undo" target="hole">
  <input name='{{"revision":1,"x":"' value='"}}'>
</form>
<form id="plain" method="post" action="{target}/api/undo" target="hole"><input name="revision" value="1"></form>
<iframe name="hole"></iframe>
<iframe id="page" src="{target}/"></iframe>
<script>
const headers = {{ "Content-Type": "application/json", "X-Onnxwire-Key": "guess" }};
const body = JSON.stringify({{ revision: 1 }});
const attempts = {{
  "no-cors": () => fetch("{target}/api/undo", {{ method: "POST", mode: "no-cors", body }}),
  "cors": () => fetch("{target}/api/undo", {{ method: "POST", headers, body }}),
  "credentials": () => fetch("{target}/api/undo", {{ method: "POST", credentials: "include", headers, body }}),
  "put": () => fetch("{target}/api/undo", {{ method: "PUT", headers, body }}),
  "read": () => fetch("{target}/api/edits", {{ headers }}),
  "image": () => new Promise((done) => {{
    const image = new Image();
    image.onload = () => done("shown");
    image.onerror = () => done("not shown");
    image.src = "{target}/api/undo?revision=1";
  }}),
  "script": () => new Promise((done) => {{
    const script = document.createElement("script");
    script.onload = () => done("run");
    script.onerror = () => done("not run");
    script.src = "{target}/page.js";
    document.head.append(script);
  }}),
  "beacon": async () => navigator.sendBeacon("{target}/api/undo", new Blob([body], {{ type: "text/plain" }})),
  "file": () => fetch("{target}/api/upload?name=x.npy", {{ method: "POST", mode: "no-cors", body: new Blob(["x"]) }}),
  "frame": async () => {{
    const page = document.getElementById("page");
    const text = () => page.contentDocument?.body?.textContent;
    // Until the response arrives, the frame is an empty page of this site. Then contentDocument is null: no access.
    while (page.contentDocument && !text()) await new Promise((done) => setTimeout(done, 50));
    return text() ?? "closed";
  }},
}};
(async () => {{
  const outcome = {{}};
  for (const [name, attempt] of Object.entries(attempts)) {{
    try {{
      const answer = await attempt();
      const isAnswer = answer instanceof Response;
      outcome[name] = isAnswer ? `${{answer.type}} ${{answer.status}} ${{await answer.text()}}` : String(answer);
    }} catch (error) {{
      outcome[name] = "failed";
    }}
  }}
  for (const id of ["text", "plain"]) {{
    document.getElementById(id).submit();
    await new Promise((done) => setTimeout(done, 500));
  }}
  window.outcome = outcome;
}})();
</script>
"""


def test_a_page_of_another_origin_can_do_nothing(page, tmp_path):
    page.edit("producer producer_name", value="me")
    state_before = page.fetch_answer("edits")
    target = page.address.partition("/#")[0]
    (tmp_path / "hostile").mkdir()
    (tmp_path / "hostile" / "index.html").write_text(HOSTILE_PAGE.format(target=target))

    class QuietHandler(http.server.SimpleHTTPRequestHandler):
        """Serves the hostile page without a log."""

        def __init__(self, *arguments):
            super().__init__(*arguments, directory=tmp_path / "hostile")

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), QuietHandler) as site:
        threading.Thread(target=site.serve_forever, daemon=True).start()
        tab = page.driver.current_window_handle
        page.driver.switch_to.new_window("tab")
        # For the browser, 127.0.0.1 is the same site as the page, and localhost is a different site.
        for name in ("127.0.0.1", "localhost"):
            page.driver.get(f"http://{name}:{site.server_port}/")
            outcome = page.wait(lambda: page.driver.execute_script("return window.outcome"))
            assert outcome.pop("beacon") in ("true", "false")  # whether it was queued, regardless of the response
            for request_kind in ("no-cors", "file"):
                # The request has no key, and the hostile page can't read the response.
                assert outcome.pop(request_kind) in ("opaque 0 ", "failed")
            assert outcome == {
                "cors": "failed", "credentials": "failed", "put": "failed", "read": "failed",
                "image": "not shown", "script": "not run", "frame": "closed",
            }  # fmt: skip
        page.driver.get_log("browser")
        page.driver.close()
        page.driver.switch_to.window(tab)
        site.shutdown()
    assert page.fetch_answer("edits") == state_before
    assert page.fetch_answer("summary")["producer_name"] == "me"


def test_without_edit_the_page_has_no_controls_for_changes(open_page, path):
    page = open_page(path)
    for address in ("", "node=graph.node[2]", "tensor=graph.initializer[0]", "fields=graph.node[2]"):
        page.open_address(address)
        page.element("#details #show-bytes")
        assert not page.elements(".icon, .add, #bar, #undo, .editing, #file-input, #mark")
    page.press("d", "m")
    assert "difference" not in page.driver.current_url


def write_big_model(path):
    """Write a model of more than 4 GiB, whose weights are holes in the file."""
    spec = importlib.util.spec_from_file_location("make_big_model", EXAMPLES / "make_big_model.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.write_model(path)


def test_a_model_of_4_gib_is_edited_and_saved_in_little_memory(open_page, tmp_path):
    path = tmp_path / "big.onnx"
    write_big_model(path)
    page = open_page(path, "--edit")
    _, memory_before = page.memory()  # without mapped files, in MiB
    page.click(".row")
    page.element("[data-key='name graph.node[0]']")
    page.edit("name graph.node[0]", value="first")
    page.wait(lambda: page.fetch_answer("problems")["revision"] == 1)
    page.open_address("difference")
    page.element(".differences", "first")
    page.click("#save")
    page.fill(path="edited.onnx")
    page.element("#notice", "edited.onnx")
    _, memory_after = page.memory()
    assert memory_after - memory_before < 300
    edited_path = tmp_path / "edited.onnx"
    assert edited_path.stat().st_size > 4 << 30
    assert edited_path.stat().st_blocks * 512 < 64 << 20
    import onnxwire

    with onnxwire.load(edited_path) as model:
        assert model.graph.node[0].name == "first"


def test_any_message_is_a_tree_that_can_be_edited(open_page, tmp_path):
    import onnxwire

    model = onnxwire.load(DIGITS)
    path = tmp_path / "graph.pb"
    onnxwire.save(model.graph, path)
    page = open_page(path, "--type", "GraphProto", "--edit")
    page.element("#details h1", "GraphProto")
    assert not page.element("nav").is_displayed()
    # By keyboard, open the field `node`, select its second element, and open this element.
    page.driver.execute_script("document.querySelector('[role=treeitem]').focus()")
    page.press(key_code("ARROW_RIGHT"))
    page.element("[data-path='node[0]']", "NodeProto")
    page.press(key_code("ARROW_DOWN"), key_code("ARROW_DOWN"), key_code("ARROW_RIGHT"))
    page.element("[data-path='node[1].op_type']", "Squeeze")
    page.edit("op_type node[1].op_type", value="Identity")
    # After the change, the row is still open.
    page.element("[data-path='node[1].op_type']", "Identity")
    # The fields of an unedited message show their offsets in the file; an edited message is marked as edited.
    page.open_address("fields=node[0]", "NodeProto")
    offset = page.text("[data-path='op_type'] .link, [data-path='node[0].op_type'] .link")
    assert int(offset.replace(",", "")) == path.read_bytes().index(
        b"Shape", path.read_bytes().index(b"node_Shape_0") + len("node_Shape_0")
    )
    page.open_address("fields=node[1]", "NodeProto")
    page.element("#details .head", "edited")
    page.open_address("fields=node[2]", "NodeProto")
    page.edit("Add to node[2]", name="doc_string", value="seen")
    page.element("[data-path='node[2].doc_string']", "seen")
    page.click("[aria-label='Remove doc_string']")
    page.wait(lambda: page.change_count == 3)
    page.click("#save")
    page.fill(path="out.pb")
    page.element("#notice", "out.pb")
    graph = onnx.GraphProto.FromString((tmp_path / "out.pb").read_bytes())
    assert (graph.node[1].op_type, graph.node[2].HasField("doc_string")) == ("Identity", False)


# If no form is open, clicks the control that the selector arguments[0] matches. Returns the open form or null.
OPEN_FORM = """
const find = () => document.querySelector("form.editing");
if (!find()) document.querySelector(arguments[0])?.click();
return find();
"""


def test_every_control_has_a_name_and_a_form_has_labels(page):
    for address in ("node=graph.node[5]", "tensor=graph.initializer[4]", "fields=graph.node[5]", "changes", ""):
        page.driver.execute_script("location.hash = arguments[0]", address)
        page.element("#details h1")
        page.wait(lambda p=address: not p.startswith("tensor") or page.elements("#heat"))
        for opener in ("", ".add", ".icon"):
            if opener and not page.elements(f"#details {opener}"):
                continue
            if opener:
                # The click is repeated if the details are drawn again in the meantime.
                page.wait(lambda o=opener: page.driver.execute_script(OPEN_FORM, f"#details {o}"))
            nameless_elements = page.driver.execute_script("""
                return [...document.querySelectorAll('button, input, select, textarea, [tabindex], [role=tree]')]
                  .filter((element) => element.checkVisibility() && element.id !== 'details')
                  .filter((element) => !element.getAttribute('aria-label') && !element.getAttribute('aria-labelledby'))
                  .filter((element) => !element.textContent.trim() && !element.labels?.length)
                  .map((element) => element.outerHTML)
            """)
            assert nameless_elements == []
            if opener:
                page.press(key_code("ESCAPE"))
                page.wait(lambda: not page.elements("form.editing"))
