"""`onnxwire sql`: query a model or a catalog in SQL."""

from __future__ import annotations

import argparse
import io
import json
import os
import re
import sys
from itertools import islice
from typing import TYPE_CHECKING, Any

from onnxwire.analysis.csv_writer import write_csv
from onnxwire.cli.options import add_command, add_type
from onnxwire.cli.output import open_output, open_text_output, refuse_overwriting_input
from onnxwire.cli.terminal import (
    Paint,
    add_color,
    json_numbers,
    make_painter,
    number_text,
    safe_text,
    table_lines,
    terminal_width,
)
from onnxwire.errors import Error, QueryError, SaveError
from onnxwire.io.load import load
from onnxwire.io.references import reject_own_data_file
from onnxwire.io.remote.address import is_address
from onnxwire.messages import SCHEMA

if TYPE_CHECKING:
    from collections.abc import Iterator

    import duckdb

_DESCRIPTION = """\
Query a model, or a catalog that `onnxwire catalog` wrote, in SQL. The tables of a model are nodes, attributes, values,
uses, tensors, opsets, metadata, functions and model; `describe nodes` lists the columns of nodes. Weights are not
read.
"""

_CSV_HELP = (
    "print CSV; lists are written as JSON, and a text that a spreadsheet would parse as a formula gets an apostrophe "
    "before it; --json and .parquet do not change any text"
)

_BATCH_ROWS = 1000  # rows that are converted to Python objects at a time
# Types of DuckDB whose columns are aligned to the right.
_RIGHT_ALIGNED_TYPES = {
    "BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT",
    "UHUGEINT", "FLOAT", "DOUBLE",
}  # fmt: skip

QUERIES = {
    "operators by count": """
        select domain, op_type, count(*) as n from nodes group by all order by n desc""",
    "the largest tensors": """
        select name, data_type, dims, bytes from tensors order by bytes desc limit 10""",
    "dead initializers": """
        select t.name, t.bytes from tensors t where starts_with(t.path, t.graph || '.initializer[')
        and not exists (from uses u where u.graph = t.graph and u.name = t.name and u.kind = 'input')
        and not exists (from values v where v.graph = t.graph and v.name = t.name and v.kind = 'output')""",
    "tensors that may be duplicates, by type, shape and size": """
        select data_type, dims, bytes, count(*) as n, list(name) as names from tensors where bytes > 1024
        group by data_type, dims, bytes having n > 1 order by bytes * (n - 1) desc""",
    "node outputs without a type": """
        select u.graph, u.name from uses u anti join values v using (graph, name) where u.kind = 'output'""",
    "a Cast whose input is the output of a Cast": """
        select a.graph, a.name as first, b.name as second from nodes a
        join uses o on o.graph = a.graph and o.node = a.index and o.kind = 'output'
        join uses i on i.graph = o.graph and i.name = o.name and i.kind = 'input'
        join nodes b on b.graph = i.graph and b.index = i.node where a.op_type = 'Cast' and b.op_type = 'Cast'""",
    "nodes that several outputs depend on": """
        with recursive links as materialized (
          select distinct i.graph, i.node as consumer, o.node as producer from uses i
          join uses o on o.graph = i.graph and o.name = i.name and o.kind = 'output' where i.kind = 'input'),
        ancestors as (
          select v.name as output, u.graph, u.node from values v
          join uses u on u.graph = v.graph and u.name = v.name and u.kind = 'output' where v.kind = 'output'
          union
          select n.output, l.graph, l.producer from ancestors n
          join links l on l.graph = n.graph and l.consumer = n.node)
        select graph, node, list(output) as outputs from ancestors group by graph, node having count(*) > 1""",
    "the longest chains of nodes, by their first nodes": """
        with recursive links as (
          select o.graph, o.node as producer, any_value(i.node) as consumer from uses o
          join uses i on i.graph = o.graph and i.name = o.name and i.kind = 'input' where o.kind = 'output'
          group by o.graph, o.node having count(*) = 1),
        chain as (
          select graph, producer as head, consumer as last, 2 as length from links l
          where not exists (from links p where p.graph = l.graph and p.consumer = l.producer)
          union all
          select c.graph, c.head, l.consumer, c.length + 1 from chain c
          join links l on l.graph = c.graph and l.producer = c.last)
        select graph, head, max(length) as nodes from chain group by all order by nodes desc limit 10""",
    "kernel shapes of convolutions": """
        select a.ints as kernel_shape, count(*) as n from attributes a
        join nodes n on n.graph = a.graph and n.index = a.node
        where n.op_type = 'Conv' and a.name = 'kernel_shape' group by a.ints order by n desc""",
    "files of external data, with their tensors and bytes": """
        select location, count(*) as tensors, sum(bytes) as bytes from tensors
        where storage = 'external' group by location""",
    "inputs whose shape is not fixed": """
        select name, type, dims from values where kind = 'input' and graph = 'graph'
        and (shape is null or list_position(shape, null) > 0 or list_count(shape) < len(shape))""",
}
"""Example queries by purpose."""


