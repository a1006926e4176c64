"""`onnxwire extract`: save a part of a model as a model, or tensors as files."""

from __future__ import annotations

import argparse
import errno
import os
import sys
from fnmatch import fnmatchcase
from typing import Any

from onnxwire.analysis.paths import ambiguous_name_error, resolve
from onnxwire.cli.options import add_command, add_progress, refuse_terminal
from onnxwire.cli.progress import progress_bar
from onnxwire.cli.terminal import safe_text
from onnxwire.errors import PathError, SaveError, TensorError
from onnxwire.io.load import load
from onnxwire.io.references import reject_own_data_file
from onnxwire.io.remote.address import shown_source
from onnxwire.io.save import save
from onnxwire.messages import ModelProto, TensorProto
from onnxwire.transforms.extract import cut

_DESCRIPTION = """\
Cut a part out of a model at values: the nodes and initializers that compute --outputs from --inputs, the types of the
values, the functions that the nodes call, and the model's metadata. Or write tensors to a file of numpy or safetensors.
"""
_EXAMPLES = """\
Values are named as in `onnxwire ls FILE --values`; a name with commas needs an option of its own: --inputs 'x,1'
--inputs y. Without --inputs the part has the inputs of the model that it needs.

examples:
  onnxwire extract m.onnx --outputs relu_1 -o head.onnx
  onnxwire extract m.onnx --inputs relu_1 --outputs logits -o tail.onnx
  onnxwire extract m.onnx --tensor fc.weight -o weight.npy
  onnxwire extract m.onnx --tensor 'layers.0.*' -o layer0.npz
  onnxwire extract m.onnx --tensor '*' -o weights.safetensors
"""
# The extensions of files of tensors.
_TENSOR_EXTENSIONS = (".npy", ".npz", ".safetensors")


def add_parser(commands: Any) -> None:
    """Add the command to the parser's `commands`."""
    parser = add_command(commands, "extract", _DESCRIPTION, _EXAMPLES)
    parser.add_argument("file", metavar="FILE")
    parser.add_argument(
        "--inputs", metavar="NAMES", action="append", help="values that become inputs of the part: a,b; repeatable"
    )
    parser.add_argument(
        "--outputs", metavar="NAMES", action="append", help="values that become outputs of the part: c,d; repeatable"
    )
    parser.add_argument(
        "--tensor",
        metavar="NAME",
        action="append",
        help="the name or path of a tensor to write; *, ? and [...] match names of initializers; repeatable",
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="OUT",
        required=True,
        help="the model to write, - for stdout; with --tensor a name that ends with .npy, .npz or .safetensors",
    )
    add_progress(parser)
    parser.set_defaults(run=run, parser=parser)


def run(options: argparse.Namespace) -> int:
    """Write a part of the model, or tensors; returns the exit status."""
    if bool(options.outputs) == bool(options.tensor) or (options.inputs and options.tensor):
        options.parser.error("name either --outputs of a part, or a --tensor")
    if options.tensor:
        return _write_tensors(options)
    out = options.output
    refuse_terminal(out)
    with load(options.file) as model:
        names = _find_names_with_commas(model)
        inputs = None if options.inputs is None else _split_names(options.inputs, names)
        cut(model, inputs, _split_names(options.outputs, names))
        with progress_bar(f"writing {shown_source(out)}", not options.no_progress) as progress:
            save(model, sys.stdout.buffer if out == "-" else out, progress=progress)
    return 0


def _find_names_with_commas(model: ModelProto) -> set[str]:
    """Return the names with commas of the main graph's inputs, initializers and outputs of nodes."""
    graph = model.graph
    names = {name for node in graph.node for name in node.output if "," in name}
    names.update(value.name for value in graph.input if "," in value.name)
    names.update(tensor.name for tensor in graph.initializer if "," in tensor.name)
    return names


def _split_names(texts: list[str], names_with_commas: set[str]) -> list[str]:
    """Split texts at commas; a text that is the name of a value is not split."""
    return [name for text in texts for name in ([text] if text in names_with_commas else text.split(",")) if name]


