"""Builds a catalog, or brings one up to date."""

from __future__ import annotations

import errno
import json
import os
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from onnxwire.arrow.many import model_text
from onnxwire.catalog.dataset import Dataset
from onnxwire.catalog.engines import run_tasks
from onnxwire.catalog.journal import batched
from onnxwire.catalog.models import Failure, State, file_states, find_models
from onnxwire.catalog.read import Result, Task, join_results
from onnxwire.errors import MissingPackageError, SaveError, SourceError
from onnxwire.io.remote.address import is_address, parse_address, shown_address

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from onnxwire.catalog.models import Entry, FileState

_TASK_BYTES = 1 << 26  # a larger model is a separate task
_TASK_MODELS = 64
# Limits of a group of models. A group is written at once, so a killed run loses at most one; the last task of a group
# may exceed its limits. The limit of the entries, with their names, keeps a line of the journal below MAX_LINE_BYTES.
_GROUP_SECONDS = 60
_GROUP_MODELS = 100_000
_GROUP_MODEL_BYTES = 1 << 36
_GROUP_TABLE_BYTES = 1 << 26  # maximum size of the rows in memory
_GROUP_ENTRY_BYTES = 1 << 24
_PRUNED_MODELS = 10_000
_MAX_ROUNDS = 3  # maximum number of times that models are read whose rows were lost in the same run
_MAX_ENTRY_BYTES = 1 << 20  # maximum size of one model's entry: a model can name ten thousand external files


