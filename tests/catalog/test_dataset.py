"""Changes to the files of catalogs: removed models, merged groups, the length of the journal, and damaged files.

A group is a set of models whose rows are in the same files, one file for each table. A retired group is no longer part
of the catalog; its files are deleted later.
"""

from __future__ import annotations

import json
import os

import pytest
from catalogs import rows_of

import onnxwire
from onnxwire.arrow.many import model_name, model_text
from onnxwire.catalog import dataset, states
from onnxwire.catalog.dataset import Dataset
from onnxwire.catalog.files import JOURNAL, files_of
from onnxwire.catalog.models import Failure, State
from onnxwire.catalog.read import arrow_schema

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
pytest.importorskip("duckdb")

UNUSUAL_NAMES = [
    "it's",
    'a "b"',
    "new\nline",
    "*[?]",
    "\udc80",
    r"\x80",
    r"\x5c",
    "\\",
    "''; drop table models; --",
    "ü",
    "\t",
    " ",
]


def add_models(data, names, version=0, **change_options):
    """Add models to a catalog. Each has one row in `operators`; its version and the model's mark are the number."""
    names = list(names)
    columns = {"model": list(map(model_text, names)), "version": [version] * len(names)}
    schema = arrow_schema("operators")
    arrays = [pa.array(columns.get(field.name, [None] * len(names)), field.type) for field in schema]
    entries = {name: State(size=1, mark=version, hashed=False, checked=False, files={}) for name in names}
    data.change(entries, {"operators": pa.table(arrays, schema)}, **change_options)


def read_versions(folder):
    """Return the version of each model. Assert that three ways to read the catalog have the same result."""
    rows = [(model_name(row["model"]), row["version"]) for row in rows_of(folder, "operators")]
    queried_rows = onnxwire.sql(folder, "select model, version from operators").fetchall()
    assert sorted((model_name(model), version) for model, version in queried_rows) == sorted(rows)
    with Dataset(str(folder)) as data:
        states_by_name = data.find(data.names())
        assert {name: entry.mark for name, entry in states_by_name.items()} == dict(rows)
        assert data.rows().get("operators", 0) == len(rows)
    assert len(dict(rows)) == len(rows)
    return dict(rows)


def test_rows_of_replaced_and_removed_models_are_ignored_by_all_readers(tmp_path):
    with Dataset(str(tmp_path)) as data:
        add_models(data, [*UNUSUAL_NAMES, *map(str, range(200))])
        add_models(data, UNUSUAL_NAMES[::2], 1)
        add_models(data, ["new"], 2, remove=["5", *UNUSUAL_NAMES[1::4]])
    expected = (
        dict.fromkeys([*UNUSUAL_NAMES, *map(str, range(200))], 0) | dict.fromkeys(UNUSUAL_NAMES[::2], 1) | {"new": 2}
    )
    for name in ["5", *UNUSUAL_NAMES[1::4]]:
        del expected[name]
    assert read_versions(tmp_path) == expected
    # For each file, the number of models whose rows are ignored: the first file was not rewritten.
    assert sorted(map(len, files_of(tmp_path)["operators"].values())) == [0, 0, 10]
    with Dataset(str(tmp_path)) as data:
        data._merge(list(data._contents.groups))
    assert list(files_of(tmp_path)["operators"].values()) == [[]]
    assert read_versions(tmp_path) == expected


def test_a_group_without_models_is_retired(tmp_path):
    with Dataset(str(tmp_path)) as data:
        add_models(data, "abc")
        add_models(data, "abc", 1)
        assert len(data._contents.groups) == 1
        add_models(data, [], remove="abc")
    assert files_of(tmp_path)["operators"] == {}
    assert read_versions(tmp_path) == {}


