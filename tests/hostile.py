"""Measure the memory and time of calls and commands on hostile models and texts, each in its own process.

`hostile_models.py` makes a file of n bytes. A call on that file must return or raise an onnxwire error within two
limits, which do not apply to FOREIGN_CALLS. The memory of the call, beyond that of the process before it, is at most
30 n + 64 MiB (in most tests 30 n + 16 MiB). The time is at most that of 100 n + 20,000,000 iterations ("rounds") of an
empty Python loop: 10.4 seconds for 5 MB if a round takes 20 ns. Printed text, and output whose size a call returns,
count towards n, like input. The tests check memory, and the instructions of calls in one process (`count_pairs`). Run
as a script, this module measures memory and time, and prints each violation:

    python tests/hostile.py --bytes 2000000
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import functools
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

from hostile_models import JSONS, MODELS, TEXTS

import onnxwire
from onnxwire import ModelProto, cli
from onnxwire.analysis.paths import resolve
from onnxwire.analysis.statistics import measure_all
from onnxwire.analysis.summary import summarize
from onnxwire.arrow.tables import TABLES
from onnxwire.engine.view import keep_identity
from onnxwire.errors import Error
from onnxwire.io.tensor_list import find_tensors
from onnxwire.viewer.queries import Queries

MIB = 1 << 20  # bytes
ROUNDS_PER_BYTE = 100  # maximum number of iterations of an empty loop per byte
BASE_ROUNDS = 20_000_000  # number of rounds that every call may use in addition
_KILL_FACTOR = 10  # a call is killed after this multiple of the time limit for its input, plus a minute
_COUNTED_ROUNDS = 10_000  # the number of rounds that `count_pairs` executes to count the instructions of a round
DIGITS = Path(__file__).parent.parent / "examples" / "digits_cnn.onnx"


# --- calls on models
#
# A call is a function of the path of a file and a folder for output. It returns the size of its output without printed
# text, in bytes or characters; 0 or None if there is none. `count_bytes` uses the size of the files in the
# folder if it is larger.


def model_call(function):
    """Return a call of `function` on the loaded model. The size of the output is the int that `function` returns, the
    length of the str that it returns, or 0."""

    def call(path, folder):
        with onnxwire.load(path) as model:
            result = function(model)
        return len(result) if isinstance(result, str) else result if isinstance(result, int) else 0

    return call


def edit_call(function):
    """Return a call that edits the loaded model. The size of the edited model counts as its output."""
    return model_call(lambda model: (function(model), model.ByteSize())[1])


def exhaust(iterable):
    """Iterate to the end."""
    for _ in iterable:
        pass


def command_call(*words):
    """Return a call of a command; PATH and OUT become the paths of the input file and of an output file. The size of
    the latter counts as output."""

    def call(path, folder):
        out = os.path.join(folder, "out")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                cli.main([word.replace("PATH", path).replace("OUT", out) for word in words])
            except SystemExit as end:
                assert end.code in (0, 2), end
        return os.path.getsize(out) if os.path.isfile(out) else 0

    return call


def last_output(model):
    """Return an output of the last node of the main graph that has one, or "x" if there is none."""
    return next((n for node in reversed(model.graph.node) for n in node.output if n), "x")


def first_input(model):
    """Return an input of a node of the main graph, or an input of the model, or "x"."""
    names = (n for node in model.graph.node for n in node.input if n)
    return next(names, None) or next((value.name for value in model.graph.input), "x")


def edit_copy(model):
    """Copy a model, edit every hundredth node of the copy, and encode the copy."""
    copied_model = copy.deepcopy(model)
    copied_model.graph.name = "edited"
    for index in range(0, len(copied_model.graph.node), 100):
        copied_model.graph.node[index].name = "edited"
    copied_model.SerializeToString()


def count_chars(differences):
    """Return the number of characters in all texts of differences."""
    return sum(
        len(text)
        for difference in differences
        for text in (difference.path, difference.name, difference.part, difference.old, difference.new)
        if text
    )


def diff_with_nothing(model):
    """Compare a model with an empty model in both directions; return the number of characters of the differences."""
    return count_chars(onnxwire.diff(model, ModelProto())) + count_chars(onnxwire.diff(ModelProto(), model))


def diff_by_structure(model):
    """Match a model with a copy that has one more node; return the total size of differences and model."""
    edited_model = ModelProto()
    edited_model.CopyFrom(model)
    edited_model.graph.node.add(op_type="Added", output=["added"])
    return count_chars(onnxwire.diff(model, edited_model, match="structure")) + model.ByteSize()


def diff_with_edited(model):
    """Compare a model with a copy that lacks its first node, initializer and input, and has an additional last node.

    Returns the number of characters of the differences.
    """
    edited_model = copy.deepcopy(model)
    edited_model.graph.node.add(op_type="New")
    del edited_model.graph.node[:1], edited_model.graph.initializer[:1], edited_model.graph.input[:1]
    return count_chars(onnxwire.diff(model, edited_model))


def query_neighbours(model):
    """Query the neighbourhood of the first, middle and last node, as the page does."""
    queries = Queries(model)
    for index in {0, len(model.graph.node) // 2, len(model.graph.node) - 1}:
        queries.around(f"graph.node[{index}]", 6)


def to_npz(model, folder):
    """Write at most 200 initializers of a model to an .npz file."""
    tensors = {str(i): tensor for i, tensor in zip(range(200), model.graph.initializer, strict=False)}
    onnxwire.to_npz(tensors, os.path.join(folder, "out.npz"))


def folder_call(function):
    """Return a call of `function` on the loaded model and an output folder."""

    def call(path, folder):
        with onnxwire.load(path) as model:
            function(model, folder)

    return call


def from_text(model):
    """Print a model and parse the text; return the text."""
    text = onnxwire.to_text(model)
    onnxwire.from_text(text, ModelProto)
    return text


def from_json(model):
    """Write a model as JSON and parse the JSON; return the JSON."""
    text = onnxwire.to_json(model)
    onnxwire.from_json(text, ModelProto)
    return text


def edit_names(model):
    """Rename each node and initializer."""
    for element in itertools.chain(model.graph.node, model.graph.initializer):
        element.name = "edited"


# DuckDB, obstore and pyarrow are imported where they are used: valgrind needs seconds for each.


def to_arrow(model, table):
    """Export a table with string views and with copied strings; return the size of the latter table in bytes."""
    import pyarrow

    table_with_strings = pyarrow.table(onnxwire.to_arrow(model, table, strings="utf8"))
    pyarrow.table(onnxwire.to_arrow(model, table))
    return table_with_strings.nbytes


def edited_to_arrow(model):
    """Rename all nodes and initializers, and export the nodes; return the size of the table and of the model."""
    edit_names(model)
    return to_arrow(model, "nodes") + model.ByteSize()


def catalog(path, folder):
    """Read a model for a catalog, with all tables; return their size in bytes."""
    from onnxwire.catalog.read import Task, read_models

    result = read_models(Task((path,), True, True))
    assert [*result.outcomes] == [path]
    return sum(table.nbytes for table in result.tables.values())


def query_call(text):
    """Return a call that queries a model's tables. The length of the results counts as its output."""

    def call(path, folder):
        import duckdb

        with contextlib.suppress(duckdb.OutOfMemoryException):  # the address space of the process is limited
            return sum(len(str(cell)) for row in onnxwire.sql(path, text).fetchall() for cell in row)

    return call


