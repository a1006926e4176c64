"""Rules of security: locations of external data that attacks use, other entries of external data, and ranges and
contents of files."""

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
from onnxwire.checker.rules.security_payloads import find_program, long_signature
from onnxwire.errors import ExternalDataError, SourceError, count_text
from onnxwire.tensor.external_data import windows_fault_of

_MEMORY_ADDRESS = "_ORT_MEM_ADDR_"  # the mark of data in memory, in locations of onnxruntime
_MAX_COMPONENT_BYTES = 255  # NAME_MAX of Linux, macOS and Windows
# The scheme of an address.
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")
_NUMBER = re.compile(r"0|[1-9][0-9]{0,18}")
# Variables of shells such as $NAME and %NAME%, ~ at the beginning, and characters of patterns and redirections.
_VARIABLE = re.compile(r"\$[A-Za-z_{(]|%[A-Za-z_]\w*%|^~|[*?|<>\"]")
# Extensions, and names without extension, of files that do not contain weights.
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
_MAX_READS = 1024  # maximum number of ranges that are read in all files
_MAX_RANGES = 64  # maximum number of gaps, and of tensors, whose bytes are read in a file
_HEAD_BYTES = 512  # number of bytes that are read at the beginning of a file or tensor
_GAP_BYTES = 4096  # maximum number of bytes of a range that are read at a time
_MIN_GAP_BYTES = 16  # minimum size of a gap that is read
_WEIGHT_EXTENSIONS = ("bin", "data", "weight", "weights", "safetensors", "npy", "raw", "dat")


def location_fault(location: str) -> str:
    """Return why programs may interpret a location differently, or that it contains `..`; "" if neither applies."""
    if _URL.match(location) and location[1:2] != ":":
        return "it is an address of a server or a device, which some programs open"
    if _VARIABLE.search(location):
        return "it has a character that shells and some programs expand"
    if any(unicodedata.category(letter) in ("Cc", "Cf", "Co", "Cs", "Zl", "Zp") for letter in location):
        return "it has invisible or control characters, so that programs display another name"
    decoded = unquote(unquote(location))
    if decoded != location and (".." in decoded or "/" in decoded.replace(location, "") or "\0" in decoded):
        return f"programs that decode it open {decoded!r}"
    normalized = unicodedata.normalize("NFKC", location)
    if normalized != location and _separator_counts(normalized) != _separator_counts(location):
        return f"systems that normalize names open {normalized!r}"
    if any(look_alike in location for look_alike in _LOOK_ALIKES):
        return "it has characters that look like / or dots"
    if (
        max(len(component.encode("utf-8", "surrogateescape")) for component in location.split("/"))
        > _MAX_COMPONENT_BYTES
    ):
        return f"a part is longer than the {_MAX_COMPONENT_BYTES} bytes of a file name, so it may be truncated"
    if ".." in location.split("/"):
        return "it contains .., which may lead out of the model's folder"
    return windows_fault_of(location) if location[1:2] != ":" else ""


def _separator_counts(location: str) -> tuple[int, int, int]:
    """Return the numbers of slashes, backslashes and dots."""
    return location.count("/"), location.count("\\"), location.count(".")


def _is_foreign(location: str) -> bool:
    """Return whether a location names a file that probably does not contain weights, such as a hidden file."""
    parts = [part.lower() for part in re.split(r"[/\\]", location) if part not in ("", ".", "..")]
    if not parts:
        return False
    stem, dot, extension = parts[-1].rpartition(".")
    if any(part.startswith(".") for part in parts):
        return not (len(parts) == 1 and extension in _WEIGHT_EXTENSIONS and stem)
    return extension in _FOREIGN_EXTENSIONS if dot else parts[-1] in _FOREIGN_NAMES


def _locations_where(facts: Facts, accepts: Any) -> Any:
    """Return the location entries whose text a predicate accepts."""
    entries, rows = facts.StringStringEntryProto, facts.derive(External).entries("location")
    return rows[facts.matching(accepts, entries.value[rows])]


def _normalize(location: str) -> str:
    """Return a location in a form that is equal for locations of the same file on some system."""
    return skeleton(posixpath.normpath(location.replace("\\", "/"))).casefold()


