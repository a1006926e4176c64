"""Makes a catalog, or brings one up to date."""

from __future__ import annotations

import errno
import glob
import os
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from onnxwire.arrow.many import plain_text
from onnxwire.catalog.dataset import Dataset
from onnxwire.catalog.engines import run_tasks
from onnxwire.catalog.read import Task
from onnxwire.errors import MissingPackageError, SourceError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import pyarrow as pa

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
    progress: Callable[[int, int], object] | None = None,
) -> Summary:
    """Read models into a catalog: Parquet files, FOLDER/TABLE/*.parquet, each row with its model.

    sources: paths, patterns, and folders, of which every .onnx file below is meant. engine: "local" for processes here,
    "dask" or "ray" for a cluster at `address`, whose workers find the models at the same paths; workers: of the local
    engine, by default one a core. hash: hash the payloads of tensors (xxhash). check: run the rules of `check`. prune:
    drop models whose files are gone. progress: called with the bytes of models that are done, and their total.

    The tables are models, operators, tensors, values, metadata, problems and failures. Models that are in and have the
    size and time that they had are not read again. One that can't be read is a row of failures, and tried again in the
    next run. A run may be ended anywhere: the next goes on where it was.
    Raises SourceError for a source that names nothing, SaveError where the catalog can't be written or another run
    writes to it, and MissingPackageError without pyarrow or the engine's package.
    """
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        raise MissingPackageError("a catalog needs pyarrow, which is not installed; `pip install pyarrow`") from None
    if hash:
        try:
            import xxhash  # noqa: F401
        except ImportError:
            raise MissingPackageError("hashes need xxhash, which is not installed; `pip install xxhash`") from None
    states = {model: _state(model, hash, check) for model in find_models(sources)}
    summary = Summary()
    with Dataset(os.fspath(folder)) as data:
        known = data.models()
        gone = {model for model in known if prune and model not in states and not os.path.exists(model)}
        wanted = [model for model, state in states.items() if not _covers(known.get(model), state)]
        summary.pruned, summary.unchanged = len(gone), len(states) - len(wanted)
        data.drop(gone | (set(wanted) & known.keys()))
        total = sum(_size(states[model]) for model in wanted)
        done = 0
        group: dict[str, list[int] | None] = {}
        parts: dict[str, list[pa.Table]] = {}
        size = 0
        for task, tables in run_tasks(_tasks(wanted, states, hash, check), engine, address, workers):
            failed = _failures(tables)
            summary.failures |= failed
            summary.read += len(task.models) - len(failed)
            group |= {model: None if plain_text(model) in failed else states[model] for model in task.models}
            for name, table in tables.items():
                parts.setdefault(name, []).append(table)
                size += table.nbytes
            if len(group) >= _GROUP or size >= _GROUP_BYTES:
                _flush(data, group, parts)
                group, parts, size = {}, {}, 0
            done += sum(_size(states[model]) for model in task.models)
            if progress is not None:
                progress(done, total)
        _flush(data, group, parts)
        summary.rows = data.rows()
    return summary


def find_models(sources: Iterable[str | os.PathLike[str]]) -> list[str]:
    """The files that paths, patterns and folders name, whole paths, each once and sorted.

    Raises SourceError for what names nothing.
    """
    found: set[str] = set()
    for source in sources:
        word = os.fspath(source)
        if os.path.isdir(word):
            matches = glob.glob(os.path.join(glob.escape(word), "**", "*.onnx"), recursive=True)
        else:
            matches = [word] if os.path.exists(word) else glob.glob(word, recursive=True)
        if not matches:
            is_folder = os.path.isdir(word)
            reason = "there is no .onnx file in this folder" if is_folder else os.strerror(errno.ENOENT)
            raise SourceError.from_os_error(FileNotFoundError(errno.ENOENT, reason), word)
        found.update(os.path.abspath(match) for match in matches if not os.path.isdir(match))
    return sorted(found)


def _state(model: str, hash: bool, check: bool) -> list[int] | None:
    """The key of a model's state: size, time in nanoseconds, hashed, checked; None where it is gone."""
    try:
        status = os.stat(model)
    except OSError:
        return None
    return [status.st_size, status.st_mtime_ns, int(hash), int(check)]


def _covers(known: list[int] | None, state: list[int] | None) -> bool:
    """Whether what is in the catalog is what a model has now, and all that is asked for."""
    if known is None or state is None:
        return False
    return known[:2] == state[:2] and all(had >= asked for had, asked in zip(known[2:], state[2:], strict=True))


def _size(state: list[int] | None) -> int:
    return 0 if state is None else state[0]


def _tasks(models: list[str], states: dict[str, list[int] | None], hash: bool, check: bool) -> Iterator[Task]:
    """One task a big model, one for several small ones."""
    some: list[str] = []
    size = 0
    for model in models:
        if some and (size + _size(states[model]) > _BIG or len(some) >= _MANY):
            yield Task(tuple(some), hash, check)
            some, size = [], 0
        some.append(model)
        size += _size(states[model])
    if some:
        yield Task(tuple(some), hash, check)


def _failures(tables: dict[str, pa.Table]) -> dict[str, str]:
    if "failures" not in tables:
        return {}
    columns = tables["failures"].to_pydict()
    return dict(zip(columns["model"], columns["reason"], strict=True))


def _flush(data: Dataset, group: dict[str, list[int] | None], parts: dict[str, list[pa.Table]]) -> None:
    import pyarrow as pa

    if group:
        data.add(group, {name: pa.concat_tables(tables) for name, tables in parts.items()})
