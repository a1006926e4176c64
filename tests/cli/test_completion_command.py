"""`onnxwire completion` prints a script with which a shell completes commands, options and file names."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from onnxwire.cli import main
from onnxwire.cli.commands import SUMMARIES
from onnxwire.cli.parser import make_parser

EXAMPLES = Path(__file__).parents[2] / "examples"
SHELLS = ["bash", "zsh", "fish"]
# Simulate bash when Tab is pressed at the end of the last word. Arguments: the script, the working directory, and the
# words.
COMPLETE_SCRIPT = """\
source "$1"; shift
cd "$1"; shift
function=$(complete -p onnxwire | sed 's/.*-F \\([^ ]*\\) .*/\\1/')
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_LINE="$*"; COMP_POINT=${#COMP_LINE}
"$function" onnxwire "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
printf '%s\\n' "${COMPREPLY[@]}"
"""
needs_bash = pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")


def completion_script(capsys, shell: str) -> str:
    """Return the script that the command prints for a shell."""
    pytest.importorskip("shtab")
    assert main(["completion", shell]) == 0
    return capsys.readouterr().out


def options() -> dict[str, set[str]]:
    """Return the long options that the parser of each command has."""
    (commands,) = (action for action in make_parser(SUMMARIES)._actions if action.dest == "command")
    return {
        name: {word for word in parser._option_string_actions if word.startswith("--")}
        for name, parser in commands.choices.items()
    }


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_contains_all_commands_and_options(shell: str, capsys) -> None:
    text = completion_script(capsys, shell)
    for command, words in options().items():
        assert command in text
        for word in words:
            assert (f"-l {word[2:]}" if shell == "fish" else word) in text


@pytest.mark.parametrize("shell", SHELLS)
def test_shells_parse_the_script(shell: str, capsys, tmp_path: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"needs {shell}")
    path = tmp_path / "script"
    path.write_text(completion_script(capsys, shell))
    subprocess.run([shell, "-n", path], check=True)  # -n: parse the script without running it


@needs_bash
def test_bash_completes_commands_options_choices_and_files(capsys, tmp_path: Path) -> None:
    path = tmp_path / "script"
    path.write_text(completion_script(capsys, "bash"))

    def complete(*words: str) -> set[str]:
        command = ["bash", "-c", COMPLETE_SCRIPT, "bash", path, EXAMPLES, "onnxwire", *words]
        return set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())

    assert complete("") == set(SUMMARIES)
    for command, words in options().items():
        assert complete(command, "--") == words
    assert complete("check", "--color", "") == {"auto", "always", "never"}
    for words in (["info", "dig"], ["check", "dig"], ["diff", "digits_cnn.onnx", "dig"], ["dump", "x", "-o", "dig"]):
        assert "digits_cnn.onnx" in complete(*words)


def test_without_shtab_an_error_names_the_package(capsys, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert main(["completion", "bash"]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1 and "pip install shtab" in err