class Extents:
    """The nonempty ranges of external tensors, sorted by file, offset and end.

    `facts.derive(Extents)` returns the object.
    rows: rows of TensorProto. files: the number of each file, an index of `names`. names: the normalized locations.
    start, end: the range in the file, in bytes. new_bytes: the number of bytes of the range that no earlier range of
    the file contains. is_overflow: whether the end is above 2**63 - 1. is_same: whether the preceding tensor has
    exactly the same range. overlaps: whether an earlier tensor of the file ends after `start`, and the range is not
    that of the preceding tensor. entries, locations: the rows of the location entries, and the ids of their values.
    """

    def __init__(self, facts: Facts) -> None:
        ranges, entries = facts.derive(Ranges), facts.derive(External).entry_of("location")
        sizes = np.where(ranges.length >= 0, ranges.length, ranges.nbytes)
        rows = true_rows((entries >= 0) & (ranges.offset >= 0) & (sizes > 0))
        locations = facts.StringStringEntryProto.value[entries[rows]]
        numbers_by_name: dict[str, int] = {}
        location_ids, id_positions = np.unique(locations, return_inverse=True)
        file_numbers = [
            numbers_by_name.setdefault(_normalize(facts.text(id)), len(numbers_by_name)) for id in location_ids.tolist()
        ]
        files = np.array(file_numbers, np.int64)[id_positions] if len(rows) else rows
        starts = ranges.offset[rows]
        max_sizes = np.iinfo(np.int64).max - starts
        self.is_overflow = sizes[rows] > max_sizes
        ends = starts + np.minimum(sizes[rows], max_sizes)
        order = np.lexsort((ends, starts, files))
        self.rows, self.files, self.start, self.end = rows[order], files[order], starts[order], ends[order]
        self.is_overflow = self.is_overflow[order]
        self.entries, self.locations = entries[self.rows], locations[order]
        self.names = list(numbers_by_name)
        n = len(rows)
        self.is_same = np.zeros(n, bool)
        self.overlaps = np.zeros(n, bool)
        self.new_bytes = self.end - self.start
        if n < 2:
            return
        is_same_file = self.files[1:] == self.files[:-1]
        self.is_same[1:] = is_same_file & (self.start[1:] == self.start[:-1]) & (self.end[1:] == self.end[:-1])
        # Compute the greatest end of the earlier ranges of each file. The sum of the file's number times n and the rank
        # of the end grows with the file, so one running maximum serves all files.
        ranks = np.empty(n, np.int64)
        ranks[np.argsort(self.end, kind="stable")] = np.arange(n)
        keys = np.maximum.accumulate(self.files * n + ranks)[:-1]
        max_end_before = np.sort(self.end)[keys % n]
        is_overlapped = is_same_file & (max_end_before > self.start[1:])
        self.overlaps[1:] = is_overlapped & ~self.is_same[1:]
        self.new_bytes[1:][is_overlapped] = np.maximum(self.end[1:] - max_end_before, 0)[is_overlapped]


@rule("security-file-memory-address", "StringStringEntryProto")
def memory_address(facts: Facts) -> Iterator[Finding]:
    """Yield locations that onnxruntime interprets as addresses in its memory."""
    rows = _locations_where(facts, lambda location: _MEMORY_ADDRESS.casefold() in location.casefold())
    yield facts.StringStringEntryProto.at(
        rows,
        "the location {value!r} makes onnxruntime read its own memory at the offset; do not load the model",
    )


@rule("security-file-location", "StringStringEntryProto")
def ambiguous_location(facts: Facts) -> Iterator[Finding]:
    """Yield locations that some programs may interpret as another file, and locations with `..`."""
    entries = facts.StringStringEntryProto
    rows = _locations_where(facts, lambda location: _MEMORY_ADDRESS not in location and bool(location_fault(location)))
    yield entries.at(
        rows,
        "the location {value!r} is ambiguous: {fault}; use letters, digits, _, - and dots between slashes",
        fault=lambda row: location_fault(facts.text(entries.value[row])),
    )


@rule("security-file-kind", "StringStringEntryProto")
def file_kind(facts: Facts) -> Iterator[Finding]:
    """Yield locations with the name of a program, setting, secret, model or other file that has no weights."""
    yield facts.StringStringEntryProto.at(
        _locations_where(facts, _is_foreign),
        "the location {value!r} is the name of a program, setting, secret, model or other file rather than of weights; "
        "open the file yourself before you load the model",
    )


@rule("security-file-own-model", "StringStringEntryProto")
def own_model(facts: Facts) -> Iterator[Finding]:
    """Yield locations that lead to the model itself."""
    entries, own_locations = facts.StringStringEntryProto, facts.derive(Files).own_locations
    rows = facts.derive(External).entries("location")
    yield entries.at(
        rows[np.isin(entries.value[rows], list(own_locations))] if own_locations else rows[:0],
        "the location {value!r} is the model itself, so its bytes are read as weights; move the data to another file",
    )


