"""Scans through the zarr store: what is handed out and by whom, failing sources, writing, identity,
and zarr, dask and threads at work.
"""

from __future__ import annotations

import asyncio
import copy
import json
import os
import pickle
import subprocess
import sys
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from zarr.abc.store import OffsetByteRequest, RangeByteRequest, SuffixByteRequest
from zarr.core.buffer import Buffer, cpu
from zarr.storage import MemoryStore

import vfs
from tests.zarr.support import P, plain
from vfs.testing.inside import reader_of
from vfs.testing.writers import write_raw
from vfs.zarr.store import Store

READ_ONLY = "store was opened in read-only mode and does not support writing"


@pytest.fixture
def frames() -> np.ndarray:
    return np.random.default_rng(7).integers(0, 60000, (12, 64, 64)).astype("<u2")


@pytest.fixture
def scan(tmp_path: Path, frames: np.ndarray) -> Callable[..., vfs.VirtualArray]:
    """Opens three raw files with headers between the frames."""
    paths = write_raw(tmp_path, frames, frame_header=16, file_header=8, files=3)

    def opened(**options: Any) -> vfs.VirtualArray:
        return vfs.open(
            paths, format="raw", stored_dtype="<u2", sig_shape=(64, 64), frame_header=16, file_header=8, **options
        )

    return opened


def through(array: vfs.VirtualArray) -> zarr.Array[Any]:
    """The array through its store and the pipeline that zarr chooses by itself."""
    return zarr.open_array(array.store(), path="data", mode="r")


@pytest.mark.parametrize("zarr_format", [3, 2])
def test_a_chunk_is_the_bytes_of_the_file(
    scan: Callable[..., vfs.VirtualArray], frames: np.ndarray, zarr_format: int
) -> None:
    array = scan(chunks="frames")
    key = "data/c/5/0/0" if zarr_format == 3 else "data/5/0/0"
    buffer = array.store(zarr_format).get_sync(key)
    assert buffer is not None
    shown = buffer.as_numpy_array()
    assert np.shares_memory(shown, array[5])
    assert not shown.flags.writeable
    np.testing.assert_array_equal(shown.view("<u2").reshape(64, 64), frames[5])


def test_no_view_shows_the_bytes_of_another_read(scan: Callable[..., vfs.VirtualArray], frames: np.ndarray) -> None:
    for backend in ("mmap", "buffered"):
        store = scan(chunks=(2, -1, -1), backend=backend).store()
        held = [store.get_sync(f"data/c/{n}/0/0") for n in range(6)]
        for n, buffer in enumerate(held):
            assert buffer is not None
            np.testing.assert_array_equal(
                buffer.as_numpy_array().view("<u2").reshape(2, 64, 64), frames[2 * n : 2 * n + 2]
            )


