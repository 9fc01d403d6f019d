"""The engine: plan, fetch, decode. The only object with state.

`ArrayReader` turns a region into elements: the layout says which bytes, the backend fetches them, the decoder puts them into
place, straight into the caller's memory wherever that is possible. What is decoded for those who come back for the rest of
it stays in a `ChunkCache`.
"""

from __future__ import annotations

import math
import os
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, cast

import numpy as np

from vfs import scan, tiling
from vfs.backends import Backend
from vfs.buffers import scratch
from vfs.cache import ChunkCache, Shown
from vfs.corrections import Corrections, corrected_box
from vfs.dataset import Dataset
from vfs.decode import BlockDecoder, Decoder
from vfs.errors import DecodeError, OptionError, RegionError, SourceError
from vfs.geometry import ChunkGrid, Region, flat_boxes, select
from vfs.kernels.fetch import in_runs
from vfs.kernels.ranges import COLUMNS, DEST, START, STEP, STOP, at_edges, by_file, split, windows
from vfs.layout import BlockLayout

ROWS = 1 << 17  # read ranges planned at once: a table of 8 MiB
_ANY = 1 << 62
RUN = 1024
"""Bytes: ranges this long on average are read to where they belong, shorter ones together, to be copied there. Measured with rows of 512, 1024
and 4096 bytes in reverse order, as a share of memcpy: 0.38, 0.45, 0.65, and 0.45, 0.37, 0.42 (`scripts/bench formats` has such rows: SER)."""
TILE = 1 << 22
"""Bytes decoded at once where a conversion or correction follows and every tile is planned by itself (`_tiles`)."""

CACHED = 1 << 19
"""Bytes decoded at once where all tiles are planned together: a tile, what it is read into and what it becomes stay in cache (2 MiB a core)."""


