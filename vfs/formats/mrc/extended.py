"""Reads extended headers, which hold a record for each section: those of FEI, of SerialEM and of Agard's laboratory.

FEI1, FEI2     768 and 888 bytes: what the microscope, its camera and its scan say, in SI units and degrees
SERI           SerialEM: bytes of a record in the header, and flags of what it holds, as integers of 16 bits:
               https://bio3d.colorado.edu/imod/doc/mrc_format.txt
32 reals       older programs of FEI, no bytes of integers: 32 numbers of 32 bits, in SI units and degrees

Their fields are companions, and sections that have each a tilt of their own are an axis `tilt`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from vfs.errors import SourceError
from vfs.formats import serialem
from vfs.formats.direct_electron import MovieScan
from vfs.formats.headers import fields, read_at
from vfs.model.decode import ElementsOfWords, PlainDecoder
from vfs.model.files import Files
from vfs.model.layout import FrameLayout, FrameRecord
from vfs.model.stored import StoredArray

_FEI = np.dtype(
    [
        ("_size", "i4"),
        ("_version", "i4"),
        ("_valid_1", "u4"),
        ("timestamp", "f8"),
        ("microscope", "S16"),
        ("serial_number", "S16"),
        ("application", "S16"),
        ("application_version", "S16"),
        ("high_tension", "f8"),
        ("dose", "f8"),
        ("alpha_tilt", "f8"),
        ("beta_tilt", "f8"),
        ("stage_x", "f8"),
        ("stage_y", "f8"),
        ("stage_z", "f8"),
        ("tilt_axis_angle", "f8"),
        ("dual_axis_rotation", "f8"),
        ("pixel_size_x", "f8"),
        ("pixel_size_y", "f8"),
        ("_unused", "V48"),
        ("defocus", "f8"),
        ("stem_defocus", "f8"),
        ("applied_defocus", "f8"),
        ("instrument_mode", "i4"),
        ("projection_mode", "i4"),
        ("objective_lens_mode", "S16"),
        ("high_magnification_mode", "S16"),
        ("probe_mode", "i4"),
        ("eftem", "?"),
        ("magnification", "f8"),
        ("_valid_2", "u4"),
        ("camera_length", "f8"),
        ("spot_index", "i4"),
        ("illuminated_area", "f8"),
        ("intensity", "f8"),
        ("convergence_angle", "f8"),
        ("illumination_mode", "S16"),
        ("wide_convergence_angle_range", "?"),
        ("slit_inserted", "?"),
        ("slit_width", "f8"),
        ("acceleration_voltage_offset", "f8"),
        ("drift_tube_voltage", "f8"),
        ("energy_shift", "f8"),
        ("shift_offset_x", "f8"),
        ("shift_offset_y", "f8"),
        ("shift_x", "f8"),
        ("shift_y", "f8"),
        ("integration_time", "f8"),
        ("binning_x", "i4"),
        ("binning_y", "i4"),
        ("camera", "S16"),
        ("readout_left", "i4"),
        ("readout_top", "i4"),
        ("readout_right", "i4"),
        ("readout_bottom", "i4"),
        ("noise_reduction", "?"),
        ("frames_summed", "i4"),
        ("electron_counting", "?"),
        ("aligned_frames", "?"),
        ("_reserved", "V45"),
        ("stem_detector", "S16"),
        ("gain", "f8"),
        ("offset", "f8"),
        ("_reserved_scan", "V20"),
        ("dwell_time", "f8"),
        ("frame_time", "f8"),
        ("scan_left", "i4"),
        ("scan_top", "i4"),
        ("scan_right", "i4"),
        ("scan_bottom", "i4"),
        ("field_of_view_x", "f8"),
        ("field_of_view_y", "f8"),
        ("element", "S16"),
        ("_rest", "V133"),
    ]
)
"""The part of a record of FEI1 and FEI2 that both have, 768 bytes."""


class _Field(NamedTuple):
    """A companion: its name, how its number is stored, its first byte in a record, and what makes it of the unit."""

    name: str
    stored: str
    at: int
    units: str
    factor: float = 1.0


_FEI_UNITS = {
    "timestamp": "days since 1899-12-30",
    "high_tension": "V",
    "dose": "1/m2",
    "alpha_tilt": "degrees",
    "beta_tilt": "degrees",
    "stage_x": "m",
    "stage_y": "m",
    "stage_z": "m",
    "pixel_size_x": "m",
    "pixel_size_y": "m",
    "defocus": "m",
}
_FEI_FIELDS = tuple(
    _Field(name, "f8", _FEI.fields[name][1], units) for name, units in _FEI_UNITS.items() if _FEI.fields
)
_REALS = tuple(
    _Field(name, "f4", 4 * k, units)
    for k, (name, units) in enumerate(
        [
            ("alpha_tilt", "degrees"),
            ("beta_tilt", "degrees"),
            ("stage_x", "m"),
            ("stage_y", "m"),
            ("stage_z", "m"),
            ("image_shift_x", "m"),
            ("image_shift_y", "m"),
            ("defocus", "m"),
            ("exposure_time", "s"),
        ]
    )
)
_TILTED, _PIECES, _STAGE, _MAGNIFIED, _INTENSITY, _DOSE = 1, 2, 4, 8, 16, 32
_SHORTS = {_TILTED: 1, _PIECES: 3, _STAGE: 2, _MAGNIFIED: 1, _INTENSITY: 1, _DOSE: 2}
"""Flag of SerialEM -> integers of 16 bits that a record has for it, in this order."""
_MAX_TILTS = 10_000  # sections whose tilts are read when the file is opened


@dataclass(frozen=True)
class ScaledDecoder(ElementsOfWords):
    """Decodes numbers that are stored as integers, times a factor: float64."""

    words: np.dtype
    factor: float

    @property
    def dtype(self) -> np.dtype:
        return np.dtype(np.float64)

    def make(self, words: np.ndarray, first: int, out: np.ndarray) -> None:
        np.multiply(words, self.factor, out=out)


@dataclass(frozen=True)
class Extended:
    """The extended header of a file.

    Attributes:
        files: the file.
        count: number of sections, a record each.
        size: bytes of a record.
        order: byte order.
        told: what each record holds.
        fei: True if it is of FEI1 or FEI2.
    """

    files: Files
    count: int
    size: int
    order: str
    told: Sequence[_Field]
    fei: bool = False

    @property
    def first(self) -> np.void | None:
        """What FEI says of the first section; None in other headers."""
        if not self.fei:
            return None
        raw = read_at(self.files.sources, self.files.paths[0], _FEI.itemsize, 1024)
        return np.frombuffer(raw, _FEI.newbyteorder(self.order))[0]  # type: ignore[arg-type, no-any-return]

    @property
    def scales(self) -> dict[str, dict[str, Any]]:
        """The scales of x and y that the record of the first section holds."""
        first = self.first
        steps = {} if first is None else {axis: float(first[f"pixel_size_{axis}"]) for axis in "yx"}
        return {axis: {"scale": step, "offset": 0.0, "unit": "m"} for axis, step in steps.items() if step > 0}

    @property
    def attributes(self) -> dict[str, Any]:
        first = self.first
        return {} if first is None else {"fei": fields(first)}

    @property
    def tilts(self) -> str:
        """Name of the companion of the tilts, if each section has another one; else ""."""
        field = next((one for one in self.told if one.name in ("alpha_tilt", serialem.TILT)), None)
        if field is None or not 1 < self.count <= _MAX_TILTS:
            return ""
        try:
            raw = read_at(self.files.sources, self.files.paths[0], self.count * self.size, 1024)
        except SourceError:
            return ""
        rows = np.frombuffer(raw, np.uint8).reshape(self.count, self.size)
        stored = np.dtype(self.order + field.stored)
        values = np.ascontiguousarray(rows[:, field.at : field.at + stored.itemsize]).view(stored)[:, 0]
        return field.name if serialem.apart(values.astype("f8")) else ""

    def companions(self, scan: MovieScan) -> list[StoredArray]:
        """Make a companion of each field, for sections that are shown as a scan."""
        return [self._companion(field, scan) for field in self.told]

    def _companion(self, field: _Field, scan: MovieScan) -> StoredArray:
        stored = np.dtype(self.order + field.stored)
        record = FrameRecord((), stored.itemsize, header=field.at, footer=self.size - field.at - stored.itemsize)
        return StoredArray(
            field.name,
            self.files,
            scan.shown(FrameLayout.of(record, [self.count], file_header=1024)),
            PlainDecoder(stored) if field.factor == 1 else ScaledDecoder(stored, field.factor),
            scan.nav,
            scan.dims,
            len(scan.nav),
            conventions={"units": field.units} if field.units else {},
            companion=True,
            coordinate=True,
        )


def extended_of(header: np.void, files: Files, order: str) -> Extended | None:
    """Find what the extended header of a file holds; None if that is not known."""
    count, room = int(header["nz"]), int(header["nsymbt"])
    if not count or room < count:
        return None
    if bytes(header["exttyp"]) in (b"FEI1", b"FEI2"):
        if room < count * _FEI.itemsize:
            return None
        size = int.from_bytes(read_at(files.sources, files.paths[0], 4, 1024), "little" if order == "<" else "big")
        fits = _FEI.itemsize <= size <= room // count
        return Extended(files, count, size, order, _FEI_FIELDS, fei=True) if fits else None
    integers, flags = np.frombuffer(header["_more"].tobytes(), order + "i2", 2, 16).tolist()
    if (integers, flags) == (0, 32) and room >= count * 128:
        return Extended(files, count, 128, order, _REALS)
    shorts = {flag: n for flag, n in _SHORTS.items() if flags & flag}
    if flags > 0 and flags < 64 and integers == 2 * sum(shorts.values()) and room >= count * integers:
        return Extended(files, count, integers, order, [*_serial_em(shorts)])
    return None


def _serial_em(shorts: dict[int, int]) -> list[_Field]:
    """Return the fields of a record of SerialEM, given the integers of each flag that is set."""
    found: list[_Field] = []
    at = 0
    for flag, n in shorts.items():
        names: dict[int, list[tuple[str, str, float]]] = {
            _TILTED: [(serialem.TILT, "deg", 0.01)],
            _PIECES: [(f"piece_{axis}", "px" if axis != "z" else "", 1.0) for axis in "xyz"],
            _STAGE: [(f"stage_{axis}", "um", 1 / 25) for axis in "xy"],
            _MAGNIFIED: [("magnification", "", 100.0)],
            _INTENSITY: [("intensity", "", 1 / 25000)],
        }
        found += [_Field(name, "i2", at + 2 * k, units, by) for k, (name, units, by) in enumerate(names.get(flag, []))]
        at += 2 * n
    return found
