"""Streams of tiles, selections of frames, and what a scan shows."""

from __future__ import annotations

import errno
import json
import os
import threading
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vfs
from vfs.engine.chunk_access import Chunks
from vfs.engine.chunking import COSTLY, ChunkingInput, negotiate
from vfs.model import coverage
from vfs.testing.inside import reader_of
from vfs.testing.writers import write_mib, write_npy, write_raw


@pytest.fixture
def frames() -> np.ndarray:
    return np.random.default_rng(3).integers(0, 60000, (30, 64, 64)).astype(">u2")


def opened(folder: Path, frames: np.ndarray, **options: Any) -> vfs.VirtualArray:
    paths = write_raw(folder, frames, frame_header=7, file_header=3, files=3)
    return vfs.open(paths, format="raw", dtype=">u2", sig_shape=(64, 64), frame_header=7, file_header=3, **options)


@pytest.mark.parametrize("workers", [0, 1, 3, None])
@pytest.mark.parametrize("access", [None, "frames", "scan", "balanced"])
def test_tiles_are_the_array(tmp_path: Path, frames: np.ndarray, workers: int | None, access: str | None) -> None:
    array = opened(tmp_path, frames, nav_shape=(5, 6))
    seen = np.zeros((5, 6, 64, 64), int)
    for region, tile in array.tiles(access=access, workers=workers):
        assert (tile == frames.reshape(5, 6, 64, 64)[region.slices]).all()
        seen[region.slices] += 1
    assert (seen == 1).all()


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("options", [{}, {"dark": np.zeros((64, 64))}, {"backend": "buffered"}, {"chunks": (7, 4, 4)}])
def test_tiles_may_share_memory(tmp_path: Path, frames: np.ndarray, workers: int, options: dict[str, Any]) -> None:
    array = opened(tmp_path, frames, **options)
    places, n = set(), 0
    for region, tile in array.tiles(None if "chunks" in options else (2, -1, -1), workers=workers, reuse=True):
        np.testing.assert_array_equal(tile, frames[region.slices].astype(array.dtype))
        places.add(tile.ctypes.data)
        n += 1
    assert len(places) <= 2 * workers + 1 < n


def test_tiles_that_lie_in_mapped_files_are_views_of_these(tmp_path: Path, frames: np.ndarray) -> None:
    array = vfs.open(write_npy(tmp_path, frames.astype("<u2")))
    for region, tile in array.tiles((2, -1, -1), reuse=True):
        assert not tile.flags.writeable
        np.testing.assert_array_equal(tile, frames[region.slices])


def test_tiles_of_selected_frames(tmp_path: Path, frames: np.ndarray) -> None:
    array = opened(tmp_path, frames, nav_shape=(5, 6))
    mask = np.random.default_rng(0).random((5, 6)) < 0.4
    got = np.concatenate([tile for _, tile in array.tiles((4, -1, -1), roi=mask)])
    assert (got == frames.reshape(5, 6, 64, 64)[mask]).all()


def test_tiles_of_frames_that_a_file_selects(tmp_path: Path, frames: np.ndarray) -> None:
    np.save(tmp_path / "roi.npy", [3, 29, 3])
    for name in (tmp_path / "roi.npy", str(tmp_path / "roi.npy")):
        assert (
            np.concatenate([tile for _, tile in opened(tmp_path, frames).tiles(roi=name)]) == frames[[3, 29, 3]]
        ).all()


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ({"workers": "2"}, "workers='2'"),
        ({"workers": float("nan")}, "workers=nan"),  # no thread was ever started, and the first tile waited for
        ({"workers": 1.5}, "workers=1.5"),
        ({"shape": float("nan")}, "shape=nan"),
        ({"shape": 2.5}, "shape=2.5"),
        ({"shape": object()}, "shape=<object"),
        ({"access": 3}, "access=3"),
        ({"access": "auto"}, "access='auto'"),
        ({"access": float("nan")}, "access=nan"),
        ({"shape": "1MiB", "access": "scan"}, "expected one of them"),
        ({"roi": [[1], [1, 2]]}, "lists of unequal lengths"),
        ({"roi": "gone.npy"}, "gone.npy: no such file"),
        ({"roi": [5, 30, -2]}, "roi selects 3 positions from -2 to 30; expected at least one, all from 0 to 29"),
        ({"roi": np.zeros(30, bool)}, "roi selects no position"),
    ],
)
def test_what_does_not_fit_is_said_before_anything_is_read(
    tmp_path: Path, frames: np.ndarray, what: dict[str, Any], message: str
) -> None:
    with pytest.raises(vfs.OptionError, match=message):
        opened(tmp_path, frames).tiles(**what)


