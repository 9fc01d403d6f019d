"""Reads what Velox (Thermo Fisher) writes beside its images and spectra: which is shown first, names, metadata.

`Data/Image/ID/Data` has an image series, `Data/Spectrum/ID/Data` spectra, `Data/SpectrumStream/ID/Data`
encoded events, `Data/SpectrumImage/ID/Data` encoded maps; `Metadata` beside each is JSON, a column for each
frame. `Data/EelsSpectrumImage/ID/Data` has spectra of energy loss, x, energy, y (as RosettaSciIO reads them), or
x, energy; their energies are in `AcquisitionMetadata`, their places in `Metadata` of the
SpectrumImage. Displays are JSON, too:

    up to version 10   `Presentation/Displays/ImageDisplay/ID`: label, priority (the highest is shown first), data
    from version 11    `Displays/ImageDisplay/ID`: title, and a reference in `SharedProperties` to the data
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

import numpy as np

from vfs.formats.hdf5.pieces import StoredData
from vfs.formats.hdf5.small import read_small
from vfs.h5.facts import Survey

_ARRAY = re.compile(r"Data/(\w+)/([^/]+)/(\w+)", re.ASCII)
_DISPLAY = re.compile(r"(Presentation/)?Displays/ImageDisplay/[^/]+", re.ASCII)
DEEPEST = 20  # levels of metadata: more are left out
_HALF = re.compile(r"realFloatHalf(Even|Odd)")
"""The name of the real part in a half of a Fourier transform."""


def beside(found: Mapping[str, StoredData]) -> set[str]:
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


def first(found: Mapping[str, StoredData], survey: Survey) -> list[str]:
    """Return the arrays that Velox shows first, in a file that it wrote; else none.

    These are spectrum images, and of the images those that were measured, not computed; where displays
    have a priority, the images of the highest. A file without images shows its spectra.
    """
    kinds = {name: kind[1] for name in found if (kind := _ARRAY.fullmatch(name)) and kind[3] == "Data"}
    if not any(f"{name.removesuffix('Data')}Metadata" in survey.data for name in kinds):
        return []
    maps = [name for name, kind in kinds.items() if kind.endswith("SpectrumImage") and len(found[name].shape) > 2]
    images = [name for name, kind in kinds.items() if kind == "Image"]
    if maps or images:
        ranks = _ranks(images, found, survey)
        return maps + [name for name in images if ranks[name] == max(ranks.values())]
    return [name for name, kind in kinds.items() if kind == "Spectrum"]


def _ranks(images: list[str], found: Mapping[str, StoredData], survey: Survey) -> dict[str, tuple[bool, bool, float]]:
    """Return a rank for each image: whether it is no Fourier transform, whether it was measured, its priority."""
    displays = _displays(survey)
    ranks = {}
    for name in images:
        group = name.rpartition("/")[0]
        result = metadata(group, found, survey).get("BinaryResult")
        computed = isinstance(result, dict) and "DetectorIndex" not in result
        half = name in survey.data and any(map(_HALF.fullmatch, survey.data[name].fields))
        ranks[name] = not half, not computed, displays.get(group, ("", 0.0))[1]
    return ranks


def about(found: Mapping[str, StoredData], survey: Survey) -> dict[str, dict[str, Any]]:
    """Return attributes of the images and spectra.

    Returns: array -> `name`, that of its display, else that of its detector, and `metadata` of its first frame, as the
        file has them; each where there is one.
    """
    displays = _displays(survey)
    made: dict[str, dict[str, Any]] = {}
    for name in found:
        group, _, own = name.rpartition("/")
        if own == "Data" and _ARRAY.fullmatch(name) and f"{group}/Metadata" in found:
            said = metadata(group, found, survey)
            label = displays.get(group, ("", 0.0))[0] or _detector(said)
            made[name] = ({"name": label} if label else {}) | ({"metadata": said} if said else {})
    return made


def _detector(said: Mapping[str, Any]) -> str:
    try:
        result = said["BinaryResult"]
        label = result.get("Detector") or said["Detectors"][f"Detector-{result['DetectorIndex']}"]["DetectorName"]
    except (KeyError, TypeError, AttributeError):
        return ""
    return label if isinstance(label, str) else ""


def metadata(group: str, found: Mapping[str, StoredData], survey: Survey, own: str = "Metadata") -> dict[str, Any]:
    """Return the metadata of the first frame of a group; {} if they are no JSON.

    Args:
        own: name of the data set that has them.
    """
    entry = found.get(f"{group}/{own}")
    text = (
        None if entry is None else read_small(survey.origin, entry, lambda whole: (whole[0], *(1 for _ in whole[1:])))
    )
    if text is None:
        return {}
    return json_object(bytes(text.astype(np.uint8)).split(b"\0")[0])


def _displays(survey: Survey) -> dict[str, tuple[str, float]]:
    """Return the group of an image -> (name, priority) of its display."""
    found: dict[str, tuple[str, float]] = {}
    for name, data in survey.data.items():
        if not data.text or not _DISPLAY.fullmatch(name):
            continue
        said = json_object(data.text.encode())
        about = said.get("display")
        about = about if isinstance(about, dict) else {}
        where = said.get("dataPath")
        if isinstance(reference := said.get("data"), str) and reference.strip("/") in survey.data:
            where = json_object(survey.data[reference.strip("/")].text.encode()).get("dataPath")
        label = about.get("label") or said.get("title") or said.get("id")
        if isinstance(where, str) and isinstance(label, str):
            found[where.strip("/")] = unquote(label), _number(about.get("priority"))
    return found


def settings(group: str, survey: Survey) -> dict[str, Any]:
    """Return how the events of a stream are encoded; {} if the file does not say it."""
    data = survey.data.get(f"{group}/AcquisitionSettings")
    return json_object(data.text.encode()) if data is not None else {}


def _number(value: object) -> float:
    try:
        return float(value) if isinstance(value, str | int | float) else 0.0
    except ValueError:
        return 0.0


def json_object(text: bytes) -> dict[str, Any]:
    """Return the object that a text holds; {} if it holds none, or one of too many levels."""
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return said if isinstance(said, dict) and _within(said, DEEPEST) else {}


def _within(value: Any, levels: int) -> bool:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return levels > 0 and all(_within(one, levels - 1) for one in inner)
