"""How fast vfs is, as shares of limits taken in the same run: `scripts/bench`. As a test
(`test_bench.py`) the same code runs untimed.

Every row is a ratio. A candidate and its limit take turns, and the best time of each counts: what
else the machine does then hits both. "memcpy" is `np.copyto` of as many output bytes into warm
memory. Sources are in the page cache unless a row says cold.

Sets are at least four times as large as the largest cache of the machine, which the first line
names, and both go on through all of them; the part `cached` measures the same reads of sets that
fit it, as people who browse make them.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

import vfs
from scripts.benchmarks import (
    distributed_bench,
    doors_bench,
    export_bench,
    formats_bench,
    hdf5_bench,
    images_bench,
    live_bench,
    page_bench,
    reduce_bench,
    references_bench,
    remote_bench,
    serve_bench,
    start_bench,
    zarr_bench,
)
from scripts.benchmarks.mount_bench import through_mount
from scripts.benchmarks.rows import FITS, FRAME, FULL, READ, Row, Size, frames_of, going_on, machine, share, spent, walk
from vfs.engine.chunk_access import Chunks
from vfs.testing import writers
from vfs.testing.inside import reader_of


def write_mib(folder: Path, frames: np.ndarray, **options: Any) -> Path:
    """A MIB set in a folder of its own."""
    folder.mkdir()
    return writers.write_mib(folder, frames, **options)


def decoding(folder: Path, size: Size) -> Iterator[Row]:
    """Reads of `READ` bytes, going on through a set that is larger than any cache, into warm
    memory, one thread; then two.
    """
    images = {"dark": frames_of(1, dtype="f4")[0], "gain": frames_of(1, dtype="f4")[0] / 4096}
    raw = yield from _reads(folder, size, size.frames, images)
    yield from _in_two(raw, size, images)
    # A share of a frame that depends on how long the set is, and so on the machine
    shape = _chunked(raw, "scan").chunks
    yield share(
        f"all chunks of chunks=scan, {shape}",
        lambda: _pass(raw, "scan"),
        lambda: _pass(raw, "auto"),
        size,
        "of all of chunks=auto",
    )


def decoding_in_cache(folder: Path, size: Size) -> Iterator[Row]:
    """The same frames again and again, `FITS` bytes of them."""
    images = {"dark": frames_of(1, dtype="f4")[0], "gain": frames_of(1, dtype="f4")[0] / 4096}
    yield from _reads(folder, size, max(1, min(FITS // FRAME, size.frames)), images, aims=False)


def _reads(
    folder: Path, size: Size, n: int, images: dict[str, np.ndarray], aims: bool = True
) -> Generator[Row, None, Path]:
    """Reads of sets of `n` frames. Returns the raw one."""
    u16 = frames_of(n)
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
        count = max(1, n // 4) if quad else n
        some = frames_of(count, shape, "u4" if depth == 24 else "u2" if depth == 12 else "u1", min(2**depth - 1, 4095))
        path = write_mib(folder / name.replace(" ", "_"), some, kind=kind, depth=depth, quad=quad)
        sets.append((name, lambda b, path=path: vfs.open(path, backend=b), aim))
    straight = sets[0][1]("mmap")
    yield spent("raw u16, straight view of the whole file", lambda: straight[...], size)
    yield _pread(raw, size)
    as_raw: dict[str, Any] = {"format": "raw", "stored_dtype": "<u2", "sig_shape": (256, 256)}
    for name, options, aim in (
        ("raw u16 → float32", {"dtype": "f4"}, "≥ 0.9"),
        ("raw u16, dark", {"dark": images["dark"]}, ""),
        ("raw u16, dark and gain", images, "≥ 0.6"),
        ("raw u16, dark, gain, 2 dead", images | {"dead": _DEAD}, ""),
    ):
        sets.append((name, lambda b, options=options: vfs.open(raw, backend=b, **as_raw, **options), aim))
    for name, opened, aim in sets:
        for backend in ("mmap", "buffered"):
            yield share(f"{name}, {backend}", *walk(opened(backend)), size, aim=aim if aims else "")
    return raw


def _pread(path: Path, size: Size) -> Row:
    """What reading takes that copies: the limit of `buffered`."""
    out = np.zeros(path.stat().st_size // FRAME * FRAME, np.uint8).reshape(-1, FRAME)
    warm = np.ones_like(out)
    mine, theirs = going_on(len(out), FRAME), going_on(len(out), FRAME)

    def copied() -> None:
        part = theirs()
        np.copyto(out[part], warm[part])

    with open(path, "rb", buffering=0) as file:

        def read() -> None:
            part = mine()
            os.preadv(file.fileno(), [out[part].data], part.start * FRAME)

        return share("raw u16, a bare pread", read, copied, size)


_DEAD = np.array([[3, 4], [100, 100]])


def _in_two(raw: Path, size: Size, images: dict[str, np.ndarray]) -> Iterator[Row]:
    """Two threads against one, beside what two threads do for memcpy at that time.

    Each thread reads its half of the set, some `READ` bytes at a time: waking it takes about as
    long as it takes to read a few frames.
    """
    n, step = size.frames, max(1, READ // FRAME // 2)
    with ThreadPoolExecutor(2) as pool:

        def rounds(call: Callable[[slice], object], *parts: slice) -> Callable[[], object]:
            return lambda: list(
                pool.map(
                    lambda part: [call(slice(k, min(k + step, part.stop))) for k in range(part.start, part.stop, step)],
                    parts,
                )
            )

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

            yield share(
                f"raw {name}, two threads", rounds(read, *halves), rounds(read, *whole), size, "of one thread", "≥ 1.7"
            )


def _chunked(raw: Path, chunks: str) -> vfs.VirtualArray:
    return vfs.open(raw, format="raw", dtype="<u2", sig_shape=(256, 256), chunks=chunks, backend="buffered")


def _pass(raw: Path, chunks: str) -> None:
    """Every chunk once, by an array that has nothing in its cache."""
    array = _chunked(raw, chunks)
    for position in np.ndindex(reader_of(array).grid.counts):
        Chunks(reader_of(array)).make(position)


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

    yield share(
        f"opening {size.files:,} files", lambda: vfs.open(many), touch_all, size, "of stat + read 1 KiB each", "≥ 0.5"
    )


def array_files(path: Path) -> tuple[str, ...]:
    """The files of the set that a path names."""
    return vfs.open(path).files


PARTS: dict[str, Callable[[Path, Size], Iterator[Row]]] = {
    "decode": decoding,
    "cached": decoding_in_cache,
    "random": random_frames,
    "zarr": zarr_bench.rows,
    "start": start_bench.rows,
    "mount": through_mount,
    "serve": serve_bench.rows,
    "page": page_bench.rows,
    "formats": formats_bench.rows,
    "hdf5": hdf5_bench.rows,
    "images": images_bench.rows,
    "reduce": reduce_bench.rows,
    "distributed": distributed_bench.rows,
    "export": export_bench.rows,
    "live": live_bench.rows,
    "references": references_bench.rows,
    "remote": remote_bench.rows,
    "doors": doors_bench.rows,
}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="scripts/bench", description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="what to measure; everything by default")
    parser.add_argument("--mount", action="store_true", help="the same as: mount")
    given = parser.parse_args()
    parts = given.parts + ["mount"] * given.mount or list(PARTS)
    print(machine())
    print(
        f"sets of {FULL.frames * FRAME >> 20} MiB where nothing else is said; the part cached: of {FITS / (1 << 20):g}"
        " MiB\n",
        flush=True,
    )
    for part in parts:
        print(f"-- {part}")
        with tempfile.TemporaryDirectory(prefix="vfs-bench-") as folder:
            for row in PARTS[part](Path(folder), FULL):
                print(f"{row.name:62} {row.value:10.2f} {row.unit:26} {row.aim}", flush=True)


if __name__ == "__main__":
    main()
