"""Write a catalog: a journal, and a folder of Parquet files for each table.

The journal (journal.py) lists the valid files. It also announces the files that a run is about to write, before the run
creates them. So a run may be interrupted anywhere: the next run deletes announced files that never became valid, and
files that became invalid more than an hour ago. It deletes no other files.

A group is a set of models whose rows are in the same files, at most one for each table. Rows are never changed in
place: a run adds the rows of models that it read as new groups, and removes the models from their previous groups by
the same line of the journal. Small groups are merged, as in a log-structured merge tree, and groups with many removed
models are rewritten. This limits the size of the journal and the number of files.
"""

from __future__ import annotations

import errno
import json
import math
import os
import sys
import time
import warnings
from bisect import bisect_left
from contextlib import suppress
from itertools import chain
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from onnxwire.arrow.many import make_array, model_name, model_text
from onnxwire.catalog.files import JOURNAL, as_file_error, file_name, find_existing, open_regular, read_contents
from onnxwire.catalog.journal import HEADER, Group
from onnxwire.catalog.models import Failure, State
from onnxwire.catalog.read import TABLE_NAMES, arrow_schema, failures_table
from onnxwire.catalog.states import STATES, ModelRecord, decode_state, states_table
from onnxwire.errors import SaveError
from onnxwire.io.atomic_file import sync_folder
from onnxwire.io.file_lock import try_lock
from onnxwire.io.folder import Folder, identity_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
    from typing import Self, TypeVar

    import pyarrow as pa

    from onnxwire.catalog.models import Entry

    _Result = TypeVar("_Result")

GRACE_SECONDS = 3600  # invalid files are deleted only after this time, because queries may still read them
_TABLE_FOLDERS = (*TABLE_NAMES, STATES)
_GROUP_BYTES = 1 << 27  # intended size of the files of a merged group
_GROUP_MODELS = 100_000  # maximum number of models in a merged group, because the journal lists each removed model
_FAN_IN = 16  # minimum number of groups of one level that are merged, unless they have _GROUP_BYTES together
_LEVEL_BYTES = 1 << 20  # size limit of groups of the first level; each next level's limit is _FAN_IN times larger
_BATCH_BYTES = 1 << 26  # while groups are merged, rows are written when they have this size in memory
_JOURNAL_BYTES = 1 << 20  # minimum size of a journal that is replaced by a shorter one
_LOST_ROWS_ERROR = (
    "the catalog's file with this model's rows was missing or damaged; run `onnxwire catalog` with the model again"
)
_DAMAGED_SUFFIX = ".damaged"  # appended to the name of a damaged file


class DamagedFileError(SaveError):
    """A Parquet file of a group can't be decoded, has unexpected columns or values, or contradicts the journal.

    table: the table of the file. group: the id of the group.
    """

    table = group = ""


