"""Velox (Thermo Fisher): which images and spectra are shown first, their names, axes and metadata, counted spectra.

`Data/Image/ID/Data` has an image series, `Data/Spectrum/ID/Data` spectra, `Data/SpectrumStream/ID/Data`
encoded events, `Data/SpectrumImage/ID/Data` encoded maps; `Metadata` beside each is JSON, a column for each
frame. `Data/EelsSpectrumImage/ID/Data` has spectra of energy loss, x, energy, y (as RosettaSciIO reads them), or
x, energy; their energies are in `AcquisitionMetadata`, their places in `Metadata` of the
SpectrumImage. Displays are JSON, too:

    up to version 10   `Presentation/Displays/ImageDisplay/ID`: label, priority (the highest is shown first), data
    from version 11    `Displays/ImageDisplay/ID`: title, and a reference in `SharedProperties` to the data

Events of a stream are counted (`spectra`) to the array `Data/SpectrumStream/ID/Spectra` ("EDS SuperXG21"), those of all
detectors to `Data/SpectrumStream/Spectra` ("EDS"). The facts come from the reader
in RosettaSciIO (https://github.com/hyperspy/rosettasciio): `AcquisitionSettings` has the number of channels
(`bincount`), and `RasterScanDefinition` where positions were recorded; how many there are is what the images of the
file have, since that definition may be larger. `FrameLocationTable` is where each frame begins.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple
from urllib.parse import unquote

import numpy as np

from vfs.errors import SourceError
from vfs.formats.hdf5 import spectra
from vfs.formats.hdf5.pieces import StoredData
from vfs.formats.hdf5.program import Axes, Axis, Found, Program, json_object, json_of
from vfs.formats.hdf5.small import read_small
from vfs.h5.facts import Survey
from vfs.model.elements import of_numbers
from vfs.model.files import Files
from vfs.model.sources import Sources
from vfs.model.stored import Absence, StoredArray

_BLOCK = 1 << 21  # counts of a block of spectra
_FIRST = 1 << 25  # most events of a frame that is looked at when the set is opened
_MAX_CHANNELS = 1 << 15
_MAX_LACKING = 0.1  # of the positions of a frame that was stopped: with more, another image may be meant
_SUM = "Data/SpectrumStream/Spectra"
"""Path of the sum of all detectors."""
_ARRAY = re.compile(r"Data/(\w+)/([^/]+)/(\w+)", re.ASCII)
_SETTINGS = re.compile(r"(Data|SharedProperties)/EDSSpectrumQuantificationSettings/[^/]+", re.ASCII | re.IGNORECASE)
_DISPLAY = re.compile(r"(Presentation/)?Displays/ImageDisplay/[^/]+", re.ASCII)
_HALF = re.compile(r"realFloatHalf(Even|Odd)")
"""The name of the real part in a half of a Fourier transform."""


def _encoded(found: Found) -> set[str]:
    """Return what is never shown as it is stored: metadata, tables of frames, encoded streams and maps."""
    return {
        name
        for name, entry in found.items()
        if (kind := _ARRAY.fullmatch(name))
        and (
            kind[3].endswith(("Metadata", "Table"))
            or kind[1] == "SpectrumStream"
            or (kind[1] == "SpectrumImage" and len(entry.shape) < 3)
        )
    }


def _kinds(names: Iterable[str]) -> dict[str, str]:
    """Return name -> kind (Image, Spectrum …) of arrays, without what stands beside them."""
    return {name: kind[1] for name in names if (kind := _ARRAY.fullmatch(name)) and kind[3] == "Data"}


def _first(found: Found, survey: Survey) -> list[str]:
    """Return the arrays that Velox shows first, in a file that it wrote; else none.

    These are spectrum images, and of the images those that were measured, not computed; where displays
    have a priority, the images of the highest. A file without images shows its spectra.
    """
    kinds = _kinds(found)
    if not any(f"{name.removesuffix('Data')}Metadata" in survey.data for name in kinds):
        return []
    maps = [name for name, kind in kinds.items() if kind.endswith("SpectrumImage") and len(found[name].shape) > 2]
    images = [name for name, kind in kinds.items() if kind == "Image"]
    if maps or images:
        ranks = _ranks(images, found, survey)
        return maps + [name for name in images if ranks[name] == max(ranks.values())]
    return [name for name, kind in kinds.items() if kind == "Spectrum"]


def _ranks(images: list[str], found: Found, survey: Survey) -> dict[str, tuple[bool, bool, float]]:
    """Return a rank for each image: whether it is no Fourier transform, whether it was measured, its priority."""
    displays = _displays(survey)
    ranks = {}
    for name in images:
        group = name.rpartition("/")[0]
        result = _metadata(group, found, survey).get("BinaryResult")
        computed = isinstance(result, dict) and "DetectorIndex" not in result
        half = name in survey.data and any(map(_HALF.fullmatch, survey.data[name].fields))
        ranks[name] = not half, not computed, displays.get(group, ("", 0.0))[1]
    return ranks


def _about(found: Found, survey: Survey) -> dict[str, dict[str, Any]]:
    """Return attributes of the images and spectra.

    Returns: array -> `name`, that of its display, else that of its detector, and `metadata` of its first frame, as the
        file has them; each where there is one. A name that others have before is numbered: "HAADF (2)".
    """
    displays = _displays(survey)
    made: dict[str, dict[str, Any]] = {}
    used: Counter[str] = Counter()
    for name in _kinds(found):
        group = name.rpartition("/")[0]
        if f"{group}/Metadata" in found:
            said = _metadata(group, found, survey)
            label = displays.get(group, ("", 0.0))[0] or _detector(said)
            used[label] += 1
            label = f"{label} ({used[label]})" if label and used[label] > 1 else label
            made[name] = ({"name": label} if label else {}) | ({"metadata": said} if said else {})
            made[name] |= _elements(survey) if _kinds(found)[name] != "Image" else {}
    return made


def _elements(survey: Survey) -> dict[str, str]:
    """Return the `elements` that somebody chose to quantify, by their symbols; {} where nobody did."""
    for name in survey.data:
        if _SETTINGS.fullmatch(name) and (symbols := of_numbers(json_of(name, survey).get("elementSelection"))):
            return {"elements": symbols}
    return {}


def _detector(said: Mapping[str, Any]) -> str:
    try:
        result = said["BinaryResult"]
        label = result.get("Detector") or said["Detectors"][f"Detector-{result['DetectorIndex']}"]["DetectorName"]
    except (KeyError, TypeError, AttributeError):
        return ""
    return label if isinstance(label, str) else ""


def _metadata(group: str, found: Found, survey: Survey, own: str = "Metadata") -> dict[str, Any]:
    """Return the metadata of the first frame of a group; {} if they are no JSON.

    Args:
        own: name of the data set that has them.
    """
    entry = found.get(f"{group}/{own}")
    if entry is None:
        return {}
    text = read_small(survey.origin, entry, lambda whole: (whole[0], *(1 for _ in whole[1:])))
    return {} if text is None else json_object(bytes(text.astype(np.uint8)).split(b"\0")[0])


def _displays(survey: Survey) -> dict[str, tuple[str, float]]:
    """Return the group of an image -> (name, priority) of its display."""
    found: dict[str, tuple[str, float]] = {}
    for name, data in survey.data.items():
        if not data.text or not _DISPLAY.fullmatch(name):
            continue
        said = json_of(name, survey)
        about = said.get("display")
        about = about if isinstance(about, dict) else {}
        where = said.get("dataPath")
        if isinstance(reference := said.get("data"), str) and reference.strip("/") in survey.data:
            where = json_of(reference.strip("/"), survey).get("dataPath")
        label = about.get("label") or said.get("title") or said.get("id")
        if isinstance(where, str) and isinstance(label, str):
            found[where.strip("/")] = unquote(label), _real(about.get("priority"))
    return found


_AXES: Mapping[str, tuple[str, ...]] = {"Image": ("y", "x", "frame"), "Spectrum": ("energy", "spectrum")}


def _axes(name: str, shape: tuple[int, ...], found: Found, survey: Survey) -> Axes | None:
    hit = _ARRAY.fullmatch(name)
    group, kind = name.rpartition("/")[0], hit[1] if hit and hit[3] == "Data" else ""
    if kind == "EelsSpectrumImage":
        return _eels_axes(group, len(shape), found, survey)
    names = _AXES.get(kind, ())
    if not names or f"{group}/Metadata" not in found or len(shape) != len(names):
        return None
    said = _metadata(group, found, survey)
    return Axes(tuple(_axis(axis, said) for axis in names), nav_ndim=0)  # none of frames that come first


def _eels_axes(group: str, ndim: int, found: Found, survey: Survey) -> Axes | None:
    """Return the axes of a spectrum image of energy losses, or of a line of spectra."""
    said = _metadata(group, found, survey, "AcquisitionMetadata").get("Data")
    if ndim not in (2, 3) or not isinstance(said, dict):
        return None
    energy = Axis("energy")
    with suppress(ValueError, KeyError, TypeError):
        known = {"scale": float(said["dispersion"]), "offset": float(said["offset"]), "unit": "eV"}
        energy = Axis("energy", known)
    maps = (name.rpartition("/")[0] for name in found if re.fullmatch(r"Data/SpectrumImage/[^/]+/Metadata", name))
    places = _metadata(next(maps, ""), found, survey)
    return Axes((_axis("x", places), energy, _axis("y", places))[:ndim], nav_ndim=3 - ndim)


def _axis(name: str, said: Mapping[str, Any]) -> Axis:
    """Return an axis of an image or a spectrum, calibrated if the metadata say how."""
    with suppress(ValueError, KeyError, TypeError):
        if name == "frame":
            return Axis(name, {"scale": _frame_time(said), "offset": 0.0, "unit": "s"})
        made = said["BinaryResult"]
        if name == "energy":
            detector = said["Detectors"][f"Detector-{made['DetectorIndex']}"]
            scale, offset = float(detector["Dispersion"]), float(detector["OffsetEnergy"])
            return Axis(name, {"scale": scale, "offset": offset, "unit": "eV"})
        scale, offset = float(made["PixelSize"]["height" if name == "y" else "width"]), float(made["Offset"][name])
        return Axis(name, {"scale": scale, "offset": offset, "unit": made[f"PixelUnit{name.upper()}"]})
    return Axis(name)


def _frame_time(said: Mapping[str, Any]) -> float:
    """Return the seconds from a frame to the next: those of the scan, else the exposure of the camera.

    Raises:
        KeyError, TypeError, ValueError: neither is said.
    """
    scan = said.get("Scan")
    if isinstance(scan, Mapping) and "FrameTime" in scan:
        return float(scan["FrameTime"])
    return float(said["Detectors"][f"Detector-{said['BinaryResult']['DetectorIndex']}"]["ExposureTime"])


def _counted_spectra(
    found: Found, survey: Survey, files_of: Callable[[str], Files]
) -> tuple[list[StoredArray], dict[str, str]]:
    """Make the arrays of streams, their sum first; return reasons why there is none for other streams."""
    made, left, kinds = list[StoredArray](), {}, _kinds(found)
    images = [found[name].shape for name, kind in kinds.items() if kind == "Image"]
    shapes: set[tuple[int, ...]] = {shape for shape in images if len(shape) == 3}
    for name in kinds:
        group, stream = name.rpartition("/")[0], found[name]
        if kinds[name] != "SpectrumStream" or stream.shape[1:] != (1,) or stream.dtype != np.uint16:
            continue
        said = json_of(f"{group}/AcquisitionSettings", survey)
        channels = _channels(said)
        if not channels or "RasterScanDefinition" not in said:
            continue  # a spectrum of one place
        files = files_of(name)
        try:
            scan = _scan(survey.origin, found.get(f"{group}/FrameLocationTable"), stream, shapes)
        except SourceError as error:
            left[f"{group}/Spectra"] = str(error)
            continue
        if scan is None:
            left[f"{group}/Spectra"] = "the number of its positions is that of no image in the file"
            continue
        width = max(1, min(scan.shape[1], _BLOCK // channels))
        decoder = spectra.SpectraDecoder(survey.origin, stream, files, scan.shape, channels, width)
        about = _metadata(group, found, survey)
        detector = _stream_detector(about)
        attrs = {
            "name": f"EDS {detector}" if detector else "",
            "events": stream.shape[0],
            **({"metadata": about} if about else {}),
            **_elements(survey),
            "calibration": _stream_calibration(about),
        }
        path = f"{group}/Spectra"
        absent = (*stream.absent, *scan.absent(f"{files.paths[0]}: {path}"))
        made.append(_spectra(path, decoder, files, attrs, absent))
    return _with_sum(made), left


def _spectra(
    path: str,
    decoder: spectra.SpectraDecoder,
    files: Files,
    attrs: Mapping[str, Any],
    absent: tuple[Absence, ...],
    counted: spectra.SumDecoder | None = None,
) -> StoredArray:
    """Make the array of spectra that a decoder counts, or `counted` for all of several alike."""
    shape = (*decoder.scan, decoder.channels)
    dims = ("scan_y", "scan_x", "energy")
    more: dict[str, Any] = {"block": (1, decoder.block, decoder.channels), "attrs": attrs, "absent": absent}
    return StoredArray(path, files, decoder.layout, counted or decoder, shape, dims, 2, computed=True, **more)


def _with_sum(made: list[StoredArray]) -> list[StoredArray]:
    """Return spectra of several detectors that have the same axes with their sum before them."""
    decoders = tuple(one.decoder for one in made if isinstance(one.decoder, spectra.SpectraDecoder))
    alike = {(one.shape, one.files.paths, repr(one.attrs["calibration"])) for one in made}
    if len(made) < 2 or len(alike) > 1:
        return made
    first = made[0]
    said = {key: value for key, value in first.attrs.get("metadata", {}).items() if key != "BinaryResult"}
    attrs = {
        "name": "EDS",
        "sum_of": [one.path for one in made],
        "events": sum(one.attrs["events"] for one in made),
        **({"metadata": said} if said else {}),
        **{key: first.attrs[key] for key in ("elements",) if key in first.attrs},
        "calibration": first.attrs["calibration"],
    }
    absent = tuple(dict.fromkeys(absence for one in made for absence in one.absent))
    whole = _spectra(_SUM, decoders[0], first.files, attrs, absent, spectra.SumDecoder(decoders))
    return [whole, *made]


def _channels(said: Mapping[str, Any]) -> int:
    """Return the number of channels; 0 if they are not known, or events have another encoding."""
    text = str(said.get("bincount", ""))
    plain = text.isascii() and text.isdigit() and len(text) < 9 and said.get("StreamEncoding", "uint16") == "uint16"
    return int(text) if plain and 0 < int(text) <= _MAX_CHANNELS else 0


class _VeloxScan(NamedTuple):
    """Lines and positions of a scan, and how many positions its only or last frame lacks where it was stopped."""

    shape: tuple[int, int]
    lacking: int = 0

    def absent(self, named: str) -> tuple[Absence, ...]:
        if not self.lacking:
            return ()
        of = math.prod(self.shape)
        said = f"{named}: the map was stopped: its last frame lacks {self.lacking:,} of {of:,} positions"
        return (Absence(said, counts={"frames_missing": self.lacking}),)


def _scan(
    sources: Sources, table: StoredData | None, stream: StoredData, shapes: set[tuple[int, ...]]
) -> _VeloxScan | None:
    """Return the scan of a stream: that of the images that have as many pixels as the first frame positions.

    Where nothing says where a second frame begins, all positions count: those of the frames that an image has, or
    fewer where the last of them was stopped.

    Args:
        shapes: rows, columns and frames of the images.

    Raises:
        SourceError: the stream cannot be read.
    """
    begins = None if table is None else read_small(sources, table)
    stop, alone = stream.shape[0], True
    if begins is not None and len(begins) > 1 and 0 < int(begins[1]) <= stop:
        stop, alone = int(begins[1]), False
    if stop > _FIRST:
        return None
    count = int((spectra.events_of(sources, stream, 0, stop) == spectra.END).sum())
    fitting = {shape[:2] for shape in shapes if math.prod(shape[:2]) == count}
    if len(fitting) == 1:
        return _VeloxScan(_rows_and_columns(fitting.pop()))
    if fitting or not alone:
        return None
    lacking = {shape[:2]: math.prod(shape) - count for shape in shapes if math.prod(shape)}
    near = [shape for shape, n in lacking.items() if 0 <= n <= _MAX_LACKING * math.prod(shape)]
    return _VeloxScan(_rows_and_columns(near[0]), lacking[near[0]]) if len(near) == 1 else None


def _rows_and_columns(shape: tuple[int, ...]) -> tuple[int, int]:
    return int(shape[0]), int(shape[1])


def _stream_detector(said: Mapping[str, Any]) -> str:
    result = said.get("BinaryResult")
    name = result.get("Detector") if isinstance(result, dict) else None
    return name if isinstance(name, str) else ""


def _stream_calibration(said: Mapping[str, Any]) -> dict[str, Any]:
    """Return the calibration of axes: places in the unit of the file, energies in eV."""
    found: dict[str, Any] = {}
    result, detectors = said.get("BinaryResult"), said.get("Detectors")
    if isinstance(result, dict):
        size, offset = result.get("PixelSize"), result.get("Offset")
        for dim, side, letter in (("scan_y", "height", "y"), ("scan_x", "width", "x")):
            if isinstance(size, dict):
                place = _real(offset.get(letter)) if isinstance(offset, dict) else 0.0
                unit = result.get(f"PixelUnit{letter.upper()}", "")
                found[dim] = {"scale": _real(size.get(side)), "offset": place, "unit": unit}
    own = _stream_detector(said)
    for one in detectors.values() if isinstance(detectors, dict) else ():
        if isinstance(one, dict) and own and one.get("DetectorName") == own and "Dispersion" in one:
            scale, offset = _real(one["Dispersion"]), _real(one.get("OffsetEnergy"))
            found["energy"] = {"scale": scale, "offset": offset, "unit": "eV"}
    return found


def _real(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        return 0.0


PROGRAM = Program(first=_first, axes=_axes, about=_about, encoded=_encoded, computed=_counted_spectra)
