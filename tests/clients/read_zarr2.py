"""zarr-python 2, which knows the v2 face only: by its path (HOW ""), or by a URL (HOW "url", "url strict").

A URL makes it use fsspec, for which any OSError means that the chunk is not there; "strict" tells
it that only a missing file does.
"""

from __future__ import annotations

import os
from typing import Any

import zarr
from compare import how, is_url, main


def read(face: str, array: str) -> Any:
    if how() == "":
        store: Any = face
    else:
        missing = (KeyError, FileNotFoundError) if how() == "url strict" else (KeyError, PermissionError, OSError)
        url = face if is_url(face) else f"file://{os.path.abspath(face)}"
        store = zarr.storage.FSStore(url, mode="r", exceptions=missing)
    return zarr.open_consolidated(store, mode="r")[array].__getitem__, {"version": zarr.__version__}


if __name__ == "__main__":
    main(read)
