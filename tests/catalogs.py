"""Small models, the content of catalogs, and interrupts of the writes of a catalog, for the tests of catalogs."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import pyarrow.parquet as pq
from graphs import value
from onnx import helper

from onnxwire.catalog.files import files_of
from onnxwire.catalog.states import STATES


def small_model(number: int, op_type: str = "Relu") -> bytes:
    """Return the bytes of a model with one node, whose op_type distinguishes versions of the model.

    number: part of the names of the node and the graph.
    """
    node = helper.make_node(op_type, ["x"], ["y"], f"node {number}")
    graph = helper.make_graph([node], f"g{number}", [value("x", 3)], [value("y", 3)])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=10).SerializeToString()


def rows_by_model(folder) -> dict[str, dict[str, list[dict]]]:
    """Return the rows of a catalog as a dict of dicts: path of the model → name of the table → rows."""
    rows_of_models: dict[str, dict[str, list[dict]]] = {}
    for table in files_of(folder):
        for row in rows_of(folder, table):
            rows_of_models.setdefault(row["model"], {}).setdefault(table, []).append(row)
    return rows_of_models


def rows_of(folder, table) -> list[dict]:
    """Return the valid rows of a table. Rows of models that the catalog lists as removed from a file are not valid."""
    rows = []
    for file, removed_models in files_of(folder).get(table, {}).items():
        rows += [row for row in pq.ParquetFile(file).read().to_pylist() if row["model"] not in removed_models]
    return rows


def parquet_files(folder) -> set:
    """Return the paths of all Parquet files below a folder, whether or not the catalog lists them."""
    return set(folder.rglob("*.parquet"))


def valid_files(folder) -> set:
    """Return the paths of the Parquet files that the catalog lists, including those with the states of models."""
    listed_paths = {Path(path) for files in files_of(folder).values() for path in files}
    return listed_paths | {folder / STATES / path.name for path in listed_paths}


# The functions that write a catalog: owner and name.
WRITE_FUNCTIONS = [(os, name) for name in ("mkdir", "unlink", "ftruncate", "fsync", "open", "write", "replace")]
WRITE_FUNCTIONS.append((pq.ParquetWriter, "write_table"))


def interrupt_at(number: int, callback) -> None:
    """Replace WRITE_FUNCTIONS in this process, so that `callback` is called at step `number` of catalog writes.

    A step is the time before a call of a function of WRITE_FUNCTIONS (of os.open, only if it may create a file), in the
    middle of os.write, or after write_table. The first step has the number 0.
    """
    steps = itertools.count()

    def count_step():
        if next(steps) == number:
            callback()

    def count_calls(function, condition=lambda *args: True):
        """Return the function with a step before each call whose arguments meet the condition."""

        def call(*args, **keywords):
            if condition(*args):
                count_step()
            return function(*args, **keywords)

        return call

    def write_in_halves(descriptor, data, write=os.write):
        count_step()
        count = write(descriptor, bytes(data)[: len(data) // 2])
        count_step()
        return count + write(descriptor, bytes(data)[count:])

    def write_table(writer, table, write=pq.ParquetWriter.write_table):
        count_step()
        write(writer, table)
        count_step()

    replacements = {
        "open": count_calls(os.open, lambda path, flags, *others: flags & os.O_CREAT),
        "write": write_in_halves,
        "write_table": write_table,
    }
    for owner, name in WRITE_FUNCTIONS:
        setattr(owner, name, replacements.get(name) or count_calls(getattr(owner, name)))
