"""The row of a benchmark. Few imports, so that a process that measures an import starts almost empty."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Side = Callable[[], Callable[[], object]]
    """Does all that is not measured, such as imports and reading the input, and returns the operation to measure."""


class Skip(Exception):
    """Raised by `prepare` where a row can't be measured here; the text says why."""


class Row:
    """One line of the table: the same work done by both sides.

    work: what is done, for people; ours, official: the sides; official is None where it can't do the work, and `note`
    says why. prepare: makes the input file, once, in a process of its own; inputs: large files that each process reads
    before it measures, so that they are in the page cache; fingerprint: from the result of an operation to something
    JSON can hold, which must be the same on both sides. goal: the least ratio of times wanted; memory_goal: the most
    extra memory wanted, in bytes; private_goal: the most of it that is anonymous, and so is not part of a mapped file.
    repeats: processes a side; in_child: the operation runs another process, whose memory counts. beside: what runs in
    place of the official runtime; the memory of another program is not measured.
    """

    def __init__(
        self,
        work: str,
        *,
        ours: Side,
        official: Side | None,
        prepare: Callable[[], object] | None = None,
        inputs: tuple[Path, ...] = (),
        fingerprint: Callable[[object], object] | None = None,
        goal: float | None = None,
        memory_goal: float | None = None,
        private_goal: float | None = None,
        repeats: int = 7,
        in_child: bool = False,
        note: str = "",
        beside: str = "",
    ) -> None:
        self.work = work
        self.ours = ours
        self.official = official
        self.prepare = prepare
        self.inputs = inputs
        self.fingerprint = fingerprint
        self.goal = goal
        self.memory_goal = memory_goal
        self.private_goal = private_goal
        self.repeats = repeats
        self.in_child = in_child
        self.note = note
        self.beside = beside
