"""`onnxwire ls`: the tensors, nodes and values of a model."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from typing import Any

from onnxwire.analysis.listing import (
    Branch,
    Row,
    name_matcher,
    name_tree,
    node_rows,
    row_filter,
    sort_rows,
    tensor_rows,
    value_rows,
)
from onnxwire.analysis.sizes import size_text
from onnxwire.cli.options import add_command, add_type
from onnxwire.cli.terminal import Paint, add_color, painter, safe_rows, safe_text, table_lines
from onnxwire.engine.message import Message
from onnxwire.errors import count_text
from onnxwire.io.load import load
from onnxwire.messages import SCHEMA

_DESCRIPTION = """\
List the tensors of a model: name, type, shape, size and where it is stored; or its nodes, or values. Weights are not
read, so the size of the file does not matter. With a PATTERN or --filter, the exit status is 1 where nothing is found.
"""
_EXAMPLES = """\
examples:
  onnxwire ls model.onnx                               every tensor
  onnxwire ls model.onnx 'layers.0.*' --sort bytes     those with such a name, the largest first
  onnxwire ls model.onnx --filter type=FLOAT16 --filter 'bytes>=1M'
  onnxwire ls model.onnx --tree --depth 2              sizes by prefix of the name, as du prints them
  onnxwire ls model.onnx --nodes --filter type=MatMul
  onnxwire ls model.onnx --inputs
  onnxwire ls model.onnx --json | jq 'map(.bytes) | add'

