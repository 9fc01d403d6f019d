"""Reads elements as they are shown: as they are stored, or corrected and converted.

`vfs.engine.stored_reader` plans, fetches and decodes. Elements that are corrected or converted go
in tiles that stay in the processor's cache.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum, auto
from functools import cached_property, partial
from typing import Any, cast

import numpy as np

from vfs import kernels
from vfs.backends import Backend
from vfs.buffers import scratch
from vfs.engine import chunking
from vfs.engine.cache import ChunkCache
from vfs.engine.corrections import Corrections, corrected_box
from vfs.engine.frame_run import FrameRun
from vfs.engine.stored_reader import ROWS, StoredReader, within
from vfs.engine.windows import NO_SCRATCH
from vfs.errors import OptionError, SourceError, size
from vfs.kernels.columns import LINES, NO_ROWS, STEP
from vfs.model.decode import Decoder
from vfs.model.one_state import in_one_state
from vfs.model.options import dtype_option
from vfs.model.region import Region
from vfs.model.stored import StoredArray
from vfs.model.wording import option

TILE = 1 << 22
"""Bytes decoded at once where a conversion or correction follows and every tile is planned by itself (`_tiles`)."""

CACHED = 1 << 19
"""Bytes decoded at once where all tiles are planned together: a tile, what it is read into and what
it becomes stay in cache (2 MiB a core).
"""


class Way(Enum):
    """How elements get from where they are stored to where they are shown."""

    NATIVE = auto()
    """The bytes in the files are the elements: they are copied, or shown where they lie."""
    DECODED = auto()
    """A kernel decodes them into place, as they are stored."""
    CONVERTED = auto()
    """A kernel decodes them into place, and converts them in the same pass."""
    CAST = auto()
    """They are decoded in tiles, and numpy converts these."""
    CORRECTED = auto()
    """They are decoded in tiles, which are corrected, and converted where that is asked for."""
    BLOCKS = auto()
    """They are cut out of blocks that decode only as a whole."""

    @property
    def as_stored(self) -> bool:
        """True if elements are shown as they are stored, and a part of them decodes by itself."""
        return self in (Way.NATIVE, Way.DECODED)


INTO_PLACE = (Way.NATIVE, Way.DECODED, Way.CONVERTED)
"""Ways in which one pass over the bytes puts the elements into place."""


class RegionReader(StoredReader):
    """Reads boxes of one array's elements, on demand.

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
        way: how elements are read; views: reads may give views of the files.
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
        super().__init__(dataset, backend, cache)
        self.corrections = corrections
        asked = None if dtype is None else _target_dtype(self.stored, dtype)
        self.made = self.stored if corrections is None else corrections.dtype(self.stored, asked)
        self.dtype = self.made if asked is None else asked
        if corrections is not None:
            self.way = Way.CORRECTED
        elif self.decodes_whole:
            self.way = Way.BLOCKS
        elif self.dtype == self.stored:
            self.way = Way.NATIVE if self.plain else Way.DECODED
        else:
            self.way = Way.CONVERTED if cast(Decoder, dataset.decoder).converts(self.dtype) else Way.CAST
        self.views = self.way is Way.NATIVE and not backend.copies
        self.longest = int(dataset.files.sizes.max(initial=0))

    @cached_property
    def frame_run(self) -> FrameRun | None:
        """How frames lie that have a record each; None: the array is stored in blocks."""
        layout = None if self.decodes_whole else self.dataset.layout.frames
        return None if layout is None else FrameRun(layout, cast(Decoder, self.dataset.decoder))

    @cached_property
    def fill(self) -> Any:
        with np.errstate(all="ignore"):
            return self.blank.astype(self.dtype)

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
            MemoryError: the answer has more bytes than there is memory.
        """
        box = Region.whole(self.shape) if region is None else Region.of(region, self.shape)
        if out is not None:
            _check_out(out, box.shape, self.dtype)
        elif self.views and (straight := self.straight(box)):
            try:
                return self.backend.span(*straight, NO_SCRATCH).view(self.dtype).reshape(box.shape)
            except SourceError as error:
                raise self.unread(error, box) from None
        else:
            out = self._room(box)
        if not out.size:
            return out
        try:
            in_one_state(self.backend, partial(self.read_once, box, out))
        except SourceError as error:
            raise self.unread(error, box) from None
        return out

    def _room(self, box: Region) -> np.ndarray:
        """Make memory for the elements of a box.

        Raises:
            MemoryError: there is not so much. The message names file, bytes and region.
        """
        try:
            return np.empty(box.shape, self.dtype)
        except MemoryError:
            nbytes = size(box.size * self.dtype.itemsize)
            raise MemoryError(
                f"{self.files[0]}: {self.dataset.path}{box} takes {nbytes}, more than memory holds; read it in parts"
            ) from None

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
        elif out.flags.c_contiguous and self.way in INTO_PLACE:
            rows, covered = self.plan(box, out.reshape(-1))
            if covered >= 0:
                self.fetch(rows, out.reshape(-1))
            else:  # single pixels of many frames: the plan must not need more memory than what is read
                for half in box.halves():
                    self.read_once(half, out[within(half, box)])
        else:
            self._cast_into(box, out)

    def straight(self, region: Region) -> tuple[int, int, int] | None:
        """(file, first byte, last byte) where one range of native bytes is the answer, so that
        `read` gives a view of the file; else None.
        """
        return self._run(region) if self.views else None

    def lying(self, region: Region) -> np.ndarray | None:
        """Return a read-only view of a mapped file that is a region, in the byte order of the file; None where no one
        range of it holds the elements that `read` gives, in order.

        Raises:
            SourceError: the bytes are missing, truncated or unreadable; the message names file, bytes and region.
        """
        lies = cast(Decoder, self.dataset.decoder).lies_as if self.way.as_stored and not self.backend.copies else None
        if lies is None or lies.backwards > 1 or (run := self._run(region)) is None:
            return None
        try:
            return self.backend.span(*run, NO_SCRATCH).view(lies.stored).reshape(region.shape)
        except SourceError as error:
            raise self.unread(error, region) from None

    def _run(self, region: Region) -> tuple[int, int, int] | None:
        """Return (file, first byte, last byte) of the one range of a region whose elements lie in order; else None."""
        width = self.stored.itemsize
        nbytes = region.size * width
        if nbytes > self.longest:
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
                    np.copyto(out[within(tile, region)], part.reshape(tile.shape), casting="unsafe")
                else:
                    np.copyto(flat[done : done + part.size], part, casting="unsafe")
                    done += part.size

    def _mapped(self, region: Region) -> np.ndarray | None:
        """Return the stored elements of a non-empty region as one axis, where a mapped file holds
        them so, aligned (numpy is slow with others); else None.
        """
        run = None if self.backend.copies or not self.plain else self._run(region)
        return (
            None
            if run is None or run[1] % self.stored.itemsize
            else self.backend.span(*run, NO_SCRATCH).view(self.stored)
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
                self._correct_into(tile, out[within(tile, region)], corrections)
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
                        out[(*within(tile, box)[1 : nav + 1], ...)], part.reshape(tile.shape)[inner], casting="unsafe"
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
        if 0 <= covered < total and self.dataset.written.head is not None:
            self.dataset.check_head(region)
        tiles = [region] if covered >= 0 else []
        sizes, begins = [total], [0, len(rows)] if tiles else []
        if tiles and total * width > limit:
            tiles = list(chunking.cut(region, width, limit))
            sizes = [tile.size for tile in tiles]
            decoder = cast(Decoder, self.dataset.decoder)
            edges, word = np.cumsum([0, *sizes]), (decoder.word_bytes, decoder.word_pixels)
            cut, found = kernels.ranges.at_edges(rows, edges, *word)
            if not len(found):  # a tile may end within a range of several lines
                cut, found = kernels.ranges.at_edges(kernels.ranges.in_lines(rows, 0), edges, *word)
            rows, begins = cut, found.tolist()
        if not begins:  # each planned by itself: that costs more than what leaves the cache
            for tile in chunking.cut(region, width, max(limit, TILE)):
                with scratch.borrow(tile.size * width) as memory:
                    part = memory[: tile.size * width].view(self.stored)
                    yield tile, None, part, self.gather(tile, part.reshape(tile.shape))
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
                        yield tile, None, self.backend.span(file, start, stop, NO_SCRATCH).view(self.stored), complete
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
        if self.way.as_stored:
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


def _check_out(out: Any, shape: tuple[int, ...], dtype: np.dtype) -> None:
    if not isinstance(out, np.ndarray):
        raise OptionError(f"out is {type(out).__name__}, expected a numpy array of shape {shape} and dtype {dtype}")
    if out.shape != shape or out.dtype != dtype:
        raise OptionError(f"out has shape {out.shape} and dtype {out.dtype}, expected {shape} and {dtype}")
    if not out.flags.writeable:
        raise OptionError("out is read-only")


def _target_dtype(stored: np.dtype, asked: Any) -> np.dtype:
    target = dtype_option(asked).newbyteorder("=")
    if (
        target.kind not in "biufc"
        or target.itemsize > (16 if target.kind == "c" else 8)
        or (stored.kind == "c" and target.kind != "c")
    ):
        raise OptionError(f"{option(dtype=str(target))}: cannot convert {stored} to it")
    return target
