"""Generate a module of literals, the stubs of the message classes and `onnxwire.h` from the tables.

The build runs this script. The generated files are not committed. To run it yourself: `python schema/generate.py`.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

_STRING, _MESSAGE, _BYTES = 9, 11, 12  # field types
_FLOAT_ANNOTATIONS = ("float", "SupportsFloat | SupportsIndex")
# Annotations by field type: of the value that a field returns, and of the values that it accepts.
_ANNOTATIONS_BY_TYPE = {
    1: _FLOAT_ANNOTATIONS,  # double
    2: _FLOAT_ANNOTATIONS,  # float
    8: ("bool", "SupportsIndex"),  # bool
    _STRING: ("str", "str | bytes"),
    _BYTES: ("bytes", "bytes"),
    14: ("int", "SupportsIndex | str"),  # enum
}
_INT_ANNOTATIONS = ("int", "SupportsIndex")
# Base classes of messages that have methods and properties besides their fields.
_BASES = {
    "TensorProto": "onnxwire.tensor.numpy_conversion.Tensor",
    "SparseTensorProto": "onnxwire.tensor.sparse_tensor.SparseTensor",
}


def write(root: Path) -> None:
    """Write `messages/_tables.py`, `messages/__init__.pyi` and `include/onnxwire.h` from all tables of `schema/`."""
    table_text = _load_module(root / "onnxwire" / "engine" / "table_text.py")
    paths = sorted(path for path in (root / "schema").glob("*.md") if path.name != "README.md")
    files = _sorted_by_imports([table_text.parse(path.read_text(encoding="utf-8"), path.name) for path in paths])
    _write_if_changed(root / "onnxwire" / "messages" / "_tables.py", _literals_module(files))
    _write_if_changed(root / "onnxwire" / "messages" / "__init__.pyi", _stubs_module(files))
    folder = root / "onnxwire" / "include"
    template = (folder / "onnxwire.h.in").read_text(encoding="utf-8")
    c_tables = _load_module(root / "schema" / "c_tables.py")
    _write_if_changed(folder / "onnxwire.h", c_tables.make_header(template, files, root))


def _load_module(path: Path) -> ModuleType:
    """Import the module of a file, under the name of the file."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def _write_if_changed(path: Path, text: str) -> None:
    """Write a file unless it already has this content, because a new modification time would cause a rebuild."""
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def _sorted_by_imports(files: list) -> list:
    """Return the files sorted so that each comes after the files that it imports.

    Raises ValueError if an imported file is missing, or if imports are circular.
    """
    ordered: list = []
    while len(ordered) < len(files):
        names = {file.name for file in ordered}
        importable = [file for file in files if file not in ordered and names.issuperset(file.imports)]
        if not importable:
            raise ValueError(f"an import is missing or circular in the table files {[file.name for file in files]}")
        ordered += importable
    return ordered


def _literals_module(files: list) -> str:
    """Return the text of `messages/_tables.py`. files: results of `table_text.parse`."""
    lines = [
        '"""The tables of `schema/` as nested lists and tuples: fields of the NamedTuples of `engine/table_text.py`.',
        "",
        "Written by schema/generate.py; not to be edited.",
        '"""',
        "",
    ]
    lines += [*_base_imports(), "", "BASES = {"]
    lines += [f'    "onnx.{name}": ({base.rpartition(".")[2]},),' for name, base in _BASES.items()]
    lines += ["}", "TABLES = ["]
    for file in files:
        # source, name, package, syntax and imports
        literals = ", ".join(repr(value) for value in file[:5])
        lines.append(f"    ({literals}, [")
        for message in file.messages:
            lines.append(f"        ({message.name!r}, {message.doc!r}, {message.retired!r}, [")
            lines += [f"            {tuple(row)!r}," for row in message.fields]
            lines.append("        ], [")
            lines += [f"            {tuple(row)!r}," for row in message.reserved]
            lines.append("        ]),")
        lines.append("    ], [")
        for enum in file.enums:
            lines.append(f"        ({enum.name!r}, {enum.doc!r}, {enum.retired!r}, [")
            lines += [f"            {tuple(row)!r}," for row in enum.values]
            lines.append("        ]),")
        lines.append("    ]),")
    return "\n".join([*lines, "]", ""])


def _base_imports() -> list[str]:
    """Return the lines that import the additional base classes."""
    return sorted("from {0} import {2}".format(*base.rpartition(".")) for base in _BASES.values())


def _stubs_module(files: list) -> str:
    """Return the text of `messages/__init__.pyi`. files: results of `table_text.parse`."""
    messages = {message.name: message for file in files for message in file.messages if not message.retired}
    enums = {enum.name: enum for file in files for enum in file.enums if not enum.retired}
    public_names = [name for name in messages if "." not in name]
    lines = [
        '"""Stubs of the message classes. Written by schema/generate.py; not to be edited."""',
        "",
        "from collections.abc import Iterable",
        "from typing import Any, ClassVar, Literal, SupportsFloat, SupportsIndex, final",
        "",
        "from onnxwire.engine.message import Message",
        "from onnxwire.engine.numbers import RepeatedScalar",
        "from onnxwire.engine.repeated_span import RepeatedSpan",
        "from onnxwire.engine.descriptor import EnumTypeWrapper",
        "from onnxwire.engine.schema import Schema",
        *_base_imports(),
        "",
        "SCHEMA: Schema",
    ]
    for name, enum in enums.items():
        if "." not in name:
            public_names += [name, *(value.name for value in enum.values if value.until is None)]
            lines += _enum_stub(enum, "")
    lines += ["", f"__all__ = {public_names!r}"]
    for name, message in messages.items():
        if "." not in name:
            lines += ["", *_message_stub(message, messages, enums, "")]
    return "\n".join([*lines, ""])


