"""Edits of repeated fields behave as in the official runtime, except where a comment states a difference.

Failed edits change nothing. Repeated fields match sequence patterns of Python, and numpy makes arrays of them.
"""

from __future__ import annotations

import copy
import functools
import gc
import random
import warnings
from collections.abc import MutableSequence

import numpy as np
import pytest
import wire
import wire_bytes
from each import each
from wire import as_comparable, assert_same_as_official, result_or_error, snippets, value_after_edit

import onnxwire

# The official descriptor of Everything, a message of tests/everything.md with fields of every type except group.
EVERYTHING = wire.class_namespaces()[1].Everything.DESCRIPTOR
REPEATED_FIELDS = [field.name for field in EVERYTHING.fields if field.is_repeated and field.message_type is None]
NUMERIC_FIELDS = [name for name in REPEATED_FIELDS if name not in ("many_string", "many_bytes")]
# Three valid values by the type of a field; [1, 3, 2] for all other types.
SAMPLES = {"string": ["a", "b", "c"], "bytes": [b"a", b"b", b"c"], "bool": [True, False, True], "shade": [2, -1, 70]}
SAMPLES |= {"double": [0.5, -0.0, 1.5], "float": [0.5, -0.0, 1.5], "color": [2, 0, 1]}


def sample_values(name):
    """Return three valid values for a repeated field of Everything."""
    return SAMPLES.get(name.partition("_")[2], [1, 3, 2])


def run_code(code, names):
    """Evaluate an expression or execute a statement; return the value, None or the error."""
    return result_or_error(*compile_code(code), names)


@functools.cache
def compile_code(code):
    """Return `eval` or `exec`, and the compiled code."""
    try:
        return eval, compile(code, "", "eval")
    except SyntaxError:
        return exec, compile(code, "", "exec")


def yield_or_raise(*values):
    """Yield the values up to an exception class, which is raised."""
    for value in values:
        if isinstance(value, type):
            raise value("from a generator")
        yield value


# Names for the strings of Python code in this module.
PROGRAM_NAMES = {"np": np, "copy": copy, "gen": yield_or_raise, "Index": wire.Index, "Key": KeyError}


# --- values

# Edits of a sequence `s` by a value `v`.
VALUE_EDITS = {
    "append": "s.append(v)",
    "extend": "s.extend([s[0], v, s[1]])",
    "generator": "s.extend(gen(s[0], v))",
    "insert": "s.insert(1, v)",
    "item": "s[1] = v",
    "slice": "s[1:2] = [s[2], v]",
    "extended slice": "s[::2] = [s[1], v]",
    "MergeFrom": "s.MergeFrom([v])",
}


@each("value", wire.VALUES)
@each("edit", VALUE_EDITS)
def test_a_sequence_accepts_or_rejects_a_value_as_in_the_official_runtime(edit, value):
    def body(api):
        for name in REPEATED_FIELDS:
            message = api.Everything(**{name: sample_values(name)})
            values_before = as_comparable(message)
            result = run_code(
                VALUE_EDITS[edit], {**PROGRAM_NAMES, "s": getattr(message, name), "v": wire.VALUES[value]}
            )
            yield name, result, value_after_edit(api, result, values_before, message)

    assert_same_as_official(body)


@each("value", wire.VALUES)
def test_extend_and_MergeFrom_and_keywords_accept_the_official_iterables(value):
    def body(api):
        for name in REPEATED_FIELDS:
            for method in ("extend", "MergeFrom"):
                message = api.Everything(**{name: sample_values(name)})
                values_before = as_comparable(message)
                result = result_or_error(getattr(getattr(message, name), method), wire.VALUES[value])
                yield name, result, value_after_edit(api, result, values_before, message)
            yield name, result_or_error(api.Everything, **{name: wire.VALUES[value]})

    assert_same_as_official(body)


DTYPES = snippets("?; i1; i2; i4; i8; u1; u2; u4; u8; f2; f4; f8; c8; O; >i4; >f8; S3; U3; V4")


@pytest.mark.filterwarnings("ignore:Casting complex")
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_sequence_accepts_or_rejects_an_array_as_in_the_official_runtime(dtype):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        array = np.array([0, 1, 2, 100, 2, 1, 0], "i8").astype(dtype)
    arrays = [array, array[:3], array[::2], array[::-1], array[:0], array.reshape(1, 7), array[0]]

    def body(api):
        for name in REPEATED_FIELDS:
            for i, array_variant in enumerate(arrays):
                message = api.Everything(**{name: sample_values(name)})
                values_before = as_comparable(message)
                result = result_or_error(getattr(message, name).extend, array_variant)
                yield name, i, result, value_after_edit(api, result, values_before, message)

    assert_same_as_official(body)


@pytest.mark.parametrize("dtype", ["i1", "i4", "i8", "u4", "u8", "f4", "f8"])
def test_the_limits_of_a_dtype_are_accepted_or_rejected_as_in_the_official_runtime(dtype):
    limits = (np.finfo if dtype[0] == "f" else np.iinfo)(dtype)
    array = np.array([limits.min, limits.max], dtype)

    def body(api):
        for name in NUMERIC_FIELDS:
            for array_part in (array, array[:1], array[1:]):
                message = api.Everything(**{name: sample_values(name)})
                values_before = as_comparable(message)
                result = result_or_error(getattr(message, name).extend, array_part)
                yield name, result, value_after_edit(api, result, values_before, message)

    assert_same_as_official(body)


