"""How fast each format is: `scripts/bench formats`.

For every format: reads of whole frames into warm memory as a share of `np.copyto` of as many bytes,
one thread, going on through the file so that what is read comes out of the page cache and not out
of the processor's; the limit of `buffered` is a pread of so many bytes, and where these are yet to
be decoded, both one after the other; a frame anywhere, beside what it costs as a part of such a
read ("its decoding"); and opening sets of very many frames, headers in the page cache.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

import vfs
from scripts.benchmarks.rows import READ, TINY, Row, Size, against, frames_of, spent
from vfs.testing.frame_writers import write_blo, write_empad, write_frms6, write_seq, write_tvips
from vfs.testing.gatan_writers import write_dm, write_k2is
from vfs.testing.stack_writers import write_mrc, write_ser
from vfs.testing.tiff_writers import write_tiff
from vfs.testing.writers import write_mib

_MANY = 100_000


def _dm_files(folder: Path, frames: np.ndarray) -> list[Path]:
    return [write_dm(folder, frame, version=4, name=f"set_{k:06}") for k, frame in enumerate(frames)]


def _tiff_files(folder: Path, frames: np.ndarray) -> list[Path]:
    return [write_tiff(folder / f"set_{k:06}.tif", [frame]) for k, frame in enumerate(frames)]


def _u16(write: Callable[[Path, np.ndarray], Any]) -> Callable[[Path, int], Any]:
    return lambda folder, n: write(folder, frames_of(n))


# name, what is aimed at, writer of about as many frames of 128 KiB
SETS: tuple[tuple[str, str, Callable[[Path, int], Any]], ...] = (
    ("FRMS6", "≥ 0.5", lambda folder, n: write_frms6(folder, frames_of(n, (264, 264)))),
    ("K2 IS", "≥ 0.45", lambda folder, n: write_k2is(folder, frames_of(n // 32, (1860, 2048)))),
    ("BLO", "≥ 0.8", lambda folder, n: write_blo(folder, frames_of(2 * n, dtype="u1", most=255)[None])),
    ("SEQ", "≥ 0.8", _u16(write_seq)),
    ("TVIPS", "≥ 0.8", _u16(write_tvips)),
    ("EMPAD", "≥ 0.8", lambda folder, n: write_empad(folder, frames_of(2 * n, (128, 128), "f4"))),
    ("MRC", "≥ 0.8", lambda folder, n: write_mrc(folder, frames_of(n, dtype="i2"), 1)),
    ("SER", "≥ 0.8", _u16(write_ser)),
    ("DM4 stack", "≥ 0.8", lambda folder, n: write_dm(folder, frames_of(n), version=4)),
    ("DM4, a file a frame", "", _u16(_dm_files)),
    ("MIB U16", "≥ 0.6", _u16(write_mib)),
    ("TIFF", "≥ 0.8", lambda folder, n: write_tiff(folder / "set.tif", frames_of(n))),
)

# name, what is aimed at, writer of as many frames, options
OPENED: tuple[tuple[str, str, Callable[[Path, int], Any], dict[str, Any]], ...] = (
    ("SER", "≤ 2 s", lambda folder, n: write_ser(folder, np.zeros((n, 4, 4), "u2")), {}),
    ("DM4 stack, one file", "≤ 2 s", lambda folder, n: write_dm(folder, np.zeros((n, 4, 4), "u2"), version=4), {}),
    (
        "DM4 stack, a file a frame, same_offset",
        "≤ 2 s",
        lambda folder, n: _dm_files(folder, np.zeros((n, 4, 4), "u2")),
        {"same_offset": True},
    ),
    ("DM4 stack, a file a frame", "≤ 2 s", lambda folder, n: _dm_files(folder, np.zeros((n, 4, 4), "u2")), {}),
    ("TIFF, one file", "≤ 2 s", lambda folder, n: write_tiff(folder / "set.tif", np.zeros((n, 4, 4), "u2")), {}),
    ("TIFF, a file a frame", "≤ 2 s", lambda folder, n: _tiff_files(folder, np.zeros((n, 4, 4), "u2")), {}),
)


def rows(folder: Path, size: Size) -> Iterator[Row]:
    """All of it; a set is removed before the next one is written."""
    for name, aim, write in SETS:
        yield from _reading(name, write(_fresh(folder), max(size.frames * 2, 64)), size, aim)
    n = 50 if size is TINY else _MANY
    for name, aim, make, options in OPENED:
        path = make(_fresh(folder), n)
        seconds = (
            spent(
                "", lambda path=path, options=options: vfs.open(path, **options), size._replace(rounds=1, seconds=0.0)
            ).value
            / 1e6
        )
        yield Row(f"opening {n:,} frames of {name}", seconds, "s", aim)


def _fresh(folder: Path) -> Path:
    """An empty folder; what was in the one before is gone."""
    made = folder / "set"
    shutil.rmtree(made, ignore_errors=True)
    made.mkdir()
    return made


def _bare(path: str, size: int) -> Callable[[], object]:
    """Reads so many bytes, going on through the file, into warm memory."""
    memory = np.ones(size, np.uint8)
    turn, last = count(), os.path.getsize(path) - size

    def read() -> None:
        with open(path, "rb", buffering=0) as file:
            file.seek(next(turn) * size % (last + 1))
            file.readinto(memory.data)

    return read


def _reading(name: str, path: Any, size: Size, aim: str) -> Iterator[Row]:
    """Long reads and single frames with both backends, and `np.copyto`, all in turns."""
    frames = vfs.open(path).size // int(np.prod(vfs.open(path).shape[-2:]))
    arrays = {backend: vfs.open(path, backend=backend, nav_shape=(frames,)) for backend in ("mmap", "buffered")}
    shape, dtype = arrays["mmap"].shape, arrays["mmap"].dtype
    n = max(1, min(frames // 2, READ // (int(np.prod(shape[1:])) * dtype.itemsize)))
    out, twin = np.zeros(shape, dtype), np.ones(shape, dtype)
    for backend, array in arrays.items():
        at, turn, order = count(), count(), np.random.default_rng(2).permutation(frames).tolist()

        def some(array: vfs.VirtualArray = array, at: Iterator[int] = at) -> None:
            first = next(at) * n % (frames - n + 1)
            array.read((slice(first, first + n),), out[first : first + n])

        def copied(turn: Iterator[int] = turn) -> None:
            first = next(turn) * n % (frames - n + 1)
            np.copyto(out[first : first + n], twin[first : first + n])

        mine, theirs = against(some, copied, size)
        yield Row(f"{name}, {backend}", theirs / mine, "of memcpy", aim)
        if backend == "buffered" and os.path.getsize(array.files[0]) >= out[:n].nbytes:
            reading, theirs = against(_bare(array.files[0], out[:n].nbytes), copied, size)
            yield Row(f"{name}, a bare pread", theirs / reading, "of memcpy")
        one = spent("", lambda array=array, at=at, order=order: array[order[next(at) % frames]], size)
        yield Row(
            f"a random frame of {name}, {backend}", one.value, "µs", f"≤ 100 + {mine / n * 1e6:.0f} µs of decoding"
        )
