"""The zarr store: zarr's own suite, a twin written by zarr, and what zarr does with it."""

from __future__ import annotations

import asyncio
import copy
import os
import pickle
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st
from zarr.abc.store import ByteRequest, OffsetByteRequest, RangeByteRequest, SuffixByteRequest
from zarr.core.buffer import Buffer, cpu, default_buffer_prototype
from zarr.storage import MemoryStore
from zarr.testing.store import StoreTests

import vfs
from vfs.array import ArrayReader
from vfs.backends import make_backend
from vfs.formats import by_name
from vfs.store import Store
from vfs.testing.writers import write_raw
from vfs.tree import Tree, ZarrFace

READ_ONLY = "store was opened in read-only mode and does not support writing"


# --- zarr's own suite -------------------------------------------------------------------------------------------------


class WrittenFace(ZarrFace):
    """A face whose documents are the keys that were written."""

    def __init__(self) -> None:
        super().__init__({}, {}, 3)
        self.documents.clear()

    def children(self, key: str, after: int = 0) -> Iterator[str]:
        below = f"{key}/" if key else ""
        return iter({name[len(below) :].split("/")[0] for name in self.documents if name.startswith(below)})

    def keys(self, prefix: str = "") -> Iterator[str]:
        return iter([*super().keys(prefix)])  # so that what is listed can be deleted meanwhile


class WritableStore(Store):
    """What writing needs, and nothing else."""

    supports_writes = True
    supports_deletes = True

    def __init__(self, face: ZarrFace, again: Any, *, read_only: bool = False) -> None:
        super().__init__(face, again)
        self._read_only = read_only

    def with_read_only(self, read_only: bool = False) -> WritableStore:
        return type(self)(self.face, self.again, read_only=read_only)

    def set_sync(self, key: str, value: Buffer) -> None:
        super().set_sync(key, value)
        self.face.documents[key] = value.to_bytes()

    def delete_sync(self, key: str) -> None:
        super().delete_sync(key)
        self.face.documents.pop(key, None)


def written_store() -> WritableStore:
    return WritableStore(WrittenFace(), (written_store, ()))


class TestStore(StoreTests[WritableStore, cpu.Buffer]):
    store_cls = WritableStore
    buffer_cls = cpu.Buffer

    async def set(self, store: WritableStore, key: str, value: Buffer) -> None:
        store.face.documents[key] = value.to_bytes()

    async def get(self, store: WritableStore, key: str) -> Buffer:
        return self.buffer_cls.from_bytes(store.face.documents[key])

    @pytest.fixture
    def store_kwargs(self) -> dict[str, Any]:
        return {"face": WrittenFace(), "again": (written_store, ())}

    def test_store_repr(self, store: WritableStore) -> None:
        assert repr(store) == "WritableStore('vfs://.zarr')"

    def test_store_supports_writes(self, store: WritableStore) -> None:
        assert store.supports_writes
        assert not Store.supports_writes
        assert not Store.supports_deletes

    def test_store_supports_listing(self, store: WritableStore) -> None:
        assert store.supports_listing


# --- a tree of all kinds of arrays, and its twin written by zarr ------------------------------------------------------

ARRAYS = {  # path -> (dtype in the file, shape, chunks)
    "data": ("<u2", (5, 7, 9), (2, 3, 4)),  # edges on every axis
    "entry/deep/data": ("<f4", (4, 6), (2, 6)),
    "entry/swapped": (">i4", (3, 4, 5), (1, 4, 5)),
    "entry/cells": ("<c8", (6,), (4,)),
    "flags": ("|b1", (10,), (10,)),
    "scalar": (">f8", (), ()),
    "empty": ("<i4", (0, 3), (1, 3)),
    "many": ("|u1", (12, 11), (1, 1)),
}


def values(path: str) -> np.ndarray:
    dtype, shape, _ = ARRAYS[path]
    noise = np.random.default_rng(len(path)).integers(0, 2 if dtype == "|b1" else 200, shape)
    return np.asarray(noise.astype(dtype) * (1 + 2j) if dtype == "<c8" else noise, dtype)


