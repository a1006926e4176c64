"""Makes a catalog, or brings one up to date."""

from __future__ import annotations

import errno
import json
import os
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from onnxwire.arrow.many import model_text
from onnxwire.catalog.dataset import Dataset
from onnxwire.catalog.engines import run_tasks
from onnxwire.catalog.models import Failure, State, file_states, find_models
from onnxwire.catalog.read import Result, Task, join_results
from onnxwire.errors import MissingPackageError, SaveError, SourceError
from onnxwire.io.remote.address import is_address, parse_address, shown_address

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from onnxwire.catalog.models import Entry, FileState

_BIG = 1 << 26  # bytes of models that make a task, or of one that is one by itself
_MANY = 64  # models of a task
# The most of a group of files; the last task may add to it. A line of the journal stays below MAX_LINE_BYTES so.
_GROUP = 512  # models
_GROUP_BYTES = 1 << 26  # of rows in memory
_GROUP_ENTRY_BYTES = 1 << 24  # of entries in the journal
_MAX_ENTRY_BYTES = 1 << 20  # of one model, such as one that names ten thousand external files


@dataclass
class Summary:
    """The result of a run.

    read, unchanged, pruned: models. failures: of those that could not be read, why. rows: of each table, in the whole
    catalog.
    """

    read: int = 0
    unchanged: int = 0
    pruned: int = 0
    failures: dict[str, str] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """The summary as JSON has it."""
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
    storage_options: Mapping[str, Any] | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> Summary:
    """Read models into a catalog: Parquet files, FOLDER/TABLE/*.parquet, each row with its model.

    sources: paths, addresses, patterns, and folders, of which every .onnx file below is meant; folders and patterns of
    addresses where the store lists its files, as S3 does. engine: "local" for processes here, "dask" or "ray" for a
    cluster at `address`, whose workers find the models at the same paths; workers: of the local engine, by default one
    a core. hash: hash the payloads of tensors (xxhash). check: run the rules of `check`. prune: drop models whose files
    are gone. storage_options: as of `load`, for all addresses; workers are given them. progress: called with the bytes
    of models that are done, and their total.

    The tables are models, operators, tensors, values, metadata, problems and failures. Models that are in are not read
    again while their files, external ones too, have the size and time, or ETag, that they had. A model that can't be
    read is a row of failures, and tried again in the next run. A run may be ended anywhere: the next goes on where it
    was.
    Raises SourceError where the sources name nothing, SaveError where the catalog can't be written or another run
    writes to it, and MissingPackageError without pyarrow or the engine's package.
    """
    _need("pyarrow", "a catalog needs")
    if hash:
        _need("xxhash", "hashes need")
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
        known = data.models()
        gone: set[str] = set()
        if prune:
            servers = {_server(shown_address(word)) for word in words if is_address(word)}
            gone = _gone(known.keys() - found.keys(), servers, storage_options)
        kept = _unchanged(found, known, hash, check, storage_options)
        summary.pruned, summary.unchanged = len(gone), len(kept)
        pruned = [name for name in known if name in gone]
        for start in range(0, len(pruned), _GROUP):
            data.change({}, {}, remove=pruned[start : start + _GROUP])
        changes = _Changes(data, known)
        for name, error in faults.items():
            if name not in gone:
                failure = Failure.of(error)
                summary.failures[model_text(name)] = failure.reason
                changes.put({name: failure}, Result({}, {}))
        # Models that are stored together come together, so that their files are replaced once.
        names = [name for name in known if name in found] + [name for name in found if name not in known]
        wanted = {found[name][0]: name for name in names if name not in kept}
        total = sum(found[name][1][0] for name in wanted.values())
        done = 0
        tasks = _tasks(wanted, found, Task((), hash, check, storage_options))
        for task, result in run_tasks(tasks, engine, address, workers):
            entries: dict[str, Entry] = {}
            for source in task.models:
                name, read = wanted[source], result.found[source]
                size, mark = found[name][1]
                entries[name] = read if isinstance(read, Failure) else State(size, mark, hash, check, read)
                done += size
            failures = {model_text(name): entry.reason for name, entry in entries.items() if isinstance(entry, Failure)}
            summary.failures |= failures
            summary.read += len(entries) - len(failures)
            changes.put(entries, result)
            if progress is not None:
                progress(done, total)
        changes.flush()
        summary.rows = data.rows()
    return summary


class _Changes:
    """Models that were read, on their way into a catalog: some hundred make a group."""

    def __init__(self, data: Dataset, known: Mapping[str, Entry]) -> None:
        self._data = data
        self._known = known
        self._start()

    def _start(self) -> None:
        self._models: dict[str, Entry] = {}
        self._parts: list[Result] = []
        self._table_bytes = self._entry_bytes = 0

    def put(self, models: Mapping[str, Entry], result: Result) -> None:
        """Add models and their rows. A failure that is known already is left out."""
        for name, entry in models.items():
            size = len(json.dumps(entry))
            if isinstance(entry, Failure) and entry == self._known.get(name):
                continue
            if isinstance(entry, State) and size > _MAX_ENTRY_BYTES:
                entry, size = entry._replace(mark=None, files={}), 0  # no mark: every run reads it again
            self._models[name] = entry
            self._entry_bytes += size
        self._parts.append(result)
        self._table_bytes += sum(table.nbytes for table in result.tables.values())
        is_big = self._table_bytes >= _GROUP_BYTES or self._entry_bytes >= _GROUP_ENTRY_BYTES
        if is_big or len(self._models) >= _GROUP:
            self.flush()

    def flush(self) -> None:
        """Write what was added."""
        if self._models:
            self._data.change(self._models, join_results(self._parts).tables)
        self._start()


def _need(package: str, who: str) -> None:
    try:
        import_module(package)
    except ImportError:
        text = f"{who} {package}, which is not installed; `pip install {package}`"
        raise MissingPackageError(text) from None


def _gone(names: Collection[str], servers: Collection[str | None], options: Mapping[str, Any] | None) -> set[str]:
    """The models whose files are no longer there; of those that can't be asked for it is not sure.

    servers: those that may be asked. The names are a catalog's, which may come from anybody.
    """
    remote = {}
    for name in sorted(names):
        if is_address(name) and _server(name) in servers:
            with suppress(SourceError):  # it names no file
                remote[name] = parse_address(name)
    gone = {name for name in names if not is_address(name) and not os.path.lexists(name)}
    if remote:
        from onnxwire.io.remote.address_listing import look

        versions = look(list(remote.values()), options)
        pairs = zip(remote, versions, strict=True)
        gone |= {name for name, version in pairs if isinstance(version, FileNotFoundError)}
    return gone


def _server(address: str) -> str | None:
    """The scheme and server, or bucket, of an address that names a file or folder there."""
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
    """The names of models that are in as they are now, with all that is asked for."""
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
    """One task a big model, one for several small ones; each else like `task`."""
    some: list[str] = []
    size = 0
    for source, name in wanted.items():
        more = found[name][1][0]
        if some and (size + more > _BIG or len(some) >= _MANY):
            yield task._replace(models=tuple(some))
            some, size = [], 0
        some.append(source)
        size += more
    if some:
        yield task._replace(models=tuple(some))
