"""Reads schema tables, in the Markdown notation of `schema/README.md`, into plain rows.

Imports nothing from the package, because the build runs it before the package is compiled.
"""

from __future__ import annotations

from typing import NamedTuple

MESSAGE_COLUMNS = ["number", "name", "type", "label", "oneof", "packed", "since", "until", "doc"]
ENUM_COLUMNS = ["number", "name", "since", "until", "doc"]

# The types of fields; the values are those of FieldDescriptor.TYPE_*.
TYPES = {
    "double": 1, "float": 2, "int64": 3, "uint64": 4, "int32": 5, "fixed64": 6, "fixed32": 7, "bool": 8, "string": 9,
    "message": 11, "bytes": 12, "uint32": 13, "enum": 14, "sfixed32": 15, "sfixed64": 16, "sint32": 17, "sint64": 18,
}  # fmt: skip
MAX_FIELD_NUMBER = (1 << 29) - 1
SYNTAXES = ("proto2", "proto3")


class FieldRow(NamedTuple):
    """One field of a message.

    type: a value of TYPES. type_name: the name of the message or enum, or "". oneof: the name of the field's oneof, or
    "". since, until: the first and last version of the format that has the field; since is None if the cell is empty,
    and until is None for a current field. line: the line number.
    """

    number: int
    name: str
    type: int
    type_name: str
    repeated: bool
    oneof: str
    packed: bool
    since: int | None
    until: int | None
    doc: str
    line: int


class ReservedRow(NamedTuple):
    """The field numbers from `first` to `last`, or a name, that no current field may have.

    first, last: 0 if a name is reserved. name: "" if numbers are reserved.
    """

    first: int
    last: int
    name: str
    doc: str


class MessageTable(NamedTuple):
    """One message. retired: it is not in the current version of the format."""

    name: str
    doc: str
    retired: bool
    fields: list[FieldRow]
    reserved: list[ReservedRow]


class ValueRow(NamedTuple):
    """One value of an enum; since, until: as in FieldRow."""

    number: int
    name: str
    since: int | None
    until: int | None
    doc: str


class EnumTable(NamedTuple):
    """One enum. retired: it is not in the current version of the format."""

    name: str
    doc: str
    retired: bool
    values: list[ValueRow]


class FileTables(NamedTuple):
    """All tables of one file; source: the file's name in errors; name: the text of the `# ` heading."""

    source: str
    name: str
    package: str
    syntax: str
    imports: list[str]
    messages: list[MessageTable]
    enums: list[EnumTable]


def parse(text: str, source: str = "<table>") -> FileTables:
    """Read the tables of one file.

    text: the file's Markdown. source: its name in errors.
    Raises ValueError with the line number.
    """
    reader = _Reader()
    for line_number, line in enumerate([*text.splitlines(), "## end"], 1):
        try:
            reader.read(line.strip(), line_number)
        except ValueError as error:
            raise ValueError(f"{source}, line {line_number}: {error}") from None
    header = reader.header
    imports = [part.strip() for part in header["imports"].split(",") if part.strip()]
    return FileTables(source, reader.name, header["package"], header["syntax"], imports, reader.messages, reader.enums)


