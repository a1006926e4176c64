"""Hostile and damaged catalogs: names in them are not used as SQL or paths; faults are repaired or reported; files that
do not belong to the catalog are not changed."""

from __future__ import annotations

import json
import os
import random
import shutil
from pathlib import Path

import pytest
from catalogs import parquet_files, rows_by_model, small_model, valid_files

import onnxwire
from onnxwire import catalog
from onnxwire.catalog import dataset
from onnxwire.catalog.dataset import Dataset
from onnxwire.catalog.files import JOURNAL, files_of
from onnxwire.catalog.read import TABLE_NAMES
from onnxwire.cli import main
from onnxwire.errors import QueryError

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
pytest.importorskip("duckdb")

ID = "0123456789abcdef" * 2
HEADER = b'{"onnxwire catalog": 1}\n'


@pytest.fixture(scope="module")
def models_and_catalog(tmp_path_factory):
    """Return a folder with models and their catalog. Tests must not change the models or the catalog."""
    base = tmp_path_factory.mktemp("models_and_catalog")
    (base / "zoo").mkdir()
    for number in range(3):
        (base / "zoo" / f"m{number}.onnx").write_bytes(small_model(number))
    catalog.build([base / "zoo"], base / "out", workers=1)
    return base


@pytest.fixture
def out(models_and_catalog, tmp_path):
    """Return a copy of the catalog."""
    shutil.copytree(models_and_catalog / "out", tmp_path / "out")
    return tmp_path / "out"


@pytest.fixture
def zoo(models_and_catalog):
    """Return the folder with the models of the catalog."""
    return models_and_catalog / "zoo"


def error_texts(zoo, out, capsys, query="from models"):
    """Return the error messages that `sql` and `catalog` print for a catalog; empty texts if they succeed."""
    texts = []
    for arguments in (["sql", str(out), query], ["catalog", str(zoo), "-o", str(out), "--workers", "1"]):
        status = main(arguments)
        output = capsys.readouterr()
        assert output.err.count("\n") == (status == 2), output.err
        assert status in (0, 2)
        texts.append(output.err)
    return texts


GROUP = {"models": 1, "rows": {"models": 1}, "size": 1, "checked": False}


def addition(group_changes=None, **line_changes):
    """Return a journal line that adds a group, with changes to the group's object and to the line's object."""
    return {"add": {ID: GROUP | (group_changes or {})}, "remove": {}, "retire": {}} | line_changes


def removal(*models, rows=None):
    """Return a journal line that removes models. rows: the number of removed rows of each table."""
    return addition(add={}, remove={ID: {"models": list(models), "rows": rows or {}}})


