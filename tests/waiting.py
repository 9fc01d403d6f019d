"""Waits for what another thread, task or process does: until a condition holds, never for so long."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

OFTEN = 0.005  # seconds between two looks
PATIENCE = 250  # seconds, for what comes at once on a machine that has nothing else to do, and has compiled kernels


def eventually(true: Callable[[], bool], seconds: float = PATIENCE) -> bool:
    """Return True as soon as a condition holds, False if it does not within some seconds."""
    end = time.monotonic() + seconds
    while not true():
        if time.monotonic() > end:
            return False
        time.sleep(OFTEN)
    return True


async def until(true: Callable[[], object], seconds: float = PATIENCE) -> None:
    """Wait until a condition holds, while other tasks go on.

    Raises:
        AssertionError: it does not within some seconds.
    """
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "waited in vain"
        await asyncio.sleep(OFTEN)
