"""Layered graph layout: boxes in rows from top to bottom, edges with few crossings.

Source: Sugiyama, Tagawa, Toda: Methods for Visual Understanding of Hierarchical System Structures (1981). The steps:
assign rows by longest path, add a bend point where an edge passes a row, order each row to reduce crossings, then
place boxes close to their neighbours. On graphs of 200 boxes and 260 edges dagre 3.1.3 takes five times as long and
has a quarter more crossings; elkjs 0.12.1 takes four times as long, has a sixth more, and is 1.6 MB. On groups of a
transformer all three have almost no crossings (`benchmarks/layouts.py`).
"""

from __future__ import annotations

import heapq
import math
from bisect import bisect_left, bisect_right, insort
from dataclasses import dataclass
from itertools import accumulate, pairwise

_BEND_WIDTH = 14  # width in pixels of an edge that passes a row
_GAP_X = 22
ROW_GAP = 44
_MAX_BENDS = 6_000  # maximum number of bends of all edges together
_MAX_SWEEPS = 16  # maximum number of passes over all rows that reduce crossings
_MAX_COUNTED_EDGES = 4_000  # with more edges and bends, crossings are not counted


@dataclass
class Layout:
    """A drawing, in pixels from its upper left corner.

    x, y: the center of each box. rows: the row index of each box. spans: top and bottom of each row. bends: for each
    edge the x coordinates where it passes the rows between its ends, from its start to its end; empty for the
    longest edges if there are more than 6,000 bends.
    """

    x: list[float]
    y: list[float]
    rows: list[int]
    spans: list[tuple[float, float]]
    bends: list[list[float]]
    width: float
    height: float


def lay_out(sizes: list[tuple[float, float]], edges: list[tuple[int, int]], gap: float = ROW_GAP) -> Layout:
    """Lay out boxes and edges.

    sizes: width and height of each box, at least one. edges: pairs of the indices of two boxes, from and to. gap: the
    distance between rows, in pixels. All edges lead down, except edges that close a cycle.
    """
    rank = _ranks(len(sizes), edges)
    downward = [(start, end) if rank[start] < rank[end] else (end, start) for start, end in edges]
    of_box = _rows(len(sizes), downward, rank)
    rows: list[list[int]] = [[] for _ in range(max(of_box) + 1)]
    widths = [width for width, _ in sizes]
    for number in sorted(range(len(sizes)), key=rank.__getitem__):
        rows[of_box[number]].append(number)
    above: dict[int, list[int]] = {}
    below: dict[int, list[int]] = {}
    chains = []
    # The longest edges, if there are too many bends, are drawn as straight lines.
    order = sorted(range(len(edges)), key=lambda i: of_box[downward[i][1]] - of_box[downward[i][0]])
    lengths = accumulate(of_box[downward[i][1]] - of_box[downward[i][0]] for i in order)
    straight = {i for i, length in zip(order, lengths, strict=True) if length > _MAX_BENDS}
    for i, (start, end) in enumerate(downward):
        if i in straight:
            chains.append([start, end])
            continue
        chain = [start]
        for row in range(of_box[start] + 1, of_box[end]):
            chain.append(len(widths))
            rows[row].append(len(widths))
            widths.append(_BEND_WIDTH)
        chain.append(end)
        chains.append(chain)
        for a, b in pairwise(chain):
            below.setdefault(a, []).append(b)
            above.setdefault(b, []).append(a)
    rows = _uncross(rows, above, below)
    x = _spread_out(rows, widths, above, below)
    left = min(x[n] - widths[n] / 2 for n in range(len(widths)))
    heights = [max([0.0, *(sizes[n][1] for n in row if n < len(sizes))]) for row in rows]
    spans, top = [], 0.0
    for height in heights:
        spans.append((top, top + height))
        top += height + gap
    bends = [[round(x[n] - left, 1) for n in chain[1:-1]] for chain in chains]
    return Layout(
        x=[round(x[number] - left, 1) for number in range(len(sizes))],
        y=[sum(spans[row]) / 2 for row in of_box],
        rows=of_box,
        spans=spans,
        bends=[
            line if chain[0] == start else line[::-1]
            for line, chain, (start, _) in zip(bends, chains, edges, strict=True)
        ],
        width=round(max(x[n] + widths[n] / 2 for n in range(len(widths))) - left, 1),
        height=top - gap,
    )


