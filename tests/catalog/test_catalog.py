"""The rows of catalogs, repeated builds, engines, killed processes, queries and options; tables in dask and Ray."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import onnx
import pytest
import worker_functions
from catalogs import rows_of, small_model
from graphs import nested_model, value
from onnx import TensorProto, helper, numpy_helper

import onnxwire
from onnxwire import catalog
from onnxwire.arrow.many import make_array
from onnxwire.catalog import engines, workers
from onnxwire.catalog.dataset import Dataset
from onnxwire.catalog.files import files_of
from onnxwire.cli import main
from onnxwire.errors import MissingPackageError, QueryError

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
pytest.importorskip("xxhash")

build_module = sys.modules["onnxwire.catalog.build"]


def numbered_model(number, weight=0.0):
    """Return a model of one node. The operator and the opset depend on the number.

    weight: the value of each element of the initializer w.
    """
    node = helper.make_node(("Relu", "Neg", "Add")[number % 3], ["x", "w"], ["y"], f"node {number}")
    weights = [numpy_helper.from_array(np.full(300, weight, np.float32), "w")]
    graph = helper.make_graph([node], f"g{number}", [value("x", 3)], [value("y", 3)], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13 + number % 2)], ir_version=10)


@pytest.fixture
def zoo(tmp_path):
    """Make a folder of ten models, some of them in a subfolder."""
    folder = tmp_path / "zoo"
    (folder / "below").mkdir(parents=True)
    for number in range(9):
        onnx.save(numbered_model(number), folder / ("below" if number % 2 else ".") / f"m{number}.onnx")
    onnx.save(nested_model(), folder / "nested.onnx")
    return folder


def sorted_rows(folder, table):
    """Return the rows of a table, sorted by model. The rows of each model keep their order."""
    return sorted(rows_of(folder, table), key=lambda row: row["model"])


def all_rows(folder):
    """Return the sorted rows of every table of a catalog, by table."""
    return {table: sorted_rows(folder, table) for table in files_of(str(folder))}


# --- content


def test_four_tables_have_the_columns_and_rows_of_to_arrow(zoo, tmp_path):
    summary = catalog.build([zoo], tmp_path / "out", workers=1)
    assert (summary.read, summary.unchanged, summary.failures) == (10, 0, {})
    arrow_tables = {"models": "model", "values": "values", "metadata": "metadata", "tensors": "tensors"}
    for table, arrow_table in arrow_tables.items():
        expected = []
        for path in sorted(zoo.rglob("*.onnx"), key=str):
            columns = onnxwire.to_arrow(path, arrow_table).to_pydict()
            expected += [
                {"model": str(path), **dict(zip(columns, row, strict=True))}
                for row in zip(*columns.values(), strict=True)
            ]
        result = [
            {name: value for name, value in row.items() if name not in ("hash", "missing")}
            for row in sorted_rows(tmp_path / "out", table)
        ]
        assert result == expected, table
    assert summary.rows["models"] == 10


def test_operators_are_counted_with_the_version_that_is_imported(zoo, tmp_path):
    catalog.build([zoo], tmp_path / "out", workers=1)
    operators = sorted_rows(tmp_path / "out", "operators")
    m1_rows = [row for row in operators if row["model"].endswith("m1.onnx")]
    assert m1_rows == [
        {"model": m1_rows[0]["model"], "graph": "graph", "domain": "", "type": "Neg", "version": 14, "n": 1}
    ]  # fmt: skip
    nested = {
        (row["graph"], row["domain"], row["type"]): row for row in operators if row["model"].endswith("nested.onnx")
    }
    assert nested["functions[1]", "", "Add"]["version"] == 20
    assert nested["graph", "local", "Twice"]["version"] == 1


def test_equal_payloads_have_equal_hashes_in_any_storage(tmp_path):
    raw_tensor = numpy_helper.from_array(np.arange(600, dtype=np.float32), "raw")
    typed_tensor = onnx.TensorProto(name="typed", data_type=TensorProto.FLOAT, dims=[600], float_data=np.arange(600))
    different_tensor = numpy_helper.from_array(np.arange(1, 601, dtype=np.float32), "other")
    graph = helper.make_graph([], "g", [], [], [raw_tensor, typed_tensor, different_tensor])
    path = tmp_path / "a.onnx"
    onnx.save(helper.make_model(graph), path)
    onnxwire.save(onnxwire.load(path), tmp_path / "b.onnx", external="b.data")
    catalog.build([tmp_path], tmp_path / "out", hash=True, workers=1)
    tensors_by_hash = {}
    for row in sorted_rows(tmp_path / "out", "tensors"):
        tensors_by_hash.setdefault(row["hash"], set()).add((Path(row["model"]).name, row["name"]))
    equal_tensors = {(model, name) for model in ("a.onnx", "b.onnx") for name in ("raw", "typed")}
    assert sorted(map(len, tensors_by_hash.values())) == [2, 4]
    assert equal_tensors in tensors_by_hash.values()
    from xxhash import xxh3_128_hexdigest

    assert xxh3_128_hexdigest(np.arange(600, dtype=np.float32).tobytes()) in tensors_by_hash


def test_missing_external_files_are_marked(tmp_path):
    tensor = onnx.TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[2], data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value="not there.data")
    onnx.save(helper.make_model(helper.make_graph([], "g", [], [], [tensor])), tmp_path / "a.onnx")
    catalog.build([tmp_path], tmp_path / "out", hash=True, workers=1)
    (row,) = sorted_rows(tmp_path / "out", "tensors")
    assert (row["location"], row["missing"], row["hash"]) == ("not there.data", True, None)


def test_catalogs_contain_the_problems_that_check_returns(zoo, tmp_path):
    catalog.build([zoo], tmp_path / "out", check=True, workers=1)
    problem_rows = sorted_rows(tmp_path / "out", "problems")
    for path in sorted(zoo.rglob("*.onnx")):
        expected = [(problem.rule, problem.path, problem.message) for problem in onnxwire.check(path)]
        model_rows = [row for row in problem_rows if row["model"] == str(path)]
        assert [(row["rule"], row["path"], row["message"]) for row in model_rows] == expected
    assert problem_rows


def test_an_invalid_file_is_a_failure_and_does_not_end_the_build(zoo, tmp_path, capsys):
    (zoo / "bad.onnx").write_bytes(b"\x08")  # a tag without a value
    (zoo / "empty.onnx").write_bytes(b"")
    (zoo / "loop.onnx").symlink_to("loop.onnx")
    assert main(["catalog", str(zoo), "-o", str(tmp_path / "out"), "--workers", "1"]) == 1
    output = capsys.readouterr()
    assert "10 models read" in output.out
    assert output.err.count("\n") == 3
    failures = {Path(row["model"]).name: row["error"] for row in sorted_rows(tmp_path / "out", "failures")}
    assert failures == {"bad.onnx": "DecodeError", "empty.onnx": "DecodeError", "loop.onnx": "SourceError"}
    assert len(sorted_rows(tmp_path / "out", "models")) == 10
    (zoo / "bad.onnx").write_bytes(numbered_model(1).SerializeToString())
    (zoo / "empty.onnx").unlink()
    (zoo / "loop.onnx").unlink()
    summary = catalog.build([zoo], tmp_path / "out", workers=1, prune=True)
    assert (summary.read, summary.unchanged, summary.pruned) == (1, 10, 2)
    assert not sorted_rows(tmp_path / "out", "failures")


@pytest.mark.skipif(sys.platform != "linux", reason="needs names that are not UTF-8")
def test_names_that_are_not_utf8_are_written_with_backslashes(tmp_path):
    folder = tmp_path / "zoo"
    folder.mkdir()
    # b"\x08" is a tag without a value.
    for name, data in ((b"good\xff.onnx", numbered_model(1).SerializeToString()), (b"bad\xfe.onnx", b"\x08")):
        with open(os.path.join(os.fsencode(folder), name), "wb") as file:
            file.write(data)
    for _ in range(2):  # the second build reads the invalid file again
        summary = catalog.build([folder], tmp_path / "out", workers=1)
        assert [Path(model).name for model in summary.failures] == ["bad\\xfe.onnx"]
        assert [Path(row["model"]).name for row in sorted_rows(tmp_path / "out", "models")] == ["good\\xff.onnx"]
        assert len(sorted_rows(tmp_path / "out", "failures")) == 1
    assert summary.unchanged == 1


def test_a_source_with_a_lone_surrogate_becomes_a_failure_with_valid_text(tmp_path):
    onnx.save(numbered_model(1), tmp_path / "m.onnx")
    summary = catalog.build([tmp_path / "m.onnx", f"{tmp_path}/\ud800.onnx"], tmp_path / "out", workers=1)
    assert summary.read == 1
    assert [Path(model).name for model in summary.failures] == [r"\ud800.onnx"]
    assert r"\ud800.onnx" in sorted_rows(tmp_path / "out", "failures")[0]["reason"]


@pytest.mark.skipif(sys.platform != "linux", reason="needs names that are not UTF-8")
def test_two_names_never_share_their_rows(tmp_path):
    # Some names are literally the escaped forms of other names.
    folder = tmp_path / "zoo"
    folder.mkdir()
    names = [b"x\x80.onnx", rb"x\x80.onnx", rb"x\x5cx80.onnx", rb"x\x5cx5cx80.onnx", b"x\\\x80.onnx", rb"x\\x80.onnx"]
    names += ["x\x80.onnx".encode(), rb"x\ud800.onnx", rb"a\b.onnx"]
    paths = [os.path.join(os.fsencode(folder), name) for name in names]
    for number, path in enumerate(paths):
        with open(path, "wb") as file:
            file.write(numbered_model(number).SerializeToString())
    catalog.build([folder], tmp_path / "out", workers=1)
    first_rows = sorted_rows(tmp_path / "out", "models")
    assert len({row["model"] for row in first_rows}) == len(names)
    assert str(folder / r"a\b.onnx") in {row["model"] for row in first_rows}  # not escaped
    for path in paths:
        os.utime(path, (1, 1))
        assert catalog.build([folder], tmp_path / "out", workers=1).read == 1
        assert sorted_rows(tmp_path / "out", "models") == first_rows


# --- repeated builds


def test_unchanged_models_are_not_read_again(zoo, tmp_path, monkeypatch):
    out = tmp_path / "out"
    catalog.build([zoo], out, workers=1)
    first_rows = all_rows(out)
    monkeypatch.setattr(engines, "read_models", None)  # the function must not be called
    summary = catalog.build([zoo], out, workers=1)
    assert (summary.read, summary.unchanged) == (0, 10)
    assert all_rows(out) == first_rows


def test_changed_models_are_read_again_and_missing_ones_are_pruned(zoo, tmp_path):
    out = tmp_path / "out"
    catalog.build([zoo], out, workers=1)
    onnx.save(numbered_model(5, weight=1.0), zoo / "m0.onnx")
    (zoo / "m2.onnx").unlink()
    onnx.save(numbered_model(20), zoo / "new.onnx")
    summary = catalog.build([zoo], out, workers=1)
    assert (summary.read, summary.unchanged, summary.pruned) == (2, 8, 0)
    assert len(sorted_rows(out, "models")) == 11
    summary = catalog.build([zoo], out, workers=1, prune=True)
    assert (summary.read, summary.pruned) == (0, 1)
    catalog.build([zoo], tmp_path / "fresh", workers=1)
    assert all_rows(out) == all_rows(tmp_path / "fresh")


def test_models_are_read_again_if_hashes_are_requested_later(zoo, tmp_path):
    out = tmp_path / "out"
    catalog.build([zoo], out, workers=1)
    assert catalog.build([zoo], out, workers=1, hash=True).read == 10
    assert all(row["hash"] for row in sorted_rows(out, "tensors"))
    assert catalog.build([zoo], out, workers=1).unchanged == 10


def test_a_build_is_rejected_while_another_run_writes_to_the_catalog(zoo, tmp_path):
    pytest.importorskip("fcntl")
    with Dataset(str(tmp_path / "out")), pytest.raises(onnxwire.SaveError, match="another run"):
        catalog.build([zoo], tmp_path / "out", workers=1)


def test_sources_that_name_no_model_are_rejected(tmp_path):
    with pytest.raises(onnxwire.SourceError, match=r"nothing\.onnx: No such file"):
        catalog.build([tmp_path / "nothing.onnx"], tmp_path / "out")
    with pytest.raises(onnxwire.SourceError, match=r"no \.onnx file"):
        catalog.build([tmp_path], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_folders_may_be_nested_deeper_than_the_recursion_limit(tmp_path, monkeypatch, capfd):
    folder = tmp_path / "zoo"
    folder.mkdir()
    (folder / "top.onnx").write_bytes(numbered_model(0).SerializeToString())
    monkeypatch.chdir(folder)
    for _ in range(1500):  # a path of 3,000 bytes: Linux allows 4,096
        os.mkdir("a")
        os.chdir("a")
    Path("m.onnx").write_bytes(numbered_model(1).SerializeToString())
    os.chdir(folder)
    recursion_limit = sys.getrecursionlimit()
    sys.setrecursionlimit(1000)  # other libraries may have raised it in this process
    try:
        assert catalog.build([folder], tmp_path / "out", workers=1).read == 2
        # The pattern becomes a failure with advice, and the model top.onnx is read.
        pattern = os.path.join(folder, "**", "*.onnx")
        summary = catalog.build([pattern, folder / "top.onnx"], tmp_path / "two", workers=1)
        assert summary.read == 1
        assert list(summary.failures) == [pattern]
        assert "start it in a folder closer" in summary.failures[pattern]
        with pytest.raises(onnxwire.SourceError, match="nested too deeply"):
            catalog.build([pattern], tmp_path / "three", workers=1)
        assert main(["check", pattern, str(folder / "top.onnx")]) == 2
        assert "nested too deeply" in capfd.readouterr().err
    finally:
        sys.setrecursionlimit(recursion_limit)
        # shutil.rmtree of Python 3.11 is recursive, too, so the folders are removed here.
        for _ in range(1500):
            os.chdir("a")
        Path("m.onnx").unlink()
        for _ in range(1500):
            os.chdir("..")
            os.rmdir("a")


# --- engines


def set_task_size(monkeypatch, n_models):
    """Set the maximum number of models of a task. The default is 64, more than the folder has."""
    monkeypatch.setattr(build_module, "_TASK_MODELS", n_models)


@pytest.fixture
def reference_rows(zoo, tmp_path):
    """Return the rows of a catalog that one process built."""
    catalog.build([zoo], tmp_path / "reference", hash=True, check=True, workers=1)
    return all_rows(tmp_path / "reference")


@pytest.mark.parametrize("models_per_task", [2, 64])
def test_the_files_do_not_depend_on_the_number_of_processes(
    zoo, tmp_path, reference_rows, monkeypatch, models_per_task
):
    set_task_size(monkeypatch, models_per_task)
    catalog.build([zoo], tmp_path / "out", hash=True, check=True, workers=2)
    assert all_rows(tmp_path / "out") == reference_rows
    for table, files in files_of(tmp_path / "reference").items():
        expected_files = [Path(file).read_bytes() for file in files]
        assert [Path(file).read_bytes() for file in files_of(tmp_path / "out")[table]] == expected_files


def record_worker_pids(monkeypatch):
    """Return a list to which the process id of each worker is added when the worker starts."""
    pids = []
    original_init = workers.Worker.__init__

    def init_and_record(self):
        original_init(self)
        pids.append(self.pid)

    monkeypatch.setattr(workers.Worker, "__init__", init_and_record)
    return pids


def test_no_model_is_lost_or_duplicated_if_a_worker_is_killed(zoo, tmp_path, reference_rows, monkeypatch):
    set_task_size(monkeypatch, 1)
    killed_pids = []

    pids = record_worker_pids(monkeypatch)

    def kill_one(n_done, n_total):
        if not killed_pids:
            os.kill(pids[0], signal.SIGKILL)
            killed_pids.append(pids[0])

    summary = catalog.build([zoo], tmp_path / "out", hash=True, check=True, workers=2, progress=kill_one)
    assert killed_pids
    assert (summary.read, summary.failures) == (10, {})
    assert all_rows(tmp_path / "out") == reference_rows


def test_a_model_that_ends_every_process_is_a_failure(zoo, tmp_path, monkeypatch):
    onnx.save(numbered_model(1), zoo / "poison.onnx")  # `read_or_die` kills the process at this name
    monkeypatch.setattr(engines, "read_models", worker_functions.read_or_die)
    summary = catalog.build([zoo], tmp_path / "out", workers=2)
    assert [Path(model).name for model in summary.failures] == ["poison.onnx"]
    assert summary.read == 10
    assert len(sorted_rows(tmp_path / "out", "models")) == 10


def test_a_task_is_repeated_if_its_worker_is_killed(zoo, tmp_path, monkeypatch):
    onnx.save(numbered_model(1), zoo / "fragile.onnx")  # `read_or_die` kills the process at the first read of this name
    monkeypatch.setattr(engines, "read_models", worker_functions.read_or_die)
    set_task_size(monkeypatch, 2)
    summary = catalog.build([zoo], tmp_path / "out", workers=2)
    assert (zoo / "fragile.died").exists()
    assert (summary.read, summary.failures) == (11, {})
    assert len(sorted_rows(tmp_path / "out", "models")) == 11


def is_running(pid):
    """Return whether a process exists and is not a zombie."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    status = Path(f"/proc/{pid}/stat")
    return not status.exists() or status.read_text().rpartition(")")[2].split()[0] != "Z"


