"""`onnxwire completion`: the completion script for a shell."""

from __future__ import annotations

import argparse
from typing import Any

from onnxwire.cli.options import add_command
from onnxwire.errors import MissingPackageError

_DESCRIPTION = """\
Print the script that lets a shell complete commands, options, their choices and file names. Requires shtab.
"""
_EXAMPLES = """\
examples:
  onnxwire completion bash > ~/.local/share/bash-completion/completions/onnxwire
  onnxwire completion zsh > ~/.zfunc/_onnxwire            with fpath+=~/.zfunc before compinit in ~/.zshrc
  onnxwire completion fish > ~/.config/fish/completions/onnxwire.fish
"""
# Metavars of arguments that are completed to names of files.
_FILE_METAVARS = {"FILE", "MODEL", "OUT", "A", "B", "OTHER", "SOURCE", "TABLE", "TRUSTED", "WEIGHTS"}


def add_parser(commands: Any) -> None:
    """Add the command to the parser's `commands`."""
    parser = add_command(commands, "completion", _DESCRIPTION, _EXAMPLES)
    parser.add_argument("shell", metavar="SHELL", choices=("bash", "zsh", "fish"), help="bash, zsh or fish")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print the script; returns the exit status."""
    try:
        import shtab  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        reason = "completion scripts need shtab, which is not installed; `pip install shtab`"
        raise MissingPackageError(reason) from None

    from onnxwire.cli.commands import SUMMARIES
    from onnxwire.cli.parser import make_parser

    parser = make_parser(SUMMARIES)
    for action in _actions(parser):
        if action.metavar in _FILE_METAVARS:
            action.complete = shtab.FILE  # type: ignore[attr-defined]
        elif action.metavar == "DIR":
            action.complete = shtab.DIRECTORY  # type: ignore[attr-defined]
    print(shtab.complete(parser, options.shell), end="")
    return 0


def _actions(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """List the actions of a parser and of its commands."""
    actions = list(parser._actions)
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            actions += [subaction for command in action.choices.values() for subaction in _actions(command)]
    return actions
