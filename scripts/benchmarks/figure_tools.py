"""What `figures.py` has each tool do, in a process of its own: `python -m scripts.benchmarks.figure_tools JOB.json`.

A tool opens a file, then gives a frame, the bright-field image and all pixels of it, each the way its manual shows.
Before that it does the same to a small file of the same kind, as a notebook has that was used before: libraries are
imported then, and kernels compiled. What a step gives is compared with numpy, outside of the time.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import shutil
import subprocess
import sys
import time
import urllib.request
import warnings
from collections.abc import Callable
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from scripts.benchmarks.figure_samples import Sample, bright, picked, ring
from scripts.benchmarks.rows import drop_cache

WRONG = 1e-3
"""A difference from numpy, as a share of the largest value, from which a result counts as wrong."""
STARTS = 60
"""Seconds that a server may take to start."""


class Opened(Protocol):
    """A file that a tool has open."""

    def frame(self, k: int) -> Any:
        """Return a frame by its number in the scan. [y, x]"""

    def bright(self) -> Any:
        """Return the bright-field image. [frame] or [scan …]"""

    def everything(self) -> Any:
        """Return all pixels in memory of their own. [frame, y, x] or [scan …, y, x]"""


class Vfs:
    """vfs: `reduce` for images, `read` for pixels."""

    def __init__(self, sample: Sample, path: str | None = None) -> None:
        import vfs

        scan = {} if sample.kind == "http" else {"nav_shape": sample.scan}
        self.sample, self.array = sample, vfs.open(path or sample.path, **scan)

    def frame(self, k: int) -> np.ndarray:
        found = np.asarray(self.array[np.unravel_index(k, self.sample.scan)])
        return found if found.flags.writeable else found.copy()

    def bright(self) -> np.ndarray:
        import vfs

        return np.asarray(self.array.reduce(bf=vfs.Disk(*self.sample.disk))["bf"].data)

    def everything(self) -> np.ndarray:
        return self.array.read()

    def screen(self) -> list[np.ndarray]:
        import vfs

        cy, cx, r = self.sample.disk
        found = self.array.reduce(
            bf=vfs.Disk(cy, cx, r), adf=vfs.Ring(cy, cx, r, 2 * r), com=vfs.CenterOfMass(), mean=vfs.Mean()
        )
        return [np.asarray(found[name].data) for name in ("bf", "adf", "com", "mean")]


class Blocks:
    """What is indexed as numpy: images are made by numpy, 128 frames at a time.

    Args:
        frames: [frame, y, x].
    """

    def __init__(self, sample: Sample, frames: Any) -> None:
        self.sample, self.frames = sample, frames

    def frame(self, k: int) -> np.ndarray:
        return np.array(self.frames[k])

    def bright(self) -> np.ndarray:
        return bright(self.frames, self.sample.mask)

    def everything(self) -> np.ndarray:
        return np.array(self.frames[:])

    def screen(self) -> list[np.ndarray]:
        return screened(self.sample, self.frames)


class Lazy:
    """A dask array [scan …, y, x]."""

    def __init__(self, sample: Sample, array: Any) -> None:
        self.sample, self.array = sample, array

    def frame(self, k: int) -> np.ndarray:
        return np.asarray(self.array[np.unravel_index(k, self.array.shape[:-2])])

    def bright(self) -> np.ndarray:
        box, inside = _boxed(self.sample)
        return np.asarray((self.array[..., *box] * inside).sum(axis=(-2, -1)))

    def everything(self) -> np.ndarray:
        return np.asarray(self.array)


class LiberTEM:
    """LiberTEM: single frames and tiles by the inline executor, images by the pipelined one, on all cores."""

    def __init__(self, sample: Sample) -> None:
        from scripts.benchmarks.peer_cases import Tiled, _Loaded

        load: dict[str, Any] = {"nav_shape": sample.scan}
        kind = {"sparse": "mrc", "arina": "hdf5"}.get(sample.kind, sample.kind)
        if kind == "hdf5":
            load["ds_path"] = "entry/data/data"
        if kind == "mrc":
            load["sig_shape"] = sample.sig
        path = Path(sample.file if kind == "hdf5" else sample.path)
        self.sample, self.loaded = sample, _Loaded(Tiled("", path, kind, load, {}))
        self.data = self.loaded.held[1]

    def frame(self, k: int) -> np.ndarray:
        return self.loaded.frame(k)

    def bright(self) -> np.ndarray:
        return self._run([self._masks(self.sample.mask)])[0]["intensity"].raw_data

    def everything(self) -> np.ndarray:
        out = np.zeros((self.sample.frames, *self.sample.sig), np.dtype(self.sample.dtype).newbyteorder("="))
        for where, tile in self.loaded.tiles(out.dtype):
            out[where] = tile
        return out

    def screen(self) -> list[np.ndarray]:
        from libertem.udf.com import CoMUDF
        from libertem.udf.sum import SumUDF

        r = self.sample.disk[2]
        masks = self._masks(self.sample.mask, ring(self.sample.sig, r, 2 * r))
        virtual, com, total = self._run([masks, CoMUDF.with_params(cy=0, cx=0), SumUDF()])
        images = np.asarray(virtual["intensity"].raw_data)
        mean = np.asarray(total["intensity"].raw_data) / self.sample.frames
        return [images[..., 0], images[..., 1], np.asarray(com["raw_com"].raw_data), mean]

    def _masks(self, *masks: np.ndarray) -> Any:
        from libertem.udf.masks import ApplyMasksUDF

        made = np.stack(masks)
        return ApplyMasksUDF(mask_factories=lambda: made, mask_count=len(made), mask_dtype=np.float32)

    def _run(self, udfs: list[Any]) -> Any:
        return _pipelined().run_udf(dataset=self.data, udf=udfs)


@cache
def _pipelined() -> Any:
    from libertem.api import Context
    from libertem.executor.pipelined import PipelinedExecutor

    context = Context(executor=PipelinedExecutor())
    _AT_END.callback(context.close)
    return context


_AT_END = ExitStack()


def _rosetta(sample: Sample) -> Opened:
    module, how = {
        "mrc": ("mrc", {"navigation_shape": sample.scan[::-1], "chunks": ("auto", "auto", -1, -1)}),
        "mib": ("quantumdetector", {"navigation_shape": sample.scan[::-1]}),
        "tiff": ("tiff", {}),
    }["mrc" if sample.kind == "sparse" else sample.kind]
    made = importlib.import_module(f"rsciio.{module}").file_reader(sample.file, lazy=True, **how)
    return Lazy(sample, made[0]["data"])


class HyperSpy:
    """HyperSpy, lazily."""

    def __init__(self, sample: Sample) -> None:
        import hyperspy.api as hs

        how: dict[str, Any] = {} if sample.kind == "mib" else {"chunks": ("auto", "auto", -1, -1)}
        self.sample = sample
        self.signal = hs.load(sample.file, lazy=True, navigation_shape=sample.scan[::-1], **how)

    def frame(self, k: int) -> np.ndarray:
        return np.asarray(self.signal.inav[np.unravel_index(k, self.sample.scan)[::-1]].data)

    def bright(self) -> np.ndarray:
        (y, x), inside = _boxed(self.sample)
        part = self.signal.isig[x.start : x.stop, y.start : y.stop] * inside
        image = part.sum(axis=part.axes_manager.signal_axes)
        image.compute(show_progressbar=False)
        return np.asarray(image.data)

    def everything(self) -> np.ndarray:
        return np.asarray(self.signal.data)


class Py4DSTEM:
    """py4DSTEM: MIB mapped, ARINA read into memory when it is opened."""

    def __init__(self, sample: Sample) -> None:
        import py4DSTEM

        how = (
            {"mem": "RAM", "scan_width": sample.scan[1]}
            if sample.kind == "arina"
            else {"mem": "MEMMAP", "scan": sample.scan}
        )
        path = sample.path if sample.kind == "arina" else sample.file
        self.sample, self.cube = sample, py4DSTEM.import_file(path, filetype=sample.kind, **how)
        if sample.kind == "arina":  # its reader turns the scan over, and takes its axes for each other
            self.cube.data = self.cube.data[::-1].reshape(*sample.scan, *sample.sig)

    def frame(self, k: int) -> np.ndarray:
        return np.array(self.cube.data[np.unravel_index(k, self.sample.scan)])

    def bright(self) -> np.ndarray:
        return self.cube.get_virtual_image(mode="mask", geometry=self.sample.mask, name="bright").data

    def everything(self) -> np.ndarray:
        return np.array(self.cube.data)


def _zarr_of(opened: Callable[[Sample], Any]) -> Callable[[Sample], Opened]:
    """A zarr array [frame, y, x]; images are made by dask."""

    class Zarr:
        def __init__(self, sample: Sample) -> None:
            self.sample, self.array = sample, opened(sample)

        def frame(self, k: int) -> np.ndarray:
            return np.asarray(self.array[k])

        def bright(self) -> np.ndarray:
            import dask.array

            return Lazy(self.sample, dask.array.from_zarr(self.array)).bright()

        def everything(self) -> np.ndarray:
            return np.asarray(self.array[...])

    return Zarr


def _kerchunk(sample: Sample) -> Any:
    from scripts.benchmarks import peer_cases as cases

    if sample.kind == "tiff":
        return cases._kerchunk_tiff(Path(sample.file))
    if sample.kind == "arina":
        return cases._kerchunk_hdf5(Path(sample.file), "entry/data/data")
    reference = Path(sample.file).with_suffix(".json")
    if not reference.exists():
        reference.write_text(json.dumps(cases._reference(Path(sample.file), sample.frames)))
    return cases._kerchunk_frames(reference)


def _virtualizarr(sample: Sample) -> Any:
    from scripts.benchmarks import peer_cases as cases

    if sample.kind == "arina":
        return cases._virtual_hdf5(Path(sample.file), "entry/data")
    return cases._manifest(Path(sample.file), sample.frames)


def _mrcfile(sample: Sample) -> Opened:
    import mrcfile

    return Blocks(sample, mrcfile.mmap(sample.path, permissive=True).data)


def _h5py(sample: Sample) -> Opened:
    import h5py
    import hdf5plugin  # noqa: F401  # its filters

    return Blocks(sample, h5py.File(sample.file)["entry/data/data"])


class Tifffile(Blocks):
    """tifffile: pages one by one; `memmap` for images, `imread` for all of them."""

    def __init__(self, sample: Sample) -> None:
        import tifffile

        self.file = tifffile.TiffFile(sample.path)
        super().__init__(sample, None)

    def frame(self, k: int) -> np.ndarray:
        return np.asarray(self.file.pages[k].asarray())

    def bright(self) -> np.ndarray:
        import tifffile

        try:
            frames = tifffile.memmap(self.sample.path, mode="r")
        except ValueError:  # pages do not lie one behind the other
            return np.array([bright(self.frame(k)[None], self.sample.mask)[0] for k in range(self.sample.frames)])
        return bright(frames, self.sample.mask)

    def everything(self) -> np.ndarray:
        import tifffile

        return np.asarray(tifffile.imread(self.sample.path))


def _boxed(sample: Sample) -> tuple[tuple[slice, slice], np.ndarray]:
    """The box around the disk, and the disk in it."""
    y, x = (slice(int(k.min()), int(k.max()) + 1) for k in np.nonzero(sample.mask))
    return (y, x), sample.mask[y, x]


def screened(sample: Sample, frames: Any) -> list[np.ndarray]:
    """Bright field, annular dark field, centre of mass (y, x) and mean pattern, 128 frames at a time by numpy."""
    r = sample.disk[2]
    inner, outer = sample.mask, ring(sample.sig, r, 2 * r)
    total, images = np.zeros(sample.sig, np.uint64), []
    y, x = np.arange(sample.sig[0]), np.arange(sample.sig[1])
    for k in range(0, sample.frames, 128):
        block = np.asarray(frames[k : k + 128])
        total += block.sum(0, dtype=np.uint64)
        rows, columns = block.sum(2, dtype=np.uint64), block.sum(1, dtype=np.uint64)
        weight = rows.sum(1)
        virtual = [(block * mask).sum((1, 2), dtype=np.uint64) for mask in (inner, outer)]
        images.append((*virtual, (rows @ y) / weight, (columns @ x) / weight))
    bf, adf, cy, cx = (np.concatenate(k) for k in zip(*images, strict=True))
    return [bf, adf, np.stack([cy, cx], -1), total / sample.frames]


# ------------------------------------------------------------------------------------------------------------------
# over HTTP


class OfServer:
    """Pixels of a server's zarr array [frame, y, x], read by zarr-python through obstore."""

    def __init__(self, sample: Sample) -> None:
        import zarr
        from obstore.store import HTTPStore
        from zarr.storage import ObjectStore

        url = f"{_served(sample)}{Path(sample.path).stem}.zarr/"
        store = ObjectStore(HTTPStore.from_url(url.rstrip("/"), client_options={"allow_http": True}), read_only=True)
        name = next(name for name in ("entry/data/data", "data") if _there(f"{url}{name}/zarr.json"))
        self.array = zarr.open_array(store, path=name, mode="r", zarr_format=3)

    def frame(self, k: int) -> np.ndarray:
        return np.asarray(self.array[k])

    def everything(self) -> np.ndarray:
        return np.asarray(self.array[...])


