"""Drives programs that write a set in no order, and its readers: `scripts/fuzz live [SECONDS] [SEED]`.

Writers: parts of a file at once, into holes, kept space, zeros, or a file that becomes longer; files of a series
that are finished after the next one has begun; a file whose end comes first; rsync, which makes another file each
time; clocks that are behind or ahead. Readers, each of which stays for some looks: Python, zarr's store, `reduce`, a
server, a mount. Each frame that is shown is that of the finished set, or an error; in the end all are there. One fault
is let pass, which nothing tells (live.md): a run of fewer than `UNTOLD` zeros in a frame, by itself or in sums.
"""

from __future__ import annotations

import os
import random
import shutil
import sys
import tempfile
import time
import urllib.error
import urllib.request
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import zarr

import vfs
from vfs.testing.frame_writers import write_blo, write_frms6, write_seq, write_tvips
from vfs.testing.plane_writers import write_edf
from vfs.testing.stack_writers import write_mrc
from vfs.testing.tiff_writers import write_tiff
from vfs.testing.writers import write_mib

COUNT, SIDE = 24, 64
FRAME = 2 * SIDE * SIDE
HOW: dict[str, Any] = {"follow": True, "settle": 60.0, "give_up": 1e9, "chunks": "frames"}
UNTOLD = 32  # bytes: fewer zeros may be those of any pixels (live.md)
WAYS = ("grow", "zeros", "hole", "kept")
RIGHT, LACKING, WRONG = "right", "a few bytes, which nothing tells", "WRONG"

Set = tuple[list[Path], str, dict[str, Any]]  # its files in their order, the name that opens it, options


def _raw(folder: Path, frames: np.ndarray) -> Set:
    (folder / "a.raw").write_bytes(frames.tobytes())
    return [folder / "a.raw"], "a.raw", _plain()


def _plain() -> dict[str, Any]:
    return {"format": "raw", "stored_dtype": "<u2", "sig_shape": (SIDE, SIDE), "nav_shape": (COUNT,)}


def _raws(folder: Path, frames: np.ndarray) -> Set:
    for k in range(3):
        (folder / f"a{k}.raw").write_bytes(frames[k * 8 : k * 8 + 8].tobytes())
    return sorted(folder.glob("*.raw")), "a*.raw", _plain()


def _npy(folder: Path, frames: np.ndarray) -> Set:
    np.save(folder / "a.npy", frames.reshape(4, -1, SIDE, SIDE))
    return [folder / "a.npy"], "a.npy", {}


