"""Applies dark, gain and excluded pixels while data are read.

A corrected pixel is `(raw - dark) * gain`. `Corrections.dtype` says in which dtype it is
calculated: float32 as a rule, and float64 in three cases:

- pixels of the source have eight bytes;
- the caller asks for float64, or for integers of four bytes and more;
- pixels are only excluded, from integers of four bytes: then good pixels stay exact.

Where pixels are only excluded, and both the source and the requested dtype are integers, nothing is
converted: good pixels stay the same bit for bit.

An excluded pixel becomes the mean of the good pixels in the smallest square around it that has any,
after dark and gain. The mean of integers is exact and rounded to the nearest, halves to even. That
square may reach beyond the box that is read: `halo` says how much more must be read, so that
borders of chunks do not show. Frames that are not stored (blank ones) are not corrected: they read
as the fill value, as they do without corrections.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from vfs import kernels
from vfs.errors import OptionError
from vfs.model.region import Region
from vfs.model.wording import option_names

LOOKS = 1 << 30
"""Most pixels that are visited to find good neighbours of the excluded ones.

An excluded pixel costs eight for each pixel of its distance to the nearest good one. So many took two
seconds (one good pixel in the corner of 512 x 512)."""

SOURCES = 1 << 26
"""Most good pixels that replace excluded ones, each counted as often as it is used.

