"""What every benchmark gives: rows, and how much of it is measured; and how one is taken."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np


class Row(NamedTuple):
    """A line of the table: what was measured, its value, in what, and what is aimed at."""

    name: str
    value: float
    unit: str
    aim: str = ""


class Size(NamedTuple):
    """How much to measure: the real thing, or just enough to see that it runs."""

    frames: int  # of 128 KiB, in one file
    files: int  # of one frame each
    rounds: int
    seconds: float  # a measurement goes on for


FULL = Size(512, 8192, 7, 0.15)
TINY = Size(32, 40, 1, 0.0)


def against(candidate: Callable[[], object], limit: Callable[[], object], size: Size) -> tuple[float, float]:
    """Best seconds of (candidate, limit), taken in turns."""
    best = [float("inf"), float("inf")]
    for _ in range(size.rounds):
        for i, call in enumerate((candidate, limit)):
            call()
            began = time.perf_counter()
            n = 0
            while n == 0 or time.perf_counter() - began < size.seconds:
                once = time.perf_counter()
                call()
                best[i] = min(best[i], time.perf_counter() - once)
                n += 1
    return best[0], best[1]


def share(name: str, candidate: Callable[[], object], limit: Callable[[], object], size: Size, unit: str = "of memcpy", aim: str = "") -> Row:
    """How much of the limit's speed the candidate reaches (1 = as fast)."""
    mine, theirs = against(candidate, limit, size)
    return Row(name, theirs / mine, unit, aim)


def spent(name: str, call: Callable[[], object], size: Size, aim: str = "") -> Row:
    """Microseconds a call takes."""
    return Row(name, against(call, lambda: None, size)[0] * 1e6, "µs", aim)


def frames_of(count: int, shape: tuple[int, int] = (256, 256), dtype: str = "u2", most: int = 4095) -> np.ndarray:
    """Frames of noise."""
    return np.random.default_rng(1).integers(0, most + 1, (count, *shape)).astype(dtype)
