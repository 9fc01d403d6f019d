"""How fast HDF5 is: `scripts/bench hdf5`.

Chunks that are compressed against the bare codec: the same library called on the same chunk bytes,
which are in memory, into the same warm memory. Contiguous and plain chunked data against memcpy.
One frame anywhere, and what it costs beside its decoding. Opening, in a process that has opened
HDF5 before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from ctypes import c_int64, c_size_t, c_void_p
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np

import vfs
from scripts.benchmarks.rows import Row, Size, against, share, spent, walk

Bare = Callable[[bytes, np.ndarray], None]


def counts(n: int, side: int) -> np.ndarray:
    """uint16[n, side, side] as a counting detector gives them: few counts, which compress."""
    one = np.random.default_rng(3).poisson(3, (4, side, side)).astype("u2")
    return np.concatenate([one] * -(-n // 4))[:n]


def _deflate(chunk: bytes, out: np.ndarray) -> None:
    import imagecodecs

    imagecodecs.deflate_decode(chunk, out=out)


def bitshuffle(width: int) -> Bare:
    from vfs.formats.hdf5.filters import _bitshuffle_library

    undoes = _bitshuffle_library().bshuf_decompress_lz4
    undoes.restype, undoes.argtypes = c_int64, [c_void_p, c_void_p, c_size_t, c_size_t, c_size_t]

    def undo(chunk: bytes, out: np.ndarray) -> None:
        block = int.from_bytes(chunk[8:12], "big") // width
        at = np.frombuffer(chunk, np.uint8).ctypes.data
        undoes(at + 12, out.ctypes.data, out.size // width, width, block)

    return undo


def written(path: Path, frames: np.ndarray, **options: Any) -> Path:
    import h5py

    with h5py.File(path, "w") as file:
        file.create_dataset("entry/data", data=frames, **options)
    return path


def chunks_of(path: Path) -> list[bytes]:
    import h5py

    with h5py.File(path) as file:
        data = file["entry/data"]
        return [bytes(data.id.read_direct_chunk((n, 0, 0))[1]) for n in range(len(data))]


def rows(folder: Path, size: Size) -> Iterator[Row]:
    """The rows of the table."""
    import hdf5plugin

    lz4 = hdf5plugin.Bitshuffle(cname="lz4")
    for side, most in ((256, 64), (512, 32), (1024, 16)):
        n = min(most, size.frames)
        frames = counts(n, side)
        kib = frames[0].nbytes >> 10
        for name, options, bare in (
            ("gzip", {"compression": "gzip"}, _deflate),
            ("bitshuffle-lz4", lz4, bitshuffle(2)),
        ):
            path = written(folder / f"{name}{side}.h5", frames, chunks=(1, side, side), **options)
            chunks = chunks_of(path)
            for backend in ("mmap", "buffered"):
                array = vfs.open(path, backend=backend)
                out = np.ones_like(frames)
                flat = out.reshape(n, -1).view(np.uint8)
                region = vfs.Region.whole(array.shape)

                def codec(bare: Bare = bare, chunks: list[bytes] = chunks, flat: np.ndarray = flat) -> None:
                    for k, chunk in enumerate(chunks):
                        bare(chunk, flat[k])

                yield share(
                    f"HDF5 {name}, chunks of {kib} KiB, {backend}",
                    lambda a=array, r=region, o=out: a.read(r, o),
                    codec,
                    size,
                    "of the codec",
                    "≥ 0.9",
                )
                turn = cycle(np.random.default_rng(2).permutation(n).tolist())
                one = np.ones_like(frames[0])
                mine, theirs = against(
                    lambda a=array, o=one, t=turn: a.read((slice(k := next(t), k + 1),), o[None]),
                    lambda b=bare, c=chunks, o=one, t=turn: b(c[next(t)], o.reshape(-1).view(np.uint8)),
                    size,
                )
                yield Row(
                    f"HDF5 {name}, a frame of {kib} KiB anywhere, {backend}, beside its decoding",
                    max(1e-3, (mine - theirs) * 1e6),
                    "µs",
                    "≤ 100 µs",
                )
    frames = counts(size.frames, 256)
    for name, options in (
        ("contiguous", {}),
        ("plain chunks", {"chunks": (1, 256, 256)}),
        ("plain chunks of a quarter", {"chunks": (1, 128, 128)}),
    ):
        path = written(folder / f"{name}.h5", frames, **options)
        for backend in ("mmap", "buffered"):
            aim = "≥ 0.8" if "quarter" not in name else ""
            yield share(f"HDF5 {name}, {backend}", *walk(vfs.open(path, backend=backend)), size, aim=aim)
    yield spent("opening an HDF5 file of one data set", lambda: vfs.open_group(path), size)