def make_tree(folder: Path, backend: str = "mmap") -> Tree:
    arrays = {}
    for path, (_, _, chunks) in ARRAYS.items():
        file = folder / f"{path.replace('/', '-')}.npy"
        if not file.exists():
            np.save(file, values(path))
        [dataset] = by_name("npy").open([str(file)])
        dataset = replace(dataset, path=path, attrs={"name": path, "unit": "Å"})
        arrays[path] = ArrayReader(dataset, make_backend(backend, dataset.files), chunks=chunks)
    return Tree("zoo", arrays, {"vfs": {"format": "npy"}})


def tree_store(folder: Path, zarr_format: int, backend: str = "mmap") -> Store:
    return Store(make_tree(folder, backend).zarr(zarr_format), (tree_store, (folder, zarr_format, backend)), "zoo")


def twin(face: ZarrFace) -> MemoryStore:
    """The same hierarchy with chunks written by zarr; only the documents are ours."""
    memory = MemoryStore()
    group = zarr.create_group(memory, zarr_format=face.zarr_format)
    for path, (_, shape, chunks) in ARRAYS.items():
        keys: dict[str, Any] = {"filters": None, "compressors": None, "fill_value": 0, "config": {"write_empty_chunks": True}}
        if face.zarr_format == 2:
            keys |= {"order": "C", "chunk_key_encoding": {"name": "v2", "separator": "/"}}
        dtype = values(path).dtype.newbyteorder("<")
        group.create_array(path, shape=shape, chunks=chunks, dtype=dtype, **keys)[...] = values(path)
    for key in [key for key in memory._store_dict if not key[-1].isdigit() and not key.endswith("/c")]:
        del memory._store_dict[key]
    memory._store_dict |= {key: cpu.Buffer.from_bytes(document) for key, document in face.documents.items()}
    return memory


class Pair:
    """A store and its twin."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.twin = twin(store.face)
        self.keys = sorted(self.twin._store_dict)
        self.folders = sorted({""} | {key.rsplit("/", n)[0] for key in self.keys for n in range(1, key.count("/") + 1)})
        chunks = ["data/c/3/0/0", "data/c/0/3/0", "data/c/0/0/-1", "data/c/00/0/0", "data/c/0/0/0/0", "data/c/0.0.0", "data/3/0/0", "many/12/0", "scalar/1"]
        names = [
            "nothing",
            ".zarray",
            "data/.zarray",
            "data/zarr.json",
            "zarr.json",
            ".zgroup",
            "data/attributes.json",
            "entry/deep/data/c/+1/0",
            "data/c/٣/0/0",
        ]
        self.absent = [key for key in chunks + names + ["/zarr.json", "data/", "empty/c/0/0", "empty/0/0", "c", "datum"] if key not in self.keys]


@pytest.fixture(scope="module", params=[(3, "mmap"), (2, "mmap"), (3, "buffered"), (2, "buffered")], ids=lambda p: f"v{p[0]}-{p[1]}")
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    return Pair(tree_store(tmp_path_factory.mktemp("tree"), *request.param))


async def collect(names: AsyncIterator[str]) -> list[str]:
    return [name async for name in names]


def plain(buffer: Buffer | None) -> bytes | None:
    return None if buffer is None else buffer.to_bytes()


def cut(pair: Pair, key: str, asked: ByteRequest | None) -> bytes | None:
    """What the twin holds, cut here: zarr 3.1's MemoryStore takes a suffix longer than the value for something else."""
    if key not in pair.keys:
        return None
    held = pair.twin._store_dict[key].to_bytes()
    match asked:
        case RangeByteRequest(start, end):
            return held[start:end]
        case OffsetByteRequest(offset):
            return held[offset:]
        case SuffixByteRequest(suffix):
            return held[max(0, len(held) - suffix) :]
    return held


P = default_buffer_prototype()
NUMBERS = st.integers(0, 30) | st.integers(0, 3000) | st.just(2**70)
BYTE_RANGES = st.one_of(
    st.none(),
    st.builds(RangeByteRequest, NUMBERS, NUMBERS),
    st.builds(OffsetByteRequest, NUMBERS),
    st.builds(SuffixByteRequest, NUMBERS),
)


