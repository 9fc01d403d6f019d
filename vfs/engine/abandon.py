"""Ends a long computation when nobody waits for its result any more.

A result of a whole scan takes minutes. A mount or HTTP server sets in each thread how to find out that a reader has
gone away (`asked.gone`); computations call `check` now and then.

Nobody waits in a process that ends, either. Python joins its threads before it exits, so that a pass
that a zarr store began, and whose reader pressed Ctrl-C, would keep the process for minutes.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress

SECONDS = 1.0  # time between two looks


class AbandonedError(Exception):
    """Nobody waits for the result any more.

    It is no `VfsError`: others who wait for the same result do not get it, but go on without it.
    """


class _Asked(threading.local):
    """What a thread knows of those for whom it works.

    Attributes:
        gone: tells if they have gone away; None: nobody asks. It is set for each request anew.
        since: the function that `check` saw last; next: when it is called next.
    """

    gone: Callable[[], bool] | None = None
    since: Callable[[], bool] | None = None
    next = 0.0


asked = _Asked()
_ending = threading.Event()  # the main thread is done, and threads are about to be joined
with suppress(AttributeError, RuntimeError):  # no other hook comes before that; atexit comes behind it
    threading._register_atexit(_ending.set)  # type: ignore[attr-defined]


def check(*_: object) -> None:
    """Raise AbandonedError if the one for whom this thread works has gone away, which may take a second
    to see, or if the process ends.
    """
    if _ending.is_set():
        raise AbandonedError
    gone, now = asked.gone, time.monotonic()
    if gone is None:
        return
    if gone is not asked.since:
        asked.since, asked.next = gone, now + SECONDS
    elif now >= asked.next:
        asked.next = now + SECONDS
        if gone():
            raise AbandonedError
