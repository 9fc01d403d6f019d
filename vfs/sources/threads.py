"""Threads that wait for servers. They never keep a process from ending, as those of concurrent.futures do."""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, CancelledError, Future, wait
from queue import SimpleQueue
from typing import Any

GRACE = 2.0
"""Seconds for which a process that ends waits for requests that are under way."""


def in_parallel(work: Callable[[Any], Any], tasks: Sequence[Any], parallel: int) -> list[Any]:
    """Return what `work` returns for each of some tasks, which threads of this process share.

    Args:
        parallel: how many threads there are, for all that ask with this number.

    Raises: what `work` raises; of several errors that of the first task. Other tasks may go on for a while then.
    """
    pool = _pool(parallel)
    found: list[Any] = [None] * len(tasks)
    failed: dict[int, BaseException] = {}
    turns = deque(range(len(tasks)))

    def take(_: None) -> None:  # a future for each task would take as long as a request itself
        while turns:
            try:
                k = turns.popleft()
            except IndexError:  # another thread was faster
                return
            try:
                found[k] = work(tasks[k])
            except BaseException as error:
                failed[k] = error
                raise
            if pool.ended:
                raise CancelledError

    futures = [pool.submit(take, None) for _ in range(min(parallel, len(tasks)))]
    try:
        wait(futures, return_when=FIRST_EXCEPTION)
        if failed:
            raise failed[min(failed)]
        for future in futures:
            future.result()
        return found
    finally:
        turns.clear()
        for future in futures:
            future.cancel()


class _Pool:
    """Some threads that take tasks.

    Attributes:
        ended: the process ends.
    """

    def __init__(self, most: int) -> None:
        self.ended = False
        self._most, self._threads, self._busy = most, 0, 0
        self._lock = threading.Lock()
        self._tasks: SimpleQueue[tuple[Future[Any], Callable[[Any], Any], Any]] = SimpleQueue()

    def submit(self, work: Callable[[Any], Any], task: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self._tasks.put((future, work, task))
        with self._lock:
            if self._threads < self._most:
                self._threads += 1
                threading.Thread(target=self._run, name="vfs-remote", daemon=True).start()
        return future

    def _run(self) -> None:
        while True:
            future, work, task = self._tasks.get()
            with self._lock:
                self._busy += 1
            try:
                if future.set_running_or_notify_cancel():
                    future.set_result(work(task))
            except BaseException as error:
                future.set_exception(error)
            finally:
                with self._lock:
                    self._busy -= 1
                del future, work, task

    def end(self) -> None:
        """Drop the tasks that wait, and let those that run come to an end, if that does not take long."""
        self.ended = True
        while not self._tasks.empty():
            self._tasks.get()[0].cancel()
        until = time.monotonic() + GRACE
        while self._busy and time.monotonic() < until:
            time.sleep(0.01)


_pools: dict[int, _Pool] = {}
_lock = threading.Lock()


def _pool(parallel: int) -> _Pool:
    with _lock:
        made = _pools.get(parallel)
        if made is None:
            made = _pools[parallel] = _Pool(parallel)
        return made


def _end() -> None:
    for pool in _pools.values():
        pool.end()


def _forked() -> None:
    """Forget the threads of the process that was forked."""
    global _lock
    _lock = threading.Lock()
    _pools.clear()


atexit.register(_end)
os.register_at_fork(after_in_child=_forked)
