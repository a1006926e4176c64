"""`onnxwire stats`: statistics of every tensor's elements, as a table, a file or a picture."""

from __future__ import annotations

import argparse
import io
import json
import os
import sys
from dataclasses import asdict
from typing import Any

from onnxwire.analysis.listing import Row, filter_key, tensor_rows
from onnxwire.analysis.statistics import TensorStatistics, measure_all
from onnxwire.analysis.statistics_table import statistics_rows, to_csv, write_arrow, write_parquet
from onnxwire.cli.options import add_command, add_external_root, add_output, add_progress, add_type, make_number_parser
from onnxwire.cli.output import open_output, refuse_overwriting_input
from onnxwire.cli.progress import progress_bar
from onnxwire.cli.rows import add_selection, make_row_test, report_no_rows, sort_and_limit
from onnxwire.cli.terminal import (
    Paint,
    add_color,
    json_numbers,
    make_painter,
    number_text,
    safe_text,
    table_lines,
    terminal_width,
)
from onnxwire.engine.message import Message
from onnxwire.io.load import load
from onnxwire.io.references import reject_own_data_file
from onnxwire.io.remote.address import shown_source
from onnxwire.io.tensor_list import find_tensors
from onnxwire.messages import SCHEMA

_DESCRIPTION = """\
Print the range, mean, standard deviation, and the numbers of zeros, NaNs and infinities of every tensor of a model. The
weights of these tensors are read in pieces, by all cores. With a PATTERN or --filter, the exit status is 1 if no
tensor matches.
"""
_EXAMPLES = """\
examples:
  onnxwire stats model.onnx
  onnxwire stats model.onnx --filter 'nan>0'             tensors with NaNs; status 1 if there is none
  onnxwire stats model.onnx 'layers.0.*' --sort std
  onnxwire stats model.onnx --csv -o weights.csv
  onnxwire stats model.onnx --parquet weights.parquet    with pyarrow; --arrow for Arrow
  onnxwire stats model.onnx --plot weights.html          a page with histograms, in one file
  onnxwire stats model.onnx --plot weights.png           with matplotlib; .svg too
  onnxwire stats model.onnx --json --bins 32

min, max, mean and std are computed from the finite elements; for complex numbers, from their magnitudes. With --plot or
--bins the weights are read twice. `onnxwire ls --help` describes PATTERN and --filter.
"""
# The extensions of files of --plot.
_PICTURE_EXTENSIONS = (".html", ".png", ".svg")
_PLOT_BINS = 64  # default number of bins of --plot
_FIRST_COUNT_COLUMN = 7  # index of the first column of counts: zeros, NaN, Inf
_MIN_WIDE_COLUMNS = 110  # minimum width, in characters, of a terminal on which numbers have six digits


def add_parser(commands: Any) -> None:
    """Add the command to the parser's `commands`."""
    parser = add_command(commands, "stats", _DESCRIPTION, _EXAMPLES)
    parser.add_argument("file", metavar="FILE")
    parser.add_argument("pattern", metavar="PATTERN", nargs="?", help="only tensors with a matching name")
    formats = parser.add_mutually_exclusive_group()
    formats.add_argument("--json", action="store_true", help="print JSON")
    formats.add_argument("--csv", action="store_true", help="print CSV")
    add_output(parser)
    parser.add_argument("--arrow", metavar="OUT", help="write an Arrow file; needs pyarrow")
    parser.add_argument("--parquet", metavar="OUT", help="write a Parquet file; needs pyarrow")
    parser.add_argument(
        "--plot",
        metavar="OUT",
        type=_parse_picture_path,
        help="write histograms as .html, .png or .svg; .png and .svg need matplotlib",
    )
    parser.add_argument(
        "--bins",
        metavar="N",
        type=make_number_parser(1, 4096, "bins"),
        help="number of histogram bins for --json and --plot; default: 64 with --plot, no histograms with --json",
    )
    add_selection(parser)
    parser.add_argument(
        "--threads",
        metavar="N",
        type=make_number_parser(1, 1024, "threads"),
        help="number of threads; default: one per core",
    )
    add_external_root(parser)
    add_progress(parser)
    add_type(parser, "the message in the file, such as GraphProto; default: ModelProto")
    add_color(parser)
    parser.set_defaults(run=run, parser=parser)


def _parse_picture_path(text: str) -> str:
    if not text.lower().endswith(_PICTURE_EXTENSIONS):
        raise argparse.ArgumentTypeError(f"{text!r} must end in .html, .png or .svg")
    return text


def run(options: argparse.Namespace) -> int:
    """Print or write the statistics; returns the exit status."""
    files = [path for path in (options.arrow, options.parquet, options.plot) if path is not None]
    for path in [*files, options.output]:
        refuse_overwriting_input(options.file, path)
    if options.plot is not None:
        _require_plot_package(options.plot)
    if options.arrow is not None or options.parquet is not None:
        # Report a missing package before all weights are read.
        write_arrow([], io.BytesIO())
    with load(options.file, SCHEMA.messages[f"onnx.{options.type}"], external_root=options.external_root) as message:
        for path in [*files, options.output]:
            reject_own_data_file(message, path)
        rows, statistics = _measure(message, options)
    if options.arrow is not None:
        _write(options.arrow, write_arrow, rows)
    if options.parquet is not None:
        _write(options.parquet, write_parquet, rows)
    if options.plot is not None:
        _plot(options.plot, statistics, os.path.basename(shown_source(options.file)))
    if not files or options.json or options.csv or options.output != "-":
        _print(rows, statistics, options)
    return report_no_rows(options, "tensor") if not rows else 0


