"""Generate, from the tables, a module of literals and the stubs of the message classes.

The build runs this; the generated files are not committed. To run it by hand: `python schema/generate.py`.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

# By number of the field type: the annotations of the value that a field returns, and of the values that it accepts.
_FLOAT = ("float", "SupportsFloat | SupportsIndex")
_TYPES = {
    1: _FLOAT, 2: _FLOAT, 8: ("bool", "SupportsIndex"), 9: ("str", "str | bytes"), 12: ("bytes", "bytes"),
    14: ("int", "SupportsIndex | str"),
}  # fmt: skip
_INT = ("int", "SupportsIndex")
# Base classes of messages; they define methods and properties that are not fields.
_BASES = {
    "TensorProto": "onnxwire.tensor.numpy_conversion.Tensor",
    "SparseTensorProto": "onnxwire.tensor.sparse_tensor.SparseTensor",
}


def write(root: Path) -> None:
    """Write `messages/_tables.py`, `messages/__init__.pyi` and `include/onnxwire.h` from all tables of `schema/`."""
    table_text = _load(root / "onnxwire" / "engine" / "table_text.py")
    paths = sorted(path for path in (root / "schema").glob("*.md") if path.name != "README.md")
    files = _in_order([table_text.parse(path.read_text(encoding="utf-8"), path.name) for path in paths])
    _write(root / "onnxwire" / "messages" / "_tables.py", _tables(files))
    _write(root / "onnxwire" / "messages" / "__init__.pyi", _stubs(files))
    folder = root / "onnxwire" / "include"
    template = (folder / "onnxwire.h.in").read_text(encoding="utf-8")
    c_tables = _load(root / "schema" / "c_tables.py")
    _write(folder / "onnxwire.h", c_tables.header(template, files, root))


def _load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def _write(path: Path, text: str) -> None:
    """Write a file unless it already has this content: a new modification time would cause a rebuild."""
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def _in_order(files: list) -> list:
    """Sort files such that each comes after the files that it imports."""
    ordered: list = []
    while len(ordered) < len(files):
        names = {f.name for f in ordered}
        ready = [f for f in files if f not in ordered and names.issuperset(f.imports)]
        if not ready:
            raise ValueError(f"missing or circular imports of table files: {[f.name for f in files]}")
        ordered += ready
    return ordered


def _tables(files: list) -> str:
    lines = ['"""The tables of `schema/` as literals. Written by schema/generate.py; not to be edited."""', ""]
    lines += [*_base_imports(), "", "BASES = {"]
    lines += [f'    "onnx.{name}": ({base.rpartition(".")[2]},),' for name, base in _BASES.items()]
    lines += ["}", "TABLES = ["]
    for file in files:
        columns = ", ".join(repr(value) for value in file[:5])
        lines.append(f"    ({columns}, [")
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
    return sorted("from {0} import {2}".format(*base.rpartition(".")) for base in _BASES.values())


def _stubs(files: list) -> str:
    messages = {m.name: m for file in files for m in file.messages if not m.retired}
    enums = {e.name: e for file in files for e in file.enums if not e.retired}
    public = [name for name in messages if "." not in name]
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
            public += [name, *(value.name for value in enum.values if value.until is None)]
            lines += _enum_stub(enum, "")
    lines += ["", f"__all__ = {public!r}"]
    for name, message in messages.items():
        if "." not in name:
            lines += ["", *_message_stub(message, messages, enums, "")]
    return "\n".join([*lines, ""])


def _enum_stub(enum, indent: str) -> list[str]:
    kind = "ClassVar[{}]" if indent else "{}"
    short = enum.name.rpartition(".")[2]
    lines = [f"{indent}{short}: {kind.format('EnumTypeWrapper')}", f'{indent}"""{enum.doc}"""']
    for value in enum.values:
        if value.until is None:
            lines += [f"{indent}{value.name}: {kind.format('int')}", f'{indent}"""{value.doc}"""']
    return lines


def _message_stub(message, messages: dict, enums: dict, indent: str) -> list[str]:
    inner = indent + "    "
    short = message.name.rpartition(".")[2]
    bases = ", ".join(["Message"] + [_BASES[name].rpartition(".")[2] for name in [message.name] if name in _BASES])
    lines = [f"{indent}@final", f"{indent}class {short}({bases}):", f'{inner}"""{message.doc}"""', ""]
    for name, nested in messages.items():
        if name.rpartition(".")[0] == message.name:
            lines += [*_message_stub(nested, messages, enums, inner), ""]
    for name, enum in enums.items():
        if name.rpartition(".")[0] == message.name:
            lines += _enum_stub(enum, inner)
    live = sorted((row for row in message.fields if row.until is None), key=lambda row: row.number)
    for row in live:
        lines.append(f"{inner}{row.name.upper()}_FIELD_NUMBER: ClassVar[Literal[{row.number}]]")
    if live:
        lines += [f"{inner}def __init__(", f"{inner}    self,", f"{inner}    *,"]
        lines += [f"{inner}    {row.name}: {_keyword_type(row)} | None = None," for row in live]
        lines.append(f"{inner}) -> None: ...")
    for row in live:
        lines += _field_stub(row, inner)
    oneofs = list(dict.fromkeys(row.oneof for row in live if row.oneof))
    singular = [row.name for row in live if not row.repeated] + oneofs
    clearable = [row.name for row in live] + oneofs
    ignore = "...  # type: ignore[override]"
    if singular:
        lines.append(f"{inner}def HasField(self, field_name: {_literal(singular)}) -> bool: {ignore}")
    if clearable:
        lines.append(f"{inner}def ClearField(self, field_name: {_literal(clearable)}) -> None: {ignore}")
    if oneofs:
        members = {name: [row.name for row in live if row.oneof == name] for name in oneofs}
        member = _literal([name for names in members.values() for name in names])
        lines.append(f"{inner}def WhichOneof(self, oneof_group: {_literal(oneofs)}) -> {member} | None: {ignore}")
    return lines


def _element_types(row) -> tuple[str, str]:
    """Return the annotations of a field's value or element when it is read, and when it is assigned."""
    if row.type == 11:
        return row.type_name, row.type_name
    return _TYPES.get(row.type, _INT)


def _keyword_type(row) -> str:
    """Return the annotation of a field's keyword argument of the constructor."""
    accepted = _element_types(row)[1]
    if row.type == 11:
        accepted += " | dict[str, Any]"
    return f"Iterable[{accepted}]" if row.repeated else accepted


def _field_stub(row, indent: str) -> list[str]:
    """Return a field as a property.

    The types of getter and setter may differ, and editors show the docstring of a property.
    """
    returned, accepted = _element_types(row)
    kind = returned
    if row.repeated:
        sequence = "RepeatedSpan" if row.type in (9, 11, 12) else "RepeatedScalar"
        kind = f"{sequence}[{returned}]" if returned == accepted else f"{sequence}[{returned}, {accepted}]"
    lines = [f"{indent}@property", f"{indent}def {row.name}(self) -> {kind}:", f'{indent}    """{row.doc}"""']
    if row.type != 11 and not row.repeated:
        lines += [f"{indent}@{row.name}.setter", f"{indent}def {row.name}(self, value: {accepted}) -> None: ..."]
    return lines


def _literal(names: list[str]) -> str:
    return f"Literal[{', '.join(repr(name) for name in names)}]"


if __name__ == "__main__":
    write(Path(__file__).parent.parent)
