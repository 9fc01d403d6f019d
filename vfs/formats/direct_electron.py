"""Reads the files that Direct Electron's server puts beside a movie `NAME_movie.mrc` or `NAME_movie.seq`.

`NAME_info.txt` says how the movie was taken: whether the beam scanned, over how many positions, and
in which pattern. `NAME_scan_coordinates.csv` lists x, y of the scan position of every frame, for
patterns other than a raster. Frames are shown at their positions:

- with the list, where it says, whatever the pattern: frame k at (y, x) = (second, first number of line k);
- raster: row by row. Serpentine: row by row, each second row from its end;
- other patterns (random, spirals, curves, interlaced) have no place without the list: their frames are
  one axis, in the order in which they were recorded, and that is said.

Where a scan is repeated, or its list visits positions again, all visits are shown, along a first
axis `t`. Positions that were never visited are blank. Several camera frames a point are a last
navigation axis, `repeat`. RosettaSciIO reads the list in the same way (it puts visits behind x).
The patterns are those that Direct Electron's Python interface lists for `Scan - Type`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from io import BytesIO
from typing import Any

import numpy as np

from vfs.errors import DecodeError, FormatError, SourceError
from vfs.formats.headers import exists, read_side_file
from vfs.formats.recorded import Recorded
from vfs.model.decode import MadeBlocks
from vfs.model.files import Files
from vfs.model.layout import BlockLayout, FrameLayout, Scan, ScanOrder
from vfs.model.layout.scan_order import visits
from vfs.model.sources import Sources
from vfs.model.stored import Absence, StoredArray, nav_dims
from vfs.sources.names import basename

_MAX_BLANK = 1000  # most positions of a scan for each frame; with more, the positions are garbled
_MAX_STEPS = 1 << 20  # most positions along an axis of a scan


def _beside(sources: Sources, path: str, ending: str) -> str:
    """Return the path of a file beside a movie; "" if there is none, or the file is no movie.

    A movie that has a number of its own, NAME_0_movie.mrc, may share NAME_info.txt.
    """
    hit = re.fullmatch(r"((.*?)(_\d+)?)_movie\.(mrcs?|seq)", path, re.I | re.S)
    bases = (hit[1], hit[2]) if hit else ()
    return next((name for base in bases if exists(sources, name := f"{base}_{ending}")), "")


def side_files(sources: Sources, path: str) -> set[str]:
    """Return the paths of the files beside a movie that say how it was recorded."""
    return {_beside(sources, path, ending) for ending in ("info.txt", "scan_coordinates.csv")} - {""}


def _part(path: str, name: str) -> int:
    """Return the number of a movie that shares the file `name` with others of its acquisition; 0 if it has it alone."""
    hit = re.search(r"_(\d+)_movie\.\w+$", path)
    shares = hit is not None and bool(name) and not name.startswith(path[: hit.end(1)] + "_")
    return int(hit[1]) if hit and shares else 0


def info_of(sources: Sources, path: str) -> dict[str, str]:
    """Read the `key = value` lines of the `_info.txt` beside a movie; empty if there is none."""
    name = _beside(sources, path, "info.txt")
    if not name:
        return {}
    lines = read_side_file(sources, name).decode("utf-8", "replace").splitlines()
    return {key.strip(): value.strip() for key, mark, value in (line.partition("=") for line in lines) if mark}


@dataclass(frozen=True, eq=False)
class MovieScan:
    """Describes the scan that a movie was recorded of.

    Attributes:
        nav: its shape, slowest axis first; (frames,) if the frames have no known places in a scan.
        dims: names of its axes.
        order: which frame each position shows; None if frames follow one another, row by row.
        absent: what is said about it.
        said: where the places come from, for the attribute `scan_order`; "" without a scan.
    """

    nav: tuple[int, ...]
    dims: tuple[str, ...]
    order: ScanOrder | None = None
    absent: tuple[Absence, ...] = ()
    said: str = ""

    def shown(self, layout: FrameLayout) -> FrameLayout:
        """Show the frames of a movie at their places."""
        return layout.arranged(Scan(self.nav)) if self.order is None else layout.ordered(self.order)


def _one_axis(frames: int, *why: str) -> MovieScan:
    """Return the scan of frames whose places are not known: one axis, as they were recorded."""
    told = "the frames are one axis, in the order in which they were recorded"
    return MovieScan((frames,), ("frame",), absent=tuple(Absence(f"{one}: {told}", arrangement=True) for one in why))


def scan_of(sources: Sources, path: str, info: Mapping[str, str], frames: int) -> MovieScan:
    """Find the scan of a movie.

    Args:
        path: the movie.
        info: its `_info.txt`, see `info_of`; empty if there is none.
        frames: number of frames that the movie holds.
    """
    if not info or not _on(info, "Scan - Enable", True):
        return _one_axis(frames)
    if part := _part(path, _beside(sources, path, "info.txt")):
        return _one_axis(frames, f"{path}: is movie {part} of its acquisition, which began with others")
    listed = _beside(sources, path, "scan_coordinates.csv")
    if listed:
        try:
            return _visited(sources, path, info, frames, listed)
        except (FormatError, SourceError) as error:
            return _one_axis(frames, str(error))
    pattern = _pattern(info)
    if pattern not in ("raster", "serpentine"):
        listed = re.sub(r"movie\.\w+$", "scan_coordinates.csv", basename(path))
        said = f"{path}: its scan is of type {_pattern_said(info)!r}, and there is no {listed} beside it"
        return _one_axis(frames, f"{said} that has the position of each frame")
    nav, absent = _counted(path, info, frames)
    if not nav:
        return replace(_one_axis(frames), absent=absent)
    repeats, (y, x), each = nav
    order = None
    if pattern == "serpentine":
        winding = ScanOrder.winding((*repeats, y, x))
        order = winding.several(each[0]) if each else winding
    return MovieScan(
        (*repeats, y, x, *each), _dims(len(repeats), len(each)), order, absent, f"{pattern}, as the _info.txt says"
    )


def info_of_another_run(path: str, info: Mapping[str, str], sig: tuple[int, ...]) -> tuple[Absence, ...]:
    """Report an `_info.txt` that says another size of images than the movie has.

    Args:
        path: the movie.
        sig: its rows and columns.
    """
    said = tuple(_whole(info, f"Image Size {axis} (pixels)") for axis in "YX")
    if not all(said) or said == sig or _on(info, "Autosave Movie Ignore Software Binning", False):
        return ()
    line = f"{path}: has images of {sig[0]:,} × {sig[1]:,} pixels, its _info.txt says {said[0]:,} × {said[1]:,}"
    return (Absence(f"{line}: that belongs to another acquisition", FormatError, "heeds what it says of the scan"),)


def _dims(repeats: int, each: int) -> tuple[str, ...]:
    return (*nav_dims(2 + repeats), *("repeat",) * each)


def _on(info: Mapping[str, str], key: str, usual: bool) -> bool:
    """Read a switch, which newer software calls Enable and older one On."""
    return info[key].lower() in ("enable", "on", "true", "yes", "1") if info.get(key) else usual


def _whole(info: Mapping[str, str], key: str, usual: int = 0) -> int:
    """Return a positive number; `usual` if there is none."""
    text = info.get(key, "")
    return max(int(text), 0) or usual if re.fullmatch(r"\d{1,9}", text) else usual


def _pattern_said(info: Mapping[str, str]) -> str:
    """Return the type of the scan as the server writes it."""
    key = "Scan - ROI Type" if _on(info, "Scan - ROI Enable", False) else "Scan - Type"
    return info.get(key) or info.get("Scan - Type") or "Raster"


def _pattern(info: Mapping[str, str]) -> str:
    return _pattern_said(info).lower()


def _sizes(info: Mapping[str, str]) -> Iterator[tuple[int, int]]:
    """Find the (rows, columns) that the movie may have: those of the recorded part, and of the whole scan.

    Older software does not say whether only a part was recorded.
    """
    part = _on(info, "Scan - ROI Enable", True)
    whole = not info.get("Scan - ROI Enable") or not part
    for size in ["Scan - ROI Size"] * part + ["Scan - Size"] * whole:
        y, x = (_whole(info, f"{size} {axis}") for axis in "YX")
        if y and x:
            yield y, x


def _each(info: Mapping[str, str]) -> int:
    """Return the number of camera frames that were taken at each position."""
    names = ("Camera Frames Per Point", "Point Repeats", "Point Repeat")
    return max(_whole(info, f"Scan - {name}", 1) for name in names)


_Counted = tuple[tuple[int, ...], tuple[int, int], tuple[int, ...]]


def _counted(path: str, info: Mapping[str, str], frames: int) -> tuple[_Counted | None, tuple[Absence, ...]]:
    """Find the shape of a scan whose positions follow one another.

    The number of frames decides whether repeats and several frames a point were saved each or summed.

    Returns: ((repeats or nothing, (rows, columns), frames a point or nothing) or None if none fits;
        what is said about it).
    """
    repeats = _whole(info, "Scan - Repeats", 1)
    each = _each(info)
    several = [(r, e) for r in {1, repeats} for e in {1, each}]
    found = [((r,) * (r > 1), size, (e,) * (e > 1)) for size in _sizes(info) for r, e in several]
    for one in found:
        if _count(one) == frames:
            return one, ()
    sure = (
        info.get("Scan - Enable") and info.get("Scan - ROI Enable") and _whole(info, "Autosave Movie Sum Count", 1) == 1
    )
    told = " or ".join(dict.fromkeys(" × ".join(map(str, (*one[0], *one[1], *one[2]))) for one in found))
    if not found or not sure:
        many = _whole(info, "Autosave Movie Sum Count", 1)
        summed = f", {many} of which may be summed in one" * (many > 1)
        why = f"{path}: its _info.txt says a scan of {told}, {frames:,} frames are stored{summed}"
        return None, _one_axis(frames, why).absent if found else ()
    most = max(found, key=_count)
    nav = min((one for one in found if _count(one) > frames), key=_count, default=most)
    if _count(nav) > _MAX_BLANK * frames:
        return None, _one_axis(
            frames, f"{path}: its _info.txt says a scan of {told}, {frames:,} frames are stored"
        ).absent
    shape = (*nav[0], *nav[1], *nav[2])
    return nav, Recorded(path, "frames", "its _info.txt", frames, 0).absences("a scan", shape)


def _count(nav: _Counted) -> int:
    return math.prod((*nav[0], *nav[1], *nav[2]))


def _visited(sources: Sources, path: str, info: Mapping[str, str], frames: int, listed: str) -> MovieScan:
    """Return the scan whose positions a file lists.

    Raises:
        FormatError: the list has other contents than positions of these frames.
        SourceError: it cannot be read.
    """
    places = _positions(read_side_file(sources, listed), listed)[:, ::-1]
    repeats, each = _whole(info, "Scan - Repeats", 1), _each(info)
    once = len(np.unique(places, axis=0)) == len(places)
    if once and len(places) < frames and frames in (len(places) * repeats, len(places) * repeats * each):
        places = np.tile(places, (repeats, 1))
    if not len(places) < frames == len(places) * each:
        each = 1
    found = places[: -(-frames // each)]
    if not len(found) or found.min() < 0 or found.max() >= _MAX_STEPS:
        raise FormatError(f"{listed}: expected positions from 0 to {_MAX_STEPS - 1:,}, found others")
    reach = tuple((found.max(axis=0) + 1).tolist())
    size = next((one for one in _sizes(info) if one[0] >= reach[0] and one[1] >= reach[1]), reach)
    flat = np.ravel_multi_index(tuple(found.T), size)
    again = visits(flat)
    shape = (int(again.max()) + 1, *size) if again.any() else size
    if math.prod(shape) > _MAX_BLANK * len(found):
        raise FormatError(f"{listed}: its {len(found):,} positions lie in a scan of {' × '.join(map(str, shape))}")
    order = ScanOrder.visiting(again * math.prod(size) + flat, shape)
    blank = order.missing
    absent = tuple(_list_absent(path, listed, len(places), frames, each))
    if size not in (sizes := [*_sizes(info)]) and sizes:
        told, reached = (" × ".join(map(str, one)) for one in (sizes[0], size))
        said = f"{listed}: its positions reach {reached}, the _info.txt says a scan of {told}; the positions are shown"
        absent += (Absence(said, arrangement=True),)
    said = f"positions in {basename(listed)}" + (
        f", {blank:,} of {math.prod(shape):,} were not visited" if blank else ""
    )
    if each > 1:
        order = order.several(each)
    return MovieScan(order.shape, _dims(len(shape) - 2, int(each > 1)), order, absent, said)


def _list_absent(path: str, listed: str, places: int, frames: int, each: int) -> Iterator[Absence]:
    """Report frames without a listed position, and positions without a frame."""
    said = f"{listed}: lists {places:,} positions, {path} has {frames:,} frames"
    if places * each > frames:
        yield Absence(f"{said}: the others are blank", counts={"frames_missing": places * each - frames})
    elif places * each < frames:
        yield Absence(
            f"{said}: those without a position are not shown", counts={"frames_left_out": frames - places * each}
        )


def _positions(text: bytes, name: str) -> np.ndarray:
    """Read lines "x,y": int64[n, 2].

    Raises:
        FormatError: they have other contents.
    """
    text = text.removeprefix(b"\xef\xbb\xbf")  # which Windows puts before UTF-8
    lines = len(text.split())
    try:
        found = np.loadtxt(BytesIO(text), delimiter=",", ndmin=2, comments=None) if lines else np.zeros((0, 2))
    except ValueError as error:
        raise FormatError(f"{name}: expected lines of two numbers, x,y: {str(error)[:80]}") from None
    if found.ndim != 2 or found.shape[1] != 2 or not np.isfinite(found).all() or (found != np.rint(found)).any():
        raise FormatError(f"{name}: expected lines of two whole numbers, x,y")
    if np.abs(found).max(initial=0) > 1 << 53:
        raise FormatError(f"{name}: expected numbers of scan steps, found {np.abs(found).max():.3g}")
    return found.astype(np.int64)


def calibration(info: Mapping[str, str], scanned: bool) -> dict[str, dict[str, Any]]:
    """Return the calibration of the axes of a movie; a size of -1 is one that the server does not know.

    Args:
        scanned: True if the frames are a scan: then they are diffraction patterns.
    """
    specimen = {axis: _positive(info, f"Specimen Pixel Size {axis.upper()} (nanometers)") for axis in "yx"}
    diffraction = {axis: _positive(info, f"Diffraction Pixel Size {axis.upper()}") for axis in "yx"}
    diffracted = scanned or _positive(info, "Instrument Project Camera Length (centimeters)") > 0
    frames, unit = (diffraction, "1/nm") if diffracted else (specimen, "nm")
    found = {axis: {"scale": step, "unit": unit} for axis, step in frames.items() if step}
    if scanned:
        return found | {f"scan_{axis}": {"scale": step, "unit": "nm"} for axis, step in specimen.items() if step}
    if rate := _positive(info, "Frames Per Second"):
        found["frame"] = {"scale": (_positive(info, "Autosave Movie Sum Count") or 1) / rate, "unit": "s"}
    return found


def _positive(info: Mapping[str, str], key: str) -> float:
    """Return a number; 0 if there is none, or one that is not positive."""
    try:
        return max(0.0, float(info.get(key, "")))
    except ValueError:
        return 0.0


@dataclass(frozen=True)
class _PositionTable(MadeBlocks):
    """Decodes the positions of a scan from lines "x,y", as one block."""

    @property
    def dtype(self) -> np.dtype:
        return np.dtype(np.int64)

    def decode_block(self, data: np.ndarray, block: int, shape: tuple[int, ...]) -> np.ndarray:
        try:
            return _positions(data.tobytes(), "scan_coordinates").reshape(shape)
        except (FormatError, ValueError) as error:
            raise DecodeError(f"expected {shape[0]:,} lines of two numbers: {error}") from None


def coordinates(sources: Sources, path: str, frames: int) -> list[StoredArray]:
    """Make a companion with the scan position of every frame, for movies not recorded on a raster."""
    name = _beside(sources, path, "scan_coordinates.csv")
    if not name:
        return []
    files = Files.stat(sources, [name])
    rows = len(read_side_file(sources, name).split())
    if rows == 0:
        return []
    shape = (rows, 2)
    layout = BlockLayout.of_file(shape, files.sizes)
    return [
        StoredArray(
            "scan_coordinates",
            files,
            layout,
            _PositionTable(),
            shape,
            ("point", "axis"),
            0,
            attrs={"frames": frames},
            companion=True,
        )
    ]
