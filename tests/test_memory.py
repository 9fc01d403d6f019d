"""What a pass over much more than the cache holds takes of memory, and what a dask graph holds: counted, not timed."""

from __future__ import annotations

import gc
import json
import os
import pickle
import tracemalloc
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vfs
from tests.waiting import eventually
from vfs.engine.cache import ChunkCache
from vfs.engine.chunk_access import Chunks
from vfs.live.file_watch import FrameFingerprint
from vfs.pictures.frames import FrameView
from vfs.reduce.partitions import PartOfPass
from vfs.testing.frame_writers import write_tvips
from vfs.testing.inside import reader_of
from vfs.testing.plane_writers import write_fits
from vfs.testing.writers import write_raw

LIMIT = 1 << 20
FRAME = 64 * 64 * 2


def opened(folder: Path, kind: str, frames: int, **options: Any) -> vfs.VirtualArray:
    """A set of so many frames of 8 KiB and a cache of 1 MiB."""
    folder.mkdir()
    values = np.random.default_rng(0).integers(0, 50, (frames, 64, 64)).astype("<u2")
    if kind == "raw":
        (path,) = write_raw(folder, values)
        return vfs.open(
            path,
            format="raw",
            stored_dtype="<u2",
            sig_shape=(64, 64),
            cache=ChunkCache(LIMIT),
            backend="buffered",
            **options,
        )
    data, blocks = b"", []
    for n in range(0, frames, 8):
        part = zlib.compress(values[n : n + 8].tobytes(), 1)
        blocks.append(
            {
                "file": 0,
                "offset": len(data),
                "origin": [n, 0, 0],
                "shape": [8, 64, 64],
                "codec": {"id": "zlib"},
                "nbytes": len(part),
            }
        )
        data += part
    (folder / "blocks.bin").write_bytes(data)
    document = {"vfs": 1, "dtype": "<u2", "shape": [frames, 64, 64], "files": ["blocks.bin"], "blocks": blocks}
    (folder / "set.vfs.json").write_text(json.dumps(document))
    return vfs.open(folder / "set.vfs.json", cache=ChunkCache(LIMIT), backend="buffered", **options)


def tiles(array: vfs.VirtualArray) -> None:
    for _, tile in array.tiles(workers=2):
        tile.sum()


def chunks(array: vfs.VirtualArray) -> None:
    for position in np.ndindex(reader_of(array).grid.counts):
        Chunks(reader_of(array)).cached(position)


def frames(array: vfs.VirtualArray) -> None:
    for n in range(len(array)):
        array[n]


def through_zarr(array: vfs.VirtualArray) -> None:
    z = array.zarr()
    for n in range(0, len(array), 8):
        z[n : n + 8]


def peak(act: Callable[[vfs.VirtualArray], None], array: vfs.VirtualArray) -> int:
    """Most bytes held at once, above what is held before; nothing is in the cache then."""
    reader_of(array).cache.clear()
    gc.collect()
    tracemalloc.start()
    try:
        act(array)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


SETS: list[tuple[str, dict[str, Any]]] = [
    ("raw", {"chunks": "128KiB"}),
    ("raw", {"chunks": "8KiB", "dtype": "f4"}),
    ("raw", {"chunks": (-1, 2, 2)}),
    ("blocks", {"chunks": (8, -1, -1)}),
]
ACTS = [tiles, frames, chunks, through_zarr]


