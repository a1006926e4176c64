"""Descriptors of messages, fields and enums, with the attributes of protobuf's Python descriptors."""

from __future__ import annotations

from collections.abc import Iterator

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, SupportsIndex

    from onnxwire.engine.message import Message


# The wire types: the three low bits of a tag.
WIRE_VARINT, WIRE_FIXED64, WIRE_LEN, WIRE_START_GROUP, WIRE_END_GROUP, WIRE_FIXED32 = range(6)


class Options:
    """The options of a descriptor, for protobuf's tools; all but `packed` have their default values."""

    __slots__ = ("packed",)

    deprecated = False
    map_entry = False
    message_set_wire_format = False

    def __init__(self, packed: bool = False) -> None:
        self.packed = packed


_NO_OPTIONS = Options()


class _DescriptorBase:
    """The common base of descriptors, with their options."""

    __slots__ = ()

    has_options = False

    def GetOptions(self) -> Options:
        """Return the options; all have their default values."""
        return _NO_OPTIONS


def _copy_to_proto(self: _DescriptorBase, proto: Any) -> None:
    """Replace the content of `proto` by this descriptor; fields are in the order of their numbers.

    proto: the message of google.protobuf.descriptor_pb2 for this kind of descriptor, such as a DescriptorProto.
    Raises TypeError for any other object.
    """
    from onnxwire.engine.descriptor_proto import copy_to_proto

    copy_to_proto(self, proto)


class FileDescriptor(_DescriptorBase):
    """A file of messages: `name`, `package`, and its top-level messages and enums by short names."""

    __slots__ = ("enum_types_by_name", "message_types_by_name", "name", "package")

    CopyToProto = _copy_to_proto

    def __init__(self, name: str, package: str) -> None:
        self.name = name
        self.package = package
        self.message_types_by_name: dict[str, Descriptor] = {}
        self.enum_types_by_name: dict[str, EnumDescriptor] = {}

    def __repr__(self) -> str:
        return f"FileDescriptor({self.name})"


class EnumValueDescriptor(_DescriptorBase):
    """One value of an enum: `name`, `number` and `doc`.

    since, until: the first and the last version of the format with the value; since is None if the table does not state
    it, and until is None for a value of the current version. type: the enum; index: the value's index in `type.values`,
    or -1 if the value is retired.
    """

    __slots__ = ("doc", "index", "name", "number", "since", "type", "until")

    type: EnumDescriptor

    def __init__(self, name: str, number: int, since: int | None, until: int | None, doc: str) -> None:
        self.name = name
        self.number = number
        self.since = since
        self.until = until
        self.doc = doc
        self.index = -1

    def __repr__(self) -> str:
        return f"EnumValueDescriptor({self.name} = {self.number})"


class EnumDescriptor(_DescriptorBase):
    """An enum.

    values: the current values, in the order of the table. is_closed: whether a number that none of `values` has is an
    unknown field. values_by_number: contains the first of several values with the same number. containing_type: the
    message that declares the enum, or None; file: the enum's FileDescriptor.
    """

    __slots__ = (
        "containing_type",
        "doc",
        "file",
        "full_name",
        "is_closed",
        "name",
        "retired_values",
        "values",
        "values_by_name",
        "values_by_number",
    )

    CopyToProto = _copy_to_proto

    def __init__(
        self, file: FileDescriptor, full_name: str, doc: str, is_closed: bool, rows: list[EnumValueDescriptor]
    ) -> None:
        self.file = file
        self.containing_type: Descriptor | None = None
        self.full_name = full_name
        self.name = full_name.rpartition(".")[2]
        self.doc = doc
        self.is_closed = is_closed
        self.values = [row for row in rows if row.until is None]
        self.retired_values = [row for row in rows if row.until is not None]
        self.values_by_name = {row.name: row for row in self.values}
        self.values_by_number = {row.number: row for row in reversed(self.values)}
        for row in rows:
            row.type = self
        for index, row in enumerate(self.values):
            row.index = index

    def __repr__(self) -> str:
        return f"EnumDescriptor({self.full_name})"


