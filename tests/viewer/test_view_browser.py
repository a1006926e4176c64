"""The page of `onnxwire view`, in a real browser."""

from __future__ import annotations

import contextlib
from pathlib import Path

import onnx
import pytest
from browser import Page, key_code, needs_browser
from onnx import helper
from view_process import end, serving
from wire import len_record, varint_record

pytestmark = needs_browser
DIGITS = Path(__file__).parents[2] / "examples" / "digits_cnn.onnx"


@pytest.fixture
def open_page(driver):
    """Return a function that serves a model and opens its page."""
    processes = []
    with contextlib.ExitStack() as stack:

        def start(path):
            processes.append(stack.enter_context(serving(path, "--no-browser")))
            return Page(driver, processes[-1])

        yield start
        for process in processes:
            assert end(process)[1] == 0


@pytest.fixture(scope="module")
def digits_page(driver):
    """Open the page of DIGITS on a server that all tests with the fixture `page` share."""
    with serving(DIGITS, "--no-browser") as process:
        yield Page(driver, process)
        assert end(process)[1] == 0


@pytest.fixture
def page(digits_page):
    """Return the page in its initial state; assert afterwards that the browser logged no error or warning."""
    digits_page.reopen()
    yield digits_page
    errors = [entry for entry in digits_page.driver.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]
    assert errors == []


def open_node_and_weight(page, search, operator, neighbour):
    """Search for a node and click it, wait for its neighbour, then open its weight and wait for the histogram."""
    page.search(search)
    page.click(".row", operator)
    page.wait_for_title(operator)
    page.element(".box.focus", operator)
    page.element(".box.go", neighbour)
    page.click("#inputs .link", "weight")
    page.element("#histogram .values", "min")
    assert len(page.elements("#histogram .bars rect")) >= 1
    page.element("#cell", "row 0")
    assert page.elements("#heat")


def test_a_search_leads_to_a_node_its_neighbours_and_its_weight(page):
    open_node_and_weight(page, "conv2d_1", "Conv", "BatchNormalization")
    assert page.elements("#trouble[hidden]")


@pytest.mark.normal_build
def test_a_model_of_4_gib_opens_and_little_of_it_is_read(open_page, big_model):
    page = open_page(big_model)
    assert "4.26 GiB, 700 nodes" in page.text("#about")
    open_node_and_weight(page, "layers.9 down_proj", "MatMul", "Mul")
    assert "of 45,088,768 elements" in page.text("#histogram")
    total_memory, anonymous_memory = page.memory()  # in MiB
    assert anonymous_memory < 120
    assert total_memory < 400


def test_the_page_contacts_no_other_host_and_sends_no_address_with_the_token(page):
    page.click(".row", "Conv")
    page.wait_for_title("Conv")
    requests = page.requests()
    page_origin = page.address.partition("#")[0]
    assert len(requests) > 8
    assert [request for request in requests if not request.startswith((page_origin, "data:"))] == []
    # The token is not in the address of any request, and no longer in the browser's address.
    token = page.address.partition("#token=")[2]
    assert not any(token in request for request in requests)
    assert token not in page.driver.current_url


def test_a_reload_shows_the_same_element(page):
    page.click(".row", "Relu")
    page.wait_for_title("Relu")
    page.driver.refresh()
    page.wait_for_title("Relu")


@pytest.mark.parametrize("address", ["model", "graph=graph", "node=graph.node[5]", "tensor=graph.initializer[4]"])
def test_absent_values_are_not_shown_as_null_or_undefined(page, address):
    page.driver.execute_script("location.hash = arguments[0]", address)
    page.element("#details .card")
    lines = page.text("#details").splitlines()
    assert lines
    assert not {"null", "undefined", "false"} & set(lines)


def test_another_tab_has_no_key(page):
    page.driver.switch_to.new_window("tab")
    page.driver.get(page.address)
    page.wait(lambda: "start `onnxwire view` again" in page.elements("#trouble")[0].text, fail_on_error=False)
    page.driver.get_log("browser")
    page.driver.close()
    page.driver.switch_to.window(page.driver.window_handles[0])


def test_clicking_a_neighbour_opens_it_and_back_returns(page):
    page.click(".row", "node_conv2d_1")
    page.wait_for_title("node_conv2d_1")
    page.click(".box.go", "node_relu")
    page.wait_for_title("node_relu")
    assert page.element(".row[aria-selected=true]", "node_relu")
    page.driver.back()
    page.wait_for_title("node_conv2d_1")


