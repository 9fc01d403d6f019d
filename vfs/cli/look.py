"""Draws a frame of a data set for `vfs look`, with its statistics and a small histogram."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from vfs.cli.screen import Screen
from vfs.errors import printable
from vfs.model.units import readable, symbol
from vfs.pictures.frames import FrameView, Look, look
from vfs.pictures.picture import bars, contrast, shaded, shares
from vfs.sets.opening import OpenedSet

_HIGH = 4  # lines of a histogram
_BINS = 64


def frame_lines(group: OpenedSet, position: str | None, screen: Screen) -> Iterator[str]:
    """Draw a frame of a group's main array, and describe it, line by line.

    Args:
        position: "10,20", or a number that counts all frames; None: the middle of the scan,
            of one that is still being written the newest frame.
        screen: where the frame is drawn.

    Raises:
        OptionError: the scan has no such position.
        SourceError: the frame cannot be read.
    """
    array = group.main
    view = FrameView.of(array)
    head = array.dataset.written.head
    position = str(head - 1) if position is None and head is not None else position
    at = view.middle if position is None else view.position(position)
    sizes = (
        ", ".join(f"{array.dims[k]}: {array.shape[k]}" for k in range(array.ndim) if k not in view.where)
        or "one number"
    )
    index = f"[{', '.join(map(str, at))}]" if at and array.size else ""
    yield (
        f"{printable(f'{group.name} {array.dataset.title}')}{index}  {sizes} "
        f" {array.dtype}{', magnitudes' if array.dtype.kind == 'c' else ''}"
    )
    if not array.size:
        yield f"nothing to show: the array has shape {array.shape}"
        return
    yield from _where(view, at)
    seen = look(view, at, *screen.room)
    if not seen.stored:
        yield f"not stored in the files: reads as {array.fill}"
    yield from _drawn(view, seen, screen)
    yield from _figures(seen)
    if seen.count > 1 and seen.high > seen.low:
        yield from _histogram(seen, screen)


def picture(group: OpenedSet, position: tuple[int, ...], screen: Screen) -> str:
    """Draw a frame of a group's main array, without any text."""
    view = FrameView.of(group.main)
    return _pictured(view, look(view, position, *screen.room), screen)


def _where(view: FrameView, position: tuple[int, ...]) -> Iterator[str]:
    """Yield the position of the frame along each navigation axis, also in its unit if it is calibrated."""
    known = view.array.calibration
    places = []
    for axis, at in zip(view.where, position, strict=True):
        dim = view.array.dims[axis]
        steps, there = known.get(dim, {}), ""
        if steps.get("scale") is not None:
            times, unit = readable(steps["scale"], steps["unit"])
            there = f" ({(steps['offset'] + at * steps['scale']) * times:.6g} {symbol(unit)})".replace(" )", ")")
        places.append(f"{dim} {at} of 0 to {view.array.shape[axis] - 1}{there}")
    if places:
        yield ", ".join(places)


def _drawn(view: FrameView, seen: Look, screen: Screen) -> Iterator[str]:
    if not view.shown and view.colour is None:
        return
    if seen.picture.ndim == 1:
        yield from _plot(view, seen, screen)
    else:
        yield _pictured(view, seen, screen)


def _pictured(view: FrameView, seen: Look, screen: Screen) -> str:
    pixels = seen.picture[::-1] if view.upward else seen.picture
    if pixels.ndim == 3:
        whole = seen.full == 255 or view.palette is not None
        white = 255 if whole else contrast(pixels)[1]  # colours of 16 bits seldom reach the maximum
        return screen.shown(shaded(pixels, 0.0, white, 1.0))
    return screen.shown(shaded(pixels, *contrast(pixels)))


def _plot(view: FrameView, seen: Look, screen: Screen) -> Iterator[str]:
    """Draw values along one axis as bars."""
    rows, columns = max(4, min(16, screen.rows - 12)), max(16, screen.columns - 1)
    values = seen.picture
    if len(values) > columns:  # the screen has room for more pixels than characters
        values = np.fmax.reduceat(values, np.arange(columns) * len(values) // columns)
    base = min(0, seen.low)
    heights = np.nan_to_num(shares(values, base, seen.high))
    yield _number(seen.high)
    yield from bars(np.repeat(heights, max(1, columns // len(values))), rows, screen.blocks)
    yield f"{_number(base)} at the foot; {view.array.dims[view.shown[0]]} 0 to {view.sizes[0] - 1}"


def _figures(seen: Look) -> Iterator[str]:
    said = []
    if seen.count > seen.odd:
        said += [f"minimum {_number(seen.low)}", f"maximum {_number(seen.high)}", f"mean {seen.mean:.6g}"]
    if seen.full is not None:
        said.append(f"saturated {seen.saturated:,} (at {seen.full:,})")
    if seen.odd:
        said.append(f"not finite {seen.odd:,} of {seen.count:,}")
    yield ", ".join(said) + (f"; of {seen.share:.1%} of the frame, which is large" if seen.share < 1 else "")


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:.6g}"


def _histogram(seen: Look, screen: Screen) -> Iterator[str]:
    """Draw a histogram of the values, on a logarithmic scale: many pixels are dark and few are bright."""
    bins = min(_BINS, seen.high - seen.low + 1) if isinstance(seen.low, int) and isinstance(seen.high, int) else _BINS
    counts, _ = np.histogram(shares(seen.values, seen.low, seen.high), bins=bins, range=(0, 1))
    tall = np.log1p(counts) / max(1.0, math.log1p(counts.max()))
    wide = max(1, min(_BINS, screen.columns - 1) // bins)
    yield from bars(np.repeat(tall, wide), _HIGH, screen.blocks)
    low, high = _number(seen.low), _number(seen.high)
    yield f"{low}{high.rjust(max(len(high) + 1, bins * wide - len(low)))}"
