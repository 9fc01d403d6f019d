"""Limits the time and memory of the process that reads a file. A damaged file that needs more ends it."""

from __future__ import annotations

import math
import os
import resource
import signal

SECONDS = 5.0  # of processor time, for an empty file
STEP_SECONDS = 10.0  # by the clock, for each step, whatever the process waits for
MEMORY = 256 << 20  # bytes more than the process has before it opens the file
MEMORY_FACTOR = 8  # bytes more for each byte of the files


class Budget:
    """Sets limits that grow with the steps that are begun and the bytes that were really found."""

    def __init__(self) -> None:
        self.seconds = SECONDS
        self.memory = _address_space() + MEMORY
        self._set(resource.RLIMIT_CPU, math.ceil(self.seconds))
        self._step()

    def time(self, seconds: float) -> None:
        """Begin the next step, which may take some more seconds of processor time.

        By the clock it may take `STEP_SECONDS`.
        """
        before = math.ceil(self.seconds)
        self.seconds += seconds
        if math.ceil(self.seconds) != before:
            self._set(resource.RLIMIT_CPU, math.ceil(self.seconds))
        self._step()

    def file(self, size: int) -> None:
        """Allow memory for a file that was opened, in proportion to its size in bytes."""
        self.memory += MEMORY_FACTOR * size
        self._set(resource.RLIMIT_AS, self.memory)

    @staticmethod
    def _step() -> None:
        signal.setitimer(signal.ITIMER_REAL, STEP_SECONDS)  # SIGALRM ends the process

    @staticmethod
    def _set(what: int, soft: int) -> None:
        _, hard = resource.getrlimit(what)
        resource.setrlimit(what, (soft if hard == resource.RLIM_INFINITY else min(soft, hard), hard))


def _address_space() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[0]) * os.sysconf("SC_PAGESIZE")
