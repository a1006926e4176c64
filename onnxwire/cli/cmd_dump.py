"""`onnxwire dump`: a whole file as text or JSON."""

from __future__ import annotations

import argparse
import sys
from typing import IO, Any

from onnxwire.cli.options import add_command, add_output, add_type, parse_whole_number
from onnxwire.cli.output import open_text_output, refuse_overwriting_input
from onnxwire.engine.message import Message
from onnxwire.engine.verify import verify_document
from onnxwire.io.load import load
from onnxwire.io.references import reject_own_data_file
from onnxwire.messages import SCHEMA
from onnxwire.text.json_writer import to_json
from onnxwire.text.text_writer import Summary, to_text

_DESCRIPTION = """\
Print a model in protobuf's text format, exactly as `protoc --decode=onnx.ModelProto` does, or as JSON. The file may
have any size: it is read in pieces.
"""
_EXAMPLES = """\
examples:
  onnxwire dump model.onnx --max-bytes 64        everything except long values
  onnxwire dump model.onnx --digests             everything, with a digest of each tensor in place of its elements
  onnxwire dump model.onnx -o model.txt
  onnxwire dump model.onnx --json | jq '.graph.node[].opType'
  onnxwire dump tensor.pb --type TensorProto
"""


def add_parser(commands: Any) -> None:
    """Add the command to the parser's `commands`."""
    parser = add_command(commands, "dump", _DESCRIPTION, _EXAMPLES)
    parser.add_argument("file", metavar="FILE")
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_type(parser, "the message in the file, such as TensorProto; default: ModelProto")
    parser.add_argument(
        "--max-bytes",
        metavar="N",
        type=parse_whole_number,
        help="print only the size of strings and bytes above N bytes, and of repeated numbers above N elements",
    )
    parser.add_argument(
        "--digests",
        action="store_true",
        help="print type, shape, size and XXH3 digest of each tensor in place of its elements, inline or external",
    )
    add_output(parser)
    parser.set_defaults(run=run, parser=parser)


def run(options: argparse.Namespace) -> int:
    """Print the file; returns the exit status."""
    if options.json and options.digests:
        options.parser.error("--digests is for text; `onnxwire ls --json` lists tensors as JSON")
    with load(options.file, type=SCHEMA.messages[f"onnx.{options.type}"]) as message:
        # Refuse a damaged file before anything is printed.
        verify_document(message._document, type(message))
        if options.output == "-":
            _print(message, options, sys.stdout)
            return 0
        refuse_overwriting_input(options.file, options.output)
        reject_own_data_file(message, options.output)
        with open_text_output(options.output) as out:
            _print(message, options, out)
    return 0


def _print(message: Message, options: argparse.Namespace, out: IO[str]) -> None:
    """Write a message in the format that the options select."""
    if options.json:
        to_json(message, out, max_bytes=options.max_bytes)
        out.write("\n")
    else:
        summary: Summary | None = None
        if options.digests:
            from onnxwire.analysis.payload_summary import payload_summary

            summary = payload_summary
        to_text(message, out, max_bytes=options.max_bytes, as_protoc=True, summary=summary)
