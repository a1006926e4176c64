"""Rules of security: programs and archives inside a model, and weights that nothing reads.

The first bytes of payloads, strings and unknown fields are read, never whole weights.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from onnxwire.checker.facts import IDENTIFIER, MERGED, Facts, Finding, true_rows
from onnxwire.checker.file_formats import PREFIX_BYTES, may_have_signature, signature_of
from onnxwire.checker.limits import MAX_READ_BYTES, MAX_TOTAL_READ_BYTES
from onnxwire.checker.liveness import Liveness
from onnxwire.checker.registry import rule
from onnxwire.checker.rules.node import Calls
from onnxwire.checker.text_bytes import TextBytes
from onnxwire.checker.text_decodings import MIN_CODED_BYTES, decodings, inner_decodings, is_text
from onnxwire.checker.wire_records import UNKNOWN_CONTENT, WireRecords
from onnxwire.engine.partial import PartialMemory
from onnxwire.engine.record_reader import bytes_at
from onnxwire.errors import count_text
from onnxwire.messages import AttributeProto, TensorProto

_PAGE_BYTES = 4096
_ZIP_END_BYTES = 22  # the end of a central directory without a comment
_LONG_BYTES = 1 << 16  # longer values of remote files are not resident
_MAX_REMOTE_PREFIXES = 16
_MAX_STRINGS = 100_000
_MAX_TEXT = 1 << 16
_MIN_UNUSED_BYTES = 1 << 16
_MIN_PART_BYTES = 1 << 10  # of several tensors that nothing reads
_MIN_UNCALLED = 50  # functions
_MIN_NANS = 4
_BATCH_TENSORS = 1024  # tensors whose first bytes are tested together
_SHORT_SIGNATURES = ("a Windows program", "a gzip archive", "compiled Python code")
_MAX_TYPED_BYTES = 1 << 16  # maximum size of a tensor whose lists of numbers or strings are decoded
_MIN_TYPED_BYTES = 32
_MAX_TYPED_TENSORS = 100_000
_LONG_TEXT = 1 << 16
_MAX_CODED_BYTES = 1024
_MIN_CARRIER_BYTES = 128
_MAX_CARRIER_BYTES = 1 << 20  # of all tensors together whose low bytes are searched, beyond the first
# The sizes of elements whose low bytes change little, by data type: integers of 32 and 64 bits, and floats.
_CARRIERS = {1: 4, 6: 4, 7: 8, 10: 2, 11: 8, 12: 4, 13: 8, 16: 2}
_FIRST_BYTES = frozenset(
    (b"\x7fE", b"MZ", b"\xfe\xed", b"\xce\xfa", b"\xcf\xfa", b"\xca\xfe", b"PK", b"7z", b"Ra", b"\xfd7", b"\0a", b"de")
    + (b"\x80\2", b"\x80\3", b"\x80\4", b"\x80\5", b"#!", b"\x28\xb5", b"BZ", b"%P")
)
_BASE64 = re.compile(rb"[A-Za-z0-9+/_\r\n-]+={0,2}")
_OTHER_FORMATS = (
    (4, b"ORTM", "a model in the format of onnxruntime"),
    (4, b"TFL3", "a model of TensorFlow Lite"),
    (4, b"ftyp", "a video"),
    (0, b"BM", "a bitmap"),
    (0, b"MZ", "a Windows program"),
    (0, b"BZh", "a bzip2 archive"),
    (0, b"#!", "a script"),
    (0, b"<?", "a document"),
)
_SCRIPT = re.compile(
    rb"<script\b|<\?php|javascript:|\bpowershell\b.{0,80}-e|/bin/(?:ba|z|k|da)?sh\b|__import__\s*\(|\bos\.(?:system|popen|exec)"
    rb"|\bsubprocess\.|\beval\s*\(|\bexec\s*\(|\b(?:curl|wget)\s+(?:-\S+\s+)*https?://|\bpickle\.loads|\bcmd(?:\.exe)?\s+/c"
    rb"|<(?:img|svg|iframe|object|embed|body|a|input|video)\b[^>]{0,200}?\bon\w+\s*=|<iframe\b|<object\b|<embed\b"
    rb"|\b(?:curl|wget)\s[^|\r\n]{0,200}\|\s*(?:ba|z|k|da)?sh\b|\bIEX\b.{0,20}\(|DownloadString|\bjavascript:"
    rb"|\bbase64\s+-d\b|\bnc\s+-e\b|/dev/tcp/"
    rb"|\bEICAR-STANDARD-ANTIVIRUS-TEST|\bXJS\*C4JDBQADN1|\bWScript\.(?:Shell|CreateObject)|\bCreateObject\s*\("
    rb"|\bosascript\s+-e|\bcertutil\b.{0,40}-(?:urlcache|decode)|\bmshta\s+https?:|\bregsvr32\b.{0,40}/i:"
    rb"|\bimportlib\.import_module\(|\bctypes\.(?:CDLL|cdll|windll)|\bmarshal\.loads|\brequire\(['\"]child_process",
    re.I | re.S,
)
# The first digits of programs and archives in hexadecimal and in base64.
_FIRST_DIGITS = re.compile(
    rb"(?i:7f454c46|4d5a[0-9a-f]{2}00|504b0304|1f8b08|fd377a58|28b52ffd|cafebabe|cffaedfe)"
    rb"|f0VMR|TVqQ|UEsDB|H4sI|/Td6|KLUv"
)
_FIRST_DIGITS_BEGIN, _MIN_FIRST_DIGITS = b"74512fFcCTUHK/", 4
_MAX_PARTS = 64
_MAX_ENTRIES = 8192  # of metadata; more break the rule security-resource-count
_NAME_COLUMNS = (
    ("ValueInfoProto", "name"), ("TensorProto", "name"), ("NodeProto", "name"),
    ("TensorShapeProto.Dimension", "dim_param"),
    ("AttributeProto", "name"), ("FunctionProto", "name"), ("NodeProto", "doc_string"), ("TensorProto", "doc_string"),
)  # fmt: skip
_MIN_CODED_TEXT = 256
_CODED_TEXT = re.compile(rb"[0-9a-fA-F\s]{256,}|[A-Za-z0-9+/_-]{256,}={0,2}\s*")
_INSIDE = re.compile(
    rb"\x7fELF[\x01\x02]\x01\x01[\0-\x12]\0{7}|This program cannot be run in DOS mode"
    rb"|PK\x03\x04\x14\0[\0-\x08]\0[\0-\x08]\0|\x01CD001\x01|<\?php\s|ustar(?:\0\d\d|  \0)"
    rb"|EICAR-STANDARD-ANTIVIRUS-TEST"
)
_WORD_END = re.compile(rb"[\s(]|[\x00-\x08\x80-\xff]")
_VOCABULARY, _MAX_TOKEN_BYTES = 64, 24  # a list of that many strings has tokens of programs, which are short
# Words of letters, digits, _ and - that are shorter than a match of _ENCODED may only begin with the signatures MZ,
# MSCF, hsqs, KDMV or 070701.
_MIN_ENCODED, _FIRST_LETTERS = 12, b"MhK0"
_NON_WORD = bytes(byte for byte in range(256) if not (chr(byte).isascii() and (chr(byte).isalnum() or byte in b"_-")))
_ENCODED = re.compile(rb"(?:f0VMR[gQ]|TVqQAA|TVpQAA|UEsDB[AB]|gASV|IyEvYmlu|IyEvdXNy|H4sIA|z/rt/g)[A-Za-z0-9+/_-]{8}")


def has_program(data: bytes) -> int:
    """Return the offset of a program or archive within other bytes, -1 if none is found."""
    found = _INSIDE.search(data)
    return -1 if found is None else found.start()


def text_signature(text: bytes) -> str:
    """Return the kind of program that a text contains, encoded or not; "" for anything else."""
    if _SCRIPT.search(text):
        return "commands of a script"
    if _ENCODED.search(text):
        return "a program or archive in base64"
    return signature_of(text.lstrip()[:PREFIX_BYTES]) or _decoded_signature(text)


class Prefixes:
    """Reads the first bytes of ranges of a document; of a remote document, few that are not resident."""

    def __init__(self, facts: Facts) -> None:
        self.document = facts.document
        self.left = _MAX_REMOTE_PREFIXES
        self.is_remote = isinstance(facts.document.memory, PartialMemory)

    def read(self, start: int, length: int) -> bytes:
        """Return up to PREFIX_BYTES bytes; b"" where no more are fetched."""
        n = min(length, PREFIX_BYTES)
        if length >= _LONG_BYTES:
            if self.is_remote:
                self.left -= 1
                if self.left < 0:
                    return b""
                memory = self.document.memory
                assert memory is not None
                memory.source.fetch(memory, [(start, start + n)])
            elif self.document.descriptor >= 0 and hasattr(os, "pread"):
                # A read through the mapping would fetch megabytes around the range.
                return os.pread(self.document.descriptor, n, start)
        return bytes_at(self.document, start, start + n)

    def batches(self, rows: Any, spans: tuple[Any, Any], size: int) -> Iterator[tuple[Any, list[bytes], Any]]:
        """Yield rows, their first bytes, and a matrix of these with zeros at the end, for some rows at a time.

        spans: offset and length of the range of each row. size: the bytes of an element; only whole ones are returned.
        """
        for first in range(0, len(rows), _BATCH_TENSORS):
            batch = rows[first : first + _BATCH_TENSORS]
            places = zip(*(column[batch].tolist() for column in spans), strict=True)
            prefixes = [self.read(start, length // size * size) for start, length in places]
            padded = b"".join(prefix.ljust(PREFIX_BYTES, b"\0") for prefix in prefixes)
            yield batch, prefixes, np.frombuffer(padded, np.uint8).reshape(-1, PREFIX_BYTES)


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
    left = MAX_TOTAL_READ_BYTES
    # Unused tensors come first, since only few tensors of a remote file are read.
    for row in sorted(true_rows(tensors.has("raw_data")).tolist(), key=lambda row: not unused[row]):
        if lengths[row] >= 4:
            if lengths[row] <= min(MAX_READ_BYTES, left) and not prefixes.is_remote:
                left -= lengths[row] if lengths[row] > PREFIX_BYTES else 0
                kind = _kind_of_bytes(bytes_at(facts.document, starts[row], starts[row] + lengths[row]))
                if kind:
                    found[row] = kind
                continue
            kind = signature_of(prefixes.read(starts[row], lengths[row]))
            # A program after a page of zeros or weights, and the directory at the end of a ZIP archive.
            if not kind and lengths[row] > _PAGE_BYTES and not prefixes.is_remote:
                kind = signature_of(prefixes.read(starts[row] + _PAGE_BYTES, lengths[row] - _PAGE_BYTES))
            if not kind and lengths[row] > _ZIP_END_BYTES and not prefixes.is_remote:
                n = min(lengths[row], PREFIX_BYTES)
                kind = _kind_of_end(prefixes.read(starts[row] + lengths[row] - n, n))
            if kind:
                found[row] = kind
    found.update(_typed_payloads(facts))
    yield tensors.at(found, "the data of tensor {name!r} is {kind}; do not extract or run it", kind=found)


def _kind_of_bytes(data: bytes) -> str:
    """Return what the data of a tensor are, if it is a program or archive."""
    kind = signature_of(data[:PREFIX_BYTES])
    if not kind and len(data) > _PAGE_BYTES:
        kind = signature_of(data[_PAGE_BYTES : _PAGE_BYTES + PREFIX_BYTES])
    if not kind and len(data) > _ZIP_END_BYTES:
        kind = _kind_of_end(data[-PREFIX_BYTES:])
    if not kind and len(data) > PREFIX_BYTES and _INSIDE.search(data):
        kind = "a program or archive between other data"
    return kind


def _kind_of_end(tail: bytes) -> str:
    """Return what the last bytes of a tensor are: the directory of a ZIP archive, or a program written backwards."""
    return signature_of(tail[-_ZIP_END_BYTES:]) or _backwards_kind(tail)


@rule("security-payload-float", "TensorProto")
def float_payload(facts: Facts) -> Iterator[Finding]:
    """Yield tensors of floats whose bits carry something else."""
    tensors, prefixes = facts.TensorProto, facts.derive(Prefixes)
    spans = tensors.span("raw_data")
    found = _low_byte_payloads(facts)
    rows = true_rows((tensors.data_type == TensorProto.FLOAT) & (spans[1] >= 128))
    for batch, data, matrix in prefixes.batches(rows, spans, 4):
        for i in true_rows(_may_carry_bytes(matrix)).tolist():
            if int(batch[i]) not in found and (kind := _kind_of_floats(data[i])):
                found[int(batch[i])] = kind
    yield tensors.at(found, "tensor {name!r} has {kind}; do not extract or run it", kind=found)


def _may_carry_bytes(matrix: Any) -> Any:
    """Return whether the first bytes of tensors of floats, in rows, may be something else; see `_kind_of_floats`."""
    bits, floats = matrix.view("<u4"), matrix.view("<f4")
    result = ((bits & 0x7FFFFFFF) > 0x7F800000).sum(axis=1) >= _MIN_NANS
    result |= ((floats >= 0) & (floats <= 255) & (floats == np.trunc(floats))).all(axis=1)
    lowest = (matrix[:, ::4] & 1)[:, :24]
    for content in (np.packbits(lowest, axis=1), np.packbits(lowest, axis=1, bitorder="little")):
        result |= may_have_signature(content)
    return result


def _kind_of_floats(prefix: bytes) -> str:
    """Return what the first elements of a tensor of floats carry: NaNs, bytes, or a format in their lowest bits."""
    bits = np.frombuffer(prefix, "<u4")
    nans = bits[(bits & 0x7F800000 == 0x7F800000) & (bits & 0x7FFFFF != 0)]
    if len(np.unique(nans)) >= _MIN_NANS:
        return f"NaNs with {len(np.unique(nans)):,} different contents among its first elements"
    found = _byte_kind(bits.view("<f4"))
    if found:
        found = f"{found}, a byte in each element,"
    for content in (
        np.packbits(bits.astype(np.uint8) & 1),
        np.packbits(bits.astype(np.uint8) & 1, bitorder="little"),
    ):
        kind = long_signature(content.tobytes())
        if kind:
            found = f"{kind} in the lowest bits of its elements"
    return found


def _low_byte_payloads(facts: Facts) -> dict[int, str]:
    """Return the tensors whose low bytes of each element are a program or archive, by row.

    The bytes of an element are taken from the lowest one on, or backwards. A program between others is searched by the
    longest signatures only.
    """
    tensors, prefixes = facts.TensorProto, facts.derive(Prefixes)
    starts, lengths = (column.tolist() for column in tensors.span("raw_data"))
    found = {}
    left = _MAX_CARRIER_BYTES
    sizes = np.zeros(256, np.int8)
    sizes[list(_CARRIERS)] = list(_CARRIERS.values())
    sizes = sizes[np.clip(tensors.data_type, 0, 255)]
    rows = true_rows((sizes > 0) & (tensors.span("raw_data")[1] >= _MIN_CARRIER_BYTES))
    for row, size in zip(rows.tolist(), sizes[rows].tolist(), strict=True):
        prefix = prefixes.read(starts[row], lengths[row])
        if not prefix:
            continue
        whole = b""
        if left >= lengths[row] and not prefixes.is_remote:
            left -= lengths[row]
            whole = bytes_at(facts.document, starts[row], starts[row] + lengths[row])
        for n in range(1, size):
            if kind := _strided_kind(prefix, size, n) or (whole and _strided_program(whole, size, n)):
                found[row] = f"{kind} in the lowest {count_text(n, 'byte')} of its elements"
                break
    return found


def _strided(data: bytes, size: int, n: int) -> Iterator[bytes]:
    """Yield the lowest n bytes of each element, in both orders; of elements of size bytes."""
    elements = np.frombuffer(data, np.uint8, len(data) // size * size).reshape(-1, size)
    yield elements[:, :n].tobytes()
    if n > 1:
        yield elements[:, n - 1 :: -1].tobytes()


def _strided_kind(prefix: bytes, size: int, n: int) -> str:
    # The first two bytes distinguish nearly all weights from programs.
    second = prefix[1:2] if n > 1 else prefix[size : size + 1]
    backwards = prefix[n - 1 : n] + prefix[n - 2 : n - 1] if n > 1 else b""
    if prefix[:1] + second not in _FIRST_BYTES and backwards not in _FIRST_BYTES:
        return ""
    return next(filter(None, map(long_signature, _strided(prefix, size, n))), "")


def _strided_program(data: bytes, size: int, n: int) -> str:
    for content in _strided(data, size, n):
        if b"\x7fELF\x02\x01\x01" in content or b"cannot be run in DOS mode" in content:
            return "a program"
    return ""


def _typed_payloads(facts: Facts) -> dict[int, str]:
    """Return the kinds of programs and archives in tensors whose elements are in lists, by row."""
    tensors = facts.TensorProto
    filled = tensors.has("raw_data") | (tensors.length > _MAX_TYPED_BYTES) | (tensors.length < _MIN_TYPED_BYTES)
    found = {}
    for row in true_rows(~filled & (tensors.flags & MERGED == 0))[:_MAX_TYPED_TENSORS].tolist():
        start = int(tensors.start[row])
        data = bytes_at(facts.document, start, start + int(tensors.length[row]))
        tensor = TensorProto.FromString(data)
        if len(tensor.string_data):
            kind = _text_kind(list(tensor.string_data))
        else:
            try:
                array = tensor.numpy().reshape(-1)
                kind = signature_of(array.tobytes()[:PREFIX_BYTES]) or _byte_kind(array)
            except Exception:  # a damaged tensor, which other rules report
                continue
        if kind:
            found[row] = kind
    return found


def _text_kind(strings: list[bytes]) -> str:
    """Return what a list of strings contains, if it is a program or archive."""
    # A single word, such as the label `os.system` or the token `<script>`, is not a command.
    least = _MAX_TOKEN_BYTES if len(strings) >= _VOCABULARY else 0
    texts = [text for text in strings if len(text) >= least and _WORD_END.search(text)]
    kind = next(filter(None, map(text_signature, texts)), "") or next(
        filter(None, map(_decoded_signature, strings)), ""
    )
    return kind or _decoded_signature(b"".join(strings[:_MAX_CODED_BYTES])[:_MAX_CODED_BYTES])


def _byte_kind(numbers: Any) -> str:
    """Return what numbers are as bytes, if all of the first are from 0 to 255."""
    first = numbers[:PREFIX_BYTES]
    if first.dtype.kind not in "iuf" or len(first) < _MIN_TYPED_BYTES:
        return ""
    first = first[: PREFIX_BYTES // 4] if len(first) > PREFIX_BYTES // 4 else first
    if (
        not np.isfinite(first).all()
        or (first < 0).any()
        or (first > 255).any()
        or (first != first.astype(np.uint8)).any()
    ):
        return ""
    return long_signature(first.astype(np.uint8).tobytes())


@rule("security-payload-encoded")
def encoded(facts: Facts) -> Iterator[Finding]:
    """Yield values of metadata that are bytes in base64 or hexadecimal digits."""
    if "StringStringEntryProto" in facts.present:
        entries = facts.StringStringEntryProto
        long = true_rows(facts.derive(TextBytes).lengths[entries.value] >= _MIN_CODED_TEXT)
        rows = [
            row
            for row, id in zip(long.tolist(), entries.value[long].tolist(), strict=True)
            if _CODED_TEXT.fullmatch(facts.columns.raw_text(id)[:_MAX_TEXT])
        ]
        yield entries.at(rows, "the value of {key!r} is bytes in base64 or hexadecimal, which cannot be reviewed")


@rule("security-payload-long-text")
def long_text(facts: Facts) -> Iterator[Finding]:
    """Yield texts that are longer than documentation."""
    long = true_rows((facts.derive(TextBytes).lengths > _LONG_TEXT) & (facts.traits & IDENTIFIER == 0))
    columns = {"StringStringEntryProto": "value"} | dict.fromkeys(
        ("ModelProto", "GraphProto", "NodeProto", "TensorProto", "ValueInfoProto", "FunctionProto", "AttributeProto"),
        "doc_string",
    )
    for type_name, field in columns.items() if len(long) else ():
        if type_name in facts.present:
            sheet = facts[type_name]
            yield sheet.at(
                np.isin(getattr(sheet, field), long), f"{field} has more than 64 KiB, more than documentation needs"
            )


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
    is_list = attributes.has("strings") | attributes.has("ints")
    is_list &= (attributes.length >= _MIN_TYPED_BYTES) & (attributes.length <= _MAX_TYPED_BYTES)
    for row in true_rows(is_list & (attributes.flags & MERGED == 0))[:_MAX_TYPED_TENSORS].tolist():
        start = int(attributes.start[row])
        message = AttributeProto.FromString(bytes_at(facts.document, start, start + int(attributes.length[row])))
        kind = _text_kind(list(message.strings)) if len(message.strings) else _byte_kind(np.asarray(message.ints))
        if kind:
            found[row] = kind
    yield attributes.at(found, "the value of attribute {name!r} is {kind}; do not extract or run it", kind=found)


@rule("security-payload-text")
def text_payload(facts: Facts) -> Iterator[Finding]:
    """Yield texts that contain programs: documentation, metadata, names and all others."""
    table: dict[int, str] = {}
    texts = facts.derive(TextBytes)
    is_short = (facts.traits & IDENTIFIER != 0) & (texts.lengths < MIN_CODED_BYTES)
    is_word = ~texts.have(_NON_WORD) & (texts.lengths < _MIN_ENCODED) & ~texts.have_at(0, _FIRST_LETTERS)
    for id in true_rows(~is_short & ~is_word).tolist():
        text = facts.columns.raw_text(id)[:_MAX_TEXT]
        kind = _decoded_signature(text) if facts.traits[id] & IDENTIFIER else text_signature(text)
        if kind:
            table[id] = kind
    if table:
        ids_ = list(table)
        for type_name in facts.columns.sheet_names:
            if type_name not in facts.present:
                continue
            sheet = facts[type_name]
            for field in sheet.fields:
                _, column = facts.columns.field_column(type_name, field)
                name = f"{type_name}.{field}"
                if column == "TEXT":
                    ids = getattr(sheet, field)
                    yield sheet.at(
                        np.isin(ids, ids_),
                        f"{field} contains {{kind}}; do not run it",
                        kind=lambda row, ids=ids: table[int(ids[row])],
                    )
                elif column == "LIST" and name in facts.present and facts.columns.is_text_list(type_name, field):
                    elements = facts.lists(name)
                    yield elements.at(
                        np.isin(elements.value, ids_),
                        "this contains {kind}; do not run it",
                        kind=lambda row, ids=elements.value: table[int(ids[row])],
                    )
    yield from _divided_texts(facts)
    yield from _divided_names(facts)


def _divided_texts(facts: Facts) -> Iterator[Finding]:
    """Yield the first of several values of metadata that are a program together."""
    if "StringStringEntryProto" not in facts.present:
        return
    entries = facts.StringStringEntryProto
    rows = true_rows(entries.under("ModelProto.metadata_props"))[:_MAX_ENTRIES]
    parts = [facts.columns.raw_text(id) for id in entries.value[rows].tolist()]
    previous = b""
    for first, part in enumerate(parts):
        if len(part) >= MIN_CODED_BYTES or not _BASE64.fullmatch(part):
            continue
        joined = b"".join(parts[first : first + 64])[:_MAX_CODED_BYTES]
        kind = _decoded_signature(joined) if joined != previous else ""  # a hostile file has many equal values
        previous = joined
        if kind:
            yield entries.at(rows[first : first + 1], f"this and the values after it are {kind}; do not run it")
            break


def _divided_names(facts: Facts) -> Iterator[Finding]:
    """Yield the first of several names that are a program together."""
    texts = facts.derive(TextBytes)
    candidates = texts.have_at(0, _FIRST_DIGITS_BEGIN) & (texts.lengths >= _MIN_FIRST_DIGITS)
    starts = [id for id in true_rows(candidates).tolist() if _FIRST_DIGITS.match(facts.columns.raw_text(id)[:16])]
    for type_name, field in _NAME_COLUMNS if starts else ():
        if f"{type_name}.{field}" not in facts.present:
            continue
        sheet = facts[type_name]
        ids = getattr(sheet, field)
        ids = ids[ids > 0]
        for first in true_rows(np.isin(ids, starts))[:_MAX_PARTS].tolist():
            parts = [facts.columns.raw_text(id) for id in ids[first : first + _MAX_PARTS].tolist()]
            coded = next((i for i, part in enumerate(parts) if not _BASE64.fullmatch(part)), len(parts))
            kind = _decoded_signature(b"".join(parts[:coded])[:_MAX_CODED_BYTES]) if coded > 1 else ""
            if kind:
                rows = true_rows(getattr(sheet, field) == ids[first])[:1]
                yield sheet.at(rows, f"the names from this {field} on are {kind} together; do not run it")
                break


def _decoded_signature(text: bytes) -> str:
    """Return what a text is in another encoding, if it is a program, an archive or commands."""
    for decoded in (*decodings(text), *inner_decodings(text)):
        if is_text(decoded) and _SCRIPT.search(decoded):
            return "commands of a script in another encoding"
        if kind := long_signature(decoded) or _backwards_kind(decoded):
            return f"{kind} in another encoding"
    return ""


def _backwards_kind(data: bytes) -> str:
    """Return what bytes are backwards, by signatures that other bytes do not have by chance."""
    kind = long_signature(data[: -PREFIX_BYTES - 1 : -1]) if data[-1:] + data[-2:-1] in _FIRST_BYTES else ""
    return f"{kind} backwards" if kind else ""


def long_signature(prefix: bytes) -> str:
    """Return what bytes are, by signatures that other bytes do not have by chance."""
    kind = signature_of(prefix)
    return "" if kind in _SHORT_SIGNATURES and not (prefix[:2] == b"MZ" and b"DOS mode" in prefix) else kind


@rule("security-payload-polyglot", "ModelProto")
def polyglot(facts: Facts) -> Iterator[Finding]:
    """Yield a model whose first bytes are those of another format."""
    head = bytes_at(facts.document, 0, min(len(facts.document), 16))
    kind = next((kind for at, magic, kind in _OTHER_FORMATS if head[at : at + len(magic)] == magic), "")
    if kind and facts.columns.is_placed:
        yield facts.ModelProto.each(
            {0: f"the file begins as {kind}, so programs that look at its first bytes misread it"}
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
    tensors, live = facts.TensorProto, facts.derive(Liveness)
    size, unread = tensors.length, facts.derive(_unused)
    is_large = size >= _MIN_UNUSED_BYTES
    yield tensors.at(
        unread & is_large,
        "nothing reads tensor {name!r} of {length:,} bytes, so it may contain any data; remove it",
    )
    yield tensors.at(
        live.is_dead_tensor & ~unread & is_large,
        "no output depends on tensor {name!r} of {length:,} bytes, so it may contain any data; remove it",
    )
    # A payload may be divided among tensors.
    parts = true_rows((live.is_dead_tensor | unread) & ~is_large & (size >= _MIN_PART_BYTES))
    if size[parts].sum() >= _MIN_UNUSED_BYTES:
        yield tensors.at(
            parts[:1],
            "no output depends on tensor {name!r} and {count:,} more of some kilobytes, which may contain any data; "
            "remove them",
            count=lambda _: len(parts) - 1,
        )
    if "AttributeProto.t" in facts.present:
        attributes = facts.AttributeProto
        large = true_rows(tensors.under("AttributeProto.t") & is_large)
        owners = np.where(attributes.under("NodeProto.attribute"), attributes.parent, -1)[tensors.parent[large]]
        is_dead = np.append(live.is_dead_node, False)
        yield tensors.at(
            large[is_dead[owners]],
            "no output depends on this constant of {length:,} bytes, so it can be anything; remove it",
        )

    if facts.FunctionProto.n:
        functions = facts.FunctionProto
        is_called = np.zeros(functions.n + 1, bool)
        is_called[facts.derive(Calls).function] = True
        uncalled = true_rows(~is_called[:-1])
        if len(uncalled) >= _MIN_UNCALLED or functions.length[uncalled].sum() >= _MIN_UNUSED_BYTES:
            yield functions.at(
                uncalled[:1],
                "nothing calls this function, {count:,} functions in all, so they can be anything; remove them",
                count=lambda _: len(uncalled),
            )