def test_a_killed_build_is_continued_by_the_next(zoo, tmp_path, reference_rows):
    code = (
        "import os, sys\n"
        "from onnxwire.catalog import build, workers\n"
        "module = sys.modules['onnxwire.catalog.build']\n"
        "module._TASK_MODELS, module._GROUP_MODELS = 2, 2\n"  # the folder has fewer models than the defaults
        "original_init = workers.Worker.__init__\n"
        "def init_and_print(self):\n"
        "    original_init(self)\n"
        "    print(self.pid, flush=True)\n"
        "workers.Worker.__init__ = init_and_print\n"
        "def exit_halfway(n_done, n_total):\n"
        "    if n_done > n_total / 2:\n"
        "        os._exit(9)\n"
        "build([sys.argv[1]], sys.argv[2], workers=1, hash=True, check=True, progress=exit_halfway)\n"
    )
    (tmp_path / "run.py").write_text(code)
    out = tmp_path / "out"
    process = subprocess.run([sys.executable, tmp_path / "run.py", zoo, out], stdout=subprocess.PIPE, check=False)
    assert process.returncode == 9
    worker_pids = [int(pid) for pid in process.stdout.split()]
    assert len(worker_pids) == 1
    while any(map(is_running, worker_pids)):  # workers end after the process that started them
        time.sleep(0.01)
    n_models_before = len(sorted_rows(out, "models"))
    assert 0 < n_models_before < 10
    summary = catalog.build([zoo], out, workers=1, hash=True, check=True)
    assert (summary.unchanged, summary.read) == (n_models_before, 10 - n_models_before)
    assert all_rows(out) == reference_rows