def test_extend_accepts_a_big_array():
    def body(api):
        message = api.TensorProto()
        rng = np.random.default_rng(0)
        message.float_data.extend(rng.standard_normal(10_000))
        message.int64_data.extend(rng.integers(-(1 << 63), 1 << 63, 10_000) >> rng.integers(0, 63, 10_000))
        yield message, message.SerializeToString()

    assert_same_as_official(body)


# --- methods

INDEXES = snippets("0; 1; 2; 3; -1; -3; -4; None; 1.0; 'a'; True; Index(1); np.int8(-2)")
SLICES = snippets("0:2; :; 1:1; 5:9; 2:1; -2:; ::2; ::-1; 1::-1")
# `s` is the sequence, and `v` is the list of the three values of `sample_values`.
SEQUENCE_OPERATIONS = [
    *snippets(
        """s.append(); s.append(v[0], v[1]); s.append(v[2]); s.extend(); s.extend(v, v);
        s.extend([]); s.extend(v); s.extend(tuple(v)); s.extend(gen(*v)); s.extend(gen(v[0], Key)); s.extend(());
        s.extend(s); s.extend(iter(s)); s.extend(reversed(s)); s.extend(s[1:]); s.extend(dict.fromkeys(v));
        s.MergeFrom(v); s.MergeFrom(s); s.MergeFrom(gen(v[0], Key)); s.MergeFrom(None); s.MergeFrom();
        s.extend(None); s.extend(0); s.extend(Key); s.extend(set(v[:1])); s.extend(copy.deepcopy(s));
        s.insert(0); s.insert(); s.insert(4, v[0]); s.insert(100, v[0]); s.insert(-100, v[0]);
        s.pop(); s.pop(2); s.pop(0, 0); s.pop('1'); s.pop(-2);
        s.clear(); s.clear(1); s.reverse(); s.reverse(1);
        s.remove(v[0]); s.remove(v[1]); s.remove(v[2]); s.remove('no'); s.remove(None); s.remove(s); s.remove();
        s.sort(); s.sort(reverse=True); s.sort(reverse=False); s.sort(key=None); s.sort(key=str); s.sort(key=1);
        s.sort(key=hash, reverse=True); s.sort(key=lambda x: 1 / 0); s.sort(None); s.sort(str); s.sort(other=1);
        s.sort(key=lambda x: 'a' if x == v[0] else 1); s.sort(reverse='a'); s.sort(reverse=1); s.sort(cmp=str);
        s.sort(key=lambda x: 0); s.sort(key=lambda x: 0, reverse=True); s.sort(key=lambda x: float('nan'));
        s + v; v + s; s * 2; s.no_such_method; s.no_such_field = 1; s.append = 1; hash(s); s == v; s != v;
        len(s); bool(s); s[0]; s[3]; s[-4]; s[1:]; v[0] in s; 'no' in s; list(s); list(reversed(s));
        s == list(v); s == tuple(v); s == s; s == v[:1]; s < v; s == copy.deepcopy(s)"""
    ),
    *[f"s.insert({i}, v[1])" for i in INDEXES],
    *[f"s.pop({i})" for i in INDEXES if i not in ("3", "-4")],
    *[f"s[{i}] = v[2]" for i in INDEXES],
    *[f"del s[{i}]" for i in INDEXES],
    *[f"s[{i}] = {v}" for i in SLICES for v in snippets("[]; v[:1]; v[:2]; v; gen(*v); None; 5; s[::-1]; v * 2")],
    *[f"s[{i}] = {v}" for i in SLICES for v in ("s", "gen(v[0], Key)") if (i, v) != ("::-1", "s")],
    *[f"s[{i}] = v[:2]" for i in ("::0", "'a':")],
    *[f"del s[{i}]" for i in [*SLICES, "::-2", "1::5", "::0", "'a':"]],
]
# Deleting an extended slice of an empty sequence corrupts its length in the official runtime, which then crashes.
UPB_CRASHES = ["del s[::2]", "del s[::-2]", "del s[1::5]"]
# On an empty sequence the official runtime ignores the arguments, or checks the index first.
UNCHECKED_IF_EMPTY = snippets(
    """s.sort(None); s.sort(str); s.sort(other=1); s.sort(cmp=str); s.sort(cmp=1);
    s[0] = T(); s[0] = s[1]; s[0] = None; s[0] = {}"""
)
ORIGINS = ["built", "parsed", "parsed from unusual bytes", "parsed and edited", "cleared", "absent"]


