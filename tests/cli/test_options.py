"""Every option of every command is documented and used by a test, and --no-progress draws no progress bar."""

from __future__ import annotations

import argparse
import io
import re
import sys
from functools import cache
from pathlib import Path

import pytest

from onnxwire.cli import main
from onnxwire.cli.commands import SUMMARIES
from onnxwire.cli.parser import make_parser

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
DIGITS = str(ROOT / "examples" / "digits_cnn.onnx")


def options_by_command() -> dict[str, list[tuple[str, ...]]]:
    """Return the options of each command, without --help; an option is a tuple of its spellings."""
    (commands,) = (action for action in make_parser(SUMMARIES)._actions if action.dest == "command")
    return {
        name: [
            tuple(action.option_strings)
            for action in parser._actions
            if action.option_strings and not isinstance(action, argparse._HelpAction)
        ]
        for name, parser in commands.choices.items()
    }


OPTIONS = options_by_command()


@cache
def documentation_of(command: str) -> str:
    """Return the sections of docs/command-line.md about a command or about all commands, and the pages that the
    sections about the command link to."""
    texts = []
    for section in (DOCS / "command-line.md").read_text(encoding="utf-8").split("\n## "):
        names, colon, _ = section.partition("\n")[0].partition(":")
        if not colon:  # the section is about all commands
            texts.append(section)
        elif command in names.split(", "):
            texts.append(section)
            texts += [(DOCS / page).read_text(encoding="utf-8") for page in re.findall(r"\]\(([\w-]+\.md)\)", section)]
    return "\n".join(texts)


@cache
def code_of_tests(command: str) -> str:
    """Return the text of the test files that name a command."""
    is_named = re.compile(rf"""["']{command}["' ]|onnxwire {command} """)
    texts = [path.read_text(encoding="utf-8") for path in sorted((ROOT / "tests").rglob("*.py"))]
    return "\n".join(text for text in texts if is_named.search(text))


def is_in(option: tuple[str, ...], text: str) -> bool:
    """Return whether a text has one of the spellings of an option, as a word."""
    return any(re.search(rf"(?<![\w-]){re.escape(spelling)}(?![\w-])", text) for spelling in option)


@pytest.mark.parametrize("command", OPTIONS)
def test_every_option_is_documented(command: str) -> None:
    undocumented_options = [
        ", ".join(option) for option in OPTIONS[command] if not is_in(option, documentation_of(command))
    ]
    assert undocumented_options == [], (
        f"docs/command-line.md and the pages that its section on `{command}` links to do not mention these options"
    )


@pytest.mark.parametrize("command", OPTIONS)
def test_every_option_is_used_by_a_test(command: str) -> None:
    unused_options = [", ".join(option) for option in OPTIONS[command] if not is_in(option, code_of_tests(command))]
    assert unused_options == [], f"no file of tests/ that names the command {command} uses these options"


# For each command that has --no-progress, arguments with which it draws a progress bar; OUT is replaced by a path at
# which nothing exists.
DRAWING_ARGUMENTS = {
    "show": ["tensor:classifier.3.weight"],
    "stats": [],
    "check": ["--fix", "-o", "OUT"],
    "diff": [DIGITS],
    "catalog": ["--workers", "1", "-o", "OUT"],
    "set": ["producer_name=me", "-o", "OUT"],
    "rename": ["image", "pixels", "-o", "OUT"],
    "rm": ["graph.value_info", "-o", "OUT"],
    "dims": ["--set", "batch=4", "--no-infer", "-o", "OUT"],
    "meta": ["author=me", "-o", "OUT"],
    "infer": ["-o", "OUT"],
    "convert-version": ["21", "-o", "OUT"],
    "encode": ["-o", "OUT"],
    "extract": ["--outputs", "relu_1", "-o", "OUT"],
    "unpack": ["-o", "OUT"],
    "pack": ["-o", "OUT"],
}


class Terminal(io.StringIO):
    """A stream in memory that claims to be a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("command", [name for name in OPTIONS if ("--no-progress",) in OPTIONS[name]])
def test_no_progress_draws_no_bar(command: str, monkeypatch, capsys, tmp_path: Path) -> None:
    monkeypatch.setenv("TERM", "xterm")
    file = DIGITS
    if command == "encode":
        file = str(tmp_path / "model.txt")
        assert main(["dump", DIGITS, "-o", file]) == 0
    has_bar = []
    for option in ([], ["--no-progress"]):
        stderr = Terminal()
        monkeypatch.setattr(sys, "stderr", stderr)
        words = [word.replace("OUT", str(tmp_path / f"out{len(has_bar)}")) for word in DRAWING_ARGUMENTS[command]]
        assert main([command, file, *words, *option]) in (0, 1)
        has_bar.append("\x1b" in stderr.getvalue())
    assert has_bar == [True, False]
