"""Rules of security: records that readers of protobuf interpret differently, or that hide bytes.

If one reader checks a model with such records, another reader may run a different model.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from onnxwire.checker.registry import rule
from onnxwire.checker.wire_records import (
    GROUP,
    LONG_LENGTH,
    LONG_NUMBER,
    LONG_TAG,
    MERGED,
    MIXED_PACKING,
    ONEOF,
    REPEATED,
    UNKNOWN_CONTENT,
    WIDE_NUMBER,
    WIRE_TYPE,
    WireRecords,
)

if TYPE_CHECKING:
    from onnxwire.checker.facts import Facts, Finding

# By rule: the kind of the records that it reports, and the message.
_TEMPLATES = {
    "security-wire-field-repeated": (
        REPEATED,
        "field {field} occurs again in the same message: some readers use the first value and some the last; keep one",
    ),
    "security-wire-message-merged": (
        MERGED,
        "field {field} occurs again in the same message: protobuf merges both, and other readers use only the last; "
        "keep one",
    ),
    "security-wire-oneof-repeated": (
        ONEOF,
        "field {field} follows another member of its oneof: protobuf drops the earlier one, and other readers keep "
        "both; remove one of them",
    ),
    "security-wire-type": (
        WIRE_TYPE,
        "field {field} has a wrong wire type: protobuf skips it, and other readers misread the bytes after it; remove "
        "it",
    ),
    "security-wire-number-range": (
        WIDE_NUMBER,
        "a number of field {field} has more bits than its type, and readers differ in which bits they drop; write a "
        "number in range",
    ),
    "security-wire-tag-length": (
        LONG_TAG,
        "the tag of field {field} takes more bytes than it needs, which hides the tag from programs that search for "
        "bytes; write it in the shortest form",
    ),
    "security-wire-length-length": (
        LONG_LENGTH,
        "the length of field {field} takes more bytes than it needs; write it in the shortest form",
    ),
    "security-wire-number-length": (
        LONG_NUMBER,
        "a value of field {field} takes more bytes than it needs; write it in the shortest form",
    ),
    "security-wire-group": (
        GROUP,
        "field {field} is a group, a form of protobuf that ONNX does not use and that many readers reject; remove it",
    ),
    "security-wire-packed-parts": (
        MIXED_PACKING,
        "field {field} has a packed record beside other records, and some readers use only one of these records; store "
        "its numbers in one record",
    ),
    "security-wire-unknown-content": (
        UNKNOWN_CONTENT,
        "field {field} is not in the schema, and readers ignore its content of length {value:,} and save it again; "
        "remove it",
    ),
}


def _register(id: str, kind: int, template: str) -> None:
    """Register the rule that reports the records of a kind."""

    @rule(id)
    def find(facts: Facts) -> Iterator[Finding]:
        records = facts.derive(WireRecords)
        yield records.at(records.kind == kind, template)


for _id, (_kind, _template) in _TEMPLATES.items():
    _register(_id, _kind, _template)
