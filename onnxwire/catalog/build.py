"""Makes a catalog, or brings one up to date."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any

from onnxwire.arrow.many import plain_text
from onnxwire.catalog.dataset import Dataset
from onnxwire.catalog.engines import run_tasks
from onnxwire.catalog.models import State, file_states, find_models
from onnxwire.catalog.read import Result, Task, failure, join_results
from onnxwire.errors import MissingPackageError
from onnxwire.io.remote.address import is_address, parse_address

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from onnxwire.catalog.models import FileState

_BIG = 1 << 26  # bytes of models that make a task, or of one that is one by itself
_MANY = 64  # models of a task
_GROUP = 512  # models of a group of files
_GROUP_BYTES = 1 << 26  # of its rows in memory


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
    found, faults = find_models(sources, storage_options)
    if not found and faults:
        raise next(iter(faults.values()))
    summary = Summary()
    with Dataset(os.fspath(folder)) as data:
        known = data.models()
        gone = _gone(known.keys() - found.keys(), storage_options) if prune else set()
        kept = _unchanged(found, known, hash, check, storage_options)
        wanted = {source: name for name, (source, _) in found.items() if name not in kept}
        summary.pruned, summary.unchanged = len(gone), len(kept)
        data.drop(gone | (known.keys() - kept) & ({*wanted.values()} | faults.keys()))
        total = sum(found[name][1][0] for name in wanted.values())
        done = 0
        group: dict[str, State | None] = {}
        parts: list[Result] = []
        size = 0
        for name, error in faults.items():
            if name not in gone:
                group[name] = None
                parts.append(failure(name, error))
                summary.failures[plain_text(name)] = str(error)
        tasks = _tasks(wanted, found, Task((), hash, check, storage_options))
        for task, result in run_tasks(tasks, engine, address, workers):
            failed = _failures(result)
            summary.failures |= failed
            summary.read += len(task.models) - len(failed)
            for source in task.models:
                name = wanted[source]
                files = result.files.get(source)
                length, mark = found[name][1]
                group[name] = None if files is None else State(length, mark, hash, check, files)
                done += length
            parts.append(result)
            size += sum(table.nbytes for table in result.tables.values())
            if len(group) >= _GROUP or size >= _GROUP_BYTES:
                data.add(group, join_results(parts).tables)
                group, parts, size = {}, [], 0
            if progress is not None:
                progress(done, total)
        if group:
            data.add(group, join_results(parts).tables)
        summary.rows = data.rows()
    return summary


def _need(package: str, who: str) -> None:
    try:
        import_module(package)
    except ImportError:
        text = f"{who} {package}, which is not installed; `pip install {package}`"
        raise MissingPackageError(text) from None


def _gone(names: Collection[str], options: Mapping[str, Any] | None) -> set[str]:
    """The models whose files are no longer there; of those that can't be asked for it is not sure."""
    remote = sorted(filter(is_address, names))
    gone = {name for name in names if not is_address(name) and not os.path.lexists(name)}
    if remote:
        from onnxwire.io.remote.listing import look

        versions = look(list(map(parse_address, remote)), options)
        pairs = zip(remote, versions, strict=True)
        gone |= {name for name, version in pairs if isinstance(version, FileNotFoundError)}
    return gone


def _unchanged(
    found: dict[str, tuple[str, FileState]],
    known: dict[str, State | None],
    hash: bool,
    check: bool,
    options: Mapping[str, Any] | None,
) -> set[str]:
    """The names of models that are in as they are now, with all that is asked for."""
    states = {name: state for name in found if (state := known.get(name)) and state.covers(found[name][1], hash, check)}
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


def _failures(result: Result) -> dict[str, str]:
    if "failures" not in result.tables:
        return {}
    columns = result.tables["failures"].to_pydict()
    return dict(zip(columns["model"], columns["reason"], strict=True))