class Dataset:
    """A catalog's folder, open for one run; a context manager.

    Raises SaveError if the folder can't be created or opened, or contains files but no catalog, if the catalog is open
    in another run, and if its journal is damaged or has several hard links.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._journal = -1
        self._records: dict[str, ModelRecord | None] = {}  # the results of `_locate`, by model text (see `model_text`)
        # Size of the groups that `_write_group` wrote, minus the estimated new sizes of the groups that `_plan_merges`
        # chose to rewrite without merging them; not negative.
        self._written_bytes = 0
        self.lost_names: set[str] = set()  # names of models whose rows were lost with a file; `build` clears the set
        try:
            os.makedirs(folder, exist_ok=True)
            self._root = Folder.at(folder)
        except OSError as error:
            raise SaveError.from_os_error(error, folder) from None
        try:
            self._open_journal()
        except OSError as error:
            self.close()
            raise as_file_error(SaveError, error, folder) from None
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the files and release the lock, so that another run may begin."""
        journal, self._journal = self._journal, -1
        if journal >= 0:
            os.close(journal)
        self._root.close()

    def names(self) -> set[str]:
        """Return the names of all models."""
        return self._retry_without_damaged(
            lambda: {model_name(text) for id in self._contents.groups for text in self._model_texts(id)}
        )

    def find(self, names: Iterable[str]) -> dict[str, Entry]:
        """Return the entries of those models that the catalog has, by name: the state or the failure of each."""
        texts = {model_text(name): name for name in names}
        self._retry_without_damaged(lambda: self._locate(texts))
        return {name: record.entry for text, name in texts.items() if (record := self._records[text]) is not None}

    def rows(self) -> dict[str, int]:
        """Return the number of rows of each table."""
        return self._contents.rows

    def change(self, models: Mapping[str, Entry], tables: Mapping[str, pa.Table], remove: Collection[str] = ()) -> None:
        """Add or replace the rows of some models and remove other models, atomically.

        models: the state or failure of each model; failures become rows. tables: the other rows of the models. remove:
        the names of the models to remove.
        """
        try:
            self._change(models, tables, remove)
            self._retry_without_damaged(self._compact)
        except BaseException as error:
            self.close()  # the last line may be incomplete, so appending to it would damage the journal
            if isinstance(error, OSError):
                raise as_file_error(SaveError, error, self.folder) from None
            raise

    def repair(self) -> None:
        """Read all files and rename damaged ones. Their models become failures, and are added to `lost_names`."""
        for id in list(self._contents.groups):
            self._retry_without_damaged(lambda id=id: self._verify(id))  # type: ignore[misc]

    def _verify(self, id: str) -> None:
        """Read all files of a group. Raises DamagedFileError."""
        if id in self._contents.groups:
            self._model_texts(id)
            for table_name, count in self._contents.groups[id].rows.items():
                for _ in self._read_valid_rows(id, table_name) if count else ():
                    pass

    def _retry_without_damaged(self, action: Callable[[], _Result]) -> _Result:
        """Return the result of an action.

        If the action raises DamagedFileError, rename the damaged file, replace its group by failures, and retry.
        """
        while True:
            try:
                return action()
            except DamagedFileError as damage:
                self._rename_damaged(damage)
                self._replace_with_failures(damage.group)

    def _rename_damaged(self, damage: DamagedFileError) -> None:
        """Rename a damaged file, with a warning. It is not deleted, so that a user can recover parts of it."""
        name = file_name(damage.group)
        with self._root.subfolder(damage.table) as folder:
            folder.replace(name, f"{name}{_DAMAGED_SUFFIX}")
        warnings.warn(f"{damage.filename}: {damage.strerror}; it was renamed to {name}{_DAMAGED_SUFFIX}", stacklevel=2)

    def _change(self, models: Mapping[str, Entry], tables: Mapping[str, pa.Table], remove: Collection[str]) -> None:
        """Write a new group of `models`. Remove these models, and those in `remove`, from their previous groups."""
        # The models are sorted, so that `_may_contain` excludes more groups by the min/max statistics of their files.
        models = dict(sorted(models.items(), key=lambda item: model_text(item[0])))
        texts = list(map(model_text, models))
        removed_texts = [*texts, *map(model_text, remove)]
        self._retry_without_damaged(lambda: self._locate(removed_texts))
        added_groups, state_texts = self._write_group(models, tables) if models else ({}, [])
        self._append_change(
            added_groups, {text: record for text in removed_texts if (record := self._records[text]) is not None}
        )
        self._records |= dict.fromkeys(removed_texts)
        for id in added_groups:
            self._records |= {text: decode_state(id, state) for text, state in zip(texts, state_texts, strict=True)}

    def _write_group(
        self, models: Mapping[str, Entry], tables: Mapping[str, pa.Table]
    ) -> tuple[dict[str, Group], list[str]]:
        """Write the files of a new group. Return {id: group}, and the states of its models as texts."""
        failures = {model: entry for model, entry in models.items() if isinstance(entry, Failure)}
        tables = {**tables, "failures": failures_table(failures)} if failures else tables
        state_rows = states_table(models, tables)
        id = uuid4().hex
        self._append_line({"create": [id]})
        written_tables = {**tables, STATES: state_rows}
        size = self._write(id, {table_name: iter([table]) for table_name, table in written_tables.items()})
        self._written_bytes += size
        is_checked = any(isinstance(entry, State) and entry.checked for entry in models.values())
        group = Group(len(models), {table_name: len(table) for table_name, table in tables.items()}, size, is_checked)
        return {id: group}, state_rows["state"].to_pylist()

    def _append_change(self, added_groups: Mapping[str, Group], removed_records: Mapping[str, ModelRecord]) -> None:
        """Append one line to the journal: new groups, whose files exist, and models whose rows become invalid.

        added_groups: the new groups by their ids. removed_records: the records of these models, by the texts of their
            names.
        """
        removals: dict[str, dict[str, Any]] = {}
        for text, record in removed_records.items():
            removal = removals.setdefault(record.group, {"models": [], "rows": {}})
            removal["models"].append(text)
            for table, count in record.rows.items():
                if count:
                    removal["rows"][table] = removal["rows"].get(table, 0) + count
        groups = self._contents.groups
        retired_ids = {
            id for id, removal in removals.items()
            if len(removal["models"]) + len(groups[id].removed) >= groups[id].models
        }  # fmt: skip
        self._append_line(
            {
                "add": {id: group.encode() for id, group in added_groups.items()},
                "remove": {id: removal for id, removal in removals.items() if id not in retired_ids},
                "retire": dict.fromkeys(retired_ids, int(time.time())),
            }
        )

    # --- states

    def _model_texts(self, id: str) -> list[str]:
        """Return the names of a group's models that were not removed, as texts (see `model_text`)."""
        removed = self._contents.groups[id].removed
        return [text for text in self._read_states(id, ["model"])["model"].to_pylist() if text not in removed]

    def _locate(self, texts: Iterable[str]) -> None:
        """Find the groups and states of models and add them to `_records`; None for a model that the catalog lacks."""
        import pyarrow as pa
        import pyarrow.compute as pc

        new_texts = [text for text in texts if text not in self._records]
        if not new_texts:
            return
        located_records: dict[str, ModelRecord | None] = dict.fromkeys(new_texts)
        sorted_texts = sorted(new_texts)
        ids = [id for id in self._contents.groups if self._may_contain(id, sorted_texts)]
        text_columns = {id: self._read_states(id, ["model"])["model"] for id in ids}
        # Search all groups in one call, because each call of is_in makes a hash table of `new_texts`.
        all_texts = pa.chunked_array(
            [chunk for text_column in text_columns.values() for chunk in text_column.chunks], pa.string()
        )
        masks = pc.is_in(all_texts, value_set=make_array(new_texts, "string"))
        start = 0
        for id, text_column in text_columns.items():
            mask = masks.slice(start, len(text_column))
            start += len(text_column)
            if not pc.any(mask).as_py():
                continue
            removed = self._contents.groups[id].removed
            rows = self._read_states(id, ["model", "state"]).filter(mask).to_pydict()
            for text, state in zip(rows["model"], rows["state"], strict=True):
                if text in removed:
                    continue
                try:
                    record = decode_state(id, state)
                except (ValueError, TypeError, RecursionError) as error:
                    raise self._damage_error(id, STATES, error) from None
                if located_records[text] is not None:
                    reason = f"two groups have the model {text!r:.200}; build the catalog again in an empty folder"
                    raise SaveError(errno.EINVAL, reason, self.folder)
                located_records[text] = record
        self._records |= located_records

    def _may_contain(self, id: str, texts: list[str]) -> bool:
        """Return whether a group may have any of these sorted models, by the statistics in the file of its states."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        with self._root.subfolder(STATES) as folder, os.fdopen(open_regular(folder, file_name(id)), "rb") as file:
            try:
                metadata = pq.read_metadata(file)
                for number in range(metadata.num_row_groups):
                    statistics = metadata.row_group(number).column(0).statistics
                    if statistics is None or not statistics.has_min_max:
                        return True
                    index = bisect_left(texts, statistics.min)
                    if index < len(texts) and texts[index] <= statistics.max:
                        return True
            except (pa.ArrowException, OSError, ValueError, TypeError, IndexError) as error:
                raise self._damage_error(id, STATES, error) from None
        return False

    def _read_states(self, id: str, columns: list[str]) -> pa.Table:
        """Read columns of the states of a group. Raises DamagedFileError."""
        import pyarrow as pa

        tables = list(self._read_batches(id, STATES, columns))
        schema = pa.schema([(column, pa.string()) for column in columns])
        if any(not table.schema.equals(schema) for table in tables):
            raise self._damage_error(id, STATES, "it has other columns than onnxwire writes")
        table = pa.concat_tables(tables) if tables else schema.empty_table()
        if len(table) != self._contents.groups[id].models or any(column.null_count for column in table.columns):
            raise self._damage_error(id, STATES, "it has null values, or the journal has another number of models")
        return table

    def _read_batches(self, id: str, table_name: str, columns: list[str] | None = None) -> Iterator[pa.Table]:
        """Yield the rows of a file of a group in batches. columns: the columns to read. Raises DamagedFileError."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        with self._root.subfolder(table_name) as folder, os.fdopen(open_regular(folder, file_name(id)), "rb") as file:
            try:
                reader = pq.ParquetFile(file)
                for batch in reader.iter_batches(columns=columns):
                    yield pa.Table.from_batches([batch])
            except (pa.ArrowException, KeyError, OSError, ValueError) as error:
                raise self._damage_error(id, table_name, error) from None

    def _damage_error(self, id: str, table_name: str, error: object) -> Exception:
        """Return a DamagedFileError for an error of decoding a file. An OSError of the system is returned unchanged."""
        if isinstance(error, OSError) and error.errno is not None:
            return error  # pyarrow's own errors have no number
        reason = f"the file is damaged ({str(error).partition(chr(10))[0]:.200})"
        damage = DamagedFileError(errno.EINVAL, reason, os.path.join(self._root.path, table_name, file_name(id)))
        damage.table, damage.group = table_name, id
        return damage

    # --- files

    def _write(self, id: str, tables: Mapping[str, Iterator[pa.Table]]) -> int:
        """Write and fsync the files of a group, each from tables of one schema. Return their total size in bytes."""
        import pyarrow.parquet as pq

        size = 0
        for table_name, parts in tables.items():
            if self._root.status(table_name) is None:
                self._root.mkdir(table_name)
                sync_folder(self._root)
            with self._root.subfolder(table_name) as folder:
                flags = os.O_RDWR | os.O_CREAT | os.O_EXCL
                with os.fdopen(folder.open(file_name(id), flags), "wb") as file:
                    first_part = next(parts)
                    writer = pq.ParquetWriter(file, first_part.schema, compression="zstd")
                    try:
                        for part in chain((first_part,), parts):
                            writer.write_table(part)
                        writer.close()
                    except BaseException:
                        with suppress(Exception):
                            writer.close()  # otherwise its destructor prints an error
                        raise
                    file.flush()
                    os.fsync(file.fileno())
                    size += os.fstat(file.fileno()).st_size
                sync_folder(folder)
        return size

    def _compact(self) -> None:
        """Merge small groups, rewrite groups with many removed models, and shorten the journal."""
        for ids in self._plan_merges():
            self._merge(ids)
        if self._journal_size > _JOURNAL_BYTES + 2 * self._contents.estimated_size:
            self._shorten_journal()

    def _plan_merges(self) -> Iterator[list[str]]:
        """Yield lists of groups to merge. The group of a list with one group is rewritten without removed models."""
        groups = self._contents.groups
        ids_by_removals = sorted(groups, key=lambda id: len(groups[id].removed) / groups[id].models, reverse=True)
        for id in ids_by_removals:
            removed_fraction = len(groups[id].removed) / groups[id].models
            cost = int(groups[id].size * (1 - removed_fraction))
            # A group is rewritten if at least 1/8 of its models are removed. If less than 3/4 are removed, the new size
            # may exceed `_written_bytes` by at most _LEVEL_BYTES. Otherwise this group and the groups after it are left
            # to later calls, so that the work is distributed over the calls.
            if removed_fraction < 1 / 8 or (removed_fraction < 3 / 4 and cost > self._written_bytes + _LEVEL_BYTES):
                break
            self._written_bytes -= min(cost, self._written_bytes)
            yield [id]
        levels: dict[int, list[str]] = {}
        for id, group in groups.items():
            if group.size < _GROUP_BYTES // 2:  # larger groups are not merged again
                level = max(0, math.ceil(math.log(max(group.size, 1) / _LEVEL_BYTES, _FAN_IN)))
                levels.setdefault(level, []).append(id)
        for ids in levels.values():
            if len(ids) >= _FAN_IN or sum(groups[id].size for id in ids) >= _GROUP_BYTES:
                merged_ids: list[str] = []
                size = n_models = 0
                for id in ids:
                    size += groups[id].size
                    n_models += groups[id].models
                    # A merged group may exceed its intended size by a quarter.
                    if merged_ids and (size > _GROUP_BYTES * 5 // 4 or n_models > _GROUP_MODELS):
                        break
                    merged_ids.append(id)
                if len(merged_ids) > 1:
                    yield merged_ids

    def _merge(self, ids: list[str]) -> None:
        """Rewrite some groups as one, without the removed models."""
        old_groups = {id: self._contents.groups[id] for id in ids}
        id = uuid4().hex
        self._append_line({"create": [id]})
        rows: dict[str, int] = {}
        for group in old_groups.values():
            for table_name, count in group.rows.items():
                rows[table_name] = rows.get(table_name, 0) + count
        rows = {table_name: count for table_name, count in rows.items() if count}
        table_names = (*rows, STATES)
        size = self._write(id, {table_name: self._merge_rows(old_groups, table_name) for table_name in table_names})
        n_models = sum(group.models - len(group.removed) for group in old_groups.values())
        group = Group(n_models, rows, size, any(group.is_checked for group in old_groups.values()))
        retire = dict.fromkeys(ids, int(time.time()))
        self._append_line({"add": {id: group.encode()}, "remove": {}, "retire": retire})
        moved_records = {
            text: record for text, record in self._records.items() if record is not None and record.group in old_groups
        }
        self._records |= {text: record._replace(group=id) for text, record in moved_records.items()}

    def _merge_rows(self, groups: Mapping[str, Group], table_name: str) -> Iterator[pa.Table]:
        """Yield the valid rows of a table of several groups, in parts of at least _BATCH_BYTES except the last."""
        import pyarrow as pa

        parts: list[pa.Table] = []
        for id, group in groups.items():
            if table_name != STATES and not group.rows.get(table_name):
                continue
            for part in self._read_valid_rows(id, table_name):
                parts.append(part)
                if sum(part.nbytes for part in parts) >= _BATCH_BYTES:
                    yield pa.concat_tables(parts)
                    parts = []
        if parts:
            yield pa.concat_tables(parts)

    def _read_valid_rows(self, id: str, table_name: str) -> Iterator[pa.Table]:
        """Yield the valid rows of a file of a group in batches. Raises DamagedFileError."""
        import pyarrow as pa
        import pyarrow.compute as pc

        group = self._contents.groups[id]
        schema = arrow_schema(table_name) if table_name != STATES else None
        removed = make_array(sorted(group.removed), "string")
        count = 0
        for table in self._read_batches(id, table_name):
            try:
                part = table if schema is None else _as_schema(table, schema)
                part = part.filter(pc.invert(pc.is_in(part["model"], value_set=removed))) if group.removed else part
            except (pa.ArrowException, KeyError, ValueError) as error:
                raise self._damage_error(id, table_name, error) from None
            count += len(part)
            yield part
        if count != (group.models - len(group.removed) if table_name == STATES else group.rows[table_name]):
            raise self._damage_error(id, table_name, "its number of rows differs from that in the journal")

    # --- the journal

    def _append_line(self, line: dict[str, Any]) -> None:
        """Append a line to the journal and apply it."""
        data = _encode(line)
        self._append_bytes(data)
        self._contents.apply(json.loads(data))

    def _append_bytes(self, data: bytes) -> None:
        """Append bytes to the journal, and sync it to disk."""
        remaining_bytes = memoryview(data)
        while remaining_bytes:
            remaining_bytes = remaining_bytes[os.write(self._journal, remaining_bytes) :]
        os.fsync(self._journal)
        self._journal_size += len(data)

    def _shorten_journal(self) -> None:
        """Replace the journal by a shorter one with the same contents."""
        if sys.platform == "win32":
            return  # an open file can't be replaced
        id = uuid4().hex
        self._append_line({"create": [id]})
        del self._contents.retired[id]  # the new journal does not announce itself
        name = _journal_name(id)
        old_journal = self._journal
        self._journal = self._root.open(name, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL)
        try:
            try_lock(self._journal)
            self._journal_size = 0
            self._append_bytes(HEADER + b"".join(map(_encode, self._contents.encode())))
            self._root.replace(name, JOURNAL)
            sync_folder(self._root)
        finally:
            os.close(old_journal)

    def _open_journal(self) -> None:
        """Open, lock and read the journal, which is created in an empty folder.

        Also remove an incomplete last line of the journal, delete expired files, and replace groups that lack a file.
        """
        names = self._root.names()
        if JOURNAL not in names and names:
            raise _foreign_files_error(self.folder)
        creation_flag = 0 if names else os.O_CREAT
        self._journal = open_regular(self._root, JOURNAL, os.O_RDWR | os.O_APPEND | creation_flag)
        status = os.fstat(self._journal)
        if status.st_nlink > 1:
            reason = (
                "it has other names (hard links), which would all show the changes of a run; copy the catalog first"
            )
            raise SaveError(errno.EMLINK, reason, os.path.join(self.folder, JOURNAL))
        # Without locks, as on Windows, two concurrent runs leave a journal that the next run rejects.
        # Another run may have replaced the journal before this run locked it.
        if not try_lock(self._journal) or not self._root.contains(JOURNAL, identity_of(status)):
            raise SaveError(errno.EAGAIN, "another run writes to this catalog; wait for its end", self.folder)
        with os.fdopen(os.dup(self._journal), "rb") as file:
            self._contents, size = read_contents(SaveError, file, self.folder)
            if size == 0:
                # If a run was interrupted while it wrote the first line, the folder contains no other file.
                file.seek(0)
                if self._root.names() != [JOURNAL] or not HEADER.startswith(file.read(len(HEADER) + 1)):
                    raise _foreign_files_error(self.folder)
            if os.fstat(self._journal).st_size > size:
                os.ftruncate(self._journal, size)
        self._journal_size = size
        if size == 0:
            self._append_bytes(HEADER)
            sync_folder(self._root)
        self._delete_expired()

    def _delete_expired(self) -> None:
        """Delete retired files whose grace period has passed.

        Also replace groups that lack a file: their models become failures.
        """
        contents = self._contents
        latest_retirement = time.time() - GRACE_SECONDS
        due_ids = {id for id, retirement in contents.retired.items() if retirement <= latest_retirement}
        lost_ids: set[str] = set()
        for table_name in _TABLE_FOLDERS:
            existing_ids = find_existing(self._root, table_name, due_ids | contents.groups.keys())
            expected_ids = {
                id for id, group in contents.groups.items() if table_name == STATES or table_name in group.rows
            }
            lost_ids |= expected_ids - existing_ids
            if expired_ids := existing_ids & due_ids:
                with self._root.subfolder(table_name) as folder:
                    for id in expired_ids:
                        folder.unlink(file_name(id))
                    sync_folder(folder)
        for id in due_ids:
            # An id with the time 0 was announced but never added, so it may be that of a new journal.
            if contents.retired[id] == 0 and self._root.status(_journal_name(id)) is not None:
                self._root.unlink(_journal_name(id))
            del contents.retired[id]  # so that a shortened journal omits the id
        for id in lost_ids:
            self._replace_with_failures(id)

    def _replace_with_failures(self, id: str) -> None:
        """Replace a group that lost a file by failures of its models, and retire the files of its other tables."""
        removed = self._contents.groups[id].removed
        texts: dict[str, None] = {}
        for table_name in (STATES, "models", "failures"):
            if find_existing(self._root, table_name, [id]):
                try:
                    for table in self._read_batches(id, table_name, ["model"]):
                        if table["model"].type != "string" or table["model"].null_count:
                            reason = "its column model has other values than onnxwire writes"
                            raise self._damage_error(id, table_name, reason)
                        texts |= dict.fromkeys(text for text in table["model"].to_pylist() if text not in removed)
                except DamagedFileError as damage:
                    self._rename_damaged(damage)
        models = dict.fromkeys(map(model_name, texts), Failure("SourceError", _LOST_ROWS_ERROR))
        # The names are unknown if none of these files can be read.
        failure_groups = self._write_group(models, {})[0] if models else {}
        line = {"add": {failure_id: group.encode() for failure_id, group in failure_groups.items()}, "remove": {}}
        self._append_line({**line, "retire": {id: int(time.time())}})
        self.lost_names |= models.keys()
        self._records = {
            text: record
            for text, record in self._records.items()
            if text not in texts and (record is None or record.group != id)
        }


def _as_schema(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return a table with all columns of a schema. Columns that an older onnxwire did not write are null."""
    import pyarrow as pa

    if unknown_columns := set(table.column_names) - set(schema.names):
        raise ValueError(f"it has the column {min(unknown_columns)!r:.50}, which onnxwire does not write")
    columns = [
        table[field.name].cast(field.type) if field.name in table.column_names else pa.nulls(len(table), field.type)
        for field in schema
    ]
    return pa.table(columns, schema)


def _encode(line: dict[str, Any]) -> bytes:
    """Encode a line of the journal as JSON with a newline."""
    return json.dumps(line, separators=(",", ":"), allow_nan=False).encode() + b"\n"


def _journal_name(id: str) -> str:
    """Return the name of a new journal, before it replaces the old one."""
    return f"{id}.jsonl"


def _foreign_files_error(folder: str) -> SaveError:
    reason = "the folder contains other files and no catalog; name a new or an empty folder"
    return SaveError(errno.ENOTEMPTY, reason, folder)
