"""Rules of the model as a whole, and of what all messages have."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from onnxwire.checker.facts import ANGLE, EMPTY, IDENTIFIER, LATEST_IR_VERSION, UTF8, Facts, Finding
from onnxwire.checker.registry import rule
from onnxwire.io.save import INLINE_LIMIT

_REVERSE_DNS = re.compile(r"[A-Za-z][A-Za-z0-9-]*(\.[A-Za-z0-9_-]+)+")
_MARKUP = re.compile(r"</?[A-Za-z][A-Za-z0-9]*(\s[^<>]*)?/?>|<!--")

# Numbers that were withdrawn, by type.
RESERVED = {
    "AttributeProto": (12, 16, 17, 18, 19),
    "GraphProto": (3, 4, 6, 7, 8, 9),
    "FunctionProto": (2, 3),
    "TypeProto.Opaque": (3,),
}


def is_reverse_dns(domain: str) -> bool:
    """Whether a domain is a dotted name, such as com.example.ops."""
    return _REVERSE_DNS.fullmatch(domain) is not None


@rule("model-ir-version-present")
def ir_version_present(facts: Facts) -> Iterator[Finding]:
    """ir_version is set and not 0."""
    models = facts.ModelProto
    yield models.at(models.ir_version == 0, "ir_version is missing; set it to the version the model is written for")


@rule("model-ir-version-known")
def ir_version_known(facts: Facts) -> Iterator[Finding]:
    """ir_version is one that was published."""
    models = facts.ModelProto
    yield models.at(
        (models.ir_version < 0) | (models.ir_version > LATEST_IR_VERSION),
        f"ir_version {{0}} is not one of 1 to {LATEST_IR_VERSION}; use a version that exists, or a newer onnxwire",
        models.ir_version,
    )


@rule("model-ir-version-undated")
def ir_version_undated(facts: Facts) -> Iterator[Finding]:
    """Version 14 has no date of publication yet."""
    models = facts.ModelProto
    yield models.at(models.ir_version == 14, "IR version 14 is not dated yet; what it means may still change")


@rule("model-graph-present")
def graph_present(facts: Facts) -> Iterator[Finding]:
    """The model carries a graph."""
    models = facts.ModelProto
    yield models.at(models.graph < 0, "the model has no graph; set `graph`")


@rule("model-producer-present")
def producer_present(facts: Facts) -> Iterator[Finding]:
    """The tool that wrote the file, and its version, are named."""
    models = facts.ModelProto
    yield models.at(models.producer_name == EMPTY, "producer_name is missing; name the tool that wrote the model")
    yield models.at(
        (models.producer_name != EMPTY) & (models.producer_version == EMPTY),
        "producer_version is missing; give the version of {0!r}",
        models.texts(models.producer_name),
    )


@rule("model-domain-present")
def domain_present(facts: Facts) -> Iterator[Finding]:
    """The model has a domain."""
    models = facts.ModelProto
    yield models.at(models.domain == EMPTY, "domain is missing; set a reverse-DNS name such as com.example")


@rule("model-domain-reverse-dns")
def domain_reverse_dns(facts: Facts) -> Iterator[Finding]:
    """The domain is a dotted name."""
    models = facts.ModelProto
    yield models.at(
        (models.domain != EMPTY) & ~facts.matching(is_reverse_dns, models.domain),
        "domain {0!r} is not a reverse-DNS name; write it like com.example",
        models.texts(models.domain),
    )


@rule("model-version-scheme")
def version_scheme(facts: Facts) -> Iterator[Finding]:
    """model_version is a counter or a packed semantic version, neither of which is negative."""
    models = facts.ModelProto
    yield models.at(
        models.model_version < 0,
        "model_version {0} is negative, so neither a counter nor a packed semantic version",
        models.model_version,
    )


@rule("model-protobuf-size")
def protobuf_size(facts: Facts) -> Iterator[Finding]:
    """The document is within protobuf's 2 GiB."""
    models = facts.ModelProto
    yield models.at(
        models.length > INLINE_LIMIT,
        f"the model has {{0:,}} bytes, and protobuf-based tools read {INLINE_LIMIT:,} at most; "
        "move weights to external data",
        models.length,
    )


@rule("model-strings-utf8")
def strings_utf8(facts: Facts) -> Iterator[Finding]:
    """Every string is UTF-8."""
    is_bad = facts.traits & UTF8 == 0
    is_bad[EMPTY] = False
    if not is_bad.any():
        return
    for sheet, field, ids in text_columns(facts):
        yield sheet.at(is_bad[ids], f"{field} {{0!r}} is not valid UTF-8; write it as UTF-8", sheet.texts(ids))
    for elements in text_lists(facts):
        yield elements.at(
            is_bad[elements.value], "{0!r} is not valid UTF-8; write it as UTF-8", elements.texts(elements.value)
        )


def text_columns(facts: Facts) -> Iterator[tuple[Any, str, Any]]:
    """Every singular string field of every type that the document has: sheet, name, ids."""
    for name in facts.columns.sheet_names:
        sheet = facts[name]
        for field in sheet.fields if sheet.n else ():
            if facts.columns.field_column(name, field)[1] == "TEXT":
                yield sheet, field, getattr(sheet, field)


