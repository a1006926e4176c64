"""Options that several commands share."""

from __future__ import annotations

import argparse
import errno
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from onnxwire.cli.commands import SUMMARIES
from onnxwire.errors import SaveError
from onnxwire.io.remote.settings import HEADERS_VARIABLE, UNTRUSTED_VARIABLE, parse_header
from onnxwire.messages import SCHEMA

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_LOCAL_COMMANDS = ("completion", "encode", "git")  # commands that read no remote files


class Formatter(argparse.RawDescriptionHelpFormatter):
    """A formatter that reads the terminal's width without shutil, which argparse would import."""

    def __init__(self, prog: str, **options: Any) -> None:
        try:
            columns = int(os.environ["COLUMNS"])
        except (KeyError, ValueError):
            try:
                columns = os.get_terminal_size().columns
            except OSError:
                columns = 80
        super().__init__(prog, **({"width": columns - 2} | options))


def add_command(
    commands: Any, name: str, description: str, examples: str, untrusted_help: str = "refuse redirects of servers"
) -> argparse.ArgumentParser:
    """Add a command to the parser's `commands`.

    examples: the end of the command's help. untrusted_help: the help of --untrusted.
    """
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=SUMMARIES[name],
        description=description,
        epilog=examples,
        formatter_class=Formatter,
    )
    if name not in _LOCAL_COMMANDS:
        group = parser.add_argument_group("files on servers")
        group.add_argument(
            "--allow-host", metavar="HOST[:PORT]", action="append", help="allow redirects to this server"
        )
        group.add_argument("--cache", metavar="DIR", help="a folder that caches fetched bytes")
        group.add_argument(
            "--header",
            metavar="'NAME: VALUE'",
            action="append",
            type=_parse_header_option,
            help="send this header to HTTP servers; prefer ONNXWIRE_HTTP_HEADERS for secrets",
        )
        group.add_argument("--untrusted", action="store_true", help=f"{untrusted_help}; see docs/untrusted.md")
    return parser


@contextmanager
def server_settings(options: argparse.Namespace) -> Iterator[None]:
    """Set environment variables while the block runs: for --allow-host, --cache, --header, --untrusted and OpenBLAS.

    Child processes inherit them.
    """
    hosts, cache, headers = (getattr(options, name, None) for name in ("allow_host", "cache", "header"))
    values = {"ONNXWIRE_ALLOW_HOSTS": hosts and ",".join(hosts), "ONNXWIRE_CACHE": cache}
    if getattr(options, "untrusted", False):
        values[UNTRUSTED_VARIABLE] = "1"
    if headers:
        values[HEADERS_VARIABLE] = "\n".join([*os.environ.get(HEADERS_VARIABLE, "").split("\n"), *headers])
    if "OPENBLAS_NUM_THREADS" not in os.environ:
        # No command multiplies matrices, and starting the threads of OpenBLAS would double the time of importing numpy.
        values["OPENBLAS_NUM_THREADS"] = "1"
    old_values = {name: os.environ.get(name) for name in values}
    os.environ.update({name: value for name, value in values.items() if value is not None})
    try:
        yield
    finally:
        for name, value in old_values.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _parse_header_option(text: str) -> str:
    """Check a value of --header and strip it. The error does not contain the text, which may be a password."""
    try:
        parse_header(text.strip())
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text.strip()


def parse_whole_number(text: str) -> int:
    """Parse an option's nonnegative integer."""
    if not (text.isascii() and text.isdecimal() and len(text) <= 18):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at most 18 digits")
    return int(text)


def make_number_parser(low: int, high: int, noun: str) -> Callable[[str], int]:
    """Return a function that parses an option's integer from `low` to `high`. noun: a plural noun for errors."""

    def parse(text: str) -> int:
        if not (text.isascii() and text.isdecimal() and low <= int(text) <= high):
            raise argparse.ArgumentTypeError(f"{text!r} is not a number of {noun} from {low} to {high}")
        return int(text)

    return parse


def add_type(parser: argparse.ArgumentParser, help: str, default: str | None = "ModelProto", *other_words: str) -> None:
    """Add --type, the name of a message type. other_words: other accepted values."""
    names = [name.partition(".")[2] for name in SCHEMA.messages]
    parser.add_argument("--type", metavar="MESSAGE", default=default, choices=[*names, *other_words], help=help)


def add_output(parser: argparse.ArgumentParser) -> None:
    """Add -o, the file to write."""
    parser.add_argument("-o", "--output", metavar="OUT", default="-", help="the file to write; - for stdout")


def add_progress(parser: argparse.ArgumentParser) -> None:
    """Add --no-progress."""
    parser.add_argument("--no-progress", action="store_true", help="draw no progress bar")


def add_external_root(parser: argparse.ArgumentParser) -> None:
    """Add --external-root."""
    parser.add_argument(
        "--external-root", metavar="DIR", help="another folder for external data, besides the model's own"
    )


def refuse_terminal(output: str | None) -> None:
    """Raise SaveError if a binary file would be written to a terminal."""
    if output == "-" and sys.stdout.isatty():
        raise SaveError(
            errno.EINVAL, "a terminal can't show a binary file; name a file after -o, or redirect stdout", "<stdout>"
        )
