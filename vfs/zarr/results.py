"""Writes results of one pass as the arrays of a zarr store, version 3."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

from vfs.hierarchy.documents import plain_json
from vfs.reduce.result import Result


def write_results(results: Mapping[str, Result], attrs: Mapping[str, Mapping[str, Any]], folder: str) -> None:
    """Write a store with an array for each result.

    Args:
        attrs: of each result, what its attribute `vfs` says.
        folder: is made.
    """
    import zarr
    from zarr.storage import LocalStore

    store = LocalStore(folder)
    root = zarr.create_group(store, zarr_format=3)
    for name, result in results.items():
        units = {"units": result.units} if result.units else {}
        made = root.create_array(
            name,
            shape=result.shape,
            dtype=result.dtype,
            dimension_names=result.dims,
            attributes=plain_json({"vfs": attrs[name], **units}),
        )
        made[...] = result.data
    with warnings.catch_warnings():
        # Zarr warns that its consolidated metadata of v3 is not in the specification yet
        warnings.simplefilter("ignore")
        zarr.consolidate_metadata(store)
