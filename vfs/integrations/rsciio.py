"""Opens data sets as RosettaSciIO's readers do, for HyperSpy: `hs.load("scan.hdr", file_format=vfs.rsciio, lazy=True)`.

Signals are named and calibrated as the arrays of the set: `vfs.VirtualArray.calibration`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any

import numpy as np

from vfs import api
from vfs.errors import VfsError
from vfs.faces.documents import plain_json
from vfs.integrations.signals import axes_of, signal_type, signals, slices_of
from vfs.integrations.upright import open_upright
from vfs.model.hyperspy_places import PLACES
from vfs.model.metadata import Said, said
from vfs.model.signatures import Path
from vfs.model.units import ENERGIES, factor, readable, symbol

__all__ = ["file_reader"]

_BINNED = ("EELS", "EDS_TEM", "EDS_SEM")
"""Types of spectra whose channels are counts between two energies."""
_LIGHT = {"channels", "objective.name", "objective.magnification", "objective.na"}
"""What only light microscopes say."""

_PROGRAMS = ("m", "1/m", "cm", "1/cm", "s", "rad")
"""Units that programs write whatever the size; people say 3.6 nm, not 3.6e-9 m."""


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


def _signal(array: api.VirtualArray, general: dict[str, str], lazy: bool, block: int | str) -> dict[str, Any]:
    axes = axes_of(array)
    kept = [k for k in axes.nav if array.shape[k] > 1] + [*axes.sig]
    key = tuple(0 if k in axes.nav and k not in kept else slice(None) for k in range(array.ndim))
    data: Any = array.dask(block)[key] if lazy else _in_memory(array[key])
    left = sorted(kept)
    if left != kept:
        data = data.transpose([left.index(k) for k in kept] + [len(left)] * axes.colour)
    kind = signal_type(array, axes)
    dataset = array._reader.dataset
    return {
        "data": _coloured(data) if axes.colour else data,
        "axes": [
            {**_axis(array, k, kind), "navigate": k in axes.nav, "index_in_array": at} for at, k in enumerate(kept)
        ],
        "metadata": _metadata(general, kind, said(dataset.terms, dataset.attrs), dataset.attrs),
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


def _original(array: api.VirtualArray) -> dict[str, Any]:
    """Return all that the files say; of files that are gone since they were opened, what opening read."""
    try:
        return dict(array.original_metadata)
    except VfsError:
        return dict(plain_json(array.attrs))


def _metadata(
    general: Mapping[str, str], kind: str, recorded: Mapping[str, Said], attrs: Mapping[str, Any]
) -> dict[str, Any]:
    """Return HyperSpy's metadata: what the files say, in its places and units; what it wrote itself as it is."""
    root, said = attrs.get("root"), attrs.get("metadata")
    places = [one.source.removeprefix("metadata:").replace(":", ".") for one in recorded.values()]
    own = isinstance(root, Mapping) and root.get("file_format") == "HyperSpy" and isinstance(said, Mapping)
    made: dict[str, Any] = plain_json(_of_hyperspy(said, {*places})) if own and isinstance(said, Mapping) else {}
    for group in ("General", "Signal"):
        made[group] = dict(made[group]) if isinstance(made.get(group), dict) else {}
    made["Signal"]["signal_type"] = kind
    sem = "instrument" in recorded and recorded["instrument"].value == "SEM"
    light = _LIGHT & recorded.keys() and "beam_energy" not in recorded  # HyperSpy has no places for it
    for name, one in recorded.items():
        theirs = PLACES.get(name, ())
        if not theirs or (name == "instrument" and one.value not in ("TEM", "STEM")):
            continue
        place, factor = theirs[-1] if (":SEM:" in one.source if own else sem) else theirs[0]
        if light and place.startswith("Acquisition_instrument."):
            continue
        *groups, field = place.split(".")
        value = one.value if factor == 1 or isinstance(one.value, str) else one.value * factor
        inside = made
        for group in groups:
            if not isinstance(inside.get(group), dict):
                inside[group] = {}
            inside = inside[group]
        inside[field] = value.split() if name == "elements" else value
    if "time" in recorded:
        date, _, clock = recorded["time"].value.partition("T")
        zone = re.search(r"Z$|[+-]\d\d:?\d\d$", clock)
        clock = clock[: zone.start()] if zone else clock
        made["General"] |= {"date": date} | ({"time": clock} if clock else {})
        if zone:
            made["General"]["time_zone"] = "UTC" if zone[0] in ("Z", "+00:00") else zone[0]
    made["General"] |= general
    return made


def _of_hyperspy(attrs: Mapping[str, Any], places: Set[str], above: str = "") -> dict[str, Any]:
    """Return the metadata that HyperSpy wrote into a file, but for places that are said in the vocabulary, and what
    begins with "_": how it stores lists and the like.
    """
    made: dict[str, Any] = {}
    for name, value in attrs.items():
        place = f"{above}{name}"
        if name.startswith("_") or (place in places and not isinstance(value, Mapping)):
            continue
        inner = _of_hyperspy(value, places, f"{place}.") if isinstance(value, Mapping) else value
        if inner != {}:
            made[name] = inner
    return made


def _axis(array: api.VirtualArray, axis: int, kind: str) -> dict[str, Any]:
    """Describe an axis: with a step, or with all positions where the steps are uneven."""
    dim, size = array.dims[axis], array.shape[axis]
    known = array.calibration.get(dim, {"scale": None, "offset": None, "unit": ""})
    if known["scale"] is None and "values" in known:
        positions = np.asarray(array.group[known["values"]][...])
        return {"_type": "DataAxis", "name": dim, "axis": positions, "units": symbol(known["unit"])}
    scale, offset = 1.0 if known["scale"] is None else known["scale"], known["offset"] or 0.0
    by, unit = _unit(known["unit"], abs(scale) * size, kind)
    made = {
        "_type": "UniformDataAxis",
        "name": dim,
        "size": size,
        "scale": scale * by,
        "offset": offset * by,
        "units": symbol(unit),
    }
    return made | ({"is_binned": True} if kind in _BINNED and known["unit"] in ENERGIES else {})


def _unit(unit: str, extent: float, kind: str) -> tuple[float, str]:
    """Choose the unit that people use for an axis. Returns what to multiply numbers by, and the unit then.

    Energies of X-rays are in keV, of electrons in eV. Other units stay as the file has them, but for those that
    programs write whatever the size.

    Args:
        extent: length of the axis, in `unit`.
    """
    if unit in ENERGIES and kind in _BINNED:
        wanted = "eV" if kind == "EELS" else "keV"
        return factor(unit, wanted) or 1.0, wanted
    return readable(extent, unit) if unit in _PROGRAMS and not 0.01 <= extent < 1000 else (1.0, unit)


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
