"""Writes the main array of a set as TIFF: an ImageJ hyperstack, or OME-TIFF. Planes are read one after the other."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from vfs.engine.array import ArrayReader
from vfs.errors import OptionError, size
from vfs.faces.channels import channel_looks, channel_windows
from vfs.model.command_options import OME_TIFF_ENDINGS
from vfs.model.region import Region
from vfs.model.units import LENGTHS, factor, readable
from vfs.outputs.outputs import whole
from vfs.pictures.frames import FrameView
from vfs.reduce.saving import tifffile_module
from vfs.sets.opening import OpenedSet

_IMAGEJ = ("uint8", "uint16", "float32")
_MAX_IMAGEJ_BYTES = (1 << 32) - (1 << 25)
"""Bytes of pixels that ImageJ's TIFF may have, which has offsets of 32 bits."""
_NAMES = {"t": "T", "time": "T", "c": "C", "channel": "C", "z": "Z", "slice": "Z"}
_ORDER = "TZC"
"""Letters of the leading axes, in ImageJ's order of planes, the slowest one first."""
_OME_UNITS = {"um": "µm", "angstrom": "Å"}


@dataclass(frozen=True)
class _PlanesOfSet:
    """An array as planes.

    Attributes:
        axes: axes of the array in front of planes, in the order in which planes are written; letters: of each.
        upward: the bottom row comes first, and is written last.
    """

    array: ArrayReader
    axes: tuple[int, ...]
    letters: str
    upward: bool
    colour: int | None

    @property
    def shape(self) -> tuple[int, ...]:
        view = FrameView.of(self.array)
        samples = () if self.colour is None else (self.array.shape[self.colour],)
        return (*(self.array.shape[k] for k in self.axes), *view.sizes, *samples)

    def planes(self, done: Callable[[int, int], object]) -> Iterator[np.ndarray]:
        """Read planes in their order.

        Raises:
            SourceError: one cannot be read.
        """
        view, total = FrameView.of(self.array), self.array.nbytes
        lengths = [self.array.shape[k] for k in self.axes]
        own = [*view.shown, *(() if self.colour is None else (self.colour,))]
        read = 0
        for place in product(*map(range, lengths)):
            cuts = [slice(0, n) for n in self.array.shape]
            for axis, at in zip(self.axes, place, strict=True):
                cuts[axis] = slice(at, at + 1)
            values = self.array.read(Region.of(cuts, self.array.shape)).transpose(*self.axes, *own)
            plane = values.reshape([self.array.shape[k] for k in own])
            read += plane.nbytes
            yield np.ascontiguousarray(plane[::-1] if self.upward else plane)
            done(read, total)


def write(opened: OpenedSet, target: str, progress: Callable[[int, int], object] = lambda done, total: None) -> int:
    """Write the main array of a set as TIFF.

    Args:
        target: a name that ends in .ome.tif (OME-TIFF, BigTIFF where it is large), or .tif (ImageJ's).
        progress: is called with the bytes that are done, and all.

    Returns: bytes of the file.

    Raises:
        OptionError: it cannot be written, or the array is nothing that such a file holds.
        SourceError: its planes cannot be read.
        DependencyError: tifffile is not installed.
    """
    ome = target.lower().endswith(OME_TIFF_ENDINGS)
    array, tifffile = opened.main, tifffile_module()
    stack = _stack(array, ome)
    how = _ome(stack, opened) if ome else _imagej(stack, opened)
    how |= {"photometric": "minisblack" if stack.colour is None else "rgb", "byteorder": "<", "software": False}
    with whole(target) as partial:
        tifffile.imwrite(partial, stack.planes(progress), shape=stack.shape, dtype=array.dtype, **how)
        return os.path.getsize(partial)


