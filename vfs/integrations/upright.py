"""Opens data sets for doors that show them, the right side up."""

from __future__ import annotations

import warnings
from typing import Any

from vfs.api.arrays import VirtualArray
from vfs.api.opening import open
from vfs.errors import IncompleteWarning, OptionError
from vfs.formats import by_name
from vfs.model.signatures import Paths
from vfs.model.stored import BOTTOM_FIRST


def open_upright(paths: Paths, *, turn: bool = False, **options: Any) -> VirtualArray:
    """Open a data set; if its rows are stored bottom first, show the top one first.

    Args:
        turn: also of formats that have no `flip_y`, whose own programs draw rows upwards (MRC).
        options: what `vfs.open` takes. With `flip_y=False` rows stay in the order of the file.

    Raises:
        Exception: what `vfs.open` raises.
    """
    found = open(paths, **options)
    if found.attrs.get("rows") != BOTTOM_FIRST or "flip_y" in options:
        return found
    has = "flip_y" in by_name(found.group._opened.opening.format).options
    if not has and (not turn or "axes" in options):
        return found
    over = {"flip_y": True} if has else {"axes": ",".join("-y" if dim == "y" else dim for dim in found.dims)}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", IncompleteWarning)  # it was given above
            return open(paths, **{**options, **over})
    except OptionError:
        return found  # a description, which says itself how its set is opened