@rule("security-file-key", "StringStringEntryProto")
def attribute_key(facts: Facts) -> Iterator[Finding]:
    """Yield keys of external_data that begin with __ or contain a dot."""
    entries = facts.StringStringEntryProto
    rows = true_rows(entries.derive(External).is_entry)
    yield entries.at(
        rows[facts.matching(lambda key: key.startswith("__") or "." in key, entries.key[rows])],
        "the key {key!r} begins with __ or contains a dot, and onnx up to 1.20.1 sets keys as attributes of its own "
        "objects; remove it",
    )


@rule("security-file-number", "StringStringEntryProto")
def ambiguous_number(facts: Facts) -> Iterator[Finding]:
    """Yield offsets and lengths that are not written as plain decimal numbers."""
    entries, external = facts.StringStringEntryProto, facts.derive(External)
    rows = np.concatenate([external.entries("offset"), external.entries("length")])
    yield entries.at(
        np.sort(rows[facts.matching(lambda text: _NUMBER.fullmatch(text) is None, entries.value[rows])]),
        "the {key} {value!r} is another number to some programs; write it in at most 19 decimal digits "
        "without leading zeros",
    )


@rule("security-file-overflow", "StringStringEntryProto")
def range_overflow(facts: Facts) -> Iterator[Finding]:
    """Yield ranges whose end is not below 2**63."""
    extents = facts.derive(Extents)
    yield facts.TensorProto.at(
        np.sort(extents.rows[extents.is_overflow]),
        "the end of the range of tensor {name!r} is not below 2**63, so that programs which add offset and length read "
        "elsewhere; correct them",
    )


@rule("security-file-overlap", "StringStringEntryProto")
def overlap(facts: Facts) -> Iterator[Finding]:
    """Yield tensors whose range begins before the end of an earlier one, except repetitions of the preceding range."""
    extents = facts.derive(Extents)
    yield facts.TensorProto.at(
        np.sort(extents.rows[extents.overlaps]),
        "some bytes of tensor {name!r} also belong to another tensor in the same file; give each tensor its own bytes",
    )


@rule("security-file-shared", "StringStringEntryProto")
def shared_range(facts: Facts) -> Iterator[Finding]:
    """Yield tensors that have the range, but not the type, of the preceding tensor in the file."""
    extents, types = facts.derive(Extents), facts.TensorProto.data_type
    has_other_type = np.zeros(len(extents.rows), bool)
    has_other_type[1:] = types[extents.rows[1:]] != types[extents.rows[:-1]]
    yield facts.TensorProto.at(
        np.sort(extents.rows[extents.is_same & has_other_type]),
        "the bytes of tensor {name!r} are also those of a tensor of another type; give each tensor its own bytes",
    )


@rule("security-file-alias", "StringStringEntryProto")
def alias(facts: Facts) -> Iterator[Finding]:
    """Yield the first use of each location that is another spelling of an earlier one."""
    entries = facts.StringStringEntryProto
    first_ids: dict[str, int] = {}
    messages: dict[int, str] = {}
    rows = facts.derive(External).entries("location")
    ids, positions = np.unique(entries.value[rows], return_index=True)
    for position, id in sorted(zip(positions.tolist(), ids.tolist(), strict=True)):
        location = facts.text(id)
        first_id = first_ids.setdefault(_normalize(location), id)
        if first_id != id:
            messages[int(rows[position])] = (
                f"the location {location!a} is on some systems the same file as {facts.text(first_id)!a}; "
                "use one spelling"
            )
    yield entries.each(messages)


@rule("security-file-gap", "StringStringEntryProto")
def gap(facts: Facts) -> Iterator[Finding]:
    """Yield files of which a large part belongs to no tensor."""
    extents, sizes = facts.derive(Extents), facts.derive(Files).sizes
    entries = facts.StringStringEntryProto
    messages: dict[int, str] = {}
    used_bytes = np.zeros(len(extents.names), np.int64)
    n_tensors = np.bincount(extents.files, minlength=len(used_bytes)) if len(extents.files) else used_bytes
    np.add.at(used_bytes, extents.files, extents.new_bytes)
    first_extents = np.unique(extents.files, return_index=True)[1]
    for i in first_extents.tolist():
        size, file = sizes.get(int(extents.locations[i]), 0), int(extents.files[i])
        # Up to 64 KiB before each tensor are alignment.
        if size - int(used_bytes[file]) > (int(n_tensors[file]) + 1) << 16:
            messages[int(extents.entries[i])] = (
                f"{size - int(used_bytes[file]):,} of the {size:,} bytes of {facts.text(int(extents.locations[i]))!r} "
                "belong to no tensor of this model"
            )
    yield entries.each(messages)


