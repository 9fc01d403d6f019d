"""Opens data sets as RosettaSciIO's readers do, for HyperSpy: `hs.load("scan.hdr", file_format=vfs.rsciio, lazy=True)`.

Signals are named and calibrated as the arrays of the set: `vfs.VirtualArray.calibration`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from vfs.api.arrays import VirtualArray
from vfs.errors import VfsError
from vfs.faces.documents import plain_json
from vfs.integrations.signals import signals, slices_of
from vfs.integrations.upright import open_upright
from vfs.model.metadata import said
from vfs.model.signatures import Path
from vfs.sets.signals import axes_of, axis_of, metadata_of, signal_type

__all__ = ["file_reader"]


def file_reader(
    filename: Path, lazy: bool = False, *, block: int | str = "128MiB", **options: Any
) -> list[dict[str, Any]]:
    """Open a data set as a list of signals: the main array first, then the others; of Velox in RosettaSciIO's order.

    Of HDF5, which holds settings and masks too, arrays are signals that its program shows first, that have as many
    axes as the main array, or a calibrated axis. Time stamps, thumbnails and the like are no signals. Slices that
    Prismatic wrote for each depth are one signal. Axes of length 1 that navigate are left out; those that are stored
    behind y and x, or around that of spectra, navigate and come first. The top row of an image comes first;
    `flip_y=False` keeps the order of files that store the bottom one first (Merlin).

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
    made: list[tuple[str, Any, dict[str, Any]]] = []
    for array in [main] if asked else signals(main):
        dataset = array._reader.dataset
        own = dataset.label or dataset.path.removesuffix("/data")
        title = array.group.name if array is main and not asked and not dataset.label else f"{array.group.name} {own}"
        general = {"title": title, "original_filename": os.path.basename(filename)}
        made.append((slices_of(array), array.attrs.get("slice_depth"), _signal(array, general, lazy, block)))
    return list(_stacked(made))


def _signal(array: VirtualArray, general: dict[str, str], lazy: bool, block: int | str) -> dict[str, Any]:
    axes = axes_of(array._reader)
    kept = [k for k in axes.nav if array.shape[k] > 1] + [*axes.sig]
    key = tuple(0 if k in axes.nav and k not in kept else slice(None) for k in range(array.ndim))
    data: Any = array.dask(block)[key] if lazy else _in_memory(array[key])
    left = sorted(kept)
    if left != kept:
        data = data.transpose([left.index(k) for k in kept] + [len(left)] * axes.colour)
    kind = signal_type(array._reader, array.group._opened.opening.format, axes)
    dataset = array._reader.dataset
    return {
        "data": _coloured(data) if axes.colour else data,
        "axes": [
            {**axis_of(array._reader, k, kind, array.group), "navigate": k in axes.nav, "index_in_array": at}
            for at, k in enumerate(kept)
        ],
        "metadata": metadata_of(general, kind, said(dataset.terms, dataset.attrs), dataset.attrs),
        "original_metadata": _original(array),
        "mapping": {},
    }


def _stacked(made: Sequence[tuple[str, Any, dict[str, Any]]]) -> Iterator[dict[str, Any]]:
    """Yield signals; those that are slices of one thing, by its name, are one signal with an axis `depth` first.

    Args:
        made: for each array the name of what it is a slice of, its depth, and its signal.
    """
    together: dict[Any, list[tuple[Any, dict[str, Any]]]] = {}
    for number, (name, deep, signal) in enumerate(made):
        alike = name, signal["data"].shape, signal["data"].dtype, repr(signal["axes"])
        together.setdefault(alike if name else number, []).append((deep, signal))
    for alike, slices in together.items():
        depths, parts = zip(*slices, strict=True)
        first, data = parts[0], [part["data"] for part in parts]
        if len(parts) == 1:
            yield first
            continue
        if isinstance(data[0], np.ndarray):
            whole: Any = np.stack(data)
        else:
            import dask.array

            whole = dask.array.stack(data)
        depth = {"_type": "UniformDataAxis", "name": "depth", "size": len(parts), "scale": 1.0, "offset": 0.0}
        depth |= {"units": "", "navigate": True, "index_in_array": 0}
        if all(depths):
            offset, second = depths[0]["value"], depths[1]["value"]
            depth |= {"offset": offset, "scale": second - offset, "units": depths[0]["unit"]}
        axes = [{**axis, "index_in_array": axis["index_in_array"] + 1} for axis in first["axes"]]
        general = {**first["metadata"]["General"], "title": alike[0]}
        yield {**first, "data": whole, "axes": [depth, *axes], "metadata": {**first["metadata"], "General": general}}


def _original(array: VirtualArray) -> dict[str, Any]:
    """Return all that the files say; of files that are gone since they were opened, what opening read."""
    try:
        return dict(array.original_metadata)
    except VfsError:
        return dict(plain_json(array.attrs))


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
