"""Says what the frames of a set are, where its format does: people look at some kinds in other ways."""

from __future__ import annotations

import re

from vfs.model.stored import StoredArray

_BACKSCATTER = frozenset({"ebsp", "nordif", "edax"})
"""Formats of nothing else but patterns of electron backscatter diffraction."""
_EBSD = re.compile(r"(.*/)?EBSD/Data/[^/]+", re.IGNORECASE)


def is_backscatter(format: str, dataset: StoredArray) -> bool:
    """Return True for patterns of electron backscatter diffraction: they have no central disk.

    Args:
        format: name of the set's format.
    """
    if not dataset.nav_ndim or len(dataset.shape) != dataset.nav_ndim + 2:
        return False
    return format in _BACKSCATTER or bool(format == "hdf5" and dataset.main and _EBSD.fullmatch(dataset.path))
