"""The map of a model in a browser, tested by keys, clicks, the announced selection and saved pictures."""

from __future__ import annotations

import contextlib
import re
import struct
import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import onnx
import pytest
from browser import Page, key_code, needs_browser
from graphs import layered_model
from onnx import helper
from view_process import end, serving

pytestmark = needs_browser
DIGITS = Path(__file__).parents[2] / "examples" / "digits_cnn.onnx"


@pytest.fixture(scope="module")
def download_folder(tmp_path_factory):
    """Return the folder in which the browser saves files."""
    return tmp_path_factory.mktemp("saved")


@pytest.fixture(scope="module")
def driver(driver, download_folder):
    """Return the driver of the shared browser, which saves files in `download_folder`."""
    driver.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(download_folder)})
    return driver


class Map(Page):
    """The map of a model in a browser."""

    def press_on_map(self, *keys):
        """Press keys on the map."""
        self.driver.execute_script("document.getElementById('map-canvas').focus()")
        self.press(*(key_code(key) if len(key) > 1 else key for key in keys))

    def wait_for_status(self, text):
        """Wait until the map announces a text about the selection."""
        return self.wait(lambda: text in self.element("#map-status").get_attribute("textContent"))

    def box_count(self):
        """Return the number of boxes on the map."""
        return int(self.element("#map-canvas").get_attribute("data-boxes"))

    def open_address(self, address):
        self.driver.execute_script("location.hash = arguments[0]", address)

    def search_for(self, words, row):
        """Search for words, and click the row that contains the text `row`."""
        self.search(words)
        self.click(".row", row)

    @property
    def current_address(self):
        return self.driver.execute_script("return decodeURIComponent(location.hash)")


def errors_of(driver):
    """Return the errors and warnings in the browser's log since it was last read."""
    return [entry for entry in driver.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]


@pytest.fixture
def open_map(driver):
    """Return a function that serves a model and opens its map; assert afterwards that the browser logged no error."""
    processes = []
    with contextlib.ExitStack() as stack:

        def start(path):
            processes.append(stack.enter_context(serving(path, "--no-browser")))
            return Map(driver, processes[-1], starts_at_map=True)

        yield start
        errors = errors_of(driver)
        driver.get("about:blank")  # a page that is still open could request data after the end of its server
        for process in processes:
            assert end(process)[1] == 0
        assert errors == []


@pytest.fixture(scope="module")
def digits_map(driver):
    """Return the map of the digits model, on a server that all tests of this module share."""
    with serving(DIGITS, "--no-browser") as process:
        yield Map(driver, process, starts_at_map=True)
        driver.get("about:blank")
        assert end(process)[1] == 0


@pytest.fixture
def digits(digits_map):
    """Return the map in its initial state; assert afterwards that the browser logged no error."""
    digits_map.reopen()
    yield digits_map
    assert errors_of(digits_map.driver) == []


@pytest.fixture(scope="module")
def layers(tmp_path_factory):
    """Return the path of a model of 100,002 nodes: 100 equal layers of 1,000, an embedding and a head."""
    path = tmp_path_factory.mktemp("layers") / "layers.onnx"
    onnx.save(layered_model(layers=100, width=1_000), path)
    return path


def test_the_map_is_shown_first(digits):
    assert digits.element("#see-map").get_attribute("aria-pressed") == "true"
    assert digits.box_count() == 6
    assert not digits.element("#details").is_displayed()
    # No request is sent to another host.
    page_origin = digits.address.partition("#")[0]
    assert [request for request in digits.requests() if not request.startswith((page_origin, "data:"))] == []


def test_keys_select_open_and_close_boxes(digits):
    digits.press_on_map("ARROW_DOWN")
    digits.wait_for_status("node Shape node_Shape_0")
    digits.open_address("map=graph/2")
    digits.wait_for_status("group features, closed")
    digits.press_on_map("ENTER")
    digits.wait_for_status("group features, open")
    assert digits.box_count() == 6 + 7  # the group has seven nodes
    digits.press_on_map("ARROW_DOWN")
    digits.wait_for_status("node Conv node_conv2d")
    digits.press_on_map("ARROW_DOWN", "ARROW_DOWN")
    digits.wait_for_status("node Relu node_relu")
    assert digits.current_address == "#map=graph.node[4]"
    digits.press_on_map("ESCAPE")
    digits.wait_for_status("group features, open")
    digits.press_on_map("ENTER")
    digits.wait_for_status("group features, closed")
    assert digits.box_count() == 6


