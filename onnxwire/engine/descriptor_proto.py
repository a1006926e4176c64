"""Converts descriptors to the messages of google.protobuf.descriptor_pb2, for `CopyToProto`."""

from __future__ import annotations

from typing import Any

TYPE_CHECKING = False
if TYPE_CHECKING:
    from onnxwire.engine.descriptor import Descriptor, EnumDescriptor, FieldDescriptor, FileDescriptor


def copy_to_proto(descriptor: Any, proto: Any) -> None:
    """Replace the content of `proto`, a message of descriptor_pb2, by that of a descriptor.

    descriptor: a FileDescriptor, Descriptor or EnumDescriptor.
    Raises TypeError if `proto` is not the message for this kind of descriptor.
    """
    proto_name = f"{type(descriptor).__name__}Proto"
    actual_name = getattr(getattr(proto, "DESCRIPTOR", None), "full_name", type(proto).__name__)
    if actual_name != f"google.protobuf.{proto_name}":
        raise TypeError(f"expected a google.protobuf.{proto_name}, not {actual_name}")
    proto.Clear()
    _FILLERS[proto_name](descriptor, proto)


def _fill_file(file: FileDescriptor, proto: Any) -> None:
    """Fill an empty FileDescriptorProto."""
    proto.name = file.name
    proto.package = file.package
    for message in file.message_types_by_name.values():
        _fill_message(message, proto.message_type.add())
    for enum in file.enum_types_by_name.values():
        _fill_enum(enum, proto.enum_type.add())


def _fill_message(message: Descriptor, proto: Any) -> None:
    """Fill an empty DescriptorProto."""
    proto.name = message.name
    for field in message.fields:
        _fill_field(field, proto.field.add())
    for nested in message.nested_types:
        _fill_message(nested, proto.nested_type.add())
    for enum in message.enum_types:
        _fill_enum(enum, proto.enum_type.add())
    for oneof in message.oneofs:
        proto.oneof_decl.add(name=oneof.name)
    for first, last in message.reserved_ranges:
        proto.reserved_range.add(start=first, end=last + 1)  # `end` is exclusive
    proto.reserved_name.extend(message.reserved_names)


def _fill_field(field: FieldDescriptor, proto: Any) -> None:
    """Fill an empty FieldDescriptorProto."""
    proto.name = field.name
    proto.number = field.number
    proto.label = field.label
    proto.type = field.type
    if field.message_type is not None or field.enum_type is not None:
        proto.type_name = f".{(field.message_type or field.enum_type).full_name}"  # type: ignore[union-attr]
    if field.containing_oneof is not None:
        proto.oneof_index = field.containing_oneof.index
    if field.is_packed:
        proto.options.packed = True


def _fill_enum(enum: EnumDescriptor, proto: Any) -> None:
    """Fill an empty EnumDescriptorProto."""
    proto.name = enum.name
    for value in enum.values:
        proto.value.add(name=value.name, number=value.number)


_FILLERS: dict[str, Any] = {
    "FileDescriptorProto": _fill_file,
    "DescriptorProto": _fill_message,
    "EnumDescriptorProto": _fill_enum,
}
