"""Reads a zarr store with a library that had no part in writing it: tensorstore, else zarr-python."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from zipfile import ZipFile, is_zipfile

import numpy as np

from vfs.errors import OptionError, VerifyError
from vfs.model.region import Region
from vfs.outputs.buckets import Bucket, bucket_name
from vfs.outputs.places import place_of
from vfs.outputs.sums import Mark, Subject
from vfs.outputs.zipped import is_sound
from vfs.sources.urls import place


@dataclass(frozen=True)
class StoredZarr:
    """An array of a store.

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


class StoreToRead:
    """A zarr store: a folder, a zip file, or objects.

    Args:
        name: of it, or its URL.

    Raises:
        OptionError: there is none.
        DependencyError: obstore is not installed, for a URL.
    """

    def __init__(self, name: str) -> None:
        url = bucket_name(name)
        self.name = url or name
        self._bucket = Bucket(url) if url else None
        self._zipped = not url and os.path.isfile(name)
        if not (self._bucket or os.path.isdir(name) or is_zipfile(name)):
            what = "another file" if os.path.exists(name) else "nothing"
            raise OptionError(f"{name}: expected a zarr store, a folder or a zip file, found {what}")
        if self._bucket:
            try:
                there = self._bucket.any(url)
            except OSError as error:
                raise OptionError(f"{name}: cannot be read: {error.strerror}") from None
            if not there:
                raise OptionError(f"{name}: expected a zarr store, found nothing")

    def open(self, path: str) -> StoredZarr:
        """Open an array, in either zarr format.

        Raises:
            VerifyError: it is not there, or cannot be opened.
        """
        names = [(3, "zarr.json"), (2, ".zarray")]
        version = next((n for n, name in names if self.document(f"{path}/{name}") is not None), None)
        if version is None:
            raise VerifyError(f"{os.path.join(self.name, path)}: no such array")
        try:
            return self._tensorstore(path, version) or self._zarr(path, version)
        except Exception as error:
            raise VerifyError(f"{os.path.join(self.name, path)}: cannot be opened: {_first(error)}") from None

    def arrays(self) -> list[str]:
        """Return the paths of the arrays, from their documents; chunks are not looked at."""
        found = {name.rpartition("/")[0] for name in self.sizes if name.endswith(("/zarr.json", "/.zarray"))}
        return sorted(path for path in found if self._is_array(path))

    def is_sound(self) -> bool:
        """Return False for a zip file whose list of files is damaged: see `vfs.outputs.zipped.is_sound`."""
        return not self._zipped or is_sound(self.name)

    def sums(self) -> tuple[Subject, Iterator[Mark]]:
        """Read the checksums beside the store: see `vfs.outputs.place.OutputPlace.read_sums`."""
        return place_of(self.name).read_sums()

    @cached_property
    def sizes(self) -> dict[str, int]:
        """Name of each file of the store -> its bytes.

        Raises:
            OptionError: they cannot be listed.
        """
        try:
            if self._bucket:
                return {url[len(self.name) + 1 :]: size for url, size in self._bucket.sizes(self.name).items()}
            if not self._zipped:
                return dict(_files(self.name))
        except OSError as error:
            raise OptionError(f"{self.name}: cannot be listed: {error.strerror}") from None
        try:
            with ZipFile(self.name) as archive:
                return {entry.filename: entry.file_size for entry in archive.infolist()}
        except Exception:  # see `is_sound`
            return {}

    def _tensorstore(self, path: str, version: int) -> StoredZarr | None:
        """Open an array with tensorstore; None where that is not installed, or does not know the type of elements.

        It takes credentials of stores of objects from elsewhere than obstore: zarr-python reads these. So it does
        shards in zip files: tensorstore 0.1.86 waits for ever for a part of a large file (2 MB came, 8 MB did not).
        """
        if self._bucket or (self._zipped and b"sharding_indexed" in (self.document(f"{path}/zarr.json") or b"")):
            return None
        try:
            import tensorstore
        except ImportError:
            return None
        where = {"driver": "file", "path": os.path.abspath(self.name)}
        kept = {"driver": "zip", "base": where, "path": f"{path}/"}
        spec = {
            "driver": "zarr3" if version == 3 else "zarr",
            "kvstore": kept if self._zipped else where | {"path": f"{where['path']}/{path}/"},
            "recheck_cached_data": False,
        }
        try:
            array = tensorstore.open(spec, open=True, read=True).result()
        except ValueError:
            return None
        return StoredZarr("tensorstore", tuple(array.shape), array.dtype.numpy_dtype, array)

    def _zarr(self, path: str, version: int) -> StoredZarr:
        import zarr

        where: Any = zarr.storage.ZipStore(self.name, mode="r") if self._zipped else self.name
        if self._bucket:
            from vfs.zarr.bucket_store import BucketStore

            where, path = BucketStore(self._bucket), f"{place(self.name).path}/{path}"
        array = zarr.open_array(where, path=path, mode="r", zarr_format=3 if version == 3 else 2)
        return StoredZarr("zarr-python", array.shape, array.dtype, array)

    def document(self, key: str) -> bytes | None:
        """Return a document; None if it is not there."""
        try:
            if self._bucket:
                return self._bucket.read(f"{self.name}/{key}")
            if self._zipped:
                with ZipFile(self.name) as archive:
                    return archive.read(key)
            with open(os.path.join(self.name, key), "rb") as file:
                return file.read()
        except Exception:  # zipfile raises half a dozen kinds for what is damaged
            return None

    def _is_array(self, path: str) -> bool:
        if self.document(f"{path}/.zarray") is not None:
            return True
        try:
            return bool(json.loads(self.document(f"{path}/zarr.json") or b"").get("node_type") == "array")
        except (ValueError, AttributeError):
            return False


def _files(top: str) -> Iterator[tuple[str, int]]:
    """Yield name and bytes of each file below a folder, in order."""
    for folder, folders, names in os.walk(top):
        folders.sort()
        for path in (os.path.join(folder, name) for name in sorted(names)):
            with suppress(FileNotFoundError):  # a link that leads nowhere
                yield os.path.relpath(path, top), os.stat(path).st_size


def _first(error: Exception) -> str:
    """Return the first sentence of a message: tensorstore adds specifications of a screenful."""
    return str(error).partition(" [")[0].partition("\n")[0] or type(error).__name__
