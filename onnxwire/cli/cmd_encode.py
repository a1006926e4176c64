"""`onnxwire encode`: text or JSON to a binary file."""

from __future__ import annotations

import argparse
import os
import stat
import sys
from contextlib import nullcontext
from io import BytesIO
from typing import IO, Any

from onnxwire.cli.options import add_command, add_output, add_progress, add_type, refuse_terminal
from onnxwire.cli.output import refuse_overwriting_input
from onnxwire.cli.progress import progress_bar
from onnxwire.engine.input_file import open_input, read_input
from onnxwire.engine.message import Message
from onnxwire.errors import SourceError
from onnxwire.io.remote.address import shown_source
from onnxwire.io.save import save
from onnxwire.messages import SCHEMA

_DESCRIPTION = """\
Convert protobuf's text format to a binary file, as `protoc --encode=onnx.ModelProto` does, or JSON with --json. The
input can be the output of `onnxwire dump` without --max-bytes and --digests, edited or not. If the text has a fault, no
file is written.
"""
_EXAMPLES = """\
examples:
  onnxwire encode model.txt -o model.onnx
  onnxwire dump model.onnx | sed s/Relu/Gelu/ | onnxwire encode -o edited.onnx
  onnxwire encode model.json --json -o model.onnx
  onnxwire encode tensor.txt --type TensorProto > tensor.pb
"""


def add_parser(commands: Any) -> None:
    """Add the command to the parser's `commands`."""
    parser = add_command(commands, "encode", _DESCRIPTION, _EXAMPLES)
    parser.add_argument("file", metavar="FILE", nargs="?", default="-", help="the text; default: - for stdin")
    parser.add_argument("--json", action="store_true", help="the text is JSON")
    add_type(parser, "the message in the text, such as TensorProto; default: ModelProto")
    parser.add_argument(
        "--ignore-unknown", action="store_true", help="skip unknown fields, such as fields of a newer ONNX"
    )
    add_output(parser)
    add_progress(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Encode the text; returns the exit status."""
    out, path = options.output, options.file
    refuse_terminal(out)
    if path != "-":
        refuse_overwriting_input(path, out)
    try:
        with nullcontext(sys.stdin.buffer) if path == "-" else _open(path) as file:
            message = _read(file, options)
    except SourceError:
        raise
    except OSError as error:
        raise SourceError.from_os_error(error, "<stdin>" if path == "-" else path) from None
    with progress_bar(f"writing {shown_source(out)}", not options.no_progress) as progress:
        save(message, sys.stdout.buffer if out == "-" else out, progress=progress)
    return 0


def _open(path: str) -> IO[bytes]:
    """Open a file for reading. A pipe or device is read to its end first."""
    try:
        file = open(path, "rb", opener=lambda name, _: open_input(name))  # noqa: SIM115
    except (OSError, ValueError) as error:
        raise SourceError.from_os_error(error, path) from None
    if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        return file
    with file:
        buffer = BytesIO(read_input(file.fileno(), path))
    buffer.name = path  # error messages contain the name
    return buffer


def _read(file: IO[bytes], options: argparse.Namespace) -> Message:
    """Parse the text of a file."""
    cls = SCHEMA.messages[f"onnx.{options.type}"]
    if options.json:
        from onnxwire.text.json_reader import from_json as parse
    else:
        from onnxwire.text.text_reader import from_text as parse
    return parse(file, cls, ignore_unknown=options.ignore_unknown)
