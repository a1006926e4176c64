"""The calls of drawn programs: in our world, and in the official runtime's, where some calls stand for ours."""

from __future__ import annotations

import contextlib
import copy
import gc
import os
import pickle
import tempfile
from functools import cache

import numpy as np
import wire
from google.protobuf import message

import onnxwire
from onnxwire.engine.descriptor import FieldDescriptor as F

# Where our behaviour is another on purpose, or the official runtime's is not to be had, and what programs do about it.
DIFFERENCES = {
    "aliases": "A copy takes what is there at that moment, from whatever it comes. `x.extend(x)` does not end"
    " officially, and `m.part.CopyFrom(m)` reads freed memory; so officially a copy made before is given (`apart`).",
    "wholly": "An edit that fails changes nothing. Officially what was done before the error stays; `whole` takes that"
    " back in sequences, and where it is elsewhere, a program ends there.",
    "held": "Parts of a message that were taken before `Clear`, `ClearField`, `CopyFrom` or `ParseFromString` on it"
    " are no longer its own, as officially, but two sequences of one field then officially stay one list, and ours go"
    " on each alone, with what they had when they were last looked at. Officially `Clear` of a new message, too, may"
    " leave what was not there its own. Programs don't compare such parts after that (`gone`), and go on reading them.",
    "stubs": "A member of a oneof that was taken before `CopyFrom`, when it was not there, is officially taken for the"
    " one that is: ClearField of it clears the other. `cleared` calls SetInParent instead.",
    "merged": "Where a message is merged into, what was taken of its parts before, and was not there, officially takes"
    " the place of what was merged there when it is next edited: elements are lost; and of two such parts of one"
    " message, one may officially not see what was merged. Ours are added to. Bytes that merge into a member of a oneof"
    " and then switch it away officially change the member that is held; ours merge what the bytes come to. Not"
    " compared.",
    "form": "Bytes that were read are written in the form that they have; `sizes` compares the deterministic encoding,"
    " and holds the other against itself.",
    "slices": "`del x[::2]` may crash officially: elements are deleted one by one there (`cut`).",
    "pop": "`x.pop(n)` of an index that is not there is an error; officially it takes the last. Not drawn.",
    "indices": "An index whose `__index__` fails, or that is too large for the machine, raises what a list raises;"
    " officially always a TypeError. Drawn only where nothing is compared.",
    "doubt": "`load` refuses what looks like another kind of file; then FromString takes its place.",
    "text": "A string that is not valid UTF-8 is read, copied and merged with surrogates for what is not; officially"
    " that raises UnicodeDecodeError, and a program ends there.",
    "repr": "`repr` of a message is one short line; it is only called.",
    "buffers": "Sequences of numbers are buffers; officially a list stands for the buffer.",
    "close": "Nothing closes officially. What a document has is `gone` before `close`.",
}


@cache
def classes():
    """Full name of a message → our class and the official one."""
    return wire.official_pairs()


class Planned(Exception):
    """The error that a program itself raises in the middle of something."""


def fail(*_):
    raise Planned


def failing(values):
    """The values, and then an error."""
    yield from values
    raise Planned


def during(values, act):
    """The values, and something done before each of them."""
    for value in values:
        act()
        yield value


class Index(wire.Index):
    def __index__(self):
        if self.value is Planned:
            raise Planned
        return self.value


class Trap:
    """Something that acts when the garbage collector finds it."""

    def __init__(self, act):
        self.act, self.circle = act, self

    def __del__(self):
        with contextlib.suppress(Exception):  # it would be printed
            self.act()


def bytes_of(value):
    return value.SerializeToString(deterministic=True)


def collect():
    """Run the garbage collector, which finds different things in the two worlds."""
    gc.collect()


def order(value):
    """A key by which strings that are not UTF-8 sort alike in both worlds."""
    return wire.plain(value)


def text(value):
    """The text of a message; what else is printed is not the same, and need not be: ours is one line."""
    repr(value)
    if isinstance(value, onnxwire.Message):
        for form in (onnxwire.to_text, onnxwire.to_json):
            with contextlib.suppress(onnxwire.Error):
                form(value)
    return str(value) if hasattr(value, "DESCRIPTOR") else None


