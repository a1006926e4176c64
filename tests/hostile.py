"""Hostile models, and every public call and command on them: what each costs in memory and time, by process.

A model of n bytes is made by code; a call on it must end within 30 n + 64 MB resident memory beyond the process (in
the quick run within 30 n + 16 MB), and within 60 rounds of an empty Python loop for each byte, which is 10 seconds for
5 MB where a round takes 33 ns; or it must stop with an onnxwire error. What it returns or prints counts as what it is
given does, n being both together. Run as a script for the full table:

    python tests/hostile.py --bytes 2000000
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import gc
import itertools
import os
import resource
import signal
import sys
import tempfile
import time
import traceback
import warnings
from pathlib import Path

import pyarrow

import onnxwire
from onnxwire import ModelProto, cli
from onnxwire.analysis.paths import resolve
from onnxwire.analysis.statistics import measure_all
from onnxwire.analysis.summary import summarize
from onnxwire.arrow.tables import TABLES
from onnxwire.catalog.read import Task, read_models
from onnxwire.engine.view import keep_identity
from onnxwire.errors import Error
from onnxwire.io.index import find_tensors
from onnxwire.viewer.queries import Queries

MEGABYTE = 1 << 20
ROUNDS = 60  # of an empty loop, for each byte
SLACK = 20_000_000  # rounds for any call
_KILL = 10  # times the time after which a call is ended


# Models.


def varint(value):
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(out + bytes([value]))


def record(number, data):
    """A field of bytes, text or a message."""
    return varint(number << 3 | 2) + varint(len(data)) + data


def fields(*path):
    """The field numbers along a path of names from a ModelProto, and the message that it ends in."""
    descriptor, numbers = ModelProto.DESCRIPTOR, []
    for name in path:
        field = descriptor.fields_by_name[name]
        numbers.append(field.number)
        descriptor = field.message_type
    return numbers, descriptor


def wrap(numbers, data):
    for number in reversed(numbers):
        data = record(number, data)
    return data


def repeated(path, element=b""):
    """A model with so many times the same element of a repeated field."""

    def make(size):
        numbers, _ = fields(*path)
        one = record(numbers[-1], element)
        return wrap(numbers[:-1], one * max(size // len(one), 1))

    return make


def numbered(path, make_element):
    """A model with elements of a repeated field that each get a number."""

    def make(size):
        numbers, _ = fields(*path)
        out, index = bytearray(), 0
        while len(out) < size:
            out += record(numbers[-1], make_element(index))
            index += 1
        return wrap(numbers[:-1], bytes(out))

    return make


def nested(step, inner=b"", limit=1 << 60):
    """A message in itself by a path of fields, as deep as there is room for."""

    def make(size):
        data, depth = inner, 0
        while len(data) < size and depth < limit:
            for number in reversed(step):
                data = record(number, data)
            depth += 1
        return record(7, record(1, data)) if step[0] != 7 else data

    return make


def name(index):
    return f"{index:x}".encode()


def node(inputs=(), outputs=(), *rest):
    return b"".join([*(record(1, n) for n in inputs), *(record(2, n) for n in outputs), *rest])


def graph_attribute(graph):
    return record(5, record(6, graph))


def tensor(own=b"", dims=b"", data=b""):
    return record(8, own) + (record(1, dims) if dims else b"") + b"\x10\x01" + record(9, data)


def many_names(size, count=None):
    """One node with very many inputs and outputs."""
    half = [name(index) for index in range(max(size // 10, 1))]
    return record(7, record(1, node(half, [b"o" + n for n in half])))


def fan_out(size):
    """One value that every node takes, and one that makes it; it and all that they make are outputs."""
    nodes = b"".join(record(1, node([b"v"], [name(i)])) for i in range(size // 12))
    return record(7, record(1, node([], [b"v"])) + nodes + record(12, record(1, b"v")))


def outer_inputs(size):
    """A node whose subgraph takes very many values from outside, and nodes that make these."""
    count = size // 24
    inner = record(1, node([name(i) for i in range(count)], [b"out"])) + record(12, record(1, b"out"))
    nodes = b"".join(record(1, node([], [name(i)])) for i in range(count))
    return record(7, nodes + record(1, node([], [b"y"], graph_attribute(inner))) + record(12, record(1, b"y")))


def own_sparse(size):
    """Subgraphs with sparse initializers of their own."""
    inner = record(15, record(1, tensor(b"s"))) + record(1, node([b"s"], [b"t"])) + record(12, record(1, b"t"))
    one = record(1, node([], [b"y"], graph_attribute(inner)))
    return record(7, one * (size // len(one)))


def pieces(size):
    """A graph that comes in very many pieces, which are to be merged."""
    one = record(7, record(1, node([b"a"], [b"b"])))
    return one * (size // len(one))


def bushes(size):
    """Graphs nested thirty deep with very many tensors at the bottom: long paths."""
    data = record(5, b"") * (size // 2)
    for _ in range(30):
        data = record(1, node([], [], graph_attribute(data)))
    return record(7, data)


MODELS = {
    "nothing": lambda size: b"",
    "zeros": lambda size: b"\x08\x00" * (size // 2),
    "unknown varints": lambda size: varint(1000 << 3) + b"\x01" + (varint(1000 << 3) + b"\x01") * (size // 4),
    "unknown records": lambda size: record(1000, b"") * (size // 4),
    "unknown groups": lambda size: (varint(1000 << 3 | 3) + varint(1000 << 3 | 4)) * (size // 6),
    "nested groups": lambda size: varint(1000 << 3 | 3) * (size // 6) + varint(1000 << 3 | 4) * (size // 6),
    "cut": lambda size: record(7, b"\x0a\x00" * (size // 2))[:-1],
    "bytes 0xff": lambda size: b"\xff" * size,
    "one long name": lambda size: record(7, record(1, record(3, b"n" * size))),
    "long names": numbered(["graph", "node"], lambda i: record(3, b"n" * 1000)),
    "a long text": lambda size: record(6, b"\n\x1b" * (size // 2)),
    "not UTF-8": lambda size: record(7, record(1, record(3, b"\xff" * size))),
    "many names": many_names,
    "fan-out": fan_out,
    "outer inputs": outer_inputs,
    "own sparse initializers": own_sparse,
    "pieces": pieces,
    "deep tensors": bushes,
    "a chain": numbered(["graph", "node"], lambda i: node([name(i)], [name(i + 1)])),
    "a reversed chain": numbered(["graph", "node"], lambda i: node([name(i + 1)], [name(i)])),
    "cycles": numbered(["graph", "node"], lambda i: node([name(i ^ 1)], [name(i)])),
    "a node that takes its own output": numbered(["graph", "node"], lambda i: node([b"a"], [b"a"])),
    "one value made by all": numbered(["graph", "node"], lambda i: node([name(i)], [b"x"])),
    "one value taken by all": numbered(["graph", "node"], lambda i: node([b"x"], [name(i)])),
    "an input taken by all": lambda size: record(7, record(11, record(1, b"x")) + record(1, node([b"x"])) * (size // 5)),  # noqa: E501
    "one name of all nodes": numbered(["graph", "node"], lambda i: node([], [], record(3, b"n"))),
    "suffixes": numbered(["graph", "node"], lambda i: node([], [b"x", b"x_unused" + b"_" * (i % 50)])),
    "subgraphs": numbered(["graph", "node"], lambda i: node([], [name(i)], graph_attribute(record(1, node([], [b"x"]))))),  # noqa: E501
    "empty subgraphs": repeated(["graph", "node"], graph_attribute(b"")),
    "graphs of one attribute": lambda size: record(7, record(1, record(5, record(11, b"") * (size // 2)))),
    "tensors of one attribute": lambda size: record(7, record(1, record(5, record(10, b"") * (size // 2)))),
    "a tensor an attribute": repeated(["graph", "node", "attribute"], record(5, b"")),
    "small tensors": repeated(["graph", "initializer"], tensor(b"w", b"\x01", b"abcd")),
    "named tensors": numbered(["graph", "initializer"], lambda i: tensor(name(i), b"\x01", b"abcd")),
    "string tensors": repeated(["graph", "initializer"], b"\x10\x08\x0a\x01\x01" + record(6, b"text")),
    "wide strings": lambda size: record(
        7, record(5, b"\x10\x08" + record(1, varint(size // 4)) + record(6, b"s" * (size // 2)) + record(6, b"") * (size // 4 - 1))  # noqa: E501
    ),
    "wide dims": lambda size: record(7, record(5, record(1, b"\x01" * size))),
    "huge dims": numbered(["graph", "initializer"], lambda i: tensor(b"w", b"\xff" * 8 + b"\x7f")),
    "a shape without data": numbered(["graph", "initializer"], lambda i: tensor(name(i), varint(1 << 40))),
    "typed data": lambda size: record(7, record(5, b"\x10\x07" + record(1, varint(size)) + record(7, b"\x01" * size))),
    "external tensors": repeated(
        ["graph", "initializer"], b"\x10\x01\x70\x01" + record(13, record(1, b"location") + record(2, b"none"))
    ),
    "values of one type": repeated(["graph", "value_info"], record(1, b"v") + record(2, record(1, b"\x08\x01"))),
    "wide shapes": lambda size: record(7, record(11, record(1, b"x") + record(2, record(1, record(2, record(1, b"") * (size // 2)))))),  # noqa: E501
    "untyped inputs": numbered(["graph", "input"], lambda i: record(1, name(i))),
    "untyped initializers": numbered(["graph", "initializer"], lambda i: record(8, name(i))),
    "metadata": numbered(["metadata_props"], lambda i: record(1, name(i)) + record(2, b"v")),
    "one key": repeated(["metadata_props"], record(1, b"k") + record(2, b"v")),
    "opsets": repeated(["opset_import"], b"\x10\x01"),
    "functions of one name": repeated(["functions"], record(1, b"f")),
    "functions that call one another": numbered(
        ["functions"], lambda i: record(1, name(i)) + record(7, record(4, name(i + 1)))
    ),
    "a function that calls itself": lambda size: record(
        25, record(1, b"f") + record(7, record(4, b"f")) * (size // 5)
    ),
    "many functions' inputs": lambda size: record(25, record(4, b"") * (size // 2)),
    "bindings": lambda size: record(20, record(3, record(1, b"k") + record(2, b"v")) * (size // 8)),
    "annotations": repeated(["graph", "quantization_annotation"], record(1, b"x") + record(2, record(1, b"k"))),
    "graphs nested": nested([1, 5, 6]),
    "graphs nested thirty deep": nested([1, 5, 6], record(1, node([b"x"], [b"y"])) * 100, 30),
    "types nested": lambda size: record(7, record(11, record(2, nested([4, 1])(size)))),
    "attributes of ints": repeated(["graph", "node", "attribute"], record(8, b"\x01\x02\x03")),
    "ints": lambda size: record(7, record(1, record(5, b"\xa0\x01\x07" + record(8, b"\x01" * size)))),
    "texts": lambda size: record(7, record(1, record(5, record(9, b"") * (size // 2)))),
}  # fmt: skip


def _empty_kinds():
    """Every repeated field of messages, however it is reached, with empty elements only."""
    seen = set()
    waiting = [()]
    while waiting:
        path = waiting.pop(0)
        _, descriptor = fields(*path)
        for field in (descriptor or ModelProto.DESCRIPTOR).fields if not path or descriptor else ():
            if field.message_type is None or len(path) > 4:
                continue
            if field.is_repeated and field.full_name not in seen:
                seen.add(field.full_name)
                MODELS[f"empty {'.'.join([*path, field.name])}"] = repeated([*path, field.name])
            if field.message_type.full_name not in seen:
                seen.add(field.message_type.full_name)
                waiting.append((*path, field.name))


_empty_kinds()


# What is done to them.


def loaded(act):
    """A call on the loaded model; what it gives that is text counts by its length."""

    def call(path, folder):
        with onnxwire.load(path) as model:
            given = act(model)
        return len(given) if isinstance(given, str) else given if isinstance(given, int) else 0

    return call


def edited(act):
    """A call that edits the loaded model; what it has then counts too."""
    return loaded(lambda model: (act(model), model.ByteSize())[1])


def exhaust(iterable):
    for _ in iterable:
        pass


def command(*words):
    """A command; PATH and OUT stand for the model and for a file to write."""

    def call(path, folder):
        out = os.path.join(folder, "out")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                cli.main([word.replace("PATH", path).replace("OUT", out) for word in words])
            except SystemExit as end:
                assert end.code in (0, 2), end

    return call


def first_output(model):
    """A value of the main graph: the last that there is, else "x"."""
    return next((n for node in reversed(model.graph.node) for n in node.output if n), "x")


def first_input(model):
    """A value that a node of the main graph takes, or an input of the model, else "x"."""
    names = (n for node in model.graph.node for n in node.input if n)
    return next(names, None) or next((value.name for value in model.graph.input), "x")


def edit_copy(model):
    other = copy.deepcopy(model)
    other.graph.name = "edited"
    for index in range(0, len(other.graph.node), 100):
        other.graph.node[index].name = "edited"
    other.SerializeToString()


def diff_with_nothing(model):
    exhaust(onnxwire.diff(model, ModelProto()))
    exhaust(onnxwire.diff(ModelProto(), model))


def diff_with_edited(model):
    other = copy.deepcopy(model)
    other.graph.node.add(op_type="New")
    del other.graph.node[:1], other.graph.initializer[:1], other.graph.input[:1]
    exhaust(onnxwire.diff(model, other))


def around(model):
    queries = Queries(model)
    for index in {0, len(model.graph.node) // 2, len(model.graph.node) - 1}:
        queries.around(f"graph.node[{index}]", 6)


def to_npz(model, folder):
    tensors = {str(i): tensor for i, tensor in zip(range(200), model.graph.initializer, strict=False)}
    onnxwire.to_npz(tensors, os.path.join(folder, "out.npz"))


def with_folder(act):
    def call(path, folder):
        with onnxwire.load(path) as model:
            act(model, folder)

    return call


def from_text(model):
    text = onnxwire.to_text(model)
    onnxwire.from_text(text, ModelProto)
    return text


def from_json(model):
    text = onnxwire.to_json(model)
    onnxwire.from_json(text, ModelProto)
    return text


def edit_names(model):
    """Edit each node and tensor."""
    for element in itertools.chain(model.graph.node, model.graph.initializer):
        element.name = "edited"


def to_arrow(model, table):
    copied = pyarrow.table(onnxwire.to_arrow(model, table, strings="utf8"))
    pyarrow.table(onnxwire.to_arrow(model, table))
    return copied.nbytes


def edited_to_arrow(model):
    edit_names(model)
    return to_arrow(model, "nodes") + model.ByteSize()


def catalog(path, folder):
    tables = read_models(Task((path,), True, True)).tables
    assert tables.keys() == {"failures"} or "failures" not in tables
    return sum(table.nbytes for table in tables.values())


def walk_identical(model):
    """Look at nodes as `dropin` has them, where a message that is held has one view."""
    keep_identity(True)
    for node in model.graph.node:
        assert model.graph.node[0] is not None
        exhaust(node.attribute)
    model.graph.ListFields()


CALLS = {
    "verify": lambda path, folder: onnxwire.verify(path),
    "size and bytes": loaded(lambda model: (model.ByteSize(), model.SerializeToString())),
    "deterministic": loaded(lambda model: model.SerializeToString(deterministic=True)),
    "equal": loaded(lambda model: model == copy.deepcopy(model)),
    "merge": loaded(lambda model: ModelProto().MergeFrom(model)),
    "edit a copy": loaded(edit_copy),
    "list fields": loaded(lambda model: (model.ListFields(), model.graph.ListFields())),
    "tensors": lambda path, folder: exhaust(onnxwire.tensors(path)),
    "find tensors": loaded(lambda model: exhaust(find_tensors(model))),
    "to_text": loaded(onnxwire.to_text),
    "to_json": loaded(onnxwire.to_json),
    "summarize": loaded(summarize),
    "rename values": edited(lambda model: onnxwire.rename_values(model, {first_output(model): "new name"})),
    "rename what all take": edited(lambda model: onnxwire.rename_values(model, {first_input(model): "new name"})),
    "rename nodes": edited(lambda model: onnxwire.rename_nodes(model, {"n": "new name"})),
    "rename nothing": edited(lambda model: onnxwire.rename_values(model, {"nosuch": "new name"})),
    "extract": loaded(lambda model: onnxwire.extract(model, None, [first_output(model)])),
    "extract all inputs": loaded(
        lambda model: onnxwire.extract(model, [v.name for v in model.graph.input], [first_output(model)])
    ),
    "extract initializers": loaded(
        lambda model: onnxwire.extract(model, [v.name for v in model.graph.initializer], [first_output(model)])
    ),
    "diff with nothing": loaded(diff_with_nothing),
    "diff with an edited one": loaded(diff_with_edited),
    "path": loaded(lambda model: resolve(model, "node:nosuch")),
    "statistics": loaded(measure_all),
    "npz": with_folder(to_npz),
    "page: around": loaded(around),
    "page: outline": loaded(lambda model: Queries(model).outline()),
    "page: summary": loaded(lambda model: Queries(model).summary()),
    "save": with_folder(lambda model, folder: onnxwire.save(model, os.path.join(folder, "saved"))),
    "from_text": loaded(from_text),
    "from_json": loaded(from_json),
    "str": loaded(str),
    "apply": loaded(lambda model: onnxwire.apply(model, edit_names, form="onnxwire")),
    "apply to bytes": loaded(lambda model: onnxwire.apply(model, lambda data: data, form="bytes")),
    **{f"arrow: {table}": loaded(lambda model, table=table: to_arrow(model, table)) for table in TABLES},
    "arrow of an edited one": loaded(edited_to_arrow),
    "catalog": catalog,
    "one view a message": loaded(walk_identical),
    "check": loaded(lambda model: exhaust(onnxwire.check(model))),
    "check command": command("check", "PATH"),
    "check --fix": command("check", "PATH", "--fix", "-o", "OUT"),
    "ls": command("ls", "PATH"),
    "ls nodes": command("ls", "PATH", "--nodes"),
    "ls values": command("ls", "PATH", "--values"),
    "ls tree": command("ls", "PATH", "--tree"),
    "stats": command("stats", "PATH"),
    "info": command("info", "PATH"),
    "raw": command("info", "PATH", "--raw"),
    "show": command("show", "PATH", "graph"),
    "dump": command("dump", "PATH"),
    "set": command("set", "PATH", "graph.name=new", "-o", "OUT"),
    "rm": command("rm", "PATH", "graph.node[0]", "-o", "OUT"),
    "meta": command("meta", "PATH"),
    "diff": command("diff", "PATH", "PATH"),
    "ls inputs": command("ls", "PATH", "--inputs"),
    "pack": command("pack", "PATH", "-o", "OUT"),
    "unpack": command("unpack", "PATH", "-o", "OUT", "--threshold", "1"),
}


# The cost of a call, in a process of its own.


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def peak():
    with open("/proc/self/status") as file:
        return int(next(line for line in file if line.startswith("VmHWM")).split()[1]) << 10


def round_time():
    """Seconds of processor time that a round of an empty loop takes."""
    best = 1.0
    for _ in range(5):
        start = time.process_time()
        for _ in range(300_000):
            pass
        best = min(best, (time.process_time() - start) / 300_000)
    return best


def cost(call, path, size, round_seconds):
    """Run a call in a child.

    Returns its peak memory beyond the start, its rounds of a loop, the bytes that it gave, and the fault or "".
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        status = 1
        try:
            limit = int(_KILL * (ROUNDS * size + SLACK) * round_seconds) + 60  # what it gives is not known yet
            resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
            signal.alarm(10 * limit)  # for one that waits
            with open("/proc/self/statm") as file:
                used = int(file.read().split()[0]) * resource.getpagesize()
            most = used + 1000 * size + 512 * MEGABYTE
            resource.setrlimit(resource.RLIMIT_AS, (most, most))
            fault = ""
            with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile(dir=folder) as printed:
                os.dup2(printed.fileno(), 1)
                os.dup2(printed.fileno(), 2)
                given = 0
                gc.collect()
                gc.freeze()
                with contextlib.suppress(OSError), open("/proc/self/clear_refs", "w") as file:
                    file.write("5")
                before, start = resident(), time.process_time()
                try:
                    given = call(path, folder) or 0
                except Error:
                    pass
                except BaseException as error:
                    index = traceback.extract_tb(error.__traceback__)[-1]
                    fault = f"{type(error).__name__}: {str(error)[:200]} ({os.path.basename(index.filename)}:{index.lineno})"  # noqa: E501
                seconds = time.process_time() - start
                most = peak() - before
                sys.stdout.flush()
                given += os.fstat(1).st_size
            os.write(writing, f"{max(most, 0)}\n{int(seconds / round_seconds)}\n{given}\n{fault}".encode())
            status = 0
        finally:
            os._exit(status)
    os.close(writing)
    with open(reading, "rb") as file:
        answer = file.read().decode()
    _, status = os.waitpid(child, 0)
    if not answer:
        return (
            0,
            0,
            0,
            f"ended by signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else "ended without an answer",
        )
    memory, rounds, given, fault = answer.split("\n", 3)
    return int(memory), int(rounds), int(given), fault


