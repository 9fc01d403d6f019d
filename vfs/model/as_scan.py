"""Shows the frames of an array as another scan: in another shape, from another frame on, or some of them only."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from operator import index
from typing import Any

import numpy as np

from vfs.errors import OptionError
from vfs.model import calibration
from vfs.model.layout import BlockLayout, Layout, Scan, altered
from vfs.model.region import Region
from vfs.model.scan_shape import check_line_skip, flat_positions, unequal
from vfs.model.stored import Absence, StoredArray, nav_dims
from vfs.model.wording import option, option_names
from vfs.model.written import Written

_FAR = 1 << 60
"""An offset beyond any number of frames: everything is blank."""


def as_scan(array: StoredArray, scan: Scan) -> StoredArray:
    """Return an array that shows the same frames as another scan.

    Args:
        scan: which; its `chosen` may also be a mask, bool in the shape of the scan, whose frames come in C order.

    Raises:
        OptionError: the array has no navigation axes, or the scan does not fit its frames, or shows a selection of
            frames already that only `chosen` applies to.
    """
    if not scan.options:
        return array
    scan = _fitting(array, scan)
    layout = array.layout.arranged(scan, array.nav_ndim)
    nav = scan.shown(array.shape[: array.nav_ndim])
    shape = nav + array.shape[array.nav_ndim :]
    return altered(
        array,
        layout=layout,
        shape=shape,
        dims=_dims(array, scan, len(nav)),
        nav_ndim=len(nav),
        block=_block(array, scan, nav),
        attrs=_still_calibrated(array, scan),
        absent=_absent(array, scan, layout),
        **_selection(array, scan),
        written=_written(array, scan, layout, shape),
    )


def _fitting(array: StoredArray, scan: Scan) -> Scan:
    """Return the scan with flat positions, and with an offset that fits into 64 bits.

    Raises: what `as_scan` raises.
    """
    if array.nav_ndim == 0:
        frame = " x ".join(f"{n:,}" for n in array.shape) or "one number"
        raise OptionError(
            f"{option_names(*scan.options)}: for a scan or a series of frames, and {array.path} is a single one of"
            f" {frame}; a glob names several files"
        )
    nav = scan.over(array.shape[: array.nav_ndim])
    whole = nav + array.shape[array.nav_ndim :]
    if math.prod(whole) * array.dtype.itemsize >= 1 << 63:
        raise OptionError(f"{option(nav_shape=nav)}: an array of {whole} has more bytes than can be counted")
    try:
        sync_offset = max(-_FAR, min(_FAR, index(scan.sync_offset)))
    except TypeError:
        raise OptionError(f"{option(sync_offset=scan.sync_offset)}: expected a number of frames") from None
    if scan.line_skip:
        check_line_skip(array, nav, scan.line_skip)
    chosen = None if scan.chosen is None else flat_positions(scan.chosen, nav)
    if array.chosen is not None and scan.options != ("roi",):
        raise OptionError(
            f"{option_names('nav_shape', 'sync_offset', 'line_skip')} do not apply to an array that was opened with"
            f" {option_names('roi')}"
        )
    return replace(scan, sync_offset=sync_offset, chosen=chosen)


def _dims(array: StoredArray, scan: Scan, nav_ndim: int) -> tuple[str, ...]:
    """Return the names of the axes: those of a scan of as many axes as before stay."""
    same = nav_ndim == array.nav_ndim and scan.chosen is None
    return (array.dims[:nav_ndim] if same else nav_dims(nav_ndim)) + array.dims[array.nav_ndim :]


def _block(array: StoredArray, scan: Scan, nav: tuple[int, ...]) -> tuple[int, ...]:
    """Return the block that is cheapest to read whole: a frame, or several of a line where blocks have several."""
    if not array.block:
        return ()
    line = 1
    if scan.chosen is None and isinstance(array.layout, BlockLayout):
        line = min(array.layout.spans(array.nav_ndim), nav[-1])
    return (1,) * (len(nav) - 1) + (line,) * bool(nav) + array.block[array.nav_ndim :]


def _still_calibrated(array: StoredArray, scan: Scan) -> Mapping[str, Any]:
    """Return the attributes with the part of the calibration that holds for the scan, too."""
    said, n = array.attrs.get("calibration"), array.nav_ndim
    if not isinstance(said, Mapping):
        return array.attrs
    return {**array.attrs, "calibration": calibration.for_scan(said, array.dims[:n], array.shape[:n], scan)}


def _absent(array: StoredArray, scan: Scan, layout: Layout) -> tuple[Absence, ...]:
    """Return the absences of the array shown as the scan.

    Where the scan has another shape, or leaves frames out, its own frames are compared with those that are stored.

    Args:
        layout: that of the array shown so.
    """
    if not scan.line_skip and (scan.shape is None or layout.order is not None):
        return array.absent
    found = unequal(array, scan)
    said_by_it = {"frames_left_out"} | (set(found.counts) if found else set())
    kept = [one for one in array.absent if not one.of_scan or not one.counts.keys() <= said_by_it]
    if scan.line_skip:  # it says which frames are left out
        kept = [one for one in kept if one.counts.keys() != {"frames_left_out"}]
    return (*kept, *((found,) if found else ()))


def _selection(array: StoredArray, scan: Scan) -> dict[str, Any]:
    """Return which positions of which scan the array shows, as the fields `scan` and `chosen`."""
    if scan.chosen is None:
        return {"scan": None, "chosen": None}
    if array.chosen is not None:
        return {"scan": array.scan, "chosen": array.chosen[scan.chosen]}
    return {"scan": scan.over(array.shape[: array.nav_ndim]), "chosen": scan.chosen}


def _written(array: StoredArray, scan: Scan, layout: Layout, shape: tuple[int, ...]) -> Written:
    """Return how far the array is written, shown as the scan.

    Args:
        layout, shape: those of the array shown so.
    """
    written = array.written
    if written.over:
        over = 0 if scan.line_skip else max(0, written.over - scan.sync_offset)
        chosen = scan.chosen
        written = replace(written, over=over if chosen is None else int(np.append(chosen >= over, True).argmax()))
    if scan.shape is not None and written.head is not None:
        nav_ndim = len(shape) - len(array.shape) + array.nav_ndim
        written = replace(written, declared=layout.last_frame(Region.whole(shape), nav_ndim) + 1)
    return written
