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
_RESOLUTION = ("resolution", "resolutionunit")
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
        target: a name that ends in .ome.tif (OME-TIFF, BigTIFF where it is large, pyramid levels as SubIFDs), or .tif
            (ImageJ's).
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
    pages = {name: how.pop(name) for name in ("metadata", "photometric", "software", *_RESOLUTION) if name in how}
    levels = _levels(stack, opened) if ome else []
    with whole(target) as partial:
        with tifffile.TiffWriter(partial, **how) as file:
            file.write(
                stack.planes(progress), shape=stack.shape, dtype=array.dtype, subifds=len(levels) or None, **pages
            )
            for level in levels:
                shape = (*stack.shape[: len(stack.axes)], *level.shape[-2:], *stack.shape[len(stack.axes) + 2 :])
                about = {"photometric": pages["photometric"], "software": False, "metadata": None, "subfiletype": 1}
                file.write(_planes_of(stack, opened, level), shape=shape, dtype=array.dtype, **about)
        return os.path.getsize(partial)


def _levels(stack: _PlanesOfSet, opened: OpenedSet) -> list[ArrayReader]:
    """Return the pyramid levels of an image, without the image itself; none where its planes are others than those."""
    image = opened.tree.images.get(stack.array.dataset.path)
    if image is None or image.levels[0].dtype != stack.array.dtype:
        return []
    groups = image.how.axes[:-2]
    colour = () if stack.colour is None else (stack.colour,)
    alike = sorted(axis for group in groups for axis in group) == sorted((*stack.axes, *colour))
    last = stack.colour is None or any(group[-1] == stack.colour for group in groups)
    return image.levels[1:] if alike and last else []


def _planes_of(stack: _PlanesOfSet, opened: OpenedSet, level: ArrayReader) -> Iterator[np.ndarray]:
    """Read the planes of a level, in the order of those of the stack.

    Raises:
        SourceError: one cannot be read.
    """
    groups = opened.tree.images[stack.array.dataset.path].how.axes[:-2]
    lengths = stack.array.shape
    for place in product(*(range(lengths[k]) for k in stack.axes)):
        at = dict(zip(stack.axes, place, strict=True))
        cuts = []
        for group in groups:
            first = 0
            for axis in group:
                first = first * lengths[axis] + at.get(axis, 0)
            cuts.append(slice(first, first + (lengths[group[-1]] if group[-1] == stack.colour else 1)))
        values = level.read(Region.of([*cuts, *(slice(0, n) for n in level.shape[-2:])], level.shape))
        plane = values.reshape(-1, *level.shape[-2:]).transpose(1, 2, 0)
        plane = plane[..., 0] if stack.colour is None else plane
        yield np.ascontiguousarray(plane[::-1] if stack.upward else plane)


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
            said["Ranges"] = tuple(float(end) for window in windows for end in window)  # a list is one for each value
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
    return {"ome": True, "bigtiff": stack.array.nbytes * 4 // 3 > _MAX_IMAGEJ_BYTES, "metadata": said}
