"""Reads windows of files: stretches that hold some read ranges, with what lies between these.

`vfs.kernels.ranges.windows` finds which ranges share a window.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import pairwise

import numpy as np

from vfs import kernels
from vfs.backends import Backend, Window
from vfs.buffers import scratch
from vfs.kernels.columns import DEST, LINES, W_START, W_STOP, W_WANTED

TOGETHER = 64 << 20
"""Bytes that are fetched at once, at most, where a backend fetches many windows at once. The next ones come while these
are decoded.
"""
APART = 1 << 20
"""Bytes from line to line, on average, from which on lines of a mapped file are asked for one by one. Those between are
not read then, which for a disk that seeks takes as long as a seek, and for others much longer.
"""
NO_SCRATCH = np.empty(0, np.uint8)
"""For backends that give views and use no scratch."""

Fetch = Callable[[Sequence[Window]], None]
Read = tuple[int, np.ndarray, np.ndarray]
"""A window that is read: its first byte, its ranges, its bytes."""


def read_in_turn(backend: Backend, rows: np.ndarray, wins: np.ndarray) -> Iterator[Read]:
    """Go through windows of files, one after the other.

    Args:
        rows: read ranges, which need no other columns than FILE, START and STOP where each is one line.
        wins: their windows, see `kernels.ranges.windows`. Of one of which less than half is wanted, only that is
            read where the backend copies.

    Yields: each window; its bytes are valid until the next one.

    Raises:
        SourceError: the bytes of a window cannot be read.
    """
    copies = backend.copies
    longest = int((wins[:, W_STOP] - wins[:, W_START]).max(initial=0)) + backend.margin if copies else 0
    with scratch.borrow(longest) as memory:
        for file, start, stop, first, last, wanted in wins.tolist():
            part = rows[first:last]
            few = (lines_of(part) if copies else far_lines(part, stop - start)) if wanted * 2 < stop - start else None
            yield start, part, backend.span(file, start, stop, memory, few)


def read_together(backend: Backend, rows: np.ndarray, wins: np.ndarray) -> Iterator[Read]:
    """Go through windows of files as `read_in_turn` does, of a backend that waits for each: it is asked for `TOGETHER`
    bytes of them at once, and the next ones come meanwhile.
    """
    fetch = backend.fetch
    assert fetch is not None
    ends, at, edges = np.cumsum(wins[:, W_STOP] - wins[:, W_START]), 0, [0]
    while at < len(wins):
        at = max(at + 1, int(np.searchsorted(ends, (ends[at - 1] if at else 0) + TOGETHER, "right")))
        edges.append(at)
    batches = [wins[first:last] for first, last in pairwise(edges)]
    if len(batches) == 1:
        with _batch(fetch, rows, batches[0]) as (begin, found):
            begin()
            yield from found
        return
    with ExitStack() as stack, ThreadPoolExecutor(1, "vfs-ahead") as thread:
        begin, found = stack.enter_context(_batch(fetch, rows, batches[0]))
        coming = thread.submit(begin)
        for batch in [*batches[1:], None]:
            coming.result()
            done, last = found, stack.pop_all()
            with last:
                if batch is not None:
                    begin, found = stack.enter_context(_batch(fetch, rows, batch))
                    coming = thread.submit(begin)
                yield from done


@contextmanager
def _batch(fetch: Fetch, rows: np.ndarray, wins: np.ndarray) -> Iterator[tuple[Callable[[], None], list[Read]]]:
    """Borrow memory for some windows. Gives (what fetches them, the windows)."""
    with scratch.borrow(int((wins[:, W_STOP] - wins[:, W_START]).sum())) as memory:
        windows, found, to = [], [], 0
        for file, start, stop, first, last, wanted in wins.tolist():
            part, room = rows[first:last], memory[to : to + stop - start]
            windows.append(Window(file, start, stop, room, lines_of(part) if wanted * 2 < stop - start else None))
            found.append((start, part, room))
            to += stop - start
        yield partial(fetch, windows), found


def one_window(rows: np.ndarray) -> np.ndarray:
    """Return what `kernels.ranges.windows` finds in one range of one line, or in none, without a kernel."""
    wins = np.zeros((len(rows), W_WANTED + 1), np.int64)
    if len(rows):
        file, start, stop = rows[0, :DEST].tolist()
        wins[0] = file, start, stop, 0, 1, stop - start
    return wins


def lines_of(rows: np.ndarray) -> np.ndarray:
    """Return read ranges of one line each. Those of blocks and of frames that lie whole are such already."""
    return rows if rows.shape[1] <= LINES or (rows[:, LINES] <= 1).all() else kernels.ranges.in_lines(rows, 0)


def far_lines(rows: np.ndarray, nbytes: int) -> np.ndarray | None:
    """Return read ranges of one line each, if these lie far apart in so many bytes; else None."""
    lines = len(rows) if rows.shape[1] <= LINES else int(np.maximum(rows[:, LINES], 1).sum())
    return lines_of(rows) if lines * APART <= nbytes else None
