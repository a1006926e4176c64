"""Random edits have the same effect on messages of onnxwire and of the official runtime.

The edits are drawn as lines of Python, so that a failure prints a program that reproduces it.
"""

from __future__ import annotations

import copy
import math
import os
import pickle
import subprocess
import sys
import warnings

import pytest
import wire
from budget import examples
from hypothesis import given, note
from hypothesis import strategies as st
from wire import result_or_error, snippets

import onnxwire
from onnxwire.engine.descriptor import FieldDescriptor as F
from onnxwire.messages import SCHEMA

PAIRS = wire.official_pairs()
EVERY_MESSAGE = pytest.mark.parametrize("name", PAIRS)

FLOATS = [0.0, -0.0, 1.0, 0.1, -2.5, 1e39, math.inf, math.nan]
SIGNED, UNSIGNED = [0, 1, 2, -1, 127, 300], [0, 1, 2, 127, 128, 300]
# Type of a field → valid values.
VALID_VALUES = {
    F.TYPE_DOUBLE: FLOATS, F.TYPE_FLOAT: FLOATS, F.TYPE_BOOL: [True, False, 0, 1, 2],
    F.TYPE_STRING: ["", "a", "b", "name", "ä€𝄞", "x" * 200, b"bytes"],
    F.TYPE_BYTES: [b"", b"a", b"b", b"\xff\0", b"x" * 200],
    F.TYPE_UINT32: [*UNSIGNED, (1 << 32) - 1], F.TYPE_FIXED32: [*UNSIGNED, (1 << 32) - 1],
    F.TYPE_UINT64: [*UNSIGNED, (1 << 64) - 1], F.TYPE_FIXED64: [*UNSIGNED, (1 << 64) - 1],
    F.TYPE_INT64: [*SIGNED, -(1 << 63)], F.TYPE_SINT64: [*SIGNED, -(1 << 63)], F.TYPE_SFIXED64: [*SIGNED, -(1 << 63)],
    F.TYPE_INT32: [*SIGNED, -(1 << 31)], F.TYPE_SINT32: [*SIGNED, -(1 << 31)], F.TYPE_SFIXED32: [*SIGNED, -(1 << 31)],
}  # fmt: skip
# Expressions for values that are invalid for fields of some or all types.
UNUSUAL_VALUES = [
    "None",
    "'no_such_name'",
    "1.5",
    "1 << 70",
    "-1",
    "b'\\xff'",
    "[]",
    "True",
    "object()",
    "'\\ud800'",
    "nan",
]
SLICES = [":", "1:", ":-1", "1:2", "2:1", "::2", "::-1", "-2:", "5:9"]


