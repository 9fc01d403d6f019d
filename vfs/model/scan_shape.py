"""Compares a scan shape with the frames that are stored, and a selection with the scan."""

from __future__ import annotations

import math

import numpy as np

from vfs.errors import OptionError
from vfs.model.layout import Layout
from vfs.model.wording import Word, option, option_names

MOST_BLANK = 1000
"""A scan shape is taken for a typing error if it has more than this many times the stored frames."""


def flat_positions(roi: np.ndarray, nav: tuple[int, ...]) -> np.ndarray:
    """Return the scan positions that a mask or a list selects, as int64[m], of a scan that has shape `nav`.

    Raises:
        OptionError: it does not fit the scan.
    """
    mask = np.asarray(roi)
    if mask.dtype == bool:
        if mask.shape != nav and mask.shape != (math.prod(nav),):
            raise OptionError(f"{option_names('roi')} has shape {mask.shape}, the scan has {nav}")
        mask = np.flatnonzero(mask)
    if mask.dtype.kind not in "iu" or mask.ndim != 1:
        raise OptionError(
            f"{option_names('roi')} is {mask.dtype}{list(mask.shape)}: expected a mask of bool or a list of flat scan"
            " positions"
        )
    chosen = mask.astype(np.int64)
    if len(chosen) == 0 or chosen.min() < 0 or chosen.max() >= math.prod(nav):
        found = f"{len(chosen)} positions from {chosen.min()} to {chosen.max()}" if len(chosen) else "no position"
        raise OptionError(
            f"{option_names('roi')} selects {found}; expected at least one, all from 0 to {math.prod(nav) - 1}"
        )
    return chosen


def check_line_skip(named: str, layout: Layout, nav_ndim: int, nav: tuple[int, ...], line_skip: int) -> None:
    """Check that frames can be left out behind each line of a scan.

    Args:
        named: what messages call the array; layout: its own; nav_ndim: navigation axes that it has so far.
        nav: shape of the scan; line_skip: frames behind each line.

    Raises:
        OptionError: the number is negative or absurd, there are no lines, or the files say where each frame is.
    """
    if not isinstance(line_skip, int | np.integer) or not 0 < line_skip < 1 << 31:
        raise OptionError(f"{option(line_skip=line_skip)}: expected a number of frames, 0 or more")
    if len(nav) < 2:
        raise OptionError(
            f"{option(line_skip=line_skip)}: the frames are one axis; give the scan without the frames to leave"
            f" out, as {option(nav_shape=(Word('LINES'), Word('COLUMNS')))}"
        )
    order = layout.order
    if order is not None and order.shape == nav and not order.line_skip:
        raise OptionError(
            f"{option(line_skip=line_skip)}: does not apply, since the files say the scan position of each"
            f" frame; with another {option_names('nav_shape')}, frames are in the order in which they were recorded"
        )
    stored = layout.stored_frames(nav_ndim)
    if math.prod(nav) > MOST_BLANK * max(1, stored):
        raise OptionError(f"{option(line_skip=line_skip)}: {compared(named, nav, stored, 0)}")


def compared(named: str, nav: tuple[int, ...], stored: int, line_skip: int) -> str:
    """Return words that compare a scan with the stored frames."""
    each = f" and {line_skip:,} behind each line" if line_skip else ""
    shape = ",".join(map(str, nav))
    return f"{named}: {option_names('nav_shape')} {shape} holds {math.prod(nav):,} frames{each}, {stored:,} are stored"
