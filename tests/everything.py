"""The schema of everything.md, which has fields of every type except groups, as onnxwire's and as official classes."""

from __future__ import annotations

import os

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

import onnxwire
from onnxwire.engine.table_text import parse

PATH = os.path.join(os.path.dirname(__file__), "everything.md")


def official_class(full_name, pool=None):
    """Return the official runtime's class of a message. pool: an official descriptor pool; default: protobuf's default
    pool, which has the messages of onnx after `import onnx`."""
    pool = pool or descriptor_pool.Default()
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(full_name))


def official_pool(path):
    """Return an official descriptor pool with the schema of a table file."""
    with open(path, encoding="utf-8") as table_file:
        tables = parse(table_file.read(), path)
    file = descriptor_pb2.FileDescriptorProto(name=tables.name, package=tables.package, syntax=tables.syntax)
    protos = {"": file}
    for table in tables.messages:
        parent_name, _, name = table.name.rpartition(".")
        container = protos[parent_name].nested_type if parent_name else file.message_type
        proto = protos[table.name] = container.add(name=name)
        for row in table.fields:
            label = "LABEL_REPEATED" if row.repeated else "LABEL_OPTIONAL"
            field = proto.field.add(name=row.name, number=row.number, type=row.type, label=label)
            if row.type_name:
                field.type_name = f".{tables.package}.{row.type_name}"
            if row.packed:
                field.options.packed = True
            if row.oneof:
                oneofs = [oneof.name for oneof in proto.oneof_decl]
                if row.oneof not in oneofs:
                    proto.oneof_decl.add(name=row.oneof)
                    oneofs.append(row.oneof)
                field.oneof_index = oneofs.index(row.oneof)
    for table in tables.enums:
        parent_name, _, name = table.name.rpartition(".")
        proto = protos[parent_name].enum_type.add(name=name)
        for row in table.values:
            proto.value.add(name=row.name, number=row.number)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return pool


SCHEMA, POOL = onnxwire.load_schema(PATH), official_pool(PATH)
PAIRS = {name: (cls, official_class(name, POOL)) for name, cls in SCHEMA.messages.items()}
"""Full name of a message → (onnxwire's class, official class)."""
EVERYTHING = SCHEMA.Everything
