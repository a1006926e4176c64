"""`onnxwire convert-version`: convert to another opset version with the onnx package."""

from __future__ import annotations

import argparse
from typing import Any

from onnxwire.bridges.onnx_tools import convert_version
from onnxwire.cli.official import official_errors
from onnxwire.cli.options import add_command
from onnxwire.cli.result import add_result, save_result
from onnxwire.io.load import load

_DESCRIPTION = """\
Convert a model to another version of ONNX's operators (opset), by onnx.version_converter, and save it. The onnx
package gets the model without its large weights, so that the model may have any size; the weights are copied from
file to file.
"""
_EXAMPLES = """\
examples:
  onnxwire convert-version m.onnx 21 -o new.onnx
  onnxwire convert-version m.onnx 17 -i
"""


def add_parser(commands: Any) -> None:
    """Add the command to the parser's `commands`."""
    parser = add_command(commands, "convert-version", _DESCRIPTION, _EXAMPLES)
    parser.add_argument("file", metavar="FILE")
    parser.add_argument("opset", metavar="OPSET", type=int, help="the new version of the default domain")
    add_result(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Convert the model; returns the exit status."""
    with load(options.file) as model:
        with official_errors(options.file):
            converted_model = convert_version(model, options.opset)
        save_result(converted_model, options)
    return 0