def _measure(message: Message, options: argparse.Namespace) -> tuple[list[Row], list[TensorStatistics]]:
    """Measure the tensors that the options select; returns rows and statistics in the same order."""
    tensors_and_rows = zip(find_tensors(message), tensor_rows(message), strict=True)
    first_row = next(tensor_rows(message), {})
    # First check the conditions that need no statistics, so that less is read.
    row_conditions = [text for text in options.filter if filter_key(text) in {*first_row, "rank"}]
    is_selected = make_row_test(options.pattern, options.regex, row_conditions)
    selected_tensors = (tensor for tensor, row in tensors_and_rows if is_selected(row))
    bins = options.bins or (_PLOT_BINS if options.plot is not None else 0)
    with progress_bar(f"reading {os.path.basename(shown_source(options.file))}", not options.no_progress) as progress:
        statistics = measure_all(
            selected_tensors,
            bins=bins,
            threads=options.threads,
            progress=progress,
        )
    by_path = {entry.info.path: entry for entry in statistics}
    statistics_conditions = [text for text in options.filter if text not in row_conditions]
    rows = sort_and_limit(
        list(filter(make_row_test(None, False, statistics_conditions), statistics_rows(statistics))), options
    )
    return rows, [by_path[row["path"]] for row in rows]


def _print(rows: list[Row], statistics: list[TensorStatistics], options: argparse.Namespace) -> None:
    """Print the rows, or write them to the file of -o."""
    out = io.StringIO()
    if options.json:
        if options.bins is not None:
            for row, entry in zip(rows, statistics, strict=True):
                histogram = None if entry.statistics is None else entry.statistics.histogram
                row["histogram"] = None if histogram is None else asdict(histogram)
        out.write(json.dumps(json_numbers(rows), indent=2, allow_nan=False) + "\n")
    elif options.csv:
        to_csv(rows, out)
    else:
        paint = make_painter(options.color if options.output == "-" or options.color == "always" else "never")
        for line in _table(rows, paint, terminal_width() if options.output == "-" else None):
            out.write(line + "\n")
    if options.output == "-":
        sys.stdout.write(out.getvalue())
    else:
        _save(options.output, out.getvalue().encode("utf-8", "backslashreplace"))


def _table(rows: list[Row], paint: Paint, max_width: int | None) -> list[str]:
    """Format statistics as an aligned table."""
    headings = ["name", "type", "shape", "min", "max", "mean", "std", "zeros", "NaN", "Inf"]
    if not rows:
        return []
    cells: list[list[str]] = []
    # On a narrow terminal, many digits, and columns of counts that are all 0, would leave too little space for names.
    is_narrow = max_width is not None and max_width < _MIN_WIDE_COLUMNS
    digits = 3 if is_narrow else 6
    for row in rows:
        numbers = [number_text(row[key], digits) for key in ("min", "max", "mean", "std")]
        zeros_text = "-" if row["zeros"] is None else f"{row['zeros'] / row['count']:.1%}" if row["zeros"] else "0"
        counts = [number_text(row[key]) for key in ("nan", "inf")]
        cells.append(
            [
                safe_text(row["name"] or row["path"] or "-"),
                row["type"],
                str(row["shape"]),
                *numbers,
                zeros_text,
                *counts,
            ]
        )
    if is_narrow:
        shown_columns = [
            i for i in range(len(headings)) if i < _FIRST_COUNT_COLUMN or any(texts[i] != "0" for texts in cells)
        ]
        headings = [headings[i] for i in shown_columns]
        cells = [[texts[i] for i in shown_columns] for texts in cells]
    lines = table_lines(cells, headings, range(3, len(headings)), ["bold", "cyan"], paint, max_width=max_width)
    has_nonfinite = [bool(row["nan"] or row["inf"]) for row in rows]
    return lines[:1] + [
        paint(line, "red") if is_nonfinite else line
        for line, is_nonfinite in zip(lines[1:], has_nonfinite, strict=True)
    ]


def _require_plot_package(path: str) -> None:
    """Raise MissingPackageError if the package for a picture is missing, before all weights are read."""
    if not path.lower().endswith(".html"):
        from onnxwire.analysis.statistics_plot import write_picture

        write_picture([], "", io.BytesIO(), path[-3:].lower())


def _plot(path: str, statistics: list[TensorStatistics], title: str) -> None:
    """Write histograms to an HTML page or a picture, by the extension of the path."""
    from onnxwire.analysis.statistics_plot import write_html, write_picture

    if path.lower().endswith(".html"):
        page = io.StringIO()
        write_html(statistics, title, page)
        _save(path, page.getvalue().encode("utf-8", "backslashreplace"))
        return
    picture = io.BytesIO()
    write_picture(statistics, title, picture, path[-3:].lower())
    _save(path, picture.getvalue())


def _write(path: str, write: Any, rows: list[Row]) -> None:
    """Write rows to a file. write: a function of `statistics_table` that writes rows to a binary file."""
    out = io.BytesIO()
    write(rows, out)
    _save(path, out.getvalue())


def _save(path: str, data: bytes) -> None:
    """Write bytes to a file, or to stdout for -."""
    if path == "-":
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        return
    with open_output(path) as file:
        file.write(data)
