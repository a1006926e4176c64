"""Rules of external data: the entries that describe its position, and the files in the model's folder.

The rules check the type, links and size of a file. A file is read only if the caller requests a comparison of
checksums. A document that was not loaded from a file has no folder; rules of files report nothing about it if `load`
was called without external_root and external_data.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator
from itertools import filterfalse
from typing import Any

import numpy as np

from onnxwire.checker.facts import EMPTY, Facts, Finding, Sheet, repeats, true_rows, unique
from onnxwire.checker.payload_values import payload_sizes
from onnxwire.checker.payloads import Payloads
from onnxwire.checker.registry import rule
from onnxwire.errors import ExternalDataError, SourceError
from onnxwire.io.external_files import ROOT_ADVICE, ExternalFiles
from onnxwire.tensor.dtypes import EXTERNAL, FIELDS, STRING
from onnxwire.tensor.external_data import fault_of
from onnxwire.tensor.payload_layout import plain_number

_KEYS = ("location", "offset", "length", "checksum")
# Values in place of the row of an entry, or of the number in an entry.
_ABSENT = -1  # there is no entry
_UNCLEAR = -2  # there are several entries, or the entry is no number
# A file can be mapped at offsets that are multiples of the first number, or on Windows of the second one.
_PAGE_BYTES, _WINDOWS_PAGE_BYTES = 4096, 65536


RULES = {
    "TensorProto": {
        "external-value-fields-empty": (
            lambda tensor: tensor.derive(External).is_external & _has_data(tensor.facts),
            "tensor {name!r} has its data in a file according to data_location, and also in the message; clear one of "
            "the two",
        ),
        "external-location-present": (
            lambda tensor: tensor.derive(External).is_external & ~_has_location(tensor.facts),
            "tensor {name!r} has its data in an unnamed file; set location in external_data to the file's path",
        ),
        "external-entries-without-flag": (
            lambda tensor: (tensor.external_data > 0) & ~tensor.derive(External).is_external,
            "tensor {name!r} has external_data, which is ignored because its data_location is not EXTERNAL; "
            "set data_location or remove external_data",
        ),
        "external-not-for-strings": (
            lambda tensor: tensor.derive(External).is_external & (tensor.data_type == STRING.number),
            "the strings of tensor {name!r} can't be in a file; put them into string_data",
        ),
        "external-before-ir4": (
            lambda tensor: (tensor.external_data > 0) | tensor.derive(External).is_external,
            "external data needs IR version 4, but the IR version is {facts.ir_version}; raise ir_version",
        ),
    },
    "StringStringEntryProto": {
        "external-location-relative": (
            lambda entry: _entries_where(entry, "location", _is_absolute),
            "the location {value!r} is absolute; give the path from the model's folder",
        ),
        "external-location-no-parent": (
            lambda entry: _entries_where(entry, "location", _has_parent_step),
            'the location {value!r} has a component ".."; move the file into the model\'s folder and correct the '
            "location",
        ),
        "external-location-posix": (
            lambda entry: _entries_where(entry, "location", lambda location: "\\" in location),
            "the location {value!r} contains a backslash; separate folders by /",
        ),
        "external-location-hash-marker": (
            lambda entry: _entries_where(entry, "location", lambda location: location.startswith("#")),
            "the location {value!r} begins with #, which marks data in the memory of a program; "
            "save the data to a file",
        ),
        # The file has to be in the model's folder after links are resolved.
        "external-location-contained": (
            lambda entry: _at_locations(entry.facts, entry.derive(Files).outside_messages),
            "{message}",
            {"message": lambda entry: _messages(entry, entry.derive(Files).outside_messages)},
        ),
        "external-file-regular": (
            lambda entry: _at_locations(entry.facts, entry.derive(Files).irregular_messages),
            "{message}",
            {"message": lambda entry: _messages(entry, entry.derive(Files).irregular_messages)},
        ),
        "external-file-not-linked": (
            lambda entry: _at_locations(entry.facts, entry.derive(Files).linked_messages),
            "{message}",
            {"message": lambda entry: _messages(entry, entry.derive(Files).linked_messages)},
        ),
        "external-offset-format": (
            lambda entry: _entries_where(entry, "offset", _is_not_number),
            "the offset {value!r} must consist of decimal digits, and be below 2**63; correct it",
        ),
        "external-length-format": (
            lambda entry: _entries_where(entry, "length", _is_not_number),
            "the length {value!r} must consist of decimal digits, and be below 2**63; correct it",
        ),
        "external-offset-alignment": (
            lambda entry: _offset_entries(entry, lambda offsets: offsets % _PAGE_BYTES != 0),
            "the offset {offset:,} is not a multiple of 4,096, so the data can't be mapped by itself; "
            "save the data aligned",
            {"offset": lambda entry: lambda row: int(entry.facts.text(entry.value[row]))},
        ),
        # `external-offset-alignment` reports offsets that no system can map.
        "external-offset-alignment-windows": (
            lambda entry: _offset_entries(
                entry, lambda offsets: (offsets % _WINDOWS_PAGE_BYTES != 0) & (offsets % _PAGE_BYTES == 0)
            ),
            "the offset {offset:,} is not a multiple of 65,536, so the data can't be mapped by itself on Windows",
            {"offset": lambda entry: lambda row: int(entry.facts.text(entry.value[row]))},
        ),
        "external-checksum-format": (
            lambda entry: _entries_where(entry, "checksum", lambda text: not _is_digest(text)),
            "the checksum {value!r} is not a SHA-1, which has 40 hexadecimal digits; correct or remove it",
        ),
        "external-key-unique": (
            lambda entry: repeats(entry.parent, entry.key, where=entry.derive(External).is_entry),
            "external_data has the key {key!r} more than once; keep one of the entries",
        ),
        # `external-key-basepath` reports basepath.
        "external-key-known": (
            lambda entry: entry.derive(External).is_entry & ~entry.facts.are_among(entry.key, (*_KEYS, "basepath")),
            f"the key {{key!r}} is not one of {', '.join(_KEYS)}; it has no effect, so remove it",
        ),
        "external-key-basepath": (
            lambda entry: entry.derive(External).entries("basepath"),
            "the key basepath ({value!r}) is only for programs that have the model in memory; remove it from the file",
        ),
    },
}


class External:
    """The entries of external_data. `facts.derive(External)` returns the object.

    is_external: for each TensorProto, whether its data is in a file. is_entry: for each StringStringEntryProto, whether
    it is an entry of external_data of such a tensor.
    """

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        tensors, entries = facts.TensorProto, facts.StringStringEntryProto
        self.is_external = tensors.data_location == EXTERNAL
        rows = true_rows(entries.under("TensorProto.external_data"))
        self.is_entry = np.zeros(entries.n, bool)
        self.is_entry[rows] = self.is_external[entries.parent[rows]]

    def entries(self, key: str) -> Any:
        """Return the rows of all entries with a key."""
        return true_rows(self.is_entry & (self.facts.StringStringEntryProto.key == self.facts.find(key)))

    def entry_of(self, key: str) -> Any:
        """Return the row of each tensor's entry with a key; _ABSENT for none, _UNCLEAR for several."""
        rows = self.entries(key)
        tensors = self.facts.StringStringEntryProto.parent[rows]
        result = np.full(self.facts.TensorProto.n, _ABSENT, np.int64)
        result[tensors] = rows
        result[np.bincount(tensors, minlength=len(result)) > 1] = _UNCLEAR
        return result