def _write_tensors(options: argparse.Namespace) -> int:
    """Write the tensors that --tensor selects to a file; returns the exit status."""
    out = options.output
    extension = os.path.splitext(out)[1].lower()
    if extension not in _TENSOR_EXTENSIONS:
        raise SaveError(
            errno.EINVAL, f"tensors are written to a file whose name ends with {' or '.join(_TENSOR_EXTENSIONS)}", out
        )
    with load(options.file) as model:
        reject_own_data_file(model, out)
        tensors = _select_tensors(model, options.tensor)
        if extension == ".npy" and len(tensors) > 1:
            reason = (
                f"an .npy file contains one tensor, not {len(tensors):,}; name an .npz or .safetensors file after -o"
            )
            raise SaveError(errno.EINVAL, reason, out)
        with progress_bar(f"writing {shown_source(out)}", not options.no_progress) as progress:
            if extension == ".safetensors":
                from onnxwire.bridges.safetensors import to_safetensors

                weights_model = ModelProto()
                for name, tensor in tensors.items():
                    weights_model.graph.initializer.append(tensor)
                    weights_model.graph.initializer[-1].name = name
                to_safetensors(weights_model, out, progress=progress)
                return 0
            from onnxwire.bridges.npy import describe_stored_type, to_npy, to_npz

            if extension == ".npz":
                to_npz(tensors, out, progress=progress)
            else:
                to_npy(next(iter(tensors.values())), out, progress=progress)
        notes: dict[str, str] = {}  # from a note about a changed type to the name of the first tensor with it
        for name, tensor in tensors.items():
            notes.setdefault(describe_stored_type(tensor), name)
        for note, name in notes.items():
            if note:
                print(f"onnxwire: note: {safe_text(name)}: {note}", file=sys.stderr)
    return 0


def _select_tensors(model: ModelProto, patterns: list[str]) -> dict[str, TensorProto]:
    """Return the tensors that match names, paths and patterns, by their names in the output."""
    initializers: dict[str, dict[str, TensorProto]] = {}  # by name, then by path
    for index, tensor in enumerate(model.graph.initializer):
        initializers.setdefault(tensor.name, {})[f"graph.initializer[{index}]"] = tensor
    selected_tensors: dict[str, dict[str, TensorProto]] = {}
    for pattern in patterns:
        for name, tensors in _match_tensors(model, initializers, pattern).items():
            selected_tensors.setdefault(name, {}).update(tensors)
    for name, tensors in selected_tensors.items():
        if len(tensors) > 1:
            if tensors.keys() <= set(patterns):
                raise TensorError(f"{', '.join(tensors)} have this name; extract them into separate files", name)
            raise ambiguous_name_error(model, name, name, list(tensors))
    return {name: tensor for name, tensors in selected_tensors.items() for tensor in tensors.values()}


def _match_tensors(
    model: ModelProto, initializers: dict[str, dict[str, TensorProto]], pattern: str
) -> dict[str, dict[str, TensorProto]]:
    """Return the tensors that match one name, path or pattern, by name and path."""
    if pattern in initializers:
        return {pattern: initializers[pattern]}
    if any(character in pattern for character in "*?["):
        matches = {name: tensors for name, tensors in initializers.items() if fnmatchcase(name, pattern)}
        if matches:
            return matches
        if "[" not in pattern:
            raise TensorError("the pattern matches no initializer; `onnxwire ls FILE` lists them", pattern)
    # `pattern` is the name of a tensor of any graph or Constant node, or a path: graph.node[3].attribute[0].t.
    try:
        target = resolve(model, f"tensor:{pattern}")
    except PathError:
        if pattern.partition(".")[0] not in ModelProto.DESCRIPTOR.fields_by_name:
            raise
        target = resolve(model, pattern)
    if not isinstance(target.value, TensorProto) or target.index is not None:
        raise TensorError("this is not a tensor; write the name or path of a tensor", pattern)
    return {target.value.name or pattern: {target.path: target.value}}
