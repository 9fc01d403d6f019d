"""A parser for VirtualiZarr: `vfs.virtualizarr.Parser()(url, registry)` makes manifests of a data set's own files.

Manifests hold the places of chunks, so arrays must be stored as zarr knows chunks: `vfs.faces.references` says what
is. With them `virtualizarr.open_virtual_dataset` opens a set, joins it with others, and writes references of all.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

import numpy as np

from vfs.api.opening import open_group
from vfs.errors import DependencyError, IncompleteWarning, extra
from vfs.faces.references import References
from vfs.zarr.references.shown import array_metadata, check_names, documents, referenced_set, url

try:
    from virtualizarr.manifests import ChunkManifest, ManifestArray, ManifestGroup, ManifestStore
except ImportError as error:
    raise DependencyError(f"a parser for VirtualiZarr needs it: {extra('virtualizarr')} ({error})") from None

__all__ = ["Parser"]


class Parser:
    """Makes a `ManifestStore` of a data set.

    Small arrays that are decoded (time stamps in text) are left out with an `IncompleteWarning`: manifests cannot hold
    numbers.

    Args:
        blank: True to let readers fill in the chunks that no file holds.
        options: what `vfs.open_group` takes.
    """

    def __init__(self, *, blank: bool = False, **options: Any) -> None:
        self.blank = blank
        self.options = options

    def __repr__(self) -> str:
        options = {**({"blank": True} if self.blank else {}), **self.options}
        return f"vfs.virtualizarr.Parser({', '.join(f'{name}={value!r}' for name, value in options.items())})"

    def __call__(self, url: str, registry: Any) -> ManifestStore:
        """Open a data set, and find its chunks.

        Args:
            url: of a file that names its set: `file:///data/scan.hdr`, or a path.
            registry: an `ObjectStoreRegistry`, by which VirtualiZarr reads chunks from the URLs of files. To read any,
                it must have a store for these (`file://`).

        Raises:
            NotReferenceableError: the chunks of the main array are not single runs of bytes that zarr decodes, or a
                name has a character that VirtualiZarr does not read.
            VfsError: what `vfs.open_group` raises.
        """
        name = unquote(url.removeprefix("file://")) if url.startswith("file:///") else url
        found = referenced_set(open_group(name, **self.options)._opened, self.blank, copies=False)
        if found.left_out:
            said = "; ".join(f"{path} is omitted: {why}" for path, why in found.left_out.items())
            warnings.warn(said, IncompleteWarning, stacklevel=2)
        described = documents(found, 3)
        arrays = {
            path: ManifestArray(array_metadata(described[f"{path}/zarr.json"]), _manifest(one))
            for path, one in found.referenced.items()
        }
        return ManifestStore(_group("", arrays, described), registry=registry)


def _group(path: str, arrays: Mapping[str, ManifestArray], described: Mapping[str, Any]) -> ManifestGroup:
    """Return the group at a path ("" for the root), with all that is below it."""
    below = f"{path}/" if path else ""
    names = {key[len(below) :].partition("/")[0]: key for key in arrays if key.startswith(below)}
    own = {name: arrays[below + name] for name in names if below + name in arrays}
    groups = {name: _group(below + name, arrays, described) for name in names if name not in own}
    attributes = described.get(f"{below}zarr.json", {}).get("attributes", {})
    return ManifestGroup(arrays=own, groups=groups, attributes=attributes)


def _manifest(one: References) -> ChunkManifest:
    """Return the places of the chunks of an array.

    Raises:
        NotReferenceableError: VirtualiZarr cannot name a file.
    """
    files = one.array.dataset.files.paths
    check_names(files, "VirtualiZarr", r"\x00-\x1f\x7f#?")  # it takes names for URLs
    names = [url(path, quoted=False) for path in files]
    text = np.dtypes.StringDType()
    known = np.array([*names, ""], text)  # the last one is that of chunks that lie nowhere
    paths = np.empty(one.count, text)
    offsets, lengths = np.empty(one.count, np.uint64), np.empty(one.count, np.uint64)
    first = 0
    for file, offset, nbytes in one.tables():
        part = slice(first, first + len(file))
        paths[part], offsets[part], lengths[part] = known[file], offset, nbytes
        first += len(file)
    shape = one.counts
    return ChunkManifest.from_arrays(
        paths=paths.reshape(shape), offsets=offsets.reshape(shape), lengths=lengths.reshape(shape), validate_paths=False
    )