def _examples() -> str:
    """Return the end of the help: examples and queries."""
    lines = ["examples:", "  onnxwire sql model.onnx 'select op_type, count(*) from nodes group by 1'"]
    lines += ["  onnxwire sql model.onnx 'describe tensors'"]
    lines += ["  onnxwire sql model.onnx 'from tensors order by bytes desc' -o tensors.parquet"]
    lines += ["  onnxwire sql catalog/ \"select model from operators where type = 'Loop'\""]
    lines += ["  onnxwire sql s3://bucket/catalog 'select count(*) from models'", "", "queries:"]
    for purpose, query in QUERIES.items():
        lines += [f"  -- {purpose}", *(f"  {line.strip()}" for line in query.strip().splitlines())]
    return "\n".join(lines)


def add_parser(commands: Any) -> None:
    """Add the command to the parser's `commands`."""
    parser = add_command(commands, "sql", _DESCRIPTION, _examples())
    parser.add_argument("file", metavar="FILE", help="a model, or the folder of a catalog; or the address of either")
    parser.add_argument("query", metavar="QUERY")
    formats = parser.add_mutually_exclusive_group()
    formats.add_argument("--json", action="store_true", help="print JSON: a list of objects")
    formats.add_argument("--csv", action="store_true", help=_CSV_HELP)
    parser.add_argument(
        "-o",
        "--output",
        metavar="OUT",
        default="-",
        help="the file to write: .parquet, .csv or .json, or any name with --json or --csv; - for stdout",
    )
    parser.add_argument(
        "--sandbox",
        action="store_true",
        help="refuse catalogs, and queries that use files, the network or extensions, or change settings or tables",
    )
    add_type(parser, "the message in the file, such as GraphProto; default: ModelProto")
    add_color(parser)
    parser.set_defaults(run=run, parser=parser)


def run(options: argparse.Namespace) -> int:
    """Print or write the result; returns the exit status."""
    from onnxwire.catalog.sql import describe_duckdb_error, sql

    extension = os.path.splitext(options.output)[1].lower() if options.output != "-" else ""
    output_format = ".json" if options.json else ".csv" if options.csv else extension
    if options.output != "-" and output_format not in (".parquet", ".csv", ".json"):
        options.parser.error(f"{options.output!r} must end in .parquet, .csv or .json")
    if options.sandbox and output_format == ".parquet":
        options.parser.error("with --sandbox DuckDB writes no files; write .csv or .json")
    refuse_overwriting_input(options.file, options.output)
    source, message_class = options.file, SCHEMA.messages[f"onnx.{options.type}"]
    if options.output != "-" and not os.path.isdir(source) and not is_address(source):
        source = load(source, message_class)
        reject_own_data_file(source, options.output)
    relation = sql(source, options.query, type=message_class, read_only=options.sandbox)
    if relation is None:  # the statement has no result
        return 0
    import duckdb

    try:
        if output_format == ".parquet":
            _write_parquet(relation, options.output)
        else:
            _print(relation, options, output_format)
    except duckdb.Error as error:
        raise QueryError(describe_duckdb_error(error)) from None
    return 0


def _write_parquet(relation: duckdb.DuckDBPyRelation, path: str) -> None:
    """Write the result; the file replaces an old file when it is complete."""
    import shutil
    import tempfile

    try:
        with open_output(path) as out, tempfile.TemporaryDirectory(prefix="onnxwire-") as folder:
            temporary_path = os.path.join(folder, "result.parquet")
            relation.write_parquet(temporary_path)
            with open(temporary_path, "rb") as file:
                shutil.copyfileobj(file, out, 1 << 20)
    except Error:
        raise
    except OSError as error:
        raise SaveError.from_os_error(error, path) from None


