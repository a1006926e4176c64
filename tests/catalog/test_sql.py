"""SQL queries by `onnxwire.sql` and by `onnxwire sql`."""

from __future__ import annotations

import csv
import gc
import io
import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from graphs import nested_model, value
from onnx import TensorProto, helper, numpy_helper

import onnxwire
from onnxwire import catalog
from onnxwire.cli import main
from onnxwire.cli.cmd_sql import QUERIES

duckdb = pytest.importorskip("duckdb")

DIGITS = Path(__file__).parents[2] / "examples" / "digits_cnn.onnx"


def make_model():
    """Return a model for which every query in the help has a known result."""
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], "conv", kernel_shape=[3, 3]),
        helper.make_node("Cast", ["a"], ["b"], "down", to=TensorProto.FLOAT16),
        helper.make_node("Cast", ["b"], ["c"], "up", to=TensorProto.FLOAT),
        helper.make_node("Relu", ["c"], ["y"], "left"),
        helper.make_node("Neg", ["c"], ["z"], "right"),
    ]
    weights = [numpy_helper.from_array(np.zeros((8, 1, 8, 8), np.float32), name) for name in ("w", "twin", "given")]
    external_tensor = numpy_helper.from_array(np.zeros(4, np.float32), "away")
    external_tensor.ClearField("raw_data")
    external_tensor.data_location = TensorProto.EXTERNAL
    for key, entry in {"location": "w.data", "length": "16"}.items():
        external_tensor.external_data.add(key=key, value=entry)
    graph = helper.make_graph(
        nodes, "g", [value("x", "batch", 1, 9, 9), value("fixed", 2)],
        [value("y", 1), value("z", 1), value("given", 8)], [*weights, external_tensor], value_info=[value("c", 1)],
    )  # fmt: skip
    return helper.make_model(graph)


# The expected value of a column in one row of the result: (value, column, index of the row). If the index is None, the
# value is the set of the column's values in all rows.
EXPECTED_RESULTS = {
    "operators by count": ("Cast", "op_type", 0),
    "the largest tensors": ("away", "name", -1),
    "dead initializers": ({"twin", "away"}, "name", None),
    "tensors that may be duplicates, by type, shape and size": (3, "n", 0),
    "node outputs without a type": ({"a", "b"}, "name", None),
    "a Cast whose input is the output of a Cast": ({"down"}, "first", None),
    "nodes that several outputs depend on": ({0, 1, 2}, "node", None),
    "the longest chains of nodes, by their first nodes": (3, "nodes", 0),
    "kernel shapes of convolutions": ([3, 3], "kernel_shape", 0),
    "files of external data, with their tensors and bytes": (16, "bytes", 0),
    "inputs whose shape is not fixed": ({"x"}, "name", None),
}


@pytest.mark.parametrize("title", QUERIES)
def test_queries_in_the_help_return_the_described_rows(title):
    expected, column, index = EXPECTED_RESULTS[title]
    result = onnxwire.sql(make_model().SerializeToString(), QUERIES[title])
    values = [row[result.columns.index(column)] for row in result.fetchall()]
    assert (set(values) if index is None else values[index]) == expected


@pytest.mark.parametrize("title", QUERIES)
def test_queries_in_the_help_work_on_subgraphs_and_functions(title):
    onnxwire.sql(nested_model().SerializeToString(), QUERIES[title]).fetchall()


def test_a_query_of_a_message_includes_edits():
    edited_model = onnxwire.ModelProto.FromString(make_model().SerializeToString())
    edited_model.graph.node[0].op_type = "Changed"
    assert onnxwire.sql(edited_model, "select op_type from nodes where index = 0").fetchall() == [("Changed",)]


def test_a_result_can_be_read_after_the_model_is_released():
    result = onnxwire.sql(DIGITS, "select name from nodes order by index")
    gc.collect()
    assert result.fetchall()[0] == ("node_Shape_0",)


def test_python_variables_are_not_tables():
    local_table = onnxwire.to_arrow(DIGITS, "nodes")
    with pytest.raises(onnxwire.Error, match="local_table does not exist"):
        onnxwire.sql(DIGITS, "select * from local_table")
    assert len(local_table) == 17


