"""Rules of attributes: names, types, values, documentation, and references to the parameters of functions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from onnxwire.checker._payload_scan import measure_bytes, measure_strings
from onnxwire.checker.facts import EMPTY, Facts, Finding, Sheet, is_one_of, lookup, repeats, true_rows, unique
from onnxwire.checker.limits import MAX_SCANNED_BYTES, MAX_TOTAL_TEXT_BYTES
from onnxwire.checker.registry import rule
from onnxwire.checker.scopes import Scopes
from onnxwire.engine.record_reader import bytes_at
from onnxwire.messages import AttributeProto

# The value fields, each with the attribute type that uses it.
VALUES = {
    "f": 1, "i": 2, "s": 3, "t": 4, "g": 5, "floats": 6, "ints": 7, "strings": 8, "tensors": 9, "graphs": 10,
    "sparse_tensor": 11, "sparse_tensors": 12, "tp": 13, "type_protos": 14,
}  # fmt: skip
# By number of the attribute type: the name of the type, and the value field.
NAMES = {number: name for name, number in AttributeProto.AttributeType.items() if number}
FIELDS = {number: field for field, number in VALUES.items()}
# Types whose value is one message, and the field of the value.
MESSAGE_FIELDS = {number: FIELDS[number] for number in (4, 5, 11, 13)}
_LIST_TYPES = (6, 7, 8, 9, 10, 12, 14)

_MAX_PAIRWISE_ATTRIBUTES = 8  # number of attributes of a node up to which they are compared pairwise

RULES = {
    "AttributeProto": {
        "attribute-name-present": (lambda attribute: attribute.name == EMPTY, "the attribute has no name; give it one"),
        # `function-attribute-proto-has-value` reports parameter defaults that lack a type.
        "attribute-type-present": (
            lambda attribute: attribute.derive(is_untyped) & ~_is_default(attribute),
            "attribute {name!r} has no type; set `type` to that of its value",
        ),
        "attribute-type-valid": [
            (
                lambda attribute: attribute.has("type") & (attribute.type == 0),
                "the type of attribute {name!r} is UNDEFINED; set `type` to that of its value",
            ),
            (
                lambda attribute: unique(attribute.derive(unknown_types)[0]),
                "the type of attribute {name!r} is {number}, which is not a type; set `type` to that of its value",
                {"number": lambda attribute: lookup(attribute.n, *attribute.derive(unknown_types))},
            ),
        ],
        # `attribute-single-value-field` reports several values.
        "attribute-type-matches-field": (
            lambda attribute: (
                (attribute.derive(ValueFields).count == 1)
                & (attribute.type != 0)
                & (attribute.type != attribute.derive(ValueFields).kind)
            ),
            "attribute {name!r} has type {type_name}, and its value is in `{field}`; "
            "set the type to {kind}, or move the value",
            {
                "type_name": lambda attribute: attribute_type_names(attribute.type),
                "field": lambda attribute: attribute.derive(ValueFields).field_of,
                "kind": lambda attribute: attribute_type_names(attribute.derive(ValueFields).kind),
            },
        ),
        "attribute-single-value-field": (
            lambda attribute: attribute.derive(ValueFields).count > 1,
            "attribute {name!r} has values in {fields}; keep the one that its type names",
            {"fields": lambda attribute: attribute.derive(ValueFields).fields_of},
        ),
        # `function-attribute-proto-has-value` reports parameter defaults that lack a value.
        "attribute-message-value-present": [
            (
                lambda attribute, kind=kind: (
                    _lacks_value(attribute) & ~_is_default(attribute) & (attribute.type == kind)
                ),
                f"attribute {{name!r}} has type {NAMES[kind]} and no value; set `{field}`",
            )
            for kind, field in MESSAGE_FIELDS.items()
        ],
        # An absent number is read as 0, an absent string as empty.
        "attribute-scalar-value-present": [
            (
                lambda attribute, kind=kind: _lacks_value(attribute) & (attribute.type == kind),
                f"attribute {{name!r}} has type {NAMES[kind]} and no value, which is read as {default}; "
                f"set `{FIELDS[kind]}`",
            )
            for kind, default in ((1, "0"), (2, "0"), (3, '""'))
        ],
        "attribute-list-may-be-empty": (
            lambda attribute: _lacks_value(attribute) & is_one_of(attribute.type, _LIST_TYPES),
            "attribute {name!r} has type {type_name} and no entries, which is an empty list; "
            "add entries if that is not intended",
            {"type_name": lambda attribute: attribute_type_names(attribute.type)},
        ),
        "attribute-value-absent-ir1": (
            lambda attribute: _lacks_value(attribute) & attribute.derive(is_untyped),
            "attribute {name!r} has neither type nor value; set both",
        ),
        # `function-attribute-proto-has-value` reports references in defaults.
        "attribute-ref-only-in-function": (
            lambda attribute: (attribute.ref_attr_name != EMPTY) & _is_outside_functions(attribute),
            "attribute {name!r} refers to the parameter {ref_attr_name!r} of a function, but is not in a function; "
            "give it a value of its own",
        ),
        "attribute-ref-no-value": (
            lambda attribute: (attribute.ref_attr_name != EMPTY) & (attribute.derive(ValueFields).count > 0),
            "attribute {name!r} is a reference to {ref_attr_name!r} and has a value as well; remove one of the two",
        ),
        "attribute-sparse-before-ir6": (
            lambda attribute: _is_of_type(attribute, 11, 12),
            "attribute {name!r} is for sparse tensors, which need IR version 6, but the IR version is "
            "{facts.ir_version}",
        ),
        "attribute-type-proto-before-ir8": (
            lambda attribute: _is_of_type(attribute, 13, 14),
            "attribute {name!r} is for TypeProto messages, which need IR version 8, but the IR version is "
            "{facts.ir_version}",
        ),
    },
}


class ValueFields:
    """The value fields that attributes have. `facts.derive(ValueFields)` returns the object.

    by_field: a bool column for each value field; an empty list is not a value. count: the number of value fields that
    each attribute has. kind: the attribute type of the field, if an attribute has exactly one.
    """

    def __init__(self, facts: Facts) -> None:
        attributes = facts.AttributeProto
        self.by_field = {}
        self.count = np.zeros(attributes.n, np.uint8)
        self.kind = np.zeros(attributes.n, np.uint8)
        for field, number in VALUES.items():
            if field in ("floats", "ints"):
                has_value = attributes.records(field)[3] > 0  # an empty packed record has no entries
            elif field.endswith("s") and field != "s":
                has_value = getattr(attributes, field) > 0
            else:
                has_value = attributes.has(field)
            self.by_field[field] = has_value
            self.count += has_value
            self.kind += has_value * np.uint8(number)

    def field_of(self, row: int) -> str:
        """Return the name of an attribute's only value field."""
        return FIELDS[int(self.kind[row])]

    def fields_of(self, row: int) -> str:
        """Return the names of an attribute's value fields."""
        return ", ".join(f"`{field}`" for field, column in self.by_field.items() if column[row])


