"""What every benchmark gives: rows, and how much of it is measured."""

from __future__ import annotations

from typing import NamedTuple


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
