"""The cases: an attack or a sound file, its class, and the files that accompany it."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class AttackClass:
    """A class of attacks: the weakness is the same, the file differs."""

    name: str
    family: str
    about: str
    cwe: str
    affects: tuple[str, ...]


@dataclass(frozen=True)
class Case:
    """One model. `files` accompany it; their paths are relative to the model's folder."""

    name: str
    attack_class: str
    kind: str
    what: str
    data: bytes
    cwe: str
    cve: str | None
    affects: tuple[str, ...]
    files: dict = field(default_factory=dict)
    source: str | None = None

    @property
    def path(self):
        return f"{self.attack_class if self.kind == 'attack' else 'sound'}/{self.name}.onnx"


@dataclass(frozen=True)
class Sparse:
    """A file of `size` bytes that are zero except for `pieces`, pairs of offset and bytes. It takes no disk space."""

    size: int
    pieces: tuple = ()


@dataclass(frozen=True)
class Symlink:
    target: str


@dataclass(frozen=True)
class Hardlink:
    """A second name of a file. `target` is a path relative to the folder of the link; it is written before the link."""

    target: str


@dataclass(frozen=True)
class Fifo:
    """A named pipe without a writer."""


CLASSES: dict[str, AttackClass] = {}
CASES: dict[str, Case] = {}


def declare(name, family, about, cwe, affects):
    """Add a class and return the function that adds an attack to it."""
    assert name not in CLASSES, name
    CLASSES[name] = AttackClass(name, family, about, cwe, tuple(affects.split(", ")))

    def attack(case_name, what, data, cwe=cwe, cve=None, affects=None, files=None, source=None):
        readers = CLASSES[name].affects if affects is None else tuple(affects.split(", "))
        _add(Case(case_name, name, "attack", what, bytes(data), cwe, cve, readers, files or {}, source))

    return attack


def sound(case_name, resembles, what, data, files=None):
    """Add a harmless model that resembles a class of attacks."""
    cwe = CLASSES[resembles].cwe
    _add(Case(case_name, resembles, "sound", what, bytes(data), cwe, None, (), files or {}))


def _add(case):
    assert case.path not in CASES, case.path
    CASES[case.path] = case
