"""Creates descriptors and message classes from tables."""

from __future__ import annotations

import os

from onnxwire.engine.classes import make_classes
from onnxwire.engine.descriptor import (
    Descriptor,
    EnumDescriptor,
    EnumTypeWrapper,
    EnumValueDescriptor,
    FieldDescriptor,
    FileDescriptor,
    OneofDescriptor,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from onnxwire.engine.message import Message
    from onnxwire.engine.table_text import EnumTable, FileTables, MessageTable


class Schema:
    """The message classes of a set of tables.

    Message classes and enum wrappers that are not nested, and the values of these enums, are attributes by short name.
    messages: class by full name, such as "package.Message"; enums: wrapper by full name; retired: descriptor by
    full name, of messages that are not in the current version of the format.
    """

    def __init__(
        self, files: Sequence[FileTables], module: str, bases: dict[str, tuple[type, ...]] | None = None
    ) -> None:
        """Make the classes.

        files: results of `table_text.parse`, or equal plain tuples. module: `__module__` of the classes. bases: further
        base classes of message classes, by the full name of the message.
        Raises ValueError for a type that no table describes.
        """
        self.messages: dict[str, type[Message]] = {}
        self.enums: dict[str, EnumTypeWrapper] = {}
        self.retired: dict[str, Descriptor] = {}
        descriptors: dict[str, Descriptor] = {}
        for _, file_name, package, syntax, _, messages, enums in files:
            prefix = package + "." if package else ""
            file = FileDescriptor(f"{package}/{file_name}" if package else file_name, package)
            for enum in enums:
                self._add_enum(file, prefix, syntax, enum)
            for name, doc, is_retired, _, _ in messages:
                descriptors[prefix + name] = Descriptor(file, prefix + name, doc, is_retired)
        for source, _, package, _, _, messages, _ in files:
            prefix = package + "." if package else ""
            for message in messages:
                self._add_fields(source, descriptors[prefix + message[0]], message, prefix, descriptors)
        self.retired = {name: descriptor for name, descriptor in descriptors.items() if descriptor.is_retired}
        current_descriptors = [descriptor for descriptor in descriptors.values() if not descriptor.is_retired]
        self.messages = make_classes(current_descriptors, module, bases or {})
        self._set_attributes(descriptors, module)

    def _add_enum(self, file: FileDescriptor, prefix: str, syntax: str, table: EnumTable) -> None:
        """Create the wrapper of an enum; prefix: the package and a dot, or ""."""
        name, doc, _, rows = table
        values = [
            EnumValueDescriptor(value_name, number, since, until, value_doc)
            for number, value_name, since, until, value_doc in rows
        ]
        self.enums[prefix + name] = EnumTypeWrapper(
            EnumDescriptor(file, prefix + name, doc, syntax == "proto2", values)
        )

    def _add_fields(
        self, source: str, message: Descriptor, table: MessageTable, prefix: str, descriptors: dict[str, Descriptor]
    ) -> None:
        """Fill the descriptor of a message from its table.

        source: the table file, for errors; prefix: as for `_add_enum`.
        Raises ValueError for a type that no table describes.
        """
        _, _, _, rows, reserved = table
        for number, name, kind, type_name, is_repeated, oneof, is_packed, since, until, doc, line in rows:
            field = FieldDescriptor(message, number, name, kind, is_repeated, is_packed, since, until, doc)
            if kind == FieldDescriptor.TYPE_MESSAGE:
                field.message_type = descriptors.get(prefix + type_name)
            elif kind == FieldDescriptor.TYPE_ENUM and prefix + type_name in self.enums:
                field.enum_type = self.enums[prefix + type_name].DESCRIPTOR
            if type_name and field.message_type is None and field.enum_type is None:
                raise ValueError(f"{source}, line {line}: no table describes {type_name}")
            if until is not None:
                message.retired_fields.append(field)
                continue
            if oneof:
                if oneof not in message.oneofs_by_name:
                    message.oneofs_by_name[oneof] = OneofDescriptor(oneof, message)
                    message.oneofs.append(message.oneofs_by_name[oneof])
                field.containing_oneof = message.oneofs_by_name[oneof]
                field.containing_oneof.fields.append(field)
            message.fields.append(field)
        message.fields.sort(key=lambda field: field.number)
        for index, field in enumerate(message.fields):
            field.index = index
            message.fields_by_name[field.name] = field
            message.fields_by_number[field.number] = field
        message.reserved_ranges = [(first, last) for first, last, _, _ in reserved if first]
        message.reserved_names = [name for _, _, name, _ in reserved if name]

    def _set_attributes(self, descriptors: dict[str, Descriptor], module: str) -> None:
        """Set classes, enums, enum values and field numbers as attributes, as protobuf does; link their descriptors."""
        for full_name, cls in self.messages.items():
            descriptor = descriptors[full_name]
            descriptor._concrete_class = cls
            cls.__module__ = module
            for field in descriptor.fields:
                setattr(cls, f"{field.name.upper()}_FIELD_NUMBER", field.number)
            parent = descriptors.get(full_name.rpartition(".")[0])
            if parent is not None:
                cls.__qualname__ = f"{self.messages[parent.full_name].__qualname__}.{descriptor.name}"
                descriptor.containing_type = parent
                parent.nested_types.append(descriptor)
                setattr(self.messages[parent.full_name], descriptor.name, cls)
            else:
                descriptor.file.message_types_by_name[descriptor.name] = descriptor
                setattr(self, descriptor.name, cls)
        for full_name, wrapper in self.enums.items():
            if not wrapper.DESCRIPTOR.values:
                continue
            parent = descriptors.get(full_name.rpartition(".")[0])
            owner: object = self if parent is None else self.messages[parent.full_name]
            wrapper.DESCRIPTOR.containing_type = parent
            if parent is not None:
                parent.enum_types.append(wrapper.DESCRIPTOR)
            else:
                wrapper.DESCRIPTOR.file.enum_types_by_name[wrapper.DESCRIPTOR.name] = wrapper.DESCRIPTOR
            setattr(owner, wrapper.DESCRIPTOR.name, wrapper)
            for value in wrapper.DESCRIPTOR.values:
                setattr(owner, value.name, value.number)

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> type[Message]: ...


def load_schema(*paths: str | os.PathLike[str], module: str = "onnxwire.loaded") -> Schema:
    """Make message classes from table files, in the notation of `schema/README.md`.

    paths: the files, including the files that they import. module: `__module__` of the classes.
    Raises ValueError with file and line for an invalid table, SourceError (an OSError) for a file that can't be read or
    has more than 64 MiB, and DecodeError for a file that is not UTF-8.
    """
    from onnxwire.engine.table_text import parse
    from onnxwire.engine.text_file import read_text

    files = []
    for path in paths:
        files.append(parse(read_text(path, "a table of messages"), os.fspath(path)))
    return Schema(files, module)
