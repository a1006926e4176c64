"""The files of a catalog: written whole, named by their content, and listed in a journal that says what is in.

A *group* is the rows of some models, in at most one file a table. The journal has a line for each group that came or
went. A file counts once its line is written, so a run may end anywhere: files without a line are deleted by the next
one, and their models are read again.
"""

from __future__ import annotations

import errno
import json
import os
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from onnxwire.arrow.many import plain_text
from onnxwire.catalog.models import State
from onnxwire.catalog.read import NAMES
from onnxwire.errors import SaveError, SourceError

if TYPE_CHECKING:
    from typing import Self

    import pyarrow as pa

JOURNAL = "_journal.jsonl"  # readers of data sets pass over names that begin so
_HIDDEN = "_unfinished-"


@dataclass(frozen=True)
class Group:
    """Some models that are in: the name of each with its state, and the file of each table with its rows.

    models: the state of a model when it was read; None for one that could not be read.
    """

    models: dict[str, State | None]
    files: dict[str, tuple[str, int]]

    @property
    def id(self) -> str:
        """A name of its own."""
        return sha256(json.dumps(sorted(self.models.items())).encode()).hexdigest()[:32]


class Dataset:
    """A catalog's folder, open for one run; a context manager. Raises SaveError where another run has it open."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        try:
            os.makedirs(folder, exist_ok=True)
            self._file = open(os.path.join(folder, JOURNAL), "a+b")  # noqa: SIM115
        except OSError as error:
            raise SaveError.from_os_error(error, folder) from None
        try:
            _lock(self._file.fileno(), folder)
            self.groups = _read_journal(self._file)
            self._delete_strays()
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        with suppress(OSError):  # what could not be written was told of when it was
            self._file.close()

    def models(self) -> dict[str, State | None]:
        """Every model that is in, with what it was when it was read."""
        return {model: state for group in self.groups.values() for model, state in group.models.items()}

    def rows(self) -> dict[str, int]:
        """How many rows each table has."""
        counts: dict[str, int] = {}
        for group in self.groups.values():
            for table, (_, rows) in group.files.items():
                counts[table] = counts.get(table, 0) + rows
        return dict(sorted(counts.items()))

    def add(self, models: dict[str, State | None], tables: dict[str, pa.Table]) -> None:
        """Put the rows of some models in."""
        group = Group(models, {name: (self._write(name, table), len(table)) for name, table in tables.items()})
        self._note({"add": [group.models, group.files]})
        self.groups[group.id] = group

    def drop(self, models: set[str]) -> None:
        """Take the rows of some models out; what else is in their groups is written anew."""
        import pyarrow.compute as pc
        import pyarrow.parquet as pq

        for group in [group for group in self.groups.values() if models & group.models.keys()]:
            kept = {model: state for model, state in group.models.items() if model not in models}
            line: dict[str, Any] = {"drop": group.id}
            fresh = None
            if kept:
                files = {}
                for name, (file, _) in group.files.items():
                    table = pq.read_table(os.path.join(self.folder, name, file))
                    names = set(map(plain_text, models))
                    table = table.filter(pc.invert(pc.is_in(table["model"], value_set=_strings(names))))
                    if len(table):
                        files[name] = (self._write(name, table), len(table))
                fresh = Group(kept, files)
                line["add"] = [kept, files]
            self._note(line)
            del self.groups[group.id]
            if fresh is not None:
                self.groups[fresh.id] = fresh
        self._delete_strays()

    def _write(self, name: str, table: pa.Table) -> str:
        """Write a file under the name of its content; returns that."""
        import pyarrow.parquet as pq

        folder = os.path.join(self.folder, name)
        unfinished = os.path.join(folder, f"{_HIDDEN}{os.getpid()}")
        try:
            os.makedirs(folder, exist_ok=True)
            with open(unfinished, "w+b") as file:
                pq.write_table(table, file, compression="zstd")
                file.flush()
                os.fsync(file.fileno())
                file.seek(0)
                digest = sha256()
                while piece := file.read(1 << 20):
                    digest.update(piece)
            final = f"{digest.hexdigest()[:32]}.parquet"
            os.replace(unfinished, os.path.join(folder, final))
        except OSError as error:
            with suppress(OSError):
                os.unlink(unfinished)
            raise SaveError.from_os_error(error, folder) from None
        return final

    def _note(self, line: dict[str, Any]) -> None:
        try:
            self._file.write(json.dumps(line, separators=(",", ":")).encode() + b"\n")
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            raise SaveError.from_os_error(error, self.folder) from None

    def _delete_strays(self) -> None:
        """Delete files that no group has: those of a run that was ended, and of groups that went."""
        known = {(name, file) for group in self.groups.values() for name, (file, _) in group.files.items()}
        for entry in os.scandir(self.folder):
            if entry.is_dir():
                for file in os.listdir(entry.path):
                    is_ours = file.startswith(_HIDDEN) or (file.endswith(".parquet") and len(file) == 40)
                    if is_ours and (entry.name, file) not in known:
                        with suppress(FileNotFoundError):
                            os.unlink(os.path.join(entry.path, file))


def files_of(folder: str) -> dict[str, list[str]]:
    """The files of each table of a catalog, as its journal lists them; of `problems` where models were checked.

    Raises SourceError for a folder that is not a catalog.
    """
    try:
        with open(os.path.join(folder, JOURNAL), "rb") as file:
            groups = _read_journal(file)
    except FileNotFoundError:
        reason = "this folder holds no catalog; name a model, or a folder that `onnxwire catalog` wrote"
        raise SourceError(errno.EISDIR, reason, folder) from None
    except OSError as error:
        raise SourceError.from_os_error(error, folder) from None
    states = [state for group in groups.values() for state in group.models.values()]
    is_checked = any(state is not None and state.checked for state in states)
    files: dict[str, list[str]] = {name: [] for name in NAMES if name != "problems" or is_checked}
    for group in groups.values():
        for name, (found, _) in group.files.items():
            files.setdefault(name, []).append(os.path.join(folder, name, found))
    return files


def _read_journal(file: Any) -> dict[str, Group]:
    """The groups that are in; a last line that was cut when a run was ended counts for nothing, and is cut off."""
    file.seek(0)
    groups: dict[str, Group] = {}
    sound = 0
    for line in file:
        try:
            entry = json.loads(line) if line.endswith(b"\n") else None
        except ValueError:
            entry = None
        if entry is None:
            break
        sound += len(line)
        groups.pop(entry.get("drop", ""), None)
        if "add" in entry:
            models, files = entry["add"]
            states = {model: _state(found) for model, found in models.items()}
            group = Group(states, {name: (found, rows) for name, (found, rows) in files.items()})
            groups[group.id] = group
    if file.writable():
        file.truncate(sound)
        file.seek(0, os.SEEK_END)
    return groups


def _state(found: list[Any] | None) -> State | None:
    """A state of the journal; None for one that another version wrote, so that the model is read again."""
    return State(*found) if found is not None and len(found) == len(State._fields) else None


def _strings(items: set[str]) -> Any:
    import pyarrow as pa

    return pa.array(sorted(items), pa.string())


def _lock(descriptor: int, folder: str) -> None:
    """Keep other runs out until the file is closed, by whatever way this process ends."""
    try:
        import fcntl
    except ImportError:  # Windows: the files are as safe, and who runs two at once is told by missing rows
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise SaveError(errno.EAGAIN, "another run writes to this catalog; wait for its end", folder) from None
