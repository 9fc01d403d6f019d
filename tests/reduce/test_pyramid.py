"""Levels of images: they equal numpy, each tile is decoded once for all of them, and failures are errors."""

from __future__ import annotations

import os
import threading
import zlib
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as some

import vfs
from tests.engine.support import failing, halved, in_memory
from vfs.backends.mapped import MmapBackend
from vfs.engine.abandon import AbandonedError, asked
from vfs.engine.array import ArrayReader
from vfs.engine.cache import ChunkCache
from vfs.errors import OptionError, SourceError
from vfs.folder_tree.plans import folder_tree
from vfs.formats.tiff_structure.segments import SegmentDecoder
from vfs.model.open_options import OpenOptions
from vfs.model.region import Region
from vfs.reduce import pyramid
from vfs.testing.inside import reader_of, set_of
from vfs.testing.tiff_writers import write_tiff

DTYPES = ["u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8", "f2", "f4", "f8", "?"]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Levels of small images: blocks of 8 × 8 pixels make 4 × 4 of the next level."""
    monkeypatch.setattr(pyramid, "COARSEST", 4)
    monkeypatch.setattr(pyramid, "UNIT", 8)
    monkeypatch.setattr(pyramid, "LINE", 8)
    monkeypatch.setattr(pyramid, "BAND", 1024)


@given(data=st.data(), dtype=st.sampled_from(DTYPES))
def test_halves_equal_numpy(data: st.DataObject, dtype: str) -> None:
    shape = data.draw(some.array_shapes(min_dims=2, max_dims=3, max_side=9))
    images = data.draw(some.arrays(np.dtype(dtype).newbyteorder(data.draw(st.sampled_from("<>"))), shape))
    made = pyramid.halved(images)
    assert made.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(made, halved(images))
    np.testing.assert_array_equal(pyramid.halved(images, nearest=True), images[..., ::2, ::2])


@pytest.mark.usefixtures("small")
@given(data=st.data(), dtype=st.sampled_from(["u1", "i2", "f4"]))
def test_levels_equal_numpy(data: st.DataObject, dtype: str) -> None:
    shape = data.draw(st.tuples(st.integers(1, 3), st.integers(1, 40), st.integers(1, 40)), "shape")
    images = np.random.default_rng(0).integers(0, 127, shape).astype(dtype)
    array = in_memory(images, cache=ChunkCache(data.draw(st.sampled_from([0, 4000, 1 << 20]), "cache")))
    levels = pyramid.levels(array)
    assert max([n for level in levels[-1:] for n in level.shape[1:]], default=0) <= 4
    expected = []
    for level in levels:
        images = halved(images)
        assert level.dtype == images.dtype
        expected.append(images)
    for number in data.draw(st.permutations(range(len(levels))), "order"):
        bounds = [sorted(data.draw(st.tuples(st.integers(0, n), st.integers(0, n)))) for n in levels[number].shape]
        part = tuple(slice(a, b) for a, b in bounds)
        np.testing.assert_array_equal(levels[number][part], expected[number][part])


LAYOUTS: dict[str, dict[str, Any]] = {"tiles": {"tile": (16, 16)}, "odd": {"tile": (48, 16)}, "strips": {"strip": 3}}


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> Counter[int]:
    """How often each tile was decoded."""
    seen: Counter[int] = Counter()
    real, lock = SegmentDecoder.decode_block, threading.Lock()

    def decode_block(self: SegmentDecoder, data: np.ndarray, block: int, shape: tuple[int, ...]) -> np.ndarray:
        with lock:
            seen[block] += 1
        return real(self, data, block, shape)

    monkeypatch.setattr(SegmentDecoder, "decode_block", decode_block)
    return seen


def tiff(folder: Path, images: np.ndarray, layout: str) -> ArrayReader:
    path = write_tiff(folder / "a.tif", list(images), compression=8, encode=zlib.compress, **LAYOUTS[layout])
    return reader_of(vfs.open(path))


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("layout", LAYOUTS)
def test_one_pass_makes_all_levels_for_all(tmp_path: Path, layout: str, decoded: Counter[int]) -> None:
    images = np.random.default_rng(1).integers(0, 60000, (1, 150, 130)).astype("u2")
    levels = pyramid.levels(tiff(tmp_path, images, layout))
    assert len(levels) > 4
    with ThreadPoolExecutor(8) as pool:  # of many readers at once, too
        tops = list(pool.map(lambda _: levels[-1][...], range(16)))
    tiles = {"tiles": 10 * 9, "odd": 4 * 9, "strips": 50}[layout]
    assert (len(decoded), set(decoded.values())) == (tiles, {1})
    expected = images[0]
    for level in levels:
        expected = halved(expected)
        np.testing.assert_array_equal(level[...], expected)
    assert all((top == expected).all() for top in tops)
    assert set(decoded.values()) == {1}, "the other levels were left in the cache"


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(("share", "rest"), [(4, 2), (2, 1)])
def test_a_pass_decodes_once_what_the_cache_cannot_hold(
    tmp_path: Path, decoded: Counter[int], share: int, rest: int
) -> None:
    """The first blocks that a pass makes ahead were dropped by the time when it came to them, and all made again. And
    blocks of the first level drove out those of the levels above. Of a level that does not fit it keeps nothing.
    """
    array = tiff(tmp_path, np.zeros((1, 600, 520), "u2"), "tiles")
    levels = pyramid.levels(array)
    array.cache.limit = levels[0].nbytes // share
    for level in reversed(levels[rest:]):
        assert not level[...].any()
    assert (len(decoded), set(decoded.values())) == (38 * 33, {1})
    assert array.cache.held <= sum(level.nbytes for level in levels[rest:])


@pytest.mark.usefixtures("small")
def test_a_pass_keeps_no_tiles(tmp_path: Path) -> None:
    """Else they would drive out the levels, of an image that is larger than the cache."""
    images = np.zeros((1, 150, 130), "u2")
    array = tiff(tmp_path, images, "tiles")
    levels = pyramid.levels(array)
    assert not levels[-1][...].any()
    assert array.cache.held <= sum(level.nbytes for level in levels)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("dtype", ["<u2", ">u2", ">f4"])
def test_a_block_of_a_plain_image_maps_the_lines_under_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dtype: str
) -> None:
    """It took a view of the whole image, so that all of one above 768 MiB was mapped anew for each block. Bytes that
    are the other way round are put in order on the way.
    """
    image = np.random.default_rng(5).integers(0, 99, (41, 60)).astype(dtype)
    np.save(tmp_path / "a.npy", image)
    seen, span = [], MmapBackend.span

    def counted(self: MmapBackend, file: int, start: int, stop: int, *how: Any) -> np.ndarray:
        seen.append(stop - start)
        return span(self, file, start, stop, *how)

    monkeypatch.setattr(MmapBackend, "span", counted)
    (level, *_) = pyramid.levels(reader_of(vfs.open(tmp_path / "a.npy")))
    np.testing.assert_array_equal(level[...], halved(image))
    assert max(seen) <= 8 * 60 * image.itemsize
    assert level.dtype.isnative


@pytest.mark.usefixtures("small")
def test_what_cannot_be_read_is_an_error() -> None:
    array, backend = failing(np.ones((1, 40, 40), "u2"), copies=True)
    levels = pyramid.levels(array)
    backend.fails = lambda file, start, stop: start <= 500 < stop
    with pytest.raises(SourceError):
        levels[-1][...]
    with pytest.raises(SourceError):
        levels[0][0, 3, 5]
    assert (levels[0][0, 16:20] == 1).all(), "what lies elsewhere can be read"
    backend.fails = lambda file, start, stop: False
    assert (levels[-1][...] == 1).all()


@pytest.mark.usefixtures("small")
def test_a_pass_ends_with_its_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    levels = pyramid.levels(in_memory(np.ones((1, 150, 130), "u2")))
    monkeypatch.setattr("vfs.engine.abandon.SECONDS", -1.0)
    monkeypatch.setattr(asked, "gone", lambda: True)
    with pytest.raises(AbandonedError):
        levels[-1][...]
    monkeypatch.setattr(asked, "gone", None)
    assert (levels[-1][...] == 1).all()


def test_blocks_of_a_file_that_was_touched_are_made_anew(
    tmp_path: Path, small: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A block that somebody still holds is of the file as it was."""
    path = tmp_path / "image.npy"
    np.save(path, np.zeros((60, 52), "u1"))
    array = reader_of(vfs.open(path, accept_changes=True))
    level = pyramid.levels(array)[0]
    made, held = pyramid._Pyramid._made, []

    def keep(self: Any, number: int, region: Any) -> np.ndarray:
        held.append(made(self, number, region))
        return held[-1]

    monkeypatch.setattr(pyramid._Pyramid, "_made", keep)
    assert not level[:].any()
    np.save(path, np.ones((60, 52), "u1"))
    os.utime(path, ns=(1, 1))
    assert array[0, 0] == 1
    assert (level[:] == 1).all()


