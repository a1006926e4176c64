"""`examples/web/reader.c` continues after missing bytes were loaded, and reports damage.

The tests compile reader.c for this machine with the C compiler. For the page, zig compiles it to WebAssembly.
"""

from __future__ import annotations

import ctypes
import random
import shutil
import subprocess
from pathlib import Path

import events
import pytest
from budget import IS_LONG
from graphs import nested_model

import onnxwire as ow

PAGE = Path(__file__).parents[2] / "examples" / "web"
DIGITS = PAGE.parent / "digits_cnn.onnx"
END, VALUE, NEEDED, DAMAGED = range(4)  # results of `step` and `enter` in reader.c
SPAN_TYPES = (9, 11, 12)  # field types of strings, messages and bytes
DEPTH_ERROR = 8  # OW_ERROR_DEPTH of onnxwire.h
# int read(double offset, void *target, uint32_t size): returns 0, or 1 if bytes are missing.
ReadFunction = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_double, ctypes.c_void_p, ctypes.c_uint32)
pytestmark = pytest.mark.skipif(shutil.which(events.c_compiler()[0]) is None, reason="there is no C compiler")


class Value(ctypes.Structure):
    """The struct `value` of reader.c."""

    _fields_ = (
        *((name, ctypes.c_double) for name in ("table", "row", "start", "end")),
        ("integer", ctypes.c_int64),
        *((name, ctypes.c_double) for name in ("real", "code", "error")),
    )


