"""`onnxwire rm`: remove nodes, tensors, entries and fields of a model by their paths."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from onnxwire.cli.options import add_command
from onnxwire.cli.result import add_result, load_to_change, save_result
from onnxwire.cli.terminal import join_first_names
from onnxwire.transforms.assign import dangling_values, remove, values_of
from onnxwire.transforms.bypass import bypass_all

_DESCRIPTION = """\
Remove nodes, tensors, entries of metadata or any other fields of a model by their paths, and save the rest. All paths
are resolved before anything is removed. A warning lists removed values that are still used.
"""
_EXAMPLES = """\
examples:
  onnxwire rm m.onnx node:dropout_1 -o out.onnx
  onnxwire rm m.onnx --bypass node:dropout_1 -o out.onnx
  onnxwire rm m.onnx 'graph.node[3:6]' tensor:unused.weight -o out.onnx
  onnxwire rm m.onnx 'metadata_props[author]' graph.doc_string -i
  onnxwire rm m.onnx graph.value_info -i
"""


def add_parser(commands: Any) -> None:
    """Add the command to the parser's `commands`."""
    parser = add_command(commands, "rm", _DESCRIPTION, _EXAMPLES)
    parser.add_argument("file", metavar="FILE")
    parser.add_argument("paths", metavar="PATH", nargs="+", help="the element or field to remove")
    parser.add_argument(
        "--bypass",
        action="store_true",
        help="each PATH is a node: remove it, and connect the consumers of its first output to its first input",
    )
    add_result(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Remove the elements and fields, or bypass the nodes; returns the exit status."""
    with load_to_change(options) as model:
        if options.bypass:
            bypass_all(model, options.paths)
            save_result(model, options)
            return 0
        removed_values = values_of(model, options.paths)
        remove(model, options.paths)
        used_values = dangling_values(model, removed_values)
        if used_values:
            print(f"onnxwire: warning: removed, but still used: {join_first_names(used_values)}", file=sys.stderr)
        save_result(model, options)
    return 0
