"""Draws statistics of tensors, one row per tensor: all as an HTML page, or the largest ones as PNG or SVG."""

from __future__ import annotations

import html
import math
import warnings
from collections.abc import Sequence
from typing import IO, Any

from onnxwire.analysis.html_page import html_page
from onnxwire.analysis.statistics import Histogram, Statistics, TensorStatistics
from onnxwire.errors import MissingPackageError, count_text
from onnxwire.tensor.dtypes import name_of

_MAX_ROWS = 60  # maximum number of tensors in a picture; a page shows all tensors
_WIDTH, _HEIGHT = 220, 28  # size of a histogram on the page in pixels

_STYLE = """\
:root { --ink: #1c2733; --soft: #66727f; --line: #dde3e9; --bar: #2f6fb0; --ground: #fff; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e4e9ee; --soft: #93a0ad; --line: #303a44; --bar: #6aa9e6; --ground: #14191e; }
}
body { margin: 1.5rem; font: 14px/1.4 system-ui, sans-serif; color: var(--ink); background: var(--ground); }
h1 { font-size: 1.25rem; }
p { color: var(--soft); }
input { font: inherit; color: inherit; background: none; border: 1px solid var(--line); border-radius: 4px;
  padding: .2rem .5rem; min-width: 16rem; }
table { border-collapse: collapse; margin-top: 1rem; }
th, td { padding: .2rem .7rem; border-bottom: 1px solid var(--line); text-align: right; white-space: nowrap; }
th:nth-child(-n+3), td:nth-child(-n+3) { text-align: left; }
th { position: sticky; top: 0; background: var(--ground); }
th button { font: inherit; font-weight: 600; color: inherit; background: none; border: 0;
  padding: 0; cursor: pointer; }
td { font-variant-numeric: tabular-nums; }
td.bad { color: #c0392b; font-weight: 600; }
path { fill: var(--bar); }
line { stroke: var(--soft); stroke-dasharray: 2 2; }
svg { display: block; }
"""
_SCRIPT = """\
const body = document.querySelector("tbody");
document.querySelectorAll("th button").forEach((button, column) => button.addEventListener("click", () => {
  // The first click sorts numbers in descending and texts in ascending order; each further click reverses the order.
  const isReversed = button.dataset.isReversed = button.dataset.isReversed === "" ? "1" : "";
  const key = row => row.cells[column].dataset.key;
  const isNumeric = column > 2;  // after name, type and shape
  const order = (a, b) => isNumeric ? Number(key(b)) - Number(key(a))
    : key(a).localeCompare(key(b), undefined, {numeric: true});
  const hasValue = row => !isNumeric || key(row) !== "";
  const rows = [...body.rows];
  const sorted = rows.filter(hasValue).sort((a, b) => isReversed ? order(b, a) : order(a, b));
  body.append(...sorted, ...rows.filter(row => !hasValue(row)));
}));
document.getElementById("filter").addEventListener("input", event => {
  const word = event.target.value.toLowerCase();
  for (const row of body.rows) row.hidden = !row.cells[0].textContent.toLowerCase().includes(word);
});
"""


def write_html(results: Sequence[TensorStatistics], title: str, out: IO[str]) -> None:
    """Write a self-contained HTML page: a table of all tensors with their histograms.

    results: the return value of `measure_all` when called with a number of bins. title: usually the model's name.
    out: a text file.
    """
    header_cells = "".join(
        f'<th scope="col"><button>{name}</button></th>'
        for name in ("name", "type", "shape", "bytes", "min", "max", "mean", "std", "zeros", "NaN", "Inf")
    )
    header_cells += '<th scope="col">histogram</th>'
    tensors, size = count_text(len(results), "tensor"), count_text(sum(entry.info.nbytes for entry in results), "byte")
    rows = "\n".join(map(_html_row, results))
    body = f"""<h1>{html.escape(title)}</h1>
<p>{tensors}, {size}. Ranges, means and deviations are of the finite elements. A dashed line marks zero.</p>
<input id="filter" type="search" placeholder="name" aria-label="show tensors whose names contain this text">
<table>
<thead><tr>{header_cells}</tr></thead>
<tbody>
{rows}
</tbody>
</table>"""
    out.write(html_page(title, _STYLE, body, _SCRIPT))


