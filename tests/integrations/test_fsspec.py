"""The file system `vfs://` of fsspec, by itself and under zarr, xarray and dask."""

from __future__ import annotations

import asyncio
import json
import os
import pickle
import threading
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import dask.array
import fsspec
import numpy as np
import pytest
import xarray as xr
import zarr
from dask.base import tokenize
from zarr.storage import FsspecStore

import vfs
from vfs.faces.face import ZarrFace
from vfs.integrations.fsspec import VfsFileSystem
from vfs.testing.writers import write_mib, write_npy, write_raw

FRAMES = np.random.default_rng(5).integers(0, 4096, (4 * 6, 8, 10)).astype("u2")
SCAN = FRAMES.reshape(4, 6, 8, 10)


@pytest.fixture
def scan(tmp_path: Path) -> Path:
    return write_mib(tmp_path, FRAMES, frames_per_file=7, scan=(4, 6))


@pytest.fixture
def fs() -> VfsFileSystem:
    return fsspec.filesystem("vfs")


# what people type


def test_zarr_opens_a_url(scan: Path) -> None:
    group = zarr.open(f"vfs://{scan}", mode="r")
    assert isinstance(group, zarr.Group)
    assert sorted(group) == ["data", "exposure", "timestamp"]
    np.testing.assert_array_equal(group["data"][:], SCAN)  # type: ignore[index]
    array = zarr.open(f"vfs://{scan}/data")
    np.testing.assert_array_equal(array[2:, 5, ::2], SCAN[2:, 5, ::2])  # type: ignore[index]


def test_names_may_be_relative(scan: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(scan.parent)
    np.testing.assert_array_equal(zarr.open_array(f"vfs://{scan.name}", path="data", mode="r")[1], SCAN[1])
    monkeypatch.setenv("HOME", str(scan.parent))
    with fsspec.open("vfs://~/scan.hdr/data/zarr.json", "rt") as file:
        assert json.load(file)["shape"] == [4, 6, 8, 10]


def test_xarray_and_dask_open_a_url(scan: Path) -> None:
    found = xr.open_zarr(f"vfs://{scan}")
    assert found.sizes == {"scan_y": 4, "scan_x": 6, "y": 8, "x": 10}
    assert found["data"].dtype == "u2"
    np.testing.assert_array_equal(found["data"], SCAN)
    lazy = dask.array.from_zarr(f"vfs://{scan}", component="data", storage_options={"chunks": "frames"})
    assert lazy.chunksize == (1, 1, 8, 10)
    np.testing.assert_array_equal(lazy.compute(scheduler="threads"), SCAN)


@pytest.mark.parametrize(
    ("query", "options"),
    [
        ("nav_shape=8,3&sync_offset=2", {"nav_shape": (8, 3), "sync_offset": 2}),
        ("chunks=frames&zarr_format=2&dtype=f4", {"chunks": "frames", "dtype": "f4"}),
        ("flip_y=yes&format=mib", {"flip_y": True, "format": "mib"}),
        (
            "derive=a=disk(cy=4, cx=5, r=3)&derive=b=mean()",
            {"derive": {"a": vfs.Disk(cy=4, cx=5, r=3), "b": vfs.Mean()}},
        ),
        ("accept_changes=true&backend=buffered", {"accept_changes": True, "backend": "buffered"}),
    ],
    ids=str,
)
def test_options_stand_after_a_question_mark(scan: Path, query: str, options: dict[str, Any]) -> None:
    found = zarr.open_group(f"vfs://{scan}?{query}", mode="r")
    expected = vfs.open_group(scan, **options)
    assert found.metadata.zarr_format == (2 if "zarr_format=2" in query else 3)
    assert sorted(path for path, one in found.members(max_depth=None) if isinstance(one, zarr.Array)) == sorted(
        expected
    )
    for path, array in expected.items():
        np.testing.assert_array_equal(found[path], array)  # type: ignore[arg-type]
        assert found[path].chunks == array.chunks  # type: ignore[union-attr]


def test_options_are_storage_options(scan: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "roi ä.npy", np.array([3, 9]))
    for given in ({"roi": [3, 9], "sync_offset": 1}, {"roi": str(tmp_path / "roi ä.npy"), "sync_offset": "1"}):
        found = zarr.open_group(f"vfs://{scan}", mode="r", storage_options=given)["data"]
        np.testing.assert_array_equal(found, FRAMES[[4, 10]])  # type: ignore[arg-type]
    found = zarr.open_array(f"vfs://{scan}?roi={tmp_path}/roi%20ä.npy", path="data", mode="r")
    np.testing.assert_array_equal(found, FRAMES[[3, 9]])


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("sync_offset=many", "sync_offset=many: expected a whole number"),
        ("zarr_format=4", "zarr_format='4': expected 3 or 2"),
        ("flip=1", "format mib has no option 'flip'.*did you mean flip_y"),
        ("flip_y=perhaps", "flip_y=perhaps: expected true or false"),
        ("nav_shape=2,3&nav_shape=3,2", "nav_shape is given twice"),
        ("nav_shape=2,3&", "expected .NAME=VALUE&NAME=VALUE, found ''"),
    ],
)
def test_wrong_options_are_one_clear_line(scan: Path, query: str, said: str) -> None:
    with pytest.raises(vfs.OptionError, match=said):
        zarr.open_group(f"vfs://{scan}?{query}", mode="r")