class OfNpy:
    """The same server's `.npy`, by ranges of bytes and Python's own client."""

    def __init__(self, sample: Sample) -> None:
        self.url, self.sample = f"{_served(sample)}{Path(sample.path).stem}.npy", sample
        first = self._get("bytes=0-127")
        self.start = 10 + int.from_bytes(first[8:10], "little")

    def frame(self, k: int) -> np.ndarray:
        size = self.sample.nbytes // self.sample.frames
        first = self.start + k * size
        return np.frombuffer(self._get(f"bytes={first}-{first + size - 1}"), self.sample.dtype).reshape(self.sample.sig)

    def everything(self) -> np.ndarray:
        return np.frombuffer(self._get(f"bytes={self.start}-"), self.sample.dtype).reshape(-1, *self.sample.sig)

    def _get(self, which: str) -> bytes:
        with urllib.request.urlopen(urllib.request.Request(self.url, headers={"Range": which})) as answer:
            return answer.read()  # type: ignore[no-any-return]


@cache
def _served(sample: Sample) -> str:
    import vfs

    return _AT_END.enter_context(vfs.serve(sample.path, port=0)).url


def _of_url(sample: Sample) -> Opened:
    return Vfs(sample, f"{_ranges(str(Path(sample.path).parent))}/{Path(sample.path).name}")