@pytest.mark.long
def test_dask_builds_the_same_catalog_even_if_a_worker_is_killed(zoo, tmp_path, reference_rows, monkeypatch):
    distributed = pytest.importorskip("distributed")
    set_task_size(monkeypatch, 1)
    killed_processes = []

    def kill_one(n_done, n_total):
        if not killed_processes:
            killed_processes.append(next(iter(cluster.workers.values())).process.process)
            killed_processes[0]._process.kill()

    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None, worker_dashboard_address=None
    ) as cluster:
        options = {"engine": "dask", "address": cluster.scheduler_address, "hash": True, "check": True}
        summary = catalog.build([zoo], tmp_path / "out", progress=kill_one, **options)
    assert killed_processes
    assert (summary.read, summary.failures) == (10, {})
    assert all_rows(tmp_path / "out") == reference_rows


def test_ray_builds_the_same_catalog(zoo, tmp_path, reference_rows, monkeypatch):
    pytest.importorskip("ray")
    # The first process that reads one of the models is killed. Ray's workers import `worker_functions` by PYTHONPATH.
    paths = [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, paths)))
    (zoo / "below" / "m3.onnx").rename(zoo / "below" / "fragile.onnx")
    monkeypatch.setattr(engines, "read_models", worker_functions.read_or_die)
    set_task_size(monkeypatch, 2)
    summary = catalog.build([zoo], tmp_path / "out", engine="ray", hash=True, check=True)
    assert (zoo / "below" / "fragile.died").exists()
    (zoo / "below" / "fragile.onnx").rename(zoo / "below" / "m3.onnx")
    assert (summary.read, summary.failures) == (10, {})
    rows_json = json.dumps(all_rows(tmp_path / "out")).replace("fragile.onnx", "m3.onnx")
    result = {
        table: sorted(table_rows, key=lambda row: row["model"]) for table, table_rows in json.loads(rows_json).items()
    }
    assert result == reference_rows


