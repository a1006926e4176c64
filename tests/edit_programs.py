"""Draw random programs of edits: lines of Python that should give the same results in onnxwire and protobuf.

A program is a list of lines over variables `v0`, `v1`, …, which exist until a line deletes them. A `World`, ours or the
official one (protobuf's), provides the functions that lines call. The next line depends on the types of the variables,
and on their values in one of the worlds, the leader.

The functions draw with `rng`, a random.Random. They return Python source, or bytes of messages. `M` is the namespace of
the message classes.
"""

from __future__ import annotations

import dataclasses
import random
import struct

import wire
from worlds import World, classes

from onnxwire.engine.descriptor import FieldDescriptor

MAX_COPY_BYTES = 4000  # maximum size of a message that is copied or merged into another
MAX_COPY_DEPTH = 12  # maximum depth of a message that is copied or merged into another
ONNX_TYPES = "ModelProto GraphProto NodeProto AttributeProto TensorProto ValueInfoProto TypeProto FunctionProto"
ONNX_TYPES += " SparseTensorProto TrainingInfoProto StringStringEntryProto TensorShapeProto SequenceProto OptionalProto"
TABLE_TYPES = "Everything Everything.Tree Sparse Nothing Holder"
CLASS_NAMES = [f"onnx.{name}" for name in ONNX_TYPES.split()] + [f"test.{name}" for name in TABLE_TYPES.split()]

# --- values


# `draw_value` omits the first three where a value must be valid for every integer field.
INTEGERS = ["-1", "-3", "300", "0", "1", "2", "7", "127", "128", "70"]
LARGE_INTEGERS = ["(1<<31)-1", "-(1<<31)", "(1<<32)-1", "1<<32", "(1<<63)-1", "-(1<<63)", "(1<<64)-1"]
FLOATS = ["0.0", "-0.0", "1.5", "0.1", "1e39", "-2.5", "float('nan')", "float('inf')", "3"]
TEXTS = ["''", "'a'", "'name'", "'b'", "'ä€𝄞'", "'x'*40", "'x'*300", "b'bytes'", "'\\0'"]
BYTE_STRINGS = ["b''", "b'a'", "b'\\xff\\0'", "b'x'*20", "b'x'*400", "b'abcdefgh'"]
UNUSUAL_VALUES = [
    "None",
    "object()",
    "[]",
    "{}",
    "'no_such_name'",
    "1.5",
    "1<<70",
    "b'\\xff'",
    "'\\ud800'",
    "Index(1)",
    "Index(1<<70)",
]
UNUSUAL_VALUES += [
    "Index(PlannedError)",
    "np.int64(5)",
    "np.float32(1.5)",
    "np.bool_(True)",
    "M.NodeProto()",
    "1j",
    "True",
]
WRONG_TYPE_PROBABILITY = 0.04  # the probability of one of UNUSUAL_VALUES, most of which have another type


def draw_value(field, rng, wrong_probability=WRONG_TYPE_PROBABILITY) -> str:
    """Draw a value for a scalar field, as Python source.

    wrong_probability: the probability of one of UNUSUAL_VALUES. With 0, integers are valid for every integer field.
    """
    if rng.random() < wrong_probability:
        return rng.choice(UNUSUAL_VALUES)
    if field.enum_type is not None:
        names = [repr(value.name) for value in field.enum_type.values] + [
            str(value.number) for value in field.enum_type.values
        ]
        return rng.choice(names * 3 + ["900", "-1"] if wrong_probability else names)
    if field.type == FieldDescriptor.TYPE_STRING:
        return rng.choice(TEXTS)
    if field.type == FieldDescriptor.TYPE_BYTES:
        return rng.choice(BYTE_STRINGS)
    if field.type in (FieldDescriptor.TYPE_FLOAT, FieldDescriptor.TYPE_DOUBLE):
        return rng.choice(FLOATS)
    return rng.choice(
        LARGE_INTEGERS if wrong_probability and rng.random() < 0.2 else INTEGERS[0 if wrong_probability else 3 :]
    )


# --- bytes


