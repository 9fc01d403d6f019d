"""Makes frames of counted events, of which a file has a list for each: the pixels that an electron hit.

HDF5 keeps lists of their own length in collections, the global heap (section III.E of its specification)::

    element of the data set: length (uint32) | byte of its collection (uint64) | its number there (uint32)
    collection: "GCOL" | version (uint8) | 3 bytes | bytes of it (uint64) | object | object | …
    object: number (uint16) | references (uint16) | 4 bytes | bytes (uint64) | list, up to a multiple of 8 bytes

A block is some positions of a line of the scan: to make it, their elements are read, and each collection once.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

import numpy as np

from vfs.errors import DecodeError, SourceError
from vfs.formats.hdf5.pieces import StoredData
from vfs.formats.hdf5.small import read_region
from vfs.formats.hdf5.spectra import check_same
from vfs.formats.headers import read_at
from vfs.model.decode import MadeBlocks
from vfs.model.files import Files
from vfs.model.layout import GridLayout
from vfs.model.region import Region
from vfs.model.sources import Sources

_HEAD = struct.Struct("<4sB3xQ")
_OBJECT = struct.Struct("<HH4xQ")
_MIN_COLLECTION_BYTES = 4096  # as libhdf5 makes them
_MAX_COLLECTION_BYTES = 1 << 30
_REFERENCE = np.dtype([("length", "<u4"), ("at", "<u8"), ("number", "<u4")])


@dataclass(frozen=True, eq=False)
class RowsOfScan:
    """Says which rows (lists) are of which position of a scan.

    Attributes:
        each: how many rows a position has, one behind the other; 0: `order` and `begins` say it.
        order: int64[n], rows in the order of their positions; begins: int64[positions + 1], where those of each begin.
    """

    each: int
    order: np.ndarray
    begins: np.ndarray

    @classmethod
    def of(cls, positions: np.ndarray, count: int) -> RowsOfScan:
        """Make one.

        Args:
            positions: int64[n], the position of each row, from 0 to `count` - 1.
        """
        each = len(positions) // count
        none = np.empty(0, np.int64)
        if each and len(positions) == each * count and (positions == np.arange(len(positions)) // each).all():
            return cls(each, none, none)
        order = np.argsort(positions, kind="stable")
        return cls(0, order, np.searchsorted(positions[order], np.arange(count + 1)))

    def among(self, first: int, behind: int) -> tuple[np.ndarray, np.ndarray]:
        """Return (rows of some positions, which of these positions each is of, from 0 on)."""
        if self.each:
            return np.arange(first * self.each, behind * self.each), np.repeat(np.arange(behind - first), self.each)
        begins = self.begins[first : behind + 1]
        return self.order[begins[0] : begins[-1]], np.repeat(np.arange(behind - first), np.diff(begins))


@dataclass(frozen=True, eq=False)
class CountedFrames(MadeBlocks):
    """Counts the events of some positions of a line. Blocks have no bytes: it reads the lists by itself.

    Attributes:
        sources: where the file is.
        lists: uint32[rows, 4]: see above.
        files: the file, as it was when the set was opened.
        events: dtype of an event: the number of a pixel, row by row.
        base: first byte of the HDF5 file proper.
        scan, frame: lines, positions of a line; rows, columns.
        block: positions of a block.
        rows: which lists are of which position.
    """

    sources: Sources
    lists: StoredData
    files: Files
    events: np.dtype
    base: int
    scan: tuple[int, int]
    frame: tuple[int, int]
    block: int
    rows: RowsOfScan

    @property
    def dtype(self) -> np.dtype:
        return np.dtype(np.uint16)

    @property
    def layout(self) -> GridLayout:
        return GridLayout((*self.scan, *self.frame), (1, self.block, *self.frame))

    def decode_block(self, data: np.ndarray, block: int, shape: tuple[int, ...]) -> np.ndarray:
        (line, first, *_), (_, behind, *_) = (box := self.layout.box(block)).start, box.stop
        pixels = self.frame[0] * self.frame[1]
        start, most = line * self.scan[1], np.iinfo(self.dtype).max
        try:
            rows, position = self.rows.among(start + first, start + behind)
            references = self._references(rows)
            totals = np.bincount(position, references["length"])
            made = np.zeros((behind - first, pixels), np.uint32 if (totals > most).any() else self.dtype)
            order = np.argsort(references["at"], kind="stable")
            cuts = np.flatnonzero(np.diff(references["at"][order])) + 1
            for some in np.split(order, cuts) if len(order) else ():
                for k, found in zip(some.tolist(), self._lists(references[some]), strict=True):
                    if len(found) and not 0 <= int(found.min()) <= int(found.max()) < pixels:
                        raise DecodeError(
                            f"list {int(rows[k]):,}: expected events in {pixels:,} pixels, found one in pixel"
                            f" {int(found.max()):,}"
                        )
                    np.add.at(made[position[k]], found, 1)
        except (SourceError, DecodeError):
            check_same(self.sources, self.files)
            raise
        check_same(self.sources, self.files)
        if made.dtype != self.dtype and int(made.max()) > most:
            raise DecodeError(f"line {line}: expected at most {most:,} events in a pixel, found {int(made.max()):,}")
        return made.astype(self.dtype, copy=False).reshape(shape)

    def _references(self, rows: np.ndarray) -> np.ndarray:
        """Read the elements of some rows, `_REFERENCE[n]`."""
        made = np.zeros(len(rows), _REFERENCE)
        at = 0
        for run in np.split(rows, np.flatnonzero(np.diff(rows) != 1) + 1) if len(rows) else ():
            region = Region((int(run[0]), 0), (int(run[-1]) + 1, 4), (1, 1))
            if self.lists.layout.read_ranges(region)[1] < 4 * len(run):
                raise SourceError(
                    f"{self.lists.files[0]}: lists {run[0]:,} to {run[-1]:,} of events were never written"
                )
            found = np.ascontiguousarray(read_region(self.sources, self.lists, region), "<u4")
            made[at : at + len(run)] = found.view(_REFERENCE).reshape(-1)
            at += len(run)
        made["at"][made["length"] == 0] = 0
        return made

    def _lists(self, references: np.ndarray) -> list[np.ndarray]:
        """Read lists of one collection."""
        length, at = references["length"].astype(np.int64), int(references["at"][0])
        if not length.any():
            return [np.empty(0, np.int64)] * len(references)
        path, size = self.lists.files[0], int(self.files.sizes[0])
        begin = self.base + at
        head = read_at(self.sources, path, _HEAD.size, begin) if begin + _HEAD.size <= size else b""
        mark, _, whole = _HEAD.unpack(head) if head else (b"", 0, 0)
        if mark != b"GCOL" or not _MIN_COLLECTION_BYTES <= whole <= min(_MAX_COLLECTION_BYTES, size - begin):
            raise DecodeError(f"byte {begin:,}: expected a collection of lists within the file, found {head[:16]!r}")
        data = read_at(self.sources, path, whole, begin)
        places = _places(data)
        found = []
        for n, number in zip(length.tolist(), references["number"].tolist(), strict=True):
            first, stored = places.get(number, (0, 0))
            if not n * self.events.itemsize <= stored <= whole - first:
                raise DecodeError(
                    f"byte {begin:,}: expected list {number} of {n:,} events, found {stored:,} bytes in its collection"
                )
            found.append(np.frombuffer(data, self.events, n, first).astype(np.int64))
        return found


def _places(data: bytes) -> dict[int, tuple[int, int]]:
    """Return the number of each object of a collection -> its first byte, and its bytes."""
    found: dict[int, tuple[int, int]] = {}
    at = _HEAD.size
    while at + _OBJECT.size <= len(data):
        number, _, size = _OBJECT.unpack_from(data, at)
        if not number:  # the room that is left
            break
        at += _OBJECT.size
        found[number] = (at, size)
        at += -(-size // 8) * 8
    return found