# The line of the journal that announces a file before it is written.
ANNOUNCEMENT = {"create": [ID]}
# Fault → lines of a journal, the last of which is invalid.
INVALID_LINES = {
    "a table that is SQL": [ANNOUNCEMENT, addition({"rows": {"a\" as select 1; copy (select 1) to 'x'; --": 1}})],
    "a table in another folder": [ANNOUNCEMENT, addition({"rows": {"../models": 1}})],
    "the table of states": [ANNOUNCEMENT, addition({"rows": {"_states": 1}})],
    "an absolute file": [{"create": ["/etc/passwd"]}],
    "a file elsewhere": [{"create": ["../../" + "0" * 26]}],
    "capital digits": [{"create": [ID.upper()]}],
    "an id with a newline": [{"create": [ID + "\n"]}],
    "a file that was not announced": [addition()],
    "a file that is announced twice": [ANNOUNCEMENT, ANNOUNCEMENT],
    "a group that is added twice": [ANNOUNCEMENT, addition(), addition()],
    "a group without models": [ANNOUNCEMENT, addition({"models": 0})],
    "a group without a size": [ANNOUNCEMENT, addition(add={ID: {"models": 1, "rows": {}, "checked": False}})],
    "a group whose flag is a number": [ANNOUNCEMENT, addition({"checked": 1})],
    "a model of a group that is not in the catalog": [removal("/m.onnx")],
    "a model that is removed twice": [ANNOUNCEMENT, addition({"models": 9}), removal("a"), removal("a")],
    "a removal of all models of a group": [ANNOUNCEMENT, addition(), removal("a")],
    "a removal of more models than a group has": [ANNOUNCEMENT, addition(), removal("a", "b")],
    "a removal of more rows than a group has": [
        ANNOUNCEMENT,
        addition({"models": 9}),
        removal("a", rows={"models": 2}),
    ],
    "a model that is a number": [ANNOUNCEMENT, addition({"models": 9}), removal(1)],
    "a retired group that is not in the catalog": [addition(add={}, retire={"0" * 32: 1})],
    "a group that is retired twice": [ANNOUNCEMENT, addition(), *[addition(add={}, retire={ID: 1})] * 2],
    "a number of rows that is not a count": [ANNOUNCEMENT, addition({"rows": {"models": -1}})],
    "more rows than 64 bits count": [ANNOUNCEMENT, addition({"rows": {"models": 1 << 64}})],
    "a size of 1.5": [ANNOUNCEMENT, addition({"size": 1.5})],
    "a time that is true": [ANNOUNCEMENT, addition(), addition(add={}, retire={ID: True})],
    "a name with a lone surrogate": [ANNOUNCEMENT, addition({"models": 9}), removal("\ud800")],
    "a key too many": [ANNOUNCEMENT, addition(more=1)],
    "an unknown key": [{"drop": [ID]}],
}
INVALID_BYTES = {
    "a list": b"[]\n",
    "a number": b"1\n",
    "null": b"null\n",
    "nothing": b"\n",
    "brackets": b"[" * 200_000 + b"\n",
    "braces": b'{"a":' * 200_000 + b"\n",
    "bytes that are not UTF-8": b'{"create":["\xff"]}\n',
    "UTF-16": '{"create":[]}'.encode("utf-16") + b"\n",
    "NaN": b'{"add":{},"remove":{},"retire":NaN}\n',
    "a number of a million digits": b'{"add":{},"remove":{},"retire":' + b"9" * 1_000_000 + b"}\n",
    "zeros": b"\0" * 100 + b"\n",
}


@pytest.mark.parametrize("fault", [*INVALID_LINES, *INVALID_BYTES])
def test_a_damaged_line_is_a_one_line_error_and_no_file_is_written_or_deleted(zoo, out, capsys, fault):
    lines = INVALID_BYTES.get(fault) or b"".join(json.dumps(line).encode() + b"\n" for line in INVALID_LINES[fault])
    journal = out / JOURNAL
    valid_bytes = journal.read_bytes()
    line_number = valid_bytes.count(b"\n") + lines.count(b"\n")
    journal.write_bytes(valid_bytes + lines + valid_bytes.splitlines(keepends=True)[-1])
    files_before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    for text in error_texts(zoo, out, capsys):
        assert f"{JOURNAL}: line {line_number} is damaged: " in text
        assert "restore the journal from a copy, or build the catalog again" in text
    with pytest.raises(onnxwire.SourceError):
        onnxwire.sql(out, "select 1")
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == files_before


@pytest.mark.parametrize("size", [1 << 28, 1 << 40])
def test_a_journal_of_one_endless_line_is_not_read_to_its_end(zoo, out, capsys, size):
    os.truncate(out / JOURNAL, size)  # a file with a hole
    for text in error_texts(zoo, out, capsys):
        assert "is longer than 134,217,728 bytes" in text
    assert (out / JOURNAL).stat().st_size == size


@pytest.mark.parametrize("kind", ["pipe", "zero", "link", "dangling link", "folder"])
@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes and links")
def test_a_journal_that_is_not_a_regular_file_is_rejected(zoo, out, capsys, tmp_path, kind):
    journal, target = out / JOURNAL, tmp_path / "target"
    data = journal.read_bytes() + b"unfinished"
    journal.unlink()
    if kind == "pipe":
        os.mkfifo(journal)
    elif kind == "zero":
        journal.symlink_to("/dev/zero")
    elif kind == "folder":
        journal.mkdir()
    else:
        journal.symlink_to(target)
    if kind == "link":
        target.write_bytes(data)
    for text in error_texts(zoo, out, capsys):
        assert "it is a link, a folder, a pipe or a device" in text
    assert not target.exists() or target.read_bytes() == data


