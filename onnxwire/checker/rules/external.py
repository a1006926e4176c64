"""Rules of external data: the entries that say where it is, and the files beside the model.

Of files it is looked at what they are and how long; they are read only for their checksums, where that is asked for.
A document that came from no file has none beside it, and rules of files say nothing.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from onnxwire.checker.facts import EMPTY, Facts, Finding, repeats
from onnxwire.checker.payload_values import payload_sizes
from onnxwire.checker.payloads import Payloads
from onnxwire.checker.registry import rule
from onnxwire.errors import ExternalDataError, SourceError
from onnxwire.io.external_files import ExternalFiles
from onnxwire.tensor.dtypes import EXTERNAL, FIELDS, STRING
from onnxwire.tensor.external_data import fault_of
from onnxwire.tensor.payload_layout import plain_number

_KEYS = ("location", "offset", "length", "checksum")
_ABSENT, _UNCLEAR = -1, -2
_PAGE, _WINDOWS_PAGE = 4096, 65536


class External:
    """The entries of external_data; take it with `facts.derive(External)`.

    is_external: of each TensorProto, whether its data is elsewhere. is_entry: of each StringStringEntryProto, whether
    it says where the data of such a tensor is.
    """

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        tensors, entries = facts.TensorProto, facts.StringStringEntryProto
        self.is_external = tensors.data_location == EXTERNAL
        rows = np.flatnonzero(entries.under("TensorProto.external_data"))
        self.is_entry = np.zeros(entries.n, bool)
        self.is_entry[rows] = self.is_external[entries.parent[rows]]

    def entries(self, key: str) -> Any:
        """The rows of all entries with a key."""
        return np.flatnonzero(self.is_entry & (self.facts.StringStringEntryProto.key == self.facts.find(key)))

    def of(self, key: str) -> Any:
        """The row of each tensor's entry with a key; _ABSENT where there is none, _UNCLEAR where there are several."""
        rows = self.entries(key)
        tensors = self.facts.StringStringEntryProto.parent[rows]
        result = np.full(self.facts.TensorProto.n, _ABSENT, np.int64)
        result[tensors] = rows
        result[np.bincount(tensors, minlength=len(result)) > 1] = _UNCLEAR
        return result


class Ranges:
    """Where the data of each TensorProto is in its file; take it with `facts.derive(Ranges)`.

    offset, length: in bytes; _UNCLEAR where the entry is not a number, or there twice; without an entry 0 and _ABSENT.
    nbytes: what type and shape call for, -1 where they do not say.
    """

    def __init__(self, facts: Facts) -> None:
        external = facts.derive(External)
        self.offset = _numbers(facts, external.of("offset"), 0)
        self.length = _numbers(facts, external.of("length"), _ABSENT)
        payloads = facts.derive(Payloads)
        self.nbytes = np.where(payloads.bits > 0, payloads.size, -1)


def _numbers(facts: Facts, rows: Any, absent: int) -> Any:
    """The numbers that entries say; rows: as of `External.of`."""
    result = np.where(rows == _ABSENT, absent, _UNCLEAR).astype(np.int64)
    there = np.flatnonzero(rows >= 0)
    different, back = np.unique(facts.StringStringEntryProto.value[rows[there]], return_inverse=True)
    numbers = [plain_number(facts.text(id)) for id in different.tolist()]
    result[there] = np.array([_UNCLEAR if number is None else number for number in numbers], np.int64)[back]
    return result


def _wrong(facts: Facts, key: str, is_wrong: Callable[[str], bool], template: str) -> Finding:
    """Entries with a key and a wrong value, which the template takes."""
    entries = facts.StringStringEntryProto
    rows = facts.derive(External).entries(key)
    return entries.at(rows[facts.matching(is_wrong, entries.value[rows])], template, entries.texts(entries.value))


@rule("external-value-fields-empty")
def value_fields_empty(facts: Facts) -> Iterator[Finding]:
    """Data is in a file or in the tensor."""
    tensors = facts.TensorProto
    is_filled = tensors.string_data > 0
    for field in ("raw_data", *FIELDS):
        is_filled = is_filled | (payload_sizes(facts, field) > 0)
    yield tensors.at(
        facts.derive(External).is_external & is_filled,
        "tensor {0!r} has its data in a file, as data_location says, and holds data, too; clear one of the two",
        tensors.texts(tensors.name),
    )


@rule("external-location-present")
def location_present(facts: Facts) -> Iterator[Finding]:
    """A tensor with external data names the file."""
    tensors, entries, external = facts.TensorProto, facts.StringStringEntryProto, facts.derive(External)
    rows = external.entries("location")
    has_location = np.zeros(tensors.n, bool)
    has_location[entries.parent[rows]] = True
    has_location[entries.parent[rows[entries.value[rows] == EMPTY]]] = False
    yield tensors.at(
        external.is_external & ~has_location,
        "tensor {0!r} has its data in a file that it does not name; add the key location to external_data",
        tensors.texts(tensors.name),
    )


