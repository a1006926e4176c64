"""Conversion of the tables to C for `onnxwire.h`: names of messages and fields, and the rows that the reader uses."""

from __future__ import annotations

import importlib.util
from pathlib import Path

_NO_ROW = 255  # the row of a number without a field
# The entry of `short_fields` for a number that has no field or a field of fixed size. Its wire type, 255, is in no tag.
_NO_SHORT_FIELD = 0xFFFF
_NO_LIMIT = 0xFFFF  # the bound of the values of a field that is not an enum: greater than every varint of two bytes
# Wire types by field type, a number of FieldDescriptorProto.Type.
_WIRE_TYPES = dict.fromkeys((3, 4, 5, 8, 13, 14, 17, 18), 0)  # varints
_WIRE_TYPES.update(dict.fromkeys((9, 11, 12), 2))  # strings, bytes and messages
_WIRE_TYPES.update({1: 1, 6: 1, 16: 1, 2: 5, 7: 5, 15: 5})  # numbers of 8 and 4 bytes
_MESSAGE, _ENUM = 11, 14


def make_header(template: str, files: list, root: Path) -> str:
    """Return the template of the header with its placeholders replaced by the names and data of the tables.

    files: the parsed tables, as `engine.table_text.parse` returns them. root: the folder of the repository.
    """
    messages = [(file, message) for file in files for message in file.messages if not message.retired]
    enums = [(file, enum) for file in files for enum in file.enums if not enum.retired]
    return template.replace("/*TABLES*/", _name_declarations(messages)).replace(
        "/*DATA*/", _table_definitions(messages, enums, root)
    )


def _current_fields(message) -> list:
    """Return the current fields of a message, sorted by number. Retired fields are unknown to the reader."""
    return sorted((row for row in message.fields if row.until is None), key=lambda row: row.number)


def _identifier(message) -> str:
    """Return the name of a message as part of a C identifier."""
    return message.name.replace(".", "_")


def _name_declarations(messages: list) -> str:
    """Return the C enums of table numbers and field rows, and the declaration of the tables.

    messages: pairs (file, message).
    """
    lines = ["/* Numbers of tables. */", "enum {"]
    lines += [f"    OW_{_identifier(message)} = {number}," for number, (_, message) in enumerate(messages)]
    lines += [f"    OW_N_TABLES = {len(messages)}", "};", "", "/* Rows of fields: indexes of slots. */", "enum {"]
    for _, message in messages:
        lines += [f"    OW_{_identifier(message)}_{row.name} = {i}," for i, row in enumerate(_current_fields(message))]
    lines += [f"    OW_MAX_FIELDS = {max(len(_current_fields(message)) for _, message in messages)}", "};", ""]
    lines += ["extern const ow_table ow_tables[OW_N_TABLES];"]
    return "\n".join(lines)


def _table_definitions(messages: list, enums: list, root: Path) -> str:
    """Return the C definitions of enums, element sizes and tables. messages, enums: pairs (file, message or enum)."""
    message_indexes = {f"{file.package}.{message.name}": i for i, (file, message) in enumerate(messages)}
    enum_indexes = {f"{file.package}.{enum.name}": i for i, (file, enum) in enumerate(enums)}
    lines = ["/* For each enum, the count of its values, then the values. */"]
    for i, (_, enum) in enumerate(enums):
        values = sorted(row.number for row in enum.values if row.until is None)
        lines.append(f"static const int32_t ow_enum_{i}[] = {{{', '.join(map(str, [len(values), *values]))}}};")
    names = ", ".join(f"ow_enum_{i}" for i in range(len(enums)))
    lines += [f"static const int32_t *const ow_enums[] = {{{names}}};", ""]
    lines += [f"static const uint8_t ow_bits[] = {{{', '.join(map(str, _element_bits(root)))}}};", ""]
    table_lines = []
    for file, message in messages:
        rows, name = _current_fields(message), _identifier(message)
        if not rows:
            raise ValueError(f"{message.name} has no fields")
        oneofs = list(dict.fromkeys(row.oneof for row in rows if row.oneof))
        lines.append(f"static const ow_field ow_fields_{name}[] = {{")
        for row in rows:
            type_name = f"{file.package}.{row.type_name}"
            # In the order of the members of ow_field.
            cells = [f'"{row.name}"', row.number, row.type, int(row.repeated)]
            cells += [oneofs.index(row.oneof) + 1 if row.oneof else 0]
            cells += [
                message_indexes[type_name] if row.type == _MESSAGE else -1,
                enum_indexes[type_name] if row.type == _ENUM else -1,
            ]
            cells += [_WIRE_TYPES[row.type]]
            lines.append(f"    {{{', '.join(map(str, cells))}}},")
        row_indexes = {row.number: i for i, row in enumerate(rows)}
        row_index_by_number = [row_indexes.get(number, _NO_ROW) for number in range(rows[-1].number + 1)]
        lines += ["};", f"static const uint8_t ow_rows_{name}[] = {{{', '.join(map(str, row_index_by_number))}}};"]
        # At least 16 entries: the field number of a tag of one byte, 0 to 15, is looked up without a check.
        short_fields = [_NO_SHORT_FIELD] * max(len(row_index_by_number), 16)
        # The parts of an entry: row, wire type, and a bound: each varint below the bound is a value of the field.
        for i, row in enumerate(rows):
            value_bound = (
                _first_missing_value(enums[enum_indexes[f"{file.package}.{row.type_name}"]][1])
                if row.type == _ENUM
                else _NO_LIMIT
            )
            if _WIRE_TYPES[row.type] in (0, 2):
                short_fields[row.number] = i | _WIRE_TYPES[row.type] << 8 | value_bound << 16
        entries = ", ".join(f"0x{entry:X}" for entry in short_fields)
        lines.append(f"static const uint32_t ow_short_fields_{name}[] = {{{entries}}};")
        # In the order of the members of ow_table.
        cells = [
            f'"{file.package}.{message.name}"',
            f"ow_fields_{name}",
            f"ow_rows_{name}",
            len(rows),
            len(row_index_by_number),
        ]
        cells += [f"ow_short_fields_{name}"]
        table_lines.append(f"    {{{', '.join(map(str, cells))}}},")
    return "\n".join([*lines, "", "const ow_table ow_tables[OW_N_TABLES] = {", *table_lines, "};"])


def _first_missing_value(enum) -> int:
    """Return the smallest number from 0 that is not a value of an enum."""
    values = {row.number for row in enum.values if row.until is None}
    return next(number for number in range(0xFFFF) if number not in values)


def _element_bits(root: Path) -> list[int]:
    """Return the size of an element in bits by TensorProto.DataType. It is 0 for a number that is not a data type."""
    spec = importlib.util.spec_from_file_location("dtypes", root / "onnxwire" / "tensor" / "dtypes.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    data_types = module.BY_NUMBER
    return [data_types[number].bits if number in data_types else 0 for number in range(max(data_types) + 1)]
