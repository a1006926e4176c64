"""Write the list of security rules in docs/untrusted.md from onnxwire/checker/security.tsv."""

from __future__ import annotations

from pathlib import Path
from textwrap import fill

REPOSITORY_ROOT = Path(__file__).parent.parent
PAGE = REPOSITORY_ROOT / "docs" / "untrusted.md"
HEADING = "\n## Rules\n"
INTRODUCTION = (
    "Each entry begins with the name of a rule, its severity, and its CWE and CVE numbers. The next sentence is the "
    "requirement. A model that does not meet it is reported with this severity; the rest explains the attack and the "
    'limits of the check. A rule whose text begins with "Reports" requires nothing: it lists parts to inspect. Sources '
    "in `docs/` are files of the onnx repository."
)
TITLES_BY_GROUP = {
    "wire": "Readers disagree",
    "file": "Files",
    "resource": "Resources",
    "attribute": "Attributes",
    "code": "Code",
    "name": "Names",
    "payload": "Payloads",
    "behaviour": "Evidence of hidden behaviour",
}


def rule_list() -> str:
    """Return the section with a paragraph for each rule, in the order of security.tsv.

    A title precedes each group of rules; the second part of a rule's id is its group.
    """
    rows = (REPOSITORY_ROOT / "onnxwire" / "checker" / "security.tsv").read_text(encoding="utf-8").splitlines()[1:]
    lines = [HEADING.strip(), fill(INTRODUCTION, 120)]
    group = ""
    for row in rows:
        id, severity, _, weaknesses, source, text, explanation = row.split("\t")
        if id.split("-")[1] != group:
            group = id.split("-")[1]
            lines.append(f"### {TITLES_BY_GROUP[group]}")
        severity_and_weaknesses = f"({severity}; {weaknesses.replace('; ', ', ')})"
        paragraph = f"**`{id}`** {severity_and_weaknesses}: {text} {explanation} Source: {source}."
        lines.append(fill(paragraph, 120, break_long_words=False, break_on_hyphens=False))
    return "\n\n".join(lines) + "\n"


if __name__ == "__main__":
    text_before_rules = PAGE.read_text(encoding="utf-8").partition(HEADING)[0]
    PAGE.write_text(f"{text_before_rules}\n{rule_list()}", encoding="utf-8")