def test_a_node_on_the_map_links_to_its_details_and_back(digits):
    digits.open_address("map=graph.node[5]")
    digits.wait_for_status("node Conv node_conv2d_1")
    digits.press_on_map("ENTER")
    digits.wait_for_title("Conv")
    assert digits.current_address == "#node=graph.node[5]"
    digits.press("v")
    digits.wait(lambda: digits.element("#map-canvas").is_displayed())
    digits.wait_for_status("node Conv node_conv2d_1")


def test_a_link_survives_a_reload(digits):
    digits.open_address("map=graph.node[14]")
    digits.wait_for_status("node Gemm node_linear")
    digits.driver.refresh()
    digits.wait_for_status("node Gemm node_linear")
    digits.element("#map-card", "node_linear")
    digits.element(".row[aria-selected=true]", "node_linear")


def test_search_selects_the_node_and_opens_its_groups(digits):
    digits.search_for("linear", "node_linear_1")
    digits.wait_for_status("node Gemm node_linear_1")
    assert digits.box_count() == 6 + 4  # the group has four nodes


def test_a_route_between_two_nodes_is_highlighted(digits):
    digits.open_address("map=graph.node[2]")
    digits.wait_for_status("node_conv2d")
    digits.press_on_map("p")
    digits.element("#map-card", "A route begins at node_conv2d")
    digits.open_address("map=graph.node[16]")
    digits.wait_for_status("node_linear_1")
    digits.press_on_map("p")
    digits.element("#map-card", "Route of 11 nodes")
    digits.press_on_map("ESCAPE")
    digits.wait(lambda: "Route of" not in digits.text("#map-card"))


