"""Measure the map of `onnxwire view` in headless Chromium.

    python -m benchmarks.view_map [--nodes N ...] [--wait SECONDS]

For each number of nodes, print the time from opening the address to the first picture, and the server's
processor time and memory. If the package netron is installed, print the time that Netron takes to draw the same model,
up to `--wait`. For the last model, print the times to open a block (one of the equal layers), to go to the next block,
to close a block and to open a group of 200 nodes, and the time per frame while panning over 2,000 boxes. Needs onnx,
selenium, Chromium and its driver. Times in the browser are unreliable on a busy machine; the processor time of the
server is printed too.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onnx
from onnx import TensorProto, helper

NODES_PER_LAYER = 1_000
OPERATORS = ["MatMul", "Add", "Relu", "Mul", "Sigmoid", "Sub", "Tanh"]
BOX_COUNT_SCRIPT = "return document.getElementById('map-canvas')?.dataset.boxes"
# Stores in window.firstPicture the milliseconds from the start of the navigation to the first picture of the map. Times
# are measured in the page, because a call of the driver takes as long as some of the measured steps.
FIRST_PICTURE_SCRIPT = """
    const poll = () =>
      document.getElementById('map-canvas')?.dataset.boxes
        ? (window.firstPicture = performance.now())
        : requestAnimationFrame(poll);
    requestAnimationFrame(poll);
"""
# Confirms a dialog of Netron if one is open. Returns the text of the dialog or "", and the number of drawn nodes or
# false; null while the page is loading.
NETRON_SCRIPT = """
    if (document.readyState !== 'complete') return null;
    const text = document.body.className.includes('notification') || document.body.className.includes('alert')
      ? document.querySelector('#message-text').textContent : '';
    if (text) document.querySelector('#message-button').click();
    return [text, document.body.className.includes('default') && document.querySelectorAll('g.graph-node').length];
"""
# Presses a key, which is the script's argument, and returns the milliseconds until the map changes.
PRESS_KEY_SCRIPT = """
    const done = arguments[arguments.length - 1];
    const canvas = document.getElementById('map-canvas');
    const content = () => canvas.dataset.boxes + document.getElementById('map-card').textContent;
    const [startTime, oldContent] = [performance.now(), content()];
    canvas.dispatchEvent(new KeyboardEvent('keydown', { key: arguments[0] }));
    const poll = () =>
      content() === oldContent ? requestAnimationFrame(poll) : done(performance.now() - startTime);
    poll();
"""
# Presses a key, which is the script's argument, and does not wait.
SEND_KEY_SCRIPT = (
    "document.getElementById('map-canvas').dispatchEvent(new KeyboardEvent('keydown', { key: arguments[0] }))"
)
# Moves the map for 200 frames. Returns the median time of the last 190 frames in milliseconds. setPointerCapture is
# replaced, because it fails for the events of a script.
PAN_SCRIPT = """
    const done = arguments[arguments.length - 1];
    const canvas = document.getElementById('map-canvas');
    const move = (kind, x, y) =>
      canvas.dispatchEvent(new PointerEvent(kind, { pointerId: 1, clientX: x, clientY: y, buttons: 1 }));
    canvas.setPointerCapture = () => {};
    move('pointerdown', 800, 500);
    const times = [];
    let last = performance.now();
    const step = (now) => {
      times.push(now - last);
      last = now;
      const i = times.length;
      move('pointermove', 800 + 60 * Math.sin(i / 9), 500 + 60 * Math.cos(i / 9));
      if (i < 200) return requestAnimationFrame(step);
      move('pointerup', 800, 500);
      return done(times.slice(10).sort((a, b) => a - b)[95]);
    };
    requestAnimationFrame(step);
"""


def write_model(path: Path, n_layers: int) -> None:
    """Write a model of equal layers, which have five parts of 200 nodes each."""
    nodes, tensors = [], []
    for layer in range(n_layers):
        for k in range(NODES_PER_LAYER):
            inputs = [f"h{layer}_{k}"]
            if k % 2 == 0:
                inputs.append(f"w{layer}_{k}")
                tensors.append(helper.make_tensor(inputs[1], TensorProto.FLOAT, [4, 4], bytes(64), raw=True))
            elif k % 16 == 1 and k > 16:  # every 16th node also reads an earlier value
                inputs.append(f"h{layer}_{k - 11}")
            output = f"h{layer}_{k + 1}" if k < NODES_PER_LAYER - 1 else f"h{layer + 1}_0"
            # The parts of a layer differ, so that the map does not draw them as one box.
            op_type = OPERATORS[(k * k // 7 + k // 200) % 7]
            nodes.append(
                helper.make_node(op_type, inputs, [output], name=f"/layers.{layer}/part.{k // 200}/{op_type}_{k}")
            )
    onnx.save(helper.make_model(helper.make_graph(nodes, "g", [], [], initializer=tensors)), path)


def process_status(pid: int) -> tuple[float, float]:
    """Return the CPU time of a process in seconds, and its anonymous memory in MB."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    user_ticks, system_ticks = map(int, fields[11:13])
    memory = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("RssAnon"))
    return (user_ticks + system_ticks) / os.sysconf("SC_CLK_TCK"), int(memory.split()[1]) * 1024 / 1e6


