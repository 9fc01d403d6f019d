"""Reads what Leica's XML says of an image: its axes, its channels, and where its planes lie in a block of memory."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple
from xml.etree.ElementTree import Element

import numpy as np

from vfs.errors import FormatError
from vfs.formats.lif.said import CHANNELS
from vfs.formats.planes import PlaneTable, StoredPlane
from vfs.model import colours
from vfs.model.channels import real
from vfs.model.decode import MadeBlocks
from vfs.model.files import Files
from vfs.model.layout import GridLayout, altered
from vfs.model.metadata import Told
from vfs.model.stored import StoredArray

_MAX_PLANES = 1 << 24
_MAX_FILE_BYTES = 1 << 60  # bytes
_NAMES = {1: "x", 2: "y", 3: "z", 4: "t", 5: "lambda", 6: "rotation", 7: "x2", 8: "t2", 9: "excitation", 10: "m"}
_PLANE = (1, 2)  # axes that are shown even if they have one element
_OTHERS = "dim_{}"  # axes of other numbers
_DIMENSIONS = "ImageDescription/Dimensions/DimensionDescription"
_TILES, _PLACES = "TileScanInfo", {"stage_x": "PosX", "stage_y": "PosY", "stage_z": "PosZ"}
_LETTERS = {1: "R", 2: "G", 3: "B"}  # of values of ChannelTag


class _Axis(NamedTuple):
    name: str
    length: int
    step: int  # bytes
    calibration: dict[str, Any] | None = None


class Memory(NamedTuple):
    """A block of memory in a file: its first byte, and its bytes."""

    at: int
    size: int


@dataclass(frozen=True, eq=False)
class LeicaImage:
    """Says how the planes of an image lie in its block of memory.

    Attributes:
        name: name of the image, with those of the folders above it.
        nav, sig: lengths of the navigation axes, and of a plane.
        dims: a name for each of them.
        stored: dtype of elements.
        offsets: int64[planes], first byte of each plane, in C order of the navigation axes.
        steps: elements from one index to the next along each axis of a plane.
        nbytes: bytes from the first element of a plane to the last.
        colours: order of the colours of a pixel, such as "BGR"; "" where a pixel has none, or nobody knows it.
        attrs: name and calibration.
        told: what is said of the acquisition.
    """

    name: str
    nav: tuple[int, ...]
    sig: tuple[int, ...]
    dims: tuple[str, ...]
    stored: np.dtype
    offsets: np.ndarray
    steps: tuple[int, ...]
    nbytes: int
    colours: str
    attrs: dict[str, Any]
    told: Told

    def array(self, place: str, files: Files, memory: Memory) -> StoredArray:
        """Make the array of an image whose block of memory lies in a file.

        Raises:
            MissingSourceError, TruncatedSourceError: no plane is there.
        """
        zeros = np.zeros(len(self.offsets), np.int64)
        table = PlaneTable(zeros, self.offsets + memory.at, np.arange(len(zeros)), files.paths[0])
        plane = StoredPlane(self.sig, self.stored, strides=self.steps, order=self.colours)
        made = table.array(place, files, self.nav, plane, self.dims, self.attrs)
        return altered(made, told=self.told)


def number(node: Element, name: str, kind: type[int] | type[float] = int) -> Any:
    """Return a number of an element; 0 if there is none."""
    try:
        found = kind(node.get(name, "0") or "0")
    except ValueError:
        return 0
    return found if math.isfinite(found) else 0


def image_of(path: str, name: str, node: Element, size: int, told: Told) -> LeicaImage:
    """Read what the XML says of an image.

    Args:
        path, name: of the file and the image, for messages.
        node: `Image`.
        size: bytes of its block of memory.
        told: what the XML says of the acquisition.

    Raises:
        FormatError: its dimensions are absurd.
    """
    stored, channels, tags = _channels(path, name, node)
    axes, element = _axes(path, name, node), stored.itemsize
    inner, outer, first = axes[-2:], axes[:-2], np.zeros(1, np.int64)
    together = _colours(axes, channels, element)
    sig = (*(axis.length for axis in inner), *((len(channels),) if together else ()))
    steps = (*(axis.step // element for axis in inner), *((1,) if together else ()))
    if len(channels) > 1 and not together:
        outer, first = _with_channels(outer, channels)
    nav = tuple(axis.length for axis in outer)
    reach = (sum((n - 1) * step for n, step in zip(sig, steps, strict=True)) + 1) * element
    if math.prod(nav) > _MAX_PLANES or reach > size or any(axis.step % element for axis in inner):
        raise FormatError(f"{path}: {name}: expected planes of whole elements within its memory, found {nav} of {sig}")
    offsets = np.zeros(1, np.int64)
    for axis in outer:
        if axis.length * axis.step > _MAX_FILE_BYTES:
            raise FormatError(
                f"{path}: {name}: expected an axis in its memory, found {axis.length:,} × {axis.step:,} bytes"
            )
        places = first if axis.name == "c" and len(first) > 1 else np.arange(axis.length) * axis.step
        offsets = (offsets[:, None] + places).reshape(-1)
    if int(offsets.max()) + reach > size:
        raise FormatError(
            f"{path}: {name}: expected planes within its memory of {size:,} bytes, they reach to byte"
            f" {int(offsets.max()) + reach:,}"
        )
    dims = _unique([axis.name for axis in (*outer, *inner)] + [colours.AXIS] * together)
    calibration = {axis.name: axis.calibration for axis in axes if axis.calibration}
    attrs = {"name": name, "calibration": calibration}
    order = "".join(_LETTERS.get(tag, "") for tag in tags) if together else ""
    order = order if len(order) == len(set(order)) == len(channels) else ""
    return LeicaImage(name, nav, sig, dims, stored, offsets, steps, reach, order, attrs, told)


def _axes(path: str, name: str, image: Element) -> list[_Axis]:
    """Return the axes of dimensions, the one with the longest step first; of one element only x and y.

    Raises:
        FormatError: they are absurd.
    """
    found = []
    for node in image.findall(_DIMENSIONS):
        axis, count, step = (number(node, key) for key in ("DimID", "NumberOfElements", "BytesInc"))
        if not 1 <= count < 1 << 32 or not 0 <= step < _MAX_FILE_BYTES:
            raise FormatError(
                f"{path}: {name}: expected dimensions of 1 or more elements, found {count:,} × {step:,} bytes"
            )
        if count == 1 and axis not in _PLANE:
            continue
        length, unit = number(node, "Length", float), node.get("Unit", "")
        known = None
        if count > 1 and length and unit:
            known = {"scale": length / (count - 1), "offset": number(node, "Origin", float), "unit": unit}
        found.append(_Axis(_NAMES.get(axis, _OTHERS.format(axis)), count, step, known))
    return sorted(found, key=lambda axis: -axis.step)


def _channels(path: str, name: str, image: Element) -> tuple[np.dtype, list[int], list[int]]:
    """Return dtype of elements, the first byte of each channel from that of the image on, and their `ChannelTag`.

    Raises:
        FormatError: channels have several types, or one that nobody knows.
    """
    nodes = image.findall(CHANNELS)
    types = {(number(node, "DataType"), -(-number(node, "Resolution") // 8)) for node in nodes}
    stored = {(0, 1): "u1", (0, 2): "<u2", (0, 4): "<u4", (1, 2): "<f2", (1, 4): "<f4", (1, 8): "<f8"}
    kind = next(iter(types)) if len(types) == 1 else (9, 9)
    steps = [number(node, "BytesInc") for node in nodes]
    if kind not in stored or not all(0 <= step < _MAX_FILE_BYTES for step in steps):
        told = ", ".join(f"type {a}, {b} bytes" for a, b in sorted(types)) or "no channel"
        raise FormatError(f"{path}: {name}: expected channels of one type, integers or floats; found {told}")
    return np.dtype(stored[kind]), steps, [number(node, "ChannelTag") for node in nodes]


def _colours(axes: list[_Axis], channels: list[int], element: int) -> bool:
    """Return True if channels are the colours of a pixel, one behind the other."""
    across = next((axis.step for axis in axes if axis.name == "x"), 0)
    return (
        len(channels) > 1
        and channels == [k * element for k in range(len(channels))]
        and across == len(channels) * element
    )


def _with_channels(outer: list[_Axis], channels: list[int]) -> tuple[list[_Axis], np.ndarray]:
    """Put the axis of channels where it belongs by its step. Returns: (the axes, first byte of each channel)."""
    step = min(abs(b - a) for a, b in pairwise(sorted(channels)))
    made = sorted([*outer, _Axis("c", len(channels), step)], key=lambda axis: -axis.step)
    return made, np.array(channels, np.int64)


def _unique(names: list[str]) -> tuple[str, ...]:
    return tuple(f"{name}_{names[:k].count(name)}" if name in names[:k] else name for k, name in enumerate(names))


@dataclass(frozen=True, eq=False)
class _TilePlaces(MadeBlocks):
    """Holds what the XML says of each tile of a mosaic."""

    values: np.ndarray

    @property
    def dtype(self) -> np.dtype:
        return self.values.dtype

    def decode_block(self, data: np.ndarray, block: int, shape: tuple[int, ...]) -> np.ndarray:
        return self.values.reshape(shape)


def tile_places(main: StoredArray, image: Element) -> list[StoredArray]:
    """Make the companions with the place of the stage, in m, of each tile along the axis m of an image.

    Args:
        main: the array of the image; image: what the XML says of it.
    """
    tiles = [tile for one in image.findall("Attachment") if one.get("Name") == _TILES for tile in one.findall("Tile")]
    if ("m", len(tiles)) not in zip(main.dims, main.shape, strict=True):
        return []
    made, layout = [], GridLayout((len(tiles),), (len(tiles),))
    for name, key in _PLACES.items():
        said = [real(tile.get(key)) for tile in tiles]
        if None not in said:
            decoder = _TilePlaces(np.array(said, "f8"))
            about: dict[str, Any] = {"attrs": {"unit": "m"}, "companion": True, "coordinate": True}
            path = main.path.removesuffix("data") + name
            made.append(
                StoredArray(path, main.files, layout, decoder, layout.shape, ("m",), 1, block=layout.block, **about)
            )
    return made
