"""How a signal ends a mount, without one: libfuse is a stand-in."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from types import SimpleNamespace
from unittest.mock import MagicMock

import pytest

from vfs.fuse import ending
from vfs.fuse.ending import Ending


def test_libfuse_is_not_woken_while_a_program_unmounts(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would say "waitpid: Interrupted system call", and not wait until the mount is gone."""
    monkeypatch.setattr(ending, "AGAIN", 0.01)
    woken: list[float] = []
    library = MagicMock()
    library.fuse_get_session.return_value = 1
    with Ending(SimpleNamespace(_libfuse=library, signal=signal.signal), "mnt", list) as one:
        signal.signal(ending.KICK, lambda number, frame: woken.append(time.monotonic()))
        one.begin()
        os.kill(os.getpid(), signal.SIGTERM)
        while not woken:
            time.sleep(0.01)
        with subprocess.Popen(["sleep", "0.2"]):
            began, before = time.monotonic(), len(woken)
        during, before = [at for at in woken[before:] if at > began + 0.05], len(woken)
        while len(woken) == before:
            time.sleep(0.01)
    assert during == []
