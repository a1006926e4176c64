"""Write the descriptors of proto files as tables in the notation of schema/README.md.

    protoc --descriptor_set_out=all.pb --include_imports …
    python tests/conformance/tables.py all.pb FOLDER

Maps, groups, extensions, and types of other packages, such as Timestamp, are omitted because the notation has no rows
for them, so the reader treats these fields as unknown. Implicit presence becomes explicit, and required fields
become optional. Defaults are omitted, and so are aliases of enum values.
"""

from __future__ import annotations

import sys
from pathlib import Path

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
)

FIELD_COLUMNS = ("number", "name", "type", "label", "oneof", "packed", "since", "until", "doc")
VALUE_COLUMNS = ("number", "name", "since", "until", "doc")


def write_tables(descriptors: FileDescriptorSet, folder: Path) -> list[Path]:
    """Write a table file for each proto file; return the paths."""
    paths = [folder / f"{Path(file.name).stem}.md" for file in descriptors.file]
    for path, file in zip(paths, descriptors.file, strict=True):
        path.write_text(table_of(file))
    return paths


def table_of(file: FileDescriptorProto) -> str:
    """Return the text of the table of a proto file."""
    lines = [f"# {Path(file.name).name}", "", f"package: {file.package}", f"syntax: {file.syntax or 'proto2'}"]
    for message in file.message_type:
        lines += message_section(file, message, message.name)
    for enum in file.enum_type:
        lines += enum_section(enum, enum.name)
    return "\n".join([*lines, ""])


def message_section(file: FileDescriptorProto, message: DescriptorProto, name: str) -> list[str]:
    """Return the lines of a message and its nested types. name: its name within the package."""
    maps = {f".{file.package}.{name}.{nested.name}" for nested in message.nested_type if nested.options.map_entry}
    fields = sorted(message.field, key=lambda field: field.number)
    rows = [row for field in fields if (row := field_row(file, message, field, maps)) is not None]
    for reserved in message.reserved_range:
        has_several = reserved.end > reserved.start + 1
        numbers = f"{reserved.start}-{reserved.end - 1}" if has_several else str(reserved.start)
        rows.append([numbers, "", "reserved", "", "", "", "", "", "."])
    rows += [["", reserved_name, "reserved", "", "", "", "", "", "."] for reserved_name in message.reserved_name]
    lines = ["", f"## message {name}", "", "Made from its descriptor.", "", *markdown_table(FIELD_COLUMNS, rows)]
    for nested in message.nested_type:
        if not nested.options.map_entry:
            lines += message_section(file, nested, f"{name}.{nested.name}")
    for enum in message.enum_type:
        lines += enum_section(enum, f"{name}.{enum.name}")
    return lines


def field_row(
    file: FileDescriptorProto, message: DescriptorProto, field: FieldDescriptorProto, maps: set[str]
) -> list[str] | None:
    """Return the cells of a field's row, or None if the notation has no row for the field.

    maps: the type names of the entries of map fields.
    """
    field_type = FieldDescriptorProto.Type.Name(field.type).removeprefix("TYPE_").lower()
    package_prefix = f".{file.package}."
    if (
        field_type == "group"
        or field.type_name in maps
        or (field.type_name and not field.type_name.startswith(package_prefix))
    ):
        return None
    if field_type in ("message", "enum"):
        field_type += f" {field.type_name.removeprefix(package_prefix)}"
    is_repeated = field.label == FieldDescriptorProto.LABEL_REPEATED
    oneof = ""
    if field.HasField("oneof_index") and not field.proto3_optional:
        oneof = message.oneof_decl[field.oneof_index].name
    # In proto3, numbers are packed unless the option `packed` is false.
    is_number = not field_type.startswith("message ") and field_type not in ("string", "bytes")
    packed = field.options.packed if field.options.HasField("packed") else file.syntax == "proto3"
    label, packing = ("repeated", "packed" if is_number and packed else "") if is_repeated else ("optional", "")
    return [str(field.number), field.name, field_type, label, oneof, packing, "1", "", "."]


def enum_section(enum: EnumDescriptorProto, name: str) -> list[str]:
    """Return the lines of an enum. name: its name within the package."""
    rows, seen_numbers = [], set()
    for value in sorted(enum.value, key=lambda value: value.number):
        if value.number not in seen_numbers:  # only the first name of a number: tables have no aliases
            seen_numbers.add(value.number)
            rows.append([str(value.number), value.name, "1", "", "."])
    return ["", f"## enum {name}", "", "Made from its descriptor.", "", *markdown_table(VALUE_COLUMNS, rows)]


def markdown_table(columns: tuple[str, ...], rows: list[list[str]]) -> list[str]:
    """Return the lines of a Markdown table."""
    lines = [columns, ["-" * len(column) for column in columns], *rows]
    return ["| " + " | ".join(line) + " |" for line in lines]


if __name__ == "__main__":
    write_tables(FileDescriptorSet.FromString(Path(sys.argv[1]).read_bytes()), Path(sys.argv[2]))
