"""`onnxwire diff`: the differences between two models."""

from __future__ import annotations

import argparse
import json
import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from onnxwire.analysis.comparison import Difference
from onnxwire.analysis.diff import diff
from onnxwire.cli.options import add_command, add_progress
from onnxwire.cli.progress import progress_bar
from onnxwire.cli.terminal import Paint, add_color, make_painter, safe_text, table_lines

_DESCRIPTION = """\
Compare two models: nodes, attributes, inputs and outputs, operator sets, metadata, and the values of weights, with
their largest absolute difference. Nodes are paired by name; if nodes were renamed, the remaining ones are paired by
structure. The order of nodes and tensors, and the location of a tensor's data, are ignored.
"""
_EXAMPLES = """\
The exit status is 0 if the models are equal, 1 if they differ, and 2 after an error.

examples:
  onnxwire diff old.onnx new.onnx
  onnxwire diff old.onnx new.onnx --stat           counts only
  onnxwire diff old.onnx new.onnx --no-weights     all but the values of weights, which are not read
  onnxwire diff old.onnx exported_again.onnx --match structure    names do not affect the pairing of nodes
  onnxwire diff old.onnx new.onnx --json | jq '.differences[].path'
  onnxwire diff -q old.onnx new.onnx && echo same
"""
# The sign in front of each difference and its color, by the change.
_SIGNS = {"added": ("+", "green"), "removed": ("-", "red"), "changed": ("~", "yellow")}
# Changes that are found only when nodes are paired by structure.
_STRUCTURE_SIGNS = {"rewired": ("~", "yellow"), "renamed": ("~", "yellow")}
_MAX_TEXT_CHARS = 100  # maximum length of an old or new value
SAME, DIFFERENT = 0, 1  # exit statuses


