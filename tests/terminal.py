"""Run commands with stdout or stderr on a terminal."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys


def shown_on_terminal(*words, stream, cwd, environment=None):
    """Run `onnxwire` with `stream` ("stdout" or "stderr") on a terminal; return the exit status and the output."""
    import pty

    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "onnxwire", *map(str, words)]
    environment = {**os.environ, "TERM": "xterm", **(environment or {})}
    with subprocess.Popen(command, cwd=cwd, env=environment, **{stream: theirs}) as process:
        os.close(theirs)
        shown = b""
        with contextlib.suppress(OSError):  # Linux raises EIO at the end of the output
            while piece := os.read(ours, 1 << 16):
                shown += piece
        os.close(ours)
    return process.returncode, shown