A PATTERN with *, ? or [ is for the whole name, any other one for a part of it. Conditions are a key of --json,
one of = != < <= > >= ~ !~ (~ finds a regular expression), and a value; K, M, G and T stand for powers of 1024.
"""
_TOGETHER = 2_000  # rows whose columns are aligned and written together
_LONG = 48  # characters of a list of names in a row


def add_parser(commands: Any) -> None:
    """Add the command to the parser's `commands`."""
    parser = add_command(commands, "ls", _DESCRIPTION, _EXAMPLES)
    parser.add_argument("file", metavar="FILE")
    parser.add_argument("pattern", metavar="PATTERN", nargs="?", help="list what has such a name")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--nodes", action="store_true", help="list the nodes, of subgraphs and functions too")
    what.add_argument("--inputs", action="store_true", help="list the inputs of the graph")
    what.add_argument("--outputs", action="store_true", help="list the outputs of the graph")
    what.add_argument("--values", action="store_true", help="list all values that have a type")
    what.add_argument("--tree", action="store_true", help="sum the sizes of tensors by prefix of their names")
    parser.add_argument("--depth", metavar="N", type=_natural, help="with --tree: levels to show; by default all")
    add_selection(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_type(parser, "the message that the file holds, such as GraphProto; by default ModelProto")
    add_color(parser)
    parser.set_defaults(run=run, parser=parser)


def add_selection(parser: argparse.ArgumentParser) -> None:
    """Add the options that choose and sort rows; `select` does what they say."""
    parser.add_argument("-E", "--regex", action="store_true", help="PATTERN is a regular expression, found anywhere")
    parser.add_argument(
        "--filter",
        metavar="COND",
        action="append",
        default=[],
        help="list what fulfils this, such as bytes>=1M; all do",
    )
    parser.add_argument("--sort", metavar="KEY", help="name, bytes, type or another key of --json; the largest first")
    parser.add_argument("-r", "--reverse", action="store_true", help="in the reverse order")
    parser.add_argument("--limit", metavar="N", type=_natural, help="the first N")


def _natural(text: str) -> int:
    if not text.isdecimal() or len(text) > 18:
        raise argparse.ArgumentTypeError(f"{text!r} is no number")
    return int(text)


def select(rows: Iterable[Row], options: argparse.Namespace) -> list[Row]:
    """The rows that the options choose, in their order."""
    return arrange(choose(rows, options.pattern, options.regex, options.filter), options)


def choose(rows: Iterable[Row], pattern: str | None, is_regex: bool, conditions: Iterable[str]) -> list[Row]:
    """The rows that have a name and fulfil conditions."""
    return list(filter(row_test(pattern, is_regex, conditions), rows))


def row_test(pattern: str | None, is_regex: bool, conditions: Iterable[str]) -> Callable[[Row], bool]:
    """The test of whether a row has a name and fulfils conditions."""
    tests: list[Callable[[Row], bool]] = [row_filter(text) for text in conditions]
    if pattern is not None:
        is_meant = name_matcher(pattern, is_regex)
        # A row without a name is found by its path.
        tests.append(lambda row: is_meant(row["name"] or row["path"]))
    return lambda row: all(test(row) for test in tests)


def arrange(rows: list[Row], options: argparse.Namespace) -> list[Row]:
    """The rows in the order that the options ask for, as many as they do."""
    if options.sort is not None:
        rows = sort_rows(rows, options.sort)
    if options.reverse:
        rows = rows[::-1]
    return rows[: options.limit]


def run(options: argparse.Namespace) -> int:
    """Print the list; returns the exit status."""
    if options.depth is not None and not options.tree:
        options.parser.error("--depth goes with --tree")
    with load(options.file, SCHEMA.messages[f"onnx.{options.type}"]) as message:
        rows = _chosen(_rows(message, options), options)
        if options.tree:
            tree = name_tree(rows)
            _print_tree(tree, options, painter(options.color))
            count = tree.count
        elif options.json:
            count = _print_json(rows)
        else:
            count = _print_rows(rows, options, painter(options.color))
    return 1 if not count and (options.pattern is not None or options.filter) else 0


def _chosen(rows: Iterator[Row], options: argparse.Namespace) -> Iterable[Row]:
    """The rows that are listed; only where they are to be in another order they are all kept."""
    if options.pattern is not None or options.filter:
        rows = filter(row_test(options.pattern, options.regex, options.filter), rows)
    if options.sort is not None or options.reverse:
        return arrange(list(rows), options)
    return islice(rows, options.limit)


def _rows(message: Message, options: argparse.Namespace) -> Iterator[Row]:
    if options.nodes:
        return node_rows(message)
    if options.inputs or options.outputs:
        return value_rows(message, ["input" if options.inputs else "output"])
    return value_rows(message) if options.values else tensor_rows(message)


def _print_json(rows: Iterable[Row]) -> int:
    """Print rows as json.dumps prints their list, one after the other; returns how many."""
    count = 0
    for count, row in enumerate(rows, 1):
        text = json.dumps(row, indent=2).replace("\n", "\n  ")
        sys.stdout.write(f"{'[' if count == 1 else ','}\n  {text}")
    sys.stdout.write("\n]\n" if count else "[]\n")
    return count


def _print_rows(rows: Iterable[Row], options: argparse.Namespace, paint: Paint) -> int:
    """Print rows as a table; returns how many."""
    right: list[int] = []
    cells_of: Callable[[Row], list[str]]
    if options.nodes:
        headings, styles, noun, cells_of = (
            ["name", "operator", "inputs -> outputs", "path"],
            ["bold", "cyan"],
            "node",
            _node_cells,
        )
    elif options.inputs or options.outputs or options.values:
        headings, styles, noun, cells_of = ["name", "type", "path"], ["bold", "cyan"], "value", _value_cells
    else:
        headings, styles, noun = ["name", "type", "shape", "bytes", "stored"], ["bold", "cyan", "", "green"], "tensor"
        right, cells_of = [3], partial(_tensor_cells, options.file)
    is_terminal = sys.stdout.isatty()
    count = size = 0
    waiting = iter(rows)
    first = headings if is_terminal else None
    widths: list[int] = []
    # In batches, each as wide as those before it or wider, so that a long list is neither kept nor waited for.
    while batch := list(islice(waiting, _TOGETHER)):
        count += len(batch)
        if noun == "tensor":
            size += sum(row["bytes"] for row in batch)
        lines = table_lines(safe_rows([cells_of(row) for row in batch]), first, right, styles, paint, widths=widths)
        sys.stdout.write("\n".join(lines) + "\n")
        first = None
    if is_terminal:
        print(count_text(count, noun) + (f", {size_text(size)}" if noun == "tensor" else ""))
    return count


def _node_cells(row: Row) -> list[str]:
    domain = row["domain"]
    operator = f"{domain}.{row['type']}" if domain else row["type"]
    return [row["name"] or "-", operator, f"{_names(row['input'])} -> {_names(row['output'])}", row["path"]]


def _value_cells(row: Row) -> list[str]:
    return [row["name"] or "-", row["type"], row["path"]]


def _tensor_cells(model: str, row: Row) -> list[str]:
    name = row["name"] or row["path"] or "-"
    return [name, row["type"], str(row["shape"]), size_text(row["bytes"]), place_of(row, model)]


def _names(names: list[str]) -> str:
    """Names with commas between them, as many as fit."""
    text = names[0] if len(names) == 1 else ", ".join(names)
    return text if len(text) <= _LONG else text[: _LONG - 1] + "…"


def place_of(row: Row, model: str) -> str:
    """Where a tensor's payload is, for people."""
    if row["offset"] is None:
        return f"in {row['stored']}" if row["stored"] else "-"
    if row["stored"] == "external_data":
        return f"{os.path.relpath(row['file'], os.path.dirname(model) or '.')} at {row['offset']:,}"
    return f"inline at {row['offset']:,}"


def _print_tree(root: Branch, options: argparse.Namespace, paint: Paint) -> None:
    if options.json:
        print(json.dumps(_cut(root, options.depth).as_dict(), indent=2))
        return
    key: Callable[[Branch], Any] | None = (lambda branch: -branch.bytes) if options.sort == "bytes" else None
    waiting = [(root, 0)]
    while waiting:
        branch, depth = waiting.pop()
        name = branch.name if depth else "total"
        line = f"{size_text(branch.bytes):>10}  {branch.count:>7,}  {'  ' * depth}"
        print(line + (paint(safe_text(name), "bold") if branch.children else safe_text(name)))
        if options.depth is None or depth < options.depth:
            children = list(branch.children.values())
            if key is not None:
                children.sort(key=key, reverse=options.reverse)
            waiting += [(child, depth + 1) for child in reversed(children)]


def _cut(branch: Branch, depth: int | None) -> Branch:
    """The branch without what lies deeper than that."""
    if depth is None:
        return branch
    children = {name: _cut(child, depth - 1) for name, child in branch.children.items()} if depth else {}
    return Branch(branch.name, branch.bytes, branch.count, children)
