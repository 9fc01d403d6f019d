"""Runs tasks on the workers of somebody else: a pool of `concurrent.futures`, or a cluster.

An executor is whatever has `submit(function, argument)` that returns a future with `result()`,
`cancel()` and `add_done_callback()`: pools of threads or processes, a `dask.distributed.Client`.
Nothing here imports dask, and nothing asks for its names.

A few tasks for each worker are under way: one that runs and others that wait, so that no worker
waits for this process. Results are given in the order of the tasks, so what is made of floats does
not depend on which worker is faster. Those that come too early are kept, and nothing new is handed
out while there are many of them.

A worker that is lost: a dask cluster does its task again by itself, on another one. A pool of
processes is broken as a whole then, and cannot be mended by who was only lent it: that is an
`ExecutorError`, which says so.
"""

from __future__ import annotations

import os
import socket
import warnings
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import BrokenExecutor, CancelledError
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from vfs.engine.array import threads_asked
from vfs.errors import ExecutorError, OptionError
from vfs.own_code import code_key

UNDER_WAY = 3
"""Tasks for each worker: one runs, one waits beside it, one is on its way there or back."""
AHEAD = 2
"""Times as many tasks as are under way: results beyond them that are kept, because an earlier one is missing."""

Task = TypeVar("Task")


def checked(executor: Any) -> Any:
    """Return what can run tasks.

    Raises:
        OptionError: it cannot.
    """
    if not callable(getattr(executor, "submit", None)) or isinstance(executor, type):
        raise OptionError(
            f"executor={executor!r}: expected something with `submit`, such as a pool of concurrent.futures or a"
            " Client of dask.distributed"
        )
    if getattr(executor, "asynchronous", False):
        raise OptionError(f"executor={executor!r}: it is asynchronous, expected one whose futures can be waited for")
    return executor


def check_code(key: str, does: str) -> None:
    """Check, in a worker, that it has the code of the process that sends the tasks: else it may make something else.

    Args:
        key: `vfs.own_code.code_key` of that process; does: what the process does.

    Raises:
        ExecutorError: it has other code.
    """
    if code_key() != key:
        raise ExecutorError(f"a worker has other code of vfs than what {does} [{here()}]")


def here() -> str:
    """Return which process this is, for messages of a worker."""
    return f"in process {os.getpid()} of {socket.gethostname()}"


def workers_of(executor: Any, asked: int | None) -> int:
    """Return how many tasks an executor runs at once.

    Args:
        asked: what the user says; None: what the executor says, else one a core of this machine.

    Raises:
        OptionError: `asked` is no number.
    """
    if asked is not None:
        return max(1, threads_asked(asked))
    if callable(threads := getattr(executor, "nthreads", None)):  # of a dask Client: address of a worker -> threads
        return max(1, sum(map(int, threads().values())))
    return max(1, int(getattr(executor, "_max_workers", None) or os.cpu_count() or 1))


def in_order(
    executor: Any,
    work: Callable[..., Any],
    tasks: Sequence[Task],
    workers: int | None,
    stop: Callable[[], object],
    held: Sequence[Any] = (),
) -> Generator[Any, None, None]:
    """Give what `work(task, *held)` returns for each of the tasks, in their order.

    Closing the generator cancels what is under way, and waits for what runs and cannot be
    cancelled, where the executor says so (pools do, dask does not).

    Args:
        workers: see `workers_of`.
        stop: is called when tasks that run are not wanted any more.
        held: what `kept` returned.

    Raises:
        ExecutorError: workers were lost, or the executor was shut down.
        Exception: what a task raises; of several such tasks, that of the first one.
    """
    ended: SimpleQueue[int] = SimpleQueue()
    under_way: dict[int, Any] = {}
    early: dict[int, Any] = {}
    begun = given = 0
    limit = UNDER_WAY * workers_of(executor, workers)
    try:
        while given < len(tasks):
            while begun < min(len(tasks), given + AHEAD * limit) and len(under_way) < limit:
                under_way[begun] = _submitted(executor, work, tasks[begun], *held)
                under_way[begun].add_done_callback(partial(_note, ended, begun))
                begun += 1
            for k in sorted(_all_of(ended)):
                early[k] = _result(under_way.pop(k), tasks[k])
            while given in early:
                yield early.pop(given)
                given += 1
    finally:
        if under_way:
            stop()
            _cancel(under_way, ended)


def sent_once(executor: Any, value: Any) -> Sequence[Any]:
    """Let a dask cluster keep a value, so that it is sent once. It is the result of a task: a worker that is
    lost with it does no harm. Data that were scattered would be lost too.

    Returns: what stands for the value; nothing where an executor cannot keep one.

    Raises:
        ExecutorError: see `in_order`.
    """
    if not callable(getattr(executor, "scatter", None)):
        return ()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sending large graph")  # this is how not to send it often
        return (_submitted(executor, _same, value),)


def _same(value: Any) -> Any:
    return value


def _submitted(executor: Any, work: Callable[..., Any], *given: Any) -> Any:
    try:
        return executor.submit(work, *given)
    except RuntimeError as error:  # BrokenExecutor is one, too
        raise ExecutorError(f"the executor takes no tasks: {error}; make a new one") from error


def _note(ended: SimpleQueue[int], k: int, future: Any) -> None:
    ended.put(k)


def _all_of(ended: SimpleQueue[int]) -> list[int]:
    """Wait for a task to end. Returns all that have."""
    found = [ended.get()]
    while True:
        try:
            found.append(ended.get_nowait())
        except Empty:
            return found


def _result(future: Any, task: object) -> Any:
    try:
        return future.result()
    except BrokenExecutor as error:
        raise ExecutorError(
            f"a process of the executor ended while it worked on {task} (killed, or out of memory?); the whole pool is"
            " lost with it: make a new one, or use a dask.distributed Client, which does such a part again elsewhere"
        ) from error
    except CancelledError as error:
        raise ExecutorError(f"{task} was cancelled by the executor: was it shut down? {error}".rstrip()) from error


def _cancel(under_way: dict[int, Any], ended: SimpleQueue[int]) -> None:
    """Cancel tasks, and wait for those of which the executor says that they run."""
    running = {k for k, future in under_way.items() if future.cancel() is False and not future.done()}
    while running:
        running.discard(ended.get())
