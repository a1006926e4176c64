"""Converts the statistics of all tensors of a model to a table: rows, CSV, Arrow and Parquet."""

from __future__ import annotations

from collections.abc import Iterable
from typing import IO, Any

from onnxwire.analysis.csv_writer import write_csv
from onnxwire.analysis.statistics import TensorStatistics
from onnxwire.errors import MissingPackageError
from onnxwire.io.utf8 import valid_text
from onnxwire.tensor.dtypes import name_of

COLUMNS = (
    "name", "path", "type", "shape", "bytes", "count", "min", "max", "mean", "std", "zeros", "nan", "inf",
)  # fmt: skip
"""The columns of the table, in order."""


def statistics_rows(results: Iterable[TensorStatistics]) -> list[dict[str, Any]]:
    """Return one dict per tensor with the keys COLUMNS; absent values, such as the mean of strings, are None.

    shape is a list of ints, bytes the size of the payload; the values from count on are those of `Statistics`.
    """
    rows = []
    for entry in results:
        info, statistics = entry.info, entry.statistics
        row: dict[str, Any] = {
            "name": info.name,
            "path": info.path,
            "type": name_of(info.data_type),
            "shape": list(info.shape),
            "bytes": info.nbytes,
        }
        # The columns after bytes are attributes of Statistics.
        rows.append(row | {key: getattr(statistics, key, None) for key in COLUMNS[5:]})
    return rows


def to_csv(rows: Iterable[dict[str, Any]], out: IO[str]) -> None:
    """Write rows as CSV with a header line; shapes are written as 64x512, None as an empty cell.

    Texts that a spreadsheet may evaluate as formulas get an apostrophe as prefix, see `write_csv`. Invalid UTF-8 is
    written as escapes such as \\xff.
    """
    write_csv([COLUMNS], out)
    for row in rows:
        shape = "x".join(map(str, row["shape"]))
        cells = row | {"name": valid_text(row["name"]), "path": valid_text(row["path"]), "shape": shape}
        write_csv([[cells[key] for key in COLUMNS]], out)


def to_arrow(rows: list[dict[str, Any]]) -> Any:
    """Make a pyarrow.Table of rows: strings, int64, a list of int64 for the shape, float64 for min, max, mean and std.

    Invalid UTF-8 in names and paths is written as escapes such as \\xff.
    Raises MissingPackageError without pyarrow.
    """
    try:
        import pyarrow as pa
    except ImportError:
        raise MissingPackageError("this needs pyarrow, which is not installed; `pip install pyarrow`") from None
    types = {"name": pa.string(), "path": pa.string(), "type": pa.string(), "shape": pa.list_(pa.int64())}
    float_types = {"min": pa.float64(), "max": pa.float64(), "mean": pa.float64(), "std": pa.float64()}
    types |= float_types
    columns = {}
    for key in COLUMNS:
        values = [row[key] for row in rows]
        if key in float_types:
            # pyarrow refuses to round an int64 to float64.
            values = [None if value is None else float(value) for value in values]
        elif key in ("name", "path"):
            values = list(map(valid_text, values))
        columns[key] = pa.array(values, types.get(key, pa.int64()))
    return pa.table(columns)


def write_arrow(rows: list[dict[str, Any]], out: IO[bytes]) -> None:
    """Write rows as an Arrow IPC file (Feather version 2) to a binary file.

    Raises MissingPackageError without pyarrow.
    """
    table = to_arrow(rows)
    import pyarrow as pa

    with pa.ipc.new_file(out, table.schema) as writer:
        writer.write_table(table)


def write_parquet(rows: list[dict[str, Any]], out: IO[bytes]) -> None:
    """Write rows as a Parquet file to a binary file.

    Raises MissingPackageError without pyarrow.
    """
    table = to_arrow(rows)
    from pyarrow import parquet

    parquet.write_table(table, out)
