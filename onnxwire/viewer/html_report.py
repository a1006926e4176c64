"""The report of a model: one self-contained HTML file."""

from __future__ import annotations

import os
from collections.abc import Iterable
from html import escape
from importlib.resources import files
from typing import Any

from onnxwire._version import __version__
from onnxwire.analysis.html_page import html_page
from onnxwire.analysis.sizes import size_text
from onnxwire.analysis.summary import summarize
from onnxwire.errors import count_text
from onnxwire.messages import ModelProto
from onnxwire.viewer.queries import largest_tensors
from onnxwire.viewer.treemap import Rectangle, lay_out

_MAX_TENSORS = 150  # maximum number of tensors in the treemap
_MAX_LISTED_TENSORS = 20  # maximum number of rows in the table of tensors
_WIDTH, _HEIGHT = 960, 460  # size of the treemap, in pixels
_HEADING_HEIGHT = 20  # pixels of a group's title
_COLOR_COUNT = 6  # colors of groups, used in turn
_CHAR_WIDTH = 7.0  # pixels of a character in common fonts
_TEXT_MARGINS = 8  # pixels beside a text, on both sides together
_MIN_CHARS = 4  # minimum number of characters that must fit on a rectangle with a text
_MIN_GROUP_HEIGHT = 60  # minimum height, in pixels, of a group with a title
_MIN_NAME_HEIGHT = 18  # minimum height, in pixels, of a rectangle with a name
_MIN_SIZE_HEIGHT = 34  # minimum height, in pixels, of a rectangle with a name and, below it, a size


def report(model: ModelProto) -> str:
    """Make the report: the summary, the largest tensors as a treemap and a table, and the counts of operators.

    Reads no weights. Returns the text of an HTML page without scripts and without links to other files.
    """
    summary = summarize(model)
    tensors = largest_tensors(model, _MAX_TENSORS)
    name = os.path.basename(summary["file"])
    pages = files("onnxwire.viewer") / "pages"
    style = "\n".join((pages / page).read_text(encoding="utf-8") for page in ("colors.css", "report.css"))
    facts = f"{size_text(summary['bytes'])}, {count_text(summary['nodes']['count'], 'node')}, "
    facts += count_text(summary["tensors"]["count"], "tensor")
    body = f"""<header><h1>{escape(name)}</h1><p>{facts}</p></header>
<main>
{_summary_html(summary)}
{_treemap_html(tensors, summary["tensors"])}
<div class="pair">
{_operators_html(summary["nodes"])}
{_largest_tensors_html(tensors)}
</div>
</main>
<footer>onnxwire {__version__}</footer>"""
    return html_page(name, style, body)


def _type_text(tensor: dict[str, Any]) -> str:
    """Return the data type and shape of a tensor: float[64, 3]."""
    return f"{tensor['data_type'].lower()}[{', '.join(map(str, tensor['shape']))}]"


def _rows_html(rows: Iterable[tuple[str, str]]) -> str:
    return "".join(f"<tr><th scope='row'>{escape(key)}</th><td>{escape(value)}</td></tr>\n" for key, value in rows)


def _summary_html(summary: dict[str, Any]) -> str:
    """Return the tables about the model: its properties, inputs, outputs, data types and functions."""
    tensors = summary["tensors"]
    opsets = ", ".join(f"{opset['domain'] or 'ai.onnx'} {opset['version']}" for opset in summary["opset_import"])
    rows = [
        ("IR version", str(summary["ir_version"])),
        ("operator sets", opsets or "-"),
        ("producer", f"{summary['producer_name']} {summary['producer_version']}".strip() or "-"),
        ("graph", summary["graph"]["name"] or "-"),
        ("weights", size_text(tensors["bytes"])),
        ("doc", summary["doc_string"]),
        *((entry["key"], entry["value"]) for entry in summary["metadata_props"]),
    ]
    types = [
        (row["data_type"].lower(), f"{count_text(row['count'], 'tensor')}, {size_text(row['bytes'])}")
        for row in tensors["by_data_type"]
    ]
    if tensors["external"]:
        types.append(("in other files", count_text(tensors["external"], "tensor")))
    input_rows = [(value["name"], value["type"]) for value in summary["graph"]["inputs"]]
    output_rows = [(value["name"], value["type"]) for value in summary["graph"]["outputs"]]
    functions = [(f"{row['domain']}.{row['name']}", count_text(row["nodes"], "node")) for row in summary["functions"]]
    tables = [
        ("Model", [row for row in rows if row[1]]),
        ("Inputs", input_rows),
        ("Outputs", output_rows),
        ("Data types", types),
        ("Functions", functions),
    ]
    cards = (
        f"<section><h2>{title}</h2><table class='facts'>\n{_rows_html(table_rows)}</table></section>"
        for title, table_rows in tables
        if table_rows
    )
    return '<div class="pair">\n' + "\n".join(cards) + "\n</div>"


