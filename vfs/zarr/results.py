"""Writes results of one pass as the arrays of a zarr store, version 3: in a folder, or in a store of objects.

Objects are sent when the results are complete, and the document of the root last (`vfs.zarr.export.places`). While they
are sent there is an object `OUT.zarr.part`: what a process left that was killed meanwhile is known by it, and replaced.
The state of a long pass is an object `OUT.zarr.part.state`, and its journal `OUT.zarr.part.marks/` (`vfs.reduce.kept`).
"""

from __future__ import annotations

import errno
import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from io import BytesIO
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from vfs.errors import OptionError, VfsError
from vfs.faces.documents import plain_json
from vfs.model.result_values import ResultValues
from vfs.outputs.buckets import Bucket, bucket_name
from vfs.outputs.journals import MarksObjects
from vfs.outputs.outputs import check_target, unwritten, whole
from vfs.reduce.kept import StateFile, StatePlace
from vfs.reduce.saving import SAVERS, Saver
from vfs.reduce.spelling import attributes
from vfs.zarr.export.places import ROOTS


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


def check_free(target: str, replace: bool = False) -> None:
    """Check that a store can be made: see `vfs.outputs.outputs.check_target`.

    Raises:
        OptionError: it exists already, or cannot be written.
        DependencyError: obstore is not installed, for a URL.
    """
    url = bucket_name(target)
    if not url:
        check_target(target, replace)
        return
    if replace:
        return
    try:
        bucket = Bucket(url)
        taken = bucket.any(url) and not _left(bucket, url)
    except OSError as error:
        raise unwritten(url, error) from None
    if taken:
        raise OptionError(f"{url}: exists already; remove it, or give another name")


def _left(bucket: Bucket, url: str) -> bool:
    """Return True if the objects of a store were left by a process that was killed while it sent results.

    Raises:
        OSError: that cannot be found out.
    """
    begun, *roots = bucket.read_all([f"{url}{_SENDING}", *(f"{url}/{name}" for name in ROOTS)])
    return begun is not None and not any(roots)


_SENDING = ".part"


@contextmanager
def _whole(target: str) -> Iterator[str]:
    """Have a store appear only when it is complete: see `vfs.outputs.outputs.whole`."""
    url = bucket_name(target)
    if not url:
        with whole(target) as unfinished:
            yield unfinished
        return
    check_free(url)
    with TemporaryDirectory(prefix="vfs-results-") as folder:
        try:
            yield folder
            _send(folder, url)
        except VfsError:
            raise
        except OSError as error:
            raise unwritten(url, error) from None


def _send(folder: str, url: str) -> None:
    """Make objects of the files of a store, the document of the root last. What fails leaves nothing.

    Raises:
        OSError: one cannot be written.
    """
    bucket = Bucket(url)
    files = [os.path.join(below, name) for below, _, names in os.walk(folder) for name in names]
    objects = {f"{url}/{os.path.relpath(file, folder)}": file for file in files}
    roots = [f"{url}/{name}" for name in ROOTS]
    if _left(bucket, url):
        bucket.delete([name for name in bucket.sizes(url) if name not in objects])  # others are replaced
    try:
        bucket.write(f"{url}{_SENDING}", b"vfs reduce sends results, or was killed meanwhile\n")
        for last in (False, True):
            bucket.upload([(file, name) for name, file in objects.items() if (name in roots) is last])
        bucket.delete([f"{url}{_SENDING}"])
    except BaseException:
        with suppress(OSError):
            bucket.delete([*bucket.sizes(url), f"{url}{_SENDING}"])
        raise


SAVERS[".zarr"] = Saver(write_results, several=True, free=check_free, whole=_whole)


def state_place(target: str) -> StatePlace:
    """Return where the state of a pass is kept whose results are written to a name.

    Raises:
        OptionError: it is a URL that nothing is written to.
        DependencyError: obstore is not installed, for a URL.
    """
    url = bucket_name(target)
    return StateObject(url) if url else StateFile(target)


class StateObject(StatePlace):
    """Objects beside the target."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._bucket = Bucket(url)
        self.part = f"{url}{_SENDING}.state"

    def complete(self) -> bool:
        return any(self._bucket.read_all([f"{self._url}/{name}" for name in ROOTS]))

    def noted(self) -> bool:
        return self._bucket.any(self._marks)

    def there(self) -> bool:
        return self._bucket.read(self.part) is not None

    def journal(self) -> MarksObjects:
        return MarksObjects(self._bucket, self._marks, f"{self.part} and {self._marks}", "a reduction")

    def read(self) -> BytesIO:
        found = self._bucket.read(self.part)
        if found is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self.part)
        return BytesIO(found)

    def write(self, state: Mapping[str, Any]) -> None:
        file = BytesIO()
        np.savez(file, **state)
        self._bucket.write(self.part, file.getvalue())

    def remove(self) -> None:
        self._bucket.delete([self.part])

    @property
    def _marks(self) -> str:
        return f"{self._url}{_SENDING}.marks"
