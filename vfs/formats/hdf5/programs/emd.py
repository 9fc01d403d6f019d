"""EMD, as NCEM, Prismatic and py4DSTEM write it: a group with the attribute `emd_group_type` holds an array.

emd_group_type      1 or "array": what stands in such a group is shown first, `data` before others; data cubes of
                    py4DSTEM before its other arrays
dim1, dim2 …        or dim0, dim1 …: vectors beside the array, of its axes, with attributes name and units
NAME_depth0000 …    Prismatic's outputs at several depths, the first one `zs` or, where that is 0, `ns` slices of `s` Å
                    deep (the program's options, which it writes as attributes), and the others `ns` slices more each
"""

from __future__ import annotations

import math
import re
from typing import Any

from vfs.formats.hdf5.program import Axes, Found, Program, axis_of
from vfs.h5.facts import Survey

_DIM = re.compile(r"dim\d+", re.ASCII)
_SLICE = re.compile(r"(4DSTEM_simulation/data/\w+/\w+_depth)(\d{4})/(?!dim\d+$)\w+", re.ASCII)
_SIMULATION = "4DSTEM_simulation/metadata/metadata_0/original/simulation_parameters"


def _first(found: Found, survey: Survey) -> list[str]:
    groups: dict[str, list[str]] = {
        path: [] for path, about in survey.groups.items() if about.get("emd_group_type") in (1, "1", "array")
    }
    cubes = [path for path in groups if survey.groups[path].get("python_class") == "DataCube" or "/datacubes/" in path]
    for name in found if groups else ():
        group, _, own = name.rpartition("/")
        if group in groups and not _DIM.fullmatch(own):
            groups[group].append(name)
    data = {path: [name for name in names if name.rpartition("/")[2] == "data"] for path, names in groups.items()}
    return [name for path in cubes or groups for name in data[path] or groups[path]]


def _axes(name: str, shape: tuple[int, ...], found: Found, survey: Survey) -> Axes | None:
    group, _, own = name.rpartition("/")
    if "emd_group_type" not in survey.groups.get(group, {}) or not shape or re.fullmatch(r"dim\d+", own):
        return None
    first = 0 if f"{group}/dim0" in survey.data else 1
    names = [f"{group}/dim{first + k}" for k in range(len(shape))]
    if not all(vector in survey.data for vector in names):
        return None
    return Axes(tuple(axis_of(vector, n, found, survey, short=True) for vector, n in zip(names, shape, strict=True)))


def _about(found: Found, survey: Survey) -> dict[str, dict[str, Any]]:
    """Return how deep in the specimen each of Prismatic's slices is, unless the last step is a shorter one."""
    said = survey.groups.get(_SIMULATION, {})
    slices = {name: place for name in found if (place := _SLICE.fullmatch(name))}
    try:
        step, start = float(said["ns"]) * float(said["s"]), float(said["zs"])
        thickness = float(said["t"][2]) * float(said["c"][0])
    except (KeyError, TypeError, ValueError, IndexError):
        return {}
    if not all(map(math.isfinite, (step, start, thickness))) or step <= 0:
        return {}
    counts = [place[1] for place in slices.values()]
    return {
        name: {"slice_depth": {"value": (start or step) + int(place[2]) * step, "unit": "Å"}}
        for name, place in slices.items()
        if math.isclose(thickness, counts.count(place[1]) * step, rel_tol=1e-4)
    }


PROGRAM = Program(first=_first, axes=_axes, about=_about)
