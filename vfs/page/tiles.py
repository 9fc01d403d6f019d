"""Reads boxes of pictures and of their smaller versions, of which the page makes large pictures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from vfs.errors import OptionError
from vfs.faces.channels import channel_looks, channel_windows
from vfs.faces.face import Face
from vfs.faces.images import BY_NAME, ShownImage
from vfs.model.region import Region
from vfs.page.records import sendable
from vfs.page.views import LARGEST, picture
from vfs.pictures.frames import FrameView, is_masked
from vfs.pictures.small_frames import binned, checked_view, frame_bytes, is_sampled, part_of, shown_part
from vfs.reduce.pyramid import ready

MAX_NUMBERS = LARGEST * LARGEST // 2
"""Most numbers of a box, colours counted: as many bytes as the largest picture has, also of float64."""
PASS = 4 << 30
"""Bytes of a picture that are read, at most, for a small one in a list: some 15 s where they are compressed."""


def levels_of(face: Face, path: str) -> list[dict[str, Any]]:
    """Describe a picture and its smaller versions: the `shape` of each, its `times`: pixels of the picture, along
    y and x, in one of it; and whether it is `ready`: nothing is computed when it is read. The picture itself is first.
    None are listed where it has no smaller ones.
    """
    image = _image(face, path)
    if image is None or len(image.levels) < 2:
        return []
    return [
        {"shape": list(level.shape[-2:]), "times": list(times[-2:]), "ready": ready(level)}
        for level, times in zip(image.levels, image.times, strict=True)
    ]


def channels_of(face: Face, path: str) -> dict[str, Any] | None:
    """Describe the channels of an image: the `axis` of the array that counts them, and of each the `name`, the `colour`
    and the `window`: the numbers that the file says are black and full, or None.

    None where pictures are no channels.
    """
    image, array = face.images.get(path), face.arrays[path]
    if image is None or image.channels is None or array.dataset.computed:
        return None
    group, view = image.how.axes[image.channels], FrameView.of(array)
    if len(group) != 1 or group[0] not in view.where or view.palette is not None:
        return None
    looks = channel_looks(image)
    if not looks:
        return None
    each = [{"name": one.label, "colour": one.colour, "window": one.window} for one in looks]
    return {"axis": group[0], "of": each}


def windows_of(face: Face, path: str) -> list[tuple[float, float]] | None:
    """Return the numbers of each channel that are black and full, over the stack; None: too costly, or no channels.

    Raises:
        SourceError: it cannot be read.
    """
    return channel_windows(face.images[path]) if channels_of(face, path) is not None else None


def _image(face: Face, path: str) -> ShownImage | None:
    """Return the image whose levels are those of the pictures of an array."""
    image, array = face.images.get(path), face.arrays[path]
    view = FrameView.of(array)
    if image is None or is_masked(view):  # masked pixels are in the means of levels
        return None
    if [(k,) for k in view.shown] != list(image.how.axes[-2:]):
        return None
    if view.palette is not None and array.attrs.get("photometric") not in BY_NAME:
        return None  # its levels are means of numbers that stand for colours
    lead = [group for group in image.how.axes[:-2] if view.colour in group]
    return image if all(group[-1] == view.colour for group in lead) else None


def tile_bytes(face: Face, path: str, at: Sequence[int], level: int, box: Sequence[int], part: str) -> int:
    """Return the bytes of a box, or a little more, before it is read. Arguments and errors are those of `tile`."""
    view = checked_view(face.arrays[path], at)
    _check(face, path, view, level, box)
    pixel = max(4, sendable(part_of(np.zeros(1, view.array.dtype), part)).itemsize)
    return math.prod(_sizes(box)) * view.samples * pixel


def tile(
    face: Face, path: str, at: Sequence[int], level: int, box: Sequence[int], side: int = 1, part: str = "abs"
) -> tuple[np.ndarray, int]:
    """Read a box of a picture.

    Args:
        face, path: of the array.
        at: an index along each axis that is not shown.
        level: 0, the picture itself, or one of `levels_of`.
        box: y0, x0, y1, x1 in pixels of the level, half-open.
        side: pixels of the level, along y and x, that a number is the mean of; those that are not finite do not count.
        part: of complex numbers, see `vfs.pictures.small_frames.PARTS`.

    Returns: numbers that `sendable` has made, [rows, columns] or [rows, columns, samples]; and `side`.

    Raises:
        OptionError: there is no such box, or it is too large.
        SourceError: it cannot be read.
    """
    array = face.arrays[path]
    view = checked_view(array, at)
    _check(face, path, view, level, box)
    if level:
        values = _of_level(face, path, view, at, level, box)
    else:
        values = shown_part(view, at, range(box[0], box[2]), range(box[1], box[3]), part)
    made = binned(values, (side, side))
    return sendable(made if view.palette is None else np.rint(made).astype(np.uint8)), side


def thumbnail(face: Face, path: str, at: Sequence[int], most: int, whole: bool = False) -> tuple[np.ndarray, int, bool]:
    """Read a small picture: of the smallest version that is fine enough and at hand, else of the picture itself.

    At hand is what the file holds, and what was computed before and is in the cache.

    Args:
        most: rows and columns that it may have.
        whole: compute that version, which may cost a pass over the picture.

    Returns: as `vfs.page.views.picture`; and whether it is made of samples, and `whole` would make it of all pixels: of
        those of at most `PASS` bytes, in files of this machine.

    Raises: as `vfs.page.views.picture`.
    """
    array, image = face.arrays[path], _image(face, path)
    view, better = checked_view(array, at), False
    if image is not None and len(image.levels) > 1:
        stored = array.backend.fetch is None and not array.dataset.computed
        better = stored and is_sampled(view) and frame_bytes(view) <= PASS
        for level in reversed(range(1, len(image.levels))):
            sizes, source = image.levels[level].shape[-2:], image.levels[level]
            if max(sizes) < most:
                continue
            box = _region(image, view, at, level, (0, 0, *sizes))
            if (whole and better) or ready(source) or source.held(box):
                return *tile(face, path, at, level, (0, 0, *sizes), -(-max(sizes) // most)), False
    return *picture(array, at, most), better


def _of_level(face: Face, path: str, view: FrameView, at: Sequence[int], level: int, box: Sequence[int]) -> np.ndarray:
    """Read a box of a level, colours last.

    Raises:
        SourceError: it cannot be read.
    """
    image = _image(face, path)
    assert image is not None
    values = image.levels[level].read(_region(image, view, at, level, box)).reshape(-1, *_sizes(box))
    if view.colour is not None:
        return np.moveaxis(values, 0, -1)
    return values[0] if view.palette is None else view.coloured(values[0])


def _region(image: ShownImage, view: FrameView, at: Sequence[int], level: int, box: Sequence[int]) -> Region:
    """Return the elements of a level that a box of a picture is. It may have fewer planes than the picture's array."""
    lead = [_along(view, group, dict(zip(view.where, at, strict=True))) for group in image.how.axes[:-2]]
    for k, (planes, of) in enumerate(zip(image.levels[level].shape[:-2], image.levels[0].shape[:-2], strict=True)):
        if planes < of:
            plane = lead[k][0] * planes // of
            lead[k] = plane, plane + 1
    return Region.box([*(a for a, _ in lead), box[0], box[1]], [*(b for _, b in lead), box[2], box[3]])


