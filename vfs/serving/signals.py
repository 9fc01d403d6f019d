"""Handles signals while something is done."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def signals(
    handler: Callable[[int, FrameType | None], None] | signal.Handlers, *numbers: signal.Signals
) -> Iterator[None]:
    """Install a handler for signals until the block ends, then restore the old handlers.

    Other threads than the main one do nothing, since Python allows handlers only there. Signals
    that are ignored, as under nohup, stay ignored, and those that a library handles stay with it.
    """
    here = threading.current_thread() is threading.main_thread()
    before = {
        number: signal.signal(number, handler)
        for number in numbers
        if here and signal.getsignal(number) not in (signal.SIG_IGN, None)
    }
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)


@contextmanager
def held_back(*numbers: signal.Signals) -> Iterator[None]:
    """Have signals that come while the block runs act when it has ended.

    To block them in this thread is not enough: the kernel gives them to a thread of a library (BLAS has some) that
    does not block them. Then they end the process, or run a handler of Python here, in the middle of the block.
    """
    came: list[int] = []
    try:
        with signals(lambda number, frame: came.append(number), *numbers):
            yield
    finally:
        for number in came:
            signal.raise_signal(number)
