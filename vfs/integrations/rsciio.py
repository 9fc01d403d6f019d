"""Opens data sets as RosettaSciIO's readers do, for HyperSpy: `hs.load("scan.hdr", file_format=vfs.rsciio, lazy=True)`.

Signals are named and calibrated as the arrays of the set: `vfs.VirtualArray.calibration`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from vfs import api
from vfs.faces.documents import plain_json
from vfs.integrations.upright import open_upright
from vfs.model.colours import coloured
from vfs.model.hyperspy_places import PLACES
from vfs.model.metadata import Said
from vfs.model.signatures import Path

__all__ = ["file_reader"]


def file_reader(
    filename: Path, lazy: bool = False, *, block: int | str = "128MiB", **options: Any
) -> list[dict[str, Any]]:
    """Open a data set as a list of signals.

    The main array is the first one. The others are the further arrays of the set; of HDF5, which
    holds settings and masks too, those that have as many axes. Time stamps and the like are no
    signals. Scan axes of length 1 are left out. The top row of an image comes first; `flip_y=False`
    keeps the order of files that store the bottom one first (Merlin).

    Args:
        filename: a file that names its set.
        lazy: make dask arrays, so that nothing is read but headers and the positions along uneven axes. Otherwise
            all data are read into memory.
        block: about how many bytes of data a block of a dask array has, as a number or as "64MiB".
        options: what `vfs.open` takes. With `array=` there is one signal, of this array.

    Returns: for each signal a dict with `data` (numpy or dask), `axes`, `metadata`, `original_metadata` and `mapping`,
        as https://hyperspy.org/rosettasciio/user_guide/interoperability.html describes them.

    Raises:
        DependencyError: dask is needed and not there.
        Exception: what `vfs.open` and, where all is read, `VirtualArray.read` raise.
    """
    main = open_upright(filename, **options)
    asked = options.get("array") is not None
    signals = []
    for array in [main] if asked else [main, *_beside(main)]:
        dataset = array._reader.dataset
        own = dataset.label or dataset.path.removesuffix("/data")
        title = array.group.name if array is main and not asked and not dataset.label else f"{array.group.name} {own}"
        general = {"title": title, "original_filename": os.path.basename(filename)}
        signals.append(_signal(array, general, lazy, block))
    return signals


def _beside(main: api.VirtualArray) -> Iterator[api.VirtualArray]:
    """Yield the arrays beside the main one that are signals."""
    container = main.group._opened.opening.format == "hdf5"
    for path, array in main.group.items():
        dataset = array._reader.dataset
        if path == main._reader.dataset.path or dataset.companion or dataset.computed or "level" in dataset.attrs:
            continue
        if array.size and array.ndim and (array.ndim == main.ndim or not container):
            yield array


def _signal(array: api.VirtualArray, general: dict[str, str], lazy: bool, block: int | str) -> dict[str, Any]:
    dataset = array._reader.dataset
    nav = dataset.nav_ndim if dataset.nav_ndim < array.ndim else max(0, array.ndim - 2)
    colour = array.ndim > 1 and array.dtype in ("u1", "u2") and coloured(array.dims[-1], array.shape[-1], array.attrs)
    kept = [k for k in range(array.ndim - colour) if k >= nav or array.shape[k] > 1]
    key = tuple(slice(None) if k in kept or k >= nav else 0 for k in range(array.ndim))
    data: Any = array.dask(block)[key] if lazy else _in_memory(array[key])
    if colour:
        data = _coloured(data)
    return {
        "data": data,
        "axes": [{**_axis(array, k), "navigate": k < nav, "index_in_array": at} for at, k in enumerate(kept)],
        "metadata": _metadata(general, dataset.recorded),
        "original_metadata": plain_json(dict(array.attrs)),
        "mapping": {},
    }


def _metadata(general: Mapping[str, str], recorded: Mapping[str, Said]) -> dict[str, Any]:
    """Return HyperSpy's metadata: what the files say, in its places and units."""
    made: dict[str, Any] = {"General": {}, "Signal": {"signal_type": ""}}
    sem = "instrument" in recorded and recorded["instrument"].value == "SEM"
    for name, one in recorded.items():
        places = PLACES.get(name, ())
        if not places or (name == "instrument" and one.value not in ("TEM", "STEM")):
            continue
        place, factor = places[-1] if sem else places[0]
        *groups, field = place.split(".")
        value = one.value if factor == 1 or isinstance(one.value, str) else one.value * factor
        inside = made
        for group in groups:
            inside = inside.setdefault(group, {})
        inside[field] = value
    if "time" in recorded:
        date, _, clock = recorded["time"].value.partition("T")
        made["General"] |= {"date": date} | ({"time": clock[:8]} if clock else {})
        if len(clock) > 8 and (zone := re.search(r"Z$|[+-]\d\d:\d\d$", clock)):
            made["General"]["time_zone"] = "UTC" if zone[0] in ("Z", "+00:00") else zone[0]
    made["General"] |= general
    return made


def _axis(array: api.VirtualArray, axis: int) -> dict[str, Any]:
    """Describe an axis: with a step, or with all positions where the steps are uneven."""
    dim = array.dims[axis]
    known = array.calibration.get(dim, {"scale": None, "offset": None, "unit": ""})
    if known["scale"] is None and "values" in known:
        positions = np.asarray(array.group[known["values"]][...])
        return {"_type": "DataAxis", "name": dim, "axis": positions, "units": known["unit"]}
    return {
        "_type": "UniformDataAxis",
        "name": dim,
        "size": array.shape[axis],
        "scale": 1.0 if known["scale"] is None else known["scale"],
        "offset": known["offset"] or 0.0,
        "units": known["unit"],
    }


def _in_memory(read: Any) -> np.ndarray:
    """Return what was read as an array that its owner may change."""
    values = np.asarray(read)
    return values if values.flags.writeable else values.copy()


def _coloured(data: Any) -> Any:
    """Turn a last axis of red, green, blue (and opacity) into one element of HyperSpy's dtypes rgb8, rgba16, …"""
    names = "RGBA"[: data.shape[-1]]
    dtype = np.dtype([(name, data.dtype) for name in names])
    if isinstance(data, np.ndarray):
        return _joined(data, dtype)
    return data.rechunk({data.ndim - 1: -1}).map_blocks(_joined, dtype, dtype=dtype, drop_axis=data.ndim - 1)


def _joined(samples: np.ndarray, dtype: np.dtype[Any]) -> np.ndarray:
    joined: np.ndarray = np.ascontiguousarray(samples).view(dtype)[..., 0]
    return joined
