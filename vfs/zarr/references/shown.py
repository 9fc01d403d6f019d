"""Decides which arrays of a data set are referred to, and writes the documents of zarr that describe them so."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import numpy as np

from vfs.engine.array import ArrayReader
from vfs.errors import NotReferenceableError, TruncatedSourceError, printable, size
from vfs.faces.documents import fill_value
from vfs.faces.face import ZarrFace
from vfs.faces.references import References, references
from vfs.sets.opening import OpenedSet

if TYPE_CHECKING:
    from zarr.core.metadata.v3 import ArrayV3Metadata

COPIED = 1 << 20
"""Most bytes of an array whose elements are copied where nobody can refer to them, or only to a few bytes each."""

_SMALL = 1 << 10  # bytes of a chunk, below which a request costs more than a copy


@dataclass(frozen=True)
class ReferencedSet:
    """A data set as references show it.

    Attributes:
        attrs: attributes of the root group.
        main: path of the main array.
        referenced: path -> places of the chunks, of the arrays that are referred to.
        copied: path -> small arrays whose elements stand beside the references.
        left_out: path -> why an array is not there.
    """

    attrs: Mapping[str, Any]
    main: str
    referenced: Mapping[str, References]
    copied: Mapping[str, ArrayReader]
    left_out: Mapping[str, str]

    @property
    def count(self) -> int:
        """Number of references."""
        return sum(one.count - one.blank for one in self.referenced.values())

    @property
    def files(self) -> list[str]:
        """Names of the files that are referred to, each one once."""
        return list(dict.fromkeys(path for one in self.referenced.values() for path in one.array.dataset.files.paths))


def referenced_set(opened: OpenedSet, blank: bool = False, copies: bool = True) -> ReferencedSet:
    """Decide which arrays of a set can be referred to.

    Args:
        blank: see `vfs.faces.references.references`.
        copies: False to leave out small arrays that nobody can refer to.

    Raises:
        NotReferenceableError: the main array cannot.
        TruncatedSourceError: a file ends before its last chunk does.
        SourceError: small arrays cannot be read.
    """
    main = opened.tree.main
    referenced, copied, left_out = {}, {}, {}
    for path, array in opened.arrays.items():
        small = copies and array.nbytes <= COPIED and not array.dataset.computed and path != main
        try:
            found = references(array, chosen=opened.chosen(path), blank=blank)
            if small and found.count > 1 and array.nbytes < _SMALL * found.count:
                copied[path] = array
            else:
                referenced[path] = found
        except (NotReferenceableError, TruncatedSourceError) as error:
            if path == main and isinstance(error, TruncatedSourceError):
                raise
            if path == main:
                raise NotReferenceableError(
                    f"{opened.opening.paths[0]}: {path}: {error}. References need chunks that are in the files as they"
                    " are; `vfs export` to OUT.zarr writes a copy, and `vfs mount` needs none"
                ) from None
            if small:
                copied[path] = array
            else:
                left_out[path] = f"{error}" if copies else f"{error}, and its {size(array.nbytes)} are not copied"
    return ReferencedSet(opened.attrs, main, referenced, copied, left_out)


def documents(found: ReferencedSet, zarr_format: int) -> dict[str, dict[str, Any]]:
    """Return the documents of a set: key -> what the JSON file holds, without consolidated metadata.

    Args:
        zarr_format: 3 or 2.
    """
    arrays = {**{path: one.array for path, one in found.referenced.items()}, **found.copied}
    face = ZarrFace(arrays, {"": found.attrs}, zarr_format, found.main)
    made = {}
    for key, text in face.documents.items():
        folder, _, name = key.rpartition("/")
        if name == ".zmetadata":
            continue
        node = json.loads(text)
        node.pop("consolidated_metadata", None)
        if name == ".zarray" or node.get("node_type") == "array":
            node |= (_v3 if zarr_format == 3 else _v2)(folder, found, arrays[folder])
        made[key] = node
    return made


def array_metadata(node: dict[str, Any]) -> ArrayV3Metadata:
    """Return the document of an array in zarr v3 as zarr-python has it."""
    from zarr.core.metadata.v3 import (
        ArrayV3Metadata,  # kerchunk's references need no zarr, which takes a second to load
    )

    return ArrayV3Metadata.from_dict(node)


def _v2(path: str, found: ReferencedSet, array: ArrayReader) -> dict[str, Any]:
    """Return the entries of an array's document in which references differ from what a face shows."""
    one = found.referenced.get(path)
    if one is None:
        return {"chunks": list(_whole(array)), "dimension_separator": "."}
    # Codecs are all filters: readers of references (VirtualiZarr 2.5) do not take a compressor beside these
    filters = [dict(codec) for codec in one.encoding.codecs] or None
    return {
        "chunks": list(one.chunks),
        "dtype": one.encoding.dtype.str,
        "filters": filters,
        "fill_value": fill_value(array) if one.blank else None,  # a number masks in xarray, and makes floats
        "dimension_separator": ".",
    }


