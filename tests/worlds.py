"""The functions that random programs call. One World has onnxwire's messages, another those of the official runtime."""

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
from onnxwire.engine.descriptor import FieldDescriptor

# Deliberate differences from the official runtime ("official"), and how programs avoid or skip them.
DIFFERENCES = {
    "aliases": "A copy reads its source before it changes the target, even if they overlap. In the official runtime"
    " `x.extend(x)` does not end, and `m.part.CopyFrom(m)` reads freed memory; there `copy_source` copies the source.",
    "rollback": "An edit that fails changes nothing. In the official runtime, changes made before the error remain;"
    " `undo_on_error` undoes them in sequences; elsewhere the program ends.",
    "detached": "`Clear`, `ClearField`, `CopyFrom` and `ParseFromString` detach parts of the message that variables"
    " refer to, in both runtimes. Two variables of one official sequence remain one list; those of onnxwire become"
    " independent, with the content of their last access. The official `Clear` of a new message may also leave absent"
    " parts attached. Programs exclude such parts from the comparison, but continue to read them.",
    "absent members": "If a variable refers to an absent member of a oneof, then after `CopyFrom` the official runtime"
    " confuses it with the member that is present, and ClearField of one member clears the other. `clear_field` calls"
    " SetInParent instead.",
    "merged": "A variable may refer to an absent part of a message into which another message is merged. In the"
    " official runtime, the next edit of that part replaces the merged content, and elements are lost; if two variables"
    " refer to such parts, one of them may not have the merged content. onnxwire merges into the part. If merged bytes"
    " set two members of a oneof, the official runtime changes the first member if a variable refers to it; onnxwire"
    " merges only the final state. Programs exclude these variables.",
    "form": "Unchanged bytes are written as they were read; `check_encodings` compares the deterministic encoding with"
    " the official one, and checks that the plain encoding decodes to the same message.",
    "slices": "`del x[::2]` may crash the official runtime. For it, `delete_slice` deletes the elements one by one.",
    "pop": "`x.pop(n)` with an index out of range is an error; the official runtime removes the last element. Programs"
    " do not do this.",
    "indices": "An index whose `__index__` fails, or that exceeds the machine's integers, raises the error that a list"
    " raises; the official runtime always raises TypeError. Programs use such indices only where nothing is compared.",
    "other files": "`load` rejects bytes that look like another kind of file; the program then uses FromString.",
    "text": "A string that is not valid UTF-8 is read, copied and merged with surrogate escapes; the official runtime"
    " raises UnicodeDecodeError, and the program ends.",
    "repr": "`repr` of a message is one short line; it is called, but not compared.",
    "buffers": "Sequences of numbers support the buffer protocol; for the official ones, a list replaces the buffer.",
    "close": "The official runtime has no `close`. Variables of the document are excluded before the call.",
}


@cache
def classes():
    """Return a dict: full name of a message → (our class, official class)."""
    return wire.official_pairs()


class PlannedError(Exception):
    """The error that a program raises on purpose in the middle of an operation."""


def fail(*_):
    raise PlannedError


def values_then_fail(values):
    """Yield the values, then raise PlannedError."""
    yield from values
    raise PlannedError


def call_before_each(values, callback):
    """Yield the values; call `callback` before each value."""
    for value in values:
        callback()
        yield value


class Index(wire.Index):
    """An object with `__index__`. value: the result, or PlannedError, which is raised."""

    def __index__(self):
        if self.value is PlannedError:
            raise PlannedError
        return self.value


class Trap:
    """An object in a reference cycle. Calls `callback` when the garbage collector deletes the object."""

    def __init__(self, callback):
        self.callback, self.self_reference = callback, self

    def __del__(self):
        with contextlib.suppress(Exception):  # Python prints errors of __del__
            self.callback()


def bytes_of(value):
    return value.SerializeToString(deterministic=True)


def collect():
    """Run the garbage collector. Returns None: the number of objects it finds differs between the worlds."""
    gc.collect()


def sort_key(value):
    """Return a sort key, which is the same in both worlds, even for a string that is not valid UTF-8."""
    return wire.as_comparable(value)


def text(value):
    """Call all text functions. Return the text of a message, else None, as the texts of sequences differ on purpose."""
    repr(value)
    if isinstance(value, onnxwire.Message):
        for form in (onnxwire.to_text, onnxwire.to_json):
            with contextlib.suppress(onnxwire.Error):
                form(value)
    return str(value) if hasattr(value, "DESCRIPTOR") else None


def edit_nested(value):
    """Set the first singular string or int64 field outside of oneofs, in a message and in each message in it."""
    field_values = [field_value for field, field_value in value.ListFields() if field.message_type is not None]
    for field in value.DESCRIPTOR.fields:
        if (
            not field.is_repeated
            and field.containing_oneof is None
            and field.type in (FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_INT64)
        ):
            setattr(value, field.name, "touched" if field.type == FieldDescriptor.TYPE_STRING else 7)
            break
    for field_value in field_values:
        for part in [field_value] if hasattr(field_value, "ListFields") else field_value:
            edit_nested(part)