@pytest.mark.parametrize(
    ("kind", "options", "act"),
    [
        pytest.param(kind, options, act, marks=() if a == k else pytest.mark.thorough)  # by day each set and act once
        for k, (kind, options) in enumerate(SETS)
        for a, act in enumerate(ACTS)
    ],
)
def test_memory_is_flat_over_ten_times_the_cache(
    tmp_path: Path, kind: str, options: dict[str, Any], act: Callable[[vfs.VirtualArray], None]
) -> None:
    act(opened(tmp_path / "warm", kind, 3 * LIMIT // FRAME, **options))  # what is made once, scratch for windows too
    few, many = (opened(tmp_path / str(times), kind, times * LIMIT // FRAME, **options) for times in (3, 10))
    most = peak(act, few) + LIMIT // 2
    # Threads do not always have the same under way: what grows with the set does so each time
    assert any(peak(act, many) <= most for _ in range(3))
    assert many.nbytes >= 10 * LIMIT
    assert reader_of(many).cache.held <= LIMIT


def test_a_scan_of_many_positions_takes_what_its_results_take(tmp_path: Path) -> None:
    def summed(array: vfs.VirtualArray) -> None:
        assert array.reduce(x=vfs.FrameSum(), workers=0)["x"].valid.all()

    count = 1 << 21
    (path,) = write_raw(tmp_path, np.ones((count, 1, 1), "u1"))
    array = vfs.open(path, format="raw", dtype="u1", sig_shape=(1, 1), nav_shape=(2048, 1024))
    assert peak(summed, array) < 28 * count  # the result has 8 for each, tables of frames 23 MB


def part_of_a_pass(array: vfs.VirtualArray) -> None:
    made = PartOfPass(reader_of(array), {"s": vfs.Sum(), "each": vfs.FrameSum()}, None, 1, 9)
    made.take(1, 9)
    assert (made.counted, made.to_take) == ([7], len(array) - 2)
    assert [(len(buffer), made.origin) for buffer in made.shared["each"].values()] == [(8, 1)]


def the_middle(array: vfs.VirtualArray) -> None:
    """Of the last quarter of the positions, which is all that is stored."""
    late = vfs.open(array.files[0], format="raw", dtype="u1", sig_shape=(1, 1), sync_offset=-3 * HUGE // 4)
    assert FrameView.of(reader_of(late)).middle == (7 * HUGE // 8,)


def with_coordinates(array: vfs.VirtualArray) -> None:
    pytest.importorskip("xarray")
    shown = array.xarray()
    assert list(shown.coords) == ["x"]
    assert shown[[-1, 5], 0, 0].values.tolist() == [0, 0]


def a_tvips_set(array: vfs.VirtualArray) -> None:
    path = write_tvips(Path(array.files[0]).parent, np.ones((3, 1, 1), "u1"), version=1)
    records = HUGE // 13
    os.truncate(path, 256 + 13 * records)
    with path.open("r+b") as file:
        file.seek(256 + 13 * (records - 1))
        file.write(b"abcdefghijkl")
    assert len(vfs.open(path)) == records


def planes_in_a_row(array: vfs.VirtualArray) -> None:
    folder, count = Path(array.files[0]).parent, HUGE >> 17
    fits = write_fits(folder / "a.fits", np.ones((1, 256, 256), "u2"))
    fits.write_bytes(fits.read_bytes()[:2880].replace(b"NAXIS3  = %20d" % 1, b"NAXIS3  = %20d" % count))
    os.truncate(fits, 2880 + HUGE)
    assert vfs.open(fits)[count - 1, 5, 5] == 1 << 15
    empad = folder / "scan_x2048_y2048.raw"
    empad.touch()
    os.truncate(empad, HUGE)
    assert vfs.open_group(empad)["analog"][2047, 2047, 5, 5] == 0


HUGE = 1 << 38
"""Bytes of a file that is a hole, and of its frames."""


@pytest.mark.parametrize(
    "act",
    [
        lambda array: array[len(array) // 2],
        the_middle,
        lambda array: FrameFingerprint(reader_of(array).dataset).same(),
        lambda array: reader_of(array).dataset.holds(vfs.Region.whole(array.shape)),
        part_of_a_pass,
        with_coordinates,
        a_tvips_set,
        planes_in_a_row,
    ],
)
def test_nothing_has_an_entry_for_each_frame(tmp_path: Path, act: Callable[[vfs.VirtualArray], None]) -> None:
    (tmp_path / "hole.raw").touch()
    os.truncate(tmp_path / "hole.raw", HUGE)
    # Blank frames come first: not all are stored
    how: dict[str, Any] = {"sync_offset": -2, "calibration": ["frame=0.5s", "x=2nm"]}
    array = vfs.open(tmp_path / "hole.raw", format="raw", dtype="u1", sig_shape=(1, 1), **how)
    assert peak(act, array) < 64 << 20


def test_a_dask_graph_holds_nothing_a_chunk(tmp_path: Path) -> None:
    """It is as long for 1,280 chunks as for one: an array and a rule."""
    dask_array = pytest.importorskip("dask.array")
    lengths = []
    for name, shape in (("one", (-1, -1, -1)), ("many", (1, 64, 64))):
        lazy = dask_array.from_zarr(opened(tmp_path / name, "raw", 1280, chunks=shape).zarr())
        lengths.append([len(layer) for layer in lazy.__dask_graph__().layers.values() if layer.is_materialized()])
        assert lazy.npartitions == (1 if name == "one" else 1280)
    assert lengths == [[1], [1]]


def left_open(folder: Path) -> tuple[int, int]:
    """(descriptors, maps) that this process has of files in a folder."""
    descriptors = 0
    for fd in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # one that was closed since
            descriptors += os.readlink(f"/proc/self/fd/{fd}").startswith(str(folder))
    return descriptors, Path("/proc/self/maps").read_text().count(str(folder))


def by_tiles(array: vfs.VirtualArray) -> None:
    for _ in array.tiles():
        break


def in_vain(array: vfs.VirtualArray) -> None:
    with pytest.raises(vfs.VfsError):
        array[1000]


def by_dask(array: vfs.VirtualArray) -> None:
    dask = pytest.importorskip("dask.array")
    assert (
        dask.from_array(pickle.loads(pickle.dumps(array)), chunks=(16, 64, 64)).sum().compute(scheduler="synchronous")
        > 0
    )


USES: dict[str, Callable[[vfs.VirtualArray], object]] = {
    "read": lambda array: (array[3].sum(), array[...].sum()),
    "zarr": lambda array: array.zarr()[3:5],
    "store": lambda array: array.store().get_sync("data/c/0/0/0"),
    "store v2": lambda array: array.store(2).get_sync("data/0/0/0"),
    "group": lambda array: (array.group["data"][3], array.group.zarr()["data"][3], dict(array.group)),
    "pickle": lambda array: pickle.loads(pickle.dumps(array))[3],
    "pickled group": lambda array: pickle.loads(pickle.dumps(array.group)).main[3],
    "pickled store": lambda array: pickle.loads(pickle.dumps(array.store())).get_sync("data/c/0/0/0"),
    "tiles": by_tiles,
    "an error": in_vain,
    "dask": by_dask,
}


@pytest.mark.parametrize("backend", ["mmap", "buffered"])
@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_what_is_dropped_lets_go_at_once(
    tmp_path: Path, use: Callable[[vfs.VirtualArray], object], backend: str
) -> None:
    """Files stayed open and mapped until the garbage collector came by: a worker of dask grew with every compute."""
    (path,) = write_raw(tmp_path, np.ones((64, 64, 64), "<u2"))
    if use is by_dask:  # it keeps what it computed last
        use(vfs.open(path, format="raw", stored_dtype="<u2", sig_shape=(64, 64), backend=backend))
        gc.collect()
    before = left_open(tmp_path)
    gc.disable()
    try:
        for _ in range(3):
            use(
                vfs.open(
                    path, format="raw", stored_dtype="<u2", sig_shape=(64, 64), dark=np.zeros((64, 64)), backend=backend
                )
            )
        # zarr reads in a thread of its own, which may not have let go yet
        assert eventually(lambda: left_open(tmp_path) == before, 10)
    finally:
        gc.enable()
    array = vfs.open(path, format="raw", stored_dtype="<u2", sig_shape=(64, 64), backend="mmap")
    frame = array[3]
    del array
    assert left_open(tmp_path)[1] == before[1] + 1  # what somebody still looks at stays mapped
    assert frame.sum() == 64 * 64