def kept(folder: Path, path: str | os.PathLike[str], **how: Any) -> list[ArrayReader]:
    """The levels of an image that is opened anew, which are kept in a folder: the coarsest first."""
    arrays = set_of(vfs.open_group(path, pyramid_cache=folder, **how)).tree.images["data"].levels
    return arrays[:0:-1]


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def _damaged(path: Path) -> None:
    whole = bytearray(path.read_bytes())
    whole[-7] ^= 4
    path.write_bytes(whole)


def _foreign(path: Path) -> None:
    """As long as the right one."""
    path.write_bytes(b"?" * path.stat().st_size)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_next_run_computes_nothing(tmp_path: Path, layout: str, decoded: Counter[int]) -> None:
    (tmp_path / "in").mkdir()
    image = np.random.default_rng(3).integers(0, 60000, (150, 130)).astype("u2")
    path = tiff(tmp_path / "in", image[None], layout).files[0]
    cache, expected = tmp_path / "levels", [image := halved(image) for _ in range(6)]

    def look(computes: bool, **how: Any) -> None:
        decoded.clear()
        found = kept(cache, path, **how)
        for level, right in zip(found, reversed(expected), strict=True):
            np.testing.assert_array_equal(level[...], right)
        assert bool(decoded) == computes
        assert set(decoded.values()) <= {1}

    look(True)
    look(False)
    look(False, chunks=(50, 50), derive={"sum": vfs.Sum()})  # changes no number
    look(True, dtype="u4")
    os.chmod(path, 0o600)  # its time of change is another one: nothing tells whether its pixels are
    look(True)
    look(False)
    blocks = [one for one in sorted(cache.rglob("*")) if one.is_file()]
    for spoil in (_cut, _damaged, _foreign, os.unlink):
        for one in blocks:
            spoil(one)
        look(True)
        look(False)
    assert sorted(tmp_path.iterdir()) == [tmp_path / "in", cache], "nothing is written elsewhere"
    assert os.listdir(tmp_path / "in") == ["a.tif"]