class Lockstep:
    """Two namespaces, in which the same lines are run: ours, and that of the official runtime.

    A line assigns the value to compare, if any, to the variable `r`.
    is_parsed: whether new messages are parsed from random bytes (except messages to copy, which are built), and whether
    edits may parse random bytes.
    random: chooses the edits.
    draw: draws values from strategies of hypothesis.
    """

    def __init__(self, name, is_parsed, random, draw):
        self.choose, self.draw, self.is_parsed = random.choice, draw, is_parsed
        # Whether to read our messages before each line. The reads must not change the effect of the line.
        self.checks_reads = self.choose([True, False])
        descriptor = PAIRS[name][0].DESCRIPTOR
        tools = {"nan": math.nan, "inf": math.inf, "copy": copy}
        self.sides = tuple({**tools, "C": {name: pair[i] for name, pair in PAIRS.items()}} for i in (0, 1))
        self.views = {}  # name of a view -> descriptor of the message or of the sequence's messages, None for scalars
        self.parents = {}  # name of a view -> its parent view
        self.fields = {}  # name of a view of a sequence -> its field
        self.expected_state = None  # the official state before an error that left the official views partially changed
        self.n_views = 0
        for _ in range(2):  # two documents
            self.run_and_register(self.new_message_text(descriptor), descriptor)

    # --- running

    def run(self, code):
        """Run a line on both sides and compare the results; return whether the line raised no error."""
        note(code)
        official_before = self.contents(1)
        our_states_before = self.contents(0) if self.checks_reads else None
        results = []
        for side in self.sides:
            side.pop("r", None)
            results.append(wire.result_or_error(exec, code, side) or side.get("r"))
        our_result, official_result = map(wire.as_comparable, results)
        assert official_result == our_result, f"{code}: officially {official_result}; ours {our_result}"
        if not isinstance(official_result, wire.Raised):
            return True
        note(f"# {official_result}")
        if our_states_before is not None:
            assert self.contents(0) == our_states_before, f"{code}: failed, but changed a message"
        if self.contents(1) != official_before:
            self.expected_state = official_before
        return False

    def contents(self, i):
        """Return the contents of all views of one side. i: 0 for ours, 1 for the official one."""
        return {name: self.content(self.sides[i][name]) for name in self.views}

    def content(self, view):
        """Return the content of a view of a message or of a sequence in comparable form."""
        if hasattr(view, "SerializeToString"):
            return view.SerializeToString(deterministic=True)
        return [
            self.content(element) if hasattr(element, "SerializeToString") else wire.as_comparable(element)
            for element in view
        ]

    def run_and_register(self, code, descriptor, parent=None, field=None):
        """Run an expression whose result is a view, and assign the view to a new variable, which later lines may use.

        parent: the variable from which the view is read. field: the field of a view of a sequence.
        """
        name = f"v{self.n_views}"
        if self.run(f"{name} = {code}"):
            self.n_views += 1
            self.views[name], self.parents[name] = descriptor, parent
            if field is not None:
                self.fields[name] = field

    def forget_views_in(self, name):
        """Forget the views of messages and sequences inside a message, because an edit may have removed their content.

        In upb, two views of a removed sequence still share their elements; in onnxwire, each has its own elements.
        """
        message = self.sides[1][name]
        for view in list(self.views):
            if self.sides[1][view] is not message and self.contains(message, view):
                del self.views[view]
                self.fields.pop(view, None)

    def check(self):
        """Assert that all views have the official values."""
        for name, expected in (self.expected_state or self.contents(1)).items():
            our_message, official_message = (side[name] for side in self.sides)
            assert self.content(our_message) == expected, name
            if name in self.fields or name not in self.views:
                continue
            encoded = our_message.SerializeToString()
            reparsed = type(official_message).FromString(encoded)
            assert reparsed.SerializeToString(deterministic=True) == expected, f"{name}: {encoded}"
            assert our_message.ByteSize() == len(encoded), name
            assert self.is_parsed or encoded == expected, f"{name}: built, but encoded as {encoded}"
            if self.expected_state is None:
                wire.compare(our_message, official_message, name)

    # --- expressions

    def new_message_text(self, descriptor, depth=2):
        """Return an expression for a new message, parsed or made by its class with keywords."""
        cls = f"C[{descriptor.full_name!r}]"
        if self.is_parsed and depth == 2:
            return f"{cls}.FromString({self.draw(wire.valid_wire(descriptor, 1))!r})"
        return f"{cls}({self.keywords_text(descriptor, depth)})"

    def keywords_text(self, descriptor, depth):
        """Return random keyword arguments for a message."""
        fields = (
            {self.choose(descriptor.fields).name for _ in range(self.choose(range(4)))} if descriptor.fields else ()
        )
        return ", ".join(
            f"{name}={self.argument_text(descriptor.fields_by_name[name], depth)}" for name in sorted(fields)
        )

    def argument_text(self, field, depth):
        """Return an expression for the value of a keyword."""
        if field.message_type is None:
            draw_value = lambda: self.value_text(field)  # noqa: E731
        else:
            draw_value = lambda: f"dict({self.keywords_text(field.message_type, depth - 1) if depth else ''})"  # noqa: E731
        return (
            f"[{', '.join(draw_value() for _ in range(self.choose(range(4))))}]" if field.is_repeated else draw_value()
        )

    def value_text(self, field, may_be_unusual=True):
        """Return an expression for a value of a scalar field."""
        if may_be_unusual and self.choose(range(12)) == 0:
            return self.choose(UNUSUAL_VALUES)
        if field.enum_type is not None:
            return repr(self.choose([x for value in field.enum_type.values for x in (value.number, value.name)]))
        return repr(self.choose(VALID_VALUES[field.type]))

    def source_text(self, descriptor, target):
        """Return an expression for a message to copy to `target`.

        A message that contains `target` is copied first, since upb crashes otherwise.
        """
        views = [
            name
            for name, view_descriptor in self.views.items()
            if view_descriptor is descriptor and name not in self.fields
        ]
        if not views or self.choose(range(4)) == 0:
            return self.new_message_text(descriptor, 1)
        source = self.choose(views)
        return f"copy.deepcopy({source})" if self.contains(self.sides[1][source], target) else source

    def contains(self, message, target):
        """Return whether the view named `target` is a view of `message` or of a part of it."""
        while target is not None:
            if self.sides[1][target] is message:
                return True
            target = self.parents[target]
        return False

    def has_several_empty_fields_with_views(self, name):
        """Return whether the message, or a message in it, has several absent or empty fields that have views.

        upb detaches some of these views in a merge.
        """
        views_of_empty_fields = {}
        for view, parent in self.parents.items():
            if parent is not None and not self.content(self.sides[1][view]):
                views_of_empty_fields.setdefault(id(self.sides[1][parent]), (parent, set()))[1].add(
                    id(self.sides[1][view])
                )
        target = self.sides[1][name]
        return any(len(views) > 1 and self.contains(target, parent) for parent, views in views_of_empty_fields.values())

    # --- lines

    def run_random_edit(self):
        """Draw and run an edit of the first view, one of the newest views, or one of the newest views of sequences."""
        name = self.choose([*list(self.views)[:1], *list(self.views)[-8:]] + list(self.fields)[-4:] * 3)
        if name not in self.fields:
            self.edit_message(name, self.views[name])
        elif self.fields[name].message_type is None:
            self.edit_scalars(name, self.fields[name])
        else:
            self.edit_messages(name, self.views[name])

    def edit_message(self, name, descriptor):
        """Run a random line that reads or edits a view of a message."""
        scalar_fields = [f for f in descriptor.fields if not f.is_repeated and f.message_type is None]
        view_fields = [f for f in descriptor.fields if f.is_repeated or f.message_type is not None]
        names = [f.name for f in descriptor.fields] + [oneof.name for oneof in descriptor.oneofs] + ["no_such_field"]
        kinds = ["clear", "Copy", "Merge", "call", "read", "new", "bytes", "bytes"]
        kind = self.choose(kinds + ["set"] * 5 * bool(scalar_fields) + ["get"] * 9 * bool(view_fields))
        if kind == "set":
            field = self.choose(scalar_fields)
            self.run(f"{name}.{field.name} = {self.value_text(field)}")
        elif kind == "get":
            field = self.choose(view_fields)
            field_value = getattr(self.sides[1][name], field.name)
            if any(self.sides[1][view] is field_value for view in self.views):
                return  # one view per message or sequence: see `forget_views_in`
            self.run_and_register(
                f"{name}.{field.name}", field.message_type, name, field if field.is_repeated else None
            )
        elif kind == "clear":
            field_name = self.choose(names)
            field = descriptor.fields_by_name.get(field_name)
            is_message_in_oneof = (
                field is not None and field.message_type is not None and field.containing_oneof is not None
            )
            if is_message_in_oneof and not self.sides[1][name].HasField(field_name):
                return  # if the absent member has a view, upb clears the present member instead
            self.run(f"{name}.ClearField({field_name!r})")
            self.forget_views_in(name)
        elif kind in ("Copy", "Merge") and not self.has_several_empty_fields_with_views(name):
            self.run(f"{name}.{kind}From({self.source_text(descriptor, name)})")
            self.forget_views_in(name)
        elif kind == "call":
            self.run(f"{name}.{self.choose(['Clear', 'SetInParent', 'SetInParent', 'DiscardUnknownFields'])}()")
            self.forget_views_in(name)
        elif kind == "read":
            field = self.choose(names)
            calls = [f"HasField({field!r})", f"WhichOneof({field!r})", "ListFields()", "IsInitialized()"]
            self.run(f"r = {name}.{self.choose(calls)}".replace("ListFields()", "ListFields().__len__()"))
            self.run(f"{name}.SerializeToString()")
        elif kind == "bytes" and self.is_parsed and not self.has_several_empty_fields_with_views(name):
            data = self.draw(wire.valid_wire(descriptor, 1))
            method = self.choose(["MergeFromString", "MergeFromString", "ParseFromString"])
            if method == "MergeFromString":
                # If the bytes have two members of a oneof, the official runtime clears the message's own member when it
                # reads the first of the two. Parsing and encoding the bytes keeps only the last.
                data = PAIRS[descriptor.full_name][1].FromString(data).SerializeToString()
            self.run(f"r = {name}.{method}({data!r})")
            self.forget_views_in(name)
        else:  # "new", and the kinds whose conditions are not met
            copy_of_bytes = f"C[{descriptor.full_name!r}].FromString({name}.SerializeToString())"
            self.run_and_register(
                self.choose([f"copy.deepcopy({name})", copy_of_bytes, self.new_message_text(descriptor)]), descriptor
            )

    def edit_scalars(self, name, field):
        """Run a random line that reads or edits a sequence of scalars."""
        values = list(self.sides[1][name])
        value, index, slice_text = (
            self.value_text(field),
            self.choose([0, 1, -1, len(values), -len(values)]),
            self.choose(SLICES),
        )
        # For a slice with a step, the list may have the wrong length. Its values are then valid, because for two faults
        # the runtimes may report different ones.
        values_text = (
            f"[{', '.join(self.value_text(field, slice_text.count(':') == 1) for _ in range(self.choose(range(4))))}]"
        )
        lines = [f"{name}.append({value})"] * 4
        lines += [f"{name}.extend({values_text})"] * 3
        lines += [f"{name}.insert({index}, {value})"] * 2
        lines += [f"{name}[{slice_text}] = {values_text}", f"{name}.MergeFrom({values_text})"]
        lines += [f"del {name}[{index}]", f"{name}.remove({value})", f"{name}.reverse()", f"{name}.clear()"]
        lines += [f"r = list({name})", f"r = len({name})"]
        # The official runtime may crash when an extended slice without elements is deleted.
        if values[slice(*(int(x) if x else None for x in slice_text.split(":")))] or slice_text.count(":") == 1:
            lines.append(f"del {name}[{slice_text}]")
        if -len(values) <= index < len(values):
            lines += [f"r = {name}.pop({index})", f"{name}[{index}] = {value}"]
        elif not values:
            lines.append(f"r = {name}.pop({index})")
        # The official runtime returns bytes for a string that is not valid UTF-8, and does not accept them.
        if not any(isinstance(x, bytes) for x in values) or field.type != F.TYPE_STRING:
            other_sequences = [sequence for sequence in self.fields if self.fields[sequence].type == field.type]
            other_sequences = [
                sequence for sequence in other_sequences if all(type(x) is not bytes for x in self.sides[1][sequence])
            ] or [name]
            lines += [
                f"{name}.extend({self.choose(other_sequences)})",
                f"{name}[{slice_text}] = list({self.choose(other_sequences)})",
            ]
            lines += [f"{name}.MergeFrom({self.choose(other_sequences)})", f"{name}.extend(copy.deepcopy({name}))"]
            if not any(x != x for x in values):
                lines += [f"{name}.sort()", f"{name}.sort(reverse=True)", f"{name}.sort(key=str)"]
        self.run(self.choose(lines))

    def edit_messages(self, name, descriptor):
        """Run a random line that reads or edits a sequence of messages."""
        count, slice_text = len(self.sides[1][name]), self.choose(SLICES)
        index = self.choose([0, 1, -1, count, -count])
        element = f"{name}[{self.choose(range(count))}]" if count else self.new_message_text(descriptor, 1)
        source, second_source = (
            self.source_text(descriptor, name),
            self.choose([self.source_text(descriptor, name), element]),
        )
        if count and self.choose(range(3)) == 0:
            self.run_and_register(element, descriptor, name)
            return
        if self.choose(range(3)) == 0:
            self.run_and_register(f"{name}.add({self.keywords_text(descriptor, 1)})", descriptor, name)
            return
        if count and self.choose(range(9)) == 0:
            self.run(f"{element} = {source}")
            return
        if count and self.choose(range(5)) == 0:
            self.run_and_register(f"{name}.pop({self.choose(range(-count, count))})", descriptor, name)
            return
        sort_arguments = "key=lambda message: len(message.SerializeToString(deterministic=True))"
        lines = [f"r = {name}.append({source}) and None", f"{name}.extend([{source}, {second_source}])"]
        lines += [f"{name}.insert({index}, {source})", f"{name}.MergeFrom([{source}])"]
        lines += [f"del {name}[{index}]", f"{name}.remove({second_source})", f"{name}.reverse()", f"{name}.clear()"]
        lines += [
            f"{name}.sort({sort_arguments})",
            f"{name}.sort({sort_arguments}, reverse=True)",
            f"{name}[{slice_text}] = []",
        ]
        lines += [f"{name}.append({self.choose(['None', '1', '{}'])})", f"{name}.extend([])", f"r = len({name})"]
        lines += [f"{name}.extend(copy.deepcopy({name}))", f"r = [m.ByteSize() > 0 for m in {name}]"]
        # The official runtime may crash when an extended slice without elements is deleted.
        if range(count)[slice(*(int(x) if x else None for x in slice_text.split(":")))] or slice_text.count(":") == 1:
            lines.append(f"del {name}[{slice_text}]")
        official = self.sides[1]
        other_sequences = [
            sequence
            for sequence in self.fields
            if self.views[sequence] is descriptor and official[sequence] is not official[name]
        ]
        other_sequences = [
            sequence
            for sequence in other_sequences
            if not any(self.contains(message, name) for message in official[sequence])
        ]
        lines += (
            [f"{name}.{self.choose(['extend', 'MergeFrom'])}({self.choose(other_sequences)})"] * 3
            if other_sequences
            else []
        )
        self.run(self.choose(lines))


