"""Finds the scan of a TVIPS set in the headers of its frames.

They hold the scan position of each frame, or a rotator index that counts positions. Few headers are
read where frames follow one another without a loss.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from vfs.errors import TruncatedSourceError
from vfs.model.files import Files
from vfs.model.layout import FrameLayout, ScanOrder
from vfs.model.layout.scan_order import FrameRuns, Shifts, placed
from vfs.model.stored import Absence

# name, dtype, byte of the frame header, unit
FIELDS = (
    ("counter", "<u4", 0, ""),
    ("timestamp_seconds", "<u4", 4, "s since 1970-01-01"),
    ("timestamp_milliseconds", "<u4", 8, "ms"),
    ("lut_index", "<u4", 12, ""),
    ("faraday_cup", "<f4", 16, ""),
    ("magnification", "<u4", 20, ""),
    ("mode", "<u4", 24, "1 image, 2 diffraction"),
    ("stage_x", "<f4", 28, ""),
    ("stage_y", "<f4", 32, ""),
    ("stage_z", "<f4", 36, ""),
    ("stage_alpha", "<f4", 40, "deg"),
    ("stage_beta", "<f4", 44, "deg"),
    ("rotator_index", "<u4", 48, ""),
    ("scan_position_x", "<f4", 68, "scan steps"),
    ("scan_position_y", "<f4", 72, "scan steps"),
)
IMAGE, DIFFRACTION = 1, 2
"""Modes of a frame."""
AT = {name: at for name, _, at, _ in FIELDS}
_LOOK = 4096  # frames read at once; a scan must start among the first frames of this number
_LONGEST_ROW = 1 << 16  # frames
_MAX_ROWS = 1 << 24
_MAX_BLANK = 1_000_000  # most positions without a frame
_MAX_FOR_ONE = 100  # most positions for each frame, of scans that visit only some
_TIMED = 9  # frames whose times are compared


class FrameHeaders:
    """Reads one field of the frame headers for a range of frames.

    Args:
        layout: layout of all frames.
        files: the files.
    """

    def __init__(self, layout: FrameLayout, files: Files) -> None:
        self.layout = layout
        self.paths, self.sources = files.paths, files.sources

    def read(self, frames: np.ndarray, at: int, size: int) -> bytes:
        """Read `size` bytes from byte `at` of the header of each frame, one after the other.

        Bytes of missing frames are 0.

        Args:
            frames: int64[n] numbers of the frames, ascending.
        """
        found: list[bytes] = []
        places = self.layout.locate(frames)
        ends = [*(np.flatnonzero(np.diff(places[:, 0])) + 1).tolist(), len(places)]
        for part, file in zip(
            np.split(places[:, 1] - self.layout.header + at, ends[:-1]),
            places[np.array(ends) - 1, 0].tolist(),
            strict=True,
        ):
            if file < 0:
                found.append(bytes(size * len(part)))
                continue
            got = [self.sources.read(self.paths[file], byte, size) for byte in part.tolist()]
            if any(len(one) < size for one in got):
                raise TruncatedSourceError(
                    f"{self.paths[file]}: ends before a frame header that existed when the file was opened"
                )
            found += got
        return b"".join(found)

    def first(self, stored: FrameRuns, size: int) -> dict[str, Any]:
        """Return the fields of the first frame's header, of `size` bytes; those that are finite."""
        raw = self.read(stored.at(np.zeros(1, np.int64)), 0, size)
        said = {name: np.frombuffer(raw, kind, 1, at)[0].item() for name, kind, at, _ in FIELDS if at + 4 <= size}
        return {name: value for name, value in said.items() if math.isfinite(value)}

    def step(self, stored: FrameRuns) -> float | None:
        """Return the seconds from a frame to the next; None where frames do not follow each other evenly.

        The clock counts milliseconds. A few frames are looked at, from the first to the last.
        """
        frames = stored.at(np.unique(np.linspace(0, len(stored) - 1, _TIMED).astype(np.int64)))
        read = np.frombuffer(self.read(frames, AT["timestamp_seconds"], 8), "<u4")
        seconds, more = read.reshape(-1, 2).T.astype("i8")
        times = 1000 * seconds + more
        step = float(times[-1] - times[0]) / float(frames[-1] - frames[0])
        even = np.abs(times - times[0] - step * (frames - frames[0])) <= 1
        return step / 1000 if step > 0 and seconds.all() and even.all() else None

    def positions(self, frames: np.ndarray) -> np.ndarray:
        """Return scan x and y of the frames, float32[n, 2]."""
        return np.frombuffer(self.read(frames, AT["scan_position_x"], 8), "<f4").reshape(-1, 2)

    def rotator(self, frames: np.ndarray) -> np.ndarray:
        """Return the rotator index of the frames, int64[n]."""
        return np.frombuffer(self.read(frames, AT["rotator_index"], 4), "<u4").astype(np.int64)


