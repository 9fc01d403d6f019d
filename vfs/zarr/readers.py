"""Reads a zarr store with a library that had no part in writing it: tensorstore, else zarr-python."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import Any
from zipfile import BadZipFile, ZipFile

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

    Args:
        store: a folder, or a zip file.

    Raises:
        VerifyError: it is not there, or cannot be opened.
    """
    names = [(3, "zarr.json"), (2, ".zarray")]
    version = next((n for n, name in names if _document(store, f"{path}/{name}") is not None), None)
    if version is None:
        raise VerifyError(f"{os.path.join(store, path)}: no such array")
    try:
        return _tensorstore(store, path, version) or _zarr(store, path, version)
    except Exception as error:
        raise VerifyError(f"{os.path.join(store, path)}: cannot be opened: {_first(error)}") from None


def _tensorstore(store: str, path: str, version: int) -> StoredZarr | None:
    """Open an array with tensorstore; None where that is not installed, or does not know the type of elements."""
    try:
        import tensorstore
    except ImportError:
        return None
    where = {"driver": "file", "path": os.path.abspath(store)}
    kept = {"driver": "zip", "base": where, "path": f"{path}/"}
    spec = {
        "driver": "zarr3" if version == 3 else "zarr",
        "kvstore": kept if os.path.isfile(store) else where | {"path": f"{where['path']}/{path}/"},
        "recheck_cached_data": False,
    }
    try:
        array = tensorstore.open(spec, open=True, read=True).result()
    except ValueError:
        return None
    return StoredZarr("tensorstore", tuple(array.shape), array.dtype.numpy_dtype, array)


def _zarr(store: str, path: str, version: int) -> StoredZarr:
    import zarr

    where = zarr.storage.ZipStore(store, mode="r") if os.path.isfile(store) else store
    array = zarr.open_array(where, path=path, mode="r", zarr_format=3 if version == 3 else 2)
    return StoredZarr("zarr-python", array.shape, array.dtype, array)


def _document(store: str, key: str) -> bytes | None:
    """Return a document of a store; None if it is not there."""
    try:
        if os.path.isfile(store):
            with ZipFile(store) as archive:
                return archive.read(key)
        with open(os.path.join(store, key), "rb") as file:
            return file.read()
    except (OSError, KeyError, BadZipFile):
        return None


def arrays_in(store: str) -> list[str]:
    """Return the paths of the arrays of a store, from its documents; chunks are not looked at."""
    if os.path.isfile(store):
        with ZipFile(store) as archive:
            found = {os.path.dirname(name) for name in archive.namelist() if name.endswith(("/zarr.json", "/.zarray"))}
        return sorted(path for path in found if _is_array(store, path))
    arrays: list[str] = []
    folders = [""]
    while folders:
        path = folders.pop()
        for entry in sorted(os.scandir(os.path.join(store, path)), key=lambda entry: entry.name):
            name = f"{path}/{entry.name}".lstrip("/")
            if entry.is_dir():
                (arrays if _is_array(store, name) else folders).append(name)
    return sorted(arrays)


def _is_array(store: str, path: str) -> bool:
    if _document(store, f"{path}/.zarray") is not None:
        return True
    try:
        return bool(json.loads(_document(store, f"{path}/zarr.json") or b"").get("node_type") == "array")
    except (ValueError, AttributeError):
        return False


def _first(error: Exception) -> str:
    """Return the first sentence of a message: tensorstore adds specifications of a screenful."""
    return str(error).partition(" [")[0].partition("\n")[0] or type(error).__name__
