"""Add the pages of the site that are not in docs/ (SITE_PAGES and the reference of the Python API); rewrite links.

This module is a hook of mkdocs (`mkdocs.yml`). The reference lists the names of `onnxwire.__all__`, read from the
sources and their stubs. The package is not imported, so that the site can be built without a compiler.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

REPOSITORY_ROOT = Path(__file__).parent.parent
# Path of a page in the repository → path on the site.
SITE_PAGES = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "DESIGN.md": "design.md",
    "CONTRIBUTING.md": "contributing.md",
    "schema/README.md": "schema.md",
}
# Groups: the path, and the anchor with its `#`.
RELATIVE_LINK = re.compile(r"\]\((?!https?:|#)([^)#]+)(#[^)]*)?\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages, with their links rewritten to paths on the site."""
    for source, target in SITE_PAGES.items():
        files.append(
            File.generated(config, target, content=rewrite_links((REPOSITORY_ROOT / source).read_text(), source))
        )
    files.append(File.generated(config, "api.md", content=reference_page()))
    return files


def on_page_markdown(markdown: str, page, config: MkDocsConfig, files: Files) -> str:
    """Rewrite links from pages in docs/ to files outside of docs/."""
    return (
        markdown if page.file.src_uri in SITE_PAGES.values() else rewrite_links(markdown, f"docs/{page.file.src_uri}")
    )


def rewrite_links(markdown: str, source: str) -> str:
    """Return a text of the file `source` with relative links as paths on the site. A link to a file without a page is
    replaced by its text and the path."""

    def rewrite(match: re.Match[str]) -> str:
        path = (REPOSITORY_ROOT / source).parent.joinpath(match[1]).resolve().relative_to(REPOSITORY_ROOT).as_posix()
        target = SITE_PAGES.get(path, path.removeprefix("docs/") if path.startswith("docs/") else None)
        # The placeholder example.invalid marks links to files without a page, whose texts are rewritten below.
        return f"]({target}{match[2] or ''})" if target else f"](https://example.invalid/{path})"

    text = RELATIVE_LINK.sub(rewrite, markdown)
    return re.sub(r"\[([^\]]+)\]\(https://example\.invalid/([^)]+)\)", r"\1 (`\2`)", text)


def reference_page() -> str:
    """Return a page with the path of every public object. mkdocstrings inserts the documentation."""
    package = ast.parse((REPOSITORY_ROOT / "onnxwire" / "__init__.py").read_text())
    all_value = next(node.value for node in package.body if is_assignment(node, "__all__"))
    names = [element.value for element in all_value.elts if isinstance(element, ast.Constant)]
    modules_by_name = {
        alias.name: node.module
        for node in ast.walk(package)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    entries_by_title = {"Functions": [], "Classes": [], "Errors and warnings": []}
    for name in names:
        if name == "__version__":
            continue
        title = "Functions" if name.islower() else "Classes"
        if name.endswith(("Error", "Warning")):
            title = "Errors and warnings"
        entries_by_title[title].append(f"::: {modules_by_name[name]}.{name}\n")
    parts = ["# The Python interface\n"]
    for title, entries in entries_by_title.items():
        parts += [f"## {title}\n", *entries]
    parts += ["## Messages\n", "::: onnxwire.messages\n    options:\n      show_root_heading: false\n"]
    return "\n".join(parts)


def is_assignment(node: ast.stmt, name: str) -> bool:
    """Return whether a statement assigns to exactly this name."""
    return isinstance(node, ast.Assign) and [getattr(target, "id", None) for target in node.targets] == [name]
