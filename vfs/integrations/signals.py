"""Says which arrays of a set HyperSpy takes for signals, in which order, of which type, and which axes are the scan."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from vfs import api
from vfs.model.colours import coloured
from vfs.model.units import DIFFRACTION, ENERGIES
from vfs.sets.kinds import is_backscatter

_VELOX = re.compile(r"Data/(Spectrum|Image|EelsSpectrumImage|SpectrumImage|SpectrumStream)/[^/]+/[^/]+", re.ASCII)
_VELOX_ORDER = ("Spectrum", "Image", "EelsSpectrumImage", "SpectrumImage", "SpectrumStream")
_SLICE = re.compile(r"4DSTEM_simulation/data/\w+/(\w+)_depth\d{4}/\w+", re.ASCII)
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


def signals(main: api.VirtualArray) -> list[api.VirtualArray]:
    """Return the arrays of a set that are signals: the main one first, or in Velox's files all in RosettaSciIO's order.

    That order is: spectra, images, maps of spectra, each as the file sorts them.
    """
    found = [main, *_beside(main)]
    kinds = [_VELOX.fullmatch(array._reader.dataset.path) for array in found]
    if not all(kinds) or main.group._opened.opening.options.first is not None:
        return found
    paths = [array._reader.dataset.path for array in found]
    places = [(_VELOX_ORDER.index(kind[1]), path) for kind, path in zip(kinds, paths, strict=True) if kind]
    return [found[k] for k in sorted(range(len(found)), key=places.__getitem__)]


def _beside(main: api.VirtualArray) -> Iterator[api.VirtualArray]:
    """Yield the arrays beside the main one that are signals.

    Companions, results, thumbnails, and what programs never show first are none. Of HDF5, which holds settings too,
    those are that its program shows first, or that have as many axes as the main array, or a calibrated one. An array
    with two names is one signal.
    """
    container = main.group._opened.opening.format == "hdf5"
    seen = {_stored(main)}
    for array in main.group.values():
        dataset = array._reader.dataset
        if dataset.companion or dataset.main is False or "level" in dataset.attrs or not (array.size and array.ndim):
            continue
        alike = array.ndim == main.ndim > 1
        known = any(one["scale"] is not None for one in array.calibration.values())
        if _stored(array) not in seen and (not container or dataset.main or alike or known):
            seen.add(_stored(array))
            yield array


def _stored(array: api.VirtualArray) -> tuple[int, int]:
    """Return what is the same for two names of one array: which objects say where it lies and how it decodes."""
    dataset = array._reader.dataset
    return id(dataset.layout), id(dataset.decoder)


def slices_of(array: api.VirtualArray) -> str:
    """Return the name of what an array is a slice of, as Prismatic writes one for each depth; "" of others."""
    slice = _SLICE.fullmatch(array._reader.dataset.path)
    return slice[1] if slice else ""


def axes_of(array: api.VirtualArray) -> SignalAxes:
    """Return which axes of an array are those of a signal.

    An axis of spectra is the only signal axis. Of images with further axes behind y and x, such as the frames of
    Velox, those navigate.
    """
    dims, nav = array.dims, array._reader.dataset.nav_ndim
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


def signal_type(array: api.VirtualArray, axes: SignalAxes) -> str:
    """Return the `signal_type` of an array, as HyperSpy, exspy, pyxem and kikuchipy name it; "" if no file says it."""
    dataset, format = array._reader.dataset, array.group._opened.opening.format
    given = _at(array.attrs, ("metadata", "Signal", "signal_type"))  # HyperSpy wrote the file
    if given:
        return given
    if axes.spectral:
        velox = _VELOX.fullmatch(dataset.path)
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
