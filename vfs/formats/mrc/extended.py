"""Reads extended headers of type FEI1 and FEI2, which hold a record for each section."""

from __future__ import annotations

from typing import Any

import numpy as np

from vfs.formats.direct_electron import MovieScan
from vfs.formats.headers import read_at
from vfs.model.decode import PlainDecoder
from vfs.model.files import Files
from vfs.model.layout import FrameLayout, FrameRecord
from vfs.model.stored import StoredArray

_FEI = np.dtype(
    {  # a record of an extended header FEI1 or FEI2: the fields that become companions, in bytes from its start
        "names": [
            "timestamp",
            "high_tension",
            "alpha_tilt",
            "beta_tilt",
            "stage_x",
            "stage_y",
            "stage_z",
            "pixel_size_x",
            "pixel_size_y",
            "defocus",
        ],
        "formats": ["f8"] * 10,
        "offsets": [12, 84, 100, 108, 116, 124, 132, 156, 164, 220],
        "itemsize": 768,
    }
)
_UNITS = {
    "timestamp": "days since 1899-12-30",
    "high_tension": "V",
    "alpha_tilt": "degrees",
    "beta_tilt": "degrees",
    "stage_x": "m",
    "stage_y": "m",
    "stage_z": "m",
    "pixel_size_x": "m",
    "pixel_size_y": "m",
    "defocus": "m",
}


def _fei_record(header: np.void, files: Files, order: str, opener: Any) -> int:
    """Return the bytes of a record of an extended header FEI1 or FEI2; 0 if there is none."""
    nz, room = int(header["nz"]), int(header["nsymbt"])
    if bytes(header["exttyp"]) not in (b"FEI1", b"FEI2") or opener is not None or room < nz * _FEI.itemsize:
        return 0
    size = int.from_bytes(read_at(files.sources, files.paths[0], 4, 1024), "little" if order == "<" else "big")
    return size if _FEI.itemsize <= size <= room // nz else 0


def fei_scales(header: np.void, files: Files, order: str, opener: Any) -> dict[str, dict[str, Any]]:
    """Return the scales of x and y that the record of the first section holds."""
    if not _fei_record(header, files, order, opener):
        return {}
    first = np.frombuffer(read_at(files.sources, files.paths[0], _FEI.itemsize, 1024), _FEI.newbyteorder(order))[0]  # type: ignore[arg-type]
    steps = {axis: float(first[f"pixel_size_{axis}"]) for axis in "yx"}
    return {axis: {"scale": step, "offset": 0.0, "unit": "m"} for axis, step in steps.items() if step > 0}


def extended(header: np.void, files: Files, scan: MovieScan, order: str, opener: Any) -> list[StoredArray]:
    """Make companions from the records of an extended header FEI1 or FEI2."""
    nz, size = int(header["nz"]), _fei_record(header, files, order, opener)
    if not size:
        return []
    found = []
    for name in _FEI.names or ():
        at = _FEI.fields[name][1] if _FEI.fields else 0
        layout = scan.shown(FrameLayout.of(FrameRecord((), 8, header=at, footer=size - at - 8), [nz], file_header=1024))
        units = {"units": _UNITS[name]}
        found.append(
            StoredArray(
                name,
                files,
                layout,
                PlainDecoder(np.dtype(f"{order}f8")),
                scan.nav,
                scan.dims,
                len(scan.nav),
                conventions=units,
                companion=True,
            )
        )
    return found
