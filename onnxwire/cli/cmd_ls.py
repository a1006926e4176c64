"""`onnxwire ls`: the tensors, nodes and values of a model."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from typing import Any

from onnxwire.analysis.listing import (
    Branch,
    Row,
    name_tree,
    node_rows,
    tensor_rows,
    value_rows,
)
from onnxwire.analysis.sizes import size_text
from onnxwire.cli.options import add_command, add_type, parse_whole_number
from onnxwire.cli.rows import add_selection, describe_location, make_row_test, report_no_rows, sort_and_limit
from onnxwire.cli.terminal import Paint, add_color, make_painter, safe_rows, safe_text, table_lines, terminal_width
from onnxwire.engine.message import Message
from onnxwire.errors import count_text
from onnxwire.io.load import load
from onnxwire.messages import SCHEMA

_DESCRIPTION = """\
List the tensors of a model: name, type, shape, size and location; or its nodes, or values. Weights are not read, so the
size of the file does not matter. With a PATTERN or --filter, the exit status is 1 if nothing matches.
"""
_EXAMPLES = """\
examples:
  onnxwire ls model.onnx                               every tensor
  onnxwire ls model.onnx 'layers.0.*' --sort bytes     tensors with matching names, the largest first
  onnxwire ls model.onnx --filter type=FLOAT16 --filter 'bytes>=1M'
  onnxwire ls model.onnx --tree --depth 2              sizes by prefix of the name, as du prints them
  onnxwire ls model.onnx --nodes --filter type=MatMul
  onnxwire ls model.onnx --inputs
  onnxwire ls model.onnx --json | jq 'map(.bytes) | add'

