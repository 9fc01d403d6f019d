"""Reads the `.mdoc` that SerialEM writes beside a stack: `NAME.mrc.mdoc`, `NAME.tif.mdoc`.

It is text: entries `Key = value` of the stack, titles `[T = …]`, and for each section `[ZValue = k]` its entries.
What is said for each section is companions along the sections: tilt, dose, defocus, stage, time … Sections with a
tilt of their own are an axis `tilt`. Beside the frames of one exposure, `[FrameSet = 0]` says what holds for all.
See https://bio3d.colorado.edu/SerialEM/hlp/html/about_formats.htm
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from vfs.errors import FormatError, SourceError
from vfs.formats.headers import exists, read_side_file
from vfs.model.decode import ElementsOfWords
from vfs.model.files import Files
from vfs.model.layout import FrameLayout, FrameRecord, Scan, altered
from vfs.model.metadata import DEGREES, Term
from vfs.model.sources import Sources
from vfs.model.stored import StoredArray

TILT = "tilt"
_HEAD = re.compile(r"\[\s*(\w+)\s*=\s*(.*?)\s*\]")
_MAX_LISTED = 4096  # sections whose texts are listed in the attributes
_DATES = ("%d-%b-%y %H:%M:%S", "%d-%b-%Y %H:%M:%S")
_TILT_AXIS = re.compile(r"tilt\s*axis\s*angle\s*=\s*([-+\d.]+)", re.IGNORECASE)
_MICROSCOPE = re.compile(r"SerialEM:\s*(\S.*?)\s+\d{1,2}-\w{3}-\d{2,4}\b.*")


class _Column(NamedTuple):
    """A companion: the key of a section's entry, which of its numbers, and the unit."""

    key: str
    part: int
    units: str


_COLUMNS: Mapping[str, _Column] = {
    TILT: _Column("TiltAngle", 0, "deg"),
    "timestamp": _Column("DateTime", 0, "seconds since 1970-01-01"),
    "dose": _Column("ExposureDose", 0, "1/angstrom2"),
    "prior_dose": _Column("PriorRecordDose", 0, "1/angstrom2"),
    "exposure_time": _Column("ExposureTime", 0, "s"),
    "defocus": _Column("Defocus", 0, "um"),
    "target_defocus": _Column("TargetDefocus", 0, "um"),
    "stage_x": _Column("StagePosition", 0, "um"),
    "stage_y": _Column("StagePosition", 1, "um"),
    "stage_z": _Column("StageZ", 0, "um"),
    "image_shift_x": _Column("ImageShift", 0, "um"),
    "image_shift_y": _Column("ImageShift", 1, "um"),
    "magnification": _Column("Magnification", 0, ""),
    "piece_x": _Column("PieceCoordinates", 0, "px"),
    "piece_y": _Column("PieceCoordinates", 1, "px"),
    "piece_z": _Column("PieceCoordinates", 2, ""),
}
_PIXEL = _Column("PixelSpacing", 0, "angstrom")


@dataclass(frozen=True)
class Mdoc:
    """What a .mdoc says.

    Attributes:
        path: of the file.
        stack: entries of the stack.
        titles: lines about it.
        sections: number of a section -> its entries.
    """

    path: str
    stack: Mapping[str, str]
    titles: tuple[str, ...]
    sections: Mapping[int, Mapping[str, str]]

    def numbers(self, column: _Column, count: int) -> np.ndarray:
        """Return a number of each of `count` sections, float64[count]; NaN where none is said."""
        found = np.full(count, np.nan)
        for k, entries in self.sections.items():
            if k < count and column.key in entries:
                found[k] = _number(entries[column.key], column)
        return found

    @property
    def pixel(self) -> float:
        """Size of a pixel in ångström; 0 where it is not said."""
        size = _number(self.stack.get("PixelSpacing", ""), _PIXEL)
        return size if np.isfinite(size) and size > 0 else 0.0

    def tilts(self, count: int) -> bool:
        """Return True if `count` sections have each a tilt, and all are different."""
        if count < 2 or len(self.sections) < count:
            return False
        return apart(self.numbers(_COLUMNS[TILT], count))

    def attributes(self) -> dict[str, Any]:
        """Return the entries of the stack, and of its sections: those that all share once, other texts as lists."""
        each = [entries for _, entries in sorted(self.sections.items())]
        first = each[0] if each else {}
        shared = {key: value for key, value in first.items() if all(one.get(key) == value for one in each)}
        keys = list(dict.fromkeys(key for entries in each[:_MAX_LISTED] for key in entries if key not in shared))
        listed = {key: [entries.get(key, "") for entries in each] for key in keys} if len(each) <= _MAX_LISTED else {}
        said = {**self.stack, "titles": list(self.titles), "sections": shared, "each_section": listed}
        return {key: value for key, value in said.items() if value}


