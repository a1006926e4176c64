"""Rules of the model as a whole, of unknown fields, and of fields that many message types have."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from onnxwire.checker.facts import (
    EMPTY,
    HAS_ANGLE_BRACKET,
    IDENTIFIER,
    LATEST_IR_VERSION,
    UTF8,
    Facts,
    Finding,
    Table,
    UnknownFields,
    true_rows,
)
from onnxwire.checker.registry import rule
from onnxwire.io.save import INLINE_LIMIT

# Patterns are strings, which are compiled when a text is tested for the first time.
_REVERSE_DNS = r"[A-Za-z][A-Za-z0-9-]*(\.[A-Za-z0-9_-]+)+"
_MARKUP = r"</?[A-Za-z][A-Za-z0-9]*(\s[^<>]*)?/?>|<!--"
_NO_IDENTIFIER = "the name {name!r} is not a C90 identifier; use letters, digits and _, and do not begin with a digit"
_NEEDS_IR_11 = "device configurations need IR version 11, but the IR version is {facts.ir_version}"

# Numbers of withdrawn fields, by message type.
_RESERVED: dict[str, tuple[int, ...]] = {
    "AttributeProto": (12, 16, 17, 18, 19),
    "GraphProto": (3, 4, 6, 7, 8, 9),
    "FunctionProto": (2, 3),
    "TypeProto.Opaque": (3,),
}
# Numbers of fields of closed enums, by message type. A value outside the enum makes the record an unknown field, and
# other rules report the value.
_ENUM_FIELDS: dict[str, tuple[int, ...]] = {"AttributeProto": (20,), "TensorProto": (14,), "OperatorProto": (3,)}

RULES = {
    "ModelProto": {
        "model-ir-version-present": (
            lambda model: model.ir_version == 0,
            "ir_version is missing; set it to the version the model is written for",
        ),
        "model-ir-version-known": (
            lambda model: (model.ir_version < 0) | (model.ir_version > LATEST_IR_VERSION),
            f"ir_version {{ir_version}} is not one of 1 to {LATEST_IR_VERSION}; "
            "use a version that exists, or a newer onnxwire",
        ),
        "model-ir-version-undated": (
            lambda model: model.ir_version == 14,
            "IR version 14 has no publication date yet; its definition may still change",
        ),
        "model-graph-present": (lambda model: model.graph < 0, "the model has no graph; set `graph`"),
        "model-producer-present": [
            (
                lambda model: model.producer_name == EMPTY,
                "producer_name is missing; name the tool that wrote the model",
            ),
            (
                lambda model: (model.producer_name != EMPTY) & (model.producer_version == EMPTY),
                "producer_version is missing; give the version of {producer_name!r}",
            ),
        ],
        "model-domain-present": (
            lambda model: model.domain == EMPTY,
            "domain is missing; set a reverse-DNS name such as com.example",
        ),
        "model-version-scheme": (
            lambda model: model.model_version < 0,
            "model_version {model_version} is negative, so it is neither a counter nor a packed semantic version",
        ),
        "model-protobuf-size": (
            lambda model: model.length > INLINE_LIMIT,
            f"the model has {{length:,}} bytes, and protobuf-based tools read {INLINE_LIMIT:,} at most; "
            "move weights to external data",
        ),
    },
    ("ModelProto", "ModelProto.domain"): {
        "model-domain-reverse-dns": (
            lambda model: (model.domain != EMPTY) & ~model.facts.matching(is_reverse_dns, model.domain),
            "domain {domain!r} is not a reverse-DNS name; write it like com.example",
        ),
    },
    "UnknownFields": {
        "model-unknown-fields": (
            lambda record: ~_has_number(record, _RESERVED) & ~(_has_number(record, _ENUM_FIELDS) & (record.wire == 0)),
            "field {number} with wire type {wire} is not in the schema; it is preserved but not interpreted",
        ),
        "model-reserved-fields": (
            lambda record: _has_number(record, _RESERVED) & ~_is_early_function_field(record),
            "field {number} was withdrawn from the schema; remove it",
        ),
    },
    "GraphProto": {"name-c90-identifier": (lambda graph: _is_invalid_name(graph, graph.name), _NO_IDENTIFIER)},
    "NodeProto": {"name-c90-identifier": (lambda node: _is_invalid_name(node, node.name), _NO_IDENTIFIER)},
    "AttributeProto": {
        "name-c90-identifier": (lambda attribute: _is_invalid_name(attribute, attribute.name), _NO_IDENTIFIER)
    },
    "TensorProto": {"name-c90-identifier": (lambda tensor: _is_invalid_name(tensor, tensor.name), _NO_IDENTIFIER)},
    "ValueInfoProto": {
        "name-c90-identifier": (
            lambda info: _is_invalid_name(info, info.name) & info.under("GraphProto.input"),
            _NO_IDENTIFIER,
        )
    },
    # The name of a node output is reported at the node that produces it, not at each use.
    "NodeProto.output": {
        "name-c90-identifier": (
            lambda output: _is_invalid_name(output, output.value),
            _NO_IDENTIFIER.replace("name!r", "value!r"),
        )
    },
    "FunctionProto": {
        "model-functions-before-ir8": (
            lambda function: function.under("ModelProto.functions"),
            "functions need IR version 8, but the IR version is {facts.ir_version}; "
            "raise ir_version or inline the function",
        ),
    },
    "TrainingInfoProto": {
        "model-training-info-before-ir7": (
            lambda info: True,
            "training_info needs IR version 7, but the IR version is {facts.ir_version}",
        ),
    },
    "DeviceConfigurationProto": {"model-configuration-before-ir11": (lambda configuration: True, _NEEDS_IR_11)},
    "NodeDeviceConfigurationProto": {"model-configuration-before-ir11": (lambda configuration: True, _NEEDS_IR_11)},
}


def is_reverse_dns(domain: str) -> bool:
    """Return whether a domain is a dotted name, such as com.example.ops."""
    return re.fullmatch(_REVERSE_DNS, domain) is not None


def _has_number(records: UnknownFields, numbers: dict[str, tuple[int, ...]]) -> Any:
    """Return whether the number of each record is one of those in `numbers` for its message type."""
    result = np.zeros(records.n, bool)
    for name, type_numbers in numbers.items():
        result |= records.under(name) & np.isin(records.number, type_numbers)
    return result


def _is_early_function_field(records: UnknownFields) -> Any:
    """Return whether each record is in a function and the IR version allows since_version and status (7 or less)."""
    is_early = (records.facts.ir_version or LATEST_IR_VERSION) <= 7
    return records.under("FunctionProto") & is_early


def _are_invalid_names(facts: Facts) -> Any:
    """Return whether each string, by id, is not an identifier of C90; the empty string is accepted."""
    is_invalid = facts.traits & IDENTIFIER == 0
    is_invalid[EMPTY] = False
    return is_invalid


def _is_invalid_name(table: Table, names: Any) -> Any:
    """Return whether each string of a column of ids is neither empty nor an identifier of C90."""
    return table.derive(_are_invalid_names)[names]


@rule("model-strings-utf8")
def strings_utf8(facts: Facts) -> Iterator[Finding]:
    """Yield strings that are not UTF-8."""
    is_invalid = facts.traits & UTF8 == 0
    is_invalid[EMPTY] = False
    if not is_invalid.any():
        return
    for sheet, field, ids in _text_columns(facts):
        yield sheet.at(is_invalid[ids], f"{field} {{{field}!r}} is not valid UTF-8; write it as UTF-8")
    for elements in _text_lists(facts):
        yield elements.at(is_invalid[elements.value], "{value!r} is not valid UTF-8; write it as UTF-8")


def _text_columns(facts: Facts) -> Iterator[tuple[Any, str, Any]]:
    """Yield every singular string field of each type in the document: its sheet, its name, and its column of ids."""
    for name in facts.columns.sheet_names:
        sheet = facts[name]
        for field in sheet.fields if sheet.n else ():
            if facts.columns.field_column(name, field)[1] == "TEXT":
                yield sheet, field, getattr(sheet, field)


def _text_lists(facts: Facts) -> Iterator[Any]:
    """Yield the list of every repeated string field of the document."""
    for name in facts.columns.sheet_names:
        sheet = facts[name]
        for field in sheet.fields if sheet.n else ():
            if facts.columns.is_text_list(name, field):
                yield facts.lists(f"{name}.{field}")


@rule("doc-string-no-html")
def doc_string_no_html(facts: Facts) -> Iterator[Finding]:
    """Yield messages whose doc_string has HTML or other markup with tags."""
    has_bracket = (facts.traits & HAS_ANGLE_BRACKET).astype(bool)
    if not has_bracket.any():
        return
    for sheet, field, ids in _text_columns(facts):
        if field == "doc_string" and has_bracket[ids].any():
            rows = true_rows(has_bracket[ids])
            rows = rows[facts.matching(lambda text: re.search(_MARKUP, text) is not None, ids[rows])]
            yield sheet.at(rows, "doc_string has HTML or other markup; write plain text or Markdown")