class Ranges:
    """The range of each TensorProto's data in its file. `facts.derive(Ranges)` returns the object.

    offset, length: the range in bytes; _UNCLEAR where the entry is not a number or is repeated. Without an entry,
    offset is 0 and length is _ABSENT. nbytes: the number of bytes that type and shape require, -1 if unknown.
    """

    def __init__(self, facts: Facts) -> None:
        external = facts.derive(External)
        self.offset = _numbers(facts, external.entry_of("offset"), 0)
        self.length = _numbers(facts, external.entry_of("length"), _ABSENT)
        payloads = facts.derive(Payloads)
        self.nbytes = np.where(payloads.bits > 0, payloads.size, -1)


def _numbers(facts: Facts, rows: Any, default: int) -> Any:
    """Return the numbers in entries. rows: see `External.entry_of`. default: the number of a tensor without entry."""
    result = np.where(rows == _ABSENT, default, _UNCLEAR).astype(np.int64)
    rows_with_entry = true_rows(rows >= 0)
    value_ids, id_positions = np.unique(facts.StringStringEntryProto.value[rows[rows_with_entry]], return_inverse=True)
    numbers = [plain_number(facts.text(id)) for id in value_ids.tolist()]
    known_numbers = np.array([_UNCLEAR if number is None else number for number in numbers], np.int64)
    result[rows_with_entry] = known_numbers[id_positions]
    return result