def touch(value):
    """Edit every message that is in a message, from the outside in."""
    parts = [part for of, part in value.ListFields() if of.message_type is not None]
    for of in value.DESCRIPTOR.fields:
        if not of.is_repeated and of.containing_oneof is None and of.type in (F.TYPE_STRING, F.TYPE_INT64):
            setattr(value, of.name, "touched" if of.type == F.TYPE_STRING else 7)
            break
    for part in parts:
        for each in [part] if hasattr(part, "ListFields") else part:
            touch(each)


def numbers_of(window):
    """The content that a buffer of a sequence has now."""
    return window.tolist() if hasattr(window, "tolist") else window


def read(value):
    """All that a message shows."""
    return wire.plain(value)


def read_all(value):
    """All that a message shows, what is not there included."""
    shown = [wire.plain(value)]
    for of in sorted(value.DESCRIPTOR.fields, key=lambda of: of.number):
        if of.message_type is None:
            shown.append(wire.plain(getattr(value, of.name)))
        if not of.is_repeated:
            shown.append(value.HasField(of.name))
    return shown + [value.WhichOneof(of.name) for of in value.DESCRIPTOR.oneofs]


class World:
    """The names of a program, and the values of its variables."""

    def __init__(self, is_ours: bool, is_bounded: bool = False):
        self.is_ours, self.is_bounded = (
            is_ours,
            is_bounded,
        )  # bounded: lines run again and again copy nothing that is large
        functions = [failing, fail, during, collect, text, order, touch, bytes_of, numbers_of, read, read_all, trap]
        functions += [self.load, self.close, self.peek, self.sizes, self.window, self.array, self.pickled]
        functions += [self.apart, self.whole, self.cut, self.cleared]
        self.names = {function.__name__: function for function in functions}
        self.names |= {"M": wire.makers()[0 if is_ours else 1], "np": np, "copy": copy, "gone": self.lose}
        self.names |= {"Index": Index, "Planned": Planned}
        self.gone: set[str] = set()

    def run(self, line: str):
        """The value of a line, or the error that it raises."""
        try:
            return eval(_compiled(line), self.names)  # which executes what is not an expression, and gives None
        except NameError:
            return Skipped
        except Exception as error:
            return error

    # --- what programs call

    def load(self, cls, data):
        """A message of a file, which is gone from its folder at once."""
        if not self.is_ours:
            return cls.FromString(data)
        descriptor, path = tempfile.mkstemp(suffix=".onnx")
        try:
            with open(descriptor, "wb") as file:
                file.write(data)
            return onnxwire.load(path, cls)
        except onnxwire.DecodeError:  # it looks like no file of the kind
            return cls.FromString(data)
        finally:
            os.unlink(path)

    def close(self, value):
        """Close a document; a buffer that looks into it keeps it open."""
        if self.is_ours:
            with contextlib.suppress(onnxwire.InUseError):
                value.close()

    def peek(self, value):
        """Read all of what is no longer compared: ours raises its own errors or none."""
        if self.is_ours:
            try:
                if isinstance(value, np.ndarray):
                    value.sum()
                elif isinstance(value, memoryview):
                    bytes(value)
                elif hasattr(value, "__next__"):
                    next(value, None)
                else:
                    wire.plain(value)
            except onnxwire.Error:
                pass

    def sizes(self, value):
        """The length of the encoding; ours has kept the form of what it has read, so it is held against itself."""
        if self.is_ours:
            for _ in range(3):  # a trap may act in between
                size, data, plain = value.ByteSize(), value.SerializeToString(), bytes_of(value)
                official = bytes_of(classes()[value.DESCRIPTOR.full_name][1].FromString(data))
                if size == len(data) and official == plain:
                    break
            else:
                assert self.is_bounded or size == len(data), f"ByteSize() is {size}, of {len(data)} bytes"
                assert self.is_bounded or official == plain, "the two forms of its encoding differ"
        return len(bytes_of(value))

    def window(self, numbers):
        return memoryview(numbers) if self.is_ours else list(numbers)

    def array(self, numbers):
        return np.asarray(numbers) if self.is_ours else list(numbers)

    def pickled(self, value):
        """Messages of tables that were loaded at run time have no module to be found in."""
        if value.DESCRIPTOR.full_name.startswith("test."):
            return copy.deepcopy(value)
        return pickle.loads(pickle.dumps(value))

    def apart(self, source, target=None):
        """A copy of the elements: the official runtime would not end, or read freed memory, of a target in it."""
        if self.is_bounded and _length(source) > 100:
            raise Planned
        if self.is_ours or source is target:
            return source
        if isinstance(source, message.Message):
            return copy.deepcopy(source)
        return [copy.deepcopy(each) for each in source]

    def cleared(self, message, name):
        """Clear a field; see `stubs`."""
        field = message.DESCRIPTOR.fields_by_name[name]
        if self.is_ours or field.containing_oneof is None or message.HasField(name):
            message.ClearField(name)
        else:
            message.SetInParent()  # which clearing a field does too

    def cut(self, sequence, chosen):
        """Delete a slice; the official runtime writes past its end where steps are not 1."""
        if self.is_ours or chosen.step in (None, 1):
            del sequence[chosen]
        else:
            del sequence[:0]  # even of nothing, it is an edit
            for index in sorted(range(*chosen.indices(len(sequence))), reverse=True):
                del sequence[index]

    def whole(self, sequence, act):
        """Do something to a sequence wholly or not at all, as ours does; the official runtime stops in between."""
        before = [] if self.is_ours else list(sequence)
        try:
            return act()
        except Exception:
            if before and not isinstance(before[0], message.Message):
                sequence[:] = before
            elif not self.is_ours and len(sequence) > len(before):
                del sequence[len(before) :]
            raise

    def lose(self, *names):
        """Say of variables that they are no longer compared."""
        self.gone |= set(names)

    # --- what is asked about a program

    def contents(self):
        """The bytes of all messages that are compared."""
        names = [name for name in self.variables() if name not in self.gone]
        values = [(name, self.names[name]) for name in names]
        return {name: bytes_of(value) for name, value in values if hasattr(value, "SerializeToString")}

    def variables(self):
        return [name for name in self.names if name[0] == "v" and name[1:].isdigit()]

    def copy(self):
        """A world of the same objects, in which other variables can be made."""
        world = World(self.is_ours, is_bounded=True)
        world.names |= {name: self.names[name] for name in self.variables()}
        return world

    def length(self, name):
        try:
            return len(self.names[name])
        except Exception:
            return 0

    def measure(self, name, largest, deepest):
        """Whether a message or a sequence of them is at most so large and so deep."""
        value = self.names[name]
        try:
            values = [value] if hasattr(value, "ByteSize") else list(value)
            return all(not hasattr(each, "ByteSize") or _is_small(each, largest, deepest) for each in values)
        except onnxwire.Error:
            return False


class Skipped(Exception):
    """A line names a variable that is not there, because the line that makes it was dropped or failed."""


def trap(act):
    Trap(act)


def _length(source):
    """How much is copied: elements, and the bytes of those that are messages."""
    values = [source] if hasattr(source, "ByteSize") else source
    return sum(1 + value.ByteSize() if hasattr(value, "ByteSize") else 1 for value in values)


def _is_small(value, largest, deepest):
    return value.ByteSize() <= largest and _depth(value, deepest) <= deepest


def _depth(value, deepest):
    if deepest < 0:
        return 0
    inner = [part for of, part in value.ListFields() if of.message_type is not None]
    parts = [each for part in inner for each in ([part] if hasattr(part, "ByteSize") else part)]
    return 1 + max([_depth(part, deepest - 1) for part in parts], default=0)


_codes: dict[str, object] = {}


def _compiled(line):
    if line not in _codes:
        if len(_codes) > 10_000:
            _codes.clear()
        try:
            _codes[line] = compile(line, "program", "eval")
        except SyntaxError:
            _codes[line] = compile(line, "program", "exec")
    return _codes[line]