def _is_absolute(location: str) -> bool:
    return re.match(r"[/\\]|[A-Za-z]:", location) is not None


def _climbs(location: str) -> bool:
    return ".." in re.split(r"[/\\]", location)


def _has_backslash(location: str) -> bool:
    return "\\" in location


def _is_marker(location: str) -> bool:
    return location.startswith("#")


@rule("external-location-relative")
def location_relative(facts: Facts) -> Iterator[Finding]:
    """A location begins at the model's folder."""
    yield _wrong(
        facts, "location", _is_absolute, "the location {0!r} is absolute; give the path from the model's folder"
    )


@rule("external-location-no-parent")
def location_no_parent(facts: Facts) -> Iterator[Finding]:
    """A location does not climb."""
    yield _wrong(
        facts,
        "location",
        _climbs,
        "the location {0!r} holds ..; put the file into the model's folder and name it there",
    )


@rule("external-location-posix")
def location_posix(facts: Facts) -> Iterator[Finding]:
    """Folders in a location are separated as everywhere but on Windows."""
    yield _wrong(facts, "location", _has_backslash, "the location {0!r} holds a backslash; separate folders by /")


@rule("external-location-hash-marker")
def location_hash_marker(facts: Facts) -> Iterator[Finding]:
    """A location is not a marker of data in memory."""
    yield _wrong(
        facts,
        "location",
        _is_marker,
        "the location {0!r} begins with #, which marks data in the memory of a program; save the data to a file",
    )


class Files:
    """The files at the locations; take it with `facts.derive(Files)`.

    sizes, outside, irregular, linked: the bytes of files that may be read, and messages about others, by the id of the
    location. Each file is opened as whoever reads the tensor would open it.
    """

    def __init__(self, facts: Facts) -> None:
        self.sizes: dict[int, int] = {}
        self.outside: dict[int, str] = {}
        self.irregular: dict[int, str] = {}
        self.linked: dict[int, str] = {}
        files = facts.home.files
        if not isinstance(files, ExternalFiles):
            return
        self.files = files
        entries = facts.derive(External).of("location")
        for id in np.unique(facts.StringStringEntryProto.value[entries[entries >= 0]]).tolist():
            location = facts.text(id)
            fault = fault_of(location)
            if not fault:
                self._look(id, location)
            elif files.folder is None or not location or _is_absolute(location) or _climbs(location):
                continue  # other rules speak of it
            elif not os.path.isfile(os.path.join(files.folder, location)):
                # A file of such a name may be there, though few programs will read it.
                self.irregular[id] = f"there is no file at the location {location!r}: {fault}"

    def _look(self, id: int, location: str) -> None:
        try:
            with self.files.open_temporarily(location) as file:
                self.sizes[id] = file.size
                if file.descriptor >= 0:
                    self._find_links(id, file.name, os.fstat(file.descriptor).st_nlink)
        except SourceError as error:
            self.irregular[id] = f"the file {error.filename} can't be opened: {error.strerror}"
        except ExternalDataError as error:
            if self.files.folder is not None:
                self._explain(id, self.files.folder, location, error.reason)

    def _find_links(self, id: int, name: str, links: int) -> None:
        if os.path.islink(name):
            self.linked[id] = f"{name} is a symbolic link, which many do not follow; put a copy of the file there"
        elif links > 1:
            self.linked[id] = f"{name} has {links} names (hard links), which many refuse; put a copy of the file there"

    def _explain(self, id: int, folder: str, location: str, reason: str) -> None:
        """Tell which rule a refused file breaks; none where it was refused for another reason."""
        name = os.path.join(folder, location)
        inside = os.path.join(os.path.realpath(folder or "."), "")
        if not os.path.realpath(name).startswith(inside):
            self.outside[id] = reason
            return
        try:
            status = os.stat(name)
        except OSError:
            return
        if not stat.S_ISREG(status.st_mode):
            self.irregular[id] = reason
        else:
            self._find_links(id, name, status.st_nlink)


def _at_locations(facts: Facts, messages: dict[int, str]) -> Finding:
    """The entries with locations that there is a message of, by id."""
    entries = facts.StringStringEntryProto
    rows = facts.derive(External).of("location")
    rows = np.sort(rows[rows >= 0])
    rows = rows[np.isin(entries.value[rows], list(messages))] if messages else rows[:0]
    ids = entries.value
    return entries.at(rows, "{0}", lambda row: messages[int(ids[row])])