def test_the_map_is_saved_as_svg_and_png(digits, download_folder):
    digits.open_address("map=graph/3")
    digits.wait_for_status("group classifier")
    for button_label in ("SVG", "PNG"):
        digits.click("#map-bar .small-button", button_label)
    files = [download_folder / "map.svg", download_folder / "map.png"]
    digits.wait(lambda: all(path.exists() and path.stat().st_size for path in files))
    picture = ElementTree.parse(files[0]).getroot()
    texts = [element.text for element in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert {"features", "classifier", "image", "logits"} <= set(texts)
    width, height = struct.unpack(">II", files[1].read_bytes()[16:24])  # in the first chunk of a PNG
    assert abs(width / height - float(picture.get("width")) / float(picture.get("height"))) < 0.01


def test_names_are_escaped(open_map, tmp_path, download_folder):
    hostile_name = "<img src=x onerror='document.title=1'>&\x08\"/a"
    path = tmp_path / "m.onnx"
    nodes = [
        helper.make_node(hostile_name, [hostile_name], ["y"], name=hostile_name),
        helper.make_node("Relu", ["y"], ["z"], name=hostile_name + "b"),
    ]
    onnx.save(helper.make_model(helper.make_graph(nodes, hostile_name, [], [])), path)
    page = open_map(path)
    page.open_address("map=graph.node[0]")
    page.element("#map-card", "onerror")
    assert page.elements("img") == []
    for old_file in download_folder.glob("map*.svg"):
        old_file.unlink()
    page.click("#map-bar .small-button", "SVG")
    page.wait(lambda: any(path.stat().st_size for path in download_folder.glob("map*.svg")))
    tags = {
        element.tag.rpartition("}")[2] for element in ElementTree.parse(next(download_folder.glob("map*.svg"))).iter()
    }
    assert tags <= {"svg", "rect", "path", "polygon", "text"}


def test_every_control_has_a_name(digits):
    digits.open_address("map=graph.node[5]")
    digits.wait_for_status("node_conv2d_1")
    nameless_elements = digits.driver.execute_script("""
        return [...document.querySelectorAll('#map button, #map canvas[tabindex], header button')]
          .filter((element) => element.checkVisibility() && !element.getAttribute('aria-label'))
          .filter((element) => !element.textContent.trim())
          .map((element) => element.outerHTML)
    """)
    assert nameless_elements == []


@pytest.mark.normal_build
def test_100_equal_layers_of_1_000_nodes_are_one_box_that_opens(open_map, layers):
    page = open_map(layers)
    page.element("#about", "100,002 nodes")
    page.open_address("map=graph/1")
    page.wait_for_status("100 equal blocks layers.0")
    page.element("#map-card", "100,000")
    box_count_before = page.box_count()
    assert box_count_before == 5
    # Open one block, go to the next block, then open all.
    page.press_on_map("ENTER")
    page.wait(lambda: page.box_count() > box_count_before)
    page.press_on_map("]")
    page.element("#map-card", "layers.1")
    page.press_on_map("a")
    page.wait(lambda: page.box_count() == box_count_before + 100)
    # Open one of the 100 layers.
    page.open_address("map=graph/1/41")
    page.wait_for_status("group layers.41")
    page.press_on_map("ENTER")
    page.wait(lambda: page.box_count() > box_count_before + 100)
    # A search opens the layer of its result.
    page.search_for("layers.77/part.3/", "layers.77")
    page.wait(lambda: re.fullmatch(r"#map=graph\.node\[\d+\]", page.current_address))
    page.element("#map-card", "layers.77")
    _, anonymous_memory = page.memory()  # in MiB
    assert anonymous_memory < 400


@pytest.mark.normal_build
def test_the_layers_of_a_transformer_of_4_gib_are_one_box_that_opens(open_map, big_model):
    page = open_map(big_model)
    page.element("#about", "4.26 GiB, 700 nodes")
    page.open_address("map=graph/0/4")
    page.wait_for_status("10 equal blocks layers.0")
    page.element("#map-card", "2,023,833,800 (3.77 GiB)")
    box_count_before = page.box_count()
    page.press_on_map("ENTER")
    page.wait(lambda: page.box_count() == box_count_before + 6)
    page.press_on_map("[")
    page.element("#map-card", "of which layers.9 is open")
    page.search_for("layers.9 down_proj", "MatMul")
    page.wait_for_status("node MatMul /model/layers.9/mlp/down_proj/MatMul")
    page.element("#map-card", "in model \u203a layers.9 \u203a mlp")
    _, anonymous_memory = page.memory()  # in MiB
    assert anonymous_memory < 120


# Returns a checksum of the pixels in the upper 30 % of the map.
CHECKSUM_SCRIPT = """
    const canvas = document.getElementById('map-canvas');
    const copy = new OffscreenCanvas(canvas.width, Math.round(canvas.height * 0.3));
    copy.getContext('2d', { willReadFrequently: true }).drawImage(canvas, 0, 0);
    const pixels = copy.getContext('2d').getImageData(0, 0, copy.width, copy.height).data;
    return pixels.reduce((sum, value, i) => (sum * 31 + value + i) % 1000000007, 0)
"""


def test_boxes_above_an_opened_group_do_not_move(open_map, layers):
    page = open_map(layers)
    page.open_address("map=graph/1")
    page.wait_for_status("equal blocks")
    time.sleep(0.5)  # all animations have ended
    checksum, box_count_before = page.driver.execute_script(CHECKSUM_SCRIPT), page.box_count()
    page.press_on_map("ENTER")
    page.wait(lambda: page.box_count() > box_count_before)
    page.wait(lambda: page.driver.execute_script(CHECKSUM_SCRIPT) == checksum)
    page.press_on_map("ENTER")
    page.wait(lambda: page.box_count() == box_count_before)
    page.wait(lambda: page.driver.execute_script(CHECKSUM_SCRIPT) == checksum)


def test_equal_single_nodes_open_all_together_and_search_selects_one(open_map, tmp_path):
    nodes = [helper.make_node("Constant", [], [f"c{i}"], f"const{i}", value_float=1.0) for i in range(300)]
    nodes += [helper.make_node("Sum", [f"c{i}" for i in range(300)], ["y"], "total")]
    value = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [])
    onnx.save(helper.make_model(helper.make_graph(nodes[200:], "small", [], [value])), tmp_path / "100.onnx")
    onnx.save(helper.make_model(helper.make_graph(nodes, "big", [], [value])), tmp_path / "300.onnx")
    page = open_map(tmp_path / "100.onnx")
    page.open_address("map=graph/0")
    page.wait_for_status("100 equal nodes Constant, closed")
    box_count_before = page.box_count()
    page.press_on_map("ENTER")
    page.wait(lambda: page.box_count() == box_count_before + 100)
    page.press_on_map("ENTER")
    page.wait(lambda: page.box_count() == box_count_before)
    page.search_for("const250", "Constant")
    page.wait_for_status("node Constant const250")
    assert page.box_count() == box_count_before + 100
    # There are more nodes than one group can show, so they open in two steps.
    page = open_map(tmp_path / "300.onnx")
    page.search_for("const250", "Constant")
    page.wait_for_status("node Constant const250")


