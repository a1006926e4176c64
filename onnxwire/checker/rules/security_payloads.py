"""Rules of security: programs and archives inside a model, and weights that nothing reads; notes on hidden behaviour.

The first bytes of payloads, strings and unknown fields are read, never whole weights.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from onnxwire.checker.facts import IDENTIFIER, MERGED, Facts, Finding, true_rows
from onnxwire.checker.registry import rule
from onnxwire.checker.scopes import Scopes
from onnxwire.checker.wire_records import UNKNOWN_CONTENT, WireRecords
from onnxwire.engine.partial import PartialMemory
from onnxwire.engine.record_reader import bytes_at
from onnxwire.messages import TensorProto

_PREFIX_BYTES = 256
_LONG_BYTES = 1 << 16  # longer values of remote files are not resident
_MAX_REMOTE_PREFIXES = 16
_MAX_STRINGS = 100_000
_MAX_TEXT = 1 << 16
_MIN_UNUSED_BYTES = 1 << 16
_MAX_TYPED_BYTES = 1 << 16  # maximum size of a tensor whose lists of numbers or strings are decoded
_MAX_TYPED_TENSORS = 100_000
_LONG_TEXT = 1 << 16
_RANDOM = ("RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Bernoulli", "Multinomial")
_COMPARISONS = ("Equal", "Greater", "Less", "GreaterOrEqual", "LessOrEqual")
_SELECTIONS = ("If", "Where")
_SCRIPT = re.compile(
    rb"<script\b|<\?php|javascript:|\bpowershell\b.{0,80}-e|/bin/(?:ba|z|k|da)?sh\b|__import__\s*\(|\bos\.(?:system|popen|exec)"
    rb"|\bsubprocess\.|\beval\s*\(|\bexec\s*\(|\b(?:curl|wget)\s+(?:-\S+\s+)*https?://|\bpickle\.loads|\bcmd(?:\.exe)?\s+/c"
    rb"|<(?:img|svg|iframe|object|embed|body|a|input|video)\b[^>]{0,200}?\bon\w+\s*=|<iframe\b|<object\b|<embed\b"
    rb"|\bbase64\s+-d\b|\bnc\s+-e\b|/dev/tcp/",
    re.I | re.S,
)
_CODED_TEXT = re.compile(rb"[0-9a-fA-F\s]{256,}|[A-Za-z0-9+/_-]{256,}={0,2}\s*")
_WORD_END = re.compile(rb"[\s(<]|[\x00-\x08\x80-\xff]")
_ENCODED = re.compile(rb"(?:f0VMR[gQ]|TVqQAA|TVpQAA|UEsDB[AB]|gASV|IyEvYmlu|IyEvdXNy|H4sIA|z/rt/g)[A-Za-z0-9+/_-]{8}")


def signature_of(prefix: bytes) -> str:
    """Return the format that bytes begin with, if it is a program or an archive; "" for anything else."""
    if prefix[:4] == b"\x7fELF" and prefix[4:5] in b"\1\2" and prefix[5:6] in b"\1\2":
        return "an ELF program"
    if prefix[:2] == b"MZ" and (len(prefix) < 64 or prefix[2:64].count(0) > 16 or b"DOS mode" in prefix):
        return "a Windows program"
    if prefix[:4] in (
        b"\xfe\xed\xfa\xce",
        b"\xfe\xed\xfa\xcf",
        b"\xce\xfa\xed\xfe",
        b"\xcf\xfa\xed\xfe",
        b"\xca\xfe\xba\xbe",
    ):
        return "a Mach-O program or a Java class"
    if prefix[:4] in (b"PK\3\4", b"PK\5\6", b"PK\7\x08"):
        return "a ZIP archive"
    if (
        prefix[:6] in (b"7z\xbc\xaf\x27\x1c", b"Rar!\x1a\x07", b"\xfd7zXZ\0")
        or prefix[:4] == b"MSCF"
        or prefix[257:262] == b"ustar"
    ):
        return "an archive"
    if prefix[:3] == b"BZh" and prefix[4:10] == b"1AY&SY":
        return "a bzip2 archive"
    if prefix[:3] == b"\x1f\x8b\x08" and prefix[3:4] < b"\x20":
        return "a gzip archive"
    if prefix[:4] == b"\0asm" or prefix[:4] == b"dex\n" or prefix[:4] == b"BC\xc0\xde":
        return "a program in bytecode"
    if (
        prefix[:1] == b"\x80"
        and prefix[1:2] in (b"\2", b"\3", b"\4", b"\5")
        and prefix[2:3] in b"\x95c}](\x8c\x8aX\x58"
    ):
        return "a Python pickle"
    if re.match(rb"c[a-z_.]+\n[a-z_.]+\n[(q]", prefix):
        return "a Python pickle"
    if prefix[1:4] in (b"\x0c\r\n", b"\x0d\r\n", b"\x0e\r\n"):
        return "compiled Python code"
    if re.match(rb"#![ ]*/[\w/.]+|@echo off\b", prefix) or prefix[:5] in (b"%PDF-", b"{\\rtf"):
        return "a script or document"
    if prefix[:4] == b"\x93NUM" or prefix[:8] == b"\x89HDF\r\n\x1a\n":
        return ""
    return ""


def text_signature(text: bytes) -> str:
    """Return what a text contains, if it is a program, encoded or not; "" for anything else."""
    if _SCRIPT.search(text):
        return "commands of a script"
    if _ENCODED.search(text):
        return "a program or archive in base64"
    return signature_of(text.lstrip()[:_PREFIX_BYTES])


class Prefixes:
    """Reads the first bytes of ranges of a document; of a remote one only some that are not resident."""

    def __init__(self, facts: Facts) -> None:
        self.document = facts.document
        self.left = _MAX_REMOTE_PREFIXES
        self.is_remote = isinstance(facts.document.memory, PartialMemory)

    def read(self, start: int, length: int) -> bytes:
        """Return up to _PREFIX_BYTES bytes; b"" where no more are fetched."""
        n = min(length, _PREFIX_BYTES)
        if length >= _LONG_BYTES:
            if self.is_remote:
                self.left -= 1
                if self.left < 0:
                    return b""
                memory = self.document.memory
                assert memory is not None
                memory.source.fetch(memory, [(start, start + n)])
            elif self.document.descriptor >= 0 and hasattr(os, "pread"):
                # A read through the mapping would make a neighbourhood of megabytes resident.
                return os.pread(self.document.descriptor, n, start)
        return bytes_at(self.document, start, start + n)


def _unused(facts: Facts) -> Any:
    """Return the initializers of graphs that no node reads and no graph returns."""
    tensors = facts.TensorProto
    used = np.zeros(facts.columns.text_count(), bool)
    used[0] = True
    if "NodeProto.input" in facts.present:
        used[facts.lists("NodeProto.input").value] = True
    infos = facts.ValueInfoProto
    used[infos.name[infos.under("GraphProto.output")]] = True
    if "StringStringEntryProto" in facts.present:
        used[facts.StringStringEntryProto.value] = True  # training bindings and quantization
        used[facts.StringStringEntryProto.key] = True
    return tensors.under("GraphProto.initializer") & ~used[tensors.name]


@rule("security-payload-tensor", "TensorProto")
def tensor_payload(facts: Facts) -> Iterator[Finding]:
    """Yield tensors whose raw_data is a program or archive."""
    tensors, prefixes = facts.TensorProto, facts.derive(Prefixes)
    starts, lengths = (column.tolist() for column in tensors.span("raw_data"))
    unused = facts.derive(_unused).tolist()
    found = {}
    # Those that nothing reads come first, since few of a remote file are read.
    for row in sorted(true_rows(tensors.has("raw_data")).tolist(), key=lambda row: not unused[row]):
        if lengths[row] >= 4:
            kind = signature_of(prefixes.read(starts[row], lengths[row]))
            if kind:
                found[row] = kind
    found.update(_typed_payloads(facts))
    yield tensors.at(found, "the data of tensor {name!r} is {kind}; do not extract or run it", kind=found)


def _typed_payloads(facts: Facts) -> dict[int, str]:
    """Return what tensors contain whose elements are in lists, if it is a program or archive."""
    tensors = facts.TensorProto
    filled = tensors.has("raw_data") | (tensors.length > _MAX_TYPED_BYTES) | (tensors.length < _PREFIX_BYTES // 8)
    found = {}
    for row in true_rows(~filled & (tensors.flags & MERGED == 0))[:_MAX_TYPED_TENSORS].tolist():
        start = int(tensors.start[row])
        data = bytes_at(facts.document, start, start + int(tensors.length[row]))
        tensor = TensorProto.FromString(data)
        if len(tensor.string_data):
            strings = list(tensor.string_data)
            # One word, such as the label `os.system`, is no command.
            texts = [text for text in strings if _WORD_END.search(text)]
            kind = next(filter(None, map(text_signature, texts)), "")
            if not kind and _ENCODED.match(b"".join(strings)):
                kind = "a program or archive in base64"
        else:
            try:
                kind = signature_of(tensor.numpy().tobytes()[:_PREFIX_BYTES])
            except Exception:  # a damaged tensor, which other rules report
                continue
        if kind:
            found[row] = kind
    return found


@rule("security-payload-encoded")
def encoded(facts: Facts) -> Iterator[Finding]:
    """Yield values of metadata that are bytes in base64 or hexadecimal digits."""
    if "StringStringEntryProto" in facts.present:
        entries = facts.StringStringEntryProto
        rows = [
            row
            for row, id in enumerate(entries.value.tolist())
            if _CODED_TEXT.fullmatch(facts.columns.raw_text(id)[:_MAX_TEXT])
        ]
        yield entries.at(rows, "the value of {key!r} is bytes in base64 or hexadecimal, which nothing here can read")


@rule("security-payload-long-text")
def long_text(facts: Facts) -> Iterator[Finding]:
    """Yield texts that are longer than documentation."""
    # A text that is not an identifier is at most as long as the document: each is read once.
    long = [
        id for id in true_rows(facts.traits & IDENTIFIER == 0).tolist() if len(facts.columns.raw_text(id)) > _LONG_TEXT
    ]
    columns = {"StringStringEntryProto": "value"} | dict.fromkeys(
        ("ModelProto", "GraphProto", "NodeProto", "TensorProto", "ValueInfoProto", "FunctionProto", "AttributeProto"),
        "doc_string",
    )
    for type_name, field in columns.items() if long else ():
        if type_name in facts.present:
            sheet = facts[type_name]
            yield sheet.at(np.isin(getattr(sheet, field), long), f"{field} has more than 64 KiB, which nothing needs")


@rule("security-payload-attribute", "AttributeProto")
def attribute_payload(facts: Facts) -> Iterator[Finding]:
    """Yield attributes whose string is a program or archive."""
    attributes, prefixes = facts.AttributeProto, facts.derive(Prefixes)
    starts, lengths = (column.tolist() for column in attributes.span("s"))
    found = {}
    for row in true_rows(attributes.span("s")[1] >= 4).tolist():
        prefix = prefixes.read(starts[row], lengths[row])
        kind = signature_of(prefix) or text_signature(prefix)
        if kind:
            found[row] = kind
    yield attributes.at(found, "the string of attribute {name!r} is {kind}; do not extract or run it", kind=found)


@rule("security-payload-text")
def text_payload(facts: Facts) -> Iterator[Finding]:
    """Yield texts that contain programs: documentation, metadata and names."""
    table: dict[int, str] = {}
    for id in true_rows(facts.traits & IDENTIFIER == 0).tolist():
        kind = text_signature(facts.columns.raw_text(id)[:_MAX_TEXT])
        if kind:
            table[id] = kind
    if not table:
        return
    columns = {"StringStringEntryProto": ("key", "value")} | dict.fromkeys(
        ("ModelProto", "GraphProto", "NodeProto", "TensorProto", "ValueInfoProto", "FunctionProto", "AttributeProto"),
        ("name", "doc_string", "producer_name"),
    )
    for type_name, fields in columns.items():
        sheet = facts[type_name]
        for field in fields:
            if type_name in facts.present and field in sheet.fields:
                ids = getattr(sheet, field)
                yield sheet.at(
                    np.isin(ids, list(table)),
                    f"{field} contains {{kind}}; do not run it",
                    kind=lambda row, ids=ids: table[int(ids[row])],
                )


@rule("security-payload-unknown", "UnknownFields")
def unknown_payload(facts: Facts) -> Iterator[Finding]:
    """Yield unknown fields that are a program or archive."""
    records, prefixes = facts.derive(WireRecords), facts.derive(Prefixes)
    found = {}
    for row in true_rows(records.kind == UNKNOWN_CONTENT).tolist():
        start, length = int(records.start[row]), int(records.value[row])
        head = bytes_at(facts.document, start, min(start + 20, len(facts.document)))
        at = 0
        for _ in range(2):  # the tag and the length
            while at < len(head) and head[at] >= 0x80:
                at += 1
            at += 1
        kind = text_signature(prefixes.read(start + at, length))
        if kind:
            found[row] = kind
    yield records.at(found, "the unknown field {field} is {kind}; do not extract or run it", kind=found)


@rule("security-payload-unused", "TensorProto")
def unused_payload(facts: Facts) -> Iterator[Finding]:
    """Yield large initializers that nothing reads."""
    tensors = facts.TensorProto
    size = tensors.length
    yield tensors.at(
        facts.derive(_unused) & (size >= _MIN_UNUSED_BYTES),
        "nothing reads tensor {name!r} of {length:,} bytes, so it can be anything; remove it",
    )


@rule("security-behaviour-random", "NodeProto")
def random(facts: Facts) -> Iterator[Finding]:
    """Yield nodes with random outputs."""
    nodes = facts.NodeProto
    yield nodes.at(
        facts.are_among(nodes.op_type, _RANDOM),
        "the output of {op_type!r} differs in each run, so a test does not show the results of later runs",
    )


@rule("security-behaviour-trigger", "NodeProto")
def trigger(facts: Facts) -> Iterator[Finding]:
    """Yield selections between values by a comparison with a constant."""
    nodes, scopes = facts.NodeProto, facts.derive(Scopes)
    inputs = facts.lists("NodeProto.input")
    is_comparison = np.append(facts.are_among(nodes.op_type, _COMPARISONS), False)
    is_constant_node = np.append(facts.are_among(nodes.op_type, ("Constant",)), False)
    definitions = scopes.definitions
    n_outputs = facts.lists("NodeProto.output").n
    is_constant = (definitions >= n_outputs + facts.ValueInfoProto.n) | is_constant_node[scopes.makers]
    compares = np.zeros(nodes.n + 1, bool)
    compares[inputs.parent[is_constant & is_comparison[inputs.parent]]] = True
    is_selection = facts.are_among(nodes.op_type, _SELECTIONS)
    is_condition = (inputs.index == 0) & is_selection[inputs.parent] & compares[scopes.makers]
    yield nodes.at(
        np.sort(inputs.parent[is_condition]),
        "{op_type!r} selects by a comparison with a constant, as a hidden trigger would; look at it on the map",
    )
