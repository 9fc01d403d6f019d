"""Files that move under whoever reads them: `scripts/fuzz states [SECONDS, default 600] [SEED]`.

A set has two twins of equal size and time of writing: each frame of one holds numbers below `OTHER`, of the other one
numbers from there on. At random moments a twin takes the place of the other, in one of the ways of `REPLACE`, or the
file is touched in one of the ways of `TOUCH`, while something is made of the set in one of the ways of `Ways`. What
comes out has to be of one twin, or be an error of one line. What is made while the file is only touched once has to
succeed, but for what was handed out before and cannot be taken back (`STREAMS`).

Prints how often each way gave which, and ends with status 1 if anything was mixed, or no error of vfs.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import tempfile
import threading
import time
import urllib.error
import urllib.request
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

import vfs
from vfs.cli.reduce import reduced_resumable
from vfs.model.open_options import OpenOptions
from vfs.reduce import blocks, kept, partitions, passes
from vfs.sets.opening import OpenedSet, open_set
from vfs.zarr.verify import verify

COUNT, SIDE = 2048, 32  # frames; pixels along their sides: 4 MiB
OTHER = 4096
HOW = {"format": "raw", "stored_dtype": "<u2", "sig_shape": [SIDE, SIDE], "nav_shape": [32, 64]}
STREAMS = {"tiles", "compute", "served"}
"""Ways that hand out what they have: they may only break off when a file moves."""


def twin(other: bool) -> bytes:
    """Return the bytes of a twin: each frame has one number, which says of which twin it is."""
    numbers = np.arange(COUNT, dtype="<u2") % 1000 + OTHER * other
    return np.repeat(numbers, SIDE * SIDE).tobytes()


class Moving:
    """A file that moves.

    Attributes:
        path: of the file; moves: how many there were since `begin`, and which.
        cut: True if it may become shorter for a moment: who has mapped it is killed then (security.md).
    """

    def __init__(self, folder: Path, random: random.Random) -> None:
        self.path, self._random, self._twins = folder / "x.raw", random, []
        for other in (False, True):
            self._twins.append(folder / f"twin-{int(other)}")
            self._twins[-1].write_bytes(twin(other))
        self._times = os.stat(self._twins[0])
        self._other, self.moves, self._lock, self.cut = False, list[str](), threading.Lock(), True
        self.begin()

    def begin(self) -> None:
        """Put one of the twins there."""
        with self._lock:
            self._other = self._random.random() < 0.5
            self.renamed()
            self.moves.clear()

    def move(self, kind: str) -> None:
        """Move the file: `replaced`, by its twin, or only `touched`."""
        with self._lock:
            ways = REPLACE if kind == "replaced" else TOUCH
            way = self._random.choice([one for one in ways if self.cut or one != "copied"])
            self._other ^= kind == "replaced"
            getattr(self, way)()
            self.moves.append(way)

    def _copy(self) -> Path:
        made = self.path.with_name("copy")
        shutil.copyfile(self._twins[self._other], made)
        self._put_back(made)
        return made

    def _put_back(self, path: Path) -> None:
        os.utime(path, ns=(self._times.st_atime_ns, self._times.st_mtime_ns))

    def renamed(self) -> None:  # rsync -t, a backup that is restored
        os.replace(self._copy(), self.path)

    def kept(self) -> None:  # the same, and another name keeps the one before
        with suppress(FileNotFoundError):
            os.unlink(self.path.with_name("before"))
        os.link(self.path, self.path.with_name("before"))
        self.renamed()

    def moved(self) -> None:  # mv before mv
        made = self._copy()
        os.rename(self.path, self.path.with_name("away"))
        os.rename(made, self.path)

    def copied(self) -> None:  # cp -p: emptied, written, times
        self.path.write_bytes(self._twins[self._other].read_bytes())
        self._put_back(self.path)

    def in_place(self) -> None:  # rsync --inplace -t
        data = self._twins[self._other].read_bytes()
        with open(self.path, "r+b", buffering=0) as file:
            for at in range(0, len(data), 1 << 18):
                file.write(data[at : at + (1 << 18)])
        self._put_back(self.path)

    def rights(self) -> None:
        os.chmod(self.path, self._random.choice([0o600, 0o640, 0o644]))

    def linked(self) -> None:
        name = self.path.with_name(f"link-{self._random.random()}")
        os.link(self.path, name)
        if self._random.random() < 0.5:
            os.unlink(name)

    def same_again(self) -> None:  # another inode, the same bytes
        os.replace(self._copy(), self.path)


REPLACE = ("renamed", "kept", "moved", "copied", "in_place")
TOUCH = ("rights", "linked", "same_again")


class BrokenError(Exception):
    """Ends what is resumed later."""


Values = Iterator[np.ndarray]
"""Numbers that have to be of one twin each time."""


class Ways:
    """What is made of a set, each in a few hundred milliseconds.

    Args:
        file: the file; folder: for what is written.
        stack: closes what is kept open.
    """

    def __init__(self, file: Moving, folder: Path, stack: ExitStack, random: random.Random) -> None:
        self.file, self.folder, self.random = file, folder, random
        self.threads: Executor = stack.enter_context(ThreadPoolExecutor(2))
        self.processes: Executor = stack.enter_context(ProcessPoolExecutor(2, get_context("spawn")))
        self.server = stack.enter_context(vfs.serve(str(file.path), port=0, **HOW, chunks=(1, 16, -1, -1)))
        self.mount = folder / "mount"
        with suppress(vfs.VfsError):  # where there is no FUSE
            stack.enter_context(vfs.mount(str(file.path), str(self.mount), **HOW, chunks=(1, 16, -1, -1)))
        self.dask: Any = None
        with suppress(ImportError):
            from distributed import Client

            self.dask = stack.enter_context(
                Client(n_workers=1, threads_per_worker=1, dashboard_address=None, local_directory=str(folder))
            )
        self.tell: Callable[..., None] = lambda *_: None

    def opened(self, **more: Any) -> vfs.VirtualArray:
        return vfs.open(str(self.file.path), **self._how(), **more)

    def _how(self) -> dict[str, Any]:
        return HOW | {"backend": "buffered" if self.file.cut else self.random.choice(["auto", "buffered"])}

    def names(self) -> list[str]:
        ways = [name for name in vars(Ways) if name not in ("opened", "names", "export_again") and name[0] != "_"]
        there = {"mounted": (self.mount / "x.zarr").is_dir(), "by_dask": self.dask is not None}
        return [name for name in ways if there.get(name, True)]

    def read(self) -> Values:
        a = self.opened(dtype=self.random.choice([None, "f4"]))
        for _ in range(20):
            self.tell()
            yield np.array(a[self.random.randrange(8) :])

    def tiles(self) -> Values:
        found = []
        for _, tile in self.opened().tiles("64KiB", workers=self.random.choice([0, 2])):
            found.append(np.unique(tile))
            self.tell()
        yield np.concatenate(found)

    def chunks(self) -> Values:
        z = self.opened(chunks=(1, 64, -1, -1)).zarr()
        for k in range(32):
            self.tell()
            yield np.asarray(z[k])

    def derived(self) -> Values:
        z = self.opened(derive={"s": vfs.FrameSum(), "top": vfs.Max()}).store()
        for _ in range(4):
            self.tell()
            group = zarr.open_group(z, mode="r")
            yield np.asarray(group["derived/s"][:]) // SIDE**2
            self.tell()
            yield np.asarray(group["derived/top"][:])

    def export(self) -> Values:
        vfs.export(
            str(self.file.path),
            self.folder / "o.zarr",
            chunks="frames",
            shards=(4, -1, -1, -1),
            progress=self.tell,
            **self._how(),
        )
        yield self._exported()

    def export_by_threads(self) -> Values:
        vfs.export(
            str(self.file.path), self.folder / "o.zarr", chunks="frames", shards=(4, -1, -1, -1), progress=self.tell,
            executor=self.threads, **self._how(),
        )  # fmt: skip
        yield self._exported()

    def export_resumed(self) -> Values:
        name = self.folder / self.random.choice(["o.zarr", "o.zarr.zip"])
        stop = self.random.random()

        def broken(done: int, of: int, stored: int) -> None:
            if done > of * stop:
                raise BrokenError

        how: dict[str, Any] = {"chunks": "frames", "shards": (4, -1, -1, -1), **self._how()}
        with suppress(BrokenError):
            vfs.export(str(self.file.path), name, progress=broken, **how)
        self.tell()
        vfs.export(str(self.file.path), name, progress=self.tell, resume=True, **how)
        yield self._exported(name)

    def _exported(self, name: Path | None = None) -> np.ndarray:
        name = name or self.folder / "o.zarr"
        assert not verify(str(name)).bad
        store: Any = zarr.storage.ZipStore(name, mode="r") if name.suffix == ".zip" else str(name)
        return np.asarray(zarr.open_group(store, mode="r")["data"][:])

    def reduced(self) -> Values:
        how = {"workers": self.random.choice([0, 2]), "progress": self.tell}
        found = self.opened().reduce(s=vfs.FrameSum(), high=vfs.Max(), low=vfs.Min(), **how)
        yield _of(found)

    def by_threads(self) -> Values:
        yield _of(self.opened().reduce(s=vfs.FrameSum(), executor=self.threads, progress=self.tell))

    def by_processes(self) -> Values:
        yield _of(self.opened().reduce(s=vfs.FrameSum(), high=vfs.Max(), executor=self.processes, progress=self.tell))

    def by_dask(self) -> Values:
        yield _of(self.opened().reduce(s=vfs.FrameSum(), executor=self.dask, progress=self.tell))

    def partial(self) -> Values:
        executor = self.random.choice([None, self.threads])
        for found in self.opened().reduce_partial(s=vfs.FrameSum(), high=vfs.Max(), parts=6, executor=executor):
            yield _of(found)
            self.tell()

    def reduce_resumed(self) -> Values:
        target, stop = str(self.folder / "s.npy"), self.random.random()

        def broken(done: int, of: int) -> None:
            if done > of * stop:
                raise BrokenError

        with suppress(BrokenError):
            reduced_resumable(self._set(), {"s": vfs.FrameSum()}, target, broken, None, False)
        self.tell()
        with suppress(FileNotFoundError):
            os.unlink(target)
        reduced_resumable(self._set(), {"s": vfs.FrameSum()}, target, self.tell, None, True)
        yield np.load(target) // SIDE**2

    def _set(self) -> OpenedSet:
        how = {"sig_shape": (SIDE, SIDE), "stored_dtype": "<u2"}
        return open_set(str(self.file.path), OpenOptions(format="raw", nav_shape=(32, 64), backend="buffered"), how)

    def compute(self) -> Values:
        at = self.random.randrange(8, 24)
        kind = self.random.choice([f"disk({at},16,{self.random.randrange(3, 9)})", f"point({at},3)"])
        ask = {"results": {"s": kind}, "coarse": False}
        found = []
        with urllib.request.urlopen(f"{self.server.url}api/compute/x.zarr/data", json.dumps(ask).encode()) as stream:
            while size := stream.read(4):
                head = json.loads(stream.read(int.from_bytes(size, "little")))
                if "error" in head:
                    raise vfs.SourceError(head["error"])
                if "end" in head:
                    yield np.concatenate(found) / (1 if kind[0] == "p" else _inside(kind))
                    return
                self.tell()
                numbers = np.frombuffer(stream.read(head["bytes"]))
                found += [numbers] if head["exact"] else []
        raise vfs.SourceError("the stream was broken off")

    def served(self) -> Values:
        """The array as one body, and chunks."""
        with urllib.request.urlopen(f"{self.server.url}x.npy") as stream:
            parts = [stream.read(1 << 16)]
            while part := stream.read(1 << 18):
                parts.append(part)
                self.tell()
        body = b"".join(parts)
        if len(body) != int(stream.headers["content-length"]):
            raise vfs.SourceError("the body was broken off")
        yield np.frombuffer(body[-COUNT * SIDE * SIDE * 2 :], "<u2")
        for k in range(8):
            self.tell()
            with urllib.request.urlopen(f"{self.server.url}x.zarr/data/c/{k}/0/0/0") as stream:
                yield np.frombuffer(stream.read(), "<u2")

    def mounted(self) -> Values:
        for k in range(32):
            self.tell()
            yield np.frombuffer((self.mount / f"x.zarr/data/c/{k}/{k % 4}/0/0").read_bytes(), "<u2")


def _inside(kind: str) -> int:
    cy, cx, r = (float(text) for text in kind[5:-1].split(","))
    y, x = np.ogrid[:SIDE, :SIDE]
    return int(np.count_nonzero((y - cy) ** 2 + (x - cx) ** 2 < r * r))


def _of(found: Any) -> np.ndarray:
    """Return the numbers of all frames that were taken, of all results."""
    sums = found["s"].data.reshape(-1)[found["s"].valid.reshape(-1)]
    others = [found[name].data.reshape(-1) for name in ("high", "low") if name in found]
    return np.concatenate([sums / SIDE**2, *others])


@contextmanager
def _small() -> Iterator[None]:
    """Have passes keep their states often, and be cut into many partitions."""
    small: list[tuple[Any, str, float]] = [
        (kept, "SECONDS", 0.0), (kept, "STEP", 1 << 17), (kept, "SHARE", 1e9),
        (partitions, "PARTITION", 1 << 17),
        (partitions, "RETURNED", 0), (blocks, "FRAMES", 64), (blocks, "READ", 1 << 17), (passes, "TOLD", 0.0),
    ]  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        for module, name, value in small:
            patch.setattr(module, name, value)
        yield


def once(ways: Ways, name: str, random: random.Random) -> str:
    """Make something while the file moves. Returns what came of it."""
    file = ways.file
    for left in ways.folder.glob("[os].*"):
        shutil.rmtree(left) if left.is_dir() else left.unlink()
    file.begin()
    file.cut = random.random() < 0.5
    kinds = random.choice([["replaced"], ["replaced"], ["touched"], ["touched", "replaced"], ["replaced", "replaced"]])
    moments = sorted(random.choice([0, 1, 2, 3, 5, 10, 20]) for _ in kinds)
    calls, left = 0, list(kinds)

    def tell(*_: object) -> None:
        nonlocal calls
        while left and calls >= moments[len(kinds) - len(left)]:
            file.move(left.pop(0))
        calls += 1

    ways.tell = tell
    thread = None
    if random.random() < 0.3:  # at any moment, not between two steps
        ways.tell = lambda *_: None
        thread = threading.Thread(target=lambda: [(time.sleep(random.random() / 4), file.move(one)) for one in kinds])
        thread.start()
    found = set[bool]()
    try:
        for values in getattr(ways, name)():
            found = set(np.unique(np.asarray(values) >= OTHER - 1).tolist())
            if len(found) > 1:
                return "MIXED"
    except vfs.VfsError as error:
        if "\n" in str(error):
            return "BUG"
        return "refused" if kinds == ["touched"] and name not in STREAMS and len(file.moves) else "error"
    except (urllib.error.URLError, ConnectionError, OSError) as error:
        if name not in ("compute", "served", "mounted"):
            raise
        return "error" if not isinstance(error, urllib.error.HTTPError) or error.code in (409, 412, 422) else "BUG"
    finally:
        if thread is not None:
            thread.join()
    return "one twin" if file.moves else "nothing moved"


def main(seconds: float, seed: int) -> int:
    """Try all ways for a while. Returns the exit status."""
    chosen, seen = random.Random(seed), dict[str, Counter[str]]()
    warnings.simplefilter("ignore", vfs.IncompleteWarning)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place, ExitStack() as stack:
        os.mkdir(f"{place}/mount")
        stack.enter_context(_small())
        ways = Ways(Moving(Path(place), chosen), Path(place), stack, chosen)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for name in ways.names():
                came = once(ways, name, chosen)
                seen.setdefault(name, Counter())[came] += 1
                if came in ("MIXED", "BUG"):
                    print(f"{name}: {came} after {', '.join(ways.file.moves)}", flush=True)
    for name, came in seen.items():
        print(f"{name}: {', '.join(f'{n} {what}' for what, n in sorted(came.items()))}")
    total = sum(seen.values(), Counter[str]())
    print(f"{total.total()} tries: {', '.join(f'{n} {what}' for what, n in sorted(total.items()))}")
    return 1 if total["MIXED"] or total["BUG"] else 0
