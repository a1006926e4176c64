"""Run `onnxwire view` in a child process, which ends with the test, even if the test fails; send raw requests."""

from __future__ import annotations

import contextlib
import signal
import socket
import subprocess
import sys


def _reset_signals():
    """Restore the default handlers of SIGINT and SIGTERM.

    A shell script starts background processes with SIGINT ignored, and their child processes inherit this.
    """
    for signal_number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signal_number, signal.SIG_DFL)


@contextlib.contextmanager
def serving(*arguments):
    """Start `onnxwire view` with arguments and yield the process; kill the process at the end if it still runs."""
    command = [sys.executable, "-P", "-m", "onnxwire", "view", *map(str, arguments)]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=_reset_signals
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def end(process, signal_number=signal.SIGINT):
    """Send the process a signal, by default SIGINT, as Ctrl-C does; return its stderr and its exit status."""
    process.send_signal(signal_number)
    _, errors = process.communicate(timeout=100)
    return errors, process.returncode


def send_raw_request(port, request):
    """Send a request, as text, to a server on this machine; return all bytes up to the end of the connection."""
    answer = b""
    with socket.create_connection(("127.0.0.1", port), timeout=100) as connection:
        connection.sendall(request.encode())
        with contextlib.suppress(ConnectionResetError):
            while chunk := connection.recv(4096):
                answer += chunk
    return answer
