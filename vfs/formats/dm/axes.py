"""Names the axes of an image in a DM file: by their units, by its tags, and only then by their position."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from vfs.formats.dm.images import DmImage
from vfs.formats.gatan_tags import find
from vfs.model.stored import nav_dims, scan_dims
from vfs.model.units import DIFFRACTION, ENERGIES, LENGTHS, spelled

_OF_LIGHT = frozenset({"nm", "angstrom"})  # units of wavelengths


class ShownAxes(NamedTuple):
    """Names and roles of the stored axes, slowest first.

    Attributes:
        names: a name per stored axis.
        sig_ndim: number of signal axes.
        maps: True if the signal axes are stored first, a map of the scan for each of their pixels.
    """

    names: tuple[str, ...]
    sig_ndim: int
    maps: bool

    @property
    def shown(self) -> tuple[str, ...]:
        """The names in the order in which axes are shown."""
        return self.names[self.sig_ndim :] + self.names[: self.sig_ndim] if self.maps else self.names


def axes_of(image: DmImage, signal_first: bool | None) -> ShownAxes:
    """Name the stored axes of an image.

    Args:
        signal_first: True if the signal axes are stored first; None to find it out.
    """
    nd, units = len(image.shape), [spelled(one["unit"]) for one in image.calibrations]
    resolved = _resolved(units)
    if resolved is not None:
        return _of_resolved(resolved, units, signal_first)
    found = _spectra(image, units)
    if found is not None:
        return _of_spectra(*found, units, _says(image, "Format").startswith(("image", "diffraction")), signal_first)
    if nd == 1:
        return ShownAxes(("x",), 1, False)
    maps = _stores_maps(image, units) if signal_first is None else signal_first
    if maps and nd > 2 and not image.coloured:
        return ShownAxes(("y", "x", *scan_dims(units[2:])), 2, True)
    scanned = {*units[-2:]} <= DIFFRACTION
    return ShownAxes((*(scan_dims(units[:-2]) if scanned else nav_dims(nd - 2)), "y", "x"), 2, False)


def _resolved(units: Sequence[str]) -> bool | None:
    """Say whether frames of energy and momentum (or angle) of a scan are stored first (True) or last; None if none are.

    Their two axes lie together, and no other axis has such a unit.
    """
    nd = len(units)
    energies = [k for k, unit in enumerate(units) if unit in ENERGIES]
    angles = [k for k, unit in enumerate(units) if unit in DIFFRACTION]
    if nd < 3 or len(energies) != 1 or len(angles) != 1:
        return None
    return {0: True, nd - 2: False}.get(min(energies + angles)) if abs(energies[0] - angles[0]) == 1 else None


def _of_resolved(maps: bool, units: Sequence[str], signal_first: bool | None) -> ShownAxes:
    """Name the axes of frames of energy and momentum, see `_resolved`."""
    frame, scan = (units[:2], units[2:]) if maps else (units[-2:], units[:-2])
    names = tuple("energy" if unit in ENERGIES else "q" for unit in frame)
    if maps and signal_first is False:
        return ShownAxes((*names, *scan_dims(scan)), len(scan), False)
    return ShownAxes((*names, *scan_dims(scan)) if maps else (*scan_dims(scan), *names), 2, maps)


def _of_spectra(axis: int, name: str, units: Sequence[str], images: bool, signal_first: bool | None) -> ShownAxes:
    """Name the axes of spectra along a stored axis.

    Args:
        images: True if the tags say that these are images, one for each energy.
    """
    nd = len(units)
    if axis == nd - 1:
        return ShownAxes((*scan_dims(units[:-1]), name), 1, False)
    if axis:
        scan = nav_dims(nd - 1)
        return ShownAxes((*scan[:axis], name, *scan[axis:]), nd - axis, False)
    if nd == 3 and images and signal_first is None:
        return ShownAxes((name, "y", "x"), 2, False)
    if signal_first is False:
        return ShownAxes((name, *scan_dims(units[1:])), nd - 1, False)
    return ShownAxes((name, *scan_dims(units[1:])), 1, True)


def _says(image: DmImage, tag: str) -> str:
    return str(find(image.tags, f"ImageTags/Meta Data/{tag}", "")).lower()


def _spectra(image: DmImage, units: Sequence[str]) -> tuple[int, str] | None:
    """Return the axis of spectra and its name: energy or wavelength; None if there is none.

    An energy is told by its unit. A wavelength has a unit of length like the scan, so tags must say
    that there are spectra; software stores those of spectrum images first.
    """
    energies = [k for k, unit in enumerate(units) if unit in ENERGIES]
    if len(energies) == 1:
        return energies[0], "energy"
    says = _says(image, "Format")
    light = [k for k, unit in enumerate(units) if unit in _OF_LIGHT]
    if _says(image, "Signal") == "cl" and len(light) == 1 and not says.startswith("image"):
        return light[0], "wavelength"
    if not says.startswith("spectrum"):
        return None
    axis = 0 if says.startswith("spectrum image") and len(units) > 2 else len(units) - 1
    return axis, "wavelength" if units[axis] in LENGTHS else "energy"


def _stores_maps(image: DmImage, units: Sequence[str]) -> bool:
    """Return True if the detector's axes are stored first.

    A tag or the units say it; of four axes without either, it is so.
    """
    nd = len(units)
    if nd < 3 or find(image.tags, "ImageTags/Meta Data/Data Order Swapped"):
        return False
    first, last = ([unit in DIFFRACTION for unit in part] for part in (units[:2], units[-2:]))
    if all(first) != all(last):
        return all(first)
    if nd != 4:
        return False
    first, last = ([unit in LENGTHS for unit in part] for part in (units[:2], units[2:]))
    return not (all(first) and not any(last))
