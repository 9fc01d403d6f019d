"""Brings frames into reach of reductions, in the cheapest way that a set allows.

Where the bytes in a file are pixels as the processor knows them, perhaps swapped, frames are taken
where they are: in the mapped file, or in what was read of it. So are those whose pixels come
backwards, some at a time (R64), by reductions that turn their masks instead, or what they add up. All
others are decoded, corrected and converted in tiles that stay in the processor's cache, and the memory
of one tile is that of the next. Of frames of which only some rows are looked at only these are read and
decoded. Large frames that are stored in patches, as the sectors of a camera, come one patch of many
frames after the other where reductions take them so. Frames that are not stored are left out.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise, product
from typing import Any, Protocol, TypeVar, cast

import numpy as np

from vfs.buffers import scratch
from vfs.engine.array import ArrayReader
from vfs.engine.reader import RegionReader
from vfs.engine.windows import read_in_turn
from vfs.errors import NotYetError, OptionError, SourceError
from vfs.kernels.reduce.places import P_FILE, P_FRAME, P_START, P_STOP, groups
from vfs.model.as_scan import as_scan
from vfs.model.layout import FrameLayout, Scan, altered
from vfs.model.region import ChunkGrid, Region, flat_boxes
from vfs.model.scan_shape import flat_positions
from vfs.model.wording import option
from vfs.reduce.demand import Demand
from vfs.reduce.held_frames import HeldFrames
from vfs.reduce.reduction import FrameBlock, Takes, taken_as
from vfs.sources.given import positions
from vfs.sources.local import LocalSources

T = TypeVar("T")

DECODED = 4 << 20
"""Bytes of frames that are decoded at once, at most. What is made of each pixel over the scan gains
from many frames: sums of R64, when it was decoded for them, ran at 0.48 of memcpy with tiles of
512 KiB, 0.71 with 1 MiB, 0.81 with 2, 0.99 with 4. The others gain up to 2 MiB (`scripts/bench reduce`).
"""
READ = 4 << 20
"""Bytes of a file that are read at once where they are not mapped. Of a server it is as much as a request brings: sums
of frames that are 100 ms away ran at 0.88 of plain requests of 8 MiB with 4 MiB, at 1.01 with 8.
"""
LARGE = 32 << 20
"""Bytes of large frames that are read or decoded at once, at most, for what is made of each pixel over the scan:
it goes through its sums once for all of them. Where frames lie in mapped files it is as much as a backend
has in a span, 64 MiB: 16 raw frames of 8 MiB add up in 13.8 ms, in 25.6 with half of that at once.
"""
PATCHED = 8 << 20
"""Bytes of a patch of several frames that are decoded at once: they stay in the processor's cache, and what they add up
to is gone through once for all of them. Sum of 32 frames of K2 IS, 7.6 MB each: 4 MiB 45 ms, 8 MiB 34, 16 MiB 37;
four whole frames at once 83.
"""
FRAMES = 1 << 15
"""Frames that are given at once, however small they are."""
BOX = 256 << 20
"""Bytes of a box of blocks at most: of blocks that span so much of the scan that one more of a
frame does not fit, some are decoded more than once.
"""
UNIT = 4 << 20
"""Bytes of frames in blocks that are decoded at once, unless blocks are longer. Maximum of 1,024 frames of 128 KiB in
HDF5 with bitshuffle, of which the codec takes 47 ms: 512 KiB 65 ms, 1 MiB 57, 2 MiB 53, 4 MiB 51, 8 MiB 50.
"""
PLANNED = 4096
"""Frames whose places are found at once."""
SEGMENT = 64 << 20
"""Bytes of frames whose tiles are planned at once."""


class FrameSupply(Protocol):
    """Gives the frames of a pass, in units that are shared out among threads.

    Attributes:
        units: how many there are.
    """

    units: int

    def places(self, first: int, last: int) -> tuple[int, int]:
        """Return between which places of the selection (half-open) the frames of the units `first` to `last` are."""

    def blocks(self, first: int, last: int) -> Generator[FrameBlock, None, None]:
        """Go through the frames of the units `first` to `last` (half-open) that are stored. Each block
        lives until the next one.

        Raises:
            SourceError: bytes are missing, truncated or unreadable.
        """


def supply_of(
    array: ArrayReader,
    chosen: np.ndarray | None,
    stored: HeldFrames,
    demand: Demand,
) -> FrameSupply:
    """Choose what gives the frames of an array.

    Args:
        chosen: int64[m] positions in the array's scan; None: all of them.
        stored: which of those selected are stored.
        demand: what suits the reductions that take them.
    """
    dataset = array.dataset
    if not isinstance(dataset.layout, FrameLayout) or dataset.nav_ndim == 0:
        return _Boxes(array, chosen, stored, demand.rows)
    flat = dataset  # its name says in errors what numbers of frames count
    if chosen is not None:
        flat = altered(as_scan(dataset, Scan(chosen=chosen)), path=f"selected frames of {dataset.path}")
    elif dataset.nav_ndim > 1:
        flat = altered(dataset.along_one_axis(), path=f"frames of {dataset.path}")
    reader = RegionReader(flat, array.backend, dtype=array.dtype, cache=array.cache, corrections=array.corrections)
    return _Frames(reader, stored, demand)


def _named(windows: Iterator[T], reader: RegionReader, region: Region) -> Iterator[T]:
    """Go through windows; the error of one that cannot be read names the region."""
    try:
        yield from windows
    except SourceError as error:
        raise reader.unread(error, region) from None


def _of_elements(elements: np.ndarray, skipped: int, at: np.ndarray) -> FrameBlock:
    """Make a block of frames that lie one after the other in memory.

    Args:
        elements: [n, …]; skipped: pixels of each frame that are left out before those that are there.
    """
    held = elements.astype(np.float32) if elements.dtype == np.float16 else elements  # numba has no float16
    like = np.empty(0, taken_as(held.dtype) if held.dtype.kind in "biufc" else np.uint8)
    places = held.ctypes.data - skipped * held.itemsize + held[0].nbytes * np.arange(len(held))
    return FrameBlock(places, like, None, at, elements, held)


class _Frames:
    """Gives frames of a scan of one axis, in a layout of frames. A unit is a frame.

    Args:
        stored, demand: see `supply_of`.

    Attributes:
        least: bytes of frames that are taken at once where frames are large.
        wanted: shape of what is wanted of a frame; size: its pixels; skipped: pixels of a frame before it.
        in_place: frames can be taken where they lie in the file; order: see `vfs.kernels.reduce`;
            turned: see `FrameBlock`.
        patches: in which frames are given; (): as wholes. together: frames that are given so at once.
    """

    def __init__(self, reader: RegionReader, stored: HeldFrames, demand: Demand) -> None:
        self.reader, self.stored, self.tile_bytes = reader, stored, demand.tile_bytes
        rows, takes, tile_frames = demand.rows, demand.takes, demand.tile_frames
        self.units = len(stored)
        sig = reader.shape[1:]
        self.wanted = (rows[1] - rows[0], *sig[1:]) if sig else ()
        self.low, self.high = (rows[0], *[0] * (len(sig) - 1)) if sig else (), (rows[1], *sig[1:]) if sig else ()
        self.size = math.prod(self.wanted)
        nbytes = max(1, self.size * reader.dtype.itemsize)
        self.skipped = rows[0] * math.prod(sig[1:]) if sig else 0
        run = reader.frame_run if Takes.PLACES in takes else None
        lies = None if run is None else run.lies_as
        stored_as, backwards = (np.dtype(object), 1) if lies is None else lies
        self.turned: int = backwards
        self.layout = cast(FrameLayout, reader.dataset.layout)
        self.in_place = (
            (Takes.TURNED in takes or self.turned == 1)
            and stored_as.kind in "biuf"
            and stored_as.newbyteorder("=") != np.float16
            and reader.way.as_stored
        )
        self.order = None if stored_as.isnative else True
        most = reader.backend.window if self.in_place and not reader.backend.copies else LARGE
        self.least = max(nbytes, min(tile_frames, most // nbytes) * nbytes)
        apart = Takes.PATCHES in takes and not self.in_place and reader.corrections is None and self.wanted == sig
        large = nbytes * tile_frames > PATCHED
        self.patches = self.layout.patches if apart and large else ()
        longest = max((patch.size for patch in self.patches), default=1) * reader.dtype.itemsize
        self.together = max(1, PATCHED // longest // tile_frames) * tile_frames

    def _region(self, first: int, last: int) -> Region:
        """Return the wanted rows of some frames."""
        return Region.box((first, *self.low), (last, *self.high))

    def places(self, first: int, last: int) -> tuple[int, int]:
        return first, last

    def blocks(self, first: int, last: int) -> Generator[FrameBlock, None, None]:
        if self.patches:
            for at in range(first, last, self.together):
                for a, b in self.stored.runs(at, min(last, at + self.together)):
                    yield from self._in_patches(at + a, at + b)
            return
        step = max(
            1, min(PLANNED if self.in_place else 1 << 30, SEGMENT // max(1, self.size * self.reader.dtype.itemsize))
        )
        for at in range(first, last, step):
            region = self._region(at, min(last, at + step))
            table = self._places(region) if self.in_place else None
            yield from self._decoded(region) if table is None else self._where_they_are(table, at, region)

    def _places(self, region: Region) -> np.ndarray | None:
        """Find where the frames of a region are in files; None where some are in pieces."""
        found = self.layout.locate(np.arange(region.start[0], region.stop[0]))
        held = np.flatnonzero(found[:, 0] >= 0)
        width = self.reader.stored.itemsize
        if len(held) < len(found):
            found = found[held]
        if (found[:, 2] < (self.skipped + self.size) * width).any():
            return None
        table = np.empty((len(found), P_FRAME + 1), np.int64)
        table[:, P_FILE], table[:, P_FRAME] = found[:, 0], held
        table[:, P_START] = found[:, 1] + self.skipped * width
        table[:, P_STOP] = table[:, P_START] + self.size * width
        return table

    def _where_they_are(self, table: np.ndarray, at: int, region: Region) -> Iterator[FrameBlock]:
        """Give frames where they lie in mapped files, or in what is read of files.

        Args:
            table: see `_places`; at: the place in the selection that its first frame has.
        """
        reader, width = self.reader, self.reader.stored.itemsize
        backend, nbytes = reader.backend, self.size * width
        frames = max(1, min(FRAMES, max(self.tile_bytes, self.least) // nbytes))
        parts = np.empty((len(table), 5), np.int64)
        read = max(READ if backend.parallel == 1 else backend.window, self.least)
        cut = (frames, read) if backend.copies else (len(table), 2 * backend.window)
        parts = parts[: groups(table, *cut, parts)]
        like = np.empty(0, taken_as(reader.stored))
        wins = np.column_stack([parts, (parts[:, 4] - parts[:, 3]) * nbytes])
        windows = read_in_turn(backend, table, wins)  # the threads of a pass wait for many servers already
        for lo, part, data in _named(windows, reader, region):
            places = part[:, P_START] + (data.ctypes.data - lo - self.skipped * width)
            where = part[:, P_FRAME] + at
            for k in range(0, len(part), frames):
                here = places[k : k + frames], like, self.order, where[k : k + frames]
                yield FrameBlock(*here, None, data, self.turned)

    def _in_patches(self, first: int, last: int) -> Iterator[FrameBlock]:
        """Give frames that are all stored, one patch after the other."""
        dtype, at = self.reader.dtype, np.arange(first, last)
        for patch in self.patches:
            region = Region.box((first, *patch.start), (last, *patch.stop))
            with scratch.borrow(region.size * dtype.itemsize) as memory:
                part = memory[: region.size * dtype.itemsize].view(dtype).reshape(region.shape)
                block = _of_elements(self.reader.read(region, part), 0, at)
                yield replace(block, patch=patch, last=patch is self.patches[-1])

    def _decoded(self, region: Region) -> Iterator[FrameBlock]:
        """Give frames that are decoded, corrected and converted in tiles."""
        if not self.size:
            return
        nbytes = self.size * self.reader.dtype.itemsize
        for tile, flat in self.reader.passing(region, max(self.least, min(self.tile_bytes, DECODED, FRAMES * nbytes))):
            first, last = tile.start[0], tile.stop[0]
            yield from self._stored(first, last, flat.reshape(last - first, *self.wanted))

    def _stored(self, first: int, last: int, elements: np.ndarray) -> Iterator[FrameBlock]:
        """Leave out the frames that are not stored of the frames `first` to `last`."""
        for a, b in self.stored.runs(first, last):
            yield _of_elements(elements[a:b], self.skipped, np.arange(first + a, first + b))


class _Boxes:
    """Gives frames of an array that is stored in blocks of any shape. A unit is a box of the scan that
    is as long as the blocks are, so that each is decoded once.

    Args:
        chosen, stored: see `supply_of`; rows: see `Demand`.

    Attributes:
        together: how many units at most are planned together. Only if they are a single position long along
            all axes but the last one do the frames of one come behind those of the other.
    """

    def __init__(
        self, array: ArrayReader, chosen: np.ndarray | None, stored: HeldFrames, rows: tuple[int, int]
    ) -> None:
        self.reader, self.stored = array, stored.flags
        n = array.dataset.nav_ndim
        nav, sig, block = array.shape[:n], array.shape[n:], array.dataset.block or (1,) * array.ndim
        if sig and array.dataset.layout.whole:  # what blocks decode to belongs to whole blocks: nothing is copied
            rows = rows[0] // block[n] * block[n], min(sig[0], -(-rows[1] // block[n]) * block[n])
        unit = [max(1, min(b, m)) for b, m in zip(block, nav, strict=False)]
        nbytes = max(1, math.prod(sig) * array.dtype.itemsize)
        while n and max(unit) > 1 and math.prod(unit) * nbytes > BOX:
            axis = unit.index(max(unit))
            unit[axis] = -(-unit[axis] // 2)
        if n:
            unit[-1] *= max(1, min(-(-nav[-1] // unit[-1]), UNIT // max(1, math.prod(unit) * nbytes)))
        self.grid = ChunkGrid(nav, tuple(unit))
        self.units = math.prod(self.grid.counts)
        self.held = self._held(chosen, self.stored) if n and (chosen is not None or not self.stored.all()) else None
        if self.held is not None:
            self.units = len(self.held)
        blocks = math.prod(-(-m // max(1, b)) for m, b in zip((*unit, *sig), block, strict=True))
        together = min(SEGMENT // (math.prod(unit) * nbytes), PLANNED // blocks)
        self.together = max(1, together) if math.prod(unit[:-1]) == 1 else 1
        self.low = (rows[0], *[0] * (len(sig) - 1)) if sig else ()
        self.high = (rows[1], *sig[1:]) if sig else ()
        self.skipped = rows[0] * math.prod(sig[1:]) if sig else 0
        self.chosen = chosen
        self.order = None if chosen is None else np.argsort(chosen, kind="stable")
        self.sorted = None if chosen is None or self.order is None else chosen[self.order]

    def _held(self, chosen: np.ndarray | None, stored: np.ndarray) -> np.ndarray:
        """Return int64[m], the units in which frames are selected and stored: the others are not gone through."""
        nav, unit = self.grid.shape, self.grid.chunks
        if chosen is not None:
            wanted = np.unravel_index(chosen[stored], nav)
            places = tuple(at // step for at, step in zip(wanted, unit, strict=True))
            return np.unique(np.ravel_multi_index(places, self.grid.counts))
        some = stored.reshape(nav)
        for axis, step in enumerate(unit):
            some = np.logical_or.reduceat(some, np.arange(0, nav[axis], step), axis=axis)
        return np.flatnonzero(some)

    def _selected(self, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Find which of some positions are selected. A position may be selected several times.

        Returns: (which of these positions, at which place of the selection each of these is).
        """
        if self.sorted is None or self.order is None:
            which = np.flatnonzero(self.stored[positions])
            return which, positions[which]
        a, b = (np.searchsorted(self.sorted, positions, side) for side in ("left", "right"))
        which = np.repeat(np.arange(len(positions)), b - a)
        at = self.order[np.repeat(a, b - a) + np.arange(len(which)) - np.repeat(np.cumsum(b - a) - (b - a), b - a)]
        kept = self.stored[at]
        return which[kept], at[kept]

    def places(self, first: int, last: int) -> tuple[int, int]:
        nav, counts = self.grid.shape, self.grid.counts
        if not nav:
            return 0, len(self.stored)
        ends = np.array([first, last - 1]) if self.held is None else self.held[[first, last - 1]]
        rows = ends // math.prod(counts[1:]) * self.grid.chunks[0]  # whole steps along the slowest axis
        low, high = rows[0] * math.prod(nav[1:]), min(nav[0], rows[1] + self.grid.chunks[0]) * math.prod(nav[1:])
        if self.sorted is None or self.order is None:
            return int(low), int(high)
        at = self.order[slice(*np.searchsorted(self.sorted, [low, high]))]
        return int(at.min()), int(at.max()) + 1

    def blocks(self, first: int, last: int) -> Generator[FrameBlock, None, None]:
        for start, stop in self._stretches(first, last):
            for at in range(start, stop, self.together):
                for units in flat_boxes(self.grid.counts, at, min(stop, at + self.together)):
                    yield from self._run(units)

    def _stretches(self, first: int, last: int) -> Iterator[tuple[int, int]]:
        """Find numbers of units that follow each other: first, and behind the last."""
        if self.held is None:
            yield first, last
            return
        held = self.held[first:last]
        edges = [0, *(np.flatnonzero(np.diff(held) != 1) + 1).tolist(), len(held)]
        for a, b in pairwise(edges):
            if a < b:
                yield int(held[a]), int(held[b - 1]) + 1

    def _run(self, units: Region) -> Iterator[FrameBlock]:
        """Give the frames of units that come one behind the other."""
        nav = self.grid.shape
        places = product(*(range(a, b) for a, b in zip(units.start, units.stop, strict=True)))
        boxes = [self.grid.region(place) for place in places]
        run, sizes = Region.box(boxes[0].start, boxes[-1].stop), [box.size for box in boxes]
        which, at = self._selected(run.flat(nav))
        if not len(which):
            return
        frame, dtype = self._region(run).shape[len(nav) :], self.reader.dtype
        begins = np.cumsum([0, *sizes])
        cuts = np.searchsorted(which, begins).tolist()
        breaks = (np.flatnonzero((np.diff(which) != 1) | (np.diff(at) != 1)) + 1).tolist()
        plans = self._plans(run, begins * math.prod(frame))
        with scratch.borrow(max(sizes) * math.prod(frame) * dtype.itemsize) as memory:
            for box, plan, begin, a, b in zip(boxes, plans, begins, cuts, cuts[1:], strict=False):
                if a == b:
                    continue
                flat = memory[: box.size * math.prod(frame) * dtype.itemsize].view(dtype)
                self._read(self._region(box), plan, flat)
                elements = flat.reshape(box.size, *frame)
                for c, d in pairwise([a, *breaks[bisect_right(breaks, a) : bisect_left(breaks, b)], b]):
                    yield _of_elements(elements[which[c] - begin : which[d - 1] + 1 - begin], self.skipped, at[c:d])

    def _region(self, box: Region) -> Region:
        """Return the wanted rows of the frames in a box of the scan."""
        return Region.box(box.start + self.low, box.stop + self.high)

    def _plans(self, run: Region, edges: np.ndarray) -> Sequence[np.ndarray | None]:
        """Plan together what is read for each unit of a run; None for each that is to be planned by itself.

        Args:
            edges: see `StoredReader.in_parts`.
        """
        reader, alone = self.reader, [None] * (len(edges) - 1)
        as_stored = reader.dtype == reader.stored and reader.corrections is None
        return (as_stored and len(alone) > 1 and reader.in_parts(self._region(run), edges)) or alone

    def _read(self, region: Region, plan: np.ndarray | None, flat: np.ndarray) -> None:
        """Read a region, which may be planned, into memory."""
        if plan is None:
            self.reader.read(region, flat.reshape(region.shape))
            return
        try:
            self.reader.fetch_blocks(plan, flat)
        except SourceError as error:
            raise self.reader.unread(error, region) from None


def check_written(array: ArrayReader, chosen: np.ndarray | None) -> None:
    """Check that the frames at the selected positions are written.

    Raises:
        NotYetError: some are not.
    """
    dataset = array.dataset
    head = dataset.written.head
    if head is None:
        return
    last = dataset.to_come(Region.whole(dataset.shape)) if chosen is None else None
    if chosen is not None and not (there := dataset.there_at(chosen)).all():
        last = int(chosen[~there][0])
    if last is not None:
        raise NotYetError(
            f"{dataset.files.paths[0]}: frame {last:,} is not written yet: {head:,} are there;"
            f" {option(follow=True)} continues as frames come",
            head=head,
        )


def chosen_positions(array: ArrayReader, roi: Any) -> np.ndarray | None:
    """Return int64[m], the flat positions in the array's scan that a `roi` selects; None: all.

    Raises:
        OptionError: it does not fit the scan.
    """
    if roi is None:
        return None
    dataset = array.dataset
    if not dataset.nav_ndim:
        raise OptionError(f"roi does not apply: {dataset.path} has no navigation axes (shape {dataset.shape})")
    return flat_positions(positions(LocalSources(), roi), dataset.shape[: dataset.nav_ndim])
