"""Commands do not import the libraries of other commands, nor numpy unless they read elements of tensors."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import onnxwire
from onnxwire.cli.commands import SUMMARIES

DIGITS = Path(__file__).parents[2] / "examples" / "digits_cnn.onnx"
CODE = """\
import contextlib, io, sys
from onnxwire.cli import main
with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
    main(sys.argv[1:])
print(*sys.modules)
"""


def imported_by(*arguments: object) -> set[str]:
    """Run a command in a Python that processes no .pth files; return the names of the imported modules.

    A .pth file of an editable install would import modules of its own.
    """
    command = [sys.executable, "-S", "-c", CODE, *map(str, arguments)]
    paths = [str(Path(onnxwire.__file__).parents[1]), *sys.path]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    return set(subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout.split())


def lacks(imported: set[str], names: set[str]) -> bool:
    """Return whether none of the modules is imported. Assert that all exist, because a test with the old name of a
    renamed module would always pass."""
    assert all(find_spec(name) for name in names)
    return imported.isdisjoint(names)


def imported_commands(imported: set[str]) -> set[str]:
    """Return the commands whose modules are imported."""
    return {name for name in SUMMARIES if f"onnxwire.cli.cmd_{name.replace('-', '_')}" in imported}


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], []])
def test_without_a_command_no_command_is_imported(arguments: list[str]) -> None:
    imported = imported_by(*arguments)
    assert imported_commands(imported) == set()
    assert lacks(
        imported,
        {
            "numpy",
            "rich",
            "json",
            "onnxwire.text.text_writer",
            "onnxwire.analysis.statistics",
            "onnxwire.analysis.listing",
        },
    )


def test_the_version_and_info_import_little_of_the_standard_library() -> None:
    assert lacks(imported_by("--version"), {"argparse", "re", "typing"})
    assert lacks(imported_by("info", DIGITS), {"json", "shutil", "typing"})


@pytest.mark.parametrize("command", ["info", "ls", "dump"])
def test_commands_that_read_no_elements_do_not_import_numpy(command: str) -> None:
    imported = imported_by(command, DIGITS)
    assert imported_commands(imported) == {command}
    assert lacks(imported, {"numpy", "ml_dtypes", "rich", "onnxwire.analysis.statistics", "onnxwire.analysis.diff"})


def test_info_imports_no_listing_and_no_text_form() -> None:
    assert lacks(
        imported_by("info", DIGITS), {"onnxwire.analysis.listing", "onnxwire.text.text_writer", "onnxwire.cli.raw_dump"}
    )


@pytest.mark.parametrize("command", SUMMARIES)
def test_no_command_needs_numpy_for_its_help(command: str) -> None:
    assert lacks(imported_by(command, "--help"), {"numpy", "ml_dtypes", "rich", "matplotlib", "pyarrow", "shtab"})
