"""Run random programs of edits with onnxwire and with protobuf, the official runtime: `make fuzz`, and under ASan `make
fuzz-sanitized`.

    python tests/fuzz_edits.py --seconds 600                  programs of new seeds
    python tests/fuzz_edits.py --seed 1 --programs 100        100 programs of each mode, the same in every run
    python tests/fuzz_edits.py --mode lockstep --run FILE     a program from an earlier report

Mode lockstep runs each line in both worlds (see worlds.py), ours and the official one, and compares results and errors,
and at the end the messages that the program does not exclude. Mode identity also compares which variables are the same
object. Mode alone runs our world only, with edits and `close()` also in the middle of other operations; it checks that
only expected errors are raised (ALLOWED_ERRORS) and that the bytes are valid. Mode threads runs a reader and an editor
at the same time.

Programs run in child processes. For each kind of fault, the first program that fails with it is shortened and printed.
"""

from __future__ import annotations

import argparse
import faulthandler
import gc
import os
import random
import re
import resource
import signal
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections import Counter
from functools import partial
from itertools import combinations
from pathlib import Path

sys.path.extend(str(folder) for folder in (Path(__file__).parent, Path(__file__).with_name("engine")))
import wire
from edit_programs import ProgramGenerator
from worlds import DIFFERENCES, PlannedError, Skipped, World, classes

import onnxwire
from onnxwire.engine.view import count_views, keep_identity

MAX_LINES = 70  # maximum number of lines of a program
BATCH_SIZE = 50  # number of programs per process
MAX_SECONDS = 20  # maximum time of one program; five times as much with a sanitizer
MAX_ADDRESS_SPACE = 6 << 30  # bytes; unlimited with a sanitizer
EDITOR_ROUNDS = 20  # number of repetitions of the editor's lines beside a reader
ALLOWED_ERRORS = (onnxwire.Error, PlannedError, StopIteration, Skipped)
IS_SANITIZED = "ONNXWIRE_SANITIZE" in os.environ


class Finding(Exception):
    """A fault. The arguments are its kind, the line, a description, and optionally the types of the results.

    The attribute `kind` adds the function or operator that the line calls, and those types. A shortened program must
    fail with an equal `kind`.
    """

    def __init__(self, kind, line, text, result_types=""):
        super().__init__(f"{kind}: {line}: {text}")
        # Names of methods (after a dot, but not in `M.`, the namespace of classes), and names of functions.
        call_names = re.findall(r"(?<!M)\.(\w+)\(|\b([a-z_]{2,})\(", line)
        call_name = (
            "".join(call_names[-1]) if call_names else " = " if " = " in line else "[]" if "[" in line else "get"
        )
        self.kind = f"{kind} {call_name} {result_types}".strip()


# --- one program
#
# In the functions of the modes, `source` is a Script or a ProgramGenerator, `leader` is the World whose values a
# ProgramGenerator considers when it draws a line, and `trace` is the descriptor of the file to which each line is
# written before it is run.


class Script:
    """The lines of an existing program, with the methods of a ProgramGenerator."""

    def __init__(self, lines):
        self.lines = list(lines)

    def next_line(self, number):
        return self.lines[number] if number < len(self.lines) else None

    def add_new_variable(self):
        pass


def run_lockstep(source, leader, trace):
    """Run the lines in our world and in the official one, which is the leader, and compare results.

    Returns our world, or None if the program was stopped at a known difference.
    """
    gc.disable()  # a Trap of worlds.py must run its callback at the same line in both worlds
    our_world, official = World(is_ours=True), leader
    for line in trace_lines(source, trace):
        contents_before = our_world.contents(), official.contents()
        our_result, official_result = our_world.run(line), official.run(line)
        if not isinstance(official_result, Exception):
            source.add_new_variable()
        if our_result is Skipped or official_result is Skipped:
            continue
        if isinstance(official_result, UnicodeDecodeError) and not isinstance(our_result, UnicodeDecodeError):
            return None  # see `text` of DIFFERENCES
        compare(line, our_result, official_result)
        if isinstance(our_result, Exception):
            if our_world.contents() != contents_before[0]:
                raise Finding("partly changed", line, repr(our_result), type(our_result).__name__)
            if official.contents() != contents_before[1]:
                return None  # see `rollback` of DIFFERENCES
    for name in our_world.variable_names():
        if (
            name in official.names
            and name not in our_world.excluded_names
            and isinstance(our_world.names[name], onnxwire.Message)
        ):
            compare(f"read_all({name})", *(world.run(f"read_all({name})") for world in (our_world, official)))
            line = f"check_encodings({name})"
            compare(line, *(world.run(line) for world in (our_world, official)))
    return our_world