async def test_every_key_holds_what_zarr_writes(pair: Pair) -> None:
    assert len(pair.keys) > 170
    for key in pair.keys:
        assert plain(await pair.store.get(key, P)) == plain(await pair.twin.get(key, P)), key


@given(data=st.data())
async def test_get_with_every_kind_of_byte_range(pair: Pair, data: st.DataObject) -> None:
    key = data.draw(st.sampled_from(pair.keys + pair.absent))
    asked: ByteRequest | None = data.draw(BYTE_RANGES)
    expected = cut(pair, key, asked)
    assert plain(await pair.store.get(key, P, asked)) == expected
    assert plain(await pair.store.get(key, byte_range=asked)) == expected
    assert plain(pair.store.get_sync(key, byte_range=asked)) == expected


@given(data=st.data())
async def test_get_partial_values(pair: Pair, data: st.DataObject) -> None:
    asked = data.draw(st.lists(st.tuples(st.sampled_from(pair.keys + pair.absent), BYTE_RANGES), max_size=12))
    got = await pair.store.get_partial_values(P, (request for request in asked))
    assert [plain(buffer) for buffer in got] == [cut(pair, key, part) for key, part in asked]


async def test_other_byte_ranges_are_refused(pair: Pair) -> None:
    for key in (pair.keys[0], pair.keys[-1], "nothing"):
        with pytest.raises(vfs.OptionError, match="Unexpected byte_range"):
            await pair.store.get(key, P, (0, 2))  # type: ignore[arg-type]


async def test_absent_keys(pair: Pair) -> None:
    assert len(pair.absent) > 15
    for key in pair.absent:
        assert await pair.store.get(key, P) is None, key
        assert pair.store.get_sync(key) is None, key
        assert not await pair.store.exists(key), key
        with pytest.raises(FileNotFoundError):
            await pair.store.getsize(key)


async def test_folders_are_no_keys(pair: Pair) -> None:
    for folder in pair.folders:
        assert await pair.store.get(folder, P) is None, folder
        assert not await pair.store.exists(folder), folder
        with pytest.raises(FileNotFoundError):
            await pair.store.getsize(folder)


async def test_sizes_and_existence(pair: Pair) -> None:
    for key in pair.keys:
        assert await pair.store.exists(key)
        assert await pair.store.getsize(key) == len(pair.twin._store_dict[key]), key
    for folder in pair.folders + pair.absent + pair.keys:
        below = f"{folder.rstrip('/')}/" if folder else ""
        expected = sum(len(pair.twin._store_dict[key]) for key in pair.keys if key.startswith(below))
        assert await pair.store.getsize_prefix(folder) == expected, folder
        assert await pair.store.getsize_prefix(f"{folder}/") == expected, folder


async def test_listing(pair: Pair) -> None:
    assert sorted(await collect(pair.store.list())) == pair.keys
    for folder in pair.folders + pair.absent + pair.keys:
        expected = sorted(await collect(pair.twin.list_dir(folder)))
        assert sorted(await collect(pair.store.list_dir(folder))) == expected, folder
        assert sorted(await collect(pair.store.list_dir(f"{folder}/"))) == expected, folder
        assert await pair.store.is_empty(folder) == await pair.twin.is_empty(folder), folder


@given(data=st.data())
async def test_list_prefix(pair: Pair, data: st.DataObject) -> None:
    key = data.draw(st.sampled_from(pair.keys + pair.absent))
    prefix = key[: data.draw(st.integers(0, len(key)))] + data.draw(st.sampled_from(["", "/", "0", "c", "/c/"]))
    assert sorted(await collect(pair.store.list_prefix(prefix))) == sorted(await collect(pair.twin.list_prefix(prefix)))


@given(data=st.data())
def test_zarr_reads_what_numpy_reads(pair: Pair, data: st.DataObject) -> None:
    path = data.draw(st.sampled_from(list(ARRAYS)))
    expected = values(path)
    cuts = tuple(slice(*sorted((data.draw(st.integers(0, n)), data.draw(st.integers(0, n)))), data.draw(st.integers(1, 3))) for n in expected.shape)
    array = zarr.open_array(pair.store, path=path, mode="r")
    got = np.asarray(array[cuts])
    assert got.dtype == expected.dtype.newbyteorder("=")
    np.testing.assert_array_equal(got, expected[cuts])