def _treemap_html(tensors: list[dict[str, Any]], totals: dict[str, Any]) -> str:
    """Return a treemap of the largest tensors, grouped by parts of the model; all other tensors are one piece.

    Returns "" if no tensor has bytes.
    totals: the count and bytes of all tensors.
    """
    groups: dict[str, list[dict[str, Any]]] = {}
    for tensor in tensors:
        if tensor["bytes"]:
            groups.setdefault(_group_of_name(tensor["name"]), []).append(tensor)
    smaller_bytes = totals["bytes"] - sum(tensor["bytes"] for tensor in tensors)
    if smaller_bytes > 0:
        name = count_text(max(totals["count"] - len(tensors), 0), "smaller tensor")
        groups.setdefault("", []).append({"name": name, "bytes": smaller_bytes, "path": ""})
    if not groups:
        return ""
    sizes = {name: sum(piece["bytes"] for piece in pieces) for name, pieces in groups.items()}
    # The totals of a damaged model may differ from the sum of its tensors.
    total = sum(sizes.values())
    names = sorted(groups, key=lambda name: -sizes[name])
    groups_svg = []
    for i, (name, rectangle) in enumerate(
        zip(names, lay_out([sizes[name] for name in names], _WIDTH, _HEIGHT), strict=True)
    ):
        color = 1 + i % _COLOR_COUNT if name else 0
        groups_svg.append(f'<g class="c{color}">{_draw_group(name, groups[name], rectangle, total)}</g>')
    label = f"Treemap of {count_text(len(tensors), 'tensor')}"
    label += f"; the largest is {tensors[0]['name']}" if tensors else ""
    body = "\n".join(groups_svg)
    return f"""<section>
<h2>Sizes of the tensors</h2>
<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(label)}">
{body}
</svg>
</section>"""


def _group_of_name(name: str) -> str:
    """Return the part of a model that a tensor belongs to: model.layers.3 for model.layers.3.mlp.weight.

    Dots and slashes separate the steps of a name. Without a numeric step, the part is the name without its last step,
    or the whole name if it has only one step.
    """
    steps = name.replace("/", ".").strip(".").split(".")
    for i, step in enumerate(steps):
        if step.isdigit():
            return ".".join(steps[: i + 1])
    return ".".join(steps[:-1]) or name


def _draw_group(name: str, pieces: list[dict[str, Any]], rectangle: Rectangle, total: int) -> str:
    """Return the SVG of the pieces of a group; several pieces are below its title if there is space for the title.

    total: the bytes of all groups.
    """
    x, y, width, height = rectangle
    max_chars = int((width - _TEXT_MARGINS) / _CHAR_WIDTH)
    heading = ""
    if name and len(pieces) > 1 and max_chars >= _MIN_CHARS and height >= _MIN_GROUP_HEIGHT:
        group_title = _cut_start(name, max_chars)
        heading = f'<text class="group" x="{x + 5:.1f}" y="{y + 14:.1f}">{escape(group_title)}</text>'
        y, height = y + _HEADING_HEIGHT, height - _HEADING_HEIGHT
    rectangles = lay_out([piece["bytes"] for piece in pieces], width, height)
    start = len(name) + 1 if heading else 0
    return heading + "\n".join(
        _draw_piece(piece, start, Rectangle(x + part.x, y + part.y, part.width, part.height), total)
        for piece, part in zip(pieces, rectangles, strict=True)
    )


def _draw_piece(piece: dict[str, Any], start: int, rectangle: Rectangle, total: int) -> str:
    """Return the SVG of a tensor, with its size and its name from index `start` on if there is space for them.

    total: the bytes of all groups.
    """
    name, size = piece["name"] or piece["path"], size_text(piece["bytes"])
    title = f"{name}\n{_type_text(piece)}\n" if piece["path"] else f"{name}\n"
    x, y, width, height = (round(value, 1) for value in rectangle)
    max_chars = int((width - _TEXT_MARGINS) / _CHAR_WIDTH)
    shown_name = name[start:] if start < len(name) else name
    text = ""
    # Texts begin 5 pixels from the left; the baselines are 14 and 29 pixels below the top.
    if max_chars >= _MIN_CHARS and height >= _MIN_NAME_HEIGHT:
        shown_name = shown_name if len(shown_name) <= max_chars else shown_name[: max_chars - 1] + "…"
        text = f'<text x="{x + 5:.1f}" y="{y + 14:.1f}">{escape(shown_name)}</text>'
        if height >= _MIN_SIZE_HEIGHT and max_chars >= len(size):
            text += f'<text class="size" x="{x + 5:.1f}" y="{y + 29:.1f}">{size}</text>'
    share = 100 * piece["bytes"] / total
    return (
        f"<g><title>{escape(title)}{size}, {share:.3g} %</title>"
        f'<rect x="{x}" y="{y}" width="{width}" height="{height}"/>{text}</g>'
    )


def _cut_start(text: str, max_chars: int) -> str:
    """Shorten a text to `max_chars` characters at its start, since names of groups differ at their ends."""
    return text if len(text) <= max_chars else "…" + text[len(text) - max_chars + 1 :]


def _operators_html(nodes: dict[str, Any]) -> str:
    """Return the table of operators with their counts, as numbers and bars."""
    max_count = max([row["count"] for row in nodes["by_operator"]], default=1)
    rows = "".join(
        f"<tr><th scope='row'>{escape(row['op_type'])}{_domain_html(row['domain'])}</th>"
        f"<td class='number'>{row['count']:,}</td><td class='bar'>{_bar_svg(row['count'] / max_count)}</td></tr>\n"
        for row in nodes["by_operator"]
    )
    return f"<section><h2>Operators</h2><table>\n{rows}</table></section>"


def _domain_html(domain: str) -> str:
    return f" <small>{escape(domain)}</small>" if domain else ""


def _bar_svg(share: float) -> str:
    """Return a horizontal bar. share: its length as a share of the longest bar."""
    return (
        f'<svg viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect width="{max(100 * share, 0.5):.1f}" height="8"/></svg>'
    )


def _largest_tensors_html(tensors: list[dict[str, Any]]) -> str:
    """Return the table of the largest tensors, "" if there is none."""
    rows = "".join(
        f"<tr><th scope='row'>{escape(row['name'] or row['path'])}<br><small>{escape(_type_text(row))}</small></th>"
        f"<td class='number'>{size_text(row['bytes'])}</td></tr>\n"
        for row in tensors[:_MAX_LISTED_TENSORS]
    )
    return f"<section><h2>Largest tensors</h2><table>\n{rows}</table></section>" if rows else ""
