"""Run calls in worker processes on this machine.

A process of multiprocessing would import from the working directory, which may be a folder of untrusted models, and
run the program's main module again. These processes do neither: they are started in Python's isolated mode, receive
sys.path from this process, and exit when their standard input is closed. The system closes it
if this process is killed.
"""

from __future__ import annotations

import os
import pickle
import queue
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from onnxwire.errors import FieldValueError, SourceError

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future
    from typing import NoReturn, Self

_WORKER_CODE = """\
import pickle, signal, sys
signal.signal(signal.SIGINT, signal.SIG_IGN)
sys.path[:] = pickle.load(sys.stdin.buffer)
from onnxwire.catalog.workers import serve
serve()
"""
LOST_WORKER_REASON = (
    "each process that read the model ended; the model may need more memory, or be truncated while it is read"
)


class WorkerLost(Exception):
    """The process that read a model ended."""


class Worker:
    """A process that runs one call at a time; a context manager that kills the process at the end.

    Raises FieldValueError if the program is not run by a Python interpreter, SourceError if no process can be started.
    """

    def __init__(self) -> None:
        if getattr(sys, "frozen", False) or not sys.executable:
            raise FieldValueError("this program is not a Python interpreter, so it can't start one; use another engine")
        command = [sys.executable, "-I", "-X", f"utf8={sys.flags.utf8_mode}", "-c", _WORKER_CODE]
        try:
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        except OSError as error:
            raise SourceError.from_os_error(
                error, sys.executable, "no process can be started; try fewer workers"
            ) from None
        self._unsent_import_path = pickle.dumps(import_path())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def call(self, function: Callable[[Any], Any], argument: object) -> Any:
        """Call a function of a module in the process. Return its result or raise its exception.

        Raises WorkerLost if the process ends, and FieldValueError for an argument that can't be pickled or unpickled.
        """
        try:
            data = pickle.dumps((function, argument))
        except Exception as error:
            raise _argument_error(error) from None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(self._unsent_import_path + pickle.dumps(data))
            self._process.stdin.flush()
            self._unsent_import_path = b""
            is_raised, outcome = pickle.load(self._process.stdout)
        except (EOFError, OSError, ValueError, pickle.UnpicklingError):
            raise WorkerLost(LOST_WORKER_REASON) from None
        if is_raised:
            raise outcome
        return outcome

    def close(self) -> None:
        """Kill the process."""
        self._process.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            with suppress(OSError):
                pipe.close()  # type: ignore[union-attr]
        self._process.wait()


class WorkerPool:
    """Workers that share a queue of calls; a context manager.

    size: the maximum number of workers. attempts: the maximum number of times a call is run; if its worker
    ends each time, the call raises WorkerLost.
    """

    def __init__(self, size: int, attempts: int) -> None:
        self._attempts = attempts
        self._threads = ThreadPoolExecutor(size)
        self._idle_workers: queue.SimpleQueue[Worker] = queue.SimpleQueue()
        self._lock = threading.Lock()  # protects the next two attributes
        self._workers: list[Worker] = []
        self._is_closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
        with self._lock:
            self._is_closed = True
            for worker in self._workers:
                worker.close()
        self._threads.shutdown()

    def submit(self, function: Callable[[Any], Any], argument: object) -> Future[Any]:
        """Submit a call to the pool. Return a Future."""
        return self._threads.submit(self._call, function, argument)

    def _call(self, function: Callable[[Any], Any], argument: object) -> Any:
        """Call a function in a worker. If the worker ends, retry in another worker, up to the number of attempts."""
        for attempt in range(1, self._attempts + 1):
            worker = self._acquire()
            try:
                result = worker.call(function, argument)
            except WorkerLost:
                self._discard(worker)
                if attempt == self._attempts:
                    raise
            except BaseException:
                self._idle_workers.put(worker)
                raise
            else:
                self._idle_workers.put(worker)
                return result
        raise AssertionError  # unreachable: attempts is at least 1

    def _acquire(self) -> Worker:
        """Return an idle worker, or start a new one. Raises WorkerLost if the pool is closed, and Worker's errors."""
        with suppress(queue.Empty):
            return self._idle_workers.get_nowait()
        with self._lock:
            if self._is_closed:
                raise WorkerLost(LOST_WORKER_REASON)
            worker = Worker()
            self._workers.append(worker)
            return worker

    def _discard(self, worker: Worker) -> None:
        with self._lock:
            if not self._is_closed:
                self._workers.remove(worker)
                worker.close()


def import_path() -> list[str]:
    """Return sys.path for a worker: the absolute paths in sys.path of this process, without the working directory.

    The folder that contains the package onnxwire is appended if it is missing, since it may be the working directory.
    """
    try:
        working_folder = os.path.realpath(os.curdir)
    except OSError:
        working_folder = ""
    folders = [folder for folder in sys.path if os.path.isabs(folder) and os.path.realpath(folder) != working_folder]
    package_parent = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    return folders if package_parent in folders else [*folders, package_parent]


def serve() -> NoReturn:
    """Run the calls that arrive on standard input, without end: the main loop of a worker."""
    # Standard output is redirected to standard error, because output of a library must not mix with the results.
    results = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    calls: queue.SimpleQueue[tuple[Callable[[Any], Any], Any]] = queue.SimpleQueue()
    threading.Thread(target=_receive, args=(calls,), daemon=True).start()
    while True:
        function, argument = calls.get()
        try:
            data = pickle.dumps((False, function(argument)))
        except Exception as error:
            data = pickle.dumps((True, error))
        try:
            results.write(data)
            results.flush()
        except OSError:
            os._exit(1)  # the parent process ended


def _receive(calls: queue.SimpleQueue[tuple[Callable[[Any], Any], Any]]) -> None:
    """Receive calls in a thread, so that the process exits with its parent, even in the middle of a call."""
    while True:
        try:
            data = pickle.load(sys.stdin.buffer)
        except EOFError:
            os._exit(0)
        try:
            calls.put(pickle.loads(data))
        except Exception as error:
            calls.put(
                (
                    _fail,
                    _argument_error(error),
                )
            )


def _argument_error(error: Exception) -> FieldValueError:
    """Return the error for an argument of a call that can't be pickled or unpickled."""
    return FieldValueError(f"an argument, such as storage_options, can't be sent to another process: {error}")


def _fail(error: Exception) -> NoReturn:
    raise error