def numbers_of(window):
    """Return the current content of a buffer of a sequence."""
    return window.tolist() if hasattr(window, "tolist") else window


def read(value):
    """Return the content of a message as plain objects."""
    return wire.as_comparable(value)


def read_all(value):
    """Return a list: the content of a message as plain objects, then values and presence of its fields, then its
    oneofs.

    The fields are in order of their numbers: the value or default of each field without messages, and the presence of
    each singular field. For a oneof the list has the name of its present member, or None.
    """
    content = [wire.as_comparable(value)]
    for field in sorted(value.DESCRIPTOR.fields, key=lambda field: field.number):
        if field.message_type is None:
            content.append(wire.as_comparable(getattr(value, field.name)))
        if not field.is_repeated:
            content.append(value.HasField(field.name))
    return content + [value.WhichOneof(field.name) for field in value.DESCRIPTOR.oneofs]


class World:
    """The namespace of a program: functions, and the values of its variables.

    is_ours: whether the messages are onnxwire's. is_concurrent: whether several threads run lines many times. Then
    `copy_source` rejects large sources, and `check_encodings` ignores differences, since another thread may edit the
    message.
    """

    def __init__(self, is_ours: bool, is_concurrent: bool = False):
        self.is_ours, self.is_concurrent = is_ours, is_concurrent
        functions = [
            values_then_fail,
            fail,
            call_before_each,
            collect,
            text,
            sort_key,
            edit_nested,
            bytes_of,
            numbers_of,
            read,
            read_all,
            edit_on_collection,
        ]
        functions += [self.load, self.close, self.peek, self.check_encodings, self.window, self.array]
        functions += [self.pickle_round_trip, self.copy_source, self.undo_on_error, self.delete_slice, self.clear_field]
        self.names = {function.__name__: function for function in functions}
        self.names |= {
            "M": wire.class_namespaces()[0 if is_ours else 1],
            "np": np,
            "copy": copy,
            "exclude": self.exclude,
        }
        self.names |= {"Index": Index, "PlannedError": PlannedError}
        self.excluded_names: set[str] = set()

    def run(self, line: str):
        """Run a line; return its value, the error that it raises, or Skipped if it uses an undefined variable."""
        try:
            return eval(_compile(line), self.names)  # executes a compiled statement, too, and then returns None
        except NameError:
            return Skipped
        except Exception as error:
            return error

    # --- functions that programs call

    def load(self, cls, data):
        """Load a file that contains the bytes. The official world parses the bytes."""
        if not self.is_ours:
            return cls.FromString(data)
        descriptor, path = tempfile.mkstemp(suffix=".onnx")
        try:
            with open(descriptor, "wb") as file:
                file.write(data)
            return onnxwire.load(path, cls)
        except onnxwire.DecodeError:  # the bytes look like another kind of file
            return cls.FromString(data)
        finally:
            os.unlink(path)

    def close(self, value):
        """Close the document of a message, unless a buffer uses it."""
        if self.is_ours:
            with contextlib.suppress(onnxwire.InUseError):
                value.close()

    def peek(self, value):
        """Read the value of an excluded variable. onnxwire may raise only its own errors."""
        if self.is_ours:
            try:
                if isinstance(value, np.ndarray):
                    value.sum()
                elif isinstance(value, memoryview):
                    bytes(value)
                elif hasattr(value, "__next__"):
                    next(value, None)
                else:
                    wire.as_comparable(value)
            except onnxwire.Error:
                pass

    def check_encodings(self, value):
        """Check that ByteSize is the length of the plain encoding.

        Check that the plain and the deterministic encoding have the same content. Returns the length of the
        deterministic encoding.
        """
        if self.is_ours:
            for _ in range(3):  # a Trap may edit the message between the calls
                size, data, encoding = value.ByteSize(), value.SerializeToString(), bytes_of(value)
                official_bytes = bytes_of(classes()[value.DESCRIPTOR.full_name][1].FromString(data))
                if size == len(data) and official_bytes == encoding:
                    break
            else:
                assert self.is_concurrent or size == len(data), f"ByteSize() is {size}, of {len(data)} bytes"
                assert self.is_concurrent or official_bytes == encoding, "the two forms of its encoding differ"
        return len(bytes_of(value))

    def window(self, numbers):
        """Return a buffer of a sequence of numbers; in the official world a list."""
        return memoryview(numbers) if self.is_ours else list(numbers)

    def array(self, numbers):
        """Return a numpy array that shares the memory of a sequence of numbers; in the official world a list."""
        return np.asarray(numbers) if self.is_ours else list(numbers)

    def pickle_round_trip(self, value):
        """Pickle and unpickle a message. Messages of everything.md are deep-copied: their classes are in no module."""
        if value.DESCRIPTOR.full_name.startswith("test."):
            return copy.deepcopy(value)
        return pickle.loads(pickle.dumps(value))

    def copy_source(self, source, target=None):
        """Return the source of a copy. In the official world, return a copy of the source unless it is the target.

        The official runtime cannot copy a message into a part of itself (see `aliases` of DIFFERENCES).
        """
        if self.is_concurrent and _copy_size(source) > 100:
            raise PlannedError
        if self.is_ours or source is target:
            return source
        if isinstance(source, message.Message):
            return copy.deepcopy(source)
        return [copy.deepcopy(element) for element in source]

    def clear_field(self, message, name):
        """Clear a field; see `absent members` of DIFFERENCES."""
        field = message.DESCRIPTOR.fields_by_name[name]
        if self.is_ours or field.containing_oneof is None or message.HasField(name):
            message.ClearField(name)
        else:
            message.SetInParent()  # ClearField does that too

    def delete_slice(self, sequence, selection):
        """Delete a slice. In the official world, delete element by element if the step is not 1: the official runtime
        writes out of bounds for such a slice."""
        if self.is_ours or selection.step in (None, 1):
            del sequence[selection]
        else:
            del sequence[:0]  # an edit, even if no element is deleted
            for index in sorted(range(*selection.indices(len(sequence))), reverse=True):
                del sequence[index]

    def undo_on_error(self, sequence, callback):
        """Call a function that edits a sequence. If the function raises, undo the edit in the official world; onnxwire
        undoes it without help."""
        elements_before = [] if self.is_ours else list(sequence)
        try:
            return callback()
        except Exception:
            if elements_before and not isinstance(elements_before[0], message.Message):
                sequence[:] = elements_before
            elif not self.is_ours and len(sequence) > len(elements_before):
                del sequence[len(elements_before) :]
            raise

    def exclude(self, *names):
        """Exclude variables from the comparison."""
        self.excluded_names |= set(names)

    # --- functions of the fuzzer

    def contents(self):
        """Return the bytes of all messages that are compared, by variable."""
        names = [name for name in self.variable_names() if name not in self.excluded_names]
        values = [(name, self.names[name]) for name in names]
        return {name: bytes_of(value) for name, value in values if hasattr(value, "SerializeToString")}

    def variable_names(self):
        """Return the names of the variables: `v` and a number."""
        return [name for name in self.names if name[0] == "v" and name[1:].isdigit()]

    def copy(self):
        """Return a concurrent world with the same objects and its own variables."""
        world = World(self.is_ours, is_concurrent=True)
        world.names |= {name: self.names[name] for name in self.variable_names()}
        return world

    def length_of(self, name):
        """Return the length of a sequence, or 0 if it cannot be read."""
        try:
            return len(self.names[name])
        except Exception:
            return 0

    def is_small(self, name, max_bytes, max_depth):
        """Return whether each message of a variable has at most `max_bytes` bytes and `max_depth` levels."""
        value = self.names[name]
        try:
            values = [value] if hasattr(value, "ByteSize") else list(value)
            return all(
                not hasattr(element, "ByteSize") or _is_small(element, max_bytes, max_depth) for element in values
            )
        except onnxwire.Error:
            return False