def test_the_group_and_its_consolidated_metadata(pair: Pair) -> None:
    group = zarr.open_consolidated(pair.store, mode="r")
    assert group.attrs["vfs"] == {"format": "npy"}
    assert sorted(path for path, _ in group.members(max_depth=None)) == sorted([*ARRAYS, "entry", "entry/deep"])
    for path in ARRAYS:
        np.testing.assert_array_equal(np.asarray(group[path][...]), values(path))
        alone = zarr.open_array(pair.store, path=path, mode="r")
        assert group[path].metadata == alone.metadata
        assert alone.attrs["vfs"] == {"name": path, "unit": "Å"}
        assert alone.nchunks_initialized == alone.nchunks
        sizes = sum(len(pair.twin._store_dict[key]) for key in pair.keys if key.startswith(f"{path}/"))
        assert alone.nbytes_stored() == sizes


def test_the_whole_tree_can_be_copied_by_zarr(pair: Pair) -> None:
    """`zarr.copy` and its like walk the store: what they write is the same tree."""
    out = MemoryStore()

    async def copied() -> None:
        async for key in pair.store.list():
            await out.set(key, await pair.store.get(key, P))

    asyncio.run(copied())
    group = zarr.open_group(out, mode="r")
    for path in ARRAYS:
        np.testing.assert_array_equal(np.asarray(group[path][...]), values(path))


# --- scans: arrays as vfs.open gives them -----------------------------------------------------------------------------


@pytest.fixture
def frames() -> np.ndarray:
    return np.random.default_rng(7).integers(0, 60000, (12, 64, 64)).astype("<u2")


@pytest.fixture
def scan(tmp_path: Path, frames: np.ndarray) -> Callable[..., vfs.VirtualArray]:
    """Opens three raw files with headers between the frames."""
    paths = write_raw(tmp_path, frames, frame_header=16, file_header=8, files=3)

    def opened(**options: Any) -> vfs.VirtualArray:
        return vfs.open(paths, format="raw", stored_dtype="<u2", sig_shape=(64, 64), frame_header=16, file_header=8, **options)

    return opened


def through(array: vfs.VirtualArray) -> zarr.Array[Any]:
    """The array through its store and the pipeline that zarr chooses by itself."""
    return zarr.open_array(array.store(), path="data", mode="r")


@pytest.mark.parametrize("zarr_format", [3, 2])
def test_a_chunk_is_the_bytes_of_the_file(scan: Callable[..., vfs.VirtualArray], frames: np.ndarray, zarr_format: int) -> None:
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
            np.testing.assert_array_equal(buffer.as_numpy_array().view("<u2").reshape(2, 64, 64), frames[2 * n : 2 * n + 2])


@pytest.mark.parametrize(
    ("options", "threaded"),
    [
        ({"chunks": "frames", "backend": "mmap"}, False),  # a view of the file
        ({"chunks": "frames", "backend": "buffered"}, True),
        ({"chunks": (2, -1, -1), "backend": "mmap"}, True),  # two frames with a header between them
        ({"chunks": "frames", "backend": "mmap", "dtype": "f4"}, True),
    ],
)
def test_what_takes_long_goes_to_a_thread(
    scan: Callable[..., vfs.VirtualArray], frames: np.ndarray, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], threaded: bool
) -> None:
    gone = []
    to_thread = asyncio.to_thread

    async def spy(function: Callable[..., Any], *args: Any, **more: Any) -> Any:
        gone.append(args)
        return await to_thread(function, *args, **more)

    monkeypatch.setattr("vfs.store.asyncio.to_thread", spy)
    small = scan(**options)
    np.testing.assert_array_equal(through(small)[:3], frames[:3])
    assert not gone, "cheap chunks are answered at once"
    monkeypatch.setattr("vfs.store.WORTH_A_THREAD", 4096)
    np.testing.assert_array_equal(through(small)[:3], frames[:3])
    assert bool(gone) == threaded
    assert not [key for (key,) in gone if not key.startswith("data/c/")], "documents and absent names never wait for a thread"


