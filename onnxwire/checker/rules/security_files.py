"""Rules of security: locations of external data that attacks use, and ranges that no exporter writes."""

from __future__ import annotations

import os
import posixpath
import re
import unicodedata
from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise
from typing import Any
from urllib.parse import unquote

import numpy as np

from onnxwire.checker.confusables import skeleton
from onnxwire.checker.facts import Facts, Finding, true_rows
from onnxwire.checker.registry import rule
from onnxwire.checker.rules.external import External, Files, Ranges
from onnxwire.checker.rules.security_payloads import has_program, long_signature
from onnxwire.errors import ExternalDataError, SourceError
from onnxwire.tensor.external_data import windows_fault_of

_MEMORY_ADDRESS = "_ORT_MEM_ADDR_"
_MAX_COMPONENT_BYTES = 255  # NAME_MAX of Linux, macOS and Windows
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")
_NUMBER = re.compile(r"0|[1-9][0-9]{0,18}")
_VARIABLE = re.compile(r"\$[A-Za-z_{(]|%[A-Za-z_]\w*%|^~|[*?|<>\"]")
_FOREIGN_EXTENSIONS = frozenset((
    "onnx", "ort", "pb", "pt", "pth", "pkl", "pickle", "py", "pyc", "pyd", "sh", "bash", "bat", "cmd", "ps1", "vbs",
    "js", "jar", "class", "exe", "dll", "so", "dylib", "com", "scr", "msi", "service", "conf", "cfg", "ini", "env",
    "json", "yaml", "yml", "toml", "xml", "db", "sqlite", "pem", "key", "crt", "p12", "pfx", "kdbx", "txt", "log",
    "csv", "html", "php", "c", "h",
))  # fmt: skip
_FOREIGN_NAMES = frozenset((
    "passwd", "shadow", "hosts", "sudoers", "crontab", "authorized_keys", "known_hosts", "id_rsa", "id_dsa",
    "id_ecdsa", "id_ed25519", "credentials", "config", "environ", "cmdline", "makefile", "dockerfile",
))  # fmt: skip
# DIVISION SLASH, FRACTION SLASH, BIG SOLIDUS, BOX DRAWINGS LIGHT DIAGONAL, and leaders of one, two and three dots.
_LOOK_ALIKES = "\u2215\u2044\u29f8\u2571\u2024\u2025\u2026"
_MAX_READS, _MAX_PLACES = 1024, 64  # reads of all files, and places of one kind in a file
_HEAD_BYTES, _GAP_BYTES, _MIN_GAP_BYTES = 512, 4096, 16
_INNOCENT_EXTENSIONS = ("bin", "data", "weight", "weights", "safetensors", "npy", "raw", "dat")


def location_fault(location: str) -> str:
    """Return why a location is understood differently by different programs; "" if it is not."""
    if _URL.match(location) and location[1:2] != ":":
        return "it is an address of a server or a device, which some programs open"
    if _VARIABLE.search(location):
        return "it has a character that shells and some programs expand"
    if any(unicodedata.category(letter) in ("Cc", "Cf", "Co", "Cs", "Zl", "Zp") for letter in location):
        return "it has invisible or control characters, so that programs display another name"
    decoded = unquote(unquote(location))
    if decoded != location and (".." in decoded or "/" in decoded.replace(location, "") or "\0" in decoded):
        return f"programs that decode it open {decoded!r}"
    folded = unicodedata.normalize("NFKC", location)
    if folded != location and _steps(folded) != _steps(location):
        return f"systems that normalize names open {folded!r}"
    if any(mark in location for mark in _LOOK_ALIKES):
        return "it has characters that look like / or dots"
    if max(len(part.encode("utf-8", "surrogateescape")) for part in location.split("/")) > _MAX_COMPONENT_BYTES:
        return f"a part is longer than the {_MAX_COMPONENT_BYTES} bytes of a file name, so it may be truncated"
    return windows_fault_of(location) if location[1:2] != ":" else ""


def _steps(location: str) -> tuple[int, int, int]:
    return location.count("/"), location.count("\\"), location.count(".")


def _is_foreign(location: str) -> bool:
    """Return whether a location is the name of a file of another kind than weights."""
    parts = [part.lower() for part in re.split(r"[/\\]", location) if part not in ("", ".", "..")]
    if not parts:
        return False
    stem, dot, extension = parts[-1].rpartition(".")
    if any(part.startswith(".") for part in parts):
        return not (len(parts) == 1 and extension in _INNOCENT_EXTENSIONS and stem)
    return extension in _FOREIGN_EXTENSIONS if dot else parts[-1] in _FOREIGN_NAMES