def _entries_where(entries: Sheet, key: str, accepts: Callable[[str], bool]) -> Any:
    """Return the entries with a key whose value a predicate accepts."""
    rows = entries.derive(External).entries(key)
    return rows[entries.facts.matching(accepts, entries.value[rows])]


def _has_data(facts: Facts) -> Any:
    """Return whether each tensor has a nonempty value field."""
    result = facts.TensorProto.string_data > 0
    for field in ("raw_data", *FIELDS):
        result = result | (payload_sizes(facts, field) > 0)
    return result


def _has_location(facts: Facts) -> Any:
    """Return whether each tensor has an entry "location", and none with an empty value."""
    entries, rows = facts.StringStringEntryProto, facts.derive(External).entries("location")
    result = np.zeros(facts.TensorProto.n, bool)
    result[entries.parent[rows]] = True
    result[entries.parent[rows[entries.value[rows] == EMPTY]]] = False
    return result


def _is_absolute(location: str) -> bool:
    """Return whether a location is absolute on some system."""
    return re.match(r"[/\\]|[A-Za-z]:", location) is not None


def _has_parent_step(location: str) -> bool:
    """Return whether a location has a component ".."."""
    return ".." in re.split(r"[/\\]", location)


class Files:
    """The files at the locations. `facts.derive(Files)` returns the object.

    sizes: the size of each readable file in bytes. outside_messages: messages about files outside of the folder.
    irregular_messages: messages about files that are absent, not regular or not readable. linked_messages: messages
    about links. All of these are dicts by the id of the location. own_locations: ids of locations that lead to the
    document's own file. Files are opened as for reading a tensor's elements.
    """

    def __init__(self, facts: Facts) -> None:
        self.sizes: dict[int, int] = {}
        self.outside_messages: dict[int, str] = {}
        self.irregular_messages: dict[int, str] = {}
        self.linked_messages: dict[int, str] = {}
        self.own_locations: set[int] = set()
        self.document = facts.saved_document
        files = facts.saved_document.files
        if not isinstance(files, ExternalFiles):
            return
        self.files = files
        entries = facts.derive(External).entry_of("location")
        ids = unique(facts.StringStringEntryProto.value[entries[entries >= 0]]).tolist()
        files.open_all(filterfalse(fault_of, map(facts.text, ids)))
        for id in ids:
            location = facts.text(id)
            fault = fault_of(location)
            if not fault:
                self._open(id, location)
            elif files.folder is None or not location or _is_absolute(location) or _has_parent_step(location):
                continue  # other rules report the location, or there is no folder
            elif not os.path.isfile(os.path.join(files.folder, location)):
                # A file with such a name may exist, although few programs can read it.
                self.irregular_messages[id] = f"there is no file at {location!r}: {fault}"

    def _open(self, id: int, location: str) -> None:
        """Record the size of the file at a location, whether it is a link or the document's own file, or its fault."""
        try:
            with self.files.open_temporarily(location) as file:
                self.sizes[id] = file.size
                if file.descriptor >= 0:
                    status = os.fstat(file.descriptor)
                    self._find_links(id, file.name, status.st_nlink)
                    document_descriptor = self.document.descriptor
                    if document_descriptor >= 0 and os.path.samestat(status, os.fstat(document_descriptor)):
                        self.own_locations.add(id)
        except SourceError as error:
            reason = _without_load_advice(str(error.strerror))
            self.irregular_messages[id] = f"the file {error.filename} can't be opened: {reason}"
        except ExternalDataError as error:
            if self.files.folder is not None:
                self._explain(id, self.files.folder, location, error.reason)

    def _find_links(self, id: int, name: str, n_links: int) -> None:
        """Record a message about a file that is a symbolic link or has several names (hard links).

        id: the id of the location. name: the path of the file. n_links: the number of its names.
        """
        if os.path.islink(name):
            self.linked_messages[id] = (
                f"{name} is a symbolic link, which many programs do not follow; put a copy of the file there"
            )
        elif n_links > 1:
            self.linked_messages[id] = (
                f"{name} has {n_links} names (hard links), which many programs refuse; put a copy of the file there"
            )

    def _explain(self, id: int, folder: str, location: str, reason: str) -> None:
        """Record why a file is rejected, as a message of the rule that the file breaks, if there is such a rule."""
        name = os.path.join(folder, location)
        reason = _without_load_advice(reason.removeprefix("its "))
        folder_prefix = os.path.join(os.path.realpath(folder or "."), "")
        if not os.path.realpath(name).startswith(folder_prefix):
            self.outside_messages[id] = reason
            return
        try:
            status = os.stat(name)
        except OSError:
            return
        if not stat.S_ISREG(status.st_mode):
            self.irregular_messages[id] = reason
        else:
            self._find_links(id, name, status.st_nlink)


