"""Small models, the content of their catalogs, and interrupts of catalog writes, for the tests of catalogs."""

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
    """Return a model with one node, whose type distinguishes versions of the model."""
    node = helper.make_node(op_type, ["x"], ["y"], f"node {number}")
    graph = helper.make_graph([node], f"g{number}", [value("x", 3)], [value("y", 3)])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=10).SerializeToString()


def rows_by_model(folder) -> dict[str, dict[str, list[dict]]]:
    """Return the rows of a catalog by model and table."""
    found: dict[str, dict[str, list[dict]]] = {}
    for table in files_of(folder):
        for row in rows_of(folder, table):
            found.setdefault(row["model"], {}).setdefault(table, []).append(row)
    return found


def rows_of(folder, table) -> list[dict]:
    """Return the rows of a table that count."""
    rows = []
    for file, removed in files_of(folder).get(table, {}).items():
        rows += [row for row in pq.ParquetFile(file).read().to_pylist() if row["model"] not in removed]
    return rows


def parquet_files(folder) -> set:
    """Return the paths of all Parquet files below a folder, whether or not the catalog lists them."""
    return set(folder.rglob("*.parquet"))


def valid_files(folder) -> set:
    """Return the paths of the Parquet files that the catalog lists, including those with the states of models."""
    listed = {Path(path) for files in files_of(folder).values() for path in files}
    return listed | {folder / STATES / path.name for path in listed}


STEPS = [(os, name) for name in ("mkdir", "unlink", "ftruncate", "fsync", "open", "write", "replace")]
STEPS.append((pq.ParquetWriter, "write_table"))


def strike_at(number: int, act) -> None:
    """Call `act` at step `number` of the writes of this process from now on: before a call or in the middle of one."""
    steps = itertools.count()

    def step():
        if next(steps) == number:
            act()

    def stepping(function, when=lambda *args: True):
        def call(*args, **keywords):
            if when(*args):
                step()
            return function(*args, **keywords)

        return call

    def writing(descriptor, data, write=os.write):
        step()
        half = write(descriptor, bytes(data)[: len(data) // 2])
        step()
        return half + write(descriptor, bytes(data)[half:])

    def write_table(writer, table, write=pq.ParquetWriter.write_table):
        step()
        write(writer, table)
        step()

    instead = {
        "open": stepping(os.open, lambda path, flags, *rest: flags & os.O_CREAT),
        "write": writing,
        "write_table": write_table,
    }
    for owner, name in STEPS:
        setattr(owner, name, instead.get(name) or stepping(getattr(owner, name)))