def test_models_of_a_lost_task_are_read_again_by_the_same_engine(zoo, tmp_path, monkeypatch):
    submitted_sizes = []

    def result(task):
        if any(Path(model).name == "m4.onnx" for model in task.models):
            raise workers.WorkerLost
        return engines.read_models(task)

    def submit(task):
        submitted_sizes.append(len(task.models))
        return task

    executor = engines._Executor(submit, result, lambda: 1, (workers.WorkerLost,))
    monkeypatch.setitem(engines._ENGINES, "ray", lambda *_: contextlib.nullcontext(executor))
    set_task_size(monkeypatch, 6)
    summary = catalog.build([zoo], tmp_path / "out", engine="ray")
    assert [Path(model).name for model in summary.failures] == ["m4.onnx"]
    assert summary.read == 9
    # The ten models are in tasks of 6 and of 4. One task is lost, and its models are read one by one.
    assert submitted_sizes.count(1) in (4, 6)


def test_unknown_and_missing_engines_are_reported(zoo, tmp_path, monkeypatch):
    with pytest.raises(ValueError, match="the engines are local, dask and ray"):
        catalog.build([zoo], tmp_path / "out", engine="spark")
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingPackageError, match="Ray"):
        catalog.build([zoo], tmp_path / "out", engine="ray")


