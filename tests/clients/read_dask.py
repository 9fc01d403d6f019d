"""dask: a lazy array over a face, computed by threads."""

from __future__ import annotations

from typing import Any

import dask.array
from compare import main, source


def read(face: str, array: str) -> Any:
    lazy = dask.array.from_zarr(source(face), component=array)
    return lambda region: lazy[region].compute(scheduler="threads"), {
        "version": dask.__version__,
        "chunks": lazy.chunksize,
    }


if __name__ == "__main__":
    main(read)
