"""Reads a zarr store with a library that had no part in writing it: tensorstore, else zarr-python."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import Any

import numpy as np

from vfs.errors import VerifyError
from vfs.model.region import Region


@dataclass(frozen=True)
class StoredZarr:
    """An array of a store on disk.

    Attributes:
        by: name of the library that reads it.
        shape, dtype: as the library says them.
    """

    by: str
    shape: tuple[int, ...]
    dtype: np.dtype
    _array: Any

    def read(self, region: Region) -> np.ndarray:
        """Read a box.

        Raises:
            VerifyError: it cannot be read.
        """
        try:
            part = self._array[region.slices]
            return np.asarray(part.read().result() if self.by == "tensorstore" else part)
        except Exception as error:  # each library has its own, and codecs have theirs
            raise VerifyError(f"cannot be read: {_first(error)}") from None


def open_stored(store: str, path: str) -> StoredZarr:
    """Open an array of a store, in either zarr format.

    Raises:
        VerifyError: it is not there, or cannot be opened.
    """
    folder = os.path.join(store, path)
    version = next((n for n, name in ((3, "zarr.json"), (2, ".zarray")) if os.path.isfile(f"{folder}/{name}")), None)
    if version is None:
        raise VerifyError(f"{folder}: no such array")
    try:
        return _tensorstore(folder, version) or _zarr(folder, version)
    except Exception as error:
        raise VerifyError(f"{folder}: cannot be opened: {_first(error)}") from None


def _tensorstore(folder: str, version: int) -> StoredZarr | None:
    """Open an array with tensorstore; None where that is not installed, or does not know the type of elements."""
    try:
        import tensorstore
    except ImportError:
        return None
    spec = {
        "driver": "zarr3" if version == 3 else "zarr",
        "kvstore": {"driver": "file", "path": f"{os.path.abspath(folder)}/"},
        "recheck_cached_data": False,
    }
    try:
        array = tensorstore.open(spec, open=True, read=True).result()
    except ValueError:
        return None
    return StoredZarr("tensorstore", tuple(array.shape), array.dtype.numpy_dtype, array)


def _zarr(folder: str, version: int) -> StoredZarr:
    import zarr

    array = zarr.open_array(folder, mode="r", zarr_format=3 if version == 3 else 2)
    return StoredZarr("zarr-python", array.shape, array.dtype, array)


def arrays_in(store: str) -> list[str]:
    """Return the paths of the arrays of a store, from its documents; chunks are not looked at."""
    found: list[str] = []
    folders = [""]
    while folders:
        path = folders.pop()
        for entry in sorted(os.scandir(os.path.join(store, path)), key=lambda entry: entry.name):
            name = f"{path}/{entry.name}".lstrip("/")
            if entry.is_dir():
                is_array = _is_array(entry.path)
                (found if is_array else folders).append(name)
    return sorted(found)


def _is_array(folder: str) -> bool:
    if os.path.isfile(f"{folder}/.zarray"):
        return True
    try:
        with open(f"{folder}/zarr.json", "rb") as file:
            return bool(json.load(file).get("node_type") == "array")
    except (OSError, ValueError, AttributeError):
        return False


def _first(error: Exception) -> str:
    """Return the first sentence of a message: tensorstore adds specifications of a screenful."""
    return str(error).partition(" [")[0].partition("\n")[0] or type(error).__name__
