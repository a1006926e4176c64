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
_COLUMN_GAP = 22  # distance in pixels between the boxes of a row, and between the rows of a grid
ROW_GAP = 44  # distance in pixels between rows
# Maximum sum of the lengths of edges, in rows; beyond it, the longest edges are drawn as straight lines.
_MAX_TOTAL_LENGTH = 6_000
_MAX_SWEEPS = 16  # maximum number of passes over all rows that reduce crossings
_MAX_COUNTED_EDGES = 4_000  # with more edges and bends, crossings are not counted
_PLACEMENT_SWEEPS = 8  # number of passes over all rows that place boxes


@dataclass
class Layout:
    """A drawing, in pixels from its upper left corner.

    x, y: the center of each box. rows: the row index of each box. spans: top and bottom of each row. bends: for each
    edge the x coordinates where it passes the rows between its ends, from its start to its end; empty for the
    longest edges if the lengths of all edges, in rows, add up to more than 6,000. width, height: the size of the
    drawing.
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

    sizes: width and height of each box; there is at least one box. edges: pairs of the indices of two boxes, from and
    to. gap: the distance between rows, in pixels. All edges lead down, except edges that close a cycle.
    """
    rank = _order_topologically(len(sizes), edges)
    downward_edges = [(start, end) if rank[start] < rank[end] else (end, start) for start, end in edges]
    row_of_box = _choose_rows(len(sizes), downward_edges, rank)
    rows: list[list[int]] = [[] for _ in range(max(row_of_box) + 1)]
    widths = [width for width, _ in sizes]
    for box in sorted(range(len(sizes)), key=rank.__getitem__):
        rows[row_of_box[box]].append(box)
    # The neighbours of each box in the rows above and below it. Bends are boxes, too, numbered after the given boxes.
    above: dict[int, list[int]] = {}
    below: dict[int, list[int]] = {}
    chains = []  # the boxes and bends of each edge, from the upper end to the lower end
    lengths = [row_of_box[end] - row_of_box[start] for start, end in downward_edges]
    edges_by_length = sorted(range(len(edges)), key=lengths.__getitem__)
    total_lengths = accumulate(lengths[i] for i in edges_by_length)
    straight_edges = {i for i, total in zip(edges_by_length, total_lengths, strict=True) if total > _MAX_TOTAL_LENGTH}
    for i, (start, end) in enumerate(downward_edges):
        if i in straight_edges:
            chains.append([start, end])
            continue
        chain = [start]
        for row in range(row_of_box[start] + 1, row_of_box[end]):
            chain.append(len(widths))
            rows[row].append(len(widths))
            widths.append(_BEND_WIDTH)
        chain.append(end)
        chains.append(chain)
        for upper, lower in pairwise(chain):
            below.setdefault(upper, []).append(lower)
            above.setdefault(lower, []).append(upper)
    rows = _reduce_crossings(rows, above, below)
    x = _place_boxes(rows, widths, above, below)
    min_x = min(x[box] - widths[box] / 2 for box in range(len(widths)))
    heights = [max([0.0, *(sizes[box][1] for box in row if box < len(sizes))]) for row in rows]
    spans, top = [], 0.0
    for height in heights:
        spans.append((top, top + height))
        top += height + gap
    bends = [[round(x[box] - min_x, 1) for box in chain[1:-1]] for chain in chains]
    return Layout(
        x=[round(x[box] - min_x, 1) for box in range(len(sizes))],
        y=[sum(spans[row]) / 2 for row in row_of_box],
        rows=row_of_box,
        spans=spans,
        bends=[
            line if chain[0] == start else line[::-1]
            for line, chain, (start, _) in zip(bends, chains, edges, strict=True)
        ],
        width=round(max(x[box] + widths[box] / 2 for box in range(len(widths))) - min_x, 1),
        height=top - gap,
    )


