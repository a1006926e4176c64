"""The row of a benchmark. This module imports little, so that a process that measures an import has few modules."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import Any

    Side = Callable[[], Callable[[], object]]
    """A function that does the work that is not measured, such as imports and reading the input, and returns the
    operation to measure."""


class Skip(Exception):
    """An exception that `Row.prepare` raises if the row can't be measured on this machine. Its text is the reason."""


class Row:
    """One line of the table: the same work done by each side.

    work: a description of the operation.
    ours, official: the sides. `official` is None if the official runtime can't do the operation.
    note: the reason why `official` is None.
    prepare: a function that makes the input files or raises Skip; it is called once, in a separate process.
    inputs: large files that each process reads before it measures, so that they are in the page cache.
    fingerprint: a function that converts the result of an operation to a JSON value, which must be equal in all
        processes of the row.
    goal: the minimum ratio of the official time to the time of onnxwire.
    memory_goal: the maximum increase of memory of `ours` in bytes.
    anonymous_goal: the maximum increase of `ours` in bytes of anonymous memory, which excludes mapped files.
    repeats: the number of processes per side, without the warm-up.
    in_child: whether the operation of `ours` runs another process; the memory of that process is measured.
    other_program: the name of the program that replaces the official runtime. If `official` runs it in another
        process, its memory is not measured, whatever `in_child` is.
    cpu_time: whether to measure processor time, not elapsed time, which depends more on other work on the machine.
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
        anonymous_goal: float | None = None,
        repeats: int = 7,
        in_child: bool = False,
        note: str = "",
        other_program: str = "",
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
        self.anonymous_goal = anonymous_goal
        self.repeats = repeats
        self.in_child = in_child
        self.note = note
        self.other_program = other_program
        self.cpu_time = cpu_time
