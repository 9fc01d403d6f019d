"""Checks that a set can be shown as any scan."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence

import numpy as np

from vfs.api.arrays import VirtualArray


def same(got: np.ndarray, twin: np.ndarray) -> None:
    """Check that an array equals its twin, with the twin's shape, and its dtype in native byte order."""
    assert got.shape == twin.shape
    assert got.dtype == twin.dtype.newbyteorder("=")
    np.testing.assert_array_equal(got, twin)


def check_arranged(opened: Callable[..., VirtualArray], frames: np.ndarray, blank: np.ndarray) -> None:
    """Check nav_shape, sync_offset in both directions, roi, and line_skip.

    Args:
        opened: opens the array with these options.
        frames: what is stored, [n, ...], in its order.
        blank: a frame that is not stored.
    """
    n = len(frames)

    def shifted(offset: int, count: int) -> np.ndarray:
        return np.stack([frames[i + offset] if 0 <= i + offset < n else blank for i in range(count)])

    for nav in ((n,), (max(1, n - 1),), (n + 3,), (2, n), (1, 2, n)):
        for offset in (0, 1, -1, n, -n - 2):
            shown = opened(nav_shape=nav, sync_offset=offset)
            same(shown[...], shifted(offset, math.prod(nav)).reshape(nav + frames.shape[1:]))
    mask = (np.arange(n) % 3 == 1) | (np.arange(n) == 0)
    same(opened(nav_shape=(n,), roi=mask)[...], frames[mask])
    same(opened(nav_shape=(n,), roi=[n - 1, 0, 0])[...], frames[[n - 1, 0, 0]])
    same(opened(nav_shape=(n,), roi=mask, sync_offset=1)[...], shifted(1, n)[mask])
    same(opened(nav_shape=(n + 1,), sync_offset=-1, roi=[n, 0])[...], np.stack([frames[n - 1], blank]))
    lines, columns = 2, max(1, n // 2 - 1)
    skipping = np.arange(lines * columns).reshape(lines, columns) + 3 * np.arange(lines)[:, None]
    for offset in (0, 1, -2):
        kept = [frames[i] if 0 <= i < n else blank for i in (skipping + offset).ravel().tolist()]
        shown = opened(nav_shape=(lines, columns), line_skip=3, sync_offset=offset)
        same(shown[...], np.stack(kept).reshape(lines, columns, *frames.shape[1:]))
    picked = opened(nav_shape=(lines, columns), line_skip=3, roi=[lines * columns - 1, 0])
    last = columns + 3 + columns - 1
    same(picked[...], np.stack([frames[last] if last < n else blank, frames[0]]))


def check_axes(opened: Callable[..., VirtualArray], twin: np.ndarray, dims: Sequence[str], nav: int) -> None:
    """Check that axes come in another order, turned over, and in another split into scan and frame.

    Args:
        opened: opens the array with these options.
        twin: its elements; dims: names of its axes, of which the first `nav` are navigation axes.
    """

    def check(order: Sequence[int], over: Collection[int], bar: int | None) -> None:
        words = [f"-{dims[axis]}" if axis in over else dims[axis] for axis in order]
        text = ",".join(words) if bar is None else f"{','.join(words[:bar])}|{','.join(words[bar:])}"
        shown = opened(axes=text)
        wanted = np.flip(twin, tuple(over)).transpose(order)
        assert shown.dims == tuple(dims[axis] for axis in order)
        same(shown[...], wanted)
        cut = tuple(slice(n // 3, n // 3 + 2) for n in wanted.shape)
        same(shown[cut], wanted[cut])

    axes = list(range(len(dims)))
    scan, frame = axes[:nav], axes[nav:]
    check([*scan, *frame[::-1]], frame[:1], None)  # a frame turned by a right angle
    check(axes, frame[:-1], None)
    check([*scan[::-1], *frame], scan[:1], None)
    check([*frame, *scan], axes[-1:], len(frame))  # what was a frame is the scan
    check(axes, (), len(axes))
