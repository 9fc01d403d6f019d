"""Damaged files of every format, a few of those that `scripts/fuzz` tries."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz import HEADS, fuzz, writers

COUNT = 12
MADE = {name: write for name, write in writers().items() if not name.startswith("real ")}


@pytest.mark.filterwarnings("ignore::vfs.IncompleteWarning")
@pytest.mark.parametrize("name", MADE)
def test_damaged_files_are_arrays_or_errors_of_one_line(tmp_path: Path, name: str) -> None:
    paths, options = MADE[name](tmp_path)
    seen = fuzz(tmp_path, paths, COUNT, seed=3, head=HEADS.get(options["format"], 640), **options)
    outcomes = {key: count for key, count in seen.items() if key not in ("longest", "memory")}
    assert sum(outcomes.values()) == COUNT
    one = options["format"] in ("raw", "tiff") or str(paths).endswith(".gz")  # nothing is refused, or nothing unpacks
    assert len(outcomes) > 1 or one
