"""What a Zeiss LSM says of an acquisition, in the vocabulary of `vfs.model.metadata`, as tifffile reads its tag.

Pinholes are in µm, times of pixels in µs, lines of lasers in nm; the time counts days from 30 December 1899.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

from vfs.model.channels import Channel, real
from vfs.model.metadata import Term

_TEXTS = ("Name", "Description", "Notes", "Objective", "User")
_NANO, _MICRO = 1e-9, 1e-6
_FIRST_DAY = datetime(1899, 12, 30)


def attrs_of(lsm: Any) -> dict[str, Any]:
    """Return what the tag says, in its own words, and under `channels` of each channel."""
    lsm = lsm if isinstance(lsm, Mapping) else {}
    scan = lsm.get("ScanInformation")
    scan = scan if isinstance(scan, Mapping) else {}
    tracks = list(_each(scan, "Tracks"))
    detectors = [one for track in tracks for one in _each(track, "DetectionChannels") if one.get("Acquire", 1)]
    lights = [one for track in tracks for one in _each(track, "IlluminationChannels") if one.get("Aquire", 1)]
    lines = [line for one in lights if real(one.get("Power")) and (line := real(one.get("Wavelength")))]
    about: dict[str, Any] = {name: scan[name].strip() for name in _TEXTS if isinstance(scan.get(name), str)}
    about |= {
        "Sample0time": real(scan.get("Sample0time")),
        "PixelTime": _agreed(one.get("PixelTime") for one in tracks),
        "PinholeDiameter": _agreed(one.get("PinholeDiameter") for one in detectors),
        "DetectorGainFirst": _agreed(one.get("DetectorGainFirst") for one in detectors),
        "Wavelength": list(dict.fromkeys(lines)),
    }
    found = {"channels": _channels(lsm.get("ChannelColors")), "lsm": {name: one for name, one in about.items() if one}}
    return {name: one for name, one in found.items() if one}


def _each(node: Mapping[str, Any], name: str) -> Iterator[Mapping[str, Any]]:
    some = node.get(name)
    yield from (one for one in some if isinstance(one, Mapping)) if isinstance(some, list) else ()


def _agreed(numbers: Iterator[Any]) -> float | None:
    """Return the number of all; None if they differ."""
    found = {real(one) for one in numbers}
    return found.pop() if len(found) == 1 else None


def _channels(known: Any) -> list[dict[str, Any]]:
    """Return name and colour of each channel."""
    known = known if isinstance(known, Mapping) else {}
    names, colours = [str(one) for one in known.get("ColorNames", ())], [*known.get("Colors", ())]
    if len(names) != len(colours) or not any(names):
        return []
    return [
        dict(Channel(name=name, colour=f"#{bytes(one[:3]).hex()}")) for name, one in zip(names, colours, strict=True)
    ]


def _time(entry: Any) -> str | None:
    days = real(entry)
    try:
        return (_FIRST_DAY + timedelta(seconds=round(days * 86400, 3))).isoformat() if days and days > 1 else None
    except OverflowError:
        return None


TERMS = (
    Term("title", "lsm:Name"),
    Term("notes", "lsm:Notes"),
    Term("notes", "lsm:Description"),
    Term("authors", "lsm:User"),
    Term("time", "lsm:Sample0time", take=_time),
    Term("dwell_time", "lsm:PixelTime", _MICRO, zero=False),
    Term("gain", "lsm:DetectorGainFirst"),
    Term("objective.name", "lsm:Objective"),
    Term("pinhole", "lsm:PinholeDiameter", _MICRO, zero=False),
    Term("laser", "lsm:Wavelength", _NANO),
)
"""Of what `attrs_of` finds."""
