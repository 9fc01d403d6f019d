"""Reads what a .hdr file says about the scan: its lines and columns, and the frames behind each line."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from vfs.errors import FormatError

_MAX_SCAN = 1 << 32  # most positions of a scan


class ScanSaid(NamedTuple):
    """Holds what a .hdr file says about the scan.

    ScanY and ScanX count even if another number of frames is stored: surplus frames are left out,
    missing ones are blank at the end. Without them each trigger starts a line, if there are several
    lines of several frames.
    """

    scan: tuple[int, ...]
    """(lines, columns); () if it has none"""
    line_skip: int
    """frames behind each line that are no part of the scan"""
    expected: int
    """number of frames for the scan or, without a scan, for the acquisition; 0 if it has none"""
    sure: bool
    """True if it has ScanY and ScanX"""

    def shown(self, stored: int) -> tuple[int, ...]:
        """Return the shape that is shown, one axis of all frames where none fits.

        A few frames behind lines of triggers are left out; a line of them or more, or some for each
        line, say that the frames lie otherwise.
        """
        if self.sure or not self.scan:
            return self.scan or (stored,)
        (lines, columns), more = self.scan, stored - self.expected
        return (stored,) if more >= columns or (more > 0 and more % lines == 0) else self.scan


def scan_said(path: str | None, hdr: Mapping[str, str], stored: int) -> ScanSaid:
    """Return what a .hdr file says about the scan of so many stored frames.

    LineSkip counts unless the number of frames, in the .hdr or stored, shows that these frames were not recorded.
    Without it, what a trigger for each line recorded more than ScanX is left out.

    Raises: see `_positions`.
    """
    y, x = _positions(path, hdr)
    frames = count_in(hdr, "Frames in Acquisition (Number)")
    line = count_in(hdr, "Frames per Trigger (Number)")
    if y and x:
        behind = line - x if line > x and frames == y * line else 0
        skip = min(count_in(hdr, "LineSkip") if "LineSkip" in hdr else behind, (_MAX_SCAN - y * x) // y)
        if skip and y * x == (frames if frames in (y * x, y * (x + skip)) else stored):
            skip = 0
        return ScanSaid((y, x), skip, y * (x + skip), True)
    return ScanSaid((frames // line, line) if 1 < line < frames and frames % line == 0 else (), 0, frames, False)


def _positions(path: str | None, hdr: Mapping[str, str]) -> tuple[int, int]:
    """Return ScanY and ScanX of a .hdr file; 0 if it has none.

    Raises:
        FormatError: a value is not a number, or they are absurd.
    """
    scan = {key: hdr.get(key, "") or "0" for key in ("ScanY", "ScanX")}
    for key, word in scan.items():
        if not re.fullmatch("[0-9]{1,9}", word):
            raise FormatError(
                f"{path}: {key} says {word[:24]!r}, expected a number of frames; open the .mib files by name, without"
                " the .hdr"
            )
    y, x = map(int, scan.values())
    if y * x > _MAX_SCAN:
        raise FormatError(
            f"{path}: ScanY {y} × ScanX {x} are too many, expected at most {_MAX_SCAN:,}; open the .mib files by name,"
            " without the .hdr"
        )
    return y, x


def count_in(hdr: Mapping[str, str], key: str) -> int:
    """Return a number of frames in a .hdr file; 0 if it has none."""
    word = hdr.get(key, "")
    return int(word) if re.fullmatch("[0-9]{1,9}", word) else 0