class OneofDescriptor(_DescriptorBase):
    """A oneof: at most one of its `fields` is present at a time; index: its index in `containing_type.oneofs`."""

    __slots__ = ("containing_type", "fields", "index", "name")

    def __init__(self, name: str, containing_type: Descriptor) -> None:
        self.name = name
        self.index = len(containing_type.oneofs)
        self.containing_type = containing_type
        self.fields: list[FieldDescriptor] = []

    @property
    def full_name(self) -> str:
        """The full name of the message, a dot, and `name`."""
        return f"{self.containing_type.full_name}.{self.name}"

    def __repr__(self) -> str:
        return f"OneofDescriptor({self.full_name})"


class FieldDescriptor(_DescriptorBase):
    """A field of a message.

    type: one of TYPE_*; message_type, enum_type: the descriptor of the values' type, or None;
    containing_type: the message; containing_oneof: its oneof or None;
    index: its index in `containing_type.fields`, or -1 for a retired field;
    json_name: the name without underscores, the character after each in upper case; cpp_type: one of CPPTYPE_*;
    since, until: the first and the last version of the format with the field; since is None if the table does not state
    it, and until is None for a current field.
    """

    TYPE_DOUBLE = 1
    TYPE_FLOAT = 2
    TYPE_INT64 = 3
    TYPE_UINT64 = 4
    TYPE_INT32 = 5
    TYPE_FIXED64 = 6
    TYPE_FIXED32 = 7
    TYPE_BOOL = 8
    TYPE_STRING = 9
    TYPE_GROUP = 10
    TYPE_MESSAGE = 11
    TYPE_BYTES = 12
    TYPE_UINT32 = 13
    TYPE_ENUM = 14
    TYPE_SFIXED32 = 15
    TYPE_SFIXED64 = 16
    TYPE_SINT32 = 17
    TYPE_SINT64 = 18

    CPPTYPE_INT32 = 1
    CPPTYPE_INT64 = 2
    CPPTYPE_UINT32 = 3
    CPPTYPE_UINT64 = 4
    CPPTYPE_DOUBLE = 5
    CPPTYPE_FLOAT = 6
    CPPTYPE_BOOL = 7
    CPPTYPE_ENUM = 8
    CPPTYPE_STRING = 9
    CPPTYPE_MESSAGE = 10

    LABEL_OPTIONAL = 1
    LABEL_REQUIRED = 2
    LABEL_REPEATED = 3

    __slots__ = (
        "containing_oneof",
        "containing_type",
        "cpp_type",
        "doc",
        "enum_type",
        "index",
        "is_packed",
        "is_repeated",
        "json_name",
        "message_type",
        "name",
        "number",
        "since",
        "type",
        "until",
    )

    is_required = False
    is_extension = False
    extension_scope = None
    has_default_value = False

    def __init__(
        self,
        containing_type: Descriptor,
        number: int,
        name: str,
        type: int,
        is_repeated: bool,
        is_packed: bool,
        since: int | None,
        until: int | None,
        doc: str,
    ) -> None:
        self.containing_type = containing_type
        self.number = number
        self.name = name
        first_word, *other_words = name.split("_")
        self.json_name = first_word + "".join(word[:1].upper() + word[1:] for word in other_words)
        self.type = type
        self.cpp_type: int = _CPP_TYPES[type]
        self.is_repeated = is_repeated
        self.is_packed = is_packed
        self.since = since
        self.until = until
        self.doc = doc
        self.index = -1
        self.message_type: Descriptor | None = None
        self.enum_type: EnumDescriptor | None = None
        self.containing_oneof: OneofDescriptor | None = None

    @property
    def full_name(self) -> str:
        """The full name of the message, a dot, and `name`."""
        return f"{self.containing_type.full_name}.{self.name}"

    @property
    def label(self) -> int:
        """LABEL_REPEATED or LABEL_OPTIONAL."""
        return self.LABEL_REPEATED if self.is_repeated else self.LABEL_OPTIONAL

    @property
    def file(self) -> FileDescriptor:
        """The file of the message."""
        return self.containing_type.file

    @property
    def camelcase_name(self) -> str:
        """The name in JSON with the first character in lower case."""
        name = self.json_name
        return name[:1].lower() + name[1:]

    @property
    def has_options(self) -> bool:  # type: ignore[override]
        """Whether the field has an option: packed is the only option that tables have."""
        return self.is_packed

    def GetOptions(self) -> Options:
        """Return the options; `packed` may be True."""
        return Options(self.is_packed)

    @property
    def wire_type(self) -> int:
        """The wire type of one value: 0 varint, 1 fixed64, 2 length-delimited, 5 fixed32."""
        return _WIRE_TYPES.get(self.type, WIRE_VARINT)

    @property
    def is_span(self) -> bool:
        """Whether a value is a span of bytes: a string, bytes or a message."""
        return self.type in (self.TYPE_STRING, self.TYPE_BYTES, self.TYPE_MESSAGE)

    def accepts(self, wire_type: int) -> bool:
        """Return whether a record of a wire type contains one value of the field or a packed run."""
        return wire_type == self.wire_type or (wire_type == WIRE_LEN and self.is_repeated and not self.is_span)

    @property
    def has_presence(self) -> bool:
        """Whether HasField accepts the field."""
        return not self.is_repeated

    @property
    def default_value(self) -> object:
        """The value of an absent field; [] for a repeated field, None for a message."""
        if self.is_repeated:
            return []
        if self.enum_type is not None:
            return self.enum_type.values[0].number if self.enum_type.values else 0
        return _DEFAULTS.get(self.type, 0)

    def __repr__(self) -> str:
        return f"FieldDescriptor({self.full_name} = {self.number})"


