"""Build a catalog, or update it."""

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

_TASK_BYTES = 1 << 26  # maximum size of the models of a task; a larger model is a separate task
_TASK_MODELS = 64  # maximum number of models of a task
# Limits of a group of models. A group is written as a unit, so a killed run loses at most one group. The last task of
# a group may exceed these limits. The limit of the entries, with their names, keeps a line of the journal below
# MAX_LINE_BYTES.
_GROUP_SECONDS = 60
_GROUP_MODELS = 100_000
_GROUP_MODEL_BYTES = 1 << 36  # maximum size of the models' files
_GROUP_TABLE_BYTES = 1 << 26  # maximum size of the rows in memory
_GROUP_ENTRY_BYTES = 1 << 24  # maximum size of the entries as JSON
_PRUNE_BATCH_MODELS = 10_000  # maximum number of removed models per line of the journal
_MAX_ROUNDS = 3  # maximum number of times that a run reads a model, if a damaged file loses the model's rows
_MAX_ENTRY_BYTES = 1 << 20  # maximum size of a name and State as JSON: a model can name ten thousand external files


@dataclass
class Summary:
    """The result of building a catalog.

    read, unchanged, pruned: numbers of models. failures: the reason for each model that could not be read, and for each
    source that names no model or could not be accessed. rows: the number of rows of each table in the whole catalog.
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
    models whose files are missing, those on servers only if `sources` name the server. repair: read all files of the
    catalog first, to find damaged files. storage_options: as for `load`, for all addresses; passed to the workers.
    progress: called with the number of bytes of the models read so far, and of all models to read.

    The tables are models, operators, tensors, values, metadata, problems and failures. A model in the catalog is not
    read again while its file and its external files keep their size and time, or ETag, unless `hash` or `check` is
    requested for the first time. A model that can't be read becomes a row of failures, and is tried again in the next
    run. If a run is interrupted, the next one continues.
    A damaged Parquet file that a run reads, or that `repair` finds, is renamed with a warning. Its models are read
    again if `sources` name them; its other models become failures.
    Raises SourceError if there are sources and none of them names an accessible model, SaveError if the catalog can't
    be written or another run is writing to it, FieldValueError for an unknown engine, and for dask without an address,
    and MissingPackageError without pyarrow, xxhash for hashes, or the engine's package.
    """
    _require("pyarrow", "a catalog needs")
    if hash:
        _require("xxhash", "hashes need")
    path = os.fsdecode(folder)
    if is_address(path):
        reason = "a catalog is written to a folder of this machine, not to an address; name a path"
        raise SaveError(errno.EINVAL, reason, path)
    source_texts = [os.fsdecode(source) for source in sources]
    # The values of `models` are (source, [size, mark]), see FileState.
    models, source_errors = find_models(source_texts, storage_options)
    if not models and source_errors:
        raise next(iter(source_errors.values()))
    summary = Summary()
    with Dataset(path) as dataset:
        if repair:
            dataset.repair()
        entries_before = dataset.find([*models, *source_errors])
        pruned_names: set[str] = set()
        if prune:
            servers = {
                _server_of(shown_address(source_text)) for source_text in source_texts if is_address(source_text)
            }
            pruned_names = _find_missing_models(dataset.names() - models.keys(), servers, storage_options)
        unchanged_names = _find_unchanged(models, entries_before, hash, check, storage_options)
        summary.pruned, summary.unchanged = len(pruned_names), len(unchanged_names)
        for names in batched(sorted(pruned_names), _PRUNE_BATCH_MODELS):
            dataset.change({}, {}, remove=names)
        changes = _ChangeBuffer(dataset, entries_before)
        for name, error in source_errors.items():
            if name not in pruned_names:
                failure = Failure.of(error)
                summary.failures[model_text(name)] = failure.reason
                changes.put({name: failure}, Result({}, {}))
        names_by_source = {source: name for name, (source, _) in models.items() if name not in unchanged_names}
        total_bytes = sum(models[name][1][0] for name in names_by_source.values())
        done_bytes = 0
        for _ in range(_MAX_ROUNDS):
            dataset.lost_names.clear()
            tasks = _split_into_tasks(names_by_source, models, Task((), hash, check, storage_options))
            for task, result in run_tasks(tasks, engine, address, workers):
                entries: dict[str, Entry] = {}
                for source in task.models:
                    name, outcome = names_by_source[source], result.outcomes[source]
                    size, mark = models[name][1]
                    entries[name] = outcome if isinstance(outcome, Failure) else State(size, mark, hash, check, outcome)
                    done_bytes += size
                failures = {
                    model_text(name): entry.reason for name, entry in entries.items() if isinstance(entry, Failure)
                }
                summary.failures |= failures
                summary.read += len(entries) - len(failures)
                changes.put(entries, result, sum(models[name][1][0] for name in entries))
                if progress is not None:
                    progress(done_bytes, total_bytes)
            changes.flush()
            # Read the models again whose rows a damaged file lost while the rows of other models were written.
            names_by_source = {models[name][0]: name for name in sorted(dataset.lost_names & models.keys())}
            if not names_by_source:
                break
            summary.unchanged -= len(unchanged_names.intersection(names_by_source.values()))
            total_bytes += sum(models[name][1][0] for name in names_by_source.values())
        summary.rows = dataset.rows()
    return summary