def draw_bytes(descriptor, rng, depth=3) -> bytes:
    """Draw the bytes of a message: records in any order, of known and unknown fields, of fields that occur several
    times, packed and unpacked; some lengths are padded."""
    records = [_draw_record(descriptor, rng, depth) for _ in range(rng.choice([0, 1, 2, 2, 3, 4]))]
    if records and rng.random() < 0.3:
        # Repeat some records. The parser merges them, appends elements, or uses the last record, as the field requires.
        records += rng.sample(records, rng.randint(1, len(records)))
    if records and rng.random() < 0.08 and sum(map(len, records)) < 100:
        records *= 20  # enough elements for an index
    rng.shuffle(records)
    return b"".join(records)


def _draw_record(descriptor, rng, depth) -> bytes:
    """Draw one record: a value of a field, rarely with another wire type or of an unknown field."""
    if not descriptor.fields or rng.random() < 0.12:
        return _draw_unknown(rng, rng.choice([1000, 1001, 18999, wire.MAX_NUMBER - 1]))
    field = rng.choice(descriptor.fields)
    if rng.random() < 0.05:
        if wire.is_number(field) and not field.is_repeated:
            return wire.len_record(field.number, b"a")
        return wire.group(field.number, wire.varint_record(1, 1))
    pad = rng.choice([0] * 12 + [1, 2])
    if field.message_type is not None:
        data = draw_bytes(field.message_type, rng, depth - 1) if depth else b""
        return wire.len_record(field.number, data, pad)
    if not wire.is_number(field):
        texts = [b"", b"a", b"name", b"x" * 30, b"x" * 300, "ä".encode()]
        return wire.len_record(field.number, b"\xff\0" if rng.random() < 0.04 else rng.choice(texts), pad)
    if field.is_repeated and rng.random() < 0.6:
        return wire.len_record(
            field.number, b"".join(_draw_number(field, rng) for _ in range(rng.choice([0, 1, 2, 3, 3, 80]))), pad
        )
    return wire.tag(field.number, wire.wire_type_of(field)) + _draw_number(field, rng)


def draw_deep_bytes(descriptor, rng, depth) -> bytes:
    """Draw the bytes of a message with messages nested `depth` levels deep, if its type allows that."""
    message_fields = [field for field in descriptor.fields if field.message_type is not None]
    records = [_draw_record(descriptor, rng, 0) for _ in range(rng.choice([0, 1, 2]))]
    if message_fields and depth:
        extensible_fields = [
            field
            for field in message_fields
            if any(other_field.message_type is not None for other_field in field.message_type.fields)
        ]
        field = rng.choice(extensible_fields or message_fields)
        records.append(wire.len_record(field.number, draw_deep_bytes(field.message_type, rng, depth - 1)))
    rng.shuffle(records)
    return b"".join(records)


def _draw_number(field, rng) -> bytes:
    """Draw the encoding of a number, without a tag."""
    wire_type = wire.wire_type_of(field)
    if wire_type == wire.FIXED32:
        return struct.pack("<f", rng.choice([0.0, -0.0, 1.5, float("nan"), 7e8]))
    if wire_type == wire.FIXED64:
        return struct.pack("<d", rng.choice([0.0, -0.0, 1.5, float("inf"), 1e300]))
    values = (
        [value.number for value in field.enum_type.values] * 2 + [900]
        if field.enum_type is not None
        else [0, 1, 2, 300]
    )
    value = rng.choice([*values, -1, 1 << 31, 1 << 40])
    return wire.varint(value, rng.choice([0] * 9 + [1]) if value >= 0 else 0)


def _draw_unknown(rng, number) -> bytes:
    record = wire.varint_record(number, rng.choice([0, 1, 300]))
    return rng.choice([record, wire.len_record(number, b"unknown"), wire.group(number, wire.varint_record(1, 1))])


# --- programs


@dataclasses.dataclass(eq=False)
class Variable:
    """A variable of a program, as far as it is known without running the program."""

    name: str
    # "message"; "numbers", "texts" or "messages": a sequence; "iterator"; or "window": a buffer of numbers.
    kind: str
    type: object  # the descriptor of a message; for other kinds, that of the field
    parent: Variable | None = None  # the variable from which this one was read
    document: object = dataclasses.field(default_factory=object)  # shared by variables that `close` closes together
    is_root: bool = False  # the variable was defined without a parent, unlike a popped element


