"""Run requests as coroutines in an event loop in a background thread, so that they can be cancelled immediately."""

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
    from concurrent.futures import Future
    from typing import Any, TypeVar

    T = TypeVar("T")

_LOCK = threading.Lock()
_MAX_THREADS = 64  # threads for requests of code without coroutines (asyncio.to_thread)
_MAX_WAIT_MS = 200  # maximum wait for threads of native libraries when the process exits
_loop: asyncio.AbstractEventLoop | None = None
_process = 0  # the id of the process in which `_loop` runs


def start(coroutine: Coroutine[Any, Any, T]) -> Future[T]:
    """Run a coroutine in the event loop. Return a Future of its result."""
    return asyncio.run_coroutine_threadsafe(coroutine, _running_loop())


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in the event loop and return its result. Cancel it if waiting is interrupted (Ctrl-C)."""
    future = start(coroutine)
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise


def _running_loop() -> asyncio.AbstractEventLoop:
    """Return the event loop of this process. Start it if it does not run."""
    global _loop, _process
    with _LOCK:
        if _loop is None:
            atexit.register(_wait_for_threads)
        # A forked process inherits the loop, but not its thread.
        if _loop is None or _process != os.getpid():
            _loop, _process = asyncio.new_event_loop(), os.getpid()
            _loop.set_default_executor(ThreadPoolExecutor(_MAX_THREADS, "onnxwire-request"))
            threading.Thread(target=_loop.run_forever, name="onnxwire-remote", daemon=True).start()
        return _loop


def _wait_for_threads() -> None:
    """Wait until no thread that native code started runs Python code: the interpreter's exit would abort the thread.

    `threading` does not know these threads. The wait ends after _MAX_WAIT_MS at the latest.
    """
    known_threads = {thread.ident for thread in threading.enumerate()}
    for _ in range(_MAX_WAIT_MS):
        time.sleep(0.001)
        if sys._current_frames().keys() <= known_threads:
            return