# which part of a URL is a file


def test_files_on_disk_say_where_the_key_begins(tmp_path: Path, fs: VfsFileSystem) -> None:
    folder = tmp_path / "data" / "c"
    folder.mkdir(parents=True)
    path = write_npy(folder, FRAMES, name="what?x[1].npy")
    assert fs.cat_file(f"vfs://{path}/data/c/0/0/0") == FRAMES.tobytes()
    assert fs.ls(f"{path}/data/c", detail=False) == [f"{path}/data/c/0"]


def test_a_name_with_two_colons_is_no_other_file(tmp_path: Path) -> None:
    """Fsspec cuts a URL there: `a::b` would be read from `a`."""
    for name in ("a", "a::b.npy"):
        with (tmp_path / name).open("wb") as file:
            np.save(file, np.arange(6).reshape(2, 3))
    for opened in (zarr.open, zarr.open_group):
        with pytest.raises(vfs.OptionError, match=r"after :: in a URL \(.*b\.npy.*vfs\.open_group\(FILE\)"):
            opened(f"vfs://{tmp_path}/a::b.npy", mode="r")
    same = vfs.open_group(tmp_path / "a::b.npy").zarr()["data"]
    assert np.asarray(same).tolist() == [[0, 1, 2], [3, 4, 5]]


def test_a_glob_names_the_files_that_it_finds(tmp_path: Path) -> None:
    write_raw(tmp_path, FRAMES, files=3)
    options = {"format": "raw", "dtype": "<u2", "sig_shape": "8,10"}
    found = zarr.open_array(f"vfs://{tmp_path}/part*.bin", path="data", mode="r", storage_options=options)
    np.testing.assert_array_equal(found, FRAMES)


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("folder", "is a folder: expected vfs://FILE"),
        ("folder/zarr.json", "there is no file zarr.json in /.*folder: expected vfs://FILE"),
        ("none.hdr", "there is no file none.hdr in /"),
        ("none*.hdr/data/zarr.json", "there is no file none.*hdr in /"),
        ("text.txt", "no format recognises it"),
    ],
)
def test_what_is_no_set_is_an_error_but_not_an_absent_key(
    tmp_path: Path, fs: VfsFileSystem, path: str, said: str
) -> None:
    (tmp_path / "text.txt").write_text("no detector wrote this")
    (tmp_path / "folder").mkdir()
    for ask in (fs.info, fs.ls, fs.find, fs.cat_file):
        with pytest.raises(vfs.VfsError, match=said) as caught:
            ask(f"vfs://{tmp_path}/{path}")
        assert not isinstance(caught.value, FileNotFoundError)
    with pytest.raises(
        vfs.VfsError, match=said.replace("is a folder: expected", "there is no file zarr.json in .*: expected")
    ):
        zarr.open(f"vfs://{tmp_path}/{path}")
    assert not fs.exists(f"vfs://{tmp_path}/{path}")


