"""Levels of images are made of the blocks that an export reads anyway."""

from __future__ import annotations

import itertools
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

import vfs
from tests.engine.support import halved
from tests.zarr.support import StoppedError, content, stop_after
from vfs.engine import other_axes
from vfs.engine.cache import ChunkCache
from vfs.reduce import pyramid
from vfs.reduce.level_store import StoredLevels
from vfs.testing.backends import CountingBackend
from vfs.testing.inside import reader_of
from vfs.zarr.export import passing
from vfs.zarr.export import plan as planning

pytestmark = pytest.mark.zarr


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Levels of small images, in small units and batches."""
    monkeypatch.setattr(pyramid, "COARSEST", 8)
    monkeypatch.setattr(pyramid, "UNIT", 16)
    monkeypatch.setattr(planning, "UNIT", 1 << 12)
    monkeypatch.setattr(planning, "BATCH", 1 << 11)
    monkeypatch.setattr(planning, "WIDE", 1 << 11)


IMAGES = np.random.default_rng(3).integers(0, 4000, (3, 70, 97)).astype(np.uint16)


def opened(folder: Path) -> tuple[vfs.VirtualArray, CountingBackend]:
    source = folder / "s.raw"
    IMAGES.tofile(source)
    how: dict[str, Any] = {"format": "raw", "stored_dtype": "u2", "sig_shape": IMAGES.shape[1:]}
    a = vfs.open(source, backend="buffered", **how)
    reader = reader_of(a)
    reader.backend = counting = CountingBackend(reader.backend)
    reader.cache = ChunkCache(0)
    return a, counting


def check(folder: Path) -> None:
    expected = IMAGES
    for number in itertools.count():
        try:
            made: Any = zarr.open_array(folder / str(number), mode="r")
        except FileNotFoundError:
            break
        np.testing.assert_array_equal(made[:], expected)
        expected = halved(expected)
    assert number > 3


@pytest.fixture
def tiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Show images in chunks of 16 × 16 pixels, many in a batch and many batches in an image."""
    monkeypatch.setattr(other_axes, "SMALL", 1)
    monkeypatch.setattr(other_axes, "SIDE", 16)


@pytest.mark.parametrize("held", [1 << 20, 1000], ids=["in memory", "in a file"])
@pytest.mark.parametrize("shards", [None, (1, -1, -1), "4KiB"])
@pytest.mark.parametrize("side", [16, 7], ids=["even", "odd"])
@pytest.mark.usefixtures("tiled")
def test_the_source_is_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, held: int, shards: Any, side: int
) -> None:
    monkeypatch.setattr(passing, "HELD", held)
    monkeypatch.setattr(other_axes, "SIDE", side)
    monkeypatch.setattr(planning, "LARGE", 1 << 12)
    monkeypatch.setattr(planning, "WIDE", 1 << 12)  # whole lines: with parts of short ones comes what is between them
    a, counting = opened(tmp_path)
    vfs.export(a, tmp_path / "o.ome.zarr", shards=shards, verify=True)
    assert counting.nbytes == IMAGES.nbytes + IMAGES[0].nbytes, "all, and one image for its contrast"
    check(tmp_path / "o.ome.zarr")


@pytest.mark.usefixtures("tiled")
@pytest.mark.parametrize("side", [16, 7], ids=["even", "odd"])
def test_how_it_is_made_does_not_show(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, side: int) -> None:
    """Levels that are made in passing, read from the source, or partly so after an interruption are the same files."""
    monkeypatch.setattr(other_axes, "SIDE", side)
    a, _ = opened(tmp_path)
    shards = "4KiB"
    vfs.export(a, tmp_path / "o.ome.zarr", shards=shards, verify=True)
    check(tmp_path / "o.ome.zarr")
    expected = content(tmp_path / "o.ome.zarr")
    with monkeypatch.context() as patch:
        patch.setattr(passing, "_blocks", lambda level: None)
        vfs.export(a, tmp_path / "later.ome.zarr", shards=shards)
    assert content(tmp_path / "later.ome.zarr") == expected
    target = tmp_path / "stopped.ome.zarr"
    for limit in (20_000, 35_000, 48_000):
        with pytest.raises(StoppedError):
            vfs.export(a, target, shards=shards, resume=True, progress=stop_after(limit))
    vfs.export(a, target, shards=shards, resume=True)
    assert content(target) == expected
    for name, limits in (("whole.ome.zarr.zip", ()), ("o.ome.zarr.zip", (20_000, 35_000, 48_000))):
        for limit in limits:
            with pytest.raises(StoppedError):
                vfs.export(a, tmp_path / name, shards=shards, resume=True, progress=stop_after(limit))
        vfs.export(a, tmp_path / name, shards=shards, resume=True)
    assert (tmp_path / "o.ome.zarr.zip").read_bytes() == (tmp_path / "whole.ome.zarr.zip").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir() if ".part" in path.name) == []


@pytest.mark.usefixtures("tiled")
def test_going_on_reads_the_levels_that_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pixels under them were written before the interruption, and are not read again."""
    (tmp_path / "in").mkdir()
    IMAGES.tofile(tmp_path / "in/s.raw")
    how: dict[str, Any] = {"format": "raw", "stored_dtype": "u2", "sig_shape": IMAGES.shape[1:]}
    again = partial(vfs.open_group, tmp_path / "in/s.raw", pyramid_cache=tmp_path / "levels", **how)
    for level in again().store(face="ome").face.arrays.values():
        level[...]
    target, read = tmp_path / "o.ome.zarr", []
    with pytest.raises(StoppedError):
        vfs.export(again(), target, shards="4KiB", progress=stop_after(30_000))
    get = StoredLevels.get
    monkeypatch.setattr(StoredLevels, "get", lambda self, *block: read.append(block) or get(self, *block))  # type: ignore[func-returns-value]
    monkeypatch.setattr(pyramid._Pyramid, "_made", None)
    vfs.export(again(), target, shards="4KiB", resume=True)
    assert read
    check(target)
