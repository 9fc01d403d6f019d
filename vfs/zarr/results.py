"""Writes results of one pass as the arrays of a zarr store, version 3, in any place of `vfs.outputs.places`."""

from __future__ import annotations

import warnings
from collections.abc import Mapping

from vfs.faces.documents import plain_json
from vfs.model.result_values import ResultValues
from vfs.outputs.places import place_of
from vfs.reduce.saving import SAVERS, Saver
from vfs.reduce.spelling import attributes


def write_results(results: Mapping[str, ResultValues], folder: str) -> None:
    """Write a store with an array for each result.

    Args:
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
            attributes=plain_json({"vfs": attributes(result), **units}),
        )
        made[...] = result.data
    with warnings.catch_warnings():
        # Zarr warns that its consolidated metadata of v3 is not in the specification yet
        warnings.simplefilter("ignore")
        zarr.consolidate_metadata(store)


SAVERS[".zarr"] = Saver(
    write_results,
    several=True,
    free=lambda target, replace: place_of(target).check_free(replace),
    whole=lambda target: place_of(target).whole(),
)
