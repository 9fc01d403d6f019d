"""xarray: the group as a data set, once through numpy and once through dask; integers stay what
they are, axes have names.
"""

from __future__ import annotations

from typing import Any

import xarray
from compare import main, source


def read(face: str, array: str) -> Any:
    group, _, name = array.rpartition("/")
    whole, lazy = (
        xarray.open_zarr(source(face), group=group or None, consolidated=True, chunks=chunks) for chunks in (None, {})
    )
    variable = whole[name]

    def get(region: tuple[slice, ...]) -> Any:
        found = variable[region].load().values
        if not (found == lazy[name][region].compute().values).all():
            raise SystemExit("numpy and dask see different elements")
        return found

    variables = sorted(map(str, whole.variables))
    return get, {
        "version": xarray.__version__,
        "dims": variable.dims,
        "encoded_fill": str(variable.encoding.get("_FillValue")),
        "variables": variables,
    }


if __name__ == "__main__":
    main(read)
