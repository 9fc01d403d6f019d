"""The benchmarks run: every part gives rows with positive numbers. How large these are is not asserted."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.benchmarks import figure_page, figures, people_bench
from scripts.benchmarks.bench import PARTS
from scripts.benchmarks.figure_samples import SMALL_SHAPES, samples
from scripts.benchmarks.figure_tools import exported, measured
from scripts.benchmarks.rows import TINY

THOROUGH = pytest.mark.thorough
QUICK = {"decode", "cached", "random", "zarr", "formats", "references", "remote"}
"""Parts that start no other program."""


@pytest.mark.parametrize("part", [part if part in QUICK else pytest.param(part, marks=THOROUGH) for part in PARTS])
def test_runs(part: str, tmp_path: Path) -> None:
    rows = list(PARTS[part](tmp_path, TINY))
    assert rows
    assert all(row.value > 0 for row in rows)


@THOROUGH
def test_figures_are_compared_with_numpy_and_make_a_page(tmp_path: Path) -> None:
    found = {}
    for kind in ("mrc", "mib", "arina", "tiff"):
        sample = samples(tmp_path / kind, kind, SMALL_SHAPES)
        steps = measured(sample, "vfs", 3, False)
        assert max(step["off"] for step in steps) < 1e-12
        took = {
            step["step"]: figures.Figure((step["ended"] - step["began"],) * 3, (1 << 20,) * 3, step["off"])
            for step in steps
        }
        found[kind] = figures.Table(
            sample, [figures.Row("vfs", took), figures.Row("tool", {}, "ValueError: cannot")], 0.0
        )
    made = exported(samples(tmp_path / "export", "export", SMALL_SHAPES), "vfs", 1, 16, 8)
    assert [(step["step"], step["off"]) for step in made] == [("none", 0), ("zstd", 0), ("sharded", 0)]
    text = figure_page.write(tmp_path / "docs", found, SMALL_SHAPES, 60.0).read_text()
    assert text.count("| vfs |") == len(found)
    assert text.count("tool did not read it: `ValueError: cannot`.") == len(found)
    assert len(text.splitlines()) <= 200
    assert (tmp_path / "docs/pictures/figures-mib.svg").read_text().startswith("<?xml")


@THOROUGH
def test_people_are_served_evenly_and_without_errors(tmp_path: Path) -> None:
    seen = people_bench.measure(tmp_path, people=4, sets=3, seconds=5.0)
    assert (seen.errors, seen.statuses[429]) == (0, 0)
    assert set(seen.answers) == {0, 1, 2, 3}
    assert min(seen.answers.values()) > 0
    assert 0.25 < seen.fairness <= 1
    assert seen.memory > 0