def test_a_journal_with_two_hard_links_is_read_but_not_written(zoo, out, capsys, tmp_path):
    data = (out / JOURNAL).read_bytes() + b"unfinished"
    (out / JOURNAL).unlink()
    (tmp_path / "target").write_bytes(data)
    os.link(tmp_path / "target", out / JOURNAL)
    sql_error, catalog_error = error_texts(zoo, out, capsys)
    assert (sql_error, "hard links" in catalog_error) == ("", True)
    assert (tmp_path / "target").read_bytes() == data


def test_links_that_replace_folders_and_files_are_not_followed(zoo, out, capsys, tmp_path):
    pytest.importorskip("fcntl")
    (out / "models").rename(tmp_path / "elsewhere")
    (out / "models").symlink_to(tmp_path / "elsewhere")
    files_before = parquet_files(tmp_path / "elsewhere")
    for text in error_texts(zoo, out, capsys):
        assert "models: it is a link or a file, not a folder" in text
    assert parquet_files(tmp_path / "elsewhere") == files_before
    (out / "models").unlink()
    (out / "models").mkdir()
    (path,) = files_before
    (out / "models" / path.name).symlink_to(path)
    with pytest.raises(onnxwire.SourceError, match="is missing"):
        onnxwire.sql(out, "from models")


def test_a_query_may_read_files_but_loads_no_extension_automatically(out, tmp_path):
    (tmp_path / "x.csv").write_text("a\n1\n")
    assert onnxwire.sql(out, f"from '{tmp_path}/x.csv'").fetchall() == [(1,)]
    query = "select name from duckdb_settings() where name like 'auto%known_extensions' and value <> 'false'"
    assert onnxwire.sql(out, query).fetchall() == []


