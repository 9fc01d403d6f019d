"""Describes blocks of any shape at any place: `BlockLayout`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from vfs import kernels
from vfs.errors import FormatError, OptionError
from vfs.kernels.columns import COLUMNS, FAN, NO_LIMIT, NO_ROWS
from vfs.model.layout.frames import ROOM
from vfs.model.layout.scan import Scan
from vfs.model.region import Region
from vfs.model.wording import option_names

_MAX_SORTED = 32  # up to so many blocks a kernel sorts faster than numpy


@dataclass(frozen=True, eq=False)
class BlockTable:
    """Lists blocks in any order: the box of the array that each holds, and where it lies in files.

    Attributes:
        origins, shapes: int64[n, ndim], first element and shape of each block's box.
        files: int64[n], index of each block's file.
        offsets, nbytes: int64[n], first byte of each block and bytes it has in the file. `nbytes` is None
            where a part of a block decodes by itself.
        numbers: int64[n], numbers by which `decode_block` knows the blocks; None: 0, 1, 2, …
        box_starts: int64[n, ndim], element of the stored block at which its box begins, for blocks that
            decode as a whole and have a pitch; None: the first element.
    """

    origins: np.ndarray
    shapes: np.ndarray
    files: np.ndarray
    offsets: np.ndarray
    nbytes: np.ndarray | None = None
    numbers: np.ndarray | None = None
    box_starts: np.ndarray | None = None


@dataclass(frozen=True, eq=False)
class BlockLayout:
    """Says where blocks of any shape lie in the array and in the files. They need not form a grid.

    The box of a block is the part of the array that it holds. It may be smaller than the block as
    it is stored: tiles at the edges of an image are stored whole.

    Attributes:
        shape: shape of the array.
        tree, levels: search tree over the boxes of the blocks, see `vfs.kernels.blocks`.
        place: int64[n, 4] in the tree's order: file, first byte, bytes stored, number of the block.
        pitch: shape in which every block is stored; () if that is the shape of its box.
        word_bytes: bytes of an element; 0 if a block decodes only as a whole.
        box_starts: int64[n, ndim] in the tree's order: element of the stored block at which its box
            begins; None if every box begins at the first element. Only of blocks that decode as a whole.
    """

    shape: tuple[int, ...]
    tree: np.ndarray
    levels: np.ndarray
    place: np.ndarray
    pitch: tuple[int, ...]
    word_bytes: int
    box_starts: np.ndarray | None = None

    @property
    def order(self) -> None:
        return None

    @property
    def frames(self) -> None:
        return None

    @property
    def blocks(self) -> BlockLayout:
        return self

    @property
    def stride(self) -> int:
        return 0

    @property
    def whole(self) -> bool:
        return not self.word_bytes

    @classmethod
    def of(
        cls, shape: Sequence[int], table: BlockTable, *, word_bytes: int = 0, pitch: Sequence[int] = ()
    ) -> BlockLayout:
        """Sort blocks into a search tree.

        Args:
            word_bytes, pitch: see `BlockLayout`.

        Raises:
            FormatError: a block lies outside the array or before the start of its file, or has no size.
        """
        nd = len(shape)
        n = len(table.files)
        low = np.asarray(table.origins, np.int64).reshape(n, nd)
        size = np.asarray(table.shapes, np.int64).reshape(n, nd)
        high = low + size
        at = np.stack([np.asarray(table.files, np.int64), np.asarray(table.offsets, np.int64)], axis=1)
        _check(tuple(shape), low, size, at)
        stored = np.zeros(n, np.int64) if table.nbytes is None else np.asarray(table.nbytes, np.int64)
        names = np.arange(n) if table.numbers is None else np.asarray(table.numbers, np.int64)
        bits = max(1, min(21, 63 // max(1, nd)))
        shift = max(0, max(shape, default=1).bit_length() - bits)
        order = np.argsort(_curve(low, bits, shift), kind="stable")
        levels = [0, n]
        while levels[-1] - levels[-2] > FAN:
            levels.append(levels[-1] - (levels[-2] - levels[-1]) // FAN)
        tree = _packed(low[order], high[order], levels)
        place = np.ascontiguousarray(np.stack([*at.T, stored, names], axis=1)[order])
        starts = table.box_starts
        into = None if starts is None else np.ascontiguousarray(np.asarray(starts, np.int64)[order])
        return cls(tuple(shape), tree, np.array(levels, np.int64), place, tuple(pitch), word_bytes, into)

    def check_apart(self) -> None:
        """Check that no two blocks overlap, which takes a search for each block.

        Raises:
            FormatError: two do.
        """
        a, b = kernels.blocks.first_overlap(self.tree, self.levels) if len(self.place) else (-1, -1)
        if a < 0:
            return
        nd = len(self.shape)
        said = {}
        for row in (a, b):
            low, high = self.tree[row, :nd], self.tree[row, nd:]
            said[self.place.item(row, 3)] = f"at {low.tolist()} of shape {(high - low).tolist()}"
        first, second = sorted(said)
        raise FormatError(f"blocks {first} and {second} overlap: {said[first]} and {said[second]}")

    @classmethod
    def of_file(cls, shape: Sequence[int], nbytes: np.ndarray) -> BlockLayout:
        """Lay out an array that a file holds as one block, which decodes as a whole.

        Args:
            nbytes: int64[1], bytes of the file.
        """
        corner, zero = np.zeros((1, len(shape)), np.int64), np.zeros(1, np.int64)
        return cls.of(shape, BlockTable(corner, np.array([shape]), zero, zero, nbytes))

    def arranged(self, scan: Scan, nav_ndim: int = 1) -> BlockLayout:
        """Show the same frames as another scan: see `Layout`.

        Blocks of several scan positions are shown in parts, a part for each line of the scan that they reach.
        """
        new = scan.over(self.shape[:nav_ndim])
        parts = self._positions(nav_ndim)
        flat = np.zeros(len(parts), np.int64)
        if nav_ndim:
            flat = np.ravel_multi_index(tuple(parts[:, 2:].T), self.shape[:nav_ndim]) - scan.sync_offset
        behind = np.zeros(len(parts), bool)  # a line
        if scan.line_skip:
            line, column = np.divmod(flat, new[-1] + scan.line_skip)
            flat, behind = line * new[-1] + column, column >= new[-1]
        keep = np.flatnonzero((flat >= 0) & (flat < math.prod(new)) & ~behind)
        if scan.chosen is None:
            nav = np.empty((0, len(new)), np.int64)
            if len(keep):
                nav = np.stack(np.unravel_index(flat[keep], new), axis=1)
            return self._moved(nav, parts[keep], new, nav_ndim)
        # A position may be chosen more than once: join the blocks with the list of choices
        by_choice = np.argsort(scan.chosen, kind="stable")
        ordered = scan.chosen[by_choice]
        a, b = np.searchsorted(ordered, flat[keep], "left"), np.searchsorted(ordered, flat[keep], "right")
        keep = np.repeat(keep, b - a)
        within = np.arange(len(keep)) - np.repeat(np.cumsum(b - a) - (b - a), b - a)
        nav = by_choice[np.repeat(a, b - a) + within].reshape(-1, 1)
        return self._moved(nav, parts[keep], scan.shown(new), nav_ndim)

    def spans(self, nav_ndim: int) -> int:
        """Return the number of scan positions of the block that has most of them."""
        nd, n = len(self.shape), int(self.levels[1])
        low, high = self.tree[:n, :nd], self.tree[:n, nd:]
        return int((high - low)[:, :nav_ndim].prod(axis=1).max(initial=1))

    def _positions(self, nav_ndim: int) -> np.ndarray:
        """Return the scan positions of all blocks: int64[m, 2 + navigation axes], a row a position.

        The columns are the row of the block, the number of frames in front of it in the stored block, and the position.

        Raises:
            OptionError: blocks of several positions have no one shape in which they are stored.
        """
        nd, n = len(self.shape), int(self.levels[1])
        low, high = self.tree[:n, :nav_ndim], self.tree[:n, nd : nd + nav_ndim]
        starts = np.zeros_like(low) if self.box_starts is None else self.box_starts[:, :nav_ndim]
        pitch = np.array(self.pitch[:nav_ndim] or (1,) * nav_ndim, np.int64)
        steps = np.array([math.prod(pitch[k + 1 :]) for k in range(nav_ndim)], np.int64)
        extent = high - low
        counts = extent.prod(axis=1)
        if counts.max(initial=1) > 1 and self.whole and not self.pitch:
            raise OptionError(
                f"{option_names('nav_shape', 'sync_offset', 'roi', 'line_skip')} do not apply: the file stores blocks"
                " that span several navigation positions"
            )
        if not self.pitch:  # blocks are stored as their boxes are
            steps = np.stack([extent[:, k + 1 :].prod(axis=1) for k in range(nav_ndim)], axis=1) if nav_ndim else extent
        block = np.repeat(np.arange(n), counts)
        left = np.arange(len(block)) - np.repeat(counts.cumsum() - counts, counts)
        inside = np.zeros((len(block), nav_ndim), np.int64)
        for k in reversed(range(nav_ndim)):
            left, inside[:, k] = np.divmod(left, extent[block, k])
        along = ((starts[block] + inside) * (steps if self.pitch else steps[block])).sum(axis=1)
        return np.concatenate([block[:, None], along[:, None], low[block] + inside], axis=1)

    def _moved(self, nav: np.ndarray, parts: np.ndarray, shape: tuple[int, ...], nav_ndim: int) -> BlockLayout:
        """Show some frames of blocks at other scan positions.

        Args:
            nav: int64[m, navigation axes from now on], the position of each of these frames.
            parts: int64[m, …], see `_positions`.
            shape: shape of the scan from now on.
            nav_ndim: number of navigation axes so far.
        """
        nd, n = len(self.shape), int(self.levels[1])
        low, extent = self.tree[:n, :nd], self.tree[:n, nd:] - self.tree[:n, :nd]
        # Frames that follow one another in a block and in a line of the scan stay together
        step = np.diff(np.concatenate([parts[:, :2], nav], axis=1), axis=0)
        wanted = np.array([0, 1, *(0 for _ in shape[1:]), 1]) if shape else np.array([1, 0])
        begin = np.flatnonzero(np.concatenate([[True], (step != wanted).any(axis=1)])) if len(nav) else np.zeros(0, int)
        length = np.diff(np.append(begin, len(nav)))
        keep, along = parts[begin, 0], parts[begin, 1]
        origins = np.concatenate([nav[begin], low[keep, nav_ndim:]], axis=1)
        lines = np.ones((len(begin), len(shape)), np.int64)
        if shape:
            lines[:, -1] = length
        shapes = np.concatenate([lines, extent[keep, nav_ndim:]], axis=1)
        # A block of one position may be stored longer (the last block, if an odd number of frames is
        # stored two a block): the position is the first one of the block
        pitch: tuple[int, ...] = ()
        if self.pitch:
            pitch = (1,) * (len(shape) - 1) + (math.prod(self.pitch[:nav_ndim]), *self.pitch[nav_ndim:])
        file, first, nbytes, numbers = self.place[keep].T
        box_starts = None
        if not self.whole:
            frame = np.broadcast_to(np.array(self.pitch, np.int64), (len(keep), nd)) if self.pitch else extent[keep]
            first = first + along * frame[:, nav_ndim:].prod(axis=1) * self.word_bytes
        elif self.box_starts is not None or along.any():
            starts = low[keep, nav_ndim:] * 0 if self.box_starts is None else self.box_starts[keep, nav_ndim:]
            box_starts = np.concatenate([np.zeros_like(nav[begin, 1:]), along[:, None], starts], axis=1)
        table = BlockTable(origins, shapes, file, first, nbytes, numbers, box_starts)
        return BlockLayout.of(shape + self.shape[nav_ndim:], table, word_bytes=self.word_bytes, pitch=pitch)

    def before(self, count: int, nav_ndim: int) -> BlockLayout:
        """Leave out the blocks that reach behind the first so many scan positions."""
        nd, n = len(self.shape), int(self.levels[1])
        last = self.tree[:n, nd:] - 1
        return self._only(np.ravel_multi_index(tuple(last[:, :nav_ndim].T), self.shape[:nav_ndim]) < count)

    def without(self, parts: Mapping[int, Sequence[tuple[int, int]]]) -> BlockLayout:
        """Leave out the blocks that lie within one of some parts of files.

        Args:
            parts: of each file that has some: first byte of each, and the one behind its last, in order. Blocks that
                decode only as a whole stay: their decoder says what is wrong.
        """
        if self.whole:
            return self
        nd, n = len(self.shape), int(self.levels[1])
        shapes = self.pitch or self.tree[:n, nd:] - self.tree[:n, :nd]
        start = self.place[:, 1]
        stop = start + np.maximum(self.place[:, 2], np.prod(shapes, axis=-1) * self.word_bytes)
        stay = np.ones(n, bool)
        for file, held in parts.items():
            first, behind = np.array(held, np.int64).T
            at = np.searchsorted(first, start, "right") - 1  # the last part that begins at or before each block
            stay &= (self.place[:, 0] != file) | (at < 0) | (stop > behind[at])
        return self._only(stay)

    def _only(self, which: np.ndarray) -> BlockLayout:
        """Leave out all blocks but some: bool[n], in the tree's order."""
        nd, n, keep = len(self.shape), int(self.levels[1]), np.flatnonzero(which)
        if len(keep) == n:
            return self
        low, high = self.tree[keep, :nd], self.tree[keep, nd:]
        file, first, nbytes, numbers = self.place[keep].T
        box_starts = None if self.box_starts is None else self.box_starts[keep]
        table = BlockTable(low, high - low, file, first, nbytes, numbers, box_starts)
        return BlockLayout.of(self.shape, table, word_bytes=self.word_bytes, pitch=self.pitch)

    def touched(
        self, region: Region
    ) -> list[tuple[Region, tuple[int, ...], tuple[int, ...], tuple[int, int, int, int]]]:
        """Find the blocks that overlap a region, in the order of their places in the files.

        Returns: for each block (its box, the shape it is stored in, the element of the stored block
            at which the box begins, (file, first byte, bytes, number)).
        """
        nd = len(self.shape)
        start, steps = (0,) * nd, (1,) * nd
        ends = np.array((region.start, region.stop), np.int64)
        found = []
        for h in self._hits(ends[0], ends[1], 1):
            row = self.tree[h].tolist()
            file, first, size, number = self.place[h].tolist()
            box_start = start if self.box_starts is None else tuple(self.box_starts[h].tolist())
            box = Region(tuple(row[:nd]), tuple(row[nd:]), steps)
            found.append((box, self.pitch or box.shape, box_start, (file, first, size, number)))
        return found

    def stored_frames(self, nav_ndim: int) -> int:
        return math.prod(self.shape[:nav_ndim])

    def last_frame(self, region: Region, nav_ndim: int) -> int:
        return region.last_position(self.shape[:nav_ndim])

    def frame_numbers(self, positions: np.ndarray | None, nav_ndim: int) -> np.ndarray:
        return np.arange(math.prod(self.shape[:nav_ndim])) if positions is None else positions

    def valid(self, nav_ndim: int) -> np.ndarray:
        nav, boxes = self.shape[:nav_ndim], self.tree[: int(self.levels[1])]
        if not nav:
            return np.array(len(boxes) > 0)
        found = np.zeros(nav, bool)
        kernels.blocks.mark(boxes, np.array(nav, np.int64), found.reshape(-1).view(np.uint8))
        return found

    def whole_frames(self, nav_ndim: int) -> np.ndarray:
        """Find the scan positions of which every element is stored, where blocks belong to one position each.

        Returns: bool, in the shape of the navigation axes. Blocks of several positions count as in `valid`.
        """
        nav, nd, n = self.shape[:nav_ndim], len(self.shape), int(self.levels[1])
        low, extent = self.tree[:n, :nd], self.tree[:n, nd:] - self.tree[:n, :nd]
        if not nav or not n or extent[:, :nav_ndim].max() > 1:
            return self.valid(nav_ndim)
        positions = np.ravel_multi_index(tuple(low[:, :nav_ndim].T), nav)
        held = np.bincount(positions, extent[:, nav_ndim:].prod(axis=1), math.prod(nav))
        return (held >= math.prod(self.shape[nav_ndim:])).reshape(nav)

    def blank(self, region: Region, nav_ndim: int) -> np.ndarray:
        empty = np.ones(region.shape, bool)
        for block, *_ in self.touched(region):
            inside = zip(block.start, block.stop, region.start, region.step, strict=True)
            empty[tuple(slice(max(0, -((o - lo) // s)), max(0, -(-(hi - o) // s))) for lo, hi, o, s in inside)] = False
        return empty

    def holds(self, region: Region, nav_ndim: int) -> bool:
        ends = np.array((region.start, region.stop), np.int64)
        return len(self._hits(ends[0], ends[1], NO_LIMIT)) > 0

    def blanks(self, nav_ndim: int) -> int:
        return 0

    def read_ranges(self, region: Region, most: int = NO_LIMIT) -> tuple[np.ndarray, int]:
        box = np.array((region.start, region.stop, region.step), np.int64)
        hits = self._hits(box[0], box[1], _MAX_SORTED)
        pitch, work = np.array(self.pitch, np.int64), np.empty(3 * len(self.shape) + 2, np.int64)
        room = max(ROOM, 2 * len(hits))
        while True:
            rows = np.empty((room, COLUMNS), np.int64)
            first, end, covered = kernels.blocks.plan_blocks(
                box, hits, self.tree, self.place, pitch, not self.word_bytes, self.word_bytes, work, rows, most
            )
            if covered > -2:
                # NO_ROWS: an empty view would keep a long table alive
                return (rows[first:end] if covered >= 0 else NO_ROWS), covered
            room = end

    def _hits(self, start: np.ndarray, stop: np.ndarray, few: int) -> np.ndarray:
        """Find the blocks that overlap a region.

        More than `few` of them are sorted by their places in the files.

        Returns: int64[m], rows of `place`.
        """
        hits: np.ndarray = kernels.blocks.find(self.tree, self.levels, start, stop)
        return hits[np.lexsort((self.place[hits, 1], self.place[hits, 0]))] if len(hits) > few else hits


def _curve(low: np.ndarray, bits: int, shift: int) -> np.ndarray:
    """Return the position of every origin on a Z-order curve of `bits` bits for each axis, eight of them at a time."""
    code, nd = np.zeros(len(low), np.int64), low.shape[1]
    spread = sum((np.arange(256) >> bit & 1) << bit * nd for bit in range(min(8, bits)))
    for axis in range(nd):
        for bit in range(0, bits, 8):
            code |= spread[low[:, axis] >> shift + bit & 255] << (bit * nd + nd - 1 - axis)
    return code


def _packed(low: np.ndarray, high: np.ndarray, levels: Sequence[int]) -> np.ndarray:
    """Make the search tree: the bounding boxes of every level, the leaves first.

    Args:
        low, high: int64[n, nd], the boxes in curve order, half-open.
        levels: row of the result at which each level starts; level 0 are the boxes themselves.

    Returns: int64[total, 2 * nd], low then high.
    """
    n, nd = low.shape
    tree = np.empty((levels[-1], 2 * nd), np.int64)
    tree[:n, :nd], tree[:n, nd:] = low, high
    for below, here, end in zip(levels, levels[1:], levels[2:], strict=False):
        first = np.arange(0, here - below, FAN)
        tree[here:end, :nd] = np.minimum.reduceat(tree[below:here, :nd], first)
        tree[here:end, nd:] = np.maximum.reduceat(tree[below:here, nd:], first)
    return tree


def _check(shape: tuple[int, ...], low: np.ndarray, size: np.ndarray, at: np.ndarray) -> None:
    """Check that blocks lie within an array and within files.

    Args:
        low, size: int64[n, ndim], first element and shape of each block.
        at: int64[n, 2], file and byte of each block.

    Raises:
        FormatError: one does not.
    """
    high = low + size
    bad = np.flatnonzero(((low < 0) | (size < 1) | (high > np.array(shape, np.int64)) | (high < low)).any(axis=1))
    if len(bad):
        i = int(bad[0])
        raise FormatError(
            f"block {i} at {low[i].tolist()} of shape {size[i].tolist()} does not fit an array of shape {list(shape)}"
        )
    bad = np.flatnonzero((at < 0).any(axis=1))
    if len(bad):
        i = int(bad[0])
        raise FormatError(
            f"block {i} at {low[i].tolist()} of shape {size[i].tolist()} lies at byte {at[i, 1]} of file {at[i, 0]};"
            " expected 0 or more"
        )
