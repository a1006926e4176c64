"""Statistics of one tensor or of all weights of a model, which are read block by block."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from threading import Lock
from typing import TYPE_CHECKING, Any

from onnxwire.analysis._sums import sum_block
from onnxwire.engine.message import Message
from onnxwire.errors import TensorError
from onnxwire.io.prefetch import open_external
from onnxwire.io.tensor_list import TensorInfo, describe, find_tensors
from onnxwire.tensor.block_reader import BlockReader
from onnxwire.tensor.dtypes import STRING, DataType
from onnxwire.tensor.error import tensor_error
from onnxwire.tensor.storage import Storage, elements_of, expand_index

if TYPE_CHECKING:
    import numpy as np

    from onnxwire.messages import TensorProto
    from onnxwire.tensor.storage import Index, IndexItem

    Array = np.ndarray[Any, Any]

_FETCHED_ELEMENTS = 1 << 22  # maximum number of elements that `measure` fetches from a server at once for an index
_MAX_CACHED_BYTES = 1 << 28  # maximum total size of remote tensors that are cached for the pass of the histograms
BLOCK_ELEMENTS = 1 << 16
"""The number of elements that are measured at a time; a block of this size fits the processor's cache."""
MAX_TENSORS = 100_000
"""The maximum number of tensors in one call. No real model has more, but a damaged file can, in two bytes each."""
MAX_PATH_CHARS = 1 << 24
"""The maximum number of characters in the paths of the tensors of one call. In graphs nested 30 deep, a tensor of 2
bytes has a path of 750 characters."""
_TASK_ELEMENTS = 64 * BLOCK_ELEMENTS  # number of elements that a thread claims at a time


@dataclass(frozen=True, slots=True)
class Histogram:
    """The numbers of elements in equally wide bins.

    low, high: the start of the first bin and the end of the last bin, which contains `high`. counts: the number of
    elements in each bin, from low to high. Integers whose maximum and minimum differ by less than the requested number
    of bins have one bin per value, which starts at the value.
    """

    __module__ = "onnxwire"

    low: float
    high: float
    counts: tuple[int, ...]

    @property
    def edges(self) -> list[float]:
        """The boundaries of the bins in ascending order, len(counts) + 1 numbers."""
        bins = len(self.counts)
        width = (self.high - self.low) / bins
        if math.isinf(width):
            return [self.low * (1 - i / bins) + self.high * (i / bins) for i in range(bins + 1)]
        return [self.low + i * width for i in range(bins)] + [self.high]


@dataclass(frozen=True, slots=True)
class Statistics:
    """The statistics of a tensor's elements.

    count: the number of elements. zeros: the number of elements that are 0 or -0. nan: the number of NaNs. inf: the
    number of infinities of either sign.
    min, max, mean, std: computed from the finite elements; None if there are none. Complex numbers are measured by
    their magnitudes, booleans as 0 and 1. min and max of integers are ints, and the mean is computed from their exact
    sum. std is the population's standard deviation, as in numpy.
    histogram: counts the finite elements; None if not requested, or without finite elements.
    """

    __module__ = "onnxwire"

    count: int
    min: float | None
    max: float | None
    mean: float | None
    std: float | None
    zeros: int
    nan: int
    inf: int
    histogram: Histogram | None = None


@dataclass(frozen=True, slots=True)
class TensorStatistics:
    """A tensor of a model and its statistics, which are None for strings."""

    __module__ = "onnxwire"

    info: TensorInfo
    statistics: Statistics | None