def unknown_types(facts: Facts) -> tuple[Any, Any]:
    """Return the attributes whose type number is not in the enum: rows, numbers."""
    unknown, attributes = facts.unknown_fields, facts.AttributeProto
    records = true_rows(
        unknown.under("AttributeProto") & (unknown.number == AttributeProto.TYPE_FIELD_NUMBER) & (unknown.wire == 0)
    )
    records = records[~attributes.has("type")[unknown.row[records]]]
    return unknown.row[records], unknown.value[records]


def is_untyped(facts: Facts) -> Any:
    """Return whether each attribute has no type, not even an unknown number."""
    result = ~facts.AttributeProto.has("type")
    result[facts.derive(unknown_types)[0]] = False
    return result


def parameters(facts: Facts) -> tuple[Any, Any]:
    """Return all attribute parameters of functions: rows of FunctionProto, ids of names."""
    parameters_without_default, attributes = facts.lists("FunctionProto.attribute"), facts.AttributeProto
    rows = true_rows(attributes.under("FunctionProto.attribute_proto"))
    return (
        np.concatenate([parameters_without_default.parent, attributes.parent[rows]]),
        np.concatenate([parameters_without_default.value, attributes.name[rows]]),
    )


def _is_default(attributes: Sheet) -> Any:
    """Return whether each attribute is the default of a function's parameter."""
    return attributes.under("FunctionProto.attribute_proto")


