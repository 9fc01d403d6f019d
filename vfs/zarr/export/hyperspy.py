"""Writes the main array of a set as a signal of HyperSpy (.hspy), block by block.

The format: https://hyperspy.org/rosettasciio/file_specification/hspy.html.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from itertools import product
from typing import Any

import numpy as np

from vfs.engine.array import ArrayReader
from vfs.errors import OptionError
from vfs.faces.documents import plain_json
from vfs.model.metadata import said
from vfs.model.region import Region
from vfs.outputs.outputs import whole
from vfs.pictures.frames import FrameView
from vfs.reduce.saving import h5py_module
from vfs.sets.opening import OpenedSet
from vfs.sets.original import original
from vfs.sets.signals import SignalAxes, axes_of, axis_of, metadata_of, signal_type

BLOCK = 32 << 20
"""Bytes that are read at a time, about."""
CHUNK = 1 << 20
"""Bytes of a chunk in the file, about."""
MAX_ATTRIBUTE_LETTERS = 60_000
"""Bytes of a text in the metadata: HDF5 has no longer ones beside a group."""


def write(opened: OpenedSet, target: str, progress: Callable[[int, int], object] = lambda done, total: None) -> int:
    """Write the main array of a set as a signal.

    Its axes are those that HyperSpy's reader of vfs gives: navigation first, the top row of images first.

    Args:
        target: a name that ends in .hspy.
        progress: is called with the bytes that are done, and all.

    Returns: bytes of the file.

    Raises:
        OptionError: it cannot be written, or the array has no numbers.
        SourceError: it cannot be read.
        DependencyError: h5py is not installed.
    """
    h5py, array = h5py_module(), opened.main
    if array.dtype.kind not in "biufc" or not array.size or not array.ndim:
        raise OptionError(
            f"{array.dataset.path}: expected numbers for OUT.hspy, found {array.dtype}{list(array.shape)}"
        )
    axes = axes_of(array)
    order = [*axes.nav, *axes.sig, *([array.ndim - 1] if axes.colour else [])]
    over = array.dims.index("y") if FrameView.of(array).upward and "y" in array.dims else None
    shape = tuple(array.shape[k] for k in order)
    with whole(target) as partial:
        with h5py.File(partial, "w", libver="latest") as file:  # which holds any number of attributes
            made = _described(file, opened, axes, order, over)
            chunks = _box(shape, array.dtype.itemsize, CHUNK)
            data = made.create_dataset(
                "data", shape, array.dtype, chunks=chunks, compression="gzip", compression_opts=1, shuffle=True
            )
            for cuts, values in _blocks(array, order, chunks, progress):
                data[cuts] = values if over is None else np.flip(values, order.index(over))
        return os.path.getsize(partial)


def _box(shape: tuple[int, ...], itemsize: int, most: int) -> tuple[int, ...]:
    """Return the shape of a part of an array, of about so many bytes, whose last axes are whole."""
    made, room = [1] * len(shape), max(1, most // itemsize)
    for k in reversed(range(len(shape))):
        made[k] = min(shape[k], room)
        room //= made[k]
        if room < 1 or made[k] < shape[k]:
            break
    return tuple(made)


def _blocks(
    array: ArrayReader, order: list[int], chunks: tuple[int, ...], progress: Callable[[int, int], object]
) -> Iterator[tuple[tuple[slice, ...], np.ndarray]]:
    """Read an array in blocks of whole chunks, its axes in an order: where each lies in the file, and its numbers."""
    over = array.dims.index("y") if FrameView.of(array).upward and "y" in array.dims else None
    shape = tuple(array.shape[k] for k in order)
    block = [-(-n // c) * c for n, c in zip(_box(shape, array.dtype.itemsize, BLOCK), chunks, strict=True)]
    done = 0
    for start in product(*(range(0, n, step) for n, step in zip(shape, block, strict=True))):
        cuts = tuple(slice(a, min(a + step, n)) for a, step, n in zip(start, block, shape, strict=True))
        own = [slice(0, 0)] * array.ndim
        for k, axis in enumerate(order):
            first, last = cuts[k].start, cuts[k].stop
            own[axis] = slice(shape[k] - last, shape[k] - first) if axis == over else cuts[k]
        values = array.read(Region.of(own, array.shape))
        done += values.nbytes
        yield cuts, values.transpose(order)
        progress(done, array.nbytes)


def _described(file: Any, opened: OpenedSet, axes: SignalAxes, order: list[int], over: int | None) -> Any:
    """Write what a file says of its signal. Returns: the group that its numbers belong into."""
    array = opened.main
    dataset, kind = array.dataset, signal_type(array, opened.opening.format, axes)
    file.attrs["file_format"], file.attrs["file_format_version"] = "HyperSpy", "3.3"
    made = file.create_group(f"Experiments/{opened.name}")
    for at, k in enumerate(order):
        known: dict[str, Any] = {"_type": "UniformDataAxis", "name": array.dims[k], "size": array.shape[k], "units": ""}
        known |= {"scale": 1.0, "offset": 0.0, "is_binned": False}
        known |= axis_of(array, k, kind, opened.arrays)
        if k == over and array.calibration.get("y", {}).get("scale") is not None:
            known["offset"] = -(known["offset"] + known["scale"] * (array.shape[k] - 1))
        if known["_type"] == "DataAxis":
            known = {name: one for name, one in known.items() if name not in ("scale", "offset")}
        _noted(made.create_group(f"axis-{at}"), {**known, "navigate": k in axes.nav})
    general = {"title": opened.name, "original_filename": os.path.basename(opened.opening.paths[0])}
    metadata = metadata_of(general, kind, said(dataset.terms, dataset.attrs), dataset.attrs)
    _noted(made.create_group("metadata"), metadata)
    _noted(made.create_group("original_metadata"), plain_json(dict(original(opened.opening, opened.arrays))))
    made.create_group("learning_results")
    return made


def _noted(group: Any, values: Mapping[str, Any]) -> None:
    """Write metadata: groups of groups with attributes; lists as JSON."""
    for name, one in values.items():
        key = str(name).replace("/", "_") or "_"
        if isinstance(one, Mapping):
            _noted(group.require_group(key), one)
        elif isinstance(one, np.ndarray):
            group.create_dataset(key, data=one)
        elif one is not None:
            value = json.dumps(one) if isinstance(one, list | tuple) else one
            big = isinstance(value, int) and not -(1 << 63) <= value < 1 << 64
            text = str(value) if big else value
            group.attrs[key] = text.replace("\0", "")[:MAX_ATTRIBUTE_LETTERS] if isinstance(text, str) else text
