"""Reads the headers of the blocks of K2 IS files, and aligns the eight sectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from vfs import kernels
from vfs.errors import FormatError
from vfs.kernels import k2is_blocks as k2is
from vfs.model.sources import Sources
from vfs.sources.names import basename

HEADER = np.dtype(
    [
        ("sync", ">u4"),  # 0xFFFF0055
        ("_pad", "V4"),
        ("version", "u1"),
        ("flags", "u1"),  # bit 0: the shutter is open (set one frame late)
        ("_more", "V6"),
        ("count", ">u4"),  # of blocks, the same in all sectors
        ("width", ">u2"),  # of the sector, 256
        ("height", ">u2"),  # 1860
        ("frame_id", ">u4"),
        ("start", ">u2", 2),  # x and y of the block in the sector
        ("end", ">u2", 2),  # inclusive
        ("size", ">u4"),  # of the block in bytes, 22360
    ]
)


class SectorFile:
    """Reads headers of a file's blocks by their number, while the set is opened."""

    def __init__(self, sources: Sources, path: str, size: int) -> None:
        self.sources = sources
        self.path = path
        self.blocks = size // k2is.BYTES
        if size < k2is.BYTES or not self.good(self.raw(0)):
            raise FormatError(
                f"{path}: expected a file of K2 IS blocks, it begins with {self.raw(0)[:4]!r} and has {size:,} bytes"
            )

    def raw(self, block: int) -> bytes:
        return self.sources.read(self.path, block * k2is.BYTES, k2is.HEADER)

    @staticmethod
    def good(raw: bytes) -> bool:
        return len(raw) == k2is.HEADER and bool(kernels.k2is.fault(np.frombuffer(raw, np.uint8), -1, -1) == k2is.GOOD)

    def header(self, block: int) -> np.void:
        """Read the header of a block.

        Raises:
            FormatError: it is damaged.
        """
        raw = self.raw(block)
        if not self.good(raw):
            at = block * k2is.BYTES
            raise FormatError(
                f"{self.path}: bytes {at:,} to {at + k2is.BYTES:,}: expected a K2 IS block, found {raw[:4]!r}; the file"
                " is damaged"
            )
        header: np.void = np.frombuffer(raw, HEADER)[0]
        return header

    def last(self) -> tuple[int, int]:
        """Return (number, count) of the last undamaged block, searched among the last 32."""
        for block in range(self.blocks - 1, max(-1, self.blocks - 1 - k2is.BLOCKS), -1):
            if self.good(self.raw(block)):
                return block, int(self.header(block)["count"])
        raise FormatError(
            f"{self.path}: expected K2 IS blocks at its end, found none in the last {min(self.blocks, k2is.BLOCKS)}"
            " places; the file is damaged"
        )

    def with_count(self, count: int) -> int:
        """Return the number of the first block with this count or a later one."""
        near = count - int(self.header(0)["count"])
        if 0 <= near < self.blocks and self.good(self.raw(near)) and self.header(near)["count"] == count:
            return near
        return _first_where(0, self.blocks, lambda block: bool(self.header(block)["count"] >= count))


def _first_where(low: int, high: int, holds: Callable[[int], bool]) -> int:
    """Return the first number from `low` on for which `holds` is true; `high` if there is none.

    If `holds` is true for a number, it must be true for all larger numbers.
    """
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return low


def aligned(sectors: Sequence[SectorFile]) -> tuple[np.ndarray, int, int, tuple[str, int]]:
    """Find the frames that all sectors have in common.

    Returns: (number of the first frame's first block in each sector, number of frames, frame id of
        the first one, (the file that ends first, number of whole frames that others hold behind its
        end)).

    Raises:
        FormatError: the sectors have no whole frame in common.
    """
    count = max(int(s.header(0)["count"]) for s in sectors)
    starts = [s.with_count(count) for s in sectors]
    ends = [s.last() for s in sectors]
    count = min(end[1] for end in ends)
    stops = [min(end[0], s.with_count(count)) + 1 for s, end in zip(sectors, ends, strict=True)]
    names = f"{sectors[0].path} to {basename(sectors[-1].path)}"
    if any(stop - start < k2is.BLOCKS for start, stop in zip(starts, stops, strict=True)):
        raise FormatError(
            f"{names}: expected eight sectors of the same frames, found no whole frame (32 blocks) that all of them"
            " hold"
        )
    if any(_ids(s, start) != 1 for s, start in zip(sectors, starts, strict=True)):
        starts = [_next_frame(s, start, stop) for s, start, stop in zip(sectors, starts, stops, strict=True)]
    # Reading a sector that lost blocks is an error
    frames = max((stop - start) // k2is.BLOCKS for start, stop in zip(starts, stops, strict=True))
    if frames < 1 or any(start >= s.blocks for s, start in zip(sectors, starts, strict=True)):
        raise FormatError(
            f"{names}: expected eight sectors of the same frames, found no whole frame that all of them hold"
        )
    heads = [s.header(start) for s, start in zip(sectors, starts, strict=True)]
    for sector, head in zip(sectors, heads, strict=True):
        if head["frame_id"] != heads[0]["frame_id"] or head["start"].tolist() != [240, 0]:
            raise FormatError(
                f"{sector.path}: cannot be aligned with {sectors[0].path}: expected a frame {heads[0]['frame_id']} that"
                f" begins at x = 240, y = 0, found frame {head['frame_id']} at x = {head['start'][0]}, y ="
                f" {head['start'][1]}"
            )
    held = max((end[0] + 1 - start) // k2is.BLOCKS for start, end in zip(starts, ends, strict=True))
    short = min(zip(sectors, ends, strict=True), key=lambda one: one[1][1])[0].path
    return np.array(starts, np.int64), frames, int(heads[0]["frame_id"]), (short, held - frames)


def _ids(sector: SectorFile, start: int) -> int:
    """Count the frames to which the next 32 blocks belong."""
    return len({int(sector.header(start + k)["frame_id"]) for k in range(k2is.BLOCKS)})


def _next_frame(sector: SectorFile, start: int, stop: int) -> int:
    """Return the first block of another frame than the one at `start`."""
    here = sector.header(start)["frame_id"]
    return next(
        (k for k in range(start, min(stop, start + 2 * k2is.BLOCKS)) if sector.header(k)["frame_id"] != here), stop
    )


def counts_frames(sectors: Sequence[SectorFile], starts: np.ndarray, frames: int, first_id: int) -> bool:
    """Return True if the second frame has the next frame id in at least one sector."""
    if frames < 2:
        return True
    raws = [(s, s.raw(int(start) + k2is.BLOCKS)) for s, start in zip(sectors, starts, strict=True)]
    return any(
        s.good(raw) and int(np.frombuffer(raw, HEADER)[0]["frame_id"]) == (first_id + 1) & 0xFFFFFFFF for s, raw in raws
    )


def first_with_open_shutter(sectors: Sequence[SectorFile], starts: np.ndarray, frames: int) -> int:
    """Return the first frame with the flag that the shutter is open; `frames` if there is none."""

    def is_open(frame: int) -> bool:
        # Every sector has the flag, so one undamaged block is enough
        for sector, start in zip(sectors, starts.tolist(), strict=True):
            raw = sector.raw(start + frame * k2is.BLOCKS)
            if sector.good(raw):
                return bool(raw[9] & 1)
        raise FormatError(f"{sectors[0].path}: frame {frame} is damaged in all sectors")

    return _first_where(0, frames, is_open)