def _named(facts: Facts, accepts: Any) -> Any:
    """Return the location entries whose text a predicate accepts."""
    entries, rows = facts.StringStringEntryProto, facts.derive(External).entries("location")
    return rows[facts.matching(accepts, entries.value[rows])]


def _normal(location: str) -> str:
    return skeleton(posixpath.normpath(location.replace("\\", "/"))).casefold()


class Extents:
    """The ranges of external tensors, sorted by file, offset and end, by `facts.derive(Extents)`.

    rows: rows of TensorProto; files: numbers of the normalized locations; start, end: the range in the file; before:
    whether the tensor before it in this order has exactly the same range; overlaps: whether an earlier one ends after
    `start`.
    entries: the rows of the location entries.
    """

    def __init__(self, facts: Facts) -> None:
        ranges, entries = facts.derive(Ranges), facts.derive(External).of("location")
        size = np.where(ranges.length >= 0, ranges.length, ranges.nbytes)
        rows = true_rows((entries >= 0) & (ranges.offset >= 0) & (size > 0))
        locations = facts.StringStringEntryProto.value[entries[rows]]
        numbers: dict[str, int] = {}
        different, back = np.unique(locations, return_inverse=True)
        of_location = [numbers.setdefault(_normal(facts.text(id)), len(numbers)) for id in different.tolist()]
        files = np.array(of_location, np.int64)[back] if len(rows) else rows
        start = ranges.offset[rows]
        room = np.iinfo(np.int64).max - start
        self.is_overflow = size[rows] > room
        end = start + np.minimum(size[rows], room)
        order = np.lexsort((end, start, files))
        self.rows, self.files, self.start, self.end = rows[order], files[order], start[order], end[order]
        self.is_overflow = self.is_overflow[order]
        self.entries, self.locations = entries[self.rows], locations[order]
        self.names = list(numbers)
        n = len(rows)
        self.is_same = np.zeros(n, bool)
        self.overlaps = np.zeros(n, bool)
        if n < 2:
            return
        is_file = self.files[1:] == self.files[:-1]
        self.is_same[1:] = is_file & (self.start[1:] == self.start[:-1]) & (self.end[1:] == self.end[:-1])
        # Compute the greatest end before each range, in one pass over all files: ends are replaced by their ranks.
        ranks = np.empty(n, np.int64)
        ranks[np.argsort(self.end, kind="stable")] = np.arange(n)
        keys = np.maximum.accumulate(self.files * n + ranks)[:-1]
        greatest = np.sort(self.end)[keys % n]
        self.overlaps[1:] = is_file & (greatest > self.start[1:]) & ~self.is_same[1:]


@rule("security-file-memory-address", "StringStringEntryProto")
def memory_address(facts: Facts) -> Iterator[Finding]:
    """Yield locations that onnxruntime interprets as addresses in its memory."""
    rows = _named(facts, lambda location: _MEMORY_ADDRESS.casefold() in location.casefold())
    yield facts.StringStringEntryProto.at(
        rows,
        "the location {value!r} makes onnxruntime read its own memory at the offset; do not load the model",
    )


@rule("security-file-location", "StringStringEntryProto")
def ambiguous_location(facts: Facts) -> Iterator[Finding]:
    """Yield locations that some programs understand as another file."""
    entries = facts.StringStringEntryProto
    rows = _named(facts, lambda location: _MEMORY_ADDRESS not in location and bool(location_fault(location)))
    yield entries.at(
        rows,
        "the location {value!r} is ambiguous: {fault}; use letters, digits, _, - and dots between slashes",
        fault=lambda row: location_fault(facts.text(entries.value[row])),
    )


@rule("security-file-kind", "StringStringEntryProto")
def file_kind(facts: Facts) -> Iterator[Finding]:
    """Yield locations of files that are programs, settings, keys or models."""
    yield facts.StringStringEntryProto.at(
        _named(facts, _is_foreign),
        "the location {value!r} is the name of a program, setting, secret or model rather than of weights; open the "
        "file yourself before you load the model",
    )