def _v3(path: str, found: ReferencedSet, array: ArrayReader) -> dict[str, Any]:
    one = found.referenced.get(path)
    chunks = _whole(array) if one is None else one.chunks
    grid = {"name": "regular", "configuration": {"chunk_shape": list(chunks)}}
    if one is None:
        return {"chunk_grid": grid}
    dtype = one.encoding.dtype
    order = {"configuration": {"endian": _order(dtype)}} if dtype.itemsize > 1 else {}
    codecs = [_codec_v3(codec, dtype.itemsize) for codec in one.encoding.codecs]
    return {"chunk_grid": grid, "codecs": [{"name": "bytes", **order}, *codecs]}


def _order(dtype: np.dtype) -> str:
    return "big" if dtype.newbyteorder(">") == dtype else "little"


def _codec_v3(codec: Mapping[str, Any], itemsize: int) -> dict[str, Any]:
    """Write a codec of numcodecs as zarr v3 names it: by a name of its own where there is one."""
    how = {name: value for name, value in codec.items() if name != "id"}
    name = codec["id"]
    if name == "zstd":
        how = {"level": how.get("level", 0), "checksum": False}
    elif name == "blosc":
        shuffle = ("noshuffle", "shuffle", "bitshuffle")[max(0, min(2, how.get("shuffle", 1)))]
        how |= {"typesize": itemsize, "shuffle": shuffle}
    elif "." not in name:
        name = f"numcodecs.{name}"
    return {"name": name, "configuration": how}


def _whole(array: ArrayReader) -> tuple[int, ...]:
    return tuple(max(1, n) for n in array.shape)


def copied_bytes(array: ArrayReader) -> bytes:
    """Return the elements of an array as the one chunk that its document describes: little-endian, in C order."""
    return np.ascontiguousarray(array.read()).astype(array.dtype.newbyteorder("<"), copy=False).tobytes()


def chunk_coordinates(one: References) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]:
    """Return the chunks of an array that lie in files, some at a time, in C order.

    Yields: (int64[n, ndim] coordinates, int64[n] file, int64[n] first byte, int64[n] bytes).
    """
    first = 0
    for file, offset, nbytes in one.tables():
        held = np.flatnonzero(file >= 0)
        at = np.unravel_index(held + first, one.counts) if one.counts else ()
        coordinates = np.stack(at, axis=1) if at else np.empty((len(held), 0), np.int64)
        yield coordinates, file[held], offset[held], nbytes[held]
        first += len(file)


def check_names(files: Iterable[str], whose: str, lacks: str = "") -> None:
    """Check that references can hold the names of files.

    Args:
        files: paths.
        whose: name of what is to hold them.
        lacks: characters that cannot be there, as in brackets of a regular expression. What is no UTF-8 never can.

    Raises:
        NotReferenceableError: one cannot be held.
    """
    odd = re.compile(f"[\ud800-\udfff{lacks}]")
    for path in files:
        if found := odd.search(path):
            raise NotReferenceableError(f"{printable(path)}: {whose} cannot name a file with {found[0]!r}; rename it")


def url(path: str, quoted: bool = True) -> str:
    """Return the URL of a file of a set, which is an absolute path or a URL already.

    Args:
        quoted: True to write characters that have a meaning in URLs with a percent sign. fsspec takes them as they are.
    """
    return f"file://{quote(path) if quoted else path}" if path.startswith("/") else path
