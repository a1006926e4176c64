"""The edits of one opened file: a list of changes with undo and redo, and the edited message.

The loaded message is never edited. Each change is made on a copy-on-write clone, so that a change that fails has no
effect, and other threads can continue to read the previous state. The last few clones are cached; an older state is
recomputed from the nearest cached one.
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
from onnxwire.errors import EditError, PathError, StaleError, count_text
from onnxwire.io.save import save
from onnxwire.messages import SCHEMA, ModelProto
from onnxwire.transforms.extract import boundary, extract
from onnxwire.viewer.change_kinds import Change, make_change
from onnxwire.viewer.uploads import MAX_UPLOAD_BYTES, Uploads

MAX_STATES = 8
"""Maximum number of cached states of the message, besides the original."""
MAX_CHANGES = 10_000
"""Maximum number of changes in effect."""
MAX_LISTED_CHANGES = 500
"""Maximum number of changes in effect that one answer lists, and maximum number of undone changes that it lists."""
MAX_PROBLEMS_PER_RULE = 1_000
"""Maximum number of problems of one rule that a check lists; further problems are counted."""
_SEVERITIES = ("error", "warning")  # the severities of reported problems
MAX_ROWS = 200
"""Maximum number of problems, or differences, in one answer; rows that only count further problems are added."""


@dataclass(slots=True)
class _CheckResult:
    """The new problems of one state, in comparison with the original file; fields as in `Edits.problems`."""

    revision: int
    rows: list[dict[str, Any]]
    total: int
    left_off: int
    gone: int


class Edits:
    """The changes made to a message since it was loaded.

    original: the loaded message, which must not be edited; file: its path, or a name that is not a path (the attribute
    is the absolute path, or "" for a name). revision: a number unique to each state, even if two states are equal.
    uploads: files for tensors. message: the present state, which must not be edited.
    Thread-safe: one change is made at a time.
    """

    def __init__(self, original: Message, file: str = "") -> None:
        self.original = original
        self.file = os.path.abspath(file) if os.path.exists(file) else ""  # "" for a name
        self.message = original
        self.revision = 0
        self.uploads = Uploads()
        self._lock = threading.RLock()
        self._check_lock = threading.Lock()
        self._changes: list[Change] = []
        self._change_count = 0  # the number of changes in effect; the following changes were undone
        # The value of _change_count at the last save, or 0 before; -1 if a later change discarded that state.
        self._saved_count = 0
        self._states: dict[int, Message] = {0: original}  # keys: the number of changes in effect
        self._original_problems: _ProblemCounts | None = None
        self._check_result: _CheckResult | None = None

    @property
    def is_saved(self) -> bool:
        """Whether the present state is that of the last saved file, or of the opened file before any save."""
        return self._change_count == self._saved_count

    def state(self) -> dict[str, Any]:
        """Return the state of the edits as values that json can encode.

        is_editable: True. revision: as in the class. changes: the texts and paths of the last changes in effect and of
        the first undone changes; first: the index of the first listed change; total: the number of all changes; done:
        the number of changes in effect. is_saved, words_for_original: as the properties. folder: the folder to which
        relative file names refer. max_upload_bytes: the maximum size of an uploaded file.
        """
        with self._lock:
            first_index = max(self._change_count - MAX_LISTED_CHANGES, 0)
            listed_changes = self._changes[first_index : self._change_count + MAX_LISTED_CHANGES]
            return {
                "is_editable": True,
                "revision": self.revision,
                "changes": [{"text": change.text, "path": change.path} for change in listed_changes],
                "first": first_index,
                "total": len(self._changes),
                "done": self._change_count,
                "is_saved": self.is_saved,
                "folder": self._folder,
                "words_for_original": self.words_for_original,
                "max_upload_bytes": MAX_UPLOAD_BYTES,
            }

    def unsaved(self) -> list[str]:
        """Return the texts of the unsaved changes; the text of a saved change that was undone begins with "undo: ".

        If a later change discarded the saved state, returns the texts of all changes in effect.
        """
        with self._lock:
            new_changes = [change.text for change in self._changes[max(self._saved_count, 0) : self._change_count]]
            return new_changes + [
                f"undo: {change.text}" for change in self._changes[self._change_count : max(self._saved_count, 0)]
            ]

    def change(self, revision: int, kind: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Make a change of a kind in `change_kinds.KINDS`; see `make`."""
        return self.make(revision, make_change(kind, arguments, self.uploads))

    def make(self, revision: int, change: Change) -> dict[str, Any]:
        """Make a change; returns the state.

        revision: the revision that the change applies to. Raises StaleError if that is not the current revision,
        EditError for too many changes, and the exceptions of the change. After an exception, the state is unchanged.
        """
        with self._lock:
            self._raise_if_stale(revision)
            if self._change_count >= MAX_CHANGES:
                raise EditError(f"there are {MAX_CHANGES:,} changes; save, and open the saved file for more")
            message = _copy(self.message)
            change.apply(message)
            del self._changes[self._change_count :]
            self._states = {count: state for count, state in self._states.items() if count <= self._change_count}
            if self._saved_count > self._change_count:
                self._saved_count = -1
            self._changes.append(change)
            self._set_state(self._change_count + 1, message)
            return self.state()

    def undo(self, revision: int) -> dict[str, Any]:
        """Undo the last change; returns the state. Raises StaleError, and EditError if there is no change."""
        return self._move(revision, -1, "there is nothing to undo")

    def redo(self, revision: int) -> dict[str, Any]:
        """Redo the last undone change; returns the state. Raises StaleError, and EditError if no change was undone."""
        return self._move(revision, 1, "there is nothing to redo")

    def _move(self, revision: int, step: int, reason: str) -> dict[str, Any]:
        """Undo (step -1) or redo (step 1) a change. reason: the error if there is no such change."""
        with self._lock:
            self._raise_if_stale(revision)
            count = self._change_count + step
            if not 0 <= count <= len(self._changes):
                raise EditError(reason)
            self._set_state(count, self._state_after(count))
            return self.state()

    def _state_after(self, count: int) -> Message:
        """Return the message after the first `count` changes."""
        nearest = max(cached_count for cached_count in self._states if cached_count <= count)
        if nearest == count:
            return self._states[count]
        message = _copy(self._states[nearest])
        for change in self._changes[nearest:count]:
            change.apply(message)
        return message

    def _set_state(self, count: int, message: Message) -> None:
        """Make a message the present state. count: the number of changes in effect."""
        self._states.pop(count, None)
        self._states[count] = message  # moved to the end: the least recently used state comes first
        # The original, with key 0, is always cached.
        while len(self._states) > MAX_STATES + 1:
            del self._states[next(cached_count for cached_count in self._states if cached_count)]
        self.message = message
        self._change_count = count
        self.revision += 1

    def _raise_if_stale(self, revision: int) -> None:
        if revision != self.revision:
            raise StaleError(
                "another tab of this page changed the model in the meantime, so this action was not carried out; "
                "review the model, then repeat the action"
            )

    def problems(self) -> dict[str, Any]:
        """Check the present state, and return its new problems, in comparison with the original file.

        Returns revision, total (the number of new problems), gone (the number of the original file's problems that the
        present state does not have; problems of a rule that the original file breaks more often than the check lists
        are not counted), and rows: rule, severity, path and message of up to 200 new problems, errors first. For a rule
        that the present state breaks more often than the check lists, one more row has the number of new problems
        beyond this limit. left_off: the number of new problems that no row lists or counts. A message of a user's
        schema is not checked.
        """
        # A separate lock: changes must not wait for a check.
        with self._check_lock:
            with self._lock:
                revision, message = self.revision, self.message
            if self._check_result is None or self._check_result.revision != revision:
                self._check_result = self._check(revision, message)
            return asdict(self._check_result)

    def _check(self, revision: int, message: Message) -> _CheckResult:
        """Return the new problems of a message, in comparison with the original message."""
        if message is self.original or type(message) not in SCHEMA.messages.values():
            return _CheckResult(revision, [], total=0, left_off=0, gone=0)
        if self._original_problems is None:
            self._original_problems = _ProblemCounts(
                check(self.original, select=_SEVERITIES, limit=MAX_PROBLEMS_PER_RULE)
            )
        original_problems = self._original_problems
        problems = check(message, select=_SEVERITIES, limit=MAX_PROBLEMS_PER_RULE)
        remaining_counts = Counter(original_problems.counts)
        rows: list[dict[str, Any]] = []
        total = left_off = 0
        for problem in problems:
            key = _problem_key(problem)
            if remaining_counts[key] > 0 or problem.rule in original_problems.omitted:
                remaining_counts[key] -= 1
                continue
            total += 1
            if len(rows) < MAX_ROWS:
                rows.append({name: getattr(problem, name) for name in ("rule", "severity", "path", "message")})
            else:
                left_off += 1
        # Of problems beyond the limit of a rule, only the number is known.
        for rule, n_omitted in problems.omitted.items():
            n_new = n_omitted - original_problems.omitted.get(rule, 0)
            if n_new > 0:
                total += n_new
                reference = "in the file" if rule in original_problems.omitted else "listed"
                reason = f"the rule is broken {count_text(n_new, 'more time')} than {reference}"
                rows.append({"rule": rule, "severity": "warning", "path": "", "message": reason})
        n_fixed = sum(
            count
            for key, count in remaining_counts.items()
            if count > 0 and key.partition("\n")[0] not in original_problems.omitted
        )
        return _CheckResult(revision, rows, total, left_off, n_fixed)

    def differences(self) -> dict[str, Any]:
        """Compare the present state with the file as it was opened.

        Returns revision, rows (change, kind, name, part, path, old, new; up to 200) and is_whole (whether the rows are
        all differences). Weights that refer to the same bytes of the file are equal without being read. Raises
        EditError for messages that are not models.
        """
        with self._lock:
            revision, message = self.revision, self.message
        if not isinstance(message, ModelProto) or not isinstance(self.original, ModelProto):
            raise EditError("only models can be compared; see the list of changes")
        rows: list[dict[str, Any]] = []
        for difference in diff(self.original, message, match="name"):
            if len(rows) == MAX_ROWS:
                return {"revision": revision, "rows": rows, "is_whole": False}
            names = ("change", "kind", "name", "part", "path", "old", "new")
            rows.append({name: getattr(difference, name) for name in names})
        return {"revision": revision, "rows": rows, "is_whole": True}

    def save(self, revision: int, path: str, *, replace: bool = False, words: str = "") -> dict[str, Any]:
        """Save the present state; returns `state`, with path and bytes (the size) of the file, and warnings.

        path: a name in the folder of the opened file, or an absolute path. replace: allow replacing an existing file
        other than the opened one. words: must be `words_for_original` to replace the opened file.
        Raises StaleError, EditError for an invalid name and for a file that may not be replaced, and the exceptions of
        `onnxwire.save`.
        """
        with self._lock:
            self._raise_if_stale(revision)
            target = self._target_path(path)
            is_original = bool(self.file) and os.path.exists(target) and os.path.samefile(target, self.file)
            if is_original and words != self.words_for_original:
                raise EditError(
                    f"{os.path.basename(self.file)} is the opened file; "
                    f"to overwrite it, type: {self.words_for_original}"
                )
            if not is_original and not replace and os.path.lexists(target):
                raise EditError(f"{target} exists; allow replacing it, or choose another name")
            size, warning_texts = _with_warnings(lambda: save(self.message, target))
            self._saved_count = self._change_count
            return self.state() | {"path": target, "bytes": size, "warnings": warning_texts}

    @property
    def _folder(self) -> str:
        """The folder to which relative file names refer."""
        return os.path.dirname(self.file) if self.file else os.getcwd()

    @property
    def words_for_original(self) -> str:
        """The words that a user types to allow overwriting the opened file."""
        return f"replace {os.path.basename(self.file)}"

    def extract(self, revision: int, values: Iterable[str], path: str, *, replace: bool = False) -> dict[str, Any]:
        """Save some nodes of the main graph as a new model; the edited model does not change.

        values: one output of each of these nodes. path, replace: as for `save`; the opened file is refused. Returns
        path, bytes, warnings, nodes (their number), and the names of inputs and outputs. Raises EditError unless the
        message is a model, PathError if no node has an output in `values`, and the exceptions of `save` and
        `onnxwire.extract`.
        """
        with self._lock:
            self._raise_if_stale(revision)
            model = self.message
            if not isinstance(model, ModelProto):
                raise EditError("only a model has parts to extract, but the file contains another message")
            target = self._target_path(path)
            if self.file and os.path.exists(target) and os.path.samefile(target, self.file):
                raise EditError("this is the opened file; choose another name for the part")
            if not replace and os.path.lexists(target):
                raise EditError(f"{target} exists; allow replacing it, or choose another name")
            value_names = set(values)
            nodes = [index for index, node in enumerate(model.graph.node) if not value_names.isdisjoint(node.output)]
            if not nodes:
                raise PathError("no node of the main graph is marked", "", model._document.name)
            inputs, outputs = boundary(model.graph, nodes)
            extracted_model: ModelProto
            extracted_model, extract_warnings = _with_warnings(lambda: extract(model, inputs, outputs))
            size, save_warnings = _with_warnings(lambda: save(extracted_model, target))
            return {
                "path": target,
                "bytes": size,
                "warnings": extract_warnings + save_warnings,
                "nodes": len(extracted_model.graph.node),
                "inputs": inputs,
                "outputs": outputs,
            }

    def _target_path(self, path: str) -> str:
        """Return the absolute path of the file to write. Raises EditError for an invalid name."""
        if not path.strip() or "\0" in path:
            raise EditError("the file name is missing; type one, such as edited.onnx")
        if os.path.isabs(path):
            return path
        if os.path.basename(path) != path or path in (os.curdir, os.pardir):
            raise EditError(f"{path!r} is neither an absolute path nor a file name without folders")
        return os.path.join(self._folder, path)


def _copy(message: Message) -> Message:
    copy = type(message)()
    copy.CopyFrom(message)
    return copy


def _with_warnings(call: Callable[[], Any]) -> tuple[Any, list[str]]:
    """Return the result of a call, and the texts of its warnings."""
    with warnings.catch_warnings(record=True) as caught_warnings:
        warnings.simplefilter("always")
        result = call()
    return result, [str(warning.message) for warning in caught_warnings]


class _ProblemCounts:
    """The problems of the original file.

    counts: the number of problems by `_problem_key`. omitted: the number of problems beyond the limit, by rule.
    """

    def __init__(self, problems: Problems) -> None:
        self.counts = Counter(map(_problem_key, problems))
        self.omitted = problems.omitted


def _problem_key(problem: Problem) -> str:
    """Return a text that identifies a problem: without indices, which other edits shift, and without numbers."""
    text = re.sub(r"\[\d+\]", "[]", f"{problem.rule}\n{problem.path}\n{problem.message}")
    # A number next to a letter, a quote or a slash, or after a dot, is not replaced: it may be part of a name or path.
    return re.sub(r"(?<![\w.'/])\d[\d,]*(?![\w'/])", "0", text)