def run_identity(source, leader, trace) -> None:
    """Run in lockstep with one view per message; compare which variables are the same object, and check that released
    views are not registered."""
    keep_identity(True)
    our_world = run_lockstep(source, leader, trace)
    if our_world is None:
        return
    names = [
        name
        for name in our_world.variable_names()
        if name in leader.names
        and name not in our_world.excluded_names
        and isinstance(our_world.names[name], onnxwire.Message)
    ]
    for first_name, second_name in combinations(names, 2):
        line = f"{first_name} is {second_name}"
        if (our_world.names[first_name] is our_world.names[second_name]) != (
            leader.names[first_name] is leader.names[second_name]
        ):
            raise Finding("differs", line, f"{our_world.names[first_name] is our_world.names[second_name]} in ours")
    n_views = len({id(value) for value in our_world.names.values() if isinstance(value, onnxwire.Message)})
    our_world.names.clear()
    our_world = None
    gc.collect()
    if count_views() >= n_views > 0:
        raise Finding("leaked", "", f"number of views that are registered without a reference: {count_views()}")


def compare(line, our_result, official_result) -> None:
    """Raise a Finding if the results of a line differ."""
    our_value, official_value = (
        wire.result_or_error(wire.as_comparable, our_result),
        wire.result_or_error(wire.as_comparable, official_result),
    )
    if (
        isinstance(our_value, wire.Raised)
        and not isinstance(official_value, wire.Raised)
        and isinstance(our_result, AssertionError)
    ):
        raise Finding("failed check", line, str(our_result))
    if official_value != our_value:
        official_text, our_text = repr(official_value), repr(our_value)
        difference_index = next((i for i, (x, y) in enumerate(zip(official_text, our_text, strict=False)) if x != y), 0)
        excerpts = [
            text[max(0, difference_index - 150) : difference_index + 250] if len(text) > 400 else text
            for text in (official_text, our_text)
        ]
        type_names = [
            type(value).__name__ if isinstance(value, Exception) else "a value"
            for value in (official_result, our_result)
        ]
        raise Finding(
            "differs", line, f"\n#   official {excerpts[0]}\n#   ours     {excerpts[1]}", ", ours ".join(type_names)
        )


def run_alone(source, leader, trace) -> None:
    """Run lines in our world only, with very frequent garbage collections."""
    gc.set_threshold(7, 2, 2)
    for line in trace_lines(source, trace):
        result = leader.run(line)
        if not isinstance(result, Exception):
            source.add_new_variable()
        check_own_result(line, result)
    gc.disable()
    for name in leader.variable_names():
        if isinstance(leader.names[name], onnxwire.Message):
            check_own_result(f"check_encodings({name})", leader.run(f"check_encodings({name})"))
        leader.run(f"peek({name})")


def run_threads(source, leader, trace) -> None:
    """Run lines in our world, then the lines that start with `reader: ` and `editor: `, repeatedly, in two threads."""
    lines_of_role = {"reader": [], "editor": []}
    for line in trace_lines(source, trace):
        role, has_role, program_line = line.partition(": ")
        if has_role and role in lines_of_role:
            lines_of_role[role].append(program_line)
            continue
        result = leader.run(line)
        if not isinstance(result, Exception):
            source.add_new_variable()
        check_own_result(line, result)
    errors, is_over = [], threading.Event()

    def run_role(role):
        """Run the lines of the editor EDITOR_ROUNDS times, or those of the reader until the editor has finished."""
        world = leader.copy()
        try:
            while not is_over.is_set():
                for _ in range(EDITOR_ROUNDS if role == "editor" else 1):
                    for line in lines_of_role[role]:
                        check_own_result(line, world.run(line))
                        if is_over.is_set():
                            return
                if role == "editor":
                    is_over.set()
        except BaseException as error:
            errors.append(error)
            is_over.set()

    sys.setswitchinterval(1e-6)
    workers = [threading.Thread(target=run_role, args=(role,)) for role in lines_of_role]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    for error in errors:
        raise error
    for name in leader.variable_names():
        leader.run(f"peek({name})")


def check_own_result(line, result) -> None:
    """Raise a Finding if a line raised an error that onnxwire must not raise."""
    if isinstance(result, AssertionError):
        raise Finding("failed check", line, str(result))
    if isinstance(result, Exception) and not isinstance(result, ALLOWED_ERRORS) and not is_python_error(result):
        description = "".join(traceback.format_exception_only(result)).strip()
        raise Finding("unexpected error", line, description, type(result).__name__)


def is_python_error(error) -> bool:
    """Return whether Python raises the error without a call of onnxwire, as for an unhashable key of a dict."""
    return isinstance(error, TypeError) and "unhashable" in str(error)


