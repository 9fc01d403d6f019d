"""TopSpin (NanoMEGAS): scans in `.app5` files, a data set for each frame. They are shown before the images.

    ID/0/Data, ID/1/Data, …             frames, in the order in which they were recorded
    ID/0/Metadata, …                    XML: where the beam was asked to be (m), and the calibration of the frame
    ID                                  a data set instead of a group: an image, such as the virtual STEM image
    Metadata, Thumbnail                 of the experiment

ID is a GUID. A file of several experiments has a GUID above that. The frames become one array,
`ID/Data`. It has the shape of the scan if the beam went line by line: that is known from a few of its
positions, since reading all would take as long as reading the frames.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from vfs.errors import VfsError
from vfs.formats.hdf5.pieces import StoredData
from vfs.formats.hdf5.program import Axes, Axis, Found, Numbered, Program, named
from vfs.formats.headers import read_at
from vfs.h5.facts import Survey
from vfs.model.layout import Scan

_ID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_FRAME = re.compile(rf"((?:{_ID}/)?{_ID})/(0|[1-9]\d{{0,8}})/Data", re.I | re.ASCII)
_SCAN = re.compile(rf"(?:{_ID}/)?{_ID}/Data", re.I | re.ASCII)
_NUMBER = rb"\s*([-+.0-9eE]{1,32})\s*"
_POSITION = re.compile(
    rb"<Name[^>]*>RequestedBeamPosition</Name>\s*<Value[^>]*>\s*<X[^>]*>%b</X>\s*<Y[^>]*>%b</Y>" % (_NUMBER, _NUMBER)
)
_STEP = re.compile(rb"<(X|Y)\b[^>]*>\s*<Offset[^>]*>%b</Offset>\s*<Scale[^>]*>%b</Scale>" % (_NUMBER, _NUMBER))
_KIND = re.compile(rb"<Type[^>]*>.{0,200}?<Text[^>]*>Angle</Text>", re.S)
_AWAY = 0.1  # most distance, in steps, of a position from its place in a raster

Position = tuple[float, float]


@dataclass(frozen=True)
class Raster:
    """The raster of a scan: lines, positions in a line, and (scale, offset) of both axes, in m."""

    shape: tuple[int, int]
    y: tuple[float, float]
    x: tuple[float, float]


def _frames(path: str, names: Iterable[str], survey: Survey) -> dict[str, dict[int, str]]:
    """Return the frames of each scan: path of the scan -> number -> path of the frame, in the order of the numbers."""
    series: dict[str, dict[int, str]] = {}
    for name in names:
        if frame := _FRAME.fullmatch(name):
            series.setdefault(f"{frame[1]}/Data", {})[int(frame[2])] = name
    return {whole: dict(sorted(frames.items())) for whole, frames in series.items()}


def _path(number: int, other: str) -> str:
    return f"{other.rsplit('/', 2)[0]}/{number}/Data"


def _beside(frame: str) -> str:
    """Return the path of the metadata of a frame."""
    return f"{frame.removesuffix('Data')}Metadata"


def _in_raster(whole: str, made: StoredData, survey: Survey) -> StoredData:
    """Return a scan in the shape of its raster, if it has one; else as it is."""
    of = raster(whole, made.shape[0], survey) if len(made.shape) == 3 else None
    if of is None:
        return made
    chunk = (1, *made.chunk) if made.chunk else ()
    return replace(made, shape=(*of.shape, *made.shape[1:]), layout=made.layout.arranged(Scan(of.shape)), chunk=chunk)


def _axes(name: str, shape: tuple[int, ...], found: Found, survey: Survey) -> Axes | None:
    if not _SCAN.fullmatch(name) or name in survey.data or len(shape) < 3:
        return None
    known = _calibration(name, survey)
    scan: tuple[Axis, ...] = (Axis("frame"),)
    if len(shape) == 4 and (of := raster(name, math.prod(shape[:2]), survey)):
        scan = tuple(
            Axis(axis, {"scale": scale, "offset": offset, "unit": "m"} if scale else None)
            for axis, (scale, offset) in (("scan_y", of.y), ("scan_x", of.x))
        )
    return Axes((*scan, Axis("y", known.get("y")), Axis("x", known.get("x"))), nav_ndim=len(scan))


def raster(whole: str, frames: int, survey: Survey) -> Raster | None:
    """Return the raster of a scan; None if its frames do not say one.

    Args:
        whole: path of the scan.
        frames: number of its frames.
    """

    @cache
    def at(n: int) -> Position:
        found = _POSITION.search(_text(whole, n, survey))
        if found is None:
            raise ValueError
        return float(found[2]), float(found[1])

    try:
        return _raster(at, frames)
    except (ValueError, VfsError):
        return None


def _calibration(whole: str, survey: Survey) -> dict[str, dict[str, Any]]:
    """Return the calibration of the axes y and x of a scan's frames, from the metadata of the first one."""
    try:
        text = _text(whole, 0, survey)
        steps = {axis.decode().lower(): (float(scale), float(offset)) for axis, offset, scale in _STEP.findall(text)}
    except (ValueError, VfsError):
        return {}
    unit = {"unit": "rad"} if _KIND.search(text) else {}
    return {axis: {"scale": scale, "offset": offset, **unit} for axis, (scale, offset) in steps.items()}


def _text(whole: str, n: int, survey: Survey) -> bytes:
    """Return the metadata of a frame; b"" if the file has none."""
    data = survey.data.get(f"{whole.removesuffix('Data')}{n}/Metadata")
    if data is None or not data.text_at:
        return b""
    return read_at(survey.origin, data.file, data.text_at[1], data.text_at[0])


def _raster(at: Callable[[int], Position], frames: int) -> Raster | None:
    """Return the raster of as many positions; None if they form none.

    The length of a line is found by halving: some twice its logarithm of positions are asked for. The
    ends of the first line and of the scan must be where a raster has them.
    """
    if frames < 2:
        return None
    (y, x), (_, next_x) = at(0), at(1)
    step = next_x - x
    columns = _first(lambda n: abs(at(n)[0] - y) > _AWAY * abs(step), frames)
    lines = -(-frames // columns)
    down = at(columns)[0] - y if lines > 1 else 0.0
    last = y + down * (lines - 1), x + step * ((frames - 1) % columns)
    end = y, x + step * (columns - 1)
    room = _AWAY * max(abs(step), abs(down))
    off = max(abs(at(n)[k] - to[k]) for n, to in ((columns - 1, end), (frames - 1, last)) for k in (0, 1))
    even = step and off <= room and frames % columns == 0
    return Raster((lines, columns), (down, y), (step, x)) if even else None


def _first(away: Callable[[int], bool], stop: int) -> int:
    """Return the first number that is away from the first line, `stop` if there is none."""
    high = 1
    while high < stop and not away(high):
        high *= 2
    low, high = high // 2, min(high, stop)
    while low + 1 < high:
        middle = (low + high) // 2
        low, high = (low, middle) if away(middle) else (middle, high)
    return high


PROGRAM = Program(
    first=named(_SCAN),
    axes=_axes,
    numbered=Numbered(_frames, _path, begin=0, beside=_beside, in_raster=_in_raster),
)
