"""Where elements lie in files: a layout answers one question, `read_ranges(region)`.

Two layouts carry every format. `FrameLayout`: equal frames one after the other, with headers and footers between them,
over any number of files; a frame may be made of mirrored or interleaved pieces. `BlockLayout`: blocks of any shape at
any place of the array and of the files, in no grid. Both answer with a table of read ranges (see `vfs.kernels.ranges`)
and the number of elements it covers; what is not covered is blank and reads as the fill value.

Layouts are values: arranging one anew (another scan shape, an offset, a selection of frames) gives a new one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, TypeVar

import numpy as np

from vfs.errors import FormatError, OptionError
from vfs.geometry import Region
from vfs.kernels import blocks, planning, ranges

_NONE = np.empty(0, np.int64)
_NO_ROWS = np.empty((0, ranges.COLUMNS), np.int64)
_ROOM = 768  # rows of a table that most plans fit in: 66 KiB
_FEW = 32  # blocks that are sorted faster by a kernel of ours
_ANY = 1 << 62


class Layout(Protocol):
    """One verb: which bytes hold a region."""

    shape: tuple[int, ...]

    def read_ranges(self, region: Region, most: int = ...) -> tuple[np.ndarray, int]:
        """Returns (int64[n, 11] read ranges, number of elements they cover), -1 elements where there would be more than `most` ranges."""


Value = TypeVar("Value")


def altered(value: Value, **fields: Any) -> Value:
    """`dataclasses.replace` for frozen values without slots and without `__post_init__`, in a tenth of the time: a set has many such values."""
    made = object.__new__(type(value))
    made.__dict__.update(value.__dict__)
    made.__dict__.pop("_how", None)  # a layout's, worked out from its fields
    made.__dict__.update(fields)
    return made


def _ints(values: Sequence[int]) -> np.ndarray:
    return np.array(values, np.int64)


def _payload(sig_shape: Sequence[int], word_bytes: int, word_pixels: int) -> int:
    """Bytes of a frame: whole words, the last one perhaps with pixels to spare."""
    return -(-math.prod(sig_shape) // word_pixels) * word_bytes


def _only(value: int | Sequence[int] | np.ndarray) -> int:
    """A number, or the only one of a sequence of one."""
    return int(value[0]) if isinstance(value, Sequence | np.ndarray) else int(value)


def whole_frame(sig_shape: Sequence[int], strides: Sequence[int] | None = None) -> np.ndarray:
    """The pieces of a frame that is one box, stored in C order or with other strides (elements)."""
    steps = strides or [math.prod(sig_shape[j + 1 :]) for j in range(len(sig_shape))]
    return np.array([[*[0] * len(sig_shape), *sig_shape, *steps, 0, 0]], np.int64)


@dataclass(frozen=True, eq=False)
class FrameLayout:
    """Equal frames in a stream of bytes that is spread over files.

    Frame n lies at stream byte `n * stride + header`. The stream is made of pieces of files and may have holes; frames may
    run across the border of two files, but no word (see `vfs.kernels.ranges`) may.

    Attributes:
        nav_shape: scan shape, slowest axis first; scan position i shows stored frame `i + offset`, blank outside.
        sig_shape: shape of a frame.
        stream: int64[f, 4], rows (first stream byte, last one half-open, byte in the file, file), sorted, without overlap.
        stride, header: bytes.
        stored: number of stored frames (holes count).
        word_bytes, word_pixels: the smallest unit that decodes by itself.
        pieces: int64[p, 3 * sig_ndim + 2], see `vfs.kernels.planning.box_rows`; best in the order in which they begin in the file.
        offset: frames to skip at the start (negative: blank frames first).
        chosen: int64[m] scan positions that are shown, as one flat axis; None: all, in the scan's shape.
    """

    nav_shape: tuple[int, ...]
    sig_shape: tuple[int, ...]
    stream: np.ndarray
    stride: int
    header: int
    stored: int
    word_bytes: int
    word_pixels: int
    pieces: np.ndarray
    offset: int = 0
    chosen: np.ndarray | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        nav = self.nav_shape if self.chosen is None else (len(self.chosen),)
        return nav + self.sig_shape

    @classmethod
    def of(
        cls,
        sig_shape: Sequence[int],
        counts: Sequence[int] | np.ndarray,
        *,
        word_bytes: int,
        word_pixels: int = 1,
        payload: int | None = None,
        file_header: int | Sequence[int] | np.ndarray = 0,
        frame_header: int = 0,
        frame_footer: int = 0,
        first: Sequence[int] | np.ndarray | None = None,
        files: Sequence[int] | np.ndarray | None = None,
        pieces: np.ndarray | None = None,
    ) -> FrameLayout:
        """Files that hold whole records of frame header, payload and footer.

        Args:
            counts: frames in each file.
            payload: bytes of a frame; by default as many words as its pixels need.
            file_header: bytes before the first record, one number or one a file.
            first: index of the first frame of each file, ascending; by default they follow on each other. Gaps are blank.
            files: which file each entry is, by default 0, 1, 2, …

        Raises:
            FormatError: files overlap.
        """
        size = _payload(sig_shape, word_bytes, word_pixels) if payload is None else payload
        stride = frame_header + size + frame_footer
        if len(counts) == 1:  # most sets that are opened are one file, and most of their opening was arithmetic with arrays of one
            start, count, at, file = (_only(value) for value in (0 if first is None else first, counts, file_header, 0 if files is None else files))
            alone = np.array([[start * stride, (start + count) * stride, at, file]], np.int64)
            return cls._checked(sig_shape, alone, stride, frame_header, start + count, word_bytes, word_pixels, pieces)
        n = np.asarray(counts, np.int64)
        begin = n.cumsum() - n if first is None else np.asarray(first, np.int64)
        end = begin + n
        stream = np.empty((len(n), 4), np.int64)
        stream[:, 0], stream[:, 1], stream[:, 2] = begin * stride, end * stride, file_header
        stream[:, 3] = np.arange(len(n)) if files is None else files
        stored = int(end.max(initial=0))
        return cls._checked(sig_shape, stream, stride, frame_header, stored, word_bytes, word_pixels, pieces)

    @classmethod
    def running_on(
        cls,
        sig_shape: Sequence[int],
        sizes: Sequence[int] | np.ndarray,
        *,
        word_bytes: int,
        word_pixels: int = 1,
        file_header: int = 0,
        frame_header: int = 0,
        frame_footer: int = 0,
        names: Sequence[str] = (),
    ) -> FrameLayout:
        """Files whose contents, after `file_header` bytes each, are one stream of records that run across file borders.

        Args:
            sizes: file sizes in bytes.
            names: of the files, for errors.

        Raises:
            FormatError: a file ends within a word.
        """
        n = np.maximum(np.asarray(sizes, np.int64) - file_header, 0)
        end = np.cumsum(n)
        stream = np.stack([end - n, end, np.full_like(n, file_header), np.arange(len(n))], axis=1)
        size = _payload(sig_shape, word_bytes, word_pixels)
        stride = frame_header + size + frame_footer
        inside = (end[:-1] % stride) - frame_header
        cut = (inside > 0) & (inside < size) & (inside % word_bytes != 0)
        if cut.any():
            file = int(np.flatnonzero(cut)[0])
            name = names[file] if names else f"file {file} of the set"
            raise FormatError(f"{name}: ends in the middle of a pixel; frames of {size:,} bytes cannot run across this border")
        whole, rest = divmod(int(end[-1]) if len(end) else 0, stride)
        stored = whole + (rest >= frame_header + size)  # the last footer may be missing
        return cls._checked(sig_shape, stream[n > 0], stride, frame_header, stored, word_bytes, word_pixels, None)

    @classmethod
    def planes(
        cls, sig_shape: Sequence[int], files: Sequence[int] | np.ndarray, offsets: Sequence[int] | np.ndarray, *, word_bytes: int, word_pixels: int = 1
    ) -> FrameLayout:
        """Frames at any place: frame n starts at byte `offsets[n]` of file `files[n]`; a negative offset is a blank frame."""
        at = np.asarray(offsets, np.int64)
        which = np.asarray(files, np.int64)
        stride = _payload(sig_shape, word_bytes, word_pixels)
        n = np.arange(len(at))
        stream = np.stack([n * stride, (n + 1) * stride, at, which], axis=1)[at >= 0]
        return cls._checked(sig_shape, stream, stride, 0, len(at), word_bytes, word_pixels, None)

    @classmethod
    def _checked(
        cls,
        sig_shape: Sequence[int],
        stream: np.ndarray,
        stride: int,
        header: int,
        stored: int,
        word_bytes: int,
        word_pixels: int,
        pieces: np.ndarray | None,
    ) -> FrameLayout:
        if len(stream) != 1 or stream.item(0) >= stream.item(1):
            order = np.argsort(stream[:, 0], kind="stable")
            order = order[stream[order, 1] > stream[order, 0]]  # an empty file holds nothing, wherever it is said to begin
            stream = np.ascontiguousarray(stream[order])
            clash = np.flatnonzero(stream[1:, 0] < stream[:-1, 1])
            if len(clash):
                raise FormatError(f"two files of the set hold the same frames (entries {int(order[clash[0]])} and {int(order[clash[0] + 1])})")
        parts = whole_frame(sig_shape) if pieces is None else pieces
        if len(parts) > 1:
            k = len(sig_shape)
            begin = parts[:, 3 * k] + np.minimum(0, parts[:, 2 * k : 3 * k] * (parts[:, k : 2 * k] - 1)).sum(axis=1)
            parts = parts[np.argsort(begin, kind="stable")]
        return cls((stored,), tuple(sig_shape), stream, stride, header, stored, word_bytes, word_pixels, parts)

    def arranged(self, nav_shape: Sequence[int] | None = None, sync_offset: int = 0, chosen: np.ndarray | None = None) -> FrameLayout:
        """The same frames as another scan: shape, frames to skip (negative: blank frames first), positions shown."""
        nav = self.nav_shape if nav_shape is None else tuple(nav_shape)
        return altered(self, nav_shape=nav, offset=self.offset + sync_offset, chosen=chosen)

    @cached_property
    def _how(self) -> tuple[np.ndarray, np.ndarray]:
        """Numbers and chosen positions as `vfs.kernels.planning.plan_frames` takes them."""
        nav, chosen = (self.nav_shape, _NONE) if self.chosen is None else ((len(self.chosen),), self.chosen)
        return _ints((self.stride, self.header, self.stored, self.offset, self.word_bytes, self.word_pixels, *nav)), chosen

    def read_ranges(self, region: Region, most: int = _ANY) -> tuple[np.ndarray, int]:
        box = np.array((region.start, region.stop, region.step), np.int64)
        how, chosen = self._how
        room = _ROOM
        while True:
            rows = np.empty((room, ranges.COLUMNS), np.int64)
            first, end, covered = planning.plan_frames(box, how, self.pieces, self.stream, chosen, rows, most)
            if covered > -2:
                return (rows[first:end] if covered >= 0 else _NO_ROWS), covered  # not a view of a long table for none
            room = end


@dataclass(frozen=True, eq=False)
class BlockLayout:
    """Blocks of any shape at any place, in no grid.

    Attributes:
        shape: of the array.
        tree, levels: a search tree over the blocks' boxes, see `vfs.kernels.blocks`.
        place: int64[n, 4] in the tree's order: file, first byte, bytes stored, number of the block.
        pitch: shape in which every block is stored (tiles at the edges are stored whole), () for its own shape.
        whole: True where a block decodes only as a whole.
        word_bytes: bytes an element (0 where `whole`).
        leads: int64[n, ndim], where in the stored block its box begins, in the tree's order; None: at its start. Only where `whole`.
    """

    shape: tuple[int, ...]
    tree: np.ndarray
    levels: np.ndarray
    place: np.ndarray
    pitch: tuple[int, ...]
    whole: bool
    word_bytes: int
    leads: np.ndarray | None = None

    @classmethod
    def of(
        cls,
        shape: Sequence[int],
        origins: np.ndarray,
        shapes: np.ndarray,
        files: np.ndarray,
        offsets: np.ndarray,
        nbytes: np.ndarray | None = None,
        *,
        word_bytes: int = 0,
        whole: bool = False,
        pitch: Sequence[int] = (),
        numbers: np.ndarray | None = None,
        leads: np.ndarray | None = None,
        check_overlap: bool = False,
    ) -> BlockLayout:
        """Sort blocks into a search tree.

        Args:
            origins, shapes: int64[n, ndim], elements.
            files: int64[n]; offsets, nbytes: int64[n], bytes. `nbytes` may be left out where blocks are not `whole`.
            numbers: int64[n], what `decode_block` calls the blocks; by default 0, 1, 2, …
            leads: int64[n, ndim], where in the block as it is stored the box begins, for blocks that are `whole` and have a `pitch`.
            check_overlap: look for blocks that overlap (costs a search a block).

        Raises:
            FormatError: a block lies outside the array or before its file, has no size, or overlaps another one.
        """
        nd = len(shape)
        n = len(files)
        low = np.asarray(origins, np.int64).reshape(n, nd)
        size = np.asarray(shapes, np.int64).reshape(n, nd)
        high = low + size
        bad = np.flatnonzero(((low < 0) | (size < 1) | (high > _ints(shape)) | (high < low)).any(axis=1))
        if len(bad):
            i = int(bad[0])
            raise FormatError(f"block {i} at {low[i].tolist()} of shape {size[i].tolist()} does not fit an array of shape {list(shape)}")
        at = np.stack([np.asarray(files, np.int64), np.asarray(offsets, np.int64)], axis=1)
        bad = np.flatnonzero((at < 0).any(axis=1))
        if len(bad):
            i = int(bad[0])
            raise FormatError(f"block {i} at {low[i].tolist()} of shape {size[i].tolist()} lies at byte {at[i, 1]} of file {at[i, 0]}; expected 0 or more")
        stored = np.zeros(n, np.int64) if nbytes is None else np.asarray(nbytes, np.int64)
        names = np.arange(n) if numbers is None else np.asarray(numbers, np.int64)
        bits = max(1, min(21, 63 // max(1, nd)))
        shift = max(0, max(shape, default=1).bit_length() - bits)
        order = np.argsort(_curve(low, bits, shift), kind="stable")
        levels = [0, n]
        while levels[-1] - levels[-2] > blocks.FAN:
            levels.append(levels[-1] - (levels[-2] - levels[-1]) // blocks.FAN)
        steps = _ints(levels)
        tree = blocks.pack(low[order], high[order], steps)
        place = np.stack([*at.T, stored, names], axis=1)[order]
        if check_overlap and n:
            a, b = blocks.first_overlap(tree, steps)
            if a >= 0:
                a, b = sorted((int(order[a]), int(order[b])))
                raise FormatError(
                    f"blocks {a} and {b} overlap: at {low[a].tolist()} of shape {size[a].tolist()} and at {low[b].tolist()} of shape {size[b].tolist()}"
                )
        into = None if leads is None else np.ascontiguousarray(np.asarray(leads, np.int64)[order])
        return cls(tuple(shape), tree, steps, np.ascontiguousarray(place), tuple(pitch), whole, word_bytes, into)

    def arranged(self, nav_shape: Sequence[int] | None = None, sync_offset: int = 0, chosen: np.ndarray | None = None, nav_ndim: int = 1) -> BlockLayout:
        """The same blocks in another scan, where each block belongs to one navigation position.

        Raises:
            OptionError: a block spans several navigation positions.
        """
        nd = len(self.shape)
        n = int(self.levels[1])
        low, high = self.tree[:n, :nd], self.tree[:n, nd:]
        old = self.shape[:nav_ndim]
        if n and (high[:, :nav_ndim] - low[:, :nav_ndim]).max(initial=1) > 1:
            raise OptionError("nav_shape, sync_offset and roi do not apply: the file stores blocks that span several navigation positions")
        new = old if nav_shape is None else tuple(nav_shape)
        flat = np.ravel_multi_index(tuple(low[:, :nav_ndim].T), old) - sync_offset if nav_ndim else np.zeros(n, np.int64)
        keep = np.flatnonzero((flat >= 0) & (flat < math.prod(new)))
        if chosen is None:
            nav = np.stack(np.unravel_index(flat[keep], new), axis=1) if len(keep) else np.empty((0, len(new)), np.int64)
            shape = new
        else:  # a position may be chosen more than once: join the blocks with the list of choices
            shape = (len(chosen),)
            by_choice = np.argsort(chosen, kind="stable")
            ordered = chosen[by_choice]
            a, b = np.searchsorted(ordered, flat[keep], "left"), np.searchsorted(ordered, flat[keep], "right")
            keep = np.repeat(keep, b - a)
            within = np.arange(len(keep)) - np.repeat(np.cumsum(b - a) - (b - a), b - a)
            nav = by_choice[np.repeat(a, b - a) + within].reshape(-1, 1)
        origins = np.concatenate([nav, low[keep, nav_ndim:]], axis=1)
        shapes = np.concatenate([np.ones_like(nav), (high - low)[keep, nav_ndim:]], axis=1)
        # a block of one position may be stored longer (the last one of an odd number of frames, two a block): it comes first there
        pitch = (1,) * (len(shape) - 1) + (math.prod(self.pitch[:nav_ndim]), *self.pitch[nav_ndim:]) if self.pitch else ()
        place = self.place[keep]
        leads = None
        if self.leads is not None:
            steps = _ints([math.prod(self.pitch[k + 1 : nav_ndim]) for k in range(nav_ndim)])
            along = (self.leads[keep, :nav_ndim] * steps).sum(axis=1, keepdims=True)
            leads = np.concatenate([np.zeros_like(nav[:, 1:]), along, self.leads[keep, nav_ndim:]], axis=1)
        return BlockLayout.of(
            shape + self.shape[nav_ndim:],
            origins,
            shapes,
            place[:, 0],
            place[:, 1],
            place[:, 2],
            word_bytes=self.word_bytes,
            whole=self.whole,
            pitch=pitch,
            numbers=place[:, 3],
            leads=leads,
        )

    def stored_shape(self, row: np.ndarray) -> tuple[int, ...]:
        """Shape in which the block of a box (int64[2 * ndim], low then high) is stored."""
        nd = len(self.shape)
        return self.pitch or tuple(int(b - a) for a, b in zip(row[:nd], row[nd:], strict=True))

    def touched(self, region: Region) -> list[tuple[Region, tuple[int, ...], tuple[int, ...], tuple[int, int, int, int]]]:
        """The blocks that a region meets: (box, shape stored, where in it the box begins, (file, first byte, bytes, number)), by place in the files."""
        nd = len(self.shape)
        start = (0,) * nd
        found = []
        for h in self._hits(_ints(region.start), _ints(region.stop), 1):
            row = self.tree[h]
            file, first, size, number = self.place[h].tolist()
            lead = start if self.leads is None else tuple(self.leads[h].tolist())
            found.append((Region.box(row[:nd].tolist(), row[nd:].tolist()), self.stored_shape(row), lead, (file, first, size, number)))
        return found

    def read_ranges(self, region: Region, most: int = _ANY) -> tuple[np.ndarray, int]:
        box = np.array((region.start, region.stop, region.step), np.int64)
        hits = self._hits(box[0], box[1], _FEW)
        pitch, work = np.array(self.pitch, np.int64), np.empty(3 * len(self.shape) + 2, np.int64)
        room = max(_ROOM, 2 * len(hits))
        while True:
            rows = np.empty((room, ranges.COLUMNS), np.int64)
            first, end, covered = blocks.plan_blocks(box, hits, self.tree, self.place, pitch, self.whole, self.word_bytes, work, rows, most)
            if covered > -2:
                return (rows[first:end] if covered >= 0 else _NO_ROWS), covered  # not a view of a long table for none
            room = end

    def _hits(self, start: np.ndarray, stop: np.ndarray, few: int) -> np.ndarray:
        """The blocks that meet a region, by place in the files where there are more than `few`."""
        hits: np.ndarray = blocks.find(self.tree, self.levels, start, stop)
        return hits[np.lexsort((self.place[hits, 1], self.place[hits, 0]))] if len(hits) > few else hits


def _curve(low: np.ndarray, bits: int, shift: int) -> np.ndarray:
    """Position of every origin on a Z-order curve of `bits` bits an axis."""
    code: np.ndarray = blocks.zorder(low >> shift, bits)
    return code