@pytest.mark.usefixtures("small")
def test_a_run_that_was_ended_is_gone_on_from(
    tmp_path: Path, decoded: Counter[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "in").mkdir()
    image = np.random.default_rng(4).integers(0, 60000, (150, 130)).astype("u2")
    path = tiff(tmp_path / "in", image[None], "tiles").files[0]
    made = pyramid._Pyramid._made
    count = iter(range(1000))

    def ends(self: Any, number: int, region: Region) -> np.ndarray:
        if next(count) > 40:
            raise MemoryError
        return made(self, number, region)

    with monkeypatch.context() as once:
        once.setattr(pyramid._Pyramid, "_made", ends)
        with pytest.raises(MemoryError):
            kept(tmp_path / "levels", path)[0].read()
    assert 0 < len(decoded) < 10 * 9
    decoded.clear()
    found = kept(tmp_path / "levels", path)
    found[0].read()
    assert 0 < len(decoded) < 10 * 9
    for level in reversed(found):
        np.testing.assert_array_equal(level[...], image := halved(image))


@pytest.mark.usefixtures("small")
def test_levels_that_cannot_be_kept(tmp_path: Path) -> None:
    """Nor are those of files that may change, or that have changed while they were read."""
    (tmp_path / "in").mkdir()
    image = np.ones((60, 52), "u1")
    np.save(tmp_path / "in/a.npy", image)
    cache = tmp_path / "levels"
    assert (kept(cache, tmp_path / "in/a.npy", accept_changes=True)[0][...] == 1).all()
    full = mock.patch("vfs.new_files.os.replace", side_effect=OSError(28, "No space left on device"))
    with full, mock.patch("vfs.reduce.level_store.log.warning") as warning:
        for _ in range(2):
            assert (kept(cache, tmp_path / "in/a.npy")[0][...] == 1).all()
    assert not [one for one in cache.rglob("*") if one.is_file()]
    ((said, *words),) = [call.args for call in warning.call_args_list]
    said %= tuple(words)
    assert said.startswith("pyramid_cache='/")
    assert said.endswith(": levels cannot be kept: No space left on device; they are computed again")
    for place, why in ((tmp_path / "in", "data lies there"), (tmp_path / "in/a.npy", "cannot be used: File exists")):
        with pytest.raises(OptionError, match=f"pyramid_cache='/.*: {why}"):
            vfs.open(tmp_path / "in/a.npy", pyramid_cache=place)
    with pytest.raises(OptionError, match=r"pyramid_cache=.*: lies in .*, where nothing is written"):
        folder_tree(tmp_path, OpenOptions(pyramid_cache=cache))
