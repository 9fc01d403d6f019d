"""Reads NORDIF: `Pattern.dat`, patterns of electron backscatter diffraction, and the `Setting.txt` beside it.

There is no public specification; the facts come from the reader in kikuchipy and the files that it ships. `Pattern.dat`
holds 8-bit patterns, one behind the other, and nothing else. `Setting.txt` is text in sections; a line is a key, a tab,
a value, a tab and a unit::

    [Acquisition settings]  Resolution           rows and columns of a pattern: 60x60
    [Area]                  Number of samples    rows and columns of the map: 3x3
                            Step size            µm
    [Calibration patterns]  Calibration (x,y)    a pattern at that pixel of the electron image

(In kikuchipy, the first number of a resolution is the columns; files with other than square patterns are rare.)
The settings name the set. Bitmaps (`.bmp`, 8 bits a pixel) beside it are companions: `calibration` holds the
patterns `Calibration (x,y).bmp`, `background` and `calibration_background` the static backgrounds.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from vfs.errors import FormatError, MissingSourceError, OptionError, OutsideError, SourceError, TruncatedSourceError
from vfs.formats import Format
from vfs.formats.headers import exists, left_out, read_at, read_side_file
from vfs.formats.recorded import Recorded
from vfs.model.decode import PlainDecoder
from vfs.model.files import Files
from vfs.model.layout import FrameLayout, FrameRecord, Scan, mirrored, whole_frame
from vfs.model.metadata import DEGREES, Term
from vfs.model.sources import Sources
from vfs.model.stored import Absence, StoredArray, nav_dims, scan_array
from vfs.model.written import Written
from vfs.sources.names import basename, beside

BITMAP = np.dtype(
    [
        ("magic", "S2"),  # BM
        ("_sizes", "V8"),
        ("first", "<u4"),  # byte of the first pixel
        ("_header", "<u4"),
        ("width", "<i4"),
        ("height", "<i4"),  # positive: the bottom row comes first
        ("_planes", "<u2"),
        ("bits", "<u2"),
        ("compression", "<u4"),
    ]
)
Settings = Mapping[str, Mapping[str, str]]
_PATTERNS, _SETTINGS = "Pattern.dat", "Setting.txt"
_MARK = b"[NORDIF]"
_SIDES = re.compile(r"(\d{1,6})\s*[xX]\s*(\d{1,6})")
_CALIBRATION = re.compile(r"Calibration \((\d{1,6}),\s*(\d{1,6})\)")
_MAX_CALIBRATIONS = 1000  # patterns; there are usually a handful


def sniff(path: str, first_bytes: bytes, sources: Sources) -> bool:
    """Return True for settings of NORDIF, and for the patterns that lie beside some."""
    if first_bytes.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(_MARK):
        return True
    return basename(path).lower() == _PATTERNS.lower() and bool(_beside(sources, path, _SETTINGS))


def _beside(sources: Sources, path: str, name: str) -> str:
    """Return the path of a file in the same folder, whose name may be in small letters; "" if there is none."""
    tried = (beside(path, one) for one in (name, name.lower()))
    return next((one for one in tried if exists(sources, one)), "")


def _settings(sources: Sources, path: str) -> Settings:
    """Read the settings: section -> key -> value.

    Raises:
        FormatError: the file is of another kind.
    """
    found: dict[str, dict[str, str]] = {}
    section: dict[str, str] = {}
    for line in read_side_file(sources, path).decode("latin1").splitlines():
        key, _, value = line.partition("\t")
        if key.startswith("[") and key.rstrip().endswith("]"):
            section = found.setdefault(key.strip()[1:-1], {})
        elif key.strip():
            number, _, unit = value.partition("\t")
            section[key.strip()] = number.strip()
            if key.strip() == "Step size":
                section["Step size unit"] = unit.partition("\t")[0].strip()
    if "NORDIF" not in found:
        raise FormatError(f"{path}: expected settings of NORDIF, with a line [NORDIF], found none")
    return found


def _sides(settings: Settings, section: str, key: str, path: str) -> tuple[int, int]:
    """Return two numbers of a setting such as 60x60.

    Raises:
        FormatError: there is no such setting.
    """
    said = settings.get(section, {}).get(key, "")
    sides = _SIDES.fullmatch(said)
    if sides is None or not int(sides[1]) or not int(sides[2]):
        raise FormatError(f"{path}: expected two numbers for {key} in [{section}], such as 60x60, found {said[:40]!r}")
    return int(sides[1]), int(sides[2])


def _files(sources: Sources, paths: Sequence[str]) -> tuple[str, str]:
    """Return (settings, patterns) of a set, of which one or both are named.

    Raises:
        MissingSourceError: the other one does not exist.
        OptionError: files of several sets are named.
    """
    settings = [
        path
        for path in paths
        if read_at(sources, path, 64, short_ok=True).lstrip(b"\xef\xbb\xbf \t\r\n").startswith(_MARK)
    ]
    patterns = [path for path in paths if path not in settings]
    if len(settings) > 1 or len(patterns) > 1:
        raise OptionError(f"{paths[-1]}: a NORDIF set is one {_SETTINGS} and one {_PATTERNS}; open one at a time")
    for found, other, name in ((settings, patterns, _SETTINGS), (patterns, settings, _PATTERNS)):
        if not found:
            path = _beside(sources, other[0], name)
            if not path:
                raise MissingSourceError(f"{beside(other[0], name)}: no such file; {other[0]} needs it beside it")
            found.append(path)
    return settings[0], patterns[0]


def open(paths: Sequence[str], sources: Sources) -> list[StoredArray]:
    """Open a NORDIF set by its Setting.txt, or by its Pattern.dat.

    Raises:
        FormatError: the settings are garbled.
        MissingSourceError: one of both files does not exist.
        OutsideError: a bitmap is a link that leads out of the folder.
        OptionError: files of several sets are named.
        TruncatedSourceError: there is no whole pattern.
    """
    path, patterns = _files(sources, Files.stat(sources, paths).paths)
    settings, files = _settings(sources, path), Files.stat(sources, [patterns])
    scan = _sides(settings, "Area", "Number of samples", path)
    columns, rows = _sides(settings, "Acquisition settings", "Resolution", path)
    recorded = Recorded.of(files, "patterns", rows * columns, declarer=path)
    companions = [*_bitmaps(sources, path, settings)]
    absent = recorded.absences("a map", scan, apart=True)
    step, unit = (settings["Area"].get(key, "") for key in ("Step size", "Step size unit"))
    attrs: dict[str, Any] = {"settings": settings, "stored_patterns": recorded.stored}
    attrs["calibration"] = {dim: {"scale": step, "offset": 0.0, "unit": unit or "um"} for dim in nav_dims(2)}
    layout = FrameLayout.of(FrameRecord((rows, columns), 1), [recorded.stored]).arranged(Scan(scan))
    absent += tuple(one for one in companions if isinstance(one, Absence))
    main = scan_array(
        files, layout, PlainDecoder(np.dtype("u1")), attrs=attrs, absent=absent, written=Written(math.prod(scan))
    )
    return [main, *(one for one in companions if isinstance(one, StoredArray))]


class _Bitmap(NamedTuple):
    """Where the pixels of a bitmap lie.

    Attributes:
        first: byte of the first stored row.
        shape: (rows, columns).
        upright: True if the top row is stored first.
    """

    first: int
    shape: tuple[int, int]
    upright: bool


def _bitmap(sources: Sources, path: str) -> _Bitmap:
    """Read the header of a bitmap.

    Raises:
        FormatError: it has other than 8 bits a pixel, or is garbled.
        MissingSourceError, SourceError: it cannot be read.
    """
    header = np.frombuffer(read_at(sources, path, BITMAP.itemsize), BITMAP)[0]
    width, height, first = int(header["width"]), int(header["height"]), int(header["first"])
    plain = header["magic"] == b"BM" and header["bits"] == 8 and header["compression"] == 0
    if not plain or not 0 < width < 1 << 16 or not 0 < abs(height) < 1 << 16:
        raise FormatError(
            f"{path}: expected a bitmap of 8 bits a pixel, found {abs(height):,} × {width:,} pixels of"
            f" {int(header['bits'])} bits"
        )
    size = int(Files.stat(sources, [path]).sizes[0])
    if size < first + abs(height) * _row(width):
        raise FormatError(f"{path}: {abs(height)} × {width} pixels do not fit into its {size:,} bytes")
    return _Bitmap(first, (abs(height), width), height < 0)


def _row(width: int) -> int:
    """Return the bytes of a row of a bitmap: it ends at a multiple of 4."""
    return -(-width // 4) * 4


def _stack(
    sources: Sources, name: str, paths: Sequence[str], dims: tuple[str, ...], attrs: Mapping[str, Any]
) -> StoredArray:
    """Show bitmaps as one array, one upon the other; a single one without that axis if it has no name.

    Raises:
        FormatError: they have several sizes, or one is garbled.
        MissingSourceError, SourceError: one cannot be read.
    """
    found = [_bitmap(sources, path) for path in paths]
    for path, one in zip(paths, found, strict=True):
        if one[1:] != found[0][1:]:
            raise FormatError(
                f"{path}: expected a bitmap of {found[0].shape} pixels like {paths[0]}, found {one.shape}; a bitmap"
            )
    height, width = found[0].shape
    pieces = whole_frame((height, width), [_row(width), 1])
    layout = FrameLayout.of(
        FrameRecord(
            (height, width), 1, payload=height * _row(width), pieces=pieces if found[0].upright else mirrored(pieces, 0)
        ),
        [1] * len(paths),
        file_header=[one.first for one in found],
    ).arranged(Scan((len(paths),) if len(dims) > 2 else ()))
    decoder = PlainDecoder(np.dtype("u1"))
    return StoredArray(
        name, Files.stat(sources, paths), layout, decoder, layout.shape, dims, 0, attrs=attrs, companion=True
    )


def _bitmaps(sources: Sources, path: str, settings: Settings) -> Iterator[StoredArray | Absence]:
    """Yield the companions in bitmaps, and what is said of those that cannot be read."""
    calibrations = [_CALIBRATION.match(key) for key in settings.get("Calibration patterns", {})]
    points = [(int(found[1]), int(found[2])) for found in calibrations if found][:_MAX_CALIBRATIONS]
    names = [f"Calibration ({x},{y}).bmp" for x, y in points]
    attrs = {"points": [{"x": x, "y": y} for x, y in points]}
    wanted: list[tuple[str, list[str], tuple[str, ...], Mapping[str, Any]]] = [
        ("calibration", names, ("point", "y", "x"), attrs),
        ("background", ["Background acquisition pattern.bmp"], ("y", "x"), {}),
        ("calibration_background", ["Background calibration pattern.bmp"], ("y", "x"), {}),
    ]
    for name, files, dims, said in wanted:
        there = [beside(path, file) for file in files]
        if not there or (name != "calibration" and not exists(sources, there[0])):
            continue
        try:
            yield _stack(sources, name, there, dims, said)
        except (FormatError, TruncatedSourceError) as error:
            yield left_out(FormatError(str(error)))
        except OutsideError:
            raise
        except SourceError as error:
            yield Absence(f"{error}; the array {name} is not shown", counts={"files_missing": 1})


def _sem(said: Any) -> str:
    return "SEM"


_MICROSCOPE = "settings:Microscope:"

TERMS = (
    Term("sample", "settings:Specimen:Name"),
    Term("microscope", f"{_MICROSCOPE}Model"),
    Term("manufacturer", f"{_MICROSCOPE}Manufacturer"),
    Term("software", "settings:NORDIF:Software version"),
    Term("instrument", "settings:Microscope", take=_sem),
    Term("beam_energy", f"{_MICROSCOPE}Accelerating voltage", 1e3, zero=False),
    Term("magnification", f"{_MICROSCOPE}Magnification", zero=False),
    Term("working_distance", f"{_MICROSCOPE}Working distance", 1e-3, zero=False),
    Term("stage.alpha", f"{_MICROSCOPE}Tilt angle", DEGREES),
    Term("exposure_time", "settings:Acquisition settings:Exposure time", 1e-6, zero=False),
    Term("detector", "settings:EBSD detector:Model"),
)
"""What the settings say, in the vocabulary of `vfs.model.metadata`."""

FORMAT = Format(
    "nordif",
    ("setting.txt", "pattern.dat"),
    "https://www.nordif.com",
    "NORDIF patterns of electron backscatter diffraction: a Pattern.dat and its Setting.txt",
    sniff,
    open,
    terms=TERMS,
    index_extensions=("setting.txt",),
)
