"""Arrays as dask arrays: how they are cut, what their tasks hold, and what names they have."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vfs
from vfs.api import again as again_module
from vfs.engine import open_sets
from vfs.engine.array import ArrayReader
from vfs.sets.opening import Opening
from vfs.testing.writers import write_mib, write_npy, write_raw

pytest.importorskip("dask.array")
cloudpickle = pytest.importorskip("cloudpickle")
from dask.base import tokenize  # noqa: E402

SCAN = (6, 8)


@pytest.fixture
def frames() -> np.ndarray:
    return np.random.default_rng(3).integers(0, 60000, (48, 16, 16)).astype("u2")


@pytest.fixture
def path(tmp_path: Path, frames: np.ndarray) -> Path:
    return write_mib(tmp_path, frames, frames_per_file=10, scan=SCAN)


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    """Leave no set open, and no thread that would close it."""
    yield
    open_sets.OPEN.close()


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Numbers of elements of what is read from now on."""
    noted: list[int] = []
    really = ArrayReader.__getitem__

    def noting(self: ArrayReader, key: Any) -> Any:
        got = really(self, key)
        noted.append(got.size)
        return got

    monkeypatch.setattr(ArrayReader, "__getitem__", noting)
    return noted


# blocks


@pytest.mark.parametrize(
    ("block", "size"),
    [
        ("128MiB", (6, 8, 16, 16)),
        ("8KiB", (2, 8, 16, 16)),
        (512, (1, 1, 16, 16)),
        (1, (1, 1, 16, 16)),
        ((2, 3, -1, 5), (2, 3, 16, 5)),
        ("2,3,-1,5", (2, 3, 16, 5)),
        ("frames", (1, 1, 16, 16)),
    ],
)
def test_blocks_are_as_asked_for(path: Path, frames: np.ndarray, block: Any, size: tuple[int, ...]) -> None:
    made = vfs.open(path).dask(block=block)
    assert made.chunksize == size
    assert made.dtype == made._meta.dtype == np.uint16
    np.testing.assert_array_equal(made.compute(scheduler="threads"), frames.reshape(*SCAN, 16, 16), strict=True)


