"""Pages of the site that are not in docs/: those of the repository's root, and the reference of the Python interface.

A hook of mkdocs (`mkdocs.yml`). The reference lists what `onnxwire.__all__` names, from the sources and their stubs;
nothing is imported, so the site is built without a compiler.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parent.parent
PAGES = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "DESIGN.md": "design.md",
    "CONTRIBUTING.md": "contributing.md",
    "schema/README.md": "schema.md",
}
LINK = re.compile(r"\]\((?!https?:|#)([^)#]+)(#[^)]*)?\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages, their links turned to where things lie on the site."""
    for source, target in PAGES.items():
        files.append(File.generated(config, target, content=turned((ROOT / source).read_text(), source)))
    files.append(File.generated(config, "api.md", content=reference()))
    return files


def on_page_markdown(markdown: str, page, config: MkDocsConfig, files: Files) -> str:
    """Turn the links of the pages in docs/ that lead out of it."""
    return markdown if page.file.src_uri in PAGES.values() else turned(markdown, f"docs/{page.file.src_uri}")


def turned(markdown: str, source: str) -> str:
    """The text with each relative link as seen from the site's pages; one to a file that has no page is its name."""

    def turn(match: re.Match[str]) -> str:
        path = (ROOT / source).parent.joinpath(match[1]).resolve().relative_to(ROOT).as_posix()
        target = PAGES.get(path, path.removeprefix("docs/") if path.startswith("docs/") else None)
        return f"]({target}{match[2] or ''})" if target else f"](https://example.invalid/{path})"

    text = LINK.sub(turn, markdown)
    return re.sub(r"\[([^\]]+)\]\(https://example\.invalid/([^)]+)\)", r"\1 (`\2`)", text)


def reference() -> str:
    """A page with every public name but the messages, each by its path, which mkdocstrings replaces."""
    package = ast.parse((ROOT / "onnxwire" / "__init__.py").read_text())
    listed = next(node.value for node in package.body if is_assignment(node, "__all__"))
    names = [element.value for element in listed.elts if isinstance(element, ast.Constant)]
    sources = {
        alias.name: node.module
        for node in ast.walk(package)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    groups = {"Functions": [], "Classes": [], "Errors and warnings": []}
    for name in names:
        if name == "__version__":
            continue
        kind = "Functions" if name.islower() else "Classes"
        if name.endswith(("Error", "Warning")):
            kind = "Errors and warnings"
        groups[kind].append(f"::: {sources[name]}.{name}\n")
    parts = ["# The Python interface\n"]
    for title, entries in groups.items():
        parts += [f"## {title}\n", *entries]
    parts += ["## Messages\n", "::: onnxwire.messages\n    options:\n      show_root_heading: false\n"]
    return "\n".join(parts)


def is_assignment(node: ast.stmt, name: str) -> bool:
    """Whether a statement assigns to one name."""
    return isinstance(node, ast.Assign) and [getattr(target, "id", None) for target in node.targets] == [name]
