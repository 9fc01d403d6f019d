"""What `peers.py` measures of reductions: the same results of the same frames, by vfs, by LiberTEM
and by dask over a zarr array of vfs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import vfs
from scripts.benchmarks.hdf5_bench import counts, written
from scripts.benchmarks.peer_cases import Call, Case, Tiled, frame_sets
from scripts.benchmarks.rows import Size
from vfs.engine.cache import ChunkCache

FILES = ("raw", "MIB U16 12 bit, ", "MIB R64 12 bit, ", "FRMS6", "K2IS")


class Work(NamedTuple):
    """A result, and how each makes it.

    Attributes:
        did: its name in the table.
        ours: the reduction.
        udf: makes LiberTEM's function; key: name of its buffer.
        lazy: makes it of a dask array [frames, y, x]; None: nobody would.
    """

    did: str
    ours: vfs.Reduction
    udf: Callable[[], Any]
    key: str
    lazy: Callable[[Any], Any] | None


def works(sig: tuple[int, ...]) -> Iterator[Work]:
    """The results that are measured, for frames of a shape."""
    cy, cx, r = sig[0] / 2, sig[1] / 2, 0.16 * sig[0]
    y, x = np.ogrid[: sig[0], : sig[1]]
    disk = (y - cy) ** 2 + (x - cx) ** 2 < r**2
    four = np.random.default_rng(0).random((4, *sig)).astype(np.float32)
    yield Work(
        "disk of 8 %",
        vfs.Disk(cy, cx, r),
        lambda: _masks(disk[None]),
        "intensity",
        lambda a: (a * disk).sum(axis=(1, 2), dtype="u8"),
    )
    yield Work(
        "4 float32 masks",
        vfs.Masks(four, dtype="f4"),
        lambda: _masks(four),
        "intensity",
        lambda a: a.reshape(a.shape[0], -1).astype("f4") @ four.reshape(4, -1).T,
    )
    yield Work("sum over frames", vfs.Sum(), _sum, "intensity", lambda a: a.sum(axis=0, dtype="u8"))
    yield Work("maximum over frames", vfs.Max(), _maximum, "intensity", lambda a: a.max(axis=0))
    yield Work("centre of mass", vfs.CenterOfMass(), _centre, "raw_com", None)


def _masks(masks: np.ndarray) -> Any:
    from libertem.udf.masks import ApplyMasksUDF

    return ApplyMasksUDF(mask_factories=lambda: masks, mask_count=len(masks), mask_dtype=np.float32)


def _sum() -> Any:
    from libertem.udf.sum import SumUDF

    return SumUDF()


def _centre() -> Any:
    from libertem.udf.com import CoMUDF

    return CoMUDF.with_params(cy=0, cx=0)


def _maximum() -> Any:
    from libertem.udf import UDF

    class MaximumUDF(UDF):  # type: ignore[misc]
        """Largest value of each pixel, tile by tile: LiberTEM's manual has such an example."""

        def get_result_buffers(self) -> dict[str, Any]:
            return {"intensity": self.buffer(kind="sig", dtype=self.meta.input_dtype)}

        def process_tile(self, tile: np.ndarray) -> None:
            np.maximum(self.results.intensity, tile.max(axis=0), out=self.results.intensity)

        def merge(self, dest: Any, src: Any) -> None:
            np.maximum(dest.intensity, src.intensity, out=dest.intensity)

    return MaximumUDF()


def with_reductions(folder: Path, size: Size) -> Iterator[Case]:
    """One thread each; and all cores: our threads beside LiberTEM's pipelined executor."""
    for s in frame_sets(folder, size):
        if s.file.startswith(FILES):
            yield from _of_set(s)
    yield from _of_set(_bitshuffled(folder, size))