They take 256 MiB, and as many additions for each frame. A beam stop of 5 % of a frame needs 26 for each
of its pixels in 512 x 512, and is too much in 4096 x 4096."""


@dataclass(frozen=True, eq=False)
class Corrections:
    """Corrects every frame of an array. `of` makes it.

    Attributes:
        sig_shape: (h, w) of a frame; h is 1 for frames of one axis.
        dark, gain: float32 or float64 [h, w]; None if not given.
        pixels, begins, good: see `vfs.kernels.correct.neighbours`.
    """

    sig_shape: tuple[int, int]
    dark: np.ndarray | None
    gain: np.ndarray | None
    pixels: np.ndarray
    begins: np.ndarray
    good: np.ndarray

    @classmethod
    def of(
        cls, sig_shape: tuple[int, ...], stored: np.dtype, dark: Any = None, gain: Any = None, dead: Any = None
    ) -> Corrections | None:
        """Make corrections from arrays. Return None if there is nothing to correct.

        Args:
            sig_shape: shape of a frame, one or two axes.
            stored: dtype of the frames.
            dark, gain: numbers [sig_shape], or several frames [..., sig_shape], whose mean is
                taken.
            dead: bool[sig_shape], True for excluded pixels (also [1, sig_shape]); or int[n, axes],
                coordinates of excluded pixels.

        Raises:
            OptionError: shapes do not fit, too few pixels are left, or pixels are complex.
        """
        if dark is None and gain is None and dead is None:
            return None
        if len(sig_shape) not in (1, 2) or stored.kind == "c":
            raise OptionError(
                f"{option_names('dark', 'gain', 'dead')} apply to frames of one or two axes with real pixels, not to"
                f" {stored}{list(sig_shape)}"
            )
        shape = (1, sig_shape[0]) if len(sig_shape) == 1 else (sig_shape[0], sig_shape[1])
        first = None if dark is None else _image(dark, "dark", sig_shape).reshape(shape)
        factor = None if gain is None else _image(gain, "gain", sig_shape).reshape(shape)
        mask = _mask(dead, sig_shape)
        if mask.all():
            raise OptionError(f"{option_names('dead')}: every pixel is excluded; there is nothing to replace them with")
        far = kernels.correct.distances(mask.reshape(shape))
        found = None
        if 8 * int(far.sum(dtype=np.int64)) <= LOOKS:
            found = kernels.correct.neighbours(mask.reshape(shape), far, SOURCES)
        if found is None or len(found[2]) > SOURCES:
            raise OptionError(
                f"{option_names('dead')}: {np.count_nonzero(mask):,} of {mask.size:,} pixels are excluded, up to"
                f" {far.max():,} pixels from the nearest good one: too many to replace by their neighbours; in a mask,"
                " True (not 0) is what is excluded"
            )
        return cls(shape, first, factor, *found)

    def dtype(self, stored: np.dtype, asked: np.dtype | None = None) -> np.dtype:
        """Return the dtype that pixels are corrected in, before they are converted to `asked`.

        The rules are at the top of the module.

        Args:
            asked: dtype that the caller gets; None if it is the one returned here.
        """
        if asked is not None and asked.kind in "iub":
            if stored.kind in "iub" and self.dark is None and self.gain is None:
                return stored
            double = asked.itemsize >= 4
        elif asked is None:  # excluding pixels does not change the good ones
            double = stored.kind in "iu" and stored.itemsize >= 4 and self.dark is None and self.gain is None
        else:
            double = asked in (np.float64, np.complex128)
        return np.dtype(np.float64 if double or stored.itemsize == 8 else np.float32)

    def _images(self, made: np.dtype) -> tuple[np.ndarray, np.ndarray]:
        """Return dark and gain in a dtype; zeros and ones where they are not given."""
        found = self._converted.get(made)
        if found is None:
            with np.errstate(over="ignore"):  # beyond float32 is infinity
                dark = np.zeros(self.sig_shape, made) if self.dark is None else self.dark.astype(made, copy=False)
                gain = np.ones(self.sig_shape, made) if self.gain is None else self.gain.astype(made, copy=False)
            found = self._converted[made] = dark, gain
        return found

    @cached_property
    def _converted(self) -> dict[np.dtype, tuple[np.ndarray, np.ndarray]]:
        return {}

    def _within(self, low: tuple[int, int], high: tuple[int, int]) -> tuple[int, int]:
        """Return the excluded pixels in the rows of a box, as first and last (half-open) position in `pixels`."""
        width = self.sig_shape[1]
        return int(np.searchsorted(self.pixels, low[0] * width)), int(np.searchsorted(self.pixels, high[0] * width))

    def halo(self, low: tuple[int, int], high: tuple[int, int]) -> tuple[tuple[int, int], tuple[int, int]]:
        """Return the box to read for correcting the box `low` to `high` (half-open) of a frame."""
        if low == (0, 0) and high == self.sig_shape:
            return low, high
        first, last = self._within(low, high)
        width = self.sig_shape[1]
        x = self.pixels[first:last] % width
        wanted = np.flatnonzero((x >= low[1]) & (x < high[1])) + first
        if len(wanted) == 0:
            return low, high
        top, left = self._reach[:2, wanted].min(axis=1).tolist()
        bottom, right = self._reach[2:, wanted].max(axis=1).tolist()
        return (min(low[0], top), min(low[1], left)), (max(high[0], bottom + 1), max(high[1], right + 1))

    @cached_property
    def _reach(self) -> np.ndarray:
        """int32[4, n]: first line and column, last line and column of the good neighbours of every excluded pixel."""
        y, x = np.divmod(self.good, np.int32(self.sig_shape[1]))
        first, last = ([end.reduceat(axis, self.begins[:-1]) for axis in (y, x)] for end in (np.minimum, np.maximum))
        return np.stack([*first, *last])

    def corrector(
        self, low: tuple[int, int], shape: tuple[int, int], made: np.dtype
    ) -> Callable[[np.ndarray, np.ndarray], None]:
        """Return a function that corrects a cut-out of frames.

        Args:
            low: corner of the cut-out in the frame.
            shape: lines and columns of the cut-out.
            made: the dtype that `dtype` returned.

        Returns: a function of (raw as stored [n, pixels], out [n, pixels] of dtype `made`), both
            C-contiguous.
        """
        h, w = shape
        first, last = self._within(low, (low[0] + h, 0))
        only = self.dark is None and self.gain is None
        cut = (slice(low[0], low[0] + h), slice(low[1], low[1] + w))
        dark, gain = None, None
        if not only:
            dark, gain = (np.ascontiguousarray(image[cut]).reshape(-1) for image in self._images(made))

        def apply(raw: np.ndarray, out: np.ndarray) -> None:
            if only:
                np.copyto(out, raw, casting="unsafe")
            else:
                kernel = kernels.correct.dark_gain
                if raw.dtype.itemsize <= 2 and made == np.float32:
                    kernel = kernels.correct.dark_gain_single
                if raw.dtype == np.float16:  # numba has no float16
                    raw = raw.astype(np.float32)
                kernel(raw, dark, gain, out)
            if first < last:
                where = (self.pixels, self.begins, self.good, first, last, self.sig_shape[1], *low)
                frames = out.reshape(-1, h, w)
                if made.kind == "f":
                    kernels.correct.patch(frames, *where)
                else:
                    kernels.correct.patch_integers(frames.view(_PATCHED.get(made, made)), made == np.uint64, *where)

        return apply


_PATCHED: dict[np.dtype, np.dtype] = {np.dtype(np.bool_): np.dtype(np.uint8), np.dtype(np.uint64): np.dtype(np.int64)}
"""Dtype of pixels -> the dtype as which `patch_integers` sees their memory."""


def corrected_box(
    corrections: Corrections, tile: Region, nav_ndim: int
) -> tuple[Region, tuple[int, int], tuple[slice, ...]]:
    """Return the region to read for a tile, so that its excluded pixels can be replaced.

    Returns: (region with steps of 1 along the signal axes, (y, x) of its corner in the frame,
        slices that cut the tile out of the region).
    """
    sig = len(tile.start) - nav_ndim
    low = (0, *tile.start[nav_ndim:])[-2:]
    high = (1, *tile.stop[nav_ndim:])[-2:]
    a, b = corrections.halo((low[0], low[1]), (high[0], high[1]))
    start, stop = tile.start[:nav_ndim] + a[2 - sig :], tile.stop[:nav_ndim] + b[2 - sig :]
    inner = tuple(
        slice(o - s, e - s, step)
        for o, e, step, s in zip(
            tile.start[nav_ndim:], tile.stop[nav_ndim:], tile.step[nav_ndim:], start[nav_ndim:], strict=True
        )
    )
    return Region(start, stop, tile.step[:nav_ndim] + (1,) * sig), a, (slice(None),) * nav_ndim + inner


def check(name: str, shape: tuple[int, ...], dtype: np.dtype, sig_shape: tuple[int, ...]) -> None:
    """Refuse an image whose shape or dtype cannot fit the frames, before it is read.

    Args:
        name: dark, gain or dead.
        shape, dtype: shape and dtype of the image.

    Raises:
        OptionError: it does not fit.
    """
    count, tail = math.prod(shape[: len(shape) - len(sig_shape)]), shape[-len(sig_shape) :]
    if name == "dead":
        mask = tail == sig_shape and count == 1 and dtype.kind in "biuf"  # also [1, sig_shape], as many files have it
        coordinates = len(shape) == 2 and shape[1] == len(sig_shape) and dtype.kind in "iu"
        if mask and coordinates:
            raise OptionError(
                f"{option_names('dead')} is {dtype}{list(shape)}, which may be a mask of {list(sig_shape)} or as many"
                " coordinates: give a mask of bool (True is what is excluded)"
            )
        if not mask and not coordinates and 0 not in shape:
            raise OptionError(
                f"{option_names('dead')} is {dtype}{list(shape)}: expected a mask of {list(sig_shape)}, or"
                f" coordinates [n, {len(sig_shape)}]"
            )
    elif dtype.kind not in "biuf":
        raise OptionError(f"{option_names(name)} is {dtype}: expected numbers")
    elif tail != sig_shape or not count:
        raise OptionError(f"{option_names(name)} has shape {shape}, a frame has {sig_shape}")


def _array(given: Any, name: str) -> np.ndarray:
    try:
        return np.asarray(given)
    except (ValueError, MemoryError):  # lists of unequal lengths; a range of very many numbers
        raise OptionError(
            f"{name}: expected an array, a file or a name, found {type(given).__name__} that is no array"
        ) from None


def _image(given: Any, name: str, shape: tuple[int, ...]) -> np.ndarray:
    image = _array(given, name)
    check(name, image.shape, image.dtype, shape)
    if image.ndim > len(shape):  # several frames
        image = image.reshape(-1, *shape).mean(axis=0, dtype=np.float64)
    return np.ascontiguousarray(image, np.float32 if np.can_cast(image.dtype, np.float32) else np.float64)


def _mask(given: Any, shape: tuple[int, ...]) -> np.ndarray:
    if given is None:
        return np.zeros(shape, bool)
    mask = _array(given, "dead")
    check("dead", mask.shape, mask.dtype, shape)
    if mask.size and mask.shape[-len(shape) :] == shape:
        return np.ascontiguousarray(mask.reshape(shape) != 0)
    made = np.zeros(shape, bool)
    if mask.size:
        if mask.min() < 0 or (mask >= np.array(shape)).any():
            low, high = mask.min(axis=0).tolist(), mask.max(axis=0).tolist()
            raise OptionError(
                f"{option_names('dead')}: coordinates reach from {low} to {high}, a frame has {list(shape)}"
            )
        made[tuple(mask.T)] = True
    return made