def add_parser(commands: Any) -> None:
    """Add the command to the parser's `commands`."""
    parser = add_command(commands, "diff", _DESCRIPTION, _EXAMPLES)
    parser.add_argument("old", metavar="A", help="the old model; its elements that B lacks are printed with '-'")
    parser.add_argument("new", metavar="B", help="the new model; its elements that A lacks are printed with '+'")
    formats = parser.add_mutually_exclusive_group()
    formats.add_argument("--json", action="store_true", help="print JSON")
    formats.add_argument("--stat", action="store_true", help="print the numbers of elements by kind and change")
    formats.add_argument("-q", "--quiet", action="store_true", help="print nothing, and stop at the first difference")
    parser.add_argument("--no-weights", action="store_true", help="compare types and shapes of tensors, not values")
    parser.add_argument(
        "--match",
        choices=("auto", "name", "structure"),
        default="auto",
        help="name: pair nodes by name; structure: by operators and connections; auto: by name and, if nodes were "
        "renamed, the remaining ones by structure",
    )
    add_color(parser)
    add_progress(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Compare the models; returns the exit status."""
    paint = make_painter(options.color)
    with progress_bar("comparing", not (options.no_progress or options.no_weights)) as progress:
        difference_iterator = diff(
            options.old, options.new, weights=not options.no_weights, match=options.match, progress=progress
        )
        if options.quiet:
            return DIFFERENT if any(True for _ in difference_iterator) else SAME
        # Lines would interrupt the progress bar, so they are printed after the bar has ended.
        differences: Iterable[Difference] = difference_iterator if progress is None else list(difference_iterator)
        if options.json or options.stat:
            differences = list(differences)
        elif progress is None:
            return _print(differences, paint)
    differences = list(differences)
    if options.json:
        rows = [_json_row(difference) for difference in differences]
        print(json.dumps({"same": not rows, "stat": _count_changes(differences), "differences": rows}, indent=2))
    elif options.stat:
        _print_stat(differences, paint)
    else:
        _print(differences, paint)
    return DIFFERENT if differences else SAME


def _json_row(difference: Difference) -> dict[str, Any]:
    """Return the values of a difference that are not None, for JSON: infinity is text, as in protobuf's JSON."""
    row = {key: value for key, value in asdict(difference).items() if value is not None}
    distance = row.get("distance")
    if distance and distance["max_abs"] is not None and math.isinf(distance["max_abs"]):
        distance["max_abs"] = "Infinity"
    return row


def _print(differences: Iterable[Difference], paint: Paint) -> int:
    """Print one line per difference as it is found; returns the exit status."""
    status = SAME
    for difference in differences:
        status = DIFFERENT
        sign, style = (_SIGNS | _STRUCTURE_SIGNS)[difference.change]
        print(paint(f"{sign} {_difference_text(difference)}", style))
    return status


def _difference_text(difference: Difference) -> str:
    """Format a difference as one line."""
    description = safe_text(" ".join(filter(None, (difference.kind, difference.name))))
    graph_path = _graph_path(difference)
    if graph_path not in ("", "graph"):
        description += f" (in {graph_path})"
    if difference.part:
        description += f": {safe_text(difference.part)}"
    old, new = difference.old, difference.new
    if difference.change == "renamed":
        return f"renamed: {difference.name}"
    if difference.change == "rewired":
        return f"{description}: reads {_value_text(new)} instead of {_value_text(old)}"
    if difference.change == "changed":
        texts = [f"{_value_text(old)} -> {_value_text(new)}"] if (old, new) != (None, None) else []
    else:
        text = new if difference.change == "added" else old
        texts = [_value_text(text)] if text is not None else []
    distance = difference.distance
    if distance is not None:
        texts.append(distance.describe())
    return f"{description}: {'; '.join(texts)}" if texts else description


def _graph_path(difference: Difference) -> str:
    """Return the path of the graph or function that contains the element of a difference.

    Returns "" unless the element is a node, tensor, sparse tensor, value, input or output.
    """
    fields = {"tensor": "initializer", "sparse tensor": "sparse_initializer", "value": "value_info"}
    field = fields.get(difference.kind, difference.kind)
    return difference.path[: max(difference.path.rfind(f".{field}["), 0)]


def _value_text(text: str | None) -> str:
    """Format an old or new value: escaped and truncated."""
    if not text:
        return "(not set)" if text is None else '""'
    text = safe_text(text)
    return text if len(text) <= _MAX_TEXT_CHARS else f"{text[:_MAX_TEXT_CHARS]}..."


def _count_changes(differences: Iterable[Difference]) -> dict[str, dict[str, int]]:
    """Count the added, removed, changed, rewired and renamed elements by kind."""
    elements: dict[tuple[str, str, str, str, str], None] = {}
    for difference in differences:
        change = "changed" if difference.part and difference.change in _SIGNS else difference.change
        # An element with several differing parts counts once.
        is_part = bool(difference.part) or change == "rewired"
        path = _graph_path(difference) if is_part else difference.path
        part = difference.part if difference.kind == "model" else ""
        elements[difference.kind, change, difference.name, path, part] = None
    counts: Counter[tuple[str, str]] = Counter((kind, change) for kind, change, *_ in elements)
    kinds = dict.fromkeys(kind for kind, _ in counts)
    changes = [*_SIGNS, *(change for change in _STRUCTURE_SIGNS if any((kind, change) in counts for kind in kinds))]
    return {kind: {change: counts[kind, change] for change in changes} for kind in kinds}


def _print_stat(differences: Iterable[Difference], paint: Paint) -> None:
    """Print a table with the number of changes of each kind of element."""
    change_counts = _count_changes(differences)
    rows = [[kind, *(f"{count:,}" for count in counts.values())] for kind, counts in change_counts.items()]
    if rows:
        changes = list(next(iter(change_counts.values())))
        print("\n".join(table_lines(rows, ["", *changes], right_columns=range(1, len(changes) + 1), paint=paint)))