def test_equal_blocks_show_the_size_of_each(open_map, layers):
    page = open_map(layers)
    page.open_address("map=graph/1")
    page.element("#map-card", "100,000 (1,000 per block)")
    page.element("#map-card", "MatMul 143, Add 143")


def test_the_card_of_a_node_shows_attributes_and_weights(digits):
    digits.open_address("map=graph.node[2]")
    card = digits.element("#map-card .of-node", "weight float[16, 1, 3, 3]")
    assert "pads\n[1, 1, 1, 1]" in card.text
    assert "image\nfloat[batch, 1, 8, 8]" in card.text


HOSTILE_NAME = "<img src=x onerror=alert(1)>\u202e\x1b" + "x" * 3000


def test_names_on_the_card_are_text(open_map, tmp_path):
    node = helper.make_node("Relu", [HOSTILE_NAME], [HOSTILE_NAME + "y"], HOSTILE_NAME)
    node.attribute.append(helper.make_attribute(HOSTILE_NAME, HOSTILE_NAME))
    onnx.save(helper.make_model(helper.make_graph([node], "g", [], [])), tmp_path / "evil.onnx")
    page = open_map(tmp_path / "evil.onnx")
    page.open_address("map=graph.node[0]")
    card = page.element("#map-card .of-node", "<img src=x")
    assert len(card.text) < 1_000
    assert not page.elements("#map-card img")


MALFORMED_ADDRESSES = [
    "map=graph/99999", "map=graph/1*3/%zz", "map=/", "map=graph/\u0663", "map=graph.node[99999999999999999999]",
    "map=%00", "map=functions[0]", "node=graph.node[-1]", "tensor=<script>", "fields=graph.node[0", "graph=%ed%a0%80x",
    "x=y", "map=", "map=graph/0/0/0/0/0*1", "map=graph.node[1].attribute[0].g",
]  # fmt: skip


def test_a_malformed_address_causes_no_script_error(digits):
    for address in MALFORMED_ADDRESSES:
        digits.driver.execute_script("document.getElementById('trouble').hidden = true")
        digits.open_address(address)
        time.sleep(0.2)
        texts = [element.text for element in digits.elements("#trouble:not([hidden])")]
        # The page may show a message, but no script error.
        assert not any(re.search(r"undefined|null|not a function|TypeError|Cannot", text) for text in texts), texts
    digits.driver.execute_script("document.getElementById('trouble').hidden = true")
    digits.open_address("map=graph/2")
    digits.wait_for_status("group features, closed")
    # The log lists refused requests as network errors, and script errors as "Uncaught".
    assert [entry for entry in digits.driver.get_log("browser") if "Uncaught" in entry["message"]] == []


def test_a_button_explains_the_colors(digits):
    digits.click("#map-legend summary")
    assert "activation" in digits.text("#map-legend ul")


def svg_texts(page, download_folder):
    """Save the map as SVG, and return its texts, each with its x and y."""
    for old_file in download_folder.glob("map*.svg"):
        old_file.unlink()
    page.click("#map-bar .small-button", "SVG")
    page.wait(lambda: any(path.stat().st_size for path in download_folder.glob("map*.svg")))
    root = ElementTree.parse(next(download_folder.glob("map*.svg"))).getroot()
    return [
        (element.text, float(element.get("x")), float(element.get("y")))
        for element in root.iter()
        if element.tag.endswith("}text")
    ]


def test_boxes_show_weights_with_their_shapes(digits, download_folder):
    digits.open_address("map=graph/2")
    digits.wait_for_status("group features")
    digits.press_on_map("ENTER")
    digits.wait_for_status("group features, open")
    texts = [text for text, _, _ in svg_texts(digits, download_folder)]
    assert {"W 16×1×3×3", "B 16", "W 32×16×3×3", "input_var 16"} <= set(texts)