@rule("security-file-payload", "StringStringEntryProto")
def file_payload(facts: Facts) -> Iterator[Finding]:
    """Yield local files with a program or archive in gaps, or at the beginning of the file or of a tensor."""
    extents, files = facts.derive(Extents), facts.derive(Files)
    messages: dict[int, str] = {}
    n_reads_left = _MAX_READS
    first_extents = np.unique(extents.files, return_index=True)[1].tolist()
    for start, stop in pairwise([*first_extents, len(extents.files)]):
        id = int(extents.locations[start])
        if id not in files.sizes or n_reads_left <= 0:
            continue
        location = facts.text(id)
        with suppress(SourceError, ExternalDataError), files.files.open_temporarily(location) as file:
            if file.descriptor < 0 or not hasattr(os, "pread"):
                continue
            ranges = [
                (offset, min(size, file.size - offset))
                for offset, size in _inspected_ranges(extents.start[start:stop], extents.end[start:stop], file.size)
                if offset < file.size
            ][:n_reads_left]
            n_reads_left -= len(ranges)
            for offset, size in ranges:
                position, kind = _kind_in_range(file.descriptor, offset, size)
                if kind:
                    messages[int(extents.entries[start])] = (
                        f"the file {location!r} contains {kind} at byte {position:,}; do not extract or run it"
                    )
                    break
    yield facts.StringStringEntryProto.each(messages)


def _inspected_ranges(starts: Any, ends: Any, size: int) -> Iterator[tuple[int, int]]:
    """Yield the offset and size of parts of a file: its beginning, gaps, and the beginning of tensors.

    A gap is before, between or after the tensors. At most _MAX_RANGES gaps and as many tensors are included. size: the
    size of the file.
    """
    yield 0, _HEAD_BYTES
    previous_ends = np.maximum.accumulate(np.append(0, ends))
    gaps = true_rows(np.append(starts, size) - previous_ends >= _MIN_GAP_BYTES)
    for i in gaps[:_MAX_RANGES].tolist():
        yield int(previous_ends[i]), (int(starts[i]) if i < len(starts) else size) - int(previous_ends[i])
    for offset in starts[:_MAX_RANGES].tolist():
        yield offset, _HEAD_BYTES


def _kind_in_range(descriptor: int, offset: int, size: int) -> tuple[int, str]:
    """Return the offset and the format of a program or archive in a part of a file; (0, "") for none.

    At most _GAP_BYTES bytes of the part are read. If all are zeros, at most as many are read from the next position at
    which the file system stores data.
    """
    content = os.pread(descriptor, min(size, _GAP_BYTES), offset)
    if size > _GAP_BYTES and not content.strip(b"\0") and hasattr(os, "SEEK_DATA"):
        with suppress(OSError):  # no data up to the end of the file
            position = os.lseek(descriptor, offset + _GAP_BYTES, os.SEEK_DATA)
            if position < offset + size:
                return _kind_in_range(descriptor, position, min(offset + size - position, _GAP_BYTES))
    n_zeros = len(content) - len(content.lstrip(b"\0"))
    for start in {0, n_zeros}:
        if kind := long_signature(content[start : start + _HEAD_BYTES]):
            return offset + start, kind
    program_start = find_program(content)
    return (offset + program_start, "a program or archive") if program_start >= 0 else (0, "")


@rule("security-file-checksum-absent", "StringStringEntryProto")
def checksum_absent(facts: Facts) -> Iterator[Finding]:
    """Yield the first external tensor without a checksum, with the number of such tensors."""
    external = facts.derive(External)
    rows = true_rows((external.entry_of("checksum") == -1) & external.is_external)
    yield facts.TensorProto.at(
        rows[:1],
        f"the checksum is missing for {len(rows):,} of {count_text(int(external.is_external.sum()), 'external tensor')}"
        ", so a replaced file is not detected; compare each file with a digest that you got another way",
    )


@rule("security-file-checksum-weak", "StringStringEntryProto")
def checksum_weak(facts: Facts) -> Iterator[Finding]:
    """Yield the first checksum; the only kind that ONNX has is weak."""
    rows = facts.derive(External).entries("checksum")
    yield facts.StringStringEntryProto.at(
        rows[:1],
        "the checksums of external data are SHA-1, for which files with equal digests can be made, and they are in the "
        "model, which an attacker can change, too; compare digests that you got another way",
    )
