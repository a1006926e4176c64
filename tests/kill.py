"""Kill and interrupt saves at system calls, at lines and at random times; the complete old or new model must remain.

    python tests/kill.py --count 1000

Saves that are killed, or interrupted at random times, run in forked processes. A save that replaces several files
renames them one by one, so a kill between two renames leaves old and new files. The checksums must detect such a mix,
which is then counted as "detected".
"""

import argparse
import contextlib
import functools
import itertools
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np

import onnxwire
import onnxwire.io.atomic_file
import onnxwire.io.external_save  # imported here, so that no child imports it
import onnxwire.io.folder

WEIGHT_ELEMENTS = 300_000  # elements of each of the two weights
# Name → (options of the save of the old model, options of the save that replaces it).
LAYOUTS = {
    "one file": ({}, {}),
    "data under a new name": ({"external": "v.data"}, {"external": "d/w.data"}),
    "data made inline": ({"external": "v.data"}, {"external": None}),
    "data of the same name": ({"external": "w.data"}, {"external": "w.data"}),
    "a file for each tensor, of the same names": ({"external": "{name}"}, {"external": "{name}"}),
}
# The files whose lines are events, in addition to system calls.
TRACED_FILES = tuple(
    module.__file__ for module in (onnxwire.io.atomic_file, onnxwire.io.external_save, onnxwire.io.folder)
)


def full_model(value, size=WEIGHT_ELEMENTS):
    """Return a model whose two weights are full of a value, which is also the name of the graph.

    size: the number of elements of each weight.
    """
    weights = [onnxwire.from_array(np.full(size, value, np.float32), name) for name in "ab"]
    return onnxwire.ModelProto(ir_version=10, graph={"name": f"{value}", "initializer": weights})


def value_of_model(folder):
    """Return the value of the model in a folder, or 0 if its files have different values or one is missing."""
    with onnxwire.load(folder / "m.onnx") as model:
        value = int(model.graph.name)
        try:
            return value if all((weight.numpy() == value).all() for weight in model.graph.initializer) else 0
        except (onnxwire.SourceError, onnxwire.ExternalDataError):
            return 0


def checksums_detect_mix(folder):
    """Return whether `verify` detects by the checksums, or by a missing file, that the files are of different saves."""
    try:
        onnxwire.verify(folder / "m.onnx", checksums=True)
    except (onnxwire.ExternalDataError, onnxwire.SourceError):
        return True
    return False


@contextlib.contextmanager
def call_at_event(number, function):
    """Call `function` at an event.

    Events are before and after a call of a function of the modules posix and fcntl, and at a line of TRACED_FILES.
    number: the index of the event, counted from 0. Events in `__del__` methods are not counted.
    Yields a function that returns whether the event was reached.
    """
    count = itertools.count()

    def handle_event(frame):
        # Python suppresses errors of finalizers, so a Ctrl-C in one would be lost.
        while frame is not None and frame.f_code.co_name != "__del__":
            frame = frame.f_back
        if frame is None and next(count) == number:
            function()

    def profile(frame, kind, called_function):
        if kind in ("c_call", "c_return") and getattr(called_function, "__module__", "") in ("posix", "fcntl"):
            handle_event(frame)

    def trace(frame, kind, _):
        if frame.f_code.co_filename not in TRACED_FILES:
            return None
        if kind == "line":
            handle_event(frame)
        return trace

    old_trace = sys.gettrace()
    sys.setprofile(profile)
    sys.settrace(trace)
    try:
        yield lambda: next(count) > number
    finally:
        sys.settrace(old_trace)
        sys.setprofile(None)


class Scenario:
    """A folder with a saved model. Each trial saves another model over a copy of the folder.

    size: the number of elements of each weight.
    """

    def __init__(self, base, layout, size=WEIGHT_ELEMENTS):
        self.base, self.size = base, size
        self.old_options, self.new_options = ({**options, "checksum": True} for options in LAYOUTS[layout])
        self.replaces_data_files = layout.endswith(("same name", "same names"))
        self.template = base / "template"
        self.template.mkdir(parents=True)
        onnxwire.save(full_model(1, size), self.template / "m.onnx", **self.old_options)
        self.new_model = full_model(2, size)

    def copy(self):
        """Return the path of a new copy of the folder, which replaces the previous copy."""
        folder = self.base / "copy"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.template, folder)
        return folder

    def save(self, folder):
        """Save the new model over the old one in a copy of the folder."""
        onnxwire.save(self.new_model, folder / "m.onnx", **self.new_options)

    def check_state(self, folder, *, was_killed):
        """Return the state of a folder after a trial: "old", "new" or "detected". Assert that it is one of these.

        After "old" and "new", also assert that another save succeeds and leaves no temporary files.
        """
        value = value_of_model(folder)
        if value == 0 and was_killed and self.replaces_data_files:
            assert checksums_detect_mix(folder), "a mix that the checksums do not detect"
            return "detected"
        assert value in (1, 2), sorted(os.listdir(folder))
        # The next save must succeed and remove temporary files of the save that was ended.
        onnxwire.save(full_model(3, self.size), folder / "m.onnx", **{**self.new_options, "overwrite": True})
        assert value_of_model(folder) == 3
        temporary_files = [name for name in os.listdir(folder) if "onnxwire-tmp" in name]
        assert not temporary_files, temporary_files
        return {1: "old", 2: "new"}[value]


