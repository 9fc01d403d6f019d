"""Reads elements as they are stored: plans, fetches and decodes.

The layout says which bytes, the backend fetches them, the decoder puts them into place, straight
into the caller's memory wherever that is possible. Conversion and correction follow in
`vfs.engine.reader`.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, lru_cache, partial
from typing import Any, cast

import numpy as np

from vfs import kernels
from vfs.backends import Backend, Window
from vfs.buffers import is_lent, scratch
from vfs.engine.cache import ChunkCache
from vfs.engine.windows import (
    NO_SCRATCH,
    TOGETHER,
    far_lines,
    lines_of,
    one_window,
    read_in_turn,
    read_together,
)
from vfs.errors import DecodeError, NotYetError, SourceError
from vfs.kernels.columns import (
    COUNT,
    DEST,
    LINES,
    NEXT,
    NO_LIMIT,
    NO_ROWS,
    PLANE,
    STEP,
    W_FILE,
    W_START,
    W_STOP,
)
from vfs.model.decode import BlockDecoder, Decoder
from vfs.model.layout import BlockLayout
from vfs.model.region import Region
from vfs.model.stored import StoredArray

ROWS = 1 << 16  # read ranges planned at once: a table of 5.5 MiB
RUN = 1024
"""Bytes: ranges this long on average are read to where they belong, shorter ones together, to be
copied there. Measured with rows of 512, 1024 and 4096 bytes in reverse order, as a share of memcpy:
0.38, 0.45, 0.65, and 0.45, 0.37, 0.42 (`scripts/bench formats` has such rows: SER).
"""


class Token:
    """Stands for what a reader reads: see `StoredReader.token`."""

    __slots__ = ("__weakref__",)


class StoredReader:
    """Reads boxes of the elements of one array as they are stored.

    Args:
        dataset: what the format said.
        backend: how bytes get into memory.
        cache: where decoded blocks are kept.

    Attributes:
        dataset, backend, cache: as given.
        shape: of the array.
        stored: dtype in the files; blank: what blank places read as in it.
        token: stands for this reader in the keys of the cache, which others may share; unlike an id
            it is never given out again. Readers of the same chunks have the same one.
        moved: `moved(0)` is another number once a file turned out to be touched, see
            `vfs.model.files.Files`. It is part of every key of the cache.
        word_bytes, takes_lines, accumulates: see `vfs.model.decode.Decoder`.
        decodes_whole: a part of a block costs as much as the block: partial reads go through the
            cache. decodes_into: blocks that are wanted as wholes are decoded to where they belong,
            by `decode_run` as many as it can in one call; None: one by one.
        plain: elements are native bytes in the file.
    """

    def __init__(self, dataset: StoredArray, backend: Backend, cache: ChunkCache | None = None) -> None:
        # Plain attributes: a request for a small chunk costs about as much as it makes calls. Attributes
        # that an opening does not need are made when they are first asked for
        self.dataset = dataset
        self.backend = backend
        self.fetch_windows = backend.fetch
        self.windows = read_in_turn if backend.fetch is None else read_together
        self.cache = ChunkCache() if cache is None else cache
        self.shape = dataset.shape
        self.stored = dataset.dtype
        self.moved = dataset.files.moves.item
        self.token = Token()
        self.word_bytes = dataset.decoder.word_bytes
        self.decodes_whole = self.word_bytes == 0
        self.decodes_into = (
            self.decodes_whole
            and cast(BlockDecoder, dataset.decoder).decode_into is not None
            and cast(BlockLayout, dataset.layout).box_starts is None
        )
        self.decode_run = cast(BlockDecoder, dataset.decoder).decode_run if self.decodes_whole else None
        self.plain = not self.decodes_whole and cast(Decoder, dataset.decoder).straight
        self.takes_lines = not self.decodes_whole and cast(Decoder, dataset.decoder).takes_lines
        self.accumulates = not self.decodes_whole and cast(Decoder, dataset.decoder).accumulates

    @cached_property
    def blank(self) -> Any:
        with np.errstate(all="ignore"):
            return np.asarray(self.dataset.fill).astype(self.stored)[()]

    @cached_property
    def _step(self) -> Callable[[np.dtype], int | None] | None:
        return lru_cache(cast(Decoder, self.dataset.decoder).step) if self.word_bytes else None

    @property
    def files(self) -> tuple[str, ...]:
        """Paths of the source files."""
        return self.dataset.files.paths

    def unread(self, error: SourceError, region: Region) -> SourceError:
        """Make the error for a region out of that of its bytes: the message names both."""
        if isinstance(error, NotYetError):
            return error  # it names frames
        return type(error)(f"{error} [reading {self.dataset.path}{region}]", error.errno or errno.EIO)

    def gather(self, region: Region, out: np.ndarray) -> bool:
        """Read a non-empty region as stored into C-contiguous memory. Returns whether all of it is
        stored; the rest is filled.
        """
        if self.decodes_whole:
            return self.gather_blocks(region, out)
        rows, covered = self.plan(region, out.reshape(-1))
        if covered < 0:  # see `read_once`
            first, second = region.halves()
            complete = self.gather(first, out[within(first, region)])
            return self.gather(second, out[within(second, region)]) and complete
        self.fetch(rows, out.reshape(-1))
        return covered >= out.size

    def plan(self, region: Region, flat: np.ndarray) -> tuple[np.ndarray, int]:
        """Find the read ranges of a region, and fill what they do not cover in `flat`, or all of it
        where they add to it.

        Returns: (ranges, number of elements that they cover); no ranges and -1 where there would be
            more than `ROWS`, or blocks are to be cut.

        Raises:
            NotYetError: frames of the region are yet to be written.
        """
        rows, covered = self.dataset.layout.read_ranges(region, ROWS)
        if covered < flat.size and self.dataset.written.head is not None:
            self.dataset.check_head(region)
        if self.decodes_whole and (rows[:, NEXT] != 1).any():
            return NO_ROWS, -1
        if 0 <= covered < flat.size or self.accumulates:
            flat.fill(self.blank)
        return rows, covered

    def fetch(self, rows: np.ndarray, flat: np.ndarray) -> None:
        """Read the elements of read ranges to their places.

        Args:
            rows: see `vfs.kernels.columns`.
            flat: [size], the output, of the dtype that is stored or of one that the decoder converts to.

        Raises:
            SourceError: a range cannot be read.
        """
        # Needs no kernel: neither calls, nor in a fresh process loading
        one = len(rows) == 0 or (len(rows) == 1 and rows.item(0, LINES) <= 1)
        if not one:
            rows = kernels.ranges.by_file(rows)
            rows = rows if self.takes_lines else kernels.ranges.in_lines(rows, 0)
        backend, decoder = self.backend, cast(Decoder, self.dataset.decoder)
        runs = self.plain and flat.dtype == self.stored and backend.in_place
        if runs and ((len(rows) == 0 or rows.item(0, STEP) == 1) if one else kernels.fetch.in_runs(rows, RUN)):
            self._read_into_place(rows if one else kernels.ranges.in_lines(rows, 0), flat)
            return
        if not one and self.takes_lines:
            rows = kernels.ranges.in_lines(rows, backend.window)
        wins = one_window(rows) if one else kernels.ranges.windows(rows, backend.window)
        if not backend.copies:  # as `read_in_turn`, whose generator a read of one frame would feel: 3 of 20 µs
            for file, start, stop, first, last, wanted in wins.tolist():
                few = far_lines(rows[first:last], stop - start) if wanted * 2 < stop - start else None
                decoder.decode(rows[first:last], backend.span(file, start, stop, NO_SCRATCH, few), start, flat)
            return
        longest, most = int((wins[:, W_STOP] - wins[:, W_START]).max(initial=0)), max(backend.window, self.word_bytes)
        if longest > most:  # in pieces that stay in cache
            rows = kernels.ranges.split(rows, backend.window, self.word_bytes, decoder.word_pixels)
            wins = kernels.ranges.windows(rows, most)
            longest = int((wins[:, W_STOP] - wins[:, W_START]).max())
        if self.fetch_windows is not None:
            for start, part, data in read_together(backend, rows, wins):
                decoder.decode(part, data, start, flat)
            return
        step, done, n = self._step(flat.dtype) if self._step and len(wins) > 1 else None, 0, len(wins)
        # Windows of a file are read and decoded in one call of a kernel, where the backend lends its files
        with scratch.borrow(longest + backend.margin) as memory:
            while done < n:
                if step is not None:
                    last = n
                    if wins[-1, W_FILE] != wins[done, W_FILE]:
                        last = int(np.searchsorted(wins[:, W_FILE], wins[done, W_FILE], "right"))
                    part = wins[done:last]
                    read = partial(kernels.fetch.decode_windows, rows, part, step, memory, flat.view(np.uint8))
                    first, end = int(part[:, W_START].min()), int(part[:, W_STOP].max())
                    bad = backend.lend(part.item(0, W_FILE), first, end, read)
                    if bad == -1:
                        done = last
                        continue
                    # None: this backend lends no files
                    step, done = (None, done) if bad is None else (step, done + bad)
                # What a kernel cannot read, `span` reads, or says why not
                file, start, stop, begin, end, wanted = wins[done].tolist()
                few = lines_of(rows[begin:end]) if wanted * 2 < stop - start else None
                decoder.decode(rows[begin:end], backend.span(file, start, stop, memory, few), start, flat)
                done += 1

    def _read_into_place(self, rows: np.ndarray, flat: np.ndarray) -> None:
        """Have the backend read bytes to where their elements belong: nothing is left to decode.

        Args:
            rows: read ranges of one line each.
        """
        out, width = flat.view(np.uint8), flat.itemsize
        wins = (one_window(rows) if len(rows) < 2 else kernels.ranges.windows(rows, NO_LIMIT)).tolist()
        if self.fetch_windows is not None:
            self.fetch_windows([Window(f, start, stop, out, rows[a:b], width) for f, start, stop, a, b, _ in wins])
            return
        for file, start, stop, first, last, _ in wins:
            self.backend.span(file, start, stop, out, rows[first:last], width)

    def gather_blocks(self, region: Region, out: np.ndarray) -> bool:
        """Read blocks that decode only as a whole, each once as long as it stays in the cache.

        Args:
            out: the region's shape, of any dtype and strides.

        Returns: whether all of the region is stored; the rest is filled.
        """
        layout = cast(BlockLayout, self.dataset.layout)
        straight = self.decodes_into and out.dtype == self.stored and out.flags.c_contiguous
        rows, covered = layout.read_ranges(region) if straight else (NO_ROWS, 0)
        apart = rows[:, NEXT] != 1
        cuts = []
        if not straight or apart.any():
            touched = layout.touched(region)
            cuts = [(where, shape, *cut) for box, shape, lead, where in touched if (cut := _overlap(box, lead, region))]
            covered = sum(size for *_, size in cuts)
        if covered < out.size:
            if self.dataset.written.head is not None:
                self.dataset.check_head(region)
            out[...] = self.blank
        if straight:
            self.fetch_blocks(rows[~apart], out.reshape(-1))
        numbers = set(rows[apart, PLANE].tolist())
        if straight:
            cuts = [cut for cut in cuts if cut[0][3] in numbers]
        together = self._blocks_together([cut[:2] for cut in cuts]) if self.fetch_windows and len(cuts) > 1 else None
        for where, shape, to, of, _ in cuts:
            with np.errstate(all="ignore"):
                key = self.token, self.moved(0), where[3]
                out[to] = (next(together) if together else self.cache.get(key, partial(self._block, where, shape)))[of]
        return covered >= out.size

    def held(self, region: Region) -> bool:
        """Return True if the cache holds all blocks of a region, of blocks that decode only as a whole."""
        touched = cast(BlockLayout, self.dataset.layout).touched(region)
        return all((self.token, self.moved(0), where[3]) in self.cache for *_, where in touched)

    def spent(self, region: Region) -> None:
        """Have the cache drop the blocks of a region before all others: what was wanted of them is made."""
        touched = cast(BlockLayout, self.dataset.layout).touched(region)
        self.cache.spent([(self.token, self.moved(0), where[3]) for *_, where in touched])

    def in_parts(self, region: Region, edges: np.ndarray) -> list[np.ndarray] | None:
        """Plan the parts of a non-empty region, one behind the other, together.

        Args:
            edges: int64[n + 1], the element of the region at which each part begins; its size.

        Returns: for each part what `fetch_blocks` takes. None where a block is not wanted as a whole in one
            part, or not everything is stored.
        """
        if not self.decodes_into:
            return None
        rows, covered = self.dataset.layout.read_ranges(region)
        part = np.searchsorted(edges, rows[:, DEST], "right") - 1
        if covered < edges[-1] or ((rows[:, NEXT] != 1) | (rows[:, DEST] + rows[:, COUNT] > edges[part + 1])).any():
            return None
        rows[:, DEST] -= edges[part]
        order = np.argsort(part, kind="stable")
        return np.split(rows[order], np.searchsorted(part[order], np.arange(1, len(edges) - 1)))

    def fetch_blocks(self, rows: np.ndarray, flat: np.ndarray) -> None:
        """Decode whole blocks to where they belong: those of a window of the file are read
        together, and nothing else is done for each.

        Args:
            rows: their read ranges, all with NEXT 1.
            flat: [size], the output, of the dtype that is stored.

        Raises:
            SourceError: a block cannot be read, or does not decode.
        """
        if self.cache.held:
            kept = [self.cache.peek((self.token, self.moved(0), number)) for number in rows[:, PLANE].tolist()]
            for (to, count), piece in zip(rows[:, (DEST, COUNT)].tolist(), kept, strict=True):
                if piece is not None:
                    flat[to : to + count] = piece.reshape(-1)
            rows = rows[[piece is None for piece in kept]]
        if len(rows) == 0:
            return
        backend, decode_into = self.backend, cast(Any, self.dataset.decoder).decode_into
        wins = kernels.ranges.windows(rows, backend.window) if len(rows) > 1 else one_window(rows)
        for start, part, data in self.windows(backend, rows, wins):
            done = 0 if self.decode_run is None else self.decode_run(part, data, start, flat)
            for file, a, b, to, _, _, count, number, *_ in part[done:].tolist():
                try:
                    decode_into(data[a - start : b - start], number, flat[to : to + count])
                except DecodeError as error:
                    raise self._undecoded((file, a, b - a, number), error) from None

    def _undecoded(self, where: tuple[int, int, int, int], error: DecodeError) -> DecodeError:
        file, start, size, _ = where
        return DecodeError(
            f"{self.files[file]}: bytes {start:,} to {start + size:,}: {error}", error.errno or errno.EIO
        )

    def _blocks_together(
        self, blocks: Sequence[tuple[tuple[int, int, int, int], tuple[int, ...]]]
    ) -> Iterator[np.ndarray]:
        """Yield decoded blocks. Those that the cache lacks are fetched at once, as far as memory goes, and stay there.

        Args:
            blocks: for each its file, first byte, bytes and number; the shape in which it is stored.
        """
        assert self.fetch_windows is not None
        at = 0
        while at < len(blocks):
            room, end, missing = 0, at, []
            while end < len(blocks) and (end == at or room + blocks[end][0][2] <= TOGETHER):
                (file, start, size, number), _ = blocks[end]
                if self.cache.peek((self.token, self.moved(0), number)) is None:
                    missing.append((number, file, start, size, room))
                    room += size
                end += 1
            with scratch.borrow(room) as memory:
                read = {number: memory[to : to + size] for number, _, _, size, to in missing}
                self.fetch_windows([Window(f, start, start + n, read[number]) for number, f, start, n, _ in missing])
                for where, shape in blocks[at:end]:
                    make = partial(self._block, where, shape, read.get(where[3]))
                    with np.errstate(all="ignore"):
                        yield self.cache.get((self.token, self.moved(0), where[3]), make)
            at = end

    def _block(
        self, where: tuple[int, int, int, int], shape: tuple[int, ...], data: np.ndarray | None = None
    ) -> np.ndarray:
        """Read and decode one block.

        Args:
            where: file, first byte, bytes, number of the block; shape: in which it is stored.
            data: its bytes, if they are read already.
        """
        file, start, size, number = where
        with scratch.borrow(size + self.backend.margin if data is None else 0) as memory:
            data = self.backend.span(file, start, start + size, memory) if data is None else data
            try:
                made = cast(BlockDecoder, self.dataset.decoder).decode_block(data, number, shape)
            except DecodeError as error:
                raise self._undecoded(where, error) from None
            # It may be a view of the scratch memory, which is ours only here
            return made if made.base is None or is_lent(made) else made.copy()


def _overlap(
    box: Region, lead: tuple[int, ...], region: Region
) -> tuple[tuple[slice, ...], tuple[slice, ...], int] | None:
    """Find what a region has of a block.

    Args:
        box: the block's place in the array; lead: where in the stored block that begins.

    Returns: (index of these elements in the region, index of them in the block, how many they are);
        None where there are none.
    """
    to, of, size = [], [], 1
    for lo, hi, into, start, stop, step in zip(
        box.start, box.stop, lead, region.start, region.stop, region.step, strict=True
    ):
        a = start if lo <= start else start + -(-(lo - start) // step) * step
        count = -(-(min(stop, hi) - a) // step)
        if count < 1:
            return None
        first = (a - start) // step
        to.append(slice(first, first + count))
        of.append(slice(into + a - lo, into + a - lo + count * step, step))
        size *= count
    return tuple(to), tuple(of), size


def within(tile: Region, region: Region) -> tuple[Any, ...]:
    """Return the index of a tile in the elements of the region that `chunking.cut` made it of.

    It gives a view, also where there are no axes.
    """
    cut = zip(tile.start, tile.stop, region.start, region.step, strict=True)
    return (..., *(slice((a - o) // s, (b - o - 1) // s + 1) for a, b, o, s in cut))
