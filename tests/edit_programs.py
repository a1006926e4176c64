"""Draw random programs of edits: lines of Python that should give the same results with both runtimes.

A program is a list of lines over variables `v0`, `v1`, …, which exist until a line deletes them. A `World`, ours or the
official one, provides the functions that lines call. The next line is drawn by the types of the variables, and by their
values in one of the worlds, the leader.
"""

from __future__ import annotations

import random
import struct
from dataclasses import dataclass, field

import wire
from worlds import World, classes

from onnxwire.engine.descriptor import FieldDescriptor as F

MAX_COPY_BYTES = 4000  # maximum size of a message that is copied or merged
MAX_COPY_DEPTH = 12  # maximum depth of a message that is copied or merged
ONNX = "ModelProto GraphProto NodeProto AttributeProto TensorProto ValueInfoProto TypeProto FunctionProto"
ONNX += " SparseTensorProto TrainingInfoProto StringStringEntryProto TensorShapeProto SequenceProto OptionalProto"
TABLE = "Everything Everything.Tree Sparse Nothing Holder"
CLASSES = [f"onnx.{name}" for name in ONNX.split()] + [f"test.{name}" for name in TABLE.split()]

# --- values


INTEGERS = ["-1", "-3", "300", "0", "1", "2", "7", "127", "128", "70"]
LARGE_INTEGERS = ["(1<<31)-1", "-(1<<31)", "(1<<32)-1", "1<<32", "(1<<63)-1", "-(1<<63)", "(1<<64)-1"]
FLOATS = ["0.0", "-0.0", "1.5", "0.1", "1e39", "-2.5", "float('nan')", "float('inf')", "3"]
TEXTS = ["''", "'a'", "'name'", "'b'", "'ä€𝄞'", "'x'*40", "'x'*300", "b'bytes'", "'\\0'"]
OCTETS = ["b''", "b'a'", "b'\\xff\\0'", "b'x'*20", "b'x'*400", "b'abcdefgh'"]
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
UNUSUAL_VALUES += ["Index(Planned)", "np.int64(5)", "np.float32(1.5)", "np.bool_(True)", "M.NodeProto()", "1j", "True"]
WRONG_TYPE_PROBABILITY = 0.04  # the probability of a value of another type


def value_text(of, chance, wrong=WRONG_TYPE_PROBABILITY) -> str:
    """Draw a value for a scalar field, as Python source. wrong: the probability of another type."""
    if chance.random() < wrong:
        return chance.choice(UNUSUAL_VALUES)
    if of.enum_type is not None:
        known = [repr(value.name) for value in of.enum_type.values] + [
            str(value.number) for value in of.enum_type.values
        ]
        return chance.choice(known * 3 + ["900", "-1"] if wrong else known)
    if of.type == F.TYPE_STRING:
        return chance.choice(TEXTS)
    if of.type == F.TYPE_BYTES:
        return chance.choice(OCTETS)
    if of.type in (F.TYPE_FLOAT, F.TYPE_DOUBLE):
        return chance.choice(FLOATS)
    return chance.choice(LARGE_INTEGERS if wrong and chance.random() < 0.2 else INTEGERS[0 if wrong else 3 :])


# --- bytes


def made_bytes(descriptor, chance, depth=3) -> bytes:
    """Draw valid bytes: any order, with merged and unknown fields, packed and unpacked, and padded lengths."""
    records = [_record(descriptor, chance, depth) for _ in range(chance.choice([0, 1, 2, 2, 3, 4]))]
    if records and chance.random() < 0.3:
        records += chance.sample(
            records, chance.randint(1, len(records))
        )  # repeated records are merged or appended, or replace earlier ones
    if records and chance.random() < 0.08 and sum(map(len, records)) < 100:
        records *= 20
    chance.shuffle(records)
    return b"".join(records)


