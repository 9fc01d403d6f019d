"""Opens data sets for doors that show them, the right side up."""

from __future__ import annotations

import warnings
from typing import Any

from vfs import api
from vfs.errors import IncompleteWarning, OptionError
from vfs.model.signatures import Paths
from vfs.model.stored import BOTTOM_FIRST


def open_upright(paths: Paths, **options: Any) -> api.VirtualArray:
    """Open a data set; if its rows are stored bottom first, show the top one first.

    Args:
        options: what `vfs.open` takes. With `flip_y=False` rows stay in the order of the file.

    Raises:
        Exception: what `vfs.open` raises.
    """
    found = api.open(paths, **options)
    if found.attrs.get("rows") != BOTTOM_FIRST or "flip_y" in options:
        return found
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", IncompleteWarning)  # it was given above
            return api.open(paths, **{**options, "flip_y": True})
    except OptionError:
        return found  # a description, which says itself how its set is opened