def store_of(folder):
    """Return an object store in a folder, to run the code for servers without the latency of a network."""
    import obstore.store

    return obstore.store.LocalStore(folder)


def load_from_store(path, folder):
    """Load a model from an object store; list its tensors and nodes."""
    with onnxwire.load(os.path.basename(path), store=store_of(os.path.dirname(path))) as model:
        exhaust(onnxwire.tensors(model))
        exhaust(model.graph.node)


def save_to_store(path, folder):
    with onnxwire.load(path) as model:
        onnxwire.save(model, "saved", store=store_of(folder))


def foreign_call(function):
    """Return a call of `function`, which calls another package, on the loaded model and an output folder. The call
    ignores errors."""

    def call(path, folder):
        with contextlib.suppress(Exception), onnxwire.load(path) as model:
            function(model, folder)

    return call


def to_safetensors(model, folder):
    onnxwire.to_safetensors(model, os.path.join(folder, "out.safetensors"))


def walk_with_identity(model):
    """Read nodes with one view per message, as programs with `onnxwire.dropin` do."""
    keep_identity(True)
    for node in model.graph.node:
        assert model.graph.node[0] is not None
        exhaust(node.attribute)
    model.graph.ListFields()


CALLS = {
    "verify": lambda path, folder: onnxwire.verify(path),
    "size and bytes": model_call(lambda model: (model.ByteSize(), model.SerializeToString())),
    "deterministic": model_call(lambda model: model.SerializeToString(deterministic=True)),
    "equal": model_call(lambda model: model == copy.deepcopy(model)),
    "merge": model_call(lambda model: ModelProto().MergeFrom(model)),
    "edit a copy": model_call(edit_copy),
    "list fields": model_call(lambda model: (model.ListFields(), model.graph.ListFields())),
    "tensors": lambda path, folder: exhaust(onnxwire.tensors(path)),
    "find tensors": model_call(lambda model: exhaust(find_tensors(model))),
    "to_text": model_call(onnxwire.to_text),
    "to_json": model_call(onnxwire.to_json),
    "summarize": model_call(summarize),
    "rename values": edit_call(lambda model: onnxwire.rename_values(model, {last_output(model): "new name"})),
    "rename an input of all nodes": edit_call(
        lambda model: onnxwire.rename_values(model, {first_input(model): "new name"})
    ),
    "rename nodes": edit_call(lambda model: onnxwire.rename_nodes(model, {"n": "new name"})),
    "rename nothing": edit_call(lambda model: onnxwire.rename_values(model, {"nosuch": "new name"})),
    "extract": model_call(lambda model: onnxwire.extract(model, None, [last_output(model)])),
    "extract all inputs": model_call(
        lambda model: onnxwire.extract(model, [v.name for v in model.graph.input], [last_output(model)])
    ),
    "extract initializers": model_call(
        lambda model: onnxwire.extract(model, [v.name for v in model.graph.initializer], [last_output(model)])
    ),
    "diff with nothing": model_call(diff_with_nothing),
    "diff with an edited copy": model_call(diff_with_edited),
    "diff by structure": model_call(diff_by_structure),
    "path": model_call(lambda model: resolve(model, "node:nosuch")),
    "statistics": model_call(measure_all),
    "npz": folder_call(to_npz),
    "page: around": model_call(query_neighbours),
    "page: map": model_call(lambda model: Queries(model).map()),
    "page: outline": model_call(lambda model: Queries(model).outline()),
    "page: summary": model_call(lambda model: Queries(model).summary()),
    "save": folder_call(lambda model, folder: onnxwire.save(model, os.path.join(folder, "saved"))),
    "from_text": model_call(from_text),
    "from_json": model_call(from_json),
    "str": model_call(str),
    "apply": model_call(lambda model: onnxwire.apply(model, edit_names, form="onnxwire").ByteSize()),
    "apply to bytes": model_call(lambda model: onnxwire.apply(model, lambda data: data, form="bytes")),
    **{f"arrow: {table}": model_call(lambda model, table=table: to_arrow(model, table)) for table in TABLES},
    "arrow of an edited model": model_call(edited_to_arrow),
    "catalog": catalog,
    "sql": query_call("select count(*), max(path) from tensors"),
    "sql of nodes": query_call("select op_type, count(*) from nodes group by all order by all"),
    "load from a store": load_from_store,
    "save to a store": save_to_store,
    "to_onnx": foreign_call(lambda model, folder: onnxwire.to_onnx(model)),
    "check_official": foreign_call(lambda model, folder: onnxwire.check_official(model)),
    "infer_shapes": foreign_call(lambda model, folder: onnxwire.infer_shapes(model)),
    "convert_version": foreign_call(lambda model, folder: onnxwire.convert_version(model, 21)),
    "inference_session": foreign_call(lambda model, folder: onnxwire.inference_session(model)),
    "to_ir": foreign_call(lambda model, folder: onnxwire.from_ir(onnxwire.to_ir(model))),
    "optimize": foreign_call(lambda model, folder: onnxwire.optimize(model, tool="onnxoptimizer")),
    "safetensors": folder_call(to_safetensors),
    "read with one view per message": model_call(walk_with_identity),
    "check": model_call(lambda model: exhaust(onnxwire.check(model))),
    "check untrusted": model_call(lambda model: exhaust(onnxwire.check(model, untrusted=True))),
    "check command": command_call("check", "PATH"),
    "check --fix": command_call("check", "PATH", "--fix", "-o", "OUT"),
    "check --fix quietly": command_call("check", "PATH", "--fix", "-q", "-o", "OUT"),
    "ls": command_call("ls", "PATH"),
    "ls nodes": command_call("ls", "PATH", "--nodes"),
    "ls values": command_call("ls", "PATH", "--values"),
    "ls tree": command_call("ls", "PATH", "--tree"),
    "stats": command_call("stats", "PATH"),
    "info": command_call("info", "PATH"),
    "raw": command_call("info", "PATH", "--raw"),
    "show": command_call("show", "PATH", "graph"),
    "dump": command_call("dump", "PATH"),
    "set": command_call("set", "PATH", "graph.name=new", "-o", "OUT"),
    "rm": command_call("rm", "PATH", "graph.node[0]", "-o", "OUT"),
    "meta": command_call("meta", "PATH"),
    "diff": command_call("diff", "PATH", "PATH"),
    "ls inputs": command_call("ls", "PATH", "--inputs"),
    "pack": command_call("pack", "PATH", "-o", "OUT"),
    "unpack": command_call("unpack", "PATH", "-o", "OUT", "--threshold", "1"),
}