# the file system


def test_keys_are_those_of_the_store(scan: Path, fs: VfsFileSystem) -> None:
    store = vfs.open_group(scan).store()
    keys = sorted(store.face.keys())
    assert [path.removeprefix(f"{scan}/") for path in fs.find(f"vfs://{scan}")] == keys
    for key in keys:
        expected = bytes(store.face.get(key) or b"")
        info = fs.info(f"{scan}/{key}")
        assert (info["name"], info["size"], info["type"]) == (f"{scan}/{key}", len(expected), "file")
        assert fs.cat_file(f"{scan}/{key}") == expected
        assert fs.ls(f"{scan}/{key}", detail=False) == [f"{scan}/{key}"]
    assert {one["name"]: one["type"] for one in fs.ls(f"vfs://{scan}")} == {
        f"{scan}/zarr.json": "file",
        **{f"{scan}/{name}": "directory" for name in ("data", "exposure", "timestamp")},
    }
    assert fs.isdir(f"{scan}")
    assert fs.isfile(f"{scan}/zarr.json")
    assert fs.glob(f"{scan}/*/zarr.json") == [f"{scan}/{name}/zarr.json" for name in ("data", "exposure", "timestamp")]
    assert fs.glob(f"{scan}/data/c/?/0/0/0") == [f"{scan}/data/c/0/0/0/0"]
    assert fs.modified(f"{scan}").timestamp() == pytest.approx(max(map(os.path.getmtime, scan.parent.iterdir())))


@pytest.mark.parametrize("part", [(None, None), (3, 9), (0, 0), (5, None), (-4, None), (None, -3), (7, 10**9), (9, 3)])
@pytest.mark.parametrize("key", ["zarr.json", "data/c/0/0/0/0", "exposure/c/0/0"])
def test_parts_of_a_key(scan: Path, fs: VfsFileSystem, key: str, part: tuple[int | None, int | None]) -> None:
    whole = fs.cat_file(f"{scan}/{key}")
    assert fs.cat_file(f"{scan}/{key}", *part) == whole[slice(*part)]
    assert fs.cat_ranges([f"{scan}/{key}"] * 2, [part[0], 1], [part[1], 2]) == [whole[slice(*part)], whole[1:2]]

    async def asked() -> list[Any]:
        there = fsspec.filesystem("vfs", asynchronous=True)
        return [await there._cat_file(f"{scan}/{key}", *part), *await there._cat_ranges([f"{scan}/{key}"], *part)]

    assert [bytes(one) for one in asyncio.run(asked())] == [whole[slice(*part)]] * 2


def test_many_keys_at_once(scan: Path, fs: VfsFileSystem) -> None:
    names = [f"{scan}/{key}" for key in ("zarr.json", "none", "data/c/0/0/0/0")]
    found = fs.cat(names, on_error="return")
    assert {*found} == {*names}
    assert isinstance(found[names[1]], FileNotFoundError)
    assert found[names[2]] == FRAMES.tobytes()
    assert {*fs.cat(names, on_error="omit")} == {names[0], names[2]}
    with pytest.raises(FileNotFoundError):
        fs.cat(names)
    mapper = fs.get_mapper(f"vfs://{scan}")
    assert json.loads(mapper["data/zarr.json"])["shape"] == [4, 6, 8, 10]
    assert "data/c/9/0/0/0" not in mapper
    found = zarr.open_array(FsspecStore.from_mapper(mapper, read_only=True), path="data")
    np.testing.assert_array_equal(found, SCAN)


