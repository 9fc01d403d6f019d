"""Series of files of which the newest one has only begun: it is not written yet; an older one like that is an error."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vfs
from tests.live.conftest import rest
from vfs.testing.detector_writers import write_adsc, write_cbf
from vfs.testing.frame_writers import write_frms6
from vfs.testing.gatan_writers import write_dm
from vfs.testing.plane_writers import write_edf, write_fits
from vfs.testing.tiff_writers import write_ome_tiff, write_tiff
from vfs.testing.writers import write_mib

pytestmark = pytest.mark.usefixtures("looks_each_time")
FRAMES = np.random.default_rng(9).integers(1, 99, (3, 16, 32), dtype="u2")
HOW: dict[str, Any] = {"follow": True, "settle": 0.0, "give_up": 1e9}


def _npy(path: Path, frame: np.ndarray) -> Path:
    np.save(path, frame)
    return path


SERIES: dict[str, Callable[[Path, int], Path]] = {
    "npy": lambda folder, n: _npy(folder / f"a_{n}.npy", FRAMES[n]),
    "tif": lambda folder, n: write_tiff(folder / f"a_{n}.tif", [FRAMES[n]]),
    "cbf": lambda folder, n: write_cbf(folder / f"a_{n}.cbf", FRAMES[n].astype("i4")),
    "edf": lambda folder, n: write_edf(folder / f"a_{n}.edf", FRAMES[n : n + 1]),
    "fits": lambda folder, n: write_fits(folder / f"a_{n}.fits", FRAMES[n]),
    "img": lambda folder, n: write_adsc(folder / f"a_{n}.img", FRAMES[n]),
    "dm4": lambda folder, n: write_dm(folder, FRAMES[n], version=4, name=f"a_{n}"),
}
"""Ending -> what writes a file of a frame."""


def test_an_ome_tiff_is_whole_when_all_planes_that_its_xml_names_are_there(tmp_path: Path) -> None:
    images = np.random.default_rng(3).integers(1, 99, (2, 1, 3, 16, 32), dtype="u2")
    path = write_ome_tiff(tmp_path, images)
    scan = vfs.open(path, **HOW | {"settle": 1e9})
    assert scan.group.attrs["vfs"]["live"]["of"] == 6
    ended = vfs.open(path, **HOW)
    assert ended.wait(timeout=0)
    assert ended.complete
    np.testing.assert_array_equal(ended[...], images)


def _mib(folder: Path) -> tuple[list[Path], str]:
    write_mib(folder, FRAMES, frames_per_file=1)
    return sorted(folder.glob("*.mib")), sorted(folder.glob("*.mib"))[0].name


def _frms6(folder: Path) -> tuple[list[Path], str]:
    named = write_frms6(folder, FRAMES, frames_per_file=1, scan=(1, 3))
    return [named, *sorted(folder.glob("*.frms6"))], named.name


def parts(content: bytes) -> list[bytes]:
    """What there is of a file that has begun: nothing, some of it, or zeros up to its end."""
    size = len(content)
    return [content[:n] for n in (0, 1, size // 40, size // 4, size // 2)] + [bytes(size)]


@pytest.mark.parametrize("ending", SERIES)
def test_the_newest_file_of_a_glob_is_not_written_yet(tmp_path: Path, ending: str) -> None:
    paths = [SERIES[ending](tmp_path, n) for n in range(3)]
    whole, pattern = paths[-1].read_bytes(), str(tmp_path / f"a_*.{ending}")
    for begun in parts(whole):
        paths[-1].write_bytes(begun)
        series = vfs.open(pattern, **HOW)
        assert series.head == 2
        np.testing.assert_array_equal(series[:2], FRAMES[:2])
        with pytest.raises((vfs.NotYetError, vfs.RegionError)):
            series[2]
        paths[-1].write_bytes(whole)
        np.testing.assert_array_equal(series.refresh()[...], FRAMES)
        np.testing.assert_array_equal(vfs.open(pattern, **HOW)[...], FRAMES)


@pytest.mark.filterwarnings("ignore::vfs.IncompleteWarning")
@pytest.mark.parametrize("ending", SERIES)
def test_nothing_is_shown_behind_a_file_that_is_not_whole(tmp_path: Path, ending: str) -> None:
    """An older file is an error, or no frame from it on is there; so is the newest one that nobody writes any more."""
    paths = [SERIES[ending](tmp_path, n) for n in range(3)]
    how: dict[str, Any] = {**HOW, "give_up": 600.0}
    for n in (1, 2) if ending != "img" else (2,):  # fabio decodes the first and the last one
        content = paths[n].read_bytes()
        for begun in (content[:0], content[: len(content) // 40]):
            paths[n].write_bytes(begun)
            if n == 2:
                rest([*paths, tmp_path])
            try:
                series = vfs.open(str(tmp_path / f"a_*.{ending}"), **how)
            except vfs.VfsError:
                continue
            assert ending == "npy"  # each file has its place, and says nothing of the others
            assert not series.complete
            np.testing.assert_array_equal(series[...], FRAMES[:n])
            live = series._live
            assert n == 1 or str(paths[2]) in live.stopped
        paths[n].write_bytes(content)


@pytest.mark.parametrize("write", [_mib, _frms6])
def test_the_newest_file_beside_the_one_that_is_named(
    tmp_path: Path, write: Callable[[Path], tuple[list[Path], str]]
) -> None:
    files, name = write(tmp_path)
    whole = files[-1].read_bytes()
    for begun in parts(whole):
        files[-1].write_bytes(begun)
        series = vfs.open(tmp_path / name, **HOW)
        assert series.head == 2
        assert not series.complete
        np.testing.assert_array_equal(series[(0, 1)[-series.ndim + 2 :]], FRAMES[1])
        files[-1].write_bytes(whole)
        np.testing.assert_array_equal(np.asarray(series.refresh()[...]).reshape(FRAMES.shape), FRAMES)


@pytest.mark.parametrize("write", [_mib, _frms6])
@pytest.mark.parametrize("begun", [0, 20])
def test_a_file_that_begins_while_its_set_is_looked_at(
    tmp_path: Path, write: Callable[[Path], tuple[list[Path], str]], begun: int
) -> None:
    """It adds no frame at first, and the folder does not change when it grows."""
    files, name = write(tmp_path)
    whole = files[-1].read_bytes()
    files[-1].unlink()
    series = vfs.open(tmp_path / name, **HOW)
    live = series._live
    for content, head in ((b"", 2), (whole[:begun], 2), (whole, 3)):
        files[-1].write_bytes(content)
        live._trust.end()
        assert series.head == head
    np.testing.assert_array_equal(np.asarray(series.refresh()[...]).reshape(FRAMES.shape), FRAMES)
