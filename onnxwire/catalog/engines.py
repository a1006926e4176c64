"""Engines that run tasks: processes on this machine (workers.py), a dask.distributed cluster, or a Ray cluster.

Results are returned in the order of the tasks, with a bounded number of tasks in flight, so that memory is bounded. If
a worker process ends unexpectedly, its task is retried. If the last retry fails, too, its models are read in one task
each, and a model whose task fails again becomes a failure.
"""

from __future__ import annotations

import os
from collections import deque
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from onnxwire.catalog.models import Failure
from onnxwire.catalog.read import Result, Task, join_results, read_models
from onnxwire.catalog.workers import LOST_WORKER_REASON, WorkerLost, WorkerPool
from onnxwire.errors import FieldValueError, MissingPackageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

_ATTEMPTS = 3  # number of times that the local engine starts a task, and of retries on a cluster
_MAX_LOAD = 2  # maximum number of running and queued tasks, as a multiple of the capacity


class _Executor(NamedTuple):
    """The interface of an engine.

    submit: starts a task, and returns a handle. result: returns the result of a handle when it is complete. capacity:
    returns the number of tasks that can run at once (processes, threads of dask, CPUs of Ray). lost_errors: the
    exceptions that `result` raises if a worker ended.
    """

    submit: Callable[[Task], Any]
    result: Callable[[Any], Result]
    capacity: Callable[[], int]
    lost_errors: tuple[type[BaseException], ...]


def run_tasks(
    tasks: Iterable[Task], engine: str, address: str | None = None, workers: int | None = None
) -> Iterator[tuple[Task, Result]]:
    """Run tasks with an engine: "local", "dask" or "ray". Yield each task with its result, in the order of the tasks.

    address: the address of dask's scheduler, or of a Ray cluster, ignored if Ray is already initialized. workers: the
    number of processes of the local engine, by default one per core.
    Raises FieldValueError for an unknown engine, and for dask without an address; MissingPackageError without the
    engine's package.
    """
    if engine not in _ENGINES:
        raise FieldValueError(f"there is no engine {engine!r}; the engines are local, dask and ray")
    in_flight: deque[tuple[Task, Any]] = deque()
    remaining_tasks = iter(tasks)
    with _ENGINES[engine](address, workers) as executor:
        while True:
            max_in_flight = max(executor.capacity(), 1) * _MAX_LOAD
            while len(in_flight) < max_in_flight and (task := next(remaining_tasks, None)) is not None:
                in_flight.append((task, executor.submit(task)))
            if not in_flight:
                return
            task, handle = in_flight.popleft()
            try:
                result = executor.result(handle)
            except executor.lost_errors:
                result = _read_one_by_one(task, executor)
            yield task, result


def _read_one_by_one(task: Task, executor: _Executor) -> Result:
    """Read the models of a lost task one after another; a model whose own task is lost becomes a failure."""
    results = []
    for model in task.models:
        try:
            results.append(executor.result(executor.submit(task._replace(models=(model,)))))
        except executor.lost_errors:
            results.append(Result({}, {model: Failure.of(WorkerLost(LOST_WORKER_REASON))}))
    return join_results(results)


@contextmanager
def _local_engine(address: str | None, workers: int | None) -> Iterator[_Executor]:
    """Provide the executor of worker processes on this machine."""
    count = workers or os.cpu_count() or 1
    with WorkerPool(count, _ATTEMPTS) as pool:
        yield _Executor(
            lambda task: pool.submit(read_models, task), lambda future: future.result(), lambda: count, (WorkerLost,)
        )


@contextmanager
def _dask_engine(address: str | None, workers: int | None) -> Iterator[_Executor]:
    """Provide the executor of a dask.distributed cluster."""
    try:
        from distributed import Client, KilledWorker
    except ImportError:
        raise MissingPackageError("the engine dask needs dask.distributed; `pip install distributed`") from None
    if address is None:
        raise FieldValueError("dask needs the address of a scheduler, such as tcp://10.0.0.1:8786")
    with Client(address, set_as_default=False) as client:
        yield _Executor(
            lambda task: client.submit(read_models, task, pure=False, retries=_ATTEMPTS),
            lambda future: future.result(),
            lambda: sum(client.nthreads().values()),
            (KilledWorker,),
        )


@contextmanager
def _ray_engine(address: str | None, workers: int | None) -> Iterator[_Executor]:
    """Provide the executor of a Ray cluster."""
    try:
        import ray
    except ImportError:
        raise MissingPackageError("the engine ray needs Ray; `pip install ray`") from None
    must_initialize = not ray.is_initialized()
    if must_initialize:
        ray.init(address=address, log_to_driver=False)
    try:
        yield _Executor(
            ray.remote(max_retries=_ATTEMPTS)(read_models).remote,
            ray.get,
            lambda: int(ray.cluster_resources().get("CPU", 1)),
            (ray.exceptions.WorkerCrashedError, ray.exceptions.OutOfMemoryError, ray.exceptions.NodeDiedError),
        )
    finally:
        if must_initialize:
            ray.shutdown()


_ENGINES = {"local": _local_engine, "dask": _dask_engine, "ray": _ray_engine}
