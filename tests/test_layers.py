"""Imports go one way: from a package to those below it; and no modules import one another when the program runs."""

import re
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import onnxwire

ROOT = Path(onnxwire.__file__).parent
# What each package may import. `DESIGN.md` draws it; modules at the top are packages of their own.
BASE = {"_varint", "errors"}
ENGINE = BASE | {"engine"}
TENSOR = ENGINE | {"tensor"}
MESSAGES = TENSOR | {"messages"}
IO = MESSAGES | {"io"}
INDEX = IO | {"index"}
MAY_IMPORT = {
    "_varint": set(),
    "_version": set(),
    "errors": set(),
    "engine": ENGINE,
    "tensor": TENSOR,
    "messages": MESSAGES,
    "io": IO,
    "index": INDEX,
    "text": ENGINE | {"messages", "text"},
    "analysis": INDEX | {"analysis", "arrow"},
    "transforms": MESSAGES | {"analysis", "text", "transforms"},
    "checker": INDEX | {"checker"},
    "arrow": INDEX | {"arrow"},
    "catalog": IO | {"arrow", "catalog", "checker"},
    "bridges": IO | {"arrow", "bridges", "catalog"},
    "dropin": IO | {"dropin", "text"},
    "viewer": INDEX | {"analysis", "arrow", "bridges", "checker", "text", "transforms", "viewer"},
    "cli": IO
    | {"_version", "analysis", "arrow", "bridges", "catalog", "checker", "cli", "text", "transforms", "viewer"},
    "__main__": {"cli"},
    "__init__": IO | {"_version", "analysis", "arrow", "bridges", "catalog", "checker", "text", "transforms"},
}
# Those that may be imported from elsewhere too, as they say no more than a name or a number.
LEAVES = {"_version"}
# The mixins of tensors are typed as the classes that they are mixed into, which are made of them.
FOR_TYPES = {"tensor": {"messages"}}
IMPORT = re.compile(
    r"^[ \t]*(?:from[ \t]+(onnxwire\b[\w.]*)[ \t]+c?import[ \t]+(\([^)]*\)|[^\n]*)|c?import[ \t]+(onnxwire\b[\w.]*))",
    re.M,
)


def module_of(path: Path) -> str:
    """The dotted name of a file's module, `package.__init__` for a package's own; .pyx, .pxd and .pyi are one."""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


FILES = [path for suffix in (".py", ".pyx", ".pxd", ".pyi") for path in sorted(ROOT.rglob(f"*{suffix}"))]
MODULES = {module_of(path) for path in FILES}


def as_module(name: str) -> str:
    """The module that a dotted name leads to."""
    name = name.removeprefix("onnxwire").removeprefix(".")
    return name if name in MODULES else f"{name}.__init__".lstrip(".")


def imports_of(text: str) -> list[str]:
    """The modules of ours that a file imports or cimports, wherever in it."""
    found = []
    for home, names, module in IMPORT.findall(text):
        if module:
            found.append(as_module(module))
            continue
        # A name of a package may be a module of it.
        plain = re.sub(r"#[^\n]*", "", names).strip("()")
        heads = [part.split()[0] for part in plain.split(",") if part.split()]
        inner = [as_module(f"{home}.{name}") for name in heads]
        inner = [module for module in inner if module in MODULES]
        found += inner if len(inner) == len(heads) else [*inner, as_module(home)]
    return found


TEXTS = [(path, path.read_text(encoding="utf-8")) for path in FILES]
EDGES = [(module_of(path), module) for path, text in TEXTS for module in imports_of(text)]
FOR_CHECKERS = re.compile(r"^if TYPE_CHECKING:\n(?:(?:[ \t][^\n]*)?\n)+", re.M)
# What the running program imports.
RUNNING = {
    (module_of(path), module)
    for path, text in TEXTS
    if path.suffix != ".pyi"
    for module in imports_of(FOR_CHECKERS.sub("", text))
}


def package_of(module: str) -> str:
    return module.partition(".")[0]


def test_the_imports_are_found() -> None:
    assert len(EDGES) >= 400
    assert ("engine.view", "engine.document") in EDGES  # a cimport
    assert ("checker.registry", "checker.rules.node") not in EDGES  # by name; they register themselves
    assert {module for _, module in EDGES} <= MODULES


def test_every_package_has_its_place_in_the_table() -> None:
    assert {package_of(module) for module in MODULES} == MAY_IMPORT.keys()


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_a_package_imports_what_it_may(package: str) -> None:
    wrong = {
        f"{module} imports {other}"
        for module, other in EDGES
        if package_of(module) == package
        and package_of(other) not in MAY_IMPORT[package] | LEAVES
        and (package_of(other) not in FOR_TYPES.get(package, set()) or (module, other) in RUNNING)
    }
    assert not wrong


def test_the_table_has_no_circle() -> None:
    TopologicalSorter({name: below - {name} for name, below in MAY_IMPORT.items()}).prepare()


def test_no_modules_import_one_another() -> None:
    graph: dict[str, set[str]] = {module: set() for module in MODULES}
    for module, other in RUNNING:
        if module != other:
            graph[module].add(other)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(reversed(error.args[1])))