@dataclass
class Summary:
    """The result of a run.

    read, unchanged, pruned: numbers of models. failures: the reason for each model that could not be read. rows: the
    number of rows of each table in the whole catalog.
    """

    read: int = 0
    unchanged: int = 0
    pruned: int = 0
    failures: dict[str, str] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Return the summary as a dict that json can write."""
        return asdict(self)


def build(
    sources: Iterable[str | os.PathLike[str]],
    folder: str | os.PathLike[str],
    *,
    engine: str = "local",
    address: str | None = None,
    workers: int | None = None,
    hash: bool = False,
    check: bool = False,
    prune: bool = False,
    repair: bool = False,
    storage_options: Mapping[str, Any] | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> Summary:
    """Read models into a catalog: Parquet files FOLDER/TABLE/*.parquet, whose rows name their model.

    sources: paths, addresses, patterns, and folders, which are searched for .onnx files; folders and patterns may be
    addresses if the store lists its files, as S3 does. engine: "local" for processes on this machine, "dask" or "ray"
    for a cluster at `address`, whose workers find the models at the same paths. workers: number of local processes, by
    default one per core. hash: hash the payloads of tensors (xxhash). check: run the rules of `check`. prune: remove
    models whose files are missing. repair: read all files of the catalog first, to find damaged ones. storage_options:
    as for `load`, for all addresses; passed to the workers. progress: called with the bytes of the models read so far,
    and their total.

    The tables are models, operators, tensors, values, metadata, problems and failures. A model in the catalog is not
    read again while its file and its external files keep their size and time, or ETag. A model that can't be read
    becomes a row of failures, and is tried again in the next run. If a run is interrupted, the next one continues.
    A damaged Parquet file that a run reads, or that `repair` finds, is renamed with a warning. Its models are read
    again if `sources` name them; the others become failures.
    Raises SourceError if the sources name no model, SaveError if the catalog can't be written or another run is writing
    to it, and MissingPackageError without pyarrow or the engine's package.
    """
    _require("pyarrow", "a catalog needs")
    if hash:
        _require("xxhash", "hashes need")
    path = os.fsdecode(folder)
    if is_address(path):
        reason = "a catalog is written to a folder of this machine, not to an address; name a path"
        raise SaveError(errno.EINVAL, reason, path)
    words = [os.fsdecode(source) for source in sources]
    found, faults = find_models(words, storage_options)
    if not found and faults:
        raise next(iter(faults.values()))
    summary = Summary()
    with Dataset(path) as data:
        if repair:
            data.repair()
        known = data.find([*found, *faults])
        gone: set[str] = set()
        if prune:
            servers = {_server(shown_address(word)) for word in words if is_address(word)}
            gone = _missing_models(data.names() - found.keys(), servers, storage_options)
        kept = _unchanged(found, known, hash, check, storage_options)
        summary.pruned, summary.unchanged = len(gone), len(kept)
        for names in batched(sorted(gone), _PRUNED_MODELS):
            data.change({}, {}, remove=names)
        changes = _Changes(data, known)
        for name, error in faults.items():
            if name not in gone:
                failure = Failure.of(error)
                summary.failures[model_text(name)] = failure.reason
                changes.put({name: failure}, Result({}, {}))
        wanted = {source: name for name, (source, _) in found.items() if name not in kept}
        total = sum(found[name][1][0] for name in wanted.values())
        done = 0
        for _ in range(_MAX_ROUNDS):
            data.lost.clear()
            tasks = _tasks(wanted, found, Task((), hash, check, storage_options))
            for task, result in run_tasks(tasks, engine, address, workers):
                entries: dict[str, Entry] = {}
                for source in task.models:
                    name, read = wanted[source], result.found[source]
                    size, mark = found[name][1]
                    entries[name] = read if isinstance(read, Failure) else State(size, mark, hash, check, read)
                    done += size
                failures = {
                    model_text(name): entry.reason for name, entry in entries.items() if isinstance(entry, Failure)
                }
                summary.failures |= failures
                summary.read += len(entries) - len(failures)
                changes.put(entries, result, sum(found[name][1][0] for name in entries))
                if progress is not None:
                    progress(done, total)
            changes.flush()
            # Models whose rows were lost with a damaged file while others were written.
            wanted = {found[name][0]: name for name in sorted(data.lost & found.keys())}
            if not wanted:
                break
            summary.unchanged -= len(kept.intersection(wanted.values()))
            total += sum(found[name][1][0] for name in wanted.values())
        summary.rows = data.rows()
    return summary


class _Changes:
    """A buffer of models that were read; it writes them to a catalog in groups."""

    def __init__(self, data: Dataset, known: Mapping[str, Entry]) -> None:
        self._data = data
        self._known = known
        self._start()

    def _start(self) -> None:
        self._models: dict[str, Entry] = {}
        self._parts: list[Result] = []
        self._model_bytes = self._table_bytes = self._entry_bytes = 0

    def put(self, models: Mapping[str, Entry], result: Result, size: int = 0) -> None:
        """Add models and their rows, except failures that the catalog already has. size: the bytes of the models."""
        if not self._models:
            self._start_time = time.monotonic()
        for name, entry in models.items():
            entry_size = len(json.dumps([name, entry]))
            if isinstance(entry, Failure) and entry == self._known.get(name):
                continue
            if isinstance(entry, State) and entry_size > _MAX_ENTRY_BYTES:
                entry, entry_size = entry._replace(mark=None, files={}), len(name)  # no mark: every run reads it again
            self._models[name] = entry
            self._entry_bytes += entry_size
        self._parts.append(result)
        self._table_bytes += sum(table.nbytes for table in result.tables.values())
        self._model_bytes += size
        if (
            time.monotonic() - self._start_time >= _GROUP_SECONDS
            or len(self._models) >= _GROUP_MODELS
            or self._model_bytes >= _GROUP_MODEL_BYTES
            or self._table_bytes >= _GROUP_TABLE_BYTES
            or self._entry_bytes >= _GROUP_ENTRY_BYTES
        ):
            self.flush()

    def flush(self) -> None:
        """Write the buffered models to the catalog."""
        if self._models:
            self._data.change(self._models, join_results(self._parts).tables)
        self._start()


def _require(package: str, who: str) -> None:
    try:
        import_module(package)
    except ImportError:
        text = f"{who} {package}, which is not installed; `pip install {package}`"
        raise MissingPackageError(text) from None


def _missing_models(
    names: Collection[str], servers: Collection[str | None], options: Mapping[str, Any] | None
) -> set[str]:
    """Return the models whose files no longer exist, except models on servers that may not be contacted.

    servers: the servers that may be contacted. The names come from a catalog, which may be hostile.
    """
    remote = {}
    for name in sorted(names):
        if is_address(name) and _server(name) in servers:
            with suppress(SourceError):  # the address names no file
                remote[name] = parse_address(name)
    gone = {name for name in names if not is_address(name) and not os.path.lexists(name)}
    if remote:
        from onnxwire.io.remote.address_listing import versions_of

        versions = versions_of(list(remote.values()), options)
        pairs = zip(remote, versions, strict=True)
        gone |= {name for name, version in pairs if isinstance(version, FileNotFoundError)}
    return gone


def _server(address: str) -> str | None:
    """Return the scheme and server, or bucket, of an address; None if it is malformed."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return None
    return f"{parts.scheme}://{parts.netloc}"


def _unchanged(
    found: dict[str, tuple[str, FileState]],
    known: Mapping[str, Entry],
    hash: bool,
    check: bool,
    options: Mapping[str, Any] | None,
) -> set[str]:
    """Return the names of models that the catalog has in their current state, with the requested hashes and checks."""
    states = {name: entry for name in found if isinstance(entry := known.get(name), State)}
    states = {name: state for name, state in states.items() if state.covers(found[name][1], hash, check)}
    files = [(found[name][0], location) for name, state in states.items() for location in state.files]
    now = file_states(files, options)
    return {
        name
        for name, state in states.items()
        if all(now.get((found[name][0], location), ()) == was for location, was in state.files.items())
    }


def _tasks(wanted: dict[str, str], found: dict[str, tuple[str, FileState]], task: Task) -> Iterator[Task]:
    """Yield one task per large model, and one per batch of small ones, with the options of `task`."""
    batch: list[str] = []
    size = 0
    for source, name in wanted.items():
        model_size = found[name][1][0]
        if batch and (size + model_size > _TASK_BYTES or len(batch) >= _TASK_MODELS):
            yield task._replace(models=tuple(batch))
            batch, size = [], 0
        batch.append(source)
        size += model_size
    if batch:
        yield task._replace(models=tuple(batch))
