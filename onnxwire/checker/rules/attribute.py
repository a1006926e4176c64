"""Rules of attributes: their names, types and values, and references to the parameters of functions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from onnxwire.checker._payload_scan import measure_bytes, measure_strings
from onnxwire.checker.facts import EMPTY, Facts, Finding, lookup, repeats
from onnxwire.checker.limits import LOOK, TEXT_IN_ALL
from onnxwire.checker.registry import rule
from onnxwire.checker.scopes import Scopes
from onnxwire.engine.record_reader import bytes_at
from onnxwire.messages import AttributeProto

# The value fields, each with the type that names it.
VALUES = {
    "f": 1, "i": 2, "s": 3, "t": 4, "g": 5, "floats": 6, "ints": 7, "strings": 8, "tensors": 9, "graphs": 10,
    "sparse_tensor": 11, "sparse_tensors": 12, "tp": 13, "type_protos": 14,
}  # fmt: skip
NAMES = {number: name for name, number in AttributeProto.AttributeType.items() if number}
FIELDS = {number: field for field, number in VALUES.items()}
# Types whose value is one message, and the field that holds it.
MESSAGE_FIELDS = {number: FIELDS[number] for number in (4, 5, 11, 13)}
_SCALARS = (1, 2, 3)
_LISTS = (6, 7, 8, 9, 10, 12, 14)
_SPARSE = (11, 12)
_TYPES = (13, 14)

_FEW = 8  # attributes of a node


class Populated:
    """Which value fields attributes have; take it with `facts.derive(Populated)`.

    by_field: a bool column a field; a list counts where it has entries. count: how many fields each attribute has.
    kind: the type of the field, where it is one.
    """

    def __init__(self, facts: Facts) -> None:
        attributes = facts.AttributeProto
        self.by_field = {}
        self.count = np.zeros(attributes.n, np.uint8)
        self.kind = np.zeros(attributes.n, np.uint8)
        for field, number in VALUES.items():
            if field in ("floats", "ints"):
                populated = attributes.records(field)[3] > 0  # an empty packed record has no entries
            elif field.endswith("s") and field != "s":
                populated = getattr(attributes, field) > 0
            else:
                populated = attributes.has(field)
            self.by_field[field] = populated
            self.count += populated
            self.kind += populated * np.uint8(number)


def unknown_types(facts: Facts) -> tuple[Any, Any]:
    """Attributes that have no type but a number that is none: rows, numbers."""
    unknown, attributes = facts.unknown_fields, facts.AttributeProto
    records = np.flatnonzero(
        unknown.under("AttributeProto") & (unknown.number == AttributeProto.TYPE_FIELD_NUMBER) & (unknown.wire == 0)
    )
    records = records[~attributes.has("type")[unknown.row[records]]]
    return unknown.row[records], unknown.value[records]


def is_untyped(facts: Facts) -> Any:
    """Whether each attribute has no type, not even a number that is none."""
    result = ~facts.AttributeProto.has("type")
    result[facts.derive(unknown_types)[0]] = False
    return result


def parameters(facts: Facts) -> tuple[Any, Any]:
    """The attribute parameters of all functions, without default and with: rows of FunctionProto, ids of names."""
    bare, attributes = facts.lists("FunctionProto.attribute"), facts.AttributeProto
    rows = np.flatnonzero(attributes.under("FunctionProto.attribute_proto"))
    return (
        np.concatenate([bare.parent, attributes.parent[rows]]),
        np.concatenate([bare.value, attributes.name[rows]]),
    )


def _is_default(facts: Facts) -> Any:
    return facts.AttributeProto.under("FunctionProto.attribute_proto")


def parameters_with_type(facts: Facts) -> tuple[Any, tuple[Any, Any]]:
    """Attribute parameters that have a default of some type: rows, and (rows of FunctionProto, ids of names)."""
    attributes = facts.AttributeProto
    defaults = np.flatnonzero(_is_default(facts) & (attributes.type != 0))
    return defaults, (attributes.parent[defaults], attributes.name[defaults])


def _type_names(kinds: Any) -> Any:
    return lambda row: NAMES[int(kinds[row])]


@rule("attribute-name-present")
def name_present(facts: Facts) -> Iterator[Finding]:
    """An attribute has a name."""
    attributes = facts.AttributeProto
    yield attributes.at(attributes.name == EMPTY, "the attribute has no name; give it one")


@rule("attribute-name-unique")
def name_unique(facts: Facts) -> Iterator[Finding]:
    """Attributes of a node have different names.

    Those of a node stand together, and most nodes have few: each is compared with those before it, which takes a tenth
    of the time of a sort.
    """
    attributes, counts = facts.AttributeProto, facts.NodeProto.attribute
    rows = np.flatnonzero(attributes.under("NodeProto.attribute") & (attributes.name != EMPTY))
    parents, names = attributes.parent[rows], attributes.name[rows]
    is_again = np.zeros(len(rows), bool)
    most = min(int(counts.max(initial=0)), _FEW)
    for distance in range(1, most):
        is_same = (parents[distance:] == parents[:-distance]) & (names[distance:] == names[:-distance])
        is_again[distance:] |= is_same
    many = np.flatnonzero(counts[parents] > _FEW)
    is_again[many] = repeats(parents[many], names[many])
    yield attributes.at(
        rows[is_again],
        "another attribute of the node is named {0!r}, too; keep one of them",
        attributes.texts(attributes.name),
    )


@rule("attribute-name-vs-values")
def name_vs_values(facts: Facts) -> Iterator[Finding]:
    """Attributes are named otherwise than inputs and outputs of their node."""
    attributes = facts.AttributeProto
    inputs, outputs = facts.lists("NodeProto.input"), facts.lists("NodeProto.output")
    is_name = np.zeros(facts.columns.text_count(), bool)
    is_name[attributes.name[attributes.under("NodeProto.attribute")]] = True
    is_name[EMPTY] = False
    parents, names = [], []
    for elements in (inputs, outputs):
        some = np.flatnonzero(is_name[elements.value])
        parents.append(elements.parent[some])
        names.append(elements.value[some])
    values = np.concatenate(parents), np.concatenate(names)
    if not len(values[0]):
        return
    rows = np.flatnonzero(attributes.under("NodeProto.attribute") & (attributes.name != EMPTY))
    found = facts.join((attributes.parent[rows], attributes.name[rows]), values)
    yield attributes.at(
        rows[found >= 0],
        "attribute {0!r} has the name of an input or output of the node; rename one of them",
        attributes.texts(attributes.name),
    )


@rule("attribute-type-present")
def type_present(facts: Facts) -> Iterator[Finding]:
    """An attribute says which field holds its value; `function-attribute-proto-has-value` speaks of defaults."""
    attributes = facts.AttributeProto
    yield attributes.at(
        facts.derive(is_untyped) & ~_is_default(facts),
        "attribute {0!r} has no type; set `type` to that of its value",
        attributes.texts(attributes.name),
    )


@rule("attribute-type-valid")
def type_valid(facts: Facts) -> Iterator[Finding]:
    """The type is a known one."""
    attributes = facts.AttributeProto
    rows, numbers = facts.derive(unknown_types)
    yield attributes.at(
        attributes.has("type") & (attributes.type == 0),
        "the type of attribute {0!r} is UNDEFINED; set `type` to that of its value",
        attributes.texts(attributes.name),
    )
    yield attributes.at(
        np.unique(rows),
        "the type of attribute {0!r} is {1}, which is not a type; set `type` to that of its value",
        attributes.texts(attributes.name),
        lookup(attributes.n, rows, numbers),
    )


@rule("attribute-type-undeclared-ir1")
def type_undeclared_ir1(facts: Facts) -> Iterator[Finding]:
    """Attributes have no type yet; one that is set all the same must agree (`attribute-type-matches-field`)."""
    attributes = facts.AttributeProto
    yield attributes.at(
        attributes.has("type"),
        "attribute {0!r} has a type, which IR version 1 does not have: its value field decides; remove `type`",
        attributes.texts(attributes.name),
    )


@rule("attribute-type-matches-field")
def type_matches_field(facts: Facts) -> Iterator[Finding]:
    """The field that holds the value is that of the type; `attribute-single-value-field` speaks of several."""
    attributes, populated = facts.AttributeProto, facts.derive(Populated)
    kinds = populated.kind
    yield attributes.at(
        (populated.count == 1) & (attributes.type != 0) & (attributes.type != kinds),
        "attribute {0!r} has type {1}, and its value is in `{2}`; set the type to {3}, or move the value",
        attributes.texts(attributes.name),
        _type_names(attributes.type),
        lambda row: FIELDS[int(kinds[row])],
        _type_names(kinds),
    )


@rule("attribute-single-value-field")
def single_value_field(facts: Facts) -> Iterator[Finding]:
    """At most one field holds a value."""
    attributes, populated = facts.AttributeProto, facts.derive(Populated)
    by_field = populated.by_field
    yield attributes.at(
        populated.count > 1,
        "attribute {0!r} has values in {1}; keep the one that its type names",
        attributes.texts(attributes.name),
        lambda row: ", ".join(field for field, column in by_field.items() if column[row]),
    )


@rule("attribute-message-value-present")
def message_value_present(facts: Facts) -> Iterator[Finding]:
    """A value that is a message is there; `function-attribute-proto-has-value` speaks of defaults."""
    attributes, populated = facts.AttributeProto, facts.derive(Populated)
    lacks = (populated.count == 0) & (attributes.ref_attr_name == EMPTY) & ~_is_default(facts)
    for kind, field in MESSAGE_FIELDS.items():
        yield attributes.at(
            lacks & (attributes.type == kind),
            f"attribute {{0!r}} has type {NAMES[kind]} and no value; set `{field}`",
            attributes.texts(attributes.name),
        )


@rule("attribute-scalar-value-present")
def scalar_value_present(facts: Facts) -> Iterator[Finding]:
    """A number or string is there: absent, it is read as 0 or empty."""
    attributes, populated = facts.AttributeProto, facts.derive(Populated)
    lacks = (populated.count == 0) & (attributes.ref_attr_name == EMPTY)
    for kind in _SCALARS:
        default = '""' if FIELDS[kind] == "s" else "0"
        yield attributes.at(
            lacks & (attributes.type == kind),
            f"attribute {{0!r}} has type {NAMES[kind]} and no value, which reads as {default}; set `{FIELDS[kind]}`",
            attributes.texts(attributes.name),
        )


@rule("attribute-list-may-be-empty")
def list_may_be_empty(facts: Facts) -> Iterator[Finding]:
    """A list without entries is a value, and not a missing one."""
    attributes, populated = facts.AttributeProto, facts.derive(Populated)
    rows = np.flatnonzero((populated.count == 0) & (attributes.ref_attr_name == EMPTY))
    yield attributes.at(
        rows[np.isin(attributes.type[rows], _LISTS)],
        "attribute {0!r} has type {1} and no entries, which is an empty list; add entries if that is not meant",
        attributes.texts(attributes.name),
        _type_names(attributes.type),
    )


@rule("attribute-value-absent-ir1")
def value_absent_ir1(facts: Facts) -> Iterator[Finding]:
    """Without a type there is a value, that tells it."""
    attributes, populated = facts.AttributeProto, facts.derive(Populated)
    yield attributes.at(
        (populated.count == 0) & facts.derive(is_untyped) & (attributes.ref_attr_name == EMPTY),
        "attribute {0!r} has no value, so nothing says of what kind it is; set the field of its value",
        attributes.texts(attributes.name),
    )


@rule("attribute-string-utf8")
def string_utf8(facts: Facts) -> Iterator[Finding]:
    """Strings are UTF-8.

    Of `s` the first 64 KiB are looked at, of `strings` the first 1 MiB, and of all together some MiB.
    """
    attributes = facts.AttributeProto
    names = attributes.texts(attributes.name)
    starts, lengths = attributes.span("s")
    highs = np.frombuffer(
        measure_bytes(facts.columns, "AttributeProto", "s", attributes.has("s"), np.zeros(attributes.n, np.int64)),
        np.uint8,
        attributes.n,
    )
    suspects = np.flatnonzero(highs >= 0x80)
    looks = np.minimum(lengths[suspects], LOOK)
    suspects = suspects[np.cumsum(looks) <= TEXT_IN_ALL]
    yield attributes.at(
        [row for row in suspects.tolist() if not _is_utf8(facts, int(starts[row]), int(lengths[row]))],
        "the string of attribute {0!r} is not valid UTF-8; write it as UTF-8, or use another type for bytes",
        names,
    )
    broken = np.frombuffer(
        measure_strings(facts.columns, "AttributeProto", "strings", attributes.strings > 0), np.int64, attributes.n
    )
    yield attributes.at(
        broken >= 0,
        "string {1} of attribute {0!r} is not valid UTF-8; write it as UTF-8, or use another type for bytes",
        names,
        broken,
    )


def _is_utf8(facts: Facts, start: int, length: int) -> bool:
    """Whether the first bytes of a string are UTF-8; a character may be cut off where not all are looked at."""
    data = bytes_at(facts.document, start, start + min(length, LOOK))
    try:
        data.decode()
    except UnicodeDecodeError as error:
        return length > LOOK and error.reason == "unexpected end of data"
    return True


@rule("attribute-doc-string-present")
def doc_string_present(facts: Facts) -> Iterator[Finding]:
    """Attributes are documented. Hardly any is, so the first one without is reported, with their number."""
    attributes = facts.AttributeProto
    rows = np.flatnonzero(attributes.doc_string == EMPTY)
    count = len(rows)
    more = f"attribute {{0!r}} and {count - 1:,} more have" if count > 1 else "attribute {0!r} has"
    yield attributes.at(rows[:1], f"{more} no doc_string; describe them", attributes.texts(attributes.name))


@rule("attribute-ref-only-in-function")
def ref_only_in_function(facts: Facts) -> Iterator[Finding]:
    """References stand in functions only; `function-attribute-proto-has-value` speaks of those in defaults."""
    attributes = facts.AttributeProto
    if facts.root in ("NodeProto", "AttributeProto"):
        return  # where it belongs is not known
    owners = np.where(attributes.under("NodeProto.attribute"), attributes.parent, -1)
    is_outside = np.append(facts.derive(Scopes).node_function < 0, False)[owners]
    yield attributes.at(
        is_outside & (attributes.ref_attr_name != EMPTY),
        "attribute {0!r} is a reference to {1!r}, which only functions have; give it a value of its own",
        attributes.texts(attributes.name),
        attributes.texts(attributes.ref_attr_name),
    )


@rule("attribute-ref-no-value")
def ref_no_value(facts: Facts) -> Iterator[Finding]:
    """A reference has no value of its own."""
    attributes, populated = facts.AttributeProto, facts.derive(Populated)
    yield attributes.at(
        (attributes.ref_attr_name != EMPTY) & (populated.count > 0),
        "attribute {0!r} is a reference to {1!r} and has a value as well; remove one of the two",
        attributes.texts(attributes.name),
        attributes.texts(attributes.ref_attr_name),
    )


def references(facts: Facts) -> tuple[Any, Any]:
    """References of nodes in functions, nested ones too: rows of AttributeProto, rows of FunctionProto."""
    attributes = facts.AttributeProto
    rows = np.flatnonzero(attributes.under("NodeProto.attribute") & (attributes.ref_attr_name != EMPTY))
    functions = facts.derive(Scopes).node_function[attributes.parent[rows]]
    return rows[functions >= 0], functions[functions >= 0]


@rule("attribute-ref-declared")
def ref_declared(facts: Facts) -> Iterator[Finding]:
    """A reference is to a parameter of the function around it."""
    attributes = facts.AttributeProto
    rows, functions = facts.derive(references)
    found = facts.join((functions, attributes.ref_attr_name[rows]), facts.derive(parameters))
    yield attributes.at(
        rows[found < 0],
        "attribute {0!r} is a reference to {1!r}, which the function does not declare; add it to its `attribute`",
        attributes.texts(attributes.name),
        attributes.texts(attributes.ref_attr_name),
    )


@rule("attribute-ref-type-match")
def ref_type_match(facts: Facts) -> Iterator[Finding]:
    """A reference has the type of the parameter's default."""
    attributes = facts.AttributeProto
    rows, functions = facts.derive(references)
    defaults, keys = facts.derive(parameters_with_type)
    found = facts.join((functions, attributes.ref_attr_name[rows]), keys)
    rows, others = rows[found >= 0], defaults[found[found >= 0]]
    wanted = lookup(attributes.n, rows, attributes.type[others], 0)
    yield attributes.at(
        rows[(attributes.type[rows] != 0) & (attributes.type[rows] != wanted[rows])],
        "attribute {0!r} has type {1}, and the default of {2!r}, which it refers to, has type {3}; make them agree",
        attributes.texts(attributes.name),
        _type_names(attributes.type),
        attributes.texts(attributes.ref_attr_name),
        lambda row: NAMES[int(wanted[row])],
    )


def _of_types(facts: Facts, numbers: tuple[int, ...]) -> Any:
    """Attributes that have one of the types, or a value of it."""
    result = np.isin(facts.AttributeProto.type, numbers)
    for number in numbers:
        result |= facts.derive(Populated).by_field[FIELDS[number]]
    return result


@rule("attribute-sparse-before-ir6")
def sparse_before_ir6(facts: Facts) -> Iterator[Finding]:
    """There are no sparse tensors yet."""
    attributes = facts.AttributeProto
    yield attributes.at(
        _of_types(facts, _SPARSE),
        f"attribute {{0!r}} is a sparse tensor, which needs IR version 6, and the model has {facts.ir_version}",
        attributes.texts(attributes.name),
    )


@rule("attribute-type-proto-before-ir8")
def type_proto_before_ir8(facts: Facts) -> Iterator[Finding]:
    """There are no types as values yet."""
    attributes = facts.AttributeProto
    yield attributes.at(
        _of_types(facts, _TYPES),
        f"attribute {{0!r}} is a type, which needs IR version 8, and the model has {facts.ir_version}",
        attributes.texts(attributes.name),
    )
