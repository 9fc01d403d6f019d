"""Says how HyperSpy has an array of a set: its axes, the type of its signal, its metadata."""

from __future__ import annotations

import re
from collections.abc import Mapping, Set
from typing import Any, NamedTuple

import numpy as np

from vfs.engine.array import ArrayReader
from vfs.faces.documents import plain_json
from vfs.model.colours import coloured
from vfs.model.hyperspy_places import PLACES
from vfs.model.metadata import Said
from vfs.model.units import DIFFRACTION, ENERGIES, factor, readable, symbol
from vfs.sets.kinds import is_backscatter

VELOX = re.compile(r"Data/(Spectrum|Image|EelsSpectrumImage|SpectrumImage|SpectrumStream)/[^/]+/[^/]+", re.ASCII)
"""Paths of arrays in files of Velox that are signals."""
_SPECTRAL = ("energy", "wavelength")

_OF_PATTERNS = {"blo": "electron_diffraction", "empad": "electron_diffraction", "mib": "electron_diffraction"}
"""Formats of cameras whose frames are patterns, unless the file says otherwise -> type of their signals."""
_SPOKEN = {"x-ray": "EDS", "eds": "EDS", "edx": "EDS", "eels": "EELS", "cl": "CL"}
"""What programs call the signal of a spectrum."""
_NAMES = (
    ("tags", "Meta Data", "Signal"),  # DigitalMicrograph
    ("rpl", "signal"),
    ("metadata", "hardware_source", "signal_type"),  # Nion Swift
)
"""Where formats say that name, in their metadata."""

_BINNED = ("EELS", "EDS_TEM", "EDS_SEM")
"""Types of spectra whose channels are counts between two energies."""
_LIGHT = {"channels", "objective.name", "objective.magnification", "objective.na"}
"""What only light microscopes say."""

_PROGRAMS = ("m", "1/m", "cm", "1/cm", "s", "rad")
"""Units that programs write whatever the size; people say 3.6 nm, not 3.6e-9 m."""


class SignalAxes(NamedTuple):
    """The axes of a signal, by their numbers in the array.

    Attributes:
        nav, sig: navigation and signal axes, slowest first.
        colour: True if the last axis of the array, which is in neither, holds colours.
        spectral: True if the signal axis is one of spectra.
    """

    nav: tuple[int, ...]
    sig: tuple[int, ...]
    colour: bool
    spectral: bool


def axes_of(array: ArrayReader) -> SignalAxes:
    """Return which axes of an array are those of a signal.

    An axis of spectra is the only signal axis. Of images with further axes behind y and x, such as the frames of
    Velox, those navigate.
    """
    dims, nav = array.dims, array.dataset.nav_ndim
    colour = array.ndim > 1 and array.dtype in ("u1", "u2") and coloured(dims[-1], array.shape[-1], array.attrs)
    axes = range(array.ndim - colour)
    units = [array.calibration.get(dim, {}).get("unit") for dim in dims]
    spectral = [k for k in axes if units[k] in ENERGIES or dims[k] in _SPECTRAL]
    if len(spectral) == 1:
        sig = (*spectral,)
    elif "y" in dims and "x" in dims and array.ndim - colour > 2 and nav == 0:
        sig = (dims.index("y"), dims.index("x"))
    else:
        nav = nav if nav < array.ndim else max(0, array.ndim - 2)
        return SignalAxes(tuple(axes[:nav]), tuple(axes[nav:]), colour, False)
    others = [k for k in axes if k not in sig]
    if [dims[k] for k in others] == ["x", "y"]:
        others.reverse()
    return SignalAxes(tuple(others), sig, colour, bool(spectral))


def signal_type(array: ArrayReader, format: str, axes: SignalAxes) -> str:
    """Return the `signal_type` of an array, as HyperSpy, exspy, pyxem and kikuchipy name it; "" if no file says it."""
    dataset = array.dataset
    given = _at(array.attrs, ("metadata", "Signal", "signal_type"))  # HyperSpy wrote the file
    if given:
        return given
    if axes.spectral:
        velox = VELOX.fullmatch(dataset.path)
        named = next(filter(None, (_at(array.attrs, path) for path in _NAMES)), "")
        kind = _SPOKEN.get(named.casefold(), "")
        if velox and "metadata" in array.attrs:
            kind = "EELS" if velox[1].startswith("Eels") else "EDS"
        elif format == "spd":
            return "EDS_SEM"
        instrument = dataset.recorded.get("instrument")
        return f"EDS_{'SEM' if instrument and instrument.value == 'SEM' else 'TEM'}" if kind == "EDS" else kind
    if len(axes.sig) != 2 or axes.colour:
        return ""
    if is_backscatter(format, dataset):
        return "EBSD"
    units = [array.calibration.get(array.dims[k], {}).get("unit") for k in axes.sig]
    mode = dataset.recorded.get("mode")
    measured = array.dtype.kind != "c"  # and is no Fourier transform
    scanned = bool(axes.nav) and all(unit in DIFFRACTION for unit in units)
    if measured and (scanned or (mode and mode.value == "diffraction")):
        return "electron_diffraction"
    return _OF_PATTERNS.get(format, "")


