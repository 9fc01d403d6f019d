"""What OME-XML says of an acquisition, in the vocabulary of `vfs.model.metadata`.

An image refers by ID to its instrument and experimenter; settings of channels refer to detectors and light sources. A
number has its unit beside it (`PinholeSizeUnit`), or that of the schema. A colour is a signed number of red, green,
blue and opacity. Each plane has a `Plane`, with its exposure, time and position: what all planes agree in is said of
the image.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any
from xml.etree.ElementTree import Element

from vfs.errors import FormatError
from vfs.formats.headers import leaves, parse_xml
from vfs.model.channels import real
from vfs.model.metadata import Term, sides
from vfs.model.units import factor, spelled

PER_PLANE = {
    "timestamp": ("DeltaT", "s"),
    "exposure_time": ("ExposureTime", "s"),
    "stage_x": ("PositionX", "um"),
    "stage_y": ("PositionY", "um"),
    "stage_z": ("PositionZ", "um"),
}
"""Name of a companion -> attribute of `Plane`, and the unit that it is given in."""
_UNITS = {"DeltaT": "s", "ExposureTime": "s", "PinholeSize": "µm", "Wavelength": "nm"}
"""Attribute -> its unit where none stands beside it. Others have none: positions are in a frame of reference."""
_MAX_PLANES = 10_000
"""Most planes that are compared; of more, nothing is said of the image by its planes."""
_MAX_CHANNELS = 1000


def root_of(text: str, path: str) -> Element:
    """Parse the text of a document.

    Raises:
        FormatError: it is not OME-XML.
    """
    # The declaration may name another encoding than UTF-8, in which the parser gets the text
    plain = re.sub(r"^\s*<\?xml[^>]*\?>", "", text.lstrip("\ufeff"), count=1)
    root = parse_xml(plain.encode("utf-8", "replace"), path)
    if local(root) != "OME":
        raise FormatError(f"{path}: expected OME-XML, found an XML document of <{local(root)}>")
    return root


def local(element: Element) -> str:
    """Return the name of an element without its namespace."""
    return str(element.tag).rpartition("}")[2]


def children(element: Element, *names: str) -> Iterator[Element]:
    """Yield the children of an element with these names."""
    return (child for child in element if local(child) in names)


def snake(name: str) -> str:
    """Return a name of the XML as attributes have it: `SamplesPerPixel` is `samples_per_pixel`."""
    return re.sub(r"(?<!^)(?<!_)(?=[A-Z][a-z])|(?<=[a-z])(?=[A-Z])", "_", name).lower()


def value(text: str) -> Any:
    """Return a number, or the text that is none."""
    try:
        return int(text) if re.fullmatch(r"-?[0-9]{1,18}", text) else float(text)
    except ValueError:
        return text


def attributes(element: Element) -> dict[str, Any]:
    """Return the attributes of an element."""
    return {snake(name): value(text) for name, text in element.attrib.items()}


def described(root: Element) -> Iterator[tuple[Element, Element]]:
    """Yield `Image` and `Pixels` of each image of a document."""
    return ((image, pixels) for image in children(root, "Image") for pixels in children(image, "Pixels"))


def _named(element: Element | None, *names: str) -> dict[str, Any]:
    return {snake(name): value(text) for name, text in leaves(element, *names).items()}


def quantity(element: Element | None, name: str, unit: str) -> float | None:
    """Return an attribute that has a unit, in another one; None if there is none, or it is no such quantity."""
    if element is None or (text := element.get(name)) is None:
        return None
    own = spelled(element.get(f"{name}Unit", _UNITS.get(name, "")))
    one = 1.0 if own == unit else factor(own, unit)
    return None if one is None else real(text, one)


def image_attrs(image: Element, pixels: Element) -> dict[str, Any]:
    """Return name, date, description, calibration and channels of an image, as attributes of its array have them."""
    attrs: dict[str, Any] = {}
    for name, text in (
        ("id", image.get("ID")),
        ("name", image.get("Name")),
        ("dimension_order", pixels.get("DimensionOrder")),
    ):
        if text:
            attrs[name] = text
    for key, names in (
        ("acquired", ("AcquisitionDate", "AcquiredDate", "CreationDate")),
        ("description", ("Description",)),
    ):
        text = next(((child.text or "").strip() for name in names for child in children(image, name)), "")
        if text:
            attrs[key] = text
    steps = {
        axis.lower(): (pixels.get(f"PhysicalSize{axis}"), pixels.get(f"PhysicalSize{axis}Unit", "µm")) for axis in "XYZ"
    }
    steps["t"] = (pixels.get("TimeIncrement"), pixels.get("TimeIncrementUnit", "s"))
    known = {axis: (value(size or ""), unit) for axis, (size, unit) in steps.items()}
    calibration = {
        axis: {"scale": float(step), "offset": 0.0, "unit": unit}
        for axis, (step, unit) in known.items()
        if isinstance(step, int | float) and 0 < step < 1e300
    }
    if calibration:
        attrs["calibration"] = calibration
    if pixels.get("SignificantBits"):
        attrs["significant_bits"] = value(pixels.get("SignificantBits", ""))
    if channels := [*islice(children(pixels, "Channel"), _MAX_CHANNELS)]:
        attrs["channels"] = [*map(attributes, channels)]
    return attrs


def attrs_of(root: Element, image: Element, pixels: Element) -> dict[str, Any]:
    """Return what the document says of an image besides its name and date, and under `channels` of each channel."""
    channels = list(islice(children(pixels, "Channel"), _MAX_CHANNELS))
    planes = list(islice(children(pixels, "Plane"), _MAX_PLANES + 1))
    planes = planes if len(planes) <= _MAX_PLANES else []
    exposures = _exposures(planes)
    instrument = _referred(root, image, "Instrument", "InstrumentRef")
    of_channels = {
        "detector": _part_of_all(instrument, channels, "DetectorSettings", "DetectorRef", kind="Detector"),
        "binning": _agreed([part.get("Binning") for one in channels for part in children(one, "DetectorSettings")]),
        "gain": _agreed([part.get("Gain") for one in channels for part in children(one, "DetectorSettings")]),
        "pinhole_m": _agreed([quantity(one, "PinholeSize", "m") for one in channels]),
        "laser_m": list(_lines(instrument, channels)),
    }
    found: dict[str, Any] = {
        "channels": [
            attributes(one) | ({"exposure_s": exposures[str(k)]} if str(k) in exposures else {})
            for k, one in enumerate(channels)
        ],
        "creator": root.get("Creator", ""),
        "experimenter": _named(_referred(root, image, "Experimenter", "ExperimenterRef")),
        "microscope": {} if instrument is None else _named(next(children(instrument, "Microscope"), None)),
        "objective": _named(_objective(instrument, image)),
        "all_planes": _said_of_all(planes),
        **of_channels,
    }
    return {name: one for name, one in found.items() if one}


def _referred(root: Element, image: Element, kind: str, reference: str) -> Element | None:
    """Return the element of the document that an image refers to; without a reference, the only one."""
    there = list(children(root, kind))
    named = next(children(image, reference), None)
    if named is None:
        return there[0] if len(there) == 1 else None
    return next((one for one in there if one.get("ID") == named.get("ID")), None)


def _objective(instrument: Element | None, image: Element) -> Element | None:
    there = [] if instrument is None else list(children(instrument, "Objective"))
    named = next(children(image, "ObjectiveSettings", "ObjectiveRef"), None)
    own = [one for one in there if named is not None and one.get("ID") == named.get("ID")]
    return own[0] if own else there[0] if len(there) == 1 and named is None else None


def _part_of_all(instrument: Element | None, channels: Sequence[Element], *names: str, kind: str) -> dict[str, Any]:
    """Return the part of the instrument that all channels refer to; {} where they refer to several."""
    there = [] if instrument is None else list(children(instrument, kind))
    named = {part.get("ID") for channel in channels for part in children(channel, *names)}
    own = [one for one in there if one.get("ID") in named] if named else there
    return _named(own[0]) if len(own) == 1 else {}


def _lines(instrument: Element | None, channels: Sequence[Element]) -> Iterator[float]:
    """Yield the wavelengths of the lasers that channels use, in m."""
    lasers = {} if instrument is None else {one.get("ID"): one for one in children(instrument, "Laser", "LightSource")}
    found = []
    for channel in channels:
        for part in children(channel, "LightSourceSettings", "LightSourceRef"):
            laser = lasers.get(part.get("ID"))
            if laser is not None and local(laser) != "Laser":
                laser = next(children(laser, "Laser"), None)  # as older schemas have it
            if laser is not None and (line := quantity(part, "Wavelength", "m") or quantity(laser, "Wavelength", "m")):
                found.append(line)
    yield from dict.fromkeys(found)


def _agreed(said: Sequence[Any]) -> Any:
    """Return what all that are said agree in; None if they differ."""
    there = {one for one in said if one is not None}
    return there.pop() if len(there) == 1 else None


def _exposures(planes: Sequence[Element]) -> dict[str | None, float]:
    """Return the exposure of each channel, by its number as text, of which all planes have the same one, in s."""
    found: dict[str | None, set[float | None]] = {}
    for plane in planes:
        found.setdefault(plane.get("TheC"), set()).add(quantity(plane, "ExposureTime", "s"))
    return {number: own for number, some in found.items() if (own := _agreed([*some]))}


def _said_of_all(planes: Sequence[Element]) -> dict[str, float]:
    """Return the exposure and the position that all planes have, in s and m."""
    found = {"exposure_s": _agreed([quantity(one, "ExposureTime", "s") for one in planes])}
    found |= {
        f"position_{dim.lower()}_m": _agreed([quantity(one, f"Position{dim}", "m") for one in planes]) for dim in "XYZ"
    }
    return {name: number for name, number in found.items() if number is not None}


def _channels(entries: Any) -> list[dict[str, Any]] | None:
    """Return the entries of the attribute `channels` in the keys of `vfs.model.channels.Channel`."""
    if not isinstance(entries, list):
        return None
    return [_read(entry) if isinstance(entry, Mapping) else {} for entry in entries]


def _read(entry: Mapping[str, Any]) -> dict[str, Any]:
    name, colour = entry.get("name"), entry.get("color")
    made: dict[str, Any] = {"name": None if name is None else str(name), "exposure_time": entry.get("exposure_s")}
    if isinstance(colour, int) and (drawn := (colour & 0xFFFFFFFF) >> 8):  # nobody sees a black one
        made["colour"] = f"#{drawn:06x}"
    for key in ("emission", "excitation"):
        unit = entry.get(f"{key}_wavelength_unit", "nm")
        one = factor(spelled(unit), "m") if isinstance(unit, str) else None
        made[key] = None if one is None else real(entry.get(f"{key}_wavelength"), one)
    return made


def _person(entry: Any) -> str | None:
    if not isinstance(entry, Mapping):
        return None
    names = [str(entry[name]) for name in ("first_name", "last_name") if entry.get(name)]
    return " ".join(names) or str(entry.get("user_name") or "") or None


def _text(entry: Any) -> str | None:
    return str(entry) if isinstance(entry, str | int | float) else None


TERMS = (
    Term("title", "name"),
    Term("notes", "description"),
    Term("authors", "experimenter", take=_person),
    Term("time", "acquired"),
    Term("microscope", "microscope:model", take=_text),
    Term("manufacturer", "microscope:manufacturer", take=_text),
    Term("serial_number", "microscope:serial_number", take=_text),
    Term("software", "creator"),
    Term("exposure_time", "all_planes:exposure_s", zero=False),
    Term("stage.x", "all_planes:position_x_m"),
    Term("stage.y", "all_planes:position_y_m"),
    Term("stage.z", "all_planes:position_z_m"),
    Term("detector", "detector:model", take=_text),
    Term("detector", "detector:name", take=_text),
    Term("binning", "binning", take=sides),
    Term("gain", "gain"),
    Term("objective.name", "objective:model", take=_text),
    Term("objective.magnification", "objective:nominal_magnification", zero=False),
    Term("objective.na", "objective:lens_na", zero=False),
    Term("objective.immersion", "objective:immersion"),
    Term("pinhole", "pinhole_m", zero=False),
    Term("laser", "laser_m"),
    Term("channels", "channels", take=_channels),
)
"""Of what `attrs_of` finds, and of name, description and date of the image."""
