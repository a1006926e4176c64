"""Where a walk that steps over long values will land next.

Round trips are what a walk over a file on a server costs, not bytes: at 30 ms a trip and 100 MB/s, a trip takes as long
as 3 MB. So what will be asked for is guessed from what was found, and fetched along. The layers of a model have the
same tensors: once the last few sizes stood somewhere before, what followed them there is likely to follow again. Where
that fails, sizes that were met are tried in all orders. A wrong guess costs its bytes, and nothing else.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from onnxwire.engine.partial import Range

# What may be guessed in one trip: so many landings, and bytes. Half a mebibyte adds some 5 ms to a trip at 100 MB/s,
# and is soon made up for by one trip less. Each landing takes one or two pages of 4 KiB.
GUESSES = 64
BYTES = 1 << 19

_FIRST = 4  # landings ahead that are tried at first; twice as many each time that all were right
_OTHERS = 34  # landings that are tried where the order is not known: all sums of up to three of four sizes
_RECENT = 4096  # values that are looked through for what was there before
_LONGEST = 64  # values in a row that are compared
_BEFORE, _AFTER, _DRIFT = 64, 768, 12  # bytes around a landing, and more for each before it: names differ


class Readahead:
    """The values that a walk stepped over, and guesses at the next."""

    def __init__(self) -> None:
        self._end = 0  # of the last value
        self._sizes: list[int] = []
        self._steps: list[int] = []  # from the end of the value before to its own
        self._runs: list[int] = []  # bytes that were read before it, since the value before
        self._indexes: dict[int, list[int]] = {}  # the indexes of a size
        self._ahead = _FIRST
        self._guessed = 0
        self._known = 0  # values when it was last guessed

    def add(self, start: int, end: int, record: int) -> None:
        """Take note of a value from start to end, in a message whose record begins at `record`."""
        if start < self._end:
            return  # a second walk
        self._indexes.setdefault(end - start, []).append(len(self._sizes))
        self._sizes.append(end - start)
        before = self._end if self._sizes[1:] else record
        self._steps.append(end - before)
        self._runs.append(start - before)
        self._end = end

    @property
    def run(self) -> int:
        """How many bytes are likely to be read after the last value, before the next one."""
        return self._expected(1)[0][1] if self._sizes else 0

    def guess(self, limit: int) -> list[Range]:
        """Ranges that are likely to be asked for after those at the end of the last value; all before `limit`."""
        if not self._sizes:
            return []
        hits = len(self._sizes) - self._known
        if self._guessed:
            more, fewer = min(2 * self._ahead, GUESSES), max(_FIRST, min(hits, self._ahead))
            self._ahead = more if hits >= self._guessed else fewer
        self._known = len(self._sizes)
        ranges: list[Range] = []
        position = self._end
        expected = self._expected(self._ahead + 1)
        for ahead in range(self._ahead):
            position += expected[ahead][0]
            ranges.append(_around(position, ahead, min(expected[ahead + 1][1], BYTES // GUESSES * 4)))
        self._guessed = len(ranges)
        if self._ahead <= 2 * _FIRST:
            ranges += self._others()
        chosen: list[Range] = []
        size = 0
        for start, end in ranges[:GUESSES]:
            size += end - start
            if end < limit and size <= BYTES:
                chosen.append((start, end))
        return chosen

    def _expected(self, count: int) -> list[tuple[int, int]]:
        """The steps and runs of the next values."""
        last = len(self._sizes) - 1
        best, longest = last - 1 if last else last, 0
        for index in reversed(self._indexes[self._sizes[last]][-_RECENT:-1]):
            length = 1
            while length < _LONGEST and length <= index and self._sizes[index - length] == self._sizes[last - length]:
                length += 1
            if length > longest:
                best, longest = index, length
            if length == _LONGEST:
                break
        period = max(last - best, 1) if longest else 1
        found = []
        for ahead in range(1, count + 1):
            index = last - period + ahead if longest else last
            while index > last:
                index -= period
            found.append((self._steps[index], self._runs[index]))
        return found

    def _others(self) -> list[Range]:
        """Readahead that can be reached by one, two or three values of any of the sizes that were met."""
        steps: dict[int, None] = {}
        for size in sorted(self._indexes, key=lambda size: -len(self._indexes[size])):
            steps[self._steps[self._indexes[size][-1]]] = None
        reached: dict[int, int] = {}
        level = {0}
        for depth in range(3):
            level = {before + step for before in level for step in steps}
            if len(reached) + len(level) > _OTHERS:
                level = set(sorted(level)[: _OTHERS - len(reached)])
            for step in level:
                reached.setdefault(step, depth)
        return [_around(self._end + step, depth, 0) for step, depth in reached.items()]


def _around(position: int, ahead: int, run: int) -> Range:
    return max(position - _BEFORE - _DRIFT * ahead, 0), position + run + _AFTER + _DRIFT * ahead