@pytest.fixture
def spy(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Keys that a thread was asked for."""
    asked: list[str] = []
    to_thread = asyncio.to_thread

    async def noted(function: Callable[..., Any], key: str, **more: Any) -> Any:
        asked.append(key)
        return await to_thread(function, key, **more)

    monkeypatch.setattr("vfs.zarr.store.asyncio.to_thread", noted)
    return asked


@pytest.mark.parametrize(
    ("options", "threaded"),
    [
        ({"chunks": "frames", "backend": "mmap"}, False),  # a view of the file
        ({"chunks": "frames", "backend": "buffered"}, True),
        # Two frames with a header between them, decoded when they are looked at
        ({"chunks": (2, -1, -1), "backend": "mmap"}, False),
        ({"chunks": (2, -1, 32), "backend": "mmap"}, True),
        ({"chunks": "frames", "backend": "mmap", "dtype": "f4"}, True),
        ({"chunks": "frames", "backend": "mmap", "dark": np.ones((64, 64), "u2")}, True),
    ],
)
def test_what_takes_long_goes_to_a_thread(
    scan: Callable[..., vfs.VirtualArray],
    frames: np.ndarray,
    monkeypatch: pytest.MonkeyPatch,
    spy: list[str],
    options: dict[str, Any],
    threaded: bool,
) -> None:
    small = scan(**options)
    expected = frames[:3].astype("f4") - 1 if "dark" in options else frames[:3]
    np.testing.assert_array_equal(through(small)[:3], expected)
    assert not spy, "cheap chunks are answered at once"
    for module in ("faces.face", "engine.chunk_access"):
        monkeypatch.setattr(f"vfs.{module}.WORTH_A_THREAD", 4096)
    reader_of(small).cache.clear()
    np.testing.assert_array_equal(through(small)[:3], expected)
    assert bool(spy) == threaded
    asked = []
    for _ in range(2):
        np.testing.assert_array_equal(through(small)[2, :, :20], expected[2, :, :20])
        asked.append(len(spy))
    assert asked[0] == asked[1], "a chunk that is at hand is handed out at once"
    assert not [key for key in spy if not key.startswith("data/c/")], (
        "documents and absent names never wait for a thread"
    )


@pytest.mark.parametrize("kind", ["compressed", "read together"])
def test_small_chunks_that_are_parts_of_large_work_go_to_a_thread(
    tmp_path: Path, frames: np.ndarray, spy: list[str], kind: str
) -> None:
    if kind == "compressed":
        packed = zlib.compress(frames.tobytes())
        (tmp_path / "blocks.bin").write_bytes(packed)
        block = {
            "file": 0,
            "offset": 0,
            "nbytes": len(packed),
            "origin": [0, 0, 0],
            "shape": frames.shape,
            "codec": {"id": "zlib"},
        }
        whole = {"vfs": 1, "dtype": "<u2", "shape": frames.shape, "files": ["blocks.bin"], "blocks": [block]}
        (tmp_path / "set.vfs.json").write_text(json.dumps(whole))
        array = vfs.open(tmp_path / "set.vfs.json", chunks=(1, 64, 64))
    else:
        frames = frames.byteswap().view(">u2")
        array = vfs.open(
            write_raw(tmp_path, frames), format="raw", stored_dtype=">u2", sig_shape=(64, 64), chunks=(12, 1, 8)
        )
        assert reader_of(array).groups.chunks != array.chunks
    np.testing.assert_array_equal(through(array)[:, 3], frames[:, 3])
    assert spy


@pytest.mark.parametrize("zarr_format", [3, 2])
async def test_a_billion_chunks(
    scan: Callable[..., vfs.VirtualArray], frames: np.ndarray, monkeypatch: pytest.MonkeyPatch, zarr_format: int
) -> None:
    """Sizes and names come from arithmetic: no source is touched, and what is not asked for is not made."""
    array = scan(nav_shape=(1_000_000, 1_000), chunks=(1, 1, -1, -1), allow_incomplete=True)
    monkeypatch.setattr(reader_of(array).backend, "span", lambda *args: pytest.fail("a source was read"))
    store = array.store(zarr_format)
    root = "data/c" if zarr_format == 3 else "data"
    chunk = 64 * 64 * 2
    documents = sum(len(document) for document in store.face.documents.values())
    assert await store.getsize_prefix("") == 10**9 * chunk + documents
    assert await store.getsize_prefix(f"{root}/999999") == 1000 * chunk
    assert await store.getsize_prefix(f"{root}/999999/7/") == chunk
    assert await store.getsize_prefix(f"{root}/1000000") == 0
    assert await store.getsize(f"{root}/999999/999/0/0") == chunk
    with pytest.raises(vfs.SourceError, match="not this one"):
        await store.exists(f"{root}/999999/1000/0/0")
    names = store.list_dir(f"{root}/5")
    assert [await anext(names) for _ in range(2)] == ["0", "1"]
    assert [await anext(store.list_prefix(f"{root}/12345/")) for _ in range(2)] == [f"{root}/12345/0/0/0"] * 2
    assert not await store.is_empty(root)


# --- a read that fails is an error ------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["mmap", "buffered"])
@pytest.mark.parametrize("chunks", ["frames", (6, -1, -1)])
def test_a_truncated_source_raises_through_zarr(
    scan: Callable[..., vfs.VirtualArray], frames: np.ndarray, backend: str, chunks: Any
) -> None:
    array = scan(backend=backend, chunks=chunks)
    z = through(array)
    os.truncate(array.files[1], 8 + 16 + 100)
    with pytest.raises(vfs.SourceError, match=r"part1\.bin: .*\[reading data\["):
        z[...]
    with pytest.raises(OSError, match=r"part1\.bin"):
        z[5, 3, 3]
    if chunks == "frames":
        np.testing.assert_array_equal(z[0], frames[0])  # what is there can still be read


@pytest.mark.parametrize("backend", ["mmap", "buffered"])
@pytest.mark.parametrize("zarr_format", [3, 2])
def test_a_missing_source_is_not_a_missing_chunk(
    scan: Callable[..., vfs.VirtualArray], backend: str, zarr_format: int
) -> None:
    """MissingSourceError is a FileNotFoundError; zarr, dask and xarray may not take it for "no such chunk"."""
    array = scan(backend=backend)
    store = array.store(zarr_format)
    z = zarr.open_array(store, path="data", mode="r")
    Path(array.files[2]).unlink()
    with pytest.raises(vfs.MissingSourceError, match="part2"):
        z[...]
    with pytest.raises(vfs.MissingSourceError, match="part2"):
        zarr.open_consolidated(store, mode="r")["data"][-1]
    dask_array = pytest.importorskip("dask.array")
    with pytest.raises(vfs.MissingSourceError, match="part2"):
        dask_array.from_zarr(z).sum().compute()
    xarray = pytest.importorskip("xarray")
    with pytest.raises(vfs.MissingSourceError, match="part2"):
        xarray.open_zarr(store, chunks=None)["data"].load()


async def test_failing_reads_never_answer_none(scan: Callable[..., vfs.VirtualArray]) -> None:
    array = scan(chunks="frames")
    store = array.store()
    for file in array.files:
        Path(file).unlink()
    for part in (None, RangeByteRequest(0, 4), OffsetByteRequest(8000), SuffixByteRequest(3)):
        with pytest.raises(vfs.MissingSourceError):
            await store.get("data/c/0/0/0", P, part)
    with pytest.raises(vfs.MissingSourceError):
        await store.get_partial_values(P, [("zarr.json", None), ("data/c/0/0/0", None)])
    assert await store.getsize("data/c/0/0/0") == 8192
    assert await store.get("zarr.json", P) is not None


# --- read-only --------------------------------------------------------------------------------------------------------


async def test_writing_raises_zarrs_own_error(scan: Callable[..., vfs.VirtualArray]) -> None:
    array = scan()
    store = array.store()
    before = [Path(file).read_bytes() for file in array.files]
    value = cpu.Buffer.from_bytes(b"x")
    assert store.read_only
    for write in (
        lambda: store.set("data/c/0/0/0", value),
        lambda: store.set("new", value),
        lambda: store.set_if_not_exists("zarr.json", value),
        lambda: store.set_if_not_exists("new", value),
        lambda: store.delete("zarr.json"),
        lambda: store.delete_dir("data"),
        store.clear,
    ):
        with pytest.raises(ValueError, match=READ_ONLY):
            await write()
    for now in (
        lambda: store.set_sync("new", value),
        lambda: store.delete_sync("zarr.json"),
        lambda: store.with_read_only(False),
        store.with_read_only,
    ):
        with pytest.raises(ValueError, match=READ_ONLY):
            now()
    assert [Path(file).read_bytes() for file in array.files] == before


def test_zarr_will_not_write(scan: Callable[..., vfs.VirtualArray]) -> None:
    store = scan().store()
    for mode in ("r+", "a", "w", "w-"):
        with pytest.raises(ValueError, match="read-only"):
            zarr.open_group(store, mode=mode)
    z = through(scan())
    with pytest.raises(ValueError, match="read-only"):
        z[0, 0, 0] = 1
    with pytest.raises(ValueError, match="read-only"):
        z.resize((1, 64, 64))
    with pytest.raises(ValueError, match="read-only"):
        z.attrs["new"] = 1
    with pytest.raises(ValueError, match="read-only"):
        scan().group.zarr().create_group("new")


def test_with_read_only(scan: Callable[..., vfs.VirtualArray], frames: np.ndarray) -> None:
    store = scan().store()
    store.get_sync("zarr.json")
    other = store.with_read_only(True)
    assert other == store
    assert store._is_open
    assert not other._is_open
    np.testing.assert_array_equal(zarr.open_array(other, path="data", mode="r")[...], frames)


# --- identity ---------------------------------------------------------------------------------------------------------


def test_equal_stores_show_the_same(scan: Callable[..., vfs.VirtualArray]) -> None:
    first = scan(nav_shape=(3, 4)).store()
    assert first == scan(nav_shape=(3, 4)).store()
    assert hash(first) == hash(scan(nav_shape=(3, 4)).store())
    assert first == copy.copy(first)
    assert first == copy.deepcopy(first)
    others = [
        scan().store(),
        scan(nav_shape=(3, 4), chunks="frames").store(),
        scan(nav_shape=(3, 4), sync_offset=1).store(),  # the documents are the same here
        scan(nav_shape=(3, 4)).store(2),
        scan(nav_shape=(3, 4), dtype="u2", backend="buffered").store(),
        MemoryStore(),
        "vfs://part0.zarr",
    ]
    assert [other for other in others if other == first] == []
    assert len({first, *others[:5], scan(nav_shape=(3, 4)).store()}) == 6


def test_masks_are_compared_by_what_they_select(scan: Callable[..., vfs.VirtualArray]) -> None:
    mask, other = np.zeros((2, 12), bool)
    mask[3] = other[4] = True
    assert scan(roi=mask).store() == scan(roi=mask.copy()).store()
    assert scan(roi=mask).store() != scan(roi=other).store()


def test_a_changed_source_is_another_store(scan: Callable[..., vfs.VirtualArray]) -> None:
    array = scan()
    before = array.store()
    os.utime(array.files[0], ns=(1, 1))
    assert scan().store() != before


def test_names(scan: Callable[..., vfs.VirtualArray]) -> None:
    array = scan()
    assert str(array.store()) == "vfs://part0.zarr"
    assert repr(array.store(2)) == "Store('vfs://part0.v2.zarr')"
    assert "vfs://part0.zarr/data" in repr(array.zarr())


@pytest.mark.parametrize("zarr_format", [3, 2])
def test_pickling(scan: Callable[..., vfs.VirtualArray], frames: np.ndarray, zarr_format: int) -> None:
    store = scan(nav_shape=(3, 4), sync_offset=2).store(zarr_format)
    pickled = pickle.dumps(store)
    assert len(pickled) < 2000
    again = pickle.loads(pickled)
    assert again == store
    assert hash(again) == hash(store)
    assert again.read_only
    np.testing.assert_array_equal(zarr.open_array(again, path="data", mode="r")[:2], frames[2:10].reshape(2, 4, 64, 64))
    z = pickle.loads(pickle.dumps(zarr.open_array(store, path="data", mode="r")))
    np.testing.assert_array_equal(z[:2], frames[2:10].reshape(2, 4, 64, 64))


def test_pickling_into_a_fresh_process(scan: Callable[..., vfs.VirtualArray], frames: np.ndarray) -> None:
    mask = np.arange(12) % 3 == 1
    store = scan(roi=mask, dtype="f8").store()
    code = (
        "import pickle, sys, zarr\n"
        "first, second = (pickle.load(sys.stdin.buffer) for _ in range(2))\n"
        "assert first == second and hash(first) == hash(second)\n"
        "sys.stdout.buffer.write(zarr.open_array(first, path='data', mode='r')[...].tobytes())\n"
    )
    found = subprocess.run(
        [sys.executable, "-c", code], input=pickle.dumps(store) + pickle.dumps(store), capture_output=True, check=False
    )
    assert found.returncode == 0, found.stderr.decode()
    assert found.stdout == frames[mask].astype("f8").tobytes()


@pytest.mark.parametrize("change", ["truncated", "touched", "replaced", "gone"])
def test_a_pickled_store_never_shows_other_data(
    scan: Callable[..., vfs.VirtualArray], frames: np.ndarray, change: str
) -> None:
    """How many frames a raw file holds follows from its size: opened again after a change, the
    array would quietly be another one.
    """
    array = scan(nav_shape=(3, 4))
    pickled = [pickle.dumps(thing) for thing in (array, array.group, array.store(), through(array))]
    file = Path(array.files[1])
    match change:
        case "truncated":
            os.truncate(file, 8 + 8192)
        case "touched":
            os.utime(file, ns=(1, 1))
        case "replaced":
            file.with_suffix(".new").write_bytes(file.read_bytes()[::-1])
            file.with_suffix(".new").replace(file)
        case "gone":
            file.unlink()
    uses: list[Callable[[Any], object]] = [
        lambda array: array.shape,
        lambda group: group,
        lambda store: store.get_sync("zarr.json"),
        lambda z: z[0],
    ]
    for thing, use in zip(pickled, uses, strict=True):
        with pytest.raises(vfs.MissingSourceError if change == "gone" else vfs.SourceChangedError):
            use(pickle.loads(thing))


# --- zarr, dask and threads at work -----------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["mmap", "buffered"])
def test_many_threads_read_at_once(
    scan: Callable[..., vfs.VirtualArray], frames: np.ndarray, monkeypatch: pytest.MonkeyPatch, backend: str
) -> None:
    monkeypatch.setattr("vfs.faces.face.WORTH_A_THREAD", 10_000)  # so that some chunks are made in threads
    small, large = scan(chunks="frames", backend=backend), scan(chunks=(5, 40, 64), backend=backend)
    arrays = [through(small), through(large)]
    stores = [
        (small.store(), frames[7].tobytes(), "data/c/7/0/0"),
        (large.store(), frames[5:10, :40].tobytes(), "data/c/1/0/0"),
    ]

    def work(n: int) -> None:
        a = n % 11
        np.testing.assert_array_equal(arrays[n % 2][a : a + 4, n % 60 :], frames[a : a + 4, n % 60 :])
        store, expected, key = stores[n % 2]
        assert plain(store.get_sync(key)) == expected
        assert plain(store.get_sync(key, byte_range=RangeByteRequest(n, 2 * n))) == expected[n : 2 * n]

    with ThreadPoolExecutor(12) as pool:
        list(pool.map(work, range(300)))


def test_the_fused_codec_pipeline_reads_synchronously(
    scan: Callable[..., vfs.VirtualArray], frames: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    import zarr.core.codec_pipeline as pipelines

    if not hasattr(pipelines, "FusedCodecPipeline"):
        pytest.skip(f"zarr {zarr.__version__} has no fused codec pipeline")
    with zarr.config.set({"codec_pipeline.path": "zarr.core.codec_pipeline.FusedCodecPipeline"}):
        arrays = [through(scan(chunks=chunks)) for chunks in ("frames", (5, 40, -1))]

    async def never(*args: Any, **more: Any) -> Buffer | None:
        raise AssertionError("the event loop was asked")

    monkeypatch.setattr(Store, "get", never)
    for z in arrays:
        np.testing.assert_array_equal(z[...], frames)
        np.testing.assert_array_equal(z.oindex[[1, 5, 11], :, 3], frames[[1, 5, 11], :, 3])


@pytest.mark.parametrize("zarr_format", [3, 2])
def test_every_way_of_indexing(scan: Callable[..., vfs.VirtualArray], frames: np.ndarray, zarr_format: int) -> None:
    z = zarr.open_array(scan(chunks=(5, 40, 64)).store(zarr_format), path="data", mode="r")
    mask = np.random.default_rng(1).random(frames.shape) < 0.01
    np.testing.assert_array_equal(z[1:11:3, ..., 5], frames[1:11:3, ..., 5])
    np.testing.assert_array_equal(z.oindex[[0, 7], 3:50:7, [63, 1]], frames[np.ix_([0, 7], range(3, 50, 7), [63, 1])])
    np.testing.assert_array_equal(z.vindex[[0, 7], [63, 1], [2, 2]], frames[[0, 7], [63, 1], [2, 2]])
    np.testing.assert_array_equal(z.vindex[mask], frames[mask])
    np.testing.assert_array_equal(z.blocks[2, 1], frames[10:, 40:])


def test_dask(scan: Callable[..., vfs.VirtualArray], frames: np.ndarray) -> None:
    dask_array = pytest.importorskip("dask.array")
    from dask.base import tokenize

    lazy = dask_array.from_zarr(through(scan(chunks=(5, 40, 64))))
    assert lazy.chunks == ((5, 5, 2), (40, 24), (64,))
    for scheduler in ("threads", "synchronous"):
        assert lazy.sum().compute(scheduler=scheduler) == frames.sum()
        np.testing.assert_array_equal(lazy[3:9].compute(scheduler=scheduler), frames[3:9])
    assert tokenize(scan().store()) == tokenize(scan().store())
    assert tokenize(scan().store()) != tokenize(scan(sync_offset=1, nav_shape=(12,)).store())
