"""Run `onnxwire` commands in processes that are forked from a server, so that they start no interpreter.

A new interpreter takes 0.1 to 0.3 s to import the modules of a command; a fork takes 10 ms. The forked processes have
their own standard streams, working folder and environment, as new processes have. A command runs in a new interpreter
if CAN_FORK is false, or if its environment differs from this process's in a variable that STARTUP_VARIABLES covers.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import gc
import importlib
import io
import json
import os
import pkgutil
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

CAN_FORK = sys.platform == "linux" and "ONNXWIRE_SANITIZE" not in os.environ
MAX_SECONDS = 600  # maximum time of a command
# Prefixes of the names of variables that the interpreter, onnxwire's .pth file or the C library reads at startup.
STARTUP_VARIABLES = ("PYTHON", "LC_", "LANG", "LD_", "ONNXWIRE_DROPIN", "MALLOC_")


def run(
    *arguments: object,
    input: str | bytes = b"",
    stdout: Any = subprocess.PIPE,
    text: bool = False,
    cwd: Any = None,
    env: dict[str, str] | None = None,
) -> subprocess.CompletedProcess[Any]:
    """Run a command like `subprocess.run([sys.executable, "-P", "-m", "onnxwire", *arguments], …)`.

    stderr is always captured, and stdout if it is `subprocess.PIPE`. `input` is the content of stdin.
    """
    stdin_read_end, stdin_write_end = os.pipe()
    stderr_read_end, stderr_write_end = os.pipe()
    stdout_read_end, stdout_write_end = os.pipe() if stdout == subprocess.PIPE else (None, stdout)
    wait = start(arguments, stdin_read_end, stdout_write_end, stderr_write_end, cwd, env)
    os.close(stdin_read_end)
    os.close(stderr_write_end)
    if stdout_read_end is not None:
        os.close(stdout_write_end)
    outputs: dict[int | None, bytes] = {}
    readers = [
        threading.Thread(target=_read, args=(descriptor, outputs))
        for descriptor in (stdout_read_end, stderr_read_end)
        if descriptor is not None
    ]
    for reader in readers:
        reader.start()
    with contextlib.suppress(BrokenPipeError), open(stdin_write_end, "wb") as file:
        file.write(input.encode() if isinstance(input, str) else input)
    for reader in readers:
        reader.join()
    results: list[Any] = [outputs.get(stdout_read_end), outputs[stderr_read_end]]
    if text:
        results = [result if result is None else result.decode() for result in results]
    return subprocess.CompletedProcess(arguments, wait(), *results)


def _read(descriptor: int, outputs: dict[int | None, bytes]) -> None:
    """Read a pipe to its end; store the bytes in `outputs`."""
    with open(descriptor, "rb") as file:
        outputs[descriptor] = file.read()


def start(
    arguments: Any, stdin: Any, stdout: Any, stderr: Any, cwd: Any = None, env: dict[str, str] | None = None
) -> Callable[[], int]:
    """Start a command with these files or descriptors; return a function that waits for it and returns its exit status.

    The caller must wait for a command before it starts the next.
    """
    environment = dict(os.environ) if env is None else env
    startup = [name for name in {*environment, *os.environ} if name.startswith(STARTUP_VARIABLES)]
    arguments = [str(argument) for argument in arguments]
    if not CAN_FORK or any(environment.get(name) != os.environ.get(name) for name in startup):
        command = [sys.executable, "-P", "-m", "onnxwire", *arguments]
        process = subprocess.Popen(command, stdin=stdin, stdout=stdout, stderr=stderr, cwd=cwd, env=environment)
        return lambda: process.wait(MAX_SECONDS)
    request = json.dumps([arguments, os.path.abspath(cwd or "."), environment]).encode()
    descriptors = [stream if isinstance(stream, int) else stream.fileno() for stream in (stdin, stdout, stderr)]
    server = _start_server()
    socket.send_fds(server, [len(request).to_bytes(8, "little")], descriptors)
    server.sendall(request)
    return lambda: int(server.recv(16))


@functools.cache
def _start_server() -> socket.socket:
    """Start the server of this process at the first call; return its socket. The server ends with this process."""
    client_end, server_end = socket.socketpair()
    with server_end:
        command = [sys.executable, "-P", __file__, str(server_end.fileno())]
        subprocess.Popen(command, pass_fds=[server_end.fileno()], stdin=subprocess.DEVNULL, start_new_session=True)
    client_end.settimeout(MAX_SECONDS)
    return client_end


# --- in the server


def _serve(control: socket.socket) -> None:
    """Fork a child for each request, and send its exit status when it ends. Exit when the client closes its socket.

    Returns in the child only, with the streams, folder, environment and arguments of the request.
    """
    while True:
        size, descriptors, _, _ = socket.recv_fds(control, 8, 3)
        if not size:
            os._exit(0)
        request = b""
        while len(request) < int.from_bytes(size, "little"):
            request += control.recv(1 << 20)
        child = os.fork()
        if not child:
            break
        for descriptor in descriptors:
            os.close(descriptor)
        control.send(b"%d" % os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    control.close()
    arguments, folder, environment = json.loads(request)
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv[1:] = arguments
    sys.stdin, sys.stdout, sys.stderr = (_open_stream(number) for number in range(3))
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr


def _open_stream(number: int) -> io.TextIOWrapper:
    """Return a standard stream like those that the interpreter creates at startup. number: its descriptor."""
    file = io.FileIO(number, "r" if number == 0 else "w", closefd=False)
    file.name = ("<stdin>", "<stdout>", "<stderr>")[number]
    buffer = io.BufferedReader(file) if number == 0 else io.BufferedWriter(file)
    standard_stream = (sys.stdin, sys.stdout, sys.stderr)[number]
    has_line_buffer = number == 2 or file.isatty()
    newline = "\n" if number else None
    return io.TextIOWrapper(
        buffer, standard_stream.encoding, standard_stream.errors, newline=newline, line_buffering=has_line_buffer
    )


def _preload() -> None:
    """Import the modules of most commands, except modules that start threads: a fork would not have these threads."""
    for package in ("onnxwire.cli", "onnxwire.checker", "onnxwire.checker.rules"):
        for module in pkgutil.iter_modules(importlib.import_module(package).__path__, f"{package}."):
            importlib.import_module(module.name)
    for name in ("rich.console", "rich.table", "rich.progress"):
        with contextlib.suppress(ImportError):
            importlib.import_module(name)


if __name__ == "__main__":
    _preload()
    gc.collect()
    gc.freeze()  # a collection in a child would copy the memory that it shares with the server
    _serve(socket.socket(fileno=int(sys.argv[1])))
    from onnxwire.cli import main

    status = 1
    try:
        status = main()
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
        status = end.code if isinstance(end.code, int) else end.code is not None
    except BaseException:
        sys.excepthook(*sys.exc_info())
    # The normal exit of the interpreter takes longer than most commands.
    threading._shutdown()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError):
            stream.flush()
    os._exit(status)