def message_and_sequence(api, name, origin):
    """Return a message and its sequence of three values, or of no values if the origin is "cleared" or "absent"."""
    values = sample_values(name)
    built = api.Everything(**{name: values})
    if origin == "built":
        return built, getattr(built, name)
    encoded = built.SerializeToString()
    if origin == "parsed from unusual bytes" and name in NUMERIC_FIELDS:
        # The last value is packed if the field is unpacked, and unpacked if the field is packed. It is encoded by the
        # other field of its type, and the tag is replaced. A record of one_int64 (3) separates the two records.
        other_field = ("packed_" if name.startswith("many_") else "many_") + name.partition("_")[2]
        number = EVERYTHING.fields_by_name[name].number
        last_record = api.Everything(**{other_field: values[2:]}).SerializeToString()
        wire_type = last_record[0] & 7
        last_record = (
            wire.tag(number, wire_type)
            + last_record[len(wire.tag(EVERYTHING.fields_by_name[other_field].number, wire_type)) :]
        )
        encoded = api.Everything(**{name: values[:2]}).SerializeToString() + wire.varint_record(3, 5) + last_record
    message = api.Everything() if origin == "absent" else api.Everything.FromString(encoded)
    if origin == "parsed and edited":
        getattr(message, name).append(values[0])
        getattr(message, name).pop()
    if origin == "cleared":
        message.ClearField(name)
    return message, getattr(message, name)


@pytest.mark.parametrize("origin", ORIGINS)
@pytest.mark.parametrize(
    "name", snippets("many_int64; many_string; many_bytes; packed_double; packed_bool; many_shade")
)
def test_an_operation_on_a_sequence_has_the_official_effect(name, origin):
    def body(api):
        for code in SEQUENCE_OPERATIONS:
            if code in UPB_CRASHES + UNCHECKED_IF_EMPTY and origin in ("cleared", "absent"):
                continue
            message, values = message_and_sequence(api, name, origin)
            values_before = as_comparable(message)
            result = run_code(code, {**PROGRAM_NAMES, "s": values, "v": sample_values(name)})
            yield code, result, value_after_edit(api, result, values_before, message)
            if not isinstance(result, Exception):
                yield values, getattr(message, name), len(values), bool(values)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # upb warns if an element of an empty sequence is popped
        assert_same_as_official(body)


@each("origin", ORIGINS)
@each("name", REPEATED_FIELDS)
def test_a_series_of_edits_has_the_official_result(name, origin):
    def body(api):
        message, values = message_and_sequence(api, name, origin)
        first, second, third = sample_values(name)
        for code in snippets(
            "s.extend(v); s.insert(1, v[2]); s.reverse(); s[::2] = v[:len(s[::2])] * 9; s.remove(v[0])"
        ):
            result_or_error(exec, code, {"s": values, "v": [first, second, third]})
            yield code, values
        values.sort()
        values.extend(values)
        values[1:3] = [third]
        yield values, values.pop(), values.pop(0), message, message.SerializeToString(deterministic=True)
        del values[:]
        yield message, message.SerializeToString()

    assert_same_as_official(body)


@pytest.mark.parametrize("index", [3, 100, -4, -100])
def test_popping_out_of_range_raises_index_error(index):
    # Protobuf 7 warns, and removes the last element.
    message = wire.class_namespaces()[0].Everything(many_int32=[1, 2, 3], children=[{}, {}, {}])
    for values in (message.many_int32, message.children):
        with pytest.raises(IndexError):
            values.pop(index)
        assert len(values) == 3


def test_popping_from_an_empty_sequence_raises_index_error():
    for name in ("many_int32", "many_string", "children"):
        with pytest.raises(IndexError), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            getattr(wire.class_namespaces()[0].Everything(), name).pop()


@pytest.mark.parametrize("name", ["many_int32", "many_string", "children"])
def test_augmented_assignment_has_the_official_effect(name):
    # Protobuf 7 has no += for its sequences.
    def body(api):
        message = api.Everything()
        yield run_code("s += []", {"s": getattr(message, name)}), run_code(f"m.{name} += []", {"m": message}), message

    assert_same_as_official(body)


@pytest.mark.parametrize("code", [*UPB_CRASHES, "del s[5::2]", "del s[2:1:2]", "del s[0:2:-2]", "del s[0:2:-1]"])
def test_deleting_an_empty_extended_slice_deletes_no_elements(code):
    for count in (0, 3) if code not in UPB_CRASHES else (0,):
        message = wire.class_namespaces()[0].Everything(
            many_int32=range(count), many_string="abc"[:count], children=[{}] * count
        )
        for values in (message.many_int32, message.many_string, message.children):
            exec(code, {"s": values})
            assert len(values) == count


def test_a_sequence_can_be_assigned_to_itself_backwards():
    # The official runtime overwrites elements that it has not read yet.
    values = wire.class_namespaces()[0].Everything(many_int32=[1, 2, 3, 4]).many_int32
    values[::-1] = values
    assert values == [4, 3, 2, 1]


def test_sequences_are_mutable_sequences():
    message = onnxwire.GraphProto()
    assert isinstance(message.node, MutableSequence)
    assert isinstance(message.node.add().input, MutableSequence)


# Numbers of which the first two are signaling NaNs.
NAN_BYTES = {
    "float": np.array([0x7FA00000, 0xFF800001, 0x7FC00001, 0x3F800000], "<u4").tobytes(),
    "double": np.array([0x7FF4000000000000, 0xFFF0000000000001, 1], "<u8").tobytes(),
}


