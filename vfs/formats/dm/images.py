"""Finds the images that the tags of a DM file describe."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from vfs.errors import FormatError
from vfs.formats.dm.transforms import HalvesDecoder
from vfs.formats.gatan_tags import StoredTag, Tags, find

_DTYPES = {
    1: "i2",
    2: "f4",
    3: "c8",
    6: "u1",
    7: "i4",
    8: "u1",
    9: "i1",
    10: "u2",
    11: "u4",
    12: "f8",
    13: "c16",
    5: "c8",
    14: "?",
    23: "u1",
    27: "c8",
    28: "c16",
}
_COLOURS = (8, 23)  # four bytes a pixel
_HALVES = (5, 27, 28)  # Fourier transforms of which about half is stored, see vfs.formats.dm.transforms
_SQUARE = 5
_MAX_AXES = 8


@dataclass(frozen=True)
class DmImage:
    """Describes an image in a file: the place, shape and dtype of its pixels.

    Attributes:
        tags: its group in the tags.
        offset: byte of the first pixel.
        dtype: dtype of a stored pixel, or of one component if the image is coloured.
        shape: slowest axis first, without colours.
        coloured: True if a pixel has four components.
        calibrations: scale, offset and unit of each axis.
        halves: completes a Fourier transform of which about half is stored; None for other images.
    """

    tags: Mapping[str, Any]
    offset: int
    dtype: np.dtype
    shape: tuple[int, ...]
    coloured: bool
    calibrations: tuple[dict[str, Any], ...]
    halves: HalvesDecoder | None = None

    @property
    def said(self) -> str:
        """Its pixels in words."""
        kind = " in colours" if self.coloured else " (half of a Fourier transform)" if self.halves is not None else ""
        return f"{self.dtype} {list(self.shape)}{kind}"

    @property
    def nbytes(self) -> int:
        """The bytes of its pixels in the file."""
        if self.halves is not None:
            return self.halves.count * self.dtype.itemsize
        return math.prod(self.shape) * self.dtype.itemsize * (4 if self.coloured else 1)


def _image(path: str, number: int, tags: Mapping[str, Any], order: Literal["<", ">"]) -> DmImage | None:
    """Parse an entry of the list of images. Returns None if it has no pixels.

    Raises:
        FormatError: the entry is not an image, or of a kind that is not supported.
    """
    of = find(tags, "ImageData")
    data = find(tags, "ImageData/Data")
    if not isinstance(of, dict) or not isinstance(data, StoredTag):
        return None
    where = f"{path}: image {number}"
    kind, depth, sizes = find(of, "DataType"), find(of, "PixelDepth"), find(of, "Dimensions")
    if kind not in _DTYPES:
        raise FormatError(
            f"{where} has pixels of type {str(kind)[:20]!r}; expected one of {', '.join(map(str, _DTYPES))}"
        )
    values = list(sizes.values())[::-1] if isinstance(sizes, dict) else []
    if not 1 <= len(values) <= _MAX_AXES or not all(isinstance(n, int) and n > 0 for n in values):
        raise FormatError(f"{where} has dimensions {str(values)[:60]}; expected one to {_MAX_AXES} positive numbers")
    dtype = np.dtype(_DTYPES[kind]).newbyteorder(order)
    halves = _halves(where, kind, values, dtype) if kind in _HALVES else None
    coloured = kind in _COLOURS
    itemsize = 4 if coloured else dtype.itemsize
    if depth is not None and depth != itemsize and not (kind == _SQUARE and depth == itemsize // 2):
        raise FormatError(
            f"{where} has pixels of type {kind}, which take {itemsize} bytes, but says that they take {str(depth)[:20]}"
        )
    nbytes = itemsize * (math.prod(values) if halves is None else halves.count)
    if nbytes > data.nbytes:
        raise FormatError(
            f"{where} has dimensions {values}, {nbytes:,} bytes, but only {data.nbytes:,} bytes of pixels"
        )
    groups = find(of, "Calibrations/Dimension")
    given = list(groups.values()) if isinstance(groups, dict) else []
    calibrations = tuple(_calibration(given[k] if k < len(given) else None) for k in range(len(values)))[::-1]
    return DmImage(tags, data.offset, dtype, tuple(values), coloured, calibrations, halves)


def _halves(where: str, kind: int, sizes: list[int], dtype: np.dtype) -> HalvesDecoder:
    """Return what completes a Fourier transform.

    Raises:
        FormatError: it has not two even dimensions, or is no square where it must be one.
    """
    if len(sizes) != 2 or sizes[1] % 2 or (kind == _SQUARE and sizes[0] != sizes[1]):
        raise FormatError(
            f"{where} is half of a Fourier transform of dimensions {sizes}; expected two, an even number of columns,"
            f" and of type {_SQUARE} as many rows"
        )
    return HalvesDecoder(dtype, (sizes[0], sizes[1]), kind == _SQUARE)


def _calibration(group: Any) -> dict[str, Any]:
    """Return scale, offset of the first element, and unit of an axis."""
    found = [
        find(group, name, default) if isinstance(group, dict) else default
        for name, default in (("Scale", 1.0), ("Origin", 0.0), ("Units", ""))
    ]
    scale, origin = (float(v) if isinstance(v, int | float) else d for v, d in zip(found, (1.0, 0.0), strict=False))
    return {
        "scale": scale,
        "offset": -origin * scale if origin else 0.0,
        "unit": found[2] if isinstance(found[2], str) else "",
    }


def images_of(path: str, tags: Tags) -> list[DmImage]:
    """Return the images of a file in their order, without thumbnails.

    Raises:
        FormatError: there is none.
    """
    entries = tags.get("ImageList")
    named = tags.get("Thumbnails")
    thumbs = (
        {find(t, "ImageIndex") for t in named.values() if isinstance(t, dict)} if isinstance(named, dict) else set()
    )
    groups = [g for g in entries.values() if isinstance(g, dict)] if isinstance(entries, dict) else []
    with_pixels = [k for k, g in enumerate(groups) if isinstance(find(g, "ImageData/Data"), StoredTag)]
    if len(with_pixels) > 1 and not thumbs:
        first = groups[with_pixels[0]]
        if find(first, "ImageData/DataType") == 23 and len(find(first, "ImageData/Dimensions", {}) or ()) == 2:
            thumbs = {with_pixels[0]}
    wanted = [k for k in with_pixels if k not in thumbs] or with_pixels
    found = [image for k in wanted if (image := _image(path, k, groups[k], tags.order)) is not None]
    if not found:
        raise FormatError(f"{path}: expected an image in its tags, found none")
    return found
