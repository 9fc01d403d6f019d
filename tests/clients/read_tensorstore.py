"""tensorstore, a C++ library: either zarr format, from a folder or over HTTP."""

from __future__ import annotations

import importlib.metadata
from typing import Any

import tensorstore
from compare import is_url, is_v3, main


def read(face: str, array: str) -> Any:
    where = (
        {"driver": "http", "base_url": f"{face}/{array}/"}
        if is_url(face)
        else {"driver": "file", "path": f"{face}/{array}/"}
    )
    few = {"http_request_retries": {"max_retries": 2}}  # it repeats broken connections for minutes
    driver = "zarr3" if is_v3(face) else "zarr"
    opened = tensorstore.open({"driver": driver, "kvstore": where, "context": few}, open=True, read=True).result()
    chunks = opened.chunk_layout.read_chunk.shape
    version = importlib.metadata.version("tensorstore")
    return lambda region: opened[region].read().result(), {
        "version": version,
        "dims": opened.domain.labels,
        "chunks": chunks,
    }


if __name__ == "__main__":
    main(read)
