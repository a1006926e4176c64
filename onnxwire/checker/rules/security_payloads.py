"""Rules of security: programs and archives inside a model, long or encoded texts, unused weights and functions.

raw_data of at most 256 KiB is read completely, up to a total of 8 MiB. Of other raw_data, 512 bytes each are read at
the beginning, at byte 4,096 and at the end. Of raw_data on servers, strings of attributes and unknown fields, only the
first 512 bytes are read. The rule of low bytes and the rules of texts and lists have limits of their own.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from onnxwire.checker.facts import EMPTY, IDENTIFIER, MERGED, Facts, Finding, true_rows
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
_ZIP_END_BYTES = 22  # size of the end record of a ZIP archive's directory without a comment
_LONG_BYTES = 1 << 16  # values of at least this size are possibly not in memory
_MAX_REMOTE_PREFIXES = 16  # maximum number of ranges of a remote file that are fetched
_MAX_TEXT_BYTES = 1 << 16  # maximum number of bytes of a text that are searched
_MIN_UNUSED_BYTES = 1 << 16  # minimum size, alone or together, of unused tensors or functions that are reported
_MIN_PART_BYTES = 1 << 10  # minimum size of a tensor that counts as a part of hidden data
_MIN_UNCALLED = 50  # minimum number of uncalled functions that are reported whatever their size
_MIN_NANS = 4  # minimum number of different NaNs that are reported
_BATCH_TENSORS = 1024  # tensors whose first bytes are tested together
# Formats with signatures so short that other bytes may begin with them by chance.
_SHORT_SIGNATURES = ("a Windows program", "a gzip archive", "compiled Python code")
_MAX_TYPED_BYTES = 1 << 16  # maximum size of a tensor or attribute whose lists are decoded
_MIN_TYPED_BYTES = 32  # minimum size of such a message, and minimum number of its numbers
_MAX_TYPED_TENSORS = 100_000  # maximum number of such tensors, and of such attributes
_LONG_TEXT_BYTES = 1 << 16  # longer texts are reported
_MAX_CODED_BYTES = 1024  # maximum number of bytes of joined texts that are decoded
_MIN_CARRIER_BYTES = 128  # minimum size of raw_data whose numbers are searched for hidden bytes
_MAX_CARRIER_BYTES = 1 << 20  # maximum total size of tensors whose low bytes are searched beyond the first elements
# The sizes of elements whose value depends little on the low bytes, by data type: integers and floats.
_CARRIERS = {1: 4, 6: 4, 7: 8, 10: 2, 11: 8, 12: 4, 13: 8, 16: 2}
# The first two bytes of formats that are searched backwards and in the low bytes of elements.
_FIRST_BYTES = frozenset(
    (b"\x7fE", b"MZ", b"\xfe\xed", b"\xce\xfa", b"\xcf\xfa", b"\xca\xfe", b"PK", b"7z", b"Ra", b"\xfd7", b"\0a", b"de")
    + (b"\x80\2", b"\x80\3", b"\x80\4", b"\x80\5", b"#!", b"\x28\xb5", b"BZ", b"%P")
)
_BASE64 = re.compile(rb"[A-Za-z0-9+/_\r\n-]+={0,2}")
# Formats that programs may recognize in a model: the offset of the signature, the signature, and the format.
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
# Commands of scripts, and test files of antivirus programs.
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
# The first characters of matches of _FIRST_DIGITS, and the minimum length of a match.
_FIRST_DIGITS_BEGIN, _MIN_FIRST_DIGITS = b"74512fFcCTUHK/", 4
# Maximum number of successive texts that are joined, and of texts per column that are tested as the first of them.
_MAX_PARTS = 64
_MAX_ENTRIES = 8192  # maximum number of entries of metadata that are searched; more violate security-resource-count
# Columns of texts among which a program may be divided.
_TEXT_COLUMNS = (
    ("ValueInfoProto", "name"), ("TensorProto", "name"), ("NodeProto", "name"),
    ("TensorShapeProto.Dimension", "dim_param"),
    ("AttributeProto", "name"), ("FunctionProto", "name"), ("NodeProto", "doc_string"), ("TensorProto", "doc_string"),
)  # fmt: skip
# A value of metadata that is bytes in hexadecimal or base64: its minimum length, and its pattern.
_MIN_CODED_TEXT_BYTES = 256
_CODED_TEXT = re.compile(rb"[0-9a-fA-F\s]{256,}|[A-Za-z0-9+/_-]{256,}={0,2}\s*")
# Signatures that are long enough to be searched within other bytes.
_INSIDE = re.compile(
    rb"\x7fELF[\x01\x02]\x01\x01[\0-\x12]\0{7}|This program cannot be run in DOS mode"
    rb"|PK\x03\x04\x14\0[\0-\x08]\0[\0-\x08]\0|\x01CD001\x01|<\?php\s|ustar(?:\0\d\d|  \0)"
    rb"|EICAR-STANDARD-ANTIVIRUS-TEST"
)
# A character that a single word does not contain.
_WORD_END = re.compile(rb"[\s(]|[\x00-\x08\x80-\xff]")
# A list of at least _MIN_VOCABULARY strings may be a vocabulary; its strings of less than _MIN_PHRASE_BYTES bytes are
# then tokens.
_MIN_VOCABULARY, _MIN_PHRASE_BYTES = 64, 24
# Of all signatures, only MZ, MSCF, hsqs, KDMV, 070701 and 070702 can begin a word of letters, digits, _ and - that is
# shorter than a match of _ENCODED. Therefore such a word is searched only if it begins with one of _FIRST_LETTERS.
_MIN_ENCODED_BYTES, _FIRST_LETTERS = 12, b"MhK0"
# All bytes except letters, digits, _ and -.
_NON_WORD = bytes(byte for byte in range(256) if not (chr(byte).isascii() and (chr(byte).isalnum() or byte in b"_-")))
# The first characters of programs and archives in base64.
_ENCODED = re.compile(rb"(?:f0VMR[gQ]|TVqQAA|TVpQAA|UEsDB[AB]|gASV|IyEvYmlu|IyEvdXNy|H4sIA|z/rt/g)[A-Za-z0-9+/_-]{8}")


def find_program(data: bytes) -> int:
    """Return the offset of a signature of a program or archive within other bytes, -1 if there is none."""
    match = _INSIDE.search(data)
    return -1 if match is None else match.start()


def text_signature(text: bytes) -> str:
    """Return the kind of program, archive, document or commands in a text, encoded or not; "" for none."""
    if _SCRIPT.search(text):
        return "commands of a script"
    if _ENCODED.search(text):
        return "a program or archive in base64"
    return signature_of(text.lstrip()[:PREFIX_BYTES]) or _decoded_signature(text)


class Prefixes:
    """Reads the first bytes of ranges of a document. Few ranges of a remote document are fetched."""

    def __init__(self, facts: Facts) -> None:
        self.document = facts.document
        self.n_reads_left = _MAX_REMOTE_PREFIXES
        self.is_remote = isinstance(facts.document.memory, PartialMemory)

    def read(self, start: int, length: int) -> bytes:
        """Return up to PREFIX_BYTES first bytes of a range; b"" if no more ranges of a remote file are fetched."""
        n = min(length, PREFIX_BYTES)
        if length >= _LONG_BYTES:
            if self.is_remote:
                self.n_reads_left -= 1
                if self.n_reads_left < 0:
                    return b""
                memory = self.document.memory
                assert memory is not None
                memory.source.fetch(memory, [(start, start + n)])
            elif self.document.descriptor >= 0 and hasattr(os, "pread"):
                # A read through the mapping would fetch megabytes around the range.
                return os.pread(self.document.descriptor, n, start)
        return bytes_at(self.document, start, start + n)

    def batches(self, rows: Any, spans: tuple[Any, Any], size: int) -> Iterator[tuple[Any, list[bytes], Any]]:
        """Yield batches of rows, their first bytes, and a matrix of the first bytes, padded with zeros.

        spans: the offset and the length of each row's range. size: the size of an element in bytes; only whole elements
        are returned. The matrix is (rows, PREFIX_BYTES) uint8.
        """
        for start_row in range(0, len(rows), _BATCH_TENSORS):
            batch = rows[start_row : start_row + _BATCH_TENSORS]
            ranges = zip(*(column[batch].tolist() for column in spans), strict=True)
            prefixes = [self.read(start, length // size * size) for start, length in ranges]
            padded = b"".join(prefix.ljust(PREFIX_BYTES, b"\0") for prefix in prefixes)
            yield batch, prefixes, np.frombuffer(padded, np.uint8).reshape(-1, PREFIX_BYTES)


def _are_unread(facts: Facts) -> Any:
    """Return whether each TensorProto is an initializer whose name no node input and no graph output has.

    A name that is the key or value of a StringStringEntryProto counts as read, and so does the empty name.
    """
    tensors = facts.TensorProto
    is_used = np.zeros(facts.columns.text_count(), bool)
    is_used[EMPTY] = True
    if "NodeProto.input" in facts.present:
        is_used[facts.lists("NodeProto.input").value] = True
    infos = facts.ValueInfoProto
    is_used[infos.name[infos.under("GraphProto.output")]] = True
    if "StringStringEntryProto" in facts.present:
        is_used[facts.StringStringEntryProto.value] = True  # training bindings and quantization
        is_used[facts.StringStringEntryProto.key] = True
    return tensors.under("GraphProto.initializer") & ~is_used[tensors.name]


@rule("security-payload-tensor", "TensorProto")
def tensor_payload(facts: Facts) -> Iterator[Finding]:
    """Yield tensors whose data is, or contains, a program or archive."""
    tensors, prefixes = facts.TensorProto, facts.derive(Prefixes)
    starts, lengths = (column.tolist() for column in tensors.span("raw_data"))
    is_unread = facts.derive(_are_unread).tolist()
    kinds = {}
    bytes_left = MAX_TOTAL_READ_BYTES
    # Unused tensors come first, since only few tensors of a remote file are read.
    for row in sorted(true_rows(tensors.has("raw_data")).tolist(), key=lambda row: not is_unread[row]):
        if lengths[row] >= 4:
            if lengths[row] <= min(MAX_READ_BYTES, bytes_left) and not prefixes.is_remote:
                bytes_left -= lengths[row] if lengths[row] > PREFIX_BYTES else 0
                kind = _kind_of_bytes(bytes_at(facts.document, starts[row], starts[row] + lengths[row]))
                if kind:
                    kinds[row] = kind
                continue
            kind = signature_of(prefixes.read(starts[row], lengths[row]))
            # A program after a page of zeros or weights; the end of a ZIP archive, or of a format in reverse order.
            if not kind and lengths[row] > _PAGE_BYTES and not prefixes.is_remote:
                kind = signature_of(prefixes.read(starts[row] + _PAGE_BYTES, lengths[row] - _PAGE_BYTES))
            if not kind and lengths[row] > _ZIP_END_BYTES and not prefixes.is_remote:
                n = min(lengths[row], PREFIX_BYTES)
                kind = _kind_of_end(prefixes.read(starts[row] + lengths[row] - n, n))
            if kind:
                kinds[row] = kind
    kinds.update(_typed_payloads(facts))
    yield tensors.at(kinds, "the data of tensor {name!r} contains {kind}; do not extract or run it", kind=kinds)


def _kind_of_bytes(data: bytes) -> str:
    """Return the kind of program or archive that the data of a tensor are or contain; "" for none."""
    kind = signature_of(data[:PREFIX_BYTES])
    if not kind and len(data) > _PAGE_BYTES:
        kind = signature_of(data[_PAGE_BYTES : _PAGE_BYTES + PREFIX_BYTES])
    if not kind and len(data) > _ZIP_END_BYTES:
        kind = _kind_of_end(data[-PREFIX_BYTES:])
    if not kind and len(data) > PREFIX_BYTES and _INSIDE.search(data):
        kind = "a program or archive between other data"
    return kind


def _kind_of_end(tail: bytes) -> str:
    """Return the format of the last bytes of a tensor: the end of a ZIP archive, or a format in reverse order."""
    return signature_of(tail[-_ZIP_END_BYTES:]) or _kind_of_reversed_bytes(tail)


@rule("security-payload-float", "TensorProto")
def float_payload(facts: Facts) -> Iterator[Finding]:
    """Yield tensors of numbers whose bits contain a program, an archive or other data."""
    tensors, prefixes = facts.TensorProto, facts.derive(Prefixes)
    spans = tensors.span("raw_data")
    kinds = _low_byte_payloads(facts)
    rows = true_rows((tensors.data_type == TensorProto.FLOAT) & (spans[1] >= _MIN_CARRIER_BYTES))
    for batch, data, matrix in prefixes.batches(rows, spans, 4):
        for i in true_rows(_may_carry_bytes(matrix)).tolist():
            if int(batch[i]) not in kinds and (kind := _kind_of_floats(data[i])):
                kinds[int(batch[i])] = kind
    yield tensors.at(kinds, "tensor {name!r} has {kind}; do not extract or run it", kind=kinds)


def _may_carry_bytes(matrix: Any) -> Any:
    """Return whether `_kind_of_floats` may describe each tensor. matrix: the first bytes of each tensor in a row."""
    bits, floats = matrix.view("<u4"), matrix.view("<f4")
    # In a NaN, the bits without the sign are greater than those of infinity.
    result = ((bits & 0x7FFFFFFF) > 0x7F800000).sum(axis=1) >= _MIN_NANS
    result |= ((floats >= 0) & (floats <= 255) & (floats == np.trunc(floats))).all(axis=1)
    lowest_bits = (matrix[:, ::4] & 1)[:, :24]  # three bytes, the minimum for `may_have_signature`
    for content in (np.packbits(lowest_bits, axis=1), np.packbits(lowest_bits, axis=1, bitorder="little")):
        result |= may_have_signature(content)
    return result


def _kind_of_floats(prefix: bytes) -> str:
    """Describe the data in the first elements of a tensor of floats: NaNs, bytes, or a format in the lowest bits."""
    bits = np.frombuffer(prefix, "<u4")
    # The bits of the exponent, and the bits of the mantissa.
    nans = bits[(bits & 0x7F800000 == 0x7F800000) & (bits & 0x7FFFFF != 0)]
    if len(np.unique(nans)) >= _MIN_NANS:
        return f"NaNs with {len(np.unique(nans)):,} different contents among its first elements"
    description = _kind_of_byte_values(bits.view("<f4"))
    if description:
        description = f"{description} with one byte in each element"
    for content in (
        np.packbits(bits.astype(np.uint8) & 1),
        np.packbits(bits.astype(np.uint8) & 1, bitorder="little"),
    ):
        kind = long_signature(content.tobytes())
        if kind:
            description = f"{kind} in the lowest bits of its elements"
    return description


def _low_byte_payloads(facts: Facts) -> dict[int, str]:
    """Return descriptions of the programs and archives in the low bytes of tensors' elements, by row.

    The bytes of an element are in order from the lowest one, or in reverse order. Beyond the first elements, only ELF
    and Windows programs are searched, and only in _MAX_CARRIER_BYTES bytes of a local document.
    """
    tensors, prefixes = facts.TensorProto, facts.derive(Prefixes)
    starts, lengths = (column.tolist() for column in tensors.span("raw_data"))
    kinds = {}
    bytes_left = _MAX_CARRIER_BYTES
    sizes = np.zeros(256, np.int8)
    sizes[list(_CARRIERS)] = list(_CARRIERS.values())
    sizes = sizes[np.clip(tensors.data_type, 0, 255)]
    rows = true_rows((sizes > 0) & (tensors.span("raw_data")[1] >= _MIN_CARRIER_BYTES))
    for row, size in zip(rows.tolist(), sizes[rows].tolist(), strict=True):
        prefix = prefixes.read(starts[row], lengths[row])
        if not prefix:
            continue
        content = b""
        if bytes_left >= lengths[row] and not prefixes.is_remote:
            bytes_left -= lengths[row]
            content = bytes_at(facts.document, starts[row], starts[row] + lengths[row])
        for n in range(1, size):
            if kind := _kind_of_low_bytes(prefix, size, n) or (content and _program_in_low_bytes(content, size, n)):
                kinds[row] = f"{kind} in the lowest {'byte' if n == 1 else f'{n} bytes'} of its elements"
                break
    return kinds


def _low_bytes(data: bytes, size: int, n: int) -> Iterator[bytes]:
    """Yield the lowest n bytes of all elements, in both orders. size: the size of an element in bytes."""
    elements = np.frombuffer(data, np.uint8, len(data) // size * size).reshape(-1, size)
    yield elements[:, :n].tobytes()
    if n > 1:
        yield elements[:, n - 1 :: -1].tobytes()


def _kind_of_low_bytes(prefix: bytes, size: int, n: int) -> str:
    """Return the format of the lowest n bytes of the first elements; "" for none."""
    # The first two bytes distinguish nearly all weights from programs.
    second_byte = prefix[1:2] if n > 1 else prefix[size : size + 1]
    reversed_pair = prefix[n - 1 : n] + prefix[n - 2 : n - 1] if n > 1 else b""
    if prefix[:1] + second_byte not in _FIRST_BYTES and reversed_pair not in _FIRST_BYTES:
        return ""
    return next(filter(None, map(long_signature, _low_bytes(prefix, size, n))), "")


def _program_in_low_bytes(data: bytes, size: int, n: int) -> str:
    """Return "a program" if the lowest n bytes of all elements contain one, otherwise ""."""
    for content in _low_bytes(data, size, n):
        if b"\x7fELF\x02\x01\x01" in content or b"cannot be run in DOS mode" in content:
            return "a program"
    return ""


def _typed_payloads(facts: Facts) -> dict[int, str]:
    """Return the kinds of programs and archives in tensors whose elements are not in raw_data, by row."""
    tensors = facts.TensorProto
    is_skipped = tensors.has("raw_data") | (tensors.length > _MAX_TYPED_BYTES) | (tensors.length < _MIN_TYPED_BYTES)
    kinds = {}
    for row in true_rows(~is_skipped & (tensors.flags & MERGED == 0))[:_MAX_TYPED_TENSORS].tolist():
        start = int(tensors.start[row])
        data = bytes_at(facts.document, start, start + int(tensors.length[row]))
        tensor = TensorProto.FromString(data)
        if len(tensor.string_data):
            kind = _kind_of_strings(list(tensor.string_data))
        else:
            try:
                array = tensor.numpy().reshape(-1)
                kind = signature_of(array.tobytes()[:PREFIX_BYTES]) or _kind_of_byte_values(array)
            except Exception:  # a damaged tensor, which other rules report
                continue
        if kind:
            kinds[row] = kind
    return kinds


def _kind_of_strings(strings: list[bytes]) -> str:
    """Return the kind of program or archive that a list of strings contains; "" for none."""
    # A single word, such as the label `os.system` or the token `<script>`, is not a command.
    min_bytes = _MIN_PHRASE_BYTES if len(strings) >= _MIN_VOCABULARY else 0
    texts = [text for text in strings if len(text) >= min_bytes and _WORD_END.search(text)]
    kind = next(filter(None, map(text_signature, texts)), "") or next(
        filter(None, map(_decoded_signature, strings)), ""
    )
    return kind or _decoded_signature(b"".join(strings[:_MAX_CODED_BYTES])[:_MAX_CODED_BYTES])


def _kind_of_byte_values(numbers: Any) -> str:
    """Return the format of bytes that are stored as one number each; "" for none.

    Returns "" also for fewer than 32 numbers, and if one of the first numbers is not an integer from 0 to 255.
    """
    first_numbers = numbers[:PREFIX_BYTES]
    if first_numbers.dtype.kind not in "iuf" or len(first_numbers) < _MIN_TYPED_BYTES:
        return ""
    first_numbers = first_numbers[: PREFIX_BYTES // 4]
    if (
        not np.isfinite(first_numbers).all()
        or (first_numbers < 0).any()
        or (first_numbers > 255).any()
        or (first_numbers != first_numbers.astype(np.uint8)).any()
    ):
        return ""
    return long_signature(first_numbers.astype(np.uint8).tobytes())


@rule("security-payload-encoded")
def encoded(facts: Facts) -> Iterator[Finding]:
    """Yield entries whose values, or their first 64 KiB, are bytes in base64 or hexadecimal digits."""
    if "StringStringEntryProto" in facts.present:
        entries = facts.StringStringEntryProto
        long_rows = true_rows(facts.derive(TextBytes).lengths[entries.value] >= _MIN_CODED_TEXT_BYTES)
        rows = [
            row
            for row, id in zip(long_rows.tolist(), entries.value[long_rows].tolist(), strict=True)
            if _CODED_TEXT.fullmatch(facts.columns.raw_text(id)[:_MAX_TEXT_BYTES])
        ]
        yield entries.at(rows, "the value of {key!r} is bytes in base64 or hexadecimal, which cannot be reviewed")


@rule("security-payload-long-text")
def long_text(facts: Facts) -> Iterator[Finding]:
    """Yield messages with a documentation string or metadata value of more than 64 KiB."""
    long_ids = true_rows((facts.derive(TextBytes).lengths > _LONG_TEXT_BYTES) & (facts.traits & IDENTIFIER == 0))
    columns = {"StringStringEntryProto": "value"} | dict.fromkeys(
        ("ModelProto", "GraphProto", "NodeProto", "TensorProto", "ValueInfoProto", "FunctionProto", "AttributeProto"),
        "doc_string",
    )
    for type_name, field in columns.items() if len(long_ids) else ():
        if type_name in facts.present:
            sheet = facts[type_name]
            yield sheet.at(
                np.isin(getattr(sheet, field), long_ids), f"{field} has more than 64 KiB, more than documentation needs"
            )


@rule("security-payload-attribute", "AttributeProto")
def attribute_payload(facts: Facts) -> Iterator[Finding]:
    """Yield attributes whose string, or list of strings or integers, contains a program or archive."""
    attributes, prefixes = facts.AttributeProto, facts.derive(Prefixes)
    starts, lengths = (column.tolist() for column in attributes.span("s"))
    kinds = {}
    for row in true_rows(attributes.span("s")[1] >= 4).tolist():
        prefix = prefixes.read(starts[row], lengths[row])
        kind = signature_of(prefix) or text_signature(prefix)
        if kind:
            kinds[row] = kind
    is_list = attributes.has("strings") | attributes.has("ints")
    is_list &= (attributes.length >= _MIN_TYPED_BYTES) & (attributes.length <= _MAX_TYPED_BYTES)
    for row in true_rows(is_list & (attributes.flags & MERGED == 0))[:_MAX_TYPED_TENSORS].tolist():
        start = int(attributes.start[row])
        message = AttributeProto.FromString(bytes_at(facts.document, start, start + int(attributes.length[row])))
        kind = (
            _kind_of_strings(list(message.strings))
            if len(message.strings)
            else _kind_of_byte_values(np.asarray(message.ints))
        )
        if kind:
            kinds[row] = kind
    yield attributes.at(kinds, "the value of attribute {name!r} contains {kind}; do not extract or run it", kind=kinds)


@rule("security-payload-text")
def text_payload(facts: Facts) -> Iterator[Finding]:
    """Yield texts of any field that contain programs."""
    kinds: dict[int, str] = {}
    texts = facts.derive(TextBytes)
    is_short_identifier = (facts.traits & IDENTIFIER != 0) & (texts.lengths < MIN_CODED_BYTES)
    is_short_word = ~texts.have(_NON_WORD) & (texts.lengths < _MIN_ENCODED_BYTES) & ~texts.have_at(0, _FIRST_LETTERS)
    for id in true_rows(~is_short_identifier & ~is_short_word).tolist():
        text = facts.columns.raw_text(id)[:_MAX_TEXT_BYTES]
        kind = _decoded_signature(text) if facts.traits[id] & IDENTIFIER else text_signature(text)
        if kind:
            kinds[id] = kind
    if kinds:
        reported_ids = list(kinds)
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
                        np.isin(ids, reported_ids),
                        f"{field} contains {{kind}}; do not run it",
                        kind=lambda row, ids=ids: kinds[int(ids[row])],
                    )
                elif column == "LIST" and name in facts.present and facts.columns.is_text_list(type_name, field):
                    elements = facts.lists(name)
                    yield elements.at(
                        np.isin(elements.value, reported_ids),
                        "the text contains {kind}; do not run it",
                        kind=lambda row, ids=elements.value: kinds[int(ids[row])],
                    )
    yield from _divided_metadata(facts)
    yield from _divided_texts(facts)


def _divided_metadata(facts: Facts) -> Iterator[Finding]:
    """Yield the first of several values of metadata that contain a program when they are joined."""
    if "StringStringEntryProto" not in facts.present:
        return
    entries = facts.StringStringEntryProto
    rows = true_rows(entries.under("ModelProto.metadata_props"))[:_MAX_ENTRIES]
    parts = [facts.columns.raw_text(id) for id in entries.value[rows].tolist()]
    previous = b""
    for start, part in enumerate(parts):
        if len(part) >= MIN_CODED_BYTES or not _BASE64.fullmatch(part):
            continue  # `text_payload` tests longer parts
        joined = b"".join(parts[start : start + _MAX_PARTS])[:_MAX_CODED_BYTES]
        kind = _decoded_signature(joined) if joined != previous else ""  # a hostile file has many equal values
        previous = joined
        if kind:
            yield entries.at(
                rows[start : start + 1], f"this value, joined with those after it, is {kind}; do not run it"
            )
            break


def _divided_texts(facts: Facts) -> Iterator[Finding]:
    """Yield the first of several names or documentation strings that contain a program when they are joined."""
    texts = facts.derive(TextBytes)
    candidates = texts.have_at(0, _FIRST_DIGITS_BEGIN) & (texts.lengths >= _MIN_FIRST_DIGITS)
    start_ids = [id for id in true_rows(candidates).tolist() if _FIRST_DIGITS.match(facts.columns.raw_text(id)[:16])]
    for type_name, field in _TEXT_COLUMNS if start_ids else ():
        if f"{type_name}.{field}" not in facts.present:
            continue
        sheet = facts[type_name]
        rows = true_rows(getattr(sheet, field) > 0)
        ids = getattr(sheet, field)[rows]
        for start in true_rows(np.isin(ids, start_ids))[:_MAX_PARTS].tolist():
            parts = [facts.columns.raw_text(id) for id in ids[start : start + _MAX_PARTS].tolist()]
            n_coded = next((i for i, part in enumerate(parts) if not _BASE64.fullmatch(part)), len(parts))
            kind = _decoded_signature(b"".join(parts[:n_coded])[:_MAX_CODED_BYTES]) if n_coded > 1 else ""
            if kind:
                yield sheet.at(
                    rows[start : start + 1], f"this {field}, joined with those after it, is {kind}; do not run it"
                )
                break


def _decoded_signature(text: bytes) -> str:
    """Return the kind of program, archive or commands that a text is in another encoding; "" for none."""
    for decoded in (*decodings(text), *inner_decodings(text)):
        if is_text(decoded) and _SCRIPT.search(decoded):
            return "commands of a script in another encoding"
        if kind := long_signature(decoded) or _kind_of_reversed_bytes(decoded):
            return f"{kind} in another encoding"
    return ""


def _kind_of_reversed_bytes(data: bytes) -> str:
    """Return the format of bytes in reverse order, by signatures that other bytes do not have by chance."""
    kind = long_signature(data[: -PREFIX_BYTES - 1 : -1]) if data[-1:] + data[-2:-1] in _FIRST_BYTES else ""
    return f"{kind} backwards" if kind else ""


def long_signature(prefix: bytes) -> str:
    """Return the format of bytes, by signatures that other bytes do not have by chance; "" for none."""
    kind = signature_of(prefix)
    return "" if kind in _SHORT_SIGNATURES and not (prefix[:2] == b"MZ" and b"DOS mode" in prefix) else kind


@rule("security-payload-polyglot", "ModelProto")
def polyglot(facts: Facts) -> Iterator[Finding]:
    """Yield a model whose first bytes are those of another format."""
    first_bytes = bytes_at(facts.document, 0, min(len(facts.document), 16))
    kind = next(
        (kind for offset, magic, kind in _OTHER_FORMATS if first_bytes[offset : offset + len(magic)] == magic), ""
    )
    if kind and facts.columns.is_placed:
        yield facts.ModelProto.each(
            {0: f"the file begins as {kind}, so programs that look at its first bytes misread it"}
        )


@rule("security-payload-unknown", "UnknownFields")
def unknown_payload(facts: Facts) -> Iterator[Finding]:
    """Yield unknown fields that contain a program or archive."""
    records, prefixes = facts.derive(WireRecords), facts.derive(Prefixes)
    kinds = {}
    for row in true_rows(records.kind == UNKNOWN_CONTENT).tolist():
        start, length = int(records.start[row]), int(records.value[row])
        first_bytes = bytes_at(facts.document, start, min(start + 20, len(facts.document)))  # two varints
        header_bytes = 0
        for _ in range(2):  # the tag and the length
            while header_bytes < len(first_bytes) and first_bytes[header_bytes] >= 0x80:
                header_bytes += 1
            header_bytes += 1
        kind = text_signature(prefixes.read(start + header_bytes, length))
        if kind:
            kinds[row] = kind
    yield records.at(kinds, "the unknown field {field} contains {kind}; do not extract or run it", kind=kinds)


@rule("security-payload-unused", "TensorProto")
def unused_payload(facts: Facts) -> Iterator[Finding]:
    """Yield large initializers and constants that have no effect on an output.

    The first of the smaller initializers is reported if they are large together, and the first function that is not
    called if such functions are many, or large together.
    """
    tensors, liveness = facts.TensorProto, facts.derive(Liveness)
    size, is_unread = tensors.length, facts.derive(_are_unread)
    is_large = size >= _MIN_UNUSED_BYTES
    yield tensors.at(
        is_unread & is_large,
        "nothing reads tensor {name!r} of {length:,} bytes, so it may contain any data; remove it",
    )
    yield tensors.at(
        liveness.is_dead_tensor & ~is_unread & is_large,
        "no output depends on tensor {name!r} of {length:,} bytes, so it may contain any data; remove it",
    )
    # Hidden data may be divided among tensors.
    parts = true_rows((liveness.is_dead_tensor | is_unread) & ~is_large & (size >= _MIN_PART_BYTES))
    if size[parts].sum() >= _MIN_UNUSED_BYTES:
        yield tensors.at(
            parts[:1],
            "no output depends on tensor {name!r} and {count:,} more of less than 64 KiB each, which may contain any "
            "data; remove them",
            count=lambda _: len(parts) - 1,
        )
    if "AttributeProto.t" in facts.present:
        attributes = facts.AttributeProto
        large_rows = true_rows(tensors.under("AttributeProto.t") & is_large)
        owners = np.where(attributes.under("NodeProto.attribute"), attributes.parent, -1)[tensors.parent[large_rows]]
        is_dead = np.append(liveness.is_dead_node, False)
        yield tensors.at(
            large_rows[is_dead[owners]],
            "no output depends on this constant of {length:,} bytes, so it may contain any data; remove it",
        )

    if facts.FunctionProto.n:
        functions = facts.FunctionProto
        is_called = np.zeros(functions.n + 1, bool)
        is_called[facts.derive(Calls).function] = True
        uncalled_rows = true_rows(~is_called[:-1])
        if len(uncalled_rows) >= _MIN_UNCALLED or functions.length[uncalled_rows].sum() >= _MIN_UNUSED_BYTES:
            yield functions.at(
                uncalled_rows[:1],
                "nothing calls this function{others}, and code that nothing calls may contain any data; remove it",
                others=lambda _: (
                    f" and {count_text(len(uncalled_rows) - 1, 'other')}" if len(uncalled_rows) > 1 else ""
                ),
            )