class _ChangeBuffer:
    """A buffer of models that were read, which are written to a catalog in groups.

    entries_before: the entries of the catalog before the run, by model name.
    """

    def __init__(self, dataset: Dataset, entries_before: Mapping[str, Entry]) -> None:
        self._dataset = dataset
        self._entries_before = entries_before
        self._clear()

    def _clear(self) -> None:
        self._models: dict[str, Entry] = {}
        self._results: list[Result] = []
        self._model_bytes = self._table_bytes = self._entry_bytes = 0

    def put(self, models: Mapping[str, Entry], result: Result, size: int = 0) -> None:
        """Add models and their rows, except failures that the catalog already has. size: the bytes of the models."""
        if not self._models:
            self._start_time = time.monotonic()
        for name, entry in models.items():
            entry_size = len(json.dumps([name, entry]))
            if isinstance(entry, Failure) and entry == self._entries_before.get(name):
                continue
            if isinstance(entry, State) and entry_size > _MAX_ENTRY_BYTES:
                # Without a mark, every run reads the model again.
                entry, entry_size = entry._replace(mark=None, files={}), len(name)
            self._models[name] = entry
            self._entry_bytes += entry_size
        self._results.append(result)
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
            self._dataset.change(self._models, join_results(self._results).tables)
        self._clear()


def _require(package: str, purpose: str) -> None:
    """Raise MissingPackageError if a package is not installed. purpose: the start of the error's text."""
    try:
        import_module(package)
    except ImportError:
        reason = f"{purpose} {package}, which is not installed; `pip install {package}`"
        raise MissingPackageError(reason) from None


def _find_missing_models(
    names: Collection[str], servers: Collection[str | None], options: Mapping[str, Any] | None
) -> set[str]:
    """Return the names of models whose files do not exist, except models on servers that may not be contacted.

    servers: the servers that may be contacted. The names come from a catalog, which may be hostile.
    """
    parsed_addresses = {}
    for name in sorted(names):
        if is_address(name) and _server_of(name) in servers:
            with suppress(SourceError):  # the address names no file
                parsed_addresses[name] = parse_address(name)
    missing_names = {name for name in names if not is_address(name) and not os.path.lexists(name)}
    if parsed_addresses:
        from onnxwire.io.remote.address_listing import versions_of

        versions = versions_of(list(parsed_addresses.values()), options)
        pairs = zip(parsed_addresses, versions, strict=True)
        missing_names |= {name for name, version in pairs if isinstance(version, FileNotFoundError)}
    return missing_names


def _server_of(address: str) -> str | None:
    """Return the scheme and server, or bucket, of an address; None if it is malformed."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return None
    return f"{parts.scheme}://{parts.netloc}"


def _find_unchanged(
    models: dict[str, tuple[str, FileState]],
    entries_before: Mapping[str, Entry],
    hash: bool,
    check: bool,
    options: Mapping[str, Any] | None,
) -> set[str]:
    """Return the names of models whose catalog entries are current, with the requested hashes and checks.

    models: as returned by `find_models`. entries_before: the entries of the catalog by model name.
    """
    states = {name: entry for name in models if isinstance(entry := entries_before.get(name), State)}
    states = {name: state for name, state in states.items() if state.is_current(models[name][1], hash, check)}
    external_files = [(models[name][0], location) for name, state in states.items() for location in state.files]
    current_states = file_states(external_files, options)
    # A file that `file_states` omits has the state (), which is unequal to every recorded state.
    return {
        name
        for name, state in states.items()
        if all(
            current_states.get((models[name][0], location), ()) == recorded_state
            for location, recorded_state in state.files.items()
        )
    }


def _split_into_tasks(
    names_by_source: dict[str, str], models: dict[str, tuple[str, FileState]], template: Task
) -> Iterator[Task]:
    """Yield one task per large model, and one per batch of small models, with the options of `template`.

    models: as returned by `find_models`.
    """
    batch: list[str] = []
    size = 0
    for source, name in names_by_source.items():
        model_size = models[name][1][0]
        if batch and (size + model_size > _TASK_BYTES or len(batch) >= _TASK_MODELS):
            yield template._replace(models=tuple(batch))
            batch, size = [], 0
        batch.append(source)
        size += model_size
    if batch:
        yield template._replace(models=tuple(batch))
