"""Repairs standard streams that are closed (`vfs … >&-`) or that can no longer be written to."""

from __future__ import annotations

import os
import sys

NAMES = ("stdin", "stdout", "stderr")


def open_missing() -> None:
    """Redirect missing standard streams to /dev/null, also for programs that we start.

    Otherwise the next file that is opened would get the stream's number, and printed text would be
    written into that file.
    """
    for number, name in enumerate(NAMES):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # gets the first number that is free
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, "w" if number else "r", closefd=False))  # noqa: SIM115, as long as the process


def give_up(number: int) -> None:
    """Redirect a standard stream to /dev/null from now on.

    Text that could not be written still waits in Python's buffer, and the interpreter would try to
    write it again when it ends.
    """
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, number)
    os.close(nowhere)
