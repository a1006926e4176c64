"""The edits of one opened file: a list of changes with undo and redo, and what they do to the message.

The message that was loaded is never edited. Each change is made on a copy, which shares all bytes, so that a change
that fails leaves nothing, and whoever still reads the message as it was may go on. The last few copies are kept; an
older state is made again, by the changes that lead to it.
"""

from __future__ import annotations

import os
import re
import threading
import warnings
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any

from onnxwire.analysis.diff import diff
from onnxwire.checker import Problem, check
from onnxwire.checker.problems import Problems
from onnxwire.engine.message import Message
from onnxwire.errors import EditError, PathError, StaleError
from onnxwire.io.save import save
from onnxwire.messages import SCHEMA, ModelProto
from onnxwire.transforms.extract import boundary, extract
from onnxwire.viewer.change_kinds import Change, change_of
from onnxwire.viewer.uploads import LARGEST, Uploads

KEPT = 8
"""States of the message that are kept."""
MOST_CHANGES = 10_000
MOST_LISTED = 500
"""Changes, before and after the present state, of one answer."""
MOST_OF_A_RULE = 1_000
"""Breaches of one rule that are looked at."""
_TOLD = ("error", "warning")
MOST_SHOWN = 200
"""Problems, and differences, of one answer."""


@dataclass(slots=True)
class _Checked:
    """The problems of one state that the file does not have."""

    revision: int
    rows: list[dict[str, Any]]
    total: int
    gone: int


