"""Reads `.spd`, the maps of X-ray spectra of EDAX TEAM and Genesis.

The facts come from EDAX's descriptions of its files, which RosettaSciIO keeps
(https://hyperspy.org/rosettasciio/supported_formats/edax.html), and from its reader. All numbers are little endian::

    header (`HEADER`, 1,068 bytes) | … | from byte `first` on: a spectrum for each position of the map, row after row

Counts have 1, 2 or 4 bytes. Energies are in the `.spc` of the same name (a spectrum: eV a channel at byte 384, the
energy of channel 0 in keV at byte 448), and the steps of the map in the `.ipr` of the map's electron image, whose
name is in the header (µm at bytes 64 and 68). Without these files their axes are not calibrated.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from vfs.errors import FormatError, SourceError
from vfs.formats import Format
from vfs.formats.headers import exists, fields, read_at
from vfs.formats.recorded import Recorded
from vfs.model.decode import PlainDecoder
from vfs.model.elements import of_numbers
from vfs.model.files import Files
from vfs.model.layout import FrameLayout, FrameRecord, Scan, altered
from vfs.model.metadata import DEGREES, Term, Told
from vfs.model.sources import Sources
from vfs.model.stored import StoredArray, scan_array
from vfs.model.written import Written
from vfs.sources.names import beside, splitext

SPECTRUM = np.dtype(
    {
        "names": ["live_time", "tilt", "resolution", "azimuth", "elevation", "voltage", "count", "numbers"],
        "formats": [*["<f4"] * 6, "<i2", "48<u2"],  # s, °, eV, °, °, kV, elements, their numbers
        "offsets": [456, 460, 472, 508, 512, 532, 638, 640],
        "itemsize": 736,
    }
)
"""What an .spc says of the microscope and the detector."""
HEADER = np.dtype(
    [
        ("_tag", "S16"),  # MAPSPECTRA_DATA
        ("version", "<i4"),
        ("spectra", "<i4"),  # number in the file
        ("columns", "<i4"),  # of the map
        ("rows", "<u4"),
        ("channels", "<u4"),  # of a spectrum
        ("count_bytes", "<u4"),  # bytes of a count
        ("first", "<u4"),  # byte of the first count
        ("frames", "<u4"),
        ("image", "S120"),  # name of the electron image
        ("_filler", "V900"),
    ]
)
_MARK = b"MAPSPECTRA_DATA"
_COUNTS = (1, 2, 4)  # bytes
_MAX_FILE_BYTES = 1 << 62  # bytes: far more than any file has


def _header(sources: Sources, path: str) -> np.void:
    """Read the header.

    Raises:
        FormatError: it is garbled.
    """
    raw = read_at(sources, path, HEADER.itemsize)
    header: np.void = np.frombuffer(raw, HEADER)[0]
    rows, columns, channels, nbytes = (int(header[name]) for name in ("rows", "columns", "channels", "count_bytes"))
    if not raw.startswith(_MARK):
        raise FormatError(f"{path}: expected a file that begins with {_MARK.decode()}, found {raw[:16]!r}")
    if nbytes not in _COUNTS or columns < 1 or not 0 < rows * columns * channels * nbytes < _MAX_FILE_BYTES:
        raise FormatError(
            f"{path}: expected a map of spectra with counts of 1, 2 or 4 bytes, the header says {rows:,} × {columns:,}"
            f" spectra of {channels:,} channels of {nbytes:,} bytes"
        )
    return header


def _floats(sources: Sources, path: str, *places: tuple[str, int]) -> list[float]:
    """Read numbers, (dtype, byte) each, of a file beside the map; none if it does not hold them as positive numbers."""
    try:
        if not exists(sources, path):
            return []
        found = [float(np.frombuffer(read_at(sources, path, 4, at), dtype)[0]) for dtype, at in places]
    except SourceError:
        return []
    return found if all(map(math.isfinite, found)) else []


def _calibration(sources: Sources, path: str, image: str) -> dict[str, dict[str, Any]]:
    """Return scale, offset and unit of axes from the files beside the map, where they are there."""
    found: dict[str, dict[str, Any]] = {}
    energy = _floats(sources, splitext(path)[0] + ".spc", ("<i4", 384), ("<f4", 448))
    if energy and energy[0] > 0:
        found["energy"] = {"scale": energy[0] / 1000, "offset": energy[1], "unit": "keV"}
    stem = splitext(re.split(r"[/\\]", image)[-1])[0]
    step = _floats(sources, beside(path, f"{stem}.ipr"), ("<f4", 64), ("<f4", 68)) if stem else []
    for dim, scale in zip(("scan_x", "scan_y"), step, strict=False):
        found[dim] = {"scale": scale, "offset": 0.0, "unit": "um"}
    return found


def open(paths: Sequence[str], sources: Sources) -> list[StoredArray]:
    """Open an .spd file.

    Raises:
        FormatError: the header is garbled.
        TruncatedSourceError: the file does not hold a whole spectrum.
    """
    files = Files.stat(sources, paths)
    known = fields(_header(sources, files.paths[0]))
    scan, channels, first = (known["rows"], known["columns"]), known["channels"], known["first"]
    count = np.dtype(f"<u{known['count_bytes']}")
    recorded = Recorded.of(files, "spectra", channels * count.itemsize, first)
    layout = FrameLayout.of(FrameRecord((channels,), count.itemsize), [recorded.stored], file_header=first).arranged(
        Scan(scan)
    )
    attrs = {"header": known, "calibration": _calibration(sources, files.paths[0], known["image"])}
    told = Told(partial(_told, sources, splitext(files.paths[0])[0] + ".spc"))
    absent, wanted = recorded.absences("a map", scan), math.prod(scan)
    made = scan_array(
        files, layout, PlainDecoder(count), dims=("energy",), attrs=attrs, absent=absent, written=Written(wanted)
    )
    return [altered(made, told=told)]


def _told(sources: Sources, path: str) -> dict[str, Any]:
    """Return what the spectrum beside a map says."""
    if not exists(sources, path):
        return {}
    said = fields(np.frombuffer(read_at(sources, path, SPECTRUM.itemsize), SPECTRUM)[0])
    return {"spc": said | {"numbers": said["numbers"][: max(0, said["count"])]}}


TERMS = (
    Term("elements", "spc:numbers", take=of_numbers),
    Term("beam_energy", "spc:voltage", 1e3, zero=False),
    Term("live_time", "spc:live_time", zero=False),
    Term("stage.alpha", "spc:tilt", DEGREES),
    Term("eds.azimuth", "spc:azimuth", DEGREES),
    Term("eds.elevation", "spc:elevation", DEGREES),
    Term("eds.resolution", "spc:resolution", zero=False),
)
"""What the .spc says, in the vocabulary of `vfs.model.metadata`."""


FORMAT = Format(
    "spd",
    (".spd",),
    "https://hyperspy.org/rosettasciio/supported_formats/edax.html",
    "EDAX maps of X-ray spectra, with their .spc and .ipr",
    None,
    open,
    single=True,
    terms=TERMS,
    first_bytes=(_MARK,),
)
