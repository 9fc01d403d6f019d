"""What the XML of a CZI file says, in the vocabulary of `vfs.model.metadata`.

Under `Information`, channels refer by Id to detectors and light sources, the image to its objective and microscope.
Wavelengths are in nm, exposures in ns, diameters of pinholes and positions of the stage in µm. `DisplaySetting` has how
ZEN draws each channel: a colour (#AARRGGBB), and the window as parts of all numbers that a pixel can hold.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from xml.etree.ElementTree import Element

import numpy as np

from vfs.formats.headers import leaves
from vfs.model.channels import Channel, real
from vfs.model.metadata import Term, Told, sides

_HEX = re.compile(r"#?(?:[0-9a-fA-F]{2})?([0-9a-fA-F]{6})")
_NANO, _MICRO = 1e-9, 1e-6


def attrs_of(root: Element | None) -> dict[str, Any]:
    """Return what the XML says of the acquisition, in its own words, and under `channels` of each channel."""
    if root is None:
        return {}
    found = {
        "channels": [dict(one) for one in _channels(root)],
        "document": leaves(root.find(".//Information/Document")),
        "user": leaves(root.find(".//Information/User"), "DisplayName"),
        "application": leaves(root.find(".//Information/Application")),
        "acquired": _text(root.find(".//Information/Image/AcquisitionDateAndTime")),
        "started": _text(root.find(".//Information/Image/Dimensions/T/StartTime")),
        "microscope": _referred(root, "MicroscopeRef", "Microscopes/Microscope"),
        "objective": _referred(root, "ObjectiveSettings/ObjectiveRef", "Objectives/Objective"),
        "scenes": dict(_scenes(root)),
        **_settings(root),
    }
    return {name: one for name, one in found.items() if one}


def of_array(told: Told, channels: Sequence[int], scene: int, dtype: np.dtype) -> dict[str, Any]:
    """Return what is said of an array.

    Args:
        told: what `attrs_of` finds.
        channels: numbers of its channels.
        scene: number of its scene.
        dtype: of its elements, of which the largest is 1 in windows; of real numbers nobody knows which is.
    """
    found = dict(told())
    scenes, said = found.pop("scenes", {}), found.get("channels", [])
    own = [said[k] for k in channels] if channels[0] >= 0 and channels[-1] < len(said) else said
    full = np.iinfo(dtype).max if dtype.kind == "u" else 0
    for k, entry in enumerate(own):
        window = [edge * full for edge in entry.get("window", ())]
        own[k] = {name: one for name, one in {**entry, "window": window}.items() if one}
    return found | {"channels": own, "stage_um": scenes.get(scene, {})}


def _scenes(root: Element) -> Iterator[tuple[int, dict[str, float]]]:
    """Yield the number of each scene, and where its centre is on the stage, in µm."""
    for node in root.findall(".//Information/Image/Dimensions/S/Scenes/Scene"):
        numbers = [real(part) for part in _text(node.find("CenterPosition")).split(",")]
        number = node.get("Index", "")
        if number.isdecimal() and len(number) < 10 and len(numbers) == 2 and None not in numbers:
            yield int(number), {dim: n for dim, n in zip("xy", numbers, strict=True) if n is not None}


def scene_names(root: Element | None) -> dict[int, str]:
    """Return what scenes are called, by number: the well or region, and the position in it."""
    found = {}
    for node in () if root is None else root.findall(".//Information/Image/Dimensions/S/Scenes/Scene"):
        well, name, number = _text(node.find("ArrayName")), node.get("Name", "").strip(), node.get("Index", "")
        if (well or name) and number.isdecimal() and len(number) < 10:
            found[int(number)] = " ".join(dict.fromkeys(filter(None, (well, name))))
    return found


def _text(node: Element | None) -> str:
    return "" if node is None else (node.text or "").strip()


def _referred(root: Element, reference: str, place: str) -> dict[str, str]:
    """Return what is said of the part of the instrument to which the image refers, or of the only one."""
    nodes = root.findall(f".//Information/Instrument/{place}")
    named = root.find(f".//Information/Image/{reference}")
    own = [node for node in nodes if named is not None and node.get("Id") == named.get("Id")]
    node = own[0] if own else nodes[0] if len(nodes) == 1 else None
    model = "" if node is None else _text(node.find("Manufacturer/Model"))
    return {**leaves(node), **({"Model": model} if model else {})}


def _channels(root: Element) -> Iterator[Channel]:
    """Yield what is said of each channel."""
    nodes = root.findall(".//Information/Image/Dimensions/Channels/Channel")
    shown = root.findall(".//DisplaySetting/Channels/Channel")
    by_id = {node.get("Id"): node for node in shown}
    for k, node in enumerate(nodes or shown):
        drawn = by_id.get(node.get("Id"))
        drawn = shown[k] if drawn is None and k < len(shown) else drawn
        yield _channel(leaves(node), leaves(drawn))


def _channel(said: Mapping[str, str], drawn: Mapping[str, str]) -> Channel:
    made = Channel()
    if name := said.get("Name") or drawn.get("Name"):
        made["name"] = name
    if colour := _HEX.fullmatch(drawn.get("Color", "")) or _HEX.fullmatch(said.get("Color", "")):
        made["colour"] = f"#{colour[1].lower()}"
    low, high = real(drawn.get("Low", 0)), real(drawn.get("High", 1))
    if ("Low" in drawn or "High" in drawn) and low is not None and high is not None and (low, high) != (0, 1):
        made["window"] = (low, high)
    for key, name in (("emission", "EmissionWavelength"), ("excitation", "ExcitationWavelength")):
        if number := real(said.get(name), _NANO):
            made[key] = number  # type: ignore[literal-required]
    if exposure := real(said.get("ExposureTime"), _NANO):
        made["exposure_time"] = exposure
    return made


def _settings(root: Element) -> dict[str, Any]:
    """Return settings of channels in which all that say them agree, and the lines of lasers."""
    channels = root.findall(".//Information/Image/Dimensions/Channels/Channel")
    detectors = {node.get("Id"): node for node in root.findall(".//Information/Instrument/Detectors/Detector")}
    found: dict[str, Any] = {
        name: _agreed([_text(node.find(path)) for node in channels])
        for name, path in (
            ("exposure_ns", "ExposureTime"),
            ("binning", "DetectorSettings/Binning"),
            ("gain", "DetectorSettings/Gain"),
            ("pinhole_um", "PinholeSize"),
            ("pixel_time_s", "LaserScanInfo/PixelTime"),
            ("frame_time_s", "LaserScanInfo/FrameTime"),
        )
    }
    used = [node.find("DetectorSettings/Detector") for node in channels]
    seen = [detectors.get(node.get("Id")) for node in used if node is not None]
    models = [(_text(node.find("Manufacturer/Model")), node.get("Name", "")) for node in seen if node is not None]
    found["detector"] = _agreed([name or model for model, name in models])
    lines = [line for node in channels for line in _lines(root, node)]
    found["laser_nm"] = list(dict.fromkeys(lines))
    return found


def _agreed(texts: Sequence[str]) -> str:
    """Return the text of all that have one; "" if they differ."""
    said = {text for text in texts if text}
    return said.pop() if len(said) == 1 else ""


def _lines(root: Element, channel: Element) -> Iterator[float]:
    """Yield the wavelengths of the lasers that a channel uses, in nm."""
    scanned = _text(channel.find("AcquisitionMode")).startswith("Laser")
    for node in channel.iterfind("LightSourcesSettings/LightSourceSettings"):
        source = node.find("LightSource")
        name = None if source is None else source.get("Id")
        there = root.findall(".//Information/Instrument/LightSources/LightSource")
        kind = next((one.find("LightSourceType/Laser") for one in there if one.get("Id") == name), None)
        if (scanned or kind is not None) and (line := real(_text(node.find("Wavelength")))):
            yield line


def _version(application: Any) -> str | None:
    """Return name and version of a program."""
    if not isinstance(application, Mapping):
        return None
    said = [str(application.get(name, "")) for name in ("Name", "Version")]
    return " ".join(filter(None, said)) or None


def _time(entry: Any) -> str | None:
    return None if str(entry).startswith("0001-") else str(entry)  # nobody knows it


TERMS = (
    Term("title", "document:Title"),
    Term("title", "document:Name"),
    Term("notes", "document:Comment"),
    Term("notes", "document:Description"),
    Term("authors", "user:DisplayName"),
    Term("authors", "document:UserName"),
    Term("time", "acquired", take=_time),
    Term("time", "started", take=_time),
    Term("time", "document:CreationDate", take=_time),
    Term("microscope", "microscope:System"),
    Term("microscope", "microscope:Name"),
    Term("microscope", "microscope:Model"),
    Term("software", "application", take=_version),
    Term("dwell_time", "pixel_time_s", zero=False),
    Term("frame_time", "frame_time_s", zero=False),
    Term("exposure_time", "exposure_ns", _NANO, zero=False),
    Term("stage.x", "stage_um:x", _MICRO),
    Term("stage.y", "stage_um:y", _MICRO),
    Term("detector", "detector"),
    Term("binning", "binning", take=sides),
    Term("gain", "gain"),
    Term("objective.name", "objective:Model"),
    Term("objective.name", "objective:Name"),
    Term("objective.magnification", "objective:NominalMagnification", zero=False),
    Term("objective.na", "objective:LensNA", zero=False),
    Term("objective.immersion", "objective:Immersion"),
    Term("pinhole", "pinhole_um", _MICRO, zero=False),
    Term("laser", "laser_nm", _NANO),
    Term("channels", "channels"),
)
"""Of what `of_array` finds."""
