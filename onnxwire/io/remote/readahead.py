"""Predict the offsets that a walk over a file on a server will need next.

A walk that skips long values costs round trips, not bytes: at 30 ms a trip and 100 MB/s, a trip takes as long as 3 MB.
Therefore the next offsets are predicted from the values found so far, and fetched with the current request. The layers
of a model contain the same tensors, so once the last few sizes have occurred before, the sizes that followed them will
probably follow again. If that fails, known sizes are tried in all orders. A wrong prediction costs only its bytes.
If predictions fail, and the walk advances by fewer bytes per trip than could be read in that time, the file is read in
large ranges instead. So is a file of up to 64 MiB whose values are so dense that a request for each takes as long as
reading them; in a longer one, requests that are predicted correctly save traffic, and time on slow connections.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from onnxwire.engine.partial import Range

# The limits of one trip: the number of predicted ranges, and their total size. Half a mebibyte adds about 5 ms to a
# trip at 100 MB/s, less than one saved trip. Each range takes one or two pages of 4 KiB.
MAX_GUESSES = 64
_MAX_GUESSED_BYTES = 1 << 19

_TRIP_BYTES = 3_000_000  # bytes that could be read in the time of one trip
_DENSE_BYTES = 1 << 17  # distance of values up to which reading on is as fast as a correctly predicted request
_MIN_TRIPS = 4  # trips before the first window of a file longer than a window; they reveal the sizes of values
_FIRST_WINDOW, _LAST_WINDOW = 1 << 23, 1 << 26  # sizes in bytes
_MAX_READ = 1 << 28  # maximum size of all windows, which stay in memory

_INITIAL_DEPTH = 4  # number of values predicted at first; doubled whenever all predictions were right
_MAX_COMBINATIONS = 34  # number of offsets tried if the order is unknown: all sums of up to three of four sizes
_HISTORY = 4096  # number of earlier values of the same size that are compared
_MAX_MATCH = 64  # number of consecutive values that are compared
# The bytes fetched before and after a predicted offset, and the additional bytes for each value before it, since names
# differ in length.
_BYTES_BEFORE, _BYTES_AFTER, _BYTES_OF_DRIFT = 64, 768, 12


class Readahead:
    """The values that a walk has skipped, and predictions of the next ones."""

    def __init__(self) -> None:
        self._end = 0  # the end of the last value
        self._sizes: list[int] = []
        self._steps: list[int] = []  # the distance from the end of the previous value to the end of this one
        self._runs: list[int] = []  # the bytes between the previous value and this one
        self._indexes: dict[int, list[int]] = {}  # the indexes of values of each size
        self._depth = _INITIAL_DEPTH
        self._guessed = 0
        self._known = 0  # the number of values at the last prediction
        self._start = 0  # the start of the last value at the first prediction since a window
        self._trips = 0  # number of predictions since then
        self._failures = 0  # number of these predictions that were not completely right
        self._window = 0  # number of bytes to read without gaps, because predictions fail; 0 to predict
        self._values_before_window = 0
        self._read = 0  # total size of all windows

    def add(self, start: int, end: int, record: int) -> None:
        """Record a skipped value from start to end, in a message whose record begins at `record`."""
        if start < self._end:
            return  # the value is known from an earlier walk
        self._indexes.setdefault(end - start, []).append(len(self._sizes))
        self._sizes.append(end - start)
        before = self._end if self._sizes[1:] else record
        self._steps.append(end - before)
        self._runs.append(start - before)
        self._end = end

    @property
    def run(self) -> int:
        """The number of bytes that will probably be read between the last value and the next one."""
        return self._expected(1)[0][1] if self._sizes else 0

    def window(self, start: int, limit: int) -> int:
        """Return how many bytes to read from an offset on without gaps, if that is faster; 0 to predict.

        Windows grow as long as the walk finds so many values in them that a trip for each would take longer, and the
        sizes in a long file do not repeat.
        """
        values = len(self._sizes)
        rest = limit - start
        is_short = limit <= _LAST_WINDOW
        if self._window:
            found_values = values - self._values_before_window
            is_regular = not is_short and self._period()[1] >= min(_MAX_MATCH, max(found_values // 2, _INITIAL_DEPTH))
            if is_regular or found_values * _TRIP_BYTES < self._window:
                self._window = self._failures = self._trips = self._start = 0
                return 0
        else:
            advance = self._end - self._start
            is_dense = is_short and advance <= (values - self._values_before_window) * _DENSE_BYTES
            is_early = self._trips < _MIN_TRIPS and rest > _LAST_WINDOW
            if is_early or advance >= self._trips * _TRIP_BYTES or not (self._failures or is_dense):
                return 0
        self._values_before_window = values
        self._window = min(max(2 * self._window, _FIRST_WINDOW), _LAST_WINDOW)
        found = rest if rest <= _LAST_WINDOW else self._window
        self._read += found
        return found if self._read <= _MAX_READ else 0

    def guess(self, limit: int) -> list[Range]:
        """Return the ranges that the walk will probably read after the end of the last value; all before `limit`."""
        if not self._sizes:
            return []
        hits = len(self._sizes) - self._known
        if self._guessed:
            self._failures += hits < self._guessed
            self._trips += 1
            more, fewer = min(2 * self._depth, MAX_GUESSES), max(_INITIAL_DEPTH, min(hits, self._depth))
            self._depth = more if hits >= self._guessed else fewer
        self._known = len(self._sizes)
        self._start = self._start or self._end - self._steps[-1]
        ranges: list[Range] = []
        position = self._end
        expected = self._expected(self._depth + 1)
        for ahead in range(self._depth):
            position += expected[ahead][0]
            ranges.append(_around(position, ahead, min(expected[ahead + 1][1], _MAX_GUESSED_BYTES // MAX_GUESSES * 4)))
        self._guessed = len(ranges)
        if self._depth <= 2 * _INITIAL_DEPTH:
            ranges += self._combinations()
        chosen: list[Range] = []
        size = 0
        for start, end in ranges[:MAX_GUESSES]:
            size += end - start
            if end < limit and size <= _MAX_GUESSED_BYTES:
                chosen.append((start, end))
        return chosen

    def _period(self) -> tuple[int, int]:
        """Return after how many values the sizes repeat, and the number of last values that did so; 0 if none did."""
        last = len(self._sizes) - 1
        best, longest = last - 1 if last else last, 0
        for index in reversed(self._indexes[self._sizes[last]][-_HISTORY:-1]):
            length = 1
            while length < _MAX_MATCH and length <= index and self._sizes[index - length] == self._sizes[last - length]:
                length += 1
            if length > longest:
                best, longest = index, length
            if length == _MAX_MATCH:
                break
        return max(last - best, 1), longest

    def _expected(self, count: int) -> list[tuple[int, int]]:
        """Return the predicted steps and runs of the next values."""
        last = len(self._sizes) - 1
        period, longest = self._period()
        found = []
        for ahead in range(1, count + 1):
            index = last - period + ahead if longest else last
            while index > last:
                index -= period
            found.append((self._steps[index], self._runs[index]))
        return found

    def _combinations(self) -> list[Range]:
        """Return the ranges after one, two or three values of any known sizes."""
        steps: dict[int, None] = {}
        for size in sorted(self._indexes, key=lambda size: -len(self._indexes[size])):
            steps[self._steps[self._indexes[size][-1]]] = None
        reached: dict[int, int] = {}
        level = {0}
        for depth in range(3):
            level = {before + step for before in level for step in steps}
            if len(reached) + len(level) > _MAX_COMBINATIONS:
                level = set(sorted(level)[: _MAX_COMBINATIONS - len(reached)])
            for step in level:
                reached.setdefault(step, depth)
        return [_around(self._end + step, depth, 0) for step, depth in reached.items()]


def _around(position: int, ahead: int, run: int) -> Range:
    drift = _BYTES_OF_DRIFT * ahead
    return max(position - _BYTES_BEFORE - drift, 0), position + run + _BYTES_AFTER + drift
