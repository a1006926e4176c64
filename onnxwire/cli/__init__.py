"""The command line: `onnxwire COMMAND`, one module a command."""

from __future__ import annotations

import argparse
import io
import os
import sys
import warnings

from onnxwire._version import __version__
from onnxwire.cli import check, diff, dump, encode, extract, info, ls, meta, pack, rename, rm, show, stats, view
from onnxwire.cli import set as set_command
from onnxwire.cli.options import CommandParser
from onnxwire.errors import Error

_EXAMPLES = """\
examples:
  onnxwire info model.onnx              what is in a model: inputs, outputs, operators, tensors
  onnxwire info model.onnx --json       the same as JSON
  onnxwire info broken.onnx --raw       every tag with its byte offset, up to the fault
  onnxwire check model.onnx             every rule of the ONNX IR that a model breaks, and where
  onnxwire ls model.onnx --tree         sizes of the tensors by prefix of their names
  onnxwire view model.onnx              a model in the browser; -o report.html for a report
  onnxwire show model.onnx tensor:w0    a tensor with its range, mean, NaNs and a histogram
  onnxwire stats model.onnx             the same of every tensor; --plot weights.html
  onnxwire diff a.onnx b.onnx           what two models differ in, weights included
  onnxwire extract m.onnx --outputs y -o part.onnx      the part of a model that computes y
  onnxwire set m.onnx node:relu.op_type=Gelu -i         a field by its path; also rename, rm, meta
  onnxwire dump model.onnx              all of a model as text, as protoc --decode prints it
  onnxwire encode model.txt -o m.onnx   the model that a text describes
  onnxwire unpack big.onnx -o m.onnx    weights moved to m.data, so that every tool can read m.onnx
  onnxwire pack m.onnx -o one.onnx      a model and the files beside it as one file
"""
# What errors and warnings of the library advise, as the commands have it.
_ADVICE = {
    "overwrite=True": "--overwrite",
    ", or give external_data=": "",
    "external_root=": "--external-root",
    "(external data)": "(onnxwire unpack)",
}

OK, TROUBLE = 0, 2


def main(arguments: list[str] | None = None) -> int:
    """Run one command.

    arguments: the words after the program's name, by default the process's own.
    Returns the exit status: 0, 1 where a check found something, or 2 where something could not be done.
    """
    parser = argparse.ArgumentParser(
        prog="onnxwire",
        description="Look into ONNX files of any size, without protobuf.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"onnxwire {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=CommandParser)
    info.add_parser(commands)
    check.add_parser(commands)
    ls.add_parser(commands)
    show.add_parser(commands)
    stats.add_parser(commands)
    dump.add_parser(commands)
    encode.add_parser(commands)
    pack.add_unpack_parser(commands)
    pack.add_pack_parser(commands)
    view.add_parser(commands)
    diff.add_parser(commands)
    extract.add_parser(commands)
    set_command.add_parser(commands)
    rename.add_parser(commands)
    rm.add_parser(commands)
    meta.add_parser(commands)
    options = parser.parse_args(arguments)
    if options.command is None:
        parser.print_help()
        return TROUBLE
    # A name in a file may hold what the terminal's encoding has no sign for.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        with warnings.catch_warnings():
            warnings.showwarning = lambda message, *where: _complain(f"warning: {message}")
            status: int = options.run(options)
        sys.stdout.flush()
        return status
    except Error as error:
        # What was printed before it comes first.
        sys.stdout.flush()
        _complain(str(error))
        return TROUBLE
    except BrokenPipeError:
        # The reader went away. The interpreter must not try to flush again at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except KeyboardInterrupt:
        return 128 + 2


def _complain(text: str) -> None:
    """Print a line on stderr; one, whatever is in a name."""
    for ours, shell in _ADVICE.items():
        text = text.replace(ours, shell)
    print("onnxwire:", text.replace("\n", "\\n"), file=sys.stderr)
