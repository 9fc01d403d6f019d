"""Writes a data set as a real zarr store, with the same groups, arrays, chunks, names and attributes.

It is compressed as zarr does by default. The store is written beside its final name and renamed when
it is complete, so a store with the final name is always complete. In zarr v3, chunks that hold only
the fill value are not written; readers fill them in.
"""

from __future__ import annotations

import json
import math
import os
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Any

from vfs.errors import OptionError
from vfs.formats import formats
from vfs.hierarchy.faces import ZarrFace
from vfs.outputs import whole

BATCH = 8 << 20
"""Bytes written at once, in whole chunks.

zarr compresses the chunks of a batch in several threads, and several batches are read ahead.
"""


def export(
    face: ZarrFace,
    target: str | os.PathLike[str],
    *,
    progress: Callable[[int], None] | None = None,
) -> int:
    """Write what a face shows as a zarr store in a folder.

    This takes memory for a few `BATCH`es, or for a few chunks if these are larger.

    Args:
        face: a zarr face of the data set.
        target: the folder to make. It must not exist, but the folder above it must.
        progress: is called with the number of bytes of the arrays that were written since its last
            call.

    Returns: bytes of the files that were written.

    Raises:
        OptionError: `target` exists already, cannot be written or has the ending of another format.
        SourceError: bytes of the data set cannot be read. Nothing is left behind.
    """
    check_store_name(target)
    documents = {key: json.loads(text) for key, text in face.documents.items()}
    with whole(target) as partial:
        with ThreadPoolExecutor(1) as writer:  # an interrupt waits until zarr has finished the present batch
            _write(face, partial, documents, writer, progress or (lambda done: None))
        return sum(
            os.path.getsize(os.path.join(folder, name)) for folder, _, names in os.walk(partial) for name in names
        )


def check_store_name(target: str | os.PathLike[str]) -> None:
    """Refuse a name whose ending says that it is a file of another format: a store is a folder.

    Raises:
        OptionError: it has such an ending.
    """
    path = os.fspath(target).rstrip("/")
    folder, name = os.path.split(path)
    endings = [*_OTHER_ENDINGS, *(ending for kind in formats().values() for ending in kind.extensions)]
    ending = max((end for end in endings if name.lower().endswith(end)), key=len, default="")
    if ending:
        stem = os.path.join(folder, name[: -len(ending)] or name.strip("."))
        raise OptionError(f"{path}: is the name of a {ending} file, and what is written is a zarr folder: {stem}.zarr")


_OTHER_ENDINGS = (".nc", ".npz", ".png", ".jpg", ".jpeg", ".csv", ".txt", ".json", ".zip", ".tar", ".gz", ".bz2")
"""Endings of files that vfs does not read as data sets, and that people may want."""


def _write(
    face: ZarrFace,
    folder: str,
    documents: dict[str, Any],
    writer: Executor,
    progress: Callable[[int], None],
) -> None:
    import zarr
    from zarr.storage import LocalStore

    v3 = face.zarr_format == 3
    store = LocalStore(folder)
    for group in face.groups:
        zarr.create_group(store, path=group, zarr_format=3 if v3 else 2, attributes=_attributes(documents, group, v3))
    root = zarr.open_group(store, mode="r+", zarr_format=3 if v3 else 2, use_consolidated=False)
    for path, array in sorted(face.arrays.items()):
        about: dict[str, Any]
        if v3:
            document = documents[f"{path}/zarr.json"]
            about = {
                "attributes": document["attributes"],
                "dimension_names": document["dimension_names"],
                "fill_value": array.fill,
            }
        else:  # no fill value, so every chunk is written
            about = {
                "attributes": documents[f"{path}/.zattrs"],
                "fill_value": None,
                "chunk_key_encoding": {"name": "v2", "separator": "/"},
            }
        made = root.create_array(
            path,
            shape=array.shape,
            dtype=array.dtype,
            chunks=array.chunks,
            config={"write_empty_chunks": not v3},
            **about,
        )
        for region, part in array.tiles(_batch(array.shape, array.chunks, array.dtype.itemsize)):
            writer.submit(made.__setitem__, region.slices, part).result()
            progress(part.nbytes)
    with warnings.catch_warnings():
        # Zarr warns that its consolidated metadata of v3 is not in the specification yet
        warnings.simplefilter("ignore")
        zarr.consolidate_metadata(store)


def _attributes(documents: dict[str, Any], path: str, v3: bool) -> dict[str, Any]:
    """Return the attributes of a group."""
    if v3:
        return dict(documents[f"{path}/zarr.json".lstrip("/")]["attributes"])
    return dict(documents.get(f"{path}/.zattrs".lstrip("/"), {}))


def _batch(shape: Sequence[int], chunks: Sequence[int], itemsize: int) -> tuple[int, ...]:
    """Return the shape of a batch: whole chunks that fit in `BATCH` bytes, along the fast axes first."""
    batch = list(chunks)
    for axis in reversed(range(len(shape))):
        times = BATCH // (math.prod(batch) * itemsize)
        if times < 2:
            break
        batch[axis] = min(max(1, shape[axis]), batch[axis] * times)
        if batch[axis] < shape[axis]:
            break
    return tuple(batch)