@rule("security-file-own-model", "StringStringEntryProto")
def own_model(facts: Facts) -> Iterator[Finding]:
    """Yield locations that lead to the model itself."""
    entries, own = facts.StringStringEntryProto, facts.derive(Files).own
    rows = facts.derive(External).entries("location")
    yield entries.at(
        rows[np.isin(entries.value[rows], list(own))] if own else rows[:0],
        "the location {value!r} is the model itself, so its bytes are read as weights; move the data to another file",
    )


@rule("security-file-key", "StringStringEntryProto")
def attribute_key(facts: Facts) -> Iterator[Finding]:
    """Yield keys of external_data that are names of Python attributes."""
    entries = facts.StringStringEntryProto
    rows = true_rows(entries.derive(External).is_entry)
    yield entries.at(
        rows[facts.matching(lambda key: key.startswith("__") or "." in key, entries.key[rows])],
        "the key {key!r} is the name of a Python attribute, which onnx up to 1.20.1 sets on its own objects; remove it",
    )


@rule("security-file-number", "StringStringEntryProto")
def ambiguous_number(facts: Facts) -> Iterator[Finding]:
    """Yield offsets and lengths that are not written as plain decimal numbers."""
    entries, external = facts.StringStringEntryProto, facts.derive(External)
    rows = np.concatenate([external.entries("offset"), external.entries("length")])
    yield entries.at(
        np.sort(rows[facts.matching(lambda text: _NUMBER.fullmatch(text) is None, entries.value[rows])]),
        "the {key} {value!r} is another number to some programs; write it in decimal digits without a zero before them",
    )


@rule("security-file-overflow", "StringStringEntryProto")
def range_overflow(facts: Facts) -> Iterator[Finding]:
    """Yield ranges whose end is not a 64-bit number."""
    extents = facts.derive(Extents)
    yield facts.TensorProto.at(
        np.sort(extents.rows[extents.is_overflow]),
        "the range of tensor {name!r} ends beyond 2**63 bytes, so that programs which add offset and length read "
        "elsewhere; correct them",
    )


@rule("security-file-overlap", "StringStringEntryProto")
def overlap(facts: Facts) -> Iterator[Finding]:
    """Yield tensors whose range overlaps an earlier one in part."""
    extents = facts.derive(Extents)
    yield facts.TensorProto.at(
        np.sort(extents.rows[extents.overlaps]),
        "the bytes of tensor {name!r} overlap in part with those of another tensor in the same file; give each tensor "
        "its own bytes",
    )


@rule("security-file-shared", "StringStringEntryProto")
def shared_range(facts: Facts) -> Iterator[Finding]:
    """Yield tensors of another type than the one before with the same range."""
    extents, types = facts.derive(Extents), facts.TensorProto.data_type
    differs = np.zeros(len(extents.rows), bool)
    differs[1:] = types[extents.rows[1:]] != types[extents.rows[:-1]]
    yield facts.TensorProto.at(
        np.sort(extents.rows[extents.is_same & differs]),
        "the bytes of tensor {name!r} are also those of a tensor of another type; give each tensor its own bytes",
    )


@rule("security-file-alias", "StringStringEntryProto")
def alias(facts: Facts) -> Iterator[Finding]:
    """Yield the first use of each further spelling of a location."""
    entries = facts.StringStringEntryProto
    first: dict[str, int] = {}
    found: dict[int, str] = {}
    rows = facts.derive(External).entries("location")
    ids, positions = np.unique(entries.value[rows], return_index=True)
    for position, id in sorted(zip(positions.tolist(), ids.tolist(), strict=True)):
        location = facts.text(id)
        before = first.setdefault(_normal(location), id)
        if before != id:
            found[int(rows[position])] = (
                f"the location {location!r} is on some systems the same file as {facts.text(before)!r}; "
                "use one spelling"
            )
    yield entries.each(found)


@rule("security-file-gap", "StringStringEntryProto")
def gap(facts: Facts) -> Iterator[Finding]:
    """Yield files of which a large part belongs to no tensor."""
    extents, sizes = facts.derive(Extents), facts.derive(Files).sizes
    entries = facts.StringStringEntryProto
    found: dict[int, str] = {}
    used = np.zeros(len(extents.names), np.int64)
    n = np.bincount(extents.files, minlength=len(used)) if len(extents.files) else used
    is_counted = ~extents.is_same & ~extents.overlaps
    np.add.at(used, extents.files[is_counted], (extents.end - extents.start)[is_counted])
    first = np.unique(extents.files, return_index=True)[1]
    for i in first.tolist():
        size, file = sizes.get(int(extents.locations[i]), 0), int(extents.files[i])
        # Up to 64 KiB before each tensor are alignment.
        if size - int(used[file]) > (int(n[file]) + 1) << 16:
            found[int(extents.entries[i])] = (
                f"{size - int(used[file]):,} of the {size:,} bytes of {facts.text(int(extents.locations[i]))!r} belong "
                "to no tensor of this model"
            )
    yield entries.each(found)


