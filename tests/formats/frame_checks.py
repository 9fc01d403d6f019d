"""What the tests of frame-by-frame formats share: boxes against a numpy twin, arrangements, truncation, mutation."""

from __future__ import annotations

import math
import random
import time
import tracemalloc
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vfs
from vfs.hierarchy.chunk_access import Chunks
from vfs.testing.inside import reader_of

BACKENDS = ("mmap", "buffered")


def frames_of(shape: tuple[int, ...], dtype: Any, seed: int = 0) -> np.ndarray:
    """Random numbers over the whole range of a dtype."""
    rng = np.random.default_rng(seed)
    if np.dtype(dtype).kind == "f":
        return rng.standard_normal(shape).astype(dtype)
    return rng.integers(0, np.iinfo(dtype).max, shape, dtype, endpoint=True)


def regions(shape: tuple[int, ...], count: int = 40, seed: int = 1) -> Iterator[tuple[slice, ...]]:
    """The whole array and random boxes with steps."""
    rng = random.Random(seed)
    yield tuple(slice(None) for _ in shape)
    for _ in range(count):
        cut = []
        for n in shape:
            a, b = sorted((rng.randrange(n + 1), rng.randrange(n + 1)))
            cut.append(slice(a, b, rng.choice((1, 1, 1, 2, 3))))
        yield tuple(cut)


def same(got: np.ndarray, twin: np.ndarray) -> None:
    """Equal to the bit, NaN too, with the twin's dtype in native order."""
    assert got.shape == twin.shape
    assert got.dtype == twin.dtype.newbyteorder("=")
    np.testing.assert_array_equal(got, twin)


def check_boxes(paths: Any, twin: np.ndarray, path: str = "data", count: int = 40, **options: Any) -> None:
    """Every box of an array equals its twin, under every backend."""
    for backend in BACKENDS:
        array = vfs.open_group(paths, backend=backend, **options)[path]
        for cut in regions(twin.shape, count):
            same(array.read(cut), twin[cut])


