"""The row of a benchmark. This module imports little, so that a process that measures an import starts almost empty."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import Any

    Side = Callable[[], Callable[[], object]]
    """Does the work that is not measured, such as imports and reading the input, and returns the operation to
    measure."""


class Skip(Exception):
    """Raised by `prepare` if a row can't be measured on this machine; the text is the reason."""


class Row:
    """One line of the table: the same work done by both sides.

    work: a description of the operation. ours, official: the sides; official is None if the official runtime cannot do
    the operation; then `note` is the reason. prepare: makes the input file, once, in a separate process. inputs: large
    files that each process reads before it measures, so that they are in the page cache. fingerprint: converts the
    result of an operation to a JSON value, which must be equal for both sides. goal: the minimum ratio of times.
    memory_goal: the maximum of extra memory in bytes; private_goal: the maximum of its anonymous part, which excludes
    mapped files. repeats: processes per side. in_child: the operation runs another process, whose memory counts.
    beside: the name of the program that replaces the official runtime; its memory is not measured.
    cpu_time: measure the processor time of the process, which other work on the machine changes less.
    """

    def __init__(
        self,
        work: str,
        *,
        ours: Side,
        official: Side | None,
        prepare: Callable[[], object] | None = None,
        inputs: tuple[Path, ...] = (),
        fingerprint: Callable[[Any], object] | None = None,
        goal: float | None = None,
        memory_goal: float | None = None,
        private_goal: float | None = None,
        repeats: int = 7,
        in_child: bool = False,
        note: str = "",
        beside: str = "",
        cpu_time: bool = False,
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
        self.cpu_time = cpu_time