def _record(descriptor, chance, depth) -> bytes:
    if not descriptor.fields or chance.random() < 0.12:
        return _unknown(chance, chance.choice([1000, 1001, 18999, wire.MAX_NUMBER - 1]))
    of = chance.choice(descriptor.fields)
    if chance.random() < 0.05:
        if wire.is_number(of) and not of.is_repeated:
            return wire.span(of.number, b"a")
        return wire.group(of.number, wire.number(1, 1))
    pad = chance.choice([0] * 12 + [1, 2])
    if of.message_type is not None:
        data = made_bytes(of.message_type, chance, depth - 1) if depth else b""
        return wire.span(of.number, data, pad)
    if not wire.is_number(of):
        texts = [b"", b"a", b"name", b"x" * 30, b"x" * 300, "ä".encode()]
        return wire.span(of.number, b"\xff\0" if chance.random() < 0.04 else chance.choice(texts), pad)
    if of.is_repeated and chance.random() < 0.6:
        return wire.span(
            of.number, b"".join(_number(of, chance) for _ in range(chance.choice([0, 1, 2, 3, 3, 80]))), pad
        )
    return wire.tag(of.number, wire.wire_of(of)) + _number(of, chance)


def deep_bytes(descriptor, chance, depth) -> bytes:
    """Draw a message nested as deep as its type allows, with a few more fields at each level."""
    inner = [of for of in descriptor.fields if of.message_type is not None]
    records = [_record(descriptor, chance, 0) for _ in range(chance.choice([0, 1, 2]))]
    if inner and depth:
        longer = [of for of in inner if any(each.message_type is not None for each in of.message_type.fields)]
        of = chance.choice(longer or inner)
        records.append(wire.span(of.number, deep_bytes(of.message_type, chance, depth - 1)))
    chance.shuffle(records)
    return b"".join(records)


def _number(of, chance) -> bytes:
    form = wire.wire_of(of)
    if form == wire.FIXED32:
        return struct.pack("<f", chance.choice([0.0, -0.0, 1.5, float("nan"), 7e8]))
    if form == wire.FIXED64:
        return struct.pack("<d", chance.choice([0.0, -0.0, 1.5, float("inf"), 1e300]))
    known = [value.number for value in of.enum_type.values] * 2 + [900] if of.enum_type is not None else [0, 1, 2, 300]
    value = chance.choice([*known, -1, 1 << 31, 1 << 40])
    return wire.varint(value, chance.choice([0] * 9 + [1]) if value >= 0 else 0)


def _unknown(chance, number) -> bytes:
    number_of = wire.number(number, chance.choice([0, 1, 300]))
    return chance.choice([number_of, wire.span(number, b"unknown"), wire.group(number, wire.number(1, 1))])


# --- programs


@dataclass(eq=False)
class Variable:
    """The static knowledge of a variable."""

    name: str
    kind: str  # message, numbers, texts, messages, iterator, window
    type: object  # the descriptor of a message, the field of a sequence
    parent: Variable | None = None  # the variable of which this one is a part
    document: object = field(default_factory=object)  # identifies the document, which `close` closes
    is_root: bool = False