A PATTERN with *, ? or [ matches the whole name, any other PATTERN a part of the name. A condition is a key of --json
(or rank), one of = != < <= > >= ~ !~ (~ finds a regular expression), and a value; K, M, G and T are powers of 1024.
"""
_BATCH_ROWS = 2_000  # rows that are aligned and written together
_MAX_NAMES_CHARS = 48  # maximum length of the joined names of a node's inputs or outputs


def add_parser(commands: Any) -> None:
    """Add the command to the parser's `commands`."""
    parser = add_command(commands, "ls", _DESCRIPTION, _EXAMPLES)
    parser.add_argument("file", metavar="FILE")
    parser.add_argument("pattern", metavar="PATTERN", nargs="?", help="list only elements with a matching name")
    kinds = parser.add_mutually_exclusive_group()
    kinds.add_argument("--nodes", action="store_true", help="list the nodes, of subgraphs and functions too")
    kinds.add_argument("--inputs", action="store_true", help="list the inputs of the graph")
    kinds.add_argument("--outputs", action="store_true", help="list the outputs of the graph")
    kinds.add_argument(
        "--values", action="store_true", help="list all ValueInfoProto messages: inputs, outputs and value_info"
    )
    kinds.add_argument("--tree", action="store_true", help="sum the sizes of tensors by prefix of their names")
    parser.add_argument(
        "--depth", metavar="N", type=parse_whole_number, help="with --tree: levels to print; default: all"
    )
    add_selection(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_type(parser, "the message in the file, such as GraphProto; default: ModelProto")
    add_color(parser)
    parser.set_defaults(run=run, parser=parser)


def run(options: argparse.Namespace) -> int:
    """Print the list; returns the exit status."""
    if options.depth is not None and not options.tree:
        options.parser.error("--depth requires --tree")
    with load(options.file, SCHEMA.messages[f"onnx.{options.type}"]) as message:
        rows = _select_rows(_list_rows(message, options), options)
        if options.tree:
            tree = name_tree(rows)
            _print_tree(tree, options, make_painter(options.color))
            count = tree.count
        elif options.json:
            count = _print_json(rows)
        else:
            count = _print_rows(rows, options, make_painter(options.color))
    return report_no_rows(options, _noun_of(options)) if not count else 0


def _select_rows(rows: Iterator[Row], options: argparse.Namespace) -> Iterable[Row]:
    """Select, sort and limit the rows; all rows are in memory only for sorting."""
    if options.pattern is not None or options.filter:
        rows = filter(make_row_test(options.pattern, options.regex, options.filter), rows)
    if options.sort is not None or options.reverse:
        return sort_and_limit(list(rows), options)
    return islice(rows, options.limit)


def _list_rows(message: Message, options: argparse.Namespace) -> Iterator[Row]:
    """Iterate over the rows of the kind that the options select."""
    if options.nodes:
        return node_rows(message)
    if options.inputs or options.outputs:
        return value_rows(message, ["input" if options.inputs else "output"])
    return value_rows(message) if options.values else tensor_rows(message)


def _print_json(rows: Iterable[Row]) -> int:
    """Print rows one by one in the format of json.dumps for a list with indent=2; returns their number."""
    count = 0
    for count, row in enumerate(rows, 1):
        text = json.dumps(row, indent=2).replace("\n", "\n  ")
        sys.stdout.write(f"{'[' if count == 1 else ','}\n  {text}")
    sys.stdout.write("\n]\n" if count else "[]\n")
    return count


def _print_rows(rows: Iterable[Row], options: argparse.Namespace, paint: Paint) -> int:
    """Print rows as a table; returns their number."""
    noun = _noun_of(options)
    right_columns: list[int] = []
    cells_of: Callable[[Row], list[str]]
    styles = ["bold", "cyan"]
    if options.nodes:
        headings, cells_of = ["name", "operator", "inputs -> outputs", "path"], _node_cells
    elif noun == "value":
        headings, cells_of = ["name", "type", "path"], _value_cells
    else:
        headings, styles = ["name", "type", "shape", "bytes", "stored"], [*styles, "", "green"]
        right_columns, cells_of = [3], partial(_tensor_cells, options.file)
    is_terminal = sys.stdout.isatty()
    count = size = 0
    remaining_rows = iter(rows)
    batch_headings = headings if is_terminal else None
    widths: list[int] = []
    max_width = terminal_width()
    # Print in batches, so that the start of a long list appears immediately. A batch may make columns wider.
    while batch := list(islice(remaining_rows, _BATCH_ROWS)):
        count += len(batch)
        if noun == "tensor":
            size += sum(row["bytes"] for row in batch)
        lines = table_lines(
            safe_rows([cells_of(row) for row in batch]),
            batch_headings,
            right_columns,
            styles,
            paint,
            widths=widths,
            max_width=max_width,
        )
        sys.stdout.write("\n".join(lines) + "\n")
        batch_headings = None
    if is_terminal:
        print(count_text(count, noun) + (f", {size_text(size)}" if noun == "tensor" else ""))
    return count


def _noun_of(options: argparse.Namespace) -> str:
    """Return the singular noun for the rows: node, value or tensor."""
    if options.nodes:
        return "node"
    return "value" if options.inputs or options.outputs or options.values else "tensor"


def _node_cells(row: Row) -> list[str]:
    domain = row["domain"]
    operator = f"{domain}.{row['type']}" if domain else row["type"]
    return [row["name"] or "-", operator, f"{_join_names(row['input'])} -> {_join_names(row['output'])}", row["path"]]


def _value_cells(row: Row) -> list[str]:
    return [row["name"] or "-", row["type"], row["path"]]


def _tensor_cells(model: str, row: Row) -> list[str]:
    name = row["name"] or row["path"] or "-"
    return [name, row["type"], str(row["shape"]), size_text(row["bytes"]), describe_location(row, model)]


def _join_names(names: list[str]) -> str:
    """Join names by commas, and truncate the text."""
    text = names[0] if len(names) == 1 else ", ".join(names)
    return text if len(text) <= _MAX_NAMES_CHARS else text[: _MAX_NAMES_CHARS - 1] + "…"


def _print_tree(root: Branch, options: argparse.Namespace, paint: Paint) -> None:
    """Print a line for each branch of the tree, or the tree as JSON."""
    if options.json:
        print(json.dumps(_limit_depth(root, options.depth).as_dict(), indent=2))
        return
    key: Callable[[Branch], Any] | None = (lambda branch: -branch.bytes) if options.sort == "bytes" else None
    stack = [(root, 0)]
    while stack:
        branch, depth = stack.pop()
        name = branch.name if depth else "total"
        line = f"{size_text(branch.bytes):>10}  {branch.count:>7,}  {'  ' * depth}"
        print(line + (paint(safe_text(name), "bold") if branch.children else safe_text(name)))
        if options.depth is None or depth < options.depth:
            children = list(branch.children.values())
            if key is not None:
                children.sort(key=key, reverse=options.reverse)
            stack += [(child, depth + 1) for child in reversed(children)]


def _limit_depth(branch: Branch, depth: int | None) -> Branch:
    """Return the branch down to a depth, in levels; None for no limit."""
    if depth is None:
        return branch
    children = {name: _limit_depth(child, depth - 1) for name, child in branch.children.items()} if depth else {}
    return Branch(branch.name, branch.bytes, branch.count, children)
