"""Python runs kernels until numba is loaded, with the same results."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.first_uses import sets

ROOT = Path(__file__).parents[2]


def test_python_and_numba_agree() -> None:
    done = python("-W", "error", "-m", "tests.kernels.in_python")
    assert int(done.split()[0]) > 100


def test_info_needs_no_numba(tmp_path: Path) -> None:
    """Time stamps of one of these sets are read out of 2,304 headers."""
    code = """if True:
        import sys
        import vfs.kernels
        from vfs.cli.app import main
        vfs.kernels.PATIENCE = 1e9  # seconds, on a machine however slow
        for path in sys.argv[1:]:
            assert main(["info", path]) == 0
            assert "numba" not in sys.modules, path
    """
    python("-c", code, *map(str, sets(tmp_path)))


def python(*words: str) -> str:
    done = subprocess.run([sys.executable, *words], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
