"""Says with which names, colours and contrast viewers show an image: the `omero` of NGFF.

Specification: https://ngff.openmicroscopy.org/0.5/#omero-md. Without it, viewers choose a contrast after they have
read a whole level.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from vfs.engine.array import ArrayReader
from vfs.engine.frames import FrameView, pieces
from vfs.engine.picture import contrast
from vfs.errors import VfsError
from vfs.hierarchy.images import ShownImage
from vfs.model.region import Region

_MOST = 64
"""Channels that are described; of more, viewers choose the contrast."""
_LOOK = 4 << 20
"""Bytes of a channel that are looked at, about, all over the image."""
_VALUES = 1 << 18
"""Pixels that the contrast is chosen from."""
_COSTLY = 16 << 20
"""Bytes that are read at most to look at a channel; where it takes more, viewers choose the contrast."""
_ONE = ("FFFFFF",)
_SAMPLES = {"Red": "FF0000", "Green": "00FF00", "Blue": "0000FF", "Opacity": "FFFFFF"}
_SEVERAL = ("FF0000", "00FF00", "0000FF", "FF00FF", "00FFFF", "FFFF00")
_NAMED = {
    "red": "FF0000",
    "green": "00FF00",
    "blue": "0000FF",
    "magenta": "FF00FF",
    "cyan": "00FFFF",
    "yellow": "FFFF00",
    "gray": "FFFFFF",
    "grey": "FFFFFF",
}
"""Colours by the names that Leica's programs give to channels."""
_ACTIVE = 6
"""Channels that are shown at first: viewers mix at most so many."""


def omero(image: ShownImage) -> dict[str, Any] | None:
    """Describe how an image is shown; None if its contrast is not known and costs too much to find out."""
    finest, axis = image.levels[0], image.channels
    count = 1 if axis is None else finest.shape[axis]
    if count > _MOST or image.source.dataset.computed:
        return None
    try:
        mask = image.source.dtype.kind == "b"
        windows = [_window(finest, axis, k, mask) for k in range(count)]
    except (VfsError, MemoryError):  # said to those who read it
        return None
    if None in windows:
        return None
    return {
        "name": image.name,
        "channels": [
            {
                "label": label,
                "color": colour,
                "active": k < _ACTIVE,
                "coefficient": 1,
                "family": "linear",
                "inverted": False,
                "window": window,
            }
            for k, (window, (label, colour)) in enumerate(zip(windows, _looks(image, count), strict=True))
        ],
        "rdefs": {"defaultT": 0, "defaultZ": _middle(finest, image.dims, "z"), "model": _model(count)},
    }


def _looks(image: ShownImage, count: int) -> Iterator[tuple[str, str]]:
    """Yield a label and a colour for each channel: those of the file, else usual ones."""
    told, source = _told(image), image.source
    samples = list(_SAMPLES.items()) if "s" in source.dims and count in (3, 4) else []
    colours = _ONE if count == 1 else _SEVERAL
    for k in range(count):
        label, colour = samples[k] if samples else (f"Channel {k}", colours[k % len(colours)])
        own = told[k] if told else {}
        yield str(own.get("name") or label), _colour(own.get("color")) or colour


def channel_looks(image: ShownImage) -> list[tuple[str, str]]:
    """Return a label and a colour (rrggbb) for each channel; none where there is one channel, or very many."""
    axis = image.channels
    count = 1 if axis is None else image.levels[0].shape[axis]
    return list(_looks(image, count)) if 1 < count <= _MOST else []


def _model(channels: int) -> str:
    return "greyscale" if channels == 1 else "color"


def _middle(array: ArrayReader, dims: Sequence[str], axis: str) -> int:
    return array.shape[dims.index(axis)] // 2 if axis in dims else 0


def _told(image: ShownImage) -> list[Mapping[str, Any]]:
    """Return what the file says of the channels, if it has an entry for each."""
    said = image.source.attrs.get("channels")
    entries = said if isinstance(said, list) else []
    named = [{"name": one, "color": one} if isinstance(one, str) else one for one in entries]
    known = [one for one in named if isinstance(one, Mapping)]
    axis = image.channels
    return known if axis is not None and len(known) == image.levels[0].shape[axis] else []


def _colour(said: object) -> str | None:
    """Return a colour as six hexadecimal digits.

    It is told by its name, or, in OME-XML, as a signed number of red, green, blue and opacity.
    """
    if isinstance(said, str):
        return _NAMED.get(said.lower())
    if not isinstance(said, int) or isinstance(said, bool):
        return None
    return f"{(said & 0xFFFFFFFF) >> 8:06X}"


def _window(array: ArrayReader, axis: int | None, channel: int, mask: bool) -> dict[str, float] | None:
    """Choose the numbers that are shown black and white; None if that costs too much.

    They are those of the middle image, as `contrast` chooses them: of all of it, or of lines or tiles all over it.

    Args:
        mask: the numbers say True or False.

    Raises:
        SourceError: it cannot be read.
    """
    if mask:
        return {"min": 0, "max": 1, "start": 0, "end": 1}
    at = [n // 2 for n in array.shape[:-2]]
    if axis is not None:
        at[axis] = channel
    *where, y, x = range(array.ndim)
    view = FrameView(array, tuple(where), (y, x), None)
    parts = [view.region(at, rows, columns) for rows, columns in pieces(view, _LOOK)[0]]
    if _cost(array, parts) > _COSTLY:
        return None
    every = -(-sum(part.size for part in parts) // _VALUES)
    low, high, _ = contrast(
        np.concatenate([array.read(part).reshape(-1)[::every].astype(np.float64) for part in parts])
    )
    limits = np.iinfo(array.dtype) if array.dtype.kind in "iu" and array.dtype.itemsize <= 2 else None
    least, most = (float(limits.min), float(limits.max)) if limits else (low, high)
    if not high > low:
        low, high = least, max(most, least + 1.0)
    found = {"min": min(least, low), "max": max(most, high), "start": low, "end": high}
    return {name: int(value) if array.dtype.kind in "iu" else value for name, value in found.items()}


def _cost(array: ArrayReader, parts: Sequence[Region]) -> int:
    """Return the bytes that are decoded to read some parts."""
    block = array.dataset.block
    if not array.decodes_whole:
        return sum(part.size for part in parts) * array.dtype.itemsize
    if len(block) != array.ndim:
        return array.nbytes
    return sum(_blocks(part, block) for part in parts) * math.prod(block) * array.dtype.itemsize


def _blocks(part: Region, block: Sequence[int]) -> int:
    return math.prod(-(-b // n) - a // n for a, b, n in zip(part.start, part.stop, block, strict=True))
