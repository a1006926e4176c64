"""`onnxwire infer`: add types and shapes of values, inferred by the onnx package."""

from __future__ import annotations

import argparse
from typing import Any

from onnxwire.bridges.onnx_tools import infer_shapes
from onnxwire.cli.official import official_errors
from onnxwire.cli.options import add_command
from onnxwire.cli.result import add_result, save_result
from onnxwire.io.load import load

_DESCRIPTION = """\
Infer the types and shapes of values, by onnx.shape_inference, and save the model with them. The onnx package gets the
model without its large weights, so that the model may have any size; the weights are copied from file to file.
"""
_EXAMPLES = """\
examples:
  onnxwire infer m.onnx -o typed.onnx
  onnxwire infer m.onnx --strict --data-prop -i
  onnxwire infer m.onnx -o - | onnxwire ls /dev/stdin --values
"""


def add_parser(commands: Any) -> None:
    """Add the command to the parser's `commands`."""
    parser = add_command(commands, "infer", _DESCRIPTION, _EXAMPLES)
    parser.add_argument("file", metavar="FILE")
    parser.add_argument("--strict", action="store_true", help="fail if the inference of any node reports an error")
    parser.add_argument("--data-prop", action="store_true", help="propagate values through nodes that compute shapes")
    parser.add_argument("--check-type", action="store_true", help="check the types of inputs and outputs of operators")
    add_result(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Infer the shapes; returns the exit status."""
    with load(options.file) as model:
        with official_errors(options.file):
            inferred_model = infer_shapes(
                model, check_type=options.check_type, strict_mode=options.strict, data_prop=options.data_prop
            )
        save_result(inferred_model, options)
    return 0
