"""Compare the layout of the map with dagre and elkjs on the same graphs: `python -m benchmarks.layouts NPM_FOLDER`.

NPM_FOLDER is the folder in which `npm install @dagrejs/dagre elkjs` was run. The benchmark prints processor times and
numbers of crossings for random graphs of 200 boxes and 260 edges and for the groups of a small transformer. dagre and
elkjs run in Node, which lays out each graph twice. The second time, when the code is compiled, is measured.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

import onnxwire
from benchmarks.data import FOLDER, make_once, write_decoder
from onnxwire.viewer.graph_layout import Layout, lay_out
from onnxwire.viewer.graph_map import ModelMap

Graph = dict[str, list[Any]]
"""A graph: `sizes`, the width and height of each box, and `edges`, pairs of indices of boxes."""
Line = list[tuple[float, float]]
"""The points of a line, each as (x, y)."""


def random_graphs() -> Iterator[Graph]:
    """Yield ten graphs in which most edges lead to a near box and some to a distant box."""
    for seed in range(10):
        rng = random.Random(seed)
        edges = {(i, min(i + rng.randint(1, 8), 199)) for i in range(199)}
        while len(edges) < 260:
            start = rng.randrange(190)
            edges.add((start, rng.randint(start + 1, min(start + 40, 199))))
        yield {"sizes": [(172.0, 42.0)] * 200, "edges": sorted(edges)}


def groups_of(path: Path) -> Iterator[Graph]:
    """Yield the groups of a model as the graphs that the map draws: only groups with edges, and repeated ones once."""
    model_map = ModelMap(onnxwire.load(path))
    names = ["graph"]
    for name in names:
        contents = model_map.contents(name)
        if contents["edges"]:
            yield {
                "sizes": [(box["width"], box["height"]) for box in contents["boxes"]],
                "edges": [(edge["from"], edge["to"]) for edge in contents["edges"]],
            }
        for box in contents["boxes"]:
            if box["number"] is not None and (box["kind"] != "node" or box["opens"]):
                # The suffix *0 names the first of several equal groups.
                names.append(f"{name}/{box['number']}" + ("*0" if box.get("times") else ""))


def lines_of(graph: Graph, layout: Layout) -> list[Line]:
    """Return the line of each edge: its points, from box to box. Lines are vertical in the rows between their boxes."""
    lines = []
    for (start, end), bends in zip(graph["edges"], layout.bends, strict=True):
        step = 1 if layout.rows[end] > layout.rows[start] else -1
        line: Line = [(layout.x[start], layout.y[start] + step * graph["sizes"][start][1] / 2)]
        for i, x in enumerate(bends, 1):
            line += [(x, y) for y in layout.spans[layout.rows[start] + step * i][::step]]
        lines.append([*line, (layout.x[end], layout.y[end] - step * graph["sizes"][end][1] / 2)])
    return lines


def count_crossings(graph: Graph, lines: list[Line]) -> int:
    """Return the number of crossings of lines.

    Crossings of two lines that start at the same box or end at the same box are not counted.
    """
    # A row per segment of a line: x and y of its first end, x and y of its second end, and the boxes of its edge.
    segments = [(*a, *b, *edge) for line, edge in zip(lines, graph["edges"], strict=True) for a, b in pairwise(line)]
    x0, y0, x1, y1, start, end = np.array(segments).T[:, :, None]

    def side(x: Any, y: Any) -> Any:
        """Return the side of each segment on which each point is: -1, 0 or 1."""
        return np.sign((x1 - x0) * (y - y0) - (y1 - y0) * (x - x0))

    crosses = side(x0.T, y0.T) * side(x1.T, y1.T) < 0
    have_different_boxes = (start != start.T) & (end != end.T)
    return int((crosses & crosses.T & have_different_boxes).sum()) // 2  # each pair is in the matrix twice


def main(npm_folder: str) -> None:
    """Measure the layouts of random graphs and of groups of a model."""
    decoder = FOLDER / "layouts.onnx"
    make_once(
        decoder,
        lambda path: write_decoder(path, layers=4, hidden=64, intermediate=160, vocab=512, heads=4, fill="zero"),
    )
    script = Path(__file__).with_suffix(".mjs").read_text()
    for title, graphs in {
        "random graphs": list(random_graphs()),
        "groups of a model": list(groups_of(decoder)),
    }.items():
        start_seconds = time.process_time()
        layouts = [lay_out(graph["sizes"], graph["edges"]) for graph in graphs]
        seconds = {"onnxwire": time.process_time() - start_seconds}
        lines = {"onnxwire": [lines_of(graph, layout) for graph, layout in zip(graphs, layouts, strict=True)]}
        command = ["node", "--input-type=module", "-e", script]
        process = subprocess.run(
            command, input=json.dumps(graphs), stdout=subprocess.PIPE, text=True, cwd=npm_folder, check=True
        )
        for name, result in json.loads(process.stdout).items():
            seconds[name], lines[name] = result["seconds"], result["lines"]
        print(f"{len(graphs)} {title}, {sum(len(graph['edges']) for graph in graphs)} edges")
        for name, lines_by_graph in lines.items():
            count = sum(
                count_crossings(graph, graph_lines) for graph, graph_lines in zip(graphs, lines_by_graph, strict=True)
            )
            print(f"  {name}: {seconds[name] * 1000:.0f} ms, {count} crossings")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
