"""A package imports only packages of lower layers, and no import cycles exist at run time."""

import re
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import onnxwire

ROOT = Path(onnxwire.__file__).parent
# The packages that each package may import. Top-level modules count as packages. DESIGN.md lists the same, except those
# of `_version`, `__main__` and `__init__`.
BASE_MODULES = {"_nesting_limits", "_varint", "errors"}
ENGINE = BASE_MODULES | {"engine"}
TENSOR = ENGINE | {"tensor"}
MESSAGES = TENSOR | {"messages"}
IO = MESSAGES | {"io"}
INDEX = IO | {"index"}
MAY_IMPORT = {
    "_nesting_limits": set(),
    "_varint": {"_nesting_limits"},
    "_version": set(),
    "errors": set(),
    "include": set(),
    "engine": ENGINE,
    "tensor": TENSOR,
    "messages": MESSAGES,
    "io": IO,
    "index": INDEX,
    "text": ENGINE | {"messages", "text"},
    "analysis": INDEX | {"analysis", "arrow"},
    "transforms": MESSAGES | {"analysis", "bridges", "checker", "text", "transforms"},
    "checker": INDEX | {"analysis", "checker"},
    "arrow": INDEX | {"arrow"},
    "catalog": IO | {"arrow", "catalog", "checker"},
    "bridges": IO | {"arrow", "bridges", "catalog"},
    "dropin": IO | {"dropin", "text"},
    "viewer": INDEX | {"analysis", "arrow", "bridges", "checker", "text", "transforms", "viewer"},
    "cli": IO
    | {"_version", "analysis", "arrow", "bridges", "catalog", "checker", "cli", "text", "transforms", "viewer"},
    "__main__": {"cli"},
    "__init__": IO
    | {"_version", "analysis", "arrow", "bridges", "catalog", "checker", "include", "text", "transforms", "viewer"},
}
# Modules of constants, which every package may import.
CONSTANT_MODULES = {"_version"}
# Imports for type checkers only. `self` of the tensor mixins is a message class.
TYPE_CHECKING_IMPORTS = {"tensor": {"messages"}}
# Groups: the package and the names of `from PACKAGE import NAMES`, or the module of `import MODULE`; also with cimport.
IMPORT_STATEMENT = re.compile(
    r"^[ \t]*(?:from[ \t]+(onnxwire\b[\w.]*)[ \t]+c?import[ \t]+(\([^)]*\)|[^\n]*)|c?import[ \t]+(onnxwire\b[\w.]*))",
    re.M,
)


def module_of(path: Path) -> str:
    """Return the dotted name of a file's module without `onnxwire`, such as `engine.view` or `engine.__init__`."""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


FILES = [path for suffix in (".py", ".pyx", ".pxd", ".pyi") for path in sorted(ROOT.rglob(f"*{suffix}"))]
MODULES = {module_of(path) for path in FILES}


def as_module(name: str) -> str:
    """Return the module to which a dotted name with `onnxwire` refers, in the form of `module_of`; it may not exist."""
    name = name.removeprefix("onnxwire").removeprefix(".")
    return name if name in MODULES else f"{name}.__init__".lstrip(".")


def imports_of(text: str) -> list[str]:
    """Return the modules of onnxwire that the code of a file imports or cimports, including imports in functions."""
    imported_modules = []
    for package, names, module in IMPORT_STATEMENT.findall(text):
        if module:
            imported_modules.append(as_module(module))
            continue
        # The imported names may be modules of the package.
        names_text = re.sub(r"#[^\n]*", "", names).strip("()")
        imported_names = [part.split()[0] for part in names_text.split(",") if part.split()]
        submodules = [as_module(f"{package}.{name}") for name in imported_names]
        submodules = [module for module in submodules if module in MODULES]
        imported_modules += submodules if len(submodules) == len(imported_names) else [*submodules, as_module(package)]
    return imported_modules


TEXTS = [(path, path.read_text(encoding="utf-8")) for path in FILES]
# Pairs (module, module that it imports).
EDGES = [(module_of(path), module) for path, text in TEXTS for module in imports_of(text)]
TYPE_CHECKING_BLOCK = re.compile(r"^if TYPE_CHECKING:\n(?:(?:[ \t][^\n]*)?\n)+", re.M)
# The pairs without those of stubs and `if TYPE_CHECKING` blocks.
RUNTIME_IMPORTS = {
    (module_of(path), module)
    for path, text in TEXTS
    if path.suffix != ".pyi"
    for module in imports_of(TYPE_CHECKING_BLOCK.sub("", text))
}


def package_of(module: str) -> str:
    """Return the first part of a module's name."""
    return module.partition(".")[0]


def test_the_imports_are_found() -> None:
    assert len(EDGES) >= 400
    assert ("engine.view", "engine.document") in EDGES  # a cimport
    assert ("checker.registry", "checker.rules.node") not in EDGES  # by import_module, not by an import statement
    assert {module for _, module in EDGES} <= MODULES


def test_every_package_is_in_the_table() -> None:
    assert {package_of(module) for module in MODULES} == MAY_IMPORT.keys()


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_a_package_imports_only_allowed_packages(package: str) -> None:
    forbidden_imports = {
        f"{module} imports {imported}"
        for module, imported in EDGES
        if package_of(module) == package
        and package_of(imported) not in MAY_IMPORT[package] | CONSTANT_MODULES
        and (
            package_of(imported) not in TYPE_CHECKING_IMPORTS.get(package, set())
            or (module, imported) in RUNTIME_IMPORTS
        )
    }
    assert not forbidden_imports


def test_the_table_has_no_cycle() -> None:
    TopologicalSorter({name: allowed_packages - {name} for name, allowed_packages in MAY_IMPORT.items()}).prepare()


def test_modules_have_no_import_cycle() -> None:
    graph: dict[str, set[str]] = {module: set() for module in MODULES}
    for module, imported in RUNTIME_IMPORTS:
        if module != imported:
            graph[module].add(imported)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(reversed(error.args[1])))