@rule("external-location-contained")
def location_contained(facts: Facts) -> Iterator[Finding]:
    """The file lies in the model's folder, wherever links lead."""
    yield _at_locations(facts, facts.derive(Files).outside)


@rule("external-file-regular")
def file_regular(facts: Facts) -> Iterator[Finding]:
    """The file is there, and is a file."""
    yield _at_locations(facts, facts.derive(Files).irregular)


@rule("external-file-not-linked")
def file_not_linked(facts: Facts) -> Iterator[Finding]:
    """The file has one name."""
    yield _at_locations(facts, facts.derive(Files).linked)


def _is_no_number(text: str) -> bool:
    return plain_number(text) is None


@rule("external-offset-format")
def offset_format(facts: Facts) -> Iterator[Finding]:
    """An offset is a number."""
    yield _wrong(facts, "offset", _is_no_number, "the offset {0!r} is not a decimal number below 2**63; correct it")


@rule("external-length-format")
def length_format(facts: Facts) -> Iterator[Finding]:
    """A length is a number."""
    yield _wrong(facts, "length", _is_no_number, "the length {0!r} is not a decimal number below 2**63; correct it")


def _file_sizes(facts: Facts) -> Any:
    """The bytes of each tensor's file, -1 where unknown."""
    rows, sizes = facts.derive(External).of("location"), facts.derive(Files).sizes
    by_id = np.full(facts.columns.text_count(), -1, np.int64)
    by_id[list(sizes)] = list(sizes.values())
    return np.where(rows >= 0, by_id[facts.StringStringEntryProto.value[rows]], -1) if sizes else np.full(len(rows), -1)


def _at_entries(facts: Facts, key: str, tensors: Any, template: str, *columns: Any) -> dict[int, str]:
    """Messages about tensors, a bool column, by the row of their entry with a key; columns: as of TensorProto."""
    rows = facts.derive(External).of(key)
    found = np.flatnonzero(tensors)
    values = [column[found].tolist() for column in (rows, *columns)]
    return {row: template.format(*rest) for row, *rest in zip(*values, strict=True)}


@rule("external-range-in-file")
def range_in_file(facts: Facts) -> Iterator[Finding]:
    """The file has the bytes."""
    entries, ranges, sizes = facts.StringStringEntryProto, facts.derive(Ranges), facts.derive(_file_sizes)
    is_known = (sizes >= 0) & (ranges.offset >= 0)
    begins_late = is_known & (ranges.offset > sizes)
    found = _at_entries(
        facts,
        "offset",
        begins_late,
        "the offset {0:,} is after the end of the file, which has {1:,} bytes; it was cut, or is another model's",
        ranges.offset,
        sizes,
    )
    found |= _at_entries(
        facts,
        "length",
        is_known & ~begins_late & (ranges.length > sizes - ranges.offset),
        "{0:,} bytes from byte {1:,} on are more than the file has, {2:,}; it was cut, or is another model's",
        ranges.length,
        ranges.offset,
        sizes,
    )
    yield entries.each(found)


@rule("external-length-matches-shape")
def length_matches_shape(facts: Facts) -> Iterator[Finding]:
    """The bytes are those that shape and type call for."""
    entries, ranges, sizes = facts.StringStringEntryProto, facts.derive(Ranges), facts.derive(_file_sizes)
    is_known = facts.derive(External).is_external & (ranges.nbytes >= 0)
    found = _at_entries(
        facts,
        "length",
        is_known & (ranges.length >= 0) & (ranges.length != ranges.nbytes),
        "the length is {0:,}, and data_type and dims call for {1:,} bytes; make them agree",
        ranges.length,
        ranges.nbytes,
    )
    left = sizes - ranges.offset
    has_rest = is_known & (ranges.length == _ABSENT) & (sizes >= 0) & (ranges.offset >= 0) & (left >= 0)
    found |= _at_entries(
        facts,
        "location",
        has_rest & (left < ranges.nbytes),
        "the file has {0:,} bytes for the tensor, and data_type and dims call for {1:,}; it was cut, or is another "
        "model's",
        left,
        ranges.nbytes,
    )
    yield entries.each(found)


def _offsets(facts: Facts, is_wrong: Any, template: str) -> Finding:
    offset = facts.derive(Ranges).offset
    return facts.StringStringEntryProto.each(_at_entries(facts, "offset", (offset > 0) & is_wrong, template, offset))


@rule("external-offset-alignment")
def offset_alignment(facts: Facts) -> Iterator[Finding]:
    """Data begins with a page."""
    yield _offsets(
        facts,
        facts.derive(Ranges).offset % _PAGE != 0,
        "the offset {0:,} is not a multiple of 4,096, so the data can't be mapped by itself; save the data aligned",
    )


