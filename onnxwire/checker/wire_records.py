"""Lists the records that readers of protobuf interpret differently, as a table: the results of `_wire_audit.pyx`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from onnxwire.checker._wire_audit import audit_wire
from onnxwire.checker.facts import Table

if TYPE_CHECKING:
    from onnxwire.checker.facts import Facts, Rows

# Kinds of anomalies: a tag, length or number in more bytes than it needs; a number with more bits than its type; a
# field, message or member of a oneof that occurs again; a wrong wire type; an unknown length-delimited field, unless it
# is padding of zeros; a group; a packed record beside other records of the field. `Kind` in _wire_audit.pyx has the
# same numbers.
(
    LONG_TAG, LONG_LENGTH, LONG_NUMBER, WIDE_NUMBER, REPEATED, MERGED, ONEOF, WIRE_TYPE, UNKNOWN_CONTENT, GROUP,
    MIXED_PACKING,
) = range(1, 12)  # fmt: skip
_ANOMALY = np.dtype(
    [("start", "i8"), ("value", "i8"), ("row", "i4"), ("number", "i4"), ("sheet", "i2"), ("kind", "i2")],
    align=True,
)


class WireRecords(Table):
    """A table with a row for each anomaly. `facts.derive(WireRecords)` returns the object.

    start: the offset of the record's tag. value: the raw value of the record, or its length in bytes. sheet, row: the
    message that contains the record, as an index into `sheet_names` and a row. number: the field number. kind:
    LONG_TAG to MIXED_PACKING.
    """

    type_name = "wire records"

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        records = np.frombuffer(audit_wire(facts.columns), _ANOMALY)
        self.n = len(records)
        self.start, self.value, self.row = records["start"], records["value"], records["row"]
        self.number, self.sheet, self.kind = records["number"], records["sheet"], records["kind"]
        self._names: dict[tuple[int, int], str] = {}

    def cell(self, name: str, row: int) -> str | int:
        """Return one value of a column; the column `field` is the record's field as text."""
        if name == "field":
            return self._field(int(self.sheet[row]), int(self.number[row]))
        return int(getattr(self, name)[row])

    def _field(self, sheet: int, number: int) -> str:
        """Return a field as text: its name in backticks, or its number if it is unknown."""
        key = sheet, number
        if key not in self._names:
            fields = self.facts.columns.field_names_by_number(self.facts.columns.sheet_names[sheet])
            self._names[key] = f"`{fields[number]}`" if number in fields else f"number {number}"
        return self._names[key]

    def path(self, row: int) -> str:
        """Return the path of the message that contains a record."""
        return self.facts.path(self.facts.columns.sheet_names[self.sheet[row]], int(self.row[row]))

    def offset_of(self, rows: Rows | slice) -> Rows:
        """Return the offsets of the records."""
        return self.start[rows]
