"""`onnxwire dims`: list and change the dimensions of a model's inputs and outputs."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from onnxwire.analysis.describe import describe_type
from onnxwire.analysis.live_scopes import initializer_names
from onnxwire.cli.options import add_command
from onnxwire.cli.result import add_result, load_to_change, save_result
from onnxwire.cli.terminal import join_first_names, safe_text, table_lines, terminal_width
from onnxwire.errors import EditError, count_text
from onnxwire.io.load import load
from onnxwire.messages import ModelProto
from onnxwire.transforms.dimensions import DimensionChanges, change_dimensions

_DESCRIPTION = """\
List the inputs and outputs with their shapes, or change dimensions. A dimension variable is replaced everywhere in the
graph and its subgraphs. If the old dimension is a number or unknown, the onnx package infers the shapes of all other
values again, except with --no-infer. Warnings list parts that remain unchanged: constant shapes that contain the old
size, as in Reshape, and subgraphs that use the variable's name for another dimension. They also list values whose
shapes or dimensions become unknown. Large weights are not read.
"""
_EXAMPLES = """\
examples:
  onnxwire dims m.onnx                                     inputs and outputs with their shapes
  onnxwire dims m.onnx --set batch=4 -o out.onnx           a size for a variable
  onnxwire dims m.onnx --set 'input:image[0]=N' -i         a variable for a dimension of an input
  onnxwire dims m.onnx --rename batch_size=batch -i
  onnxwire dims m.onnx --dynamic batch -o out.onnx         a variable for the first dimension of all inputs
"""


def add_parser(commands: Any) -> None:
    """Add the command to the parser's `commands`."""
    parser = add_command(commands, "dims", _DESCRIPTION, _EXAMPLES)
    parser.add_argument("file", metavar="FILE")
    parser.add_argument(
        "--set",
        metavar="DIM=SIZE",
        action="append",
        default=[],
        help="DIM: a variable, or input:NAME[INDEX]; SIZE: a number or a variable; repeatable",
    )
    parser.add_argument(
        "--rename", metavar="OLD=NEW", action="append", default=[], help="a new name for a variable; repeatable"
    )
    parser.add_argument("--dynamic", metavar="NAME", help="a variable for the first dimension of every input")
    parser.add_argument("--no-infer", action="store_true", help="do not infer shapes")
    parser.add_argument("-v", "--verbose", action="store_true", help="print the number of changes on stderr")
    add_result(parser, is_required=False)
    parser.set_defaults(run=run, parser=parser)


def run(options: argparse.Namespace) -> int:
    """List or change dimensions; returns the exit status."""
    is_change = bool(options.set or options.rename or options.dynamic is not None)
    if not is_change:
        if options.output is not None or options.in_place or options.no_infer:
            options.parser.error("-o, -i and --no-infer require a change: --set, --rename or --dynamic")
        with load(options.file) as model:
            print("\n".join(_shape_lines(model)))
        return 0
    if options.output is None and not options.in_place:
        options.parser.error("one of the arguments -o/--output -i/--in-place is required")
    sizes, renames = _split_pairs(options.set), _split_pairs(options.rename)
    with load_to_change(options) as model:
        changed_model, changes = change_dimensions(
            model, sizes, renames=renames, dynamic=options.dynamic, infer=not options.no_infer
        )
        _print_changes(changes, options.verbose)
        save_result(changed_model, options)
    return 0


def _split_pairs(texts: list[str]) -> dict[str, str]:
    """Split NAME=VALUE texts at the last =, since names may contain =."""
    pairs: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.rpartition("=")
        if not equals or not name or not value:
            raise EditError("write NAME=VALUE, such as batch=4", text[:200])
        if pairs.setdefault(name, value) != value:
            raise EditError(f"it can't become both {pairs[name]} and {value}", name[:200])
    return pairs


def _shape_lines(model: ModelProto) -> list[str]:
    """Format the outputs of the graph, and its inputs except initializers, with their shapes."""
    names = initializer_names(model.graph)
    rows = [
        [kind, safe_text(value.name), safe_text(describe_type(value.type))]
        for kind, values in (("input", model.graph.input), ("output", model.graph.output))
        for value in values
        if kind == "output" or value.name not in names
    ]
    return table_lines(rows, max_width=terminal_width()) if rows else ["the graph has no inputs or outputs"]


def _print_changes(changes: DimensionChanges, is_verbose: bool) -> None:
    """Print the warnings on stderr; if verbose, also the number of changes."""
    lines = [f"changed {count_text(changes.count, 'dimension')}"] if is_verbose else []
    for names, fact in (
        (changes.constants, "constant shapes contain the old size"),
        (changes.scopes, "these subgraphs use the variable's name for another dimension; unchanged"),
        (changes.cleared, "dimensions of these values were expressions of a changed dimension; now unknown"),
        (changes.unknown, "the shapes of these values could not be inferred; now unknown"),
    ):
        if names:
            lines.append(f"warning: {fact}: {join_first_names(names)}")
    if changes.reason:
        lines.append(f"warning: shapes were not inferred: {safe_text(changes.reason)}")
    for line in lines:
        print(f"onnxwire: {line}", file=sys.stderr)
