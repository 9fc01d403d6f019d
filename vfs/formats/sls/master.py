"""Reads the master file of a run of an SLS detector: which modules there are, which regions, and what was set."""

from __future__ import annotations

import json
import math
import re
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from vfs.errors import FormatError
from vfs.formats.headers import read_side_file
from vfs.model.metadata import Term, of_unit
from vfs.model.sources import Sources

RECORD = np.dtype(
    [
        ("frame", "<u8"),  # number of the frame
        ("exposure_length", "<u4"),
        ("packets", "<u4"),  # that were received
        ("bunch", "<u8"),
        ("timestamp", "<u8"),
        ("module", "<u2"),
        ("row", "<u2"),
        ("column", "<u2"),
        ("_reserved", "<u2"),
        ("debug", "<u4"),
        ("round_robin", "<u2"),
        ("detector", "u1"),
        ("version", "u1"),
        ("_packet_mask", "V64"),
    ]
)
_TYPES = {8: "u1", 16: "<u2", 32: "<u4"}
_OPEN = 4294967295  # a border of a region of interest that is not set
_MAX_MODULES = 4096
_MAX_SIDE = 1 << 16


class ModulePart(NamedTuple):
    """Pixels of a module that are stored: their first row and column in the region, rows, columns."""

    y: int
    x: int
    rows: int
    columns: int
    flipped: bool  # stored from the last row on


class SlsRegion(NamedTuple):
    """A region of the detector, or all of it: rows and columns, and the part of each module in it by its number."""

    shape: tuple[int, int]
    parts: dict[int, ModulePart]


class SlsDetector(NamedTuple):
    """A detector: dtype of its pixels, and its regions."""

    stored: np.dtype
    regions: list[SlsRegion]

    @property
    def record_sizes(self) -> dict[int, int]:
        """Bytes of a record of each module."""
        parts = {module: part for region in self.regions for module, part in region.parts.items()}
        return {k: RECORD.itemsize + part.rows * part.columns * self.stored.itemsize for k, part in parts.items()}


def read_master(sources: Sources, path: str) -> dict[str, Any]:
    """Read a master file.

    Raises:
        FormatError: it is garbled.
    """
    data = read_side_file(sources, path)
    found: Any = None
    try:
        if data.lstrip().startswith(b"{"):
            found = json.loads(data)
        else:
            pairs = (line.partition(":") for line in data.decode("latin-1").splitlines())
            found = {key.strip(): _plain(value.strip()) for key, colon, value in pairs if colon}
    except (ValueError, RecursionError):
        pass
    if not isinstance(found, dict) or "Detector Type" not in found:
        raise FormatError(
            f"{path}: expected a master file of an SLS detector, with a Detector Type; it begins {data[:20]!r}"
        )
    return found


def _plain(text: str) -> Any:
    """Return a value of an older master file: a number, a pair x, y, or text."""
    pair = re.fullmatch(r"\[(\d{1,9}), *(\d{1,9})\]", text)
    if pair:
        return {"x": int(pair[1]), "y": int(pair[2])}
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else text


def _pair(said: dict[str, Any], key: str) -> tuple[int, int]:
    """Return (y, x) of a key; (0, 0) if it has none."""
    pair = said.get(key)
    if not isinstance(pair, dict) or type(pair.get("y")) is not int or type(pair.get("x")) is not int:
        return 0, 0
    return pair["y"], pair["x"]