FOREIGN_CALLS = {
    "sql": "DuckDB caches blocks, up to a share of the machine's memory",
    "sql of nodes": "as sql",
    "to_onnx": "protobuf has an object for each message: about a hundred bytes for an empty one",
    "check_official": "onnx's C++ has an object for each message, and its own passes",
    "infer_shapes": "as check_official",
    "convert_version": "as check_official",
    "inference_session": "onnxruntime has its own object for each node and tensor",
    "to_ir": "onnx-ir has its own object for each node and value",
    "optimize": "onnxoptimizer uses onnx's C++ (onnxslim is not called: it is quadratic in the number of functions)",
    "load from a store": "obstore has its own threads and buffers",
    "save to a store": "as load from a store",
}
"""Calls whose memory and time another package determines, with the reason. The limits do not apply to them."""


THREADED_CALLS = {"sql", "sql of nodes", "load from a store", "save to a store", "inference_session"}
"""Calls that start threads of another package, so `run_once` skips these calls: the threads would not exist in a fork
of this process, and a lock of the allocator that a thread holds during the fork would never be released. `run` allows
them more address space: each thread reserves some, and DuckDB's allocator ends the process if none is left."""


def parse_call(parse, **options):
    """Return a call that parses a text file."""

    def call(path, folder):
        with open(path, "rb") as file:
            parse(file, ModelProto, **options)

    return call


