"""`onnxwire set`: set fields of a model by their paths."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from onnxwire.cli.options import add_command
from onnxwire.cli.result import add_result, load_to_change, save_result
from onnxwire.cli.terminal import join_first_names
from onnxwire.errors import EditError
from onnxwire.io.remote.address import shown_source
from onnxwire.messages import ModelProto
from onnxwire.transforms.assign import assign, check_type

_DESCRIPTION = """\
Set fields of a model by their paths, and save it. All other fields stay unchanged, and weights are copied from file to
file, so that a model of any size needs little memory.
"""
_EXAMPLES = """\
values:
  a number, true or false, the name of an enum's value, or plain text
  [1, 2, 3]            for a repeated field; texts with commas in them as ["a, b", "c"]
  @FILE                for a field of bytes; @FILE.npy for a tensor, of the same data type and shape (or --force)
  {op_type: "Relu"}    for a message: protobuf's text format in braces
A PATH to an attribute, a metadata entry, an operator set or a dimension sets its value.

examples:
  onnxwire set m.onnx producer_name=me model_version=3 -o out.onnx
  onnxwire set m.onnx 'node:relu_1.op_type=Gelu' -i
  onnxwire set m.onnx 'node:conv1.attribute[pads]=[1, 1, 1, 1]' -o out.onnx
  onnxwire set m.onnx 'input:x.type.tensor_type.shape.dim[0]=batch' -i
  onnxwire set m.onnx tensor:fc.bias=@bias.npy 'tensor:scale[0]=0.5' -o out.onnx
  onnxwire set m.onnx --from finetuned.safetensors -o out.onnx
  onnxwire set m.onnx 'opset_import[0]=21' -o - | onnxwire info /dev/stdin
"""


def add_parser(commands: Any) -> None:
    """Add the command to the parser's `commands`."""
    parser = add_command(commands, "set", _DESCRIPTION, _EXAMPLES)
    parser.add_argument("file", metavar="FILE")
    parser.add_argument("assignments", metavar="PATH=VALUE", nargs="*", help="a field and its new value")
    parser.add_argument(
        "--from",
        metavar="WEIGHTS",
        dest="weights",
        help="assign the tensors of a .safetensors file by name",
    )
    parser.add_argument("--force", action="store_true", help="accept new tensors of another data type or shape")
    add_result(parser)
    parser.set_defaults(run=run, parser=parser)


def run(options: argparse.Namespace) -> int:
    """Set the fields; returns the exit status."""
    if not options.assignments and options.weights is None:
        options.parser.error("the following arguments are required: PATH=VALUE, or --from WEIGHTS")
    with load_to_change(options) as model:
        if options.weights is not None:
            _assign_weights(model, options.weights, options.force)
        for assignment in options.assignments:
            assign(model, assignment, keep_type=not options.force)
        save_result(model, options)
    return 0


def _assign_weights(model: ModelProto, path: str, force: bool) -> None:
    """Assign the tensors of a .safetensors file to the main graph's initializers of the same names.

    Warnings on stderr list names that only the file or only the model has. The payloads become raw_data of the model.
    Raises EditError if no tensor has the name of an initializer, or, without `force`, if a tensor of the file has
    another type or shape; the model is then unchanged.
    """
    from onnxwire.bridges.safetensors import from_safetensors, list_tensors

    file_tensors, initializers = list_tensors(path), {tensor.name: tensor for tensor in model.graph.initializer}
    names = [name for name in initializers if name in file_tensors]
    location = f"{shown_source(path)}: tensor "
    if not names:
        reason = "the file contains no tensors"
        if file_tensors:
            reason = f"no initializer has the name of a tensor in this file, such as {next(iter(file_tensors))!r}"
        raise EditError(reason, shown_source(path))
    if not force:
        for name in names:
            data_type, shape = file_tensors[name]
            try:
                check_type(initializers[name], data_type.number, shape)
            except EditError as error:
                raise EditError(error.reason, f"{location}{name!r}") from None
    from_safetensors(model, path, names=names, refer_to_file=False)
    for missing_names, container in (
        ([name for name in initializers if name not in file_tensors], "file"),
        ([name for name in file_tensors if name not in initializers], "model"),
    ):
        if missing_names:
            line = f"{shown_source(path)}: not in the {container}: {join_first_names(missing_names)}"
            print(f"onnxwire: warning: {line}", file=sys.stderr)