def detector_of(path: str, said: dict[str, Any]) -> SlsDetector:
    """Return the detector of a master file.

    Raises:
        FormatError: it says no detector, or one whose pixels are stored in another way.
    """
    kind = str(said["Detector Type"])
    grid, module, bits = _pair(said, "Geometry"), _pair(said, "Pixels"), said.get("Dynamic Range", 16)
    size = said.get("Image Size", said.get("Image Size in bytes"))
    if not (0 < math.prod(grid) <= _MAX_MODULES and all(0 < n <= _MAX_SIDE for n in module) and bits in _TYPES):
        raise FormatError(
            f"{path}: expected Geometry, Pixels and a Dynamic Range of 8, 16 or 32 bits, found"
            f" {grid[1]} × {grid[0]} modules of {module[1]} × {module[0]} pixels, {str(bits)[:20]} bits"
        )
    stored = np.dtype(_TYPES[bits])
    old_moench = kind == "Moench" and module[0] == 400 and "Analog Samples" in said
    if "ChipTestBoard" in kind or old_moench or said.get("Quad") == 1:
        what = "a quad, or samples of a test board" if not old_moench else "samples of a Moench 03"
        raise FormatError(f"{path}: expected the pixels of modules, found {what}; aare reads them")
    full = (grid[0] * module[0], grid[1] * module[1])
    regions = _regions(path, said, full)
    if isinstance(size, int) and size != math.prod(module) * stored.itemsize and regions == [(0, 0, *full)]:
        raise FormatError(
            f"{path}: expected images of {math.prod(module) * stored.itemsize:,} bytes for each module, the master file"
            f" says {size:,}"
        )
    boards = said.get("Number of UDP Interfaces")
    step = (boards, 1) if isinstance(boards, int) and boards > 0 else (1, 2) if kind == "Eiger" else (1, 1)
    places = [
        (row + y, column + x)
        for column in range(0, grid[1], step[1])
        for row in range(0, grid[0], step[0])
        for y in range(step[0])
        for x in range(step[1])
    ]
    if len(places) != math.prod(grid) or not all(y < grid[0] and x < grid[1] for y, x in places):
        raise FormatError(
            f"{path}: expected boards of {step[0]} × {step[1]} parts that fill {grid[0]} × {grid[1]} modules"
        )
    found = []
    for top, left, bottom, right in regions:
        parts = {}
        for k, (row, column) in enumerate(places):
            y, x = max(top, row * module[0]), max(left, column * module[1])
            rows, columns = min(bottom, (row + 1) * module[0]) - y, min(right, (column + 1) * module[1]) - x
            if rows > 0 and columns > 0:
                parts[k] = ModulePart(y - top, x - left, rows, columns, kind == "Eiger" and row % 2 == 0)
        found.append(SlsRegion((bottom - top, right - left), parts))
    twice = [k for k in range(len(places)) if sum(k in region.parts for region in found) > 1]
    if twice:
        raise FormatError(f"{path}: expected regions that lie in different modules, found several in module {twice[0]}")
    return SlsDetector(stored, found)


def _regions(path: str, said: dict[str, Any], full: tuple[int, int]) -> list[tuple[int, int, int, int]]:
    """Return the regions of interest: first row and column, and those behind the last ones.

    Args:
        full: rows and columns of the detector.

    Raises:
        FormatError: one lies not in the detector.
    """
    one = said.get("Receiver Roi")
    regions = said.get("Receiver Rois", [one] if isinstance(one, dict) else [])
    found = []
    for region in regions if isinstance(regions, list) else [regions]:
        borders = [region.get(key) for key in ("ymin", "xmin", "ymax", "xmax")] if isinstance(region, dict) else []
        if borders and all(border in (_OPEN, -1) for border in borders):
            continue
        if borders and borders[0] == borders[2] == -1:  # Mythen has no rows
            borders[0], borders[2] = 0, full[0] - 1
        good = [border for border in borders if type(border) is int]
        if len(good) < 4 or not (0 <= good[0] <= good[2] < full[0] and 0 <= good[1] <= good[3] < full[1]):
            raise FormatError(
                f"{path}: expected regions of interest within {full[0]} × {full[1]} pixels, found {str(region)[:80]}"
            )
        found.append((good[0], good[1], good[2] + 1, good[3] + 1))
    return found or [(0, 0, *full)]


_SECONDS = partial(of_unit, "s")


def _positive(energy: Any) -> Any:
    """Return an energy; None of -1, which is one that was not set."""
    return energy if isinstance(energy, int | float) and energy > 0 else None


TERMS = (
    *(Term("exposure_time", f"master:{key}", take=_SECONDS, zero=False) for key in ("Exptime", "Exposure Time")),
    *(Term("frame_time", f"master:{key}", take=_SECONDS, zero=False) for key in ("Period", "Acquisition Period")),
    Term("detector", "master:Detector Type"),
    Term("threshold_energy", "master:Threshold Energy", take=_positive),
)
"""What a master file says, in the vocabulary of `vfs.model.metadata`."""
