"""Reads references as their users do: none of these readers knows vfs, apart from a codec that zarr finds by itself."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any

import fsspec
import icechunk
import numpy as np
import zarr

import vfs
from vfs.errors import NotReferenceableError

icechunk.set_logs_filter("error")  # it warns of folders as storage


def by_fsspec(path: Path) -> zarr.Group:
    """Open kerchunk's references, in JSON or Parquet, by fsspec."""
    mapper = fsspec.filesystem("reference", fo=str(path), skip_instance_cache=True).get_mapper("")
    store = zarr.storage.FsspecStore.from_mapper(mapper)
    return zarr.open_group(store, mode="r", zarr_format=2, use_consolidated=False)


def by_icechunk(path: Path) -> zarr.Group:
    """Open an Icechunk repository; all folders that it names may be read."""
    storage = icechunk.local_filesystem_storage(str(path))
    config = icechunk.Repository.fetch_config(storage)
    assert config is not None
    folders: Any = config.virtual_chunk_containers
    access = getattr(icechunk.credentials, "LocalFileSystemAccess", None)  # Icechunk 2 wants a word, 1 has none
    repository = icechunk.Repository.open(storage, authorize_virtual_chunk_access=dict.fromkeys(folders, access))
    return zarr.open_group(repository.readonly_session("main").store, mode="r")


WAYS = {
    "refs.json": ("kerchunk", by_fsspec),
    "refs.parquet": ("kerchunk", by_fsspec),
    "refs.icechunk": ("icechunk", by_icechunk),
}
"""Name of what is written -> its kind, and what opens it."""


def written(data: Any, folder: Path, name: str, **options: Any) -> zarr.Group:
    """Write references, and open them."""
    to, opened = WAYS[name]
    vfs.export(data, folder / name, to=to, **options)
    return opened(folder / name)


def check(data: vfs.VirtualGroup, folder: Path, name: str, **options: Any) -> list[str]:
    """Check that references to a set read as vfs does. Return the paths of the arrays that are there."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what is left out; codecs that zarr v3 does not specify
        found = written(data, folder, name, **options)
        paths = [path for path in data if path in found]
        for path in paths:
            same(found[path], data[path])
    return paths


def same(found: Any, array: vfs.VirtualArray) -> None:
    """Check that two arrays hold the same bits."""
    expected, got = array[...], np.asarray(found[...])
    assert (got.shape, got.dtype.newbyteorder("=")) == (expected.shape, expected.dtype)
    native = np.ascontiguousarray(got.astype(expected.dtype))
    assert native.tobytes() == np.ascontiguousarray(expected).tobytes()


def sets_below(folder: Path) -> list[vfs.VirtualGroup]:
    """Open all sets in a folder, each by each file that names it."""
    found = []
    for above, _, names in sorted(os.walk(folder)):
        for name in sorted(names):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    found.append(vfs.open_group(f"{above}/{name}"))
                except vfs.VfsError:
                    continue
    return found


def refused(data: vfs.VirtualGroup, folder: Path, name: str) -> bool:
    """Return True if references to a set are refused. Otherwise they are written."""
    try:
        check(data, folder, name, blank=True)
    except NotReferenceableError:
        return True
    return False