def trace_lines(source, trace):
    """Yield the lines of a source; write each to the trace file first."""
    number = 0
    while (line := source.next_line(number)) is not None:
        os.write(trace, line.encode("utf-8", "surrogatepass") + b"\n")
        yield line
        number += 1


MODES = {"lockstep": run_lockstep, "identity": run_identity, "alone": run_alone, "threads": run_threads}


def run_program(mode, seed, lines, trace) -> None:
    """Run one program: the given lines, or, if `lines` is None, a program drawn from the seed."""
    is_compared = mode in ("lockstep", "identity")  # then the official world is the leader
    leader = World(is_ours=not is_compared)
    rng = random.Random(seed)
    source = (
        Script(lines)
        if lines is not None
        else ProgramGenerator(rng, leader, "lockstep" if is_compared else mode, rng.choice([15, 30, MAX_LINES]))
    )
    seconds = MAX_SECONDS * (5 if IS_SANITIZED else 1)
    signal.alarm(seconds)
    faulthandler.dump_traceback_later(seconds - 1, file=2)  # shows where the program hangs
    MODES[mode](source, leader, trace)


# --- child processes


class Outcome:
    """The result of a child process: its last program and the fault of that program.

    n_programs, n_lines: the numbers of programs and lines in the trace. index: the index of the last program.
    lines: the lines of the last program. kind: the kind of its fault, or None. text: the description of the fault.
    errors: the stderr.
    """

    def __init__(self, status, trace, errors):
        """Parse the trace, in which `# program N` starts a program and other lines with `#` describe its fault.

        status: that of os.waitpid.
        """
        text = trace.decode("utf-8", "surrogatepass")
        _, _, last_program = text.rpartition("# program ")
        self.n_programs, self.n_lines = text.count("# program "), text.count("\n")
        self.index = int(last_program.partition("\n")[0] or 0)
        body = last_program.partition("\n")[2].splitlines()
        self.lines = [line for line in body if not line.startswith("#")]
        self.errors = errors
        report = [line for line in body if line.startswith("#")]
        self.kind, self.text = None, ""
        if report:
            self.kind, self.text = report[0][2:], "\n".join(report[1:])
        elif status:
            name = signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else f"exit {status >> 8}"
            self.kind = f"died {name} {self.cause()}"
            self.text = "# " + "\n# ".join(self.errors.splitlines()[:60])

    def cause(self) -> str:
        """Return the fault in the report of the sanitizer or the interpreter, and the innermost function of Cython."""
        report = re.search(
            r"(?:Address|Thread)Sanitizer: ([\w-]+)|runtime error: (.*)|Fatal Python error: (.*)", self.errors
        )
        frame = re.search(r"#\d+ \S+ in (__pyx\w+)", self.errors)
        return " ".join([*(part for part in (report.groups() if report else ()) if part), frame[1] if frame else ""])


def run_in_child(run_with_trace) -> Outcome:
    """Run `run_with_trace(trace)` in a forked process. The trace file is read even if the process crashes."""
    with tempfile.TemporaryFile() as trace, tempfile.TemporaryFile() as errors:
        pid = os.fork()
        if not pid:
            status = 70  # EX_SOFTWARE of sysexits.h
            try:
                os.dup2(errors.fileno(), 2)
                faulthandler.enable(errors)
                if not IS_SANITIZED:
                    resource.setrlimit(resource.RLIMIT_AS, (MAX_ADDRESS_SPACE, MAX_ADDRESS_SPACE))
                resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
                run_with_trace(trace.fileno())
                status = 0
            except Finding as finding:
                os.write(trace.fileno(), f"# {finding.kind}\n# {finding}\n".encode("utf-8", "backslashreplace"))
                status = 1
            except BaseException:
                traceback.print_exc(file=sys.__stderr__)
                sys.__stderr__.flush()
            finally:
                os._exit(status)
        _, status = os.waitpid(pid, 0)
        trace.seek(0)
        errors.seek(0)
        return Outcome(status, trace.read(), errors.read().decode(errors="replace"))


def run_batch(mode, seed, start, n, end) -> Outcome:
    """Run `n` programs from index `start` on in a child process, until one fails or time.monotonic() exceeds `end`."""

    def run_with_trace(trace):
        for index in range(start, start + n):
            if time.monotonic() > end:
                break
            os.write(trace, b"# program %d\n" % index)
            run_program(mode, f"{seed}:{mode}:{index}", None, trace)

    return run_in_child(run_with_trace)


def run_lines(mode, lines) -> Outcome:
    """Run one program in a child process."""

    def run_with_trace(trace):
        os.write(trace, b"# program 0\n")
        run_program(mode, 0, lines, trace)

    return run_in_child(run_with_trace)