def _enum_stub(enum, indent: str) -> list[str]:
    """Return the lines of the stubs of an enum and its values. indent: "" at the top level."""
    annotation_format = "ClassVar[{}]" if indent else "{}"
    short_name = enum.name.rpartition(".")[2]
    lines = [f"{indent}{short_name}: {annotation_format.format('EnumTypeWrapper')}", f'{indent}"""{enum.doc}"""']
    for value in enum.values:
        if value.until is None:
            lines += [f"{indent}{value.name}: {annotation_format.format('int')}", f'{indent}"""{value.doc}"""']
    return lines


def _message_stub(message, messages: dict, enums: dict, indent: str) -> list[str]:
    """Return the lines of the stub of a message class, with its nested classes and enums.

    messages, enums: all current tables by name.
    """
    inner_indent = indent + "    "
    short_name = message.name.rpartition(".")[2]
    bases = ", ".join(["Message"] + [_BASES[name].rpartition(".")[2] for name in [message.name] if name in _BASES])
    lines = [f"{indent}@final", f"{indent}class {short_name}({bases}):", f'{inner_indent}"""{message.doc}"""', ""]
    for name, nested in messages.items():
        if name.rpartition(".")[0] == message.name:
            lines += [*_message_stub(nested, messages, enums, inner_indent), ""]
    for name, enum in enums.items():
        if name.rpartition(".")[0] == message.name:
            lines += _enum_stub(enum, inner_indent)
    current_rows = sorted((row for row in message.fields if row.until is None), key=lambda row: row.number)
    for row in current_rows:
        lines.append(f"{inner_indent}{row.name.upper()}_FIELD_NUMBER: ClassVar[Literal[{row.number}]]")
    if current_rows:
        lines += [f"{inner_indent}def __init__(", f"{inner_indent}    self,", f"{inner_indent}    *,"]
        lines += [f"{inner_indent}    {row.name}: {_keyword_annotation(row)} | None = None," for row in current_rows]
        lines.append(f"{inner_indent}) -> None: ...")
    for row in current_rows:
        lines += _field_stub(row, inner_indent)
    oneofs = list(dict.fromkeys(row.oneof for row in current_rows if row.oneof))
    names_for_has_field = [row.name for row in current_rows if not row.repeated] + oneofs
    names_for_clear_field = [row.name for row in current_rows] + oneofs
    body = "...  # type: ignore[override]"
    if names_for_has_field:
        lines.append(f"{inner_indent}def HasField(self, field_name: {_literal(names_for_has_field)}) -> bool: {body}")
    if names_for_clear_field:
        lines.append(
            f"{inner_indent}def ClearField(self, field_name: {_literal(names_for_clear_field)}) -> None: {body}"
        )
    if oneofs:
        names_by_oneof = {name: [row.name for row in current_rows if row.oneof == name] for name in oneofs}
        member_literal = _literal([name for names in names_by_oneof.values() for name in names])
        lines.append(
            f"{inner_indent}def WhichOneof(self, oneof_group: {_literal(oneofs)}) -> {member_literal} | None: {body}"
        )
    return lines


def _element_annotations(row) -> tuple[str, str]:
    """Return the annotations of a field's value or element: when it is read, and when it is assigned."""
    if row.type == _MESSAGE:
        return row.type_name, row.type_name
    return _ANNOTATIONS_BY_TYPE.get(row.type, _INT_ANNOTATIONS)


def _keyword_annotation(row) -> str:
    """Return the annotation of a field's keyword argument of the constructor."""
    accepted_annotation = _element_annotations(row)[1]
    if row.type == _MESSAGE:
        accepted_annotation += " | dict[str, Any]"
    return f"Iterable[{accepted_annotation}]" if row.repeated else accepted_annotation


def _field_stub(row, indent: str) -> list[str]:
    """Return the lines of a property for a field.

    A property can have different types in its getter and setter, and editors show the docstring of a property. Repeated
    fields and messages have no setter.
    """
    returned_annotation, accepted_annotation = _element_annotations(row)
    property_annotation = returned_annotation
    if row.repeated:
        sequence = "RepeatedSpan" if row.type in (_STRING, _MESSAGE, _BYTES) else "RepeatedScalar"
        property_annotation = (
            f"{sequence}[{returned_annotation}]"
            if returned_annotation == accepted_annotation
            else f"{sequence}[{returned_annotation}, {accepted_annotation}]"
        )
    lines = [
        f"{indent}@property",
        f"{indent}def {row.name}(self) -> {property_annotation}:",
        f'{indent}    """{row.doc}"""',
    ]
    if row.type != _MESSAGE and not row.repeated:
        lines += [
            f"{indent}@{row.name}.setter",
            f"{indent}def {row.name}(self, value: {accepted_annotation}) -> None: ...",
        ]
    return lines


def _literal(names: list[str]) -> str:
    return f"Literal[{', '.join(repr(name) for name in names)}]"


if __name__ == "__main__":
    write(Path(__file__).parent.parent)
