"""Changes the files of a set at random, and opens what is left of them."""

from __future__ import annotations

import json
import math
import random
import re
import time
import tracemalloc
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import vfs
from tests.formats.frame_checks import BACKENDS, one_line, unwarned
from vfs.engine.chunk_access import Chunks
from vfs.testing.inside import reader_of

_HUGE = (1 << 20, 1 << 28, (1 << 31) - 1, (1 << 32) - 1, 1 << 33, 1 << 40, (1 << 63) - 1)
"""Numbers of things of which there cannot be so many."""
_INTEGERS = (0, 1, 2, 3, 7, 255, 256, 257, 65535, 65536, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, (1 << 63) - 1)


def mutate(data: bytes, rng: random.Random, head: int) -> bytes:
    """One change, or a few: in the first `head` bytes rather than behind them."""
    made = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        limit = max(1, len(made) if rng.random() < 0.2 else min(len(made), head))
        at = rng.randrange(limit)
        kind = rng.randrange(8)
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
        elif kind == 6:
            _claim(made, rng, limit)
        else:
            made[at : at + 8] = rng.choice(
                (b"-1", b"99999999999", b"\xff" * 8, bytes(8), b"nan", b"<", b">", b'"', b"x", b"=")
            )
    return bytes(made)


def _claim(made: bytearray, rng: random.Random, limit: int) -> None:
    """Put a huge number where one stands: in the text of a header, or in 4 or 8 bytes of either order."""
    huge, found = rng.choice(_HUGE), list(re.finditer(rb"(?<![\w.])\d{1,9}(?![\w.])", made[:limit]))
    if found and rng.random() < 0.5:
        first, last = rng.choice(found).span()
        said = str(huge).encode()
        made[first : max(last, first + len(said)) if rng.random() < 0.5 else last] = said
        return
    width = rng.choice((4, 4, 8))
    for _ in range(20):  # rather where there is a number than where there is none
        at = rng.randrange(limit) // 4 * 4
        if any(made[at : at + width]):
            break
    made[at : at + width] = (huge & ((1 << 8 * width) - 1)).to_bytes(width, rng.choice(("little", "big")))


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
        with suppress(vfs.VfsError):
            json.dumps(dict(group.original_metadata), allow_nan=False)
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