def run_random_edits(name, is_parsed, random, data, max_edits):
    """Run up to max_edits random edits on both runtimes; assert that all views have the same values."""
    lockstep = Lockstep(name, is_parsed, random, data.draw)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # upb warns if an element of an empty sequence is popped
        for _ in range(random.randint(1, max_edits)):
            if lockstep.expected_state is None and lockstep.views:
                lockstep.run_random_edit()
    lockstep.check()


BUILT_OR_PARSED = pytest.mark.parametrize("is_parsed", [False, True], ids=["built", "parsed"])
RANDOMS = st.randoms(use_true_random=False)


@wire.needs_upb
@BUILT_OR_PARSED
@EVERY_MESSAGE
@examples(9)
@given(random=RANDOMS, data=st.data())
def test_edits_have_the_official_effects(name, is_parsed, random, data):
    run_random_edits(name, is_parsed, random, data, 15)


@BUILT_OR_PARSED
@pytest.mark.parametrize(
    "name", ["test.Everything", "test.Everything.Tree", "onnx.GraphProto", "onnx.NodeProto", "onnx.TypeProto"]
)
@examples(60)
@given(random=RANDOMS, data=st.data())
def test_many_edits_have_the_official_effects(name, is_parsed, random, data):
    run_random_edits(name, is_parsed, random, data, 40)