@pytest.mark.parametrize("query", ["selec 1", "select * from nodez", "select nope from nodes"])
def test_errors_of_duckdb_become_errors_of_onnxwire(query, capsys):
    with pytest.raises(onnxwire.Error):
        onnxwire.sql(DIGITS, query)
    assert main(["sql", str(DIGITS), query]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_an_empty_query_has_no_result():
    assert onnxwire.sql(DIGITS, "") is None


def test_an_error_while_rows_are_computed_is_reported(capsys):
    assert main(["sql", str(DIGITS), "select error('halt: ' || name) from nodes"]) == 2
    assert "halt: node_Shape_0" in capsys.readouterr().err


def test_a_python_traceback_in_an_error_is_shortened_to_its_last_line():
    text = "Invalid Input Error: Required module 'pytz' failed to import, due to the following Python exception:\n"
    text += 'Traceback (most recent call last):\n  File "<frozen importlib>", line 1\nModuleNotFoundError: no pytz'
    line = (
        "Required module 'pytz' failed to import, due to the following Python exception: ModuleNotFoundError: no pytz"
    )
    from onnxwire.catalog.sql import describe_duckdb_error

    assert describe_duckdb_error(duckdb.InvalidInputException(text)) == f"Invalid Input Error: {line}"


def test_a_folder_without_a_catalog_is_rejected(tmp_path, capsys):
    assert main(["sql", str(tmp_path), "select 1"]) == 2
    assert "this folder contains no catalog" in capsys.readouterr().err


def test_results_are_printed_as_a_table(capsys):
    assert main(["sql", str(DIGITS), "select name, index from nodes order by index limit 2"]) == 0
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["name", "index"], ["node_Shape_0", "0"], ["node_sym_size_int_1", "1"],
    ]  # fmt: skip