@rule("external-offset-alignment-windows")
def offset_alignment_windows(facts: Facts) -> Iterator[Finding]:
    """Data begins where Windows can map it; of what no system can, `external-offset-alignment` speaks."""
    offset = facts.derive(Ranges).offset
    yield _offsets(
        facts,
        (offset % _WINDOWS_PAGE != 0) & (offset % _PAGE == 0),
        "the offset {0:,} is not a multiple of 65,536, so the data can't be mapped by itself on Windows",
    )


def _is_digest(text: str) -> bool:
    return re.fullmatch(r"[0-9A-Fa-f]{40}", text) is not None


@rule("external-checksum-format")
def checksum_format(facts: Facts) -> Iterator[Finding]:
    """A checksum is a SHA-1."""
    yield _wrong(
        facts,
        "checksum",
        lambda text: not _is_digest(text),
        "the checksum {0!r} is not a SHA-1, which has 40 hexadecimal digits; correct or remove it",
    )


@rule("external-checksum-match")
def checksum_match(facts: Facts) -> Iterator[Finding]:
    """The file is the one that it was; it is read for this, so only where the caller asks for it."""
    if not facts.checksums:
        return
    entries, external, files = facts.StringStringEntryProto, facts.derive(External), facts.derive(Files)
    wanted, location = external.of("checksum"), external.of("location")
    digests: dict[int, str] = {}
    by_identity: dict[tuple[int, int], str] = {}
    found: dict[int, str] = {}
    for tensor in np.flatnonzero((wanted >= 0) & (location >= 0)).tolist():
        id = int(entries.value[location[tensor]])
        checksum = facts.text(entries.value[wanted[tensor]])
        if id not in files.sizes or not _is_digest(checksum):
            continue  # other rules speak of it
        if id not in digests:
            with files.files.open_temporarily(facts.text(id)) as file:
                status = os.fstat(file.descriptor) if file.descriptor >= 0 else None
                identity = (status.st_dev, status.st_ino) if status else (-1, id)
                digests[id] = by_identity[identity] = by_identity.get(identity) or file.sha1()
        if digests[id] != checksum.lower():
            found[int(wanted[tensor])] = f"the file has the SHA-1 {digests[id]}, not the checksum; fetch it again"
    yield entries.each(found)


@rule("external-key-unique")
def key_unique(facts: Facts) -> Iterator[Finding]:
    """A key is there once."""
    entries = facts.StringStringEntryProto
    rows = np.flatnonzero(facts.derive(External).is_entry)
    yield entries.at(
        rows[repeats(entries.parent[rows], entries.key[rows])],
        "external_data has the key {0!r} before; remove one of the entries",
        entries.texts(entries.key),
    )


@rule("external-key-known")
def key_known(facts: Facts) -> Iterator[Finding]:
    """Keys mean something; `external-key-basepath` speaks of basepath."""
    entries = facts.StringStringEntryProto
    known = [facts.find(key) for key in (*_KEYS, "basepath")]
    yield entries.at(
        facts.derive(External).is_entry & ~np.isin(entries.key, known),
        f"the key {{0!r}} is not one of {', '.join(_KEYS)}; it means nothing, so remove it",
        entries.texts(entries.key),
    )


@rule("external-key-basepath")
def key_basepath(facts: Facts) -> Iterator[Finding]:
    """The folder of whoever saved the model is not in it."""
    entries = facts.StringStringEntryProto
    yield entries.at(
        facts.derive(External).entries("basepath"),
        "basepath, {0!r}, is for programs that have the model in memory; remove it from the file",
        entries.texts(entries.value),
    )


@rule("external-entries-without-flag")
def entries_without_flag(facts: Facts) -> Iterator[Finding]:
    """external_data stands with data_location EXTERNAL."""
    tensors = facts.TensorProto
    yield tensors.at(
        (tensors.external_data > 0) & ~facts.derive(External).is_external,
        "tensor {0!r} has external_data, and its data_location is not EXTERNAL, so that it does not count; set "
        "data_location or remove external_data",
        tensors.texts(tensors.name),
    )


@rule("external-not-for-strings")
def not_for_strings(facts: Facts) -> Iterator[Finding]:
    """Strings stay in the tensor."""
    tensors = facts.TensorProto
    yield tensors.at(
        facts.derive(External).is_external & (tensors.data_type == STRING.number),
        "the strings of tensor {0!r} can't be in a file; put them into string_data",
        tensors.texts(tensors.name),
    )


@rule("external-before-ir4")
def before_ir4(facts: Facts) -> Iterator[Finding]:
    """There is no external data yet."""
    tensors = facts.TensorProto
    yield tensors.at(
        (tensors.external_data > 0) | facts.derive(External).is_external,
        f"external data needs IR version 4, and the model has {facts.ir_version}; raise ir_version",
    )
