"""The standard streams of a process that was started without one of them (`vfs … >&-`), or that cannot write there."""

from __future__ import annotations

import os
import sys

NAMES = ("stdin", "stdout", "stderr")


def open_missing() -> None:
    """Have those that are not there lead nowhere, also for programs that we start: a file would get their numbers, and what is printed its content."""
    for number, name in enumerate(NAMES):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # gets the first number that is free
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, "w" if number else "r", closefd=False))  # noqa: SIM115, as long as the process


def give_up(number: int) -> None:
    """Have one lead nowhere from now on: what could not be written is still waiting, and the interpreter tries again when it ends."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, number)
    os.close(nowhere)
