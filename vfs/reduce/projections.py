"""Reductions over some axes of the navigation: the largest value along z, of each channel by itself.

`vfs.Max(over="z")` of an array t, c, z, y, x is a result t, c, y, x. Frames of one position along the axes that are
kept are a group, which has buffers of its own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from operator import index
from typing import Any

import numpy as np

from vfs.engine.array import ArrayReader
from vfs.errors import OptionError
from vfs.model.wording import shown
from vfs.reduce.reduction import Buffers, FrameBlock, FrameType, Kernel, Reduction, Spec

Over = Mapping[str, slice]
"""Axes over which frames are reduced, with the positions along each that count."""

_APART = {"c", "z"}
"""Axes of images that are not reduced together with others, where nobody says over which: channels and sections."""


def over_of(given: Any) -> Over:
    """Return the axes that `over=` of a reduction names.

    Args:
        given: a name, several, or name -> slice, or (first, last), half-open.

    Raises:
        OptionError: it is something else.
    """
    try:
        named = dict.fromkeys([given] if isinstance(given, str) else given) if not isinstance(given, Mapping) else given
        if all(isinstance(name, str) for name in named):
            return {name: _range(part) for name, part in named.items()}
    except (TypeError, ValueError):
        pass
    raise OptionError(
        f"over={shown(given)}: expected names of axes, as in over='z' or over=('t', 'z'), or a range along each, as in"
        " over={'z': slice(3, 9)}"
    )


def _range(part: Any) -> slice:
    """Return the positions that a slice, or a pair of numbers, names; None: all."""
    if isinstance(part, slice):
        if part.step not in (None, 1):
            raise ValueError
        part = part.start, part.stop
    first, last = (None, None) if part is None else part
    return slice(None if first is None else index(first), None if last is None else index(last))


def projected(reduction: Reduction, bound: Reduction, frames: FrameType) -> Reduction:
    """Return a reduction that goes over the axes that it names.

    Args:
        reduction: as it was given; bound: prepared for these frames.

    Raises:
        OptionError: an axis is not there, or a range of it is empty.
    """
    over = over_of(getattr(reduction, "over", ()))
    if not over:
        return bound
    has = f"there are {', '.join(frames.nav_dims)}" if frames.nav else "there is one frame"
    ranges = []
    for name, part in over.items():
        if name not in frames.nav_dims:
            raise OptionError(f"no axis {shown(name)} to go over; {has}")
        length = frames.nav[frames.nav_dims.index(name)]
        ranges.append(range(length)[part])
        if not ranges[-1]:
            raise OptionError(f"{name}={part.start}:{part.stop}: is empty; the axis {name} has {length} positions")
    if len(over) == len(frames.nav) and all(len(one) == n for one, n in zip(ranges, frames.nav, strict=False)):
        return bound  # of all frames
    return Projection(bound, frames, dict(zip(over, ranges, strict=True)))


def check_axes(array: ArrayReader, reductions: Mapping[str, Any]) -> None:
    """Refuse to reduce all channels, or sections, and other axes in one without a word.

    Raises:
        OptionError: there are several axes, and a reduction does not say over which it goes.
    """
    nav = array.dims[: array.dataset.nav_ndim]
    if len(nav) < 2 or _APART.isdisjoint(nav):
        return
    for name, reduction in reductions.items():
        if getattr(reduction, "over", None) == ():
            kind = type(reduction).__name__.lower()
            choices = ", ".join(f"{name}={kind}({dim})" for dim in nav)
            raise OptionError(f"{name}={kind}(): over which axes? {choices}; over all: {name}={kind}({', '.join(nav)})")


class Projection(Kernel):
    """Takes the frames of each group into buffers of its own.

    Args:
        inner: the reduction, prepared for the frames; of kind "sig".
        over: the axes that it goes over, with the positions that count.
    """

    kind = "single"

    def __init__(self, inner: Reduction, frames: FrameType, over: Mapping[str, range]) -> None:
        if inner.kind != "sig":
            raise OptionError(f"{type(inner).__name__} has a value for each frame, and goes over no axes")
        self.inner, self.frames, self._over = inner, frames, over
        self.kept = [k for k, dim in enumerate(frames.nav_dims) if dim not in over]
        self.shape = tuple(frames.nav[k] for k in self.kept)
        self.dims = (*(frames.nav_dims[k] for k in self.kept), *frames.dims, *inner.dims)
        self.units, self.takes = inner.units, inner.takes
        self.tile_bytes, self.tile_frames = inner.tile_bytes, inner.tile_frames
        self._ranges = [(k, over[dim]) for k, dim in enumerate(frames.nav_dims) if dim in over]

    def bound(self, frames: FrameType) -> Reduction:
        return Projection(self.inner.bound(frames), frames, self._over)

    def rows(self, frames: FrameType) -> tuple[int, int]:
        return self.inner.rows(frames) if isinstance(self.inner, Kernel) else (0, frames.steps)

    def buffers(self, frames: FrameType) -> Mapping[str, Spec]:
        found: dict[str, Spec] = {}
        for name, (kind, dtype, extra) in self.inner.buffers(frames).items():
            lead = frames.shape if kind == "sig" else ()
            found[name] = ("single", dtype, (math.prod(self.shape), *lead, *extra))
        return found

    def take(self, block: FrameBlock, buffers: Buffers, shared: Buffers) -> None:
        groups = self._groups(block.at + block.origin)
        order = np.argsort(groups, kind="stable")  # frames of a group keep their order
        groups = groups[order]
        edges = [0, *(np.flatnonzero(np.diff(groups)) + 1).tolist(), len(groups)]
        for first, last in pairwise(edges):
            group = int(groups[first])
            if group >= 0:
                which = order[first:last]
                elements = None if block.elements is None else block.elements[which]
                part = replace(block, places=block.places[which], at=block.at[which], elements=elements)
                self.inner.take(part, _of(buffers, group), shared)

    def _groups(self, places: np.ndarray) -> np.ndarray:
        """Return int64[n]: the group of each frame, by its place in the selection; -1: it does not count."""
        flat = places if self.frames.positions is None else self.frames.positions[places]
        at = np.unravel_index(flat, self.frames.nav)
        groups = np.zeros(len(flat), np.int64)
        for k in self.kept:
            groups = groups * self.frames.nav[k] + at[k]
        for k, part in self._ranges:
            groups[(at[k] < part.start) | (at[k] >= part.stop)] = -1
        return groups

    def merge(self, into: Buffers, other: Buffers) -> None:
        for group in range(math.prod(self.shape)):
            self.inner.merge(_of(into, group), _of(other, group))

    def finish(self, buffers: Buffers) -> np.ndarray:
        made: np.ndarray | None = None
        for group in range(math.prod(self.shape)):
            one = np.asarray(self.inner.finish(_of(buffers, group)))
            if made is None:
                made = np.empty((math.prod(self.shape), *one.shape), one.dtype)
            made[group] = one
        assert made is not None, "an axis without positions"
        return made.reshape(*self.shape, *made.shape[1:])

    def calibration(self) -> dict[str, dict[str, Any]]:
        return self.inner.calibration()


def _of(buffers: Buffers, group: int) -> dict[str, np.ndarray]:
    """Return the buffers of a group, also those of single numbers, as what can be written to."""
    return {name: buffer[group, ...] for name, buffer in buffers.items()}