def text_lists(facts: Facts) -> Iterator[Any]:
    """Every repeated string field of the document."""
    for name in facts.columns.sheet_names:
        sheet = facts[name]
        for field in sheet.fields if sheet.n else ():
            if facts.columns.is_text_list(name, field):
                yield facts.lists(f"{name}.{field}")


@rule("model-unknown-fields")
def unknown_fields(facts: Facts) -> Iterator[Finding]:
    """There are no fields that the schema does not have."""
    unknown = facts.unknown_fields
    if not unknown.n:
        return
    is_other = ~_is_reserved(facts) & ~_is_known_number(facts)
    yield unknown.at(
        is_other, "field {0} with wire type {1} is not in the schema; it is kept and not interpreted", unknown.number,
        unknown.wire,
    )  # fmt: skip


@rule("model-reserved-fields")
def reserved_fields(facts: Facts) -> Iterator[Finding]:
    """Numbers that were withdrawn are not used again."""
    unknown = facts.unknown_fields
    if unknown.n:
        yield unknown.at(_is_reserved(facts), "field {0} was withdrawn from the schema; remove it", unknown.number)


def _is_reserved(facts: Facts) -> Any:
    unknown = facts.unknown_fields
    result = np.zeros(unknown.n, bool)
    for name, numbers in RESERVED.items():
        result |= unknown.under(name) & np.isin(unknown.number, numbers)
    return result


def _is_known_number(facts: Facts) -> Any:
    """Enum values that a closed enum does not have: the field is known, and rules of its own speak of the value."""
    unknown = facts.unknown_fields
    result = np.zeros(unknown.n, bool)
    for name, numbers in {"AttributeProto": (20,), "TensorProto": (14,), "OperatorProto": (3,)}.items():
        result |= unknown.under(name) & np.isin(unknown.number, numbers) & (unknown.wire == 0)
    return result


@rule("model-prerelease-layout")
def prerelease_layout(facts: Facts) -> Iterator[Finding]:
    """Before release 1.0 graphs and sparse tensors were laid out differently."""
    unknown = facts.unknown_fields
    if unknown.n:
        yield unknown.at(
            (unknown.under("GraphProto") & np.isin(unknown.number, (3, 4)))
            | (unknown.under("SparseTensorProto") & (unknown.number == 1)),
            "field {0} is laid out as before release 1.0; convert the model with a tool of its time",
            unknown.number,
        )


@rule("doc-string-no-html")
def doc_string_no_html(facts: Facts) -> Iterator[Finding]:
    """Documentation is plain text or Markdown."""
    suspects = (facts.traits & ANGLE).astype(bool)
    if not suspects.any():
        return
    for sheet, field, ids in text_columns(facts):
        if field == "doc_string" and suspects[ids].any():
            rows = np.flatnonzero(suspects[ids])
            rows = rows[facts.matching(lambda text: _MARKUP.search(text) is not None, ids[rows])]
            yield sheet.at(rows, "doc_string has HTML or other markup; write plain text or Markdown")


@rule("name-c90-identifier")
def name_c90_identifier(facts: Facts) -> Iterator[Finding]:
    """Names are identifiers of C; a value's name is looked at where the value is made, not at each use."""
    is_bad = facts.traits & IDENTIFIER == 0
    is_bad[EMPTY] = False
    text = "the name {0!r} is not a C90 identifier; use letters, digits and _ only"
    for name in ("GraphProto", "NodeProto", "AttributeProto", "TensorProto", "ValueInfoProto"):
        sheet = facts[name]
        rows = is_bad[sheet.name]
        if name == "ValueInfoProto":
            rows = rows & sheet.under("GraphProto.input")
        yield sheet.at(rows, text, sheet.texts(sheet.name))
    outputs = facts.lists("NodeProto.output")
    yield outputs.at(is_bad[outputs.value], text, outputs.texts(outputs.value))


@rule("model-functions-before-ir8")
def functions_before_ir8(facts: Facts) -> Iterator[Finding]:
    """There are no local functions yet."""
    functions = facts.FunctionProto
    yield functions.at(
        functions.under("ModelProto.functions"),
        f"functions need IR version 8, and the model has {facts.ir_version}; raise ir_version or inline the function",
    )


@rule("model-training-info-before-ir7")
def training_info_before_ir7(facts: Facts) -> Iterator[Finding]:
    """There is no training information yet."""
    infos = facts.TrainingInfoProto
    yield infos.at(infos.rows, f"training_info needs IR version 7, and the model has {facts.ir_version}")


@rule("model-configuration-before-ir11")
def configuration_before_ir11(facts: Facts) -> Iterator[Finding]:
    """There are no device configurations yet."""
    for name in ("DeviceConfigurationProto", "NodeDeviceConfigurationProto"):
        sheet = facts[name]
        yield sheet.at(sheet.rows, f"device configurations need IR version 11, and the model has {facts.ir_version}")


@rule("model-metadata-before-ir3")
def metadata_before_ir3(facts: Facts) -> Iterator[Finding]:
    """There is no metadata yet."""
    entries = facts.StringStringEntryProto
    yield entries.at(
        entries.under("ModelProto.metadata_props"),
        f"metadata_props needs IR version 3, and the model has {facts.ir_version}",
    )
