"""netCDF4-python over netCDF's NCZarr: the same C library as ncdump, and the way to a part of an array."""

from __future__ import annotations

import os
from typing import Any

import netCDF4
from compare import main


def read(face: str, array: str) -> Any:
    opened = netCDF4.Dataset(f"file://{os.path.abspath(face)}#mode=zarr,file")
    opened.set_auto_maskandscale(False)
    variable = opened[array]
    return variable.__getitem__, {
        "version": f"{netCDF4.__version__} with netCDF {netCDF4.getlibversion().split()[0]}",
        "dims": variable.dimensions,
    }


if __name__ == "__main__":
    main(read)
