"""The command line: `onnxwire COMMAND`, one module per command."""

from __future__ import annotations

import io
import os
import sys
import warnings
from collections.abc import Iterable
from importlib import import_module
from typing import IO

from onnxwire._version import __version__
from onnxwire.cli.commands import GROUPS, SUMMARIES, WIDTH
from onnxwire.cli.options import CommandParser, Parser, server_settings
from onnxwire.cli.terminal import CleanTerminal, clean_terminals, given_streams, safe_text
from onnxwire.errors import Error, FileError, did_you_mean
from onnxwire.io.remote.address import without_credentials

_EXAMPLES = """\
examples:
  onnxwire info model.onnx              the contents of a model: inputs, outputs, operators, tensors
  onnxwire info model.onnx --json       the same as JSON
  onnxwire info broken.onnx --raw       every tag with its byte offset, up to the fault
  onnxwire check model.onnx             every violation of a rule of the ONNX IR, and its location
  onnxwire ls model.onnx --tree         sizes of the tensors by prefix of their names
  onnxwire view model.onnx              a model in the browser; -o report.html for a report
  onnxwire show model.onnx tensor:w0    a tensor with its range, mean, NaNs and a histogram
  onnxwire stats model.onnx             the same for every tensor; --plot weights.html
  onnxwire sql model.onnx 'select op_type, count(*) from nodes group by 1'
  onnxwire diff a.onnx b.onnx           the differences between two models, including weights
  onnxwire extract m.onnx --outputs y -o part.onnx      the part of a model that computes y
  onnxwire set m.onnx node:relu.op_type=Gelu -i         a field by its path; also rename, rm, meta
  onnxwire infer big.onnx -o typed.onnx                 shapes, inferred by the onnx package
  onnxwire dump model.onnx              the whole model as text, like protoc --decode
  onnxwire encode model.txt -o m.onnx   a model from its text
  onnxwire unpack big.onnx -o m.onnx    weights moved to m.data, so that every tool can read m.onnx
  onnxwire pack m.onnx -o one.onnx      a model and its external data as one file

exit status:
  0    success
  1    a difference, a problem, or no match was found
  2    error: a file that can't be read or written, a path that leads nowhere, a wrong option
  130  interrupted by Ctrl-C
"""
# Parameters in errors and warnings of the library, and the options of the commands for them.
_ADVICE = {
    "overwrite=True": "--overwrite",
    " or external_data=": "",
    "allow_hosts=": "--allow-host",
    "cache= or ONNXWIRE_CACHE": "--cache or ONNXWIRE_CACHE",
    "external_root=": "--external-root",
    "(external data)": "(onnxwire unpack)",
}

OK, TROUBLE = 0, 2
_STDOUT = "<stdout>"


class _Parser(Parser):
    """The parser of `onnxwire` itself, whose help lists every command without importing one."""

    def format_help(self) -> str:
        lines = ["Look into ONNX files of any size, without protobuf.", "", "usage: onnxwire COMMAND ..."]
        for group, commands in GROUPS.items():
            lines += ["", f"{group}:", *(f"  {name:<{WIDTH}}{summary}" for name, summary in commands.items())]
        lines += ["", "options:", "  -h, --help  this help; `onnxwire COMMAND --help` describes a command"]
        lines += ["  --version   the version", "", _EXAMPLES]
        return "\n".join(lines)


def make_parser(names: Iterable[str]) -> Parser:
    """Make a parser of some commands, importing their modules."""
    parser = _Parser(prog="onnxwire")
    parser.add_argument("--version", action="version", version=f"onnxwire {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", prog="onnxwire", parser_class=CommandParser)
    for name in names:
        import_module(f"onnxwire.cli.cmd_{name.replace('-', '_')}").add_parser(commands)
    return parser


def main(arguments: list[str] | None = None) -> int:
    """Run one command.

    arguments: the words after the program's name, by default sys.argv[1:].
    Returns the exit status: 0 for success, 1 for "no", 2 for an error, 130 after Ctrl-C.
    """
    with given_streams(), clean_terminals():
        try:
            try:
                return _run(arguments)
            finally:
                # Before any error message; errors of the interpreter's own flush at exit could not be reported.
                sys.stdout.flush()
        except (Error, OSError) as error:
            # Only errors of files have a file name; errors of stdout have none.
            name = getattr(error, "filename", None)
            if isinstance(error, OSError) and name in (None, _STDOUT):
                _abandon(sys.stdout)
                if isinstance(error, BrokenPipeError):
                    return OK  # the reader closed the pipe
            if not isinstance(error, Error):
                error = FileError.from_os_error(error, name or _STDOUT)
            _complain(str(error))
            return TROUBLE
        except KeyboardInterrupt:
            return 128 + 2


def _run(arguments: list[str] | None) -> int:
    words = sys.argv[1:] if arguments is None else arguments
    name = next((word for word in words if not word.startswith("-")), None)
    parser = make_parser([name] if name in SUMMARIES else [])
    if name is not None and name not in SUMMARIES:
        parser.parse_known_args(words[: words.index(name)])
        parser.error(f"there is no command {name!r}{did_you_mean(name, SUMMARIES)}")
    options, unknown = parser.parse_known_args(words)
    if unknown:
        parser.prog += f" {name}" if name is not None else ""
        parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    if options.command is None:
        parser.print_help()
        return TROUBLE
    # Names in a file may contain characters that the terminal's encoding lacks.
    for stream in (sys.stdout, sys.stderr):
        stream = stream.stream if isinstance(stream, CleanTerminal) else stream
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    with warnings.catch_warnings(), server_settings(options):
        warnings.showwarning = lambda message, *where: _complain(f"warning: {message}")
        status: int = options.run(options)
    return status


def _abandon(stream: IO[str]) -> None:
    """Discard the buffer of a stream that can't be written, which would fail again when the interpreter exits."""
    with open(os.devnull, "wb") as nothing:
        os.dup2(nothing.fileno(), stream.fileno())


def _complain(text: str) -> None:
    """Print one line on stderr, with control characters escaped and without passwords in addresses."""
    for ours, shell in _ADVICE.items():
        text = text.replace(ours, shell)
    text = without_credentials(text)
    line = safe_text(text) if sys.stderr.isatty() else text.replace("\n", "\\n")
    try:
        print("onnxwire:", line, file=sys.stderr)
    except OSError:
        _abandon(sys.stderr)  # the exit status still reports the error
