"""The one thread that waits for servers, with an event loop, so that what is under way can be given up at once."""

from __future__ import annotations

import asyncio
import atexit
import os
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Coroutine
    from typing import Any, TypeVar

    T = TypeVar("T")

_LOCK = threading.Lock()
_THREADS = 64  # requests that threads wait for at once
_LONGEST_WAIT = 200  # milliseconds
_loop: asyncio.AbstractEventLoop | None = None
_process = 0


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in the loop and wait for it; where waiting is interrupted (Ctrl-C), the work is cancelled."""
    future = asyncio.run_coroutine_threadsafe(work, _running_loop())
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise


def _running_loop() -> asyncio.AbstractEventLoop:
    global _loop, _process
    with _LOCK:
        # A forked process has the loop, and not its thread.
        if _loop is None:
            atexit.register(_wait_for_others)
        if _loop is None or _process != os.getpid():
            _loop, _process = asyncio.new_event_loop(), os.getpid()
            _loop.set_default_executor(ThreadPoolExecutor(_THREADS, "onnxwire-request"))
            threading.Thread(target=_loop.run_forever, name="onnxwire-remote", daemon=True).start()
        return _loop


def _wait_for_others() -> None:
    """Let threads that handed over a result leave Python before the interpreter ends; one still inside aborts then."""
    known = {thread.ident for thread in threading.enumerate()}
    for _ in range(_LONGEST_WAIT):
        time.sleep(0.001)
        if sys._current_frames().keys() <= known:
            return
