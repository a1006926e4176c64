"""The code blocks of the docs do what the docs say."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import onnxwire
from onnxwire import ModelProto, SparseTensorProto, TensorProto

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(language: str) -> list[tuple[str, str]]:
    found = []
    for page in PAGES:
        for number, code in enumerate(re.findall(rf"```{language}\n(.*?)```", page.read_text(), re.S)):
            # The code of that page is to run before anything imports onnx: tests/dropin has it.
            if (page.name, language) != ("dropin.md", "python"):
                found.append(pytest.param(code, id=f"{page.name}-{number}"))
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the code of a page runs: beside the examples, and what it writes is gone afterwards."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    return tmp_path


@pytest.mark.parametrize("code", blocks("python"))
def test_python_block_runs(code: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    exec(compile(code, "README", "exec"), {"__name__": "docs"})


@pytest.mark.parametrize("code", blocks("sh"))
def test_commands_work_as_pasted(code: str, folder: Path) -> None:
    for line in code.splitlines():
        words = shlex.split(line, comments=True)
        if not words or words[0] in ("make", "pip"):
            continue  # what sets this very environment up
        assert words[0] == "onnxwire" or words[:3] == ["python", "-m", "onnxwire.dropin"], line
        # The command that was installed beside this very Python, whatever else the path holds.
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        done = subprocess.run(
            line,
            shell=True,
            cwd=folder,
            env={**os.environ, "PATH": path},
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )
        assert (done.returncode, done.stderr) == (0, ""), line
        # A command that was to write a file, or to find what is wrong, may have nothing to say.
        assert done.stdout or {"-o", "-q", ">", "-c"} & set(words) or words[1] == "check"


CALL = re.compile(r"`(onnxwire|model|tensor|sparse)\.(\w+)\(")
OWNERS = {"onnxwire": onnxwire, "model": ModelProto, "tensor": TensorProto, "sparse": SparseTensorProto}


def test_what_is_called_within_a_line_can_be_called() -> None:
    """Code in sentences and tables runs nowhere, since what it is about is elsewhere."""
    called = {(page.name, *found) for page in PAGES for found in CALL.findall(page.read_text())}
    assert len(called) > 10
    assert [call for call in called if not callable(getattr(OWNERS[call[1]], call[2], None))] == []


def test_every_page_that_a_page_links_to_is_there() -> None:
    for page in [*PAGES, ROOT / "DESIGN.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]:
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
            if not target.startswith("http"):
                assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_files_that_the_design_names_exist() -> None:
    names = set(re.findall(r"`([\w/]+\.(?:pyx|pxd|py|h|tsv))`", (ROOT / "DESIGN.md").read_text()))
    names -= {"cmd_NAME.py", "cli/cmd_NAME.py"}
    folders = ["onnxwire", "schema", "tests", "benchmarks"]
    files = [f"/{path.relative_to(ROOT).as_posix()}" for folder in folders for path in (ROOT / folder).rglob("*.*")]
    assert len(names) > 60
    assert [name for name in sorted(names) if not any(file.endswith(f"/{name}") for file in files)] == []


def test_the_table_of_tests_names_modules_and_files_that_are_there() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text().partition("## Tests by module")[2]
    rows = re.findall(r"^\| ([a-z/]*) \| (.+) \| (.+) \|$", text, re.M)[1:]
    modules = [room + name for room, names, _ in rows for name in names.split(", ")]
    assert len(modules) > 100
    assert [name for name in modules if not list((ROOT / "onnxwire").glob(f"{name}.p*"))] == []
    assert {
        file for *_, files in rows for file in files.split(", ") if not (ROOT / "tests" / f"{file}.py").exists()
    } == set()


def test_each_promise_of_the_threat_model_names_tests_that_exist() -> None:
    rows = re.findall(r"^\| .+ \| (.+) \|$", (ROOT / "docs" / "security.md").read_text(), re.M)[2:]
    names = [name for row in rows for name in re.findall(r"`([\w/]+)`", row)]
    assert len(rows) > 15
    assert [row for row in rows if "`" not in row] == []
    assert [name for name in names if not (ROOT / "tests" / f"{name}.py").exists()] == []
