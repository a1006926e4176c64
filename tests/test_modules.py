"""The table of CONTRIBUTING.md that names the tests of each module is complete, and basenames of modules are unique."""

import re
from collections import Counter
from pathlib import Path

import onnxwire

ROOT = Path(onnxwire.__file__).parent
TESTS = Path(__file__).parent
PAGE = TESTS.parent / "CONTRIBUTING.md"
SECTION = PAGE.read_text(encoding="utf-8").partition("\n## Tests by module\n")[2]
# Rows of the table without the heading: (folder, names of modules, test files).
ROWS = re.findall(r"^\| (\S*) ?\| ([^|]+) \| ([^|]+) \|$", SECTION, re.M)[1:]
NAMED_MODULES = Counter(package + name for package, names, _ in ROWS for name in names.split(", "))
MODULES = {
    path.relative_to(ROOT).with_suffix("").as_posix()
    for suffix in (".py", ".pyx")
    for path in ROOT.rglob(f"*{suffix}")
    if path.stem != "__init__"
}


def test_every_module_has_its_tests_in_the_table() -> None:
    assert sorted(MODULES - NAMED_MODULES.keys()) == [], f"add them to the table at the end of {PAGE.name}"


def test_the_modules_of_the_table_exist_and_are_named_once() -> None:
    assert sorted(NAMED_MODULES.keys() - MODULES) == []
    assert [name for name, count in NAMED_MODULES.items() if count > 1] == []


def test_the_test_files_of_the_table_exist() -> None:
    files = {file for _, _, files in ROWS for file in files.split(", ")}
    assert sorted(file for file in files if not (TESTS / f"{file}.py").is_file()) == []


def test_a_basename_names_one_module() -> None:
    modules = {module for module in MODULES if not module.startswith("dropin/protobuf/")}  # named as in protobuf
    names = Counter(module.rpartition("/")[2] for module in modules)
    assert [name for name, count in names.items() if count > 1] == ["__main__"]
