"""Runs `onnxwire view` in a process of its own, and ends it, whatever happened."""

from __future__ import annotations

import contextlib
import signal
import socket
import subprocess
import sys


def _mind_signals():
    """Undo what a script in the background has: it ignores Ctrl-C, and so would its children."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)


@contextlib.contextmanager
def serving(*arguments):
    """Give the process; what it says is read by `end` alone."""
    command = [sys.executable, "-P", "-m", "onnxwire", "view", *map(str, arguments)]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=_mind_signals
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def end(process, number=signal.SIGINT):
    """End it with a signal, by default that of Ctrl-C; what it said, and its status."""
    process.send_signal(number)
    _, said = process.communicate(timeout=100)
    return said, process.returncode


def answer_to(port, request):
    """All that a server of this process answers to the text of a request, until it closes the connection."""
    answer = b""
    with socket.create_connection(("127.0.0.1", port), timeout=100) as connection:
        connection.sendall(request.encode())
        with contextlib.suppress(ConnectionResetError):
            while piece := connection.recv(4096):
                answer += piece
    return answer
