"""Repairs of what has one safe answer: a function each, registered under the ids of the rules that it satisfies.

A repair changes nothing that any reader could see in another way: it takes out what is said twice in the same words, or
what says nothing, and adds what only one value can be. Everything else is left to people.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from onnxwire.checker._problem import Problem
from onnxwire.checker.problems import Problems
from onnxwire.checker.rules.attribute import NAMES, VALUES
from onnxwire.engine.message import Message

# What tells the elements of a repeated field apart, by their type.
_KEYS = {
    "AttributeProto": "name",
    "OperatorSetIdProto": "domain",
    "StringStringEntryProto": "key",
    "TensorAnnotation": "tensor_name",
    "ValueInfoProto": "name",
}


@dataclass(frozen=True, slots=True)
class Fix:
    """One repair that can be made. There may be a million, so path and message are made when they are read.

    rule: the id of the rule that is broken. above, template, detail: what path and message are made of.
    siblings, index: the repeated field, and which element of it what is taken out or changed. target: of a message that
    is not in a repeated field, the message. edit: what changes it, None for what is taken out.
    """

    rule: str
    above: str
    template: str
    detail: str
    siblings: Any = None
    index: int = 0
    target: Any = None
    edit: Callable[[Any], object] | None = None

    @property
    def path(self) -> str:
        """Where: the element that is taken out, or the message that is changed."""
        return f"{self.above}[{self.index}]" if self.target is None else self.above

    @property
    def message(self) -> str:
        """The change, for people."""
        return self.template.format(self.detail)


# Of a repeated field and the indices in it that break a rule: the indices that can go, each with a detail of what is
# said of all of them.
Remover = Callable[[Any, Sequence[int]], Iterator[tuple[int, str]]]
# Of a message that breaks a rule: what is said, a detail of it, and what changes the message; None where there is no
# one answer.
Editor = Callable[[Any], tuple[str, str, Callable[[Any], object]] | None]

_removers: dict[str, tuple[str, Remover]] = {}  # each with what is said
_editors: dict[str, Editor] = {}


def removes(template: str, *rules: str) -> Callable[[Remover], Remover]:
    """Register a function that finds elements to take out of repeated fields; template: what is said of each."""

    def register(remover: Remover) -> Remover:
        _removers.update(dict.fromkeys(rules, (template, remover)))
        return remover

    return register


def edits(*rules: str) -> Callable[[Editor], Editor]:
    """Register a function that finds a change of a message."""

    def register(editor: Editor) -> Editor:
        _editors.update(dict.fromkeys(rules, editor))
        return editor

    return register


def fixable() -> set[str]:
    """The ids of rules of which some breaches can be repaired."""
    return _removers.keys() | _editors.keys()


@removes(
    "remove the entry {0!r}, which is there before in the same words",
    "attribute-name-unique",
    "external-key-unique",
    "function-attribute-name-unique",
    "function-value-info-name-unique",
    "graph-value-info-name-unique",
    "metadata-model-key-unique",
    "metadata-nested-key-unique",
    "opset-import-duplicate-entry",
    "quant-annotation-key-unique",
    "quant-annotation-tensor-unique",
)
def repeated_entry(siblings: Any, indices: Sequence[int]) -> Iterator[tuple[int, str]]:
    """An entry that repeats another goes, if all with its key are equal: where they differ, the last may count."""
    firsts: dict[str, Any] = {}
    ambiguous: set[str] = set()
    keys = []
    for element in siblings:
        key = _key_of(element)
        keys.append(key)
        if key not in ambiguous and not _is_same(element, firsts.setdefault(key, element)):
            ambiguous.add(key)
    for index in indices:
        if keys[index] not in ambiguous:
            yield index, keys[index]


def _key_of(element: Any) -> str:
    if not isinstance(element, Message):
        return str(element)
    key: str = getattr(element, _KEYS[element.DESCRIPTOR.name])
    # The two names of the default domain are one.
    return "" if key == "ai.onnx" and element.DESCRIPTOR.name == "OperatorSetIdProto" else key


def _is_same(element: Any, first: Any) -> bool:
    return element is first or bool(element == first)


@removes(
    "remove the entry of {0!r}, which is not a value",
    "graph-value-info-known-name",
    "function-value-info-known-name",
)
def stale_value_info(siblings: Any, indices: Sequence[int]) -> Iterator[tuple[int, str]]:
    """An entry that describes no value goes."""
    for index in indices:
        yield index, siblings[index].name


@removes("remove the local directory {0!r}", "external-key-basepath")
def base_path(siblings: Any, indices: Sequence[int]) -> Iterator[tuple[int, str]]:
    """The folder that a loader worked in goes; no reader looks at it."""
    for index in indices:
        yield index, siblings[index].value


def _set_type(number: int, attribute: Any) -> None:
    attribute.type = number


# What sets the type of an attribute, by the type.
_SET_TYPE = {number: functools.partial(_set_type, number) for number in NAMES}


@edits("attribute-type-present")
def missing_type(attribute: Any) -> tuple[str, str, Callable[[Any], object]] | None:
    """An attribute without type gets that of its value, if it has one value and does not refer to another."""
    present = [VALUES[field.name] for field, _ in attribute.ListFields() if field.name in VALUES]
    if attribute.ref_attr_name or len(present) != 1:
        return None
    return f"set the type of {{0!r}} to {NAMES[present[0]]}", attribute.name, _SET_TYPE[present[0]]


@edits("attribute-type-valid")
def undefined_type(attribute: Any) -> tuple[str, str, Callable[[Any], object]] | None:
    """The same where the type is UNDEFINED; a number that no type has is another matter."""
    return missing_type(attribute) if attribute.HasField("type") and attribute.type == 0 else None


@edits("shape-dim-param-empty")
def empty_dim_param(dimension: Any) -> tuple[str, str, Callable[[Any], object]] | None:
    """An empty variable, once the spelling of an unknown size, is left out."""
    return "clear the empty dim_param: an unknown size is an unset one", "", _clear_dim_param


@edits("shape-dim-value-nonnegative")
def unknown_size(dimension: Any) -> tuple[str, str, Callable[[Any], object]] | None:
    """A size of -1, by which old exporters say that they do not know it, is left out; other numbers do not say that."""
    if dimension.dim_value != -1:
        return None
    return "clear the dim_value -1: an unknown size is an unset one", "", _clear_dim_value


def _clear_dim_param(dimension: Any) -> None:
    dimension.ClearField("dim_param")


def _clear_dim_value(dimension: Any) -> None:
    dimension.ClearField("dim_value")


def find_fixes(message: Message, problems: Iterable[Problem]) -> list[Fix]:
    """The repairs that can be made of problems, which `check` found in a message; in their order.

    Nothing is changed: `apply_fixes` does that, with all of them or some.
    """
    elements = _Elements(message)
    pending: dict[tuple[str, str], list[int]] = {}
    fixes: list[Fix] = []
    for problem in problems.of(fixable()) if isinstance(problems, Problems) else problems:
        if problem.rule in _removers and problem.path.endswith("]"):
            above, _, number = problem.path[:-1].rpartition("[")
            pending.setdefault((problem.rule, above), []).append(int(number))
        elif problem.rule in _editors:
            above, siblings, index, target = elements.element(problem.path)
            found = _editors[problem.rule](target)
            if found is not None:
                template, detail, edit = found
                held = target if siblings is None else None  # else it is asked for again: a million are much memory
                fixes.append(Fix(problem.rule, above, template, detail, siblings, index, held, edit))
    taken: dict[str, tuple[Any, set[int]]] = {}
    for (rule, above), indexes in pending.items():
        # One object a repeated field, whatever the rule: `apply_fixes` takes all that goes out of it at once.
        if above not in taken:
            taken[above] = elements.at(above), set()
        siblings, gone = taken[above]
        template, remover = _removers[rule]
        for index, detail in remover(siblings, indexes):
            if index not in gone:
                gone.add(index)
                fixes.append(Fix(rule, above, template, detail, siblings, index))
    return fixes


def apply_fixes(fixes: Iterable[Fix]) -> None:
    """Make repairs that one call of `find_fixes` found; each repeated field is gone through once."""
    gone: dict[int, tuple[Any, set[int]]] = {}
    for fix in fixes:
        if fix.edit is not None:
            fix.edit(fix.siblings[fix.index] if fix.target is None else fix.target)
        else:
            gone.setdefault(id(fix.siblings), (fix.siblings, set()))[1].add(fix.index)
    for siblings, indices in gone.values():
        n = len(siblings)
        siblings._arrange([index for index in range(n) if index not in indices], n)


class _Elements:
    """The messages and repeated fields that paths name; what a path has in common with the one before is kept."""

    def __init__(self, message: Message) -> None:
        self.message = message
        self.above = ""
        self.value: Any = message  # the last message that something below was asked of
        self.field = ""
        self.siblings: Any = None  # the last repeated field that an element was asked of

    def at(self, path: str) -> Any:
        """The value at a path, such as graph.node[3].attribute."""
        if not path:
            return self.message
        above, _, step = path.rpartition(".")
        if above != self.above:
            self.above, self.value = above, self.at(above)
        name, bracket, index = step.partition("[")
        value = getattr(self.value, name)
        return value[int(index[:-1])] if bracket else value

    def element(self, path: str) -> tuple[str, Any, int, Any]:
        """A message, with the path of the repeated field that it is in, the field, and its index; None for no field."""
        if not path.endswith("]"):
            return path, None, 0, self.at(path)
        field, _, index = path[:-1].rpartition("[")
        if field != self.field or self.siblings is None:
            self.field, self.siblings = field, self.at(field)
        number = int(index)
        return self.field, self.siblings, number, self.siblings[number]
