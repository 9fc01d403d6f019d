"""Sums of the pixels of each frame under masks, prepared for frames of one kind.

Pixels outside of a mask do not count, whatever they hold: a NaN there is no NaN in the result. Sums
of integers are exact.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from vfs.kernels.reduce import in_frames as kernels
from vfs.reduce import masks
from vfs.reduce.complex_parts import JoinedParts, join_to, parts_of
from vfs.reduce.reduction import (
    Buffers,
    FrameBlock,
    FrameType,
    Kernel,
    Spec,
    Takes,
    dtype_of,
    fits,
    real_pixels,
    short_of,
    taken_as,
    total_of,
)

SPARSE = 16
"""A mask of weights with fewer than one pixel in so many that is not 0 is taken as a list of these."""


def masked_sums(name: str, chosen: np.ndarray, frames: FrameType, dtype: Any, alone: bool = True) -> Kernel:
    """Make `MaskedSums`, which has these arguments; of complex pixels, with a mask for each part."""
    if frames.dtype.kind != "c":
        return MaskedSums(name, chosen, frames, dtype, alone)
    taken = parts_of(frames)
    parts = np.zeros((len(chosen), 2, *taken.shape), bool)
    parts[:, 0, ..., 0] = parts[:, 1, ..., 1] = chosen
    inner = MaskedSums(name, parts.reshape(-1, *taken.shape), taken, None, alone=False)
    return JoinedParts(inner, taken, join_to(dtype, alone), () if alone else inner.dims)


def complex_sums(masks: Iterable[np.ndarray], dtype: Any, frames: FrameType, alone: bool) -> Kernel:
    """Make sums of pixels times weights, of which one, or both, are complex.

    Args:
        masks: each [pixels].
        dtype: of the result; None: complex128. With complex64 floats are also calculated in float32.
        alone: there is one mask, and no axis of masks.
    """
    join, made = join_to(dtype, alone), np.dtype(np.float64 if dtype is None else taken_as(dtype_of(dtype)))
    pairs = frames.dtype.kind == "c"
    taken = parts_of(frames) if pairs else frames
    weights = (np.asarray(part, made) for one in masks for part in _weights_of_parts(one, pairs))
    inner = WeightedSums(weights, made, made, taken, alone=False)
    return JoinedParts(inner, taken, join, () if alone else inner.dims)


def _weights_of_parts(mask: np.ndarray, pairs: bool) -> list[np.ndarray]:
    """Make the weights whose sums are the real and the imaginary part, of real pixels or of pairs of parts."""
    if not pairs:
        return [mask.real, mask.imag]
    return [np.stack(both, -1).reshape(-1) for both in ((mask.real, -mask.imag), (mask.imag, mask.real))]


class MaskedSums(Kernel):
    """Sums under masks of yes and no.

    Args:
        name: for messages.
        chosen: bool[m, *frame].
        dtype: of the result, None: as it is added up.
        alone: there is one mask, and no axis of masks.

    Attributes:
        masks: runs and words of each (`vfs.reduce.masks`), for frames whose pixels come in order;
            turned: the same for those whose pixels come backwards, so many at a time.
    """

    units = None
    takes = Takes.PLACES | Takes.TURNED

    def __init__(self, name: str, chosen: np.ndarray, frames: FrameType, dtype: Any, alone: bool = True) -> None:
        real_pixels(name, frames)
        self.name, self.dtype, self.alone = name, dtype, alone
        self.total = total_of(frames.dtype, dtype, name)
        pixels = taken_as(frames.dtype)
        flat = chosen.reshape(len(chosen), -1)
        self.masks = [(masks.runs_of(mask), masks.words_of(mask, pixels)) for mask in flat]
        self.turned = {1: self.masks}
        self.part = np.empty(0, short_of(pixels, self.total))
        self.seen = masks.rows_of(np.asarray(chosen.any(axis=0)))
        self.dims = () if alone else ("mask",)

    def rows(self, frames: FrameType) -> tuple[int, int]:
        return self.seen

    def buffers(self, frames: FrameType) -> Mapping[str, Spec]:
        return {"sums": ("nav", self.total, (len(self.masks),))}

    def take(self, block: FrameBlock, buffers: Buffers, shared: Buffers) -> None:
        sums, overflow = shared["sums"], np.zeros(1, np.uint8)
        if block.turned not in self.turned:  # two threads that do it at once make the same
            self.turned[block.turned] = [masks.turned(*one, block.turned) for one in self.masks]
        for column, (runs, words) in enumerate(self.turned[block.turned]):
            how = runs, words, block.at, sums, column, self.part, overflow
            kernels.masked_sums(block.places, block.like, block.order, *how)
        fits(overflow, self.name, self.total)

    def finish(self, buffers: Buffers) -> np.ndarray:
        sums = buffers["sums"]
        made = sums if self.dtype is None else sums.astype(self.dtype, copy=False)
        return made[:, 0] if self.alone else made


class WeightedSums(Kernel):
    """Sums of pixels times weights.

    Args:
        masks: each [pixels], in the dtype that is calculated in.
        inner: this dtype; made: that of the result.
        alone: there is one mask, and no axis of masks.
    """

    def __init__(
        self, masks: Iterable[np.ndarray], inner: np.dtype, made: np.dtype, frames: FrameType, alone: bool
    ) -> None:
        self.made, self.alone = made, alone
        self.lists: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        self.full: list[int] = []
        ends, full, held = [], [], []
        for column, one in enumerate(masks):
            some = one != 0
            count = int(np.count_nonzero(some))
            ends.append((int(some.argmax()), len(some) - int(some[::-1].argmax())) if count else (0, 1))
            if count * SPARSE < frames.size:
                where = np.flatnonzero(some)
                self.lists[column] = where, np.ascontiguousarray(one[where])
            else:
                self.full.append(column)
                full.append(one)
                held.append(count)
        self.count = len(ends)
        if len(full) % kernels.GROUP > 1:  # four masks take half as long as three, one by one
            full += [np.zeros(frames.size, inner)] * (-len(full) % kernels.GROUP)
        self.weights = np.stack(full) if full else np.empty((0, frames.size), inner)
        self.span = _around([ends[column] for column in self.full])
        self.holed = [k for k, count in enumerate(held) if count < self.span[1] - self.span[0]]
        pitch, seen = frames.size // frames.steps, _around(ends)
        self.seen = seen[0] // pitch, (seen[1] - 1) // pitch + 1
        self.dims = () if alone else ("mask",)

    def rows(self, frames: FrameType) -> tuple[int, int]:
        return self.seen

    def buffers(self, frames: FrameType) -> Mapping[str, Spec]:
        return {"sums": ("nav", self.weights.dtype, (self.count,))}

    def take(self, block: FrameBlock, buffers: Buffers, shared: Buffers) -> None:
        sums, (places, like, order) = shared["sums"], (block.places, block.like, block.order)
        for column, (where, weights) in self.lists.items():
            kernels.listed_sums(places, like, order, where, weights, block.at, sums, column)
        if not self.full:
            return
        made = np.empty((len(block), len(self.weights)), sums.dtype)
        kernels.weighted_sums(places, like, order, *self.span, self.weights, np.arange(len(block)), made, 0)
        if like.dtype.kind == "f":
            for k in self.holed:  # 0 times NaN: these frames again, without the pixels that do not count
                odd = np.flatnonzero(~np.isfinite(made[:, k]))
                if len(odd):
                    where = np.flatnonzero(self.weights[k])
                    kernels.listed_sums(places[odd], like, order, where, self.weights[k, where], odd, made, k)
        sums[block.at[:, None], self.full] = made[:, : len(self.full)]

    def finish(self, buffers: Buffers) -> np.ndarray:
        sums = buffers["sums"].astype(self.made, copy=False)
        return sums[:, 0] if self.alone else sums


def _around(spans: list[tuple[int, int]]) -> tuple[int, int]:
    """Find the span that holds all spans; 0, 1 where there are none."""
    return min((a for a, _ in spans), default=0), max((b for _, b in spans), default=1)