@pytest.mark.parametrize("shape", [np.int64(70_000), [4, -1, -1], np.array([4, -1, -1])])
def test_shapes_of_tiles_as_numpy_has_them(tmp_path: Path, frames: np.ndarray, shape: Any) -> None:
    assert (np.concatenate([tile for _, tile in opened(tmp_path, frames).tiles(shape)]) == frames).all()


def test_any_number_of_workers(tmp_path: Path, frames: np.ndarray) -> None:
    most, before = 0, threading.active_count()
    for _ in opened(tmp_path, frames).tiles((1, 8, 8), workers=10**12):
        most = max(most, threading.active_count())
    assert most - before < 400


def test_leaving_early_leaves_no_thread(tmp_path: Path, frames: np.ndarray) -> None:
    before = threading.active_count()
    for _ in opened(tmp_path, frames).tiles((1, -1, -1), workers=3):
        break
    assert threading.active_count() == before


def test_a_failing_read_ends_the_stream_with_its_error(tmp_path: Path, frames: np.ndarray) -> None:
    array = opened(tmp_path, frames)
    Path(array.files[1]).unlink()
    with pytest.raises(vfs.SourceError, match="part1"):
        list(array.tiles((1, -1, -1), workers=2))


def test_chunks_that_take_little_of_every_frame_are_read_together(tmp_path: Path, frames: np.ndarray) -> None:
    array = opened(tmp_path, frames, chunks=(30, 4, 4))
    asked: list[vfs.Region] = []
    read = reader_of(array).read

    def counted(region: Any = None, out: Any = None) -> np.ndarray:
        asked.append(region)
        return read(region, out)

    reader_of(array).read = counted  # type: ignore[method-assign]
    for position in reader_of(array).grid.touched(vfs.Region.whole(array.shape)):
        assert (Chunks(reader_of(array)).make(position) == frames[reader_of(array).grid.region(position).slices]).all()
    assert len(asked) == 1  # 256 chunks, one pass over the frames


def test_what_is_read_together_keeps_its_proportion_to_the_files(tmp_path: Path) -> None:
    block = {"file": 0, "offset": 0, "origin": [0, 0, 0], "shape": [1, 64, 64]}
    (tmp_path / "a.bin").write_bytes(bytes(range(256)) * 16)
    (tmp_path / "a.vfs.json").write_text(
        json.dumps({"vfs": 1, "dtype": "u1", "shape": [65_536, 64, 64], "files": ["a.bin"], "blocks": [block]})
    )
    array = vfs.open(tmp_path / "a.vfs.json", chunks=(65_536, 1, 4))
    Chunks(reader_of(array)).make((0, 0, 0))
    tracemalloc.start()
    try:
        got = Chunks(reader_of(array)).make((0, 63, 2))
        grown = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert got[0].tolist() == [[200, 201, 202, 203]]
    assert grown < 10 * got.nbytes  # of 4 KiB of files it read 128 MiB


def test_a_selection_goes_back_to_where_it_came_from(tmp_path: Path, frames: np.ndarray) -> None:
    mask = np.random.default_rng(0).random((5, 6)) < 0.4
    array = opened(tmp_path, frames, nav_shape=(5, 6), roi=mask)
    assert array.shape == (int(mask.sum()), 64, 64)
    sums = array[...].sum(axis=(1, 2))
    back = array.unroi(sums.astype(float))
    assert np.array_equal(back[mask], sums)
    assert np.isnan(back[~mask]).all()
    assert array.unroi(sums)[~mask].tolist() == [0] * int((~mask).sum())
    assert not array.unroi(sums > 0)[~mask].any()
    assert np.isnat(array.unroi(np.full(len(sums), np.datetime64("2020-01-01"))))[~mask].all()
    assert np.isnat(array.unroi(np.full(len(sums), np.timedelta64(1, "s"))))[~mask].all()
    assert set(array.unroi(np.full(len(sums), "a"))[~mask]) <= {""}
    with pytest.raises(
        vfs.OptionError, match=r"takes 9,007,199,254,740,992 bytes, .* has that of the 2 selected frames"
    ):
        coverage.put_back(np.zeros(2), np.arange(2), (1 << 30, 1 << 20))
    if hasattr(np.dtypes, "StringDType"):  # numpy 2
        assert set(array.unroi(np.full(len(sums), "a", np.dtypes.StringDType()))[~mask]) == {""}  # was "0"
    assert all(x is None for x in array.unroi(np.full(len(sums), 1, object))[~mask])
    with pytest.raises(vfs.OptionError, match="expected \\["):
        array.unroi(sums[1:])
    with pytest.raises(vfs.OptionError, match="opened with roi"):
        opened(tmp_path, frames).unroi(sums)


