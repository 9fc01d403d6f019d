"""`vfs doctor --compile`, and the line on a terminal that says where something is compiled later."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.support import refused

ROOT = Path(__file__).parents[2]


def test_compiling_later_is_said_on_a_terminal_and_nowhere_else(tmp_path: Path) -> None:
    code = "from vfs.kernels import notice; {}notice.compiling(); notice.compiling()"
    for asked, terminal, said in (("notice.ask(); ", True, 1), ("", True, 0), ("notice.ask(); ", False, 0)):
        above, below = pty.openpty() if terminal else os.pipe()
        end = below  # what the process writes to
        env = os.environ | {"PYTHONPATH": str(ROOT)}
        subprocess.run([sys.executable, "-c", code.format(asked)], env=env, stderr=end, check=True)
        os.write(end, b"end\n")
        text = os.read(above, 4096).decode()
        assert text.count("vfs: compiling") == said, (asked, terminal)
        os.close(above)
        os.close(below)


def test_compiling_prints_nothing_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    assert "--json has no effect with --compile" in refused(capsys, "doctor", "--compile", "--json")
