"""Describes equal frames, one after the other: `FrameLayout`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, TypeVar

import numpy as np

from vfs import kernels
from vfs.errors import FormatError
from vfs.kernels.columns import COLUMNS, NO_LIMIT, NO_ROWS, S_BYTE, S_FILE, S_START, S_STOP
from vfs.model.layout.frame_record import FrameRecord, payload
from vfs.model.layout.scan import Scan
from vfs.model.layout.scan_order import ScanOrder
from vfs.model.region import Region

_NONE = np.empty(0, np.int64)
ROOM = 768
"""Rows of a table of read ranges that most plans fit in: 66 KiB."""
_LOCATED = 1 << 16
"""Positions that are located at once where only a bit of each is kept: 2 MiB. A scan may have 10 ** 8."""

Value = TypeVar("Value")


def altered(value: Value, **fields: Any) -> Value:
    """Copy a value with some fields changed, as `dataclasses.replace` does, in a tenth of the time.

    Works for frozen dataclasses without slots and without `__post_init__`. It must be fast because
    a set has many such values.
    """
    made = object.__new__(type(value))
    made.__dict__.update(value.__dict__)
    made.__dict__.pop("how", None)  # `FrameLayout.how` is computed from fields that may change here
    made.__dict__.update(fields)
    return made


def _ints(values: Sequence[int]) -> np.ndarray:
    return np.array(values, np.int64)


@dataclass(frozen=True, eq=False)
class FrameLayout:
    """Says where equal frames lie in a stream of bytes that is spread over files.

    Frame n lies at stream byte `n * stride + header`. The stream is made of parts of files and may
    have holes. A frame may cross the border of two files, but a word (see `vfs.kernels.columns`)
    may not.

    Attributes:
        nav_shape: scan shape, slowest axis first. Scan position i shows stored frame `i + offset`,
            or the one that `order` names; it is blank if there is no such frame.
        sig_shape: shape of a frame.
        stream: int64[f, 4], see `vfs.kernels.columns.S_START`.
        stride: bytes from the beginning of a frame's record to that of the next one.
        header: bytes of a record before its pixels.
        stored: number of stored frames (holes count).
        word_bytes, word_pixels: bytes and pixels of a word, the smallest unit that decodes by itself.
        pieces: int64[p, 3 * sig_ndim + 2], see `vfs.kernels.planning.box_rows`; best in the order
            in which they begin in the file.
        offset: frames to skip at the start; if negative, so many blank frames come first.
        chosen: int64[m] scan positions to show, as one flat axis; None shows all, in the scan's shape.
        order: says which stored frame (minus `offset`) each scan position shows, for the scan shape
            that it has; None where they follow one another.
        periodic: True: the read ranges of frame k are those of frame 0, moved on by k strides.
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
    order: ScanOrder | None = None

    periodic: ClassVar[bool] = True

    @property
    def shape(self) -> tuple[int, ...]:
        nav = self.nav_shape if self.chosen is None else (len(self.chosen),)
        return nav + self.sig_shape

    @property
    def in_order(self) -> bool:
        """True if position i shows stored frame `i + offset`."""
        return self.chosen is None and self.order is None

    @property
    def pixel_bytes(self) -> int:
        """Bytes of the pixels of a frame."""
        return payload(self.sig_shape, self.word_bytes, self.word_pixels)

    def pixels_between(self, file: int, start: int, stop: int) -> int:
        """Return how many bytes between two bytes of a file are of pixels, and of no header, footer or gap."""
        found = 0
        for first, end, byte, _ in self.stream[self.stream[:, S_FILE] == file].tolist():
            low, high = max(start - byte, 0) + first, min(stop - byte + first, end)
            if low < high:
                found += self._pixels_before(high) - self._pixels_before(low)
        return found

    def without(self, parts: Mapping[int, Sequence[tuple[int, int]]]) -> FrameLayout:
        """Leave out the frames whose pixels lie within one of some parts of files.

        Args:
            parts: of each file that has some: first byte of each, and the one behind its last, in order.
        """
        rows = []
        for start, stop, byte, file in self.stream.tolist():
            held = start
            for begin, end in parts.get(file, ()):
                low, high = (edge - byte + start - self.header for edge in (begin, end))
                first = max(-(-low // self.stride), -(-held // self.stride)) * self.stride
                behind = ((min(high, stop - self.header) - self.pixel_bytes) // self.stride + 1) * self.stride
                if first < behind:
                    rows.append((held, first, byte + held - start, file))
                    held = min(behind, stop)
            rows.append((held, stop, byte + held - start, file))
        stream = np.array(rows, np.int64).reshape(-1, 4)
        return altered(self, stream=np.ascontiguousarray(stream[stream[:, 0] < stream[:, 1]]))

    def _pixels_before(self, place: int) -> int:
        """Return how many bytes of pixels the stream has before a byte."""
        frame, inside = divmod(place, self.stride)
        return frame * self.pixel_bytes + min(max(0, inside - self.header), self.pixel_bytes)

    @property
    def patches(self) -> tuple[Region, ...]:
        """Boxes that make up a frame and are best read one after the other, each of many frames at once; (): a frame is
        best read as a whole.
        """
        return ()

    @classmethod
    def of(
        cls,
        record: FrameRecord,
        counts: Sequence[int] | np.ndarray,
        *,
        file_header: int | Sequence[int] | np.ndarray = 0,
        first: Sequence[int] | np.ndarray | None = None,
        files: Sequence[int] | np.ndarray | None = None,
    ) -> FrameLayout:
        """Lay out files that hold whole records.

        Args:
            counts: number of frames in each file.
            file_header: bytes before the first record, one number or one for each file.
            first: index of the first frame of each file, ascending; by default each file goes on
                where the one before ended. Gaps are blank.
            files: index of the file of each entry, by default 0, 1, 2, …

        Raises:
            FormatError: files overlap.
        """
        stride = record.stride
        # Most sets are one file, and most of the time to open them went into arithmetic with arrays
        # of one element
        if len(counts) == 1:
            start, at = 0 if first is None else int(first[0]), file_header
            stop, file = start + int(counts[0]), 0 if files is None else int(files[0])
            byte = int(at[0]) if isinstance(at, Sequence | np.ndarray) else int(at)
            alone = np.array([[start * stride, stop * stride, byte, file]], np.int64)
            return cls._checked(record, alone, stop)
        n = np.asarray(counts, np.int64)
        begin = n.cumsum() - n if first is None else np.asarray(first, np.int64)
        end = begin + n
        stream = np.empty((len(n), 4), np.int64)
        stream[:, 0], stream[:, 1], stream[:, 2] = begin * stride, end * stride, file_header
        stream[:, 3] = np.arange(len(n)) if files is None else files
        return cls._checked(record, stream, int(end.max(initial=0)))

    @classmethod
    def running_on(
        cls, record: FrameRecord, sizes: Sequence[int] | np.ndarray, *, file_header: int = 0, names: Sequence[str] = ()
    ) -> FrameLayout:
        """Lay out files whose contents form one stream of records that may cross file borders.

        Args:
            sizes: file sizes in bytes.
            file_header: bytes at the beginning of each file that do not belong to the stream.
            names: names of the files, for errors.

        Raises:
            FormatError: a file ends within a word.
        """
        n = np.maximum(np.asarray(sizes, np.int64) - file_header, 0)
        end = np.cumsum(n)
        stream = np.stack([end - n, end, np.full_like(n, file_header), np.arange(len(n))], axis=1)
        size, stride = record.pixel_bytes, record.stride
        inside = (end[:-1] % stride) - record.header
        cut = (inside > 0) & (inside < size) & (inside % record.word_bytes != 0)
        if cut.any():
            file = int(np.flatnonzero(cut)[0])
            name = names[file] if names else f"file {file} of the set"
            raise FormatError(
                f"{name}: ends in the middle of a pixel; frames of {size:,} bytes cannot run across this border"
            )
        whole, rest = divmod(int(end[-1]) if len(end) else 0, stride)
        stored = whole + (rest >= record.header + size)  # the last footer may be missing
        return cls._checked(record, stream[n > 0], stored)

    @classmethod
    def planes(
        cls, record: FrameRecord, files: Sequence[int] | np.ndarray, offsets: Sequence[int] | np.ndarray
    ) -> FrameLayout:
        """Lay out frames at any places of files.

        The record of frame n starts at byte `offsets[n]` of file `files[n]`; it is blank if that is negative.
        """
        at = np.asarray(offsets, np.int64)
        which = np.asarray(files, np.int64)
        stride = record.stride
        n = np.arange(len(at))
        stream = np.stack([n * stride, (n + 1) * stride, at, which], axis=1)[at >= 0]
        return cls._checked(record, stream, len(at))

    @classmethod
    def _checked(cls, record: FrameRecord, stream: np.ndarray, stored: int) -> FrameLayout:
        if len(stream) != 1 or stream.item(0) >= stream.item(1):
            order = np.argsort(stream[:, 0], kind="stable")
            # An empty file holds no frames, whatever index its first frame would have
            order = order[stream[order, 1] > stream[order, 0]]
            stream = np.ascontiguousarray(stream[order])
            clash = np.flatnonzero(stream[1:, 0] < stream[:-1, 1])
            if len(clash):
                raise FormatError(
                    f"two files of the set hold the same frames (entries {int(order[clash[0]])} and"
                    f" {int(order[clash[0] + 1])})"
                )
        return cls(
            (stored,),
            record.sig_shape,
            stream,
            record.stride,
            record.header,
            stored,
            record.word_bytes,
            record.word_pixels,
            record.sorted_pieces,
        )

    @property
    def frames(self) -> FrameLayout:
        return self

    @property
    def blocks(self) -> None:
        return None

    @property
    def whole(self) -> bool:
        return False

    def arranged(self, scan: Scan, nav_ndim: int = 1) -> FrameLayout:
        """Show the same frames as another scan: see `Layout`.

        An `order` holds for its own scan shape; in another one, frames are shown as they were
        recorded. If this layout shows a selection already, `scan.chosen` selects from that, and
        its `shape` and `line_skip` are ignored.
        """
        offset, chosen = self.offset + scan.sync_offset, scan.chosen
        if self.chosen is not None:
            return altered(self, offset=offset, chosen=self.chosen if chosen is None else self.chosen[chosen])
        nav = scan.over(self.nav_shape)
        order = ScanOrder.skipping(nav, scan.line_skip) if scan.line_skip else self.order
        kept = order if order is not None and order.shape == nav else None
        return altered(self, nav_shape=nav, offset=offset, chosen=chosen, order=kept)

    def along_one_axis(self) -> FrameLayout:
        """Show what this layout shows along one axis instead of several."""
        count = len(self.shape) - len(self.sig_shape)
        nav = (math.prod(self.shape[:count]),)
        return altered(self, nav_shape=nav, order=None if self.order is None else replace(self.order, shape=nav))

    def ordered(self, order: ScanOrder) -> FrameLayout:
        """Show the frames where `order` says, in its scan shape."""
        return altered(self, nav_shape=order.shape, order=order)

    @cached_property
    def how(self) -> tuple[np.ndarray, np.ndarray]:
        """(numbers, table), as `vfs.kernels.planning.plan_frames` and `vfs.kernels.locate` take them.

        The table has the stored frame, minus `offset`, of each position that is shown; it is empty
        where they follow one another.
        """
        nav, table = self.nav_shape, _NONE if self.order is None else self.order.frames
        if self.chosen is not None:
            nav, table = (len(self.chosen),), self.chosen if self.order is None else table[self.chosen]
        return (
            _ints((self.stride, self.header, self.stored, self.offset, self.word_bytes, self.word_pixels, *nav)),
            table,
        )

    @cached_property
    def _starts(self) -> np.ndarray:
        """int64[f], stream bytes at which the parts of the stream begin."""
        return np.ascontiguousarray(self.stream[:, S_START])

    def locate(self, positions: np.ndarray) -> np.ndarray:
        """Find where frames begin.

        Args:
            positions: int64[n] flat positions along the navigation axes that are shown.

        Returns:
            int64[n, 3]: file; byte where the frame begins behind its header; bytes from there to
            the end of the part of the stream that this file holds (a longer frame goes on in
            another file, or is not whole). -1, -1, 0 where the position is blank: no frame is
            stored for it, or no file holds its first byte.
        """
        table = self.how[1]
        frames = (table[positions] if len(table) else positions) + self.offset
        if not len(self.stream):
            return np.tile(np.array([-1, -1, 0]), (len(frames), 1))
        begin = frames * self.stride + self.header
        rows = self._starts.searchsorted(begin, "right") - 1
        parts = self.stream[rows]
        found = np.empty((len(frames), 3), np.int64)
        found[:, 0] = parts[:, S_FILE]
        found[:, 1] = begin - parts[:, S_START] + parts[:, S_BYTE]
        found[:, 2] = parts[:, S_STOP] - begin
        held = (frames >= 0) & (frames < self.stored) & (rows >= 0) & (found[:, 2] > 0)
        if not held.all():
            found[~held] = -1, -1, 0
        return found

    def stored_frames(self, nav_ndim: int) -> int:
        return max(0, self.stored - self.offset)

    def last_frame(self, region: Region, nav_ndim: int) -> int:
        table, nav = self.how[1], self.shape[:nav_ndim]
        if not len(table):
            last = region.last_position(nav)
            return -1 if last < 0 else last + self.offset
        box = Region(region.start[:nav_ndim], region.stop[:nav_ndim], region.step[:nav_ndim])
        return int(self.frame_numbers(box.flat(nav), nav_ndim).max(initial=-1))

    def frame_numbers(self, positions: np.ndarray | None, nav_ndim: int) -> np.ndarray:
        table = self.how[1]
        at = np.arange(math.prod(self.shape[:nav_ndim])) if positions is None else positions
        if not len(table):
            return np.asarray(at + self.offset)
        frames = table[at]
        return np.where(frames < 0, self._without_frame(at, table), frames + self.offset)

    def _without_frame(self, positions: np.ndarray, table: np.ndarray) -> np.ndarray:
        """Return a number for positions that no frame is known of.

        Those in front of the last one that has a frame have lost theirs, which is nothing to wait for.
        """
        held = np.flatnonzero((table >= 0) & (table + self.offset < self.stored))
        return np.where(positions < (held[-1] if len(held) else 0), -1, NO_LIMIT)

    def valid(self, nav_ndim: int) -> np.ndarray:
        nav = self.shape[:nav_ndim]
        if self.in_order:
            edges = np.concatenate([[0], self.held_in_order(math.prod(nav)).reshape(-1), [math.prod(nav)]])
            return np.repeat(np.arange(len(edges) - 1) % 2 == 1, np.diff(edges)).reshape(nav)
        found = np.empty(math.prod(nav), bool)
        for first, part in self._located(len(found)):
            found[first : first + len(part)] = part
        return found.reshape(nav)

    def _located(self, count: int) -> Iterator[tuple[int, np.ndarray]]:
        """Go through positions, some at a time: the first of these, and bool[n] which of them show a stored frame."""
        for first in range(0, count, _LOCATED):
            yield first, self.locate(np.arange(first, min(count, first + _LOCATED)))[:, 0] >= 0

    def blank(self, region: Region, nav_ndim: int) -> np.ndarray:
        box = Region(region.start[:nav_ndim], region.stop[:nav_ndim], region.step[:nav_ndim])
        found: np.ndarray = self.locate(box.flat(self.shape[:nav_ndim]))[:, 0] < 0
        return found.reshape(box.shape + (1,) * (len(self.shape) - nav_ndim))

    def holds(self, region: Region, nav_ndim: int) -> bool:
        parts = [Region(region.start[:nav_ndim], region.stop[:nav_ndim], region.step[:nav_ndim])]
        while parts:
            part = parts.pop()
            if part.size > _LOCATED:
                parts += part.halves()[::-1]
            elif (self.locate(part.flat(self.shape[:nav_ndim]))[:, 0] >= 0).any():
                return True
        return False

    def blanks(self, nav_ndim: int) -> int:
        nav = math.prod(self.shape[:nav_ndim])
        if not self.in_order:
            return nav - sum(int(np.count_nonzero(part)) for _, part in self._located(nav))
        return nav - int(np.diff(self.held_in_order(nav)).sum())

    def held_in_order(self, count: int) -> np.ndarray:
        """Find the positions whose frames begin in a part of the stream, where positions are in order.

        Args:
            count: number of positions that are shown.

        Returns: int64[r, 2], of each part that has any the first position and the one behind the last.
        """
        low, high = max(0, self.offset), min(self.stored, count + self.offset)
        first, last = (-(-(self.stream[:, end] - self.header) // self.stride) for end in (S_START, S_STOP))
        runs = np.stack([np.maximum(first, low), np.minimum(last, high)], axis=1) - self.offset
        return runs[runs[:, 0] < runs[:, 1]]

    def read_ranges(self, region: Region, most: int = NO_LIMIT) -> tuple[np.ndarray, int]:
        box = np.array((region.start, region.stop, region.step), np.int64)
        how, chosen = self.how
        room = ROOM
        while True:
            rows = np.empty((room, COLUMNS), np.int64)
            first, end, covered = kernels.planning.plan_frames(box, how, self.pieces, self.stream, chosen, rows, most)
            if covered > -2:
                # NO_ROWS: an empty view would keep a long table alive
                return (rows[first:end] if covered >= 0 else NO_ROWS), covered
            room = end