@dataclass(frozen=True, eq=False)
class TvipsScan:
    """Describes the scan that frame headers tell.

    Attributes:
        start: number of its first frame.
        nav: (rows, columns).
        order: which frame each position shows, counted from `start`; None if they follow one another.
        lost: number of positions of which no frame was stored, in front of the last one that was.
        again: number of frames that are not shown, since a later one has the same position.
    """

    start: int
    nav: tuple[int, int]
    order: ScanOrder | None = None
    lost: int = 0
    again: int = 0


def _last_in_scan(headers: FrameHeaders, frames: FrameRuns) -> int:
    """Count the frames in front of those that were recorded after the scan, which have no position."""

    def inside(index: int) -> bool:
        x, y = headers.positions(frames.at(np.array([index])))[0].tolist()
        return bool(x >= 0 and y >= 0 and (x or y))

    low, high = 2, len(frames)  # numbers of frames that belong to the scan for certain, and perhaps
    if inside(high - 1):
        return high
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if inside(middle - 1) else (low, middle - 1)
    return low


def by_position(headers: FrameHeaders, stored: FrameRuns) -> TvipsScan | None:
    """Find the scan by the scan positions in the frame headers.

    Lost frames leave their positions blank, also the first ones. Frames of scans that do not go row by
    row are placed one by one, for which all headers are read.

    Args:
        stored: numbers of the stored frames.

    Returns: None if the positions are of no scan.
    """
    begin = _begin(headers.positions(stored.part(0, _LOOK).numbers()))
    if begin is None:
        return None
    recorded = stored.part(begin, len(stored))
    frames = recorded.part(0, _last_in_scan(headers, recorded))
    columns = 0
    for near in range(0, min(len(frames), _LONGEST_ROW), _LOOK):
        seen = headers.positions(frames.part(near, near + _LOOK).numbers())
        columns = max(columns, int(np.nan_to_num(seen[:, 0], nan=0, posinf=0, neginf=0).max()) + 1)
        if (seen[:, 1] != 0).any():
            break
    else:
        if len(frames) > _LONGEST_ROW:
            return None
    if columns > _LONGEST_ROW:
        return None

    def flat(numbers: np.ndarray) -> np.ndarray:
        x, y = headers.positions(numbers).T.astype(np.float64)
        fits = (x >= 0) & (x < columns) & (y >= 0) & (y < _MAX_ROWS) & (x == np.rint(x)) & (y == np.rint(y))
        return np.where(fits, np.where(fits, y, 0) * columns + np.where(fits, x, 0), -1).astype(np.int64)

    places = placed(flat, frames, _LOOK)
    return _one_by_one(headers, recorded.numbers()) if places is None else _scan(frames, places, columns)


def _begin(seen: np.ndarray) -> int | None:
    """Return the number of a scan's first frame; None if the beam does not move.

    Frames that are recorded before a scan have the position (0, 0), or one that does not change.

    Args:
        seen: float32[n, 2], x and y of the first frames.
    """
    fits = ((seen >= 0) & np.isfinite(seen)).all(axis=1)
    away = np.flatnonzero(fits & seen.any(axis=1))
    if not len(away):
        return None
    starts = np.flatnonzero((seen[:-1] == 0).all(axis=1) & (seen[1:] == (1, 0)).all(axis=1))
    if len(starts) and len(np.unique(seen[away[away < starts[0]]], axis=0)) < 2:
        return int(starts[0])
    first = int(away[0])
    return first - 1 if first and not seen[first - 1].any() else first


def _ends(frames: FrameRuns) -> tuple[int, int]:
    """Return the first and the last number."""
    return frames.first.item(0), int(frames.first[-1] + frames.counts[-1]) - 1


