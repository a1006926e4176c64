"""Rules of security: records that readers of protobuf understand differently, so that a check of the model with one
reader says nothing about what another one runs."""

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
    ONEOF,
    PARTS,
    REPEATED,
    UNKNOWN_CONTENT,
    WIDE_NUMBER,
    WIRE_TYPE,
    WireRecords,
)

if TYPE_CHECKING:
    from onnxwire.checker.facts import Facts, Finding

_TEMPLATES = {
    "security-wire-field-repeated": (
        REPEATED,
        "field {field} occurs again in the same message: some readers use the first value and some the last; keep one",
    ),
    "security-wire-message-merged": (
        MERGED,
        "field {field} occurs again in the same message: protobuf merges the two, and others use the last one only; "
        "keep one",
    ),
    "security-wire-oneof-repeated": (
        ONEOF,
        "field {field} follows another member of its oneof: protobuf drops the first, and others keep both; keep one",
    ),
    "security-wire-type": (
        WIRE_TYPE,
        "field {field} has a wire type that is not its own: protobuf skips it, and others misread what follows; remove "
        "it",
    ),
    "security-wire-number-range": (
        WIDE_NUMBER,
        "the number of field {field}, {value:,}, has bits that its type has no room for, and readers differ in which "
        "they drop; write a number in range",
    ),
    "security-wire-tag-length": (
        LONG_TAG,
        "the tag of field {field} takes more bytes than it needs, which hides it from programs that search for bytes; "
        "write it shortest",
    ),
    "security-wire-length-length": (
        LONG_LENGTH,
        "the length of field {field} takes more bytes than it needs; write it shortest",
    ),
    "security-wire-number-length": (
        LONG_NUMBER,
        "a number of field {field} takes more bytes than it needs; write it shortest",
    ),
    "security-wire-group": (
        GROUP,
        "field {field} is a group, a form of protobuf that ONNX does not use and that many readers reject; remove it",
    ),
    "security-wire-packed-parts": (
        PARTS,
        "field {field} has a packed record beside other records, of which some readers use one only; store its numbers "
        "in one record",
    ),
    "security-wire-unknown-content": (
        UNKNOWN_CONTENT,
        "field {field} is not in the schema and carries {value:,} bytes, which readers ignore and save again; remove "
        "it",
    ),
}


def _register(id: str, kind: int, template: str) -> None:
    @rule(id)
    def find(facts: Facts) -> Iterator[Finding]:
        records = facts.derive(WireRecords)
        yield records.at(records.kind == kind, template)


for _id, (_kind, _template) in _TEMPLATES.items():
    _register(_id, _kind, _template)