def test_a_key_and_a_button_switch_the_direction_of_edges(digits, download_folder):
    def end_positions():
        """Return the positions of the input and the output of the graph, each as (x, y)."""
        positions = {text: (x, y) for text, x, y in svg_texts(digits, download_folder)}
        return positions["image"], positions["logits"]

    (x, y), (last_x, last_y) = end_positions()
    assert last_y > y and abs(last_x - x) < 1
    digits.open_address("map=graph.node[5]")
    digits.wait_for_status("node_conv2d_1")
    digits.press_on_map("h")
    button = "#map-direction[aria-pressed=true]"
    digits.element(button, "→")
    # The button changes before the map is drawn again.
    digits.wait(lambda: end_positions()[1][0] > end_positions()[0][0] + 500)
    (x, y), (last_x, last_y) = end_positions()
    assert last_x - x > abs(last_y - y)
    # The groups stay open, the node stays selected, and a reload keeps the direction.
    assert digits.box_count() == 6 + 7
    digits.driver.refresh()
    digits.wait_for_status("node Conv node_conv2d_1")
    digits.click(button, "→")
    digits.element("#map-direction[aria-pressed=false]", "↓")
    digits.wait(lambda: end_positions()[1][1] > end_positions()[0][1])


@pytest.fixture(scope="module")
def branches(tmp_path_factory):
    """Return the path of a model with a node and a group of 60 different branches, which is wider than the page."""
    ops = [f"Op{i}" for i in range(60)]
    nodes = [helper.make_node("Shape", ["x"], ["s"], name="Shape_0")]
    nodes += [helper.make_node(op, ["x", "s"], [f"h{op}"], f"/model/{op}/{op}", domain="d") for op in ops]
    nodes += [helper.make_node(op, [f"h{op}"], [f"g{op}"], f"/model/{op}/second", domain="d") for op in ops]
    nodes.append(helper.make_node("Concat", [f"g{op}" for op in ops], ["y"], "/model/Concat", axis=0))
    ends = [[helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["n", 3])] for name in "xy"]
    path = tmp_path_factory.mktemp("branches") / "branches.onnx"
    onnx.save(helper.make_model(helper.make_graph(nodes, "g", *ends)), path)
    return path


def test_a_single_group_is_open_at_the_start_at_a_legible_scale(open_map, branches):
    page = open_map(branches)
    assert page.box_count() == 4 + 121  # the input, Shape_0, the group, the output; the 121 nodes of the group
    assert float(page.element("#map-canvas").get_attribute("data-scale")) >= 0.62
    page.press_on_map("0")
    page.wait(lambda: float(page.element("#map-canvas").get_attribute("data-scale")) < 0.2)


def test_an_opened_group_is_beside_the_card(open_map, layers):
    page = open_map(layers)
    page.open_address("map=graph/1")
    page.wait_for_status("equal blocks")
    for key in ("ENTER", "f"):
        page.press_on_map(key)
        time.sleep(0.4)  # all animations have ended
        rectangle = page.element("#map-canvas").get_attribute("data-selected").split()
        card = page.element("#map-card").rect
        assert int(rectangle[0]) >= card["width"] + 12, (key, rectangle)


def test_labels_of_edges_do_not_overlap(open_map, download_folder, tmp_path):
    infos = [helper.make_tensor_value_info(f"v{i}", onnx.TensorProto.FLOAT, ["batch", 128, 7, 7]) for i in range(8)]
    nodes = [helper.make_node(f"Op{i}", ["x"], [f"v{i}"], f"n{i}", domain="d") for i in range(8)]
    nodes.append(helper.make_node("Sum", [f"v{i}" for i in range(8)], ["y"], "sum"))
    ends = [[helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["batch", 128, 7, 7])] for name in "xy"]
    onnx.save(helper.make_model(helper.make_graph(nodes, "g", *ends, value_info=infos)), tmp_path / "fan.onnx")
    page = open_map(tmp_path / "fan.onnx")
    label_positions = [(x, y) for text, x, y in svg_texts(page, download_folder) if text == "float[batch, 128, 7, 7]"]
    assert len(label_positions) > 8
    overlapping_pairs = [
        (a, b)
        for a in label_positions
        for b in label_positions
        if a < b and abs(a[0] - b[0]) < 90 and abs(a[1] - b[1]) < 10
    ]
    assert overlapping_pairs == []
