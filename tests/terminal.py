"""Run commands with stdout or stderr on a terminal."""

from __future__ import annotations

import contextlib
import os

import forked_commands


def run_on_terminal(*words, stream, cwd, environment=None):
    """Run `onnxwire` with `stream` ("stdout" or "stderr") on a terminal; return the exit status and the output.

    environment: variables that are added to those of this process. The output is that of `stream`, as bytes.
    """
    import pty

    controller, terminal = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", **(environment or {})}
    streams = {"stdin": 0, "stdout": 1, "stderr": 2, stream: terminal}
    wait = forked_commands.start(words, **streams, cwd=cwd, env=environment)
    os.close(terminal)
    output = b""
    with contextlib.suppress(OSError):  # Linux raises EIO at the end of the output
        while chunk := os.read(controller, 1 << 16):
            output += chunk
    os.close(controller)
    return wait(), output