@contextlib.contextmanager
def browser() -> Iterator[Any]:
    """Start a browser that can connect only to this machine."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    # Do not wait for requests to other hosts, which fail.
    options.page_load_strategy = "none"
    for flag in ("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1400,900"):
        options.add_argument(flag)
    options.add_argument("--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE localhost, EXCLUDE 127.0.0.1")
    driver = webdriver.Chrome(options, Service(shutil.which("chromedriver")))
    try:
        yield driver
    finally:
        driver.quit()


def wait_for(driver: Any, script: str) -> Any:
    """Run a script until its result is true. Return the result."""
    while not (result := driver.execute_script(script)):
        time.sleep(0.01)
    return result


@contextlib.contextmanager
def open_map(driver: Any, path: Path) -> Iterator[int]:
    """Open the map of a model. Yield the server's process id.

    Prints the time to the first picture, and the server's processor time and memory.
    """
    command = [sys.executable, "-m", "onnxwire", "view", str(path), "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        try:
            address = server.stdout.readline().strip()
            driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": FIRST_PICTURE_SCRIPT})
            cpu_seconds, megabytes = process_status(server.pid)
            driver.get(address)
            first_picture_ms = wait_for(driver, "return window.firstPicture")
            status_now = process_status(server.pid)
            print(
                f"first picture: {first_picture_ms / 1000:.2f} s, "
                f"{status_now[0] - cpu_seconds:.2f} s of the server's processor time"
            )
            print(f"memory of the server: {status_now[1] - megabytes:.0f} MB more than before the page was opened")
            yield server.pid
        finally:
            server.terminate()


def measure_steps(driver: Any, pid: int) -> None:
    """Print the times to open and close blocks, to go to the next block, to open groups, and per frame while panning.

    pid: the server's process id.
    """

    def show_on_map(target: str, wait: float = 1) -> None:
        """Select a group or node on the map; this opens the groups around it. wait: seconds to wait afterwards.

        target: the path of a node, or the name of a group. "graph/0*5/1" is group 1 in the sixth of several equal
        groups, which are group 0 of the graph; "graph/0/5/1" is the same group while the equal groups are shown apart.
        """
        driver.execute_script("location.hash = 'map=' + arguments[0]", target)
        time.sleep(wait)

    def press(key: str) -> tuple[float, float]:
        """Press a key. Return the time until the map changes and the server's processor time, in milliseconds."""
        cpu_seconds = process_status(pid)[0]
        return driver.execute_async_script(PRESS_KEY_SCRIPT, key), (process_status(pid)[0] - cpu_seconds) * 1000

    def report(action: str, steps: list[tuple[float, float]]) -> None:
        """Print a line about an action. steps: the results of `press`."""
        times, cpu_times = zip(*steps, strict=True)
        print(
            f"{action}: {statistics.median(times):.0f} ms (median of {len(steps)}), longest {max(times):.0f} ms, "
            f"{sum(cpu_times) / len(cpu_times):.0f} ms of the server's processor time on average"
        )

    show_on_map("graph/0")
    opening_steps, closing_steps, moving_steps = [], [], []
    for _ in range(10):
        opening_steps.append(press("Enter"))
        time.sleep(0.3)
        moving_steps.append(press("]"))
        time.sleep(0.3)
        closing_steps.append(press("Enter"))
        time.sleep(0.3)
    report("a block opens", opening_steps)
    report("the next block", moving_steps)
    report("a block closes", closing_steps)
    group_steps = []
    for block in range(50, 55):
        show_on_map(f"graph/0*{block}/0")
        group_steps.append(press("Enter"))
        time.sleep(0.3)
    report("a group of 200 nodes opens", group_steps)
    # Open groups with about 2,000 boxes for the measurement of panning.
    for layer in range(1, 10):
        show_on_map(f"graph.node[{layer * NODES_PER_LAYER}]", 0.5)
    show_on_map("graph/0")
    press("a")  # shows all equal layers
    for layer in range(10):
        for part in range(2):
            show_on_map(f"graph/0/{layer}/{part}", 0.4)
            press("Enter")
    for name, key in (("the whole map in view", "0"), ("enlarged by one step", "+")):
        driver.execute_script(SEND_KEY_SCRIPT, key)
        time.sleep(1)
        frame = driver.execute_async_script(PAN_SCRIPT)
        print(f"panning {driver.execute_script(BOX_COUNT_SCRIPT)} boxes, {name}: {frame:.1f} ms a frame (median)")


def measure_netron(driver: Any, path: Path, wait: float) -> None:
    """Print the time that Netron takes to draw the model, from the confirmation of its last dialog if it shows one."""
    command = [sys.executable, "-c", "import netron; netron.main()", str(path), "--host", "127.0.0.1"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        try:
            driver.get(server.stderr.readline().split()[-1])
            start_seconds, count = time.perf_counter(), 0
            while not count and time.perf_counter() - start_seconds < wait:
                time.sleep(0.05)
                dialog_text, count = driver.execute_script(NETRON_SCRIPT) or ("", 0)
                if dialog_text:  # dialogs: consent, and confirmation to draw a large graph
                    start_seconds = time.perf_counter()
            seconds = time.perf_counter() - start_seconds
            print(f"Netron: {seconds:.2f} s, {count} boxes" if count else f"Netron: not done after {seconds:.0f} s")
        finally:
            server.terminate()


def main() -> None:
    """Measure models with the numbers of nodes given on the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.view_map", description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--nodes",
        type=int,
        nargs="+",
        default=[1_000, 5_000, 100_000],
        help="numbers of nodes, multiples of 1,000; the last at least 55,000",
    )
    parser.add_argument("--wait", type=float, default=60, help="seconds to wait for Netron per model")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for n_nodes in options.nodes:
            path = Path(folder) / f"{n_nodes}.onnx"
            write_model(path, n_nodes // NODES_PER_LAYER)
            print(f"{n_nodes:,} nodes")
            with browser() as driver, open_map(driver, path) as pid:
                if n_nodes == options.nodes[-1]:
                    measure_steps(driver, pid)
            if importlib.util.find_spec("netron"):
                with browser() as driver:
                    measure_netron(driver, path, options.wait)


if __name__ == "__main__":
    main()