@rule("security-file-payload", "StringStringEntryProto")
def file_payload(facts: Facts) -> Iterator[Finding]:
    """Yield files that contain a program or archive: at their begin, at that of a tensor, or between tensors."""
    extents, files = facts.derive(Extents), facts.derive(Files)
    found: dict[int, str] = {}
    left = _MAX_READS
    first = np.unique(extents.files, return_index=True)[1].tolist()
    for start, stop in pairwise([*first, len(extents.files)]):
        id = int(extents.locations[start])
        if id not in files.sizes or left <= 0:
            continue
        location = facts.text(id)
        with suppress(SourceError, ExternalDataError), files.files.open_temporarily(location) as file:
            if file.descriptor < 0 or not hasattr(os, "pread"):
                continue
            places = _places(extents.start[start:stop], extents.end[start:stop], file.size)
            ranges = [(offset, min(size, file.size - offset)) for offset, size in places if offset < file.size][:left]
            left -= len(ranges)
            for offset, size in ranges:
                at, kind = _kind_at(file.descriptor, offset, size)
                if kind:
                    found[int(extents.entries[start])] = (
                        f"the file {location!r} contains {kind} at byte {at:,}; do not extract or run it"
                    )
                    break
    yield facts.StringStringEntryProto.each(found)


def _places(starts: Any, ends: Any, size: int) -> Iterator[tuple[int, int]]:
    """Yield the offset and size of what is read of a file: its begin, gaps between tensors, the begin of tensors."""
    yield 0, _HEAD_BYTES
    before = np.maximum.accumulate(np.append(0, ends))
    gaps = true_rows(np.append(starts, size) - before >= _MIN_GAP_BYTES)
    for i in gaps[:_MAX_PLACES].tolist():
        yield int(before[i]), (int(starts[i]) if i < len(starts) else size) - int(before[i])
    for offset in starts[:_MAX_PLACES].tolist():
        yield offset, _HEAD_BYTES


def _kind_at(descriptor: int, offset: int, size: int) -> tuple[int, str]:
    """Return the offset and the format of a program or archive in a part of a file, or "". Zeros are skipped."""
    content = os.pread(descriptor, min(size, _GAP_BYTES), offset)
    if size > _GAP_BYTES and not content.strip(b"\0") and hasattr(os, "SEEK_DATA"):
        with suppress(OSError):  # no data up to the end of the file
            position = os.lseek(descriptor, offset + _GAP_BYTES, os.SEEK_DATA)
            if position < offset + size:
                return _kind_at(descriptor, position, min(offset + size - position, _GAP_BYTES))
    padding = len(content) - len(content.lstrip(b"\0"))
    for at in {0, padding}:
        if kind := long_signature(content[at : at + _HEAD_BYTES]):
            return offset + at, kind
    inside = has_program(content)
    return (offset + inside, "a program or archive") if inside >= 0 else (0, "")


@rule("security-file-checksum-absent", "StringStringEntryProto")
def checksum_absent(facts: Facts) -> Iterator[Finding]:
    """Yield the first external tensor without a checksum, with their number."""
    external = facts.derive(External)
    rows = true_rows((external.of("checksum") == -1) & external.is_external)
    yield facts.TensorProto.at(
        rows[:1],
        f"{len(rows):,} of {int(external.is_external.sum()):,} tensors in files have no checksum, so an exchange of a "
        "file is not noticed; compare a digest of each file that you got another way",
    )


@rule("security-file-checksum-weak", "StringStringEntryProto")
def checksum_weak(facts: Facts) -> Iterator[Finding]:
    """Yield the first checksum; the only kind that ONNX has is weak."""
    rows = facts.derive(External).entries("checksum")
    yield facts.StringStringEntryProto.at(
        rows[:1],
        "the checksums of external data are SHA-1, for which files with equal digests can be made, and they are in the "
        "model that they protect; compare digests that you got another way",
    )
