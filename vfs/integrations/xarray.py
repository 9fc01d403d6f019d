"""The engine `vfs` of xarray: `xarray.open_dataset("scan.hdr", engine="vfs")` finds it by its entry point.

`vfs.api.as_xarray` says what its data sets hold.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import xarray
from xarray.backends import BackendEntrypoint

from vfs.api.arrays import VirtualGroup
from vfs.api.as_xarray import ForXarray, datasets, main_dataset
from vfs.api.opening import open, open_group
from vfs.errors import VfsError
from vfs.formats import detect
from vfs.sources.local import LocalSources
from vfs.sources.names import absolute

TAKEN = (".h5", ".hdf5", ".hdf", ".he5", ".nc", ".nc4", ".cdf", ".tif", ".tiff", ".npy", ".zarr")
"""Endings of files that other tools open, or that say nothing of a detector: they need `engine="vfs"`."""
DECODERS = (
    "mask_and_scale",
    "decode_times",
    "decode_timedelta",
    "concat_characters",
    "use_cftime",
    "decode_coords",
)
"""Options of xarray for decoding: they apply to variables with attributes of netCDF. `decode_times` applies to all."""


class VfsBackend(BackendEntrypoint):
    """Opens data sets of vfs for xarray. Options of `vfs.open` are keyword arguments; `chunks` is xarray's own."""

    description = "Open detector files (Merlin MIB, DM, MRC, SEQ, …) without converting them"
    url = (Path(__file__).parents[1] / "docs" / "xarray.md").as_uri()
    open_dataset_parameters = ("filename_or_obj", "drop_variables", *DECODERS)
    supports_groups = True

    def guess_can_open(self, filename_or_obj: Any) -> bool:
        """Return True for a file that a format of vfs recognises, and that no other tool claims by its ending."""
        if not isinstance(filename_or_obj, str | os.PathLike):
            return False
        name = os.fspath(filename_or_obj)
        if name.lower().endswith(TAKEN) or not os.path.isfile(name):
            return False
        try:
            detect(LocalSources(), absolute(name))
        except VfsError:
            return False
        return True

    def open_dataset(
        self,
        filename_or_obj: Any,
        *,
        drop_variables: str | Iterable[str] | None = None,
        **options: Any,
    ) -> xarray.Dataset:
        """Open the main array of a set, and what stands beside it. Reads headers, and uneven axes.

        Args:
            filename_or_obj: what `vfs.open` takes as `paths`.
            drop_variables: names of variables that are left out.
            options: those of `vfs.open`, and of xarray for decoding (`DECODERS`): `decode_times=False`
                leaves time stamps as the numbers that are stored.

        Raises: what `vfs.open` raises, and SourceError where the positions along an uneven axis cannot be read.
        """
        decoders, own = _decoders(options)
        return main_dataset(_shown(open(filename_or_obj, **own).group), decoders, drop_variables)

    def open_groups_as_dict(
        self,
        filename_or_obj: Any,
        *,
        drop_variables: str | Iterable[str] | None = None,
        **options: Any,
    ) -> dict[str, xarray.Dataset]:
        """Open all arrays of a set, each once: path of a node -> Dataset. Arguments and errors as of `open_dataset`."""
        decoders, own = _decoders(options)
        return datasets(_shown(open_group(filename_or_obj, **own)), decoders, drop_variables)

    def open_datatree(self, filename_or_obj: Any, **options: Any) -> xarray.DataTree:
        """Open all arrays of a set as a tree. Arguments and errors as of `open_dataset`."""
        return xarray.DataTree.from_dict(self.open_groups_as_dict(filename_or_obj, **options))


def _shown(group: VirtualGroup) -> ForXarray:
    return ForXarray(group._opened, group.__getitem__)


def _decoders(options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Divide keyword arguments into those of xarray for decoding, and those of `vfs.open`."""
    decoders = {name: value for name, value in options.items() if name in DECODERS and value is not None}
    return decoders, {name: value for name, value in options.items() if name not in DECODERS}
