"""GDAL's multidimensional interface from Python. HOW "no exceptions": as `osgeo.gdal` is before
version 4 where nobody calls UseExceptions().
"""

from __future__ import annotations

from typing import Any

import numpy as np
from compare import how, is_url, main
from osgeo import gdal


def read(face: str, array: str) -> Any:
    if how() != "no exceptions":
        gdal.UseExceptions()
    opened = gdal.OpenEx(f'ZARR:"/vsicurl/{face}"' if is_url(face) else face, gdal.OF_MULTIDIM_RASTER)
    variable = opened.GetRootGroup().OpenMDArrayFromFullname(f"/{array}")

    def get(region: tuple[slice, ...]) -> Any:
        bounds = [piece.indices(n)[:2] for piece, n in zip(region, variable.shape, strict=True)]
        return np.asarray(
            variable.ReadAsArray([first for first, _ in bounds], [last - first for first, last in bounds])
        )

    dims = [axis.GetName() for axis in variable.GetDimensions()]
    return get, {"version": gdal.__version__, "dims": dims}


if __name__ == "__main__":
    main(read)