def _html_row(entry: TensorStatistics) -> str:
    """Return the table row of a tensor. The script of the page sorts rows by the data-key of their cells."""
    info, statistics = entry.info, entry.statistics
    cells = []
    for text in (info.name or info.path, name_of(info.data_type), " x ".join(map(str, info.shape)) or "scalar"):
        escaped = html.escape(text)
        cells.append(f'<td data-key="{escaped}">{escaped}</td>')
    cells.append(f'<td data-key="{info.nbytes}">{info.nbytes:,}</td>')
    for key in ("min", "max", "mean", "std", "zeros", "nan", "inf"):
        value = getattr(statistics, key, None)
        if value is None:
            cells.append('<td data-key="">-</td>')
            continue
        attributes = ' class="bad"' if key in ("nan", "inf") and value else ""
        text = f"{value:,}" if isinstance(value, int) else f"{value:.4g}"
        cells.append(f'<td{attributes} data-key="{value}">{text}</td>')
    histogram = None if statistics is None else statistics.histogram
    # A histogram of equal elements would be a single bar.
    is_flat = histogram is None or statistics is None or statistics.min == statistics.max
    cells.append(f"<td>{'' if histogram is None or is_flat else _svg(histogram)}</td>")
    return f"<tr>{''.join(cells)}</tr>"


def _svg(histogram: Histogram) -> str:
    """Return a histogram as SVG. Heights are square roots of the counts, so tails are visible."""
    max_root = math.sqrt(max(histogram.counts) or 1)
    step = _WIDTH / len(histogram.counts)
    bars = ""
    for position, count in enumerate(histogram.counts):
        if count:
            height = max(math.sqrt(count) / max_root * _HEIGHT, 0.5)
            bars += f"M{position * step:.1f} {_HEIGHT}v-{height:.1f}h{step:.1f}v{height:.1f}z"
    zero_line = ""
    if histogram.low < 0 < histogram.high:
        # The difference of high and low can overflow.
        x = _WIDTH / (1 + histogram.high / -histogram.low)
        zero_line = f'<line x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="{_HEIGHT}"/>'
    label = f"from {histogram.low:.4g} to {histogram.high:.4g}"
    return (
        f'<svg width="{_WIDTH}" height="{_HEIGHT}" role="img" aria-label="{label}"><title>{label}</title>'
        f'<path d="{bars}"/>{zero_line}</svg>'
    )


