"""rasterio, which brings a GDAL of its own and knows images only: an image for each position of the leading axes."""

from __future__ import annotations

import itertools
import os
import warnings
from typing import Any

import numpy as np
import rasterio
from compare import NotOffered, expected_shape, is_url, is_v3, main
from rasterio.windows import Window


def read(face: str, array: str) -> Any:
    version = f"{rasterio.__version__} with GDAL {rasterio.__gdal_version__}"
    if is_v3(face) and [int(part) for part in rasterio.__gdal_version__.split(".")[:2]] < [3, 12]:
        raise NotOffered(version)  # 3.10 knows a draft of v3: "Unsupported codec: bytes"
    warnings.simplefilter("ignore", rasterio.errors.NotGeoreferencedWarning)
    where = f"/vsicurl/{face}" if is_url(face) else os.path.abspath(face)
    shape = expected_shape()
    images = {
        position: rasterio.open(f'ZARR:"{where}":/{array}' + "".join(f":{i}" for i in position))
        for position in itertools.product(*map(range, shape[:-2]))
    }

    def get(region: tuple[slice, ...]) -> Any:
        *lead, rows, columns = (range(*piece.indices(n)) for piece, n in zip(region, shape, strict=True))
        window = Window(columns.start, rows.start, len(columns), len(rows))
        found = [images[position].read(1, window=window) for position in itertools.product(*lead)]
        return np.array(found).reshape(*map(len, lead), len(rows), len(columns))

    return get, {"version": version}


if __name__ == "__main__":
    main(read)
