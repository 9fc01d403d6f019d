"""The files that `figures.py` measures, written anew for each run in the shapes that others publish.

Pixels of electron counts are drawn once for a few dozen frames, which then repeat: what a reader does with a byte does
not depend on it, but for what it decompresses. Beside each file lies what numpy makes of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from vfs.testing.stack_writers import write_mrc
from vfs.testing.tiff_writers import write_tiff
from vfs.testing.writers import write_mib

DISTINCT = 64
"""Frames that differ from one another."""
STRONGEST = 8.0
"""Mean count of a pixel inside of the bright disk; outside it is a twentieth of one."""


class Sample(NamedTuple):
    """A file, and where numpy finds its pixels.

    Attributes:
        kind: which readers know it: "mrc", "sparse", "mib", "tiff", "arina", "http", "export".
        path: what a tool opens.
        scan, sig: shape of the scan and of a frame, in pixels.
        dtype: of the pixels as they are stored.
        start, header: bytes before the first frame and before each frame, where it is not compressed.
        data: the file with the pixels, if it is not `path`.
        few: frames that repeat, where numpy cannot read the file.
    """

    kind: str
    path: str
    scan: tuple[int, ...]
    sig: tuple[int, int]
    dtype: str
    start: int = 0
    header: int = 0
    data: str = ""
    few: str = ""

    @property
    def frames(self) -> int:
        """How many there are."""
        return math.prod(self.scan)

    @property
    def nbytes(self) -> int:
        """Bytes of the pixels, decoded."""
        return self.frames * math.prod(self.sig) * np.dtype(self.dtype).itemsize

    @property
    def file(self) -> str:
        """The file with the pixels."""
        return self.data or self.path

    @property
    def disk(self) -> tuple[float, float, float]:
        """Centre y, x and radius of the bright-field detector: a disk of 8 % of a frame."""
        return self.sig[0] / 2, self.sig[1] / 2, math.sqrt(0.08 * math.prod(self.sig) / math.pi)

    @property
    def mask(self) -> np.ndarray:
        """The disk. bool[y, x]"""
        return ring(self.sig, 0, self.disk[2])

    def by_numpy(self) -> np.ndarray:
        """The pixels by numpy alone: of the same file, or where that is compressed, those that were written into it.

        Returns: [frame, y, x], mapped.
        """
        if self.few:
            return _Repeated(np.load(self.few), self.frames)  # type: ignore[return-value]
        record = np.dtype([("header", f"V{self.header}"), ("pixels", self.dtype, self.sig)])
        return np.memmap(self.file, record, "r", self.start, (self.frames,))["pixels"]


class _Repeated:
    """A few frames, again and again, as if they were `frames`."""

    def __init__(self, few: np.ndarray, frames: int) -> None:
        self.few, self.shape, self.dtype = few, (frames, *few.shape[1:]), few.dtype

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, which: Any) -> np.ndarray:
        return np.asarray(self.few[np.arange(len(self))[which] % len(self.few)])


def ring(sig: tuple[int, int], inner: float, outer: float) -> np.ndarray:
    """Pixels whose centres are at least so far from the middle of the frame, and less than so far. bool[y, x]"""
    y, x = np.ogrid[: sig[0], : sig[1]]
    far = (y - sig[0] / 2) ** 2 + (x - sig[1] / 2) ** 2
    return (far >= inner**2) & (far < outer**2)


def counts(frames: int, sig: tuple[int, int]) -> np.ndarray:
    """Diffraction patterns as a counting detector sees them: a bright disk, little around it. uint16[frames, y, x]"""
    mean = np.where(ring(sig, 0, 0.16 * min(sig)), STRONGEST, STRONGEST / 20)
    return np.random.default_rng(7).poisson(mean, (frames, *sig)).astype(np.uint16)


def by_blocks(frames: Any, make: Callable[[np.ndarray], np.ndarray], step: int = 128) -> np.ndarray:
    """Make something of each frame, `step` frames at a time."""
    return np.concatenate([make(np.asarray(frames[k : k + step])) for k in range(0, len(frames), step)])


def bright(frames: Any, mask: np.ndarray, step: int = 128) -> np.ndarray:
    """Sum the pixels of a mask in each frame, as numpy does it: the box around the mask times the mask.

    Returns: uint64 of integers, float64 of floats, [frame].
    """
    box = tuple(slice(int(k.min()), int(k.max()) + 1) for k in np.nonzero(mask))
    inside = mask[box]
    total = np.float64 if frames.dtype.kind == "f" else np.uint64
    return by_blocks(frames, lambda block: (block[:, *box] * inside).sum((1, 2), dtype=total), step)


def mrc(folder: Path, scan: tuple[int, int], side: int) -> Sample:
    """Write an MRC stack of float32, as Direct Electron's cameras do."""
    few = counts(min(DISTINCT, math.prod(scan)), (side, side)).astype("f4") * np.float32(0.37)
    head = write_mrc(folder, few[:1], 2, name="one.mrc").read_bytes()[:1024]
    path = folder / "movie.mrc"
    with path.open("wb") as file:
        file.write(_sections(head, math.prod(scan)))
        for k in range(math.prod(scan)):
            file.write(few[k % len(few)].data)
    return Sample("mrc", str(path), scan, (side, side), "<f4", start=1024)