def parameters_with_type(facts: Facts) -> tuple[Any, tuple[Any, Any]]:
    """Return the attribute parameters whose default has a type: rows, and (rows of FunctionProto, ids of names)."""
    attributes = facts.AttributeProto
    defaults = true_rows(_is_default(attributes) & (attributes.type != 0))
    return defaults, (attributes.parent[defaults], attributes.name[defaults])


def attribute_type_names(kinds: Any) -> Any:
    """Return the names of a column of attribute types, as a function of the row."""
    return lambda row: NAMES[int(kinds[row])]


def _lacks_value(attributes: Sheet) -> Any:
    """Return whether each attribute has neither a value nor a reference."""
    return (attributes.derive(ValueFields).count == 0) & (attributes.ref_attr_name == EMPTY)


def _is_of_type(attributes: Sheet, *numbers: int) -> Any:
    """Return whether each attribute has one of the types, or a value of such a type."""
    result = is_one_of(attributes.type, numbers)
    for number in numbers:
        result |= attributes.derive(ValueFields).by_field[FIELDS[number]]
    return result


def _is_outside_functions(attributes: Sheet) -> Any:
    """Return whether the node of each attribute is in no function."""
    if attributes.facts.root in ("NodeProto", "AttributeProto"):
        return np.zeros(attributes.n, bool)  # the enclosing graph or function is unknown
    nodes = attributes.parent_under("NodeProto.attribute")
    return np.append(attributes.derive(Scopes).node_function < 0, False)[nodes]


@rule("attribute-name-unique", "NodeProto", "AttributeProto")
def name_unique(facts: Facts) -> Iterator[Finding]:
    """Yield attributes that have the name of an earlier one of their node.

    The attributes of a node are consecutive rows, and most nodes have few of them, so pairwise comparison takes a tenth
    of the time of a sort.
    """
    attributes, counts = facts.AttributeProto, facts.NodeProto.attribute
    rows = true_rows(attributes.under("NodeProto.attribute") & (attributes.name != EMPTY))
    parents, names = attributes.parent[rows], attributes.name[rows]
    is_repeated = np.zeros(len(rows), bool)
    for distance in range(1, min(int(counts.max(initial=0)), _MAX_PAIRWISE_ATTRIBUTES)):
        is_same_name = (parents[distance:] == parents[:-distance]) & (names[distance:] == names[:-distance])
        is_repeated[distance:] |= is_same_name
    rows_of_large_nodes = true_rows(counts[parents] > _MAX_PAIRWISE_ATTRIBUTES)
    is_repeated[rows_of_large_nodes] = repeats(parents[rows_of_large_nodes], names[rows_of_large_nodes])
    yield attributes.at(
        rows[is_repeated], "another attribute of the node has the same name, {name!r}; keep one of them"
    )


@rule("attribute-name-vs-values", "NodeProto", "AttributeProto")
def name_vs_values(facts: Facts) -> Iterator[Finding]:
    """Yield attributes that have the name of an input or output of their node."""
    attributes = facts.AttributeProto
    inputs, outputs = facts.lists("NodeProto.input"), facts.lists("NodeProto.output")
    is_name = np.zeros(facts.columns.text_count(), bool)
    is_name[attributes.name[attributes.under("NodeProto.attribute")]] = True
    is_name[EMPTY] = False
    parents, names = [], []
    for elements in (inputs, outputs):
        matching_elements = true_rows(is_name[elements.value])
        parents.append(elements.parent[matching_elements])
        names.append(elements.value[matching_elements])
    values = np.concatenate(parents), np.concatenate(names)
    if not len(values[0]):
        return
    rows = true_rows(attributes.under("NodeProto.attribute") & (attributes.name != EMPTY))
    positions = facts.join((attributes.parent[rows], attributes.name[rows]), values)
    yield attributes.at(
        rows[positions >= 0], "attribute {name!r} has the name of an input or output of the node; rename one of them"
    )


