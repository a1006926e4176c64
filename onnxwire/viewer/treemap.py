"""Treemap layout: divide a rectangle in proportion to sizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Rectangle(NamedTuple):
    """A rectangle by its upper left corner and its size, in units of the picture."""

    x: float
    y: float
    width: float
    height: float


def lay_out(sizes: Sequence[float], width: float, height: float) -> list[Rectangle]:
    """Divide a rectangle in proportion to sizes, into pieces that are as square as possible.

    sizes: nonnegative, from the largest to the smallest. Returns one rectangle per size, in the order of the sizes.
    Source: Bruls, Huizing, van Wijk: Squarified Treemaps (2000).
    """
    rectangles: list[Rectangle] = []
    total = sum(sizes)
    scale = width * height / total if total else 0.0
    x = y = 0.0
    start = 0
    while start < len(sizes):
        side = min(width, height)
        end, row_area = start, 0.0
        worst_ratio = float("inf")
        while end < len(sizes):
            area = sizes[end] * scale
            if not area:
                end = len(sizes) if not row_area else end
                break
            # The first size of a row is the largest, the last size is the smallest.
            ratio = _worst_aspect_ratio(sizes[start] * scale, area, row_area + area, side)
            if ratio > worst_ratio:
                break
            worst_ratio, row_area, end = ratio, row_area + area, end + 1
        depth = row_area / side if side else 0.0
        offset = 0.0
        for size in sizes[start:end]:
            length = size * scale / depth if depth else 0.0
            if width >= height:
                rectangles.append(Rectangle(x, y + offset, depth, length))
            else:
                rectangles.append(Rectangle(x + offset, y, length, depth))
            offset += length
        if width >= height:
            x, width = x + depth, max(width - depth, 0.0)
        else:
            y, height = y + depth, max(height - depth, 0.0)
        start = end
    return rectangles


def _worst_aspect_ratio(largest: float, smallest: float, row_area: float, side: float) -> float:
    """Return the greatest aspect ratio in a row of rectangles along a side; infinity if the side is 0.

    largest, smallest: the areas of the largest and the smallest rectangle of the row; row_area: the sum of the areas.
    """
    return (
        max(side * side * largest / (row_area * row_area), row_area * row_area / (side * side * smallest))
        if side
        else float("inf")
    )
