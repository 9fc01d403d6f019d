"""Reads small arrays of an HDF5 file while it is being opened: vectors of axes, metadata."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

import numpy as np

from vfs import kernels
from vfs.errors import VfsError
from vfs.formats.hdf5.pieces import StoredData
from vfs.formats.headers import read_at
from vfs.kernels.columns import FILE, START, STOP
from vfs.model.decode import BlockDecoder, Decoder
from vfs.model.layout import BlockLayout
from vfs.model.region import Region
from vfs.model.sources import Sources

_MAX_ELEMENTS = 1 << 20  # most elements that are read
_GAP = 1 << 16  # bytes between two ranges that are read at once


def read_small(
    sources: Sources, entry: StoredData, take: Callable[[Sequence[int]], Sequence[int]] = lambda whole: whole
) -> np.ndarray | None:
    """Read the elements of a small array, or of its first corner, flat.

    Returns None if there are too many, or they cannot be read.
    """
    shape = tuple(min(n, m) for n, m in zip(take(entry.shape), entry.shape, strict=True))
    if entry.dtype.kind not in "biuf" or np.prod(shape, dtype=object) > _MAX_ELEMENTS:
        return None
    try:
        return read_region(sources, entry, Region.whole(shape)).reshape(-1)
    except (VfsError, MemoryError):  # the axis gets no calibration; reading the array itself raises the error
        return None


def read_region(sources: Sources, entry: StoredData, region: Region) -> np.ndarray:
    """Read the elements of a region, whose steps are 1; those that are not stored are the fill value.

    Raises:
        SourceError: they cannot be read.
        DecodeError: they cannot be decoded.
    """
    out = np.full(region.shape, entry.fill, entry.dtype.newbyteorder("="))
    layout = entry.layout
    if layout.whole:
        decoder = cast(BlockDecoder, entry.decoder)
        for box, stored, lead, (file, start, size, number) in cast(BlockLayout, layout).touched(region):
            data = np.frombuffer(read_at(sources, entry.files[file], size, start), np.uint8)
            made = decoder.decode_block(data, number, stored)
            low = [max(a, b) for a, b in zip(box.start, region.start, strict=True)]
            high = [min(a, b) for a, b in zip(box.stop, region.stop, strict=True)]
            of = tuple(slice(p + a - o, p + e - o) for p, o, a, e in zip(lead, box.start, low, high, strict=True))
            out[tuple(slice(a - o, e - o) for o, a, e in zip(region.start, low, high, strict=True))] = made[of]
        return out
    rows = kernels.ranges.by_file(layout.read_ranges(region)[0])
    for file in np.unique(rows[:, FILE]).tolist():
        some = rows[rows[:, FILE] == file]
        some = some[np.argsort(some[:, START], kind="stable")]
        reach = np.maximum.accumulate(some[:, STOP])
        for part in np.split(some, np.flatnonzero(some[1:, START] > reach[:-1] + _GAP) + 1):
            start, stop = int(part[:, START].min()), int(part[:, STOP].max())
            data = np.frombuffer(read_at(sources, entry.files[file], stop - start, start), np.uint8)
            cast(Decoder, entry.decoder).decode(np.ascontiguousarray(part), data, start, out.reshape(-1))
    return out