class ArrayReader:
    """One array of a set of files, read on demand.

    Indexing follows numpy's basic indexing (integers, slices with any step, Ellipsis). What comes back belongs to the
    caller; where the bytes in the file already are the answer and the backend maps files, it is a read-only view of the file.

    Args:
        dataset: what the format said.
        backend: how bytes get into memory.
        dtype: elements are converted to it (numpy's rules for casting, any change allowed); None: as stored, native byte order.
        chunks: see `vfs.tiling.negotiate`.
        cache: where decoded pieces are kept.
        corrections: applied to every frame; without `dtype` the elements are then floats.

    Attributes:
        shape, ndim, size, nbytes, dtype: as of numpy arrays; dtype in native byte order. stored: dtype before conversion.
        chunks: elements per axis of a chunk; `chunking` says why, and what it costs. chunk_bytes: bytes of one.
        grid: the chunks; together: boxes of chunks that are read together.
        decodes_whole: a part of a block costs as much as the block: partial reads go through the cache.
        as_stored: elements are neither converted nor corrected; plain: they are native bytes in the file; views: reads may give views of it.
        longest: bytes of the longest file.

    Raises:
        OptionError: `dtype` or `chunks` does not fit.
    """

    def __init__(
        self,
        dataset: Dataset,
        backend: Backend,
        *,
        dtype: Any = None,
        chunks: tiling.ChunkSpec = "auto",
        cache: ChunkCache | None = None,
        corrections: Corrections | None = None,
    ) -> None:
        # plain attributes: a request for a small chunk costs about as much as it makes calls
        self.dataset = dataset
        self.backend = backend
        self.corrections = corrections
        self.stored = dataset.dtype
        self.dtype = _target_dtype(self.stored if corrections is None else corrections.dtype(self.stored), dtype)
        self.shape = dataset.shape
        self.ndim = len(dataset.shape)
        self.size = math.prod(dataset.shape)
        self.nbytes = self.size * self.dtype.itemsize
        self.source = _source(dataset, self.dtype.itemsize)
        self.chunking = tiling.negotiate(chunks, self.source)
        self.chunks = self.chunking.shape
        self.chunk_bytes = math.prod(self.chunks) * self.dtype.itemsize
        self.grid = ChunkGrid(self.shape, self.chunks)
        self.cache = ChunkCache() if cache is None else cache
        self.token = object()  # ours in the cache, which others may share: unlike an id it is never given out again
        self.together = ChunkGrid(self.shape, tiling.grouped(self.chunking, self.source, self.cache.limit // 4))
        self.decodes_whole = dataset.decoder.word_bytes == 0
        self.as_stored = self.dtype == self.stored and corrections is None and not self.decodes_whole
        self.plain = not self.decodes_whole and cast(Decoder, dataset.decoder).straight
        self.accumulates = not self.decodes_whole and cast(Decoder, dataset.decoder).accumulates
        self.views = self.as_stored and self.plain and not backend.copies
        self.longest = int(dataset.files.sizes.max(initial=0))

    @property
    def dims(self) -> tuple[str, ...]:
        """A name per axis."""
        return self.dataset.dims

    @property
    def attrs(self) -> Mapping[str, Any]:
        """The format's metadata."""
        return self.dataset.attrs

    @property
    def files(self) -> tuple[str, ...]:
        """Paths of the source files."""
        return self.dataset.files.paths

    @property
    def fill(self) -> Any:
        """What blank places read as."""
        with np.errstate(all="ignore"):
            return np.asarray(self.dataset.fill).astype(self.stored).astype(self.dtype)[()]

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of an array without axes")
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        return (self[n] for n in range(len(self)))

    def __repr__(self) -> str:
        axes = ", ".join(f"{d}: {n}" for d, n in zip(self.dims, self.shape, strict=True))
        return f"<vfs.VirtualArray {self.dataset.path} ({axes}) {self.dtype} chunks {self.chunks} of {len(self.files)} file{'s' * (len(self.files) != 1)}>"

    def __getitem__(self, key: Any) -> Any:
        chosen = select(key, self.shape)
        got = self.read(chosen.region)
        part = got[chosen.post]
        if isinstance(part, np.ndarray) and part.nbytes * 2 <= got.nbytes and got.base is None:
            return part.copy()  # do not keep what was read only to be stepped over
        return part

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if copy is False:
            raise ValueError("a virtual array is read from files: it cannot become a numpy array without a copy")
        got = self.read()
        if dtype is not None:
            got = got.astype(dtype, copy=False)
        return got if got.flags.writeable or not copy else got.copy()

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
        try:
            if out is None:
                if self.views and (straight := self.straight(box)):
                    return self.backend.span(*straight, scratch_none).view(self.dtype).reshape(box.shape)
                out = np.empty(box.shape, self.dtype)
            else:
                _check_out(out, box.shape, self.dtype)
            if box.size and self.as_stored and out.flags.c_contiguous:
                flat = out.reshape(-1)
                rows, covered = self._plan(box, flat)
                if covered < 0:
                    self._gather(box, out)
                else:
                    self._fetch(rows, flat)
            elif box.size:
                self._read_into(box, out)
        except SourceError as error:
            raise type(error)(f"{error} [reading {self.dataset.path}{box}]", error.errno or 5) from None
        return out

    def read_chunk(self, position: Sequence[int]) -> np.ndarray:
        """A whole chunk, filled up beyond the array's edge.

        Returns: dtype[chunks], C-contiguous.

        Raises:
            RegionError: there is no such chunk.
            SourceError: see `read`.
        """
        grid = self.grid
        if not grid.has(position):
            raise RegionError(f"chunk {tuple(position)}: the array has {grid.counts} chunks")
        region = grid.region(position)
        if self.together.chunks != self.chunks:
            part = self._from_group(region, self.together)
            if region.shape == self.chunks:
                return part
            out = np.full(self.chunks, self.fill, self.dtype)
            out[tuple(slice(0, n) for n in region.shape)] = part
            return out
        if region.shape == self.chunks:
            return self.read(region)
        out = np.full(self.chunks, self.fill, self.dtype)
        self.read(region, out[tuple(slice(0, n) for n in region.shape)])
        return out

    def cached_chunk(self, position: tuple[int, ...], shown: Shown | None = None) -> np.ndarray:
        """`read_chunk` through the cache, for readers who come back for the rest of a chunk. Read-only. `shown`: see `ChunkCache.get`."""
        return self.cache.get((self.token, position), lambda: _owned(self.read_chunk(position)), shown)

    def read_chunk_flat(self, position: Sequence[int], first: int, last: int) -> np.ndarray:
        """The elements `first` to `last` (half-open) of a chunk in C order, as one axis; the others are not read.

        Raises:
            SourceError: see `read`.
        """
        region = self.grid.region(position)
        out = np.full(last - first, self.fill, self.dtype)
        done = 0
        for box in flat_boxes(self.chunks, first, last):
            stop = [min(b, n) for b, n in zip(box.stop, region.shape, strict=True)]
            if all(a < b for a, b in zip(box.start, stop, strict=True)):
                part = out[done : done + box.size].reshape(box.shape)[tuple(slice(0, b - a) for a, b in zip(box.start, stop, strict=True))]
                self.read(
                    Region.box([o + a for o, a in zip(region.start, box.start, strict=True)], [o + b for o, b in zip(region.start, stop, strict=True)]), part
                )
            done += box.size
        return out

    def read_flat(self, first: int, last: int) -> np.ndarray:
        """The elements `first` to `last` (half-open) of the array in C order, as one axis.

        Raises:
            SourceError: see `read`.
        """
        out = np.empty(last - first, self.dtype)
        done = 0
        for box in flat_boxes(self.shape, first, last):
            part = out[done : done + box.size].reshape(box.shape)
            if self.decodes_whole:
                self._copy_cached(box, part)
            else:
                self.read(box, part)
            done += box.size
        return out

    def _copy_cached(self, box: Region, out: np.ndarray) -> None:
        grid = self.grid
        for position in grid.touched(box):
            here = grid.region(position)
            lo = [max(a, b) for a, b in zip(here.start, box.start, strict=True)]
            hi = [min(a, b) for a, b in zip(here.stop, box.stop, strict=True)]
            chunk = self.cached_chunk(position)
            to = tuple(slice(a - o, b - o) for a, b, o in zip(lo, hi, box.start, strict=True))
            out[to] = chunk[tuple(slice(a - o, b - o) for a, b, o in zip(lo, hi, here.start, strict=True))]

    def tiles(
        self, shape: tiling.ChunkSpec | None = None, *, access: str | None = None, roi: Any = None, workers: int | None = None
    ) -> Iterator[tuple[Region, np.ndarray]]:
        """The whole array, a tile at a time, navigation axes slowest, with the next tiles being read meanwhile.

        At most `2 * workers` tiles are under way; leaving the loop early ends the reading. Where tiles take a little of every
        frame, neighbouring ones are read together, so that frames are not read anew for each.

        Args:
            shape: elements per axis (-1: the whole axis) or bytes; None: the chunks.
            access: "frames", "scan" or "balanced" instead of a shape.
            roi: only these frames: bool mask over the navigation axes, or flat positions; the navigation axes are then one.
            workers: threads that read; None: one a core, at most four; 0: read in the caller's thread, without reading ahead.

        Yields: (region, elements of that region). With `roi`, of the array that shows only these frames.

        Raises:
            OptionError: an argument does not fit.
            SourceError: see `read`.
        """
        of = self if roi is None else self._selected(roi)
        spec = access if shape is None else shape
        chunking = of.chunking if spec is None else tiling.negotiate(spec if isinstance(spec, str | int) else tuple(spec), of.source)
        grid = ChunkGrid(of.shape, chunking.shape)
        group = ChunkGrid(of.shape, tiling.grouped(chunking, of.source, of.cache.limit // 4))
        regions = (grid.region(position) for position in grid.touched(Region.whole(of.shape)))
        threads = min(4, os.cpu_count() or 1) if workers is None else workers
        return _ahead(regions, lambda region: of._from_group(region, group), threads)

    def _selected(self, roi: Any) -> ArrayReader:
        dataset = self.dataset.arranged(roi=np.asarray(roi))
        return ArrayReader(dataset, self.backend, dtype=self.dtype, cache=self.cache, corrections=self.corrections)

    def _from_group(self, region: Region, group: ChunkGrid) -> np.ndarray:
        """A box, read together with those beside it where `group` has larger boxes than this."""
        position = tuple(a // c for a, c in zip(region.start, group.chunks, strict=True))
        whole = group.region(position)
        if whole == region:
            return self.read(region)
        key = (self.token, "group", whole)
        read = self.cache.get(key, lambda: np.array(self.read(whole)))
        return read[tuple(slice(a - o, b - o) for a, b, o in zip(region.start, region.stop, whole.start, strict=True))].copy()

    @property
    def valid(self) -> np.ndarray:
        """bool[navigation shape]: where a frame is stored; elsewhere the array is blank."""
        return scan.valid(self.dataset)

    @property
    def valid_slices(self) -> tuple[tuple[slice, ...], tuple[slice, ...]]:
        """(the smallest box of the scan that holds all stored frames, the longest run of whole scan rows that are stored)."""
        return scan.bounding(self.valid), scan.inner(self.valid)

    def unroi(self, result: Any) -> np.ndarray:
        """Put a result a selected frame back into the scan.

        Args:
            result: [frames that roi selected, …].

        Returns: [scan shape, …], with NaN, NaT, False, 0, '' or None where nothing was selected.

        Raises:
            OptionError: the array was opened without roi, or `result` has another length.
        """
        return scan.unroi(self.dataset, result)

    def straight(self, region: Region, converted: bool = False) -> tuple[int, int, int] | None:
        """(file, first byte, last byte) where one range of native bytes is the answer, so that `read` gives a view of the file; else None.

        Args:
            converted: also where the elements are yet to be converted. To be asked of data that lies straight in mapped files only.
        """
        if not (self.views or converted) or region.size * self.stored.itemsize > self.longest:
            return None
        rows, _ = self.dataset.layout.read_ranges(region, 1)
        if len(rows) != 1:
            return None
        file, start, stop, _, step, *_ = rows[0].tolist()
        if (step != 1 and stop - start > self.stored.itemsize) or stop - start != region.size * self.stored.itemsize:
            return None
        return file, start, stop

    def _read_into(self, region: Region, out: np.ndarray) -> None:
        """Read a non-empty region, corrected and converted where that is asked for, into memory of any strides."""
        if self.corrections:
            self._correct_into(region, out, self.corrections)
            return
        if self.decodes_whole:  # not in tiles: a block is taken apart once, whatever it is cast to and wherever it goes
            with np.errstate(all="ignore"):
                self._gather_blocks(region, out)
            return
        width = self.stored.itemsize
        if not self.backend.copies and self.plain:
            run = self.straight(region, converted=True)
            if run is not None and run[1] % width == 0:  # from the file to where they belong; from odd bytes numpy is slow
                with np.errstate(all="ignore"):
                    np.copyto(out, self.backend.span(*run, scratch_none).view(self.stored).reshape(region.shape), casting="unsafe")
                return
        flat = out.reshape(-1) if out.flags.c_contiguous else None
        done = 0
        with np.errstate(all="ignore"):
            for tile, rows, part, _ in self._tiles(region, CACHED):
                if rows is not None:
                    self._fetch(rows, part)
                if flat is None:
                    np.copyto(out[_within(tile, region)], part.reshape(tile.shape), casting="unsafe")
                else:
                    np.copyto(flat[done : done + part.size], part, casting="unsafe")
                    done += part.size

    def _correct_into(self, region: Region, out: np.ndarray, corrections: Corrections) -> None:
        """Read a non-empty region in tiles that stay in cache: as stored, corrected, then converted to where it belongs."""
        stored, made, nav = self.stored, corrections.dtype(self.stored), self.dataset.nav_ndim
        box, corner, inner = corrected_box(corrections, region, nav)
        h, w = (1, *box.shape[nav:])[-2:]
        if h * w * made.itemsize > TILE and region.size > 1 and region.size * made.itemsize > TILE:  # in parts of frames, each with its halo
            for tile in tiling.cut(region, made.itemsize, TILE):
                self._correct_into(tile, out[_within(tile, region)], corrections)
            return
        direct = out.reshape(-1) if out.flags.c_contiguous and out.dtype == made and box.shape == region.shape else None
        blank = np.asarray(self.dataset.fill).astype(stored).astype(made)
        correct = corrections.on(corner, (h, w))
        done = 0
        with scratch.borrow(max(max(TILE, CACHED) // stored.itemsize, h * w) * made.itemsize) as memory, np.errstate(all="ignore"):
            for tile, rows, raw, complete in self._tiles(box, max(CACHED, h * w * stored.itemsize)):
                if rows is not None:
                    self._fetch(rows, raw)
                part = direct[done : done + raw.size] if direct is not None else memory[: raw.size * made.itemsize].view(made)
                done += raw.size
                correct(raw.reshape(-1, h * w), part.reshape(-1, h * w))
                if not complete:  # what is not stored is no signal to be corrected
                    np.copyto(part.reshape(tile.shape), blank, where=scan.blank(self.dataset, tile))
                if direct is None:
                    np.copyto(out[(*_within(tile, box)[1 : nav + 1], ...)], part.reshape(tile.shape)[inner], casting="unsafe")

    def _tiles(self, region: Region, limit: int) -> Iterator[tuple[Region, np.ndarray | None, np.ndarray, bool]]:
        """The stored elements of a non-empty region in tiles along its slowest axes, which are planned all at once where ranges allow.

        Args:
            limit: bytes of a tile at most.

        Yields: (tile, ranges that are yet to be fetched or None, memory for the tile's elements as one axis, valid until the next one, or
            these themselves, whether all of the region is stored).
        """
        width = self.stored.itemsize
        rows, covered = (_NO_ROWS, -1) if self.decodes_whole else self.dataset.layout.read_ranges(region, ROWS)
        total = region.size
        tiles = [region] if covered >= 0 else []
        sizes, begins = [total], [0, len(rows)] if tiles else []
        if tiles and total * width > limit:
            tiles = list(tiling.cut(region, width, limit))
            sizes = [tile.size for tile in tiles]
            decoder = cast(Decoder, self.dataset.decoder)
            rows, found = at_edges(rows, np.cumsum([0, *sizes]), decoder.word_bytes, decoder.word_pixels)
            begins = found.tolist()
        if not begins:  # each planned by itself: that costs more than what leaves the cache
            for tile in tiling.cut(region, width, max(limit, TILE)):
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
                    if step == 1 and stop - start == size * width and start % width == 0:  # as it lies in the map
                        yield tile, None, self.backend.span(file, start, stop, scratch_none).view(self.stored), complete
                        continue
                part = memory[: size * width].view(self.stored)
                if clear:
                    part.fill(self.dataset.fill)
                yield tile, rows[first:last], part, complete

    def _gather(self, region: Region, out: np.ndarray) -> bool:
        """Read a non-empty region as stored into C-contiguous memory. Returns whether all of it is stored; the rest is filled."""
        if self.decodes_whole:
            return self._gather_blocks(region, out)
        rows, covered = self._plan(region, out.reshape(-1))
        if covered < 0:  # single pixels of many frames: the plan must not need more memory than what is read
            first, second = region.halves()
            complete = self._gather(first, out[_within(first, region)])
            return self._gather(second, out[_within(second, region)]) and complete
        self._fetch(rows, out.reshape(-1))
        return covered >= out.size

    def _plan(self, region: Region, flat: np.ndarray) -> tuple[np.ndarray, int]:
        """The read ranges of a region, and how many elements they cover: -1 where it would be more than `ROWS` ranges.

        What they do not cover is filled in `flat`; so is all of it where they add to it.
        """
        rows, covered = self.dataset.layout.read_ranges(region, ROWS)
        if 0 <= covered < flat.size or self.accumulates:
            flat.fill(self.dataset.fill)
        return rows, covered

    def _fetch(self, rows: np.ndarray, flat: np.ndarray) -> None:
        """Put the elements of read ranges into their places."""
        decode, backend = cast(Decoder, self.dataset.decoder).decode, self.backend
        if len(rows) > 1:
            rows = by_file(rows)
        if self.plain and backend.in_place and in_runs(rows, RUN):
            memory = flat.view(np.uint8)
            for file, start, stop, first, last, _ in windows(rows, _ANY).tolist():
                backend.span(file, start, stop, memory, rows[first:last], flat.itemsize)
            return
        wins = windows(rows, backend.window).tolist() if len(rows) > 1 else _one_window(rows)
        if not backend.copies:
            for file, start, stop, first, last, _ in wins:
                decode(rows[first:last], backend.span(file, start, stop, scratch_none), start, flat)
            return
        longest = max((win[2] - win[1] for win in wins), default=0)
        decoder = cast(Decoder, self.dataset.decoder)
        with scratch.borrow(min(longest, max(backend.window, decoder.word_bytes)) + backend.margin) as memory:
            for file, start, stop, first, last, wanted in wins:
                part = rows[first:last]
                if stop - start <= backend.window:
                    decode(part, backend.span(file, start, stop, memory, part if wanted * 2 < stop - start else None), start, flat)
                    continue
                # a long run that has to be decoded: in pieces that stay in cache
                runs = split(part, backend.window, decoder.word_bytes, decoder.word_pixels)
                for k, (a, b) in enumerate(runs[:, START : STOP + 1].tolist()):
                    decode(runs[k : k + 1], backend.span(file, a, b, memory), a, flat)

    def _gather_blocks(self, region: Region, out: np.ndarray) -> bool:
        """Read blocks that decode only as a whole, each once as long as it stays in the cache, into memory of any dtype and strides."""
        layout = cast(BlockLayout, self.dataset.layout)
        parts: list[tuple[Any, ...]] = []
        covered = 0
        for box, shape, lead, where in layout.touched(region):
            to, of = [], []
            size, whole = 1, True
            for lo, hi, into, length, start, stop, step in zip(box.start, box.stop, lead, shape, region.start, region.stop, region.step, strict=True):
                a = start if lo <= start else start + -(-(lo - start) // step) * step
                count = max(0, -(-(min(stop, hi) - a) // step))
                first = (a - start) // step
                to.append(slice(first, first + count))
                of.append(slice(into + a - lo, into + a - lo + count * step, step))
                size *= count
                whole = whole and count == length and step == 1
            if size:
                covered += size
                parts.append((where, shape, tuple(to), tuple(of), whole))
        if covered < out.size:
            out[...] = np.asarray(self.dataset.fill).astype(self.stored)
        decode_into = getattr(self.dataset.decoder, "decode_into", None) if out.dtype == self.stored else None
        straight = []  # whole blocks that go to where they belong; not one by one: 5 µs less for each
        for where, shape, to, of, whole in parts:
            target = out[to]
            if whole and decode_into is not None and target.flags.c_contiguous:
                kept = self.cache.peek((self.token, where[3]))
                if kept is None:
                    straight.append((where, target))
                    continue
                target[...] = kept
            else:
                target[...] = self._block(where, shape)[of]
        if straight:
            self._decode_into(straight, decode_into)
        return covered >= out.size

    def _decode_into(self, blocks: Sequence[tuple[Any, np.ndarray]], decode_into: Any) -> None:
        backend = self.backend
        longest = max(where[2] for where, _ in blocks) + backend.margin if backend.copies else 0
        with scratch.borrow(longest) as memory:
            for where, target in blocks:
                file, start, size, number = where
                data = backend.span(file, start, start + size, memory)
                try:
                    decode_into(data, number, target)
                except DecodeError as error:
                    raise self._undecoded(where, error) from None

    def _undecoded(self, where: tuple[int, int, int, int], error: DecodeError) -> DecodeError:
        file, start, size, _ = where
        return DecodeError(f"{self.files[file]}: bytes {start:,} to {start + size:,}: {error}")

    def _block(self, where: tuple[int, int, int, int], shape: tuple[int, ...]) -> np.ndarray:
        file, start, size, number = where

        def make() -> np.ndarray:
            with scratch.borrow(size + self.backend.margin) as memory:
                data = self.backend.span(file, start, start + size, memory)
                try:
                    made = cast(BlockDecoder, self.dataset.decoder).decode_block(data, number, shape)
                except DecodeError as error:
                    raise self._undecoded(where, error) from None
                return made if made.base is None else made.copy()  # it may be a view of the scratch memory, which is ours only here

        return self.cache.get((self.token, number), make)


def _ahead(regions: Iterator[Region], read: Callable[[Region], np.ndarray], workers: int) -> Iterator[tuple[Region, np.ndarray]]:
    """(region, what was read) in order, with up to `2 * workers` of them under way."""
    if workers < 1:
        for region in regions:
            yield region, read(region)
        return
    with ThreadPoolExecutor(workers, "vfs-tiles") as pool:
        waiting: deque[tuple[Region, Future[np.ndarray]]] = deque()
        try:
            for region in regions:
                waiting.append((region, pool.submit(read, region)))
                if len(waiting) >= 2 * workers:
                    done, future = waiting.popleft()
                    yield done, future.result()
            while waiting:
                done, future = waiting.popleft()
                yield done, future.result()
        finally:
            for _, future in waiting:
                future.cancel()


def _owned(array: np.ndarray) -> np.ndarray:
    """The same elements in memory of their own."""
    return array if array.base is None else array.copy()


_NO_ROWS = np.empty((0, COLUMNS), np.int64)

scratch_none = np.empty(0, np.uint8)
"""For backends that give views and use no scratch."""


def _check_out(out: Any, shape: tuple[int, ...], dtype: np.dtype) -> None:
    if not isinstance(out, np.ndarray):
        raise OptionError(f"out is {type(out).__name__}, expected a numpy array of shape {shape} and dtype {dtype}")
    if out.shape != shape or out.dtype != dtype:
        raise OptionError(f"out has shape {out.shape} and dtype {out.dtype}, expected {shape} and {dtype}")
    if not out.flags.writeable:
        raise OptionError("out is read-only")


def _one_window(rows: np.ndarray) -> list[list[int]]:
    """What `windows` finds in one range or none."""
    if len(rows) == 0:
        return []
    file, start, stop = rows[0, :DEST].tolist()
    return [[file, start, stop, 0, 1, stop - start]]


def _within(tile: Region, region: Region) -> tuple[Any, ...]:
    """Where a tile that `tiling.cut` made of a region lies in the region's elements: an index that gives a view, also where there are no axes."""
    cut = zip(tile.start, tile.stop, region.start, region.step, strict=True)
    return (..., *(slice((a - o) // s, (b - o - 1) // s + 1) for a, b, o, s in cut))


def _source(dataset: Dataset, itemsize: int) -> tiling.Source:
    decoder = dataset.decoder
    if decoder.word_bytes == 0:
        return tiling.Source(dataset.shape, dataset.nav_ndim, itemsize, dataset.dtype.itemsize, dataset.block, whole=True)
    word = cast(Decoder, decoder).word_pixels
    return tiling.Source(dataset.shape, dataset.nav_ndim, itemsize, decoder.word_bytes / word, dataset.block, word=word)


def _target_dtype(stored: np.dtype, asked: Any) -> np.dtype:
    if asked is None:
        return stored
    try:
        target: np.dtype = np.dtype(asked).newbyteorder("=")
    except TypeError:
        raise OptionError(f"dtype={asked!r}: not a numpy dtype") from None
    if target.kind not in "biufc" or target.itemsize > (16 if target.kind == "c" else 8) or (stored.kind == "c" and target.kind != "c"):
        raise OptionError(f"dtype={target}: cannot convert {stored} to it")
    return target
