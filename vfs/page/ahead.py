"""Begins with what a page will ask for first: when the server starts, and again while a browser loads the page.

That is the image of the bright-field disk: when the page asks for it, it is done, or its first rows
are, and the request goes on with the others. A browser takes two cores for half a second before it can
draw; what is done before is there at once. Nobody may ask: a server may be for clients of zarr only, and
what comes for the page may be `curl` or a crawler. So one such computation is made at once, and it ends
where nobody asks for a while.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from contextlib import suppress
from typing import TypeVar

from vfs.http.reads import Reads
from vfs.page.computing import Computation, following

Made = TypeVar("Made")
PATIENCE = 1.5
"""Seconds for which it goes on without anybody who asks for a computation."""


class Ahead:
    """Makes the first steps of a computation that nobody has asked for yet.

    All methods are called in the thread of the event loop.

    Args:
        pool: the threads that compute.

    Attributes:
        made: steps that were made, of all that began.
    """

    def __init__(self, pool: Reads) -> None:
        self.made = 0
        self._pool = pool
        self._task: asyncio.Task[None] | None = None
        self._key: tuple[Hashable, ...] | None = None
        self._met = False
        self._ending: asyncio.TimerHandle | None = None

    def begin(self, plan: Callable[[], Computation | None]) -> None:
        """Begin. One that is under way goes on, and has all of the time again.

        Args:
            plan: makes the computation, in a thread; None: there is nothing to begin with.
        """
        if self._task is None or self._task.done():
            self._met, self._key = False, None
            self._task = asyncio.ensure_future(self._go(plan))
        if self._ending is not None:
            self._ending.cancel()
        self._ending = asyncio.get_running_loop().call_later(PATIENCE, self._task.cancel)

    def met(self, key: tuple[Hashable, ...]) -> None:
        """Say that somebody asks for the computation with this key.

        If it is this one, the step that is under way is shared, and who asks goes on. If it is another,
        this one ends now.
        """
        self._met = True
        if self._task is not None and self._key not in (None, key):
            self._task.cancel()

    async def _go(self, plan: Callable[[], Computation | None]) -> None:
        with suppress(Exception):  # what is wrong is said when the page asks
            computation = await self._run("ahead", plan)
            if computation is None:
                return
            self._key = computation.key
            steps, before = computation.steps(), None
            while not self._met and (step := following(steps, before)) is not None:
                before = await self._run(step.key, step.make)
                self.made += 1

    async def _run(self, key: Hashable, work: Callable[[], Made]) -> Made:
        waiting = self._pool.start(key, work)
        try:
            made: Made = await waiting
            return made
        finally:
            self._pool.leave(key, waiting)
