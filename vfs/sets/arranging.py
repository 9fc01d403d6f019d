"""Shows the arrays of a set as the options say: another scan shape, another order of axes, another calibration.

The main array is shown so, and companions that have a number for each of its scan positions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from vfs.errors import OptionError
from vfs.model import calibration
from vfs.model.as_scan import as_scan
from vfs.model.axis_order import AxisOrder, axis_order
from vfs.model.layout import FrameLayout, Scan, altered, mirrored, permuted
from vfs.model.metadata import Term
from vfs.model.open_options import OpenOptions
from vfs.model.options import shape_option
from vfs.model.stored import BOTTOM_FIRST, TOP_FIRST, FrameImage, StoredArray
from vfs.model.wording import option, option_names, shown

_TURNED = {BOTTOM_FIRST: TOP_FIRST, TOP_FIRST: BOTTOM_FIRST}


class Arranged(NamedTuple):
    """An array as it is shown.

    Attributes:
        dataset: the array.
        order: order of the axes that its reader has to make; None: the layout has it already.
    """

    dataset: StoredArray
    order: AxisOrder | None = None


def arranged(
    datasets: Sequence[StoredArray], main: StoredArray, options: OpenOptions, as_stored: bool
) -> dict[str, Arranged]:
    """Return the arrays of a set as they are shown, by path.

    Args:
        datasets: the arrays; main: the main one.
        as_stored: frames must be read as they are stored, since corrections are.

    Raises:
        OptionError: an option does not fit the main array.
    """
    nav = main.nav_ndim
    shape = None if options.nav_shape is None else shape_option(options.nav_shape, "nav_shape", option)
    scan = Scan(shape, options.sync_offset, options.roi, options.line_skip)

    def goes_along(dataset: StoredArray) -> bool:
        return dataset.companion and nav > 0 and dataset.nav_ndim == nav and dataset.shape[:nav] == main.shape[:nav]

    def scan_of(one: StoredArray) -> Scan:  # a virtual image has no values for skipped frames
        has_them = not scan.line_skip or one.layout.stored_frames(nav) == main.layout.stored_frames(nav)
        return scan if has_them else replace(scan, line_skip=0)

    found = {one.path: Arranged(one) for one in datasets}
    along = [one for one in datasets if one is main or goes_along(one)]
    if scan.options:
        found |= {one.path: Arranged(as_scan(one, scan_of(one))) for one in along}
    if options.axes is not None:
        found |= _in_order(found, main.path, [one.path for one in along], options.axes, as_stored)
    if options.calibration is not None:
        said = calibration.asked(options.calibration)
        _check_names(said, found[main.path])
        found |= {one.path: _calibrated(found[one.path], said) for one in along}
    return found


def _in_order(
    arrays: Mapping[str, Arranged], main: str, along: Sequence[str], text: str, as_stored: bool
) -> dict[str, Arranged]:
    """Put axes in order: of the main array, and of companions that have all axes of its scan and no others first."""
    first = arrays[main].dataset
    order = axis_order(text, first.dims, first.nav_ndim)
    found = {main: _turned(first, order, as_stored)}
    for path in along:
        dataset = arrays[path].dataset
        own = _of_companion(order, first, dataset)
        if path != main and own is not None:
            found[path] = _turned(dataset, own, False)
    return found


def _of_companion(order: AxisOrder, main: StoredArray, dataset: StoredArray) -> AxisOrder | None:
    """Return the order of a companion's axes; None where the scan of the main array is no longer its scan."""
    nav = main.nav_ndim
    if order.nav_ndim != nav or {*order.axes[:nav]} != {*range(nav)}:
        return None
    rest = range(nav, len(dataset.dims))
    if {*order.dims[:nav]} & {*dataset.dims[nav:]}:
        return None
    return AxisOrder(
        (*order.axes[:nav], *rest),
        (*order.flipped[:nav], *(False for _ in rest)),
        (*order.dims[:nav], *dataset.dims[nav:]),
        nav,
    )