@pytest.mark.parametrize(
    "code",
    snippets(
        """s.extend(o); s.MergeFrom(o); s[:] = o; s[1:1] = o; s[:len(o)] = o; s[:2 * len(o):2] = o; s.extend(s)
        ; m.MergeFrom(other); m.CopyFrom(cls(**{field: o})); o.append(1) or s.extend(o)"""
    ),
)
@pytest.mark.parametrize("name", NAN_BYTES)
def test_an_edit_preserves_every_bit_of_a_float(name, code):
    def body(api):
        number = api.Everything.DESCRIPTOR.fields_by_name[f"many_{name}"].number
        for encoded in (b"", wire.len_record(number, NAN_BYTES[name] * 3)):
            message = api.Everything.FromString(encoded)
            source = api.Everything.FromString(wire.len_record(number, NAN_BYTES[name]))
            field = f"many_{name}"
            names = {"m": message, "other": source, "cls": api.Everything, "field": field}
            result = run_code(code, names | {"s": getattr(message, field), "o": getattr(source, field)})
            yield result, message.SerializeToString(deterministic=True)

    assert_same_as_official(body)


def test_values_of_another_closed_enum_are_checked_one_by_one():
    def body(api):
        message, source = api.Everything(many_shade=[2]), api.Everything(many_color=[2, 0, 1])
        result = result_or_error(message.many_shade.extend, source.many_color)
        yield result, as_comparable(message)
        yield result_or_error(message.many_shade.extend, message.many_shade), as_comparable(message)

    assert_same_as_official(body)


def test_an_edit_preserves_strings_that_are_not_utf8():
    def body(api):
        for code in snippets(
            "s.reverse(); s.append('b'); s.insert(0, 'b'); s.pop(1); del s[1]; s[1] = 'b'; s[1:] = []"
        ):
            message = api.NodeProto.FromString(wire.len_record(1, b"\xff") + wire.len_record(1, b"a"))
            yield code, run_code(code, {"s": message.input}), message

    assert_same_as_official(body)


def test_unknown_enum_values_stay_when_their_sequence_is_edited():
    def body(api):
        for number, name in ((69, "packed_color"), (36, "many_color")):
            # The values 0, 7 and 1 packed, and 8 and 2 unpacked; 7 and 8 are unknown.
            encoded = wire.len_record(number, b"\0\7\1") + wire.varint_record(number, 8) + wire.varint_record(number, 2)
            message = api.Everything.FromString(encoded)
            values = getattr(message, name)
            yield values, message
            values.append("GREEN")
            values[0] = 2
            yield values, message
            message.ClearField(name)
            yield values, message

    assert_same_as_official(body)


def test_an_edit_within_an_edit_has_the_official_effect():
    def body(api):
        for code in (
            "s.extend(s.append(7) or x for x in (5, 6))", "s.extend(s.clear() or x for x in (5, 6))",
        ):  # fmt: skip
            message = api.Everything(many_int32=[3, 1, 2])
            yield code, run_code(code, {"s": message.many_int32}), message

    assert_same_as_official(body)


def test_sorting_one_element_and_inserting_at_huge_indexes_have_the_official_results():
    def body(api):
        for message, name in ((api.TensorProto(dims=[1]), "dims"), (api.GraphProto(node=[{"name": "n"}]), "node")):
            values = getattr(message, name)
            yield (
                wire.result_or_error(lambda values=values: values.sort(key=lambda value: value.no_such_attribute)),
                message,
            )
            for index in (1 << 70, -(1 << 70)):
                yield wire.result_or_error(lambda values=values, index=index: values.insert(index, values[0])), message

    assert_same_as_official(body)


@pytest.mark.parametrize(
    "code",
    snippets(
        """s.sort(key=lambda x: s.clear() or 1); s.sort(key=lambda x: s.append(s[0]) or 1); s.insert(clear, s[0]);
        s[0:2] = (s.clear() or x for x in list(s)); s[clear] = s[0]; del s[clear]; s.pop(clear); s.remove(clear);
        s[clear:] = list(s); del s[:clear]; s.extend(s.pop() for _ in s[:]); del s[::clear]; s.extend(pops)"""
    ),
)
@pytest.mark.parametrize("name", ["many_int32", "many_string", "packed_double"])
def test_an_edit_within_an_edit_leaves_a_sequence_that_can_be_read(name, code):
    message = wire.class_namespaces()[0].Everything(**{name: sample_values(name) * 30})
    values = getattr(message, name)

    class Clear:
        """An object that clears the sequence when it is used as an index or compared."""

        def __index__(self):
            values.clear()
            return 1

        def __eq__(self, other):
            values.clear()
            return False

        __hash__ = None

    run_code(code, {"s": values, "clear": Clear(), "pops": (values.pop() for _ in range(5))})
    remaining = list(values)
    assert len(values) == len(remaining)
    assert list(getattr(type(message).FromString(message.SerializeToString()), name)) == remaining


# --- repeated messages