def parse_str(path, folder):
    """Parse a text file as a str."""
    onnxwire.from_text(Path(path).read_text("latin-1"), ModelProto)


TEXT_CALLS = {
    "from_text": parse_call(onnxwire.from_text),
    "from_text, unknown fields ignored": parse_call(onnxwire.from_text, ignore_unknown=True),
    "from_text of a str": parse_str,
    "encode": command_call("encode", "PATH", "-o", "OUT"),
}

JSON_CALLS = {
    "from_json": parse_call(onnxwire.from_json),
    "from_json, unknown fields ignored": parse_call(onnxwire.from_json, ignore_unknown=True),
    "encode --json": command_call("encode", "PATH", "--json", "-o", "OUT"),
}

KINDS = {"model": (MODELS, CALLS), "text": (TEXTS, TEXT_CALLS), "json": (JSONS, JSON_CALLS)}
"""Kind of file → (functions that make files, calls that read them)."""


# --- the cost of a call, in a child process


def resident_bytes():
    """Return the resident memory of this process."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def peak_bytes():
    """Return the maximum of the resident memory of this process."""
    with open("/proc/self/status") as file:
        return int(next(line for line in file if line.startswith("VmHWM")).split()[1]) << 10


@functools.cache
def round_time():
    """Return the processor time of one round of an empty loop, in seconds."""
    min_seconds = 1.0
    for _ in range(5):
        start = time.process_time()
        for _ in range(300_000):
            pass
        min_seconds = min(min_seconds, (time.process_time() - start) / 300_000)
    return min_seconds


def measure(call, path, size, round_seconds, address_space):
    """Measure the cost of a call in a child process.

    size: that of the file, in bytes. round_seconds: the processor time of a round. address_space: bytes by which the
    call may increase the address space, in addition to 1,000 for each byte of the file.

    Returns the peak memory in bytes beyond that before the call, the processor time in rounds, the bytes of output, and
    a text that describes an unexpected error or end of the process, or "".
    """
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read_end)
        status = 1
        try:
            # The size of the output is unknown before the call, so the limit is that of the input times a factor.
            max_seconds = int(_KILL_FACTOR * (ROUNDS_PER_BYTE * size + BASE_ROUNDS) * round_seconds) + 60
            resource.setrlimit(resource.RLIMIT_CPU, (max_seconds, max_seconds))
            signal.alarm(10 * max_seconds)  # a call that waits uses no processor time
            with open("/proc/self/statm") as file:
                used_bytes = int(file.read().split()[0]) * resource.getpagesize()
            max_bytes = used_bytes + 1000 * size + address_space
            resource.setrlimit(resource.RLIMIT_AS, (max_bytes, max_bytes))
            fault = ""
            with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile(dir=folder) as output_file:
                os.dup2(output_file.fileno(), 1)
                os.dup2(output_file.fileno(), 2)
                n_output = 0
                gc.collect()
                gc.freeze()
                with contextlib.suppress(OSError), open("/proc/self/clear_refs", "w") as file:
                    file.write("5")  # resets VmHWM to the current resident memory
                bytes_before, start = resident_bytes(), time.process_time()
                try:
                    n_output = call(path, folder) or 0
                except Error:
                    pass
                except BaseException as error:
                    frame = traceback.extract_tb(error.__traceback__)[-1]
                    source_line = f"{os.path.basename(frame.filename)}:{frame.lineno}"
                    fault = f"{type(error).__name__}: {str(error)[:200]} ({source_line})"
                seconds = time.process_time() - start
                peak_growth = peak_bytes() - bytes_before
                sys.stdout.flush()
                n_output += os.fstat(1).st_size
            os.write(write_end, f"{max(peak_growth, 0)}\n{int(seconds / round_seconds)}\n{n_output}\n{fault}".encode())
            status = 0
        finally:
            os._exit(status)
    os.close(write_end)
    with open(read_end, "rb") as file:
        answer = file.read().decode()
    _, status = os.waitpid(child, 0)
    if not answer:
        return (
            0,
            0,
            0,
            f"ended by signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else "ended without an answer",
        )
    memory, rounds, n_output, fault = answer.split("\n", 3)
    return int(memory), int(rounds), int(n_output), fault


@functools.cache
def run_once(label):
    """Run a call on a small model, so that later measurements do not include the imports of the call.

    No-op for THREADED_CALLS.
    """
    if label not in THREADED_CALLS:
        with (
            tempfile.TemporaryDirectory() as folder,
            tempfile.TemporaryFile() as output_file,
            redirect_output(output_file),
            contextlib.suppress(Error),
        ):
            CALLS[label](str(DIGITS), folder)


class NoPandas:
    """An import finder that hides pandas, whose import by pyarrow takes six seconds under valgrind."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == "pandas":
            raise ModuleNotFoundError(name=name)


