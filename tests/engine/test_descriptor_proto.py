"""`DESCRIPTOR.CopyToProto` writes messages and enums as the official runtime does, apart from the order of their parts.

For a file, only the name, the package, and the names of its messages and enums are compared.
"""

from __future__ import annotations

import onnx
import pytest
from google.protobuf import descriptor_pb2

import onnxwire
from onnxwire.messages import SCHEMA


def official_class(full_name):
    """Return the official class of a message such as "onnx.TypeProto.Tensor"."""
    cls = onnx
    for name in full_name.split(".")[1:]:
        cls = getattr(cls, name)
    return cls


def sort_parts(proto):
    """Sort the fields, nested types, enums and enum values of a DescriptorProto, at any depth; return it."""
    for enum in proto.enum_type:
        enum.value.sort(key=lambda value: value.number)
    for field in (proto.field, proto.nested_type, proto.enum_type):
        field.sort(key=lambda part: part.name)
    for nested in proto.nested_type:
        sort_parts(nested)
    return proto


@pytest.mark.parametrize(
    "full_name", [name for name, cls in SCHEMA.messages.items() if hasattr(onnx, name.split(".")[1])]
)
def test_a_message_has_the_official_descriptor(full_name):
    expected, actual = descriptor_pb2.DescriptorProto(), descriptor_pb2.DescriptorProto(name="replaced")
    official_class(full_name).DESCRIPTOR.CopyToProto(expected)
    SCHEMA.messages[full_name].DESCRIPTOR.CopyToProto(actual)
    assert sort_parts(actual) == sort_parts(expected)


def test_an_enum_has_the_official_descriptor():
    expected, actual = descriptor_pb2.EnumDescriptorProto(), descriptor_pb2.EnumDescriptorProto()
    onnx.TensorProto.DESCRIPTOR.enum_types_by_name["DataType"].CopyToProto(expected)
    onnxwire.TensorProto.DESCRIPTOR.enum_types_by_name["DataType"].CopyToProto(actual)
    assert actual == expected


def test_a_file_contains_the_official_messages_and_enums():
    file = descriptor_pb2.FileDescriptorProto()
    onnxwire.ModelProto.DESCRIPTOR.file.CopyToProto(file)
    assert (file.name, file.package) == ("onnx/onnx-ml.proto", "onnx")
    expected = descriptor_pb2.FileDescriptorProto()
    onnx.ModelProto.DESCRIPTOR.file.CopyToProto(expected)
    assert {message.name for message in file.message_type} == {message.name for message in expected.message_type}
    assert {enum.name for enum in file.enum_type} == {enum.name for enum in expected.enum_type}


def test_an_object_of_another_class_is_rejected():
    with pytest.raises(TypeError, match=r"expected a google.protobuf.DescriptorProto, not google.protobuf.FileDesc"):
        onnxwire.ModelProto.DESCRIPTOR.CopyToProto(descriptor_pb2.FileDescriptorProto())
    with pytest.raises(TypeError, match=r"not int"):
        onnxwire.ModelProto.DESCRIPTOR.CopyToProto(5)