class ProgramGenerator:
    """The lines of a random program.

    The caller runs each line, and calls `add_new_variable` if the line raised no exception.
    mode: "lockstep" if both worlds run each line and are compared, or "alone" or "threads": see `run_alone` and
    `run_threads` of fuzz_edits.py.
    """

    def __init__(self, rng: random.Random, leader: World, mode: str, n_lines: int):
        self.rng, self.leader, self.n_lines = rng, leader, n_lines
        self.is_lockstep, self.has_threads = mode == "lockstep", mode == "threads"
        self.next_lines: list[str] = []  # lines to run before others are drawn
        self.wrong_probability = WRONG_TYPE_PROBABILITY
        self.variables: list[Variable] = []
        self.excluded_variables: list[Variable] = []  # not compared, because of a deliberate difference
        self.n_defined = 0
        self.new_variable: Variable | None = None  # the variable that the last line defines

    def next_line(self, number: int) -> str | None:
        """Return the next line of the program, or None after the last. number: index of the line.

        With threads, a line of the second half begins with the thread that runs it: `reader: ` or `editor: `.
        """
        if number >= self.n_lines:
            return None
        if self.next_lines:
            return self.next_lines.pop()
        if self.has_threads and number >= self.n_lines // 2:
            return f"reader: {self.draw_reading_line()}" if number % 2 else f"editor: {self.draw_line()}"
        line = self.draw_line()
        return self.next_lines.pop(0) if self.next_lines else line

    def draw_line(self) -> str:
        """Draw a line, and set `new_variable` to the variable that the line defines."""
        self.new_variable = None
        if len(self.variables_of("message")) < 2 or self.rng.random() < 0.04:
            return self.define_root()
        if self.excluded_variables and self.rng.random() < 0.05:
            return f"peek({self.rng.choice(self.excluded_variables).name})"
        if self.rng.random() < 0.03:
            return self.draw_general_line()
        recent = self.variables[-6:] if self.rng.random() < 0.4 else self.variables
        variable = self.rng.choice(recent)
        return getattr(self, f"_draw_{variable.kind}_line")(variable)

    def add_new_variable(self) -> None:
        """Add the variable that the last line defines."""
        if self.new_variable is not None:
            self.variables.append(self.new_variable)

    def variables_of(self, *kinds) -> list[Variable]:
        """Return the variables of some kinds."""
        return [variable for variable in self.variables if variable.kind in kinds]

    def define(self, expression, kind, value_type, parent=None) -> str:
        """Return a line that assigns the expression to a new variable, and set `new_variable`."""
        name = f"v{self.n_defined}"
        self.n_defined += 1
        self.new_variable = Variable(name, kind, value_type, parent)
        self.new_variable.is_root = parent is None
        if parent is not None:
            self.new_variable.document = parent.document
        return f"{name} = {expression}"

    def draw_weighted(self, *choices):
        """Draw one of the values of (weight, value) pairs."""
        return self.rng.choices([value for _, value in choices], [weight for weight, _ in choices])[0]

    # --- lines that are not about one variable

    def define_root(self) -> str:
        """Draw a line that makes a message: from keywords, from bytes, from a file, or empty."""
        full_name = self.rng.choice(CLASS_NAMES)
        descriptor = classes()[full_name][0].DESCRIPTOR
        cls = f"M.{full_name.partition('.')[2]}"
        source = self.draw_weighted((3, "fields"), (4, "bytes"), (2, "file"), (1, "empty"))
        if source == "fields":
            return self.define(f"{cls}({self.draw_keywords(descriptor)})", "message", descriptor)
        if source == "empty":
            return self.define(f"{cls}()", "message", descriptor)
        data = (
            draw_bytes(descriptor, self.rng) if self.rng.random() < 0.85 else draw_deep_bytes(descriptor, self.rng, 28)
        )
        if source == "bytes" or not data:
            return self.define(f"{cls}.FromString({data!r})", "message", descriptor)
        return self.define(f"load({cls}, {data!r})", "message", descriptor)

    def draw_general_line(self) -> str:
        """Draw a line that deletes a variable, closes a document, collects garbage, or edits during a collection."""
        choice = self.draw_weighted(
            (2, "collect()"), (2, "del"), (1, "close"), (0 if self.is_lockstep else 2, "edit_on_collection")
        )
        variable = self.rng.choice(self.variables)
        if choice == "del":
            self.variables.remove(variable)
            return f"del {variable.name}"
        if choice == "close":
            message = self.rng.choice(self.variables_of("message"))
            if self.is_lockstep:
                message = self.rng.choice(
                    [variable for variable in self.variables_of("message") if variable.is_root] or [None]
                )
                if message is None:
                    return "collect()"
                return self.exclude(
                    [variable for variable in self.variables if variable.document is message.document],
                    f"close({message.name})",
                )
            return f"close({message.name})"
        if choice == "edit_on_collection":
            return f"edit_on_collection(lambda: {self.draw_callback()})"
        return choice

    def draw_callback(self) -> str:
        """Draw an expression that edits, reads, closes, collects garbage or raises, for callbacks in an operation."""
        message = self.rng.choice(self.variables_of("message"))
        return self.draw_weighted(
            (3, f"{message.name}.Clear()"),
            (3, f"close({message.name})"),
            (2, "collect()"),
            (2, "fail()"),
            *[(4, text) for text in (self.draw_edit(message),) if " = " not in text],
        )

    def draw_edit(self, message) -> str:
        """Draw a line that reads or edits a message, to be part of another line. Does not change `new_variable`."""
        new_variable = self.new_variable
        text = self._draw_message_line(message)
        self.new_variable = new_variable
        return text

    def draw_reading_line(self) -> str:
        """Draw a line that edits nothing."""
        variable = self.rng.choice(self.variables)
        name = variable.name
        if variable.kind == "message":
            other_name = self.rng.choice(self.variables_of("message")).name
            texts = [
                "read({})",
                "bytes({}.SerializeToString())",
                "{}.ByteSize()",
                "{} == " + other_name,
                "copy.deepcopy({})",
            ]
            fields = [f"{{}}.{field.name}" for field in variable.type.fields]
            return self.rng.choice(texts + fields).format(name)
        if variable.kind in ("iterator", "window"):
            return f"peek({name})"
        texts = ["list({})", "len({})", "{}[0]", "{}[-1]", "{} == list({})", "copy.deepcopy({})", "[*zip({}, {})]"]
        if variable.kind == "numbers":
            texts += ["bytes(window({}))", "array({}).sum()", "np.array({})"] * 2
        return self.rng.choice(texts).replace("{}", name)

    def exclude(self, variables, line) -> str:
        """Return `line`. If the program has some of the variables, also queue a line that excludes them from the
        comparison, and `line` after it; `next_line` then returns these two."""
        variables = [variable for variable in variables if variable in self.variables]
        self.variables = [variable for variable in self.variables if variable not in variables]
        self.excluded_variables += variables
        if variables:
            self.next_lines = [f"exclude({', '.join(repr(variable.name) for variable in variables)})", line]
        return line

    # --- parts of lines

    def draw_keywords(self, descriptor, depth=2) -> str:
        """Draw the keyword arguments of a message's constructor, with messages at most `depth` levels deep."""
        fields = self.rng.sample(list(descriptor.fields), min(len(descriptor.fields), self.rng.choice([0, 1, 2, 3])))
        texts, oneofs = [], set()
        for field in fields:
            if field.containing_oneof is not None:  # the order in which a call sets two members of a oneof is undefined
                if field.containing_oneof.name in oneofs:
                    continue
                oneofs.add(field.containing_oneof.name)
            texts.append(f"{field.name}={self.draw_content(field, depth)}")
        return ", ".join(texts)

    def draw_content(self, field, depth=2) -> str:
        """Draw a value for a field: one element, or a list if the field is repeated."""
        if field.is_repeated:
            return f"[{', '.join(self.draw_element(field, depth) for _ in range(self.rng.choice([0, 1, 2, 3])))}]"
        return self.draw_element(field, depth)

    def draw_valid_content(self, field) -> str:
        """Draw a valid value for a line that may have another error: with two, it is undefined which one is raised."""
        self.wrong_probability = 0
        text = self.draw_content(field)
        self.wrong_probability = WRONG_TYPE_PROBABILITY
        return text

    def draw_element(self, field, depth=2) -> str:
        """Draw one element of a field: a scalar, a message, a dict, or a copy of an existing message."""
        if field.message_type is None:
            return draw_value(field, self.rng, self.wrong_probability)
        existing_messages = [
            variable
            for variable in self.variables_of("message")
            if variable.type.full_name == field.message_type.full_name and self.is_small(variable)
        ]
        if existing_messages and self.rng.random() < 0.4:
            return f"copy_source({self.rng.choice(existing_messages).name})"
        name = f"M.{field.message_type.full_name.partition('.')[2]}"
        content_text = self.draw_keywords(field.message_type, depth - 1) if depth else ""
        if content_text and self.rng.random() < 0.3 and "M." not in content_text:
            return f"dict({content_text})"
        return f"{name}({content_text})"

    def draw_new_elements(self, field) -> str:
        """Draw the iterable by which a sequence of a field is extended."""
        kind = "messages" if field.message_type is not None else "numbers" if wire.is_number(field) else "texts"
        candidates = [
            variable
            for variable in self.variables_of(kind)
            if variable.type.type == field.type and self.is_small(variable)
        ]
        if kind == "messages":
            candidates = [
                variable
                for variable in candidates
                if variable.type.message_type.full_name == field.message_type.full_name
            ]
        if candidates and self.rng.random() < 0.35:
            return f"copy_source({self.rng.choice(candidates).name})"
        if self.rng.random() < 0.06:
            return f"values_then_fail({self.draw_valid_content(field)})"
        text = self.draw_content(field)
        if not self.is_lockstep and self.rng.random() < 0.15:
            return f"call_before_each({text}, lambda: {self.draw_callback()})"
        return f"iter({text})" if self.rng.random() < 0.1 else text

    def is_small(self, variable) -> bool:
        """Return whether a value is small enough to be copied. Without a limit, repeated copies would grow forever."""
        return self.leader.is_small(variable.name, MAX_COPY_BYTES, MAX_COPY_DEPTH)

    def length_of(self, variable) -> int:
        """Return the length of a sequence."""
        return self.leader.length_of(variable.name)

    def draw_index(self, variable) -> str:
        """Draw an index of a sequence: mostly one in its range, rarely one out of range or of another type."""
        n = self.length_of(variable)
        if n and self.rng.random() < 0.9:
            return str(self.rng.randrange(-n, n))
        indexes = ["0", "-1", str(n), str(-n - 1), "Index(0)", "100", "None"]
        return self.rng.choice(indexes if self.is_lockstep else [*indexes, "Index(PlannedError)", "1<<70"])

    def draw_slice(self, variable) -> str:
        """Draw a slice, whose ends may be out of range."""
        n = self.length_of(variable) + 2
        ends = [self.rng.choice(["None", str(self.rng.randrange(-n, n))]) for _ in range(2)]
        return f"slice({', '.join([*ends, self.rng.choice(['None', 'None', 'None', '1', '2', '-1', '-2'])])})"

    # --- lines about messages

    def _draw_message_line(self, variable) -> str:
        """Draw a line about one field of a message or about the whole message."""
        fields = list(variable.type.fields)
        if fields and self.rng.random() < 0.62:
            return self.draw_field_line(variable, self.rng.choice(fields))
        candidates = [
            candidate
            for candidate in self.variables_of("message")
            if candidate.type.full_name == variable.type.full_name and self.is_small(candidate)
        ]
        other_name = self.rng.choice(candidates).name if candidates else variable.name
        can_merge = bool(candidates) and self.is_small(variable)
        action = self.draw_weighted(
            (2, "Clear"), (4 * can_merge, "CopyFrom"), (4 * can_merge, "MergeFrom"), (2, "MergeFromString"),
            (1, "ParseFromString"), (2, "deepcopy"), (1, "pickle"), (2, "SetInParent"), (1, "Discard"),
            (2, "check_encodings"), (1, "edit_nested"), (3, "compare"), (2, "read"), (1, "text"),
            (2 if variable.type.oneofs else 0, "WhichOneof"),
        )  # fmt: skip
        if action in ("CopyFrom", "MergeFrom"):
            return self.replace_content(
                variable, action, f"{variable.name}.{action}(copy_source({other_name}, {variable.name}))"
            )
        if action in ("MergeFromString", "ParseFromString"):
            return self.replace_content(
                variable, action, f"{variable.name}.{action}({draw_bytes(variable.type, self.rng, 2)!r})"
            )
        if action == "deepcopy":
            return self.define(f"copy.deepcopy({variable.name})", "message", variable.type)
        if action == "pickle":
            return self.define(f"pickle_round_trip({variable.name})", "message", variable.type)
        if action == "compare":
            return f"({variable.name} == {other_name}, {variable.name} != {other_name})"
        if action == "WhichOneof":
            return f"{variable.name}.WhichOneof({self.rng.choice([field.name for field in variable.type.oneofs])!r})"
        calls = {"Clear": "Clear()", "SetInParent": "SetInParent()", "Discard": "DiscardUnknownFields()"}
        if action in calls:
            return self.replace_content(variable, action, f"{variable.name}.{calls[action]}")
        return f"{action}({variable.name})"

    def replace_content(self, message_variable, action, line) -> str:
        """Return `line`, which changes the content of a message, and exclude the variables that it may detach.

        action: the method that the line calls, or its prefix. See `detached` of worlds.DIFFERENCES.
        """
        if not self.is_lockstep or action in ("SetInParent", "Discard"):
            return line
        inner_variables = [variable for variable in self.variables if self.is_part(variable, message_variable)]
        # See `merged` of worlds.DIFFERENCES. A direct part is still compared if it is the only one. But bytes may merge
        # into a member of a oneof before they set another member.
        if action == "MergeFrom" or (action == "MergeFromString" and not message_variable.type.oneofs):
            direct_parts = [
                variable
                for variable in self.variables + self.excluded_variables
                if self.is_direct_part(variable, message_variable)
            ]
            if len(direct_parts) < 2:
                inner_variables = [variable for variable in inner_variables if variable not in direct_parts]
        return self.exclude(inner_variables, line)

    def is_direct_part(self, variable, message_variable) -> bool:
        """Return whether a variable is a direct part of the current value of another variable."""
        names = self.leader.names
        return variable.parent is not None and names.get(variable.parent.name) is names[message_variable.name]

    def is_part(self, variable, message_variable) -> bool:
        """Return whether a variable is a part, at any depth, of the current value of another variable."""
        names = self.leader.names
        while (variable := variable.parent) is not None:
            if names.get(variable.name) is names[message_variable.name]:
                return True
        return False

    def draw_field_line(self, variable, field) -> str:
        """Draw a line that reads, sets or clears one field of a message."""
        value = f"{variable.name}.{field.name}"
        if self.rng.random() < 0.15:
            return self.replace_content(variable, "ClearField", f"clear_field({variable.name}, {field.name!r})")
        if field.is_repeated:
            kind = "messages" if field.message_type is not None else "numbers" if wire.is_number(field) else "texts"
            if self.rng.random() < 0.8:
                return self.define(value, kind, field, variable)
            return f"{value} = {self.draw_content(field)}" if self.rng.random() < 0.1 else f"len({value})"
        if self.rng.random() < 0.2:
            return f"{variable.name}.HasField({field.name!r})"
        if field.message_type is not None:
            if self.rng.random() < 0.9:
                return self.define(value, "message", field.message_type, variable)
            return f"{value} = {self.draw_element(field)}"
        return f"{value} = {draw_value(field, self.rng)}" if self.rng.random() < 0.7 else value

    # --- lines about sequences

    def _draw_texts_line(self, variable) -> str:
        return self._draw_numbers_line(variable)

    def _draw_numbers_line(self, variable) -> str:
        """Draw a line about a sequence of scalars."""
        action = self.draw_weighted((4, "set"), (2, "setslice"), (2, "append"), (1, "window"), (9, "other"))
        name = variable.name
        if action == "set":
            index = self.draw_index(variable)
            # An index out of range gets a valid value, so that no line has two errors. So does a negative index.
            is_in_range = index.isdigit() and int(index) < self.length_of(variable)
            new_value = draw_value(variable.type, self.rng, WRONG_TYPE_PROBABILITY if is_in_range else 0)
            return f"{name}[{index}] = {new_value}"
        if action == "setslice":
            index, content = self.draw_slice(variable), self.draw_valid_content(variable.type)
            return f"undo_on_error({name}, lambda: {name}.__setitem__({index}, {content}))"
        if action == "append":
            return f"{name}.append({draw_value(variable.type, self.rng)})"
        if action == "window" and variable.kind == "numbers":
            return self.define(f"{self.rng.choice(['window', 'array'])}({name})", "window", variable.type, variable)
        return self.draw_sequence_line(variable)

    def _draw_messages_line(self, variable) -> str:
        """Draw a line about a sequence of messages."""
        action = self.draw_weighted((4, "get"), (3, "add"), (2, "append"), (8, "other"))
        if action == "get":
            return self.define(
                f"{variable.name}[{self.draw_index(variable)}]", "message", variable.type.message_type, variable
            )
        if action == "add":
            keywords = self.draw_keywords(variable.type.message_type)
            return self.define(
                f"undo_on_error({variable.name}, lambda: {variable.name}.add({keywords}))",
                "message",
                variable.type.message_type,
                variable,
            )
        if action == "append":
            return f"{variable.name}.append({self.draw_element(variable.type)})"
        return self.draw_sequence_line(variable)

    def draw_sequence_line(self, variable) -> str:
        """Draw a line about a sequence of any kind."""
        name, field = variable.name, variable.type
        action = self.draw_weighted(
            (3, "iterate"), (4, "extend"), (2, "insert"), (3, "pop"), (1, "remove"), (2, "del"), (2, "delslice"),
            (1, "sort"), (1, "reverse"), (2, "get"), (1, "slice"), (2, "len"), (1, "compare"), (1, "copy"), (1, "in"),
            (1, "read"), (1, "clear"),
        )  # fmt: skip
        if action == "iterate":
            return self.define(f"iter({name})", "iterator", field, variable)
        if action == "extend":
            method = self.rng.choice(["extend", "extend", "MergeFrom"])
            values = self.draw_new_elements(field)
            return f"undo_on_error({name}, lambda: {name}.{method}({values}))"
        if action == "insert":
            return f"{name}.insert({self.draw_index(variable)}, {self.draw_element(field)})"
        if action == "pop":
            index = str(self.rng.randrange(-n, n)) if (n := self.length_of(variable)) else "0"
            text = f"{name}.pop({index if self.rng.random() < 0.5 else ''})"
            if field.message_type is None:
                return text
            line = self.define(text, "message", field.message_type, variable)
            self.new_variable.parent = None
            return line
        if action == "remove":
            return f"{name}.remove({self.draw_element(field)})"
        if action == "del":
            return f"del {name}[{self.draw_index(variable)}]"
        if action in ("delslice", "clear"):
            return f"delete_slice({name}, {self.draw_slice(variable)})" if action == "delslice" else f"del {name}[:]"
        if action == "sort":
            return self.draw_sort_line(variable)
        if action in ("get", "slice"):
            return f"{name}[{self.draw_index(variable) if action == 'get' else self.draw_slice(variable)}]"
        if action == "compare":
            return f"{name} == {self.draw_new_elements(field) if field.message_type is None else f'list({name})'}"
        if action == "in":
            return f"{self.draw_element(field)} in list({name})"
        return {"reverse": f"{name}.reverse()", "copy": f"copy.deepcopy({name})"}.get(
            action, f"{action if action == 'len' else 'list'}({name})"
        )

    def draw_sort_line(self, variable) -> str:
        """Draw a line that sorts a sequence by a key, which may fail or edit messages."""
        key = "bytes_of" if variable.kind == "messages" else self.rng.choice(["sort_key", "str"])
        if self.rng.random() < 0.2:
            key = "fail"
        elif not self.is_lockstep and self.rng.random() < 0.3:
            key = f"lambda element: ({self.draw_callback()}, 0)[1]"
        return f"{variable.name}.sort(key={key}{self.rng.choice(['', ', reverse=True'])})"

    # --- lines about iterators and buffers

    def _draw_iterator_line(self, variable) -> str:
        if variable.type.message_type is not None:
            return self.define(f"next({variable.name})", "message", variable.type.message_type, variable.parent)
        return f"next({variable.name})"

    def _draw_window_line(self, variable) -> str:
        return f"numbers_of({variable.name})"
