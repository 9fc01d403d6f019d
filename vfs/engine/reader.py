"""The engine: plan, fetch, decode, and, where that is asked for, correct and convert.

The layout says which bytes, the backend fetches them, the decoder puts them into place, straight
into the caller's memory wherever that is possible. What is corrected or converted goes in tiles
that stay in the processor's cache.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, lru_cache, partial
from typing import Any, cast

import numpy as np

from vfs.backends import Backend
from vfs.buffers import scratch
from vfs.engine import chunking
from vfs.engine.cache import ChunkCache
from vfs.engine.corrections import Corrections, corrected_box
from vfs.errors import DecodeError, OptionError, SourceError
from vfs.formats.headers import dtype_option
from vfs.kernels.fetch import decode_windows, in_runs
from vfs.kernels.ranges import (
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
    W_WANTED,
    at_edges,
    by_file,
    in_lines,
    split,
    windows,
)
from vfs.model.decode import BlockDecoder, Decoder
from vfs.model.layout import BlockLayout
from vfs.model.region import Region
from vfs.model.stored import TRIES, StoredArray

ROWS = 1 << 16  # read ranges planned at once: a table of 5.5 MiB
RUN = 1024
"""Bytes: ranges this long on average are read to where they belong, shorter ones together, to be
copied there. Measured with rows of 512, 1024 and 4096 bytes in reverse order, as a share of memcpy:
0.38, 0.45, 0.65, and 0.45, 0.37, 0.42 (`scripts/bench formats` has such rows: SER).
"""
TILE = 1 << 22
"""Bytes decoded at once where a conversion or correction follows and every tile is planned by itself (`_tiles`)."""

CACHED = 1 << 19
"""Bytes decoded at once where all tiles are planned together: a tile, what it is read into and what
it becomes stay in cache (2 MiB a core).
"""


class RegionReader:
    """Boxes of one dataset's elements, on demand.

    Args:
        dataset: what the format said.
        backend: how bytes get into memory.
        dtype: elements are converted to it (numpy's rules for casting, any change allowed); None:
            as stored, native byte order.
        cache: where decoded pieces are kept.
        corrections: applied to every frame; without `dtype` the elements are then floats (`Corrections.dtype`).

    Attributes:
        shape, dtype: as of numpy arrays; dtype in native byte order. stored: dtype in the files;
            made: corrected, before it is converted to `dtype`. blank, fill: what blank places read
            as, before and after that.
        token: stands for this reader in the keys of the cache, which others may share; unlike an id
            it is never given out again.
        moved: `moved(0)` is another number once a file turned out to be touched, see
            `vfs.model.stored.Files`. It is part of every key of the cache.
        decodes_whole: a part of a block costs as much as the block: partial reads go through the
            cache. decodes_into: blocks that are wanted as wholes are decoded to where they belong.
        as_stored: elements are neither converted nor corrected; plain: they are native bytes in the
            file; views: reads may give views of it.
        direct: a kernel puts the elements into place, as stored or converted in the same pass.
            longest: bytes of the longest file.

    Raises:
        OptionError: `dtype` does not fit.
    """

    def __init__(
        self,
        dataset: StoredArray,
        backend: Backend,
        *,
        dtype: Any = None,
        cache: ChunkCache | None = None,
        corrections: Corrections | None = None,
    ) -> None:
        # Plain attributes: a request for a small chunk costs about as much as it makes calls. Attributes
        # that an opening does not need are made when they are first asked for
        self.dataset = dataset
        self.backend = backend
        self.corrections = corrections
        self.stored = dataset.dtype
        asked = None if dtype is None else _target_dtype(self.stored, dtype)
        self.made = self.stored if corrections is None else corrections.dtype(self.stored, asked)
        self.dtype = self.made if asked is None else asked
        self.shape = dataset.shape
        self.cache = ChunkCache() if cache is None else cache
        self.moved = dataset.files.moves.item
        self.token = object()
        self.word_bytes = dataset.decoder.word_bytes
        self.decodes_whole = self.word_bytes == 0
        self.decodes_into = (
            self.decodes_whole
            and cast(BlockDecoder, dataset.decoder).decode_into is not None
            and cast(BlockLayout, dataset.layout).box_starts is None
        )
        self.as_stored = self.dtype == self.stored and corrections is None and not self.decodes_whole
        self.plain = not self.decodes_whole and cast(Decoder, dataset.decoder).straight
        self.takes_lines = not self.decodes_whole and cast(Decoder, dataset.decoder).takes_lines
        self.accumulates = not self.decodes_whole and cast(Decoder, dataset.decoder).accumulates
        self.views = self.as_stored and self.plain and not backend.copies
        converted = self.dtype != self.stored and corrections is None and not self.decodes_whole
        self.direct = self.as_stored or (converted and cast(Decoder, dataset.decoder).converts(self.dtype))
        self.longest = int(dataset.files.sizes.max(initial=0))

    @cached_property
    def blank(self) -> Any:
        with np.errstate(all="ignore"):
            return np.asarray(self.dataset.fill).astype(self.stored)[()]

    @cached_property
    def fill(self) -> Any:
        with np.errstate(all="ignore"):
            return self.blank.astype(self.dtype)

    @cached_property
    def _step(self) -> Callable[[np.dtype], int | None] | None:
        return lru_cache(cast(Decoder, self.dataset.decoder).step) if self.word_bytes else None

    @property
    def files(self) -> tuple[str, ...]:
        """Paths of the source files."""
        return self.dataset.files.paths

    def read(self, region: Region | Sequence[slice] | None = None, out: np.ndarray | None = None) -> np.ndarray:
        """Read a box.

        Args:
            region: a Region, or slices with positive steps (missing axes: whole); None: everything.
            out: array of the region's shape and this array's dtype that the elements are written to. Any strides.

        Returns: `out`, or a new array, or a read-only view of the file where that is the same bytes.

        Raises:
            RegionError: the region does not fit the array.
            OptionError: `out` does not fit the region, or cannot be written to.
            SourceError: bytes are missing, truncated or unreadable; the message names file, bytes and region.
        """
        box = Region.whole(self.shape) if region is None else Region.of(region, self.shape)
        if out is not None:
            _check_out(out, box.shape, self.dtype)
        elif self.views and (straight := self.straight(box)):
            try:
                return self.backend.span(*straight, scratch_none).view(self.dtype).reshape(box.shape)
            except SourceError as error:
                raise self.unread(error, box) from None
        else:
            out = np.empty(box.shape, self.dtype)
        if not out.size:
            return out
        try:
            for _ in TRIES:  # until all was read in one state of the files
                before = self.moved(0)
                self.read_once(box, out)
                if self.moved(0) == before:
                    return out
            raise self.dataset.files.restless()
        except SourceError as error:
            raise self.unread(error, box) from None

    def read_once(self, box: Region, out: np.ndarray) -> None:
        """Read a non-empty box into memory of its shape and this array's dtype, of any strides.

        The caller finds out whether a file was touched meanwhile (`moved`), and names the box in
        errors (`unread`).

        Raises:
            SourceError: see `read`.
        """
        if self.corrections is not None:
            self._correct_into(box, out, self.corrections)
        elif self.decodes_whole:  # not in tiles: a block is taken apart once, whatever it is cast to
            self.gather_blocks(box, out)
        elif out.flags.c_contiguous and self.direct:
            rows, covered = self.plan(box, out.reshape(-1))
            if covered >= 0:
                self.fetch(rows, out.reshape(-1))
            else:  # single pixels of many frames: the plan must not need more memory than what is read
                for half in box.halves():
                    self.read_once(half, out[_within(half, box)])
        else:
            self._cast_into(box, out)

    def unread(self, error: SourceError, region: Region) -> SourceError:
        """Make the error for a region out of that of its bytes: the message names both."""
        return type(error)(f"{error} [reading {self.dataset.path}{region}]", error.errno or errno.EIO)

    def straight(self, region: Region, converted: bool = False) -> tuple[int, int, int] | None:
        """(file, first byte, last byte) where one range of native bytes is the answer, so that
        `read` gives a view of the file; else None.

        Args:
            converted: also where the elements are yet to be converted. To be asked of data that
                lies straight in mapped files only.
        """
        width = self.stored.itemsize
        nbytes = region.size * width
        if not (self.views or converted) or nbytes > self.longest:
            return None
        rows, _ = self.dataset.layout.read_ranges(region, 1)
        if len(rows) != 1 or rows.item(0, LINES) > 1:
            return None
        file, start, stop, _, step, *_ = rows[0].tolist()
        if (step != 1 and stop - start > width) or stop - start != nbytes:
            return None
        return file, start, stop

    def _cast_into(self, region: Region, out: np.ndarray) -> None:
        """Read a non-empty region into memory of any strides, and convert it where that is asked for."""
        if (raw := self._mapped(region)) is not None:
            with np.errstate(all="ignore"):
                np.copyto(out, raw.reshape(region.shape), casting="unsafe")
            return
        flat = out.reshape(-1) if out.flags.c_contiguous else None
        done = 0
        with np.errstate(all="ignore"):
            for tile, rows, part, _ in self._tiles(region, CACHED):
                if rows is not None:
                    self.fetch(rows, part)
                if flat is None:
                    np.copyto(out[_within(tile, region)], part.reshape(tile.shape), casting="unsafe")
                else:
                    np.copyto(flat[done : done + part.size], part, casting="unsafe")
                    done += part.size

    def _mapped(self, region: Region) -> np.ndarray | None:
        """Return the stored elements of a non-empty region as one axis, where a mapped file holds
        them so, aligned (numpy is slow with others); else None.
        """
        run = None if self.backend.copies or not self.plain else self.straight(region, converted=True)
        return (
            None
            if run is None or run[1] % self.stored.itemsize
            else self.backend.span(*run, scratch_none).view(self.stored)
        )

    def _correct_into(self, region: Region, out: np.ndarray, corrections: Corrections) -> None:
        """Read a non-empty region in tiles that stay in cache: as stored, corrected, then converted
        to where it belongs.
        """
        stored, made, nav = self.stored, self.made, self.dataset.nav_ndim
        box, corner, inner = corrected_box(corrections, region, nav)
        h, w = (1, *box.shape[nav:])[-2:]
        # In parts of frames, each with its halo
        if h * w * made.itemsize > TILE and region.size > 1 and region.size * made.itemsize > TILE:
            for tile in chunking.cut(region, made.itemsize, TILE):
                self._correct_into(tile, out[_within(tile, region)], corrections)
            return
        direct = out.reshape(-1) if out.flags.c_contiguous and out.dtype == made and box.shape == region.shape else None
        correct = corrections.corrector(corner, (h, w), made)
        if direct is not None and (mapped := self._mapped(box)) is not None:  # nothing has to stay in cache in between
            with np.errstate(all="ignore"):
                correct(mapped.reshape(-1, h * w), direct.reshape(-1, h * w))
            return
        blank = self.blank.astype(made)
        done = 0
        with (
            scratch.borrow(max(max(TILE, CACHED) // stored.itemsize, h * w) * made.itemsize) as memory,
            np.errstate(all="ignore"),
        ):
            for tile, rows, raw, complete in self._tiles(box, max(CACHED, h * w * stored.itemsize)):
                if rows is not None:
                    self.fetch(rows, raw)
                part = (
                    direct[done : done + raw.size]
                    if direct is not None
                    else memory[: raw.size * made.itemsize].view(made)
                )
                done += raw.size
                correct(raw.reshape(-1, h * w), part.reshape(-1, h * w))
                if not complete:  # what is not stored is no signal to be corrected
                    np.copyto(part.reshape(tile.shape), blank, where=self.dataset.blank(tile))
                if direct is None:
                    np.copyto(
                        out[(*_within(tile, box)[1 : nav + 1], ...)], part.reshape(tile.shape)[inner], casting="unsafe"
                    )

    def _tiles(self, region: Region, limit: int) -> Iterator[tuple[Region, np.ndarray | None, np.ndarray, bool]]:
        """The stored elements of a non-empty region in tiles along its slowest axes, which are
        planned all at once where ranges allow.

        Args:
            limit: bytes of a tile at most.

        Yields: (tile, ranges that are yet to be fetched or None, memory for the tile's elements as
            one axis, valid until the next one, or these themselves, whether all of the region is
            stored).
        """
        width = self.stored.itemsize
        rows, covered = (NO_ROWS, -1) if self.decodes_whole else self.dataset.layout.read_ranges(region, ROWS)
        total = region.size
        tiles = [region] if covered >= 0 else []
        sizes, begins = [total], [0, len(rows)] if tiles else []
        if tiles and total * width > limit:
            tiles = list(chunking.cut(region, width, limit))
            sizes = [tile.size for tile in tiles]
            decoder = cast(Decoder, self.dataset.decoder)
            edges, word = np.cumsum([0, *sizes]), (decoder.word_bytes, decoder.word_pixels)
            cut, found = at_edges(rows, edges, *word)
            if not len(found):  # a tile may end within a range of several lines
                cut, found = at_edges(in_lines(rows, 0), edges, *word)
            rows, begins = cut, found.tolist()
        if not begins:  # each planned by itself: that costs more than what leaves the cache
            for tile in chunking.cut(region, width, max(limit, TILE)):
                with scratch.borrow(tile.size * width) as memory:
                    part = memory[: tile.size * width].view(self.stored)
                    yield tile, None, part, self._gather(tile, part.reshape(tile.shape))
            return
        complete = covered >= total
        clear = not complete or self.accumulates
        mapped = self.plain and not self.backend.copies
        with scratch.borrow(max(sizes) * width) as memory:
            for tile, size, first, last in zip(tiles, sizes, begins, begins[1:], strict=False):
                if mapped and last - first == 1:
                    file, start, stop, _, step = rows[first, : STEP + 1].tolist()
                    # As it lies in the map
                    if step == 1 and rows[first, LINES] <= 1 and stop - start == size * width and start % width == 0:
                        yield tile, None, self.backend.span(file, start, stop, scratch_none).view(self.stored), complete
                        continue
                part = memory[: size * width].view(self.stored)
                if clear:
                    part.fill(self.blank)
                yield tile, rows[first:last], part, complete

    def passing(self, region: Region, limit: int = CACHED) -> Iterator[tuple[Region, np.ndarray]]:
        """Go through the elements of a non-empty region, as `read` gives them, in tiles along its
        slowest axes that stay in the processor's cache.

        Args:
            limit: bytes of a tile at most; no less than a frame has, where frames must be whole.

        Yields: (tile, its elements as one axis), in order. These are in memory that the next tile
            is written to, or in a mapped file.

        Raises:
            SourceError: see `read`.
        """
        if self.as_stored:
            try:
                for tile, rows, part, _ in self._tiles(region, limit):
                    if rows is not None:
                        self.fetch(rows, part)
                    yield tile, part
            except SourceError as error:
                raise self.unread(error, region) from None
            return
        tiles = [region] if self.decodes_whole else list(chunking.cut(region, self.dtype.itemsize, limit))
        with scratch.borrow(max(tile.size for tile in tiles) * self.dtype.itemsize) as memory:
            for tile in tiles:
                part = memory[: tile.size * self.dtype.itemsize].view(self.dtype)
                yield tile, self.read(tile, part.reshape(tile.shape)).reshape(-1)

    def _gather(self, region: Region, out: np.ndarray) -> bool:
        """Read a non-empty region as stored into C-contiguous memory. Returns whether all of it is
        stored; the rest is filled.
        """
        if self.decodes_whole:
            return self.gather_blocks(region, out)
        rows, covered = self.plan(region, out.reshape(-1))
        if covered < 0:  # see `read_once`
            first, second = region.halves()
            complete = self._gather(first, out[_within(first, region)])
            return self._gather(second, out[_within(second, region)]) and complete
        self.fetch(rows, out.reshape(-1))
        return covered >= out.size

    def plan(self, region: Region, flat: np.ndarray) -> tuple[np.ndarray, int]:
        """Find the read ranges of a region, and fill what they do not cover in `flat`, or all of it
        where they add to it.

        Returns: (ranges, number of elements that they cover); no ranges and -1 where there would be
            more than `ROWS`, or blocks are to be cut.
        """
        rows, covered = self.dataset.layout.read_ranges(region, ROWS)
        if self.decodes_whole and (rows[:, NEXT] != 1).any():
            return NO_ROWS, -1
        if 0 <= covered < flat.size or self.accumulates:
            flat.fill(self.blank)
        return rows, covered

    def fetch(self, rows: np.ndarray, flat: np.ndarray) -> None:
        """Read the elements of read ranges to their places.

        Args:
            rows: see `vfs.kernels.ranges`.
            flat: [size], the output, of the dtype that is stored or of one that the decoder converts to.

        Raises:
            SourceError: a range cannot be read.
        """
        backend, decoder, out = self.backend, cast(Decoder, self.dataset.decoder), flat.view(np.uint8)
        # Needs no kernel: neither calls, nor in a fresh process compiling
        one = len(rows) == 0 or (len(rows) == 1 and rows.item(0, LINES) <= 1)
        if not one:
            rows = by_file(rows) if self.takes_lines else in_lines(by_file(rows), 0)
        runs = self.plain and flat.dtype == self.stored and backend.in_place
        if runs and ((len(rows) == 0 or rows.item(0, STEP) == 1) if one else in_runs(rows, RUN)):
            rows = rows if one else in_lines(rows, 0)
            for file, start, stop, first, last, _ in (_one_window(rows) if one else windows(rows, NO_LIMIT)).tolist():
                backend.span(file, start, stop, out, rows[first:last], flat.itemsize)
            return
        if not one and self.takes_lines:
            rows = in_lines(rows, backend.window)
        wins = _one_window(rows) if one else windows(rows, backend.window)
        if not backend.copies:
            for file, start, stop, first, last, _ in wins.tolist():
                decoder.decode(rows[first:last], backend.span(file, start, stop, scratch_none), start, flat)
            return
        longest, most = int((wins[:, W_STOP] - wins[:, W_START]).max(initial=0)), max(backend.window, self.word_bytes)
        if longest > most:  # in pieces that stay in cache
            rows = split(rows, backend.window, self.word_bytes, decoder.word_pixels)
            wins = windows(rows, most)
            longest = int((wins[:, W_STOP] - wins[:, W_START]).max())
        step, done, n = self._step(flat.dtype) if self._step and len(wins) > 1 else None, 0, len(wins)
        with scratch.borrow(longest + backend.margin) as memory:
            while done < n:
                if step is not None:  # a kernel reads and decodes all windows of a file in one call
                    part = wins[
                        done : (
                            n
                            if wins[-1, W_FILE] == wins[done, W_FILE]
                            else np.searchsorted(wins[:, W_FILE], wins[done, W_FILE], "right")
                        )
                    ]
                    read = partial(decode_windows, rows, part, step, memory, out)
                    bad = backend.lend(
                        part.item(0, W_FILE), int(part[:, W_START].min()), int(part[:, W_STOP].max()), read
                    )
                    if bad == -1:
                        done += len(part)
                        continue
                    # None: this backend lends no files
                    step, done = (None, done) if bad is None else (step, done + bad)
                # What a kernel cannot read, `span` reads, or says why not
                file, start, stop, first, last, wanted = wins[done].tolist()
                few = in_lines(rows[first:last], 0) if wanted * 2 < stop - start else None
                decoder.decode(rows[first:last], backend.span(file, start, stop, memory, few), start, flat)
                done += 1

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
            out[...] = self.blank
        if straight:
            self.fetch_blocks(rows[~apart], out.reshape(-1))
        numbers = set(rows[apart, PLANE].tolist())
        for where, shape, to, of, _ in cuts:
            if not straight or where[3] in numbers:
                with np.errstate(all="ignore"):
                    block = self.cache.get((self.token, self.moved(0), where[3]), partial(self._block, where, shape))
                    out[to] = block[of]
        return covered >= out.size

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
        wins = windows(rows, backend.window) if len(rows) > 1 else _one_window(rows)
        longest = int((wins[:, W_STOP] - wins[:, W_START]).max(initial=0)) + backend.margin if backend.copies else 0
        with scratch.borrow(longest) as memory:
            for file, start, stop, first, last, wanted in wins.tolist():
                part = rows[first:last]
                data = backend.span(file, start, stop, memory, part if wanted * 2 < stop - start else None)
                for _, a, b, to, _, _, count, number, *_ in part.tolist():
                    try:
                        decode_into(data[a - start : b - start], number, flat[to : to + count])
                    except DecodeError as error:
                        raise self._undecoded((file, a, b - a, number), error) from None

    def _undecoded(self, where: tuple[int, int, int, int], error: DecodeError) -> DecodeError:
        file, start, size, _ = where
        return DecodeError(
            f"{self.files[file]}: bytes {start:,} to {start + size:,}: {error}", error.errno or errno.EIO
        )

    def _block(self, where: tuple[int, int, int, int], shape: tuple[int, ...]) -> np.ndarray:
        """Read and decode one block.

        Args:
            where: file, first byte, bytes, number of the block; shape: in which it is stored.
        """
        file, start, size, number = where
        with scratch.borrow(size + self.backend.margin) as memory:
            data = self.backend.span(file, start, start + size, memory)
            try:
                made = cast(BlockDecoder, self.dataset.decoder).decode_block(data, number, shape)
            except DecodeError as error:
                raise self._undecoded(where, error) from None
            # It may be a view of the scratch memory, which is ours only here
            return made if made.base is None else made.copy()


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


scratch_none = np.empty(0, np.uint8)
"""For backends that give views and use no scratch."""


def _check_out(out: Any, shape: tuple[int, ...], dtype: np.dtype) -> None:
    if not isinstance(out, np.ndarray):
        raise OptionError(f"out is {type(out).__name__}, expected a numpy array of shape {shape} and dtype {dtype}")
    if out.shape != shape or out.dtype != dtype:
        raise OptionError(f"out has shape {out.shape} and dtype {out.dtype}, expected {shape} and {dtype}")
    if not out.flags.writeable:
        raise OptionError("out is read-only")


def _one_window(rows: np.ndarray) -> np.ndarray:
    """Return what `windows` finds in one range of one line, or in none, without a kernel."""
    wins = np.zeros((len(rows), W_WANTED + 1), np.int64)
    if len(rows):
        file, start, stop = rows[0, :DEST].tolist()
        wins[0] = file, start, stop, 0, 1, stop - start
    return wins


def _within(tile: Region, region: Region) -> tuple[Any, ...]:
    """Where a tile that `tiling.cut` made of a region lies in the region's elements: an index that
    gives a view, also where there are no axes.
    """
    cut = zip(tile.start, tile.stop, region.start, region.step, strict=True)
    return (..., *(slice((a - o) // s, (b - o - 1) // s + 1) for a, b, o, s in cut))


def _target_dtype(stored: np.dtype, asked: Any) -> np.dtype:
    target = dtype_option(asked).newbyteorder("=")
    if (
        target.kind not in "biufc"
        or target.itemsize > (16 if target.kind == "c" else 8)
        or (stored.kind == "c" and target.kind != "c")
    ):
        raise OptionError(f"dtype={target}: cannot convert {stored} to it")
    return target
