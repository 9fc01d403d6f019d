"""Says which arrays of a set HyperSpy takes for signals, and in which order."""

from __future__ import annotations

import re
from collections.abc import Iterator

from vfs.api.arrays import VirtualArray
from vfs.sets.signals import VELOX

_VELOX_ORDER = ("Spectrum", "Image", "EelsSpectrumImage", "SpectrumImage", "SpectrumStream")
_SLICE = re.compile(r"4DSTEM_simulation/data/\w+/(\w+)_depth\d{4}/\w+", re.ASCII)


def signals(main: VirtualArray) -> list[VirtualArray]:
    """Return the arrays of a set that are signals: the main one first, or in Velox's files all in RosettaSciIO's order.

    That order is: spectra, images, maps of spectra, each as the file sorts them.
    """
    found = [main, *_beside(main)]
    kinds = [VELOX.fullmatch(array._reader.dataset.path) for array in found]
    if not all(kinds) or main.group._opened.opening.options.first is not None:
        return found
    paths = [array._reader.dataset.path for array in found]
    places = [(_VELOX_ORDER.index(kind[1]), path) for kind, path in zip(kinds, paths, strict=True) if kind]
    return [found[k] for k in sorted(range(len(found)), key=places.__getitem__)]


def _beside(main: VirtualArray) -> Iterator[VirtualArray]:
    """Yield the arrays beside the main one that are signals.

    Companions, results, thumbnails, and what programs never show first are none. Of HDF5, which holds settings too,
    those are that its program shows first, or that have as many axes as the main array, or a calibrated one. An array
    with two names is one signal.
    """
    container = main.group._opened.opening.format == "hdf5"
    seen = {_stored(main)}
    for array in main.group.values():
        dataset = array._reader.dataset
        if dataset.companion or dataset.main is False or "level" in dataset.attrs or not (array.size and array.ndim):
            continue
        alike = array.ndim == main.ndim > 1
        known = any(one["scale"] is not None for one in array.calibration.values())
        if _stored(array) not in seen and (not container or dataset.main or alike or known):
            seen.add(_stored(array))
            yield array


def _stored(array: VirtualArray) -> tuple[int, int]:
    """Return what is the same for two names of one array: which objects say where it lies and how it decodes."""
    dataset = array._reader.dataset
    return id(dataset.layout), id(dataset.decoder)


def slices_of(array: VirtualArray) -> str:
    """Return the name of what an array is a slice of, as Prismatic writes one for each depth; "" of others."""
    slice = _SLICE.fullmatch(array._reader.dataset.path)
    return slice[1] if slice else ""