class Drawing:
    """Draws one line after another. The caller runs each line, and calls `done` if the line raised no exception."""

    def __init__(self, chance: random.Random, leader: World, mode: str, length: int):
        self.chance, self.leader, self.n_lines = chance, leader, length
        self.lockstep, self.beside = mode == "lockstep", mode == "threads"
        self.next: list[str] = []  # the lines that must come next
        self.wrong = WRONG_TYPE_PROBABILITY
        self.variables: list[Variable] = []
        self.lost: list[Variable] = []  # existing variables that are no longer compared because of a known difference
        self.made = 0
        self.new: Variable | None = None

    def line(self, number: int) -> str | None:
        """Return the line with this number, or None after the last."""
        if number >= self.n_lines:
            return None
        if self.next:
            return self.next.pop()
        if self.beside and number >= self.n_lines // 2:
            return f"reader: {self.reading()}" if number % 2 else f"editor: {self.drawn()}"
        line = self.drawn()
        return self.next.pop(0) if self.next else line

    def drawn(self) -> str:
        """Draw a line. `done` adds the variable that it defines."""
        self.new = None
        if len(self.of("message")) < 2 or self.chance.random() < 0.04:
            return self.root()
        if self.lost and self.chance.random() < 0.05:
            return f"peek({self.chance.choice(self.lost).name})"
        if self.chance.random() < 0.03:
            return self.general()
        recent = self.variables[-6:] if self.chance.random() < 0.4 else self.variables
        variable = self.chance.choice(recent)
        return getattr(self, f"_{variable.kind}")(variable)

    def done(self) -> None:
        """Add the variable of the last line, which ran without an error."""
        if self.new is not None:
            self.variables.append(self.new)

    def of(self, *kinds) -> list[Variable]:
        return [variable for variable in self.variables if variable.kind in kinds]

    def define(self, expression, kind, of, parent=None) -> str:
        name = f"v{self.made}"
        self.made += 1
        self.new = Variable(name, kind, of, parent)
        self.new.is_root = parent is None
        if parent is not None:
            self.new.document = parent.document
        return f"{name} = {expression}"

    def chosen(self, *choices):
        """Draw from (weight, value) pairs."""
        return self.chance.choices([value for _, value in choices], [weight for weight, _ in choices])[0]

    # --- lines without a given variable

    def root(self) -> str:
        full_name = self.chance.choice(CLASSES)
        of = classes()[full_name][0].DESCRIPTOR
        cls = f"M.{full_name.partition('.')[2]}"
        how = self.chosen((3, "fields"), (4, "bytes"), (2, "file"), (1, "empty"))
        if how == "fields":
            return self.define(f"{cls}({self.keywords(of)})", "message", of)
        if how == "empty":
            return self.define(f"{cls}()", "message", of)
        data = made_bytes(of, self.chance) if self.chance.random() < 0.85 else deep_bytes(of, self.chance, 28)
        if how == "bytes" or not data:
            return self.define(f"{cls}.FromString({data!r})", "message", of)
        return self.define(f"load({cls}, {data!r})", "message", of)

    def general(self) -> str:
        choice = self.chosen((2, "collect()"), (2, "del"), (1, "close"), (0 if self.lockstep else 2, "trap"))
        variable = self.chance.choice(self.variables)
        if choice == "del":
            self.variables.remove(variable)
            return f"del {variable.name}"
        if choice == "close":
            message = self.chance.choice(self.of("message"))
            if self.lockstep:
                message = self.chance.choice([v for v in self.of("message") if v.is_root] or [None])
                if message is None:
                    return "collect()"
                return self.lose(
                    [v for v in self.variables if v.document is message.document], f"close({message.name})"
                )
            return f"close({message.name})"
        if choice == "trap":
            return f"trap(lambda: {self.callback()})"
        return choice

    def callback(self) -> str:
        """Draw an expression that edits, for callbacks in the middle of another operation."""
        message = self.chance.choice(self.of("message"))
        return self.chosen(
            (3, f"{message.name}.Clear()"),
            (3, f"close({message.name})"),
            (2, "collect()"),
            (2, "fail()"),
            *[(4, text) for text in (self.edit_of(message),) if " = " not in text],
        )

    def edit_of(self, message) -> str:
        before = self.new
        text = self._message(message)
        self.new = before
        return text

    def reading(self) -> str:
        """Draw a line that changes nothing."""
        variable = self.chance.choice(self.variables)
        name = variable.name
        if variable.kind == "message":
            other = self.chance.choice(self.of("message")).name
            texts = [
                "read({})",
                "bytes({}.SerializeToString())",
                "{}.ByteSize()",
                "{} == " + other,
                "copy.deepcopy({})",
            ]
            fields = [f"{{}}.{of.name}" for of in variable.type.fields]
            return self.chance.choice(texts + fields).format(name)
        if variable.kind in ("iterator", "window"):
            return f"peek({name})"
        texts = ["list({})", "len({})", "{}[0]", "{}[-1]", "{} == list({})", "copy.deepcopy({})", "[*zip({}, {})]"]
        if variable.kind == "numbers":
            texts += ["bytes(window({}))", "array({}).sum()", "np.array({})"] * 2
        return self.chance.choice(texts).replace("{}", name)

    def lose(self, variables, line) -> str:
        """Return the line, after a line that excludes the variables from the comparison."""
        variables = [variable for variable in variables if variable in self.variables]
        self.variables = [variable for variable in self.variables if variable not in variables]
        self.lost += variables
        if variables:
            self.next = [f"gone({', '.join(repr(variable.name) for variable in variables)})", line]
        return line

    # --- parts of lines

    def keywords(self, of, depth=2) -> str:
        fields = self.chance.sample(list(of.fields), min(len(of.fields), self.chance.choice([0, 1, 2, 3])))
        texts, oneofs = [], set()
        for each in fields:
            if each.containing_oneof is not None:  # two of a oneof: their order in a call is undefined
                if each.containing_oneof.name in oneofs:
                    continue
                oneofs.add(each.containing_oneof.name)
            texts.append(f"{each.name}={self.content(each, depth)}")
        return ", ".join(texts)

    def content(self, of, depth=2) -> str:
        """Draw the value of a keyword argument."""
        if of.is_repeated:
            return f"[{', '.join(self.element(of, depth) for _ in range(self.chance.choice([0, 1, 2, 3])))}]"
        return self.element(of, depth)

    def sound_content(self, of) -> str:
        """Draw a valid value, for a line with another error: of two errors, either could be raised first."""
        self.wrong = 0
        text = self.content(of)
        self.wrong = WRONG_TYPE_PROBABILITY
        return text

    def element(self, of, depth=2) -> str:
        if of.message_type is None:
            return value_text(of, self.chance, self.wrong)
        held = [v for v in self.of("message") if v.type.full_name == of.message_type.full_name and self.is_small(v)]
        if held and self.chance.random() < 0.4:
            return f"apart({self.chance.choice(held).name})"
        name = f"M.{of.message_type.full_name.partition('.')[2]}"
        inner = self.keywords(of.message_type, depth - 1) if depth else ""
        if inner and self.chance.random() < 0.3 and "M." not in inner:
            return f"dict({inner})"
        return f"{name}({inner})"

    def elements(self, of) -> str:
        """Draw the values that a sequence is extended by."""
        kind = "messages" if of.message_type is not None else "numbers" if wire.is_number(of) else "texts"
        same = [v for v in self.of(kind) if v.type.type == of.type and self.is_small(v)]
        if kind == "messages":
            same = [v for v in same if v.type.message_type.full_name == of.message_type.full_name]
        if same and self.chance.random() < 0.35:
            return f"apart({self.chance.choice(same).name})"
        if self.chance.random() < 0.06:
            return f"failing({self.sound_content(of)})"
        text = self.content(of)
        if not self.lockstep and self.chance.random() < 0.15:
            return f"during({text}, lambda: {self.callback()})"
        return f"iter({text})" if self.chance.random() < 0.1 else text

    def is_small(self, variable) -> bool:
        """Return whether a value may be copied: copies of copies would grow without end."""
        return self.leader.measure(variable.name, MAX_COPY_BYTES, MAX_COPY_DEPTH)

    def length(self, variable) -> int:
        return self.leader.length(variable.name)

    def index(self, variable) -> str:
        n = self.length(variable)
        if n and self.chance.random() < 0.9:
            return str(self.chance.randrange(-n, n))
        indexes = ["0", "-1", str(n), str(-n - 1), "Index(0)", "100", "None"]
        return self.chance.choice(indexes if self.lockstep else [*indexes, "Index(Planned)", "1<<70"])

    def slice(self, variable) -> str:
        n = self.length(variable) + 2
        ends = [self.chance.choice(["None", str(self.chance.randrange(-n, n))]) for _ in range(2)]
        return f"slice({', '.join([*ends, self.chance.choice(['None', 'None', 'None', '1', '2', '-1', '-2'])])})"

    # --- lines about messages

    def _message(self, v) -> str:
        fields = list(v.type.fields)
        if fields and self.chance.random() < 0.62:
            return self.about_field(v, self.chance.choice(fields))
        same = [w for w in self.of("message") if w.type.full_name == v.type.full_name and self.is_small(w)]
        other = self.chance.choice(same).name if same else v.name
        can_merge = bool(same) and self.is_small(v)
        act = self.chosen(
            (2, "Clear"), (4 * can_merge, "CopyFrom"), (4 * can_merge, "MergeFrom"), (2, "MergeFromString"),
            (1, "ParseFromString"), (2, "deepcopy"), (1, "pickle"), (2, "SetInParent"), (1, "Discard"), (2, "sizes"),
            (1, "touch"), (3, "compare"), (2, "read"), (1, "text"), (2 if v.type.oneofs else 0, "WhichOneof"),
        )  # fmt: skip
        if act in ("CopyFrom", "MergeFrom"):
            return self.replaces(v, act, f"{v.name}.{act}(apart({other}, {v.name}))")
        if act in ("MergeFromString", "ParseFromString"):
            return self.replaces(v, act, f"{v.name}.{act}({made_bytes(v.type, self.chance, 2)!r})")
        if act == "deepcopy":
            return self.define(f"copy.deepcopy({v.name})", "message", v.type)
        if act == "pickle":
            return self.define(f"pickled({v.name})", "message", v.type)
        if act == "compare":
            return f"({v.name} == {other}, {v.name} != {other})"
        if act == "WhichOneof":
            return f"{v.name}.WhichOneof({self.chance.choice([of.name for of in v.type.oneofs])!r})"
        calls = {"Clear": "Clear()", "SetInParent": "SetInParent()", "Discard": "DiscardUnknownFields()"}
        if act in calls:
            return self.replaces(v, act, f"{v.name}.{calls[act]}")
        return f"{act}({v.name})"

    def replaces(self, v, act, line) -> str:
        """Return the line, which replaces the content of a message: see `held` of DIFFERENCES."""
        if not self.lockstep or act in ("SetInParent", "Discard"):
            return line
        within = [each for each in self.variables if self.is_within(each, v)]
        # See `merged`; bytes may also merge into a member of a oneof before they set another.
        if act == "MergeFrom" or (act == "MergeFromString" and not v.type.oneofs):
            own = [each for each in self.variables + self.lost if self.is_taken_from(each, v)]
            if len(own) < 2:
                within = [each for each in within if each not in own]
        return self.lose(within, line)

    def is_taken_from(self, variable, v) -> bool:
        """Return whether a variable is a part of the object that `v` holds now."""
        names = self.leader.names
        return variable.parent is not None and names.get(variable.parent.name) is names[v.name]

    def is_within(self, variable, v) -> bool:
        """Return whether a variable is a part, at any depth, of the object that `v` holds now."""
        names = self.leader.names
        while (variable := variable.parent) is not None:
            if names.get(variable.name) is names[v.name]:
                return True
        return False

    def about_field(self, v, of) -> str:
        value = f"{v.name}.{of.name}"
        if self.chance.random() < 0.15:
            return self.replaces(v, "ClearField", f"cleared({v.name}, {of.name!r})")
        if of.is_repeated:
            kind = "messages" if of.message_type is not None else "numbers" if wire.is_number(of) else "texts"
            if self.chance.random() < 0.8:
                return self.define(value, kind, of, v)
            return f"{value} = {self.content(of)}" if self.chance.random() < 0.1 else f"len({value})"
        if self.chance.random() < 0.2:
            return f"{v.name}.HasField({of.name!r})"
        if of.message_type is not None:
            if self.chance.random() < 0.9:
                return self.define(value, "message", of.message_type, v)
            return f"{value} = {self.element(of)}"
        return f"{value} = {value_text(of, self.chance)}" if self.chance.random() < 0.7 else value

    # --- lines about sequences

    def _texts(self, v) -> str:
        return self._numbers(v)

    def _numbers(self, v) -> str:
        act = self.chosen((4, "set"), (2, "setslice"), (2, "append"), (1, "window"), (9, "other"))
        name = v.name
        if act == "set":
            index = self.index(v)
            is_there = index.isdigit() and int(index) < self.length(v)
            return f"{name}[{index}] = {value_text(v.type, self.chance, WRONG_TYPE_PROBABILITY if is_there else 0)}"
        if act == "setslice":
            return f"whole({name}, lambda: {name}.__setitem__({self.slice(v)}, {self.sound_content(v.type)}))"
        if act == "append":
            return f"{name}.append({value_text(v.type, self.chance)})"
        if act == "window" and v.kind == "numbers":
            return self.define(f"{self.chance.choice(['window', 'array'])}({name})", "window", v.type, v)
        return self.sequence(v)

    def _messages(self, v) -> str:
        act = self.chosen((4, "get"), (3, "add"), (2, "append"), (8, "other"))
        if act == "get":
            return self.define(f"{v.name}[{self.index(v)}]", "message", v.type.message_type, v)
        if act == "add":
            keywords = self.keywords(v.type.message_type)
            return self.define(f"whole({v.name}, lambda: {v.name}.add({keywords}))", "message", v.type.message_type, v)
        if act == "append":
            return f"{v.name}.append({self.element(v.type)})"
        return self.sequence(v)

    def sequence(self, v) -> str:
        name, of = v.name, v.type
        act = self.chosen(
            (3, "iterate"), (4, "extend"), (2, "insert"), (3, "pop"), (1, "remove"), (2, "del"), (2, "delslice"),
            (1, "sort"), (1, "reverse"), (2, "get"), (1, "slice"), (2, "len"), (1, "compare"), (1, "copy"), (1, "in"),
            (1, "read"), (1, "clear"),
        )  # fmt: skip
        if act == "iterate":
            return self.define(f"iter({name})", "iterator", of, v)
        if act == "extend":
            merge = self.chance.choice(["extend", "extend", "MergeFrom"])
            given = self.elements(of)
            return f"whole({name}, lambda: {name}.{merge}({given}))"
        if act == "insert":
            return f"{name}.insert({self.index(v)}, {self.element(of)})"
        if act == "pop":
            index = str(self.chance.randrange(-n, n)) if (n := self.length(v)) else "0"
            text = f"{name}.pop({index if self.chance.random() < 0.5 else ''})"
            if of.message_type is None:
                return text
            line = self.define(text, "message", of.message_type, v)
            self.new.parent = None
            return line
        if act == "remove":
            return f"{name}.remove({self.element(of)})"
        if act == "del":
            return f"del {name}[{self.index(v)}]"
        if act in ("delslice", "clear"):
            return f"cut({name}, {self.slice(v)})" if act == "delslice" else f"del {name}[:]"
        if act == "sort":
            return self.sort(v)
        if act in ("get", "slice"):
            return f"{name}[{self.index(v) if act == 'get' else self.slice(v)}]"
        if act == "compare":
            return f"{name} == {self.elements(of) if of.message_type is None else f'list({name})'}"
        if act == "in":
            return f"{self.element(of)} in list({name})"
        return {"reverse": f"{name}.reverse()", "copy": f"copy.deepcopy({name})"}.get(
            act, f"{act if act == 'len' else 'list'}({name})"
        )

    def sort(self, v) -> str:
        key = "bytes_of" if v.kind == "messages" else self.chance.choice(["order", "str"])
        if self.chance.random() < 0.2:
            key = "fail"
        elif not self.lockstep and self.chance.random() < 0.3:
            key = f"lambda each: ({self.callback()}, 0)[1]"
        return f"{v.name}.sort(key={key}{self.chance.choice(['', ', reverse=True'])})"

    # --- lines about iterators and buffers

    def _iterator(self, v) -> str:
        if v.type.message_type is not None:
            return self.define(f"next({v.name})", "message", v.type.message_type, v.parent)
        return f"next({v.name})"

    def _window(self, v) -> str:
        return f"numbers_of({v.name})"