class _Reader:
    """Parses the lines of a file one by one; `## end` ends the last section."""

    def __init__(self) -> None:
        self.name = ""
        self.header = {"package": "", "syntax": "proto2", "imports": ""}
        self.messages: list[MessageTable] = []
        self.enums: list[EnumTable] = []
        self.section: MessageTable | EnumTable | None = None
        self.columns: list[str] = []
        self.used_keys: set[int | str] = set()  # names and field numbers of the section's current rows

    def read(self, line: str, line_number: int) -> None:
        """Parse a line; raise ValueError for an invalid one."""
        if line.startswith("## "):
            self._end_section()
            if line != "## end":
                self._start_section(line[3:].split())
        elif line.startswith("# "):
            self.name = line[2:].strip()
        elif line.startswith("|"):
            self._read_row(line, line_number)
        elif line and self.section is not None:
            self.section = self.section._replace(doc=f"{self.section.doc} {line}".strip())
        elif ":" in line and line.partition(":")[0] in self.header:
            key, _, value = line.partition(":")
            self.header[key] = value.strip()
            if self.header["syntax"] not in SYNTAXES:
                raise ValueError(f"syntax {value.strip()!r} is not one of {', '.join(SYNTAXES)}")

    def _start_section(self, words: list[str]) -> None:
        """Start a message or enum. words: the heading without `## `."""
        retired = words[:1] == ["retired"]
        kind, *names = words[1:] if retired else words
        if kind not in ("message", "enum") or len(names) != 1:
            raise ValueError("a heading that is neither `message NAME` nor `enum NAME`")
        if names[0] in {table.name for table in self.messages} | {table.name for table in self.enums}:
            raise ValueError(f"{names[0]} has two sections")
        self.columns = []
        self.used_keys = set()
        if kind == "message":
            self.section = MessageTable(names[0], "", retired, [], [])
        else:
            self.section = EnumTable(names[0], "", retired, [])

    def _end_section(self) -> None:
        """Add the section that ends here to the result."""
        section, self.section = self.section, None
        if isinstance(section, EnumTable):
            if not section.values or not (section.retired or any(row.until is None for row in section.values)):
                raise ValueError(f"enum {section.name} has no {'current ' if section.values else ''}value")
            self.enums.append(section)
        elif section is not None:
            for row in section.reserved:
                numbers = [key for key in self.used_keys if isinstance(key, int) and row.first <= key <= row.last]
                if numbers or row.name in self.used_keys:
                    reserved = f"number {numbers[0]}" if numbers else f"name {row.name}"
                    raise ValueError(f"a field of {section.name} has the reserved {reserved}")
            self.messages.append(section)

    def _read_row(self, line: str, line_number: int) -> None:
        """Parse a line of a table: the column names, the line of dashes below them, or a row."""
        if self.section is None:
            raise ValueError("a table before the first `## ` heading")
        cells = [cell.strip() for cell in line.removeprefix("|").removesuffix("|").split("|")]
        expected_columns = MESSAGE_COLUMNS if isinstance(self.section, MessageTable) else ENUM_COLUMNS
        if not self.columns:
            self.columns = cells
            if cells != expected_columns:
                raise ValueError(f"expected the columns {', '.join(expected_columns)}; found {', '.join(cells)}")
        elif not set(line) <= set("|-: "):
            if len(cells) != len(expected_columns):
                raise ValueError(f"expected {len(expected_columns)} cells, found {len(cells)}")
            row = dict(zip(expected_columns, cells, strict=True))
            if isinstance(self.section, EnumTable):
                self.section.values.append(_parse_value_row(row))
                self._mark_as_used(self.section.values[-1].until, self.section.values[-1].name)
            elif row["type"] == "reserved":
                self.section.reserved.append(_parse_reserved_row(row))
            else:
                field = _parse_field_row(row, line_number)
                self.section.fields.append(field)
                self._mark_as_used(field.until, field.name, field.number)

    def _mark_as_used(self, until: int | None, *keys: int | str) -> None:
        """Add the name and number of a current row to `used_keys`; raise ValueError if one of them is in use."""
        if until is None:
            for key in keys:
                if key in self.used_keys:
                    raise ValueError(f"the {'number' if isinstance(key, int) else 'name'} {key} has two current rows")
                self.used_keys.add(key)


def _parse_value_row(cells: dict[str, str]) -> ValueRow:
    """Convert the cells of an enum value, by column. Raises ValueError."""
    number, name, until = int(cells["number"]), _check_identifier(cells["name"]), _parse_version(cells["until"])
    if not -(1 << 31) <= number < 1 << 31:
        raise ValueError(f"enum value {number} has more than 32 bits")
    return ValueRow(number, name, _parse_version(cells["since"]), until, cells["doc"])


def _parse_reserved_row(cells: dict[str, str]) -> ReservedRow:
    """Convert the cells of a reserved row, by column. Raises ValueError."""
    first, _, last = cells["number"].partition("-")
    low = int(first) if first else 0
    high = int(last) if last else low
    if high < low or bool(low) == bool(cells["name"]):
        raise ValueError("a reserved row has a number, a range `low-high`, or a name")
    return ReservedRow(low, high, cells["name"], cells["doc"])


def _parse_field_row(cells: dict[str, str], line: int) -> FieldRow:
    """Convert the cells of a field, by column. line: the line number. Raises ValueError."""
    number, name, until = int(cells["number"]), _check_identifier(cells["name"]), _parse_version(cells["until"])
    kind, _, type_name = cells["type"].partition(" ")
    if kind not in TYPES or bool(type_name) != (kind in ("message", "enum")):
        forms = [f"{name} NAME" if name in ("message", "enum") else name for name in TYPES]
        raise ValueError(f"type {cells['type']!r} is not one of {', '.join(forms)}")
    if cells["label"] not in ("optional", "repeated"):
        raise ValueError(f"label {cells['label']!r} is neither 'optional' nor 'repeated'")
    if cells["packed"] not in ("", "packed"):
        raise ValueError(f"packed {cells['packed']!r} is neither empty nor 'packed'")
    if not 1 <= number <= MAX_FIELD_NUMBER:
        raise ValueError(f"field number {number} is not in 1..{MAX_FIELD_NUMBER}")
    repeated, packed = cells["label"] == "repeated", cells["packed"] == "packed"
    if packed and (not repeated or kind in ("string", "bytes", "message")):
        raise ValueError(f"field {name} can't be packed: only repeated numbers, bools and enums can")
    if cells["oneof"] and repeated:
        raise ValueError(f"field {name} is repeated and can't be in a oneof")
    oneof, since, doc = cells["oneof"], _parse_version(cells["since"]), cells["doc"]
    return FieldRow(number, name, TYPES[kind], type_name, repeated, oneof, packed, since, until, doc, line)


def _check_identifier(name: str) -> str:
    if not name.isidentifier():
        raise ValueError(f"{name!r} is not a name")
    return name


def _parse_version(text: str) -> int | None:
    return int(text) if text else None
