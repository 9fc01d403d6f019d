"""What the tests of the command line share."""

from __future__ import annotations

import subprocess
import sys

import pytest

from vfs.cli import app


def run(*arguments: object) -> int:
    return app.main([str(a) for a in arguments])


def process(*arguments: object, **options: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", "-m", "vfs", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=100, check=False, **options)  # type: ignore[call-overload]


def refused(capsys: pytest.CaptureFixture[str], *arguments: object, status: int = 2) -> str:
    """The one line that a wrong call is answered with."""
    assert run(*arguments) == status
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("vfs: ")
    assert err.count("\n") == 1
    return err
