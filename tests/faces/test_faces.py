"""What `ls` and zarr tools see: keys, sizes, documents and bytes of every face, and no answer to keys that are none."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st

import vfs
from tests.engine.support import failing
from tests.faces.support import FORMATS, array_of, tree_of
from tests.model.strategies import DTYPES, some
from vfs.backends import make_backend
from vfs.contents.face_folder import FaceFolder
from vfs.engine.array import ArrayReader
from vfs.engine.cache import ChunkCache
from vfs.errors import NoChunkError, OptionError, SourceError
from vfs.faces.data_set import Hierarchy
from vfs.faces.face import FOLDER, GROUP, Face, Node, ZarrFace, number
from vfs.faces.npy_face import NpyFace
from vfs.model.decode import PlainDecoder
from vfs.model.layout import FrameLayout, FrameRecord
from vfs.model.stored import StoredArray
from vfs.testing.backends import CountingBackend, MemoryBackend, local_files, memory_files
from vfs.testing.inside import set_of
from vfs.testing.writers import write_npy


@pytest.fixture
def tree() -> Hierarchy:
    """A container: arrays at several depths, without axes, empty, and of a kind of each."""
    return tree_of(
        array_of(np.arange(5 * 7 * 6, dtype="<u2").reshape(5, 7, 6), "entry/data", chunks=(2, 4, 6)),
        array_of(np.arange(12.0).reshape(3, 4), "entry/deep/er/x", chunks=(3, 3)),
        array_of(np.array(7, "<i4"), "entry/scalar"),
        array_of(np.empty((0, 4), "f4"), "empty/front", chunks=(1, 4)),
        array_of(np.empty((3, 0, 4), "u1"), "empty/middle", chunks=(1, 1, 4)),
        array_of(np.arange(5) * 1.5, "timestamp", chunks=(2,), companion=True),
        vfs={"format": "zoo"},
    )


def walk(face: Face, key: str = "") -> list[str]:
    """All files, by way of `children`."""
    found = []
    for name in face.children(key):
        below = f"{key}/{name}".lstrip("/")
        node = face.node(below)
        assert node is not None, below
        found += walk(face, below) if node.folder else [below]
    return found


def every(face: ZarrFace) -> list[str]:
    return list(face.keys())


@pytest.mark.parametrize("zarr_format", FORMATS)
def test_keys_nodes_and_bytes_agree(tree: Hierarchy, zarr_format: int) -> None:
    face = tree.zarr(zarr_format)
    keys = list(face.keys())
    assert sorted(walk(face)) == sorted(keys)
    assert len(set(keys)) == len(keys)
    total = 0
    for key in keys:
        node, got = face.node(key), face.get(key)
        assert node is not None
        assert got is not None
        assert node == Node(False, got.nbytes, json=key in face.documents)
        total += got.nbytes
        assert list(face.children(key)) == []
    assert face.total() == total
    chunks = [key for key in keys if key.startswith("entry/data/") and key[-1].isdigit()]
    assert len(chunks) == 3 * 2 * 1
    assert not any(key.startswith("empty") and key[-1].isdigit() for key in keys)


@pytest.mark.parametrize("zarr_format", FORMATS)
def test_totals_of_folders(tree: Hierarchy, zarr_format: int) -> None:
    face = tree.zarr(zarr_format)
    for folder in (
        "entry",
        "entry/data",
        "entry/data/c",
        "entry/data/c/1",
        "entry/data/1",
        "empty",
        "empty/middle",
        "entry/deep",
        "nothing",
        "entry/da",
    ):
        below = [face.get(key) for key in every(face) if key.startswith(f"{folder}/")]
        assert face.total(folder) == sum(got.nbytes for got in below if got is not None), folder


@pytest.mark.parametrize("zarr_format", FORMATS)
@pytest.mark.parametrize(
    "prefix",
    [
        *(
            "",
            "e",
            "entry",
            "entry/",
            "entry/data/c",
            "entry/data/c/",
            "entry/data/c/1",
            "entry/data/c/1/",
            "entry/data/c/1/0/0",
            "entry/data/c/1/0/0/",
        ),
        *(
            "entry/data/1/",
            "entry/data/1",
            "entry/data/01/",
            "entry/data/c/x/",
            "entry/scalar",
            "entry/scalar/c",
            "entry/scalar/0",
            "empty/",
            "z",
        ),
        *("entry/data/c/9/", ".z", "timestamp/"),
    ],
)
def test_keys_with_a_prefix(tree: Hierarchy, zarr_format: int, prefix: str) -> None:
    face = tree.zarr(zarr_format)
    assert list(face.keys(prefix)) == [key for key in every(face) if key.startswith(prefix)]


@pytest.mark.parametrize("zarr_format", FORMATS)
def test_children_from_anywhere_on(tree: Hierarchy, zarr_format: int) -> None:
    face = tree.zarr(zarr_format)
    folders = {"", *(key.rsplit("/", k)[0] for key in every(face) for k in range(1, key.count("/") + 1))}
    for folder in folders:
        group = folder not in face.arrays and any(f"/{path}".startswith(f"/{folder}") for path in face.arrays)
        assert face.node(folder) == (GROUP if group else FOLDER)
        names = list(face.children(folder))
        assert len(set(names)) == len(names)
        for after in range(len(names) + 2):
            assert list(face.children(folder, after)) == names[after:]


def test_a_folder_of_a_million_chunks_is_not_made_to_look_into_it() -> None:
    layout = FrameLayout.of(FrameRecord((1,), 1), [10**12])
    array = ArrayReader(
        StoredArray("data", memory_files([b""]), layout, PlainDecoder(np.dtype("u1")), (10**12, 1), ("a", "b"), 1),
        MemoryBackend([b""]),
        chunks=(1, 1),
    )
    for zarr_format, folder in ((3, "data/c"), (2, "data")):
        face = tree_of(array).zarr(zarr_format)
        skip = 0 if zarr_format == 3 else 2
        assert list(islice(face.children(folder, skip + 10**11), 2)) == [str(10**11), str(10**11 + 1)]
        assert face.node(f"{folder}/{10**12 - 1}/0") == Node(False, 1)
        with pytest.raises(NoChunkError):
            face.node(f"{folder}/{10**12}/0")
        assert next(face.keys(f"{folder}/{10**12 - 5}/")) == f"{folder}/{10**12 - 5}/0"
        assert face.total("data") > 10**12


HOSTILE = [
    *(
        "/",
        "//",
        "data/",
        "/data",
        "data//0",
        "nothing",
        "c",
        "data/c/",
        "data/c//0",
        "data/c/0/",
        "data/c/0/0/0/0",
        "data/c/00/0",
        "data/c/0/00",
    ),
    *(
        "data/c/-1/0",
        "data/c/+1/0",
        "data/c/0x1/0",
        "data/c/1e0/0",
        "data/c/1.0/0",
        "data/c/1_0/0",
        "data/c/ 1/0",
        "data/c/1 /0",
        "data/c/1\n/0",
    ),
    *(
        "data/c/٣/0",
        "data/c/²/0",
        "data/c/１/0",
        "data/c/3/0",
        "data/c/0/2",
        "data/c/9999999999999999999/0",
        "data/c/0\0/0",
        "é" * 100,
        "\ud800",
    ),
    *(
        "data/c/" + "9" * 18 + "/0",
        "data/c/" + "9" * 5000 + "/0",
        "data/d/0/0",
        "data/C/0/0",
        "data/c/0/0/zarr.json",
        "data/zarr.json/0",
    ),
    *(
        "../x",
        "data/../data/zarr.json",
        "data/./zarr.json",
        "data/c/../c/0/0",
        ".",
        "..",
        "data.0.0",
        "data/0.0",
        "data/c.0.0",
        "zarr.json/",
    ),
    *(
        "/zarr.json",
        "data/.zarray/",
        "Data/zarr.json",
        "a" * 100_000,
        "/" * 1_000_000,
        "data/c" + "/0" * 500_000,
        "data/" * 200_000,
    ),
]


def missing(ask: Callable[[], Any]) -> Any:
    """What a key gives; `NoChunkError` if it raises that."""
    try:
        return ask()
    except NoChunkError:
        return NoChunkError


@pytest.mark.parametrize("zarr_format", FORMATS)
@pytest.mark.parametrize("key", HOSTILE, ids=lambda key: ascii(key[:30]))
def test_what_is_no_key_has_no_answer(key: str, zarr_format: int) -> None:
    face = tree_of(array_of(np.zeros((6, 4), "u1"), chunks=(2, 2))).zarr(zarr_format)
    for made in (key, key.replace("data/c/", "data/") if zarr_format == 2 else key):
        assert missing(lambda made=made: face.get(made)) in {None, NoChunkError}
        assert missing(lambda made=made: face.get(made, 0, 1)) == missing(lambda made=made: face.node(made))
        assert list(face.children(made)) == []
        assert face.total(made) == 0
        assert [k for k in face.keys(made) if not k.startswith(made)] == []


@given(st.text("0123456789/cdat.z-+ ٣²x", max_size=20))
def test_no_made_up_key_is_one_by_accident(key: str) -> None:
    for zarr_format in FORMATS:
        face = tree_of(array_of(np.zeros((6, 4), "u1"), chunks=(2, 2)), array_of(np.array(1), "x")).zarr(zarr_format)
        keys = set(face.keys())
        folders = {"", *(k.rsplit("/", n)[0] for k in keys for n in range(1, k.count("/") + 1))}
        nothing = None, NoChunkError
        assert (missing(lambda face=face: face.node(key)) not in nothing) == (key in keys or key in folders)
        assert (missing(lambda face=face: face.get(key)) not in nothing) == (key in keys)


@given(st.text(max_size=25))
def test_numbers_are_spelled_in_one_way(part: str) -> None:
    assert number(part) == (int(part) if part in {str(n) for n in range(1000)} else -1) or (
        len(part) > 3 and str(number(part)) == part
    )


def test_chunks_are_whole_padded_and_little_endian(tree: Hierarchy) -> None:
    face = tree.zarr(3)
    values = np.zeros((6, 8, 6), "<u2")
    values[:5, :7] = np.arange(5 * 7 * 6).reshape(5, 7, 6)
    for position in np.ndindex(3, 2, 1):
        got = face.get("entry/data/c/" + "/".join(map(str, position)))
        assert got is not None
        cut = tuple(slice(p * c, (p + 1) * c) for p, c in zip(position, (2, 4, 6), strict=True))
        assert got.tobytes() == values[cut].tobytes()
    swapped = tree_of(array_of(np.arange(6, dtype="<u4").reshape(2, 3), stored=">u4")).zarr(3)
    assert swapped.get("data/c/0/0") == np.arange(6, dtype="<u4").data.cast("B")


@pytest.mark.parametrize("zarr_format", FORMATS)
@pytest.mark.parametrize("limit", [1 << 20, 10], ids=["cached", "too large for the cache"])
def test_parts_of_files(zarr_format: int, limit: int) -> None:
    values = np.arange(5 * 7, dtype="<u4").reshape(5, 7)
    face = tree_of(array_of(values, chunks=(2, 4), cache=ChunkCache(limit))).zarr(zarr_format)
    for key in every(face):
        whole = face.get(key)
        assert whole is not None
        for start in (0, 1, 3, 4, 9, 31, 32, 33, 10_000):
            for stop in (None, 0, 1, 4, 6, 15, 31, 32, 33, 10_000):
                got = face.get(key, start, stop)
                assert got is not None
                assert got.tobytes() == whole.tobytes()[start:stop], (key, start, stop)


def test_a_part_of_a_huge_chunk_reads_that_part(tmp_path: Path) -> None:
    values = np.arange(64 * 1024, dtype="<u4").reshape(8, 64, 128)
    path = tmp_path / "values.bin"
    path.write_bytes(values.tobytes())
    backend = CountingBackend(make_backend("buffered", local_files([path])))
    array = array_of(values, backend=backend, chunks=(-1, -1, -1), cache=ChunkCache(values.nbytes - 1))
    face = tree_of(array).zarr(3)
    face.get("data/c/0/0/0", 60_001, 70_000)  # loads kernels
    backend.reads.clear()
    got = face.get("data/c/0/0/0", 100_001, 104_097)
    assert got is not None
    assert got.tobytes() == values.tobytes()[100_001:104_097]
    assert 4096 <= backend.nbytes <= 4096 + 8


def test_reading_a_part_twice_decodes_once() -> None:
    values = np.arange(1024, dtype="<u4").reshape(8, 128)
    backend = CountingBackend(MemoryBackend([values.tobytes()], copies=True, window=1 << 19))
    face = tree_of(array_of(values, backend=backend, chunks=(-1, -1))).zarr(3)
    for start in range(0, 4096, 128):
        got = face.get("data/c/0/0", start, start + 128)
        assert got is not None
        assert got.tobytes() == values.tobytes()[start : start + 128]
    assert len(backend.reads) == 1


@pytest.mark.parametrize("zarr_format", FORMATS)
def test_what_is_at_hand(zarr_format: int) -> None:
    face = tree_of(array_of(np.zeros((6, 3, 3), ">u2"), chunks=(2, 3, 3))).zarr(zarr_format)
    key = "data/c/1/0/0" if zarr_format == 3 else "data/1/0/0"
    for none in (key, key[:-2], "data", "nothing", "data/7/0/0"):
        assert not face.in_memory(none)
    assert all(map(face.in_memory, face.documents))
    face.get(key)
    assert face.in_memory(key)
    assert not face.in_memory(key.replace("1", "0"))


@pytest.mark.parametrize("zarr_format", FORMATS)
def test_no_source_is_touched_to_look_around(zarr_format: int) -> None:
    array, backend = failing(np.arange(120, dtype="<u2").reshape(10, 4, 3), True)
    backend.fails = lambda file, start, stop: True
    folder = FaceFolder([tree_of(array)])
    assert all(
        folder.at(f"{name}/{key}".rstrip("/")).node()
        for name, face in folder.faces.items()
        for key in walk(face) or [""]
    )
    key = "set.zarr/data/c/0/0/0" if zarr_format == 3 else "set.v2.zarr/data/0/0/0"
    for start, stop in ((0, None), (5, 10)):
        with pytest.raises(SourceError, match=r"file 0: bytes .* \[reading data\["):
            folder.at(key).get(start, stop)
    with pytest.raises(SourceError, match=r"\[reading data\["):
        folder.at("set.npy").get(130, 140)
    assert folder.at("set.npy").get(0, 6) == b"\x93NUMPY"


# documents, as zarr itself understands them


@pytest.mark.parametrize("zarr_format", FORMATS)
def test_zarr_reads_the_tree(tree: Hierarchy, zarr_format: int, tmp_path: Path) -> None:
    face = tree.zarr(zarr_format)
    for key in every(face):
        got = face.get(key)
        assert got is not None
        path = tmp_path / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(got)
    for consolidated in (True, False):
        group = zarr.open_group(tmp_path, mode="r", zarr_format=zarr_format, use_consolidated=consolidated)
        assert dict(group.attrs) == {"vfs": {"format": "zoo"}}
        for path, array in tree.arrays.items():
            found = group[path]
            assert isinstance(found, zarr.Array)
            np.testing.assert_array_equal(found[...], array[...])
            assert found.dtype == array.dtype
            assert found.chunks == array.chunks
            if zarr_format == 3:
                assert found.metadata.dimension_names == array.dims
            else:
                assert found.attrs["_ARRAY_DIMENSIONS"] == list(array.dims)
    assert {path for path, node in group.members(max_depth=None) if isinstance(node, zarr.Array)} == set(tree.arrays)


@pytest.mark.parametrize("zarr_format", FORMATS)
def test_consolidated_documents_are_the_documents(tree: Hierarchy, zarr_format: int) -> None:
    face = tree.zarr(zarr_format)
    documents = {key: json.loads(content) for key, content in face.documents.items()}
    if zarr_format == 3:
        kept = documents["zarr.json"]["consolidated_metadata"]["metadata"]
        assert {f"{path}/zarr.json": node for path, node in kept.items()} == {
            k: v for k, v in documents.items() if k != "zarr.json"
        }
        assert list(kept) == sorted(kept)
    else:
        assert documents[".zmetadata"]["metadata"] == {k: v for k, v in documents.items() if k != ".zmetadata"}
        assert all(document["fill_value"] is None for key, document in documents.items() if key.endswith(".zarray"))


def test_other_zarr_formats() -> None:
    for wrong in (1, 4, "3", None):
        with pytest.raises(OptionError, match="expected 3 or 2"):
            ZarrFace({}, {}, wrong)  # type: ignore[arg-type]


# the .npy face


@given(st.data())
def test_npy_is_what_numpy_writes(data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from(DTYPES))
    shape = tuple(data.draw(st.lists(st.integers(0, 4), max_size=5)))
    values = some(dtype, (*shape[:1], *(max(1, n) for n in shape[1:])), 0)
    written = io.BytesIO()
    np.save(written, values.astype(values.dtype.newbyteorder("<")))
    expected = written.getvalue()
    face = NpyFace(array_of(values, stored=dtype))
    assert face.node("") == Node(False, len(expected))
    assert face.get("") == expected
    start, stop = (data.draw(st.integers(0, len(expected) + 10)) for _ in range(2))
    assert face.get("", start, stop) == expected[start:stop]
    assert face.get("", start) == expected[start:]
    for other in ("a", "0", "/"):
        assert face.node(other) is None
        assert face.get(other) is None
    assert list(face.children("")) == []


def test_npy_of_blocks_and_any_offset() -> None:
    values = np.arange(5 * 7 * 3, dtype="<u2").reshape(5, 7, 3)
    face = NpyFace(array_of(values, header=3, chunks=(2, 4, 3)))
    written = io.BytesIO()
    np.save(written, values)
    got = b"".join(face.get("", a, a + 7) or b"" for a in range(0, len(written.getvalue()), 7))
    assert got == written.getvalue()


# trees and folders


def test_faces_of_a_tree(tree: Hierarchy) -> None:
    assert list(tree.faces()) == [
        ".zarr",
        ".v2.zarr",
        ".npy",
        ".entry.deep.er.x.npy",
        ".empty.front.npy",
        ".empty.middle.npy",
    ]
    faces = tree_of(
        array_of(np.zeros((9, 9))),
        array_of(np.zeros((2, 2)), "a/b"),
        array_of(np.ones((2, 2)), "a.b"),
        array_of(np.ones((2, 2)), "a.b-2"),
    ).faces()
    assert list(faces)[2:] == [".npy", ".a.b.npy", ".a.b-2.npy", ".a.b-2-2.npy"]


def test_equal_names_and_names_that_meet() -> None:
    def names(*of: str) -> list[str]:
        trees = [tree_of(array_of(np.full((2, 2), n, "u1")), name=name) for n, name in enumerate(of)]
        folder = FaceFolder(trees)
        assert len(folder.faces) == 3 * len(of)  # none has taken the place of another
        for name, face in folder.faces.items():
            if name.endswith(".npy"):
                assert folder.at(name).get() == face.get("")
        return [name.removesuffix(".npy") for name in folder.faces if name.endswith(".npy")]

    assert names("a", "b") == ["a", "b"]
    assert names("a", "a", "a") == ["a", "a-2", "a-3"]
    assert names("a", "a-2", "a") == ["a", "a-2", "a-3"]
    assert names("a-2", "a", "a") == ["a-2", "a", "a-3"]
    assert names("a", "a.v2") == ["a", "a.v2-2"]  # the v2 face of a is a.v2.zarr
    assert names("a.v2", "a") == ["a.v2", "a-2"]


def test_a_folder_of_nothing() -> None:
    with pytest.raises(OptionError, match="nothing to mount"):
        FaceFolder([])


def test_a_folder_passes_on(tree: Hierarchy) -> None:
    folder = FaceFolder([tree, tree_of(array_of(np.zeros((2, 3), "u1")), name="other")])
    names = list(folder.at("").children())
    assert names == [f"set{ending}" for ending in tree.faces()] + ["other.zarr", "other.v2.zarr", "other.npy"]
    assert list(folder.at("").children(4)) == names[4:]
    assert folder.at("").node() == folder.at("set.zarr").node() == GROUP
    assert folder.at("set.zarr/entry/data/c/1").node() == FOLDER
    assert folder.at("set.zarr/entry/data/c/1/0/0").node() == Node(False, 2 * 4 * 6 * 2)
    assert list(folder.at("set.v2.zarr/entry/scalar").children()) == [".zarray", ".zattrs", "0"]
    assert folder.at("other.v2.zarr/data/0/0").get() == bytes(6)
    for wrong in ("set", "set.zarr/x", "other.npy/x", "third.zarr", "/", "set.zarr//"):
        assert folder.at(wrong).node() is None
        assert folder.at(wrong).get() is None
        assert list(folder.at(wrong).children()) == []


def test_times_are_those_of_the_newest_source(tmp_path: Path) -> None:
    import os

    paths = [write_npy(tmp_path, np.zeros((2, 2)), name=f"{n}.npy") for n in range(3)]
    for n, path in enumerate(paths):
        os.utime(path, ns=(0, 10**18 + n))
    trees = [set_of(vfs.open_group(one)).tree for one in (paths[:2], paths[2])]
    assert [tree.time for tree in trees] == [10**18 + 1, 10**18 + 2]
    folder = FaceFolder(trees)
    assert folder.at("0.zarr/data/zarr.json").time() == folder.at("0.npy").time() == 10**18 + 1
    assert folder.at("2.npy").time() == folder.at("").time() == 10**18 + 2


def test_showing_a_set_goes_through_its_arrays_a_few_times() -> None:
    """Not once for each: a container of 10,000 arrays took two minutes to be served."""
    some_arrays = {f"a{k}": array_of(np.zeros((2, 3)), f"a{k}") for k in range(100)}
    gone_through = []

    class Arrays(dict[str, ArrayReader]):
        def values(self) -> Any:
            gone_through.append(1)
            return super().values()

    folder = FaceFolder([Hierarchy("many", Arrays(some_arrays), {}, "a0")])
    assert len(folder.faces) == 102
    assert len(gone_through) < 10