def _stack(array: ArrayReader, ome: bool) -> _PlanesOfSet:
    """Give the axes of an array letters.

    Raises:
        OptionError: it has too many, or its pixels are of another type.
    """
    view, path = FrameView.of(array), array.dataset.path
    if len(view.shown) != 2 or len(view.where) > len(_ORDER) or not array.size:
        dims = ", ".join(f"{dim}: {n}" for dim, n in zip(array.dims, array.shape, strict=True))
        raise OptionError(
            f"{path}: expected pictures along at most three axes for a TIFF, found {dims or 'one number'}"
        )
    kinds = ("uint8",) if view.colour is not None and not ome else _IMAGEJ
    if array.dtype.kind not in "uif" or (not ome and array.dtype.name not in kinds):
        wanted = "real numbers" if ome else f"{', '.join(kinds)} for ImageJ (OUT.ome.tif holds any real numbers)"
        raise OptionError(f"{path}: expected {wanted}, found {array.dtype}; --dtype converts")
    if not ome and array.nbytes > _MAX_IMAGEJ_BYTES:
        raise OptionError(
            f"{path}: {size(array.nbytes)} are more than ImageJ's TIFF holds ({size(_MAX_IMAGEJ_BYTES)}): OUT.ome.tif"
        )
    named = {axis: _NAMES[array.dims[axis].lower()] for axis in view.where if array.dims[axis].lower() in _NAMES}
    free = [letter for letter in "CTZ" if letter not in named.values()]
    letters = {}
    for axis in reversed(view.where):  # others count as z, then t: the faster the later
        letters[axis] = named.get(axis) or free.pop()
    order = sorted(view.where, key=lambda axis: _ORDER.index(letters[axis]))
    return _PlanesOfSet(array, tuple(order), "".join(letters[k] for k in order), view.upward, view.colour)


def _looks(stack: _PlanesOfSet, opened: OpenedSet) -> tuple[list[Any], Sequence[tuple[float, float]] | None]:
    """Return the looks of channels, and their windows; none where there is one channel."""
    image = opened.tree.images.get(stack.array.dataset.path)
    looks = [] if image is None or stack.colour is not None else channel_looks(image)
    if image is None or len(looks) != dict(zip(stack.letters, stack.shape, strict=False)).get("C", 1) or len(looks) < 2:
        return [], None
    return looks, channel_windows(image)


def _axis(array: ArrayReader, axis: int) -> tuple[float, str]:
    """Return step and unit of an axis, as people say them; 0 and "" where nobody knows them."""
    known = array.calibration.get(array.dims[axis], {})
    if known.get("scale") is None or not known.get("unit"):
        return 0.0, ""
    times, unit = readable(known["scale"], known["unit"])
    return abs(known["scale"] * times), unit


def _imagej(stack: _PlanesOfSet, opened: OpenedSet) -> dict[str, Any]:
    view = FrameView.of(stack.array)
    said: dict[str, Any] = {"axes": f"{stack.letters}YX{'S' if stack.colour is not None else ''}"}
    (sy, uy), (sx, ux) = (_axis(stack.array, k) for k in view.shown)
    made: dict[str, Any] = {"imagej": True}
    if sy and sx:
        said["unit"] = ux.encode("ascii", "replace").decode()
        made |= {"resolution": (1 / sx, 1 / (sy * (factor(uy, ux) or 1))), "resolutionunit": 1}
    if "Z" in stack.letters and sx:
        step, unit = _axis(stack.array, stack.axes[stack.letters.index("Z")])
        if step and (times := factor(unit, ux)):
            said["spacing"] = step * times
    looks, windows = _looks(stack, opened)
    if looks:
        ramp = np.arange(256)[None] / 255
        colours = [np.array([list(bytes.fromhex(look.colour))]).T for look in looks]
        said |= {"mode": "composite", "LUTs": [np.rint(colour * ramp).astype(np.uint8) for colour in colours]}
        if windows:
            said["Ranges"] = [float(end) for window in windows for end in window]
    return {**made, "metadata": said}


def _ome(stack: _PlanesOfSet, opened: OpenedSet) -> dict[str, Any]:
    view = FrameView.of(stack.array)
    said: dict[str, Any] = {"axes": f"{stack.letters}YX{'S' if stack.colour is not None else ''}"}
    for letter, axis in [("Y", view.shown[0]), ("X", view.shown[1]), *zip(stack.letters, stack.axes, strict=True)]:
        known = stack.array.calibration.get(stack.array.dims[axis], {})
        if letter in "XYZ" and known.get("scale") and known.get("unit") in LENGTHS:
            unit = known["unit"]
            said |= {
                f"PhysicalSize{letter}": abs(known["scale"]),
                f"PhysicalSize{letter}Unit": _OME_UNITS.get(unit, unit),
            }
    looks, _ = _looks(stack, opened)
    if looks:
        packed = [int.from_bytes(bytes.fromhex(f"{look.colour}FF"), "big", signed=True) for look in looks]
        said["Channel"] = {"Name": [look.label for look in looks], "Color": packed}
    return {"ome": True, "bigtiff": stack.array.nbytes > _MAX_IMAGEJ_BYTES, "metadata": said}