def _bitshuffled(folder: Path, size: Size) -> Tiled:
    """Counts in an HDF5 file, in chunks of a frame, as Dectris detectors write them. What is decoded is not kept."""
    import hdf5plugin

    n, bitshuffle = size.frames, hdf5plugin.Bitshuffle(cname="lz4")
    path = written(folder / "bitshuffle.h5", counts(n, 256), chunks=(1, 256, 256), **bitshuffle)
    load, shown = {"ds_path": "entry/data", "nav_shape": (n,)}, {"nav_shape": (n,), "cache": ChunkCache(0)}
    return Tiled(f"HDF5 bitshuffle lz4, {n} chunks of 256 x 256", path, "hdf5", load, shown)


def _of_set(s: Tiled) -> Iterator[Case]:
    array = vfs.open(s.path, **s.open)
    contexts = {"LiberTEM": _Context(s, False), "LiberTEM pipelined": _Context(s, True)}
    lazy = _Lazy(array)
    try:
        for work in works(array.shape[1:]):
            want = _ours(array, work, 0)()
            theirs = {"LiberTEM": lambda w=work: contexts["LiberTEM"].call(w)}
            if work.lazy is not None:
                theirs["dask of our zarr"] = lambda w=work: lazy.call(w)
            check = _same(want, theirs)
            yield Case(s.file, work.did, lambda w=work: _ours(array, w, 0), theirs, check)
            theirs = {"LiberTEM pipelined": lambda w=work: contexts["LiberTEM pipelined"].call(w)}
            check = _same(want, theirs)
            yield Case(s.file, f"{work.did}, all cores", lambda w=work: _ours(array, w, None), theirs, check)
    finally:
        for context in contexts.values():
            context.close()


def _ours(array: vfs.VirtualArray, work: Work, workers: int | None) -> Call:
    return lambda: array.reduce(it=work.ours, workers=workers)["it"].data


def _same(want: np.ndarray, theirs: dict[str, Callable[[], Call]]) -> tuple[Call, dict[str, Call]]:
    """Compare as floats: LiberTEM adds up in float32, so only so many digits are the same."""

    def close(opener: Callable[[], Call]) -> np.ndarray:
        got = np.asarray(opener()(), np.float64).reshape(np.shape(want))
        return np.array([np.allclose(got, np.asarray(want, np.float64), rtol=1e-3, atol=1e-3)])

    return lambda: np.array([True]), {peer: lambda o=opener: close(o) for peer, opener in theirs.items()}


class _Context:
    """A set opened by LiberTEM when it is first needed."""

    def __init__(self, what: Tiled, pipelined: bool) -> None:
        self.what, self.pipelined = what, pipelined
        self._held: tuple[Any, Any] | None = None

    def call(self, work: Work) -> Call:
        context, data = self._opened()
        udf = work.udf()
        return lambda: np.asarray(context.run_udf(dataset=data, udf=udf)[work.key].raw_data)

    def _opened(self) -> tuple[Any, Any]:
        if self._held is None:
            from libertem.api import Context
            from libertem.executor.inline import InlineJobExecutor
            from libertem.executor.pipelined import PipelinedExecutor

            made = PipelinedExecutor() if self.pipelined else InlineJobExecutor(inline_threads=1)
            context = Context(executor=made)
            load = dict(self.what.load)
            (n,) = load.get("nav_shape", (1,))
            if n % 2 == 0:
                load["nav_shape"] = (2, n // 2)  # it makes centres of mass of scans of two axes only
            self._held = context, context.load(self.what.kind, path=str(self.what.path), **load)
        return self._held

    def close(self) -> None:
        if self._held is not None:
            self._held[0].close()


class _Lazy:
    """Our array as a dask array over its zarr, in one thread."""

    def __init__(self, array: vfs.VirtualArray) -> None:
        self.array = array

    def call(self, work: Work) -> Call:
        import dask.array

        assert work.lazy is not None
        made = work.lazy(dask.array.from_zarr(self.array.zarr()))
        return lambda: np.asarray(made.compute(scheduler="single-threaded"))
