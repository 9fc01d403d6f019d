"""Does things in threads of which some may never end: a file system that does not answer holds whoever asks it.

What gives no sign of life for `PATIENCE` is given up. Its thread is left behind, and another one takes its place.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Generic, TypeVar

PATIENCE = 600.0
"""Seconds without a sign of life: files that lie on tape take minutes to come."""
_LOOK = 0.1  # seconds between two looks at what is under way
_REST = 2.0  # seconds in which what is under way may end when nobody waits for it any more

Asked = TypeVar("Asked")
Found = TypeVar("Found")


class Hands:
    """Threads that work on several things at once.

    Args:
        look: is called again and again by who waits for results. What it raises ends the waiting.
        patience: seconds without a sign of life after which a thing is given up.
        clock: tells the time in seconds.
    """

    def __init__(
        self,
        look: Callable[[], object],
        patience: float = PATIENCE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.look, self._patience, self._clock = look, patience, clock
        self._news = threading.Condition()
        self._ended = 0
        self._own = threading.local()
        self._left: list[_Job[Any]] = []

    @property
    def silence(self) -> str:
        """What is said of a thing that was given up."""
        return f"no answer for {self._patience:g} s: does its file system answer?"

    def goes_on(self) -> None:
        """Say, in a thread that works on a thing, that this goes on."""
        job = getattr(self._own, "job", None)
        if job is not None:
            job.beats += 1

    def each(
        self, things: Iterator[Asked], work: Callable[[Asked], Found], at_once: int
    ) -> Iterator[tuple[Asked, Found | None]]:
        """Yield each thing, in order, with what was made of it: None if it was given up.

        As many more as are worked on at once may be ready before somebody asks for them. Where the waiting ends, what
        is ready comes first.
        """
        waiting: deque[tuple[Asked, _Job[Found]]] = deque()
        more = True
        try:
            while more or waiting:
                self.look()
                ended = self._ended
                busy = sum(not job.done for _, job in waiting)
                if waiting and waiting[0][1].done:
                    thing, first = waiting.popleft()
                    yield thing, first.result()
                elif more and busy < at_once and len(waiting) < 2 * at_once:
                    try:
                        thing = next(things)
                    except StopIteration:
                        more = False
                    else:
                        waiting.append((thing, self._begin(partial(work, thing))))
                else:
                    with self._news:
                        if self._ended == ended:
                            self._news.wait(_LOOK)
                    now = self._clock()
                    self._left += [job for _, job in waiting if job.give_up(now, self._patience)]
        except SystemExit:
            for thing, job in waiting:
                if job.done and job.error is None:
                    yield thing, job.result()
            raise
        finally:
            self._left += [job for _, job in waiting if not job.done]

    def rest(self) -> bool:
        """Wait a moment for what is under way and nobody asks for any more. Return False if a part of it goes on."""
        until = time.monotonic() + _REST
        return all(job.ended.wait(max(0.0, until - time.monotonic())) for job in self._left)

    def _begin(self, work: Callable[[], Found]) -> _Job[Found]:
        job: _Job[Found] = _Job(self._clock())
        threading.Thread(target=self._run, args=(job, work), name="vfs-hand", daemon=True).start()
        return job

    def _run(self, job: _Job[Found], work: Callable[[], Found]) -> None:
        self._own.job = job
        job.processor = time.pthread_getcpuclockid(threading.get_ident())
        try:
            job.found.append(work())
        except BaseException as error:  # who waits gets it
            job.error = error
        job.ended.set()
        with self._news:
            self._ended += 1
            self._news.notify_all()


class _Job(Generic[Found]):
    """A thing that a thread works on.

    Attributes:
        beats: how often it said that it goes on.
        processor: clock of the processor time of its thread; None until that began.
        found: what was made of it; error: what was raised instead.
        given_up: nobody waits for it any more.
    """

    def __init__(self, now: float) -> None:
        self.beats = 0
        self.processor: int | None = None
        self.found: list[Found] = []
        self.error: BaseException | None = None
        self.ended = threading.Event()
        self.given_up = False
        self._since: tuple[float, object] = now, None

    @property
    def done(self) -> bool:
        return self.given_up or self.ended.is_set()

    def result(self) -> Found | None:
        if self.given_up:
            return None
        if self.error is not None:
            raise self.error
        return self.found[0]

    def give_up(self, now: float, patience: float) -> bool:
        """Return True if it is given up now: for so long it did not end, said nothing, and took no processor time."""
        if self.done:
            return False
        try:
            sign = self.beats, None if self.processor is None else time.clock_gettime(self.processor)
        except OSError:  # its thread just ended
            return False
        if sign != self._since[1]:
            self._since = now, sign
        self.given_up = now - self._since[0] > patience
        return self.given_up