@pytest.mark.parametrize("zarr_format", [3, 2])
async def test_a_billion_chunks(scan: Callable[..., vfs.VirtualArray], frames: np.ndarray, monkeypatch: pytest.MonkeyPatch, zarr_format: int) -> None:
    """Sizes and names come from arithmetic: no source is touched, and what is not asked for is not made."""
    array = scan(nav_shape=(1_000_000, 1_000), chunks=(1, 1, -1, -1))
    monkeypatch.setattr(array.backend, "span", lambda *args: pytest.fail("a source was read"))
    store = array.store(zarr_format)
    root = "data/c" if zarr_format == 3 else "data"
    chunk = 64 * 64 * 2
    documents = sum(len(document) for document in store.face.documents.values())
    assert await store.getsize_prefix("") == 10**9 * chunk + documents
    assert await store.getsize_prefix(f"{root}/999999") == 1000 * chunk
    assert await store.getsize_prefix(f"{root}/999999/7/") == chunk
    assert await store.getsize_prefix(f"{root}/1000000") == 0
    assert await store.getsize(f"{root}/999999/999/0/0") == chunk
    assert not await store.exists(f"{root}/999999/1000/0/0")
    names = store.list_dir(f"{root}/5")
    assert [await anext(names) for _ in range(2)] == ["0", "1"]
    assert [await anext(store.list_prefix(f"{root}/12345/")) for _ in range(2)] == [f"{root}/12345/0/0/0"] * 2
    assert not await store.is_empty(root)


# --- a read that fails is an error ------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["mmap", "buffered"])
@pytest.mark.parametrize("chunks", ["frames", (6, -1, -1)])
def test_a_truncated_source_raises_through_zarr(scan: Callable[..., vfs.VirtualArray], frames: np.ndarray, backend: str, chunks: Any) -> None:
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
def test_a_missing_source_is_not_a_missing_chunk(scan: Callable[..., vfs.VirtualArray], backend: str, zarr_format: int) -> None:
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
    for now in (lambda: store.set_sync("new", value), lambda: store.delete_sync("zarr.json"), lambda: store.with_read_only(False), store.with_read_only):
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
    found = subprocess.run([sys.executable, "-c", code], input=pickle.dumps(store) + pickle.dumps(store), capture_output=True, check=False)
    assert found.returncode == 0, found.stderr.decode()
    assert found.stdout == frames[mask].astype("f8").tobytes()


@pytest.mark.parametrize("change", ["truncated", "touched", "replaced", "gone"])
def test_a_pickled_store_never_shows_other_data(scan: Callable[..., vfs.VirtualArray], frames: np.ndarray, change: str) -> None:
    """How many frames a raw file holds follows from its size: opened again after a change, the array would quietly be another one."""
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
    for thing in pickled:
        with pytest.raises(vfs.MissingSourceError if change == "gone" else vfs.SourceChangedError):
            pickle.loads(thing)


# --- zarr, dask and threads at work -----------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["mmap", "buffered"])
def test_many_threads_read_at_once(scan: Callable[..., vfs.VirtualArray], frames: np.ndarray, monkeypatch: pytest.MonkeyPatch, backend: str) -> None:
    monkeypatch.setattr("vfs.store.WORTH_A_THREAD", 10_000)  # so that some chunks are made in threads
    small, large = scan(chunks="frames", backend=backend), scan(chunks=(5, 40, 64), backend=backend)
    arrays = [through(small), through(large)]
    stores = [(small.store(), frames[7].tobytes(), "data/c/7/0/0"), (large.store(), frames[5:10, :40].tobytes(), "data/c/1/0/0")]

    def work(n: int) -> None:
        a = n % 11
        np.testing.assert_array_equal(arrays[n % 2][a : a + 4, n % 60 :], frames[a : a + 4, n % 60 :])
        store, expected, key = stores[n % 2]
        assert plain(store.get_sync(key)) == expected
        assert plain(store.get_sync(key, byte_range=RangeByteRequest(n, 2 * n))) == expected[n : 2 * n]

    with ThreadPoolExecutor(12) as pool:
        list(pool.map(work, range(300)))


def test_the_fused_codec_pipeline_reads_synchronously(scan: Callable[..., vfs.VirtualArray], frames: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> None:
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
