"""Says what the frames of a set are, where its format does: people look at some kinds in other ways."""

from __future__ import annotations

import re
from collections.abc import Sequence

from vfs.model.layout import altered
from vfs.model.stored import FrameImage, StoredArray
from vfs.sets.choosing import StoredSet

_BACKSCATTER = frozenset({"ebsp", "nordif", "edax"})
"""Formats of nothing else but patterns of electron backscatter diffraction."""
_EBSD = re.compile(r"((?:.*/)?EBSD/)Data/[^/]+", re.IGNORECASE)
_BACKGROUND = re.compile(r"(Header|Data)/(processed |raw )?(static[ _]?)?background", re.IGNORECASE)


def is_backscatter(format: str, dataset: StoredArray) -> bool:
    """Return True for patterns of electron backscatter diffraction: they have no central disk.

    Args:
        format: name of the set's format.
    """
    if not dataset.nav_ndim or len(dataset.shape) != dataset.nav_ndim + 2:
        return False
    return format in _BACKSCATTER or bool(format == "hdf5" and dataset.main and _EBSD.fullmatch(dataset.path))


def with_background(stored: StoredSet, found: Sequence[StoredArray], format: str) -> StoredSet:
    """Return the arrays of a set, the main one with the static background of its backscatter patterns, if there is one.

    Programs of electron backscatter diffraction keep it beside the patterns, in the header (`EBSD/Header`); NORDIF in a
    bitmap beside them.

    Args:
        found: all arrays of the files.
        format: name of the set's format.
    """
    main = stored.main
    if not main.nav_ndim:
        return stored
    hit = _EBSD.fullmatch(main.path)
    sig = main.shape[main.nav_ndim :]
    fitting = [one for one in found if one.shape == sig and _is_background(one.path, hit and hit[1], format)]
    if not fitting:
        return stored
    axes = range(len(sig))
    made = altered(main, background=FrameImage(fitting[0], tuple(axes), (False,) * len(axes)))
    return stored.with_main(made)


def _is_background(path: str, beside: str | None, format: str) -> bool:
    """Return True for the path of a static background; `beside`: path of the group of patterns and header, if any."""
    if beside is None:
        return format == "nordif" and path == "background"
    return path.startswith(beside) and _BACKGROUND.fullmatch(path[len(beside) :]) is not None
