"""`onnxwire unpack` and `onnxwire pack`: move a model's weights to external files, and back."""

from __future__ import annotations

import argparse
import errno
import os
import sys
from typing import IO, Any

from onnxwire.analysis.sizes import parse_size
from onnxwire.cli.options import add_command, add_external_root, add_progress, refuse_terminal
from onnxwire.cli.progress import progress_bar
from onnxwire.errors import SaveError, count_text
from onnxwire.io.load import load
from onnxwire.io.remote.address import shown_source
from onnxwire.io.save import DEFAULT_THRESHOLD, save
from onnxwire.io.tensor_list import tensors

_UNPACK_DESCRIPTION = """\
Move the weights of a model to files in OUT's folder (external data). Then the model is small enough for every tool, and
many processes can share the weights. OUT may be MODEL; the new files replace old ones when all are complete.
"""
_UNPACK_EXAMPLES = """\
examples:
  onnxwire unpack model.onnx -o out/model.onnx                 the weights go to out/model.data
  onnxwire unpack model.onnx -o model.onnx --data weights.bin
  onnxwire unpack model.onnx -o out/model.onnx --data 'weights/{name}.bin'
  onnxwire unpack big.onnx -o out/big.onnx --shard-size 2G     out/big-00001-of-00003.data and so on
"""
_PACK_DESCRIPTION = """\
Combine a model and its external data in one file. The files of external data stay unchanged. OUT may be MODEL; the new
file replaces it when it is complete.
"""
_PACK_EXAMPLES = """\
examples:
  onnxwire pack model.onnx -o packed.onnx
  onnxwire pack model.onnx -o packed.onnx --inline-align 4096
  onnxwire pack model.onnx -o packed.onnx --external-root /mnt/weights
"""


def add_unpack_parser(commands: Any) -> None:
    """Add `unpack` to the parser's `commands`."""
    parser = _add_parser(commands, "unpack", _UNPACK_DESCRIPTION, _UNPACK_EXAMPLES)
    parser.add_argument(
        "--data",
        metavar="NAME",
        help="the file for the weights, relative to OUT's folder; with {name} in it, one file per tensor; default: "
        "OUT's name with the extension .data",
    )
    parser.add_argument(
        "--threshold",
        metavar="SIZE",
        type=_parse_size_option,
        default=DEFAULT_THRESHOLD,
        help=f"keep tensors of fewer bytes in the model; default: {DEFAULT_THRESHOLD}",
    )
    parser.add_argument(
        "--align",
        metavar="N",
        type=_parse_size_option,
        default=4096,
        help="align each tensor to a multiple of N bytes; default: 4K",
    )
    parser.add_argument(
        "--shard-size", metavar="SIZE", type=_parse_size_option, help="start a new file before a file would exceed SIZE"
    )
    parser.add_argument("--checksum", action="store_true", help="store the SHA-1 of each written file in the model")
    parser.add_argument("--overwrite", action="store_true", help="also replace files that do not belong to the model")
    parser.set_defaults(run=run_unpack)


def add_parser(commands: Any) -> None:
    """Add `pack` to the parser's `commands`."""
    parser = _add_parser(commands, "pack", _PACK_DESCRIPTION, _PACK_EXAMPLES)
    parser.add_argument(
        "--inline-align",
        metavar="N",
        type=_parse_size_option,
        default=1,
        help="align each tensor to a multiple of N bytes in the file, by padding that other tools skip; default: 1",
    )
    parser.add_argument(
        "--threshold",
        metavar="SIZE",
        type=_parse_size_option,
        default=DEFAULT_THRESHOLD,
        help=f"do not align tensors of fewer bytes; default: {DEFAULT_THRESHOLD}",
    )
    parser.set_defaults(run=run_pack)


def _add_parser(commands: Any, name: str, description: str, examples: str) -> argparse.ArgumentParser:
    """Add a command with the options that `pack` and `unpack` share."""
    size_note = "Sizes are in bytes; K, M, G and T are powers of 1024."
    parser = add_command(commands, name, description, f"{examples}\n{size_note}\n")
    stdout_note = "; - for stdout" if name == "pack" else ""
    parser.add_argument("file", metavar="MODEL")
    parser.add_argument("-o", "--output", metavar="OUT", required=True, help=f"the model to write{stdout_note}")
    add_external_root(parser)
    parser.add_argument("-v", "--verbose", action="store_true", help="list the written files on stderr")
    add_progress(parser)
    return parser


def _parse_size_option(text: str) -> int:
    """Read a number of bytes, such as 4096, 64K or 2G."""
    size = parse_size(text)
    if size is None or size >= 1 << 63:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size; write it as 4096, 64K, 500M or 2G")
    return size


def run_unpack(options: argparse.Namespace) -> int:
    """Move the weights to external files; returns the exit status."""
    if options.output == "-":
        raise SaveError(errno.EINVAL, "the weights need a folder; name a file after -o", "<stdout>")
    # The default is passed as a function, since braces in OUT's name must not be read as a pattern.
    default_name = os.path.splitext(os.path.basename(options.output))[0] + ".data"
    return _save(
        options,
        options.output,
        external=(lambda tensor: default_name) if options.data is None else options.data,
        threshold=options.threshold,
        align=options.align,
        shard_size=options.shard_size,
        checksum=options.checksum,
        overwrite=options.overwrite,
    )


def run_pack(options: argparse.Namespace) -> int:
    """Move the weights into the model; returns the exit status."""
    refuse_terminal(options.output)
    out = sys.stdout.buffer if options.output == "-" else options.output
    return _save(options, out, external=None, inline_align=options.inline_align, threshold=options.threshold)


def _save(options: argparse.Namespace, out: str | IO[bytes], **save_options: Any) -> int:
    """Load the model and save it to `out`. save_options: arguments of `save`. Returns the exit status."""
    with (
        load(options.file, external_root=options.external_root) as model,
        progress_bar(f"writing {shown_source(options.output)}", not options.no_progress) as progress,
    ):
        save(model, out, progress=progress, **save_options)
    if options.verbose and os.path.isfile(options.output):
        _list_files(options.output)
    return 0


def _list_files(path: str) -> None:
    """Print a line on stderr for each file of a model: its size, and the number of its tensors."""
    counts = {path: 0}
    for tensor in tensors(path):
        file = tensor.file or path
        counts[file] = counts.get(file, 0) + 1
    for file, count in counts.items():
        print(f"{file}: {os.path.getsize(file):,} bytes, {count_text(count, 'tensor')}", file=sys.stderr)