def check_arranged(paths: Any, frames: np.ndarray, **options: Any) -> None:
    """nav_shape, sync_offset both ways and roi, against the frames [n, …] in stored order."""
    n, blank = len(frames), np.zeros_like(frames[0])

    def shifted(offset: int, count: int) -> np.ndarray:
        return np.stack([frames[k + offset] if 0 <= k + offset < n else blank for k in range(count)])

    for backend in BACKENDS:
        for nav in ((n,), (n - 1,), (n + 3,), (2, n // 2), (2, n), (1, 2, n)):
            count = int(np.prod(nav))
            for offset in (0, 1, n - 1, n + 2, -1, -(n + 2)):
                array = vfs.open(paths, nav_shape=nav, sync_offset=offset, backend=backend, **options)
                same(array[...], shifted(offset, count).reshape(nav + frames.shape[1:]))
        chosen = np.array([n - 1, 0, 2, 2])
        same(vfs.open(paths, nav_shape=(n,), roi=chosen, backend=backend, **options)[...], frames[chosen])
        mask = np.arange(n) % 3 == 1
        same(
            vfs.open(paths, nav_shape=(n,), roi=mask, sync_offset=1, backend=backend, **options)[...],
            shifted(1, n)[mask],
        )


def one_line(error: BaseException) -> str:
    """The message of an error that vfs raised on purpose: one line, not too long."""
    assert isinstance(error, vfs.VfsError), repr(error)
    text = str(error)
    assert text
    assert "\n" not in text
    assert len(text) < 2000
    return text


@contextmanager
def unwarned() -> Iterator[None]:
    """Open a damaged set without a warning of what is absent."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", vfs.IncompleteWarning)
        yield


def check_truncated(
    file: Path, opened: Any, twin: np.ndarray, sig_ndim: int = 2, points: Iterable[int] | None = None, **options: Any
) -> None:
    """A file that ends anywhere: an error of one line, or the first frames as they are and the rest
    blank; never something else.
    """
    whole = file.read_bytes()
    frames = twin.reshape(-1, *twin.shape[twin.ndim - sig_ndim :])
    outcomes = Counter[str]()
    try:
        for size in points or {
            *range(0, min(len(whole), 300), 7),
            *np.linspace(0, len(whole) - 1, 60).astype(int).tolist(),
        }:
            file.write_bytes(whole[:size])
            for backend in BACKENDS:
                try:
                    with unwarned():
                        got = vfs.open(opened, backend=backend, **options)[...]
                except vfs.VfsError as error:
                    one_line(error)
                    outcomes["error"] += 1
                    continue
                flat = got.reshape(-1, *frames.shape[1:])
                held = next(
                    (
                        k
                        for k in range(min(len(flat), len(frames)))
                        if not np.array_equal(flat[k], frames[k], equal_nan=True)
                    ),
                    len(flat),
                )
                assert not flat[held:].any()
                outcomes["frames"] += 1
    finally:
        file.write_bytes(whole)
    assert outcomes.total() >= 10


def refuses(paths: Any, *words: str, kind: type[vfs.VfsError] = vfs.VfsError, **options: Any) -> str:
    """Opening is refused in one line with these words. Returns: the line."""
    with pytest.raises(kind) as caught:
        vfs.open(paths, **options)
    text = one_line(caught.value)
    for word in words:
        assert word in text, text
    return text


def warned(paths: Any, *words: str, **options: Any) -> vfs.VirtualArray:
    """Opening gives one warning with these words. Returns: the main array."""
    with pytest.warns(vfs.IncompleteWarning) as given:
        array = vfs.open(paths, **options)
    (said,) = [str(one.message) for one in given]
    assert "\n" not in said
    for word in words:
        assert word in said, said
    return array


def incomplete(paths: Any, *words: str, kind: type[vfs.VfsError] = vfs.VfsError, **options: Any) -> vfs.VirtualArray:
    """Opening is refused in one line with these words that names `allow_incomplete`, with which it
    is a warning. Returns: the main array.
    """
    refuses(paths, *words, "allow_incomplete=True", kind=kind, **options)
    return warned(paths, *words, allow_incomplete=True, **options)


def opens_incomplete(
    paths: Any, *words: str, counts: dict[str, int], kind: type[vfs.VfsError] | None = None, **options: Any
) -> vfs.VirtualGroup:
    """`warned`, or with `kind` `incomplete`; and the attributes count. Returns: the group."""
    array = warned(paths, *words, **options) if kind is None else incomplete(paths, *words, kind=kind, **options)
    assert array.group.attrs["vfs"]["incomplete"] == counts
    return array.group


_INTEGERS = (0, 1, 2, 3, 7, 255, 256, 257, 65535, 65536, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, (1 << 63) - 1)


def mutate(data: bytes, rng: random.Random, head: int) -> bytes:
    """One change, or a few: in the first `head` bytes rather than behind them."""
    made = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        limit = max(1, len(made) if rng.random() < 0.2 else min(len(made), head))
        at = rng.randrange(limit)
        kind = rng.randrange(7)
        if kind == 0 and made:
            made[at] ^= 1 << rng.randrange(8)
        elif kind == 1 and made:
            made[at] = rng.randrange(256)
        elif kind == 2:
            width = rng.choice((1, 2, 4, 8))
            value = rng.choice(_INTEGERS) & ((1 << 8 * width) - 1)
            at -= at % (2 if rng.random() < 0.9 else 1)
            made[at : at + width] = value.to_bytes(width, "little")
        elif kind == 3:
            del made[rng.randrange(len(made) + 1) :]
        elif kind == 4:
            del made[at : at + rng.randrange(1, 64)]
        elif kind == 5:
            made[at:at] = rng.randbytes(rng.randrange(1, 64))
        else:
            made[at : at + 8] = rng.choice(
                (b"-1", b"99999999999", b"\xff" * 8, bytes(8), b"nan", b"<", b">", b'"', b"x", b"=")
            )
    return bytes(made)


MEMORY = 10  # times the files or the chunk, whichever is more: what opening and reading may allocate
SMALL = 1 << 20  # bytes; files and chunks below count as this


def attempt(folder: Path, paths: Any, *, format: str, backend: str, **options: Any) -> tuple[str, float, int]:
    """Open the files of a folder and read a little of every array. Nothing but an error of vfs may
    come of it, and no more memory may be asked for than MEMORY times what the files or the chunk
    hold.

    Returns: ("opened" or the kind of error, seconds of CPU, bytes that Python and numpy allocated).
    """
    tracing = tracemalloc.is_tracing()  # starting it costs more than a small set: who tries many has it run
    if not tracing:
        tracemalloc.start()
    try:
        for last in (False, True):
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            start = time.process_time()
            outcome, chunk = _read_a_little(paths, format=format, backend=backend, **options)
            seconds = time.process_time() - start
            grown = tracemalloc.get_traced_memory()[1] - before
            held = max(sum(path.stat().st_size for path in folder.iterdir()), chunk, SMALL)
            if grown <= MEMORY * held:
                break
            # The first time, something may be imported or compiled
            assert not last, f"{grown:,} bytes allocated, files and chunk have {held:,}"
    finally:
        if not tracing:
            tracemalloc.stop()
    return outcome, seconds, grown


def _read_a_little(paths: Any, **options: Any) -> tuple[str, int]:
    """Returns ("opened" or the kind of error, bytes of the largest chunk that was read)."""
    chunk = 0
    try:
        with unwarned():
            group = vfs.open_group(paths, **options)
        for array in group.values():
            size = math.prod(array.chunks) * array.dtype.itemsize
            if array.size and size <= 1 << 24:
                chunk = max(chunk, size)
                Chunks(reader_of(array)).make((0,) * array.ndim)
                Chunks(reader_of(array)).make(tuple(n - 1 for n in reader_of(array).grid.counts))
    except vfs.VfsError as error:
        one_line(error)
        return type(error).__name__, chunk
    return "opened", chunk


def fuzz(
    folder: Path, paths: Any, count: int, *, seed: int = 0, head: int = 400, format: str, **options: Any
) -> Counter[str]:
    """Change the files of a set `count` times and `attempt` to read them.

    Returns: how often which kind of error came, or "opened"; "longest" is the longest of all in ms
    of CPU, "memory" the most that Python and numpy allocated for one, in kB.
    """
    rng = random.Random(seed)
    files = {path: path.read_bytes() for path in sorted(folder.iterdir())}
    outcomes = Counter[str]()
    longest, most = 0.0, 0
    for backend in BACKENDS:  # compiles what is not yet
        with unwarned():
            group = vfs.open_group(paths, format=format, backend=backend, **options)
        for array in group.values():
            Chunks(reader_of(array)).make((0,) * array.ndim)
    tracemalloc.start()
    try:
        for k in range(count):
            victims = rng.sample(list(files), rng.choice((1, 1, 1, min(2, len(files)))))
            for victim in victims:
                victim.write_bytes(mutate(files[victim], rng, head))
            try:
                outcome, seconds, grown = attempt(folder, paths, format=format, backend=rng.choice(BACKENDS), **options)
            except Exception as error:
                raise AssertionError(f"mutation {k} of seed {seed}: {error}") from error
            outcomes[outcome] += 1
            longest, most = max(longest, seconds), max(most, grown)
            for victim in victims:
                victim.write_bytes(files[victim])
    finally:
        tracemalloc.stop()
    outcomes["longest"] = round(longest * 1000)
    outcomes["memory"] = most >> 10
    return outcomes
