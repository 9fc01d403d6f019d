"""Reads `.up1` and `.up2`, the patterns of electron backscatter diffraction of EDAX (TSL OIM).

There is no public specification; the facts come from the readers in PyEBSDIndex and kikuchipy
(https://github.com/USNavalResearchLaboratory/PyEBSDIndex). All numbers are little endian::

    version 1:          version, columns, rows of a pattern, byte of the first pattern (uint32 each) | patterns
    version 3 and later: the same, and columns and rows of the map, grid, steps: see `HEADER` | patterns

Patterns of `.up1` have 8 bits a pixel, those of `.up2` have 16; nothing is between them. Version 1 says no shape of the
map, and in hexagonal grids rows are not of one length: both are one axis of patterns. Nobody knows files of version 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from vfs.errors import FormatError, OptionError
from vfs.formats import Format
from vfs.formats.headers import fields, read_at
from vfs.formats.recorded import Recorded
from vfs.model.decode import PlainDecoder
from vfs.model.files import Files
from vfs.model.layout import FrameLayout, FrameRecord, Scan
from vfs.model.sources import Sources
from vfs.model.stored import Absence, StoredArray, nav_dims, scan_array
from vfs.model.written import Written

START = np.dtype(
    [
        ("version", "<u4"),
        ("columns", "<u4"),  # pixels of a pattern
        ("rows", "<u4"),
        ("first", "<u4"),  # byte of the first pattern
    ]
)
HEADER = np.dtype(
    [
        *START.descr,
        ("_extra", "u1"),  # not known
        ("map_columns", "<u4"),
        ("map_rows", "<u4"),
        ("hexagonal", "u1"),  # 0: a square grid
        ("step_x", "<f8"),  # µm
        ("step_y", "<f8"),
    ]
)
_PIXELS: dict[str, np.dtype] = {".up1": np.dtype("u1"), ".up2": np.dtype("<u2")}
_NEWEST = 64  # versions beyond this are numbers of another kind
_MAX_SIDE = 1 << 16  # pixels


def sniff(path: str, first_bytes: bytes, sources: Sources) -> bool:
    """Return True for a name that ends in .up1 or .up2, and a header that may be one: there is no mark."""
    if path.lower()[-4:] not in _PIXELS or len(first_bytes) < START.itemsize:
        return False
    return _plausible(np.frombuffer(first_bytes, START, 1)[0])


def _plausible(start: np.void) -> bool:
    version, columns, rows, first = start.item()
    least = START.itemsize if version == 1 else HEADER.itemsize
    return 0 < version < _NEWEST and 0 < columns <= _MAX_SIDE and 0 < rows <= _MAX_SIDE and least <= first < 1 << 24


def _header(sources: Sources, path: str) -> np.void:
    """Read the header.

    Raises:
        FormatError: it is garbled, or of a version that nobody knows.
    """
    start: np.void = np.frombuffer(read_at(sources, path, START.itemsize), START)[0]
    if not _plausible(start):
        version, columns, rows, first = start.item()
        raise FormatError(
            f"{path}: expected the header of an .up1 or .up2 file, found version {version:,}, patterns of {rows:,} ×"
            f" {columns:,} pixels, the first one at byte {first:,}"
        )
    if start["version"] == 2:
        raise FormatError(f"{path}: expected version 1, or 3 and later, found version 2, which nobody has described")
    if start["version"] == 1:
        return start
    header: np.void = np.frombuffer(read_at(sources, path, HEADER.itemsize), HEADER)[0]
    return header


def open(paths: Sequence[str], sources: Sources) -> list[StoredArray]:
    """Open an .up1 or .up2 file.

    Raises:
        FormatError: the header is garbled.
        OptionError: the name has another ending.
        TruncatedSourceError: the file does not hold a whole pattern.
    """
    files = Files.stat(sources, paths)
    path = files.paths[0]
    if path.lower()[-4:] not in _PIXELS:
        raise OptionError(f"{path}: expected a name that ends in .up1 (8 bits a pixel) or .up2 (16 bits)")
    pixel = _PIXELS[path.lower()[-4:]]
    header = _header(sources, path)
    sig, first = (int(header["rows"]), int(header["columns"])), int(header["first"])
    recorded = Recorded.of(files, "patterns", sig[0] * sig[1] * pixel.itemsize, first)
    attrs: dict[str, Any] = {"header": fields(header), "stored_patterns": recorded.stored}
    nav, absent = _map(header, recorded, attrs)
    layout = FrameLayout.of(FrameRecord(sig, pixel.itemsize), [recorded.stored], file_header=first).arranged(Scan(nav))
    written = Written(nav[0] * nav[1] if len(nav) > 1 else None)  # else the header says no map
    return [scan_array(files, layout, PlainDecoder(pixel), attrs=attrs, absent=absent, written=written)]


def _map(header: np.void, recorded: Recorded, attrs: dict[str, Any]) -> tuple[tuple[int, ...], tuple[Absence, ...]]:
    """Return the shape of the map, and what the file lacks of it; write what is known of the grid into `attrs`."""
    rows, columns = (int(header["map_rows"]), int(header["map_columns"])) if header["version"] > 1 else (0, 0)
    hexagonal, full, stored = header["version"] > 1 and bool(header["hexagonal"]), rows * columns, recorded.stored
    if hexagonal:
        attrs["grid"] = "hexagonal: rows of two lengths, so the patterns are one axis, in their order in the file"
    if hexagonal or not 0 < full < 1 << 40:
        absent = recorded.absences()
        wanted = full - rows // 2  # each second row has a pattern less; some programs fill it up
        if hexagonal and wanted > 0 and stored not in (wanted, full):
            said = (
                f"{recorded.path}: the header says a hexagonal map of {rows:,} rows of {columns:,} and {columns - 1:,},"
                f" which has {wanted:,} patterns (or {full:,}); {stored:,} are stored"
            )
            fewer = {"frames_missing": wanted - stored} if stored < wanted else {}
            absent += (Absence(said, counts=fewer, to_come=stored < wanted),)
        return (stored,), absent
    step = zip(nav_dims(2), (float(header["step_y"]), float(header["step_x"])), strict=True)
    attrs["calibration"] = {dim: {"scale": scale, "offset": 0.0, "unit": "um"} for dim, scale in step}
    return (rows, columns), recorded.absences("a map", (rows, columns))


FORMAT = Format(
    "edax",
    (".up1", ".up2"),
    "https://github.com/USNavalResearchLaboratory/PyEBSDIndex",
    "EDAX (TSL OIM) patterns of electron backscatter diffraction, 8 or 16 bit",
    sniff,
    open,
    single=True,
)
