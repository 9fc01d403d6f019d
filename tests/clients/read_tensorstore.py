"""tensorstore, a C++ library: either zarr format, from a folder or over HTTP."""

from __future__ import annotations

import importlib.metadata
import urllib.error
import urllib.request
from typing import Any

import tensorstore
from compare import is_v3, main


def has_v3(face: str) -> bool:
    """True where the root has a zarr.json."""
    if "://" not in face:
        return is_v3(face)
    try:
        return bool(urllib.request.urlopen(f"{face}/zarr.json").status == 200)
    except urllib.error.HTTPError:
        return False


def read(face: str, array: str) -> Any:
    where = (
        {"driver": "http", "base_url": f"{face}/{array}/"}
        if "://" in face
        else {"driver": "file", "path": f"{face}/{array}/"}
    )
    opened = tensorstore.open(
        {"driver": "zarr3" if has_v3(face) else "zarr", "kvstore": where}, open=True, read=True
    ).result()
    chunks = opened.chunk_layout.read_chunk.shape
    version = importlib.metadata.version("tensorstore")
    return lambda region: opened[region].read().result(), {
        "version": version,
        "dims": opened.domain.labels,
        "chunks": chunks,
    }


if __name__ == "__main__":
    main(read)
