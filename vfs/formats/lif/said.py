"""What Leica's XML says of an image, in the vocabulary of `vfs.model.metadata`.

`Attachment Name="HardwareSetting"` has the settings of a confocal (`ATLConfocalSettingDefinition`) or of a camera
(`ATLCameraSettingDefinition`): lengths in m, times in s, lines of lasers in nm. Channels are named by the dyes of the
detectors that were on, if these are drawn as the channels are; else by their tables of colours ("Green").
`TimeStampList` has the time of each plane: 100 ns since 1601, in hexadecimal digits or in two halves.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any
from xml.etree.ElementTree import Element

from vfs.formats.headers import leaves
from vfs.model.channels import Channel, real
from vfs.model.metadata import Term, sides
from vfs.model.units import factor, spelled

CHANNELS = "ImageDescription/Channels/ChannelDescription"
_KINDS = ("ATLConfocalSettingDefinition", "ATLCameraSettingDefinition")
_NAMED = {
    "red": "#ff0000",
    "green": "#00ff00",
    "blue": "#0000ff",
    "magenta": "#ff00ff",
    "cyan": "#00ffff",
    "yellow": "#ffff00",
    "gray": "#ffffff",
    "grey": "#ffffff",
}
"""Table of colours -> the colour of its end."""
_NANO = 1e-9
_SETTINGS = frozenset(
    [
        "Magnification",
        "ObjectiveName",
        "MicroscopeModel",
        "Immersion",
        "NumericalAperture",
        "StagePosX",
        "StagePosY",
        "ZPosition",
        "Pinhole",
        "PixelDwellTime",
        "FrameTime",
        "CompleteTime",
        "SystemSerialNumber",
        "Binning",
    ]
)
_MEASURED = re.compile(r"\s*([\d.eE+-]+)\s*([a-zµ]*)\s*")


def attrs_of(image: Element) -> dict[str, Any]:
    """Return what the XML says of an image, in its own words, and under `channels` of each channel."""
    hardware = next((one for one in image.findall("Attachment") if one.get("Name") == "HardwareSetting"), None)
    settings = (
        None if hardware is None else next((n for kind in _KINDS if (n := hardware.find(kind)) is not None), None)
    )
    found: dict[str, Any] = {
        "channels": [dict(one) for one in _channels(image, settings)],
        "notes": image.get("TextDescription", "").strip(),
        "time": _first_time(image),
        "hardware": leaves(hardware, "Software", "SystemTypeName", "DataSourceTypeName"),
        "settings": leaves(settings, *_SETTINGS),
    }
    if settings is not None:
        active = [one for one in settings.findall("DetectorList/Detector") if one.get("IsActive") == "1"]
        found["detector"] = ", ".join(dict.fromkeys(filter(None, (one.get("Name", "") for one in active))))
        gains = {one.get("Gain", "") for one in active}
        found["gain"] = gains.pop() if len(gains) == 1 else ""
        found["laser_nm"] = _lines(settings)
    exposures = {one.get("exposure_time") for one in found["channels"]}
    found["exposure_s"] = exposures.pop() if len(exposures) == 1 else None
    return {name: one for name, one in found.items() if one}


def _lines(settings: Element) -> list[float]:
    """Return the lines of lasers that were on, in nm."""
    found = []
    for node in settings.iter("LaserLineSetting"):
        line, power = real(node.get("LaserLine")), real(node.get("IntensityDev"))
        if line and power and node.get("IsLineChecked", "1") == "1":
            found.append(line)
    return list(dict.fromkeys(found))


def _channels(image: Element, settings: Element | None) -> list[Channel]:
    """Return what is said of each channel."""
    nodes = image.findall(CHANNELS)
    scaled = next((found for one in image.findall("Attachment") if (found := one.findall("ChannelScalingInfo"))), [])
    tables = [node.get("LUTName", "") for node in nodes]
    dyes = _dyes(settings, tables)
    cameras = [] if settings is None else settings.findall(".//WideFieldChannelInfo")
    cameras = cameras if len(cameras) == len(nodes) else []
    made = []
    for k, (node, table) in enumerate(zip(nodes, tables, strict=True)):
        one = Channel()
        properties = {part.findtext("Key"): part.findtext("Value") for part in node.findall("ChannelProperty")}
        if name := properties.get("DyeName") or (dyes[k] if dyes else "") or table:
            one["name"] = name
        if (colour := _NAMED.get(table.lower())) is not None:
            one["colour"] = colour
        if len(scaled) == len(nodes) and (window := _window(scaled[k], node)):
            one["window"] = window
        if cameras and (exposure := _seconds(cameras[k].get("ExposureTime"))):
            one["exposure_time"] = exposure
        if cameras and (emission := real(cameras[k].get("EmissionWavelength"), _NANO)):
            one["emission"] = emission
        made.append(one)
    return made


def _dyes(settings: Element | None, tables: Sequence[str]) -> list[str]:
    """Return the dyes of the detectors that were on; none if these are not drawn as the channels are."""
    if settings is None:
        return []
    active = [one.get("Channel") for one in settings.findall("DetectorList/Detector") if one.get("IsActive") == "1"]
    drawn = {one.get("Channel"): one.get("LutName") for one in settings.findall("LUT_List/LUT")}
    named = {one.get("Channel"): one.get("DyeName", "") for one in settings.findall("Spectro/MultiBand")}
    return [named.get(one, "") for one in active] if [drawn.get(one) for one in active] == [*tables] else []


def _window(scaling: Element, channel: Element) -> tuple[float, float] | None:
    """Return the numbers that are drawn black and full; None where that is all that pixels can hold."""
    black, white, bits = real(scaling.get("BlackValue")), real(scaling.get("WhiteValue")), channel.get("Resolution", "")
    if black is None or white is None or (black, white) == (0, 1) or not bits.isdecimal() or not 0 < int(bits) <= 32:
        return None
    full = (1 << int(bits)) - 1
    return (black * full, white * full) if channel.get("DataType", "0") == "0" and black < white else None


def _seconds(text: str | None) -> float | None:
    """Return an exposure in s: `0.05`, `50 ms`."""
    found = _MEASURED.fullmatch(text or "")
    one = None if found is None else factor(spelled(found[2]), "s") if found[2] else 1.0
    return None if found is None or one is None else real(found[1], one)


STAMPS = "TimeStampList"
"""Element of an image with the time of each plane."""


def stamps_of(image: Element) -> int:
    """Return how many times of planes the XML says it has."""
    node = image.find(STAMPS)
    said = "" if node is None else node.get("NumberOfTimeStamps", "")
    return int(said) if said.isdecimal() and len(said) < 10 else 0 if node is None else len(node)


def ticks_of(node: Element, most: int) -> list[int]:
    """Return the times in a list of time stamps, in 100 ns since 1601; none where they are more than `most`."""
    words = (node.text or "").split(None, most)[: most + 1]
    try:
        if words:
            return [int(word, 16) for word in words] if len(words) <= most else []
        halves = node.findall("TimeStamp")[:most]
        return [(int(one.get("HighInteger", 0)) << 32) + int(one.get("LowInteger", 0)) for one in halves]
    except ValueError:
        return []


def _first_time(image: Element) -> str:
    node = image.find(STAMPS)
    first = ticks_of(node, 1) if node is not None and len(node) else []
    if not first and node is not None and (word := (node.text or "").lstrip()[:17].partition(" ")[0]):
        first = [int(word, 16)] if re.fullmatch(r"[0-9a-fA-F]{1,16}", word) else []
    try:
        return (datetime(1601, 1, 1) + timedelta(microseconds=first[0] // 10)).isoformat() if first and first[0] else ""
    except OverflowError:
        return ""


TERMS = (
    Term("title", "name"),
    Term("notes", "notes"),
    Term("time", "time"),
    Term("duration", "settings:CompleteTime", zero=False),
    Term("microscope", "hardware:SystemTypeName"),
    Term("microscope", "settings:MicroscopeModel"),
    Term("serial_number", "settings:SystemSerialNumber"),
    Term("software", "hardware:Software"),
    Term("dwell_time", "settings:PixelDwellTime", zero=False),
    Term("exposure_time", "exposure_s"),
    Term("frame_time", "settings:FrameTime", zero=False),
    Term("stage.x", "settings:StagePosX"),
    Term("stage.y", "settings:StagePosY"),
    Term("stage.z", "settings:ZPosition"),
    Term("detector", "detector"),
    Term("binning", "settings:Binning", take=sides),
    Term("gain", "gain"),
    Term("objective.name", "settings:ObjectiveName"),
    Term("objective.magnification", "settings:Magnification", zero=False),
    Term("objective.na", "settings:NumericalAperture", zero=False),
    Term("objective.immersion", "settings:Immersion"),
    Term("pinhole", "settings:Pinhole", zero=False),
    Term("laser", "laser_nm", _NANO),
    Term("channels", "channels"),
)
"""Of what `attrs_of` finds."""
