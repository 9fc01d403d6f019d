"""Commands that were started without a standard stream, cannot write to one, or stand in a folder that is gone."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import vfs


def shell(command: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a shell command, in which `vfs` is ours."""
    code = f'vfs() {{ "{sys.executable}" -P -m vfs "$@"; }}; {command}'
    places = os.pathsep.join(os.path.abspath(name) for name in sys.path if name)
    told = {**os.environ, "PYTHONPATH": places, **variables}
    return subprocess.run(["sh", "-c", code], cwd=folder, env=told, capture_output=True, text=True, timeout=250)


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.npy"
    np.save(path, np.arange(24.0).reshape(2, 3, 4))
    return path


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_a_stream_that_is_closed_leads_nowhere(tmp_path: Path, closed: str) -> None:
    done = shell(f"vfs --version {closed}", tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (
        0,
        "" if ">&-" in closed.split() else f"{vfs.__version__}\n",
        "",
    )
    done = shell(f"vfs unmount none {closed}", tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == ("" if "2>&-" in closed else f"vfs: {tmp_path}/none: nothing is mounted there\n")


def test_a_set_is_opened_without_any_stream(small: Path) -> None:
    assert shell("vfs info small.npy <&- >&- 2>&-", small.parent).returncode == 0


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full here")
@pytest.mark.parametrize("command", ["--version", "formats", "formats --json", "mounts --json"])
def test_what_cannot_be_printed_is_said(tmp_path: Path, command: str) -> None:
    done = shell(f"vfs {command} >/dev/full", tmp_path)
    assert (done.returncode, done.stderr) == (2, "vfs: standard output cannot be written to: No space left on device\n")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full here")
def test_a_note_that_cannot_be_printed_changes_nothing(small: Path) -> None:
    shutil.copy(small, small.parent / "small2.npy")
    done = shell("vfs info small.npy small2.npy 2>/dev/full", small.parent)  # opened as two, which is said
    assert (done.returncode, done.stdout.count("npy, 1 file")) == (0, 2)


def test_a_current_folder_that_is_gone_is_said(small: Path) -> None:
    gone = small.parent / "gone"
    gone.mkdir()
    for command in ("info ../small.npy", "unmount mnt"):
        done = shell(f"rmdir {gone}; vfs {command}; status=$?; mkdir {gone}; exit $status", gone)
        assert (done.returncode, done.stdout, done.stderr) == (
            2,
            "",
            "vfs: the current folder is not there any more; change into one that is\n",
        ), command


def test_numba_that_does_not_compile_is_said(small: Path) -> None:
    done = shell("vfs export small.npy copy.zarr", small.parent, NUMBA_DISABLE_JIT="1")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "NUMBA_DISABLE_JIT" in done.stderr
