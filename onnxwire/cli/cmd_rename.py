"""`onnxwire rename`: rename values or nodes wherever they are used."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from onnxwire.cli.options import add_command
from onnxwire.cli.result import add_result, save_result
from onnxwire.errors import EditError, count_text
from onnxwire.io.load import load
from onnxwire.transforms.rename import rename_nodes, rename_values

_DESCRIPTION = """\
Rename values of a model (inputs, outputs, initializers, outputs of nodes) wherever they are used: by nodes, in
subgraphs, in value_info, quantization annotations, sharding specs and training bindings. Or rename nodes, with --nodes.
All names are replaced at once, so that two can be swapped.
"""
_EXAMPLES = """\
examples:
  onnxwire rename m.onnx x image -o out.onnx
  onnxwire rename m.onnx x image 57 logits -i
  onnxwire rename m.onnx --nodes Conv_0 stem/conv -o out.onnx
"""


def add_parser(commands: Any) -> None:
    """Add the command to the parser's `commands`."""
    parser = add_command(commands, "rename", _DESCRIPTION, _EXAMPLES)
    parser.add_argument("file", metavar="FILE")
    parser.add_argument("names", metavar="OLD NEW", nargs="+", help="pairs of an old name and its new name")
    parser.add_argument("--nodes", action="store_true", help="rename nodes, not values")
    parser.add_argument("-v", "--verbose", action="store_true", help="print the number of replacements on stderr")
    add_result(parser)
    parser.set_defaults(run=run, parser=parser)


def run(options: argparse.Namespace) -> int:
    """Rename the values or nodes; returns the exit status."""
    old_names, new_names = options.names[::2], options.names[1::2]
    if len(old_names) != len(new_names):
        options.parser.error(f"names come in pairs, OLD NEW; {old_names[-1]!r} has no new name")
    if len(set(old_names)) < len(old_names):
        raise EditError("an old name occurs twice; write each OLD once")
    names = dict(zip(old_names, new_names, strict=True))
    with load(options.file) as model:
        count = rename_nodes(model, names) if options.nodes else rename_values(model, names)
        save_result(model, options)
    if options.verbose:
        print(f"onnxwire: renamed {count_text(count, 'occurrence')}", file=sys.stderr)
    return 0
