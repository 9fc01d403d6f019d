"""Says where to go with what arrays of other libraries do and one in files does not."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from types import FrameType

_PART = "read a part first (a[…] is a numpy array), or a.dask() for all of it, a block at a time"
INSTEAD = (
    dict.fromkeys((name for name in dir(np.ndarray) if not name.startswith("_")), _PART)
    | {
        name: f"a.reduce({name}=vfs.{kind}()) makes it of all frames in one pass, numpy.{name}(a[…]) of a part"
        for name, kind in {
            "mean": "Mean",
            "sum": "Sum",
            "max": "Max",
            "min": "Min",
            "std": "Std",
            "var": "Variance",
        }.items()
    }
    | dict.fromkeys(("imshow", "hist"), "a.plot((10, 20)) draws a frame")
    | dict.fromkeys(("values", "data", "load"), "a[…] is a numpy array of a part, a.read() of all")
    | dict.fromkeys(("compute", "persist", "rechunk", "map_blocks"), "a.dask() has it")
    | dict.fromkeys(("sel", "isel", "coords", "to_dataset"), "a.xarray() has it")
    | dict.fromkeys(("inav", "isig", "axes_manager"), "hs.load(FILE, file_format=vfs.rsciio, lazy=True) is a signal")
    | dict.fromkeys(("scale", "units", "axes"), "a.calibration has scale, offset and unit of each axis of a.dims")
    | dict.fromkeys(("metadata", "meta", "header"), "a.attrs has the metadata of the format")
    | dict.fromkeys(("save", "export", "tofile"), 'vfs.export(FILE, "OUT.zarr") writes a zarr store')
    | {"close": "its files are closed when the last name of it goes: del a"}
)
"""What arrays of numpy, dask, xarray and HyperSpy have and one in files does not: what to do instead."""


OF_TWO_AXES = frozenset(("matplotlib", "pandas", "plotly", "seaborn"))
"""Libraries that draw or list numbers of one or two axes, and ask for all of an array before they say so."""
_BETWEEN = frozenset(("numpy", "vfs"))


def asker() -> str:
    """Return the library that has numpy make an array of ours. No protocol tells: `__array__` is asked by all alike."""
    frame: FrameType | None = sys._getframe(1)
    name = ""
    while frame is not None and (name := frame.f_globals.get("__name__", "").partition(".")[0]) in _BETWEEN:
        frame = frame.f_back
    return name
