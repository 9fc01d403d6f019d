"""Waits for what another thread or process does."""

from __future__ import annotations

import time
from collections.abc import Callable


def eventually(true: Callable[[], bool], seconds: float = 60) -> bool:
    """Return True as soon as a condition holds, False if it does not within some seconds."""
    end = time.monotonic() + seconds
    while not true():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True
