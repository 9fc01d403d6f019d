"""Sets on a server that is 1, 20 and 100 ms away, and at the end of a line of 250 MB/s.

The server is a range server of our own, a process beside this one.

The limit is taken in the same run: threads of plain HTTP connections that ask for the same bytes, 32 ranges of 8 MiB
at a time, or one for each frame. What goes over all of a set is measured on 1 GiB, which is open, so that neither
opening nor the first answer counts for much, and into memory that is there: how long the system takes to make 1 GiB of
it (0.05 to 0.9 s of a processor on one machine) says nothing of servers. A round trip is a plain request for one frame
on a connection that is open. The last rows are of others, where they are installed: references as kerchunk makes them,
over fsspec and aiohttp; VirtualiZarr's ManifestStore over obstore; tifffile over fsspec, which reads a TIFF of the same
frames, as vfs then does.
"""

from __future__ import annotations

import http.client
import importlib.util
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import local
from urllib.parse import urlsplit

import numpy as np

import vfs
from scripts.benchmarks.rows import TINY, Row, Size, frames_of
from vfs.page.computing import Asked, Computation, following
from vfs.reduce.bright_field import central_disk
from vfs.testing.inside import reader_of

LINES = (0.001, 0), (0.02, 0), (0.02, 250e6), (0.02, 1.25e9), (0.1, 1.25e9)
"""Seconds that each request waits, and bytes a second that all share; 0: as fast as this machine, whose processors the
server and its reader share. A line is what a server far away has, of 2 and 10 Gbit/s: it takes none of them.
"""
PARALLEL, RANGE = 32, 8 << 20
FRAMES, FEWER, LONG = 4096, 512, 8192
"""Frames of the scan, of what fsspec reads, which has a request for each, and of what is gone over as a whole."""
HEADER = 128  # bytes before the frames of a .npy file


