"""The code blocks of the docs run, and the links and names in the docs refer to something that exists."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import forked_commands
import pytest

import onnxwire
from onnxwire import ModelProto, SparseTensorProto, TensorProto

ROOT = Path(__file__).parent.parent
SHELL_SYNTAX = re.compile(r"[^\w\s./:=,@%+-]")  # a character that may have a meaning for the shell
QUOTED_WORD = re.compile(r"'[^']*'|\"[^\"$`\\]*\"")  # a text in quotes without shell expansions
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(language: str) -> list[tuple[str, str]]:
    """Return the code blocks of a language in all pages, as parameters of a test."""
    params = []
    for page in PAGES:
        for number, code in enumerate(re.findall(rf"```{language}\n(.*?)```", page.read_text(), re.S)):
            # The Python code of dropin.md must run before onnx is imported; tests/dropin runs it.
            if (page.name, language) != ("dropin.md", "python"):
                params.append(pytest.param(code, id=f"{page.name}-{number}"))
    return params


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a temporary working folder with a link to the examples."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    return tmp_path


@pytest.mark.parametrize("code", blocks("python"))
def test_a_python_block_runs(code: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    exec(compile(code, "docs", "exec"), {"__name__": "docs"})


@pytest.mark.parametrize("code", blocks("sh"))
def test_commands_work_as_pasted(code: str, folder: Path) -> None:
    for line in code.splitlines():
        words = shlex.split(line, comments=True)
        if not words or words[0] in ("make", "pip"):
            continue  # these commands set up the environment of the tests
        assert words[0] == "onnxwire" or words[:3] == ["python", "-m", "onnxwire.dropin"], line
        if words[0] == "onnxwire" and not SHELL_SYNTAX.search(QUOTED_WORD.sub("", line.partition(" #")[0])):
            result = forked_commands.run(*words[1:], cwd=folder, text=True)
        else:
            # Put the command of this Python installation first in the search path.
            path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
            environment = {**os.environ, "PATH": path}
            result = subprocess.run(
                line, shell=True, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=600
            )
        assert (result.returncode, result.stderr) == (0, ""), line
        # Only commands that write a file, are quiet, run Python code or find no problem may print nothing.
        assert result.stdout or {"-o", "-q", ">", "-c"} & set(words) or words[1] == "check"


# Groups: the owner and the name of a function.
CALL = re.compile(r"`(onnxwire|model|tensor|sparse)\.(\w+)\(")
OWNERS = {"onnxwire": onnxwire, "model": ModelProto, "tensor": TensorProto, "sparse": SparseTensorProto}


def test_functions_named_in_sentences_and_tables_exist() -> None:
    """Code within a sentence is not run; the test only checks that the function exists."""
    named_functions = {(page.name, *names) for page in PAGES for names in CALL.findall(page.read_text())}
    assert len(named_functions) > 10
    assert [call for call in named_functions if not callable(getattr(OWNERS[call[1]], call[2], None))] == []


@pytest.mark.normal_build
def test_the_hook_for_pre_commit_runs_a_command_and_is_in_the_recipes() -> None:
    lines = (ROOT / ".pre-commit-hooks.yaml").read_text().splitlines()
    (command,) = (line.partition(": ")[2].split() for line in lines if line.startswith("  entry: "))
    result = forked_commands.run(*command[1:], ROOT / "examples" / "digits_cnn.onnx", text=True)
    assert (command[0], result.returncode) == ("onnxwire", 0)
    ids = {line.partition(": ")[2] for line in lines if line.startswith("- id: ")}
    assert ids == set(re.findall(r"- id: (\S+)", (ROOT / "docs" / "recipes.md").read_text()))


@pytest.mark.normal_build
def test_links_between_pages_lead_to_files_that_exist() -> None:
    for page in [*PAGES, ROOT / "DESIGN.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]:
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
            if not target.startswith("http"):
                assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.normal_build
def test_the_files_named_in_the_design_exist() -> None:
    names = set(re.findall(r"`([\w/]+\.(?:pyx|pxd|py|h|tsv))`", (ROOT / "DESIGN.md").read_text()))
    names -= {"cmd_NAME.py", "cli/cmd_NAME.py"}
    folders = ["onnxwire", "schema", "tests", "benchmarks"]
    files = [f"/{path.relative_to(ROOT).as_posix()}" for folder in folders for path in (ROOT / folder).rglob("*.*")]
    assert len(names) > 60
    assert [name for name in sorted(names) if not any(file.endswith(f"/{name}") for file in files)] == []


def test_each_promise_of_the_threat_model_names_tests_that_exist() -> None:
    rows = re.findall(r"^\| .+ \| (.+) \|$", (ROOT / "docs" / "security.md").read_text(), re.M)[2:]
    names = [name for row in rows for name in re.findall(r"`([\w/]+)`", row)]
    assert len(rows) > 15
    assert [row for row in rows if "`" not in row] == []
    assert [name for name in names if not (ROOT / "tests" / f"{name}.py").exists()] == []