def warm(path, calls):
    """Import what calls need, so that it is there before they are measured."""
    out = os.open(os.devnull, os.O_RDWR)
    kept = os.dup(1), os.dup(2)
    os.dup2(out, 1)
    os.dup2(out, 2)
    try:
        with tempfile.TemporaryDirectory() as folder:
            for call in calls.values():
                with contextlib.suppress(Error):
                    call(path, folder)
            sys.stdout.flush()
    finally:
        os.dup2(kept[0], 1)
        os.dup2(kept[1], 2)
        for one in (out, *kept):
            os.close(one)


def run(size, slack, models=None, calls=None, report=None):
    """Run calls on models; returns a line for each that does not keep to the limits."""
    models, calls = MODELS if models is None else models, CALLS if calls is None else calls
    small = Path(__file__).parent.parent / "examples" / "digits_cnn.onnx"
    warm(str(small), calls)
    seconds = round_time()
    faults = []
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "hostile.onnx")
        for kind, make in models.items():
            data = make(size)
            with open(path, "wb") as file:
                file.write(data)
            for label, call in calls.items():
                memory, rounds, given, fault = cost(call, path, len(data), seconds)
                n = len(data) + given
                limits = 30 * n + slack, ROUNDS * n + SLACK
                if not fault and rounds > limits[1]:
                    # Another process may have taken the cache, or the core: once more.
                    memory, rounds, given, fault = cost(call, path, len(data), seconds)
                if not fault and memory > limits[0]:
                    fault = f"{memory / MEGABYTE:.0f} MB, {memory / max(n, 1):.0f} times what it was given and gave"
                if not fault and rounds > limits[1]:
                    fault = f"{rounds * seconds:.1f} s, {rounds / max(n, 1):,.0f} rounds for each byte"
                if fault:
                    faults.append(f"{kind}: {label}: {fault}")
                if report is not None:
                    report(kind, label, memory, rounds, fault)
    return faults


def run_pairs(size, slack, pairs):
    """Run some calls on some models, both by their names; returns a line for each that does not keep to the limits."""
    faults = []
    for kind, labels in pairs.items():
        faults += run(size, slack, {kind: MODELS[kind]}, {label: CALLS[label] for label in labels})
    return faults


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bytes", type=int, default=2_000_000)
    parser.add_argument("--models", default="")
    parser.add_argument("--calls", default="")
    options = parser.parse_args()
    faults = run(
        options.bytes,
        64 * MEGABYTE,
        {kind: make for kind, make in MODELS.items() if options.models in kind},
        {label: call for label, call in CALLS.items() if options.calls in label},
        lambda kind, label, memory, rounds, fault: fault and print(f"{kind}: {label}: {fault}", flush=True),
    )
    print(f"{len(faults)} calls beyond the limits")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
