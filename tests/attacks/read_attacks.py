"""Read attack files with the functions of CALLS and the commands of COMMANDS: `read_attacks.py SECONDS BYTES < LIST`.

LIST has the paths of the files, separated by newlines. Each file is read in a fork of this process; the fork is
killed after 60 seconds. SECONDS limits the processor time of the fork, and BYTES the address space that the fork may
add to that of this process. The last file is also read in this process, without limits. The program prints a line for
each file with which a call or command crashes, exceeds a limit or raises an unexpected exception, and then the number
of files.
"""

from __future__ import annotations

import contextlib
import gc
import io
import os
import resource
import signal
import sys
import traceback
import warnings

import onnxwire
from onnxwire import cli
from onnxwire.errors import Error

COMMANDS = (("info",), ("ls",), ("check",), ("dump",))


def consume(iterable):
    """Iterate to the end."""
    for _ in iterable:
        pass


CALLS = {
    "load": lambda path: onnxwire.load(path).close(),
    "check": lambda path: consume(onnxwire.check(path)),
    "tensors": lambda path: consume(onnxwire.tensors(path)),
    "verify": onnxwire.verify,
}


def run_command(*words):
    """Run a command and discard its output. Raises AssertionError for an exit status that no command has."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        try:
            status = cli.main(list(words))
        except SystemExit as exit_request:
            status = exit_request.code
    if status not in (None, 0, 1, 2):
        raise AssertionError(f"exit status {status}")


def find_faults(path):
    """Yield a description of each exception that a command raises, or that a call raises and that is not an Error."""
    for name, call in CALLS.items():
        try:
            call(path)
        except Error:
            pass
        except BaseException as error:
            yield f"{name}: {''.join(traceback.format_exception(error)[-3:])}"
    for words in COMMANDS:
        try:
            run_command(*words, path)
        except BaseException as error:
            yield f"onnxwire {words[0]}: {''.join(traceback.format_exception(error)[-3:])}"


def read_in_child(path, seconds, memory_bytes):
    """Read a file in a child process; return the faults of the calls and commands as a text, or an empty text.

    The text ends with the signal that killed the child, if any.
    """
    read_end, write_end = os.pipe()
    child = os.fork()
    if not child:
        os.close(read_end)
        with open("/proc/self/statm") as file:
            address_space_bytes = int(file.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (address_space_bytes + memory_bytes,) * 2)
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.alarm(60)  # a call that waits for the writer of a pipe uses no processor time
        for fault in find_faults(path):
            os.write(write_end, (fault.replace("\n", " | ") + "; ").encode("utf-8", "replace"))
        os._exit(0)
    os.close(write_end)
    with open(read_end, "rb") as file:
        text = file.read().decode("utf-8", "replace")
    status = os.waitpid(child, 0)[1]
    if os.WIFSIGNALED(status):
        text += f"killed by {signal.Signals(os.WTERMSIG(status)).name}"
    return text


def main():
    """Read the files that stdin lists."""
    seconds, memory_bytes = map(int, sys.argv[1:])
    warnings.simplefilter("ignore")
    files = sys.stdin.read().split("\n")
    consume(find_faults(files[-1]))  # imports modules once, instead of in each child
    gc.collect()
    gc.freeze()
    for path in files:
        if faults := read_in_child(path, seconds, memory_bytes):
            print(f"{path}: {faults}", flush=True)
    print(f"{len(files)} files")


if __name__ == "__main__":
    main()