def test_which_results_are_of_stored_frames(tmp_path: Path, frames: np.ndarray) -> None:
    mask = np.random.default_rng(0).random((6, 6)) < 0.4
    mask[0, 0] = mask[5, 5] = True  # blank: before the first frame, behind the last one
    array = opened(tmp_path, frames, nav_shape=(6, 6), sync_offset=-3, roi=mask)
    there = np.arange(36).reshape(6, 6)
    np.testing.assert_array_equal(array.unroi(array.valid), mask & (there >= 3) & (there < 33))
    np.testing.assert_array_equal(array.unroi(np.ones(len(array), bool)), mask)


def test_positions_may_come_in_any_order_and_repeat(tmp_path: Path, frames: np.ndarray) -> None:
    array = opened(tmp_path, frames, roi=[7, 3, 7, 0])
    assert (array[...] == frames[[7, 3, 7, 0]]).all()


def test_valid_part_of_a_shifted_scan(tmp_path: Path, frames: np.ndarray) -> None:
    array = opened(tmp_path, frames, nav_shape=(8, 5), sync_offset=-3)
    assert array.valid.reshape(-1).tolist() == [False] * 3 + [True] * 30 + [False] * 7
    outer, inner = coverage.bounding(array.valid), coverage.inner(array.valid)
    assert outer == (slice(0, 7), slice(0, 5))
    assert inner == (slice(1, 6), slice(0, 5))
    assert not array[...][~array.valid].any()
    assert array[inner].any(axis=(-1, -2)).all()


def test_a_missing_file_is_not_valid(tmp_path: Path, frames: np.ndarray) -> None:
    path = write_mib(tmp_path, frames[:9], frames_per_file=3, missing=[1])
    with pytest.warns(vfs.IncompleteWarning, match=r"scan002\.mib is missing"):
        array = vfs.open(path, nav_shape=(9,), allow_incomplete=True)
    assert array.valid.tolist() == [True] * 3 + [False] * 3 + [True] * 3


@pytest.mark.filterwarnings("ignore::vfs.IncompleteWarning")
@pytest.mark.parametrize("roi", [None, [0, 5, 8, 3]])
@pytest.mark.parametrize("missing", [[], [0], [1], [0, 2]])
def test_blank_frames_are_counted(
    tmp_path: Path, frames: np.ndarray, missing: list[int], roi: list[int] | None
) -> None:
    path = write_mib(tmp_path, frames[:12], frames_per_file=3, missing=missing)
    for offset in (-20, -9, -1, 0, 1, 4, 11, 20):
        for count in (9, 12, 30):
            array = vfs.open(path, nav_shape=(count,), sync_offset=offset, roi=roi, allow_incomplete=True)
            assert reader_of(array).dataset.blanks == np.count_nonzero(~array.valid)


def test_costly_shapes_say_so() -> None:
    source = ChunkingInput((256, 256, 256, 256), 2, 2, 2)
    assert negotiate("auto", source).warning is None
    costly = negotiate((-1, -1, 1, 1), source)
    assert costly.shape == (256, 256, 1, 1)
    assert costly.full > COSTLY
    assert costly.warning is not None
    assert negotiate("scan", source).shape[:2] == (256, 256)
    assert negotiate("scan", ChunkingInput((50, 256, 256), 1, 1, 1 / 8, word=64)).shape[-1] % 64 == 0


def test_direct_backend_reads_the_same(tmp_path: Path, frames: np.ndarray) -> None:
    array = opened(tmp_path, frames, backend="direct")
    assert (array[...] == frames).all()
    assert (array[3:29:2, 5:60:3, 7] == frames[3:29:2, 5:60:3, 7]).all()
    size = Path(array.files[2]).stat().st_size
    with open(array.files[2], "r+b") as file:
        file.truncate(size - 1)
    with pytest.raises(vfs.SourceError, match="part2"):
        array[-1]
    assert (array[0] == frames[0]).all()


def test_direct_backend_says_where_it_is_refused(
    tmp_path: Path, frames: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    really = os.open

    def refusing(path: str, flags: int, *more: Any, **other: Any) -> int:
        if flags & os.O_DIRECT:
            raise OSError(errno.EINVAL, "Invalid argument")
        return really(path, flags, *more, **other)

    array = opened(tmp_path, frames, backend="direct")
    monkeypatch.setattr(os, "open", refusing)
    with pytest.warns(RuntimeWarning, match="direct I/O is refused"):
        assert (array[...] == frames).all()
