"""Reads elements when xarray needs them, for `vfs.api.as_xarray`."""

from __future__ import annotations

from itertools import pairwise, product
from typing import Any, NamedTuple, Protocol

import numpy as np
from xarray.backends import BackendArray
from xarray.core import indexing

from vfs.errors import RegionError


class Indexed(Protocol):
    """Reads elements, and can be pickled: a `vfs.VirtualArray`."""

    @property
    def valid(self) -> np.ndarray:
        """bool[navigation shape]: where a frame is stored."""

    def __getitem__(self, key: Any) -> Any:
        """Read elements, by numpy's basic indexing."""


class LazyArray(BackendArray):
    """Reads an array when xarray needs elements; what it gives belongs to the caller.

    Lists of scan positions are read position by position, without those between. Along other axes,
    what lies between is read too: it is in the same frames.

    Args:
        array: reads the elements. shape, dtype, nav_ndim: of it.
    """

    def __init__(self, array: Indexed, shape: tuple[int, ...], dtype: np.dtype[Any], nav_ndim: int) -> None:
        self.array, self.nav_ndim = array, nav_ndim
        self.shape, self.dtype = shape, dtype

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
        return indexing.explicit_indexing_adapter(key, self.shape, indexing.IndexingSupport.OUTER, self.read)

    def read(self, key: tuple[Any, ...]) -> np.ndarray:
        """Read elements.

        Args:
            key: for each axis an integer, a slice, or int[n] positions, all of which are combined.

        Raises:
            RegionError: a position is outside of the array.
            SourceError: the source cannot be read.
        """
        if not any(isinstance(part, np.ndarray) for part in key):
            got = np.asarray(self.array[key])
            return got if got.flags.writeable else got.copy()  # a view would change with the file
        cuts = [
            _cuts(part, n, apart=axis < self.nav_ndim)
            for axis, (part, n) in enumerate(zip(key, self.shape, strict=True))
        ]
        out = np.empty([sum(cut.length for cut in axis) for axis in cuts], self.dtype)
        for box in product(*cuts):
            read = self.array[tuple(cut.read for cut in box)]
            for axis, cut in enumerate(box):
                read = read if cut.pick is None else read.take(cut.pick, axis)
            out[tuple(cut.to for cut in box)] = read
        return out[tuple(0 if isinstance(part, int | np.integer) else slice(None) for part in key)]


class _Cut(NamedTuple):
    """A part of an axis that is read at once.

    Attributes:
        read: the elements of the array.
        pick: which of these are wanted, int[length]; None: all, in their order.
        to: where they go in the output.
        length: how many they are.
    """

    read: slice
    pick: np.ndarray | None
    to: slice
    length: int


def _cuts(part: Any, n: int, apart: bool) -> list[_Cut]:
    """Divide what is wanted of an axis into parts that are read at once.

    Args:
        n: length of the axis.
        apart: elements that do not follow each other are read one by one.
    """
    if isinstance(part, slice) and part.indices(n)[2] > 0:
        return [_Cut(part, None, slice(None), len(range(n)[part]))]
    wanted = np.arange(*part.indices(n)) if isinstance(part, slice) else np.atleast_1d(part)
    if len(beyond := wanted[(wanted < -n) | (wanted >= n)]):
        raise RegionError(f"index {beyond[0]} is out of bounds for an axis of {n:,}")
    wanted = np.where(wanted < 0, wanted + n, wanted)
    edges = np.flatnonzero(np.diff(wanted) != 1) + 1 if apart else np.empty(0, np.int64)
    cuts = []
    for first, last in pairwise([0, *edges.tolist(), len(wanted)]):
        some = wanted[first:last]
        low, high = (int(some.min()), int(some.max()) + 1) if len(some) else (0, 0)
        pick = None if np.array_equal(some, np.arange(low, high)) else some - low
        cuts.append(_Cut(slice(low, high), pick, slice(first, last), len(some)))
    return cuts