def _without_load_advice(reason: str) -> str:
    """Return the reason of an error without advice for `load`, since `check` has no parameter external_root."""
    return reason.replace(f", {ROOT_ADVICE}", "")


def _messages(entries: Sheet, messages: dict[int, str]) -> Any:
    """Return the messages about the values of entries, as a function of the row."""
    return lambda row: messages[int(entries.value[row])]


def _at_locations(facts: Facts, messages: dict[int, str]) -> Any:
    """Return the entries "location" for whose value there is a message. messages: by the id of the value."""
    rows = facts.derive(External).entry_of("location")
    rows = np.sort(rows[rows >= 0])
    values = facts.StringStringEntryProto.value[rows]
    return rows[np.isin(values, list(messages))] if messages else rows[:0]


def _is_not_number(text: str) -> bool:
    """Return whether a text is no plain decimal number."""
    return plain_number(text) is None


def _file_sizes(facts: Facts) -> Any:
    """Return the size of each tensor's file, -1 where it is unknown."""
    rows, sizes = facts.derive(External).entry_of("location"), facts.derive(Files).sizes
    by_id = np.full(facts.columns.text_count(), -1, np.int64)
    by_id[list(sizes)] = list(sizes.values())
    return np.where(rows >= 0, by_id[facts.StringStringEntryProto.value[rows]], -1) if sizes else np.full(len(rows), -1)


def _at_entries(facts: Facts, key: str, tensors: Any, template: str, *columns: Any) -> dict[int, str]:
    """Return messages about tensors, by the row of their entry with a key.

    tensors: whether each TensorProto is reported. columns: the columns of TensorProto that the template formats.
    """
    rows = facts.derive(External).entry_of(key)
    tensor_rows = true_rows(tensors)
    values = [column[tensor_rows].tolist() for column in (rows, *columns)]
    return {row: template.format(*cells) for row, *cells in zip(*values, strict=True)}