def sparse(folder: Path, scan: tuple[int, int], side: int) -> Sample:
    """Write an MRC stack as above of which only `DISTINCT` frames take place on the disk; the others are holes."""
    few = counts(DISTINCT, (side, side)).astype("f4") * np.float32(0.37)
    head = write_mrc(folder, few[:1], 2, name="one.mrc").read_bytes()[:1024]
    path = folder / "movie.mrc"
    sample = Sample("sparse", str(path), scan, (side, side), "<f4", start=1024)
    with path.open("wb") as file:
        file.truncate(1024 + sample.nbytes)
        file.write(_sections(head, sample.frames))
        for k, frame in zip(picked(sample), few, strict=False):
            file.seek(1024 + k * frame.nbytes)
            file.write(frame.data)
    return sample


def picked(sample: Sample) -> list[int]:
    """Frames that are read one by one, somewhere in the scan: the same ones for everybody."""
    return sorted(np.random.default_rng(3).permutation(sample.frames)[:DISTINCT].tolist())


def _sections(head: bytes, count: int) -> bytes:
    """The header of an MRC file with another number of sections; they stay images, and are no volume."""
    return head[:8] + count.to_bytes(4, "little") + head[12:]


def mib(folder: Path, scan: tuple[int, int], side: int) -> Sample:
    """Write a Merlin scan, uint16 big-endian with a header of 384 bytes before every frame, in one file."""
    few = counts(min(DISTINCT, math.prod(scan)), (side, side))
    path = write_mib(folder, np.resize(few, (math.prod(scan), side, side)), kind="U16", depth=12, scan=scan)
    data = next(folder.glob("*.mib"))
    return Sample("mib", str(path), scan, (side, side), ">u2", header=384, data=str(data))


def tiff(folder: Path, frames: int, side: int) -> Sample:
    """Write a TIFF stack of uint16 that is not compressed."""
    few = counts(min(DISTINCT, frames), (side, side))
    path = write_tiff(folder / "stack.tif", list(np.resize(few, (frames, side, side))))
    return Sample("tiff", str(path), (frames,), (side, side), "<u2", few=_kept(folder, few))


def arina(folder: Path, scan: tuple[int, int], side: int) -> Sample:
    """Write what an ARINA writes: a master, and a file of frames in chunks of bitshuffle and LZ4."""
    import h5py

    few = counts(min(DISTINCT, math.prod(scan)), (side, side))
    data = _bitshuffled(folder / "scan_data_000001.h5", few, math.prod(scan))
    path = folder / "scan_master.h5"
    with h5py.File(path, "w") as file:
        file.create_group("entry").attrs["NX_class"] = np.bytes_("NXentry")
        file["entry"].create_group("data").attrs["NX_class"] = np.bytes_("NXdata")
        file["entry/data/data_000001"] = h5py.ExternalLink(data.name, "/entry/data/data")
    return Sample("arina", str(path), scan, (side, side), "<u2", data=str(data), few=_kept(folder, few))