class Edits:
    """The changes that were made to a message since it was loaded.

    original: the message as loaded, which must not be edited; file: its path, or what is none. revision: a
    number that no other state has, not even an equal one that was there before. uploads: files for tensors.
    Calls may come from several threads at once: one change at a time is made, and `message` is the present state, which
    nobody edits.
    """

    def __init__(self, original: Message, file: str = "") -> None:
        self.original = original
        self.file = os.path.abspath(file) if os.path.exists(file) else ""
        self.message = original
        self.revision = 0
        self.uploads = Uploads()
        self._lock = threading.RLock()
        self._check_lock = threading.Lock()
        self._changes: list[Change] = []
        self._done = 0  # of the changes, how many are made; the rest were undone
        self._saved = 0  # how many were made when it was saved; -1 where that state can't be had again
        self._states: dict[int, Message] = {0: original}  # by how many changes are made
        self._known: _Tally | None = None
        self._checked: _Checked | None = None

    @property
    def is_saved(self) -> bool:
        """Whether nothing would be lost."""
        return self._done == self._saved

    def state(self) -> dict[str, Any]:
        """Tell of the changes: how many there are and are made, the revision, and whether all are saved.

        changes: texts and paths of the last ones that are made, and of the first that were undone; first: the index of
        the first of them.
        """
        with self._lock:
            first = max(self._done - MOST_LISTED, 0)
            listed = self._changes[first : self._done + MOST_LISTED]
            return {
                "is_editable": True,
                "revision": self.revision,
                "changes": [{"text": change.text, "path": change.path} for change in listed],
                "first": first,
                "total": len(self._changes),
                "done": self._done,
                "is_saved": self.is_saved,
                "folder": self._folder,
                "words_for_original": self.words_for_original,
                "largest_drop": LARGEST,
            }

    def unsaved(self) -> list[str]:
        """The texts of the changes that are made and not saved."""
        with self._lock:
            made = [change.text for change in self._changes[max(self._saved, 0) : self._done]]
            return made + [f"undo: {change.text}" for change in self._changes[self._done : max(self._saved, 0)]]

    def change(self, revision: int, kind: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Make a change of a kind of `changes.KINDS`, as `make` does."""
        return self.make(revision, change_of(kind, arguments, self.uploads))

    def make(self, revision: int, change: Change) -> dict[str, Any]:
        """Make a change; returns the state.

        revision: that of the state which the change is meant for. Raises StaleError where that is not the present one,
        EditError where there are too many changes, and what the change raises: nothing is changed then.
        """
        with self._lock:
            self._refuse_stale(revision)
            if self._done >= MOST_CHANGES:
                raise EditError(f"there are {MOST_CHANGES:,} changes; save, and open the saved file for more")
            message = _copy(self.message)
            change.apply(message)
            del self._changes[self._done :]
            self._states = {done: kept for done, kept in self._states.items() if done <= self._done}
            if self._saved > self._done:
                self._saved = -1
            self._changes.append(change)
            self._go(self._done + 1, message)
            return self.state()

    def undo(self, revision: int) -> dict[str, Any]:
        """Take the last change back; returns the state. Raises StaleError, and EditError where there is none."""
        return self._step(revision, -1, "there is nothing to undo")

    def redo(self, revision: int) -> dict[str, Any]:
        """Make the change again that was taken back last; as `undo`."""
        return self._step(revision, 1, "there is nothing to redo")

    def _step(self, revision: int, step: int, reason: str) -> dict[str, Any]:
        with self._lock:
            self._refuse_stale(revision)
            done = self._done + step
            if not 0 <= done <= len(self._changes):
                raise EditError(reason)
            self._go(done, self._at(done))
            return self.state()

    def _at(self, done: int) -> Message:
        """The message after so many changes."""
        nearest = max(kept for kept in self._states if kept <= done)
        if nearest == done:
            return self._states[done]
        message = _copy(self._states[nearest])
        for change in self._changes[nearest:done]:
            change.apply(message)
        return message

    def _go(self, done: int, message: Message) -> None:
        self._states.pop(done, None)
        self._states[done] = message  # as the last one, so that those not seen for long come first
        while len(self._states) > KEPT + 1:
            del self._states[next(kept for kept in self._states if kept)]
        self.message = message
        self._done = done
        self.revision += 1

    def _refuse_stale(self, revision: int) -> None:
        if revision != self.revision:
            raise StaleError(
                "the model was changed meanwhile, by another tab of this page; nothing was changed now. "
                "Look at it as it is, and make your change again"
            )

    def problems(self) -> dict[str, Any]:
        """Check the present state; tell which problems it has that the file does not have.

        Returns revision, total (how many are new), gone (how many of the file's are no more), and rows: rule, severity,
        path and message of up to 200, errors first. Of a message that is not ONNX's there are none.
        """
        # A check may take longer than changes are to wait.
        with self._check_lock:
            with self._lock:
                revision, message = self.revision, self.message
            if self._checked is None or self._checked.revision != revision:
                self._checked = self._check(revision, message)
            return asdict(self._checked)

    def _check(self, revision: int, message: Message) -> _Checked:
        if message is self.original or type(message) not in SCHEMA.messages.values():
            return _Checked(revision, [], 0, 0)
        if self._known is None:
            self._known = _Tally(check(self.original, select=_TOLD, limit=MOST_OF_A_RULE))
        known = self._known
        problems = check(message, select=_TOLD, limit=MOST_OF_A_RULE)
        left = Counter(known.keys)
        rows: list[dict[str, Any]] = []
        total = 0
        for problem in problems:
            key = _key(problem)
            if left[key] > 0 or problem.rule in known.omitted:
                left[key] -= 1
                continue
            total += 1
            if len(rows) < MOST_SHOWN:
                rows.append({name: getattr(problem, name) for name in ("rule", "severity", "path", "message")})
        # Where one rule is broken so often that not all breaches are kept, they are counted only.
        for rule, before in known.omitted.items():
            more = problems.omitted.get(rule, 0) - before
            if more > 0:
                total += more
                text = f"it is broken {more:,} times more often than in the file"
                rows.append({"rule": rule, "severity": "warning", "path": "", "message": text})
        gone = sum(count for key, count in left.items() if count > 0 and key.partition("\n")[0] not in known.omitted)
        return _Checked(revision, rows, total, gone)

    def differences(self) -> dict[str, Any]:
        """Compare the present state with the file as it was opened.

        Returns revision, rows (change, kind, name, part, path, old, new; up to 200) and is_whole. Values of weights are
        not compared where they are the same bytes of the file.
        """
        with self._lock:
            revision, message = self.revision, self.message
        if not isinstance(message, ModelProto) or not isinstance(self.original, ModelProto):
            raise EditError("only models are compared; the changes are listed")
        rows: list[dict[str, Any]] = []
        for difference in diff(self.original, message):
            if len(rows) == MOST_SHOWN:
                return {"revision": revision, "rows": rows, "is_whole": False}
            names = ("change", "kind", "name", "part", "path", "old", "new")
            rows.append({name: getattr(difference, name) for name in names})
        return {"revision": revision, "rows": rows, "is_whole": True}

    def save(self, revision: int, path: str, *, replace: bool = False, words: str = "") -> dict[str, Any]:
        """Save the present state; returns the state, with path, bytes and warnings.

        path: a name in the folder of the opened file, or an absolute path. replace: allow to replace a file that is
        there. words: over the opened file, `words_for_original`, and nothing else, allow it. Raises StaleError,
        EditError where it is not allowed, and what `onnxwire.save` raises.
        """
        with self._lock:
            self._refuse_stale(revision)
            target = self._target(path)
            is_original = bool(self.file) and os.path.exists(target) and os.path.samefile(target, self.file)
            if is_original and words != self.words_for_original:
                raise EditError(
                    f"{os.path.basename(self.file)} is the file that is open; to write over it, "
                    f"type: {self.words_for_original}"
                )
            if not is_original and not replace and os.path.lexists(target):
                raise EditError(f"{target} is there already; allow to replace it, or choose another name")
            size, told = _with_warnings(lambda: save(self.message, target))
            self._saved = self._done
            return self.state() | {"path": target, "bytes": size, "warnings": told}

    @property
    def _folder(self) -> str:
        """The folder that names to save under are in."""
        return os.path.dirname(self.file) if self.file else os.getcwd()

    @property
    def words_for_original(self) -> str:
        """The words that allow to write over the opened file."""
        return f"replace {os.path.basename(self.file)}"

    def extract(self, revision: int, values: Iterable[str], path: str, *, replace: bool = False) -> dict[str, Any]:
        """Save the nodes of the main graph that make some values, as a model of its own; nothing is changed.

        values: one that each node makes. path, replace: as of `save`; it can't be the opened file. Returns path, bytes,
        warnings, and nodes, inputs and outputs of the part. Raises what `save` and `onnxwire.extract` raise.
        """
        with self._lock:
            self._refuse_stale(revision)
            model = self.message
            if not isinstance(model, ModelProto):
                raise EditError("parts of a model can be extracted, and this is not one")
            target = self._target(path)
            if self.file and os.path.exists(target) and os.path.samefile(target, self.file):
                raise EditError("this is the file that is open; choose another name for the part")
            if not replace and os.path.lexists(target):
                raise EditError(f"{target} is there already; allow to replace it, or choose another name")
            wanted = set(values)
            nodes = [index for index, node in enumerate(model.graph.node) if not wanted.isdisjoint(node.output)]
            if not nodes:
                raise PathError("no node of the main graph is marked", "", model._document.name)
            inputs, outputs = boundary(model.graph, nodes)
            part: ModelProto
            part, told = _with_warnings(lambda: extract(model, inputs, outputs))
            size, more = _with_warnings(lambda: save(part, target))
            return {
                "path": target,
                "bytes": size,
                "warnings": told + more,
                "nodes": len(part.graph.node),
                "inputs": inputs,
                "outputs": outputs,
            }

    def _target(self, path: str) -> str:
        if not path.strip() or "\0" in path:
            raise EditError("a name is missing; type one, such as edited.onnx")
        if os.path.isabs(path):
            return path
        if os.path.basename(path) != path or path in (os.curdir, os.pardir):
            raise EditError(f"{path!r} is neither a name nor an absolute path; a name is put in the model's folder")
        return os.path.join(self._folder, path)


def _copy(message: Message) -> Message:
    copy = type(message)()
    copy.CopyFrom(message)
    return copy


def _with_warnings(call: Callable[[], Any]) -> tuple[Any, list[str]]:
    """The result of a call, and its warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = call()
    return result, [str(warning.message) for warning in caught]


class _Tally:
    """The problems of the file: how many of each key, and by rule how many more there are than are kept."""

    def __init__(self, problems: Problems) -> None:
        self.keys = Counter(map(_key, problems))
        self.omitted = problems.omitted


def _key(problem: Problem) -> str:
    """The identity of a problem, wherever elements before it moved it, and whatever numbers are told of it."""
    text = re.sub(r"\[\d+\]", "[]", f"{problem.rule}\n{problem.path}\n{problem.message}")
    return re.sub(r"(?<![\w.'/])\d[\d,]*(?![\w'/])", "0", text)