def run(size, base_bytes, models, calls, report=None, is_timed=False):
    """Run calls on models; return a line for each call that fails unexpectedly, or exceeds the limit of memory or, if
    `is_timed`, of time.

    size: approximate bytes of a file. base_bytes: bytes of memory that every call may use in addition to 30 per byte.
    models: functions that make files, by name. calls: the calls, by name. report: a function that gets the names
    of the file and the call, the memory in bytes, the rounds and the fault of every call.
    """
    if calls.keys() <= CALLS.keys():
        for label in calls:
            run_once(label)
    seconds = round_time()
    faults = []
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "hostile.onnx")
        for model_name, make in models.items():
            data = make(size)
            with open(path, "wb") as file:
                file.write(data)
            for label, call in calls.items():
                address_space = (4096 if label in THREADED_CALLS else 512) * MIB
                memory, rounds, n_output, fault = measure(call, path, len(data), seconds, address_space)
                n = len(data) + n_output
                limits = 30 * n + base_bytes, ROUNDS_PER_BYTE * n + BASE_ROUNDS
                if is_timed and not fault and rounds > limits[1] and label not in FOREIGN_CALLS:
                    # Another process may have used the cache or the core: measure again.
                    memory, rounds, n_output, fault = measure(call, path, len(data), seconds, address_space)
                if not fault and memory > limits[0] and label not in FOREIGN_CALLS:
                    fault = f"{memory / MIB:.0f} MiB of memory, {memory / max(n, 1):.0f} bytes for each of {n:,} bytes"
                if is_timed and not fault and rounds > limits[1] and label not in FOREIGN_CALLS:
                    fault = f"{rounds * seconds:.1f} s, {rounds / max(n, 1):,.0f} rounds for each of {n:,} bytes"
                if fault:
                    faults.append(f"{model_name}: {label}: {fault}")
                if report is not None:
                    report(model_name, label, memory, rounds, fault)
    return faults


