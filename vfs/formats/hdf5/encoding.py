"""Says HDF5's filters as codecs of numcodecs.

Most programs that read zarr know zlib, shuffle, zstd, blosc, bzip2 and Fletcher's checksum under names of their own.
HDF5's framing of bitshuffle, LZ4, LZF, szip and Blosc2 is nobody else's, so these are the codec `vfs.hdf5`
(`vfs.zarr.hdf5_codec`), with the number of the filter, its parameters, and the bytes that it makes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from vfs.errors import NotReferenceableError

CODEC = "vfs.hdf5"
"""Name of the codec of filters that numcodecs does not have, in zarr v3 and in numcodecs."""

_BLOSC = ("blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd")
"""Names of Blosc's compressors, by their numbers: https://github.com/Blosc/hdf5-blosc"""

_CHECKSUM = 4  # bytes


def codecs(filters: Sequence[tuple[int, str, Sequence[int]]], nbytes: int) -> tuple[Mapping[str, Any], ...]:
    """Return the codecs that a chunk went through, in the order of encoding.

    Args:
        filters: (number, name, parameters) of each, in the order of writing.
        nbytes: bytes of a chunk when it is decoded.

    Raises:
        NotReferenceableError: a filter of ours follows one that compresses, so that it does not say how many bytes it
            makes.
    """
    made = []
    size: int | None = nbytes
    for number, name, values in filters:
        known = _known(name, values, size)
        if known is None and size is None:
            raise NotReferenceableError(f"its chunks were compressed twice, the second time with {name}")
        made.append(known or {"id": CODEC, "filter": number, "values": list(values), "nbytes": size})
        if name == "fletcher32":
            size = None if size is None else size + _CHECKSUM
        elif name != "shuffle":
            size = None
    return tuple(made)


def _known(name: str, values: Sequence[int], size: int | None) -> Mapping[str, Any] | None:
    """Return a filter as a codec that numcodecs has; None if it has none.

    Args:
        size: bytes that the filter was given; None if they are not known.
    """
    level = values[0] if values else 1
    if name == "deflate":
        return {"id": "zlib", "level": level}
    if name == "shuffle" and size is not None and size % level == 0:  # otherwise numcodecs refuses what is left over
        return {"id": "shuffle", "elementsize": level}
    if name == "fletcher32":
        return {"id": "fletcher32"}
    if name == "bzip2":
        return {"id": "bz2", "level": level}
    if name == "zstd":
        return {"id": "zstd", "level": level}
    if name == "blosc":
        clevel, shuffle, code = (*values, 5, 1, 0)[4:7] if len(values) >= 7 else (5, 1, 0)
        return {"id": "blosc", "cname": _BLOSC[code], "clevel": clevel, "shuffle": shuffle, "blocksize": 0}
    return None