@pytest.mark.parametrize("key", ["data/c/1/0/0/0", "data/c/0/0/0", "data/c/00/0/0/0", "data/c/0/0/0/0/0", "data/0.0"])
def test_what_may_be_a_chunk_is_an_error(scan: Path, fs: VfsFileSystem, key: str) -> None:
    with pytest.raises(vfs.SourceError) as caught:
        fs.cat_file(f"{scan}/{key}")
    assert not isinstance(caught.value, FileNotFoundError)


@pytest.mark.parametrize("key", ["none", ".zgroup", "data"])
def test_an_absent_key_is_not_found(scan: Path, fs: VfsFileSystem, key: str) -> None:
    with pytest.raises(FileNotFoundError, match=key):
        fs.cat_file(f"{scan}/{key}")
    with pytest.raises(FileNotFoundError):
        fs.open(f"{scan}/{key}")


def test_open_files(scan: Path) -> None:
    with fsspec.open(f"vfs://{scan}/data/c/0/0/0/0") as file:
        file.seek(160)
        assert file.read(160) == FRAMES[1].tobytes()
    files = fsspec.open_files(f"vfs://{scan}/*/zarr.json", "rt")
    assert len(files) == 3
    with files[0] as file:
        assert json.load(file)["dimension_names"] == ["scan_y", "scan_x", "y", "x"]


def test_copies_can_be_taken(scan: Path, tmp_path: Path, fs: VfsFileSystem) -> None:
    fs.get(f"vfs://{scan}", str(tmp_path / "copy"), recursive=True)
    np.testing.assert_array_equal(zarr.open_array(tmp_path / "copy", path="data", mode="r"), SCAN)


def test_nothing_can_be_written(scan: Path, fs: VfsFileSystem) -> None:
    key, before = f"{scan}/data/c/0/0/0/0", scan.read_bytes()
    for change in (
        lambda: fs.pipe_file(key, b"x"),
        lambda: fs.pipe({key: b"x"}),
        lambda: fs.open(key, "wb"),
        lambda: fs.rm(key),
        lambda: fs.rm(str(scan), recursive=True),
        lambda: fs.mkdir(f"{scan}/new"),
        lambda: fs.makedirs(f"{scan}/new"),
        lambda: fs.mv(key, f"{key}x"),
        lambda: fs.cp_file(key, f"{key}x"),
        lambda: fs.touch(key),
        lambda: fs.put_file(str(scan), key),
        lambda: zarr.open_group(f"vfs://{scan}")["data"].__setitem__(0, 1),  # type: ignore[union-attr]
        lambda: zarr.open_group(f"vfs://{scan}").create_group("new"),
    ):
        with pytest.raises(OSError, match="read-only"):
            change()
    assert scan.read_bytes() == before


# what cannot be read


@pytest.mark.parametrize("damage", ["gone", "cut", "changed"])
def test_a_source_that_cannot_be_read_is_no_missing_chunk(scan: Path, damage: str) -> None:
    """Zarr fills in for FileNotFoundError, which is what an absent file is."""
    options = {"backend": "buffered", "chunks": "frames"}
    array = zarr.open_array(f"vfs://{scan}", path="data", mode="r", storage_options=options)
    first = scan.with_name("scan001.mib")
    if damage == "gone":
        for path in scan.parent.iterdir():
            path.unlink()
    elif damage == "cut":
        os.truncate(first, 500)
    else:
        first.write_bytes(first.read_bytes()[::-1])
        os.utime(first, ns=(1, 1))
    for _ in range(2):
        with pytest.raises(vfs.SourceError, match=r"scan001\.mib"):
            array[0]
    again = pickle.loads(pickle.dumps(array))
    for _ in range(2):  # also where it would be opened first
        with pytest.raises(OSError, match=r"scan"):
            again[0]