def _mib(folder: Path, frames: np.ndarray) -> Set:
    named = write_mib(folder, frames, frames_per_file=8, scan=(4, COUNT // 4))
    return [named, *sorted(folder.glob("*.mib"))], named.name, {}


def _one(write: Callable[..., Path], ending: str, *more: Any) -> Callable[[Path, np.ndarray], Set]:
    def made(folder: Path, frames: np.ndarray) -> Set:
        path = write(folder, frames, *more)
        return [path], path.name, {"nav_shape": (COUNT,)}

    made.__name__ = ending
    return made


def _blo(folder: Path, frames: np.ndarray) -> Set:
    path = write_blo(folder, (frames % 251 + 1).astype("u1").reshape(4, -1, SIDE, SIDE))
    return [path], path.name, {}


def _tvips(folder: Path, frames: np.ndarray) -> Set:
    named = write_tvips(folder, frames, frames_per_file=8)
    return sorted(folder.glob("*.tvips")), named.name, {"nav_shape": (COUNT,)}


def _frms6(folder: Path, frames: np.ndarray) -> Set:
    named = write_frms6(folder, frames, frames_per_file=8, scan=(4, COUNT // 4))
    return [named, *sorted(folder.glob("*.frms6"))], named.name, {}


def _tiffs(folder: Path, frames: np.ndarray) -> Set:
    files = [write_tiff(folder / f"a_{k:02}.tif", [frame]) for k, frame in enumerate(frames)]
    return files, "a_*.tif", {"nav_shape": (COUNT,)}


def _edfs(folder: Path, frames: np.ndarray) -> Set:
    files = [write_edf(folder / f"a_{k:02}.edf", frames[k : k + 1]) for k in range(COUNT)]
    return files, "a_*.edf", {"nav_shape": (COUNT,)}


def _pages(folder: Path, frames: np.ndarray) -> Set:
    return [write_tiff(folder / "a.tif", list(frames))], "a.tif", {"nav_shape": (COUNT,)}


def _hdf5(folder: Path, frames: np.ndarray, **how: Any) -> Set:
    h5py = pytest.importorskip("h5py")
    with h5py.File(folder / "a.h5", "w") as file:
        file.create_dataset("entry/data/data", data=frames, **how)
    return [folder / "a.h5"], "a.h5", {}


def _hdf5_chunked(folder: Path, frames: np.ndarray) -> Set:
    return _hdf5(folder, frames, chunks=(1, SIDE, SIDE))


def _hdf5_packed(folder: Path, frames: np.ndarray) -> Set:
    return _hdf5(folder, frames, chunks=(2, SIDE, SIDE), compression="gzip")


WRITERS = (
    _raw, _raws, _npy, _mib, _blo, _tvips, _frms6, _tiffs, _edfs, _pages, _hdf5, _hdf5_chunked, _hdf5_packed,
    _one(write_mrc, "mrc", 6), _one(write_seq, "seq"),
)  # fmt: skip


class Copy:
    """Writes the files of a finished set again, in no order.

    Args:
        sources: the files; folder: where their copies are; chance: says how.

    Attributes:
        left: bytes that are yet to be written.
    """

    def __init__(self, sources: list[Path], folder: Path, chance: random.Random) -> None:
        self._chance, self._folder = chance, folder
        self._way = chance.choice(WAYS)
        self._skew = chance.choice([0.0, -3.0, -3600.0, -3e7, 3600.0])
        self._rsync = chance.random() < 0.15
        self._piece = chance.choice([700, 5000, 5000, 20_000])
        self._data = {path.name: path.read_bytes() for path in sources}
        self._parts = list[list[Any]]()  # name, first byte that is to be written, the one behind the last
        cut = chance.random() < 0.75  # into parts that are written at once
        for name, data in self._data.items():
            edges = sorted(chance.randrange(len(data)) for _ in range(chance.randint(1, 2) if cut else 0))
            edges = sorted(edge // 4096 * 4096 if chance.random() < 0.3 else edge for edge in edges)
            bounds = [0, *edges, len(data)]
            self._parts += [[name, a, b] for a, b in pairwise(bounds) if a < b]
        if len(sources) == 1 and chance.random() < 0.2:  # the end comes first; of several files, the first one does
            self._parts.reverse()
        self.said = f"{self._way}, clock {self._skew:g} s, {'rsync' if self._rsync else f'{len(self._parts)} parts'}"
        self._length = dict.fromkeys(self._data, 0)
        self.left = sum(map(len, self._data.values()))

    def step(self) -> None:
        """Write a piece."""
        if self._rsync:
            name = next(name for name in self._data if self._length[name] < len(self._data[name]))
            self._length[name] = min(
                len(self._data[name]), self._length[name] + self._chance.randint(1, 4 * self._piece)
            )
            hidden = self._folder / f".{name}.Ab3dE9"
            hidden.write_bytes(self._data[name][: self._length[name]])
            self._touch(hidden)
            hidden.replace(self._folder / name)
            self.left = sum(len(data) - self._length[name] for name, data in self._data.items())
            return
        begun = [
            (self._folder / name).exists() for name in self._data
        ]  # in their order: else nothing tells which is first
        ready = {*self._data} if all(begun) else {*[*self._data][: begun.index(False) + 1]}
        part = self._chance.choice([one for one in self._parts[:4] if one[0] in ready])
        name, first, behind = part
        path, last = self._folder / name, min(behind, first + self._chance.randint(1, self._piece))
        if not path.exists():
            self._make(path, len(self._data[name]))
        with path.open("r+b", buffering=0) as file:
            file.seek(first)
            file.write(self._data[name][first:last])
        self._touch(path)
        part[1] = last
        if last == behind:
            self._parts.remove(part)
        self.left -= last - first

    def _make(self, path: Path, size: int) -> None:
        with path.open("wb") as file:
            if self._way == "zeros":
                file.write(bytes(size))
            elif self._way == "hole":
                file.truncate(size)
            elif self._way == "kept":
                os.posix_fallocate(file.fileno(), 0, size)

    def _touch(self, path: Path) -> None:
        if self._skew:
            now = time.time() + self._skew
            os.utime(path, (now, now))


class Readers:
    """Reads frames in several ways, each open for some looks."""

    def __init__(self, path: Path, options: dict[str, Any], frames: np.ndarray, slow: bool) -> None:
        self._path, self._frames = path, frames
        self._how = HOW | options
        self._slow, self._stack = slow, ExitStack()
        self._open: dict[str, tuple[tuple[int, ...], Callable[[tuple[int, ...]], Any]]] = {}
        self.seen = Counter[str]()

    def look(self, chance: random.Random) -> None:
        """Read all frames, in one way."""
        way = chance.choice(["python", "python", "store", "reduce", *["http", "mount"] * self._slow])
        if chance.random() < 0.4:
            self._open.pop(way, None)
        try:
            if way not in self._open:
                self._open[way] = getattr(self, f"_{way}")()
            nav, read = self._open[way]
        except (vfs.VfsError, OSError, KeyError):
            self.seen["not open"] += 1
            self._open.pop(way, None)
            return
        order = [*range(COUNT)] if chance.random() < 0.7 else [chance.randrange(COUNT)]
        for number in order:
            if number >= np.prod(nav, dtype=int):  # of several files, one was there
                self.seen["not there"] += 1
                continue
            at = tuple(int(k) for k in np.unravel_index(number, nav))
            try:
                found = read(at)
            except (vfs.VfsError, OSError) as error:
                self.seen["not yet" if isinstance(error, vfs.NotYetError) else "error"] += 1
                if isinstance(error, vfs.SourceChangedError):
                    self._open.pop(way, None)
                    return
                continue
            verdict = (
                of_sums(found, self._alone, self._frames) if way == "reduce" else of_frame(found, self._frames[number])
            )
            self.seen[verdict] += 1
            if verdict == WRONG:
                print(f"  WRONG by {way}: frame {number}", flush=True)

    def _alone(self, number: int) -> np.ndarray:
        """Read one frame of the array that `reduce` or a worker had, as it is now."""
        return np.asarray(self._reduced[np.unravel_index(number, self._reduced.shape[:-2])])

    def _array(self) -> Any:
        return vfs.open(str(self._path), **self._how)

    def _python(self) -> Any:
        array = self._array()
        return array.shape[:-2], array.__getitem__

    def _store(self) -> Any:
        array = self._array()
        shown = zarr.open_array(array.store(), path=array._again[1], mode="r")
        return array.shape[:-2], shown.__getitem__

    def _reduce(self) -> Any:
        array = self._array()
        nav, threads = array.shape[:-2], self._stack.enter_context(ThreadPoolExecutor(1))

        def summed(at: tuple[int, ...]) -> Sums:
            first = int(np.ravel_multi_index(at, nav))
            numbers = np.arange(first, min(first + 1 + first % 3, np.prod(nav, dtype=int)))
            by = threads if first % 5 == 1 else None
            found = array.reduce(each=vfs.FrameSum(), total=vfs.Sum(), roi=numbers, executor=by)
            self._reduced = (
                self._array() if by else array
            )  # a worker opens the set by itself, and may have looked later
            return Sums(numbers.tolist(), found["each"].selected, found["total"].data)

        return nav, summed

    def _http(self) -> Any:
        if "url" not in self.__dict__:
            self.url = self._stack.enter_context(vfs.serve([str(self._path)], port=0, **self._how)).url
        array = self._array()
        root = f"{self.url}{next(iter(_names(self.url)))}/{array._again[1]}/c"

        def get(at: tuple[int, ...]) -> np.ndarray:
            with urllib.request.urlopen(f"{root}/{'/'.join(map(str, at))}/0/0", timeout=60) as answer:
                return np.frombuffer(answer.read(), array.dtype.newbyteorder("<")).reshape(array.shape[-2:])

        return array.shape[:-2], get

    def _mount(self) -> Any:
        if "point" not in self.__dict__:
            point = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="live-")))
            self._stack.enter_context(vfs.mount([str(self._path)], point, **self._how))
            self.point = point
        array = self._array()
        face = next(one for one in sorted(self.point.iterdir()) if one.suffix == ".zarr" and ".v2" not in one.name)
        root = face / array._again[1] / "c"

        def get(at: tuple[int, ...]) -> np.ndarray:
            held = (root / "/".join(map(str, (*at, 0, 0)))).read_bytes()
            return np.frombuffer(held, array.dtype.newbyteorder("<")).reshape(array.shape[-2:])

        return array.shape[:-2], get

    def close(self) -> None:
        self._open.clear()
        self._stack.close()


class Sums(NamedTuple):
    """Sums over some frames.

    Attributes:
        numbers: of the frames; each: the sum of each frame; total: the sum of all, per pixel.
    """

    numbers: list[int]
    each: np.ndarray
    total: np.ndarray


def of_frame(found: np.ndarray, wanted: np.ndarray) -> str:
    """Judge a frame: right, wrong, or with a run of zeros that is too short to be told."""
    if np.array_equal(found, wanted):
        return RIGHT
    shown, right = (np.ascontiguousarray(one).reshape(-1).view(np.uint8) for one in (found, wanted.astype(found.dtype)))
    at = np.flatnonzero(shown != right)
    return LACKING if not shown[at].any() and np.ptp(at) + 1 < UNTOLD else WRONG


def of_sums(found: Sums, alone: Callable[[int], np.ndarray], frames: np.ndarray) -> str:
    """Judge sums over frames: they are those of the frames as each is shown by itself now, or wrong.

    Args:
        alone: reads a frame by itself; nobody may have written since the sums were made.
        frames: of the finished set.
    """
    try:
        shown = [alone(number) for number in found.numbers]
    except vfs.NotYetError:
        return WRONG  # the sums took what a reader of the frame does not get
    verdicts = {of_frame(frame, frames[number]) for number, frame in zip(found.numbers, shown, strict=True)}
    summed = np.array(shown, np.int64)
    same = np.array_equal(found.each, summed.sum((1, 2))) and np.array_equal(found.total, summed.sum(0))
    return next(one for one in (WRONG, LACKING, RIGHT) if one in verdicts) if same else WRONG


def _names(url: str) -> Iterator[str]:
    import json

    with urllib.request.urlopen(f"{url}api/list/", timeout=60) as answer:
        for one in json.load(answer)["entries"]:
            yield f"{one['name']}.zarr"


def run(folder: Path, seed: int, slow: bool) -> Counter[str]:
    """Write one set and read it meanwhile. Returns how often there was what."""
    chance = random.Random(seed)
    frames = np.random.default_rng(seed).integers(1, 4000, (COUNT, SIDE, SIDE)).astype("<u2")
    dark = chance.random() < 0.2
    if dark:
        frames[chance.randrange(1, COUNT)] = 0
    source, there = folder / "source", folder / "there"
    source.mkdir(parents=True)
    there.mkdir()
    write = WRITERS[seed % len(WRITERS)]
    files, name, options = write(source, frames)
    if write is _blo:
        frames = (frames % 251 + 1).astype("u1")
    copy = Copy(files, there, chance)
    readers = Readers(there / name, options, frames, slow)
    try:
        while copy.left:
            for _ in range(chance.randint(1, 12)):
                if copy.left:
                    copy.step()
            for _ in range(chance.randint(0, 2)):
                readers.look(chance)
        last = vfs.open(str(there / name), **readers._how | {"give_up": 0.0})
        last.wait(timeout=10)
        if not np.array_equal(np.asarray(last.refresh()[...]).reshape(frames.shape), frames):
            readers.seen[WRONG] += 1
            print("  WRONG in the end", flush=True)
        readers.seen["ends"] += 1
        if not dark and chance.random() < 0.3:  # by itself, as nobody writes any more
            until, whole = time.monotonic() + 20, False
            while not whole and time.monotonic() < until:
                with suppress(vfs.NotYetError):
                    whole = vfs.open(str(there / name), **readers._how | {"settle": 1.0}).wait(COUNT, timeout=2)
            readers.seen["complete by itself" if whole else "not complete by itself"] += 1
    finally:
        readers.close()
    if readers.seen[WRONG]:
        print(f"  seed {seed}: {write.__name__}, {copy.said}, {'dark' if dark else ''}", flush=True)
    return readers.seen


def main(seconds: float, seed: int) -> int:
    """Write sets for so long. Returns the exit status."""
    warnings.simplefilter("ignore", vfs.IncompleteWarning)
    until, seen, sets, by = time.monotonic() + seconds, Counter[str](), 0, Counter[str]()
    while time.monotonic() < until:
        folder = Path(tempfile.mkdtemp(prefix="live-"))
        name = WRITERS[(seed + sets) % len(WRITERS)].__name__
        try:
            found = run(folder, seed + sets, slow=sets % 6 == 5)
        except pytest.skip.Exception:
            found = Counter[str]()
        finally:
            with suppress(OSError):
                shutil.rmtree(folder)
        seen += found
        by[f"{name} {'right' if found['right'] else 'never shown before its end'}"] += 1
        if found["not complete by itself"]:
            print(f"  seed {seed + sets}: {name} did not end by itself", flush=True)
        sets += 1
    print(f"{sets} sets in {seconds:g} s: {dict(seen)}; {dict(sorted(by.items()))}")
    return 1 if seen[WRONG] else 0


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]) if len(sys.argv) > 1 else 600, int(sys.argv[2]) if len(sys.argv) > 2 else 0))