def grid(sizes: list[tuple[float, float]]) -> Layout:
    """Lay out boxes without edges in a grid that is wider than high."""
    columns = max(math.isqrt(len(sizes) // 2), 1)
    width = max((width for width, _ in sizes), default=0) + _GAP_X
    height = max((height for _, height in sizes), default=0)
    rows = [number // columns for number in range(len(sizes))]
    count = -(-len(sizes) // columns)
    return Layout(
        x=[number % columns * width + (width - _GAP_X) / 2 for number in range(len(sizes))],
        y=[row * (height + _GAP_X) + height / 2 for row in rows],
        rows=rows,
        spans=[(row * (height + _GAP_X), row * (height + _GAP_X) + height) for row in range(count)],
        bends=[],
        width=columns * width - _GAP_X,
        height=count * (height + _GAP_X) - _GAP_X,
    )


def _ranks(count: int, edges: list[tuple[int, int]]) -> list[int]:
    """Return a topological order, stable by index; edges that close a cycle lead backwards in it."""
    waiting = [0] * count
    targets: list[list[int]] = [[] for _ in range(count)]
    for start, end in edges:
        if start != end:
            waiting[end] += 1
            targets[start].append(end)
    ready = [number for number in range(count) if not waiting[number]]
    rank = [-1] * count
    first, placed = 0, 0
    while placed < count:
        if not ready:
            # The remaining boxes are in or behind cycles: continue with the first.
            while rank[first] >= 0:
                first += 1
            ready.append(first)
        number = heapq.heappop(ready)
        if rank[number] >= 0:
            continue
        rank[number] = placed
        placed += 1
        for target in targets[number]:
            waiting[target] -= 1
            if not waiting[target] and rank[target] < 0:
                heapq.heappush(ready, target)
    return rank


def _rows(count: int, edges: list[tuple[int, int]], rank: list[int]) -> list[int]:
    """Return the row of each box, below its sources: from above or from below, whichever has the shorter edges."""
    early = _drop(count, edges, rank)
    late = _drop(count, [(end, start) for start, end in edges], [-number for number in rank])
    bottom = max(late)
    late = [bottom - row for row in late]
    return min(early, late, key=lambda rows: sum(rows[end] - rows[start] for start, end in edges))


def _drop(count: int, edges: list[tuple[int, int]], rank: list[int]) -> list[int]:
    """Return the highest row of each box; or, if that makes no edges longer, the row just above its targets."""
    rows, entering = [0] * count, [0] * count
    targets: list[list[int]] = [[] for _ in range(count)]
    for start, end in edges:
        if start != end:
            targets[start].append(end)
            entering[end] += 1
    order = sorted(range(count), key=rank.__getitem__)
    for number in order:
        for end in targets[number]:
            rows[end] = max(rows[end], rows[number] + 1)
    for number in reversed(order):
        if targets[number] and len(targets[number]) >= entering[number]:
            rows[number] = min(rows[end] for end in targets[number]) - 1
    return rows


def _uncross(rows: list[list[int]], above: dict[int, list[int]], below: dict[int, list[int]]) -> list[list[int]]:
    """Order each row by sweeps down and up; return the order with the fewest crossings."""
    best, least = rows, -1
    is_counted = sum(map(len, below.values())) <= _MAX_COUNTED_EDGES
    for sweep in range(_MAX_SWEEPS if is_counted else _MAX_SWEEPS // 2):
        _order(rows, above if sweep % 2 == 0 else below, sweep % 2 == 0, sweep % 4 >= 2)
        if is_counted:
            _swap(rows, above, below)
            crossings = sum(_crossings(row, after, below) for row, after in pairwise(rows))
            if least < 0 or crossings < least:
                best, least = [list(row) for row in rows], crossings
            if least == 0:
                break
    return best if is_counted else rows


def _crossings(row: list[int], after: list[int], below: dict[int, list[int]]) -> int:
    """Count the crossings of the edges between two rows."""
    position = {number: i for i, number in enumerate(after)}
    ends: list[int] = []
    crossings = 0
    for number in row:
        mine = sorted(position[other] for other in below.get(number, ()))
        crossings += sum(len(ends) - bisect_right(ends, end) for end in mine)
        for end in mine:
            insort(ends, end)
    return crossings


def _order(rows: list[list[int]], neighbours: dict[int, list[int]], downwards: bool, last_first: bool) -> None:
    """Sort each row by the mean position of the neighbours in the row before it.

    last_first: reverse boxes with equal means, so that sweeps do not repeat one result.
    """
    for i in range(1, len(rows)) if downwards else range(len(rows) - 2, -1, -1):
        before = rows[i - 1] if downwards else rows[i + 1]
        positions = {number: position / max(len(before) - 1, 1) for position, number in enumerate(before)}

        def mean(number: int, own: float, positions: dict[int, float] = positions) -> float:
            near = [positions[other] for other in neighbours.get(number, ()) if other in positions]
            return sum(near) / len(near) if near else own

        row = rows[i]
        keys = {number: mean(number, position / max(len(row) - 1, 1)) for position, number in enumerate(row)}
        if last_first:
            row.reverse()
        row.sort(key=keys.__getitem__)


def _swap(rows: list[list[int]], above: dict[int, list[int]], below: dict[int, list[int]]) -> None:
    """Swap neighbours within a row if that reduces crossings."""
    position = {number: i for row in rows for i, number in enumerate(row)}
    for row in rows:
        for i in range(len(row) - 1):
            first, second = row[i], row[i + 1]
            gain = 0
            for neighbours in (above, below):
                ends = sorted(position[number] for number in neighbours.get(second, ()))
                for number in neighbours.get(first, ()):
                    at = position[number]
                    gain += bisect_left(ends, at) - len(ends) + bisect_right(ends, at)
            if gain > 0:
                row[i], row[i + 1] = second, first
                position[first], position[second] = i + 1, i


def _spread_out(
    rows: list[list[int]], widths: list[float], above: dict[int, list[int]], below: dict[int, list[int]]
) -> list[float]:
    """Return the x coordinates of the centers of all boxes and bends: close to their neighbours, without overlap."""
    x = [0.0] * len(widths)
    for row in rows:
        total = sum(widths[n] for n in row) + _GAP_X * (len(row) - 1)
        edge = -total / 2
        for number in row:
            x[number] = edge + widths[number] / 2
            edge += widths[number] + _GAP_X
    # Use the rows above and below in turn: with both at once, neighbours of different degrees drift without end.
    for sweep in range(8):
        is_down = sweep % 2 == 0
        neighbours = above if is_down else below
        for row in rows if is_down else rows[::-1]:
            wanted = []
            for number in row:
                near = neighbours.get(number)
                wanted.append(sum(x[n] for n in near) / len(near) if near else x[number])
            for number, middle in zip(row, _apart(row, wanted, widths), strict=True):
                x[number] = middle
    return x


def _apart(row: list[int], wanted: list[float], widths: list[float]) -> list[float]:
    """Return the positions nearest to the wanted ones, by least squares, without overlap.

    After the widths are subtracted this is isotonic regression: neighbours in the wrong order are pooled at their
    mean (Ayer et al. 1955).
    """
    offsets = [0.0] * len(row)
    for i in range(1, len(row)):
        offsets[i] = offsets[i - 1] + (widths[row[i - 1]] + widths[row[i]]) / 2 + _GAP_X
    pools: list[tuple[float, int]] = []  # the sum of the wanted positions, and their number
    for want, offset in zip(wanted, offsets, strict=True):
        total, count = want - offset, 1
        while pools and pools[-1][0] * count >= total * pools[-1][1]:
            last, of_last = pools.pop()
            total, count = total + last, count + of_last
        pools.append((total, count))
    means = [total / count for total, count in pools for _ in range(count)]
    return [mean + offset for mean, offset in zip(means, offsets, strict=True)]
