"""Kills and interrupts of saves, at every call of the system and at random: one whole model is left, old or new.

    python tests/kill.py --count 1000

forks a process for each save. For a save to files of the same names, a kill between two renames is the one case that
can't be whole; it must be told by the checksums, and is counted apart.
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
import onnxwire.io.external_save  # so that no child imports it
import onnxwire.io.folder

N = 300_000  # elements of a weight
LAYOUTS = {
    "one file": ({}, {}),
    "data under a new name": ({"external": "v.data"}, {"external": "d/w.data"}),
    "data taken in": ({"external": "v.data"}, {"external": None}),
    "data of the same name": ({"external": "w.data"}, {"external": "w.data"}),
    "a file a tensor of the same names": ({"external": "{name}"}, {"external": "{name}"}),
}
OURS = tuple(module.__file__ for module in (onnxwire.io.atomic_file, onnxwire.io.external_save, onnxwire.io.folder))


def model_of(value, size=N):
    """A model whose weights, and name, are the value."""
    weights = [onnxwire.from_array(np.full(size, value, np.float32), name) for name in "ab"]
    return onnxwire.ModelProto(ir_version=10, graph={"name": f"{value}", "initializer": weights})


def whole(folder):
    """The value that the model in a folder is made of; 0 for a mix, or where a file of it is missing."""
    with onnxwire.load(folder / "m.onnx") as model:
        value = int(model.graph.name)
        try:
            return value if all((weight.numpy() == value).all() for weight in model.graph.initializer) else 0
        except (onnxwire.SourceError, onnxwire.ExternalDataError):
            return 0


def checksums_tell(folder):
    """Whether a look at the checksums finds that the files do not belong together."""
    try:
        onnxwire.verify(folder / "m.onnx", checksums=True)
    except (onnxwire.ExternalDataError, onnxwire.SourceError):
        return True
    return False


@contextlib.contextmanager
def at_event(number, act):
    """Call `act` at one event: before or after a call of the system, or at a line of what puts files in place."""
    count = itertools.count()

    def event(frame):
        # What a finalizer raises is not passed on, so that a Ctrl-C there is none.
        while frame is not None and frame.f_code.co_name != "__del__":
            frame = frame.f_back
        if frame is None and next(count) == number:
            act()

    def profile(frame, kind, function):
        if kind in ("c_call", "c_return") and getattr(function, "__module__", "") in ("posix", "fcntl"):
            event(frame)

    def trace(frame, kind, _):
        if frame.f_code.co_filename not in OURS:
            return None
        if kind == "line":
            event(frame)
        return trace

    before = sys.gettrace()
    sys.setprofile(profile)
    sys.settrace(trace)
    try:
        yield lambda: next(count) > number
    finally:
        sys.settrace(before)
        sys.setprofile(None)


class Ground:
    """A folder with a saved model, copies of which are saved over."""

    def __init__(self, base, layout, size=N):
        self.base, self.size = base, size
        self.before, self.after = ({**options, "checksum": True} for options in LAYOUTS[layout])
        self.is_replaced = layout.endswith(("same name", "same names"))
        self.template = base / "template"
        self.template.mkdir(parents=True)
        onnxwire.save(model_of(1, size), self.template / "m.onnx", **self.before)
        self.new = model_of(2, size)

    def copy(self):
        folder = self.base / "copy"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.template, folder)
        return folder

    def save(self, folder):
        onnxwire.save(self.new, folder / "m.onnx", **self.after)

    def judge(self, folder, *, was_killed):
        """The state that was left, "old", "new" or "told"; AssertionError for anything else."""
        value = whole(folder)
        if value == 0 and was_killed and self.is_replaced:
            assert checksums_tell(folder), "a mix that nothing tells"
            return "told"
        assert value in (1, 2), sorted(os.listdir(folder))
        # The next save goes as if nothing had been, and leaves no hidden file.
        onnxwire.save(model_of(3, self.size), folder / "m.onnx", **{**self.after, "overwrite": True})
        assert whole(folder) == 3
        left = [name for name in os.listdir(folder) if "onnxwire-tmp" in name]
        assert not left, left
        return {1: "old", 2: "new"}[value]


def interrupted_at(ground, number):
    """Deliver Ctrl-C at one event of a save; returns what is left, or None where there are fewer events."""
    folder = ground.copy()
    interrupt = functools.partial(signal.raise_signal, signal.SIGINT)
    with at_event(number, interrupt) as was_reached, contextlib.suppress(KeyboardInterrupt):
        ground.save(folder)
    return ground.judge(folder, was_killed=False) if was_reached() else None


def forked(ground, folder, within=contextlib.nullcontext):
    """Save in another process; returns its number."""
    # A Ctrl-C outside of the `try` would have the child go on with what the parent does.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    child = os.fork()
    if child:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        return child
    status = 1
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        with within():
            ground.save(folder)
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        status = 0
    except KeyboardInterrupt:
        status = 130
    except BaseException as error:
        print(repr(error), file=sys.stderr)
    finally:
        os._exit(status)


def status_of(child):
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) in (0, 130, -signal.SIGKILL), status
    return os.waitstatus_to_exitcode(status)


def killed_at(ground, number):
    """Kill a save at one event; returns what is left, or None where there are fewer events."""
    folder = ground.copy()
    kill = functools.partial(signal.raise_signal, signal.SIGKILL)
    status = status_of(forked(ground, folder, lambda: at_event(number, kill)))
    return ground.judge(folder, was_killed=True) if status else None


def struck(ground, sign, chance, longest):
    """Send a signal to a save at some time; returns what is left."""
    folder = ground.copy()
    child = forked(ground, folder)
    time.sleep(chance.random() * longest)
    with contextlib.suppress(ProcessLookupError):
        os.kill(child, sign)
    status_of(child)
    return ground.judge(folder, was_killed=sign == signal.SIGKILL)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=1000, help="kills, and interrupts, at random")
    parser.add_argument("--step", type=int, default=1, help="every so many events of all")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    # A shell has its background jobs ignore Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    chance = random.Random(options.seed)
    with tempfile.TemporaryDirectory() as base:
        for number, layout in enumerate(LAYOUTS):
            small = Ground(Path(base) / f"small-{number}", layout, 3000)
            for what, strike in (("killed", killed_at), ("interrupted", interrupted_at)):
                found = Counter()
                for event in itertools.count(0, options.step):
                    left = strike(small, event)
                    if left is None:
                        break
                    found[left] += 1
                print(f"{layout}: {what} at each of {sum(found.values()):,} events: {dict(found)}", flush=True)
            ground = Ground(Path(base) / f"{number}", layout)
            start = time.monotonic()
            for _ in range(3):
                status_of(forked(ground, ground.copy()))
            longest = (time.monotonic() - start) / 3
            for sign in (signal.SIGKILL, signal.SIGINT):
                share = options.count // len(LAYOUTS)
                found = Counter(struck(ground, sign, chance, longest) for _ in range(share))
                print(f"{layout}: {sign.name} at {share:,} random times: {dict(found)}", flush=True)


if __name__ == "__main__":
    main()
