"""A mount under load: `scripts/load`, for as long as `VFS_LOAD` says (.ci/run: a minute on the first Python), else for moments."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.mount.load import SIZE, load, values, write

SECONDS = float(os.environ.get("VFS_LOAD", "2"))


@pytest.mark.timeout(SECONDS + 120)
def test_under_load_every_byte_is_right_and_nothing_grows(tmp_path: Path) -> None:
    found = load(tmp_path, SECONDS, 8 if SECONDS > 10 else 4, 100_000 if SECONDS > 10 else 2000, 16 << 20)
    assert found["problems"] == []


def test_what_is_compared_with_is_what_is_written(tmp_path: Path) -> None:
    write(tmp_path, 40)
    assert (tmp_path / "part01.raw").read_bytes()[64 : 64 + SIZE] == values(2 * SIZE // 2, 3 * SIZE // 2).astype(">u2").tobytes()
    assert len(set(values(0, 5000).tolist())) > 4000