# --- queries


def test_sql_queries_a_catalog(zoo, tmp_path, capsys):
    pytest.importorskip("duckdb")
    out = tmp_path / "a [folder] of o'clock"
    assert main(["catalog", str(zoo), "-o", str(out), "--json", "--workers", "1"]) == 0
    assert json.loads(capsys.readouterr().out)["read"] == 10
    query = "select count(distinct model) from operators where type = 'Relu'"
    assert onnxwire.sql(out, query).fetchall() == [(4,)]
    assert main(["sql", str(out), "select model from models where graph_name = 'nested'", "--csv"]) == 0
    assert capsys.readouterr().out.splitlines()[1] == str(zoo / "nested.onnx")


def test_empty_tables_can_be_queried(zoo, tmp_path):
    pytest.importorskip("duckdb")
    (zoo / "bad.onnx").write_bytes(b"\x08")  # a tag without a value
    catalog.build([zoo], tmp_path / "full", workers=1)
    onnxwire.save(onnxwire.ModelProto(ir_version=10), tmp_path / "bare.onnx")
    catalog.build([tmp_path / "bare.onnx"], tmp_path / "bare", workers=1)
    for name in ("operators", "tensors", "values", "metadata", "failures"):
        assert onnxwire.sql(tmp_path / "bare", f"from {name}").fetchall() == []
        full_columns, bare_columns = (
            onnxwire.sql(tmp_path / folder, f"describe {name}").fetchall() for folder in ("full", "bare")
        )
        assert bare_columns == full_columns, name
    # No rule was run. An empty table would suggest that there are no problems.
    with pytest.raises(QueryError, match="problems does not exist"):
        onnxwire.sql(tmp_path / "bare", "from problems")


