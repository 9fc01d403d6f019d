"""The zarr store under zarr's own suite, and against a twin that zarr wrote."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st
from zarr.abc.store import ByteRequest, OffsetByteRequest, RangeByteRequest, SuffixByteRequest
from zarr.core.buffer import Buffer, cpu
from zarr.storage import MemoryStore
from zarr.testing.store import StoreTests

import vfs
from tests.zarr.support import P, plain
from vfs.backends import make_backend
from vfs.engine.array import ArrayReader
from vfs.faces.absence import looks_like_chunk, may_be_absent
from vfs.faces.data_set import Hierarchy
from vfs.faces.face import ZarrFace
from vfs.formats import by_name
from vfs.sources.local import LocalSources
from vfs.zarr.store import Store

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
        assert repr(store) == "WritableStore('vfs://')"

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


def make_tree(folder: Path, backend: str = "mmap") -> Hierarchy:
    arrays = {}
    for path, (_, _, chunks) in ARRAYS.items():
        file = folder / f"{path.replace('/', '-')}.npy"
        if not file.exists():
            np.save(file, values(path))
        [dataset] = by_name("npy").open([str(file)], LocalSources())
        dataset = replace(dataset, path=path, attrs={"name": path, "unit": "Å"})
        arrays[path] = ArrayReader(dataset, make_backend(backend, dataset.files), chunks=chunks)
    return Hierarchy("zoo", arrays, {"vfs": {"format": "npy"}}, next(iter(arrays)))


def tree_store(folder: Path, zarr_format: int, backend: str = "mmap") -> Store:
    return Store(make_tree(folder, backend).zarr(zarr_format), (tree_store, (folder, zarr_format, backend)), "zoo")


def twin(face: ZarrFace) -> MemoryStore:
    """The same hierarchy with chunks written by zarr; only the documents are ours."""
    memory = MemoryStore()
    group = zarr.create_group(memory, zarr_format=face.zarr_format)
    for path, (_, shape, chunks) in ARRAYS.items():
        keys: dict[str, Any] = {
            "filters": None,
            "compressors": None,
            "fill_value": 0,
            "config": {"write_empty_chunks": True},
        }
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
        chunks = [
            "data/c/3/0/0",
            "data/c/0/3/0",
            "data/c/0/0/-1",
            "data/c/00/0/0",
            "data/c/0/0/0/0",
            "data/c/0.0.0",
            "data/3/0/0",
            "many/12/0",
            "scalar/1",
        ]
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
        self.absent = [
            key
            for key in chunks + names + ["/zarr.json", "data/", "empty/c/0/0", "empty/0/0", "c", "datum"]
            if key not in self.keys
        ]


@pytest.fixture(
    scope="module", params=[(3, "mmap"), (2, "mmap"), (3, "buffered"), (2, "buffered")], ids=lambda p: f"v{p[0]}-{p[1]}"
)
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    return Pair(tree_store(tmp_path_factory.mktemp("tree"), *request.param))


async def collect(names: AsyncIterator[str]) -> list[str]:
    return [name async for name in names]


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


def draw_request(pair: Pair, data: st.DataObject) -> tuple[str, ByteRequest | None]:
    """A key and a byte range about as long as its value."""
    key = data.draw(st.sampled_from(pair.keys + [key for key in pair.absent if not below_an_array(pair, key)]))
    size = len(cut(pair, key, None) or b"")
    number = st.integers(0, 2 * size + 2) | st.sampled_from([0, 1, size - 1, size, size + 1, 2**70]).map(abs)
    kinds = [
        st.none(),
        st.builds(RangeByteRequest, number, number),
        st.builds(OffsetByteRequest, number),
        st.builds(SuffixByteRequest, number),
    ]
    return key, data.draw(st.one_of(kinds))


async def test_every_key_holds_what_zarr_writes(pair: Pair) -> None:
    assert len(pair.keys) > 170
    for key in pair.keys:
        assert plain(await pair.store.get(key, P)) == plain(await pair.twin.get(key, P)), key


@given(data=st.data())
async def test_get_with_every_kind_of_byte_range(pair: Pair, data: st.DataObject) -> None:
    key, asked = draw_request(pair, data)
    expected = cut(pair, key, asked)
    assert plain(await pair.store.get(key, P, asked)) == expected
    assert plain(await pair.store.get(key, byte_range=asked)) == expected
    assert plain(pair.store.get_sync(key, byte_range=asked)) == expected


@given(data=st.data())
async def test_get_partial_values(pair: Pair, data: st.DataObject) -> None:
    asked = [draw_request(pair, data) for _ in range(data.draw(st.integers(0, 9)))]
    got = await pair.store.get_partial_values(P, (request for request in asked))
    assert [plain(buffer) for buffer in got] == [cut(pair, key, part) for key, part in asked]


async def test_other_byte_ranges_are_refused(pair: Pair) -> None:
    for key in (pair.keys[0], pair.keys[-1], "nothing"):
        with pytest.raises(vfs.OptionError, match="Unexpected byte_range"):
            await pair.store.get(key, P, (0, 2))  # type: ignore[arg-type]


def below_an_array(pair: Pair, key: str) -> bool:
    """True if nothing may be absent there but documents."""
    above = [path for path in pair.store.face.arrays if key.startswith(f"{path}/")]
    return (bool(above) or looks_like_chunk(key)) and not may_be_absent(key.rpartition("/")[2])


async def test_what_may_be_a_chunk_is_an_error(pair: Pair) -> None:
    """Zarr makes fill values of what is absent. Whoever asks for such a chunk opened the array at another server."""
    keys = [key for key in pair.absent + pair.folders if below_an_array(pair, key)]
    assert len(keys) > 15
    for key in keys:
        below = any(key.startswith(f"{path}/") for path in pair.store.face.arrays)
        for ask in (pair.store.get(key, P), *([pair.store.exists(key), pair.store.getsize(key)] if below else [])):
            with pytest.raises(vfs.SourceError) as caught:
                await ask
            assert not isinstance(caught.value, FileNotFoundError | IsADirectoryError | NotADirectoryError)


async def test_absent_keys(pair: Pair) -> None:
    for key in (key for key in pair.absent if not below_an_array(pair, key)):
        assert await pair.store.get(key, P) is None, key
        assert pair.store.get_sync(key) is None, key
        assert not await pair.store.exists(key), key
        with pytest.raises(FileNotFoundError):
            await pair.store.getsize(key)


async def test_folders_are_no_keys(pair: Pair) -> None:
    for folder in (folder for folder in pair.folders if not below_an_array(pair, folder)):
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
    with pytest.raises(vfs.SourceError):  # an array without elements has no folder for its chunks
        pair.store.face.node("empty/c")


@given(data=st.data())
async def test_list_prefix(pair: Pair, data: st.DataObject) -> None:
    key = data.draw(st.sampled_from(pair.keys + pair.absent))
    prefix = key[: data.draw(st.integers(0, len(key)))] + data.draw(st.sampled_from(["", "/", "0", "c", "/c/"]))
    assert sorted(await collect(pair.store.list_prefix(prefix))) == sorted(await collect(pair.twin.list_prefix(prefix)))


@given(data=st.data())
def test_zarr_reads_what_numpy_reads(pair: Pair, data: st.DataObject) -> None:
    path = data.draw(st.sampled_from(list(ARRAYS)))
    expected = values(path)
    cuts = tuple(
        slice(*sorted((data.draw(st.integers(0, n)), data.draw(st.integers(0, n)))), data.draw(st.integers(1, 3)))
        for n in expected.shape
    )
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