class Skipped(Exception):
    """The result of a line that uses an undefined variable: the line that defines it was removed or failed."""


def edit_on_collection(callback):
    """Call a function at the next garbage collection."""
    Trap(callback)


def _copy_size(source):
    """Return the size of a copy: the number of elements plus the bytes of messages among them."""
    values = [source] if hasattr(source, "ByteSize") else source
    return sum(1 + value.ByteSize() if hasattr(value, "ByteSize") else 1 for value in values)


def _is_small(value, max_bytes, max_depth):
    return value.ByteSize() <= max_bytes and _depth(value, max_depth) <= max_depth


def _depth(value, max_depth):
    """Return the number of levels of a message, or max_depth + 1 if it has more levels."""
    if max_depth < 0:
        return 0
    values = [part for field, part in value.ListFields() if field.message_type is not None]
    parts = [message_part for part in values for message_part in ([part] if hasattr(part, "ByteSize") else part)]
    return 1 + max([_depth(part, max_depth - 1) for part in parts], default=0)


_code_of_line: dict[str, object] = {}


def _compile(line):
    """Return the code of a line, an expression or a statement, from a cache of 10,000 lines."""
    if line not in _code_of_line:
        if len(_code_of_line) > 10_000:
            _code_of_line.clear()
        try:
            _code_of_line[line] = compile(line, "program", "eval")
        except SyntaxError:
            _code_of_line[line] = compile(line, "program", "exec")
    return _code_of_line[line]
