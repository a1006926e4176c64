"""The parser of the command line, and its help."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from importlib import import_module

from onnxwire._version import __version__
from onnxwire.cli.commands import GROUPS, NAME_COLUMN_CHARS
from onnxwire.cli.options import Formatter
from onnxwire.io.remote.address import without_credentials

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

_EXAMPLES = """\
examples:
  onnxwire info model.onnx              the contents of a model: inputs, outputs, operators, tensors
  onnxwire info model.onnx --json       the same as JSON
  onnxwire info broken.onnx --raw       every tag with its byte offset, up to the fault
  onnxwire check model.onnx             violations of the rules of the ONNX IR, with their locations
  onnxwire ls model.onnx --tree         sizes of the tensors by prefix of their names
  onnxwire view model.onnx              a model in the browser; -o report.html for a report
  onnxwire show model.onnx tensor:w0    a tensor with its range, mean, NaNs and a histogram
  onnxwire stats model.onnx             the same for every tensor; --plot weights.html
  onnxwire sql model.onnx 'select op_type, count(*) from nodes group by 1'
  onnxwire diff a.onnx b.onnx           the differences between two models, including weights
  onnxwire extract m.onnx --outputs y -o part.onnx      the part of a model that computes y
  onnxwire set m.onnx node:relu.op_type=Gelu -i         a changed field; also rename, rm, dims, meta
  onnxwire infer big.onnx -o typed.onnx                 shapes, inferred by the onnx package
  onnxwire dump model.onnx              the whole model as text, like protoc --decode
  onnxwire encode model.txt -o m.onnx   a model from its text
  onnxwire unpack big.onnx -o m.onnx    weights moved to m.data, so that every tool can read m.onnx
  onnxwire pack m.onnx -o one.onnx      a model and its external data as one file

exit status:
  0    success
  1    a negative result, such as a difference, a problem or no match
  2    error: a file that can't be read or written, a path that does not exist, an invalid option
  130  interrupted by Ctrl-C
"""


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        """Exit with one line; argparse would print the usage before it."""
        separator = "" if message.endswith("?") else ";"
        text = f"onnxwire: {without_credentials(message)}{separator} see `{self.prog} --help`"
        self.exit(2, text.replace("\n", "\\n") + "\n")

    def _print_message(self, message: str, file: Any = None) -> None:
        """Print a message and report write errors, which argparse would ignore."""
        (file or sys.stderr).write(message)


class CommandParser(Parser):
    """A parser that accepts positional words and options in any order, such as `ls FILE --nodes PATTERN`."""

    _is_intermixed = False  # whether `parse_known_intermixed_args` is running, which calls `parse_known_args`

    def format_help(self) -> str:
        """Format the help with the description before the usage."""
        description, self.description = self.description, None
        try:
            return f"{description.strip()}\n\n{super().format_help()}" if description else super().format_help()
        finally:
            self.description = description

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse intermixed words and options; argparse alone would not accept an optional word after an option."""
        if self._is_intermixed:
            return super().parse_known_args(args, namespace)
        self._is_intermixed = True
        try:
            return self.parse_known_intermixed_args(args, namespace)
        finally:
            self._is_intermixed = False


class ProgramParser(Parser):
    """The parser of `onnxwire` itself, whose help lists every command without importing one."""

    def format_help(self) -> str:
        """List the commands by group, and examples."""
        lines = ["Inspect, check and edit ONNX files of any size, without protobuf.", "", "usage: onnxwire COMMAND ..."]
        for group, commands in GROUPS.items():
            lines += [
                "",
                f"{group}:",
                *(f"  {name:<{NAME_COLUMN_CHARS}}{summary}" for name, summary in commands.items()),
            ]
        lines += ["", "options:", "  -h, --help  this help; `onnxwire COMMAND --help` describes a command"]
        lines += ["  --version   the version", "", _EXAMPLES]
        return "\n".join(lines)


def list_options(parser: argparse.ArgumentParser, command: str) -> list[str]:
    """Return the options of a command of the parser, such as --json."""
    choices = next(action.choices for action in parser._actions if action.dest == "command")
    return [text for action in choices[command]._actions for text in action.option_strings]  # type: ignore[index]


def make_parser(names: Iterable[str]) -> Parser:
    """Make a parser of some commands, importing their modules."""
    parser = ProgramParser(prog="onnxwire", formatter_class=Formatter)
    parser.add_argument("--version", action="version", version=f"onnxwire {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", prog="onnxwire", parser_class=CommandParser)
    for name in names:
        import_module(f"onnxwire.cli.cmd_{name.replace('-', '_')}").add_parser(commands)
    return parser
