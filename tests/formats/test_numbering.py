"""Files that follow on each other by a number in their names: what is missing, what is none of
that, and where the others stand.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from vfs import MissingSourceError
from vfs.formats.numbering import joined
from vfs.sources.local import LocalSources


def names(pattern: str, *numbers: object) -> list[str]:
    return [pattern.format(*(n if isinstance(n, tuple) else (n,))) for n in numbers]


GRID = [(z, t) for z in range(3) for t in range(4)]


@pytest.mark.parametrize(
    ("files", "missing", "places"),
    [
        (names("img_{:03}.tif", 1, 2, 4), ["img_003.tif"], [0, 1, 3]),
        (names("img_{}.tif", 9, 10, 12), ["img_11.tif"], [0, 1, 3]),
        (names("img_{:03}.tif", 0, 10, 20, 40), ["img_030.tif"], [0, 1, 2, 4]),
        (names("img_{:02}.tif", 5, 4, 1, 0), ["img_02.tif", "img_03.tif"], [0, 1, 4, 5]),
        (names("{:06}", *range(20), *range(60, 80)), names("{:06}", *range(20, 60)), [*range(20), *range(60, 80)]),
        (names("a1_{:03}_b2.npy", 1, 2, 4), ["a1_003_b2.npy"], [0, 1, 3]),
        (names("z{}_t{:02}.tif", *GRID[:5], *GRID[6:]), ["z1_t01.tif"], [*range(5), *range(6, 12)]),
        (
            names("z{}_t{:02}.tif", *GRID[:8], *((3, t) for t in range(4))),
            names("z2_t{:02}.tif", *range(4)),
            [*range(8), *range(12, 16)],
        ),
        (names("img_{}_{}.tif", (1, 1345), (2, 1401), (4, 1522)), [], [0, 1, 3]),
        (names("scan_1.{:03}.mrc", 1, 2, 4), ["scan_1.003.mrc"], [0, 1, 3]),
        (names("tilt_{}.tif", -20, -10, 10, 20), ["tilt_0.tif"], [0, 1, 3, 4]),
        (names("tilt_{}.tif", 20, 0, -10, -20), ["tilt_10.tif"], [0, 2, 3, 4]),
        (names("tilt_{:+03}.tif", -2, -1, 1, 2), ["tilt_+00.tif"], [0, 1, 3, 4]),
        (names("tilt_{}_{}.tif", ("n2", 7), ("n1", 9), ("p1", 2), ("p2", 1)), [], [0, 1, 3, 4]),
        (names("tilt-{}.tif", 1, 2, 4), ["tilt-3.tif"], [0, 1, 3]),
        (["IMG_01.tif", "img_02.TIF", "Img_04.tif", "IMG_05.tif"], ["IMG_03.tif"], [0, 1, 3, 4]),
        (["A_1_x.tif", "a_2_x.tif", "A_4_X.tif"], ["A_3_x.tif"], [0, 1, 3]),
    ],
)
def test_holes(tmp_path: Path, files: Sequence[str], missing: Sequence[str], places: Sequence[int]) -> None:
    found = joined(LocalSources(), [str(tmp_path / name) for name in files], [3] * len(files))
    assert found.first.tolist() == [3 * place for place in places]
    assert found.frames == 3 * places[-1] + 3
    (absent,) = found.absent
    gone = places[-1] + 1 - len(files)
    assert absent.counts == {"files_missing": gone, "frames_missing": 3 * gone}
    assert sorted(absent.files) == sorted(str(tmp_path / name) for name in missing)
    assert absent.refused is MissingSourceError
    assert all(name in absent.said for name in sorted(missing)[:2])
    for name in missing:
        (tmp_path / name).touch()
    if missing:
        # It was left out on purpose
        assert joined(LocalSources(), [str(tmp_path / name) for name in files], [3] * len(files)).absent == ()


@pytest.mark.parametrize(
    "files",
    [
        names("img_{:03}.tif", 0, 10, 20),
        names("img_{:03}.tif", 1, 3),
        names("img_{:03}.tif", 1, 4, 2),  # in an order of somebody's own
        names("img_{:03}.tif", 1, 2, 3, 1001, 1002, 1003),  # two series
        names("T_{}K.tif", 10, 20, 30, 50),
        names("T_{}.tif", 80, 100, 120, 200, 300),
        names("t_{}ms.tif", 1, 2, 4),
        names("defocus_{}.tif", "0.5", "1.0", "1.5", "2.5"),
        names("defocus_{}.tif", "1.5", "1.6", "1.8"),
        names("defocus_{}.tif", "1.0", "2.0", "4.0"),
        names("{}.tif", 20240101, 20240102, 20240104),
        names("{}.tif", 1700000001, 1700000002, 1700000004),
        names("img_{}_{}.tif", (1, 100), (2, 101), (3, 103)),  # the first one counts
        names("z{}_t{}.tif", *GRID),
        names("z{}_t{}.tif", *GRID[:6]),
        names("{}.tif", "a", "b1", "b3"),
        names("{}.tif", "a1b", "a2c", "a4b"),
        names("tilt_{}.tif", -20, -10, 0, 10),
        names("tilt_{}.tif", "-1.5", "0", "1.5", "4.5"),
        names("{}.tif", "9" * 30, "8" * 30, "6" * 30),
        names("{}.tif", 1, 1, 1),
        ["x.tif"],
    ],
)
def test_no_holes(files: Sequence[str]) -> None:
    found = joined(LocalSources(), [f"/nowhere/{name}" for name in files], range(1, len(files) + 1))
    assert found.absent == ()
    assert found.frames == len(files) * (len(files) + 1) // 2


def test_a_file_in_another_case_was_left_out_on_purpose(tmp_path: Path) -> None:
    (tmp_path / "img_03.TIF").touch()
    files = [str(tmp_path / name) for name in ("IMG_01.tif", "img_02.tif", "IMG_04.tif")]
    assert joined(LocalSources(), files, [3] * 3).absent == ()


def test_files_of_several_lengths() -> None:
    files = names("/nowhere/{}.seq", 1, 2, 4)
    last = joined(LocalSources(), files, [5, 5, 2])  # the last one of a series may be shorter
    assert (last.first.tolist(), last.frames) == ([0, 5, 15], 17)
    assert last.absent[0].said == "/nowhere/3.seq: missing, one file between 1.seq and 4.seq (frames 10 to 14)"
    unknown = joined(LocalSources(), files, [5, 4, 5])
    assert (unknown.first.tolist(), unknown.frames) == ([0, 5, 9], 14)
    assert unknown.absent[0].counts == {"files_missing": 1}
    assert "follow on each other" in unknown.absent[0].allowed


def test_many_are_named_in_short() -> None:
    gone = joined(
        LocalSources(), names("/nowhere/{}.tif", *(n for n in range(10_000) if n % 5 != 3), 10_001), np.ones(8001)
    ).absent[0]
    assert gone.counts["files_missing"] == 2001
    assert len(gone.files) == 1000
    assert (
        gone.said
        == "/nowhere/3.tif, 8.tif, 13.tif, …: missing, 2,001 files between 0.tif and 10001.tif (frames 3, 8, 13, …)"
    )