class FieldInfo(ctypes.Structure):
    """The struct `field` of reader.c. message: the number of the table of a message field, or -1."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("number", ctypes.c_uint32),
        ("type", ctypes.c_uint32),
        ("is_repeated", ctypes.c_uint32),
        ("message", ctypes.c_int32),
    )


class Walk:
    """A walk over all values of a file, whose blocks are loaded when they are needed, as in onnxwire.js.

    block_size: in bytes; 0: all bytes are loaded. values: (table, row, number, end) of each value;
    number: the start of a string, message or bytes value, else the value's integer.
    fault: the code and the offset of the first damage, or None. n_loads: the number of times that blocks were loaded.
    """

    def __init__(self, library, data, block_size):
        self.library, self.data, self.block_size = library, data, block_size
        self.loaded_blocks = set() if block_size else None
        self.missing_blocks = set()
        self.n_loads = 0
        callback = ReadFunction(self.read)
        ctypes.c_void_p.in_dll(library, "read_bytes").value = ctypes.cast(callback, ctypes.c_void_p).value
        library.open_source(float(len(data)))
        self.values = []
        self.fault = None
        self.walk_message()
        del callback  # the library uses it until here

    def read(self, offset, target, size):
        """Copy bytes to an address, or note the blocks of missing bytes and return 1."""
        start = int(offset)
        assert 0 <= start < start + size <= len(self.data)
        if self.block_size:
            blocks = set(range(start // self.block_size, (start + size - 1) // self.block_size + 1))
            if not blocks <= self.loaded_blocks:
                self.missing_blocks = blocks
                return 1
        ctypes.memmove(target, self.data[start : start + size], size)
        return 0

    def call_until_loaded(self, function):
        """Call a function of the reader until it misses no bytes. Return its last result."""
        state, loaded_blocks = function(), set()
        while state == NEEDED:
            self.n_loads += 1
            # Blocks of earlier steps are released, because a step must not need them. A step that skips a group may
            # need several loads. Each load must add a block, or the step would never finish.
            assert not self.missing_blocks <= loaded_blocks
            loaded_blocks |= self.missing_blocks
            self.loaded_blocks = set(loaded_blocks)
            state = function()
        return state

    def walk_message(self):
        """Visit the values of the current message and of the messages in it."""
        value = Value.from_address(self.library.value_address())
        while (state := self.call_until_loaded(self.library.step)) == VALUE:
            table, row, start, end = (int(number) for number in (value.table, value.row, value.start, value.end))
            field = FieldInfo.from_address(self.library.field_of(table, row))
            self.values.append((table, row, start if field.type in SPAN_TYPES else value.integer, end))
            if field.message >= 0 and self.fault is None:
                if self.call_until_loaded(self.library.enter) == VALUE:
                    self.walk_message()
                    self.library.leave()
                else:
                    state = DAMAGED
                    break
        if state == DAMAGED and self.fault is None:
            self.fault = (value.code, value.error)


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """Return reader.c as a shared library."""
    path = tmp_path_factory.mktemp("reader") / "reader.so"
    flags = ["-std=c99", "-O1", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror", "-shared", "-fPIC"]
    command = [*events.c_compiler(), *flags, f"-I{ow.get_include()}", str(PAGE / "reader.c"), "-o", str(path)]
    subprocess.run(command, check=True)
    library = ctypes.CDLL(str(path))
    library.open_source.argtypes = [ctypes.c_double]
    library.value_address.restype = library.field_of.restype = library.tensor_address.restype = ctypes.c_void_p
    return library


INPUTS = {
    "truncated": DIGITS.read_bytes()[:60_000],
    "with subgraphs": nested_model().SerializeToString(),
    "empty": b"",
    "ending after a tag": b"\x08",
}


@pytest.mark.parametrize("block_size", [4200, 16_384])
@pytest.mark.parametrize("name", INPUTS)
def test_a_walk_that_stops_at_missing_bytes_visits_the_same_values(name, block_size, library):
    data = INPUTS[name]
    full_walk, block_walk = Walk(library, data, 0), Walk(library, data, block_size)
    assert (block_walk.values, block_walk.fault) == (full_walk.values, full_walk.fault)
    assert full_walk.n_loads == 0
    assert block_walk.n_loads <= 3 * len(data) // block_size + 3  # three loads per block


def test_walks_with_and_without_missing_bytes_detect_the_same_damage(library):
    rng = random.Random(3)
    source = nested_model().SerializeToString() * 20  # one model whose fields occur 20 times
    for _ in range(400 if IS_LONG else 60):
        data = bytearray(source)
        for _ in range(rng.randrange(1, 4)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        full_walk, block_walk = Walk(library, bytes(data), 0), Walk(library, bytes(data), 4096)
        assert (block_walk.values, block_walk.fault) == (full_walk.values, full_walk.fault)


def test_a_group_longer_than_a_block_is_skipped(library):
    group = b"\xfb\x7f" + b"\x08\x01" * 10_000 + b"\xfc\x7f"  # of the unknown field 2047
    data = group + ow.ModelProto(ir_version=7).SerializeToString()
    walk = Walk(library, data, 4096)
    assert [number for _, _, number, _ in walk.values] == [7]


def test_many_unknown_fields_are_skipped_with_few_loads(library):
    record = b"\xfa\x7f\x03abc"  # the unknown field 2047
    data = record * 100_000 + ow.ModelProto(ir_version=7).SerializeToString()
    walk = Walk(library, data, 4096)
    assert [number for _, _, number, _ in walk.values] == [7]
    assert walk.n_loads < 400


def test_a_model_deeper_than_the_limit_is_reported_as_damaged(library):
    graph = ow.GraphProto()
    for _ in range(60):  # three levels each: node, attribute, g; the limit is 100
        graph = ow.GraphProto(node=[{"attribute": [{"name": "g", "g": graph}]}])
    fault = Walk(library, ow.ModelProto(graph=graph).SerializeToString(), 0).fault
    assert fault is not None
    assert fault[0] == DEPTH_ERROR


def test_calls_in_any_order_are_safe(library):
    """A faulty page might call the functions in any order, in the state after any other call."""
    rng = random.Random(4)
    data = DIGITS.read_bytes()[:30_000]

    def read(offset, target, size):
        assert 0 <= offset <= offset + size <= len(data)
        if rng.random() < 0.2:
            return 1
        ctypes.memmove(target, data[int(offset) : int(offset) + size], size)
        return 0

    callback = ReadFunction(read)
    ctypes.c_void_p.in_dll(library, "read_bytes").value = ctypes.cast(callback, ctypes.c_void_p).value
    library.open_source(float(len(data)))
    calls = [library.step, library.step, library.enter, library.leave, library.read_tensor, library.skip_list]
    for _ in range(20_000):
        rng.choice(calls)()
    assert library.field_of(10_000, 0) is None
    assert library.field_of(0, 10_000) is None