def _scan(frames: FrameRuns, places: Shifts, columns: int) -> TvipsScan | None:
    """Return the scan of frames whose positions grow; None if they fill no row."""
    start, last = _ends(frames)
    end = last + int(places.by[-1]) + 1
    if end == last + 1 - start:  # none was lost; of a row that was not finished, no frame is shown
        return TvipsScan(start, (end // columns, columns)) if end >= columns else None
    nav = -(-end // columns), columns
    if math.prod(nav) > len(frames) + _MAX_BLANK:
        return None
    order = ScanOrder.visiting(places.numbers(frames), nav, frames.numbers() - start)
    elsewhere = last + 1 - start - len(frames)  # known to be missing from the files
    return TvipsScan(start, nav, order, order.missing - elsewhere)


def _one_by_one(headers: FrameHeaders, frames: np.ndarray) -> TvipsScan | None:
    """Return the scan of frames that do not go row by row: each is at the position in its header."""
    seen = headers.positions(frames)
    away = np.flatnonzero(seen.any(axis=1))
    first, stop = int(away[0]), int(away[-1]) + 1
    if seen[first:stop].any(axis=1).all():  # of frames at (0, 0), one before or behind is the scan's
        first, stop = (first - 1, stop) if first else (first, stop + 1)
    seen, frames = seen[first:stop], frames[first:stop]
    fits = ((seen >= 0) & (seen < _LONGEST_ROW) & (seen == np.rint(seen))).all(axis=1)
    seen, frames, start = seen[fits].astype(np.int64), frames[fits], int(frames[0])
    if 2 * len(frames) < len(fits):
        return None
    columns, rows = (int(most) + 1 for most in seen.max(axis=0))
    places = seen[:, 1] * columns + seen[:, 0]
    visited = len(np.unique(places))
    if rows * columns > (_MAX_FOR_ONE if 2 * visited >= len(frames) else 2) * len(frames) or visited < 2:
        return None
    order = ScanOrder.visiting(places, (rows, columns), frames - start)
    lost = order.missing
    return TvipsScan(start, (rows, columns), order, lost, len(frames) - rows * columns + lost)


def by_rotator(headers: FrameHeaders, stored: FrameRuns) -> TvipsScan | None:
    """Find the scan by the rotator index, which counts the positions of a square scan from 1.

    Returns: None if it does not.
    """
    seen = headers.rotator(stored.part(0, _LOOK).numbers())
    starts = np.flatnonzero((seen[:-1] == 1) & (seen[1:] == 2))
    if not len(starts):
        return None
    frames = stored.part(int(starts[0]), len(stored))
    low, high = 2, len(frames)  # numbers of frames that are counted for certain, and perhaps
    while low < high:
        middle = (low + high + 1) // 2
        counted = int(headers.rotator(frames.at(np.array([middle - 1])))[0]) >= middle
        low, high = (middle, high) if counted else (low, middle - 1)
    frames = frames.part(0, low)
    places = placed(lambda numbers: headers.rotator(numbers) - 1, frames, _LOOK)
    if places is None:
        return None
    end = _ends(frames)[1] + int(places.by[-1]) + 1
    side = math.isqrt(end)
    return _scan(frames, places, side) if side * side == end else None


def absences(headers: FrameHeaders, path: str, scan: TvipsScan, frames: int) -> tuple[Absence, ...]:
    """Report frames of a scan that were lost, or have no place of their own.

    Frames recorded after the scan are no loss.
    """
    rows, columns = scan.nav
    end = scan.start + rows * columns
    if scan.order is None:
        if end >= frames or not (headers.positions(np.array([end])) == (0, rows)).all():
            return ()
        less = frames - end
        said = (
            f"{path}: the scan ends within a row of {columns:,}: its"
            f" {'frame is' if less == 1 else f'{less:,} frames are'} not shown"
        )
        return (Absence(said, counts={"frames_left_out": less}),)
    found = []
    if scan.lost:
        said = (
            f"{path}: by the positions in its frame headers, {scan.lost:,} of {rows:,} × {columns:,} scan positions"
            f" {'has no frame: it is' if scan.lost == 1 else 'have no frame: they are'} blank"
        )
        found.append(Absence(said, counts={"frames_missing": scan.lost}))
    if scan.again:
        said = (
            f"{path}: by the positions in its frame headers, {scan.again:,}"
            f" {'frame has' if scan.again == 1 else 'frames have'} the position of a later one, which is shown"
        )
        found.append(Absence(said, counts={"frames_left_out": scan.again}))
    return tuple(found)
