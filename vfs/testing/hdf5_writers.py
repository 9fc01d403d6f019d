"""Writes tiny HDF5 files of programs that say what their axes are.

Each function takes numpy arrays, writes a file, and returns its path. It is the shortest counterpart of its reader.
h5py is imported when one is called.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

Step = tuple[float, float, str]
"""Offset of element 0, step, and unit of an axis."""


def write_nion(
    path: Path,
    data: np.ndarray,
    counts: tuple[bool, int, int] | None,
    axes: Sequence[Step],
    *,
    inside: str = "",
    more: Mapping[str, Any] | None = None,
) -> Path:
    """Write an array as Nion Swift does: an export if the file is called .nhdf, else as in a library.

    Args:
        counts: whether it is a sequence, axes of the scan, axes at each position; None: nothing is said.
        inside: where earlier versions described the data: "data_source" or "data_sources".
        more: further properties.
    """
    import h5py

    steps = [{"offset": at, "scale": step, "units": unit} for at, step, unit in axes]
    said: dict[str, Any] = {"dimensional_calibrations": steps}
    if counts is not None:
        said |= dict(zip(("is_sequence", "collection_dimension_count", "datum_dimension_count"), counts, strict=True))
    properties = {inside: [said] if inside.endswith("s") else said} if inside else said
    with h5py.File(path, "w") as file:
        made = file.create_dataset("data/0" if path.suffix == ".nhdf" else "data", data=data)
        made.attrs["properties"] = json.dumps({**properties, **(more or {})})
    return path


def write_abtem(path: Path, data: np.ndarray, axes: Sequence[tuple[str, Step | None]]) -> Path:
    """Write an array as the measurements of abTEM before version 1.0.

    Args:
        axes: name of each axis, and its steps; None for one without calibration.
    """
    import h5py

    known = [axis or (0.0, 0.0, "") for _, axis in axes]
    with h5py.File(path, "w") as file:
        file["array"] = data
        file["offset"], file["sampling"] = [one[0] for one in known], [one[1] for one in known]
        file["is_none"] = [axis is None for _, axis in axes]
        file.create_dataset("units", (len(axes),), "S10", [one[2].encode() for one in known])
        file.create_dataset("name", (len(axes),), "S10", [name.encode() for name, _ in axes])
    return path


def write_patterns(
    path: Path, patterns: np.ndarray, header: Mapping[str, Any], name: str = "Pattern", **how: Any
) -> Path:
    """Write patterns [n, y, x] of electron backscatter diffraction.

    Args:
        header: what the program says of the map.
        name: what it calls the patterns.
        how: how h5py stores them.
    """
    import h5py

    with h5py.File(path, "w") as file:
        file.create_dataset(f"1/EBSD/Data/{name}", data=patterns, **how)
        for key, value in header.items():
            file[f"1/EBSD/Header/{key}"] = value
    return path


def write_counted(
    path: Path,
    lists: Sequence[np.ndarray],
    scan: tuple[int, int],
    frame: tuple[int, int],
    places: np.ndarray | None = None,
    *,
    userblock: int = 0,
    **how: Any,
) -> Path:
    """Write lists of counted events, numbers of pixels, as stempy does.

    Args:
        scan: lines, positions of a line; frame: rows, columns.
        places: the position of each list; None: each position has as many, one behind the other.
        userblock: bytes before the HDF5 file proper.
        how: options of the data set.
    """
    import h5py

    elements = np.empty(len(lists), object)
    for k, events in enumerate(lists):
        elements[k] = events.astype("u4")
    with h5py.File(path, "w", userblock_size=userblock) as file:
        file.attrs["version"] = 2 if places is not None else 3
        said = np.arange(scan[0] * scan[1]) if places is None else places
        positions = file.create_dataset("electron_events/scan_positions", data=said)
        positions.attrs["Nx"], positions.attrs["Ny"] = scan[1], scan[0]
        frames = file.create_dataset("electron_events/frames", (len(lists),), h5py.vlen_dtype("u4"), **how)
        frames.attrs["Nx"], frames.attrs["Ny"] = frame
        frames[...] = elements
        file["stem/images"] = np.zeros((2, *scan), "u8")
    return path