@cache
def _ranges(folder: str) -> str:
    """A plain web server of a folder, as a process of its own."""
    said = _started([sys.executable, "-m", "vfs.testing.range_server", folder, f"{folder}.url"])
    assert said.stdout is not None
    return said.stdout.readline().decode().strip()


class Tiled:
    """tiled's client of tiled's server of the folder."""

    def __init__(self, sample: Sample) -> None:
        from tiled.client import from_uri

        node = from_uri(_tiled(str(Path(sample.path).parent), Path(sample.path).stem))[Path(sample.path).stem]
        for name in ("entry", "data", "data"):
            node = node[name]
        self.array = node

    def frame(self, k: int) -> np.ndarray:
        return np.asarray(self.array.read((slice(k, k + 1),)))[0]

    def everything(self) -> np.ndarray:
        return np.asarray(self.array.read())


@cache
def _tiled(folder: str, name: str) -> str:
    """tiled's server of a folder, once it has found a file there."""
    import socket

    with socket.create_server(("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    command = [
        str(Path(sys.executable).with_name("tiled")),
        "serve",
        "directory",
        folder,
        "--public",
        "--port",
        str(port),
    ]
    process = _started(command, stdout=subprocess.DEVNULL)
    ends = time.monotonic() + STARTS
    while not _there(f"{url}/api/v1/metadata/{name}"):
        if time.monotonic() > ends or process.poll() is not None:
            raise OSError("tiled's server did not start")
        time.sleep(0.1)
    return url


def _there(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5):
            return True
    except OSError:
        return False


def _started(command: list[str], stdout: int = subprocess.PIPE) -> subprocess.Popen[bytes]:
    """A process that ends with this one."""
    process = subprocess.Popen(command, stdout=stdout, stderr=subprocess.DEVNULL)

    def end() -> None:
        process.terminate()
        process.wait()
        if process.stdout:
            process.stdout.close()

    _AT_END.callback(end)
    return process


TOOLS: dict[str, dict[str, Callable[[Sample], Any]]] = {
    "sparse": {"vfs": Vfs, "mrcfile": _mrcfile, "RosettaSciIO": _rosetta, "HyperSpy": HyperSpy, "LiberTEM": LiberTEM},
    "mrc": {
        "vfs": Vfs,
        "mrcfile, numpy": _mrcfile,
        "LiberTEM": LiberTEM,
        "RosettaSciIO, dask": _rosetta,
        "HyperSpy": HyperSpy,
    },
    "arina": {
        "vfs": Vfs,
        "h5py, numpy": _h5py,
        "LiberTEM": LiberTEM,
        "py4DSTEM": Py4DSTEM,
        "kerchunk, dask": _zarr_of(_kerchunk),
        "VirtualiZarr, dask": _zarr_of(_virtualizarr),
    },
    "mib": {
        "vfs": Vfs,
        "numpy": lambda sample: Blocks(sample, sample.by_numpy()),
        "LiberTEM": LiberTEM,
        "RosettaSciIO, dask": _rosetta,
        "HyperSpy": HyperSpy,
        "py4DSTEM": Py4DSTEM,
        "kerchunk, dask": _zarr_of(_kerchunk),
        "VirtualiZarr, dask": _zarr_of(_virtualizarr),
    },
    "tiff": {
        "vfs": Vfs,
        "tifffile, numpy": Tifffile,
        "RosettaSciIO, dask": _rosetta,
        "kerchunk, dask": _zarr_of(_kerchunk),
    },
    "http": {
        "vfs serve, zarr": OfServer,
        "vfs serve, .npy": OfNpy,
        "vfs.open(URL)": _of_url,
        "tiled": Tiled,
    },
}
"""Kind of file -> who reads it."""
STEPS = {
    "sparse": ("open", "frame"),
    "mrc": ("open", "frame", "bright"),
    "arina": ("open", "frame", "bright", "everything", "screen"),
    "mib": ("open", "frame", "bright", "everything"),
    "tiff": ("open", "frame", "bright", "everything"),
    "http": ("open", "frame", "everything"),
}
FLIPPED = ("RosettaSciIO, dask", "HyperSpy")
"""These turn the rows of a MIB over, the top one first: compared so."""


def compared(got: Any, want: Any) -> float:
    """Return the largest difference, as a share of the largest value. 0: the same numbers, all of them.

    Args:
        got: what a tool returned, in any shape; a list of several.
    """
    if isinstance(want, list):
        return max(compared(one, other) for one, other in zip(got, want, strict=True))
    got = np.asarray(got).reshape(want.shape)
    if np.array_equal(got, want):
        return 0.0
    one, other = got.astype(np.float64), want.astype(np.float64)
    return float(np.abs(one - other).max() / max(np.abs(other).max(), 1e-300))


class Checks:
    """What numpy makes of a file: see `compared`."""

    def __init__(self, sample: Sample, flipped: bool) -> None:
        self.sample, self.frames = sample, sample.by_numpy()
        self.turn = slice(None, None, -1 if flipped else 1)

    def of(self, step: str, got: Any, k: int) -> float:
        """Compare the result of a step. What was opened, is compared by the steps that follow."""
        match step:
            case "open":
                return 0.0
            case "frame":
                return compared(got, np.asarray(self.frames[k])[self.turn])
            case "bright":
                return compared(got, self._bright)
            case "screen":
                return compared(got, self._screened)
        flat = np.asarray(got).reshape(-1, *self.sample.sig)
        whole = range(0, self.sample.frames, 128)
        return max(compared(flat[k : k + 128, self.turn], np.asarray(self.frames[k : k + 128])) for k in whole)

    @property
    def _bright(self) -> np.ndarray:
        if self.turn.step == 1:
            return kept(self.sample, "bright", lambda: bright(self.frames, self.sample.mask))
        mask = self.sample.mask[::-1]
        return kept(self.sample, "flipped", lambda: bright(self.frames, mask))

    @property
    def _screened(self) -> list[np.ndarray]:
        names = ("bf", "adf", "com", "mean")
        if not Path(f"{self.sample.path}.mean.npy").exists():
            for name, made in zip(names, screened(self.sample, self.frames), strict=True):
                np.save(f"{self.sample.path}.{name}.npy", made)
        return [np.load(f"{self.sample.path}.{name}.npy") for name in names]


def kept(sample: Sample, name: str, make: Callable[[], np.ndarray]) -> np.ndarray:
    """Make it once for all processes."""
    path = Path(f"{sample.path}.{name}.npy")
    if not path.exists():
        np.save(path, make())
    return np.load(path)  # type: ignore[no-any-return]


def measured(sample: Sample, tool: str, rounds: int, cold: bool) -> list[dict[str, Any]]:
    """Do every step so many times, each time with the file opened anew.

    Args:
        cold: what the system has of the file in memory is forgotten before every step.

    Returns: for each step of each round its name, when it began and ended (seconds, monotonic), and `compared`.
    """
    make, steps = TOOLS[sample.kind][tool], STEPS[sample.kind]
    checks = Checks(sample, sample.kind == "mib" and tool in FLIPPED)
    if sample.kind == "http":
        make(sample)  # starts the server, which is no part of opening
    numbers = picked(sample) * rounds
    found = []
    for turn in range(rounds):
        opened: Any = None
        for step in steps:
            if step != "open" and not hasattr(opened, step):
                continue
            k = numbers[turn]
            gc.collect()
            if cold:
                drop_cache(Path(sample.file))
            began = time.monotonic()
            if step == "open":
                got = opened = make(sample)
            else:
                got = getattr(opened, step)(k) if step == "frame" else getattr(opened, step)()
            ended = time.monotonic()
            found.append({"step": step, "began": began, "ended": ended, "off": checks.of(step, got, k)})
            del got
        del opened
    return found


# -----------------------------------------------------------------------------------------------------------------
# exports

EXPORTS = ("none", "zstd", "sharded")


def exported(sample: Sample, tool: str, rounds: int, chunk: int, inner: int) -> list[dict[str, Any]]:
    """Write the cube of an .npy as a zarr store: chunks as they are, by zstd, and by zstd in shards.

    Returns: as `measured`, and the bytes of the store.
    """
    import zarr

    frames, found = np.load(sample.path, mmap_mode="r"), []
    target = Path(sample.path).with_name("out.zarr")
    for _ in range(rounds):
        for how in EXPORTS:
            shutil.rmtree(target, ignore_errors=True)
            drop_cache(Path(sample.path))
            began = time.monotonic()
            (_export if tool == "vfs" else _zarr_python)(sample.path, target, how, chunk, inner)
            ended = time.monotonic()
            if tool == "vfs":
                made = zarr.open_group(target, mode="r")
                array = next(one for _, one in made.arrays())
            else:
                array = zarr.open_array(target, mode="r")
            off = max(compared(array[k : k + chunk], frames[k : k + chunk]) for k in range(0, len(frames), chunk))
            size = sum(file.stat().st_size for file in target.rglob("*") if file.is_file())
            found.append({"step": how, "began": began, "ended": ended, "off": off, "bytes": size})
    shutil.rmtree(target, ignore_errors=True)
    Path(f"{target}.sums").unlink(missing_ok=True)
    return found


def _export(path: str, target: Path, how: str, chunk: int, inner: int) -> None:
    import vfs

    Path(f"{target}.sums").unlink(missing_ok=True)
    chunks, shards = ((inner,) * 3, (chunk,) * 3) if how == "sharded" else ((chunk,) * 3, None)
    vfs.export(path, target, chunks=chunks, shards=shards, codec="none" if how == "none" else "zstd:3")


def _zarr_python(path: str, target: Path, how: str, chunk: int, inner: int) -> None:
    """As zarr_benchmarks does: the whole array at once, ten chunks at a time."""
    import zarr
    from zarr.codecs import ZstdCodec

    source = np.load(path, mmap_mode="r")
    layout: dict[str, Any] = {"chunks": (chunk,) * 3}
    if how == "sharded":
        layout = {"chunks": (inner,) * 3, "shards": (chunk,) * 3}
    compressors = None if how == "none" else ZstdCodec(level=0)
    with zarr.config.set({"async.concurrency": 10}):
        made = zarr.create_array(target, shape=source.shape, dtype=source.dtype, compressors=compressors, **layout)
        made[:] = source[:]


def main() -> None:
    """Do a job, and print what `measured` or `exported` returns."""
    job = json.loads(Path(sys.argv[1]).read_text())
    out = os.dup(1)
    os.dup2(2, 1)  # tools print as they please
    warnings.simplefilter("ignore")
    as_read = [
        Sample(*(tuple(one) if isinstance(one, list) else one for one in job[name])) for name in ("small", "sample")
    ]
    found: dict[str, Any]
    with _AT_END:
        try:
            if as_read[1].kind == "export":
                exported(as_read[0], job["tool"], 1, *job["small_chunks"])
                found = {"found": exported(as_read[1], job["tool"], job["rounds"], *job["chunks"])}
            else:
                measured(as_read[0], job["tool"], 1, False)
                found = {"found": measured(as_read[1], job["tool"], job["rounds"], job["cold"])}
        except Exception as error:  # a peer may fail in any way
            found = {"failed": f"{type(error).__name__}: {str(error).splitlines()[0][:120] if str(error) else ''}"}
    os.write(out, json.dumps(found).encode())


if __name__ == "__main__":
    main()
