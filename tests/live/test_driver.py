"""Drives a writer and its readers together: every value that is read is that of the finished set, or an error."""

from __future__ import annotations

import http.client
import os
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest
import zarr

import vfs
from tests.http.support import application_of
from tests.live.conftest import SCAN, Instrument, answered, rest
from tests.live.swmr_writer import SwmrRecording
from tests.waiting import eventually
from vfs.engine.cache import ChunkCache
from vfs.folder_tree.plans import plan_sets
from vfs.testing.frame_writers import write_frms6, write_seq, write_tvips
from vfs.testing.inside import set_of
from vfs.testing.recording import Recording
from vfs.testing.stack_writers import write_mrc
from vfs.testing.tiff_writers import write_tiff
from vfs.testing.writers import write_mib

COUNT, SIDE = 10, 64
FRAME = 2 * SIDE * SIDE
MASTER = 8824  # bytes, at least as many as the file has
HOW: dict[str, Any] = {"follow": True, "settle": 2.0, "give_up": 1e9, "chunks": "frames", "backend": "buffered"}


def _mib(folder: Path, frames: np.ndarray) -> tuple[list[Path], str, dict[str, Any]]:
    named = write_mib(folder, frames, frames_per_file=4, scan=(2, COUNT // 2))
    return [named, *sorted(folder.glob("*.mib"))], named.name, {}


def _raw(folder: Path, frames: np.ndarray) -> tuple[list[Path], str, dict[str, Any]]:
    (folder / "scan.raw").write_bytes(frames.tobytes())
    return [folder / "scan.raw"], "scan.raw", {"stored_dtype": "<u2", "sig_shape": (SIDE, SIDE), "nav_shape": (COUNT,)}


def _npy(folder: Path, frames: np.ndarray) -> tuple[list[Path], str, dict[str, Any]]:
    np.save(folder / "scan.npy", frames.reshape(2, -1, SIDE, SIDE))
    return [folder / "scan.npy"], "scan.npy", {}


def _mrc(folder: Path, frames: np.ndarray) -> tuple[list[Path], str, dict[str, Any]]:
    return [write_mrc(folder, frames, 6)], "set.mrc", {}


def _tvips(folder: Path, frames: np.ndarray) -> tuple[list[Path], str, dict[str, Any]]:
    named = write_tvips(folder, frames, frames_per_file=4)
    return sorted(folder.glob("*.tvips")), named.name, {"nav_shape": (COUNT,)}


def _seq(folder: Path, frames: np.ndarray) -> tuple[list[Path], str, dict[str, Any]]:
    return [write_seq(folder, frames)], "scan.seq", {"nav_shape": (COUNT,)}


def _frms6(folder: Path, frames: np.ndarray) -> tuple[list[Path], str, dict[str, Any]]:
    named = write_frms6(folder, frames, frames_per_file=4, scan=(2, COUNT // 2))
    return [named, *sorted(folder.glob("*.frms6"))], named.name, {}


def _tif(folder: Path, frames: np.ndarray) -> tuple[list[Path], str, dict[str, Any]]:
    return (
        [write_tiff(folder / f"a_{k}.tif", [frame]) for k, frame in enumerate(frames)],
        "a_*.tif",
        {"nav_shape": (COUNT,)},
    )


def _pages(folder: Path, frames: np.ndarray) -> tuple[list[Path], str, dict[str, Any]]:
    return [write_tiff(folder / "stack.tif", list(frames))], "stack.tif", {"nav_shape": (COUNT,)}


def _dectris(folder: Path, frames: np.ndarray) -> tuple[list[Path], str, dict[str, Any]]:
    h5py = pytest.importorskip("h5py")
    named, others = folder / "scan_master.h5", []
    with h5py.File(named, "w") as master:
        master["entry/instrument/detector/detectorSpecific/nimages"] = np.uint32(COUNT)
        master["entry/instrument/detector/detectorSpecific/ntrigger"] = np.uint32(1)
        for k in range(0, COUNT, 4):
            others.append(folder / f"scan_data_{k // 4 + 1:06}.h5")
            with h5py.File(others[-1], "w") as file:
                file.create_dataset("entry/data/data", data=frames[k : k + 4], chunks=(1, SIDE, SIDE))
            master[f"entry/data/data_{k // 4 + 1:06}"] = h5py.ExternalLink(others[-1].name, "/entry/data/data")
    return [named, *others], named.name, {}


WRITERS = (_mib, _raw, _npy, _mrc, _tvips, _seq, _frms6, _tif, _pages, _dectris)


class Acquisition:
    """An instrument that writes one acquisition after the other, and readers of each."""

    def __init__(self, folder: Path, write: Any, preallocate: bool, index_last: bool) -> None:
        self.folder, self._write, self._preallocate, self._index_last = folder, write, preallocate, index_last
        self._number = 0
        self.array: Any = None
        self.begin()

    def begin(self) -> None:
        """Begin an acquisition with other frames, under the same names."""
        self._number += 1
        self.array = None
        source = self.folder / f"source{self._number}"
        source.mkdir()
        self.frames = np.random.default_rng(self._number).integers(0, 9, (COUNT, SIDE, SIDE), "u2")
        self.frames[3] = 0
        files, name, self.options = self._write(source, self.frames)
        self.path = self.folder / "copy" / name
        if self._index_last and len(files) > 1 and self._write is not _tif:
            files = [*files[1:], files[0]]
        for path in [one for one in (self.folder / "copy").glob("*") if self._number > 1]:
            path.unlink()
        self.recording = Recording(files, self.folder / "copy", self._preallocate, at_once=0)
        self._total = self.recording.left

    def rest(self) -> None:
        """Have the files not written for a while, but not in the last frame or a master: nothing tells of a part."""
        master = self._write is _dectris and self.recording.left > self._total - MASTER
        if self.recording.left > 2 * FRAME and not master:
            rest(self.recording.paths)

    def open(self) -> None:
        """Open what is there, in every way of this process."""
        try:
            self.array = vfs.open(self.path, **HOW, **self.options)
        except vfs.VfsError:
            return
        contents = plan_sets([set_of(vfs.open_group(self.path, **HOW, **self.options))], ChunkCache()).here()
        application, face = application_of(contents), next(name for name in contents.faces if name.endswith(".zarr"))
        where = self.array._again[1]
        stored, lazy = zarr.open_array(self.array.store(), path=where, mode="r"), self.array.dask(block="frames")
        nav = self.array.shape[:-2]

        def over_http(at: tuple[int, ...]) -> np.ndarray:
            key = f"/{face}/{where}/c/{'/'.join(map(str, (*at, 0, 0)))}"
            start, *rest = answered(application, key).sent
            if start["status"] != 200:
                raise vfs.SourceError(str(start["status"]))
            return np.frombuffer(b"".join(part["body"] for part in rest), "<u2").reshape(SIDE, SIDE)

        self._readers: dict[str, Callable[[tuple[int, ...]], Any]] = {
            "python": self.array.__getitem__,
            "zarr": stored.__getitem__,
            "dask": lambda at: lazy[at].compute(scheduler="sync"),
            "http": over_http,
        }
        self._nav = nav

    def check(self, numbers: Sequence[int], chance: random.Random) -> None:
        """Read frames in every way, in Python all of these, and otherwise one: each is right, or an error."""
        if self.array is None:
            self.open()
        for name, read in self._readers.items() if self.array is not None else ():
            for number in numbers if name == "python" else [chance.choice(numbers)]:
                at = tuple(int(k) for k in np.unravel_index(number % COUNT, self._nav))
                try:
                    found = read(at)
                except vfs.SourceError:
                    continue
                np.testing.assert_array_equal(found, self.frames[number % COUNT], err_msg=f"frame {number}, by {name}")


@pytest.mark.usefixtures("looks_each_time")
@pytest.mark.filterwarnings("ignore::vfs.IncompleteWarning")
@pytest.mark.parametrize("seed", range(int(os.environ.get("VFS_LIVE_SEEDS", "8"))))
def test_every_value_is_that_of_the_finished_set(tmp_path: Path, seed: int) -> None:
    """VFS_LIVE_SEEDS=1000 looks for long."""
    chance = random.Random(seed)
    made = Acquisition(tmp_path, WRITERS[seed % len(WRITERS)], chance.random() < 0.5, chance.random() < 0.3)
    made.recording.write(chance.randrange(2 * FRAME))
    for action in chance.choices(["step", "frames", "rest", "open", "begin"], [6, 5, 2, 1, 0.5], k=12):
        if action in ("step", "frames"):
            made.recording.write(chance.randint(1, 4096 if action == "step" else 3 * FRAME))
        else:
            getattr(made, action)()
        written = COUNT - made.recording.left // FRAME
        made.check([written - 2, written - 1, written, chance.randrange(COUNT)], chance)
    if chance.random() < 0.7:  # else it was killed
        made.recording.finish()
        made.check([*range(COUNT)], chance)
        last = vfs.open(made.path, **HOW | {"give_up": 0.0}, **made.options)
        np.testing.assert_array_equal(last[...].reshape(made.frames.shape), made.frames)


@pytest.mark.usefixtures("looks_each_time")
@pytest.mark.parametrize("chunk", [(1, 8, 8), (2, 4, 8)])
@pytest.mark.parametrize("fixed", [False, True])
def test_a_file_written_with_swmr_has_no_frame_that_is_not_whole(
    tmp_path: Path, chunk: tuple[int, ...], fixed: bool
) -> None:
    """Of each chunk that libhdf5 holds back a part may be in the file."""
    pytest.importorskip("h5py")
    chance = random.Random(sum(chunk) + fixed)
    frames = np.random.default_rng(4).integers(1, 9, (COUNT, 8, 8), "u2")
    made = SwmrRecording(tmp_path / "set.h5", frames, chunk, fixed=fixed, compression="gzip" if fixed else None)
    how = HOW | {"settle": 2.0 if fixed else 0.0}
    array: Any = None
    heads = set()
    while made.write(chance.randint(1, 2), flush=chance.random() < 0.7):
        with suppress(vfs.VfsError):
            array = vfs.open(made.path, **how) if array is None or chance.random() < 0.3 else array.refresh()
            heads.add(array.head)
            assert array.head <= made.written
            found = array.refresh()
            for number in range(len(found)):
                with suppress(vfs.NotYetError):
                    np.testing.assert_array_equal(found[number], frames[number])
    made.finish()
    assert len(heads) > 1
    np.testing.assert_array_equal(array.refresh()[...], frames)
    assert set(vfs.open_group(made.path)) == {"entry/data", "entry/time"}


def _by_http(url: str, keys: list[str]) -> Iterator[bytes | None]:
    """Ask for files on one connection, again and again: from the second one on threads without Python may answer."""
    at = urlsplit(url)
    connection = http.client.HTTPConnection(at.hostname or "", at.port)
    for key in keys:
        connection.request("GET", at.path + key)
        answer = connection.getresponse()
        body = answer.read()
        assert answer.status in (200, 422), body
        yield body if answer.status == 200 else None
    connection.close()


def test_the_mount_and_the_server_never_give_another_frame(instrument: Instrument, tmp_path: Path) -> None:
    """Of files that stay open, so that the kernel has pages of them, and of chunks that tensorstore reads."""
    tensorstore = pytest.importorskip("tensorstore")
    chance, rows, point = random.Random(3), SCAN[0], tmp_path / "mount"
    point.mkdir()
    instrument.write_frames(9)
    how: dict[str, Any] = {"follow": True, "settle": 0.3, "chunks": "1,-1,-1,-1"}
    frames = instrument.frames
    with ExitStack() as stack:
        stack.enter_context(vfs.mount([instrument.path], point, **how))
        url = stack.enter_context(vfs.serve([instrument.path], port=0, **how)).url
        file = stack.enter_context((point / "scan.npy").open("rb", buffering=0))
        stores = [
            tensorstore.open({"driver": "zarr3", "kvstore": where}, open=True, read=True).result()
            for where in (
                {"driver": "file", "path": f"{point}/scan.zarr/data/"},
                {"driver": "http", "base_url": f"{url}scan.zarr/data/"},
            )
        ]

        def look() -> int:
            """Read all in every way; return how many rows were there."""
            there = 0
            for row, body in enumerate(_by_http(url, [f"scan.zarr/data/c/{k}/0/0/0" for k in range(rows)] * 2)):
                if body is not None:
                    assert body == frames[row % rows].tobytes()
                    there += 1
            for row in range(rows):
                with suppress(OSError):
                    file.seek(128 + row * frames[0].nbytes)
                    found = file.read(frames[0].nbytes)  # shorter, where the next page is not there yet
                    assert found == frames[row].tobytes()[: len(found)]
                    there += len(found) == frames[0].nbytes
                for store in stores:
                    with suppress(ValueError):
                        np.testing.assert_array_equal(store[row].read().result(), frames[row])
                        there += 1
            return there

        def write() -> bool:
            return instrument.recording.write(chance.choice([chance.randint(1, 4096), 4096]))

        first = look()
        for _ in range(6):
            assert write()
            look()
        assert eventually(lambda: look() > first)  # in the middle: the writer waits, so that rows are seen to come
        while write():
            look()
        assert eventually(lambda: look() == 5 * rows)