# --- damage


@pytest.mark.parametrize("name", SCHEMA.messages)
@examples(25)
@given(random=RANDOMS, data=st.data())
def test_editing_flawed_bytes_raises_only_decode_and_unicode_errors(name, random, data):
    cls = SCHEMA.messages[name]
    message = result_or_error(cls.FromString, data.draw(wire.malformed_wire(cls.DESCRIPTOR, 1)))
    results = [message]
    for field in cls.DESCRIPTOR.fields if not isinstance(message, Exception) else ():
        value = result_or_error(getattr, message, field.name)
        edits = [lambda f=field: message.ClearField(f.name)] if random.random() < 0.3 else []
        if isinstance(value, Exception):
            edits.append(lambda: None)
        elif field.is_repeated:
            edits += [
                value.reverse,
                lambda v=value: v.insert(0, v[-1]) if v else None,
                lambda v=value: v.pop() if v else None,
            ]
            edits += [lambda v=value: v.__delitem__(slice(0, 2))]
        elif field.message_type is not None:
            edits += [value.SetInParent, lambda v=value: v.MergeFrom(v), lambda v=value: cls().MergeFrom(message)]
        else:
            edits.append(lambda f=field, v=value: setattr(message, f.name, v))
        results += [value, *(result_or_error(edit) for edit in edits)]
    if not isinstance(message, Exception):
        results += [
            result_or_error(message.SerializeToString),
            result_or_error(message.SerializeToString, deterministic=True),
        ]
        results += [
            result_or_error(message.ByteSize),
            result_or_error(copy.deepcopy, message),
            result_or_error(message.DiscardUnknownFields),
        ]
        results += [
            result_or_error(cls().CopyFrom, message),
            result_or_error(pickle.dumps, message),
            result_or_error(message.Clear),
        ]
    errors = [
        x for x in results if isinstance(x, Exception) and not isinstance(x, (onnxwire.DecodeError, UnicodeError))
    ]
    assert errors == []


