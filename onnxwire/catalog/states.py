"""The table `_states` of a catalog: the models of a group, each with its state when it was read and its row counts.

Only runs of `build` read it, not SQL queries. A group is the models whose rows are in the same Parquet files. A row has
the model's name as `model_text` writes it, and a JSON text [ENTRY, COUNTS]: a `State` or `Failure` as a list, and the
number of the model's rows in each table, in the order of TABLE_NAMES. Like the journal, it may come from an attacker.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from onnxwire.arrow.many import make_array, model_text
from onnxwire.catalog.journal import as_count, as_dict, as_list, as_text, refuse, refuse_constant
from onnxwire.catalog.models import Failure, State
from onnxwire.catalog.read import TABLE_NAMES

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from onnxwire.catalog.models import Entry

STATES = "_states"  # readers of data sets ignore names that begin with an underscore


class ModelRecord(NamedTuple):
    """A model of a catalog: the id of its group, its state or failure, and its number of rows by table."""

    group: str
    entry: Entry
    rows: dict[str, int]


def states_table(models: Mapping[str, Entry], tables: Mapping[str, pa.Table]) -> pa.Table:
    """Return the table of the states of some models.

    models: the state or failure of each model by its name. tables: the rows of the models, which are counted.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    counts = {
        table: {entry["values"]: entry["counts"] for entry in pc.value_counts(tables[table]["model"]).to_pylist()}
        for table in TABLE_NAMES
        if table in tables
    }
    names = list(map(model_text, models))
    states = [
        json.dumps([entry, [counts.get(table, {}).get(name, 0) for table in TABLE_NAMES]], separators=(",", ":"))
        for name, entry in zip(names, models.values(), strict=True)
    ]
    return pa.table({"model": make_array(names, "string"), "state": make_array(states, "string")})


def decode_state(group: str, text: str) -> ModelRecord:
    """Return the record of a model from the text of its state. Raises ValueError or RecursionError for a damaged text.

    group: the id of the model's group.
    """
    entry, counts = as_list(json.loads(text, parse_constant=refuse_constant), 2)
    # zip is not strict, because an older catalog may have fewer tables.
    rows = dict(zip(TABLE_NAMES, map(as_count, as_list(counts)), strict=False))
    return ModelRecord(group, _decode_entry(entry), rows)


def _decode_entry(value: object) -> Entry:
    """Return the State or Failure that a JSON value describes. Raises ValueError."""
    if isinstance(value, list) and len(value) == len(Failure._fields):
        return Failure(*map(as_text, value))
    size, mark, hashed, checked, files = as_list(value, len(State._fields))
    if type(hashed) is not bool or type(checked) is not bool:
        refuse("a flag of a state is neither true nor false")
    states = {
        _check_location(location): None if state is None else _decode_file_state(state)
        for location, state in as_dict(files).items()
    }
    size, mark = _decode_file_state([size, mark])
    return State(size, mark, hashed, checked, states)


def _check_location(location: str) -> str:
    """Return a location. Raises ValueError for a surrogate that does not represent a byte of a path."""
    location.encode("utf-8", "surrogateescape")  # raises UnicodeEncodeError, a ValueError
    return location


def _decode_file_state(value: object) -> list[Any]:
    """Return the FileState that a JSON value describes. Raises ValueError."""
    size, mark = as_list(value, 2)
    is_time = type(mark) is int and -1 << 63 <= mark < 1 << 63
    return [as_count(size), mark if mark is None or is_time else as_text(mark)]