# Name in errors, minimum and maximum of each integer type.
INTEGER_RANGES = {
    FieldDescriptor.TYPE_INT32: ("int32", -(1 << 31), (1 << 31) - 1),
    FieldDescriptor.TYPE_SINT32: ("sint32", -(1 << 31), (1 << 31) - 1),
    FieldDescriptor.TYPE_SFIXED32: ("sfixed32", -(1 << 31), (1 << 31) - 1),
    FieldDescriptor.TYPE_INT64: ("int64", -(1 << 63), (1 << 63) - 1),
    FieldDescriptor.TYPE_SINT64: ("sint64", -(1 << 63), (1 << 63) - 1),
    FieldDescriptor.TYPE_SFIXED64: ("sfixed64", -(1 << 63), (1 << 63) - 1),
    FieldDescriptor.TYPE_UINT32: ("uint32", 0, (1 << 32) - 1),
    FieldDescriptor.TYPE_FIXED32: ("fixed32", 0, (1 << 32) - 1),
    FieldDescriptor.TYPE_UINT64: ("uint64", 0, (1 << 64) - 1),
    FieldDescriptor.TYPE_FIXED64: ("fixed64", 0, (1 << 64) - 1),
    FieldDescriptor.TYPE_ENUM: ("an enum, which is int32", -(1 << 31), (1 << 31) - 1),
}

# The keys of the following three dicts are TYPE_*. Values of _CPP_TYPES: CPPTYPE_*.
_CPP_TYPES = {
    1: 5, 2: 6, 3: 2, 4: 4, 5: 1, 6: 4, 7: 3, 8: 7, 9: 9, 11: 10, 12: 9, 13: 3, 14: 8, 15: 1, 16: 2, 17: 1, 18: 2,
}  # fmt: skip
# Values: wire types; types without an entry are WIRE_VARINT.
_WIRE_TYPES = {1: 1, 6: 1, 16: 1, 2: 5, 7: 5, 15: 5, 9: 2, 11: 2, 12: 2}
# Values of absent singular fields; 0 for types without an entry.
_DEFAULTS: dict[int, object] = {1: 0.0, 2: 0.0, 8: False, 9: "", 11: None, 12: b""}