# --- other tests


def test_names_of_models_in_a_folder_may_be_uppercase(zoo, tmp_path):
    (zoo / "m0.onnx").rename(zoo / "M0.ONNX")
    assert catalog.build([zoo], tmp_path / "out", workers=1).read == 10


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes and links")
def test_cyclic_links_and_pipes_do_not_block_a_build(zoo, tmp_path):
    (zoo / "below" / "up").symlink_to("..")
    os.mkfifo(zoo / "pipe.onnx")
    (zoo / "folder.onnx").mkdir()
    summary = catalog.build([zoo, zoo / "m0.onnx"], tmp_path / "out", workers=1)
    assert (summary.read, list(summary.failures)) == (10, [str(zoo / "pipe.onnx")])


def test_external_data_that_changes_is_read_again(tmp_path):
    weights = onnx.numpy_helper.from_array(np.ones(600, np.float32), "w")
    onnx.save(helper.make_model(helper.make_graph([], "g", [], [], [weights])), tmp_path / "m.onnx")
    onnxwire.save(onnxwire.load(tmp_path / "m.onnx"), tmp_path / "e.onnx", external="e.data")
    out = tmp_path / "out"
    catalog.build([tmp_path / "e.onnx"], out, hash=True, workers=1)
    assert catalog.build([tmp_path / "e.onnx"], out, hash=True, workers=1).unchanged == 1
    (first_row,) = sorted_rows(out, "tensors")
    (tmp_path / "e.data").write_bytes(np.zeros(600, np.float32).tobytes())
    os.utime(tmp_path / "e.data", ns=(1, 1))
    assert catalog.build([tmp_path / "e.onnx"], out, hash=True, workers=1).read == 1
    (changed_row,) = sorted_rows(out, "tensors")
    assert first_row["hash"] != changed_row["hash"]
    (tmp_path / "e.data").unlink()
    assert catalog.build([tmp_path / "e.onnx"], out, hash=True, workers=1).read == 1
    (missing_row,) = sorted_rows(out, "tensors")
    assert (missing_row["missing"], missing_row["hash"]) == (True, None)