def shorten(mode, outcome, seconds=60) -> Outcome:
    """Remove lines as long as the remaining lines fail with a fault of the same kind; return the shortest outcome.

    Returns `outcome` if a second run of its lines has no fault of this kind. seconds: the maximum time. Lines with
    `exclude` remain: without them, the comparison would find known differences.
    """
    end = time.monotonic() + seconds
    shortest = run_lines(mode, outcome.lines)
    if shortest.kind != outcome.kind:
        return outcome
    size = max(1, len(shortest.lines) // 2)
    while size and time.monotonic() < end:
        index, n_lines = 0, len(shortest.lines)
        while index < len(shortest.lines) and time.monotonic() < end:
            lines = shortest.lines[:index] + [
                line for line in shortest.lines[index : index + size] if line.startswith("exclude(")
            ]
            shorter = run_lines(mode, lines + shortest.lines[index + size :])
            if shorter.kind == outcome.kind and len(shorter.lines) < len(shortest.lines):
                shortest = shorter
            else:
                index += size
        # Single lines are tried again as long as one of them is removed.
        size = size // 2 if size > 1 else int(len(shortest.lines) < n_lines)
    shortest.lines = [line for line in map(partial(remove_undefined_names, shortest.lines), shortest.lines) if line]
    return shortest


def remove_undefined_names(lines, line) -> str:
    """Remove undefined variables from a line with `exclude`; return "" if none remains. Other lines are unchanged."""
    if not line.startswith("exclude("):
        return line
    names = [
        name for name in re.findall(r"v[0-9]+", line) if any(other_line.startswith(f"{name} =") for other_line in lines)
    ]
    return f"exclude({', '.join(map(repr, names))})" if names else ""


def main() -> int:
    """Run until the time is over or all programs have run; return 1 if a fault was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--programs", type=int, default=1 << 60, help="maximum number of programs of each mode")
    parser.add_argument("--seed", type=int, default=time.time_ns())
    parser.add_argument("--mode", choices=MODES, action="append", help="default: all modes")
    parser.add_argument("--run", type=Path, metavar="FILE", help="run the lines of a file in the first --mode")
    parser.add_argument("--first", action="store_true", help="stop at the first fault")
    parser.add_argument("--differences", action="store_true", help="list deliberate differences from protobuf and exit")
    options = parser.parse_args()
    if options.differences:
        print("\n".join(f"{name}: {reason}" for name, reason in DIFFERENCES.items()))
        return 0
    modes = options.mode or list(MODES)
    if options.run:
        outcome = run_lines(
            modes[0], [line for line in options.run.read_text().splitlines() if line[:1] not in ("#", "")]
        )
        print(outcome.kind or "nothing found", outcome.text, sep="\n")
        return int(outcome.kind is not None)
    print(f"seed {options.seed}", flush=True)
    start_time, end = time.monotonic(), time.monotonic() + options.seconds
    n_faults_by_kind, counts, starts = Counter(), Counter(), dict.fromkeys(modes, 0)
    while time.monotonic() < end and any(start < options.programs for start in starts.values()):
        for mode in modes:
            n = min(BATCH_SIZE, options.programs - starts[mode])
            if n <= 0:
                continue
            outcome = run_batch(mode, options.seed, starts[mode], n, end)
            counts["programs"] += outcome.n_programs
            counts["lines"] += outcome.n_lines
            starts[mode] += n if outcome.kind is None else outcome.index + 1 - starts[mode]
            if outcome.kind is not None:
                n_faults_by_kind[outcome.kind] += 1
                if n_faults_by_kind[outcome.kind] == 1:
                    print_report(mode, options.seed, outcome)
                if options.first:
                    return 1
    times = os.times()
    seconds = times.children_user + times.children_system
    print(
        f"programs: {counts['programs']}, lines: {counts['lines']}, time: {time.monotonic() - start_time:.0f} s,",
        end=" ",
    )
    print(f"CPU time: {seconds:.0f} s, failed programs: {sum(n_faults_by_kind.values())}")
    for kind, n in n_faults_by_kind.most_common():
        print(f"{n:8} {kind}")
    return int(bool(n_faults_by_kind))


def print_report(mode, seed, outcome) -> None:
    """Print the fault of an outcome with a shortened program and the options that run it."""
    shortest = shorten(mode, outcome)
    print(f"\n# {shortest.kind}\n# seed {seed}, program {outcome.index}; run: --mode {mode} --run FILE")
    print("\n".join(shortest.lines), shortest.text, sep="\n", flush=True)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    classes()
    gc.freeze()  # child processes traverse only their own objects
    sys.exit(main())