def apart(values: np.ndarray) -> bool:
    """Return True if several numbers are all finite and different, as positions along an axis are."""
    return len(values) > 1 and bool(np.isfinite(values).all()) and len(np.unique(values)) == len(values)


def mdoc_of(sources: Sources, path: str) -> Mdoc | None:
    """Return what the .mdoc beside a stack says; None if there is none, or it cannot be understood."""
    name = f"{path}.mdoc"
    if not exists(sources, name):
        return None
    try:
        made = _parsed(name, read_side_file(sources, name))
    except (SourceError, FormatError):
        return None
    return made if made.stack or made.sections else None


def _parsed(path: str, text: bytes) -> Mdoc:
    stack: dict[str, str] = {}
    titles: list[str] = []
    sections: dict[int, dict[str, str]] = {}
    at: dict[str, str] | None = stack
    for line in text.decode("utf-8", "replace").splitlines():
        head = _HEAD.fullmatch(line.strip())
        if head is None:
            key, mark, value = line.partition("=")
            if mark and at is not None and (name := key.strip()).isprintable():
                at[name] = value.strip()
        elif head[1] == "T":
            titles.append(head[2])
        else:
            number = head[2] if head[1] == "ZValue" else "0" if head[1] == "FrameSet" else ""
            known = number.isascii() and number.isdigit() and len(number) < 8
            at = sections.setdefault(int(number), {}) if known else None
    return Mdoc(path, stack, tuple(titles), sections)


def _number(text: str, column: _Column) -> float:
    """Return the number that an entry says; NaN if it says none."""
    if column.key == "DateTime":
        return _seconds(text)
    parts = text.split()
    try:
        return float(parts[column.part]) if len(parts) > column.part else np.nan
    except ValueError:
        return np.nan


def _seconds(text: str) -> float:
    """Return the seconds since 1970 of a time without a zone; NaN of another text."""
    when = _date(text)
    return np.nan if when is None else when.replace(tzinfo=UTC).timestamp()


def _date(text: str) -> datetime | None:
    for form in _DATES:
        try:
            return datetime.strptime(" ".join(text.split()), form)
        except ValueError:
            continue
    return None


@dataclass(frozen=True, eq=False)
class ListedDecoder(ElementsOfWords):
    """Decodes numbers of a text: element k is byte k of its file, float64.

    Attributes:
        numbers: float64[n], as they were when the file was opened.
    """

    numbers: np.ndarray

    @property
    def dtype(self) -> np.dtype:
        return np.dtype(np.float64)

    @property
    def words(self) -> np.dtype:
        return np.dtype(np.uint8)

    def make(self, words: np.ndarray, first: int, out: np.ndarray) -> None:
        out[:] = self.numbers[first : first + len(words)]


def companions(sources: Sources, mdoc: Mdoc, count: int, dim: str) -> list[StoredArray]:
    """Make a companion of each number that a .mdoc says of sections.

    Args:
        count: number of sections.
        dim: name of their axis.
    """
    try:
        files = Files.stat(sources, [mdoc.path])
    except SourceError:
        return []
    if files.sizes[0] < count or not {*mdoc.sections} - {0}:  # it says little of many sections, or only of all together
        return []
    layout = FrameLayout.of(FrameRecord((), 1), [count]).arranged(Scan((count,)))
    numbers = {name: mdoc.numbers(column, count) for name, column in _COLUMNS.items()}
    return [
        StoredArray(
            name,
            files,
            layout,
            ListedDecoder(numbers[name]),
            (count,),
            (dim,),
            1,
            conventions={"units": column.units} if column.units else {},
            companion=True,
            coordinate=True,
        )
        for name, column in _COLUMNS.items()
        if np.isfinite(numbers[name]).any()
    ]