@pytest.mark.parametrize("fault", ["truncated", "garbage", "empty", "columns", "type", "name"])
def test_a_damaged_parquet_file_raises_an_error_of_onnxwire(zoo, out, capsys, fault):
    (file,) = (out / "models").iterdir()
    data, table = file.read_bytes(), pq.read_table(file)
    if fault in ("truncated", "garbage", "empty"):
        file.write_bytes({"truncated": data[:-9], "garbage": random.Random(1).randbytes(5000), "empty": b""}[fault])
    elif fault == "columns":
        pq.write_table(table.drop_columns("model"), file)
    elif fault == "type":
        pq.write_table(table.set_column(0, "model", pa.array(range(len(table)))), file)
    else:
        pq.write_table(table.append_column('a" as b; drop table x; --', pa.array([1] * len(table))), file)
    assert main(["sql", str(out), "from models"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    with pytest.raises((QueryError, onnxwire.SourceError)):
        onnxwire.sql(out, "select model from models")


def test_columns_that_an_older_onnxwire_did_not_write_are_null(zoo, out, tmp_path):
    (file,) = (out / "models").iterdir()
    pq.write_table(pq.read_table(file).drop_columns(["nodes", "doc_string"]), file)
    assert onnxwire.sql(out, "select nodes, doc_string, graph_name from models order by 3").fetchall() == [
        (None, None, f"g{number}") for number in range(3)
    ]
    shutil.copytree(zoo, tmp_path / "zoo")
    catalog.build([tmp_path / "zoo"], out, workers=1)
    (zoo.parent / "other").mkdir()
    (zoo.parent / "other" / "m9.onnx").write_bytes(small_model(9))
    catalog.build([zoo.parent / "other"], out, workers=1)
    # Three rows lack the columns; the copies of their models and m9.onnx have all columns.
    counts = "select count(*), count(nodes), count(graph_name) from models"
    assert onnxwire.sql(out, counts).fetchall() == [(7, 4, 7)]
    with Dataset(str(out)) as data:
        data._merge(list(data._contents.groups))
    assert onnxwire.sql(out, counts).fetchall() == [(7, 4, 7)]
    assert len(files_of(out)["models"]) == 1


@pytest.mark.parametrize("repair", [False, True])
def test_a_damaged_file_is_renamed_and_its_models_are_read_again(zoo, out, capsys, tmp_path, repair):
    shutil.copytree(zoo, tmp_path / "zoo")
    catalog.build([tmp_path / "zoo"], tmp_path / "mine", workers=1)
    (file,) = (tmp_path / "mine" / "values").iterdir()
    file.write_bytes(file.read_bytes()[:-20])
    if not repair:  # a third of the group is replaced, so that it is rewritten
        (tmp_path / "zoo" / "m0.onnx").write_bytes(small_model(0, "Neg"))
    command = ["catalog", str(tmp_path / "zoo"), "-o", str(tmp_path / "mine"), "--workers", "1"]
    assert main([*command, "--repair"] if repair else command) == 0
    output = capsys.readouterr()
    assert output.out.startswith("3 models read, 0 unchanged")
    assert output.err.count("\n") == 1 and f"warning: {file}: the file is damaged" in output.err
    assert main(command) == 0
    assert capsys.readouterr().out.startswith("0 models read, 3 unchanged")
    assert [path.name for path in (tmp_path / "mine" / "values").glob("*.damaged")] == [f"{file.name}.damaged"]
    catalog.build([tmp_path / "zoo"], tmp_path / "fresh", workers=1)
    assert rows_by_model(tmp_path / "mine") == rows_by_model(tmp_path / "fresh")


def test_models_whose_rows_are_lost_are_failures_until_they_are_named_again(zoo, out):
    (file,) = (out / "values").iterdir()
    file.unlink()
    summary = catalog.build([zoo / "m0.onnx"], out, workers=1)
    assert (summary.read, summary.failures) == (1, {})
    reasons = {
        Path(model).name: rows["failures"][0]["reason"]
        for model, rows in rows_by_model(out).items()
        if "failures" in rows
    }
    assert sorted(reasons) == ["m1.onnx", "m2.onnx"]
    assert all("with the model again" in reason for reason in reasons.values())
    assert catalog.build([zoo], out, workers=1).read == 2
    assert not onnxwire.sql(out, "from failures").fetchall()


def test_a_folder_with_other_files_is_rejected(zoo, tmp_path, capsys):
    folder = tmp_path / "documents"
    for name in ("a.parquet", f"models/{ID}.parquet", "models/_unfinished-1"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("mine")
    assert main(["catalog", str(zoo), "-o", str(folder)]) == 2
    assert "the folder contains other files and no catalog; name a new or an empty folder" in capsys.readouterr().err
    (tmp_path / "notes").mkdir()
    for text in (b"notes", HEADER[:-1] + b" "):
        (tmp_path / "notes" / JOURNAL).write_bytes(text)
        assert main(["catalog", str(zoo), "-o", str(tmp_path / "notes")]) == 2
        assert (tmp_path / "notes" / JOURNAL).read_bytes() == text
    assert sorted(path.name for path in folder.rglob("*") if path.is_file()) == sorted(
        ["a.parquet", f"{ID}.parquet", "_unfinished-1"]
    )


def test_files_that_no_build_announced_are_not_deleted(zoo, out, monkeypatch):
    monkeypatch.setattr(dataset, "GRACE_SECONDS", -1)
    foreign_paths = [
        out / "notes.txt",
        out / "models" / f"{ID}.parquet",
        out / "models" / "_unfinished-3",
        out / "own" / f"{ID}.parquet",
    ]
    for path in foreign_paths:
        path.parent.mkdir(exist_ok=True)
        path.write_text("mine")
    for op_type in ("Neg", "Abs"):
        for number in range(3):
            (zoo.parent / "changing").mkdir(exist_ok=True)
            (zoo.parent / "changing" / f"m{number}.onnx").write_bytes(small_model(number, op_type))
        catalog.build([zoo.parent / "changing"], out, workers=1, prune=True)
    assert {path.read_text() for path in foreign_paths} == {"mine"}


def test_an_incomplete_last_line_is_ignored(zoo, out):
    rows_before = rows_by_model(out)
    for text in (b'{"create":["', b"\0\0\0", b"}"):
        with open(out / JOURNAL, "ab") as journal:
            journal.write(text)
        assert rows_by_model(out) == rows_before
        assert catalog.build([zoo], out, workers=1).unchanged == 3
        assert not (out / JOURNAL).read_bytes().endswith(text)


def test_a_build_that_changes_nothing_writes_nothing(zoo, tmp_path):
    shutil.copytree(zoo, tmp_path / "zoo")
    (tmp_path / "zoo" / "bad.onnx").write_bytes(b"\x08")  # a tag without a value
    sources = [tmp_path / "zoo", tmp_path / "none.onnx"]
    first_summary = catalog.build(sources, tmp_path / "out", workers=1)
    files_before = {path: path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file()}
    second_summary = catalog.build(sources, tmp_path / "out", workers=1)
    assert second_summary.failures == first_summary.failures
    assert len(second_summary.failures) == 2
    assert {path: path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file()} == files_before


def test_a_result_from_before_an_update_can_be_read_after_it(zoo, out, tmp_path, monkeypatch):
    result = onnxwire.sql(out, "select distinct type from operators")
    shutil.copytree(zoo, tmp_path / "zoo")
    for op_type in ("Neg", "Abs"):
        for number in range(3):
            (tmp_path / "zoo" / f"m{number}.onnx").write_bytes(small_model(number, op_type))
        catalog.build([tmp_path / "zoo"], out, workers=1, prune=True)
    assert result.fetchall() == [("Relu",)]
    assert onnxwire.sql(out, "select distinct type from operators order by 1").fetchall() == [("Abs",), ("Relu",)]
    monkeypatch.setattr(dataset, "GRACE_SECONDS", -1)
    catalog.build([tmp_path / "zoo"], out, workers=1)
    assert parquet_files(out) == valid_files(out)


@pytest.mark.parametrize("address", ["s3://bucket/cat", "https://host/cat", "gs://bucket/cat"])
def test_a_catalog_is_not_written_to_an_address(zoo, tmp_path, capsys, monkeypatch, address):
    monkeypatch.chdir(tmp_path)
    assert main(["catalog", str(zoo), "-o", address]) == 2
    error_text = capsys.readouterr().err
    assert "not to an address; name a path" in error_text
    assert error_text.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_a_folder_whose_name_looks_like_a_partition_or_a_pattern_is_queried(out, tmp_path):
    folder = tmp_path / "model=x" / "[a]*?'b"
    folder.parent.mkdir()
    out.rename(folder)
    assert len(onnxwire.sql(folder, "from models").fetchall()) == 3


def test_random_journals_are_read_or_raise_source_error(models_and_catalog, tmp_path):
    """Journals with random changes of bytes or values are read or rejected, and no Parquet file is lost."""
    rng = random.Random(29)
    valid_bytes = (models_and_catalog / "out" / JOURNAL).read_bytes()
    out = tmp_path / "out"
    shutil.copytree(models_and_catalog / "out", out)
    foreign_path = tmp_path / f"{ID}.parquet"
    foreign_path.write_text("mine")
    files_before = parquet_files(out)
    for _ in range(300):
        (out / JOURNAL).write_bytes(damaged_journal(valid_bytes, rng))
        try:
            files = files_of(out)
        except onnxwire.SourceError as error:
            assert "\n" not in str(error)
        else:
            assert {path for paths in files.values() for path in paths} <= set(map(str, files_before))
    assert parquet_files(out) == files_before
    assert foreign_path.read_text() == "mine"


def damaged_journal(data, rng):
    """Return a damaged copy of a journal."""
    if rng.random() < 0.4:
        damaged_bytes = bytearray(data)
        for _ in range(rng.randint(1, 4)):
            start = rng.randrange(len(damaged_bytes))
            damaged_bytes[start : start + rng.choice((0, 1, 5))] = rng.choice((b"", b"\n", b"[", b'"', b"\xff", b"0"))
        return bytes(damaged_bytes)
    lines = [json.loads(line) for line in data.splitlines()]
    for _ in range(rng.randint(1, 3)):
        line = rng.choice(lines[1:])
        damage(line, rng)
    if rng.random() < 0.3:
        lines.append(rng.choice(lines))
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def damage(value, rng):
    """Change a random key or item of a JSON value, at any depth."""
    if not isinstance(value, dict | list) or not value:
        return
    keys = list(value) if isinstance(value, dict) else range(len(value))
    key = rng.choice(keys)
    if isinstance(value[key], dict | list) and rng.random() < 0.7:
        damage(value[key], rng)
        return
    unusual_values = [
        None,
        True,
        -1,
        1 << 63,
        1 << 70,
        0.5,
        "",
        ID,
        "../x",
        "/etc/passwd",
        "a\0b",
        "\ud800",
        [],
        {},
        [[]],
        *TABLE_NAMES,
    ]
    if isinstance(value, dict) and rng.random() < 0.4:
        value[str(rng.choice(unusual_values))] = value.pop(key)
    elif isinstance(value, list) and rng.random() < 0.3:
        value.append(rng.choice([*unusual_values, *value]))
    else:
        value[key] = rng.choice(unusual_values)