def test_blocks_are_whole_blocks_of_the_file(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    data = np.random.default_rng(5).integers(0, 999, (18, 22, 8, 9)).astype("u2")
    with h5py.File(tmp_path / "blocks.h5", "w") as file:
        file.create_dataset("data", data=data, chunks=(4, 5, 8, 3), compression="gzip")
    made = vfs.open(tmp_path / "blocks.h5").dask("10kB")
    assert made.npartitions > 1
    assert all(
        have % stored == 0 or have == n
        for have, stored, n in zip(made.chunksize, (4, 5, 8, 3), data.shape, strict=True)
    )
    np.testing.assert_array_equal(made.compute(), data)


def test_any_array_of_a_set(path: Path) -> None:
    group = vfs.open_group(path, derive={"bf": "disk(cy=8, cx=8, r=4)"})
    for array in group.values():
        np.testing.assert_array_equal(array.dask().compute(scheduler="threads"), array[...])


def test_an_array_without_axes(tmp_path: Path) -> None:
    assert vfs.open(write_npy(tmp_path, np.array(7.5))).dask().compute() == 7.5
    assert vfs.open(write_npy(tmp_path, np.zeros((0, 5)))).dask().compute().shape == (0, 5)


@pytest.mark.parametrize(
    ("block", "said"),
    [
        ("3 apples", "^block='3 apples': expected"),
        ((1, 2), r"^block=\(1, 2\): expected"),
        (0, "^block=0: "),
        ({}, "block"),
    ],
)
def test_blocks_that_do_not_fit(path: Path, block: Any, said: str) -> None:
    with pytest.raises(vfs.OptionError, match=said):
        vfs.open(path).dask(block)


# what is read


@pytest.mark.parametrize(
    ("key", "most"),
    [
        ((3, 4), 256),
        ((slice(None), 2), 6 * 256),
        ((slice(None), slice(None), slice(7, 9), slice(7, 9)), 48 * 4),
        ((slice(1, 6, 2), -1, 3), 3 * 16),
    ],
)
def test_of_a_block_only_what_is_needed_is_read(path: Path, read: list[int], key: Any, most: int) -> None:
    array = vfs.open(path)
    got = array.dask(block=(2, -1, -1, -1))[key].compute(scheduler="sync")
    assert sum(read) == most
    np.testing.assert_array_equal(got, array[key])


def test_lists_of_positions(path: Path, frames: np.ndarray) -> None:
    made = vfs.open(path).dask(block=(2, -1, -1, -1))
    whole = frames.reshape(*SCAN, 16, 16)
    np.testing.assert_array_equal(made[[5, 1, 1]].compute(), whole[[5, 1, 1]])
    np.testing.assert_array_equal(made[:, :, [2, 9]].compute(), whole[:, :, [2, 9]])
    np.testing.assert_array_equal(made[1:, 3, None, ::-1].compute(), whole[1:, 3, None, ::-1])
    np.testing.assert_array_equal(made.vindex[[0, 5], [7, 2]].compute(), whole[[0, 5], [7, 2]])


def test_a_source_that_breaks_is_our_error(tmp_path: Path, frames: np.ndarray) -> None:
    paths = write_raw(tmp_path, frames, files=3)
    made = vfs.open(paths, format="raw", dtype="u2", sig_shape=(16, 16), backend="buffered").dask((8, -1, -1))
    Path(paths[1]).write_bytes(b"")
    with pytest.raises(vfs.SourceError, match=r"part1\.bin.*\[\d+:\d+"):
        made.sum().compute(scheduler="threads")


# what is in a graph


def test_a_graph_is_small_and_shares_how_the_set_was_opened(tmp_path: Path) -> None:
    frames = np.zeros((50, 4, 4), "u2")
    sizes = {}
    for per_file in (50, 1):
        folder = tmp_path / f"of_{per_file}"
        folder.mkdir()
        path = write_mib(folder, frames, frames_per_file=per_file, scan=(5, 10))
        for block in (-1, 1):
            made = vfs.open(path).dask(block=(block, block, -1, -1))
            assert made.npartitions == (1 if block == -1 else 50)
            sizes[per_file, block] = len(cloudpickle.dumps(made.dask))
    assert abs(sizes[1, 1] - sizes[50, 1]) < 10  # the name of the folder
    assert sizes[50, 1] < sizes[50, -1] + 50 * 20 < 4000


def test_a_graph_of_many_blocks_is_made_without_its_tasks(tmp_path: Path) -> None:
    path = tmp_path / "many.raw"
    path.write_bytes(bytes(100_000))
    made = vfs.open(path, format="raw", dtype="u1", sig_shape=(1, 1)).dask(1)
    assert made.npartitions == 100_000
    layer = made.dask.layers[made.name]
    assert not layer.is_materialized()
    assert made[99_999].compute(scheduler="sync") == 0


def test_tasks_hold_neither_data_nor_arrays(path: Path) -> None:
    made = vfs.open(path, dark=np.ones((16, 16), "f4")).dask(block=(2, -1, -1, -1))
    tasks = dict(made.dask.layers[made.name])
    assert len(tasks) == 3
    for task in tasks.values():
        assert len(cloudpickle.dumps(task)) < 700  # less than the dark image, which is in the graph once


def test_who_passes_a_graph_on_opens_nothing(path: Path, frames: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> None:
    made = vfs.open(path).dask(block="8KiB")
    opened: list[str] = []
    really = Opening.open
    monkeypatch.setattr(Opening, "open", lambda *given: (opened.append(given[0].name), really(*given))[1])
    packed = cloudpickle.dumps(made)
    moved = path.with_suffix(".away")
    path.rename(moved)
    again = cloudpickle.loads(packed)
    assert again.name == made.name
    assert repr(again) == repr(made)
    assert opened == []
    with pytest.raises(vfs.MissingSourceError, match=r"scan\.hdr: no such file"):
        again.compute()
    moved.rename(path)
    open_sets.OPEN.close()
    opened.clear()
    for one in (again[0], cloudpickle.loads(packed), cloudpickle.loads(packed)[2, 3]):
        one.compute(scheduler="threads")
    np.testing.assert_array_equal(again.compute(), frames.reshape(*SCAN, 16, 16))
    assert opened == ["scan"]


def test_in_a_worker_pickled_arrays_open_their_set_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(again_module, "in_dask_worker", lambda: True)
    array = vfs.open(path)
    packed = [pickle.dumps(thing) for thing in (array, array.group, array.store())]
    expected = array[3, 4]
    opened: list[str] = []
    really = Opening.open
    monkeypatch.setattr(Opening, "open", lambda *given: (opened.append(given[0].name), really(*given))[1])
    for _ in range(3):
        again, group, store = map(pickle.loads, packed)
        np.testing.assert_array_equal(again[3, 4], expected)
        np.testing.assert_array_equal(group.main[3, 4], expected)
        assert store.face.arrays["data"] is not None
        np.testing.assert_array_equal(array.dask().compute()[3, 4], expected)
    assert opened == ["scan"]


# names


def named(thing: Any) -> str:
    """The token of what a pickle holds, in a process of its own, which may not open it."""
    code = (
        "import pickle, sys; from dask.base import tokenize; from vfs.sets.opening import Opening\n"
        "Opening.open = None\n"
        "print(tokenize(pickle.load(sys.stdin.buffer)))"
    )
    done = subprocess.run([sys.executable, "-c", code], input=pickle.dumps(thing), capture_output=True, check=True)
    return done.stdout.decode().strip()


def test_tokens_are_those_of_every_process(path: Path) -> None:
    array = vfs.open(path, dark=np.ones((16, 16), "f4"), nav_shape=(4, 12), derive={"bf": "disk(cy=8, cx=8, r=4)"})
    things = array, array.group["derived/bf"], array.group, array.store(), array.store(zarr_format=2)
    assert len({tokenize(thing) for thing in things}) == len(things)
    for thing in things:
        assert tokenize(pickle.loads(pickle.dumps(thing))) == tokenize(thing)
    lazy = [thing for thing in things if thing is not array.group]  # a group opens its set when it is unpickled
    assert named(lazy) == tokenize(lazy)
    same = vfs.open(str(path), derive={"bf": "disk(cy=8, cx=8, r=4)"}, nav_shape=(4, 12), dark=np.ones((16, 16), "f4"))
    assert tokenize(same) == tokenize(array)
    assert same.dask().name == array.dask().name == pickle.loads(pickle.dumps(array)).dask().name


def test_tokens_change_with_sources_and_options(path: Path) -> None:
    tokens = [tokenize(vfs.open(path)), tokenize(vfs.open(path, dtype="f4")), tokenize(vfs.open(path, chunks="scan"))]
    names = [vfs.open(path).dask(block).name for block in ("8KiB", "frames", 512)]
    file = vfs.open(path).files[2]
    os.utime(file, ns=(1, 1))
    tokens.append(tokenize(vfs.open(path)))
    assert len(set(tokens)) == 4
    assert names[0] != names[1] == names[2]  # blocks of one shape are the same blocks
    assert vfs.open(path).dask("8KiB").name not in names


def test_what_may_change_has_no_lasting_name(path: Path) -> None:
    array = vfs.open(path, accept_changes=True)
    assert tokenize(array) != tokenize(array)
    assert array.dask().name != array.dask().name


def test_without_dask_the_error_says_what_to_install(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "dask.array", None)
    with pytest.raises(vfs.DependencyError, match=r"pip install 'vfs\[dask\]'"):
        vfs.open(path).dask()
