"""Add pages to the site that are not in docs/: pages of the repository's root, and the reference of the Python API.

A hook of mkdocs (`mkdocs.yml`). The reference lists the names of `onnxwire.__all__`, from the sources and their stubs;
nothing is imported, so that the site is built without a compiler.
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
    """Add the pages, with their links rewritten to paths on the site."""
    for source, target in PAGES.items():
        files.append(File.generated(config, target, content=rewrite_links((ROOT / source).read_text(), source)))
    files.append(File.generated(config, "api.md", content=reference()))
    return files


def on_page_markdown(markdown: str, page, config: MkDocsConfig, files: Files) -> str:
    """Rewrite links from pages in docs/ to files outside of docs/."""
    return markdown if page.file.src_uri in PAGES.values() else rewrite_links(markdown, f"docs/{page.file.src_uri}")


def rewrite_links(markdown: str, source: str) -> str:
    """Return the text with relative links as paths on the site; a link to a file without a page becomes its name."""

    def rewrite(match: re.Match[str]) -> str:
        path = (ROOT / source).parent.joinpath(match[1]).resolve().relative_to(ROOT).as_posix()
        target = PAGES.get(path, path.removeprefix("docs/") if path.startswith("docs/") else None)
        return f"]({target}{match[2] or ''})" if target else f"](https://example.invalid/{path})"

    text = LINK.sub(rewrite, markdown)
    return re.sub(r"\[([^\]]+)\]\(https://example\.invalid/([^)]+)\)", r"\1 (`\2`)", text)


def reference() -> str:
    """Return a page with the path of every public object except messages; mkdocstrings inserts their documentation."""
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
    """Return whether a statement assigns to this name only."""
    return isinstance(node, ast.Assign) and [getattr(target, "id", None) for target in node.targets] == [name]
