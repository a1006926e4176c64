"""The cases: each is an attack file or a benign model, with its class and accompanying files."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class AttackClass:
    """A class of similar attacks.

    family: a family of README.md. cwe: the usual weakness. affects: the readers that are affected.
    """

    name: str
    family: str
    description: str
    cwe: str
    affects: tuple[str, ...]


@dataclass(frozen=True)
class Case:
    """One model.

    attack_class: the name of the class of an attack, or of the class that a benign model resembles. kind: "attack", or
    "sound" for a benign model. description: the content of the model or its effect on readers. data: the bytes of the
    model. cwe, cve: the weakness, and the published vulnerability, if any. affects: the readers that are affected.
    files: accompanying files, by their paths relative to the model's folder: bytes, Sparse, Symlink, Hardlink or Fifo.
    source: the address of a publication.
    """

    name: str
    attack_class: str
    kind: str
    description: str
    data: bytes
    cwe: str
    cve: str | None
    affects: tuple[str, ...]
    files: dict = field(default_factory=dict)
    source: str | None = None

    @property
    def path(self):
        """The path of the model below the output folder."""
        return f"{self.attack_class if self.kind == 'attack' else 'sound'}/{self.name}.onnx"


@dataclass(frozen=True)
class Sparse:
    """A file of `size` bytes that are zero except for `pieces`, pairs of offset and bytes. Zeros use no disk space."""

    size: int
    pieces: tuple = ()


@dataclass(frozen=True)
class Symlink:
    """A symbolic link with this text as its target."""

    target: str


@dataclass(frozen=True)
class Hardlink:
    """A second name of a file. `target` is a path relative to the folder of the link; the target is written first."""

    target: str


@dataclass(frozen=True)
class Fifo:
    """A named pipe without a writer."""


CLASSES: dict[str, AttackClass] = {}
"""All classes by name."""
CASES: dict[str, Case] = {}
"""All cases by path."""


def declare(name, family, description, cwe, affects):
    """Add a class of attacks; return the function that adds an attack to the class.

    affects: the affected readers, separated by ", ".
    """
    assert name not in CLASSES, name
    CLASSES[name] = AttackClass(name, family, description, cwe, tuple(affects.split(", ")))

    def attack(case_name, description, data, cwe=cwe, cve=None, affects=None, files=None, source=None):
        readers = CLASSES[name].affects if affects is None else tuple(affects.split(", "))
        _add(Case(case_name, name, "attack", description, bytes(data), cwe, cve, readers, files or {}, source))

    return attack


def benign(case_name, resembles, description, data, files=None):
    """Add a benign model that resembles a class of attacks."""
    cwe = CLASSES[resembles].cwe
    _add(Case(case_name, resembles, "sound", description, bytes(data), cwe, None, (), files or {}))


def _add(case):
    assert case.path not in CASES, case.path
    CASES[case.path] = case