def test_who_opens_again_sees_files_as_they_are(tmp_path: Path) -> None:
    path = write_npy(tmp_path, FRAMES)
    before = zarr.open_array(f"vfs://{path}", path="data", mode="r")
    np.testing.assert_array_equal(before[3], FRAMES[3])
    path.unlink()
    write_npy(tmp_path, FRAMES[:5] + 1)
    after = zarr.open_array(f"vfs://{path}", path="data", mode="r")
    np.testing.assert_array_equal(after, FRAMES[:5] + 1)
    with pytest.raises(vfs.SourceError):
        pickle.loads(pickle.dumps(before))[3]
    assert tokenize(before.store.fs) != tokenize(after.store.fs)  # type: ignore[attr-defined]
    assert before.store.fs == after.store.fs == fsspec.filesystem("vfs", asynchronous=True)  # type: ignore[attr-defined]


# processes and threads


def frame_sum(array: zarr.Array[Any], y: int) -> int:
    return int(np.asarray(array[y]).sum())


def test_pickles_say_how_sets_were_opened(scan: Path) -> None:
    array = zarr.open_array(f"vfs://{scan}?nav_shape=8,3", path="data", mode="r", storage_options={"dark": FRAMES[0]})
    packed = pickle.dumps(array)
    assert b"dark" in packed
    expected = [frame_sum(array, y) for y in range(8)]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(frame_sum, [array] * 8, range(8))) == expected
    with ProcessPoolExecutor(1, get_context("spawn")) as processes:
        assert list(processes.map(frame_sum, [array] * 8, range(8))) == expected


def test_other_arrays_as_options_are_other_file_systems() -> None:
    dark = np.zeros((64, 64))
    other = dark.copy()
    other[32, 32] = 1  # numpy's text of both is the same
    assert fsspec.filesystem("vfs", dark=dark) == fsspec.filesystem("vfs", dark=dark.copy())
    assert fsspec.filesystem("vfs", dark=dark) != fsspec.filesystem("vfs", dark=other)


def test_after_a_fork(scan: Path, fs: VfsFileSystem) -> None:
    group = zarr.open_group(f"vfs://{scan}", mode="r")
    fs.info(str(scan))
    source, sink = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            told = [
                fs.cat_file(f"{scan}/data/c/0/0/0/0") == FRAMES.tobytes(),
                len(fsspec.filesystem("vfs").ls(str(scan))),
            ]
            told.append(int(group["data"][3].sum()))  # type: ignore[index,union-attr]
            os.write(sink, json.dumps(told).encode())
        finally:
            os._exit(0)
    os.close(sink)
    with os.fdopen(source, "rb") as answer:
        assert json.load(answer) == [True, 4, int(SCAN[3].sum())]
    os.waitpid(pid, 0)


def test_a_set_is_opened_once(scan: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from vfs.integrations import fsspec as door

    opened: list[str] = []
    plain = door.open_set

    def counted(path: str, *args: Any, **more: Any) -> Any:
        opened.append(path)
        return plain(path, *args, **more)

    monkeypatch.setattr(door, "open_set", counted)
    xr.open_zarr(f"vfs://{scan}").load()
    assert opened == [str(scan)]


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Which keys were read in which threads."""
    seen: list[tuple[str, str]] = []
    plain = ZarrFace.get

    def get(self: ZarrFace, key: str, *args: Any) -> Any:
        seen.append((key, threading.current_thread().name))
        return plain(self, key, *args)

    monkeypatch.setattr(ZarrFace, "get", get)
    return seen


def test_large_chunks_are_read_in_threads_and_not_copied(
    scan: Path, threads: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vfs.faces.face.WORTH_A_THREAD", 100)
    there = fsspec.filesystem("vfs", asynchronous=True, backend="buffered")

    async def asked() -> tuple[Any, Any]:
        return await there._cat_file(f"{scan}/zarr.json"), await there._cat_file(f"{scan}/data/c/0/0/0/0")

    document, chunk = asyncio.run(asked())
    assert type(document) is bytes
    assert type(chunk) is memoryview
    assert chunk == FRAMES.tobytes()
    here = threading.current_thread().name
    assert [(key, name == here) for key, name in threads] == [("zarr.json", True), ("data/c/0/0/0/0", False)]
