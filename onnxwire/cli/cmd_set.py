"""`onnxwire set`: set fields of a model by their paths."""

from __future__ import annotations

import argparse
from typing import Any

from onnxwire.cli.options import add_command
from onnxwire.cli.result import add_result, load_to_change, save_result
from onnxwire.transforms.assign import assign

_DESCRIPTION = """\
Set fields of a model by their paths, and save it. All other bytes stay unchanged, and weights are copied from file to
file, so that a model of any size needs little memory.
"""
_EXAMPLES = """\
values:
  a number, true or false, the name of an enum's value, or plain text
  [1, 2, 3]            for a repeated field; texts with commas in them as ["a, b", "c"]
  @FILE                for a field of bytes; @FILE.npy for a tensor
  {op_type: "Relu"}    for a message: protobuf's text format in braces
  For an attribute, a metadata entry, an operator set or a dimension, its value is set.

examples:
  onnxwire set m.onnx producer_name=me model_version=3 -o out.onnx
  onnxwire set m.onnx 'node:relu_1.op_type=Gelu' -i
  onnxwire set m.onnx 'node:conv1.attribute[pads]=[1, 1, 1, 1]' -o out.onnx
  onnxwire set m.onnx 'input:x.type.tensor_type.shape.dim[0]=batch' -i
  onnxwire set m.onnx tensor:fc.bias=@bias.npy 'tensor:scale[0]=0.5' -o out.onnx
  onnxwire set m.onnx 'opset_import[0]=21' -o - | onnxwire info /dev/stdin
"""


def add_parser(commands: Any) -> None:
    """Add the command to the parser's `commands`."""
    parser = add_command(commands, "set", _DESCRIPTION, _EXAMPLES)
    parser.add_argument("file", metavar="FILE")
    parser.add_argument("assignments", metavar="PATH=VALUE", nargs="+", help="a field and its new value")
    add_result(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Set the fields; returns the exit status."""
    with load_to_change(options) as model:
        for assignment in options.assignments:
            assign(model, assignment)
        save_result(model, options)
    return 0