def write_picture(results: Sequence[TensorStatistics], title: str, out: IO[bytes], kind: str) -> None:
    """Draw ranges, means and histograms of the largest tensors, one row per tensor, on one scale, with matplotlib.

    results: the return value of `measure_all` when called with a number of bins. kind: "png" or "svg". out: a binary
    file. Raises MissingPackageError without matplotlib.
    """
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingPackageError(
            f".{kind} files need matplotlib, which is not installed; `pip install 'onnxwire[plot]'`, or write "
            "an .html file"
        ) from None
    drawn_rows: list[tuple[TensorStatistics, Statistics]] = []
    for entry in sorted(results, key=lambda entry: -entry.info.nbytes):
        statistics = entry.statistics
        if statistics is not None and statistics.histogram is not None and len(drawn_rows) < _MAX_ROWS:
            drawn_rows.append((entry, statistics))
    # A fixed salt makes equal output in each run. Text in SVG remains text instead of outlines.
    settings = {"svg.hashsalt": "onnxwire", "svg.fonttype": "none"}
    with matplotlib.rc_context(settings), warnings.catch_warnings():
        # Characters that the font lacks are drawn as boxes.
        warnings.filterwarnings("ignore", "Glyph")
        size_inches = 9, 1.4 + 0.28 * max(len(drawn_rows), 1)
        figure = Figure(figsize=size_inches, layout="constrained")
        axes: Any = figure.add_subplot()
        for row, (_, statistics) in enumerate(drawn_rows):
            _draw_row(axes, row, statistics)
        _set_scale(axes, [statistics for _, statistics in drawn_rows])
        names = [_label(entry.info.name or entry.info.path) for entry, _ in drawn_rows]
        axes.set_yticks(range(len(drawn_rows)), names, parse_math=False)
        axes.set_ylim(len(drawn_rows) - 0.4, -0.9)
        axes.tick_params(labelsize=8)
        axes.spines[["top", "right", "left"]].set_visible(False)
        axes.axvline(0, color="0.7", linewidth=0.8, zorder=0)
        count_note = f", {len(drawn_rows):,} of {len(results):,} tensors" if len(drawn_rows) < len(results) else ""
        text = f"{_label(title)}: range, histogram, mean ± std{count_note}"
        axes.set_title(text, fontsize=10, loc="left", parse_math=False)
        metadata = {"Date": None} if kind == "svg" else {"Software": "onnxwire"}
        figure.savefig(out, format=kind, dpi=120, metadata=metadata)


def _label(name: str) -> str:
    """Shorten a name to at most 44 characters.

    If a character is not printable, it and all non-ASCII characters are escaped: XML forbids some of these characters.
    """
    name = name if name.isprintable() else ascii(name)[1:-1]
    return name if len(name) <= 44 else f"{name[:20]}…{name[-23:]}"


def _draw_row(axes: Any, row: int, statistics: Statistics) -> None:
    """Draw a row: a line at y = row + 0.3 for the range, with mean and deviation, and the histogram above the line.

    The numbers of NaNs and infinities are written at the right edge.
    """
    histogram = statistics.histogram
    assert histogram is not None and statistics.mean is not None and statistics.std is not None
    max_root = math.sqrt(max(histogram.counts) or 1)
    axes.plot([statistics.min, statistics.max], [row + 0.3] * 2, color="#2f6fb0", linewidth=1)
    axes.errorbar([statistics.mean], [row + 0.3], xerr=[statistics.std], fmt="o", color="#1c3d5e", markersize=2.5)
    tops = [row + 0.3 - 0.8 * math.sqrt(count) / max_root for count in histogram.counts]
    if statistics.min != statistics.max:
        axes.stairs(tops, histogram.edges, baseline=row + 0.3, fill=True, color="#8db7e0")
    if statistics.nan or statistics.inf:
        axes.annotate(
            f"{statistics.nan:,} NaN, {statistics.inf:,} Inf",
            (1.0, row),
            xycoords=("axes fraction", "data"),
            color="#c0392b",
            fontsize=7,
            ha="right",
        )


def _set_scale(axes: Any, drawn_statistics: list[Statistics]) -> None:
    """Use a symmetric logarithmic scale if the ranges differ so much that narrow ones would be invisible."""
    magnitudes = sorted(max(abs(statistics.min or 0), abs(statistics.max or 0)) for statistics in drawn_statistics)
    magnitudes = [value for value in magnitudes if value > 0]
    if magnitudes and magnitudes[-1] > 50 * magnitudes[len(magnitudes) // 2]:
        from matplotlib.ticker import FixedLocator, FuncFormatter

        linear_limit = max(magnitudes[len(magnitudes) // 2], 1e-300)
        axes.set_xscale("symlog", linthresh=linear_limit)
        # Mark about four powers of ten on both sides; the ticks that matplotlib chooses would overlap.
        first, last = math.ceil(math.log10(linear_limit)), math.floor(math.log10(magnitudes[-1]))
        powers = [10.0**n for n in range(first, last + 1, max((last - first) // 3, 1))]
        axes.xaxis.set_major_locator(FixedLocator([*(-power for power in powers), 0, *powers]))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, position: f"{value:g}"))
