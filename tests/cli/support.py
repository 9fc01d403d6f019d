"""What the tests of the command line share."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from vfs.cli import app
from vfs.serving.status import MountStatus


def run(*arguments: object) -> int:
    return app.main([str(a) for a in arguments])


def process(*arguments: object, **options: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", "-m", "vfs", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=250, check=False, **options)  # type: ignore[call-overload]


def refused(capsys: pytest.CaptureFixture[str], *arguments: object, status: int = 2) -> str:
    """The one line that a wrong call is answered with."""
    assert run(*arguments) == status
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("vfs: ")
    assert err.count("\n") == 1
    return err


def said_at_the_end(running: subprocess.Popen[str]) -> str:
    """What a process that was told to end writes to stderr. One that does not end is killed: it would hold the test."""
    try:
        return running.communicate(timeout=250)[1]
    except subprocess.TimeoutExpired:
        running.kill()
        raise


def mount_status(**told: Any) -> MountStatus:
    """The status of a mount that has done nothing but what is told."""
    counts = dict.fromkeys(("requests", "reads", "bytes", "hits", "misses", "errors", "cached", "cache_size"), 0)
    usual = {"mountpoint": "/m", "device": "0:1", "libfuse": 3, "sources": (), "pid": 0, "since": 0.0, "log": None}
    return MountStatus(**{**counts, **usual, "warnings": (), **told})