def with_mdoc(sources: Sources, path: str, arrays: Sequence[StoredArray]) -> list[StoredArray]:
    """Return the arrays of a file with what the .mdoc beside it says of the first one."""
    mdoc = mdoc_of(sources, path)
    main, *others = arrays
    if mdoc is None or main.nav_ndim > 1:
        return [*arrays]
    known = {**main.attrs.get("calibration", {})}
    if mdoc.pixel:
        known |= {axis: {"scale": mdoc.pixel, "offset": 0.0, "unit": "angstrom"} for axis in ("y", "x")}
    count, beside = main.shape[0] if main.nav_ndim else 1, list[StoredArray]()
    if main.nav_ndim and mdoc.tilts(count):
        main = altered(main, dims=(TILT, *main.dims[1:]))
        known[TILT] = {"values": TILT, "unit": "deg"}
    if main.nav_ndim:
        beside = companions(sources, mdoc, count, main.dims[0])
    attrs = {**main.attrs, "mdoc": mdoc.attributes(), **({"calibration": known} if known else {})}
    return [altered(main, attrs=attrs), *others, *beside]


def _nth(k: int, entry: Any) -> str | None:
    parts = str(entry).split()
    return parts[k] if len(parts) > k else None


def _when(entry: Any) -> str | None:
    """Return the time of the first section, or of the only one."""
    when = _date(str(entry[0] if isinstance(entry, list) and entry else entry))
    return None if when is None else when.isoformat()


def tilt_axis(titles: Any) -> str | None:
    """Return the angle of the tilt axis in titles, in degrees: Tilt axis angle = 85.3, binning = 1."""
    found = (_TILT_AXIS.search(str(title)) for title in (titles if isinstance(titles, list) else ()))
    return next((hit[1] for hit in found if hit), None)


def microscope(titles: Any) -> str | None:
    """Return what a title says of the microscope: SerialEM: Titan Krios 25-Mar-21 16:59:53."""
    found = (_MICROSCOPE.fullmatch(str(title)) for title in (titles if isinstance(titles, list) else ()))
    return next((hit[1] for hit in found if hit), None)


def software(titles: Any) -> str | None:
    """Return SerialEM if titles name it."""
    return "SerialEM" if any("SerialEM" in str(one) for one in (titles if isinstance(titles, list) else ())) else None


_S = "mdoc:sections:"
TERMS = (
    Term("time", "mdoc:each_section:DateTime", take=_when),
    Term("time", f"{_S}DateTime", take=_when),
    Term("microscope", "mdoc:titles", take=microscope),
    Term("software", "mdoc:titles", take=software),
    Term("beam_energy", "mdoc:Voltage", 1e3, zero=False),
    Term("magnification", f"{_S}Magnification", zero=False),
    Term("defocus", f"{_S}Defocus", 1e-6),
    Term("spot_size", f"{_S}SpotSize"),
    Term("exposure_time", f"{_S}ExposureTime", zero=False),
    Term("tilt_axis_angle", "mdoc:titles", DEGREES, take=tilt_axis),
    Term("stage.alpha", f"{_S}TiltAngle", DEGREES),
    Term("stage.x", f"{_S}StagePosition", 1e-6, take=partial(_nth, 0)),
    Term("stage.y", f"{_S}StagePosition", 1e-6, take=partial(_nth, 1)),
    Term("stage.z", f"{_S}StageZ", 1e-6),
    Term("binning", f"{_S}Binning", zero=False),
    Term("slit_width", f"{_S}FilterSlitAndLoss", take=partial(_nth, 0), zero=False),
    Term("dose", f"{_S}ExposureDose", 1e20, zero=False),
)
"""What a .mdoc says in the vocabulary of `vfs.model.metadata`: of its sections, what all share."""
