"""Small models, the content of their catalogs, and interrupts of catalog writes, for the tests of catalogs."""

from __future__ import annotations

import itertools
import os

import pyarrow.parquet as pq
from graphs import value
from onnx import helper

from onnxwire.catalog.dataset import files_of


def small_model(number: int, op_type: str = "Relu") -> bytes:
    """Return a model with one node, whose type distinguishes versions of the model."""
    node = helper.make_node(op_type, ["x"], ["y"], f"node {number}")
    graph = helper.make_graph([node], f"g{number}", [value("x", 3)], [value("y", 3)])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=10).SerializeToString()


def rows_by_model(folder) -> dict[str, dict[str, list[dict]]]:
    """Return the rows of a catalog by model and table."""
    found: dict[str, dict[str, list[dict]]] = {}
    for table, files in files_of(folder).items():
        for file in files:
            for row in pq.ParquetFile(file).read().to_pylist():
                found.setdefault(row["model"], {}).setdefault(table, []).append(row)
    return found


def parquet_files(folder) -> set:
    """Return the paths of all Parquet files below a folder, whether or not the catalog lists them."""
    return set(folder.rglob("*.parquet"))


STEPS = [(os, name) for name in ("mkdir", "unlink", "ftruncate", "fsync", "open", "write")] + [(pq, "write_table")]


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

    def write_table(table, file, write=pq.write_table, **options):
        step()
        file.write(b"PAR1")
        file.flush()
        step()
        file.seek(0)
        write(table, file, **options)

    instead = {"open": stepping(os.open, lambda path, flags, *rest: flags & os.O_CREAT), "write": writing}
    for owner, name in STEPS:
        wrapped = write_table if owner is pq else instead.get(name) or stepping(getattr(owner, name))
        setattr(owner, name, wrapped)