def test_invalid_options_are_rejected(zoo, tmp_path):
    for options in (["--scheduler", "x"], ["--address", "x"], ["--workers", "0"]):
        with pytest.raises(SystemExit) as error_info:
            main(["catalog", str(zoo), "-o", str(tmp_path / "out"), *options])
        assert error_info.value.code == 2
    assert not os.path.exists(tmp_path / "out")


@pytest.mark.parametrize("table", ["nodes", "values", "functions"])
def test_dask_dataframes_have_the_rows_of_all_models(zoo, table):
    pytest.importorskip("dask.dataframe")
    from onnxwire.bridges import dask as bridge

    paths = sorted(zoo.rglob("*.onnx"))
    frame = bridge.read(paths, table).compute(scheduler="synchronous")
    check_frame(frame.to_dict("records"), paths, table)
    with pytest.raises(ValueError, match="there is no table"):
        bridge.read(paths, "nodez")


@pytest.mark.parametrize("table", ["nodes"])
def test_ray_datasets_have_the_rows_of_all_models(zoo, table):
    ray = pytest.importorskip("ray")
    pytest.importorskip("ray.data")
    from onnxwire.bridges import ray as bridge

    paths = sorted(zoo.rglob("*.onnx"))
    ray.init(num_cpus=1, log_to_driver=False)
    try:
        check_frame(bridge.read(paths, table, batch=4).take_all(), paths, table)
    finally:
        ray.shutdown()


def check_frame(rows, paths, table):
    """Check that rows have the models and names of the rows that `to_arrow` returns for each model."""
    expected = []
    for path in paths:
        columns = onnxwire.to_arrow(path, table).to_pydict()
        expected += [(str(path), name) for name in columns["name"]]
    assert sorted((row["model"], row["name"]) for row in rows) == sorted(expected)


def test_options_of_the_command_are_arguments_of_build(zoo, tmp_path, monkeypatch, capsys):
    received_options = []

    def build(sources, folder, **options):
        received_options.append({name: value for name, value in options.items() if value and name != "progress"})
        return catalog.Summary()

    monkeypatch.setattr(build_module, "build", build)
    calls = {
        ("--hash",): {"engine": "local", "hash": True},
        ("--check",): {"engine": "local", "check": True},
        ("--prune",): {"engine": "local", "prune": True},
        ("--workers", "3"): {"engine": "local", "workers": 3},
        ("--engine", "dask", "--scheduler", "tcp://host:1"): {"engine": "dask", "address": "tcp://host:1"},
        ("--engine", "ray", "--address", "auto"): {"engine": "ray", "address": "auto"},
    }
    for arguments in calls:
        assert main(["catalog", str(zoo), "-o", str(tmp_path / "out"), *arguments]) == 0
    assert received_options == [*calls.values()]


@pytest.mark.parametrize(
    ("element_type", "values"),
    [
        ("string", ["a", None, "", "naïve \U0001f600", "x" * 1000]),
        ("int64", [0, None, -(1 << 63), (1 << 63) - 1]),
        ("bool", [True, None, False] * 7),
        *(
            (element_type, values)
            for element_type in ("string", "int64", "bool")
            for values in ([], [None], [None] * 9)
        ),
    ],
    ids=str,
)
def test_arrays_equal_those_that_pyarrow_makes(element_type, values) -> None:
    array = make_array(values, element_type)
    array.validate(full=True)
    assert array.equals(pa.array(values, pa.type_for_alias(element_type)))


def test_a_build_does_not_import_pandas(tmp_path) -> None:
    code = "import sys; from onnxwire import catalog; summary = catalog.build([sys.argv[1]], sys.argv[2], workers=1)\n"
    code += "assert summary.read == 1 and summary.failures, summary\nassert 'pandas' not in sys.modules"
    (tmp_path / "bad.onnx").write_bytes(b"\xff")  # an incomplete tag
    (tmp_path / "good.onnx").write_bytes(small_model(1))
    subprocess.run([sys.executable, "-c", code, tmp_path, tmp_path / "out"], check=True)
