"""Compares a scan shape with the frames that are stored, and a selection with the scan."""

from __future__ import annotations

import math

import numpy as np

from vfs.errors import OptionError
from vfs.model.layout import Scan
from vfs.model.layout.scan_order import surplus
from vfs.model.stored import Absence, StoredArray
from vfs.model.wording import Word, are, option, option_names

MAX_BLANK = 1000
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


def check_line_skip(array: StoredArray, nav: tuple[int, ...], line_skip: int) -> None:
    """Check that frames can be left out behind each line of a scan.

    Args:
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
    order = array.layout.order
    if order is not None and order.shape == nav and not order.line_skip:
        raise OptionError(
            f"{option(line_skip=line_skip)}: does not apply, since the files say the scan position of each"
            f" frame; with another {option_names('nav_shape')}, frames are in the order in which they were recorded"
        )
    stored = array.layout.stored_frames(array.nav_ndim)
    if math.prod(nav) > MAX_BLANK * max(1, stored):
        raise OptionError(f"{option(line_skip=line_skip)}: {_compared(array.named, nav, stored, 0)}")


def unequal(array: StoredArray, scan: Scan) -> Absence | None:
    """Report the frames that a scan leaves out or shows blank; None if it fits the stored frames.

    Frames that `sync_offset` skips or adds do not count, nor do those that `line_skip` leaves
    out. The last line may lack these.
    """
    nav, line_skip = scan.over(array.shape[: array.nav_ndim]), scan.line_skip
    stored = array.layout.stored_frames(array.nav_ndim)
    shown, least, most = math.prod(nav), stored - max(0, scan.sync_offset), stored - min(0, scan.sync_offset)
    lines, left = divmod(most, nav[-1] + line_skip) if line_skip else (0, most)
    held = lines * nav[-1] + (min(left, nav[-1]) if line_skip else left)
    said = _compared(array.named, nav, stored, line_skip)
    if shown > held and array.written.head is None:
        blank = shown - held
        beyond = shown > MAX_BLANK * max(1, stored)
        return Absence(
            f"{said}: {are(blank)} blank",
            OptionError if beyond else None,
            "shows them so",
            {"frames_missing": blank},
        )
    more = least - shown - shown // nav[-1] * line_skip
    if more > 0:
        hint = "" if line_skip else surplus(nav, least)
        return Absence(f"{said}: {are(more)} not shown{hint}", counts={"frames_left_out": more})
    return None


def _compared(named: str, nav: tuple[int, ...], stored: int, line_skip: int) -> str:
    """Return words that compare a scan with the stored frames."""
    each = f" and {line_skip:,} after each line" if line_skip else ""
    shape = ",".join(map(str, nav))
    return f"{named}: {option_names('nav_shape')} {shape} holds {math.prod(nav):,} frames{each}, {stored:,} are stored"
