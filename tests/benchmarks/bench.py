"""How fast vfs is, as shares of limits taken in the same run: `scripts/bench`. As a test (`test_bench.py`) the same code runs untimed.

Every row is a ratio. A candidate and its limit take turns, and the best time of each counts: what else the machine does
then hits both. "memcpy" is `np.copyto` of as many output bytes into warm memory. Sources are in the page cache unless a row says cold.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

import vfs
from tests.benchmarks import formats_bench, hdf5_bench, start_bench, zarr_bench
from tests.benchmarks.mount_bench import through_mount
from tests.benchmarks.rows import FULL, Row, Size, frames_of, share, spent
from vfs.testing import writers


def write_mib(folder: Path, frames: np.ndarray, **options: Any) -> Path:
    """A MIB set in a folder of its own."""
    folder.mkdir()
    return writers.write_mib(folder, frames, **options)


def drop_cache(*paths: Path) -> None:
    """Ask the kernel to forget the pages of these files."""
    for path in paths:
        fd = os.open(path, os.O_RDONLY)
        try:
            os.fsync(fd)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(fd)


def decoding(folder: Path, size: Size) -> Iterator[Row]:
    """Whole-frame reads of 64 frames into warm memory, one thread."""
    n = min(64, size.frames)
    u16 = frames_of(size.frames)
    raw = folder / "plain.raw"
    u16.tofile(raw)
    sets: list[tuple[str, Callable[[str], vfs.VirtualArray], str]] = [
        ("raw u16", lambda b: vfs.open(raw, format="raw", dtype="<u2", sig_shape=(256, 256), backend=b), "≥ 0.9"),
    ]
    for name, kind, depth, quad, aim in (
        ("MIB U16", "U16", 12, False, "≥ 0.8"),
        ("MIB R64 12 bit", "R64", 12, False, "≥ 0.8"),
        ("MIB R64 12 bit quad", "R64", 12, True, "≥ 0.5"),
        ("MIB R64 6 bit", "R64", 6, False, ""),
        ("MIB R64 1 bit", "R64", 1, False, "≥ 0.5"),
        ("MIB R64 24 bit", "R64", 24, False, ""),
    ):
        shape = (512, 512) if quad else (256, 256)
        some = frames_of(n if not quad else max(1, n // 4), shape, "u4" if depth == 24 else "u2" if depth == 12 else "u1", min(2**depth - 1, 4095))
        path = write_mib(folder / name.replace(" ", "_"), some, kind=kind, depth=depth, quad=quad)
        sets.append((name, lambda b, path=path: vfs.open(path, backend=b), aim))
    straight = sets[0][1]("mmap")
    yield spent("raw u16, straight view of the whole file", lambda: straight[...], size)
    for name, opened, aim in sets:
        for backend in ("mmap", "buffered"):
            array = opened(backend)
            count = min(n, array.shape[0]) if array.ndim == 3 else array.shape[0]
            region = vfs.Region.of((slice(0, count),), array.shape)
            out = np.zeros(region.shape, array.dtype)
            warm = np.ones_like(out)
            yield share(f"{name}, {backend}", lambda a=array, r=region, o=out: a.read(r, o), lambda o=out, w=warm: np.copyto(o, w), size, aim=aim)
    out = np.zeros((n, 256, 256), "f4")
    warm = np.ones_like(out)
    region = vfs.Region.of((slice(0, n),), (size.frames, 256, 256))
    for backend in ("mmap", "buffered"):
        converted = vfs.open(raw, format="raw", stored_dtype="<u2", dtype="f4", sig_shape=(256, 256), backend=backend)
        yield share(f"raw u16 → float32, {backend}", lambda a=converted: a.read(region, out), lambda: np.copyto(out, warm), size, aim="≥ 0.9")
    images = {"dark": frames_of(1, dtype="f4")[0], "gain": frames_of(1, dtype="f4")[0] / 4096}
    for name, options, aim in (
        ("dark", {"dark": images["dark"]}, ""),
        ("dark and gain", images, "≥ 0.6"),
        ("dark, gain, 2 dead", images | {"dead": _DEAD}, ""),
    ):
        for backend in ("mmap", "buffered"):
            corrected = vfs.open(raw, format="raw", dtype="<u2", sig_shape=(256, 256), backend=backend, **options)
            yield share(f"raw u16, {name}, {backend}", lambda a=corrected: a.read(region, out), lambda: np.copyto(out, warm), size, aim=aim)
    yield from _in_two(raw, size, n, images)
    yield share("all chunks of chunks=scan", lambda: _pass(raw, "scan"), lambda: _pass(raw, "auto"), size, "of all of chunks=auto")


_DEAD = np.array([[3, 4], [100, 100]])


_ROUNDS = 8


def _in_two(raw: Path, size: Size, n: int, images: dict[str, np.ndarray]) -> Iterator[Row]:
    """Two threads against one, beside what two threads do for memcpy at that time.

    Each thread reads `_ROUNDS` times: waking it takes about as long as it takes to read a few frames.
    """
    with ThreadPoolExecutor(2) as pool:

        def rounds(call: Callable[[slice], object], *parts: slice) -> Callable[[], object]:
            return lambda: list(pool.map(lambda part: [call(part) for _ in range(_ROUNDS)], parts))

        whole, halves = (slice(0, n),), (slice(0, n // 2), slice(n // 2, n))
        out = np.zeros((n, 256, 256), "f4")
        warm = np.ones_like(out)

        def copied(part: slice) -> None:
            np.copyto(out[part], warm[part])

        yield share("memcpy, two threads", rounds(copied, *halves), rounds(copied, *whole), size, "of one thread")
        for name, options in (("u16 → float32", {"dtype": "f4"}), ("dark and gain", images)):
            array = vfs.open(raw, format="raw", stored_dtype="<u2", sig_shape=(256, 256), **options)

            def read(part: slice, array: vfs.VirtualArray = array) -> None:
                array.read((part,), out[part])

            yield share(f"raw {name}, two threads", rounds(read, *halves), rounds(read, *whole), size, "of one thread", "≥ 1.7")


def _pass(raw: Path, chunks: str) -> None:
    """Every chunk once, by an array that has nothing in its cache."""
    array = vfs.open(raw, format="raw", dtype="<u2", sig_shape=(256, 256), chunks=chunks, backend="buffered")
    for position in np.ndindex(array.grid.counts):
        array.read_chunk(position)


def random_frames(folder: Path, size: Size) -> Iterator[Row]:
    """One 128 KiB frame with a header, somewhere."""
    one = write_mib(folder / "one_file", frames_of(size.frames), kind="U16", depth=12)
    many = write_mib(folder / "many_files", frames_of(size.files), kind="U16", depth=12, frames_per_file=1)
    order = np.random.default_rng(2).permutation(min(size.frames, size.files)).tolist()
    for name, path in (("one file", one), (f"{size.files:,} one-frame files", many)):
        for backend in ("mmap", "buffered"):
            array = vfs.open(path, backend=backend)
            at = [0]

            def frame(array: vfs.VirtualArray = array, at: list[int] = at) -> np.ndarray:
                at[0] += 1
                return array[order[at[0] % len(order)]]

            yield spent(f"a random frame of {name}, {backend}", frame, size, "≤ 60 µs")
    array = vfs.open(one)
    count = min(16, size.frames)
    path = array.files[0]

    def by_hand() -> None:
        with open(path, "rb") as file:
            data = np.frombuffer(file.read(count * (384 + 131072)), np.uint8).reshape(count, -1)
        data[:, 384:].copy().view(">u2").astype("u2")

    yield share(f"{count} frames in a chunk", lambda: array[:count], by_hand, size, "of plain numpy", "≥ 0.77")
    paths = array_files(many)

    def touch_all() -> None:
        for name in paths:
            os.stat(name)
            with open(name, "rb", buffering=0) as file:
                file.read(1024)

    yield share(f"opening {size.files:,} files", lambda: vfs.open(many), touch_all, size, "of stat + read 1 KiB each", "≥ 0.5")


def array_files(path: Path) -> tuple[str, ...]:
    """The files of the set that a path names."""
    return vfs.open(path).files


PARTS: dict[str, Callable[[Path, Size], Iterator[Row]]] = {
    "decode": decoding,
    "random": random_frames,
    "zarr": zarr_bench.rows,
    "start": start_bench.rows,
    "mount": through_mount,
    "formats": formats_bench.rows,
    "hdf5": hdf5_bench.rows,
}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="scripts/bench", description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="what to measure; everything by default")
    parser.add_argument("--mount", action="store_true", help="the same as: mount")
    given = parser.parse_args()
    parts = given.parts + ["mount"] * given.mount or list(PARTS)
    for part in parts:
        with tempfile.TemporaryDirectory(prefix="vfs-bench-") as folder:
            for row in PARTS[part](Path(folder), FULL):
                print(f"{row.name:62} {row.value:10.2f} {row.unit:26} {row.aim}", flush=True)


if __name__ == "__main__":
    main()