# The sequence `s` contains messages of the class `T`.
MESSAGE_SEQUENCE_OPERATIONS = [
    *snippets(
        """s.add(); s.add(value=5); s.add(value=5, branches=[{'value': 6}]); s.add(value=None); s.add(trunk={});
        s.append(T()); s.append(T(value=5)); s.append(s[0]); s.append(s[0].trunk); s.append(); s.append(T(), T());
        s.extend([]); s.extend([T(value=5), T(value=6)]); s.extend(gen(T(value=5), T(value=6))); s.extend(());
        s.extend(s[:]); s.extend(reversed(s)); s.extend(x for x in s[:]); s.extend(copy.deepcopy(s)); s.extend();
        s.extend(T(branches=[T(value=5)] * 3).branches); s.MergeFrom(T(branches=[T(value=5)] * 3).branches);
        s.extend(None); s.extend(1); s.extend(T()); s.MergeFrom(None); s.MergeFrom([T(value=7)]); s.MergeFrom();
        s.insert(0, s[2]); s.insert(2, s[0]); s.insert(0); s.insert(100, T()); s.insert(-100, T());
        s.pop(); s.pop(2); s.pop(-2); s.pop(0, 0); s.pop('1');
        s.remove(T(value=1)); s.remove(s[1]); s.remove(T()); s.remove(1); s.remove(None); s.remove({'value': 1});
        s.reverse(); s.sort(); s.sort(key=lambda t: t.value); s.sort(key=lambda t: -t.value); s.sort(None);
        s.sort(key=lambda t: t.value, reverse=True); s.sort(key=lambda t: 1 / 0); s.sort(key=len); s.sort(cmp=1);
        s.sort(key=lambda t: 0, reverse=True); s.clear(); s.clear(1); s[0] = T(); s[0] = s[1]; s[0] = None;
        s[0] = {}; s['a'] = T(); s[0:1] = [T()]; s[:] = []; s[::2] = s;
        s + []; s * 2; [] + s; hash(s); s == list(s); s == s; s == []; s != s; s == 1; T(value=1) in s;
        s.no_such_method; s.no_such_field = 1; s[0].CopyFrom(s[1]); s[0].MergeFrom(s[1]); s[-1].ClearField('value');
        s == copy.deepcopy(s); s[0:2]; s[3]; len(s); s[1].branches.extend(s[0].branches); s[0].branches.add()"""
    ),
    *[f"s.insert({i}, T(value=5))" for i in INDEXES],
    *[f"s.pop({i})" for i in INDEXES if i not in ("3", "-4")],
    *[f"del s[{i}]" for i in [*INDEXES, *SLICES, "::-2", "1::5", "::0", "'a':"]],
]
# Operations that fail. In the official runtime, some of them change the sequence first.
FAILING_OPERATIONS = snippets(
    """s.append(None); s.append(1); s.append({}); s.append(N()); s.insert(0, None); s.insert(0, {});
        s.insert(0, N()); s.add(no_such_field=1); s.add(value='a'); s.add({'value': 1}); s.add(T()); s.add(None);
        s.add(value=1, branches=[1]); s.extend([T(), N()]); s.extend([T(), None]); s.extend(gen(T(), Key));
        s.extend([T(), {'value': 1}]); s.extend('ab'); s.MergeFrom([T(), N()]); s.MergeFrom(Nothings().nothings)"""
)


def tree_and_branches(api, origin):
    """Return a tree and its sequence of three branches, or of no branches if the origin is "cleared" or "absent"."""
    built = api.Everything.Tree(
        value=0, branches=[{"value": 2, "branches": [{"value": 9}]}, {"trunk": {}}, {"value": 1}]
    )
    encoded = built.SerializeToString()
    if origin == "built":
        return built, built.branches
    if origin == "parsed from unusual bytes":
        # The record of the value, two bytes, follows the branches and an empty trunk (field 3).
        encoded = encoded[2:] + wire.len_record(3, b"") + encoded[:2] + wire.len_record(77, b"unknown")
    message = api.Everything.Tree() if origin == "absent" else api.Everything.Tree.FromString(encoded)
    if origin == "parsed and edited":
        message.branches.add()
        message.branches.pop()
    if origin == "cleared":
        message.ClearField("branches")
    return message, message.branches


def program_names(api, values):
    """Return the names that MESSAGE_SEQUENCE_OPERATIONS and FAILING_OPERATIONS use."""
    make_nothings = lambda: api.Holder(nothings=[{}, {}])  # noqa: E731
    return {**PROGRAM_NAMES, "s": values, "T": api.Everything.Tree, "N": api.Nothing, "Nothings": make_nothings}


@each("origin", ORIGINS)
@each("code", MESSAGE_SEQUENCE_OPERATIONS)
def test_an_operation_on_a_sequence_of_messages_has_the_official_effect(code, origin):
    if code in UPB_CRASHES + UNCHECKED_IF_EMPTY and origin in ("cleared", "absent"):
        return

    def body(api):
        message, values = tree_and_branches(api, origin)
        values_before = as_comparable(message)
        result = run_code(code, program_names(api, values))
        yield result, value_after_edit(api, result, values_before, message)
        if not isinstance(result, Exception):
            yield values, message.branches, len(values), bool(values)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert_same_as_official(body)


