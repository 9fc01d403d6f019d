"""Finds elements by the nearest position along an axis whose positions are in no order, for xarray.

pandas finds the nearest one only where positions grow or fall. Tilt series are often recorded as 0°, 3°, -3°, -6°, 6° …
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import xarray
from xarray.indexes import PandasIndex


class UnsortedIndex(PandasIndex):
    """An index of different numbers in any order, for which `method="nearest"` and the like work."""

    def sel(self, labels: dict[Any, Any], method: Any = None, tolerance: Any = None) -> Any:
        (label,) = labels.values()
        if method is None or isinstance(label, slice):
            return super().sel(labels, method, tolerance)
        order = np.argsort(self.index.to_numpy())
        found = PandasIndex(self.index[order], self.dim, self.coord_dtype).sel(labels, method, tolerance)
        for dim, at in found.dim_indexers.items():
            plain = isinstance(at, xarray.Variable | xarray.DataArray)
            found.dim_indexers[dim] = at.copy(data=order[at.values]) if plain else order[at]
        return found


def in_any_order(made: xarray.Dataset, dims: Iterable[str]) -> xarray.Dataset:
    """Return a data set with such an index for those of its axes whose positions are numbers in no order."""
    for dim in dims:
        index = made.xindexes.get(dim)
        if type(index) is not PandasIndex or index.index.dtype.kind not in "iuf" or not index.index.is_unique:
            continue
        if not (index.index.is_monotonic_increasing or index.index.is_monotonic_decreasing):
            made = made.drop_indexes(dim).set_xindex(dim, UnsortedIndex)
    return made
