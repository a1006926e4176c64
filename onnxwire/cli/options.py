"""The common parts of several commands: how they are added, and their options."""

from __future__ import annotations

import argparse
import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from onnxwire.cli.commands import SUMMARIES
from onnxwire.errors import SaveError
from onnxwire.io.remote.address import without_credentials
from onnxwire.messages import SCHEMA

_LOCAL_COMMANDS = ("completion", "encode")  # which take no address


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        """End with one line, where argparse's has the usage before it."""
        text = f"onnxwire: {without_credentials(message)}; see `{self.prog} --help`"
        self.exit(2, text.replace("\n", "\\n") + "\n")

    def _print_message(self, message: str, file: Any = None) -> None:
        """Print, where argparse says nothing of a stream that can't be written."""
        (file or sys.stderr).write(message)


class CommandParser(Parser):
    """A parser that takes words and options in any order: `ls FILE --nodes PATTERN` as well as `ls FILE PATTERN`."""

    _is_inside = False

    def format_help(self) -> str:
        """As argparse's, with what the command does before how it is called."""
        description, self.description = self.description, None
        try:
            return f"{description.strip()}\n\n{super().format_help()}" if description else super().format_help()
        finally:
            self.description = description

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As argparse's, which alone would end an optional word before the first option."""
        if self._is_inside:
            return super().parse_known_args(args, namespace)
        self._is_inside = True
        try:
            return self.parse_known_intermixed_args(args, namespace)
        finally:
            self._is_inside = False


def add_command(commands: Any, name: str, description: str, examples: str) -> argparse.ArgumentParser:
    """Add a command to the parser's `commands`; examples: what its help ends with."""
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=SUMMARIES[name],
        description=description,
        epilog=examples,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    if name not in _LOCAL_COMMANDS:
        group = parser.add_argument_group("files on servers")
        group.add_argument(
            "--allow-host", metavar="HOST[:PORT]", action="append", help="a server that others may redirect to"
        )
        group.add_argument("--cache", metavar="DIR", help="a folder in which what is fetched is kept for later")
    return parser


@contextmanager
def server_settings(options: argparse.Namespace) -> Iterator[None]:
    """Have --allow-host and --cache hold for the time of a command, in the processes that it starts too."""
    hosts, cache = getattr(options, "allow_host", None), getattr(options, "cache", None)
    values = {"ONNXWIRE_ALLOW_HOSTS": hosts and ",".join(hosts), "ONNXWIRE_CACHE": cache}
    before = {name: os.environ.get(name) for name in values}
    os.environ.update({name: value for name, value in values.items() if value is not None})
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def whole_number(text: str) -> int:
    """Read an option's number, 0 or more."""
    if not (text.isascii() and text.isdecimal() and len(text) <= 18):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number")
    return int(text)


def add_type(parser: argparse.ArgumentParser, help: str, default: str | None = "ModelProto", *more: str) -> None:
    """Add --type, the name of a message; more: other words that it takes."""
    names = [name.partition(".")[2] for name in SCHEMA.messages]
    parser.add_argument("--type", metavar="MESSAGE", default=default, choices=[*names, *more], help=help)


def add_output(parser: argparse.ArgumentParser) -> None:
    """Add -o, the file to write."""
    parser.add_argument("-o", "--output", metavar="OUT", default="-", help="the file to write; - for stdout")


def add_progress(parser: argparse.ArgumentParser) -> None:
    """Add --no-progress."""
    parser.add_argument("--no-progress", action="store_true", help="draw no progress bar")


def add_external_root(parser: argparse.ArgumentParser) -> None:
    """Add --external-root."""
    parser.add_argument(
        "--external-root", metavar="DIR", help="another folder that the weights may be in, beside the model's own"
    )


def refuse_terminal(output: str | None) -> None:
    """Raise SaveError where a binary file would be written to a terminal."""
    if output == "-" and sys.stdout.isatty():
        raise SaveError(errno.EINVAL, "a terminal can't show a binary file; name one after -o, or redirect", "<stdout>")
