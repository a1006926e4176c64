"""Engines that carry tasks to where they are read: processes here (workers.py), a dask.distributed cluster, or Ray.

Each engine gives the results of tasks in their order, with a window of them under way, so that memory is bounded. A
task whose worker ended is given to another, three times in all; then its models are read one at a time, each in a
process of its own, and one that ends that too is a failure.
"""

from __future__ import annotations

import os
from collections import deque
from typing import TYPE_CHECKING, Any

from onnxwire.catalog.models import Failure
from onnxwire.catalog.read import Result, Task, join_results, read_models
from onnxwire.catalog.workers import Worker, WorkerLost, WorkerPool
from onnxwire.errors import FieldValueError, MissingPackageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

_ATTEMPTS = 3
_AHEAD = 2  # tasks a worker that are under way or waiting for their turn


def run_tasks(
    tasks: Iterable[Task], engine: str, address: str | None = None, workers: int | None = None
) -> Iterator[tuple[Task, Result]]:
    """Read tasks with an engine: "local", "dask" or "ray"; gives each with its result, in their order.

    address: of dask's scheduler or of a Ray cluster. workers: processes of the local engine, by default one a core.
    Raises MissingPackageError without the engine's package.
    """
    if engine == "local":
        return _run_local(tasks, workers or os.cpu_count() or 1)
    if engine == "dask":
        return _run_dask(tasks, address)
    if engine == "ray":
        return _run_ray(tasks, address)
    raise FieldValueError(f"there is no engine {engine!r}; there are local, dask and ray")


def _run_local(tasks: Iterable[Task], workers: int) -> Iterator[tuple[Task, Result]]:
    with WorkerPool(workers, _ATTEMPTS) as pool:
        yield from _in_order(
            tasks,
            lambda: workers * _AHEAD,
            lambda task: pool.submit(read_models, task),
            lambda future: future.result(),
            (WorkerLost,),
        )


def read_apart(task: Task) -> Result:
    """Read each model in a process of its own; one that ends its process is a failure."""
    results = []
    for model in task.models:
        with Worker() as worker:
            try:
                results.append(worker.call(read_models, task._replace(models=(model,))))
            except WorkerLost as error:
                results.append(Result({}, {model: Failure.of(error)}))
    return join_results(results)


def _in_order(
    tasks: Iterable[Task],
    ahead: Callable[[], int],
    submit: Callable[[Task], Any],
    gather: Callable[[Any], Result],
    lost: tuple[type[BaseException], ...],
) -> Iterator[tuple[Task, Result]]:
    """Keep some tasks under way on a cluster, and give their results in order."""
    waiting: deque[tuple[Task, Any]] = deque()
    source = iter(tasks)
    while True:
        while len(waiting) < ahead() and (task := next(source, None)) is not None:
            waiting.append((task, submit(task)))
        if not waiting:
            return
        task, future = waiting.popleft()
        try:
            result = gather(future)
        except lost:
            result = read_apart(task)
        yield task, result


def _run_dask(tasks: Iterable[Task], address: str | None) -> Iterator[tuple[Task, Result]]:
    try:
        from distributed import Client, KilledWorker
    except ImportError:
        raise MissingPackageError("this needs dask.distributed; `pip install distributed`") from None
    if address is None:
        raise FieldValueError("dask needs the address of a scheduler, such as tcp://10.0.0.1:8786")
    with Client(address, set_as_default=False) as client:
        yield from _in_order(
            tasks,
            lambda: max(sum(client.nthreads().values()), 1) * _AHEAD,
            lambda task: client.submit(read_models, task, pure=False, retries=_ATTEMPTS),
            lambda future: future.result(),
            (KilledWorker,),
        )


def _run_ray(tasks: Iterable[Task], address: str | None) -> Iterator[tuple[Task, Result]]:
    try:
        import ray
    except ImportError:
        raise MissingPackageError("this needs Ray; `pip install ray`") from None
    is_ours = not ray.is_initialized()
    if is_ours:
        ray.init(address=address, log_to_driver=False)
    try:
        read = ray.remote(max_retries=_ATTEMPTS)(read_models)
        yield from _in_order(
            tasks,
            lambda: max(int(ray.cluster_resources().get("CPU", 1)), 1) * _AHEAD,
            read.remote,
            ray.get,
            (ray.exceptions.WorkerCrashedError, ray.exceptions.OutOfMemoryError, ray.exceptions.NodeDiedError),
        )
    finally:
        if is_ours:
            ray.shutdown()
