"""Read the journal of a catalog line by line, and validate it, because it may come from an attacker.

The journal is a file of JSON objects, one per line. A line takes effect as a whole, once its newline is on the disk:

    {"onnxwire catalog": 1}                         the first line: the version of the format
    {"create": [ID, ...]}                           announces files: from this line on, the files named ID belong to
                                                    this catalog
    {"add": {ID: {"models": COUNT, "rows": {TABLE: COUNT, ...}, "size": BYTES, "checked": BOOL}, ...},
     "remove": {ID: {"models": [MODEL, ...], "rows": {TABLE: COUNT, ...}}, ...},
     "retire": {ID: SECONDS, ...}}                  a change of the contents

A *group* is a set of models whose rows are in the same files TABLE/ID.parquet; the file _states/ID.parquet names the
models (states.py). `remove` lists models of a group whose rows are no longer valid: readers skip these rows until the
group is rewritten. The `rows` in `remove` are subtracted from those of the group. `retire` lists groups and announced
files that are no longer valid, with a time in seconds since 1970. So one line replaces the rows of models. A long
journal is replaced by a shorter one with the same contents, except on Windows.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

from onnxwire.catalog.read import TABLE_NAMES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import IO, NoReturn, TypeVar

    _Item = TypeVar("_Item")

HEADER = b'{"onnxwire catalog": 1}\n'
MAX_LINE_BYTES = 1 << 27  # including the newline
_MAX_LINE_NAMES = 10_000  # maximum number of names or ids in a line of `Contents.encode`
_ID_PATTERN = re.compile(r"[0-9a-f]{32}")
_REMEDY = "restore the journal from a copy, or build the catalog again in an empty folder"


class JournalError(ValueError):
    """The journal is damaged, or was not written by onnxwire; the message names the line and the remedy."""


@dataclass
class Group:
    """Models that share files.

    models: the number of models in the files. rows: the number of valid rows of each table in the files. size: the size
    of the files in bytes. is_checked: whether the rules of `check` were run on any model. removed: the models in the
    files whose rows are no longer valid, by the texts of their names.
    """

    models: int
    rows: dict[str, int]
    size: int
    is_checked: bool
    removed: set[str] = field(default_factory=set)

    def encode(self) -> dict[str, Any]:
        """Return the group as a value for a line that adds it, without `removed`, which other lines contain."""
        return {"models": self.models, "rows": self.rows, "size": self.size, "checked": self.is_checked}


class Contents:
    """The contents of a catalog, built by applying the lines of its journal.

    groups: the groups by their ids, which name their files. retired: the ids of files that are no longer valid, with
    the time when they were replaced; 0 for announced files that are not valid yet.
    """

    def __init__(self) -> None:
        self.groups: dict[str, Group] = {}
        self.retired: dict[str, int] = {}

    def apply(self, line: dict[str, Any]) -> None:
        """Apply one line. Raises ValueError for a line that is malformed or contradicts the contents."""
        if line.keys() == {"create"}:
            for id in as_list(line["create"]):
                self.retired[self._check_new_id(id)] = 0
            return
        if line.keys() != {"add", "remove", "retire"}:
            refuse("its keys are not those of a journal line")
        for id, group in as_dict(line["add"]).items():
            self._add_group(id, as_dict(group))
        removals = as_dict(line["remove"])
        for id, removal in removals.items():
            self._remove_models(id, as_dict(removal))
        for id, time in as_dict(line["retire"]).items():
            if self.groups.pop(id, None) is None and self.retired.get(id) != 0:
                refuse(f"it retires {id!r:.50}, which is neither a group nor announced")
            self.retired[id] = as_count(time)
        for id in removals.keys() & self.groups.keys():
            if len(self.groups[id].removed) >= self.groups[id].models:
                refuse(f"the group {id} has no model left")

    def encode(self) -> Iterator[dict[str, Any]]:
        """Yield the lines of a journal with these contents, except its first line."""
        ids = [*self.groups, *self.retired]
        for batch in batched(ids, _MAX_LINE_NAMES):
            yield {"create": batch}
        for id, group in self.groups.items():
            yield {"add": {id: group.encode()}, "remove": {}, "retire": {}}
            for names in batched(sorted(group.removed), _MAX_LINE_NAMES):
                yield {"add": {}, "remove": {id: {"models": names, "rows": {}}}, "retire": {}}
        for batch in batched([id for id, time in self.retired.items() if time], _MAX_LINE_NAMES):
            yield {"add": {}, "remove": {}, "retire": {id: self.retired[id] for id in batch}}

    @property
    def estimated_size(self) -> int:
        """The approximate size of the lines of `encode` in bytes."""
        # Typically, a removed name takes 8 bytes besides its text, a group 300 bytes, and a retired id 90 bytes.
        names = sum(len(name) + 8 for group in self.groups.values() for name in group.removed)
        return 300 * len(self.groups) + 90 * len(self.retired) + names

    @property
    def is_checked(self) -> bool:
        """Whether the rules of `check` were run on any model."""
        return any(group.is_checked for group in self.groups.values())

    @property
    def rows(self) -> dict[str, int]:
        """The number of rows of each table."""
        counts: dict[str, int] = {}
        for group in self.groups.values():
            for table, rows in group.rows.items():
                counts[table] = counts.get(table, 0) + rows
        return dict(sorted((table, rows) for table, rows in counts.items() if rows))

    def _add_group(self, id: object, group: dict[str, Any]) -> None:
        """Add a group, whose files must have been announced. Raises ValueError."""
        if not isinstance(id, str) or self.retired.get(id) != 0:
            refuse(f"the files {id!r:.50} were not announced")
        if group.keys() != {"models", "rows", "size", "checked"}:
            refuse("the keys of a group are not models, rows, size and checked")
        if as_count(group["models"]) == 0:
            refuse(f"the group {id} has no model")
        if type(group["checked"]) is not bool:
            refuse("the key checked of a group is neither true nor false")
        del self.retired[id]
        self.groups[id] = Group(group["models"], _decode_rows(group["rows"]), as_count(group["size"]), group["checked"])

    def _remove_models(self, id: str, removal: dict[str, Any]) -> None:
        """Remove models and their rows from a group. Raises ValueError if the removal contradicts the contents."""
        if removal.keys() != {"models", "rows"}:
            refuse("the keys of a removal are not models and rows")
        group = self.groups.get(id)
        if group is None:
            refuse(f"it removes models of {id!r:.50}, which is not a group")
        for name in map(as_text, as_list(removal["models"])):
            if name in group.removed:
                refuse(f"the model {name!r:.200} was removed before")
            group.removed.add(name)
        for table, rows in _decode_rows(removal["rows"]).items():
            if rows > group.rows.get(table, 0):
                refuse(f"it removes more rows of {table} than the group {id} has")
            group.rows[table] -= rows

    def _check_new_id(self, id: object) -> str:
        """Return an id. Raises ValueError for an id that is malformed or not new."""
        if not isinstance(id, str) or not _ID_PATTERN.fullmatch(id):
            refuse(f"{id!r:.50} names no file: it is not 32 hexadecimal digits")
        if id in self.groups or id in self.retired:
            refuse(f"the files {id} were announced before")
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
                contents.apply(as_dict(json.loads(line.decode(), parse_constant=refuse_constant)))
        except (ValueError, RecursionError) as error:
            reason = "it is nested too deeply" if isinstance(error, RecursionError) else error
            raise JournalError(f"line {number:,} is damaged: {reason}; {_REMEDY}") from None
        size += len(line)
    return contents, size


def _check_header(line: bytes) -> None:
    """Raise ValueError if a line is not the first line of a journal of this version."""
    if line != HEADER:
        version = re.fullmatch(rb'\{"onnxwire catalog": (\d{1,9})\}\n', line)
        refuse(
            f"the format has version {int(version[1])}, and this onnxwire reads version 1"
            if version
            else "it is not the first line of a catalog"
        )


def batched(items: Iterable[_Item], size: int) -> Iterator[list[_Item]]:
    """Yield the items in lists of `size` items; the last list may be shorter."""
    iterator = iter(items)
    while batch := list(islice(iterator, size)):
        yield batch


def refuse(reason: str) -> NoReturn:
    """Raise ValueError. A function, so that an expression can raise it, too."""
    raise ValueError(reason)


def refuse_constant(name: str) -> NoReturn:
    """Raise ValueError for NaN, Infinity or -Infinity, which `json` would accept."""
    refuse(f"{name} is not a number of JSON")


def as_dict(value: object) -> dict[str, Any]:
    """Return a JSON value that is an object. Raises ValueError for other values."""
    return value if isinstance(value, dict) else refuse("an object is missing")


def as_list(value: object, length: int | None = None) -> list[Any]:
    """Return a JSON value that is a list. Raises ValueError. length: the required length; None for any length."""
    if not isinstance(value, list) or length not in (None, len(value)):
        refuse("a list is missing, or of another length")
    return value


def as_count(value: object) -> int:
    """Return a JSON value that is an integer from 0 to 2**63 - 1. Raises ValueError for other values."""
    return value if type(value) is int and 0 <= value < 1 << 63 else refuse(f"{value!r:.50} is not a count")


def as_text(value: object) -> str:
    """Return a JSON value that is a string without lone surrogates. Raises ValueError for other values."""
    if not isinstance(value, str):
        refuse("a string is missing")
    value.encode()  # raises UnicodeEncodeError, a ValueError, for lone surrogates
    return value


def _decode_rows(value: object) -> dict[str, int]:
    """Return the number of rows of each table. Raises ValueError for an unknown table or an invalid number."""
    rows = as_dict(value)
    for table in rows.keys() - set(TABLE_NAMES):
        refuse(f"there is no table {table!r:.50}")
    return {table: as_count(count) for table, count in rows.items()}
