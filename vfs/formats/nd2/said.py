"""What the metadata of NIS-Elements say, in the vocabulary of `vfs.model.metadata`.

The facts come from the reader in nd2 (https://github.com/tlambert03/nd2). Numbers that nobody knows are -1. Lengths are
in µm, wavelengths in nm, exposures in ms; the time is a Julian day, which counts from noon, universal time. The lowest
byte of a colour is red. Excitation and emission of a channel are the peak of its dye, else of its filter, which has a
point for the laser line of each channel.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from vfs.formats.nd2.variants import Tree, values
from vfs.model.channels import Channel, real
from vfs.model.metadata import Term, of_epoch

_NANO, _MICRO, _MILLI = 1e-9, 1e-6, 1e-3
_EPOCH = 2440587.5  # the Julian day at which 1970 began
_DAY = 86400
_LINE = 4  # type of a point of a spectrum: a line of a laser
_TEXTS = {4: "author", 9: "date", 10: "conclusion"}
"""Number of `TextInfoItem_N` -> what it is."""
_NAMES = ("blue", "green", "red", "opacity")
_MAX_CHARACTERS = 1 << 14  # characters of a text


def planes_of(metadata: Tree) -> list[Tree]:
    """Return what the metadata say of each channel."""
    planes = metadata.get("sPicturePlanes")
    some = planes.get("sPlaneNew", planes.get("sPlane")) if isinstance(planes, dict) else None
    return [one for one in values(some) if isinstance(one, dict)]


def channels_of(metadata: Tree, counts: Sequence[int], colours: int) -> list[dict[str, Any]]:
    """Return what is said of each channel.

    Args:
        counts: numbers that a pixel has of each.
        colours: those of a pixel that are along an axis of their own; 1: a channel with several is as many channels.
    """
    found: list[dict[str, Any]] = []
    samples = _samples(metadata)
    for k, (plane, count) in enumerate(zip(planes_of(metadata), counts, strict=False)):
        number = plane.get("uiSampleIndex", k)
        sample = samples[number] if isinstance(number, int) and 0 <= number < len(samples) else {}
        channel = _channel(plane, sample, k)
        if count > 1 and colours == 1:
            drawn = ("#0000ff", "#00ff00", "#ff0000", "")
            parts = zip(_NAMES[:count], drawn, strict=False)
            found += [
                {**channel, "name": f"{channel.get('name', '')} {part}".strip(), "colour": c} for part, c in parts
            ]
        else:
            found.append(dict(channel))
    return found


def _samples(metadata: Tree) -> list[Tree]:
    """Return the settings of cameras and devices that channels refer to."""
    planes = metadata.get("sPicturePlanes")
    some = values(planes.get("sSampleSetting")) if isinstance(planes, dict) else []
    return [one if isinstance(one, dict) else {} for one in some]


def _channel(plane: Tree, sample: Tree, number: int) -> Channel:
    made = Channel()
    if isinstance(name := plane.get("sDescription"), str) and name:
        made["name"] = name
    colour = plane.get("uiColor")
    if isinstance(colour, int) and colour > 0:
        made["colour"] = f"#{(colour & 0xFFFFFF).to_bytes(3, 'little').hex()}"
    for key, spectrum in (("excitation", "m_ExcitationSpectrum"), ("emission", "m_EmissionSpectrum")):
        parts = [plane.get("pFluorescentProbe"), *_filters(plane)[:1]]
        peaks = [_peak(part.get(spectrum), number) for part in parts if isinstance(part, dict)]
        if (peak := next(filter(None, peaks), None)) is not None:
            made[key] = peak  # type: ignore[literal-required]
    exposure = real(sample.get("dExposureTime"), _MILLI)
    if exposure is not None and exposure > 0:
        made["exposure_time"] = exposure
    return made


def _filters(plane: Tree) -> list[Any]:
    path = plane.get("pFilterPath")
    return values(path.get("m_pFilter")) if isinstance(path, dict) else []


def _peak(spectrum: Any, number: int) -> float | None:
    """Return the wavelength of the highest point of a spectrum, or of the laser's line of a channel, in m."""
    points = values(spectrum.get("pPoint")) if isinstance(spectrum, dict) else []
    points = [one for one in points if isinstance(one, dict) and real(one.get("dWavelength"))]
    if not points:
        return None
    lines = len(points) > 1 and all(one.get("eType") == _LINE for one in points)
    if lines and number < len(points):
        return real(points[number].get("dWavelength"), _NANO)
    highest = max(points, key=lambda one: real(one.get("dTValue")) or 0.0)
    return real(highest.get("dWavelength"), _NANO)


