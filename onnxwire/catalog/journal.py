"""Reads the journal of a catalog line by line, and validates it: it may come from an attacker.

The journal is a file of JSON objects, one per line. A line takes effect as a whole, once its newline is on the disk:

    {"onnxwire catalog": 1}                         the first line: the version of the format
    {"create": [ID, ...]}                           the files TABLE/ID.parquet belong to this catalog from here on
    {"time": SECONDS,                               a change of the contents, at a time since 1970
     "add": [ID, {MODEL: STATE, ...}, {TABLE: ROWS, ...}] or null,
     "remove": [MODEL, ...],
     "replace": {ID: [ID, {TABLE: ROWS, ...}], ...}}

A *group* is a set of models whose rows are in the same files, one file per table. A change adds at most one group,
whose models leave their previous groups, and removes models. `replace` names, for each group that lost some of its
models, the new files with the rows of the others. A group without models is dropped. So one line replaces the rows of a
model.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from onnxwire.catalog.models import Failure, State
from onnxwire.catalog.read import NAMES

if TYPE_CHECKING:
    from typing import IO, NoReturn

    from onnxwire.catalog.models import Entry

HEADER = b'{"onnxwire catalog": 1}\n'
MAX_LINE_BYTES = 1 << 27
_ID = re.compile(r"[0-9a-f]{32}")
_REMEDY = "restore it from a copy, or make the catalog anew in an empty folder"


class JournalError(ValueError):
    """The journal is damaged, or was not written by onnxwire; the message names the line and the remedy."""


@dataclass(frozen=True)
class Group:
    """Models that share files: the entry of each model, and the number of rows of each table in the group's file."""

    models: dict[str, Entry]
    rows: dict[str, int]


class Contents:
    """The contents of a catalog, built by applying the lines of its journal.

    groups: by their ids, which name their files. group_of: the id of each model's group. retired: the ids of files that
    are no longer valid, with the time when they were replaced; 0 for announced files that are not valid yet.
    """

    def __init__(self) -> None:
        self.groups: dict[str, Group] = {}
        self.group_of: dict[str, str] = {}
        self.retired: dict[str, int] = {}

    def apply(self, line: dict[str, Any]) -> None:
        """Apply one line. Raises ValueError for a line that contradicts the contents."""
        if line.keys() == {"create"}:
            for id in _list(line["create"]):
                self.retired[self._unused(id)] = 0
            return
        if line.keys() != {"time", "add", "remove", "replace"}:
            _refuse("a journal has no line with these keys")
        time = _count(line["time"])
        removed = {name: self._leave(name) for name in map(_name, _list(line["remove"]))}
        if line["add"] is not None:
            id, models, rows = _list(line["add"], 3)
            group = Group({_name(name): _entry(entry) for name, entry in _dict(models).items()}, _rows(rows))
            for name in group.models.keys() & self.group_of.keys():
                removed[name] = self._leave(name)
            self._enter(id, group)
        for old, new in _dict(line["replace"]).items():
            if old not in removed.values() or old not in self.groups:
                _refuse(f"it replaces {old!r:.50}, which is not a group that lost a model")
            id, rows = _list(new, 2)
            self._enter(id, Group(self.groups.pop(old).models, _rows(rows)))
            self.retired[old] = time
        for id in {*removed.values()} & self.groups.keys():
            if self.groups[id].models:
                _refuse(f"the group {id} lost models, and has no new files")
            del self.groups[id]
            self.retired[id] = time

    @property
    def is_checked(self) -> bool:
        """Whether the rules of `check` were run on any model."""
        entries = (entry for group in self.groups.values() for entry in group.models.values())
        return any(isinstance(entry, State) and entry.checked for entry in entries)

    @property
    def rows(self) -> dict[str, int]:
        """The number of rows of each table."""
        counts: dict[str, int] = {}
        for group in self.groups.values():
            for table, rows in group.rows.items():
                counts[table] = counts.get(table, 0) + rows
        return dict(sorted(counts.items()))

    def _leave(self, name: str) -> str:
        """Remove a model from its group; returns the group's id."""
        id = self.group_of.pop(name, None)
        if id is None:
            _refuse(f"the model {name!r:.200} is not in the catalog")
        del self.groups[id].models[name]
        return id

    def _enter(self, id: object, group: Group) -> None:
        if not isinstance(id, str) or self.retired.get(id) != 0:
            _refuse(f"the files {id!r:.50} were not announced")
        if not group.models:
            _refuse(f"the group {id} has no model")
        del self.retired[id]
        self.groups[id] = group
        self.group_of |= dict.fromkeys(group.models, id)

    def _unused(self, id: object) -> str:
        if not isinstance(id, str) or not _ID.fullmatch(id):
            _refuse(f"{id!r:.50} names no file: it is not 32 hexadecimal digits")
        if id in self.groups or id in self.retired:
            _refuse(f"the files {id} were announced before")
        return id