def test_the_keyboard_is_sufficient(page):
    page.search("gemm")
    page.press(key_code("ENTER"))
    page.wait_for_title("node_linear")
    assert page.focused_element.get_attribute("id") == "list"
    page.press(key_code("ARROW_DOWN"))
    page.wait_for_title("node_linear_1")
    page.press(key_code("HOME"))
    page.wait_for_title("node_linear")
    # Move from box to box, and open another node.
    page.driver.execute_script("document.querySelector('.box.focus').focus()")
    page.press(key_code("ARROW_DOWN"))
    assert "Relu" in page.focused_element.get_attribute("aria-label")
    page.press(key_code("ENTER"))
    page.wait_for_title("node_relu_2")
    page.wait(lambda: "this node" in page.focused_element.get_attribute("aria-label"))
    # Return to the list, enter the search, and leave it.
    page.press(key_code("ESCAPE"))
    assert page.focused_element.get_attribute("id") == "list"
    page.press("/", "x", key_code("ESCAPE"))
    page.element("#found", "17 nodes")
    page.press(key_code("ESCAPE"))
    assert page.focused_element.get_attribute("id") == "list"


def test_the_heat_map_zooms_by_keys(page):
    page.driver.execute_script("location.hash = 'tensor=graph.initializer[8]'")
    page.element("#cell", "row 0, column 0\u20134: mean")
    page.driver.execute_script("document.getElementById('heat').focus()")
    page.press(key_code("ENTER"))
    page.element("#heat-map", "2,048 elements in 16 by 96 cells")
    page.press(key_code("ARROW_RIGHT"))
    page.element("#cell", "row 0, column 1")
    page.press(key_code("ESCAPE"))
    page.element("#heat-map", "64 by 96 cells")


def test_bytes_are_shown_with_their_offsets(page):
    page.click(".row", "node_conv2d")
    page.wait_for_title("node_conv2d")
    page.click("#show-bytes")
    page.click(".records .link", "op_type")
    offset = DIGITS.read_bytes().index(b"Conv")
    # Wait for the offset, since the bytes of the node, which are shown before, contain the operator, too.
    page.element(".hex .offset", str(offset))
    assert "Conv" in page.text(".hex .text", "Conv")


def test_the_list_of_100_000_nodes_has_the_rows_on_the_screen_only(open_page, tmp_path):
    # ModelProto.graph is field 7, its nodes are field 1; a node has input, output, name and op_type.
    nodes = [
        len_record(
            1,
            len_record(1, b"x%d" % i)
            + len_record(2, b"x%d" % (i + 1))
            + len_record(3, b"relu_%d" % i)
            + len_record(4, b"Relu"),
        )
        for i in range(100_000)
    ]
    path = tmp_path / "many.onnx"
    # ir_version, graph and opset_import
    path.write_bytes(
        varint_record(1, 10)
        + len_record(7, b"".join(nodes) + len_record(2, b"g"))
        + len_record(8, varint_record(2, 20))
    )
    page = open_page(path)
    page.element("#found", "100,000 nodes")
    assert 5 < len(page.elements(".row")) < 60
    page.driver.execute_script("document.getElementById('list').focus()")
    page.press(key_code("END"))  # the last row, which is shown when it is loaded
    page.wait_for_title("relu_99999")
    page.press(key_code("HOME"))
    page.wait_for_title("relu_0")
    page.driver.execute_script("document.getElementById('list').scrollTop = 1e9")
    page.click(".row", "relu_99999")
    page.wait_for_title("relu_99999")
    page.search("relu_777")
    page.element("#found", "111 nodes found")  # 777, 7770 to 7779, and 77700 to 77799
    assert 5 < len(page.elements(".row")) < 60


def test_names_of_the_model_are_escaped(open_page, tmp_path):
    hostile_name = "<img src=x onerror='document.title=1'>"
    path = tmp_path / "m.onnx"
    onnx.save(
        helper.make_model(
            helper.make_graph(
                [helper.make_node(hostile_name, [hostile_name], ["y"], name=hostile_name)], hostile_name, [], []
            )
        ),
        path,
    )
    page = open_page(path)
    page.click(".row", hostile_name)
    page.wait_for_title(hostile_name)
    assert page.elements("img") == []