def _sizes(box: Sequence[int]) -> tuple[int, int]:
    return box[2] - box[0], box[3] - box[1]


def _along(view: FrameView, group: tuple[int, ...], at: dict[int, int]) -> tuple[int, int]:
    """Return which elements along an axis of the image a picture is of: one, or all of its colours."""
    shape = [view.array.shape[k] for k in group]
    first = int(np.ravel_multi_index([at.get(k, 0) for k in group], shape))
    return first, first + (shape[-1] if group[-1] == view.colour else 1)


def _check(face: Face, path: str, view: FrameView, level: int, box: Sequence[int]) -> None:
    """Check that there is a box.

    Raises:
        OptionError: there is none, or it is too large.
    """
    if len(view.sizes) != 2:
        raise OptionError(f"level: {view.array.dataset.path} has no rows and columns")
    sizes: Sequence[int] = view.sizes
    if level:
        known = levels_of(face, path)
        if level >= len(known):
            raise OptionError(f"level={level}: {view.array.dataset.path} has {max(1, len(known))}, from 0 on")
        sizes = known[level]["shape"]
    y0, x0, y1, x1 = box
    if not (0 <= y0 < y1 <= sizes[0] and 0 <= x0 < x1 <= sizes[1]):
        raise OptionError(f"box={','.join(map(str, box))}: expected y0,x0,y1,x1 in {sizes[0]} x {sizes[1]} pixels")
    if math.prod(_sizes(box)) * view.samples > MAX_NUMBERS:
        raise OptionError(
            f"box={','.join(map(str, box))}: expected at most {MAX_NUMBERS >> 20} Mi numbers; ask for less"
        )