def run_in_process(code):
    """Run a program in a child process, which may crash; return its output."""
    package_parent = os.path.dirname(os.path.dirname(onnxwire.__file__))
    process = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {package_parent!r})\n{code}"],
        capture_output=True,
        text=True,
    )
    assert process.returncode == 0, process.stderr or f"died of signal {-process.returncode}"
    return process.stdout


@pytest.mark.parametrize(
    "operation",
    snippets(
        """root.SerializeToString(); root.SerializeToString(deterministic=True); root.ByteSize(); root == other;
        copy.deepcopy(root); T().CopyFrom(root); T().MergeFrom(root); root.DiscardUnknownFields(); root.Clear();
        root.elem_type.sequence_type.CopyFrom(other); pickle.dumps(root); repr(root); root.ListFields();
        T(elem_type=onnxwire.TypeProto(sequence_type=root))"""
    ),
)
def test_an_operation_on_messages_nested_very_deeply_succeeds_or_raises_an_error(operation):
    code = f"""
import copy, pickle, onnxwire
T = onnxwire.TypeProto.Sequence
def nested_message(depth):
    root = view = T()
    for _ in range(depth):
        view = view.elem_type.sequence_type
    view.elem_type.denotation = "deepest"
    return root
for depth in (45, 300, 30_000):
    try:
        root, other = nested_message(depth), nested_message(depth)
        {operation}
    except (onnxwire.Error, RecursionError):
        assert depth > 45
print("completed")
"""
    assert run_in_process(code) == "completed\n"
