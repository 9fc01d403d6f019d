"""Says with which names, colours and contrast viewers show an image: the `omero` of NGFF.

Specification: https://ngff.openmicroscopy.org/0.5/#omero-md. Without it, viewers choose a contrast after they have
read a whole level.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from vfs.engine.array import ArrayReader
from vfs.errors import VfsError
from vfs.faces.images import ShownImage
from vfs.model.channels import Channel
from vfs.model.colours import LOOKS, coloured
from vfs.model.region import Region
from vfs.pictures.frames import FrameView, pieces, without_masked
from vfs.pictures.picture import contrast

_MAX_CHANNELS = 64
"""Channels that are described; of more, viewers choose the contrast."""
_LOOK = 4 << 20
"""Bytes of a channel that are looked at, about, all over the image."""
_VALUES = 1 << 18
"""Pixels that the contrast is chosen from."""
_COSTLY = 16 << 20
"""Bytes that are read at most to look at a channel; where it takes more, viewers choose the contrast."""
_PLANES = (5, 3, 1)
"""Planes of a stack that are looked at, all over it: so many as cost no more."""
_ONE = ("FFFFFF",)
_SEVERAL = ("FF0000", "00FF00", "0000FF", "FF00FF", "00FFFF", "FFFF00")
_ACTIVE = 6
"""Channels that are shown at first: viewers mix at most so many."""


class ChannelLook(NamedTuple):
    """How a channel is shown: its label, its colour (RRGGBB), and the numbers that are black and full, if the file says
    which.
    """

    label: str
    colour: str
    window: tuple[float, float] | None = None


def omero(image: ShownImage) -> dict[str, Any] | None:
    """Describe how an image is shown; None if its contrast is not known and costs too much to find out."""
    finest, axis = image.levels[0], image.channels
    count = 1 if axis is None else finest.shape[axis]
    if count > _MAX_CHANNELS or image.source.dataset.computed:
        return None
    looks = list(_looks(image, count))
    try:
        windows = _windows(image, looks)
    except (VfsError, MemoryError):  # said to those who read it
        return None
    if windows is None:
        return None
    return {
        "name": image.name,
        "channels": [
            {
                "label": look.label,
                "color": look.colour,
                "active": k < _ACTIVE,
                "coefficient": 1,
                "family": "linear",
                "inverted": False,
                "window": window,
            }
            for k, (window, look) in enumerate(zip(windows, looks, strict=True))
        ],
        "rdefs": {"defaultT": 0, "defaultZ": _middle(finest, image.dims, "z"), "model": _model(count)},
    }


def _samples(image: ShownImage) -> int:
    """Return how many colours of a pixel (red, green, blue) follow each other along the axis of channels; 1: none."""
    source = image.source
    last = () if image.channels is None else image.how.axes[image.channels][-1:]
    return next((source.shape[k] for k in last if coloured(source.dims[k], source.shape[k], source.attrs)), 1)


def _looks(image: ShownImage, count: int) -> Iterator[ChannelLook]:
    """Yield the look of each channel: what the file says, else what is usual."""
    samples = _samples(image)
    told, usual = _told(image, count // samples), _ONE if count == 1 else _SEVERAL
    for k in range(count):
        own = told[k // samples] if told else Channel()
        name = own.get("name") or f"Channel {k // samples}"
        if samples == 1:
            colour = own.get("colour", usual[k % len(usual)]).removeprefix("#").upper()
            yield ChannelLook(name, colour, _shown(own, image.source.dtype))
        else:
            drawn, colour = list(LOOKS.items())[k % samples]
            yield ChannelLook(drawn if samples == count else f"{name} {drawn}", colour)


def _shown(channel: Channel, dtype: np.dtype) -> tuple[float, float] | None:
    """Return the window that a file says, unless it is all that pixels can hold: nobody chose that one."""
    window = channel.get("window")
    if window is None or dtype.kind not in "iu":
        return window
    limits = np.iinfo(dtype)
    return None if window[0] <= limits.min and window[1] >= limits.max else window


def channel_looks(image: ShownImage) -> list[ChannelLook]:
    """Return the look of each channel; none where there is one channel, or very many."""
    axis = image.channels
    count = 1 if axis is None else image.levels[0].shape[axis]
    return list(_looks(image, count)) if 1 < count <= _MAX_CHANNELS else []


def channel_windows(image: ShownImage) -> list[tuple[float, float]] | None:
    """Return the numbers of each channel that are shown black and full, as `omero` does; None if that costs too much.

    Raises:
        SourceError: it cannot be read.
    """
    found = _windows(image, channel_looks(image))
    return None if found is None else [(one["start"], one["end"]) for one in found]


def _model(channels: int) -> str:
    return "greyscale" if channels == 1 else "color"


def _middle(array: ArrayReader, dims: Sequence[str], axis: str) -> int:
    return array.shape[dims.index(axis)] // 2 if axis in dims else 0


def _told(image: ShownImage, count: int) -> Sequence[Channel]:
    """Return what the file says of the channels, if it says something of each of so many."""
    found = image.source.dataset.channels
    return found if len(found) == count else ()


def _windows(image: ShownImage, looks: Sequence[ChannelLook]) -> list[dict[str, float]] | None:
    """Return for each channel the numbers that are shown black and white: the file's, else such as suit its numbers.

    None if it costs too much to find them. The colours of a pixel have the same ones, from 0 on, for else they would be
    other colours.

    Raises:
        SourceError: it cannot be read.
    """
    finest, samples, count = image.levels[0], _samples(image), len(looks)
    if image.source.dtype.kind == "b":  # they say True or False
        return [{"min": 0, "max": 1, "start": 0, "end": 1}] * count
    found = []
    for k, look in enumerate(looks):
        limits = look.window or _limits(image, k)
        if limits is None:
            return None
        found.append(limits)
    for k in range(0, count, samples) if samples > 1 else ():
        group = found[k : k + samples]
        whole = finest.dtype == np.uint8
        found[k : k + samples] = [
            (min(0.0, *(low for low, _ in group)), 255.0 if whole else max(h for _, h in group))
        ] * samples
    return [_window(*limits, finest.dtype) for limits in found]


def _limits(image: ShownImage, channel: int) -> tuple[float, float] | None:
    """Choose the numbers of one channel that are shown black and white; None if that costs too much.

    They are those of the middle image, of a stack those of planes all over it, as `contrast` chooses them: of all of
    these, or of lines or tiles all over them.
    Pixels that the set's own mask marks as dead do not count.

    Raises:
        SourceError: it cannot be read.
    """
    array, axis = image.levels[0], image.channels
    at = [n // 2 for n in array.shape[:-2]]
    if axis is not None:
        at[axis] = channel
    *where, y, x = range(array.ndim)
    view = FrameView(array, tuple(where), (y, x), None)
    for most in _PLANES:
        planes = _planes(at, array, image.dims, most)
        cut = [(place, *piece) for place in planes for piece in pieces(view, _LOOK // len(planes))[0]]
        parts = [view.region(place, rows, columns) for place, rows, columns in cut]
        if _cost(array, parts) <= _COSTLY:
            break
    else:
        return None
    every = -(-sum(part.size for part in parts) // _VALUES)
    read = (
        without_masked(view, array.read(part).reshape(len(rows), -1), rows, columns)
        for part, (_, rows, columns) in zip(parts, cut, strict=True)
    )
    low, high, _ = contrast(np.concatenate([values.reshape(-1)[::every].astype(np.float64) for values in read]))
    return low, high


def _planes(at: Sequence[int], array: ArrayReader, dims: Sequence[str], most: int) -> list[list[int]]:
    """Return the places of planes all over a stack, the middle one among them: no more than `most`, which is odd."""
    if "z" not in dims:
        return [list(at)]
    axis = dims.index("z")
    count = array.shape[axis]
    chosen = range(count) if count <= most else [(2 * k + 1) * count // (2 * most) for k in range(most)]
    return [[*at[:axis], z, *at[axis + 1 :]] for z in chosen]


def _window(low: float, high: float, dtype: np.dtype) -> dict[str, float]:
    """Return the window of a channel: start is below end, and both are numbers of its dtype.

    Where all pixels are alike, that is the whole range of small integers, else a step from that number on, or up to it
    at the end of the type. A step is one that also float64 tells apart, which is what viewers in browsers count with.
    """
    whole = dtype.kind in "iu"
    number: Any = int if whole else float
    limits: Any = np.iinfo(dtype) if whole else np.finfo(dtype)
    first, last = number(limits.min), number(limits.max)
    small = whole and dtype.itemsize <= 2
    if small and not high > low:
        low, high = first, last
    start, end = (min(max(number(one), first), last) for one in (low, high))
    if not end > start:
        step = max(number(1), number(abs(start) * (4 * float(np.finfo("f8" if whole else dtype).eps))))
        start, end = (start, start + step) if start + step <= last else (start - step, start)
    return {"min": first if small else start, "max": last if small else end, "start": start, "end": end}


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
