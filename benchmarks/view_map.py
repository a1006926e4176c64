"""The map of `onnxwire view` in headless Chromium, with a model of 100,000 nodes: `python -m benchmarks.view_map`.

Prints when the first picture is there after the address was opened, the server's time and memory, how long a group of
200 nodes takes to open, and what a frame of panning over 2,000 boxes takes. Needs selenium, Chromium and its driver.
Times of the browser say little on a machine that has other work; processor time of the server is told beside them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import onnx
from onnx import TensorProto, helper

LAYERS, WIDTH = 100, 1_000
OPERATORS = ["MatMul", "Add", "Relu", "Mul", "Sigmoid", "Sub", "Tanh"]
WAIT = "return document.getElementById('map-canvas')?.dataset.boxes"
PRESS = """
    const done = arguments[arguments.length - 1];
    const canvas = document.getElementById('map-canvas');
    const [began, before] = [performance.now(), canvas.dataset.boxes];
    canvas.dispatchEvent(new KeyboardEvent('keydown', { key: arguments[0] }));
    const look = () =>
      canvas.dataset.boxes === before ? requestAnimationFrame(look) : done(performance.now() - began);
    look();
"""
TYPE = "document.getElementById('map-canvas').dispatchEvent(new KeyboardEvent('keydown', { key: arguments[0] }))"
PAN = """
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


def write_model(path: Path) -> None:
    """Write 100 equal layers of five parts of 200 nodes each."""
    nodes, tensors = [], []
    for layer in range(LAYERS):
        for k in range(WIDTH):
            inputs = [f"h{layer}_{k}"]
            if k % 2 == 0:
                inputs.append(f"w{layer}_{k}")
                tensors.append(helper.make_tensor(inputs[1], TensorProto.FLOAT, [4, 4], bytes(64), raw=True))
            elif k % 16 == 1 and k > 16:
                inputs.append(f"h{layer}_{k - 11}")
            output = f"h{layer}_{k + 1}" if k < WIDTH - 1 else f"h{layer + 1}_0"
            # Parts differ, so that none is folded.
            op_type = OPERATORS[(k * k // 7 + k // 200) % 7]
            nodes.append(
                helper.make_node(op_type, inputs, [output], name=f"/layers.{layer}/part.{k // 200}/{op_type}_{k}")
            )
    onnx.save(helper.make_model(helper.make_graph(nodes, "g", [], [], initializer=tensors)), path)


def status(pid: int) -> tuple[float, float]:
    """The processor time of a process in seconds, and its anonymous memory in MB."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    memory = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("RssAnon"))
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"), int(memory.split()[1]) / 1024


def measure(path: Path) -> None:
    """Open the map of the model, and measure."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for flag in ("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1400,900"):
        options.add_argument(flag)
    command = [sys.executable, "-m", "onnxwire", "view", str(path), "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        driver = webdriver.Chrome(options, Service(shutil.which("chromedriver")))
        try:
            address = server.stdout.readline().strip()
            driver.get("about:blank")
            (cpu, memory), began = status(server.pid), time.perf_counter()
            driver.get(address)
            while not driver.execute_script(WAIT):
                time.sleep(0.01)
            first = time.perf_counter() - began
            now = status(server.pid)
            print(f"first picture: {first:.2f} s, {now[0] - cpu:.2f} s of the server's processor time")
            print(f"memory of the server: {now[1] - memory:.0f} MB more than before")
            time.sleep(3)
            driver.execute_script("location.hash = 'map=graph/0*50/0'")
            time.sleep(2)
            print(f"a group of 200 nodes: {driver.execute_async_script(PRESS, 'Enter'):.0f} ms")
            for layer in range(1, 10):
                driver.execute_script("location.hash = 'map=graph.node[' + arguments[0] + ']'", layer * 1000)
                time.sleep(0.5)
            driver.execute_script("location.hash = 'map=graph/0'")
            time.sleep(1)
            driver.execute_async_script(PRESS, "a")
            for layer in range(10):
                for part in range(2):
                    driver.execute_script("location.hash = arguments[0]", f"map=graph/0/{layer}/{part}")
                    time.sleep(0.4)
                    driver.execute_async_script(PRESS, "Enter")
            for name, key in (("all of them", "0"), ("near", "+")):
                driver.execute_script(TYPE, key)
                time.sleep(1)
                frame = driver.execute_async_script(PAN)
                print(f"panning {driver.execute_script(WAIT)} boxes, {name}: {frame:.1f} ms a frame (median)")
        finally:
            driver.quit()
            server.terminate()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "layers.onnx"
        write_model(model)
        measure(model)