class Descriptor(_DescriptorBase):
    """A message: `fields` in ascending order of their numbers, `retired_fields`, `oneofs`, nested types and enums.

    reserved_ranges: (first, last) of each range of reserved field numbers, both included; reserved_names: reserved
    field names. file: the message's FileDescriptor. is_retired: whether the current version lacks the message.
    No message has extensions.
    """

    __slots__ = (
        "_concrete_class",
        "containing_type",
        "doc",
        "enum_types",
        "fields",
        "fields_by_name",
        "fields_by_number",
        "file",
        "full_name",
        "is_retired",
        "name",
        "nested_types",
        "oneofs",
        "oneofs_by_name",
        "reserved_names",
        "reserved_ranges",
        "retired_fields",
    )

    CopyToProto = _copy_to_proto
    is_extendable = False
    extensions: tuple[FieldDescriptor, ...] = ()
    extension_ranges: tuple[tuple[int, int], ...] = ()

    def __init__(self, file: FileDescriptor, full_name: str, doc: str, is_retired: bool = False) -> None:
        self.file = file
        self.full_name = full_name
        self.name = full_name.rpartition(".")[2]
        self.doc = doc
        self.is_retired = is_retired
        self.fields: list[FieldDescriptor] = []
        self.retired_fields: list[FieldDescriptor] = []
        self.fields_by_name: dict[str, FieldDescriptor] = {}
        self.fields_by_number: dict[int, FieldDescriptor] = {}
        self.oneofs: list[OneofDescriptor] = []
        self.oneofs_by_name: dict[str, OneofDescriptor] = {}
        self.nested_types: list[Descriptor] = []
        self.enum_types: list[EnumDescriptor] = []
        self.containing_type: Descriptor | None = None
        self.reserved_ranges: list[tuple[int, int]] = []
        self.reserved_names: list[str] = []
        self._concrete_class: type[Message] | None = None

    @property
    def fields_by_camelcase_name(self) -> dict[str, FieldDescriptor]:
        """The fields by their names in JSON with the first letter in lower case."""
        return {field.camelcase_name: field for field in self.fields}

    @property
    def extensions_by_name(self) -> dict[str, FieldDescriptor]:
        """An empty dict: no message has extensions."""
        return {}

    @property
    def retired_names(self) -> set[str]:
        """The names of retired fields and reserved names, except those of current fields."""
        names = {*self.reserved_names, *(field.name for field in self.retired_fields)}
        return names - self.fields_by_name.keys()

    @property
    def nested_types_by_name(self) -> dict[str, Descriptor]:
        """The messages declared inside this one, by their short names."""
        return {nested.name: nested for nested in self.nested_types}

    @property
    def enum_types_by_name(self) -> dict[str, EnumDescriptor]:
        """The enums declared inside this message, by their short names."""
        return {enum.name: enum for enum in self.enum_types}

    @property
    def enum_values_by_name(self) -> dict[str, EnumValueDescriptor]:
        """The values of all enums declared inside this message, by their names."""
        return {value.name: value for enum in self.enum_types for value in enum.values}

    def __repr__(self) -> str:
        return f"Descriptor({self.full_name})"


class EnumTypeWrapper:
    """Names and numbers of an enum's values: `DataType.FLOAT`, `DataType.Name(1)`, `DataType.Value("FLOAT")`."""

    __slots__ = ("DESCRIPTOR",)

    def __init__(self, descriptor: EnumDescriptor) -> None:
        self.DESCRIPTOR = descriptor

    def Name(self, number: SupportsIndex) -> str:
        """Return the name of a value; raises ValueError if there is none, TypeError if `number` is not an integer."""
        if not hasattr(number, "__index__"):
            raise TypeError(f"Enum value for {self.DESCRIPTOR.name} must be an int, but got {type(number)} {number!r}.")
        for value in self.DESCRIPTOR.values:
            if value.number == number:
                return value.name
        raise ValueError(f"Enum {self.DESCRIPTOR.name} has no name defined for value {number}")

    def Value(self, name: str) -> int:
        """Return the number of the value with a name; raises ValueError if there is none."""
        value = self.DESCRIPTOR.values_by_name.get(name)
        if value is None:
            raise ValueError(f"Enum {self.DESCRIPTOR.name} has no value defined for name {name!r}")
        return value.number

    def keys(self) -> list[str]:
        """Return the names, in the order of the table."""
        return [value.name for value in self.DESCRIPTOR.values]

    def values(self) -> list[int]:
        """Return the numbers, in the order of the table."""
        return [value.number for value in self.DESCRIPTOR.values]

    def items(self) -> list[tuple[str, int]]:
        """Return (name, number) of each value, in the order of the table."""
        return [(value.name, value.number) for value in self.DESCRIPTOR.values]

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __getattr__(self, name: str) -> int:
        if name == "DESCRIPTOR":  # not yet set while a copy is made
            raise AttributeError(name)
        value = self.DESCRIPTOR.values_by_name.get(name)
        if value is None:
            raise AttributeError(f"Enum {self.DESCRIPTOR.name} has no value {name!r}")
        return value.number

    def __repr__(self) -> str:
        return f"EnumTypeWrapper({self.DESCRIPTOR.full_name})"