@rule("attribute-string-utf8", "AttributeProto")
def string_utf8(facts: Facts) -> Iterator[Finding]:
    """Yield attributes whose strings are not UTF-8.

    The first 64 KiB of `s` and the first 1 MiB of `strings` are checked; see `measure_strings`. Of all `s` that are not
    ASCII, at most MAX_TOTAL_TEXT_BYTES bytes are checked.
    """
    attributes = facts.AttributeProto
    starts, lengths = attributes.span("s")
    has_s, no_ends = attributes.has("s"), np.zeros(attributes.n, np.int64)  # 0: the last byte is not requested
    if has_s.any():
        max_bytes = np.frombuffer(
            measure_bytes(facts.columns, "AttributeProto", "s", has_s, no_ends), np.uint8, attributes.n
        )
        rows = true_rows(max_bytes >= 0x80)
        rows = rows[np.cumsum(np.minimum(lengths[rows], MAX_SCANNED_BYTES)) <= MAX_TOTAL_TEXT_BYTES]
        yield attributes.at(
            [row for row in rows.tolist() if not _is_utf8(facts, int(starts[row]), int(lengths[row]))],
            "the string of attribute {name!r} is not valid UTF-8; write it as UTF-8, or use another type for bytes",
        )
    has_strings = attributes.strings > 0
    if has_strings.any():
        first_invalid = np.frombuffer(
            measure_strings(facts.columns, "AttributeProto", "strings", has_strings), np.int64, attributes.n
        )
        yield attributes.at(
            first_invalid >= 0,
            "strings[{index}] of attribute {name!r} is not valid UTF-8; write it as UTF-8, or use another type for "
            "bytes",
            index=first_invalid,
        )


def _is_utf8(facts: Facts, start: int, length: int) -> bool:
    """Return whether the first MAX_SCANNED_BYTES bytes of a string are UTF-8; the last character may be cut off."""
    data = bytes_at(facts.document, start, start + min(length, MAX_SCANNED_BYTES))
    try:
        data.decode()
    except UnicodeDecodeError as error:
        return length > MAX_SCANNED_BYTES and error.reason == "unexpected end of data"
    return True


@rule("attribute-doc-string-present", "AttributeProto")
def doc_string_present(facts: Facts) -> Iterator[Finding]:
    """Yield only the first attribute without documentation, and the number of the others: few attributes have any."""
    attributes = facts.AttributeProto
    rows = true_rows(attributes.doc_string == EMPTY)
    count = len(rows)
    subject = f"attribute {{name!r}} and {count - 1:,} more have" if count > 1 else "attribute {name!r} has"
    yield attributes.at(rows[:1], f"{subject} no doc_string; describe {'them' if count > 1 else 'it'}")


def references(facts: Facts) -> tuple[Any, Any]:
    """Return the references of nodes in functions and their nested graphs: rows of AttributeProto, rows of
    FunctionProto."""
    attributes = facts.AttributeProto
    rows = true_rows(attributes.under("NodeProto.attribute") & (attributes.ref_attr_name != EMPTY))
    functions = facts.derive(Scopes).node_function[attributes.parent[rows]]
    return rows[functions >= 0], functions[functions >= 0]


@rule("attribute-ref-declared", "AttributeProto", "FunctionProto")
def ref_declared(facts: Facts) -> Iterator[Finding]:
    """Yield references to parameters that the enclosing function does not declare."""
    attributes = facts.AttributeProto
    rows, functions = facts.derive(references)
    positions = facts.join((functions, attributes.ref_attr_name[rows]), facts.derive(parameters))
    yield attributes.at(
        rows[positions < 0],
        "attribute {name!r} is a reference to {ref_attr_name!r}, which the function does not declare; "
        "add it to the function's `attribute`",
    )


@rule("attribute-ref-type-match", "AttributeProto", "FunctionProto")
def ref_type_match(facts: Facts) -> Iterator[Finding]:
    """Yield references whose type differs from the type of the parameter's default."""
    attributes = facts.AttributeProto
    rows, functions = facts.derive(references)
    defaults, keys = facts.derive(parameters_with_type)
    positions = facts.join((functions, attributes.ref_attr_name[rows]), keys)
    rows, matching_defaults = rows[positions >= 0], defaults[positions[positions >= 0]]
    expected = lookup(attributes.n, rows, attributes.type[matching_defaults], 0)
    yield attributes.at(
        rows[(attributes.type[rows] != 0) & (attributes.type[rows] != expected[rows])],
        "attribute {name!r} has type {type_name}, and the default of {ref_attr_name!r}, which it refers to, has type "
        "{expected}; make them agree",
        type_name=attribute_type_names(attributes.type),
        expected=attribute_type_names(expected),
    )
