"""Arrays and single frames through zarr-python, with its default pipeline and with ours, against
its own stores with the same chunks; and dask.

Shares of "a memmap copied afresh" are of `np.array(np.load(…, mmap_mode="r"))`. A z[i] of 1.67
takes 0.6 of MemoryStore's time; it is another frame each time, the next one or any. No store can be
faster in a pipeline than one that has its buffers ready.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

import vfs
from scripts.benchmarks.rows import Row, Size, against, frames_of, share
from vfs.testing.writers import write_mib

_WHOLE = {("raw", 4): ("≥ 0.85", "≥ 1.2"), ("MIB U16", 1): ("≥ 0.25", "≥ 0.75")}


def rows(folder: Path, size: Size) -> Iterator[Row]:
    """See the module."""
    import zarr
    from zarr.storage import LocalStore, MemoryStore

    frames = frames_of(size.frames)
    plain, twin = folder / "zarr.raw", folder / "zarr.npy"
    frames.tofile(plain)
    np.save(twin, frames)
    (folder / "zarr_mib").mkdir()
    mib = write_mib(folder / "zarr_mib", frames, kind="U16", depth=12)
    anywhere = np.random.default_rng(3).permutation(size.frames).tolist()

    class ReadyStore(MemoryStore):
        """Buffers that cost nothing: `get` hands out those that were set."""

        async def get(self, key: str, prototype: Any = None, byte_range: Any = None) -> Any:
            return self._store_dict.get(key)

    def copied() -> np.ndarray:
        return np.array(np.load(twin, mmap_mode="r"))

    for kind in ("raw", "MIB U16"):
        for many in (1, 4, 16):
            chunks = (many, 256, 256)
            array = (
                vfs.open(plain, format="raw", dtype="<u2", sig_shape=(256, 256), chunks=chunks)
                if kind == "raw"
                else vfs.open(mib, nav_shape=(size.frames,), chunks=chunks)
            )
            name = f"{kind}, {many * 128} KiB chunks"
            twins = []
            for store in (MemoryStore(), LocalStore(folder / f"{name}.zarr"), ReadyStore()):
                twins.append(
                    zarr.create_array(
                        store, shape=array.shape, chunks=array.chunks, dtype=array.dtype, compressors=None, filters=None
                    )
                )
                twins[-1][...] = frames
            memory, local, ready = twins
            whole = _WHOLE.get((kind, many), ("", ""))
            default = zarr.open_array(array.store(), path="data", mode="r")
            for pipeline, z, aim, one in (
                ("default pipeline", default, whole[0], "≥ 0.91"),
                ("our pipeline", array.zarr(), whole[1], "≥ 1.67"),
            ):
                yield share(
                    f"zarr, all of {name}, {pipeline}",
                    lambda z=z: z[...],
                    copied,
                    size,
                    "of a memmap copied afresh",
                    aim,
                )
                yield share(
                    f"zarr, all of {name}, {pipeline}",
                    lambda z=z: z[...],
                    lambda m=memory: m[...],
                    size,
                    "of MemoryStore",
                )
                yield share(
                    f"zarr, all of {name}, {pipeline}",
                    lambda z=z: z[...],
                    lambda m=local: m[...],
                    size,
                    "of LocalStore",
                )
                yield share(
                    f"zarr, all of {name}, {pipeline}",
                    lambda z=z: z[...],
                    lambda m=ready: m[...],
                    size,
                    "of ready buffers",
                )
                yield share(
                    f"zarr, z[i] of {name}, {pipeline}", _frames(z), _frames(memory), size, "of MemoryStore", one
                )
                yield share(
                    f"zarr, any z[i] of {name}, {pipeline}",
                    _frames(z, anywhere),
                    _frames(memory, anywhere),
                    size,
                    "of MemoryStore",
                )
            for theirs, store in (("MemoryStore", memory), ("ready buffers", ready)):
                yield share(
                    f"zarr, all of {name}, {theirs}", lambda m=store: m[...], copied, size, "of a memmap copied afresh"
                )
    yield from _graph(plain, size)


def _frames(z: Any, order: list[int] | None = None) -> Callable[[], object]:
    """Reads 16 single frames, the next ones or the next of `order`, each time: as many as the largest chunks have."""
    at, wanted = count(), order or range(z.shape[0])
    return lambda: [z[wanted[next(at) % len(wanted)]] for _ in range(16)]


def _graph(plain: Path, size: Size) -> Iterator[Row]:
    if importlib.util.find_spec("dask") is None:
        return
    import dask.array

    z = vfs.open(plain, format="raw", dtype="<u2", sig_shape=(256, 256), chunks=(1, 64, 64)).zarr()
    made = dask.array.from_zarr(z)
    yield Row(
        f"a dask graph over {made.npartitions:,} chunks",
        against(lambda: dask.array.from_zarr(z), lambda: None, size)[0] * 1e3,
        "ms",
        "≤ 10 ms",
    )