def _at(attrs: Any, path: tuple[str, ...]) -> str:
    """Return the text at a place of metadata; "" if there is none."""
    for name in path:
        attrs = attrs.get(name) if isinstance(attrs, Mapping) else None
    return attrs.strip() if isinstance(attrs, str) else ""


def metadata_of(
    general: Mapping[str, str], kind: str, recorded: Mapping[str, Said], attrs: Mapping[str, Any]
) -> dict[str, Any]:
    """Return HyperSpy's metadata: what the files say, in its places and units; what it wrote itself as it is."""
    root, said = attrs.get("root"), attrs.get("metadata")
    places = [one.source.removeprefix("metadata:").replace(":", ".") for one in recorded.values()]
    own = isinstance(root, Mapping) and root.get("file_format") == "HyperSpy" and isinstance(said, Mapping)
    made: dict[str, Any] = plain_json(_of_hyperspy(said, {*places})) if own and isinstance(said, Mapping) else {}
    for group in ("General", "Signal"):
        made[group] = dict(made[group]) if isinstance(made.get(group), dict) else {}
    made["Signal"]["signal_type"] = kind
    sem = "instrument" in recorded and recorded["instrument"].value == "SEM"
    light = _LIGHT & recorded.keys() and "beam_energy" not in recorded  # HyperSpy has no places for it
    for name, one in recorded.items():
        theirs = PLACES.get(name, ())
        if not theirs or (name == "instrument" and one.value not in ("TEM", "STEM")):
            continue
        place, factor = theirs[-1] if (":SEM:" in one.source if own else sem) else theirs[0]
        if light and place.startswith("Acquisition_instrument."):
            continue
        *groups, field = place.split(".")
        value = one.value if factor == 1 or isinstance(one.value, str) else one.value * factor
        inside = made
        for group in groups:
            if not isinstance(inside.get(group), dict):
                inside[group] = {}
            inside = inside[group]
        inside[field] = value.split() if name == "elements" else value
    if "time" in recorded:
        date, _, clock = recorded["time"].value.partition("T")
        zone = re.search(r"Z$|[+-]\d\d:?\d\d$", clock)
        clock = clock[: zone.start()] if zone else clock
        made["General"] |= {"date": date} | ({"time": clock} if clock else {})
        if zone:
            made["General"]["time_zone"] = "UTC" if zone[0] in ("Z", "+00:00") else zone[0]
    made["General"] |= general
    return made


def _of_hyperspy(attrs: Mapping[str, Any], places: Set[str], above: str = "") -> dict[str, Any]:
    """Return the metadata that HyperSpy wrote into a file, but for places that are said in the vocabulary, and what
    begins with "_": how it stores lists and the like.
    """
    made: dict[str, Any] = {}
    for name, value in attrs.items():
        place = f"{above}{name}"
        if name.startswith("_") or (place in places and not isinstance(value, Mapping)):
            continue
        inner = _of_hyperspy(value, places, f"{place}.") if isinstance(value, Mapping) else value
        if inner != {}:
            made[name] = inner
    return made


def axis_of(array: ArrayReader, axis: int, kind: str, arrays: Mapping[str, Any]) -> dict[str, Any]:
    """Describe an axis: with a step, or with all positions where the steps are uneven."""
    dim, size = array.dims[axis], array.shape[axis]
    known = array.calibration.get(dim, {"scale": None, "offset": None, "unit": ""})
    if known["scale"] is None and "values" in known:
        positions = np.asarray(arrays[known["values"]][...])
        return {"_type": "DataAxis", "name": dim, "axis": positions, "units": symbol(known["unit"])}
    scale, offset = 1.0 if known["scale"] is None else known["scale"], known["offset"] or 0.0
    by, unit = _unit(known["unit"], abs(scale) * size, kind)
    made = {
        "_type": "UniformDataAxis",
        "name": dim,
        "size": size,
        "scale": scale * by,
        "offset": offset * by,
        "units": symbol(unit),
    }
    return made | ({"is_binned": True} if kind in _BINNED and known["unit"] in ENERGIES else {})


def _unit(unit: str, extent: float, kind: str) -> tuple[float, str]:
    """Choose the unit that people use for an axis. Returns what to multiply numbers by, and the unit then.

    Energies of X-rays are in keV, of electrons in eV. Other units stay as the file has them, but for those that
    programs write whatever the size.

    Args:
        extent: length of the axis, in `unit`.
    """
    if unit in ENERGIES and kind in _BINNED:
        wanted = "eV" if kind == "EELS" else "keV"
        return factor(unit, wanted) or 1.0, wanted
    return readable(extent, unit) if unit in _PROGRAMS and not 0.01 <= extent < 1000 else (1.0, unit)