@rule("external-range-in-file", "StringStringEntryProto")
def range_in_file(facts: Facts) -> Iterator[Finding]:
    """Yield offsets and lengths beyond the end of the file."""
    entries, ranges, sizes = facts.StringStringEntryProto, facts.derive(Ranges), facts.derive(_file_sizes)
    is_known = (sizes >= 0) & (ranges.offset >= 0)
    begins_after_end = is_known & (ranges.offset > sizes)
    messages = _at_entries(
        facts,
        "offset",
        begins_after_end,
        "the offset {0:,} is after the end of the file, which is at {1:,}; the file is truncated or belongs to another "
        "model",
        ranges.offset,
        sizes,
    )
    messages |= _at_entries(
        facts,
        "length",
        is_known & ~begins_after_end & (ranges.length > sizes - ranges.offset),
        "the length {0:,} at offset {1:,} exceeds the end of the file, which is at {2:,}; the file is truncated or "
        "belongs to another model",
        ranges.length,
        ranges.offset,
        sizes,
    )
    yield entries.each(messages)


@rule("external-length-matches-shape", "StringStringEntryProto")
def length_matches_shape(facts: Facts) -> Iterator[Finding]:
    """Yield lengths that differ from the length that shape and type require, and files that are too short."""
    entries, ranges, sizes = facts.StringStringEntryProto, facts.derive(Ranges), facts.derive(_file_sizes)
    is_known = facts.derive(External).is_external & (ranges.nbytes >= 0)
    messages = _at_entries(
        facts,
        "length",
        is_known & (ranges.length >= 0) & (ranges.length != ranges.nbytes),
        "the length is {0:,}, but data_type and dims require {1:,}; make them agree",
        ranges.length,
        ranges.nbytes,
    )
    remaining_bytes = sizes - ranges.offset
    has_known_remainder = (
        is_known & (ranges.length == _ABSENT) & (sizes >= 0) & (ranges.offset >= 0) & (remaining_bytes >= 0)
    )
    messages |= _at_entries(
        facts,
        "location",
        has_known_remainder & (remaining_bytes < ranges.nbytes),
        "from the offset on, the file has only {0:,} of the {1:,} bytes that data_type and dims require; the file is "
        "truncated or belongs to another model",
        remaining_bytes,
        ranges.nbytes,
    )
    yield entries.each(messages)


def _offset_entries(entries: Sheet, is_wrong: Callable[[Any], Any]) -> Any:
    """Return the entries of positive offsets that a predicate of the column of offsets accepts."""
    offsets, rows = entries.derive(Ranges).offset, entries.derive(External).entry_of("offset")
    return np.sort(rows[(offsets > 0) & is_wrong(offsets)])


def _is_digest(text: str) -> bool:
    """Return whether a text is a SHA-1 digest in hexadecimal."""
    return re.fullmatch(r"[0-9A-Fa-f]{40}", text) is not None


@rule("external-checksum-match", "StringStringEntryProto")
def checksum_match(facts: Facts) -> Iterator[Finding]:
    """Yield checksums that differ from that of the file. Files are read only if the caller requests that."""
    if not facts.checksums:
        return
    entries, external, files = facts.StringStringEntryProto, facts.derive(External), facts.derive(Files)
    checksum_entries, location_entries = external.entry_of("checksum"), external.entry_of("location")
    digests: dict[int, str] = {}  # by the id of the location
    digests_by_file: dict[tuple[int, int], str] = {}  # by device and inode, or -1 and the id of the location
    messages: dict[int, str] = {}
    for tensor in true_rows((checksum_entries >= 0) & (location_entries >= 0)).tolist():
        id = int(entries.value[location_entries[tensor]])
        checksum = facts.text(entries.value[checksum_entries[tensor]])
        if id not in files.sizes or not _is_digest(checksum):
            continue  # other rules report the file or the checksum
        if id not in digests:
            with files.files.open_temporarily(facts.text(id)) as file:
                status = os.fstat(file.descriptor) if file.descriptor >= 0 else None
                identity = (status.st_dev, status.st_ino) if status else (-1, id)
                digests[id] = digests_by_file[identity] = digests_by_file.get(identity) or file.sha1()
        if digests[id] != checksum.lower():
            messages[int(checksum_entries[tensor])] = (
                f"the SHA-1 of the file is {digests[id]}, which differs from the checksum; fetch the file again"
            )
    yield entries.each(messages)
