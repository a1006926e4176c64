"""Predict the offsets that a walk over a file on a server will need next.

A walk that skips long values costs round trips, not bytes: at 30 ms a trip and 100 MB/s, a trip takes as long as 3 MB.
Therefore the next offsets are predicted from the values found so far, and fetched with the current request. The layers
of a model contain tensors of the same sizes, so if the last few sizes have occurred before, the sizes that followed
them will probably follow again. Unless recent predictions were mostly right, known sizes are also tried in any order.
A wrong prediction costs only its bytes.

If predictions fail, and the walk advances by fewer bytes per trip than could be read in that time, the file is read in
large ranges (windows) instead. A file of up to 64 MiB is also read in windows if its values are so dense that reading
without gaps is as fast as correctly predicted requests. In a longer file, requests that are predicted correctly save
traffic, and time on slow connections.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from onnxwire.engine.partial import Range

# The limits of one trip: the number of predicted ranges, and their total size. Half a mebibyte adds about 5 ms to a
# trip at 100 MB/s, less than one saved trip.
MAX_GUESSES = 64
_MAX_GUESSED_BYTES = 1 << 19

_TRIP_BYTES = 3_000_000  # bytes that could be read in the time of one trip
_DENSE_BYTES = 1 << 17  # distance of values up to which reading without gaps is as fast as a predicted request
_MIN_TRIPS = 4  # trips before a window if more than _LARGEST_WINDOW_BYTES are left; they reveal the sizes of values
_FIRST_WINDOW_BYTES, _LARGEST_WINDOW_BYTES = 1 << 23, 1 << 26  # sizes of the first window and of the largest window
_MAX_WINDOWS_BYTES = 1 << 28  # maximum size of all windows, which stay in memory

_INITIAL_DEPTH = 4  # values predicted at first; the number is doubled whenever all predictions were right
_MAX_COMBINATIONS = 34  # offsets tried at most while the order is unknown: the sums of up to three of four sizes
_MAX_COMPARED_VALUES = 4096  # earlier values of the same size that are compared
_MAX_MATCH_VALUES = 64  # consecutive values that are compared
# The bytes fetched before and after a predicted offset, and the additional bytes for each value before it, since names
# differ in length.
_BYTES_BEFORE, _BYTES_AFTER, _DRIFT_BYTES = 64, 768, 12


class Readahead:
    """The values that a walk has skipped, and predictions of the next ones."""

    def __init__(self) -> None:
        self._end = 0  # the end of the last value
        self._sizes: list[int] = []  # of all values, in bytes
        self._steps: list[int] = []  # for each value, the distance from the end of the previous value to its end
        self._runs: list[int] = []  # for each value, the number of bytes between it and the previous value
        self._indexes: dict[int, list[int]] = {}  # the indexes of values of each size
        self._depth = _INITIAL_DEPTH  # the number of values to predict
        self._n_guessed = 0  # the number of values in the last prediction
        self._n_values_before = 0  # the number of values at the last prediction
        self._start = 0  # the end of the second-last value at the first prediction since the last window
        self._trips = 0  # number of predictions since the last window that were compared with the walk
        self._failures = 0  # number of those that were not completely right
        self._window = 0  # number of bytes that are read without gaps instead of predicted ranges; 0 to predict
        self._values_before_window = 0  # the number of values before the last window
        self._windows_bytes = 0  # total size of all windows

    def add(self, start: int, end: int, record: int) -> None:
        """Record a skipped value from start to end, in a message whose record begins at `record`.

        The step and the run of the first value are measured from `record`.
        """
        if start < self._end:
            return  # the value is known from an earlier walk
        self._indexes.setdefault(end - start, []).append(len(self._sizes))
        self._sizes.append(end - start)
        previous_end = self._end if self._sizes[1:] else record
        self._steps.append(end - previous_end)
        self._runs.append(start - previous_end)
        self._end = end

    @property
    def next_run(self) -> int:
        """The number of bytes between the last value and the next one, as predicted."""
        return self._predict(1)[0][1] if self._sizes else 0

    def window(self, start: int, limit: int) -> int:
        """Return how many bytes to read from an offset on without gaps, if that is faster; 0 to predict.

        A window is followed by another, up to twice as large, if reading it took less time than a trip for each value
        in it, and, in a long file, if the sizes of the values do not repeat. Returns 0, too, if all windows together
        would exceed _MAX_WINDOWS_BYTES. limit: the end of the bytes that the walk can need.
        """
        n_values = len(self._sizes)
        n_left = limit - start
        is_short = limit <= _LARGEST_WINDOW_BYTES
        if self._window:
            n_window_values = n_values - self._values_before_window
            is_regular = not is_short and self._find_period()[1] >= min(
                _MAX_MATCH_VALUES, max(n_window_values // 2, _INITIAL_DEPTH)
            )
            if is_regular or n_window_values * _TRIP_BYTES < self._window:
                self._window = self._failures = self._trips = self._start = 0
                return 0
        else:
            advance = self._end - self._start
            is_dense = is_short and advance <= (n_values - self._values_before_window) * _DENSE_BYTES
            is_early = self._trips < _MIN_TRIPS and n_left > _LARGEST_WINDOW_BYTES
            if is_early or advance >= self._trips * _TRIP_BYTES or not (self._failures or is_dense):
                return 0
        self._values_before_window = n_values
        self._window = min(max(2 * self._window, _FIRST_WINDOW_BYTES), _LARGEST_WINDOW_BYTES)
        window = n_left if n_left <= _LARGEST_WINDOW_BYTES else self._window
        self._windows_bytes += window
        return window if self._windows_bytes <= _MAX_WINDOWS_BYTES else 0

    def guess(self, limit: int) -> list[Range]:
        """Return the ranges that the walk will probably read after the end of the last value; all before `limit`."""
        if not self._sizes:
            return []
        n_hits = len(self._sizes) - self._n_values_before
        if self._n_guessed:
            self._failures += n_hits < self._n_guessed
            self._trips += 1
            larger_depth, smaller_depth = (
                min(2 * self._depth, MAX_GUESSES),
                max(_INITIAL_DEPTH, min(n_hits, self._depth)),
            )
            self._depth = larger_depth if n_hits >= self._n_guessed else smaller_depth
        self._n_values_before = len(self._sizes)
        self._start = self._start or self._end - self._steps[-1]
        ranges: list[Range] = []
        position = self._end
        expected = self._predict(self._depth + 1)
        for n_ahead in range(self._depth):
            position += expected[n_ahead][0]
            ranges.append(
                _range_around(position, n_ahead, min(expected[n_ahead + 1][1], _MAX_GUESSED_BYTES // MAX_GUESSES * 4))
            )
        self._n_guessed = len(ranges)
        if self._depth <= 2 * _INITIAL_DEPTH:
            ranges += self._combination_ranges()
        limited_ranges: list[Range] = []
        size = 0
        for start, end in ranges[:MAX_GUESSES]:
            size += end - start
            if end < limit and size <= _MAX_GUESSED_BYTES:
                limited_ranges.append((start, end))
        return limited_ranges

    def _find_period(self) -> tuple[int, int]:
        """Return the number of values after which sizes repeat, and how many of the last values match earlier ones."""
        last_index = len(self._sizes) - 1
        best_index, longest_match = last_index - 1 if last_index else last_index, 0
        for index in reversed(self._indexes[self._sizes[last_index]][-_MAX_COMPARED_VALUES:-1]):
            length = 1
            while (
                length < _MAX_MATCH_VALUES
                and length <= index
                and self._sizes[index - length] == self._sizes[last_index - length]
            ):
                length += 1
            if length > longest_match:
                best_index, longest_match = index, length
            if length == _MAX_MATCH_VALUES:
                break
        return max(last_index - best_index, 1), longest_match

    def _predict(self, count: int) -> list[tuple[int, int]]:
        """Return the predicted steps and runs of the next values."""
        last_index = len(self._sizes) - 1
        period, longest_match = self._find_period()
        predictions = []
        for n_ahead in range(1, count + 1):
            index = last_index - period + n_ahead if longest_match else last_index
            while index > last_index:
                index -= period
            predictions.append((self._steps[index], self._runs[index]))
        return predictions

    def _combination_ranges(self) -> list[Range]:
        """Return the ranges after one, two or three values of any known sizes."""
        steps: dict[int, None] = {}
        for size in sorted(self._indexes, key=lambda size: -len(self._indexes[size])):
            steps[self._steps[self._indexes[size][-1]]] = None
        depth_by_step: dict[int, int] = {}
        sums = {0}
        for depth in range(3):
            sums = {partial_sum + step for partial_sum in sums for step in steps}
            if len(depth_by_step) + len(sums) > _MAX_COMBINATIONS:
                sums = set(sorted(sums)[: _MAX_COMBINATIONS - len(depth_by_step)])
            for step in sums:
                depth_by_step.setdefault(step, depth)
        return [_range_around(self._end + step, depth, 0) for step, depth in depth_by_step.items()]


def _range_around(position: int, n_ahead: int, run: int) -> Range:
    """Return the range to fetch for a predicted position. n_ahead: the number of predicted values before it.

    run: the predicted number of bytes from the position to the next value.
    """
    drift = _DRIFT_BYTES * n_ahead
    return max(position - _BYTES_BEFORE - drift, 0), position + run + _BYTES_AFTER + drift
