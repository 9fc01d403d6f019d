"""Finds the bright-field disk for the page, and keeps it: see `vfs.reduce.bright_field`."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from vfs.engine.array import ArrayReader
from vfs.engine.cache import ChunkCache
from vfs.page.computing import picture_of, state_of
from vfs.page.scattering import geometry
from vfs.reduce.bright_field import CentralDisk, central_disk


def centre(array: ArrayReader, within: tuple[int, ...], cache: ChunkCache) -> CentralDisk:
    """Find the disk of a scan.

    Args:
        within: indices along the axes of the scan before the last two.
        cache: keeps it.

    Raises:
        OptionError: the array is no scan of frames with two axes of real numbers, or has no such part.
        SourceError: no frame can be read.
    """
    picture_of(array.shape[: array.dataset.nav_ndim], within)
    kept = cache.get(_key(array, within), lambda: np.array(_found(array, within)))
    return _of(kept)


def _found(array: ArrayReader, within: tuple[int, ...]) -> CentralDisk:
    """Find the disk; where the file says the centre of the beam, around that."""
    disk, said = central_disk(array, within), geometry(array)
    return disk if said is None else disk._replace(cy=said["centre"][0], cx=said["centre"][1])


def at_hand(array: ArrayReader, within: tuple[int, ...], cache: ChunkCache) -> CentralDisk | None:
    """Return what `centre` has found, None if it must look."""
    kept = cache.peek(_key(array, within))
    return None if kept is None else _of(kept)


def _of(kept: np.ndarray) -> CentralDisk:
    cy, cx, r, found = map(float, kept)
    return CentralDisk(cy, cx, r, bool(found))


def _key(array: ArrayReader, within: tuple[int, ...]) -> tuple[Hashable, ...]:
    return ("centre", *state_of(array), within)
