"""The benchmarks run: every part gives rows with positive numbers. How large these are is not asserted."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.benchmarks.bench import PARTS
from tests.benchmarks.rows import TINY


@pytest.mark.parametrize("part", PARTS)
def test_runs(part: str, tmp_path: Path) -> None:
    rows = list(PARTS[part](tmp_path, TINY))
    assert rows
    assert all(row.value > 0 for row in rows)
