"""Writes OME-XML about the images of a set, which readers of OME-Zarr look for beside them (`OME/METADATA.ome.xml`).

https://docs.openmicroscopy.org/ome-model/latest/ome-xml/. It has sizes, steps and names, and what the files say of
instrument, objective, detector, channels, stage, time and exposure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from vfs.faces.images import ShownImage
from vfs.model.metadata import Said
from vfs.model.units import factor

_TYPES = {"b1": "bit", "f2": "float", "f4": "float", "f8": "double", "i8": "double", "u8": "double"}
"""Pixel types of OME where numpy has another name, and the nearest where OME has none (64-bit integers)."""
_AXES = {"z": "Z", "c": "C", "y": "Y", "x": "X"}
_IMMERSIONS = {"oil": "Oil", "wat": "Water", "air": "Air", "dry": "Air", "gly": "Glycerol", "mul": "Multi"}
"""How words begin that programs have for an immersion -> the word of OME."""
_NANO, _MICRO = 1e-9, 1e-6


def ome_xml(images: Sequence[ShownImage]) -> bytes:
    """Return a document about images in their order. What is no axis of OME (a scan, frames) counts as time."""
    root = Element("OME", xmlns="http://www.openmicroscopy.org/Schemas/OME/2016-06")
    recorded = [image.source.dataset.recorded for image in images]
    for k, said in enumerate(recorded):
        if "authors" in said:
            SubElement(root, "Experimenter", ID=f"Experimenter:{k}", UserName=_text(said["authors"].value))
    for k, said in enumerate(recorded):
        _instrument(root, k, said)
    for k, (image, said) in enumerate(zip(images, recorded, strict=True)):
        _image(root, k, image, said)
    made: bytes = ElementTree.tostring(root, encoding="ascii")
    return made


def _text(value: Any) -> str:
    """Return a text without what XML cannot hold."""
    return "".join(one if one.isprintable() or one in "\t\n" else " " for one in str(value))


def _given(said: Mapping[str, Said], names: Mapping[str, str], by: float = 1.0) -> dict[str, str]:
    """Return attributes of an element: name of OME -> what is said by the name of the vocabulary, where it is."""
    found = {own: said[name].value for own, name in names.items() if name in said}
    return {own: _text(one) if isinstance(one, str) else repr(float(one) / by) for own, one in found.items()}


def _objective(said: Mapping[str, Said]) -> dict[str, str]:
    immersion = str(said["objective.immersion"].value).lower()[:3] if "objective.immersion" in said else ""
    names = {"Model": "objective.name", "NominalMagnification": "objective.magnification", "LensNA": "objective.na"}
    return _given(said, names) | ({"Immersion": _IMMERSIONS.get(immersion, "Other")} if immersion else {})


def _instrument(root: Element, k: int, said: Mapping[str, Said]) -> None:
    """Add the instrument of an image, if anything is said of it."""
    names = {"Model": "microscope", "Manufacturer": "manufacturer", "SerialNumber": "serial_number"}
    microscope, objective, detector = _given(said, names), _objective(said), _given(said, {"Model": "detector"})
    if not (microscope or objective or detector):
        return
    made = SubElement(root, "Instrument", ID=f"Instrument:{k}")
    if microscope:
        SubElement(made, "Microscope", microscope)
    if detector:
        SubElement(made, "Detector", {"ID": f"Detector:{k}:0", **detector})
    if objective:
        SubElement(made, "Objective", {"ID": f"Objective:{k}:0", **objective})


def _image(root: Element, k: int, image: ShownImage, said: Mapping[str, Said]) -> None:
    shown = SubElement(root, "Image", ID=f"Image:{k}", Name=_text(image.name))
    if "T" in (time := said["time"].value if "time" in said else ""):
        SubElement(shown, "AcquisitionDate").text = time
    if "authors" in said:
        SubElement(shown, "ExperimenterRef", ID=f"Experimenter:{k}")
    if "notes" in said:
        SubElement(shown, "Description").text = _text(said["notes"].value)
    if (instrument := root.find(f"Instrument[@ID='Instrument:{k}']")) is not None:
        SubElement(shown, "InstrumentRef", ID=f"Instrument:{k}")
        if instrument.find("Objective") is not None:
            SubElement(shown, "ObjectiveSettings", ID=f"Objective:{k}:0")
    place = _given(said, {axis: f"stage.{axis.lower()}" for axis in "XYZ"}, _MICRO)
    if place or image.position:
        units = {f"{axis}Unit": "µm" for axis in place}
        SubElement(shown, "StageLabel", {"Name": _text(image.position) or "stage", **place, **units})
    finest = image.levels[0]
    sizes = dict.fromkeys("XYZCT", 1)
    for name, n in zip(image.dims, finest.shape, strict=True):
        sizes[_AXES.get(name, "T")] *= n
    kind = _TYPES.get(finest.dtype.str[1:], finest.dtype.name)
    about = {"ID": f"Pixels:{k}", "DimensionOrder": "XYZCT", "Type": kind, **_steps(image)}
    pixels = SubElement(shown, "Pixels", about | {f"Size{axis}": str(n) for axis, n in sizes.items()})
    _channels(pixels, k, image, said, sizes["C"])


def _steps(image: ShownImage) -> dict[str, str]:
    """Return the steps of axes: lengths in µm, times in s."""
    made: dict[str, str] = {}
    for name, group in zip(image.dims, image.how.axes, strict=True):
        known = image.source.calibration.get(image.source.dims[group[0]], {}) if len(group) == 1 else {}
        unit, own = ("s", "TimeIncrement") if name == "t" else ("um", f"PhysicalSize{name.upper()}")
        by = factor(known.get("unit") or "", unit) if known.get("scale") else None
        if name in ("t", "z", "y", "x") and by is not None:
            made |= {own: repr(abs(known["scale"]) * by), f"{own}Unit": "s" if unit == "s" else "µm"}
    return made


def _channels(pixels: Element, k: int, image: ShownImage, said: Mapping[str, Said], count: int) -> None:
    """Add the channels of an image, and a plane of each whose exposure is known."""
    found = image.source.dataset.channels
    told: Sequence[Mapping[str, Any]] = found if len(found) == count else [{}] * count
    pinhole = _given(said, {"PinholeSize": "pinhole"}, _MICRO)
    for n, one in enumerate(told):
        about = {"ID": f"Channel:{k}:{n}", "SamplesPerPixel": "1", **pinhole}
        about |= {"Name": _text(one["name"])} if "name" in one else {}
        if "colour" in one:  # red, green, blue and opacity as an integer with a sign
            value = (int(one["colour"][1:], 16) << 8) + 255
            about["Color"] = str(value - (1 << 32) if value >= 1 << 31 else value)
        for name, key in (("EmissionWavelength", "emission"), ("ExcitationWavelength", "excitation")):
            about |= {name: repr(one[key] / _NANO)} if key in one else {}
        SubElement(pixels, "Channel", about)
    SubElement(pixels, "MetadataOnly")
    usual = said["exposure_time"].value if "exposure_time" in said else None
    for n, one in enumerate(told):
        if exposure := one.get("exposure_time", usual):
            place = {"TheZ": "0", "TheT": "0", "TheC": str(n)}
            SubElement(pixels, "Plane", {**place, "ExposureTime": repr(float(exposure)), "ExposureTimeUnit": "s"})