@each("origin", ORIGINS)
@each("code", FAILING_OPERATIONS)
def test_a_failing_operation_does_not_change_a_sequence_of_messages(code, origin):
    assert_same_as_official(lambda api: iter([run_code(code, program_names(api, tree_and_branches(api, origin)[1]))]))
    message, values = tree_and_branches(wire.class_namespaces()[0], origin)
    encoded_before, count = message.SerializeToString(), len(values)
    assert isinstance(run_code(code, program_names(wire.class_namespaces()[0], values)), Exception)
    assert (message.SerializeToString(), len(values)) == (encoded_before, count)


@pytest.mark.parametrize("code", snippets("s.extend(s); s.MergeFrom(s); s.extend(list(s)); s.extend(copy.deepcopy(s))"))
def test_a_sequence_of_messages_can_be_extended_by_itself(code):
    # The official runtime runs out of memory on the first two statements.
    values = tree_and_branches(wire.class_namespaces()[0], "built")[1]
    run_code(code, {"s": values, "copy": copy})
    assert len(values) == 6
    assert values[:3] == values[3:] == tree_and_branches(wire.class_namespaces()[0], "built")[1]


@pytest.mark.parametrize("code", ["t.branches.append(t)", "t.branches.insert(0, t)", "t.branches.extend([t])"])
def test_a_message_can_be_added_to_itself(code):
    # The official runtime first adds an empty branch, so that the copy of the tree contains that branch too.
    tree, values = tree_and_branches(wire.class_namespaces()[0], "built")
    tree_before = copy.deepcopy(tree)
    run_code(code, {"t": tree})
    index = 0 if "insert" in code else -1
    popped_message = values.pop(index)
    assert tree == tree_before
    assert popped_message == tree_before


def test_append_insert_and_extend_add_copies():
    def body(api):
        node, graph = api.NodeProto(op_type="mine"), api.GraphProto()
        graph.node.append(node)
        graph.node.insert(0, node)
        graph.node.extend([node, node])
        node.op_type = "changed"
        graph.node[1].input.append("x")
        yield graph, node

    assert_same_as_official(body)


def test_add_returns_the_added_message():
    def body(api):
        graph = api.GraphProto()
        graph.node.add(op_type="a").input.append("x")
        node = graph.node.add()
        node.name = "n"
        yield graph, node, graph.SerializeToString()

    assert_same_as_official(body)


def test_messages_of_another_class_are_rejected_by_every_method():
    def body(api):
        for sequence, message in (
            (api.GraphProto().node, api.GraphProto()), (api.GraphProto().initializer, api.SparseTensorProto()),
            (api.Everything().children, api.Everything.Tree()), (api.Everything.Tree().branches, api.Everything()),
        ):  # fmt: skip
            yield result_or_error(sequence.append, message), result_or_error(sequence.insert, 0, message)
            yield result_or_error(sequence.extend, [message]), result_or_error(sequence.MergeFrom, [message])

    assert_same_as_official(body)


def test_many_messages_are_added_removed_and_sorted():
    def body(api):
        graph = api.GraphProto()
        for i in range(500):
            graph.node.add(op_type=str(i * 7919 % 500), input=[str(i)])
        graph.node.sort(key=lambda node: int(node.op_type))
        del graph.node[::3]
        for i in range(50):
            graph.node.insert(i * 5, graph.node.pop(-i - 1))
        yield graph, graph.SerializeToString(), graph.node[17], graph.node[-17]

    assert_same_as_official(body)


def test_messages_of_a_big_parsed_sequence_are_removed_and_inserted():
    def body(api):
        encoded = b"".join(wire.len_record(1, wire.len_record(4, str(i).encode())) for i in range(1000))
        graph = api.GraphProto.FromString(encoded)
        yield graph.node[500]
        del graph.node[100:900]
        graph.node.insert(50, api.NodeProto(op_type="new"))
        graph.node[150].op_type = "changed"
        yield graph, graph.SerializeToString(), [node.op_type for node in graph.node]

    assert_same_as_official(body)


# --- protocols of Python and numpy


def test_repeated_fields_match_sequence_patterns():
    node = onnxwire.NodeProto(input=["a", "b"])
    match node.input:
        case [first, second]:
            assert (first, second) == ("a", "b")
        case _:
            pytest.fail("a repeated string is no sequence")
    match onnxwire.TensorProto(dims=[1, 2, 3]).dims:
        case [1, *rest]:
            assert rest == [2, 3]
        case _:
            pytest.fail("a repeated number is no sequence")
    match onnxwire.GraphProto(node=[node]).node:
        case [onnxwire.NodeProto(input=inputs)]:
            assert inputs == ["a", "b"]
        case _:
            pytest.fail("a repeated message is no sequence")