def measure(
    tensor: TensorProto,
    index: Index | None = None,
    *,
    bins: int = 0,
    threads: int | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> Statistics:
    """Measure the elements of a tensor, or those that an index selects.

    tensor: a tensor of any data type but STRING. index: see `TensorProto.read`. bins: the number of bins of the
    histogram, 0 for none; for a histogram the tensor is read a second time, unless all its finite elements are equal.
    threads, progress: as for `measure_all`; not used with an index.
    Memory: a few blocks per thread; more for typed fields such as float_data, and up to 256 MiB for a tensor on a
    server.
    Raises TensorError for strings, the errors of `TensorProto.numpy` for other tensors, and with an index those
    of `TensorProto.read`.
    """
    if index is None:
        return _Measurement([tensor], bins, threads, progress).run()[0]
    _reject_strings(tensor)
    storage = Storage(tensor)

    def blocks() -> Iterator[Array]:
        for part in split_index(index, storage.shape, _FETCHED_ELEMENTS if storage.is_remote else BLOCK_ELEMENTS):
            yield _to_numbers(tensor.read(part).reshape(-1), storage.data_type)

    moments = _measure_blocks(blocks())
    counter = _Counter.for_range(moments, bins)
    if counter is not None and not counter.is_trivial:
        for block in blocks():
            counter.counts += counter.count(block)
    return moments.finish(counter)


def measure_all(
    source: Message | Iterable[tuple[str, TensorProto]],
    *,
    bins: int = 0,
    threads: int | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> list[TensorStatistics]:
    """Measure every tensor of a message, at any depth, in several threads.

    source: a model or another message, or tensors with their paths. bins: as for `measure`. threads: the number of
    threads, by default one per core. progress: called with the number of measured payload bytes and the total, from any
    thread, one call at a time; the total grows when payloads are read a second time for histograms.
    The result does not depend on the number of threads. Payloads are read, not mapped.
    Returns one entry per tensor, in document order or that of `source`. Raises the errors of `TensorProto.numpy`, and
    TensorError for more than MAX_TENSORS tensors or MAX_PATH_CHARS characters of paths.
    """
    tensors: list[tuple[str, TensorProto]] = []
    n_path_chars = 0
    for path, tensor in find_tensors(source) if isinstance(source, Message) else source:
        n_path_chars += len(path)
        if len(tensors) == MAX_TENSORS or n_path_chars > MAX_PATH_CHARS:
            limits = f"{MAX_TENSORS:,} tensors, or {MAX_PATH_CHARS:,} characters in their paths"
            raise TensorError(f"the limits of one call are {limits}; choose fewer tensors")
        tensors.append((path, tensor))
    numeric_tensors = [tensor for _, tensor in tensors if tensor.data_type != STRING.number]
    results = iter(_Measurement(numeric_tensors, bins, threads, progress).run())
    return [
        TensorStatistics(describe(tensor, path), next(results) if tensor.data_type != STRING.number else None)
        for path, tensor in tensors
    ]


def _reject_strings(tensor: TensorProto) -> None:
    """Raise TensorError for a tensor of strings."""
    if tensor.data_type == STRING.number:
        raise tensor_error(tensor, "strings have neither a mean nor a range; choose a tensor of numbers")


class _Reader:
    """Reads the elements of a tensor, a block at a time.

    count: the number of elements. n_pending: the number of tasks of the current pass that are not finished.
    """

    def __init__(self, tensor: TensorProto) -> None:
        _reject_strings(tensor)
        self._reader = BlockReader(Storage(tensor))
        self.count = self._reader.count
        self.n_pending = 0

    @property
    def is_remote(self) -> bool:
        """Whether the elements are on a server."""
        file_and_offset = self._reader.file_and_offset
        return file_and_offset is not None and file_and_offset[0].memory is not None

    def count_bytes(self, elements: int) -> int:
        """Return the size of a number of elements in bytes."""
        return self._reader.data_type.count_bytes(elements)

    def blocks(self, start: int, end: int, buffer: bytearray) -> Iterator[Array]:
        """Yield the elements between two indexes as numbers; a block is valid until the next is read."""
        data_type = self._reader.data_type
        for block_start in range(start, end, BLOCK_ELEMENTS):
            count = min(BLOCK_ELEMENTS, end - block_start)
            yield _to_numbers(elements_of(self._reader.read(block_start, count, buffer), count, data_type), data_type)

    def release(self) -> None:
        """Release decoded and fetched bytes."""
        self._reader.release()


def _to_numbers(array: Array, data_type: DataType) -> Array:
    """Return elements as numbers: integers of any size as integers, booleans as bool, others as float32 or float64.

    numpy's own conversion of float16 is not vectorized, so it is not used.
    """
    import numpy as np

    if data_type.name == "BOOL":
        flags: Array = array.view(np.uint8) != 0
        return flags
    if data_type.name == "FLOAT16":
        return _from_float16(array.view(np.uint16))
    if data_type.name == "BFLOAT16":
        return (array.view(np.uint16).astype(np.uint32) << np.uint32(16)).view(np.float32)
    if data_type.dtype_name.startswith("complex"):
        with np.errstate(over="ignore"):
            magnitudes: Array = np.abs(array.astype(np.complex128))
        return magnitudes
    if array.dtype.isbuiltin != 1:  # a type of ml_dtypes, of at most 8 bits
        numbers: Array = _values_of(data_type).take(array.view(np.uint8))
        return numbers
    return array


@cache
def _values_of(data_type: DataType) -> Array:
    """Return the value of each byte as an element of a type of at most 8 bits: 256 numbers, int8 or float32."""
    import numpy as np

    values: Array = np.arange(256, dtype=np.uint8).view(data_type.dtype).astype(np.float32)
    if "INT" in data_type.name:
        values = values.astype(np.int8)
    return values


def _from_float16(bits: Array) -> Array:
    """Convert float16, passed as uint16, to float32."""
    import numpy as np

    float32_bits = bits.astype(np.uint32)
    # A float16 has 1 sign bit, 5 bits of exponent, all set for infinities and NaNs (0x7C00), and 10 bits of fraction.
    signs = float32_bits & np.uint32(0x8000)
    float32_bits &= np.uint32(0x7FFF)
    is_special = float32_bits >= np.uint32(0x7C00) if float32_bits.size and float32_bits.max() >= 0x7C00 else None
    float32_bits <<= np.uint32(13)
    # The exponent is now at its position in float32, but the biases differ by 112.
    values: Array = float32_bits.view(np.float32)
    values *= np.float32(2.0**112)
    if is_special is not None:
        # Set all bits of the exponent of infinities and NaNs, whose values are now 2**16 or more. NaNs keep their
        # fraction.
        float32_bits[is_special] = (float32_bits[is_special] & np.uint32(0x007FFFFF)) | np.uint32(0x7F800000)
    signs <<= np.uint32(16)
    float32_bits |= signs
    return values


@dataclass(slots=True)
class _Moments:
    """The statistics of some of the elements.

    finite: the number of finite elements. total: the sum of the finite elements. squares: the sum of the squared
    distances of the finite elements from their mean. is_integer: whether the elements are integers or booleans. The
    other fields are those of `Statistics`.
    """

    count: int = 0
    finite: int = 0
    zeros: int = 0
    nan: int = 0
    inf: int = 0
    min: float = math.inf
    max: float = -math.inf
    total: float = 0
    squares: float = 0.0
    is_integer: bool = True

    def add(self, other: _Moments) -> None:
        """Add the statistics of other elements. Source: Chan, Golub, LeVeque, "Updating formulae", 1979."""
        if other.finite:
            if self.finite:
                distance = other.total / other.finite - self.total / self.finite
                weight = self.finite * other.finite / (self.finite + other.finite)
                self.squares += other.squares + distance * distance * weight
                self.is_integer &= other.is_integer
            else:
                self.squares, self.is_integer = other.squares, other.is_integer
            self.min, self.max = min(self.min, other.min), max(self.max, other.max)
            self.total += other.total
            self.finite += other.finite
        self.count += other.count
        self.zeros += other.zeros
        self.nan += other.nan
        self.inf += other.inf

    def finish(self, counter: _Counter | None = None) -> Statistics:
        """Return the statistics of all elements."""
        if not self.finite:
            return Statistics(self.count, None, None, None, None, self.zeros, self.nan, self.inf)
        mean, std = self.total / self.finite, math.sqrt(self.squares / self.finite)
        histogram = None if counter is None else counter.finish()
        return Statistics(self.count, self.min, self.max, mean, std, self.zeros, self.nan, self.inf, histogram)


def _moments_of(block: Array) -> _Moments:
    """Measure the numbers of a block, as `_to_numbers` returns it."""
    import numpy as np

    moments = _Moments(count=block.size)
    if not block.size:
        return moments
    if block.dtype == np.bool_:
        block = block.view(np.uint8)
    moments.is_integer = block.dtype.kind in "iu"
    sums = _sum_block(block)
    if not math.isfinite(sums[3]):  # the total
        moments.nan = int(np.count_nonzero(np.isnan(block)))
        block = block[np.isfinite(block)]
        moments.inf = moments.count - moments.nan - block.size
        if not block.size:
            return moments
        sums = _sum_block(block)
    moments.finite = block.size
    moments.min, moments.max, moments.zeros, moments.total, moments.squares = sums
    return moments


def _sum_block(block: Array) -> tuple[float, float, int, float, float]:
    """Return the results of `sum_block` for an array."""
    if not (block.flags.aligned and block.flags.c_contiguous):
        block = block.copy()
    return sum_block(block.view("u1"), block.dtype.str[1:])


def _measure_blocks(blocks: Iterable[Array]) -> _Moments:
    return _sum_moments(map(_moments_of, blocks))


def _sum_moments(parts: Iterable[_Moments]) -> _Moments:
    """Return the statistics of all parts together."""
    total = _Moments()
    for part in parts:
        total.add(part)
    return total


class _Counter:
    """Counts the elements of a histogram.

    low, high, bins: the range and the number of bins of the histogram. total: the number of finite elements.
    is_trivial: whether all finite elements are equal, so that they need not be counted. counts: an array of the numbers
    of elements by bin; 0 until blocks are counted.
    """

    def __init__(self, low: float, high: float, bins: int, total: int, is_trivial: bool) -> None:
        self.low, self.high, self.bins = low, high, bins
        self.total = total
        self.is_trivial = is_trivial
        self.counts: Any = 0

    @classmethod
    def for_range(cls, moments: _Moments, bins: int) -> _Counter | None:
        """Return the counter for measured elements; None if there is nothing to count."""
        if bins <= 0 or not moments.finite:
            return None
        low, high = moments.min, moments.max
        if moments.is_integer and high - low < bins:
            return cls(low, high + 1, int(high - low) + 1, moments.finite, low == high)
        if low == high:
            # A single value is in the middle, as in numpy.
            return cls(low - 0.5, high + 0.5, bins, moments.finite, True)
        return cls(low, high, bins, moments.finite, False)

    def count(self, block: Array) -> Array:
        """Return the counts of the numbers of a block, as `_to_numbers` returns it."""
        import numpy as np

        # A signaling NaN is not an error here.
        with np.errstate(invalid="ignore", over="ignore"):
            numbers = block.astype(np.float64)
            if block.dtype.kind == "f" and not np.isfinite(numbers.sum()):
                numbers = numbers[np.isfinite(numbers)]
        low, width = float(self.low), float(self.high) - float(self.low)
        if math.isinf(width):
            # The difference of two float64 can overflow; its half can't.
            low, width = low / 2, float(self.high) / 2 - low / 2
            numbers /= 2
        numbers -= low
        numbers /= width
        numbers *= self.bins
        return np.bincount(np.minimum(numbers.astype(np.intp), self.bins - 1), minlength=self.bins)

    def finish(self) -> Histogram:
        """Return the histogram of all counted elements."""
        counts = [0] * self.bins
        if self.is_trivial:  # the elements are in the middle bin
            counts[self.bins // 2] = self.total
        else:
            counts = self.counts.tolist()
        return Histogram(float(self.low), float(self.high), tuple(counts))


class _Measurement:
    """Measures tensors in several threads. bins, threads, progress: as for `measure_all`.

    Threads claim parts of tensors in turn, so that even one large tensor occupies all threads.
    """

    def __init__(
        self,
        tensors: list[TensorProto],
        bins: int,
        threads: int | None,
        progress: Callable[[int, int], object] | None,
    ) -> None:
        self.tensors = tensors
        self.bins = bins
        self.threads = threads if threads is not None else _count_cores()
        self.progress = progress
        self.done_bytes = 0
        self.total_bytes = 0
        self.cache_bytes = 0  # bytes of tensors on servers that may still be cached for the second pass
        self.lock = Lock()
        self.error: BaseException | None = None

    def run(self) -> list[Statistics]:
        """Measure the tensors; return their statistics in order."""
        open_external(self.tensors)
        readers = [_Reader(tensor) for tensor in self.tensors]
        self.cache_bytes = _MAX_CACHED_BYTES if self.bins > 0 else 0
        self.total_bytes = sum(reader.count_bytes(reader.count) for reader in readers)
        moments = [
            _sum_moments(parts) for parts in self._run_tasks(readers, lambda index, blocks: _measure_blocks(blocks))
        ]
        counters = [_Counter.for_range(tensor_moments, self.bins) for tensor_moments in moments]
        second_pass = [
            (reader, counter) for reader, counter in zip(readers, counters, strict=True) if counter is not None
        ]
        second_pass = [(reader, counter) for reader, counter in second_pass if not counter.is_trivial]
        self.cache_bytes = 0
        self.total_bytes += sum(reader.count_bytes(reader.count) for reader, _ in second_pass)
        counts = self._run_tasks(
            [reader for reader, _ in second_pass],
            lambda index, blocks: sum(second_pass[index][1].count(block) for block in blocks),
        )
        for (_, counter), parts in zip(second_pass, counts, strict=True):
            counter.counts = sum(parts)
        return [tensor_moments.finish(counter) for tensor_moments, counter in zip(moments, counters, strict=True)]

    def _run_tasks(self, readers: list[_Reader], work: Callable[[int, Iterator[Array]], Any]) -> list[list[Any]]:
        """Divide the elements of each reader into tasks, and run them in threads.

        work: called with the index of a reader and the blocks of a task. Returns a list per reader: the results of
        `work` for its tasks, in order.
        """
        results: list[list[Any]] = [[None] * -(-reader.count // _TASK_ELEMENTS) for reader in readers]
        tasks = ((index, task) for index, parts in enumerate(results) for task in range(len(parts)))
        for reader, parts in zip(readers, results, strict=True):
            reader.n_pending = len(parts)

        def run_tasks() -> None:
            """Run tasks until none is left or one has failed."""
            # The largest element has 16 bytes.
            buffer = bytearray(BLOCK_ELEMENTS * 16)
            while True:
                with self.lock:
                    next_task = None if self.error is not None else next(tasks, None)
                if next_task is None:
                    return
                index, task = next_task
                reader = readers[index]
                start, end = task * _TASK_ELEMENTS, min((task + 1) * _TASK_ELEMENTS, reader.count)
                try:
                    results[index][task] = work(index, reader.blocks(start, end, buffer))
                    self._finish_task(reader, reader.count_bytes(end - start))
                except BaseException as error:
                    with self.lock:
                        self.error = self.error or error
                    return

        self._run_threads(run_tasks, sum(map(len, results)))
        if self.error is not None:
            raise self.error
        return results

    def _run_threads(self, run_tasks: Callable[[], None], n_tasks: int) -> None:
        """Run a function in several threads, at most one per task. After an interruption, the threads end early."""
        from threading import Thread

        n_threads = min(self.threads, n_tasks)
        if n_threads <= 1:
            run_tasks()
            return
        threads = [Thread(target=run_tasks, daemon=True) for _ in range(n_threads)]
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        except BaseException as error:
            self.error = self.error or error
            for thread in threads:
                if thread.ident is not None:
                    thread.join()
            raise

    def _reserve_cache(self, reader: _Reader) -> bool:
        """Reserve space to cache the bytes of a remote tensor for the second pass; return whether that succeeded."""
        if not reader.is_remote:
            return False
        self.cache_bytes -= reader.count_bytes(reader.count)
        return self.cache_bytes >= 0

    def _finish_task(self, reader: _Reader, size: int) -> None:
        """Count a task as done, release the reader if it is no longer needed, and report the progress.

        size: the size of the task's elements in bytes.
        """
        with self.lock:
            reader.n_pending -= 1
            if not reader.n_pending and not self._reserve_cache(reader):
                reader.release()
            self.done_bytes += size
            if self.progress is not None:
                self.progress(self.done_bytes, self.total_bytes)


def _count_cores() -> int:
    """Return the number of cores that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


def split_index(index: Index, shape: tuple[int, ...], max_elements: int) -> Iterator[tuple[IndexItem, ...]]:
    """Split an index into indexes of at most `max_elements` elements each, in order.

    index: ints, slices and an Ellipsis, for an array of `shape`. Raises IndexError if the index does not fit the shape,
    and FieldTypeError for an index of another type.
    """
    ranges, _ = expand_index(index, shape)
    sizes = [len(axis) for axis in ranges]
    if 0 in sizes:
        return
    # The first n_split - 1 axes are split into coordinates, the next one into slices; the axes after it are not split.
    n_split, n_per_coordinate = len(ranges), 1
    while n_split > 0 and n_per_coordinate * sizes[n_split - 1] <= max_elements:
        n_split -= 1
        n_per_coordinate *= sizes[n_split]
    sliced_axis = n_split - 1
    step = max(max_elements // n_per_coordinate, 1)

    def parts(i: int) -> Iterator[tuple[IndexItem, ...]]:
        """Yield the parts of the index from axis i on."""
        if i == sliced_axis:
            for start in range(0, sizes[i], step):
                yield (_slice_of(ranges[i][start : start + step]), *map(_slice_of, ranges[i + 1 :]))
            return
        for coordinate in ranges[i]:
            for further_items in parts(i + 1):
                yield (coordinate, *further_items)

    if sliced_axis < 0:
        yield tuple(map(_slice_of, ranges))
    else:
        yield from parts(0)


def _slice_of(axis: range) -> slice:
    """Return the slice that selects the coordinates of a range."""
    return slice(axis.start, axis.stop if axis.stop >= 0 else None, axis.step)