def attrs_of(metadata: Tree, texts: Tree, program: Tree, loops: Sequence[str]) -> dict[str, Any]:
    """Return what the metadata say besides channels, in their own words.

    Args:
        metadata: `SLxPictureMetadata`, of the first frame.
        texts: `SLxImageTextInfo`.
        program: `AppInfo_V1_0`.
        loops: names of the axes of frames, along which the stage may have moved.
    """
    moved = {
        dim for dim, loop in (("X", "position"), ("Y", "position"), ("Z", "position"), ("Z", "z")) if loop in loops
    }
    found: dict[str, Any] = {
        "picture": {name: value for name, value in metadata.items() if isinstance(value, int | float | str)},
        "stage": {dim: metadata.get(f"d{dim}Pos") for dim in "XYZ" if dim not in moved and f"d{dim}Pos" in metadata},
        "samples": dict(enumerate(_settings(_samples(metadata)))),
        "planes": {k: {"dPinholeDiameter": one.get("dPinholeDiameter")} for k, one in enumerate(planes_of(metadata))},
        "texts": {name: text[:_MAX_CHARACTERS] for name, text in _texts(texts)},
        "program": {name: text for name, text in program.items() if isinstance(text, str) and text},
    }
    return {name: {str(key): one for key, one in value.items()} for name, value in found.items() if value}


def _settings(samples: Sequence[Tree]) -> Iterator[dict[str, Any]]:
    for sample in samples:
        camera, devices = sample.get("pCameraSetting"), sample.get("pDeviceSetting")
        camera, devices = (one if isinstance(one, dict) else {} for one in (camera, devices))
        form = camera.get("FormatQuality")
        about = form.get("fmtDesc") if isinstance(form, dict) else None
        sides = [about.get(name) for name in ("dBinningX", "dBinningY")] if isinstance(about, dict) else []
        said = {
            "dExposureTime": sample.get("dExposureTime"),
            "CameraUserName": camera.get("CameraUserName"),
            "m_sMicroscopePhysFullName": devices.get("m_sMicroscopePhysFullName"),
            "m_sMicroscopeFullName": devices.get("m_sMicroscopeFullName"),
            "binning": sides if all(isinstance(one, int | float) and one > 0 for one in sides) else None,
        }
        yield {name: value for name, value in said.items() if value}


def _texts(tree: Tree) -> Iterator[tuple[str, str]]:
    for number, name in _TEXTS.items():
        text = tree.get(f"TextInfoItem_{number}")
        if isinstance(text, str) and text.strip():
            yield name, text.strip()


def _julian(entry: Any) -> str | None:
    day = real(entry)
    found = of_epoch(round((day - _EPOCH) * _DAY, 3)) if day is not None and day > _EPOCH else None
    return found if found is None or "." not in found else found.replace("000+", "+")


def _positive(entry: Any) -> Any:
    number = real(entry)
    return entry if number is not None and number > 0 else None


def _version(entry: Any) -> str | None:
    """Return name and version of the program."""
    if not isinstance(entry, Mapping):
        return None
    said = [str(entry.get(name, "")) for name in ("m_SWNameString", "m_VersionString")]
    return " ".join(filter(None, said)) or None


TERMS = (
    Term("notes", "texts:conclusion"),
    Term("authors", "texts:author"),
    Term("time", "picture:dTimeAbsolute", take=_julian),
    Term("microscope", "samples:*:m_sMicroscopePhysFullName"),
    Term("microscope", "samples:*:m_sMicroscopeFullName"),
    Term("software", "program", take=_version),
    Term("exposure_time", "samples:*:dExposureTime", _MILLI, zero=False),
    Term("stage.x", "stage:X", _MICRO),
    Term("stage.y", "stage:Y", _MICRO),
    Term("stage.z", "stage:Z", _MICRO),
    Term("detector", "samples:*:CameraUserName"),
    Term("binning", "samples:*:binning"),
    Term("objective.name", "picture:wsObjectiveName"),
    Term("objective.magnification", "picture:dObjectiveMag", take=_positive),
    Term("objective.na", "picture:dObjectiveNA", take=_positive),
    Term("pinhole", "planes:*:dPinholeDiameter", _MICRO, take=_positive),
    Term("channels", "channels"),
)
"""Of what `attrs_of` and `channels_of` find. The stage is where it was for all frames."""