def test_small_groups_are_merged_and_the_number_of_groups_stays_small(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    monkeypatch.setattr(dataset, "_FAN_IN", 4)
    with Dataset(str(tmp_path)) as data:
        for number in range(40):
            add_models(data, [f"m{number}"], number)
            assert len(data._contents.groups) <= 4
    assert read_versions(tmp_path) == {f"m{number}": number for number in range(40)}


def test_changes_of_equal_size_do_not_write_more_and_more_bytes(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    monkeypatch.setattr(dataset, "_LEVEL_BYTES", 1)
    monkeypatch.setattr(dataset, "_GROUP_BYTES", 2)  # so that no group is merged
    names = [f"model {number * 7919 % 4096}" for number in range(4096)]  # every number up to 4095, in another order
    with Dataset(str(tmp_path)) as data:
        for start in range(0, 4096, 512):
            add_models(data, sorted(names)[start : start + 512])
    written_bytes = []
    for day in range(1, 41):
        sizes_before = {path.name: path.stat().st_size for path in tmp_path.rglob("*.parquet")}
        with Dataset(str(tmp_path)) as data:
            add_models(data, names[day * 97 % 4000 :][:82], day)
        sizes_after = {path.name: path.stat().st_size for path in tmp_path.rglob("*.parquet")}
        written_bytes.append(sum(size for name, size in sizes_after.items() if name not in sizes_before))
    assert max(written_bytes[:4]) * 3 > max(written_bytes)
    assert max(len(removed) for removed in files_of(tmp_path)["operators"].values()) < 512 * 3 / 4
    assert len(read_versions(tmp_path)) == 4096


def test_a_long_journal_is_replaced_by_a_short_one_with_the_same_contents(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    monkeypatch.setattr(dataset, "_JOURNAL_BYTES", 2_000)
    with Dataset(str(tmp_path)) as data:
        add_models(data, map(str, range(1000)))
        for number in range(60):
            add_models(data, [str(number)], number)
            contents = data._contents
            lines = [json.loads(line) for line in (tmp_path / JOURNAL).read_bytes().splitlines()[1:]]
            contents_read = dataset.read_contents(onnxwire.SaveError, (tmp_path / JOURNAL).open("rb"), "")[0]
            assert contents_read.groups == contents.groups
            assert contents_read.retired.items() >= contents.retired.items()
        assert (tmp_path / JOURNAL).stat().st_size < 2_000 + 3 * contents.estimated_size
        assert len(lines) < 100
    assert read_versions(tmp_path) == {str(number): number if number < 60 else 0 for number in range(1000)}
    assert {path.name for path in tmp_path.iterdir()} == {JOURNAL, "operators", "_states"}


def test_a_lock_of_a_journal_that_was_replaced_meanwhile_is_rejected(tmp_path, monkeypatch):
    pytest.importorskip("fcntl")
    with Dataset(str(tmp_path)) as data:
        add_models(data, "ab")

    def replace_journal_and_lock(descriptor):
        monkeypatch.undo()
        with Dataset(str(tmp_path)) as other_data:
            other_data._shorten_journal()
        return dataset.try_lock(descriptor)

    monkeypatch.setattr(dataset, "try_lock", replace_journal_and_lock)
    with pytest.raises(onnxwire.SaveError, match="another run"):
        Dataset(str(tmp_path))
    assert read_versions(tmp_path) == {"a": 0, "b": 0}


@pytest.mark.parametrize(
    "state",
    ["", "{}", "[]", "[[1, 2, true, true, {}]]", '[[1, 2, 3, true, {}], []]', "[[-1, 2, true, true, {}], [1]]",
     '[["a", "b"], [-1]]', '[["a"], []]', "[[1, NaN, true, true, {}], []]", "[" * 100_000, '[["a", "\\ud800"], []]',
     '[[1, 2, true, true, {"\\ud800": null}], []]', '[[1, 2, true, true, {"a": [1]}], []]', "null"],
)  # fmt: skip
def test_a_damaged_state_is_a_warning_that_names_the_file(tmp_path, monkeypatch, state):
    monkeypatch.setattr(dataset, "decode_state", lambda *_: states.ModelRecord("", Failure("", ""), {}))
    monkeypatch.setattr(states.json, "dumps", lambda *_, **__: state)
    write_group = Dataset._write_group
    monkeypatch.setattr(Dataset, "_append_line", lambda data, line: data._contents.apply(line))
    with Dataset(str(tmp_path)) as data:
        groups, _ = write_group(data, {"a": State(1, 1, False, False, {})}, {})
        monkeypatch.undo()
        data._contents.groups |= groups
        with pytest.warns(UserWarning, match=r"_states.*the file is damaged") as warnings:
            assert data.find(["a"]) == {}
    assert "\n" not in str(warnings[0].message)
    assert len(list(tmp_path.glob("_states/*.damaged"))) == 1


def test_a_model_of_two_groups_is_an_error(tmp_path):
    with Dataset(str(tmp_path)) as data:
        add_models(data, "ab")
        data._records = dict.fromkeys("ab")  # as if a search had found that the catalog lacks the models
        data._append_change(data._write_group(dict.fromkeys("b", Failure("", "")), {})[0], {})
        data._records = {}
        with pytest.raises(onnxwire.SaveError, match=r"two groups have the model 'b'"):
            data.find("ab")


# Functions that damage a file.
DAMAGES = {
    "truncated": lambda file: file.write_bytes(file.read_bytes()[:-20]),
    "garbage": lambda file: file.write_bytes(b"PAR1" + bytes(1000) + b"PAR1"),
    "empty": lambda file: file.write_bytes(b""),
    "fewer rows": lambda file: pq.write_table(pq.read_table(file)[:1], file),
    "other columns": lambda file: pq.write_table(pa.table({"model": ["a", "b", "c"], "x": [1, 2, 3]}), file),
    "other types": lambda file: pq.write_table(pa.table({"model": [1, 2, 3]}), file),
    "other names": lambda file: pq.write_table(pa.table({"model": ["x", "y", None]}), file),
    # The lowest bit of the bytes 8 to 59 is inverted.
    "a damaged page": lambda file: file.write_bytes(
        b"".join(bytes([byte ^ (8 <= i < 60)]) for i, byte in enumerate(file.read_bytes()))
    ),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
@pytest.mark.parametrize("table", ["operators", "_states"])
def test_repair_renames_damaged_files(tmp_path, table, damage):
    with Dataset(str(tmp_path)) as data:
        add_models(data, "abc")
        add_models(data, "de", 1)
    with Dataset(str(tmp_path)) as data:
        data._merge(list(data._contents.groups))
        add_models(data, ["e"], 2)
    for old_file in tmp_path.glob("*/*.parquet"):  # only the files of the two groups remain
        if old_file.stem not in data._contents.groups:
            old_file.unlink()
    largest_group = max(data._contents.groups, key=lambda id: data._contents.groups[id].models)
    file = tmp_path / table / f"{largest_group}.parquet"
    damage(file)
    damaged_bytes = file.read_bytes()
    with Dataset(str(tmp_path)) as data:
        with pytest.warns(UserWarning, match=f"{table}/{largest_group}"):
            data.repair()
        assert (tmp_path / table / f"{largest_group}.parquet.damaged").read_bytes() == damaged_bytes
        assert data.names() <= set("abcde") and "e" in data.names()
        if table == "operators":
            assert data.names() == set("abcde") and data.lost_names == set("abcd")
            assert isinstance(data.find("a")["a"], Failure)
        add_models(data, "abcd", 3)
        data.repair()
    assert read_versions(tmp_path) == dict.fromkeys("abcd", 3) | {"e": 2}


@pytest.mark.parametrize("table", ["operators", "_states"])
def test_a_merge_warns_about_a_damaged_file(tmp_path, monkeypatch, table):
    monkeypatch.setattr(dataset, "_FAN_IN", 3)
    with Dataset(str(tmp_path)) as data:
        add_models(data, "ab")
        add_models(data, "cd", 1)
    group_id = next(iter(data._contents.groups))
    DAMAGES["truncated"](tmp_path / table / f"{group_id}.parquet")
    with Dataset(str(tmp_path)) as data:
        with pytest.warns(UserWarning, match="the file is damaged"):
            add_models(data, "ef", 2)
        add_models(data, sorted(data.lost_names | set("ab")), 3)
        add_models(data, "g", 4)
    assert read_versions(tmp_path) == {"a": 3, "b": 3, "c": 1, "d": 1, "e": 2, "f": 2, "g": 4}


def test_a_file_that_the_system_cannot_read_is_not_renamed(tmp_path, monkeypatch):
    with Dataset(str(tmp_path)) as data:
        add_models(data, "ab")
        monkeypatch.setattr(pq, "ParquetFile", lambda file: (_ for _ in ()).throw(OSError(5, "Input/output error")))
        with pytest.raises(OSError, match="Input/output error"):
            data.repair()
    assert not list(tmp_path.rglob("*.damaged"))


def test_names_of_models_survive_their_conversion_to_text():
    for name in [*UNUSUAL_NAMES, "\udcff\udc80x", r"\ud800", r"\x5cx80", "/a/b.onnx"]:
        assert model_name(model_text(name)) == name
