"""How fast results are made of frames: as multiples of `np.copyto` of the frames' bytes, through
the public call, in the caller's thread.

Aims are 0.8 of what prototypes reached in files of their own, by kernels alone (issue 12), on a
machine with nothing else to do.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit

import vfs
from scripts.benchmarks.hdf5_bench import bitshuffle, chunks_of, counts, written
from scripts.benchmarks.rows import Row, Size, frames_of
from vfs.testing import writers
from vfs.testing.frame_writers import write_frms6
from vfs.testing.gatan_writers import write_k2is

CENTRE = (128, 128)
DISK = vfs.Disk(*CENTRE, 41)  # 8 % of a frame
RING = vfs.Ring(*CENTRE, 40, 117)  # 57 %
SIDE_BY_SIDE = 64
"""Numbers that a processor multiplies at a time, at least, if it waits for none of them."""


def rows(folder: Path, size: Size) -> Iterator[Row]:
    """Reductions one by one, several in one pass, and by two threads."""
    masks = np.random.default_rng(1).random((16, 256, 256)).astype("f4")
    work: dict[str, tuple[dict[str, Any], tuple[float, float, float]]] = {
        "disk of 8 %": ({"a": DISK}, (2.3, 2.0, 2.5)),
        "ring of 57 %": ({"a": RING}, (1.1, 1.2, 1.0)),
        "centre of mass": ({"a": vfs.CenterOfMass()}, (1.6, 1.8, 0.9)),
        "sum": ({"a": vfs.Sum()}, (1.2, 1.2, 0.9)),
        "maximum": ({"a": vfs.Max()}, (1.0, 1.1, 0)),
        "standard deviation": ({"a": vfs.Std()}, (0, 0, 0)),
        "1 mask, float64": ({"a": vfs.Masks(masks[0])}, (1.05, 1.1, 0)),
        "4 masks, float64": ({"a": vfs.Masks(masks[:4])}, (1.05, 1.1, 0)),
        "4 masks, float32": ({"a": vfs.Masks(masks[:4], dtype="f4")}, (1.05, 1.1, 0)),
        # Prototypes had float32: see the rows that say what the multipliers allow
        "16 masks, float64": ({"a": vfs.Masks(masks)}, (0.4, 0.44, 0)),
        "16 masks, float32": ({"a": vfs.Masks(masks, dtype="f4")}, (0.4, 0.44, 0)),
        "rings one pixel wide": ({"a": vfs.RadialSum(*CENTRE)}, (0, 0, 0)),
        "histogram": ({"a": vfs.Histogram(128, (0, 4096))}, (0, 0, 0)),
        "disk, centre of mass, sum": ({"a": DISK, "b": vfs.CenterOfMass(), "c": vfs.Sum()}, (0, 0, 0)),
    }
    source, target = np.ones((size.frames, 256, 256), "u2"), np.zeros((size.frames, 256, 256), "u2")
    sets = list(_sets(folder, size))

    def copied() -> None:
        np.copyto(target, source)

    yield from _multipliers(copied, source.size, size)
    for at, (name, array) in enumerate(sets):
        alone = {}
        for what, (reductions, reached) in work.items():
            aim = f"≥ {0.8 * reached[at]:.2f}" if reached[at] else ""
            mine, limit = _spent(
                lambda array=array, reductions=reductions: array.reduce(**reductions, workers=0), copied, size
            )  # type: ignore[misc]
            alone[what] = mine
            yield Row(f"{name}, {what}", limit / mine, "of memcpy, processor time", aim)
        apart = alone["disk of 8 %"] + alone["centre of mass"] + alone["sum"]
        yield Row(
            f"{name}, these three one after the other", apart / alone["disk, centre of mass, sum"], "of one pass", "> 1"
        )
        yield from _tiles(name, array, copied, size)
    yield from _other_formats(folder, size)
    yield from _in_two(sets, source, target, size)


@njit(fastmath={"contract"})
def _multiplied(rounds: int) -> float:
    """Multiply and add so many times `SIDE_BY_SIDE` numbers, all of them in registers of the processor."""
    sums = np.zeros(SIDE_BY_SIDE)
    for _ in range(rounds):
        for j in range(SIDE_BY_SIDE):
            sums[j] = sums[j] * 0.999 + 0.001
    return sums.sum()


def _multipliers(copied: Callable[[], None], pixels: int, size: Size) -> Iterator[Row]:
    """How fast masks could be if nothing but multiplying and adding took time, in one thread."""
    rounds = size.frames << 12
    mine, limit = _spent(lambda: _multiplied(rounds), copied, size)
    for count in (4, 16):
        spent = mine / (rounds * SIDE_BY_SIDE) * pixels * count
        yield Row(f"{count} masks, float64, what the multipliers allow", limit / spent, "of memcpy, processor time")


def _tiles(name: str, array: vfs.VirtualArray, copied: Callable[[], None], size: Size) -> Iterator[Row]:
    """All tiles, one after the other, in memory of their own or in memory that is used again. The
    caller's thread reads them, or two threads read ahead.
    """
    for shape, workers, which in ((None, 0, ""), (None, 2, ", two threads"), ("64MiB", 0, " of 64 MiB")):
        for reuse, how in ((False, ""), (True, ", reuse=True")):

            def gone_through(shape: str | None = shape, workers: int = workers, reuse: bool = reuse) -> None:
                for _ in array.tiles(shape, workers=workers, reuse=reuse):
                    pass

            mine, limit = _spent(gone_through, copied, size)
            yield Row(f"{name}, tiles{which}{how}", limit / mine, "of memcpy, processor time")


def _other_formats(folder: Path, size: Size) -> Iterator[Row]:
    """What must be decoded before it is reduced: a disk of 8 %, centre of mass and sum."""
    sets = {
        "FRMS6": vfs.open(write_frms6(folder, frames_of(size.frames, (264, 264)))),
        "K2 IS": vfs.open(write_k2is(folder, frames_of(max(1, size.frames // 32), (1860, 2048)))),
    }
    for name, array in sets.items():
        source = np.ones(array.shape, array.dtype)
        target = np.ones_like(source)
        for what, reduction in _three(array).items():
            mine, limit = _spent(
                lambda a=array, r=reduction: a.reduce(x=r, workers=0),  # type: ignore[misc]
                lambda t=target, s=source: np.copyto(t, s),  # type: ignore[misc]
                size,
            )
            yield Row(f"{name}, {what}", limit / mine, "of memcpy, processor time")
    import hdf5plugin

    frames = counts(size.frames, 256)
    path = written(folder / "x.h5", frames, chunks=(1, 256, 256), **hdf5plugin.Bitshuffle(cname="lz4"))
    array, chunks, undo = vfs.open(path), chunks_of(path), bitshuffle(2)
    flat = np.ones_like(frames).reshape(len(frames), -1).view(np.uint8)

    def codec() -> None:
        for k, chunk in enumerate(chunks):
            undo(chunk, flat[k])

    for what, reduction in _three(array).items():
        mine, limit = _spent(lambda r=reduction: array.reduce(x=r, workers=0), codec, size)  # type: ignore[misc]
        yield Row(f"HDF5 bitshuffle, {what}", limit / mine, "of the codec, processor time", "≥ 0.9")


def _three(array: vfs.VirtualArray) -> dict[str, vfs.Reduction]:
    """Three reductions, of which one looks at a disk of 8 % in the middle of a frame."""
    height, width = array.shape[-2:]
    disk = vfs.Disk(height / 2, width / 2, math.sqrt(0.08 * height * width / math.pi))
    return {"disk of 8 %": disk, "centre of mass": vfs.CenterOfMass(), "sum": vfs.Sum()}


def _sets(folder: Path, size: Size) -> Iterator[tuple[str, vfs.VirtualArray]]:
    frames = frames_of(size.frames)
    frames.tofile(folder / "plain.raw")
    yield "raw u16", vfs.open(folder / "plain.raw", format="raw", dtype="<u2", sig_shape=(256, 256))
    for kind, name in (("U16", "MIB U16"), ("R64", "MIB R64 12 bit")):
        (folder / kind).mkdir()
        yield name, vfs.open(writers.write_mib(folder / kind, frames, kind=kind, depth=12))


def _in_two(
    sets: list[tuple[str, vfs.VirtualArray]], source: np.ndarray, target: np.ndarray, size: Size
) -> Iterator[Row]:
    """Two threads against one, by the clock, beside what two threads do for memcpy at that time. Sets
    are gone through so many times in a pass that it takes a tenth of a second, and more.
    """
    half = len(source) // 2
    with ThreadPoolExecutor(2) as pool:

        def copied(again: int, threads: int) -> None:
            parts = [slice(0, half), slice(half, None)] if threads else [slice(None)]
            list(pool.map(lambda part: [np.copyto(target[part], source[part]) for _ in range(again)], parts))

        limit, _ = _twice(copied, size)
    yield Row("memcpy, two threads", limit, "of one thread")
    aim = "≥ 1.70" if limit >= 1.7 else f"≥ {limit:.2f}, as memcpy"
    for name, array in sets:
        for what, reduction in (("disk", DISK), ("sum", vfs.Sum()), ("centre of mass", vfs.CenterOfMass())):

            def reduced(
                again: int, threads: int, array: vfs.VirtualArray = array, reduction: vfs.Reduction = reduction
            ) -> None:
                array.reduce(x=reduction, roi=np.tile(np.arange(len(array)), again), workers=threads)

            faster, spent = _twice(reduced, size)
            yield Row(f"{name}, {what}, two threads", faster, "of one thread", aim)
            yield Row(f"{name}, {what}, two threads", spent, "of one's processor time", "≤ 1.15")


def _twice(call: Callable[[int, int], None], size: Size) -> tuple[float, float]:
    """Compare two threads with one, in turns.

    Args:
        call: does the work so many times (first argument) in so many threads: 2, or 0 for the caller's.

    Returns: (how many times as fast two are by the clock, how many times the processor time they take).
    """
    call(1, 0)
    began = time.perf_counter()
    call(1, 0)
    again = max(1, round(size.seconds / (time.perf_counter() - began)))
    best = {threads: [float("inf"), float("inf")] for threads in (2, 0)}
    for _ in range(size.rounds):
        for threads, least in best.items():
            before = time.perf_counter(), time.process_time()
            call(again, threads)
            after = time.perf_counter(), time.process_time()
            least[:] = [min(a, max(1e-9, y - x)) for a, x, y in zip(least, before, after, strict=True)]
    return best[0][0] / best[2][0], best[2][1] / best[0][1]


def _spent(candidate: Callable[[], object], limit: Callable[[], object], size: Size) -> tuple[float, float]:
    """Least seconds of (candidate, limit), in turns, by the clock of the processor, which does not go
    on while others run.
    """
    best = [float("inf"), float("inf")]
    for call in (candidate, limit):
        call()
    for _ in range(size.rounds):
        for k, call in enumerate((candidate, limit)):
            began = time.process_time()
            call()
            best[k] = min(best[k], max(1e-9, time.process_time() - began))
    return best[0], best[1]
