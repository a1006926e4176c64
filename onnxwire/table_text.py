"""Reads schema tables, the Markdown notation of `schema/README.md`, into plain rows.

Stands alone, without the rest of the package: the build runs it before there is a package.
"""

from __future__ import annotations

from typing import NamedTuple

MESSAGE_COLUMNS = ["number", "name", "type", "label", "oneof", "packed", "since", "until", "doc"]
ENUM_COLUMNS = ["number", "name", "since", "until", "doc"]

TYPES = {
    "double": 1, "float": 2, "int64": 3, "uint64": 4, "int32": 5, "fixed64": 6, "fixed32": 7, "bool": 8, "string": 9,
    "message": 11, "bytes": 12, "uint32": 13, "enum": 14, "sfixed32": 15, "sfixed64": 16, "sint32": 17, "sint64": 18,
}  # fmt: skip
MAX_NUMBER = (1 << 29) - 1


class FieldRow(NamedTuple):
    """One row of a message; since and until are versions of the format, until is None for a live row."""

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


class ReservedRow(NamedTuple):
    """Field numbers first to last, or a name, that may not be used."""

    first: int
    last: int
    name: str
    doc: str


class MessageTable(NamedTuple):
    """One message."""

    name: str
    doc: str
    retired: bool
    fields: list[FieldRow]
    reserved: list[ReservedRow]


class ValueRow(NamedTuple):
    """One value of an enum."""

    number: int
    name: str
    since: int | None
    until: int | None
    doc: str


class EnumTable(NamedTuple):
    """One enum."""

    name: str
    doc: str
    retired: bool
    values: list[ValueRow]


class FileTables(NamedTuple):
    """All tables of one file."""

    name: str
    package: str
    syntax: str
    imports: list[str]
    messages: list[MessageTable]
    enums: list[EnumTable]


def parse(text: str, source: str = "<table>") -> FileTables:
    """Read the tables of one file.

    text: the file's Markdown. source: what errors call it.
    Raises ValueError that names the line.
    """
    name, head = "", {"package": "", "syntax": "proto2", "imports": ""}
    messages: list[MessageTable] = []
    enums: list[EnumTable] = []
    current: MessageTable | EnumTable | None = None
    columns: list[str] | None = None
    for number, line in enumerate(text.splitlines(), 1):
        line = line.strip()
        try:
            if line.startswith("## "):
                current, columns = _section(line[3:].split()), None
                if isinstance(current, MessageTable):
                    messages.append(current)
                else:
                    enums.append(current)
            elif line.startswith("# "):
                name = line[2:].strip()
            elif line.startswith("|"):
                if current is None:
                    raise ValueError("a table before the first heading")
                cells = [cell.strip() for cell in line.strip("|").split("|")]
                wanted = MESSAGE_COLUMNS if isinstance(current, MessageTable) else ENUM_COLUMNS
                if columns is None:
                    columns = cells
                    if cells != wanted:
                        raise ValueError(f"columns {', '.join(cells)}; expected {', '.join(wanted)}")
                elif set(line) <= set("|-: "):
                    continue
                elif len(cells) != len(wanted):
                    raise ValueError(f"{len(cells)} cells; expected {len(wanted)}")
                else:
                    _row(current, dict(zip(wanted, cells, strict=True)))
            elif line and current is not None:
                doc = f"{current.doc} {line}".strip()
                current = current._replace(doc=doc)
                if isinstance(current, MessageTable):
                    messages[-1] = current
                else:
                    enums[-1] = current
            elif ":" in line and line.split(":")[0] in head:
                key, _, value = line.partition(":")
                head[key] = value.strip()
        except ValueError as error:
            raise ValueError(f"{source}, line {number}: {error}") from None
    imports = [part.strip() for part in head["imports"].split(",") if part.strip()]
    return FileTables(name, head["package"], head["syntax"], imports, messages, enums)


def _section(words: list[str]) -> MessageTable | EnumTable:
    retired = words[0] == "retired"
    words = words[1:] if retired else words
    if len(words) != 2 or words[0] not in ("message", "enum"):
        raise ValueError("a heading that is neither `message NAME` nor `enum NAME`")
    if words[0] == "message":
        return MessageTable(words[1], "", retired, [], [])
    return EnumTable(words[1], "", retired, [])


def _row(table: MessageTable | EnumTable, cells: dict[str, str]) -> None:
    since = int(cells["since"]) if cells["since"] else None
    until = int(cells["until"]) if cells["until"] else None
    if isinstance(table, EnumTable):
        table.values.append(ValueRow(int(cells["number"]), cells["name"], since, until, cells["doc"]))
        return
    type_word, _, type_name = cells["type"].partition(" ")
    if type_word == "reserved":
        first, _, last = cells["number"].partition("-")
        low = int(first) if first else 0
        table.reserved.append(ReservedRow(low, int(last) if last else low, cells["name"], cells["doc"]))
        return
    if type_word not in TYPES or bool(type_name) != (type_word in ("message", "enum")):
        raise ValueError(f"type {cells['type']!r} is none of {', '.join(TYPES)} (message and enum with a name)")
    if cells["label"] not in ("optional", "repeated"):
        raise ValueError(f"label {cells['label']!r} is neither optional nor repeated")
    if cells["packed"] not in ("", "packed"):
        raise ValueError(f"packed {cells['packed']!r} is neither empty nor packed")
    number = int(cells["number"])
    if not 1 <= number <= MAX_NUMBER:
        raise ValueError(f"field number {number} is not in 1..{MAX_NUMBER}")
    repeated, packed = cells["label"] == "repeated", cells["packed"] == "packed"
    if packed and (not repeated or type_word in ("string", "bytes", "message")):
        raise ValueError(f"field {cells['name']} can't be packed: only repeated numbers can")
    if cells["oneof"] and repeated:
        raise ValueError(f"field {cells['name']} is repeated and can't be in a oneof")
    live = [row for row in table.fields if row.until is None]
    if until is None and any(row.number == number or row.name == cells["name"] for row in live):
        raise ValueError(f"field {cells['name']} = {number} repeats a number or name of the message")
    kind, doc = TYPES[type_word], cells["doc"]
    table.fields.append(
        FieldRow(number, cells["name"], kind, type_name, repeated, cells["oneof"], packed, since, until, doc)
    )
