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

_MOST = 1 << 20  # most elements that are read


def read_small(
    sources: Sources, entry: StoredData, take: Callable[[Sequence[int]], Sequence[int]] = lambda whole: whole
) -> np.ndarray | None:
    """Read the elements of a small array, or of its first corner, flat.

    Returns None if there are too many, or they cannot be read.
    """
    shape = tuple(min(n, m) for n, m in zip(take(entry.shape), entry.shape, strict=True))
    if entry.dtype.kind not in "biuf" or np.prod(shape, dtype=object) > _MOST:
        return None
    region = Region.whole(shape)
    out = np.full(shape, entry.fill, entry.dtype.newbyteorder("="))
    layout = entry.layout
    try:
        if layout.whole:
            decoder = cast(BlockDecoder, entry.decoder)
            for box, stored, lead, (file, start, size, number) in cast(BlockLayout, layout).touched(region):
                made = decoder.decode_block(
                    np.frombuffer(read_at(sources, entry.files[file], size, start), np.uint8), number, stored
                )
                ends = [min(b, n) for b, n in zip(box.stop, shape, strict=True)]
                of = tuple(slice(p, p + e - a) for p, a, e in zip(lead, box.start, ends, strict=True))
                out[tuple(slice(a, e) for a, e in zip(box.start, ends, strict=True))] = made[of]
        else:
            rows = kernels.ranges.by_file(layout.read_ranges(region)[0])
            for file in np.unique(rows[:, FILE]).tolist():
                some = rows[rows[:, FILE] == file]
                start, stop = int(some[:, START].min()), int(some[:, STOP].max())
                if stop - start > 16 * _MOST:
                    return None
                data = np.frombuffer(read_at(sources, entry.files[file], stop - start, start), np.uint8)
                cast(Decoder, entry.decoder).decode(some, data, start, out.reshape(-1))
    except (VfsError, MemoryError):  # the axis gets no calibration; reading the array itself raises the error
        return None
    return out.reshape(-1)