def read_journal(file: IO[bytes]) -> tuple[Contents, int]:
    """Return the contents that a journal describes, and the number of bytes in its complete lines.

    A last line without a newline is ignored: a run was interrupted while it wrote the line, or is writing it now.
    Raises JournalError.
    """
    contents = Contents()
    size = 0
    for number, line in enumerate(iter(lambda: file.readline(MAX_LINE_BYTES + 1), b""), 1):
        if len(line) > MAX_LINE_BYTES:
            raise JournalError(f"line {number:,} is longer than {MAX_LINE_BYTES:,} bytes; {_REMEDY}")
        if not line.endswith(b"\n"):
            break
        try:
            if number == 1:
                _check_header(line)
            else:
                contents.apply(_dict(json.loads(line.decode(), parse_constant=_refuse)))
        except (ValueError, RecursionError) as error:
            reason = "it is nested too deeply" if isinstance(error, RecursionError) else error
            raise JournalError(f"line {number:,} is damaged: {reason}; {_REMEDY}") from None
        size += len(line)
    return contents, size


def _check_header(line: bytes) -> None:
    if line != HEADER:
        version = re.fullmatch(rb'\{"onnxwire catalog": (\d{1,9})\}\n', line)
        _refuse(
            f"the format has version {int(version[1])}, and this onnxwire reads version 1"
            if version
            else "it is not the first line of a catalog"
        )


def _refuse(reason: str) -> NoReturn:
    raise ValueError(reason)


def _dict(found: object) -> dict[str, Any]:
    return found if isinstance(found, dict) else _refuse("an object is missing")


def _list(found: object, length: int | None = None) -> list[Any]:
    if not isinstance(found, list) or length not in (None, len(found)):
        _refuse("a list is missing, or of another length")
    return found


def _count(found: object) -> int:
    return found if type(found) is int and 0 <= found < 1 << 63 else _refuse(f"{found!r:.50} is not a count")


def _name(found: object) -> str:
    if not isinstance(found, str):
        _refuse("a text is missing")
    found.encode("utf-8", "surrogateescape")  # raises for characters that no path has
    return found


def _rows(found: object) -> dict[str, int]:
    rows = _dict(found)
    for table in rows.keys() - set(NAMES):
        _refuse(f"there is no table {table!r:.50}")
    return {table: _count(count) for table, count in rows.items()}


def _entry(found: object) -> Entry:
    if isinstance(found, list) and len(found) == len(Failure._fields):
        return Failure(*map(_name, found))
    size, mark, hashed, checked, files = _list(found, len(State._fields))
    if type(hashed) is not bool or type(checked) is not bool:
        _refuse("a state has no true or false")
    states = {
        _name(location): None if state is None else _file_state(state) for location, state in _dict(files).items()
    }
    size, mark = _file_state([size, mark])
    return State(size, mark, hashed, checked, states)


def _file_state(found: object) -> list[Any]:
    size, mark = _list(found, 2)
    is_time = type(mark) is int and -1 << 63 <= mark < 1 << 63
    return [_count(size), mark if mark is None or is_time else _name(mark)]