def test_results_are_printed_as_json_and_csv(capsys):
    query = "select name, inputs, domain, 'inf'::double as huge from nodes where index = 2"
    assert main(["sql", str(DIGITS), query, "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert row["name"] == "node_conv2d"
    assert len(row["inputs"]) == 3
    assert (row["domain"], row["huge"]) == (None, "Infinity")
    assert main(["sql", str(DIGITS), "select name, inputs, null as x from nodes where index = 2", "--csv"]) == 0
    heading, line = csv.reader(io.StringIO(capsys.readouterr().out))
    assert heading == ["name", "inputs", "x"]
    assert json.loads(line[1])[0] == "image"
    assert line[2] == ""


@pytest.mark.parametrize("count", [0, 1, 999, 1000, 1001, 2500])
def test_results_of_any_length_are_complete(count, tmp_path, capsys):
    query = f"select range as i, 'n' || range as name, null as x from range({count})"
    rows = [{"i": i, "name": f"n{i}", "x": None} for i in range(count)]
    assert main(["sql", str(DIGITS), query, "--json"]) == 0
    assert capsys.readouterr().out == json.dumps(rows, indent=2) + "\n"
    assert main(["sql", str(DIGITS), query, "--csv", "-o", str(tmp_path / "x.csv")]) == 0
    assert (tmp_path / "x.csv").read_text() == "".join(["i,name,x\n", *(f"{i},n{i},\n" for i in range(count))])
    assert main(["sql", str(DIGITS), query]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines == [["i", "name", "x"], *([f"{i:,}", f"n{i}", "-"] for i in range(count))]


TABLES = ["attributes", "functions", "metadata", "model", "nodes", "opsets", "tensors", "uses", "values"]


def test_all_tables_of_a_model_are_listed():
    assert onnxwire.sql(DIGITS, "show tables").fetchall() == [(name,) for name in TABLES]
    query = "select table_name from information_schema.tables order by 1"
    assert onnxwire.sql(DIGITS, query).fetchall() == [(name,) for name in TABLES]
    assert onnxwire.sql(DIGITS, "select count(*) from query_table('no' || 'des')").fetchall() == [(17,)]


def test_all_tables_of_a_catalog_are_listed(tmp_path):
    catalog.build([DIGITS], tmp_path / "out", workers=1, check=True)
    names = sorted(["models", "operators", "tensors", "values", "metadata", "problems", "failures"])
    assert onnxwire.sql(tmp_path / "out", "show tables").fetchall() == [(name,) for name in names]
    query = "select table_name from information_schema.tables where table_schema = 'main' order by 1"
    assert onnxwire.sql(tmp_path / "out", query).fetchall() == [(name,) for name in names]
    assert onnxwire.sql(tmp_path / "out", "select count(*) from query_table('mod' || 'els')").fetchall() == [(1,)]


def test_tables_that_a_query_does_not_read_are_not_made(monkeypatch):
    from onnxwire.catalog import sql as sql_module

    tables_made = []
    original_fill = sql_module._LazyTable.fill

    def fill_and_record(table):
        tables_made.append(table._spec.message)
        return original_fill(table)

    monkeypatch.setattr(sql_module._LazyTable, "fill", fill_and_record)
    onnxwire.sql(DIGITS, "select count(*) from information_schema.columns").fetchall()
    onnxwire.sql(DIGITS, "select count(*) from opsets").fetchall()
    assert set(tables_made) == {"OperatorSetIdProto"}


# Queries and their rows: the model has 17 nodes, the table of nodes 12 columns, and a model 9 tables.
READ_ONLY_QUERIES = {
    "select count(*) from nodes": [(17,)],
    "from nodes select count(*)": [(17,)],
    "with n as (from nodes) select count(*) from n": [(17,)],
    "select count(*) from (describe nodes)": [(12,)],
    "select count(*) from information_schema.tables": [(9,)],
    "values (1)": [(1,)],
}
FORBIDDEN_QUERIES = [
    "copy (select 1) to '{folder}/out'",
    "copy nodes to '{folder}/out' (format parquet)",
    "copy nodes from '{folder}/x.csv'",
    "attach '{folder}/out'",
    "attach ':memory:' as other",
    "from read_csv('{folder}/x.csv')",
    "from '{folder}/x.csv'",
    "from read_text('{folder}/x.csv')",
    "from read_blob('{folder}/*')",
    "from glob('{folder}/*')",
    "from sniff_csv('{folder}/x.csv')",
    "from parquet_metadata('{folder}/x.csv')",
    "from query('from read_text(''{folder}/x.csv'')')",
    "from query_table('{folder}/x.csv')",
    "from read_csv('http://127.0.0.1:9/x.csv')",
    "from 's3://bucket/x.parquet'",
    "install httpfs",
    "load httpfs",
    "load '{folder}/x.csv'",
    "pragma database_list",
    "call pragma_version()",
    "export database '{folder}/out'",
    "import database '{folder}'",
    "select getenv('HOME')",
    "set enable_external_access = true",
    "set memory_limit = '1TB'",
    "reset memory_limit",
    "set variable x = 1",
    "create secret (type s3, key_id 'a', secret 'b')",
    "from duckdb_secrets()",
    "create table x as select 1",
    "create view x as select 1",
    "create macro m() as table from read_text('{folder}/x.csv')",
    "create function f() as 1",
    "drop view nodes",
    "prepare x as select 1",
    "begin",
    "checkpoint",
    "vacuum",
    "use system",
    "select 1; select 2",
    "select 1; copy (select 1) to '{folder}/out'",
    "explain analyze copy (select 1) to '{folder}/out'",
    "call enable_logging(storage = 'file', storage_path = '{folder}/out')",
    "from python_arrow_scan()",
    "from arrow_scan(1, 2, 3)",
    "select length(string_agg(repeat('x', 10000000))) from range(1000)",  # a string of 10 GB exceeds the memory limit
]


def test_a_read_only_query_reads_the_tables():
    for query, rows in READ_ONLY_QUERIES.items():
        assert onnxwire.sql(DIGITS, query, read_only=True).fetchall() == rows, query
    assert onnxwire.sql(DIGITS, "", read_only=True) is None
    assert onnxwire.sql(make_model().SerializeToString(), "from opsets", read_only=True).fetchall()


@pytest.mark.parametrize("query", FORBIDDEN_QUERIES)
def test_a_query_that_does_more_than_read_the_tables_is_rejected(query, tmp_path, capsys):
    (tmp_path / "x.csv").write_text("a\n1\n")
    assert main(["sql", str(DIGITS), query.format(folder=tmp_path), "--sandbox"]) == 2
    output = capsys.readouterr()
    assert (output.out, output.err.count("\n")) == ("", 1)
    assert [path.name for path in tmp_path.iterdir()] == ["x.csv"]


def test_settings_that_a_read_only_query_reads_contain_no_path_of_this_machine():
    query = (
        "select name, value from duckdb_settings() where value like '%/%' and name not in ('duckdb_api', 'TimeZone')"
    )
    assert onnxwire.sql(DIGITS, query, read_only=True).fetchall() in ([], [("home_directory", "/")])


def test_a_read_only_query_of_a_folder_is_an_error(tmp_path):
    with pytest.raises(onnxwire.SourceError, match="a read-only query reads one model"):
        onnxwire.sql(tmp_path, "select 1", read_only=True)


def test_the_result_of_a_read_only_query_is_written_as_csv_but_not_as_parquet(tmp_path):
    with pytest.raises(SystemExit):
        main(["sql", str(DIGITS), "select 1", "--sandbox", "-o", str(tmp_path / "x.parquet")])
    assert main(["sql", str(DIGITS), "select 1 as a", "--sandbox", "-o", str(tmp_path / "x.csv")]) == 0
    assert (tmp_path / "x.csv").read_text() == "a\n1\n"


# Keys of maps in SQL, and their texts in JSON and CSV.
TEXTS_BY_KEY = {
    "date '2020-01-01'": "2020-01-01",
    "'ab'::blob": "b'ab'",
    "1.5::decimal(3, 1)": "1.5",
    "'5bc1ff76-0a3e-4d34-8c63-3c1ab1ac6a4e'::uuid": "5bc1ff76-0a3e-4d34-8c63-3c1ab1ac6a4e",
    "interval 1 day": "1 day, 0:00:00",
    "'nan'::double": "NaN",
    "true": "true",
    "3": "3",
}


@pytest.mark.parametrize(
    "columns",
    [
        "i, 'n,\n    \"' || i as \"s\"\"\", 1.5::decimal(9, 2) as d, date '2020-01-01' as day, 'nan'::float as f",
        "i, [i, 2] as l, {'a': [1], 'b': {'c': null}} as s, map {'k': [i]} as m",
        "[1.5::decimal(9, 2)] as d, 'a'::enum ('a', '(') as e, ['a'::enum ('a', '[')] as f",
    ],
)
def test_json_is_indented_as_by_the_standard_library(columns, capsys) -> None:
    assert main(["sql", str(DIGITS), f"select {columns} from range(1500) t(i)", "--json"]) == 0
    output = capsys.readouterr().out
    assert output == json.dumps(json.loads(output), indent=2) + "\n"
    assert len(json.loads(output)) == 1500


@pytest.mark.parametrize("key", TEXTS_BY_KEY)
def test_keys_of_maps_become_text_in_json_and_csv(key, capsys):
    query = f"select map {{{key}: 1}} as m"
    assert main(["sql", str(DIGITS), query, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == [{"m": {TEXTS_BY_KEY[key]: 1}}]
    assert main(["sql", str(DIGITS), query, "--csv"]) == 0
    _, (cell,) = csv.reader(io.StringIO(capsys.readouterr().out))
    assert json.loads(cell) == {TEXTS_BY_KEY[key]: 1}


FORMULAS = [
    "=1+1",
    "+1",
    "-1",
    "@A1",
    "\t=1",
    "\r=1",
    "\n=1",
    "  =cmd|' /C calc'!A0",
    "\ufeff=1",
    "\u200b=1",
    "\u202e \u00ad\x01=1",
    "\x7f\u2066+1",
    "\uff1d1",
    '=1"',
    "-",
]


@pytest.mark.parametrize("text", FORMULAS)
def test_no_cell_of_csv_is_a_formula_to_a_spreadsheet(text, tmp_path, capsys):
    node = helper.make_node("Relu", ["x"], ["y"], text)
    graph = helper.make_graph([node], "g", [value("x", 1)], [value("y", 1)])
    (tmp_path / "m.onnx").write_bytes(helper.make_model(graph).SerializeToString())
    query = """select name, -1 as a, -0.5 as b, [name] as c, null as d, 'x=1' as e, "index" as "=f" from nodes"""
    out = tmp_path / "x.csv"
    assert main(["sql", str(tmp_path / "m.onnx"), query, "-o", str(out)]) == 0
    with out.open(newline="") as file:
        heading, row = csv.reader(file)
    assert heading == ["name", "a", "b", "c", "d", "e", "'=f"]
    assert row == [f"'{text}", "-1", "-0.5", json.dumps([text]), "", "x=1", "0"]
    assert main(["sql", str(tmp_path / "m.onnx"), query, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["name"] == text


def test_results_are_written_to_files(tmp_path, capsys):
    import pyarrow.parquet

    for ending in ("parquet", "csv", "json"):
        out = tmp_path / f"answer.{ending}"
        out.write_text("old")
        with out.open() as file_before:
            assert main(["sql", str(DIGITS), "select index, op_type from nodes", "-o", str(out)]) == 0
            assert file_before.read() == "old"
    assert pyarrow.parquet.read_table(tmp_path / "answer.parquet").num_rows == 17
    assert len((tmp_path / "answer.csv").read_text().splitlines()) == 18
    assert json.loads((tmp_path / "answer.json").read_text())[0]["op_type"] == "Shape"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["answer.csv", "answer.json", "answer.parquet"]
    assert capsys.readouterr().out == ""
    assert main(["sql", str(DIGITS), "select 1", "-o", str(tmp_path / "no" / "x.parquet")]) == 2
    assert "no" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["sql", str(DIGITS), "select 1", "-o", "answer.txt"])


@pytest.mark.parametrize("ending", ["parquet", "csv", "json"])
def test_a_result_file_keeps_the_mode_and_the_link_of_the_file_it_replaces(ending, tmp_path):
    out, link = tmp_path / f"answer.{ending}", tmp_path / f"link.{ending}"
    out.write_text("old")
    out.chmod(0o600)
    link.symlink_to(out.name)
    assert main(["sql", str(DIGITS), "select 1 as a", "-o", str(link)]) == 0
    assert link.is_symlink()
    assert out.read_bytes() != b"old"
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    assert sorted(path.name for path in tmp_path.iterdir()) == [out.name, link.name]


def test_a_result_as_parquet_is_written_to_a_named_pipe(tmp_path):
    import pyarrow.parquet

    pipe = tmp_path / "pipe.parquet"
    os.mkfifo(pipe)
    # The pipe is opened for reading and writing, so that neither side waits. The result fits into the pipe's buffer.
    reader = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)
    try:
        assert main(["sql", str(DIGITS), "select 7 as a", "-o", str(pipe)]) == 0
        assert stat.S_ISFIFO(pipe.stat().st_mode)
        data = os.read(reader, 1 << 16)
    finally:
        os.close(reader)
    assert pyarrow.parquet.read_table(io.BytesIO(data)).to_pylist() == [{"a": 7}]


@pytest.mark.parametrize("ending", ["json", "csv", "parquet", "txt"])
def test_an_option_overrides_the_extension_of_the_file(tmp_path, ending):
    out = tmp_path / f"answer.{ending}"
    for option, text in (("--json", '[\n  {\n    "a": 1\n  }\n]\n'), ("--csv", "a\n1\n")):
        assert main(["sql", str(DIGITS), "select 1 as a", option, "-o", str(out)]) == 0
        assert out.read_text() == text


def test_without_duckdb_the_error_names_the_missing_package():
    code = "import sys; sys.modules['duckdb'] = None; import onnxwire; onnxwire.sql(sys.argv[1], 'select 1')"
    process = subprocess.run([sys.executable, "-c", code, str(DIGITS)], capture_output=True, text=True, check=False)
    assert "MissingPackageError: this needs DuckDB" in process.stderr


def test_a_table_is_colored_on_request(capsys):
    has_colors = []
    for color in ("always", "never"):
        assert main(["sql", str(DIGITS), "select name from nodes limit 1", "--color", color]) == 0
        has_colors.append("\x1b[" in capsys.readouterr().out)
    assert has_colors == [True, False]