def interrupt_at(scenario, number):
    """Interrupt a save by Ctrl-C at event `number`; return the state of the folder, or None if the save has fewer
    events."""
    folder = scenario.copy()
    interrupt = functools.partial(signal.raise_signal, signal.SIGINT)
    with call_at_event(number, interrupt) as was_reached, contextlib.suppress(KeyboardInterrupt):
        scenario.save(folder)
    return scenario.check_state(folder, was_killed=False) if was_reached() else None


def fork_save(scenario, folder, context=contextlib.nullcontext):
    """Save in a forked process, within the context manager that `context` returns; return its process id."""
    # A Ctrl-C outside of the `try` would let the child continue with the code of the parent.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    child = os.fork()
    if child:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        return child
    status = 1
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        with context():
            scenario.save(folder)
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        status = 0
    except KeyboardInterrupt:
        status = 130
    except BaseException as error:
        print(repr(error), file=sys.stderr)
    finally:
        os._exit(status)


def wait_for(child):
    """Wait for a child process; return 0, 130 (after Ctrl-C) or -SIGKILL. Assert that it did not end otherwise."""
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) in (0, 130, -signal.SIGKILL), status
    return os.waitstatus_to_exitcode(status)


def kill_at(scenario, number):
    """Kill a save at event `number`; return the state of the folder, or None if the save has fewer events."""
    folder = scenario.copy()
    kill = functools.partial(signal.raise_signal, signal.SIGKILL)
    status = wait_for(fork_save(scenario, folder, lambda: call_at_event(number, kill)))
    return scenario.check_state(folder, was_killed=True) if status else None


def send_signal_at_random_time(scenario, signal_number, rng, max_seconds):
    """Send a signal to a save at a random time; return the state of the folder."""
    folder = scenario.copy()
    child = fork_save(scenario, folder)
    time.sleep(rng.random() * max_seconds)
    with contextlib.suppress(ProcessLookupError):
        os.kill(child, signal_number)
    wait_for(child)
    return scenario.check_state(folder, was_killed=signal_number == signal.SIGKILL)


def main():
    """Kill and interrupt saves of each layout at every STEP-th event and at random times; print the states."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=1000, help="number of kills, and of interrupts, at random times")
    parser.add_argument("--step", type=int, default=1, help="try only every STEP-th event")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    # Background jobs of a shell ignore Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    rng = random.Random(options.seed)
    with tempfile.TemporaryDirectory() as base:
        for number, layout in enumerate(LAYOUTS):
            small_scenario = Scenario(Path(base) / f"small-{number}", layout, 3000)
            for participle, end_save_at in (("killed", kill_at), ("interrupted", interrupt_at)):
                outcomes = Counter()
                for event in itertools.count(0, options.step):
                    state = end_save_at(small_scenario, event)
                    if state is None:
                        break
                    outcomes[state] += 1
                print(f"{layout}: {participle} at {sum(outcomes.values()):,} events: {dict(outcomes)}", flush=True)
            scenario = Scenario(Path(base) / f"{number}", layout)
            start = time.monotonic()
            for _ in range(3):
                wait_for(fork_save(scenario, scenario.copy()))
            max_seconds = (time.monotonic() - start) / 3
            for signal_number in (signal.SIGKILL, signal.SIGINT):
                n_trials = options.count // len(LAYOUTS)
                outcomes = Counter(
                    send_signal_at_random_time(scenario, signal_number, rng, max_seconds) for _ in range(n_trials)
                )
                print(f"{layout}: {signal_number.name} at {n_trials:,} random times: {dict(outcomes)}", flush=True)


if __name__ == "__main__":
    main()