def test_every_control_has_a_name(page):
    for address in ("node=graph.node[5]", "tensor=graph.initializer[4]", ""):
        page.driver.execute_script("location.hash = arguments[0]", address)
        page.element("#details #show-bytes")
        page.wait(lambda a=address: not a.startswith("tensor") or page.elements("#heat"))
        nameless_elements = page.driver.execute_script("""
            return [...document.querySelectorAll('button, input, select, [tabindex], [role=listbox], [role=tree]')]
              .filter((element) => element.checkVisibility() && element.id !== 'details')
              .filter((element) => !element.getAttribute('aria-label') && !element.getAttribute('aria-labelledby'))
              .filter((element) => !element.textContent.trim() && !element.labels?.length)
              .map((element) => element.outerHTML)
        """)
        assert nameless_elements == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read_in_light_and_dark(page, scheme):
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    # Contrasts by the definition of WCAG 2: the ratio of relative luminances.
    contrasts = page.driver.execute_script("""
        const style = getComputedStyle(document.documentElement)
        const luminance = (name) => style.getPropertyValue(name).trim().match(/[0-9a-f]{2}/gi)
          .map((part) => parseInt(part, 16) / 255).map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
          .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0)
        const pairs = {}
        for (const text of ['text', 'soft', 'accent', 'bad', 'math', 'norm', 'act', 'move', 'other'])
          for (const ground of ['ground', 'panel', 'hover', 'accent-ground']) {
            const [a, b] = [luminance('--' + text), luminance('--' + ground)]
            pairs[text + ' on ' + ground] = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05)
          }
        return pairs
    """)
    page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    assert {pair: value for pair, value in contrasts.items() if value < 4.5} == {}


# Invalid fragments: percent escapes that cannot be decoded, absent or unsuitable paths, and pages that do not exist.
MALFORMED_FRAGMENTS = [
    "map=%E0%A4%A", "node=%E0%A4%A", "tensor=%", "graph=%FF%FE", "fields=%C3", "map=%", "map=", "node=", "tensor=",
    "graph=", "fields=", "map=graph/x*9/99", "map=graph.node[99999]", "node=graph.node[99999]", "tensor=graph.node[0]",
    "graph=graph.node[0]", "fields=graph.node[0].op_type", "fields=[[[", "map=%00", "nothing=%E0%A4%A", "%E0%A4%A", "%",
    "changes", "difference", "map=graph.node[%]", "tensor=graph.initializer[0]%", "node=__proto__", "graph=constructor",
]  # fmt: skip


def test_no_address_causes_an_uncaught_error(open_page):
    page = open_page(DIGITS)
    page.driver.get_log("browser")
    page.driver.execute_script(
        "window.faults = [];"
        "window.addEventListener('error', (event) => window.faults.push(event.message));"
        "window.addEventListener('unhandledrejection', (event) => window.faults.push(String(event.reason)));"
    )
    for fragment in MALFORMED_FRAGMENTS:
        page.driver.execute_script(
            "location.hash = arguments[0]; window.dispatchEvent(new HashChangeEvent('hashchange'))", fragment
        )
        # After each fragment, the page still shows another address.
        page.driver.execute_script("location.hash = 'node=graph.node[3]'")
        page.wait(lambda: "BatchNormalization" in page.text("#details"), fail_on_error=False)
        assert page.driver.execute_script("return window.faults") == [], fragment
    assert [entry["message"] for entry in page.driver.get_log("browser") if "Uncaught" in entry["message"]] == []


def test_an_address_that_cannot_be_decoded_is_reported(open_page):
    page = open_page(DIGITS)
    page.driver.execute_script("location.hash = 'node=%E0%A4%A'")
    page.wait(
        lambda: "%E0%A4%A" in " ".join(element.text for element in page.elements("#trouble:not([hidden])")),
        fail_on_error=False,
    )


def test_the_list_of_tensors_contains_tensors_of_nodes_and_subgraphs(open_page, tmp_path):
    weight = helper.make_tensor("w", onnx.TensorProto.FLOAT, [2], [0, 1])
    constant = helper.make_node("Constant", [], ["k"], value=helper.make_tensor("", onnx.TensorProto.FLOAT, [1], [2]))
    branch = helper.make_graph([constant], "b", [], [], initializer=[weight])
    node = helper.make_node("If", ["c"], ["z"], then_branch=branch, else_branch=branch)
    graph = helper.make_graph([constant, node], "g", [], [], initializer=[weight])
    onnx.save(helper.make_model(graph), tmp_path / "m.onnx")
    page = open_page(tmp_path / "m.onnx")
    page.element("#about", "6 tensors")
    page.click("#tab-tensors")
    page.element("#found", "6 tensors")
    page.search("k")
    page.element("#found", "3 tensors found")
    page.click(".row", "k")
    page.wait_for_title("graph.node[0].attribute[0].t")
    # Opening a tensor of a subgraph does not change the list.
    page.search("w")
    page.wait(lambda: page.text("#found") == "3 tensors found" and page.elements(".row")[1].text.endswith("w"))
    page.elements(".row")[1].click()
    page.wait_for_title("w")
    assert page.text("#found") == "3 tensors found"