def test_arrays_of_numbers_have_the_expected_types():
    tensor = onnxwire.TensorProto(dims=[2], int64_data=[1], uint64_data=[1], int32_data=[1], float_data=[1])
    names = {np.int64: "int64", np.uint64: "uint64", np.int32: "int32", np.float32: "float32"}
    for field in ("int64_data", "uint64_data", "int32_data", "float_data"):
        array = np.array(getattr(tensor, field))
        assert names[array.dtype.type] == field.removesuffix("_data").replace("float", "float32")
    assert np.array(tensor.dims).dtype.type is np.int64
    assert np.array(onnxwire.AttributeProto(ints=[1]).ints).dtype.type is np.int64


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", ["many_int64", "many_float", "many_string"])
def test_insertions_and_removals_at_any_position_have_the_same_result_as_for_a_list(name, seed):
    # Numbers are in an array, strings in a gap buffer. An insertion uses free memory at an end of the array or in the
    # gap. If that does not suffice, the array is reallocated.
    rng = random.Random(seed)
    element_type = str if name == "many_string" else int if name == "many_int64" else float
    message = wire.class_namespaces()[0].Everything()
    sequence, expected = getattr(message, name), []
    for i in range(600):
        n = len(expected)
        start = rng.choice([0, 0, n, rng.randint(0, n), n // 2])
        stop = min(n, start + rng.choice([0, 0, 0, 1, 2, 20]))
        values = [element_type(1000 * i + k) for k in range(rng.choice([0, 1, 1, 2, 3, 30]))]
        if rng.random() < 0.3 and n:
            index = -1 if start < n // 2 else 0
            assert sequence.pop(index) == expected.pop(index)
        else:
            sequence[start:stop] = values
            expected[start:stop] = values
        assert len(sequence) == len(expected)
    assert list(sequence) == expected
    assert list(getattr(type(message).FromString(message.SerializeToString()), name)) == expected


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("origin", ["built", "parsed"])
def test_edits_near_the_last_edit_of_a_long_sequence_have_the_same_result_as_for_a_list(origin, seed):
    # An edit far from the ends moves the gap of the buffer to its position. Edits at the ends, reading and copying have
    # to skip the gap.
    rng = random.Random(seed)
    node = onnxwire.NodeProto(input=[f"text {i}" for i in range(1000)])
    if origin == "parsed":
        node = onnxwire.NodeProto.FromString(node.SerializeToString())
    sequence, expected = node.input, list(node.input)
    position = 500
    for i in range(1500):
        n = len(expected)
        position = rng.randint(0, n) if rng.random() < 0.05 else min(n, max(0, position + rng.randint(-3, 3)))
        start, stop = position, min(n, position + rng.choice([0, 0, 1, 2, 150]))
        values = [f"{i} {k}" for k in range(rng.choice([0, 1, 1, 2, 150 if i % 20 == 0 else 1]))]
        code = rng.choice(
            ["s[i:j] = v", "s[i:j] = v", "s[i:j] = v", "s.insert(i, str(i))", "del s[i:j]", "s.extend(v)", "s.pop(0)"]
            + ["s.pop()", "s.insert(0, str(i))", "s.append('x')"] * (n > 900)
            + ["s[i // 2 : i] = s[i // 2 : i]", "s[::-2] = s[::-2][::-1]", "s.reverse()"] * (i % 10 == 0)
        )
        names = {"i": start, "j": stop, "v": values}
        assert run_code(code, {**names, "s": sequence}) == run_code(code, {**names, "s": expected}) or n == 0
        assert len(sequence) == len(expected)
        assert sequence[position : position + 3] == expected[position : position + 3]
        assert next(iter(sequence), None) == next(iter(expected), None)
        if i % 50 == 0:
            copied = copy.deepcopy(node)
            assert list(sequence) == list(copied.input) == list(node.input) == expected
            assert onnxwire.NodeProto(input=expected) == node == copied
            assert onnxwire.NodeProto.FromString(node.SerializeToString()).input == expected
            copied.MergeFrom(node)
            node.MergeFrom(onnxwire.NodeProto(input=["merged"]))
            expected.append("merged")
            assert list(node.input) == expected
            assert list(copied.input) == expected[:-1] * 2
    assert list(sequence) == expected


@pytest.mark.parametrize("code", ["s.append(7)", "s[0] = 7", "del s[0]", "s[:] = [7]", "s.reverse()"])
@pytest.mark.parametrize("is_cached", [False, True])
def test_an_edit_of_decoded_numbers_does_not_change_arrays_of_them(code, is_cached):
    data = onnxwire.TensorProto(int64_data=range(1000)).SerializeToString()
    tensor = onnxwire.TensorProto.FromString(data)
    numbers = tensor.int64_data
    if is_cached:
        numbers[5]
    array = numbers.numpy()
    second_view = tensor.int64_data
    expected = list(numbers)
    run_code(code, {"s": numbers})
    run_code(code, {"s": expected})
    assert array.tolist() == list(range(1000))
    assert list(numbers) == list(second_view) == expected


def test_a_sequence_of_numbers_contains_the_values_that_an_equal_list_contains():
    tensor = onnxwire.TensorProto.FromString(onnxwire.TensorProto(int64_data=[5, 0, -1, 2**62]).SerializeToString())
    for value in (5, -1, 2**62, 2**62 + 1, 2**64, -(2**70), True, 0.0, 5.5, "5", None):
        assert (value in tensor.int64_data) == (value in [5, 0, -1, 2**62])
    tensor.int64_data.remove(False)
    assert tensor.int64_data == [5, -1, 2**62]
    with pytest.raises(ValueError, match="not in the field"):
        tensor.int64_data.remove(2**64)


@each("name", REPEATED_FIELDS)
@each("change", ["s.append(v[1])", "s.extend(v)"])
@each("detaching_edit", ["m.Clear()", "m.ClearField(name)", "m.ParseFromString(b'')"])
def test_a_sequence_keeps_the_elements_that_were_appended_before_it_was_detached(detaching_edit, change, name):
    def body(api):
        message = api.Everything.FromString(api.Everything(**{name: sample_values(name)}).SerializeToString())
        names = {"m": message, "s": getattr(message, name), "v": sample_values(name), "name": name}
        exec(change, names)
        exec(detaching_edit, names)
        yield names["s"], message

    assert_same_as_official(body)


# --- appending to a packed run, which stays encoded

OPERATIONS_AFTER_APPEND = [
    "list(s)", "len(s)", "s[0]", "s[-1]", "s.pop(0)", "s.insert(0, s[1])", "s.reverse()", "del s[1:]", "s.clear()",
    "s.extend(s)", "s.remove(s[2])", "s[2] = s[1]", "s[:] = s[1:]", "s[::2]", "bool(s)", "s == list(s)",
    "m.SerializeToString()", "m.SerializeToString(deterministic=True)", "m.ByteSize()", "m.ClearField(name)", "m == m2",
    "m2 == m", "str(m)", "m2.CopyFrom(m)", "m2.MergeFrom(m)", "m.MergeFrom(m2)", "m.CopyFrom(m2)", "m.Clear()",
    "m.ParseFromString(b'')", "copy.deepcopy(m)", "m2.children.add().CopyFrom(m)", "m2.children.append(m)",
    "getattr(m, name).append(s[0])",
]  # fmt: skip


@each("operation", OPERATIONS_AFTER_APPEND)
@each("change", ["s.append(v[1])", "s.extend(v)", "s.append(v[0]); s.extend(v); s.append(v[2])"])
def test_appending_to_parsed_numbers_has_the_official_effect(change, operation):
    def body(api):
        for name in NUMERIC_FIELDS:
            values = sample_values(name)
            data = api.Everything(**{name: values}).SerializeToString()
            message, other = api.Everything.FromString(data), api.Everything.FromString(data)
            names = {**PROGRAM_NAMES, "m": message, "m2": other, "s": getattr(message, name), "v": values, "name": name}
            exec(change, names)
            result = run_code(operation, names)
            yield name, result if operation != "str(m)" else None
            yield names["s"], getattr(message, name), getattr(other, name), message, other

    assert_same_as_official(body)


def test_numbers_appended_to_a_long_run_follow_it():
    numbers = list(range(100_000))
    tensor = onnxwire.TensorProto.FromString(onnxwire.TensorProto(int64_data=numbers).SerializeToString())
    for number in range(1000):
        tensor.int64_data.append(number)
    assert repr(tensor).endswith("int64_data=[101,000 values])")
    assert onnxwire.TensorProto.FromString(tensor.SerializeToString()).int64_data == numbers + list(range(1000))
    assert tensor.int64_data == numbers + list(range(1000))


# Fault → encoding of int64_data (field 7) or float_data (field 4).
DAMAGED_RUNS = {
    "an incomplete varint": wire_bytes.len_record(7, b"\x01\x80"),
    "an incomplete float": wire_bytes.len_record(4, bytes(7)),
}


@each("code", ["s.append(1)", "s.extend([1, 2])"])
@each("damage", DAMAGED_RUNS)
def test_appending_to_an_incomplete_run_changes_nothing(damage, code):
    tensor = onnxwire.TensorProto.FromString(DAMAGED_RUNS[damage])
    numbers = tensor.int64_data if "varint" in damage else tensor.float_data
    for _ in range(2):
        with pytest.raises(onnxwire.DecodeError):
            exec(code, {"s": numbers})
    assert tensor.SerializeToString() == DAMAGED_RUNS[damage]


@pytest.fixture
def no_partial_memory():
    """Release the remote documents of other tests; while one is open, an append decodes the run before it."""
    gc.collect()


@pytest.mark.usefixtures("no_partial_memory")
def test_a_damaged_varint_before_appended_numbers_is_reported_when_they_are_read():
    tensor = onnxwire.TensorProto.FromString(wire_bytes.len_record(7, b"\x80" * 11 + b"\x01"))
    tensor.int64_data.append(5)
    for read in (list, len, lambda s: tensor.SerializeToString(deterministic=True), lambda s: tensor == tensor):
        with pytest.raises(onnxwire.DecodeError, match="more than 10 bytes"):
            read(tensor.int64_data)


@pytest.mark.usefixtures("no_partial_memory")
def test_a_deterministic_encoding_shortens_the_varints_before_appended_numbers():
    run = wire_bytes.varint(1, pad=2) + wire_bytes.varint(300)
    tensor = onnxwire.TensorProto.FromString(wire_bytes.len_record(7, run))
    tensor.int64_data.append(5)
    assert tensor.SerializeToString() == wire_bytes.len_record(7, run + b"\x05")
    assert tensor.SerializeToString(deterministic=True) == wire_bytes.len_record(7, b"\x01\xac\x02\x05")
    assert tensor.SerializeToString() == wire_bytes.len_record(7, b"\x01\xac\x02\x05")