def lay_out_grid(sizes: list[tuple[float, float]]) -> Layout:
    """Lay out boxes without edges in rows and columns. sizes: width and height of each box."""
    columns = max(math.isqrt(len(sizes) // 2), 1)
    width = max((width for width, _ in sizes), default=0) + _COLUMN_GAP
    height = max((height for _, height in sizes), default=0)
    rows = [box // columns for box in range(len(sizes))]
    count = -(-len(sizes) // columns)
    return Layout(
        x=[box % columns * width + (width - _COLUMN_GAP) / 2 for box in range(len(sizes))],
        y=[row * (height + _COLUMN_GAP) + height / 2 for row in rows],
        rows=rows,
        spans=[(row * (height + _COLUMN_GAP), row * (height + _COLUMN_GAP) + height) for row in range(count)],
        bends=[],
        width=columns * width - _COLUMN_GAP,
        height=count * (height + _COLUMN_GAP) - _COLUMN_GAP,
    )


def _order_topologically(count: int, edges: list[tuple[int, int]]) -> list[int]:
    """Return the rank of each box in a topological order; edges that close a cycle lead backwards.

    Of several boxes that may be next, the one with the lowest index is next.
    """
    n_sources = [0] * count
    targets: list[list[int]] = [[] for _ in range(count)]
    for start, end in edges:
        if start != end:
            n_sources[end] += 1
            targets[start].append(end)
    ready_boxes = [box for box in range(count) if not n_sources[box]]
    rank = [-1] * count
    next_box, n_placed = 0, 0
    while n_placed < count:
        if not ready_boxes:
            # Each remaining box is in a cycle or reachable from a cycle: continue with the first.
            while rank[next_box] >= 0:
                next_box += 1
            ready_boxes.append(next_box)
        box = heapq.heappop(ready_boxes)
        if rank[box] >= 0:
            continue
        rank[box] = n_placed
        n_placed += 1
        for target in targets[box]:
            n_sources[target] -= 1
            if not n_sources[target] and rank[target] < 0:
                heapq.heappush(ready_boxes, target)
    return rank


def _choose_rows(count: int, edges: list[tuple[int, int]], rank: list[int]) -> list[int]:
    """Return the row of each box: of two assignments, from the top and from the bottom, the one with shorter edges."""
    rows_from_above = _assign_rows(count, edges, rank)
    rows_from_below = _assign_rows(count, [(end, start) for start, end in edges], [-number for number in rank])
    bottom = max(rows_from_below)
    rows_from_below = [bottom - row for row in rows_from_below]
    return min(rows_from_above, rows_from_below, key=lambda rows: sum(rows[end] - rows[start] for start, end in edges))


def _assign_rows(count: int, edges: list[tuple[int, int]], rank: list[int]) -> list[int]:
    """Return the row of each box: the row above its highest target if it has at least as many targets as sources.

    Otherwise, and without targets, the row is the first row below its sources.
    """
    rows, n_sources = [0] * count, [0] * count
    targets: list[list[int]] = [[] for _ in range(count)]
    for start, end in edges:
        if start != end:
            targets[start].append(end)
            n_sources[end] += 1
    order = sorted(range(count), key=rank.__getitem__)
    for box in order:
        for end in targets[box]:
            rows[end] = max(rows[end], rows[box] + 1)
    for box in reversed(order):
        if targets[box] and len(targets[box]) >= n_sources[box]:
            rows[box] = min(rows[end] for end in targets[box]) - 1
    return rows


def _reduce_crossings(
    rows: list[list[int]], above: dict[int, list[int]], below: dict[int, list[int]]
) -> list[list[int]]:
    """Order each row by sweeps down and up.

    Returns the order with the fewest crossings, or the last order if there are too many edges to count crossings.
    """
    best_rows, min_crossings = rows, -1
    counts_crossings = sum(map(len, below.values())) <= _MAX_COUNTED_EDGES
    for sweep in range(_MAX_SWEEPS if counts_crossings else _MAX_SWEEPS // 2):
        # Sweeps alternate between down and up; every second pair of sweeps reverses ties.
        _sort_row_by_row(rows, above if sweep % 2 == 0 else below, sweep % 2 == 0, sweep % 4 >= 2)
        if counts_crossings:
            _swap_adjacent_boxes(rows, above, below)
            crossings = sum(_count_crossings(row, next_row, below) for row, next_row in pairwise(rows))
            if min_crossings < 0 or crossings < min_crossings:
                best_rows, min_crossings = [list(row) for row in rows], crossings
            if min_crossings == 0:
                break
    return best_rows if counts_crossings else rows


def _count_crossings(row: list[int], next_row: list[int], below: dict[int, list[int]]) -> int:
    """Count the crossings of the edges between two rows."""
    position = {box: i for i, box in enumerate(next_row)}
    ends: list[int] = []
    crossings = 0
    for box in row:
        own_ends = sorted(position[neighbour] for neighbour in below.get(box, ()))
        crossings += sum(len(ends) - bisect_right(ends, end) for end in own_ends)
        for end in own_ends:
            insort(ends, end)
    return crossings


def _sort_row_by_row(
    rows: list[list[int]], neighbours: dict[int, list[int]], is_down: bool, reverses_ties: bool
) -> None:
    """Sort each row by the mean position of the neighbours in the row before it.

    is_down: whether the row before is the row above, and not the row below. neighbours: of each box, in that direction.
    reverses_ties: reverse boxes with equal means, so that sweeps do not repeat one result.
    """
    for i in range(1, len(rows)) if is_down else range(len(rows) - 2, -1, -1):
        adjacent_row = rows[i - 1] if is_down else rows[i + 1]
        positions = {box: position / max(len(adjacent_row) - 1, 1) for position, box in enumerate(adjacent_row)}

        def mean_position(box: int, own_position: float, positions: dict[int, float] = positions) -> float:
            neighbour_positions = [
                positions[neighbour] for neighbour in neighbours.get(box, ()) if neighbour in positions
            ]
            return sum(neighbour_positions) / len(neighbour_positions) if neighbour_positions else own_position

        row = rows[i]
        keys = {box: mean_position(box, position / max(len(row) - 1, 1)) for position, box in enumerate(row)}
        if reverses_ties:
            row.reverse()
        row.sort(key=keys.__getitem__)


def _swap_adjacent_boxes(rows: list[list[int]], above: dict[int, list[int]], below: dict[int, list[int]]) -> None:
    """Swap adjacent boxes of a row if that reduces crossings."""
    position = {box: i for row in rows for i, box in enumerate(row)}
    for row in rows:
        for i in range(len(row) - 1):
            left_box, right_box = row[i], row[i + 1]
            gain = 0
            for neighbours in (above, below):
                ends = sorted(position[box] for box in neighbours.get(right_box, ()))
                for box in neighbours.get(left_box, ()):
                    end = position[box]
                    # The crossings before the swap, minus those after the swap.
                    gain += bisect_left(ends, end) - len(ends) + bisect_right(ends, end)
            if gain > 0:
                row[i], row[i + 1] = right_box, left_box
                position[left_box], position[right_box] = i + 1, i


def _place_boxes(
    rows: list[list[int]], widths: list[float], above: dict[int, list[int]], below: dict[int, list[int]]
) -> list[float]:
    """Return the x coordinates of the centers of all boxes and bends: close to their neighbours, without overlap."""
    x = [0.0] * len(widths)
    for row in rows:
        total = sum(widths[box] for box in row) + _COLUMN_GAP * (len(row) - 1)
        left_x = -total / 2
        for box in row:
            x[box] = left_x + widths[box] / 2
            left_x += widths[box] + _COLUMN_GAP
    # Use the rows above and below in turn: with both at once, neighbours of different degrees would drift endlessly.
    for sweep in range(_PLACEMENT_SWEEPS):
        is_down = sweep % 2 == 0
        neighbours = above if is_down else below
        for row in rows if is_down else rows[::-1]:
            ideal_positions = []
            for box in row:
                box_neighbours = neighbours.get(box)
                ideal_positions.append(
                    sum(x[neighbour] for neighbour in box_neighbours) / len(box_neighbours)
                    if box_neighbours
                    else x[box]
                )
            for box, center in zip(row, _resolve_overlaps(row, ideal_positions, widths), strict=True):
                x[box] = center
    return x


def _resolve_overlaps(row: list[int], ideal_positions: list[float], widths: list[float]) -> list[float]:
    """Return the positions without overlap that are nearest to the ideal positions, by least squares.

    After the widths are subtracted this is isotonic regression: neighbours in the wrong order are pooled at their
    mean (Ayer et al. 1955).
    """
    offsets = [0.0] * len(row)
    for i in range(1, len(row)):
        offsets[i] = offsets[i - 1] + (widths[row[i - 1]] + widths[row[i]]) / 2 + _COLUMN_GAP
    pools: list[tuple[float, int]] = []  # per pool: the sum of the ideal positions minus offsets, the number of boxes
    for ideal_position, offset in zip(ideal_positions, offsets, strict=True):
        total, count = ideal_position - offset, 1
        while pools and pools[-1][0] * count >= total * pools[-1][1]:
            pool_total, pool_count = pools.pop()
            total, count = total + pool_total, count + pool_count
        pools.append((total, count))
    means = [total / count for total, count in pools for _ in range(count)]
    return [mean + offset for mean, offset in zip(means, offsets, strict=True)]