def rows(folder: Path, size: Size) -> Iterator[Row]:
    """See the module."""
    frames = frames_of(min(FRAMES, size.frames))
    np.save(folder / "scan.npy", frames.reshape(len(frames) // 16, 16, *frames.shape[1:]))
    large = (32, 32, 64, 64) if size == TINY else (280, 280, 256, 256)
    np.lib.format.open_memmap(folder / "long.npy", "w+", "<u2", (64 if size == TINY else LONG, 256, 256)).flush()
    if importlib.util.find_spec("tifffile") is not None:
        import tifffile

        tifffile.imwrite(folder / "scan.tif", frames[:FEWER], photometric="minisblack")
    np.lib.format.open_memmap(folder / "large.npy", "w+", "<u2", large).flush()  # a sparse file
    for latency, rate in LINES[:1] if size == TINY else LINES:
        with _served(folder, latency, rate) as url, _Plain(f"{url}/scan.npy") as plain:
            line = f"{latency * 1000:g} ms{f', {rate / 1e6:g} MB/s' if rate else ''}"
            for row in _at(url, frames, size, plain):
                yield row._replace(name=f"{line}: {row.name}")


@contextmanager
def _served(folder: Path, latency: float, rate: float) -> Iterator[str]:
    """Serve a folder from another process."""
    said = folder / "url"
    said.unlink(missing_ok=True)
    command = [sys.executable, "-m", "vfs.testing.range_server", str(folder), str(said), str(latency), str(rate)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


def _at(url: str, frames: np.ndarray, size: Size, plain: _Plain) -> Iterator[Row]:
    yield from _all(f"{url}/long.npy", size)
    yield from _frames(f"{url}/scan.npy", frames[0].nbytes, len(frames), size, plain)
    pictures = _pictures(f"{url}/large.npy")
    yield Row("disk and first picture of a scan of 9.6 GiB, opened too", pictures[0], "s", "≤ 1 at 20 ms")
    for seconds in pictures[1:]:
        yield Row("its next picture, twice as fine", seconds, "s")
    yield from _others(url, frames[:FEWER], size, plain)


def _all(url: str, size: Size) -> Iterator[Row]:
    """A pass over all of a set, beside plain ranges of it in turns."""
    array = vfs.open(url)
    first, end = HEADER, HEADER + array.nbytes
    cuts = [(at, min(at + RANGE, end)) for at in range(first, end, RANGE)]
    memory = np.ones(array.shape, array.dtype)
    with _Plain(url) as plain:
        ways: dict[str, Callable[[], object]] = {
            "plain": partial(plain.all, cuts),
            "whole": lambda: array.read(out=memory),
            "sum": lambda: array.reduce(total=vfs.FrameSum()),
        }
        taken = dict.fromkeys(ways, float("inf"))
        for _ in range(min(3, size.rounds)):
            for name, way in ways.items():
                taken[name] = min(taken[name], _best(way, TINY))
        trip = _best(lambda: plain.get((first, first + 1)), size, 8)
    yield Row("opening", _best(lambda: vfs.open(url), size, 8) / trip, "round trips")
    yield Row(f"{PARALLEL} plain ranges of 8 MiB at a time", array.nbytes / taken["plain"] / 1e6, "MB/s")
    yield Row("all of it, to where it belongs", taken["plain"] / taken["whole"], "of these", "≥ 0.9")
    yield Row("a sum of each frame", taken["plain"] / taken["sum"], "of these", "≥ 0.9")


def _others(url: str, frames: np.ndarray, size: Size, plain: _Plain) -> Iterator[Row]:
    """What others take for the first frames, one after the other in their file, and vfs for the same."""
    path, frame, count = f"{url}/scan.npy", frames[0].nbytes, len(frames)
    alone = _best(partial(plain.all, [(HEADER + frame * k, HEADER + frame * (k + 1)) for k in range(count)]), size)
    for name, read in (
        ("fsspec with references, zarr", _by_fsspec(path, frames)),
        ("VirtualiZarr's ManifestStore, zarr", _by_manifest(path, frames)),
        ("tifffile over fsspec", _by_tifffile(f"{url}/scan.tif", frames)),
    ):
        if read is not None:
            yield Row(f"{name}: {count} frames", alone / _best(read, size), "of a plain range each")
            if "tifffile" in name:
                whole = partial(lambda tif: vfs.open(tif)[...], f"{url}/scan.tif")
                yield Row(f"that TIFF by vfs: {count} frames", alone / _best(whole, size), "of a plain range each")
    some = vfs.open(path, roi=np.arange(count))
    yield Row(f"the same {count} frames", alone / _best(lambda: some[...], size), "of a plain range each")


def _frames(path: str, frame: int, count: int, size: Size, plain: _Plain) -> Iterator[Row]:
    """Single frames, and many from anywhere."""
    array = vfs.open(path)
    order = np.random.default_rng(3).permutation(count)
    trip = _best(lambda: plain.get((HEADER, HEADER + frame)), size, 8)
    turns = iter(range(1 << 30))

    def one() -> None:
        k = int(order[next(turns) % count])
        array[k // 16, k % 16]

    one()
    yield Row("a frame at the pointer", _best(one, size, 8) / trip, "round trips", "≤ 1.5")
    some = np.sort(order[: max(8, count // 4)])
    wanted = [(HEADER + frame * int(k), HEADER + frame * int(k + 1)) for k in some]
    alone = _best(partial(plain.all, wanted), size)

    def chosen() -> None:
        vfs.open(path, roi=some)[...]

    yield Row(
        f"roi= of {len(some):,} frames from anywhere, opened too", alone / _best(chosen, size), "of a plain range each"
    )


def _pictures(url: str) -> list[float]:
    """Return the seconds until the page has its first picture of a set, and those that each of the next two takes."""
    began = time.perf_counter()
    array = reader_of(vfs.open(url))
    disk = central_disk(array, ())
    asked = Asked({"image": f"disk({disk.cy:g}, {disk.cx:g}, {disk.r:g})"}, None, ())
    steps, made, taken = Computation(array, asked, array.cache).steps(), None, []
    for _ in range(3):
        step = following(steps, made)
        if step is not None:
            made = step.make()
        taken.append(time.perf_counter() - began)
    return [taken[0], *np.diff(taken).tolist()]


class _Plain:
    """Plain connections to a server, as many as threads that ask on them, for as long as `with` lasts."""

    def __init__(self, url: str) -> None:
        self._place, self._own = urlsplit(url), local()
        self._made: list[http.client.HTTPConnection] = []
        self._pool = ThreadPoolExecutor(PARALLEL)

    def __enter__(self) -> _Plain:
        return self

    def __exit__(self, *error: object) -> None:
        self._pool.shutdown()
        for one in self._made:
            one.close()

    def all(self, cuts: Sequence[tuple[int, int]]) -> None:
        """Ask for ranges of bytes, first and end, `PARALLEL` at a time."""
        assert sum(self._pool.map(self.get, cuts)) == sum(stop - start for start, stop in cuts)

    def get(self, cut: tuple[int, int]) -> int:
        """Ask for a range in this thread. Returns how many bytes came."""
        if not hasattr(self._own, "connection"):
            self._own.connection = http.client.HTTPConnection(self._place.netloc)
            self._own.memory = memoryview(bytearray(RANGE))
            self._made.append(self._own.connection)
        (start, stop), done = cut, 0
        self._own.connection.request("GET", self._place.path, headers={"Range": f"bytes={start}-{stop - 1}"})
        reply = self._own.connection.getresponse()
        while done < stop - start and (n := reply.readinto(self._own.memory[: stop - start - done])):
            done += n
        reply.read()
        return done


def _best(call: Callable[[], object], size: Size, times: int = 1) -> float:
    """Return the least seconds that a call takes."""
    best = float("inf")
    for _ in range(min(3, size.rounds) * times):
        began = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - began)
    return best


def _by_fsspec(url: str, frames: np.ndarray) -> Callable[[], object] | None:
    """Return what reads the array as kerchunk describes it, a reference for each frame; None: it is not installed."""
    if _missing("fsspec", "aiohttp", "zarr"):
        return None
    import fsspec
    import zarr

    shape, one = frames.shape, frames[0].nbytes
    about = {
        "zarr_format": 2,
        "shape": shape,
        "chunks": [1, *shape[1:]],
        "dtype": "<u2",
        "compressor": None,
        "filters": None,
        "fill_value": 0,
        "order": "C",
    }
    refs = {".zgroup": '{"zarr_format": 2}', "data/.zarray": json.dumps(about)}
    chunks = {f"data/{k}.0.0": [url, HEADER + one * k, one] for k in range(len(frames))}

    run = {"asynchronous": True}

    def read() -> object:
        files = fsspec.filesystem(
            "reference", fo={"version": 1, "refs": refs | chunks}, remote_protocol="http", remote_options=run, **run
        )
        store = zarr.storage.FsspecStore(files, read_only=True, path="")
        with zarr.config.set({"async.concurrency": PARALLEL}):
            return zarr.open_group(store, mode="r", zarr_format=2)["data"][...]

    np.testing.assert_array_equal(np.asarray(read()), frames)
    return read


def _by_manifest(url: str, frames: np.ndarray) -> Callable[[], object] | None:
    """Return what reads the array by VirtualiZarr, a chunk for each frame; None: it is not installed."""
    if _missing("virtualizarr", "obstore", "zarr"):
        return None
    import zarr
    from obspec_utils.registry import ObjectStoreRegistry
    from obstore.store import HTTPStore
    from virtualizarr.manifests import ChunkManifest, ManifestArray, ManifestGroup, ManifestStore
    from virtualizarr.manifests.utils import create_v3_array_metadata

    shape, one, server = (len(frames), 1, 1), frames[0].nbytes, url.rpartition("/")[0]
    offsets = (HEADER + one * np.arange(len(frames), dtype="u8")).reshape(shape)
    paths = np.full(shape, url, dtype=np.dtypes.StringDType())
    chunks = ChunkManifest.from_arrays(paths=paths, offsets=offsets, lengths=np.full(shape, one, "u8"))
    about = create_v3_array_metadata(
        shape=frames.shape,
        data_type=np.dtype("u2"),
        chunk_shape=(1, *frames.shape[1:]),
        codecs=[{"name": "bytes", "configuration": {"endian": "little"}}],
        fill_value=0,
    )

    def read() -> object:
        registry = ObjectStoreRegistry({server: HTTPStore.from_url(server, client_options={"allow_http": True})})
        store = ManifestStore(ManifestGroup(arrays={"data": ManifestArray(about, chunks)}), registry=registry)
        with zarr.config.set({"async.concurrency": PARALLEL}):
            return zarr.open_array(store, path="data", mode="r", zarr_format=3)[...]

    np.testing.assert_array_equal(np.asarray(read()), frames)
    return read


def _by_tifffile(url: str, frames: np.ndarray) -> Callable[[], object] | None:
    """Return what reads a TIFF of the frames by tifffile; None: it is not installed."""
    if _missing("tifffile", "fsspec", "aiohttp"):
        return None
    import fsspec
    import tifffile

    def read() -> object:
        with fsspec.open(url, "rb") as file:
            return tifffile.imread(file)

    np.testing.assert_array_equal(np.asarray(read()), frames)
    return read


def _missing(*names: str) -> bool:
    """Return True, and say so, if packages that something is measured with are missing."""
    absent = [name for name in names if importlib.util.find_spec(name) is None]
    if absent:
        print(f"remote: without {', '.join(absent)}, not measured", file=sys.stderr)
    return bool(absent)