def run_pairs(size, base_bytes, pairs, kind="model"):
    """Run calls on files of a kind; return a line for each call that fails unexpectedly or exceeds the memory limit.

    pairs: the names of the calls, by the name of the file. size, base_bytes: as in `run`.
    """
    sys.meta_path.insert(0, NoPandas)
    files, calls = KINDS[kind]
    faults = []
    for name, labels in pairs.items():
        faults += run(size, base_bytes, {name: files[name]}, {label: calls[label] for label in labels})
    return faults


def make_tasks(kind, pairs, sizes):
    """Return the tasks of `count_pairs` for pairs as in `run_pairs`, each with files of several sizes."""
    return [
        (kind, name, label, [KINDS[kind][0][name](size).decode("latin-1") for size in sizes])
        for name, labels in pairs.items()
        for label in labels
    ]


def count_pairs(count, tasks):
    """Count the instructions of calls on files.

    count: an instruction_counter.Counter. tasks: tuples (kind, name of the files, name of the call, contents as latin-1
    text).

    Returns the instructions of a round of an empty loop, and a dict from "kind: file: call" to lists with a pair for
    each file: the bytes of input and output, and the instructions.
    """
    sys.meta_path.insert(0, NoPandas)
    # Python is ten times as slow once the first instructions have been counted, so import and fill caches first.
    tasks = [(kind, name, label, [text.encode("latin-1") for text in texts]) for kind, name, label, texts in tasks]
    for label in {label: None for _, _, label, _ in tasks if label in CALLS}:
        run_once(label)
    with tempfile.TemporaryDirectory() as folder:
        for kind, _, label, files in tasks:
            count_bytes(KINDS[kind][1][label], files[0], folder)
        with count:
            for _ in range(_COUNTED_ROUNDS):
                pass
        round_cost = count.instructions / _COUNTED_ROUNDS
        points_by_label = {}
        for kind, name, label, files in tasks:
            call = KINDS[kind][1][label]
            points = [(count_bytes(call, data, folder, count), count.instructions) for data in files]
            points_by_label[f"{kind}: {name}: {label}"] = points
    return round_cost, points_by_label


def count_bytes(call, data, folder, context=None):
    """Run a call within a context; return the bytes of its input plus those of its output.

    The output is the larger of two sizes: the returned size plus the printed text, and the files in the folder.
    context: None, or a context manager such as the Counter of instructions. The code around the call is short because
    it is slow under valgrind.
    """
    path, output_folder = os.path.join(folder, "hostile.onnx"), os.path.join(folder, "written")
    os.mkdir(output_folder)
    with open(path, "wb", buffering=0) as file:
        file.write(data)
    with open(os.path.join(folder, "printed"), "w+b") as printed_file, redirect_output(printed_file):
        n_output = 0
        with context or contextlib.nullcontext(), contextlib.suppress(Error):
            n_output = call(path, output_folder) or 0
        sys.stdout.flush()
        n_output += os.fstat(printed_file.fileno()).st_size
    size = 0
    for name in os.listdir(output_folder):
        file = os.path.join(output_folder, name)
        assert os.path.isfile(file)
        size += os.path.getsize(file)
        os.unlink(file)
    os.rmdir(output_folder)
    return len(data) + max(n_output, size)


@contextlib.contextmanager
def redirect_output(file):
    """Redirect stdout and stderr, including those of C code, to a file."""
    copies = os.dup(1), os.dup(2)
    os.dup2(file.fileno(), 1)
    os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        sys.stdout.flush()
        for target, descriptor in enumerate(copies, 1):
            os.dup2(descriptor, target)
            os.close(descriptor)


def main():
    """Measure the calls that the options select; return 1 if one fails unexpectedly or exceeds a limit."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--bytes", type=int, default=2_000_000)
    parser.add_argument("--kind", choices=KINDS, help="only models, or only texts, or only JSON")
    parser.add_argument("--models", default="", help="only files whose name contains this text")
    parser.add_argument("--calls", default="", help="only calls whose name contains this text")
    options = parser.parse_args()
    faults = []
    for kind in [options.kind] if options.kind else KINDS:
        files, calls = KINDS[kind]
        faults += run(
            options.bytes,
            64 * MIB,
            {name: make for name, make in files.items() if options.models in name},
            {label: call for label, call in calls.items() if options.calls in label},
            lambda name, label, memory, rounds, fault: fault and print(f"{name}: {label}: {fault}", flush=True),
            is_timed=True,
        )
    print(f"calls that failed or exceeded a limit: {len(faults)}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