def _print(relation: duckdb.DuckDBPyRelation, options: argparse.Namespace, output_format: str) -> None:
    """Print the result, or write it to the file of -o. output_format: .json, .csv, or "" for a table on stdout."""
    make_parts = {".json": _json_parts, ".csv": _csv_parts}.get(output_format)
    parts = make_parts(relation) if make_parts else _table_parts(relation, make_painter(options.color))
    if options.output == "-":
        must_escape = output_format == ".csv" and sys.stdout.isatty()
        for text in parts:
            sys.stdout.write("\n".join(map(safe_text, text.split("\n"))) if must_escape else text)
        return
    with open_text_output(options.output) as file:
        file.writelines(parts)


def _batches(relation: duckdb.DuckDBPyRelation) -> Iterator[list[Any]]:
    """Yield the rows in batches; yield at least one batch, which may be empty."""
    # Before DuckDB 2.0, a relation itself is a cursor.
    rows = relation.iter_rows() if hasattr(relation, "iter_rows") else iter(relation.fetchone, None)
    yield list(islice(rows, _BATCH_ROWS))
    while batch := list(islice(rows, _BATCH_ROWS)):
        yield batch


def _json_parts(relation: duckdb.DuckDBPyRelation) -> Iterator[str]:
    """Yield the text of a list of objects, as json.dumps indents it."""
    start, end = "[\n", "\n]"
    is_first = True
    # The C encoder of the standard library cannot indent, so the separators contain line breaks and indentation.
    encode = json.JSONEncoder(allow_nan=False, default=str, separators=(",\n    ", ": ")).encode
    # Types with parentheses or brackets contain several values, such as STRUCT(a INTEGER) and INTEGER[], except
    # DECIMAL and ENUM.
    is_flat = all(re.fullmatch(r"(DECIMAL|ENUM)\(.*\)|[^(\[]*", str(type), re.DOTALL) for type in relation.types)
    for rows in _batches(relation):
        objects = [dict(zip(relation.columns, map(json_numbers, row), strict=True)) for row in rows]
        if is_flat:
            text = ",\n".join([f"  {{\n    {encode(row)[1:-1]}\n  }}" for row in objects])
        else:
            text = json.dumps(objects, indent=2, allow_nan=False, default=str).removeprefix(start).removesuffix(end)
        if objects:
            yield (start if is_first else ",\n") + text
            is_first = False
    yield "[]\n" if is_first else f"{end}\n"


def _csv_parts(relation: duckdb.DuckDBPyRelation) -> Iterator[str]:
    """Yield the text of a CSV file, in batches."""
    heading = [relation.columns]
    for rows in _batches(relation):
        out = io.StringIO()
        write_csv(heading, out)
        write_csv(([_csv_value(value) for value in row] for row in rows), out)
        heading = []
        yield out.getvalue()


def _table_parts(relation: duckdb.DuckDBPyRelation, paint: Paint) -> Iterator[str]:
    """Yield lines of columns, which are narrowed on a terminal. A batch may make columns wider."""
    headings = [safe_text(name) for name in relation.columns]
    is_right_aligned = [str(type) in _RIGHT_ALIGNED_TYPES for type in relation.types]
    widths: list[int] = []
    # A single column wraps: it is often a text to read, such as a query plan.
    max_width = terminal_width() if len(headings) > 1 else None
    for rows in _batches(relation):
        cells = [[_table_text(value) for value in row] for row in rows]
        right_columns = [i for i, is_right in enumerate(is_right_aligned) if is_right and rows]
        lines = table_lines(cells, headings, right_columns, ["bold", "cyan"], paint, widths=widths, max_width=max_width)
        headings = []
        yield "".join(f"{line}\n" for line in lines)


def _csv_value(value: Any) -> Any:
    """Return a value for CSV: lists and structs as JSON."""
    return json.dumps(json_numbers(value), default=str) if isinstance(value, list | dict) else value


def _table_text(value: Any) -> str:
    """Return a value as the text of a cell."""
    if value is None:
        return "-"
    if isinstance(value, list):
        return f"[{', '.join(map(_table_text, value))}]"
    return number_text(value) if isinstance(value, int | float) else safe_text(str(value))