def _turned(dataset: StoredArray, order: AxisOrder, as_stored: bool) -> Arranged:
    """Return an array with its axes in order, by its layout where that can say it."""
    layout = None if as_stored else _layout(dataset, order)
    about = {"attrs": _attributes(dataset, order), **_images(dataset, order), "terms": _terms(dataset, order)}
    if layout is None:
        return Arranged(altered(dataset, **about), order)
    shape = tuple(dataset.shape[axis] for axis in order.axes)
    block = tuple(dataset.block[axis] for axis in order.axes) if dataset.block else ()
    how: dict[str, Any] = {"shape": shape, "block": block, "dims": order.dims, "nav_ndim": order.nav_ndim}
    return Arranged(altered(dataset, layout=layout, **how, **about))


def _layout(dataset: StoredArray, order: AxisOrder) -> Any:
    """Return the layout of an array whose axes are in order; None where its reader has to put them in order."""
    nav, layout = dataset.nav_ndim, dataset.layout
    if not order.moves and order.nav_ndim == nav:
        return layout
    if type(layout) is not FrameLayout or order.nav_ndim != nav or order.axes[:nav] != tuple(range(nav)):
        return None
    sig, over = [axis - nav for axis in order.axes[nav:]], order.flipped[nav:]
    lines = sig[-1:] == [len(sig) - 1] and not over[-1]  # words hold pixels of a row
    if any(order.flipped[:nav]) or not (lines or layout.word_pixels == 1):
        return None
    pieces = permuted(layout.pieces, sig)
    for axis, flipped in enumerate(over):
        pieces = mirrored(pieces, axis) if flipped else pieces
    return altered(layout, sig_shape=tuple(layout.sig_shape[axis] for axis in sig), pieces=pieces)


def _images(dataset: StoredArray, order: AxisOrder) -> dict[str, FrameImage | None]:
    """Return mask and background of frames whose axes are in order; None where other axes are a frame then."""
    frame = [axis - dataset.nav_ndim for axis in order.axes[order.nav_ndim :]]
    mask, background = dataset.pixel_mask, dataset.background
    flipped = order.flipped[order.nav_ndim :]
    return {
        "pixel_mask": mask and mask.among(frame, flipped),
        "background": background and background.among(frame, flipped),
    }


def _terms(dataset: StoredArray, order: AxisOrder) -> tuple[Term, ...]:
    """Return the terms of an array whose axes are in order; not that of the beam's centre where rows and columns are
    others then.
    """
    stay = order.axes[-2:] == (len(order.axes) - 2, len(order.axes) - 1) and not any(order.flipped[-2:])
    return tuple(term for term in dataset.terms if stay or term.name != "beam_center")


def _attributes(dataset: StoredArray, order: AxisOrder) -> dict[str, Any]:
    """Return the attributes of an array whose axes are in order: calibration, and which row is at the top."""
    attrs = dict(dataset.attrs)
    if isinstance(attrs.get("calibration"), Mapping):
        attrs["calibration"] = order.calibrated(attrs["calibration"], dataset.dims, dataset.shape)
    over = {dataset.dims[axis] for axis, flipped in zip(order.axes, order.flipped, strict=True) if flipped}
    if "y" in over and attrs.get("rows") in _TURNED:
        attrs["rows"] = _TURNED[attrs["rows"]]
    return attrs


def _check_names(said: Mapping[str, Any], main: Arranged) -> None:
    """Check that an axis is calibrated that there is.

    Raises:
        OptionError: there is none of that name.
    """
    dims = main.dataset.dims if main.order is None else main.order.dims
    for name in said:
        if name not in dims:
            raise OptionError(
                f"{option_names('calibration')}: no axis is called {shown(name)}; there are {', '.join(dims) or 'none'}"
            )


def _calibrated(one: Arranged, said: Mapping[str, Any]) -> Arranged:
    """Return an array with what a user says of its axes, in place of what the files say."""
    dims = one.dataset.dims if one.order is None else one.order.dims
    before = one.dataset.attrs.get("calibration")
    known = {**(before if isinstance(before, Mapping) else {}), **{k: v for k, v in said.items() if k in dims}}
    made = altered(one.dataset, attrs={**one.dataset.attrs, "calibration": calibration.of_axes(known, dims)})
    return one._replace(dataset=made)