def http(folder: Path, frames: int, sig: tuple[int, int]) -> Sample:
    """Write an HDF5 file of Eiger frames, uint32 in chunks of a frame, bitshuffle and LZ4."""
    (folder / "set").mkdir()
    few = counts(min(DISTINCT, frames), sig).astype(np.uint32)
    path = _bitshuffled(folder / "set" / "frames.h5", few, frames)
    return Sample("http", str(path), (frames,), sig, "<u4", few=_kept(folder, few))


def _kept(folder: Path, few: np.ndarray) -> str:
    np.save(folder / "few.npy", few)
    return str(folder / "few.npy")


def _bitshuffled(path: Path, few: np.ndarray, count: int) -> Path:
    """Write frames of `few` again and again, `count` in all, each compressed once."""
    import h5py
    import hdf5plugin

    how: dict[str, Any] = {"chunks": (1, *few.shape[1:]), **hdf5plugin.Bitshuffle(cname="lz4")}
    with h5py.File(path, "w") as file:
        once = file.create_dataset("once", data=few, **how)
        packed = [bytes(once.id.read_direct_chunk((k, 0, 0))[1]) for k in range(len(few))]
        del file["once"]
        data = file.create_dataset("entry/data/data", (count, *few.shape[1:]), few.dtype, **how)
        for k in range(count):
            data.id.write_direct_chunk((k, 0, 0), packed[k % len(few)])
    return path


def export(folder: Path, side: int) -> Sample:
    """Write the cube of zarr_benchmarks, value (z³ + y²/32 + x) mod 65536, as one .npy."""
    z, y, x = (np.arange(side, dtype=np.uint64) for _ in range(3))
    plane = (y * y // 32)[:, None] + x
    path = folder / "cube.npy"
    cube = np.lib.format.open_memmap(path, "w+", np.uint16, (side, side, side))
    for k in range(side):
        cube[k] = (plane + z[k] ** 3).astype(np.uint16)
    cube.flush()
    return Sample("export", str(path), (side,), (side, side), "<u2", start=128)


class Shapes(NamedTuple):
    """How large everything is.

    Attributes:
        mrc, mrc_side: scan and side of a frame of the MRC that is read whole; sparse: scan of that with holes.
        arina, arina_side, mib, mib_side, tiff, tiff_side: scans (numbers of frames) and sides.
        http: frames, y, x.
        export: side of the cube; chunk, inner: sides of its chunks, and of those in shards.
        rounds: how often each thing is done.
    """

    mrc: tuple[int, int] = (64, 32)
    mrc_side: int = 512
    sparse: tuple[int, int] = (256, 256)
    arina: tuple[int, int] = (128, 128)
    arina_side: int = 192
    mib: tuple[int, int] = (64, 32)
    mib_side: int = 256
    tiff: int = 2048
    tiff_side: int = 256
    http: tuple[int, int, int] = (60, 1065, 1030)
    export: int = 1024
    chunk: int = 256
    inner: int = 64
    rounds: int = 3


FULL_SHAPES = Shapes()
SMALL_SHAPES = Shapes((2, 4), 64, (8, 8), (2, 4), 48, (2, 4), 256, 8, 64, (3, 65, 30), 32, 16, 8)
"""What a process reads before it is measured; and what a test measures."""


def samples(folder: Path, kind: str, shapes: Shapes) -> Sample:
    """Write the file of one kind into a folder."""
    folder.mkdir(parents=True)
    match kind:
        case "mrc":
            return mrc(folder, shapes.mrc, shapes.mrc_side)
        case "sparse":
            return sparse(folder, shapes.sparse, shapes.mrc_side)
        case "arina":
            return arina(folder, shapes.arina, shapes.arina_side)
        case "mib":
            return mib(folder, shapes.mib, shapes.mib_side)
        case "tiff":
            return tiff(folder, shapes.tiff, shapes.tiff_side)
        case "http":
            return http(folder, shapes.http[0], shapes.http[1:])
    return export(folder, shapes.export)


def kinds() -> Iterator[str]:
    """What there is, in the order in which it is measured."""
    yield from ("sparse", "mrc", "arina", "http", "export", "mib", "tiff")
