"""What a pass over much more than the cache holds takes of memory, and what a dask graph holds: counted, not timed."""

from __future__ import annotations

import gc
import json
import tracemalloc
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vfs
from vfs.cache import ChunkCache
from vfs.testing.writers import write_raw

LIMIT = 1 << 20
FRAME = 64 * 64 * 2


def opened(folder: Path, kind: str, frames: int, **options: Any) -> vfs.VirtualArray:
    """A set of so many frames of 8 KiB and a cache of 1 MiB."""
    folder.mkdir()
    values = np.random.default_rng(0).integers(0, 50, (frames, 64, 64)).astype("<u2")
    if kind == "raw":
        (path,) = write_raw(folder, values)
        return vfs.open(path, format="raw", stored_dtype="<u2", sig_shape=(64, 64), cache=ChunkCache(LIMIT), backend="buffered", **options)
    data, blocks = b"", []
    for n in range(0, frames, 8):
        part = zlib.compress(values[n : n + 8].tobytes(), 1)
        blocks.append({"file": 0, "offset": len(data), "origin": [n, 0, 0], "shape": [8, 64, 64], "codec": {"id": "zlib"}, "nbytes": len(part)})
        data += part
    (folder / "blocks.bin").write_bytes(data)
    document = {"vfs": 1, "dtype": "<u2", "shape": [frames, 64, 64], "files": ["blocks.bin"], "blocks": blocks}
    (folder / "set.vfs.json").write_text(json.dumps(document))
    return vfs.open(folder / "set.vfs.json", cache=ChunkCache(LIMIT), backend="buffered", **options)


def tiles(array: vfs.VirtualArray) -> None:
    for _, tile in array.tiles(workers=2):
        tile.sum()


def chunks(array: vfs.VirtualArray) -> None:
    for position in np.ndindex(array.grid.counts):
        array.cached_chunk(position)


def frames(array: vfs.VirtualArray) -> None:
    for n in range(len(array)):
        array[n]


def through_zarr(array: vfs.VirtualArray) -> None:
    z = array.zarr()
    for n in range(0, len(array), 8):
        z[n : n + 8]


def peak(act: Callable[[vfs.VirtualArray], None], array: vfs.VirtualArray) -> int:
    """Most bytes held at once, above what is held before."""
    gc.collect()
    tracemalloc.start()
    try:
        act(array)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("act", [tiles, chunks, frames, through_zarr])
@pytest.mark.parametrize(
    ("kind", "options"),
    [("raw", {"chunks": "128KiB"}), ("raw", {"chunks": "8KiB", "dtype": "f4"}), ("raw", {"chunks": (-1, 2, 2)}), ("blocks", {"chunks": (8, -1, -1)})],
)
def test_memory_is_flat_over_ten_times_the_cache(tmp_path: Path, kind: str, options: dict[str, Any], act: Callable[[vfs.VirtualArray], None]) -> None:
    act(opened(tmp_path / "warm", kind, 16, **options))  # what is made once
    few, many = (opened(tmp_path / str(times), kind, times * LIMIT // FRAME, **options) for times in (3, 10))
    assert peak(act, many) <= peak(act, few) + LIMIT // 2  # threads do not always have the same under way
    assert many.nbytes >= 10 * LIMIT
    assert many.cache.held <= LIMIT


def test_a_dask_graph_holds_nothing_a_chunk(tmp_path: Path) -> None:
    """It is as long for 1,280 chunks as for one: an array and a rule."""
    dask_array = pytest.importorskip("dask.array")
    lengths = []
    for name, shape in (("one", (-1, -1, -1)), ("many", (1, 64, 64))):
        lazy = dask_array.from_zarr(opened(tmp_path / name, "raw", 1280, chunks=shape).zarr())
        lengths.append([len(layer) for layer in lazy.__dask_graph__().layers.values() if layer.is_materialized()])
        assert lazy.npartitions == (1 if name == "one" else 1280)
    assert lengths == [[1], [1]]
