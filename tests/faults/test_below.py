"""Every format, read while pread and preadv misbehave below it: short reads and signals change
nothing, all else is an error.

Each test is a process of its own, see `tests.faults.calls`; `tests.faults.child` says what is read
and what may come of it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from vfs.fuse.view import library

FAULTS = ("Bad", "Interrupted", "Short", "Shrinking")


def answered(way: str, folder: Path) -> tuple[list[str], set[tuple[str, str]]]:
    """(a line for each row and fault that ended otherwise than it should, which faults were met
    below which function).
    """
    done = subprocess.run(
        [sys.executable, "-m", "tests.faults.child", way, folder],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    assert done.returncode == 0, done.stderr[-3000:]
    said: dict[str, Any] = json.loads(done.stdout)
    return said["wrong"], {(fault, where) for fault, where in said["met"]}


@pytest.mark.parametrize(
    ("backend", "kernels"),
    [
        ("buffered", ["decode_windows", "read_places", "read_ranges"]),
        pytest.param("direct", ["read_ranges"], marks=pytest.mark.thorough),
    ],
)
def test_reads_of_every_format(tmp_path: Path, backend: str, kernels: list[str]) -> None:
    wrong, met = answered(backend, tmp_path)
    assert not wrong, "\n".join(wrong)
    assert met == set(product(FAULTS, [*kernels, "python"]))


def test_mounted_files_of_every_format(tmp_path: Path) -> None:
    try:
        library()
    except OSError as error:
        pytest.skip(f"NO MOUNTED FILES ARE TESTED: {error}")
    wrong, met = answered("mount", tmp_path)
    assert not wrong, "\n".join(wrong)
    assert met >= set(product(FAULTS, ["serve.read", "decode_windows", "read_places", "python"]))
